/*
 * The GPU rows of the benchmark: gpured beside CUB and cuBLAS (of the toolkit that compiles this
 * file) and beside what the memory gives in the same run, a copy and a plain read, of 4 GB and of
 * the case's own bytes. Times are medians of CUDA events; where the data of a case would stay in
 * the L2 cache, several copies of it take turns, and nobody begins with what another has written
 * there.
 *
 *   bench_cuda [--sweep] [--csv] [--list] [--quick] [[--filter] part of a case's name...]
 *
 * --sweep takes the cases of the plots in place of the others: one extent of a case grows from row
 * to row, and is the last number of its name. --list prints the names; --quick shrinks every case:
 * all of it runs, and nothing is measured.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <functional>
#include <vector>
#ifdef BENCH_PEERS
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/cub.cuh>
#endif

#include "../gpured.h"
#include "bench_cublas.h"

static int csv, list, quick, sweep;

static void check(cudaError_t e, const char *what) {
  if (e == cudaSuccess) return;
  fprintf(stderr, "bench_cuda: %s: %s\n", what, cudaGetErrorString(e));
  exit(1);
}

/* ---- data, times ----------------------------------------------------------------------------- */

static const size_t L2_MANY = (size_t)256 << 20; /* as much as leaves nothing else in the cache */
static char *in_memory, *out_memory, *scratch, *unused;
static size_t in_bytes, out_bytes, scratch_bytes = (size_t)128 << 20;
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

/* Whole vectors: from the one in which the data begin. */
static void read_plainly(const char *from, size_t bytes) {
  const uint4 *first = (const uint4 *)(from - (uintptr_t)from % 16);
  const size_t n = bytes / 16;
  read_all<<<(unsigned)((n + 4095) / 4096), 512, 0, stream>>>(first, n, (uint32_t *)scratch);
}

/* The L2 cache as a contender finds it: full of what nobody uses, and nothing of it written. What
 * a peer has written there goes to memory while the next one runs, and would be the next one's
 * time: up to 5 microseconds behind CUB's reductions, 3 to 37 behind cuBLAS's products. */
static void clean_cache(void) {
  read_plainly(unused, L2_MANY);
  check(cudaStreamSynchronize(stream), "cleaning the cache");
}

/* How often a case runs: first without being timed, then at least so often, and on until a time in
 * microseconds has passed. */
struct effort {
  int warm, least, most;
  double limit;
};
static const effort to_measure = {3, 7, 101, 60e3}, to_choose = {2, 4, 20, 10e3};

typedef std::function<void(int turn)> contender;

/* The median times of all the contenders, in microseconds. They take turns, so that what the card's
 * clock does meanwhile meets all of them; each has the next copy of the data and a clean cache, so
 * that none finds there what the one before it has read or written. */
static std::vector<double> times_of(const std::vector<contender> &list, effort e) {
  cudaEvent_t a, b;
  std::vector<std::vector<double>> times(list.size());
  std::vector<double> medians;
  double spent = 0;
  int turn = 0;
  check(cudaEventCreate(&a), "event");
  check(cudaEventCreate(&b), "event");
  if (quick) e = {1, 2, 2, 0};
  for (int i = -e.warm; i < e.most && (i < e.least || spent < e.limit); ++i) {
    for (size_t c = 0; c < list.size(); ++c) {
      float ms = 0;
      clean_cache();
      check(cudaEventRecord(a, stream), "record");
      list[c](turn++);
      check(cudaEventRecord(b, stream), "record");
      check(cudaEventSynchronize(b), "run");
      check(cudaEventElapsedTime(&ms, a, b), "time");
      if (i >= 0) times[c].push_back(ms * 1e3);
      spent += ms * 1e3;
    }
  }
  check(cudaEventDestroy(a), "event");
  check(cudaEventDestroy(b), "event");
  for (std::vector<double> &t : times) {
    std::sort(t.begin(), t.end());
    medians.push_back(t[t.size() / 2]);
  }
  return medians;
}

static double time_of(const contender &run) { return times_of({run}, to_measure)[0]; }

/* ---- ceilings -------------------------------------------------------------------------------- */

static double read_ceiling, copy_ceiling; /* bytes per microsecond */

static void measure_ceilings(void) {
  const size_t bytes = in_bytes;
  double t = time_of([&](int) { read_plainly(in_memory, bytes); });
  read_ceiling = (double)bytes / t;
  t = time_of([&](int) {
    check(cudaMemcpyAsync(out_memory, in_memory, bytes, cudaMemcpyDeviceToDevice, stream), "copy");
  });
  copy_ceiling = 2.0 * (double)bytes / t;
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* Is the case asked for, and to be run? With --list its name is all. */
static int selected(const char *name, int argc, char **argv) {
  int filters = 0, found = 0;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') continue;
    ++filters;
    found |= strstr(name, argv[i]) != NULL;
  }
  if (filters > 0 && !found) return 0;
  if (list) puts(name);
  return !list;
}

/* plain_us: a plain read (for scans a copy) of the row's own input. */
static void report(const char *name, double bytes, double us, double ceiling, double peer_us,
                   double plain_us) {
  const double rate = bytes / us;
  if (csv) {
    printf("%s,%.2f,%.1f,%.4f,%.2f,,,,,,%.2f\n", name, us, rate / 1e3, rate / ceiling, peer_us,
           plain_us);
  } else {
    printf("%-34s %10.2f us %7.0f GB/s %6.3f of ceiling  plain %10.2f us", name, us, rate / 1e3,
           rate / ceiling, plain_us);
    if (peer_us > 0) printf("  CUB %10.2f us, time ratio %.2f", peer_us, us / peer_us);
    printf("\n");
  }
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

/* CUB's best for the case, if it has any: reduce, segmented reduce with offsets computed on the
 * fly. */
static contender peer_reduce(int op, int dtype, int64_t rows, int64_t cols, int axis, size_t turns,
                             size_t bytes) {
#ifdef BENCH_PEERS
  if (dtype != GPURED_F32 || axis != 1 || op != GPURED_SUM) return contender();
  size_t need = 0;
  const float *x = (const float *)in_memory;
  float *y = (float *)out_memory;
  if (rows == 1) {
    cub::DeviceReduce::Sum(NULL, need, x, y, cols, stream);
    return [=](int i) mutable {
      cub::DeviceReduce::Sum(scratch, need, x + (size_t)i % turns * bytes / 4, y, cols, stream);
    };
  }
  if (rows * cols > (int64_t)1 << 31) return contender();
  auto begin =
      thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0), offset_of{cols});
  if (cub::DeviceSegmentedReduce::Sum(NULL, need, x, y, rows, begin, begin + 1, stream))
    return contender();
  return [=](int) mutable {
    cub::DeviceSegmentedReduce::Sum(scratch, need, x, y, rows, begin, begin + 1, stream);
  };
