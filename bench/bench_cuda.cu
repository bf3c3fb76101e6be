/*
 * The GPU rows of the benchmark: gpured beside CUB (of the toolkit that compiles this file) and beside
 * what the memory gives in the same run, a copy and a plain read. Times are medians of CUDA events;
 * where the data of a case would stay in the L2 cache, several copies of it take turns.
 *
 *   bench_cuda [--csv] [part of a case's name...]
 */
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <vector>
#ifdef BENCH_PEERS
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/cub.cuh>
#endif

#include "../gpured.h"

static void check(cudaError_t e, const char *what) {
  if (e == cudaSuccess) return;
  fprintf(stderr, "bench_cuda: %s: %s\n", what, cudaGetErrorString(e));
  exit(1);
}

/* ---- data, times -------------------------------------------------------------------------------- */

static const size_t L2_MANY = (size_t)256 << 20; /* rotate over at least this much */
static char *in_memory, *out_memory, *scratch;
static size_t in_bytes, out_bytes, scratch_bytes = (size_t)64 << 20;
static cudaStream_t stream;

__global__ void fill(uint32_t *p, size_t n, uint32_t mask, uint32_t base) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * (size_t)blockDim.x) {
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9ull;
    p[i] = ((uint32_t)(x >> 32) & mask) | base;
  }
}

/* Finite values of ordinary size in each type: [1, 2) for floats, any bits for integers. */
static void fill_for(int dtype) {
  uint32_t mask = 0xffffffffu, base = 0;
  if (dtype == GPURED_F32) mask = 0x007fffffu, base = 0x3f800000u;
  if (dtype == GPURED_F64) mask = 0x000fffffu, base = 0x3ff00000u;
  if (dtype == GPURED_F16) mask = 0x03ff03ffu, base = 0x3c003c00u;
  if (dtype == GPURED_BF16) mask = 0x007f007fu, base = 0x3f803f80u;
  fill<<<4096, 256, 0, stream>>>((uint32_t *)in_memory, in_bytes / 4, mask, base);
  check(cudaStreamSynchronize(stream), "fill");
}

/* The median time of run(turn), in microseconds. */
template <class F>
static double time_of(const F &run) {
  cudaEvent_t a, b;
  std::vector<double> times;
  double spent = 0;
  check(cudaEventCreate(&a), "event");
  check(cudaEventCreate(&b), "event");
  for (int i = -3; i < 101 && (i < 7 || spent < 60e3); ++i) {
    float ms = 0;
    check(cudaEventRecord(a, stream), "record");
    run(i + 3);
    check(cudaEventRecord(b, stream), "record");
    check(cudaEventSynchronize(b), "run");
    check(cudaEventElapsedTime(&ms, a, b), "time");
    if (i >= 0) times.push_back(ms * 1e3);
    spent += ms * 1e3;
  }
  check(cudaEventDestroy(a), "event");
  check(cudaEventDestroy(b), "event");
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/* ---- ceilings ------------------------------------------------------------------------------------ */

__global__ void __launch_bounds__(512) read_all(const uint4 *p, size_t n, uint32_t *out) {
  uint32_t s = 0;
  const size_t base = blockIdx.x * (size_t)(512 * 8) + threadIdx.x;
  uint4 v[8];
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (base + i * 512 < n) v[i] = __ldcs(p + base + i * 512);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (base + i * 512 < n) s ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  if (s == 0x12345678u) *out = s;
}

static double read_ceiling, copy_ceiling; /* bytes per microsecond */
static int csv;

static void ceilings(void) {
  const size_t bytes = (size_t)4 << 30;
  double t = time_of([&](int) {
    read_all<<<(unsigned)(bytes / 16 / 4096), 512, 0, stream>>>((const uint4 *)in_memory,
                                                                bytes / 16, (uint32_t *)scratch);
  });
  read_ceiling = (double)bytes / t;
  t = time_of([&](int) {
    check(cudaMemcpyAsync(out_memory, in_memory, bytes, cudaMemcpyDeviceToDevice, stream), "copy");
  });
  copy_ceiling = 2.0 * (double)bytes / t;
  printf("read ceiling %.0f GB/s, copy ceiling %.0f GB/s (read + written)\n", read_ceiling / 1e3,
         copy_ceiling / 1e3);
}

/* ---- cases ---------------------------------------------------------------------------------------- */

static int selected(const char *name, int argc, char **argv) {
  int filters = 0;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') continue;
    ++filters;
    if (strstr(name, argv[i])) return 1;
  }
  return filters == 0;
}

