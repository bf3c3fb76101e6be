/*
 * The rest of the API: one-liners, texts and numbers, other translation units, shapes beyond
 * 2^31. TEST_CXX: test_cxx.cpp is linked too.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../gpured.h" /* a second time does nothing */
#include "other_tus.h"
#include "util.h"

static int same_float(float a, float b) { return memcmp(&a, &b, sizeof a) == 0; }
static int same_double(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

/* ---- one-liners ------------------------------------------------------------------------------ */

static float oracle_f32(int op, const float *x, int64_t n) {
  float y = 0;
  gpured_tensor in = gpured_vector(x, GPURED_F32, n), out = gpured_vector(&y, GPURED_F32, 1);
  oracle_reduce((gpured_op)op, &in, 1, &out, 0, 0);
  return y;
}

static double oracle_f64(int op, const double *x, int64_t n) {
  double y = 0;
  gpured_tensor in = gpured_vector(x, GPURED_F64, n), out = gpured_vector(&y, GPURED_F64, 1);
  oracle_reduce((gpured_op)op, &in, 1, &out, 0, 0);
  return y;
}

static int64_t oracle_index(int op, const void *x, int dtype, int64_t n) {
  int64_t y = -1;
  gpured_tensor in = gpured_vector(x, (gpured_dtype)dtype, n),
                out = gpured_vector(&y, GPURED_I64, 1);
  if (n > 0) oracle_reduce((gpured_op)op, &in, 1, &out, 0, 0);
  return y;
}

enum { LONGEST = 3000 };

static void test_one_liners(gpured_backend backend) {
  static const int64_t sizes[] = {0, 1, 2, 15, 16, 17, 255, 256, 257, 1000, LONGEST};
  static float x[LONGEST];
  static double d[LONGEST];
  gpured_tensor tx = gpured_vector(x, GPURED_F32, LONGEST),
                td = gpured_vector(d, GPURED_F64, LONGEST);
  int i;
  (void)backend;
  oracle_fill(&tx, OR_UNIFORM, 1);
  oracle_fill(&td, OR_UNIFORM, 2);
  for (i = 0; i < COUNT(sizes); ++i) {
    int64_t k = sizes[i];
    size_t n = (size_t)k;
    CHECK(same_float(gpured_sum_f32(x, n), oracle_f32(GPURED_SUM, x, k)), "sum_f32 of %d", (int)k);
    CHECK(same_float(gpured_mean_f32(x, n), oracle_f32(GPURED_MEAN, x, k)), "mean_f32 of %d",
          (int)k);
    CHECK(same_float(gpured_min_f32(x, n), oracle_f32(GPURED_MIN, x, k)), "min_f32 of %d", (int)k);
    CHECK(same_float(gpured_max_f32(x, n), oracle_f32(GPURED_MAX, x, k)), "max_f32 of %d", (int)k);
    CHECK(same_double(gpured_sum_f64(d, n), oracle_f64(GPURED_SUM, d, k)), "sum_f64 of %d", (int)k);
    CHECK(same_double(gpured_mean_f64(d, n), oracle_f64(GPURED_MEAN, d, k)), "mean_f64 of %d",
          (int)k);
    CHECK(same_double(gpured_min_f64(d, n), oracle_f64(GPURED_MIN, d, k)), "min_f64 of %d", (int)k);
    CHECK(same_double(gpured_max_f64(d, n), oracle_f64(GPURED_MAX, d, k)), "max_f64 of %d", (int)k);
    CHECK(gpured_argmin_f32(x, n) == oracle_index(GPURED_ARGMIN, x, GPURED_F32, k),
          "argmin_f32 of %d", (int)k);
    CHECK(gpured_argmax_f32(x, n) == oracle_index(GPURED_ARGMAX, x, GPURED_F32, k),
          "argmax_f32 of %d", (int)k);
    CHECK(gpured_argmin_f64(d, n) == oracle_index(GPURED_ARGMIN, d, GPURED_F64, k),
          "argmin_f64 of %d", (int)k);
    CHECK(gpured_argmax_f64(d, n) == oracle_index(GPURED_ARGMAX, d, GPURED_F64, k),
          "argmax_f64 of %d", (int)k);
  }
}

/* n = 0 with NULL is nothing; NULL with n > 0 is NaN or -1. */
static void test_one_liners_null(gpured_backend backend) {
  (void)backend;
  CHECK(same_float(gpured_sum_f32(NULL, 0), 0.0f), "sum_f32 of nothing");
  CHECK(isnan(gpured_mean_f32(NULL, 0)), "mean_f32 of nothing");
  CHECK(gpured_min_f32(NULL, 0) == HUGE_VALF && gpured_max_f32(NULL, 0) == -HUGE_VALF,
        "min, max of nothing");
  CHECK(gpured_argmin_f32(NULL, 0) == -1 && gpured_argmax_f64(NULL, 0) == -1,
        "argmin, argmax of nothing");
  CHECK(isnan(gpured_sum_f32(NULL, 3)) && isnan(gpured_mean_f32(NULL, 3)), "sum, mean of NULL");
  CHECK(isnan(gpured_min_f32(NULL, 3)) && isnan(gpured_max_f32(NULL, 3)), "min, max of NULL");
  CHECK(isnan(gpured_sum_f64(NULL, 3)) && isnan(gpured_mean_f64(NULL, 3)),
        "sum_f64, mean_f64 of NULL");
  CHECK(isnan(gpured_min_f64(NULL, 3)) && isnan(gpured_max_f64(NULL, 3)),
        "min_f64, max_f64 of NULL");
  CHECK(gpured_argmin_f32(NULL, 3) == -1 && gpured_argmax_f32(NULL, 3) == -1, "f32 index in NULL");
  CHECK(gpured_argmin_f64(NULL, 3) == -1 && gpured_argmax_f64(NULL, 3) == -1, "f64 index in NULL");
}

static void rows_and_columns_f32(size_t rows, size_t cols) {
  float a[40 * 70] = {0}, got[70] = {0}, want[70] = {0}, y[40 * 70], z[40 * 70];
  gpured_tensor in = gpured_matrix(a, GPURED_F32, (int64_t)rows, (int64_t)cols), out;
  gpured_tensor line = gpured_vector(a, GPURED_F32, (int64_t)(rows * cols)), scanned = line;
  oracle_fill(&in, OR_UNIFORM, 3);
  out = gpured_vector(want, GPURED_F32, (int64_t)rows);
  oracle_reduce(GPURED_SUM, &in, 2, &out, 0, 0);
  CHECK(gpured_sum_rows_f32(a, rows, cols, got) == GPURED_OK, "sum_rows_f32");
  CHECK(memcmp(got, want, rows * sizeof *got) == 0, "sum_rows_f32 of %dx%d", (int)rows, (int)cols);
  out = gpured_vector(want, GPURED_F32, (int64_t)cols);
  oracle_reduce(GPURED_SUM, &in, 1, &out, 0, 0);
  CHECK(gpured_sum_cols_f32(a, rows, cols, got) == GPURED_OK, "sum_cols_f32");
  CHECK(memcmp(got, want, cols * sizeof *got) == 0, "sum_cols_f32 of %dx%d", (int)rows, (int)cols);
  scanned.data = z;
  oracle_scan(GPURED_SUM, &line, 0, 0, &scanned, 0);
  CHECK(gpured_cumsum_f32(a, y, rows * cols) == GPURED_OK, "cumsum_f32");
  CHECK(memcmp(y, z, rows * cols * sizeof *y) == 0, "cumsum_f32 of %d", (int)(rows * cols));
  CHECK(gpured_cumsum_f32(a, a, rows * cols) == GPURED_OK, "cumsum_f32 in place");
  CHECK(memcmp(a, z, rows * cols * sizeof *y) == 0, "cumsum_f32 in place of %d",
        (int)(rows * cols));
}

static void rows_and_columns_f64(size_t rows, size_t cols) {
  double a[40 * 70] = {0}, got[70] = {0}, want[70] = {0}, y[40 * 70], z[40 * 70];
  gpured_tensor in = gpured_matrix(a, GPURED_F64, (int64_t)rows, (int64_t)cols), out;
  gpured_tensor line = gpured_vector(a, GPURED_F64, (int64_t)(rows * cols)), scanned = line;
  oracle_fill(&in, OR_UNIFORM, 3);
  out = gpured_vector(want, GPURED_F64, (int64_t)rows);
  oracle_reduce(GPURED_SUM, &in, 2, &out, 0, 0);
  CHECK(gpured_sum_rows_f64(a, rows, cols, got) == GPURED_OK, "sum_rows_f64");
  CHECK(memcmp(got, want, rows * sizeof *got) == 0, "sum_rows_f64 of %dx%d", (int)rows, (int)cols);
  out = gpured_vector(want, GPURED_F64, (int64_t)cols);
  oracle_reduce(GPURED_SUM, &in, 1, &out, 0, 0);
  CHECK(gpured_sum_cols_f64(a, rows, cols, got) == GPURED_OK, "sum_cols_f64");
  CHECK(memcmp(got, want, cols * sizeof *got) == 0, "sum_cols_f64 of %dx%d", (int)rows, (int)cols);
  scanned.data = z;
  oracle_scan(GPURED_SUM, &line, 0, 0, &scanned, 0);
  CHECK(gpured_cumsum_f64(a, y, rows * cols) == GPURED_OK, "cumsum_f64");
  CHECK(memcmp(y, z, rows * cols * sizeof *y) == 0, "cumsum_f64 of %d", (int)(rows * cols));
  CHECK(gpured_cumsum_f64(a, a, rows * cols) == GPURED_OK, "cumsum_f64 in place");
  CHECK(memcmp(a, z, rows * cols * sizeof *y) == 0, "cumsum_f64 in place of %d",
        (int)(rows * cols));
}

static void test_rows_and_columns(gpured_backend backend) {
  static const size_t sizes[][2] = {{1, 1}, {4, 6}, {40, 70}, {1, 70}, {40, 1}, {17, 33}};
  float x = 0, y = 0;
  int i;
  (void)backend;
  for (i = 0; i < COUNT(sizes); ++i) {
    rows_and_columns_f32(sizes[i][0], sizes[i][1]);
    rows_and_columns_f64(sizes[i][0], sizes[i][1]);
  }
  CHECK(gpured_sum_rows_f32(NULL, 2, 2, &y) == GPURED_ERR_ARG, "sum_rows_f32 of NULL");
  CHECK(gpured_sum_cols_f32(&x, 1, 1, NULL) == GPURED_ERR_ARG, "sum_cols_f32 to NULL");
  CHECK(gpured_cumsum_f32(NULL, &y, 1) == GPURED_ERR_ARG, "cumsum_f32 of NULL");
  CHECK(gpured_cumsum_f64(NULL, NULL, 0) == GPURED_OK, "cumsum_f64 of nothing");
  y = 1;
  CHECK(gpured_sum_rows_f32(NULL, 1, 0, &y) == GPURED_OK && same_float(y, 0),
        "the sum of an empty row");
  CHECK(gpured_sum_rows_f32(&x, SIZE_MAX, 1, &y) == GPURED_ERR_OVERFLOW, "too many rows");
  CHECK(gpured_sum_cols_f32(&x, 1, SIZE_MAX, &y) == GPURED_ERR_OVERFLOW, "too many columns");
  CHECK(gpured_cumsum_f32(&x, &y, SIZE_MAX) == GPURED_ERR_OVERFLOW, "too long a line");
  CHECK(isnan(gpured_sum_f32(&x, (size_t)-1)), "a length beyond int64_t");
}

/* ---- texts and numbers ----------------------------------------------------------------------- */

static void test_information(gpured_backend backend) {
  static const size_t sizes[11] = {0, 4, 8, 2, 2, 1, 1, 4, 4, 8, 8};
  static const char *const levels[] = {"scalar", "sse2", "avx2", "avx512", "neon"};
  int i, j, found = 0;
  (void)backend;
  CHECK(gpured_version() == GPURED_VERSION, "version %u, header %u", gpured_version(),
        (unsigned)GPURED_VERSION);
  CHECK(GPURED_ORDER == 1, "order %d", GPURED_ORDER);
  for (i = -1; i <= 12; ++i)
    CHECK(gpured_dtype_size((gpured_dtype)i) == (i >= 0 && i <= 10 ? sizes[i] : 0),
          "size of dtype %d", i);
  for (i = 0; i <= 9; ++i)
    for (j = 0; j < i; ++j)
      CHECK(strcmp(gpured_status_string((gpured_status)i),
                   gpured_status_string((gpured_status)j)) != 0,
            "statuses %d and %d have one text", i, j);
  for (i = -2; i <= 12; ++i) {
    const char *s = gpured_status_string((gpured_status)i);
    CHECK(s && s[0], "status %d has no text", i);
  }
  for (i = 0; i < COUNT(levels); ++i) found |= strcmp(gpured_cpu_level(), levels[i]) == 0;
  CHECK(found, "the processor's level is \"%s\"", gpured_cpu_level());
  CHECK(gpured_selftest() == GPURED_OK, "self-test: %s", gpured_status_string(gpured_selftest()));
}

/* The values that are pinned: bindings in other languages hold them as numbers. */
static void test_pinned(gpured_backend backend) {
  (void)backend;
  CHECK(GPURED_OK == 0 && GPURED_ERR_ARG == 1 && GPURED_ERR_SHAPE == 2 &&
            GPURED_ERR_UNSUPPORTED == 3 && GPURED_ERR_OVERFLOW == 4 && GPURED_ERR_ALIAS == 5 &&
            GPURED_ERR_WORKSPACE == 6 && GPURED_ERR_ALLOC == 7 && GPURED_ERR_NO_BACKEND == 8 &&
            GPURED_ERR_DEVICE == 9,
        "a status has moved");
  CHECK(GPURED_F32 == 1 && GPURED_F64 == 2 && GPURED_F16 == 3 && GPURED_BF16 == 4 &&
            GPURED_I8 == 5 && GPURED_U8 == 6 && GPURED_I32 == 7 && GPURED_U32 == 8 &&
            GPURED_I64 == 9 && GPURED_U64 == 10,
        "a dtype has moved");
  CHECK(GPURED_SUM == 1 && GPURED_MEAN == 5 && GPURED_ARGMIN == 10 && GPURED_LOGSUMEXP == 12 &&
            GPURED_COUNT_NONZERO == 17 && GPURED_CPU == 1 && GPURED_CUDA_DEVICE == 2,
        "an operation or a device has moved");
}

/* The constructors: what they say is what a user would write by hand. */
static void test_constructors(gpured_backend backend) {
  static const int64_t shape[3] = {2, 3, 4}, strides[3] = {-1, 0, 7};
  static const int64_t huge[3] = {(int64_t)1 << 40, (int64_t)1 << 40, (int64_t)1 << 40};
  float x[24] = {0};
  gpured_tensor t = gpured_vector(x, GPURED_F32, 24);
  (void)backend;
  CHECK(t.data == x && t.dtype == GPURED_F32 && t.device == GPURED_CPU && t.device_id == 0 &&
            t.ndim == 1 && t.shape[0] == 24 && t.strides[0] == 1,
        "vector: %s", describe(&t));
  t = gpured_matrix(x, GPURED_F32, 4, 6);
  CHECK(t.ndim == 2 && t.shape[0] == 4 && t.shape[1] == 6 && t.strides[0] == 6 && t.strides[1] == 1,
        "matrix: %s", describe(&t));
  t = gpured_array(x, GPURED_F32, 3, shape, NULL);
  CHECK(t.ndim == 3 && t.strides[0] == 12 && t.strides[1] == 4 && t.strides[2] == 1, "array: %s",
        describe(&t));
  t = gpured_array(x, GPURED_F32, 3, shape, strides);
  CHECK(t.strides[0] == -1 && t.strides[1] == 0 && t.strides[2] == 7, "array with strides: %s",
        describe(&t));
  t = gpured_array(x, GPURED_F32, 3, huge, NULL);
  CHECK(t.strides[1] == huge[2] && t.strides[0] == INT64_MAX, "a stride beyond int64_t: %s",
        describe(&t));
  t = gpured_array(x, GPURED_F32, 0, NULL, NULL);
  CHECK(t.ndim == 0, "array without axes: %s", describe(&t));
}

/* ---- other translation units ----------------------------------------------------------------- */

static void test_private_copy(gpured_backend backend) {
  static const int64_t shape[2] = {150, 300}, b_shape[2] = {300, 20};
  int64_t n = 150, m = 20;
  box in = box_filled(GPURED_F32, 2, shape, LAYOUT_C, OR_UNIFORM, 1);
  box b = box_filled(GPURED_F32, 2, b_shape, LAYOUT_C, OR_UNIFORM, 2);
  box here = box_output(GPURED_F32, 1, &n, LAYOUT_C, 0),
      there = box_output(GPURED_F32, 1, &n, LAYOUT_C, 0);
  (void)backend;
  CHECK(tu2_version() == gpured_version(), "the private copy has another version");
  CHECK(same_float(tu2_sum((const float *)in.t.data, 45000),
                   gpured_sum_f32((const float *)in.t.data, 45000)),
        "sums differ between the private copy and the linked library");
  CHECK(gpured_reduce(GPURED_LOGSUMEXP, &in.t, 2, &here.t, NULL) == GPURED_OK, "logsumexp here");
  CHECK(tu2_logsumexp(&in.t, 2, &there.t) == GPURED_OK, "logsumexp there");
  expect_same(&there, &here.t, "logsumexp in the private copy");
  here.t.shape[0] = there.t.shape[0] = m;
  CHECK(gpured_gemm_reduce(GPURED_SUMSQ, &in.t, &b.t, 0, &here.t, NULL) == GPURED_OK, "gemm here");
  CHECK(tu2_gemm(&in.t, &b.t, &there.t) == GPURED_OK, "gemm there");
  CHECK(first_difference(&there.t, &here.t) < 0, "gemm in the private copy");
  box_free(&in);
  box_free(&b);
  box_free(&here);
  box_free(&there);
}

#ifdef TEST_CXX
static void test_cxx(gpured_backend backend) {
  int failed = cxx_calls();
  (void)backend;
  CHECK(failed == 0, "call %d from C++", failed);
}
#endif

/* ---- beyond 2^31 ----------------------------------------------------------------------------- */

/* 2^32 + 5 elements that are one, through a stride of 0: what a 32-bit count would get wrong. */
static gpured_tensor repeated(const void *x, int dtype) {
  int64_t n = ((int64_t)1 << 32) + 5, stride = 0;
  return gpured_array(x, (gpured_dtype)dtype, 1, &n, &stride);
}

static void test_huge_integers(gpured_backend backend) {
  int8_t one = 1;
  int64_t y = 0;
  gpured_tensor in = repeated(&one, GPURED_I8), out = gpured_vector(&y, GPURED_I64, 1);
  gpured_options o = options_for(backend, 0, 0, 0);
  CHECK(gpured_reduce(GPURED_SUM, &in, 1, &out, &o) == GPURED_OK, "sum");
  CHECK(y == in.shape[0], "the sum of 2^32 + 5 ones is %lld", (long long)y);
  y = 0;
  CHECK(gpured_reduce(GPURED_COUNT_NONZERO, &in, 1, &out, &o) == GPURED_OK, "count");
  CHECK(y == in.shape[0], "2^32 + 5 ones are %lld", (long long)y);
  y = 1;
  CHECK(gpured_reduce(GPURED_ARGMAX, &in, 1, &out, &o) == GPURED_OK, "argmax");
  CHECK(y == 0, "the first of equals is %lld", (long long)y);
}

/* Every element a power of two times the count's: the sum in f64 is exact in any order; f32's mean
 * is near one. */
static void test_huge_floats(gpured_backend backend) {
  float one = 1, mean = 0;
  double sum = 0;
  gpured_tensor in = repeated(&one, GPURED_F32), out = gpured_vector(&sum, GPURED_F64, 1);
  gpured_options o = options_for(backend, GPURED_F64, 0, 0);
  CHECK(gpured_reduce(GPURED_SUM, &in, 1, &out, &o) == GPURED_OK, "sum");
  CHECK(same_double(sum, (double)in.shape[0]), "the sum of 2^32 + 5 ones is %.17g", sum);
  out = gpured_vector(&mean, GPURED_F32, 1);
  o.acc_dtype = 0;
  CHECK(gpured_reduce(GPURED_MEAN, &in, 1, &out, &o) == GPURED_OK, "mean");
  CHECK(fabsf(mean - 1) < 1e-5f, "the mean of ones is %.9g", (double)mean);
}

/* Offsets beyond 2^31 elements in real memory (2 GiB of one byte each are too much here): a large
 * stride over little data. */
static void test_far_apart(gpured_backend backend) {
  static int8_t raw[64];
  int64_t shape[2] = {1, 3}, strides[2] = {((int64_t)1 << 33) + 1, 20}, y = 0;
  gpured_tensor in = gpured_array(raw, GPURED_I8, 2, shape, strides),
                out = gpured_vector(&y, GPURED_I64, 1);
  gpured_options o = options_for(backend, 0, 0, 0);
  raw[0] = 1;
  raw[20] = 2;
  raw[40] = 4;
  CHECK(gpured_reduce(GPURED_SUM, &in, 3, &out, &o) == GPURED_OK, "sum");
  CHECK(y == 7, "an axis of extent 1 with a huge stride: the sum is %lld", (long long)y);
}

static void *counted_alloc(void *user, size_t bytes, void *stream) {
  (void)bytes, (void)stream;
  ++*(int *)user;
  return NULL;
}

static void counted_free(void *user, void *ptr, size_t bytes, void *stream) {
  (void)ptr, (void)bytes, (void)stream;
  *(int *)user = -1000;
}

/* Wide matrices are reduced down their columns with memory of their own, and without it where there
 * is none, to the same bits. */
static void test_columns_without_memory(gpured_backend backend) {
  const int64_t shape[2] = {700, 6000};
  box x = box_filled(GPURED_F32, 2, shape, LAYOUT_C, OR_UNIFORM, 7);
  box with = box_output(GPURED_F32, 1, shape + 1, LAYOUT_C, 1),
      without = box_output(GPURED_F32, 1, shape + 1, LAYOUT_C, 2);
  gpured_options o = gpured_default_options();
  int asked = 0;
  (void)backend;
  for (o.threads = 1; o.threads <= 3; ++o.threads) {
    o.alloc = NULL, o.dealloc = NULL;
    CHECK(gpured_reduce(GPURED_SUM, &x.t, 1, &with.t, &o) == GPURED_OK, "%d threads", o.threads);
    o.alloc = counted_alloc, o.dealloc = counted_free, o.user = &asked;
    CHECK(gpured_reduce(GPURED_SUM, &x.t, 1, &without.t, &o) == GPURED_OK, "no memory, %d threads",
          o.threads);
    CHECK(first_difference(&with.t, &without.t) < 0, "%d threads: other bits without memory",
          o.threads);
  }
  CHECK(asked == 3, "memory was asked for %d times", asked);
  box_free(&x);
  box_free(&with);
  box_free(&without);
}

const test_case api_tests[] = {{"api_one_liners", test_one_liners, T_HOST},
                               {"api_one_liners_null", test_one_liners_null, T_HOST},
                               {"api_rows_and_columns", test_rows_and_columns, T_HOST},
                               {"api_information", test_information, T_HOST},
                               {"api_pinned", test_pinned, T_HOST},
                               {"api_constructors", test_constructors, T_HOST},
                               {"api_private_copy", test_private_copy, T_HOST},
#ifdef TEST_CXX
                               {"api_cxx", test_cxx, T_HOST},
#endif
                               {"api_columns_without_memory", test_columns_without_memory, T_HOST},
                               {"api_far_apart", test_far_apart, 0},
                               {"api_huge_integers", test_huge_integers, T_SLOW},
                               {"api_huge_floats", test_huge_floats, T_SLOW},
                               {NULL, NULL, 0}};
