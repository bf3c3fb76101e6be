#!/bin/sh
# The vectors and tests of the suite under the sanitizers that need a build of their own, and under
# Valgrind. SANITIZERS names some of:
#   thread    data races: clang, LLVM's OpenMP, whose Archer explains its barriers; every call is
#             given to threads, however small it is
#   memory    unset values: clang, without OpenMP, whose runtime sets memory unseen
#   integer   undefined behaviour, and conversions that change a value
#   valgrind  the programs that make has built, with their vector code as far as Valgrind knows it
#   cuda      the same on a GPU, under the four tools of compute-sanitizer; JOBS=4 processes at a time
# FULL=1 runs the whole suite where otherwise those tests run that reach most for their time.
# All but Valgrind read scalar code: the vector levels are the same text. tests/build/planted.c shows
# first that each tool reports what is wrong.
. tests/build/lib.sh
clang=${CLANG:-clang}
plain='-std=c11 -O1 -g -w -I. -pthread -DTEST_PTHREADS -DGPURED_NO_SIMD -ffp-contract=off'

wants() { case " ${SANITIZERS:-thread memory integer valgrind} " in *" $1 "*) ;; *) return 1 ;; esac; }
full() { if [ "${FULL:-0}" = 1 ]; then echo "$1"; else echo "$2"; fi; }

# program NAME FLAGS...: can the compiler make planted.c so?
program() {
  name=$1; shift
  "$clang" -O1 -g -w "$@" tests/build/planted.c -o "$scratch/$name" >"$scratch/log" 2>&1
}

