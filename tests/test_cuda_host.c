/*
 * Tensors of the host on the CUDA backend: large ones, which go over in pieces and through pinned
 * chunks, and what happens when the runtime fails. Makefile links the suite with --wrap for every
 * function of the runtime that gpured_cuda.cu calls, so that each of them can be made to fail.
 */
#include "util.h"

#ifdef TEST_CUDA
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

/* ---- large tensors ------------------------------------------------------------------------------ */

enum { ROWS = 2500, COLS = 20011 }; /* 200 MB of f32: several pieces, the last one shorter */

static gpured_options on(gpured_backend backend) {
  return options_for(backend, 0, 0, backend == GPURED_BACKEND_CPU ? 1 : 0);
}

/* Both backends on the same tensors, compared by bits. `in` may be strided in any way. */
static void same_reduce(int op, const gpured_tensor *in, uint32_t axes, const char *what) {
  int64_t shape[GPURED_MAX_NDIM];
  const int ndim = reduced_shape(in, axes, 0, shape);
  const int dtype = usual_output(op, in->dtype);
  box want = box_output(dtype, ndim, shape, LAYOUT_C, 1);
  box got = box_output(dtype, ndim, shape, LAYOUT_GAP, 2);
  gpured_options cpu = on(GPURED_BACKEND_CPU), cuda = on(GPURED_BACKEND_CUDA);
  CHECK(gpured_reduce((gpured_op)op, in, axes, &want.t, &cpu) == GPURED_OK, "%s on the CPU", what);
  CHECK(gpured_reduce((gpured_op)op, in, axes, &got.t, &cuda) == GPURED_OK, "%s", what);
  expect_same(&got, &want.t, what);
  box_free(&want);
  box_free(&got);
}

static void test_large_reduce(gpured_backend backend) {
  const int64_t shape[2] = {ROWS, COLS};
  box x = box_filled(GPURED_F32, 2, shape, LAYOUT_C, OR_UNIFORM, 7);
  gpured_tensor view = x.t;
  (void)backend;
  same_reduce(GPURED_SUM, &x.t, 2, "rows of 200 MB");
  same_reduce(GPURED_ARGMAX, &x.t, 2, "rows of 200 MB, argmax");
  same_reduce(GPURED_SUM, &x.t, 1, "columns of 200 MB");
  same_reduce(GPURED_LOGSUMEXP, &x.t, 3, "all of 200 MB");
  view.data = (float *)view.data + (int64_t)(ROWS - 1) * COLS;
  view.strides[0] = -COLS;
  same_reduce(GPURED_NORM2, &view, 2, "rows from the last one");
  view = x.t;
  view.shape[1] = COLS / 5;
  view.strides[1] = 5;
  same_reduce(GPURED_MAX, &view, 2, "every fifth element of rows");
  box_free(&x);
}

static void test_large_scan(gpured_backend backend) {
  const int64_t shape[2] = {ROWS, COLS};
  gpured_options cpu = on(GPURED_BACKEND_CPU), cuda = on(GPURED_BACKEND_CUDA);
  int axis;
  (void)backend;
  for (axis = 0; axis < 2; ++axis) {
    box x = box_filled(GPURED_F32, 2, shape, LAYOUT_C, OR_UNIFORM, 8);
    box want = box_output(GPURED_F32, 2, shape, LAYOUT_C, 1);
    CHECK(gpured_scan(GPURED_SUM, &x.t, axis, 0, &want.t, &cpu) == GPURED_OK, "axis %d: CPU", axis);
    CHECK(gpured_scan(GPURED_SUM, &x.t, axis, 0, &x.t, &cuda) == GPURED_OK, "axis %d", axis);
    expect_same(&x, &want.t, text("200 MB in place along axis %d", axis));
    box_free(&x);
    box_free(&want);
  }
}

