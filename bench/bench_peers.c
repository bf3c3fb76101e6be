/*
 * The peers. Plain loops are what C gives at the flags in use; "hand" is the best free-order vector
 * code (bench_hand.c) with threads around it; OpenBLAS is loaded at run time, so that the benchmark
 * builds and runs without it. Each function leaves its result where gpured leaves its own.
 */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static size_t element_size(const job *j) { return gpured_dtype_size(j->spec.dtype); }

static const void *at(const job *j, const void *base, size_t element) {
  return (const char *)base + element * element_size(j);
}

static void *out_at(const job *j, void *base, size_t element) {
  return (char *)base + element * element_size(j);
}

static void put(const job *j, size_t i, double value) {
  switch (j->out_dtype) {
    case GPURED_F64:
      ((double *)j->out)[i] = value;
      break;
    case GPURED_I64:
      ((int64_t *)j->out)[i] = (int64_t)value;
      break;
    default:
      ((float *)j->out)[i] = (float)value;
      break;
  }
}

/* Keeps a compiler from moving work out of the loop over repeated calls. */
static void touch_memory(void) {
#ifdef __GNUC__
  __asm__ volatile("" ::: "memory");
#endif
}

/* A matrix seen as rows x cols; the reduced axis is j->spec.axis. GEMM: its A operand, one item. */
static size_t matrix_rows(const job *j) { return (size_t)j->spec.shape[0]; }
static size_t matrix_cols(const job *j) { return (size_t)j->spec.shape[1]; }

/* ---- plain loops, for float and double --------------------------------------------------------
 */
#define PLAIN_FLAT(T, NAME)                                \
  static double NAME(gpured_op op, const T *x, size_t n) { \
    T r = op == GPURED_MIN || op == GPURED_MAX ? x[0] : 0; \
    size_t i;                                              \
    if (op == GPURED_MIN)                                  \
      for (i = 0; i < n; ++i) r = x[i] < r ? x[i] : r;     \
    else if (op == GPURED_MAX)                             \
      for (i = 0; i < n; ++i) r = x[i] > r ? x[i] : r;     \
    else if (op == GPURED_SUMSQ)                           \
      for (i = 0; i < n; ++i) r += x[i] * x[i];            \
    else                                                   \
      for (i = 0; i < n; ++i) r += x[i];                   \
    return (double)r;                                      \
  }
PLAIN_FLAT(float, plain_flat_f32)
PLAIN_FLAT(double, plain_flat_f64)

static void flat_once(const job *j) {
  put(j, 0,
      j->spec.dtype == GPURED_F64 ? plain_flat_f64(j->spec.op, (const double *)j->x, j->in_count)
                                  : plain_flat_f32(j->spec.op, (const float *)j->x, j->in_count));
}

#define PLAIN_ARG(T, NAME)                                      \
  static int64_t NAME(gpured_op op, const T *x, size_t n) {     \
    size_t i, best = 0;                                         \
    if (op == GPURED_ARGMIN)                                    \
      for (i = 1; i < n; ++i) best = x[i] < x[best] ? i : best; \
    else                                                        \
      for (i = 1; i < n; ++i) best = x[i] > x[best] ? i : best; \
    return (int64_t)best;                                       \
  }
PLAIN_ARG(float, plain_arg_f32)
PLAIN_ARG(double, plain_arg_f64)

static void arg_once(const job *j) {
  *(int64_t *)j->out = j->spec.dtype == GPURED_F64
                           ? plain_arg_f64(j->spec.op, (const double *)j->x, j->in_count)
                           : plain_arg_f32(j->spec.op, (const float *)j->x, j->in_count);
}

static void sum64_once(const job *j) {
  const float *x = (const float *)j->x;
  double r = 0;
  size_t i;
  for (i = 0; i < j->in_count; ++i) r += (double)x[i];
  put(j, 0, r);
}

