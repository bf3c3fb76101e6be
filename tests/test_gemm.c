/* gpured_gemm_reduce and gpured_gemm_reduce_ex against the oracle, bit by bit. */
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* ---- one case -------------------------------------------------------------------------------- */

enum { BIAS_M = 1, BIAS_N = 2 };

/* Everything that a case varies. Zero is the plainest choice of every field but the extents. */
typedef struct gemm_case {
  gpured_backend backend;
  int dtype, acc, axis;
  int64_t m, n, k;
  int a_batch, b_batch; /* how many batch axes each operand has: the last ones of batch[] */
  int64_t batch[3]; /* an extent that an operand shall broadcast has its bit in a_ones, b_ones */
  int a_ones, b_ones;
  int map, form, bias, bias_dtype;
  double alpha;
  int c_dtype;         /* 0: no output C */
  int count;           /* of the results; 0: the one in ops[0] through the plain function */
  int ops[8], outs[8]; /* outs 0: the usual dtype */
  int threads, keep, kind;
  layout how_in, how_out;
  uint64_t seed;
} gemm_case;

/* The tensors of a case, twice where something is written: by the library and by the oracle. */
typedef struct gemm_data {
  box a, b, bias_m, bias_n, c[2], outs[2][8];
  gpured_result results[2][8];
} gemm_data;

static const int gemm_ops[] = {GPURED_SUM,    GPURED_MEAN,   GPURED_MIN,      GPURED_MAX,
                               GPURED_ARGMIN, GPURED_ARGMAX, GPURED_SUMSQ,    GPURED_NORM1,
                               GPURED_NORM2,  GPURED_ABSMAX, GPURED_LOGSUMEXP};

static const char *case_text(const gemm_case *c) {
  char ops[128] = "";
  int i;
  for (i = 0; i < (c->count ? c->count : 1); ++i) {
    strcat(ops, i ? "+" : "");
    strcat(ops, op_name(c->ops[i]));
  }
  return text(
      "gemm %s %s acc %s axis %d, %lldx%lldx%lld (m n k), batch a %d b %d of %lld,%lld,%lld "
      "ones %d %d, map %d form %d alpha %g bias %d %s c %s out %s threads %d keep %d kind %d "
      "layouts %d %d seed %llu",
      ops, dtype_name(c->dtype), dtype_name(c->acc), c->axis, (long long)c->m, (long long)c->n,
      (long long)c->k, c->a_batch, c->b_batch, (long long)c->batch[0], (long long)c->batch[1],
      (long long)c->batch[2], c->a_ones, c->b_ones, c->map, c->form, c->alpha, c->bias,
      dtype_name(c->bias_dtype), dtype_name(c->c_dtype), dtype_name(c->outs[0]), c->threads,
      c->keep, c->kind, (int)c->how_in, (int)c->how_out, (unsigned long long)c->seed);
}

/* The last `axes` batch extents, then the extents r and s (negative: none). Returns the ndim. */
static int shape_of(const gemm_case *c, int axes, int ones, int64_t r, int64_t s, int64_t *shape) {
  int i, ndim = 0;
  for (i = 3 - axes; i < 3; ++i) shape[ndim++] = ones >> i & 1 ? 1 : c->batch[i];
  if (r >= 0) shape[ndim++] = r;
  if (s >= 0) shape[ndim++] = s;
  return ndim;
}

/* The batch axes in which the results have extent 1: those that both operands lack or have with
 * extent 1. */
static int result_ones(const gemm_case *c) {
  int i, ones = 0;
  for (i = 0; i < 3; ++i) {
    int a_one = i < 3 - c->a_batch || (c->a_ones >> i & 1),
        b_one = i < 3 - c->b_batch || (c->b_ones >> i & 1);
    if (a_one && b_one) ones |= 1 << i;
  }
  return ones;
}

static int result_batch(const gemm_case *c) {
  return c->a_batch > c->b_batch ? c->a_batch : c->b_batch;
}

static void make_inputs(const gemm_case *c, gemm_data *d) {
  int bias_dtype = c->bias_dtype ? c->bias_dtype : c->dtype;
  int full = result_batch(c), ones = result_ones(c);
  int64_t shape[8];
  int ndim = shape_of(c, c->a_batch, c->a_ones, c->m, c->k, shape);
  d->a = box_filled(c->dtype, ndim, shape, c->how_in, c->kind, c->seed + 1);
  ndim = shape_of(c, c->b_batch, c->b_ones, c->k, c->n, shape);
  d->b = box_filled(c->dtype, ndim, shape, c->how_in, c->kind, c->seed + 2);
  /* A bias has all batch axes, or none, or all with extent 1. */
  ndim = shape_of(c, c->seed % 2 ? full : 0, ones, c->m, -1, shape);
  d->bias_m = box_filled(bias_dtype, ndim, shape, c->how_in, c->kind, c->seed + 3);
  ndim = shape_of(c, c->seed % 3 ? full : 0, c->seed % 3 == 1 ? ones : 7, c->n, -1, shape);
  d->bias_n = box_filled(bias_dtype, ndim, shape, c->how_in, c->kind, c->seed + 4);
}

static void make_outputs(const gemm_case *c, gemm_data *d, int which) {
  int axes = result_batch(c), ones = result_ones(c), i, ndim;
  layout how = which ? LAYOUT_C : c->how_out;
  int64_t shape[8], kept = c->axis == 0 ? c->n : c->m;
  for (i = 0; i < (c->count ? c->count : 1); ++i) {
    int out = c->outs[i] ? c->outs[i] : usual_output(c->ops[i], c->dtype);
    if (!c->keep)
      ndim = shape_of(c, axes, ones, kept, -1, shape);
    else
      ndim = shape_of(c, axes, ones, c->axis == 0 ? 1 : c->m, c->axis == 0 ? c->n : 1, shape);
    d->outs[which][i] = box_output(out, ndim, shape, how, c->seed + 10u + (uint64_t)i);
    d->results[which][i].op = c->ops[i];
    d->results[which][i].out = d->outs[which][i].t;
  }
  ndim = shape_of(c, axes, ones, c->m, c->n, shape);
  if (c->c_dtype) d->c[which] = box_output(c->c_dtype, ndim, shape, how, c->seed + 9u);
}

