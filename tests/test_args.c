/*
 * The argument matrix: a call with one fault gives the documented status and leaves every byte as
 * it was.
 *
 * All tensors of a call lie in one arena, which is compared as a whole. CASE starts from a call
 * that is right, spoils it by a statement, and quotes that statement when something else comes of
 * it than expected.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

enum { REDUCE, SCAN, GEMM, EX, KINDS };
enum {
  ARENA = 16384,
  IN = 0,
  OUT = 2048,
  SECOND = 4096,
  BIAS_M = 6144,
  BIAS_N = 6400,
  C = 8192,
  OUT2 = 10240
};

static unsigned char *arena(void) {
  static unsigned char raw[ARENA + 64], *aligned;
  if (!aligned) aligned = raw + (64 - (uintptr_t)raw % 64) % 64;
  return aligned;
}

static void fill_arena(void) {
  int i;
  for (i = 0; i < ARENA; ++i) arena()[i] = (unsigned char)(i % 61); /* small positive floats */
}

/* A call of any of the functions. The pointers are what is passed, so that a case may clear them.
 */
typedef struct args {
  int kind, op, axis;
  uint32_t axes;
  unsigned flags;
  gpured_tensor in, b, out, bias_m, bias_n, c;
  gpured_result results[GPURED_MAX_RESULTS + 1];
  gpured_gemm gemm;
  gpured_options options;
  const gpured_tensor *p_in, *p_b, *p_out;
  const gpured_gemm *p_gemm;
} args;

static gpured_tensor view(size_t offset, int dtype, int ndim, int64_t e0, int64_t e1, int64_t e2) {
  int64_t shape[3];
  shape[0] = e0;
  shape[1] = e1;
  shape[2] = e2;
  return gpured_array(arena() + offset, (gpured_dtype)dtype, ndim, shape, NULL);
}

/* The one result of a call, wherever it is kept. */
static gpured_tensor *result(args *x) { return x->kind == EX ? &x->results[0].out : &x->out; }

static void set_gemm(args *x) {
  x->in = view(IN, GPURED_F32, 3, 2, 4, 6);
  x->b = view(SECOND, GPURED_F32, 3, 2, 6, 5);
  x->out = view(OUT, GPURED_F32, 2, 2, 5, 0);
  if (x->kind != EX) return;
  x->bias_m = view(BIAS_M, GPURED_F32, 1, 4, 0, 0);
  x->bias_n = view(BIAS_N, GPURED_F32, 2, 2, 5, 0);
  x->c = view(C, GPURED_F32, 3, 2, 4, 5);
  x->results[0].op = GPURED_SUM;
  x->results[0].out = x->out;
  x->results[1].op = GPURED_ARGMAX;
  x->results[1].out = view(OUT2, GPURED_I64, 2, 2, 5, 0);
  x->gemm = gpured_default_gemm();
  x->gemm.a = &x->in;
  x->gemm.b = &x->b;
  x->gemm.bias_m = &x->bias_m;
  x->gemm.bias_n = &x->bias_n;
  x->gemm.c = &x->c;
  x->gemm.count = 2;
  x->gemm.results = x->results;
}

static void set_up(args *x, int kind, gpured_backend backend) {
  memset(x, 0, sizeof *x);
  x->kind = kind;
  x->op = GPURED_SUM;
  x->options = options_for(backend, 0, 0, 0);
  if (kind == REDUCE || kind == SCAN) {
    x->in = view(IN, GPURED_F32, 3, 4, 6, 5);
    x->axes = 2;
    x->axis = 1;
    x->out = kind == SCAN ? view(OUT, GPURED_F32, 3, 4, 6, 5) : view(OUT, GPURED_F32, 2, 4, 5, 0);
  } else {
    set_gemm(x);
  }
  x->p_in = &x->in;
  x->p_b = &x->b;
  x->p_out = &x->out;
  x->p_gemm = &x->gemm;
}

static gpured_status call(const args *x) {
  gpured_op op = (gpured_op)x->op;
  switch (x->kind) {
    case REDUCE:
      return gpured_reduce(op, x->p_in, x->axes, x->p_out, &x->options);
    case SCAN:
      return gpured_scan(op, x->p_in, x->axis, x->flags, x->p_out, &x->options);
    case GEMM:
      return gpured_gemm_reduce(op, x->p_in, x->p_b, x->axis, x->p_out, &x->options);
    default:
      return gpured_gemm_reduce_ex(x->p_gemm, &x->options);
  }
}

static gpured_status query(const args *x, size_t *bytes) {
  gpured_op op = (gpured_op)x->op;
  const gpured_options *o = &x->options;
  switch (x->kind) {
    case REDUCE:
      return gpured_reduce_workspace(op, x->p_in, x->axes, x->p_out, o, bytes);
    case SCAN:
      return gpured_scan_workspace(op, x->p_in, x->axis, x->flags, x->p_out, o, bytes);
    case GEMM:
      return gpured_gemm_reduce_workspace(op, x->p_in, x->p_b, x->axis, x->p_out, o, bytes);
    default:
      return gpured_gemm_reduce_ex_workspace(x->p_gemm, o, bytes);
  }
}

/* What the workspace query shall say: the same, or OK since it does not look at the fault, or
 * either. */
enum { SAME, BLIND, ANY };

static void expect(const args *x, int status, int query_says, int line, const char *what) {
  static const char *const names[] = {"reduce", "scan", "gemm_reduce", "gemm_reduce_ex"};
  static unsigned char before[ARENA];
  int got, asked, wanted = query_says == BLIND ? GPURED_OK : status;
  size_t bytes = 12345, i;
  fill_arena();
  memcpy(before, arena(), ARENA);
  got = (int)call(x);
  CHECK(got == status, "%s, line %d, %s: status %d, not %d", names[x->kind], line, what, got,
        status);
  for (i = 0; i < ARENA && arena()[i] == before[i]; ++i) continue;
  if (status != GPURED_OK)
    CHECK(i == ARENA, "%s, line %d, %s: byte %d was touched", names[x->kind], line, what, (int)i);
  asked = (int)query(x, &bytes);
  CHECK(query_says == ANY || asked == wanted, "%s_workspace, line %d, %s: status %d, not %d",
        names[x->kind], line, what, asked, wanted);
  CHECK(asked == GPURED_OK || bytes == 0, "%s_workspace, line %d, %s: %d bytes after an error",
        names[x->kind], line, what, (int)bytes);
  CHECK(asked != GPURED_OK || bytes != 12345, "%s_workspace, line %d, %s: bytes not set",
        names[x->kind], line, what);
}