/* The narrow types: what a user writes, widening each element. */
static float from_bits(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static float from_half(uint16_t h) {
  uint32_t exponent = (uint32_t)(h >> 10) & 31u, sign = (uint32_t)(h & 0x8000u) << 16;
  if (exponent == 0) {
    float f = (float)(h & 0x3ffu) * (1.0f / 16777216.0f);
    return sign ? -f : f;
  }
  return from_bits(sign | ((exponent + 112u) << 23) | ((uint32_t)(h & 0x3ffu) << 13));
}

static void narrow_once(const job *j) {
  float f = 0;
  int64_t s = 0;
  size_t i, n = j->in_count;
  switch (j->spec.dtype) {
    case GPURED_F16:
      for (i = 0; i < n; ++i) f += from_half(((const uint16_t *)j->x)[i]);
      break;
    case GPURED_BF16:
      for (i = 0; i < n; ++i) f += from_bits((uint32_t)((const uint16_t *)j->x)[i] << 16);
      break;
    case GPURED_I8:
      for (i = 0; i < n; ++i) s += ((const int8_t *)j->x)[i];
      break;
    default:
      for (i = 0; i < n; ++i) s += ((const int32_t *)j->x)[i];
      break;
  }
  put(j, 0, j->out_dtype == GPURED_I64 ? (double)s : (double)f);
}

/* The runs of a row that is too short for the clock are counted together. */
static void repeated(const job *j, void (*once)(const job *)) {
  int r;
  for (r = 0; r < j->repeat; ++r) {
    once(j);
    touch_memory();
  }
}

void plain_flat(const job *j) { repeated(j, flat_once); }
void plain_arg(const job *j) { repeated(j, arg_once); }
void plain_sum64(const job *j) { repeated(j, sum64_once); }
void plain_narrow(const job *j) { repeated(j, narrow_once); }

/* Column sums go row by row: the other nesting would walk memory in strides. */
#define PLAIN_MATRIX(T, NAME)                                                \
  static void NAME(const T *x, size_t rows, size_t cols, int axis, T *out) { \
    size_t i, k;                                                             \
    if (axis == 0) {                                                         \
      for (k = 0; k < cols; ++k) out[k] = 0;                                 \
      for (i = 0; i < rows; ++i)                                             \
        for (k = 0; k < cols; ++k) out[k] += x[i * cols + k];                \
    } else {                                                                 \
      for (i = 0; i < rows; ++i) {                                           \
        T s = 0;                                                             \
        for (k = 0; k < cols; ++k) s += x[i * cols + k];                     \
        out[i] = s;                                                          \
      }                                                                      \
    }                                                                        \
  }
PLAIN_MATRIX(float, plain_matrix_f32)
PLAIN_MATRIX(double, plain_matrix_f64)

void plain_matrix(const job *j) {
  size_t rows = matrix_rows(j), cols = matrix_cols(j);
  if (j->spec.dtype == GPURED_F64)
    plain_matrix_f64((const double *)j->x, rows, cols, j->spec.axis, (double *)j->out);
  else
    plain_matrix_f32((const float *)j->x, rows, cols, j->spec.axis, (float *)j->out);
}

void plain_call(const job *j) { repeated(j, plain_matrix); }

#define PLAIN_LOGSUMEXP(T, NAME, EXP, LOG)           \
  static T NAME(const T *x, size_t n) {              \
    T m = x[0], s = 0;                               \
    size_t i;                                        \
    for (i = 1; i < n; ++i) m = x[i] > m ? x[i] : m; \
    for (i = 0; i < n; ++i) s += EXP(x[i] - m);      \
    return m + LOG(s);                               \
  }
PLAIN_LOGSUMEXP(float, plain_lse_f32, expf, logf)
PLAIN_LOGSUMEXP(double, plain_lse_f64, exp, log)

static void lse_part(const void *context, int part, size_t begin, size_t end) {
  const job *j = (const job *)context;
  size_t i, cols = j->in_count / j->out_count;
  (void)part;
  for (i = begin; i < end; ++i)
    put(j, i,
        j->spec.dtype == GPURED_F64 ? plain_lse_f64((const double *)j->x + i * cols, cols)
                                    : (double)plain_lse_f32((const float *)j->x + i * cols, cols));
}

void plain_logsumexp(const job *j) { in_parts(j->spec.threads, j->out_count, 1, lse_part, j); }

/* ---- scans ------------------------------------------------------------------------------------
 */
#define PLAIN_SCAN(T, NAME)                                                       \
  static void NAME(const T *x, T *y, size_t lines, size_t n, int axis) {          \
    size_t i, k;                                                                  \
    if (axis == 0) {                                                              \
      for (k = 0; k < n; ++k) y[k] = x[k];                                        \
      for (i = 1; i < lines; ++i)                                                 \
        for (k = 0; k < n; ++k) y[i * n + k] = y[(i - 1) * n + k] + x[i * n + k]; \
    } else {                                                                      \
      for (i = 0; i < lines; ++i) {                                               \
        T s = 0;                                                                  \
        for (k = 0; k < n; ++k) y[i * n + k] = s += x[i * n + k];                 \
      }                                                                           \
    }                                                                             \
  }
PLAIN_SCAN(float, plain_scan_f32)
PLAIN_SCAN(double, plain_scan_f64)

static size_t scan_lines(const job *j) { return j->spec.ndim == 2 ? matrix_rows(j) : 1; }

void plain_scan(const job *j) {
  size_t lines = scan_lines(j), n = j->in_count / lines;
  int axis = j->spec.ndim == 2 ? j->spec.axis : 1;
  if (j->spec.dtype == GPURED_F64)
    plain_scan_f64((const double *)j->x, (double *)j->out, lines, n, axis);
  else
    plain_scan_f32((const float *)j->x, (float *)j->out, lines, n, axis);
}

void simd_inscan(const job *j) { vec_for(j->spec.dtype)->inscan(j->x, j->out, j->in_count); }

/* Non-temporal stores win out of cache and lose badly inside it. */
static int worth_streaming(const job *j) { return j->in_bytes > (size_t)32 << 20; }

/*
 * A long line on several threads, in one pass over memory: a thread takes the next piece, sums it
 * (which brings it into the L2), waits for the carry of the pieces before, hands its own on, and
 * scans.
 */
enum { SCAN_PIECE = 32768 };

typedef struct scan_carry {
  atomic_int ready;
  double value;
} scan_carry;

static void scan_pieces(const void *context, int part, size_t begin, size_t end) {
  const job *j = (const job *)context;
  const vec_kernels *k = vec_for(j->spec.dtype);
  scan_carry *carry = (scan_carry *)j->scratch + 1;
  atomic_int *next = &carry[-1].ready;
  size_t pieces = (j->in_count + SCAN_PIECE - 1) / SCAN_PIECE, p;
  (void)part, (void)begin, (void)end;
  while ((p = (size_t)atomic_fetch_add(next, 1)) < pieces) {
    size_t first = p * SCAN_PIECE, n = j->in_count - first;
    double total;
    if (n > SCAN_PIECE) n = SCAN_PIECE;
    total = k->sum(at(j, j->x, first), n);
    while (p > 0 && !atomic_load_explicit(&carry[p].ready, memory_order_acquire)) continue;
    carry[p + 1].value = carry[p].value + total;
    atomic_store_explicit(&carry[p + 1].ready, 1, memory_order_release);
    k->scan(at(j, j->x, first), out_at(j, j->out, first), n, carry[p].value, worth_streaming(j));
  }
}

static void scan_rows_part(const void *context, int part, size_t begin, size_t end) {
  const job *j = (const job *)context;
  size_t i, n = matrix_cols(j);
  int stream = worth_streaming(j) && n * element_size(j) % 64 == 0;
  (void)part;
  for (i = begin; i < end; ++i) {
    vec_for(j->spec.dtype)->scan(at(j, j->x, i * n), out_at(j, j->out, i * n), n, 0, stream);
  }
}

void hand_scan(const job *j) {
  int threads = j->spec.threads;
  if (j->spec.ndim == 2) {
    in_parts(threads, matrix_rows(j), 1, scan_rows_part, j);
  } else if (threads == 1) {
    vec_for(j->spec.dtype)->scan(j->x, j->out, j->in_count, 0, worth_streaming(j));
  } else {
    memset(j->scratch, 0, j->scratch_bytes);
    in_parts(threads, (size_t)threads, 1, scan_pieces, j);
  }
}

/* Down the columns: each strip keeps its running row in the L1. */
static void scan_columns_part(const void *context, int part, size_t begin, size_t end) {
  const job *j = (const job *)context;
  const vec_kernels *k = vec_for(j->spec.dtype);
  size_t i, s, width, cols = matrix_cols(j), es = element_size(j), strip = 16384 / es;
  (void)part;
  for (s = begin; s < end; s += width) {
    width = end - s < strip ? end - s : strip;
    memcpy(out_at(j, j->out, s), at(j, j->x, s), width * es);
    for (i = 1; i < matrix_rows(j); ++i) {
      void *y = out_at(j, j->out, i * cols + s);
      memcpy(y, out_at(j, j->out, (i - 1) * cols + s), width * es);
      k->add_rows(at(j, j->x, i * cols + s), 1, cols, width, NULL, y);
    }
  }
}

void hand_scan_columns(const job *j) {
  in_parts(j->spec.threads, matrix_cols(j), 64, scan_columns_part, j);
}

/* ---- hand: flat -------------------------------------------------------------------------------
 */
typedef struct partial_sums {
  const job *j;
  double *value; /* one for each part, a cache line apart */
} partial_sums;

static double hand_op(const job *j, const void *x, size_t n) {
  const vec_kernels *k = vec_for(j->spec.dtype);
  switch (j->spec.op) {
    case GPURED_MIN:
      return k->min(x, n);
    case GPURED_MAX:
      return k->max(x, n);
    case GPURED_SUMSQ:
      return k->sumsq(x, n);
    default:
      return j->spec.acc64 ? vec_sum_f32_as_f64((const float *)x, n) : k->sum(x, n);
  }
}

static void flat_part(const void *context, int part, size_t begin, size_t end) {
  const partial_sums *p = (const partial_sums *)context;
  p->value[part * 8] = hand_op(p->j, at(p->j, p->j->x, begin), end - begin);
}

void hand_flat(const job *j) {
  double value[MAX_THREADS * 8], r;
  partial_sums p;
  int t, threads = j->spec.threads;
  if (threads == 1) {
    for (t = 0; t < j->repeat; ++t) put(j, 0, hand_op(j, j->x, j->in_count));
    return;
  }
  p.j = j, p.value = value;
  for (t = 0; t < threads; ++t) value[t * 8] = j->spec.op == GPURED_MIN ? HUGE_VAL : 0;
  in_parts(threads, j->in_count, 1024, flat_part, &p);
  for (r = value[0], t = 1; t < threads; ++t) {
    double v = value[t * 8];
    if (j->spec.op == GPURED_MIN)
      r = v < r ? v : r;
    else if (j->spec.op == GPURED_MAX)
      r = v > r ? v : r;
    else
      r += v;
  }
  put(j, 0, r);
}

/* ---- hand: matrices ---------------------------------------------------------------------------
 */
typedef struct matrix_work {
  const job *j;
  const void *x;
  size_t rows, cols;
  const void *weights; /* NULL: plain sums */
  void *out;
} matrix_work;

static void row_sums_part(const void *context, int part, size_t begin, size_t end) {
  const matrix_work *w = (const matrix_work *)context;
  const job *j = w->j;
  const vec_kernels *k = vec_for(j->spec.dtype);
  size_t i, cols = w->cols;
  (void)part;
  if (k->short_rows && cols <= 256 && (cols == 8 || cols % k->lanes == 0)) {
    k->short_rows(at(j, w->x, begin * cols), end - begin, cols, out_at(j, w->out, begin));
    return;
  }
  for (i = begin; i < end; ++i) put(j, i, k->sum(at(j, w->x, i * cols), cols));
}

static void strips_part(const void *context, int part, size_t begin, size_t end) {
  const matrix_work *w = (const matrix_work *)context;
  const job *j = w->j;
  const vec_kernels *k = vec_for(j->spec.dtype);
  size_t s, width, es = element_size(j), strip = 16384 / es;
  (void)part;
  for (s = begin; s < end; s += width) {
    void *acc = out_at(j, w->out, s);
    width = end - s < strip ? end - s : strip;
    memset(acc, 0, width * es);
    if (w->weights)
      k->fma_rows(at(j, w->x, s), w->rows, w->cols, width, w->weights, acc);
    else
      k->add_rows(at(j, w->x, s), w->rows, w->cols, width, NULL, acc);
  }
}

static void column_sums(const job *j, int threads, const void *x, size_t rows, size_t cols,
                        const void *weights, void *out) {
  matrix_work w;
  w.j = j, w.x = x, w.rows = rows, w.cols = cols, w.weights = weights, w.out = out;
  in_parts(threads, cols, 64, strips_part, &w);
}

/* Few columns on several threads: each sums some rows into a row of its own in scratch. */
static void columns_part(const void *context, int part, size_t begin, size_t end) {
  const job *j = (const job *)context;
  size_t cols = matrix_cols(j);
  void *own = j->spec.threads == 1 ? j->out : out_at(j, j->scratch, (size_t)part * cols);
  memset(own, 0, cols * element_size(j));
  vec_for(j->spec.dtype)->columns(at(j, j->x, begin * cols), (end - begin) * cols, cols, own);
}

static void narrow_columns(const job *j) {
  const vec_kernels *k = vec_for(j->spec.dtype);
  size_t cols = matrix_cols(j), threads = (size_t)j->spec.threads;
  if (threads > 1) memset(j->scratch, 0, threads * cols * element_size(j));
  in_parts(j->spec.threads, matrix_rows(j), 64, columns_part, j);
  if (threads == 1) return;
  memset(j->out, 0, cols * element_size(j));
  k->add_rows(j->scratch, threads, cols, cols, NULL, j->out);
}

void hand_matrix(const job *j) {
  size_t rows = matrix_rows(j), cols = matrix_cols(j);
  if (j->spec.axis == 1) {
    matrix_work w;
    w.j = j, w.x = j->x, w.rows = rows, w.cols = cols, w.weights = NULL, w.out = j->out;
    in_parts(j->spec.threads, rows, 16, row_sums_part, &w);
  } else if (vec_for(j->spec.dtype)->block % cols == 0) {
    narrow_columns(j);
  } else {
    column_sums(j, j->spec.threads, j->x, rows, cols, NULL, j->out);
  }
}

/* ---- OpenBLAS ---------------------------------------------------------------------------------
 */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

static struct blas {
  void *library;
  void (*set_threads)(int);
  char *(*core)(void);
  float (*sasum)(int, const float *, int);
  double (*dasum)(int, const double *, int);
  float (*ssum)(int, const float *, int);
  double (*dsum)(int, const double *, int);
  float (*sdot)(int, const float *, int, const float *, int);
  double (*ddot)(int, const double *, int, const double *, int);
  size_t (*isamax)(int, const float *, int);
  size_t (*idamax)(int, const double *, int);
  void (*sgemv)(int, int, int, int, float, const float *, int, const float *, int, float, float *,
                int);
  void (*dgemv)(int, int, int, int, double, const double *, int, const double *, int, double,
                double *, int);
  void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                float *, int);
  void (*dgemm)(int, int, int, int, int, int, double, const double *, int, const double *, int,
                double, double *, int);
} blas;

