/*
 * The oracle (see oracle.h). Its sections follow docs/ORDER.md, and each function says which rule
 * it is.
 *
 * Floats are carried in double, whatever T is: every f32 is a double exactly. Each operation rounds
 * to T by itself, and its result goes through volatile, so that nothing is fused or reordered with
 * any flags. NaN is found by its bits. Integers are carried as uint64_t.
 */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#ifdef __FAST_MATH__
#error "the oracle needs IEEE arithmetic: compile it without -ffast-math"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "the oracle needs arithmetic that rounds to the type (x86: -msse2 -mfpmath=sse)"
#endif

/* The accumulator types. T_INT is the 64-bit integer, compared as unsigned or with sign. */
enum { T_F32, T_F64, T_INT };

/* A value in T: f for floats, u for integers. */
typedef union val {
  double f;
  uint64_t u;
} val;

/* A pair of section 4 and a triple of section 5. */
typedef struct lse_part {
  double m, s;
} lse_part;

typedef struct var_part {
  int64_t n;
  double mean, m2;
} var_part;

static void *allocate(int64_t count, size_t size) {
  void *p;
  if (count <= 0) count = 1;
  if ((uint64_t)count > SIZE_MAX / size) abort();
  p = malloc((size_t)count * size);
  if (p == NULL) abort();
  return p;
}

/* ---------------------------------------------------------------------------------------------- */
/* Section 0: arithmetic                                                                          */
/* ---------------------------------------------------------------------------------------------- */

/* One operation of section 0 on two operands. */
#define F_BINARY(name, op)                        \
  static double name(int T, double a, double b) { \
    if (T == T_F64) {                             \
      volatile double r = a op b;                 \
      return r;                                   \
    } else {                                      \
      volatile float r = (float)a op(float) b;    \
      return (double)r;                           \
    }                                             \
  }

F_BINARY(f_add, +)
F_BINARY(f_sub, -)
F_BINARY(f_mul, *)
F_BINARY(f_div, /)

/* A double in T: exact unless it comes from outside (alpha) or T is narrower. */
static double f_round(int T, double a) {
  volatile float r = 0;
  if (T == T_F64) return a;
  r = (float)a;
  return (double)r;
}

static double f_fma(int T, double a, double b, double c) {
  if (T == T_F64) return fma(a, b, c);
  return f_round(T, (double)fmaf((float)a, (float)b, (float)c));
}

static double f_sqrt(int T, double a) {
  if (T == T_F64) return sqrt(a);
  return f_round(T, (double)sqrtf((float)a));
}

/* A count, converted to T with one rounding. */
static double f_count(int T, int64_t n) {
  volatile float r = (float)n;
  return T == T_F64 ? (double)n : (double)r;
}

static uint64_t bits_of(double a) {
  uint64_t b;
  memcpy(&b, &a, sizeof b);
  return b;
}

static double double_of(uint64_t b) {
  double a;
  memcpy(&a, &b, sizeof a);
  return a;
}

static const uint64_t SIGN = UINT64_C(1) << 63;
static const uint64_t INF_BITS = UINT64_C(0x7ff0000000000000);

static int is_nan(double a) { return (bits_of(a) & ~SIGN) > INF_BITS; }
static int is_inf(double a) { return (bits_of(a) & ~SIGN) == INF_BITS; }
static double f_nan(void) { return double_of(UINT64_C(0x7ff8000000000000)); }
static double f_inf(void) { return double_of(INF_BITS); }
static double f_abs(double a) { return double_of(bits_of(a) & ~SIGN); }

/* a < b in the order of min and max, in which -0 is less than +0. No NaN. */
static int f_less(double a, double b) {
  if (a == b) return (bits_of(a) & SIGN) > (bits_of(b) & SIGN);
  return a < b;
}

static double f_max(double a, double b) {
  if (is_nan(a) || is_nan(b)) return f_nan();
  return f_less(a, b) ? b : a;
}

static double f_min(double a, double b) {
  if (is_nan(a) || is_nan(b)) return f_nan();
  return f_less(b, a) ? b : a;
}

/* ---------------------------------------------------------------------------------------------- */
/* Section 1: types, loads and stores                                                             */
/* ---------------------------------------------------------------------------------------------- */

static int is_float(int dtype) { return dtype >= GPURED_F32 && dtype <= GPURED_BF16; }

static int is_real(int op) {
  return op == GPURED_MEAN || op == GPURED_NORM2 || op == GPURED_LOGSUMEXP || op == GPURED_VAR ||
         op == GPURED_STD;
}

static int accumulator(int op, int dtype, int acc_dtype) {
  if (!is_float(dtype)) return is_real(op) ? T_F64 : T_INT;
  return dtype == GPURED_F64 || acc_dtype == GPURED_F64 ? T_F64 : T_F32;
}

/* The value of the pattern of a float with the given numbers of exponent and fraction bits. */
static double widen(uint64_t pattern, int exponent_bits, int fraction_bits) {
  uint64_t fraction = pattern & ((UINT64_C(1) << fraction_bits) - 1);
  int top = (1 << exponent_bits) - 1, bias = top / 2;
  int exponent = (int)((pattern >> fraction_bits) & (uint64_t)top);
  double v;
  if (exponent == top) {
    v = fraction ? f_nan() : f_inf();
  } else if (exponent == 0) {
    v = ldexp((double)fraction, 1 - bias - fraction_bits);
  } else { /* as a double, with its bias and its fraction bits */
    v = double_of((uint64_t)(exponent - bias + 1023) << 52 | fraction << (52 - fraction_bits));
  }
  return (pattern >> (exponent_bits + fraction_bits)) & 1 ? -v : v;
}

/* The pattern of v rounded once to such a float. R is v's significand in units of the last place of
 * the result. */