static void test_large_gemm(gpured_backend backend) {
  const int64_t a_shape[3] = {37, 300, 2500}, b_shape[3] = {37, 2500, 170},
                out_shape[2] = {37, 170};
  const int64_t bias_shape[2] = {37, 300};
  static const int ops[2] = {GPURED_ARGMIN, GPURED_SUM};
  box a = box_filled(GPURED_F32, 3, a_shape, LAYOUT_C, OR_UNIFORM, 9);
  box b = box_filled(GPURED_F32, 3, b_shape, LAYOUT_PAD, OR_UNIFORM, 10);
  box bias = box_filled(GPURED_F32, 2, bias_shape, LAYOUT_C, OR_UNIFORM, 11);
  gpured_result results[2];
  gpured_gemm g = gpured_default_gemm();
  box out[2][2];
  int i, r;
  (void)backend;
  g.a = &a.t;
  g.b = &b.t;
  g.bias_m = &bias.t;
  g.results = results;
  g.count = 2;
  for (i = 0; i < 2; ++i) {
    gpured_options o = on(i ? GPURED_BACKEND_CUDA : GPURED_BACKEND_CPU);
    o.precision = GPURED_PRECISION_STRICT;
    for (r = 0; r < 2; ++r) {
      out[i][r] = box_output(usual_output(ops[r], GPURED_F32), 2, out_shape, LAYOUT_C, 3);
      results[r].op = ops[r];
      results[r].out = out[i][r].t;
    }
    CHECK(gpured_gemm_reduce_ex(&g, &o) == GPURED_OK, "backend %d", i);
  }
  for (r = 0; r < 2; ++r) {
    expect_same(&out[1][r], &out[0][r].t, text("items in pieces, result %d", r));
    box_free(&out[0][r]);
    box_free(&out[1][r]);
  }
  box_free(&a);
  box_free(&b);
  box_free(&bias);
}

/* ---- a runtime that fails ----------------------------------------------------------------------- */

/* The k-th call of the runtime from now on fails with this error; 0: none does. */
static int fault_in, fault_calls;
static cudaError_t fault_error;

static int fault_now(void) {
  ++fault_calls;
  return fault_in > 0 && --fault_in == 0;
}

static int live; /* what was taken from the runtime and not given back */

static cudaError_t counted(cudaError_t error, int change) {
  if (error == cudaSuccess) live += change;
  return error;
}

/* `change`: how many things the caller has more (or fewer) when the call has done its work. */
#define WRAP(name, change, parameters, arguments)    \
  cudaError_t __real_##name parameters;              \
  cudaError_t __wrap_##name parameters;              \
  cudaError_t __wrap_##name parameters {             \
    if (fault_now()) return fault_error;             \
    return counted(__real_##name arguments, change); \
  }
WRAP(cudaGetDevice, 0, (int *device), (device))
WRAP(cudaGetDeviceCount, 0, (int *count), (count))
WRAP(cudaDeviceGetAttribute, 0, (int *value_, enum cudaDeviceAttr attribute, int device),
     (value_, attribute, device))
WRAP(cudaPointerGetAttributes, 0, (struct cudaPointerAttributes * a, const void *p), (a, p))
WRAP(cudaFuncGetAttributes, 0, (struct cudaFuncAttributes * a, const void *f), (a, f))
WRAP(cudaFuncSetAttribute, 0, (const void *f, enum cudaFuncAttribute a, int v), (f, a, v))
WRAP(cudaLaunchKernelExC, 0, (const cudaLaunchConfig_t *c, const void *f, void **a), (c, f, a))
WRAP(cudaMallocAsync, 1, (void **p, size_t bytes, cudaStream_t s), (p, bytes, s))
WRAP(cudaMallocFromPoolAsync, 1, (void **p, size_t bytes, cudaMemPool_t pool, cudaStream_t s),
     (p, bytes, pool, s))
WRAP(cudaMemPoolCreate, 0, (cudaMemPool_t * pool, const struct cudaMemPoolProps *props),
     (pool, props))
WRAP(cudaMemPoolSetAttribute, 0, (cudaMemPool_t pool, enum cudaMemPoolAttr a, void *v),
     (pool, a, v))
WRAP(cudaHostAlloc, 1, (void **p, size_t bytes, unsigned flags), (p, bytes, flags))
WRAP(cudaEventCreateWithFlags, 1, (cudaEvent_t * e, unsigned flags), (e, flags))
WRAP(cudaEventRecord, 0, (cudaEvent_t e, cudaStream_t s), (e, s))
WRAP(cudaStreamIsCapturing, 0, (cudaStream_t s, enum cudaStreamCaptureStatus *status), (s, status))
WRAP(cudaStreamGetId, 0, (cudaStream_t s, unsigned long long *id), (s, id))
WRAP(cudaGetSymbolAddress, 0, (void **p, const void *symbol), (p, symbol))
WRAP(cudaStreamCreateWithFlags, 1, (cudaStream_t * s, unsigned flags), (s, flags))
WRAP(cudaMemsetAsync, 0, (void *p, int v, size_t n, cudaStream_t s), (p, v, n, s))
WRAP(cudaMemcpyAsync, 0,
     (void *to, const void *from, size_t n, enum cudaMemcpyKind k, cudaStream_t s),
     (to, from, n, k, s))