/* A function pointer cannot be cast from what dlsym returns in ISO C; its bytes can be copied. */
static int find(const char *name, void *function) {
  void *symbol = dlsym(blas.library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void *open_first(const char *path) {
  /* The build with threads of its own comes first: the plain name may lead to a serial one. */
  static const char *const names[] = {
      "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
      "/usr/lib/aarch64-linux-gnu/openblas-pthread/libopenblas.so.0",
      "libopenblas.so.0",
      "libopenblasp.so.0",
      "libopenblas.so",
      "libopenblas.dylib"};
  size_t i;
  void *library;
  if (path) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
  for (i = 0; i < sizeof names / sizeof *names; ++i) {
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library) return library;
  }
  return NULL;
}

/*
 * OpenBLAS reads its environment when it is loaded. Leftovers there can halve its speed, and
 * releases that do not know a new processor choose old kernels: with AVX-512 the SkylakeX ones are
 * the best.
 */
peers_info peers_open(const char *path) {
  peers_info info;
  int all;
  memset(&info, 0, sizeof info);
  unsetenv("OPENBLAS_CORETYPE"), unsetenv("OPENBLAS_L2_SIZE");
  unsetenv("OPENBLAS_NUM_THREADS"), unsetenv("GOTO_NUM_THREADS");
  setenv("OPENBLAS_THREAD_TIMEOUT", "22", 1); /* its threads spin for 2^22 ticks, not 2^26 */
  if (strcmp(vec_level(), "avx512") == 0) setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
  blas.library = open_first(path);
  if (!blas.library) return info;
  all = find("openblas_set_num_threads", &blas.set_threads) & find("cblas_sasum", &blas.sasum) &
        find("cblas_dasum", &blas.dasum) & find("cblas_sdot", &blas.sdot) &
        find("cblas_ddot", &blas.ddot) & find("cblas_isamax", &blas.isamax) &
        find("cblas_idamax", &blas.idamax) & find("cblas_sgemv", &blas.sgemv) &
        find("cblas_dgemv", &blas.dgemv) & find("cblas_sgemm", &blas.sgemm) &
        find("cblas_dgemm", &blas.dgemm);
  find("cblas_ssum", &blas.ssum), find("cblas_dsum", &blas.dsum);
  find("openblas_get_corename", &blas.core);
  if (!all) {
    peers_close();
    return info;
  }
  info.blas = 1;
  if (blas.core) strncpy(info.core, blas.core(), sizeof info.core - 1);
  return info;
}

void peers_close(void) {
  if (blas.library) dlclose(blas.library);
  memset(&blas, 0, sizeof blas);
}

void blas_use_threads(int threads) {
  if (blas.set_threads) blas.set_threads(threads);
}

int blas_has_sum(gpured_dtype dtype) { return dtype == GPURED_F64 ? !!blas.dsum : !!blas.ssum; }

#define BLAS_FLAT(NAME, SINGLE, DOUBLE)                                     \
  void NAME(const job *j) {                                                 \
    int r, n = (int)j->in_count;                                            \
    const float *x = (const float *)j->x;                                   \
    const double *z = (const double *)j->x;                                 \
    for (r = 0; r < j->repeat; ++r)                                         \
      put(j, 0, j->spec.dtype == GPURED_F64 ? (DOUBLE) : (double)(SINGLE)); \
    (void)x, (void)z;                                                       \
  }
BLAS_FLAT(blas_sum, blas.ssum(n, x, 1), blas.dsum(n, z, 1))
BLAS_FLAT(blas_asum, blas.sasum(n, x, 1), blas.dasum(n, z, 1))
BLAS_FLAT(blas_dot, blas.sdot(n, x, 1, x, 1), blas.ddot(n, z, 1, z, 1))
BLAS_FLAT(blas_iamax, blas.isamax(n, x, 1), (double)blas.idamax(n, z, 1))

/* out = x^T u (over the rows) or x u, x being rows x cols */
static void gemv(const job *j, int trans, const void *x, size_t rows, size_t cols, const void *u,
                 void *out) {
  int m = (int)rows, n = (int)cols;
  if (j->spec.dtype == GPURED_F64)
    blas.dgemv(ROW_MAJOR, trans, m, n, 1, (const double *)x, n, (const double *)u, 1, 0,
               (double *)out, 1);
  else
    blas.sgemv(ROW_MAJOR, trans, m, n, 1, (const float *)x, n, (const float *)u, 1, 0, (float *)out,
               1);
}

void blas_gemv(const job *j) {
  gemv(j, j->spec.axis == 0 ? TRANS : NO_TRANS, j->x, matrix_rows(j), matrix_cols(j), j->ones,
       j->out);
}

/* c = columns [first, first + width) of item b's product, c having `width` columns */
static void gemm(const job *j, size_t item, size_t first, size_t width, void *c) {
  size_t m = (size_t)j->spec.shape[1], n = (size_t)j->spec.shape[2], k = (size_t)j->spec.shape[3];
  const void *a = at(j, j->x, item * m * k), *b = at(j, j->b, item * k * n + first);
  int im = (int)m, in = (int)width, ik = (int)k;
  if (j->spec.dtype == GPURED_F64)
    blas.dgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, im, in, ik, 1, (const double *)a, ik,
               (const double *)b, (int)n, 0, (double *)c, in);
  else
    blas.sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, im, in, ik, 1, (const float *)a, ik, (const float *)b,
               (int)n, 0, (float *)c, in);
}

