/*
 * Kernels that are wrong on purpose, so that tests/build/sanitizers.sh sees each tool of
 * compute-sanitizer report something before it believes its silence. PLANT_x names the fault;
 * without one the program is right.
 */
#include <cuda_runtime.h>
#include <stdio.h>

enum { THREADS = 64 };

#ifdef PLANT_BEYOND
enum { WRITTEN = THREADS + 1 };
#else
enum { WRITTEN = THREADS };
#endif

/* The other half's value: in shared memory, with a barrier between writing and reading. */
__global__ void turned(const int *in, int *out) {
  __shared__ int cells[THREADS];
  const int t = (int)threadIdx.x;
  cells[t] = in[t];
#ifdef PLANT_CUDA_RACE
  __syncwarp();
#elif defined(PLANT_BARRIER)
  if (t % 32 < 16) __syncthreads();
#else
  __syncthreads();
#endif
  out[t + WRITTEN - THREADS] = cells[THREADS - 1 - t];
}

int main(void) {
  int *in = NULL, *out = NULL, last = 0;
  cudaError_t error = cudaMalloc(&in, THREADS * sizeof *in);
  if (error == cudaSuccess) error = cudaMalloc(&out, THREADS * sizeof *out);
#ifndef PLANT_CUDA_UNSET
  if (error == cudaSuccess) error = cudaMemset(in, 0, THREADS * sizeof *in);
#endif
  turned<<<1, THREADS>>>(in, out);
  if (error == cudaSuccess)
    error = cudaMemcpy(&last, out + THREADS - 1, sizeof last, cudaMemcpyDeviceToHost);
  printf("%s %d\n", cudaGetErrorString(error), last);
  return error != cudaSuccess;
}
