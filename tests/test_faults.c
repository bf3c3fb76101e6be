/*
 * Memory that cannot be had: the k-th request fails, for every k until a call asks no more, both
 * from the caller's allocator and from malloc and its relatives, which the linker replaces by
 * functions of this file. A call then either says GPURED_ERR_ALLOC and has touched nothing, or
 * needs the memory only to be faster and gives the same bits. Nothing is lost, and the next call
 * works.
 *
 * Threads that cannot be started are not tested: OpenMP has no way to make them fail, and ends the
 * process where they do.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* ---- the requests for memory ----------------------------------------------------------------- */

/* Counts while it is armed; calls are made from one thread, which is also the one that asks.
 * Volatile, since compilers know that malloc() and free() look at nothing of a program's. */
static volatile struct { int armed, asked, fail_at, live; } heap;

/* Whether the request that is being made now shall fail. */
static int fails(void) {
  if (!heap.armed) return 0;
  ++heap.asked;
  return heap.asked == heap.fail_at;
}

static void *counted(void *p) {
  heap.live += heap.armed && p;
  return p;
}

#ifdef TEST_WRAP
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **p, size_t alignment, size_t bytes);
void __real_free(void *p);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **p, size_t alignment, size_t bytes);
void __wrap_free(void *p);

void *__wrap_malloc(size_t bytes) { return fails() ? NULL : counted(__real_malloc(bytes)); }

