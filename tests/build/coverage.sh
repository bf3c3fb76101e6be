#!/bin/sh
# Branch coverage of gpured.h by the suite and the golden vectors on each vector path
# (tests/coverage.py says how copies of one line are counted). Needs clang, whose counters stand for
# conditions of the source: gcc's are those of the code after inlining, one for each copy.
# COVERAGE_LEVELS: the paths; one that the processor lacks falls back to a lower one.
. tests/build/lib.sh
clang=${CLANG:-clang}
profdata=${LLVM_PROFDATA:-llvm-profdata}
cov=${LLVM_COV:-llvm-cov}
python=${PYTHON:-python3}
# Threads lose some of each other's counts; with -fprofile-update=atomic the suite takes many times as
# long. How often a condition is false is a difference of counts, so a rare one may seem never so.
flags='-O1 -w -I. -pthread -fprofile-instr-generate'
for tool in "$clang" "$profdata" "$cov" "$python"; do
  if ! command -v "$tool" >/dev/null 2>&1; then
    skip "coverage: no $tool"
    finish
  fi
done
printf '#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n' >"$scratch/omp.c"
if "$clang" -fopenmp "$scratch/omp.c" -o "$scratch/omp" 2>/dev/null; then flags="$flags -fopenmp"; fi
# Threads that wait for work give their processor up: many tests ask for more than there are.
export KMP_BLOCKTIME=0

made=${BUILD:-build}/coverage
mkdir -p "$made"
rm -f "$made"/*.profraw
if [ ! "$made/library.o" -nt gpured.h ]; then
  check 'library' "$clang" -std=c99 $flags -fcoverage-mapping -c gpured_omp.c -o "$made/library.o"
fi
test_flags="-std=c11 $flags -DTEST_PTHREADS -DGPURED_NO_SIMD -ffp-contract=off"
sources="tests/runner.c tests/oracle.c tests/util.c $(echo tests/test_*.c)"
check 'suite' "$clang" $test_flags $sources "$made/library.o" -lm -o "$made/suite"
check 'golden_check' "$clang" $test_flags tests/golden_check.c "$made/library.o" -lm \
  -o "$made/golden_check"

# run NAME LEVEL PROGRAM: counts go to a file of their own; LEVEL '' leaves GPURED_CPU unset.
run() {
  (unset GPURED_CPU
  if [ -n "$2" ]; then export GPURED_CPU="$2"; fi
  LLVM_PROFILE_FILE="$made/$1.profraw" exec "$made/$3")
}
check 'golden vectors' run golden '' golden_check
check 'golden vectors, a path that does not exist' run golden-none none golden_check
for level in ${COVERAGE_LEVELS:-avx512 avx2 sse2 scalar}; do
  check "golden vectors on $level" run "golden-$level" "$level" golden_check
  check "suite on $level" run "suite-$level" "$level" suite
done
check 'profile' "$profdata" merge -sparse "$made"/*.profraw -o "$made/profile"
check 'export' sh -c '"$1" export "$2" -instr-profile="$3" >"$4"' sh "$cov" "$made/suite" \
  "$made/profile" "$made/export.json"
if [ "$failed" -ne 0 ]; then finish; fi
"$python" tests/coverage.py <"$made/export.json"
