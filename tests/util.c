/* What the tests share; see util.h. */
#define _POSIX_C_SOURCE 200112L /* posix_memalign */
#include "util.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names and rules ------------------------------------------------------------------------- */

const int all_dtypes[10] = {GPURED_F32, GPURED_F64, GPURED_F16, GPURED_BF16, GPURED_I8,
                            GPURED_U8,  GPURED_I32, GPURED_U32, GPURED_I64,  GPURED_U64};
const int all_ops[17] = {
    GPURED_SUM,   GPURED_PROD,  GPURED_MIN,    GPURED_MAX,    GPURED_MEAN,         GPURED_SUMSQ,
    GPURED_NORM1, GPURED_NORM2, GPURED_ABSMAX, GPURED_ARGMIN, GPURED_ARGMAX,       GPURED_LOGSUMEXP,
    GPURED_VAR,   GPURED_STD,   GPURED_ANY,    GPURED_ALL,    GPURED_COUNT_NONZERO};

const char *op_name(int op) {
  static const char *const names[] = {"?",         "sum",   "prod",  "min",    "max",    "mean",
                                      "sumsq",     "norm1", "norm2", "absmax", "argmin", "argmax",
                                      "logsumexp", "var",   "std",   "any",    "all",    "count"};
  return names[op >= 1 && op <= 17 ? op : 0];
}

const char *dtype_name(int dtype) {
  static const char *const names[] = {"?",  "f32", "f64", "f16", "bf16", "i8",
                                      "u8", "i32", "u32", "i64", "u64"};
  return names[dtype >= 1 && dtype <= 10 ? dtype : 0];
}

static size_t size_of(int dtype) { return (size_t)gen_format_of(dtype).bits / 8; }

int is_float(int dtype) { return dtype >= GPURED_F32 && dtype <= GPURED_BF16; }

int is_arg(int op) { return op == GPURED_ARGMIN || op == GPURED_ARGMAX; }

int is_real(int op) {
  return op == GPURED_MEAN || op == GPURED_NORM2 || op == GPURED_LOGSUMEXP || op == GPURED_VAR ||
         op == GPURED_STD;
}

int valid_output(int op, int in, int out) {
  if (is_real(op)) return is_float(out);
  if (is_arg(op) || op == GPURED_COUNT_NONZERO) return out == GPURED_I64 || out == GPURED_I32;
  if (op == GPURED_ANY || op == GPURED_ALL) return !is_float(out);
  return is_float(in) == is_float(out);
}

int valid_acc(int in, int acc) {
  return acc == 0 || (acc == GPURED_F64 && is_float(in) && in != GPURED_F64);
}

int usual_output(int op, int in) {
  if (is_real(op)) return is_float(in) ? in : GPURED_F64;
  if (is_arg(op) || op == GPURED_COUNT_NONZERO) return GPURED_I64;
  if (op == GPURED_ANY || op == GPURED_ALL) return GPURED_U8;
  return in;
}

int64_t random_in(uint64_t *state, int64_t lo, int64_t hi) {
  *state = gen_random(*state, 0);
  return lo + (int64_t)(*state % (uint64_t)(hi - lo + 1));
}

/* ---- boxes ----------------------------------------------------------------------------------- */

enum { GUARD = 64, BORDER = 256 };

static void *allocate(size_t bytes) {
  void *p = NULL;
  if (posix_memalign(&p, BORDER, bytes)) {
    fprintf(stderr, "out of memory (%zu bytes)\n", bytes);
    exit(1);
  }
  return p;
}