/* The columns [begin, end) of an m x n matrix c reduced by max into out. */
typedef struct max_work {
  const job *j;
  const void *c;
  size_t m, n;
  void *out;
} max_work;

static void max_part(const void *context, int part, size_t begin, size_t end) {
  const max_work *w = (const max_work *)context;
  const job *j = w->j;
  size_t s, width, es = element_size(j), strip = 16384 / es;
  (void)part;
  for (s = begin; s < end; s += width) {
    void *acc = out_at(j, w->out, s);
    width = end - s < strip ? end - s : strip;
    memcpy(acc, at(j, w->c, s), width * es);
    vec_for(j->spec.dtype)->max_rows(at(j, w->c, s), w->m, w->n, width, NULL, acc);
  }
}

static void max_columns(const job *j, int threads, const void *c, size_t n, void *out) {
  max_work w;
  w.j = j, w.c = c, w.m = (size_t)j->spec.shape[1], w.n = n, w.out = out;
  in_parts(threads, n, 64, max_part, &w);
}

/* Item by item, so that a small C is still in cache when it is reduced; OpenBLAS brings the
 * threads. */
void blas_gemm_then_max(const job *j) {
  size_t item, n = (size_t)j->spec.shape[2];
  for (item = 0; item < (size_t)j->spec.shape[0]; ++item) {
    gemm(j, item, 0, n, j->scratch);
    max_columns(j, j->spec.threads, j->scratch, n, out_at(j, j->out, item * n));
  }
}