static void report(const char *name, double bytes, double us, double ceiling, double peer_us) {
  const double rate = bytes / us;
  if (csv)
    printf("%s,%.2f,%.1f,%.4f,%.2f\n", name, us, rate / 1e3, rate / ceiling, peer_us);
  else if (peer_us > 0)
    printf("%-34s %10.2f us %7.0f GB/s %6.3f of ceiling   CUB %10.2f us, time ratio %.2f\n", name,
           us, rate / 1e3, rate / ceiling, peer_us, us / peer_us);
  else
    printf("%-34s %10.2f us %7.0f GB/s %6.3f of ceiling\n", name, us, rate / 1e3, rate / ceiling);
  fflush(stdout);
}

static gpured_options device_options(void) {
  gpured_options o = gpured_default_options();
  o.stream = stream;
  o.workspace = scratch;
  o.workspace_bytes = scratch_bytes;
  return o;
}

static gpured_tensor on_device(void *data, int dtype, int64_t rows, int64_t cols) {
  gpured_tensor t = gpured_matrix(data, (gpured_dtype)dtype, rows, cols);
  t.device = GPURED_CUDA_DEVICE;
  return t;
}

static void must(gpured_status st, const char *name) {
  if (st == GPURED_OK) return;
  fprintf(stderr, "bench_cuda: %s: %s\n", name, gpured_status_string(st));
  exit(1);
}

struct offset_of {
  int64_t cols;
  __host__ __device__ int64_t operator()(int64_t i) const { return i * cols; }
};

/* CUB's best for the case: reduce, segmented reduce with offsets computed on the fly. */
static double peer_reduce(int op, int dtype, int64_t rows, int64_t cols, int axis, size_t turns,
                          size_t bytes) {
#ifdef BENCH_PEERS
  if (dtype != GPURED_F32 || axis != 1 || (op != GPURED_SUM && op != GPURED_MAX)) return 0;
  size_t need = 0;
  const float *x = (const float *)in_memory;
  float *y = (float *)out_memory;
  if (rows == 1) {
    cub::DeviceReduce::Sum(NULL, need, x, y, cols, stream);
    return time_of([&](int i) {
      cub::DeviceReduce::Sum(scratch, need, x + (size_t)i % turns * bytes / 4, y, cols, stream);
    });
  }
  if (rows * cols > (int64_t)1 << 31) return 0;
  auto begin =
      thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0), offset_of{cols});
  if (cub::DeviceSegmentedReduce::Sum(NULL, need, x, y, rows, begin, begin + 1, stream)) return 0;
  return time_of([&](int) {
    cub::DeviceSegmentedReduce::Sum(scratch, need, x, y, rows, begin, begin + 1, stream);
  });
#else
  (void)op, (void)dtype, (void)rows, (void)cols, (void)axis, (void)turns, (void)bytes;
  return 0;
#endif
}

static double peer_scan(int dtype, int64_t rows, int64_t n, size_t turns, size_t bytes) {
#ifdef BENCH_PEERS
  size_t need = 0;
  if (rows != 1 || (dtype != GPURED_F32 && dtype != GPURED_F64)) return 0;
  if (dtype == GPURED_F64) {
    const double *x = (const double *)in_memory;
    cub::DeviceScan::InclusiveSum(NULL, need, x, (double *)out_memory, n, stream);
    return time_of([&](int i) {
      size_t at = (size_t)i % turns * bytes / 8;
      cub::DeviceScan::InclusiveSum(scratch, need, x + at, (double *)out_memory + at, n, stream);
    });
  }
  const float *x = (const float *)in_memory;
  cub::DeviceScan::InclusiveSum(NULL, need, x, (float *)out_memory, n, stream);
  return time_of([&](int i) {
    size_t at = (size_t)i % turns * bytes / 4;
    cub::DeviceScan::InclusiveSum(scratch, need, x + at, (float *)out_memory + at, n, stream);
  });
#else
  (void)dtype, (void)rows, (void)n, (void)turns, (void)bytes;
  return 0;
#endif
}

static size_t turns_for(size_t bytes) {
  size_t turns = L2_MANY / bytes + 1;
  return bytes >= L2_MANY ? 1 : std::min(turns, in_bytes / bytes);
}