#define CASE(kind, status, query_says, ...)                 \
  do {                                                      \
    args x;                                                 \
    set_up(&x, kind, backend);                              \
    __VA_ARGS__;                                            \
    expect(&x, status, query_says, __LINE__, #__VA_ARGS__); \
  } while (0)

/* ---- calls that are right -------------------------------------------------------------------- */

static void test_valid(gpured_backend backend) {
  int kind;
  for (kind = REDUCE; kind < KINDS; ++kind) {
    CASE(kind, GPURED_OK, SAME, (void)0);
    CASE(kind, GPURED_OK, SAME, x.options.threads = 3);
    CASE(kind, GPURED_OK, SAME, x.options.precision = GPURED_PRECISION_TENSOR);
    CASE(kind, GPURED_OK, SAME, x.in.shape[7] = -1; x.in.strides[5] = INT64_MIN); /* beyond ndim */
  }
  CASE(REDUCE, GPURED_OK, SAME, x.in.data = NULL; x.in.shape[1] = 0);
  CASE(REDUCE, GPURED_OK, SAME, x.in.data = NULL; x.in.shape[0] = 0; x.out.data = NULL;
       x.out.shape[0] = 0);
  /* an index of nothing is wrong only where there is a result to hold it */
  CASE(REDUCE, GPURED_OK, SAME, x.op = GPURED_ARGMAX; x.out.dtype = GPURED_I64;
       x.in.shape[0] = x.in.shape[1] = x.out.shape[0] = 0);
  CASE(SCAN, GPURED_OK, SAME, x.in.data = NULL; x.in.shape[2] = 0; x.out.data = NULL;
       x.out.shape[2] = 0);
  CASE(GEMM, GPURED_OK, SAME, x.in.data = NULL; x.in.shape[2] = 0; x.b.data = NULL;
       x.b.shape[1] = 0);
  CASE(GEMM, GPURED_OK, SAME, x.in.data = NULL; x.in.shape[1] = 0);
}

/* Without elements, strides and the other extents are free: nothing may be multiplied out of
 * int64_t. */
static void test_empty_huge(gpured_backend backend) {
  const int64_t big = (int64_t)1 << 40;
  CASE(REDUCE, GPURED_OK, SAME, x.in.shape[0] = 0; x.in.shape[1] = x.in.shape[2] = big; x.axes = 6;
       x.out.ndim = 1; x.out.shape[0] = 0);
  CASE(REDUCE, GPURED_OK, SAME, x.in.shape[0] = x.in.shape[1] = big; x.in.shape[2] = 0; x.axes = 3;
       x.out.ndim = 1; x.out.shape[0] = 0); /* the extents of nothing are not multiplied */
  CASE(REDUCE, GPURED_OK, SAME, x.in.shape[0] = 0; x.in.strides[1] = INT64_MAX;
       x.in.strides[0] = INT64_MIN; x.out.shape[0] = 0; x.out.strides[0] = INT64_MIN;
       x.out.strides[1] = INT64_MAX);
  CASE(SCAN, GPURED_OK, SAME, x.in.shape[2] = x.out.shape[2] = 0;
       x.in.shape[1] = x.out.shape[1] = big; x.in.strides[1] = big; x.out.strides[1] = -big;
       x.flags = GPURED_SCAN_REVERSE);
  CASE(GEMM, GPURED_OK, SAME, x.in.shape[0] = x.b.shape[0] = x.out.shape[0] = 0;
       x.in.shape[1] = big; x.in.shape[2] = x.b.shape[1] = big; x.in.strides[1] = INT64_MAX;
       x.b.strides[1] = INT64_MIN);
  CASE(REDUCE, GPURED_OK, SAME, x.in.shape[1] = 0; x.in.strides[0] = x.in.strides[2] = INT64_MAX);
  CASE(REDUCE, GPURED_OK, SAME, x.in.shape[0] = x.in.shape[1] = (int64_t)1 << 62; x.in.shape[2] = 0;
       x.in.strides[0] = x.in.strides[1] = 0; x.axes = 3; x.out.ndim = 1; x.out.shape[0] = 0);
}

static void set_axis(gpured_tensor *t, int axis, int64_t extent, const int64_t *stride) {
  t->shape[axis] = extent;
  if (stride) t->strides[axis] = *stride;
}

/* Gives the first or second axis of a call another extent, wherever it stands, and a stride or, for
 * NULL, the usual one. */
static void set_extent(args *x, int axis, int64_t extent, const int64_t *stride) {
  set_axis(&x->in, axis, extent, stride);
  if (x->kind == REDUCE && axis == 0) set_axis(&x->out, 0, extent, stride);
  if (x->kind == SCAN) set_axis(&x->out, axis, extent, stride);
  if (x->kind >= GEMM && axis == 1) {
    set_axis(&x->bias_m, 0, extent, stride);
    set_axis(&x->c, 1, extent, stride);
  } else if (x->kind >= GEMM) {
    set_axis(&x->b, 0, extent, stride);
    set_axis(&x->out, 0, extent, stride);
    set_axis(&x->bias_n, 0, extent, stride);
    set_axis(&x->c, 0, extent, stride);
    set_axis(&x->results[0].out, 0, extent, stride);
    set_axis(&x->results[1].out, 0, extent, stride);
  }
}

static void run_single(int kind, int axis, const int64_t *stride, gpured_backend backend,
                       unsigned char *after) {
  args x;
  int status;
  set_up(&x, kind, backend);
  x.flags = GPURED_SCAN_REVERSE;
  set_extent(&x, axis, 1, stride);
  fill_arena();
  status = (int)call(&x);
  CHECK(status == GPURED_OK, "kind %d, axis %d: status %d", kind, axis, status);
  memcpy(after, arena(), ARENA);
}

/* Nothing is stepped to along an axis of one element, whatever its stride. */
static void test_single_strides(gpured_backend backend) {
  static const int64_t wild[] = {INT64_MIN, INT64_MAX, INT64_MIN / 2 + 1, (int64_t)1 << 58};
  static unsigned char want[ARENA], got[ARENA];
  int kind, axis, i;
  for (kind = REDUCE; kind < KINDS; ++kind)
    for (axis = 0; axis < 2; ++axis) {
      run_single(kind, axis, NULL, backend, want);
      for (i = 0; i < COUNT(wild); ++i) {
        run_single(kind, axis, &wild[i], backend, got);
        CHECK(memcmp(want, got, ARENA) == 0, "kind %d, axis %d, stride %lld", kind, axis,
              (long long)wild[i]);
      }
    }
}

/* ---- pointers -------------------------------------------------------------------------------- */

static void test_null(gpured_backend backend) {
  int kind;
  for (kind = REDUCE; kind < EX; ++kind) {
    CASE(kind, GPURED_ERR_ARG, SAME, x.p_in = NULL);
    CASE(kind, GPURED_ERR_ARG, SAME, x.p_out = NULL);
    CASE(kind, GPURED_ERR_ARG, BLIND, x.out.data = NULL);
    CASE(kind, GPURED_ERR_ARG, BLIND, x.out.data = (char *)x.out.data + 2);
  }
  for (kind = REDUCE; kind < KINDS; ++kind) {
    CASE(kind, GPURED_ERR_ARG, ANY, x.in.data = NULL);
    CASE(kind, GPURED_ERR_ARG, ANY, x.in.data = (char *)x.in.data + 1);
    CASE(kind, GPURED_ERR_ARG, ANY, x.options.workspace = arena() + 15000 + 1;
         x.options.workspace_bytes = 1000);
  }
  CASE(GEMM, GPURED_ERR_ARG, SAME, x.p_b = NULL);
  CASE(EX, GPURED_ERR_ARG, SAME, x.p_gemm = NULL);
  CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.a = NULL);
  CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.b = NULL);
  CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.results = NULL);
  CASE(EX, GPURED_ERR_ARG, ANY, x.b.data = NULL);
  CASE(EX, GPURED_ERR_ARG, ANY, x.b.data = (char *)x.b.data + 2);
  CASE(EX, GPURED_ERR_ARG, ANY, x.bias_m.data = NULL);
  CASE(EX, GPURED_ERR_ARG, ANY, x.bias_n.data = (char *)x.bias_n.data + 1);
  CASE(EX, GPURED_ERR_ARG, BLIND, x.c.data = NULL);
  CASE(EX, GPURED_ERR_ARG, BLIND, x.c.data = (char *)x.c.data + 2);
  CASE(EX, GPURED_ERR_ARG, BLIND, x.results[0].out.data = NULL);
  CASE(EX, GPURED_ERR_ARG, BLIND, x.results[1].out.data = NULL);
  CASE(EX, GPURED_ERR_ARG, BLIND, x.results[1].out.data = (char *)x.results[1].out.data + 4);
  CASE(SCAN, GPURED_ERR_ARG, BLIND, x.flags = GPURED_SCAN_REVERSE; x.in.data = NULL);
  CASE(SCAN, GPURED_ERR_ARG, BLIND, x.flags = GPURED_SCAN_REVERSE; x.out.data = NULL);
}

static void test_null_bytes(gpured_backend backend) {
  int kind;
  for (kind = REDUCE; kind < KINDS; ++kind) {
    args x;
    int status;
    set_up(&x, kind, backend);
    status = (int)query(&x, NULL);
    CHECK(status == GPURED_ERR_ARG, "workspace query %d with bytes NULL: status %d", kind, status);
  }
}

/* ---- enumerations ---------------------------------------------------------------------------- */