static void free_data(const gemm_case *c, gemm_data *d) {
  int i, which;
  box_free(&d->a);
  box_free(&d->b);
  box_free(&d->bias_m);
  box_free(&d->bias_n);
  for (which = 0; which < 2; ++which) {
    if (c->c_dtype) box_free(&d->c[which]);
    for (i = 0; i < (c->count ? c->count : 1); ++i) box_free(&d->outs[which][i]);
  }
}

static gpured_gemm describe_gemm(const gemm_case *c, const gemm_data *d, int which) {
  gpured_gemm g = gpured_default_gemm();
  g.a = &d->a.t;
  g.b = &d->b.t;
  g.axis = c->axis;
  g.map = c->map;
  g.form = c->form;
  g.alpha = c->alpha;
  if (c->bias & BIAS_M) g.bias_m = &d->bias_m.t;
  if (c->bias & BIAS_N) g.bias_n = &d->bias_n.t;
  if (c->c_dtype) g.c = &d->c[which].t;
  g.count = c->count ? c->count : 1;
  g.results = d->results[which];
  return g;
}

static gpured_status run(const gemm_case *c, const gemm_data *d) {
  gpured_options o = options_for(c->backend, c->acc, 0, c->threads);
  gpured_gemm g = describe_gemm(c, d, 0);
  if (c->count) return gpured_gemm_reduce_ex(&g, &o);
  return gpured_gemm_reduce((gpured_op)c->ops[0], g.a, g.b, c->axis, &d->outs[0][0].t, &o);
}

static void compare(const gemm_case *c, const gemm_data *d) {
  int i;
  for (i = 0; i < (c->count ? c->count : 1); ++i)
    expect_same(&d->outs[0][i], &d->outs[1][i].t, text("%s, result %d", case_text(c), i));
  if (c->c_dtype) expect_same(&d->c[0], &d->c[1].t, text("%s, output C", case_text(c)));
}

/* Whether argmin or argmax of nothing is asked for where there is a result to write. */
static int is_impossible(const gemm_case *c, const gemm_data *d) {
  int i, found = 0;
  for (i = 0; i < (c->count ? c->count : 1); ++i) found |= is_arg(c->ops[i]);
  return found && (c->axis == 0 ? c->m : c->n) == 0 && gen_count(&d->outs[0][0].t) > 0;
}

static void check_threads(const gemm_case *given, const int *threads, int count) {
  gemm_case c = *given;
  gemm_data d;
  gpured_gemm g;
  gpured_status status;
  int i, impossible;
  if (!test_mine()) return;
  memset(&d, 0, sizeof d);
  make_inputs(&c, &d);
  make_outputs(&c, &d, 1);
  g = describe_gemm(&c, &d, 1);
  for (i = 0; i < count; ++i) {
    int j;
    c.threads = threads[i];
    make_outputs(&c, &d, 0);
    status = run(&c, &d);
    impossible = is_impossible(&c, &d);
    if (i == 0 && !impossible) oracle_gemm(&g, c.acc);
    CHECK(status == (impossible ? GPURED_ERR_SHAPE : GPURED_OK), "%s: status %d", case_text(&c),
          (int)status);
    if (status == GPURED_OK) compare(&c, &d);
    if (i + 1 == count) break;
    for (j = 0; j < (c.count ? c.count : 1); ++j) box_free(&d.outs[0][j]);
    if (c.c_dtype) box_free(&d.c[0]);
  }
  free_data(&c, &d);
}

static void check(const gemm_case *c) { check_threads(c, &c->threads, 1); }

static gemm_case plain(gpured_backend backend, int dtype, int op, int axis, int64_t m, int64_t n,
                       int64_t k) {
  gemm_case c;
  memset(&c, 0, sizeof c);
  c.backend = backend;
  c.dtype = dtype;
  c.ops[0] = op;
  c.axis = axis;
  c.m = m;
  c.n = n;
  c.k = k;
  c.seed = (uint64_t)(m * 31 + n * 7 + k);
  return c;
}

/* ---- the example of docs/ORDER.md, worked by hand -------------------------------------------- */

static void test_example(gpured_backend backend) {
  static const float a[4] = {1, 2, 3, 4}, b[6] = {1, 0, 2, 0, 1, 1};
  static const float greatest[3] = {3, 4, 10}, sums[3] = {4, 6, 14}, rows[2] = {7, 17};
  gpured_tensor ta = gpured_matrix(a, GPURED_F32, 2, 2), tb = gpured_matrix(b, GPURED_F32, 2, 3);
  float out[3];
  int64_t where[3];
  gpured_tensor d = gpured_vector(out, GPURED_F32, 3), w = gpured_vector(where, GPURED_I64, 3);
  gpured_options o = options_for(backend, 0, 0, 0);
  int i;
  CHECK(gpured_gemm_reduce(GPURED_MAX, &ta, &tb, 0, &d, &o) == GPURED_OK, "max over M");
  for (i = 0; i < 3; ++i) CHECK(out[i] == greatest[i], "max %d is %g", i, (double)out[i]);
  CHECK(gpured_gemm_reduce(GPURED_ARGMAX, &ta, &tb, 0, &w, &o) == GPURED_OK, "argmax over M");
  for (i = 0; i < 3; ++i) CHECK(where[i] == 1, "argmax %d is %d", i, (int)where[i]);
  CHECK(gpured_gemm_reduce(GPURED_SUM, &ta, &tb, 0, &d, &o) == GPURED_OK, "sum over M");
  for (i = 0; i < 3; ++i) CHECK(out[i] == sums[i], "sum %d is %g", i, (double)out[i]);
  d = gpured_vector(out, GPURED_F32, 2);
  CHECK(gpured_gemm_reduce(GPURED_SUM, &ta, &tb, 1, &d, &o) == GPURED_OK, "sum over N");
  for (i = 0; i < 2; ++i) CHECK(out[i] == rows[i], "row sum %d is %g", i, (double)out[i]);
}

