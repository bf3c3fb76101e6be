/*
 * Does a call get along with the memory that its query asked for, wherever its tensors lie? Random
 * shapes, strides and types on the runtime of cuda_copies.c, whose device has as much memory as
 * they say. A query is asked without addresses, with such at a border of 16 bytes and with others;
 * calls are made at either. Queries without addresses and with those at a border shall say the
 * same.
 *
 *   cuda_queries CASES [SEED]
 */
#include "gpured.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOWHERE, AT_BORDERS, ANYWHERE, PLACES, TENSORS = 8 };

static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_F16, GPURED_BF16, GPURED_I8,
                             GPURED_U8,  GPURED_I32, GPURED_U32, GPURED_I64,  GPURED_U64};
static const int64_t extents[] = {1,   2,   3,   5,   7,    8,    9,    14,   16,   17,    25,
                                  33,  49,  63,  64,  100,  128,  200,  256,  257,  333,   500,
                                  512, 777, 800, 999, 1000, 1024, 2048, 4095, 4096, 20000, 70000};

static unsigned long long state;
static long calls, refused, wrong;

static unsigned any(unsigned n) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)(state >> 33) % n;
}

/* Memory that nobody has: tensor `which` at one of the places. */
static void put(gpured_tensor *t, int which, int place) {
  const uintptr_t start = ((uintptr_t)1 << 56) + ((uintptr_t)which << 48);
  const uintptr_t behind = place == ANYWHERE ? any(16) * gpured_dtype_size(t->dtype) : 0;
  t->data = place == NOWHERE ? NULL : (void *)(start + behind);
}

/* Shape and strides: rows with gaps now and then, and axes in another order. */
static gpured_tensor some_tensor(int dtype, int ndim, const int64_t *shape) {
  gpured_tensor t;
  int order[GPURED_MAX_NDIM], i;
  int64_t step = 1;
  memset(&t, 0, sizeof t);
  t.dtype = dtype;
  t.device = GPURED_CUDA_DEVICE;
  t.ndim = ndim;
  for (i = 0; i < ndim; ++i) order[i] = i;
  if (ndim > 1 && any(3) == 0) {
    const int a = (int)any((unsigned)ndim), b = (int)any((unsigned)ndim), kept = order[a];
    order[a] = order[b];
    order[b] = kept;
  }
  for (i = ndim - 1; i >= 0; --i) {
    t.shape[order[i]] = shape[order[i]];
    t.strides[order[i]] = step;
    step *= shape[order[i]] + (any(8) == 0 ? 1 + any(8) : 0);
  }
  return t;
}

/* One call of a kind: its query where bytes is not NULL. */
typedef gpured_status (*calling)(void *c, const gpured_options *o, size_t *bytes);

static void check_queries(calling f, void *c, gpured_tensor **t, int count, gpured_options o,
                          const char *name) {
  size_t bytes[PLACES];
  int query, place, i;
  for (query = 0; query < PLACES; ++query) {
    gpured_status st;
    for (i = 0; i < count; ++i) put(t[i], i, query);
    st = f(c, &o, &bytes[query]);
    if (st != GPURED_OK) { /* the types do not go together */
      ++refused;
      return;
    }
  }
  if (bytes[NOWHERE] != bytes[AT_BORDERS] || bytes[ANYWHERE] < bytes[NOWHERE]) {
    printf("%s: queries said %zu, %zu and %zu\n", name, bytes[0], bytes[1], bytes[2]);
    ++wrong;
  }
  for (query = 0; query < PLACES; ++query)
    for (place = AT_BORDERS; place < PLACES; ++place) {
      gpured_status st;
      for (i = 0; i < count; ++i) put(t[i], i, place);
      o.workspace = bytes[query] ? (void *)(((uintptr_t)1 << 56) + ((uintptr_t)99 << 48)) : NULL;
      o.workspace_bytes = bytes[query];
      st = f(c, &o, NULL);
      ++calls;
      if (st == GPURED_OK) continue;
      printf("%s: %zu bytes of query %d, call %d: status %d\n", name, bytes[query], query, place,
             (int)st);
      ++wrong;
    }
}

static int is_float(int dtype) { return dtype <= GPURED_BF16; }
static int64_t extent(unsigned n) { return extents[any(n)]; }

/* What a result may be stored as. */
static int result_type(int op, int dtype) {
  if (op == GPURED_ARGMAX || op == GPURED_ARGMIN) return any(2) ? GPURED_I64 : GPURED_I32;
  if (op == GPURED_COUNT_NONZERO || op == GPURED_ANY || op == GPURED_ALL) return GPURED_I64;
  if (is_float(dtype)) return any(2) ? dtype : GPURED_F32;
  if (op == GPURED_MEAN || op == GPURED_NORM2 || op == GPURED_LOGSUMEXP || op == GPURED_VAR ||
      op == GPURED_STD)
    return GPURED_F64;
  return GPURED_I64;
}

typedef struct lines {
  int op;
  unsigned axes;
  gpured_tensor in, out;
} lines;

