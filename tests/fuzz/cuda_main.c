/*
 * A fuzz target with random inputs in place of libFuzzer's, and the GPU in place of the CPU: the
 * results of the CUDA backend, for tensors of the host, are held to the oracle by bits.
 *
 *     fuzz_cuda_TARGET [RUNS [SEED [around]]]
 *
 * `around`: only statuses and what lies around results are looked at, for a runtime that computes
 * nothing (tests/build/cuda_copies.c).
 * Says how many cases passed; the first one that does not is printed and ends the program. Without
 * a device that is one skipped test, or a failure where GPURED_REQUIRE_CUDA=1 asks for one.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 192 };

int main(int argc, char **argv) {
  const long runs = argc > 1 ? strtol(argv[1], NULL, 10) : 10000;
  const char *required = getenv("GPURED_REQUIRE_CUDA");
  uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  long i;
  around_only = argc > 3 && strcmp(argv[3], "around") == 0;
  if (!gpured_cuda_available()) {
    const int failed = required && strcmp(required, "1") == 0;
    printf("%s fuzz on the GPU: no CUDA device\n", failed ? "FAIL" : "SKIP");
    printf("0 passed, %d failed, %d skipped\n", failed, !failed);
    return failed;
  }
  fuzz_backend = GPURED_BACKEND_CUDA;
  for (i = 0; i < runs; ++i) {
    uint8_t data[MOST_BYTES];
    const size_t size = (size_t)random_in(&state, 0, MOST_BYTES);
    size_t k;
    for (k = 0; k < size; ++k) data[k] = (uint8_t)random_in(&state, 0, 255);
    LLVMFuzzerTestOneInput(data, size);
  }
  printf("%ld passed, 0 failed, 0 skipped\n", i);
  return 0;
}