/* Our threads around serial OpenBLAS calls: over the batch where it fills them, else over columns.
 */
static void gemm_split_part(const void *context, int part, size_t begin, size_t end) {
  const job *j = (const job *)context;
  size_t item, m = (size_t)j->spec.shape[1], n = (size_t)j->spec.shape[2];
  void *c = out_at(j, j->scratch, (size_t)part * m * n);
  if (j->spec.shape[0] < j->spec.threads) {
    for (item = 0; item < (size_t)j->spec.shape[0]; ++item) {
      gemm(j, item, begin, end - begin, c);
      max_columns(j, 1, c, end - begin, out_at(j, j->out, item * n + begin));
    }
    return;
  }
  for (item = begin; item < end; ++item) {
    gemm(j, item, 0, n, c);
    max_columns(j, 1, c, n, out_at(j, j->out, item * n));
  }
}

void blas_gemm_split(const job *j) {
  if (j->spec.shape[0] < j->spec.threads)
    in_parts(j->spec.threads, (size_t)j->spec.shape[2], 32, gemm_split_part, j);
  else
    in_parts(j->spec.threads, (size_t)j->spec.shape[0], 1, gemm_split_part, j);
}

/* ---- the sum of a product: column sums of A, then a row vector times B -------------------------
 */
static void product_item(const job *j, int threads, size_t item, void *u) {
  size_t m = (size_t)j->spec.shape[1], n = (size_t)j->spec.shape[2], k = (size_t)j->spec.shape[3];
  column_sums(j, threads, at(j, j->x, item * m * k), m, k, NULL, u);
  column_sums(j, threads, at(j, j->b, item * k * n), k, n, u, out_at(j, j->out, item * n));
}

static void product_part(const void *context, int part, size_t begin, size_t end) {
  const job *j = (const job *)context;
  void *u = out_at(j, j->scratch, (size_t)part * (size_t)j->spec.shape[3]);
  size_t item;
  for (item = begin; item < end; ++item) product_item(j, 1, item, u);
}

void hand_product_sum(const job *j) {
  size_t item, batch = (size_t)j->spec.shape[0];
  if (j->spec.shape[0] >= j->spec.threads)
    in_parts(j->spec.threads, batch, 1, product_part, j);
  else
    for (item = 0; item < batch; ++item) product_item(j, j->spec.threads, item, j->scratch);
}

void blas_product_sum(const job *j) {
  size_t m = (size_t)j->spec.shape[1], n = (size_t)j->spec.shape[2], k = (size_t)j->spec.shape[3];
  size_t item;
  for (item = 0; item < (size_t)j->spec.shape[0]; ++item) {
    gemv(j, TRANS, at(j, j->x, item * m * k), m, k, j->ones, j->scratch);
    gemv(j, TRANS, at(j, j->b, item * k * n), k, n, j->scratch, out_at(j, j->out, item * n));
  }
}
