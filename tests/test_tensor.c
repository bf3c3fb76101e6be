/*
 * GEMM-reduce of f16 and bf16 with precision TENSOR: within a stated bound of the exact result, the
 * same bits from run to run and, where no depth is cut, for an item alone and in a batch. On the
 * CPU, and on a GPU without tensor cores, the strict result has to meet the same bound.
 *
 * With u = 2^-24 and k products, an element of the product is within c k u sum|a b| of the exact
 * one, c = 2 (the units cut off what they align). What follows adds a few u. An index may
 * be that of any value whose bound reaches the best one.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#ifdef TEST_CUDA
#include <cuda_runtime_api.h>
#endif

static const double unit = 1.0 / 16777216;

typedef struct tensor_case {
  int dtype, op, axis;
  int64_t batch, m, n, k;
  layout how_a, how_b;
  int kind, map, form, bias; /* bias: 1 rows, 2 columns */
  double alpha;
  int count; /* 0: op through the plain function; otherwise op and others of the list */
  int product;
} tensor_case;

enum { MOST_RESULTS = 4 };

typedef struct tensor_data {
  box a, b, bias_m, bias_n, c, out[MOST_RESULTS];
  gpured_result results[MOST_RESULTS];
  double *value, *bound; /* [batch][m][n]: elements before they are reduced */
} tensor_data;

static const int tensor_ops[] = {GPURED_MAX,   GPURED_ARGMAX, GPURED_LOGSUMEXP, GPURED_MIN,
                                 GPURED_SUMSQ, GPURED_ARGMIN, GPURED_NORM1,     GPURED_ABSMAX,
                                 GPURED_NORM2, GPURED_SUM,    GPURED_MEAN};

static const char *tensor_text(const tensor_case *c) {
  return text(
      "%s %s axis %d, %lldx%lldx%lldx%lld (b m n k), layouts %d %d kind %d map %d form %d "
      "bias %d alpha %g count %d",
      op_name(c->op), dtype_name(c->dtype), c->axis, (long long)c->batch, (long long)c->m,
      (long long)c->n, (long long)c->k, (int)c->how_a, (int)c->how_b, c->kind, c->map, c->form,
      c->bias, c->alpha, c->count);
}

/* ---- the exact product and its bounds -------------------------------------------------------- */

static double *doubles(int64_t n) {
  double *x = (double *)calloc((size_t)(n ? n : 1), sizeof *x);
  if (!x) abort();
  return x;
}

/* One element: the sum of products and of their magnitudes to a value and its bound. */
static void finish_value(const tensor_case *c, double sum, double size, double biases,
                         double bias_size, double *v, double *e) {
  const double alpha = c->form ? -2 : c->alpha > 0 || c->alpha < 0 ? c->alpha : 1;
  double x = alpha * sum + biases;
  *e = fabs(alpha) * 2 * (double)(c->k + 2) * unit * size;
  *e += (c->form ? (double)c->k + 4 : 4) * unit * bias_size + 4 * unit * fabs(x);
  if (c->map == GPURED_MAP_ABS) x = fabs(x);
  if (c->map == GPURED_MAP_SQUARE) {
    *e = 2 * fabs(x) * *e + *e * *e + unit * x * x;
    x = x * x;
  }
  *v = x;
}

static void make_expected(const tensor_case *c, tensor_data *d) {
  double *a = values(&d->a.t, c->batch * c->m * c->k), *bm = values(&d->bias_m.t, c->m);
  double *b = values(&d->b.t, c->batch * c->k * c->n), *bn = values(&d->bias_n.t, c->n);
  double *squares = doubles(c->n);
  int64_t row, j;
  d->value = doubles(c->batch * c->m * c->n);
  d->bound = doubles(c->batch * c->m * c->n);
  for (row = 0; row < c->batch * c->m; ++row) {
    const int64_t i = row % c->m;
    double *v = d->value + row * c->n, *e = d->bound + row * c->n;
    row_of_product(a + row * c->k, b + row / c->m * c->k * c->n, c->k, c->n, v, e,
                   c->form ? squares : NULL);
    for (j = 0; j < c->n; ++j) {
      double biases = c->form ? squares[j] : 0, bias_size = 0;
      if (c->bias & 1) biases += bm[i], bias_size += fabs(bm[i]);
      if (c->bias & 2) biases += bn[j], bias_size += fabs(bn[j]);
      if (c->form) bias_size = biases;
      finish_value(c, v[j], e[j], biases, bias_size, &v[j], &e[j]);
    }
  }
  free(a);
  free(b);
  free(bm);
  free(bn);
  free(squares);
}

