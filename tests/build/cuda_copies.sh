#!/bin/sh
# The host's part of the CUDA backend where there is no GPU: the suite's calls with tensors of the host,
# on a runtime that only copies (cuda_copies.c). Results are not looked at, kernels do nothing; statuses
# are, what lies around the outputs, and that all memory is given back. AddressSanitizer watches the
# copies. Takes the object that make has built, or CUDA_OBJECT. RUNS=3000 random cases of each call.
. tests/build/lib.sh
object=${CUDA_OBJECT:-$BUILD/obj/gpured_cuda.o}
nvcc=${NVCC:-$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)}
include=$(dirname "${nvcc:-/}")/../include
flags="-O1 -g -I. -pthread -fsanitize=address -ffp-contract=off -DGPURED_NO_SIMD"

if [ ! -f "$object" ]; then skip 'cuda_copies: no object of gpured_cuda.cu'; finish; fi
if [ ! -f "$include/cuda_runtime_api.h" ]; then skip 'cuda_copies: no headers of CUDA'; finish; fi
if ! printf 'int main(void) { return 0; }\n' >"$scratch/asan.c" ||
  ! $CC $flags "$scratch/asan.c" -o "$scratch/asan" >/dev/null 2>&1 || ! "$scratch/asan"; then
  skip "cuda_copies: $CC has no AddressSanitizer"
  finish
fi

check 'cuda_copies.c' $CC -std=c11 -Wall -Wextra -Werror $flags -isystem "$include" \
  -c tests/build/cuda_copies.c -o "$scratch/runtime.o"
check 'library' $CC -std=c11 $flags $OMPFLAG -DGPURED_CUDA -c gpured_omp.c \
  -o "$scratch/library.o"
for file in tests/runner.c tests/oracle.c tests/util.c tests/test_*.c; do
  level=
  [ "$file" = tests/test_tu2.c ] && level=-O0 # the implementation once more
  check "$file" $CC -std=c11 $flags $OMPFLAG $level -c "$file" \
    -o "$scratch/$(basename "$file" .c).o"
done
check 'suite' $CC $flags $OMPFLAG "$scratch"/*.o "$object" -lm -lpthread -lstdc++ -o "$scratch/suite"
# A part of the cases: each goes the whole way there and back.
cases() {
  name=$1; shift
  check "$name" "$scratch/suite" --around --part=1/20 "$@"
}
cases reduce cuda/reduce_types cuda/reduce_random cuda/reduce_layouts cuda/reduce_broadcast
cases scan cuda/scan_types cuda/scan_random cuda/scan_layouts cuda/scan_in_place
cases gemm cuda/gemm_types cuda/gemm_random cuda/gemm_epilogue cuda/gemm_layouts cuda/gemm_batch
check 'gemm: no rows, integers' "$scratch/suite" --around cuda/gemm_empty cuda/gemm_integers
check 'args' "$scratch/suite" --around cuda/args_

# Random cases, which say before anything else whether the memory that a call plans is what it takes.
for file in cuda_main fuzz impl; do
  check "$file" $CC -std=c11 $flags -DGPURED_CUDA -c tests/fuzz/$file.c -o "$scratch/fuzz-$file.o"
done
for call in reduce scan gemm_reduce_ex; do
  check "fuzz_$call.c" $CC -std=c11 $flags -DGPURED_CUDA tests/fuzz/fuzz_$call.c \
    "$scratch"/fuzz-*.o "$scratch"/util.o "$scratch"/oracle.o "$scratch"/runtime.o "$object" \
    -lm -lpthread -lstdc++ -o "$scratch/fuzz_$call"
  check "$call: random cases" "$scratch/fuzz_$call" "${RUNS:-3000}" "${SEED:-1}" around
done

# Calls with the memory that their queries ask for, on a GPU of which nobody has the memory.
mkdir "$scratch/hopper"
check 'cuda_copies.c: another GPU' $CC -std=c11 -Wall -Wextra -Werror $flags -DHOPPER \
  -isystem "$include" -c tests/build/cuda_copies.c -o "$scratch/hopper/runtime.o"
check 'cuda_queries.c' $CC -std=c11 -Wall -Wextra -Werror $flags -c tests/build/cuda_queries.c \
  -o "$scratch/hopper/queries.o"
check 'cuda_queries' $CC $flags $OMPFLAG "$scratch"/hopper/*.o "$scratch/library.o" "$object" \
  -lm -lpthread -lstdc++ -o "$scratch/queries"
check 'queries and calls' "$scratch/queries" "${RUNS:-3000}0" "${SEED:-1}"
finish