static void test_enumerations(gpured_backend backend) {
  static const int no_op[] = {0, -1, 18, INT_MAX, INT_MIN},
                   no_dtype[] = {0, -1, 11, INT_MAX, INT_MIN};
  static const int no_device[] = {0, -1, 3, 7}, no_choice[] = {-1, 3, INT_MAX, INT_MIN};
  int kind, i;
  for (kind = REDUCE; kind < KINDS; ++kind) {
    for (i = 0; i < COUNT(no_op); ++i)
      CASE(kind, GPURED_ERR_ARG, SAME, x.op = x.results[0].op = no_op[i]);
    for (i = 0; i < COUNT(no_dtype); ++i) {
      CASE(kind, GPURED_ERR_ARG, SAME, x.in.dtype = no_dtype[i]);
      CASE(kind, GPURED_ERR_ARG, SAME, result(&x)->dtype = no_dtype[i]);
    }
    for (i = 0; i < COUNT(no_device); ++i) {
      CASE(kind, GPURED_ERR_ARG, SAME, x.in.device = no_device[i]);
      CASE(kind, GPURED_ERR_ARG, SAME, result(&x)->device = no_device[i]);
    }
    CASE(kind, GPURED_ERR_ARG, SAME, x.in.device_id = -1);
    CASE(kind, GPURED_ERR_ARG, SAME, result(&x)->device_id = INT_MIN);
    for (i = 0; i < COUNT(no_choice); ++i) {
      CASE(kind, GPURED_ERR_ARG, SAME, x.options.backend = no_choice[i]);
      CASE(kind, GPURED_ERR_ARG, SAME, x.options.precision = no_choice[i]);
    }
    for (i = 0; i < COUNT(no_dtype); ++i)
      if (no_dtype[i]) CASE(kind, GPURED_ERR_ARG, SAME, x.options.acc_dtype = no_dtype[i]);
  }
}

static void test_enumerations_ex(gpured_backend backend) {
  static const int no_dtype[] = {0, -1, 11}, no_map[] = {-1, 3, 99}, no_form[] = {-1, 2, 99};
  int i;
  for (i = 0; i < COUNT(no_dtype); ++i) {
    CASE(GEMM, GPURED_ERR_ARG, SAME, x.b.dtype = no_dtype[i]);
    CASE(EX, GPURED_ERR_ARG, SAME, x.b.dtype = no_dtype[i]);
    CASE(EX, GPURED_ERR_ARG, SAME, x.c.dtype = no_dtype[i]);
    CASE(EX, GPURED_ERR_ARG, SAME, x.bias_m.dtype = no_dtype[i]);
    CASE(EX, GPURED_ERR_ARG, SAME, x.bias_n.dtype = no_dtype[i]);
    CASE(EX, GPURED_ERR_ARG, SAME, x.results[1].out.dtype = no_dtype[i]);
    CASE(EX, GPURED_ERR_ARG, SAME, x.results[1].op = no_dtype[i] == 11 ? 18 : no_dtype[i]);
    CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.map = no_map[i]);
    CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.form = no_form[i]);
  }
  CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.count = 0);
  CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.count = -1);
  CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.count = GPURED_MAX_RESULTS + 1);
  CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.struct_size = 0);
  CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.struct_size = 4);
  CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.struct_size = UINT32_MAX);
  CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.struct_size -= 8);
}

static void test_options(gpured_backend backend) {
  int kind;
  for (kind = REDUCE; kind < KINDS; ++kind) {
    CASE(kind, GPURED_ERR_ARG, SAME, x.options.struct_size = 0);
    CASE(kind, GPURED_ERR_ARG, SAME, x.options.struct_size = 4);
    CASE(kind, GPURED_ERR_ARG, SAME, x.options.struct_size -= 8);
    CASE(kind, GPURED_ERR_ARG, SAME, x.options.struct_size = UINT32_MAX);
    CASE(kind, GPURED_ERR_ARG, SAME, x.options.threads = -1);
    CASE(kind, GPURED_ERR_ARG, SAME, x.options.threads = INT_MIN);
    CASE(kind, GPURED_ERR_ARG, SAME, x.options.ddof = -1);
  }
}

/* ---- axes and flags -------------------------------------------------------------------------- */

static void test_axes(gpured_backend backend) {
  static const unsigned no_flags[] = {4, 5, 8, 0x80000000u, UINT_MAX};
  static const int no_axis[] = {-1, 2, 3, INT_MAX, INT_MIN};
  int i;
  CASE(REDUCE, GPURED_ERR_ARG, SAME, x.axes = 8);
  CASE(REDUCE, GPURED_ERR_ARG, SAME, x.axes = 2 | 8);
  CASE(REDUCE, GPURED_ERR_ARG, SAME, x.axes = 2 | 256);
  CASE(REDUCE, GPURED_ERR_ARG, SAME, x.axes = 2 | 0x80000000u);
  CASE(REDUCE, GPURED_ERR_ARG, SAME, x.in.ndim = x.out.ndim = 0; x.axes = 1);
  for (i = 0; i < COUNT(no_flags); ++i) CASE(SCAN, GPURED_ERR_ARG, SAME, x.flags = no_flags[i]);
  for (i = 0; i < COUNT(no_axis); ++i) {
    CASE(GEMM, GPURED_ERR_ARG, SAME, x.axis = no_axis[i]);
    CASE(EX, GPURED_ERR_ARG, SAME, x.gemm.axis = no_axis[i]);
    if (no_axis[i] != 2) CASE(SCAN, GPURED_ERR_ARG, SAME, x.axis = no_axis[i]);
  }
  CASE(SCAN, GPURED_ERR_ARG, SAME, x.in.ndim = x.out.ndim = 0; x.axis = 0);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static void test_shapes(gpured_backend backend) {
  static const int64_t negative[] = {-1, INT64_MIN};
  int kind, i;
  for (kind = REDUCE; kind < KINDS; ++kind) {
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.in.ndim = -1);
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.in.ndim = 9);
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.in.ndim = INT_MAX);
    CASE(kind, GPURED_ERR_SHAPE, SAME, result(&x)->ndim = -1);
    CASE(kind, GPURED_ERR_SHAPE, SAME, result(&x)->ndim = 9);
    CASE(kind, GPURED_ERR_SHAPE, SAME, result(&x)->ndim = 1);
    CASE(kind, GPURED_ERR_SHAPE, SAME, result(&x)->shape[1] += 1);
    CASE(kind, GPURED_ERR_SHAPE, SAME, result(&x)->shape[0] = 1);
    for (i = 0; i < COUNT(negative); ++i) {
      CASE(kind, GPURED_ERR_SHAPE, SAME, x.in.shape[0] = negative[i]);
      CASE(kind, GPURED_ERR_SHAPE, SAME, x.in.shape[2] = negative[i]);
      CASE(kind, GPURED_ERR_SHAPE, SAME, result(&x)->shape[0] = negative[i]);
    }
  }
  CASE(REDUCE, GPURED_ERR_SHAPE, SAME, x.out.ndim = 3; x.out.shape[1] = 2; x.out.shape[2] = 5);
  CASE(REDUCE, GPURED_ERR_SHAPE, SAME, x.axes = 7);
  CASE(REDUCE, GPURED_ERR_SHAPE, SAME, x.axes = 0);
  CASE(REDUCE, GPURED_ERR_SHAPE, SAME, x.op = GPURED_ARGMAX; x.out.dtype = GPURED_I64;
       x.in.shape[1] = 0);
  CASE(REDUCE, GPURED_ERR_SHAPE, SAME, x.op = GPURED_ARGMIN; x.out.dtype = GPURED_I32;
       x.in.shape[1] = 0);
  CASE(SCAN, GPURED_ERR_SHAPE, SAME, x.out.ndim = 2);
  CASE(SCAN, GPURED_ERR_SHAPE, SAME, x.out.shape[1] = 1);
  /* gpured_array's answer to an ndim or a shape that is none */
  CASE(REDUCE, GPURED_ERR_SHAPE, SAME,
       x.in = gpured_array(arena(), GPURED_F32, 9, x.in.shape, NULL));
  CASE(REDUCE, GPURED_ERR_SHAPE, SAME,
       x.in = gpured_array(arena(), GPURED_F32, -1, x.in.shape, NULL));
  CASE(REDUCE, GPURED_ERR_SHAPE, SAME, x.in = gpured_array(arena(), GPURED_F32, 3, NULL, NULL));
  /* found by fuzzing: also where the call takes the short way of small contiguous data */
  CASE(REDUCE, GPURED_ERR_SHAPE, SAME, x.options = gpured_default_options(); x.axes = 1;
       x.in = view(IN, GPURED_F32, 1, 24, 0, 0); x.out = view(OUT, GPURED_F32, -1, 0, 0, 0));
}