static void bench_reduce(const char *name, int op, int dtype, int64_t rows, int64_t cols,
                         int axis) {
  const int out = op == GPURED_ARGMAX ? GPURED_I64 : dtype == GPURED_I8 ? GPURED_I64 : dtype;
  const size_t bytes = (size_t)(rows * cols) * gpured_dtype_size((gpured_dtype)dtype);
  const size_t turns = turns_for(bytes);
  const int64_t outputs = axis ? rows : cols;
  gpured_options o = device_options();
  fill_for(dtype);
  double t = time_of([&](int i) {
    gpured_tensor in = on_device(in_memory + (size_t)i % turns * bytes, dtype, rows, cols);
    gpured_tensor y = on_device(out_memory, out, 1, outputs);
    y.ndim = 1;
    y.shape[0] = outputs;
    y.strides[0] = 1;
    must(gpured_reduce((gpured_op)op, &in, 1u << axis, &y, &o), name);
  });
  report(name, (double)bytes + (double)outputs * (double)gpured_dtype_size((gpured_dtype)out), t,
         read_ceiling, peer_reduce(op, dtype, rows, cols, axis, turns, bytes));
}

static void bench_scan(const char *name, int op, int dtype, int64_t rows, int64_t cols, int axis,
                       unsigned flags) {
  const size_t bytes = (size_t)(rows * cols) * gpured_dtype_size((gpured_dtype)dtype);
  const size_t turns = turns_for(bytes);
  gpured_options o = device_options();
  fill_for(dtype);
  double t = time_of([&](int i) {
    size_t at = (size_t)i % turns * bytes;
    gpured_tensor in = on_device(in_memory + at, dtype, rows, cols);
    gpured_tensor y = on_device(out_memory + at, dtype, rows, cols);
    must(gpured_scan((gpured_op)op, &in, axis, flags, &y, &o), name);
  });
  report(name, 2.0 * (double)bytes, t, copy_ceiling, peer_scan(dtype, rows, cols, turns, bytes));
}

struct reduce_row {
  const char *name;
  int op, dtype, axis;
  int64_t rows, cols;
};
#define P(k) ((int64_t)1 << (k))
static const reduce_row reduce_rows[] = {
    {"sum f32 flat 2^30", GPURED_SUM, GPURED_F32, 1, 1, P(30)},
    {"sum f32 flat 2^24", GPURED_SUM, GPURED_F32, 1, 1, P(24)},
    {"sum f32 flat 2^22", GPURED_SUM, GPURED_F32, 1, 1, P(22)},
    {"sum f32 flat 2^20", GPURED_SUM, GPURED_F32, 1, 1, P(20)},
    {"sum f64 flat 2^29", GPURED_SUM, GPURED_F64, 1, 1, P(29)},
    {"sum f16 flat 2^30", GPURED_SUM, GPURED_F16, 1, 1, P(30)},
    {"max f16 flat 2^30", GPURED_MAX, GPURED_F16, 1, 1, P(30)},
    {"argmax f16 flat 2^30", GPURED_ARGMAX, GPURED_F16, 1, 1, P(30)},
    {"argmax f32 flat 2^30", GPURED_ARGMAX, GPURED_F32, 1, 1, P(30)},
    {"sum i8 flat 2^30", GPURED_SUM, GPURED_I8, 1, 1, P(30)},
    {"max i8 flat 2^30", GPURED_MAX, GPURED_I8, 1, 1, P(30)},
    {"sum f32 rows 2^27x8", GPURED_SUM, GPURED_F32, 1, P(27), 8},
    {"sum f32 rows 2^26x16", GPURED_SUM, GPURED_F32, 1, P(26), 16},
    {"sum f32 rows 2^24x64", GPURED_SUM, GPURED_F32, 1, P(24), 64},
    {"sum f32 rows 10^7x100", GPURED_SUM, GPURED_F32, 1, 10000000, 100},
    {"sum f32 rows 2^22x256", GPURED_SUM, GPURED_F32, 1, P(22), 256},
    {"sum f32 rows 2^20x1024", GPURED_SUM, GPURED_F32, 1, P(20), 1024},
    {"sum f32 rows 2^15x2^15", GPURED_SUM, GPURED_F32, 1, P(15), P(15)},
    {"sum f32 rows 1024x2^20", GPURED_SUM, GPURED_F32, 1, 1024, P(20)},
    {"sum f32 rows 64x2^24", GPURED_SUM, GPURED_F32, 1, 64, P(24)},
    {"sum f32 rows 4x2^28", GPURED_SUM, GPURED_F32, 1, 4, P(28)},
    {"sum f32 cols 2^24x64", GPURED_SUM, GPURED_F32, 0, P(24), 64},
    {"sum f32 cols 2^20x1024", GPURED_SUM, GPURED_F32, 0, P(20), 1024},
    {"sum f32 cols 2^15x2^15", GPURED_SUM, GPURED_F32, 0, P(15), P(15)},
    {"sum f32 cols 1024x2^20", GPURED_SUM, GPURED_F32, 0, 1024, P(20)},
    {"sum f32 cols 64x2^24", GPURED_SUM, GPURED_F32, 0, 64, P(24)},
    {"sum f32 cols 4x2^28", GPURED_SUM, GPURED_F32, 0, 4, P(28)},
    {"lse f32 rows 2^27x8", GPURED_LOGSUMEXP, GPURED_F32, 1, P(27), 8},
    {"lse f32 rows 2^24x64", GPURED_LOGSUMEXP, GPURED_F32, 1, P(24), 64},
    {"lse f32 rows 2^20x1024", GPURED_LOGSUMEXP, GPURED_F32, 1, P(20), 1024},
    {"lse f32 rows 2^15x2^15", GPURED_LOGSUMEXP, GPURED_F32, 1, P(15), P(15)},
    {"lse f32 flat 2^30", GPURED_LOGSUMEXP, GPURED_F32, 1, 1, P(30)},
    {"var f32 rows 2^20x1024", GPURED_VAR, GPURED_F32, 1, P(20), 1024},
};