/* Points on a line, integers, so that every distance is exact: the nearest one by the L2 form. */
static void test_nearest(gpured_backend backend) {
  static const float a[3] = {0, 10, 21}, b[4] = {9, 1, 30, 20};
  static const float least[3] = {1, 1, 1};
  static const int64_t which[3] = {1, 0, 3};
  gpured_tensor ta = gpured_matrix(a, GPURED_F32, 3, 1), tb = gpured_matrix(b, GPURED_F32, 1, 4);
  float out[3];
  int64_t where[3];
  gpured_options o = options_for(backend, 0, 0, 0);
  gpured_gemm g = gpured_default_gemm();
  gpured_result results[2];
  int i;
  results[0].op = GPURED_MIN;
  results[0].out = gpured_vector(out, GPURED_F32, 3);
  results[1].op = GPURED_ARGMIN;
  results[1].out = gpured_vector(where, GPURED_I64, 3);
  g.a = &ta;
  g.b = &tb;
  g.axis = 1;
  g.form = GPURED_FORM_L2;
  g.count = 2;
  g.results = results;
  CHECK(gpured_gemm_reduce_ex(&g, &o) == GPURED_OK, "the nearest points");
  for (i = 0; i < 3; ++i)
    CHECK(out[i] == least[i] && where[i] == which[i], "the nearest to %d is %d at %g", i,
          (int)where[i], (double)out[i]);
}

/* ---- every type ------------------------------------------------------------------------------ */

static void test_types(gpured_backend backend) {
  static const int64_t sizes[][3] = {{1, 1, 1}, {5, 7, 3}, {33, 20, 40}, {130, 9, 17}};
  static const int accs[] = {0, GPURED_F64};
  int i, j, k, op, out, axis, kind;
  for (i = 0; i < COUNT(all_dtypes); ++i)
    for (j = 0; j < COUNT(sizes); ++j)
      for (k = 0; k < COUNT(accs); ++k)
        for (op = 0; op < COUNT(gemm_ops); ++op)
          for (out = 0; out < COUNT(all_dtypes); ++out)
            for (axis = 0; axis < 2; ++axis)
              for (kind = 0; kind < OR_KINDS; kind += 1 + (j > 1) * 2) {
                gemm_case c = plain(backend, all_dtypes[i], gemm_ops[op], axis, sizes[j][0],
                                    sizes[j][1], sizes[j][2]);
                c.outs[0] = all_dtypes[out];
                c.acc = accs[k];
                c.kind = kind;
                if (j > 1 && (i + op + out + kind) % 5 != 0) continue;
                if (valid_output(c.ops[0], c.dtype, c.outs[0]) && valid_acc(c.dtype, c.acc))
                  check(&c);
              }
}

/* Extents of 0 where the product is stored: one without elements has nothing beside it written. */
static void test_empty(gpured_backend backend) {
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_BF16, GPURED_I32};
  int i, which, axis, how;
  for (i = 0; i < COUNT(dtypes); ++i)
    for (which = 0; which < 8; ++which)
      for (axis = 0; axis < 2; ++axis)
        for (how = 0; how < LAYOUT_ZERO; ++how) {
          gemm_case c = plain(backend, dtypes[i], GPURED_SUM, axis, which & 1 ? 0 : 5,
                              which & 2 ? 0 : 3, which & 4 ? 0 : 4);
          c.count = 1;
          c.c_dtype = dtypes[i];
          c.how_out = (layout)how;
          check(&c);
        }
}

/* The sums of the left operand's columns, whose order is free, wherever the operand begins. */
static void test_integers_anywhere(gpured_backend backend) {
  static const int dtypes[] = {GPURED_I64, GPURED_U64, GPURED_I32};
  int i, axis;
  uint64_t seed;
  for (i = 0; i < COUNT(dtypes); ++i)
    for (axis = 0; axis < 2; ++axis)
      for (seed = 0; seed < 12; ++seed) {
        gemm_case c =
            plain(backend, dtypes[i], GPURED_SUM, axis, axis ? 3 : 1500, axis ? 1500 : 3, 6);
        c.how_in = LAYOUT_RANDOM;
        c.seed = seed;
        check(&c);
      }
}

/* Sums of integers' products: vectors of either operand or none, one column or several groups,
 * depths that are cut into segments. */
static void test_integer_sums(gpured_backend backend) {
  static const int64_t sizes[][3] = {{1, 1, 5000},  {2, 9, 16},     {3, 130, 100}, {1, 700, 33},
                                     {70, 8, 1000}, {17, 40, 4096}, {5, 16, 9000}, {1, 2, 40000}};
  static const layout places[] = {LAYOUT_C, LAYOUT_F, LAYOUT_PAD, LAYOUT_RANDOM};
  int i, j, k, axis;
  for (i = 0; i < COUNT(sizes); ++i)
    for (j = 0; j < COUNT(all_dtypes); ++j)
      for (k = 0; k < COUNT(places); ++k)
        for (axis = 0; axis < 2; ++axis) {
          const int64_t m = sizes[i][axis], n = sizes[i][1 - axis];
          gemm_case c = plain(backend, all_dtypes[j], GPURED_SUM, axis, m, n, sizes[i][2]);
          if (all_dtypes[j] < GPURED_I8) continue;
          c.how_in = places[k];
          c.kind = k % 2 ? OR_UNIFORM : OR_WIDE;
          if (i % 3 == 2) c.a_batch = c.b_batch = 1, c.batch[2] = 3;
          check(&c);
        }
}

/* Products of few rows or columns, which GPUs cut into thin tiles, in every layout. */
static void test_thin(gpured_backend backend) {
  static const int64_t sizes[][3] = {{1, 1, 40},   {1, 130, 100}, {5, 33, 64},   {16, 16, 33},
                                     {15, 100, 7}, {16, 65, 500}, {130, 20, 70}, {300, 9, 31}};
  static const int ops[] = {GPURED_MAX, GPURED_ARGMIN, GPURED_LOGSUMEXP, GPURED_SUMSQ, GPURED_SUM};
  static const layout places[] = {LAYOUT_C, LAYOUT_F, LAYOUT_PAD, LAYOUT_RANDOM};
  int i, j, k, axis;
  for (i = 0; i < COUNT(sizes); ++i)
    for (j = 0; j < COUNT(places); ++j)
      for (axis = 0; axis < 2; ++axis)
        for (k = 0; k < 2 * COUNT(ops); ++k) {
          const int64_t m = sizes[i][axis], n = sizes[i][1 - axis];
          gemm_case c =
              plain(backend, k % 2 ? GPURED_F64 : GPURED_F32, ops[k / 2], axis, m, n, sizes[i][2]);
          c.how_in = places[j];
          c.kind = k % 3 ? OR_UNIFORM : OR_SPECIAL;
          if (k % 4 == 3) c.bias = BIAS_M | BIAS_N;
          if (k % 4 == 3) c.count = 1;
          check(&c);
        }
}

