#!/bin/sh
# What cppcheck, clang-tidy (.clang-tidy says which checks, and why not the others) and gcc -fanalyzer
# say of the header, the tests and the examples: nothing. LINT_TOOLS picks among them.
# The vector levels are the same text compiled again, so the header is read once, as scalar code.
. tests/build/lib.sh
tools=${LINT_TOOLS:-cppcheck clang-tidy gcc}
library="-std=c99 -DGPURED_NO_SIMD -I."
programs=$(ls tests/*.c examples/*.c tests/build/*.c | grep -v /cuda_) # those need CUDA

wants() {
  case " $tools " in *" $1 "*) ;; *) return 1 ;; esac
  command -v "$1" >/dev/null 2>&1 && return 0
  skip "lint: no $1"
  return 1
}

# One configuration of each file: the other sides of #if belong to compilers and devices that are
# not here. Style is .clang-format's and clang-tidy's.
cppcheck_on() {
  cppcheck --quiet --inline-suppr --error-exitcode=1 --enable=warning,performance,portability \
    --suppress=missingIncludeSystem --max-configs=1 -DGPURED_NO_SIMD -U__cplusplus -I. "$@"
}

# Results of the library come back through gpured_vector(const void *): the path-sensitive checks
# take every output of a program for unset. gcc -fanalyzer (for the rest) and the sanitizers look after
# those.
tidy_program() {
  clang-tidy --quiet --checks='-clang-analyzer-*' "$1" -- -std=c11 -DGPURED_NO_SIMD -I.
}

if wants cppcheck; then
  check 'cppcheck: gpured_omp.c' cppcheck_on --std=c99 -DGPURED_IMPLEMENTATION gpured_omp.c
  for file in $programs; do check "cppcheck: $file" cppcheck_on --std=c11 "$file"; done
fi
if wants clang-tidy; then
  check 'clang-tidy: gpured_omp.c' clang-tidy --quiet gpured_omp.c -- $library
  for file in $programs; do check "clang-tidy: $file" tidy_program "$file"; done
fi
# gcc as such, not $CC: clang has no such switch. With the kernels, whose loops are inlined into each
# other, the analyzer needs more than 8 GB; without them (section 10 becomes the declarations of its
# tables) the rest of the header is a matter of half a minute.
cat >"$scratch/kernels.h" <<'END'
extern const gpured__kernels gpured__kernels_f32_scalar, gpured__kernels_f64_scalar,
    gpured__kernels_u64_scalar;
extern const gpured__scan_kernels gpured__scan_kernels_f32_scalar, gpured__scan_kernels_f64_scalar,
    gpured__scan_kernels_u64_scalar, gpured__scan_kernels_p32_scalar,
    gpured__scan_kernels_p64_scalar;
END
# gcc 12 takes memory for lost that a function returns inside a struct, and outputs for unset as clang
# does: leaks are LeakSanitizer's, and unset values MemorySanitizer's.
not_of_programs='-Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value'
printf '#define GPURED_IMPLEMENTATION\n#include "gpured.h"\n' >"$scratch/sections.c"
analyze() {
  gcc -I. -I"$scratch" -fanalyzer -Werror -c "$@" -o "$scratch/x.o"
}

if wants gcc; then
  if echo 'int x;' | gcc -fanalyzer -x c -c - -o "$scratch/x.o" 2>/dev/null; then
    check 'gcc -fanalyzer: gpured.h without its kernels' analyze -O0 $library \
      -DGPURED_HEADER_NAME='"kernels.h"' "$scratch/sections.c"
    for file in $programs; do
      case $file in tests/test_tu2.c) continue ;; esac # the header again, with its kernels
      check "gcc -fanalyzer: $file" analyze -O1 -std=c11 $not_of_programs "$file"
    done
  else
    skip 'lint: gcc has no -fanalyzer'
  fi
fi
finish
