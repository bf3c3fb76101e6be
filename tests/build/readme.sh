#!/bin/sh
# What README.md shows, done: its first C example is written to main.c in an empty folder beside the two
# files that a project copies, the library is installed, and each "cc" and "c++" line of the README is
# run there (plain code without optimization, to save time); every program must print what the README says.
# Lines that need more than that folder (a subtree, an object made by nvcc) are for ways.sh.
. tests/build/lib.sh
readme=$PWD/README.md project="$scratch/project" stage="$scratch/installed"
mkdir "$project"
cp gpured.h gpured_omp.c "$project"
awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' "$readme" >"$project/main.c"
cp "$project/main.c" "$project/main.cpp"
expected=$(sed -n 's/^prints `\(.*\)`.*/\1/p' "$readme" | head -n 1)
same 'the README says what its example prints' yes "$([ -n "$expected" ] && echo yes)"
check 'install' $MAKE -s --no-print-directory install DESTDIR= PREFIX="$stage" LIBDIR="$stage/lib" \
  INCLUDEDIR="$stage/include" PKGCONFDIR="$stage/lib/pkgconfig" MANDIR="$stage/share/man"
export PKG_CONFIG_PATH="$stage/lib/pkgconfig" LD_LIBRARY_PATH="$stage/lib"
check 'the example under -Wall -Wextra -pedantic' \
  $CC -std=c99 -Wall -Wextra -pedantic -Werror -O2 -c "$project/main.c" -o "$scratch/main.o"
same 'the parts of gpured_cuda.cu' \
  "$(seq -s ' ' 0 $(($(sed -n 's/^#define GPURED__PARTS //p' gpured_cuda.cu) - 1)))" \
  "$(sed -n 's/^for part in \(.*\); do$/\1/p' "$readme")"
grep -E '^(cc|c\+\+) ' "$readme" | grep -v -e third_party/ -e 'gpured_cuda\.o' >"$scratch/lines"
same 'compile lines in the README' yes "$([ "$(wc -l <"$scratch/lines")" -ge 6 ] && echo yes)"

cd "$project" || exit 1
while IFS= read -r line; do
  rm -f main
  case $line in
    *pkg-config*) command -v pkg-config >/dev/null || { skip "no pkg-config: $line"; continue; } ;;
  esac
  case $line in
    c++*) has_cxx || { skip "no C++ compiler: $line"; continue; }; run="$CXX ${line#c++ }" ;;
    *) run="$CC ${line#cc }" ;;
  esac
  # Without OpenMP in this build, the lines that use it cannot be tried.
  case $line in *-fopenmp*) [ -n "$OMPFLAG" ] || { skip "no OpenMP: $line"; continue; } ;; esac
  check "$line" sh -c "$(echo "$run" | sed 's/ -O2 / -O0 -DGPURED_NO_SIMD /')"
  same "$line: result" "$expected" "$(./main 2>&1)"
done <"$scratch/lines"
finish
