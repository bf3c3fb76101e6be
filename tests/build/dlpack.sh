#!/bin/sh
# gpured_from_dlpack() against the dlpack.h that CPPFLAGS or the system has: clean under strict
# warnings in each language, and what dlpack.c checks.
. tests/build/lib.sh
warnings='-Wall -Wextra -Wconversion -Wsign-conversion -pedantic -Werror'
dlpack=tests/build/dlpack.c

refuses 'another dlpack.h is the one included' 'no/such_dlpack.h' \
  $CC -std=c99 -DGPURED_DLPACK '-DGPURED_DLPACK_H="no/such_dlpack.h"' -I. -fsyntax-only $dlpack

if ! printf '#include <dlpack/dlpack.h>\n' | $CC $CPPFLAGS -E - >/dev/null 2>&1; then
  skip 'DLPack: no dlpack/dlpack.h'
  finish
fi

program() { # NAME COMMAND...: compile, and run without a complaint
  name=$1; shift
  rm -f "$scratch/program"
  check "$name" "$@" -lm -o "$scratch/program"
  [ -x "$scratch/program" ] &&
    check "$name: runs" env LD_LIBRARY_PATH="$BUILD" "$scratch/program"
}
library="-L$BUILD -lgpured $LDFLAGS $LDLIBS"

program 'C99, GPURED_DLPACK after a first include' \
  $CC -std=c99 $warnings $CPPFLAGS $CFLAGS $OMPFLAG -I. $dlpack $library
program 'C99, a private copy' $CC -std=c99 $warnings $CPPFLAGS $OMPFLAG -I. -O0 -DGPURED_DLPACK \
  '-DGPURED_DLPACK_H=<dlpack/dlpack.h>' -DGPURED_STATIC -DGPURED_NO_SIMD $dlpack $LDFLAGS
check 'C11 with the implementation' $CC -std=c11 $warnings $CPPFLAGS $OMPFLAG -I. -DGPURED_DLPACK \
  -DGPURED_IMPLEMENTATION -fsyntax-only $dlpack
if has_cxx; then
  cp $dlpack "$scratch/dlpack.cpp"
  program 'C++11' $CXX -std=c++11 $warnings $CPPFLAGS $CXXFLAGS $OMPFLAG -I. -DGPURED_DLPACK \
    "$scratch/dlpack.cpp" $library
  check 'C++20 with the implementation' $CXX -std=c++20 $warnings $CPPFLAGS $OMPFLAG -I. \
    -DGPURED_DLPACK -DGPURED_IMPLEMENTATION -fsyntax-only "$scratch/dlpack.cpp"
else
  skip "C++: $CXX compiles nothing"
fi
finish