/* Bytes, which tensor cores multiply where they lie along k, and are copied so otherwise. */
static void test_bytes(gpured_backend backend) {
  static const int64_t rows[] = {1, 5, 64, 127, 128, 129, 300};
  static const int64_t columns[] = {1, 7, 64, 130}, depths[] = {1, 15, 16, 17, 32, 64, 65, 200};
  static const int ops[] = {GPURED_MAX, GPURED_ARGMIN, GPURED_SUMSQ, GPURED_ABSMAX, GPURED_NORM1};
  int i, j, k, t = 0;
  for (i = 0; i < COUNT(rows); ++i)
    for (j = 0; j < COUNT(columns); ++j)
      for (k = 0; k < COUNT(depths); ++k, ++t) {
        gemm_case c = plain(backend, t % 2 ? GPURED_I8 : GPURED_U8, 0, t / 2 % 2, rows[i],
                            columns[j], depths[k]);
        c.count = COUNT(ops);
        memcpy(c.ops, ops, sizeof ops);
        c.how_in = t % 3 == 1 ? LAYOUT_RANDOM : LAYOUT_C;
        c.kind = t % 3 == 2 ? OR_WIDE : OR_UNIFORM;
        if (t % 5 == 1) c.map = 1 + t % 2;
        if (t % 5 == 2) c.c_dtype = GPURED_I64;
        if (t % 7 == 3) {
          c.a_batch = 2;
          c.b_batch = 1;
          c.batch[1] = 3;
          c.batch[2] = 2;
        }
        check(&c);
      }
}

/* One result of bytes, which has kernels of its own on some GPUs. */
static void test_bytes_extrema(gpured_backend backend) {
  static const int64_t rows[] = {1, 33, 64, 65, 255, 256, 257, 520, 1000};
  static const int64_t columns[] = {1, 63, 64, 65, 129, 300}, depths[] = {1, 127, 128, 144, 300};
  static const int ops[] = {GPURED_MAX, GPURED_MIN, GPURED_ABSMAX, GPURED_ARGMAX, GPURED_ARGMIN};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_TIES, OR_WIDE};
  int i, j, k, t = 0;
  for (i = 0; i < COUNT(rows); ++i)
    for (j = 0; j < COUNT(columns); ++j)
      for (k = 0; k < 2 * COUNT(ops); ++k, ++t) {
        gemm_case c = plain(backend, k % 2 ? GPURED_I8 : GPURED_U8, ops[k / 2], t / 2 % 2, rows[i],
                            columns[j], depths[t % COUNT(depths)]);
        c.kind = kinds[t / 2 % COUNT(kinds)];
        c.how_in = t % 3 == 1 ? LAYOUT_RANDOM : LAYOUT_C;
        if (t % 7 == 3) {
          c.a_batch = 2;
          c.b_batch = 1;
          c.batch[1] = 3;
          c.batch[2] = 2;
        }
        check(&c);
      }
}

/* The longest sums of bytes that 30 and 32 bits hold, and some that they do not: the greatest bytes
 * multiplied, and the greatest with the least. */
static void check_bytes_extreme(gpured_backend backend, int is_signed, int op, int64_t k) {
  const int dtype = is_signed ? GPURED_I8 : GPURED_U8, least = is_signed && op == GPURED_MIN;
  const int64_t want = k * (!is_signed ? 255 * 255 : least ? -128 * 127 : 128 * 128);
  gpured_options o = options_for(backend, 0, 0, 1);
  int64_t a_shape[2], b_shape[2], got[2] = {0, 0}, n = 2;
  gpured_tensor a, b, out;
  void *bytes = malloc((size_t)k * 5);
  CHECK(bytes != NULL, "out of memory");
  if (!bytes) return;
  memset(bytes, is_signed ? 0x80 : 0xff, (size_t)k * 5);
  if (least) memset(bytes, 127, (size_t)k * 3);
  a_shape[0] = 3;
  a_shape[1] = b_shape[0] = k;
  b_shape[1] = n;
  a = gpured_array(bytes, (gpured_dtype)dtype, 2, a_shape, NULL);
  b = gpured_array((char *)bytes + 3 * k, (gpured_dtype)dtype, 2, b_shape, NULL);
  out = gpured_array(got, GPURED_I64, 1, &n, NULL);
  CHECK(gpured_gemm_reduce((gpured_op)op, &a, &b, 0, &out, &o) == GPURED_OK, "k %d", (int)k);
  CHECK(got[0] == want && got[1] == want, "%s %s, k %d: %lld, %lld", op_name(op), dtype_name(dtype),
        (int)k, (long long)got[0], (long long)got[1]);
  free(bytes);
}

static void test_bytes_extreme(gpured_backend backend) {
  static const int64_t depths[] = {16383, 16384, 65008, 65024,  65025,  65040,  66047,
                                   66048, 66051, 66052, 131056, 131071, 131072, 131088};
  int i, t;
  for (i = 0; i < COUNT(depths); ++i)
    for (t = 0; t < 4; ++t)
      check_bytes_extreme(backend, t / 2, t % 2 ? GPURED_MIN : GPURED_MAX, depths[i]);
}

/* ---- every size ------------------------------------------------------------------------------ */

static const int64_t borders[] = {0,   1,   2,   3,   5,   6,   7,   8,   13,  14,  15, 16,  17,
                                  31,  32,  33,  47,  48,  49,  63,  64,  65,  96,  97, 127, 128,
                                  129, 167, 168, 169, 255, 256, 257, 383, 384, 385, 513};

/* One extent takes every border while the others take a few. */
static void test_sizes(gpured_backend backend) {
  static const int64_t few[][2] = {{1, 1}, {3, 17}, {34, 5}};
  static const int dtypes[] = {GPURED_F32, GPURED_F64};
  int i, j, k, which, t = 0;
  for (i = 0; i < COUNT(borders); ++i)
    for (j = 0; j < COUNT(few); ++j)
      for (which = 0; which < 3; ++which)
        for (k = 0; k < COUNT(gemm_ops); ++k, ++t) {
          int64_t e[3];
          gemm_case c;
          e[which] = borders[i];
          e[(which + 1) % 3] = few[j][0];
          e[(which + 2) % 3] = few[j][1];
          c = plain(backend, dtypes[t / 2 % 2], gemm_ops[k], t / 3 % 2, e[0], e[1], e[2]);
          c.kind = t % 3 == 0 ? OR_WIDE : OR_UNIFORM;
          check(&c);
        }
}