#else
  (void)op, (void)dtype, (void)rows, (void)cols, (void)axis, (void)turns, (void)bytes;
  return contender();
#endif
}

#ifdef BENCH_PEERS
template <class T>
static contender cub_scan(int64_t n, size_t turns) {
  size_t need = 0;
  const T *x = (const T *)in_memory;
  T *y = (T *)out_memory;
  cub::DeviceScan::InclusiveSum(NULL, need, x, y, n, stream);
  return [=](int i) mutable {
    const size_t at = (size_t)i % turns * (size_t)n;
    cub::DeviceScan::InclusiveSum(scratch, need, x + at, y + at, n, stream);
  };
}
#endif

static contender peer_scan(int dtype, int64_t rows, int64_t n, size_t turns) {
#ifdef BENCH_PEERS
  if (rows == 1 && dtype == GPURED_F32) return cub_scan<float>(n, turns);
  if (rows == 1 && dtype == GPURED_F64) return cub_scan<double>(n, turns);
#else
  (void)dtype, (void)rows, (void)n, (void)turns;
#endif
  return contender();
}

/* gpured, what only moves the row's input, and a peer, if there is one, take turns. */
static void report_beside(const char *name, double bytes, const contender &ours,
                          const contender &plain, const contender &peer, double ceiling) {
  std::vector<contender> list = {ours, plain};
  if (peer) list.push_back(peer);
  const std::vector<double> t = times_of(list, to_measure);
  report(name, bytes, t[0], ceiling, peer ? t[2] : 0, t[1]);
}

static size_t turns_for(size_t bytes) {
  size_t turns = L2_MANY / bytes + 1;
  if (bytes > in_bytes) {
    fprintf(stderr, "bench_cuda: a row of %zu bytes, and memory for %zu\n", bytes, in_bytes);
    exit(1);
  }
  return bytes >= L2_MANY ? 1 : std::min(turns, in_bytes / bytes);
}

/* For --quick: halves the longer side until the matrix is small. */
static void shrink(int64_t *rows, int64_t *cols) {
  while (quick && *rows * *cols > (int64_t)1 << 20) *(*rows > *cols ? rows : cols) /= 2;
}

static void bench_reduce(const char *name, int op, int dtype, int64_t rows, int64_t cols,
                         int axis) {
  shrink(&rows, &cols);
  const int out = op == GPURED_ARGMAX ? GPURED_I64 : dtype == GPURED_I8 ? GPURED_I64 : dtype;
  const size_t bytes = (size_t)(rows * cols) * gpured_dtype_size((gpured_dtype)dtype);
  const size_t turns = turns_for(bytes);
  const int64_t outputs = axis ? rows : cols;
  gpured_options o = device_options();
  fill_for(dtype);
  const contender ours = [&](int i) {
    gpured_tensor in = on_device(in_memory + (size_t)i % turns * bytes, dtype, rows, cols);
    gpured_tensor y = on_device(out_memory, out, 1, outputs);
    y.ndim = 1;
    y.shape[0] = outputs;
    y.strides[0] = 1;
    must(gpured_reduce((gpured_op)op, &in, 1u << axis, &y, &o), name);
  };
  const contender plain = [=](int i) {
    read_plainly(in_memory + (size_t)i % turns * bytes, bytes);
  };
  report_beside(name,
                (double)bytes + (double)outputs * (double)gpured_dtype_size((gpured_dtype)out),
                ours, plain, peer_reduce(op, dtype, rows, cols, axis, turns, bytes), read_ceiling);
}