static gpured_status reduce(void *p, const gpured_options *o, size_t *bytes) {
  lines *c = (lines *)p;
  if (bytes) return gpured_reduce_workspace((gpured_op)c->op, &c->in, c->axes, &c->out, o, bytes);
  return gpured_reduce((gpured_op)c->op, &c->in, c->axes, &c->out, o);
}
static gpured_status scan(void *p, const gpured_options *o, size_t *bytes) {
  lines *c = (lines *)p;
  const int axis = (int)(c->axes >> 2);
  if (bytes)
    return gpured_scan_workspace((gpured_op)c->op, &c->in, axis, c->axes & 3, &c->out, o, bytes);
  return gpured_scan((gpured_op)c->op, &c->in, axis, c->axes & 3, &c->out, o);
}

static void one_of_lines(int is_scan, const gpured_options *o) {
  static const int scans[] = {GPURED_SUM, GPURED_PROD, GPURED_MIN, GPURED_MAX, GPURED_LOGSUMEXP};
  const int ndim = 1 + (int)any(4), dtype = dtypes[any(10)];
  gpured_tensor *t[2];
  int64_t shape[4], kept[4];
  double elements = 1;
  char name[80];
  lines c;
  int i, count = 0;
  for (i = 0; i < ndim; ++i) elements *= (double)(shape[i] = extent(33));
  if (elements > 4e9) return;
  c.op = is_scan ? scans[any(5)] : 1 + (int)any(17);
  c.axes = is_scan ? any((unsigned)ndim) << 2 | any(4) : 1 + any((1u << ndim) - 1);
  c.in = some_tensor(dtype, ndim, shape);
  for (i = 0; i < ndim; ++i)
    if (is_scan || !(c.axes >> i & 1)) kept[count++] = shape[i];
  c.out = some_tensor(result_type(c.op, dtype), count, kept);
  t[0] = &c.in;
  t[1] = &c.out;
  snprintf(name, sizeof name, "%s %d of type %d, %dd, %u", is_scan ? "scan" : "reduce", c.op, dtype,
           ndim, c.axes);
  check_queries(is_scan ? scan : reduce, &c, t, 2, *o, name);
}

static gpured_status product(void *p, const gpured_options *o, size_t *bytes) {
  const gpured_gemm *g = (const gpured_gemm *)p;
  return bytes ? gpured_gemm_reduce_ex_workspace(g, o, bytes) : gpured_gemm_reduce_ex(g, o);
}

static void one_product(gpured_options o) {
  const int dtype = dtypes[any(10)], real = is_float(dtype);
  const int64_t b = any(3) ? 1 : 1 + (int64_t)any(8), m = extent(30), n = extent(30);
  const int64_t k = extent(33), a_shape[3] = {any(5) ? b : 1, m, k}, b_shape[3] = {b, k, n};
  const int64_t c_shape[3] = {b, m, n};
  gpured_gemm g = gpured_default_gemm();
  gpured_result results[2];
  gpured_tensor left = some_tensor(dtype, 3, a_shape), right = some_tensor(dtype, 3, b_shape);
  gpured_tensor rows = some_tensor(dtype, 1, &m), columns = some_tensor(dtype, 1, &n);
  gpured_tensor whole = some_tensor(real ? GPURED_F32 : GPURED_I64, 3, c_shape), *t[TENSORS];
  char name[120];
  int r, count = 0;
  if ((double)b * (double)m * (double)n > 1e9) return;
  memset(results, 0, sizeof results);
  g.axis = (int32_t)any(2);
  g.count = 1 + (any(3) == 0);
  g.map = any(5) == 0 ? (int32_t)any(3) : 0;
  g.form = real && any(6) == 0 ? GPURED_FORM_L2 : GPURED_FORM_PLAIN;
  if (any(3) == 0) o.precision = GPURED_PRECISION_STRICT;
  if (dtype == GPURED_F32 && any(4) == 0) o.acc_dtype = GPURED_F64;
  g.a = t[count++] = &left;
  g.b = t[count++] = &right;
  if (real && !g.form && any(5) == 0) g.bias_m = t[count++] = &rows;
  if (real && !g.form && any(5) == 0) g.bias_n = t[count++] = &columns;
  if (any(12) == 0) g.c = t[count++] = &whole;
  for (r = 0; r < g.count; ++r) {
    const int64_t shape[2] = {b, g.axis ? m : n};
    results[r].op = (gpured_op)(1 + any(12));
    results[r].out = some_tensor(result_type(results[r].op, dtype), 2, shape);
    t[count++] = &results[r].out;
  }
  g.results = results;
  snprintf(name, sizeof name, "product of type %d, %lldx%lldx%lldx%lld, axis %d, operation %d",
           dtype, (long long)b, (long long)m, (long long)n, (long long)k, (int)g.axis,
           (int)results[0].op);
  check_queries(product, &g, t, count, o, name);
}

int main(int argc, char **argv) {
  const long cases = argc > 1 ? atol(argv[1]) : 1000;
  gpured_options o = gpured_default_options();
  long i;
  state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  o.backend = GPURED_BACKEND_CUDA;
  for (i = 0; i < cases; ++i)
    if (i % 3 == 2)
      one_product(o);
    else
      one_of_lines(i % 3 == 1, &o);
  printf("%ld calls, %ld cases of types that do not go together, %ld wrong\n", calls, refused,
         wrong);
  return wrong != 0 || calls < cases;
}