/* All three extents at borders at once, in one call with several results. */
static void test_sizes_together(gpured_backend backend) {
  static const int64_t e[] = {1, 2, 15, 17, 31, 33, 64, 127, 128, 129, 257};
  int i, j, k, t = 0;
  for (i = 0; i < COUNT(e); ++i)
    for (j = 0; j < COUNT(e); ++j)
      for (k = 0; k < COUNT(e); ++k, ++t) {
        gemm_case c = plain(backend, t % 4 ? GPURED_F32 : GPURED_F64, GPURED_MAX, t / 2 % 2, e[i],
                            e[j], e[k]);
        if (e[i] * e[j] * e[k] > 600000 && t % 13 != 0) continue;
        c.count = 3;
        c.ops[1] = t % 3 ? GPURED_SUMSQ : GPURED_LOGSUMEXP;
        c.ops[2] = GPURED_ARGMIN;
        check(&c);
      }
}

/* Products of every kind of tile that a GPU with 132 multiprocessors chooses by what it costs;
 * small ones, which all other tests have, take small tiles. */
static void test_tiles(gpured_backend backend) {
  static const int64_t sizes[][4] = {{1, 2040, 2048, 5},  {60, 256, 256, 5},  {200, 128, 128, 12},
                                     {130, 256, 120, 20}, {1, 1010, 1000, 9}, {1, 640, 900, 20},
                                     {400, 64, 64, 9},    {300, 50, 60, 17},  {2, 256, 64, 64},
                                     {5, 60, 200, 40},    {30, 16, 300, 20},  {7, 9, 1000, 33},
                                     {900, 13, 16, 16},   {1, 3000, 16, 50}};
  static const int ops[] = {GPURED_MAX, GPURED_ARGMIN, GPURED_SUMSQ, GPURED_LOGSUMEXP};
  int i, which, t = 0;
  for (i = 0; i < COUNT(sizes); ++i)
    for (which = 0; which < 4; ++which, ++t) {
      const int axis = which % 2;
      gemm_case c = plain(backend, which == 1 ? GPURED_F64 : GPURED_F32, 0, axis,
                          sizes[i][1 + axis], sizes[i][2 - axis], sizes[i][3]);
      if (backend == GPURED_BACKEND_CPU && sizes[i][0] * c.m * c.n * c.k > 10000000) continue;
      c.a_batch = c.b_batch = 1;
      c.batch[2] = sizes[i][0];
      c.count = COUNT(ops);
      memcpy(c.ops, ops, sizeof ops);
      if (which == 2) c.acc = GPURED_F64;
      if (which == 3) c.how_in = LAYOUT_RANDOM;
      if (t % 3 == 1) {
        c.alpha = -0.75;
        c.bias = BIAS_M | BIAS_N;
      }
      check(&c);
    }
}

/* Long reduced axes: many blocks of 128, so that the tree over them has several levels; and a long
 * K. */
static void test_sizes_long(gpured_backend backend) {
  static const int64_t lengths[] = {1023, 1024, 1025, 32767, 32768, 32769, 40001};
  int i, k, axis;
  for (i = 0; i < COUNT(lengths); ++i)
    for (k = 0; k < COUNT(gemm_ops); ++k)
      for (axis = 0; axis < 2; ++axis) {
        int64_t m = axis ? 3 : lengths[i], n = axis ? lengths[i] : 3;
        gemm_case c = plain(backend, GPURED_F32, gemm_ops[k], axis, m, n, 2);
        if (lengths[i] < 2000 || (i + k + axis) % 3 == 0) check(&c);
      }
  for (i = 0; i < COUNT(lengths); ++i)
    for (k = 0; k < COUNT(gemm_ops); ++k) {
      gemm_case c = plain(backend, GPURED_F32, gemm_ops[k], k % 2, 4, 3, lengths[i]);
      if (lengths[i] < 2000 || (i + k) % 3 == 0) check(&c);
    }
  for (k = 0; k < 4; ++k) { /* types that are widened, in more than one piece */
    gemm_case c = plain(backend, k < 2 ? GPURED_F16 : GPURED_I8, GPURED_MAX, k % 2, 4, 3, 5000);
    check(&c);
    c = plain(backend, k < 2 ? GPURED_F16 : GPURED_I8, GPURED_SUM, k % 2, 4, 3, 5000);
    check(&c);
  }
}

/* The short road over rows that are too long for one round and blocks that are not full: the rows
 * of a lane go four at a time, and then one by one. */
static void test_sizes_short_road(gpured_backend backend) {
  static const int64_t rows[] = {17, 63, 64, 65, 100, 129, 255, 256, 300};
  static const int64_t large[][3] = {{270, 3, 521}, {2060, 3, 530}, {3, 515, 2310}};
  int i, axis;
  for (i = 0; i < COUNT(rows); ++i)
    for (axis = 0; axis < 2; ++axis) {
      const int64_t m = axis ? 290 : rows[i], n = axis ? rows[i] : 290;
      gemm_case c = plain(backend, GPURED_F32, GPURED_SUM, axis, m, n, 300);
      c.threads = 1; /* several would take narrower pieces */
      check(&c);
      c = plain(backend, GPURED_F64, GPURED_MEAN, axis, m, n, 300);
      c.threads = 1;
      check(&c);
    }
  for (i = 0; i < COUNT(large); ++i)
    for (axis = 0; axis < 2; ++axis) { /* long rows, a lane after the other */
      gemm_case c = plain(backend, GPURED_F32, GPURED_SUM, axis, large[i][axis], large[i][1 - axis],
                          large[i][2]);
      c.threads = 1;
      check(&c);
      c = plain(backend, GPURED_F64, GPURED_MEAN, axis, large[i][axis], large[i][1 - axis],
                large[i][2]);
      c.threads = 1;
      check(&c);
    }
}

/* So many columns that a task takes as many panels of them as it may. */
static void test_many_panels(gpured_backend backend) {
  gemm_case c = plain(backend, GPURED_F32, GPURED_MAX, 0, 5, 9000, 7);
  c.threads = 2;
  check(&c);
}

/* ---- special values -------------------------------------------------------------------------- */