static void bench_scan(const char *name, int op, int dtype, int64_t rows, int64_t cols, int axis,
                       unsigned flags) {
  shrink(&rows, &cols);
  const size_t bytes = (size_t)(rows * cols) * gpured_dtype_size((gpured_dtype)dtype);
  const size_t turns = turns_for(bytes);
  gpured_options o = device_options();
  fill_for(dtype);
  const contender ours = [&](int i) {
    size_t at = (size_t)i % turns * bytes;
    gpured_tensor in = on_device(in_memory + at, dtype, rows, cols);
    gpured_tensor y = on_device(out_memory + at, dtype, rows, cols);
    must(gpured_scan((gpured_op)op, &in, axis, flags, &y, &o), name);
  };
  const contender plain = [=](int i) {
    const size_t at = (size_t)i % turns * bytes;
    check(cudaMemcpyAsync(out_memory + at, in_memory + at, bytes, cudaMemcpyDeviceToDevice, stream),
          "copy");
  };
  report_beside(name, 2.0 * (double)bytes, ours, plain, peer_scan(dtype, rows, cols, turns),
                copy_ceiling);
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
    {"lse f32 cols 2^20x1024", GPURED_LOGSUMEXP, GPURED_F32, 0, P(20), 1024},
    {"lse f32 cols 2^15x2^15", GPURED_LOGSUMEXP, GPURED_F32, 0, P(15), P(15)},
    {"argmax f32 cols 2^20x1024", GPURED_ARGMAX, GPURED_F32, 0, P(20), 1024},
    {"argmax f32 cols 2^15x2^15", GPURED_ARGMAX, GPURED_F32, 0, P(15), P(15)},
    {"var f32 cols 2^20x1024", GPURED_VAR, GPURED_F32, 0, P(20), 1024},
    {"var f32 cols 2^15x2^15", GPURED_VAR, GPURED_F32, 0, P(15), P(15)},
    /* a few megabytes: tens of microseconds */
    {"sum f32 flat 2^17", GPURED_SUM, GPURED_F32, 1, 1, P(17)},
    {"argmax f32 flat 2^20", GPURED_ARGMAX, GPURED_F32, 1, 1, P(20)},
    {"lse f32 flat 2^20", GPURED_LOGSUMEXP, GPURED_F32, 1, 1, P(20)},
    {"sum f32 rows 4096x4096", GPURED_SUM, GPURED_F32, 1, 4096, 4096},
    {"sum f32 rows 16x2^20", GPURED_SUM, GPURED_F32, 1, 16, P(20)},
    {"argmax f32 rows 16x2^20", GPURED_ARGMAX, GPURED_F32, 1, 16, P(20)},
    {"sum f32 cols 1024x1024", GPURED_SUM, GPURED_F32, 0, 1024, 1024},
    {"sum f32 cols 4096x4096", GPURED_SUM, GPURED_F32, 0, 4096, 4096},
    {"argmax f32 cols 4096x4096", GPURED_ARGMAX, GPURED_F32, 0, 4096, 4096},
    {"argmax f32 cols 64x65536", GPURED_ARGMAX, GPURED_F32, 0, 64, 65536},
    {"var f32 cols 4x2^20", GPURED_VAR, GPURED_F32, 0, 4, P(20)},
    /* ragged: rows of no multiple of 16 bytes */
    {"sum f32 flat 2^30-1", GPURED_SUM, GPURED_F32, 1, 1, P(30) - 1},
    {"sum f32 rows 3e8x3", GPURED_SUM, GPURED_F32, 1, 300000000, 3},
    {"sum f32 rows 10^7x101", GPURED_SUM, GPURED_F32, 1, 10000000, 101},
    {"sum f32 rows 2^20x1001", GPURED_SUM, GPURED_F32, 1, P(20), 1001},
    {"sum f32 rows 1024x1000003", GPURED_SUM, GPURED_F32, 1, 1024, 1000003},
    {"sum f64 rows 2^20x501", GPURED_SUM, GPURED_F64, 1, P(20), 501},
    {"sum f16 rows 2^21x1001", GPURED_SUM, GPURED_F16, 1, P(21), 1001},
    {"sum i8 rows 2^21x1001", GPURED_SUM, GPURED_I8, 1, P(21), 1001},
    {"argmax f32 rows 2^20x1000", GPURED_ARGMAX, GPURED_F32, 1, P(20), 1000},
    {"argmax f32 rows 2^20x1001", GPURED_ARGMAX, GPURED_F32, 1, P(20), 1001},
    {"argmax f32 rows 500000x2049", GPURED_ARGMAX, GPURED_F32, 1, 500000, 2049},
    {"argmax bf16 rows 40000x50257", GPURED_ARGMAX, GPURED_BF16, 1, 40000, 50257},
    {"lse f32 rows 2e7x51", GPURED_LOGSUMEXP, GPURED_F32, 1, 20000000, 51},
    {"lse f32 rows 10^7x101", GPURED_LOGSUMEXP, GPURED_F32, 1, 10000000, 101},
    {"lse f32 rows 2^20x1000", GPURED_LOGSUMEXP, GPURED_F32, 1, P(20), 1000},
    {"lse f32 rows 3500000x300", GPURED_LOGSUMEXP, GPURED_F32, 1, 3500000, 300},
    {"lse f32 rows 1500000x700", GPURED_LOGSUMEXP, GPURED_F32, 1, 1500000, 700},
    {"lse f32 rows 2^20x1001", GPURED_LOGSUMEXP, GPURED_F32, 1, P(20), 1001},
    {"lse f32 rows 850000x1200", GPURED_LOGSUMEXP, GPURED_F32, 1, 850000, 1200},
    {"lse f32 rows 350000x3000", GPURED_LOGSUMEXP, GPURED_F32, 1, 350000, 3000},
    {"lse f32 rows 2^18x4096", GPURED_LOGSUMEXP, GPURED_F32, 1, P(18), 4096},
    {"lse f32 rows 20000x50257", GPURED_LOGSUMEXP, GPURED_F32, 1, 20000, 50257},
    {"lse f32 rows 1024x1000003", GPURED_LOGSUMEXP, GPURED_F32, 1, 1024, 1000003},
    {"sum f32 cols 3e8x3", GPURED_SUM, GPURED_F32, 0, 300000000, 3},
    {"sum f32 cols 10^7x101", GPURED_SUM, GPURED_F32, 0, 10000000, 101},
    {"sum f32 cols 2^20x1001", GPURED_SUM, GPURED_F32, 0, P(20), 1001},
    {"sum f32 cols 1000x1000003", GPURED_SUM, GPURED_F32, 0, 1000, 1000003},
    {"sum f32 cols 4x2^28-1", GPURED_SUM, GPURED_F32, 0, 4, P(28) - 1},
    {"sum f16 cols 10^7x101", GPURED_SUM, GPURED_F16, 0, 10000000, 101},
    {"argmax f32 cols 2^20x1001", GPURED_ARGMAX, GPURED_F32, 0, P(20), 1001},
    {"lse f32 cols 2^20x1001", GPURED_LOGSUMEXP, GPURED_F32, 0, P(20), 1001},
    {"var f32 cols 2^20x1001", GPURED_VAR, GPURED_F32, 0, P(20), 1001},
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
    {"scan i32 flat 2^30", GPURED_I32, 1, 1, P(30), 0},
    {"scan f16 flat 2^30", GPURED_F16, 1, 1, P(30), 0},
    {"scan f32 exclusive 2^28", GPURED_F32, 1, 1, P(28), GPURED_SCAN_EXCLUSIVE},
    {"scan f32 rows 2^15x2^15", GPURED_F32, 1, P(15), P(15), 0},
    {"scan f32 rows 2^20x1024", GPURED_F32, 1, P(20), 1024, 0},
    {"scan f32 cols 2^15x2^15", GPURED_F32, 0, P(15), P(15), 0},
    {"scan f32 cols 2^20x1024", GPURED_F32, 0, P(20), 1024, 0},
    {"scan f64 cols 2^15x2^14", GPURED_F64, 0, P(15), P(14), 0},
    {"scan i32 cols 2^15x2^15", GPURED_I32, 0, P(15), P(15), 0},
    {"scan bf16 cols 2^15x2^15", GPURED_BF16, 0, P(15), P(15), 0},
    {"scan f32 reverse rows 2^20x1024", GPURED_F32, 1, P(20), 1024, GPURED_SCAN_REVERSE},
    {"scan f32 rows 2^20x1000", GPURED_F32, 1, P(20), 1000, 0},
    {"scan f32 rows 10^7x100", GPURED_F32, 1, 10000000, 100, 0},
    {"scan f32 rows 2^20x1001", GPURED_F32, 1, P(20), 1001, 0},
    {"scan f32 rows 1000x1000003", GPURED_F32, 1, 1000, 1000003, 0},
    {"scan f32 exclusive 2^20x1001", GPURED_F32, 1, P(20), 1001, GPURED_SCAN_EXCLUSIVE},
    {"scan f64 rows 2^19x1001", GPURED_F64, 1, P(19), 1001, 0},
    {"scan f16 rows 2^20x1000", GPURED_F16, 1, P(20), 1000, 0},
    {"scan f16 rows 2^20x1001", GPURED_F16, 1, P(20), 1001, 0},
    {"scan bf16 rows 2^20x1025", GPURED_BF16, 1, P(20), 1025, 0},
    {"scan f32 cols 2^20x1001", GPURED_F32, 0, P(20), 1001, 0},
};