static void random_strides(gpured_tensor *t, int zeros, uint64_t *state) {
  int order[GPURED_MAX_NDIM], i;
  int64_t step = random_in(state, 0, 2) == 0 ? random_in(state, 2, 4) : 1;
  for (i = 0; i < t->ndim; ++i) order[i] = i;
  for (i = t->ndim - 1; i > 0; --i) {
    int j = (int)random_in(state, 0, i), swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
  for (i = 0; i < t->ndim; ++i) {
    int axis = order[i];
    int64_t extent = t->shape[axis] > 0 ? t->shape[axis] : 1;
    t->strides[axis] = random_in(state, 0, 3) == 0 ? -step : step;
    if (zeros && random_in(state, 0, 3) == 0)
      t->strides[axis] = 0;
    else
      step *= extent;
    if (random_in(state, 0, 2) == 0) step += random_in(state, 1, 3);
  }
}

static void set_strides(gpured_tensor *t, layout how, uint64_t *state) {
  int64_t step = how == LAYOUT_GAP ? 3 : 1;
  int i;
  if (how == LAYOUT_RANDOM || how == LAYOUT_ZERO) {
    random_strides(t, how == LAYOUT_ZERO, state);
    return;
  }
  for (i = 0; i < t->ndim; ++i) {
    int axis = how == LAYOUT_F ? i : t->ndim - 1 - i;
    t->strides[axis] = how == LAYOUT_NEG ? -step : step;
    step *= t->shape[axis] > 0 ? t->shape[axis] : 1;
    if (how == LAYOUT_PAD) step += 5;
  }
}

box box_strided(int dtype, int ndim, const int64_t *shape, const int64_t *strides, size_t before,
                int output) {
  /* Kernels differ by where a tensor begins: half of them at a border, others 16 or 64 bytes on. */
  static const size_t leads[4] = {0, 16, 0, 64};
  box b;
  size_t size = size_of(dtype);
  int64_t low = 0, high = 0;
  int i;
  memset(&b, 0, sizeof b);
  b.t.dtype = (int32_t)dtype;
  b.t.device = GPURED_CPU;
  b.t.ndim = ndim;
  for (i = 0; i < ndim; ++i) {
    int64_t reach = (shape[i] > 0 ? shape[i] - 1 : 0) * strides[i];
    *(reach < 0 ? &low : &high) += reach;
    b.t.shape[i] = shape[i];
    b.t.strides[i] = strides[i];
  }
  before = BORDER + leads[(high - low + ndim) % 4] + size * before;
  b.bytes = before + size * (size_t)(high - low + 1) + (output ? GUARD : 0);
  b.pattern = output ? 0xa5 : 0xff;
  b.memory = (unsigned char *)allocate(b.bytes);
  memset(b.memory, b.pattern, b.bytes);
  b.t.data = b.memory + before + size * (size_t)-low;
  return b;
}

static box make_box(int dtype, int ndim, const int64_t *shape, layout how, uint64_t seed,
                    int output) {
  gpured_tensor t;
  size_t before = 0;
  int i;
  memset(&t, 0, sizeof t);
  t.ndim = ndim;
  for (i = 0; i < ndim; ++i) t.shape[i] = shape[i];
  set_strides(&t, how, &seed);
  if (how == LAYOUT_RANDOM || how == LAYOUT_ZERO) before = (size_t)random_in(&seed, 0, 15);
  return box_strided(dtype, ndim, shape, t.strides, before, output);
}

box box_input(int dtype, int ndim, const int64_t *shape, layout how, uint64_t seed) {
  return make_box(dtype, ndim, shape, how, seed, 0);
}

box box_output(int dtype, int ndim, const int64_t *shape, layout how, uint64_t seed) {
  return make_box(dtype, ndim, shape, how, seed, 1);
}

box box_filled(int dtype, int ndim, const int64_t *shape, layout how, int kind, uint64_t seed) {
  box b = box_input(dtype, ndim, shape, how, seed);
  oracle_fill(&b.t, kind, seed);
  return b;
}

void box_free(box *b) {
  free(b->memory);
  b->memory = NULL;
}

static int all_pattern(const unsigned char *p, size_t bytes, unsigned char pattern) {
  return bytes == 0 || (p[0] == pattern && memcmp(p, p + 1, bytes - 1) == 0);
}

int box_untouched(const box *b) { return all_pattern(b->memory, b->bytes, b->pattern); }

int box_gaps_untouched(const box *b) {
  unsigned char *copy = (unsigned char *)allocate(b->bytes);
  size_t size = size_of(b->t.dtype);
  int64_t i, n = gen_count(&b->t);
  int same;
  memcpy(copy, b->memory, b->bytes);
  for (i = 0; i < n; ++i) memset(copy + (element(&b->t, i) - b->memory), b->pattern, size);
  same = all_pattern(copy, b->bytes, b->pattern);
  free(copy);
  return same;
}

/* ---- elements -------------------------------------------------------------------------------- */

unsigned char *element(const gpured_tensor *t, int64_t index) {
  return (unsigned char *)t->data + gen_offset(t, index) * (int64_t)size_of(t->dtype);
}

static uint64_t bits_at(const gpured_tensor *t, int64_t index) {
  return gen_peek(t, gen_offset(t, index));
}

/* The fraction and exponent bits of a float type. */
static void float_format(int dtype, int *fraction, int *exponent) {
  gen_format f = gen_format_of(dtype);
  *fraction = f.fraction;
  *exponent = f.bits - 1 - f.fraction;
}

static double decode_float(int dtype, uint64_t bits) {
  int fraction, exponent, e;
  uint64_t f, wide;
  double v;
  float_format(dtype, &fraction, &exponent);
  f = bits & ((UINT64_C(1) << fraction) - 1);
  e = (int)((bits >> fraction) & ((UINT64_C(1) << exponent) - 1));
  if (e == (1 << exponent) - 1) {
    v = f ? (double)NAN : (double)INFINITY;
  } else if (e == 0) {
    v = ldexp((double)f, 2 - (1 << (exponent - 1)) - fraction);
  } else {
    wide = (uint64_t)(e + 1024 - (1 << (exponent - 1))) << 52 | f << (52 - fraction);
    memcpy(&v, &wide, sizeof v);
  }
  return bits >> (fraction + exponent) & 1 ? -v : v;
}

static double value_of(const gpured_tensor *t, uint64_t bits) {
  uint64_t sign = UINT64_C(1) << (gen_format_of(t->dtype).bits - 1);
  if (is_float(t->dtype)) return decode_float(t->dtype, bits);
  if (gen_is_signed(t->dtype) && (bits & sign)) return -(double)((sign << 1) - bits);
  return (double)bits;
}

double value(const gpured_tensor *t, int64_t index) { return value_of(t, bits_at(t, index)); }

double *values(const gpured_tensor *t, int64_t n) {
  double *x = (double *)allocate((size_t)(n ? n : 1) * sizeof *x);
  int64_t i;
  gen_place p = {{0}, 0};
  for (i = 0; i < n; ++i, gen_next(t, &p)) x[i] = value_of(t, gen_peek(t, p.offset));
  return x;
}

void row_of_product(const double *x, const double *y, int64_t k, int64_t n, double *sum,
                    double *size, double *squares) {
  int64_t i, j;
  for (j = 0; j < n; ++j) sum[j] = size[j] = 0;
  for (j = 0; squares && j < n; ++j) squares[j] = 0;
  for (i = 0; i < k; ++i, y += n) {
    for (j = 0; j < n; ++j) {
      const double product = x[i] * y[j];
      sum[j] += product;
      size[j] += fabs(product);
    }
    for (j = 0; squares && j < n; ++j) squares[j] += x[i] * x[i] + y[j] * y[j];
  }
}

static uint64_t encode_float(int dtype, double v) {
  int fraction, exponent, e, bias;
  uint64_t sign = signbit(v) ? 1 : 0, f;
  float_format(dtype, &fraction, &exponent);
  bias = (1 << (exponent - 1)) - 1;
  sign <<= fraction + exponent;
  v = fabs(v);
  if (v == 0) return sign;
  (void)frexp(v, &e);
  if (e - 1 < 1 - bias) return sign | (uint64_t)ldexp(v, fraction + bias - 1);
  f = (uint64_t)ldexp(v, fraction + 1 - e); /* with the leading one, which adds 1 to the exponent */
  return sign | (((uint64_t)(e - 2 + bias) << fraction) + f);
}

void set_value(const gpured_tensor *t, int64_t index, double v) {
  uint64_t bits;
  if (is_float(t->dtype))
    bits = encode_float(t->dtype, v);
  else
    bits = v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
  gen_poke(t, gen_offset(t, index), bits);
}

const char *special_name(int which) {
  static const char *const names[] = {"nan",  "-snan", "inf", "-inf", "+0",  "-0",
                                      "tiny", "-tiny", "sub", "max",  "-max"};
  return names[which];
}

void set_special(const gpured_tensor *t, int64_t index, int which) {
  int fraction, exponent;
  uint64_t bits = 0, infinity, sign;
  float_format(t->dtype, &fraction, &exponent);
  infinity = ((UINT64_C(1) << exponent) - 1) << fraction;
  sign = UINT64_C(1) << (fraction + exponent);
  switch (which) {
    case SP_NAN:
      bits = infinity | UINT64_C(1) << (fraction - 1) | 5;
      break;
    case SP_NNAN:
      bits = sign | infinity | 1; /* the NaN nearest to infinity */
      break;
    case SP_INF:
      bits = infinity;
      break;
    case SP_NINF:
      bits = sign | infinity;
      break;
    case SP_NZERO:
      bits = sign;
      break;
    case SP_TINY:
      bits = 1;
      break;
    case SP_NTINY:
      bits = sign | 1;
      break;
    case SP_SUB:
      bits = (UINT64_C(1) << fraction) - 1;
      break;
    case SP_MAX:
      bits = infinity - 1;
      break;
    case SP_NMAX:
      bits = sign | (infinity - 1);
      break;
    default:
      break;
  }
  gen_poke(t, gen_offset(t, index), bits);
}

/* ---- comparison ------------------------------------------------------------------------------ */

static int row_major(const gpured_tensor *t) {
  int64_t step = 1;
  int i;
  for (i = t->ndim - 1; i >= 0; --i) {
    if (t->shape[i] != 1 && t->strides[i] != step) return 0;
    step *= t->shape[i];
  }
  return 1;
}

int64_t first_difference(const gpured_tensor *a, const gpured_tensor *b) {
  size_t size = size_of(a->dtype);
  int64_t i, n = gen_count(a);
  if (n != gen_count(b) || a->dtype != b->dtype) return 0;
  if (n == 0) return -1;
  if (row_major(a) && row_major(b) && memcmp(a->data, b->data, size * (size_t)n) == 0) return -1;
  for (i = 0; i < n; ++i)
    if (memcmp(element(a, i), element(b, i), size) != 0) return i;
  return -1;
}

int around_only;

void expect_same(const box *b, const gpured_tensor *want, const char *what) {
  const int64_t at = around_only ? -1 : first_difference(&b->t, want);
  if (at >= 0)
    CHECK(0, "%s: element %lld is %.17g (0x%llx), not %.17g (0x%llx)", what, (long long)at,
          value(&b->t, at), (unsigned long long)bits_at(&b->t, at), value(want, at),
          (unsigned long long)bits_at(want, at));
  CHECK(box_gaps_untouched(b), "%s: wrote outside of its elements, %s", what, describe(&b->t));
}

/* ---- texts ----------------------------------------------------------------------------------- */

const char *text(const char *format, ...) {
  static char texts[16][512];
  static int turn;
  va_list args;
  turn = (turn + 1) % 16;
  va_start(args, format);
  vsnprintf(texts[turn], sizeof texts[turn], format, args);
  va_end(args);
  return texts[turn];
}

static const char *list(const int64_t *values, int n) {
  char buffer[256] = "";
  size_t used = 0;
  int i;
  for (i = 0; i < n && used < sizeof buffer - 32; ++i)
    used += (size_t)snprintf(buffer + used, sizeof buffer - used, "%s%lld", i ? "," : "",
                             (long long)values[i]);
  return text("[%s]", buffer);
}

const char *describe(const gpured_tensor *t) {
  return text("%s%s strides %s", dtype_name(t->dtype), list(t->shape, t->ndim),
              list(t->strides, t->ndim));
}

/* ---- calls ----------------------------------------------------------------------------------- */

gpured_options options_for(gpured_backend backend, int acc, int ddof, int threads) {
  gpured_options o = gpured_default_options();
  o.backend = (int32_t)backend;
  o.precision = GPURED_PRECISION_STRICT;
  o.acc_dtype = acc;
  o.ddof = ddof;
  o.threads = threads;
  return o;
}

int reduced_shape(const gpured_tensor *in, uint32_t axes, int keep, int64_t *shape) {
  int i, ndim = 0;
  for (i = 0; i < in->ndim; ++i) {
    if (!(axes >> i & 1))
      shape[ndim++] = in->shape[i];
    else if (keep)
      shape[ndim++] = 1;
  }
  return ndim;
}

gpured_tensor slice(const gpured_tensor *t, int axis, int64_t start, int64_t extent) {
  gpured_tensor s = *t;
  s.data = (unsigned char *)t->data + start * t->strides[axis] * (int64_t)size_of(t->dtype);
  s.shape[axis] = extent;
  return s;
}