static uint64_t narrow(double v, int exponent_bits, int fraction_bits) {
  uint64_t bits = bits_of(v), m, rest, half, R;
  int top = (1 << exponent_bits) - 1, bias = top / 2;
  int exponent = (int)((bits & ~SIGN) >> 52) - 1023, shift = 52 - fraction_bits;
  uint64_t sign = (bits >> 63) << (exponent_bits + fraction_bits);
  uint64_t inf = (uint64_t)top << fraction_bits;
  if (is_nan(v)) return inf | UINT64_C(1) << (fraction_bits - 1);
  if (is_inf(v)) return sign | inf;
  if (exponent == -1023) return sign; /* zero, or far below the least subnormal */
  m = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
  if (exponent < 1 - bias) shift += 1 - bias - exponent;
  if (shift > 54) return sign;
  R = m >> shift;
  rest = m & ((UINT64_C(1) << shift) - 1);
  half = UINT64_C(1) << (shift - 1);
  if (rest > half || (rest == half && (R & 1))) ++R;
  /* A carry out of the significand steps into the exponent field, as it should. */
  if (exponent >= 1 - bias) R += (uint64_t)(exponent + bias - 1) << fraction_bits;
  return sign | (R > inf ? inf : R);
}

static val of_float(double f) {
  val v;
  v.f = f;
  return v;
}

static val of_integer(uint64_t u) {
  val v;
  v.u = u;
  return v;
}

/* The element at an offset, in T. */
static val load(const gpured_tensor *t, int64_t offset, int T) {
  uint64_t pattern = gen_peek(t, offset), sign = UINT64_C(1) << (gen_format_of(t->dtype).bits - 1);
  switch (t->dtype) {
    case GPURED_F64:
      return of_float(double_of(pattern));
    case GPURED_F32:
      return of_float(widen(pattern, 8, 23));
    case GPURED_F16:
      return of_float(widen(pattern, 5, 10));
    case GPURED_BF16:
      return of_float(widen(pattern, 8, 7));
    default:
      break;
  }
  if (!gen_is_signed(t->dtype)) return T == T_INT ? of_integer(pattern) : of_float((double)pattern);
  pattern = (pattern ^ sign) - sign;
  return T == T_INT ? of_integer(pattern) : of_float((double)(int64_t)pattern);
}

/* Stores a float into a float type, an integer into an integer type. */
static void store(const gpured_tensor *t, int64_t offset, val v) {
  uint64_t pattern;
  switch (t->dtype) {
    case GPURED_F64:
      pattern = bits_of(is_nan(v.f) ? f_nan() : v.f);
      break;
    case GPURED_F32:
      pattern = narrow(v.f, 8, 23);
      break;
    case GPURED_F16:
      pattern = narrow(v.f, 5, 10);
      break;
    case GPURED_BF16:
      pattern = narrow(v.f, 8, 7);
      break;
    default:
      pattern = v.u;
      break;
  }
  gen_poke(t, offset, pattern);
}

static uint64_t u_abs(uint64_t u, int sign) { return sign && (u & SIGN) ? 0 - u : u; }

/* a < b as 64-bit integers: adding 2^63 turns the signed order into the unsigned one. */
static int u_less(uint64_t a, uint64_t b, int sign) {
  return sign ? (a ^ SIGN) < (b ^ SIGN) : a < b;
}

/* The least and the greatest value of an integer type, as 64 bits. */
static uint64_t u_lowest(int dtype) {
  switch (dtype) {
    case GPURED_I8:
      return (uint64_t)INT8_MIN;
    case GPURED_I32:
      return (uint64_t)INT32_MIN;
    case GPURED_I64:
      return (uint64_t)INT64_MIN;
    default:
      return 0;
  }
}

static uint64_t u_highest(int dtype) {
  switch (dtype) {
    case GPURED_I8:
      return INT8_MAX;
    case GPURED_U8:
      return UINT8_MAX;
    case GPURED_I32:
      return INT32_MAX;
    case GPURED_U32:
      return UINT32_MAX;
    case GPURED_I64:
      return INT64_MAX;
    default:
      return UINT64_MAX;
  }
}

/* ---------------------------------------------------------------------------------------------- */
/* Section 8: exp and log                                                                         */
/* ---------------------------------------------------------------------------------------------- */

static const float C4[] = {
    1, 1, 0x1p-1f, 0x1.5554dep-3f, 0x1.55556cp-5f, 0x1.120ac2p-7f, 0x1.6ca992p-10f};
static const double C8[] = {1,
                            1,
                            0x1.0000000000001p-1,
                            0x1.555555555554dp-3,
                            0x1.5555555553ce5p-5,
                            0x1.11111111144cfp-7,
                            0x1.6c16c178a6fd9p-10,
                            0x1.a01a018c37243p-13,
                            0x1.a019b8c667f1bp-16,
                            0x1.71de59f0ab925p-19,
                            0x1.2891c3b32a8e4p-22,
                            0x1.aeabcfb5467ffp-26};
static const float L4[] = {
    0, 0x1.555556p-1f, 0x1.99999ap-2f, 0x1.24924ap-2f, 0x1.c71c72p-3f, 0x1.745d18p-3f};
static const double L8[] = {0,
                            0x1.5555555555555p-1,
                            0x1.999999999999ap-2,
                            0x1.2492492492492p-2,
                            0x1.c71c71c71c71cp-3,
                            0x1.745d1745d1746p-3,
                            0x1.3b13b13b13b14p-3,
                            0x1.1111111111111p-3,
                            0x1.e1e1e1e1e1e1ep-4,
                            0x1.af286bca1af28p-4,
                            0x1.8618618618618p-4};

/* bits(x) of section 8 and its inverse, in the width of T. */
static uint64_t pattern_of(int T, double x) {
  float x4 = (float)x;
  uint32_t b;
  if (T == T_F64) return bits_of(x);
  memcpy(&b, &x4, sizeof b);
  return b;
}

static double value_of(int T, uint64_t pattern) {
  float x4;
  uint32_t b = (uint32_t)pattern;
  if (T == T_F64) return double_of(pattern);
  memcpy(&x4, &b, sizeof x4);
  return x4;
}