/* ---- GEMM-reduce ----------------------------------------------------------------------------- */
/*
 * Each case beside cuBLAS's GEMM alone, which does less, and beside what gpured replaces: that
 * GEMM, then the fastest reduction of its result that we know. C by rows is reduced down its
 * columns, C by columns along them, by our own reduction or, for sums, by a GEMV with ones; for
 * sums there are also the two GEMVs that need no GEMM.
 */

/* Uniform between -most and most. Zeros, or numbers of one exponent, would run faster than data does. */
template <class T>
__global__ void fill_signed(T *p, size_t n, uint64_t seed, float most) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * (size_t)blockDim.x) {
    uint64_t x = (i + seed) * 0x9e3779b97f4a7c15ull;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9ull;
    p[i] = (T)((float)((double)(int32_t)(x >> 32) * 0x1p-31) * most);
  }
}

template <class T>
__global__ void fill_ones(T *p, size_t n) {
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) p[i] = (T)1.0f;
}

template <class T>
static void fill_gemm_as(void *ones, size_t count, float most = 1) {
  fill_signed<<<4096, 256, 0, stream>>>((T *)in_memory, in_bytes / sizeof(T), 1, most);
  fill_ones<<<1, 1024, 0, stream>>>((T *)ones, count);
}

static const size_t RESULT_BYTES = (size_t)32 << 20, ONES = (size_t)1 << 20;
static char *results, *peer_results, *sums_of_a, *ones;

static void fill_for_gemm(int dtype) {
  if (dtype == GPURED_F32) fill_gemm_as<float>(ones, ONES);
  if (dtype == GPURED_F64) fill_gemm_as<double>(ones, ONES);
  if (dtype == GPURED_F16) fill_gemm_as<__half>(ones, ONES);
  if (dtype == GPURED_BF16) fill_gemm_as<__nv_bfloat16>(ones, ONES);
  if (dtype == GPURED_I8) fill_gemm_as<int8_t>(ones, ONES, 127.9f);
  check(cudaStreamSynchronize(stream), "fill");
}

/* One shape in one type, with everything that its operations share. */
struct gemm_bench {
  gemm_case g;
  int acc;
  size_t a_bytes, b_bytes, c_bytes, turns, c_turns;
  blas_gemm blas[2]; /* C by rows, by columns */
  int usable[2];     /* blas[].best is set */
  int faster;        /* of the two */
  gpured_options o;
};

static char *a_of(const gemm_bench *s, int turn) {
  return in_memory + (size_t)turn % s->turns * (s->a_bytes + s->b_bytes);
}
static char *b_of(const gemm_bench *s, int turn) { return a_of(s, turn) + s->a_bytes; }
static char *c_of(const gemm_bench *s, int turn) {
  return out_memory + (size_t)turn % s->c_turns * s->c_bytes;
}

static int run_gemm(const gemm_bench *s, int by_columns, int turn) {
  const blas_gemm *p = &s->blas[by_columns];
  return blas_run_gemm(p, p->best, a_of(s, turn), b_of(s, turn), c_of(s, turn));
}

/* The fastest algorithms that cuBLAS has for the shape, with C by rows and by columns. */
static void choose_gemm(gemm_bench *s) {
  double least[2] = {0, 0};
  if (!blas.there || s->c_bytes > out_bytes) return;
  for (int by_columns = 0; by_columns < 2; ++by_columns) {
    blas_gemm *p = &s->blas[by_columns];
    std::vector<contender> list;
    std::vector<int> which;
    p->g = s->g;
    p->c_by_columns = by_columns;
    if (blas_find_algorithms(p)) p->count = 0;
    for (int i = -1; i < p->count; ++i) {
      p->best = i;
      if (run_gemm(s, by_columns, 0)) continue;
      which.push_back(i);
      list.push_back(
          [=](int turn) { blas_run_gemm(p, i, a_of(s, turn), b_of(s, turn), c_of(s, turn)); });
    }
    if (list.empty()) continue;
    const std::vector<double> t = times_of(list, to_choose);
    const size_t at = (size_t)(std::min_element(t.begin(), t.end()) - t.begin());
    p->best = which[at], least[by_columns] = t[at];
    s->usable[by_columns] = 1;
  }
  s->faster = s->usable[1] && (!s->usable[0] || least[1] < least[0]);
}