/* ---- a result against them ------------------------------------------------------------------- */

/* What a sequence comes to. */
typedef struct totals {
  double most, least, size, sum, sum_bound, magnitudes, squares, square_bound, bound;
  int64_t first_nan;
} totals;

static void add_value(totals *t, int64_t i, double x, double e) {
  if (isnan(x) && t->first_nan < 0) t->first_nan = i;
  if (isnan(x)) return;
  if (x > t->most) t->most = x;
  if (x < t->least) t->least = x;
  if (fabs(x) > t->size) t->size = fabs(x);
  if (e > t->bound) t->bound = e;
  t->sum += x;
  t->sum_bound += e;
  t->magnitudes += fabs(x);
  t->squares += x * x;
  t->square_bound += 2 * fabs(x) * e + e * e;
}

static totals total(const tensor_case *c, const tensor_data *d, int64_t item, int64_t kept) {
  const int64_t n = c->axis ? c->n : c->m, step = c->axis ? 1 : c->n;
  const int64_t first = item * c->m * c->n + (c->axis ? kept * c->n : kept);
  totals t;
  int64_t i;
  memset(&t, 0, sizeof t);
  t.first_nan = -1;
  t.most = -HUGE_VAL;
  t.least = HUGE_VAL;
  for (i = 0; i < n; ++i) add_value(&t, i, d->value[first + i * step], d->bound[first + i * step]);
  return t;
}

static double exact_lse(const tensor_case *c, const tensor_data *d, int64_t item, int64_t kept,
                        double most) {
  const int64_t n = c->axis ? c->n : c->m, step = c->axis ? 1 : c->n;
  const double *v = d->value + item * c->m * c->n + (c->axis ? kept * c->n : kept);
  double s = 0;
  int64_t i;
  if (isinf(most)) return most;
  for (i = 0; i < n; ++i) s += exp(v[i * step] - most);
  return most + log(s);
}

/* Is this index one of a value that may be the best? */
static int good_index(const tensor_case *c, const tensor_data *d, const totals *t, int op,
                      int64_t item, int64_t kept, int64_t got) {
  const int64_t n = c->axis ? c->n : c->m, step = c->axis ? 1 : c->n;
  const int64_t first = item * c->m * c->n + (c->axis ? kept * c->n : kept);
  double best = op == GPURED_ARGMAX ? t->most : t->least, x;
  int64_t i;
  if (got < 0 || got >= n) return 0;
  if (t->first_nan >= 0) return got == t->first_nan;
  if (c->kind == OR_TIES) { /* exact: the first */
    for (i = 0; d->value[first + i * step] > best || d->value[first + i * step] < best; ++i)
      continue;
    return got == i;
  }
  x = d->value[first + got * step];
  return fabs(best - x) <= t->bound + d->bound[first + got * step] || (isinf(best) && isinf(x));
}

/* The value of an operation over a sequence and how far from it a result may be. */
static double expected(const tensor_case *c, const tensor_data *d, const totals *t, int op,
                       int64_t item, int64_t kept, double *bound) {
  const double n = (double)(c->axis ? c->n : c->m), sums = 64 * unit;
  *bound = t->bound;
  switch (op) {
    case GPURED_MAX:
      return t->most;
    case GPURED_MIN:
      return t->least;
    case GPURED_ABSMAX:
      return t->size;
    case GPURED_LOGSUMEXP:
      *bound += unit * (fabs(t->most) + 4 * log(n) + 64);
      return exact_lse(c, d, item, kept, t->most);
    case GPURED_SUMSQ:
      *bound = t->square_bound + sums * t->squares;
      return t->squares;
    case GPURED_NORM2:
      *bound = t->squares > 0 ? (t->square_bound + sums * t->squares) / sqrt(t->squares)
                              : sqrt(t->square_bound);
      return sqrt(t->squares);
    case GPURED_NORM1:
      *bound = t->sum_bound + sums * t->magnitudes;
      return t->magnitudes;
    default:
      *bound = t->sum_bound + sums * t->magnitudes;
      if (op == GPURED_MEAN) *bound /= n;
      return op == GPURED_MEAN ? t->sum / n : t->sum;
  }
}