static double order_exp(int T, double d) {
  int wide = T == T_F64, top = wide ? 11 : 6, S = wide ? 52 : 23, i;
  double magic = wide ? 0x1.8p+52 : 0x1.8p+23;
  double log2e = wide ? 0x1.71547652b82fep+0 : 0x1.715476p+0;
  double ln2_hi = wide ? 0x1.62e42fefa38p-1 : 0x1.62e4p-1;
  double ln2_lo = wide ? 0x1.ef35793c7673p-45 : 0x1.7f7d1cp-20;
  double t, n, r, p;
  if (d < (wide ? -707 : -86)) return 0;
  t = f_fma(T, d, log2e, magic);
  n = f_sub(T, t, magic);
  r = f_fma(T, n, -ln2_hi, d);
  r = f_fma(T, n, -ln2_lo, r);
  p = wide ? C8[top] : (double)C4[top];
  for (i = top - 1; i >= 0; --i) p = f_fma(T, p, r, wide ? C8[i] : (double)C4[i]);
  return value_of(T, pattern_of(T, p) + (pattern_of(T, t) << S));
}

static double order_log(int T, double z) {
  int wide = T == T_F64, top = wide ? 10 : 5, S = wide ? 52 : 23, i;
  double ln2_hi = wide ? 0x1.62e42fefa38p-1 : 0x1.62e4p-1;
  double ln2_lo = wide ? 0x1.ef35793c7673p-45 : 0x1.7f7d1cp-20;
  uint64_t half = pattern_of(T, wide ? 0x1.6a09e667f3bcdp-1 : 0x1.6a09e6p-1);
  uint64_t ix = pattern_of(T, z) - half;
  double k = f_count(T, (int64_t)(ix >> S));
  double w = value_of(T, (ix & ((UINT64_C(1) << S) - 1)) + half);
  double f = f_sub(T, w, 1), s = f_div(T, f, f_add(T, w, 1)), q = f_mul(T, s, s);
  double p = wide ? L8[top] : (double)L4[top], t;
  for (i = top - 1; i >= 1; --i) p = f_fma(T, p, q, wide ? L8[i] : (double)L4[i]);
  p = f_mul(T, p, q);
  t = f_fma(T, s, p, f_mul(T, 2, s));
  return f_fma(T, k, ln2_hi, f_fma(T, k, ln2_lo, t));
}

/* ---------------------------------------------------------------------------------------------- */
/* Section 2: Reduce and Dot                                                                      */
/* ---------------------------------------------------------------------------------------------- */

typedef double combine(int T, double a, double b);

/* Steps 2 and 3 on the blocks' vectors of 16 lanes, which are overwritten. */
static double tree_and_fold(int T, combine *op, double (*v)[16], int64_t blocks) {
  int64_t b;
  int l, h;
  while (blocks > 1) {
    for (b = 0; b < blocks / 2; ++b) {
      for (l = 0; l < 16; ++l) v[b][l] = op(T, v[2 * b][l], v[2 * b + 1][l]);
    }
    if (blocks % 2) memcpy(v[b], v[blocks - 1], sizeof v[b]);
    blocks = (blocks + 1) / 2;
  }
  for (h = 8; h >= 1; h /= 2) {
    for (l = 0; l < h; ++l) v[0][l] = op(T, v[0][l], v[0][l + h]);
  }
  return v[0][0];
}

static double reduce(int T, combine *op, double neutral, const double *x, int64_t n) {
  int64_t blocks = (n + 255) / 256, b, i;
  double(*v)[16] = (double(*)[16])allocate(blocks, sizeof *v), result;
  int l;
  for (b = 0; b < blocks; ++b) {
    for (l = 0; l < 16; ++l) {
      int64_t end = n < 256 * (b + 1) ? n : 256 * (b + 1), first = 256 * b + l;
      v[b][l] = neutral;
      if (first < end) v[b][l] = x[first];
      for (i = first + 16; i < end; i += 16) v[b][l] = op(T, v[b][l], x[i]);
    }
  }
  result = tree_and_fold(T, op, v, blocks);
  free(v);
  return result;
}

/* Reduce with +; nothing gives +0. */
static double reduce_sum(int T, const double *x, int64_t n) {
  return n == 0 ? 0 : reduce(T, f_add, -0.0, x, n);
}

/* Dot; nothing gives +0. */
static double dot(int T, const double *a, const double *c, int64_t n) {
  int64_t blocks = (n + 255) / 256, b, i;
  double(*v)[16], result;
  int l;
  if (n == 0) return 0;
  v = (double(*)[16])allocate(blocks, sizeof *v);
  for (b = 0; b < blocks; ++b) {
    for (l = 0; l < 16; ++l) {
      int64_t end = n < 256 * (b + 1) ? n : 256 * (b + 1), first = 256 * b + l;
      v[b][l] = -0.0;
      if (first < end) v[b][l] = f_mul(T, a[first], c[first]);
      for (i = first + 16; i < end; i += 16) v[b][l] = f_fma(T, a[i], c[i], v[b][l]);
    }
  }
  result = tree_and_fold(T, f_add, v, blocks);
  free(v);
  return result;
}

/* ---------------------------------------------------------------------------------------------- */
/* Section 4: logsumexp                                                                           */
/* ---------------------------------------------------------------------------------------------- */

static lse_part lse_merge(int T, lse_part a, lse_part b) {
  lse_part r = {f_nan(), 1};
  if (is_nan(a.m) || is_nan(b.m)) return r;
  r.m = f_max(a.m, b.m);
  if (a.m == b.m) {
    r.s = f_add(T, a.s, b.s);
  } else if (a.m > b.m) {
    r.s = f_fma(T, b.s, order_exp(T, f_sub(T, b.m, a.m)), a.s);
  } else {
    r.s = f_fma(T, a.s, order_exp(T, f_sub(T, a.m, b.m)), b.s);
  }
  return r;
}

static double lse_result(int T, lse_part p) {
  if (is_nan(p.m) || is_inf(p.m)) return p.m;
  return f_add(T, p.m, order_log(T, p.s));
}

/* The maximum of a block, and e[i] = exp(x[i] - m) if it is finite. */
static double lse_block_exps(int T, const double *x, int64_t n, double *e) {
  double m = x[0];
  int64_t i;
  for (i = 1; i < n; ++i) m = f_max(m, x[i]);
  if (is_nan(m) || is_inf(m)) return m;
  for (i = 0; i < n; ++i) e[i] = order_exp(T, f_sub(T, x[i], m));
  return m;
}