static int gemm_result_type(const gemm_bench *s, int op) {
  if (op == GPURED_ARGMAX || s->g.dtype == GPURED_I8) return GPURED_I64;
  return s->g.dtype == GPURED_F64 ? GPURED_F64 : GPURED_F32;
}

static gpured_tensor device_array(const void *data, int dtype, int ndim, const int64_t *shape,
                                  const int64_t *strides) {
  gpured_tensor t = gpured_array(data, (gpured_dtype)dtype, ndim, shape, strides);
  t.device = GPURED_CUDA_DEVICE;
  return t;
}

static gpured_tensor results_at(const gemm_bench *s, int op, void *out) {
  const int64_t shape[2] = {s->g.batch, s->g.n};
  return device_array(out, gemm_result_type(s, op), 2, shape, NULL);
}

/* C, reduced by our own reduction. */
static gpured_status reduce_c(const gemm_bench *s, int by_columns, int op, int turn) {
  const gemm_case *g = &s->g;
  const int64_t shape[3] = {g->batch, by_columns ? g->n : g->m, by_columns ? g->m : g->n};
  const int dtype = g->dtype == GPURED_I8 ? GPURED_I32 : g->dtype;
  const gpured_tensor c = device_array(c_of(s, turn), dtype, 3, shape, NULL);
  const gpured_tensor d = results_at(s, op, peer_results);
  return gpured_reduce((gpured_op)op, &c, by_columns ? 1u << 2 : 1u << 1, &d, &s->o);
}

/* The ways to the results without a fused kernel: the first two for every operation, the others for
 * sums. Nonzero if this one cannot be gone. */
enum { BY_ROWS, BY_COLUMNS, BY_ROWS_GEMV, BY_COLUMNS_GEMV, NO_GEMM, WAYS };

static int unfused(const gemm_bench *s, int way, int op, int turn) {
  const int by_columns = way == BY_COLUMNS || way == BY_COLUMNS_GEMV;
  if (way == NO_GEMM)
    return blas_sum_of_product(&s->g, a_of(s, turn), b_of(s, turn), ones, sums_of_a, peer_results);
  if (!s->usable[by_columns] || run_gemm(s, by_columns, turn)) return 1;
  if (way == BY_ROWS || way == BY_COLUMNS) return reduce_c(s, by_columns, op, turn) != GPURED_OK;
  return blas_sum_of_c(&s->blas[by_columns], c_of(s, turn), ones, peer_results);
}

static std::vector<double> read_results(const gemm_bench *s, int op, const void *from) {
  const int type = gemm_result_type(s, op);
  const size_t count = (size_t)(s->g.batch * s->g.n);
  std::vector<double> raw(count), values(count);
  check(cudaMemcpyAsync(raw.data(), from, count * gpured_dtype_size((gpured_dtype)type),
                        cudaMemcpyDefault, stream),
        "copy");
  check(cudaStreamSynchronize(stream), "copy");
  for (size_t i = 0; i < count; ++i) {
    if (type == GPURED_F64) values[i] = raw[i];
    if (type == GPURED_F32) values[i] = ((const float *)(const void *)raw.data())[i];
    if (type == GPURED_I64) values[i] = (double)((const int64_t *)(const void *)raw.data())[i];
  }
  return values;
}

/* Within what C rounds to in its own type. Indices are not compared: roundings decide between
 * values that are nearly the same. */
static int agree(const gemm_bench *s, int op, const std::vector<double> &x,
                 const std::vector<double> &y) {
  const double loose = s->g.dtype == GPURED_I8    ? 0
                       : s->g.dtype == GPURED_F64 ? 1e-9
                       : s->g.dtype == GPURED_F32 ? 1e-3
                                                  : 3e-2;
  double largest = 0;
  if (op == GPURED_ARGMAX) return 1;
  for (double v : y) largest = std::max(largest, fabs(v));
  for (size_t i = 0; i < x.size(); ++i)
    if (!(fabs(x[i] - y[i]) <= loose * largest)) return 0;
  return 1;
}

/* The fastest of the ways, or -1; what the first one gives, in *expected. A way that gives
 * something else is left out. */
static int choose_unfused(const gemm_bench *s, int op, std::vector<double> *expected) {
  std::vector<contender> list;
  std::vector<int> ways;
  for (int way = 0; way < (op == GPURED_SUM ? (int)WAYS : 2); ++way) {
    check(cudaMemsetAsync(peer_results, 0xff, RESULT_BYTES, stream), "poison");
    if (!blas.there || unfused(s, way, op, 0)) continue;
    const std::vector<double> got = read_results(s, op, peer_results);
    if (expected->empty()) *expected = got;
    if (!agree(s, op, got, *expected)) {
      fprintf(stderr, "bench_cuda: way %d without a fused kernel is wrong: left out\n", way);
      continue;
    }
    ways.push_back(way);
    list.push_back([=](int turn) { unfused(s, way, op, turn); });
  }
  if (list.empty()) return -1;
  const std::vector<double> t = times_of(list, to_choose);
  return ways[(size_t)(std::min_element(t.begin(), t.end()) - t.begin())];
}

static gpured_status fused(const gemm_bench *s, int op, int turn, size_t *bytes) {
  const gemm_case *g = &s->g;
  const int64_t sa[3] = {g->batch, g->m, g->k}, sb[3] = {g->batch, g->k, g->n};
  const int64_t tb[3] = {g->k * g->n, g->b_by_columns ? 1 : g->n, g->b_by_columns ? g->k : 1};
  const gpured_tensor a = device_array(a_of(s, turn), g->dtype, 3, sa, NULL);
  const gpured_tensor b = device_array(b_of(s, turn), g->dtype, 3, sb, tb);
  const gpured_tensor d = results_at(s, op, results);
  if (bytes) return gpured_gemm_reduce_workspace((gpured_op)op, &a, &b, 0, &d, &s->o, bytes);
  return gpured_gemm_reduce((gpured_op)op, &a, &b, 0, &d, &s->o);
}

/* Times in microseconds, 0 where there is none. */
struct gemm_times {
  double us, alone, unfused, plain; /* plain: a plain read of both operands */
};

