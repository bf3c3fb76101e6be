/*
 * Results against exact references, within the bounds of docs/ORDER.md section 9. The references
 * know nothing of the order: sums are error-free expansions (Shewchuk, 1997), products
 * double-double, exp and log those of long double. Compile with -DACCURACY_REPORT to see how much
 * of its bound each operation uses.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "other_tus.h"
#include "util.h"

/* ---- exact sums ------------------------------------------------------------------------------ */

/* A sum of doubles that do not overlap, the least first: exact while nothing overflows or
 * underflows. */
typedef struct exact {
  double part[80];
  int count;
} exact;

/* a + b = *sum + *rest. volatile, so that no compiler takes the identity for zero or keeps more
 * bits than it has. */
static void two_sum(double a, double b, double *sum, double *rest) {
  volatile double s = a + b, bb = s - a, aa = s - bb, da = a - aa, db = b - bb;
  *sum = s;
  *rest = da + db;
}

static void two_product(double a, double b, double *product, double *rest) {
  volatile double p = a * b;
  *product = p;
  *rest = fma(a, b, -p);
}

static void exact_add(exact *e, double x) {
  int i, kept = 0;
  for (i = 0; i < e->count; ++i) {
    double rest;
    two_sum(x, e->part[i], &x, &rest);
    if (rest != 0) e->part[kept++] = rest;
  }
  e->part[kept++] = x;
  e->count = kept;
}

static void exact_add_product(exact *e, double a, double b) {
  double product, rest;
  two_product(a, b, &product, &rest);
  exact_add(e, rest);
  exact_add(e, product);
}

static double exact_value(const exact *e) {
  double v = 0;
  int i;
  for (i = 0; i < e->count; ++i) v += e->part[i];
  return v;
}