# suite NAME LIBRARY-FLAGS -- TEST-FLAGS: $scratch/NAME-suite and $scratch/NAME-golden. What the tests
# compare with takes most of their time: it is optimized, and may have oracle_flags in place of
# theirs. test_tu2.c, which has the implementation once more, is not.
suite() {
  made=$scratch/$1 library=; shift
  while [ "$1" != -- ]; do library="$library $1"; shift; done
  shift
  check "$made: library" "$clang" $plain $library -c gpured_omp.c -o "$made-library.o"
  mkdir -p "$made-tests"
  for file in tests/golden_check.c tests/runner.c tests/test_*.c; do
    level=
    [ "$file" = tests/test_tu2.c ] && level=-O0
    check "$made: $file" "$clang" $plain "$@" $level -c "$file" \
      -o "$made-tests/$(basename "$file" .c).o"
  done
  for file in oracle util; do
    check "$made: tests/$file.c" "$clang" $plain ${oracle_flags-$*} -O2 -c "tests/$file.c" \
      -o "$made-tests/$file.o"
  done
  mv "$made-tests/golden_check.o" "$made-golden.o"
  check "$made: suite" "$clang" $library -pthread "$made"-tests/*.o "$made-library.o" -lm \
    -o "$made-suite"
  check "$made: golden" "$clang" $library -pthread "$made-golden.o" "$made-library.o" -lm \
    -o "$made-golden"
}

if wants thread; then
  tsan='-fsanitize=thread -fopenmp'
  export TSAN_OPTIONS="suppressions=$PWD/tests/build/thread.supp" OMP_NUM_THREADS=3
  if ! program race $tsan -DPLANT_RACE; then skip "thread: $clang has no ThreadSanitizer with OpenMP"
  elif ! program ordered $tsan || ! ARCHER_OPTIONS=verbose=1 "$scratch/ordered" 2>&1 |
    grep -q '^Archer detected'; then skip 'thread: OpenMP has no Archer'
  else
    refuses 'thread: a race' 'data race' "$scratch/race"
    check 'thread: no race' "$scratch/ordered"
    oracle_flags=-fopenmp
    suite thread $tsan -DGPURED_PARALLEL_BYTES=0 -- $tsan
    unset oracle_flags
    # Not env_fork: ThreadSanitizer follows no threads into a child.
    check 'thread: suite' "$scratch/thread-suite" $(full \
      'reduce scan gemm tensor args api env_mode env_openmp env_repeated env_pthreads faults' \
      'env_openmp env_pthreads env_mode_of reduce_threads scan_long scan_many gemm_threads private')
  fi
  unset TSAN_OPTIONS OMP_NUM_THREADS
fi

if wants memory; then
  msan='-fsanitize=memory -fno-sanitize-recover=all'
  if program unset $msan -DPLANT_UNSET; then
    refuses 'memory: an unset value' 'use-of-uninitialized-value' "$scratch/unset"
    suite memory $msan -- $msan
    check 'memory: vectors' "$scratch/memory-golden"
    check 'memory: suite' "$scratch/memory-suite" $(full '' \
      'args types specials reduce_columns scan_in_place gemm_nearest gemm_epilogue gemm_sizes_short')
  else
    skip "memory: $clang has no MemorySanitizer"
  fi
fi

# Hashes, the significands of conversions and the generator of the self-test count modulo 2^n and shift
# bits out; both are defined, and meant. No conversion changes a value.
if wants integer; then
  ubsan='-fsanitize=undefined,integer,nullability,local-bounds -fno-sanitize-recover=all'
  ubsan="$ubsan -fno-sanitize=unsigned-integer-overflow,unsigned-shift-base"
  if program narrow $ubsan -DPLANT_NARROW; then
    refuses 'integer: a number cut off' 'implicit conversion' "$scratch/narrow"
    suite integer $ubsan -- -O1
    check 'integer: vectors' "$scratch/integer-golden"
    check 'integer: suite' "$scratch/integer-suite" $(full '' 'args types specials api gemm_epilogue')
  else
    skip "integer: $clang has no UndefinedBehaviorSanitizer with these checks"
  fi
fi

# Valgrind rounds fma twice, also for the code of AVX2, and knows no AVX-512: its report counts (status
# 99), not the bits. One thread: GNU's OpenMP keeps its threads to the end.
memcheck() {
  status=0
  GPURED_CPU=$1; shift
  OMP_NUM_THREADS=1 GPURED_CPU=$GPURED_CPU valgrind -q --error-exitcode=99 --leak-check=full \
    --errors-for-leak-kinds=definite "$@" >"$scratch/valgrind" 2>&1 || status=$?
  if [ "$status" -ne 99 ] && tail -n 1 "$scratch/valgrind" | grep -q '^[1-9][0-9]* passed'; then
    return 0
  fi
  cat "$scratch/valgrind"
  return 1
}

if wants valgrind; then
  tests="${BUILD:-build}/tests"
  if ! command -v valgrind >/dev/null; then skip 'valgrind: it is not there'
  elif [ ! -x "$tests/suite" ]; then skip "valgrind: $tests/suite has not been built"
  else
    check 'valgrind: planted.c' "${CC:-cc}" -O1 -g -w -DPLANT_UNSET tests/build/planted.c \
      -o "$scratch/unset-plain"
    refuses 'valgrind: an unset value' 'uninitialised' memcheck sse2 "$scratch/unset-plain"
    for level in $(full 'scalar sse2 avx2' 'sse2 avx2'); do
      check "valgrind: vectors on $level" memcheck "$level" "$tests/golden_check"
      check "valgrind: suite on $level" memcheck "$level" "$tests/suite" \
        $(full 'reduce scan gemm tensor args api' \
          'reduce_interleaved reduce_single reduce_ddof scan_prefix gemm_batch gemm_many alias api_r')
    done
  fi
fi

sanitized() { tool=$1; shift; compute-sanitizer --tool "$tool" --error-exitcode 99 "$@"; }

# planted_kernel TOOL NAME TEXT FLAG: the tool has nothing to say of planted.cu, and TEXT with FLAG.
planted_kernel() {
  check "cuda: planted.cu with $4" "$NVCC" -w "$4" tests/build/planted.cu -o "$scratch/planted-$1"
  check "cuda: $1 on what is right" sanitized "$1" "$scratch/planted"
  refuses "cuda: $2" "$3" sanitized "$1" "$scratch/planted-$1"
}

# in_parts TOOL SHARES TEST...: the tests in JOBS processes, each of which takes one of so many shares of
# the cases. What a share leaves out is the same kernels at other sizes.
in_parts() {
  tool=$1 shares=$2 part=0 failures=0; shift 2
  while [ $part -lt "${JOBS:-4}" ]; do
    part=$((part + 1))
    { sanitized "$tool" "$tests/suite" --part=$part/"$shares" "$@" || echo 'not clean'; } \
      >"$scratch/part-$part" 2>&1 &
  done
  wait
  for part in "$scratch"/part-*; do
    if grep -q -e '^not clean' -e '^0 passed' "$part" || ! grep -q '^[0-9]* passed' "$part"; then
      failures=1
      grep -m 20 '^=========' "$part"
      tail -n 20 "$part"
    fi
  done
  rm -f "$scratch"/part-*
  return $failures
}

# Some versions of racecheck take a ring that is right for a race, and so the kernel for tensor cores:
# what they say of it counts unless they say it of ring.cu too.
racecheck_of_rings() {
  if sanitized racecheck "$tests/suite" cuda/tensor_ >"$scratch/rings" 2>&1; then pass
  elif ! sanitized racecheck "$scratch/ring" >"$scratch/log" 2>&1; then
    skip 'cuda: racecheck of tensor cores: it reports ring.cu, which is right, as well'
  else
    fail 'cuda: racecheck of tensor cores'
    sed 's/^/  | /' "$scratch/rings"
  fi
}

if wants cuda; then
  tests="${BUILD:-build}/tests"
  if ! command -v compute-sanitizer >/dev/null; then skip 'cuda: compute-sanitizer is not there'
  elif [ "${HAVE_CUDA:-}" != 1 ]; then skip 'cuda: the CUDA backend is not built in'
  elif ! nvidia-smi -L 2>/dev/null | grep -q GPU; then skip 'cuda: no GPU'
  else
    check 'cuda: planted.cu' "$NVCC" -w tests/build/planted.cu -o "$scratch/planted"
    check 'cuda: ring.cu' "$NVCC" -w -arch=native tests/build/ring.cu -o "$scratch/ring"
    check 'cuda: ring.cu runs' "$scratch/ring"
    planted_kernel memcheck 'a write beyond the end' 'Invalid __global__ write' -DPLANT_BEYOND
    planted_kernel racecheck 'a race' 'Race reported' -DPLANT_CUDA_RACE
    planted_kernel initcheck 'an unset value' 'Uninitialized' -DPLANT_CUDA_UNSET
    planted_kernel synccheck 'a barrier without half of a warp' 'Barrier error' -DPLANT_BARRIER
    # racecheck takes minutes for what the others do in seconds: it gets a tenth of the cases, and the
    # tests of the device, which go through every kernel of reductions, scans and products.
    few='cuda/reduce_columns cuda/gemm_sizes_short cuda/scan_in_place'
    for tool in memcheck racecheck initcheck synccheck; do
      tests_of=$(full 'cuda/' "$few cuda/tensor_ cuda/device_gemm") shares=${JOBS:-4}
      if [ $tool = racecheck ]; then
        tests_of=$(full 'cuda/reduce_ cuda/scan_ cuda/gemm_' "$few") shares=$((10 * shares))
        check "cuda: $tool: device" sanitized $tool "$tests/suite" \
          $(full 'cuda/device_reduce cuda/device_scan cuda/device_gemm' cuda/device_gemm_batch)
        racecheck_of_rings
      fi
      check "cuda: $tool: vectors" sanitized $tool "$tests/golden_check" --cuda
      check "cuda: $tool: suite" in_parts $tool $shares $tests_of
    done
  fi
fi
finish