static void report_gemm(const gemm_bench *s, const char *name, int op, const gemm_times *t) {
  const gemm_case *g = &s->g;
  const double flops = 2.0 * (double)g->batch * (double)g->m * (double)g->n * (double)g->k;
  const size_t results = gpured_dtype_size((gpured_dtype)gemm_result_type(s, op));
  const double outputs = (double)g->batch * (double)g->n * (double)results;
  const double gbs = t->us > 0 ? ((double)(s->a_bytes + s->b_bytes) + outputs) / t->us : 0;
  const double tflops = t->us > 0 ? flops / t->us / 1e6 : 0;
  const double over_gemm = t->us > 0 ? t->alone / t->us : 0;
  const double over_unfused = t->us > 0 ? t->unfused / t->us : 0;
  if (csv) {
    printf("%s,%.2f,%.1f,%.4f,,%.2f,%.2f,%.3f,%.2f,%.3f,%.2f\n", name, t->us, gbs / 1e3,
           gbs / read_ceiling, tflops, t->alone, over_gemm, t->unfused, over_unfused, t->plain);
  } else {
    printf("%-46s", name);
    if (t->us == 0)
      printf(" %10s   %26s", "-", "unsupported");
    else if (op == GPURED_SUM) /* no product is formed: memory is the measure */
      printf(" %10.2f us %7.0f GB/s %.3f of ceiling", t->us, gbs / 1e3, gbs / read_ceiling);
    else
      printf(" %10.2f us %7.1f TFLOP/s %16s", t->us, tflops, "");
    if (t->alone > 0) printf("  GEMM alone %10.2f us, ratio %5.2f", t->alone, over_gemm);
    if (t->unfused > 0) printf("  unfused %10.2f us, ratio %5.2f", t->unfused, over_unfused);
    printf("  plain read %10.2f us\n", t->plain);
  }
  fflush(stdout);
}

/* gpured, the GEMM alone, the best unfused way and a plain read take turns. 1 if a result is wrong. */
static int bench_gemm(gemm_bench *s, const char *name, int op) {
  std::vector<contender> list;
  gemm_times t = {0, 0, 0, 0};
  size_t need = 0;
  s->o = device_options();
  s->o.acc_dtype = s->acc;
  gpured_status st = fused(s, op, 0, &need);
  if (st == GPURED_OK && need > scratch_bytes) {
    fprintf(stderr, "bench_cuda: %s: needs %zu bytes of workspace\n", name, need);
    return 1;
  }
  if (st == GPURED_OK) {
    check(cudaMemsetAsync(results, 0xff, RESULT_BYTES, stream), "poison");
    st = fused(s, op, 0, NULL);
  }
  std::vector<double> expected;
  const int supported = st != GPURED_ERR_UNSUPPORTED, way = choose_unfused(s, op, &expected);
  const int alone = s->usable[s->faster];
  if (supported) must(st, name);
  const std::vector<double> ours = supported ? read_results(s, op, results) : expected;
  if (supported) list.push_back([=](int turn) { must(fused(s, op, turn, NULL), name); });
  if (alone) list.push_back([=](int turn) { run_gemm(s, s->faster, turn); });
  if (way >= 0) list.push_back([=](int turn) { unfused(s, way, op, turn); });
  list.push_back([=](int turn) { read_plainly(a_of(s, turn), s->a_bytes + s->b_bytes); });
  const std::vector<double> medians = times_of(list, to_measure);
  size_t at = 0;
  if (supported) t.us = medians[at++];
  if (alone) t.alone = medians[at++];
  if (way >= 0) t.unfused = medians[at++];
  t.plain = medians[at++];
  report_gemm(s, name, op, &t);
  if (!supported || way < 0 || agree(s, op, ours, expected)) return 0;
  fprintf(stderr, "bench_cuda: %s: a result is WRONG\n", name);
  return 1;
}

