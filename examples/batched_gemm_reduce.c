/*
 * batched_gemm_reduce: C = A B for a batch of f16 matrices, of which only the sum and the sum of
 * squares of every column are kept, both made in one pass; C need not exist in memory.
 *
 *   batched_gemm_reduce [verify init time [M N K StrideA StrideB StrideC BatchCount]] [cpu|cuda]
 *
 * verify  1 compares with fp64, 0 does not
 * init    0 leaves A and B zero, 1 fills them with integers -5..5, 2 with decimals
 * time    1 runs several times more and prints the best time, 0 does not
 * StrideA, StrideC  elements from one row to the next (A is M x K, C is M x N, f32)
 * StrideB           elements from one column to the next (B is K x N, stored by columns)
 *                   0 means dense, and for C: not stored. The items of the batch follow each other.
 *
 * cpu, cuda         where it runs (cpu). On a GPU f16 operands go through tensor cores, which keep
 *                   to a bound instead of giving the CPU's bits: verify allows more there.
 *
 * Without arguments: 1 1 1 2048 1920 2048 0 0 0 4.
 */
#define _POSIX_C_SOURCE 200112L /* clock_gettime */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpured.h"

enum { SAMPLE = 32, REPEATS = 5 };

typedef struct problem {
  int64_t verify, init, time, m, n, k, stride_a, stride_b, stride_c, batch;
  int32_t backend;
} problem;

typedef struct buffers {
  uint16_t *a, *b;        /* f16 bit patterns */
  float *sum, *sumsq, *c; /* [batch, N], [batch, N], [batch, M, N] or NULL */
} buffers;

/* f16 <-> double. Packing rounds to nearest even; the values of this program are all finite. */
static uint16_t pack_half(double x) {
  int e;
  const unsigned sign = signbit(x) ? 0x8000u : 0u;
  (void)frexp(x, &e);
  if (x == 0.0 || e < -13) e = -13; /* subnormals share the least exponent */
  const double units = nearbyint(ldexp(fabs(x), 11 - e));
  return (uint16_t)(sign + (unsigned)((e + 13) * 1024 + (int)units));
}

static double unpack_half(uint16_t h) {
  const int e = (h >> 10) & 31, f = h & 1023;
  const double x = e ? ldexp(f + 1024, e - 25) : ldexp(f, -24);
  return h & 0x8000u ? -x : x;
}

/* A small generator, so that every run and every machine multiplies the same matrices. */
static double uniform(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(*state >> 40) * 0x1p-24;
}

static void fill(uint16_t *x, int64_t lines, int64_t length, int64_t stride, const problem *p,
                 double low) {
  uint64_t state = (uint64_t)lines;
  for (int64_t i = 0; p->init != 0 && i < lines * length; ++i) {
    const double u = uniform(&state), v = p->init == 1 ? floor(11.0 * u) - 5.0 : low + u;
    x[i / length * stride + i % length] = pack_half(v);
  }
}