static void specials_in(gemm_case *c, gemm_data *d, int which) {
  const box *operands[2] = {&d->a, &d->b};
  gpured_gemm g = describe_gemm(c, d, 1);
  int o, p;
  for (o = 0; o < 2; ++o)
    for (p = 0; p < 3; ++p) {
      int64_t n = gen_count(&operands[o]->t), at[] = {0, n - 1, n / 2};
      gpured_status status;
      int i;
      oracle_fill(&operands[o]->t, c->kind, c->seed);
      set_special(&operands[o]->t, at[p], which);
      status = run(c, d);
      CHECK(status == GPURED_OK, "%s: status %d", case_text(c), (int)status);
      oracle_gemm(&g, c->acc);
      for (i = 0; i < c->count; ++i)
        expect_same(
            &d->outs[0][i], &d->outs[1][i].t,
            text("%s in operand %d at %d, %s", special_name(which), o, (int)at[p], case_text(c)));
    }
}

static void test_specials(gpured_backend backend) {
  static const int kinds[] = {OR_UNIFORM, OR_ZERO, OR_TINY};
  int i, k, which, axis, half, j;
  for (i = 0; i < 4; ++i)
    for (k = 0; k < COUNT(kinds); ++k)
      for (which = 0; which < SP_COUNT; ++which)
        for (axis = 0; axis < 2; ++axis)
          for (half = 0; half < 2; ++half) {
            gemm_case c = plain(backend, all_dtypes[i], 0, axis, 37, 35, 6);
            gemm_data d;
            if (!test_mine()) continue;
            memset(&d, 0, sizeof d);
            c.kind = kinds[k];
            c.count = half ? 5 : 6;
            for (j = 0; j < c.count; ++j) c.ops[j] = gemm_ops[half * 6 + j];
            make_inputs(&c, &d);
            make_outputs(&c, &d, 0);
            make_outputs(&c, &d, 1);
            specials_in(&c, &d, which);
            free_data(&c, &d);
          }
}

/* ---- any combination ------------------------------------------------------------------------- */

static void random_batch(gemm_case *c, uint64_t *state) {
  int i;
  c->a_batch = (int)random_in(state, 0, 3);
  c->b_batch = (int)random_in(state, 0, 3);
  for (i = 0; i < 3; ++i) {
    c->batch[i] = random_in(state, 0, 30) ? random_in(state, 1, 3) : 0;
    if (random_in(state, 0, 2) == 0) c->a_ones |= 1 << i;
    if (random_in(state, 0, 2) == 0) c->b_ones |= 1 << i;
  }
}

static void random_results(gemm_case *c, uint64_t *state) {
  int i, real = (int)random_in(state, 0, 1);
  c->count = (int)random_in(state, 0, 4);
  if (random_in(state, 0, 20) == 0) c->count = 8;
  for (i = 0; i < (c->count ? c->count : 1); ++i) {
    do c->ops[i] = gemm_ops[random_in(state, 0, COUNT(gemm_ops) - 1)];
    while (!is_float(c->dtype) && is_real(c->ops[i]) != real);
    do c->outs[i] = all_dtypes[random_in(state, 0, 9)];
    while (!valid_output(c->ops[i], c->dtype, c->outs[i]));
  }
  if (c->count && random_in(state, 0, 2) == 0) {
    do c->c_dtype = all_dtypes[random_in(state, 0, 9)];
    while (is_float(c->c_dtype) != (is_float(c->dtype) || is_real(c->ops[0])));
  }
}

static void random_epilogue(gemm_case *c, uint64_t *state) {
  static const double alphas[] = {0, 1, -1, 0.5, 3.7, -1e-3, 1e300};
  if (!c->count) return;
  if (random_in(state, 0, 1)) c->map = (int)random_in(state, 0, 2);
  if (!is_float(c->dtype)) return;
  if (random_in(state, 0, 3) == 0) {
    c->form = GPURED_FORM_L2;
    return;
  }
  c->alpha = alphas[random_in(state, 0, COUNT(alphas) - 1)];
  c->bias = (int)random_in(state, 0, 3);
  if ((c->dtype == GPURED_F16 || c->dtype == GPURED_BF16) && random_in(state, 0, 1))
    c->bias_dtype = GPURED_F32;
}

static gemm_case random_case(gpured_backend backend, uint64_t seed, int64_t most) {
  uint64_t state = seed;
  gemm_case c = plain(backend, all_dtypes[random_in(&state, 0, 1) ? random_in(&state, 0, 9) : 0], 0,
                      0, 0, 0, 0);
  int64_t *extents[3];
  int i;
  extents[0] = &c.m;
  extents[1] = &c.n;
  extents[2] = &c.k;
  for (i = 0; i < 3; ++i) {
    int64_t top = random_in(&state, 0, 2) ? 20 : most;
    *extents[i] = random_in(&state, random_in(&state, 0, 30) ? 1 : 0, top);
  }
  c.seed = seed;
  c.axis = (int)random_in(&state, 0, 1);
  random_results(&c, &state);
  random_epilogue(&c, &state);
  if (random_in(&state, 0, 1)) random_batch(&c, &state);
  c.acc = random_in(&state, 0, 3) == 0 && valid_acc(c.dtype, GPURED_F64) ? GPURED_F64 : 0;
  c.threads = (int)random_in(&state, 0, 3);
  c.keep = (int)random_in(&state, 0, 1);
  c.kind = (int)random_in(&state, 0, OR_KINDS - 1);
  c.how_in = (layout)random_in(&state, 0, LAYOUT_ZERO);
  c.how_out = (layout)random_in(&state, 0, LAYOUT_RANDOM);
  return c;
}

static void test_random(gpured_backend backend) {
  uint64_t seed;
  for (seed = 1; seed <= 4000; ++seed) {
    gemm_case c = random_case(backend, seed, 50);
    check(&c);
  }
}

static void test_random_large(gpured_backend backend) {
  uint64_t seed;
  for (seed = 1; seed <= 60; ++seed) {
    gemm_case c = random_case(backend, 1000000 + seed, 300);
    check(&c);
  }
}

/* Every map, bias, form and alpha with every operation. */
static void test_epilogue(gpured_backend backend) {
  static const double alphas[] = {0, 1, -0.75};
  int i, op, map, bias, alpha, axis;
  for (i = 0; i < 4; ++i)
    for (op = 0; op < COUNT(gemm_ops); ++op)
      for (map = 0; map < 3; ++map)
        for (axis = 0; axis < 2; ++axis)
          for (bias = 0; bias < 5; ++bias)
            for (alpha = 0; alpha < COUNT(alphas); ++alpha) {
              gemm_case c = plain(backend, all_dtypes[i], gemm_ops[op], axis, axis ? 19 : 150,
                                  axis ? 150 : 19, 5);
              c.count = 1;
              c.map = map;
              c.bias = bias % 4;
              if (bias == 4)
                c.form = GPURED_FORM_L2;
              else
                c.alpha = alphas[alpha];
              c.c_dtype = bias == 1 ? c.dtype : 0;
              if (bias < 4 || alpha == 0) check(&c);
            }
}