static lse_part lse_block(int T, const double *x, int64_t n) {
  double e[1024];
  lse_part p;
  p.m = lse_block_exps(T, x, n, e);
  p.s = is_nan(p.m) || is_inf(p.m) ? 1 : reduce_sum(T, e, n);
  return p;
}

/* The adjacent-pair tree over parts, which are overwritten. */
static lse_part lse_tree(int T, lse_part *p, int64_t count) {
  int64_t b;
  while (count > 1) {
    for (b = 0; b < count / 2; ++b) p[b] = lse_merge(T, p[2 * b], p[2 * b + 1]);
    if (count % 2) p[b] = p[count - 1];
    count = (count + 1) / 2;
  }
  return p[0];
}

static double logsumexp(int T, const double *x, int64_t n) {
  int64_t blocks = (n + 1023) / 1024, b;
  lse_part *p, all;
  if (n == 0) return -f_inf();
  p = (lse_part *)allocate(blocks, sizeof *p);
  for (b = 0; b < blocks; ++b) {
    p[b] = lse_block(T, x + 1024 * b, n - 1024 * b < 1024 ? n - 1024 * b : 1024);
  }
  all = lse_tree(T, p, blocks);
  free(p);
  return lse_result(T, all);
}

/* ---------------------------------------------------------------------------------------------- */
/* Section 5: variance                                                                            */
/* ---------------------------------------------------------------------------------------------- */

static var_part var_block(int T, const double *x, int64_t n) {
  double d[1024];
  var_part p;
  int64_t i;
  p.n = n;
  p.mean = f_div(T, reduce_sum(T, x, n), f_count(T, n));
  for (i = 0; i < n; ++i) d[i] = f_sub(T, x[i], p.mean);
  p.m2 = dot(T, d, d, n);
  return p;
}

static var_part var_merge(int T, var_part a, var_part b) {
  var_part p;
  double delta = f_sub(T, b.mean, a.mean), r, q, w;
  p.n = a.n + b.n;
  r = f_div(T, f_count(T, b.n), f_count(T, p.n));
  p.mean = f_fma(T, delta, r, a.mean);
  q = f_mul(T, delta, delta);
  w = f_mul(T, f_count(T, a.n), r);
  p.m2 = f_fma(T, q, w, f_add(T, a.m2, b.m2));
  return p;
}

static double variance(int T, const double *x, int64_t n, int ddof) {
  int64_t blocks = (n + 1023) / 1024, count = blocks, b;
  var_part *p;
  double result;
  if (n == 0) return f_nan();
  p = (var_part *)allocate(blocks, sizeof *p);
  for (b = 0; b < blocks; ++b) {
    p[b] = var_block(T, x + 1024 * b, n - 1024 * b < 1024 ? n - 1024 * b : 1024);
  }
  while (count > 1) {
    for (b = 0; b < count / 2; ++b) p[b] = var_merge(T, p[2 * b], p[2 * b + 1]);
    if (count % 2) p[b] = p[count - 1];
    count = (count + 1) / 2;
  }
  result = f_div(T, p[0].m2, f_count(T, n > ddof ? n - ddof : 0));
  free(p);
  return result;
}

/* ---------------------------------------------------------------------------------------------- */
/* Section 3: operations                                                                          */
/* ---------------------------------------------------------------------------------------------- */

/* A sequence in T: f for floats, u for integers, whose order is the one of dtype. */
typedef struct sequence {
  int T, dtype;
  int64_t n;
  double *f;
  uint64_t *u;
} sequence;

static sequence new_sequence(int T, int dtype, int64_t n) {
  sequence x;
  x.T = T;
  x.dtype = dtype;
  x.n = n;
  x.f = (double *)allocate(T == T_INT ? 0 : n, sizeof *x.f);
  x.u = (uint64_t *)allocate(T == T_INT ? n : 0, sizeof *x.u);
  return x;
}

static void set_element(sequence *x, int64_t i, val v) {
  if (x->T == T_INT) {
    x->u[i] = v.u;
  } else {
    x->f[i] = v.f;
  }
}

static void free_sequence(sequence *x) {
  free(x->f);
  free(x->u);
}

static double f_product(int T, double a, double b) { return f_mul(T, a, b); }
static double f_smaller(int T, double a, double b) { return (void)T, f_min(a, b); }
static double f_greater(int T, double a, double b) { return (void)T, f_max(a, b); }

static double reduce_abs(int T, combine *op, double neutral, const double *x, int64_t n) {
  double *a = (double *)allocate(n, sizeof *a), result;
  int64_t i;
  for (i = 0; i < n; ++i) a[i] = f_abs(x[i]);
  result = reduce(T, op, neutral, a, n);
  free(a);
  return result;
}

static double reduce_float(int op, const sequence *x, int ddof) {
  int T = x->T;
  switch (op) {
    case GPURED_SUM:
      return reduce_sum(T, x->f, x->n);
    case GPURED_PROD:
      return x->n ? reduce(T, f_product, 1, x->f, x->n) : 1;
    case GPURED_MIN:
      return x->n ? reduce(T, f_smaller, f_inf(), x->f, x->n) : f_inf();
    case GPURED_MAX:
      return x->n ? reduce(T, f_greater, -f_inf(), x->f, x->n) : -f_inf();
    case GPURED_MEAN:
      return x->n ? f_div(T, reduce_sum(T, x->f, x->n), f_count(T, x->n)) : f_nan();
    case GPURED_SUMSQ:
      return dot(T, x->f, x->f, x->n);
    case GPURED_NORM1:
      return x->n ? reduce_abs(T, f_add, -0.0, x->f, x->n) : 0;
    case GPURED_NORM2:
      return f_sqrt(T, dot(T, x->f, x->f, x->n));
    case GPURED_ABSMAX:
      return x->n ? reduce_abs(T, f_greater, 0, x->f, x->n) : 0;
    case GPURED_LOGSUMEXP:
      return logsumexp(T, x->f, x->n);
    case GPURED_VAR:
      return variance(T, x->f, x->n, ddof);
    case GPURED_STD:
      return f_sqrt(T, variance(T, x->f, x->n, ddof));
    default:
      abort();
  }
}

