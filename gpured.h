/*
 * gpured: reductions, prefix scans and fused batched GEMM-reduce for C, with the same bits on every
 * backend.
 *
 * SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the gpured authors. The full text of the licence is in the file LICENSE.
 *
 * WHAT IT IS
 *   One header. Without any macro it declares the API. In exactly one C or C++ file write
 *       #define GPURED_IMPLEMENTATION
 *       #include "gpured.h"
 *   to compile the CPU implementation there (with -fopenmp it uses threads), or define
 *   GPURED_STATIC in every file that wants a private copy, or link with the built library, of which
 *   gpured_omp.c is that one file.
 *
 * TWO EXAMPLES
 *   float total = gpured_sum_f32(x, n);
 *
 *   gpured_tensor a = gpured_matrix(data, GPURED_F32, rows, cols);
 *   gpured_tensor m = gpured_vector(out, GPURED_F32, rows);
 *   gpured_status st = gpured_reduce(GPURED_LOGSUMEXP, &a, 1u << 1, &m, NULL);
 *
 * CONTENTS
 *    1  Modes: the macros a user may define
 *    2  Types: status, dtype, op, tensor, options, GEMM description
 *    3  Functions: tensors, reduce, scan, GEMM-reduce, workspace, one-liners, information, DLPack
 *    4  Compiler and environment
 *    5  Scalars: bit patterns, 16-bit floats, min and max
 *    6  Tensors: sizes, extents in memory, overlap
 *    7  Validation
 *    8  Planning: a call as loops
 *    9  The order: tree, constants, tables of kernels, the plan of a GEMM-reduce
 *   10  Kernels, compiled again for each accumulator type and vector level
 *   11  Levels: which kernels run on this processor
 *   12  Threads and memory
 *   13  Reduce
 *   14  Scan
 *   15  GEMM-reduce
 *   16  Public functions
 *   17  Self-test
 *
 * DETERMINISM
 *   Results in the strict mode follow docs/ORDER.md (ORDER 1) to the bit, whatever the number of
 *   threads, the vector width, the strides and the compiler. What breaks it: value-changing flags
 *   (-ffast-math and its parts; the implementation refuses those it can see), x87 arithmetic
 *   (refused), a libm whose fma does not round once.
 */
#ifndef GPURED_H
#define GPURED_H

/** @file
 * The interface of gpured. With GPURED_IMPLEMENTATION the code follows below it. */

#include <stddef.h>
#include <stdint.h>

/* ============================================================================================== */
/* 1  Modes                                                                                       */
/* ============================================================================================== */

/**
 * @defgroup gpured_modes Modes and version
 *
 * Macros that a user may define before including the header:
 *
 * - `GPURED_IMPLEMENTATION`: in one file: compile the code there.
 * - `GPURED_STATIC`: every function gets internal linkage: a private copy for the file that
 *   includes the header. Implies GPURED_IMPLEMENTATION.
 * - `GPURED_CUDA`: the implementation knows the CUDA backend; gpured_cuda.cu is linked too.
 * - `GPURED_DLPACK`: declare gpured_from_dlpack(), which needs a dlpack.h.
 * - `GPURED_DLPACK_H`: that dlpack.h with its quotes or brackets, if not `<dlpack/dlpack.h>`.
 * - `GPURED_API`: what stands before every public function: set it to export or import from a
 *   shared library.
 * - `GPURED_NO_OPENMP`: never use OpenMP, even where the compiler has it switched on.
 * - `GPURED_PARALLEL_BYTES`: a call that touches fewer bytes wakes no thread (default 256 KiB).
 * - `GPURED_NO_SIMD`: compile the plain scalar kernels alone.
 * - `GPURED_NO_AVX512`: leave out the kernels for AVX-512, a third of the time to compile and of
 *   the code: processors that have it use those for AVX2.
 * - `GPURED_HEADER_NAME`: this file's name, if not `"gpured.h"`: the implementation includes it
 *   again.
 * @{
 */

/* The version of the header, read by the Makefile too: this is its only place. */
#define GPURED_VERSION_MAJOR 0 /**< First number of the version. */
#define GPURED_VERSION_MINOR 1 /**< Second number of the version. */
#define GPURED_VERSION_PATCH 0 /**< Third number of the version. */

/** The version of the header as one number: 10000 major + 100 minor + patch. gpured_version() is
 * that of the library. */
#define GPURED_VERSION \
  (GPURED_VERSION_MAJOR * 10000 + GPURED_VERSION_MINOR * 100 + GPURED_VERSION_PATCH)

/** The number of the order that defines the bits (docs/ORDER.md). */
#define GPURED_ORDER 1

/** @} */

#ifdef GPURED_STATIC
#ifndef GPURED_IMPLEMENTATION
#define GPURED_IMPLEMENTATION
#endif
#endif

#ifndef GPURED_API
#if defined(GPURED_STATIC) && (defined(__GNUC__) || defined(__clang__))
#define GPURED_API static __attribute__((unused))
#elif defined(GPURED_STATIC)
#define GPURED_API static
#elif defined(__GNUC__) || defined(__clang__)
#define GPURED_API extern __attribute__((visibility("default")))
#else
#define GPURED_API extern
#endif
#endif

/* gcc takes a pointer to const for a promise that the memory is read, and warns of outputs that are
 * not filled yet. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
#define GPURED__NO_READ __attribute__((access(none, 1)))
#else
#define GPURED__NO_READ
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ============================================================================================== */
/* 2  Types                                                                                       */
/* ============================================================================================== */

/** @defgroup gpured_types Types
 * @{ */

/** What a call returns. Values are pinned: they never change between versions. A call that does not
 * return GPURED_OK has written to no output, unless the error is GPURED_ERR_DEVICE. */
typedef enum gpured_status {
  /** Done. */
  GPURED_OK = 0,
  /** NULL or misaligned pointer; value, axis or flag that does not exist. */
  GPURED_ERR_ARG = 1,
  /** ndim outside 0..8, negative extent, shapes that do not fit, arg-op of nothing. */
  GPURED_ERR_SHAPE = 2,
  /** Each argument is valid, the combination is not offered (see the tables in README.md). */
  GPURED_ERR_UNSUPPORTED = 3,
  /** Sizes or offsets beyond int64_t; an index that the output type cannot hold. */
  GPURED_ERR_OVERFLOW = 4,
  /** An output overlaps an input or another output, or itself through its strides. */
  GPURED_ERR_ALIAS = 5,
  /** options->workspace is given and too small. */
  GPURED_ERR_WORKSPACE = 6,
  /** Memory for the workspace could not be had. */
  GPURED_ERR_ALLOC = 7,
  /** The backend asked for is not built in, or has no device. */
  GPURED_ERR_NO_BACKEND = 8,
  /** The device reported an error; outputs are undefined. */
  GPURED_ERR_DEVICE = 9
} gpured_status;

/** Element types. All of them are input to every operation of gpured_reduce(). */
typedef enum gpured_dtype {
  GPURED_F32 = 1,  /**< IEEE binary32: float. */
  GPURED_F64 = 2,  /**< IEEE binary64: double. */
  GPURED_F16 = 3,  /**< IEEE binary16, stored as a 16-bit pattern. */
  GPURED_BF16 = 4, /**< The upper half of a binary32, stored as a 16-bit pattern. */
  GPURED_I8 = 5,   /**< int8_t. */
  GPURED_U8 = 6,   /**< uint8_t. */
  GPURED_I32 = 7,  /**< int32_t. */
  GPURED_U32 = 8,  /**< uint32_t. */
  GPURED_I64 = 9,  /**< int64_t. */
  GPURED_U64 = 10  /**< uint64_t. */
} gpured_dtype;

/**
 * Operations. docs/ORDER.md section 3 defines each, with NaN, ties and empty input; its class fixes
 * the accumulator and what a result may be stored as:
 *
 * - value: accumulates in f32 for F32, F16 and BF16 (or f64: options->acc_dtype), f64 for F64,
 *   64-bit integers modulo 2^64 for integers. Stored as any float type for floats, as any integer
 *   type for integers.
 * - real: the same, but f64 for integers. Stored as any float type.
 * - index, count: stored as I64, or I32 if the extent fits.
 * - truth: elements are tested for being zero. Stored as any integer type, as 1 or 0.
 */
typedef enum gpured_op {
  GPURED_SUM = 1,           /**< Sum; of nothing +0. Value. */
  GPURED_PROD = 2,          /**< Product; of nothing 1. Value. */
  GPURED_MIN = 3,           /**< Least element; any NaN gives NaN, -0 is less than +0. Value. */
  GPURED_MAX = 4,           /**< Greatest element, likewise. Value. */
  GPURED_MEAN = 5,          /**< Sum divided by the count. Real. */
  GPURED_SUMSQ = 6,         /**< Sum of squares. Value. */
  GPURED_NORM1 = 7,         /**< Sum of absolute values. Value. */
  GPURED_NORM2 = 8,         /**< Square root of the sum of squares, not rescaled. Real. */
  GPURED_ABSMAX = 9,        /**< Largest absolute value. Value. */
  GPURED_ARGMIN = 10,       /**< Where the least element is; the first NaN wins. Index. */
  GPURED_ARGMAX = 11,       /**< Where the greatest element is, likewise. Index. */
  GPURED_LOGSUMEXP = 12,    /**< log(sum(exp(x))), safe against overflow. Real. */
  GPURED_VAR = 13,          /**< Variance; the divisor is n - options->ddof. Real. */
  GPURED_STD = 14,          /**< Standard deviation, likewise. Real. */
  GPURED_ANY = 15,          /**< Is one element not zero? Truth. */
  GPURED_ALL = 16,          /**< Is every element not zero? Truth. */
  GPURED_COUNT_NONZERO = 17 /**< How many elements are not zero. Count. */
} gpured_op;

/** Where a tensor lives: DLPack's codes. */
typedef enum gpured_device {
  GPURED_CPU = 1,        /**< Host memory, pinned memory too. */
  GPURED_CUDA_DEVICE = 2 /**< Memory that the GPU device_id reaches. */
} gpured_device;

/** options->backend: who works. */
typedef enum gpured_backend {
  /** Follows the data: the tensors' device decides. */
  GPURED_BACKEND_AUTO = 0,
  /** The CPU; tensors must be on the host. */
  GPURED_BACKEND_CPU = 1,
  /** The GPU; tensors on the host go there and back, and the call waits for them. */
  GPURED_BACKEND_CUDA = 2
} gpured_backend;

/** options->precision: whether the bits are those of the order. */
typedef enum gpured_precision {
  /** STRICT, except for a GEMM on F16 or BF16 on a GPU, which is TENSOR. */
  GPURED_PRECISION_AUTO = 0,
  /** The bits of docs/ORDER.md. */
  GPURED_PRECISION_STRICT = 1,
  /** Tensor cores allowed, with a bound in place of the bits; on the CPU the strict result. */
  GPURED_PRECISION_TENSOR = 2
} gpured_precision;

/** Flags of gpured_scan(). */
enum {
  GPURED_SCAN_EXCLUSIVE = 1u, /**< Each result leaves its own element out. */
  GPURED_SCAN_REVERSE = 2u    /**< From the last element to the first. */
};

/** gpured_gemm.map: applied to each element of the product before it is reduced. */
typedef enum gpured_map {
  GPURED_MAP_NONE = 0,  /**< The element itself. */
  GPURED_MAP_ABS = 1,   /**< Its absolute value. */
  GPURED_MAP_SQUARE = 2 /**< Its square. */
} gpured_map;

/** gpured_gemm.form: what the product stands for. */
typedef enum gpured_form {
  /** The matrix product. */
  GPURED_FORM_PLAIN = 0,
  /** The squared distance of row i of A and column j of B, as |a_i|^2 + |b_j|^2 - 2 a_i.b_j. It may
   * come out slightly below zero where the two are nearly equal. */
  GPURED_FORM_L2 = 1
} gpured_form;

#define GPURED_MAX_NDIM 8    /**< Most axes of a tensor. */
#define GPURED_MAX_RESULTS 8 /**< Most results of one GEMM-reduce. */

/**
 * A strided view; it owns nothing. Element (i0, i1, ...) is at data + (i0*strides[0] +
 * i1*strides[1] + ...) elements. ndim = 0 is one element. Any tensor may be made by hand; see also
 * gpured_vector(), gpured_matrix(), gpured_array() and gpured_from_dlpack().
 */
typedef struct gpured_tensor {
  /** Element (0, 0, ...), wherever in memory that is; aligned to its element's size. May be NULL
   * when the tensor has no elements. */
  void *data;
  int32_t dtype;     /**< gpured_dtype. */
  int32_t device;    /**< gpured_device. */
  int32_t device_id; /**< Which GPU; 0 on the CPU. */
  int32_t ndim;      /**< Number of axes, 0..GPURED_MAX_NDIM. */
  /** Extent of each axis, not negative; ignored beyond ndim. */
  int64_t shape[GPURED_MAX_NDIM];
  /** Step of each axis in elements, not bytes; 0 repeats an element (inputs only), negative is
   * allowed. Ignored beyond ndim, and where nothing is stepped to: on an axis of one element, and
   * in a tensor without elements. */
  int64_t strides[GPURED_MAX_NDIM];
} gpured_tensor;

/**
 * Options; NULL in their place means the defaults. Make one with gpured_default_options() and
 * change what you need: zero is the default of every field. Nothing in it is changed by a call, so
 * threads may share one without workspace.
 */
typedef struct gpured_options {
  /** sizeof(gpured_options) of the caller; set by gpured_default_options(). */
  uint32_t struct_size;
  int32_t backend;   /**< gpured_backend. */
  int32_t precision; /**< gpured_precision. */
  /** Accumulator: 0 = docs/ORDER.md section 1; for floats also GPURED_F32 (not of F64) or
   * GPURED_F64. */
  int32_t acc_dtype;
  int32_t threads; /**< CPU threads: 0 = OpenMP's own default; the bits do not depend on it. */
  int32_t ddof;    /**< VAR, STD: the divisor is n - ddof; not negative. */
  void *stream;    /**< CUDA: the cudaStream_t on which the call works. */
  /** Scratch memory on the tensors' device, 64-byte aligned, for one call at a time; NULL = alloc()
   * or malloc(), on a GPU a pool that keeps up to 64 MiB between calls. */
  void *workspace;
  size_t workspace_bytes; /**< Its size; 0 without workspace. */
  /** Where memory comes from in place of malloc(): 64-byte aligned, NULL = failure. Set together
   * with dealloc, or neither. */
  void *(*alloc)(void *user, size_t bytes, void *stream);
  /** Gives back what alloc() gave. */
  void (*dealloc)(void *user, void *ptr, size_t bytes, void *stream);
  void *user; /**< First argument of alloc() and dealloc(). */
} gpured_options;

/** One result of a fused GEMM-reduce: the operation and where its result goes. */
typedef struct gpured_result {
  /** gpured_op: SUM MEAN MIN MAX ARGMIN ARGMAX SUMSQ NORM1 NORM2 ABSMAX LOGSUMEXP. */
  int32_t op;
  gpured_tensor out; /**< [batch..., N] (axis 0) or [batch..., M] (axis 1). */
} gpured_result;

/**
 * What gpured_gemm_reduce_ex() does, for each item of the batch:
 *
 *     C(i,j) = sum over k of A(i,k) B(k,j)
 *     V(i,j) = map(alpha C(i,j) + bias_m(i) + bias_n(j))
 *     out(j) = op over i of V(i,j) (axis 0), or out(i) = op over j of V(i,j) (axis 1)
 *
 * the last for every entry of results. Make one with gpured_default_gemm() and fill in a, b, axis,
 * count and results.
 */
typedef struct gpured_gemm {
  uint32_t struct_size; /**< sizeof(gpured_gemm) of the caller; set by gpured_default_gemm(). */
  int32_t axis;         /**< The axis that is reduced: 0 = M, 1 = N. */
  int32_t map;          /**< gpured_map. */
  int32_t form; /**< gpured_form; with L2, alpha is 0 and the biases are NULL; floats only. */
  double alpha; /**< Factor of the product; 0 means 1; floats only. */
  const gpured_tensor *a; /**< [batch..., M, K]. */
  /** [batch..., K, N], same dtype as a; batch axes broadcast as in NumPy. */
  const gpured_tensor *b;
  /** NULL or [batch..., M], batch axes broadcast; dtype of a, or F32 if a is F16 or BF16. Floats
   * only. */
  const gpured_tensor *bias_m;
  const gpured_tensor *bias_n; /**< NULL or [batch..., N], likewise. */
  /** NULL, or where V is stored: [batch..., M, N]. A float type where the results accumulate in
   * floats, otherwise an integer type. */
  const gpured_tensor *c;
  int32_t count;                /**< Entries of results, 1..GPURED_MAX_RESULTS. */
  const gpured_result *results; /**< What is computed in one pass over the product. */
} gpured_gemm;

/** @} */

/* ============================================================================================== */
/* 3  Functions                                                                                   */
/* ============================================================================================== */

/**
 * @defgroup gpured_functions Functions
 *
 * Every function may be called from any thread: there is no global state (but two numbers that are
 * set once: what the processor can do, and which process used threads first). Inputs are never
 * written. Two calls in flight must not share a workspace or write the same output. All pointers
 * are host pointers unless a tensor's device says otherwise.
 *
 * Calls on tensors of a GPU start on options->stream and return; tensors on the host are done when
 * the call returns. All tensors of a call live in one place.
 *
 * The functions that return a status check their arguments first, and have written nothing when
 * they refuse one. For every tensor and option: GPURED_ERR_ARG (NULL, misaligned, outside its
 * enumeration), GPURED_ERR_SHAPE (ndim, negative extent), GPURED_ERR_OVERFLOW (too large),
 * GPURED_ERR_NO_BACKEND, GPURED_ERR_UNSUPPORTED (tensors in several places, GPU tensors with the
 * CPU backend, an accumulator that the dtype does not offer), GPURED_ERR_WORKSPACE and
 * GPURED_ERR_ALLOC (where a workspace is needed), GPURED_ERR_DEVICE. What a function refuses beyond
 * that stands beside it.
 * @{
 */

/** Default options: all zero but for struct_size.
 * @code
 * float x[4] = {1, 2, 3, 4}, sum;
 * gpured_tensor in = gpured_vector(x, GPURED_F32, 4), out = gpured_vector(&sum, GPURED_F32, 1);
 * gpured_options options = gpured_default_options();
 * options.acc_dtype = GPURED_F64;
 * gpured_status status = gpured_reduce(GPURED_SUM, &in, 1u << 0, &out, &options);
 * @endcode */
static inline gpured_options gpured_default_options(void) {
  gpured_options o;
  unsigned char *p = (unsigned char *)&o;
  size_t i;
  for (i = 0; i < sizeof o; ++i) p[i] = 0;
  o.struct_size = (uint32_t)sizeof o;
  return o; /* cppcheck-suppress uninitvar ; the loop sets every byte */
}

/** Default GEMM description: all zero but for struct_size. */
static inline gpured_gemm gpured_default_gemm(void) {
  gpured_gemm g;
  unsigned char *p = (unsigned char *)&g;
  size_t i;
  for (i = 0; i < sizeof g; ++i) p[i] = 0;
  g.struct_size = (uint32_t)sizeof g;
  return g; /* cppcheck-suppress uninitvar ; the loop sets every byte */
}

/** A contiguous vector of n elements on the host. Nothing is checked here: the call that uses the
 * tensor checks it. For data of a GPU, set device and device_id of what comes back. */
GPURED__NO_READ GPURED_API gpured_tensor gpured_vector(const void *data, gpured_dtype dtype,
                                                       int64_t n);

/** A row-major matrix on the host; strides (cols, 1). Otherwise as gpured_vector(). */
GPURED__NO_READ GPURED_API gpured_tensor gpured_matrix(const void *data, gpured_dtype dtype,
                                                       int64_t rows, int64_t cols);

/** An array of ndim axes on the host; strides in elements, or NULL for row-major. ndim outside 0..8
 * or a NULL shape with ndim > 0 gives a tensor that every call refuses with GPURED_ERR_SHAPE.
 * Otherwise as gpured_vector().
 * @code
 * double x[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, best;
 * const int64_t shape[2] = {2, 3}, strides[2] = {6, 2};   // every second element of two rows of 6
 * gpured_tensor in = gpured_array(x, GPURED_F64, 2, shape, strides);
 * gpured_tensor out = gpured_array(&best, GPURED_F64, 0, NULL, NULL);
 * gpured_status status = gpured_reduce(GPURED_MAX, &in, 3u, &out, NULL);   // best = 10
 * @endcode */
GPURED__NO_READ GPURED_API gpured_tensor gpured_array(const void *data, gpured_dtype dtype,
                                                      int ndim, const int64_t *shape,
                                                      const int64_t *strides);

/**
 * Reduces the axes of `in` whose bits are set in `axes` and writes the results to `out`.
 *
 * @param op      the operation.
 * @param in      the input: any dtype, any strides.
 * @param axes    bit 0 = axis 0. Several axes are one sequence, in row-major order. 0 reduces
 *                nothing: each element by itself.
 * @param out     the kept axes in their order, or all axes with the reduced ones of extent 1; a
 *                single result may also be any tensor of one element. Its dtype follows from the
 *                operation's class (gpured_op). Strides: each axis must step over all that the
 *                finer ones reach.
 * @param options NULL for the defaults.
 *
 * Accumulator: the operation's class. Empty sequences: docs/ORDER.md section 3. Workspace:
 * gpured_reduce_workspace() bytes. The CPU needs none, but reduces the columns of a wide matrix
 * faster with up to 2 MiB a thread, for which it asks the workspace, alloc() or malloc().
 *
 * Aliasing: out must not overlap in. Interleaved memory is told apart where one stride separates it
 * (columns of one matrix); other interleavings are refused.
 *
 * @retval GPURED_ERR_ARG         an axis that `in` does not have.
 * @retval GPURED_ERR_SHAPE       `out` does not fit; ARGMIN, ARGMAX of nothing.
 * @retval GPURED_ERR_UNSUPPORTED `out` has a dtype that the operation cannot be stored as.
 * @retval GPURED_ERR_OVERFLOW    an index or a count that an I32 output may not hold.
 * @retval GPURED_ERR_ALIAS       `out` overlaps `in` or itself.
 *
 * @code
 * float a[6] = {0, 1, 2, 3, 4, 5}, rows[2];
 * gpured_tensor in = gpured_matrix(a, GPURED_F32, 2, 3), out = gpured_vector(rows, GPURED_F32, 2);
 * gpured_status status = gpured_reduce(GPURED_SUM, &in, 1u << 1, &out, NULL);   // rows = 3 12
 * @endcode
 */
GPURED_API gpured_status gpured_reduce(gpured_op op, const gpured_tensor *in, uint32_t axes,
                                       const gpured_tensor *out, const gpured_options *options);

/**
 * Prefix scan of every line of `in` along `axis`: y[i] = op over x[0..i].
 *
 * @param op      SUM, PROD, MIN, MAX or LOGSUMEXP.
 * @param in      the input: any dtype, any strides.
 * @param axis    the axis of the lines, from 0.
 * @param flags   0 or GPURED_SCAN_EXCLUSIVE (z[0] = the result for nothing, z[i] = y[i-1]),
 *                GPURED_SCAN_REVERSE (from the last to the first), or both.
 * @param out     the shape of in; a float type for floats and for LOGSUMEXP, an integer type for
 *                integers. Strides as in gpured_reduce().
 * @param options NULL for the defaults.
 *
 * Accumulator: the operation's class. Workspace: gpured_scan_workspace() bytes, none on the CPU.
 * Aliasing: out may be exactly in (same data, strides and element size); any other overlap is
 * refused as in gpured_reduce().
 *
 * @retval GPURED_ERR_ARG         an axis or a flag that does not exist.
 * @retval GPURED_ERR_SHAPE       `out` has another shape.
 * @retval GPURED_ERR_UNSUPPORTED another operation; a dtype of `out` that is not as above.
 * @retval GPURED_ERR_ALIAS       `out` overlaps itself, or `in` without being it.
 *
 * @code
 * int32_t x[5] = {3, 1, 4, 1, 5};
 * gpured_tensor t = gpured_vector(x, GPURED_I32, 5);
 * gpured_status status = gpured_scan(GPURED_SUM, &t, 0, GPURED_SCAN_EXCLUSIVE, &t, NULL);
 * // x = 0 3 4 8 9
 * @endcode
 */
GPURED_API gpured_status gpured_scan(gpured_op op, const gpured_tensor *in, int axis,
                                     unsigned flags, const gpured_tensor *out,
                                     const gpured_options *options);

/**
 * d = op over one axis of the matrix product a b, which is never stored.
 *
 * @param op      as in gpured_result.
 * @param a       [batch..., M, K].
 * @param b       [batch..., K, N] of the same dtype. Batch axes broadcast as in NumPy; layouts are
 *                strides, so a transposed operand is one with its strides exchanged.
 * @param axis    0 reduces over M, 1 over N.
 * @param d       [batch..., N] (axis 0) or [batch..., M] (axis 1); it may keep the reduced axis
 *                with extent 1. Dtype and strides as in gpured_reduce().
 * @param options NULL for the defaults. Workspace: gpured_gemm_reduce_workspace() bytes.
 *
 * Accumulator: the operation's class, also for the product; F16 and BF16 on a GPU use tensor cores
 * unless options->precision is STRICT. Aliasing: d must not overlap a or b.
 *
 * @retval GPURED_ERR_ARG         an axis other than 0 and 1.
 * @retval GPURED_ERR_SHAPE       shapes do not fit; ARGMIN, ARGMAX of nothing.
 * @retval GPURED_ERR_UNSUPPORTED another operation; `a` and `b` of two dtypes; a dtype that the
 *                                operation cannot be stored as.
 * @retval GPURED_ERR_OVERFLOW    an index that an I32 output may not hold.
 * @retval GPURED_ERR_ALIAS       `d` overlaps `a`, `b` or itself.
 *
 * @code
 * double x[4] = {1, 2, 3, 4}, y[6] = {1, 0, 2, 0, 1, 1}, most[3];
 * gpured_tensor a = gpured_matrix(x, GPURED_F64, 2, 2), b = gpured_matrix(y, GPURED_F64, 2, 3);
 * gpured_tensor d = gpured_vector(most, GPURED_F64, 3);
 * gpured_status status = gpured_gemm_reduce(GPURED_MAX, &a, &b, 0, &d, NULL);   // most = 3 4 10
 * @endcode
 */
GPURED_API gpured_status gpured_gemm_reduce(gpured_op op, const gpured_tensor *a,
                                            const gpured_tensor *b, int axis,
                                            const gpured_tensor *d, const gpured_options *options);

/**
 * The same with everything that gpured_gemm describes, several results in one pass. All of them
 * share an accumulator type: integer inputs cannot mix MEAN, NORM2 or LOGSUMEXP (computed in f64)
 * with the others. No output may overlap an input or another output.
 *
 * @param gemm    what to compute.
 * @param options NULL for the defaults. Workspace: gpured_gemm_reduce_ex_workspace() bytes.
 *
 * @retval GPURED_ERR_ARG         struct_size, axis, map, form or count are none; results is NULL.
 * @retval GPURED_ERR_SHAPE       as gpured_gemm_reduce(), also for biases and c.
 * @retval GPURED_ERR_UNSUPPORTED as gpured_gemm_reduce(); accumulators that do not agree; alpha,
 *                                biases or the L2 form with integers; alpha or biases with the L2
 *                                form; a dtype of a bias or c that is not offered.
 * @retval GPURED_ERR_OVERFLOW    an index that an I32 output may not hold.
 * @retval GPURED_ERR_ALIAS       an output overlaps an input, another output or itself.
 *
 * Which of two centres (columns of b) is nearest to each of three points (rows of a), how far:
 * @code
 * float points[6] = {0, 0, 9, 9, 1, 2}, centres[4] = {1, 8, 1, 8}, square[3];
 * int32_t nearest[3];
 * gpured_tensor a = gpured_matrix(points, GPURED_F32, 3, 2);
 * gpured_tensor b = gpured_matrix(centres, GPURED_F32, 2, 2);
 * gpured_result results[2] = {{GPURED_ARGMIN, gpured_vector(nearest, GPURED_I32, 3)},
 *                             {GPURED_MIN, gpured_vector(square, GPURED_F32, 3)}};
 * gpured_gemm gemm = gpured_default_gemm();
 * gemm.a = &a;
 * gemm.b = &b;
 * gemm.axis = 1;
 * gemm.form = GPURED_FORM_L2;
 * gemm.count = 2;
 * gemm.results = results;
 * gpured_status status = gpured_gemm_reduce_ex(&gemm, NULL);   // nearest = 0 1 0, square = 2 2 1
 * @endcode
 */
GPURED_API gpured_status gpured_gemm_reduce_ex(const gpured_gemm *gemm,
                                               const gpured_options *options);

/** The workspace that gpured_reduce() with the same arguments needs, in bytes. *bytes is 0 after an
 * error; the errors are those of the call, and GPURED_ERR_ARG for bytes NULL. options->workspace is
 * not looked at; data pointers may be NULL. Memory of that size, aligned to 64 bytes, makes the
 * call free of allocation, wherever its data lie. A query that is told where does better for
 * products on a GPU: it asks for room to copy operands of f16, bf16 and bytes that begin beside a
 * multiple of 16 bytes, without which they are multiplied many times slower.
 * @code
 * float x[6] = {0, 1, 2, 3, 4, 5}, y[6] = {1, 1, 1, 1, 1, 1}, d[2];
 * gpured_tensor a = gpured_matrix(x, GPURED_F32, 2, 3), b = gpured_matrix(y, GPURED_F32, 3, 2);
 * gpured_tensor out = gpured_vector(d, GPURED_F32, 2);
 * gpured_options options = gpured_default_options();
 * size_t bytes;
 * gpured_status status = gpured_gemm_reduce_workspace(GPURED_MAX, &a, &b, 0, &out, NULL, &bytes);
 * char *memory = (char *)malloc(bytes + 63);
 * options.workspace = memory + (64 - (uintptr_t)memory % 64) % 64;
 * options.workspace_bytes = bytes;
 * if (!status) status = gpured_gemm_reduce(GPURED_MAX, &a, &b, 0, &out, &options);
 * free(memory);
 * @endcode */
GPURED_API gpured_status gpured_reduce_workspace(gpured_op op, const gpured_tensor *in,
                                                 uint32_t axes, const gpured_tensor *out,
                                                 const gpured_options *options, size_t *bytes);
/** The same for gpured_scan(). */
GPURED_API gpured_status gpured_scan_workspace(gpured_op op, const gpured_tensor *in, int axis,
                                               unsigned flags, const gpured_tensor *out,
                                               const gpured_options *options, size_t *bytes);
/** The same for gpured_gemm_reduce(). */
GPURED_API gpured_status gpured_gemm_reduce_workspace(gpured_op op, const gpured_tensor *a,
                                                      const gpured_tensor *b, int axis,
                                                      const gpured_tensor *d,
                                                      const gpured_options *options, size_t *bytes);
/** The same for gpured_gemm_reduce_ex(). */
GPURED_API gpured_status gpured_gemm_reduce_ex_workspace(const gpured_gemm *gemm,
                                                         const gpured_options *options,
                                                         size_t *bytes);

/**
 * @name One-liners
 * For contiguous host arrays of n elements, with default options: they run on the CPU. n = 0 gives
 * the operation's result for nothing (argmin and argmax: -1). x == NULL with n > 0 gives NaN (-1).
 * @code
 * double x[5] = {3, 1, 4, 1, 5}, sums[5];
 * double total = gpured_sum_f64(x, 5);          // 14
 * int64_t where = gpured_argmin_f64(x, 5);      // 1
 * gpured_status status = gpured_cumsum_f64(x, sums, 5);   // sums = 3 4 8 9 14
 * @endcode
 * @{
 */
GPURED_API float gpured_sum_f32(const float *x, size_t n);       /**< Sum. */
GPURED_API float gpured_mean_f32(const float *x, size_t n);      /**< Mean; of nothing NaN. */
GPURED_API float gpured_min_f32(const float *x, size_t n);       /**< Least; of nothing +inf. */
GPURED_API float gpured_max_f32(const float *x, size_t n);       /**< Greatest; of nothing -inf. */
GPURED_API int64_t gpured_argmin_f32(const float *x, size_t n);  /**< Index of the least. */
GPURED_API int64_t gpured_argmax_f32(const float *x, size_t n);  /**< Index of the greatest. */
GPURED_API double gpured_sum_f64(const double *x, size_t n);     /**< Sum. */
GPURED_API double gpured_mean_f64(const double *x, size_t n);    /**< Mean; of nothing NaN. */
GPURED_API double gpured_min_f64(const double *x, size_t n);     /**< Least; of nothing +inf. */
GPURED_API double gpured_max_f64(const double *x, size_t n);     /**< Greatest; of nothing -inf. */
GPURED_API int64_t gpured_argmin_f64(const double *x, size_t n); /**< Index of the least. */
GPURED_API int64_t gpured_argmax_f64(const double *x, size_t n); /**< Index of the greatest. */

/** Sums of the rows of a row-major matrix; out has `rows` elements and must not overlap a. */
GPURED_API gpured_status gpured_sum_rows_f32(const float *a, size_t rows, size_t cols, float *out);
/** Sums of its columns; out has `cols` elements and must not overlap a. */
GPURED_API gpured_status gpured_sum_cols_f32(const float *a, size_t rows, size_t cols, float *out);
/** The inclusive prefix sum: y[i] = x[0] + ... + x[i]; y may be x. */
GPURED_API gpured_status gpured_cumsum_f32(const float *x, float *y, size_t n);
/** As gpured_sum_rows_f32(). */
GPURED_API gpured_status gpured_sum_rows_f64(const double *a, size_t rows, size_t cols,
                                             double *out);
/** As gpured_sum_cols_f32(). */
GPURED_API gpured_status gpured_sum_cols_f64(const double *a, size_t rows, size_t cols,
                                             double *out);
/** As gpured_cumsum_f32(). */
GPURED_API gpured_status gpured_cumsum_f64(const double *x, double *y, size_t n);
/** @} */

/** @name Information
 * @{ */
/** A short English text for a status, never NULL. */
GPURED_API const char *gpured_status_string(gpured_status status);

/** Bytes of an element, 0 for a value that is no dtype. */
GPURED_API size_t gpured_dtype_size(gpured_dtype dtype);

/** GPURED_VERSION of the library that was linked. */
GPURED_API unsigned gpured_version(void);

/** 1 if a CUDA device can be used, 0 otherwise (also when the backend is not built in). */
GPURED_API int gpured_cuda_available(void);

/** The vector code that runs on this processor: "scalar", "sse2", "avx2", "avx512" or "neon". The
 * environment variable GPURED_CPU, read at the first call, can force a lower one. */
GPURED_API const char *gpured_cpu_level(void);

/** Checks within milliseconds that this build on this machine gives the bits of the order: on the
 * CPU with the vector code in use, and on the GPU if there is one (its first call takes longer).
 * GPURED_OK, or GPURED_ERR_UNSUPPORTED when flags or hardware change the arithmetic;
 * GPURED_ERR_ALLOC and GPURED_ERR_DEVICE as from the calls that it makes. */
GPURED_API gpured_status gpured_selftest(void);
/** @} */

/** @} */

#ifdef __cplusplus
}
#endif
#endif /* GPURED_H */

/* ---- DLPack: the user's own dlpack.h, also when the header was included without it before ---- */
#if defined(GPURED_DLPACK) && !defined(GPURED__DLPACK)
#define GPURED__DLPACK
#ifndef GPURED_DLPACK_H
/** The dlpack.h that is included. */
#define GPURED_DLPACK_H <dlpack/dlpack.h>
#endif
#include GPURED_DLPACK_H

/* 0 for a type that gpured does not have. Booleans are bytes; older headers have no name for their
 * code, 6. */
static inline int32_t gpured__dlpack_dtype(DLDataType type) {
  if (type.lanes != 1) return 0;
  switch (type.code << 8 | type.bits) {
    case kDLFloat << 8 | 32:
      return GPURED_F32;
    case kDLFloat << 8 | 64:
      return GPURED_F64;
    case kDLFloat << 8 | 16:
      return GPURED_F16;
    case kDLBfloat << 8 | 16:
      return GPURED_BF16;
    case kDLInt << 8 | 8:
      return GPURED_I8;
    case kDLUInt << 8 | 8:
    case 6 << 8 | 8:
      return GPURED_U8;
    case kDLInt << 8 | 32:
      return GPURED_I32;
    case kDLUInt << 8 | 32:
      return GPURED_U32;
    case kDLInt << 8 | 64:
      return GPURED_I64;
    case kDLUInt << 8 | 64:
      return GPURED_U64;
    default:
      return 0;
  }
}

/**
 * @ingroup gpured_functions
 * Borrows a DLPack tensor: fills `to` with a view of the same memory. Nothing is copied, owned or
 * released; the lender's tensor must outlive the use of `to`, and stays as it is. Only there with
 * GPURED_DLPACK; tested with the dlpack.h of DLPack 0.6 and 1.1.
 *
 * Strides are elements in both; NULL strides are row-major. byte_offset is added to the data.
 * Booleans become GPURED_U8. Pinned host memory (kDLCUDAHost) is the CPU's. Managed memory
 * (kDLCUDAManaged) is the GPU's, where those who allocate it mean to use it; setting to->device to
 * GPURED_CPU and to->device_id to 0 afterwards has the CPU work on it. Data, extents and strides
 * are checked by the call that uses the tensor, as everywhere.
 *
 *     DLManagedTensor *lent = ...;
 *     gpured_tensor in;
 *     gpured_status status = gpured_from_dlpack(&lent->dl_tensor, &in);
 *     ...                       // calls on in
 *     lent->deleter(lent);      // from now on in shows nothing
 *
 * @param from the tensor to borrow, of a DLManagedTensor or DLManagedTensorVersioned its dl_tensor.
 * @param to   where the view goes; not touched after an error.
 *
 * @retval GPURED_ERR_ARG         from or to is NULL; shape is NULL with axes.
 * @retval GPURED_ERR_SHAPE       ndim outside 0..8; negative extent.
 * @retval GPURED_ERR_UNSUPPORTED another device; a type that gpured does not have, lanes other
 *                                than 1 among them.
 * @retval GPURED_ERR_OVERFLOW    byte_offset beyond the address space.
 */
static inline gpured_status gpured_from_dlpack(const DLTensor *from, gpured_tensor *to) {
  gpured_tensor t;
  int32_t dtype, i, cuda = 0;
  if (!from || !to || (from->ndim > 0 && !from->shape)) return GPURED_ERR_ARG;
  if (from->ndim < 0 || from->ndim > GPURED_MAX_NDIM) return GPURED_ERR_SHAPE;
  for (i = 0; i < from->ndim; ++i)
    if (from->shape[i] < 0) return GPURED_ERR_SHAPE;
  dtype = gpured__dlpack_dtype(from->dtype);
  if (!dtype) return GPURED_ERR_UNSUPPORTED;
  switch ((int)from->device.device_type) {
    case kDLCUDA:
    case kDLCUDAManaged:
      cuda = 1;
      break;
    case kDLCPU:
    case kDLCUDAHost:
      break;
    default:
      return GPURED_ERR_UNSUPPORTED;
  }
  if (from->byte_offset > (uint64_t)PTRDIFF_MAX) return GPURED_ERR_OVERFLOW;
  t = gpured_array(from->data, (gpured_dtype)dtype, from->ndim, from->shape, from->strides);
  if (t.data) t.data = (char *)t.data + (size_t)from->byte_offset;
  if (cuda) {
    t.device = GPURED_CUDA_DEVICE;
    t.device_id = from->device.device_id;
  }
  *to = t;
  return GPURED_OK;
}
#endif /* GPURED_DLPACK */

#ifdef GPURED_IMPLEMENTATION
/* Section 11 includes this file again for section 10 alone. */
#if !defined(GPURED__NESTED) && !defined(GPURED__BODY)
#define GPURED__BODY

/* ============================================================================================== */
/* 4  Compiler and environment                                                                    */
/* ============================================================================================== */
/*
 * The bits depend on IEEE arithmetic, so whatever would change it is either refused here
 * (value-changing flags, x87) or switched off for the time of a call (flush-to-zero, other rounding
 * modes). Products that must round on their own pass through gpured__keep_*, because compilers fuse
 * a*b+c under -march flags even where a pragma forbids it.
 */
/* Arrays of registers that are filled in unrolled loops look unset to gcc, and so do, in C++, what
 * its own vector functions leave undefined on purpose. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0) || \
    defined(__ASSOCIATIVE_MATH__) || defined(__NO_SIGNED_ZEROS__) || defined(__RECIPROCAL_MATH__)
#error \
    "gpured: no -ffast-math, -Ofast or parts of them for the implementation: they change the bits"
#endif
/* 16 is that of processors that compute with _Float16, whose float and double are what they are. */
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16
#error \
    "gpured: no wider floats in registers: -msse2 -mfpmath=sse on 32-bit x86, -std=gnu99 on s390x"
#endif
/* clang has no macro for a single part of -ffast-math: they are switched off instead. */
#if defined(__clang__) && __clang_major__ >= 11 && !defined(__CUDACC__)
#pragma float_control(precise, on, push)
#pragma clang fp contract(off)
#define GPURED__PRECISE 1
#else
#define GPURED__PRECISE 0
#endif
#if defined(_MSC_VER) && !defined(__clang__)
#pragma fp_contract(off)
#endif

#if defined(_OPENMP) && !defined(GPURED_NO_OPENMP)
#define GPURED__OPENMP 1
#include <omp.h>
#else
#define GPURED__OPENMP 0
#endif

#if defined(__GNUC__) || defined(__clang__)
#define GPURED__GNU 1
#define GPURED__INLINE static inline GPURED__FORCED __attribute__((unused))
#define GPURED__FUNC static __attribute__((noinline, unused))
#else
#define GPURED__GNU 0
#define GPURED__INLINE static inline
#define GPURED__FUNC static
#endif

/* A kernel is fast once all that it calls has become one function. Without optimization, and under
 * a sanitizer, that would only make the functions large: a minute or four to compile in place of
 * seconds, and gigabytes. GPURED__FORCED is what holds at a place: section 10 goes without it for
 * some levels, and puts GPURED__FORCE back at its end. */
#if defined(__has_feature)
#define GPURED__HAS_FEATURE(name) __has_feature(name)
#else
#define GPURED__HAS_FEATURE(name) 0
#endif
#ifdef GPURED__FORCES /* tests for which it makes no difference */
#elif !GPURED__GNU || !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || \
    defined(__SANITIZE_THREAD__) || GPURED__HAS_FEATURE(address_sanitizer) ||    \
    GPURED__HAS_FEATURE(thread_sanitizer) || GPURED__HAS_FEATURE(memory_sanitizer)
#define GPURED__FORCES 0
#else
#define GPURED__FORCES 1
#endif
#if GPURED__FORCES
#define GPURED__FORCE __attribute__((always_inline))
#else
#define GPURED__FORCE
#endif
#define GPURED__FORCED GPURED__FORCE

/* The CUDA unit includes sections 4 to 9 alone and sets these two, so that the device compiles the
 * same scalars and the same constants. */
#ifndef GPURED__SCALAR
#define GPURED__SCALAR GPURED__INLINE
#endif
#ifndef GPURED__NUMBERS
#define GPURED__NUMBERS static const
#endif

/* Vector code: one body, compiled for each of these levels and chosen at run time (section 11). */
#if GPURED__GNU && (defined(__x86_64__) || (defined(__i386__) && defined(__SSE2__))) && \
    !defined(GPURED_NO_SIMD)
#define GPURED__X86 1
#include <immintrin.h>
#else
#define GPURED__X86 0
#endif
#if GPURED__X86 && !defined(GPURED_NO_AVX512)
#define GPURED__AVX512 1
#else
#define GPURED__AVX512 0
#endif
#if GPURED__GNU && defined(__aarch64__) && !defined(GPURED_NO_SIMD)
#define GPURED__NEON 1
#include <arm_neon.h>
#else
#define GPURED__NEON 0
#endif

#ifndef GPURED_PARALLEL_BYTES
#define GPURED_PARALLEL_BYTES (256 * 1024)
#endif

/* The name by which this file finds itself again. */
#ifndef GPURED_HEADER_NAME
#define GPURED_HEADER_NAME "gpured.h"
#endif

/* Into the first cache, and into the second one: there it does not take the buffers that the first
 * one has for what is under way, of which simple loops need all. */
#if GPURED__GNU
#define GPURED__PREFETCH(p) __builtin_prefetch(p)
#define GPURED__PREFETCH_FAR(p) __builtin_prefetch(p, 0, 2)
#else
#define GPURED__PREFETCH(p) (void)(p)
#define GPURED__PREFETCH_FAR(p) (void)(p)
#endif

/* The compiler moves no access to memory across this. */
#if GPURED__GNU
#define GPURED__IN_ORDER() __asm__ volatile("" : : : "memory")
#else
#define GPURED__IN_ORDER() (void)0
#endif

/* A type whose variables begin with a line of the cache: no vector of them lies in two. */
#if GPURED__GNU
#define GPURED__ON_LINE __attribute__((aligned(64)))
#else
#define GPURED__ON_LINE
#endif

/* Processors read ahead in different ways. Intel's do so too little for scans past the caches,
 * which gain a third by asking (AMD's lose up to a quarter, but for lines with AVX2), and enough
 * for rows side by side and for one place at a time, which lose by more. Tests choose what is not
 * theirs. */
GPURED__INLINE int gpured__on_intel(void) {
#if defined(GPURED__ON_INTEL)
  return GPURED__ON_INTEL;
#elif GPURED__X86
  return __builtin_cpu_is("intel") != 0;
#else
  return 0;
#endif
}

#define GPURED__JOIN2(a, b) a##b
#define GPURED__JOIN(a, b) GPURED__JOIN2(a, b)

/* The value of a rounded product, which nothing may be fused with any more. */
GPURED__INLINE float gpured__keep_f32(float x) {
#if GPURED__X86
  __asm__("" : "+x"(x));
#elif GPURED__NEON
  __asm__("" : "+w"(x));
#elif GPURED__GNU
  __asm__("" : "+m"(x));
#else
  volatile float v = x;
  x = v;
#endif
  return x;
}

GPURED__INLINE double gpured__keep_f64(double x) {
#if GPURED__X86
  __asm__("" : "+x"(x));
#elif GPURED__NEON
  __asm__("" : "+w"(x));
#elif GPURED__GNU
  __asm__("" : "+m"(x));
#else
  volatile double v = x;
  x = v;
#endif
  return x;
}

GPURED__INLINE float gpured__mul_f32(float a, float b) { return gpured__keep_f32(a * b); }
GPURED__INLINE double gpured__mul_f64(double a, double b) { return gpured__keep_f64(a * b); }

/* The caller's floating-point mode, replaced by the default one (nearest even, subnormals kept)
 * while a call runs. */
#if defined(__SSE2__) && GPURED__GNU
#define GPURED__MODE uint64_t
#elif defined(__aarch64__) && GPURED__GNU
#define GPURED__MODE uint64_t
#else
#include <fenv.h>
#define GPURED__MODE fenv_t
#endif
typedef struct gpured__mode {
  GPURED__MODE saved;
} gpured__mode;

GPURED__INLINE gpured__mode gpured__mode_enter(void) {
  gpured__mode m;
#if defined(__SSE2__) && GPURED__GNU
  m.saved = __builtin_ia32_stmxcsr();
  if ((m.saved & 0xffc0u) != 0x1f80u) __builtin_ia32_ldmxcsr(0x1f80u);
#elif defined(__aarch64__) && GPURED__GNU
  uint64_t zero = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(m.saved));
  __asm__ volatile("msr fpcr, %0" : : "r"(zero) : "memory");
#else /* the whole environment: flushing to zero has no name in C */
  fegetenv(&m.saved);
  fesetenv(FE_DFL_ENV);
#endif
  return m;
}

GPURED__INLINE void gpured__mode_leave(gpured__mode m) {
#if defined(__SSE2__) && GPURED__GNU
  if ((m.saved & 0xffc0u) != 0x1f80u) __builtin_ia32_ldmxcsr((unsigned)m.saved);
#elif defined(__aarch64__) && GPURED__GNU
  __asm__ volatile("msr fpcr, %0" : : "r"(m.saved) : "memory");
#else
  fesetenv(&m.saved);
#endif
}

/* ============================================================================================== */
/* 5  Scalars                                                                                     */
/* ============================================================================================== */
/*
 * Bit patterns, the 16-bit floats, canonical NaN, min and max with the order's rules. f16 and bf16
 * are rounded from a double, in which every f32 is exact, so that there is one rounding whatever
 * the accumulator.
 */
GPURED__SCALAR uint32_t gpured__bits_f32(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}

GPURED__SCALAR float gpured__from_bits_f32(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

GPURED__SCALAR uint64_t gpured__bits_f64(double x) {
  uint64_t u;
  memcpy(&u, &x, 8);
  return u;
}

GPURED__SCALAR double gpured__from_bits_f64(uint64_t u) {
  double x;
  memcpy(&x, &u, 8);
  return x;
}

GPURED__SCALAR int gpured__isnan_f32(float x) {
  return (gpured__bits_f32(x) & 0x7fffffffu) > 0x7f800000u;
}

GPURED__SCALAR int gpured__isnan_f64(double x) {
  return (gpured__bits_f64(x) & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}

/* NaN, infinity: everything whose exponent is all ones. */
GPURED__SCALAR int gpured__isfinite_f32(float x) {
  return (gpured__bits_f32(x) & 0x7f800000u) != 0x7f800000u;
}

GPURED__SCALAR int gpured__isfinite_f64(double x) {
  return (gpured__bits_f64(x) & 0x7ff0000000000000u) != 0x7ff0000000000000u;
}

GPURED__SCALAR float gpured__quiet_nan_f32(void) { return gpured__from_bits_f32(0x7fc00000u); }
GPURED__SCALAR double gpured__quiet_nan_f64(void) {
  return gpured__from_bits_f64(0x7ff8000000000000u);
}
GPURED__SCALAR float gpured__infinity_f32(void) { return gpured__from_bits_f32(0x7f800000u); }
GPURED__SCALAR double gpured__infinity_f64(void) {
  return gpured__from_bits_f64(0x7ff0000000000000u);
}
GPURED__INLINE float gpured__sqrt_f32(float x) { return sqrtf(x); }
GPURED__INLINE double gpured__sqrt_f64(double x) { return sqrt(x); }
GPURED__INLINE float gpured__fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
GPURED__INLINE double gpured__fma_f64(double a, double b, double c) { return fma(a, b, c); }

/* binary16 to f32, exact: subnormals are scaled by 2^-24. */
GPURED__INLINE float gpured__from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, fraction = h & 1023u;
  if (exponent == 31u) return gpured__from_bits_f32(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return gpured__from_bits_f32(sign | (exponent + 112u) << 23 | fraction << 13);
  return gpured__from_bits_f32(gpured__bits_f32((float)fraction * 5.9604644775390625e-8f) | sign);
}

GPURED__SCALAR float gpured__from_bf16(uint16_t h) {
  return gpured__from_bits_f32((uint32_t)h << 16);
}

/* Rounds |x|, given as the bits of a double, to a multiple of 2^(shift - 1075 + exponent), nearest
 * even, and returns how many. */
GPURED__SCALAR uint64_t gpured__round_shift(uint64_t significand, int shift) {
  uint64_t half, rest, q;
  if (shift > 54) return 0; /* below half of the smallest step */
  q = significand >> shift;
  rest = significand & (((uint64_t)1 << shift) - 1);
  half = (uint64_t)1 << (shift - 1);
  return q + (rest > half || (rest == half && (q & 1u)));
}

/* A double rounded to a 16-bit float of `fraction` stored bits and the given exponent bias. The
 * carry out of the fraction moves into the exponent by itself, also from subnormal to normal and
 * from the largest number to infinity. */
GPURED__SCALAR uint16_t gpured__to_16(double x, int fraction, int bias) {
  uint64_t u = gpured__bits_f64(x), m = u & 0xfffffffffffffu;
  uint16_t sign = (uint16_t)(u >> 48 & 0x8000u);
  int top = 2 * bias + 1, e = (int)(u >> 52 & 0x7ffu);
  uint16_t infinity = (uint16_t)((unsigned)top << fraction);
  uint64_t r;
  if (e == 0x7ff && m) return (uint16_t)(infinity | 1u << (fraction - 1));
  if (e - 1023 + bias >= top) return (uint16_t)(sign | infinity);
  if (e == 0) return sign;
  e = e - 1023 + bias;
  m |= (uint64_t)1 << 52;
  if (e > 0)
    r = gpured__round_shift(m, 52 - fraction) + ((uint64_t)(e - 1) << fraction);
  else
    r = gpured__round_shift(m, 52 - fraction + 1 - e);
  return (uint16_t)(sign | (uint16_t)r);
}

GPURED__SCALAR uint16_t gpured__to_f16(double x) { return gpured__to_16(x, 10, 15); }
GPURED__SCALAR uint16_t gpured__to_bf16(double x) { return gpured__to_16(x, 7, 127); }

/* NaN wins, -0 < +0. Equal values differ at most in the sign of zero, where and-ing (or-ing) the
 * bits picks the right one. */
GPURED__INLINE float gpured__max_f32(float a, float b) {
  if (a > b) return a;
  if (b > a) return b;
  if (a == b) return gpured__from_bits_f32(gpured__bits_f32(a) & gpured__bits_f32(b));
  return gpured__quiet_nan_f32();
}

GPURED__INLINE double gpured__max_f64(double a, double b) {
  if (a > b) return a;
  if (b > a) return b;
  if (a == b) return gpured__from_bits_f64(gpured__bits_f64(a) & gpured__bits_f64(b));
  return gpured__quiet_nan_f64();
}

GPURED__INLINE size_t gpured__dtype_size(int32_t dtype) {
  static const unsigned char size[11] = {0, 4, 8, 2, 2, 1, 1, 4, 4, 8, 8};
  return dtype >= 1 && dtype <= 10 ? size[dtype] : 0;
}

GPURED__INLINE int gpured__is_float(int32_t dtype) {
  return dtype >= GPURED_F32 && dtype <= GPURED_BF16;
}

GPURED__INLINE int gpured__is_signed(int32_t dtype) {
  return dtype == GPURED_I8 || dtype == GPURED_I32 || dtype == GPURED_I64;
}

GPURED__INLINE int64_t gpured__min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
GPURED__INLINE int64_t gpured__ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* ============================================================================================== */
/* 6  Tensors                                                                                     */
/* ============================================================================================== */
/*
 * Sizes, extents in memory and overlap. Everything is 64-bit and checked, because shapes come from
 * files and strides may be zero: a tensor of 2^62 elements can be one float.
 */
GPURED__INLINE gpured_status gpured__mul_size(int64_t a, int64_t b, int64_t *out) {
#if GPURED__GNU
  return __builtin_mul_overflow(a, b, out) ? GPURED_ERR_OVERFLOW : GPURED_OK;
#else
  if (b != 0 && a > INT64_MAX / b) return GPURED_ERR_OVERFLOW;
  *out = a * b;
  return GPURED_OK;
#endif
}

/* The number of elements of ndim extents, none negative. */
GPURED__FUNC gpured_status gpured__count(int ndim, const int64_t *shape, int64_t *count) {
  int i;
  *count = 1;
  for (i = 0; i < ndim; ++i)
    if (shape[i] == 0) *count = 0;
  if (*count == 0) return GPURED_OK;
  for (i = 0; i < ndim; ++i)
    if (gpured__mul_size(*count, shape[i], count)) return GPURED_ERR_OVERFLOW;
  return GPURED_OK;
}

/* The bytes that a tensor touches, relative to its data pointer: [lo, hi). Only for a tensor with
 * elements. */
typedef struct gpured__span {
  int64_t lo, hi;
} gpured__span;

/* A stride that leaves the arithmetic of plans no room. */
GPURED__INLINE int gpured__is_wild(int64_t stride) {
  return stride < -(INT64_MAX / 32) || stride > INT64_MAX / 32;
}

GPURED__FUNC gpured_status gpured__extent(const gpured_tensor *t, gpured__span *span) {
  int64_t size = (int64_t)gpured__dtype_size(t->dtype), limit = INT64_MAX / 4, step, reach;
  int i;
  span->lo = 0;
  span->hi = size;
  for (i = 0; i < t->ndim; ++i) {
    if (t->shape[i] <= 1 || t->strides[i] == 0) continue;
    if (gpured__is_wild(t->strides[i])) return GPURED_ERR_OVERFLOW;
    step = t->strides[i] * size;
    if (gpured__mul_size(t->shape[i] - 1, step < 0 ? -step : step, &reach) || reach > limit)
      return GPURED_ERR_OVERFLOW;
    if (step < 0)
      span->lo -= reach;
    else
      span->hi += reach;
    if (span->hi - span->lo > limit) return GPURED_ERR_OVERFLOW;
  }
  return GPURED_OK;
}

/* Nothing is stepped to along an axis of one element, nor along any of an empty tensor: such
 * strides may be any number, and so may the extents beside one of 0. Returns t, or a copy whose
 * strides can be multiplied. */
GPURED__FUNC const gpured_tensor *gpured__settle(const gpured_tensor *t, gpured_tensor *copy) {
  int i, wild = 0, empty = 0;
  for (i = 0; i < t->ndim; ++i) {
    empty |= t->shape[i] == 0;
    wild |= gpured__is_wild(t->strides[i]);
  }
  if (!empty && !wild) return t;
  *copy = *t;
  for (i = 0; i < t->ndim; ++i)
    if (empty || gpured__is_wild(t->strides[i])) copy->strides[i] = 0;
  return copy;
}

/*
 * Do two elements of t share memory? Answers 0 only when it is certain: each axis, taken by size of
 * its stride, must step over everything that the finer ones reach. Outputs that interleave in other
 * ways are refused.
 */
GPURED__FUNC int gpured__overlaps_itself(const gpured_tensor *t) {
  int64_t stride[GPURED_MAX_NDIM], extent[GPURED_MAX_NDIM], s, n, reach = 0;
  int i, j, count = 0;
  for (i = 0; i < t->ndim; ++i) {
    n = t->shape[i];
    if (n <= 1) continue;
    s = t->strides[i] < 0 ? -t->strides[i] : t->strides[i];
    for (j = count++; j > 0 && stride[j - 1] > s; --j) {
      stride[j] = stride[j - 1];
      extent[j] = extent[j - 1];
    }
    stride[j] = s;
    extent[j] = n;
  }
  for (i = 0; i < count; ++i) {
    if (stride[i] <= reach) return 1;
    reach += stride[i] * (extent[i] - 1);
  }
  return 0;
}

/*
 * Where t lies modulo a period of `period` bytes: axes whose stride is a multiple of the period
 * drop out, the others widen the window [*start, *start + width). Returns the width, or -1 when it
 * reaches the period.
 */
GPURED__FUNC int64_t gpured__window(const gpured_tensor *t, int64_t period, int64_t *start) {
  int64_t size = (int64_t)gpured__dtype_size(t->dtype), lo = 0, width = size, step, reach;
  int i;
  for (i = 0; i < t->ndim; ++i) {
    step = t->strides[i] * size;
    if (t->shape[i] <= 1 || step % period == 0) continue;
    reach = (t->shape[i] - 1) * step;
    lo += reach < 0 ? reach : 0;
    width += reach < 0 ? -reach : reach;
    if (width > period) return -1;
  }
  *start = (int64_t)((uintptr_t)t->data % (uintptr_t)period) + lo % period;
  *start = (*start % period + period) % period;
  return width;
}

/* Do a and b surely share no byte modulo the period? */
GPURED__INLINE int gpured__apart(const gpured_tensor *a, const gpured_tensor *b, int64_t period) {
  int64_t sa, sb, wa = gpured__window(a, period, &sa), wb = gpured__window(b, period, &sb), d;
  if (wa < 0 || wb < 0) return 0;
  d = (sb - sa + period) % period; /* from a's window forward to b's */
  return d >= wa && period - d >= wb;
}

/*
 * Do a and b share memory? Their byte ranges are compared first; when those meet, they may still
 * interleave, as two columns of a matrix do: then each stride of either is tried as a period.
 * Answers 0 only when it is certain.
 */
GPURED__FUNC int gpured__overlap(const gpured_tensor *a, const gpured_tensor *b) {
  gpured__span sa, sb;
  const gpured_tensor *t;
  uintptr_t pa = (uintptr_t)a->data, pb = (uintptr_t)b->data;
  int64_t step;
  int i, side;
  if (a->device != b->device) return 0;
  if (a->device != GPURED_CPU && a->device_id != b->device_id) return 0; /* one host, many GPUs */
  if (gpured__extent(a, &sa) || gpured__extent(b, &sb)) return 1;
  if (pa + (uintptr_t)sa.hi <= pb + (uintptr_t)sb.lo ||
      pb + (uintptr_t)sb.hi <= pa + (uintptr_t)sa.lo)
    return 0;
  for (side = 0; side < 2; ++side) {
    t = side ? b : a;
    for (i = 0; i < t->ndim; ++i) {
      step = t->strides[i] * (int64_t)gpured__dtype_size(t->dtype);
      step = step < 0 ? -step : step;
      if (t->shape[i] > 1 && step > 0 && gpured__apart(a, b, step)) return 0;
    }
  }
  return 1;
}

/* Is b the very memory of a, element for element? */
GPURED__FUNC int gpured__same_memory(const gpured_tensor *a, const gpured_tensor *b) {
  int i;
  if (a->data != b->data || a->ndim != b->ndim) return 0;
  if (gpured__dtype_size(a->dtype) != gpured__dtype_size(b->dtype)) return 0;
  for (i = 0; i < a->ndim; ++i)
    if (a->shape[i] > 1 && a->strides[i] != b->strides[i]) return 0;
  return 1;
}

/* ============================================================================================== */
/* 7  Validation                                                                                  */
/* ============================================================================================== */
/*
 * Everything that can be wrong with a call is found here, before any output is touched: pointers
 * and enumerations, shapes, sizes, combinations, aliasing, backend, in this order for each tensor.
 * `query` is set for workspace queries, where data need not exist yet.
 */
struct gpured__backend;
struct gpured__plan;
struct gpured__gemm_plan;

/* A task's function; and what runs tasks that touch so many bytes on the CPU's threads (section
 * 12), for a backend that has something to do there. */
typedef void (*gpured__task)(void *context, int64_t index, int thread);
typedef void (*gpured__spread)(const gpured_options *o, double bytes, int64_t tasks,
                               gpured__task run, void *context);

typedef struct gpured__call {
  gpured_options o; /* the caller's options, completed */
  int query;
  const struct gpured__backend *other; /* the backend that runs the call, or NULL: the CPU */
  int32_t device, device_id;           /* where the tensors live */
  gpured__spread spread;
} gpured__call;

GPURED__FUNC gpured_status gpured__check_options(const gpured_options *options, int query,
                                                 gpured__call *call) {
  memset(call, 0, sizeof *call);
  call->query = query;
  call->o = gpured_default_options();
  if (!options) return GPURED_OK;
  if (options->struct_size != sizeof call->o) return GPURED_ERR_ARG;
  call->o = *options;
  if (call->o.backend < GPURED_BACKEND_AUTO || call->o.backend > GPURED_BACKEND_CUDA)
    return GPURED_ERR_ARG;
  if (call->o.precision < GPURED_PRECISION_AUTO || call->o.precision > GPURED_PRECISION_TENSOR)
    return GPURED_ERR_ARG;
  if (call->o.acc_dtype < 0 || call->o.acc_dtype > GPURED_U64) return GPURED_ERR_ARG;
  if (call->o.threads < 0 || call->o.ddof < 0) return GPURED_ERR_ARG;
  if (!call->o.alloc != !call->o.dealloc) return GPURED_ERR_ARG;
  if ((uintptr_t)call->o.workspace % 64 != 0) return GPURED_ERR_ARG;
  if (!call->o.workspace && call->o.workspace_bytes) return GPURED_ERR_ARG;
  return GPURED_OK;
}

GPURED__FUNC gpured_status gpured__check_tensor(const gpured_tensor *t, int query) {
  gpured__span span;
  int64_t count;
  int i;
  if (!t) return GPURED_ERR_ARG;
  if (!gpured__dtype_size(t->dtype)) return GPURED_ERR_ARG;
  if (t->device != GPURED_CPU && t->device != GPURED_CUDA_DEVICE) return GPURED_ERR_ARG;
  if (t->device_id < 0) return GPURED_ERR_ARG;
  if (t->ndim < 0 || t->ndim > GPURED_MAX_NDIM) return GPURED_ERR_SHAPE;
  for (i = 0; i < t->ndim; ++i)
    if (t->shape[i] < 0) return GPURED_ERR_SHAPE;
  if (gpured__count(t->ndim, t->shape, &count)) return GPURED_ERR_OVERFLOW;
  if (count == 0) return GPURED_OK;
  if (gpured__extent(t, &span)) return GPURED_ERR_OVERFLOW;
  if (query) return GPURED_OK;
  if (!t->data || (uintptr_t)t->data % gpured__dtype_size(t->dtype) != 0) return GPURED_ERR_ARG;
  return GPURED_OK;
}

/* An output that does not overlap itself nor any of the inputs. */
GPURED__FUNC gpured_status gpured__check_output(const gpured_tensor *out,
                                                const gpured_tensor *const *inputs,
                                                int inputs_count, int query) {
  int64_t count, other;
  int i;
  gpured__count(out->ndim, out->shape, &count);
  if (count == 0) return GPURED_OK;
  if (gpured__overlaps_itself(out)) return GPURED_ERR_ALIAS;
  if (query) return GPURED_OK;
  for (i = 0; i < inputs_count; ++i) {
    if (!inputs[i]) continue;
    gpured__count(inputs[i]->ndim, inputs[i]->shape, &other);
    if (other && gpured__overlap(inputs[i], out)) return GPURED_ERR_ALIAS;
  }
  return GPURED_OK;
}

/*
 * Another backend: a table of functions, of which gpured_cuda.cu defines one. They take a plan that
 * has passed every check, and run it or (bytes not NULL) say how much workspace it needs. The table
 * carries a number, so that objects of two versions do not work together unnoticed.
 */
enum { GPURED__BACKEND_ABI = 100 * GPURED_VERSION + GPURED_ORDER };

typedef struct gpured__backend {
  int abi;
  int (*available)(void);
  gpured_status (*reduce)(const struct gpured__plan *p, const gpured__call *call, size_t *bytes);
  gpured_status (*scan)(const struct gpured__plan *p, const gpured__call *call, size_t *bytes);
  gpured_status (*gemm)(const struct gpured__gemm_plan *p, const gpured__call *call, size_t *bytes);
} gpured__backend;

#ifdef GPURED_CUDA
#ifdef __cplusplus
extern "C" {
#endif
extern const gpured__backend gpured__cuda_backend;
#ifdef __cplusplus
}
#endif
#define GPURED__CUDA_BACKEND (&gpured__cuda_backend)
#else
#define GPURED__CUDA_BACKEND ((const gpured__backend *)NULL)
#endif

/* The CUDA backend, or NULL where it is not built in or finds no device. */
GPURED__FUNC const gpured__backend *gpured__find_cuda(void) {
  const gpured__backend *b = GPURED__CUDA_BACKEND;
  return b && b->abi == GPURED__BACKEND_ABI && b->available() ? b : NULL;
}

/* Which backend runs a call on these tensors: the one asked for, or the data's. All of them live in
 * one place; the CPU cannot read a device's memory. */
GPURED__FUNC gpured_status gpured__check_backend(gpured__call *call,
                                                 const gpured_tensor *const *tensors, int count) {
  int i, first = 1, mixed = 0;
  call->other = NULL;
  call->device = GPURED_CPU;
  call->device_id = 0;
  for (i = 0; i < count; ++i) {
    if (!tensors[i]) continue;
    if (!first && (tensors[i]->device != call->device || tensors[i]->device_id != call->device_id))
      mixed = 1;
    if (tensors[i]->device != GPURED_CPU || first) {
      call->device = tensors[i]->device;
      call->device_id = tensors[i]->device_id;
    }
    first = 0;
  }
  if (call->device == GPURED_CPU && call->o.backend != GPURED_BACKEND_CUDA) return GPURED_OK;
  call->other = gpured__find_cuda();
  if (!call->other) return GPURED_ERR_NO_BACKEND;
  return mixed || call->o.backend == GPURED_BACKEND_CPU ? GPURED_ERR_UNSUPPORTED : GPURED_OK;
}

/* The classes of docs/ORDER.md section 1. */
enum { GPURED__VALUE, GPURED__REAL, GPURED__INDEX, GPURED__TRUTH };

GPURED__INLINE int gpured__op_class(int op) {
  switch (op) {
    case GPURED_MEAN:
    case GPURED_NORM2:
    case GPURED_LOGSUMEXP:
    case GPURED_VAR:
    case GPURED_STD:
      return GPURED__REAL;
    case GPURED_ARGMIN:
    case GPURED_ARGMAX:
    case GPURED_COUNT_NONZERO:
      return GPURED__INDEX;
    case GPURED_ANY:
    case GPURED_ALL:
      return GPURED__TRUTH;
    default:
      return GPURED__VALUE;
  }
}

/* The accumulators that kernels exist for. */
enum { GPURED__F32, GPURED__F64, GPURED__U64, GPURED__TYPES };

/* The accumulator of an operation on elements of a dtype, or an error. */
GPURED__FUNC gpured_status gpured__choose_acc(int op, int32_t dtype, int32_t wanted, int *acc) {
  int cls = gpured__op_class(op), wide = dtype == GPURED_F64 || wanted == GPURED_F64;
  if (gpured__is_float(dtype)) {
    if (wanted != 0 && wanted != GPURED_F64 && wanted != GPURED_F32) return GPURED_ERR_UNSUPPORTED;
    if (wanted == GPURED_F32 && dtype == GPURED_F64) return GPURED_ERR_UNSUPPORTED;
    *acc = wide ? GPURED__F64 : GPURED__F32;
    if (cls == GPURED__TRUTH || op == GPURED_COUNT_NONZERO) *acc = GPURED__U64;
    return GPURED_OK;
  }
  if (wanted != 0) return GPURED_ERR_UNSUPPORTED;
  *acc = cls == GPURED__REAL ? GPURED__F64 : GPURED__U64;
  return GPURED_OK;
}

/* May a result of op on elements of dtype be stored as `out`, `n` being the length of the
 * sequences? */
GPURED__FUNC gpured_status gpured__check_out_dtype(int op, int32_t dtype, int32_t out, int64_t n) {
  switch (gpured__op_class(op)) {
    case GPURED__REAL:
      return gpured__is_float(out) ? GPURED_OK : GPURED_ERR_UNSUPPORTED;
    case GPURED__TRUTH:
      return gpured__is_float(out) ? GPURED_ERR_UNSUPPORTED : GPURED_OK;
    case GPURED__INDEX:
      if (out != GPURED_I64 && out != GPURED_I32) return GPURED_ERR_UNSUPPORTED;
      return out == GPURED_I32 && n > INT32_MAX ? GPURED_ERR_OVERFLOW : GPURED_OK;
    default:
      return gpured__is_float(dtype) == gpured__is_float(out) ? GPURED_OK : GPURED_ERR_UNSUPPORTED;
  }
}

/* ============================================================================================== */
/* 8  Planning                                                                                    */
/* ============================================================================================== */
/*
 * A plan is the call without its tensors: loops over kept axes, and the reduced sequence as loops
 * over strides, axes of extent 1 dropped and neighbours merged where they step as one. Layouts that
 * mean the same memory give the same plan, so every backend sees few shapes.
 */
enum { GPURED__IN, GPURED__OUT, GPURED__WEIGHT, GPURED__OPERANDS };

typedef struct gpured__axis {
  int64_t n;
  int64_t stride[GPURED__OPERANDS]; /* in elements */
} gpured__axis;

/* What is done to an element while it is converted to the accumulator's type. BIAS maps signed
 * integers to unsigned ones in the same order, so that one comparison serves both. */
enum { GPURED__PLAIN, GPURED__ABS, GPURED__NONZERO, GPURED__BIAS, GPURED__SQUARE };
/* With one of those: a piece of a row, behind which lies nothing that will be needed soon. */
enum { GPURED__SHORT_RUN = 8 };

typedef struct gpured__plan {
  int op, kernel, acc, fetch, ddof;
  unsigned flags;
  int32_t in_dtype, out_dtype;
  const void *in;
  void *out;
  const void *weight; /* NULL, or a second operand in the accumulator's type, contiguous along the
                         sequence (Dot) */
  int64_t outputs;    /* sequences */
  int64_t n;          /* length of each */
  int kept_count, line_count;
  gpured__axis kept[GPURED_MAX_NDIM];
  gpured__axis line[GPURED_MAX_NDIM]; /* the reduced (or scanned) sequence, outermost first */
} gpured__plan;

/* What a kernel does with a sequence. The first group folds lanes over blocks of 256, the second
 * has blocks of 1024. */
enum {
  GPURED__ADD,
  GPURED__ADD_ABS,
  GPURED__ADD_SQUARE,
  GPURED__DOT,
  GPURED__MUL,
  GPURED__MIN,
  GPURED__MAX,
  GPURED__MAX_ABS,
  GPURED__ARG_MIN,
  GPURED__ARG_MAX,
  GPURED__LSE,
  GPURED__MOMENTS,
  GPURED__MIN_PLAIN, /* no plan's, these two: the hardware's steps, where no NaN is and the sign */
  GPURED__MAX_PLAIN  /* of a zero does not matter */
};

GPURED__INLINE int64_t gpured__block_size(int kernel) {
  return kernel >= GPURED__ARG_MIN ? 1024 : 256;
}

/* The kernel of an operation. Integers have their absolute values taken while they are fetched. */
GPURED__INLINE int gpured__kernel_of(int op, int is_float) {
  /* of the operations by their numbers: none, sum, prod, min, max; mean, sumsq, norm1, norm2,
   * absmax; argmin, argmax, logsumexp, var, std; any, all, count_nonzero */
  static const unsigned char kernels[] = {
      GPURED__ADD,     GPURED__ADD,        GPURED__MUL,     GPURED__MIN,        GPURED__MAX,
      GPURED__ADD,     GPURED__ADD_SQUARE, GPURED__ADD_ABS, GPURED__ADD_SQUARE, GPURED__MAX_ABS,
      GPURED__ARG_MIN, GPURED__ARG_MAX,    GPURED__LSE,     GPURED__MOMENTS,    GPURED__MOMENTS,
      GPURED__MAX,     GPURED__MIN,        GPURED__ADD};
  const int kernel = kernels[op];
  if (!is_float && kernel == GPURED__ADD_ABS) return GPURED__ADD;
  return !is_float && kernel == GPURED__MAX_ABS ? GPURED__MAX : kernel;
}

/* Appends an axis to a list, merging it into the one before it where both step as one. */
GPURED__FUNC void gpured__add_axis(gpured__axis *list, int *count, const gpured__axis *axis) {
  gpured__axis *last = list + *count - 1;
  int64_t n = 0;
  int i, merge = *count > 0;
  if (axis->n == 1) return;
  if (merge && gpured__mul_size(last->n, axis->n, &n)) merge = 0; /* beside an extent of 0 */
  for (i = 0; merge && i < GPURED__OPERANDS; ++i)
    if (last->stride[i] != axis->n * axis->stride[i]) merge = 0;
  if (!merge) {
    list[(*count)++] = *axis;
    return;
  }
  last->n = n;
  for (i = 0; i < GPURED__OPERANDS; ++i) last->stride[i] = axis->stride[i];
}

/* How elements are fetched for an operation: docs/ORDER.md section 1, the last paragraph. */
GPURED__FUNC int gpured__choose_fetch(int op, int32_t dtype) {
  if (gpured__op_class(op) == GPURED__TRUTH || op == GPURED_COUNT_NONZERO) return GPURED__NONZERO;
  if (gpured__is_float(dtype)) return GPURED__PLAIN;
  if (op == GPURED_NORM1 || op == GPURED_ABSMAX) return GPURED__ABS;
  if (!gpured__is_signed(dtype)) return GPURED__PLAIN;
  if (op == GPURED_MIN || op == GPURED_MAX || op == GPURED_ARGMIN || op == GPURED_ARGMAX)
    return GPURED__BIAS;
  return GPURED__PLAIN;
}

GPURED__INLINE void gpured__plan_operands(gpured__plan *p, int op, const gpured_tensor *in,
                                          const gpured_tensor *out) {
  memset(p, 0, sizeof *p);
  p->op = op;
  p->in_dtype = in->dtype;
  p->out_dtype = out->dtype;
  p->in = in->data;
  p->out = out->data;
  p->fetch = gpured__choose_fetch(op, in->dtype);
  p->outputs = 1;
  p->n = 1;
}

/* Matches out's axes with the kept axes of in: dropped, kept with extent 1, or one element for one
 * result. Strides of out go to stride[] in the numbering of in. */
GPURED__FUNC gpured_status gpured__match_out(const gpured_tensor *in, uint32_t axes,
                                             const gpured_tensor *out, int64_t *stride) {
  int i, j = 0, kept = 0, one = 1, keepdims = out->ndim == in->ndim;
  for (i = 0; i < in->ndim; ++i) {
    stride[i] = 0;
    if (!(axes >> i & 1u)) ++kept;
    if (!(axes >> i & 1u) && in->shape[i] != 1) one = 0;
  }
  for (i = 0; i < out->ndim; ++i)
    if (out->shape[i] != 1) one = 0;
  if (one) return GPURED_OK;
  if (!keepdims && out->ndim != kept) return GPURED_ERR_SHAPE;
  for (i = 0; i < in->ndim; ++i) {
    int reduced = (int)(axes >> i & 1u);
    if (reduced && !keepdims) continue;
    if (out->shape[j] != (reduced ? 1 : in->shape[i])) return GPURED_ERR_SHAPE;
    stride[i] = reduced ? 0 : out->strides[j];
    ++j;
  }
  return GPURED_OK;
}

/* The loops of a reduction. weight_stride: for each axis of `in`, or NULL. */
GPURED__FUNC gpured_status gpured__plan_loops(gpured__plan *p, const gpured_tensor *in,
                                              uint32_t axes, const gpured_tensor *out,
                                              const int64_t *weight_stride) {
  int64_t out_stride[GPURED_MAX_NDIM];
  gpured__axis axis;
  gpured_status st = gpured__match_out(in, axes, out, out_stride);
  int i;
  if (st) return st;
  for (i = 0; i < in->ndim; ++i) {
    memset(&axis, 0, sizeof axis);
    axis.n = in->shape[i];
    axis.stride[GPURED__IN] = in->strides[i];
    axis.stride[GPURED__OUT] = out_stride[i];
    axis.stride[GPURED__WEIGHT] = weight_stride ? weight_stride[i] : 0;
    if (axes >> i & 1u) {
      gpured__mul_size(p->n, axis.n, &p->n);
      gpured__add_axis(p->line, &p->line_count, &axis);
    } else {
      gpured__mul_size(p->outputs, axis.n, &p->outputs);
      gpured__add_axis(p->kept, &p->kept_count, &axis);
    }
  }
  return GPURED_OK;
}

GPURED__FUNC gpured_status gpured__plan_reduce(gpured__plan *p, int op, const gpured_tensor *in,
                                               uint32_t axes, const gpured_tensor *out,
                                               const gpured__call *call) {
  gpured_status st;
  gpured__plan_operands(p, op, in, out);
  p->ddof = call->o.ddof;
  st = gpured__plan_loops(p, in, axes, out, NULL);
  if (st) return st;
  st = gpured__choose_acc(op, in->dtype, call->o.acc_dtype, &p->acc);
  if (st) return st;
  p->kernel = gpured__kernel_of(op, p->acc != GPURED__U64);
  if (p->n == 0 && p->outputs > 0 && (op == GPURED_ARGMIN || op == GPURED_ARGMAX))
    return GPURED_ERR_SHAPE;
  return gpured__check_out_dtype(op, in->dtype, out->dtype, p->n);
}

/* The address of an element, as a number: a query may come with a pointer to nothing. */
GPURED__INLINE void *gpured__element(const void *data, int64_t index, int32_t dtype) {
  const int64_t offset = index * (int64_t)gpured__dtype_size(dtype);
  return data ? (void *)(uintptr_t)((int64_t)(uintptr_t)data + offset) : NULL;
}

/* Starts a line at its last element and steps back. */
GPURED__FUNC void gpured__reverse(gpured__plan *p) {
  int64_t *stride = p->line[0].stride, last = p->n - 1;
  p->in = gpured__element(p->in, last * stride[GPURED__IN], p->in_dtype);
  p->out = gpured__element(p->out, last * stride[GPURED__OUT], p->out_dtype);
  stride[GPURED__IN] = -stride[GPURED__IN];
  stride[GPURED__OUT] = -stride[GPURED__OUT];
}

GPURED__FUNC gpured_status gpured__plan_scan(gpured__plan *p, int op, const gpured_tensor *in,
                                             int axis_index, unsigned flags,
                                             const gpured_tensor *out, const gpured__call *call) {
  gpured__axis axis;
  gpured_status st;
  int i;
  gpured__plan_operands(p, op, in, out);
  p->flags = flags;
  if (out->ndim != in->ndim) return GPURED_ERR_SHAPE;
  for (i = 0; i < in->ndim; ++i) {
    if (out->shape[i] != in->shape[i]) return GPURED_ERR_SHAPE;
    memset(&axis, 0, sizeof axis);
    axis.n = in->shape[i];
    axis.stride[GPURED__IN] = in->strides[i];
    axis.stride[GPURED__OUT] = out->strides[i];
    if (i == axis_index) {
      p->n = axis.n;
      p->line[0] = axis;
      p->line_count = 1;
    } else {
      gpured__mul_size(p->outputs, axis.n, &p->outputs);
      gpured__add_axis(p->kept, &p->kept_count, &axis);
    }
  }
  if ((flags & GPURED_SCAN_REVERSE) && p->outputs > 0 && p->n > 0) gpured__reverse(p);
  st = gpured__choose_acc(op, in->dtype, call->o.acc_dtype, &p->acc);
  if (st) return st;
  p->kernel = gpured__kernel_of(op, p->acc != GPURED__U64);
  return gpured__check_out_dtype(op, in->dtype, out->dtype, p->n);
}

/* a / b of what is not negative. Half of the bits mostly are all there are, and a GPU, which has no
 * instruction for division, is quicker with those. */
GPURED__SCALAR int64_t gpured__quotient(int64_t a, int64_t b) {
  return (uint64_t)(a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

/* The offset of sequence `index` (row-major over the kept axes) for an operand, in elements. */
GPURED__SCALAR int64_t gpured__offset(const gpured__axis *axes, int count, int64_t index,
                                      int operand) {
  int64_t offset = 0;
  int i;
  for (i = count - 1; i > 0; --i) {
    const int64_t outer = gpured__quotient(index, axes[i].n);
    offset += (index - outer * axes[i].n) * axes[i].stride[operand];
    index = outer;
  }
  return count ? offset + index * axes[0].stride[operand] : 0;
}

/* ============================================================================================== */
/* 9  The order                                                                                   */
/* ============================================================================================== */
/*
 * What docs/ORDER.md fixes, as data: blocks, nodes of the adjacent-pair tree, and the constants of
 * exp and log. A node is what one subtree of blocks has become: 16 lanes (folds), a pair
 * (logsumexp), mean and M2 with a count (variance), or a value with its index (arg). The tree over
 * any number of blocks is a binary counter: bit l of `count` says that stack[l] holds a subtree of
 * 2^l blocks, and a new block carries like an addition of one.
 */
enum {
  GPURED__LANES = 16,
  GPURED__BLOCK = 256,
  GPURED__WIDE_BLOCK = 1024,
  GPURED__GEMM_BLOCK = 128
};
enum { GPURED__DEPTH = 57 };
/* Bytes from what is read to what is fetched into the cache: the second where work on what was read
 * leaves memory idle, or where what is read together is over before the hardware reads ahead; the
 * third where up to 16 rows go side by side. */
enum { GPURED__AHEAD = 2048, GPURED__FAR_AHEAD = 8192, GPURED__FEW_AHEAD = 512 };
/* From so many bytes on a sequence is likely to come from memory, so that asking is worth it. */
enum { GPURED__FROM_MEMORY = 1 << 20 };
/* What is read from four places in turn: so many blocks (a power of two) to each, which are a
 * subtree, and the elements of all four. */
enum {
  GPURED__PLACES = 4,
  GPURED__APART_LEVEL = 6,
  GPURED__APART_GROUP = GPURED__PLACES * (GPURED__BLOCK << GPURED__APART_LEVEL)
};
/* Up to so many bytes a sequence alone is taken to be in the first cache. */
enum { GPURED__CACHED = 32 * 1024 };
/* What a caller knows of where a sequence lies. */
enum { GPURED__ANYWHERE, GPURED__NEAR, GPURED__FAR };
/* Rows that are far apart are asked for so many before their turn. */
enum { GPURED__ROWS_AHEAD = 16 };
/* Strips of columns whose rows have so many bytes are reduced lane by lane, so many rows at
 * once. */
enum { GPURED__LONG_ROW = 2048, GPURED__LANE_ROWS = 8 * GPURED__BLOCK };

typedef union gpured__lanes {
  float f32[GPURED__LANES];
  double f64[GPURED__LANES];
  uint64_t u64[GPURED__LANES];
} gpured__lanes;

typedef struct gpured__node {
  gpured__lanes v;
  int64_t n; /* elements (variance), index (arg) */
} gpured__node;

typedef struct gpured__state {
  int64_t count; /* blocks */
  gpured__node stack[GPURED__DEPTH];
} gpured__state;

/* A pair of logsumexp: s * exp(m). */
typedef struct gpured__pair_f32 {
  float m, s;
} gpured__pair_f32;

typedef struct gpured__pair_f64 {
  double m, s;
} gpured__pair_f64;

/*
 * exp and log of docs/ORDER.md section 8. C: minimax fit of e^r for |r| <= ln(2)/2; L[i] = 2 / (2i
 * + 1), the series of 2 atanh(s). As bit patterns, because C++11 has no hexadecimal floats.
 */
enum {
  GPURED__SHIFT_f32 = 23,
  GPURED__SHIFT_f64 = 52,
  GPURED__EXP_TOP_f32 = 6,
  GPURED__EXP_TOP_f64 = 11
};
enum { GPURED__LOG_TOP_f32 = 5, GPURED__LOG_TOP_f64 = 10 };
GPURED__NUMBERS uint32_t gpured__exp_c_f32[7] = {0x3f800000u, 0x3f800000u, 0x3f000000u, 0x3e2aaa6fu,
                                                 0x3d2aaab6u, 0x3c090561u, 0x3ab654c9u};
GPURED__NUMBERS uint32_t gpured__log_l_f32[6] = {0x40000000u, 0x3f2aaaabu, 0x3ecccccdu,
                                                 0x3e924925u, 0x3e638e39u, 0x3e3a2e8cu};
GPURED__NUMBERS uint64_t gpured__exp_c_f64[12] = {
    0x3ff0000000000000u, 0x3ff0000000000000u, 0x3fe0000000000001u, 0x3fc555555555554du,
    0x3fa5555555553ce5u, 0x3f811111111144cfu, 0x3f56c16c178a6fd9u, 0x3f2a01a018c37243u,
    0x3efa019b8c667f1bu, 0x3ec71de59f0ab925u, 0x3e92891c3b32a8e4u, 0x3e5aeabcfb5467ffu};
GPURED__NUMBERS uint64_t gpured__log_l_f64[11] = {
    0x4000000000000000u, 0x3fe5555555555555u, 0x3fd999999999999au, 0x3fd2492492492492u,
    0x3fcc71c71c71c71cu, 0x3fc745d1745d1746u, 0x3fc3b13b13b13b14u, 0x3fc1111111111111u,
    0x3fbe1e1e1e1e1e1eu, 0x3fbaf286bca1af28u, 0x3fb8618618618618u};
enum {
  GPURED__CUT,
  GPURED__MAGIC,
  GPURED__LOG2E,
  GPURED__LN2_HI,
  GPURED__LN2_LO,
  GPURED__SQRT_HALF
};
GPURED__NUMBERS uint32_t gpured__constants_f32[6] = {0xc2ac0000u, 0x4b400000u, 0x3fb8aa3bu,
                                                     0x3f317200u, 0x35bfbe8eu, 0x3f3504f3u};
GPURED__NUMBERS uint64_t gpured__constants_f64[6] = {0xc086180000000000u, 0x4338000000000000u,
                                                     0x3ff71547652b82feu, 0x3fe62e42fefa3800u,
                                                     0x3d2ef35793c76730u, 0x3fe6a09e667f3bcdu};

/* The result of an empty sequence, docs/ORDER.md section 3, as an integer (where the accumulator is
 * one) or a float. */
GPURED__FUNC void gpured__empty_value(const gpured__plan *p, uint64_t *integer, double *real) {
  const int is_signed = gpured__is_signed(p->in_dtype);
  const int bits = 8 * (int)gpured__dtype_size(p->in_dtype);
  const uint64_t all = UINT64_MAX >> (64 - bits), top = (uint64_t)1 << (bits - 1);
  *integer = 0;
  *real = 0;
  switch (p->op) {
    case GPURED_PROD:
    case GPURED_ALL:
      *real = 1, *integer = 1;
      break;
    case GPURED_MIN:
      *real = gpured__infinity_f64(), *integer = is_signed ? top - 1 : all;
      break;
    case GPURED_MAX:
      *real = -gpured__infinity_f64(), *integer = is_signed ? ~top + 1 : 0;
      break;
    case GPURED_LOGSUMEXP:
      *real = -gpured__infinity_f64();
      break;
    case GPURED_MEAN:
    case GPURED_VAR:
    case GPURED_STD:
      *real = gpured__quiet_nan_f64();
      break;
    default:
      break;
  }
}

/* ---- Tables of kernels: section 10 fills one for each accumulator type and vector level ---- */

/* What happens to an element of a product before it is reduced. */
typedef struct gpured__epilogue {
  double alpha;
  int scaled;     /* is alpha not 1? */
  int rows_first; /* which bias is added by the fma: bias_m, which is the rows' unless the operands
                     were exchanged */
  int map, is_signed;
} gpured__epilogue;

/*
 * What gemm_tile multiplies: rows of A against NR columns of B over k steps. Element (i, p) of A is
 * at a[i * a_row + p * a_k], one of the two strides being 1; B is at b[p * b_k + j]. `ahead` are
 * addresses of memory that will be wanted soon and is brought into the second cache on the way, the
 * first by every other register tile, the second by those in between.
 */
typedef struct gpured__gemm_operands {
  const void *a, *b;
  int64_t a_row, a_k, b_k, k;
  uintptr_t ahead[2];
  int64_t hop[2], turn[2]; /* how far they move in a step of k, and in a register tile of theirs */
  void *spare;             /* [k][MR] */
} gpured__gemm_operands;

/* Levels of the tree over the blocks of n elements: subtrees of 2^0, 2^1, ... blocks. */
GPURED__INLINE int gpured__gemm_levels(int64_t n) {
  int levels = 1;
  while (gpured__ceil_div(n, GPURED__BLOCK) >> levels) ++levels;
  return levels;
}

/* A strip of columns being reduced together: levels + 1 slots of [lanes][columns], the last one for
 * the block at hand. */
typedef struct gpured__strip {
  void *slots;
  int64_t columns, count, rows; /* blocks so far, rows of the next one */
  int levels, lanes;            /* 16, or 1 while a lane goes by itself */
} gpured__strip;

GPURED__INLINE gpured__strip gpured__strip_begin(void *slots, int64_t columns, int levels) {
  gpured__strip st;
  st.slots = slots;
  st.columns = columns;
  st.count = st.rows = 0;
  st.levels = levels;
  st.lanes = GPURED__LANES;
  return st;
}

/* Rows of lane `lane` among n rows that begin with lane 0. */
GPURED__INLINE int64_t gpured__rows_of_lane(int64_t lane, int64_t n) {
  return (n - lane + GPURED__LANES - 1) / GPURED__LANES;
}

typedef struct gpured__kernels {
  void (*feed)(int kernel, gpured__state *st, const void *x, const void *w, int64_t n,
               int64_t index);
  int64_t (*feed_narrow)(int kernel, gpured__state *st, const void *x, int32_t dtype, int64_t n,
                         int64_t index); /* or NULL */
  void (*push)(int kernel, gpured__state *st, const gpured__node *block);
  void (*close)(int kernel, gpured__state *st, gpured__node *out);
  void (*result)(int op, int kernel, const gpured__node *node, int64_t n, int ddof, void *out);
  void (*flat)(int kernel, const void *x, int64_t n, int where, void *out);
  void (*rows)(int kernel, const void *x, int64_t stride, int64_t rows, int64_t n, int ask,
               void *out);
  void (*few)(int kernel, const void *x, int64_t stride, int64_t n, int64_t columns, void *out);
  void (*columns)(int kernel, gpured__strip *st, const void *x, int64_t stride, const void *w,
                  int64_t n);
  void (*columns_close)(int kernel, gpured__strip *st);
  void (*columns_join)(int kernel, void *a, const void *b, int64_t n);
  void (*columns_fold)(int kernel, void *lanes, int64_t columns);
  void (*finish)(int op, void *values, int64_t count, int64_t n);
  void (*units)(int kernel, const void *x, int64_t stride, int64_t n, int64_t columns, void *first,
                void *second);
  void (*unit_results)(int op, int64_t columns, int64_t n, int ddof, void *first,
                       const void *second);
  void (*gemm_pack)(const void *src, int64_t step, int64_t across, int64_t columns, int64_t k,
                    void *panel);
  void (*gemm_tile)(int resume, void *tile, int64_t rows, const gpured__gemm_operands *o);
  void (*epilogue)(void *tile, int64_t rows, const gpured__epilogue *ep, const void *row_bias,
                   const void *column_bias);
  void (*gemm_columns)(int kernel, int how, const void *tile, int64_t rows, void *first,
                       void *second);
  void (*gemm_join)(int op, int kernel, void *first, void *second, int64_t blocks, int64_t n,
                    void *slots, int64_t *index);
  void (*gemm_sums)(const void *x, int64_t stride, const void *w, int64_t n, int64_t columns,
                    void *slots);
  void (*fetch)(void *dst, const void *src, int32_t dtype, int64_t stride, int64_t n, int how);
  void (*put)(void *dst, int32_t dtype, int64_t stride, const void *src, int64_t n, int how);
  int mr, nr;  /* the register tile of gemm_tile */
  size_t size; /* of the accumulator */
} gpured__kernels;

/* Lines that are scanned side by side, and what is kept for each (section 10.6) */
typedef struct gpured__scan_strip {
  void *slots;
  int64_t columns;
  int64_t width;  /* the same up to whole lines of memory, for which there are slots */
  int64_t pitch;  /* from slot to slot: a line more, so that slots share no places of a cache */
  int64_t groups; /* of rows that are still to come */
  int levels;     /* above the groups */
  int count[16];  /* of values in the current group of each level */
} gpured__scan_strip;

/* `how` is of GPURED_SCAN_EXCLUSIVE, GPURED__SCAN_STREAM (past the caches) and, with that,
 * GPURED__SCAN_ASK (for what will be read: `run` asks for what lies `ahead` bytes further). */
typedef struct gpured__scan_kernels {
  void (*run)(int kernel, unsigned how, int64_t ahead, const void *x, void *y, int64_t n,
              void *carry);
  void (*rows)(int kernel, unsigned how, const void *x, int64_t x_step, void *y, int64_t y_step,
               int64_t rows, int64_t n, const void *empty);
  void (*total)(int kernel, const void *x, void *total);
  void (*start)(int kernel, void *carry, const void *empty);
  void (*add)(int kernel, void *carry, int level, const void *totals);
  void (*strip)(int kernel, unsigned how, gpured__scan_strip *st, const void *x, int64_t x_step,
                void *y, int64_t y_step, int64_t rows);
  void (*strip_start)(int kernel, gpured__scan_strip *st, const void *empty);
  void (*expand)(void *dst, const void *src, int64_t n);
  void (*collapse)(void *dst, const void *src, int64_t n);
  int halves;   /* is a vector half a line of memory? Then lines past the caches ask on all
                   processors, and columns go past them wherever their rows begin. */
  size_t size;  /* of an element of the scan */
  size_t carry; /* of what is kept from one piece of a line to the next, which begins with the last
                   result */
} gpured__scan_kernels;

/* A tile of the scan is 16 blocks; 14 levels of 16 above the blocks are enough for 2^63. */
enum { GPURED__SCAN_TILE = 4096, GPURED__CARRY_LEVELS = 14 };
enum { GPURED__SCAN_STREAM = 4, GPURED__SCAN_ASK = 8 };
/* Lines of up to so many elements do not go past the caches: they are over before it pays. */
enum { GPURED__STREAM_LEAST = 8 * GPURED__BLOCK };
/* Bytes that a scan asks for early: of what it reads, and of where it stores. */
enum { GPURED__SCAN_AHEAD = 4096, GPURED__STORE_AHEAD = 512 };
/* Bytes from row to row up to which the next rows of columns are asked for: the hardware does not
 * follow several rows of a page. */
enum { GPURED__ASK_ROWS = 4096 };

/* ---- A GEMM-reduce as a backend gets it ---- */

/*
 * Reducing over N is reducing over M with the operands exchanged, so a plan knows rows (reduced)
 * and columns (kept).
 */
enum {
  GPURED__LEFT,
  GPURED__RIGHT,
  GPURED__ROW_BIAS,
  GPURED__COLUMN_BIAS,
  GPURED__PRODUCT,
  GPURED__GEMM_OPERANDS
};

typedef struct gpured__gemm_axis {
  int64_t n;
  int64_t
      stride[GPURED__GEMM_OPERANDS + GPURED_MAX_RESULTS]; /* operands, then results; in elements */
} gpured__gemm_axis;

typedef struct gpured__gemm_plan {
  const gpured_gemm *g;
  gpured_tensor left, right; /* a and b, or b and a with their matrix axes exchanged: [.., rows, k],
                                [.., k, columns] */
  const gpured_tensor *row_bias, *column_bias;
  int acc, batch_count, needs_product;
  int64_t rows, columns, depth, batches;
  gpured__gemm_axis batch[GPURED_MAX_NDIM];
  int64_t result_stride[GPURED_MAX_RESULTS], product_row, product_column;
  gpured__epilogue ep;
} gpured__gemm_plan;

/* Is this result computed without the product? */
GPURED__INLINE int gpured__is_short(const gpured_gemm *g, int op) {
  return g->map == GPURED_MAP_NONE && (op == GPURED_SUM || op == GPURED_MEAN);
}

GPURED__FUNC int gpured__gemm_has_short(const gpured__gemm_plan *p) {
  int i;
  for (i = 0; i < p->g->count; ++i)
    if (gpured__is_short(p->g, p->g->results[i].op)) return 1;
  return 0;
}

/* The element offset of an item of the batch for an operand. */
GPURED__SCALAR int64_t gpured__item_offset(const gpured__gemm_axis *batch, int count, int64_t item,
                                           int which) {
  int64_t offset = 0;
  int i;
  for (i = count - 1; i > 0; --i) {
    offset += item % batch[i].n * batch[i].stride[which];
    item /= batch[i].n;
  }
  if (i == 0) offset += item * batch[0].stride[which];
  return offset;
}

GPURED__INLINE int64_t gpured__gemm_offset(const gpured__gemm_plan *p, int64_t item, int which) {
  return gpured__item_offset(p->batch, p->batch_count, item, which);
}

/* How the values of the product enter the kernel of a result. */
GPURED__FUNC int gpured__gemm_enter(const gpured__gemm_plan *p, int op) {
  int is_signed =
      p->acc == GPURED__U64 && p->ep.is_signed && p->ep.map == GPURED_MAP_NONE; /* maps: unsigned */
  switch (op) {
    case GPURED_SUMSQ:
    case GPURED_NORM2:
      return GPURED__SQUARE;
    case GPURED_NORM1:
    case GPURED_ABSMAX:
      return p->acc != GPURED__U64 || is_signed ? GPURED__ABS : GPURED__PLAIN;
    case GPURED_MIN:
    case GPURED_MAX:
    case GPURED_ARGMIN:
    case GPURED_ARGMAX:
      return is_signed ? GPURED__BIAS : GPURED__PLAIN;
    default:
      return GPURED__PLAIN;
  }
}

/* The kernel that combines them: the transformation is already made. */
GPURED__FUNC int gpured__gemm_kernel(int op) {
  switch (op) {
    case GPURED_ABSMAX:
      return GPURED__MAX;
    case GPURED_SUMSQ:
    case GPURED_NORM1:
    case GPURED_NORM2:
      return GPURED__ADD;
    default:
      return gpured__kernel_of(op, 1);
  }
}

/* A contiguous [batch..., n] tensor of the accumulator's type in the workspace. */
GPURED__FUNC gpured_tensor gpured__gemm_vector(const gpured__gemm_plan *p, void *data, int64_t n) {
  static const int32_t dtype[GPURED__TYPES] = {GPURED_F32, GPURED_F64, GPURED_U64};
  gpured_tensor t;
  int64_t step = 1;
  int i;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.dtype = dtype[p->acc];
  t.device = GPURED_CPU;
  t.ndim = p->batch_count + 1;
  for (i = p->batch_count; i >= 0; --i) {
    t.shape[i] = i == p->batch_count ? n : p->batch[i].n;
    t.strides[i] = step;
    step *= t.shape[i];
  }
  return t;
}

/* An operand as [batch..., its own axes], its batch axes broadcast. */
GPURED__FUNC gpured_tensor gpured__gemm_view(const gpured__gemm_plan *p, const gpured_tensor *t,
                                             int matrix, int which) {
  gpured_tensor view = *t;
  int i;
  view.ndim = p->batch_count + matrix;
  for (i = 0; i < p->batch_count; ++i) {
    view.shape[i] = p->batch[i].n;
    view.strides[i] = p->batch[i].stride[which];
  }
  for (i = 0; i < matrix; ++i) {
    view.shape[p->batch_count + i] = t->shape[t->ndim - matrix + i];
    view.strides[p->batch_count + i] = t->strides[t->ndim - matrix + i];
  }
  return view;
}

#endif /* sections 4 to 9 */

#if defined(GPURED__NESTED) && !defined(GPURED__PASS) /* one level: section 10 for each type */
#define GPURED__PASS 32
#include GPURED_HEADER_NAME
#define GPURED__PASS 64
#include GPURED_HEADER_NAME
#define GPURED__PASS 1
#include GPURED_HEADER_NAME
#define GPURED__PASS 132
#include GPURED_HEADER_NAME
#define GPURED__PASS 164
#include GPURED_HEADER_NAME
#undef GPURED__LEVEL
#undef GPURED__WIDTH
#undef GPURED__GEMM_MR
#undef GPURED__GEMM_END
#undef GPURED__GEMM_RV
#endif

#ifdef GPURED__PASS
/* ============================================================================================== */
/* 10  Kernels (compiled again for each accumulator type and each vector level)                   */
/* ============================================================================================== */
/*
 * Section 11 includes this file once for each pair of type and level, with GPURED__PASS (32, 64:
 * floats; 1: integers; 132, 164: the pairs of logsumexp), GPURED__WIDTH (bytes of a vector, 0 for
 * scalars) and GPURED__LEVEL (the suffix of names) set. The code is written on GPURED__V, a vector
 * of GPURED__W elements, or a scalar where there are none; a row of 16 lanes is GPURED__NV of them.
 * That is what makes the bits the same at every width: a lane never meets another one before the
 * fold.
 */
#if GPURED__PASS == 132
#define GPURED__T gpured__pair_f32
#define GPURED__TN p32
#define GPURED__MEMBER f32
#elif GPURED__PASS == 164
#define GPURED__T gpured__pair_f64
#define GPURED__TN p64
#define GPURED__MEMBER f64
#elif GPURED__PASS == 32
#define GPURED__T float
#define GPURED__I int32_t
#define GPURED__U uint32_t
#define GPURED__TN f32
#define GPURED__ESIZE 4
#elif GPURED__PASS == 64
#define GPURED__T double
#define GPURED__I int64_t
#define GPURED__U uint64_t
#define GPURED__TN f64
#define GPURED__ESIZE 8
#elif GPURED__PASS == 1
#define GPURED__T uint64_t
#define GPURED__I int64_t
#define GPURED__U uint64_t
#define GPURED__TN u64
#define GPURED__ESIZE 8
#endif
#define GPURED__FLOAT (GPURED__PASS == 32 || GPURED__PASS == 64)

/* On x86 scalars serve comparisons, and SSE2 processors from before 2013: there the compiler
 * decides what to inline. That is as fast on the whole, and the header compiles sooner. */
#define GPURED__SHARES (GPURED__X86 && GPURED__WIDTH <= 16)
#define GPURED__SPARING (!GPURED__FORCES || GPURED__SHARES)
#if GPURED__SPARING
#undef GPURED__FORCED
#define GPURED__FORCED
#endif

/* Full unrolling, without which arrays of vectors become memory; scalars gain nothing from it. Code
 * that operations share is not unrolled by gcc -O3 either: it would be three times as long. */
#if GPURED__SHARES && GPURED__FORCES && !defined(__clang__)
#define GPURED__UNROLL _Pragma("GCC unroll 1")
#elif GPURED__WIDTH == 0 || GPURED__SPARING
#define GPURED__UNROLL
#elif defined(__clang__)
#define GPURED__UNROLL _Pragma("clang loop unroll(full)")
#else
#define GPURED__UNROLL _Pragma("GCC unroll 16")
#endif

/* Some of it, for loops that only go through memory. */
#if GPURED__WIDTH == 0 || GPURED__SPARING
#define GPURED__UNROLL_4
#elif defined(__clang__)
#define GPURED__UNROLL_4 _Pragma("clang loop unroll_count(4)")
#else
#define GPURED__UNROLL_4 _Pragma("GCC unroll 4")
#endif

/* Pairs of rows of a block: all of them where a row is one vector. Between 512 and 1024 bytes from
 * one round of a loop to the next are what the prefetchers of processors do best. */
#if GPURED__WIDTH == 16 * GPURED__ESIZE
#define GPURED__UNROLL_ROWS GPURED__UNROLL
#else
#define GPURED__UNROLL_ROWS GPURED__UNROLL_4
#endif

/* Do loops over what comes from memory in whole vectors ask for what lies ahead? With AVX-512 the
 * hardware does so too late; loops over narrower vectors are slower for it. */
#define GPURED__ASKS (GPURED__WIDTH == 64)

/* Is what comes from memory walked block by block? With vectors of half a line or less the second
 * of two blocks side by side is met before the hardware has read it: AMD's have 0.6 of a read. */
#define GPURED__IN_TURN (GPURED__X86 && GPURED__WIDTH <= 32)

/* Is it read from several places in turn? With such vectors on a Zen 3 server a thread has 1.2 to
 * 1.6 times as much from four of them as from one; on an Intel server 0.8 to 1.0, and with
 * AVX-512. */
#define GPURED__APART (GPURED__X86 && GPURED__WIDTH == 32)

/* Are there vectors of narrower floats to widen? */
#define GPURED__LOADS_NARROW              \
  (GPURED__FLOAT && GPURED__WIDTH != 0 && \
   (GPURED__PASS == 64 || (GPURED__X86 && GPURED__WIDTH >= 32)))

#define GPURED__N(name) \
  GPURED__JOIN(GPURED__JOIN(gpured__##name##_, GPURED__TN), GPURED__JOIN(_, GPURED__LEVEL))
#define GPURED__S(name) GPURED__JOIN(gpured__##name##_, GPURED__TN) /* the scalars of section 5 */
#define GPURED__M(name) \
  GPURED__JOIN(GPURED__JOIN(gpured__##name##_, GPURED__MEMBER), GPURED__JOIN(_, GPURED__LEVEL))

#if GPURED__PASS < 100
/* ---- 10.1  Vectors ---- */

#if GPURED__WIDTH == 0
#define GPURED__W 1
typedef GPURED__T GPURED__N(v);
typedef GPURED__U GPURED__N(uv);
typedef int GPURED__N(mask);
#define GPURED__SPLAT(x) (x)
#else
#define GPURED__W (GPURED__WIDTH / GPURED__ESIZE)
typedef GPURED__T GPURED__N(v) __attribute__((vector_size(GPURED__WIDTH)));
typedef GPURED__U GPURED__N(uv) __attribute__((vector_size(GPURED__WIDTH)));
typedef GPURED__I GPURED__N(mask) __attribute__((vector_size(GPURED__WIDTH)));
#if GPURED__WIDTH / GPURED__ESIZE == 2
#define GPURED__SPLAT(x) \
  { x, x }
#elif GPURED__WIDTH / GPURED__ESIZE == 4
#define GPURED__SPLAT(x) \
  { x, x, x, x }
#elif GPURED__WIDTH / GPURED__ESIZE == 8
#define GPURED__SPLAT(x) \
  { x, x, x, x, x, x, x, x }
#else
#define GPURED__SPLAT(x) \
  { x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x }
#endif
#endif
#define GPURED__V GPURED__N(v)
#define GPURED__UV GPURED__N(uv)
#define GPURED__NV (16 / GPURED__W)

/* Does what comes, or does not come, from memory go so on this processor? */
GPURED__INLINE int GPURED__N(goes_apart)(int from_memory) {
  return GPURED__APART && from_memory && !gpured__on_intel();
}

GPURED__INLINE GPURED__V GPURED__N(splat)(GPURED__T x) {
  GPURED__V v = GPURED__SPLAT(x);
  return v;
}

GPURED__INLINE GPURED__V GPURED__N(load)(const GPURED__T *p) {
  GPURED__V v;
  memcpy(&v, p, sizeof v);
  return v;
}

GPURED__INLINE void GPURED__N(store)(GPURED__T *p, GPURED__V v) { memcpy(p, &v, sizeof v); }

/* A store that goes past the cache, to an address aligned to the vector. */
GPURED__INLINE void GPURED__N(stream)(GPURED__T *p, GPURED__V v) {
#if GPURED__X86 && GPURED__WIDTH == 64
  _mm512_stream_si512((__m512i *)(void *)p, (__m512i)v);
#elif GPURED__X86 && GPURED__WIDTH == 32
  _mm256_stream_si256((__m256i *)(void *)p, (__m256i)v);
#else
  GPURED__N(store)(p, v);
#endif
}

/* A vector of narrower floats, widened: f32 to f64, f16 (`half`) or bf16 to f32. The compilers take
 * a vector of f32 apart for it. */
#if GPURED__LOADS_NARROW
GPURED__INLINE GPURED__V GPURED__N(load_narrow)(const void *p, int half) {
#if GPURED__PASS == 64 && GPURED__WIDTH == 64
  (void)half;
  return (GPURED__V)_mm512_cvtps_pd(_mm256_loadu_ps((const float *)p));
#elif GPURED__PASS == 64 && GPURED__WIDTH == 32
  (void)half;
  return (GPURED__V)_mm256_cvtps_pd(_mm_loadu_ps((const float *)p));
#elif GPURED__PASS == 64
  float v __attribute__((vector_size(GPURED__W * sizeof(float))));
  (void)half;
  memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, GPURED__V);
#elif GPURED__WIDTH == 64
  const __m256i v = _mm256_loadu_si256((const __m256i *)p);
  return (GPURED__V)(half ? _mm512_cvtph_ps(v)
                          : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16)));
#else
  const __m128i v = _mm_loadu_si128((const __m128i *)p);
  return (GPURED__V)(half ? _mm256_cvtph_ps(v)
                          : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16)));
#endif
}
#endif

/* The same unsigned integer in every element. */
GPURED__INLINE GPURED__UV GPURED__N(row_number)(GPURED__U u) {
  GPURED__UV v = GPURED__SPLAT(u);
  return v;
}

/* Reinterpretation of bits, and the choice by a mask. */
#if GPURED__WIDTH == 0
GPURED__INLINE GPURED__UV GPURED__N(as_u)(GPURED__V v) {
  GPURED__UV u;
  memcpy(&u, &v, sizeof u);
  return u;
}

GPURED__INLINE GPURED__V GPURED__N(as_v)(GPURED__UV u) {
  GPURED__V v;
  memcpy(&v, &u, sizeof v);
  return v;
}

GPURED__INLINE GPURED__V GPURED__N(select)(GPURED__N(mask) m, GPURED__V a, GPURED__V b) {
  return m ? a : b;
}
#else
GPURED__INLINE GPURED__UV GPURED__N(as_u)(GPURED__V v) { return (GPURED__UV)v; }
GPURED__INLINE GPURED__V GPURED__N(as_v)(GPURED__UV u) { return (GPURED__V)u; }
GPURED__INLINE GPURED__V GPURED__N(select)(GPURED__N(mask) m, GPURED__V a, GPURED__V b) {
  return (GPURED__V)(((GPURED__UV)m & (GPURED__UV)a) | (~(GPURED__UV)m & (GPURED__UV)b));
}
#endif

/* The same value in a register, of which the compiler knows nothing: it fuses nothing with it, and
 * loads it once where it is used twice. */
#if GPURED__WIDTH == 64
#define GPURED__HELD(v) "+v"(v)
#elif GPURED__X86
#define GPURED__HELD(v) "+x"(v)
#else
#define GPURED__HELD(v) "+w"(v)
#endif
GPURED__INLINE GPURED__V GPURED__N(held)(GPURED__V v) {
#if GPURED__WIDTH != 0
  __asm__("" : GPURED__HELD(v));
#elif GPURED__FLOAT
  v = GPURED__S(keep)(v);
#endif
  return v;
}

/* A rounded product that nothing is fused with (section 4); the fused one. */
GPURED__INLINE GPURED__V GPURED__N(mul)(GPURED__V a, GPURED__V b) {
#if GPURED__FLOAT
  return GPURED__N(held)(a * b);
#else
  return a * b;
#endif
}

GPURED__INLINE GPURED__V GPURED__N(fma)(GPURED__V a, GPURED__V b, GPURED__V c) {
#if !GPURED__FLOAT
  return a * b + c;
#elif GPURED__WIDTH == 0 && GPURED__PASS == 32
  return fmaf(a, b, c);
#elif GPURED__WIDTH == 0
  return fma(a, b, c);
#elif GPURED__X86 && GPURED__WIDTH == 64 && GPURED__PASS == 32
  return (GPURED__V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif GPURED__X86 && GPURED__WIDTH == 64
  return (GPURED__V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif GPURED__X86 && GPURED__WIDTH == 32 && GPURED__PASS == 32
  return (GPURED__V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif GPURED__X86 && GPURED__WIDTH == 32
  return (GPURED__V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif GPURED__NEON && GPURED__PASS == 32
  return (GPURED__V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#elif GPURED__NEON
  return (GPURED__V)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else /* SSE2 has no fma: lane by lane through libm, which rounds once */
  int i;
  for (i = 0; i < GPURED__W; ++i) {
#if GPURED__PASS == 32
    c[i] = fmaf(a[i], b[i], c[i]);
#else
    c[i] = fma(a[i], b[i], c[i]);
#endif
  }
  return c;
#endif
}

/* Of two vectors that hold groups of `group` elements: the first and the second halves of all
 * groups. `zip` undoes it for groups of 2. Index lists are constants, as the compilers ask. */
#if GPURED__WIDTH == 0
GPURED__INLINE void GPURED__N(halves)(int group, GPURED__V a, GPURED__V b, GPURED__V *low,
                                      GPURED__V *high) {
  (void)group;
  *low = a, *high = b;
}

GPURED__INLINE void GPURED__N(zip)(GPURED__V low, GPURED__V high, GPURED__V *a, GPURED__V *b) {
  *a = low, *b = high;
}
#else
#if defined(__clang__) || __GNUC__ >= 12
#define GPURED__SHUFFLE(out, a, b, ...) out = __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define GPURED__SHUFFLE(out, a, b, ...)         \
  do {                                          \
    const GPURED__N(mask) pick = {__VA_ARGS__}; \
    out = __builtin_shuffle(a, b, pick);        \
  } while (0)
#endif
GPURED__INLINE void GPURED__N(halves)(int group, GPURED__V a, GPURED__V b, GPURED__V *low,
                                      GPURED__V *high) {
#if GPURED__WIDTH / GPURED__ESIZE == 16
  switch (group) {
    case 16:
      GPURED__SHUFFLE(*low, a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
      GPURED__SHUFFLE(*high, a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
      break;
    case 8:
      GPURED__SHUFFLE(*low, a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
      GPURED__SHUFFLE(*high, a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
      break;
    case 4:
      GPURED__SHUFFLE(*low, a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29);
      GPURED__SHUFFLE(*high, a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31);
      break;
    default:
      GPURED__SHUFFLE(*low, a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      GPURED__SHUFFLE(*high, a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
      break;
  }
#endif
#if GPURED__WIDTH / GPURED__ESIZE == 8
  switch (group) {
    case 8:
      GPURED__SHUFFLE(*low, a, b, 0, 1, 2, 3, 8, 9, 10, 11);
      GPURED__SHUFFLE(*high, a, b, 4, 5, 6, 7, 12, 13, 14, 15);
      break;
    case 4:
      GPURED__SHUFFLE(*low, a, b, 0, 1, 4, 5, 8, 9, 12, 13);
      GPURED__SHUFFLE(*high, a, b, 2, 3, 6, 7, 10, 11, 14, 15);
      break;
    default:
      GPURED__SHUFFLE(*low, a, b, 0, 2, 4, 6, 8, 10, 12, 14);
      GPURED__SHUFFLE(*high, a, b, 1, 3, 5, 7, 9, 11, 13, 15);
      break;
  }
#endif
#if GPURED__WIDTH / GPURED__ESIZE == 4
  switch (group) {
    case 4:
      GPURED__SHUFFLE(*low, a, b, 0, 1, 4, 5);
      GPURED__SHUFFLE(*high, a, b, 2, 3, 6, 7);
      break;
    default:
      GPURED__SHUFFLE(*low, a, b, 0, 2, 4, 6);
      GPURED__SHUFFLE(*high, a, b, 1, 3, 5, 7);
      break;
  }
#endif
#if GPURED__WIDTH / GPURED__ESIZE == 2
  switch (group) {
    default:
      GPURED__SHUFFLE(*low, a, b, 0, 2);
      GPURED__SHUFFLE(*high, a, b, 1, 3);
      break;
  }
#endif
}

GPURED__INLINE void GPURED__N(zip)(GPURED__V low, GPURED__V high, GPURED__V *a, GPURED__V *b) {
#if GPURED__WIDTH / GPURED__ESIZE == 16
  GPURED__SHUFFLE(*a, low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  GPURED__SHUFFLE(*b, low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif GPURED__WIDTH / GPURED__ESIZE == 8
  GPURED__SHUFFLE(*a, low, high, 0, 8, 1, 9, 2, 10, 3, 11);
  GPURED__SHUFFLE(*b, low, high, 4, 12, 5, 13, 6, 14, 7, 15);
#elif GPURED__WIDTH / GPURED__ESIZE == 4
  GPURED__SHUFFLE(*a, low, high, 0, 4, 1, 5);
  GPURED__SHUFFLE(*b, low, high, 2, 6, 3, 7);
#else
  GPURED__SHUFFLE(*a, low, high, 0, 2);
  GPURED__SHUFFLE(*b, low, high, 1, 3);
#endif
}
#endif

/* Is any element of a mask set? */
GPURED__INLINE int GPURED__N(any)(GPURED__N(mask) m) {
#if GPURED__WIDTH == 0
  return m;
#elif GPURED__X86 && GPURED__WIDTH == 64
  return _mm512_test_epi32_mask((__m512i)m, (__m512i)m) != 0;
#elif GPURED__X86 && GPURED__WIDTH == 32
  return !_mm256_testz_si256((__m256i)m, (__m256i)m);
#elif GPURED__X86
  return _mm_movemask_epi8((__m128i)m) != 0;
#else
  return vmaxvq_u32((uint32x4_t)m) != 0;
#endif
}

#if GPURED__FLOAT
#define GPURED__SIGN ((GPURED__U)1 << (GPURED__ESIZE * 8 - 1))
#define GPURED__CONST(name) \
  GPURED__N(splat)          \
  (GPURED__S(from_bits)(GPURED__JOIN(gpured__constants_, GPURED__TN)[GPURED__##name]))
#define GPURED__CONST_U(u) GPURED__N(as_u)(GPURED__N(splat)(GPURED__S(from_bits)(u)))

GPURED__INLINE GPURED__V GPURED__N(abs)(GPURED__V v) {
  return GPURED__N(as_v)(GPURED__N(as_u)(v) & ~GPURED__CONST_U(GPURED__SIGN));
}

/* Scalars by their bits: under -fno-honor-nans clang takes the result of `c ? x : y` for a number,
 * whatever the pragma at the head says. */
GPURED__INLINE GPURED__N(mask) GPURED__N(isnan)(GPURED__V v) {
#if GPURED__WIDTH == 0
  return GPURED__S(isnan)(v);
#else
  return v != v;
#endif
}

/* v where neither a nor b is NaN, the NaN that is stored elsewhere. */
GPURED__INLINE GPURED__V GPURED__N(if_number)(GPURED__V a, GPURED__V b, GPURED__V v) {
  const GPURED__V nan = GPURED__N(splat)(GPURED__S(quiet_nan)());
#if GPURED__X86 && GPURED__WIDTH == 64 && GPURED__PASS == 32
  return (GPURED__V)_mm512_mask_mov_ps(
      (__m512)v, _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q), (__m512)nan);
#elif GPURED__X86 && GPURED__WIDTH == 64
  return (GPURED__V)_mm512_mask_mov_pd(
      (__m512d)v, _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_UNORD_Q), (__m512d)nan);
#elif GPURED__X86 && GPURED__WIDTH == 32 && GPURED__PASS == 32
  return (GPURED__V)_mm256_blendv_ps((__m256)v, (__m256)nan,
                                     _mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q));
#elif GPURED__X86 && GPURED__WIDTH == 32
  return (GPURED__V)_mm256_blendv_pd((__m256d)v, (__m256d)nan,
                                     _mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_UNORD_Q));
#else
  return GPURED__N(select)(GPURED__N(isnan)(a) | GPURED__N(isnan)(b), nan, v);
#endif
}

GPURED__INLINE GPURED__V GPURED__N(canonical)(GPURED__V v) { return GPURED__N(if_number)(v, v, v); }

/* The larger and the smaller of two, where neither is NaN and they are not two zeros: what the
 * hardware does in one step. */
#if GPURED__WIDTH == 0
#define GPURED__HARD(name, compare) (a compare b ? a : b)
#elif GPURED__X86 && GPURED__WIDTH == 64 && GPURED__PASS == 32
#define GPURED__HARD(name, compare) (GPURED__V) _mm512_##name##_ps((__m512)a, (__m512)b)
#elif GPURED__X86 && GPURED__WIDTH == 64
#define GPURED__HARD(name, compare) (GPURED__V) _mm512_##name##_pd((__m512d)a, (__m512d)b)
#elif GPURED__X86 && GPURED__WIDTH == 32 && GPURED__PASS == 32
#define GPURED__HARD(name, compare) (GPURED__V) _mm256_##name##_ps((__m256)a, (__m256)b)
#elif GPURED__X86 && GPURED__WIDTH == 32
#define GPURED__HARD(name, compare) (GPURED__V) _mm256_##name##_pd((__m256d)a, (__m256d)b)
#elif GPURED__X86 && GPURED__PASS == 32
#define GPURED__HARD(name, compare) (GPURED__V) _mm_##name##_ps((__m128)a, (__m128)b)
#elif GPURED__X86
#define GPURED__HARD(name, compare) (GPURED__V) _mm_##name##_pd((__m128d)a, (__m128d)b)
#elif GPURED__PASS == 32
#define GPURED__HARD(name, compare) (GPURED__V) v##name##q_f32((float32x4_t)a, (float32x4_t)b)
#else
#define GPURED__HARD(name, compare) (GPURED__V) v##name##q_f64((float64x2_t)a, (float64x2_t)b)
#endif
GPURED__INLINE GPURED__V GPURED__N(max_plain)(GPURED__V a, GPURED__V b) {
  return GPURED__HARD(max, >);
}

GPURED__INLINE GPURED__V GPURED__N(min_plain)(GPURED__V a, GPURED__V b) {
  return GPURED__HARD(min, <);
}
#undef GPURED__HARD

/* NaN wins, -0 < +0, as gpured__max_f32 in section 5: the hardware's step both ways round agrees
 * but for two zeros, of which and-ing keeps the positive one, or-ing the negative one, and for NaN.
 */
GPURED__INLINE GPURED__V GPURED__N(max)(GPURED__V a, GPURED__V b) {
#if GPURED__WIDTH == 0
  return GPURED__S(max)(a, b);
#else
  const GPURED__V m = GPURED__N(max_plain)(a, b), w = GPURED__N(max_plain)(b, a);
  return GPURED__N(if_number)(a, b, (GPURED__V)((GPURED__UV)m & (GPURED__UV)w));
#endif
}

GPURED__INLINE GPURED__V GPURED__N(neg)(GPURED__V v) {
  return GPURED__N(as_v)(GPURED__N(as_u)(v) ^ GPURED__CONST_U(GPURED__SIGN));
}

GPURED__INLINE GPURED__V GPURED__N(min)(GPURED__V a, GPURED__V b) {
#if GPURED__WIDTH == 0
  return -GPURED__S(max)(-a, -b);
#else
  const GPURED__V m = GPURED__N(min_plain)(a, b), w = GPURED__N(min_plain)(b, a);
  return GPURED__N(if_number)(a, b, (GPURED__V)((GPURED__UV)m | (GPURED__UV)w));
#endif
}

/* p with t's last bits added to its exponent, or 0 where d is below the cut. */
GPURED__INLINE GPURED__V GPURED__N(scaled)(GPURED__V d, GPURED__V p, GPURED__V t) {
  const int shift = GPURED__JOIN(GPURED__SHIFT_, GPURED__TN);
  const GPURED__UV by = GPURED__N(as_u)(t) << shift;
#if GPURED__X86 && GPURED__WIDTH == 64 && GPURED__PASS == 32
  return (GPURED__V)_mm512_maskz_add_epi32(
      _mm512_cmp_ps_mask((__m512)d, (__m512)GPURED__CONST(CUT), _CMP_GE_OQ), (__m512i)p,
      (__m512i)by);
#elif GPURED__X86 && GPURED__WIDTH == 64
  return (GPURED__V)_mm512_maskz_add_epi64(
      _mm512_cmp_pd_mask((__m512d)d, (__m512d)GPURED__CONST(CUT), _CMP_GE_OQ), (__m512i)p,
      (__m512i)by);
#else
  p = GPURED__N(as_v)(GPURED__N(as_u)(p) + by);
  return GPURED__N(select)(d < GPURED__CONST(CUT), GPURED__N(splat)(0), p);
#endif
}

/* d[j] = exp(d[j]) for d <= 0, docs/ORDER.md section 8; side by side, because each alone is one
 * long chain. */
GPURED__INLINE void GPURED__N(exp_each)(GPURED__V *d, int count) {
  const GPURED__V magic = GPURED__CONST(MAGIC);
  GPURED__V t[16], r[16], p[16], c;
  enum { top = GPURED__JOIN(GPURED__EXP_TOP_, GPURED__TN) };
  int i, j;
  GPURED__UNROLL
  for (j = 0; j < count; ++j) {
    t[j] = GPURED__N(fma)(d[j], GPURED__CONST(LOG2E), magic);
    p[j] = t[j] - magic;
    r[j] = GPURED__N(fma)(p[j], GPURED__N(neg)(GPURED__CONST(LN2_HI)), d[j]);
    r[j] = GPURED__N(fma)(p[j], GPURED__N(neg)(GPURED__CONST(LN2_LO)), r[j]);
    p[j] = GPURED__N(splat)(GPURED__S(from_bits)(GPURED__S(exp_c)[top]));
  }
  GPURED__UNROLL
  for (i = top - 1; i >= 0; --i) {
    c = GPURED__N(splat)(GPURED__S(from_bits)(GPURED__S(exp_c)[i]));
    GPURED__UNROLL
    for (j = 0; j < count; ++j) p[j] = GPURED__N(fma)(p[j], r[j], c);
  }
  GPURED__UNROLL
  for (j = 0; j < count; ++j) d[j] = GPURED__N(scaled)(d[j], p[j], t[j]);
}

GPURED__INLINE GPURED__V GPURED__N(exp)(GPURED__V d) {
  GPURED__N(exp_each)(&d, 1);
  return d;
}

/* log(z) for finite z >= 1, section 8. */
GPURED__INLINE GPURED__V GPURED__N(log_all)(GPURED__V z) {
  const GPURED__U *k = GPURED__JOIN(gpured__constants_, GPURED__TN), *l = GPURED__S(log_l);
  enum {
    shift = GPURED__JOIN(GPURED__SHIFT_, GPURED__TN),
    top = GPURED__JOIN(GPURED__LOG_TOP_, GPURED__TN)
  };
  const int by = shift;
  const GPURED__UV half = GPURED__CONST_U(k[GPURED__SQRT_HALF]),
                   mask = GPURED__CONST_U(((GPURED__U)1 << shift) - 1);
  const GPURED__UV ix = GPURED__N(as_u)(z) - half;
  const GPURED__V one = GPURED__N(splat)(1), w = GPURED__N(as_v)((ix & mask) + half), f = w - one;
  const GPURED__V s = f / (w + one), q = GPURED__N(mul)(s, s);
#if GPURED__WIDTH == 0
  const GPURED__V e = (GPURED__T)(ix >> by);
#else
  const GPURED__V e = __builtin_convertvector((GPURED__N(mask))(ix >> by), GPURED__V);
#endif
  GPURED__V p = GPURED__N(splat)(GPURED__S(from_bits)(l[top]));
  int i;
  GPURED__UNROLL
  for (i = top - 1; i >= 1; --i)
    p = GPURED__N(fma)(p, q, GPURED__N(splat)(GPURED__S(from_bits)(l[i])));
  p = GPURED__N(mul)(p, q);
  p = GPURED__N(fma)(s, p, s + s);
  p = GPURED__N(fma)(e, GPURED__CONST(LN2_LO), p);
  return GPURED__N(fma)(e, GPURED__CONST(LN2_HI), p);
}

GPURED__FUNC GPURED__T GPURED__N(log)(GPURED__T z) {
  GPURED__T y[GPURED__W];
  GPURED__N(store)(y, GPURED__N(log_all)(GPURED__N(splat)(z)));
  return y[0];
}
#else
GPURED__INLINE GPURED__V GPURED__N(canonical)(GPURED__V v) { return v; }
GPURED__INLINE GPURED__N(mask) GPURED__N(isnan)(GPURED__V v) { return (GPURED__N(mask))(v ^ v); }
GPURED__INLINE GPURED__V GPURED__N(abs)(GPURED__V v) { return v; }
GPURED__INLINE GPURED__V GPURED__N(max)(GPURED__V a, GPURED__V b) {
  return GPURED__N(select)(a > b, a, b);
}
GPURED__INLINE GPURED__V GPURED__N(min)(GPURED__V a, GPURED__V b) {
  return GPURED__N(select)(a < b, a, b);
}
#endif

/*
 * GPURED__COPIES makes a function for each folding kernel of an inlined one, whose first argument
 * becomes a constant (those that nothing calls vanish); GPURED__OF calls one of them, and
 * GPURED__WITH_KERNEL the right one, GPURED__WITH_SUM of those that add or multiply; Dot is among
 * them only by name, for what has weights. They are functions, and not cases of one switch, since
 * the time in which a function is compiled grows faster than its length. All kernels share one
 * where code is spared.
 */
#define GPURED__COPY(number, name, parameters, ...)         \
  GPURED__FUNC void GPURED__N(name##_##number) parameters { \
    GPURED__N(name)(GPURED__##number, __VA_ARGS__);         \
  }
#define GPURED__PICK(number, name, ...)      \
  case GPURED__##number:                     \
    GPURED__N(name##_##number)(__VA_ARGS__); \
    break
#if GPURED__SPARING
#define GPURED__COPIES(name, parameters, ...) typedef int GPURED__N(name##_copies)
#define GPURED__COPIES_WITH_DOT GPURED__COPIES
#define GPURED__OF(number, name, ...) GPURED__N(name)(GPURED__##number, __VA_ARGS__)
#define GPURED__WITH_KERNEL(kernel, name, ...) GPURED__N(name)(kernel, __VA_ARGS__)
#define GPURED__WITH_KERNEL_OR_DOT GPURED__WITH_KERNEL
#define GPURED__WITH_SUM GPURED__WITH_KERNEL
#else
#if GPURED__FLOAT
#define GPURED__FLOAT_COPIES(name, parameters, ...)      \
  GPURED__COPY(ADD_ABS, name, parameters, __VA_ARGS__)   \
  GPURED__COPY(MAX_ABS, name, parameters, __VA_ARGS__)   \
  GPURED__COPY(MIN_PLAIN, name, parameters, __VA_ARGS__) \
  GPURED__COPY(MAX_PLAIN, name, parameters, __VA_ARGS__)
#define GPURED__PICK_NORM GPURED__PICK
#else
#define GPURED__FLOAT_COPIES(name, parameters, ...)
#define GPURED__PICK_NORM(number, name, ...)
#endif
#define GPURED__COPIES(name, parameters, ...)             \
  GPURED__COPY(ADD, name, parameters, __VA_ARGS__)        \
  GPURED__COPY(ADD_SQUARE, name, parameters, __VA_ARGS__) \
  GPURED__COPY(MUL, name, parameters, __VA_ARGS__)        \
  GPURED__COPY(MIN, name, parameters, __VA_ARGS__)        \
  GPURED__COPY(MAX, name, parameters, __VA_ARGS__)        \
  GPURED__FLOAT_COPIES(name, parameters, __VA_ARGS__)     \
  typedef int GPURED__N(name##_copies)
#define GPURED__COPIES_WITH_DOT(name, parameters, ...) \
  GPURED__COPY(DOT, name, parameters, __VA_ARGS__)     \
  GPURED__COPIES(name, parameters, __VA_ARGS__)
#define GPURED__OF(number, name, ...) GPURED__N(name##_##number)(__VA_ARGS__)
#define GPURED__PICK_SUM(name, ...)            \
  GPURED__PICK(ADD, name, __VA_ARGS__);        \
  GPURED__PICK(ADD_SQUARE, name, __VA_ARGS__); \
  GPURED__PICK(MUL, name, __VA_ARGS__);        \
  GPURED__PICK_NORM(ADD_ABS, name, __VA_ARGS__)
#define GPURED__PICK_KERNEL(name, ...)  \
  GPURED__PICK_SUM(name, __VA_ARGS__);  \
  GPURED__PICK(MIN, name, __VA_ARGS__); \
  GPURED__PICK(MAX, name, __VA_ARGS__); \
  GPURED__PICK_NORM(MAX_ABS, name, __VA_ARGS__)
#define GPURED__WITH_SUM(kernel, name, ...) \
  switch (kernel) {                         \
    GPURED__PICK_SUM(name, __VA_ARGS__);    \
    default:                                \
      break;                                \
  }
#define GPURED__WITH_KERNEL(kernel, name, ...) \
  switch (kernel) {                            \
    GPURED__PICK_KERNEL(name, __VA_ARGS__);    \
    default:                                   \
      break;                                   \
  }
#define GPURED__WITH_KERNEL_OR_DOT(kernel, name, ...) \
  switch (kernel) {                                   \
    GPURED__PICK(DOT, name, __VA_ARGS__);             \
    GPURED__PICK_KERNEL(name, __VA_ARGS__);           \
    default:                                          \
      break;                                          \
  }
#endif

/* ---- 10.2  Folds: blocks of 256 ---- */

/* What an absent element is. For Dot this is the pad of the first operand; the second is padded
 * with 1. */
GPURED__INLINE GPURED__T GPURED__N(neutral)(int kernel) {
  switch (kernel) {
#if GPURED__FLOAT
    case GPURED__MUL:
      return 1;
    case GPURED__MIN:
    case GPURED__MIN_PLAIN:
      return GPURED__S(infinity)();
    case GPURED__MAX:
    case GPURED__MAX_PLAIN:
      return -GPURED__S(infinity)();
    case GPURED__MAX_ABS:
      return 0;
    default:
      return GPURED__S(from_bits)(GPURED__SIGN);
#else
    case GPURED__MUL:
      return 1;
    case GPURED__MIN:
      return UINT64_MAX;
    default:
      return 0;
#endif
  }
}

/* An element that starts a lane, an element that joins one, and two lanes combined. */
GPURED__INLINE GPURED__V GPURED__N(first)(int kernel, GPURED__V x, GPURED__V w) {
  switch (kernel) {
    case GPURED__ADD_SQUARE:
      return GPURED__N(mul)(x, x);
    case GPURED__DOT:
      return GPURED__N(mul)(x, w);
    case GPURED__ADD_ABS:
    case GPURED__MAX_ABS:
      return GPURED__N(abs)(x);
    default:
      return x;
  }
}

GPURED__INLINE GPURED__V GPURED__N(combine)(int kernel, GPURED__V a, GPURED__V b) {
  switch (kernel) {
    case GPURED__MUL:
      return GPURED__N(mul)(a, b);
    case GPURED__MIN:
      return GPURED__N(min)(a, b);
    case GPURED__MAX:
    case GPURED__MAX_ABS:
      return GPURED__N(max)(a, b);
#if GPURED__FLOAT
    case GPURED__MIN_PLAIN:
      return GPURED__N(min_plain)(a, b);
    case GPURED__MAX_PLAIN:
      return GPURED__N(max_plain)(a, b);
#endif
    default:
      return a + b;
  }
}

GPURED__INLINE GPURED__V GPURED__N(step)(int kernel, GPURED__V acc, GPURED__V x, GPURED__V w) {
  switch (kernel) {
    case GPURED__ADD_SQUARE:
      return GPURED__N(fma)(x, x, acc);
    case GPURED__DOT:
      return GPURED__N(fma)(x, w, acc);
    default:
      return GPURED__N(combine)(kernel, acc, GPURED__N(first)(kernel, x, w));
  }
}

/* The first row of 16 elements of a block, and each further one; `w` is read for Dot alone. */
GPURED__INLINE void GPURED__N(first_row)(int kernel, GPURED__V *acc, const GPURED__T *x,
                                         const GPURED__T *w) {
  int i;
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i) {
    GPURED__V xv = GPURED__N(load)(x + i * GPURED__W);
    acc[i] = GPURED__N(first)(kernel, xv,
                              kernel == GPURED__DOT ? GPURED__N(load)(w + i * GPURED__W) : xv);
  }
}

GPURED__INLINE void GPURED__N(next_row)(int kernel, GPURED__V *acc, const GPURED__T *x,
                                        const GPURED__T *w) {
  int i;
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i) {
    GPURED__V xv = GPURED__N(load)(x + i * GPURED__W);
    if (kernel == GPURED__ADD_SQUARE) xv = GPURED__N(held)(xv);
    acc[i] = GPURED__N(step)(kernel, acc[i], xv,
                             kernel == GPURED__DOT ? GPURED__N(load)(w + i * GPURED__W) : xv);
  }
}

/* Read from LANES - n: a mask of the first n of 16. */
#if GPURED__WIDTH == 0
typedef int GPURED__N(bits);
#else
typedef GPURED__I GPURED__N(bits);
#endif
static const GPURED__N(bits) GPURED__N(first_n)[2 * GPURED__LANES] = {
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

/* The first `count` elements at x, the others being `fill`; and their way back. count <= W, and not
 * positive for none. */
GPURED__INLINE GPURED__V GPURED__N(load_part)(const GPURED__T *x, int count, GPURED__T fill) {
#if GPURED__X86 && GPURED__WIDTH == 64
  const unsigned mask = count > 0 ? (1u << count) - 1 : 0;
#if GPURED__PASS == 32
  return (GPURED__V)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), (__mmask16)mask, x);
#else
  return (GPURED__V)_mm512_mask_loadu_epi64((__m512i)GPURED__N(splat)(fill), (__mmask8)mask, x);
#endif
#elif GPURED__X86 && GPURED__WIDTH == 32
  const GPURED__N(bits) *bits = GPURED__N(first_n) + GPURED__LANES - (count > 0 ? count : 0);
  const __m256i mask = _mm256_loadu_si256((const __m256i *)(const void *)bits);
  const __m256i fills = (__m256i)GPURED__N(splat)(fill);
#if GPURED__PASS == 32
  const __m256i v = (__m256i)_mm256_maskload_ps(x, mask);
#else
  const __m256i v = _mm256_maskload_epi64((const long long *)(const void *)x, mask);
#endif
  return (GPURED__V)_mm256_blendv_epi8(fills, v, mask);
#else
  GPURED__T v[GPURED__W];
  int i;
  for (i = 0; i < GPURED__W; ++i) v[i] = i < count ? x[i] : fill;
  return GPURED__N(load)(v);
#endif
}

GPURED__INLINE void GPURED__N(store_part)(GPURED__T *x, int count, GPURED__V value) {
#if GPURED__X86 && GPURED__WIDTH == 64 && GPURED__PASS == 32
  _mm512_mask_storeu_ps(x, (__mmask16)((1u << count) - 1), (__m512)value);
#elif GPURED__X86 && GPURED__WIDTH == 64 && GPURED__PASS == 64
  _mm512_mask_storeu_pd(x, (__mmask8)((1u << count) - 1), (__m512d)value);
#else
  GPURED__T v[GPURED__W];
  GPURED__N(store)(v, value);
  memcpy(x, v, (size_t)count * sizeof *x);
#endif
}

/* An incomplete row of `count` < 16 elements, filled up with `fill`. */
GPURED__INLINE void GPURED__N(part_row)(GPURED__V *row, const GPURED__T *x, int count,
                                        GPURED__T fill) {
  int i;
#if GPURED__WIDTH == 0 /* gcc -O3 does not see that all of it is written */
  memset(row, 0, GPURED__NV * sizeof *row);
#endif
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i)
    row[i] = GPURED__N(load_part)(
        x + (count > i * GPURED__W ? i * GPURED__W : 0),
        count - i * GPURED__W < GPURED__W ? count - i * GPURED__W : GPURED__W, fill);
}

/* The same where a whole row may be read at x. Preferred: masked loads do not make the hardware
 * read ahead. */
GPURED__INLINE void GPURED__N(blend_row)(GPURED__V *row, const GPURED__T *x, int count,
                                         GPURED__T fill) {
  int i;
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i) {
    const GPURED__V v = GPURED__N(load)(x + i * GPURED__W);
#if GPURED__X86 && GPURED__WIDTH == 64 && GPURED__PASS == 32
    row[i] = (GPURED__V)_mm512_mask_mov_ps(_mm512_set1_ps(fill), (__mmask16)((1u << count) - 1),
                                           (__m512)v);
#else
    GPURED__N(mask) m;
    memcpy(&m, GPURED__N(first_n) + GPURED__LANES - count + i * GPURED__W, sizeof m);
    row[i] = GPURED__N(select)(m, v, GPURED__N(splat)(fill));
#endif
  }
}

GPURED__INLINE void GPURED__N(load_row)(GPURED__V *row, const GPURED__T *x) {
  int i;
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i) row[i] = GPURED__N(load)(x + i * GPURED__W);
}

GPURED__INLINE void GPURED__N(store_row)(GPURED__T *x, const GPURED__V *row) {
  int i;
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i) GPURED__N(store)(x + i * GPURED__W, row[i]);
}

GPURED__INLINE void GPURED__N(combine_rows)(int kernel, GPURED__V *a, const GPURED__V *b) {
  int i;
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i) a[i] = GPURED__N(combine)(kernel, a[i], b[i]);
}

/* The lanes of one block of n <= 256 elements; `inside` says that whole rows may be read. */
GPURED__INLINE void GPURED__N(block)(int kernel, GPURED__V *acc, const GPURED__T *x,
                                     const GPURED__T *w, int64_t n, int inside) {
  GPURED__V last[GPURED__NV], last_w[GPURED__NV];
  int64_t r, rows = n / GPURED__LANES;
  int i, rest = (int)(n % GPURED__LANES);
  if (rest > 0 || rows == 0) {
    if (inside)
      GPURED__N(blend_row)(last, x + n - rest, rest, GPURED__N(neutral)(kernel));
    else
      GPURED__N(part_row)(last, x + n - rest, rest, GPURED__N(neutral)(kernel));
    if (kernel == GPURED__DOT) GPURED__N(part_row)(last_w, w + n - rest, rest, 1);
  }
  if (rows == 0) {
    GPURED__UNROLL
    for (i = 0; i < GPURED__NV; ++i)
      acc[i] = GPURED__N(first)(kernel, last[i], kernel == GPURED__DOT ? last_w[i] : last[i]);
    return;
  }
  GPURED__N(first_row)(kernel, acc, x, w);
  for (r = 1; r < rows; ++r)
    GPURED__N(next_row)(kernel, acc, x + r * GPURED__LANES, w + r * GPURED__LANES);
  if (rest == 0) return;
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i)
    acc[i] = GPURED__N(step)(kernel, acc[i], last[i], kernel == GPURED__DOT ? last_w[i] : last[i]);
}

/* The same for exactly 256, all in registers. */
GPURED__INLINE void GPURED__N(whole_block)(int kernel, GPURED__V *acc, const GPURED__T *x,
                                           const GPURED__T *w) {
  const int row = GPURED__LANES;
  int r;
  GPURED__N(first_row)(kernel, acc, x, w);
  GPURED__N(next_row)(kernel, acc, x + row, w + row);
  GPURED__UNROLL_ROWS
  for (r = 2 * row; r < GPURED__BLOCK; r += 2 * row) {
    GPURED__N(next_row)(kernel, acc, x + r, w + r);
    GPURED__N(next_row)(kernel, acc, x + r + row, w + r + row);
  }
}

/* The tree over the next two blocks, into acc[0]. Side by side, one does not wait for the other. */
GPURED__INLINE void GPURED__N(two_blocks)(int kernel, GPURED__V acc[][GPURED__NV],
                                          const GPURED__T *x, const GPURED__T *w) {
  int r, b, row;
  GPURED__UNROLL
  for (b = 0; b < 2; ++b) {
    const int at = b * GPURED__BLOCK, next = at + GPURED__LANES;
    GPURED__N(first_row)(kernel, acc[b], x + at, w + at);
    GPURED__N(next_row)(kernel, acc[b], x + next, w + next);
  }
  for (r = 2 * GPURED__LANES; r < GPURED__BLOCK; r += 2 * GPURED__LANES) {
    GPURED__UNROLL
    for (row = r; row < r + 2 * GPURED__LANES; row += GPURED__LANES) {
      GPURED__N(next_row)(kernel, acc[0], x + row, w + row);
      GPURED__N(next_row)(kernel, acc[1], x + row + GPURED__BLOCK, w + row + GPURED__BLOCK);
    }
  }
  GPURED__N(combine_rows)(kernel, acc[0], acc[1]);
}

#if GPURED__NV <= 4
#define GPURED__BESIDE (8 / GPURED__NV) /* blocks that make eight chains */

/* A row of each of BESIDE blocks that begin so many elements apart. */
GPURED__INLINE void GPURED__N(row_beside)(int kernel, GPURED__V acc[][GPURED__NV],
                                          const GPURED__T *x, const GPURED__T *w, int64_t apart) {
  int b;
  GPURED__UNROLL
  for (b = 0; b < GPURED__BESIDE; ++b)
    GPURED__N(next_row)(kernel, acc[b], x + b * apart, w + b * apart);
}

/* The lanes of BESIDE blocks: two of few vectors leave units idle that begin two steps in a cycle
 * and need four for each. */
GPURED__INLINE void GPURED__N(blocks_beside)(int kernel, GPURED__V acc[][GPURED__NV],
                                             const GPURED__T *x, const GPURED__T *w,
                                             int64_t apart) {
  const int row = GPURED__LANES;
  int r, b;
  GPURED__UNROLL
  for (b = 0; b < GPURED__BESIDE; ++b)
    GPURED__N(first_row)(kernel, acc[b], x + b * apart, w + b * apart);
  GPURED__N(row_beside)(kernel, acc, x + row, w + row, apart);
  for (r = 2 * row; r < GPURED__BLOCK; r += 2 * row) {
    GPURED__N(row_beside)(kernel, acc, x + r, w + r, apart);
    GPURED__N(row_beside)(kernel, acc, x + r + row, w + r + row, apart);
  }
}
#endif

#if GPURED__NV <= 2
/* The tree over the next BESIDE blocks, into acc[0]. */
GPURED__INLINE void GPURED__N(next_beside)(int kernel, GPURED__V acc[][GPURED__NV],
                                           const GPURED__T *x) {
  int b, h;
  GPURED__N(blocks_beside)(kernel, acc, x, x, GPURED__BLOCK);
  GPURED__UNROLL
  for (h = 1; h < GPURED__BESIDE; h *= 2) {
    GPURED__UNROLL
    for (b = 0; b < GPURED__BESIDE; b += 2 * h) GPURED__N(combine_rows)(kernel, acc[b], acc[b + h]);
  }
}
#endif

#if GPURED__FLOAT
#if GPURED__X86 && GPURED__WIDTH != 0
/*
 * The hardware's step drops a NaN, but notes it in MXCSR, quiet ones too: any other look for one
 * takes half a step a vector. Where one is noted already, only the other look can tell: writing
 * MXCSR takes as long as a hundred vectors.
 */
#define GPURED__MET_NAN 1u
static int GPURED__N(noted) = -1;

/* Valgrind and some emulators note nothing; found out once (by several threads, if need be). */
GPURED__FUNC int GPURED__N(find_noted)(void) {
  const unsigned before = __builtin_ia32_stmxcsr(), clear = before & ~GPURED__MET_NAN;
  volatile GPURED__T nan = GPURED__S(quiet_nan)(); /* read while nothing is noted */
  unsigned after;
  GPURED__V m;
  __builtin_ia32_ldmxcsr(clear);
  m = GPURED__N(max_plain)(GPURED__N(splat)(1), GPURED__N(splat)(nan));
  __asm__ volatile("" : GPURED__HELD(m));
  after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  __atomic_store_n(&GPURED__N(noted), (int)(after & GPURED__MET_NAN), __ATOMIC_RELAXED);
  return (int)(after & GPURED__MET_NAN);
}

/* Will a NaN that is met from here on be noted? */
GPURED__INLINE int GPURED__N(watch)(void) {
  int noted = __atomic_load_n(&GPURED__N(noted), __ATOMIC_RELAXED);
  unsigned before;
  if (noted < 0) noted = GPURED__N(find_noted)();
  before = __builtin_ia32_stmxcsr();
  __asm__ volatile("" : : : "memory"); /* what is met is read behind it */
  return noted && !(before & GPURED__MET_NAN);
}

/* Has none been met on the way to m, and to what was stored? */
GPURED__INLINE int GPURED__N(no_nan)(GPURED__V m) {
  __asm__ volatile("" : GPURED__HELD(m) : : "memory");
  return !(__builtin_ia32_stmxcsr() & GPURED__MET_NAN);
}
#endif

/* The next 2 W elements of four places onto a chain for each, and of products of neighbours onto s
 * (NULL: not wanted), which tells of a NaN, and of some infinities. */
GPURED__INLINE void GPURED__N(extreme_step)(int kernel, const GPURED__T *x, int64_t apart, int ask,
                                            GPURED__V *m, GPURED__V *s) {
  const int plain = kernel == GPURED__MIN ? GPURED__MIN_PLAIN : GPURED__MAX_PLAIN;
  GPURED__V a, b;
  int i;
  GPURED__UNROLL
  for (i = 0; i < 4; ++i, x += apart) {
    a = GPURED__N(load)(x);
    b = GPURED__N(load)(x + GPURED__W);
    if (ask) {
      GPURED__PREFETCH_FAR((const char *)x + 2 * GPURED__AHEAD);
      GPURED__PREFETCH_FAR((const char *)(x + GPURED__W) + 2 * GPURED__AHEAD);
    }
    if (s) {
      a = GPURED__N(held)(a);
      b = GPURED__N(held)(b);
#if GPURED__X86 && GPURED__WIDTH <= 16 /* no fma in hardware */
      s[i] = s[i] + (a + b);
#else
      s[i] = GPURED__N(fma)(a, b, s[i]);
#endif
    }
    a = GPURED__N(first)(kernel, a, a);
    b = GPURED__N(first)(kernel, b, b);
    m[i] = GPURED__N(combine)(plain, m[i], GPURED__N(combine)(plain, a, b));
  }
}

/* How the elements of an extreme are walked: as they come; as they come, while what lies ahead is
 * asked for, if that is worth it; a group of them from its four places (see feed_apart). */
enum { GPURED__N(BY_STEPS), GPURED__N(BY_ASKING), GPURED__N(BY_QUARTERS) };

/* Of n >= 8 W elements (quarters: a multiple), spread over one vector; the order is free, and the
 * last ones may be taken twice. */
GPURED__INLINE GPURED__V GPURED__N(extreme_steps)(int kernel, const GPURED__T *x, int64_t n,
                                                  int how, GPURED__V *s) {
  const int plain = kernel == GPURED__MIN ? GPURED__MIN_PLAIN : GPURED__MAX_PLAIN;
  const int ask = how == GPURED__N(BY_ASKING), quarters = how == GPURED__N(BY_QUARTERS);
  const int64_t apart = quarters ? n / 4 : 2 * GPURED__W, step = (quarters ? 2 : 8) * GPURED__W;
  const int64_t end = quarters ? apart : n - n % step;
  GPURED__V m[4], a = GPURED__N(load)(x);
  int64_t r;
  int i;
  GPURED__UNROLL
  for (i = 0; i < 4; ++i) m[i] = GPURED__N(first)(kernel, a, a);
  for (r = 0; r < end; r += step) GPURED__N(extreme_step)(kernel, x + r, apart, ask, m, s);
  if (!quarters && end < n) GPURED__N(extreme_step)(kernel, x + n - step, apart, ask, m, s);
  return GPURED__N(combine)(plain, GPURED__N(combine)(plain, m[0], m[1]),
                            GPURED__N(combine)(plain, m[2], m[3]));
}

/* The same. *sure becomes 0 if there may be a NaN; a zero may have the wrong sign. */
GPURED__INLINE GPURED__V GPURED__N(quick_extreme)(int kernel, const GPURED__T *x, int64_t n,
                                                  int how, int *sure) {
  GPURED__V m, s[4];
  int i;
#if GPURED__X86 && GPURED__WIDTH != 0
  if (GPURED__N(watch)()) {
    m = GPURED__N(extreme_steps)(kernel, x, n, how, NULL);
    *sure = GPURED__N(no_nan)(m);
    return m;
  }
#endif
  for (i = 0; i < 4; ++i) s[i] = GPURED__N(splat)(0);
  m = GPURED__N(extreme_steps)(kernel, x, n, how, s);
  s[0] = (s[0] + s[1]) + (s[2] + s[3]);
  *sure = !GPURED__N(any)(GPURED__N(isnan)(s[0]));
  return m;
}

/* m with the right signs where it is zero. All elements lie on one side of it then: a minimum is -0
 * if one of them has a sign, a maximum if all have. */
GPURED__INLINE GPURED__V GPURED__N(zero_signs)(int kernel, GPURED__V m, const GPURED__T *x,
                                               int64_t n) {
  GPURED__UV u, signs = GPURED__N(as_u)(GPURED__N(load)(x));
  int64_t r;
  GPURED__UNROLL_4
  for (r = GPURED__W; r < n; r += GPURED__W) {
    u = GPURED__N(as_u)(GPURED__N(load)(x + r));
    signs = kernel == GPURED__MIN ? signs | u : signs & u;
  }
  return GPURED__N(select)(m == 0, GPURED__N(as_v)(signs & GPURED__CONST_U(GPURED__SIGN)), m);
}

/* The extreme as lanes; 0 when there may be a NaN and they have to be made in the slow way. */
GPURED__INLINE int GPURED__N(quick_lanes)(int kernel, GPURED__V *acc, const GPURED__T *x, int64_t n,
                                          int how) {
  GPURED__V m;
  int i, sure;
  if (GPURED__ASKS && how == GPURED__N(BY_ASKING))
    m = GPURED__N(quick_extreme)(kernel, x, n, GPURED__N(BY_ASKING), &sure);
  else if (GPURED__APART && how == GPURED__N(BY_QUARTERS))
    m = GPURED__N(quick_extreme)(kernel, x, n, GPURED__N(BY_QUARTERS), &sure);
  else
    m = GPURED__N(quick_extreme)(kernel, x, n, GPURED__N(BY_STEPS), &sure);
  if (!sure) return 0;
  if (kernel != GPURED__MAX_ABS && GPURED__N(any)(m == 0))
    m = GPURED__N(zero_signs)(kernel, m, x, n);
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i) acc[i] = m;
  return 1;
}
#endif

/* Asks for n elements that lie far ahead of x: the hardware does so too late where a loop does much
 * for an element, and does not see through short and unaligned rows. */
GPURED__INLINE void GPURED__N(ahead)(const GPURED__T *x, int64_t n) {
  int64_t i;
  for (i = 0; i < n; i += 64 / GPURED__ESIZE)
    GPURED__PREFETCH((const char *)(x + i) + GPURED__FAR_AHEAD);
}

/* The lanes of the next block of a sequence with n elements left. */
GPURED__INLINE void GPURED__N(next_block)(int kernel, GPURED__V *acc, const GPURED__T *x,
                                          const GPURED__T *w, int64_t n) {
  if (n < GPURED__BLOCK) {
    GPURED__N(block)(kernel, acc, x, w, n, 0);
    return;
  }
#if GPURED__FLOAT && GPURED__NV <= 4
  if ((kernel == GPURED__MIN || kernel == GPURED__MAX || kernel == GPURED__MAX_ABS) &&
      GPURED__N(quick_lanes)(kernel, acc, x, GPURED__BLOCK, GPURED__N(BY_STEPS)))
    return;
#endif
  GPURED__N(whole_block)(kernel, acc, x, w);
}

GPURED__INLINE void GPURED__N(combine_lanes)(int kernel, GPURED__T *a, const GPURED__T *b) {
  int i;
  GPURED__UNROLL
  for (i = 0; i < GPURED__LANES; i += GPURED__W) GPURED__N(store)
  (a + i, GPURED__N(combine)(kernel, GPURED__N(load)(a + i), GPURED__N(load)(b + i)));
}

/* Two scalars combined. */
GPURED__INLINE GPURED__T GPURED__N(combine_one)(int kernel, GPURED__T a, GPURED__T b) {
#if GPURED__FLOAT
  if (kernel == GPURED__MIN) return -GPURED__S(max)(-a, -b);
  if (kernel == GPURED__MAX || kernel == GPURED__MAX_ABS) return GPURED__S(max)(a, b);
  return kernel == GPURED__MUL ? GPURED__S(mul)(a, b) : a + b;
#else
  if (kernel == GPURED__MIN) return a < b ? a : b;
  if (kernel == GPURED__MAX) return a > b ? a : b;
  return kernel == GPURED__MUL ? a * b : a + b;
#endif
}

/* ---- 10.3  Nodes and the tree ---- */

#if GPURED__FLOAT
/* The merge of two pairs, section 4 of docs/ORDER.md. */
GPURED__FUNC void GPURED__N(merge_pair)(GPURED__T *m1, GPURED__T *s1, GPURED__T m2, GPURED__T s2) {
  GPURED__T d[GPURED__W];
  int i;
  if (GPURED__S(isnan)(*m1) || GPURED__S(isnan)(m2)) {
    *m1 = GPURED__S(quiet_nan)();
    *s1 = 1;
    return;
  }
  if (*m1 == m2) {
    *m1 = GPURED__S(max)(*m1, m2);
    *s1 = *s1 + s2;
    return;
  }
  for (i = 0; i < GPURED__W; ++i) d[i] = *m1 > m2 ? m2 - *m1 : *m1 - m2;
  GPURED__N(store)(d, GPURED__N(exp)(GPURED__N(load)(d)));
  *s1 = *m1 > m2 ? GPURED__S(fma)(s2, d[0], *s1) : GPURED__S(fma)(*s1, d[0], s2);
  *m1 = *m1 > m2 ? *m1 : m2;
}

/* The merge of vectors of pairs, the first the earlier. Where the difference is NaN, the two are
 * the same infinity or a NaN is among them. */
GPURED__INLINE void GPURED__N(merge_vectors)(GPURED__V *m1, GPURED__V *s1, GPURED__V m2,
                                             GPURED__V s2) {
  const GPURED__V a = *m1, m = GPURED__N(max)(a, m2), zero = GPURED__N(splat)(0);
  const GPURED__N(mask) first_less = a < m2;
  const GPURED__V d = GPURED__N(select)(a == m2, zero, zero - GPURED__N(abs)(a - m2)),
                  large = GPURED__N(select)(first_less, s2, *s1),
                  smaller = GPURED__N(select)(first_less, *s1, s2);
  const GPURED__V s = GPURED__N(fma)(smaller, GPURED__N(exp)(d), large);
  *s1 = GPURED__N(select)(GPURED__N(isnan)(m), GPURED__N(splat)(1), s);
  *m1 = m;
}

/* What pairs stand for; m where it is not finite. */
GPURED__INLINE GPURED__V GPURED__N(pair_value)(GPURED__V m, GPURED__V s) {
  return GPURED__N(select)(m - m == GPURED__N(splat)(0), m + GPURED__N(log_all)(s), m);
}

/* Chan's update, section 5. lanes[0] is the mean, lanes[1] the sum of squared deviations. */
GPURED__FUNC void GPURED__N(merge_moments)(gpured__node *a, const gpured__node *b) {
  GPURED__T *x = a->v.GPURED__TN;
  const GPURED__T *y = b->v.GPURED__TN;
  int64_t n = a->n + b->n;
  GPURED__T delta = y[0] - x[0], r = (GPURED__T)b->n / (GPURED__T)n;
  GPURED__T q = GPURED__S(mul)(delta, delta), w = GPURED__S(mul)((GPURED__T)a->n, r);
  x[0] = GPURED__S(fma)(delta, r, x[0]);
  x[1] = GPURED__S(fma)(q, w, x[1] + y[1]);
  a->n = n;
}
#endif

/* Does value b beat a, which stands before it? */
GPURED__INLINE int GPURED__N(beats)(int kernel, GPURED__T b, GPURED__T a) {
#if GPURED__FLOAT
  if (GPURED__S(isnan)(a)) return 0;
  if (GPURED__S(isnan)(b)) return 1;
#endif
  return kernel == GPURED__ARG_MAX ? b > a : b < a;
}

/* a = a combined with b, a being the earlier subtree. */
GPURED__FUNC void GPURED__N(combine_nodes)(int kernel, gpured__node *a, const gpured__node *b) {
  switch (kernel) {
#if GPURED__FLOAT
    case GPURED__LSE:
      GPURED__N(merge_pair)
      (&a->v.GPURED__TN[0], &a->v.GPURED__TN[1], b->v.GPURED__TN[0], b->v.GPURED__TN[1]);
      break;
    case GPURED__MOMENTS:
      GPURED__N(merge_moments)(a, b);
      break;
#endif
    case GPURED__ARG_MIN:
    case GPURED__ARG_MAX:
      if (GPURED__N(beats)(kernel, b->v.GPURED__TN[0], a->v.GPURED__TN[0])) *a = *b;
      break;
    case GPURED__MUL:
      GPURED__N(combine_lanes)(GPURED__MUL, a->v.GPURED__TN, b->v.GPURED__TN);
      break;
    case GPURED__MIN:
      GPURED__N(combine_lanes)(GPURED__MIN, a->v.GPURED__TN, b->v.GPURED__TN);
      break;
    case GPURED__MAX:
    case GPURED__MAX_ABS:
      GPURED__N(combine_lanes)(GPURED__MAX, a->v.GPURED__TN, b->v.GPURED__TN);
      break;
    default:
      GPURED__N(combine_lanes)(GPURED__ADD, a->v.GPURED__TN, b->v.GPURED__TN);
  }
}

/* Adds a subtree of one block to the counter; the carry combines equal subtrees, the earlier one on
 * the left. */
GPURED__FUNC void GPURED__N(push)(int kernel, gpured__state *st, const gpured__node *block) {
  int level = 0;
  gpured__node *top = &st->stack[0];
  if (!(st->count & 1)) {
    *top = *block;
  } else {
    GPURED__N(combine_nodes)(kernel, top, block);
    for (level = 1; st->count >> level & 1; ++level)
      GPURED__N(combine_nodes)(kernel, &st->stack[level], &st->stack[level - 1]);
    st->stack[level] = st->stack[level - 1];
  }
  ++st->count;
}

/* The tree over everything pushed: what is left over combines from the latest to the earliest. */
GPURED__FUNC void GPURED__N(close)(int kernel, gpured__state *st, gpured__node *out) {
  int level = 0, have = 0;
  for (level = 0; level < GPURED__DEPTH && st->count >> level; ++level) {
    if (!(st->count >> level & 1)) continue;
    if (have) GPURED__N(combine_nodes)(kernel, &st->stack[level], out);
    *out = st->stack[level];
    have = 1;
  }
}

/* The last steps of the fold by halving stride, inside a vector: the result is its first one. */
GPURED__INLINE GPURED__V GPURED__N(fold_vector)(int kernel, GPURED__V v) {
#if GPURED__WIDTH != 0
  int h;
  GPURED__UNROLL
  for (h = GPURED__W; h > 1; h /= 2) {
    GPURED__V low, high;
    GPURED__N(halves)(h, v, v, &low, &high);
    v = GPURED__N(combine)(kernel, v, high);
  }
#endif
  (void)kernel;
  return v;
}

/* The fold of a row of lanes. */
GPURED__INLINE GPURED__V GPURED__N(fold_row)(int kernel, GPURED__V *acc) {
  int h, i;
  GPURED__UNROLL
  for (h = GPURED__NV / 2; h > 0; h /= 2) {
    GPURED__UNROLL
    for (i = 0; i < h; ++i) acc[i] = GPURED__N(combine)(kernel, acc[i], acc[i + h]);
  }
  return GPURED__N(fold_vector)(kernel, acc[0]);
}

GPURED__FUNC GPURED__T GPURED__N(fold)(int kernel, const GPURED__T *lanes) {
  GPURED__V acc[GPURED__NV];
  GPURED__T y[GPURED__W];
  GPURED__N(load_row)(acc, lanes);
  GPURED__N(store)(y, GPURED__N(fold_row)(kernel, acc));
  return y[0];
}

/* The tree over up to four blocks, in place. */
GPURED__INLINE void GPURED__N(join_four)(int kernel, GPURED__V acc[][GPURED__NV], int blocks) {
  if (blocks > 1) GPURED__N(combine_rows)(kernel, acc[0], acc[1]);
  if (blocks > 3) GPURED__N(combine_rows)(kernel, acc[2], acc[3]);
  if (blocks > 2) GPURED__N(combine_rows)(kernel, acc[0], acc[2]);
}

/* Reduce of n <= 1024 elements to a scalar, as logsumexp, variance and arg use it inside a block.
 */
GPURED__INLINE GPURED__T GPURED__N(reduce_wide)(int kernel, const GPURED__T *x, int64_t n) {
  GPURED__V acc[4][GPURED__NV];
  GPURED__T y[GPURED__W];
  int b, blocks = (int)gpured__ceil_div(n, GPURED__BLOCK);
  for (b = 0; b < blocks; ++b, x += GPURED__BLOCK)
    GPURED__N(next_block)(kernel, acc[b], x, x, n - b * GPURED__BLOCK);
  GPURED__N(join_four)(kernel, acc, blocks);
  GPURED__N(store)(y, GPURED__N(fold_row)(kernel, acc[0]));
  return y[0];
}

/* ---- 10.4  Many short sequences ---- */

/* The largest of each column, by the fast step where it is certain (see quick_lanes). */
GPURED__INLINE GPURED__V GPURED__N(largest_of_block)(const GPURED__V *v, int64_t rows) {
  GPURED__V m = v[0];
  int64_t l;
#if GPURED__FLOAT
  GPURED__V s = m;
  for (l = 1; l < rows; ++l) {
    m = GPURED__N(max_plain)(m, v[l]);
    s = s + v[l];
  }
  if (!GPURED__N(any)((s != s) | (m == 0))) return m;
  m = v[0];
#endif
  for (l = 1; l < rows; ++l) m = GPURED__N(max)(m, v[l]);
  return m;
}

/* Lanes of one sequence of n <= 256 elements, folded down to one vector: the steps of the fold that
 * are not narrower. */
GPURED__INLINE GPURED__V GPURED__N(short_lanes)(int kernel, const GPURED__T *x, int64_t n,
                                                int inside) {
  GPURED__V acc[GPURED__NV];
  int h, i;
  GPURED__N(block)(kernel, acc, x, x, n, inside);
  GPURED__UNROLL
  for (h = GPURED__NV / 2; h > 0; h /= 2) {
    GPURED__UNROLL
    for (i = 0; i < h; ++i) acc[i] = GPURED__N(combine)(kernel, acc[i], acc[i + h]);
  }
  return acc[0];
}

/* The last steps of the fold for as many sequences as a vector has elements: v[i] holds groups of
 * `group` elements; the result has one element for each sequence, in order. Each step halves the
 * groups and the number of vectors. */
GPURED__INLINE GPURED__V GPURED__N(fold_across)(int kernel, GPURED__V *v, int group) {
#if GPURED__WIDTH != 0
  GPURED__V low, high;
  int i, g;
  GPURED__UNROLL
  for (g = GPURED__W; g > 1; g /= 2) {
    if (g > group) continue;
    GPURED__UNROLL
    for (i = 0; i < g / 2; ++i) {
      GPURED__N(halves)(g, v[2 * i], v[2 * i + 1], &low, &high);
      v[i] = GPURED__N(combine)(kernel, low, high);
    }
  }
#endif
  (void)kernel;
  (void)group;
  return v[0];
}

/* The same for four sequences of a vector each: the first four elements of the result. */
GPURED__INLINE GPURED__V GPURED__N(fold_four)(int kernel, GPURED__V *v) {
  GPURED__V low, high, first;
  int g;
  GPURED__UNROLL
  for (g = GPURED__W; g > 1; g /= 2) {
    GPURED__N(halves)(g, v[0], v[1], &low, &high); /* of the last steps the first half counts */
    first = GPURED__N(combine)(kernel, low, high);
    if (g == GPURED__W) {
      GPURED__N(halves)(g, v[2], v[3], &low, &high);
      v[1] = GPURED__N(combine)(kernel, low, high);
    }
    v[0] = first;
  }
  return v[0];
}

/* Takes the rows of n elements at the beginning of a vector apart, to groups of `group` elements,
 * filled up with what changes no result. */
typedef struct GPURED__N(spread) {
  GPURED__V fill;
#if GPURED__X86 && GPURED__WIDTH == 64
  __mmask16 mask;
#elif GPURED__X86 && GPURED__WIDTH == 32
  __m256i from, mask;
#endif
} GPURED__N(spread);
#define GPURED__SPREADS (GPURED__X86 && GPURED__WIDTH >= 32)

GPURED__INLINE GPURED__N(spread) GPURED__N(spread_start)(int kernel, int n, int group) {
  GPURED__N(spread) s;
#if GPURED__X86 && GPURED__WIDTH == 64
  unsigned mask = 0;
  int i;
  for (i = 0; i < GPURED__W; ++i) mask |= (unsigned)(i % group < n) << i;
  s.mask = (__mmask16)mask;
#elif GPURED__X86 && GPURED__WIDTH == 32
  const int words = GPURED__ESIZE / 4;
  int32_t from[8], mask[8];
  int i, at;
  for (i = 0; i < 8; ++i) {
    at = i / words % group;
    mask[i] = -(at < n);
    from[i] = (i / words / group * n + at) * words + i % words;
  }
  memcpy(&s.from, from, sizeof from);
  memcpy(&s.mask, mask, sizeof mask);
#endif
  s.fill = GPURED__N(splat)(GPURED__N(neutral)(kernel));
  (void)n, (void)group;
  return s;
}

GPURED__INLINE GPURED__V GPURED__N(spread_rows)(const GPURED__N(spread) * s, GPURED__V v) {
#if GPURED__X86 && GPURED__WIDTH == 64 && GPURED__ESIZE == 4
  return (GPURED__V)_mm512_mask_expand_epi32((__m512i)s->fill, s->mask, (__m512i)v);
#elif GPURED__X86 && GPURED__WIDTH == 64
  return (GPURED__V)_mm512_mask_expand_epi64((__m512i)s->fill, (__mmask8)s->mask, (__m512i)v);
#elif GPURED__X86 && GPURED__WIDTH == 32
  return (GPURED__V)_mm256_blendv_epi8((__m256i)s->fill,
                                       _mm256_permutevar8x32_epi32((__m256i)v, s->from), s->mask);
#else
  (void)s;
  return v;
#endif
}

/* Are rows of n elements treated as groups of `group`? */
GPURED__INLINE int GPURED__N(packs)(int64_t n, int group) {
  return group > 1 && (n == group || (GPURED__SPREADS && n < group && 2 * n > group));
}

/* out[r] = the fold of row r: rows of n elements, which touch, so that a vector holds several;
 * group is the next power of two. Returns how many rows it did. */
GPURED__INLINE int64_t GPURED__N(rows_packed)(int kernel, const GPURED__T *x, int64_t rows, int n,
                                              int group, GPURED__T *out) {
  const int each = GPURED__W / group, over = each * (group - n); /* that the last vector reads */
  const GPURED__N(spread) s = GPURED__N(spread_start)(kernel, n, group);
  GPURED__V v[GPURED__W];
  int64_t r;
  int i;
  for (r = 0; (r + GPURED__W) * n + over <= rows * n; r += GPURED__W, x += GPURED__W * n) {
    GPURED__UNROLL
    for (i = 0; i < group; ++i) {
      if (i * GPURED__W * GPURED__ESIZE % 64 == 0)
        GPURED__PREFETCH_FAR((const char *)(x + i * each * n) + GPURED__FAR_AHEAD);
      v[i] = GPURED__N(load)(x + i * each * n);
      if (n < group) v[i] = GPURED__N(spread_rows)(&s, v[i]);
      v[i] = GPURED__N(first)(kernel, v[i], v[i]);
    }
    GPURED__N(store)(out + r, GPURED__N(canonical)(GPURED__N(fold_across)(kernel, v, group)));
  }
  return r;
}

/* A row of 0 < n < 16 elements, folded down to one vector: of no more than that, it is one load. */
GPURED__INLINE GPURED__V GPURED__N(row_vector)(int kernel, const GPURED__T *x, int64_t n) {
  GPURED__V v;
  if (GPURED__NV == 1 || n > GPURED__W) return GPURED__N(short_lanes)(kernel, x, n, 0);
  v = GPURED__N(load_part)(x, (int)n, GPURED__N(neutral)(kernel));
  return GPURED__N(first)(kernel, v, v);
}

/* out[r] = the fold of row r, of four. */
GPURED__INLINE void GPURED__N(four_rows)(int kernel, const GPURED__T *x, int64_t stride, int64_t n,
                                         GPURED__T *out) {
  GPURED__V v[4];
  int i;
  GPURED__UNROLL
  for (i = 0; i < 4; ++i) v[i] = GPURED__N(row_vector)(kernel, x + i * stride, n);
  GPURED__N(store_part)(out, 4, GPURED__N(canonical)(GPURED__N(fold_four)(kernel, v)));
}

/* out[r] = the fold of row r: n <= 256 contiguous elements, rows `stride` apart. Short ones end
 * their fold together, as many as a vector has elements; longer ones may ask for what lies
 * ahead. */
GPURED__INLINE void GPURED__N(rows_fold)(int kernel, const GPURED__T *x, int64_t stride,
                                         int64_t rows, int64_t n, int ask, GPURED__T *out) {
  const int half = GPURED__W > 2 ? GPURED__W / 2 : 1, fourth = GPURED__W > 4 ? GPURED__W / 4 : 1,
            eighth = GPURED__W > 8 ? GPURED__W / 8 : 1;
  GPURED__V v[GPURED__W];
  GPURED__T one[GPURED__W];
  int64_t r = 0, over = (GPURED__LANES - n % GPURED__LANES) % GPURED__LANES;
  const GPURED__T *safe = x + (rows - 1) * stride - over; /* the last row that may be read on */
  const int touch = stride == n && rows >= GPURED__W;
  int i;
  if (touch && GPURED__N(packs)(n, GPURED__W))
    r = GPURED__N(rows_packed)(kernel, x, rows, (int)n, GPURED__W, out);
  else if (touch && GPURED__N(packs)(n, half))
    r = GPURED__N(rows_packed)(kernel, x, rows, (int)n, half, out);
  else if (touch && GPURED__N(packs)(n, fourth))
    r = GPURED__N(rows_packed)(kernel, x, rows, (int)n, fourth, out);
  else if (touch && GPURED__N(packs)(n, eighth))
    r = GPURED__N(rows_packed)(kernel, x, rows, (int)n, eighth, out);
  for (x += r * stride; n < 3 * GPURED__LANES && r + GPURED__W <= rows; r += GPURED__W) {
    for (i = 0; i < GPURED__W; ++i, x += stride) {
      GPURED__N(ahead)(x, n);
      v[i] = GPURED__N(short_lanes)(kernel, x, n, x <= safe);
    }
    v[0] = GPURED__N(fold_across)(kernel, v, GPURED__W);
    GPURED__N(store)(out + r, GPURED__N(canonical)(v[0]));
  }
  if (0 < n && n < GPURED__LANES) /* said for the compiler: a vector of each row is all */
    for (; GPURED__W >= 4 && r + 4 <= rows; r += 4, x += 4 * stride)
      GPURED__N(four_rows)(kernel, x, stride, n, out + r);
  for (; r < rows; ++r, x += stride) {
    if (ask) GPURED__N(ahead)(x, n);
    v[0] = GPURED__N(fold_vector)(kernel, GPURED__N(short_lanes)(kernel, x, n, 0));
    GPURED__N(store)(one, GPURED__N(canonical)(v[0]));
    out[r] = one[0];
  }
}

#if GPURED__FLOAT
/* Adds exp(x - m) of `count` vectors, whole rows of lanes, to the lanes. */
GPURED__INLINE void GPURED__N(add_exp)(GPURED__V *acc, const GPURED__T *x, GPURED__V m, int count) {
  GPURED__V e[16];
  int j;
  GPURED__UNROLL
  for (j = 0; j < count; ++j) {
    if (j * GPURED__W * GPURED__ESIZE % 64 == 0)
      GPURED__PREFETCH(x + j * GPURED__W + GPURED__WIDE_BLOCK); /* memory rests meanwhile */
    e[j] = GPURED__N(load)(x + j * GPURED__W) - m;
  }
  GPURED__N(exp_each)(e, count);
  GPURED__UNROLL
  for (j = 0; j < count; ++j) acc[j % GPURED__NV] = acc[j % GPURED__NV] + e[j];
}

/* Lanes of the sum of exp(x - m) over a block of n <= 256 elements. */
GPURED__INLINE void GPURED__N(exp_block)(GPURED__V *acc, const GPURED__T *x, GPURED__T m,
                                         int64_t n) {
  enum { together = GPURED__NV > 4 ? GPURED__NV : 4 };
  const GPURED__T none = GPURED__N(neutral)(GPURED__ADD);
  const GPURED__V mv = GPURED__N(splat)(m);
  GPURED__T part[GPURED__LANES];
  GPURED__V sum[GPURED__NV], last[GPURED__NV];
  int i, rest = (int)(n % GPURED__LANES);
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i) sum[i] = GPURED__N(splat)(none);
  for (; n >= together * GPURED__W; n -= together * GPURED__W, x += together * GPURED__W)
    GPURED__N(add_exp)(sum, x, mv, together);
  for (; n >= GPURED__LANES; n -= GPURED__LANES, x += GPURED__LANES)
    GPURED__N(add_exp)(sum, x, mv, GPURED__NV);
  if (rest > 0) {
    GPURED__N(part_row)(last, x, rest, m);
    GPURED__UNROLL
    for (i = 0; i < GPURED__NV; ++i) last[i] = last[i] - mv;
    GPURED__N(exp_each)(last, GPURED__NV);
    GPURED__N(store_row)(part, last);
    GPURED__N(part_row)(last, part, rest, none);
    GPURED__N(combine_rows)(GPURED__ADD, sum, last);
  }
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i) acc[i] = sum[i];
}

/* Lanes of the sum of exp(x - m) over n <= 1024 elements. */
GPURED__INLINE void GPURED__N(exp_lanes)(GPURED__V acc[][GPURED__NV], const GPURED__T *x,
                                         GPURED__T m, int64_t n) {
  int64_t i;
  for (i = 0; i < n; i += GPURED__BLOCK) GPURED__N(exp_block)
  (acc[i / GPURED__BLOCK], x + i, m, gpured__min_i64(GPURED__BLOCK, n - i));
  GPURED__N(join_four)(GPURED__ADD, acc, (int)gpured__ceil_div(n, GPURED__BLOCK));
}

/*
 * The maximum of n elements as a vector, by the hardware's step. `sum` becomes NaN if there is one
 * (also from opposite infinities): then the maximum has to be found in the slow way. The sign of a
 * zero may be wrong, which logsumexp does not show.
 */
GPURED__INLINE GPURED__V GPURED__N(most)(const GPURED__T *x, int64_t n, GPURED__V *sum) {
  GPURED__V m[GPURED__NV], s[GPURED__NV], v[GPURED__NV];
  int64_t r, whole = n - n % GPURED__LANES;
  int i, h;
  if (whole < n)
    GPURED__N(part_row)(m, x + whole, (int)(n - whole), *x);
  else
    GPURED__N(load_row)(m, x);
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i) s[i] = m[i];
  for (r = 0; r < whole; r += GPURED__LANES) {
    GPURED__N(load_row)(v, x + r);
    GPURED__UNROLL
    for (i = 0; i < GPURED__NV; ++i) {
      m[i] = GPURED__N(max_plain)(m[i], v[i]);
      s[i] = s[i] + v[i];
    }
  }
  GPURED__UNROLL
  for (h = GPURED__NV / 2; h > 0; h /= 2) {
    GPURED__UNROLL
    for (i = 0; i < h; ++i) {
      m[i] = GPURED__N(max_plain)(m[i], m[i + h]);
      s[i] = s[i] + s[i + h];
    }
  }
  *sum = s[0];
  return m[0];
}

/* Logsumexp of rows of n <= 1024 elements, one block each; as many rows together as a vector has
 * elements. */
GPURED__INLINE void GPURED__N(rows_lse)(const GPURED__T *x, int64_t stride, int64_t rows, int64_t n,
                                        GPURED__T *out) {
  const GPURED__V zero = GPURED__N(splat)(0);
  GPURED__V v[GPURED__W], acc[4][GPURED__NV], m, y, s, sums;
  GPURED__T most[GPURED__W];
  int64_t r;
  int i, h, c, count;
  for (r = 0; r < rows; r += count, x += count * stride) {
    count = (int)gpured__min_i64(GPURED__W, rows - r);
    for (i = 0, sums = zero; i < count; ++i, sums = sums + s)
      v[i] = GPURED__N(most)(x + i * stride, n, &s);
    for (; i < GPURED__W; ++i) v[i] = v[0];
    GPURED__N(store)(most, GPURED__N(fold_across)(GPURED__MAX_PLAIN, v, GPURED__W));
    for (i = 0; GPURED__N(any)(GPURED__N(isnan)(sums)) && i < count; ++i)
      most[i] = GPURED__N(reduce_wide)(GPURED__MAX, x + i * stride, n);
    for (i = 0; i < count; ++i) {
      GPURED__N(exp_lanes)(acc, x + i * stride, most[i], n);
      GPURED__UNROLL
      for (h = GPURED__NV / 2; h > 0; h /= 2) {
        GPURED__UNROLL
        for (c = 0; c < h; ++c) acc[0][c] = acc[0][c] + acc[0][c + h];
      }
      v[i] = acc[0][0];
    }
    for (; i < GPURED__W; ++i) v[i] = v[0];
    m = GPURED__N(load)(most);
    y = GPURED__N(pair_value)(m, GPURED__N(fold_across)(GPURED__ADD, v, GPURED__W));
    GPURED__N(store_part)(out + r, count, y);
  }
}
#endif

/* A vector of a row, or its first `part` elements; what lies ahead is asked for. */
GPURED__INLINE GPURED__V GPURED__N(few_load)(int kernel, const GPURED__T *x, int part) {
  GPURED__V v;
  GPURED__PREFETCH((const char *)x + GPURED__AHEAD / 2);
  v = part == GPURED__W ? GPURED__N(load)(x) : GPURED__N(load_part)(x, part, 1);
  return GPURED__N(first)(kernel, v, v);
}

#if GPURED__WIDTH != 0 && !GPURED__SPARING
/*
 * Up to 16 rows have a lane each, and nothing but the fold is left. Of a line of columns, a[], rows
 * r, r + step, r + 2 * step, ... below n are joined, half of them at a time: in this order, the
 * fold's, few values are under way.
 */
enum { GPURED__N(FEW) = GPURED__WIDTH < 32 ? 2 : 64 / GPURED__WIDTH };

GPURED__INLINE void GPURED__N(few_by_16)(int kernel, GPURED__V *a, const GPURED__T *x,
                                         int64_t stride, int64_t n, int r) {
  int j;
  GPURED__PREFETCH((const char *)(x + r * stride) + GPURED__FEW_AHEAD);
  GPURED__UNROLL
  for (j = 0; j < GPURED__N(FEW); ++j) {
    const GPURED__V v = GPURED__N(load)(x + r * stride + j * GPURED__W);
    a[j] = GPURED__N(first)(kernel, v, v);
  }
  (void)n;
}

#define GPURED__FEW_BY(step, half)                                                           \
  GPURED__INLINE void GPURED__N(few_by_##step)(int kernel, GPURED__V *a, const GPURED__T *x, \
                                               int64_t stride, int64_t n, int r) {           \
    GPURED__V b[GPURED__N(FEW)];                                                             \
    int j;                                                                                   \
    GPURED__N(half)(kernel, a, x, stride, n, r);                                             \
    if (r + step >= n) return;                                                               \
    GPURED__N(half)(kernel, b, x, stride, n, r + step);                                      \
    GPURED__UNROLL                                                                           \
    for (j = 0; j < GPURED__N(FEW); ++j) a[j] = GPURED__N(combine)(kernel, a[j], b[j]);      \
  }
GPURED__FEW_BY(8, few_by_16)
GPURED__FEW_BY(4, few_by_8)
GPURED__FEW_BY(2, few_by_4)
GPURED__FEW_BY(1, few_by_2)
#undef GPURED__FEW_BY

/* A line of columns or more: the last ones again where some are left over. */
GPURED__INLINE void GPURED__N(few_of)(int kernel, const GPURED__T *x, int64_t stride, int64_t n,
                                      int64_t columns, GPURED__T *out) {
  const int64_t line = GPURED__N(FEW) * GPURED__W;
  GPURED__V a[GPURED__N(FEW)];
  int64_t c, at;
  int j;
  for (c = 0; c < columns; c += line) {
    at = gpured__min_i64(c, columns - line);
    GPURED__N(few_by_1)(kernel, a, x + at, stride, n, 0);
    GPURED__UNROLL
    for (j = 0; j < GPURED__N(FEW); ++j)
      GPURED__N(store)(out + at + j * GPURED__W, GPURED__N(canonical)(a[j]));
  }
}

GPURED__INLINE void GPURED__N(few_lines)(int kernel, const GPURED__T *x, int64_t stride, int64_t n,
                                         int64_t columns, GPURED__T *out) {
  if (n == 2)
    GPURED__N(few_of)(kernel, x, stride, 2, columns, out);
  else if (n == 3)
    GPURED__N(few_of)(kernel, x, stride, 3, columns, out);
  else if (n == 4)
    GPURED__N(few_of)(kernel, x, stride, 4, columns, out);
  else
    GPURED__N(few_of)(kernel, x, stride, n, columns, out);
}

GPURED__COPIES(few_lines,
               (const GPURED__T *x, int64_t stride, int64_t n, int64_t columns, GPURED__T *out), x,
               stride, n, columns, out);
#endif

/* out[c] = the fold of column c: n <= 16 rows, `stride` apart, a vector at a time. */
GPURED__INLINE void GPURED__N(few_rows)(int kernel, const GPURED__T *x, int64_t stride, int64_t n,
                                        int64_t columns, GPURED__T *out) {
  GPURED__V v[GPURED__LANES], four[4];
  int64_t r, h, c;
  int part;
  for (c = 0; c < columns; c += GPURED__W, x += GPURED__W) {
    part = (int)gpured__min_i64(GPURED__W, columns - c);
    if (n <= 4) {
      GPURED__UNROLL
      for (r = 0; r < 4; ++r)
        four[r] = r < n ? GPURED__N(few_load)(kernel, x + r * stride, part)
                        : GPURED__N(splat)(GPURED__N(neutral)(kernel));
      v[0] = GPURED__N(combine)(kernel, GPURED__N(combine)(kernel, four[0], four[2]),
                                GPURED__N(combine)(kernel, four[1], four[3]));
    } else {
      for (r = 0; r < n; ++r) v[r] = GPURED__N(few_load)(kernel, x + r * stride, part);
      for (h = GPURED__LANES / 2; h > 0; h /= 2)
        for (r = 0; r < h && r + h < n; ++r) v[r] = GPURED__N(combine)(kernel, v[r], v[r + h]);
    }
    v[0] = GPURED__N(canonical)(v[0]);
    if (part == GPURED__W)
      GPURED__N(store)(out + c, v[0]);
    else
      GPURED__N(store_part)(out + c, part, v[0]);
  }
}

GPURED__COPIES(few_rows,
               (const GPURED__T *x, int64_t stride, int64_t n, int64_t columns, GPURED__T *out), x,
               stride, n, columns, out);

GPURED__FUNC void GPURED__N(few)(int kernel, const void *x, int64_t stride, int64_t n,
                                 int64_t columns, void *out) {
#if GPURED__WIDTH != 0 && !GPURED__SPARING
  if (columns >= GPURED__N(FEW) * GPURED__W && n > 0) {
    GPURED__WITH_KERNEL(kernel, few_lines, (const GPURED__T *)x, stride, n, columns,
                        (GPURED__T *)out);
    return;
  }
#endif
  GPURED__WITH_KERNEL(kernel, few_rows, (const GPURED__T *)x, stride, n, columns, (GPURED__T *)out);
}

/*
 * acc[c] = acc[c] (or, at the start, nothing) and then x[c], x[step + c], ..., of `count` rows,
 * each with its weight (Dot), 16 rows apart, for as many columns as are whole vectors. ask: for
 * what lies ahead?
 */
GPURED__INLINE void GPURED__N(join_rows)(int kernel, int count, int ask, int start, GPURED__T *acc,
                                         const GPURED__T *x, int64_t step, const GPURED__T *w,
                                         int64_t columns) {
  const GPURED__V none =
      GPURED__N(splat)(GPURED__N(neutral)(kernel == GPURED__DOT ? GPURED__ADD : kernel));
  GPURED__V wv[GPURED__SHARES ? 4 : GPURED__LANES], v;
  int64_t c;
  int k;
  for (k = 0; k < count; ++k)
    wv[k] = GPURED__N(splat)(kernel == GPURED__DOT ? w[k * GPURED__LANES] : 1);
  for (c = 0; c + GPURED__W <= columns; c += GPURED__W) {
    v = start ? none : GPURED__N(load)(acc + c);
    GPURED__UNROLL
    for (k = 0; k < count; ++k) {
      if (ask) GPURED__PREFETCH_FAR((const char *)(x + k * step + c) + GPURED__AHEAD / 2);
      v = GPURED__N(step)(kernel, v, GPURED__N(load)(x + k * step + c), wv[k]);
    }
    GPURED__N(store)(acc + c, v);
  }
}

/* The same for the last columns, `part` of them, which are less than a vector. */
GPURED__INLINE void GPURED__N(join_part)(int kernel, int start, GPURED__T *acc, const GPURED__T *x,
                                         int64_t step, const GPURED__T *w, int64_t count,
                                         int part) {
  GPURED__V v = GPURED__N(splat)(GPURED__N(neutral)(kernel == GPURED__DOT ? GPURED__ADD : kernel));
  GPURED__V xv;
  int64_t k;
  if (!start) v = GPURED__N(load_part)(acc, part, 1);
  for (k = 0; k < count; ++k) {
    xv = GPURED__N(load_part)(x + k * step, part, 1);
    v = GPURED__N(step)(kernel, v, xv,
                        GPURED__N(splat)(kernel == GPURED__DOT ? w[k * GPURED__LANES] : 1));
  }
  GPURED__N(store_part)(acc, part, v);
}

/* `count` long rows of J vectors, whose accumulators stay in registers. */
GPURED__INLINE void GPURED__N(join_tower)(int kernel, int J, int start, GPURED__T *acc,
                                          const GPURED__T *x, int64_t count) {
  const int slow = kernel == GPURED__MIN || kernel == GPURED__MAX || kernel == GPURED__MAX_ABS;
  const int ahead = slow ? GPURED__FAR_AHEAD : 2 * GPURED__AHEAD;
  const int64_t step = (int64_t)J * GPURED__W;
  GPURED__V v[16];
  int64_t r;
  int j;
  GPURED__UNROLL
  for (j = 0; j < J; ++j)
    v[j] =
        start ? GPURED__N(splat)(GPURED__N(neutral)(kernel)) : GPURED__N(load)(acc + j * GPURED__W);
  for (r = 0; r < count; ++r, x += step) {
    GPURED__UNROLL
    for (j = 0; j < J; ++j) {
      const GPURED__V xv = GPURED__N(load)(x + j * GPURED__W);
      if (j * GPURED__W * GPURED__ESIZE % 64 == 0)
        GPURED__PREFETCH_FAR((const char *)(x + j * GPURED__W) + ahead);
      v[j] = GPURED__N(step)(kernel, v[j], xv, xv);
    }
  }
  GPURED__UNROLL
  for (j = 0; j < J; ++j) GPURED__N(store)(acc + j * GPURED__W, v[j]);
}

/* The same for any J up to 16, a loop for each: those that a whole number of columns can make. */
GPURED__INLINE void GPURED__N(join_towers)(int kernel, int J, int start, GPURED__T *acc,
                                           const GPURED__T *x, int64_t count) {
#if GPURED__SPARING
  GPURED__N(join_tower)(kernel, J, start, acc, x, count);
#else
#define GPURED__TOWER(j)                                      \
  case j:                                                     \
    if (j * GPURED__W % GPURED__LANES == 0)                   \
      GPURED__N(join_tower)(kernel, j, start, acc, x, count); \
    break
  switch (J) {
    GPURED__TOWER(1);
    GPURED__TOWER(2);
    GPURED__TOWER(3);
    GPURED__TOWER(4);
    GPURED__TOWER(5);
    GPURED__TOWER(6);
    GPURED__TOWER(7);
    GPURED__TOWER(8);
    GPURED__TOWER(9);
    GPURED__TOWER(10);
    GPURED__TOWER(11);
    GPURED__TOWER(12);
    GPURED__TOWER(13);
    GPURED__TOWER(14);
    GPURED__TOWER(15);
    GPURED__TOWER(16);
  }
#undef GPURED__TOWER
#endif
}

/* Four neighbouring rows of `step` elements, whole vectors; the next four are asked for. */
GPURED__INLINE void GPURED__N(join_neighbours)(int kernel, int start, GPURED__T *acc,
                                               const GPURED__T *x, int64_t step) {
  GPURED__V v, xv;
  int64_t c;
  int k;
  for (c = 0; c < step; c += GPURED__W) {
    v = start ? GPURED__N(splat)(GPURED__N(neutral)(kernel)) : GPURED__N(load)(acc + c);
    GPURED__UNROLL
    for (k = 0; k < 4; ++k) {
      xv = GPURED__N(load)(x + k * step + c);
      if (c * GPURED__ESIZE % 64 == 0) GPURED__PREFETCH_FAR(x + (k + 4) * step + c);
      v = GPURED__N(step)(kernel, v, xv, xv);
    }
    GPURED__N(store)(acc + c, v);
  }
}

/* Rows that touch, 16 of them being one long row of whole vectors. Up to sixteen vectors stay in
 * registers; beyond that it pays to touch the accumulators once for four rows, unless these are so
 * short that the order of memory is worth more. */
GPURED__INLINE void GPURED__N(join_touching)(int kernel, int start, GPURED__T *acc,
                                             const GPURED__T *x, int64_t step, int64_t count) {
  int64_t r = 0, c;
  if (step <= 16 * GPURED__W) {
    GPURED__N(join_towers)(kernel, (int)(step / GPURED__W), start, acc, x, count);
    return;
  }
  if (step > GPURED__AHEAD / GPURED__ESIZE)
    for (; r + 4 <= count; r += 4, x += 4 * step, start = 0)
      GPURED__N(join_neighbours)(kernel, start, acc, x, step);
  for (; r < count; ++r, x += step, start = 0) {
    for (c = 0; c < step; c += 64 / GPURED__ESIZE)
      GPURED__PREFETCH_FAR((const char *)(x + c) + GPURED__FAR_AHEAD);
    GPURED__N(join_rows)(kernel, 1, 0, start, acc, x, 0, x, step);
  }
}

/* `count` rows of a lane, `step` apart: those of a block at once, if that is allowed, or four at a
 * time, which the hardware follows, so that accumulators are touched once for four rows. A lane
 * that begins with no row is neutral. */
GPURED__INLINE void GPURED__N(join_lane)(int kernel, int ask, int whole, int start, GPURED__T *acc,
                                         const GPURED__T *x, int64_t step, const GPURED__T *w,
                                         int64_t count, int64_t columns) {
  const int part = (int)(columns % GPURED__W);
  int64_t k = 0, c = columns - part;
  if (part > 0) GPURED__N(join_part)(kernel, start, acc + c, x + c, step, w, count, part);
  if (!GPURED__SHARES && whole && start && count == GPURED__LANES) {
    GPURED__N(join_rows)(kernel, GPURED__LANES, 0, 1, acc, x, step, w, columns);
    return;
  }
  for (; k + 4 <= count; k += 4) GPURED__N(join_rows)
  (kernel, 4, ask, start && k == 0, acc, x + k * step, step, w + k * GPURED__LANES, columns);
  for (; k < count; ++k) GPURED__N(join_rows)
  (kernel, 1, 0, start && k == 0, acc, x + k * step, step, w + k * GPURED__LANES, columns);
  for (; start && count == 0 && c > 0; --c)
    acc[c - 1] = GPURED__N(neutral)(kernel == GPURED__DOT ? GPURED__ADD : kernel);
}

/* Up to 64 rows of a block into acc[lane][column]. */
GPURED__INLINE void GPURED__N(join_streams)(int kernel, int ask, int start, GPURED__T *acc,
                                            const GPURED__T *x, int64_t stride, const GPURED__T *w,
                                            int64_t n, int64_t columns) {
  int64_t l;
  for (l = 0; l < GPURED__LANES && l < n; ++l) GPURED__N(join_lane)
  (kernel, ask, 0, start, acc + l * columns, x + l * stride, GPURED__LANES * stride, w + l,
   gpured__rows_of_lane(l, n), columns);
}

/* to = a combined with b, for less than a vector: one function for all operations. */
GPURED__FUNC void GPURED__N(combine_rest)(int kernel, GPURED__T *to, const GPURED__T *a,
                                          const GPURED__T *b, int64_t n) {
  int64_t i;
  for (i = 0; i < n; ++i) to[i] = GPURED__N(combine_one)(kernel, a[i], b[i]);
}

/* The same for any number; `to` may lie where b does. */
GPURED__INLINE void GPURED__N(combine_arrays)(int kernel, GPURED__T *to, const GPURED__T *a,
                                              const GPURED__T *b, int64_t n) {
  int64_t i;
  for (i = 0; i + GPURED__W <= n; i += GPURED__W) GPURED__N(store)
  (to + i, GPURED__N(combine)(kernel, GPURED__N(load)(a + i), GPURED__N(load)(b + i)));
  if (i < n) GPURED__N(combine_rest)(kernel, to + i, a + i, b + i, n - i);
}

/* Where the lanes of the next block grow: slot 0, or the spare one while slot 0 is taken. */
GPURED__INLINE GPURED__T *GPURED__N(columns_block)(const gpured__strip *st) {
  GPURED__T *slots = (GPURED__T *)st->slots;
  return st->count & 1 ? slots + st->levels * st->lanes * st->columns : slots;
}

/* Puts the block into the tree of section 9: slot l holds the lanes of a subtree of 2^l blocks. The
 * last combination goes right to the slot that is free. */
GPURED__INLINE void GPURED__N(columns_push)(int kernel, gpured__strip *st) {
  const int64_t lanes = st->lanes * st->columns;
  GPURED__T *slot = (GPURED__T *)st->slots, *block = GPURED__N(columns_block)(st), *to;
  int64_t carry = st->count++;
  st->rows = 0;
  for (; carry & 1; carry >>= 1, slot += lanes, block = to) {
    to = carry & 2 ? slot : slot + lanes;
    GPURED__N(combine_arrays)(kernel, to, slot, block, lanes);
  }
}

/* Where the lanes of all blocks are, after what is left of the tree has been combined, from the
 * latest subtree to the earliest. */
GPURED__INLINE GPURED__T *GPURED__N(columns_rest)(int kernel, const gpured__strip *st) {
  const int64_t lanes = st->lanes * st->columns;
  GPURED__T *slot = (GPURED__T *)st->slots, *have = NULL;
  int l;
  for (l = 0; l < st->levels && st->count >> l; ++l, slot += lanes) {
    if (!(st->count >> l & 1)) continue;
    if (have) GPURED__N(combine_arrays)(kernel, slot, slot, have, lanes);
    have = slot;
  }
  return have;
}

/* Do n rows go by lane? Not in scalars, nor where operations share kernels: what these do for a row
 * costs more than its way to the caches. */
GPURED__INLINE int GPURED__N(goes_by_lane)(int64_t n, int64_t columns) {
  return GPURED__WIDTH != 0 && !GPURED__SHARES && n > GPURED__BLOCK &&
         columns * GPURED__ESIZE >= GPURED__LONG_ROW;
}

/*
 * n rows, whole blocks but for the last one, into acc[lane][column]: a lane of all of them, then
 * the next, so that the tree of a lane stays in the first cache. `slots` has room for that.
 */
GPURED__INLINE void GPURED__N(join_lanes)(int kernel, int ask, int whole, GPURED__T *slots,
                                          GPURED__T *acc, const GPURED__T *x, int64_t stride,
                                          const GPURED__T *w, int64_t n, int64_t columns) {
  gpured__strip lane = gpured__strip_begin(slots, columns, gpured__gemm_levels(n));
  int64_t l, r;
  lane.lanes = 1;
  for (l = 0; l < GPURED__LANES; ++l, acc += columns) {
    lane.count = 0;
    for (r = 0; r < n; r += GPURED__BLOCK) {
      GPURED__N(join_lane)
      (kernel, ask, whole, 1, GPURED__N(columns_block)(&lane), x + (r + l) * stride,
       GPURED__LANES * stride, w + r + l,
       gpured__rows_of_lane(l, gpured__min_i64(GPURED__BLOCK, n - r)), columns);
      GPURED__N(columns_push)(kernel, &lane);
    }
    memcpy(acc, GPURED__N(columns_rest)(kernel, &lane), (size_t)columns * sizeof *acc);
  }
}

/*
 * n rows that begin where the last ones ended; if they are more than a block, they are all there
 * are. Where these are long, what is pushed are subtrees of LANE_ROWS rows and not blocks: the slot
 * of the highest level is free for the trees of their lanes. Far away, where not on Intel's
 * processors, it pays to read four rows at a time and to ask for what lies ahead. So it does (but
 * for asking) where the rows of a lane are whole pages apart: all 16 would go to one set of the
 * first cache, which has fewer ways.
 */
GPURED__INLINE void GPURED__N(columns_on)(int kernel, gpured__strip *st, const GPURED__T *x,
                                          int64_t stride, const GPURED__T *w, int64_t n) {
  const int64_t columns = st->columns, step = GPURED__LANES * columns;
  const int by_lane = GPURED__N(goes_by_lane)(n, columns);
  const int touching = kernel != GPURED__DOT && stride == columns && step <= 4096;
  const int remote = n * stride > 16 * GPURED__FROM_MEMORY / GPURED__ESIZE && !gpured__on_intel();
  const int crowded = GPURED__LANES * stride * GPURED__ESIZE % 4096 == 0;
  const int ask = GPURED__ASKS && remote;
  GPURED__T *acc;
  int64_t len;
  for (; n > 0; n -= len, x += len * stride, w += kernel == GPURED__DOT ? len : 0) {
    acc = GPURED__N(columns_block)(st);
    len = gpured__min_i64(n, by_lane    ? (int64_t)GPURED__LANE_ROWS
                             : touching ? GPURED__BLOCK - st->rows
                                        : 4 * GPURED__LANES);
    if (by_lane) {
      GPURED__N(join_lanes)
      (kernel, ask, !remote && !crowded, (GPURED__T *)st->slots + (st->levels - 1) * step, acc, x,
       stride, w, len, columns);
    } else if (touching && len >= GPURED__LANES) {
      len -= len % GPURED__LANES;
      GPURED__N(join_touching)(kernel, st->rows == 0, acc, x, step, len / GPURED__LANES);
    } else {
      GPURED__N(join_streams)(kernel, ask, st->rows == 0, acc, x, stride, w, len, columns);
    }
    st->rows += len;
    if (by_lane || st->rows == GPURED__BLOCK) GPURED__N(columns_push)(kernel, st);
  }
}

GPURED__COPIES_WITH_DOT(columns_on,
                        (gpured__strip * st, const GPURED__T *x, int64_t stride, const GPURED__T *w,
                         int64_t n),
                        st, x, stride, w, n);

GPURED__FUNC void GPURED__N(columns)(int kernel, gpured__strip *st, const void *data,
                                     int64_t stride, const void *weight, int64_t n) {
  const GPURED__T *x = (const GPURED__T *)data, *w = weight ? (const GPURED__T *)weight : x;
  GPURED__WITH_KERNEL_OR_DOT(kernel, columns_on, st, x, stride, w, n);
}

/* Puts the lanes of the columns into slot 0. */
GPURED__FUNC void GPURED__N(columns_close)(int kernel, gpured__strip *st) {
  const int64_t lanes = GPURED__LANES * st->columns;
  const GPURED__T none = GPURED__N(neutral)(kernel == GPURED__DOT ? GPURED__ADD : kernel);
  GPURED__T *have;
  int64_t i;
  if (st->rows > 0) {
    for (i = st->rows * st->columns; i < lanes; ++i) GPURED__N(columns_block)(st)[i] = none;
    GPURED__N(columns_push)(kernel, st);
  }
  have = GPURED__N(columns_rest)(kernel, st);
  if (have != st->slots) memcpy(st->slots, have, (size_t)lanes * sizeof *have);
}

/* a = a combined with b, lanes of two subtrees. */
GPURED__FUNC void GPURED__N(columns_join)(int kernel, void *a, const void *b, int64_t n) {
  GPURED__T *to = (GPURED__T *)a;
  GPURED__N(combine_arrays)(kernel, to, to, (const GPURED__T *)b, n);
}

/* The fold of the lanes of each column into a[0 .. columns). */
GPURED__INLINE void GPURED__N(fold_columns)(int kernel, GPURED__T *a, int64_t columns) {
  GPURED__V v[GPURED__LANES];
  int64_t c;
  int l, h;
  for (c = 0; c + GPURED__W <= columns; c += GPURED__W) {
    GPURED__UNROLL
    for (l = 0; l < GPURED__LANES; ++l) v[l] = GPURED__N(load)(a + l * columns + c);
    GPURED__UNROLL
    for (h = GPURED__LANES / 2; h > 0; h /= 2) {
      GPURED__UNROLL
      for (l = 0; l < h; ++l) v[l] = GPURED__N(combine)(kernel, v[l], v[l + h]);
    }
    GPURED__N(store)(a + c, v[0]);
  }
  for (; c < columns; ++c)
    for (h = GPURED__LANES / 2; h > 0; h /= 2)
      for (l = 0; l < h; ++l)
        a[l * columns + c] =
            GPURED__N(combine_one)(kernel, a[l * columns + c], a[(l + h) * columns + c]);
}

/* Short enough for one function. */
#define GPURED__CASE(number, function, ...) \
  case number:                              \
    function(number, __VA_ARGS__);          \
    break

GPURED__FUNC void GPURED__N(columns_fold)(int kernel, void *data, int64_t columns) {
  GPURED__T *a = (GPURED__T *)data;
  switch (kernel) {
    GPURED__CASE(GPURED__MUL, GPURED__N(fold_columns), a, columns);
    GPURED__CASE(GPURED__MIN, GPURED__N(fold_columns), a, columns);
    GPURED__CASE(GPURED__MAX, GPURED__N(fold_columns), a, columns);
    GPURED__CASE(GPURED__MAX_ABS, GPURED__N(fold_columns), a, columns);
    default:
      GPURED__N(fold_columns)(GPURED__ADD, a, columns);
  }
}

/* mean and norm2 of folded sums, in place. */
GPURED__FUNC void GPURED__N(finish)(int op, void *data, int64_t count, int64_t n) {
#if GPURED__FLOAT
  GPURED__T *a = (GPURED__T *)data;
  int64_t i;
  if (op == GPURED_MEAN)
    for (i = 0; i < count; ++i) a[i] = a[i] / (GPURED__T)n;
  if (op == GPURED_NORM2)
    for (i = 0; i < count; ++i) a[i] = GPURED__S(sqrt)(a[i]);
#else
  (void)op, (void)data, (void)count, (void)n;
#endif
}

/*
 * What is needed twice, or with its place, of a unit of n <= 1024 rows: a vector of columns at a
 * time. Of the last one only a part may exist.
 */
GPURED__INLINE GPURED__V GPURED__N(load_columns)(const GPURED__T *x, int part) {
  return part == GPURED__W ? GPURED__N(load)(x) : GPURED__N(load_part)(x, part, 0);
}

/* Row v of that number, against the best so far: the first of equals, the first NaN before all. */
GPURED__INLINE void GPURED__N(arg_step)(int kernel, GPURED__V v, GPURED__U number, GPURED__V *best,
                                        GPURED__UV *at) {
  const GPURED__UV row = GPURED__N(row_number)(number);
  GPURED__N(mask) better = kernel == GPURED__ARG_MAX ? v > *best : v < *best;
#if GPURED__FLOAT
  better = (better | GPURED__N(isnan)(v)) & ~GPURED__N(isnan)(*best);
#endif
  *at = GPURED__N(as_u)(GPURED__N(select)(better, GPURED__N(as_v)(row), GPURED__N(as_v)(*at)));
  *best = GPURED__N(select)(better, v, *best);
}

GPURED__INLINE void GPURED__N(unit_best)(int kernel, const GPURED__T *x, int64_t stride, int64_t n,
                                         int part, GPURED__T *value, GPURED__T *index) {
  GPURED__V best = GPURED__N(load_columns)(x, part), v;
  GPURED__UV at = GPURED__N(as_u)(GPURED__N(splat)(0));
  int64_t r;
  for (r = 1; r < n; ++r) {
    GPURED__PREFETCH(x + (r + GPURED__ROWS_AHEAD) * stride);
    v = GPURED__N(load_columns)(x + r * stride, part);
    GPURED__N(arg_step)(kernel, v, (GPURED__U)r, &best, &at);
  }
  GPURED__N(store)(value, best);
  memcpy(index, &at, sizeof at);
}

#if GPURED__FLOAT
/* The largest of each column, by the fast step where it is certain: see most. */
GPURED__INLINE GPURED__V GPURED__N(unit_most)(const GPURED__T *x, int64_t stride, int64_t n,
                                              int part) {
  const GPURED__V start = GPURED__N(load_columns)(x, part);
  GPURED__V m = start, s = start, v;
  int64_t r;
  for (r = 1; r < n; ++r) {
    GPURED__PREFETCH(x + (r + GPURED__ROWS_AHEAD) * stride);
    v = GPURED__N(load_columns)(x + r * stride, part);
    m = GPURED__N(max_plain)(m, v);
    s = s + v;
  }
  if (!GPURED__N(any)(GPURED__N(isnan)(s))) return m;
  m = start;
  for (r = 1; r < n; ++r) m = GPURED__N(max)(m, GPURED__N(load_columns)(x + r * stride, part));
  return m;
}

/* What a unit's sum is of: the elements, (x - m)^2, or exp(x - m). */
enum { GPURED__N(OF_X), GPURED__N(OF_SQUARE), GPURED__N(OF_EXP) };

/* Up to 16 rows onto their lanes. */
GPURED__INLINE void GPURED__N(unit_rows)(int what, GPURED__V *acc, const GPURED__T *x,
                                         int64_t stride, int rows, int part, GPURED__V m) {
  GPURED__V v[GPURED__LANES];
  int l;
  for (l = 0; l < rows; ++l) {
    if (what == GPURED__N(OF_X)) GPURED__PREFETCH(x + (l + GPURED__ROWS_AHEAD) * stride);
    v[l] = GPURED__N(load_columns)(x + l * stride, part);
    if (what != GPURED__N(OF_X)) v[l] = v[l] - m;
  }
  if (what == GPURED__N(OF_EXP) && rows == GPURED__LANES)
    for (l = 0; l < rows; l += 4) GPURED__N(exp_each)(v + l, 4);
  else if (what == GPURED__N(OF_EXP))
    for (l = 0; l < rows; ++l) v[l] = GPURED__N(exp)(v[l]);
  for (l = 0; l < rows; ++l)
    acc[l] = what == GPURED__N(OF_SQUARE) ? GPURED__N(fma)(v[l], v[l], acc[l]) : acc[l] + v[l];
}

/* The sum of each column in the order of docs/ORDER.md: lanes of blocks, their tree, the fold. */
GPURED__INLINE GPURED__V GPURED__N(unit_sum)(int what, const GPURED__T *x, int64_t stride,
                                             int64_t n, int part, GPURED__V m) {
  GPURED__V acc[4][GPURED__LANES];
  int b, l, h, count, blocks = (int)gpured__ceil_div(n, GPURED__BLOCK);
  int64_t r, left;
  for (b = 0; b < blocks; ++b) {
    left = gpured__min_i64(GPURED__BLOCK, n - b * GPURED__BLOCK);
    for (l = 0; l < GPURED__LANES; ++l)
      acc[b][l] = GPURED__N(splat)(GPURED__N(neutral)(GPURED__ADD));
    for (r = 0; r < left; r += count, x += count * stride) {
      count = (int)gpured__min_i64(GPURED__LANES, left - r);
      if (count == GPURED__LANES)
        GPURED__N(unit_rows)(what, acc[b], x, stride, GPURED__LANES, part, m);
      else
        GPURED__N(unit_rows)(what, acc[b], x, stride, count, part, m);
    }
  }
  for (l = 0; l < GPURED__LANES; ++l) {
    if (blocks > 1) acc[0][l] = acc[0][l] + acc[1][l];
    if (blocks > 3) acc[2][l] = acc[2][l] + acc[3][l];
    if (blocks > 2) acc[0][l] = acc[0][l] + acc[2][l];
  }
  for (h = GPURED__LANES / 2; h > 0; h /= 2)
    for (l = 0; l < h; ++l) acc[0][l] = acc[0][l] + acc[0][l + h];
  return acc[0][0];
}
#endif

/* first[c] and second[c]: value and row (a number of the type's size), maximum and sum, or mean and
 * squared deviations of column c. Both have room for whole vectors. */
GPURED__FUNC void GPURED__N(units)(int kernel, const void *data, int64_t stride, int64_t n,
                                   int64_t columns, void *first, void *second) {
  const GPURED__T *x = (const GPURED__T *)data;
  GPURED__T *a = (GPURED__T *)first, *b = (GPURED__T *)second;
  int64_t c;
  int part;
  for (c = 0; c < columns; c += GPURED__W, x += GPURED__W, a += GPURED__W, b += GPURED__W) {
    part = (int)gpured__min_i64(GPURED__W, columns - c);
    if (kernel == GPURED__ARG_MIN) {
      GPURED__N(unit_best)(GPURED__ARG_MIN, x, stride, n, part, a, b);
    } else if (kernel == GPURED__ARG_MAX) {
      GPURED__N(unit_best)(GPURED__ARG_MAX, x, stride, n, part, a, b);
#if GPURED__FLOAT
    } else if (kernel == GPURED__LSE) {
      const GPURED__V m = GPURED__N(unit_most)(x, stride, n, part), zero = GPURED__N(splat)(0);
      const GPURED__V s = GPURED__N(unit_sum)(GPURED__N(OF_EXP), x, stride, n, part, m);
      GPURED__N(store)(a, m);
      GPURED__N(store)(b, GPURED__N(select)(m - m == zero, s, GPURED__N(splat)(1)));
    } else {
      const GPURED__V none = GPURED__N(splat)(0);
      const GPURED__V mean = GPURED__N(unit_sum)(GPURED__N(OF_X), x, stride, n, part, none) /
                             GPURED__N(splat)((GPURED__T)n);
      GPURED__N(store)(a, mean);
      GPURED__N(store)(b, GPURED__N(unit_sum)(GPURED__N(OF_SQUARE), x, stride, n, part, mean));
#endif
    }
  }
}

/* Results of sequences of one unit, into first. */
GPURED__FUNC void GPURED__N(unit_results)(int op, int64_t columns, int64_t n, int ddof, void *first,
                                          const void *second) {
#if GPURED__FLOAT
  const GPURED__V count = GPURED__N(splat)((GPURED__T)(n > ddof ? n - ddof : 0));
  GPURED__T *a = (GPURED__T *)first;
  const GPURED__T *b = (const GPURED__T *)second;
  GPURED__V m, y;
  int64_t c;
  for (c = 0; c < columns; c += GPURED__W) {
    m = GPURED__N(load)(a + c);
    y = GPURED__N(load)(b + c);
    if (op == GPURED_LOGSUMEXP)
      y = GPURED__N(pair_value)(m, y);
    else
      y = y / count;
    GPURED__N(store)(a + c, GPURED__N(canonical)(y));
  }
  for (c = 0; op == GPURED_STD && c < columns; ++c) a[c] = GPURED__S(sqrt)(a[c]);
#else
  (void)op, (void)columns, (void)n, (void)ddof, (void)first, (void)second;
#endif
}

/* ---- 10.5  Feeding a sequence: n elements that begin at a block's border ---- */

/* Lanes of a block onto a counter of `count` blocks; the register form of push. */
GPURED__INLINE void GPURED__N(push_lanes)(int kernel, gpured__node *top, int64_t count,
                                          GPURED__V *acc) {
  GPURED__T *lanes;
  int i;
  for (; count & 1; count >>= 1, ++top) {
    lanes = top->v.GPURED__TN;
    GPURED__UNROLL
    for (i = 0; i < GPURED__NV; ++i)
      acc[i] = GPURED__N(combine)(kernel, GPURED__N(load)(lanes + i * GPURED__W), acc[i]);
  }
  GPURED__N(store_row)(top->v.GPURED__TN, acc);
}

#if GPURED__FLOAT && GPURED__NV <= 4
/* Min and max are order-free: all blocks together are one block of the tree. Up to 16 of them are
 * taken at a time, from memory more (but not again after a NaN, which makes it all once more), and
 * one by one where that is not certain. */
GPURED__INLINE void GPURED__N(feed_extreme)(int kernel, gpured__state *st, const GPURED__T *x,
                                            int64_t n, int from_memory) {
  GPURED__V all[GPURED__NV], acc[GPURED__NV];
  int64_t len, at;
  int i, quarters = GPURED__N(goes_apart)(from_memory);
  for (i = 0; i < GPURED__NV; ++i) all[i] = GPURED__N(splat)(GPURED__N(neutral)(kernel));
  for (; n > 0; n -= len, x += len) {
    len = GPURED__APART_GROUP;
    quarters = quarters && n >= len;
    if (quarters) quarters = GPURED__N(quick_lanes)(kernel, acc, x, len, GPURED__N(BY_QUARTERS));
    if (quarters) {
      GPURED__N(combine_rows)(kernel, all, acc);
      continue;
    }
    len = gpured__min_i64(16 * GPURED__BLOCK,
                          n < GPURED__BLOCK ? n : n / GPURED__BLOCK * GPURED__BLOCK);
    if (len >= GPURED__BLOCK &&
        GPURED__N(quick_lanes)(kernel, acc, x, len,
                               from_memory ? GPURED__N(BY_ASKING) : GPURED__N(BY_STEPS))) {
      GPURED__N(combine_rows)(kernel, all, acc);
      continue;
    }
    for (at = 0; at < len; at += GPURED__BLOCK) {
      GPURED__N(block)(kernel, acc, x + at, x + at, gpured__min_i64(GPURED__BLOCK, len - at), 0);
      GPURED__N(combine_rows)(kernel, all, acc);
    }
  }
  GPURED__N(push_lanes)(kernel, st->stack, st->count++, all);
}
#endif

#if GPURED__APART
#if GPURED__LOADS_NARROW
/* The sums of BESIDE blocks of a narrower type (see load_narrow), as blocks_beside makes them. */
GPURED__INLINE void GPURED__N(narrow_beside)(GPURED__V acc[][GPURED__NV], const char *x, int size,
                                             int half, int64_t apart) {
  int r, b, i;
  GPURED__UNROLL
  for (b = 0; b < GPURED__BESIDE; ++b) {
    GPURED__UNROLL
    for (i = 0; i < GPURED__NV; ++i)
      acc[b][i] = GPURED__N(load_narrow)(x + (b * apart + i * GPURED__W) * size, half);
  }
  for (r = GPURED__LANES; r < GPURED__BLOCK; r += GPURED__LANES) {
    GPURED__UNROLL
    for (b = 0; b < GPURED__BESIDE; ++b) {
      GPURED__UNROLL
      for (i = 0; i < GPURED__NV; ++i)
        acc[b][i] =
            acc[b][i] + GPURED__N(load_narrow)(x + (r + b * apart + i * GPURED__W) * size, half);
    }
  }
}
#endif

/*
 * Blocks that come from memory, those of PLACES subtrees in turn, BESIDE of them row by row: memory
 * gives a thread more from several places at once than from one. Elements of a narrower type have a
 * size, others 0. What is no whole number of such groups is left; returns how many elements were
 * not.
 */
GPURED__INLINE int64_t GPURED__N(feed_apart)(int kernel, gpured__state *st, const void *data,
                                             const GPURED__T *w, int size, int half, int64_t n) {
  enum { LEVEL = GPURED__APART_LEVEL, DISTANCE = GPURED__BLOCK << LEVEL };
  gpured__node part[GPURED__PLACES][LEVEL + 1];
  GPURED__V acc[GPURED__BESIDE][GPURED__NV];
  int64_t at, block;
  int p, b, i;
  for (at = 0; n - at >= GPURED__APART_GROUP; at += GPURED__APART_GROUP) {
    for (i = 0; i < 1 << LEVEL; ++i) {
      for (p = 0; p < GPURED__PLACES; p += GPURED__BESIDE) {
        block = at + p * DISTANCE + i * GPURED__BLOCK;
#if GPURED__LOADS_NARROW
        if (size)
          GPURED__N(narrow_beside)(acc, (const char *)data + block * size, size, half, DISTANCE);
#endif
        if (!size) GPURED__N(blocks_beside)
        (kernel, acc, (const GPURED__T *)data + block, w + block, DISTANCE);
        GPURED__UNROLL
        for (b = 0; b < GPURED__BESIDE; ++b) GPURED__N(push_lanes)(kernel, part[p + b], i, acc[b]);
      }
    }
    for (p = 0; p < GPURED__PLACES; ++p, st->count += 1 << LEVEL) {
      GPURED__N(load_row)(acc[0], part[p][LEVEL].v.GPURED__TN);
      GPURED__N(push_lanes)(kernel, st->stack + LEVEL, st->count >> LEVEL, acc[0]);
    }
  }
  (void)half;
  return at;
}
#endif

/* from_memory: do they come from there, and not from a cache? */
GPURED__INLINE void GPURED__N(feed_fold)(int kernel, gpured__state *st, const GPURED__T *x,
                                         const GPURED__T *w, int64_t n, int from_memory) {
  GPURED__V acc[2][GPURED__NV];
  int64_t len, count;
#if GPURED__FLOAT && GPURED__NV <= 4
  if (kernel == GPURED__MIN || kernel == GPURED__MAX || kernel == GPURED__MAX_ABS) {
    GPURED__N(feed_extreme)(kernel, st, x, n, from_memory);
    return;
  }
#endif
#if GPURED__APART
  if (GPURED__N(goes_apart)(from_memory) && st->count % (1 << GPURED__APART_LEVEL) == 0) {
    len = GPURED__N(feed_apart)(kernel, st, x, w, 0, 0, n);
    n -= len, x += len, w += len;
  }
#endif
  count = st->count;
  for (; n > 0; n -= len, x += len, w += len) {
#if GPURED__NV <= 4
    if (n >= 2 * GPURED__BLOCK && !(count & 1) && !(GPURED__IN_TURN && from_memory)) {
      GPURED__N(two_blocks)(kernel, acc, x, w);
      GPURED__N(push_lanes)(kernel, st->stack + 1, count / 2, acc[0]);
      len = 2 * GPURED__BLOCK;
      count += 2;
      continue;
    }
#endif
    GPURED__N(next_block)(kernel, acc[0], x, w, n);
    GPURED__N(push_lanes)(kernel, st->stack, count++, acc[0]);
    len = GPURED__BLOCK;
  }
  st->count = count;
  (void)from_memory;
}

/* The tree over all lanes pushed, as close does it. */
GPURED__INLINE void GPURED__N(close_lanes)(int kernel, const gpured__state *st, GPURED__V *acc) {
  GPURED__V left[GPURED__NV];
  const gpured__node *top = st->stack;
  int64_t rest = st->count;
  int i;
  for (; !(rest & 1); rest >>= 1) ++top;
  GPURED__N(load_row)(acc, top->v.GPURED__TN);
  for (++top, rest >>= 1; rest; ++top, rest >>= 1) {
    if (!(rest & 1)) continue;
    GPURED__N(load_row)(left, top->v.GPURED__TN);
    GPURED__UNROLL
    for (i = 0; i < GPURED__NV; ++i) acc[i] = GPURED__N(combine)(kernel, left[i], acc[i]);
  }
}

/* May whole blocks, n elements, hold a value that beats `best`, or a NaN? */
GPURED__INLINE int GPURED__N(may_beat)(int kernel, const GPURED__T *x, int64_t n, int quarters,
                                       GPURED__V best) {
  const int fold = kernel == GPURED__ARG_MAX ? GPURED__MAX : GPURED__MIN;
#if GPURED__FLOAT && GPURED__NV <= 4
  int sure;
  const int how = quarters ? GPURED__N(BY_QUARTERS) : GPURED__N(BY_STEPS);
  const GPURED__V m = GPURED__N(quick_extreme)(fold, x, n, how, &sure);
  return !sure || GPURED__N(any)(kernel == GPURED__ARG_MAX ? m > best : m < best);
#else
  GPURED__V m[GPURED__NV]; /* here a NaN wins */
  GPURED__N(mask) hit;
  int i;
  (void)quarters;
  for (; n > 0; n -= GPURED__BLOCK, x += GPURED__BLOCK) {
    GPURED__N(whole_block)(fold, m, x, x);
    hit = GPURED__N(isnan)(m[0]);
    GPURED__UNROLL
    for (i = 0; i < GPURED__NV; ++i)
      hit = hit | GPURED__N(isnan)(m[i]) | (kernel == GPURED__ARG_MAX ? m[i] > best : m[i] < best);
    if (GPURED__N(any)(hit)) return 1;
  }
  return 0;
#endif
}

/* The first place of a value that is known to be among n elements. */
GPURED__INLINE int64_t GPURED__N(find)(const GPURED__T *x, int64_t n, GPURED__T value) {
  const GPURED__V v = GPURED__N(splat)(value);
  const int nan = GPURED__N(any)(GPURED__N(isnan)(v));
  int64_t i = 0, lane = 0;
  for (; i + GPURED__W <= n; i += GPURED__W) {
    const GPURED__V xv = GPURED__N(load)(x + i);
    if (GPURED__N(any)(nan ? GPURED__N(isnan)(xv) : xv == v)) break;
  }
  for (; i < n - 1 && lane < GPURED__W; ++i, ++lane) {
    const GPURED__V xv = GPURED__N(splat)(x[i]);
    if (GPURED__N(any)(nan ? GPURED__N(isnan)(xv) : xv == v)) break;
  }
  return i;
}

/* Most pieces hold nothing better than what is known; the others are looked at closely. Order-free:
 * one node is the whole tree. */
GPURED__INLINE void GPURED__N(arg_pieces)(int kernel, gpured__state *st, const GPURED__T *x,
                                          int64_t n, int64_t index) {
  const int fold = kernel == GPURED__ARG_MAX ? GPURED__MAX : GPURED__MIN;
  GPURED__T *best = st->stack[0].v.GPURED__TN, value;
  int64_t len;
  for (; n > 0; n -= len, x += len, index += len) {
    len = gpured__min_i64(n, GPURED__WIDE_BLOCK);
    if (st->count && len == GPURED__WIDE_BLOCK &&
        !GPURED__N(may_beat)(kernel, x, len, 0, GPURED__N(splat)(*best)))
      continue;
    value = GPURED__N(reduce_wide)(fold, x, len);
    if (st->count && !GPURED__N(beats)(kernel, value, *best)) continue;
    *best = value;
    st->stack[0].n = index + GPURED__N(find)(x, len, value);
    st->count = 1;
  }
}

/* The same, from memory by larger pieces. */
GPURED__INLINE void GPURED__N(feed_arg)(int kernel, gpured__state *st, const GPURED__T *x,
                                        int64_t n, int64_t index, int from_memory) {
#if GPURED__APART && GPURED__FLOAT
  const int apart = GPURED__N(goes_apart)(from_memory);
  const int64_t most = apart ? (int64_t)GPURED__APART_GROUP : n;
  int64_t len;
  for (; n > 0; n -= len, x += len, index += len) {
    len = gpured__min_i64(n, most);
    if (apart && len == most && st->count &&
        !GPURED__N(may_beat)(kernel, x, len, 1, GPURED__N(splat)(*st->stack[0].v.GPURED__TN)))
      continue;
    GPURED__N(arg_pieces)(kernel, st, x, len, index);
  }
#else
  (void)from_memory;
  GPURED__N(arg_pieces)(kernel, st, x, n, index);
#endif
}

#if GPURED__FLOAT
GPURED__FUNC void GPURED__N(feed_lse)(gpured__state *st, const GPURED__T *x, int64_t n) {
  GPURED__V acc[4][GPURED__NV], most, sum;
  GPURED__T m[GPURED__W], s[GPURED__W];
  gpured__node node;
  int64_t len;
  node.n = 0;
  for (; n > 0; n -= len, x += len) {
    len = gpured__min_i64(n, GPURED__WIDE_BLOCK);
    most = GPURED__N(most)(x, len, &sum);
    GPURED__N(store)(m, GPURED__N(fold_vector)(GPURED__MAX_PLAIN, most));
    if (GPURED__N(any)(GPURED__N(isnan)(sum))) m[0] = GPURED__N(reduce_wide)(GPURED__MAX, x, len);
    s[0] = 1;
    if (GPURED__S(isfinite)(m[0])) {
      GPURED__N(exp_lanes)(acc, x, m[0], len);
      GPURED__N(store)(s, GPURED__N(fold_row)(GPURED__ADD, acc[0]));
    }
    node.v.GPURED__TN[0] = m[0];
    node.v.GPURED__TN[1] = s[0];
    GPURED__N(push)(GPURED__LSE, st, &node);
  }
}

GPURED__FUNC void GPURED__N(feed_moments)(gpured__state *st, const GPURED__T *x, int64_t n) {
  GPURED__T d[GPURED__WIDE_BLOCK], mean;
  gpured__node node;
  int64_t len, i;
  for (; n > 0; n -= len, x += len) {
    len = gpured__min_i64(n, GPURED__WIDE_BLOCK);
    mean = GPURED__N(reduce_wide)(GPURED__ADD, x, len) / (GPURED__T)len;
    for (i = 0; i + GPURED__W <= len; i += GPURED__W) {
      GPURED__PREFETCH(x + i + GPURED__WIDE_BLOCK);
      GPURED__N(store)(d + i, GPURED__N(load)(x + i) - GPURED__N(splat)(mean));
    }
    for (; i < len; ++i) d[i] = x[i] - mean;
    node.v.GPURED__TN[0] = mean;
    node.v.GPURED__TN[1] = GPURED__N(reduce_wide)(GPURED__ADD_SQUARE, d, len);
    node.n = len;
    GPURED__N(push)(GPURED__MOMENTS, st, &node);
  }
}
#endif

GPURED__COPIES_WITH_DOT(feed_fold,
                        (gpured__state * st, const GPURED__T *x, const GPURED__T *w, int64_t n,
                         int from_memory),
                        st, x, w, n, from_memory);

/* Every kernel by its number. */
GPURED__FUNC void GPURED__N(feed)(int kernel, gpured__state *st, const void *data,
                                  const void *weight, int64_t n, int64_t index) {
  const GPURED__T *x = (const GPURED__T *)data,
                  *w = kernel == GPURED__DOT ? (const GPURED__T *)weight : x;
  const int from_memory = n >= GPURED__FROM_MEMORY / GPURED__ESIZE;
  switch (kernel) {
    case GPURED__ARG_MIN:
      GPURED__N(feed_arg)(GPURED__ARG_MIN, st, x, n, index, from_memory);
      break;
    case GPURED__ARG_MAX:
      GPURED__N(feed_arg)(GPURED__ARG_MAX, st, x, n, index, from_memory);
      break;
#if GPURED__FLOAT
    case GPURED__LSE:
      GPURED__N(feed_lse)(st, x, n);
      break;
    case GPURED__MOMENTS:
      GPURED__N(feed_moments)(st, x, n);
      break;
#endif
    default:
      GPURED__WITH_KERNEL_OR_DOT(kernel, feed_fold, st, x, w, n, from_memory);
      break;
  }
}

/* A narrower type, which is widened in registers or not at all: of the first elements, as many as
 * are whole blocks of floats or whole vectors of integers, or all bytes of which one is looked for.
 * Returns how many that is. */
#if GPURED__LOADS_NARROW
GPURED__INLINE int64_t GPURED__N(add_narrow)(gpured__state *st, const char *x, int size, int half,
                                             int64_t n) {
  GPURED__V acc[GPURED__NV], v;
  int64_t done = 0;
  int r, i;
#if GPURED__APART
  if (GPURED__N(goes_apart)(n * size >= GPURED__FROM_MEMORY) &&
      st->count % (1 << GPURED__APART_LEVEL) == 0) {
    done = GPURED__N(feed_apart)(GPURED__ADD, st, x, NULL, size, half, n);
    x += done * size;
  }
#endif
  for (; done + GPURED__BLOCK <= n; done += GPURED__BLOCK, x += GPURED__BLOCK * size) {
    GPURED__UNROLL
    for (i = 0; i < GPURED__NV; ++i)
      acc[i] = GPURED__N(load_narrow)(x + i * GPURED__W * size, half);
    GPURED__UNROLL_ROWS
    for (r = GPURED__LANES; r < GPURED__BLOCK; r += GPURED__LANES) {
      GPURED__PREFETCH(x + r * size + GPURED__FAR_AHEAD);
      GPURED__UNROLL
      for (i = 0; i < GPURED__NV; ++i) {
        v = GPURED__N(load_narrow)(x + (r + i * GPURED__W) * size, half);
        acc[i] = acc[i] + v;
      }
    }
    GPURED__N(push_lanes)(GPURED__ADD, st->stack, st->count++, acc);
  }
  return done;
}

GPURED__FUNC int64_t GPURED__N(feed_narrow)(int kernel, gpured__state *st, const void *data,
                                            int32_t dtype, int64_t n, int64_t index) {
  const char *x = (const char *)data;
  (void)index;
  if (kernel != GPURED__ADD) return 0;
#if GPURED__PASS == 64
  return dtype == GPURED_F32 ? GPURED__N(add_narrow)(st, x, 4, 0, n) : 0;
#else
  if (dtype == GPURED_F16) return GPURED__N(add_narrow)(st, x, 2, 1, n);
  return dtype == GPURED_BF16 ? GPURED__N(add_narrow)(st, x, 2, 0, n) : 0;
#endif
}
#define GPURED__FEED_NARROW GPURED__N(feed_narrow)
#elif GPURED__PASS == 1 && GPURED__WIDTH != 0
/* Integers are added in any order: neighbours in one vector first, bytes in 16 bits for as long as
 * those have room. `bias` makes signed numbers positive ones. Of `places`, so many bytes apart, a
 * few vectors each: */
GPURED__INLINE GPURED__V GPURED__N(sum_few)(int size, int places, const char *x, int64_t vectors,
                                            int64_t apart, uint64_t bias) {
  const GPURED__V low = GPURED__N(splat)(size == 1 ? 0x00ff00ff00ff00ffu : 0xffffffffu),
                  pairs = GPURED__N(splat)(0x0000ffff0000ffffu),
                  words = GPURED__N(splat)(0xffffffffu), flip = GPURED__N(splat)(bias);
  GPURED__V few[4], all = GPURED__N(splat)(0), v;
  int64_t i;
  int k;
  GPURED__UNROLL
  for (k = 0; k < places; ++k) few[k] = GPURED__N(splat)(0);
  for (i = 0; i < vectors; ++i, x += sizeof v) {
    GPURED__UNROLL
    for (k = 0; k < places; ++k) {
      if (places == 1) GPURED__PREFETCH_FAR(x + GPURED__FAR_AHEAD);
      memcpy(&v, x + k * apart, sizeof v);
      v ^= flip;
      few[k] += (v & low) + (v >> (size == 1 ? 8 : 32) & low);
    }
  }
  GPURED__UNROLL
  for (k = 0; k < places; ++k) {
    v = few[k];
    if (size == 1) v = (v & pairs) + (v >> 16 & pairs);
    all += size == 1 ? (v & words) + (v >> 32) : v;
  }
  return all;
}

/* Bytes to each of four places, of what is likely to come from memory (see feed_apart). */
enum { GPURED__N(PLACE) = 64 * 1024 };

GPURED__INLINE GPURED__V GPURED__N(sum_vectors)(int size, const char *x, int64_t vectors,
                                                uint64_t bias) {
  enum { SOME = 128, EACH = GPURED__N(PLACE) / (int)sizeof(GPURED__V) };
  const int apart = GPURED__N(goes_apart)(vectors >= 4 * EACH);
  GPURED__V all = GPURED__N(splat)(0);
  int64_t i, some;
  for (; apart && vectors >= 4 * EACH; vectors -= 4 * EACH, x += 4 * GPURED__N(PLACE)) {
    for (i = 0; i < GPURED__N(PLACE); i += SOME * (int)sizeof(GPURED__V))
      all += GPURED__N(sum_few)(size, 4, x + i, SOME, GPURED__N(PLACE), bias);
  }
  for (; vectors > 0; vectors -= some, x += some * (int64_t)sizeof(GPURED__V)) {
    some = gpured__min_i64(vectors, SOME);
    all += GPURED__N(sum_few)(size, 1, x, some, 0, bias);
  }
  return all;
}

/* The next vector of each of four places onto its greatest bytes so far. */
typedef signed char GPURED__N(bytes) __attribute__((vector_size(GPURED__WIDTH)));

GPURED__INLINE void GPURED__N(byte_step)(const signed char *x, int64_t apart, int ask,
                                         GPURED__N(bytes) flips, GPURED__N(bytes) * most) {
  GPURED__N(bytes) v, more;
  int k;
  GPURED__UNROLL
  for (k = 0; k < 4; ++k, x += apart) {
    if (ask && k * GPURED__WIDTH % 64 == 0) GPURED__PREFETCH((const char *)x + GPURED__FAR_AHEAD);
    memcpy(&v, x, sizeof v);
    v ^= flips;
    more = (GPURED__N(bytes))(v > most[k]);
    most[k] = (v & more) | (most[k] & ~more);
  }
}

/* The largest of n > 0 bytes, their bits flipped so that signed comparisons find what is wanted. */
GPURED__INLINE int GPURED__N(most_byte)(const signed char *x, int64_t n, int flip) {
  enum { SIZE = GPURED__WIDTH, PLACE = GPURED__N(PLACE) };
  const int apart = GPURED__N(goes_apart)(n >= 4 * PLACE);
  signed char last[SIZE];
  GPURED__N(bytes) most[4], flips, more;
  int64_t i = 0, k;
  int found = (signed char)(x[0] ^ flip);
  if (n >= 4 * SIZE) {
    memset(last, flip, SIZE);
    memcpy(&flips, last, sizeof flips);
    memset(last, found, SIZE);
    for (k = 0; k < 4; ++k) memcpy(&most[k], last, sizeof most[k]);
    for (; apart && n - i >= 4 * PLACE; i += 4 * PLACE) {
      for (k = 0; k < PLACE; k += SIZE) GPURED__N(byte_step)(x + i + k, PLACE, 0, flips, most);
    }
    for (; i < n; i += 4 * SIZE) /* the last ones again, where some are left over */
      GPURED__N(byte_step)(x + gpured__min_i64(i, n - 4 * SIZE), SIZE, 1, flips, most);
    for (k = 1; k < 4; ++k) {
      more = (GPURED__N(bytes))(most[k] > most[0]);
      most[0] = (most[k] & more) | (most[0] & ~more);
    }
    memcpy(last, &most[0], sizeof last);
    for (k = 0; k < SIZE; ++k)
      if (last[k] > found) found = last[k];
  }
  for (; i < n; ++i)
    if ((signed char)(x[i] ^ flip) > found) found = (signed char)(x[i] ^ flip);
  return found ^ flip;
}

/* Extrema of bytes and where they are first, in pieces that stay in the cache. As numbers they are
 * what fetch makes of them: signed ones with their sign flipped. */
GPURED__FUNC int64_t GPURED__N(feed_bytes)(int kernel, gpured__state *st, const char *x,
                                           int32_t dtype, int64_t n, int64_t index) {
  const int least = kernel == GPURED__MIN || kernel == GPURED__ARG_MIN;
  const int is_arg = kernel == GPURED__ARG_MIN || kernel == GPURED__ARG_MAX;
  const int flip = (dtype == GPURED_U8 ? 0x80 : 0) ^ (least ? 0xff : 0);
  const int64_t piece = !is_arg ? n : GPURED__N(goes_apart)(1) ? 4 * GPURED__N(PLACE) : 4096;
  int64_t done, len;
  for (done = 0; done < n; done += len) {
    const int byte = (len = gpured__min_i64(piece, n - done),
                      GPURED__N(most_byte)((const signed char *)x + done, len, flip));
    const uint64_t value = dtype == GPURED_U8
                               ? (uint64_t)(unsigned char)byte
                               : (uint64_t)(int64_t)(signed char)byte ^ (uint64_t)1 << 63;
    GPURED__T *best = st->stack[0].v.GPURED__TN;
    if (!is_arg) {
      GPURED__V acc[GPURED__NV];
      int i;
      for (i = 0; i < GPURED__NV; ++i) acc[i] = GPURED__N(splat)(value);
      GPURED__N(push_lanes)(kernel, st->stack, st->count++, acc);
    } else if (!st->count || GPURED__N(beats)(kernel, value, *best)) {
      *best = value;
      st->stack[0].n =
          index + done + ((const char *)memchr(x + done, byte, (size_t)len) - (x + done));
      st->count = 1;
    }
  }
  return n;
}

GPURED__FUNC int64_t GPURED__N(feed_narrow)(int kernel, gpured__state *st, const void *x,
                                            int32_t dtype, int64_t n, int64_t index) {
  const int64_t size = (int64_t)gpured__dtype_size(dtype);
  const int64_t vectors = n * size / (int64_t)sizeof(GPURED__V);
  const int64_t done = vectors * (int64_t)sizeof(GPURED__V) / size;
  const uint64_t least = dtype == GPURED_I8 ? 0x80u : dtype == GPURED_I32 ? 0x80000000u : 0;
  GPURED__V acc[GPURED__NV];
  GPURED__T lanes[GPURED__LANES] = {0};
  if (kernel != GPURED__ADD)
    return size > 1 ? 0 : GPURED__N(feed_bytes)(kernel, st, (const char *)x, dtype, n, index);
  if (dtype < GPURED_I8 || dtype > GPURED_U32 || done == 0) return 0;
  GPURED__N(store)
  (lanes, size == 1
              ? GPURED__N(sum_vectors)(1, (const char *)x, vectors, least * 0x0101010101010101u)
              : GPURED__N(sum_vectors)(4, (const char *)x, vectors, least * 0x0000000100000001u));
  lanes[0] -= least * (uint64_t)done;
  GPURED__N(load_row)(acc, lanes);
  GPURED__N(push_lanes)(GPURED__ADD, st->stack, st->count++, acc);
  return done;
}
#define GPURED__FEED_NARROW GPURED__N(feed_narrow)
#else
#define GPURED__FEED_NARROW NULL
#endif

#if GPURED__NV <= 2
/*
 * Sums of what lies in the first cache; farther away the hardware does not read ahead of so many
 * blocks. What is no whole number of them is left.
 */
GPURED__INLINE void GPURED__N(cached_fold)(int kernel, gpured__state *st, const GPURED__T *x,
                                           int64_t n) {
  enum { LEVEL = GPURED__NV == 1 ? 3 : 2 }; /* of a subtree of so many blocks */
  const int64_t step = GPURED__BESIDE * GPURED__BLOCK;
  GPURED__V acc[GPURED__BESIDE][GPURED__NV];
  for (; n >= step; n -= step, x += step, st->count += GPURED__BESIDE) {
    GPURED__N(next_beside)(kernel, acc, x);
    GPURED__N(push_lanes)(kernel, st->stack + LEVEL, st->count / GPURED__BESIDE, acc[0]);
  }
}

GPURED__COPIES(cached_fold, (gpured__state * st, const GPURED__T *x, int64_t n), st, x, n);

/* Not inlined, so that shorter sequences do not save its registers. */
GPURED__FUNC void GPURED__N(feed_cached)(int kernel, gpured__state *st, const GPURED__T *x,
                                         int64_t n) {
  GPURED__WITH_KERNEL(kernel, cached_fold, st, x, n);
}
#endif

#if GPURED__FLOAT && GPURED__NV <= 4
/* A minimum or a maximum of BLOCK elements or more, without lanes; 0 where it is not certain. */
GPURED__INLINE int GPURED__N(flat_extreme)(int kernel, const GPURED__T *x, int64_t n,
                                           GPURED__T *out) {
  const int plain = kernel == GPURED__MIN ? GPURED__MIN_PLAIN : GPURED__MAX_PLAIN;
  GPURED__T y[GPURED__W];
  int sure;
  const GPURED__V m = GPURED__N(quick_extreme)(kernel, x, n, GPURED__N(BY_STEPS), &sure);
  if (!sure) return 0;
  GPURED__N(store)(y, GPURED__N(fold_vector)(plain, m));
  *out = y[0];
  return y[0] != 0 || kernel == GPURED__MAX_ABS;
}
#endif

/* Reduce of n contiguous elements to one number, in one call. */
GPURED__INLINE void GPURED__N(flat_fold)(int kernel, const GPURED__T *x, int64_t n, int where,
                                         GPURED__T *out) {
  gpured__state st;
  GPURED__V acc[GPURED__NV];
  GPURED__T y[GPURED__W];
  int64_t done;
#if GPURED__FLOAT && GPURED__NV <= 4
  if (n >= GPURED__BLOCK && n * GPURED__ESIZE <= GPURED__CACHED &&
      (kernel == GPURED__MIN || kernel == GPURED__MAX || kernel == GPURED__MAX_ABS) &&
      GPURED__N(flat_extreme)(kernel, x, n, out))
    return;
#endif
  if (n <= GPURED__BLOCK) {
    GPURED__N(block)(kernel, acc, x, x, n, 0);
  } else {
    st.count = 0;
#if GPURED__NV <= 2
    if (where == GPURED__NEAR && n >= GPURED__BESIDE * GPURED__BLOCK && kernel != GPURED__MIN &&
        kernel != GPURED__MAX && kernel != GPURED__MAX_ABS)
      GPURED__N(feed_cached)(kernel, &st, x, n);
#endif
    done = st.count * GPURED__BLOCK;
    if (done < n)
      GPURED__WITH_KERNEL(kernel, feed_fold, &st, x + done, x + done, n - done,
                          where == GPURED__FAR);
    GPURED__N(close_lanes)(kernel, &st, acc);
  }
  GPURED__N(store)(y, GPURED__N(canonical)(GPURED__N(fold_row)(kernel, acc)));
  *out = y[0];
}

GPURED__COPIES(flat_fold, (const GPURED__T *x, int64_t n, int where, GPURED__T *out), x, n, where,
               out);

GPURED__FUNC void GPURED__N(flat)(int kernel, const void *x, int64_t n, int where, void *out) {
  if (where == GPURED__NEAR && n * GPURED__ESIZE > GPURED__CACHED) where = GPURED__ANYWHERE;
  if (n * GPURED__ESIZE >= GPURED__FROM_MEMORY) where = GPURED__FAR;
  GPURED__WITH_KERNEL(kernel, flat_fold, (const GPURED__T *)x, n, where, (GPURED__T *)out);
}

GPURED__COPIES(rows_fold,
               (const GPURED__T *x, int64_t stride, int64_t rows, int64_t n, int ask,
                GPURED__T *out),
               x, stride, rows, n, ask, out);

#define GPURED__PLAIN_ROWS (GPURED__FLOAT && GPURED__X86 && GPURED__WIDTH >= 32)
#if GPURED__PLAIN_ROWS
/* The extreme of a row that is known to be zero, with its sign (see zero_signs). */
GPURED__INLINE GPURED__T GPURED__N(row_zero)(int kernel, const GPURED__T *x, int64_t n) {
  const GPURED__UV sign = GPURED__CONST_U(GPURED__SIGN);
  const GPURED__T fill = GPURED__S(from_bits)(kernel == GPURED__MIN ? 0 : GPURED__SIGN);
  GPURED__UV u, found = GPURED__CONST_U(0);
  int64_t i;
  for (i = 0; i < n; i += GPURED__W) {
    u = GPURED__N(as_u)(GPURED__N(load_part)(x + i, (int)gpured__min_i64(GPURED__W, n - i), fill));
    found = found | ((kernel == GPURED__MIN ? u : ~u) & sign);
  }
  i = GPURED__N(any)((GPURED__N(mask))found);
  return GPURED__S(from_bits)(i == (kernel == GPURED__MIN) ? GPURED__SIGN : 0);
}

/*
 * Minima and maxima of rows of n <= 256 elements by the hardware's step alone, 256 rows at a time.
 * Rows whose result is zero are looked at again, for its sign. Returns how many rows it did before
 * one had a NaN, or before those were more than a sixteenth.
 */
GPURED__FUNC int64_t GPURED__N(rows_plain)(int kernel, const GPURED__T *x, int64_t stride,
                                           int64_t rows, int64_t n, int ask, GPURED__T *out) {
  const GPURED__V zero = GPURED__N(splat)(0);
  int64_t r, i, j, part, count, again = 0;
  for (r = 0; 16 * again <= r && r < rows && GPURED__N(watch)(); r += count, x += count * stride) {
    count = gpured__min_i64(GPURED__BLOCK, rows - r);
    if (kernel == GPURED__MIN)
      GPURED__OF(MIN_PLAIN, rows_fold, x, stride, count, n, ask, out + r);
    else
      GPURED__OF(MAX_PLAIN, rows_fold, x, stride, count, n, ask, out + r);
    if (!GPURED__N(no_nan)(GPURED__N(splat)(0))) break;
    for (i = 0; i < count; i += part) {
      part = gpured__min_i64(GPURED__W, count - i);
      if (!GPURED__N(any)(GPURED__N(load_part)(out + r + i, (int)part, 1) == zero)) continue;
      for (j = i; j < i + part; ++j) {
        if (out[r + j] != 0) continue;
        out[r + j] = GPURED__N(row_zero)(kernel, x + j * stride, n);
        ++again;
      }
    }
  }
  return r;
}
#endif

#if GPURED__APART
/* BESIDE rows of more than a block in turn, `stride` apart (see feed_apart). */
GPURED__INLINE void GPURED__N(rows_beside)(int kernel, const GPURED__T *x, int64_t stride,
                                           int64_t n, GPURED__T *out) {
  const int64_t blocks = n / GPURED__BLOCK, whole = blocks * GPURED__BLOCK;
  GPURED__V acc[GPURED__BESIDE][GPURED__NV];
  gpured__state st[GPURED__BESIDE];
  GPURED__T y[GPURED__W];
  int64_t i;
  int b;
  for (i = 0; i < blocks; ++i) {
    GPURED__N(blocks_beside)(kernel, acc, x + i * GPURED__BLOCK, x + i * GPURED__BLOCK, stride);
    GPURED__UNROLL
    for (b = 0; b < GPURED__BESIDE; ++b) GPURED__N(push_lanes)(kernel, st[b].stack, i, acc[b]);
  }
  for (b = 0; b < GPURED__BESIDE; ++b, x += stride) {
    st[b].count = blocks;
    if (whole < n) {
      GPURED__N(block)(kernel, acc[0], x + whole, x + whole, n - whole, 0);
      GPURED__N(push_lanes)(kernel, st[b].stack, st[b].count++, acc[0]);
    }
    GPURED__N(close_lanes)(kernel, &st[b], acc[0]);
    GPURED__N(store)(y, GPURED__N(canonical)(GPURED__N(fold_row)(kernel, acc[0])));
    out[b] = y[0];
  }
}

GPURED__COPIES(rows_beside, (const GPURED__T *x, int64_t stride, int64_t n, GPURED__T *out), x,
               stride, n, out);
#endif

/* Rows of at most a block. */
GPURED__INLINE void GPURED__N(rows_short)(int kernel, const GPURED__T *x, int64_t stride,
                                          int64_t rows, int64_t n, int ask, GPURED__T *out) {
  GPURED__WITH_KERNEL(kernel, rows_fold, x, stride, rows, n, ask, out);
}

/* Rows that are longer, each on its own, or whose operation has a way of its own. */
GPURED__FUNC void GPURED__N(rows_apart)(int kernel, const GPURED__T *x, int64_t stride,
                                        int64_t rows, int64_t n, int ask, GPURED__T *out) {
#if GPURED__FLOAT
  if (kernel == GPURED__LSE) {
    GPURED__N(rows_lse)(x, stride, rows, n, out);
    return;
  }
#endif
  if (n > GPURED__BLOCK) {
    const int where = ask ? GPURED__FAR : GPURED__ANYWHERE;
#if GPURED__APART
    const int adds = kernel == GPURED__ADD || kernel == GPURED__ADD_ABS ||
                     kernel == GPURED__ADD_SQUARE || kernel == GPURED__MUL;
    /* Shorter ones are over too soon, longer ones have places of their own. */
    const int suits = n >= 4 * GPURED__BLOCK && n < GPURED__APART_GROUP && adds;
    const int64_t beside = GPURED__N(goes_apart)(ask) && suits ? GPURED__BESIDE : INT64_MAX;
    for (; rows >= beside; rows -= beside, x += beside * stride, out += beside)
      GPURED__WITH_SUM(kernel, rows_beside, x, stride, n, out);
#endif
    for (; rows > 0; --rows, x += stride) GPURED__N(flat)(kernel, x, n, where, out++);
    return;
  }
#if GPURED__PLAIN_ROWS
  {
    const int64_t done = GPURED__N(rows_plain)(kernel, x, stride, rows, n, ask, out);
    x += done * stride, out += done, rows -= done;
  }
#endif
  if (rows > 0) GPURED__N(rows_short)(kernel, x, stride, rows, n, ask, out);
}

/* Rows of any length. */
GPURED__FUNC void GPURED__N(rows)(int kernel, const void *x, int64_t stride, int64_t rows,
                                  int64_t n, int ask, void *out) {
  const int plain = GPURED__PLAIN_ROWS && (kernel == GPURED__MIN || kernel == GPURED__MAX);
  const GPURED__T *from = (const GPURED__T *)x;
  GPURED__T *to = (GPURED__T *)out;
  if (n > GPURED__BLOCK || plain || (GPURED__FLOAT && kernel == GPURED__LSE))
    GPURED__N(rows_apart)(kernel, from, stride, rows, n, ask, to);
  else
    GPURED__N(rows_short)(kernel, from, stride, rows, n, ask, to);
}
#undef GPURED__PLAIN_ROWS

/* The value of a closed tree over n elements, by docs/ORDER.md section 3. Indices are in the node.
 */
GPURED__FUNC void GPURED__N(result)(int op, int kernel, const gpured__node *node, int64_t n,
                                    int ddof, void *out) {
  const GPURED__T *v = node->v.GPURED__TN;
  GPURED__T y = v[0];
  if (kernel < GPURED__ARG_MIN) y = GPURED__N(fold)(kernel, v);
#if GPURED__FLOAT
  switch (op) {
    case GPURED_MEAN:
      y = y / (GPURED__T)n;
      break;
    case GPURED_NORM2:
      y = GPURED__S(sqrt)(y);
      break;
    case GPURED_LOGSUMEXP:
      y = GPURED__S(isfinite)(y) ? y + GPURED__N(log)(v[1]) : y;
      break;
    case GPURED_VAR:
    case GPURED_STD:
      y = v[1] / (GPURED__T)(n > ddof ? n - ddof : 0);
      if (op == GPURED_STD) y = GPURED__S(sqrt)(y);
      break;
    default:
      break;
  }
#else
  (void)op;
  (void)n;
  (void)ddof;
#endif
  memcpy(out, &y, sizeof y);
}

/* ---- 10.6  Scan ---- */

/*
 * One text for two kinds of elements: numbers of the accumulator's type, with the groups of 16 in
 * vectors, and the pairs of logsumexp. What stands in for an element that does not exist changes no
 * bit of the other one, so the formulas need no cases.
 *
 * A block of 256 takes three steps: the scans of its groups, E_1 of each group, the results. In one
 * turn of the loop three neighbouring blocks take one step each, so that no step waits for another
 * and reading, computing and writing overlap.
 */
GPURED__INLINE GPURED__T GPURED__N(nothing)(int kernel) { return GPURED__N(neutral)(kernel); }

#else /* pairs, on the merge of the float pass of the same level */

GPURED__INLINE GPURED__T GPURED__N(combine_one)(int kernel, GPURED__T a, GPURED__T b) {
  (void)kernel;
  GPURED__M(merge_pair)(&a.m, &a.s, b.m, b.s);
  return a;
}

GPURED__INLINE GPURED__T GPURED__N(nothing)(int kernel) {
  GPURED__T none;
  (void)kernel;
  none.m = -GPURED__JOIN(gpured__infinity_, GPURED__MEMBER)();
  none.s = 0;
  return none;
}
#endif

#if GPURED__PASS < 100
/* Are there instructions for minima and maxima that know that -0 < +0? (Unoptimised, gcc's are
 * macros that its own warnings object to.) */
#if GPURED__X86 && GPURED__WIDTH == 64 && (defined(__OPTIMIZE__) || defined(__clang__))
#define GPURED__RANGE 1
#else
#define GPURED__RANGE 0
#endif

/* Two vectors combined, minima and maxima in fewer steps where that is possible. */
GPURED__INLINE GPURED__V GPURED__N(scan_combine)(int kernel, GPURED__V a, GPURED__V b) {
#if GPURED__RANGE && GPURED__PASS == 32 /* numbers win over NaN there */
  if (kernel == GPURED__MIN)
    return GPURED__N(if_number)(a, b, (GPURED__V)_mm512_range_ps((__m512)a, (__m512)b, 4));
  if (kernel == GPURED__MAX)
    return GPURED__N(if_number)(a, b, (GPURED__V)_mm512_range_ps((__m512)a, (__m512)b, 5));
#elif GPURED__RANGE && GPURED__PASS == 64
  if (kernel == GPURED__MIN)
    return GPURED__N(if_number)(a, b, (GPURED__V)_mm512_range_pd((__m512d)a, (__m512d)b, 4));
  if (kernel == GPURED__MAX)
    return GPURED__N(if_number)(a, b, (GPURED__V)_mm512_range_pd((__m512d)a, (__m512d)b, 5));
#elif GPURED__RANGE
  if (kernel == GPURED__MIN) return (GPURED__V)_mm512_min_epu64((__m512i)a, (__m512i)b);
  if (kernel == GPURED__MAX) return (GPURED__V)_mm512_max_epu64((__m512i)a, (__m512i)b);
#elif GPURED__PASS == 1 && GPURED__X86 && GPURED__WIDTH == 16
  /* No comparison of 64 bits here: is there a borrow in b - a? (What gcc makes of a > b takes the
   * vector apart, now and then through the MMX registers, and leaves those in use.) */
  const GPURED__V borrow = ((~b & a) | ((~b | a) & (b - a))) >> 63,
                  more = (borrow ^ borrow) - borrow;
  if (kernel == GPURED__MIN) return (b & more) | (a & ~more);
  if (kernel == GPURED__MAX) return (a & more) | (b & ~more);
#endif
  return GPURED__N(combine)(kernel, a, b);
}

/* A result as it is stored. Maxima have no NaN but the one that is stored, nor have minima that are
 * not made of maxima. */
GPURED__INLINE GPURED__V GPURED__N(scan_result)(int kernel, GPURED__V e, GPURED__V h) {
  const GPURED__V r = GPURED__N(scan_combine)(kernel, e, h);
  if (kernel == GPURED__MAX || (kernel == GPURED__MIN && GPURED__RANGE)) return r;
  return GPURED__N(canonical)(r);
}
#undef GPURED__RANGE
#endif

/* A block on its way: H_0, the totals of the groups (then H_1), and E_1 of the groups. */
typedef struct GPURED__N(scan_block) {
  GPURED__T h[GPURED__BLOCK], totals[GPURED__LANES], e[GPURED__LANES + 1];
} GPURED__ON_LINE GPURED__N(scan_block);

enum { GPURED__N(line) = 64 / sizeof(GPURED__T) };

#if GPURED__PASS < 100
/* Elements of a row of 16 one further up by `by`, `before` coming in from below. */
GPURED__INLINE GPURED__V GPURED__N(shifted)(int by, GPURED__V before, GPURED__V v) {
  GPURED__V out = v;
  switch (by) {
#if GPURED__X86 && GPURED__WIDTH == 64 /* one instruction, which gcc does not find */
#if GPURED__ESIZE == 4
#define GPURED__UP(by) (GPURED__V) _mm512_alignr_epi32((__m512i)v, (__m512i)before, 16 - (by))
#else
#define GPURED__UP(by) (GPURED__V) _mm512_alignr_epi64((__m512i)v, (__m512i)before, 8 - (by))
#endif
    case 1:
      out = GPURED__UP(1);
      break;
    case 2:
      out = GPURED__UP(2);
      break;
    case 4:
      out = GPURED__UP(4);
      break;
#if GPURED__ESIZE == 4
    case 8:
      out = GPURED__UP(8);
      break;
#endif
#undef GPURED__UP
#elif GPURED__WIDTH && GPURED__WIDTH / GPURED__ESIZE == 8
    case 1:
      GPURED__SHUFFLE(out, before, v, 7, 8, 9, 10, 11, 12, 13, 14);
      break;
    case 2:
      GPURED__SHUFFLE(out, before, v, 6, 7, 8, 9, 10, 11, 12, 13);
      break;
    case 4:
      GPURED__SHUFFLE(out, before, v, 4, 5, 6, 7, 8, 9, 10, 11);
      break;
#endif
#if GPURED__WIDTH && GPURED__WIDTH / GPURED__ESIZE == 4
    case 1:
      GPURED__SHUFFLE(out, before, v, 3, 4, 5, 6);
      break;
    case 2:
      GPURED__SHUFFLE(out, before, v, 2, 3, 4, 5);
      break;
#endif
#if GPURED__WIDTH && GPURED__WIDTH / GPURED__ESIZE == 2
    case 1:
      GPURED__SHUFFLE(out, before, v, 1, 2);
      break;
#endif
    default:
      break;
  }
  (void)before;
  return out;
}

/* Vector i of the row at x, one element further up; nothing comes in from below the row. */
GPURED__INLINE GPURED__V GPURED__N(load_up)(const GPURED__T *x, int i, GPURED__V none) {
  if (i > 0) return GPURED__N(load)(x + i * GPURED__W - 1);
#if GPURED__WIDTH
  return GPURED__N(shifted)(1, none, GPURED__N(load)(x));
#else
  return none;
#endif
}

/* The offset-doubling scan of one group, from the step that looks back by `first` on. */
GPURED__INLINE void GPURED__N(scan_doubling)(int kernel, int first, GPURED__V *v) {
  const GPURED__V none = GPURED__N(splat)(GPURED__N(nothing)(kernel));
  GPURED__V below;
  int o, i;
  GPURED__UNROLL
  for (o = first; o < GPURED__LANES; o *= 2) {
    GPURED__UNROLL
    for (i = GPURED__NV - 1; i >= o / GPURED__W; --i) {
      if (o >= GPURED__W)
        below = v[i - o / GPURED__W];
      else
        below = GPURED__N(shifted)(o, i > 0 ? v[i - 1] : none, v[i]);
      v[i] = GPURED__N(scan_combine)(kernel, below, v[i]);
    }
  }
}

/* All of it. Elements move up by one on their way from memory, where it costs nothing. */
GPURED__INLINE void GPURED__N(scan_vectors)(int kernel, const GPURED__T *x, GPURED__V *v) {
  const GPURED__V none = GPURED__N(splat)(GPURED__N(nothing)(kernel));
  int i;
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i)
    v[i] = GPURED__N(scan_combine)(kernel, GPURED__N(load_up)(x, i, none),
                                   GPURED__N(load)(x + i * GPURED__W));
  GPURED__N(scan_doubling)(kernel, 2, v);
}

/* That, to h, which may be x. */
GPURED__INLINE void GPURED__N(scan_group)(int kernel, const GPURED__T *x, GPURED__T *h) {
  GPURED__V v[GPURED__NV];
  GPURED__N(scan_vectors)(kernel, x, v);
  GPURED__N(store_row)(h, v);
}

/* The same for an incomplete group, in registers: what has just been stored in two vectors is not
 * loaded across them before it has reached the cache. */
GPURED__INLINE void GPURED__N(scan_part)(int kernel, const GPURED__T *x, int count, GPURED__T *h) {
  GPURED__V v[GPURED__NV];
  GPURED__N(part_row)(v, x, count, GPURED__N(nothing)(kernel));
  GPURED__N(scan_doubling)(kernel, 1, v);
  GPURED__N(store_row)(h, v);
}

/* The first `count` < 16 elements of a row. */
GPURED__INLINE void GPURED__N(cut_row)(GPURED__T *y, const GPURED__T *row, int count) {
#if GPURED__X86 && GPURED__WIDTH == 64 && GPURED__PASS == 32
  _mm512_mask_storeu_ps(y, (__mmask16)((1u << count) - 1), _mm512_loadu_ps(row));
#elif GPURED__X86 && GPURED__WIDTH == 64
  const unsigned mask = (1u << count) - 1;
  _mm512_mask_storeu_epi64(y, (__mmask8)(mask & 255), _mm512_loadu_si512(row));
  _mm512_mask_storeu_epi64(y + 8, (__mmask8)(mask >> 8), _mm512_loadu_si512(row + 8));
#else
  int i = count & 8;
  if (i) memcpy(y, row, 8 * sizeof *y);
  if (count & 4) memcpy(y + i, row + i, 4 * sizeof *y);
  i += count & 4;
  if (count & 2) memcpy(y + i, row + i, 2 * sizeof *y);
  i += count & 2;
  if (count & 1) y[i] = row[i];
#endif
}

/* y = e combined with each element of a group. */
GPURED__INLINE void GPURED__N(scan_join)(int kernel, GPURED__T e, const GPURED__T *h,
                                         GPURED__T *y) {
  const GPURED__V before = GPURED__N(splat)(e);
  int i;
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i) GPURED__N(store)
  (y + i * GPURED__W, GPURED__N(scan_result)(kernel, before, GPURED__N(load)(h + i * GPURED__W)));
}

/* Asks for what lies so many bytes beyond a row. Also where it will be stored: stores leave in
 * order, and one that waits for its line holds up those behind it (in the second cache of some
 * processors for half of the time). */
GPURED__INLINE void GPURED__N(ask_beyond)(const GPURED__T *row, uintptr_t bytes) {
  int i;
  GPURED__UNROLL
  for (i = 0; i < GPURED__LANES; i += GPURED__N(line))
    GPURED__PREFETCH((const void *)((uintptr_t)(row + i) + bytes));
}

/* Whole groups: the scan of each, and the value of `e` before each. */
GPURED__INLINE void GPURED__N(scan_each)(int kernel, const GPURED__T *x, int64_t groups,
                                         GPURED__T *h) {
  int64_t g;
  GPURED__UNROLL_4
  for (g = 0; g < groups; ++g)
    GPURED__N(scan_group)(kernel, x + g * GPURED__LANES, h + g * GPURED__LANES);
}

GPURED__INLINE void GPURED__N(join_each)(int kernel, const GPURED__T *e, const GPURED__T *h,
                                         int64_t groups, GPURED__T *y) {
  int64_t g;
  GPURED__UNROLL_4
  for (g = 0; g < groups; ++g, h += GPURED__LANES, y += GPURED__LANES) {
    GPURED__N(ask_beyond)(y, GPURED__STORE_AHEAD);
    GPURED__N(scan_join)(kernel, e[g], h, y);
  }
}

#if GPURED__FLOAT
/*
 * The same for the pairs of logsumexp, which lie in memory as m and s in turn. Nothing is -inf, 0.
 * These are functions: a merge is some 30 instructions.
 */
GPURED__INLINE void GPURED__N(load_pairs)(const GPURED__T *x, int count, GPURED__V *m,
                                          GPURED__V *s) {
  int i;
  GPURED__UNROLL
  for (i = 0; i < count; ++i, x += 2 * GPURED__W) GPURED__N(halves)
  (2, GPURED__N(load)(x), GPURED__N(load)(x + GPURED__W), m + i, s + i);
}

GPURED__INLINE void GPURED__N(store_pairs)(GPURED__T *x, int count, const GPURED__V *m,
                                           const GPURED__V *s) {
  GPURED__V a, b;
  int i;
  GPURED__UNROLL
  for (i = 0; i < count; ++i, x += 2 * GPURED__W) {
    GPURED__N(zip)(m[i], s[i], &a, &b);
    GPURED__N(store)(x, a);
    GPURED__N(store)(x + GPURED__W, b);
  }
}

GPURED__FUNC void GPURED__N(scan_pairs)(const void *in, int64_t groups, void *out) {
  const GPURED__T *x = (const GPURED__T *)in;
  GPURED__T *h = (GPURED__T *)out;
  const GPURED__V none = GPURED__N(splat)(-GPURED__S(infinity)()), zero = GPURED__N(splat)(0);
  GPURED__V m[GPURED__NV], s[GPURED__NV], below, sum;
  int o, i;
  for (; groups > 0; --groups, x += 2 * GPURED__LANES, h += 2 * GPURED__LANES) {
    GPURED__N(load_pairs)(x, GPURED__NV, m, s);
    GPURED__UNROLL
    for (o = 1; o < GPURED__LANES; o *= 2) {
      GPURED__UNROLL
      for (i = GPURED__NV - 1; i >= o / GPURED__W; --i) {
        if (o >= GPURED__W) {
          below = m[i - o / GPURED__W];
          sum = s[i - o / GPURED__W];
        } else {
          below = GPURED__N(shifted)(o, i > 0 ? m[i - 1] : none, m[i]);
          sum = GPURED__N(shifted)(o, i > 0 ? s[i - 1] : zero, s[i]);
        }
        GPURED__N(merge_vectors)(&below, &sum, m[i], s[i]);
        m[i] = below;
        s[i] = sum;
      }
    }
    GPURED__N(store_pairs)(h, GPURED__NV, m, s);
  }
}

/* A pair of `e` before each pair of a group. */
GPURED__FUNC void GPURED__N(precede_pairs)(const void *e, const void *in, int64_t groups,
                                           void *out) {
  const GPURED__T *first = (const GPURED__T *)e, *h = (const GPURED__T *)in;
  GPURED__T *y = (GPURED__T *)out;
  GPURED__V m[GPURED__NV], s[GPURED__NV], before, sum;
  int i;
  for (; groups > 0; --groups, first += 2, h += 2 * GPURED__LANES, y += 2 * GPURED__LANES) {
    GPURED__N(load_pairs)(h, GPURED__NV, m, s);
    GPURED__UNROLL
    for (i = 0; i < GPURED__NV; ++i) {
      before = GPURED__N(splat)(first[0]);
      sum = GPURED__N(splat)(first[1]);
      GPURED__N(merge_vectors)(&before, &sum, m[i], s[i]);
      m[i] = before;
      s[i] = sum;
    }
    GPURED__N(store_pairs)(y, GPURED__NV, m, s);
  }
}

/* The totals of 16 groups of pairs: see group_totals. */
GPURED__FUNC void GPURED__N(total_pairs)(const void *in, void *totals) {
  const GPURED__T *x = (const GPURED__T *)in;
  GPURED__T *y = (GPURED__T *)totals;
  GPURED__V m[GPURED__LANES], s[GPURED__LANES], later, sum;
  int i, k, count;
  for (i = 0; i < GPURED__NV; ++i, x += 2 * GPURED__LANES * GPURED__W, y += 2 * GPURED__W) {
    GPURED__N(load_pairs)(x, GPURED__LANES, m, s);
    for (count = GPURED__LANES / 2; count > 0; count /= 2)
      for (k = 0; k < count; ++k) {
        GPURED__N(halves)(2, m[2 * k], m[2 * k + 1], m + k, &later);
        GPURED__N(halves)(2, s[2 * k], s[2 * k + 1], s + k, &sum);
        GPURED__N(merge_vectors)(m + k, s + k, later, sum);
      }
    GPURED__N(store_pairs)(y, 1, m, s);
  }
}

/* What n pairs stand for. */
GPURED__FUNC void GPURED__N(value_pairs)(const void *in, void *out, int64_t n) {
  const GPURED__T *x = (const GPURED__T *)in;
  GPURED__T *y = (GPURED__T *)out, last[2 * GPURED__W] = {0};
  GPURED__V m, s;
  int64_t at, count;
  for (at = 0; at < n; at += GPURED__W, x += 2 * GPURED__W) {
    count = gpured__min_i64(n - at, GPURED__W);
    if (count < GPURED__W) x = (const GPURED__T *)memcpy(last, x, (size_t)count * 2 * sizeof *x);
    GPURED__N(load_pairs)(x, 1, &m, &s);
    m = GPURED__N(pair_value)(m, s);
    if (count == GPURED__W)
      GPURED__N(store)(y + at, m);
    else
      GPURED__N(store_part)(y + at, (int)count, m);
  }
}

/* n numbers as pairs. */
GPURED__FUNC void GPURED__N(make_pairs)(const void *in, void *out, int64_t n) {
  const GPURED__T *x = (const GPURED__T *)in;
  GPURED__T *y = (GPURED__T *)out;
  const GPURED__V one = GPURED__N(splat)(1);
  const int64_t whole = n - n % GPURED__W;
  GPURED__V m;
  int64_t i;
  for (i = 0; i < whole; i += GPURED__W, y += 2 * GPURED__W) {
    m = GPURED__N(load)(x + i);
    GPURED__N(store_pairs)(y, 1, &m, &one);
  }
  for (; i < n; ++i, y += 2) {
    y[0] = x[i];
    y[1] = 1;
  }
}
#endif
#else
GPURED__INLINE void GPURED__N(cut_row)(GPURED__T *y, const GPURED__T *row, int count) {
  int i;
  for (i = 0; i < count; ++i) y[i] = row[i];
}

GPURED__INLINE void GPURED__N(scan_group)(int kernel, const GPURED__T *x, GPURED__T *h) {
  (void)kernel;
  GPURED__M(scan_pairs)(x, 1, h);
}

GPURED__INLINE void GPURED__N(scan_part)(int kernel, const GPURED__T *x, int count, GPURED__T *h) {
  const GPURED__T none = GPURED__N(nothing)(kernel);
  GPURED__T row[GPURED__LANES];
  int i;
  for (i = 0; i < GPURED__LANES; ++i) row[i] = i < count ? x[i] : none;
  GPURED__N(scan_group)(kernel, row, h);
}

GPURED__INLINE void GPURED__N(scan_join)(int kernel, GPURED__T e, const GPURED__T *h,
                                         GPURED__T *y) {
  (void)kernel;
  GPURED__M(precede_pairs)(&e, h, 1, y);
}

GPURED__INLINE void GPURED__N(scan_each)(int kernel, const GPURED__T *x, int64_t groups,
                                         GPURED__T *h) {
  (void)kernel;
  GPURED__M(scan_pairs)(x, groups, h);
}

GPURED__INLINE void GPURED__N(join_each)(int kernel, const GPURED__T *e, const GPURED__T *h,
                                         int64_t groups, GPURED__T *y) {
  (void)kernel;
  GPURED__M(precede_pairs)(e, h, groups, y);
}
#endif

/* The totals of the first `whole` groups, from memory: cheaper than taking vectors apart. */
GPURED__INLINE void GPURED__N(scan_totals)(int kernel, int whole, GPURED__N(scan_block) * b) {
  int g;
  GPURED__UNROLL_4
  for (g = 0; g < whole; ++g) b->totals[g] = b->h[g * GPURED__LANES + GPURED__LANES - 1];
  for (; g < GPURED__LANES; ++g) b->totals[g] = GPURED__N(nothing)(kernel);
}

/* The first step of a block of n <= 256 elements. */
GPURED__INLINE void GPURED__N(scan_groups)(int kernel, const GPURED__T *x, int64_t n,
                                           GPURED__N(scan_block) * b) {
  const int64_t whole = n / GPURED__LANES, rest = n % GPURED__LANES;
  GPURED__N(scan_each)(kernel, x, whole, b->h);
  if (rest > 0) GPURED__N(scan_part)(kernel, x + n - rest, (int)rest, b->h + n - rest);
  GPURED__N(scan_totals)(kernel, (int)whole, b);
}

/* The second step, e2 being E_2 of the block. */
GPURED__INLINE void GPURED__N(scan_prefixes)(int kernel, GPURED__N(scan_block) * b, GPURED__T e2) {
  GPURED__N(scan_group)(kernel, b->totals, b->totals);
  b->e[0] = e2;
  GPURED__N(scan_join)(kernel, e2, b->totals, b->e + 1);
}

/* The last step: exactly n results. */
GPURED__INLINE void GPURED__N(scan_finish)(int kernel, GPURED__N(scan_block) * b, int64_t n,
                                           GPURED__T *y) {
  const int64_t whole = n / GPURED__LANES, rest = n % GPURED__LANES;
  GPURED__T end[GPURED__LANES];
  GPURED__N(join_each)(kernel, b->e, b->h, whole, y);
  if (rest == 0) return;
  GPURED__N(scan_join)(kernel, b->e[whole], b->h + n - rest, end);
  GPURED__N(cut_row)(y + n - rest, end, (int)rest);
}

/* Totals of equal pieces, level by level: `stage[s]` holds the values of the current group after s
 * steps of the doubling. */
typedef struct GPURED__N(level) {
  GPURED__T stage[5][GPURED__LANES];
  GPURED__T before; /* E of the next level for this group */
  int count;
} GPURED__N(level);

/* What one piece of a line leaves for the next one: the last inclusive result, and the totals from
 * those of blocks up. */
typedef struct GPURED__N(carry) {
  GPURED__T last;
  GPURED__N(level) levels[GPURED__CARRY_LEVELS];
} GPURED__N(carry);

/* The exclusive prefix of the next piece at the lowest level. */
GPURED__INLINE GPURED__T GPURED__N(level_prefix)(int kernel, const GPURED__N(level) * lv) {
  if (lv->count == 0) return lv->before;
  return GPURED__N(combine_one)(kernel, lv->before, lv->stage[4][lv->count - 1]);
}

/* Adds a total to a level; returns 1 when its group is complete (the group's total is then
 * stage[4][15]). */
GPURED__INLINE int GPURED__N(level_add)(int kernel, GPURED__N(level) * lv, GPURED__T total) {
  int p = lv->count++, s, o;
  GPURED__UNROLL_4
  for (s = 0, o = 1; s < 4; ++s, o *= 2) {
    lv->stage[s][p] = total;
    if (p >= o) total = GPURED__N(combine_one)(kernel, lv->stage[s][p - o], total);
  }
  lv->stage[4][p] = total;
  return lv->count == GPURED__LANES;
}

/* Adds the total of a block (level 0), of a tile (1), and so on; nothing is pending below. */
GPURED__INLINE void GPURED__N(carry_add)(int kernel, GPURED__N(carry) * c, int level,
                                         GPURED__T total) {
  GPURED__N(level) *lv = c->levels;
  int k = level;
  while (GPURED__N(level_add)(kernel, &lv[k], total)) {
    total = lv[k].stage[4][GPURED__LANES - 1];
    ++k;
  }
  for (; k > 0; --k) { /* completed levels begin a new group */
    lv[k - 1].before = GPURED__N(level_prefix)(kernel, &lv[k]);
    lv[k - 1].count = 0;
  }
}

/* The last element of a doubling scan is the adjacent-pair tree over its group: each round joins
 * neighbours, and four leave the totals of 16 groups (or of 16 blocks). Between the rounds of AVX2
 * elements lie where one instruction brings them, and the last one puts them in order. */
#if GPURED__PASS < 100
GPURED__INLINE GPURED__V GPURED__N(join_pairs)(int kernel, int round, GPURED__V a, GPURED__V b) {
#if GPURED__X86 && GPURED__WIDTH == 32
  const int across = GPURED__ESIZE == 4 ? round == 2 : round % 2 == 1; /* from half to half */
  __m256d even, odd;
  if (across) {
    even = _mm256_permute2f128_pd((__m256d)a, (__m256d)b, 0x20);
    odd = _mm256_permute2f128_pd((__m256d)a, (__m256d)b, 0x31);
  } else if (GPURED__ESIZE == 4) {
    even = (__m256d)_mm256_shuffle_ps((__m256)a, (__m256)b, 0x88);
    odd = (__m256d)_mm256_shuffle_ps((__m256)a, (__m256)b, 0xdd);
  } else {
    even = _mm256_unpacklo_pd((__m256d)a, (__m256d)b);
    odd = _mm256_unpackhi_pd((__m256d)a, (__m256d)b);
  }
  a = GPURED__N(scan_combine)(kernel, (GPURED__V)even, (GPURED__V)odd);
  if (GPURED__ESIZE == 4 && round == 3) a = (GPURED__V)_mm256_permute4x64_pd((__m256d)a, 0xd8);
  return a;
#else
  GPURED__V even, odd;
  (void)round;
  GPURED__N(halves)(2, a, b, &even, &odd);
  return GPURED__N(scan_combine)(kernel, even, odd);
#endif
}

GPURED__INLINE void GPURED__N(group_totals)(int kernel, const GPURED__T *x, GPURED__T *totals) {
  GPURED__V v[8];
  int i, k;
  for (i = 0; i < GPURED__NV; ++i, x += GPURED__LANES * GPURED__W) {
    GPURED__UNROLL
    for (k = 0; k < 8; ++k)
      v[k] = GPURED__N(join_pairs)(kernel, 0, GPURED__N(load)(x + 2 * k * GPURED__W),
                                   GPURED__N(load)(x + (2 * k + 1) * GPURED__W));
    GPURED__UNROLL
    for (k = 0; k < 4; ++k) v[k] = GPURED__N(join_pairs)(kernel, 1, v[2 * k], v[2 * k + 1]);
    v[0] = GPURED__N(join_pairs)(kernel, 2, v[0], v[1]);
    v[1] = GPURED__N(join_pairs)(kernel, 2, v[2], v[3]);
    GPURED__N(store)(totals + i * GPURED__W, GPURED__N(join_pairs)(kernel, 3, v[0], v[1]));
  }
}
#else
GPURED__INLINE void GPURED__N(group_totals)(int kernel, const GPURED__T *x, GPURED__T *totals) {
  (void)kernel;
  GPURED__M(total_pairs)(x, totals);
}
#endif

/* The first step of a whole block together with the last one of an earlier block: what one waits
 * for, the other does meanwhile. */
GPURED__INLINE void GPURED__N(scan_turn)(int kernel, const GPURED__T *x,
                                         GPURED__N(scan_block) * read,
                                         const GPURED__N(scan_block) * emit, GPURED__T *y) {
#if GPURED__PASS < 100
  int g;
  GPURED__UNROLL_4
  for (g = 0; g < GPURED__LANES; ++g, x += GPURED__LANES, y += GPURED__LANES) {
    GPURED__N(ask_beyond)(x, GPURED__SCAN_AHEAD);
    GPURED__N(ask_beyond)(y, GPURED__STORE_AHEAD);
    GPURED__N(scan_group)(kernel, x, read->h + g * GPURED__LANES);
    GPURED__N(scan_join)(kernel, emit->e[g], emit->h + g * GPURED__LANES, y);
  }
#else
  GPURED__N(scan_each)(kernel, x, GPURED__LANES, read->h);
  GPURED__N(join_each)(kernel, emit->e, emit->h, GPURED__LANES, y);
#endif
  GPURED__N(scan_totals)(kernel, GPURED__LANES, read);
}

/* The second step, which moves the carry behind the block. */
GPURED__INLINE void GPURED__N(scan_carry)(int kernel, GPURED__N(scan_block) * b,
                                          GPURED__N(carry) * c) {
  GPURED__N(scan_prefixes)(kernel, b, GPURED__N(level_prefix)(kernel, c->levels));
  GPURED__N(carry_add)(kernel, c, 0, b->totals[GPURED__LANES - 1]);
}

/* The end of a line, or of a piece: its last result is kept, and comes last or, if results are
 * exclusive, nowhere. */
GPURED__INLINE void GPURED__N(scan_end)(int kernel, unsigned how, GPURED__N(scan_block) * b,
                                        int64_t n, GPURED__N(carry) * c, GPURED__T *y) {
  const int64_t g = (n - 1) / GPURED__LANES, count = how & GPURED_SCAN_EXCLUSIVE ? n - 1 : n;
  GPURED__T last[GPURED__LANES];
  GPURED__N(scan_finish)(kernel, b, count, y);
  GPURED__N(scan_join)(kernel, b->e[g], b->h + g * GPURED__LANES, last);
  c->last = last[(n - 1) % GPURED__LANES];
}

/* From the block that is read to the one that is done. */
enum { GPURED__N(scan_behind) = 3 * GPURED__BLOCK };

/*
 * The scan of n elements that follow those in the carry; only the last ones of a line may be an
 * incomplete block. Exclusive results are the inclusive ones stored one further, which the block
 * behind does not mind: it has been read.
 */
GPURED__INLINE void GPURED__N(scan_near)(int kernel, unsigned how, const GPURED__T *x, GPURED__T *y,
                                         int64_t n, GPURED__N(carry) * c) {
  GPURED__N(scan_block)
  block[4], *read = block, *join = block + 1, *wait = block + 2, *emit = block + 3, *next;
  int64_t at, done;
  for (at = 0; at - GPURED__N(scan_behind) < n; at += GPURED__BLOCK) {
    done = at - GPURED__N(scan_behind);
    if (done >= 0 && n - at >= GPURED__BLOCK) {
      GPURED__N(scan_turn)(kernel, x + at, read, emit, y + done);
    } else {
      if (at < n)
        GPURED__N(scan_groups)(kernel, x + at, gpured__min_i64(n - at, GPURED__BLOCK), read);
      if (done >= 0 && n - done > GPURED__BLOCK)
        GPURED__N(scan_finish)(kernel, emit, GPURED__BLOCK, y + done);
      else if (done >= 0)
        GPURED__N(scan_end)(kernel, how, emit, n - done, c, y + done);
    }
    if (at > 0 && at - GPURED__BLOCK < n) GPURED__N(scan_carry)(kernel, join, c);
    if (at == GPURED__BLOCK && (how & GPURED_SCAN_EXCLUSIVE)) *y++ = c->last;
    next = emit, emit = wait, wait = join, join = read, read = next;
  }
}

#if GPURED__PASS < 100 && GPURED__X86 && GPURED__WIDTH > 16
/*
 * Past the caches. Stores to memory leave slowly and in order, and any other store waits for those
 * before it: so next to nothing else is stored here. The first step keeps the totals of the groups
 * alone, and the last one scans the groups again, from the first cache. Whole lines of memory
 * leave, both halves without a store between them: the end of `last`, the newest results, waits for
 * the next ones.
 */
enum { GPURED__N(line_vectors) = 64 / GPURED__WIDTH };
typedef struct GPURED__N(scan_flow) {
  GPURED__T *to; /* of the next line that leaves */
  GPURED__T *y;  /* of the first result */
  int shift;     /* how many of the newest results wait */
  GPURED__V last[GPURED__N(line_vectors)];
#if GPURED__WIDTH == 64
  __m512i from;
#elif GPURED__WIDTH == 32
  __m256i from, waits;
#endif
} GPURED__N(scan_flow);

/* From y on, where nothing before it may be written. */
GPURED__INLINE GPURED__N(scan_flow) GPURED__N(flow_start)(GPURED__T *y) {
  GPURED__N(scan_flow) f;
  int i;
  f.shift = (int)((uintptr_t)y % 64 / sizeof *y);
  f.to = (GPURED__T *)((uintptr_t)y / 64 * 64);
  for (i = 0; i < GPURED__N(line_vectors); ++i) f.last[i] = GPURED__N(splat)(0);
  f.y = y;
#if GPURED__WIDTH == 64
  f.from = _mm512_sub_epi32(
      _mm512_set_epi32(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16),
      _mm512_set1_epi32(f.shift * (GPURED__ESIZE / 4)));
#elif GPURED__WIDTH == 32
  f.from = _mm256_sub_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0),
                            _mm256_set1_epi32(f.shift % GPURED__W * (GPURED__ESIZE / 4)));
  f.waits = f.from; /* negative there */
#endif
  return f;
}

/* The newest of `older` that wait, and those of `newer` that do not. */
GPURED__INLINE GPURED__V GPURED__N(flow_pair)(const GPURED__N(scan_flow) * f, GPURED__V older,
                                              GPURED__V newer) {
#if GPURED__WIDTH == 64
  return (GPURED__V)_mm512_permutex2var_epi32((__m512i)older, f->from, (__m512i)newer);
#else
  const __m256i a = _mm256_permutevar8x32_epi32((__m256i)older, f->from),
                b = _mm256_permutevar8x32_epi32((__m256i)newer, f->from);
  return (GPURED__V)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)f->waits);
#endif
}

/* The vectors of a line, which leave one behind the other. */
GPURED__INLINE void GPURED__N(flow_line)(GPURED__N(scan_flow) * f, GPURED__T *to,
                                         const GPURED__V *v) {
#if GPURED__WIDTH == 64
  GPURED__N(stream)(to, GPURED__N(flow_pair)(f, f->last[0], v[0]));
  f->last[0] = v[0];
#else
  GPURED__V a = v[0], b = v[1];
  if (f->shift >= GPURED__W) {
    a = GPURED__N(flow_pair)(f, f->last[0], f->last[1]);
    b = GPURED__N(flow_pair)(f, f->last[1], v[0]);
  } else if (f->shift > 0) {
    a = GPURED__N(flow_pair)(f, f->last[1], v[0]);
    b = GPURED__N(flow_pair)(f, v[0], v[1]);
  }
  GPURED__N(stream)(to, a);
  GPURED__N(stream)(to + GPURED__W, b);
  f->last[0] = v[0], f->last[1] = v[1];
#endif
}

GPURED__INLINE void GPURED__N(flow_group)(int kernel, const GPURED__T *x, GPURED__T e,
                                          GPURED__N(scan_flow) * f) {
  const GPURED__V before = GPURED__N(splat)(e);
  GPURED__V v[GPURED__NV];
  int i;
  GPURED__N(scan_vectors)(kernel, x, v);
  GPURED__UNROLL
  for (i = 0; i < GPURED__NV; ++i) v[i] = GPURED__N(scan_result)(kernel, before, v[i]);
  if (f->to < f->y) {
    GPURED__N(store_row)(f->y, v);
    for (i = 0; i < GPURED__N(line_vectors); ++i)
      f->last[i] = v[GPURED__NV - GPURED__N(line_vectors) + i];
  } else {
    GPURED__UNROLL
    for (i = 0; i < GPURED__NV; i += GPURED__N(line_vectors))
      GPURED__N(flow_line)(f, f->to + i * GPURED__W, v + i);
  }
  f->to += GPURED__LANES;
}

/* The totals of the groups of a block at x (see group_totals), and between the steps to them the
 * results of an earlier block, at `done`: what one waits for, the other does meanwhile. Either may
 * be missing. What lies `ahead` bytes behind x is asked for, unless that is 0. */
GPURED__INLINE void GPURED__N(flow_turn)(int kernel, int64_t ahead, const GPURED__T *x,
                                         GPURED__T *totals, const GPURED__T *done,
                                         const GPURED__T *e, GPURED__N(scan_flow) * f) {
  GPURED__V v[4], a, b;
  int i, k, g;
  for (i = 0; i < 4 * GPURED__NV; ++i) {
    k = i % 4;
    if (x) {
      for (g = 0; ahead && g < 4 * GPURED__WIDTH; g += 64)
        GPURED__PREFETCH_FAR((const char *)x + g + ahead);
      a = GPURED__N(join_pairs)(kernel, 0, GPURED__N(load)(x), GPURED__N(load)(x + GPURED__W));
      x += 2 * GPURED__W;
      b = GPURED__N(join_pairs)(kernel, 0, GPURED__N(load)(x), GPURED__N(load)(x + GPURED__W));
      x += 2 * GPURED__W;
      v[k] = GPURED__N(join_pairs)(kernel, 1, a, b);
    }
    if (done) { /* as many groups as that was */
      GPURED__UNROLL_4
      for (g = 0; g < 4 / GPURED__NV; ++g, done += GPURED__LANES)
        GPURED__N(flow_group)(kernel, done, *e++, f);
    }
    if (!x || k < 3) continue;
    a = GPURED__N(join_pairs)(kernel, 2, v[0], v[1]);
    b = GPURED__N(join_pairs)(kernel, 2, v[2], v[3]);
    GPURED__N(store)(totals, GPURED__N(join_pairs)(kernel, 3, a, b));
    totals += GPURED__W;
  }
}

/* The last block goes through the caches. */
GPURED__INLINE void GPURED__N(scan_past)(int kernel, unsigned how, int64_t ahead,
                                         const GPURED__T *x, GPURED__T *y, int64_t n,
                                         GPURED__N(carry) * c) {
  GPURED__N(scan_block)
  block[4], *read = block, *join = block + 1, *wait = block + 2, *emit = block + 3, *next;
  GPURED__N(scan_flow) f;
  int64_t at, done;
  int whole, i;
  if (!(how & GPURED__SCAN_ASK)) ahead = 0;
  if (how & GPURED_SCAN_EXCLUSIVE) *y++ = c->last;
  f = GPURED__N(flow_start)(y);
  for (at = 0; at - GPURED__N(scan_behind) < n; at += GPURED__BLOCK) {
    done = at - GPURED__N(scan_behind);
    whole = n - at > GPURED__BLOCK;
    if (at < n && !whole) GPURED__N(scan_groups)(kernel, x + at, n - at, read);
    if (n - done > GPURED__BLOCK) {
      GPURED__N(flow_turn)
      (kernel, ahead, whole ? x + at : NULL, read->totals, done >= 0 ? x + done : NULL, emit->e,
       &f);
    } else {
      /* what has left already is not brought back */
      for (i = 0; f.shift > 0 && i < GPURED__N(line_vectors); ++i)
        GPURED__N(store)(y + done - (GPURED__N(line_vectors) - i) * GPURED__W, f.last[i]);
      GPURED__N(scan_end)(kernel, how, emit, n - done, c, y + done);
    }
    if (at > 0 && at - GPURED__BLOCK < n) GPURED__N(scan_carry)(kernel, join, c);
    next = emit, emit = wait, wait = join, join = read, read = next;
  }
  _mm_sfence(); /* other threads may look at what left */
}
#define GPURED__FLOWS 1
#else
#define GPURED__FLOWS 0
#endif

/* Lines of one group each. */
GPURED__INLINE void GPURED__N(scan_group_rows)(int kernel, int shift, const GPURED__T *x,
                                               int64_t x_step, GPURED__T *y, int64_t y_step,
                                               int64_t rows, int n, GPURED__T empty) {
  GPURED__T h[GPURED__LANES];
  const GPURED__T none = GPURED__N(nothing)(kernel);
  for (; rows > 0; --rows, x += x_step, y += y_step) {
    if (n < GPURED__LANES)
      GPURED__N(scan_part)(kernel, x, n, h);
    else
      GPURED__N(scan_group)(kernel, x, h);
    if (shift) *y = empty;
    if (n - shift < GPURED__LANES) {
      GPURED__N(scan_join)(kernel, none, h, h);
      GPURED__N(cut_row)(y + shift, h, n - shift);
    } else {
      GPURED__N(scan_join)(kernel, none, h, y);
    }
  }
}

/* Lines of n <= 256 elements each, which need no carry; four are under way, as blocks elsewhere. */
GPURED__INLINE void GPURED__N(scan_lines)(int kernel, unsigned how, const GPURED__T *x,
                                          int64_t x_step, GPURED__T *y, int64_t y_step,
                                          int64_t rows, int64_t n, GPURED__T empty) {
  const int shift = (how & GPURED_SCAN_EXCLUSIVE) != 0;
  GPURED__N(scan_block) block[4];
  int64_t r;
  if (n <= GPURED__LANES) {
    GPURED__N(scan_group_rows)(kernel, shift, x, x_step, y, y_step, rows, (int)n, empty);
    return;
  }
  for (r = 0; r < rows + 3; ++r) {
    if (r < rows) GPURED__N(scan_groups)(kernel, x + r * x_step, n, &block[r % 4]);
    if (r > 0 && r <= rows)
      GPURED__N(scan_prefixes)(kernel, &block[(r - 1) % 4], GPURED__N(nothing)(kernel));
    if (r < 3) continue;
    if (shift) y[(r - 3) * y_step] = empty;
    GPURED__N(scan_finish)(kernel, &block[(r - 3) % 4], n - shift, y + (r - 3) * y_step + shift);
  }
}

/* Of a whole tile: its total, and what its last result consists of besides what comes before the
 * tile (H_2, H_1 and H_0, each before its last step). */
GPURED__INLINE void GPURED__N(tile_total)(int kernel, const GPURED__T *x, GPURED__T *total) {
  GPURED__T groups[GPURED__BLOCK], blocks[GPURED__LANES];
  int b;
  for (b = 0; b < GPURED__LANES; ++b)
    GPURED__N(group_totals)(kernel, x + b * GPURED__BLOCK, groups + b * GPURED__LANES);
  GPURED__N(group_totals)(kernel, groups, blocks);
  GPURED__N(scan_group)(kernel, blocks, blocks);
  total[0] = blocks[GPURED__LANES - 1];
  total[1] = blocks[GPURED__LANES - 2];
  total[3] = groups[GPURED__BLOCK - 1];
  GPURED__N(scan_group)(kernel, groups + GPURED__BLOCK - GPURED__LANES, blocks);
  total[2] = blocks[GPURED__LANES - 2];
}

/* A copy for each operation, where vectors make it faster. GPURED__SCAN calls that of one. */
#if GPURED__PASS < 100 && GPURED__WIDTH > 0 && !GPURED__SPARING
#define GPURED__SCAN_COPIES(name, parameters, ...) \
  GPURED__COPY(ADD, name, parameters, __VA_ARGS__) \
  GPURED__COPY(MUL, name, parameters, __VA_ARGS__) \
  GPURED__COPY(MIN, name, parameters, __VA_ARGS__) \
  GPURED__COPY(MAX, name, parameters, __VA_ARGS__) \
  typedef int GPURED__N(name##_copies)
#define GPURED__SCAN(number, name, ...) GPURED__N(name##_##number)(__VA_ARGS__)
#define GPURED__WITH_SCAN(kernel, name, ...) \
  switch (kernel) {                          \
    GPURED__PICK(MUL, name, __VA_ARGS__);    \
    GPURED__PICK(MIN, name, __VA_ARGS__);    \
    GPURED__PICK(MAX, name, __VA_ARGS__);    \
    default:                                 \
      GPURED__SCAN(ADD, name, __VA_ARGS__);  \
  }
#else
#define GPURED__SCAN_COPIES(name, parameters, ...) typedef int GPURED__N(name##_copies)
#define GPURED__SCAN(number, name, ...) GPURED__N(name)(GPURED__##number, __VA_ARGS__)
#define GPURED__WITH_SCAN(kernel, name, ...) GPURED__N(name)(kernel, __VA_ARGS__)
#endif

#if GPURED__FLOWS
GPURED__SCAN_COPIES(scan_past,
                    (unsigned how, int64_t ahead, const GPURED__T *x, GPURED__T *y, int64_t n,
                     GPURED__N(carry) * c),
                    how, ahead, x, y, n, c);
#endif
GPURED__SCAN_COPIES(scan_near,
                    (unsigned how, const GPURED__T *x, GPURED__T *y, int64_t n,
                     GPURED__N(carry) * c),
                    how, x, y, n, c);

GPURED__FUNC void GPURED__N(scan_run)(int kernel, unsigned how, int64_t ahead, const void *in,
                                      void *out, int64_t n, void *carry) {
  const GPURED__T *x = (const GPURED__T *)in;
  GPURED__T *y = (GPURED__T *)out;
  GPURED__N(carry) *c = (GPURED__N(carry) *)carry;
#if GPURED__FLOWS
  const int past = (how & GPURED__SCAN_STREAM) && n > GPURED__STREAM_LEAST;
#if GPURED__WIDTH == 64
  if (past) {
    GPURED__WITH_SCAN(kernel, scan_past, how, ahead, x, y, n, c);
    return;
  }
#else /* minima and maxima take longer than the way through the caches */
  if (past && kernel == GPURED__ADD) {
    GPURED__SCAN(ADD, scan_past, how, ahead, x, y, n, c);
    return;
  }
  if (past && kernel == GPURED__MUL) {
    GPURED__SCAN(MUL, scan_past, how, ahead, x, y, n, c);
    return;
  }
#endif
#endif
  (void)ahead;
  GPURED__WITH_SCAN(kernel, scan_near, how, x, y, n, c);
}
#undef GPURED__FLOWS

GPURED__SCAN_COPIES(scan_lines,
                    (unsigned how, const GPURED__T *x, int64_t x_step, GPURED__T *y, int64_t y_step,
                     int64_t rows, int64_t n, GPURED__T empty),
                    how, x, x_step, y, y_step, rows, n, empty);

GPURED__FUNC void GPURED__N(scan_rows)(int kernel, unsigned how, const void *in, int64_t x_step,
                                       void *out, int64_t y_step, int64_t rows, int64_t n,
                                       const void *empty) {
  const GPURED__T *x = (const GPURED__T *)in;
  GPURED__T *y = (GPURED__T *)out, z;
  memcpy(&z, empty, sizeof z);
  GPURED__WITH_SCAN(kernel, scan_lines, how, x, x_step, y, y_step, rows, n, z);
}

GPURED__SCAN_COPIES(tile_total, (const GPURED__T *x, GPURED__T *total), x, total);

GPURED__FUNC void GPURED__N(scan_total)(int kernel, const void *in, void *total) {
  const GPURED__T *x = (const GPURED__T *)in;
  GPURED__T *t = (GPURED__T *)total;
  GPURED__WITH_SCAN(kernel, tile_total, x, t);
}

GPURED__FUNC void GPURED__N(scan_start)(int kernel, void *carry, const void *empty) {
  GPURED__N(carry) *c = (GPURED__N(carry) *)carry;
  int k;
  memcpy(&c->last, empty, sizeof c->last);
  for (k = 0; k < GPURED__CARRY_LEVELS; ++k) {
    c->levels[k].before = GPURED__N(nothing)(kernel);
    c->levels[k].count = 0;
  }
}

/* Moves the carry behind a whole piece of 16^level blocks, of which its total is known and what its
 * last result consists of. */
GPURED__FUNC void GPURED__N(scan_add)(int kernel, void *carry, int level, const void *totals) {
  const GPURED__T *t = (const GPURED__T *)totals;
  GPURED__N(carry) *c = (GPURED__N(carry) *)carry;
  GPURED__T h[GPURED__LANES], e = GPURED__N(level_prefix)(kernel, c->levels);
  int i;
  for (i = 1; i <= level + 1; ++i) e = GPURED__N(combine_one)(kernel, e, t[i]);
  for (i = 0; i < GPURED__LANES; ++i) h[i] = t[level + 2];
  GPURED__N(scan_join)(kernel, e, h, h);
  c->last = h[0];
  GPURED__N(carry_add)(kernel, c, level, t[0]);
}

#if GPURED__PASS < 100
/*
 * Lines side by side: a row is the same position in each of `width` of them. 16 rows are a group,
 * in one vector a row. Rows of slots: E_1 of the group, the last result, what is read beyond the
 * end; then for each level the 15 values the doubling looks back at, and E of the level above.
 */
GPURED__INLINE GPURED__T *GPURED__N(slot)(const gpured__scan_strip *st, int level, int slot) {
  return (GPURED__T *)st->slots + (3 + level * GPURED__LANES + slot) * st->pitch;
}

/* Adds the totals of a group in W columns; makes E_1 of the next one. */
GPURED__INLINE void GPURED__N(strip_add)(int kernel, const gpured__scan_strip *st, int64_t column,
                                         GPURED__V total) {
  GPURED__V sum = total, e;
  GPURED__T *at;
  int k, o, p;
  for (k = 0;; ++k) {
    p = st->count[k];
    for (o = 1; o < GPURED__LANES; o *= 2, total = sum) {
      at = GPURED__N(slot)(st, k, o - 1 + (p & (o - 1))) + column;
      if (p >= o) sum = GPURED__N(scan_combine)(kernel, GPURED__N(load)(at), total);
      GPURED__N(store)(at, total);
    }
    if (p < GPURED__LANES - 1) break;
  }
  e = GPURED__N(scan_combine)(
      kernel, GPURED__N(load)(GPURED__N(slot)(st, k, GPURED__LANES - 1) + column), sum);
  for (; k > 0; --k) GPURED__N(store)(GPURED__N(slot)(st, k - 1, GPURED__LANES - 1) + column, e);
  GPURED__N(store)((GPURED__T *)st->slots + column, e);
}

/* The results of one group in W columns, in place of its rows; returns its totals. */
GPURED__INLINE GPURED__V GPURED__N(strip_vectors)(int kernel, unsigned how,
                                                  const gpured__scan_strip *st, int64_t column,
                                                  GPURED__V *v) {
  GPURED__T *slots = (GPURED__T *)st->slots + column;
  const GPURED__V e = GPURED__N(load)(slots);
  GPURED__V last, total;
  int o, p;
  GPURED__UNROLL
  for (o = 1; o < GPURED__LANES; o *= 2) {
    GPURED__UNROLL
    for (p = GPURED__LANES - 1; p >= o; --p) v[p] = GPURED__N(scan_combine)(kernel, v[p - o], v[p]);
  }
  total = v[GPURED__LANES - 1];
  GPURED__UNROLL
  for (p = 0; p < GPURED__LANES; ++p) v[p] = GPURED__N(scan_result)(kernel, e, v[p]);
  if (how & GPURED_SCAN_EXCLUSIVE) {
    last = GPURED__N(load)(slots + st->pitch);
    GPURED__N(store)(slots + st->pitch, v[GPURED__LANES - 1]);
    GPURED__UNROLL
    for (p = GPURED__LANES - 1; p > 0; --p) v[p] = v[p - 1];
    v[0] = last;
  }
  return total;
}

/*
 * A line of memory (64 bytes, N elements) of each row is taken at a time. Rows that are a multiple
 * of some KiB apart share a few places of the first cache, which has lost a line before its second
 * vector is asked for, and what leaves past the caches has to be a whole line: with AVX2, whose
 * vectors are half of one, rows go through a block of lines. A row of the block is the line (at
 * PUT), and in front of it the line before. SSE2 and NEON take a vector of each row: with SSE2,
 * which is bound by instructions, the block was slower; with NEON it was not measured.
 */
#define GPURED__HALVES (GPURED__X86 && GPURED__WIDTH == 32)
#define GPURED__LINES_LEAVE (GPURED__X86 && GPURED__WIDTH >= 32)
enum {
  GPURED__N(strip_step) = GPURED__HALVES ? 64 / GPURED__ESIZE : GPURED__W,
  GPURED__N(strip_put) = GPURED__HALVES ? 64 / GPURED__ESIZE : 0,
  GPURED__N(strip_row) = GPURED__N(strip_put) + GPURED__N(strip_step)
};

/* Lines leave where rows begin beside one: that in which these results of the block begin, if all of
 * it is there. What the columns have of the lines at their ends is stored. */
#if GPURED__HALVES
GPURED__INLINE void GPURED__N(strip_leave)(GPURED__T *block, int64_t column, int last,
                                           GPURED__T *const *to, int64_t rows) {
  enum { N = GPURED__N(strip_step) };
  GPURED__T *y;
  int beside, p;
  for (p = 0; p < GPURED__LANES && p < rows; ++p, block += GPURED__N(strip_row)) {
    y = to[p] + column;
    beside = (int)((uintptr_t)y % 64 / sizeof *y);
    if (column > 0 || beside == 0) {
      GPURED__N(stream)(y - beside, GPURED__N(load)(block + N - beside));
      GPURED__N(stream)
      (y - beside + GPURED__W, GPURED__N(load)(block + N - beside + GPURED__W));
    } else {
      memcpy(y, block + N, (size_t)(N - beside) * sizeof *y);
    }
    if (last) memcpy(y + N - beside, block + 2 * N - beside, (size_t)beside * sizeof *y);
    GPURED__N(store)(block, GPURED__N(load)(block + N));
    GPURED__N(store)(block + GPURED__W, GPURED__N(load)(block + N + GPURED__W));
  }
}
#endif

/* A group in the next `width` columns, whole lines, from column `first` of the strip on. Rows lie so
 * many elements before the next ones of each. No store can change what is the function's own. */
GPURED__INLINE void GPURED__N(strip_lines)(int kernel, int past, unsigned how,
                                           const gpured__scan_strip *strip, int64_t first,
                                           int64_t width, const GPURED__T *const *in,
                                           GPURED__T *const *out, int64_t rows, int64_t ahead,
                                           int64_t behind) {
  enum { N = GPURED__N(strip_step), ROW = GPURED__N(strip_row), PUT = GPURED__N(strip_put) };
  const int ask = (how & GPURED__SCAN_STREAM) &&
                  ahead * GPURED__ESIZE <= (int64_t)GPURED__LANES * GPURED__ASK_ROWS;
  const gpured__scan_strip own = *strip, *st = &own;
  const GPURED__T *from[GPURED__LANES];
  GPURED__T block[(int)GPURED__LANES * (int)ROW] GPURED__ON_LINE, *to[GPURED__LANES];
  GPURED__V v[GPURED__LANES], total;
  int64_t c, stored;
  int i, p, ragged = 0;
  memcpy(from, in, sizeof from);
  memcpy(to, out, sizeof to);
  if (past && GPURED__HALVES)
    for (p = 0; p < GPURED__LANES; ++p) ragged |= (uintptr_t)to[p] % 64 > 0;
  stored = ragged ? 0 : rows;
  for (c = 0; c < width; c += N) {
    GPURED__UNROLL
    for (p = 0; p < GPURED__LANES; ++p) {
      if (how & GPURED__SCAN_ASK)
        GPURED__PREFETCH_FAR(from[p] + c + ahead);
      else if (ask)
        GPURED__PREFETCH(from[p] + c + ahead);
      else if (past && GPURED__HALVES)
        GPURED__PREFETCH(from[p] + c + 2 * N);
      if (ask && !GPURED__LINES_LEAVE) GPURED__PREFETCH(to[p] + c + behind);
      v[p] = GPURED__N(load)(from[p] + c);
      GPURED__UNROLL
      for (i = GPURED__W; i < N; i += GPURED__W)
        GPURED__N(store)(block + p * ROW + PUT + i, GPURED__N(load)(from[p] + c + i));
    }
    if (past && GPURED__HALVES) GPURED__IN_ORDER();
    GPURED__UNROLL
    for (i = 0; i < N; i += GPURED__W) {
      if (i > 0) {
        GPURED__UNROLL
        for (p = 0; p < GPURED__LANES; ++p) v[p] = GPURED__N(load)(block + p * ROW + PUT + i);
      }
      total = GPURED__N(strip_vectors)(kernel, how, st, first + c + i, v);
      if (i + GPURED__W < N && st->groups > 0)
        GPURED__N(strip_add)(kernel, st, first + c + i, total);
      if (ragged || i + GPURED__W < N) {
        GPURED__UNROLL
        for (p = 0; p < GPURED__LANES; ++p) GPURED__N(store)(block + p * ROW + PUT + i, v[p]);
      }
    }
#if GPURED__HALVES
    if (ragged) GPURED__N(strip_leave)(block, c, c + N >= width, to, rows);
#endif
    GPURED__UNROLL
    for (p = 0; p < GPURED__LANES; ++p) {
      if (p >= stored) break;
      GPURED__UNROLL
      for (i = 0; i < N; i += GPURED__W) {
        GPURED__V y = v[p];
        if (i + GPURED__W < N) y = GPURED__N(load)(block + p * ROW + PUT + i);
        if (GPURED__LINES_LEAVE && past)
          GPURED__N(stream)(to[p] + c + i, y);
        else
          GPURED__N(store)(to[p] + c + i, y);
      }
    }
    /* behind the results, which leave: with AVX-512 that is up to a tenth faster */
    if (st->groups > 0) GPURED__N(strip_add)(kernel, st, first + c + N - GPURED__W, total);
  }
}

GPURED__INLINE void GPURED__N(strip_near)(int kernel, unsigned how, const gpured__scan_strip *st,
                                          int64_t first, int64_t width,
                                          const GPURED__T *const *from, GPURED__T *const *to,
                                          int64_t rows, int64_t ahead, int64_t behind) {
  GPURED__N(strip_lines)(kernel, 0, how, st, first, width, from, to, rows, ahead, behind);
}
GPURED__SCAN_COPIES(strip_near,
                    (unsigned how, const gpured__scan_strip *st, int64_t first, int64_t width,
                     const GPURED__T *const *from, GPURED__T *const *to, int64_t rows,
                     int64_t ahead, int64_t behind),
                    how, st, first, width, from, to, rows, ahead, behind);

#if GPURED__LINES_LEAVE
GPURED__INLINE void GPURED__N(strip_past)(int kernel, unsigned how, const gpured__scan_strip *st,
                                          int64_t width, const GPURED__T *const *from,
                                          GPURED__T *const *to, int64_t rows, int64_t ahead) {
  GPURED__N(strip_lines)(kernel, 1, how, st, 0, width, from, to, rows, ahead, 0);
}
GPURED__SCAN_COPIES(strip_past,
                    (unsigned how, const gpured__scan_strip *st, int64_t width,
                     const GPURED__T *const *from, GPURED__T *const *to, int64_t rows,
                     int64_t ahead),
                    how, st, width, from, to, rows, ahead);
#endif

/* The same in the last columns, which are no whole line. */
GPURED__FUNC void GPURED__N(strip_rest)(int kernel, unsigned how, const gpured__scan_strip *st,
                                        const GPURED__T *const *from, GPURED__T *const *to,
                                        int64_t rows) {
  enum { N = 64 / GPURED__ESIZE };
  const int64_t first = st->columns / N * N;
  const int count = (int)(st->columns - first);
  const GPURED__T none = GPURED__N(nothing)(kernel), *x[GPURED__LANES];
  GPURED__T block[(int)GPURED__LANES * (int)N] GPURED__ON_LINE, *y[GPURED__LANES];
  int i, k, p;
  for (p = 0; p < GPURED__LANES; ++p) {
    x[p] = y[p] = block + p * N;
    for (i = 0; i < N; i += GPURED__W) {
      k = count - i < GPURED__W ? count - i : GPURED__W;
      GPURED__N(store)(y[p] + i, GPURED__N(load_part)(from[p] + (k > 0 ? first + i : 0), k, none));
    }
  }
  GPURED__WITH_SCAN(kernel, strip_near, how & GPURED_SCAN_EXCLUSIVE, st, first, N, x, y, rows, 0,
                    0);
  for (p = 0; p < GPURED__LANES && p < rows; ++p)
    memcpy(to[p] + first, y[p], (size_t)count * sizeof *y[p]);
}

/* Rows that follow those before; all but the last ones of the lines are whole groups. */
GPURED__FUNC void GPURED__N(strip_rows)(int kernel, unsigned how, gpured__scan_strip *st,
                                        const GPURED__T *x, int64_t x_step, GPURED__T *y,
                                        int64_t y_step, int64_t rows) {
  const int64_t ahead = GPURED__LANES * x_step, behind = GPURED__LANES * y_step;
  const int64_t n = 64 / GPURED__ESIZE, width = st->columns / n * n;
  const GPURED__T *from[GPURED__LANES], *none = (const GPURED__T *)st->slots + 2 * st->pitch;
  GPURED__T *to[GPURED__LANES];
  int p;
#if GPURED__LINES_LEAVE /* short rows that begin anywhere are mostly parts of lines: stored */
  const int parts = GPURED__HALVES && y_step % n != 0 && width < 5 * n;
  const int past = (how & GPURED__SCAN_STREAM) && !parts;
#endif
  for (; rows > 0; rows -= GPURED__LANES) {
    for (p = 0; p < GPURED__LANES; ++p, x += x_step, y += y_step) {
      from[p] = p < rows ? x : none;
      to[p] = y;
    }
    --st->groups;
#if GPURED__LINES_LEAVE
    if (past) {
      GPURED__WITH_SCAN(kernel, strip_past, how, st, width, from, to, rows, ahead);
    } else
#endif
    {
      GPURED__WITH_SCAN(kernel, strip_near, how, st, 0, width, from, to, rows, ahead, behind);
    }
    if (width < st->columns) GPURED__N(strip_rest)(kernel, how, st, from, to, rows);
    for (p = 0; p < st->levels && ++st->count[p] == GPURED__LANES; ++p) st->count[p] = 0;
  }
}

GPURED__FUNC void GPURED__N(scan_strip)(int kernel, unsigned how, gpured__scan_strip *st,
                                        const void *in, int64_t x_step, void *out, int64_t y_step,
                                        int64_t rows) {
  GPURED__N(strip_rows)
  (kernel, how, st, (const GPURED__T *)in, x_step, (GPURED__T *)out, y_step, rows);
#if GPURED__LINES_LEAVE
  if (how & GPURED__SCAN_STREAM) _mm_sfence();
#endif
}
#undef GPURED__LINES_LEAVE
#undef GPURED__HALVES

GPURED__FUNC void GPURED__N(scan_strip_start)(int kernel, gpured__scan_strip *st,
                                              const void *empty) {
  GPURED__T *slots = (GPURED__T *)st->slots, z;
  const GPURED__V none = GPURED__N(splat)(GPURED__N(nothing)(kernel));
  int64_t c;
  int k;
  memcpy(&z, empty, sizeof z);
  for (c = 0; c < st->width; c += GPURED__W) {
    GPURED__N(store)(slots + c, none);
    GPURED__N(store)(slots + st->pitch + c, GPURED__N(splat)(z));
    GPURED__N(store)(slots + 2 * st->pitch + c, none);
    for (k = 0; k < st->levels; ++k)
      GPURED__N(store)(GPURED__N(slot)(st, k, GPURED__LANES - 1) + c, none);
  }
  memset(st->count, 0, sizeof st->count);
}
#endif

#if GPURED__PASS < 100
/* ---- 10.7  GEMM-reduce ---- */

#define GPURED__MR GPURED__GEMM_MR
#define GPURED__END GPURED__GEMM_END
#define GPURED__RV GPURED__GEMM_RV
#define GPURED__NR (GPURED__RV * GPURED__W)

/* panel[k][NR] of `columns` columns: element (p, j) from src[p * step + j * across]; zeros where
 * there is no column. */
GPURED__FUNC void GPURED__N(gemm_pack)(const void *src, int64_t step, int64_t across,
                                       int64_t columns, int64_t k, void *panel) {
  const GPURED__T *x = (const GPURED__T *)src;
  GPURED__T *y = (GPURED__T *)panel;
  int64_t p, j, at, n;
  if (columns == GPURED__NR && across == 1) {
    for (p = 0; p < k; ++p) {
      for (j = 0; j < GPURED__NR; j += GPURED__W)
        GPURED__N(store)(y + p * GPURED__NR + j, GPURED__N(load)(x + p * step + j));
    }
    return;
  }
  for (at = 0; at < k; at += n) { /* few enough steps for the cache to hold them for all columns */
    n = gpured__min_i64(GPURED__LANES, k - at);
    for (j = 0; j < GPURED__NR; ++j) {
      for (p = at; p < at + n; ++p)
        y[p * GPURED__NR + j] = j < columns ? x[p * step + j * across] : 0;
    }
  }
}

/*
 * A register tile of `high` rows by NR columns: one broadcast of A and NR columns of B a step.
 * `rows` says that a_k is 1. No chain is ever split: with `resume` the accumulators come back from
 * the tile.
 */
GPURED__INLINE void GPURED__N(micro)(int high, int rows, int resume, GPURED__T *tile,
                                     const GPURED__T *a, int64_t a_row, int64_t a_k,
                                     const gpured__gemm_operands *o, int64_t number) {
  const GPURED__T *b = (const GPURED__T *)o->b;
  const int64_t k = o->k, b_k = o->b_k;
  const uintptr_t hop = (uintptr_t)o->hop[number & 1];
  uintptr_t ahead = o->ahead[number & 1] + (uintptr_t)(number / 2 * o->turn[number & 1]);
  GPURED__V acc[GPURED__MR][GPURED__RV], bv[GPURED__RV];
  int64_t p;
  int i, j;
  GPURED__UNROLL
  for (i = 0; i < high; ++i) {
    GPURED__UNROLL
    for (j = 0; j < GPURED__RV; ++j)
      acc[i][j] =
          resume ? GPURED__N(load)(tile + i * GPURED__NR + j * GPURED__W) : GPURED__N(splat)(0);
  }
  for (p = 0; p < k; ++p, b += b_k, ahead += hop) {
    GPURED__PREFETCH_FAR((const char *)ahead); /* a line more than once: a branch costs more */
    GPURED__UNROLL
    for (j = 0; j < GPURED__RV; ++j) bv[j] = GPURED__N(load)(b + j * GPURED__W);
    GPURED__UNROLL
    for (i = 0; i < high; ++i) {
      GPURED__V av = GPURED__N(splat)(rows ? a[i * a_row + p] : a[p * a_k + i]);
      GPURED__UNROLL
      for (j = 0; j < GPURED__RV; ++j) acc[i][j] = GPURED__N(fma)(av, bv[j], acc[i][j]);
    }
  }
  GPURED__UNROLL
  for (i = 0; i < high; ++i) {
    GPURED__UNROLL
    for (j = 0; j < GPURED__RV; ++j)
      GPURED__N(store)(tile + i * GPURED__NR + j * GPURED__W, acc[i][j]);
  }
}

/* tile[128][NR] over k steps for `rows` rows: register tiles of MR of them, then of END, where two
 * of those do better than one and a rest; that is copied to `spare` with zeros. */
GPURED__FUNC void GPURED__N(gemm_tile)(int resume, void *out, int64_t rows,
                                       const gpured__gemm_operands *o) {
  GPURED__T *tile = (GPURED__T *)out, *pad = (GPURED__T *)o->spare;
  const GPURED__T *a = (const GPURED__T *)o->a;
  const int64_t a_row = o->a_row, a_k = o->a_k, k = o->k, rest = rows % GPURED__MR;
  int64_t high = rows - rest, number = 0, i, r, p;
#if GPURED__GEMM_MR > GPURED__GEMM_END
  if (rest > 0 && rest + GPURED__MR <= 2 * GPURED__END && high > 0) high -= GPURED__MR;
#endif
  for (i = 0; i < high; i += GPURED__MR, tile += GPURED__MR * GPURED__NR, a += GPURED__MR * a_row) {
    if (a_k == 1)
      GPURED__N(micro)(GPURED__MR, 1, resume, tile, a, a_row, a_k, o, number++);
    else
      GPURED__N(micro)(GPURED__MR, 0, resume, tile, a, a_row, a_k, o, number++);
  }
#if GPURED__GEMM_MR > GPURED__GEMM_END
  for (; i + GPURED__END <= rows;
       i += GPURED__END, tile += GPURED__END * GPURED__NR, a += GPURED__END * a_row) {
    if (a_k == 1)
      GPURED__N(micro)(GPURED__END, 1, resume, tile, a, a_row, a_k, o, number++);
    else
      GPURED__N(micro)(GPURED__END, 0, resume, tile, a, a_row, a_k, o, number++);
  }
#endif
  if (i == rows) return;
  for (p = 0; p < k; ++p)
    for (r = 0; r < GPURED__END; ++r)
      pad[p * GPURED__END + r] = i + r < rows ? a[r * a_row + p * a_k] : 0;
  GPURED__N(micro)(GPURED__END, 0, resume, tile, pad, 1, GPURED__END, o, number);
}

/* alpha, biases and map, docs/ORDER.md section 7.2, in place: `first` is the bias that the fma
 * adds. */
GPURED__FUNC void GPURED__N(epilogue)(void *data, int64_t rows, const gpured__epilogue *ep,
                                      const void *row_bias, const void *column_bias) {
  int64_t i, j;
#if GPURED__FLOAT
  const GPURED__T *rb = (const GPURED__T *)row_bias, *cb = (const GPURED__T *)column_bias;
  const GPURED__V alpha = GPURED__N(splat)((GPURED__T)ep->alpha);
  for (i = 0; i < rows; ++i) {
    for (j = 0; j < GPURED__NR; j += GPURED__W) {
      GPURED__T *at = (GPURED__T *)data + i * GPURED__NR + j;
      GPURED__V t = GPURED__N(load)(at), row = GPURED__N(splat)(rb ? rb[i] : 0);
      GPURED__V column = cb ? GPURED__N(load)(cb + j) : row;
      int has_first = ep->rows_first ? rb != NULL : cb != NULL,
          has_second = ep->rows_first ? cb != NULL : rb != NULL;
      if (has_first)
        t = GPURED__N(fma)(alpha, t, ep->rows_first ? row : column);
      else if (ep->scaled)
        t = GPURED__N(mul)(alpha, t);
      if (has_second) t = t + (ep->rows_first ? column : row);
      if (ep->map == GPURED_MAP_SQUARE) t = GPURED__N(mul)(t, t);
      if (ep->map == GPURED_MAP_ABS) t = GPURED__N(abs)(t);
      GPURED__N(store)(at, t);
    }
  }
#else
  (void)row_bias;
  (void)column_bias;
  for (i = 0; i < rows * GPURED__NR; ++i) {
    uint64_t *at = (uint64_t *)data + i;
    j = (int64_t)*at;
    if (ep->map == GPURED_MAP_SQUARE) *at = *at * *at;
    if (ep->map == GPURED_MAP_ABS && ep->is_signed && j < 0) *at = 0u - *at;
  }
#endif
}

/* How a value enters a result: |v|, v * v, or biased for signed comparison. */
GPURED__INLINE GPURED__V GPURED__N(enter)(int how, GPURED__V v) {
#if !GPURED__FLOAT
  const GPURED__V sign = GPURED__N(splat)((uint64_t)1 << 63), zero = GPURED__N(splat)(0);
  if (how == GPURED__ABS) return GPURED__N(select)(v >= sign, zero - v, v);
  if (how == GPURED__BIAS) return v ^ sign;
#else
  if (how == GPURED__ABS) return GPURED__N(abs)(v);
#endif
  return how == GPURED__SQUARE ? GPURED__N(mul)(v, v) : v;
}

/* The fold by halving stride of one vector of columns: v[l] for 128 rows, absent ones neutral. */
GPURED__INLINE GPURED__V GPURED__N(fold_block)(int kernel, GPURED__V *v, int64_t rows) {
  int h, l;
  for (l = (int)rows; l < GPURED__GEMM_BLOCK; ++l)
    v[l] = GPURED__N(splat)(GPURED__N(neutral)(kernel));
  for (h = GPURED__GEMM_BLOCK / 2; h > 0; h /= 2)
    for (l = 0; l < h; ++l) v[l] = GPURED__N(combine)(kernel, v[l], v[l + h]);
  return v[0];
}

/* The best of each column and its row. */
GPURED__INLINE void GPURED__N(arg_block)(int kernel, const GPURED__V *v, int64_t rows,
                                         GPURED__V *value, GPURED__U *index) {
  GPURED__V best = v[0];
  GPURED__UV at = GPURED__N(as_u)(GPURED__N(splat)(0));
  int64_t l;
  for (l = 1; l < rows; ++l) GPURED__N(arg_step)(kernel, v[l], (GPURED__U)l, &best, &at);
  *value = best;
  memcpy(index, &at, sizeof at);
}

#if GPURED__FLOAT
/* The pair (m, s) of each column, section 7.3; v is used up. */
GPURED__INLINE GPURED__V GPURED__N(pair_block)(GPURED__V *v, int64_t rows, GPURED__V *sum) {
  GPURED__V m = GPURED__N(largest_of_block)(v, rows), s;
  const GPURED__V zero = GPURED__N(splat)(0);
  int64_t l;
  for (l = 0; l < rows; ++l) v[l] = GPURED__N(exp)(v[l] - m);
  s = GPURED__N(fold_block)(GPURED__ADD, v, rows);
  *sum = GPURED__N(select)(m - m == zero, s, GPURED__N(splat)(1)); /* 1 where m is not finite */
  return m;
}

/* Pairs of n columns merged, the first the earlier: section 4. */
GPURED__INLINE void GPURED__N(merge_columns)(GPURED__T *m1, GPURED__T *s1, const GPURED__T *m2,
                                             const GPURED__T *s2, int64_t n) {
  int64_t i;
  for (i = 0; i < n; i += GPURED__W) {
    GPURED__V m = GPURED__N(load)(m1 + i), sum = GPURED__N(load)(s1 + i);
    GPURED__N(merge_vectors)(&m, &sum, GPURED__N(load)(m2 + i), GPURED__N(load)(s2 + i));
    GPURED__N(store)(m1 + i, m);
    GPURED__N(store)(s1 + i, sum);
  }
}
#endif

/* One block of rows of NR columns for one result: values to first[NR]; sums of logsumexp, or row
 * numbers, to second[NR]. */
GPURED__INLINE void GPURED__N(columns_of_block)(int kernel, int how, const GPURED__T *tile,
                                                int64_t rows, GPURED__T *first, GPURED__T *second) {
  GPURED__V v[GPURED__GEMM_BLOCK], value, sum;
  int64_t i, j;
  for (j = 0; j < GPURED__NR; j += GPURED__W) {
    for (i = 0; i < rows; ++i)
      v[i] = GPURED__N(enter)(how, GPURED__N(load)(tile + i * GPURED__NR + j));
    if (kernel == GPURED__ARG_MIN || kernel == GPURED__ARG_MAX) {
      GPURED__N(arg_block)(kernel, v, rows, &value, (GPURED__U *)(void *)(second + j));
#if GPURED__FLOAT
    } else if (kernel == GPURED__LSE) {
      value = GPURED__N(pair_block)(v, rows, &sum);
      GPURED__N(store)(second + j, sum);
#endif
    } else {
      value = GPURED__N(fold_block)(GPURED__ADD, v, rows);
    }
    GPURED__N(store)(first + j, value);
  }
  (void)sum;
}

/* The extreme of one vector of columns, straight from the tile in four chains, by the fast step
 * where it is certain (see quick_lanes). */
GPURED__INLINE GPURED__V GPURED__N(extreme_columns)(int kernel, int how, const GPURED__T *x,
                                                    int64_t rows) {
  GPURED__V m[4], v;
  int64_t l = 4;
  int i;
#if GPURED__FLOAT
  GPURED__V s[4];
  GPURED__UNROLL
  for (i = 0; i < 4; ++i) {
    v = GPURED__N(enter)(how, GPURED__N(load)(x + (i < rows ? i : 0) * GPURED__NR));
    s[i] = v;
    m[i] = kernel == GPURED__MIN ? GPURED__N(neg)(v) : v;
  }
  for (; l < rows; l += 4) {
    if (l + 4 > rows) l = rows - 4; /* some rows twice */
    GPURED__UNROLL
    for (i = 0; i < 4; ++i) {
      v = GPURED__N(enter)(how, GPURED__N(load)(x + (l + i) * GPURED__NR));
      s[i] = s[i] + v;
      m[i] = GPURED__N(max_plain)(m[i], kernel == GPURED__MIN ? GPURED__N(neg)(v) : v);
    }
  }
  m[0] = GPURED__N(max_plain)(GPURED__N(max_plain)(m[0], m[1]), GPURED__N(max_plain)(m[2], m[3]));
  s[0] = (s[0] + s[1]) + (s[2] + s[3]);
  if (!GPURED__N(any)((s[0] != s[0]) | (m[0] == 0)))
    return kernel == GPURED__MIN ? GPURED__N(neg)(m[0]) : m[0];
#else
  (void)i;
#endif
  m[0] = GPURED__N(enter)(how, GPURED__N(load)(x));
  for (l = 1; l < rows; ++l) {
    v = GPURED__N(enter)(how, GPURED__N(load)(x + l * GPURED__NR));
    m[0] = GPURED__N(combine)(kernel, m[0], v);
  }
  return m[0];
}

/* columns_of_block for min and max; nearly always the values enter as they are. */
GPURED__INLINE void GPURED__N(extremes_of_block)(int kernel, int how, const GPURED__T *tile,
                                                 int64_t rows, GPURED__T *first) {
  int64_t j;
  if (how == GPURED__PLAIN) {
    for (j = 0; j < GPURED__NR; j += GPURED__W) GPURED__N(store)
    (first + j, GPURED__N(extreme_columns)(kernel, GPURED__PLAIN, tile + j, rows));
  } else {
    for (j = 0; j < GPURED__NR; j += GPURED__W)
      GPURED__N(store)(first + j, GPURED__N(extreme_columns)(kernel, how, tile + j, rows));
  }
}

GPURED__FUNC void GPURED__N(gemm_columns)(int kernel, int how, const void *data, int64_t rows,
                                          void *first, void *second) {
  const GPURED__T *tile = (const GPURED__T *)data;
  GPURED__T *a = (GPURED__T *)first, *b = (GPURED__T *)second;
  switch (kernel) {
    case GPURED__MIN:
      GPURED__N(extremes_of_block)(GPURED__MIN, how, tile, rows, a);
      break;
    case GPURED__MAX:
      GPURED__N(extremes_of_block)(GPURED__MAX, how, tile, rows, a);
      break;
    case GPURED__ARG_MIN:
      GPURED__N(columns_of_block)(GPURED__ARG_MIN, how, tile, rows, a, b);
      break;
    case GPURED__ARG_MAX:
      GPURED__N(columns_of_block)(GPURED__ARG_MAX, how, tile, rows, a, b);
      break;
#if GPURED__FLOAT
    case GPURED__LSE:
      GPURED__N(columns_of_block)(GPURED__LSE, how, tile, rows, a, b);
      break;
#endif
    default:
      GPURED__N(columns_of_block)(GPURED__ADD, how, tile, rows, a, b);
  }
}

/* Blocks of arg results combined in their order into first[0 .. NR) and index[0 .. NR). */
GPURED__INLINE void GPURED__N(join_args)(int kernel, GPURED__T *first, const GPURED__T *second,
                                         int64_t blocks, int64_t *index) {
  GPURED__U row;
  int64_t b, j;
  for (b = 0; b < blocks; ++b) {
    for (j = 0; j < GPURED__NR; ++j) {
      if (b > 0 && !GPURED__N(beats)(kernel, first[b * GPURED__NR + j], first[j])) continue;
      first[j] = first[b * GPURED__NR + j];
      memcpy(&row, &second[b * GPURED__NR + j], sizeof row);
      index[j] = b * GPURED__GEMM_BLOCK + (int64_t)row;
    }
  }
}

/*
 * All blocks of a panel combined: first[blocks][NR] (and second) to values in first[0 .. NR),
 * indices to `index`. Pairs merge in the adjacent-pair tree in place; sums and extremes are a
 * Reduce down the columns.
 */
GPURED__FUNC void GPURED__N(gemm_join)(int op, int kernel, void *data, void *more, int64_t blocks,
                                       int64_t n, void *slots, int64_t *index) {
  GPURED__T *first = (GPURED__T *)data, *second = (GPURED__T *)more, *to;
  gpured__strip st = gpured__strip_begin(slots, GPURED__NR, gpured__gemm_levels(blocks));
  int64_t b, step;
  if (kernel == GPURED__ARG_MIN || kernel == GPURED__ARG_MAX) {
    GPURED__N(join_args)(kernel, first, second, blocks, index);
    return;
  }
#if GPURED__FLOAT
  if (kernel == GPURED__LSE) {
    for (step = 1; step < blocks; step *= 2)
      for (b = 0; b + step < blocks; b += 2 * step) GPURED__N(merge_columns)
    (first + b * GPURED__NR, second + b * GPURED__NR, first + (b + step) * GPURED__NR,
     second + (b + step) * GPURED__NR, GPURED__NR);
    for (b = 0; b < GPURED__NR; ++b)
      if (GPURED__S(isfinite)(first[b])) first[b] = first[b] + GPURED__N(log)(second[b]);
    return;
  }
#endif
  (void)b, (void)step, (void)second, (void)to;
  if (kernel == GPURED__MIN || kernel == GPURED__MAX) {
    for (b = GPURED__GEMM_BLOCK; b < blocks; ++b) {
      to = first + b % GPURED__GEMM_BLOCK * GPURED__NR;
      GPURED__N(combine_arrays)(kernel, to, to, first + b * GPURED__NR, GPURED__NR);
    }
    blocks = gpured__min_i64(blocks, GPURED__GEMM_BLOCK);
    GPURED__N(gemm_columns)(kernel, GPURED__PLAIN, first, blocks, first, second);
    return;
  }
  if (blocks == 1) {
    GPURED__N(finish)(op, first, GPURED__NR, n);
    return;
  }
  GPURED__N(columns)(kernel, &st, first, GPURED__NR, NULL, blocks);
  GPURED__N(columns_close)(kernel, &st);
  GPURED__N(columns_fold)(kernel, slots, GPURED__NR);
  GPURED__N(finish)(op, slots, GPURED__NR, n);
  memcpy(first, slots, GPURED__NR * sizeof *first);
}
#undef GPURED__MR
#undef GPURED__END
#undef GPURED__RV
#undef GPURED__NR

/* One vector of columns for `count` rows of a lane, `step` apart, with their weights (Dot); n of
 * its elements exist. With `start` they are the first rows of the lane. */
GPURED__INLINE void GPURED__N(lane_vector)(int kernel, int start, int count, int64_t n,
                                           GPURED__T *acc, const GPURED__T *x, int64_t step,
                                           const GPURED__V *w) {
  GPURED__V v = GPURED__N(splat)(0), xv = v;
  int i;
  if (!start) v = GPURED__N(load)(acc);
  GPURED__UNROLL
  for (i = 0; i < count; ++i) {
    memcpy(&xv, x + i * step, (size_t)n * sizeof *x);
    v = start && i == 0 ? GPURED__N(first)(kernel, xv, w[i]) : GPURED__N(step)(kernel, v, xv, w[i]);
  }
  GPURED__N(store)(acc, v);
}

GPURED__INLINE void GPURED__N(lane_rows)(int kernel, int start, int count, GPURED__T *acc,
                                         const GPURED__T *x, int64_t step, const GPURED__T *w,
                                         int64_t columns) {
  GPURED__V wv[GPURED__LANES];
  int64_t c;
  int i;
  GPURED__UNROLL
  for (i = 0; i < count; ++i)
    wv[i] = GPURED__N(splat)(kernel == GPURED__DOT ? w[i * GPURED__LANES] : 1);
  for (c = 0; c + 4 * GPURED__W <= columns; c += 4 * GPURED__W) {
    if (count == 1) { /* in the order of addresses, on into the next item */
      GPURED__UNROLL
      for (i = 0; i < 4 * GPURED__W * GPURED__ESIZE; i += 64)
        GPURED__PREFETCH((const char *)(x + c) + i + GPURED__FAR_AHEAD);
    }
    GPURED__UNROLL
    for (i = 0; i < 4; ++i) GPURED__N(lane_vector)
    (kernel, start, count, GPURED__W, acc + c + i * GPURED__W, x + c + i * GPURED__W, step, wv);
  }
  for (; c + GPURED__W <= columns; c += GPURED__W)
    GPURED__N(lane_vector)(kernel, start, count, GPURED__W, acc + c, x + c, step, wv);
  if (c < columns)
    GPURED__N(lane_vector)(kernel, start, count, columns - c, acc + c, x + c, step, wv);
}

/*
 * The lanes of a block of n <= 256 rows: acc[lane][pitch]. Long rows are read in 16 streams, each
 * lane whole, so that accumulators stay in registers; short ones in the order of their addresses,
 * because a stream would be over before the hardware sees it.
 */
GPURED__INLINE void GPURED__N(lanes_of_block)(int kernel, GPURED__T *acc, const GPURED__T *x,
                                              int64_t stride, const GPURED__T *w, int64_t n,
                                              int64_t columns, int64_t pitch) {
  const int64_t step = GPURED__LANES * stride;
  int64_t l, r = 0;
  if (kernel == GPURED__ADD && stride == pitch && columns == pitch &&
      columns * GPURED__ESIZE <= 1024) {
    for (; r < n; r += l) { /* rows that touch are one long row */
      l = gpured__min_i64(GPURED__LANES, n - r);
      if (r == 0)
        GPURED__N(lane_rows)(kernel, 1, 1, acc, x, step, w, l * columns);
      else
        GPURED__N(lane_rows)(kernel, 0, 1, acc, x + r * stride, step, w, l * columns);
    }
  } else if (columns * GPURED__ESIZE <= 1024) {
    for (; r < n && r < GPURED__LANES; ++r)
      GPURED__N(lane_rows)(kernel, 1, 1, acc + r * pitch, x + r * stride, step, w + r, columns);
    for (; r < n; ++r) GPURED__N(lane_rows)
    (kernel, 0, 1, acc + r % GPURED__LANES * pitch, x + r * stride, step, w + r, columns);
  } else {
    for (l = 0; l < n && l < GPURED__LANES; ++l, acc += pitch) {
      r = l;
      if (n == GPURED__BLOCK) {
        GPURED__N(lane_rows)
        (kernel, 1, GPURED__LANES, acc, x + r * stride, step, w + r, columns);
        continue;
      }
      for (; r + 3 * GPURED__LANES < n; r += 4 * GPURED__LANES)
        GPURED__N(lane_rows)(kernel, r == l, 4, acc, x + r * stride, step, w + r, columns);
      for (; r < n; r += GPURED__LANES)
        GPURED__N(lane_rows)(kernel, r == l, 1, acc, x + r * stride, step, w + r, columns);
    }
    acc -= l * pitch;
  }
  for (r = n * pitch; r < GPURED__LANES * pitch; ++r) acc[r] = GPURED__N(neutral)(GPURED__ADD);
}

GPURED__INLINE void GPURED__N(sums_inline)(int kernel, GPURED__T *slots, const GPURED__T *x,
                                           int64_t stride, const GPURED__T *w, int64_t n,
                                           int64_t columns) {
  const int64_t pitch = gpured__ceil_div(columns, GPURED__W) * GPURED__W;
  gpured__strip st = gpured__strip_begin(slots, pitch, gpured__gemm_levels(n));
  int64_t len;
  for (; n > 0; n -= len, x += len * stride, w += kernel == GPURED__DOT ? len : 0) {
    len = gpured__min_i64(n, GPURED__BLOCK);
    GPURED__N(lanes_of_block)
    (kernel, GPURED__N(columns_block)(&st), x, stride, w, len, columns, pitch);
    GPURED__N(columns_push)(GPURED__ADD, &st);
  }
  GPURED__N(columns_close)(GPURED__ADD, &st);
  GPURED__N(fold_columns)(GPURED__ADD, slots, pitch);
}

/* The sum, or with weights the Dot, of n > 0 rows of columns that lie side by side, to the first
 * of levels + 1 slots of [16][columns, rounded up to vectors]. */
GPURED__FUNC void GPURED__N(gemm_sums)(const void *data, int64_t stride, const void *weight,
                                       int64_t n, int64_t columns, void *slots) {
  const GPURED__T *x = (const GPURED__T *)data, *w = (const GPURED__T *)weight;
  gpured__strip st = gpured__strip_begin(slots, columns, gpured__gemm_levels(n));
  GPURED__T *out = (GPURED__T *)slots;
  if (GPURED__N(goes_by_lane)(n, columns)) {
    GPURED__N(columns)(w ? GPURED__DOT : GPURED__ADD, &st, x, stride, w, n);
    GPURED__N(columns_close)(GPURED__ADD, &st);
    GPURED__N(columns_fold)(GPURED__ADD, slots, columns);
  } else if (w)
    GPURED__N(sums_inline)(GPURED__DOT, out, x, stride, w, n, columns);
  else
    GPURED__N(sums_inline)(GPURED__ADD, out, x, stride, x, n, columns);
}

/* ---- 10.8  Elements in and out ---- */

#define GPURED__FETCH(TYPE, VALUE)                                    \
  do {                                                                \
    const TYPE *p = (const TYPE *)src;                                \
    for (i = 0; i < n; ++i, p += stride) dst[i] = (GPURED__T)(VALUE); \
  } while (0)

#if GPURED__LOADS_NARROW
/* Contiguous narrower floats, a vector at a time; returns how many were converted. */
GPURED__INLINE int64_t GPURED__N(fetch_narrow)(GPURED__T *dst, const char *src, int size, int half,
                                               int64_t ahead, int64_t n) {
  int64_t i = 0;
  GPURED__UNROLL_4
  for (; i + GPURED__W <= n; i += GPURED__W) {
    if (GPURED__PASS == 64 || GPURED__ASKS) /* see there */
      GPURED__PREFETCH(src + i * size + ahead);
    GPURED__N(store)(dst + i, GPURED__N(load_narrow)(src + i * size, half));
  }
  return i;
}
#endif

#if GPURED__WIDTH != 0 && GPURED__FLOAT
/* Contiguous elements of another type, a vector at a time. */
#define GPURED__WIDEN(TYPE)                                                       \
  do {                                                                            \
    typedef TYPE narrow __attribute__((vector_size(GPURED__W * sizeof(TYPE))));   \
    for (; done + GPURED__W <= n; done += GPURED__W) {                            \
      narrow v;                                                                   \
      memcpy(&v, (const TYPE *)src + done, sizeof v);                             \
      GPURED__PREFETCH((const char *)src + done * (int64_t)sizeof(TYPE) + ahead); \
      GPURED__N(store)(dst + done, __builtin_convertvector(v, GPURED__V));        \
    }                                                                             \
  } while (0)

/* What vectors can do of fetch: contiguous elements. Returns how many it did. */
GPURED__FUNC int64_t GPURED__N(fetch_vectors)(GPURED__T *dst, const void *src, int32_t dtype,
                                              int how, int64_t ahead, int64_t n) {
  int64_t done = 0;
  (void)how, (void)ahead;
  switch (dtype) {
#if GPURED__PASS == 32
    case GPURED_F32:
      memcpy(dst, src, (size_t)n * sizeof *dst);
      return n;
#else
    case GPURED_F64:
      memcpy(dst, src, (size_t)n * sizeof *dst);
      return n;
    case GPURED_F32:
      return GPURED__N(fetch_narrow)(dst, (const char *)src, 4, 0, ahead, n);
    case GPURED_I32:
      GPURED__WIDEN(int32_t);
      break;
    case GPURED_U32:
      GPURED__WIDEN(uint32_t);
      break;
#endif
#if GPURED__PASS == 32 && GPURED__LOADS_NARROW
    case GPURED_F16:
      return GPURED__N(fetch_narrow)(dst, (const char *)src, 2, 1, ahead, n);
    case GPURED_BF16:
      return GPURED__N(fetch_narrow)(dst, (const char *)src, 2, 0, ahead, n);
#endif
    default:
      break;
  }
  return done;
}
#undef GPURED__WIDEN
#elif GPURED__WIDTH != 0
/* W contiguous elements of 1, 2, 4 or 8 bytes, with their sign or without. The compilers make
 * scalars of a conversion of bytes. */
GPURED__INLINE GPURED__V GPURED__N(widen)(const char *src, int bytes, int is_signed) {
#if GPURED__X86 && GPURED__WIDTH == 64
  const __m128i *p = (const __m128i *)(const void *)src;
  if (bytes == 1 && is_signed) return (GPURED__V)_mm512_cvtepi8_epi64(_mm_loadl_epi64(p));
  if (bytes == 1) return (GPURED__V)_mm512_cvtepu8_epi64(_mm_loadl_epi64(p));
  if (bytes == 2) return (GPURED__V)_mm512_cvtepu16_epi64(_mm_loadu_si128(p));
  if (bytes == 4 && is_signed)
    return (GPURED__V)_mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i *)(const void *)p));
  if (bytes == 4)
    return (GPURED__V)_mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(const void *)p));
#elif GPURED__X86 && GPURED__WIDTH == 32
  const __m128i *p = (const __m128i *)(const void *)src;
  int four;
  memcpy(&four, src, sizeof four);
  if (bytes == 1 && is_signed) return (GPURED__V)_mm256_cvtepi8_epi64(_mm_cvtsi32_si128(four));
  if (bytes == 1) return (GPURED__V)_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
  if (bytes == 2) return (GPURED__V)_mm256_cvtepu16_epi64(_mm_loadl_epi64(p));
  if (bytes == 4 && is_signed) return (GPURED__V)_mm256_cvtepi32_epi64(_mm_loadu_si128(p));
  if (bytes == 4) return (GPURED__V)_mm256_cvtepu32_epi64(_mm_loadu_si128(p));
#else
  GPURED__T v[GPURED__W];
  int i;
  for (i = 0; i < GPURED__W && bytes < 8; ++i, src += bytes) {
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    memcpy(&u8, src, sizeof u8);
    if (bytes > 1) memcpy(&u16, src, sizeof u16);
    if (bytes > 2) memcpy(&u32, src, sizeof u32);
    v[i] = bytes == 1   ? is_signed ? (uint64_t)(int8_t)u8 : u8
           : bytes == 2 ? u16
           : is_signed  ? (uint64_t)(int32_t)u32
                        : u32;
  }
  if (bytes < 8) return GPURED__N(load)(v);
#endif
  return GPURED__N(load)((const GPURED__T *)(const void *)src);
}

/* The loop of fetch_vectors, made for each size. */
GPURED__INLINE int64_t GPURED__N(fetch_size)(GPURED__T *dst, const char *src, int bytes,
                                             int is_signed, int how, int drop, int64_t ahead,
                                             int64_t n) {
  const GPURED__V one = GPURED__N(splat)(1), top = GPURED__N(splat)((uint64_t)1 << 63);
  GPURED__V v;
  int64_t done = 0;
  for (; done + GPURED__W <= n; done += GPURED__W) {
    GPURED__PREFETCH(src + done * bytes + ahead);
    v = GPURED__N(widen)(src + done * bytes, bytes, is_signed);
    if (how == GPURED__NONZERO) v = (GPURED__V)((v << drop) != 0) & one;
    if (how == GPURED__BIAS) v = v ^ top;
    if (how == GPURED__ABS && is_signed) v = GPURED__N(select)(v >= top, 0 - v, v);
    GPURED__N(store)(dst + done, v);
  }
  return done;
}

/* What vectors can do of fetch: contiguous elements. Returns how many it did. A float comes here to
 * be tested for zero, which its sign does not tell. */
GPURED__FUNC int64_t GPURED__N(fetch_vectors)(GPURED__T *dst, const void *src, int32_t dtype,
                                              int how, int64_t ahead, int64_t n) {
  const int bytes = (int)gpured__dtype_size(dtype), sign = gpured__is_signed(dtype);
  const int drop = gpured__is_float(dtype) ? 65 - 8 * bytes : 0;
  const char *p = (const char *)src;
  switch (sign ? -bytes : bytes) {
    case 1:
      return GPURED__N(fetch_size)(dst, p, 1, 0, how, drop, ahead, n);
    case -1:
      return GPURED__N(fetch_size)(dst, p, 1, 1, how, drop, ahead, n);
    case 2:
      return GPURED__N(fetch_size)(dst, p, 2, 0, how, drop, ahead, n);
    case 4:
      return GPURED__N(fetch_size)(dst, p, 4, 0, how, drop, ahead, n);
    case -4:
      return GPURED__N(fetch_size)(dst, p, 4, 1, how, drop, ahead, n);
    case 8:
      return GPURED__N(fetch_size)(dst, p, 8, 0, how, drop, ahead, n);
    default:
      return GPURED__N(fetch_size)(dst, p, 8, 1, how, drop, ahead, n);
  }
}
#endif

/* Converts n strided elements of a dtype to the accumulator's type; exact but for 64-bit integers
 * to f64. */
GPURED__FUNC void GPURED__N(fetch)(void *out, const void *src, int32_t dtype, int64_t stride,
                                   int64_t n, int how) {
  GPURED__T *dst = (GPURED__T *)out;
  int64_t i;
#if GPURED__WIDTH != 0
  const int64_t ahead = how & GPURED__SHORT_RUN ? 0 : GPURED__FAR_AHEAD;
#endif
  how &= GPURED__SHORT_RUN - 1;
#if GPURED__WIDTH != 0
  if (stride == 1) {
    i = GPURED__N(fetch_vectors)(dst, src, dtype, how, ahead, n);
    src = (const char *)src + i * (int64_t)gpured__dtype_size(dtype);
    dst += i;
    n -= i;
  }
#endif
  switch (dtype) {
#if GPURED__FLOAT
    case GPURED_F32:
      GPURED__FETCH(float, *p);
      break;
    case GPURED_F64:
      GPURED__FETCH(double, *p);
      break;
    case GPURED_F16:
      GPURED__FETCH(uint16_t, gpured__from_f16(*p));
      break;
    case GPURED_BF16:
      GPURED__FETCH(uint16_t, gpured__from_bf16(*p));
      break;
    case GPURED_I8:
      GPURED__FETCH(int8_t, *p);
      break;
    case GPURED_I32:
      GPURED__FETCH(int32_t, *p);
      break;
    case GPURED_I64:
      GPURED__FETCH(int64_t, *p);
      break;
#else /* floats come here only to be tested for zero */
    case GPURED_F32:
      GPURED__FETCH(uint32_t, *p << 1 != 0);
      break;
    case GPURED_F64:
      GPURED__FETCH(uint64_t, *p << 1 != 0);
      break;
    case GPURED_F16:
    case GPURED_BF16:
      GPURED__FETCH(uint16_t, (*p & 0x7fffu) != 0);
      break;
    case GPURED_I8:
      GPURED__FETCH(int8_t, (int64_t)*p);
      break;
    case GPURED_I32:
      GPURED__FETCH(int32_t, (int64_t)*p);
      break;
    case GPURED_I64:
      GPURED__FETCH(uint64_t, *p);
      break;
#endif
    case GPURED_U8:
      GPURED__FETCH(uint8_t, *p);
      break;
    case GPURED_U32:
      GPURED__FETCH(uint32_t, *p);
      break;
    default:
      GPURED__FETCH(uint64_t, *p);
      break;
  }
#if !GPURED__FLOAT
  if (how == GPURED__NONZERO)
    for (i = 0; i < n; ++i) dst[i] = dst[i] != 0;
  if (how == GPURED__ABS && gpured__is_signed(dtype))
    for (i = 0; i < n; ++i) dst[i] = dst[i] >> 63 ? 0u - dst[i] : dst[i];
  if (how == GPURED__BIAS)
    for (i = 0; i < n; ++i) dst[i] ^= (uint64_t)1 << 63;
#else
  (void)how;
#endif
}
#undef GPURED__FETCH

#define GPURED__PUT(TYPE, VALUE)                             \
  do {                                                       \
    TYPE *p = (TYPE *)dst;                                   \
    for (i = 0; i < n; ++i, p += stride) *p = (TYPE)(VALUE); \
  } while (0)

#if GPURED__WIDTH != 0
#define GPURED__NARROW(TYPE, VALUE)                                             \
  do {                                                                          \
    typedef TYPE narrow __attribute__((vector_size(GPURED__W * sizeof(TYPE)))); \
    for (; done + GPURED__W <= n; done += GPURED__W) {                          \
      const GPURED__V v = GPURED__N(load)(src + done);                          \
      const narrow w = __builtin_convertvector(VALUE, narrow);                  \
      memcpy((TYPE *)dst + done, &w, sizeof w);                                 \
    }                                                                           \
  } while (0)

/* What vectors can do of put: contiguous elements. Returns how many it did. */
GPURED__FUNC int64_t GPURED__N(put_vectors)(void *dst, int32_t dtype, const GPURED__T *src,
                                            int64_t n, GPURED__U flip) {
  int64_t done = 0;
#if GPURED__FLOAT
  (void)flip;
  if (dtype == (GPURED__PASS == 32 ? GPURED_F32 : GPURED_F64))
    for (; done + GPURED__W <= n; done += GPURED__W)
      GPURED__N(store)((GPURED__T *)dst + done, GPURED__N(canonical)(GPURED__N(load)(src + done)));
#if GPURED__PASS == 64
  if (dtype == GPURED_F32) GPURED__NARROW(float, GPURED__N(canonical)(v));
#elif GPURED__X86 && GPURED__WIDTH >= 32
  for (; dtype == GPURED_F16 && done + 8 <= n; done += 8) {
    const __m256 v = _mm256_loadu_ps(src + done);
    const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const __m256 w = _mm256_blendv_ps(v, _mm256_set1_ps(gpured__quiet_nan_f32()), nan);
    _mm_storeu_si128((__m128i *)(void *)((uint16_t *)dst + done), _mm256_cvtps_ph(w, 0));
  }
#endif
#if GPURED__PASS == 32 && GPURED__W > 4
  if (dtype == GPURED_BF16) /* to the nearest, ties to even; the carry moves into the exponent */
    for (; done + GPURED__W <= n; done += GPURED__W) {
      typedef uint16_t narrow __attribute__((vector_size(GPURED__W * 2)));
      const GPURED__UV u = GPURED__N(as_u)(GPURED__N(canonical)(GPURED__N(load)(src + done)));
      const GPURED__UV r = (u + ((u >> 16 & 1u) + 0x7fffu)) >> 16;
      const narrow w = __builtin_convertvector(r, narrow);
      memcpy((uint16_t *)dst + done, &w, sizeof w);
    }
#endif
#else
  const GPURED__V sign = GPURED__N(splat)(flip);
  if (gpured__dtype_size(dtype) == 8) GPURED__NARROW(uint64_t, v ^ sign);
  if (gpured__dtype_size(dtype) == 4) GPURED__NARROW(uint32_t, v ^ sign);
#if GPURED__W > 4 /* narrower vectors of bytes are no machine type */
  if (gpured__dtype_size(dtype) == 1) GPURED__NARROW(uint8_t, v ^ sign);
#endif
#endif
  return done;
}
#undef GPURED__NARROW
#endif

/* Stores n values of the accumulator's type, rounded once (floats) or cut to their low bits
 * (integers). */
GPURED__FUNC void GPURED__N(put)(void *dst, int32_t dtype, int64_t stride, const void *values,
                                 int64_t n, int how) {
  const GPURED__T *src = (const GPURED__T *)values;
  int64_t i;
  const uint64_t flip = how == GPURED__BIAS ? (uint64_t)1 << 63 : 0;
#if GPURED__WIDTH != 0
  if (stride == 1) {
    i = GPURED__N(put_vectors)(dst, dtype, src, n, (GPURED__U)flip);
    dst = (char *)dst + i * (int64_t)gpured__dtype_size(dtype);
    src += i;
    n -= i;
  }
#endif
#if GPURED__FLOAT
  (void)flip;
  switch (dtype) {
    case GPURED_F32:
      GPURED__PUT(float, gpured__isnan_f64(src[i]) ? gpured__quiet_nan_f32() : (float)src[i]);
      break;
    case GPURED_F64:
      GPURED__PUT(double, gpured__isnan_f64(src[i]) ? gpured__quiet_nan_f64() : src[i]);
      break;
    case GPURED_F16:
      GPURED__PUT(uint16_t, gpured__to_f16(src[i]));
      break;
    default:
      GPURED__PUT(uint16_t, gpured__to_bf16(src[i]));
      break;
  }
#else
  switch (gpured__dtype_size(dtype)) {
    case 1:
      GPURED__PUT(uint8_t, (src[i] ^ flip) & 0xffu);
      break;
    case 4:
      GPURED__PUT(uint32_t, (src[i] ^ flip) & 0xffffffffu);
      break;
    default:
      GPURED__PUT(uint64_t, src[i] ^ flip);
      break;
  }
#endif
}
#undef GPURED__PUT

/* ---- 10.9  The tables of this type and level ---- */

static const gpured__kernels GPURED__N(kernels) = {GPURED__N(feed),
                                                   GPURED__FEED_NARROW,
                                                   GPURED__N(push),
                                                   GPURED__N(close),
                                                   GPURED__N(result),
                                                   GPURED__N(flat),
                                                   GPURED__N(rows),
                                                   GPURED__N(few),
                                                   GPURED__N(columns),
                                                   GPURED__N(columns_close),
                                                   GPURED__N(columns_join),
                                                   GPURED__N(columns_fold),
                                                   GPURED__N(finish),
                                                   GPURED__N(units),
                                                   GPURED__N(unit_results),
                                                   GPURED__N(gemm_pack),
                                                   GPURED__N(gemm_tile),
                                                   GPURED__N(epilogue),
                                                   GPURED__N(gemm_columns),
                                                   GPURED__N(gemm_join),
                                                   GPURED__N(gemm_sums),
                                                   GPURED__N(fetch),
                                                   GPURED__N(put),
                                                   GPURED__GEMM_MR,
                                                   GPURED__GEMM_RV *GPURED__W,
                                                   GPURED__ESIZE};
#endif

#if GPURED__PASS > 100
/* Numbers as pairs, and back. */
GPURED__FUNC void GPURED__N(expand)(void *out, const void *in, int64_t n) {
  GPURED__M(make_pairs)(in, out, n);
}

GPURED__FUNC void GPURED__N(collapse)(void *out, const void *in, int64_t n) {
  GPURED__M(value_pairs)(in, out, n);
}
#endif

static const gpured__scan_kernels GPURED__N(scan_kernels) = {GPURED__N(scan_run),
                                                             GPURED__N(scan_rows),
                                                             GPURED__N(scan_total),
                                                             GPURED__N(scan_start),
                                                             GPURED__N(scan_add),
#if GPURED__PASS < 100
                                                             GPURED__N(scan_strip),
                                                             GPURED__N(scan_strip_start),
                                                             NULL,
                                                             NULL,
#else
                                                             NULL,
                                                             NULL,
                                                             GPURED__N(expand),
                                                             GPURED__N(collapse),
#endif
                                                             GPURED__WIDTH == 32,
                                                             sizeof(GPURED__T),
                                                             sizeof(GPURED__N(carry))};

#undef GPURED__PASS
#undef GPURED__FORCED
#define GPURED__FORCED GPURED__FORCE
#undef GPURED__SHARES
#undef GPURED__SPARING
#undef GPURED__T
#undef GPURED__I
#undef GPURED__U
#undef GPURED__TN
#undef GPURED__ESIZE
#undef GPURED__MEMBER
#undef GPURED__M
#undef GPURED__FLOAT
#undef GPURED__N
#undef GPURED__S
#undef GPURED__W
#undef GPURED__SPREADS
#undef GPURED__V
#undef GPURED__UV
#undef GPURED__FEED_NARROW
#undef GPURED__NV
#undef GPURED__BESIDE
#undef GPURED__SPLAT
#undef GPURED__HELD
#undef GPURED__SHUFFLE
#undef GPURED__UNROLL_ROWS
#undef GPURED__ASKS
#undef GPURED__IN_TURN
#undef GPURED__APART
#undef GPURED__UNROLL
#undef GPURED__UNROLL_4
#undef GPURED__CASE
#undef GPURED__COPY
#undef GPURED__PICK
#undef GPURED__FLOAT_COPIES
#undef GPURED__PICK_NORM
#undef GPURED__PICK_SUM
#undef GPURED__COPIES
#undef GPURED__COPIES_WITH_DOT
#undef GPURED__OF
#undef GPURED__PICK_KERNEL
#undef GPURED__WITH_KERNEL
#undef GPURED__WITH_KERNEL_OR_DOT
#undef GPURED__WITH_SUM
#undef GPURED__SCAN_COPIES
#undef GPURED__SCAN
#undef GPURED__WITH_SCAN
#undef GPURED__SIGN
#undef GPURED__CONST
#undef GPURED__CONST_U
#endif /* GPURED__PASS */

#if !defined(GPURED__NESTED) && !defined(GPURED__DRIVERS)
#define GPURED__DRIVERS

/* ============================================================================================== */
/* 11  Levels                                                                                     */
/* ============================================================================================== */
/*
 * The kernels compiled for each vector width that the compiler can make here, whatever -march says,
 * and the choice among them: once, by what processor and system can do, or by GPURED_CPU in the
 * environment. GEMM_MR rows and GEMM_RV vectors are the register tile of a product; GEMM_END rows
 * have those at the end of a block, where MR does not divide it.
 */
#define GPURED__NESTED

#define GPURED__LEVEL scalar
#define GPURED__WIDTH 0
#define GPURED__GEMM_MR 4
#define GPURED__GEMM_END 4
#define GPURED__GEMM_RV 4
#include GPURED_HEADER_NAME

#if GPURED__X86
#define GPURED__LEVEL sse2
#define GPURED__WIDTH 16
#define GPURED__GEMM_MR 4
#define GPURED__GEMM_END 4
#define GPURED__GEMM_RV 2
#include GPURED_HEADER_NAME

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#define GPURED__LEVEL avx2
#define GPURED__WIDTH 32
#define GPURED__GEMM_MR 6
#define GPURED__GEMM_END 4
#define GPURED__GEMM_RV 2
#include GPURED_HEADER_NAME
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif /* GPURED__X86 */

#if GPURED__AVX512
#if defined(__clang__)
#pragma clang attribute push(                                                    \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")
#endif
#define GPURED__LEVEL avx512
#define GPURED__WIDTH 64
#define GPURED__GEMM_MR 8
#define GPURED__GEMM_END 8
#define GPURED__GEMM_RV 2
#include GPURED_HEADER_NAME
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif /* GPURED__AVX512 */

#if GPURED__NEON
#define GPURED__LEVEL neon
#define GPURED__WIDTH 16
#define GPURED__GEMM_MR 8
#define GPURED__GEMM_END 8
#define GPURED__GEMM_RV 2
#include GPURED_HEADER_NAME
#endif
#undef GPURED__NESTED

#define GPURED__TABLE(level)                                                        \
  {                                                                                 \
#level, {&gpured__kernels_f32_##level, &gpured__kernels_f64_##level,            \
             &gpured__kernels_u64_##level },                                        \
             {&gpured__scan_kernels_f32_##level, &gpured__scan_kernels_f64_##level, \
              &gpured__scan_kernels_u64_##level },                                  \
    {                                                                               \
      &gpured__scan_kernels_p32_##level, &gpured__scan_kernels_p64_##level, NULL    \
    }                                                                               \
  }

typedef struct gpured__level {
  const char *name;
  const gpured__kernels *kernels[GPURED__TYPES];
  const gpured__scan_kernels *scan[GPURED__TYPES];
  const gpured__scan_kernels *scan_lse[GPURED__TYPES];
} gpured__level;

/* From the plainest to the widest. */
static const gpured__level gpured__levels[] = {
    GPURED__TABLE(scalar),
#if GPURED__X86
    GPURED__TABLE(sse2),   GPURED__TABLE(avx2),
#endif
#if GPURED__AVX512
    GPURED__TABLE(avx512),
#endif
#if GPURED__NEON
    GPURED__TABLE(neon),
#endif
};

/* The widest level that this processor can run; the compiler's builtin also asks the system whether
 * it saves the registers. The frames in which the AddressSanitizer of gcc 13 looks for uses after a
 * return, as it does by default, are not aligned for vectors of 64 bytes, and it takes them to
 * be. */
GPURED__FUNC int gpured__detect_level(void) {
#if GPURED__X86
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
#if GPURED__AVX512 && (!defined(__SANITIZE_ADDRESS__) || defined(__clang__) || __GNUC__ < 13)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return 3;
#endif
  return 2;
#elif GPURED__NEON
  return 1;
#else
  return 0;
#endif
}

/* The level in use, or -1 before it is known. Of the whole file, so that a test which is compiled
 * together with the implementation can go through the levels in one process. */
static int gpured__level_in_use = -1;

/* Several threads may find the level out at once: they find the same. */
GPURED__FUNC int gpured__find_level(void) {
  int i, count = (int)(sizeof gpured__levels / sizeof *gpured__levels);
  int level = gpured__detect_level();
  const char *wanted = getenv("GPURED_CPU");
  for (i = 0; wanted && i < count && i <= level; ++i)
    if (strcmp(wanted, gpured__levels[i].name) == 0) level = i;
#if GPURED__GNU
  __atomic_store_n(&gpured__level_in_use, level, __ATOMIC_RELAXED);
#else
  gpured__level_in_use = level;
#endif
  return level;
}

GPURED__INLINE const gpured__level *gpured__get_level(void) {
#if GPURED__GNU
  int level = __atomic_load_n(&gpured__level_in_use, __ATOMIC_RELAXED);
#else
  int level = gpured__level_in_use;
#endif
  if (level < 0) level = gpured__find_level();
  return &gpured__levels[level];
}

/* ============================================================================================== */
/* 12  Threads and memory                                                                         */
/* ============================================================================================== */
/*
 * Work is cut into tasks whose results do not depend on who runs them. gpured__parallel_for runs a
 * function over them; every thread sets the floating-point mode for itself, and small work wakes
 * nobody.
 */
/* OpenMP's threads do not outlive fork(), and GNU's runtime waits for them without end: in a child
 * of a process that has used threads here, calls run on one. LLVM's runtime starts new ones. */
#if GPURED__OPENMP && GPURED__GNU && !defined(KMP_VERSION_MAJOR) && \
    (defined(__unix__) || defined(__APPLE__))
#include <unistd.h>
GPURED__FUNC int gpured__forked(void) {
  static int user = 0; /* the process that used threads first */
  const int self = (int)getpid(), seen = __atomic_load_n(&user, __ATOMIC_RELAXED);
  if (seen == 0) __atomic_store_n(&user, self, __ATOMIC_RELAXED);
  return seen != 0 && seen != self;
}
#else
GPURED__FUNC int gpured__forked(void) { return 0; }
#endif

GPURED__FUNC int gpured__threads(const gpured_options *o, double bytes) {
  int n = 1;
  if (bytes < (double)GPURED_PARALLEL_BYTES) return 1;
#if GPURED__OPENMP
  n = o->threads > 0 ? o->threads : omp_get_max_threads();
#else
  (void)o;
#endif
  if (n > 1 && gpured__forked()) return 1;
  return n > 1024 ? 1024 : n;
}

GPURED__FUNC void gpured__parallel_for(int threads, int64_t tasks, gpured__task run,
                                       void *context) {
  int64_t i;
#if GPURED__OPENMP
  if (threads > 1 && tasks > 1) {
    int64_t chunk = tasks / ((int64_t)threads * 16) + 1;
#pragma omp parallel num_threads(threads)
    {
      gpured__mode mode = gpured__mode_enter();
#pragma omp for schedule(dynamic, chunk)
      for (i = 0; i < tasks; ++i) run(context, i, omp_get_thread_num());
      gpured__mode_leave(mode);
    }
    return;
  }
#endif
  (void)threads;
  for (i = 0; i < tasks; ++i) run(context, i, 0);
}

GPURED__FUNC void gpured__spread_tasks(const gpured_options *o, double bytes, int64_t tasks,
                                       gpured__task run, void *context) {
  gpured__parallel_for(gpured__threads(o, bytes), tasks, run, context);
}

/* Memory of one call: the caller's workspace, the caller's allocator, or malloc. */
typedef struct gpured__memory {
  void *base;  /* what is given back */
  char *start; /* aligned to 64 bytes */
  size_t bytes;
  int kind; /* 0: the caller's workspace, 1: hooks, 2: malloc */
} gpured__memory;

GPURED__FUNC gpured_status gpured__acquire(const gpured_options *o, size_t bytes,
                                           gpured__memory *m) {
  memset(m, 0, sizeof *m);
  m->bytes = bytes;
  if (o->workspace) {
    if (o->workspace_bytes < bytes) return GPURED_ERR_WORKSPACE;
    m->start = (char *)o->workspace;
    return GPURED_OK;
  }
  if (bytes == 0) return GPURED_OK;
  if (bytes > SIZE_MAX - 64) return GPURED_ERR_ALLOC;
  m->base = o->alloc ? o->alloc(o->user, bytes, o->stream) : malloc(bytes + 63);
  if (!m->base) return GPURED_ERR_ALLOC;
  m->kind = o->alloc ? 1 : 2;
  m->start = (char *)m->base + (o->alloc ? 0 : (64 - (uintptr_t)m->base % 64) % 64);
  return GPURED_OK;
}

GPURED__FUNC void gpured__release(const gpured_options *o, gpured__memory *m) {
  if (m->kind == 1) o->dealloc(o->user, m->base, m->bytes, o->stream);
  if (m->kind == 2) free(m->base);
}

/* ============================================================================================== */
/* 13  Reduce                                                                                     */
/* ============================================================================================== */
/*
 * Sequences are fed to the kernels in chunks of whole blocks: straight from memory where the
 * elements are contiguous and of the accumulator's type, through a buffer otherwise. Where
 * neighbouring sequences are closer in memory than the elements of one, up to 16 of them are read
 * together. A long sequence is cut into segments of 2^k blocks, subtrees of the order's tree, so
 * that any number of threads meets the same additions.
 */
enum { GPURED__CHUNK = 1024, GPURED__STRIP = 16, GPURED__MAX_NODES = 256, GPURED__ROWS = 1024 };
enum { GPURED__PIECE = 64, GPURED__SHORT_STRIP = 1024, GPURED__WIDE_STRIP = 4096 };
enum { GPURED__SLOT_BYTES = 160 * 1024, GPURED__WIDE_BYTES = 2048 * 1024 };
enum { GPURED__CONVERTED = 32 * 1024 };  /* bytes of a task's buffer for rows of another type */
enum { GPURED__UNITS = 256 };            /* columns of a unit's task, at most */
enum { GPURED__UNIT_TILE = 128 * 1024 }; /* bytes of its tile */

typedef struct gpured__reduce_job {
  const gpured__plan *p;
  const gpured__kernels *k;
  int strip;        /* sequences that are read together: 1, or up to 16 along the last kept axis */
  int64_t strips;   /* along the last kept axis */
  int64_t segments; /* of each sequence */
  int64_t segment_size; /* elements */
  gpured__node
      *nodes; /* [outputs][segments], when segments > 1; columns: [strips][segments] lanes */
  /* Columns: the levels of the tree over the blocks of a segment; memory for it, of each thread. */
  int levels;
  char *slots;
  size_t slot_bytes;
} gpured__reduce_job;

/* Elements [start, start + n) of the sequence at `base` to a buffer of the accumulator's type. */
GPURED__FUNC void gpured__fetch_line(const gpured__plan *p, const gpured__kernels *k,
                                     const char *base, int64_t start, int64_t n, char *dst) {
  const int64_t size = (int64_t)gpured__dtype_size(p->in_dtype);
  const gpured__axis *inner;
  int64_t at, len;
  if (p->line_count == 0) {
    k->fetch(dst, base, p->in_dtype, 0, n, p->fetch);
    return;
  }
  inner = &p->line[p->line_count - 1];
  for (; n > 0; n -= len, start += len, dst += len * (int64_t)k->size) {
    at = start % inner->n;
    len = gpured__min_i64(n, inner->n - at);
    k->fetch(dst, base + gpured__offset(p->line, p->line_count, start, GPURED__IN) * size,
             p->in_dtype, inner->stride[GPURED__IN], len, p->fetch);
  }
}

/* Are elements in memory what the kernels work on? */
GPURED__INLINE int gpured__is_native(const gpured__plan *p) {
  int same = p->acc == GPURED__U64
                 ? p->in_dtype == GPURED_I64 || p->in_dtype == GPURED_U64
                 : p->in_dtype == (p->acc == GPURED__F32 ? GPURED_F32 : GPURED_F64);
  return same && p->fetch == GPURED__PLAIN;
}

GPURED__INLINE int gpured__is_contiguous(const gpured__plan *p) {
  return p->line_count == 0 || (p->line_count == 1 && p->line[0].stride[GPURED__IN] == 1);
}

/* Can the kernel read the sequence where it lies? */
GPURED__INLINE int gpured__is_direct(const gpured__plan *p) {
  return gpured__is_native(p) && gpured__is_contiguous(p);
}

/* Has the accumulator's feed_narrow something for contiguous elements of this plan? */
GPURED__FUNC int gpured__is_narrow(const gpured__plan *p) {
  const int is_byte = p->in_dtype == GPURED_I8 || p->in_dtype == GPURED_U8;
  if (!gpured__is_contiguous(p)) return 0;
  if (p->kernel == GPURED__ADD) return p->fetch == GPURED__PLAIN;
  return p->acc == GPURED__U64 && is_byte &&
         p->fetch == (p->in_dtype == GPURED_I8 ? GPURED__BIAS : GPURED__PLAIN) &&
         (p->kernel == GPURED__MIN || p->kernel == GPURED__MAX || p->kernel == GPURED__ARG_MIN ||
          p->kernel == GPURED__ARG_MAX);
}

/* Integers on their way to a mean, which are added in f64: where no such sum can reach 2^53 none is
 * rounded, and it may as well be made of integers. Returns how many elements it took. */
GPURED__FUNC int64_t gpured__feed_exact(const gpured__plan *p, const gpured__kernels *k,
                                        const char *x, int64_t n, gpured__state *st) {
  const gpured__kernels *integers = gpured__get_level()->kernels[GPURED__U64];
  const int64_t most = gpured__dtype_size(p->in_dtype) == 1 ? (int64_t)1 << 45 : (int64_t)1 << 21;
  gpured__state sums;
  gpured__node node;
  uint64_t sum;
  int64_t done;
  if (p->acc != GPURED__F64 || p->kernel != GPURED__ADD || p->n > most) return 0;
  if (gpured__is_float(p->in_dtype) || gpured__dtype_size(p->in_dtype) > 4) return 0;
  if (!integers->feed_narrow || !gpured__is_narrow(p)) return 0;
  sums.count = 0;
  done = integers->feed_narrow(GPURED__ADD, &sums, x, p->in_dtype, n, 0);
  if (done == 0) return 0;
  integers->close(GPURED__ADD, &sums, &node);
  integers->result(GPURED_SUM, GPURED__ADD, &node, done, 0, &sum);
  memset(&node, 0, sizeof node);
  node.v.f64[0] = (double)(int64_t)sum;
  k->push(GPURED__ADD, st, &node);
  return done;
}

/* Elements [start, end) of one sequence into a state. */
GPURED__FUNC void gpured__feed_line(const gpured__plan *p, const gpured__kernels *k,
                                    int64_t sequence, int64_t start, int64_t end,
                                    gpured__state *st) {
  const int64_t size = (int64_t)gpured__dtype_size(p->in_dtype);
  const char *base =
      (const char *)p->in + gpured__offset(p->kept, p->kept_count, sequence, GPURED__IN) * size;
  const char *w = (const char *)p->weight;
  double buffer[GPURED__CHUNK];
  int64_t len;
  if (w)
    w += (gpured__offset(p->kept, p->kept_count, sequence, GPURED__WEIGHT) + start) *
         (int64_t)k->size;
  if (gpured__is_direct(p)) {
    k->feed(p->kernel, st, base + start * size, w, end - start, start);
    return;
  }
  if (start < end && !w) start += gpured__feed_exact(p, k, base + start * size, end - start, st);
  if (start < end && k->feed_narrow && gpured__is_narrow(p)) /* a buffer less */
    start += k->feed_narrow(p->kernel, st, base + start * size, p->in_dtype, end - start, start);
  for (; start < end; start += len) {
    len = gpured__min_i64(GPURED__CHUNK, end - start);
    gpured__fetch_line(p, k, base, start, len, (char *)buffer);
    k->feed(p->kernel, st, buffer, w, len, start);
    if (w) w += len * (int64_t)k->size;
  }
}

/* Rows of n contiguous elements, `pitch` apart, to rows of the accumulator's type that follow each
 * other. */
GPURED__FUNC void gpured__fetch_rows(const gpured__plan *p, const gpured__kernels *k,
                                     const char *base, int64_t pitch, int64_t rows, int64_t n,
                                     void *dst) {
  const int64_t size = (int64_t)gpured__dtype_size(p->in_dtype);
  int64_t r, at;
  if (pitch == n || rows == 1) {
    k->fetch(dst, base, p->in_dtype, 1, rows * n, p->fetch);
    return;
  }
  for (r = 0; r < rows; ++r, base += pitch * size) {
    for (at = 0; at < n * size; at += 64)
      GPURED__PREFETCH(base + GPURED__ROWS_AHEAD * pitch * size + at);
    k->fetch((char *)dst + r * n * (int64_t)k->size, base, p->in_dtype, 1, n,
             p->fetch | GPURED__SHORT_RUN);
  }
}

/* The row that the units of an index have found for column c. */
GPURED__INLINE int64_t gpured__unit_index(const gpured__kernels *k, const void *second, int64_t c) {
  uint32_t narrow;
  uint64_t wide;
  if (k->size == sizeof narrow) {
    memcpy(&narrow, (const char *)second + c * (int64_t)sizeof narrow, sizeof narrow);
    return narrow;
  }
  memcpy(&wide, (const char *)second + c * (int64_t)sizeof wide, sizeof wide);
  return (int64_t)wide;
}

/* Elements [start, end) of `count` neighbouring sequences, unit by unit, into as many states. */
GPURED__FUNC void gpured__feed_units(const gpured__plan *p, const gpured__kernels *k,
                                     const char *base, int count, int64_t start, int64_t end,
                                     gpured__state *st) {
  const int64_t size = (int64_t)gpured__dtype_size(p->in_dtype),
                across = p->kept[p->kept_count - 1].stride[GPURED__IN],
                stride = p->line[0].stride[GPURED__IN];
  const size_t ksize = k->size;
  double rows[(int)GPURED__WIDE_BLOCK * GPURED__STRIP], first[GPURED__STRIP], second[GPURED__STRIP];
  const int direct = gpured__is_native(p) && across == 1;
  gpured__node node;
  int64_t len, i;
  int c;
  memset(&node, 0, sizeof node);
  for (base += start * stride * size; start < end; start += len, base += len * stride * size) {
    len = gpured__min_i64(GPURED__WIDE_BLOCK, end - start);
    if (!direct && across == 1) gpured__fetch_rows(p, k, base, stride, len, count, rows);
    for (i = 0; across != 1 && i < len; ++i)
      k->fetch((char *)rows + i * count * (int64_t)ksize, base + i * stride * size, p->in_dtype,
               across, count, p->fetch);
    if (direct)
      k->units(p->kernel, base, stride, len, count, first, second);
    else
      k->units(p->kernel, rows, count, len, count, first, second);
    for (c = 0; c < count; ++c) {
      memcpy(&node.v, (const char *)first + (size_t)c * ksize, ksize);
      memcpy((char *)&node.v + ksize, (const char *)second + (size_t)c * ksize, ksize);
      node.n = p->kernel >= GPURED__LSE ? len : start + gpured__unit_index(k, second, c);
      k->push(p->kernel, &st[c], &node);
    }
  }
}

/* Elements [start, end) of `count` neighbouring sequences into as many states, row by row as they
 * lie in memory. */
GPURED__FUNC void gpured__feed_strip(const gpured__plan *p, const gpured__kernels *k,
                                     int64_t sequence, int count, int64_t start, int64_t end,
                                     gpured__state *st) {
  const int64_t size = (int64_t)gpured__dtype_size(p->in_dtype), ksize = (int64_t)k->size;
  const gpured__axis *across = &p->kept[p->kept_count - 1];
  const char *base =
      (const char *)p->in + gpured__offset(p->kept, p->kept_count, sequence, GPURED__IN) * size;
  double row[GPURED__STRIP], buffer[GPURED__STRIP][GPURED__CHUNK];
  const char *w;
  int64_t len, i;
  int c;
  if (p->kernel >= GPURED__ARG_MIN && p->line_count == 1) {
    gpured__feed_units(p, k, base, count, start, end, st);
    return;
  }
  for (; start < end; start += len) {
    len = gpured__min_i64(GPURED__CHUNK, end - start);
    for (i = 0; i < len; ++i) {
      k->fetch(row, base + gpured__offset(p->line, p->line_count, start + i, GPURED__IN) * size,
               p->in_dtype, across->stride[GPURED__IN], count, p->fetch);
      for (c = 0; c < count; ++c)
        memcpy((char *)buffer[c] + i * ksize, (const char *)row + c * ksize, (size_t)ksize);
    }
    for (c = 0; c < count; ++c) {
      w = (const char *)p->weight;
      if (w)
        w += (gpured__offset(p->kept, p->kept_count, sequence + c, GPURED__WEIGHT) + start) * ksize;
      k->feed(p->kernel, &st[c], buffer[c], w, len, start);
    }
  }
}

GPURED__INLINE void gpured__store_index(void *out, int32_t dtype, int64_t index) {
  const int32_t narrow = (int32_t)index;
  if (dtype == GPURED_I32)
    memcpy(out, &narrow, sizeof narrow);
  else
    memcpy(out, &index, sizeof index);
}

/* The value of a finished sequence to the output. */
GPURED__FUNC void gpured__store_result(const gpured__plan *p, const gpured__kernels *k,
                                       int64_t sequence, const gpured__node *node) {
  char *out = (char *)p->out + gpured__offset(p->kept, p->kept_count, sequence, GPURED__OUT) *
                                   (int64_t)gpured__dtype_size(p->out_dtype);
  double value;
  if (p->op == GPURED_ARGMIN || p->op == GPURED_ARGMAX) {
    gpured__store_index(out, p->out_dtype, node->n);
    return;
  }
  k->result(p->op, p->kernel, node, p->n, p->ddof, &value);
  k->put(out, p->out_dtype, 1, &value, 1, p->fetch);
}

/* One task: one segment of one strip of sequences. */
GPURED__FUNC void gpured__reduce_task(void *context, int64_t index, int thread) {
  const gpured__reduce_job *job = (const gpured__reduce_job *)context;
  const gpured__plan *p = job->p;
  int64_t segment = index % job->segments, strip = index / job->segments, sequence = strip, start,
          end;
  gpured__state st[GPURED__STRIP];
  gpured__node node;
  int c, count = 1;
  (void)thread;
  if (job->strip > 1) {
    int64_t width = p->kept[p->kept_count - 1].n, at = strip % job->strips * job->strip;
    sequence = strip / job->strips * width + at;
    count = (int)gpured__min_i64(job->strip, width - at);
  }
  start = segment * job->segment_size;
  end = gpured__min_i64(p->n, start + job->segment_size);
  for (c = 0; c < count; ++c) st[c].count = 0;
  if (job->strip > 1)
    gpured__feed_strip(p, job->k, sequence, count, start, end, st);
  else
    gpured__feed_line(p, job->k, sequence, start, end, st);
  for (c = 0; c < count; ++c) {
    job->k->close(p->kernel, &st[c], &node);
    if (job->segments > 1)
      job->nodes[(sequence + c) * job->segments + segment] = node;
    else
      gpured__store_result(p, job->k, sequence + c, &node);
  }
}

/* Stores the result of empty sequences. */
GPURED__FUNC void gpured__store_empty(const gpured__plan *p, const gpured__kernels *k) {
  int64_t i;
  uint64_t integer;
  double real, value = 0;
  gpured__empty_value(p, &integer, &real);
  if (p->acc == GPURED__U64)
    memcpy(&value, &integer, sizeof integer);
  else
    k->fetch(&value, &real, GPURED_F64, 0, 1, GPURED__PLAIN);
  for (i = 0; i < p->outputs; ++i)
    k->put((char *)p->out + gpured__offset(p->kept, p->kept_count, i, GPURED__OUT) *
                                (int64_t)gpured__dtype_size(p->out_dtype),
           p->out_dtype, 1, &value, 1, GPURED__PLAIN);
}

/* Reads neighbours together where they are closer than the elements of one sequence, or touch and
 * are one element each: that kept axis goes last. */
GPURED__FUNC void gpured__choose_strip(gpured__plan *p, gpured__reduce_job *job) {
  int i, best = -1;
  int64_t s, least = 2, n; /* 2: neighbours that touch */
  gpured__axis t;
  job->strip = 1;
  job->strips = 1;
  if (p->kept_count == 0) return;
  if (p->n > 1 && p->line_count > 0) {
    least = p->line[p->line_count - 1].stride[GPURED__IN];
    least = least < 0 ? -least : least;
  }
  for (i = 0; i < p->kept_count; ++i) {
    s = p->kept[i].stride[GPURED__IN];
    s = s < 0 ? -s : s;
    if (s == 0 || s >= least) continue;
    least = s;
    best = i;
  }
  if (best < 0) return;
  if (p->line_count == 0) { /* of one element, which a plan leaves out */
    memset(p->line, 0, sizeof *p->line);
    p->line->n = 1;
    p->line_count = 1;
  }
  t = p->kept[best];
  p->kept[best] = p->kept[p->kept_count - 1];
  p->kept[p->kept_count - 1] = t;
  n = t.n;
  job->strip = (int)gpured__min_i64(n, GPURED__STRIP);
  job->strips = gpured__ceil_div(n, job->strip);
}

/* Cuts sequences into segments when there are too few of them for the threads. */
GPURED__FUNC void gpured__choose_segments(const gpured__plan *p, gpured__reduce_job *job,
                                          int threads) {
  const int64_t block = gpured__block_size(p->kernel), blocks = gpured__ceil_div(p->n, block);
  int64_t wanted, size = 1;
  job->segments = 1;
  job->segment_size = p->n;
  if (threads <= 1 || p->outputs >= (int64_t)threads * 4) return;
  wanted = gpured__min_i64((int64_t)threads * 16, GPURED__MAX_NODES / p->outputs);
  if (wanted <= 1) return;
  while (size * wanted < blocks) size *= 2;
  job->segments = gpured__ceil_div(blocks, size);
  job->segment_size = size * block;
}

/* Any plan: sequence by sequence, or strips of them, through the kernels' states. */
GPURED__FUNC void gpured__run_sequences(const gpured__plan *p, gpured__reduce_job *job,
                                        int threads) {
  gpured__node nodes[GPURED__MAX_NODES], node;
  gpured__state st;
  int64_t i, s, strips = p->outputs;
  job->nodes = nodes;
  gpured__choose_segments(p, job, threads);
  if (job->strip > 1) strips = p->outputs / p->kept[p->kept_count - 1].n * job->strips;
  gpured__parallel_for(threads, strips * job->segments, gpured__reduce_task, job);
  if (job->segments == 1) return;
  for (i = 0; i < p->outputs; ++i) {
    st.count = 0;
    for (s = 0; s < job->segments; ++s) job->k->push(p->kernel, &st, &nodes[i * job->segments + s]);
    job->k->close(p->kernel, &st, &node);
    gpured__store_result(p, job->k, i, &node);
  }
}

GPURED__INLINE void gpured__finish_values(const gpured__plan *p, const gpured__kernels *k,
                                          int64_t count, void *values) {
  if (p->op == GPURED_MEAN || p->op == GPURED_NORM2) k->finish(p->op, values, count, p->n);
}

/* Stores `count` values of neighbouring sequences along the last kept axis. */
GPURED__FUNC void gpured__store_values(const gpured__plan *p, const gpured__kernels *k,
                                       int64_t sequence, int64_t count, void *values) {
  char *out = (char *)p->out + gpured__offset(p->kept, p->kept_count, sequence, GPURED__OUT) *
                                   (int64_t)gpured__dtype_size(p->out_dtype);
  int64_t stride = p->kept_count ? p->kept[p->kept_count - 1].stride[GPURED__OUT] : 0;
  gpured__finish_values(p, k, count, values);
  k->put(out, p->out_dtype, stride, values, count, p->fetch);
}

/* Where a kernel that stores finished values may put those of neighbouring sequences: the output
 * itself, if that is what it looks like, or NULL. */
GPURED__INLINE void *gpured__direct_out(const gpured__plan *p, int64_t sequence) {
  const int32_t native = p->acc == GPURED__F32 ? GPURED_F32 : GPURED_F64;
  const int64_t stride = p->kept_count ? p->kept[p->kept_count - 1].stride[GPURED__OUT] : 1;
  if (p->acc == GPURED__U64 || p->out_dtype != native || stride != 1) return NULL;
  return (char *)p->out + gpured__offset(p->kept, p->kept_count, sequence, GPURED__OUT) *
                              (int64_t)gpured__dtype_size(p->out_dtype);
}

/* The sequences of a task that takes up to job->strip neighbours along the last kept axis. */
GPURED__INLINE int64_t gpured__strip_place(const gpured__reduce_job *job, int64_t index,
                                           int64_t *count) {
  const int64_t width = job->p->kept_count ? job->p->kept[job->p->kept_count - 1].n : 1;
  const int64_t at = job->strips == 1 ? 0 : index % job->strips * job->strip;
  *count = gpured__min_i64(job->strip, width - at);
  return (job->strips == 1 ? index : index / job->strips) * width + at;
}

/* ---- Rows: whole sequences, a few hundred in a task ---- */

/* Rows of another type, as many at a time as the buffer holds. */
GPURED__FUNC void gpured__converted_rows(const gpured__plan *p, const gpured__kernels *k,
                                         const char *base, int64_t stride, int64_t rows,
                                         char *out) {
  const int64_t size = (int64_t)gpured__dtype_size(p->in_dtype), ksize = (int64_t)k->size;
  const int64_t most = GPURED__CONVERTED / ksize / p->n;
  double buffer[GPURED__CONVERTED / sizeof(double)];
  int64_t len;
  for (; rows > 0; rows -= len, base += len * stride * size, out += len * ksize) {
    len = gpured__min_i64(rows, most);
    gpured__fetch_rows(p, k, base, stride, len, p->n, buffer);
    k->rows(p->kernel, buffer, p->n, len, p->n, 0, out);
  }
}

GPURED__FUNC void gpured__rows_task(void *context, int64_t index, int thread) {
  const gpured__reduce_job *job = (const gpured__reduce_job *)context;
  const gpured__plan *p = job->p;
  const int64_t stride = p->kept_count ? p->kept[p->kept_count - 1].stride[GPURED__IN] : 0;
  int64_t count, sequence = gpured__strip_place(job, index, &count);
  const char *base =
      (const char *)p->in + gpured__offset(p->kept, p->kept_count, sequence, GPURED__IN) *
                                (int64_t)gpured__dtype_size(p->in_dtype);
  double values[GPURED__ROWS];
  void *out = gpured__direct_out(p, sequence), *to = out ? out : values;
  const int ask = p->outputs >= 2 * GPURED__FROM_MEMORY / (p->n * (int64_t)job->k->size);
  (void)thread;
  if (gpured__is_direct(p))
    job->k->rows(p->kernel, base, stride, count, p->n, ask, to);
  else
    gpured__converted_rows(p, job->k, base, stride, count, (char *)to);
  if (out)
    gpured__finish_values(p, job->k, count, out);
  else
    gpured__store_values(p, job->k, sequence, count, values);
}

GPURED__INLINE int gpured__wants_rows(const gpured__plan *p, int threads) {
  if (p->weight || !gpured__is_contiguous(p)) return 0;
  if (p->kernel == GPURED__LSE) return p->n <= GPURED__WIDE_BLOCK;
  if (p->kernel >= GPURED__ARG_MIN) return 0;
  if (p->n <= GPURED__BLOCK) return 1;
  return gpured__is_native(p) && (threads == 1 || p->outputs >= (int64_t)threads * 8);
}

GPURED__FUNC void gpured__run_rows(const gpured__plan *p, gpured__reduce_job *job, int threads) {
  const int64_t width = p->kept_count ? p->kept[p->kept_count - 1].n : 1;
  const int64_t share = threads > 1 ? gpured__ceil_div(width, (int64_t)threads * 8) : width;
  job->strip = (int)gpured__min_i64(share, GPURED__ROWS);
  job->strips = width == job->strip ? 1 : gpured__ceil_div(width, job->strip);
  gpured__parallel_for(threads, (p->outputs == width ? 1 : p->outputs / width) * job->strips,
                       gpured__rows_task, job);
}

/* ---- Short columns: up to 16 rows, straight through registers ---- */

GPURED__FUNC void gpured__few_task(void *context, int64_t index, int thread) {
  const gpured__reduce_job *job = (const gpured__reduce_job *)context;
  const gpured__plan *p = job->p;
  int64_t count, sequence = gpured__strip_place(job, index, &count);
  const int64_t stride = p->line[0].stride[GPURED__IN];
  const char *base =
      (const char *)p->in + gpured__offset(p->kept, p->kept_count, sequence, GPURED__IN) *
                                (int64_t)gpured__dtype_size(p->in_dtype);
  double values[GPURED__SHORT_STRIP], buffer[GPURED__CONVERTED / sizeof(double)];
  void *out = gpured__direct_out(p, sequence), *to = out ? out : values;
  (void)thread;
  if (gpured__is_native(p)) {
    job->k->few(p->kernel, base, stride, p->n, count, to);
  } else {
    gpured__fetch_rows(p, job->k, base, stride, p->n, count, buffer);
    job->k->few(p->kernel, buffer, count, p->n, count, to);
  }
  if (out)
    gpured__finish_values(p, job->k, count, out);
  else
    gpured__store_values(p, job->k, sequence, count, values);
}

GPURED__INLINE int gpured__wants_few(const gpured__plan *p) {
  return p->n <= GPURED__LANES && !p->weight && p->kept[p->kept_count - 1].stride[GPURED__IN] == 1;
}

GPURED__FUNC void gpured__run_few(const gpured__plan *p, gpured__reduce_job *job, int threads) {
  const int64_t width = p->kept[p->kept_count - 1].n;
  const int64_t converted = GPURED__CONVERTED / (int64_t)job->k->size / GPURED__LANES;
  const int64_t most = gpured__is_native(p) ? (int64_t)GPURED__SHORT_STRIP : converted;
  job->strip = (int)gpured__min_i64(width, most);
  job->strips = gpured__ceil_div(width, job->strip);
  gpured__parallel_for(threads, p->outputs / width * job->strips, gpured__few_task, job);
}

/* ---- Units: indices, logsumexp and variances of columns of one unit, and of short rows ---- */

/* n x count elements, the sequences side by side, from rows of the sequences. */
GPURED__FUNC void gpured__turn(const char *rows, int64_t stride, int64_t count, int64_t n,
                               size_t size, char *out) {
  int64_t r, i;
  if (size == 4) {
    for (r = 0; r < count; ++r)
      for (i = 0; i < n; ++i) memcpy(out + (i * count + r) * 4, rows + (r * stride + i) * 4, 4);
    return;
  }
  for (r = 0; r < count; ++r)
    for (i = 0; i < n; ++i) memcpy(out + (i * count + r) * 8, rows + (r * stride + i) * 8, 8);
}

/* A task's elements with neighbouring sequences side by side: as they lie, or in `tile`. Returns
 * where, and how far their rows are apart. */
GPURED__FUNC const char *gpured__unit_tile(const gpured__plan *p, const gpured__kernels *k,
                                           const char *base, int64_t count, int64_t *apart,
                                           char *tile) {
  const int64_t across = p->kept_count ? p->kept[p->kept_count - 1].stride[GPURED__IN] : 0;
  const int64_t size = (int64_t)gpured__dtype_size(p->in_dtype), ksize = (int64_t)k->size;
  double rows[GPURED__CONVERTED / sizeof(double)];
  int64_t i, stride = gpured__is_contiguous(p) ? 1 : p->line[0].stride[GPURED__IN];
  *apart = count;
  if (gpured__is_contiguous(p)) {
    if (gpured__is_native(p)) {
      gpured__turn(base, across, count, p->n, k->size, tile);
    } else {
      gpured__fetch_rows(p, k, base, across, count, p->n, rows);
      gpured__turn((const char *)rows, p->n, count, p->n, k->size, tile);
    }
    return tile;
  }
  if (gpured__is_native(p) && across == 1) {
    *apart = stride;
    return base;
  }
  if (across == 1)
    gpured__fetch_rows(p, k, base, stride, p->n, count, tile);
  else
    for (i = 0; i < p->n; ++i)
      k->fetch(tile + i * count * ksize, base + i * stride * size, p->in_dtype, across, count,
               p->fetch);
  return tile;
}

GPURED__FUNC void gpured__units_task(void *context, int64_t index, int thread) {
  const gpured__reduce_job *job = (const gpured__reduce_job *)context;
  const gpured__plan *p = job->p;
  double tile[GPURED__UNIT_TILE / sizeof(double)], first[GPURED__UNITS], second[GPURED__UNITS];
  int64_t count, apart, c, sequence = gpured__strip_place(job, index, &count);
  const int64_t stride = p->kept_count ? p->kept[p->kept_count - 1].stride[GPURED__OUT] : 0;
  const char *x =
      (const char *)p->in + gpured__offset(p->kept, p->kept_count, sequence, GPURED__IN) *
                                (int64_t)gpured__dtype_size(p->in_dtype);
  char *out;
  (void)thread;
  x = gpured__unit_tile(p, job->k, x, count, &apart, (char *)tile);
  job->k->units(p->kernel, x, apart, p->n, count, first, second);
  if (p->kernel >= GPURED__LSE) {
    job->k->unit_results(p->op, count, p->n, p->ddof, first, second);
    gpured__store_values(p, job->k, sequence, count, first);
    return;
  }
  out = (char *)p->out + gpured__offset(p->kept, p->kept_count, sequence, GPURED__OUT) *
                             (int64_t)gpured__dtype_size(p->out_dtype);
  for (c = 0; c < count; ++c, out += stride * (int64_t)gpured__dtype_size(p->out_dtype))
    gpured__store_index(out, p->out_dtype, gpured__unit_index(job->k, second, c));
}

/* Columns of one unit; rows that are so short that turning them costs less than starting each. */
GPURED__INLINE int gpured__wants_units(const gpured__plan *p, const gpured__reduce_job *job) {
  const int64_t rows = p->kernel == GPURED__LSE ? GPURED__LANES : 4 * GPURED__LANES;
  if (p->kernel < GPURED__ARG_MIN || p->line_count != 1 || p->kept_count == 0) return 0;
  if (job->strip > 1) return p->n <= GPURED__WIDE_BLOCK;
  return gpured__is_contiguous(p) && p->n < rows && p->kept[p->kept_count - 1].n > 4;
}

GPURED__FUNC void gpured__run_units(const gpured__plan *p, gpured__reduce_job *job, int threads) {
  const int64_t width = p->kept[p->kept_count - 1].n, size = (int64_t)job->k->size;
  const int64_t room = gpured__is_contiguous(p) ? (int)GPURED__CONVERTED : (int)GPURED__UNIT_TILE;
  const int64_t most = gpured__min_i64(GPURED__UNITS, room / size / p->n);
  job->strip = (int)gpured__min_i64(width, most);
  job->strips = gpured__ceil_div(width, job->strip);
  gpured__parallel_for(threads, p->outputs / width * job->strips, gpured__units_task, job);
}

/* ---- Columns: lanes kept as arrays across the strip ---- */

/* One segment of one strip of columns to lanes in slot 0 of `slots`. */
GPURED__FUNC void gpured__columns_segment(const gpured__reduce_job *job, int64_t sequence,
                                          int64_t count, int64_t start, int64_t end, void *slots) {
  const gpured__plan *p = job->p;
  const gpured__kernels *k = job->k;
  const int64_t size = (int64_t)gpured__dtype_size(p->in_dtype),
                stride = p->line[0].stride[GPURED__IN];
  const int64_t across = p->kept[p->kept_count - 1].stride[GPURED__IN], ksize = (int64_t)k->size;
  const int64_t fits = GPURED__CONVERTED / ksize / count; /* whole rows of lanes at a time */
  const int64_t piece = gpured__min_i64(GPURED__PIECE, fits - fits % GPURED__LANES);
  const char *base =
      (const char *)p->in +
      (gpured__offset(p->kept, p->kept_count, sequence, GPURED__IN) + start * stride) * size;
  const char *w = (const char *)p->weight;
  double rows[GPURED__CONVERTED / sizeof(double)];
  gpured__strip st = gpured__strip_begin(slots, count, job->levels);
  int64_t len, i;
  if (w) w += (gpured__offset(p->kept, p->kept_count, sequence, GPURED__WEIGHT) + start) * ksize;
  if (gpured__is_native(p) && across == 1) {
    k->columns(p->kernel, &st, base, stride, w, end - start);
  } else {
    for (; start < end; start += len, base += len * stride * size) {
      len = gpured__min_i64(piece, end - start);
      if (across == 1)
        gpured__fetch_rows(p, k, base, stride, len, count, rows);
      else
        for (i = 0; i < len; ++i)
          k->fetch((char *)rows + i * count * ksize, base + i * stride * size, p->in_dtype, across,
                   count, p->fetch);
      k->columns(p->kernel, &st, rows, count, w, len);
      if (w) w += len * ksize;
    }
  }
  k->columns_close(p->kernel, &st);
}

GPURED__FUNC void gpured__columns_task(void *context, int64_t index, int thread) {
  const gpured__reduce_job *job = (const gpured__reduce_job *)context;
  const gpured__plan *p = job->p;
  double stack[GPURED__SLOT_BYTES / sizeof(double)];
  char *slots = job->slots ? job->slots + (size_t)thread * job->slot_bytes : (char *)stack;
  const size_t size = job->k->size;
  int64_t segment = index % job->segments, start = segment * job->segment_size, count;
  int64_t sequence = gpured__strip_place(job, index / job->segments, &count);
  gpured__columns_segment(job, sequence, count, start,
                          gpured__min_i64(p->n, start + job->segment_size), slots);
  if (job->segments > 1) {
    memcpy((char *)job->nodes + (size_t)(index * GPURED__LANES * job->strip) * size, slots,
           (size_t)(GPURED__LANES * count) * size);
    return;
  }
  job->k->columns_fold(p->kernel, slots, count);
  gpured__store_values(p, job->k, sequence, count, slots);
}

/* The tree over the segments of each strip: adjacent pairs in place, an odd last one passing up. */
GPURED__FUNC void gpured__columns_finish(const gpured__reduce_job *job, int64_t strips) {
  const int64_t slot = GPURED__LANES * job->strip * (int64_t)job->k->size;
  int64_t i, s, step, count, sequence;
  char *nodes;
  for (i = 0; i < strips; ++i) {
    nodes = (char *)job->nodes + i * job->segments * slot;
    sequence = gpured__strip_place(job, i, &count);
    for (step = 1; step < job->segments; step *= 2)
      for (s = 0; s + step < job->segments; s += 2 * step)
        job->k->columns_join(job->p->kernel, nodes + s * slot, nodes + (s + step) * slot,
                             GPURED__LANES * count);
    job->k->columns_fold(job->p->kernel, nodes, count);
    gpured__store_values(job->p, job->k, sequence, count, nodes);
  }
}

GPURED__INLINE int gpured__wants_columns(const gpured__plan *p, const gpured__reduce_job *job) {
  return job->strip > 1 && p->kernel < GPURED__ARG_MIN && p->line_count == 1 &&
         p->kept[p->kept_count - 1].stride[GPURED__WEIGHT] == 0; /* one weight for all columns */
}

/*
 * Strips as wide as the slots of all levels of the tree allow in `room` bytes: the wider, the
 * longer the runs in memory. Long columns are cut when there are too few strips for the threads.
 * Returns the number of strips.
 */
GPURED__FUNC int64_t gpured__choose_columns(const gpured__plan *p, gpured__reduce_job *job,
                                            int threads, int64_t room) {
  const int64_t width = p->kept[p->kept_count - 1].n, size = (int64_t)job->k->size,
                blocks = gpured__ceil_div(p->n, GPURED__BLOCK),
                in_size = (int64_t)gpured__dtype_size(p->in_dtype);
  int64_t strips, columns = gpured__min_i64(width, GPURED__WIDE_STRIP), wanted, length = 1;
  job->segments = 1;
  job->segment_size = p->n;
  for (job->levels = 1; blocks >> job->levels; ++job->levels) {
  }
  while (columns > GPURED__STRIP / 2 && columns * size * GPURED__LANES * (job->levels + 1) > room)
    columns /= 2;
  if (p->kept[p->kept_count - 1].stride[GPURED__IN] != 1)
    columns = GPURED__STRIP;
  else if (!gpured__is_native(p)) /* 256 bytes of a row at least, and 16 rows */
    columns = gpured__min_i64(columns, in_size < 4 ? 256 / in_size : 64);
  job->strip = (int)gpured__min_i64(width, columns);
  job->strips = gpured__ceil_div(width, job->strip);
  strips = p->outputs / width * job->strips;
  if (threads > 1 && strips < (int64_t)threads * 4) {
    wanted = room / (GPURED__LANES * job->strip * size * strips);
    wanted = gpured__min_i64((int64_t)threads * 16, wanted);
    while (wanted > 1 && length * wanted < blocks) length *= 2;
    if (wanted > 1) job->segments = gpured__ceil_div(blocks, length);
    if (wanted > 1) job->segment_size = length * GPURED__BLOCK;
  }
  job->slot_bytes = (size_t)(GPURED__LANES * job->strip * size * (job->levels + 1));
  return strips;
}

/* Wide strips need more memory than belongs on a stack. Where there is none to be had, narrower
 * ones do. */
GPURED__FUNC void gpured__run_columns(const gpured__plan *p, gpured__reduce_job *job, int threads,
                                      const gpured_options *o) {
  double stack[GPURED__SLOT_BYTES / sizeof(double)];
  int64_t strips = gpured__choose_columns(p, job, threads, GPURED__SLOT_BYTES);
  const int wider = gpured__is_native(p) && job->strip > GPURED__STRIP;
  gpured__memory memory;
  size_t slots;
  memset(&memory, 0, sizeof memory);
  if (wider && job->strip < p->kept[p->kept_count - 1].n) {
    strips = gpured__choose_columns(p, job, threads, GPURED__WIDE_BYTES);
    slots = job->slot_bytes * (size_t)threads;
    if (gpured__acquire(o, slots + GPURED__WIDE_BYTES, &memory) == GPURED_OK) {
      job->slots = memory.start;
      job->nodes = (gpured__node *)(void *)(memory.start + slots);
    } else {
      strips = gpured__choose_columns(p, job, threads, GPURED__SLOT_BYTES);
    }
  }
  if (!memory.start) job->nodes = (gpured__node *)(void *)stack;
  gpured__parallel_for(threads, strips * job->segments, gpured__columns_task, job);
  if (job->segments > 1) gpured__columns_finish(job, strips);
  gpured__release(o, &memory);
}

/* ---- Small calls: a few plain numbers, for which checks and plans cost more than the work ---- */

/*
 * Reduces a contiguous host matrix of floats over axis 0, axis 1 or (2) both, if it is small and
 * everything is in order; one sequence for one thread may be large, since the general way does
 * nothing else with it. Answers 0, having done nothing, where it is not certain of that: then the
 * general way runs, or finds out what is wrong.
 */
GPURED__INLINE int gpured__small_inline(int op, int32_t dtype, const void *x, int64_t rows,
                                        int64_t cols, int axis, int threads, void *out) {
  const gpured__kernels *k;
  const uintptr_t from = (uintptr_t)x, to = (uintptr_t)out, size = dtype == GPURED_F32 ? 4 : 8;
  const int64_t few = GPURED_PARALLEL_BYTES < 262144 ? GPURED_PARALLEL_BYTES : 262144;
  const int64_t limit = axis == 2 && threads == 1 ? 1 << 26 : few;
  int64_t kept = axis == 0 ? cols : axis == 1 ? rows : 1;
  gpured__mode mode;
  int kernel;
  if (op < GPURED_SUM || op > GPURED_ABSMAX) return 0;
  if (dtype != GPURED_F32 && dtype != GPURED_F64) return 0;
  if (rows < 1 || cols < 1 || rows > limit || cols > limit) return 0;
  if (rows * cols * (int64_t)size >= limit) return 0;
  if ((axis == 0 && rows > GPURED__LANES) || (axis == 1 && cols > GPURED__BLOCK)) return 0;
  if (!from || !to || ((from | to) & (size - 1))) return 0;
  if (to < from + (uintptr_t)(rows * cols) * size && from < to + (uintptr_t)kept * size) return 0;
  kernel = gpured__kernel_of(op, 1);
  k = gpured__get_level()->kernels[dtype == GPURED_F32 ? GPURED__F32 : GPURED__F64];
  mode = gpured__mode_enter();
  if (axis == 0)
    k->few(kernel, x, cols, rows, cols, out);
  else if (axis == 1)
    k->rows(kernel, x, cols, rows, cols, 0, out);
  else
    k->flat(kernel, x, rows * cols, GPURED__NEAR, out);
  if (op == GPURED_MEAN || op == GPURED_NORM2)
    k->finish(op, out, kept, axis == 0 ? rows : axis == 1 ? cols : rows * cols);
  gpured__mode_leave(mode);
  return 1;
}

GPURED__FUNC int gpured__small(int op, int32_t dtype, const void *x, int64_t rows, int64_t cols,
                               int axis, void *out) {
  return gpured__small_inline(op, dtype, x, rows, cols, axis, 0, out);
}

/* The same for a call on tensors. Default options, but for the number of threads. */
GPURED__INLINE int gpured__small_call(int op, const gpured_tensor *in, uint32_t axes,
                                      const gpured_tensor *out, const gpured_options *o) {
  int64_t rows, cols;
  int axis, flat;
  if (o && (o->struct_size != sizeof *o || o->backend || o->precision || o->acc_dtype || o->ddof ||
            o->threads < 0 || o->workspace || o->workspace_bytes || o->alloc || o->dealloc))
    return 0;
  if (!in || !out || in->dtype != out->dtype) return 0;
  if (in->device != GPURED_CPU || out->device != GPURED_CPU || in->device_id || out->device_id)
    return 0;
  if (in->ndim < 1 || in->ndim > 2 || axes == 0 || axes >> in->ndim) return 0;
  rows = in->ndim == 2 ? in->shape[0] : 1;
  cols = in->shape[in->ndim - 1];
  if (in->strides[in->ndim - 1] != 1 || (in->ndim == 2 && in->strides[0] != cols)) return 0;
  flat = in->ndim == 1 || axes == 3;
  axis = flat ? 2 : (int)axes - 1;
  if (flat ? out->ndim < 0 || out->ndim > 1 || (out->ndim == 1 && out->shape[0] != 1)
           : out->ndim != 1 || out->shape[0] != in->shape[1 - axis] || out->strides[0] != 1)
    return 0;
  return gpured__small_inline(op, in->dtype, in->data, rows, cols, axis, o ? o->threads : 0,
                              out->data);
}

/* Runs a plan on the CPU. The plan's kept axes may change places. */
GPURED__FUNC void gpured__run_reduce(gpured__plan *p, const gpured_options *o) {
  gpured__reduce_job job;
  double bytes = (double)p->outputs * (double)p->n * (double)gpured__dtype_size(p->in_dtype);
  int threads = gpured__threads(o, bytes);
  if (p->outputs == 0) return;
  memset(&job, 0, sizeof job);
  job.p = p;
  job.k = gpured__get_level()->kernels[p->acc];
  if (p->n == 0) {
    gpured__store_empty(p, job.k);
    return;
  }
  gpured__choose_strip(p, &job);
  if (gpured__wants_columns(p, &job) && gpured__wants_few(p))
    gpured__run_few(p, &job, threads);
  else if (gpured__wants_columns(p, &job))
    gpured__run_columns(p, &job, threads, o);
  else if (gpured__wants_units(p, &job))
    gpured__run_units(p, &job, threads);
  else if (gpured__wants_rows(p, threads))
    gpured__run_rows(p, &job, threads);
  else
    gpured__run_sequences(p, &job, threads);
}

/* ============================================================================================== */
/* 14  Scan                                                                                       */
/* ============================================================================================== */
/*
 * A line is scanned piece by piece, with a carry from one to the next (section 10.6): from memory
 * to memory where elements are what the kernels work on, through a buffer otherwise. Lines run in
 * parallel; short ones are many to a task, neighbours are scanned side by side where they lie so. A
 * long line alone is cut into pieces that fit a thread's cache: a thread takes the next piece,
 * finds its total, tells it to the others, adds theirs up to it, and scans. The scan asks for a
 * later piece of the thread, where that pays.
 */
enum {
  GPURED__SCAN_CHUNK = 1024,
  GPURED__SCAN_SHORT = GPURED__BLOCK,
  GPURED__ROUND_PIECES = 1024,
  GPURED__PATIENCE = 10000,
  GPURED__TASK_BYTES = 64 * 1024,
  GPURED__STREAM_BYTES = 8 << 20,
  GPURED__STRIP_BYTES = 4096,
  GPURED__STRIP_SLOTS = 36 * GPURED__STRIP_BYTES,
  GPURED__CARRY_BYTES = (GPURED__CARRY_LEVELS * 82 + 1) * 16 /* for elements of up to 16 bytes */
};
/* Bytes of a line below which several threads would mostly wait for each other, and of the largest
 * piece of which a second-level cache holds three. */
enum { GPURED__SCAN_TOGETHER = 1 << 24, GPURED__SCAN_LEAD = 1 << 18 };

typedef struct gpured__scan_job {
  const gpured__plan *p;
  const gpured__kernels *k;
  const gpured__scan_kernels *s;
  unsigned how;
  int direct;      /* are elements read and written where they lie? */
  int packed;      /* are lines one after the other in memory, without gaps? */
  int64_t side;    /* lines of a task, along the last kept axis */
  int64_t lead;    /* more of them in the first task: to the beginning of a line of memory */
  int levels;      /* above the groups of 16 */
  double empty[2]; /* the result for nothing, as an element of the scan */
} gpured__scan_job;

/* Where the lines of a task begin, and how many there are. */
typedef struct gpured__scan_lines {
  const char *in;
  char *out;
  int64_t count;
} gpured__scan_lines;

/* Memory for what is kept from one piece of a line to the next. */
typedef struct gpured__scan_carry {
  double bytes[GPURED__CARRY_BYTES / 8];
} gpured__scan_carry;

/* The lines of task `index`: job->side of them along the last kept axis. */
GPURED__FUNC gpured__scan_lines gpured__scan_find(const gpured__scan_job *job, int64_t index) {
  const gpured__plan *p = job->p;
  const int64_t width = job->side > 1 ? p->kept[p->kept_count - 1].n : 1;
  const int64_t groups = gpured__ceil_div(width, job->side), group = index % groups;
  const int64_t at = group > 0 ? group * job->side + job->lead : 0;
  const int64_t line = index / groups * width + at;
  gpured__scan_lines l;
  l.in = (const char *)p->in + gpured__offset(p->kept, p->kept_count, line, GPURED__IN) *
                                   (int64_t)gpured__dtype_size(p->in_dtype);
  l.out = (char *)p->out + gpured__offset(p->kept, p->kept_count, line, GPURED__OUT) *
                               (int64_t)gpured__dtype_size(p->out_dtype);
  l.count = gpured__min_i64((group + 1) * job->side + job->lead, width) - at;
  return l;
}

/* The address `count` elements further along an axis. */
GPURED__INLINE const char *gpured__scan_in(const gpured__plan *p, const gpured__axis *axis,
                                           const char *in, int64_t count) {
  return in + count * axis->stride[GPURED__IN] * (int64_t)gpured__dtype_size(p->in_dtype);
}

GPURED__INLINE char *gpured__scan_out(const gpured__plan *p, const gpured__axis *axis, char *out,
                                      int64_t count) {
  return out + count * axis->stride[GPURED__OUT] * (int64_t)gpured__dtype_size(p->out_dtype);
}

/* n <= 1024 elements along an axis as elements of the scan, and results back. */
GPURED__FUNC void gpured__scan_load(const gpured__scan_job *job, const gpured__axis *axis,
                                    const char *in, int64_t n, void *dst) {
  double values[GPURED__SCAN_CHUNK];
  void *to = job->s->expand ? values : dst;
  job->k->fetch(to, in, job->p->in_dtype, axis->stride[GPURED__IN], n, job->p->fetch);
  if (job->s->expand) job->s->expand(dst, values, n);
}

GPURED__FUNC void gpured__scan_put(const gpured__scan_job *job, const gpured__axis *axis, char *out,
                                   int64_t n, const void *results) {
  double values[GPURED__SCAN_CHUNK];
  const void *from = job->s->collapse ? values : results;
  if (job->s->collapse) job->s->collapse(values, results, n);
  job->k->put(out, job->p->out_dtype, axis->stride[GPURED__OUT], from, n, job->p->fetch);
}

/* n elements that follow those in the carry; what to ask for is `ahead` bytes further, or 0. */
GPURED__FUNC void gpured__scan_range(const gpured__scan_job *job, int64_t ahead, const char *in,
                                     char *out, int64_t n, void *carry) {
  const gpured__plan *p = job->p;
  double chunk[2 * GPURED__SCAN_CHUNK];
  int64_t at, len;
  if (job->direct) {
    job->s->run(p->kernel, job->how, ahead, in, out, n, carry);
    return;
  }
  for (at = 0; at < n; at += len) {
    len = gpured__min_i64(GPURED__SCAN_CHUNK, n - at);
    gpured__scan_load(job, p->line, gpured__scan_in(p, p->line, in, at), len, chunk);
    job->s->run(p->kernel, job->how, 0, chunk, chunk, len, carry);
    gpured__scan_put(job, p->line, gpured__scan_out(p, p->line, out, at), len, chunk);
  }
}

/* One task: long lines, one by one. */
GPURED__FUNC void gpured__scan_task(void *context, int64_t index, int thread) {
  const gpured__scan_job *job = (const gpured__scan_job *)context;
  const gpured__scan_lines l = gpured__scan_find(job, index);
  gpured__scan_carry carry;
  (void)thread;
  job->s->start(job->p->kernel, &carry, job->empty);
  gpured__scan_range(job, GPURED__FAR_AHEAD, l.in, l.out, job->p->n, &carry);
}

/* One task: lines of at most a block; through the buffer as many as fit, if they are packed. */
GPURED__FUNC void gpured__scan_short_task(void *context, int64_t index, int thread) {
  const gpured__scan_job *job = (const gpured__scan_job *)context;
  const gpured__plan *p = job->p;
  const gpured__scan_lines l = gpured__scan_find(job, index);
  const gpured__axis *across = p->kept + (p->kept_count > 0 ? p->kept_count - 1 : 0);
  const int64_t n = p->n;
  /* Two buffers: a row that is loaded beside what has just been stored waits for that. */
  double chunk[2 * GPURED__SCAN_CHUNK], results[2 * GPURED__SCAN_CHUNK];
  int64_t at, len;
  (void)thread;
  if (job->direct) {
    job->s->rows(p->kernel, job->how, l.in, across->stride[GPURED__IN], l.out,
                 across->stride[GPURED__OUT], l.count, n, job->empty);
    return;
  }
  for (at = 0; at < l.count; at += len) {
    len = job->packed ? gpured__min_i64(GPURED__SCAN_CHUNK / n, l.count - at) : 1;
    gpured__scan_load(job, p->line, gpured__scan_in(p, across, l.in, at), len * n, chunk);
    job->s->rows(p->kernel, job->how, chunk, n, results, n, len, n, job->empty);
    gpured__scan_put(job, p->line, gpured__scan_out(p, across, l.out, at), len * n, results);
  }
}

/* ---- Lines side by side ---- */

GPURED__FUNC void gpured__scan_strip_rows(const gpured__scan_job *job, gpured__scan_strip *st,
                                          const char *in, char *out, int64_t count) {
  const gpured__plan *p = job->p;
  const gpured__axis *across = &p->kept[p->kept_count - 1];
  double rows[(int)GPURED__LANES * ((int)GPURED__STRIP_BYTES + 64) / 8];
  const int64_t step = st->pitch * (int64_t)job->s->size;
  int64_t at, r, n;
  memset(rows, 0, (size_t)(GPURED__LANES * step));
  for (at = 0; at < p->n; at += n) {
    n = gpured__min_i64(GPURED__LANES, p->n - at);
    for (r = 0; r < n; ++r)
      gpured__scan_load(job, across, gpured__scan_in(p, p->line, in, at + r), count,
                        (char *)rows + r * step);
    job->s->strip(p->kernel, job->how & GPURED_SCAN_EXCLUSIVE, st, rows, st->pitch, rows, st->pitch,
                  n);
    for (r = 0; r < n; ++r)
      gpured__scan_put(job, across, gpured__scan_out(p, p->line, out, at + r), count,
                       (const char *)rows + r * step);
  }
}

/* Columns that are fewer than the lanes of a vector, and rows that touch: 16 of them are loaded and
 * stored at once. A vector has a row and what follows it. */
GPURED__FUNC void gpured__scan_narrow_rows(const gpured__scan_job *job, gpured__scan_strip *st,
                                           const char *in, char *out, int64_t count) {
  const gpured__plan *p = job->p;
  const gpured__axis *across = &p->kept[p->kept_count - 1];
  double packed[(GPURED__LANES + 1) * 8], rows[GPURED__LANES * 8]; /* 64 bytes each */
  const int64_t step = count * (int64_t)job->s->size;
  int64_t at, r, n;
  memset(packed, 0, sizeof packed);
  for (at = 0; at < p->n; at += n) {
    n = gpured__min_i64(GPURED__LANES, p->n - at);
    gpured__scan_load(job, across, gpured__scan_in(p, p->line, in, at), n * count, packed);
    job->s->strip(p->kernel, job->how & GPURED_SCAN_EXCLUSIVE, st, packed, count, rows, st->width,
                  n);
    for (r = 0; r < n; ++r) memcpy((char *)packed + r * step, rows + r * 8, 64);
    gpured__scan_put(job, across, gpured__scan_out(p, p->line, out, at), n * count, packed);
  }
}

/* Do all `count` columns of a matrix lie together, row by row? */
GPURED__INLINE int gpured__scan_is_packed(const gpured__plan *p, int64_t count) {
  const gpured__axis *across = &p->kept[p->kept_count - 1];
  return across->stride[GPURED__IN] == 1 && across->stride[GPURED__OUT] == 1 &&
         p->line[0].stride[GPURED__IN] == count && p->line[0].stride[GPURED__OUT] == count;
}

/* `count` columns: from memory to memory, or through a buffer of 16 rows. */
GPURED__FUNC void gpured__scan_columns(const gpured__scan_job *job, const char *in, char *out,
                                       int64_t count, int direct) {
  const gpured__plan *p = job->p;
  const int64_t lane = 64 / (int64_t)job->s->size;
  double slots[GPURED__STRIP_SLOTS / 8 + 8];
  gpured__scan_strip st;
  st.slots = (char *)slots + (64 - (uintptr_t)slots % 64) % 64;
  st.width = gpured__ceil_div(count, lane) * lane;
  st.columns = direct ? count : st.width;
  st.pitch = st.width + lane;
  st.levels = job->levels;
  st.groups = gpured__ceil_div(p->n, GPURED__LANES);
  job->s->strip_start(p->kernel, &st, job->empty);
  if (direct)
    job->s->strip(p->kernel, job->how, &st, in, p->line[0].stride[GPURED__IN], out,
                  p->line[0].stride[GPURED__OUT], p->n);
  else if (st.width == lane && gpured__scan_is_packed(p, count))
    gpured__scan_narrow_rows(job, &st, in, out, count);
  else
    gpured__scan_strip_rows(job, &st, in, out, count);
}

GPURED__FUNC void gpured__scan_strip_task(void *context, int64_t index, int thread) {
  const gpured__scan_job *job = (const gpured__scan_job *)context;
  const gpured__plan *p = job->p;
  const gpured__axis *across = &p->kept[p->kept_count - 1];
  const gpured__scan_lines l = gpured__scan_find(job, index);
  const int64_t size = (int64_t)job->s->size, lane = 64 / size;
  int64_t at = 0;
  (void)thread;
  if (job->lead > 0)
    at = gpured__min_i64((int64_t)((64 - (uintptr_t)l.out % 64) % 64) / size, l.count);
  if (at > 0) gpured__scan_columns(job, l.in, l.out, at, 0);
  if (at < l.count)
    gpured__scan_columns(job, gpured__scan_in(p, across, l.in, at),
                         gpured__scan_out(p, across, l.out, at), l.count - at,
                         job->direct && l.count - at >= lane);
}

/* ---- One line by all threads ---- */

#if GPURED__OPENMP
/* A piece is one tile or 16. What the kernels say of it (at most five values), once `ready`. */
typedef struct gpured__scan_piece {
  double totals[5][2];
  int ready;
} gpured__scan_piece;

/* So many pieces that the threads meet only now and then; they take piece after piece. */
typedef struct gpured__scan_round {
  const gpured__scan_job *job;
  const char *in;
  char *out;
  int64_t n, pieces, size;
  int level; /* of a piece, above the blocks: 1 or 2 */
  gpured__scan_carry carry;
  gpured__scan_piece piece[GPURED__ROUND_PIECES];
} gpured__scan_round;

GPURED__FUNC void gpured__scan_find_totals(const gpured__scan_round *r, int64_t index,
                                           gpured__scan_piece *piece) {
  const gpured__scan_job *job = r->job;
  const gpured__plan *p = job->p;
  const int64_t tiles = r->size / GPURED__SCAN_TILE, size = (int64_t)job->s->size;
  double tile[2 * GPURED__SCAN_TILE], totals[GPURED__LANES][2], found[4][2];
  const char *x, *in = gpured__scan_in(p, p->line, r->in, index * r->size);
  int64_t t, i;
  for (t = 0; t < tiles; ++t) {
    x = gpured__scan_in(p, p->line, in, t * GPURED__SCAN_TILE);
    if (!job->direct) {
      for (i = 0; i < GPURED__SCAN_TILE; i += GPURED__SCAN_CHUNK)
        gpured__scan_load(job, p->line, gpured__scan_in(p, p->line, x, i), GPURED__SCAN_CHUNK,
                          (char *)tile + i * size);
      x = (const char *)tile;
    }
    job->s->total(p->kernel, x, found);
    memcpy((char *)totals + t * size, found, (size_t)size);
  }
  if (r->level == 1) {
    memcpy(piece->totals, found, (size_t)(4 * size));
    return;
  }
  job->s->rows(p->kernel, 0, totals, 0, totals, 0, 1, GPURED__LANES, job->empty);
  memcpy(piece->totals, (char *)totals + 15 * size, (size_t)size);
  memcpy((char *)piece->totals + size, (char *)totals + 14 * size, (size_t)size);
  memcpy((char *)piece->totals + 2 * size, (char *)found + size, (size_t)(3 * size));
}

/* What this thread has read and written is done before anything that it does afterwards. */
GPURED__INLINE void gpured__scan_fence(void) {
#if GPURED__GNU
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
#else
#pragma omp flush
#endif
}

/* The totals are there; where they came from may be overwritten from now on. The compilers' own
 * atomics say the same as OpenMP's, in words that ThreadSanitizer knows. */
GPURED__FUNC void gpured__scan_tell(gpured__scan_piece *piece) {
#if GPURED__GNU
  __atomic_store_n(&piece->ready, 1, __ATOMIC_RELEASE);
#else
#pragma omp flush
#pragma omp atomic write
  piece->ready = 1;
#endif
  gpured__scan_fence();
}

GPURED__FUNC int gpured__scan_ready(const gpured__scan_piece *piece) {
#if GPURED__GNU
  return __atomic_load_n(&piece->ready, __ATOMIC_ACQUIRE);
#else
  int ready;
#pragma omp atomic read
  ready = piece->ready;
#pragma omp flush
  return ready;
#endif
}

/* A call that may read what another thread writes, after which nobody uses what it has read.
 * ThreadSanitizer, which cannot know that, does not look meanwhile. */
#if defined(__SANITIZE_THREAD__) || GPURED__HAS_FEATURE(thread_sanitizer)
#ifdef __cplusplus
extern "C" {
#endif
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
#ifdef __cplusplus
}
#endif
#define GPURED__RACES(call)                       \
  do {                                            \
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__); \
    call;                                         \
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);   \
  } while (0)
#else
#define GPURED__RACES(call) call
#endif

/* The totals of a piece that another thread has taken. If that thread does not get on (it may have
 * lost its processor), they are found here too. It tells them before it overwrites anything, so
 * totals that are found before it has told its own are right; the fence keeps this order. */
GPURED__FUNC const gpured__scan_piece *gpured__scan_await(const gpured__scan_round *r,
                                                          int64_t index, gpured__scan_piece *own) {
  const gpured__scan_piece *piece = &r->piece[index];
  int i;
  for (i = 0; i < GPURED__PATIENCE; ++i)
    if (gpured__scan_ready(piece)) return piece;
  GPURED__RACES(gpured__scan_find_totals(r, index, own));
  gpured__scan_fence();
  return gpured__scan_ready(piece) ? piece : own;
}

/* The next piece that no thread has; beyond the last one when all have been taken. */
GPURED__FUNC int64_t gpured__scan_take(int64_t *next) {
  int64_t index;
#pragma omp atomic capture
  index = (*next)++;
  return index;
}

/* Finds the total of a piece, which brings it into the cache, and tells it. Nobody needs that of
 * one which is not whole, the line's last. */
GPURED__FUNC void gpured__scan_announce(gpured__scan_round *r, int64_t index) {
  if (r->n - index * r->size < r->size) return;
  gpured__scan_find_totals(r, index, &r->piece[index]);
  gpured__scan_tell(&r->piece[index]);
}

/*
 * The work of one thread in a round, on piece[0] and what follows it. Where two pieces and what is
 * asked for fit in the cache, the total of the next piece is told before this one is scanned, long
 * before others need it: threads that find totals just in time wait for the slowest at every piece.
 * A scan that asks for what will be read asks for the piece behind those; others take that when
 * they are free for it.
 */
GPURED__FUNC void gpured__scan_work(gpured__scan_round *r, int64_t *next) {
  const gpured__scan_job *job = r->job;
  const gpured__plan *p = job->p;
  const int64_t size = (int64_t)job->s->size;
  const int lead = r->size * size <= GPURED__SCAN_LEAD;
  const int asks = (job->how & GPURED__SCAN_ASK) != 0;
  gpured__scan_carry carry;
  gpured__scan_piece own;
  int64_t piece[3], ahead, at, behind = 0; /* pieces that the carry has behind it */
  memcpy(&carry, &r->carry, job->s->carry);
  piece[0] = gpured__scan_take(next);
  if (lead) {
    gpured__scan_announce(r, piece[0]);
    piece[1] = gpured__scan_take(next);
  }
  while (piece[0] < r->pieces) {
    gpured__scan_announce(r, piece[lead]);
    for (; behind < piece[0]; ++behind)
      job->s->add(p->kernel, &carry, r->level, gpured__scan_await(r, behind, &own)->totals);
    piece[lead + 1] = asks ? gpured__scan_take(next) : r->pieces;
    ahead = piece[lead + 1] < r->pieces ? (piece[lead + 1] - piece[0]) * r->size * size : 0;
    at = piece[0] * r->size;
    gpured__scan_range(job, ahead, gpured__scan_in(p, p->line, r->in, at),
                       gpured__scan_out(p, p->line, r->out, at),
                       gpured__min_i64(r->size, r->n - at), &carry);
    ++behind;
    if (!asks) piece[lead + 1] = gpured__scan_take(next);
    piece[0] = piece[1];
    if (lead) piece[1] = piece[2];
  }
}

GPURED__FUNC void gpured__scan_together(const gpured__scan_job *job, int64_t line, int threads) {
  const gpured__plan *p = job->p;
  const gpured__scan_lines l = gpured__scan_find(job, line);
  gpured__scan_round r;
  int64_t start, i, next;
  r.job = job;
  r.level = p->n >= (int64_t)threads * 4 * GPURED__LANES * GPURED__SCAN_TILE ? 2 : 1;
  r.size = r.level == 2 ? (int)GPURED__LANES * (int)GPURED__SCAN_TILE : GPURED__SCAN_TILE;
  job->s->start(p->kernel, &r.carry, job->empty);
  for (start = 0; start < p->n; start += r.n) {
    r.in = gpured__scan_in(p, p->line, l.in, start);
    r.out = gpured__scan_out(p, p->line, l.out, start);
    r.n = gpured__min_i64(GPURED__ROUND_PIECES * r.size, p->n - start);
    r.pieces = gpured__ceil_div(r.n, r.size);
    for (i = 0; i < r.pieces; ++i) r.piece[i].ready = 0;
    next = 0;
#pragma omp parallel num_threads(threads)
    {
      gpured__mode mode = gpured__mode_enter();
      gpured__scan_work(&r, &next);
      gpured__mode_leave(mode);
    }
    if (start + r.n == p->n) break;
    for (i = 0; i < r.pieces; ++i) job->s->add(p->kernel, &r.carry, r.level, r.piece[i].totals);
  }
}
#endif

/* ---- The choice ---- */

/* The result for nothing, as what the kernels compute with. */
GPURED__FUNC void gpured__scan_set_empty(gpured__scan_job *job) {
  const gpured__plan *p = job->p;
  double real, value = 0;
  uint64_t integer;
  gpured__empty_value(p, &integer, &real);
  if (p->fetch == GPURED__BIAS) integer ^= (uint64_t)1 << 63;
  if (p->acc == GPURED__U64)
    memcpy(&value, &integer, sizeof integer);
  else
    job->k->fetch(&value, &real, GPURED_F64, 0, 1, GPURED__PLAIN);
  memcpy(job->empty, &value, sizeof value);
  if (job->s->expand) job->s->expand(job->empty, &value, 1);
}

/* Do all rows of what is written begin at the same place of a line of memory? */
GPURED__FUNC int gpured__scan_aligned(const gpured__plan *p) {
  const int64_t lane = 64 / (int64_t)gpured__dtype_size(p->out_dtype);
  int i;
  for (i = 0; i < p->kept_count - 1; ++i)
    if (p->kept[i].stride[GPURED__OUT] % lane != 0) return 0;
  return p->line[0].stride[GPURED__OUT] % lane == 0;
}

/* Lines that lie closer than the elements of one are scanned side by side: that kept axis goes
 * last. */
GPURED__FUNC int gpured__choose_side(gpured__plan *p, gpured__scan_job *job, int threads) {
  const int64_t lane = 64 / (int64_t)job->s->size;
  gpured__reduce_job strip;
  int64_t width, bytes, tasks;
  if (p->kernel == GPURED__LSE) return 0;
  gpured__choose_strip(p, &strip);
  if (strip.strip < 4) return 0;
  for (width = gpured__ceil_div(p->n, GPURED__LANES); width > 1; ++job->levels)
    width = gpured__ceil_div(width, GPURED__LANES);
  bytes = GPURED__STRIP_SLOTS / (3 + GPURED__LANES * job->levels);
  job->side = gpured__min_i64(bytes - 64, GPURED__STRIP_BYTES) / 64 * lane;
  width = p->kept[p->kept_count - 1].n;
  tasks = gpured__ceil_div(threads, p->outputs / width); /* that the columns of one are cut into */
  width = gpured__ceil_div(gpured__ceil_div(width, tasks), lane) * lane;
  job->side = gpured__min_i64(job->side, width);
  return 1;
}

/* How elements are read and written; `native`: the kernels work on what is in memory. */
GPURED__FUNC void gpured__scan_prepare(gpured__scan_job *job, int strips, double bytes) {
  const gpured__plan *p = job->p;
  const gpured__axis *across = p->kept + (p->kept_count > 0 ? p->kept_count - 1 : 0),
                     *along = strips ? across : p->line;
  const size_t size = gpured__dtype_size(p->out_dtype);
  const int native = gpured__is_native(p) && size == job->k->size;
  job->direct = native && p->kernel != GPURED__LSE && along->stride[GPURED__IN] == 1 &&
                along->stride[GPURED__OUT] == 1;
  job->packed = p->line[0].stride[GPURED__IN] == 1 && p->line[0].stride[GPURED__OUT] == 1 &&
                across->stride[GPURED__IN] == p->n && across->stride[GPURED__OUT] == p->n;
  if (!job->direct || p->in == p->out || (uintptr_t)p->out % size != 0) return;
  if (bytes <= (double)GPURED__STREAM_BYTES ||
      (strips && !job->s->halves && !gpured__scan_aligned(p)))
    return;
  job->how |= GPURED__SCAN_STREAM;
  if ((gpured__on_intel() || (job->s->halves && !strips)) &&
      (strips || job->packed || p->n * (int64_t)size >= GPURED__FROM_MEMORY))
    job->how |= GPURED__SCAN_ASK;
  if (strips && !job->s->halves) job->lead = (int64_t)((64 - (uintptr_t)p->out % 64) % 64 / size);
}

GPURED__FUNC void gpured__run_scan(gpured__plan *p, const gpured_options *o) {
  const gpured__level *level = gpured__get_level();
  gpured__scan_job job;
  gpured__task task = gpured__scan_task;
  int64_t tasks, width = 1;
  const double line =
      (double)p->n * (double)(gpured__dtype_size(p->in_dtype) + gpured__dtype_size(p->out_dtype));
  int threads = gpured__threads(o, line * (double)p->outputs), strips = 0;
  if (p->outputs == 0 || p->n == 0) return;
  memset(&job, 0, sizeof job);
  job.p = p;
  job.k = level->kernels[p->acc];
  job.s = p->kernel == GPURED__LSE ? level->scan_lse[p->acc] : level->scan[p->acc];
  job.how = p->flags & GPURED_SCAN_EXCLUSIVE;
  job.side = 1;
  gpured__scan_set_empty(&job);
  if (threads == 1 || p->outputs >= threads) strips = gpured__choose_side(p, &job, threads);
  gpured__scan_prepare(&job, strips, line * (double)p->outputs);
#if GPURED__OPENMP
  if (threads > 1 && p->outputs < threads && line >= (double)GPURED__SCAN_TOGETHER) {
    for (width = 0; width < p->outputs; ++width) gpured__scan_together(&job, width, threads);
    return;
  }
#endif
  if (strips) {
    task = gpured__scan_strip_task;
  } else if (p->n <= GPURED__SCAN_SHORT) {
    task = gpured__scan_short_task;
    if (p->kept_count > 0) job.side = (int64_t)((double)GPURED__TASK_BYTES / line) + 1;
  }
  if (job.side > 1) width = p->kept[p->kept_count - 1].n;
  tasks = p->outputs / width * gpured__ceil_div(width, job.side);
  gpured__parallel_for(threads, tasks, task, &job);
}

/* ============================================================================================== */
/* 15  GEMM-reduce                                                                                */
/* ============================================================================================== */
/*
 * A plan (section 9) has rows, which are reduced, and columns, which are kept. A task takes a group
 * of panels of NR columns and goes down the blocks of 128 rows. It multiplies a block by every
 * panel of the group, a few hundred steps of k at a time: the rows stay in the second cache for all
 * panels, a piece of a panel in the first one for all rows. The product of a block and a panel is a
 * tile, whose values are finished and reduced to one partial a column; when all blocks of a panel
 * are done, its partials combine in the order of the blocks. Where items are small, the next one is
 * fetched meanwhile. Sum and mean without a map never form the product: they are two passes over
 * the operands.
 */
GPURED__FUNC int gpured__gemm_has_op(int op) {
  switch (op) {
    case GPURED_SUM:
    case GPURED_MEAN:
    case GPURED_MIN:
    case GPURED_MAX:
    case GPURED_ARGMIN:
    case GPURED_ARGMAX:
    case GPURED_SUMSQ:
    case GPURED_NORM1:
    case GPURED_NORM2:
    case GPURED_ABSMAX:
    case GPURED_LOGSUMEXP:
      return 1;
    default:
      return 0;
  }
}

/* Broadcasts a tensor's leading axes (all but the last `matrix`) against the batch: strides to
 * operand `which`. Extents of 1 repeat; `exact` forbids that, for outputs. */
GPURED__FUNC gpured_status gpured__gemm_batch(gpured__gemm_plan *p, const gpured_tensor *t,
                                              int matrix, int which, int exact) {
  int i, skip = p->batch_count - (t->ndim - matrix);
  if (skip < 0) return GPURED_ERR_SHAPE;
  for (i = 0; i < p->batch_count; ++i) {
    p->batch[i].stride[which] = 0;
    if (i < skip) continue;
    if (t->shape[i - skip] == p->batch[i].n)
      p->batch[i].stride[which] = p->batch[i].n == 1 ? 0 : t->strides[i - skip];
    else if (exact || t->shape[i - skip] != 1)
      return GPURED_ERR_SHAPE;
  }
  return GPURED_OK;
}

/* Extents of the batch axes of a and b together. */
GPURED__FUNC gpured_status gpured__gemm_extents(gpured__gemm_plan *p) {
  const gpured_tensor *a = p->g->a, *b = p->g->b;
  int i, na = a->ndim - 2, nb = b->ndim - 2;
  int64_t ea, eb;
  if (na < 0 || nb < 0) return GPURED_ERR_SHAPE;
  p->batch_count = na > nb ? na : nb;
  p->batches = 1;
  for (i = 0; i < p->batch_count; ++i) {
    ea = i < p->batch_count - na ? 1 : a->shape[i - (p->batch_count - na)];
    eb = i < p->batch_count - nb ? 1 : b->shape[i - (p->batch_count - nb)];
    if (ea != eb && ea != 1 && eb != 1) return GPURED_ERR_SHAPE;
    p->batch[i].n = ea == 1 ? eb : ea;
    if (gpured__mul_size(p->batches, p->batch[i].n, &p->batches)) return GPURED_ERR_OVERFLOW;
  }
  return GPURED_OK;
}

/* The last two axes change places. */
GPURED__INLINE void gpured__exchange(gpured_tensor *t) {
  int i = t->ndim - 2, j = t->ndim - 1;
  int64_t n = t->shape[i], s = t->strides[i];
  t->shape[i] = t->shape[j];
  t->strides[i] = t->strides[j];
  t->shape[j] = n;
  t->strides[j] = s;
}

/* Matches one result with [batch..., columns], the reduced axis possibly kept with extent 1, or one
 * element for one. */
GPURED__FUNC gpured_status gpured__gemm_match_out(gpured__gemm_plan *p, int r) {
  const gpured_tensor *out = &p->g->results[r].out;
  int which = GPURED__GEMM_OPERANDS + r, i, one = p->batches == 1 && p->columns == 1;
  gpured_tensor t = *out;
  for (i = 0; i < t.ndim; ++i)
    if (t.shape[i] != 1) one = 0;
  for (i = 0; one && i < p->batch_count; ++i) p->batch[i].stride[which] = 0;
  if (one) return GPURED_OK;
  if (t.ndim == p->batch_count + 2) {
    if (p->g->axis == 1) gpured__exchange(&t);
    if (t.shape[t.ndim - 2] != 1) return GPURED_ERR_SHAPE;
    t.shape[t.ndim - 2] = t.shape[t.ndim - 1];
    t.strides[t.ndim - 2] = t.strides[t.ndim - 1];
    --t.ndim;
  }
  if (t.ndim != p->batch_count + 1 || t.shape[t.ndim - 1] != p->columns) return GPURED_ERR_SHAPE;
  p->result_stride[r] = t.strides[t.ndim - 1];
  return gpured__gemm_batch(p, &t, 1, which, 1);
}

/* The optional product: exactly [batch..., M, N]. */
GPURED__FUNC gpured_status gpured__gemm_match_product(gpured__gemm_plan *p) {
  gpured_tensor c;
  if (!p->g->c) return GPURED_OK;
  c = *p->g->c;
  if (c.ndim != p->batch_count + 2) return GPURED_ERR_SHAPE;
  if (p->g->axis == 1) gpured__exchange(&c);
  if (c.shape[c.ndim - 2] != p->rows || c.shape[c.ndim - 1] != p->columns) return GPURED_ERR_SHAPE;
  p->product_row = c.strides[c.ndim - 2];
  p->product_column = c.strides[c.ndim - 1];
  return gpured__gemm_batch(p, &c, 2, GPURED__PRODUCT, 1);
}

GPURED__FUNC gpured_status gpured__gemm_match_bias(gpured__gemm_plan *p, const gpured_tensor *bias,
                                                   int64_t n, int which) {
  if (!bias) return GPURED_OK;
  if (bias->ndim < 1 || bias->shape[bias->ndim - 1] != n) return GPURED_ERR_SHAPE;
  return gpured__gemm_batch(p, bias, 1, which, 0);
}

/* The combinations that gpured_gemm's comments allow. */
GPURED__FUNC gpured_status gpured__gemm_check_types(gpured__gemm_plan *p,
                                                    const gpured__call *call) {
  const gpured_gemm *g = p->g;
  const gpured_tensor *bias[2];
  gpured_status st;
  int i, acc, floats = gpured__is_float(g->a->dtype);
  if (g->a->dtype != g->b->dtype) return GPURED_ERR_UNSUPPORTED;
  for (i = 0; i < g->count; ++i) {
    if (!gpured__gemm_has_op(g->results[i].op)) return GPURED_ERR_UNSUPPORTED;
    st = gpured__choose_acc(g->results[i].op, g->a->dtype, call->o.acc_dtype, &acc);
    if (st) return st;
    if (i > 0 && acc != p->acc) return GPURED_ERR_UNSUPPORTED;
    p->acc = acc;
    st = gpured__check_out_dtype(g->results[i].op, g->a->dtype, g->results[i].out.dtype, p->rows);
    if (st) return st;
    if (!gpured__is_short(g, g->results[i].op)) p->needs_product = 1;
  }
  if (g->c && gpured__is_float(g->c->dtype) != (p->acc != GPURED__U64))
    return GPURED_ERR_UNSUPPORTED;
  if (g->c) p->needs_product = 1;
  if (!floats && (g->bias_m || g->bias_n || p->ep.scaled || g->form)) return GPURED_ERR_UNSUPPORTED;
  if (g->form && (g->bias_m || g->bias_n || g->alpha != 0)) return GPURED_ERR_UNSUPPORTED;
  bias[0] = g->bias_m;
  bias[1] = g->bias_n;
  for (i = 0; i < 2; ++i)
    if (bias[i] && bias[i]->dtype != g->a->dtype &&
        !(bias[i]->dtype == GPURED_F32 && g->a->dtype != GPURED_F64))
      return GPURED_ERR_UNSUPPORTED;
  return GPURED_OK;
}

/* A description whose pointers and enumerations have been checked, to a plan. */
GPURED__FUNC gpured_status gpured__plan_gemm(gpured__gemm_plan *p, const gpured_gemm *g,
                                             const gpured__call *call) {
  gpured_status st;
  int i, swap = g->axis == 1;
  memset(p, 0, sizeof *p);
  p->g = g;
  st = gpured__gemm_extents(p);
  if (st) return st;
  p->left = swap ? *g->b : *g->a;
  p->right = swap ? *g->a : *g->b;
  if (swap) {
    gpured__exchange(&p->left);
    gpured__exchange(&p->right);
  }
  p->rows = p->left.shape[p->left.ndim - 2];
  p->depth = p->left.shape[p->left.ndim - 1];
  p->columns = p->right.shape[p->right.ndim - 1];
  if (p->right.shape[p->right.ndim - 2] != p->depth) return GPURED_ERR_SHAPE;
  p->row_bias = swap ? g->bias_n : g->bias_m;
  p->column_bias = swap ? g->bias_m : g->bias_n;
  p->ep.alpha = g->form == GPURED_FORM_L2 ? -2.0 : g->alpha == 0 ? 1.0 : g->alpha;
  p->ep.scaled = !(p->ep.alpha >= 1.0 && p->ep.alpha <= 1.0);
  p->ep.rows_first = !swap;
  p->ep.map = g->map;
  p->ep.is_signed = gpured__is_signed(g->a->dtype);
  if (!(st = gpured__gemm_batch(p, &p->left, 2, GPURED__LEFT, 0)))
    if (!(st = gpured__gemm_batch(p, &p->right, 2, GPURED__RIGHT, 0)))
      if (!(st = gpured__gemm_match_bias(p, p->row_bias, p->rows, GPURED__ROW_BIAS)))
        if (!(st = gpured__gemm_match_bias(p, p->column_bias, p->columns, GPURED__COLUMN_BIAS)))
          st = gpured__gemm_match_product(p);
  for (i = 0; !st && i < g->count; ++i) {
    st = gpured__gemm_match_out(p, i);
    if (!st && p->rows == 0 && p->columns > 0 && p->batches > 0 &&
        (g->results[i].op == GPURED_ARGMIN || g->results[i].op == GPURED_ARGMAX))
      st = GPURED_ERR_SHAPE;
  }
  if (st) return st;
  return gpured__gemm_check_types(p, call);
}

/* ---- Memory of one call ---- */

/* Offsets into the workspace, in bytes; all multiples of 64. */
typedef struct gpured__gemm_layout {
  int64_t panels;        /* of NR columns, of an item */
  int64_t group, groups; /* panels that a task takes; how many times it takes some of an item */
  int64_t blocks;        /* of 128 rows */
  int64_t segments,
      segment_blocks; /* pieces of the blocks, when groups alone do not fill the threads */
  int64_t chunk;      /* steps of k at a time */
  int64_t left_lines, left_step; /* rows (or steps) of a copied piece of the left operand, and
                                    their distance */
  int left_in_place, right_in_place, pack_once; /* pack_once: whole panels, for all blocks */
  size_t row_bias, column_bias; /* [batches][rows], [batches][columns], in the accumulator's type */
  int short_direct;    /* does section 10 read the operands of the short road where they lie? */
  int64_t short_strip; /* columns at a time */
  size_t short_left, short_dot, short_bias; /* [batches][depth], [batches][columns], [batches] */
  size_t short_slots, short_bytes;          /* for each thread: slots of the tree of a strip */
  size_t partials, partial_bytes; /* for each thread, or group: [group][results][2][blocks][NR] */
  size_t threads,
      thread_bytes; /* for each thread: spare rows, copied left, packed right, tiles, bias */
  size_t left, right, tile, bias;
  size_t total;
} gpured__gemm_layout;

/*
 * Sizes that suit the caches. A piece of a panel is half of a first-level cache, of rows a
 * quarter of a second-level one. Panels of an operand larger than RIGHT_BYTES are packed: its rows
 * may be far apart.
 */
enum { GPURED__PIECE_BYTES = 32 * 1024, GPURED__ROWS_BYTES = 256 * 1024 };
enum { GPURED__RIGHT_BYTES = 64 * 1024, GPURED__GROUP = 32, GPURED__GROUP_BYTES = 4 * 1024 * 1024 };
enum { GPURED__SHORT_BYTES = 8192 };       /* of a row that the short road takes at a time */
enum { GPURED__AHEAD_BYTES = 256 * 1024 }; /* of an item that is fetched before its turn */

/* Reserves count elements of `size` bytes at the end; returns where, or records that it cannot be.
 */
GPURED__FUNC size_t gpured__reserve(size_t *total, double count, size_t size) {
  size_t at = *total;
  double bytes = count * (double)size;
  if (*total == SIZE_MAX || (double)*total + bytes > (double)(SIZE_MAX / 4)) {
    *total = SIZE_MAX;
    return 0;
  }
  *total += ((size_t)bytes + 63) / 64 * 64;
  return at;
}

/* Are the elements of an operand the accumulator's, and one of its matrix strides 1? */
GPURED__FUNC int gpured__gemm_is_plain(const gpured__gemm_plan *p, const gpured_tensor *t) {
  static const int32_t dtype[GPURED__TYPES] = {GPURED_F32, GPURED_F64, GPURED_U64};
  const int64_t *s = t->strides + t->ndim - 2;
  if (t->dtype != dtype[p->acc] && !(p->acc == GPURED__U64 && t->dtype == GPURED_I64)) return 0;
  return s[0] == 1 || s[1] == 1;
}

/* How the operands are read: where they lie, or copied. */
GPURED__FUNC void gpured__gemm_choose_reading(const gpured__gemm_plan *p, const gpured__kernels *k,
                                              gpured__gemm_layout *lay) {
  const int64_t *ls = p->left.strides + p->left.ndim - 2, size = (int64_t)k->size;
  const int64_t *rs = p->right.strides + p->right.ndim - 2;
  const int64_t most = gpured__min_i64(GPURED__PIECE_BYTES / (k->nr * size),
                                       GPURED__ROWS_BYTES / (GPURED__GEMM_BLOCK * size));
  lay->chunk =
      p->depth <= most ? p->depth : gpured__ceil_div(p->depth, gpured__ceil_div(p->depth, most));
  lay->left_in_place = gpured__gemm_is_plain(p, &p->left);
  lay->left_lines = ls[1] == 1 || ls[0] != 1 ? (int64_t)GPURED__GEMM_BLOCK : lay->chunk;
  lay->left_step = GPURED__GEMM_BLOCK + lay->chunk - lay->left_lines + 64 / size;
  lay->right_in_place =
      gpured__gemm_is_plain(p, &p->right) && rs[1] == 1 && rs[0] >= 0 &&
      (double)p->depth * (double)rs[0] * (double)size <= (double)GPURED__RIGHT_BYTES;
  lay->pack_once = (double)p->depth * (double)(k->nr * size) <= (double)GPURED__GROUP_BYTES;
}

/* How many panels a task takes, and into how many segments rows are cut. */
GPURED__FUNC void gpured__gemm_choose_tasks(const gpured__gemm_plan *p, const gpured__kernels *k,
                                            int threads, gpured__gemm_layout *lay) {
  const double size = (double)k->nr * (double)k->size;
  const double packed = lay->pack_once && !lay->right_in_place ? size * (double)p->depth : 0;
  const double partials = 2 * size * (double)p->g->count * (double)lay->blocks;
  double most = GPURED__GROUP;
  int64_t pairs;
  if (most * (packed + partials) > (double)GPURED__GROUP_BYTES)
    most = (double)GPURED__GROUP_BYTES / (packed + partials);
  if (threads > 1 && most * 4 * threads > (double)p->batches * (double)lay->panels)
    most = (double)p->batches * (double)lay->panels / (4 * threads);
  lay->group = most < 1 ? 1 : (int64_t)most;
  lay->groups = gpured__ceil_div(lay->panels, lay->group);
  lay->group = gpured__ceil_div(lay->panels, lay->groups);
  lay->segments = 1;
  pairs = p->batches * lay->groups;
  if (threads > 1 && pairs < (int64_t)threads * 4)
    lay->segments = gpured__min_i64(lay->blocks, gpured__ceil_div((int64_t)threads * 8, pairs));
  lay->segment_blocks = gpured__ceil_div(lay->blocks, lay->segments);
  lay->segments = gpured__ceil_div(lay->blocks, lay->segment_blocks);
}

/* The part of the layout that forming the product needs. */
GPURED__FUNC void gpured__gemm_lay_out_product(const gpured__gemm_plan *p, const gpured__kernels *k,
                                               int threads, gpured__gemm_layout *lay) {
  const double nr = (double)k->nr, block = (double)GPURED__GEMM_BLOCK;
  double group, whole;
  lay->blocks = gpured__ceil_div(p->rows, GPURED__GEMM_BLOCK);
  lay->panels = gpured__ceil_div(p->columns, k->nr);
  gpured__gemm_choose_reading(p, k, lay);
  gpured__gemm_choose_tasks(p, k, threads, lay);
  group = (double)lay->group;
  whole = (double)p->depth * (lay->right_in_place ? 1 : group);
  (void)gpured__reserve(&lay->partial_bytes,
                        2.0 * group * (double)p->g->count * (double)lay->blocks * nr, k->size);
  lay->partials = gpured__reserve(
      &lay->total, lay->segments > 1 ? (double)p->batches * (double)lay->groups : (double)threads,
      lay->partial_bytes);
  (void)gpured__reserve(&lay->thread_bytes, (double)k->mr * (double)lay->chunk, k->size);
  lay->left = gpured__reserve(
      &lay->thread_bytes, lay->left_in_place ? 0 : (double)lay->left_lines * (double)lay->left_step,
      k->size);
  lay->right = gpured__reserve(&lay->thread_bytes,
                               nr * (lay->pack_once ? whole : (double)lay->chunk), k->size);
  lay->tile = gpured__reserve(&lay->thread_bytes, block * nr * (lay->chunk < p->depth ? group : 1),
                              k->size);
  lay->bias = gpured__reserve(&lay->thread_bytes, nr, k->size);
  lay->threads = gpured__reserve(&lay->total, (double)threads, lay->thread_bytes);
}

/* The part of the layout that the short road needs. */
GPURED__FUNC void gpured__gemm_lay_out_short(const gpured__gemm_plan *p, const gpured__kernels *k,
                                             int threads, gpured__gemm_layout *lay) {
  const int64_t n = p->rows > p->depth ? p->rows : p->depth;
  const int64_t width = gpured__min_i64(p->depth, p->columns), size = (int64_t)k->size;
  const double batches = (double)p->batches;
  lay->short_strip = GPURED__SHORT_BYTES / size;
  while (threads > 1 && lay->short_strip * size > GPURED__SHORT_BYTES / 8 &&
         batches * (double)gpured__ceil_div(width, lay->short_strip) < 2.0 * threads)
    lay->short_strip /= 2;
  lay->short_direct =
      width > 0 && gpured__gemm_is_plain(p, &p->left) && gpured__gemm_is_plain(p, &p->right) &&
      p->left.strides[p->left.ndim - 1] == 1 && p->right.strides[p->right.ndim - 1] == 1 &&
      (threads == 1 ||
       batches * (double)gpured__ceil_div(width, lay->short_strip) >= (double)threads);
  lay->short_left = gpured__reserve(&lay->total, batches * (double)p->depth, k->size);
  lay->short_bias = gpured__reserve(&lay->total, batches, k->size);
  if (!lay->short_direct) {
    lay->short_dot = gpured__reserve(&lay->total, batches * (double)p->columns, k->size);
    return;
  }
  (void)gpured__reserve(&lay->short_bytes,
                        (double)((gpured__gemm_levels(n) + 1) * GPURED__LANES * lay->short_strip),
                        k->size);
  lay->short_slots = gpured__reserve(&lay->total, (double)threads, lay->short_bytes);
}

GPURED__FUNC void gpured__gemm_lay_out(const gpured__gemm_plan *p, const gpured__kernels *k,
                                       int threads, gpured__gemm_layout *lay) {
  const int l2 = p->g->form == GPURED_FORM_L2;
  const double batches = (double)p->batches;
  memset(lay, 0, sizeof *lay);
  if (p->batches == 0 || p->columns == 0) return;
  if (p->row_bias || l2)
    lay->row_bias = gpured__reserve(&lay->total, batches * (double)p->rows, k->size);
  if (p->column_bias || l2)
    lay->column_bias = gpured__reserve(&lay->total, batches * (double)p->columns, k->size);
  if (gpured__gemm_has_short(p)) gpured__gemm_lay_out_short(p, k, threads, lay);
  if (p->needs_product && p->rows > 0) gpured__gemm_lay_out_product(p, k, threads, lay);
}

/* ---- Running it ---- */

typedef struct gpured__gemm_job {
  const gpured__gemm_plan *p;
  const gpured__kernels *k;
  const gpured__gemm_layout *lay;
  char *memory;
  /* If the next item is fetched while one is computed: its left operand during the first tiles, the
   * right one during the others; bytes of each in a tile and in a step of k of a register tile. */
  int64_t ahead_tiles[2], ahead_bytes[2], hop[2];
} gpured__gemm_job;

/* One task: where it works and the memory it has. */
typedef struct gpured__gemm_place {
  int64_t item, first, panels; /* the group: panels [first, first + panels) */
  int64_t column, columns;     /* of the panel at hand */
  const char *left, *right;    /* of the item */
  char *own, *group_partials;
  char *tile, *partials; /* of the panel at hand */
  int64_t packed;        /* panels of the group that are packed */
  const char *ahead[2];  /* the operands of the next item */
  int64_t tiles;         /* computed so far */
} gpured__gemm_place;

/* Packs steps [at, at + k) of a panel of the right operand to [k][NR]. */
GPURED__FUNC void gpured__gemm_pack_right(const gpured__gemm_job *job,
                                          const gpured__gemm_place *here, int64_t at, int64_t k,
                                          char *dst) {
  const gpured_tensor *t = &job->p->right;
  const int64_t *s = t->strides + t->ndim - 2, size = (int64_t)gpured__dtype_size(t->dtype);
  const int64_t ksize = (int64_t)job->k->size, nr = job->k->nr;
  const char *src = here->right + (at * s[0] + here->column * s[1]) * size;
  double buffer[(int)GPURED__BLOCK * (int)GPURED__STRIP];
  int64_t i, n;
  if (gpured__gemm_is_plain(job->p, t)) {
    job->k->gemm_pack(src, s[0], s[1], here->columns, k, dst);
    return;
  }
  for (; k > 0; k -= n, src += n * s[0] * size, dst += n * nr * ksize) {
    n = gpured__min_i64((int64_t)(sizeof buffer / sizeof *buffer) / nr, k);
    if (s[0] == 1) {
      for (i = 0; i < here->columns; ++i)
        job->k->fetch((char *)buffer + i * n * ksize, src + i * s[1] * size, t->dtype, 1, n,
                      GPURED__PLAIN);
      job->k->gemm_pack(buffer, 1, n, here->columns, n, dst);
    } else {
      for (i = 0; i < n; ++i)
        job->k->fetch((char *)buffer + i * nr * ksize, src + i * s[0] * size, t->dtype, s[1],
                      here->columns, GPURED__PLAIN);
      job->k->gemm_pack(buffer, nr, 1, here->columns, n, dst);
    }
  }
}

/* Turns to one panel of the group. */
GPURED__FUNC void gpured__gemm_turn(const gpured__gemm_job *job, gpured__gemm_place *here,
                                    int64_t panel) {
  const gpured__gemm_layout *lay = job->lay;
  const int64_t nr = job->k->nr, ksize = (int64_t)job->k->size;
  here->column = (here->first + panel) * nr;
  here->columns = gpured__min_i64(nr, job->p->columns - here->column);
  here->tile = here->own + lay->tile;
  if (lay->chunk < job->p->depth) here->tile += panel * GPURED__GEMM_BLOCK * nr * ksize;
  here->partials = here->group_partials + panel * 2 * job->p->g->count * lay->blocks * nr * ksize;
}

/* Packs the panels of the group that are not read where they lie: all, or the panel at hand, which
 * lacks columns. Some rows of all of them first, then the next: the hardware asks in time for what
 * is read from end to end. */
GPURED__FUNC void gpured__gemm_pack_group(const gpured__gemm_job *job, gpured__gemm_place *here) {
  const gpured_tensor *t = &job->p->right;
  const int64_t nr = job->k->nr, line = nr * (int64_t)job->k->size, depth = job->p->depth;
  const int64_t each = t->strides[t->ndim - 1] == 1 ? (int64_t)GPURED__LANES : depth;
  const int64_t now = here->column / nr - here->first, one = job->lay->right_in_place;
  const int64_t first = one ? now : 0, end = one ? now + 1 : here->panels;
  char *packed = here->own + job->lay->right;
  int64_t at, i;
  for (at = 0; at < depth; at += each)
    for (i = first; i < end; ++i) {
      gpured__gemm_turn(job, here, i);
      gpured__gemm_pack_right(job, here, at, gpured__min_i64(each, depth - at),
                              packed + ((i - first) * depth + at) * line);
    }
  here->packed = end - first;
  gpured__gemm_turn(job, here, now);
}

/* Steps [at, at + k) of the panel at hand: where they lie, or packed. */
GPURED__FUNC void gpured__gemm_right(const gpured__gemm_job *job, gpured__gemm_place *here,
                                     int64_t at, int64_t k, gpured__gemm_operands *o) {
  const gpured__gemm_plan *p = job->p;
  const int64_t *s = p->right.strides + p->right.ndim - 2, ksize = (int64_t)job->k->size;
  const int64_t nr = job->k->nr;
  const int64_t slot = job->lay->right_in_place ? 0 : here->column / nr - here->first;
  char *packed = here->own + job->lay->right;
  o->k = k;
  if (job->lay->right_in_place && here->columns == nr) {
    o->b = here->right + (at * s[0] + here->column) * ksize;
    o->b_k = s[0];
    return;
  }
  o->b = packed;
  o->b_k = nr;
  if (!job->lay->pack_once) {
    gpured__gemm_pack_right(job, here, at, k, packed);
    return;
  }
  if (here->packed == 0) gpured__gemm_pack_group(job, here);
  o->b = packed + (slot * p->depth + at) * nr * ksize;
}

/* Rows [row, row + rows) and steps [at, at + k) of the left operand: where they lie, or copied. */
GPURED__FUNC void gpured__gemm_left(const gpured__gemm_job *job, const gpured__gemm_place *here,
                                    int64_t row, int64_t rows, int64_t at, int64_t k,
                                    gpured__gemm_operands *o) {
  const gpured_tensor *t = &job->p->left;
  const int64_t *s = t->strides + t->ndim - 2, size = (int64_t)gpured__dtype_size(t->dtype);
  const int64_t bytes = job->lay->left_step * (int64_t)job->k->size;
  const char *src = here->left + (row * s[0] + at * s[1]) * size;
  char *copy = here->own + job->lay->left;
  int64_t i;
  o->a = src;
  o->a_row = s[0];
  o->a_k = s[1];
  if (job->lay->left_in_place) return;
  o->a = copy;
  if (s[1] == 1 || s[0] != 1) {
    o->a_row = job->lay->left_step;
    o->a_k = 1;
    for (i = 0; i < rows; ++i)
      job->k->fetch(copy + i * bytes, src + i * s[0] * size, t->dtype, s[1], k, GPURED__PLAIN);
  } else {
    o->a_row = 1;
    o->a_k = job->lay->left_step;
    for (i = 0; i < k; ++i)
      job->k->fetch(copy + i * bytes, src + i * s[1] * size, t->dtype, 1, rows, GPURED__PLAIN);
  }
}

/* All register tiles fetch from one address on. */
GPURED__INLINE void gpured__gemm_fetch_from(gpured__gemm_operands *o, uintptr_t from, int64_t hop) {
  o->ahead[0] = from;
  o->ahead[1] = from + (uintptr_t)(hop * o->k);
  o->hop[0] = o->hop[1] = hop;
  o->turn[0] = o->turn[1] = 2 * hop * o->k;
}

/* What comes after steps [at, at + k) of this block of rows and panel, from a cache further away:
 * a piece of a packed panel; and as many of the next rows of A as there are register tiles for. */
GPURED__INLINE void gpured__gemm_next_piece(const gpured__gemm_job *job,
                                            const gpured__gemm_place *here, int64_t block,
                                            int64_t panel, int64_t at, int64_t rows,
                                            gpured__gemm_operands *o) {
  const gpured__gemm_plan *p = job->p;
  const int64_t *s = p->left.strides + p->left.ndim - 2, size = (int64_t)job->k->size;
  const int64_t line = job->k->nr * size, tiles = gpured__ceil_div(rows, job->k->mr);
  const int64_t next_at = at + o->k < p->depth ? at + o->k : 0, first = panel * (tiles / 2);
  const int64_t row = (next_at > 0 ? block : block + 1) * GPURED__GEMM_BLOCK + first;
  const int last = panel + 1 == here->panels;
  const int64_t next = last ? 0 : panel + 1, from = last ? next_at : at;
  if (job->lay->right_in_place || here->packed == 0) return;
  gpured__gemm_fetch_from(
      o, (uintptr_t)(here->own + job->lay->right) + (uintptr_t)((next * p->depth + from) * line),
      gpured__ceil_div(line, tiles));
  if (!job->lay->left_in_place || s[1] != 1 || tiles < 2 || first >= GPURED__GEMM_BLOCK ||
      row >= p->rows)
    return;
  o->hop[0] = gpured__ceil_div(line, gpured__ceil_div(tiles, 2));
  o->turn[0] = o->hop[0] * o->k;
  o->ahead[1] = (uintptr_t)here->left + (uintptr_t)((row * s[0] + next_at) * size);
  o->hop[1] = size;
  o->turn[1] = s[0] * size;
}

/* What is fetched during this tile: a part of the next item, or the next piece of this one. */
GPURED__INLINE void gpured__gemm_ahead(const gpured__gemm_job *job, gpured__gemm_place *here,
                                       int64_t block, int64_t panel, int64_t at, int64_t rows,
                                       gpured__gemm_operands *o) {
  int64_t tile = here->tiles++;
  int which = tile >= job->ahead_tiles[0];
  gpured__gemm_fetch_from(o, (uintptr_t)here->tile, 0); /* nothing: what is there already */
  if (job->ahead_tiles[0] == 0) gpured__gemm_next_piece(job, here, block, panel, at, rows, o);
  if (which) tile -= job->ahead_tiles[0];
  if (!here->ahead[0] || tile >= job->ahead_tiles[which]) return;
  gpured__gemm_fetch_from(
      o, (uintptr_t)here->ahead[which] + (uintptr_t)(tile * job->ahead_bytes[which]),
      job->hop[which]);
}

/* alpha, biases and map for the tile of `rows` rows from `row` on. */
GPURED__FUNC void gpured__gemm_epilogue(const gpured__gemm_job *job, const gpured__gemm_place *here,
                                        int64_t row, int64_t rows) {
  const gpured__gemm_plan *p = job->p;
  const gpured__gemm_layout *lay = job->lay;
  const int64_t ksize = (int64_t)job->k->size;
  const char *rb = NULL, *cb = NULL;
  if (p->row_bias || p->g->form)
    rb = job->memory + lay->row_bias + (size_t)((here->item * p->rows + row) * ksize);
  if (p->column_bias || p->g->form) { /* a copy for a whole panel, also for its spare columns */
    const size_t used = (size_t)(here->columns * ksize);
    cb = here->own + lay->bias;
    memset(here->own + lay->bias + used, 0, (size_t)(job->k->nr * ksize) - used);
    memcpy(
        here->own + lay->bias,
        job->memory + lay->column_bias + (size_t)((here->item * p->columns + here->column) * ksize),
        used);
  }
  if (rb || cb || p->ep.scaled || p->ep.map) job->k->epilogue(here->tile, rows, &p->ep, rb, cb);
}

GPURED__FUNC void gpured__gemm_store_product(const gpured__gemm_job *job,
                                             const gpured__gemm_place *here, int64_t row,
                                             int64_t rows) {
  const gpured__gemm_plan *p = job->p;
  const gpured_tensor *c = p->g->c;
  int64_t i, at = gpured__gemm_offset(p, here->item, GPURED__PRODUCT) + row * p->product_row +
                  here->column * p->product_column;
  for (i = 0; i < rows; ++i)
    job->k->put((char *)c->data + (at + i * p->product_row) * (int64_t)gpured__dtype_size(c->dtype),
                c->dtype, p->product_column, here->tile + (size_t)(i * job->k->nr) * job->k->size,
                here->columns, GPURED__PLAIN);
}

/* A plane of partials: values, or what goes with them, of [blocks][NR] for one result. */
GPURED__INLINE char *gpured__gemm_plane(const gpured__gemm_job *job, char *partials, int result,
                                        int second) {
  return partials + (size_t)((2 * result + second) * job->lay->blocks * job->k->nr) * job->k->size;
}

/* The place of group `pair` of the batch. */
GPURED__FUNC void gpured__gemm_find(const gpured__gemm_job *job, int64_t pair, int thread,
                                    gpured__gemm_place *here) {
  const gpured__gemm_plan *p = job->p;
  const gpured__gemm_layout *lay = job->lay;
  const char *left = (const char *)p->left.data, *right = (const char *)p->right.data;
  const int64_t size = (int64_t)gpured__dtype_size(p->left.dtype);
  memset(here, 0, sizeof *here);
  here->item = pair / lay->groups;
  here->first = pair % lay->groups * lay->group;
  here->panels = gpured__min_i64(lay->group, lay->panels - here->first);
  here->left = left + gpured__gemm_offset(p, here->item, GPURED__LEFT) * size;
  here->right = right + gpured__gemm_offset(p, here->item, GPURED__RIGHT) * size;
  here->own = job->memory + lay->threads + (size_t)thread * lay->thread_bytes;
  here->group_partials = job->memory + lay->partials +
                         (size_t)(lay->segments > 1 ? pair : thread) * lay->partial_bytes;
  if (job->ahead_tiles[0] == 0 || here->item + 1 == p->batches) return;
  here->ahead[0] = left + gpured__gemm_offset(p, here->item + 1, GPURED__LEFT) * size;
  here->ahead[1] = right + gpured__gemm_offset(p, here->item + 1, GPURED__RIGHT) * size;
}

/* What an empty axis gives, for one result of one column. */
GPURED__FUNC void gpured__gemm_store_empty(const gpured__gemm_job *job, int r, int64_t item,
                                           int64_t column) {
  const gpured__gemm_plan *p = job->p;
  const gpured_tensor *out = &p->g->results[r].out;
  gpured__plan one;
  memset(&one, 0, sizeof one);
  one.op = p->g->results[r].op;
  one.acc = p->acc;
  one.in_dtype = p->left.dtype;
  one.out_dtype = out->dtype;
  one.outputs = 1;
  one.out = (char *)out->data + (gpured__gemm_offset(p, item, GPURED__GEMM_OPERANDS + r) +
                                 column * p->result_stride[r]) *
                                    (int64_t)gpured__dtype_size(out->dtype);
  gpured__store_empty(&one, job->k);
}

/* Combines the blocks of one panel for every result and stores it. */
GPURED__FUNC void gpured__gemm_finish(const gpured__gemm_job *job, const gpured__gemm_place *here) {
  const gpured__gemm_plan *p = job->p;
  double slots[GPURED__SLOT_BYTES / sizeof(double)];
  int64_t index[64], j;
  int r, op, kernel;
  char *first, *out;
  for (r = 0; r < p->g->count; ++r) {
    const gpured_tensor *t = &p->g->results[r].out;
    const int64_t size = (int64_t)gpured__dtype_size(t->dtype);
    op = p->g->results[r].op;
    if (gpured__is_short(p->g, op)) continue;
    kernel = gpured__gemm_kernel(op);
    first = gpured__gemm_plane(job, here->partials, r, 0);
    job->k->gemm_join(op, kernel, first, gpured__gemm_plane(job, here->partials, r, 1),
                      job->lay->blocks, p->rows, slots, index);
    out = (char *)t->data + (gpured__gemm_offset(p, here->item, GPURED__GEMM_OPERANDS + r) +
                             here->column * p->result_stride[r]) *
                                size;
    if (kernel != GPURED__ARG_MIN && kernel != GPURED__ARG_MAX)
      job->k->put(out, t->dtype, p->result_stride[r], first, here->columns,
                  gpured__gemm_enter(p, op));
    else
      for (j = 0; j < here->columns; ++j)
        gpured__store_index(out + j * p->result_stride[r] * size, t->dtype, index[j]);
  }
}

/* What follows when a tile is complete: epilogue, stored product, partials of all results. */
GPURED__FUNC void gpured__gemm_use_tile(const gpured__gemm_job *job, const gpured__gemm_place *here,
                                        int64_t block, int64_t rows) {
  const gpured__gemm_plan *p = job->p;
  const int64_t at = block * job->k->nr * (int64_t)job->k->size;
  int r, op;
  gpured__gemm_epilogue(job, here, block * GPURED__GEMM_BLOCK, rows);
  if (p->g->c) gpured__gemm_store_product(job, here, block * GPURED__GEMM_BLOCK, rows);
  for (r = 0; r < p->g->count; ++r) {
    op = p->g->results[r].op;
    if (gpured__is_short(p->g, op)) continue;
    job->k->gemm_columns(gpured__gemm_kernel(op), gpured__gemm_enter(p, op), here->tile, rows,
                         gpured__gemm_plane(job, here->partials, r, 0) + at,
                         gpured__gemm_plane(job, here->partials, r, 1) + at);
  }
}

/* One block of rows by all panels of the group. */
GPURED__FUNC void gpured__gemm_block(const gpured__gemm_job *job, gpured__gemm_place *here,
                                     int64_t block) {
  const gpured__gemm_plan *p = job->p;
  const int64_t row = block * GPURED__GEMM_BLOCK;
  const int64_t rows = gpured__min_i64(GPURED__GEMM_BLOCK, p->rows - row);
  gpured__gemm_operands o;
  int64_t at = 0, k, panel;
  o.spare = here->own;
  do {
    k = gpured__min_i64(job->lay->chunk, p->depth - at);
    gpured__gemm_left(job, here, row, rows, at, k, &o);
    for (panel = 0; panel < here->panels; ++panel) {
      gpured__gemm_turn(job, here, panel);
      gpured__gemm_right(job, here, at, k, &o);
      gpured__gemm_ahead(job, here, block, panel, at, rows, &o);
      job->k->gemm_tile(at > 0, here->tile, rows, &o);
      if (at + k == p->depth) gpured__gemm_use_tile(job, here, block, rows);
    }
    at += k;
  } while (at < p->depth);
}

GPURED__FUNC void gpured__gemm_finish_task(void *context, int64_t pair, int thread) {
  const gpured__gemm_job *job = (const gpured__gemm_job *)context;
  gpured__gemm_place here;
  int64_t panel;
  gpured__gemm_find(job, pair, thread, &here);
  for (panel = 0; panel < here.panels; ++panel) {
    gpured__gemm_turn(job, &here, panel);
    gpured__gemm_finish(job, &here);
  }
}

/* One task: the blocks of one segment of one group; the whole of it when there is one segment. */
GPURED__FUNC void gpured__gemm_task(void *context, int64_t task, int thread) {
  const gpured__gemm_job *job = (const gpured__gemm_job *)context;
  const gpured__gemm_layout *lay = job->lay;
  gpured__gemm_place here;
  int64_t block = task % lay->segments * lay->segment_blocks, end;
  gpured__gemm_find(job, task / lay->segments, thread, &here);
  end = gpured__min_i64(lay->blocks, block + lay->segment_blocks);
  for (; block < end; ++block) gpured__gemm_block(job, &here, block);
  if (lay->segments == 1) gpured__gemm_finish_task(context, task, thread);
}

/* Bytes of a matrix that is fetched before its turn: a small and dense one; otherwise 0. */
GPURED__FUNC int64_t gpured__gemm_span(const gpured_tensor *t) {
  const int64_t *s = t->strides + t->ndim - 2, *n = t->shape + t->ndim - 2;
  const double size = (double)gpured__dtype_size(t->dtype);
  const double span = (double)(n[0] - 1) * (double)s[0] + (double)(n[1] - 1) * (double)s[1] + 1;
  if (n[0] <= 0 || n[1] <= 0 || s[0] < 0 || s[1] < 0) return 0;
  if (span > 2 * (double)n[0] * (double)n[1] || span * size > (double)GPURED__AHEAD_BYTES) return 0;
  return (int64_t)(span * size);
}

/* Shares the next item out among the tiles of one. Nothing is fetched ahead if a task is not a
 * whole item, or an operand fills the cache. */
GPURED__FUNC void gpured__gemm_look_ahead(gpured__gemm_job *job) {
  const gpured__gemm_layout *lay = job->lay;
  const int64_t rows = gpured__min_i64(GPURED__GEMM_BLOCK, job->p->rows);
  const int64_t steps = gpured__ceil_div(rows, job->k->mr) * lay->chunk;
  const int64_t tiles = lay->panels * lay->blocks;
  int64_t bytes[2];
  int i;
  memset(job->ahead_tiles, 0, sizeof job->ahead_tiles);
  bytes[0] = gpured__gemm_span(&job->p->left);
  bytes[1] = gpured__gemm_span(&job->p->right);
  if (lay->groups > 1 || lay->segments > 1 || lay->chunk < job->p->depth) return;
  if (bytes[0] == 0 || bytes[1] == 0) return;
  job->ahead_tiles[0] = gpured__ceil_div(tiles * bytes[0], bytes[0] + bytes[1]);
  job->ahead_tiles[1] = tiles - job->ahead_tiles[0];
  for (i = 0; i < 2 && job->ahead_tiles[i] > 0; ++i) {
    job->ahead_bytes[i] = gpured__ceil_div(bytes[i], job->ahead_tiles[i]);
    job->hop[i] = gpured__min_i64(64, gpured__ceil_div(job->ahead_bytes[i], steps));
  }
}

/* ---- Vectors along one operand: biases, norms, column sums ---- */

/* Reduces `axes` of a view to [batch..., n] with the call's accumulator. weight: NULL, or
 * [batch..., extent of the axis] for Dot. */
GPURED__FUNC void gpured__gemm_reduce_view(const gpured__gemm_plan *p, const gpured_options *o,
                                           int op, const gpured_tensor *view, uint32_t axes,
                                           void *out, int64_t n, const void *weight) {
  gpured_tensor result = gpured__gemm_vector(p, out, n), w;
  gpured__plan plan;
  int i;
  for (i = 0; i < view->ndim; ++i) w.strides[i] = 0;
  if (weight) {
    w = gpured__gemm_vector(p, NULL, view->shape[p->batch_count]);
    w.strides[p->batch_count + 1] = 0;
  }
  gpured__plan_operands(&plan, op, view, &result);
  (void)gpured__plan_loops(&plan, view, axes, &result,
                           w.strides); /* shapes fit: they were made to */
  plan.acc = p->acc;
  plan.fetch = GPURED__PLAIN;
  plan.kernel = weight ? GPURED__DOT : gpured__kernel_of(op, p->acc != GPURED__U64);
  plan.weight = weight;
  gpured__run_reduce(&plan, o);
}

/* Biases to the accumulator's type; the norms of the L2 form. Reducing no axis converts. */
GPURED__FUNC void gpured__gemm_biases(const gpured__gemm_job *job, const gpured_options *o) {
  const gpured__gemm_plan *p = job->p;
  const uint32_t inner = 1u << (p->batch_count + 1), outer = 1u << p->batch_count;
  void *rows = job->memory + job->lay->row_bias, *columns = job->memory + job->lay->column_bias;
  gpured_tensor view;
  if (p->g->form == GPURED_FORM_L2) {
    view = gpured__gemm_view(p, &p->left, 2, GPURED__LEFT);
    gpured__gemm_reduce_view(p, o, GPURED_SUMSQ, &view, inner, rows, p->rows, NULL);
    view = gpured__gemm_view(p, &p->right, 2, GPURED__RIGHT);
    gpured__gemm_reduce_view(p, o, GPURED_SUMSQ, &view, outer, columns, p->columns, NULL);
  }
  if (p->row_bias) {
    view = gpured__gemm_view(p, p->row_bias, 1, GPURED__ROW_BIAS);
    gpured__gemm_reduce_view(p, o, GPURED_SUM, &view, 0, rows, p->rows, NULL);
  }
  if (p->column_bias) {
    view = gpured__gemm_view(p, p->column_bias, 1, GPURED__COLUMN_BIAS);
    gpured__gemm_reduce_view(p, o, GPURED_SUM, &view, 0, columns, p->columns, NULL);
  }
}

/* ---- The short road of sum and mean ---- */

/* Finishes one result of one column: docs/ORDER.md section 7.4. */
GPURED__FUNC double gpured__gemm_short_f64(const gpured__gemm_plan *p, double s,
                                           const double *row_sum, const double *column, int mean) {
  double t = p->ep.scaled ? gpured__mul_f64(p->ep.alpha, s) : s;
  const double n = (double)p->rows;
  if (row_sum) t = t + *row_sum;
  if (column) t = fma(n, *column, t);
  return mean ? t / n : t;
}

GPURED__FUNC float gpured__gemm_short_f32(const gpured__gemm_plan *p, float s, const float *row_sum,
                                          const float *column, int mean) {
  float t = p->ep.scaled ? gpured__mul_f32((float)p->ep.alpha, s) : s;
  const float n = (float)p->rows;
  if (row_sum) t = t + *row_sum;
  if (column) t = fmaf(n, *column, t);
  return mean ? t / n : t;
}

/* The values of a result for n columns from their dot products. */
GPURED__FUNC void gpured__gemm_short_values(const gpured__gemm_job *job, int64_t item,
                                            int64_t column, int64_t n, int mean, const char *dots,
                                            double *values) {
  const gpured__gemm_plan *p = job->p;
  const size_t size = job->k->size;
  const void *rb = NULL, *cb = NULL;
  float narrow;
  int64_t i;
  if (p->row_bias || p->g->form) rb = job->memory + job->lay->short_bias + (size_t)item * size;
  if (p->column_bias || p->g->form)
    cb = job->memory + job->lay->column_bias + (size_t)(item * p->columns + column) * size;
  memcpy(values, dots, (size_t)n * size);
  if (p->acc == GPURED__U64 || !(rb || cb || mean || p->ep.scaled)) return;
  if (p->acc == GPURED__F64) {
    for (i = 0; i < n; ++i)
      values[i] = gpured__gemm_short_f64(p, values[i], (const double *)rb,
                                         cb ? (const double *)cb + i : NULL, mean);
    return;
  }
  for (i = 0; i < n; ++i) {
    memcpy(&narrow, (char *)values + (size_t)i * size, size);
    narrow = gpured__gemm_short_f32(p, narrow, (const float *)rb, cb ? (const float *)cb + i : NULL,
                                    mean);
    memcpy((char *)values + (size_t)i * size, &narrow, size);
  }
}

/* Every short result of `count` columns of an item. */
GPURED__FUNC void gpured__gemm_short_store(const gpured__gemm_job *job, int64_t item,
                                           int64_t column, int64_t count, const char *dots) {
  const gpured__gemm_plan *p = job->p;
  double values[GPURED__BLOCK];
  int64_t at, n, offset;
  int r, mean;
  for (r = 0; r < p->g->count; ++r) {
    const gpured_tensor *out = &p->g->results[r].out;
    if (!gpured__is_short(p->g, p->g->results[r].op)) continue;
    mean = p->g->results[r].op == GPURED_MEAN;
    for (at = 0; at < count; at += n) {
      n = gpured__min_i64(GPURED__BLOCK, count - at);
      gpured__gemm_short_values(job, item, column + at, n, mean, dots + (size_t)at * job->k->size,
                                values);
      offset = gpured__gemm_offset(p, item, GPURED__GEMM_OPERANDS + r) +
               (column + at) * p->result_stride[r];
      job->k->put((char *)out->data + offset * (int64_t)gpured__dtype_size(out->dtype), out->dtype,
                  p->result_stride[r], values, n, GPURED__PLAIN);
    }
  }
}

/* The place of a task of the short road: a strip of `width` columns of an item. */
GPURED__INLINE int64_t gpured__gemm_short_place(const gpured__gemm_job *job, int64_t index,
                                                int64_t width, int64_t *item, int64_t *column) {
  const int64_t strip = job->lay->short_strip;
  const int64_t strips = width <= strip ? 1 : gpured__ceil_div(width, strip);
  *item = strips == 1 ? index : index / strips;
  *column = strips == 1 ? 0 : index % strips * strip;
  return gpured__min_i64(strip, width - *column);
}

/* Sums of some columns of the left operand. */
GPURED__FUNC void gpured__gemm_short_left(void *context, int64_t index, int thread) {
  const gpured__gemm_job *job = (const gpured__gemm_job *)context;
  const gpured__gemm_plan *p = job->p;
  const int64_t size = (int64_t)job->k->size;
  int64_t item, column, count = gpured__gemm_short_place(job, index, p->depth, &item, &column);
  char *slots = job->memory + job->lay->short_slots + (size_t)thread * job->lay->short_bytes;
  const char *x =
      (const char *)p->left.data + (gpured__gemm_offset(p, item, GPURED__LEFT) + column) * size;
  job->k->gemm_sums(x, p->left.strides[p->left.ndim - 2], NULL, p->rows, count, slots);
  memcpy(job->memory + job->lay->short_left + (size_t)((item * p->depth + column) * size), slots,
         (size_t)(count * size));
}

/* Their dot products with some columns of the right one, and what follows. */
GPURED__FUNC void gpured__gemm_short_right(void *context, int64_t index, int thread) {
  const gpured__gemm_job *job = (const gpured__gemm_job *)context;
  const gpured__gemm_plan *p = job->p;
  const int64_t size = (int64_t)job->k->size;
  int64_t item, column, count = gpured__gemm_short_place(job, index, p->columns, &item, &column);
  char *slots = job->memory + job->lay->short_slots + (size_t)thread * job->lay->short_bytes;
  const char *x =
      (const char *)p->right.data + (gpured__gemm_offset(p, item, GPURED__RIGHT) + column) * size;
  job->k->gemm_sums(x, p->right.strides[p->right.ndim - 2],
                    job->memory + job->lay->short_left + (size_t)(item * p->depth * size), p->depth,
                    count, slots);
  gpured__gemm_short_store(job, item, column, count, slots);
}

/* The same from dot products that section 13 has made. */
GPURED__FUNC void gpured__gemm_short_finish(void *context, int64_t index, int thread) {
  const gpured__gemm_job *job = (const gpured__gemm_job *)context;
  const int64_t columns = job->p->columns;
  int64_t item, column, count = gpured__gemm_short_place(job, index, columns, &item, &column);
  (void)thread;
  gpured__gemm_short_store(
      job, item, column, count,
      job->memory + job->lay->short_dot + (size_t)(item * columns + column) * job->k->size);
}

/* Column sums of the left operand, then their dot product with every column of the right one. */
GPURED__FUNC void gpured__gemm_short(gpured__gemm_job *job, const gpured_options *o, int threads) {
  const gpured__gemm_plan *p = job->p;
  const uint32_t outer = 1u << p->batch_count;
  const int64_t strip = job->lay->short_strip;
  char *sums = job->memory + job->lay->short_left, *dots = job->memory + job->lay->short_dot;
  char *rows = job->memory + job->lay->row_bias;
  gpured_tensor view;
  if (p->row_bias || p->g->form) {
    view = gpured__gemm_vector(p, rows, p->rows);
    gpured__gemm_reduce_view(p, o, GPURED_SUM, &view, outer, job->memory + job->lay->short_bias, 1,
                             NULL);
  }
  if (job->lay->short_direct) {
    gpured__parallel_for(threads, p->batches * gpured__ceil_div(p->depth, strip),
                         gpured__gemm_short_left, job);
    gpured__parallel_for(threads, p->batches * gpured__ceil_div(p->columns, strip),
                         gpured__gemm_short_right, job);
    return;
  }
  view = gpured__gemm_view(p, &p->left, 2, GPURED__LEFT);
  gpured__gemm_reduce_view(p, o, GPURED_SUM, &view, outer, sums, p->depth, NULL);
  view = gpured__gemm_view(p, &p->right, 2, GPURED__RIGHT);
  gpured__gemm_reduce_view(p, o, GPURED_SUM, &view, outer, dots, p->columns, sums);
  gpured__parallel_for(threads, p->batches * gpured__ceil_div(p->columns, strip),
                       gpured__gemm_short_finish, job);
}

GPURED__FUNC void gpured__gemm_store_all_empty(const gpured__gemm_job *job) {
  const gpured__gemm_plan *p = job->p;
  int64_t item, column;
  int r;
  for (item = 0; item < p->batches; ++item)
    for (column = 0; column < p->columns; ++column)
      for (r = 0; r < p->g->count; ++r) gpured__gemm_store_empty(job, r, item, column);
}

GPURED__FUNC int gpured__gemm_threads(const gpured__gemm_plan *p, const gpured_options *o) {
  const double rows = (double)p->rows, columns = (double)p->columns, depth = (double)p->depth;
  const double bytes = (rows + columns) * depth * (double)gpured__dtype_size(p->left.dtype);
  const double work = p->needs_product ? rows * columns * (1.0 + depth / 16) : bytes;
  return gpured__threads(o, (double)p->batches * work);
}

GPURED__FUNC void gpured__run_gemm(const gpured__gemm_plan *p, const gpured_options *o,
                                   const gpured__gemm_layout *lay, int threads, char *memory) {
  gpured__gemm_job job;
  const int64_t pairs = p->batches * lay->groups;
  job.p = p;
  job.k = gpured__get_level()->kernels[p->acc];
  job.lay = lay;
  job.memory = memory;
  if (p->batches == 0 || p->columns == 0) return;
  if (p->rows == 0) {
    gpured__gemm_store_all_empty(&job);
    return;
  }
  gpured__gemm_biases(&job, o);
  if (gpured__gemm_has_short(p)) gpured__gemm_short(&job, o, threads);
  if (!p->needs_product) return;
  gpured__gemm_look_ahead(&job);
  gpured__parallel_for(threads, pairs * lay->segments, gpured__gemm_task, &job);
  if (lay->segments > 1) gpured__parallel_for(threads, pairs, gpured__gemm_finish_task, &job);
}

/* ============================================================================================== */
/* 16  Public functions                                                                           */
/* ============================================================================================== */
/*
 * Check, plan, find memory, run. Each public call and its workspace query share one function, told
 * apart by `bytes`, so that they cannot disagree.
 */
#ifdef __cplusplus
extern "C" {
#endif

GPURED_API gpured_tensor gpured_array(const void *data, gpured_dtype dtype, int ndim,
                                      const int64_t *shape, const int64_t *strides) {
  gpured_tensor t;
  int64_t step = 1;
  int i;
  memset(&t, 0, sizeof t);
  memcpy(&t.data, &data,
         sizeof t.data); /* outputs pass through here too: const is the caller's promise */
  t.dtype = (int32_t)dtype;
  t.device = GPURED_CPU;
  t.ndim = ndim < 0 || ndim > GPURED_MAX_NDIM || (ndim > 0 && !shape) ? -1 : ndim;
  for (i = t.ndim - 1; i >= 0; --i) {
    t.shape[i] = shape[i];
    t.strides[i] = strides ? strides[i] : step;
    if (shape[i] > 0 && gpured__mul_size(step, shape[i], &step))
      step = INT64_MAX; /* refused by the call */
  }
  return t;
}

GPURED_API gpured_tensor gpured_vector(const void *data, gpured_dtype dtype, int64_t n) {
  return gpured_array(data, dtype, 1, &n, NULL);
}

GPURED_API gpured_tensor gpured_matrix(const void *data, gpured_dtype dtype, int64_t rows,
                                       int64_t cols) {
  int64_t shape[2];
  shape[0] = rows;
  shape[1] = cols;
  return gpured_array(data, dtype, 2, shape, NULL);
}

/* Reduce, or its workspace query when bytes is not NULL. */
static gpured_status gpured__do_reduce(gpured_op op, const gpured_tensor *in, uint32_t axes,
                                       const gpured_tensor *out, const gpured_options *options,
                                       size_t *bytes) {
  gpured__call call;
  gpured__plan plan;
  gpured__mode mode;
  gpured_tensor own[2];
  const gpured_tensor *tensors[2];
  gpured_status st;
  if (op < GPURED_SUM || op > GPURED_COUNT_NONZERO) return GPURED_ERR_ARG;
  if ((st = gpured__check_options(options, bytes != NULL, &call)) != GPURED_OK) return st;
  if ((st = gpured__check_tensor(in, call.query)) != GPURED_OK) return st;
  if ((st = gpured__check_tensor(out, call.query)) != GPURED_OK) return st;
  in = gpured__settle(in, &own[0]);
  out = gpured__settle(out, &own[1]);
  if (axes >> in->ndim != 0) return GPURED_ERR_ARG;
  if ((st = gpured__plan_reduce(&plan, (int)op, in, axes, out, &call)) != GPURED_OK) return st;
  tensors[0] = in;
  tensors[1] = out;
  if ((st = gpured__check_output(out, tensors, 1, call.query)) != GPURED_OK) return st;
  if ((st = gpured__check_backend(&call, tensors, 2)) != GPURED_OK) return st;
  call.spread = gpured__spread_tasks;
  if (!call.other && call.query) return GPURED_OK; /* the CPU needs none */
  mode = gpured__mode_enter();
  if (call.other)
    st = call.other->reduce(&plan, &call, bytes);
  else
    gpured__run_reduce(&plan, &call.o);
  gpured__mode_leave(mode);
  return st;
}

GPURED_API gpured_status gpured_reduce(gpured_op op, const gpured_tensor *in, uint32_t axes,
                                       const gpured_tensor *out, const gpured_options *options) {
  if (gpured__small_call((int)op, in, axes, out, options)) return GPURED_OK;
  return gpured__do_reduce(op, in, axes, out, options, NULL);
}

GPURED_API gpured_status gpured_reduce_workspace(gpured_op op, const gpured_tensor *in,
                                                 uint32_t axes, const gpured_tensor *out,
                                                 const gpured_options *options, size_t *bytes) {
  if (!bytes) return GPURED_ERR_ARG;
  *bytes = 0;
  return gpured__do_reduce(op, in, axes, out, options, bytes);
}

static gpured_status gpured__do_scan(gpured_op op, const gpured_tensor *in, int axis,
                                     unsigned flags, const gpured_tensor *out,
                                     const gpured_options *options, size_t *bytes) {
  gpured__call call;
  gpured__plan plan;
  gpured__mode mode;
  gpured_tensor own[2];
  const gpured_tensor *tensors[2];
  gpured_status st;
  if (op < GPURED_SUM || op > GPURED_COUNT_NONZERO) return GPURED_ERR_ARG;
  if (flags & ~(unsigned)(GPURED_SCAN_EXCLUSIVE | GPURED_SCAN_REVERSE)) return GPURED_ERR_ARG;
  if ((st = gpured__check_options(options, bytes != NULL, &call)) != GPURED_OK) return st;
  if ((st = gpured__check_tensor(in, call.query)) != GPURED_OK) return st;
  if ((st = gpured__check_tensor(out, call.query)) != GPURED_OK) return st;
  in = gpured__settle(in, &own[0]);
  out = gpured__settle(out, &own[1]);
  if (axis < 0 || axis >= in->ndim) return GPURED_ERR_ARG;
  if (op != GPURED_SUM && op != GPURED_PROD && op != GPURED_MIN && op != GPURED_MAX &&
      op != GPURED_LOGSUMEXP)
    return GPURED_ERR_UNSUPPORTED;
  if ((st = gpured__plan_scan(&plan, (int)op, in, axis, flags, out, &call)) != GPURED_OK) return st;
  tensors[0] = in;
  tensors[1] = out;
  if ((st = gpured__check_output(out, tensors, gpured__same_memory(in, out) ? 0 : 1, call.query)) !=
      GPURED_OK)
    return st;
  if ((st = gpured__check_backend(&call, tensors, 2)) != GPURED_OK) return st;
  call.spread = gpured__spread_tasks;
  if (!call.other && call.query) return GPURED_OK;
  mode = gpured__mode_enter();
  if (call.other)
    st = call.other->scan(&plan, &call, bytes);
  else
    gpured__run_scan(&plan, &call.o);
  gpured__mode_leave(mode);
  return st;
}

GPURED_API gpured_status gpured_scan(gpured_op op, const gpured_tensor *in, int axis,
                                     unsigned flags, const gpured_tensor *out,
                                     const gpured_options *options) {
  return gpured__do_scan(op, in, axis, flags, out, options, NULL);
}

GPURED_API gpured_status gpured_scan_workspace(gpured_op op, const gpured_tensor *in, int axis,
                                               unsigned flags, const gpured_tensor *out,
                                               const gpured_options *options, size_t *bytes) {
  if (!bytes) return GPURED_ERR_ARG;
  *bytes = 0;
  return gpured__do_scan(op, in, axis, flags, out, options, bytes);
}

/* Pointers, enumerations and tensors of a GEMM description. */
GPURED__FUNC gpured_status gpured__check_gemm(const gpured_gemm *g, int query) {
  gpured_status st;
  int r;
  if (!g || g->struct_size != sizeof *g || !g->results) return GPURED_ERR_ARG;
  if (g->axis < 0 || g->axis > 1 || g->count < 1 || g->count > GPURED_MAX_RESULTS)
    return GPURED_ERR_ARG;
  if (g->map < GPURED_MAP_NONE || g->map > GPURED_MAP_SQUARE) return GPURED_ERR_ARG;
  if (g->form < GPURED_FORM_PLAIN || g->form > GPURED_FORM_L2) return GPURED_ERR_ARG;
  if ((st = gpured__check_tensor(g->a, query)) != GPURED_OK) return st;
  if ((st = gpured__check_tensor(g->b, query)) != GPURED_OK) return st;
  if (g->bias_m && (st = gpured__check_tensor(g->bias_m, query)) != GPURED_OK) return st;
  if (g->bias_n && (st = gpured__check_tensor(g->bias_n, query)) != GPURED_OK) return st;
  if (g->c && (st = gpured__check_tensor(g->c, query)) != GPURED_OK) return st;
  for (r = 0; r < g->count; ++r) {
    if (g->results[r].op < GPURED_SUM || g->results[r].op > GPURED_COUNT_NONZERO)
      return GPURED_ERR_ARG;
    if ((st = gpured__check_tensor(&g->results[r].out, query)) != GPURED_OK) return st;
  }
  return GPURED_OK;
}

typedef struct gpured__settled_gemm {
  gpured_gemm g;
  gpured_tensor operand[5];
  gpured_result results[GPURED_MAX_RESULTS];
} gpured__settled_gemm;

/* The description with every tensor as gpured__settle() gives it. */
GPURED__FUNC const gpured_gemm *gpured__settle_gemm(const gpured_gemm *g,
                                                    gpured__settled_gemm *own) {
  gpured_tensor out;
  int r;
  own->g = *g;
  own->g.a = gpured__settle(g->a, &own->operand[0]);
  own->g.b = gpured__settle(g->b, &own->operand[1]);
  if (g->bias_m) own->g.bias_m = gpured__settle(g->bias_m, &own->operand[2]);
  if (g->bias_n) own->g.bias_n = gpured__settle(g->bias_n, &own->operand[3]);
  if (g->c) own->g.c = gpured__settle(g->c, &own->operand[4]);
  own->g.results = own->results;
  for (r = 0; r < g->count; ++r) {
    own->results[r].op = g->results[r].op;
    own->results[r].out = *gpured__settle(&g->results[r].out, &out);
  }
  return &own->g;
}

/* Takes the GEMM's own memory out of the caller's workspace: the reductions inside the call may use
 * what is behind it, and find none where nothing is left. */
GPURED__FUNC void gpured__use_workspace(gpured_options *o, size_t bytes) {
  size_t used = bytes + (64 - bytes % 64) % 64;
  if (!o->workspace) return;
  if (used > o->workspace_bytes) used = o->workspace_bytes;
  o->workspace = (char *)o->workspace + used;
  o->workspace_bytes -= used;
}

/* No output overlaps an input or another output; all live where the backend is. */
GPURED__FUNC gpured_status gpured__check_gemm_memory(const gpured_gemm *g, gpured__call *call) {
  const gpured_tensor *t[5 + GPURED_MAX_RESULTS];
  gpured_status st;
  int r, n = 4;
  t[0] = g->a;
  t[1] = g->b;
  t[2] = g->bias_m;
  t[3] = g->bias_n;
  if (g->c) {
    if ((st = gpured__check_output(g->c, t, n, call->query)) != GPURED_OK) return st;
    t[n++] = g->c;
  }
  for (r = 0; r < g->count; ++r) {
    if ((st = gpured__check_output(&g->results[r].out, t, n, call->query)) != GPURED_OK) return st;
    t[n++] = &g->results[r].out;
  }
  return gpured__check_backend(call, t, n);
}

static gpured_status gpured__do_gemm(const gpured_gemm *g, const gpured_options *options,
                                     size_t *bytes) {
  gpured__call call;
  gpured__settled_gemm own;
  gpured__gemm_plan plan;
  gpured__gemm_layout layout;
  gpured__memory memory;
  gpured__mode mode;
  gpured_status st;
  int threads;
  if ((st = gpured__check_options(options, bytes != NULL, &call)) != GPURED_OK) return st;
  if ((st = gpured__check_gemm(g, call.query)) != GPURED_OK) return st;
  g = gpured__settle_gemm(g, &own);
  if ((st = gpured__plan_gemm(&plan, g, &call)) != GPURED_OK) return st;
  if ((st = gpured__check_gemm_memory(g, &call)) != GPURED_OK) return st;
  call.spread = gpured__spread_tasks;
  if (call.other) { /* in the default mode too: it makes a float of alpha */
    mode = gpured__mode_enter();
    st = call.other->gemm(&plan, &call, bytes);
    gpured__mode_leave(mode);
    return st;
  }
  threads = gpured__gemm_threads(&plan, &call.o);
  gpured__gemm_lay_out(&plan, gpured__get_level()->kernels[plan.acc], threads, &layout);
  if (layout.total == SIZE_MAX) return GPURED_ERR_OVERFLOW;
  if (bytes) {
    *bytes = layout.total;
    return GPURED_OK;
  }
  if ((st = gpured__acquire(&call.o, layout.total, &memory)) != GPURED_OK) return st;
  gpured__use_workspace(&call.o, layout.total);
  mode = gpured__mode_enter();
  gpured__run_gemm(&plan, &call.o, &layout, threads, memory.start);
  gpured__mode_leave(mode);
  gpured__release(&call.o, &memory);
  return GPURED_OK;
}

GPURED_API gpured_status gpured_gemm_reduce_ex(const gpured_gemm *gemm,
                                               const gpured_options *options) {
  return gpured__do_gemm(gemm, options, NULL);
}

GPURED_API gpured_status gpured_gemm_reduce_ex_workspace(const gpured_gemm *gemm,
                                                         const gpured_options *options,
                                                         size_t *bytes) {
  if (!bytes) return GPURED_ERR_ARG;
  *bytes = 0;
  return gpured__do_gemm(gemm, options, bytes);
}

static gpured_status gpured__do_gemm_simple(gpured_op op, const gpured_tensor *a,
                                            const gpured_tensor *b, int axis,
                                            const gpured_tensor *d, const gpured_options *options,
                                            size_t *bytes) {
  gpured_gemm g = gpured_default_gemm();
  gpured_result result;
  if (!d) return GPURED_ERR_ARG;
  result.op = (int32_t)op;
  result.out = *d;
  g.a = a;
  g.b = b;
  g.axis = axis;
  g.count = 1;
  g.results = &result;
  return gpured__do_gemm(&g, options, bytes);
}

GPURED_API gpured_status gpured_gemm_reduce(gpured_op op, const gpured_tensor *a,
                                            const gpured_tensor *b, int axis,
                                            const gpured_tensor *d, const gpured_options *options) {
  return gpured__do_gemm_simple(op, a, b, axis, d, options, NULL);
}

GPURED_API gpured_status gpured_gemm_reduce_workspace(gpured_op op, const gpured_tensor *a,
                                                      const gpured_tensor *b, int axis,
                                                      const gpured_tensor *d,
                                                      const gpured_options *options,
                                                      size_t *bytes) {
  if (!bytes) return GPURED_ERR_ARG;
  *bytes = 0;
  return gpured__do_gemm_simple(op, a, b, axis, d, options, bytes);
}

/* ---- One-liners ---- */

/* Reduces a host array to one value of its dtype (or an index); leaves *out alone when the call is
 * refused. */
static void gpured__flat(gpured_op op, const void *x, gpured_dtype dtype, size_t n,
                         gpured_dtype out_dtype, void *out) {
  gpured_tensor in, result;
  if (n > (size_t)INT64_MAX) return;
  if (out_dtype == dtype && gpured__small((int)op, (int32_t)dtype, x, 1, (int64_t)n, 2, out))
    return;
  in = gpured_vector(x, dtype, (int64_t)n);
  result = gpured_array(out, out_dtype, 0, NULL, NULL);
  (void)gpured_reduce(op, &in, 1u, &result, NULL);
}

#define GPURED__FLAT(name, op, type, tag, dtype)                   \
  GPURED_API type gpured_##name##_##tag(const type *x, size_t n) { \
    type y = gpured__quiet_nan_##tag();                            \
    gpured__flat(op, x, dtype, n, dtype, &y);                      \
    return y;                                                      \
  }
#define GPURED__FLAT_INDEX(name, op, type, tag, dtype)                \
  GPURED_API int64_t gpured_##name##_##tag(const type *x, size_t n) { \
    int64_t y = -1;                                                   \
    gpured__flat(op, x, dtype, n, GPURED_I64, &y);                    \
    return y;                                                         \
  }
#define GPURED__MATRIX(name, axis, kept, type, tag, dtype)                                     \
  GPURED_API gpured_status gpured_##name##_##tag(const type *a, size_t rows, size_t cols,      \
                                                 type *out) {                                  \
    gpured_tensor in, result;                                                                  \
    if (rows > (size_t)INT64_MAX || cols > (size_t)INT64_MAX) return GPURED_ERR_OVERFLOW;      \
    if (gpured__small(GPURED_SUM, (int32_t)dtype, a, (int64_t)rows, (int64_t)cols, axis, out)) \
      return GPURED_OK;                                                                        \
    in = gpured_matrix(a, dtype, (int64_t)rows, (int64_t)cols);                                \
    result = gpured_vector(out, dtype, (int64_t)(kept));                                       \
    return gpured_reduce(GPURED_SUM, &in, 1u << (axis), &result, NULL);                        \
  }
#define GPURED__CUMSUM(type, tag, dtype)                                           \
  GPURED_API gpured_status gpured_cumsum_##tag(const type *x, type *y, size_t n) { \
    gpured_tensor in, out;                                                         \
    if (n > (size_t)INT64_MAX) return GPURED_ERR_OVERFLOW;                         \
    in = gpured_vector(x, dtype, (int64_t)n);                                      \
    out = gpured_vector(y, dtype, (int64_t)n);                                     \
    return gpured_scan(GPURED_SUM, &in, 0, 0, &out, NULL);                         \
  }
#define GPURED__ONE_LINERS(type, tag, dtype)                  \
  GPURED__FLAT(sum, GPURED_SUM, type, tag, dtype)             \
  GPURED__FLAT(mean, GPURED_MEAN, type, tag, dtype)           \
  GPURED__FLAT(min, GPURED_MIN, type, tag, dtype)             \
  GPURED__FLAT(max, GPURED_MAX, type, tag, dtype)             \
  GPURED__FLAT_INDEX(argmin, GPURED_ARGMIN, type, tag, dtype) \
  GPURED__FLAT_INDEX(argmax, GPURED_ARGMAX, type, tag, dtype) \
  GPURED__MATRIX(sum_rows, 1, rows, type, tag, dtype)         \
  GPURED__MATRIX(sum_cols, 0, cols, type, tag, dtype)         \
  GPURED__CUMSUM(type, tag, dtype)

GPURED__ONE_LINERS(float, f32, GPURED_F32)
GPURED__ONE_LINERS(double, f64, GPURED_F64)

/* ---- Information ---- */

GPURED_API const char *gpured_status_string(gpured_status status) {
  switch (status) {
    case GPURED_OK:
      return "ok";
    case GPURED_ERR_ARG:
      return "invalid argument: a NULL or misaligned pointer, or a value outside its range";
    case GPURED_ERR_SHAPE:
      return "shapes do not fit, or an extent is not allowed";
    case GPURED_ERR_UNSUPPORTED:
      return "this combination of operation, types and options is not supported";
    case GPURED_ERR_OVERFLOW:
      return "a size, an offset or an index is too large for its type";
    case GPURED_ERR_ALIAS:
      return "an output overlaps an input, another output or itself";
    case GPURED_ERR_WORKSPACE:
      return "the given workspace is too small";
    case GPURED_ERR_ALLOC:
      return "out of memory";
    case GPURED_ERR_NO_BACKEND:
      return "the backend asked for is not available";
    case GPURED_ERR_DEVICE:
      return "the device reported an error";
  }
  return "unknown status";
}

GPURED_API size_t gpured_dtype_size(gpured_dtype dtype) {
  return gpured__dtype_size((int32_t)dtype);
}
GPURED_API unsigned gpured_version(void) { return (unsigned)GPURED_VERSION; }
GPURED_API int gpured_cuda_available(void) { return gpured__find_cuda() != NULL; }
GPURED_API const char *gpured_cpu_level(void) { return gpured__get_level()->name; }

/* ============================================================================================== */
/* 17  Self-test                                                                                  */
/* ============================================================================================== */
/*
 * What a build or a machine can break without any other sign: fused products, flushed subnormals,
 * another rounding mode, NaN tests optimised away, signs of zero, and the order itself in each
 * accumulator. Inputs come from a small generator, expectations are hashes of bits.
 */
enum { GPURED__SELF_N = 1300, GPURED__SELF_OUT = 64, GPURED__SELF_ROW = 41 };
#define GPURED__SELF_HASH_F32 0x190c998ed0e18611u
#define GPURED__SELF_HASH_F64 0xe8849d126cc28a24u

/* Two inputs for each type: values of 24 significant bits between -2 and 2 (xorshift64, Marsaglia
 * 2003), and rows of subnormals, of zeros of both signs, with infinities, and with NaN. */
typedef struct gpured__self_data {
  float f[GPURED__SELF_N], special_f[4][GPURED__SELF_ROW];
  double d[GPURED__SELF_N], special_d[4][GPURED__SELF_ROW];
} gpured__self_data;

static void gpured__self_fill(gpured__self_data *s) {
  const float infinity = gpured__infinity_f32(), nan = gpured__quiet_nan_f32();
  uint64_t x = 88172645463325252u;
  int i;
  for (i = 0; i < GPURED__SELF_N; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    s->d[i] = ((double)(x >> 40) - 8388608.0) / 4194304.0;
    s->f[i] = (float)s->d[i];
  }
  for (i = 0; i < GPURED__SELF_ROW; ++i) {
    s->special_f[0][i] = gpured__from_bits_f32((uint32_t)(7 * i + 1) | (uint32_t)(i & 1) << 31);
    s->special_d[0][i] = gpured__from_bits_f64((uint64_t)(7 * i + 1) | (uint64_t)(i & 1) << 63);
    s->special_f[1][i] = gpured__from_bits_f32((uint32_t)(i % 3 != 0) << 31);
    s->special_f[2][i] = i % 5 == 3 ? infinity : s->f[i];
    s->special_f[3][i] = i % 20 == 19 ? nan : i % 5 == 3 ? -infinity : s->f[i];
    s->special_d[1][i] = (double)s->special_f[1][i];
    s->special_d[2][i] = i % 5 == 3 ? gpured__infinity_f64() : s->d[i];
    s->special_d[3][i] = i % 20 == 19 ? gpured__quiet_nan_f64() : (double)s->special_f[3][i];
  }
}

/* FNV-1a over the bit patterns of n results of the given size, the same on either byte order. */
static uint64_t gpured__self_hash(uint64_t hash, const void *values, int n, size_t size) {
  uint64_t word;
  uint16_t half;
  int i, b;
  for (i = 0; i < n; ++i) {
    if (size == 2) {
      memcpy(&half, (const char *)values + 2 * i, 2);
      word = half;
    } else {
      memcpy(&word, (const char *)values + 8 * i, 8);
    }
    for (b = 0; b < 64; b += 8) hash = (hash ^ (word >> b & 255u)) * 1099511628211u;
  }
  return hash;
}

/* The arithmetic that everything rests on, with operands the compiler cannot see. */
static int gpured__self_arithmetic(void) {
  volatile float tiny = 1.1754943508222875e-38f, one = 1.0f, step = 1.000244140625f, zero = 0.0f;
  volatile float half = tiny * 0.5f, product = step * step, sum;
  volatile double tiny_f64 = 2.2250738585072014e-308, half_f64 = tiny_f64 * 0.5;
  volatile double step_f64 = 1.0000000074505806, product_f64 = step_f64 * step_f64;
  const float s = step, fused = gpured__mul_f32(s, s) - 1.00048828125f;
  const double s_f64 = step_f64, fused_f64 = gpured__mul_f64(s_f64, s_f64) - 1.0000000149011612;
  const float nan = zero / zero, minus = -zero;
  sum = product - 1.00048828125f;
  if (half <= 0.0f || (float)(half + half) < tiny || (float)(half + half) > tiny) return 0;
  if (half_f64 <= 0.0 || half_f64 + half_f64 < tiny_f64) return 0;
  if (fmaf(step, step, -1.00048828125f) <= sum)
    return 0; /* the square needs 25 bits: fma keeps the last, the product does not */
  if (fused < sum || fused > sum || fused_f64 != product_f64 - 1.0000000149011612) return 0;
  if (!gpured__isnan_f32(nan) || nan == nan) return 0;
  if (gpured__bits_f32(minus) != 0x80000000u || gpured__bits_f32(minus + 0.0f) != 0 ||
      gpured__bits_f32(0.0f - zero) != 0)
    return 0; /* the sign of zero; compilers that do without it drop these additions */
  return one + 5.9604644775390625e-8f <= one &&
         one + 5.9604651880817983e-8f > one; /* ties to even, no wider register */
}

/* Reductions, products and scans of generated values. */
static gpured_status gpured__self_plain(const gpured_options *o, gpured_dtype dtype,
                                        const void *data, uint64_t *hash) {
  static const gpured_op reduce[] = {GPURED_SUM, GPURED_PROD,      GPURED_NORM2,
                                     GPURED_MAX, GPURED_LOGSUMEXP, GPURED_STD};
  static const gpured_op gemm[] = {GPURED_SUM, GPURED_SUMSQ, GPURED_LOGSUMEXP, GPURED_ABSMAX};
  double out[GPURED__SELF_OUT];
  gpured_tensor x = gpured_vector(data, dtype, GPURED__SELF_N),
                y = gpured_vector(out, GPURED_F64, 1);
  gpured_tensor a = gpured_matrix(data, dtype, 33, 17), b = gpured_matrix(data, dtype, 17, 5);
  gpured_status st;
  size_t i;
  for (i = 0; i < sizeof reduce / sizeof *reduce; ++i) {
    if ((st = gpured_reduce(reduce[i], &x, 1u, &y, o)) != GPURED_OK) return st;
    *hash = gpured__self_hash(*hash, out, 1, 8);
  }
  y.shape[0] = 5;
  for (i = 0; i < sizeof gemm / sizeof *gemm; ++i) {
    if ((st = gpured_gemm_reduce(gemm[i], &a, &b, 0, &y, o)) != GPURED_OK) return st;
    *hash = gpured__self_hash(*hash, out, 5, 8);
  }
  x.shape[0] = y.shape[0] = GPURED__SELF_OUT;
  for (i = 0; i < 2; ++i) {
    if ((st = gpured_scan(i ? GPURED_LOGSUMEXP : GPURED_SUM, &x, 0, 0, &y, o)) != GPURED_OK)
      return st;
    *hash = gpured__self_hash(*hash, out, GPURED__SELF_OUT, 8);
  }
  return GPURED_OK;
}

/* Each special row reduced, and stored as the 16-bit floats. */
static gpured_status gpured__self_special(const gpured_options *o, gpured_dtype dtype,
                                          const void *data, uint64_t *hash) {
  static const gpured_op ops[] = {GPURED_SUM,    GPURED_MIN,          GPURED_MAX,
                                  GPURED_ARGMIN, GPURED_ARGMAX,       GPURED_LOGSUMEXP,
                                  GPURED_VAR,    GPURED_COUNT_NONZERO};
  double out[GPURED__SELF_ROW];
  gpured_tensor x = gpured_matrix(data, dtype, 4, GPURED__SELF_ROW), y;
  gpured_status st;
  size_t i;
  for (i = 0; i < sizeof ops / sizeof *ops; ++i) {
    y = gpured_vector(out, i == 3 || i == 4 || i == 7 ? GPURED_I64 : GPURED_F64, 4);
    if ((st = gpured_reduce(ops[i], &x, 2u, &y, o)) != GPURED_OK) return st;
    *hash = gpured__self_hash(*hash, out, 4, 8);
  }
  x = gpured_matrix(data, dtype, 4 * GPURED__SELF_ROW, 1);
  for (i = 0; i < 2; ++i) {
    y = gpured_vector(out, i ? GPURED_BF16 : GPURED_F16, 4 * GPURED__SELF_ROW);
    if ((st = gpured_reduce(GPURED_SUM, &x, 2u, &y, o)) != GPURED_OK) return st;
    *hash = gpured__self_hash(*hash, out, 4 * GPURED__SELF_ROW, 2);
  }
  return GPURED_OK;
}

/* All of it on one backend, to one hash for each accumulator. */
static gpured_status gpured__self_bits(const gpured__self_data *s, gpured_backend backend) {
  gpured_options o = gpured_default_options();
  uint64_t hash32 = 14695981039346656037u, hash64 = hash32;
  gpured_status st;
  o.backend = (int32_t)backend;
  if ((st = gpured__self_plain(&o, GPURED_F32, s->f, &hash32)) != GPURED_OK) return st;
  if ((st = gpured__self_special(&o, GPURED_F32, s->special_f, &hash32)) != GPURED_OK) return st;
  if ((st = gpured__self_plain(&o, GPURED_F64, s->d, &hash64)) != GPURED_OK) return st;
  if ((st = gpured__self_special(&o, GPURED_F64, s->special_d, &hash64)) != GPURED_OK) return st;
  if (hash32 != GPURED__SELF_HASH_F32 || hash64 != GPURED__SELF_HASH_F64)
    return GPURED_ERR_UNSUPPORTED;
  return GPURED_OK;
}

GPURED_API gpured_status gpured_selftest(void) {
  gpured__self_data data;
  gpured_status st;
  gpured__mode mode = gpured__mode_enter();
  const int sound = gpured__self_arithmetic();
  gpured__self_fill(&data);
  gpured__mode_leave(mode);
  if (!sound) return GPURED_ERR_UNSUPPORTED;
  if ((st = gpured__self_bits(&data, GPURED_BACKEND_CPU)) != GPURED_OK) return st;
  return gpured_cuda_available() ? gpured__self_bits(&data, GPURED_BACKEND_CUDA) : GPURED_OK;
}

#ifdef __cplusplus
}
#endif

#if GPURED__PRECISE
#pragma float_control(pop)
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif /* sections 11 to 17 */
#endif /* GPURED_IMPLEMENTATION */