struct gemm_row {
  int dtype, acc, b_by_columns;
  int64_t batch, m, n, k;
  int ops; /* which of gemm_ops, a bit for each */
};
static const int gemm_ops[] = {GPURED_MAX, GPURED_ARGMAX, GPURED_LOGSUMEXP, GPURED_SUM};
static const char *const gemm_op_names[] = {"max", "argmax", "lse", "sum"};
enum { JUST_MAX = 1, EXTREMA = 3, NOT_SUM = 7, JUST_SUM = 8, EVERY_OP = 15 };
static const gemm_row gemm_rows[] = {
    {GPURED_BF16, 0, 0, 4, 2048, 1920, 2048, EVERY_OP},
    {GPURED_BF16, 0, 1, 4, 2048, 1920, 2048, EVERY_OP},
    {GPURED_BF16, 0, 0, 16, 2048, 2048, 2048, EVERY_OP},
    {GPURED_BF16, 0, 0, 1, 8192, 8192, 8192, EVERY_OP},
    {GPURED_BF16, 0, 1, 1, 8192, 8192, 8192, JUST_MAX},
    {GPURED_BF16, 0, 0, 4, 3840, 4096, 64, EVERY_OP},
    {GPURED_BF16, 0, 1, 4, 3840, 4096, 64, JUST_MAX},
    {GPURED_BF16, 0, 0, 1, 1024, P(20), 128, EVERY_OP},
    {GPURED_BF16, 0, 0, 1, 131072, 4096, 4096, EVERY_OP},
    {GPURED_BF16, 0, 0, 256, 256, 128, 64, NOT_SUM},
    {GPURED_BF16, 0, 0, 4096, 64, 64, 64, NOT_SUM},
    {GPURED_F16, 0, 1, 4, 2048, 1920, 2048, NOT_SUM},
    {GPURED_BF16, 0, 0, 1, 4095, 4095, 4095, EVERY_OP},
    {GPURED_BF16, 0, 0, 1, 131072, 1001, 333, NOT_SUM},
    {GPURED_BF16, 0, 0, 4096, 63, 63, 63, NOT_SUM},
    {GPURED_BF16, 0, 0, 1, 256, 256, 65536, NOT_SUM},
    {GPURED_BF16, 0, 0, 1, 64, 64, 262144, JUST_MAX},
    {GPURED_BF16, 0, 0, 1, 512, 512, 16384, NOT_SUM},
    {GPURED_F32, 0, 0, 4, 2048, 1920, 2048, EVERY_OP},
    {GPURED_F32, 0, 0, 16, 2048, 2048, 2048, EVERY_OP},
    {GPURED_F32, 0, 0, 1, 8192, 8192, 8192, EVERY_OP},
    {GPURED_F32, 0, 0, 1, 1024, P(20), 128, EVERY_OP},
    {GPURED_F32, 0, 0, 256, 256, 128, 64, NOT_SUM},
    {GPURED_F32, 0, 0, 4096, 64, 64, 64, NOT_SUM},
    {GPURED_F32, GPURED_F64, 0, 4, 2048, 1920, 2048, EXTREMA},
    {GPURED_F32, GPURED_F64, 0, 1, 8192, 8192, 8192, EXTREMA},
    {GPURED_F64, 0, 0, 1, 4096, 4096, 4096, EVERY_OP},
    {GPURED_F64, 0, 0, 1, 8192, 8192, 8192, JUST_MAX},
    {GPURED_F32, 0, 0, 1, 4095, 4095, 4095, EVERY_OP},
    {GPURED_F32, 0, 0, 1, 512, 512, 512, JUST_MAX},
    {GPURED_F32, 0, 0, 1, 1024, 1024, 1024, JUST_MAX},
    {GPURED_F32, 0, 0, 1, 65536, 16, 1024, JUST_MAX},
    {GPURED_F32, 0, 0, 1, 16, 65536, 1024, JUST_MAX},
    {GPURED_F32, 0, 0, 4096, 63, 63, 63, JUST_MAX},
    {GPURED_F32, 0, 0, 16384, 16, 16, 16, JUST_MAX},
    {GPURED_F32, 0, 0, 1, 8, 4096, 4096, JUST_MAX},
    {GPURED_F32, 0, 0, 1, 4096, 8, 4096, JUST_MAX},
    {GPURED_F32, 0, 0, 1, 64, 4096, 4096, JUST_MAX},
    {GPURED_F32, 0, 0, 1, 256, 256, 65536, JUST_MAX},
    {GPURED_F64, 0, 0, 1, 1024, 1024, 1024, JUST_MAX},
    {GPURED_F64, 0, 0, 4096, 64, 64, 64, JUST_MAX},
    {GPURED_F64, 0, 0, 1, 8, 4096, 4096, JUST_MAX},
    {GPURED_F64, 0, 0, 1, 512, 512, 512, JUST_MAX},
    {GPURED_F64, 0, 0, 1, 256, 256, 65536, JUST_MAX},
    {GPURED_I8, 0, 1, 1, 8192, 8192, 8192, EXTREMA | JUST_SUM},
    {GPURED_I8, 0, 0, 1, 8192, 8192, 8192, JUST_MAX | JUST_SUM},
    {GPURED_I8, 0, 0, 1, 2048, 2048, 2048, JUST_SUM},
    {GPURED_I8, 0, 0, 1, 256, 256, 65536, JUST_SUM},
    {GPURED_I8, 0, 1, 1, 65536, 1024, 128, EXTREMA},
};

static void gemm_name(const gemm_row *r, int op, char *name, size_t size) {
  static const char *const types[] = {"", "f32", "f64", "f16", "bf16", "i8"};
  char n[24];
  if (r->n == P(20))
    snprintf(n, sizeof n, "2^20");
  else
    snprintf(n, sizeof n, "%lld", (long long)r->n);
  snprintf(name, size, "%sgemm %s %s %lldx%lldx%sx%lld%s%s", sweep ? "sweep " : "", types[r->dtype],
           gemm_op_names[op], (long long)r->batch, (long long)r->m, n, (long long)r->k,
           r->acc ? " acc f64" : "", r->b_by_columns ? " B by columns" : "");
}

/* What follows in memory begins at a border. */
static size_t whole_lines(size_t bytes) { return (bytes + 255) / 256 * 256; }

static void open_gemm(gemm_bench *s, const gemm_row *r) {
  const size_t size = gpured_dtype_size((gpured_dtype)r->dtype);
  gemm_case g = {r->dtype, r->b_by_columns, r->batch, r->m, r->n, r->k};
  if (quick) {
    g.batch = std::min(g.batch, (int64_t)3);
    g.m = std::min(g.m, (int64_t)384), g.n = std::min(g.n, (int64_t)512);
    g.k = std::min(g.k, (int64_t)256);
  }
  s->g = g;
  s->acc = r->acc;
  s->a_bytes = whole_lines((size_t)(g.batch * g.m * g.k) * size);
  s->b_bytes = whole_lines((size_t)(g.batch * g.k * g.n) * size);
  s->c_bytes = whole_lines((size_t)(g.batch * g.m * g.n) * (g.dtype == GPURED_I8 ? 4 : size));
  s->turns = turns_for(s->a_bytes + s->b_bytes);
  s->c_turns = std::max((size_t)1, std::min(s->turns, out_bytes / s->c_bytes));
  fill_for_gemm(g.dtype);
  choose_gemm(s);
}

/* The rows of one shape, which share its data and the GEMM alone. How many are wrong. */
static int bench_gemm_row(const gemm_row *r, int argc, char **argv) {
  gemm_bench s = {};
  int opened = 0, wrong = 0;
  for (int op = 0; op < 4; ++op) {
    char name[96];
    if (!(r->ops >> op & 1)) continue;
    gemm_name(r, op, name, sizeof name);
    if (!selected(name, argc, argv)) continue;
    if (!opened++) open_gemm(&s, r);
    wrong += bench_gemm(&s, name, gemm_ops[op]);
  }
  blas_close_gemm(&s.blas[0]);
  blas_close_gemm(&s.blas[1]);
  return wrong;
}

/* ---- the sweeps behind the plots ------------------------------------------------------------- */

