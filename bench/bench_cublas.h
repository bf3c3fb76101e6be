/*
 * cuBLAS as a peer of the GPU's GEMM rows. The library is loaded at run time, so that neither the
 * build nor the program needs it; its header gives the types where the toolkit has it.
 *
 * A peer must run its best kernel: cublasLt is asked for the algorithms that it thinks best, each
 * of them is tried, cublasGemmStridedBatchedEx as well, and the fastest is what gpured is compared
 * with.
 *
 * cuBLAS stores by columns. A row-major matrix is its transpose there, so C = A B (row-major) is
 * asked for as C^T = B^T A^T, and no data moves.
 */
#ifndef BENCH_CUBLAS_H
#define BENCH_CUBLAS_H

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../gpured.h"

/* A is [batch, m, k] by rows, B [batch, k, n] by rows or by columns; items follow each other. */
struct gemm_case {
  int dtype, b_by_columns;
  int64_t batch, m, n, k;
};

#if defined(BENCH_PEERS) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <cublas_v2.h>

/* What is called, under the names it has in the library. */
#define BLAS_FUNCTIONS(X)        \
  X(cublasCreate_v2)             \
  X(cublasSetStream_v2)          \
  X(cublasSetWorkspace_v2)       \
  X(cublasSgemvStridedBatched)   \
  X(cublasDgemvStridedBatched)   \
  X(cublasTSSgemvStridedBatched) \
  X(cublasTSTgemvStridedBatched)
#define LT_FUNCTIONS(X)                   \
  X(cublasLtCreate)                       \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutSetAttribute)     \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulAlgoGetHeuristic)
#define BLAS_POINTER(name) decltype(&::name) name;

/* The header has a second function of this name for C++. */
typedef cublasStatus_t (*blas_gemm_ex)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                       int, int, const void *, const void *, cudaDataType, int,
                                       long long, const void *, cudaDataType, int, long long,
                                       const void *, void *, cudaDataType, int, long long, int,
                                       cublasComputeType_t, cublasGemmAlgo_t);

static struct {
  BLAS_FUNCTIONS(BLAS_POINTER)
  LT_FUNCTIONS(BLAS_POINTER)
  blas_gemm_ex gemm_ex;
  cublasHandle_t handle;
  cublasLtHandle_t lt;
  cudaStream_t stream;
  void *workspace;
  size_t workspace_bytes;
  int there;
} blas;

/* Looks a name up in a library, and keeps what it found. */
template <class F>
static int blas_find(F *function, void *library, const char *name) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void *blas_library(const char *name, int version) {
  const char *folders[] = {"", "/usr/local/cuda/lib64/", "/opt/cuda/lib64/"};
  char path[160];
  for (const char *folder : folders) {
    snprintf(path, sizeof path, "%s%s.so.%d", folder, name, version);
    if (void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL)) return library;
  }
  return NULL;
}

/* Loads the library of the header's version, and says in words whether it is there. */
static const char *blas_open(cudaStream_t stream, void *workspace, size_t bytes) {
  static char said[64];
  void *lt = blas_library("libcublasLt", CUBLAS_VER_MAJOR);
  void *base = lt ? blas_library("libcublas", CUBLAS_VER_MAJOR) : NULL;
  int found = base && blas_find(&blas.gemm_ex, base, "cublasGemmStridedBatchedEx");
#define BLAS_FIND(name) found = found && blas_find(&blas.name, base, #name);
#define LT_FIND(name) found = found && blas_find(&blas.name, lt, #name);
  BLAS_FUNCTIONS(BLAS_FIND)
  LT_FUNCTIONS(LT_FIND)
  if (!found || blas.cublasCreate_v2(&blas.handle) || blas.cublasLtCreate(&blas.lt) ||
      blas.cublasSetStream_v2(blas.handle, stream) ||
      blas.cublasSetWorkspace_v2(blas.handle, workspace, bytes)) {
    snprintf(said, sizeof said, "no cuBLAS %d, GEMM rows have no peer", CUBLAS_VER_MAJOR);
    return said;
  }
  blas.stream = stream, blas.workspace = workspace, blas.workspace_bytes = bytes;
  blas.there = 1;
  snprintf(said, sizeof said, "cuBLAS %d.%d", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR);
  return said;
}

/* ---- GEMM ------------------------------------------------------------------------------------ */

static cudaDataType_t blas_type(int dtype) {
  return dtype == GPURED_F32   ? CUDA_R_32F
         : dtype == GPURED_F64 ? CUDA_R_64F
         : dtype == GPURED_F16 ? CUDA_R_16F
         : dtype == GPURED_I8  ? CUDA_R_8I
                               : CUDA_R_16BF;
}

static cudaDataType_t blas_product_type(int dtype) {
  return dtype == GPURED_I8 ? CUDA_R_32I : blas_type(dtype);
}