/* These do their work and report an error all the same, as they do when an earlier kernel failed:
 * undone, they would leak by the test's own doing. */
#define WRAP_AFTER(name, change, parameters, arguments)                 \
  cudaError_t __real_##name parameters;                                 \
  cudaError_t __wrap_##name parameters;                                 \
  cudaError_t __wrap_##name parameters {                                \
    const cudaError_t error = counted(__real_##name arguments, change); \
    return fault_now() ? fault_error : error;                           \
  }
WRAP_AFTER(cudaFreeAsync, -1, (void *p, cudaStream_t s), (p, s))
WRAP_AFTER(cudaFreeHost, -1, (void *p), (p))
WRAP_AFTER(cudaEventDestroy, -1, (cudaEvent_t e), (e))
WRAP_AFTER(cudaEventSynchronize, 0, (cudaEvent_t e), (e))
WRAP_AFTER(cudaStreamSynchronize, 0, (cudaStream_t s), (s))
WRAP_AFTER(cudaStreamDestroy, -1, (cudaStream_t s), (s))
WRAP_AFTER(cudaMemPoolDestroy, 0, (cudaMemPool_t pool), (pool))

/* One of the calls that are made to fail; results go to `out`. */
typedef struct victim {
  const char *name;
  box in, other, out;
  int device; /* the tensors are the device's */
  gpured_status (*run)(const struct victim *v, const gpured_options *o);
  gpured_tensor din, dother, dout;
} victim;

static gpured_status run_sum(const victim *v, const gpured_options *o) {
  return gpured_reduce(GPURED_SUM, &v->din, 1u << (v->din.ndim - 1), &v->dout, o);
}
static gpured_status run_prefix(const victim *v, const gpured_options *o) {
  return gpured_scan(GPURED_SUM, &v->din, v->din.ndim - 1, 0, &v->dout, o);
}
static gpured_status run_product(const victim *v, const gpured_options *o) {
  return gpured_gemm_reduce(GPURED_MAX, &v->din, &v->dother, 0, &v->dout, o);
}

static void move_there(victim *v) {
  const box *b[3];
  gpured_tensor *t[3];
  int i;
  b[0] = &v->in, b[1] = &v->other, b[2] = &v->out;
  t[0] = &v->din, t[1] = &v->dother, t[2] = &v->dout;
  for (i = 0; i < 3; ++i) {
    *t[i] = b[i]->t;
    if (!v->device || !b[i]->memory) continue;
    t[i]->device = GPURED_CUDA_DEVICE;
    CHECK(cudaMalloc(&t[i]->data, b[i]->bytes) == cudaSuccess, "memory");
    CHECK(cudaMemcpy(t[i]->data, b[i]->memory, b[i]->bytes, cudaMemcpyHostToDevice) == cudaSuccess,
          "copy");
    t[i]->data = (char *)t[i]->data + ((unsigned char *)b[i]->t.data - b[i]->memory);
  }
}

static void drop_there(const victim *v) {
  const box *b[3];
  const gpured_tensor *t[3];
  int i;
  b[0] = &v->in, b[1] = &v->other, b[2] = &v->out;
  t[0] = &v->din, t[1] = &v->dother, t[2] = &v->dout;
  for (i = 0; i < 3 && v->device; ++i)
    if (b[i]->memory)
      CHECK(cudaFree((char *)t[i]->data - ((unsigned char *)b[i]->t.data - b[i]->memory)) ==
                cudaSuccess,
            "free");
}

static void fetch_result(const victim *v) {
  if (!v->device) return;
  CHECK(cudaMemcpy(v->out.memory,
                   (char *)v->dout.data - ((unsigned char *)v->out.t.data - v->out.memory),
                   v->out.bytes, cudaMemcpyDeviceToHost) == cudaSuccess,
        "fetch");
}