static void test_shapes_gemm(gpured_backend backend) {
  int kind;
  for (kind = GEMM; kind < KINDS; ++kind) {
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.in.ndim = 1);
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.b.ndim = 1);
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.in.ndim = 0);
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.in.shape[2] = 5);
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.b.shape[1] = 7);
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.in.shape[2] = 1);
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.in.shape[0] = 3);
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.b.shape[0] = 3);
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.b.shape[0] = 0);
    CASE(kind, GPURED_ERR_SHAPE, SAME, x.b.shape[2] = 1);
  }
  CASE(GEMM, GPURED_ERR_SHAPE, SAME, x.op = GPURED_ARGMAX; x.out.dtype = GPURED_I64;
       x.in.shape[1] = 0);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.in.shape[1] = x.bias_m.shape[0] = x.c.shape[1] = 0);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.results[1].out.shape[1] = 4);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.results[1].out.ndim = 1);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.c.shape[0] = 1);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.c.shape[1] = 3);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.c.shape[2] = 6);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.c.ndim = 2);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.bias_m.shape[0] = 3);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.bias_m.ndim = 0);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.bias_m.ndim = 9);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.bias_n.shape[0] = 3);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.bias_n.shape[1] = 4);
  CASE(EX, GPURED_ERR_SHAPE, SAME, x.bias_n.ndim = 3; x.bias_n.shape[2] = 5);
  /* a reduced axis that is kept, but not with extent 1 */
  CASE(GEMM, GPURED_ERR_SHAPE, SAME, x.out = view(OUT, GPURED_F32, 3, 2, 2, 5));
  /* no rows to find an index among, but no columns or no items either */
  CASE(GEMM, GPURED_OK, SAME, x.op = GPURED_ARGMAX; x.in.shape[1] = x.b.shape[2] = 0;
       x.out = view(OUT, GPURED_I64, 2, 2, 0, 0));
  CASE(GEMM, GPURED_OK, SAME, x.op = GPURED_ARGMAX; x.in.shape[1] = 0;
       x.in.shape[0] = x.b.shape[0] = 0; x.out = view(OUT, GPURED_I64, 2, 0, 5, 0));
  /* one element may have any number of axes, whatever stands beyond them */
  CASE(GEMM, GPURED_OK, SAME, x.in = view(IN, GPURED_F32, 3, 1, 4, 6);
       x.b = view(SECOND, GPURED_F32, 3, 1, 6, 1); x.out.ndim = 0);
  CASE(GEMM, GPURED_OK, SAME, x.in = view(IN, GPURED_F32, 3, 1, 4, 6);
       x.b = view(SECOND, GPURED_F32, 3, 1, 6, 1); x.out.ndim = 1; x.out.shape[0] = 1;
       x.out.shape[1] = 9);
}

static void test_overflow(gpured_backend backend) {
  const int64_t big = (int64_t)1 << 40;
  int kind;
  for (kind = REDUCE; kind < KINDS; ++kind) {
    CASE(kind, GPURED_ERR_OVERFLOW, SAME, memset(x.in.strides, 0, sizeof x.in.strides);
         x.in.shape[0] = x.in.shape[1] = big);
    CASE(kind, GPURED_ERR_OVERFLOW, SAME, memset(x.in.strides, 0, sizeof x.in.strides);
         x.in.shape[0] = INT64_MAX);
    CASE(kind, GPURED_ERR_OVERFLOW, SAME, x.in.strides[1] = INT64_MAX);
    CASE(kind, GPURED_ERR_OVERFLOW, SAME, x.in.strides[1] = INT64_MIN);
    CASE(kind, GPURED_ERR_OVERFLOW, SAME, x.in.strides[1] = INT64_MAX / 4);
    CASE(kind, GPURED_ERR_OVERFLOW, SAME,
         x.in.strides[0] = x.in.strides[1] = x.in.strides[2] = INT64_MAX / 20);
    /* strides that are allowed: times the extent they leave int64_t; they reach too far alone; they
     * do so together */
    CASE(kind, GPURED_ERR_OVERFLOW, SAME, x.in.shape[0] = big; x.in.strides[0] = (int64_t)1 << 50);
    CASE(kind, GPURED_ERR_OVERFLOW, SAME, x.in.shape[0] = 9; x.in.strides[0] = (int64_t)1 << 57);
    CASE(kind, GPURED_ERR_OVERFLOW, SAME, x.in.shape[0] = x.in.shape[1] = 4;
         x.in.strides[0] = (int64_t)1 << 57; x.in.strides[1] = -((int64_t)1 << 57));
    CASE(kind, GPURED_ERR_OVERFLOW, SAME, result(&x)->strides[0] = INT64_MAX);
    CASE(kind, GPURED_ERR_OVERFLOW, SAME, result(&x)->strides[1] = INT64_MIN);
  }
  CASE(GEMM, GPURED_ERR_OVERFLOW, SAME, x.b.strides[2] = INT64_MIN);
  CASE(EX, GPURED_ERR_OVERFLOW, SAME, x.bias_m.strides[0] = INT64_MAX);
  CASE(EX, GPURED_ERR_OVERFLOW, SAME, x.bias_n.strides[0] = INT64_MIN);
  CASE(EX, GPURED_ERR_OVERFLOW, SAME, x.c.strides[2] = INT64_MAX);
  /* An index that i32 cannot hold, through a stride of 0. */
  CASE(REDUCE, GPURED_ERR_OVERFLOW, SAME, x.op = GPURED_ARGMAX; x.out.dtype = GPURED_I32;
       x.in.strides[1] = 0; x.in.shape[1] = (int64_t)INT32_MAX + 1);
  CASE(REDUCE, GPURED_ERR_OVERFLOW, SAME, x.op = GPURED_COUNT_NONZERO; x.out.dtype = GPURED_I32;
       x.in.strides[1] = 0; x.in.shape[1] = (int64_t)INT32_MAX + 1);
}

/* Parts of a workspace that each fit, but whose sum is 2^64, which would pass for nothing: for 2^56
 * items 8 + 8 doubles for the biases, 7 + 1 + 8 for the short road. A query, as there is no memory
 * for such an output. */
static void test_overflow_sum(gpured_backend unused) {
  const gpured_backend backend = GPURED_BACKEND_CPU;
  const int64_t items = (int64_t)1 << 56;
  size_t bytes = 1;
  int status;
  args x;
  (void)unused;
  set_up(&x, EX, backend);
  x.options.acc_dtype = GPURED_F64;
  x.in = view(IN, GPURED_F16, 3, items, 8, 7);
  x.in.strides[0] = 0;
  x.b = view(SECOND, GPURED_F16, 3, 1, 7, 8);
  x.bias_m = view(BIAS_M, GPURED_F32, 1, 8, 0, 0);
  x.bias_n = view(BIAS_N, GPURED_F32, 1, 8, 0, 0);
  x.results[0].out = view(OUT, GPURED_F16, 2, items, 8, 0);
  x.gemm.count = 1;
  x.gemm.c = NULL;
  status = (int)query(&x, &bytes);
  CHECK(status == GPURED_ERR_OVERFLOW && bytes == 0, "status %d, %.0f bytes", status,
        (double)bytes);
}

/* Workspace beyond size_t: the norms of 2^40 rows for each of 2^40 items, which strides of 0 make
 * possible. */
static void test_overflow_workspace(gpured_backend backend) {
  const int64_t big = (int64_t)1 << 40;
  CASE(EX, GPURED_ERR_OVERFLOW, SAME, x.gemm.form = GPURED_FORM_L2; x.gemm.count = 1;
       x.gemm.c = x.gemm.bias_m = x.gemm.bias_n = NULL; memset(x.in.strides, 0, 24);
       memset(x.b.strides, 0, 24); x.in.shape[0] = 1; x.in.shape[1] = big; x.in.shape[2] = 1;
       x.b.data = x.in.data; x.b.shape[0] = big; x.b.shape[1] = x.b.shape[2] = 1;
       x.results[0].out = view(OUT, GPURED_F32, 2, big, 1, 0));
  CASE(GEMM, GPURED_ERR_OVERFLOW, SAME, x.op = GPURED_ARGMAX; x.out.dtype = GPURED_I32;
       x.in.strides[1] = 0; x.in.shape[1] = (int64_t)INT32_MAX + 1);
  /* a batch of 2^40 by 2^40 items, from operands that have 2^40 each */
  CASE(GEMM, GPURED_ERR_OVERFLOW, SAME, x.in = x.b = view(IN, GPURED_F32, 3, 1, 1, 1);
       x.in.ndim = x.b.ndim = 4; x.in.shape[3] = x.b.shape[3] = 1; memset(x.in.strides, 0, 32);
       memset(x.b.strides, 0, 32); x.in.shape[0] = x.b.shape[1] = big);
}