void *__wrap_calloc(size_t count, size_t bytes) {
  return fails() ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *p, size_t bytes) {
  if (fails()) return NULL;
  return p ? __real_realloc(p, bytes) : counted(__real_malloc(bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return fails() ? NULL : counted(__real_aligned_alloc(alignment, bytes));
}

int __wrap_posix_memalign(void **p, size_t alignment, size_t bytes) {
  int error = fails() ? ENOMEM : __real_posix_memalign(p, alignment, bytes);
  if (!error) (void)counted(*p);
  return error;
}

void __wrap_free(void *p) {
  heap.live -= heap.armed && p;
  __real_free(p);
}
#endif

/* The same counts from the caller's allocator. */
static void *hook_alloc(void *user, size_t bytes, void *stream) {
  unsigned char *raw, *p;
  int failed, armed = heap.armed;
  (void)user;
  (void)stream;
  failed = fails();
  heap.armed = 0; /* what follows is the hook's own */
  raw = failed ? NULL : (unsigned char *)malloc(bytes + 128);
  heap.armed = armed;
  if (!raw) return NULL;
  p = raw + 128 - (uintptr_t)raw % 64;
  memcpy(p - sizeof raw, &raw, sizeof raw);
  return counted(p);
}

static void hook_dealloc(void *user, void *p, size_t bytes, void *stream) {
  unsigned char *raw;
  const int armed = heap.armed;
  (void)user;
  (void)bytes;
  (void)stream;
  heap.live -= armed;
  heap.armed = 0;
  memcpy(&raw, (unsigned char *)p - sizeof raw, sizeof raw);
  free(raw);
  heap.armed = armed;
}

/* From here to stop() the k-th request fails. */
static void start(int k) {
  heap.asked = heap.live = 0;
  heap.fail_at = k;
  heap.armed = 1;
}

static void stop(const char *name) {
  heap.armed = 0;
  CHECK(heap.live == 0, "%s, request %d fails: %d pieces of memory were not given back", name,
        heap.fail_at, heap.live);
}

/* ---- calls ----------------------------------------------------------------------------------- */

enum { REDUCE, SCAN, GEMM, L2, ALL };

typedef struct fault_case {
  const char *name;
  int kind, op, dtype;
  int64_t shape[3]; /* of the input; GEMM: M, N, K with a batch of two */
  uint32_t axes;
  int axis;
} fault_case;

static const fault_case cases[] = {
    {"a sum", REDUCE, GPURED_SUM, GPURED_F32, {1, 1, 200000}, 7, 0},
    {"rows", REDUCE, GPURED_LOGSUMEXP, GPURED_F16, {1, 100, 2001}, 4, 0},
    {"columns", REDUCE, GPURED_SUM, GPURED_F32, {1, 700, 300}, 2, 0},
    {"wide columns", REDUCE, GPURED_SUM, GPURED_F32, {1, 300, 6000}, 2, 0},
    {"wide columns of f64", REDUCE, GPURED_NORM2, GPURED_F64, {1, 300, 5000}, 2, 0},
    {"an index", REDUCE, GPURED_ARGMAX, GPURED_F64, {30, 20, 100}, 5, 0},
    {"var", REDUCE, GPURED_VAR, GPURED_I32, {3, 500, 100}, 2, 0},
    {"a long scan", SCAN, GPURED_SUM, GPURED_F32, {1, 1, 300000}, 0, 2},
    {"columns scanned", SCAN, GPURED_PROD, GPURED_BF16, {1, 600, 300}, 0, 1},
    {"rows scanned", SCAN, GPURED_LOGSUMEXP, GPURED_F32, {1, 100, 2001}, 0, 2},
    {"gemm over M", GEMM, GPURED_MAX, GPURED_F32, {200, 100, 30}, 0, 0},
    {"gemm over N", GEMM, GPURED_LOGSUMEXP, GPURED_F64, {100, 200, 30}, 0, 1},
    {"gemm, short road", GEMM, GPURED_SUM, GPURED_F32, {200, 100, 30}, 0, 0},
    {"gemm, short and wide", GEMM, GPURED_MEAN, GPURED_F32, {40, 3, 6000}, 0, 0},
    {"gemm of integers", GEMM, GPURED_ARGMIN, GPURED_I8, {200, 100, 30}, 0, 1},
    {"distances", L2, GPURED_MIN, GPURED_F32, {100, 200, 30}, 0, 1},
    {"distances, wide", L2, GPURED_MIN, GPURED_F32, {3, 6000, 40}, 0, 0},
    {"everything of a gemm", ALL, GPURED_SUM, GPURED_F16, {150, 100, 20}, 0, 0}};

typedef struct fault_data {
  box in, b, bias, out, more, c;
  gpured_gemm g;
  gpured_result results[2];
} fault_data;

static void make_gemm(const fault_case *f, fault_data *d) {
  const int64_t m = f->shape[0], n = f->shape[1], k = f->shape[2], kept = f->axis ? m : n;
  int64_t a[3] = {2, 0, 0}, b[3] = {2, 0, 0}, c[3] = {2, 0, 0}, out[2] = {2, 0};
  a[1] = c[1] = m;
  a[2] = b[1] = k;
  b[2] = c[2] = n;
  out[1] = kept;
  d->in = box_filled(f->dtype, 3, a, LAYOUT_C, OR_UNIFORM, 1);
  d->b = box_filled(f->dtype, 3, b, LAYOUT_C, OR_UNIFORM, 2);
  d->out = box_output(usual_output(f->op, f->dtype), 2, out, LAYOUT_C, 0);
  d->results[0].op = f->op;
  d->results[0].out = d->out.t;
  d->g = gpured_default_gemm();
  d->g.a = &d->in.t;
  d->g.b = &d->b.t;
  d->g.axis = f->axis;
  d->g.count = 1;
  d->g.results = d->results;
  d->g.form = f->kind == L2 ? GPURED_FORM_L2 : GPURED_FORM_PLAIN;
  if (f->kind != ALL) return;
  d->bias = box_filled(GPURED_F32, 1, &m, LAYOUT_C, OR_UNIFORM, 3);
  d->more = box_output(GPURED_I64, 2, out, LAYOUT_C, 0);
  d->c = box_output(f->dtype, 3, c, LAYOUT_C, 0);
  d->results[1].op = GPURED_ARGMAX;
  d->results[1].out = d->more.t;
  d->g.count = 2;
  d->g.bias_m = &d->bias.t;
  d->g.c = &d->c.t;
}

static void make(const fault_case *f, fault_data *d) {
  int64_t shape[GPURED_MAX_NDIM];
  int ndim = 3;
  memset(d, 0, sizeof *d);
  if (f->kind >= GEMM) {
    make_gemm(f, d);
    return;
  }
  d->in = box_filled(f->dtype, 3, f->shape, LAYOUT_C, OR_UNIFORM, 1);
  memcpy(shape, f->shape, sizeof f->shape);
  if (f->kind == REDUCE) ndim = reduced_shape(&d->in.t, f->axes, 0, shape);
  d->out = box_output(usual_output(f->op, f->dtype), ndim, shape, LAYOUT_C, 0);
}

static void free_all(fault_data *d) {
  box_free(&d->in);
  box_free(&d->b);
  box_free(&d->bias);
  box_free(&d->out);
  box_free(&d->more);
  box_free(&d->c);
}

static void wipe(box *b) {
  if (b->memory) memset(b->memory, b->pattern, b->bytes);
}

static gpured_status call(const fault_case *f, fault_data *d, const gpured_options *o) {
  const gpured_op op = (gpured_op)f->op;
  if (f->kind == REDUCE) return gpured_reduce(op, &d->in.t, f->axes, &d->out.t, o);
  if (f->kind == SCAN) return gpured_scan(op, &d->in.t, f->axis, 0, &d->out.t, o);
  if (f->kind == GEMM) return gpured_gemm_reduce(op, &d->in.t, &d->b.t, f->axis, &d->out.t, o);
  return gpured_gemm_reduce_ex(&d->g, o);
}

/* ---- every request fails once ---------------------------------------------------------------- */

typedef struct tally {
  int refused, slower; /* failed requests that ended the call, and those that it did without */
} tally;

static uint64_t hash_all(const fault_data *d) {
  uint64_t h = oracle_hash(&d->out.t);
  if (d->more.memory) h ^= 3 * oracle_hash(&d->more.t);
  if (d->c.memory) h ^= 5 * oracle_hash(&d->c.t);
  return h;
}

static int untouched(const fault_data *d) {
  return box_untouched(&d->out) && (!d->more.memory || box_untouched(&d->more)) &&
         (!d->c.memory || box_untouched(&d->c));
}

/* The call with its k-th request failing; 0 when it makes fewer. */
static int fail_one(const fault_case *f, fault_data *d, const gpured_options *o, int k,
                    uint64_t want, tally *t) {
  gpured_status status;
  wipe(&d->out);
  wipe(&d->more);
  wipe(&d->c);
  start(k);
  status = call(f, d, o);
  stop(f->name);
  if (status == GPURED_ERR_ALLOC) {
    CHECK(heap.asked >= k, "%s: GPURED_ERR_ALLOC, but all %d requests were met", f->name,
          heap.asked);
    CHECK(untouched(d), "%s, request %d fails: an output was touched", f->name, k);
    ++t->refused;
  } else {
    CHECK(status == GPURED_OK, "%s, request %d fails: status %d", f->name, k, (int)status);
    CHECK(hash_all(d) == want, "%s, request %d fails: other bits", f->name, k);
    t->slower += heap.asked >= k;
  }
  return heap.asked >= k;
}

static void fail_all(int hooks) {
  static const int threads[] = {1, 2, 5};
  tally t = {0, 0};
  int i, j, k;
  for (i = 0; i < COUNT(cases); ++i)
    for (j = 0; j < COUNT(threads); ++j) {
      gpured_options o = options_for(GPURED_BACKEND_CPU, 0, 0, threads[j]);
      fault_data d;
      uint64_t want;
      make(&cases[i], &d);
      if (hooks) {
        o.alloc = hook_alloc;
        o.dealloc = hook_dealloc;
      }
      CHECK(call(&cases[i], &d, &o) == GPURED_OK, "%s: refused", cases[i].name);
      want = hash_all(&d);
      for (k = 1; fail_one(&cases[i], &d, &o, k, want, &t); ++k) {
        CHECK(k < 100, "%s: there is no end of requests", cases[i].name);
        CHECK(call(&cases[i], &d, &o) == GPURED_OK && hash_all(&d) == want,
              "%s: the call after request %d has failed", cases[i].name, k);
      }
      free_all(&d);
    }
  CHECK(t.refused > 0 && t.slower > 0, "%d calls refused, %d went on: nothing was tested",
        t.refused, t.slower);
}

static void test_hooks(gpured_backend backend) {
  (void)backend;
  fail_all(1);
}

static void test_malloc(gpured_backend backend) {
  (void)backend;
  fail_all(0);
}

/* The one-liners have nothing to say of memory with, so they must do without. */
static void test_one_liners(gpured_backend backend) {
  enum { ROWS = 300, COLS = 6000, N = ROWS * COLS };
  float *x = (float *)malloc(sizeof *x * N), *y = (float *)malloc(sizeof *y * N);
  float *want = (float *)malloc(sizeof *want * N), sum;
  gpured_status columns, scan;
  int i, k;
  (void)backend;
  if (!x || !y || !want) abort();
  for (i = 0; i < N; ++i) x[i] = (float)(i % 1013) / 1024;
  CHECK(gpured_sum_cols_f32(x, ROWS, COLS, want) == GPURED_OK, "sum_cols");
  for (k = 1; k == 1 || heap.asked >= k - 1; ++k) {
    start(k);
    columns = gpured_sum_cols_f32(x, ROWS, COLS, y);
    sum = gpured_sum_f32(x, N);
    scan = gpured_cumsum_f32(x, x, N);
    stop("one-liners");
    CHECK(columns == GPURED_OK && scan == GPURED_OK && sum > 0, "request %d fails: status %d, %d",
          k, (int)columns, (int)scan);
    CHECK(memcmp(y, want, sizeof *y * COLS) == 0, "sum_cols, request %d fails: other bits", k);
    for (i = 0; i < N; ++i) x[i] = (float)(i % 1013) / 1024;
  }
  CHECK(k > 2, "no memory was asked for: nothing was tested");
  free(x);
  free(y);
  free(want);
}

static void test_selftest(gpured_backend backend) {
  gpured_status status = GPURED_ERR_ALLOC;
  int k;
  (void)backend;
  for (k = 1; status == GPURED_ERR_ALLOC && k < 100; ++k) {
    start(k);
    status = gpured_selftest();
    stop("self-test");
    CHECK((status == GPURED_ERR_ALLOC) == (heap.asked >= k), "request %d fails: status %d", k,
          (int)status);
  }
  CHECK(status == GPURED_OK && k > 2, "status %d after %d failures", (int)status, k - 2);
}

const test_case faults_tests[] = {{"faults_hooks", test_hooks, T_HOST},
                                  {"faults_malloc", test_malloc, T_HOST | T_WRAP},
                                  {"faults_one_liners", test_one_liners, T_HOST | T_WRAP},
                                  {"faults_selftest", test_selftest, T_HOST | T_WRAP | T_NO_GPU},
                                  {NULL, NULL, 0}};