/* Integers: exact modulo 2^64, in any order. sumsq, norm1 and absmax are unsigned. */
static uint64_t reduce_integer(int op, const sequence *x) {
  int sign = gen_is_signed(x->dtype);
  uint64_t r = 0;
  int64_t i;
  if (op == GPURED_PROD) r = 1;
  if (op == GPURED_MIN) r = u_highest(x->dtype);
  if (op == GPURED_MAX) r = u_lowest(x->dtype);
  for (i = 0; i < x->n; ++i) {
    uint64_t v = x->u[i], a = u_abs(v, sign);
    if (op == GPURED_SUM) r += v;
    if (op == GPURED_PROD) r *= v;
    if (op == GPURED_SUMSQ) r += v * v;
    if (op == GPURED_NORM1) r += a;
    if (op == GPURED_ABSMAX && a > r) r = a;
    /* The first element replaces r even where a product has left the range of dtype. */
    if (op == GPURED_MIN && (i == 0 || u_less(v, r, sign))) r = v;
    if (op == GPURED_MAX && (i == 0 || u_less(r, v, sign))) r = v;
  }
  return r;
}

static int64_t arg_of(int op, const sequence *x) {
  int64_t best = 0, i;
  for (i = 0; i < x->n; ++i) {
    if (x->T == T_INT) {
      uint64_t a = x->u[op == GPURED_ARGMIN ? i : best], b = x->u[op == GPURED_ARGMIN ? best : i];
      if (u_less(a, b, gen_is_signed(x->dtype))) best = i;
    } else {
      if (is_nan(x->f[i])) return i;
      if (op == GPURED_ARGMIN ? x->f[i] < x->f[best] : x->f[i] > x->f[best]) best = i;
    }
  }
  return best;
}

static int is_nonzero(const sequence *x, int64_t i) {
  if (x->T == T_INT) return x->u[i] != 0;
  return is_nan(x->f[i]) || x->f[i] != 0;
}

static uint64_t count_nonzero(const sequence *x) {
  uint64_t count = 0;
  int64_t i;
  for (i = 0; i < x->n; ++i) count += (uint64_t)is_nonzero(x, i);
  return count;
}

/* Any operation of section 3 on a sequence. */
static val reduce_any(int op, const sequence *x, int ddof) {
  switch (op) {
    case GPURED_ARGMIN:
    case GPURED_ARGMAX:
      return of_integer((uint64_t)arg_of(op, x));
    case GPURED_COUNT_NONZERO:
      return of_integer(count_nonzero(x));
    case GPURED_ANY:
      return of_integer(count_nonzero(x) > 0);
    case GPURED_ALL:
      return of_integer(count_nonzero(x) == (uint64_t)x->n);
    default:
      break;
  }
  return x->T == T_INT ? of_integer(reduce_integer(op, x)) : of_float(reduce_float(op, x, ddof));
}

/* ---------------------------------------------------------------------------------------------- */
/* Tensors                                                                                        */
/* ---------------------------------------------------------------------------------------------- */

/* in's axes that are in `axes`, or those that are not. */
static gpured_tensor pick_axes(const gpured_tensor *in, uint32_t axes, int picked) {
  gpured_tensor t = *in;
  int d;
  t.ndim = 0;
  for (d = 0; d < in->ndim; ++d) {
    if ((int)(axes >> d & 1) != picked) continue;
    t.shape[t.ndim] = in->shape[d];
    t.strides[t.ndim] = in->strides[d];
    ++t.ndim;
  }
  return t;
}

void oracle_reduce(gpured_op op, const gpured_tensor *in, uint32_t axes, const gpured_tensor *out,
                   int acc_dtype, int ddof) {
  gpured_tensor kept = pick_axes(in, axes, 0), gone = pick_axes(in, axes, 1);
  gpured_tensor to = out->ndim == in->ndim ? pick_axes(out, axes, 0) : *out;
  int64_t results = gen_count(&kept), r, i;
  sequence x =
      new_sequence(accumulator((int)op, in->dtype, acc_dtype), in->dtype, gen_count(&gone));
  for (r = 0; r < results; ++r) {
    int64_t start = gen_offset(&kept, r);
    for (i = 0; i < x.n; ++i) set_element(&x, i, load(in, start + gen_offset(&gone, i), x.T));
    store(out, results == 1 ? 0 : gen_offset(&to, r), reduce_any((int)op, &x, ddof));
  }
  free_sequence(&x);
}

/* ---------------------------------------------------------------------------------------------- */
/* Section 6: scan                                                                                */
/* ---------------------------------------------------------------------------------------------- */

/* An element of a scan: a value or, for logsumexp, the pair (v.f, s). */
typedef struct scan_item {
  val v;
  double s;
} scan_item;

typedef struct scan_line {
  int op, T, sign;
  scan_item *H[20]; /* H[k][i] is H_k(i), for the levels up to the one with a single group */
} scan_line;

static scan_item scan_combine(const scan_line *s, scan_item a, scan_item b) {
  if (s->op == GPURED_LOGSUMEXP) {
    lse_part p = {a.v.f, a.s}, q = {b.v.f, b.s};
    p = lse_merge(s->T, p, q);
    a.v.f = p.m;
    a.s = p.s;
  } else if (s->T != T_INT) {
    if (s->op == GPURED_SUM) a.v.f = f_add(s->T, a.v.f, b.v.f);
    if (s->op == GPURED_PROD) a.v.f = f_mul(s->T, a.v.f, b.v.f);
    if (s->op == GPURED_MIN) a.v.f = f_min(a.v.f, b.v.f);
    if (s->op == GPURED_MAX) a.v.f = f_max(a.v.f, b.v.f);
  } else {
    if (s->op == GPURED_SUM) a.v.u += b.v.u;
    if (s->op == GPURED_PROD) a.v.u *= b.v.u;
    if (s->op == GPURED_MIN && u_less(b.v.u, a.v.u, s->sign)) a.v.u = b.v.u;
    if (s->op == GPURED_MAX && u_less(a.v.u, b.v.u, s->sign)) a.v.u = b.v.u;
  }
  return a;
}