/* A query does not look at elements: those of a tensor may reach anywhere from its pointer. */
static void test_query_far(gpured_backend backend) {
  int kind;
  for (kind = REDUCE; kind < KINDS; ++kind) {
    args x;
    size_t bytes;
    set_up(&x, kind, backend);
    x.flags = GPURED_SCAN_REVERSE;
    x.in.strides[1] = -(INT64_MAX / 100);
    CHECK(query(&x, &bytes) == GPURED_OK, "kind %d: the query fails", kind);
  }
}

/* ---- combinations ---------------------------------------------------------------------------- */

/* acc_dtype where the header says nothing: the accumulator that the table gives anyway. */
static int is_redundant(int in, int acc) {
  return (acc == GPURED_F64 && in == GPURED_F64) ||
         (acc == GPURED_F32 && is_float(in) && in != GPURED_F64);
}

static int is_scan(int op) {
  return op == GPURED_SUM || op == GPURED_PROD || op == GPURED_MIN || op == GPURED_MAX ||
         op == GPURED_LOGSUMEXP;
}

static int is_gemm(int op) {
  return op != GPURED_PROD && op != GPURED_VAR && op != GPURED_STD && op != GPURED_ANY &&
         op != GPURED_ALL && op != GPURED_COUNT_NONZERO;
}

/* Every op with every input, output and accumulator: OK or UNSUPPORTED. */
static void test_combinations(gpured_backend backend) {
  int op, in, out, acc, kind;
  for (op = 1; op <= 17; ++op)
    for (in = 1; in <= 10; ++in)
      for (out = 1; out <= 10; ++out)
        for (acc = 0; acc <= 10; ++acc)
          for (kind = REDUCE; kind < EX; ++kind) {
            int valid = valid_output(op, in, out) && valid_acc(in, acc);
            if (kind == SCAN) valid = valid && is_scan(op);
            if (kind == GEMM) valid = valid && is_gemm(op);
            if (is_redundant(in, acc)) continue;
            CASE(kind, valid ? GPURED_OK : GPURED_ERR_UNSUPPORTED, SAME, x.op = op;
                 x.in.dtype = x.b.dtype = in; x.out.dtype = out; x.options.acc_dtype = acc;
                 x.in.shape[x.in.ndim - 1] = 1; x.b.shape[1] = 1;
                 if (kind != GEMM) x.out.shape[x.out.ndim - 1] = 1);
          }
}

static void test_combinations_gemm(gpured_backend backend) {
  int i;
  CASE(GEMM, GPURED_ERR_UNSUPPORTED, SAME, x.b.dtype = GPURED_F64);
  CASE(GEMM, GPURED_ERR_UNSUPPORTED, SAME, x.b.dtype = GPURED_I32);
  CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.b.dtype = GPURED_F16);
  CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.bias_m.dtype = GPURED_F64);
  CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.bias_n.dtype = GPURED_BF16);
  CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.c.dtype = GPURED_I32);
  CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.results[0].out.dtype = GPURED_I32);
  CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.results[1].out.dtype = GPURED_U32);
  CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.results[1].out.dtype = GPURED_F64);
  CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.results[0].op = GPURED_PROD);
  CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.results[1].op = GPURED_VAR;
       x.results[1].out.dtype = GPURED_F64);
  for (i = 0; i < 3; ++i) /* integers have neither alpha nor biases; each alone */
    CASE(EX, GPURED_ERR_UNSUPPORTED, SAME,
         x.in.dtype = x.b.dtype = x.bias_m.dtype = x.bias_n.dtype = GPURED_I32;
         x.c.dtype = x.results[0].out.dtype = GPURED_I32; x.gemm.alpha = i == 0 ? 2 : 0;
         if (i != 1) x.gemm.bias_m = NULL; if (i != 2) x.gemm.bias_n = NULL);
  for (i = 0; i < 3; ++i) /* nor has the L2 form */
    CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.gemm.form = GPURED_FORM_L2;
         x.gemm.alpha = i == 0 ? 2 : 0; if (i != 1) x.gemm.bias_m = NULL;
         if (i != 2) x.gemm.bias_n = NULL);
  /* integers: exact results and results in f64 do not share a call */
  CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.in.dtype = x.b.dtype = GPURED_I32;
       x.gemm.c = x.gemm.bias_m = x.gemm.bias_n = NULL; x.results[0].op = GPURED_MEAN);
}

/* What is refused for its types, whatever else the call says. */
static void test_types_ex(gpured_backend backend) {
  int kind;
  for (kind = REDUCE; kind < KINDS; ++kind)
    CASE(kind, GPURED_OK, SAME, x.options.acc_dtype = GPURED_F32);
  CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.in.dtype = x.b.dtype = GPURED_I32;
       x.results[0].out.dtype = GPURED_I32; x.gemm.form = GPURED_FORM_L2;
       x.gemm.c = x.gemm.bias_m = x.gemm.bias_n = NULL);
  CASE(EX, GPURED_ERR_UNSUPPORTED, SAME, x.in.dtype = x.b.dtype = GPURED_F64;
       x.c.data = arena() + OUT2 + 1024); /* biases of f32 go with f16 and bf16 */
}

/* ---- overlap --------------------------------------------------------------------------------- */

static void test_alias(gpured_backend backend) {
  int kind;
  for (kind = REDUCE; kind < KINDS; ++kind) {
    size_t size = 4;
    CASE(kind, GPURED_ERR_ALIAS, BLIND, result(&x)->data = arena() + IN + size);
    CASE(kind, GPURED_ERR_ALIAS, BLIND, result(&x)->data = arena() + IN + 400;
         if (kind >= GEMM) result(&x)->data = arena() + IN + 188);
    if (kind != SCAN) CASE(kind, GPURED_ERR_ALIAS, BLIND, result(&x)->data = x.in.data);
    if (kind == SCAN) CASE(kind, GPURED_ERR_ALIAS, BLIND, x.in.data = arena() + OUT + 476);
    CASE(kind, GPURED_ERR_ALIAS, SAME, result(&x)->strides[0] = 0);
    CASE(kind, GPURED_ERR_ALIAS, SAME, result(&x)->strides[1] = 0);
    CASE(kind, GPURED_ERR_ALIAS, SAME, result(&x)->strides[0] = result(&x)->strides[1]);
    CASE(kind, GPURED_ERR_ALIAS, SAME, result(&x)->strides[0] = -result(&x)->strides[1]);
    CASE(kind, GPURED_ERR_ALIAS, SAME, result(&x)->strides[0] = 4 * result(&x)->strides[1]);
  }
  CASE(GEMM, GPURED_ERR_ALIAS, BLIND, x.out.data = x.b.data);
  CASE(GEMM, GPURED_ERR_ALIAS, BLIND, x.out.data = arena() + SECOND + 236);
  CASE(SCAN, GPURED_ERR_ALIAS, BLIND, x.out.data = x.in.data; x.out.strides[0] = 1;
       x.out.strides[1] = 4; x.out.strides[2] = 24);
  CASE(SCAN, GPURED_ERR_ALIAS, BLIND, x.out.data = x.in.data; x.out.dtype = GPURED_F64);
  CASE(SCAN, GPURED_ERR_ALIAS, BLIND, x.out.data = x.in.data; x.out.dtype = GPURED_F16);
  CASE(SCAN, GPURED_ERR_ALIAS, BLIND, x.out.data = arena() + IN + 400; x.out.strides[1] = -5);
  /* columns 0 to 2 of rows of six, and 4 to 6, of which the last is the next row's first */
  CASE(SCAN, GPURED_ERR_ALIAS, BLIND, x.in = view(IN, GPURED_F32, 2, 4, 6, 0); x.in.shape[1] = 3;
       x.out = x.in; x.out.data = arena() + IN + 16);
  /* columns 0 to 2 backward, and column 1 */
  CASE(REDUCE, GPURED_ERR_ALIAS, BLIND, x.in = view(IN + 8, GPURED_F32, 2, 4, 6, 0);
       x.in.shape[1] = 3; x.in.strides[1] = -1; x.out = view(IN + 4, GPURED_F32, 1, 4, 0, 0);
       x.out.strides[0] = 6);
  /* to the CPU the host is one place, whatever a tensor calls it */
  if (backend == GPURED_BACKEND_CPU)
    CASE(REDUCE, GPURED_ERR_ALIAS, BLIND, x.out.data = x.in.data; x.out.device_id = 1);
}