/* The whole use of the library: three views, two results, one call. */
static gpured_status run(const problem *p, const buffers *x) {
  const int64_t sa[3] = {p->batch, p->m, p->k}, ta[3] = {p->m * p->stride_a, p->stride_a, 1};
  const int64_t sb[3] = {p->batch, p->k, p->n}, tb[3] = {p->n * p->stride_b, 1, p->stride_b};
  const int64_t sc[3] = {p->batch, p->m, p->n}, tc[3] = {p->m * p->stride_c, p->stride_c, 1};
  gpured_tensor a = gpured_array(x->a, GPURED_F16, 3, sa, ta);
  gpured_tensor b = gpured_array(x->b, GPURED_F16, 3, sb, tb);
  gpured_tensor c = gpured_array(x->c, GPURED_F32, 3, sc, tc);
  gpured_result results[2];
  gpured_gemm g = gpured_default_gemm();
  gpured_options o = gpured_default_options();

  results[0].op = GPURED_SUM;
  results[0].out = gpured_matrix(x->sum, GPURED_F32, p->batch, p->n);
  results[1].op = GPURED_SUMSQ;
  results[1].out = gpured_matrix(x->sumsq, GPURED_F32, p->batch, p->n);
  g.a = &a;
  g.b = &b;
  g.c = x->c ? &c : NULL;
  g.axis = 0; /* over M */
  g.count = 2;
  g.results = results;
  o.backend = p->backend;
  return gpured_gemm_reduce_ex(&g, &o);
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* With host memory and the CUDA backend the time includes the copies to the device and back. */
static gpured_status measure(const problem *p, const buffers *x) {
  const double size = (double)p->batch;
  const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
  const double bytes = size * (2 * m * k + 2 * k * n + 8 * n + (x->c ? 4 * m * n : 0));
  double best = HUGE_VAL, start = now_ms();

  for (int i = 0; i < REPEATS && (i == 0 || now_ms() - start < 1e4); ++i) {
    const double t = now_ms();
    gpured_status st = run(p, x);
    if (st != GPURED_OK) return st;
    best = fmin(best, now_ms() - t);
  }
  printf("Perf: %.3f ms, %.4g TFlops, %.4g GB/s\n", best, 2 * size * m * n * k / best / 1e9,
         bytes / best / 1e6);
  return GPURED_OK;
}

/* The largest value of one result and its largest error, absolute and relative to a scale. */
typedef struct error {
  double value, absolute, relative;
} error;

static void note(error *e, double got, double want, double scale) {
  const double err = fabs(got - want);
  const double rel = err > 0 || isnan(err) ? err / scale : 0.0;
  e->value = fmax(e->value, fabs(want));
  e->absolute = isnan(err) ? HUGE_VAL : fmax(e->absolute, err);
  e->relative = isnan(rel) ? HUGE_VAL : fmax(e->relative, rel);
}

/* Does in fp64 what `count` columns of one item need. The scale of an element of C is r, with
 * r^2 = c^2 + (sum of the squares of its K products): its size, or what random signs would make it
 * where they happen to cancel. The results have the sums of r and of r^2 as theirs. */
static void reference(const problem *p, const buffers *x, int64_t item, int count, double *b,
                      error e[3]) {
  const uint16_t *pa = x->a + item * p->m * p->stride_a, *pb = x->b + item * p->n * p->stride_b;
  double sum[SAMPLE] = {0}, r1[SAMPLE] = {0}, sumsq[SAMPLE] = {0}, r2[SAMPLE] = {0};
  int64_t col[SAMPLE];

  for (int j = 0; j < count; ++j) col[j] = count > 1 ? j * (p->n - 1) / (count - 1) : 0;
  for (int64_t k = 0; k < p->k; ++k) {
    for (int j = 0; j < count; ++j) b[k * SAMPLE + j] = unpack_half(pb[col[j] * p->stride_b + k]);
  }
  for (int64_t i = 0; i < p->m; ++i) {
    double c[SAMPLE] = {0}, squares[SAMPLE] = {0};
    for (int64_t k = 0; k < p->k; ++k) {
      const double a = unpack_half(pa[i * p->stride_a + k]);
      for (int j = 0; j < count; ++j) {
        const double product = a * b[k * SAMPLE + j];
        c[j] += product;
        squares[j] += product * product;
      }
    }
    for (int j = 0; j < count; ++j) {
      const double r = sqrt(c[j] * c[j] + squares[j]);
      sum[j] += c[j];
      r1[j] += r;
      sumsq[j] += c[j] * c[j];
      r2[j] += r * r;
      if (x->c) note(&e[2], (double)x->c[(item * p->m + i) * p->stride_c + col[j]], c[j], r);
    }
  }
  for (int j = 0; j < count; ++j) {
    note(&e[0], (double)x->sum[item * p->n + col[j]], sum[j], r1[j]);
    note(&e[1], (double)x->sumsq[item * p->n + col[j]], sumsq[j], r2[j]);
  }
}

/* What is allowed, in units of 2^-24. Rounding in f32: K roundings of random sign make about
 * sqrt(K) of one, and 8 times that is allowed. Tensor cores add 16 products to an element at once
 * and then cut off where f32 would round: up to two units for every 16, all of one sign, so K / 8
 * more. A single row left out would be ten times as much at the default size. */
static double allowed_error(const problem *p) {
  const double k = (double)p->k, cut = p->backend == GPURED_BACKEND_CUDA ? k / 8 : 0.0;
  return (8.0 * sqrt(k) + 64.0 + cut) * 0x1p-24;
}

/* Compares up to SAMPLE columns of every item, spread evenly from the first to the last: the whole
 * product in fp64 would take far longer than the result. 1 if an error is beyond what is allowed.
 */
static int verify(const problem *p, const buffers *x) {
  const char *name[3] = {"sum", "sum of squares", "C"};
  const double allowed = allowed_error(p);
  const int count = p->n < SAMPLE ? (int)p->n : SAMPLE;
  error e[3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
  int bad = 0;
  double *b = malloc((size_t)p->k * SAMPLE * sizeof *b);
  if (!b) {
    fprintf(stderr, "batched_gemm_reduce: not enough memory to verify\n");
    return 1;
  }
  for (int64_t item = 0; item < p->batch; ++item) reference(p, x, item, count, b, e);
  free(b);
  printf("verified against fp64: %d of %lld columns of each item\n", count, (long long)p->n);
  for (int r = 0; r < (x->c ? 3 : 2); ++r) {
    const int wrong = !(e[r].relative <= allowed);
    printf("%s: largest error %.3g in values up to %.3g, relative %.2g (allowed %.2g)%s\n", name[r],
           e[r].absolute, e[r].value, e[r].relative, allowed, wrong ? ": WRONG" : "");
    bad |= wrong;
  }
  return bad;
}

static int run_all(const problem *p, const buffers *x) {
  int bad = 0;
  fill(x->a, p->batch * p->m, p->k, p->stride_a, p, 0.0);
  fill(x->b, p->batch * p->n, p->k, p->stride_b, p, -0.5);
  gpured_status st = run(p, x);
  /* What is verified comes from this run; the timed ones come after. */
  if (st == GPURED_OK && p->verify) bad = verify(p, x);
  if (st == GPURED_OK && p->time) st = measure(p, x);
  if (st != GPURED_OK) fprintf(stderr, "batched_gemm_reduce: %s\n", gpured_status_string(st));
  return bad || st != GPURED_OK;
}

/* Elements of `batch` x `lines` lines, `*stride` apart, of `length` each; 0 if that cannot be. */
static size_t elements(const char *name, int64_t batch, int64_t lines, int64_t length,
                       int64_t *stride) {
  const int64_t most = INT64_C(1) << 40;
  if (*stride == 0) *stride = length;
  if (*stride < length) {
    fprintf(stderr, "batched_gemm_reduce: Stride%s %lld is less than one line, %lld elements\n",
            name, (long long)*stride, (long long)length);
    return 0;
  }
  if (batch > most / lines || *stride > most / (batch * lines)) {
    fprintf(stderr, "batched_gemm_reduce: %s is too large\n", name);
    return 0;
  }
  return (size_t)(batch * lines * *stride);
}

static int allocate_and_run(problem *p) {
  const int store = p->stride_c != 0;
  const size_t na = elements("A", p->batch, p->m, p->k, &p->stride_a);
  const size_t nb = na ? elements("B", p->batch, p->n, p->k, &p->stride_b) : 0;
  const size_t nc = nb ? elements("C", p->batch, p->m, p->n, &p->stride_c) : 0;
  const size_t out = (size_t)(p->batch * p->n);
  buffers x;
  int bad = 1;

  if (!nc) return 1;
  x.a = calloc(na, sizeof *x.a);
  x.b = calloc(nb, sizeof *x.b);
  x.sum = calloc(out, sizeof *x.sum);
  x.sumsq = calloc(out, sizeof *x.sumsq);
  x.c = store ? calloc(nc, sizeof *x.c) : NULL;
  if (x.a && x.b && x.sum && x.sumsq && (x.c || !store)) {
    bad = run_all(p, &x);
  } else {
    fprintf(stderr, "batched_gemm_reduce: not enough memory\n");
  }
  free(x.a);
  free(x.b);
  free(x.sum);
  free(x.sumsq);
  free(x.c);
  return bad;
}

static int parse(int argc, char **argv, problem *p) {
  int64_t *const field[10] = {&p->verify, &p->init,     &p->time,     &p->m,        &p->n,
                              &p->k,      &p->stride_a, &p->stride_b, &p->stride_c, &p->batch};
  const int64_t least[10] = {0, 0, 0, 1, 1, 1, 0, 0, 0, 1};
  const int64_t most[10] = {1,         2,         1,         INT32_MAX, INT32_MAX,
                            INT32_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT32_MAX};
  if (argc > 1 && (!strcmp(argv[argc - 1], "cpu") || !strcmp(argv[argc - 1], "cuda"))) {
    --argc;
    p->backend = strcmp(argv[argc], "cpu") ? GPURED_BACKEND_CUDA : GPURED_BACKEND_CPU;
  }
  if (argc != 1 && argc != 4 && argc != 11) return 0;
  for (int i = 1; i < argc; ++i) {
    char *end;
    const long long v = strtoll(argv[i], &end, 10);
    if (end == argv[i] || *end || v < least[i - 1] || v > most[i - 1]) {
      fprintf(stderr, "batched_gemm_reduce: argument %d, '%s', is wrong\n", i, argv[i]);
      return 0;
    }
    *field[i - 1] = v;
  }
  return 1;
}

int main(int argc, char **argv) {
  problem p = {1, 1, 1, 2048, 1920, 2048, 0, 0, 0, 4, GPURED_BACKEND_AUTO};
  if (!parse(argc, argv, &p)) {
    fprintf(stderr,
            "usage: batched_gemm_reduce [verify init time\n"
            "           [M N K StrideA StrideB StrideC BatchCount]] [cpu|cuda]\n"
            "  verify 0|1, time 0|1, init 0 = zeros, 1 = integers -5..5, 2 = decimals\n"
            "  Stride: elements between rows of A, C, columns of B; 0 = dense (C: not stored)\n");
    return 1;
  }
  if (p.backend == GPURED_BACKEND_CUDA && !gpured_cuda_available()) {
    fprintf(stderr, "batched_gemm_reduce: CUDA is not built in, or there is no device\n");
    return 1;
  }
  return allocate_and_run(&p);
}