struct scan_row {
  const char *name;
  int dtype, axis;
  int64_t rows, cols;
  unsigned flags;
};
static const scan_row scan_rows[] = {
    {"scan f32 flat 2^30", GPURED_F32, 1, 1, P(30), 0},
    {"scan f32 flat 2^28", GPURED_F32, 1, 1, P(28), 0},
    {"scan f32 flat 2^24", GPURED_F32, 1, 1, P(24), 0},
    {"scan f32 flat 2^20", GPURED_F32, 1, 1, P(20), 0},
    {"scan f64 flat 2^29", GPURED_F64, 1, 1, P(29), 0},
    {"scan i64 flat 2^29", GPURED_I64, 1, 1, P(29), 0},
    {"scan f16 flat 2^30", GPURED_F16, 1, 1, P(30), 0},
    {"scan f32 exclusive 2^28", GPURED_F32, 1, 1, P(28), GPURED_SCAN_EXCLUSIVE},
    {"scan f32 rows 2^15x2^15", GPURED_F32, 1, P(15), P(15), 0},
    {"scan f32 rows 2^20x1024", GPURED_F32, 1, P(20), 1024, 0},
    {"scan f32 cols 2^15x2^15", GPURED_F32, 0, P(15), P(15), 0},
};

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--csv") == 0)
      csv = 1;
    else if (argv[i][0] == '-') {
      fprintf(stderr, "usage: %s [--csv] [part of a case's name...]\n", argv[0]);
      return 1;
    }
  }
  if (!gpured_cuda_available()) {
    fprintf(stderr, "bench_cuda: no CUDA device, or the backend is not built in\n");
    return 1;
  }
  in_bytes = out_bytes = (size_t)4 << 30;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  check(cudaMalloc((void **)&in_memory, in_bytes), "memory for the input");
  check(cudaMalloc((void **)&out_memory, out_bytes), "memory for the output");
  check(cudaMalloc((void **)&scratch, scratch_bytes), "memory for scratch");
  fill_for(GPURED_F32);
  ceilings();
  if (csv) printf("case,us,GB/s,of ceiling,CUB us\n");
  for (const reduce_row &r : reduce_rows)
    if (selected(r.name, argc, argv)) bench_reduce(r.name, r.op, r.dtype, r.rows, r.cols, r.axis);
  for (const scan_row &r : scan_rows)
    if (selected(r.name, argc, argv))
      bench_scan(r.name, GPURED_SUM, r.dtype, r.rows, r.cols, r.axis, r.flags);
  check(cudaDeviceSynchronize(), "end");
  return 0;
}
