#!/bin/sh
# The header alone, as a project meets it that copies one file: clean under strict warnings in each
# language standard and mode, in two files of one program, and refusing flags that change values.
# HEADER_MODE=-fsyntax-only (default) or "-c -O1" (slower: also the warnings of the optimizer).
. tests/build/lib.sh
warnings='-Wall -Wextra -Wconversion -Wsign-conversion -pedantic -Werror'
mode=${HEADER_MODE:--fsyntax-only}
object="$scratch/header.o"
[ "$mode" = -fsyntax-only ] && object=/dev/null
printf '#include "gpured.h"\nint gpured_test_unit;\n' >"$scratch/unit.c"
cp "$scratch/unit.c" "$scratch/unit.cpp"

header() { # COMPILER STD EXTENSION MODE-MACRO
  set -- "$1" "$2" "$3" "$4" "header as $2${4:+ with $4} by $1"
  check "$5" $1 -std=$2 $warnings -I. ${4:+-D$4} $mode -o "$object" "$scratch/unit.$3"
}

program() { # NAME COMMAND...: compile and run
  name=$1; shift
  rm -f "$scratch/program"
  check "$name" "$@" -lm -o "$scratch/program"
  [ -x "$scratch/program" ] || return
  same "$name: result" '15.0 51.0 87.0 123.0' "$("$scratch/program")"
}

for macro in '' GPURED_IMPLEMENTATION GPURED_STATIC; do
  for std in c99 c11; do header "$CC" $std c "$macro"; done
done
check 'implementation without OpenMP' \
  $CC -std=c99 $warnings $OMPFLAG -DGPURED_NO_OPENMP -DGPURED_IMPLEMENTATION -I. -fsyntax-only \
  "$scratch/unit.c"
check 'implementation with OpenMP' \
  $CC -std=c99 $warnings $OMPFLAG -DGPURED_IMPLEMENTATION -I. -fsyntax-only "$scratch/unit.c"
refuses 'implementation under -ffast-math' '#error' \
  $CC -ffast-math -DGPURED_IMPLEMENTATION -I. -fsyntax-only "$scratch/unit.c"

# Windows' headers define these words, some as nothing. The next check needs none of its compilers.
check 'words that are macros in windows.h' \
  $CC -std=c99 $warnings $OMPFLAG -Dnear= -Dfar= -Dsmall=char -Dhyper=int -Dinterface=struct \
  -Dpascal= -Dcdecl= -DIN= -DOUT= -DOPTIONAL= -DCONST=const -DERROR=0 -DTRUE=1 -DFALSE=0 \
  '-Dmin(a,b)=(((a)<(b))?(a):(b))' '-Dmax(a,b)=(((a)>(b))?(a):(b))' -DGPURED_IMPLEMENTATION -I. \
  -fsyntax-only "$scratch/unit.c"

# The library of make is C with the user's flags, so C is not optimized here, and C++ a little.
user=tests/build/user.c other=tests/build/other.c
$CC -std=c99 $OMPFLAG -I. -O1 -c $other -o "$scratch/other.o"
$CC -std=c99 $OMPFLAG -I. -O1 -c $user -o "$scratch/user.o"
program 'two files, one with the implementation' \
  $CC -std=c99 $warnings $OMPFLAG -I. -O0 -DGPURED_IMPLEMENTATION $user "$scratch/other.o"
program 'the same without AVX-512' \
  $CC -std=c99 $warnings $OMPFLAG -I. -O0 -DGPURED_IMPLEMENTATION -DGPURED_NO_AVX512 $user \
  "$scratch/other.o"
same 'kernels for AVX-512 in it' 0 "$(nm "$scratch/program" | grep -c avx512)"
program 'two files with private copies' \
  $CC -std=c99 $warnings $OMPFLAG -I. -O0 -DGPURED_STATIC $user $other
program 'two files and the static library' \
  $CC -std=c99 $warnings $OMPFLAG "$scratch/user.o" "$scratch/other.o" "$BUILD/libgpured.a" $LIBS
rm -f "$scratch/golden"
check 'golden_check.c with the header alone' \
  $CC -std=c99 $warnings $OMPFLAG -DGPURED_CHECK_HEADER_ONLY tests/golden_check.c $LDLIBS -lm \
  -o "$scratch/golden"
check 'golden vectors with the header alone' "$scratch/golden"

# Another system's headers and types: Windows, by its cross compiler.
mingw=x86_64-w64-mingw32-gcc
if command -v $mingw >/dev/null; then
  for flags in '-fsyntax-only' '-fsyntax-only -fopenmp' '-fsyntax-only -include windows.h' \
    '-c -O1 -DGPURED_NO_SIMD'; do
    check "$mingw $flags" $mingw -std=c99 $warnings $flags -I. gpured_omp.c -o "$scratch/windows.o"
  done
  for std in c++11 c++20; do
    command -v ${mingw%gcc}g++ >/dev/null || { skip "$std for Windows: no ${mingw%gcc}g++"; continue; }
    check "${mingw%gcc}g++ -std=$std" ${mingw%gcc}g++ -std=$std $warnings -fsyntax-only \
      -DGPURED_IMPLEMENTATION -I. "$scratch/unit.cpp"
  done
else
  skip "Windows: no $mingw"
fi

if has_cxx; then
  for macro in '' GPURED_IMPLEMENTATION GPURED_STATIC; do
    for std in c++11 c++20; do header "$CXX" $std cpp "$macro"; done
  done
  cp $user "$scratch/user.cpp"
  cp $other "$scratch/other.cpp"
  program 'implementation in C++, second file in C' \
    $CXX -std=c++11 $warnings $OMPFLAG -I. -O1 -DGPURED_IMPLEMENTATION "$scratch/user.cpp" \
    "$scratch/other.o"
  program 'C++ files and the static library' \
    $CXX -std=c++20 $warnings $OMPFLAG -I. "$scratch/user.cpp" "$scratch/other.cpp" \
    "$BUILD/libgpured.a" $LIBS
else
  skip "C++: $CXX compiles nothing"
fi
finish