static void check_values(const tensor_case *c, const tensor_data *d, int r, const char *name) {
  const int64_t kept = c->axis ? c->m : c->n;
  const int op = d->results[r].op;
  int64_t at;
  for (at = 0; at < c->batch * kept; ++at) {
    const totals t = total(c, d, at / kept, at % kept);
    const double got = value(&d->out[r].t, at);
    double bound, want;
    int good;
    if (is_arg(op)) {
      CHECK(good_index(c, d, &t, op, at / kept, at % kept, (int64_t)got), "%s: index %lld at %lld",
            name, (long long)got, (long long)at);
      continue;
    }
    want = expected(c, d, &t, op, at / kept, at % kept, &bound);
    if (c->kind == OR_TIES && op != GPURED_LOGSUMEXP) bound = unit * fabs(want);
    good = fabs(got - want) <= bound || (isinf(want) && got == want);
    if (t.first_nan >= 0 || isnan(want)) good = isnan(got);
    CHECK(good, "%s: result %d is %.9g at %lld, not %.9g +- %.3g", name, r, got, (long long)at,
          want, bound);
  }
}

static void check_result(const tensor_case *c, const tensor_data *d, int r, const char *name) {
  CHECK(box_gaps_untouched(&d->out[r]), "%s: wrote beside result %d", name, r);
  check_values(c, d, r, name);
}

static void check_product(const tensor_case *c, const tensor_data *d, const char *name) {
  int64_t i;
  for (i = 0; c->product && i < c->batch * c->m * c->n; ++i) {
    const double got = value(&d->c.t, i), x = d->value[i];
    CHECK(fabs(got - x) <= d->bound[i] + 2 * unit * fabs(x), "%s: C is %.9g at %lld, not %.9g",
          name, got, (long long)i, x);
  }
}

/* ---- one case -------------------------------------------------------------------------------- */

static void make_tensor_data(const tensor_case *c, tensor_data *d) {
  const int64_t sa[3] = {c->batch, c->m, c->k}, sb[3] = {c->batch, c->k, c->n};
  const int64_t so[2] = {c->batch, c->axis ? c->m : c->n}, sc[3] = {c->batch, c->m, c->n};
  int i, first = 0;
  memset(d, 0, sizeof *d);
  d->a = box_filled(c->dtype, 3, sa, c->how_a, c->kind, (uint64_t)(c->m + c->k));
  d->b = box_filled(c->dtype, 3, sb, c->how_b, c->kind, (uint64_t)(c->n + 3 * c->k));
  d->bias_m = box_filled(GPURED_F32, 1, &c->m, LAYOUT_GAP, OR_UNIFORM, 5);
  d->bias_n = box_filled(c->dtype, 1, &c->n, LAYOUT_NEG, OR_UNIFORM, 6);
  d->c = box_output(GPURED_F32, 3, sc, LAYOUT_PAD, 0);
  while (tensor_ops[first] != c->op) ++first;
  for (i = 0; i < MOST_RESULTS; ++i) {
    d->results[i].op = tensor_ops[(first + 2 * i) % COUNT(tensor_ops)];
    d->out[i] = box_output(is_arg(d->results[i].op) ? GPURED_I32 : GPURED_F32, 2, so,
                           i % 2 ? LAYOUT_F : LAYOUT_C, 0);
    d->results[i].out = d->out[i].t;
  }
}

static void free_tensor_data(tensor_data *d) {
  int i;
  box_free(&d->a);
  box_free(&d->b);
  box_free(&d->bias_m);
  box_free(&d->bias_n);
  box_free(&d->c);
  for (i = 0; i < MOST_RESULTS; ++i) box_free(&d->out[i]);
  free(d->value);
  free(d->bound);
}

static gpured_options tensor_options(gpured_backend backend) {
  gpured_options o = options_for(backend, 0, 0, 0);
  o.precision = GPURED_PRECISION_TENSOR;
  return o;
}

static gpured_status call_tensor(gpured_backend backend, const tensor_case *c, tensor_data *d) {
  gpured_options o = tensor_options(backend);
  gpured_gemm g = gpured_default_gemm();
  if (c->count == 0)
    return gpured_gemm_reduce((gpured_op)c->op, &d->a.t, &d->b.t, c->axis, &d->out[0].t, &o);
  g.a = &d->a.t;
  g.b = &d->b.t;
  g.axis = c->axis;
  g.alpha = c->alpha;
  g.map = c->map;
  g.form = c->form;
  g.bias_m = c->bias & 1 ? &d->bias_m.t : NULL;
  g.bias_n = c->bias & 2 ? &d->bias_n.t : NULL;
  g.c = c->product ? &d->c.t : NULL;
  g.count = c->count;
  g.results = d->results;
  return gpured_gemm_reduce_ex(&g, &o);
}