/* True fp32: pedantic keeps cuBLAS from tf32 and from splitting into bf16. */
static cublasComputeType_t blas_compute(int dtype) {
  return dtype == GPURED_F32   ? CUBLAS_COMPUTE_32F_PEDANTIC
         : dtype == GPURED_F64 ? CUBLAS_COMPUTE_64F
         : dtype == GPURED_I8  ? CUBLAS_COMPUTE_32I
                               : CUBLAS_COMPUTE_32F;
}

/* 1 and 0 as the compute type of dtype wants them. */
static const void *blas_scalar(int dtype, int one) {
  static const float f[2] = {0.0f, 1.0f};
  static const double d[2] = {0.0, 1.0};
  static const int32_t i[2] = {0, 1};
  if (dtype == GPURED_I8) return &i[one];
  return dtype == GPURED_F64 ? (const void *)&d[one] : (const void *)&f[one];
}

enum { LT_ALGORITHMS = 8 };

/* One GEMM with C by rows or by columns: the two cost the same, but not for who reads C then. By
 * rows it is B^T A^T that cuBLAS makes, by columns A B. */
struct blas_gemm {
  gemm_case g;
  int c_by_columns;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t first, second, c;
  cublasLtMatmulHeuristicResult_t found[LT_ALGORITHMS];
  int count; /* algorithms of cublasLt that were found */
  int best;  /* the fastest of them; -1: cublasGemmStridedBatchedEx */
};

static cublasOperation_t blas_op_a(const blas_gemm *p) {
  return p->c_by_columns ? CUBLAS_OP_T : CUBLAS_OP_N;
}

static cublasOperation_t blas_op_b(const blas_gemm *p) {
  return p->c_by_columns == p->g.b_by_columns ? CUBLAS_OP_N : CUBLAS_OP_T;
}

static int blas_layout(cublasLtMatrixLayout_t *l, const gemm_case *g, cudaDataType_t type,
                       int64_t rows, int64_t cols) {
  const int32_t batch = (int32_t)g->batch;
  const int64_t stride = rows * cols;
  return blas.cublasLtMatrixLayoutCreate(l, type, (uint64_t)rows, (uint64_t)cols, rows) ||
         blas.cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                               sizeof batch) ||
         blas.cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                               &stride, sizeof stride);
}

static int blas_describe(blas_gemm *p) {
  const gemm_case *g = &p->g;
  const cublasOperation_t op_a = blas_op_a(p), op_b = blas_op_b(p);
  const cublasOperation_t first = p->c_by_columns ? op_a : op_b;
  const cublasOperation_t second = p->c_by_columns ? op_b : op_a;
  const cudaDataType_t type = blas_type(g->dtype), product = blas_product_type(g->dtype);
  const cudaDataType_t scalar = g->dtype == GPURED_F64  ? CUDA_R_64F
                                : g->dtype == GPURED_I8 ? CUDA_R_32I
                                                        : CUDA_R_32F;
  const int64_t b_rows = g->b_by_columns ? g->k : g->n, b_cols = g->b_by_columns ? g->n : g->k;
  return blas.cublasLtMatmulDescCreate(&p->desc, blas_compute(g->dtype), scalar) ||
         blas.cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                             sizeof first) ||
         blas.cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                             sizeof second) ||
         blas_layout(p->c_by_columns ? &p->first : &p->second, g, type, g->k, g->m) ||
         blas_layout(p->c_by_columns ? &p->second : &p->first, g, type, b_rows, b_cols) ||
         blas_layout(&p->c, g, product, p->c_by_columns ? g->m : g->n,
                     p->c_by_columns ? g->n : g->m);
}

/* Nonzero if cublasLt has none; cublasGemmStridedBatchedEx may have one all the same. */
static int blas_find_algorithms(blas_gemm *p) {
  cublasLtMatmulPreference_t preference;
  if (blas_describe(p) || blas.cublasLtMatmulPreferenceCreate(&preference)) return 1;
  const int bad =
      blas.cublasLtMatmulPreferenceSetAttribute(
          preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &blas.workspace_bytes,
          sizeof blas.workspace_bytes) ||
      blas.cublasLtMatmulAlgoGetHeuristic(blas.lt, p->desc, p->first, p->second, p->c, p->c,
                                          preference, LT_ALGORITHMS, p->found, &p->count);
  blas.cublasLtMatmulPreferenceDestroy(preference);
  return bad;
}