static void sweep_sizes(int argc, char **argv) {
  char name[64];
  for (int64_t n = P(16); n <= P(30); n *= 2) {
    snprintf(name, sizeof name, "sweep sum f32 flat %lld", (long long)n);
    if (selected(name, argc, argv)) bench_reduce(name, GPURED_SUM, GPURED_F32, 1, n, 1);
  }
  for (int64_t n = P(16); n <= P(30); n *= 2) {
    snprintf(name, sizeof name, "sweep scan f32 flat %lld", (long long)n);
    if (selected(name, argc, argv)) bench_scan(name, GPURED_SUM, GPURED_F32, 1, n, 1, 0);
  }
}

/* Rows of every length, 2^28 elements in all. */
static void sweep_row_lengths(int argc, char **argv) {
  static const struct {
    int op;
    const char *name;
  } ops[] = {{GPURED_SUM, "sum"}, {GPURED_LOGSUMEXP, "lse"}};
  char name[64];
  for (const auto &op : ops) {
    for (int64_t cols = 4; cols <= P(20); cols *= 2) {
      const int64_t rows = P(28) / cols;
      snprintf(name, sizeof name, "sweep %s f32 rows %lldx%lld", op.name, (long long)rows,
               (long long)cols);
      if (selected(name, argc, argv)) bench_reduce(name, op.op, GPURED_F32, rows, cols, 1);
    }
  }
}

/* The maxima of a product of 8192 x 8192, whose sums have more and more terms. */
static int sweep_gemm(int argc, char **argv) {
  int wrong = 0;
  for (int dtype : {GPURED_BF16, GPURED_F32}) {
    for (int64_t k = 32; k <= 8192; k *= 2) {
      const gemm_row row = {dtype, 0, 0, 1, 8192, 8192, k, JUST_MAX};
      wrong += bench_gemm_row(&row, argc, argv);
    }
  }
  return wrong;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* 0, or 1 with a word on stderr. "--filter" may stand before a part of a name. */
static int read_arguments(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    const int more = i + 1 < argc && argv[i + 1][0] != '-';
    if (argv[i][0] != '-' || (strcmp(argv[i], "--filter") == 0 && more)) continue;
    if (strcmp(argv[i], "--csv") == 0)
      csv = 1;
    else if (strcmp(argv[i], "--list") == 0)
      list = 1;
    else if (strcmp(argv[i], "--quick") == 0)
      quick = 1;
    else if (strcmp(argv[i], "--sweep") == 0)
      sweep = 1;
    else {
      fprintf(stderr,
              "usage: %s [--sweep] [--csv] [--list] [--quick] "
              "[[--filter] part of a case's name...]\n",
              argv[0]);
      return 1;
    }
  }
  return 0;
}

static void open_memory(void) {
  in_bytes = out_bytes = quick ? L2_MANY : (size_t)4 << 30;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  check(cudaMalloc((void **)&in_memory, in_bytes), "memory for the input");
  check(cudaMalloc((void **)&out_memory, out_bytes), "memory for the output");
  check(cudaMalloc((void **)&scratch, scratch_bytes), "memory for scratch");
  check(cudaMalloc((void **)&unused, L2_MANY), "memory to clean the cache with");
  check(cudaMalloc((void **)&results, 3 * RESULT_BYTES + ONES * 8), "memory for results");
  peer_results = results + RESULT_BYTES;
  sums_of_a = peer_results + RESULT_BYTES;
  ones = sums_of_a + RESULT_BYTES;
  fill_for(GPURED_F32);
}

/* What ran, and what the memory gives: with --csv a comment, the columns' names and two rows. */
static void print_head(const char *blas_said) {
  cudaDeviceProp card;
  int device = 0, version = 0;
  check(cudaGetDevice(&device), "device");
  check(cudaGetDeviceProperties(&card, device), "device");
  check(cudaRuntimeGetVersion(&version), "version");
  measure_ceilings();
  printf("%s%s, CUDA %d.%d, %s\n", csv ? "# " : "", card.name, version / 1000, version % 1000 / 10,
         blas_said);
  if (quick)
    printf("%s--quick: shrunken cases, too few rounds: these figures mean nothing\n",
           csv ? "# " : "");
  if (csv) {
    printf("case,us,GB/s,of ceiling,CUB us,");
    printf("TFLOP/s,GEMM us,over GEMM,unfused us,over unfused,plain us\n");
    report("ceiling read", (double)in_bytes, (double)in_bytes / read_ceiling, read_ceiling, 0,
           (double)in_bytes / read_ceiling);
    report("ceiling copy", 2.0 * (double)in_bytes, 2.0 * (double)in_bytes / copy_ceiling,
           copy_ceiling, 0, 2.0 * (double)in_bytes / copy_ceiling);
  } else {
    printf("read ceiling %.0f GB/s, copy ceiling %.0f GB/s (read + written)\n", read_ceiling / 1e3,
           copy_ceiling / 1e3);
  }
}

static int run_rows(int argc, char **argv) {
  int wrong = 0;
  for (const reduce_row &r : reduce_rows)
    if (selected(r.name, argc, argv)) bench_reduce(r.name, r.op, r.dtype, r.rows, r.cols, r.axis);
  for (const scan_row &r : scan_rows)
    if (selected(r.name, argc, argv))
      bench_scan(r.name, GPURED_SUM, r.dtype, r.rows, r.cols, r.axis, r.flags);
  for (const gemm_row &r : gemm_rows) wrong += bench_gemm_row(&r, argc, argv);
  return wrong;
}

static int run_sweeps(int argc, char **argv) {
  sweep_sizes(argc, argv);
  sweep_row_lengths(argc, argv);
  return sweep_gemm(argc, argv);
}

int main(int argc, char **argv) {
  if (read_arguments(argc, argv)) return 1;
  if (!list) {
    if (!gpured_cuda_available()) {
      fprintf(stderr, "bench_cuda: no CUDA device, or the backend is not built in\n");
      return 1;
    }
    open_memory();
    print_head(blas_open(stream, scratch, scratch_bytes));
  }
  const int wrong = sweep ? run_sweeps(argc, argv) : run_rows(argc, argv);
  if (!list) check(cudaDeviceSynchronize(), "end");
  return wrong > 0;
}