/* Wipes the first result, calls again and compares its bits. */
static void check_again(gpured_backend backend, const tensor_case *c, tensor_data *d,
                        const char *name) {
  box first = d->out[0];
  gpured_status st;
  const int64_t shape[2] = {c->batch, c->axis ? c->m : c->n};
  d->out[0] = box_output(first.t.dtype, 2, shape, LAYOUT_C, 0);
  d->results[0].out = d->out[0].t;
  st = call_tensor(backend, c, d);
  CHECK(st == GPURED_OK, "%s: again: status %d", name, (int)st);
  expect_same(&d->out[0], &first.t, name);
  box_free(&first);
}

static void run_tensor_case(gpured_backend backend, const tensor_case *c) {
  tensor_data d;
  const char *name = tensor_text(c);
  gpured_status st;
  int r;
  make_tensor_data(c, &d);
  make_expected(c, &d);
  st = call_tensor(backend, c, &d);
  CHECK(st == GPURED_OK, "%s: status %d", name, (int)st);
  for (r = 0; r < (c->count ? c->count : 1); ++r) check_result(c, &d, r, name);
  check_product(c, &d, name);
  if ((c->m + c->n + c->k + c->op) % 3 == 0) check_again(backend, c, &d, name);
  free_tensor_data(&d);
}

static tensor_case plain_tensor(int dtype, int op, int axis, const int64_t *s) {
  tensor_case c;
  memset(&c, 0, sizeof c);
  c.dtype = dtype;
  c.op = op;
  c.axis = axis;
  c.batch = s[0];
  c.m = s[1];
  c.n = s[2];
  c.k = s[3];
  c.kind = OR_UNIFORM;
  return c;
}

/* ---- the tests ------------------------------------------------------------------------------- */

/* Whole and partial tiles, every layout of the operands (rows of a multiple of 8 elements go by
 * bulk copies, others are copied first), data with ties. */
static void test_tensor_shapes(gpured_backend backend) {
  static const int64_t shapes[][4] = {{1, 256, 128, 64},  {1, 1, 1, 1},       {2, 7, 65, 17},
                                      {3, 63, 129, 65},   {2, 64, 256, 64},   {1, 65, 264, 304},
                                      {2, 257, 127, 33},  {1, 1000, 72, 8},   {5, 304, 64, 40},
                                      {3, 129, 1, 1000},  {1, 2504, 136, 24}, {1, 520, 640, 200},
                                      {1, 150, 392, 520}, {2, 330, 136, 520}};
  static const layout hows[] = {LAYOUT_C, LAYOUT_F, LAYOUT_PAD, LAYOUT_RANDOM};
  int i, k, dtype;
  for (i = 0; i < COUNT(shapes); ++i)
    for (k = 0; k < COUNT(tensor_ops) - 2; ++k)
      for (dtype = GPURED_F16; dtype <= GPURED_BF16; ++dtype) {
        tensor_case c = plain_tensor(dtype, tensor_ops[k], (i + k) % 2, shapes[i]);
        const int turn = i + k + dtype;
        if (k > 2 && (i + k + dtype) % 2) continue;
        c.how_a = hows[turn % 4];
        c.how_b = hows[turn / 2 % 3];
        c.kind = turn % 5 == 0 ? OR_TIES : OR_UNIFORM;
        run_tensor_case(backend, &c);
      }
}

/* Enough work for large tiles, which small products of maxima do not get. */
static void test_tensor_many(gpured_backend backend) {
  static const int64_t shapes[][4] = {{140, 250, 128, 24}, {33, 600, 136, 70}, {70, 150, 390, 520}};
  int i, k;
  if (backend == GPURED_BACKEND_CPU) return; /* which has one kind of tile */
  for (i = 0; i < COUNT(shapes); ++i)
    for (k = 0; k < 4; ++k) {
      tensor_case c = plain_tensor(k % 2 ? GPURED_F16 : GPURED_BF16,
                                   k / 2 ? GPURED_ARGMAX : GPURED_MAX, 0, shapes[i]);
      c.how_a = k % 3 == 1 ? LAYOUT_F : LAYOUT_C;
      run_tensor_case(backend, &c);
    }
}

/* Deep items of few tiles, whose depth a GPU cuts, with and without what there is beside the
 * product. */