static void test_alias_ex(gpured_backend backend) {
  CASE(EX, GPURED_ERR_ALIAS, BLIND, x.results[1].out.data = x.results[0].out.data);
  CASE(EX, GPURED_ERR_ALIAS, BLIND, x.results[1].out.data = arena() + OUT + 32);
  CASE(EX, GPURED_ERR_ALIAS, BLIND, x.results[0].out.data = x.c.data);
  CASE(EX, GPURED_ERR_ALIAS, BLIND, x.results[1].out.data = arena() + C + 152);
  CASE(EX, GPURED_ERR_ALIAS, BLIND, x.c.data = x.in.data);
  CASE(EX, GPURED_ERR_ALIAS, BLIND, x.c.data = arena() + SECOND + 236);
  CASE(EX, GPURED_ERR_ALIAS, BLIND, x.c.data = arena() + BIAS_M - 156);
  CASE(EX, GPURED_ERR_ALIAS, BLIND, x.results[0].out.data = x.bias_m.data);
  CASE(EX, GPURED_ERR_ALIAS, BLIND, x.results[1].out.data = arena() + BIAS_N + 32);
  CASE(EX, GPURED_ERR_ALIAS, SAME, x.c.strides[0] = 0);
  CASE(EX, GPURED_ERR_ALIAS, SAME, x.c.strides[1] = 1);
  CASE(EX, GPURED_ERR_ALIAS, SAME, x.results[1].out.strides[0] = 0);
}

/* Byte ranges that meet without a shared element are fine. */
static void test_no_alias(gpured_backend backend) {
  int kind;
  for (kind = REDUCE; kind < KINDS; ++kind)
    CASE(kind, GPURED_OK, SAME,
         result(&x)->data = arena() + IN + (kind < GEMM ? 480 : 192)); /* side by side */
  CASE(SCAN, GPURED_OK, SAME, x.out.data = x.in.data);
  CASE(SCAN, GPURED_OK, SAME, x.out.data = x.in.data; x.out.dtype = GPURED_F32; x.flags = 3);
  /* rows of six of which five are the input, the sixth the output */
  CASE(REDUCE, GPURED_OK, SAME, x.in = view(IN, GPURED_F32, 2, 4, 6, 0); x.in.shape[1] = 5;
       x.out = view(IN + 20, GPURED_F32, 1, 4, 0, 0); x.out.strides[0] = 6);
  CASE(REDUCE, GPURED_OK, SAME, x.in = view(IN + 4, GPURED_F32, 2, 4, 6, 0); x.in.shape[1] = 5;
       x.out = view(IN, GPURED_F32, 1, 4, 0, 0); x.out.strides[0] = 6);
  /* the same with an axis of one element, and with one that repeats */
  CASE(REDUCE, GPURED_OK, SAME, x.in = view(IN, GPURED_F32, 3, 1, 4, 6); x.in.shape[2] = 5;
       x.axes = 5; x.out = view(IN + 20, GPURED_F32, 1, 4, 0, 0); x.out.strides[0] = 6);
  CASE(REDUCE, GPURED_OK, SAME, x.in = view(IN, GPURED_F32, 3, 3, 4, 6); x.in.shape[2] = 5;
       x.in.strides[0] = 0; x.axes = 5; x.out = view(IN + 20, GPURED_F32, 1, 4, 0, 0);
       x.out.strides[0] = 6);
  /* every other element scanned into those between, forward and backward */
  CASE(SCAN, GPURED_OK, SAME, x.in = view(IN, GPURED_F32, 1, 50, 0, 0); x.in.strides[0] = 2;
       x.axis = 0; x.out = x.in; x.out.data = arena() + IN + 4);
  CASE(SCAN, GPURED_OK, SAME, x.in = view(IN, GPURED_F32, 1, 50, 0, 0); x.in.strides[0] = 2;
       x.axis = 0; x.out = x.in; x.out.data = arena() + IN + 4 + 8 * 49; x.out.strides[0] = -2);
  /* columns 0 to 2 of rows of six, backward, scanned into the others */
  CASE(SCAN, GPURED_OK, SAME, x.in = view(IN + 8, GPURED_F32, 2, 4, 6, 0); x.in.shape[1] = 3;
       x.in.strides[1] = -1; x.axis = 0; x.out = x.in; x.out.data = arena() + IN + 12;
       x.out.strides[1] = 1);
  /* what stands behind the last axis is nobody's */
  CASE(REDUCE, GPURED_OK, SAME, x.in = view(IN, GPURED_F32, 2, 4, 6, 0); x.in.shape[1] = 5;
       x.out = view(IN + 20, GPURED_F32, 1, 4, 0, 0); x.out.strides[0] = 6;
       x.in.shape[2] = x.out.shape[1] = 50; x.in.strides[2] = x.out.strides[1] = 1);
  /* two results in the even and the odd elements of one buffer */
  CASE(EX, GPURED_OK, SAME, x.results[1] = x.results[0]; x.results[1].op = GPURED_MAX;
       x.results[0].out.strides[0] = x.results[1].out.strides[0] = 10;
       x.results[0].out.strides[1] = x.results[1].out.strides[1] = 2;
       x.results[1].out.data = arena() + OUT + 4);
  /* an output whose strides are free because its extents are 1 */
  CASE(REDUCE, GPURED_OK, SAME, x.axes = 7; x.out.shape[0] = x.out.shape[1] = 1;
       x.out.strides[0] = x.out.strides[1] = 0);
}

/* ---- backends -------------------------------------------------------------------------------- */

static void test_no_backend(gpured_backend unused) {
  gpured_backend backend = GPURED_BACKEND_AUTO;
  int kind;
  (void)unused;
  if (gpured_cuda_available()) return; /* then the suite of that backend says more */
  for (kind = REDUCE; kind < KINDS; ++kind) {
    CASE(kind, GPURED_ERR_NO_BACKEND, SAME, x.options.backend = GPURED_BACKEND_CUDA);
    CASE(kind, GPURED_ERR_NO_BACKEND, SAME, x.in.device = GPURED_CUDA_DEVICE);
    CASE(kind, GPURED_ERR_NO_BACKEND, SAME, result(&x)->device = GPURED_CUDA_DEVICE);
    CASE(kind, GPURED_ERR_NO_BACKEND, SAME, x.in.device = result(&x)->device = GPURED_CUDA_DEVICE);
    CASE(kind, GPURED_ERR_NO_BACKEND, SAME, result(&x)->data = x.in.data;
         x.in.device = result(&x)->device = GPURED_CUDA_DEVICE; result(&x)->device_id = 1);
  }
  CASE(GEMM, GPURED_ERR_NO_BACKEND, SAME, x.b.device = GPURED_CUDA_DEVICE);
  CASE(EX, GPURED_ERR_NO_BACKEND, SAME, x.c.device = GPURED_CUDA_DEVICE);
  CASE(EX, GPURED_ERR_NO_BACKEND, SAME, x.bias_n.device = GPURED_CUDA_DEVICE);
  CASE(EX, GPURED_ERR_NO_BACKEND, SAME, x.results[1].out.device = GPURED_CUDA_DEVICE);
}

/* ---- workspace and allocation ---------------------------------------------------------------- */

/* An allocator that counts, checks what comes back, and fails at the call of number fail_at (from
 * 1). */
typedef struct meter {
  int allocs, frees, wrong, fail_at;
  size_t live;
} meter;

static void *meter_alloc(void *user, size_t bytes, void *stream) {
  meter *m = (meter *)user;
  unsigned char *raw, *p;
  (void)stream;
  if (++m->allocs == m->fail_at) return NULL;
  raw = (unsigned char *)malloc(bytes + 192);
  if (!raw) return NULL;
  p = raw + 128 - (uintptr_t)raw % 64;
  memcpy(p - 16, &raw, sizeof raw); /* what free() wants, and the size, to compare */
  memcpy(p - 32, &bytes, sizeof bytes);
  memset(p, 0xcd, bytes);
  memset(p + bytes, 0xa5, 32);
  m->live += bytes;
  return p;
}