/* ---- independence ---------------------------------------------------------------------------- */

/* Operands in every layout, the transposed ones among them, give the same bits. */
static void test_layouts(gpured_backend backend) {
  int op, how, axis, out;
  for (op = 0; op < COUNT(gemm_ops); ++op)
    for (axis = 0; axis < 2; ++axis)
      for (how = 0; how < LAYOUT_COUNT; ++how) {
        gemm_case c = plain(backend, GPURED_F32, gemm_ops[op], axis, 70, 45, 33);
        out = how < LAYOUT_ZERO ? how : 0;
        c.how_in = (layout)how;
        c.how_out = (layout)out;
        check(&c);
        c.dtype = GPURED_F16;
        c.how_in = LAYOUT_F;
        check(&c);
      }
}

static void test_threads(gpured_backend backend) {
  static const int threads[] = {1, 2, 3, 7, 16};
  static const int64_t sizes[][3] = {
      {300, 260, 300}, {3000, 40, 60}, {30, 4100, 40}, {5, 5, 60000}};
  int i, axis, half;
  for (i = 0; i < COUNT(sizes); ++i)
    for (axis = 0; axis < 2; ++axis)
      for (half = 0; half < 2; ++half) {
        gemm_case c = plain(backend, i % 2 ? GPURED_F64 : GPURED_F32, 0, axis, sizes[i][0],
                            sizes[i][1], sizes[i][2]);
        int j;
        c.count = half ? 5 : 4;
        for (j = 0; j < c.count; ++j) c.ops[j] = gemm_ops[2 + half * 4 + j];
        check_threads(&c, threads, COUNT(threads));
      }
}

/* The short road with many threads, and a batch of many small products. */
static void test_threads_more(gpured_backend backend) {
  static const int threads[] = {1, 2, 3, 7, 16};
  int axis;
  for (axis = 0; axis < 2; ++axis) {
    gemm_case c =
        plain(backend, GPURED_F32, GPURED_SUM, axis, axis ? 2000 : 3, axis ? 3 : 2000, 300);
    check_threads(&c, threads, COUNT(threads));
    c = plain(backend, GPURED_F32, GPURED_MEAN, axis, axis ? 4 : 20000, axis ? 20000 : 4, 20);
    check_threads(&c, threads, COUNT(threads));
    c = plain(backend, GPURED_F32, GPURED_SUMSQ, axis, 21, 19, 33);
    c.a_batch = c.b_batch = 2;
    c.batch[1] = 17;
    c.batch[2] = 13;
    check_threads(&c, threads, COUNT(threads));
    c.ops[0] = GPURED_SUM;
    check_threads(&c, threads, COUNT(threads));
  }
}

/* So many rows that thousands of blocks combine; and as many batch axes as a tensor can have. */
static void test_extremes(gpured_backend backend) {
  static const int64_t a_shape[8] = {2, 1, 3, 1, 2, 1, 9, 5}, b_shape[8] = {1, 2, 3, 2, 1, 2, 5, 4};
  static const int64_t out_shape[7] = {2, 2, 3, 2, 2, 2, 4};
  box a = box_filled(GPURED_F32, 8, a_shape, LAYOUT_RANDOM, OR_UNIFORM, 1);
  box b = box_filled(GPURED_F32, 8, b_shape, LAYOUT_RANDOM, OR_UNIFORM, 2);
  int op, axis;
  for (op = 0; op < COUNT(gemm_ops); ++op) {
    int out = usual_output(gemm_ops[op], GPURED_F32);
    box got = box_output(out, 7, out_shape, LAYOUT_GAP, 0);
    box want = box_output(out, 7, out_shape, LAYOUT_C, 0);
    gpured_options o = options_for(backend, 0, 0, 2);
    gpured_result r;
    gpured_gemm g = gpured_default_gemm();
    gpured_status status = gpured_gemm_reduce((gpured_op)gemm_ops[op], &a.t, &b.t, 0, &got.t, &o);
    CHECK(status == GPURED_OK, "six batch axes, %s: status %d", op_name(gemm_ops[op]), (int)status);
    r.op = gemm_ops[op];
    r.out = want.t;
    g.a = &a.t;
    g.b = &b.t;
    g.count = 1;
    g.results = &r;
    oracle_gemm(&g, 0);
    expect_same(&got, &want.t, text("six batch axes, %s", op_name(gemm_ops[op])));
    box_free(&got);
    box_free(&want);
  }
  box_free(&a);
  box_free(&b);
  for (axis = 0; axis < 2; ++axis) {
    gemm_case c =
        plain(backend, GPURED_F32, GPURED_SUMSQ, axis, axis ? 3 : 530001, axis ? 530001 : 3, 2);
    c.count = 3;
    c.ops[1] = GPURED_ARGMAX;
    c.ops[2] = GPURED_LOGSUMEXP;
    check(&c);
  }
}

/* Several results of one pass have the bits of the same results one by one. */
static void test_several(gpured_backend backend) {
  int i, axis, dtype, j;
  for (dtype = 0; dtype < 4; ++dtype)
    for (axis = 0; axis < 2; ++axis)
      for (i = 0; i < COUNT(gemm_ops); ++i) {
        gemm_case c = plain(backend, all_dtypes[dtype], 0, axis, 150, 140, 20);
        gemm_data d;
        gpured_status status;
        memset(&d, 0, sizeof d);
        c.count = 8;
        for (j = 0; j < c.count; ++j) c.ops[j] = gemm_ops[(i + j) % COUNT(gemm_ops)];
        make_inputs(&c, &d);
        make_outputs(&c, &d, 0);
        make_outputs(&c, &d, 1);
        status = run(&c, &d);
        CHECK(status == GPURED_OK, "%s: status %d", case_text(&c), (int)status);
        for (j = 0; j < c.count; ++j) {
          gpured_options o = options_for(backend, 0, 0, 0);
          status =
              gpured_gemm_reduce((gpured_op)c.ops[j], &d.a.t, &d.b.t, axis, &d.outs[1][j].t, &o);
          CHECK(status == GPURED_OK, "%s: alone: status %d", op_name(c.ops[j]), (int)status);
        }
        compare(&c, &d);
        free_data(&c, &d);
      }
}