static void test_tensor_deep(gpured_backend backend) {
  static const int64_t shapes[][4] = {{2, 40, 30, 12000}, {60, 9, 10, 9000}, {1, 66, 130, 12001}};
  static const layout hows[] = {LAYOUT_C, LAYOUT_F, LAYOUT_PAD};
  int i, k;
  for (i = 0; i < COUNT(shapes); ++i)
    for (k = 0; k < COUNT(tensor_ops); ++k) {
      const int64_t s[] = {shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]};
      tensor_case c = plain_tensor(k % 2 ? GPURED_F16 : GPURED_BF16, tensor_ops[k], k / 2 % 2, s);
      if (i == 2 && k % 4 > 1) continue;
      c.how_a = hows[(i + k) % 3];
      c.how_b = hows[(i + k) / 2 % 3];
      if (k > 1 && k < COUNT(tensor_ops) - 2) run_tensor_case(backend, &c);
      c.count = 1 + (i + k) % MOST_RESULTS;
      c.alpha = k % 4 ? -1.5 : 0;
      c.bias = k % 4;
      c.map = k % 3;
      c.product = k % 2;
      run_tensor_case(backend, &c);
    }
}

/* alpha, biases, maps, distances, several results in one pass, the product itself. */
static void test_tensor_options(gpured_backend backend) {
  static const int64_t shapes[][4] = {{2, 304, 200, 72}, {1, 131, 77, 45}, {3, 40, 300, 16}};
  static const double alphas[] = {0, 0.5, -1.5, 1, -1};
  int i, k, t = 0;
  for (i = 0; i < COUNT(shapes); ++i)
    for (k = 0; k < COUNT(tensor_ops); ++k, ++t) {
      tensor_case c =
          plain_tensor(t % 2 ? GPURED_F16 : GPURED_BF16, tensor_ops[k], t / 2 % 2, shapes[i]);
      c.how_a = t % 3 ? LAYOUT_C : LAYOUT_F;
      c.how_b = t % 4 ? LAYOUT_C : LAYOUT_F;
      c.count = 1;
      c.alpha = alphas[t % 5];
      run_tensor_case(backend, &c);
      c.bias = t % 4;
      c.map = t % 3;
      c.count = 1 + t % MOST_RESULTS;
      c.product = t % 2;
      run_tensor_case(backend, &c);
      c.bias = 0;
      c.alpha = 0;
      c.form = GPURED_FORM_L2;
      run_tensor_case(backend, &c);
    }
}

/* NaN and infinities in the operands: where the exact product has them, so has the result. */
static void test_tensor_specials(gpured_backend backend) {
  static const int64_t shape[4] = {1, 300, 72, 40};
  static const int which[] = {SP_NAN, SP_NNAN, SP_INF, SP_NINF};
  int i, k;
  for (i = 0; i < COUNT(which); ++i)
    for (k = 0; k < COUNT(tensor_ops); ++k) {
      tensor_case c = plain_tensor(i % 2 ? GPURED_F16 : GPURED_BF16, tensor_ops[k], k % 2, shape);
      tensor_data d;
      const char *name = text("%s with %s", tensor_text(&c), special_name(which[i]));
      gpured_status st;
      c.count = 1;
      c.map = tensor_ops[k] == GPURED_SUM || tensor_ops[k] == GPURED_MEAN ? GPURED_MAP_ABS : 0;
      make_tensor_data(&c, &d);
      set_special(&d.a.t, 150 * c.k + 3, which[i]);
      set_special(&d.b.t, 5 * c.n + 31, which[(i + 1) % 4]);
      make_expected(&c, &d);
      st = call_tensor(backend, &c, &d);
      CHECK(st == GPURED_OK, "%s: status %d", name, (int)st);
      check_result(&c, &d, 0, name);
      free_tensor_data(&d);
    }
}

/* Along the kept axis lines take turns: positive, negative, of both signs, zeros of either. The
 * other operand is positive but for its line `spoiled` (-1: none), so that results of whole lines
 * are negative, or all but one value is. */