static void meter_dealloc(void *user, void *pointer, size_t bytes, void *stream) {
  meter *m = (meter *)user;
  unsigned char *raw, *p = (unsigned char *)pointer;
  size_t was, i;
  (void)stream;
  memcpy(&raw, p - 16, sizeof raw);
  memcpy(&was, p - 32, sizeof was);
  ++m->frees;
  m->wrong += was != bytes;
  for (i = 0; i < 32; ++i) m->wrong += p[was + i] != 0xa5;
  m->live -= was;
  free(raw);
}

/* Options for memory that contradict themselves. */
static void test_options_memory(gpured_backend backend) {
  int kind;
  for (kind = REDUCE; kind < KINDS; ++kind) {
    CASE(kind, GPURED_ERR_ARG, SAME, x.options.alloc = meter_alloc);
    CASE(kind, GPURED_ERR_ARG, SAME, x.options.dealloc = meter_dealloc);
    CASE(kind, GPURED_ERR_ARG, SAME, x.options.workspace_bytes = 64);
    CASE(kind, GPURED_ERR_ARG, SAME, x.options.workspace = arena() + OUT2 + 4096 + 4;
         x.options.workspace_bytes = 64);
  }
}

/* Calls that are large enough to want scratch memory. */
typedef struct big_call {
  const char *name;
  int kind, op;
  int64_t shape[3];
  uint32_t axes;
  int axis, dtype;
} big_call;

static const big_call big_calls[] = {
    {"sum of 600000", REDUCE, GPURED_SUM, {1, 1, 600000}, 7, 0, GPURED_F32},
    {"rows", REDUCE, GPURED_LOGSUMEXP, {1, 300, 2001}, 4, 0, GPURED_F32},
    {"columns", REDUCE, GPURED_SUM, {1, 2001, 300}, 2, 0, GPURED_F32},
    {"columns of var", REDUCE, GPURED_VAR, {3, 2001, 100}, 2, 0, GPURED_F16},
    {"outer axes", REDUCE, GPURED_ARGMAX, {30, 201, 100}, 5, 0, GPURED_F64},
    {"a long scan", SCAN, GPURED_SUM, {1, 1, 600000}, 0, 2, GPURED_F32},
    {"rows scanned", SCAN, GPURED_LOGSUMEXP, {1, 300, 2001}, 0, 2, GPURED_F32},
    {"columns scanned", SCAN, GPURED_PROD, {1, 2001, 300}, 0, 1, GPURED_F16},
    {"gemm over M", GEMM, GPURED_MAX, {2, 300, 200}, 0, 0, GPURED_F32},
    {"gemm over N", GEMM, GPURED_SUMSQ, {2, 300, 200}, 0, 1, GPURED_F64},
    {"gemm sum", GEMM, GPURED_SUM, {3, 300, 200}, 0, 0, GPURED_F16},
    {"gemm logsumexp", GEMM, GPURED_LOGSUMEXP, {2, 300, 200}, 0, 1, GPURED_BF16}};

typedef struct big_data {
  args x;
  box in, b, out, want;
  meter m;
} big_data;

static void make_big(big_data *d, const big_call *c, gpured_backend backend, int threads) {
  int64_t shape[GPURED_MAX_NDIM], b_shape[3];
  int ndim = 3;
  set_up(&d->x, c->kind, backend);
  d->x.op = c->op;
  d->x.axes = c->axes;
  d->x.axis = c->axis;
  d->x.options.threads = threads;
  d->in = box_filled(c->dtype, 3, c->shape, LAYOUT_C, OR_UNIFORM, 1);
  b_shape[0] = c->shape[0]; /* b is K x M for a of M x K */
  b_shape[1] = c->shape[2];
  b_shape[2] = c->shape[1];
  d->b = box_filled(c->dtype, c->kind == GEMM ? 3 : 0, b_shape, LAYOUT_C, OR_UNIFORM, 2);
  memcpy(shape, c->shape, sizeof c->shape);
  if (c->kind == REDUCE) ndim = reduced_shape(&d->in.t, c->axes, 0, shape);
  if (c->kind == GEMM) ndim = 2; /* [batch, M] either way */
  d->out = box_output(usual_output(c->op, c->dtype), ndim, shape, LAYOUT_C, 0);
  d->want = box_output(usual_output(c->op, c->dtype), ndim, shape, LAYOUT_C, 0);
  d->x.in = d->in.t;
  d->x.b = d->b.t;
  d->x.out = d->want.t;
}

static void free_big(big_data *d) {
  box_free(&d->in);
  box_free(&d->b);
  box_free(&d->out);
  box_free(&d->want);
}

/* Fails each allocation in turn, until none fails. */
static void failing_allocations(big_data *d, const char *name) {
  meter *m = &d->m;
  int k, status = GPURED_ERR_ALLOC;
  d->x.options.alloc = meter_alloc;
  d->x.options.dealloc = meter_dealloc;
  d->x.options.user = m;
  for (k = 1; k < 50 && status == GPURED_ERR_ALLOC; ++k) {
    memset(m, 0, sizeof *m);
    m->fail_at = k;
    status = (int)call(&d->x);
    CHECK(m->live == 0 && m->allocs - m->frees == (m->allocs >= k),
          "%s: %d allocations (number %d failed), %d freed", name, m->allocs, k, m->frees);
    CHECK(m->wrong == 0, "%s: freed with another size, or written beyond the end", name);
    CHECK((status == GPURED_ERR_ALLOC) == (m->allocs >= k), "%s: status %d", name, status);
    if (status == GPURED_ERR_ALLOC) CHECK(box_untouched(&d->out), "%s: output touched", name);
  }
  CHECK(status == GPURED_OK, "%s: status %d without a failure", name, status);
  if (status == GPURED_OK) expect_same(&d->out, &d->want.t, name);
}

/* One byte too few is refused; the size asked for suffices, and then nothing is allocated. */
static void given_workspace(big_data *d, size_t bytes, const char *name) {
  meter *m = &d->m;
  unsigned char *raw = (unsigned char *)malloc(bytes + 128), *space;
  int status;
  if (!raw) return;
  memset(m, 0, sizeof *m);
  space = raw + 64 - (uintptr_t)raw % 64;
  memset(raw, 0xcd, bytes + 128);
  d->x.options.user = m;
  d->x.options.workspace = space;
  memset(d->out.memory, d->out.pattern, d->out.bytes);
  d->x.options.workspace_bytes = bytes - 1;
  status = (int)call(&d->x);
  CHECK(status == GPURED_ERR_WORKSPACE, "%s: a workspace of %d - 1 bytes: status %d", name,
        (int)bytes, status);
  CHECK(box_untouched(&d->out), "%s: too small a workspace and the output touched", name);
  d->x.options.workspace_bytes = bytes;
  status = (int)call(&d->x);
  CHECK(status == GPURED_OK, "%s: a workspace of %d bytes: status %d", name, (int)bytes, status);
  if (status == GPURED_OK) expect_same(&d->out, &d->want.t, text("%s with a workspace", name));
  CHECK(m->allocs == 0, "%s: %d allocations in spite of a workspace", name, m->allocs);
  CHECK(space[bytes] == 0xcd && space[-1] == 0xcd, "%s: wrote outside of the workspace", name);
  free(raw);
}

static void test_workspace(gpured_backend backend) {
  static const int threads[] = {1, 2, 5, 0};
  int i, j, wanted = 0;
  for (i = 0; i < COUNT(big_calls); ++i)
    for (j = 0; j < COUNT(threads); ++j) {
      big_data d;
      size_t bytes = 0;
      const char *name = text("%s, threads %d", big_calls[i].name, threads[j]);
      int status;
      make_big(&d, &big_calls[i], backend, threads[j]);
      status = (int)call(&d.x);
      CHECK(status == GPURED_OK, "%s: status %d", name, status);
      d.x.out = d.out.t;
      status = (int)query(&d.x, &bytes);
      CHECK(status == GPURED_OK, "%s: query status %d", name, status);
      failing_allocations(&d, name);
      if (bytes > 0) given_workspace(&d, bytes, name);
      wanted += bytes > 0;
      free_big(&d);
    }
  if (backend == GPURED_BACKEND_CPU)
    CHECK(wanted > 0, "no call wanted a workspace: nothing was tested");
}

/* ---- the short way --------------------------------------------------------------------------- */

/* A small reduction of contiguous floats has a short way, which is open with default options alone.
 * Whatever is unusual about a call, naming the CPU as backend must change nothing. */