/* An item, a row and a column have alone the bits that they have among others. */
static void part_alone(const gemm_case *c, const gpured_tensor *a, const gpured_tensor *b,
                       const gpured_tensor *want) {
  gpured_options o = options_for(c->backend, 0, 0, 0);
  box got = box_output(want->dtype, want->ndim, want->shape, LAYOUT_C, 0);
  gpured_status status = gpured_gemm_reduce((gpured_op)c->ops[0], a, b, c->axis, &got.t, &o);
  CHECK(status == GPURED_OK, "%s: status %d", case_text(c), (int)status);
  if (status == GPURED_OK) expect_same(&got, want, text("alone, %s", case_text(c)));
  box_free(&got);
}

static void test_batch(gpured_backend backend) {
  int op, axis, i;
  for (op = 0; op < COUNT(gemm_ops); ++op)
    for (axis = 0; axis < 2; ++axis) {
      gemm_case c = plain(backend, GPURED_F32, gemm_ops[op], axis, 61, 59, 40);
      gemm_data d;
      gpured_status status;
      memset(&d, 0, sizeof d);
      c.a_batch = c.b_batch = 1;
      c.batch[2] = 5;
      make_inputs(&c, &d);
      make_outputs(&c, &d, 0);
      make_outputs(&c, &d, 1);
      status = run(&c, &d);
      CHECK(status == GPURED_OK, "%s: status %d", case_text(&c), (int)status);
      for (i = 0; i < 5; ++i) {
        gpured_tensor a = slice(&d.a.t, 0, i, 1), b = slice(&d.b.t, 0, i, 1),
                      w = slice(&d.outs[0][0].t, 0, i, 1);
        part_alone(&c, &a, &b, &w);
        w = slice(&w, 1, 7 * i, 1); /* one row of a or one column of b */
        if (axis)
          a = slice(&a, 1, 7 * i, 1);
        else
          b = slice(&b, 2, 7 * i, 1);
        part_alone(&c, &a, &b, &w);
      }
      free_data(&c, &d);
    }
}

/* Runs a call with a workspace of these bytes (0: what it asks for), which lies before bytes that
 * must stay as they are. Answers what it asked for. */
static size_t within_workspace(const gemm_case *c, size_t bytes) {
  const size_t behind = (size_t)8 << 20;
  gpured_options o = options_for(c->backend, 0, 0, 1);
  gpured_gemm g, want;
  gemm_data d;
  unsigned char *raw;
  size_t asked = 0, i, wrong = 0;
  memset(&d, 0, sizeof d);
  make_inputs(c, &d);
  make_outputs(c, &d, 0);
  make_outputs(c, &d, 1);
  g = describe_gemm(c, &d, 0);
  want = describe_gemm(c, &d, 1);
  CHECK(gpured_gemm_reduce_ex_workspace(&g, &o, &asked) == GPURED_OK, "%s", case_text(c));
  o.workspace_bytes = bytes ? bytes : asked;
  raw = (unsigned char *)malloc(o.workspace_bytes + behind + 64);
  CHECK(raw != NULL, "out of memory");
  if (raw) {
    unsigned char *space = raw + (64 - (uintptr_t)raw % 64) % 64;
    memset(space + o.workspace_bytes, 0xcd, behind);
    if (o.workspace_bytes) o.workspace = space;
    CHECK(gpured_gemm_reduce_ex(&g, &o) == GPURED_OK, "%s", case_text(c));
    oracle_gemm(&want, 0);
    compare(c, &d);
    for (i = 0; i < behind; ++i) wrong += space[o.workspace_bytes + i] != 0xcd;
    CHECK(wrong == 0, "%s: %d bytes behind the workspace written", case_text(c), (int)wrong);
  }
  free(raw);
  free_data(c, &d);
  return asked;
}

/* A workspace far larger than the call asks for: the reductions inside the call may use the rest of
 * it, but not what the call itself has put there. Wide matrices want the most. And one of just what
 * a call asks for that is so long that a reduction inside would take as much again. */
static void test_large_workspace(gpured_backend backend) {
  int axis, form;
  gemm_case c;
  for (form = 0; form < 2; ++form)
    for (axis = 0; axis < 2; ++axis) {
      c = plain(backend, GPURED_F32, form ? GPURED_MIN : GPURED_SUM, axis, 5, 3000, 40);
      if (form) c.form = GPURED_FORM_L2;
      c.count = 1;
      within_workspace(&c, (size_t)16 << 20);
    }
  c = plain(backend, GPURED_F32, GPURED_MIN, 0, 2, 400000, 17);
  c.form = GPURED_FORM_L2;
  c.count = 1;
  CHECK(within_workspace(&c, 0) > (size_t)3 << 19, "%s wants little memory: choose a longer one",
        case_text(&c));
}

const test_case gemm_tests[] = {{"gemm_example", test_example, 0},
                                {"gemm_nearest", test_nearest, 0},
                                {"gemm_types", test_types, 0},
                                {"gemm_empty", test_empty, 0},
                                {"gemm_integers_anywhere", test_integers_anywhere, 0},
                                {"gemm_integer_sums", test_integer_sums, 0},
                                {"gemm_thin", test_thin, 0},
                                {"gemm_bytes", test_bytes, 0},
                                {"gemm_bytes_extrema", test_bytes_extrema, 0},
                                {"gemm_bytes_extreme", test_bytes_extreme, 0},
                                {"gemm_sizes", test_sizes, 0},
                                {"gemm_tiles", test_tiles, 0},
                                {"gemm_sizes_together", test_sizes_together, 0},
                                {"gemm_sizes_long", test_sizes_long, 0},
                                {"gemm_many_panels", test_many_panels, 0},
                                {"gemm_sizes_short_road", test_sizes_short_road, 0},
                                {"gemm_specials", test_specials, 0},
                                {"gemm_random", test_random, 0},
                                {"gemm_random_large", test_random_large, 0},
                                {"gemm_epilogue", test_epilogue, 0},
                                {"gemm_layouts", test_layouts, 0},
                                {"gemm_threads", test_threads, 0},
                                {"gemm_threads_more", test_threads_more, 0},
                                {"gemm_extremes", test_extremes, 0},
                                {"gemm_several", test_several, 0},
                                {"gemm_batch", test_batch, 0},
                                {"gemm_large_workspace", test_large_workspace, T_HOST},
                                {NULL, NULL, 0}};