/* H_k over one level: x becomes H, group by group. */
static void scan_groups(const scan_line *s, scan_item *x, int64_t n) {
  int64_t g;
  int o, p, count;
  for (g = 0; g < n; g += 16) {
    count = n - g < 16 ? (int)(n - g) : 16;
    for (o = 1; o <= 8; o *= 2) {
      for (p = count - 1; p >= o; --p) x[g + p] = scan_combine(s, x[g + p - o], x[g + p]);
    }
  }
}

/* E_k(i), i > 0. */
static scan_item scan_before(const scan_line *s, int k, int64_t i) {
  int64_t g = i / 16;
  if (i % 16 == 0) return scan_before(s, k + 1, g);
  if (g == 0) return s->H[k][i - 1];
  return scan_combine(s, scan_before(s, k + 1, g), s->H[k][i - 1]);
}

static void scan_levels(scan_line *s, int64_t n) {
  int64_t groups, g;
  int k;
  for (k = 0;; ++k) {
    scan_groups(s, s->H[k], n);
    if (n <= 16) break;
    groups = (n + 15) / 16;
    s->H[k + 1] = (scan_item *)allocate(groups, sizeof **s->H);
    for (g = 0; g < groups; ++g) s->H[k + 1][g] = s->H[k][16 * g + 15 < n ? 16 * g + 15 : n - 1];
    n = groups;
  }
  while (++k < 20) s->H[k] = NULL;
}

/* What stands at z[0] of an exclusive scan. */
static val scan_nothing(const scan_line *s, int dtype) {
  sequence none = new_sequence(s->T, dtype, 0);
  val v = reduce_any(s->op, &none, 0);
  free_sequence(&none);
  return v;
}

static val scan_result(const scan_line *s, int64_t i) {
  scan_item y = s->H[0][i];
  if (i >= 16) y = scan_combine(s, scan_before(s, 1, i / 16), y);
  if (s->op == GPURED_LOGSUMEXP) {
    lse_part p = {y.v.f, y.s};
    return of_float(lse_result(s->T, p));
  }
  return y.v;
}

/* One line: n elements from `from` on, steps apart in in and out. */
static void scan_one(scan_line *s, const gpured_tensor *in, int64_t from, int64_t step, int64_t n,
                     const gpured_tensor *out, int64_t to, int64_t out_step, unsigned flags) {
  int shift = (flags & GPURED_SCAN_EXCLUSIVE) != 0;
  int64_t i;
  int k;
  s->H[0] = (scan_item *)allocate(n, sizeof **s->H);
  for (i = 0; i < n; ++i) {
    s->H[0][i].v = load(in, from + i * step, s->T);
    s->H[0][i].s = 1;
  }
  scan_levels(s, n);
  if (shift) store(out, to, scan_nothing(s, in->dtype));
  for (i = shift; i < n; ++i) store(out, to + i * out_step, scan_result(s, i - shift));
  for (k = 0; k < 20; ++k) free(s->H[k]);
}

void oracle_scan(gpured_op op, const gpured_tensor *in, int axis, unsigned flags,
                 const gpured_tensor *out, int acc_dtype) {
  gpured_tensor lines = pick_axes(in, 1u << axis, 0), to = pick_axes(out, 1u << axis, 0);
  int64_t n = in->shape[axis], step = in->strides[axis], out_step = out->strides[axis];
  int64_t count = n ? gen_count(&lines) : 0, l;
  int reverse = (flags & GPURED_SCAN_REVERSE) != 0;
  scan_line s;
  s.op = (int)op;
  s.T = accumulator((int)op, in->dtype, acc_dtype);
  s.sign = gen_is_signed(in->dtype);
  for (l = 0; l < count; ++l) {
    int64_t a = gen_offset(&lines, l), b = gen_offset(&to, l);
    if (reverse) {
      scan_one(&s, in, a + (n - 1) * step, -step, n, out, b + (n - 1) * out_step, -out_step, flags);
    } else {
      scan_one(&s, in, a, step, n, out, b, out_step, flags);
    }
  }
}

/* ---------------------------------------------------------------------------------------------- */
/* Section 7: GEMM-reduce                                                                         */
/* ---------------------------------------------------------------------------------------------- */

/* One item of the batch, everything in T. */
typedef struct gemm_item {
  int T, dtype, axis, map, l2, has_m, has_n;
  int64_t M, N, K;
  double alpha;
  val *A, *B, *v; /* M x K, K x N, M x N, row-major */
  val *bm, *bn;   /* M, N */
} gemm_item;

static val v_fma(int T, val a, val b, val c) {
  return T == T_INT ? of_integer(a.u * b.u + c.u) : of_float(f_fma(T, a.f, b.f, c.f));
}

static val v_add(int T, val a, val b) {
  return T == T_INT ? of_integer(a.u + b.u) : of_float(f_add(T, a.f, b.f));
}

/* Dot of a row or column with itself: count elements, step apart. */
static val self_dot(const gemm_item *g, const val *x, int64_t step) {
  sequence s = new_sequence(g->T, g->dtype, g->K);
  val r;
  int64_t k;
  for (k = 0; k < g->K; ++k) set_element(&s, k, x[k * step]);
  r = reduce_any(GPURED_SUMSQ, &s, 0);
  free_sequence(&s);
  return r;
}

/* Step 2: the value at (i, j) from the product c. */
static val epilogue(const gemm_item *g, int64_t i, int64_t j, val c) {
  val t = c, alpha = g->T == T_INT ? of_integer((uint64_t)(g->l2 ? -2 : 1)) : of_float(g->alpha);
  int sign = gen_is_signed(g->dtype);
  if (g->has_m) {
    t = v_fma(g->T, alpha, c, g->bm[i]);
  } else if (g->T != T_INT && g->alpha != 1) {
    t = of_float(f_mul(g->T, g->alpha, c.f));
  }
  if (g->has_n) t = v_add(g->T, t, g->bn[j]);
  if (g->map == GPURED_MAP_ABS) {
    t = g->T == T_INT ? of_integer(u_abs(t.u, sign)) : of_float(f_abs(t.f));
  }
  if (g->map == GPURED_MAP_SQUARE) {
    t = g->T == T_INT ? of_integer(t.u * t.u) : of_float(f_mul(g->T, t.f, t.f));
  }
  return t;
}

