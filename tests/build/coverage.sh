#!/bin/sh
# Branch coverage of gpured.h by the suite, the golden vectors and the self-test, on each vector path
# (tests/coverage.py says how copies of one line are counted). Needs clang, whose counters stand for
# conditions of the source: gcc's are those of the code after inlining, one for each copy.
# COVERAGE_LEVELS: the paths, widest first; a path that the processor lacks falls back to a lower one.
. tests/build/lib.sh
clang=${CLANG:-clang}
profdata=${LLVM_PROFDATA:-llvm-profdata}
cov=${LLVM_COV:-llvm-cov}
levels=${COVERAGE_LEVELS:-avx512 avx2 sse2 scalar}
flags='-O1 -w -I. -pthread -fprofile-instr-generate'
for tool in "$clang" "$profdata" "$cov" "${PYTHON:-python3}"; do
  if ! command -v "$tool" >/dev/null 2>&1; then
    skip "coverage: no $tool"
    finish
  fi
done
printf '#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n' >"$scratch/omp.c"
if "$clang" -fopenmp "$scratch/omp.c" -o "$scratch/omp" 2>/dev/null; then flags="$flags -fopenmp"; fi

made=${BUILD:-build}/coverage
mkdir -p "$made"
rm -f "$made"/*.profraw
check 'library' "$clang" -std=c99 $flags -fcoverage-mapping -c gpured_omp.c -o "$made/library.o"
sources=$(ls tests/*.c | grep -v -e golden_ -e npy_)
check 'suite' "$clang" -std=c11 $flags -ffp-contract=off -DTEST_PTHREADS $sources "$made/library.o" -lm \
  -o "$made/suite"
check 'golden_check' "$clang" -std=c11 $flags -ffp-contract=off tests/golden_check.c "$made/library.o" \
  -lm -o "$made/golden_check"
for level in $levels; do
  LLVM_PROFILE_FILE="$made/golden-$level.profraw" GPURED_CPU=$level \
    check "golden_check on $level" "$made/golden_check"
  LLVM_PROFILE_FILE="$made/suite-$level.profraw" GPURED_CPU=$level \
    check "suite on $level" "$made/suite"
done
check 'profile' "$profdata" merge -sparse "$made"/*.profraw -o "$made/profile"
check 'export' sh -c '"$1" export "$2" -instr-profile="$3" >"$4"' sh "$cov" "$made/suite" "$made/profile" \
  "$made/export.json"
if [ "$failed" -ne 0 ]; then finish; fi
"${PYTHON:-python3}" tests/coverage.py <"$made/export.json"
