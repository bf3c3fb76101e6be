/*
 * A ring as the kernel for tensor cores has it, and nothing else: one thread writes, eight warps
 * read, and two mbarriers for each place order them: `full` ends by the writer's arrival, `empty`
 * by one of each warp. tests/build/sanitizers.sh asks racecheck about it: where it reports this
 * one, what it reports of that kernel says nothing.
 */
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>

enum { PLACES = 4, WARPS = 8, TURNS = 40, BLOCKS = 64 };

static __device__ uint32_t address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
static __device__ void arrive(const uint64_t *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(barrier)) : "memory");
}
static __device__ void wait(const uint64_t *barrier, unsigned parity) {
  unsigned done;
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(address(barrier)), "r"(parity)
        : "memory");
  } while (!done);
}

/* Warps 0 to 7 read; the first thread of warp 8 writes. */
__global__ void ring(int *out) {
  __shared__ uint64_t full[PLACES], empty[PLACES];
  __shared__ int place[PLACES];
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  int sum = 0;
  if (threadIdx.x < PLACES) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(full + threadIdx.x)));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(empty + threadIdx.x)),
                 "r"((int)WARPS));
  }
  __syncthreads();
  for (int i = 0; i < TURNS; ++i) {
    const int at = i % PLACES;
    const unsigned parity = i / PLACES % 2;
    if (warp < WARPS) {
      wait(full + at, parity);
      sum += place[at];
      __syncwarp(); /* all have read before one of them says so */
      if (lane == 0) arrive(empty + at);
    } else if (lane == 0) {
      wait(empty + at, parity ^ 1);
      place[at] = i;
      arrive(full + at);
    }
  }
  if (warp < WARPS) out[(blockIdx.x * WARPS + warp) * 32 + lane] = sum;
}

int main(void) {
  static int sums[BLOCKS * WARPS * 32];
  int *out = NULL, wrong = 0;
  cudaError_t error = cudaMalloc(&out, sizeof sums);
  if (error == cudaSuccess) ring<<<BLOCKS, (WARPS + 1) * 32>>>(out);
  if (error == cudaSuccess) error = cudaMemcpy(sums, out, sizeof sums, cudaMemcpyDeviceToHost);
  for (int i = 0; i < BLOCKS * WARPS * 32; ++i) wrong += sums[i] != TURNS * (TURNS - 1) / 2;
  printf("%s, %d wrong\n", cudaGetErrorString(error), wrong);
  return error != cudaSuccess || wrong > 0;
}