enum { SMALL_ROWS = 12, SMALL_COLS = 20, SMALL_CASES = 40 };

/* Where the tensors are, and what they hold. */
static void disturb_memory(args *x, int which) {
  gpured_tensor *in = &x->in, *out = &x->out;
  switch (which) {
    case 1:
      x->p_in = NULL;
      break;
    case 2:
      x->p_out = NULL;
      break;
    case 3:
      in->data = NULL;
      break;
    case 4:
      out->data = NULL;
      break;
    case 5:
      in->data = (char *)in->data + 2;
      break;
    case 6:
      out->data = (char *)out->data + 2;
      break;
    case 7:
      out->data = (char *)in->data + 4 * SMALL_COLS;
      break;
    case 8:
      out->data = in->data;
      break;
    case 9:
      out->dtype = in->dtype == GPURED_F32 ? GPURED_F64 : GPURED_F32;
      break;
    case 10:
      in->dtype = out->dtype = GPURED_I32;
      break;
    case 11:
      in->dtype = out->dtype = 11;
      break;
    case 12:
      in->device = GPURED_CUDA_DEVICE;
      break;
    case 13:
      out->device = GPURED_CUDA_DEVICE;
      break;
    case 14:
      in->device_id = 1;
      break;
    case 15:
      out->device_id = -1;
      break;
    default:
      break;
  }
}

/* Axes, extents and strides. */
static void disturb_shape(args *x, int which) {
  gpured_tensor *in = &x->in, *out = &x->out;
  switch (which) {
    case 16:
      in->ndim = 0;
      break;
    case 17:
      in->ndim = 3;
      in->shape[2] = 1;
      in->strides[2] = 1;
      break;
    case 18:
      x->axes = 0;
      break;
    case 19:
      x->axes |= 4;
      break;
    case 20:
      in->strides[in->ndim - 1] = 2;
      break;
    case 21:
      in->strides[0] += 1;
      break;
    case 22:
      in->shape[0] = 0;
      break;
    case 23:
      in->shape[in->ndim - 1] = 0;
      break;
    case 24:
      in->shape[0] = -3;
      break;
    case 25:
      out->shape[0] += 1;
      break;
    case 26:
      out->strides[0] = 2;
      break;
    case 27:
      out->ndim = 2;
      out->shape[1] = 1;
      out->strides[1] = 1;
      break;
    case 28:
      out->ndim = 0;
      break;
    case 29:
      out->ndim = 9;
      break;
    default:
      break;
  }
}

/* Options. */
static void disturb_options(args *x, int which) {
  gpured_options *o = &x->options;
  switch (which) {
    case 30:
      o->acc_dtype = GPURED_F64;
      break;
    case 31:
      o->ddof = 1;
      break;
    case 32:
      o->threads = -1;
      break;
    case 33:
      o->threads = 2;
      break;
    case 34:
      o->workspace = arena() + OUT2;
      o->workspace_bytes = 4096;
      break;
    case 35:
      o->workspace_bytes = 8;
      break;
    case 36:
      o->dealloc = meter_dealloc;
      break;
    case 37:
      o->alloc = meter_alloc;
      break;
    case 38:
      o->precision = 3;
      break;
    case 39:
      o->struct_size = 8;
      break;
    default:
      break;
  }
}

/* The call with default options, or with `o`: its status, and what the arena holds afterwards. */
static int small_call(const args *x, const gpured_options *o, unsigned char *after) {
  int status;
  fill_arena();
  status = (int)gpured_reduce((gpured_op)x->op, x->p_in, x->axes, x->p_out, o);
  memcpy(after, arena(), ARENA);
  return status;
}

static void small_case(int op, int dtype, uint32_t axes, int ndim, int which) {
  static unsigned char after[ARENA], wanted[ARENA];
  const int64_t kept = axes == 1 ? SMALL_COLS : SMALL_ROWS;
  args x;
  int status, general;
  memset(&x, 0, sizeof x);
  x.options = gpured_default_options();
  x.op = op;
  x.axes = axes;
  x.in = view(IN, dtype, ndim, ndim == 1 ? SMALL_COLS : SMALL_ROWS, SMALL_COLS, 0);
  x.out = view(OUT, dtype, 1, ndim == 1 || axes == 3 ? 1 : kept, 0, 0);
  x.p_in = &x.in;
  x.p_out = &x.out;
  disturb_memory(&x, which); /* case 0 is the usual call */
  disturb_shape(&x, which);
  disturb_options(&x, which);
  status = small_call(&x, &x.options, after);
  x.options.backend = GPURED_BACKEND_CPU;
  general = small_call(&x, &x.options, wanted);
  CHECK(status == general, "%s, axes %u of %d, case %d: status %d, with the CPU named %d",
        op_name(op), (unsigned)axes, ndim, which, status, general);
  CHECK(memcmp(after, wanted, ARENA) == 0, "%s, axes %u of %d, case %d: other bytes", op_name(op),
        (unsigned)axes, ndim, which);
}

/* One row or column that is longer than what the short way takes. */
static void small_too_long(void) {
  const int64_t n = 300000, shape[2] = {300000, 1};
  box x = box_filled(GPURED_F32, 2, shape, LAYOUT_C, OR_UNIFORM, 3);
  const float *data = (const float *)x.t.data;
  gpured_tensor in = gpured_vector(data, GPURED_F32, n), out;
  gpured_options o = options_for(GPURED_BACKEND_CPU, 0, 0, 0);
  float sum = 0, got[2] = {1, 1};
  out = gpured_vector(&sum, GPURED_F32, 1);
  CHECK(gpured_reduce(GPURED_SUM, &in, 1, &out, &o) == GPURED_OK, "sum");
  CHECK(gpured_sum_cols_f32(data, (size_t)n, 1, &got[0]) == GPURED_OK, "sum_cols");
  CHECK(gpured_sum_rows_f32(data, 1, (size_t)n, &got[1]) == GPURED_OK, "sum_rows");
  CHECK(memcmp(&got[0], &sum, sizeof sum) == 0, "a column: %a, not %a", got[0], sum);
  CHECK(memcmp(&got[1], &sum, sizeof sum) == 0, "a row: %a, not %a", got[1], sum);
  CHECK(gpured_sum_rows_f32(data, 1, 300, &got[1]) == GPURED_OK, "sum_rows of 300");
  CHECK(gpured_sum_f32(data, 300) == got[1], "a row of 300: %a", got[1]);
  box_free(&x);
}

static void test_small(gpured_backend backend) {
  static const int dtypes[] = {GPURED_F32, GPURED_F64};
  int i, j, which;
  uint32_t axes;
  (void)backend;
  for (i = 0; i < COUNT(all_ops); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (which = 0; which < SMALL_CASES; ++which) {
        small_case(all_ops[i], dtypes[j], 1, 1, which);
        for (axes = 1; axes <= 3; ++axes) small_case(all_ops[i], dtypes[j], axes, 2, which);
      }
  small_too_long();
}

const test_case args_tests[] = {{"args_valid", test_valid, 0},
                                {"args_empty_huge", test_empty_huge, 0},
                                {"args_single_strides", test_single_strides, 0},
                                {"args_null", test_null, 0},
                                {"args_null_bytes", test_null_bytes, 0},
                                {"args_enumerations", test_enumerations, 0},
                                {"args_enumerations_ex", test_enumerations_ex, 0},
                                {"args_options", test_options, 0},
                                {"args_axes", test_axes, 0},
                                {"args_shapes", test_shapes, 0},
                                {"args_shapes_gemm", test_shapes_gemm, 0},
                                {"args_overflow", test_overflow, 0},
                                {"args_query_far", test_query_far, 0},
                                {"args_overflow_workspace", test_overflow_workspace, 0},
                                {"args_overflow_sum", test_overflow_sum, T_HOST},
                                {"args_combinations", test_combinations, 0},
                                {"args_combinations_gemm", test_combinations_gemm, 0},
                                {"args_types_ex", test_types_ex, 0},
                                {"args_alias", test_alias, 0},
                                {"args_alias_ex", test_alias_ex, 0},
                                {"args_no_alias", test_no_alias, 0},
                                {"args_no_backend", test_no_backend, T_HOST},
                                {"args_options_memory", test_options_memory, 0},
                                {"args_workspace", test_workspace, 0},
                                {"args_small", test_small, T_HOST},
                                {NULL, NULL, 0}};