/* Steps 1 and 2. Each chain is in the order of k; those of a row grow together, along rows of B. */
static void gemm_values(gemm_item *g) {
  const val zero = g->T == T_INT ? of_integer(0) : of_float(0);
  int64_t i, j, k;
  for (i = 0; i < g->M; ++i) {
    val *c = g->v + i * g->N;
    for (j = 0; j < g->N; ++j) c[j] = zero;
    for (k = 0; k < g->K; ++k) {
      const val a = g->A[i * g->K + k], *row = g->B + k * g->N;
      for (j = 0; j < g->N; ++j) c[j] = v_fma(g->T, a, row[j], c[j]);
    }
    for (j = 0; j < g->N; ++j) c[j] = epilogue(g, i, j, c[j]);
  }
}

/* The fold of a block of at most 128 values by halving stride. */
static double fold128(int T, const double *x, int64_t n) {
  double a[128];
  int l, h;
  for (l = 0; l < 128; ++l) a[l] = l < n ? x[l] : -0.0;
  for (h = 64; h >= 1; h /= 2) {
    for (l = 0; l < h; ++l) a[l] = f_add(T, a[l], a[l + h]);
  }
  return a[0];
}

static int64_t block_length(int64_t n, int64_t block) {
  return n - 128 * block < 128 ? n - 128 * block : 128;
}

static double gemm_logsumexp(int T, const double *v, int64_t n) {
  int64_t blocks = (n + 127) / 128, b;
  lse_part *p = (lse_part *)allocate(blocks, sizeof *p), all;
  double e[128];
  for (b = 0; b < blocks; ++b) {
    int64_t count = block_length(n, b);
    p[b].m = lse_block_exps(T, v + 128 * b, count, e);
    p[b].s = is_nan(p[b].m) || is_inf(p[b].m) ? 1 : fold128(T, e, count);
  }
  all = lse_tree(T, p, blocks);
  free(p);
  return lse_result(T, all);
}

/* The sums of step 3: of v, abs(v) or v * v. */
static double gemm_sum(int T, int op, const double *v, int64_t n) {
  int64_t blocks = (n + 127) / 128, b, l;
  double *s = (double *)allocate(blocks, sizeof *s), x[128], result;
  for (b = 0; b < blocks; ++b) {
    int64_t count = block_length(n, b);
    for (l = 0; l < count; ++l) {
      x[l] = v[128 * b + l];
      if (op == GPURED_NORM1) x[l] = f_abs(x[l]);
      if (op == GPURED_SUMSQ || op == GPURED_NORM2) x[l] = f_mul(T, x[l], x[l]);
    }
    s[b] = fold128(T, x, count);
  }
  result = reduce_sum(T, s, blocks);
  free(s);
  return result;
}

/* Step 3 on the values along the reduced axis. */
static val gemm_reduce_values(int op, const sequence *v) {
  double r;
  if (v->n == 0 || v->T == T_INT) return reduce_any(op, v, 0);
  switch (op) {
    case GPURED_SUM:
    case GPURED_MEAN:
    case GPURED_SUMSQ:
    case GPURED_NORM1:
    case GPURED_NORM2:
      r = gemm_sum(v->T, op, v->f, v->n);
      if (op == GPURED_MEAN) r = f_div(v->T, r, f_count(v->T, v->n));
      if (op == GPURED_NORM2) r = f_sqrt(v->T, r);
      return of_float(r);
    case GPURED_LOGSUMEXP:
      return of_float(gemm_logsumexp(v->T, v->f, v->n));
    default:
      return reduce_any(op, v, 0);
  }
}

/* Reduce with + of n values, step apart. */
static double column_sum(int T, const val *x, int64_t step, int64_t n) {
  double *s = (double *)allocate(n, sizeof *s), r;
  int64_t i;
  for (i = 0; i < n; ++i) s[i] = x[i * step].f;
  r = reduce_sum(T, s, n);
  free(s);
  return r;
}

/* Step 4: the short road to the sum or mean for column j (axis 0) or row j (axis 1). */
static double short_road(const gemm_item *g, int op, int64_t j) {
  int T = g->T, along = g->axis == 0;
  int64_t n = along ? g->M : g->N, k;
  double *u = (double *)allocate(g->K, sizeof *u), *w = (double *)allocate(g->K, sizeof *w), t;
  /* `across` is the bias along the reduced axis, `own` the one of this result. */
  const val *across = along ? g->bm : g->bn, *own = along ? g->bn : g->bm;
  for (k = 0; k < g->K; ++k) {
    u[k] = along ? column_sum(T, g->A + k, g->K, g->M) : column_sum(T, g->B + k * g->N, 1, g->N);
    w[k] = along ? g->B[k * g->N + j].f : g->A[j * g->K + k].f;
  }
  t = dot(T, u, w, g->K);
  if (g->alpha != 1) t = f_mul(T, g->alpha, t);
  if (along ? g->has_m : g->has_n) t = f_add(T, t, column_sum(T, across, 1, n));
  if (along ? g->has_n : g->has_m) t = f_fma(T, f_count(T, n), own[j].f, t);
  free(u);
  free(w);
  return op == GPURED_MEAN ? f_div(T, t, f_count(T, n)) : t;
}

/* Result j of one operation. */
static val gemm_result(const gemm_item *g, int op, int64_t j) {
  int64_t n = g->axis == 0 ? g->M : g->N, i;
  sequence x;
  val r;
  if ((op == GPURED_SUM || op == GPURED_MEAN) && g->map == GPURED_MAP_NONE && g->T != T_INT &&
      n > 0) {
    return of_float(short_road(g, op, j));
  }
  /* Integers are unsigned after a map; the result for nothing is the one of the element type. */
  x = new_sequence(g->T, n && g->map != GPURED_MAP_NONE ? GPURED_U64 : g->dtype, n);
  for (i = 0; i < n; ++i)
    set_element(&x, i, g->axis == 0 ? g->v[i * g->N + j] : g->v[j * g->N + i]);
  r = gemm_reduce_values(op, &x);
  free_sequence(&x);
  return r;
}