/* e - x, with the cancellation done before the rounding. */
static double exact_minus(exact e, double x) {
  exact_add(&e, -x);
  return exact_value(&e);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static double log2_ceil(int64_t n) {
  int k = 0;
  while (((int64_t)1 << k) < n) ++k;
  return k;
}

static double depth(int64_t n) {
  double d = 19 + log2_ceil((n + 255) / 256);
  return (double)(n - 1) < d ? (double)(n - 1) : d;
}

static double half_ulp(int dtype) { return ldexp(1, -1 - gen_format_of(dtype).fraction); }

/* The accumulator of a float input. */
static int accumulator(int dtype, int acc) {
  return dtype == GPURED_F64 || acc == GPURED_F64 ? GPURED_F64 : GPURED_F32;
}

/* The error of storing y in a type narrower than T, subnormal results included. */
static double storing(int T, int out, double y) {
  gen_format f = gen_format_of(out);
  if (f.fraction >= gen_format_of(T).fraction) return 0;
  return fabs(y) * half_ulp(out) + ldexp(1, -f.bias - f.fraction);
}

static void within(const char *name, double error, double bound, const char *what) {
#ifdef ACCURACY_REPORT
  static char seen[40][32];
  static double worst[40];
  int i = 0;
  while (i < 39 && seen[i][0] && strcmp(seen[i], name) != 0) ++i;
  snprintf(seen[i], sizeof seen[i], "%s", name);
  if (bound > 0 && fabs(error) / bound > worst[i]) {
    worst[i] = fabs(error) / bound;
    printf("\n%s uses %.3g of its bound: %s", name, worst[i], what);
  }
#endif
  CHECK(fabs(error) <= bound * (1 + 1e-9), "%s: error %g, the bound is %g: %s", name, error, bound,
        what);
}

/* ---- data ------------------------------------------------------------------------------------ */

enum {
  ILL = OR_KINDS,
  OFFSET,
  DATA_KINDS
}; /* sums that cancel; values far from zero and close together */

static box data(int dtype, int64_t n, int kind, uint64_t seed) {
  box b = box_filled(dtype, 1, &n, LAYOUT_C, kind >= OR_KINDS ? OR_UNIFORM : kind, seed);
  int64_t i;
  if (kind == ILL)
    for (i = 0; i + 1 < n; i += 2) set_value(&b.t, n - 1 - i, -value(&b.t, i));
  if (kind == OFFSET)
    for (i = 0; i < n; ++i) set_value(&b.t, i, 96 + (double)((i * 7919 + (int64_t)seed) % 64) / 2);
  return b;
}

static double run_reduce(gpured_backend backend, int op, const box *in, int acc, int out,
                         int ddof) {
  gpured_options o = options_for(backend, acc, ddof, 0);
  box got = box_output(out, 0, NULL, LAYOUT_C, 0);
  gpured_status status = gpured_reduce((gpured_op)op, &in->t, 1, &got.t, &o);
  double y = value(&got.t, 0);
  CHECK(status == GPURED_OK, "%s of %s: status %d", op_name(op), describe(&in->t), (int)status);
  box_free(&got);
  return y;
}

/* What is summed, exactly. */
typedef struct totals {
  exact sum, absolute, squares;
  double greatest; /* |x| */
} totals;

static void take_totals(const gpured_tensor *t, totals *s) {
  int64_t i, n = gen_count(t);
  memset(s, 0, sizeof *s);
  for (i = 0; i < n; ++i) {
    double x = value(t, i);
    exact_add(&s->sum, x);
    exact_add(&s->absolute, fabs(x));
    exact_add_product(&s->squares, x, x);
    s->greatest = fmax(s->greatest, fabs(x));
  }
}

/* ---- sums ------------------------------------------------------------------------------------ */

static void sums_of(gpured_backend backend, const box *in, int acc, int out, const totals *s,
                    int kind) {
  int64_t n = gen_count(&in->t);
  int T = accumulator(in->t.dtype, acc);
  double u = half_ulp(T), absolute = exact_value(&s->absolute), root, y, square, rest;
  const char *what =
      text("%s acc %s -> %s, data %d", describe(&in->t), dtype_name(acc), dtype_name(out), kind);
  exact e;
  y = run_reduce(backend, GPURED_SUM, in, acc, out, 0);
  within("sum", exact_minus(s->sum, y), depth(n) * u * absolute + storing(T, out, y), what);
  y = run_reduce(backend, GPURED_NORM1, in, acc, out, 0);
  within("norm1", exact_minus(s->absolute, y), depth(n) * u * absolute + storing(T, out, y), what);
  y = run_reduce(backend, GPURED_MEAN, in, acc, out, 0);
  e = s->sum;
  exact_add_product(&e, -(double)n, y);
  within("mean", exact_value(&e) / (double)n,
         (depth(n) + 2) * u * absolute / (double)n + storing(T, out, y), what);
  square = exact_value(&s->squares);
  y = run_reduce(backend, GPURED_SUMSQ, in, acc, out, 0);
  within("sumsq", exact_minus(s->squares, y), (depth(n) + 1) * u * square + storing(T, out, y),
         what);
  y = run_reduce(backend, GPURED_NORM2, in, acc, out, 0);
  e = s->squares;
  two_product(y, y, &square, &rest);
  exact_add(&e, -rest);
  exact_add(&e, -square);
  root = sqrt(exact_value(&s->squares));
  within("norm2", exact_value(&e) / (root + y),
         ((depth(n) + 1) / 2 + 1) * u * root + storing(T, out, y), what);
}

static void test_sums(gpured_backend backend) {
  static const int64_t sizes[] = {1, 2, 3, 17, 256, 257, 1000, 4097, 70001};
  static const int kinds[] = {OR_UNIFORM, OR_WIDE, ILL, OR_ONES, OFFSET};
  int dtype, i, k, out, wide;
  for (dtype = GPURED_F32; dtype <= GPURED_BF16; ++dtype)
    for (i = 0; i < COUNT(sizes); ++i)
      for (k = 0; k < COUNT(kinds); ++k) {
        box in;
        totals s;
        if (kinds[k] == OR_WIDE && dtype == GPURED_F16)
          continue; /* its squares leave f16's range */
        in = data(dtype, sizes[i], kinds[k], 50u + (uint64_t)k);
        take_totals(&in.t, &s);
        for (out = GPURED_F32; out <= GPURED_BF16; ++out)
          for (wide = 0; wide < (dtype == GPURED_F64 ? 1 : 2); ++wide) {
            if (kinds[k] == OR_WIDE && (out == GPURED_F16 || (dtype == GPURED_F64 && out != dtype)))
              continue;
            if (out == GPURED_F16 && exact_value(&s.squares) > 60000) continue;
            sums_of(backend, &in, wide ? GPURED_F64 : 0, out, &s, kinds[k]);
          }
        box_free(&in);
      }
}

/* The first large size, where a running sum in f32 stands still long before its end. */
static void test_sum_large(gpured_backend backend) {
  int64_t n = (1 << 24) + 1;
  box in = data(GPURED_F32, n, OR_ONES, 0);
  double y = run_reduce(backend, GPURED_SUM, &in, 0, GPURED_F64, 0);
  within("sum", y - (double)n, depth(n) * half_ulp(GPURED_F32) * (double)n, "2^24 + 1 ones");
  CHECK(fabs(y - (double)n) <= 2, "2^24 + 1 ones make %.17g", y);
  box_free(&in);
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct pair {
  double high, low;
} pair;

static pair pair_times(pair a, double b) {
  pair r;
  double rest;
  two_product(a.high, b, &r.high, &rest);
  rest = fma(a.low, b, rest);
  two_sum(r.high, rest, &r.high, &r.low);
  return r;
}

static double pair_minus(pair a, double b) { return (a.high - b) + a.low; }

static void test_products(gpured_backend backend) {
  static const int64_t sizes[] = {1, 2, 3, 17, 100, 257, 1000, 5000};
  int dtype, i;
  int64_t j;
  for (dtype = GPURED_F32; dtype <= GPURED_BF16; ++dtype)
    for (i = 0; i < COUNT(sizes); ++i) {
      int T = accumulator(dtype, 0), out = T;
      box in = data(dtype, sizes[i], OR_FACTOR, 3), y;
      gpured_options o = options_for(backend, 0, 0, 0);
      double u = half_ulp(T), p;
      pair want = {1, 0};
      y = box_output(out, 1, &sizes[i], LAYOUT_C, 0);
      CHECK(gpured_scan(GPURED_PROD, &in.t, 0, 0, &y.t, &o) == GPURED_OK, "scan prod of %s",
            describe(&in.t));
      for (j = 0; j < sizes[i]; ++j) {
        want = pair_times(want, value(&in.t, j));
        if (fabs(want.high) < 1e-30 || fabs(want.high) > 1e30)
          break; /* the bound holds within the range */
        within("scan prod", pair_minus(want, value(&y.t, j)),
               (double)sizes[i] * u * fabs(want.high), describe(&in.t));
      }
      if (j == sizes[i]) {
        p = run_reduce(backend, GPURED_PROD, &in, 0, out, 0);
        within("prod", pair_minus(want, p), (double)(sizes[i] - 1) * u * fabs(want.high),
               describe(&in.t));
      }
      box_free(&y);
      box_free(&in);
    }
}

/* ---- logsumexp, exp and log ------------------------------------------------------------------ */

/* What long double's own rounding may add to a reference of n terms. */
static double reference_error(int64_t n, double y) {
  return (double)(n + 4) * (double)LDBL_EPSILON * (1 + fabs(y));
}

static void test_logsumexp(gpured_backend backend) {
  static const int64_t sizes[] = {1, 2, 3, 17, 257, 1024, 1025, 5000, 70001};
  static const int kinds[] = {OR_UNIFORM, OR_EXP, OR_ZERO, OFFSET};
  int dtype, i, k, wide;
  int64_t j;
  for (dtype = GPURED_F32; dtype <= GPURED_BF16; ++dtype)
    for (i = 0; i < COUNT(sizes); ++i)
      for (k = 0; k < COUNT(kinds); ++k)
        for (wide = 0; wide < (dtype == GPURED_F64 ? 1 : 2); ++wide) {
          int T = accumulator(dtype, wide ? GPURED_F64 : 0);
          int64_t n = sizes[i];
          box in = data(dtype, n, kinds[k], 9);
          long double m = value(&in.t, 0), s;
          double y = run_reduce(backend, GPURED_LOGSUMEXP, &in, wide ? GPURED_F64 : 0, T, 0), bound;
          for (j = 1; j < n; ++j) m = fmaxl(m, value(&in.t, j));
          s = expl(value(&in.t, 0) - m);
          for (j = 1; j < n; ++j) s += expl(value(&in.t, j) - m);
          bound = fabs(y) + 3 * log((double)n) + 32 + 5 * log2_ceil((n + 1023) / 1024);
          within("logsumexp", (double)(m + logl(s) - y),
                 half_ulp(T) * bound + reference_error(n, y),
                 text("%s in %s, data %d", describe(&in.t), dtype_name(T), kinds[k]));
          box_free(&in);
        }
}

/* The logsumexp of n zeros is log n: every integer up to 3000, within 2 ulp; of one value it is the
 * value. */
static void test_log(gpured_backend backend) {
  int dtype;
  int64_t n;
  for (dtype = GPURED_F32; dtype <= GPURED_F64; ++dtype)
    for (n = 1; n <= 3000; ++n) {
      box in = data(dtype, n, OR_ONES, 0);
      double y, want = (double)logl((long double)n), ulp;
      int64_t i;
      int e;
      for (i = 0; i < n; ++i) set_value(&in.t, i, 0);
      y = run_reduce(backend, GPURED_LOGSUMEXP, &in, 0, dtype, 0);
      (void)frexp(want, &e);
      ulp = n == 1 ? 0 : ldexp(2 * half_ulp(dtype), e - 1);
      within("log", (double)(logl((long double)n) - y), 2 * ulp + reference_error(0, 0) * (n > 1),
             describe(&in.t));
      box_free(&in);
    }
}

/* Of (0, d) it is log(1 + exp(d)): exp alone but for one sum and one log. */
static void test_exp(gpured_backend backend) {
  static const int64_t two = 2;
  int dtype, i;
  for (dtype = GPURED_F32; dtype <= GPURED_F64; ++dtype)
    for (i = 0; i < 4000; ++i) {
      box in = data(dtype, two, OR_ZERO, 0);
      double d = -(double)i * (i < 2000 ? 0x1p-10 : 0x1p-5), y, want, u = half_ulp(dtype), bound;
      set_value(&in.t, i % 2, d);
      y = run_reduce(backend, GPURED_LOGSUMEXP, &in, 0, dtype, 0);
      want = (double)log1pl(expl(d));
      /* exp's 2.2 u of its part of the sum, the sum's u, log's 2 ulp (4 u of y, and of the cut it
       * makes of small ones) */
      bound = 2.2 * u * exp(d) + 2 * u + 4 * u * want + reference_error(2, want);
      within("exp", y - want, bound, text("d = %g in %s", d, dtype_name(dtype)));
      box_free(&in);
    }
}

/* ---- variance -------------------------------------------------------------------------------- */

/* The sum of squared deviations from the exact mean; good to about 2^-100. */
static double squared_deviations(const gpured_tensor *t, const totals *s) {
  int64_t i, n = gen_count(t);
  double high = exact_value(&s->sum) / (double)n, low;
  exact e = s->sum, squares;
  exact_add_product(&e, -(double)n, high);
  low = exact_value(&e) / (double)n;
  memset(&squares, 0, sizeof squares);
  for (i = 0; i < n; ++i) {
    double d, rest;
    two_sum(value(t, i), -high, &d, &rest);
    rest -= low;
    exact_add_product(&squares, d, d);
    exact_add(&squares, 2 * d * rest);
  }
  return exact_value(&squares);
}

static void variance_of(gpured_backend backend, const box *in, int acc, const totals *s, int kind) {
  int64_t n = gen_count(&in->t);
  int T = accumulator(in->t.dtype, acc);
  double u = half_ulp(T), B = log2_ceil((n + 1023) / 1024), X = s->greatest, bound, y;
  double m2 = squared_deviations(&in->t, s), var = m2 / (double)n;
  const char *what = text("%s acc %s, data %d", describe(&in->t), dtype_name(acc), kind);
  bound = 2 * u * (32 + 6 * B) * (var + 2 * sqrt(var) * X + 40 * u * X * X);
  y = run_reduce(backend, GPURED_VAR, in, acc, T, 0);
  within("var", y - var, bound, what);
  if (n > 1) {
    y = run_reduce(backend, GPURED_VAR, in, acc, T, 1);
    within("var ddof 1", y - m2 / (double)(n - 1), bound * (double)n / (double)(n - 1), what);
  }
  y = run_reduce(backend, GPURED_STD, in, acc, T, 0);
  if (bound < 0.01 * var) /* where the square root is as good as linear */
    within("std", y - sqrt(var), 1.01 * bound / var / 2 * sqrt(var) + u * sqrt(var), what);
}

static void test_variance(gpured_backend backend) {
  static const int64_t sizes[] = {1, 2, 3, 17, 257, 1024, 1025, 2049, 5000, 70001};
  static const int kinds[] = {OR_UNIFORM, ILL, OFFSET, OR_ONES, OR_WIDE};
  int dtype, i, k, wide;
  for (dtype = GPURED_F32; dtype <= GPURED_BF16; ++dtype)
    for (i = 0; i < COUNT(sizes); ++i)
      for (k = 0; k < COUNT(kinds); ++k) {
        box in = data(dtype, sizes[i], kinds[k], 50u + (uint64_t)k);
        totals s;
        take_totals(&in.t, &s);
        for (wide = 0; wide < (dtype == GPURED_F64 ? 1 : 2); ++wide)
          variance_of(backend, &in, wide ? GPURED_F64 : 0, &s, kinds[k]);
        box_free(&in);
      }
}

/* ---- scans ----------------------------------------------------------------------------------- */

static double scan_levels(int64_t n) {
  int levels = 1;
  for (; n > 16; n = (n + 15) / 16) ++levels;
  return levels;
}

static box run_scan(gpured_backend backend, int op, const box *in, int out) {
  gpured_options o = options_for(backend, 0, 0, 0);
  box y = box_output(out, 1, in->t.shape, LAYOUT_C, 0);
  gpured_status status = gpured_scan((gpured_op)op, &in->t, 0, 0, &y.t, &o);
  CHECK(status == GPURED_OK, "scan %s of %s: status %d", op_name(op), describe(&in->t),
        (int)status);
  return y;
}

static void test_scan_sum(gpured_backend backend) {
  static const int64_t sizes[] = {1, 2, 16, 17, 256, 257, 4097, 70001};
  static const int kinds[] = {OR_UNIFORM, OR_WIDE, ILL};
  int dtype, i, k;
  int64_t j;
  for (dtype = GPURED_F32; dtype <= GPURED_BF16; ++dtype)
    for (i = 0; i < COUNT(sizes); ++i)
      for (k = 0; k < COUNT(kinds); ++k) {
        int T = accumulator(dtype, 0), out = kinds[k] == OR_WIDE ? T : dtype;
        box in = data(dtype, sizes[i], kinds[k], 3), y = run_scan(backend, GPURED_SUM, &in, out);
        exact sum = {{0}, 0};
        double absolute = 0;
        for (j = 0; j < sizes[i]; ++j) {
          double x = value(&in.t, j), got = value(&y.t, j);
          exact_add(&sum, x);
          absolute += fabs(x);
          within("scan sum", exact_minus(sum, got),
                 5 * scan_levels(sizes[i]) * half_ulp(T) * absolute + storing(T, out, got),
                 describe(&in.t));
        }
        box_free(&y);
        box_free(&in);
      }
}

static void test_scan_logsumexp(gpured_backend backend) {
  static const int64_t sizes[] = {1, 2, 16, 17, 256, 257, 4097};
  static const int kinds[] = {OR_UNIFORM, OR_EXP, OR_ZERO};
  int dtype, i, k;
  int64_t j;
  for (dtype = GPURED_F32; dtype <= GPURED_F64; ++dtype)
    for (i = 0; i < COUNT(sizes); ++i)
      for (k = 0; k < COUNT(kinds); ++k) {
        box in = data(dtype, sizes[i], kinds[k], 3),
            y = run_scan(backend, GPURED_LOGSUMEXP, &in, dtype);
        long double m = value(&in.t, 0), s = 0;
        for (j = 0; j < sizes[i]; ++j) {
          long double x = value(&in.t, j);
          double got = value(&y.t, j),
                 bound = fabs(got) + 3 * log((double)j + 1) + 8 + 20 * scan_levels(sizes[i]);
          if (x > m) s *= expl(m - x), m = x;
          s += expl(x - m);
          within("scan logsumexp", (double)(m + logl(s) - got),
                 half_ulp(dtype) * bound + reference_error(j, got), describe(&in.t));
        }
        box_free(&y);
        box_free(&in);
      }
}

/* ---- GEMM ------------------------------------------------------------------------------------ */

/* For one result of a reduction over M: exact sums, and the sums that the bounds are made of. */
typedef struct gemm_totals {
  exact plain, values, squares; /* sum of a b, of |v|, of v^2 */
  double products;              /* sum of |a b| */
  double value_errors, square_errors;
} gemm_totals;

/* Adds what v(i, j) is to the sums; returns it rounded, and in *absolute the sum of |a b| over k.
 */
static double take_product(const gpured_tensor *a, const gpured_tensor *b, int64_t i, int64_t j,
                           gemm_totals *s, double *absolute) {
  int64_t k, K = a->shape[1], N = b->shape[1];
  exact e = {{0}, 0};
  double v, rest, sign;
  *absolute = 0;
  for (k = 0; k < K; ++k) {
    double x = value(a, i * K + k), y = value(b, k * N + j);
    exact_add_product(&e, x, y);
    exact_add_product(&s->plain, x, y);
    *absolute += fabs(x * y);
  }
  v = exact_value(&e);
  rest = exact_minus(e, v);
  sign = v < 0 ? -1 : 1;
  exact_add(&s->values, sign * v);
  exact_add(&s->values, sign * rest);
  exact_add_product(&s->squares, v, v);
  exact_add(&s->squares, 2 * v * rest);
  return v;
}

static void gemm_column(const box *a, const box *b, const box *outs, const box *c, int64_t j) {
  int64_t M = a->t.shape[0], K = a->t.shape[1], N = b->t.shape[1], i;
  int T = accumulator(a->t.dtype, 0);
  double u = half_ulp(T), absolute, y, values, squares, fold = (8 + depth((M + 127) / 128)) * u;
  const char *what = text("%lldx%lldx%lld %s, column %lld", (long long)M, (long long)N,
                          (long long)K, dtype_name(a->t.dtype), (long long)j);
  gemm_totals s;
  memset(&s, 0, sizeof s);
  for (i = 0; i < M; ++i) {
    double v = take_product(&a->t, &b->t, i, j, &s, &absolute), e = (double)K * u * absolute;
    within("gemm product", value(&c->t, i * N + j) - v, e + fabs(v) * DBL_EPSILON / 2, what);
    s.products += absolute;
    s.value_errors += e;
    s.square_errors += 2 * fabs(v) * e + e * e;
  }
  values = exact_value(&s.values);
  squares = exact_value(&s.squares);
  y = value(&outs[0].t, j);
  within("gemm sum", exact_minus(s.plain, y), (depth(M) + depth(K) + 4) * u * s.products, what);
  y = value(&outs[1].t, j) * (double)M;
  within("gemm mean", exact_minus(s.plain, y), (depth(M) + depth(K) + 6) * u * s.products, what);
  y = value(&outs[2].t, j);
  within("gemm norm1", exact_minus(s.values, y), s.value_errors + fold * (values + s.value_errors),
         what);
  y = value(&outs[3].t, j);
  if (squares < (T == GPURED_F32 ? 1e37 : 1e300))
    within("gemm sumsq", exact_minus(s.squares, y),
           s.square_errors + (fold + u) * (squares + s.square_errors), what);
}

static void test_gemm(gpured_backend backend) {
  static const int64_t sizes[][3] = {{1, 3, 1},     {5, 4, 7},     {130, 5, 33},
                                     {300, 3, 257}, {33000, 1, 2}, {3, 2, 20000}};
  static const int ops[] = {GPURED_SUM, GPURED_MEAN, GPURED_NORM1, GPURED_SUMSQ};
  static const int kinds[] = {OR_UNIFORM, OR_WIDE};
  int dtype, i, k, r;
  int64_t j;
  for (dtype = GPURED_F32; dtype <= GPURED_BF16; ++dtype)
    for (i = 0; i < COUNT(sizes); ++i)
      for (k = 0; k < (dtype == GPURED_F16 ? 1 : COUNT(kinds)); ++k) {
        int64_t a_shape[2] = {sizes[i][0], sizes[i][2]}, b_shape[2] = {sizes[i][2], sizes[i][1]};
        int64_t c_shape[2] = {sizes[i][0], sizes[i][1]};
        int T = accumulator(dtype, 0);
        box a = box_filled(dtype, 2, a_shape, LAYOUT_C, kinds[k], 1), outs[COUNT(ops)];
        box b = box_filled(dtype, 2, b_shape, LAYOUT_C, kinds[k], 2),
            c = box_output(T, 2, c_shape, LAYOUT_C, 0);
        gpured_result results[COUNT(ops)];
        gpured_options o = options_for(backend, 0, 0, 0);
        gpured_gemm g = gpured_default_gemm();
        for (r = 0; r < COUNT(ops); ++r) {
          outs[r] = box_output(T, 1, &c_shape[1], LAYOUT_C, 0);
          results[r].op = ops[r];
          results[r].out = outs[r].t;
        }
        g.a = &a.t;
        g.b = &b.t;
        g.c = &c.t;
        g.count = COUNT(ops);
        g.results = results;
        CHECK(gpured_gemm_reduce_ex(&g, &o) == GPURED_OK, "gemm of %s", describe(&a.t));
        for (j = 0; j < sizes[i][1]; ++j) gemm_column(&a, &b, outs, &c, j);
        for (r = 0; r < COUNT(ops); ++r) box_free(&outs[r]);
        box_free(&a);
        box_free(&b);
        box_free(&c);
      }
}

/* ---- rounding when stored -------------------------------------------------------------------- */

/*
 * exp over every float d <= 0, at every vector level, against a correctly rounded result: that of
 * double precision, rounded (which is wrong only within 2^-28 ulp of a tie). Prints the largest
 * error, which docs/ORDER.md states.
 */
static void test_exp_all(gpured_backend backend) {
  double worst = 0, error;
  float d, e, other;
  uint32_t bits, wrong = 0, inexact = 0, at = 0;
  int level;
  (void)backend;
  for (bits = 0x80000000u; bits <= 0xff800000u; ++bits) { /* -0 to minus infinity */
    memcpy(&d, &bits, sizeof d);
    if (tu2_exp_f32(0, d, &e) == 0) return;
    for (level = 1; tu2_exp_f32(level, d, &other); ++level)
      if (memcmp(&e, &other, sizeof e) != 0) ++wrong;
    if (d < -86) {
      if (e != 0) ++wrong;
      continue;
    }
    if (e != (float)exp((double)d)) ++inexact;
    error = fabs((double)e / exp((double)d) - 1);
    if (error > worst) worst = error, at = bits;
  }
  CHECK(wrong == 0, "exp: %lu results differ between levels, or should be zero",
        (unsigned long)wrong);
  CHECK(worst < 0.667 / 8388608, "exp of 0x%08lx: relative error %.3f * 2^-23", (unsigned long)at,
        worst * 8388608);
  printf(
      "  exp over all floats: relative error at most %.4f * 2^-23 (0x%08lx); %.2f %% are not "
      "correctly rounded\n",
      worst * 8388608, (unsigned long)at, 100.0 * inexact / (0x42ac0000 + 1.0));
}

/*
 * Every midpoint between two neighbours of a 16-bit type, its two neighbours in the wide type, and
 * the value itself: stored once each, rounded to nearest even. From f64, the neighbours of a
 * midpoint lie so close to it that rounding by way of f32 goes wrong.
 */
static void store_all(gpured_backend backend, int wide, int narrow) {
  gen_format f = gen_format_of(narrow);
  int64_t codes = ((int64_t)(2 * f.bias + 1) << f.fraction), n = codes * 8, i;
  box in = box_input(wide, 1, &n, LAYOUT_C, 0), out = box_output(narrow, 1, &n, LAYOUT_C, 0);
  uint16_t *want = (uint16_t *)malloc((size_t)n * sizeof *want);
  gpured_options o = options_for(backend, 0, 0, 0);
  for (i = 0; want && i < n; ++i) {
    uint16_t code = (uint16_t)(i / 8), pair[2];
    gpured_tensor t = gpured_vector(pair, (gpured_dtype)narrow, 2);
    double v, next, middle, x;
    int which = (int)(i % 8) / 2, negative = (int)(i % 2);
    pair[0] = code;
    pair[1] = (uint16_t)(code + 1);
    v = value(&t, 0);
    next = code + 1 < codes ? value(&t, 1) : ldexp(1, f.bias + 1);
    x = middle = v + (next - v) / 2;
    if (which == 1)
      x = wide == GPURED_F64 ? nextafter(middle, 0) : (double)nextafterf((float)middle, 0);
    if (which == 2)
      x = wide == GPURED_F64 ? nextafter(middle, HUGE_VAL)
                             : (double)nextafterf((float)middle, HUGE_VALF);
    if (which == 3) x = v;
    set_value(&in.t, i, negative ? -x : x);
    if (which == 2 || (which == 0 && code % 2)) code = (uint16_t)(code + 1);
    want[i] = (uint16_t)(code | (negative ? 0x8000u : 0u));
  }
  CHECK(want && gpured_reduce(GPURED_SUM, &in.t, 0, &out.t, &o) == GPURED_OK, "storing %s as %s",
        dtype_name(wide), dtype_name(narrow));
  for (i = 0; want && i < n; ++i)
    CHECK(gen_peek(&out.t, i) == want[i], "%s %.17g stored as %s: 0x%04x, not 0x%04x",
          dtype_name(wide), value(&in.t, i), dtype_name(narrow), (unsigned)gen_peek(&out.t, i),
          want[i]);
  free(want);
  box_free(&in);
  box_free(&out);
}

static void test_storing(gpured_backend backend) {
  store_all(backend, GPURED_F64, GPURED_F16);
  store_all(backend, GPURED_F32, GPURED_F16);
  store_all(backend, GPURED_F64, GPURED_BF16);
  store_all(backend, GPURED_F32, GPURED_BF16);
}

const test_case accuracy_tests[] = {{"accuracy_sums", test_sums, 0},
                                    {"accuracy_sum_large", test_sum_large, 0},
                                    {"accuracy_products", test_products, 0},
                                    {"accuracy_logsumexp", test_logsumexp, 0},
                                    {"accuracy_log", test_log, 0},
                                    {"accuracy_exp", test_exp, 0},
                                    {"accuracy_variance", test_variance, 0},
                                    {"accuracy_scan_sum", test_scan_sum, 0},
                                    {"accuracy_scan_logsumexp", test_scan_logsumexp, 0},
                                    {"accuracy_gemm", test_gemm, 0},
                                    {"accuracy_storing", test_storing, 0},
                                    {"accuracy_exp_all", test_exp_all, T_HOST | T_SLOW},
                                    {NULL, NULL, 0}};