static void set_signs(const tensor_case *c, const tensor_data *d, int64_t spoiled) {
  const gpured_tensor *kept = c->axis ? &d->a.t : &d->b.t, *other = c->axis ? &d->b.t : &d->a.t;
  const int64_t lines = c->axis ? c->m : c->n, others = c->axis ? c->n : c->m;
  const int64_t step = c->axis ? c->k : 1, other_step = c->axis ? 1 : c->k;
  const int64_t deep = c->axis ? 1 : c->n, other_deep = c->axis ? c->n : 1;
  int64_t item, i, k;
  for (item = 0; item < c->batch; ++item)
    for (k = 0; k < c->k; ++k) {
      for (i = 0; i < others; ++i) {
        const int64_t at = item * others * c->k + i * other_step + k * other_deep;
        set_value(other, at, i == spoiled ? -fabs(value(other, at)) : fabs(value(other, at)));
      }
      for (i = 0; i < lines; ++i) {
        const int64_t at = item * lines * c->k + i * step + k * deep;
        const double size = i % 4 == 3 ? 0 : fabs(value(kept, at));
        if (i % 4 != 2) set_value(kept, at, i % 4 == 1 || (i % 4 == 3 && k % 2) ? -size : size);
      }
    }
}

/* Extrema compare the bits of values, which for negative ones have another order. The last shape is
 * for the large tiles of a GPU. */
static void test_tensor_signs(gpured_backend backend) {
  static const int64_t shapes[][4] = {
      {1, 1100, 264, 40}, {3, 64, 72, 16}, {2, 150, 392, 520}, {140, 250, 128, 24}};
  const int count = backend == GPURED_BACKEND_CPU ? 3 : 4;
  static const int ops[] = {GPURED_MAX, GPURED_ARGMAX, GPURED_MIN, GPURED_ARGMIN, GPURED_ABSMAX};
  int i, k, spoil;
  for (i = 0; i < count; ++i)
    for (k = 0; k < 4 * COUNT(ops); ++k) {
      tensor_case c =
          plain_tensor((i + k) % 2 ? GPURED_F16 : GPURED_BF16, ops[k / 4], k % 2, shapes[i]);
      tensor_data d;
      const char *name = text("%s, signs by lines", tensor_text(&c));
      gpured_status st;
      c.count = (i + k) % 3 == 2 ? 2 : (i + k) % 3;
      c.alpha = c.count ? -0.5 : 1;
      spoil = k / 2 % 2;
      make_tensor_data(&c, &d);
      set_signs(&c, &d, spoil ? (c.axis ? c.n : c.m) / 2 : -1);
      make_expected(&c, &d);
      st = call_tensor(backend, &c, &d);
      CHECK(st == GPURED_OK, "%s: status %d", name, (int)st);
      check_result(&c, &d, 0, name);
      free_tensor_data(&d);
    }
}

/* Each item alone has the bits that it has in a batch; operands that all items share. */
static void test_tensor_batch(gpured_backend backend) {
  static const int64_t shapes[][4] = {{5, 520, 200, 64}, {5, 150, 392, 520}, {40, 520, 200, 64}};
  gpured_options o = tensor_options(backend);
  int k, i, turn;
  for (k = 0; k < COUNT(tensor_ops) - 2; ++k)
    for (turn = 0; turn < 4; ++turn) { /* the last shape has other tiles in a batch than alone */
      const int shared = turn % 2;
      tensor_case c = plain_tensor(k % 2 ? GPURED_F16 : GPURED_BF16, tensor_ops[k], k / 2 % 2,
                                   shapes[turn < 2 ? (k + turn) % 2 : 2]);
      const char *name = text("%s shared %d", tensor_text(&c), shared);
      tensor_data d;
      gpured_tensor a;
      box alone;
      const int64_t one[2] = {1, c.axis ? c.m : c.n};
      gpured_status st;
      make_tensor_data(&c, &d);
      a = shared ? slice(&d.a.t, 0, 2, 1) : d.a.t;
      st = gpured_gemm_reduce((gpured_op)c.op, &a, &d.b.t, c.axis, &d.out[0].t, &o);
      CHECK(st == GPURED_OK, "%s: status %d", name, (int)st);
      for (i = 0; i < 5; i += 2) {
        gpured_tensor ai = shared ? a : slice(&d.a.t, 0, i, 1), bi = slice(&d.b.t, 0, i, 1);
        gpured_tensor want = slice(&d.out[0].t, 0, i, 1);
        alone = box_output(d.out[0].t.dtype, 2, one, LAYOUT_C, 0);
        st = gpured_gemm_reduce((gpured_op)c.op, &ai, &bi, c.axis, &alone.t, &o);
        CHECK(st == GPURED_OK, "%s: item %d: status %d", name, i, (int)st);
        expect_same(&alone, &want, name);
        box_free(&alone);
      }
      free_tensor_data(&d);
    }
}