/* The offset of item `item` of the batch in a tensor with `tail` axes after those of the batch,
 * which broadcast to `batch`. */
static int64_t batch_offset(const gpured_tensor *t, int tail, const gpured_tensor *batch,
                            int64_t item) {
  gpured_tensor view = *batch;
  int d, own = t->ndim - tail, skip = batch->ndim - own;
  for (d = 0; d < batch->ndim; ++d) {
    view.strides[d] = d < skip || t->shape[d - skip] == 1 ? 0 : t->strides[d - skip];
  }
  return gen_offset(&view, item);
}

/* The last two axes of t from an offset on, as values; a vector is a matrix of one column. */
static val *load_matrix(const gpured_tensor *t, int64_t offset, int64_t rows, int64_t row,
                        int64_t cols, int64_t col, int T) {
  val *m = (val *)allocate(rows * cols, sizeof *m);
  int64_t i, j;
  for (i = 0; i < rows; ++i) {
    for (j = 0; j < cols; ++j) m[i * cols + j] = load(t, offset + i * row + j * col, T);
  }
  return m;
}

static val *load_bias(const gemm_item *g, const gpured_tensor *t, const gpured_tensor *batch,
                      int64_t item, int64_t n) {
  if (t == NULL) return (val *)allocate(n, sizeof(val));
  /* An extent of 1 broadcasts along M or N as well. */
  return load_matrix(t, batch_offset(t, 1, batch, item), n,
                     t->shape[t->ndim - 1] == 1 ? 0 : t->strides[t->ndim - 1], 1, 0, g->T);
}

static void load_item(gemm_item *g, const gpured_gemm *gemm, const gpured_tensor *batch,
                      int64_t item) {
  const gpured_tensor *a = gemm->a, *b = gemm->b;
  int64_t i;
  g->A = load_matrix(a, batch_offset(a, 2, batch, item), g->M, a->strides[a->ndim - 2], g->K,
                     a->strides[a->ndim - 1], g->T);
  g->B = load_matrix(b, batch_offset(b, 2, batch, item), g->K, b->strides[b->ndim - 2], g->N,
                     b->strides[b->ndim - 1], g->T);
  g->v = (val *)allocate(g->M * g->N, sizeof *g->v);
  g->bm = load_bias(g, gemm->bias_m, batch, item, g->M);
  g->bn = load_bias(g, gemm->bias_n, batch, item, g->N);
  if (!g->l2) return;
  for (i = 0; i < g->M; ++i) g->bm[i] = self_dot(g, g->A + i * g->K, 1);
  for (i = 0; i < g->N; ++i) g->bn[i] = self_dot(g, g->B + i, g->N);
}

static void free_item(gemm_item *g) {
  free(g->A);
  free(g->B);
  free(g->v);
  free(g->bm);
  free(g->bn);
}

static void store_item(const gemm_item *g, const gpured_gemm *gemm, const gpured_tensor *batch,
                       int64_t item) {
  const gpured_tensor *c = gemm->c;
  int nb = batch->ndim, r;
  int64_t kept = g->axis == 0 ? g->N : g->M, i, j;
  if (c != NULL) {
    for (i = 0; i < g->M; ++i) {
      for (j = 0; j < g->N; ++j) {
        store(c, batch_offset(c, 2, batch, item) + i * c->strides[nb] + j * c->strides[nb + 1],
              g->v[i * g->N + j]);
      }
    }
  }
  for (r = 0; r < gemm->count; ++r) {
    const gpured_tensor *out = &gemm->results[r].out;
    int single = gen_count(out) == 1, keeps = out->ndim == nb + 2;
    for (j = 0; j < kept; ++j) {
      int64_t to = 0;
      if (!single) {
        to = batch_offset(out, keeps ? 2 : 1, batch, item) +
             j * out->strides[keeps && g->axis == 1 ? nb : out->ndim - 1];
      }
      store(out, to, gemm_result(g, gemm->results[r].op, j));
    }
  }
}

/* The batch axes that a and b broadcast to, as a tensor without data. */
static gpured_tensor batch_of(const gpured_tensor *a, const gpured_tensor *b) {
  gpured_tensor batch = a->ndim > b->ndim ? *a : *b, other = a->ndim > b->ndim ? *b : *a;
  int d, skip = batch.ndim - other.ndim;
  batch.ndim -= 2;
  for (d = skip; d < batch.ndim; ++d) {
    if (batch.shape[d] == 1) batch.shape[d] = other.shape[d - skip];
  }
  return batch;
}

void oracle_gemm(const gpured_gemm *gemm, int acc_dtype) {
  gpured_tensor batch = batch_of(gemm->a, gemm->b);
  int64_t items = gen_count(&batch), item;
  gemm_item g;
  g.T = accumulator(gemm->results[0].op, gemm->a->dtype, acc_dtype);
  g.dtype = gemm->a->dtype;
  g.axis = gemm->axis;
  g.map = gemm->map;
  g.l2 = gemm->form == GPURED_FORM_L2;
  g.has_m = g.l2 || gemm->bias_m != NULL;
  g.has_n = g.l2 || gemm->bias_n != NULL;
  g.alpha = g.T == T_INT || gemm->alpha == 0 ? 1 : f_round(g.T, gemm->alpha);
  if (g.l2) g.alpha = -2;
  g.M = gemm->a->shape[gemm->a->ndim - 2];
  g.K = gemm->a->shape[gemm->a->ndim - 1];
  g.N = gemm->b->shape[gemm->b->ndim - 1];
  for (item = 0; item < items; ++item) {
    load_item(&g, gemm, &batch, item);
    gemm_values(&g);
    store_item(&g, gemm, &batch, item);
    free_item(&g);
  }
}