/* Every call of the runtime fails once, with each kind of error. */
static void fail_everywhere(victim *v, const gpured_tensor *want) {
  static const struct {
    cudaError_t error;
    gpured_status status;
  } kinds[] = {{cudaErrorMemoryAllocation, GPURED_ERR_ALLOC},
               {cudaErrorUnknown, GPURED_ERR_DEVICE}};
  gpured_options o = on(GPURED_BACKEND_CUDA);
  int i, k, calls, before, failed = 0;
  o.precision = GPURED_PRECISION_STRICT;
  CHECK(v->run(v, &o) == GPURED_OK, "%s: first", v->name); /* some things are asked once */
  fault_calls = 0;
  CHECK(v->run(v, &o) == GPURED_OK, "%s", v->name);
  calls = fault_calls;
  before = live; /* the ring of pinned memory is kept for the next call */
  CHECK(calls >= 3, "%s: only %d calls of the runtime were met", v->name, calls);
  for (i = 0; i < COUNT(kinds); ++i)
    for (k = 1; k <= calls; ++k) {
      gpured_status st;
      fault_error = kinds[i].error;
      fault_in = k;
      st = v->run(v, &o);
      /* Pinned memory can be done without, and a result may have been written before. */
      CHECK(st == kinds[i].status || st == GPURED_OK || (st == GPURED_ERR_DEVICE && !v->device),
            "%s: call %d of the runtime failed with %d: status %d", v->name, k, (int)fault_error,
            (int)st);
      failed += st != GPURED_OK;
      fault_in = 0;
      CHECK(cudaPeekAtLastError() == cudaSuccess, "%s: an error is left behind", v->name);
      st = v->run(v, &o);
      CHECK(st == GPURED_OK, "%s: the call after failure %d: status %d", v->name, k, (int)st);
      if (k % 8 && k < calls) continue;
      CHECK(cudaDeviceSynchronize() == cudaSuccess, "the device still works");
      fetch_result(v);
      expect_same(&v->out, want, text("%s: after failure %d", v->name, k));
    }
  CHECK(failed > calls, "%s: %d of %d failures were met", v->name, failed, 2 * calls);
  CHECK(live == before, "%s: %d things of the runtime, before %d", v->name, live, before);
}

static void test_faults(gpured_backend backend) {
  static const int64_t rows[2] = {3, 5000}, sums[1] = {3}, a[2] = {130, 40}, b[2] = {40, 50};
  static const int64_t maxima[1] = {50}, large[2] = {12, 3000000}, dozen[1] = {12};
  int i;
  (void)backend;
  for (i = 0; i < 7; ++i) {
    gpured_options cpu = on(GPURED_BACKEND_CPU);
    const int64_t *shape = i == 6 ? large : i / 2 == 2 ? a : rows;
    victim v;
    box want;
    memset(&v, 0, sizeof v);
    v.device = i % 2;
    v.name = text("%s %s",
                  i / 2 == 0   ? "scan"
                  : i / 2 == 2 ? "gemm"
                               : "sum",
                  v.device ? "on the device" : "from the host");
    v.run = i / 2 == 0 ? run_prefix : i / 2 == 2 ? run_product : run_sum;
    v.in = box_filled(GPURED_F32, 2, shape, LAYOUT_C, OR_UNIFORM, 3);
    if (i / 2 == 2) v.other = box_filled(GPURED_F32, 2, b, LAYOUT_C, OR_UNIFORM, 4);
    if (i / 2 == 0) v.out = box_output(GPURED_F32, 2, rows, LAYOUT_C, 5);
    if (i / 2 != 0)
      v.out = box_output(GPURED_F32, 1, i == 6 ? dozen : i / 2 == 2 ? maxima : sums, LAYOUT_C, 5);
    want = box_output(GPURED_F32, v.out.t.ndim, v.out.t.shape, LAYOUT_C, 6);
    v.din = v.in.t, v.dother = v.other.t, v.dout = want.t;
    CHECK(v.run(&v, &cpu) == GPURED_OK, "%s on the CPU", v.name);
    move_there(&v);
    fail_everywhere(&v, &want.t);
    drop_there(&v);
    box_free(&v.in);
    if (v.other.memory) box_free(&v.other);
    box_free(&v.out);
    box_free(&want);
  }
}

const test_case cuda_host_tests[] = {{"device_host_reduce", test_large_reduce, T_CUDA},
                                     {"device_host_scan", test_large_scan, T_CUDA},
                                     {"device_host_gemm", test_large_gemm, T_CUDA},
                                     {"device_faults", test_faults, T_CUDA},
                                     {NULL, NULL, 0}};
#else
const test_case cuda_host_tests[] = {{NULL, NULL, 0}};
#endif