#ifdef TEST_CUDA
#define RUN(call) \
  CHECK((call) == cudaSuccess, "%s: %s", #call, cudaGetErrorString(cudaPeekAtLastError()))

/* A copy of a box on the device, `shift` bytes behind a border. */
static gpured_tensor sent(const box *b, void **memory, size_t shift) {
  gpured_tensor t = b->t;
  RUN(cudaMalloc(memory, b->bytes + shift));
  RUN(cudaMemcpy((char *)*memory + shift, b->memory, b->bytes, cudaMemcpyHostToDevice));
  t.data = (char *)*memory + shift + ((unsigned char *)b->t.data - b->memory);
  t.device = GPURED_CUDA_DEVICE;
  return t;
}

static void captured_calls(const gpured_gemm *g, gpured_options *o, void *out, size_t bytes) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t replayed;
  int i;
  RUN(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  o->stream = stream;
  RUN(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(gpured_gemm_reduce_ex(g, o) == GPURED_OK, "captured");
  RUN(cudaStreamEndCapture(stream, &graph));
  RUN(cudaGraphInstantiate(&replayed, graph, 0));
  for (i = 0; i < 20; ++i) {
    if (i == 19) RUN(cudaMemsetAsync(out, 0xa5, bytes, stream));
    RUN(cudaGraphLaunch(replayed, stream));
  }
  RUN(cudaStreamSynchronize(stream));
  RUN(cudaGraphExecDestroy(replayed));
  RUN(cudaGraphDestroy(graph));
  RUN(cudaStreamDestroy(stream));
}

/* Tensors of the device with the workspace that the query asks for, in a graph that is replayed;
 * the last shapes also where they begin beside a border, and without a workspace, which may then
 * have room for copies of them. */
static void test_tensor_device(gpured_backend backend) {
  static const int64_t shapes[][4] = {{2, 520, 200, 128}, {3, 64, 72, 40},    {1, 3000, 130, 16},
                                      {2, 521, 203, 129}, {1, 777, 300, 640}, {3, 264, 96, 200}};
  int i, k;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (k = 0; k < 4; ++k) {
      tensor_case c = plain_tensor(k % 2 ? GPURED_F16 : GPURED_BF16, tensor_ops[k], 0, shapes[i]);
      gpured_options o = tensor_options(GPURED_BACKEND_AUTO);
      gpured_gemm g = gpured_default_gemm();
      gpured_tensor a, b;
      void *memory[3], *space;
      size_t bytes = 0;
      tensor_data d;
      make_tensor_data(&c, &d);
      make_expected(&c, &d);
      a = sent(&d.a, &memory[0], i > 3 ? 2 : 0);
      b = sent(&d.b, &memory[1], i > 4 ? 6 : 0);
      d.results[0].out = sent(&d.out[0], &memory[2], 0);
      g.a = &a;
      g.b = &b;
      g.count = 1;
      g.results = d.results;
      o.precision = GPURED_PRECISION_AUTO;
      CHECK(gpured_gemm_reduce_ex_workspace(&g, &o, &bytes) == GPURED_OK, "query");
      RUN(cudaMalloc(&space, bytes + 64));
      RUN(cudaMemset(space, 0xcd, bytes + 64));
      if (i < 3 || k < 2) {
        o.workspace = space;
        o.workspace_bytes = bytes;
      }
      captured_calls(&g, &o, memory[2], d.out[0].bytes);
      RUN(cudaMemcpy(d.out[0].memory, memory[2], d.out[0].bytes, cudaMemcpyDeviceToHost));
      d.results[0].out = d.out[0].t;
      check_values(&c, &d, 0, tensor_text(&c));
      RUN(cudaFree(space));
      for (bytes = 0; bytes < 3; ++bytes) RUN(cudaFree(memory[bytes]));
      free_tensor_data(&d);
    }
}

/* One result of the device's operands, `shift` elements behind a border, with the workspace that a
 * query asks for, which is told where they are or not. */
static void displaced_call(const box *a, const box *b, box *out, int op, int axis, size_t shift,
                           int told) {
  const size_t size = gpured_dtype_size(a->t.dtype);
  gpured_options o = gpured_default_options();
  gpured_gemm g = gpured_default_gemm();
  gpured_tensor left, right, query, other;
  gpured_result result;
  void *memory[3], *space;
  size_t bytes = 0;
  left = sent(a, &memory[0], shift * size);
  right = sent(b, &memory[1], (shift * 5 + 3) % 8 * size * (shift != 0));
  memset(&result, 0, sizeof result);
  result.op = (gpured_op)op;
  result.out = sent(out, &memory[2], 0);
  query = left;
  other = right;
  if (!told) query.data = other.data = NULL;
  g.a = &query;
  g.b = &other;
  g.axis = axis;
  g.count = 1;
  g.results = &result;
  CHECK(gpured_gemm_reduce_ex_workspace(&g, &o, &bytes) == GPURED_OK, "query");
  RUN(cudaMalloc(&space, bytes + 16));
  g.a = &left;
  g.b = &right;
  o.workspace = space;
  o.workspace_bytes = bytes;
  CHECK(gpured_gemm_reduce_ex(&g, &o) == GPURED_OK, "displaced by %d", (int)shift);
  RUN(cudaMemcpy(out->memory, memory[2], out->bytes, cudaMemcpyDeviceToHost));
  RUN(cudaFree(space));
  for (bytes = 0; bytes < 3; ++bytes) RUN(cudaFree(memory[bytes]));
}

/* Operands that begin beside a border of 16 bytes have the bits of those that begin at one, also
 * where the depth is cut and where an operand is copied for its strides; either operand along the
 * depth or across. */
static void test_tensor_displaced(gpured_backend backend) {
  static const int64_t shapes[][4] = {{1, 520, 264, 200}, {1, 1000, 144, 72},  {1, 64, 64, 8192},
                                      {1, 80, 400, 16},   {1, 2504, 640, 128}, {3, 256, 200, 136},
                                      {5, 64, 64, 64},    {1, 131, 264, 203}};
  static const int dtypes[] = {GPURED_BF16, GPURED_F16, GPURED_I8, GPURED_U8};
  static const int ops[] = {GPURED_MAX, GPURED_ARGMIN, GPURED_LOGSUMEXP, GPURED_SUMSQ};
  int i, k, d;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (k = 0; k < 8; ++k)
      for (d = 0; d < COUNT(dtypes); ++d) {
        const int64_t *s = shapes[i], sa[3] = {s[0], s[1], s[3]}, sb[3] = {s[0], s[3], s[2]};
        const int axis = k / 4, bytes = d > 1, op = ops[(i + k + d) % (bytes ? 2 : 4)];
        const int64_t so[2] = {s[0], axis ? s[1] : s[2]};
        const int kept = is_arg(op) ? GPURED_I64 : bytes ? GPURED_I32 : GPURED_F32;
        box a = box_filled(dtypes[d], 3, sa, k & 1 ? LAYOUT_F : LAYOUT_C, OR_UNIFORM, (uint64_t)i);
        box b = box_filled(dtypes[d], 3, sb, k & 2 ? LAYOUT_F : LAYOUT_C, OR_UNIFORM, (uint64_t)k);
        box want = box_output(kept, 2, so, LAYOUT_C, 0), got = box_output(kept, 2, so, LAYOUT_C, 0);
        displaced_call(&a, &b, &want, op, axis, 0, 0);
        if (bytes) { /* whichever way they go */
          displaced_call(&a, &b, &got, op, axis, (size_t)(1 + (i + k) % 7), 0);
          expect_same(&got, &want.t, text("bytes by %d, layouts %d, not told", i, k));
        }
        displaced_call(&a, &b, &got, op, axis, (size_t)(1 + (i + k) % 7), 1);
        expect_same(&got, &want.t,
                    text("%lldx%lldx%lldx%lld, layouts %d, dtype %d, displaced", (long long)s[0],
                         (long long)s[1], (long long)s[2], (long long)s[3], k, dtypes[d]));
        box_free(&a);
        box_free(&b);
        box_free(&want);
        box_free(&got);
      }
}
#endif

const test_case tensor_tests[] = {{"tensor_shapes", test_tensor_shapes, 0},
                                  {"tensor_many", test_tensor_many, 0},
                                  {"tensor_options", test_tensor_options, 0},
                                  {"tensor_specials", test_tensor_specials, 0},
                                  {"tensor_signs", test_tensor_signs, 0},
                                  {"tensor_batch", test_tensor_batch, 0},
                                  {"tensor_deep", test_tensor_deep, 0},
#ifdef TEST_CUDA
                                  {"tensor_device", test_tensor_device, T_CUDA},
                                  {"tensor_displaced", test_tensor_displaced, T_CUDA},
#endif
                                  {NULL, NULL, 0}};