/* C = A B with the algorithm `which`; nonzero if cuBLAS refuses. */
static int blas_run_gemm(const blas_gemm *p, int which, const void *a, const void *b, void *c) {
  const gemm_case *g = &p->g;
  const void *one = blas_scalar(g->dtype, 1), *zero = blas_scalar(g->dtype, 0);
  const cudaDataType_t type = blas_type(g->dtype), product = blas_product_type(g->dtype);
  const int m = (int)g->m, n = (int)g->n, k = (int)g->k, ldb = g->b_by_columns ? k : n;
  const int64_t sa = g->m * g->k, sb = g->k * g->n, sc = g->m * g->n;
  if (which >= 0)
    return blas.cublasLtMatmul(blas.lt, p->desc, one, p->c_by_columns ? a : b, p->first,
                               p->c_by_columns ? b : a, p->second, zero, c, p->c, c, p->c,
                               &p->found[which].algo, blas.workspace, blas.workspace_bytes,
                               blas.stream);
  if (p->c_by_columns)
    return blas.gemm_ex(blas.handle, blas_op_a(p), blas_op_b(p), m, n, k, one, a, type, k, sa, b,
                        type, ldb, sb, zero, c, product, m, sc, (int)g->batch,
                        blas_compute(g->dtype), CUBLAS_GEMM_DEFAULT);
  return blas.gemm_ex(blas.handle, blas_op_b(p), blas_op_a(p), n, m, k, one, b, type, ldb, sb, a,
                      type, k, sa, zero, c, product, n, sc, (int)g->batch, blas_compute(g->dtype),
                      CUBLAS_GEMM_DEFAULT);
}

static void blas_close_gemm(blas_gemm *p) {
  if (p->desc) blas.cublasLtMatmulDescDestroy(p->desc);
  if (p->first) blas.cublasLtMatrixLayoutDestroy(p->first);
  if (p->second) blas.cublasLtMatrixLayoutDestroy(p->second);
  if (p->c) blas.cublasLtMatrixLayoutDestroy(p->c);
  memset(p, 0, sizeof *p);
}

/* ---- GEMV: sums as products with ones -------------------------------------------------------- */

/* y = op(x) v for each item; x is rows x cols by columns, v of stride 0 is shared. y has the type
 * of the matrix or, with `wide`, f32. Nonzero if cuBLAS refuses or has none for the type. */
static int blas_gemv(int dtype, int wide, int transposed, const gemm_case *g, int64_t rows,
                     int64_t cols, const void *x, const void *v, int64_t v_stride, void *y) {
  const cublasOperation_t op = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int m = (int)rows, n = (int)cols, batch = (int)g->batch;
  const int64_t out = transposed ? cols : rows, in = rows * cols;
  const float one = 1.0f, zero = 0.0f;
  const double one64 = 1.0, zero64 = 0.0;
  if (dtype == GPURED_F32)
    return blas.cublasSgemvStridedBatched(blas.handle, op, m, n, &one, (const float *)x, m, in,
                                          (const float *)v, 1, v_stride, &zero, (float *)y, 1, out,
                                          batch);
  if (dtype == GPURED_F64)
    return blas.cublasDgemvStridedBatched(blas.handle, op, m, n, &one64, (const double *)x, m, in,
                                          (const double *)v, 1, v_stride, &zero64, (double *)y, 1,
                                          out, batch);
  if (dtype != GPURED_BF16) return 1;
  const __nv_bfloat16 *x16 = (const __nv_bfloat16 *)x, *v16 = (const __nv_bfloat16 *)v;
  if (wide)
    return blas.cublasTSSgemvStridedBatched(blas.handle, op, m, n, &one, x16, m, in, v16, 1,
                                            v_stride, &zero, (float *)y, 1, out, batch);
  return blas.cublasTSTgemvStridedBatched(blas.handle, op, m, n, &one, x16, m, in, v16, 1, v_stride,
                                          &zero, (__nv_bfloat16 *)y, 1, out, batch);
}

/* The sum over m of C, as C^T times ones. */
static int blas_sum_of_c(const blas_gemm *p, const void *c, const void *ones, void *y) {
  const gemm_case *g = &p->g;
  if (p->c_by_columns) return blas_gemv(g->dtype, 1, 1, g, g->m, g->n, c, ones, 0, y);
  return blas_gemv(g->dtype, 1, 0, g, g->n, g->m, c, ones, 0, y);
}

/* The same without C: (the sum of A's rows) times B, two matrices read once. */
static int blas_sum_of_product(const gemm_case *g, const void *a, const void *b, const void *ones,
                               void *u, void *y) {
  const int64_t rows = g->b_by_columns ? g->k : g->n, cols = g->b_by_columns ? g->n : g->k;
  return blas_gemv(g->dtype, 0, 0, g, g->k, g->m, a, ones, 0, u) ||
         blas_gemv(g->dtype, 1, g->b_by_columns, g, rows, cols, b, u, g->k, y);
}

#else

struct blas_gemm {
  gemm_case g;
  int c_by_columns, count, best;
};
static struct { int there; } blas;
static const char *blas_open(cudaStream_t, void *, size_t) {
  return "cuBLAS not in this build, GEMM rows have no peer";
}
static int blas_find_algorithms(blas_gemm *) { return 1; }
static int blas_run_gemm(const blas_gemm *, int, const void *, const void *, void *) { return 1; }
static void blas_close_gemm(blas_gemm *) {}
static int blas_sum_of_c(const blas_gemm *, const void *, const void *, void *) { return 1; }
static int blas_sum_of_product(const gemm_case *, const void *, const void *, const void *, void *,
                               void *) {
  return 1;
}

#endif
#endif /* BENCH_CUBLAS_H */
