/*
 * gpured on NVIDIA GPUs: reductions, scans and GEMM-reduce of gpured.h, bit for bit the CPU's.
 *
 * SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the gpured authors. The full text of the licence is in the file LICENSE.
 *
 * Compile this file with nvcc beside gpured.h, and the file that holds the implementation with
 * -DGPURED_CUDA; the program links with a C compiler and cudart. Sections mirror gpured.h: scalars,
 * operations, kernels of reduce, kernels of scan, then what the host does for both; GEMM-reduce
 * with its own host side; tensors of the host, the table, and the tables of kernels. The rules
 * (planning, constants, classes, neutral results) are gpured.h's own, included below.
 *
 * HOW THE BITS STAY THE SAME
 *   docs/ORDER.md says which additions are done; who does them is free. A lane of a block is summed
 * by one thread in ascending order, blocks meet in the adjacent-pair tree by shuffles, in shared
 * memory (a cluster's, too), in words that blocks of threads show each other or in a second launch,
 * and what does not exist is a neutral element, which changes no bit of its partner. Every
 * floating-point operation is PTX that says how it rounds, so no compiler flag fuses or flushes
 * anything.
 *
 * Kernels are templates even where nothing varies: nvcc gives others a host function of a global
 * name, and this file has one global name only.
 */
#define GPURED_IMPLEMENTATION
#define GPURED__DRIVERS /* sections 4 to 9 are all that is needed here */
#define GPURED_NO_SIMD
#define GPURED_NO_OPENMP
#ifndef GPURED_CUDA
#define GPURED_CUDA
#endif
#define GPURED__SCALAR static __host__ __device__ __attribute__((unused)) inline
#define GPURED__NUMBERS static __device__ const
#include "gpured.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <sched.h>

/*
 * As a whole this file is one object, with one global name. Its kernels keep a compiler busy for
 * most of an hour, so it can be compiled in parts too, side by side: with GPURED_CUDA_PART from 0
 * to GPURED__PARTS - 1, whose objects are linked together. Part 0 has what the host does; the
 * others have the kernels that the tables of section 18 name, and part 0 asks those for them.
 */
#define GPURED__PARTS 14
#ifdef GPURED_CUDA_PART
#if GPURED_CUDA_PART < 0 || GPURED_CUDA_PART >= GPURED__PARTS
#error GPURED_CUDA_PART: no such part
#endif
#define GPURED__HAS(part) (GPURED_CUDA_PART == (part))
#define GPURED__MEETS (GPURED_CUDA_PART >= 1 && GPURED_CUDA_PART <= 5) /* segments, in kernels */
#define GPURED__TABLE extern "C" __attribute__((visibility("hidden")))
#ifdef __NVCC_DIAG_PRAGMA_SUPPORT__ /* a part has helpers that its kernels do not need */
#pragma nv_diag_suppress 177
#endif
#pragma GCC diagnostic ignored "-Wunused-function"
#else
#define GPURED__HAS(part) 1
#define GPURED__MEETS 1
#define GPURED__TABLE static
#endif

#define GPURED__DEV static __device__ __forceinline__ __attribute__((unused)) /* by some GPUs */

namespace {
struct machine;
struct product_launch;
} /* namespace */

/* The tables of kernels. acc, dtype and kind are numbers of sections 2 and 3, the others of
 * section 9. */
GPURED__TABLE const void *gpured__any_kernel(int acc, int kind, int route);
GPURED__TABLE const void *gpured__f32_kernel(int how, int kind);
GPURED__TABLE const void *gpured__f16_kernel(int how, int kind);
GPURED__TABLE const void *gpured__bf16_kernel(int how, int kind);
GPURED__TABLE const void *gpured__f64_kernel(int how, int kind);
GPURED__TABLE const void *gpured__f32_in_f64_kernel(int how, int kind);
GPURED__TABLE const void *gpured__truth_kernel(int dtype, int how, int kind);
GPURED__TABLE const void *gpured__integer_kernel(int dtype, int how, int kind);
GPURED__TABLE const void *gpured__byte_kernel(int dtype, int how, int kind);
GPURED__TABLE const void *gpured__real_kernel(int dtype, int how, int kind);
GPURED__TABLE const void *gpured__channel_kernel(int acc, int dtype, int kind, int turns);
GPURED__TABLE const void *gpured__best_kernel(int acc, int dtype, int span);
GPURED__TABLE const void *gpured__scan_kernel(int acc, int kind);
GPURED__TABLE const void *gpured__stream_kernel(int acc, int kind, int dtype, int turned);
GPURED__TABLE const void *gpured__once_kernel(int acc, int kind, int dtype);
GPURED__TABLE const void *gpured__beside_kernel(int acc, int kind, int64_t n, int unit);
GPURED__TABLE const void *gpured__few_kernel(int acc, int kind, int dtype, int loose);
GPURED__TABLE const void *gpured__short_scan_kernel(int acc, int kind, int dtype, int vectors);
GPURED__TABLE const void *gpured__row_scan_kernel(int kind, int dtype, int chunks);
GPURED__TABLE const void *gpured__column_scan_kernel(int acc, int kind, int dtype);
GPURED__TABLE const void *gpured__tensor_kernel(int tile, int kind);
GPURED__TABLE const void *gpured__hmma_kernel(int kind);
GPURED__TABLE const void *gpured__dot_kernel(int acc, int dtype, int how);
GPURED__TABLE const void *gpured__integer_dot_kernel(int dtype, int along, int vector);
GPURED__TABLE void gpured__use_f32_tile(const machine *m, int tile, int which, product_launch *l);
GPURED__TABLE void gpured__use_f64_tile(const machine *m, int tile, int which, product_launch *l);
GPURED__TABLE void gpured__use_f32_in_f64_tile(const machine *m, int tile, int which,
                                               product_launch *l);
GPURED__TABLE void gpured__use_any_tile(const machine *m, int bytes, product_launch *l);
GPURED__TABLE void gpured__use_loose_tile(const machine *m, int tile, int dtype, product_launch *l);

namespace {

/* ============================================================================================== */
/* 1  Scalars                                                                                     */
/* ============================================================================================== */
/*
 * The arithmetic of docs/ORDER.md section 0 as PTX, in overloads for float, double and uint64_t.
 * Comparisons and conversions too, because -ftz=true would flush subnormals in those of C.
 */
#define GPURED__BINARY(name, f32, f64)                  \
  GPURED__DEV float name(float a, float b) {            \
    float r;                                            \
    asm(f32 " %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); \
    return r;                                           \
  }                                                     \
  GPURED__DEV double name(double a, double b) {         \
    double r;                                           \
    asm(f64 " %0, %1, %2;" : "=d"(r) : "d"(a), "d"(b)); \
    return r;                                           \
  }
GPURED__BINARY(add, "add.rn.f32", "add.rn.f64")
GPURED__BINARY(sub, "sub.rn.f32", "sub.rn.f64")
GPURED__BINARY(mul, "mul.rn.f32", "mul.rn.f64")
GPURED__BINARY(quotient, "div.rn.f32", "div.rn.f64")
#undef GPURED__BINARY

GPURED__DEV uint64_t add(uint64_t a, uint64_t b) { return a + b; }
GPURED__DEV uint64_t mul(uint64_t a, uint64_t b) { return a * b; }

GPURED__DEV float fused(float a, float b, float c) {
  float r;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c));
  return r;
}
GPURED__DEV double fused(double a, double b, double c) {
  double r;
  asm("fma.rn.f64 %0, %1, %2, %3;" : "=d"(r) : "d"(a), "d"(b), "d"(c));
  return r;
}
GPURED__DEV uint64_t fused(uint64_t a, uint64_t b, uint64_t c) { return a * b + c; }

GPURED__DEV float root(float x) {
  float r;
  asm("sqrt.rn.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
GPURED__DEV double root(double x) {
  double r;
  asm("sqrt.rn.f64 %0, %1;" : "=d"(r) : "d"(x));
  return r;
}

#define GPURED__COMPARE(name, rel)                                            \
  GPURED__DEV bool name(float a, float b) {                                   \
    int r;                                                                    \
    asm("{ .reg .pred p; setp." rel ".f32 p, %1, %2; selp.s32 %0, 1, 0, p; }" \
        : "=r"(r)                                                             \
        : "f"(a), "f"(b));                                                    \
    return r != 0;                                                            \
  }                                                                           \
  GPURED__DEV bool name(double a, double b) {                                 \
    int r;                                                                    \
    asm("{ .reg .pred p; setp." rel ".f64 p, %1, %2; selp.s32 %0, 1, 0, p; }" \
        : "=r"(r)                                                             \
        : "d"(a), "d"(b));                                                    \
    return r != 0;                                                            \
  }
GPURED__COMPARE(less, "lt")
GPURED__COMPARE(equal, "eq")
#undef GPURED__COMPARE
/* a < b ? x : y */
GPURED__DEV float lower_gives(float a, float b, float x, float y) {
  float r;
  asm("{ .reg .pred p; setp.lt.f32 p, %1, %2; selp.f32 %0, %3, %4, p; }"
      : "=f"(r)
      : "f"(a), "f"(b), "f"(x), "f"(y));
  return r;
}
GPURED__DEV double lower_gives(double a, double b, double x, double y) {
  double r;
  asm("{ .reg .pred p; setp.lt.f64 p, %1, %2; selp.f64 %0, %3, %4, p; }"
      : "=d"(r)
      : "d"(a), "d"(b), "d"(x), "d"(y));
  return r;
}
GPURED__DEV bool less(uint64_t a, uint64_t b) { return a < b; }
GPURED__DEV bool equal(uint64_t a, uint64_t b) { return a == b; }
GPURED__DEV bool equal(int a, int b) { return a == b; }

GPURED__DEV bool is_nan(float x) { return gpured__isnan_f32(x); }
GPURED__DEV bool is_nan(double x) { return x != x; } /* bits would be three instructions */
GPURED__DEV bool is_nan(uint64_t) { return false; }
GPURED__DEV bool is_nan(int) { return false; }
GPURED__DEV bool is_finite(float x) { return gpured__isfinite_f32(x); }
GPURED__DEV bool is_finite(double x) { return gpured__isfinite_f64(x); }

/* NaN wins, -0 < +0. PTX orders the zeros that way. */
GPURED__DEV float greater_of(float a, float b) {
  float r;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
#else
  asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  if (is_nan(a) || is_nan(b)) r = gpured__quiet_nan_f32();
#endif
  return r;
}
/* For what is no NaN. */
GPURED__DEV double greater_of(double a, double b) {
  double r;
  asm("{ .reg .pred p; setp.nan.f64 p, %1, %2; max.f64 %0, %1, %2;"
      " selp.f64 %0, 0d7FF8000000000000, %0, p; }"
      : "=&d"(r)
      : "d"(a), "d"(b));
  return r;
}
GPURED__DEV uint64_t greater_of(uint64_t a, uint64_t b) { return a > b ? a : b; }
GPURED__DEV int greater_of(int a, int b) { return a > b ? a : b; }
GPURED__DEV float lesser_of(float a, float b) {
  float r;
  asm("min.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

/* The types that an accumulator brings along. */
template <int A>
struct acc;
template <>
struct acc<GPURED__F32> {
  typedef float T;
  typedef uint32_t U;
};
template <>
struct acc<GPURED__F64> {
  typedef double T;
  typedef uint64_t U;
};
template <>
struct acc<GPURED__U64> {
  typedef uint64_t T;
  typedef uint64_t U;
};

GPURED__DEV uint32_t bits_of(float x) { return __float_as_uint(x); }
GPURED__DEV uint64_t bits_of(double x) { return (uint64_t)__double_as_longlong(x); }
GPURED__DEV uint64_t bits_of(uint64_t x) { return x; }
GPURED__DEV void set_bits(float *x, uint32_t u) { *x = __uint_as_float(u); }
GPURED__DEV void set_bits(double *x, uint64_t u) { *x = __longlong_as_double((long long)u); }
GPURED__DEV void set_bits(uint64_t *x, uint64_t u) { *x = u; }

template <class T>
GPURED__DEV T infinity();
template <>
__device__ __forceinline__ float infinity<float>() {
  return __uint_as_float(0x7f800000u);
}
template <>
__device__ __forceinline__ double infinity<double>() {
  return __longlong_as_double(0x7ff0000000000000ll);
}
template <class T>
GPURED__DEV T quiet_nan();
template <>
__device__ __forceinline__ float quiet_nan<float>() {
  return __uint_as_float(0x7fc00000u);
}
template <>
__device__ __forceinline__ double quiet_nan<double>() {
  return __longlong_as_double(0x7ff8000000000000ll);
}

template <class T>
GPURED__DEV T negated(T x) {
  T r;
  set_bits(&r,
           (decltype(bits_of(x)))(bits_of(x) ^ ((decltype(bits_of(x)))1 << (8 * sizeof(T) - 1))));
  return r;
}

/* exp(d) for d <= 0 and log(z) for finite z >= 1, docs/ORDER.md section 8. */
template <class T>
struct numbers;
template <>
struct numbers<float> {
  typedef uint32_t U;
  enum { SHIFT = GPURED__SHIFT_f32, EXP_TOP = GPURED__EXP_TOP_f32, LOG_TOP = GPURED__LOG_TOP_f32 };
  GPURED__DEV float exp_c(int i) { return __uint_as_float(gpured__exp_c_f32[i]); }
  GPURED__DEV float log_l(int i) { return __uint_as_float(gpured__log_l_f32[i]); }
  GPURED__DEV float constant(int i) { return __uint_as_float(gpured__constants_f32[i]); }
};
template <>
struct numbers<double> {
  typedef uint64_t U;
  enum { SHIFT = GPURED__SHIFT_f64, EXP_TOP = GPURED__EXP_TOP_f64, LOG_TOP = GPURED__LOG_TOP_f64 };
  GPURED__DEV double number(uint64_t u) { return __longlong_as_double((long long)u); }
  GPURED__DEV double exp_c(int i) { return number(gpured__exp_c_f64[i]); }
  GPURED__DEV double log_l(int i) { return number(gpured__log_l_f64[i]); }
  GPURED__DEV double constant(int i) { return number(gpured__constants_f64[i]); }
};

template <class T>
GPURED__DEV T uncut_exponential(T d) {
  typedef numbers<T> c;
  const T magic = c::constant(GPURED__MAGIC);
  T t = fused(d, c::constant(GPURED__LOG2E), magic), n = sub(t, magic), r, p;
  r = fused(n, negated(c::constant(GPURED__LN2_HI)), d);
  r = fused(n, negated(c::constant(GPURED__LN2_LO)), r);
  p = c::exp_c(c::EXP_TOP);
#pragma unroll
  for (int i = c::EXP_TOP - 1; i >= 0; --i) p = fused(p, r, c::exp_c(i));
  set_bits(&p, (typename c::U)(bits_of(p) + (bits_of(t) << c::SHIFT)));
  return p;
}
template <class T>
GPURED__DEV T exponential(T d) {
  return lower_gives(d, numbers<T>::constant(GPURED__CUT), (T)0, uncut_exponential(d));
}

/* a + x, or a where d < cut: an addition that is left out, where one of +0 would change no more
 * than the sign of a zero. */
GPURED__DEV float add_uncut(float a, float x, float d, float cut) {
  asm("{ .reg .pred p; setp.geu.f32 p, %2, %3; @p add.rn.f32 %0, %0, %1; }"
      : "+f"(a)
      : "f"(x), "f"(d), "f"(cut));
  return a;
}
GPURED__DEV double add_uncut(double a, double x, double d, double cut) {
  asm("{ .reg .pred p; setp.geu.f64 p, %2, %3; @p add.rn.f64 %0, %0, %1; }"
      : "+d"(a)
      : "d"(x), "d"(d), "d"(cut));
  return a;
}
/* a + exp(d), for sums that have a term of 1 somewhere: the sign of their zeros does not matter. */
template <class T>
GPURED__DEV T add_exponential(T a, T d) {
  return add_uncut(a, uncut_exponential(d), d, numbers<T>::constant(GPURED__CUT));
}

/*
 * exp(d) for d <= 0 where nothing is compared: `seen`, ~0u at first, keeps the bits that all t have
 * in common, and by these all_were_above() says whether no d was below -85, and so none below the
 * cut or NaN. To that end t is negative and six less: its last 22 bits are n - 6, of which those
 * above the seven last are ones down to -128. A multiple of 2 rounds as it did. The polynomial
 * makes up for the six.
 */
enum { HASTE = 6 };
GPURED__DEV float hasty_exponential(float d, unsigned *seen) {
  typedef numbers<float> c;
  const float magic = __uint_as_float(gpured__constants_f32[GPURED__MAGIC] - HASTE);
  const float t = fused(d, negated(c::constant(GPURED__LOG2E)), negated(magic)), n = add(t, magic);
  float r = fused(n, c::constant(GPURED__LN2_HI), d), p = 0;
  r = fused(n, c::constant(GPURED__LN2_LO), r);
#pragma unroll
  for (int i = c::EXP_TOP; i >= 0; --i) {
    const float times = __uint_as_float(gpured__exp_c_f32[i] + ((unsigned)HASTE << c::SHIFT));
    p = i == c::EXP_TOP ? times : fused(p, r, times);
  }
  *seen &= bits_of(t);
  return __uint_as_float(bits_of(p) + (bits_of(t) << c::SHIFT));
}
GPURED__DEV bool all_were_above(unsigned seen) {
  const unsigned alike = 0x80000000u | 0x4b000000u | 0x003fff80u; /* sign, exponent, bits of n */
  return (seen & alike) == alike;
}

/* a / b for 1.7 < b < 2.5 and smaller a: the steps of the division without its tests of the range,
 * which take as long. The last two make the quotient the nearest one, as for any division. */
GPURED__DEV float tame_quotient(float a, float b) {
  float y, q, minus = negated(b);
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(b));
  y = fused(y, fused(minus, y, 1), y);
  q = mul(a, y);
  q = fused(fused(minus, q, a), y, q);
  return fused(fused(minus, q, a), y, q);
}
GPURED__DEV double tame_quotient(double a, double b) { return quotient(a, b); }

template <class T>
GPURED__DEV T logarithm(T z) {
  typedef numbers<T> c;
  typedef typename c::U U;
  const U half = bits_of(c::constant(GPURED__SQRT_HALF)), ix = bits_of(z) - half;
  const T one = 1, e = (T)(ix >> c::SHIFT);
  T w, f, s, q, p;
  set_bits(&w, (U)((ix & (((U)1 << c::SHIFT) - 1)) + half));
  f = sub(w, one);
  s = tame_quotient(f, add(w, one));
  q = mul(s, s);
  p = c::log_l(c::LOG_TOP);
#pragma unroll
  for (int i = c::LOG_TOP - 1; i >= 1; --i) p = fused(p, q, c::log_l(i));
  p = mul(p, q);
  p = fused(s, p, add(s, s));
  p = fused(e, c::constant(GPURED__LN2_LO), p);
  return fused(e, c::constant(GPURED__LN2_HI), p);
}

/* ============================================================================================== */
/* 2  Elements                                                                                    */
/* ============================================================================================== */
/* How an element of each dtype is stored, becomes a value of the accumulator, and comes back. */
template <int D>
struct stored;
#define GPURED__STORED(dtype, type, bytes) \
  template <>                              \
  struct stored<dtype> {                   \
    typedef type S;                        \
    enum { SIZE = bytes };                 \
  };
GPURED__STORED(GPURED_F32, uint32_t, 4)
GPURED__STORED(GPURED_F64, uint64_t, 8)
GPURED__STORED(GPURED_F16, uint16_t, 2)
GPURED__STORED(GPURED_BF16, uint16_t, 2)
GPURED__STORED(GPURED_I8, int8_t, 1)
GPURED__STORED(GPURED_U8, uint8_t, 1)
GPURED__STORED(GPURED_I32, int32_t, 4)
GPURED__STORED(GPURED_U32, uint32_t, 4)
GPURED__STORED(GPURED_I64, int64_t, 8)
GPURED__STORED(GPURED_U64, uint64_t, 8)
#undef GPURED__STORED

/* The cases of a switch over a number that the compiler shall know. */
#define GPURED__ONE_TO_15(CASE) \
  CASE(1)                       \
  CASE(2)                       \
  CASE(3)                       \
  CASE(4)                       \
  CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15)

/* The cases of a switch over the dtype that is known at run time. */
#define GPURED__EVERY_DTYPE(CASE) \
  CASE(GPURED_F32)                \
  CASE(GPURED_F64)                \
  CASE(GPURED_F16)                \
  CASE(GPURED_BF16)               \
  CASE(GPURED_I8)                 \
  CASE(GPURED_U8) CASE(GPURED_I32) CASE(GPURED_U32) CASE(GPURED_I64) CASE(GPURED_U64)

GPURED__DEV double wide(float x) {
  double r;
  asm("cvt.f64.f32 %0, %1;" : "=d"(r) : "f"(x));
  return r;
}
GPURED__DEV float half_value(uint16_t h) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h));
  return r;
}

/* One overload for each accumulator: widen<D>(raw, &value). */
template <int D, class S>
GPURED__DEV void widen(S raw, float *x) {
  if (D == GPURED_F32) *x = __uint_as_float((uint32_t)raw);
  if (D == GPURED_F16) *x = half_value((uint16_t)raw);
  if (D == GPURED_BF16) *x = __uint_as_float((uint32_t)raw << 16);
}
template <int D, class S>
GPURED__DEV void widen(S raw, uint32_t *x) { /* an integer's own bits */
  *x = (uint32_t)raw;
}
template <int D, class S>
GPURED__DEV void widen(S raw, double *x) {
  float narrow;
  if (D == GPURED_F64) {
    *x = __longlong_as_double((long long)raw);
  } else if (D <= GPURED_BF16) {
    widen<D>(raw, &narrow);
    *x = wide(narrow);
  } else {
    *x = (double)raw;
  }
}
template <int D, class S>
GPURED__DEV void widen(S raw, uint64_t *x) {
  if (D <= GPURED_BF16) /* floats come here only to be tested for zero */
    *x = (uint64_t)((S)(raw << 1) != 0);
  else
    *x = (uint64_t)(int64_t)raw;
}
/* What gpured.h's fetch does to integers; floats are left alone. */
GPURED__DEV void adjust(float *, int) {}
GPURED__DEV void adjust(double *, int) {}
GPURED__DEV void adjust(uint64_t *x, int how) {
  if (how == GPURED__NONZERO) *x = *x != 0;
  if (how == GPURED__ABS) *x = (int64_t)*x < 0 ? 0u - *x : *x;
}

GPURED__DEV void adjust(uint32_t *x, int how) {
  if (how == GPURED__NONZERO) *x = *x != 0;
  if (how == GPURED__ABS) *x = (int32_t)*x < 0 ? 0u - *x : *x;
}

/* Several at once: with the test of `how` outside, each case is its own few instructions. */
template <int N, class T>
GPURED__DEV void adjust_all(T *x, int how) {
  if (how == GPURED__NONZERO)
#pragma unroll
    for (int i = 0; i < N; ++i) adjust(&x[i], GPURED__NONZERO);
  else if (how == GPURED__ABS)
#pragma unroll
    for (int i = 0; i < N; ++i) adjust(&x[i], GPURED__ABS);
}

/* An element of a dtype known at run time. */
template <class T>
GPURED__DEV T load_any(const char *base, int64_t index, int dtype) {
  T x = 0;
  switch (dtype) {
#define GPURED__CASE(D)                                         \
  case D:                                                       \
    widen<D>(((const typename stored<D>::S *)base)[index], &x); \
    break;
    GPURED__EVERY_DTYPE(GPURED__CASE)
#undef GPURED__CASE
  }
  return x;
}

GPURED__DEV uint16_t to_half(float x) {
  uint16_t r;
  if (is_nan(x)) return 0x7e00u;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
GPURED__DEV uint16_t to_brain(float x) {
  uint32_t u = __float_as_uint(x);
  if (is_nan(x)) return 0x7fc0u;
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* Stores one value, rounded once (floats) or cut to its low bits (integers). */
GPURED__DEV void store_any(char *p, int dtype, float x) {
  if (dtype == GPURED_F32)
    *(float *)p = is_nan(x) ? quiet_nan<float>() : x;
  else if (dtype == GPURED_F64)
    *(double *)p = is_nan(x) ? quiet_nan<double>() : wide(x);
  else
    *(uint16_t *)p = dtype == GPURED_F16 ? to_half(x) : to_brain(x);
}
GPURED__DEV void store_any(char *p, int dtype, double x) {
  float narrow;
  switch (dtype) {
    case GPURED_F32:
      asm("cvt.rn.f32.f64 %0, %1;" : "=f"(narrow) : "d"(x));
      *(float *)p = is_nan(x) ? quiet_nan<float>() : narrow;
      break;
    case GPURED_F64:
      *(double *)p = is_nan(x) ? quiet_nan<double>() : x;
      break;
    case GPURED_F16:
      *(uint16_t *)p = gpured__to_f16(x);
      break;
    default:
      *(uint16_t *)p = gpured__to_bf16(x);
  }
}
GPURED__DEV void store_any(char *p, int dtype, uint64_t x) {
  switch (dtype) {
    case GPURED_I8:
    case GPURED_U8:
      *(uint8_t *)p = (uint8_t)x;
      break;
    case GPURED_I32:
    case GPURED_U32:
      *(uint32_t *)p = (uint32_t)x;
      break;
    default:
      *(uint64_t *)p = x;
  }
}

/* N values, an even number, as elements. The GPU makes elements of two bytes of two floats at once,
 * and 0x7fff of a NaN and of nothing else; NaNs are few, so all are looked at together. */
template <int D, int N, class T>
GPURED__DEV void pack_values(const T *x, typename stored<D>::S *raw) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) == 4 && stored<D>::SIZE == 2) {
    uint32_t word[N / 2], nan = 0;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      if (D == GPURED_F16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word[i]) : "f"(x[2 * i + 1]), "f"(x[2 * i]));
      else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word[i]) : "f"(x[2 * i + 1]), "f"(x[2 * i]));
      nan |= (word[i] + 0x00010001u) & ~word[i];
    }
    memcpy(raw, word, sizeof word);
    if ((nan & 0x80008000u) == 0) return;
  }
#endif
#pragma unroll
  for (int i = 0; i < N; ++i) store_any((char *)&raw[i], D, x[i]);
}

/* Two bits for each dtype: without comparisons, for each result that is stored. */
static __device__ int log2_size_of(int dtype) { return 0x3e8178 >> 2 * dtype & 3; }
static __device__ int size_of(int dtype) { return 1 << log2_size_of(dtype); }

/* ============================================================================================== */
/* 3  Operations                                                                                  */
/* ============================================================================================== */
/*
 * The kernels of gpured.h section 8 come down to seven, because bits of an element can be masked
 * and flipped before it is used: absolute values are a mask, minima are maxima of flipped values.
 * A node is what a subtree of blocks has become: 16 lanes, or for the last three one value.
 */
enum { K_ADD, K_SQUARE, K_MUL, K_MAX, K_ARG, K_LSE, K_MOMENTS };

/* Nodes of segments are [outputs][segments], or [segments][outputs], since columns write them side
 * by side, or one lane after the other, [segments][16][outputs]. */
enum { BESIDE_NOT, BESIDE_NODES, BESIDE_LANES };

/* A reduction as the kernels see it. */
struct job {
  int op, in_dtype, out_dtype, how, ddof, kept_count, line_count;
  uint64_t keep, flip; /* an element's bits are and-ed with keep, xor-ed with flip */
  int64_t n, outputs;
  const char *in, *end; /* end: nothing of the input lies there or behind */
  char *out;
  gpured__axis kept[GPURED_MAX_NDIM], line[GPURED_MAX_NDIM];
  int64_t segments;      /* of a sequence */
  int64_t segment_units; /* 2^k blocks each */
  char *partial;         /* nodes, when there are several */
  int beside;            /* how they lie there */
  int place;             /* whose words segments meet in; below 0: in a second launch */
};

template <class T>
struct arg_node {
  T v;
  int64_t i;
};
template <class T>
struct pair_node {
  T m, s;
};
template <class T>
struct moments_node {
  T mean, m2;
  int64_t n;
};

template <int A, int K>
struct kind {
  typedef typename acc<A>::T T;
  typedef T N;
  enum { LANES = 16 };
};
template <int A>
struct kind<A, K_ARG> {
  typedef typename acc<A>::T T;
  typedef arg_node<T> N;
  enum { LANES = 1 };
};
template <int A>
struct kind<A, K_LSE> {
  typedef typename acc<A>::T T;
  typedef pair_node<T> N;
  enum { LANES = 1 };
};
template <int A>
struct kind<A, K_MOMENTS> {
  typedef typename acc<A>::T T;
  typedef moments_node<T> N;
  enum { LANES = 1 };
};

GPURED__DEV float lowest(float) { return negated(infinity<float>()); }
GPURED__DEV double lowest(double) { return negated(infinity<double>()); }
GPURED__DEV uint64_t lowest(uint64_t) { return 0; }
GPURED__DEV float nothing(float) { return __uint_as_float(0x80000000u); }
GPURED__DEV double nothing(double) {
  return __longlong_as_double((long long)0x8000000000000000ull);
}
GPURED__DEV uint64_t nothing(uint64_t) { return 0; }
GPURED__DEV int8_t nothing(int8_t) { return 0; }

/* What an absent lane or subtree is. */
template <int K, class T>
GPURED__DEV void set_neutral(T *x) {
  *x = K == K_MUL ? (T)1 : (K == K_MAX ? lowest(T()) : nothing(T()));
}
template <int K, class T>
GPURED__DEV void set_neutral(arg_node<T> *x) {
  x->v = lowest(T());
  x->i = INT64_MAX;
}
template <int K, class T>
GPURED__DEV void set_neutral(pair_node<T> *x) {
  x->m = lowest(T());
  x->s = 0;
}
template <int K, class T>
GPURED__DEV void set_neutral(moments_node<T> *x) {
  x->mean = x->m2 = 0;
  x->n = 0;
}

/* An element that starts a lane, and one that joins it. */
template <int K, class T>
GPURED__DEV T first(T x) {
  return K == K_SQUARE ? mul(x, x) : x;
}
template <int K, class T>
GPURED__DEV T combined(T a, T b) {
  return K == K_MUL ? mul(a, b) : (K == K_MAX ? greater_of(a, b) : add(a, b));
}
template <int K, class T>
GPURED__DEV T step(T a, T x) {
  return K == K_SQUARE ? fused(x, x, a) : combined<K>(a, x);
}

template <class T>
GPURED__DEV bool beats(T b, T a) {
  if (is_nan(a)) return false;
  return is_nan(b) || less(a, b);
}

/* An element that comes later takes the place of the best one where it beats it. Both tests are
 * comparisons: taken apart into bits they would be three times as many instructions. */
GPURED__DEV void keep_best(float y, int at, float *v, int *where) {
  asm("{ .reg .pred p, q; setp.num.f32 q, %0, %0; setp.gtu.and.f32 p, %2, %0, q;"
      " selp.f32 %0, %2, %0, p; selp.s32 %1, %3, %1, p; }"
      : "+f"(*v), "+r"(*where)
      : "f"(y), "r"(at));
}
GPURED__DEV void keep_best(double y, int at, double *v, int *where) {
  asm("{ .reg .pred p, q; setp.num.f64 q, %0, %0; setp.gtu.and.f64 p, %2, %0, q;"
      " selp.f64 %0, %2, %0, p; selp.s32 %1, %3, %1, p; }"
      : "+d"(*v), "+r"(*where)
      : "d"(y), "r"(at));
}
GPURED__DEV void keep_best(int y, int at, int *v, int *where) {
  const bool better = y > *v;
  *v = better ? y : *v;
  *where = better ? at : *where;
}
GPURED__DEV void keep_best(uint64_t y, int at, uint64_t *v, int *where) {
  const bool better = y > *v;
  *v = better ? y : *v;
  *where = better ? at : *where;
}

template <int K, class T>
GPURED__DEV arg_node<T> combined(arg_node<T> a, arg_node<T> b) {
  bool second = beats(b.v, a.v) || (!beats(a.v, b.v) && b.i < a.i);
  return second ? b : a;
}

template <int K, class T>
GPURED__DEV pair_node<T> combined(pair_node<T> a, pair_node<T> b) {
  pair_node<T> r;
  if (is_nan(a.m) || is_nan(b.m)) {
    r.m = quiet_nan<T>();
    r.s = 1;
  } else if (equal(a.m, b.m)) {
    r.m = greater_of(a.m, b.m);
    r.s = add(a.s, b.s);
  } else {
    bool left = less(b.m, a.m);
    T big = left ? a.m : b.m, small = left ? b.m : a.m;
    T e = exponential(sub(small, big));
    r.m = big;
    r.s = left ? fused(b.s, e, a.s) : fused(a.s, e, b.s);
  }
  return r;
}

template <int K, class T>
GPURED__DEV moments_node<T> combined(moments_node<T> a, moments_node<T> b) {
  moments_node<T> c;
  if (b.n == 0) return a;
  if (a.n == 0) return b;
  T delta = sub(b.mean, a.mean);
  c.n = a.n + b.n;
  T r = quotient((T)b.n, (T)c.n), q = mul(delta, delta), w = mul((T)a.n, r);
  c.mean = fused(delta, r, a.mean);
  c.m2 = fused(q, w, add(a.m2, b.m2));
  return c;
}

/* A node of elements that have been counted from another one on. */
template <class N>
GPURED__DEV void move_index(N *, int64_t) {}
template <class T>
GPURED__DEV void move_index(arg_node<T> *x, int64_t by) {
  x->i += by;
}

/* Shuffles of whole nodes. */
template <class N>
GPURED__DEV N from_below(unsigned mask, N x, int distance) {
  return __shfl_down_sync(mask, x, (unsigned)distance);
}
template <class T>
GPURED__DEV arg_node<T> from_below(unsigned mask, arg_node<T> x, int d) {
  x.v = __shfl_down_sync(mask, x.v, (unsigned)d);
  x.i = __shfl_down_sync(mask, x.i, (unsigned)d);
  return x;
}
template <class T>
GPURED__DEV pair_node<T> from_below(unsigned mask, pair_node<T> x, int d) {
  x.m = __shfl_down_sync(mask, x.m, (unsigned)d);
  x.s = __shfl_down_sync(mask, x.s, (unsigned)d);
  return x;
}
template <class T>
GPURED__DEV moments_node<T> from_below(unsigned mask, moments_node<T> x, int d) {
  x.mean = __shfl_down_sync(mask, x.mean, (unsigned)d);
  x.m2 = __shfl_down_sync(mask, x.m2, (unsigned)d);
  x.n = __shfl_down_sync(mask, x.n, (unsigned)d);
  return x;
}

/* An element before it is used: absolute values and flips, where the operation has them. */
template <int K, class T>
GPURED__DEV T prepared(T x, const job &j) {
  typedef decltype(bits_of(x)) U;
  if (K == K_ADD || K == K_MAX || K == K_ARG)
    set_bits(&x, (U)((bits_of(x) & (U)j.keep) ^ (U)j.flip));
  return x;
}

GPURED__DEV float canonical(float x) { return is_nan(x) ? quiet_nan<float>() : x; }
GPURED__DEV double canonical(double x) { return is_nan(x) ? quiet_nan<double>() : x; }
GPURED__DEV uint64_t canonical(uint64_t x) { return x; }

/* The result of a sequence to its place; the lanes of a fold are one value by now. */
template <class T>
GPURED__DEV T real_result(const job &j, T y) {
  if (j.op == GPURED_MEAN) return quotient(y, (T)j.n);
  if (j.op == GPURED_NORM2) return root(y);
  return y;
}
GPURED__DEV uint64_t real_result(const job &, uint64_t y) { return y; }

GPURED__DEV char *place(const job &j, int64_t sequence) {
  int64_t at = j.kept_count == 1 ? sequence * j.kept[0].stride[GPURED__OUT]
                                 : gpured__offset(j.kept, j.kept_count, sequence, GPURED__OUT);
  return j.out + at * ((int64_t)1 << log2_size_of(j.out_dtype));
}

/* An exact sum of integers on its way to a mean or a norm (see exact_sums). */
static __device__ __noinline__ void store_exact(const job &j, char *to, uint64_t y) {
  store_any(to, j.out_dtype, real_result(j, (double)(int64_t)y));
}

/* What is stored of a sequence's node. */
template <int K, class T>
GPURED__DEV T result_of(const job &j, T y) {
  typedef decltype(bits_of(y)) U;
  if (K == K_MAX) set_bits(&y, (U)(bits_of(y) ^ (U)j.flip));
  return real_result(j, y);
}
template <int K, class T>
GPURED__DEV uint64_t result_of(const job &, arg_node<T> y) {
  return (uint64_t)y.i;
}
template <int K, class T>
GPURED__DEV T result_of(const job &, pair_node<T> y) {
  return is_finite(y.m) ? add(y.m, logarithm(y.s)) : y.m;
}
template <int K, class T>
GPURED__DEV T result_of(const job &j, moments_node<T> y) {
  const T v = quotient(y.m2, (T)(j.n > j.ddof ? j.n - j.ddof : 0));
  return j.op == GPURED_STD ? root(v) : v;
}

template <int K, class N>
GPURED__DEV void store_at(const job &j, char *to, const N &y) {
  store_any(to, j.out_dtype, result_of<K>(j, y));
}
template <int K>
GPURED__DEV void store_at(const job &j, char *to, uint64_t y) {
  if ((K == K_ADD || K == K_SQUARE) && (j.op == GPURED_MEAN || j.op == GPURED_NORM2))
    store_exact(j, to, y);
  else
    store_any(to, j.out_dtype, result_of<K>(j, y));
}
template <int K, class N>
GPURED__DEV void store_result(const job &j, int64_t sequence, const N &y) {
  store_at<K>(j, place(j, sequence), y);
}

/* Columns are the last kept axis: where those of `outer`, a place on all others, begin in an
 * operand, in elements, and where the result of one of them goes. */
GPURED__DEV int64_t start_of_columns(const job &j, int64_t outer, int operand) {
  return gpured__offset(j.kept, j.kept_count - 1, outer, operand);
}
GPURED__DEV char *place_of_column(const job &j, int64_t outer, int64_t column) {
  const int64_t at = start_of_columns(j, outer, GPURED__OUT) +
                     column * j.kept[j.kept_count - 1].stride[GPURED__OUT];
  return j.out + at * ((int64_t)1 << log2_size_of(j.out_dtype));
}

/* Where sequence `s` begins in the input, in elements. */
GPURED__DEV int64_t start_of(const job &j, int64_t s) {
  return j.kept_count == 1 ? s * j.kept[0].stride[GPURED__IN]
                           : gpured__offset(j.kept, j.kept_count, s, GPURED__IN);
}

/* The binary counter of gpured.h section 9: a new subtree carries like an addition of one. */
template <int K, class N>
GPURED__DEV void push(N *stack, int stride, int64_t count, N x) {
  int level = 0;
  for (; count >> level & 1; ++level) x = combined<K>(stack[level * stride], x);
  stack[level * stride] = x;
}
template <int K, class N>
GPURED__DEV N closed(const N *stack, int stride, int64_t count) {
  N x;
  int have = 0;
  set_neutral<K>(&x);
  for (int level = 0; count >> level; ++level) {
    if (!(count >> level & 1)) continue;
    x = have ? combined<K>(stack[level * stride], x) : stack[level * stride];
    have = 1;
  }
  return x;
}

/* ============================================================================================== */
/* 4  Reduce: any layout                                                                          */
/* ============================================================================================== */
/*
 * Half a warp takes one segment of one sequence, thread l being lane l. It is the kernel for what
 * the faster ones cannot read: other strides, several reduced axes, integers that become floats.
 */
enum { ANY_THREADS = 256, ANY_LANES = 16 };

/* One sequence as this kernel reads it. */
struct reader {
  const job *j;
  const char *base;
  int64_t stride;
};

template <class T>
GPURED__DEV T element(const reader &r, int64_t i) {
  const job &j = *r.j;
  int64_t at =
      j.line_count <= 1 ? i * r.stride : gpured__offset(j.line, j.line_count, i, GPURED__IN);
  T x = load_any<T>(r.base, at, j.in_dtype);
  adjust(&x, j.how);
  return x;
}

/* Lane `lane` of the block that begins at element i. */
template <int K, class T, class R>
GPURED__DEV T lane_of_block(const R &source, int64_t i, int64_t end, int lane) {
  T a;
  set_neutral<K>(&a);
  end = end < i + GPURED__BLOCK ? end : i + GPURED__BLOCK;
  i += lane;
  if (i < end) a = first<K>(source(i));
  for (i += GPURED__LANES; i < end; i += GPURED__LANES) a = step<K>(a, source(i));
  return a;
}

/* The fold by halving stride over 16 threads; the first one has the result. */
template <int K, class T>
GPURED__DEV T folded(unsigned mask, T a) {
#pragma unroll
  for (int h = GPURED__LANES / 2; h > 0; h /= 2)
    a = combined<K>(a, __shfl_down_sync(mask, a, (unsigned)h, GPURED__LANES));
  return a;
}

/* Reduce of at most 1024 elements by half a warp, to all of its threads. */
template <int K, class T, class R>
GPURED__DEV T wide_reduce(const R &source, int64_t i, int64_t end, int lane, unsigned mask) {
  T a[4];
#pragma unroll
  for (int b = 0; b < 4; ++b) a[b] = lane_of_block<K, T>(source, i + b * GPURED__BLOCK, end, lane);
  a[0] = combined<K>(combined<K>(a[0], a[1]), combined<K>(a[2], a[3]));
  return __shfl_sync(mask, folded<K>(mask, a[0]), 0, GPURED__LANES);
}

template <int A, int K>
struct any_unit { /* folds: thread l has lane l of the node */
  typedef typename acc<A>::T T;
  typedef T N;
  enum { UNIT = GPURED__BLOCK };
  GPURED__DEV N node(const reader &r, int64_t i, int64_t end, int lane, unsigned) {
    return lane_of_block<K, T>([&](int64_t e) { return prepared<K>(element<T>(r, e), *r.j); }, i,
                               end, lane);
  }
};

template <int A>
struct any_unit<A, K_ARG> {
  typedef typename acc<A>::T T;
  typedef arg_node<T> N;
  enum { UNIT = GPURED__WIDE_BLOCK };
  GPURED__DEV N node(const reader &r, int64_t i, int64_t end, int lane, unsigned mask) {
    N best, x;
    set_neutral<K_ARG>(&best);
    end = end < i + UNIT ? end : i + UNIT;
    for (i += lane; i < end; i += GPURED__LANES) {
      x.v = prepared<K_ARG>(element<T>(r, i), *r.j);
      x.i = i;
      best = combined<K_ARG>(best, x);
    }
    for (int h = GPURED__LANES / 2; h > 0; h /= 2) { /* order-free: threads may exchange */
      x.v = __shfl_xor_sync(mask, best.v, h, GPURED__LANES);
      x.i = __shfl_xor_sync(mask, best.i, h, GPURED__LANES);
      best = combined<K_ARG>(best, x);
    }
    return best;
  }
};

template <int A>
struct any_unit<A, K_LSE> {
  typedef typename acc<A>::T T;
  typedef pair_node<T> N;
  enum { UNIT = GPURED__WIDE_BLOCK };
  GPURED__DEV N node(const reader &r, int64_t i, int64_t end, int lane, unsigned mask) {
    N x;
    T m = wide_reduce<K_MAX, T>([&](int64_t e) { return element<T>(r, e); }, i, end, lane, mask);
    x.m = m;
    x.s = 1;
    if (is_finite(m))
      x.s = wide_reduce<K_ADD, T>([&](int64_t e) { return exponential(sub(element<T>(r, e), m)); },
                                  i, end, lane, mask);
    return x;
  }
};

template <int A>
struct any_unit<A, K_MOMENTS> {
  typedef typename acc<A>::T T;
  typedef moments_node<T> N;
  enum { UNIT = GPURED__WIDE_BLOCK };
  GPURED__DEV N node(const reader &r, int64_t i, int64_t end, int lane, unsigned mask) {
    N x;
    x.n = end - i < UNIT ? end - i : UNIT;
    x.mean = quotient(
        wide_reduce<K_ADD, T>([&](int64_t e) { return element<T>(r, e); }, i, end, lane, mask),
        (T)x.n);
    x.m2 = wide_reduce<K_SQUARE, T>([&](int64_t e) { return sub(element<T>(r, e), x.mean); }, i,
                                    end, lane, mask);
    return x;
  }
};

/* The last step for a node that lies in the threads of half a warp. */
template <int K, class T>
GPURED__DEV void finish_half(const job &j, int64_t sequence, T a, int lane, unsigned mask) {
  a = folded<K>(mask, a);
  if (lane == 0) store_result<K>(j, sequence, a);
}
#define GPURED__FINISH_HALF(node)                                                               \
  template <int K, class T>                                                                     \
  GPURED__DEV void finish_half(const job &j, int64_t sequence, node<T> a, int lane, unsigned) { \
    if (lane == 0) store_result<K>(j, sequence, a);                                             \
  }
GPURED__FINISH_HALF(arg_node)
GPURED__FINISH_HALF(pair_node)
GPURED__FINISH_HALF(moments_node)
#undef GPURED__FINISH_HALF

template <int A, int K>
static __global__ void __launch_bounds__(ANY_THREADS) reduce_any(const job j) {
  typedef any_unit<A, K> unit;
  typedef typename unit::N N;
  enum { LANES = kind<A, K>::LANES };
  const int lane = (int)threadIdx.x % ANY_LANES, half = (int)threadIdx.x / ANY_LANES;
  const unsigned mask = 0xffffu << (half % 2 * 16);
  const int64_t halves = ANY_THREADS / ANY_LANES, jobs = j.outputs * j.segments;
  const int64_t size = j.segment_units * unit::UNIT;
  N stack[48];
  for (int64_t k = blockIdx.x * halves + half; k < jobs; k += gridDim.x * halves) {
    int64_t s = k / j.segments, from = k % j.segments * size, count = 0;
    int64_t end = from + size < j.n ? from + size : j.n;
    reader r;
    N node;
    r.j = &j;
    r.base = j.in + start_of(j, s) * size_of(j.in_dtype);
    r.stride = j.line_count ? j.line[0].stride[GPURED__IN] : 0;
    for (int64_t i = from; i < end; i += unit::UNIT, ++count)
      push<K>(stack, 1, count, unit::node(r, i, end, lane, mask));
    node = closed<K>(stack, 1, count);
    if (j.segments == 1)
      finish_half<K>(j, s, node, lane, mask);
    else if (lane < LANES)
      ((N *)j.partial)[k * LANES + lane] = node;
  }
}

/* The fold of 2 H values by halving stride. */
template <int K, class N, int H>
struct halves {
  GPURED__DEV void level(N *a) {
#pragma unroll
    for (int l = 0; l < H; ++l) a[l] = combined<K>(a[l], a[l + H]);
  }
  GPURED__DEV void fold(N *a) {
    level(a);
    halves<K, N, H / 2>::fold(a);
  }
};
template <int K, class N>
struct halves<K, N, 0> {
  GPURED__DEV void fold(N *) {}
};

/* ---- Sequences of a thread ---- */
/*
 * Up to 16 elements are one of each lane: half a warp would have little to do, and most of it
 * nothing. Neighbouring threads have neighbouring sequences.
 */
enum { ALONE_MOST = GPURED__LANES };

/* The fold of n values of at most MOST, one of each lane or two; f: what is done to it. */
template <int K, int MOST, class T, class F>
GPURED__DEV T fold_alone(const T (&x)[MOST], int n, const F &f) {
  enum { LANES = MOST < GPURED__LANES ? MOST : GPURED__LANES };
  T a[LANES];
#pragma unroll
  for (int l = 0; l < LANES; ++l) {
    set_neutral<K>(&a[l]);
    if (l < n) a[l] = first<K>(f(x[l]));
#pragma unroll
    for (int i = l + LANES; i < MOST; i += LANES)
      if (i < n) a[l] = step<K>(a[l], f(x[i]));
  }
  halves<K, T, LANES / 2>::fold(a);
  return a[0];
}

template <int A, int K, int MOST>
struct alone {
  typedef typename acc<A>::T T;
  GPURED__DEV T node(const job &j, const T (&x)[MOST], int n) {
    return fold_alone<K>(x, n, [&](T y) { return prepared<K>(y, j); });
  }
};
template <int A, int MOST>
struct alone<A, K_ARG, MOST> {
  typedef typename acc<A>::T T;
  GPURED__DEV arg_node<T> node(const job &j, const T (&x)[MOST], int n) {
    T v = prepared<K_ARG>(x[0], j);
    int at = 0;
#pragma unroll
    for (int l = 1; l < MOST; ++l)
      if (l < n) keep_best(prepared<K_ARG>(x[l], j), l, &v, &at);
    const arg_node<T> best = {v, at};
    return best;
  }
};
template <int A, int MOST>
struct alone<A, K_LSE, MOST> {
  typedef typename acc<A>::T T;
  GPURED__DEV pair_node<T> node(const job &, const T (&x)[MOST], int n) {
    pair_node<T> y = {fold_alone<K_MAX>(x, n, [](T e) { return e; }), 1};
    if (is_finite(y.m))
      y.s = fold_alone<K_ADD>(x, n, [&](T e) { return exponential(sub(e, y.m)); });
    return y;
  }
};
template <int A, int MOST>
struct alone<A, K_MOMENTS, MOST> {
  typedef typename acc<A>::T T;
  GPURED__DEV moments_node<T> node(const job &, const T (&x)[MOST], int n) {
    moments_node<T> y;
    y.n = n;
    y.mean = quotient(fold_alone<K_ADD>(x, n, [](T e) { return e; }), (T)n);
    y.m2 = fold_alone<K_SQUARE>(x, n, [&](T e) { return sub(e, y.mean); });
    return y;
  }
};

template <int A, int K>
static __global__ void __launch_bounds__(ANY_THREADS) reduce_alone(const job j) {
  typedef typename acc<A>::T T;
  const int n = (int)j.n;
  for (int64_t s = (int64_t)blockIdx.x * ANY_THREADS + threadIdx.x; s < j.outputs;
       s += (int64_t)gridDim.x * ANY_THREADS) {
    reader r;
    T x[ALONE_MOST];
    r.j = &j;
    r.base = j.in + start_of(j, s) * size_of(j.in_dtype);
    r.stride = j.line_count ? j.line[0].stride[GPURED__IN] : 0;
#pragma unroll
    for (int l = 0; l < ALONE_MOST; ++l) {
      x[l] = 0;
      if (l < n) x[l] = element<T>(r, l);
    }
    store_result<K>(j, s, alone<A, K, ALONE_MOST>::node(j, x, n));
  }
}

/* ============================================================================================== */
/* 5  Reduce: the nodes of segments                                                               */
/* ============================================================================================== */
/*
 * The second launch, where sequences were cut: the tree over the segments of each. A slot of
 * threads (16 for lanes, one otherwise) takes 16 neighbouring nodes at a time; what is missing is
 * neutral.
 */
enum { FINISH_MOST = 4096 };
/* Lanes of folds are many and small; other nodes need registers. */
__host__ __device__ constexpr int finish_threads(int lanes) { return lanes == 1 ? 512 : 1024; }

/* Where the device can, the second launch begins while the first one ends, and waits here for its
 * memory. */
GPURED__DEV void after_launch_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
GPURED__DEV void let_next_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* ---- What blocks of threads show each other while they run ---- */

/* A word that tiles show each other. The second cache shall keep it while elements stream through:
 * asked for in memory, such words are 6 % of the traffic of scans along columns. */
GPURED__DEV void send_word(unsigned long long *to, unsigned long long x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("st.relaxed.gpu.global.L2::cache_hint.u64 [%0], %1, %2;" ::"l"(to), "l"(x),
               "l"(policy)
               : "memory");
#else
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(x) : "memory");
#endif
}
GPURED__DEV unsigned long long read_word(const unsigned long long *from) {
  unsigned long long x;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("ld.relaxed.gpu.global.L2::cache_hint.u64 %0, [%1], %2;"
               : "=l"(x)
               : "l"(from), "l"(policy)
               : "memory");
#else
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(x) : "l"(from) : "memory");
#endif
  return x;
}

/* Values that tiles show each other, in words of zeros: half of a word is the value, the other says
 * that it is there. Those of 16 tiles, or of 32 lines, are whole lines of the caches, and none of
 * them is the ticket's. */
enum { STATE_HEAD = 16 };
template <class E>
GPURED__DEV void show(unsigned long long *state, int64_t at, E x) {
  enum { WORDS = sizeof(E) / 4 };
  uint32_t word[WORDS];
  memcpy(word, &x, sizeof x);
#pragma unroll
  for (int i = 0; i < WORDS; ++i)
    send_word(state + STATE_HEAD + at * WORDS + i, (unsigned long long)word[i] << 32 | 1ull);
}
template <class E>
GPURED__DEV bool look(const unsigned long long *state, int64_t at, E *x) {
  enum { WORDS = sizeof(E) / 4 };
  uint32_t word[WORDS];
  unsigned ready = 1;
#pragma unroll
  for (int i = 0; i < WORDS; ++i) {
    const unsigned long long u = read_word(state + STATE_HEAD + at * WORDS + i);
    word[i] = (uint32_t)(u >> 32);
    ready &= (unsigned)u;
  }
  memcpy(x, word, sizeof *x);
  return ready & 1u;
}

#ifdef GPURED_TEST_DELAYS /* shakes the order in which tiles meet */
GPURED__DEV void delay(int64_t tile) {
  unsigned long long now = (unsigned long long)clock64();
  unsigned r = (unsigned)((now ^ (unsigned long long)tile * 2654435761u) * 2246822519u >> 13);
  if (r % 4 == 0) __nanosleep(r / 4 % 20000);
}
#else
GPURED__DEV void delay(int64_t) {}
#endif

/*
 * Where a sequence has few segments there is no second launch: every segment shows its node and
 * counts itself, and the one that is the last to do so takes the nodes of all. That it is the last
 * says that the others have written, not that it can see it, so it looks until it does. (To wait
 * until a write can be seen, before counting, takes 2 us.) It leaves all words zero for the next
 * launch on its stream, to which alone they belong. (Section 10 shares them out.)
 */
enum { MEETING_STREAMS = 16, MEETING_WORDS = 16384, MEETING_TILES_LOG2 = 9 };
static __device__ unsigned long long meeting[GPURED__MEETS ? MEETING_STREAMS : 1][MEETING_WORDS];

/* Shows a segment's node, of which threads 0 to LANES - 1 have a lane each, and counts it. Does it
 * come last of its sequence? Thread 0 knows. */
template <int LANES, class N>
GPURED__DEV bool show_segment(const job &j, int64_t row, int64_t segment, N node) {
  const int t = (int)threadIdx.x;
  unsigned long long *words = meeting[j.place];
  delay(row * j.segments + segment);
  if (t < LANES) show(words + j.outputs / 16 * 16, (row * j.segments + segment) * LANES + t, node);
  return t == 0 && atomicAdd((unsigned *)(words + row), 1u) == (unsigned)j.segments - 1;
}

/* The nodes of all segments of a sequence, as they come into sight, each taken by one thread; what
 * it makes of its neighbouring ones is left in shared memory. Returns the number of those. */
template <int K, int LANES, class N>
GPURED__DEV int take_shown(const job &j, int64_t row, N *shared) {
  enum { AT_ONCE = sizeof(N) > 16 ? 2 : 64 / sizeof(N), WORDS = sizeof(N) / 4 };
  const int lane = (int)threadIdx.x % LANES, segments = (int)j.segments;
  unsigned long long *words = meeting[j.place] + j.outputs / 16 * 16;
  for (int at = (int)threadIdx.x / LANES * AT_ONCE; at < segments;
       at += (int)blockDim.x / LANES * AT_ONCE) {
    const int64_t base = (row * segments + at) * LANES + lane;
    N x[AT_ONCE];
    bool ready;
    do {
      ready = true;
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i) {
        set_neutral<K>(&x[i]);
        if (at + i < segments) ready &= look(words, base + i * LANES, &x[i]);
      }
    } while (!ready);
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
#pragma unroll
      for (int k = 0; k < WORDS; ++k)
        if (at + i < segments) words[STATE_HEAD + (base + i * LANES) * WORDS + k] = 0;
#pragma unroll
    for (int d = 1; d < AT_ONCE; d *= 2)
#pragma unroll
      for (int i = 0; i + d < AT_ONCE; i += 2 * d) x[i] = combined<K>(x[i], x[i + d]);
    shared[at / AT_ONCE * LANES + lane] = x[0];
  }
  if (threadIdx.x == 0) meeting[j.place][row] = 0;
  return (segments + AT_ONCE - 1) / AT_ONCE;
}

/* ---- The second launch ---- */

/* The tree over up to 16 nodes; those of more than MOST bytes come in halves, for the sake of
 * registers. */
template <int K, int MOST = 16, class N>
GPURED__DEV N sixteen_nodes(const N *node, int64_t step, int count) {
  enum { AT_ONCE = sizeof(N) > MOST ? 8 : 16 };
  N all, x[AT_ONCE];
  set_neutral<K>(&all);
#pragma unroll 1
  for (int first_node = 0; first_node < 16; first_node += AT_ONCE) {
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i, node += step) {
      set_neutral<K>(&x[i]);
      if (first_node + i < count) x[i] = *node;
    }
#pragma unroll
    for (int d = 1; d < AT_ONCE; d *= 2)
#pragma unroll
      for (int i = 0; i + d < AT_ONCE; i += 2 * d) x[i] = combined<K>(x[i], x[i + d]);
    all = first_node ? combined<K>(all, x[0]) : x[0];
  }
  return all;
}

template <int A, int K, int LANES = kind<A, K>::LANES>
static __global__ void __launch_bounds__(finish_threads(LANES))
    reduce_finish(const job j, const int slots_log2) {
  typedef typename kind<A, K>::N N;
  enum { SLOTS_MOST = finish_threads(LANES) / LANES };
  let_next_launch();
  after_launch_before();
  __shared__ N shared[(SLOTS_MOST > FINISH_MOST / 16 ? SLOTS_MOST : FINISH_MOST / 16) * LANES];
  const int all_slots = (int)blockDim.x / LANES;
  const int lane = (int)threadIdx.x % LANES, slots = 1 << slots_log2; /* slots: for a sequence */
  const int per_block = all_slots >> slots_log2;
  int slot = (int)threadIdx.x / LANES;
  if (j.beside) slot = slot % per_block * slots + slot / per_block; /* neighbours read as such */
  const int mine = slot & (slots - 1);
  for (int64_t first_s = (int64_t)blockIdx.x * per_block; first_s < j.outputs;
       first_s += (int64_t)gridDim.x * per_block) {
    const int64_t s = first_s + (slot >> slots_log2);
    const N *nodes = (const N *)j.partial + (j.beside == BESIDE_LANES
                                                 ? s + lane * j.outputs
                                                 : s * (j.beside ? 1 : j.segments) * LANES + lane);
    const int64_t step = (j.beside ? j.outputs : 1) * LANES;
    int64_t passes = (j.segments + slots * 16 - 1) / (slots * 16);
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t at = (pass * slots + mine) * 16;
      const int count = s < j.outputs ? (int)min(j.segments - at, (int64_t)16) : 0;
      /* passes > 1 only if slots are all */
      shared[(pass * all_slots + slot) * LANES + lane] =
          sixteen_nodes<K>(nodes + at * step, step, count);
    }
    __syncthreads();
    int64_t have = passes * slots;
    for (int64_t d = 1; d < have; d *= 2) {
      for (int64_t i = mine * 2 * d; i + d < have; i += (int64_t)slots * 2 * d) {
        N *a = &shared[((slot - mine) + i) * LANES + lane];
        *a = combined<K>(*a, a[d * LANES]);
      }
      __syncthreads();
    }
    if (mine == 0 && s < j.outputs) {
      const int group = (int)threadIdx.x % 32 / 16;
      if (LANES == 1)
        store_result<K>(j, s, shared[slot]);
      else
        finish_half<K>(j, s, shared[slot * LANES + lane], lane, 0xffffu << (group * 16));
    }
    __syncthreads();
  }
}

/* The result of sequences that need not be read: an integer or a float. */
template <class T>
static __global__ void __launch_bounds__(256) store_empty(const job j, const T value) {
  for (int64_t s = (int64_t)blockIdx.x * 256 + threadIdx.x; s < j.outputs;
       s += (int64_t)gridDim.x * 256)
    store_any(place(j, s), j.out_dtype, value);
}

/* ============================================================================================== */
/* 6  Reduce: rows                                                                                */
/* ============================================================================================== */
/*
 * Sequences that lie together in memory, in vectors of 16 bytes. Each warp fills a tile of 8 KB in
 * shared memory by asynchronous copies that run over memory in address order, and no warp waits for
 * another: while one computes, the others' copies are under way. Three ways to share a tile:
 *
 *   ROWS_EACH   rows of at most 256 bytes (288 for logsumexp of floats), a row for each thread
 *   ROWS_SOME   a row is up to a block; SIZE threads (bytes of an element) own each block of 256,
 *               since a row of 16 lanes is 16 bytes for each of them
 *   ROWS_WHOLE  a row is several blocks, up to a tile
 *   ROWS_LONG   a row is many tiles, shared out as above; the tree goes on over tiles and warps
 *
 * Rows that do not begin and end at 16 bytes have the same three ways, ROWS_RAGGED_EACH,
 * ROWS_RAGGED (for SOME and WHOLE) and ROWS_RAGGED_LONG: their tiles hold what lies in memory, as
 * it lies there, in the same lines of 128 bytes. So have rows that better_ragged() names. Sequences
 * of several axes, which lie in pieces, go these ways too: in a tile a row of theirs is whole, and
 * begins at a vector.
 */
enum {
  ROWS_EACH,
  ROWS_SOME,
  ROWS_WHOLE,
  ROWS_LONG,
  ROWS_RAGGED_EACH,
  ROWS_RAGGED,
  ROWS_RAGGED_LONG
};
enum {
  ROWS_WARPS = 4,
  LONG_WARPS = 8, /* the last segments of a row have the memory for themselves: many copies then */
  TILE_VECTORS = 512,
  TILE_BYTES = 8192,
  RAGGED_BYTES = TILE_BYTES + 256, /* begins within its first line; read up to a line too far */
  APART_BYTES = TILE_BYTES + 384,  /* so does each row */
  SPREAD_BYTES = 14080,            /* a tile of rows that shall be side by side, at most, */
  SPREAD_BYTES_FEW = 11264,        /* and where there are few of them */
  RAGGED = -1,                     /* as a WIDTH: w.length elements from any byte on */
  EACH_MOST = 16,                  /* vectors of a row for one thread */
  EACH_LSE = 18,
  SPREAD_ROWS = 64,    /* rows to a multiprocessor that are enough for large tiles of them */
  OWN_ROWS = 56,       /* rows to a multiprocessor that are enough for a warp each, */
  OWN_TILES = 8,       /* of so many tiles */
  PIECES_MEETING = 64, /* tiles of pieces to a multiprocessor, where segments still meet */
  ROWS_TILES_LOG2 = 7,
  ROWS_MOST_LOG2 = 10
};
__host__ __device__ constexpr int tile_bytes(int mode) {
  return mode < ROWS_RAGGED_EACH ? TILE_BYTES : mode == ROWS_RAGGED ? APART_BYTES : RAGGED_BYTES;
}
/* Logsumexp computes as long as it reads: more warps on a multiprocessor count for more. */
__host__ __device__ constexpr int long_warps(int k) { return k == K_LSE ? ROWS_WARPS : LONG_WARPS; }
/* Blocks of a multiprocessor: shared memory allows six, and registers shall where that many hide
 * the arithmetic; where a thread has much at hand, it needs them more. */
__host__ __device__ constexpr int rows_resident(int a, int k, int mode) {
  return a != GPURED__F32 || k == K_ARG ? 4
         : k < K_ARG                    ? 6
                                        : (mode == ROWS_EACH || mode == ROWS_RAGGED_EACH ? 5 : 7);
}

struct rows {
  int mode;
  int width;      /* vectors of a block, 16 * SIZE unless rows are shorter than a block */
  int width_log2; /* or -1 */
  int beside;     /* threads that share a row: SOME, and RAGGED for logsumexp */
  int turns;      /* SOME: rows of 24 vectors that lie like those of 32 */
  int blocks;     /* of a tile */
  int row_log2;   /* blocks that a row occupies in a tile (SOME), or rows of 1 (EACH) */
  int unit_log2;  /* blocks of a unit: 0, or up to 2 where a unit has 1024 elements */
  int dense;      /* rows follow each other, in memory as in the tile; RAGGED: or with small gaps */
  int length;     /* RAGGED: elements of a row that is no longer than a tile */
  int step;       /* RAGGED, dense: bytes from such a row to the next, with what lies between */
  int pitch;      /* RAGGED, not dense: vectors of a row's place in the tile */
  int line;       /* RAGGED: such a row begins as far behind a multiple of this as in memory */
  int copiers_log2;  /* RAGGED, not dense: threads that copy a row */
  int tile;          /* bytes of a tile */
  int tiles_log2;    /* LONG: tiles of a segment */
  int own;           /* LONG: rows are a warp's, not a block of threads' */
  int64_t row_tiles; /* LONG: tiles of a row */
  /* RAGGED, of sequences in pieces: */
  int64_t piece;                     /* elements of one, or 0 */
  unsigned piece_recip, width_recip; /* 2^32 / piece, if that is shorter than a tile; / width */
  unsigned outer_recip, kept_recip;  /* / pieces, sequences until an outer axis goes on */
  int borders;                       /* pieces of a row that is no longer than a tile */
  int whole;                         /* pieces begin and end at 16 bytes; otherwise: */
  int piece_width;                   /* vectors in which a piece may lie, */
  unsigned piece_width_recip, loose_recip;
  int loose; /* and from which vector of a tile on they are copied to it */
};

GPURED__DEV void copy_16(void *shared, const char *global) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned at = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(global) : "memory");
#else
  *(uint4 *)shared = *(const uint4 *)global;
#endif
}
/* Copies of 16, 8 or 4 bytes under a condition and without a branch, which costs more than the
 * copy. */
template <int BYTES>
GPURED__DEV void copy_if(bool go, void *shared, const char *global) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned at = (unsigned)__cvta_generic_to_shared(shared);
  if (BYTES == 16)
    asm volatile(
        "{ .reg .pred p; setp.ne.s32 p, %0, 0;\n"
        "@p cp.async.cg.shared.global [%1], [%2], 16; }" ::"r"((int)go),
        "r"(at), "l"(global)
        : "memory");
  else
    asm volatile(
        "{ .reg .pred p; setp.ne.s32 p, %0, 0;\n"
        "@p cp.async.ca.shared.global [%1], [%2], %3; }" ::"r"((int)go),
        "r"(at), "l"(global), "n"(BYTES)
        : "memory");
#else
  if (!go) return;
  if (BYTES == 16) *(uint4 *)shared = *(const uint4 *)global;
  if (BYTES == 8) *(uint64_t *)shared = *(const uint64_t *)global;
  if (BYTES == 4) *(uint32_t *)shared = *(const uint32_t *)global;
#endif
}
/* Vectors 0, 32, 64, ... < left of `global` to the places slot(0), slot(32), ... of a tile. There
 * is no branch, and both addresses are hidden from the compiler, which would compute them anew for
 * each copy: 200 instructions more, of some 1200 for a tile of logsumexp. */
template <int MOST, class F>
GPURED__DEV void copy_every_32nd(char *stage, const char *global, int left, const F &slot) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned at = (unsigned)__cvta_generic_to_shared(stage);
  asm volatile("" : "+r"(at), "+l"(global));
#pragma unroll
  for (int i = 0; i < MOST; i += 32)
    asm volatile(
        "{ .reg .pred p; setp.gt.s32 p, %2, %3; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::
            "r"(at + 16 * slot(i)),
        "l"(global + 16 * i), "r"(left), "r"(i)
        : "memory");
#else
  for (int i = 0; i < MOST && i < left; i += 32) copy_16(stage + 16 * slot(i), global + 16 * i);
#endif
}
/* The same of 16, 8 or 4 bytes. */
template <int BYTES>
GPURED__DEV void copy_some(void *shared, const void *global) {
  if (BYTES == 16) {
    copy_16(shared, (const char *)global);
    return;
  }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned at = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(global), "n"(BYTES)
               : "memory");
#else
  memcpy(shared, global, BYTES);
#endif
}
/* The same for what is read this once: the second cache may let it go. */
GPURED__DEV void copy_16_last(void *shared, const char *global) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned at = (unsigned)__cvta_generic_to_shared(shared);
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(at),
               "l"(global), "l"(policy)
               : "memory");
#else
  copy_16(shared, global);
#endif
}
/* Has the second cache read memory that will soon be copied: a multiple of 16 bytes. */
GPURED__DEV void copy_later(const char *global, unsigned bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(global),
               "r"(bytes), "l"(policy)
               : "memory");
#else
  (void)global, (void)bytes;
#endif
}
/* Waits until this thread's copies are there. */
GPURED__DEV void copies_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

GPURED__DEV void copies_commit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* Waits until all but the newest N groups of this thread's copies are there. */
template <int N>
GPURED__DEV void copies_wait_but() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
GPURED__DEV uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

GPURED__DEV void barrier_init(uint32_t bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count));
}
GPURED__DEV void barrier_expect(uint32_t bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}
GPURED__DEV bool barrier_try(uint32_t bar, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done != 0;
}
GPURED__DEV void barrier_wait(uint32_t bar, uint32_t parity) {
  while (!barrier_try(bar, parity)) {
  }
}
/* A run of memory, whole vectors, by one thread; its bytes are counted at a barrier. */
GPURED__DEV void copy_bulk(uint32_t to, const char *from, uint32_t bytes, uint32_t bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(bar)
      : "memory");
}
#endif

/* The place of a vector in a tile: what threads read at the same time lies in different banks. A
 * block begins every 2^width_log2 vectors; P threads read it side by side. Within a block the
 * places differ from that of its first vector by the same bits as the vectors. */
template <int P>
GPURED__DEV int swizzled(int v, int width_log2) {
  if (P >= 8) return v;
  return v ^ ((v >> width_log2 & (8 / P - 1)) * P);
}
/* The same where each thread reads a row of its own. */
GPURED__DEV int swizzled_each(int v, int width_log2) {
  return v ^ (v >> (width_log2 < 3 ? 3 : width_log2) & 7);
}

__host__ __device__ constexpr int log2_of(int n) { return n < 2 ? 0 : 1 + log2_of(n / 2); }
__host__ __device__ constexpr int exact_log2(int n) { return n & (n - 1) ? -1 : log2_of(n); }

/* Vectors of a block where the kernel's code fixes them, otherwise 0: rows of EACH thread may have
 * a fixed WIDTH, blocks of WHOLE and LONG rows are complete. */
template <int S, int MODE, int WIDTH>
__host__ __device__ constexpr int fixed_width() {
  return MODE == ROWS_EACH ? WIDTH : (MODE == ROWS_SOME ? 0 : 16 * S);
}

/* The greatest power of two, up to 8, that divides a width. */
__host__ __device__ constexpr int twos_of(int n) {
  return n % 2 || n == 0 ? 1 : n % 8 ? 2 * twos_of(n / 2) : 8;
}
/* Rows of even widths begin in as few banks, again and again: by the turn they lie differently, but
 * 128 bytes stay 128 bytes, or copies would come in pieces. */
template <int WIDTH>
GPURED__DEV int turn_of(int row) {
  enum { TWOS = twos_of(WIDTH) };
  return row / (8 / TWOS) % TWOS;
}

/* Vector r of such a row. */
template <int WIDTH>
GPURED__DEV int turned(int row, int r) {
  enum { TWOS = twos_of(WIDTH) };
  return row * WIDTH + (r % TWOS ^ turn_of<WIDTH>(row)) + r / TWOS * TWOS;
}

/* Vector v of rows of 24 that two threads share: each row would begin in the same bank. */
GPURED__DEV int slot_of_24(int v) { return v ^ (v / 24 * 2 & 7); }

template <int S, int MODE, int WIDTH>
GPURED__DEV int slot_of(int v, const rows &w) {
  enum { FIXED = fixed_width<S, MODE, WIDTH>() };
  const int width_log2 = FIXED ? log2_of(FIXED) : w.width_log2;
  if (exact_log2(FIXED) < 0) return v ^ turn_of<FIXED>(v / (FIXED ? FIXED : 1));
  if (width_log2 < 0) return MODE == ROWS_SOME && w.turns ? slot_of_24(v) : v;
  if (MODE == ROWS_SOME) return v ^ ((v >> width_log2) * w.beside & 7);
  return MODE == ROWS_EACH ? swizzled_each(v, width_log2) : swizzled<S>(v, width_log2);
}
/* The place of vector t + 32 i, where a few bits of t decide it for all i. */
template <int S, int MODE, int WIDTH>
GPURED__DEV int slot_from(int t, int i, const rows &w) {
  enum { FIXED = fixed_width<S, MODE, WIDTH>() };
  if (FIXED == 0 || FIXED > 64 || exact_log2(FIXED) < 0)
    return slot_of<S, MODE, WIDTH>(t + 32 * i, w);
  return (slot_of<S, MODE, WIDTH>(t, w) ^ slot_of<S, MODE, WIDTH>(32 * i, w) ^ 32 * i) + 32 * i;
}

/* Vectors v = t, t + 32, ... < count of contiguous memory. */
template <int S, int MODE, int WIDTH>
GPURED__DEV void load_run(const char *base, int64_t count, const rows &w, char *stage, int t) {
  enum { FIXED = fixed_width<S, MODE, WIDTH>() };
  const int vectors = count < TILE_VECTORS ? (int)count : (int)TILE_VECTORS;
  base += 16 * t;
  if (FIXED == 0 && w.width_log2 < 0 && !w.turns) {
    copy_every_32nd<TILE_VECTORS>(stage + 16 * t, base, vectors - t, [](int i) { return i; });
  } else if (MODE == ROWS_SOME && w.turns) {
    copy_every_32nd<TILE_VECTORS>(stage, base, vectors - t,
                                  [&](int i) { return slot_of_24(t + i); });
  } else if (vectors == TILE_VECTORS && MODE == ROWS_SOME) { /* widths of 32 and more */
#pragma unroll
    for (int i = 0; i < TILE_VECTORS / 32; ++i)
      copy_16(stage + 512 * i + 16 * (t ^ ((i >> (w.width_log2 - 5)) * w.beside & 7)),
              base + 512 * i);
  } else if (vectors == TILE_VECTORS) {
#pragma unroll
    for (int i = 0; i < TILE_VECTORS / 32; ++i)
      copy_16(stage + 16 * slot_from<S, MODE, WIDTH>(t, i, w), base + 512 * i);
  } else {
    copy_every_32nd<TILE_VECTORS>(stage, base, vectors - t,
                                  [&](int i) { return slot_of<S, MODE, WIDTH>(t + i, w); });
  }
}

/* A tile of short rows. */
template <int S, int MODE, int WIDTH>
GPURED__DEV void load_tile(const job &j, const rows &w, int64_t row, char *stage, int t) {
  const int64_t vectors = j.n * S / 16;
  const int most = w.blocks * w.width;
  if (w.dense) {
    const int64_t left = (j.outputs - row) * vectors;
    load_run<S, MODE, WIDTH>(j.in + row * vectors * 16, left < most ? left : most, w, stage, t);
    return;
  }
#pragma unroll 4
  for (int v = t; v < most; v += 32) {
    int block = w.width_log2 >= 0 ? v >> w.width_log2 : v / w.width;
    int64_t r = row + (block >> w.row_log2);
    int64_t at = (int64_t)(block & ((1 << w.row_log2) - 1)) * (16 * S) + v - block * w.width;
    if (r < j.outputs && at < vectors)
      copy_16(stage + 16 * slot_of<S, MODE, WIDTH>(v, w), j.in + start_of(j, r) * S + at * 16);
  }
}

/* 16 bytes, or those of them that lie before the end of the input. */
GPURED__DEV void copy_before(char *shared, const char *global, const char *end) {
  if (end - global >= 16)
    copy_16(shared, global);
  else
    for (int i = 0; i < end - global; ++i) shared[i] = global[i];
}
GPURED__DEV const char *border_before(const char *p) {
  return (const char *)((uintptr_t)p & ~(uintptr_t)15);
}
/* The place of a vector in a tile of ragged rows: as swizzled() has it, but for rows of one block
 * that several threads share. They begin anywhere, and there is nothing to gain. */
GPURED__DEV int swizzled_ragged(int v, int mask) { return v ^ (v >> 4 & mask); }
template <int P>
GPURED__DEV int ragged_mask(int row_log2) {
  return P >= 4 && row_log2 == 0 ? 0 : 8 - P;
}
/* A tile of what lies from `from` on, in memory's own vectors, of which the first and the last one
 * may hold more. It begins as far behind a line of 128 bytes as in memory: only so lines arrive
 * whole, and a copy in pieces costs the second cache twice its requests. */
template <int P, bool LARGE = false>
GPURED__DEV void load_span(const job &j, const char *from, int bytes, int mask, char *stage,
                           int t) {
  const int before = (int)((uintptr_t)from & 127), whole = (before + bytes) / 16;
  const char *line = from - before;
  const int mine = swizzled_ragged(t, mask);
  const auto slot = [&](int i) { return (mine ^ (i >> 4 & mask)) + i; }; /* of t + 32, 64, ... */
  copy_if<16>(t >= before / 16 && t < whole, stage + 16 * mine, line + 16 * t);
  copy_every_32nd<TILE_VECTORS>(stage, line + 16 * (t + 32), whole - t - 32,
                                [&](int i) { return slot(32 + i); });
  if (LARGE && whole > TILE_VECTORS + 32)
    copy_every_32nd<SPREAD_BYTES / 16 - TILE_VECTORS>(
        stage, line + 16 * (t + 32 + TILE_VECTORS), whole - t - 32 - TILE_VECTORS,
        [&](int i) { return slot(32 + TILE_VECTORS + i); });
  if ((before + bytes) % 16 && t == 0)
    copy_before(stage + 16 * swizzled_ragged(whole, mask), line + 16 * whole, j.end);
}
/* The same without places that turn, in one copy, for which a warp waits; not twice. Returns
 * whether it is there: not where the input ends within its last vector, nor on older GPUs. */
GPURED__DEV bool bring_span(const job &j, const char *from, int bytes, char *stage, int t) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __shared__ unsigned long long barrier[ROWS_WARPS];
  const int before = (int)((uintptr_t)from & 127), first = before & ~15;
  const char *line = from - before;
  const int end = before + bytes + 15 & ~15;
  const uint32_t bar = shared_address(&barrier[threadIdx.x / 32]);
  if (j.end - line < end) return false;
  if (t == 0) {
    barrier_init(bar, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    barrier_expect(bar, (uint32_t)(end - first));
    copy_bulk(shared_address(stage) + first, line + first, (uint32_t)(end - first), bar);
  }
  __syncwarp();
  barrier_wait(bar, 0);
  return true;
#else
  return false;
#endif
}

/* ---- Sequences in pieces ---- */
/*
 * A sequence of several axes, the innermost of which is contiguous: pieces of one length, at least
 * a vector, that may lie anywhere. Where all of them are whole vectors they are copied to their
 * places in the tile. Otherwise they are copied as they lie, each from its own border on, and
 * brought together from there, in the same memory.
 */

/* An element of SIZE bytes. */
template <int SIZE>
struct word_of {
  typedef uint64_t T;
};
template <>
struct word_of<4> {
  typedef uint32_t T;
};
template <>
struct word_of<2> {
  typedef uint16_t T;
};
template <>
struct word_of<1> {
  typedef uint8_t T;
};

/* Where neighbours along one or two axes lie, from one of them on. */
template <int S>
struct neighbours {
  const char *base;
  int64_t step, jump; /* jump: what each end of the inner axis adds */
  int until;          /* the first one; recip: 2^32 / extent of that, if it may end again */
  unsigned recip;

  __device__ __forceinline__ neighbours(const gpured__axis *axes, int count, unsigned recip_,
                                        const char *origin, int64_t index)
      : base(origin), step(0), jump(0), until(INT32_MAX), recip(recip_) {
    int64_t outer = 0;
    if (count == 0) return;
    step = axes[count - 1].stride[GPURED__IN] * S;
    if (count > 1) {
      const int64_t n = axes[1].n;
      if (index) outer = gpured__quotient(index, n);
      index -= outer * n;
      until = (int)min(n - index, (int64_t)INT32_MAX);
      jump = axes[0].stride[GPURED__IN] * S - n * step;
      base += outer * axes[0].stride[GPURED__IN] * S;
    }
    base += index * step;
  }
  __device__ __forceinline__ const char *at(int i) const {
    const char *p = base + i * step;
    if (i >= until) p += jump * (int)(1 + __umulhi((unsigned)(i - until), recip));
    return p;
  }
};

/* A row's elements from number `at` on. */
template <int S>
struct row_pieces {
  neighbours<S> pieces;  /* from the one on in which that is, */
  int64_t rest;          /* and elements of it in front; */
  int here, first_width; /* those of it that follow, and vectors for them */

  __device__ __forceinline__ row_pieces(const job &j, const rows &w, const char *row, int64_t at,
                                        int64_t piece)
      : pieces(j.line, j.line_count - 1, w.outer_recip, row, piece),
        rest(at - piece * w.piece),
        here((int)min(w.piece - rest, (int64_t)TILE_BYTES)),
        first_width((here * S + 30) / 16) {}
  /* Which piece has element i, and how far behind the first one here of that. */
  __device__ __forceinline__ int piece_of(const rows &w, int i, int *in) const {
    int q = i >= here;
    if (w.piece_recip) q = (int)__umulhi((unsigned)rest + (unsigned)i, w.piece_recip);
    *in = q ? i - here - (q - 1) * (int)w.piece : i;
    return q;
  }
  __device__ __forceinline__ const char *from(int q) const {
    return q ? pieces.at(q) : pieces.base + rest * S;
  }
  __device__ __forceinline__ int behind(int q) const { return (int)((uintptr_t)from(q) & 15); }
  /* Where piece q begins among vectors as they lie in memory, each piece from its own border on. */
  __device__ __forceinline__ int place(const rows &w, int q) const {
    return q ? first_width + (q - 1) * w.piece_width : 0;
  }
};

/* `count` rows of a tile, of which it has `elements` each, from number `at` on. */
template <int S>
struct tile_pieces {
  enum { V = 16 / S };
  const job &j;
  const rows &w;
  neighbours<S> sequences;
  int64_t at, piece; /* piece: in which that is */
  int count, elements, mask;
  char *stage;

  __device__ __forceinline__ tile_pieces(const job &job_, const rows &rows_,
                                         const neighbours<S> &from, int many, int64_t first,
                                         int64_t most, int places, char *tile)
      : j(job_),
        w(rows_),
        sequences(from),
        at(first),
        piece(first ? gpured__quotient(first, rows_.piece) : 0),
        count(many),
        elements((int)min(job_.n - first, most)),
        mask(places),
        stage(tile) {}
  __device__ __forceinline__ row_pieces<S> of_row(int r) const {
    return row_pieces<S>(j, w, sequences.at(r), at, piece);
  }
  /* f(r, i - r * width) for i = t, t + 32, ... of all rows' vectors, `width` of each. */
  template <class F>
  __device__ __forceinline__ void each(int t, int width, unsigned recip, const F &f) const {
#pragma unroll 4
    for (int i = t; i < count * width; i += 32) {
      const int r = count > 1 ? (int)__umulhi((unsigned)i, recip) : 0;
      f(r, i - r * width);
    }
  }
  /* Pieces that are whole vectors to where they shall be. */
  __device__ __forceinline__ void copy_whole(const row_pieces<S> &only, int t) const {
    each(t, elements / V, w.width_recip, [&](int r, int v) {
      const row_pieces<S> p = count > 1 ? of_row(r) : only;
      int in;
      const int q = p.piece_of(w, v * V, &in);
      copy_16(stage + 16 * swizzled_ragged(r * w.pitch + v, mask), p.from(q) + in * S);
    });
  }
  /* Others as they lie, to where their vectors do not stand before those that they shall be. */
  __device__ __forceinline__ void copy_loose(const row_pieces<S> &only, int t) const {
    int in;
    const int last = only.piece_of(w, elements - 1, &in);
    const int width = only.place(w, last) + (in * S + S + 30) / 16;
    each(t, width, w.loose_recip, [&](int r, int v) {
      const row_pieces<S> p = count > 1 ? of_row(r) : only;
      int q = v >= p.first_width;
      if (w.piece_recip && q)
        q += (int)__umulhi((unsigned)(v - p.first_width), w.piece_width_recip);
      const char *from = p.from(q), *vector = border_before(from) + 16 * (v - p.place(w, q));
      const bool exists = vector < from + (q == last ? in + 1 : q ? (int)w.piece : p.here) * S;
      const bool whole = j.end - vector >= 16;
      char *to = stage + 16 * (w.loose + r * width + v);
      copy_if<16>(exists && whole, to, vector);
      if (exists && !whole) copy_before(to, vector, j.end);
    });
  }
  /* Vector v of a row, from one piece or two. */
  __device__ __forceinline__ uint4 gather(const row_pieces<S> &p, int first, int v) const {
    typedef typename word_of<S>::T word;
    int in, jump = 0;
    const int q = p.piece_of(w, v * V, &in), left = (q ? (int)w.piece : p.here) - in;
    const int from = 16 * (first + p.place(w, q)) + p.behind(q) + in * S;
    if (left < V && v * V + left < elements) /* behind the end of a row anything may stand */
      jump = 16 * (first + p.place(w, q + 1)) + p.behind(q + 1) - from - left * S;
    __align__(16) word x[V];
#pragma unroll
    for (int i = 0; i < V; ++i)
      x[i] = *(const word *)(stage + from + i * S + (i < left ? 0 : jump));
    return *(const uint4 *)x;
  }
  __device__ __forceinline__ void gather_all(const row_pieces<S> &only, int t) const {
    enum { AT_ONCE = 2 };
    const int width = (elements + V - 1) / V, of_one_row = w.borders * w.piece_width;
    for (int first = t; first - t < count * width; first += 32 * AT_ONCE) {
      uint4 x[AT_ONCE];
      int place[AT_ONCE];
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) {
        const int i = min(first + 32 * k, count * width - 1);
        const int r = count > 1 ? (int)__umulhi((unsigned)i, w.width_recip) : 0;
        x[k] = gather(count > 1 ? of_row(r) : only, w.loose + r * of_one_row, i - r * width);
        place[k] = swizzled_ragged(r * w.pitch + i - r * width, mask);
      }
      __syncwarp();
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k)
        if (first + 32 * k < count * width) ((uint4 *)stage)[place[k]] = x[k];
    }
  }
  /* Returns the byte of the tile at which its first row begins. */
  template <int P>
  __device__ __forceinline__ int load(int t) const {
    const row_pieces<S> only = of_row(0);
    if (count == 1 && elements <= only.here) {
      const char *from = only.from(0);
      load_span<P>(j, from, elements * S, mask, stage, t);
      return (int)((uintptr_t)from & 127);
    }
    if (w.whole) {
      copy_whole(only, t);
      return 0;
    }
    copy_loose(only, t);
    copies_wait();
    __syncwarp();
    gather_all(only, t);
    return 0;
  }
};

/* A tile of ragged rows: all that lies from the first to the last one, or each for itself, side by
 * side as many threads as it takes. */
template <int S, int P, bool LARGE = false>
GPURED__DEV void load_ragged(const job &j, const rows &w, int64_t row, char *stage, int t) {
  const int most = w.blocks >> w.row_log2, bytes = w.length * S;
  const int count = j.outputs - row < most ? (int)(j.outputs - row) : most;
  const int mask = ragged_mask<P>(w.row_log2);
  if (w.dense) {
    const char *from = j.in + row * w.step;
    const int span = (count - 1) * w.step + bytes;
    if (!LARGE || !bring_span(j, from, span, stage, t))
      load_span<P, LARGE>(j, from, span, mask, stage, t);
    return;
  }
  if (w.piece) {
    const neighbours<S> from(j.kept, j.kept_count, w.kept_recip, j.in, row);
    tile_pieces<S>(j, w, from, count, 0, w.length, mask, stage).template load<P>(t);
    return;
  }
  const int lane = t & ((1 << w.copiers_log2) - 1);
  for (int r = t >> w.copiers_log2; r < count; r += 32 >> w.copiers_log2) {
    const char *from = j.in + start_of(j, row + r) * S;
    const int before = (int)((uintptr_t)from & (w.line - 1)), first = before / 16;
    const char *line = from - before;
    for (int v = lane; 16 * v < before + bytes; v += 1 << w.copiers_log2)
      if (v >= first)
        copy_before(stage + 16 * swizzled_ragged(r * w.pitch + v, mask), line + 16 * v, j.end);
  }
}
/* The byte of such a tile at which its row r begins. */
template <int S>
GPURED__DEV int ragged_start(const job &j, const rows &w, int64_t row, int r) {
  if (w.dense) return (int)((uintptr_t)(j.in + row * w.step) & 127) + r * w.step;
  const int start = r * w.pitch * 16;
  if (w.piece) return start;
  return start + (int)((uintptr_t)(j.in + start_of(j, row + r) * S) & (w.line - 1));
}

/* Element i of 16 bytes, as it is stored. */
template <int D>
GPURED__DEV typename stored<D>::S element_of(const uint4 &q, int i) {
  typedef typename stored<D>::S S;
  const uint32_t word[4] = {q.x, q.y, q.z, q.w};
  const int bit = i * (int)sizeof(S) * 8;
  if (sizeof(S) == 8) return (S)(word[bit / 32] | (uint64_t)word[(bit / 32 + 1) % 4] << 32);
  return (S)(word[bit / 32] >> bit % 32);
}
/* 16 bytes as values. */
template <int D, class T, int V>
GPURED__DEV void unpack(const uint4 q, T *x, int how) {
#pragma unroll
  for (int i = 0; i < V; ++i) widen<D>(element_of<D>(q, i), &x[i]);
  adjust_all<V>(x, how);
}

/* ---- Bytes, four at a time ---- */
/*
 * Neither sums nor extrema of bytes depend on an order. A view has each_word(fill, f), which calls
 * f(at, x) for each word of four bytes that it has some of, `at` being the place of its first one;
 * those that are not the view's are the fill's.
 */
GPURED__DEV uint32_t first_bytes(int n) { return n <= 0 ? 0 : (n >= 4 ? ~0u : (1u << 8 * n) - 1); }
/* The bytes `from` to `to` of a word, the others from fill. */
GPURED__DEV uint32_t some_bytes(uint32_t x, int from, int to, uint32_t fill) {
  const uint32_t mask = first_bytes(to) & ~first_bytes(from);
  return (x & mask) | (fill & ~mask);
}

template <class F>
GPURED__DEV void each_word_of(uint4 q, int at, const F &f) {
  f(at, q.x);
  f(at + 4, q.y);
  f(at + 8, q.z);
  f(at + 12, q.w);
}

/* In each byte: 128 if it is not zero; its magnitude. */
GPURED__DEV uint32_t nonzero_bytes(uint32_t x) {
  return (((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x) & 0x80808080u;
}
GPURED__DEV uint32_t magnitudes(uint32_t x) {
  uint32_t signs; /* all over their bytes: __byte_perm has no such selector */
  asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(signs) : "r"(x));
  return (x ^ signs) + (signs & 0x01010101u);
}

template <int D, class Q>
GPURED__DEV uint64_t sum_of_bytes(const job &j, const Q &p) {
  const uint32_t ones = 0x01010101u;
  if (j.how == GPURED__NONZERO) {
    uint32_t n = 0;
    p.each_word(0, [&](int, uint32_t x) { n = __dp4a(nonzero_bytes(x), ones, n); });
    return n >> 7;
  }
  if (D == GPURED_I8 && j.how != GPURED__ABS) {
    int sum = 0;
    p.each_word(0, [&](int, uint32_t x) { sum = __dp4a((int)x, (int)ones, sum); });
    return (uint64_t)(int64_t)sum;
  }
  uint32_t sum = 0;
  p.each_word(
      0, [&](int, uint32_t x) { sum = __dp4a(D == GPURED_I8 ? magnitudes(x) : x, ones, sum); });
  return sum;
}

/* Two at a time in 16 bits each. */
GPURED__DEV uint32_t greater_pairs(uint32_t a, uint32_t x) {
  return __vmaxu2(a, __vmaxu2(x & 0x00ff00ffu, x >> 8 & 0x00ff00ffu));
}

/* The greatest byte as the reduction has it, prepared: of some at least. They are unsigned numbers
 * in the order of j.flip: signs turned, or everything for minima. */
template <int D, class Q>
GPURED__DEV uint64_t most_of_bytes(const job &j, const Q &p) {
  const bool is_signed = D == GPURED_I8 && j.how != GPURED__NONZERO && j.how != GPURED__ABS;
  const uint32_t turn = (((uint32_t)j.flip & 0xffu) ^ (is_signed ? 0x80u : 0)) * 0x01010101u;
  uint32_t a = 0;
  uint64_t x;
  if (j.how == GPURED__NONZERO)
    p.each_word(turn, [&](int, uint32_t w) { a = greater_pairs(a, nonzero_bytes(w) >> 7 ^ turn); });
  else if (D == GPURED_I8 && j.how == GPURED__ABS)
    p.each_word(turn, [&](int, uint32_t w) { a = greater_pairs(a, magnitudes(w) ^ turn); });
  else
    p.each_word(turn, [&](int, uint32_t w) { a = greater_pairs(a, w ^ turn); });
  a = max(a & 0xffu, a >> 16) ^ (turn & 0xffu);
  if (is_signed)
    widen<D>((typename stored<D>::S)a, &x);
  else
    x = a;
  return prepared<K_MAX>(x, j);
}

/* The first place of what that has found, or INT32_MAX. */
template <class Q>
GPURED__DEV int place_of_byte(const job &j, const Q &p, uint64_t m) {
  const uint32_t byte = ((uint32_t)(m ^ j.flip) & 0xffu) * 0x01010101u;
  int found = INT32_MAX;
  p.each_word(~byte, [&](int at, uint32_t x) {
    const uint32_t equal_ones = ~nonzero_bytes(x ^ byte) & 0x80808080u;
    if (equal_ones) found = min(found, at + (__ffs((int)equal_ones) - 1) / 8);
  });
  return found;
}

/* ---- A row for each thread ---- */

/* f(start, lane, value) as below over `count` elements that begin anywhere. */
template <int D, class T, class F>
GPURED__DEV void each_of_line(const char *line, int count, int how, const F &f) {
  typedef typename stored<D>::S S;
  const auto feed = [&](int start, int lane) {
    T x;
    widen<D>(((const S *)line)[start + lane], &x);
    adjust(&x, how);
    f(start, lane, x);
  };
  int start = 0;
#pragma unroll 1
  for (; start + GPURED__LANES <= count; start += GPURED__LANES)
#pragma unroll
    for (int l = 0; l < GPURED__LANES; ++l) feed(start, l);
#pragma unroll
  for (int part = 0; part < GPURED__LANES; part += 4)
    if (start + part < count)
#pragma unroll
      for (int l = part; l < part + 4; ++l)
        if (start + l < count) feed(start, l);
}

/* f(start, lane, value) over a thread's row, in ascending order; start: of the 16 elements. Those
 * are at hand together where the code has no width of its own. block: of a ragged tile the byte. */
template <int D, int WIDTH, class T, class F>
GPURED__DEV void each_element(const rows &w, const char *stage, int block, int how, const F &f) {
  enum { P = stored<D>::SIZE, V = 16 / P };
  if (WIDTH == RAGGED) {
    each_of_line<D, T>(stage + block, w.length, how, f);
    return;
  }
  const auto feed = [&](int slot, int start, int lane) {
    T x[V];
    unpack<D, T, V>(*(const uint4 *)(stage + 16 * slot), x, how);
#pragma unroll
    for (int i = 0; i < V; ++i) f(start, lane + i, x[i]);
  };
  if (WIDTH > 0) {
#pragma unroll
    for (int r = 0; r < WIDTH; ++r)
      feed(exact_log2(WIDTH) < 0 ? turned<WIDTH>(block, r)
                                 : slot_of<P, ROWS_EACH, WIDTH>(block * WIDTH + r, w),
           r / P * GPURED__LANES, r % P * V);
    return;
  }
  const bool mixed = w.width_log2 >= 0;
  const int first = mixed ? swizzled_each(block << w.width_log2, w.width_log2) : block * w.width;
  int r = 0;
  for (; r + P <= w.width; r += P)
#pragma unroll
    for (int k = 0; k < P; ++k) feed(mixed ? first ^ (r + k) : first + r + k, r * V, k * V);
#pragma unroll
  for (int k = 0; k < P - 1; ++k)
    if (r + k < w.width) feed(mixed ? first ^ (r + k) : first + r + k, r * V, k * V);
}

/* Lanes that cannot exist do not take part in the fold. */
template <int K, int D, int WIDTH, class T>
GPURED__DEV T fold_each(T *a) {
  enum {
    HAVE = WIDTH * 16 / stored<D>::SIZE,
    LANES = HAVE <= 0 || HAVE > 8 ? 16
            : HAVE > 4            ? 8
                                  : HAVE
  };
  halves<K, T, LANES / 2>::fold(a);
  return a[0];
}

/* Reduce of a thread's row. */
template <int K, int D, int WIDTH, class T, class F>
GPURED__DEV T reduce_each(const rows &w, const char *stage, int block, int how, const F &f) {
  T a[GPURED__LANES];
#pragma unroll
  for (int l = 0; l < GPURED__LANES; ++l) set_neutral<K>(&a[l]);
  each_element<D, WIDTH, T>(w, stage, block, how, [&](int start, int l, T x) {
    T y = f(x);
    a[l] = WIDTH > 0 && start == 0 ? first<K>(y) : step<K>(a[l], y);
  });
  return fold_each<K, D, WIDTH>(a);
}

template <int A, int D, int K, int WIDTH>
struct each_of {
  typedef typename acc<A>::T T;
  GPURED__DEV T node(const job &j, const rows &w, const char *stage, int block) {
    return reduce_each<K, D, WIDTH, T>(w, stage, block, j.how,
                                       [&](T x) { return prepared<K>(x, j); });
  }
};
template <int A, int D, int WIDTH>
struct each_of<A, D, K_ARG, WIDTH> {
  typedef typename acc<A>::T T;
  GPURED__DEV arg_node<T> node(const job &j, const rows &w, const char *stage, int block) {
    arg_node<T> n;
    int at = INT32_MAX;
    n.v = reduce_each<K_MAX, D, WIDTH, T>(w, stage, block, j.how,
                                          [&](T x) { return prepared<K_ARG>(x, j); });
    each_element<D, WIDTH, T>(w, stage, block, j.how, [&](int start, int l, T x) {
      T y = prepared<K_ARG>(x, j);
      if (equal(y, n.v) || (is_nan(y) && is_nan(n.v))) at = min(at, start + l);
    });
    n.i = at;
    return n;
  }
};
/* A thread's row of bytes. */
template <int WIDTH>
struct byte_row {
  const char *stage;
  int first, count; /* vectors */
  bool mixed;
  __device__ __forceinline__ byte_row(const rows &w, const char *tile, int block) {
    stage = tile;
    mixed = w.width_log2 >= 0;
    first = mixed ? swizzled_each(block << w.width_log2, w.width_log2) : block * w.width;
    count = w.width;
  }
  template <class F>
  __device__ __forceinline__ void each_word(uint32_t, const F &f) const {
    for (int r = 0; r < count; ++r)
      each_word_of(*(const uint4 *)(stage + 16 * (mixed ? first ^ r : first + r)), 16 * r, f);
  }
};
template <>
struct byte_row<RAGGED> {
  const uint32_t *word;
  int lead, end; /* bytes before it in the first word; there and in it */
  __device__ __forceinline__ byte_row(const rows &w, const char *tile, int start) {
    word = (const uint32_t *)(tile + (start & ~3));
    lead = start & 3;
    end = lead + w.length;
  }
  template <class F>
  __device__ __forceinline__ void each_word(uint32_t fill, const F &f) const {
    const int last = (end - 1) / 4;
    f(-lead, some_bytes(word[0], lead, end, fill));
#pragma unroll 4
    for (int i = 1; i < last; ++i) f(4 * i - lead, word[i]);
    if (last > 0) f(4 * last - lead, some_bytes(word[last], 0, end - 4 * last, fill));
  }
};

template <int D, int K, int WIDTH>
struct byte_each {
  GPURED__DEV typename kind<GPURED__U64, K>::N node(const job &j, const rows &w, const char *stage,
                                                    int block) {
    const byte_row<WIDTH> row(w, stage, block);
    if constexpr (K == K_ADD) {
      return sum_of_bytes<D>(j, row);
    } else if constexpr (K == K_MAX) {
      return most_of_bytes<D>(j, row);
    } else {
      arg_node<uint64_t> n;
      n.v = most_of_bytes<D>(j, row);
      n.i = place_of_byte(j, row, n.v);
      return n;
    }
  }
};
#define GPURED__BYTES(D, K) \
  template <int WIDTH>      \
  struct each_of<GPURED__U64, D, K, WIDTH> : byte_each<D, K, WIDTH> {};
GPURED__BYTES(GPURED_I8, K_ADD)
GPURED__BYTES(GPURED_U8, K_ADD)
GPURED__BYTES(GPURED_I8, K_MAX)
GPURED__BYTES(GPURED_U8, K_MAX)
GPURED__BYTES(GPURED_I8, K_ARG)
GPURED__BYTES(GPURED_U8, K_ARG)
#undef GPURED__BYTES

template <int A, int D, int WIDTH>
struct each_of<A, D, K_LSE, WIDTH> {
  typedef typename acc<A>::T T;
  GPURED__DEV pair_node<T> node(const job &j, const rows &w, const char *stage, int block) {
    pair_node<T> n;
    n.m = reduce_each<K_MAX, D, WIDTH, T>(w, stage, block, j.how, [](T x) { return x; });
    const T base = is_finite(n.m) ? n.m : (T)0;
    T a[GPURED__LANES];
    if (WIDTH > 8) asm volatile("" ::: "memory"); /* read again: registers do not hold so much */
#pragma unroll
    for (int l = 0; l < GPURED__LANES; ++l) set_neutral<K_ADD>(&a[l]);
    each_element<D, WIDTH, T>(w, stage, block, j.how,
                              [&](int, int l, T x) { a[l] = add_exponential(a[l], sub(x, base)); });
    n.s = fold_each<K_ADD, D, WIDTH>(a);
    if (!is_finite(n.m)) n.s = 1;
    return n;
  }
};
template <int A, int D, int WIDTH>
struct each_of<A, D, K_MOMENTS, WIDTH> {
  typedef typename acc<A>::T T;
  GPURED__DEV moments_node<T> node(const job &j, const rows &w, const char *stage, int block) {
    moments_node<T> n;
    n.n = j.n;
    n.mean = quotient(
        reduce_each<K_ADD, D, WIDTH, T>(w, stage, block, j.how, [](T x) { return x; }), (T)j.n);
    n.m2 = reduce_each<K_SQUARE, D, WIDTH, T>(w, stage, block, j.how,
                                              [&](T x) { return sub(x, n.mean); });
    return n;
  }
};

/* ---- SIZE threads for each block ---- */

/* What a thread sees of its block in a tile: rows of V neighbouring elements. */
template <int D, class T>
struct piece {
  enum { P = stored<D>::SIZE, V = 16 / P };
  const char *stage;
  int slot;                   /* vector of row 0 */
  int width_log2, count, how; /* count: rows that exist */
  __device__ __forceinline__ int slot_of_row(int r) const {
    return width_log2 >= 0 ? slot ^ r * P : slot + r * P;
  }
  template <bool MIXED>
  __device__ __forceinline__ void read(int r, T *x) const {
    const int at = MIXED ? slot ^ r * P : slot + r * P;
    unpack<D, T, V>(*(const uint4 *)(stage + 16 * at), x, how);
  }
  /* Of the thread's first element, in the block. */
  static __device__ __forceinline__ int place(int t) { return t % P * V; }
  template <class F>
  __device__ __forceinline__ void each_word(uint32_t, const F &f) const {
#pragma unroll 4
    for (int r = 0; r < count; ++r)
      each_word_of(*(const uint4 *)(stage + 16 * slot_of_row(r)), 16 * r, f);
  }
};

/* Which of V elements exist: all of them, or those from `from` to `to`. */
struct all_exist {
  __device__ __forceinline__ bool operator()(int) const { return true; }
};
struct some_exist {
  int from, to;
  __device__ __forceinline__ bool operator()(int i) const { return i >= from && i < to; }
};

/* What a thread sees of a block that begins at any element: vectors as they lie in memory, so that
 * its V elements of a row are lanes counted from a border of 16 bytes, and not from the block. They
 * are the same ones in each row, and the fold, whose partners are 8, 4, 2 and 1 apart on the ring
 * of 16, does not see by how much the ring is turned. The block is one row longer than others: the
 * first thread has what comes before its lane 0 in the last one. */
template <int D, class T>
struct ragged {
  enum { P = stored<D>::SIZE, V = 16 / P };
  const char *stage;
  int vector, mask; /* of row 0; of places in the tile */
  int origin;       /* element of the block at which that begins: may be before it */
  int end, how;     /* of the block, counted from there */
  int count;        /* rows of which something exists */
  __device__ __forceinline__ void set(const char *tile, int start, int64_t left, int thread) {
    stage = tile;
    vector = start / 16 + thread;
    origin = thread * V - start % 16 / P;
    end = left <= 0 ? 0 : max(0, (int)min(left, (int64_t)GPURED__BLOCK) - origin);
    count = (end + GPURED__LANES - 1) / GPURED__LANES;
  }
  __device__ __forceinline__ uint4 raw(int r) const {
    return *(const uint4 *)(stage + 16 * swizzled_ragged(vector + r * P, mask));
  }
  __device__ __forceinline__ void read(int r, T *x) const { unpack<D, T, V>(raw(r), x, how); }
  __device__ __forceinline__ some_exist exist(int r) const {
    some_exist e = {-origin - r * GPURED__LANES, end - r * GPURED__LANES};
    return e;
  }
  __device__ __forceinline__ int place(int) const { return origin; }
  template <class F>
  __device__ __forceinline__ void each_word(uint32_t fill, const F &f) const {
    const int whole = end / 16; /* rows before this one, but for the first, are the block's */
    const auto some = [&](int r) {
      const some_exist e = exist(r);
      const uint4 q = raw(r);
      const uint32_t word[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        f(origin + 16 * r + 4 * i, some_bytes(word[i], e.from - 4 * i, e.to - 4 * i, fill));
    };
    if (count > 0) some(0);
#pragma unroll 4
    for (int r = 1; r < whole; ++r) each_word_of(raw(r), origin + 16 * r, f);
    if (whole > 0 && whole < count) some(whole);
  }
};

/* A few rows, four at a time. */
template <bool MIXED, int D, class T, class F>
GPURED__DEV void each_row_of(const piece<D, T> &p, const F &f) {
  T x[piece<D, T>::V];
  int r = 0;
  for (; r + 4 <= p.count; r += 4)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      p.template read<MIXED>(r + i, x);
      f(r + i, x, false, all_exist());
    }
  for (; r < p.count; ++r) {
    p.template read<MIXED>(r, x);
    f(r, x, false, all_exist());
  }
}

/* f(row, x, starts, exists) for each row of V elements, in ascending order; starts: the lanes shall
 * begin with this row, and otherwise with what is neutral; exists(i): is x[i] one of the block? All
 * threads of a warp come here together. */
template <int D, class T, class F>
GPURED__DEV void each_row(const piece<D, T> &p, const F &f) {
  /* more, and warps wait for instructions; tests of 16 bits for zero are short */
  enum { AT_ONCE = stored<D>::SIZE == 2 && sizeof(T) == 8 ? GPURED__LANES - 1 : 3 };
  /* where a block of the warp's ends early, all go the same way, or each way would take its time */
  const bool whole = __all_sync(~0u, p.count == GPURED__LANES || p.count == 0);
  if (p.width_log2 < 0) {
    each_row_of<false>(p, f);
  } else if (!whole) {
    each_row_of<true>(p, f);
  } else if (p.count > 0) {
    T x[piece<D, T>::V];
    p.template read<true>(0, x);
    f(0, x, true, all_exist());
#pragma unroll(AT_ONCE)
    for (int r = 1; r < GPURED__LANES; ++r) {
      p.template read<true>(r, x);
      f(r, x, false, all_exist());
    }
  }
}
template <int D, class T, class F>
GPURED__DEV void each_row(const ragged<D, T> &p, const F &f) {
  enum { V = ragged<D, T>::V, AT_ONCE = 5 }; /* 15 rows lie between the ends of a block */
  T x[V];
  const int whole = (p.end + GPURED__LANES - V) / GPURED__LANES, last = max(whole, 1);
  int r = 1;
  if (p.count > 0) {
    p.read(0, x);
    f(0, x, false, p.exist(0));
  }
  /* all of a warp at once, or whoever has less to do would have it later, alone */
#pragma unroll 1
  for (; r < GPURED__LANES && __all_sync(~0u, r + AT_ONCE <= whole || r >= whole); r += AT_ONCE)
    if (r < whole)
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i) {
        p.read(r + i, x);
        f(r + i, x, false, all_exist());
      }
#pragma unroll 1
  for (; r < whole; ++r) {
    p.read(r, x);
    f(r, x, false, all_exist());
  }
  if (last < p.count) {
    p.read(last, x);
    f(last, x, false, p.exist(last));
  }
}

/* The lanes of a block: thread q of it has V of them. */
template <int K, class Q, class T, class F>
GPURED__DEV void block_lanes(const Q &p, T *a, const F &f) {
  enum { V = Q::V };
#pragma unroll
  for (int i = 0; i < V; ++i) set_neutral<K>(&a[i]);
  each_row(p, [&](int, T *x, bool starts, auto exists) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const T y = starts ? first<K>(f(x[i])) : step<K>(a[i], f(x[i]));
      a[i] = exists(i) ? y : a[i];
    }
  });
}

/* The tree over `from` to `to` neighbouring blocks; the first P threads have the result. */
template <int K, int P, int V, class T>
GPURED__DEV void join_blocks(T *a, int from, int to) {
#pragma unroll
  for (int d = 1; d < 32 / P; d *= 2)
    if (d >= from && d < to)
#pragma unroll
      for (int i = 0; i < V; ++i) a[i] = combined<K>(a[i], from_below(0xffffffffu, a[i], d * P));
}

/* The fold of 16 lanes, V in each of P threads. */
template <int K, int V, class T, int H>
struct lane_halves {
  GPURED__DEV void fold(T *a) {
    if (H >= V) {
#pragma unroll
      for (int i = 0; i < V; ++i) a[i] = combined<K>(a[i], from_below(0xffffffffu, a[i], H / V));
    } else {
#pragma unroll
      for (int i = 0; i < H; ++i) a[i] = combined<K>(a[i], a[(i + H) % V]);
    }
    lane_halves<K, V, T, H / 2>::fold(a);
  }
};
template <int K, int V, class T>
struct lane_halves<K, V, T, 0> {
  GPURED__DEV void fold(T *) {}
};
template <int K, int P, int V, class T>
GPURED__DEV T fold_lanes(T *a) {
  lane_halves<K, V, T, GPURED__LANES / 2>::fold(a);
  return a[0];
}

/* The node of a thread's unit of blocks, for each kind of operation; valid in the unit's first P
 * threads (folds: V lanes each) or in its first one. offset: of the block in the sequence. */
template <int A, int D, int K>
struct unit_of {
  typedef typename acc<A>::T T;
  enum { P = piece<D, T>::P, V = piece<D, T>::V, VN = V, PN = P };
  template <class Q>
  GPURED__DEV void make(const job &j, const Q &p, int, int64_t, int, T *node) {
    block_lanes<K>(p, node, [&](T x) { return prepared<K>(x, j); });
  }
};

/* Sums and extrema of bytes: into the first lane, since their order does not matter. */
template <int D>
struct byte_sum {
  enum { P = 1, V = 16, VN = V, PN = P };
  template <class Q>
  GPURED__DEV void make(const job &j, const Q &p, int, int64_t, int, uint64_t *node) {
#pragma unroll
    for (int i = 1; i < V; ++i) node[i] = 0;
    node[0] = sum_of_bytes<D>(j, p);
  }
};
template <int D>
struct byte_max {
  enum { P = 1, V = 16, VN = V, PN = P };
  template <class Q>
  GPURED__DEV void make(const job &j, const Q &p, int, int64_t, int, uint64_t *node) {
#pragma unroll
    for (int i = 0; i < V; ++i) set_neutral<K_MAX>(&node[i]);
    if (p.count > 0) node[0] = most_of_bytes<D>(j, p);
  }
};
template <>
struct unit_of<GPURED__U64, GPURED_I8, K_MAX> : byte_max<GPURED_I8> {};
template <>
struct unit_of<GPURED__U64, GPURED_U8, K_MAX> : byte_max<GPURED_U8> {};
template <>
struct unit_of<GPURED__U64, GPURED_I8, K_ADD> : byte_sum<GPURED_I8> {};
template <>
struct unit_of<GPURED__U64, GPURED_U8, K_ADD> : byte_sum<GPURED_U8> {};

/* Extrema of integers of 32 bits: in those, flipped to the order that prepared() gives 64. */
template <int D>
GPURED__DEV piece<D, uint32_t> in_words(const piece<D, uint64_t> &p) {
  return {p.stage, p.slot, p.width_log2, p.count, p.how};
}
template <int D>
GPURED__DEV ragged<D, uint32_t> in_words(const ragged<D, uint64_t> &p) {
  return {p.stage, p.vector, p.mask, p.origin, p.end, p.how, p.count};
}
template <int D>
struct word_search {
  GPURED__DEV uint32_t greater(const job &j, uint32_t most, uint32_t x) {
    return max(most, x ^ (uint32_t)(j.flip >> 32));
  }
  /* What that has found, as the reduction has it. */
  GPURED__DEV uint64_t found(const job &j, uint32_t most) {
    uint64_t x;
    most ^= (uint32_t)(j.flip >> 32);
    widen<D>((typename stored<D>::S)most, &x);
    if (j.how == GPURED__ABS) x = most;
    return prepared<K_MAX>(x, j);
  }
  template <class Q>
  GPURED__DEV uint64_t best(const job &j, const Q &p) {
    uint32_t most = 0;
    each_row(in_words(p), [&](int, const uint32_t *y, bool, auto exists) {
#pragma unroll
      for (int i = 0; i < Q::V; ++i)
        if (exists(i)) most = greater(j, most, y[i]);
    });
    return p.count > 0 ? found(j, most) : lowest(uint64_t());
  }
  template <class Q>
  GPURED__DEV int find(const job &j, const Q &p, uint64_t m, int t) {
    const uint32_t wanted = (uint32_t)(m ^ j.flip);
    int at = INT32_MAX;
    each_row(in_words(p), [&](int r, const uint32_t *y, bool, auto exists) {
#pragma unroll
      for (int i = 0; i < Q::V; ++i)
        if (exists(i) && y[i] == wanted) at = min(at, r * 16 + p.place(t) + i);
    });
    return at;
  }
};
template <int D>
struct word_max {
  enum { P = 4, V = 4, VN = V, PN = P };
  template <class Q>
  GPURED__DEV void make(const job &j, const Q &p, int, int64_t, int, uint64_t *node) {
#pragma unroll
    for (int i = 1; i < V; ++i) set_neutral<K_MAX>(&node[i]);
    node[0] = word_search<D>::best(j, p);
  }
};
template <>
struct unit_of<GPURED__U64, GPURED_I32, K_MAX> : word_max<GPURED_I32> {};
template <>
struct unit_of<GPURED__U64, GPURED_U32, K_MAX> : word_max<GPURED_U32> {};

/* The greatest of a thread's elements, and the first place of a value among them, in the block. */
template <int A, int D>
struct search {
  typedef typename acc<A>::T T;
  enum { V = piece<D, T>::V };
  template <class Q>
  GPURED__DEV T best(const job &j, const Q &p) {
    T a[V];
    block_lanes<K_MAX>(p, a, [&](T x) { return prepared<K_ARG>(x, j); });
#pragma unroll
    for (int i = 1; i < V; ++i) a[0] = greater_of(a[0], a[i]);
    return a[0];
  }
  template <class Q>
  GPURED__DEV int find(const job &j, const Q &p, T m, int t) {
    int at = INT32_MAX;
    each_row(p, [&](int r, T *x, bool, auto exists) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        T y = prepared<K_ARG>(x[i], j);
        if (exists(i) && (equal(y, m) || (is_nan(y) && is_nan(m))))
          at = min(at, r * 16 + p.place(t) + i);
      }
    });
    return at;
  }
};
template <int D>
struct byte_search {
  template <class Q>
  GPURED__DEV uint64_t best(const job &j, const Q &p) {
    return p.count > 0 ? most_of_bytes<D>(j, p) : lowest(uint64_t());
  }
  template <class Q>
  GPURED__DEV int find(const job &j, const Q &p, uint64_t m, int) {
    return place_of_byte(j, p, m);
  }
};
template <>
struct search<GPURED__U64, GPURED_I8> : byte_search<GPURED_I8> {};
template <>
struct search<GPURED__U64, GPURED_U8> : byte_search<GPURED_U8> {};

template <>
struct search<GPURED__U64, GPURED_I32> : word_search<GPURED_I32> {};
template <>
struct search<GPURED__U64, GPURED_U32> : word_search<GPURED_U32> {};

template <int A, int D>
struct unit_of<A, D, K_ARG> {
  typedef typename acc<A>::T T;
  typedef arg_node<T> N;
  enum { P = piece<D, T>::P, V = piece<D, T>::V, VN = 1, PN = 1 };
  template <class Q>
  GPURED__DEV void make(const job &j, const Q &p, int, int64_t offset, int t, N *node) {
    T m = search<A, D>::best(j, p);
#pragma unroll
    for (int d = 1; d < P; d *= 2) m = greater_of(m, __shfl_xor_sync(0xffffffffu, m, d));
    int at = search<A, D>::find(j, p, m, t);
#pragma unroll
    for (int d = 1; d < P; d *= 2) at = min(at, __shfl_xor_sync(0xffffffffu, at, d));
    node->v = m;
    node->i = p.count ? offset + at : INT64_MAX;
  }
};

template <int A, int D>
struct unit_of<A, D, K_LSE> {
  typedef typename acc<A>::T T;
  typedef pair_node<T> N;
  enum { P = piece<D, T>::P, V = piece<D, T>::V, VN = 1, PN = 1 };
  template <class Q>
  GPURED__DEV void make(const job &, const Q &p, int unit_log2, int64_t, int t, N *node) {
    T a[V], m;
    block_lanes<K_MAX>(p, a, [](T x) { return x; });
    m = a[0];
#pragma unroll
    for (int i = 1; i < V; ++i) m = greater_of(m, a[i]);
    for (int d = 1; d < P << unit_log2; d *= 2)
      m = greater_of(m, __shfl_xor_sync(0xffffffffu, m, d));
    T base = is_finite(m) ? m : (T)0;
#pragma unroll
    for (int i = 0; i < V; ++i) set_neutral<K_ADD>(&a[i]);
    each_row(p, [&](int, T *x, bool, auto exists) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const T y = add_exponential(a[i], sub(x[i], base));
        a[i] = exists(i) ? y : a[i];
      }
    });
    join_blocks<K_ADD, P, V>(a, 1, 1 << unit_log2);
    node->s = fold_lanes<K_ADD, P, V>(a);
    node->m = m;
    if (!is_finite(m)) node->s = 1;
    if (p.count == 0 && t % (P << unit_log2) == 0) set_neutral<K_LSE>(node);
  }
};

template <int A, int D>
struct unit_of<A, D, K_MOMENTS> {
  typedef typename acc<A>::T T;
  typedef moments_node<T> N;
  enum { P = piece<D, T>::P, V = piece<D, T>::V, VN = 1, PN = 1 };
  template <class Q>
  GPURED__DEV void make(const job &j, const Q &p, int unit_log2, int64_t offset, int t, N *node) {
    T a[V];
    int64_t left = j.n - offset, most = (int64_t)GPURED__BLOCK << unit_log2;
    const int leader = t & -(P << unit_log2);
    left = __shfl_sync(0xffffffffu, left, leader);
    block_lanes<K_ADD>(p, a, [](T x) { return x; });
    join_blocks<K_ADD, P, V>(a, 1, 1 << unit_log2);
    node->n = left < 0 ? 0 : (left < most ? left : most);
    T mean = quotient(fold_lanes<K_ADD, P, V>(a), (T)node->n);
    mean = __shfl_sync(0xffffffffu, mean, leader);
    block_lanes<K_SQUARE>(p, a, [&](T x) { return sub(x, mean); });
    join_blocks<K_ADD, P, V>(a, 1, 1 << unit_log2);
    node->mean = mean;
    node->m2 = fold_lanes<K_ADD, P, V>(a);
    if (p.count == 0 && t % (P << unit_log2) == 0) set_neutral<K_MOMENTS>(node);
  }
};

/* Folds end with their lanes in P threads, V each; other nodes are ready. */
template <int K, int P, int V, class T>
GPURED__DEV T last_fold(T *a) {
  return fold_lanes<K, P, V>(a);
}
#define GPURED__LAST_FOLD(node)               \
  template <int K, int P, int V, class T>     \
  GPURED__DEV node<T> last_fold(node<T> *a) { \
    return *a;                                \
  }
GPURED__LAST_FOLD(arg_node)
GPURED__LAST_FOLD(pair_node)
GPURED__LAST_FOLD(moments_node)
#undef GPURED__LAST_FOLD

/* How many rows of lanes a thread has in a block of which `left` elements exist. */
GPURED__DEV int rows_left(int64_t left, int before) {
  if (left >= GPURED__BLOCK) return GPURED__LANES;
  return left <= before ? 0 : ((int)left - before - 1) / GPURED__LANES + 1;
}

/* What thread t sees of a block of a tile, number `block` or, where rows are ragged, the one that
 * begins at byte `start`; `left` elements of its row follow. */
template <int MODE, int D, class T>
GPURED__DEV void look_at(piece<D, T> *p, const job &j, const rows &w, const char *stage, int block,
                         int, int64_t left, int t) {
  enum { P = piece<D, T>::P };
  p->stage = stage;
  p->width_log2 = MODE == ROWS_SOME ? w.width_log2 : log2_of(16 * P);
  p->slot = p->width_log2 >= 0 ? swizzled<P>((block << p->width_log2) + t % P, p->width_log2)
                               : block * w.width + t % P;
  p->how = j.how;
  p->count = rows_left(left, t % P * piece<D, T>::V);
}
template <int MODE, int D, class T>
GPURED__DEV void look_at(ragged<D, T> *p, const job &j, const rows &w, const char *stage, int,
                         int start, int64_t left, int t) {
  enum { P = ragged<D, T>::P };
  p->how = j.how;
  p->mask = ragged_mask<P>(MODE == ROWS_RAGGED_LONG ? 1 : w.row_log2);
  p->set(stage, start, left, t % P);
}
template <int MODE, int D, class T>
struct view {
  typedef piece<D, T> Q;
};
template <int D, class T>
struct view<ROWS_RAGGED, D, T> {
  typedef ragged<D, T> Q;
};
template <int D, class T>
struct view<ROWS_RAGGED_LONG, D, T> {
  typedef ragged<D, T> Q;
};

/* Logsumexp of floats has code of its own: it computes as long as it reads. */
__host__ __device__ constexpr bool shares_lse(int a, int d, int k) {
  return a == GPURED__F32 && d == GPURED_F32 && k == K_LSE;
}

/* Tiles of rows that fit in them: each group of blocks is a row. */
template <int A, int D, int K, int MODE>
GPURED__DEV void some_rows(const job &j, const rows &w, int64_t first_row, const char *stage,
                           int t) {
  typedef unit_of<A, D, K> unit;
  typedef typename kind<A, K>::N N;
  enum { P = unit::P, V = unit::V, GROUPS = 32 / P, S = stored<D>::SIZE };
  const int group = t / P;
  for (int block = group; block - group < w.blocks; block += GROUPS) {
    const int64_t row = first_row + (block >> w.row_log2);
    const int64_t offset = (int64_t)(block & ((1 << w.row_log2) - 1)) * GPURED__BLOCK;
    const bool exists = row < j.outputs && block < w.blocks;
    typename view<MODE, D, typename acc<A>::T>::Q mine;
    N node[unit::VN];
    int start = 0;
    if (MODE == ROWS_RAGGED)
      start = ragged_start<S>(j, w, first_row, block >> w.row_log2) + (int)offset * S;
    look_at<MODE>(&mine, j, w, stage, block, start, exists ? j.n - offset : 0, t);
    unit::make(j, mine, w.unit_log2, offset, t, node);
    join_blocks<K, P, unit::VN>(node, K == K_LSE || K == K_MOMENTS ? 1 << w.unit_log2 : 1,
                                1 << w.row_log2);
    N result = last_fold<K, P, V>(node);
    if (exists && t % (P << w.row_log2) == 0) store_result<K>(j, row, result);
  }
}

/* Logsumexp of rows that `BESIDE` threads share, vector by vector in turn: two or four of those
 * that hold 16 lanes, whichever leaves fewer threads of a warp without a row. WIDTH: known to the
 * code, and a multiple of eight vectors, which lie by slot_of's turns; or 0; or RAGGED: then the
 * elements that a row's first and last vectors hold of others count as -inf, which adds nothing. */
template <int BESIDE, int WIDTH>
struct lse_share {
  enum { P = 4, V = 4, EACH = P / BESIDE, LANES = EACH * V };
  const char *stage;
  int slot, turn, width, thread;
  int before, length; /* RAGGED: elements in front of the row in its first vector; of the row */

  template <class F>
  __device__ __forceinline__ void feed(int v, int part, const F &f) const {
    float x[V];
    const int at = WIDTH > 0 ? slot + (v ^ turn) : slot + v;
    unpack<GPURED_F32, float, V>(*(const uint4 *)(stage + 16 * at), x, GPURED__PLAIN);
#pragma unroll
    for (int i = 0; i < V; ++i) f(part * V + i, x[i]);
  }
  template <class F>
  __device__ __forceinline__ void feed_existing(int v, int part, const F &f) const {
    const int at = min(slot + v, RAGGED_BYTES / 16 - 1), first = (v + thread) * V - before;
    float x[V], none;
    set_neutral<K_MAX>(&none);
    unpack<GPURED_F32, float, V>(*(const uint4 *)(stage + 16 * at), x, GPURED__PLAIN);
#pragma unroll
    for (int i = 0; i < V; ++i)
      f(part * V + i, (unsigned)(first + i) < (unsigned)length ? x[i] : none);
  }
  template <class F>
  __device__ __forceinline__ void each_ragged(const F &f) const {
    const int whole = length / (BESIDE * V), all = (length + 2 * V - 2) / V;
    int k = 1;
    feed_existing(0, 0, f);
#pragma unroll 1
    for (; k + 1 < whole; k += 2) {
      feed(k * BESIDE, 1 % EACH, f);
      feed((k + 1) * BESIDE, 0, f);
    }
#pragma unroll 1
    for (; k * BESIDE < all; k += 2) {
      feed_existing(k * BESIDE, 1 % EACH, f);
      if ((k + 1) * BESIDE < all) feed_existing((k + 1) * BESIDE, 0, f);
    }
  }
  /* f(lane of the thread's, x), in ascending order. */
  template <class F>
  __device__ __forceinline__ void each(const F &f) const {
    if (WIDTH == RAGGED) {
      each_ragged(f);
      return;
    }
    const int full = (WIDTH ? WIDTH : width) / P;
    int r = 0;
    for (; r + BESIDE <= full; r += BESIDE)
#pragma unroll
      for (int k = 0; k < P; ++k) feed((r + k / EACH) * P + k % EACH * BESIDE, k % EACH, f);
    for (; r < full; ++r)
#pragma unroll
      for (int c = 0; c < EACH; ++c) feed(r * P + c * BESIDE, c, f);
#pragma unroll
    for (int c = 0; c < EACH; ++c)
      if (!WIDTH && thread + c * BESIDE < width % P) feed(r * P + c * BESIDE, c, f);
  }
  __device__ __forceinline__ pair_node<float> node() const {
    pair_node<float> n;
    float a[LANES];
#pragma unroll
    for (int l = 0; l < LANES; ++l) set_neutral<K_MAX>(&a[l]);
    each([&](int l, float x) { a[l] = greater_of(a[l], x); });
    halves<K_MAX, float, LANES / 2>::fold(a);
    n.m = a[0];
#pragma unroll
    for (int d = 1; d < BESIDE; d *= 2) n.m = greater_of(n.m, __shfl_xor_sync(~0u, n.m, d));
    const float base = is_finite(n.m) ? n.m : 0;
#pragma unroll
    for (int l = 0; l < LANES; ++l) set_neutral<K_ADD>(&a[l]);
    each([&](int l, float x) { a[l] = add_exponential(a[l], sub(x, base)); });
    if (EACH == 2) halves<K_ADD, float, V>::level(a);
#pragma unroll
    for (int d = BESIDE / 2; d > 0; d /= 2)
#pragma unroll
      for (int i = 0; i < V; ++i) a[i] = add(a[i], from_below(~0u, a[i], d));
    halves<K_ADD, float, V / 2>::fold(a);
    n.s = is_finite(n.m) ? a[0] : 1;
    return n;
  }
};

template <int BESIDE, int WIDTH>
GPURED__DEV void lse_rows(const job &j, const rows &w, int64_t row, const char *stage, int t) {
  lse_share<BESIDE, WIDTH> mine;
  mine.stage = stage;
  mine.width = w.width;
  mine.length = w.length;
  mine.thread = t % BESIDE;
  for (int block = t / BESIDE; block - t / BESIDE < w.blocks; block += 32 / BESIDE) {
    mine.turn = block * BESIDE & 7 ^ mine.thread;
    mine.slot = min(block, w.blocks - 1) * w.width + (WIDTH ? 0 : mine.thread);
    if (WIDTH == RAGGED) {
      const int start = ragged_start<4>(j, w, row, min(block, w.blocks - 1));
      mine.slot = start / 16 + mine.thread;
      mine.before = start % 16 / 4;
    }
    const pair_node<float> node = mine.node();
    if (mine.thread == 0 && block < w.blocks && row + block < j.outputs)
      store_result<K_LSE>(j, row + block, node);
  }
}

GPURED__DEV float greatest_of(float4 q) {
  return greater_of(greater_of(q.x, q.y), greater_of(q.z, q.w));
}

/* a + exp(d); SMALL: some d may be below the cut, or what was seen does not count. */
template <bool SMALL>
GPURED__DEV float add_relative(float a, float d, unsigned *seen) {
  return SMALL ? add_exponential(a, d) : add(a, hasty_exponential(d, seen));
}

/* The maximum of floats that begin anywhere in a tile, known to each of the SHARE threads that take
 * whole vectors in turns, the last ones twice, and the first and the last four elements. Where it
 * pays, vectors that all threads of a warp have go first, four at a time; `least`: its shortest
 * row. */
template <int SHARE>
GPURED__DEV float greatest_shared(const float *x, int length, int least, int thread) {
  enum { BY_FOURS = SHARE == 8 || SHARE == 16 };
  const unsigned from = (unsigned)__cvta_generic_to_shared(x),
                 last = (from + length * 4 & ~15u) - 16;
  const auto vector = [](unsigned at) {
    float4 q;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(q.x), "=f"(q.y), "=f"(q.z), "=f"(q.w)
                 : "r"(at));
    return greatest_of(q);
  };
  unsigned at = (from + 15 & ~15u) + thread * 16;
  const int front = min(thread & 3, length - 1), back = max(length - 1 - (thread & 3), 0);
  float m = SHARE < 8 ? greater_of(x[front], x[back]) : x[thread & 4 ? back : front];
  int turns = length < 8 ? 0 : (length / 4 + SHARE - 1) / SHARE;
#pragma unroll 1
  for (int fours = BY_FOURS ? (least / 4 - 1) / (4 * SHARE) : 0; fours > 0; --fours) {
    m = greater_of(m, greater_of(greater_of(vector(at), vector(at + 16 * SHARE)),
                                 greater_of(vector(at + 32 * SHARE), vector(at + 48 * SHARE))));
    turns -= 4;
    at += 64 * SHARE;
  }
#pragma unroll 1
  for (; turns > 0; turns -= 2, at += 32 * SHARE)
    m = greater_of(m, greater_of(vector(min(at, last)), vector(min(at + 16 * SHARE, last))));
#pragma unroll
  for (int d = 1; d < SHARE; d *= 2) m = greater_of(m, __shfl_xor_sync(~0u, m, d));
  return m;
}

/* What a thread has of a block in shared memory, row after row: OWN lanes, ACROSS apart. */
template <int OWN, int ACROSS, bool SMALL>
struct lanes_of_block {
  const float *x;
  float base, *a; /* the sums of exp(x - base); SMALL: some may be below the cut */
  unsigned seen;
  __device__ __forceinline__ void join(int o, float d) {
    a[o] = add_relative<SMALL>(a[o], d, &seen);
  }
  __device__ __forceinline__ void rows(int count) {
    const float *end = x + count * GPURED__LANES, *fours = x + (count & ~3) * GPURED__LANES;
#pragma unroll 1
    for (; x != fours; x += 4 * GPURED__LANES)
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int o = 0; o < OWN; ++o) join(o, sub(x[k * GPURED__LANES + o * ACROSS], base));
#pragma unroll 1
    for (; x != end; x += GPURED__LANES)
#pragma unroll
      for (int o = 0; o < OWN; ++o) join(o, sub(x[o * ACROSS], base));
  }
  /* All of a block; of a lane or two without a loop, whose end costs a third of an element. */
  __device__ __forceinline__ void all() {
    if constexpr (SMALL || OWN > 2) {
      rows(GPURED__LANES);
    } else {
#pragma unroll
      for (int r = 0; r < GPURED__LANES; ++r)
#pragma unroll
        for (int o = 0; o < OWN; ++o) join(o, sub(x[r * GPURED__LANES + o * ACROSS], base));
    }
  }
  /* The last row, of which there are `count` lanes from this thread's on. */
  __device__ __forceinline__ void part(int count) {
#pragma unroll
    for (int o = 0; o < OWN; ++o)
      if (o * ACROSS < count) join(o, sub(x[o * ACROSS], base));
  }
};

/*
 * Logsumexp of a unit of `length` floats, up to 1024, that begin anywhere in a tile, by SHARE
 * threads. A thread has a lane of all blocks (of eight threads two lanes, of four four) or, of a
 * whole warp, of every other one, so that nobody is idle for blocks that are missing. All rows of a
 * warp are equally long. The first thread has the sum.
 */
template <int SHARE>
struct lse_share_of_unit {
  enum {
    BESIDE = SHARE > GPURED__LANES ? SHARE / GPURED__LANES : 1, /* blocks at a time */
    ACROSS = SHARE < GPURED__LANES ? SHARE : GPURED__LANES,     /* threads of a block's lanes */
    OWN = GPURED__LANES / ACROSS,
    AT_ONCE = BESIDE * GPURED__BLOCK
  };
  int lane, block; /* of this thread */
  float base;
  /* The blocks at x, of which `left` elements are left: a thread of a block that is missing has
   * another's lanes, for nothing. Is the sum right? */
  template <bool SMALL>
  __device__ __forceinline__ bool blocks(const float *x, int left, float *a) const {
    lanes_of_block<OWN, ACROSS, SMALL> mine;
    mine.x = x + (block * GPURED__BLOCK < left ? block * GPURED__BLOCK : 0);
    mine.base = base;
    mine.a = a;
    mine.seen = ~0u;
#pragma unroll
    for (int o = 0; o < OWN; ++o) a[o] = 0;
    if (left >= AT_ONCE && BESIDE == 1) {
      mine.all();
    } else if (left >= AT_ONCE) {
      mine.rows(GPURED__LANES);
    } else {
      const bool two = BESIDE > 1 && left > GPURED__BLOCK;
      const int rows = (two ? left - GPURED__BLOCK : left) / GPURED__LANES;
      mine.rows(rows);
      if (!two || block > 0)
        mine.part(left % GPURED__LANES - lane);
      else
        mine.rows(GPURED__LANES - rows);
    }
    return SMALL || !__any_sync(~0u, !all_were_above(mine.seen));
  }
  __device__ __forceinline__ pair_node<float> node(const float *x, int length, int thread) {
    pair_node<float> n;
    float sum[OWN], second[OWN], a[OWN];
    bool small = false;
    lane = thread % ACROSS, block = thread / ACROSS;
    n.m = greatest_shared<SHARE>(x, length, length, thread);
    base = is_finite(n.m) ? n.m : 0;
#pragma unroll
    for (int o = 0; o < OWN; ++o) sum[o] = second[o] = 0;
    x += lane;
#pragma unroll 1
    for (int left = length; left > 0; left -= AT_ONCE, x += AT_ONCE) {
      if (!small) small = !blocks<false>(x, left, a);
      if (small) blocks<true>(x, left, a);
#pragma unroll
      for (int o = 0; o < OWN; ++o) {
        const float other = block * GPURED__BLOCK < left ? a[o] : 0;
        if (BESIDE > 1) a[o] = add(a[o], from_below(~0u, other, GPURED__LANES));
        if (length - left < 2 * AT_ONCE)
          sum[o] = add(sum[o], a[o]);
        else
          second[o] = add(second[o], a[o]);
      }
    }
#pragma unroll
    for (int o = 0; o < OWN; ++o) sum[o] = add(sum[o], second[o]);
    for (int h = OWN / 2; h > 0; h /= 2)
#pragma unroll
      for (int o = 0; o < h; ++o) sum[o] = add(sum[o], sum[o + h]);
    n.s = sum[0];
#pragma unroll
    for (int d = GPURED__LANES / OWN / 2; d > 0; d /= 2) n.s = add(n.s, from_below(~0u, n.s, d));
    if (!is_finite(n.m)) n.s = 1;
    return n;
  }
};

/* The same of up to a tile, one unit after the other. */
template <int SHARE>
GPURED__DEV pair_node<float> lse_spread(const char *stage, int start, int length, int t) {
  enum { UNIT = GPURED__WIDE_BLOCK };
  const float *x = (const float *)(stage + start);
  lse_share_of_unit<SHARE> mine;
  pair_node<float> all;
  if (SHARE < GPURED__LANES) return mine.node(x, length, t % SHARE);
  set_neutral<K_LSE>(&all);
#pragma unroll 1
  for (int done = 0; done < length; done += UNIT) {
    const pair_node<float> n = mine.node(x + done, min(length - done, +UNIT), t % SHARE);
    all = done ? combined<K_LSE>(all, n) : n;
  }
  return all;
}

/* A lane of a block of either half of a warp: of `left` elements, or of whole blocks. Is the sum
 * right? */
template <bool SMALL>
GPURED__DEV bool sum_two_lanes(const float *x, float base, bool whole, int left, int lane,
                               float *a) {
  lanes_of_block<1, GPURED__LANES, SMALL> mine;
  mine.x = x;
  mine.base = base;
  mine.a = a;
  mine.seen = ~0u;
  *a = 0;
  if (whole) {
    mine.all();
  } else {
    mine.rows(left / GPURED__LANES);
    mine.part(left % GPURED__LANES - lane);
  }
  return SMALL || !__any_sync(~0u, !all_were_above(mine.seen));
}
/* Logsumexp of a complete unit and of what follows it, up to another one, by the halves of a warp.
 * Where that is more than half of one, nobody walks further than if the warp shared each, and what
 * a unit costs once is issued for both. */
GPURED__DEV pair_node<float> lse_of_two_units(const float *x, int length, int t) {
  enum { UNIT = GPURED__WIDE_BLOCK, BLOCK = GPURED__BLOCK, LANES = GPURED__LANES };
  const int half = t / LANES, lane = t % LANES, mine = half ? length - UNIT : +UNIT;
  pair_node<float> n, second;
  float base, a, sum = 0, later = 0;
  bool small = false;
  x += half * UNIT;
  n.m = greatest_shared<LANES>(x, mine, length - UNIT, lane);
  base = is_finite(n.m) ? n.m : 0;
  x += lane;
#pragma unroll 1
  for (int done = 0; done < UNIT; done += BLOCK, x += BLOCK) {
    const bool whole = done + BLOCK <= length - UNIT;
    const int left = min(max(mine - done, 0), +BLOCK);
    if (!small) small = !sum_two_lanes<false>(x, base, whole, left, lane, &a);
    if (small) sum_two_lanes<true>(x, base, whole, left, lane, &a);
    if (done < 2 * BLOCK)
      sum = add(sum, a);
    else
      later = add(later, a);
  }
  n.s = add(sum, later);
#pragma unroll
  for (int d = LANES / 2; d > 0; d /= 2) n.s = add(n.s, from_below(~0u, n.s, d));
  if (!is_finite(n.m)) n.s = 1;
  second.m = from_below(~0u, n.m, LANES);
  second.s = from_below(~0u, n.s, LANES);
  return combined<K_LSE>(n, second);
}

/* The lanes of a block of a whole tile, of which four threads have four each, vector by vector; x:
 * the first one, of which `foreign` floats are the block's last. Were all above the cut? */
template <bool SMALL, class R>
GPURED__DEV bool sum_whole_block(const R &row, float4 x, int foreign, float base, float *a) {
  enum { V = 4 };
  unsigned seen = ~0u;
  const float edge[V] = {
      add_relative<SMALL>(0, sub(x.x, base), &seen), add_relative<SMALL>(0, sub(x.y, base), &seen),
      add_relative<SMALL>(0, sub(x.z, base), &seen), add_relative<SMALL>(0, sub(x.w, base), &seen)};
#pragma unroll
  for (int i = 0; i < V; ++i) a[i] = i < foreign ? 0 : edge[i];
#pragma unroll 3
  for (int r = 1; r < GPURED__LANES; ++r) {
    x = row(r);
    a[0] = add_relative<SMALL>(a[0], sub(x.x, base), &seen);
    a[1] = add_relative<SMALL>(a[1], sub(x.y, base), &seen);
    a[2] = add_relative<SMALL>(a[2], sub(x.z, base), &seen);
    a[3] = add_relative<SMALL>(a[3], sub(x.w, base), &seen);
  }
#pragma unroll
  for (int i = 0; i < V; ++i) a[i] = add(a[i], i < foreign ? edge[i] : 0);
  return SMALL || !__any_sync(~0u, !all_were_above(seen));
}

/* Logsumexp of a whole tile, in the places that ragged_mask() gives: a unit for each half of the
 * warp, four threads for the lanes of a block, whose exponentials they add at once. Where a block
 * begins inside a vector, its first thread has in the place of what is in front of it the block's
 * last elements, which are in the same lanes. */
GPURED__DEV pair_node<float> lse_whole_tile(const char *stage, int start, int t) {
  enum { V = 4, P = 4 };
  const int foreign = t % P ? 0 : start % 16 / 4;
  const int first = (start / 16 + t % P) * 16 + t / P * GPURED__BLOCK * 4;
  const auto row = [&](int r) {
    const int at = first + r * GPURED__LANES * 4;
    return *(const float4 *)(stage + (at ^ (at >> 4 & 64)));
  };
  const float4 begin = row(0), end = row(GPURED__LANES);
  const float4 x = make_float4(foreign > 0 ? end.x : begin.x, foreign > 1 ? end.y : begin.y,
                               foreign > 2 ? end.z : begin.z, begin.w);
  pair_node<float> n, second;
  float a[V];
  n.m = greatest_of(x);
#pragma unroll 5
  for (int r = 1; r < GPURED__LANES; ++r) n.m = greater_of(n.m, greatest_of(row(r)));
#pragma unroll
  for (int d = 1; d < 16; d *= 2) n.m = greater_of(n.m, __shfl_xor_sync(~0u, n.m, d));
  const float base = is_finite(n.m) ? n.m : 0;
  if (!sum_whole_block<false>(row, x, foreign, base, a))
    sum_whole_block<true>(row, x, foreign, base, a);
  join_blocks<K_ADD, P, V>(a, 1, 4);
  n.s = fold_lanes<K_ADD, P, V>(a);
  if (!is_finite(n.m)) n.s = 1;
  second.m = from_below(~0u, n.m, 16);
  second.s = from_below(~0u, n.s, 16);
  return combined<K_LSE>(n, second);
}

/* Ragged rows of a tile, of more than a block each. */
enum { TWO_UNITS_LEAST = GPURED__WIDE_BLOCK * 3 / 2 };
template <int SHARE>
GPURED__DEV void lse_spread_rows(const job &j, const rows &w, int64_t row, char *stage, int t) {
  const int most = w.blocks >> w.row_log2;
  const int count = j.outputs - row < most ? (int)(j.outputs - row) : most;
  pair_node<float> mine;
  for (int r = 0; r < count; r += 32 / SHARE) {
    const int start = ragged_start<4>(j, w, row, min(r + t / SHARE, count - 1));
    const pair_node<float> n = SHARE == 32 && w.length > TWO_UNITS_LEAST
                                   ? lse_of_two_units((const float *)(stage + start), w.length, t)
                                   : lse_spread<SHARE>(stage, start, w.length, t);
#pragma unroll
    for (int k = 0; k < 32 / SHARE; ++k) {
      pair_node<float> there = {__shfl_sync(~0u, n.m, k * SHARE), __shfl_sync(~0u, n.s, k * SHARE)};
      if (t == r + k) mine = there;
    }
  }
  if (t < count) store_result<K_LSE>(j, row + t, mine);
}

/* A tile of a long row: its node in the first PN threads. */
template <int A, int D, int K, int MODE>
GPURED__DEV void long_tile(const job &j, const rows &w, int lead, int64_t tile, char *stage, int t,
                           typename kind<A, K>::N *node) {
  typedef unit_of<A, D, K> unit;
  enum { P = unit::P, GROUPS = 32 / P };
  const int64_t offset = (tile * GROUPS + t / P) * GPURED__BLOCK;
  if constexpr (MODE == ROWS_RAGGED_LONG && shares_lse(A, D, K)) {
    const int64_t left = j.n - tile * (TILE_BYTES / 4);
    *node = left < TILE_BYTES / 4 ? lse_spread<32>(stage, lead, (int)left, t)
                                  : lse_whole_tile(stage, lead, t);
    return;
  }
  typename view<MODE, D, typename acc<A>::T>::Q mine;
  look_at<MODE>(&mine, j, w, stage, t / P, lead + t / P * P * GPURED__BLOCK, j.n - offset, t);
  unit::make(j, mine, w.unit_log2, offset, t, node);
  join_blocks<K, P, unit::VN>(node, K == K_LSE || K == K_MOMENTS ? 1 << w.unit_log2 : 1, GROUPS);
}

/* The best of a long row's tile joins the warp's best so far; its place is looked up only if it
 * wins. */
template <int A, int D, int MODE>
GPURED__DEV void arg_tile(const job &j, const rows &w, int lead, int64_t tile, const char *stage,
                          int t, arg_node<typename acc<A>::T> *best) {
  typedef typename acc<A>::T T;
  enum { P = piece<D, T>::P };
  const int64_t offset = (tile * (32 / P) + t / P) * GPURED__BLOCK;
  typename view<MODE, D, T>::Q mine;
  look_at<MODE>(&mine, j, w, stage, t / P, lead + t / P * P * GPURED__BLOCK, j.n - offset, t);
  T m = search<A, D>::best(j, mine);
#pragma unroll
  for (int d = 1; d < 32; d *= 2) m = greater_of(m, __shfl_xor_sync(0xffffffffu, m, d));
  if (best->i != INT64_MAX && !beats(m, best->v)) return;
  int at = search<A, D>::find(j, mine, m, t);
  if (at != INT32_MAX) at += t / P * GPURED__BLOCK;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) at = min(at, __shfl_xor_sync(0xffffffffu, at, d));
  best->v = m;
  best->i = tile * (32 / P) * GPURED__BLOCK + at;
}
template <int A, int D, int MODE, class N>
GPURED__DEV void arg_tile(const job &, const rows &, int, int64_t, const char *, int, N *) {}

/* The end of a segment: its node to the output, or to the second launch. */
template <int A, int D, int K>
GPURED__DEV void end_segment(const job &j, int64_t row, int64_t segment,
                             typename kind<A, K>::N *node, int t) {
  typedef unit_of<A, D, K> unit;
  typedef typename kind<A, K>::N N;
  enum { LANES = kind<A, K>::LANES, VN = unit::VN };
  if (j.segments > 1) {
    N *to = (N *)j.partial + (row * j.segments + segment) * LANES + t * VN;
    if (t < unit::PN)
      for (int i = 0; i < VN; ++i) to[i] = node[i];
    return;
  }
  N result = last_fold<K, unit::P, unit::V>(node);
  if (t == 0) store_result<K>(j, row, result);
}

/* Loads a tile of a long row and waits for it; shares: if it is the row's end, that will be read as
 * it lies. Returns the byte at which it begins. */
template <int D, int MODE>
GPURED__DEV int fetch_tile(const job &j, const rows &w, const char *base, int64_t tile, bool shares,
                           char *stage, int t) {
  enum { S = stored<D>::SIZE, MOST = TILE_BYTES / S };
  const int mask = shares && j.n - tile * MOST < MOST ? 0 : ragged_mask<S>(1);
  int lead = 0;
  if (MODE == ROWS_RAGGED_LONG && w.piece) {
    const neighbours<S> only(j.kept, 0, 0, base, 0);
    lead = tile_pieces<S>(j, w, only, 1, tile * MOST, MOST, mask, stage).template load<S>(t);
  } else if (MODE == ROWS_RAGGED_LONG) {
    load_span<S>(j, base + tile * TILE_BYTES,
                 (int)min((int64_t)TILE_BYTES, j.n * S - tile * TILE_BYTES), mask, stage, t);
    lead = (int)((uintptr_t)base & 127);
  } else {
    load_run<S, ROWS_LONG, 0>(base + tile * TILE_BYTES, j.n * S / 16 - tile * TILE_VECTORS, w,
                              stage, t);
  }
  copies_wait();
  __syncwarp();
  return lead;
}

/* The tree over nodes in shared memory, 16 at a time; the result is in the first LANES threads of
 * the block, and where the first node was. */
template <int K, int LANES, class N>
GPURED__DEV N join_tiles(N *nodes, int count) {
  const int lane = (int)threadIdx.x % LANES, slot = (int)threadIdx.x / LANES;
  for (int d = 1; d < count; d *= 16) {
    __syncthreads();
    for (int i = slot * 16 * d; i < count; i += (int)blockDim.x / LANES * 16 * d) {
      N *first = nodes + i * LANES + lane;
      *first = sixteen_nodes<K, 8>(first, d * LANES, (count - i + d - 1) / d);
    }
  }
  __syncthreads();
  return nodes[lane];
}

/* A warp's own row: it joins its tiles itself. */
template <int K, class N>
GPURED__DEV void end_own_row(const job &j, int64_t row, const N *nodes, int count, int t) {
  N mine;
  set_neutral<K>(&mine);
  if (t < count) mine = nodes[t];
  join_blocks<K, 1, 1>(&mine, 1, count);
  if (t == 0) store_result<K>(j, row, mine);
}

/* Long rows: a segment of a row, or a whole one, for each block, or a row for each warp. */
template <int A, int D, int K, int MODE>
static __global__ void __launch_bounds__(long_warps(K) * 32,
                                         rows_resident(A, K, MODE) * ROWS_WARPS / long_warps(K))
    reduce_long(const job j, const rows w) {
  typedef unit_of<A, D, K> unit;
  typedef typename kind<A, K>::N N;
  enum { LANES = kind<A, K>::LANES, VN = unit::VN, PN = unit::PN };
  const int tile = MODE == ROWS_RAGGED_LONG ? w.tile : TILE_BYTES;
  extern __shared__ __align__(128) char ring[];
  const int t = (int)threadIdx.x % 32, wi = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
  const bool own = K > K_ARG && w.own;
  N *nodes = (N *)(ring + warps * tile) + (own ? wi << w.tiles_log2 : 0), node[VN];
  char *stage = ring + wi * tile;
  const unsigned segments = (unsigned)j.segments;
  const int64_t row = own              ? (int64_t)blockIdx.x * warps + wi
                      : j.outputs == 1 ? 0
                                       : blockIdx.x / segments;
  const int64_t segment = own ? 0 : blockIdx.x - row * segments, first = segment << w.tiles_log2;
  let_next_launch();
  if (own && row >= j.outputs) return;
  const int64_t left = w.row_tiles - first;
  const int count = left < 1 << w.tiles_log2 ? (int)left : 1 << w.tiles_log2;
  const char *base = j.in + (row ? start_of(j, row) * stored<D>::SIZE : 0);
  if (K == K_ARG) set_neutral<K>(node);
  for (int i = own ? 0 : wi; i < count; i += own ? 1 : warps) {
    const int lead = fetch_tile<D, MODE>(j, w, base, first + i, shares_lse(A, D, K), stage, t);
    if (K == K_ARG) {
      arg_tile<A, D, MODE>(j, w, lead, first + i, stage, t, node);
      __syncwarp();
      continue;
    }
    long_tile<A, D, K, MODE>(j, w, lead, first + i, stage, t, node);
    const int turn = LANES > 1 ? lead % 16 / stored<D>::SIZE : 0; /* tiles of pieces differ in it */
    if (t < PN)
#pragma unroll
      for (int e = 0; e < VN; ++e) nodes[i * LANES + (t * VN + e - turn & LANES - 1)] = node[e];
    __syncwarp();
  }
  if constexpr (K > K_ARG)
    if (own) return end_own_row<K>(j, row, nodes, count, t);
  if (K == K_ARG && t == 0) nodes[wi] = *node;
  const N whole = join_tiles<K, LANES>(nodes, K == K_ARG ? warps : count);
  if (j.place >= 0) {
    if (!__syncthreads_or(show_segment<LANES>(j, row, segment, whole))) return;
    N *shown = (N *)ring;
    const N all = join_tiles<K, LANES>(shown, take_shown<K, LANES>(j, row, shown));
    if (threadIdx.x < LANES) finish_half<K>(j, row, all, t, 0xffffu);
    return;
  }
  if (wi) return;
#pragma unroll
  for (int e = 0; e < VN; ++e) node[e] = nodes[(t < PN ? t : 0) * VN + e];
  end_segment<A, D, K>(j, row, segment, node, t);
}

/* Rows of 4, 8, 16, 32 and 64 floats have code of their own; logsumexp, which computes as long as
 * it reads, all short ones. */
__host__ __device__ constexpr bool fixes_widths(int a, int d) {
  return (a == GPURED__F32 && d == GPURED_F32) || (a == GPURED__F64 && d == GPURED_F64);
}

/* A tile of rows that each fit in a block of threads' share, loaded and reduced. */
template <int A, int D, int K, int MODE, int WIDTH>
GPURED__DEV void rows_of_tile(const job &j, const rows &w, int64_t row, char *stage, int t) {
  enum { S = stored<D>::SIZE };
  if (MODE == ROWS_RAGGED_EACH)
    load_ragged<S, 8>(j, w, row, stage, t); /* eight: no swizzle */
  else if (MODE == ROWS_RAGGED && shares_lse(A, D, K))
    load_ragged<S, 8, true>(j, w, row, stage, t);
  else if (MODE == ROWS_RAGGED)
    load_ragged<S, S>(j, w, row, stage, t);
  else
    load_tile<S, MODE, WIDTH>(j, w, row, stage, t);
  copies_wait();
  __syncwarp();
  if (MODE == ROWS_EACH || MODE == ROWS_RAGGED_EACH) {
    const int count = j.outputs - row < w.blocks ? (int)(j.outputs - row) : w.blocks;
    for (int block = t; block < count; block += 32) {
      const int at = MODE == ROWS_EACH ? block : ragged_start<S>(j, w, row, block);
      store_result<K>(j, row + block, each_of<A, D, K, WIDTH>::node(j, w, stage, at));
    }
  } else if (MODE == ROWS_SOME && shares_lse(A, D, K)) {
    if (w.beside == 2 && w.width == 32)
      lse_rows<2, 32>(j, w, row, stage, t);
    else if (w.beside == 2 && w.width == 24)
      lse_rows<2, 24>(j, w, row, stage, t);
    else if (w.beside == 2)
      lse_rows<2, 0>(j, w, row, stage, t);
    else if (w.width == 64)
      lse_rows<4, 64>(j, w, row, stage, t);
    else
      lse_rows<4, 0>(j, w, row, stage, t);
  } else if (MODE == ROWS_RAGGED && shares_lse(A, D, K)) {
    if (w.beside == 2)
      lse_rows<2, RAGGED>(j, w, row, stage, t);
    else if (w.beside == 4 && w.row_log2 == 0)
      lse_rows<4, RAGGED>(j, w, row, stage, t);
    else if (w.beside == 4)
      lse_spread_rows<4>(j, w, row, stage, t);
    else if (w.beside == 8)
      lse_spread_rows<8>(j, w, row, stage, t);
    else if (w.beside == 16)
      lse_spread_rows<16>(j, w, row, stage, t);
    else
      lse_spread_rows<32>(j, w, row, stage, t);
  } else {
    some_rows<A, D, K, MODE>(j, w, row, stage, t);
  }
  __syncwarp();
}

template <int A, int D, int K, int MODE>
static __global__ void __launch_bounds__(ROWS_WARPS * 32, rows_resident(A, K, MODE))
    reduce_rows(const job j, const rows w) {
  enum {
    FIXED = MODE == ROWS_EACH && K != K_ARG && fixes_widths(A, D),
    EVERY = FIXED && shares_lse(A, D, K)
  };
  extern __shared__ __align__(128) char ring[];
  const int t = (int)threadIdx.x % 32, wi = (int)threadIdx.x / 32;
  const int64_t step = w.blocks >> w.row_log2; /* rows of a tile */
  char *stage = ring + wi * (MODE >= ROWS_RAGGED_EACH ? w.tile : tile_bytes(MODE));
  const int64_t row = ((int64_t)blockIdx.x * ROWS_WARPS + wi) * step;
  if (row >= j.outputs) return;
  if (EVERY) {
    switch (w.width) {
#define GPURED__CASE(WIDTH) \
  case WIDTH:               \
    return rows_of_tile<A, D, K, MODE, WIDTH * EVERY>(j, w, row, stage, t);
      GPURED__ONE_TO_15(GPURED__CASE)
      GPURED__CASE(16)
      GPURED__CASE(17)
      GPURED__CASE(18)
#undef GPURED__CASE
    }
  } else if (FIXED && w.width == 1)
    rows_of_tile<A, D, K, MODE, FIXED>(j, w, row, stage, t);
  else if (FIXED && w.width == 2)
    rows_of_tile<A, D, K, MODE, 2 * FIXED>(j, w, row, stage, t);
  else if (FIXED && w.width == 4)
    rows_of_tile<A, D, K, MODE, 4 * FIXED>(j, w, row, stage, t);
  else if (FIXED && w.width == 8)
    rows_of_tile<A, D, K, MODE, 8 * FIXED>(j, w, row, stage, t);
  else if (FIXED && w.width == 16)
    rows_of_tile<A, D, K, MODE, 16 * FIXED>(j, w, row, stage, t);
  else
    rows_of_tile<A, D, K, MODE, MODE == ROWS_RAGGED_EACH ? RAGGED : 0>(j, w, row, stage, t);
}

/* ---- The best element of a row ---- */
/*
 * Which element is the best depends on no order. So threads take a row's vectors as they lie,
 * straight from memory, from the border of 16 bytes in front of it on: half a warp has a row, or a
 * warp, or a block of threads a long one. What a vector holds beside the row is replaced by its
 * neighbour in it, which is found at its own place: in front that place would be less than 0, and
 * behind it an equal element comes too late.
 */
enum { BEST_THREADS = 256, BEST_AT_ONCE = 4, BEST_LONG = 48 << 10 };

/* An element as it is compared: 32 bits of an integer by themselves. */
template <int A, int D>
struct best_value {
  typedef typename acc<A>::T T;
  GPURED__DEV T of(const job &j, typename stored<D>::S raw) {
    T x;
    widen<D>(raw, &x);
    return prepared<K_ARG>(x, j);
  }
};
struct best_word {
  typedef int T;
  GPURED__DEV int of(const job &j, uint32_t raw) {
    return (int)(raw ^ (uint32_t)(j.flip >> 32) ^ 0x80000000u);
  }
};
template <int A>
struct best_value<A, GPURED_I32> : best_word {};
template <int A>
struct best_value<A, GPURED_U32> : best_word {};

/* The best of a row so far, as one thread knows it. */
template <int A, int D>
struct best_of_row {
  typedef best_value<A, D> value;
  typedef typename value::T T;
  enum { V = 16 / stored<D>::SIZE };
  T v;
  int at;

  /* Elements from number `from` on; of the first vector `skip` are not the row's, of the last one
   * `count` are. */
  __device__ __forceinline__ void take(const job &j, const uint4 &q, int from, bool is_first,
                                       int skip, int count) {
    T x[V];
#pragma unroll
    for (int k = 0; k < V; ++k) x[k] = value::of(j, element_of<D>(q, k));
    if (skip > 0)
#pragma unroll
      for (int k = V - 2; k >= 0; --k) x[k] = k < skip ? x[k + 1] : x[k];
    if (count < V)
#pragma unroll
      for (int k = 1; k < V; ++k) x[k] = k >= count ? x[k - 1] : x[k];
    if (is_first) v = x[0], at = from;
#pragma unroll
    for (int k = 0; k < V; ++k) keep_best(x[k], from + k, &v, &at);
  }
  /* Of N threads. */
  template <int N>
  __device__ __forceinline__ void meet() {
    T m = v;
#pragma unroll
    for (int d = 1; d < N; d *= 2) m = greater_of(m, __shfl_xor_sync(0xffffffffu, m, d));
    if (!equal(v, m) && !(is_nan(v) && is_nan(m))) at = INT32_MAX;
#pragma unroll
    for (int d = 1; d < N; d *= 2) at = min(at, __shfl_xor_sync(0xffffffffu, at, d));
    v = m;
  }
};

/* SPAN: threads of a row, which has at least one vector more. */
template <int A, int D, int SPAN>
static __global__ void __launch_bounds__(BEST_THREADS) reduce_best(const job j) {
  typedef typename stored<D>::S S;
  enum { SIZE = sizeof(S), V = 16 / SIZE, WARPS = SPAN > 32 ? SPAN / 32 : 1 };
  __shared__ best_of_row<A, D> bests[WARPS];
  const int t = (int)threadIdx.x % SPAN, group = (int)threadIdx.x / SPAN;
  const int64_t number = (int64_t)blockIdx.x * (BEST_THREADS / SPAN) +
                         (SPAN < 32 ? group : __shfl_sync(0xffffffffu, group, 0));
  const int64_t row = min(number, j.outputs - 1); /* half a warp may have none of its own */
  const char *begin = j.in + start_of(j, row) * SIZE, *border = border_before(begin);
  const int skip = (int)(begin - border) / SIZE, all = (int)j.n + skip;
  const int vectors = (all + V - 1) / V, last = all - (vectors - 1) * V;
  const int safe = j.end - border < (int64_t)vectors * 16 ? vectors - 1 : vectors;
  best_of_row<A, D> best;
  for (int i = t; i < safe; i += SPAN * BEST_AT_ONCE) {
    uint4 q[BEST_AT_ONCE];
#pragma unroll
    for (int u = 0; u < BEST_AT_ONCE; ++u)
      if (i + u * SPAN < safe) q[u] = *(const uint4 *)(border + (int64_t)(i + u * SPAN) * 16);
#pragma unroll
    for (int u = 0; u < BEST_AT_ONCE; ++u) {
      const int k = i + u * SPAN;
      if (k < safe)
        best.take(j, q[u], k * V - skip, u == 0 && i == t, u == 0 && k == 0 ? skip : 0,
                  k == vectors - 1 ? last : V);
    }
  }
  if (safe < vectors && t == safe % SPAN) /* the input ends inside the last one */
    for (int e = safe * V - skip; e < (int)j.n; ++e)
      keep_best(best_value<A, D>::of(j, ((const S *)begin)[e]), e, &best.v, &best.at);
  best.template meet<(SPAN < 32 ? SPAN : 32)>();
  if (SPAN > 32) {
    if (t % 32 == 0) bests[t / 32] = best;
    __syncthreads();
    if (t >= 32) return;
    best = bests[t % WARPS];
    best.template meet<WARPS>();
  }
  if (t > 0 || number > row) return;
  arg_node<typename acc<A>::T> node;
  node.v = 0;
  node.i = best.at < 0 ? 0 : best.at;
  store_result<K_ARG>(j, row, node);
}

/* ============================================================================================== */
/* 7  Reduce: columns                                                                             */
/* ============================================================================================== */
/*
 * Neighbouring sequences lie side by side in memory. A thread reads 16 bytes of V columns at a time
 * and has one lane of them, the rows l, l + 16, ... of each block; a block of threads is `across`
 * such threads wide, 16 lanes high and `deep` pieces of the sequence deep. Short sequences (at most
 * a block) are read whole by one thread for V columns, or by up to 16 for some lanes each. Where
 * the order is free, a segment's node is one value and not 16 lanes.
 *
 * Rows that begin anywhere (a width that is no multiple of 16 bytes, say) lie turned: 16 of them
 * are a multiple of 16 bytes, so that all rows of a lane begin equally far behind a border. The
 * threads of a lane read whole vectors from the border before the tile's first column on, and a
 * tile has V - 1 columns less than they read, so that each lane has all of them.
 *
 * Rows without gaps that are not lines of 128 bytes would leave such vectors empty where they are
 * short, and otherwise cost a fifth more from the second cache, in lines and sectors of which half
 * is another tile's. There the 16 rows of the lanes, which follow each other in memory, are one row
 * of 16 times as many columns (c.narrow), and what a thread has are columns of several lanes. If
 * that is longer than a block of threads is wide, a tile is 4 KB of it (c.span), and the lanes of a
 * column meet in the second launch.
 *
 * The rows of a sequence of two axes are as far apart as the inner one has it, and where that ends
 * they go on elsewhere: a thread counts its place along it.
 */
enum {
  COLS_THREADS = 256,
  COLS_ACROSS_LOG2 = 4,
  COLS_MOST_LOG2 = 5, /* few segments: their nodes cost more to write than bytes to read */
  /* Bytes that are read by blocks of threads which are all there at once, so that clusters join
   * their segments. Of more, such blocks do not end together: 0.03 to 0.08 slower at twice that. */
  COLS_AT_ONCE = 1 << 29,
  SPAN_LEAST = 1 << 23, /* bytes of an input that pays for the nodes of spans; */
  SPAN_LEAST_ROWS = 32, /* elements of a thread in a segment of theirs */
  SPAN_MOST_ROWS = 2048,
  COLS_SHORT = 64,
  COLS_PAIRS = 2 * GPURED__LANES, /* rows that a thread has at once, at most */
  SHORT_NARROW = 64,   /* bytes of a row: fewer columns of more than COLS_SHORT rows go elsewhere */
  SHORT_MANY = 256,    /* threads that keep a multiprocessor busy */
  SHORT_THREADS = 128, /* few, so that registers hold many rows of theirs */
  COLS_FEW = 8
};

struct cols {
  int64_t width;            /* columns; the last kept axis, of stride 1 */
  int64_t tiles;            /* along it; for short ones, strips of a thread in all */
  int across_log2;          /* threads along it */
  int deep_log2;            /* threads along a segment */
  int blocks_log2;          /* blocks that each of them takes, at most 2^COLS_MOST_LOG2 */
  int64_t row_bytes;        /* from one element of a sequence to the next */
  int inner, turn;          /* of two axes: extent of the inner one, or 0; 16 modulo that */
  int64_t outer_bytes;      /* from one element to the next along the outer one, */
  int64_t stride, jump;     /* to a thread's next row, and what the end of the inner axis adds */
  unsigned inner_recip;     /* 2^32 / inner, for few rows */
  unsigned width_recip;     /* single ones: what set_divisor() makes of `width`, */
  int width_shift;          /* and its shift */
  int columns;              /* of a tile, for which there are threads, or V - 1 less */
  int narrow;               /* 2^rows_log2 rows are read as one, and a tile is all of it, */
  int span;                 /* or so many elements: there are several */
  int rows_log2;            /* a thread's rows are so far apart: 4 where lanes matter */
  int rows;                 /* of a segment that a thread takes, or 16 of them, a lane each */
  unsigned groups;          /* of segments: as many as a cluster has */
  int share_log2;           /* short ones: so many threads have a strip together */
  int packed;               /* a thread's results are whole vectors, */
  int64_t out_step;         /* or neighbours so many bytes apart */
  int cluster_log2;         /* blocks of threads that join their segments themselves */
  int quarter;              /* short ones that are needed twice: its rows, of a strip */
  unsigned outers, step[3]; /* columns needed twice: batches of them; from one unit of a block of
                               threads to its next: strips, segments, batches */
};

/* Where row r of a sequence is; *along: its place on the inner axis. */
GPURED__DEV int64_t offset_of_row(const cols &c, int64_t r, int *along) {
  if (c.inner == 0) return r * c.row_bytes;
  const int64_t outer = gpured__quotient(r, c.inner);
  *along = (int)(r - outer * c.inner);
  return outer * c.outer_bytes + *along * c.row_bytes;
}
/* What the ends of the inner axis, each a jump, add in front of row r, one of few. */
GPURED__DEV int64_t ends_before_row(int r, unsigned inner_recip, int64_t jump) {
  return (int64_t)__umulhi((unsigned)r, inner_recip) * jump;
}
/* A thread's next row, of two axes. */
GPURED__DEV void to_next_row(const cols &c, const char **row, int *along) {
  *row += c.stride;
  *along += c.turn;
  if (*along < c.inner) return;
  *along -= c.inner;
  *row += c.jump;
}

/* Where the order does not matter a thread keeps one node instead of a counter. */
__host__ __device__ constexpr bool cols_free(int a, int k) {
  return a == GPURED__U64 || k == K_MAX || k == K_ARG;
}
__host__ __device__ constexpr bool is_byte(int d) { return d == GPURED_I8 || d == GPURED_U8; }

template <int D>
struct strip {
  enum { SIZE = stored<D>::SIZE, V = 16 / SIZE };
};

/* Where the 16 bytes of a thread lie among those of its `across` neighbours, for one copy after
 * another of rows that are `step` bytes apart: as far behind a line of 128 bytes as in memory. A
 * line that lies otherwise arrives in pieces. */
struct line_turn {
  unsigned first, step, last;
  __device__ __forceinline__ line_turn(const char *from, int64_t bytes, int across)
      : first((unsigned)((uintptr_t)from >> 4)),
        step((unsigned)(bytes >> 4)),
        last((unsigned)across - 1) {}
  __device__ __forceinline__ int operator()(int k) const {
    return (int)((first + (unsigned)k * step & last) * 16);
  }
};

/*
 * A thread's rows of a segment, as they come: 16 bytes of each, four rows at a time, by copies that
 * run ahead into a ring of its own in shared memory. As many bytes are on their way as the ring has
 * room for, all the time, whatever the registers hold.
 */
enum { COLS_RING = 3, COLS_ROWS = 4 };
enum { COLS_RING_BYTES = COLS_RING * COLS_ROWS * COLS_THREADS * 16 };
struct column_ring {
  char *space;
  int mine[COLS_ROWS]; /* where in it */
  const job *j;
  const cols *c;
  const char *next;
  int left, at, along;
  bool edge; /* is the thread a row's last one, whose copies end where the input does? */

  __device__ __forceinline__ char *slot(int k) const {
    return space + mine[k] + (at * COLS_ROWS + k) * COLS_THREADS * 16;
  }
  __device__ __forceinline__ void ask() {
    const int64_t step = c->stride;
    if (c->inner && !edge) {
#pragma unroll
      for (int k = 0; k < COLS_ROWS; ++k) {
        copy_if<16>(k < left, slot(k), next);
        to_next_row(*c, &next, &along);
      }
    } else if (c->inner) {
#pragma unroll
      for (int k = 0; k < COLS_ROWS; ++k) {
        if (k < left) copy_before(slot(k), next, j->end);
        to_next_row(*c, &next, &along);
      }
    } else {
      if (!edge)
#pragma unroll
        for (int k = 0; k < COLS_ROWS; ++k) copy_if<16>(k < left, slot(k), next + k * step);
      else
#pragma unroll
        for (int k = 0; k < COLS_ROWS; ++k)
          if (k < left) copy_before(slot(k), next + k * step, j->end);
      next += COLS_ROWS * step;
    }
    copies_commit();
    left -= COLS_ROWS;
  }
  /* to: of `across` threads side by side */
  __device__ __forceinline__ void start(char *to, int across, const char *from, int rows) {
    const line_turn turn(from, c->stride, across);
    space = to;
#pragma unroll
    for (int k = 0; k < COLS_ROWS; ++k) {
      mine[k] = turn(k);
      asm volatile("" : "+r"(mine[k])); /* or it is worked out again for each copy */
    }
    next = from;
    left = rows;
    for (at = 0; at < COLS_RING; ++at) ask();
    at = 0;
  }
  /* Four rows to registers, and those a ring ahead asked for. */
  __device__ __forceinline__ void take(uint4 *raw) {
    copies_wait_but<COLS_RING - 1>();
#pragma unroll
    for (int k = 0; k < COLS_ROWS; ++k) raw[k] = *(const uint4 *)slot(k);
    ask();
    at = at + 1 < COLS_RING ? at + 1 : 0;
  }
};

/* Which tile a block of threads has. It is looked up again at the end, rather than keep registers
 * from the rows on their way. */
struct column_tile {
  int64_t tile, group, outer;
  unsigned rank; /* in the cluster */
  __device__ __forceinline__ explicit column_tile(const cols &c) {
    unsigned block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block)); /* volatile: not what was kept */
    const unsigned k = block >> c.cluster_log2, tiles = (unsigned)c.tiles;
    rank = block - (k << c.cluster_log2);
    tile = k % tiles;
    group = k / tiles % c.groups;
    outer = k / tiles / c.groups;
  }
  __device__ __forceinline__ int64_t segment(const cols &c) const {
    return (group << c.cluster_log2) + rank;
  }
  __device__ __forceinline__ int64_t first_col(const cols &c) const {
    return tile * (c.span ? c.span : c.columns);
  }
  __device__ __forceinline__ int64_t first_row(const cols &c, int deep) const {
    return ((segment(c) << c.deep_log2) + deep) * c.rows;
  }
};

/* Bits `from` to `to`, of 32. */
GPURED__DEV unsigned bits_between(int from, int to) {
  return to <= from ? 0 : ~0u >> (32 - to) & ~0u << from;
}

/* What a thread has of a segment: V columns of one lane, or where 16 rows are one, of several; and
 * then those of the last row that exist, which are not in the ring. */
struct column_share {
  int deep, lane, rows;
  int elements;     /* of the piece that 16 lanes have together, or one thread of narrow rows */
  int place;        /* of the first column, in the tile */
  const char *last; /* row */
  unsigned exist;   /* in it: a bit for each column */

  __device__ __forceinline__ bool has(int i) const { return rows > 0 || in_last(i); }
  __device__ __forceinline__ bool in_last(int i) const { return exist >> i & 1; }
  /* Which of its rows is the best one is a short number, and blocks do not matter, since the
   * thread's rows are equally far apart from the first to the last. */
  __device__ __forceinline__ int64_t index(const cols &c, const column_tile &at, int i,
                                           int row) const {
    const int l = c.narrow ? ((int)at.first_col(c) + place + i) / c.columns : lane;
    return at.first_row(c, deep) + l + ((int64_t)row << c.rows_log2);
  }
  /* f(i, x) for what exists of the last row. */
  template <int D, class T, class F>
  __device__ __forceinline__ void each_of_last(int how, const F &f) const {
    if (!exist) return;
#pragma unroll
    for (int i = 0; i < strip<D>::V; ++i) {
      T x;
      if (!in_last(i)) continue;
      widen<D>(((const typename stored<D>::S *)last)[i], &x);
      adjust(&x, how);
      f(i, x);
    }
  }
};

/* The next block of V columns, `rows` rows of the thread's that are left, into their lanes. */
template <int D, int K, class T>
GPURED__DEV void ring_lanes(const job &j, const column_share &share, column_ring &ring, int rows,
                            T *a) {
  enum { V = strip<D>::V };
#pragma unroll
  for (int i = 0; i < V; ++i) set_neutral<K>(&a[i]);
#pragma unroll
  for (int first_row = 0; first_row < GPURED__LANES; first_row += COLS_ROWS) {
    uint4 raw[COLS_ROWS];
    ring.take(raw);
#pragma unroll
    for (int b = 0; b < COLS_ROWS; ++b) {
      T x[V];
      if (first_row + b >= rows) break;
      unpack<D, T, V>(raw[b], x, j.how);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        T y = prepared<K>(x[i], j);
        a[i] = first_row + b == 0 ? first<K>(y) : step<K>(a[i], y);
      }
    }
  }
  if (rows < GPURED__LANES)
    share.each_of_last<D, T>(j.how, [&](int i, T x) { a[i] = step<K>(a[i], prepared<K>(x, j)); });
}

/* f(k, raw) for each row k of a thread, in order. */
template <class F>
GPURED__DEV void ring_rows(column_ring &ring, int rows, const F &f) {
#pragma unroll 1
  for (int row = 0; row < rows; row += COLS_ROWS) {
    uint4 raw[COLS_ROWS];
    ring.take(raw);
#pragma unroll
    for (int b = 0; b < COLS_ROWS; ++b) {
      if (row + b >= rows) break;
      f(row + b, raw[b]);
    }
  }
}

/* What a thread keeps of V columns where the order is free. */
template <int A, int D, int K>
struct free_columns {
  typedef typename acc<A>::T T;
  typedef T X; /* as which elements come */
  T a[strip<D>::V];
  __device__ __forceinline__ free_columns() {
#pragma unroll
    for (int i = 0; i < strip<D>::V; ++i) set_neutral<K>(&a[i]);
  }
  __device__ __forceinline__ void join(const job &j, int i, X x) {
    a[i] = step<K>(a[i], prepared<K>(x, j));
  }
  __device__ __forceinline__ T node(const job &, int i) const { return a[i]; }
};
/* Extrema of integers of 32 bits: in those. Without a row, no better than any element. */
template <int D>
struct word_columns {
  typedef uint32_t X;
  uint32_t a[strip<D>::V];
  __device__ __forceinline__ word_columns() {
#pragma unroll
    for (int i = 0; i < strip<D>::V; ++i) a[i] = 0;
  }
  __device__ __forceinline__ void join(const job &j, int i, X x) {
    a[i] = word_search<D>::greater(j, a[i], x);
  }
  __device__ __forceinline__ uint64_t node(const job &j, int i) const {
    return word_search<D>::found(j, a[i]);
  }
};
template <>
struct free_columns<GPURED__U64, GPURED_I32, K_MAX> : word_columns<GPURED_I32> {};
template <>
struct free_columns<GPURED__U64, GPURED_U32, K_MAX> : word_columns<GPURED_U32> {};

enum { SEGMENT_TREE, SEGMENT_FREE, SEGMENT_BEST, SEGMENT_BYTES };
__host__ __device__ constexpr int segment_way(int a, int d, int k) {
  return is_byte(d) && k != K_MUL ? SEGMENT_BYTES
         : k == K_ARG             ? SEGMENT_BEST
         : cols_free(a, k)        ? SEGMENT_FREE
                                  : SEGMENT_TREE;
}

/* A thread's rows of a segment of V columns: put(i, node) of each after all threads have read
 * theirs. Stacks are [level][i][thread]. */
template <int A, int D, int K, int WAY>
struct column_segment {
  typedef typename acc<A>::T T;
  enum { V = strip<D>::V };
  template <class F>
  GPURED__DEV void run(const job &j, const cols &, const column_share &share, column_ring &ring,
                       T *stack, const F &put) {
    const int threads = (int)blockDim.x;
    const int blocks = (share.elements + GPURED__BLOCK - 1) / GPURED__BLOCK;
    int count = 0;
    T a[V];
    for (; count < blocks; ++count) {
      ring_lanes<D, K>(j, share, ring, share.rows - count * GPURED__LANES, a);
#pragma unroll
      for (int i = 0; i < V; ++i) push<K>(stack + i * threads, V * threads, count, a[i]);
    }
#pragma unroll
    for (int i = 0; i < V; ++i) a[i] = closed<K>(stack + i * threads, V * threads, count);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < V; ++i) put(i, a[i]);
  }
};

template <int A, int D, int K>
struct column_segment<A, D, K, SEGMENT_FREE> {
  typedef typename acc<A>::T T;
  enum { V = strip<D>::V };
  template <class F>
  GPURED__DEV void run(const job &j, const cols &, const column_share &share, column_ring &ring,
                       T *, const F &put) {
    typedef typename free_columns<A, D, K>::X X;
    free_columns<A, D, K> kept;
    ring_rows(ring, share.rows, [&](int, const uint4 &raw) {
      X x[V];
      unpack<D, X, V>(raw, x, j.how);
#pragma unroll
      for (int i = 0; i < V; ++i) kept.join(j, i, x[i]);
    });
    share.each_of_last<D, X>(j.how, [&](int i, X x) { kept.join(j, i, x); });
    __syncthreads();
#pragma unroll
    for (int i = 0; i < V; ++i) put(i, kept.node(j, i));
  }
};

template <int A, int D>
struct column_segment<A, D, K_ARG, SEGMENT_BEST> {
  typedef typename acc<A>::T T;
  enum { V = strip<D>::V };
  template <class F>
  GPURED__DEV void run(const job &j, const cols &c, const column_share &share, column_ring &ring,
                       arg_node<T> *, const F &put) {
    T best[V];
    int at[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      best[i] = lowest(T());
      at[i] = 0;
    }
    ring_rows(ring, share.rows, [&](int row, const uint4 &raw) {
      T x[V];
      unpack<D, T, V>(raw, x, j.how);
#pragma unroll
      for (int i = 0; i < V; ++i) keep_best(prepared<K_ARG>(x[i], j), row, &best[i], &at[i]);
    });
    share.each_of_last<D, T>(
        j.how, [&](int i, T x) { keep_best(prepared<K_ARG>(x, j), share.rows, &best[i], &at[i]); });
    __syncthreads();
    const column_tile tile(c);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      arg_node<T> x;
      x.v = best[i];
      x.i = share.has(i) ? share.index(c, tile, i, at[i]) : INT64_MAX;
      put(i, x);
    }
  }
};

/*
 * Elements of a byte. At the speed of memory there is time for three instructions of the integer
 * pipe for each, and 64 bits take more than that; but a thread has few rows, whose sums fit 32
 * bits. Four bytes at a time are made unsigned ones of the same order, and what was done to them
 * is undone in the nodes.
 */
/* Byte b of a changed word to what is kept of its column. Squares are of the word as it came. */
template <int D, int K>
GPURED__DEV uint32_t byte_step(uint32_t a, uint32_t word, int b, int row) {
  const uint32_t only = (uint32_t)(K == K_SQUARE ? 0xff : 1) << 8 * b;
  if (K == K_ADD) return __dp4a(word, only, a);
  if (K == K_SQUARE && D == GPURED_I8)
    return (uint32_t)__dp4a((int)(word & only), (int)word, (int)a);
  if (K == K_SQUARE) return __dp4a(word & only, word, a);
  /* the greatest byte, and for indices of those the first row: the greatest of 0xffff - row */
  const uint32_t x =
      K == K_MAX ? __byte_perm(word, 0, 0x4440u + (unsigned)b)
                 : __byte_perm(word, 0xffffu - (uint32_t)row, 0x0654u + ((unsigned)b << 12));
  return a > x ? a : x;
}

template <int D>
struct byte_rows {
  uint32_t mask; /* of a byte, four times */
  int how;

  __device__ __forceinline__ byte_rows(const job &j, int k) {
    const bool negative = D == GPURED_I8 && j.how != GPURED__ABS && j.how != GPURED__NONZERO;
    how = j.how;
    mask = negative ? 0x80808080u : 0;
    if (k == K_MAX || k == K_ARG) mask ^= ((uint32_t)j.flip & 0xffu) * 0x01010101u;
  }
  __device__ __forceinline__ void change(uint32_t *word) const {
    if (how == GPURED__NONZERO)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        word[i] = (((word[i] & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word[i]) >> 7 & 0x01010101u;
    if (D == GPURED_I8 && how == GPURED__ABS)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        word[i] = (word[i] ^ (word[i] >> 7 & 0x01010101u) * 0xffu) + (word[i] >> 7 & 0x01010101u);
#pragma unroll
    for (int i = 0; i < 4; ++i) word[i] ^= mask;
  }
  /* A row of 16 columns to what is kept of them. */
  template <int K>
  __device__ __forceinline__ void take(uint32_t *kept, const uint4 &raw, int row) const {
    uint32_t word[4] = {raw.x, raw.y, raw.z, raw.w};
    if (K != K_SQUARE) change(word);
#pragma unroll
    for (int i = 0; i < 16; ++i) kept[i] = byte_step<D, K>(kept[i], word[i / 4], i % 4, row);
  }
  /* The element that a changed byte came from, as widen() and adjust() leave it. */
  __device__ __forceinline__ uint64_t element(uint32_t byte) const {
    byte ^= mask & 0xffu;
    return D == GPURED_I8 && how != GPURED__ABS && how != GPURED__NONZERO
               ? (uint64_t)(int64_t)(int8_t)byte
               : byte;
  }
};

/* What was kept of a column of so many rows; index(row): where one of them is in the sequence. */
template <int D, int K, class F>
GPURED__DEV void byte_node(const job &j, const byte_rows<D> &bytes, uint32_t kept, int rows,
                           const F &, uint64_t *a) {
  if (K == K_ADD) *a = (uint64_t)((int64_t)kept - (int64_t)rows * (int64_t)(bytes.mask & 0xffu));
  if (K == K_SQUARE) *a = kept;
  if (K == K_MAX) *a = prepared<K_MAX>(bytes.element(kept), j);
}
template <int D, int K, class F>
GPURED__DEV void byte_node(const job &j, const byte_rows<D> &bytes, uint32_t kept, int,
                           const F &index, arg_node<uint64_t> *a) {
  a->v = prepared<K_ARG>(bytes.element(kept >> 24), j);
  a->i = index((int)(0xffffu - (kept & 0xffffu)));
}

template <int A, int D, int K>
struct column_segment<A, D, K, SEGMENT_BYTES> {
  typedef typename kind<A, K>::N N;
  template <class F>
  GPURED__DEV void run(const job &j, const cols &c, const column_share &share, column_ring &ring,
                       N *, const F &put) {
    const byte_rows<D> bytes(j, K);
    uint32_t kept[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) kept[i] = 0;
    ring_rows(ring, share.rows,
              [&](int row, const uint4 &raw) { bytes.template take<K>(kept, raw, row); });
    if (share.exist)
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        uint32_t word[4] = {0, 0, 0, 0};
        if (!share.in_last(i)) continue;
        word[i / 4] = (uint32_t)((const uint8_t *)share.last)[i] << i % 4 * 8;
        if (K != K_SQUARE) bytes.change(word);
        kept[i] = byte_step<D, K>(kept[i], word[i / 4], i % 4, share.rows);
      }
    __syncthreads();
    const column_tile tile(c);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      N x;
      set_neutral<K>(&x);
      if (share.has(i))
        byte_node<D, K>(
            j, bytes, kept[i], share.rows + share.in_last(i),
            [&](int row) { return share.index(c, tile, i, row); }, &x);
      put(i, x);
    }
  }
};

/* The lanes of one column, in shared memory at `step`, to one node. */
template <int K, class N>
GPURED__DEV N fold_column(N *lane, int step) {
  N a[GPURED__LANES];
#pragma unroll
  for (int l = 0; l < GPURED__LANES; ++l) a[l] = lane[l * step];
  halves<K, N, GPURED__LANES / 2>::fold(a);
  return a[0];
}

/* All threads of a cluster wait for each other. */
GPURED__DEV void cluster_sync() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#endif
}
/* What the block of that rank in the cluster has where this one has x. */
template <class N>
GPURED__DEV const N *of_rank(const N *x, int rank) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  return (const N *)__cluster_map_shared_rank(x, (unsigned)rank);
#else
  (void)rank; /* there are no clusters */
  return x;
#endif
}

/*
 * The blocks of threads of a cluster have neighbouring segments of the same columns. Each of them
 * takes a share of the columns, `from` to `to`, and joins what all have of those, where it has its
 * own; nobody leaves before all have read.
 */
enum { CLUSTER_MOST_LOG2 = 3 };
template <int K, int LANES, class N>
GPURED__DEV void join_cluster(const cols &c, N *grid, int columns, int from, int to) {
  enum { MOST = 1 << CLUSTER_MOST_LOG2 };
  const int mine = to - from, ranks = 1 << c.cluster_log2;
  cluster_sync();
  for (int e = (int)threadIdx.x; e < mine * LANES; e += (int)blockDim.x) {
    N *own = grid + e / mine * columns + from + e % mine, x[MOST];
#pragma unroll
    for (int r = 0; r < MOST; ++r) {
      set_neutral<K>(&x[r]);
      if (r < ranks) x[r] = *of_rank(own, r);
    }
#pragma unroll
    for (int d = 1; d < MOST; d *= 2)
#pragma unroll
      for (int r = 0; r < MOST; r += 2 * d) x[r] = combined<K>(x[r], x[r + d]);
    *own = x[0];
  }
  cluster_sync();
}

/* A tile whose lanes are in shared memory, [lane][column]: its results, or the nodes of a segment;
 * of a cluster's tile this block's share. */
template <int A, int K, class N>
GPURED__DEV void end_columns(const job &j, const cols &c, N *grid, int columns,
                             const column_tile &at) {
  enum { FREE = cols_free(A, K) };
  const int64_t first_col = at.first_col(c);
  const int exist = (int)min((int64_t)c.columns, c.width - first_col), threads = (int)blockDim.x;
  const int share = (exist + (1 << c.cluster_log2) - 1) >> c.cluster_log2;
  const int from = min((int)at.rank * share, exist), to = min(from + share, exist);
  const int64_t first_s = at.outer * c.width + first_col;
  if (FREE) {
    for (int e = (int)threadIdx.x; e < exist; e += threads)
      grid[e] = fold_column<K>(grid + e, columns);
    __syncthreads();
  }
  if (c.cluster_log2 > 0) join_cluster<K, FREE ? 1 : 16>(c, grid, columns, from, to);
  if (j.segments == 1 || FREE) {
    for (int e = from + (int)threadIdx.x; e < to; e += threads) {
      const N result = FREE ? grid[e] : fold_column<K>(grid + e, columns);
      if (j.segments == 1)
        store_at<K>(j, place_of_column(j, at.outer, first_col + e), result);
      else
        ((N *)j.partial)[at.group * j.outputs + first_s + e] = result;
    }
    return;
  }
  N *nodes = (N *)j.partial + (at.group * j.outputs + first_s) * 16;
  for (int e = 16 * from + (int)threadIdx.x; e < 16 * to; e += threads)
    nodes[e] = grid[e % 16 * columns + e / 16];
}

/* A tile of neighbouring elements of rows that are one: nodes of a segment, a lane after the other,
 * or where the order is free and a tile has all columns, its own of each of them. */
template <bool FREE, int K, class N>
GPURED__DEV void end_span(const job &j, const cols &c, const N *grid, const column_tile &at) {
  const int first = (int)at.tile * c.span, width = c.columns, all = width << c.rows_log2;
  const int exist = min(c.span, all - first), threads = (int)blockDim.x;
  N *nodes = (N *)j.partial + at.outer * width;
  if (FREE && c.span >= width) {
    nodes += (at.group * c.tiles + at.tile) * j.outputs;
    for (int col = (int)threadIdx.x; col < width; col += threads) {
      N x;
      set_neutral<K>(&x);
      for (int e = (col + all - first) % width; e < exist; e += width) x = combined<K>(x, grid[e]);
      nodes[col] = x;
    }
    return;
  }
  nodes += (at.group << c.rows_log2) * j.outputs;
  for (int e = (int)threadIdx.x; e < exist; e += threads) {
    const int lane = (first + e) / width;
    nodes[lane * j.outputs + first + e - lane * width] = grid[e];
  }
}

template <int A, int D, int K>
static __global__ void __launch_bounds__(COLS_THREADS, is_byte(D) && K == K_MUL ? 2 : 3)
    reduce_cols(const job j, const cols c) {
  typedef typename kind<A, K>::N N;
  enum {
    V = strip<D>::V,
    SIZE = strip<D>::SIZE,
    FREE = cols_free(A, K),
    WAY = segment_way(A, D, K)
  };
  extern __shared__ __align__(128) char space[];
  /* [level][i][thread] while feeding, then [deep][lane][column], where the ring was if nothing is
   * kept while feeding */
  char *nodes = space + (FREE ? 0 : COLS_RING_BYTES);
  N *mine = (N *)nodes + threadIdx.x;
  const int across = 1 << c.across_log2, tx = (int)threadIdx.x & (across - 1);
  const int high = (int)threadIdx.x >> c.across_log2;
  const int lane = c.narrow ? 0 : high % GPURED__LANES;
  const int deep = c.narrow ? high : high / GPURED__LANES, depth = 1 << c.deep_log2;
  const int threads = (int)blockDim.x, rows_log2 = FREE ? c.rows_log2 : 4;
  const column_tile at(c);
  const int64_t first_col = at.first_col(c), from = at.first_row(c, deep);
  column_ring ring;
  ring.j = &j;
  ring.c = &c;
  const char *base = j.in + (start_of_columns(j, at.outer, GPURED__IN) + first_col) * SIZE +
                     offset_of_row(c, from + lane, &ring.along);
  /* columns of a row of the grid; of the grid's layers, one for each piece of the sequence */
  const int columns = c.narrow ? c.columns : across * V;
  const int layer = c.span ? c.span : GPURED__LANES * columns;
  const int place = tx * V - (int)((uintptr_t)base & 15) / SIZE; /* of the thread, in the tile */
  const int64_t right = (c.width << (c.narrow ? rows_log2 : 0)) - first_col - place;
  const int elements = right <= 0 || j.n < from ? 0 : (int)min(j.n - from, (int64_t)c.rows);
  column_share share;
  share.deep = deep;
  share.lane = lane;
  share.elements = elements;
  share.rows = (elements + (c.narrow ? 0 : GPURED__LANES - 1 - lane)) >> rows_log2;
  share.place = place;
  ring.edge = right < V;
  base = border_before(base) + tx * 16;
  ring.start(space + ((int)threadIdx.x - tx) * 16, across, base, share.rows);
  share.last = base + share.rows * c.stride;
  const int rest = c.narrow ? (elements & ((1 << rows_log2) - 1)) * c.columns : 0;
  share.exist = bits_between(max(0, -place), min((int)V, rest - (int)first_col - place));
  N *grid = (N *)nodes;
  N *own = grid + deep * layer + lane * columns;
  const int limit = c.narrow ? layer : columns;
  column_segment<A, D, K, WAY>::run(j, c, share, ring, mine, [&](int i, const N &x) {
    if (place + i >= 0 && place + i < limit) own[place + i] = x;
  });
  __syncthreads();
  for (int d = 1; d < depth; d *= 2) {
    for (int e = (int)threadIdx.x; e < depth / (2 * d) * layer; e += threads) {
      N *x = grid + e / layer * 2 * d * layer + e % layer;
      *x = combined<K>(*x, x[d * layer]);
    }
    __syncthreads();
  }
  if (c.span)
    end_span<FREE, K>(j, c, grid, column_tile(c));
  else
    end_columns<A, K>(j, c, grid, columns, column_tile(c));
}

/* ---- Columns that are needed twice ---- */
/*
 * A unit of up to 1024 rows is needed twice, for its maximum or mean and then for what is summed
 * around it. A thread has one lane of one block, 16 bytes across: it copies those itself into a
 * ring in shared memory, from where they go to its registers, and asks at once for what lies a ring
 * ahead, half a unit more than the next one; so memory is busy all the time. Strips are 128 bytes
 * wide; narrower ones cost the second cache more than it has. What threads tell each other are
 * lanes, once for each of the two. A unit is ended by a thread for each column, the last ones:
 * where a unit is not full these have fewer rows than others, or none.
 */
enum {
  UNIT_ACROSS_LOG2 = 5, /* threads side by side, where a block of threads has one of rows */
  UNIT_THREADS = GPURED__LANES << UNIT_ACROSS_LOG2,
  UNIT_ROWS = 16, /* of a thread */
  UNIT_HALF = UNIT_ROWS / 2,
  UNIT_RING = 3, /* halves of units: an odd number (see unit_ring) */
  /* Segments are longer, for fewer nodes, where each block of threads still has so many of them
   * that an uneven end is a hundredth of the time. */
  UNIT_TURNS = 100,
  UNIT_MOST_LOG2 = 2
};

/*
 * How the threads of a block have a unit. Of most large matrices the code knows it: those of which
 * 2^DEEP blocks go side by side, all 512 threads have columns, and a thread's rows all begin at the
 * same place of a line. Addresses are constants apart then, and a thread with all its rows has no
 * branch for each of them. DEEP -1: of all others.
 */
enum { UNIT_LOOSE = -1 };
template <int DEEP>
struct unit_shape {
  enum { EVEN = DEEP != UNIT_LOOSE };
  __device__ __forceinline__ static int across_log2(const cols &c) {
    return EVEN ? UNIT_ACROSS_LOG2 - DEEP : c.across_log2;
  }
  __device__ __forceinline__ static int deep_log2(const cols &c) {
    return EVEN ? DEEP : c.deep_log2;
  }
  __device__ __forceinline__ static int threads() { return EVEN ? UNIT_THREADS : (int)blockDim.x; }
};

/* Which unit a block of threads has: the count-th of a segment of a strip of columns. */
template <int DEEP>
struct unit_place {
  typedef unit_shape<DEEP> shape;
  unsigned strip, segment, outer;
  int count, rows; /* rows: the thread's */
  int place;       /* of its V columns, in the strip: below 0 where that begins behind a border */
  bool edge;       /* the last one of a row: less than 16 bytes are left there */
  int along;       /* the inner axis, its first row */
  const char *from;

  __device__ __forceinline__ bool exists(const cols &c) const { return outer < c.outers; }
  __device__ __forceinline__ int64_t begin(const cols &c) const {
    return (((int64_t)segment << c.blocks_log2) + count) << (8 + shape::deep_log2(c));
  }
  /* Rows of the unit. */
  __device__ __forceinline__ int size(const job &j, const cols &c) const {
    const int64_t left = j.n - begin(c);
    const int unit = GPURED__BLOCK << shape::deep_log2(c);
    return left < unit ? (int)left : unit;
  }
  /* The thread's first row in the unit. */
  __device__ __forceinline__ static int first_row(const cols &c) {
    const int high = (int)threadIdx.x >> shape::across_log2(c);
    return high / GPURED__LANES * GPURED__BLOCK + high % GPURED__LANES;
  }
  __device__ __forceinline__ void settle(const job &j, const cols &c, int v, int size_of_element) {
    const int tx = (int)threadIdx.x & ((1 << shape::across_log2(c)) - 1), at = first_row(c);
    const int left = size(j, c) - at + GPURED__LANES - 1;
    const int64_t col = (int64_t)strip * c.columns;
    from = j.in + (start_of_columns(j, outer, GPURED__IN) + col) * size_of_element;
    from += shape::EVEN ? (begin(c) + at) * c.row_bytes : offset_of_row(c, begin(c) + at, &along);
    place = tx * v - (shape::EVEN ? 0 : (int)((uintptr_t)from & 15) / size_of_element);
    from = (shape::EVEN ? from : border_before(from)) + 16 * tx;
    const int64_t right = c.width - col - place;
    edge = !shape::EVEN && right < v;
    rows = right <= 0 || left < 0 ? 0 : left / GPURED__LANES;
    if (rows > UNIT_ROWS) rows = UNIT_ROWS;
  }
  __device__ __forceinline__ void start(const job &j, const cols &c, int v, int bytes) {
    const unsigned strips = (unsigned)c.tiles, segments = (unsigned)j.segments;
    strip = blockIdx.x % strips;
    segment = blockIdx.x / strips % segments;
    outer = blockIdx.x / strips / segments;
    count = 0;
    settle(j, c, v, bytes);
  }
  /* The next one of this block of threads: as many strips on as there are blocks. */
  __device__ __forceinline__ void advance(const job &j, const cols &c, int v, int bytes) {
    const bool last = begin(c) + (GPURED__BLOCK << shape::deep_log2(c)) >= j.n;
    ++count;
    if (last || count >> c.blocks_log2) {
      count = 0;
      strip += c.step[0];
      segment += c.step[1];
      outer += c.step[2];
      if (strip >= (unsigned)c.tiles) {
        strip -= (unsigned)c.tiles;
        ++segment;
      }
      if (segment >= (unsigned)j.segments) {
        segment -= (unsigned)j.segments;
        ++outer;
      }
    } else if ((shape::EVEN || !c.inner) &&
               j.n - begin(c) >= GPURED__BLOCK << shape::deep_log2(c)) { /* as many, below */
      from += ((int64_t)GPURED__BLOCK << shape::deep_log2(c)) * c.row_bytes;
      return;
    }
    rows = 0;
    if (exists(c)) settle(j, c, v, bytes);
  }
};

/* The ring of threads side by side. `ahead` is the unit whose rows are asked for next. The ring has
 * an odd number of halves, so that where half 0 was goes half 1, and the code knows which. */
template <int DEEP>
struct unit_ring {
  typedef unit_shape<DEEP> shape;
  char *space;
  int at; /* the half in the ring that is read next, and asked for after it */
  unit_place<DEEP> ahead;
  const char *next; /* of two axes: what the first half has left to the second */
  int along;

  __device__ __forceinline__ char *slot() const {
    return space + at * UNIT_HALF * shape::threads() * 16;
  }
  __device__ __forceinline__ static line_turn turn(const cols &c, const char *from) {
    return line_turn(from, c.stride, 1 << shape::across_log2(c));
  }
  __device__ __forceinline__ void ask_two_axes(const job &j, const cols &c, char *to, int rows,
                                               const line_turn &place, int half) {
    if (half == 0) {
      next = ahead.from;
      along = ahead.along;
    }
    if (ahead.edge) {
#pragma unroll 1
      for (int k = 0; k < UNIT_HALF && k < rows; ++k) {
        copy_before(to + k * shape::threads() * 16 + place(k), next, j.end);
        to_next_row(c, &next, &along);
      }
      return;
    }
#pragma unroll
    for (int k = 0; k < UNIT_HALF; ++k) {
      copy_if<16>(k < rows, to + k * shape::threads() * 16 + place(k), next);
      to_next_row(c, &next, &along);
    }
  }
  /* Asks for a half of the unit ahead, which is the next one after half 1. */
  __device__ __forceinline__ void ask(const job &j, const cols &c, int v, int bytes, int half) {
    char *to = slot();
    const char *from = ahead.from + half * UNIT_HALF * c.stride;
    const int rows = ahead.rows - half * UNIT_HALF;
    const line_turn place = turn(c, ahead.from);
    if (shape::EVEN && rows >= UNIT_HALF)
#pragma unroll
      for (int k = 0; k < UNIT_HALF; ++k)
        copy_16(to + place(0) + k * UNIT_THREADS * 16, from + k * c.stride);
    else if (!shape::EVEN && c.inner)
      ask_two_axes(j, c, to, rows, place, half);
    else if (!ahead.edge)
#pragma unroll
      for (int k = 0; k < UNIT_HALF; ++k)
        copy_if<16>(k < rows, to + k * shape::threads() * 16 + place(k), from + k * c.stride);
    else
#pragma unroll 1
      for (int k = 0; k < UNIT_HALF && k < rows; ++k)
        copy_before(to + k * shape::threads() * 16 + place(k), from + k * c.stride, j.end);
    copies_commit();
    at = at + 1 < UNIT_RING ? at + 1 : 0;
    if (half) ahead.advance(j, c, v, bytes);
  }
  /* A half of the unit that begins at `first` to registers, and the other one of a unit ahead asked
   * for. */
  __device__ __forceinline__ void take(const job &j, const cols &c, int v, int bytes,
                                       const char *first, uint4 *raw, int half) {
    const char *from = slot();
    const line_turn place = turn(c, first);
    copies_wait_but<UNIT_RING - 1>();
#pragma unroll
    for (int k = 0; k < UNIT_HALF; ++k)
      raw[k] = *(const uint4 *)(from + k * shape::threads() * 16 + place(shape::EVEN ? 0 : k));
    __syncwarp(); /* in another strip neighbours have each other's places */
    ask(j, c, v, bytes, half ^ 1);
  }
};

/* f(x) for each row of a thread, in order. ALL: it has as many as there may be. */
template <int D, class T, int V, bool ALL, class F>
GPURED__DEV void each_unit_row(const uint4 *raw, int rows, const F &f) {
#pragma unroll
  for (int k = 0; k < UNIT_ROWS; ++k) {
    T x[V];
    if (!ALL && k >= rows) break;
    unpack<D, T, V>(raw[k], x, GPURED__PLAIN);
    f(x);
  }
}
/* whole: nearly all units are, so that a branch for each row is not worth its time; where it is
 * not, both codes would be in each other's way in the cache of instructions. */
template <int D, class T, int V, class F>
GPURED__DEV void unit_rows(const uint4 *raw, bool whole, int rows, const F &f) {
  if (whole && rows == UNIT_ROWS)
    each_unit_row<D, T, V, true>(raw, UNIT_ROWS, f);
  else
    each_unit_row<D, T, V, false>(raw, rows, f);
}

/* Every thread gives a lane of V columns, the first of which is at `place`, or does not exist where
 * that is below 0; g(column, lane, x) has the lane of a column over all blocks. They lie so that 16
 * threads which read one column meet few banks twice. */
template <int K, class T, int V, class G>
GPURED__DEV void strip_lanes(int across_log2, int deep_log2, int place, T *lanes, const T *a,
                             const G &g) {
  const int t = (int)threadIdx.x, last = (1 << across_log2) - 1, columns = V << across_log2;
  const int high = t >> across_log2, turn = high % GPURED__LANES / 2;
  if (place % V == 0) {
#pragma unroll
    for (int i = 0; i < V; ++i) lanes[high * columns + ((place / V ^ turn) & last) * V + i] = a[i];
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (place + i >= 0)
        lanes[high * columns + (((place + i) / V ^ turn) & last) * V + (place + i) % V] = a[i];
  }
  __syncthreads();
  for (int e = t; e < columns * GPURED__LANES; e += (int)blockDim.x) {
    const int l = e % GPURED__LANES, column = e / GPURED__LANES, layer = GPURED__LANES * columns;
    const T *x = lanes + l * columns + ((column / V ^ l >> 1) & last) * V + column % V;
    T y = x[0];
    if (deep_log2 > 0) y = combined<K>(y, x[layer]);
    if (deep_log2 > 1) y = combined<K>(y, combined<K>(x[2 * layer], x[3 * layer]));
    g(column, l, y);
  }
}
/* g(column, x) has a column's result in its first of 16 threads. */
template <int DEEP, int K, class T, int V, class G>
GPURED__DEV void unit_fold(const cols &c, int place, T *lanes, const T *a, const G &g) {
  typedef unit_shape<DEEP> shape;
  strip_lanes<K, T, V>(shape::across_log2(c), shape::deep_log2(c), place, lanes, a,
                       [&](int column, int, T y) { g(column, folded<K>(0xffffffffu, y)); });
}

/* What comes of a unit's column first, what the second fold is made of, and the node of both. */
template <int A, int K>
struct unit_sums;
template <int A>
struct unit_sums<A, K_LSE> {
  typedef typename acc<A>::T T;
  enum { FIRST = K_MAX, SECOND = K_ADD };
  GPURED__DEV T centre(T m, int) { return m; }
  GPURED__DEV T base(T m) { return is_finite(m) ? m : (T)0; }
  GPURED__DEV T around(T a, T x, T b) { return add_exponential(a, sub(x, b)); }
  GPURED__DEV T term(T d) { return exponential(d); }
  GPURED__DEV pair_node<T> node(T m, T s, int) {
    pair_node<T> x;
    x.m = m;
    x.s = is_finite(m) ? s : (T)1;
    return x;
  }
};
template <int A>
struct unit_sums<A, K_MOMENTS> {
  typedef typename acc<A>::T T;
  enum { FIRST = K_ADD, SECOND = K_SQUARE };
  GPURED__DEV T centre(T sum, int n) { return quotient(sum, (T)n); }
  GPURED__DEV T base(T mean) { return mean; }
  GPURED__DEV T around(T a, T x, T b) { return step<K_SQUARE>(a, sub(x, b)); }
  GPURED__DEV T term(T d) { return d; }
  GPURED__DEV moments_node<T> node(T mean, T m2, int n) {
    moments_node<T> x;
    x.mean = mean;
    x.m2 = m2;
    x.n = n;
    return x;
  }
};
/* A column's node of a unit joins those of its segment, which the last unit closes. */
template <int A, int K, class P, class T, class N>
GPURED__DEV void end_unit(const job &j, const cols &c, const P &now, bool last, int columns,
                          int column, T centre, T around, N *stack) {
  const int64_t col = (int64_t)now.strip * c.columns + column;
  if (col >= c.width) return;
  push<K>(stack, columns, now.count, unit_sums<A, K>::node(centre, around, now.size(j, c)));
  if (!last) return;
  const N node = closed<K>(stack, columns, now.count + 1);
  if (j.segments == 1)
    store_at<K>(j, place_of_column(j, now.outer, col), node);
  else
    ((N *)j.partial)[now.segment * j.outputs + now.outer * c.width + col] = node;
}

template <int A, int D, int K, int DEEP>
static __global__ void __launch_bounds__(UNIT_THREADS, 1)
    reduce_col_units(const job j, const cols c) {
  typedef typename acc<A>::T T;
  typedef typename kind<A, K>::N N;
  typedef unit_sums<A, K> sums;
  typedef unit_shape<DEEP> shape;
  enum { SIZE = stored<D>::SIZE, V = 16 / SIZE };
  extern __shared__ __align__(128) char space[];
  const int t = (int)threadIdx.x, columns = V << shape::across_log2(c);
  const int ends = shape::threads() - 1 - t; /* which column */
  T *lanes = (T *)(space + UNIT_RING * UNIT_HALF * shape::threads() * 16);
  T *centre = lanes + (columns * GPURED__LANES << shape::deep_log2(c)); /* of each column */
  T *around = centre + columns;
  N *stack = (N *)(around + columns);
  const int unit = GPURED__BLOCK << shape::deep_log2(c);
  /* Doubles gain either way: two columns are too little to compute between branches. */
  const bool whole = D == GPURED_F64 || (shape::EVEN && (j.n % unit == 0 || j.n >= 16 * unit));
  unit_ring<DEEP> ring;
  unit_place<DEEP> now;
  now.start(j, c, V, SIZE);
  ring.space = space + (t >> shape::across_log2(c) << shape::across_log2(c)) * 16;
  ring.at = 0;
  ring.ahead = now;
#pragma unroll 1
  for (int i = 0; i < UNIT_RING; ++i) ring.ask(j, c, V, SIZE, i & 1);
  while (now.exists(c)) {
    const unit_place<DEEP> next = ring.ahead; /* half of it has been asked for */
    uint4 raw[UNIT_ROWS];
    T a[V], b[V];
    ring.take(j, c, V, SIZE, now.from, raw, 0);
    ring.take(j, c, V, SIZE, now.from, raw + UNIT_HALF, 1);
#pragma unroll
    for (int i = 0; i < V; ++i) set_neutral<sums::FIRST>(&a[i]);
    unit_rows<D, T, V>(raw, whole, now.rows, [&](const T *x) {
#pragma unroll
      for (int i = 0; i < V; ++i) a[i] = combined<sums::FIRST>(a[i], prepared<K>(x[i], j));
    });
    unit_fold<DEEP, sums::FIRST, T, V>(c, now.place, lanes, a, [&](int column, T x) {
      if (t % GPURED__LANES == 0) centre[column] = sums::centre(x, now.size(j, c));
    });
    __syncthreads();
#pragma unroll
    for (int i = 0; i < V; ++i) {
      b[i] = sums::base(centre[!shape::EVEN && now.place + i < 0 ? 0 : now.place + i]);
      set_neutral<sums::SECOND>(&a[i]);
    }
    unit_rows<D, T, V>(raw, whole, now.rows, [&](const T *x) {
#pragma unroll
      for (int i = 0; i < V; ++i) a[i] = sums::around(a[i], prepared<K>(x[i], j), b[i]);
    });
    unit_fold<DEEP, sums::SECOND, T, V>(c, now.place, lanes, a, [&](int column, T x) {
      if (t % GPURED__LANES == 0) around[column] = x;
    });
    __syncthreads(); /* who does not end the unit goes on to the next one */
    if (ends < c.columns)
      end_unit<A, K>(j, c, now, next.count == 0, columns, ends, centre[ends], around[ends],
                     stack + ends);
    now = next;
  }
}

template <int K, int LANES, int V, class T>
GPURED__DEV void set_lanes(T (*lanes)[V]) {
#pragma unroll
  for (int l = 0; l < LANES; ++l)
#pragma unroll
    for (int i = 0; i < V; ++i) set_neutral<K>(&lanes[l][i]);
}

/* The lanes of column i to one value. */
template <int K, int LANES, int V, class T>
GPURED__DEV T fold_strip(const T (*lanes)[V], int i) {
  T a[LANES];
#pragma unroll
  for (int l = 0; l < LANES; ++l) a[l] = lanes[l][i];
  halves<K, T, LANES / 2>::fold(a);
  return a[0];
}

/* ---- Short columns ---- */
/*
 * One thread has V neighbouring columns, and all they have: 16 bytes of each row, as many rows at a
 * time as its registers hold. Where columns are few, 2 to 16 threads of a warp have equal shares of
 * the rows, which for the fold are whole lanes; neighbours have the same rows. Where rows begin
 * anywhere the 16 bytes are cut from two vectors, the second of which is the neighbour's first one.
 * Of up to 8 rows of wide elements, and of 9 to 32 where a thread has all of them at once, it comes
 * from there, by shuffles: second vectors take no registers then, so that there are more threads.
 * The last thread of a warp, and one behind the last strip of a row, are there for their neighbours
 * alone. (Of other rows that is no faster, and where few columns are side by side slower.)
 */
enum { SHORT_AT_ONCE = 8 };

/* The 16 bytes at p, of elements of SIZE bytes, from the two vectors that have them. */
template <int SIZE>
GPURED__DEV uint4 cut_vector(const char *p, const uint4 &a, const uint4 &b) {
  const unsigned behind = (unsigned)(uintptr_t)p;
  uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = behind & 8 ? w[i + 2] : w[i];
  if (SIZE < 8)
#pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = behind & 4 ? w[i + 1] : w[i];
  if (SIZE < 4)
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = __funnelshift_r(w[i], w[i + 1], behind % 4 * 8);
  return make_uint4(w[0], w[1], w[2], w[3]);
}

/* WRITTEN: by this kernel too, so that it has to be an ordinary load. */
template <bool WRITTEN, class Q>
GPURED__DEV Q load_as(const char *p) {
  return WRITTEN ? *(const Q *)p : __ldg((const Q *)p);
}
/* `count` elements one by one, the last one first, in the place of a vector: a function, since few
 * threads come to the end of the input. */
template <int SIZE>
static __device__ __noinline__ uint4 load_loose(const char *p, int count) {
  uint4 q = make_uint4(0, 0, 0, 0);
#pragma unroll 1
  for (const char *at = p + count * SIZE; at > p;) {
    const uint4 old = q;
    at -= SIZE;
    if constexpr (SIZE == 8) {
      const uint2 x = *(const uint2 *)at;
      q = make_uint4(x.x, x.y, old.x, old.y);
    } else if constexpr (SIZE == 4) {
      q = make_uint4(*(const uint32_t *)at, old.x, old.y, old.z);
    } else {
      const uint32_t x = SIZE == 2 ? *(const uint16_t *)at : *(const uint8_t *)at;
      q.x = old.x << SIZE * 8 | x;
      q.y = __funnelshift_l(old.x, old.y, SIZE * 8);
      q.z = __funnelshift_l(old.y, old.z, SIZE * 8);
      q.w = __funnelshift_l(old.z, old.w, SIZE * 8);
    }
  }
  return q;
}

/* What a thread reads. LOOSE: rows begin anywhere. FEW: it has all of them at once, up to so many.
 * TWO: they have two axes. */
template <int SIZE, bool LOOSE, int FEW, bool WRITTEN = false, bool TWO = false>
struct short_rows {
  enum {
    ORDERED = LOOSE ? 8 : 16, /* rows of an ordered sum at a time */
    /* the next thread of the warp has the second vectors */
    SHARED = LOOSE && FEW && (SIZE >= 4 || FEW > COLS_FEW)
  };
  const char *base;
  int64_t row_bytes, jump; /* TWO: what the end of the inner one adds, */
  unsigned recip;          /* 2^32 / its extent */
  int n, count;            /* rows; columns that exist */
  int first, whole;        /* rows whose first vector, and both, lie before the end of the input */
  int mine, share_log2;    /* which of the threads that have the strip together */

  __device__ __forceinline__ short_rows(const job &j, int64_t step, const char *from, int columns,
                                        int64_t inner_end = 0, unsigned inner_recip = 0,
                                        int own = 0, int log2 = 0)
      : base(from),
        row_bytes(step),
        jump(inner_end),
        recip(inner_recip),
        n((int)j.n),
        count(columns),
        first(rows_before(j.end - 16)),
        whole(rows_before(j.end - 32)),
        mine(own),
        share_log2(log2) {}
  __device__ __forceinline__ int64_t offset(int row) const {
    const int64_t at = row * row_bytes;
    return TWO ? at + ends_before_row(row, recip, jump) : at;
  }
  /* Rows that begin at `end` or before it: all of them, all but one, or none. */
  __device__ __forceinline__ int rows_before(const char *end) const {
    const int64_t left = end - base, last = row_bytes < 0 ? 0 : (n - 1) * row_bytes;
    if (!LOOSE || left >= last) return n;
    return row_bytes < 0 || left < last - row_bytes ? 0 : n - 1;
  }
  static __device__ __forceinline__ uint4 next_thread(const uint4 &q) {
    return make_uint4(__shfl_down_sync(0xffffffffu, q.x, 1), __shfl_down_sync(0xffffffffu, q.y, 1),
                      SIZE < 8 ? __shfl_down_sync(0xffffffffu, q.z, 1) : 0,
                      SIZE < 4 ? __shfl_down_sync(0xffffffffu, q.w, 1) : 0);
  }
  /* Rows row(0) to row(COUNT - 1); those that do not exist are zeros. */
  template <int COUNT, class F>
  __device__ __forceinline__ void fetch(uint4 *raw, const F &row) const {
    uint4 next[COUNT];
#pragma unroll
    for (int q = 0; q < COUNT; ++q) {
      const char *p = base + offset(row(q));
      raw[q] = next[q] = make_uint4(0, 0, 0, 0);
      if (row(q) >= (SHARED ? first : whole)) continue;
      if (LOOSE) p = border_before(p);
      raw[q] = load_as<WRITTEN, uint4>(p);
      if (LOOSE && !SHARED) next[q] = load_as<WRITTEN, uint4>(p + 16);
    }
    if constexpr (LOOSE) {
#pragma unroll
      for (int q = 0; q < COUNT; ++q) {
        if (SHARED) next[q] = next_thread(raw[q]);
        raw[q] = cut_vector<SIZE>(base + offset(row(q)), raw[q], next[q]);
      }
      if (whole == n) return;
#pragma unroll
      for (int q = 0; q < COUNT; ++q)
        if (row(q) >= whole && row(q) < n) raw[q] = load_loose<SIZE>(base + offset(row(q)), count);
    }
  }
  /* The threads that have a strip together join what they have of it. */
  template <int K, int V, class N>
  __device__ __forceinline__ void meet(N *a) const {
    for (int d = 16; d >= 32 >> share_log2; d /= 2)
#pragma unroll
      for (int i = 0; i < V; ++i) a[i] = combined<K>(a[i], from_below(0xffffffffu, a[i], d));
  }
  /* f(row, raw) for every row of the thread, in order. */
  template <class F>
  __device__ __forceinline__ void each(const F &f) const {
    for (int from = mine; from < n; from += SHORT_AT_ONCE << share_log2) {
      uint4 raw[SHORT_AT_ONCE];
      fetch<SHORT_AT_ONCE>(raw, [&](int q) { return from + (q << share_log2); });
#pragma unroll
      for (int q = 0; q < SHORT_AT_ONCE; ++q)
        if (from + (q << share_log2) < n) f(from + (q << share_log2), raw[q]);
    }
  }
};

/* 16 lanes, folded by halving stride, S of which are read at a time: lanes l, l + 16 / S, ... */
template <int A, int D, int K, int WAY>
struct short_column {
  typedef typename acc<A>::T T;
  enum { V = strip<D>::V };

  GPURED__DEV void join(T *a, const T *b) {
#pragma unroll
    for (int i = 0; i < V; ++i) a[i] = combined<K>(a[i], b[i]);
  }
  /* Lane l from its row `from` on, PER rows of it. */
  template <int PER>
  GPURED__DEV void lane(const job &j, const uint4 *raw, int l, int from, T *a) {
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (from == 0) set_neutral<K>(&a[i]);
#pragma unroll
    for (int k = 0; k < PER; ++k)
      if (l + (from + k) * GPURED__LANES < j.n) {
        T x[V];
        unpack<D, T, V>(raw[k], x, j.how);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const T y = prepared<K>(x[i], j);
          a[i] = from + k == 0 ? first<K>(y) : step<K>(a[i], y);
        }
      }
  }
  /* S lanes, `step` apart, of which each half lies together. */
  template <int PER, int S>
  GPURED__DEV void fold(const job &j, const uint4 *raw, int l, int step, T *a) {
    if constexpr (S == 1) {
      lane<PER>(j, raw, l, 0, a);
    } else {
      T b[V];
      fold<PER, S / 2>(j, raw, l, 2 * step, a);
      fold<PER, S / 2>(j, raw + S / 2 * PER, l + step, 2 * step, b);
      join(a, b);
    }
  }
  /* The bits of q < S in reverse. */
  GPURED__DEV int reversed(int q, int s) {
    return (q & 1) * (s / 2) + (q >> 1 & 1) * (s / 4) + (q >> 2 & 1) * (s / 8) +
           (q >> 3) * (s / 16);
  }
  /* As many lanes as are read at a time, or one in several goes. */
  template <int PER, int S, class R>
  GPURED__DEV void some_lanes(const job &j, const R &rows, int l, int step, T *a) {
    enum { COUNT = S * PER < R::ORDERED ? S * PER : (int)R::ORDERED };
    uint4 raw[COUNT];
    if constexpr (COUNT == S * PER) {
      rows.template fetch<COUNT>(
          raw, [&](int q) { return l + reversed(q / PER, S) * step + q % PER * GPURED__LANES; });
      fold<PER, S>(j, raw, l, step, a);
    } else {
#pragma unroll 1
      for (int from = 0; from < PER && l + from * GPURED__LANES < rows.n; from += COUNT) {
        rows.template fetch<COUNT>(raw, [&](int q) { return l + (from + q) * GPURED__LANES; });
        lane<COUNT>(j, raw, l, from, a);
      }
    }
  }
  /* Depth first, so that few values are kept: a group of S lanes joins those of as many before it
   * as the binary counter says. */
  template <int PER, class R>
  GPURED__DEV void all_lanes(const job &j, const R &rows, T *a) {
    enum { S = PER < R::ORDERED ? R::ORDERED / PER : 1, GROUPS = GPURED__LANES / S, LEVELS = 4 };
    T kept[LEVELS][V];
#pragma unroll 1
    for (int g = 0; g < GROUPS >> rows.share_log2; ++g) {
      some_lanes<PER, S>(j, rows,
                         rows.mine + (reversed(g, GROUPS >> rows.share_log2) << rows.share_log2),
                         GROUPS, a);
#pragma unroll
      for (int level = 0; level < LEVELS; ++level) {
        if (1 << level == GROUPS >> rows.share_log2) break;
        if (!(g >> level & 1)) {
#pragma unroll
          for (int i = 0; i < V; ++i) kept[level][i] = a[i];
          break;
        }
        join(kept[level], a);
#pragma unroll
        for (int i = 0; i < V; ++i) a[i] = kept[level][i];
      }
    }
  }
  template <class R, class F>
  GPURED__DEV void run(const job &j, const R &rows, const F &put) {
    T a[V];
    if (j.n <= GPURED__LANES)
      all_lanes<1>(j, rows, a);
    else if (j.n <= 2 * GPURED__LANES)
      all_lanes<2>(j, rows, a);
    else if (j.n <= 4 * GPURED__LANES)
      all_lanes<4>(j, rows, a);
    else if (j.n <= 8 * GPURED__LANES)
      all_lanes<8>(j, rows, a);
    else
      all_lanes<GPURED__LANES>(j, rows, a);
    rows.template meet<K, V>(a);
    put(a);
  }
};

template <int A, int D, int K>
struct short_column<A, D, K, SEGMENT_FREE> {
  typedef typename acc<A>::T T;
  enum { V = strip<D>::V };
  template <class R, class F>
  GPURED__DEV void run(const job &j, const R &rows, const F &put) {
    typedef typename free_columns<A, D, K>::X X;
    free_columns<A, D, K> kept;
    T a[V];
    rows.each([&](int, const uint4 &raw) {
      X x[V];
      unpack<D, X, V>(raw, x, j.how);
#pragma unroll
      for (int i = 0; i < V; ++i) kept.join(j, i, x[i]);
    });
#pragma unroll
    for (int i = 0; i < V; ++i) a[i] = kept.node(j, i);
    rows.template meet<K, V>(a);
    put(a);
  }
};

template <int A, int D>
struct short_column<A, D, K_ARG, SEGMENT_BEST> {
  typedef typename acc<A>::T T;
  enum { V = strip<D>::V };
  template <class R, class F>
  GPURED__DEV void run(const job &j, const R &rows, const F &put) {
    arg_node<T> result[V];
    T best[V];
    int at[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      best[i] = lowest(T());
      at[i] = 0;
    }
    rows.each([&](int row, const uint4 &raw) {
      T x[V];
      unpack<D, T, V>(raw, x, j.how);
#pragma unroll
      for (int i = 0; i < V; ++i) keep_best(prepared<K_ARG>(x[i], j), row, &best[i], &at[i]);
    });
#pragma unroll
    for (int i = 0; i < V; ++i) {
      result[i].v = best[i];
      result[i].i = at[i];
    }
    rows.template meet<K_ARG, V>(result);
    put(result);
  }
};

/* Nodes are made where they are stored: sixteen at a time would not fit the registers. */
template <int A, int D, int K>
struct short_column<A, D, K, SEGMENT_BYTES> {
  typedef typename kind<A, K>::N N;
  enum { V = strip<D>::V };
  struct results {
    const job *j;
    int rows;
    uint32_t kept[V];
    __device__ __forceinline__ N operator[](int i) const {
      N x;
      byte_node<D, K>(
          *j, byte_rows<D>(*j, K), kept[i], rows, [](int row) { return row; }, &x);
      return x;
    }
  };
  template <class R, class F>
  GPURED__DEV void run(const job &j, const R &rows, const F &put) {
    const byte_rows<D> bytes(j, K);
    results result;
    result.j = &j;
    result.rows = rows.n;
#pragma unroll
    for (int i = 0; i < V; ++i) result.kept[i] = 0;
    rows.each([&](int row, const uint4 &raw) { bytes.template take<K>(result.kept, raw, row); });
    for (int d = 16; d >= 32 >> rows.share_log2; d /= 2)
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const uint32_t x = __shfl_down_sync(0xffffffffu, result.kept[i], (unsigned)d);
        result.kept[i] = K == K_ADD || K == K_SQUARE ? result.kept[i] + x : max(result.kept[i], x);
      }
    put(result);
  }
};

/* Few rows: a thread has all of them at once. */
template <int A, int D, int K, int ROWS, class R, class F>
GPURED__DEV void run_few(const job &j, const R &rows, const F &put) {
  enum { V = strip<D>::V };
  typename kind<A, K>::N result[V];
  uint4 raw[ROWS];
  rows.template fetch<ROWS>(raw, [](int q) { return q; });
#pragma unroll
  for (int i = 0; i < V; ++i) {
    typename acc<A>::T x[ROWS];
#pragma unroll
    for (int l = 0; l < ROWS; ++l) widen<D>(element_of<D>(raw[l], i), &x[l]);
    adjust_all<ROWS>(x, j.how);
    result[i] = alone<A, K, ROWS>::node(j, x, rows.n);
  }
  put(result);
}
template <int A, int D, int K, int MOST, class R, class F>
GPURED__DEV void run_short(const job &j, const R &rows, const F &put) {
  if constexpr (MOST == COLS_SHORT)
    short_column<A, D, K, segment_way(A, D, K)>::run(j, rows, put);
  else if (MOST == COLS_FEW && j.n <= COLS_FEW / 2)
    run_few<A, D, K, COLS_FEW / 2>(j, rows, put);
  else
    run_few<A, D, K, MOST>(j, rows, put);
}

/* A result in an element of SIZE bytes, of a type that can_pack() knows. */
template <int SIZE>
GPURED__DEV uint64_t packed_bits(const job &j, float y) {
  if (SIZE == 4) return __float_as_uint(canonical(y));
  return j.out_dtype == GPURED_F16 ? to_half(y) : to_brain(y);
}
template <int SIZE>
GPURED__DEV uint64_t packed_bits(const job &, double y) {
  return (uint64_t)__double_as_longlong(canonical(y));
}
template <int SIZE>
GPURED__DEV uint64_t packed_bits(const job &, uint64_t y) {
  return SIZE == 8 ? y : y & (((uint64_t)1 << SIZE * 8 % 64) - 1);
}
/* `count` elements of 16 bytes to where an element of SIZE bytes may begin. */
template <int SIZE>
GPURED__DEV void store_loose(char *to, const uint4 &q, int count) {
  const uint32_t word[4] = {q.x, q.y, q.z, q.w};
  if (count == 16 / SIZE && (uintptr_t)to % 16 == 0) {
    *(uint4 *)to = q;
  } else if (count == 16 / SIZE && (uintptr_t)to % 8 == 0) {
    ((uint2 *)to)[0] = make_uint2(q.x, q.y);
    ((uint2 *)to)[1] = make_uint2(q.z, q.w);
  } else if (SIZE < 8 && count == 16 / SIZE && (uintptr_t)to % 4 == 0) {
    *(uint32_t *)to = q.x;
    *(uint2 *)(to + 4) = make_uint2(q.y, q.z);
    *(uint32_t *)(to + 12) = q.w;
  } else if (SIZE == 2 && count == 16 / SIZE) {
    *(uint16_t *)to = (uint16_t)q.x;
#pragma unroll
    for (int i = 0; i < 3; ++i)
      *(uint32_t *)(to + 2 + 4 * i) = __funnelshift_r(word[i], word[i + 1], 16);
    *(uint16_t *)(to + 14) = (uint16_t)(q.w >> 16);
  } else {
#pragma unroll
    for (int i = 0; i < 16 / SIZE; ++i) {
      if (i >= count) break;
      if (SIZE == 8) ((uint2 *)to)[i] = make_uint2(word[2 * i % 4], word[(2 * i + 1) % 4]);
      if (SIZE == 4) ((uint32_t *)to)[i] = word[i % 4];
      if (SIZE == 2) ((uint16_t *)to)[i] = (uint16_t)(word[i / 2] >> i % 2 * 16);
      if (SIZE == 1) ((uint8_t *)to)[i] = (uint8_t)(word[i / 4] >> i % 4 * 8);
    }
  }
}

/* V neighbouring results as whole vectors. */
template <int K, int V, int SIZE, bool LOOSE, class R>
GPURED__DEV void store_packed(const job &j, char *to, const R &result) {
#pragma unroll
  for (int v = 0; v < V * SIZE / 16; ++v) {
    uint64_t half[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 16 / SIZE; ++i)
      half[i * SIZE / 8] |= packed_bits<SIZE>(j, result_of<K>(j, result[v * (16 / SIZE) + i]))
                            << i * SIZE % 8 * 8;
    const uint4 q = make_uint4((uint32_t)half[0], (uint32_t)(half[0] >> 32), (uint32_t)half[1],
                               (uint32_t)(half[1] >> 32));
    if (LOOSE)
      store_loose<SIZE>(to + 16 * v, q, 16 / SIZE);
    else
      ((uint4 *)to)[v] = q;
  }
}
template <int K, int V, bool LOOSE, class R>
GPURED__DEV void store_strip(const job &j, const cols &c, char *to, int count, const R &result) {
  if (c.packed && count == V) {
    const int size = size_of(j.out_dtype);
    if (size == 8) store_packed<K, V, 8, LOOSE>(j, to, result);
    if (size == 4) store_packed<K, V, 4, LOOSE>(j, to, result);
    if (size == 2) store_packed<K, V, 2, LOOSE>(j, to, result);
    if (size == 1) store_packed<K, V, 1, LOOSE>(j, to, result);
    return;
  }
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (i < count) store_at<K>(j, to + i * c.out_step, result[i]);
}

/* Blocks to a multiprocessor: as many as leave a thread its registers. */
static constexpr __host__ __device__ int short_resident(int most, bool loose, int size) {
  if (most == COLS_PAIRS) return loose ? 2 : 3;
  if (most > COLS_FEW) return most == GPURED__LANES && (size == 8 || (loose && size == 2)) ? 3 : 4;
  return !loose ? 5 : size < 4 ? 4 : 6;
}

template <int A, int D, int K, int MOST, bool LOOSE, bool TWO = false>
static __global__ void __launch_bounds__(SHORT_THREADS,
                                         short_resident(MOST, LOOSE, stored<D>::SIZE))
    reduce_short_cols(const job j, const cols c) {
  enum { V = strip<D>::V, AT_ONCE = MOST < COLS_SHORT ? MOST : 0 };
  typedef short_rows<stored<D>::SIZE, LOOSE, AT_ONCE, false, TWO> input;
  const int share = MOST == COLS_SHORT ? c.share_log2 : 0, side = 32 >> share;
  const int t = (int)threadIdx.x % 32, warps = SHORT_THREADS / 32, own = side - input::SHARED;
  const int64_t strips = (c.width + V - 1) / V + input::SHARED;
  for (int64_t first = ((int64_t)blockIdx.x * warps + threadIdx.x / 32) * own; first < c.tiles;
       first += (int64_t)gridDim.x * warps * own) {
    const int64_t k = min(first + (t & (side - 1)), c.tiles - 1);
    const int64_t outer = c.width == j.outputs ? 0 : gpured__quotient(k, strips);
    const int64_t col = (k - outer * strips) * V, left = c.width - col;
    const bool stores = t < own && first + t < c.tiles && left > 0;
    const char *from = j.in + (start_of_columns(j, outer, GPURED__IN) + col) * stored<D>::SIZE;
    const int count = LOOSE && left < V ? (int)left : V;
    const input rows(j, c.row_bytes, from, count, c.jump, c.inner_recip, t >> (5 - share), share);
    run_short<A, D, K, MOST>(j, rows, [&](const auto &result) {
      if (stores) store_strip<K, V, LOOSE>(j, c, place_of_column(j, outer, col), count, result);
    });
  }
}

/* ---- Short columns, one to a thread ---- */
/*
 * Sums in the order of lanes: a thread has one column, and an element of each of 16 rows at a time.
 * Wherever rows begin a warp's elements lie side by side, and nothing is cut from vectors, of which
 * registers hold few rows for all lanes.
 */
enum {
  SINGLE_THREADS = 128,
  SINGLE_MANY = 256 /* columns to a multiprocessor */
};
/* Blocks of a multiprocessor: 16 elements on their way and 16 lanes leave no more room. */
__host__ __device__ constexpr int single_resident(int a) { return a == GPURED__F32 ? 6 : 4; }

/* An element of each of 16 rows from p on, of which ALL exist, or `left`, to its lane. */
template <int D, int K, bool FIRST, bool ALL, class T>
GPURED__DEV void join_rows(const job &j, const char *p, int64_t row_bytes, int left, T *a) {
  enum { PART = 4, LANES = GPURED__LANES };
  typedef typename stored<D>::S S;
  S raw[LANES];
#pragma unroll
  for (int l = 0; l < LANES; ++l) {
    if (FIRST && !ALL) set_neutral<K>(&a[l]);
    if (ALL || l < left) raw[l] = __ldg((const S *)(p + l * row_bytes));
  }
#pragma unroll
  for (int from = 0; from < LANES; from += PART) {
    T x[PART];
    if (!ALL && from >= left) break;
#pragma unroll
    for (int l = 0; l < PART; ++l) widen<D>(raw[from + l], &x[l]);
    adjust_all<PART>(x, j.how);
#pragma unroll
    for (int l = 0; l < PART; ++l) {
      const T y = prepared<K>(x[l], j);
      if (ALL || from + l < left) a[from + l] = FIRST ? first<K>(y) : step<K>(a[from + l], y);
    }
  }
}

template <int A, int D, int K>
static __global__ void __launch_bounds__(SINGLE_THREADS, single_resident(A))
    reduce_single_cols(const job j, const cols c) {
  typedef typename acc<A>::T T;
  enum { LANES = GPURED__LANES };
  const unsigned k = blockIdx.x * SINGLE_THREADS + threadIdx.x, width = (unsigned)c.width;
  if (k >= j.outputs) return;
  const unsigned outer = __umulhi(k, c.width_recip) >> c.width_shift, column = k - outer * width;
  const char *p = j.in + (start_of_columns(j, outer, GPURED__IN) + column) * stored<D>::SIZE;
  T a[LANES];
  if (j.n >= LANES)
    join_rows<D, K, true, true>(j, p, c.row_bytes, LANES, a);
  else
    join_rows<D, K, true, false>(j, p, c.row_bytes, (int)j.n, a);
  int left = (int)j.n - LANES;
#pragma unroll 1
  for (; left >= LANES; left -= LANES)
    join_rows<D, K, false, true>(j, p += LANES * c.row_bytes, c.row_bytes, LANES, a);
  if (left > 0) join_rows<D, K, false, false>(j, p + LANES * c.row_bytes, c.row_bytes, left, a);
  halves<K, T, LANES / 2>::fold(a);
  store_at<K>(j, place_of_column(j, outer, column), a[0]);
}

/* ---- Short columns that are needed twice ---- */

/*
 * At most a block of rows. A warp copies a strip of 128 bytes (256 of doubles) to shared memory,
 * where a thread has whole columns: four bytes of each row, which are in a bank of their own. No
 * thread tells another anything. What has been read for the second time makes room for the next
 * strip, a quarter at a time, so that copies are under way while the warp computes.
 */
enum { STRIP_PARTS = 4, STRIP_WARPS = 4 };
/* Blocks of a multiprocessor that registers allow. */
__host__ __device__ constexpr int strips_resident(int a) { return a == GPURED__F32 ? 5 : 4; }
__host__ __device__ constexpr int strip_bytes(int size) { return size == 8 ? 256 : 128; }

/* What a warp sees of its strip. `span`: rows of a quarter, a multiple of the lanes. TURNED: rows
 * begin anywhere, and lie as they do in memory, from a border on. */
template <int D, bool TURNED>
struct short_strip {
  enum {
    SIZE = stored<D>::SIZE,
    BYTES = strip_bytes(SIZE),
    V = BYTES / 32 / SIZE, /* columns of a thread */
    ACROSS = BYTES / 16    /* threads that copy a row */
  };
  char *tile;
  int span, t;
  int mine;         /* where the thread's columns begin in a row; beyond the last ones, those */
  const char *from; /* the next strip's */
  int64_t right;    /* bytes of its rows from there on */
  int behind[2];    /* TURNED: bytes from a border to row 0, of this strip and of the next one */
  int turn;         /* how many more from each row to the one after it */
  bool exists;

  /* Strip k: its columns begin at `column` of the outer axes' `outer`. */
  __device__ __forceinline__ void locate(const job &j, const cols &c, unsigned k, unsigned strips,
                                         int64_t *outer, int64_t *column) {
    const unsigned o = c.outers > 1 ? k / (unsigned)c.tiles : 0;
    *outer = o;
    *column = (int64_t)(k - o * (unsigned)c.tiles) * (TURNED ? c.columns : BYTES / SIZE);
    exists = k < strips && (TURNED || *column + t % ACROSS * (16 / SIZE) < c.width);
    from = j.in + (start_of_columns(j, *outer, GPURED__IN) + *column) * SIZE;
    if (TURNED) {
      behind[1] = (int)((uintptr_t)from & 15);
      turn = (int)(c.row_bytes & 15);
      right = (c.width - *column) * SIZE - t % ACROSS * 16;
    }
    from += t % ACROSS * 16 + t / ACROSS * c.row_bytes;
  }
  /* Asks for a quarter; `from` goes from one to the next. */
  __device__ __forceinline__ void ask(const job &j, const cols &c, int part) {
    enum { AT_ONCE = 4, HIGH = 32 / ACROSS };
    char *to = tile + part * span * BYTES + t * 16;
    const int64_t step = HIGH * c.row_bytes;
    int left = (int)j.n - part * span;
    left = exists ? (left < span ? left : span) - t / ACROSS : 0;
    if (!TURNED && c.inner) {
      for (int r = 0; r < span; r += HIGH, from += step)
        copy_if<16>(r < left, to + r * BYTES,
                    from + ends_before_row(part * span + t / ACROSS + r, c.inner_recip, c.jump));
      copies_commit();
      return;
    }
    for (int r = 0; r < span; r += AT_ONCE * HIGH, from += AT_ONCE * step)
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i)
        if (!TURNED) {
          copy_if<16>(r + i * HIGH < left, to + (r + i * HIGH) * BYTES, from + i * step);
        } else if (r + i * HIGH < left) {
          const char *at = border_before(from + i * step);
          if (at < from + i * step + right) copy_before(to + (r + i * HIGH) * BYTES, at, j.end);
        }
    copies_commit();
  }
  template <class T>
  __device__ __forceinline__ void read(int r, T *x) const {
    const char *at = tile + r * BYTES + mine;
    if (TURNED) at += behind[0] + r * turn & 15;
#pragma unroll
    for (int i = 0; i < V; ++i) widen<D>(((const typename stored<D>::S *)at)[i], &x[i]);
  }
  /* f(row, lane, x) for the rows of a quarter, in ascending order. */
  template <class T, class F>
  __device__ __forceinline__ void rows(const job &j, int part, const F &f) const {
    int r = part * span;
    const int end = r + span < (int)j.n ? r + span : (int)j.n;
    T x[V];
    for (; r + GPURED__LANES <= end; r += GPURED__LANES)
#pragma unroll
      for (int l = 0; l < GPURED__LANES; ++l) {
        read(r + l, x);
        f(r + l, l, x);
      }
    if (r >= end) return;
#pragma unroll
    for (int l = 0; l < GPURED__LANES - 1; ++l)
      if (r + l < end) {
        read(r + l, x);
        f(r + l, l, x);
      }
  }
};

/* Waits for a quarter while those behind it are on their way. */
GPURED__DEV void strip_wait(int part) {
  if (part == 0) copies_wait_but<3>();
  if (part == 1) copies_wait_but<2>();
  if (part == 2) copies_wait_but<1>();
  if (part == 3) copies_wait_but<0>();
  __syncwarp();
}

__host__ __device__ constexpr int lanes_of(int k) { return k == K_MAX ? 2 : GPURED__LANES; }

template <int A, int D, int K, bool TURNED>
static __global__ void __launch_bounds__(STRIP_WARPS * 32, strips_resident(A))
    reduce_col_strips(const job j, const cols c) {
  typedef typename acc<A>::T T;
  typedef unit_sums<A, K> sums;
  typedef short_strip<D, TURNED> strip_of;
  /* Lanes of each pass: maxima need no order. */
  enum { FIRST_LANES = lanes_of(sums::FIRST), LANES = lanes_of(sums::SECOND), V = strip_of::V };
  extern __shared__ __align__(128) char space[];
  const unsigned warps = blockDim.x / 32, strips = c.outers * (unsigned)c.tiles;
  strip_of s;
  int64_t outer, column;
  unsigned k = blockIdx.x * warps + threadIdx.x / 32;
  s.t = (int)threadIdx.x % 32;
  s.span = c.quarter;
  s.mine = (TURNED ? min(s.t, c.columns / V - 1) : s.t) * (strip_of::BYTES / 32);
  s.tile = space + threadIdx.x / 32 * (unsigned)((int)j.n * strip_of::BYTES);
  s.locate(j, c, k, strips, &outer, &column);
  /* With two rows or fewer of each lane the other quarters are empty. */
  const int parts = (int)j.n > 2 * s.span ? +STRIP_PARTS : STRIP_PARTS / 2;
  for (int part = 0; part < STRIP_PARTS; ++part) s.ask(j, c, part);
  while (k < strips) {
    const int64_t now_outer = outer, now_column = column + s.t * V;
    const int64_t end = TURNED ? min(column + c.columns, c.width) : c.width;
    if (TURNED) s.behind[0] = s.behind[1];
    T a[LANES][V], b[V], centre[V];
    set_lanes<sums::FIRST, FIRST_LANES>(a);
#pragma unroll
    for (int part = 0; part < STRIP_PARTS; ++part) {
      strip_wait(part);
      s.template rows<T>(j, part, [&](int, int l, const T *x) {
#pragma unroll
        for (int i = 0; i < V; ++i)
          a[l % FIRST_LANES][i] =
              combined<sums::FIRST>(a[l % FIRST_LANES][i], prepared<K>(x[i], j));
      });
    }
#pragma unroll
    for (int i = 0; i < V; ++i) {
      centre[i] = sums::centre(fold_strip<sums::FIRST, FIRST_LANES, V>(a, i), (int)j.n);
      b[i] = sums::base(centre[i]);
    }
    set_lanes<sums::SECOND, LANES>(a);
    k += gridDim.x * warps;
    s.locate(j, c, k, strips, &outer, &column);
#pragma unroll 1
    for (int part = 0; part < parts; ++part) {
      s.template rows<T>(j, part, [&](int, int l, const T *x) {
#pragma unroll
        for (int i = 0; i < V; ++i)
          a[l % LANES][i] = sums::around(a[l % LANES][i], prepared<K>(x[i], j), b[i]);
      });
      __syncwarp();
      s.ask(j, c, part);
    }
    for (int part = parts; part < STRIP_PARTS; ++part) copies_commit();
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (now_column + i < end)
        store_at<K>(j, place_of_column(j, now_outer, now_column + i),
                    sums::node(centre[i], fold_strip<sums::SECOND, LANES, V>(a, i), (int)j.n));
  }
}

/* ---- Items ---- */
/* Few columns that lie side by side, item after item; strides in elements. */
struct item_cells {
  int64_t items, step, row; /* strides: of items, of what a sequence goes along */
  int width, parts;         /* columns; threads of each, which have one lane or four */
  int beside, most, turns;  /* items at a time, of a batch; batches of a block of threads */
  unsigned width_recip;     /* 2^32 / width, rounded up */
  int flat;                 /* results lie end to end, too */
  int centres_at, nodes_at, stage_at; /* in shared memory */
};

/* ---- Small items ---- */
/*
 * Items of few elements that lie end to end. A block of threads copies as many as have room, from
 * one end to the other whatever their width, and each thread then takes whole columns out of shared
 * memory. What lies 128 bytes apart there would be in one bank: vectors trade places with their
 * neighbours.
 */
enum { SMALL_THREADS = 256, SMALL_BYTES = 16384 };

GPURED__DEV int small_place(int byte) { return byte ^ (byte >> 3 & 0x70); }

/* A column, as it lies in shared memory. */
template <int A, int D>
struct small_column {
  typedef typename acc<A>::T T;
  const char *stage;
  int at, row; /* bytes: of its first element, from one to the next */
  int how;

  __device__ __forceinline__ T operator()(int i) const {
    T x;
    widen<D>(*(const typename stored<D>::S *)(stage + small_place(at + i * row)), &x);
    adjust_all<1>(&x, how);
    return x;
  }
};

/* The fold of at most a block of values f(0), f(1), ...: a thread has all lanes that there are. */
template <int K, class T, int LANES, class F>
GPURED__DEV T fold_lanes(int n, const F &f) {
  T a[LANES];
#pragma unroll
  for (int l = 0; l < LANES; ++l) {
    set_neutral<K>(&a[l]);
    if (l < n) a[l] = first<K>(f(l));
  }
  if (LANES == GPURED__LANES)
#pragma unroll 1
    for (int i = LANES; i < n; i += LANES)
#pragma unroll
      for (int l = 0; l < LANES; ++l)
        if (i + l < n) a[l] = step<K>(a[l], f(i + l));
  halves<K, T, LANES / 2>::fold(a);
  return a[0];
}
template <int K, class T, class F>
GPURED__DEV T fold_small(int n, const F &f) {
  if (n <= GPURED__LANES / 4) return fold_lanes<K, T, GPURED__LANES / 4>(n, f);
  if (n <= GPURED__LANES / 2) return fold_lanes<K, T, GPURED__LANES / 2>(n, f);
  return fold_lanes<K, T, GPURED__LANES>(n, f);
}

template <int A, int K>
struct small {
  typedef typename acc<A>::T T;
  template <class C>
  GPURED__DEV T node(const job &j, const C &x, int n) {
    return fold_small<K, T>(n, [&](int i) { return prepared<K>(x(i), j); });
  }
};
template <int A>
struct small<A, K_ARG> {
  typedef typename acc<A>::T T;
  template <class C>
  GPURED__DEV arg_node<T> node(const job &j, const C &x, int n) {
    T v = prepared<K_ARG>(x(0), j);
    int at = 0;
#pragma unroll 4
    for (int i = 1; i < n; ++i) keep_best(prepared<K_ARG>(x(i), j), i, &v, &at);
    const arg_node<T> best = {v, at};
    return best;
  }
};
template <int A>
struct small<A, K_LSE> {
  typedef typename acc<A>::T T;
  template <class C>
  GPURED__DEV pair_node<T> node(const job &, const C &x, int n) {
    pair_node<T> y = {fold_small<K_MAX, T>(n, x), 1};
    if (is_finite(y.m))
      y.s = fold_small<K_ADD, T>(n, [&](int i) { return exponential(sub(x(i), y.m)); });
    return y;
  }
};
template <int A>
struct small<A, K_MOMENTS> {
  typedef typename acc<A>::T T;
  template <class C>
  GPURED__DEV moments_node<T> node(const job &, const C &x, int n) {
    moments_node<T> y;
    y.n = n;
    y.mean = quotient(fold_small<K_ADD, T>(n, x), (T)n);
    y.m2 = fold_small<K_SQUARE, T>(n, [&](int i) { return sub(x(i), y.mean); });
    return y;
  }
};

template <int A, int D, int K>
static __global__ void __launch_bounds__(SMALL_THREADS)
    reduce_small(const job j, const item_cells s) {
  __shared__ __align__(16) char stage[SMALL_BYTES + 128];
  enum { SIZE = stored<D>::SIZE };
  const int t = (int)threadIdx.x, n = (int)j.n, unit = n * s.width * SIZE;
  const int64_t item = (int64_t)blockIdx.x * s.beside, left = s.items - item;
  const int items = left < s.beside ? (int)left : s.beside;
  const char *from = j.in + item * unit, *base = border_before(from);
  const int before = (int)(from - base), vectors = (before + items * unit + 15) / 16;
  for (int v = t; v < vectors; v += SMALL_THREADS)
    copy_before(stage + small_place(16 * v), base + 16 * v, j.end);
  copies_wait();
  __syncthreads();
  for (int o = t; o < items * s.width; o += SMALL_THREADS) {
    const int own = (int)__umulhi((unsigned)o, s.width_recip), column = o - own * s.width;
    const small_column<A, D> x = {stage, before + own * unit + column * SIZE, s.width * SIZE,
                                  j.how};
    const int64_t sequence = item * s.width + o;
    char *to = s.flat ? j.out + (sequence << log2_size_of(j.out_dtype)) : place(j, sequence);
    store_at<K>(j, to, small<A, K>::node(j, x, n));
  }
}

/* ---- Items of up to 1024 rows ---- */
/*
 * Where a column is too long for one thread, 4 or 16 share its lanes. A block of threads copies as
 * many items as have room, with what lies between them; the threads of an item are in the order of
 * memory (a cell: part, then column), so that neighbours read neighbours, and take the next item
 * when they are done with one. Then the parts of each column meet, where an item has room for one
 * more of them: those who join neighbouring columns meet few banks twice.
 */
enum {
  ITEM_THREADS = 256,
  ITEM_BYTES = 32768,   /* that a block of threads copies at a time, but for one item that has */
  ITEM_LARGEST = 49152, /* up to so many */
  ITEM_TURNS = 4,
  ITEM_PARTS = 4,          /* threads of a column, where there are as many of them */
  ITEM_PARTS_THREADS = 96, /* as this; otherwise 16 */
  UNITS_BYTES = 16384      /* of the nodes of long columns' units */
};

/* What a block of threads has in shared memory: items from `begin` on. */
struct item_batch {
  int64_t begin;
  int items;             /* that exist */
  int own, part, column; /* the thread's cell, in every beside-th item from `own` on */
  const char *mine;      /* its column of item 0 */

  __device__ __forceinline__ void locate(const item_cells &s) {
    const int cells = s.parts * s.width, cell = (int)threadIdx.x % cells;
    own = (int)threadIdx.x / cells;
    part = cell / s.width;
    column = cell - part * s.width;
    if (own >= s.beside) own = INT32_MAX / 2;
  }
  /* Copies them, which are `elements` of memory from the first one on. */
  template <int D>
  __device__ __forceinline__ void load(const job &j, const item_cells &s, char *memory,
                                       const char *from, int elements) {
    enum { SIZE = stored<D>::SIZE };
    const char *base = border_before(from);
    char *to = memory + s.stage_at + ((uintptr_t)base & 127);
    const int vectors = ((int)(from - base) + elements * SIZE + 15) / 16;
    if (j.end - base >= vectors * 16)
#pragma unroll 4
      for (int v = (int)threadIdx.x; v < vectors; v += (int)blockDim.x)
        copy_16(to + 16 * v, base + 16 * v);
    else
      for (int v = (int)threadIdx.x; v < vectors; v += (int)blockDim.x)
        copy_before(to + 16 * v, base + 16 * v, j.end);
    mine = to + (from - base) + column * SIZE;
    copies_wait();
    __syncthreads();
  }
  /* f(item, place) for each item of the thread; place: of its part, in an array of all of them. */
  template <class F>
  __device__ __forceinline__ void each(const item_cells &s, const F &f) const {
    const int pitch = (s.parts + 1) * s.width;
    for (int item = own; item < items; item += s.beside)
      f(item, item * pitch + part * s.width + column);
  }
};

/* A column, as it lies in shared memory. */
template <class T, int D>
struct item_column {
  const char *first;
  int row; /* bytes */
  int how;
  __device__ __forceinline__ item_column(const job &j, const item_cells &s, const item_batch &b,
                                         int item)
      : first(b.mine + (int)(item * s.step) * (int)stored<D>::SIZE),
        row((int)s.row * (int)stored<D>::SIZE),
        how(j.how) {}
  __device__ __forceinline__ T operator()(int i) const {
    T x;
    widen<D>(*(const typename stored<D>::S *)(first + i * row), &x);
    adjust(&x, how);
    return x;
  }
};

/* What one of 16 / LANES threads has of at most 1024 values f(0), f(1), ..., in blocks of 256 that
 * meet in pairs: lanes part, part + 16 / LANES, ..., which meet last. */
template <int K, int LANES, class T, class F>
GPURED__DEV T item_lanes(const F &f, int n, int part) {
  enum { STEP = GPURED__LANES / LANES };
  T y[LANES], pair[LANES];
#pragma unroll 1
  for (int block = 0; block < n; block += GPURED__BLOCK) {
    const int end = min(n, block + GPURED__BLOCK);
    int e = block + part;
    T a[LANES];
#pragma unroll
    for (int i = 0; i < LANES; ++i) set_neutral<K>(&a[i]);
#pragma unroll 4
    for (; e + (LANES - 1) * STEP < end; e += GPURED__LANES)
#pragma unroll
      for (int i = 0; i < LANES; ++i) a[i] = step<K>(a[i], f(e + i * STEP));
#pragma unroll
    for (int i = 0; i < LANES - 1; ++i)
      if (e + i * STEP < end) a[i] = step<K>(a[i], f(e + i * STEP));
#pragma unroll
    for (int i = 0; i < LANES; ++i) {
      if (block == 0) y[i] = a[i];
      if (block == GPURED__BLOCK) y[i] = combined<K>(y[i], a[i]);
      if (block == 2 * GPURED__BLOCK) pair[i] = a[i];
      if (block == 3 * GPURED__BLOCK) pair[i] = combined<K>(pair[i], a[i]);
    }
  }
  if (n > 2 * GPURED__BLOCK)
#pragma unroll
    for (int i = 0; i < LANES; ++i) y[i] = combined<K>(y[i], pair[i]);
  halves<K, T, LANES / 2>::fold(y);
  return y[0];
}
template <int K, class T, class F>
GPURED__DEV T item_part(const item_cells &s, const F &f, int n, int part) {
  return s.parts == ITEM_PARTS ? item_lanes<K, GPURED__LANES / ITEM_PARTS, T>(f, n, part)
                               : item_lanes<K, 1, T>(f, n, part);
}

/* What PARTS threads have of a column, `step` apart. */
template <int K, int PARTS, class N>
GPURED__DEV N item_fold(const N *from, int step) {
  N x[PARTS];
#pragma unroll
  for (int l = 0; l < PARTS; ++l) x[l] = from[l * step];
  halves<K, N, PARTS / 2>::fold(x);
  return x[0];
}
/* Parts meet: give(q, item, x) has what comes of them, of column q % width of an item. (The first
 * of its parts is at item * (parts + 1) * width + q % width.) */
template <int K, class N, class F>
GPURED__DEV void item_meet(const item_cells &s, const item_batch &b, const N *slot, const F &give) {
  __syncthreads();
  for (int q = (int)threadIdx.x; q < b.items * s.width; q += (int)blockDim.x) {
    const int item = (int)__umulhi((unsigned)q, s.width_recip);
    const N *from = slot + item * s.parts * s.width + q;
    give(q, item,
         s.parts == ITEM_PARTS ? item_fold<K, ITEM_PARTS>(from, s.width)
                               : item_fold<K, GPURED__LANES>(from, s.width));
  }
}

/* Nodes of all items: give(q, item, node); size(item): how many elements that one has. */
template <int A, int D, int K, bool TWICE = (K > K_ARG)>
struct item_nodes {
  typedef typename acc<A>::T T;
  template <class S, class F>
  GPURED__DEV void run(const job &j, const item_cells &s, const item_batch &b, char *memory,
                       const S &size, const F &give) {
    T *slot = (T *)memory;
    b.each(s, [&](int item, int place) {
      const item_column<T, D> x(j, s, b, item);
      slot[place] = item_part<K, T>(
          s, [&](int i) { return prepared<K>(x(i), j); }, size(item), b.part);
    });
    item_meet<K>(s, b, slot, give);
  }
};
template <int A, int D>
struct item_nodes<A, D, K_ARG, false> {
  typedef typename acc<A>::T T;
  template <class S, class F>
  GPURED__DEV void run(const job &j, const item_cells &s, const item_batch &b, char *memory,
                       const S &size, const F &give) {
    arg_node<T> *slot = (arg_node<T> *)memory;
    b.each(s, [&](int item, int place) {
      const item_column<T, D> x(j, s, b, item);
      const int n = size(item);
      T v = lowest(T());
      int at = INT32_MAX;
      if (b.part < n) v = prepared<K_ARG>(x(at = b.part), j);
#pragma unroll 4
      for (int e = b.part + s.parts; e < n; e += s.parts)
        keep_best(prepared<K_ARG>(x(e), j), e, &v, &at);
      const arg_node<T> best = {v, at};
      slot[place] = best;
    });
    item_meet<K_ARG>(s, b, slot, give);
  }
};
/* What needs its elements twice. */
template <int A, int D, int K>
struct item_nodes<A, D, K, true> {
  typedef typename acc<A>::T T;
  typedef unit_sums<A, K> sums;
  template <class S, class F>
  GPURED__DEV void run(const job &j, const item_cells &s, const item_batch &b, char *memory,
                       const S &size, const F &give) {
    T *slot = (T *)memory, *centre = (T *)(memory + s.centres_at);
    b.each(s, [&](int item, int place) {
      const item_column<T, D> x(j, s, b, item);
      slot[place] = item_part<sums::FIRST, T>(s, x, size(item), b.part);
    });
    item_meet<sums::FIRST>(s, b, slot,
                           [&](int q, int item, T x) { centre[q] = sums::centre(x, size(item)); });
    __syncthreads();
    b.each(s, [&](int item, int place) {
      const item_column<T, D> x(j, s, b, item);
      const T base = sums::base(centre[item * s.width + b.column]);
      slot[place] = item_part<sums::SECOND, T>(
          s, [&](int i) { return sums::term(sub(x(i), base)); }, size(item), b.part);
    });
    item_meet<sums::SECOND>(s, b, slot, [&](int q, int item, T around) {
      give(q, item, sums::node(centre[q], around, size(item)));
    });
  }
};

template <int A, int D, int K>
static __global__ void __launch_bounds__(2 * ITEM_THREADS, 2)
    reduce_items(const __grid_constant__ job j, const __grid_constant__ item_cells s) {
  typedef typename kind<A, K>::N N;
  enum { SIZE = stored<D>::SIZE };
  extern __shared__ __align__(128) char item_memory[];
  item_batch b;
  b.locate(s);
  b.begin = (int64_t)blockIdx.x * s.most;
  b.items = (int)min((int64_t)s.most, s.items - b.begin);
  b.load<D>(j, s, item_memory, j.in + b.begin * s.step * SIZE,
            (int)((b.items - 1) * s.step + (j.n - 1) * s.row + s.width));
  item_nodes<A, D, K>::run(
      j, s, b, item_memory, [&](int) { return (int)j.n; },
      [&](int q, int, const N &x) {
        const int64_t sequence = b.begin * s.width + q;
        char *to = s.flat ? j.out + (sequence << log2_size_of(j.out_dtype)) : place(j, sequence);
        store_at<K>(j, to, x);
      });
}

/*
 * Few long columns: their units of 1024 rows are items, of which the last one may be shorter. A
 * block of threads has a segment of them, a power of two, and joins their nodes in the tree: those
 * of 16 lanes where these meet at the top alone.
 */
template <int A, int D, int K, bool LANED>
struct unit_nodes {
  typedef typename kind<A, K>::N N;
  /* Of the batch's columns, to `to`, as item_nodes has them. */
  template <class S>
  GPURED__DEV void run(const job &j, const item_cells &s, const item_batch &b, char *memory,
                       const S &size, N *to) {
    item_nodes<A, D, K>::run(j, s, b, memory, size, [&](int q, int item, const N &x) {
      to[q] = x;
      move_index(&to[q], (b.begin + item) * GPURED__WIDE_BLOCK);
    });
  }
};
template <int A, int D, int K>
struct unit_nodes<A, D, K, true> {
  typedef typename acc<A>::T T;
  template <class S>
  GPURED__DEV void run(const job &j, const item_cells &s, const item_batch &b, char *,
                       const S &size, T *to) {
    b.each(s, [&](int item, int) {
      const item_column<T, D> x(j, s, b, item);
      to[(item * GPURED__LANES + b.part) * s.width + b.column] =
          item_lanes<K, 1, T>([&](int i) { return prepared<K>(x(i), j); }, size(item), b.part);
    });
  }
};

template <int A, int D, int K>
static __global__ void __launch_bounds__(2 * ITEM_THREADS, 2)
    reduce_item_units(const __grid_constant__ job j, const __grid_constant__ item_cells s) {
  typedef typename kind<A, K>::N N;
  enum { SIZE = stored<D>::SIZE, LANED = K < K_MAX && !cols_free(A, K) };
  enum { LANES = LANED ? GPURED__LANES : 1 };
  extern __shared__ __align__(128) char item_memory[];
  const int units = s.turns * s.most, wide = LANES * s.width, t = (int)threadIdx.x;
  const unsigned group = blockIdx.x % (unsigned)j.segments,
                 outer = blockIdx.x / (unsigned)j.segments;
  const char *in = j.in + start_of_columns(j, outer, GPURED__IN) * SIZE;
  const int64_t from = (int64_t)group * units, to = min(from + units, s.items);
  N *nodes = (N *)(item_memory + s.nodes_at);
  item_batch b;
  b.locate(s);
  for (int i = t; i < units * wide; i += (int)blockDim.x) set_neutral<K>(&nodes[i]);
  for (b.begin = from; b.begin < to; b.begin += s.most) {
    const int64_t left = j.n - b.begin * GPURED__WIDE_BLOCK;
    const int rows = (int)min(left, (int64_t)s.most * GPURED__WIDE_BLOCK);
    b.items = (int)min((int64_t)s.most, to - b.begin);
    __syncthreads();
    b.load<D>(j, s, item_memory, in + b.begin * s.step * SIZE, (rows - 1) * (int)s.row + s.width);
    unit_nodes<A, D, K, LANED>::run(
        j, s, b, item_memory,
        [&](int item) {
          return min(rows - item * (int)GPURED__WIDE_BLOCK, (int)GPURED__WIDE_BLOCK);
        },
        nodes + (int)(b.begin - from) * wide);
  }
  for (int d = 1; d < units; d *= 2) {
    __syncthreads();
    for (int i = t; i < units / (2 * d) * wide; i += (int)blockDim.x) {
      N *a = nodes + i / wide * 2 * d * wide + i % wide;
      *a = combined<K>(*a, a[d * wide]);
    }
  }
  __syncthreads();
  if (j.segments == 1) {
    if (t < s.width)
      store_at<K>(j, place_of_column(j, outer, t), item_fold<K, LANES>(nodes + t, s.width));
  } else if (t < wide) {
    const int64_t place = group * j.outputs + (int64_t)outer * s.width + t % s.width;
    ((N *)j.partial)[place * LANES + t / s.width] = nodes[t];
  }
}

/* ---- Channels ---- */
/*
 * Sequences of two axes whose inner parts are short and lie side by side: statistics of the
 * channels of small images. What a step along the outer axis has of a few neighbouring sequences is
 * one run of memory. A block of threads copies the runs that a tile of its sequences touches into
 * shared memory, and half a warp reduces one or two of them at a time from there, thread l being
 * lane l: to find an element costs more than to add it, and is done once for all of them.
 */
enum {
  CHANNELS_MOST = 16, /* sequences of a block of threads */
  CHANNELS_LEVELS = 40,
  CHANNELS_LEAST = 4,       /* sequences side by side that are worth it, */
  CHANNELS_PIECE = 2048,    /* in pieces of so many bytes at most; */
  CHANNELS_BYTE_PIECE = 32, /* longer ones of bytes are taken word by word elsewhere, */
  CHANNELS_WHOLE = 32,      /* and those of whole vectors 16 bytes at a time */
  CHANNELS_LOOSE = 64, /* where runs begin anywhere, logsumexp and variance of longer ones, too */
  CHANNELS_TILE = 20 << 10,   /* bytes of a tile, */
  CHANNELS_SHARED = 90 << 10, /* and of all; a tile of a wide unit, too */
  CHANNELS_BULK = 256,        /* bytes of a run that is copied in bulk */
  CHANNELS_BLOCKS = 12        /* of threads to a multiprocessor, of which about half run at once */
};
/* Sequences of half a warp. What computes much needs threads more than addresses at hand. */
__host__ __device__ constexpr int channels_each(int k) { return k > K_ARG ? 1 : 2; }
__host__ __device__ constexpr int channels_unit(int k) {
  return k > K_ARG ? GPURED__WIDE_BLOCK : GPURED__BLOCK;
}

struct channels {
  int many, width;        /* sequences of a block of threads, and in all, side by side */
  int piece, step, apart; /* elements of a run; bytes to the next one, and to the next sequence */
  int run;                /* bytes of `many` pieces */
  int64_t row_bytes;      /* from one run of a sequence to its next */
  int vectors, rows;      /* of a run's place in shared memory; runs that a tile may touch */
  int tile, stages;       /* elements of a tile, and tiles that have room */
  int64_t tile_bytes;     /* from the run in which a tile begins to that of the next one, */
  int tile_in;            /* which begins so many elements further behind its beginning */
  int bulk;               /* runs are long enough for copies of their own */
  int turns;              /* runs do not all begin alike behind a border of 16 bytes */
  unsigned groups, piece_recip, vectors_recip;
};

/* Where a tile begins: in which run, and so many elements behind its beginning. */
struct channel_place {
  const char *run;
  int in;
};

/* The sequences of half a warp in a tile. TURNS: runs begin differently behind a border of 16
 * bytes. */
template <int D, int EACH, bool TURNS>
struct channel_reader {
  const char *base;
  int in, step, skip, turn, behind; /* skip: from the end of a run to the beginning of the next */
  unsigned recip;
  int apart[EACH];

  /* From number `first_one` of `count` on; what does not exist is the last one again. */
  __device__ __forceinline__ channel_reader(const channels &c, int first_one, int count)
      : base(NULL),
        in(0),
        step(c.step),
        skip(c.vectors * 16 - c.piece * c.step),
        turn((int)(c.row_bytes & 15)),
        behind(0),
        recip(c.piece_recip) {
#pragma unroll
    for (int q = 0; q < EACH; ++q) {
      apart[q] = min(first_one + q, count - 1) * c.apart;
      asm("" : "+r"(apart[q])); /* or it is computed anew for each element */
    }
  }
  __device__ __forceinline__ void look_at(const char *tile, const channel_place &place) {
    behind = (int)((uintptr_t)place.run & 15);
    base = tile + (TURNS ? 0 : behind);
    in = place.in;
  }

  __device__ __forceinline__ int where(int i) const {
    const int p = in + i, row = (int)__umulhi((unsigned)p, recip);
    return p * step + row * skip + (TURNS ? (behind + row * turn) & 15 : 0);
  }
  template <class T>
  __device__ __forceinline__ T value(const job &j, int at, int c) const {
    T x = 0;
    widen<D>(*(const typename stored<D>::S *)(base + at + apart[c]), &x);
    adjust(&x, j.how);
    return x;
  }
};

/* A lane of the block that begins at element i, of all sequences; f(x, c): what is made of an
 * element. */
template <int K, int EACH, class T, class R, class F>
GPURED__DEV void channel_lanes(const job &j, const R &r, int i, int end, const F &f, T (&a)[EACH]) {
  enum { AT_ONCE = 4 };
  const bool whole = end - i >= GPURED__BLOCK;
  end = min(end, i + GPURED__BLOCK);
  i += (int)threadIdx.x % ANY_LANES;
#pragma unroll
  for (int c = 0; c < EACH; ++c) set_neutral<K>(&a[c]);
  if (whole) {
#pragma unroll
    for (int k = 0; k < GPURED__LANES; k += AT_ONCE) {
      T x[AT_ONCE][EACH];
#pragma unroll
      for (int q = 0; q < AT_ONCE; ++q) {
        const int at = r.where(i + (k + q) * GPURED__LANES);
#pragma unroll
        for (int c = 0; c < EACH; ++c) x[q][c] = r.template value<T>(j, at, c);
      }
#pragma unroll
      for (int q = 0; q < AT_ONCE; ++q)
#pragma unroll
        for (int c = 0; c < EACH; ++c)
          a[c] = k + q ? step<K>(a[c], f(x[q][c], c)) : first<K>(f(x[q][c], c));
    }
    return;
  }
#pragma unroll 1
  for (bool begun = false; i < end; i += GPURED__LANES, begun = true) {
    const int at = r.where(i);
#pragma unroll
    for (int c = 0; c < EACH; ++c) {
      const T x = f(r.template value<T>(j, at, c), c);
      a[c] = begun ? step<K>(a[c], x) : first<K>(x);
    }
  }
}
/* Reduce of up to 1024 elements, to all threads of half a warp. */
template <int K, int EACH, class T, class R, class F>
GPURED__DEV void channel_reduce(const job &j, const R &r, int i, int end, unsigned mask, const F &f,
                                T (&a)[EACH]) {
  T b[3][EACH];
  channel_lanes<K>(j, r, i, end, f, a);
#pragma unroll
  for (int q = 0; q < 3; ++q) channel_lanes<K>(j, r, i + (q + 1) * GPURED__BLOCK, end, f, b[q]);
#pragma unroll
  for (int c = 0; c < EACH; ++c) {
    a[c] = combined<K>(combined<K>(a[c], b[0][c]), combined<K>(b[1][c], b[2][c]));
    a[c] = __shfl_sync(mask, folded<K>(mask, a[c]), 0, GPURED__LANES);
  }
}

/* The nodes of a unit. */
template <int A, int K, int EACH>
struct channel_unit { /* folds: thread l has lane l of the node */
  typedef typename acc<A>::T T;
  template <class R>
  GPURED__DEV void nodes(const job &j, const R &r, int i, int end, unsigned, T (&node)[EACH]) {
    channel_lanes<K>(
        j, r, i, end, [&](T x, int) { return prepared<K>(x, j); }, node);
  }
};
template <int A, int EACH>
struct channel_unit<A, K_ARG, EACH> {
  typedef typename acc<A>::T T;
  template <class R>
  GPURED__DEV void nodes(const job &j, const R &r, int i, int end, unsigned mask,
                         arg_node<T> (&node)[EACH]) {
    T v[EACH];
    int at[EACH];
    end = min(end, i + GPURED__BLOCK);
    i = min(i + (int)threadIdx.x % ANY_LANES, end - 1); /* twice the last one is as good as once */
    for (int c = 0; c < EACH; ++c)
      v[c] = prepared<K_ARG>(r.template value<T>(j, r.where(i), c), j), at[c] = i;
#pragma unroll 4
    for (i += GPURED__LANES; i < end; i += GPURED__LANES) {
      const int where = r.where(i);
#pragma unroll
      for (int c = 0; c < EACH; ++c)
        keep_best(prepared<K_ARG>(r.template value<T>(j, where, c), j), i, &v[c], &at[c]);
    }
#pragma unroll
    for (int c = 0; c < EACH; ++c) {
      node[c].v = v[c], node[c].i = at[c];
      for (int h = GPURED__LANES / 2; h > 0; h /= 2)
        node[c] = combined<K_ARG>(node[c], from_below(mask, node[c], h));
    }
  }
};
template <int A, int EACH>
struct channel_unit<A, K_LSE, EACH> {
  typedef typename acc<A>::T T;
  template <class R>
  GPURED__DEV void nodes(const job &j, const R &r, int i, int end, unsigned mask,
                         pair_node<T> (&node)[EACH]) {
    T m[EACH], s[EACH];
    channel_reduce<K_MAX>(
        j, r, i, end, mask, [](T x, int) { return x; }, m);
    channel_reduce<K_ADD>(
        j, r, i, end, mask, [&](T x, int c) { return exponential(sub(x, m[c])); }, s);
#pragma unroll
    for (int c = 0; c < EACH; ++c) node[c].m = m[c], node[c].s = is_finite(m[c]) ? s[c] : 1;
  }
};
template <int A, int EACH>
struct channel_unit<A, K_MOMENTS, EACH> {
  typedef typename acc<A>::T T;
  template <class R>
  GPURED__DEV void nodes(const job &j, const R &r, int i, int end, unsigned mask,
                         moments_node<T> (&node)[EACH]) {
    const int n = min(end - i, (int)GPURED__WIDE_BLOCK);
    T mean[EACH], m2[EACH];
    channel_reduce<K_ADD>(
        j, r, i, end, mask, [](T x, int) { return x; }, mean);
#pragma unroll
    for (int c = 0; c < EACH; ++c) mean[c] = quotient(mean[c], (T)n);
    channel_reduce<K_SQUARE>(
        j, r, i, end, mask, [&](T x, int c) { return sub(x, mean[c]); }, m2);
#pragma unroll
    for (int c = 0; c < EACH; ++c) node[c].n = n, node[c].mean = mean[c], node[c].m2 = m2[c];
  }
};

/* The tiles of a block of threads' sequences, from an element of those on. Runs that lie alike and
 * in front of the input's end arrive by bulk copies, where there are any and runs are long. */
template <bool TURNS>
struct channel_tiles {
  const job &j;
  const channels &c;
  char *memory;
  channel_place next;  /* that of the tile to be asked for, */
  int64_t left;        /* elements from there on, */
  int run, to;         /* bytes of a run, and in which place of the memory it will be */
  int bulks, parities; /* bits of a place: is its tile copied in bulk; its barrier's parity */

  __device__ __forceinline__ channel_tiles(const job &job_, const channels &channels_, char *space,
                                           const char *in, int64_t from, int64_t elements,
                                           int bytes)
      : j(job_),
        c(channels_),
        memory(space),
        left(elements),
        run(bytes),
        to(0),
        bulks(0),
        parities(0) {
    const int64_t runs = gpured__quotient(from, c.piece);
    next.run = in + runs * c.row_bytes;
    next.in = (int)(from - runs * c.piece);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      barrier_init(shared_address(space), 1);
      barrier_init(shared_address(space) + 8, 1);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
#endif
  }
  __device__ __forceinline__ char *tile(int at) const {
    return memory + 16 + at * c.rows * c.vectors * 16; /* behind the barriers */
  }
  /* Each vector for itself. */
  __device__ __forceinline__ void load_vectors(int rows) const {
    char *stage = tile(to);
    for (int i = (int)threadIdx.x; i < rows * c.vectors; i += (int)blockDim.x) {
      const int r = (int)__umulhi((unsigned)i, c.vectors_recip);
      const char *row = next.run + r * c.row_bytes;
      const char *vector = border_before(row) + 16 * (i - r * c.vectors);
      if (vector < row + run) copy_before(stage + 16 * i, vector, j.end);
    }
  }
  __device__ __forceinline__ void load_runs(int rows) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const char *line = border_before(next.run);
    const int bytes = ((int)(next.run - line) + run + 15) / 16 * 16;
    bulks &= ~(1 << to);
    if (!TURNS && c.bulk && j.end - (line + (rows - 1) * c.row_bytes) >= bytes) {
      const uint32_t stage = shared_address(tile(to)), bar = shared_address(memory) + 8 * to;
      bulks |= 1 << to;
      if (threadIdx.x >= 32) return;
      if (threadIdx.x == 0) barrier_expect(bar, (uint32_t)(rows * bytes));
      __syncwarp();
      for (int r = (int)threadIdx.x; r < rows; r += 32)
        copy_bulk(stage + r * c.vectors * 16, line + r * c.row_bytes, (uint32_t)bytes, bar);
      return;
    }
#endif
    load_vectors(rows);
  }
  /* Asks for the next tile, if there is one. */
  __device__ __forceinline__ void load() {
    if (left > 0) {
      const int last = next.in + (int)min((int64_t)c.tile, left) - 1;
      load_runs((int)__umulhi((unsigned)last, c.piece_recip) + 1);
    }
    copies_commit();
    left -= c.tile;
    next.run += c.tile_bytes;
    next.in += c.tile_in;
    if (next.in >= c.piece) next.in -= c.piece, next.run += c.row_bytes;
    to ^= c.stages > 1;
  }
  /* Waits for one, which is the newest or the one before. */
  __device__ __forceinline__ void wait(int at) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (bulks >> at & 1) {
      barrier_wait(shared_address(memory) + 8 * at, parities >> at & 1);
      parities ^= 1 << at;
      return;
    }
#endif
    if (c.stages > 1)
      copies_wait_but<1>();
    else
      copies_wait();
    __syncthreads();
  }
};

/* The nodes of a tile of `count` elements, the first of which is number `at`: of two units at a
 * time. */
template <int A, int K, int EACH, class R, class N>
GPURED__DEV void push_channels(const job &j, const R &r, int64_t at, int count, unsigned mask,
                               int64_t *have, N (*stack)[EACH]) {
  enum { UNIT = channels_unit(K) };
  for (int i = 0; i < count; i += 2 * UNIT, ++*have) {
    N two[EACH];
#pragma unroll 1
    for (int u = 0; u < 2 && i + u * UNIT < count; ++u) {
      N node[EACH];
      channel_unit<A, K, EACH>::nodes(j, r, i + u * UNIT, count, mask, node);
#pragma unroll
      for (int q = 0; q < EACH; ++q) {
        move_index(&node[q], at);
        two[q] = u ? combined<K>(two[q], node[q]) : node[q];
      }
    }
#pragma unroll
    for (int q = 0; q < EACH; ++q) push<K>(&stack[0][q], EACH, *have, two[q]);
  }
}

template <int A, int D, int K, bool TURNS>
static __global__ void __launch_bounds__(CHANNELS_MOST / channels_each(K) * ANY_LANES)
    reduce_channels(const __grid_constant__ job j, const __grid_constant__ channels c) {
  typedef typename kind<A, K>::N N;
  enum { LANES = kind<A, K>::LANES, SIZE = stored<D>::SIZE, EACH = channels_each(K) };
  extern __shared__ __align__(128) char channel_memory[];
  const int lane = (int)threadIdx.x % ANY_LANES, half = (int)threadIdx.x / ANY_LANES;
  const unsigned mask = 0xffffu << (half % 2 * ANY_LANES);
  const unsigned group = blockIdx.x % c.groups, rest = blockIdx.x / c.groups;
  const unsigned segment = rest % (unsigned)j.segments, outer = rest / (unsigned)j.segments;
  const int first_one = (int)group * c.many, count = min(c.many, c.width - first_one);
  const int64_t s = (int64_t)outer * c.width + first_one;
  const int64_t size = j.segment_units * channels_unit(K), from = segment * size;
  const int64_t end = min(from + size, j.n);
  channel_tiles<TURNS> tiles(j, c, channel_memory, j.in + start_of(j, s) * SIZE, from, end - from,
                             c.run - (c.many - count) * c.apart);
  channel_reader<D, EACH, TURNS> r(c, half * EACH, count);
  channel_place here = tiles.next;
  N stack[CHANNELS_LEVELS][EACH];
  int64_t have = 0;
  int turn = 0;
  tiles.load();
  for (int64_t at = from; at < end; at += c.tile) {
    const channel_place after = tiles.next;
    if (c.stages > 1) tiles.load();
    tiles.wait(turn);
    r.look_at(tiles.tile(turn), here);
    push_channels<A, K, EACH>(j, r, at, (int)min((int64_t)c.tile, end - at), mask, &have, stack);
    __syncthreads();
    here = after;
    if (c.stages > 1)
      turn ^= 1;
    else
      tiles.load();
  }
#pragma unroll 1 /* results are many instructions */
  for (int q = 0; q < EACH; ++q) {
    const int64_t sequence = s + half * EACH + q;
    if (half * EACH + q >= count) break;
    const N node = closed<K>(&stack[0][q], EACH, have);
    if (j.segments == 1)
      finish_half<K>(j, sequence, node, lane, mask);
    else if (lane < LANES)
      ((N *)j.partial)[(sequence * j.segments + segment) * LANES + lane] = node;
  }
}

/* ============================================================================================== */
/* 8  Scan                                                                                        */
/* ============================================================================================== */
/*
 * One pass over memory. A block of threads takes a tile of SCAN_CHUNK * chunks elements, the
 * scan's groups of the levels 0, 1 and 2, into shared memory; a thread scans groups of 16, half a
 * warp the next level by shuffles, and again. Above that, tiles look back: each publishes its
 * chunks' totals, the one that completes a group of 16 the group's, and so on; a tile reads at
 * most 15 values of each level, all in one go. A value travels in 8-byte words, 4 of it and a
 * flag, so that no fence is needed. Tiles are numbered by a ticket, so a tile waits only for tiles
 * that have started.
 *
 * Lines of at most one chunk are scanned several to a tile, without looking back.
 *
 * That is for lines of any kind. Contiguous ones in few tiles or in very many, those that a warp
 * can hold, lines side by side and short ones without gaps have kernels of their own, at the end of
 * this section.
 */
enum { SCAN_THREADS = 256, SCAN_CHUNK = 4096, SCAN_ROUNDS = 4, SCAN_LEVELS = 8 };

struct line_scan {
  job j; /* sequences are the lines; j.n their length */
  int64_t in_stride, out_stride;
  int64_t line_tiles, tiles;
  int64_t strips; /* lines side by side: so many blocks of threads across (few rows: threads), */
  int64_t turns;  /* and so many along a line, if lines are long; */
  int width_log2; /* tiles are so wide; */
  int lines; /* of a block, if they are short (of scan_short, a warp; of scan_rows, a ticket; of
                scan_columns, from the first line of a strip to that of the next, in threads) */
  int unit;  /* what a block has is one piece of memory: units of so many elements; 0: is not */
  unsigned unit_recip[2]; /* 2^32 / vectors of a unit that a gap follows, upwards: input, output */
  int chunks;             /* of a tile */
  int lines_log2;         /* short lines: in a chunk, 2^this; -1: long lines */
  int levels;             /* long lines: levels above the chunks' totals, theirs included */
  int exclusive;
  int aligned_in, aligned_out; /* lines are contiguous and begin at 16 bytes */
  int flat_in, flat_out;       /* tiles are contiguous in memory */
  int same_in, same_out;       /* lines are, and of the scan's own type; of results: tiles are */
  double empty_real;
  uint64_t empty_integer;
  unsigned long long *state; /* the ticket, then words */
  unsigned long long *used;  /* standing memory of the scan before, to be cleared, and its words */
  int64_t used_words;
  int64_t level_at[SCAN_LEVELS + 1], prefix_at, line_values, last_at; /* in values: in a line, of a
                                                                         line; behind */
  int tile_bytes; /* of a warp in shared memory: a tile of short lines without gaps, or a line */
};

template <int A, int K>
struct scanned {
  typedef typename acc<A>::T T;
  typedef T E;
  GPURED__DEV E enter(T x, const job &j) {
    typedef decltype(bits_of(x)) U;
    if (K == K_MAX) set_bits(&x, (U)(bits_of(x) ^ (U)j.flip));
    return x;
  }
  GPURED__DEV T leave(E x, const job &j) { return enter(x, j); }
};
template <int A>
struct scanned<A, K_LSE> {
  typedef typename acc<A>::T T;
  typedef pair_node<T> E;
  GPURED__DEV E enter(T x, const job &) {
    E e;
    e.m = x;
    e.s = 1;
    return e;
  }
  GPURED__DEV T leave(E x, const job &) { return is_finite(x.m) ? add(x.m, logarithm(x.s)) : x.m; }
};

/* What a copied tile still lacks: the flip of its elements. */
template <int K, class T>
GPURED__DEV void flip_element(T *x, const job &j) {
  typedef decltype(bits_of(*x)) U;
  if (K == K_MAX) set_bits(x, (U)(bits_of(*x) ^ (U)j.flip));
}
template <int K, class T>
GPURED__DEV void flip_element(pair_node<T> *, const job &) {}

/* Shuffles of scan elements. */
template <class E>
GPURED__DEV E from_above(E x, int d) {
  return __shfl_up_sync(0xffffffffu, x, (unsigned)d, 16);
}
template <class T>
GPURED__DEV pair_node<T> from_above(pair_node<T> x, int d) {
  x.m = __shfl_up_sync(0xffffffffu, x.m, (unsigned)d, 16);
  x.s = __shfl_up_sync(0xffffffffu, x.s, (unsigned)d, 16);
  return x;
}
template <class E>
GPURED__DEV E from_thread(E x, int source, int width) {
  return __shfl_sync(0xffffffffu, x, source, width);
}
template <class T>
GPURED__DEV pair_node<T> from_thread(pair_node<T> x, int source, int width) {
  x.m = __shfl_sync(0xffffffffu, x.m, source, width);
  x.s = __shfl_sync(0xffffffffu, x.s, source, width);
  return x;
}

/* The offset-doubling scan of 16 elements in registers. */
template <int K, class E, int O>
struct doubling {
  GPURED__DEV void scan(E *v) {
#pragma unroll
    for (int i = 15; i >= O; --i) v[i] = combined<K>(v[i - O], v[i]);
    doubling<K, E, O * 2>::scan(v);
  }
};
template <int K, class E>
struct doubling<K, E, 16> {
  GPURED__DEV void scan(E *) {}
};

/* The offset-doubling scan over groups of up to 16 threads; p is the place in the group. */
template <int K, class E>
GPURED__DEV E scan_across(E x, int p) {
#pragma unroll
  for (int o = 1; o < GPURED__LANES; o *= 2) {
    E left = from_above(x, o);
    if (p >= o) x = combined<K>(left, x);
  }
  return x;
}

/* The places of vector v of 16 bytes, and of element e, of a tile in shared memory: neighbours that
 * are eight vectors apart lie in different banks. */
GPURED__DEV int spread_vector(int v) { return v ^ (v >> 3 & 7); }
template <class E>
GPURED__DEV int spread(int e) {
  enum { PER = 16 / sizeof(E) };
  int v = e / PER;
  return spread_vector(v) * PER + e % PER;
}

/* A group of 16 elements, vector by vector. */
template <class E>
GPURED__DEV void read_group(const E *tile, int group, E *x) {
  enum { PER = 16 / sizeof(E) };
#pragma unroll
  for (int i = 0; i < (int)sizeof(E); ++i) {
    const int v = group * (int)sizeof(E) + i;
    const uint4 q = ((const uint4 *)tile)[spread_vector(v)];
    memcpy(x + i * PER, &q, 16);
  }
}
/* N elements from element e, a multiple of N. */
template <class E, int N>
GPURED__DEV void read_some(const E *tile, int e, E *x) {
  enum { PER = 16 / sizeof(E) };
  if (N < PER) {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = tile[spread<E>(e + i)];
  } else {
#pragma unroll
    for (int i = 0; i < N / PER; ++i) {
      const int v = e / PER + i;
      const uint4 q = ((const uint4 *)tile)[spread_vector(v)];
      memcpy(x + i * PER, &q, 16);
    }
  }
}
template <class E>
GPURED__DEV void write_group(E *tile, int group, const E *x) {
  enum { PER = 16 / sizeof(E) };
#pragma unroll
  for (int i = 0; i < (int)sizeof(E); ++i) {
    const int v = group * (int)sizeof(E) + i;
    uint4 q;
    memcpy(&q, x + i * PER, 16);
    ((uint4 *)tile)[spread_vector(v)] = q;
  }
}

/*
 * State that is zero whenever a scan begins, without a launch that clears it: a stream has two
 * states, and while a scan uses one of them it clears the one that the scan before has used.
 * (Section 11 shares them out.)
 */
enum { STANDING_STREAMS = 32, STANDING_WORDS = 5120 }; /* for 2^24 elements of 4 bytes */
#if GPURED__HAS(0)
static __device__ unsigned long long standing[STANDING_STREAMS][2][STANDING_WORDS];
#endif

/* By thread t of so many in each block. */
GPURED__DEV void clear_used(const line_scan &a, int t, int threads) {
  for (int64_t i = (int64_t)blockIdx.x * threads + t; i < a.used_words;
       i += (int64_t)gridDim.x * threads)
    a.used[i] = 0;
}

/* Which elements a tile has: line and position of the element in slot e. */
struct tile_map {
  int64_t line, from; /* long lines: the line, and the tile's first element in it */
  __device__ __forceinline__ bool find(const line_scan &a, int e, int64_t *l, int64_t *i) const {
    if (a.lines_log2 < 0) {
      *l = line;
      *i = from + e;
    } else {
      const int slot_log2 = log2_of(SCAN_CHUNK) - a.lines_log2;
      *l = line + (e >> slot_log2);
      *i = e & ((1 << slot_log2) - 1);
    }
    return *l < a.j.outputs && *i < a.j.n;
  }
};

GPURED__DEV int64_t line_place(const line_scan &a, int64_t line, int operand) {
  return a.j.kept_count == 1 ? line * a.j.kept[0].stride[operand]
                             : gpured__offset(a.j.kept, a.j.kept_count, line, operand);
}

/* f(e, exists, offset, i) for the elements e of a tile that are this thread's, 256 apart, which
 * they are in shared memory too: where it lies in the operand, and which one of its line it is.
 * Lines with one stride between them, which most are, need no division and little of 64 bits. */
template <class F>
GPURED__DEV void each_of_tile(const line_scan &a, const tile_map &map, int operand, int64_t stride,
                              const F &f) {
  const int t = (int)threadIdx.x, end = a.chunks * SCAN_CHUNK;
  if (a.j.kept_count > 1) {
#pragma unroll 1
    for (int e = t; e < end; e += SCAN_THREADS) {
      int64_t line, i = 0, at = 0;
      const bool exists = map.find(a, e, &line, &i);
      if (exists) at = line_place(a, line, operand) + i * stride;
      f(e, exists, at, i);
    }
    return;
  }
  const int slot_log2 = a.lines_log2 < 0 ? 31 : log2_of(SCAN_CHUNK) - a.lines_log2;
  const int64_t step = a.j.kept_count ? a.j.kept[0].stride[operand] : 0;
  const int64_t from = map.line * step + map.from * stride;
  const int lines = (int)min(a.j.outputs - map.line, (int64_t)INT32_MAX);
  const int length = (int)min(a.j.n - map.from, (int64_t)INT32_MAX);
#pragma unroll 4
  for (int e = t; e < end; e += SCAN_THREADS) {
    const int line = e >> slot_log2, i = e - (line << slot_log2);
    f(e, line < lines && i < length, from + line * step + i * stride, map.from + i);
  }
}

template <int A, int K, int D>
GPURED__DEV void load_elements(const line_scan &a, const tile_map &map,
                               typename scanned<A, K>::E *tile) {
  typedef typename scanned<A, K>::E E;
  typedef typename acc<A>::T T;
  typedef typename stored<D>::S S;
  E *to = tile + spread<E>((int)threadIdx.x) - threadIdx.x;
  each_of_tile(a, map, GPURED__IN, a.in_stride, [&](int e, bool exists, int64_t at, int64_t) {
    E x;
    T y;
    set_neutral<K>(&x);
    if (exists) {
      widen<D>(((const S *)a.j.in)[at], &y);
      x = scanned<A, K>::enter(y, a.j);
    }
    to[e] = x;
  });
}

/* Where a flat tile begins, in elements, and how many there are from there. */
GPURED__DEV int64_t flat_place(const line_scan &a, const tile_map &map, int operand,
                               int64_t *count) {
  const int64_t most = (int64_t)a.chunks * SCAN_CHUNK;
  *count = a.lines_log2 < 0 ? a.j.n - map.from : (a.j.outputs - map.line) * a.j.n;
  if (*count > most) *count = most;
  return line_place(a, map.line, operand) + map.from;
}

/* Contiguous elements of another type than the scan's: 16 bytes at a time. */
template <int A, int K, int D>
GPURED__DEV void load_flat(const line_scan &a, const tile_map &map,
                           typename scanned<A, K>::E *tile) {
  typedef typename scanned<A, K>::E E;
  typedef typename acc<A>::T T;
  typedef typename stored<D>::S S;
  enum { V = 16 / sizeof(S) };
  int64_t count, at = flat_place(a, map, GPURED__IN, &count);
  const S *from = (const S *)a.j.in + at;
#pragma unroll 2
  for (int e = (int)threadIdx.x * V; e < a.chunks * SCAN_CHUNK; e += SCAN_THREADS * V) {
    T x[V];
    if (e + V <= count) {
      unpack<D, T, V>(*(const uint4 *)(from + e), x, 0);
#pragma unroll
      for (int i = 0; i < V; ++i) tile[spread<E>(e + i)] = scanned<A, K>::enter(x[i], a.j);
    } else {
      for (int i = 0; i < V; ++i) {
        E y;
        set_neutral<K>(&y);
        if (e + i < count) {
          widen<D>(from[e + i], &x[0]);
          y = scanned<A, K>::enter(x[0], a.j);
        }
        tile[spread<E>(e + i)] = y;
      }
    }
  }
}

/* The bytes are the elements: copy vectors; flips are made when they are read. */
template <int A, int K>
GPURED__DEV void load_same(const line_scan &a, const tile_map &map,
                           typename scanned<A, K>::E *tile) {
  typedef typename scanned<A, K>::E E;
  enum { PER = 16 / sizeof(E) };
  int64_t count, at = flat_place(a, map, GPURED__IN, &count);
  const E *from = (const E *)a.j.in + at;
  for (int v = (int)threadIdx.x; v < a.chunks * SCAN_CHUNK / PER; v += SCAN_THREADS) {
    E *to = tile + spread_vector(v) * PER;
    if ((v + 1) * PER <= count) {
      copy_16(to, (const char *)(from + v * PER));
    } else {
      for (int i = 0; i < PER; ++i) {
        set_neutral<K>(&to[i]);
        if (v * PER + i < count) to[i] = from[v * PER + i];
      }
    }
  }
  copies_wait();
}

/* The same where lines begin anywhere: element by element, but all of a tile at the same time. */
template <int A, int K>
GPURED__DEV void load_ragged_lines(const line_scan &a, const tile_map &map,
                                   typename scanned<A, K>::E *tile) {
  typedef typename scanned<A, K>::E E;
  E *to = tile + spread<E>((int)threadIdx.x) - threadIdx.x;
  each_of_tile(a, map, GPURED__IN, 1, [&](int e, bool exists, int64_t at, int64_t) {
    if (exists)
      copy_some<sizeof(E)>(&to[e], (const E *)a.j.in + at);
    else
      set_neutral<K>(&to[e]);
  });
  copies_wait();
}

/* Tickets mostly come in the order of the blocks: memory can begin with a tile before its ticket is
 * there. */
template <class E>
GPURED__DEV void expect_tile(const line_scan &a) {
#if defined(__CUDA_ARCH__)
  enum { LINE = 128 / sizeof(E) };
  tile_map map;
  int64_t count, at;
  map.line = blockIdx.x / a.line_tiles;
  map.from = blockIdx.x % a.line_tiles * a.chunks * SCAN_CHUNK;
  at = flat_place(a, map, GPURED__IN, &count);
  const E *from = (const E *)a.j.in + at;
  for (int64_t e = (int64_t)threadIdx.x * LINE; e < count; e += SCAN_THREADS * LINE)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from + e));
#endif
}

/* Which dtypes an accumulator meets: floats, or integers, which only logsumexp turns into
 * floats. */
__host__ __device__ constexpr bool scan_reads(int a, int k, int d) {
  return a == GPURED__U64   ? d > GPURED_BF16
         : a == GPURED__F32 ? d <= GPURED_BF16 && d != GPURED_F64
                            : d <= GPURED_BF16 || k == K_LSE;
}

template <int A, int K, int D, bool READS>
struct some_load {
  GPURED__DEV void run(const line_scan &a, const tile_map &map, typename scanned<A, K>::E *tile) {
    if (a.flat_in)
      load_flat<A, K, D>(a, map, tile);
    else
      load_elements<A, K, D>(a, map, tile);
  }
};
template <int A, int K, int D>
struct some_load<A, K, D, false> {
  GPURED__DEV void run(const line_scan &, const tile_map &, typename scanned<A, K>::E *) {}
};

template <int A, int K>
GPURED__DEV void load_scan_tile(const line_scan &a, const tile_map &map,
                                typename scanned<A, K>::E *tile) {
  if (a.same_in) {
    if (a.flat_in)
      load_same<A, K>(a, map, tile);
    else
      load_ragged_lines<A, K>(a, map, tile);
    return;
  }
  switch (a.j.in_dtype) {
#define GPURED__CASE(D)                                         \
  case D:                                                       \
    some_load<A, K, D, scan_reads(A, K, D)>::run(a, map, tile); \
    break;
    GPURED__EVERY_DTYPE(GPURED__CASE)
#undef GPURED__CASE
  }
}

/* What a tile waits for: the values before its own of each level, two levels at a time in a
 * warp. */
template <class E>
struct look_back_values {
  E x[SCAN_ROUNDS];
  unsigned missing; /* a bit for each round */

  __device__ __forceinline__ void poll(const line_scan &a, int64_t line, int64_t first_chunk) {
    const int t = (int)threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < SCAN_ROUNDS; ++r) {
      const int level = 2 * r + t / 16;
      if (missing >> r & 1u) {
        int64_t index = (first_chunk >> 4 * level & ~15ll) + t % 16;
        if (look(a.state, line * a.line_values + a.level_at[level] + index, &x[r]))
          missing &= ~(1u << r);
      }
    }
  }
  /* Until the values of a level are there; those of other levels are taken as they come. */
  __device__ __forceinline__ void wait(const line_scan &a, int64_t line, int64_t first_chunk,
                                       int level) {
    const unsigned mine = (int)threadIdx.x % 32 / 16 == level % 2 ? 1u << level / 2 : 0;
    while (__any_sync(0xffffffffu, missing & mine)) poll(a, line, first_chunk);
  }
};

/* E_3 of a tile's chunks, by the first warp. What other tiles need from this one it shows as
 * soon as it can: a group's total depends on its own level alone. own: the total of chunk i, in
 * thread i. */
template <int A, int K>
GPURED__DEV void look_back(const line_scan &a, int64_t line, int64_t first_chunk, int have,
                           typename scanned<A, K>::E own, typename scanned<A, K>::E *before) {
  typedef typename scanned<A, K>::E E;
  const int t = (int)threadIdx.x % 32, p = t % 16, place = (int)(first_chunk % 16);
  look_back_values<E> v;
  E h[SCAN_ROUNDS], e, up;
  bool ends = place + have == 16;
  v.missing = 0;
  if (t < have) show(a.state, line * a.line_values + a.level_at[0] + first_chunk + t, own);
#pragma unroll
  for (int r = 0; r < SCAN_ROUNDS; ++r) {
    const int level = 2 * r + t / 16;
    set_neutral<K>(&v.x[r]);
    if (2 * r < a.levels && level < a.levels && p < (int)(first_chunk >> 4 * level & 15))
      v.missing |= 1u << r;
  }
  up = from_thread(own, (t - place) & 31, 32);
#pragma unroll
  for (int level = 0; level < 2 * SCAN_ROUNDS; ++level) {
    const int place_here = (int)(first_chunk >> 4 * level & 15);
    if (level >= a.levels || !ends) break;
    v.wait(a, line, first_chunk, level);
    E y = v.x[level / 2];
    if (t / 16 == level % 2 && p >= place_here && (level == 0 || p == place_here)) y = up;
    up = from_thread(scan_across<K>(y, p), level % 2 * 16 + 15, 32);
    ends = level == 0 || place_here == 15;
    if (ends && level + 1 < a.levels && t == 0)
      show(a.state, line * a.line_values + a.level_at[level + 1] + (first_chunk >> 4 * (level + 1)),
           up);
  }
  own = from_thread(own, (t - place) & 31, 32);
#pragma unroll
  for (int r = 0; r < SCAN_ROUNDS; ++r) {
    set_neutral<K>(&h[r]);
    if (2 * r >= a.levels) break;
    v.wait(a, line, first_chunk, 2 * r);
    v.wait(a, line, first_chunk, 2 * r + 1);
    if (r == 0 && t < 16 && p >= place && p < place + have) v.x[0] = own;
    h[r] = scan_across<K>(v.x[r], p);
  }
  set_neutral<K>(&e); /* from the highest level down */
#pragma unroll
  for (int level = 2 * SCAN_ROUNDS - 1; level >= 1; --level) {
    if (level >= a.levels) continue;
    const int place_here = (int)(first_chunk >> 4 * level & 15);
    E left = from_thread(h[level / 2], level % 2 * 16 + (place_here ? place_here - 1 : 0), 32);
    if (place_here) e = combined<K>(e, left);
  }
  E left = from_above(h[0], 1);
  if (t < 16 && p >= place && p < place + have) before[p - place] = p ? combined<K>(e, left) : e;
}

/* y of slot e: E_1 of its group joined with H_0. */
template <int A, int K>
GPURED__DEV typename scanned<A, K>::E result_at(const typename scanned<A, K>::E *tile,
                                                const typename scanned<A, K>::E *prefix, int e) {
  typedef typename scanned<A, K>::E E;
  return combined<K>(prefix[e / 16], tile[spread<E>(e)]);
}

/* Values of 16 bytes together in one store: `raw` has them as they are stored. */
template <class S, int V>
GPURED__DEV void store_vector(S *to, const S *raw, int count) {
  if (count >= V) {
    uint4 q;
    memcpy(&q, raw, 16);
    *(uint4 *)to = q;
  } else {
    for (int i = 0; i < count; ++i) to[i] = raw[i];
  }
}

/* The first exclusive result of a line. */
template <class S, class T>
GPURED__DEV S nothing_stored(const line_scan &a, T) {
  S y;
  store_any((char *)&y, a.j.out_dtype, a.empty_real);
  return y;
}
template <class S>
GPURED__DEV S nothing_stored(const line_scan &a, uint64_t) {
  S y;
  store_any((char *)&y, a.j.out_dtype, a.empty_integer);
  return y;
}

/* The results of a tile to contiguous memory; an exclusive one is the inclusive one before it.
 * `last`: the last of the tile before. */
template <int A, int K, class S, int CLASS>
GPURED__DEV void store_flat(const line_scan &a, const tile_map &map,
                            const typename scanned<A, K>::E *tile,
                            const typename scanned<A, K>::E *prefix,
                            typename scanned<A, K>::E last) {
  typedef typename scanned<A, K>::E E;
  typedef typename acc<A>::T T;
  enum { V = 16 / sizeof(S) };
  int64_t count, at = flat_place(a, map, GPURED__OUT, &count);
  S *to = (S *)a.j.out + at;
  const int slot = a.lines_log2 < 0 ? a.chunks * SCAN_CHUNK : SCAN_CHUNK >> a.lines_log2;
  for (int e = (int)threadIdx.x * V; e < count; e += SCAN_THREADS * V) {
    __align__(16) S raw[V];
    E x[V + 1];                               /* the results of elements e - 1, e, ... */
    const bool start = (e & (slot - 1)) == 0; /* of a line, or of the tile */
    read_some<E, V>(tile, e, x + 1);
#pragma unroll
    for (int i = 1; i <= V; ++i) x[i] = combined<K>(prefix[e / 16], x[i]);
    x[0] = last;
    if (a.exclusive && !start) x[0] = result_at<A, K>(tile, prefix, e - 1);
#pragma unroll
    for (int i = 0; i < V; ++i)
      store_any((char *)&raw[i], CLASS, scanned<A, K>::leave(a.exclusive ? x[i] : x[i + 1], a.j));
    if (a.exclusive && start && (a.lines_log2 >= 0 || map.from == 0))
      raw[0] = nothing_stored<S>(a, T());
    store_vector<S, V>(to + e, raw, count - e < V ? (int)(count - e) : (int)V);
  }
}

/* The results of a tile to memory of any layout. */
template <int A, int K, class S, int CLASS>
GPURED__DEV void store_lines(const line_scan &a, const tile_map &map,
                             const typename scanned<A, K>::E *tile,
                             const typename scanned<A, K>::E *prefix,
                             typename scanned<A, K>::E last) {
  typedef typename scanned<A, K>::E E;
  typedef typename acc<A>::T T;
  const int t = (int)threadIdx.x, source = t - a.exclusive; /* whose result it is */
  const E *from =
      (source < 0 ? tile + spread<E>(SCAN_THREADS - 1) - SCAN_THREADS : tile + spread<E>(source)) -
      t;
  const E *before = prefix + (source < 0 ? -1 : source / GPURED__LANES) - t / GPURED__LANES;
  each_of_tile(a, map, GPURED__OUT, a.out_stride, [&](int e, bool exists, int64_t at, int64_t i) {
    S *to = (S *)a.j.out + at;
    E x = last;
    if (!exists) return;
    if (e >= a.exclusive) x = combined<K>(before[e / GPURED__LANES], from[e]);
    if (a.exclusive && i == 0)
      *to = nothing_stored<S>(a, T());
    else
      store_any((char *)to, CLASS, scanned<A, K>::leave(x, a.j));
  });
}

template <int A, int K, class S, int CLASS>
GPURED__DEV void store_as(const line_scan &a, const tile_map &map,
                          const typename scanned<A, K>::E *tile,
                          const typename scanned<A, K>::E *prefix, typename scanned<A, K>::E last) {
  if (a.flat_out)
    store_flat<A, K, S, CLASS>(a, map, tile, prefix, last);
  else
    store_lines<A, K, S, CLASS>(a, map, tile, prefix, last);
}

/* Inclusive results of the scan's own type to contiguous memory. */
template <int A, int K>
GPURED__DEV void store_same(const line_scan &a, const tile_map &map,
                            const typename scanned<A, K>::E *tile,
                            const typename scanned<A, K>::E *prefix) {
  typedef typename scanned<A, K>::E E;
  typedef typename acc<A>::T T;
  enum { PER = 16 / sizeof(E) };
  int64_t count, at = flat_place(a, map, GPURED__OUT, &count);
  T *to = (T *)a.j.out + at;
  for (int v = (int)threadIdx.x; v < a.chunks * SCAN_CHUNK / PER; v += SCAN_THREADS) {
    const uint4 q = ((const uint4 *)tile)[spread_vector(v)];
    const E before = prefix[v * PER / 16];
    E x[PER];
    __align__(16) T y[16 / sizeof(T)];
    if (v * PER >= count) break;
    memcpy(x, &q, 16);
#pragma unroll
    for (int i = 0; i < PER; ++i)
      y[i] = canonical(scanned<A, K>::leave(combined<K>(before, x[i]), a.j));
    store_vector<T, PER>(to + v * PER, y,
                         count - v * PER < PER ? (int)(count - v * PER) : (int)PER);
  }
}

template <int A, int K>
GPURED__DEV void store_scan_tile(const line_scan &a, const tile_map &map,
                                 const typename scanned<A, K>::E *tile,
                                 const typename scanned<A, K>::E *prefix,
                                 typename scanned<A, K>::E last) {
  if (a.same_out) {
    store_same<A, K>(a, map, tile, prefix);
  } else if (A != GPURED__U64) {
    if (a.j.out_dtype == GPURED_F32)
      store_as<A, K, uint32_t, GPURED_F32>(a, map, tile, prefix, last);
    else if (a.j.out_dtype == GPURED_F64)
      store_as<A, K, uint64_t, GPURED_F64>(a, map, tile, prefix, last);
    else if (a.j.out_dtype == GPURED_F16)
      store_as<A, K, uint16_t, GPURED_F16>(a, map, tile, prefix, last);
    else
      store_as<A, K, uint16_t, GPURED_BF16>(a, map, tile, prefix, last);
  } else if (size_of(a.j.out_dtype) == 8) {
    store_as<A, K, uint64_t, GPURED_U64>(a, map, tile, prefix, last);
  } else if (size_of(a.j.out_dtype) == 4) {
    store_as<A, K, uint32_t, GPURED_U32>(a, map, tile, prefix, last);
  } else {
    store_as<A, K, uint8_t, GPURED_U8>(a, map, tile, prefix, last);
  }
}

/* Groups of 16 by one thread each, groups of those by half a warp: H_0 goes back to the tile,
 * H_1 of a thread's groups to h1. */
template <int A, int K, int CHUNKS>
GPURED__DEV void scan_groups(const line_scan &a, typename scanned<A, K>::E *tile,
                             typename scanned<A, K>::E *totals, int place,
                             typename scanned<A, K>::E *h1) {
  typedef typename scanned<A, K>::E E;
  const int t = (int)threadIdx.x;
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    if (c >= a.chunks) continue;
    E v[16];
    read_group(tile, c * SCAN_THREADS + t, v);
    if (a.same_in)
#pragma unroll
      for (int i = 0; i < 16; ++i) flip_element<K>(&v[i], a.j);
    doubling<K, E, 1>::scan(v);
    write_group(tile, c * SCAN_THREADS + t, v);
    h1[c] = scan_across<K>(v[15], place);
    if (t % 16 == 15) totals[c * 16 + t / 16] = h1[c];
  }
}

/* For exclusive scans: the last result of a tile goes to the next one. */
template <int A, int K>
GPURED__DEV void pass_last(const line_scan &a, const tile_map &map, int64_t number,
                           const typename scanned<A, K>::E *tile,
                           const typename scanned<A, K>::E *prefix,
                           typename scanned<A, K>::E *last) {
  if (threadIdx.x == 0) {
    const int64_t end = (int64_t)a.chunks * SCAN_CHUNK;
    set_neutral<K>(last);
    if (map.from + end < a.j.n)
      show(a.state, a.last_at + number, result_at<A, K>(tile, prefix, (int)end - 1));
    if (map.from > 0)
      while (!look(a.state, a.last_at + number - 1, last)) continue;
  }
  __syncthreads();
}

/* Blocks of scan_lines to a multiprocessor, for elements of so many bytes. */
static constexpr __host__ __device__ int scan_resident(size_t size) { return size == 4 ? 4 : 3; }

template <int A, int K>
static __global__ void __launch_bounds__(SCAN_THREADS,
                                         scan_resident(sizeof(typename scanned<A, K>::E)))
    scan_lines(const line_scan a) {
  typedef typename scanned<A, K>::E E;
  enum { CHUNKS = 16 / sizeof(E) };
  extern __shared__ __align__(128) char space[];
  __shared__ __align__(16) char small[(CHUNKS * 16 + CHUNKS + 1) * sizeof(E)];
  __shared__ unsigned long long ticket;
  E *tile = (E *)space, *prefix = tile + a.chunks * SCAN_CHUNK;
  E *totals = (E *)small, *before = totals + CHUNKS * 16, *last = before + CHUNKS;
  const int t = (int)threadIdx.x, p = t % 16, half = t / 16;
  const bool is_long = a.lines_log2 < 0;
  const int slots = is_long ? 256 : 256 >> a.lines_log2; /* groups of a line in a chunk */
  const int place1 = p & (slots - 1), place2 = p & ((slots >> 4) - 1);
  if (t == 0) ticket = is_long ? atomicAdd(a.state, 1ull) : blockIdx.x;
  if (is_long && a.same_in) expect_tile<E>(a);
  clear_used(a, t, SCAN_THREADS);
  __syncthreads();
  const int64_t number = (int64_t)ticket;
  tile_map map;
  map.line = is_long ? number / a.line_tiles : number * a.chunks << a.lines_log2;
  map.from = is_long ? number % a.line_tiles * a.chunks * SCAN_CHUNK : 0;
  load_scan_tile<A, K>(a, map, tile);
  __syncthreads();
  E h1[CHUNKS], h2[CHUNKS], own;
  scan_groups<A, K, CHUNKS>(a, tile, totals, place1, h1);
  __syncthreads();
  set_neutral<K>(&own);
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    if (c >= a.chunks) continue;
    h2[c] = scan_across<K>(totals[c * 16 + p], slots >= 16 ? place2 : 0);
    E total = from_thread(h2[c], 15, 16);
    if (t == c) own = total;
    h2[c] = from_thread(h2[c], half ? half - 1 : 0, 16); /* H_2 before this half warp */
  }
  if (is_long) {
    const int64_t left = (a.j.n - map.from + SCAN_CHUNK - 1) / SCAN_CHUNK;
    delay(number);
    if (t < 32)
      look_back<A, K>(a, map.line, map.from / SCAN_CHUNK, left < a.chunks ? (int)left : a.chunks,
                      own, before);
  } else if (t < a.chunks) {
    set_neutral<K>(&before[t]);
  }
  __syncthreads();
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    if (c >= a.chunks) continue;
    E e = before[c], left = from_above(h1[c], 1);
    if (slots > 16 && (half & ((slots >> 4) - 1))) e = combined<K>(e, h2[c]);
    if (place1) e = combined<K>(e, left);
    prefix[c * 256 + t] = e;
  }
  __syncthreads();
  if (a.exclusive && is_long) pass_last<A, K>(a, map, number, tile, prefix, last);
  store_scan_tile<A, K>(a, map, tile, prefix, *last);
}

/* ---- Contiguous lines ---- */
/*
 * At the speed of memory what counts is how much is under way while tiles wait for each other. Here
 * every warp (two of them, a team, where elements are of 8 bytes) works alone, on tiles of one
 * chunk, with two places for them in shared memory: while one tile waits for the values before it,
 * the next one is read, scanned and its total shown. From a tile's ticket to its total nothing is
 * waited for but its own copies and tiles with lower tickets; so the lowest tile that has not shown
 * its total will, and all tiles that wait go on.
 *
 * Tiles that wait for other groups of tiles wait for the slowest copy of many, and while they do,
 * no more copies are asked for. So whoever takes a tile has the second cache read one that lies
 * STREAM_AHEAD bytes behind it: memory stays busy, and the copies that follow are short. Results
 * and what has been copied shall leave that cache first.
 *
 * A tile keeps its elements' bytes. Those as wide as the accumulator become H_0 in their place;
 * narrow ones are scanned a second time when the values before them are known, so that twice as
 * many of them are under way.
 *
 * Lines that begin anywhere, that leave a part of their place in a tile empty or that go backwards
 * (TURNED) are copied in and out in pieces as large as the way they lie allows: 16 bytes, or an
 * element, or a pair of those of two bytes, which is turned into order in registers. Their results
 * replace the tile's elements before they go.
 */
enum { STREAM_ROUNDS = 3, STREAM_AHEAD = 8 << 20 };

/* A tile's bytes. One of pairs may begin with half of one. */
__host__ __device__ constexpr int stream_bytes(int size, bool turned) {
  return SCAN_CHUNK * size + (turned && size == 2 ? 16 : 0);
}

template <int A, int D>
struct stream {
  typedef typename acc<A>::T T;
  enum { SIZE = stored<D>::SIZE, WORDS = sizeof(T) / 4, KEEPS = SIZE == sizeof(T) };
  enum { TEAM = SIZE == 8 ? 2 : 1, TEAMS = 28 / SIZE, WARPS = TEAM * TEAMS };
  enum { PART = SCAN_CHUNK / TEAM, PART_BYTES = PART * SIZE };    /* of a tile: a warp's */
  enum { GROUPS = PART / GPURED__LANES / 32, ASKS = GROUPS - 3 }; /* of a thread; stream_ticket */
};

/* What the warps of a team tell each other. */
template <class T>
struct stream_team {
  T total[GPURED__LANES];
  unsigned ticket;
};
GPURED__DEV void stream_meet(int team) {
  asm volatile("bar.sync %0, 64;" ::"r"(team + 1) : "memory");
}

/* A tile whose groups are scanned: what is not in shared memory. */
template <int A, int D>
struct stream_tile {
  typedef typename acc<A>::T T;
  tile_map map;
  unsigned number;
  T h1[stream<A, D>::GROUPS]; /* H_1 of group t of each 32 */
  T h2;                       /* H_2 of 256 elements t % 16 */
};

/* Where vectors of 16 bytes lie, in bytes: number t + 32 i (copied side by side), and number i of
 * the SIZE vectors of group t of 32 (read by one thread). As spread() has it, in terms that are the
 * same for every tile. */
GPURED__DEV int side_by_side(int t, int i) {
  return (((t ^ (t >> 3)) ^ (i & 1) * 4) + 32 * i) * 16;
}
template <int SIZE>
GPURED__DEV int of_group(int t, int i) {
  return (t * SIZE ^ (t * SIZE >> 3 & 7) ^ i) * 16;
}

/* Elements of a tile from its element `first`; not more than `most`. */
GPURED__DEV int stream_count(const line_scan &a, const tile_map &map, int first, int most) {
  const int64_t left =
      (a.lines_log2 < 0 ? a.j.n - map.from : (a.j.outputs - map.line) * a.j.n) - first;
  return left < most ? (int)left : most;
}

GPURED__DEV int64_t stream_line(const line_scan &a, const tile_map &map, int operand) {
  return map.line * a.j.kept[0].stride[operand];
}
GPURED__DEV int64_t stream_place(const line_scan &a, const tile_map &map, int operand) {
  return stream_line(a, map, operand) + map.from;
}

/* The tile that a ticket names. */
GPURED__DEV tile_map stream_map(const line_scan &a, unsigned number) {
  const unsigned tiles = (unsigned)a.line_tiles, line = a.lines_log2 < 0 ? number / tiles : number;
  tile_map map;
  map.line = a.lines_log2 < 0 ? line : (int64_t)number << a.lines_log2;
  map.from = a.lines_log2 < 0 ? (int64_t)(number - line * tiles) * SCAN_CHUNK : 0;
  return map;
}

/* The lines of a tile that is TURNED. Slots are the places of the tile's elements. */
template <int SIZE>
struct stream_lines {
  char *at;           /* the first line, of long lines from the tile's first element on */
  int64_t line_bytes; /* from line to line */
  int slots_log2;     /* of a line */
  int lines, length;  /* that there are */
  bool back;          /* elements go down in memory */
  __device__ __forceinline__ stream_lines(const line_scan &a, const tile_map &map, int operand) {
    const bool out = operand == GPURED__OUT;
    back = (out ? a.out_stride : a.in_stride) < 0;
    line_bytes = a.j.kept[0].stride[operand] * SIZE;
    at = (out ? a.j.out : (char *)a.j.in) + map.line * line_bytes +
         (back ? -map.from : map.from) * SIZE;
    slots_log2 = a.lines_log2 > 0 ? log2_of(SCAN_CHUNK) - a.lines_log2 : 31;
    lines = (int)min(a.j.outputs - map.line, (int64_t)SCAN_CHUNK);
    length = (int)min(a.j.n - map.from, (int64_t)SCAN_CHUNK * 2);
  }
  /* Is the first element of a line the second one of a pair? */
  __device__ __forceinline__ int is_odd(int line) const {
    const uint32_t place = (uint32_t)(uintptr_t)at + (uint32_t)line * (uint32_t)line_bytes;
    return (int)((place >> 1 ^ (uint32_t)back) & 1);
  }
  /* f(where, place, x, left, odd) for pieces of U elements of a warp's part that begins at slot
   * `first`: the byte of the part; the place in memory of the piece, which begins with element x of
   * its line; and how many there are from there, perhaps less than none. Pairs are whole ones of
   * memory; where a line begins with half of one (odd), all begin an element earlier. Eight steps
   * of 32 pieces of one line have most of that in common. No branch may stand in f: the compiler
   * puts three instructions in front of each asynchronous copy that is the first after one. */
  template <int PART, int U, class F>
  __device__ __forceinline__ void each(int first, const F &f) const {
    enum { LANES_LOG2 = log2_of(16 / SIZE / U), VECTORS = 32 >> LANES_LOG2, SLOTS = 32 * U };
    const int t = (int)threadIdx.x % 32, byte = (t & ((1 << LANES_LOG2) - 1)) * U * SIZE;
    if (slots_log2 >= log2_of(8 * SLOTS)) {
      if (back)
        each_together<PART, U, -SIZE>(first, f);
      else
        each_together<PART, U, SIZE>(first, f);
      return;
    }
#pragma unroll 4
    for (int r = 0; r < PART / SLOTS; ++r) {
      const int v = (t >> LANES_LOG2) + r * VECTORS;
      one<SIZE == 2 && U == 2>(spread_vector(v) * 16 + byte, first + r * SLOTS + t * U, f);
    }
  }
  template <int PART, int U, int STEP, class F>
  __device__ __forceinline__ void each_together(int first, const F &f) const {
    enum { LANES_LOG2 = log2_of(16 / SIZE / U), VECTORS = 32 >> LANES_LOG2, SLOTS = 32 * U };
    enum { PAIRS = SIZE == 2 && U == 2, DOWN = PAIRS && STEP < 0 ? SIZE : 0 };
    const int t = (int)threadIdx.x % 32, byte = (t & ((1 << LANES_LOG2) - 1)) * U * SIZE;
#pragma unroll 1
    for (int r = 0; r < PART / SLOTS; r += 8) {
      const int v = (t >> LANES_LOG2) + r * VECTORS, where = spread_vector(v) * 16 + byte;
      const int slot = first + r * SLOTS + t * U, line = slot >> slots_log2;
      const int x = slot - (line << slots_log2), odd = PAIRS ? is_odd(line) : 0;
      const int left = line < lines ? length - x + odd : -2 * SCAN_CHUNK;
      char *place = at + line * line_bytes + (x - odd) * STEP - DOWN;
#pragma unroll
      for (int i = 0; i < 8; ++i)
        f((where ^ (i * VECTORS / 8 & 7) * 16) + i * VECTORS * 16, place + i * SLOTS * STEP,
          x + i * SLOTS, left - i * SLOTS, odd);
    }
  }
  template <int PAIRS, class F>
  __device__ __forceinline__ void one(int where, int slot, const F &f) const {
    const int line = slot >> slots_log2, x = slot - (line << slots_log2);
    const int odd = PAIRS ? is_odd(line) : 0, down = PAIRS && back ? 1 : 0;
    f(where, at + line * line_bytes + ((back ? odd - x : x - odd) - down) * SIZE, x,
      line < lines ? length - x + odd : -2 * SCAN_CHUNK, odd);
  }
};

/* A warp's part of a tile in copies of UNIT bytes, which begin at multiples of those: U elements or
 * what lies in their place beside the line, but nothing behind the input's end, where one copy of
 * all is cut short. A line of pairs that begins with half of one may need one more than half its
 * slots. */
template <int UNIT, int PART, int SIZE>
GPURED__DEV void stream_copy(const line_scan &a, const stream_lines<SIZE> &l, int first, char *to) {
  enum { PAIRS = SIZE == 2 && UNIT == 4 };
  int cut = -1;
  const auto copy = [&](int where, char *place, int, int left, int) {
    const bool whole = UNIT == SIZE || place + UNIT <= a.j.end;
    copy_if<UNIT>(left > 0 && whole, to + where, place);
    if (UNIT > SIZE) cut = left > 0 && !whole ? where : cut;
  };
  l.template each<PART, UNIT / SIZE>(first, copy);
  if (PAIRS && threadIdx.x % 32 == 0 && l.slots_log2 == 31)
    l.template one<PAIRS>(PART * SIZE, first + PART, copy);
  if (UNIT > SIZE && cut >= 0) {
    const char *from = (const char *)((uintptr_t)(a.j.end - 1) & ~(uintptr_t)(UNIT - 1));
    for (int i = 0; from + i < a.j.end; ++i) to[cut + i] = from[i];
  }
}

template <int A, int D>
GPURED__DEV void stream_load_turned(const line_scan &a, const tile_map &map, int first, char *to) {
  enum { SIZE = stored<D>::SIZE, PART = stream<A, D>::PART };
  const stream_lines<SIZE> l(a, map, GPURED__IN);
  if (a.aligned_in)
    stream_copy<16, PART>(a, l, first, to);
  else
    stream_copy<SIZE == 2 ? 4 : SIZE, PART>(a, l, first, to);
}

/* How words make one of two elements in order, in group t of the 32 that begin at `slot`: from a
 * word and the next one, and back from the one before and a word. */
GPURED__DEV unsigned stream_halves(const stream_lines<2> &l, int slot, bool out) {
  const bool odd = l.is_odd(slot + (int)threadIdx.x % 32 * GPURED__LANES >> l.slots_log2);
  if (out) return l.back ? (odd ? 0x3254u : 0x5476u) : odd ? 0x5432u : 0x7654u;
  return l.back ? (odd ? 0x7610u : 0x1032u) : odd ? 0x5432u : 0x3210u;
}
template <bool TURNED, int D>
GPURED__DEV unsigned stream_halves_in(const line_scan &a, const tile_map &map, int slot) {
  if (!TURNED || stored<D>::SIZE != 2 || a.aligned_in) return 0;
  return stream_halves(stream_lines<2>(a, map, GPURED__IN), slot, false);
}

/* A warp's part of a tile; `first`: its first element. */
template <int A, int D, bool TURNED>
GPURED__DEV void stream_load(const line_scan &a, const tile_map &map, int first, char *to) {
  enum { SIZE = stored<D>::SIZE, PER = 16 / SIZE, PART = stream<A, D>::PART };
  if (TURNED) {
    stream_load_turned<A, D>(a, map, first, to);
    return;
  }
  const int t = (int)threadIdx.x % 32, count = stream_count(a, map, first, PART);
  const char *from = a.j.in + (stream_place(a, map, GPURED__IN) + first) * SIZE;
  if (count == PART) {
#pragma unroll
    for (int i = 0; i < PART / PER / 32; ++i)
      copy_16_last(to + side_by_side(t, i), from + t * 16 + i * 512);
    return;
  }
#pragma unroll 1
  for (int v = t; v * PER < count; v += 32) {
    char *at = to + spread_vector(v) * 16;
    if ((v + 1) * PER <= count)
      copy_16(at, from + v * 16);
    else
#pragma unroll 1
      for (int i = 0; i < (count - v * PER) * SIZE; ++i) at[i] = from[v * 16 + i];
  }
}

/* A warp's part of the tile that comes STREAM_AHEAD bytes after the one with this number. */
template <int A, int D, bool TURNED>
GPURED__DEV void stream_ahead(const line_scan &a, unsigned number, int first) {
  typedef stream<A, D> form;
  const unsigned next = number + STREAM_AHEAD / (SCAN_CHUNK * form::SIZE);
  if (next >= (unsigned)a.tiles || threadIdx.x % 32) return;
  const tile_map map = stream_map(a, next);
  int bytes = stream_count(a, map, first, form::PART) * form::SIZE;
  const char *from = a.j.in + (stream_place(a, map, GPURED__IN) + first) * form::SIZE;
  if (TURNED) { /* what lies between borders of 16 bytes */
    const stream_lines<form::SIZE> l(a, map, GPURED__IN);
    from = l.back ? l.at - first * form::SIZE - (bytes - form::SIZE) : l.at + first * form::SIZE;
    bytes -= (int)(-(uintptr_t)from & 15);
    from = border_before(from + 15);
  }
  bytes &= ~15;
  if (bytes > 0) copy_later(from, (unsigned)bytes);
}

/* Group t of 32 groups, as stored. */
template <int SIZE>
GPURED__DEV void stream_read_group(const char *from, uint4 *q) {
  const int t = (int)threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < SIZE; ++i) q[i] = *(const uint4 *)(from + of_group<SIZE>(t, i));
}
/* The same of pairs whose halves are not in order. */
GPURED__DEV void stream_read_pairs(const char *from, unsigned halves, uint4 *q) {
  uint32_t word[9];
  stream_read_group<2>(from, q);
  memcpy(word, q, 32);
  word[8] = *(const uint32_t *)(from + of_group<2>((int)threadIdx.x % 32 + 1, 0));
#pragma unroll
  for (int i = 0; i < 8; ++i) word[i] = __byte_perm(word[i], word[i + 1], halves);
  memcpy(q, word, 32);
}
/* To H_0. */
template <int A, int K, int D, bool TURNED>
GPURED__DEV void stream_group(const line_scan &a, const char *from, unsigned halves,
                              typename acc<A>::T *x) {
  typedef typename acc<A>::T T;
  enum { SIZE = stored<D>::SIZE, PER = 16 / SIZE };
  uint4 q[SIZE];
  if (TURNED && SIZE == 2 && !a.aligned_in)
    stream_read_pairs(from, halves, q);
  else
    stream_read_group<SIZE>(from, q);
#pragma unroll
  for (int i = 0; i < SIZE; ++i) unpack<D, T, PER>(q[i], x + i * PER, 0);
#pragma unroll
  for (int i = 0; i < GPURED__LANES; ++i) flip_element<K>(&x[i], a.j);
  doubling<K, T, 1>::scan(x);
}

template <int SIZE, class S>
GPURED__DEV void stream_write_group(char *to, const S *x) {
  const int t = (int)threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < SIZE; ++i) {
    uint4 q;
    memcpy(&q, (const char *)x + i * 16, 16);
    *(uint4 *)(to + of_group<SIZE>(t, i)) = q;
  }
}

/* Places in groups: 16 unless a line is shorter. */
struct stream_places {
  int one, two; /* of a thread's group, of 256 elements t % 16 */
  __device__ __forceinline__ explicit stream_places(const line_scan &a) {
    const int t = (int)threadIdx.x % 32, slots = a.lines_log2 < 0 ? 256 : 256 >> a.lines_log2;
    one = t & 15 & (slots - 1);
    two = slots >= 16 ? t & 15 & ((slots >> 4) - 1) : 0;
  }
};

/* part: of the team's tile; its first group's number is `first` / 16. */
template <int A, int K, int D, bool TURNED>
GPURED__DEV void stream_scan(const line_scan &a, char *part, int first, int team,
                             stream_team<typename acc<A>::T> *meeting, stream_tile<A, D> *s) {
  typedef typename acc<A>::T T;
  typedef stream<A, D> form;
  const int t = (int)threadIdx.x % 32;
  const stream_places place(a);
  T own;
  set_neutral<K>(&own);
#pragma unroll
  for (int c = 0; c < form::GROUPS; ++c) {
    T v[GPURED__LANES];
    stream_group<A, K, D, TURNED>(a, part + c * 512 * form::SIZE,
                                  stream_halves_in<TURNED, D>(a, s->map, first + c * 512), v);
    if (form::KEEPS) stream_write_group<form::SIZE>(part + c * 512 * form::SIZE, v);
    s->h1[c] = scan_across<K>(v[GPURED__LANES - 1], place.one);
    const T x = __shfl_sync(0xffffffffu, s->h1[c], (t & 1) * 16 + 15);
    if ((t & 15) >> 1 == c + first / 512) own = x;
  }
  if (form::TEAM > 1) {
    if (t < 16 && t / (16 / form::TEAM) == first / form::PART) meeting->total[t] = own;
    stream_meet(team);
    own = meeting->total[t % 16];
  }
  s->h2 = scan_across<K>(own, place.two);
}

/* Where a line shows its values: totals of tiles, of groups of 16 tiles and so on, and what comes
 * before each group of tiles. */
template <class T>
GPURED__DEV unsigned long long *stream_state(const line_scan &a, int64_t line) {
  return a.state + line * a.line_values * (int)(sizeof(T) / 4);
}

/* A tile needs the totals of the tiles before it in its group, threads 0 to 14, and what comes
 * before the group, thread 15. They are asked for long before they are needed. */
template <class T>
struct stream_back {
  const unsigned long long *state;
  int64_t at;
  T x;
  bool missing;

  __device__ __forceinline__ void ask() {
    if (missing) missing = !look(state, at, &x);
  }
  template <int K>
  __device__ __forceinline__ void begin(const line_scan &a, const tile_map &map) {
    const int t = (int)threadIdx.x % 32, chunk = (int)(map.from / SCAN_CHUNK), group = chunk / 16;
    state = stream_state<T>(a, map.line);
    at = t == 15 ? a.prefix_at + group : a.level_at[0] + group * 16 + t;
    missing = t == 15 ? group > 0 : t < (chunk & 15);
    set_neutral<K>(&x);
    ask();
  }
  /* E_3 of the tile. */
  template <int K>
  __device__ __forceinline__ T prefix(const tile_map &map) {
    const int place = (int)(map.from / SCAN_CHUNK) & 15;
    T e, left;
    while (__any_sync(0xffffffffu, missing)) ask();
    e = __shfl_sync(0xffffffffu, x, 15);
    left =
        __shfl_sync(0xffffffffu, scan_across<K>(x, (int)threadIdx.x % 16), place ? place - 1 : 0);
    return place ? combined<K>(e, left) : e;
  }
};

/*
 * One warp of each block serves the others: for every group of 16 tiles it makes what comes before
 * it, from the totals of the group in front and of what lies farther back, and shows on the way the
 * totals that become complete. A thread has value t % 16 of the levels t / 16 + 1, + 3, ...
 */
template <int K, class T>
struct stream_service {
  unsigned long long *state;
  int group, ends; /* the levels up to `ends` become complete with the group in front */
  T x[STREAM_ROUNDS];
  bool missing[STREAM_ROUNDS];

  __device__ __forceinline__ int place(int level) const { return group >> 4 * (level - 1) & 15; }
  __device__ __forceinline__ bool ask(const line_scan &a, int r) {
    const int t = (int)threadIdx.x % 32, level = 2 * r + t / 16 + 1,
              here = group >> 4 * (level - 1);
    return look(state, a.level_at[level] + (level <= ends ? here - 16 : here & ~15) + t % 16,
                &x[r]);
  }
  __device__ __forceinline__ void begin(const line_scan &a) {
    const int t = (int)threadIdx.x % 32;
    bool seen[STREAM_ROUNDS];
#pragma unroll
    for (int r = 0; r < STREAM_ROUNDS; ++r) {
      const int level = 2 * r + t / 16 + 1;
      const int most = level <= ends ? 15 : place(level) - (level == ends + 1);
      set_neutral<K>(&x[r]);
      missing[r] = level < a.levels && t % 16 < most;
      seen[r] = missing[r] && ask(a, r);
    }
#pragma unroll
    for (int r = 0; r < STREAM_ROUNDS; ++r) missing[r] = missing[r] && !seen[r];
  }
  /* Until the values of a level are there. */
  __device__ __forceinline__ void wait(const line_scan &a, int level) {
    const int r = (level - 1) / 2;
    const bool mine = (int)threadIdx.x % 32 / 16 == (level - 1) % 2;
    while (__any_sync(0xffffffffu, mine && missing[r])) missing[r] = missing[r] && !ask(a, r);
  }
  /* The total of the group in front. */
  __device__ __forceinline__ T front(const line_scan &a) const {
    const int p = (int)threadIdx.x % 16;
    T y;
    while (__any_sync(0xffffffffu, !look(state, a.level_at[0] + (group - 1) * 16 + p, &y)))
      continue;
    return __shfl_sync(0xffffffffu, scan_across<K>(y, p), 15);
  }
  /* A total is shown before what is not needed for it is waited for: others wait for the total. */
  __device__ __forceinline__ void run(const line_scan &a) {
    const int t = (int)threadIdx.x % 32, p = t % 16;
    T carry, e;
    for (ends = 0; place(ends + 1) == 0;) ++ends;
    begin(a);
    carry = front(a);
    if (t == 0) show(state, a.level_at[1] + group - 1, carry);
#pragma unroll
    for (int level = 1; level < 2 * STREAM_ROUNDS; ++level) {
      if (level > ends) break;
      wait(a, level);
      const T y = scan_across<K>(p == 15 ? carry : x[(level - 1) / 2], p);
      carry = __shfl_sync(0xffffffffu, y, (level - 1) % 2 * 16 + 15);
      if (t == 0) show(state, a.level_at[level + 1] + (group >> 4 * level) - 1, carry);
    }
    set_neutral<K>(&e);
#pragma unroll
    for (int level = 2 * STREAM_ROUNDS; level >= 1; --level) {
      if (level >= a.levels || level <= ends || place(level) == 0) continue;
      wait(a, level);
      T y = x[(level - 1) / 2];
      if (level == ends + 1 && p == place(level) - 1) y = carry;
      y = scan_across<K>(y, p);
      e = combined<K>(e, __shfl_sync(0xffffffffu, y, (level - 1) % 2 * 16 + place(level) - 1));
    }
    if (t == 0) show(state, a.prefix_at + group, e);
  }
};

template <int K, class T>
GPURED__DEV void stream_serve(const line_scan &a) {
  const unsigned groups = (unsigned)((a.line_tiles + 15) / 16);
  const unsigned all = groups > 1 ? groups * (unsigned)a.j.outputs : 0;
  for (;;) {
    stream_service<K, T> s;
    unsigned number = 0;
    if (threadIdx.x % 32 == 0) number = atomicAdd((unsigned *)a.state + 1, 1u);
    number = __shfl_sync(0xffffffffu, number, 0);
    if (number >= all) return;
    s.state = stream_state<T>(a, number / groups);
    s.group = (int)(number % groups);
    if (s.group > 0) s.run(a);
  }
}

/*
 * Exclusive results: the last result of a part of a tile is the first of the next one, which may be
 * another warp's. It is shown before the part is stored; who needs it stores all but that one and
 * asks for it later: a warp alone while its next copies are under way, one of a team, half of which
 * have the answer by then, at once.
 */
template <int A, int K, int D>
struct stream_first {
  typedef typename acc<A>::T T;
  int64_t at; /* negative: nothing is waited for */
  char *to;

  __device__ __forceinline__ bool ask(const line_scan &a) {
    T x;
    if (at < 0) return true;
    if (!look(a.state, at, &x)) return false;
    flip_element<K>(&x, a.j);
    store_any(to, D, x);
    at = -1;
    return true;
  }
  __device__ __forceinline__ void end(const line_scan &a) {
    while (!ask(a)) continue;
  }
  /* Does a line go on at this element of the tile? */
  __device__ __forceinline__ static bool inside(const line_scan &a, const tile_map &map, int e) {
    const int64_t x = a.lines_log2 < 0 ? map.from + e : e & ((SCAN_CHUNK >> a.lines_log2) - 1);
    return x > 0 && x < a.j.n;
  }
  __device__ __forceinline__ void begin(const line_scan &a, const stream_tile<A, D> &s, int first,
                                        char *out, T last) {
    enum { TEAM = stream<A, D>::TEAM, PART = stream<A, D>::PART };
    const int64_t part = a.last_at + (int64_t)s.number * TEAM + first / PART;
    if (threadIdx.x % 32 == 31 && inside(a, s.map, first + PART)) show(a.state, part, last);
    if (threadIdx.x % 32 == 0 && inside(a, s.map, first)) {
      end(a);
      at = part - 1;
      to = out;
    }
  }
};

/* Results move up by one place: `y` is a thread's, of neighbouring elements; `turned` what came of
 * the last thread before. */
template <int N, class T>
GPURED__DEV void stream_shift(T *y, T *turned) {
  const int t = (int)threadIdx.x % 32;
  const T left = __shfl_sync(0xffffffffu, y[N - 1], (t + 31) % 32), first = t ? left : *turned;
  *turned = left;
#pragma unroll
  for (int i = N - 1; i > 0; --i) y[i] = y[i - 1];
  y[0] = first;
}

/* A vector of results, of which `left` elements exist, without the first if `skip`. */
template <int SIZE>
GPURED__DEV void stream_put(const char *raw, char *to, int left, bool skip) {
  if (left * SIZE >= 16 && !skip)
    __stcs((uint4 *)to, *(const uint4 *)raw);
  else
#pragma unroll
    for (int i = 0; i < 16 / SIZE; ++i)
      if (i < left && !(skip && i == 0))
        for (int b = 0; b < SIZE; b += SIZE < 4 ? 2 : 4)
          if (SIZE < 4)
            *(uint16_t *)(to + i * SIZE) = *(const uint16_t *)(raw + i * SIZE);
          else
            *(uint32_t *)(to + i * SIZE + b) = *(const uint32_t *)(raw + i * SIZE + b);
}

/* The next tile; also where tiles do not wait, since some processors are slower. One thread of a
 * team asks, later all have it. Others wait for whoever has a ticket, so it is asked for when the
 * place for its tile is almost free: before the last groups of the tile there are stored. */
GPURED__DEV unsigned stream_ticket(const line_scan &a, bool asks) {
  return asks ? atomicAdd((unsigned *)a.state, 1u) : 0;
}

template <int A, int D>
struct stream_out {
  typedef typename stored<D>::S S;
  char *to;    /* of the thread's first vector */
  int count;   /* elements from there */
  S nothing;   /* an exclusive line's first result */
  int slot;    /* elements of a line - 1, if several share the tile */
  bool begins; /* the part begins inside a line: its first result comes from elsewhere */
  bool asks;   /* for the next ticket */
};

/* The results of a warp's part whose elements are H_0 in shared memory. */
template <int A, int K, int D, bool EXCLUSIVE>
GPURED__DEV unsigned stream_store_kept(const line_scan &a, const char *part, int first,
                                       const typename acc<A>::T *e1, const stream_out<A, D> &o) {
  typedef typename acc<A>::T T;
  typedef stream<A, D> form;
  enum { V = 16 / sizeof(T), EACH = 512 / V / 32 };
  const int t = (int)threadIdx.x % 32;
  unsigned ticket = 0;
  T turned;
  set_neutral<K>(&turned);
#pragma unroll
  for (int c = 0; c < form::GROUPS; ++c) {
    if (c == form::ASKS) ticket = stream_ticket(a, o.asks);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int at = (c * EACH + i) * 32 * V;
      const T e = __shfl_sync(0xffffffffu, e1[c], i * (32 / EACH) + t / EACH);
      __align__(16) T y[V];
      *(uint4 *)y = *(const uint4 *)(part + side_by_side(t, c * EACH + i));
#pragma unroll
      for (int k = 0; k < V; ++k) y[k] = combined<K>(e, y[k]);
      if (EXCLUSIVE) stream_shift<V>(y, &turned);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        flip_element<K>(&y[k], a.j);
        y[k] = canonical(y[k]);
      }
      const bool starts = EXCLUSIVE && ((first + at + t * V) & o.slot) == 0;
      if (starts) memcpy(&y[0], &o.nothing, sizeof(T));
      stream_put<sizeof(T)>((const char *)y, o.to + at * (int)sizeof(T), o.count - at,
                            EXCLUSIVE && c == 0 && i == 0 && t == 0 && o.begins);
    }
  }
  return ticket;
}

/* x[c], also where c is not known. */
template <int N, class T>
GPURED__DEV T one_of(const T *x, int c) {
  T y = x[0];
#pragma unroll
  for (int i = 1; i < N; ++i)
    if (c == i) y = x[i];
  return y;
}

/* A group's pairs in order to what memory has in their place, which may begin with the second half
 * of the last pair of the thread before. */
GPURED__DEV void stream_turn_pairs(uint32_t *word, unsigned halves, uint32_t *before) {
  const int t = (int)threadIdx.x % 32;
  const uint32_t left = __shfl_sync(0xffffffffu, word[7], (t + 31) % 32);
  const uint32_t first = t ? left : *before;
  *before = left;
#pragma unroll
  for (int i = 7; i > 0; --i) word[i] = __byte_perm(word[i - 1], word[i], halves);
  word[0] = __byte_perm(first, word[0], halves);
}

/* The results of chunk c of a part in the place of its elements, which are scanned again unless
 * they are H_0. */
template <int A, int K, int D, bool EXCLUSIVE, bool TURNED>
GPURED__DEV void stream_results(const line_scan &a, char *at, int c, unsigned halves, int first,
                                const typename acc<A>::T *e1, const stream_out<A, D> &o,
                                typename acc<A>::T *turned, unsigned halves_out,
                                uint32_t *word_before) {
  typedef typename acc<A>::T T;
  typedef typename stored<D>::S S;
  typedef stream<A, D> form;
  enum { SIZE = form::SIZE };
  const int t = (int)threadIdx.x % 32;
  const T e = one_of<form::GROUPS>(e1, c);
  __align__(16) T y[GPURED__LANES];
  __align__(16) S raw[GPURED__LANES];
  if (form::KEEPS)
    stream_read_group<SIZE>(at, (uint4 *)y);
  else
    stream_group<A, K, D, TURNED>(a, at, halves, y);
  if (TURNED && SIZE == 2) __syncwarp(); /* a thread reads a word of the next one's group too */
#pragma unroll
  for (int i = 0; i < GPURED__LANES; ++i) y[i] = combined<K>(e, y[i]);
  const bool exclusive = EXCLUSIVE && (!TURNED || a.exclusive);
  if (exclusive) stream_shift<GPURED__LANES>(y, turned);
#pragma unroll
  for (int i = 0; i < GPURED__LANES; ++i) flip_element<K>(&y[i], a.j);
  pack_values<D, GPURED__LANES>(y, raw);
  if (exclusive && ((first + c * 512 + t * GPURED__LANES) & o.slot) == 0) raw[0] = o.nothing;
  if (TURNED && SIZE == 2 && !a.aligned_out)
    stream_turn_pairs((uint32_t *)raw, halves_out, word_before);
  stream_write_group<SIZE>(at, raw);
}

/* The same for narrow elements: scanned again, turned round in shared memory. */
template <int A, int K, int D, bool EXCLUSIVE>
GPURED__DEV unsigned stream_store_again(const line_scan &a, char *part,
                                        const typename acc<A>::T *e1, const stream_out<A, D> &o) {
  typedef typename acc<A>::T T;
  typedef stream<A, D> form;
  enum { SIZE = form::SIZE, V = 16 / SIZE };
  const int t = (int)threadIdx.x % 32;
  unsigned ticket = 0;
  T turned;
  set_neutral<K>(&turned);
#pragma unroll 1
  for (int c = 0; c < form::GROUPS; ++c) {
    char *at = part + c * 512 * SIZE;
    if (c == form::ASKS) ticket = stream_ticket(a, o.asks);
    stream_results<A, K, D, EXCLUSIVE, false>(a, at, c, 0, 0, e1, o, &turned, 0, NULL);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < SIZE; ++i) {
      const uint4 q = *(const uint4 *)(at + side_by_side(t, i));
      const int place = c * 512 + i * 32 * V;
      stream_put<SIZE>((const char *)&q, o.to + place * SIZE, o.count - place,
                       EXCLUSIVE && c == 0 && i == 0 && t == 0 && o.begins);
    }
  }
  return ticket;
}

/* One or both of a pair of results. `first`: is its first element one of this part? */
GPURED__DEV void stream_put_pair(uint32_t word, char *pair, bool back, bool first, bool second) {
  if (first && second)
    __stcs((uint32_t *)pair, word);
  else if (first || second)
    *(uint16_t *)(pair + (first == back ? 2 : 0)) = (uint16_t)(word >> (first == back ? 16 : 0));
}
template <int PART>
GPURED__DEV void stream_pairs_out(const stream_lines<2> &l, int first, const char *part) {
  const auto put = [&](int where, char *pair, int x, int left, int odd) {
    stream_put_pair(*(const uint32_t *)(part + where), pair, l.back, left > 0 && !(x == 0 && odd),
                    left > 1);
  };
  l.template each<PART, 2>(first, put);
  if (threadIdx.x % 32 == 0 && l.slots_log2 == 31)
    l.one<1>(PART * 2, first + PART, [&](int where, char *pair, int x, int left, int odd) {
      put(where, pair, x, odd ? min(left, 1) : 0, odd);
    });
}

/* The results of a tile that is TURNED, in its elements' place, to memory. */
template <int A, int D>
GPURED__DEV void stream_copy_out(const line_scan &a, const tile_map &map, int first,
                                 const char *part) {
  typedef typename stored<D>::S S;
  enum { SIZE = stored<D>::SIZE, V = 16 / SIZE, PART = stream<A, D>::PART };
  const stream_lines<SIZE> l(a, map, GPURED__OUT);
  if (a.aligned_out)
    l.template each<PART, V>(first, [&](int where, char *place, int, int left, int) {
      stream_put<SIZE>(part + where, place, left, false);
    });
  else if (SIZE == 2)
    stream_pairs_out<PART>(stream_lines<2>(a, map, GPURED__OUT), first, part);
  else
    l.template each<PART, 1>(first, [&](int where, char *place, int, int left, int) {
      if (left > 0) __stcs((S *)place, *(const S *)(part + where));
    });
}

/* An exclusive part that begins inside a line stores any value in its first place: the thread that
 * does is the one that stores the right one later. */
template <int A, int K, int D>
GPURED__DEV unsigned stream_store_turned(const line_scan &a, const tile_map &map, char *part,
                                         int first, const typename acc<A>::T *e1,
                                         const stream_out<A, D> &o) {
  typedef typename acc<A>::T T;
  typedef stream<A, D> form;
  unsigned in = 0, out = 0;
  uint32_t word = 0;
  T turned;
  set_neutral<K>(&turned);
#pragma unroll 1
  for (int c = 0; c < form::GROUPS; ++c) {
    const int slot = first + c * 512;
    if (form::SIZE == 2) {
      in = stream_halves_in<true, D>(a, map, slot);
      if (!a.aligned_out) out = stream_halves(stream_lines<2>(a, map, GPURED__OUT), slot, true);
    }
    stream_results<A, K, D, true, true>(a, part + c * 512 * form::SIZE, c, in, first, e1, o,
                                        &turned, out, &word);
  }
  /* the last thread's last pair: half of it may be behind the slots */
  if (form::SIZE == 2 && threadIdx.x % 32 == 0)
    *(uint32_t *)(part + form::PART_BYTES) = __byte_perm(word, 0, out);
  const unsigned ticket = stream_ticket(a, o.asks);
  __syncwarp();
  stream_copy_out<A, D>(a, map, first, part);
  return ticket;
}

template <int A, int K, int D, bool EXCLUSIVE, bool TURNED>
GPURED__DEV unsigned stream_store(const line_scan &a, char *part, int first,
                                  const stream_tile<A, D> &s, typename acc<A>::T e3, bool asks,
                                  stream_first<A, K, D> *other) {
  typedef typename acc<A>::T T;
  typedef stream<A, D> form;
  enum { V = 16 / form::SIZE, GROUPS = form::GROUPS };
  const int t = (int)threadIdx.x % 32;
  const stream_places place(a);
  const T left2 = from_above(s.h2, 1), e2 = place.two ? combined<K>(e3, left2) : e3;
  const bool back = TURNED && a.out_stride < 0;
  char *to =
      a.j.out +
      (stream_line(a, s.map, GPURED__OUT) + (back ? -1 : 1) * (s.map.from + first)) * form::SIZE;
  stream_out<A, D> o;
  T e1[GROUPS];
#pragma unroll
  for (int c = 0; c < GROUPS; ++c) {
    const T left1 = from_above(s.h1[c], 1);
    e1[c] = __shfl_sync(0xffffffffu, e2, first / 256 + c * 2 + t / 16);
    if (place.one) e1[c] = combined<K>(e1[c], left1);
  }
  o.asks = asks;
  o.to = to + t * 16;
  o.count = stream_count(a, s.map, first, form::PART) - t * V;
  if (EXCLUSIVE && (!TURNED || a.exclusive)) {
    T last[GPURED__LANES];
    o.slot =
        a.lines_log2 < 0 ? (s.map.from ? ~0 : SCAN_CHUNK - 1) : (SCAN_CHUNK >> a.lines_log2) - 1;
    o.begins = other->inside(a, s.map, first);
    o.nothing = nothing_stored<typename stored<D>::S>(a, T());
    if (form::KEEPS) {
      const int at = (GROUPS - 1) * 512 * form::SIZE + of_group<form::SIZE>(31, form::SIZE - 1);
      last[GPURED__LANES - 1] = *(const T *)(part + at + 16 - sizeof(T));
    } else {
      stream_group<A, K, D, TURNED>(a, part + (GROUPS - 1) * 512 * form::SIZE,
                                    stream_halves_in<TURNED, D>(a, s.map, (GROUPS - 1) * 512),
                                    last);
    }
    other->begin(a, s, first, to, combined<K>(e1[GROUPS - 1], last[GPURED__LANES - 1]));
    __syncwarp();
  }
  const unsigned ticket = TURNED ? stream_store_turned<A, K, D>(a, s.map, part, first, e1, o)
                          : form::KEEPS
                              ? stream_store_kept<A, K, D, EXCLUSIVE>(a, part, first, e1, o)
                              : stream_store_again<A, K, D, EXCLUSIVE>(a, part, e1, o);
  if (EXCLUSIVE && form::TEAM > 1) other->ask(a); /* for nothing unless something is pending */
  return ticket;
}

template <int TEAM, class T>
GPURED__DEV unsigned stream_number(unsigned ticket, bool asks, int team, stream_team<T> *meeting) {
  if (TEAM == 1) return __shfl_sync(0xffffffffu, ticket, 0);
  if (asks) meeting->ticket = ticket;
  stream_meet(team);
  return meeting->ticket;
}

template <int A, int K, int D, bool TURNED>
static __global__ void __launch_bounds__(stream<A, D>::WARPS * 32 + 32, 1)
    scan_stream(const line_scan a) {
  typedef typename acc<A>::T T;
  typedef stream<A, D> form;
  enum { TILE = stream_bytes(form::SIZE, TURNED) };
  extern __shared__ __align__(128) char space[];
  __shared__ stream_team<T> teams[form::TEAM > 1 ? form::TEAMS : 1];
  const int wi = (int)threadIdx.x / 32, team = wi / form::TEAM;
  const int first = wi % form::TEAM * form::PART;
  const bool meets = a.lines_log2 < 0, waits_long = meets && a.line_tiles > 16;
  const bool asks = threadIdx.x % (form::TEAM * 32) == 0;
  const unsigned tiles = (unsigned)a.tiles;
  stream_team<T> *meeting = &teams[form::TEAM > 1 ? team : 0];
  char *now = space + team * 2 * TILE + first * form::SIZE, *other = now + TILE;
  bool waits = false; /* a tile in `other` */
  stream_tile<A, D> here, there;
  stream_back<T> back;
  stream_first<A, K, D> pending;
  if (wi == (int)blockDim.x / 32 - 1) {
    clear_used(a, (int)threadIdx.x % 32, 32);
    if (meets) stream_serve<K, T>(a);
    return;
  }
  pending.at = -1;
  here.number = stream_number<form::TEAM>(stream_ticket(a, asks), asks, team, meeting);
  here.map = stream_map(a, here.number);
  there = here;
  if (here.number < tiles) {
    stream_load<A, D, TURNED>(a, here.map, first, now);
    if (waits_long) stream_ahead<A, D, TURNED>(a, here.number, first);
  }
  while (here.number < tiles || waits) {
    const bool reads = here.number < tiles;
    unsigned ticket;
    T e;
    if (waits && meets) back.template begin<K>(a, there.map);
    if (a.exclusive && form::TEAM == 1) pending.ask(a);
    if (reads) {
      copies_wait();
      __syncwarp();
      stream_scan<A, K, D, TURNED>(a, now, first, team, meeting, &here);
      delay(here.number);
      const T total = __shfl_sync(0xffffffffu, here.h2, 15);
      if (meets && asks)
        show(stream_state<T>(a, here.map.line), a.level_at[0] + here.map.from / SCAN_CHUNK, total);
      __syncwarp();
    }
    set_neutral<K>(&e);
    if (waits && meets) e = back.template prefix<K>(there.map);
    if (!waits)
      ticket = stream_ticket(a, asks);
    else if (TURNED || a.exclusive)
      ticket =
          stream_store<A, K, D, true, TURNED>(a, other, first, there, e, asks && reads, &pending);
    else
      ticket =
          stream_store<A, K, D, false, TURNED>(a, other, first, there, e, asks && reads, &pending);
    waits = reads;
    if (!reads) break;
    char *free = other;
    other = now;
    now = free;
    there = here;
    here.number = stream_number<form::TEAM>(ticket, asks, team, meeting);
    here.map = stream_map(a, here.number);
    __syncwarp();
    if (here.number >= tiles) continue;
    stream_load<A, D, TURNED>(a, here.map, first, now);
    if (waits_long) stream_ahead<A, D, TURNED>(a, here.number, first);
  }
  pending.end(a);
}

/* ---- Lines that lie side by side ---- */
/*
 * A tile is 256 elements of 32 neighbouring lines: warp w has their groups 2 w and 2 w + 1 of 16
 * elements, thread t those of line t, in registers. Tiles are numbered across the lines first, so
 * where there are many lines the tiles that a tile asks for were taken long before it. Where fewer
 * than 17 lines lie side by side, a tile is 16, 8, 4 or 2 wide, and the 32 threads of each warp
 * have those of 2, 4, 8 or 16 tiles that follow each other along the lines. This is for any types
 * and widths; wide lines of one dtype have the kernels of the part below.
 *
 * Of few lines side by side a warp would read a few bytes here and a few bytes there. If all that a
 * block of threads has is one piece of memory, it passes through shared memory, both ways.
 */
enum { BESIDE_WARPS = 8, BESIDE_ROWS = 256, BESIDE_MINE = 32, BESIDE_LEVELS = 5 };
enum { BESIDE_THREADS = BESIDE_WARPS * 32, BESIDE_TINY = GPURED__LANES };

/* Shared memory: the groups' own totals and H_1 of them; of each level the values seen, and the one
 * that counts. */
template <class E>
struct beside_space {
  E total[GPURED__LANES][32], h1[GPURED__LANES][32];
  E seen[BESIDE_LEVELS][GPURED__LANES][32], left[BESIDE_LEVELS][32];
};

/* Where a thread is: its line, the first of its elements, and its part of the line's state. */
struct beside_place {
  int64_t outer, line, row, width;
  int64_t words, last;   /* in the state: the line's first value; the tile's last result */
  int tile, unit, inner; /* its first element in a piece of memory: unit, and place in that */
  bool exists;
};

/* What a block of threads has, if it is one piece of memory in both tensors: in elements. */
struct beside_piece {
  int64_t from;
  int count;
};

GPURED__DEV beside_place beside_find(const line_scan &a, int64_t number) {
  const gpured__axis &across = a.j.kept[a.j.kept_count - 1];
  const int64_t strip = number % a.strips, rest = number / a.strips, outer = rest / a.turns;
  const int t = (int)threadIdx.x % 32, deep = t >> a.width_log2, deep_log2 = 5 - a.width_log2;
  const int64_t column = strip * 32 + (t & ((1 << a.width_log2) - 1));
  beside_place p;
  p.outer = outer;
  p.width = across.n;
  p.tile = ((int)(rest - outer * a.turns) << deep_log2) + deep;
  p.row = (int64_t)p.tile * BESIDE_ROWS + threadIdx.x / 32 * BESIDE_MINE;
  p.exists = column < p.width && p.tile < a.line_tiles;
  p.line = outer * p.width + column;
  p.words = outer * a.line_values * p.width + column;
  p.last = a.last_at + (outer * a.line_tiles + p.tile) * p.width + column;
  p.unit = deep;
  p.inner = (int)threadIdx.x / 32 * BESIDE_MINE * (int)a.in_stride + (int)column;
  return p;
}
GPURED__DEV beside_piece beside_piece_of(const line_scan &a, const beside_place &p) {
  const int64_t first = (int64_t)(p.tile & -(32 >> a.width_log2)) * BESIDE_ROWS;
  const int64_t rows = min((int64_t)BESIDE_ROWS << (5 - a.width_log2), a.j.n - first);
  beside_piece b = {(p.outer * a.j.n + first) * p.width, (int)(rows * p.width)};
  return b;
}

/* Line `at` of a block of short ones, from its element `row` on. */
GPURED__DEV beside_place beside_find_short(const line_scan &a, int at, int row) {
  beside_place p;
  memset(&p, 0, sizeof p);
  p.line = (int64_t)blockIdx.x * a.lines + at;
  p.exists = at < a.lines && p.line < a.j.outputs;
  p.row = row;
  if (a.unit) {
    const int width = (int)a.in_stride;
    p.unit = at / width;
    p.inner = row * width + at % width;
  }
  return p;
}
GPURED__DEV beside_piece beside_piece_of(const line_scan &a) {
  const int64_t first = (int64_t)blockIdx.x * a.lines;
  beside_piece b = {first * a.j.n, (int)(min((int64_t)a.lines, a.j.outputs - first) * a.j.n)};
  return b;
}

/* From one unit to the next in shared memory. Where threads that look at neighbouring units would
 * meet the same banks, 16 bytes lie between them. */
__host__ __device__ constexpr bool unit_has_gap(int bytes) { return bytes % 32 == 0; }
GPURED__DEV int unit_bytes(const line_scan &a, int size) {
  return a.unit * size + (unit_has_gap(a.unit * size) ? 16 : 0);
}

/* The 16-groups of a thread in a tensor or in shared memory. */
struct beside_view {
  char *at[2];
  int64_t step;
  int left[2];    /* elements that exist from there on */
  bool begins[2]; /* with the line's first element? */
};
template <bool PIECE>
GPURED__DEV beside_view beside_look(const line_scan &a, const beside_place &p, int operand,
                                    char *stage) {
  const int size = size_of(operand == GPURED__IN ? a.j.in_dtype : a.j.out_dtype);
  const int64_t stride = operand == GPURED__IN ? a.in_stride : a.out_stride;
  beside_view v;
  v.step = stride * size;
  if (PIECE)
    v.at[0] = stage + p.unit * unit_bytes(a, size) + p.inner * size;
  else
    v.at[0] = (operand == GPURED__IN ? (char *)a.j.in : a.j.out) +
              (line_place(a, p.exists ? p.line : 0, operand) + p.row * stride) * size;
  v.at[1] = v.at[0] + GPURED__LANES * v.step;
  v.left[0] = p.exists ? (int)min(a.j.n - p.row, (int64_t)BESIDE_MINE) : 0;
  v.left[1] = v.left[0] - GPURED__LANES;
  v.begins[0] = p.exists && p.row == 0;
  v.begins[1] = false;
  return v;
}
/* One group of each of two lines. */
template <bool PIECE>
GPURED__DEV beside_view beside_look(const line_scan &a, const beside_place *p, int operand,
                                    char *stage) {
  beside_view v = beside_look<PIECE>(a, p[0], operand, stage);
  const beside_view second = beside_look<PIECE>(a, p[1], operand, stage);
  v.at[1] = second.at[0];
  v.left[1] = second.left[0];
  v.begins[1] = second.begins[0];
  return v;
}

/* Copies of n vectors or elements by all threads of a block. */
template <class V, class F>
GPURED__DEV void beside_copy(const V *from, V *to, int n, const F &place, bool back) {
  enum { AT_ONCE = sizeof(V) == 16 ? 4 : 8 };
  V x[AT_ONCE];
#pragma unroll 1
  for (int v = (int)threadIdx.x; v < n; v += AT_ONCE * BESIDE_THREADS) {
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int at = v + i * BESIDE_THREADS;
      if (at < n) x[i] = from[back ? place(at) : at];
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int at = v + i * BESIDE_THREADS;
      if (at < n) to[back ? at : place(at)] = x[i];
    }
  }
}
template <class S>
GPURED__DEV void beside_copy_each(const char *from, char *to, int bytes, unsigned recip,
                                  bool back) {
  enum { PER = 16 / sizeof(S) };
  beside_copy((const S *)from, (S *)to, bytes / (int)sizeof(S),
              [&](int e) { return e + (int)__umulhi((unsigned)e / PER, recip) * PER; }, back);
}
/* A piece of memory to shared memory, or back; recip: 2^32 / vectors of a unit before a gap. */
GPURED__DEV void beside_pass(const char *from, char *to, int bytes, int size, unsigned recip,
                             bool back) {
  const char *memory = back ? to : from;
  __syncthreads();
  if ((uintptr_t)memory % 16 == 0 && bytes % 16 == 0)
    beside_copy((const uint4 *)from, (uint4 *)to, bytes / 16,
                [&](int v) { return v + (int)__umulhi((unsigned)v, recip); }, back);
  else if (size == 8)
    beside_copy_each<uint64_t>(from, to, bytes, recip, back);
  else if (size == 4)
    beside_copy_each<uint32_t>(from, to, bytes, recip, back);
  else if (size == 2)
    beside_copy_each<uint16_t>(from, to, bytes, recip, back);
  else
    beside_copy_each<uint8_t>(from, to, bytes, recip, back);
  __syncthreads();
}
GPURED__DEV void beside_read_piece(const line_scan &a, const beside_piece &b, char *stage) {
  const int size = size_of(a.j.in_dtype);
  beside_pass(a.j.in + b.from * size, stage, b.count * size, size, a.unit_recip[0], false);
}
GPURED__DEV void beside_write_piece(const line_scan &a, const beside_piece &b, char *stage) {
  const int size = size_of(a.j.out_dtype);
  beside_pass(stage, a.j.out + b.from * size, b.count * size, size, a.unit_recip[1], true);
}

/* Which of a thread's 32 elements exist, and where they are. */
GPURED__DEV bool beside_exists(const beside_view &s, int i) {
  return i % GPURED__LANES < s.left[i / GPURED__LANES];
}
GPURED__DEV char *beside_at(const beside_view &s, int i) {
  return s.at[i / GPURED__LANES] + i % GPURED__LANES * s.step;
}

/* The thread's elements, and neutral ones where there are none. */
template <int A, int K, int D, bool READS>
struct beside_load {
  typedef typename scanned<A, K>::E E;
  GPURED__DEV void run(const line_scan &a, const beside_view &s, E *v) {
    typename stored<D>::S raw[BESIDE_MINE];
#pragma unroll
    for (int i = 0; i < BESIDE_MINE; ++i)
      if (beside_exists(s, i)) raw[i] = *(const typename stored<D>::S *)beside_at(s, i);
#pragma unroll
    for (int i = 0; i < BESIDE_MINE; ++i) {
      typename acc<A>::T x;
      set_neutral<K>(&v[i]);
      if (beside_exists(s, i)) {
        widen<D>(raw[i], &x);
        v[i] = scanned<A, K>::enter(x, a.j);
      }
    }
  }
};
template <int A, int K, int D>
struct beside_load<A, K, D, false> {
  GPURED__DEV void run(const line_scan &, const beside_view &, typename scanned<A, K>::E *v) {
#pragma unroll
    for (int i = 0; i < BESIDE_MINE; ++i) set_neutral<K>(&v[i]); /* never */
  }
};

template <int A, int K>
GPURED__DEV void beside_read(const line_scan &a, const beside_view &s,
                             typename scanned<A, K>::E *v) {
  switch (a.j.in_dtype) {
#define GPURED__CASE(D)                                      \
  case D:                                                    \
    beside_load<A, K, D, scan_reads(A, K, D)>::run(a, s, v); \
    break;
    GPURED__EVERY_DTYPE(GPURED__CASE)
#undef GPURED__CASE
  }
}

/* Results; before the first one of an exclusive scan stands the operation's empty one. */
template <int A, int K, int D>
GPURED__DEV void beside_store(const line_scan &a, const beside_view &s,
                              const typename scanned<A, K>::E *y) {
#pragma unroll
  for (int b = 0; b < BESIDE_MINE; b += 4)
    if (beside_exists(s, b))
#pragma unroll
      for (int i = b; i < b + 4; ++i)
        if (beside_exists(s, i)) store_any(beside_at(s, i), D, scanned<A, K>::leave(y[i], a.j));
#pragma unroll
  for (int g = 0; g < 2; ++g)
    if (a.exclusive && s.begins[g]) {
      if (A == GPURED__U64)
        store_any(s.at[g], D, a.empty_integer);
      else
        store_any(s.at[g], D, a.empty_real);
    }
}

template <int A, int K>
GPURED__DEV void beside_write(const line_scan &a, const beside_view &s,
                              const typename scanned<A, K>::E *y) {
  if (A != GPURED__U64) {
    if (a.j.out_dtype == GPURED_F32)
      beside_store<A, K, GPURED_F32>(a, s, y);
    else if (a.j.out_dtype == GPURED_F64)
      beside_store<A, K, GPURED_F64>(a, s, y);
    else if (a.j.out_dtype == GPURED_F16)
      beside_store<A, K, GPURED_F16>(a, s, y);
    else
      beside_store<A, K, GPURED_BF16>(a, s, y);
  } else if (size_of(a.j.out_dtype) == 8) {
    beside_store<A, K, GPURED_U64>(a, s, y);
  } else if (size_of(a.j.out_dtype) == 4) {
    beside_store<A, K, GPURED_U32>(a, s, y);
  } else {
    beside_store<A, K, GPURED_U8>(a, s, y);
  }
}

/* The value that tiles show at `index` of a level. */
GPURED__DEV int64_t beside_word(const line_scan &a, const beside_place &p, int level,
                                int64_t index) {
  return (a.level_at[level] + index) * p.width + p.words;
}

/* Values 0 to 14 of a level in shared memory, and another one, scanned. */
template <int K, class E>
GPURED__DEV void beside_scan(const E (*seen)[32], int t, E last, E *v) {
#pragma unroll
  for (int i = 0; i < GPURED__LANES - 1; ++i) v[i] = seen[i][t];
  v[GPURED__LANES - 1] = last;
  doubling<K, E, 1>::scan(v);
}

/* A tile that ends groups of this level and all below shows the group's total. `up`: that of the
 * level below. */
template <int K, class E>
GPURED__DEV bool beside_publish(const line_scan &a, const beside_place &p, const beside_space<E> *s,
                                int level, E *up) {
  E v[GPURED__LANES];
  if (level + 1 >= a.levels || (p.tile >> 4 * level & 15) != 15) return false;
  beside_scan<K>(s->seen[level], (int)threadIdx.x % 32, *up, v);
  *up = v[15];
  if (p.exists) show(a.state, beside_word(a, p, level + 1, p.tile >> 4 * (level + 1)), *up);
  return true;
}

/* Must a tile ask for this value of a level? Not for those of its own block's tiles. */
GPURED__DEV bool beside_needs(const line_scan &a, const beside_place &p, int level, int index) {
  const int at = level ? p.tile >> 4 * level : p.tile & -(32 >> a.width_log2);
  return level < a.levels && index < (at & 15) && p.exists;
}

/* Asks for the values before the tile, of every level; 1 if some are not there yet. Those of two
 * levels are asked for together: one answer after the other would cost a microsecond more. */
template <int K, class E>
GPURED__DEV int beside_ask(const line_scan &a, const beside_place &p, beside_space<E> *s) {
  const int t = (int)threadIdx.x % 32, w = (int)threadIdx.x / 32;
  int missing = 0;
#pragma unroll 1
  for (int low = 0; low < a.levels; low += 2) {
    E x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int level = low + i / 2, index = w + i % 2 * BESIDE_WARPS;
      set_neutral<K>(&x[i]);
      if (beside_needs(a, p, level, index))
        missing |=
            !look(a.state, beside_word(a, p, level, (p.tile >> 4 * level & ~15) + index), &x[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (low + i / 2 < a.levels) s->seen[low + i / 2][w + i % 2 * BESIDE_WARPS][t] = x[i];
  }
  return missing;
}

/* Waits for those of a level. */
template <class E>
GPURED__DEV void beside_wait(const line_scan &a, const beside_place &p, beside_space<E> *s,
                             int level) {
  const int t = (int)threadIdx.x % 32, w = (int)threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int index = w + i * BESIDE_WARPS;
    if (!beside_needs(a, p, level, index)) continue;
    const int64_t word = beside_word(a, p, level, (p.tile >> 4 * level & ~15) + index);
    E x;
    while (!look(a.state, word, &x)) continue;
    s->seen[level][index][t] = x;
  }
}

/* The totals of the tiles that a block has before this one, which nobody had to ask for. */
template <class E>
GPURED__DEV void beside_share(const line_scan &a, const beside_place &p, beside_space<E> *s,
                              E own) {
  const int t = (int)threadIdx.x % 32, deep = t >> a.width_log2, tiles = 32 >> a.width_log2;
  for (int i = 0; i + 1 < tiles; ++i) {
    const E x = from_thread(own, (t - ((deep - i) << a.width_log2)) & 31, 32);
    if (i < deep) s->seen[0][(p.tile & 15) - deep + i][t] = x;
  }
}

/* E_2 of a tile to every thread. */
template <int K, class E>
GPURED__DEV E beside_prefix(const line_scan &a, const beside_place &p, beside_space<E> *s,
                            int missing) {
  const int t = (int)threadIdx.x % 32, w = (int)threadIdx.x / 32;
  E own, e;
  set_neutral<K>(&own);
  missing = __syncthreads_or(missing); /* totals are there */
  if (w == 0) {
    E v[GPURED__LANES];
    beside_scan<K>(s->total, t, s->total[15][t], v);
#pragma unroll
    for (int i = 0; i < GPURED__LANES; ++i) s->h1[i][t] = v[i];
    own = v[15];
    if (p.exists) show(a.state, beside_word(a, p, 0, p.tile), own);
  }
  delay(p.tile);
  if (a.width_log2 < 5) {
    if (w == 0) beside_share(a, p, s, own);
    __syncthreads();
  }
  /* Level by level: who waited for all of them first would make a chain of the groups' totals. */
  bool ends = w == 0;
  E up = own;
  for (int level = 0; level < a.levels; ++level) {
    if (missing) {
      beside_wait(a, p, s, level);
      __syncthreads();
    }
    ends = ends && beside_publish<K>(a, p, s, level, &up);
  }
  if (w > 0 && w <= a.levels && (p.tile >> 4 * (w - 1) & 15)) {
    const int place = p.tile >> 4 * (w - 1) & 15;
    E v[GPURED__LANES];
    beside_scan<K>(s->seen[w - 1], t, own, v);
#pragma unroll
    for (int i = 0; i < GPURED__LANES; ++i)
      if (i == place - 1) s->left[w - 1][t] = v[i];
  }
  __syncthreads();
  set_neutral<K>(&e);
  for (int level = a.levels - 1; level >= 0; --level)
    if (p.tile >> 4 * level & 15) e = combined<K>(e, s->left[level][t]);
  return e;
}

/* E_1 of group g. */
template <int K, class E>
GPURED__DEV E beside_group(const beside_space<E> *s, E e2, int g, int t) {
  return g ? combined<K>(e2, s->h1[g - 1][t]) : e2;
}

/* Results move down by one; the first is the last one of the group before, of the tile before, or
 * the operation's empty result. */
template <int A, int K, class E>
GPURED__DEV void beside_shift(const line_scan &a, const beside_place &p, beside_space<E> *s, E e2,
                              E *v) {
  const int t = (int)threadIdx.x % 32, w = (int)threadIdx.x / 32;
  E before;
  set_neutral<K>(&before);
  if (w == BESIDE_WARPS - 1 && p.exists) show(a.state, p.last, v[BESIDE_MINE - 1]);
  if (w > 0)
    before = combined<K>(beside_group<K>(s, e2, 2 * w - 1, t), s->total[2 * w - 1][t]);
  else if (p.tile > 0 && p.exists)
    while (!look(a.state, p.last - p.width, &before)) continue;
#pragma unroll
  for (int i = BESIDE_MINE - 1; i > 0; --i) v[i] = v[i - 1];
  v[0] = before;
}

/* Blocks of threads on a multiprocessor. */
static constexpr __host__ __device__ int beside_resident(size_t size) {
  return size == 4 ? 3 : size == 8 ? 2 : 1;
}

template <int A, int K, bool PIECE>
static __global__ void __launch_bounds__(BESIDE_THREADS,
                                         beside_resident(sizeof(typename scanned<A, K>::E)))
    scan_beside(const line_scan a) {
  typedef typename scanned<A, K>::E E;
  extern __shared__ __align__(128) char space[];
  __shared__ unsigned long long ticket;
  beside_space<E> *s = (beside_space<E> *)space;
  char *stage = (char *)(s + 1);
  const int t = (int)threadIdx.x % 32, w = (int)threadIdx.x / 32;
  if (threadIdx.x == 0) ticket = atomicAdd(a.state, 1ull);
  clear_used(a, (int)threadIdx.x, BESIDE_THREADS);
  __syncthreads();
  const beside_place p = beside_find(a, (int64_t)ticket);
  E v[BESIDE_MINE];
  const int missing = beside_ask<K>(a, p, s); /* before all that the memory has to bring */
  if (PIECE) beside_read_piece(a, beside_piece_of(a, p), stage);
  beside_read<A, K>(a, beside_look<PIECE>(a, p, GPURED__IN, stage), v);
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    doubling<K, E, 1>::scan(v + g * GPURED__LANES);
    s->total[2 * w + g][t] = v[g * GPURED__LANES + GPURED__LANES - 1];
  }
  const E e2 = beside_prefix<K>(a, p, s, missing);
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    const E e = beside_group<K>(s, e2, 2 * w + g, t);
#pragma unroll
    for (int i = g * GPURED__LANES; i < (g + 1) * GPURED__LANES; ++i) v[i] = combined<K>(e, v[i]);
  }
  if (a.exclusive) beside_shift<A, K>(a, p, s, e2, v);
  beside_write<A, K>(a, beside_look<PIECE>(a, p, GPURED__OUT, stage), v);
  if (PIECE) beside_write_piece(a, beside_piece_of(a, p), stage);
}

/* Lines of 17 to 256 elements, which need nothing of other tiles: a.chunks warps have 32 of them,
 * and 32 elements each. Lines are numbered through all items, so that few of each do no harm. */
template <int A, int K, bool PIECE>
static __global__ void __launch_bounds__(BESIDE_THREADS,
                                         beside_resident(sizeof(typename scanned<A, K>::E)))
    scan_beside_short(const line_scan a) {
  typedef typename scanned<A, K>::E E;
  extern __shared__ __align__(128) char space[];
  E(*const total)[32] = (E(*)[32])space, (*const h1)[32] = total + GPURED__LANES;
  char *const stage = (char *)(h1 + GPURED__LANES);
  const int t = (int)threadIdx.x % 32, w = (int)threadIdx.x / 32, part = w % a.chunks;
  const int first = w / a.chunks * 2 * a.chunks, mine = first + 2 * part;
  const beside_place p = beside_find_short(a, w / a.chunks * 32 + t, part * BESIDE_MINE);
  E v[BESIDE_MINE], none, before;
  set_neutral<K>(&none);
  if (PIECE) beside_read_piece(a, beside_piece_of(a), stage);
  beside_read<A, K>(a, beside_look<PIECE>(a, p, GPURED__IN, stage), v);
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    doubling<K, E, 1>::scan(v + g * GPURED__LANES);
    total[mine + g][t] = v[g * GPURED__LANES + GPURED__LANES - 1];
  }
  __syncthreads();
  if (part == 0) {
    E x[GPURED__LANES];
#pragma unroll
    for (int i = 0; i < GPURED__LANES; ++i) {
      x[i] = none;
      if (i < 2 * a.chunks) x[i] = total[first + i][t];
    }
    doubling<K, E, 1>::scan(x);
#pragma unroll
    for (int i = 0; i < GPURED__LANES; ++i)
      if (i < 2 * a.chunks) h1[first + i][t] = x[i];
  }
  __syncthreads();
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    const E e = part + g ? combined<K>(none, h1[mine + g - 1][t]) : none;
#pragma unroll
    for (int i = g * GPURED__LANES; i < (g + 1) * GPURED__LANES; ++i) v[i] = combined<K>(e, v[i]);
  }
  if (a.exclusive) {
    before = none;
    if (part > 0) before = combined<K>(combined<K>(none, h1[mine - 2][t]), total[mine - 1][t]);
#pragma unroll
    for (int i = BESIDE_MINE - 1; i > 0; --i) v[i] = v[i - 1];
    v[0] = before;
  }
  beside_write<A, K>(a, beside_look<PIECE>(a, p, GPURED__OUT, stage), v);
  if (PIECE) beside_write_piece(a, beside_piece_of(a), stage);
}

/* Lines of one group, two for each thread; contiguous ones come here too, if they are shorter. */
template <int A, int K, bool PIECE>
static __global__ void __launch_bounds__(BESIDE_THREADS,
                                         beside_resident(sizeof(typename scanned<A, K>::E)))
    scan_beside_tiny(const line_scan a) {
  typedef typename scanned<A, K>::E E;
  extern __shared__ __align__(128) char space[];
  const int t = (int)threadIdx.x;
  const beside_place p[2] = {beside_find_short(a, t, 0),
                             beside_find_short(a, t + BESIDE_THREADS, 0)};
  E v[BESIDE_MINE], none;
  set_neutral<K>(&none);
  if (PIECE) beside_read_piece(a, beside_piece_of(a), space);
  beside_read<A, K>(a, beside_look<PIECE>(a, p, GPURED__IN, space), v);
#pragma unroll
  for (int g = 0; g < BESIDE_MINE; g += GPURED__LANES) {
    doubling<K, E, 1>::scan(v + g);
#pragma unroll
    for (int i = g; i < g + GPURED__LANES; ++i) v[i] = combined<K>(none, v[i]);
    if (a.exclusive)
#pragma unroll
      for (int i = g + GPURED__LANES - 1; i > g; --i) v[i] = v[i - 1];
  }
  if (PIECE) __syncthreads(); /* results may be of another size than what others read there yet */
  beside_write<A, K>(a, beside_look<PIECE>(a, p, GPURED__OUT, space), v);
  if (PIECE) beside_write_piece(a, beside_piece_of(a), space);
}

/* ---- Wide lines side by side ---- */
/*
 * What is used most: wide enough, of one dtype in both tensors, floats in rows of whole vectors.
 * The tiles are those of above; of elements of two bytes a thread has two neighbouring lines, each
 * two of which have to begin at 4 bytes. Nothing of a tile is waited for before all of it is under
 * way, and what it needs of the tiles above is asked for behind it. Lines of up to 256 elements
 * need nothing of other tiles: a block of threads has several strips of those.
 *   How many tiles are under way counts, so a thread keeps to the registers of so many blocks. What
 * it spilled would be written behind the first cache: 7 registers of it made sums of floats 5 %
 * slower, 26 those of integers 20 %.
 */
enum { COLUMN_LEVELS = 4 };

/* Two lines as one. */
template <class T>
struct twin {
  T x, y;
};
template <int K, class T>
GPURED__DEV void set_neutral(twin<T> *e) {
  set_neutral<K>(&e->x);
  set_neutral<K>(&e->y);
}
template <int K, class T>
GPURED__DEV twin<T> combined(twin<T> a, twin<T> b) {
  twin<T> r;
  r.x = combined<K>(a.x, b.x);
  r.y = combined<K>(a.y, b.y);
  return r;
}
template <class T, class S, int V>
struct lines_of_thread {
  typedef T E;
  typedef S R;
};
template <class T, class S>
struct lines_of_thread<T, S, 2> {
  typedef twin<T> E;
  typedef uint32_t R;
};

/* Where a thread is. */
struct column_place {
  unsigned outer, strip, line; /* of those side by side; the last one, if there are not so many */
  int tile, left;              /* left: elements that its warp has */
  bool exists;
};

/* What the threads of a tile tell each other: groups' totals and H_1 of them; of each level the
 * values above the tile, behind them the total of what the tile ends; then H of them. */
template <class E>
struct column_space {
  E total[GPURED__LANES][32], h1[GPURED__LANES][32];
  E seen[COLUMN_LEVELS][GPURED__LANES][32];
};

/* Sums and products of integers of up to 4 bytes need no more of them. */
struct low_bits {
  uint32_t x;
};
template <int K>
GPURED__DEV void set_neutral(low_bits *e) {
  e->x = K == K_MUL ? 1 : 0;
}
template <int K>
GPURED__DEV low_bits combined(low_bits a, low_bits b) {
  a.x = K == K_MUL ? a.x * b.x : a.x + b.x;
  return a;
}
template <int D>
GPURED__DEV void widen(uint32_t raw, low_bits *e) {
  e->x = raw;
}
template <int K>
GPURED__DEV void flip_element(low_bits *, const job &) {}

template <int A, int K, int D>
struct column_value {
  typedef typename acc<A>::T T;
};
template <int A>
struct column_value<A, K_ADD, GPURED_I32> {
  typedef low_bits T;
};
template <int A>
struct column_value<A, K_MUL, GPURED_I32> {
  typedef low_bits T;
};
template <int A>
struct column_value<A, K_ADD, GPURED_I8> {
  typedef low_bits T;
};
template <int A>
struct column_value<A, K_MUL, GPURED_I8> {
  typedef low_bits T;
};

/* A thread has COLUMN_GROUPS groups of 16 elements. */
enum { COLUMN_GROUPS = 2, COLUMN_WARPS = GPURED__LANES / COLUMN_GROUPS };

template <int A, int K, int D>
struct columns {
  typedef typename column_value<A, K, D>::T T;
  typedef typename stored<D>::S S;
  enum { SIZE = stored<D>::SIZE, V = SIZE == 2 ? 2 : 1 }; /* of an element; lines of a thread */
  typedef typename lines_of_thread<T, S, V>::E E;
  typedef typename lines_of_thread<T, S, V>::R R;
  enum { G = COLUMN_GROUPS, N = G * GPURED__LANES, THREADS = COLUMN_WARPS * 32 };
  enum { SECTOR = 32 / sizeof(R) };
  enum { PACKED = V == 2, ASIDE = sizeof(E) == 4, BLOCKS = ASIDE ? 4 : PACKED ? 3 : 2 };

  GPURED__DEV column_place find(const line_scan &a, unsigned number, int warp) {
    const unsigned strips = (unsigned)a.strips, tiles = (unsigned)a.line_tiles;
    const unsigned unit =
        number * (unsigned)(COLUMN_WARPS / a.chunks) + (unsigned)(warp / a.chunks);
    const unsigned all = unit / strips, rest = min(all, (unsigned)a.turns - 1);
    const unsigned width = (unsigned)a.j.kept[a.j.kept_count - 1].n / V;
    column_place p;
    p.outer = rest / tiles;
    p.tile = (int)(rest - p.outer * tiles);
    p.strip = unit - all * strips;
    p.line = p.strip * (unsigned)a.lines + threadIdx.x % 32;
    p.exists = p.line < width && all == rest;
    p.line = min(p.line, width - 1);
    p.left = (int)min(a.j.n - (int64_t)p.tile * BESIDE_ROWS - warp % a.chunks * N, (int64_t)N);
    return p;
  }
  /* Part `part` of a thread's line in the tile. */
  GPURED__DEV char *at(const line_scan &a, const column_place &p, int part, int operand) {
    const int64_t step = operand == GPURED__IN ? a.in_stride : a.out_stride;
    const int64_t outer = a.j.kept_count > 1 ? a.j.kept[0].stride[operand] : 0;
    return (operand == GPURED__IN ? (char *)a.j.in : a.j.out) +
           (p.outer * outer + ((int64_t)p.tile * BESIDE_ROWS + part * N) * step + p.line * V) *
               SIZE;
  }

  /* A thread's elements. Those of two bytes stay as they are and are scanned a second time; others
   * become H_0, of which half waits in shared memory where there are no registers for it. */
  struct held {
    R raw[N];
    E v[PACKED ? (int)GPURED__LANES : (int)N];

    __device__ __forceinline__ void fetch(const line_scan &a, const column_place &p, int part) {
      const int step = (int)a.in_stride * SIZE;
      const char *from = at(a, p, part, GPURED__IN);
      if (p.left == N) {
#pragma unroll
        for (int i = 0; i < N; ++i) raw[i] = *(const R *)(from + (int64_t)i * step);
      } else {
#pragma unroll
        for (int i = 0; i < N; ++i) {
          raw[i] = 0;
          if (i < p.left) raw[i] = *(const R *)(from + (int64_t)i * step);
        }
      }
    }
    __device__ __forceinline__ void scan_group(const line_scan &a, int g, E *y) const {
#pragma unroll
      for (int i = 0; i < GPURED__LANES; ++i) {
        T x[V];
        S s[V];
        memcpy(s, &raw[g * GPURED__LANES + i], sizeof s);
#pragma unroll
        for (int c = 0; c < V; ++c) {
          widen<D>(s[c], &x[c]);
          flip_element<K>(&x[c], a.j);
        }
        memcpy(&y[i], x, sizeof x);
      }
      doubling<K, E, 1>::scan(y);
    }
    /* Scans group g: its total. */
    __device__ __forceinline__ E total(const line_scan &a, int g, E *aside) {
      E *y = PACKED ? v : v + g * GPURED__LANES;
      scan_group(a, g, y);
      if constexpr (PACKED)
#pragma unroll
        for (int i = 0; i < GPURED__LANES; ++i) /* or the compiler would keep what they become */
          asm volatile("" : "+r"(*(unsigned *)&raw[g * GPURED__LANES + i]));
      if (ASIDE && g)
#pragma unroll
        for (int i = 0; i < GPURED__LANES; ++i) aside[i * THREADS] = y[i];
      return y[GPURED__LANES - 1];
    }
    /* Group g becomes results, e1 standing before it, in memory; `last`: the result there, for
     * exclusive scans. */
    __device__ __forceinline__ void results(const line_scan &a, const column_place &p, char *to,
                                            unsigned rows, int part, const E *aside, int g, E e1,
                                            E *last) {
      E *y = PACKED || ASIDE ? v : v + g * GPURED__LANES;
      if (PACKED) scan_group(a, g, y);
#pragma unroll
      for (int i = 0; i < GPURED__LANES; ++i) {
        if (ASIDE && g) y[i] = aside[i * THREADS];
        y[i] = combined<K>(e1, y[i]);
      }
      if (a.exclusive) {
        const E end = y[GPURED__LANES - 1];
#pragma unroll
        for (int i = GPURED__LANES - 1; i > 0; --i) y[i] = y[i - 1];
        y[0] = *last;
        *last = end;
      }
      store(a, to, g, rows >> g * GPURED__LANES & 0xffff, p.tile + part + g == 0, y);
    }
  };
  /* The rows of which a thread stores its results, a bit for each. Strips that would share sectors
   * overlap: each but the last one stores those that begin in its first a.lines. */
  GPURED__DEV unsigned stored_rows(const line_scan &a, const column_place &p, const char *to) {
    const unsigned at = (unsigned)((uintptr_t)to / sizeof(R)), step = (unsigned)(a.out_stride / V);
    const int t = (int)threadIdx.x % 32, own = p.strip + 1 < a.strips ? a.lines : 32;
    unsigned rows = 0;
    if (!p.exists || p.left <= 0) return 0;
    const unsigned exist = ~0u >> (N - p.left);
    if (a.lines == 32) return exist;
#pragma unroll
    for (int i = 0; i < SECTOR; ++i) {
      const int begins = t - (int)((at + i * step) % SECTOR);
      if (begins < own && (begins >= 0 || p.strip == 0)) rows |= 1u << i;
    }
    return exist & rows * (~0u / ((1u << SECTOR) - 1));
  }
  /* Results of group g, of rows that are stored. */
  GPURED__DEV void store(const line_scan &a, char *to, int g, unsigned rows, bool begins,
                         const E *y) {
    const int step = (int)a.out_stride * SIZE, first = g * GPURED__LANES;
    T x[GPURED__LANES * V];
    R raw[GPURED__LANES];
    memcpy(x, y, sizeof x);
#pragma unroll
    for (int i = 0; i < GPURED__LANES * V; ++i) flip_element<K>(&x[i], a.j);
    if constexpr (sizeof(T) == SIZE) {
      if constexpr (A != GPURED__U64) /* two instructions; canonical() looks at bits */
#pragma unroll
        for (int i = 0; i < GPURED__LANES; ++i) x[i] = x[i] == x[i] ? x[i] : quiet_nan<T>();
      memcpy(raw, x, sizeof raw);
    } else {
      pack_values<D, GPURED__LANES * V>(x, (S *)raw);
    }
    if (a.exclusive && begins)
#pragma unroll
      for (int c = 0; c < V; ++c) ((S *)raw)[c] = nothing_stored<S>(a, typename acc<A>::T());
    if (a.lines == 32 && rows == 0xffff) {
#pragma unroll
      for (int i = 0; i < GPURED__LANES; ++i) *(R *)(to + (int64_t)(first + i) * step) = raw[i];
    } else {
#pragma unroll
      for (int i = 0; i < GPURED__LANES; ++i)
        if (rows >> i & 1) *(R *)(to + (int64_t)(first + i) * step) = raw[i];
    }
  }
};

/* Where a level's values of the lines of a warp are in the state. */
GPURED__DEV int64_t column_word(const line_scan &a, const column_place &p, int level, int index) {
  return ((int64_t)p.outer * a.line_values + a.level_at[level] + index) * (a.strips * 32) +
         p.strip * 32 + threadIdx.x % 32;
}

/* The values above a tile, of each level as many for a warp: asks for them, but for those of the
 * highest level, which few lines have; a bit for each that is not there yet. */
template <int K, class E>
GPURED__DEV unsigned column_ask(const line_scan &a, const column_place &p, column_space<E> *s,
                                int warp) {
  enum { MINE = COLUMN_GROUPS, ASKED = (COLUMN_LEVELS - 1) * MINE };
  E x[ASKED];
  unsigned missing = (unsigned)(p.tile >> 4 * (COLUMN_LEVELS - 1)) << ASKED; /* 0: nobody waits */
#pragma unroll
  for (int i = 0; i < ASKED; ++i) set_neutral<K>(&x[i]);
#pragma unroll
  for (int level = 0; level < COLUMN_LEVELS - 1; ++level) {
    const int all = p.tile >> 4 * level;
    if (level >= a.levels) break;
#pragma unroll
    for (int i = level * MINE, index = warp; i < (level + 1) * MINE; ++i, index += COLUMN_WARPS)
      if (index < (all & 15))
        if (!look(a.state, column_word(a, p, level, (all & ~15) + index), &x[i]))
          missing |= 1u << i;
  }
#pragma unroll
  for (int i = 0; i < ASKED; ++i)
    if (i / MINE < a.levels)
      s->seen[i / MINE][warp + i % MINE * COLUMN_WARPS][threadIdx.x % 32] = x[i];
  return missing;
}
/* Waits for those of a level. */
template <class E>
GPURED__DEV void column_wait(const line_scan &a, const column_place &p, column_space<E> *s,
                             int warp, int level, unsigned missing) {
  enum { MINE = COLUMN_GROUPS };
#pragma unroll
  for (int k = 0; k < MINE; ++k) {
    const int index = warp + k * COLUMN_WARPS;
    E y;
    if (level < COLUMN_LEVELS - 1 ? !(missing >> (level * MINE + k) & 1)
                                  : index >= (p.tile >> 4 * level & 15))
      continue;
    while (!look(a.state, column_word(a, p, level, (p.tile >> 4 * level & ~15) + index), &y))
      continue;
    s->seen[level][index][threadIdx.x % 32] = y;
  }
}
/* H of a level's values, by one warp. The tile ends a group of each of the first `ends` levels,
 * whose total is shown. */
template <int K, class E>
GPURED__DEV void column_finish(const line_scan &a, const column_place &p, column_space<E> *s,
                               int level, int ends) {
  const int t = (int)threadIdx.x % 32;
  E y[GPURED__LANES];
#pragma unroll
  for (int i = 0; i < GPURED__LANES; ++i) y[i] = s->seen[level][i][t];
  doubling<K, E, 1>::scan(y);
#pragma unroll
  for (int i = 0; i < GPURED__LANES - 1; ++i) s->seen[level][i][t] = y[i];
  if (level >= ends || level + 1 >= a.levels) return;
  show(a.state, column_word(a, p, level + 1, p.tile >> 4 * (level + 1)), y[GPURED__LANES - 1]);
  if (level + 1 < ends) s->seen[level + 1][GPURED__LANES - 1][t] = y[GPURED__LANES - 1];
}

/* H_1 of the totals of a line's `count` groups from `first` on, by one warp; and the last of it. */
template <int K, class E>
GPURED__DEV E column_across(column_space<E> *s, int first, int count) {
  const int t = (int)threadIdx.x % 32;
  E x[GPURED__LANES];
#pragma unroll
  for (int i = 0; i < GPURED__LANES; ++i) {
    set_neutral<K>(&x[i]);
    if (i < count) x[i] = s->total[first + i][t];
  }
  doubling<K, E, 1>::scan(x);
#pragma unroll
  for (int i = 0; i < GPURED__LANES; ++i)
    if (i < count) s->h1[first + i][t] = x[i];
  return x[GPURED__LANES - 1];
}

/* E_2 of a tile whose groups' totals are there. Level by level: who waited for all of them first
 * would make a chain of the groups' totals. */
template <int K, class E>
GPURED__DEV E column_prefix(const line_scan &a, const column_place &p, column_space<E> *s, int warp,
                            unsigned missing) {
  const int t = (int)threadIdx.x % 32, any = __syncthreads_or(missing != 0);
  int ends = 0; /* levels of which the tile ends a group */
  E e;
  while (ends < a.levels && (p.tile >> 4 * ends & 15) == 15) ++ends;
  if (warp == 0) {
    const E own = column_across<K>(s, 0, GPURED__LANES);
    show(a.state, column_word(a, p, 0, p.tile), own);
    s->seen[0][GPURED__LANES - 1][t] = own;
  }
  delay(p.tile);
#pragma unroll 1
  for (int level = 0; level < a.levels; ++level) {
    if (any) column_wait(a, p, s, warp, level, missing);
    if (any || (level > 0 && level < ends)) __syncthreads();
    if (warp == level) column_finish<K>(a, p, s, level, ends);
  }
  __syncthreads();
  set_neutral<K>(&e);
#pragma unroll 1
  for (int level = a.levels - 1; level >= 0; --level) {
    const int before = p.tile >> 4 * level & 15;
    if (before) e = combined<K>(e, s->seen[level][before - 1][t]);
  }
  return e;
}

/* E_1 of group g; for exclusive scans, the result before it. */
template <int K, class E>
GPURED__DEV E column_before(const column_space<E> *s, E e2, int first, int g) {
  return g ? combined<K>(e2, s->h1[first + g - 1][threadIdx.x % 32]) : e2;
}
template <int K, class E>
GPURED__DEV E column_last(const line_scan &a, const column_place &p, const column_space<E> *s, E e2,
                          int first, int g) {
  enum { END = GPURED__LANES - 1 };
  const int t = (int)threadIdx.x % 32;
  const int64_t step = a.strips * 32;
  const int64_t at =
      a.last_at + ((int64_t)p.outer * a.line_tiles + p.tile) * step + p.strip * 32 + t;
  E last;
  set_neutral<K>(&last);
  if (g) return combined<K>(column_before<K>(s, e2, first, g - 1), s->total[first + g - 1][t]);
  if (a.levels)
    show(a.state, at, combined<K>(column_before<K>(s, e2, first, END), s->total[END][t]));
  if (p.tile > 0)
    while (!look(a.state, at - step, &last)) continue;
  return last;
}

template <int A, int K, int D>
static __global__ void __launch_bounds__(columns<A, K, D>::THREADS, columns<A, K, D>::BLOCKS)
    scan_columns(const line_scan a) {
  typedef columns<A, K, D> form;
  typedef typename form::E E;
  enum { G = form::G };
  extern __shared__ __align__(128) char space[];
  __shared__ unsigned ticket;
  column_space<E> *const s = (column_space<E> *)space;
  E *const aside = (E *)(s + 1) + threadIdx.x;
  const int warp = from_thread((int)threadIdx.x / 32, 0, 32), t = (int)threadIdx.x % 32;
  const int part = warp % a.chunks, first = (warp - part) * G;
  unsigned number = blockIdx.x;
  if (a.levels) {
    if (threadIdx.x == 0) ticket = (unsigned)atomicAdd(a.state, 1ull);
    clear_used(a, (int)threadIdx.x, form::THREADS);
    __syncthreads();
    number = from_thread(ticket, 0, 32);
  }
  const column_place p = form::find(a, number, warp);
  typename form::held held;
  E e2, last;
  held.fetch(a, p, part);
  set_neutral<K>(&e2);
  const unsigned missing = column_ask<K>(a, p, s, warp);
#pragma unroll
  for (int g = 0; g < G; ++g) s->total[warp * G + g][t] = held.total(a, g, aside);
  if (a.levels) {
    e2 = column_prefix<K>(a, p, s, warp, missing);
  } else {
    __syncthreads();
    if (part == 0) column_across<K>(s, first, a.chunks * G);
    __syncthreads();
  }
  char *const to = form::at(a, p, part, GPURED__OUT);
  const unsigned rows = form::stored_rows(a, p, to);
  last = e2;
  if (a.exclusive) last = column_last<K>(a, p, s, e2, first, part * G);
#pragma unroll
  for (int g = 0; g < G; ++g)
    held.results(a, p, to, rows, part, aside, g, column_before<K>(s, e2, first, part * G + g),
                 &last);
}

/* ---- Few rows ---- */
/*
 * Lines of up to COLS_FEW elements, side by side, of one dtype in both tensors: a thread has 16
 * bytes of each row, as in section 7, and scans what it has of each column in its registers.
 */

/* Element i of 16 bytes becomes one of those bits. */
template <int SIZE>
GPURED__DEV void set_element(uint4 *q, int i, uint64_t bits) {
  uint32_t word[4] = {q->x, q->y, q->z, q->w};
  const int at = i * SIZE / 4, shift = i * SIZE % 4 * 8;
  if (SIZE >= 4) word[at] = (uint32_t)bits;
  if (SIZE == 8) word[(at + 1) % 4] = (uint32_t)(bits >> 32);
  if (SIZE < 4)
    word[at] = (word[at] & ~(((1u << SIZE * 8 % 32) - 1) << shift)) | (uint32_t)bits << shift;
  *q = make_uint4(word[0], word[1], word[2], word[3]);
}

/* The result of nothing. */
template <class T>
GPURED__DEV void set_empty(T *x, const line_scan &a) {
  *x = (T)a.empty_real;
}
GPURED__DEV void set_empty(uint64_t *x, const line_scan &a) { *x = a.empty_integer; }
GPURED__DEV void set_empty(low_bits *x, const line_scan &a) { x->x = (uint32_t)a.empty_integer; }
template <int SIZE>
GPURED__DEV uint64_t packed_bits(const job &j, low_bits y) {
  return packed_bits<SIZE>(j, (uint64_t)y.x);
}

/* A column, scanned: what its elements become. */
template <int A, int K, int D, int ROWS>
GPURED__DEV void scan_column(const line_scan &a, uint4 (&raw)[ROWS], int i) {
  enum { SIZE = stored<D>::SIZE };
  typedef typename column_value<A, K, D>::T T;
  T v[GPURED__LANES], none;
  set_neutral<K>(&none);
#pragma unroll
  for (int l = 0; l < GPURED__LANES; ++l) {
    v[l] = none;
    if (l >= ROWS || l >= a.j.n) continue;
    widen<D>(element_of<D>(raw[l], i), &v[l]);
    flip_element<K>(&v[l], a.j);
  }
  doubling<K, T, 1>::scan(v);
#pragma unroll
  for (int l = 0; l < ROWS; ++l) {
    v[l] = combined<K>(none, v[l]);
    flip_element<K>(&v[l], a.j);
  }
  if (a.exclusive) {
#pragma unroll
    for (int l = ROWS - 1; l > 0; --l) v[l] = v[l - 1];
    set_empty(&v[0], a);
  }
#pragma unroll
  for (int l = 0; l < ROWS; ++l) set_element<SIZE>(&raw[l], i, packed_bits<SIZE>(a.j, v[l]));
}

template <int A, int K, int D, bool LOOSE, int ROWS>
GPURED__DEV void scan_strip(const line_scan &a, const char *from, char *to, int count,
                            bool stores) {
  enum { SIZE = stored<D>::SIZE, V = 16 / SIZE };
  const short_rows<SIZE, LOOSE, COLS_FEW, true> rows(a.j, a.in_stride * SIZE, from, count);
  uint4 raw[ROWS];
  rows.template fetch<ROWS>(raw, [](int q) { return q; });
#pragma unroll
  for (int i = 0; i < V; ++i) scan_column<A, K, D>(a, raw, i);
#pragma unroll
  for (int l = 0; l < ROWS; ++l) {
    char *at = to + l * a.out_stride * SIZE;
    if (l >= rows.n || !stores) continue;
    if (LOOSE)
      store_loose<SIZE>(at, raw[l], count);
    else
      *(uint4 *)at = raw[l];
  }
}

template <int A, int K, int D, bool LOOSE>
static __global__ void __launch_bounds__(SHORT_THREADS, 5) scan_few_rows(const line_scan a) {
  enum { SIZE = stored<D>::SIZE, V = 16 / SIZE };
  const int own = 32 - short_rows<SIZE, LOOSE, COLS_FEW, true>::SHARED, t = (int)threadIdx.x % 32;
  const int64_t warp = (int64_t)blockIdx.x * (SHORT_THREADS / 32) + threadIdx.x / 32;
  const int64_t strip = min(warp * own + t, a.tiles - 1);
  const int64_t outer = gpured__quotient(strip, a.strips), width = a.j.kept[a.j.kept_count - 1].n;
  const int64_t col = (strip - outer * a.strips) * V, left = width - col;
  const char *from = a.j.in + (line_place(a, outer * width, GPURED__IN) + col) * SIZE;
  char *to = a.j.out + (line_place(a, outer * width, GPURED__OUT) + col) * SIZE;
  const int count = LOOSE && left < V ? (int)left : V;
  const bool stores = t < own && warp * own + t < a.tiles && left > 0;
  if (a.j.n <= COLS_FEW / 2)
    scan_strip<A, K, D, LOOSE, COLS_FEW / 2>(a, from, to, count, stores);
  else
    scan_strip<A, K, D, LOOSE, COLS_FEW>(a, from, to, count, stores);
}

/* ---- Short lines in one piece of memory ---- */
/*
 * Lines of up to SHORT_LINE elements that lie one behind the other, or side by side in items of a
 * few, without gaps, of one dtype in both tensors. A warp has tiles of its own: a few lines for
 * each thread, copied to shared memory as they lie. A thread scans a line where it stands, from its
 * beginning to its end, and the results leave as the elements came. So threads share nothing but
 * the copies, a line may begin anywhere, and what is done is as long as the line, not as the next
 * power of two. Other warps compute while one waits for its copies: more of them are better than
 * copies that run ahead.
 *   Threads whose lines begin a multiple of four vectors apart would meet the same banks: there 16
 * bytes lie between items. Lines of whole vectors are read and stored in vectors.
 */
enum { SHORT_LINE = 256, SHORT_BYTES = 6400, SHORT_TILES = 8 /* to a multiprocessor, at least */ };
static constexpr __host__ __device__ int short_warps(size_t size) { return size == 4 ? 24 : 16; }

/* H_1 of groups that come one after the other. Offset doubling needs of those before one total, two
 * sums of two, four of four and eight of eight; where any order gives the same bits, nothing. */
template <int K, class T>
struct group_history {
  T one, two[2], four[4], eight[8], above;
  __device__ __forceinline__ void begin() {
    set_neutral<K>(&above);
    one = above;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      eight[i] = above;
      if (i < 4) four[i] = above;
      if (i < 2) two[i] = above;
    }
  }
  template <int N>
  __device__ __forceinline__ T push(T (&old)[N], T x) {
    const T y = combined<K>(old[N - 1], x);
#pragma unroll
    for (int i = N - 1; i > 0; --i) old[i] = old[i - 1];
    old[0] = x;
    return y;
  }
  /* The next group's total: `above` becomes H_1 of all up to it. */
  __device__ __forceinline__ void follow(T total) {
    const T pair = combined<K>(one, total);
    one = total;
    above = push(eight, push(four, push(two, pair)));
  }
};

/* The elements of a group become its results. MORE: another group follows. */
template <int A, int K, bool MORE, class T>
GPURED__DEV void scan_group(group_history<K, T> *h, T *v) {
  const T e = h->above;
  if (cols_free(A, K)) {
    v[0] = combined<K>(e, v[0]);
#pragma unroll
    for (int i = 1; i < GPURED__LANES; ++i) v[i] = combined<K>(v[i - 1], v[i]);
    h->above = v[GPURED__LANES - 1];
  } else {
    doubling<K, T, 1>::scan(v);
    if (MORE) h->follow(v[GPURED__LANES - 1]);
#pragma unroll
    for (int i = 0; i < GPURED__LANES; ++i) v[i] = combined<K>(e, v[i]);
  }
}

/* A line in shared memory, elements `step` bytes apart, from its next group on. */
template <int A, int K, int D, bool VECTORS>
struct short_line {
  typedef typename acc<A>::T T;
  typedef typename stored<D>::S S;
  enum { SIZE = stored<D>::SIZE, V = 16 / SIZE };
  char *at;
  int step;
  T before; /* the result in front of the group, if the scan is exclusive */
  group_history<K, T> history;

  /* `count` elements, at most LIMIT. */
  template <int LIMIT>
  __device__ __forceinline__ void scan(const line_scan &a, int count) {
    T v[GPURED__LANES];
    uint4 raw[SIZE];
#pragma unroll
    for (int i = 0; i < GPURED__LANES; ++i) {
      set_neutral<K>(&v[i]);
      if (i >= LIMIT || i >= count) continue;
      if (VECTORS && i % V == 0) raw[i / V] = ((const uint4 *)at)[i / V];
      widen<D>(VECTORS ? element_of<D>(raw[i / V], i % V) : *(const S *)(at + i * step), &v[i]);
      v[i] = scanned<A, K>::enter(v[i], a.j);
    }
    scan_group<A, K, LIMIT == GPURED__LANES>(&history, v);
#pragma unroll
    for (int i = 0; i < LIMIT; ++i) v[i] = scanned<A, K>::leave(v[i], a.j);
    if (a.exclusive) {
      const T last = v[LIMIT - 1];
#pragma unroll
      for (int i = LIMIT - 1; i > 0; --i) v[i] = v[i - 1];
      v[0] = before;
      before = last;
    }
    __align__(16) S result[GPURED__LANES];
    pack_values<D, GPURED__LANES>(v, result);
#pragma unroll
    for (int i = 0; i < LIMIT; ++i) {
      if (i >= count) continue;
      if (!VECTORS) *(S *)(at + i * step) = result[i];
      if (VECTORS && i % V == V - 1) ((uint4 *)at)[i / V] = ((const uint4 *)result)[i / V];
    }
    at += GPURED__LANES * step;
  }
  /* The last group has as many steps as its elements need, not 16. */
  __device__ __forceinline__ void run(const line_scan &a) {
    int left = (int)a.j.n;
    before = A == GPURED__U64 ? (T)a.empty_integer : (T)a.empty_real;
    history.begin();
#pragma unroll 1
    for (; left >= GPURED__LANES; left -= GPURED__LANES) scan<GPURED__LANES>(a, GPURED__LANES);
    if (left > 8)
      scan<GPURED__LANES - 1>(a, left);
    else if (left > 4)
      scan<8>(a, left);
    else if (left > 0)
      scan<4>(a, left);
  }
};

/* A tile of a tensor and its place in shared memory. */
template <class S>
struct line_tile {
  char *memory, *stage;
  int bytes, lines;
  unsigned recip;
  __device__ __forceinline__ line_tile(const line_scan &a, const char *base, int64_t number,
                                       char *stage_) {
    const int64_t first = number * a.lines;
    lines = (int)min((int64_t)a.lines, a.j.outputs - first);
    bytes = lines * (int)a.j.n * (int)sizeof(S);
    memory = (char *)base + first * a.j.n * (int)sizeof(S);
    stage = stage_;
    recip = a.unit_recip[0];
  }
  __device__ __forceinline__ char *vector(int v) const {
    return stage + 16 * (v + (int)__umulhi((unsigned)v, recip));
  }
  __device__ __forceinline__ S *element(int e) const {
    enum { V = 16 / sizeof(S) };
    return (S *)vector(e / V) + e % V;
  }
  /* Vectors, and elements where the tensor ends inside one or does not begin with one. */
  __device__ __forceinline__ void fetch(bool aligned) const {
    const int lane = (int)threadIdx.x % 32, vectors = aligned ? bytes / 16 : 0;
#pragma unroll 4
    for (int v = lane; v < vectors; v += 32) copy_16(vector(v), memory + 16 * v);
#pragma unroll 8
    for (int e = vectors * (16 / (int)sizeof(S)) + lane; e < bytes / (int)sizeof(S); e += 32)
      *element(e) = ((const S *)memory)[e];
  }
  __device__ __forceinline__ void store(bool aligned) const {
    const int lane = (int)threadIdx.x % 32, vectors = aligned ? bytes / 16 : 0;
#pragma unroll 4
    for (int v = lane; v < vectors; v += 32) ((uint4 *)memory)[v] = *(const uint4 *)vector(v);
#pragma unroll 8
    for (int e = vectors * (16 / (int)sizeof(S)) + lane; e < bytes / (int)sizeof(S); e += 32)
      ((S *)memory)[e] = *element(e);
  }
};

/* a.lines lines to a tile, in items of a.in_stride lines, a.unit bytes apart in shared memory. */
template <int A, int K, int D, bool VECTORS>
static __global__ void __launch_bounds__(short_warps(sizeof(typename acc<A>::T)) * 32, 1)
    scan_short(const line_scan a) {
  typedef line_tile<typename stored<D>::S> tile;
  extern __shared__ __align__(128) char space[];
  const int warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32, width = (int)a.in_stride;
  char *const stage = space + warp * a.tile_bytes;
  for (int64_t number = (int64_t)blockIdx.x * warps + warp; number < a.tiles;
       number += (int64_t)gridDim.x * warps) {
    const tile from(a, a.j.in, number, stage), to(a, a.j.out, number, stage);
    from.fetch(a.aligned_in);
    copies_wait();
    __syncwarp();
#pragma unroll 1
    for (int l = (int)threadIdx.x % 32; l < to.lines; l += 32) {
      const int item = VECTORS ? l : l / width;
      short_line<A, K, D, VECTORS> line;
      line.at = stage + item * a.unit + (l - item * width) * stored<D>::SIZE;
      line.step = VECTORS ? (int)stored<D>::SIZE : width * stored<D>::SIZE;
      line.run(a);
    }
    __syncwarp();
    to.store(a.aligned_out);
    __syncwarp();
  }
}

/* ---- Lines of up to a chunk, a warp each ---- */
/*
 * Many lines of a few hundred or thousand floats, which need no other's values. A warp has one line
 * at a time, all of it in registers, so that narrow elements are scanned once, and the next line is
 * on its way while it computes. Warps take tickets of some lines, since processors are not equally
 * fast; each has its own first one. A line lies in shared memory as in memory, in vectors from the
 * border of 16 bytes in front of it on, and goes back from there: it may begin anywhere, and only
 * at its two ends are there stores of single elements. What lies behind a line's end is scanned as
 * well, since it changes nothing in front of it, and stays where it is.
 *   Each number of words that a line lies behind a border has code of its own, in which words have
 * other names; half a word costs a permutation. A warp's branches are cheap, and what they need is
 * computed once for it, where the compiler sees that all threads go the same way: so a warp's
 * number, and that of its line, come from one thread.
 */
enum { ROW_TICKETS = 2 }; /* for a warp, at least, before one is of several lines */

/* A line has up to 8 chunks of 512 elements, 16 to a thread, and a kernel for each number of them;
 * as many warps to a multiprocessor as there are registers for: what is spilled goes to memory. */
__host__ __device__ constexpr int line_warps(int chunks, int size) {
  return chunks == 1                ? 32
         : chunks == 2              ? 24
         : chunks == 3              ? 16
         : chunks == 4 && size == 2 ? 16
         : chunks <= 4              ? 12
         : chunks <= 6 && size == 2 ? 12
                                    : 8;
}

/* Where a line lies. */
struct row_place {
  char *border;
  int before, end; /* bytes from there to its beginning and to its end */
  template <int SIZE>
  GPURED__DEV row_place of(const line_scan &a, int64_t line, int operand) {
    const char *at = (operand == GPURED__IN ? a.j.in : a.j.out) +
                     line * (a.j.kept_count ? a.j.kept[0].stride[operand] : 0) * SIZE;
    row_place p;
    p.border = (char *)border_before(at);
    p.before = (int)(at - p.border);
    p.end = p.before + (int)a.j.n * SIZE;
    return p;
  }
};

/* A warp's line. */
template <int D, int C>
struct scan_row {
  typedef typename stored<D>::S S;
  enum { SIZE = stored<D>::SIZE, WORDS = 4 * SIZE, CHUNK = 512 * SIZE, VECTORS = C * CHUNK / 16 };

  GPURED__DEV void fetch(const line_scan &a, int64_t line, char *stage) {
    const row_place p = row_place::of<SIZE>(a, line, GPURED__IN);
    const int t = (int)(threadIdx.x % 32), own = spread_vector(t), left = (p.end + 15) / 16 - t;
    if (a.j.end - p.border >= (p.end + 15) / 16 * 16) {
      copy_every_32nd<VECTORS + 1>(stage, p.border + 16 * t, left,
                                   [&](int i) { return (own ^ (i >> 3 & 4)) + i; });
      return;
    }
#pragma unroll 1
    for (int v = t; v * 16 < p.end; v += 32)
      copy_before(stage + 16 * spread_vector(v), p.border + 16 * v, a.j.end);
  }

  /* The line after the first step of offset doubling, so that no value is only moved. SHIFT: words
   * in front of it. */
  template <int K, int SHIFT, class T>
  GPURED__DEV void read_shifted(const line_scan &a, const char *stage, unsigned halves,
                                T (&v)[C][GPURED__LANES]) {
    const int t = (int)(threadIdx.x % 32);
#pragma unroll
    for (int c = 0; c < C; ++c) {
      uint32_t word[WORDS + 4];
      T x[GPURED__LANES];
      stream_read_group<SIZE>(stage + c * CHUNK, (uint4 *)word);
      *(uint4 *)(word + WORDS) = *(const uint4 *)(stage + c * CHUNK + of_group<SIZE>(t + 1, 0));
#pragma unroll
      for (int i = 0; i < WORDS; ++i)
        word[i] =
            SIZE == 2 ? __byte_perm(word[i + SHIFT], word[i + SHIFT + 1], halves) : word[i + SHIFT];
#pragma unroll
      for (int i = 0; i < GPURED__LANES; ++i) {
        widen<D>(SIZE == 2 ? (S)(word[i / 2] >> i % 2 * 16) : (S)word[i % WORDS], &x[i]);
        flip_element<K>(&x[i], a.j);
        v[c][i] = i ? combined<K>(x[i - 1], x[i]) : x[i];
      }
    }
  }
  template <int K, class T>
  GPURED__DEV void read(const line_scan &a, const char *stage, const row_place &p,
                        T (&v)[C][GPURED__LANES]) {
    const unsigned halves = p.before & 2 ? 0x5432u : 0x3210u;
    if (p.before < 4)
      read_shifted<K, 0>(a, stage, halves, v);
    else if (p.before < 8)
      read_shifted<K, 1>(a, stage, halves, v);
    else if (p.before < 12)
      read_shifted<K, 2>(a, stage, halves, v);
    else
      read_shifted<K, 3>(a, stage, halves, v);
  }

  /* Results to where they lie behind a border: a thread has the vectors between its group and the
   * one before it, from whose last words its own follow. */
  template <int SHIFT>
  GPURED__DEV void write_shifted(char *stage, unsigned halves, const uint32_t (&word)[C][WORDS]) {
    enum { BEFORE = SHIFT + (SIZE == 2) };
    const int t = (int)(threadIdx.x % 32);
    uint32_t last[4] = {0, 0, 0, 0}; /* of the chunk before */
#pragma unroll
    for (int c = 0; c <= C; ++c) {
      uint32_t x[WORDS + 4], y[WORDS];
#pragma unroll
      for (int i = 0; i < BEFORE; ++i) {
        const uint32_t left =
            c < C ? __shfl_sync(0xffffffffu, word[c % C][WORDS - BEFORE + i], (t + 31) & 31) : 0;
        x[i] = t ? left : last[i];
        last[i] = left;
      }
#pragma unroll
      for (int i = 0; i < WORDS; ++i) x[BEFORE + i] = c < C ? word[c % C][i] : 0;
#pragma unroll
      for (int i = 0; i < WORDS; ++i)
        y[i] = SIZE == 2 ? __byte_perm(x[i], x[i + 1], halves)
                         : __float_as_uint(canonical(__uint_as_float(x[i])));
      if (c < C)
        stream_write_group<SIZE>(stage + c * CHUNK, y);
      else if (t == 0) /* what is left of the last thread's */
        *(uint4 *)(stage + c * CHUNK) = make_uint4(y[0], y[1], y[2], y[3]);
    }
  }
  GPURED__DEV void write(char *stage, const row_place &p, const uint32_t (&word)[C][WORDS]) {
    const unsigned halves = p.before & 2 ? 0x5432u : 0x7654u;
    if (p.before < 4)
      write_shifted<0>(stage, halves, word);
    else if (p.before < 8)
      write_shifted<1>(stage, halves, word);
    else if (p.before < 12)
      write_shifted<2>(stage, halves, word);
    else
      write_shifted<3>(stage, halves, word);
  }
  /* Vectors, and the elements of the first and the last one if they are not all the line's. */
  GPURED__DEV void store(const char *stage, const row_place &p) {
    const int t = (int)(threadIdx.x % 32), first = p.before > 0, whole = p.end / 16;
    const int own = spread_vector(t);
#pragma unroll
    for (int i = 0; i < VECTORS + 1; i += 32)
      if (t + i >= first && t + i < whole)
        __stcs((uint4 *)p.border + t + i,
               *(const uint4 *)(stage + 16 * ((own ^ (i >> 3 & 4)) + i)));
    const int at = (t < 16 ? p.before : whole * 16) + (t & 15) * SIZE;
    if (at < (t < 16 ? first * 16 : p.end))
      *(S *)(p.border + at) = *(const S *)(stage + 16 * spread_vector(at / 16) + at % 16);
  }
};

/* A line that read() has begun becomes its results. */
template <int A, int K, int C, class T>
GPURED__DEV void scan_registers(const line_scan &a, T (&v)[C][GPURED__LANES]) {
  const int t = (int)(threadIdx.x % 32), p = t & 15;
  T h1[C], own, last = A == GPURED__U64 ? (T)a.empty_integer : (T)a.empty_real;
  set_neutral<K>(&own);
#pragma unroll
  for (int c = 0; c < C; ++c) {
    doubling<K, T, 2>::scan(v[c]);
    h1[c] = scan_across<K>(v[c][GPURED__LANES - 1], p);
    const T total = from_thread(h1[c], p % 2 * GPURED__LANES + GPURED__LANES - 1, 32);
    if (p / 2 == c) own = total;
  }
  const T h2 = scan_across<K>(own, p);
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int half = 2 * c + t / GPURED__LANES;
    const T above = from_thread(h2, (half + 15) % 16, GPURED__LANES), left = from_above(h1[c], 1);
    T e;
    set_neutral<K>(&e);
    if (half) e = combined<K>(e, above);
    if (p) e = combined<K>(e, left);
#pragma unroll
    for (int i = 0; i < GPURED__LANES; ++i) {
      v[c][i] = combined<K>(e, v[c][i]);
      flip_element<K>(&v[c][i], a.j);
    }
    if (!a.exclusive) continue;
    const T before = from_thread(v[c][GPURED__LANES - 1], (t + 31) & 31, 32);
#pragma unroll
    for (int i = GPURED__LANES - 1; i > 0; --i) v[c][i] = v[c][i - 1];
    v[c][0] = t ? before : last;
    last = before;
  }
}

template <int A, int K, int D, int C>
static __global__ void __launch_bounds__(line_warps(C, stored<D>::SIZE) * 32, 1)
    scan_rows(const line_scan a) {
  typedef typename acc<A>::T T;
  typedef scan_row<D, C> row;
  extern __shared__ __align__(128) char space[];
  const int warp = from_thread((int)threadIdx.x / 32, 0, 32);
  const unsigned mine = blockDim.x / 32, warps = gridDim.x * mine, lines = (unsigned)a.lines;
  const bool asks = threadIdx.x % 32 == 0;
  char *const from = space + warp * 2 * a.tile_bytes, *const to = from + a.tile_bytes;
  unsigned line = (blockIdx.x * mine + (unsigned)warp) * lines, left = lines;
  unsigned ticket = a.state ? stream_ticket(a, asks) : 0;
  clear_used(a, (int)threadIdx.x, (int)blockDim.x);
  if (line < a.j.outputs) row::fetch(a, line, from);
  while (line < a.j.outputs) {
    unsigned next = line + 1;
    T v[C][GPURED__LANES];
    uint32_t word[C][row::WORDS];
    copies_wait();
    __syncwarp();
    row::template read<K>(a, from, row_place::of<row::SIZE>(a, line, GPURED__IN), v);
    __syncwarp();
    if (--left == 0) {
      next = (warps + ticket) * lines;
      ticket = a.state ? stream_ticket(a, asks) : 0;
      left = lines;
    }
    next = from_thread(next, 0, 32);
    if (next < a.j.outputs) row::fetch(a, next, from);
    scan_registers<A, K, C>(a, v);
#pragma unroll
    for (int c = 0; c < C; ++c) {
      if (row::SIZE == sizeof(T))
        memcpy(word[c], v[c], sizeof word[c]); /* write() looks for NaN */
      else
        pack_values<D, GPURED__LANES>(v[c], (typename row::S *)word[c]);
    }
    const row_place place = row_place::of<row::SIZE>(a, line, GPURED__OUT);
    row::write(to, place, word);
    __syncwarp();
    row::store(to, place);
    __syncwarp();
    line = next;
  }
}

/* ---- Few tiles of contiguous lines ---- */
/*
 * Where every tile has a block of threads at once, what counts is how soon the last one is done. So
 * tiles are of one chunk, and a thread has a group in its registers. A tile reads the totals of all
 * tiles in front of it in its line, two in each thread, and makes the levels above of them itself:
 * a total that another tile makes of them would be there later. The code is short, since it comes
 * from memory too. Both tensors have one dtype.
 */
enum { ONCE_TILES = 2 * SCAN_THREADS, ONCE_PART = 32 * GPURED__LANES };

/* A warp's elements: on their way from and to memory neighbours are in neighbouring threads, and in
 * between a group is in one thread. Vectors are spread over the banks. */
template <class S>
struct once_part {
  enum { SIZE = sizeof(S), V = 16 / SIZE };
  uint4 *stage;
  int count; /* of the part's elements are in the line */

  __device__ __forceinline__ uint4 *vector(int v) const { return stage + spread_vector(v); }
  __device__ __forceinline__ S *element(int e) const { return (S *)vector(e / V) + e % V; }

  __device__ __forceinline__ void fetch(const S *from, int64_t stride, bool aligned) const {
    const int lane = (int)threadIdx.x % 32;
    if (aligned && count == ONCE_PART) {
#pragma unroll
      for (int v = lane; v < 32 * SIZE; v += 32) copy_16(vector(v), (const char *)(from + v * V));
      copies_wait();
    } else {
      S x[GPURED__LANES];
#pragma unroll
      for (int i = 0; i < GPURED__LANES; ++i)
        x[i] = i * 32 + lane < count ? from[(i * 32 + lane) * stride] : S(0);
#pragma unroll
      for (int i = 0; i < GPURED__LANES; ++i) *element(i * 32 + lane) = x[i];
    }
    __syncwarp();
  }
  __device__ __forceinline__ void store(S *to, int64_t stride, bool aligned) const {
    const int lane = (int)threadIdx.x % 32;
    __syncwarp();
    if (aligned && count == ONCE_PART) {
#pragma unroll
      for (int v = lane; v < 32 * SIZE; v += 32) *(uint4 *)(to + v * V) = *vector(v);
    } else {
#pragma unroll
      for (int i = 0; i < GPURED__LANES; ++i)
        if (i * 32 + lane < count) to[(i * 32 + lane) * stride] = *element(i * 32 + lane);
    }
  }
};

/* E_3 of a chunk, the one at place `chunk` of a line whose totals begin at word `first`. */
template <int K, class T>
GPURED__DEV T once_before(const line_scan &a, int first, int chunk, T *groups) {
  const int t = (int)threadIdx.x, p = t % GPURED__LANES, group = chunk / GPURED__LANES;
  T *const own = groups + ONCE_TILES / GPURED__LANES; /* H_3 in front of the chunk */
  T x, e;
#pragma unroll
  for (int from = 0; from < ONCE_TILES; from += SCAN_THREADS) {
    const int at = from + t;
    if (at - t % 32 >= chunk) break;
    set_neutral<K>(&x);
    if (at < chunk)
      while (!look(a.state, first + at, &x)) continue;
    __syncwarp();
    x = scan_across<K>(x, p);
    if (p == GPURED__LANES - 1) groups[at / GPURED__LANES] = x;
    if (at == chunk - 1) *own = x;
  }
  __syncthreads();
  x = scan_across<K>(groups[t % 32], p);
  const T top = from_thread(x, GPURED__LANES - 1, 32), left = from_thread(x, (group - 1) & 31, 32);
  set_neutral<K>(&e);
  if (group >= GPURED__LANES) e = top;
  if (group % GPURED__LANES) e = combined<K>(e, left);
  return chunk % GPURED__LANES ? combined<K>(e, *own) : e;
}

/* Exclusive results: a group's move up by one place, and the last one to the thread behind. */
template <int A, class T>
GPURED__DEV void once_exclude(const line_scan &a, int number, int chunk, T *v) {
  __shared__ T ends[SCAN_THREADS / 32];
  const int t = (int)threadIdx.x;
  T before = from_thread(v[GPURED__LANES - 1], (t - 1) & 31, 32);
  if (t % 32 == 31) ends[t / 32] = v[GPURED__LANES - 1];
  if (t == SCAN_THREADS - 1 && chunk + 1 < a.line_tiles)
    show(a.state, a.last_at + number, v[GPURED__LANES - 1]);
  __syncthreads();
  if (t && t % 32 == 0) before = ends[t / 32 - 1];
  if (t == 0) {
    before = A == GPURED__U64 ? (T)a.empty_integer : (T)a.empty_real;
    if (chunk > 0)
      while (!look(a.state, a.last_at + number - 1, &before)) continue;
  }
#pragma unroll
  for (int i = GPURED__LANES - 1; i > 0; --i) v[i] = v[i - 1];
  v[0] = before;
}

/* A tile's chunk of its line, and a warp's part of it. */
struct once_place {
  int line, chunk;
  int64_t from; /* the part's first element in the line */

  __device__ __forceinline__ once_place(const line_scan &a, int number) {
    line = number / (int)a.line_tiles;
    chunk = number - line * (int)a.line_tiles;
    from = (int64_t)chunk * SCAN_CHUNK + threadIdx.x / 32 * ONCE_PART;
  }
  template <class S>
  __device__ __forceinline__ S *at(const line_scan &a, const char *base, int operand,
                                   int64_t stride) const {
    return (S *)base + line_place(a, line, operand) + from * stride;
  }
  __device__ __forceinline__ int count(const line_scan &a) const {
    const int64_t left = a.j.n - from;
    return left < 0 ? 0 : left < ONCE_PART ? (int)left : (int)ONCE_PART;
  }
};

/* The tile that a block of threads has: a ticket, since it waits for those in front. Tickets mostly
 * come in the order of the blocks, so memory can begin with a tile before its ticket is there. */
template <class S>
GPURED__DEV int once_ticket(const line_scan &a) {
  enum { LINE = 128 / sizeof(S) };
  __shared__ unsigned long long ticket;
  const int t = (int)threadIdx.x;
  if (a.line_tiles == 1) return (int)blockIdx.x;
  if (t == 0) ticket = atomicAdd(a.state, 1ull);
#if defined(__CUDA_ARCH__)
  const once_place expected(a, (int)blockIdx.x);
  const S *from = expected.at<const S>(a, a.j.in, GPURED__IN, a.in_stride);
  const int e = t % 32 * LINE;
  if (e < expected.count(a)) asm volatile("prefetch.global.L2 [%0];" ::"l"(from + e * a.in_stride));
#endif
  clear_used(a, t, SCAN_THREADS);
  __syncthreads();
  return (int)ticket;
}

template <int A, int K, int D>
static __global__ void __launch_bounds__(SCAN_THREADS, scan_resident(sizeof(typename acc<A>::T)))
    scan_at_once(const line_scan a) {
  typedef typename acc<A>::T T;
  typedef typename stored<D>::S S;
  enum { SIZE = sizeof(S), V = 16 / SIZE };
  __shared__ uint4 stage[SCAN_CHUNK / V];
  __shared__ T totals[GPURED__LANES], groups[ONCE_TILES / GPURED__LANES + 1];
  const int t = (int)threadIdx.x, p = t % GPURED__LANES, half = t / GPURED__LANES;
  const int number = once_ticket<S>(a);
  const once_place place(a, number);
  const once_part<S> part = {stage + t / 32 * (ONCE_PART / V), place.count(a)};
  part.fetch(place.at<const S>(a, a.j.in, GPURED__IN, a.in_stride), a.in_stride, a.aligned_in);
  T v[GPURED__LANES];
  uint4 raw[SIZE];
#pragma unroll
  for (int i = 0; i < GPURED__LANES; ++i) {
    if (i % V == 0) raw[i / V] = *part.vector(t % 32 * SIZE + i / V);
    widen<D>(element_of<D>(raw[i / V], i % V), &v[i]);
    v[i] = scanned<A, K>::enter(v[i], a.j);
  }
  doubling<K, T, 1>::scan(v);
  const T h1 = scan_across<K>(v[GPURED__LANES - 1], p);
  if (p == GPURED__LANES - 1) totals[half] = h1;
  __syncthreads();
  const T h2 = scan_across<K>(totals[p], p);
  delay(number);
  if (t == GPURED__LANES - 1 && place.chunk + 1 < a.line_tiles) show(a.state, number, h2);
  T e = once_before<K>(a, number - place.chunk, place.chunk, groups);
  const T above = from_thread(h2, half - 1, GPURED__LANES), left = from_above(h1, 1);
  if (half) e = combined<K>(e, above);
  if (p) e = combined<K>(e, left);
#pragma unroll
  for (int i = 0; i < GPURED__LANES; ++i) v[i] = scanned<A, K>::leave(combined<K>(e, v[i]), a.j);
  if (a.exclusive) once_exclude<A>(a, number, place.chunk, v);
  pack_values<D, GPURED__LANES>(v, (S *)raw);
#pragma unroll
  for (int i = 0; i < SIZE; ++i) *part.vector(t % 32 * SIZE + i) = raw[i];
  part.store(place.at<S>(a, a.j.out, GPURED__OUT, a.out_stride), a.out_stride, a.aligned_out);
}

/* ============================================================================================== */
/* 9  The host: errors, devices, launches, memory                                                 */
/* ============================================================================================== */
/* What tables of kernels are asked for. */
enum { ROUTE_EMPTY, ROUTE_ALONE, ROUTE_ANY, ROUTE_READ, ROUTE_CHANNELS, ROUTE_BEST };
enum {
  READ_EACH,
  READ_SOME,
  READ_WHOLE,
  READ_LONG,
  READ_RAGGED_EACH,
  READ_RAGGED,
  READ_RAGGED_LONG,
  READ_COLS,
  READ_SHORT_COLS,
  READ_LOOSE_SHORT_COLS,
  READ_FEW_COLS,
  READ_LOOSE_FEW_COLS,
  READ_TWO_SHORT_COLS,
  READ_TWO_FEW_COLS,
  READ_LANE_COLS, /* up to 16 rows, one of each lane */
  READ_LOOSE_LANE_COLS,
  READ_PAIR_COLS, /* up to 32, two of each */
  READ_LOOSE_PAIR_COLS,
  READ_SINGLE_COLS,
  READ_LOOSE_COL_UNITS,
  READ_COL_UNITS, /* of one block side by side, and of two and four */
  READ_TWO_COL_UNITS,
  READ_FOUR_COL_UNITS,
  READ_COL_STRIPS,
  READ_TURNED_STRIPS,
  READ_ITEMS,
  READ_SMALL,
  READ_ITEM_UNITS
};
enum { DOT_ACROSS, DOT_TOUCHING, DOT_SHORT, DOT_ALONG, DOT_ANY, DOT_SEGMENTS };
enum {
  TILE_WIDE,
  TILE_HALF,
  TILE_QUARTER,
  TILE_LOW,
  TILE_NARROW,
  TILE_LOW_NARROW,
  TILE_FLAT,
  TILE_THIN,
  TILE_FLAT_THIN,
  TILE_LOOSE_LOW,
  TILE_LOOSE,
  TILE_LOOSE_WIDE
};
enum { UNITS_WHOLE, UNITS_LOW, UNITS_NARROW, UNITS_LOOSE, UNITS_NONE };

/* The device that a call runs on, made current for its time. */
struct machine {
  int device, before, processors, shared, major;
  int passing; /* the stream is made for this call alone */
  cudaStream_t stream;
};

#if GPURED__HAS(0)
/* What an error of the runtime means to a caller. It is taken off the runtime's record, so that
 * it is not met again by somebody else. */
static gpured_status status_of(cudaError_t error) {
  if (error == cudaSuccess) return GPURED_OK;
  (void)cudaGetLastError();
  switch (error) {
    case cudaErrorMemoryAllocation:
      return GPURED_ERR_ALLOC;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorInitializationError:
      return GPURED_ERR_NO_BACKEND;
    default:
      return GPURED_ERR_DEVICE;
  }
}

#define GPURED__TRY(call)                           \
  do {                                              \
    gpured_status try_status = status_of(call);     \
    if (try_status != GPURED_OK) return try_status; \
  } while (0)

/* What is kept between calls is kept for this many devices. */
enum { DEVICES_MOST = 64 };

/* What is known of a device is asked once: a small call costs about as much as its questions. */
static gpured_status know(machine *m) {
  static uint64_t facts[DEVICES_MOST];
  uint64_t *mine = &facts[m->device % DEVICES_MOST];
  uint64_t known = m->device < DEVICES_MOST ? __atomic_load_n(mine, __ATOMIC_RELAXED) : 0;
  if (!known) {
    GPURED__TRY(cudaDeviceGetAttribute(&m->processors, cudaDevAttrMultiProcessorCount, m->device));
    GPURED__TRY(cudaDeviceGetAttribute(&m->major, cudaDevAttrComputeCapabilityMajor, m->device));
    GPURED__TRY(
        cudaDeviceGetAttribute(&m->shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, m->device));
    known = (uint64_t)m->shared << 32 | (uint64_t)m->major << 16 | (uint64_t)m->processors;
    if (m->device < DEVICES_MOST) __atomic_store_n(mine, known, __ATOMIC_RELAXED);
  }
  m->shared = (int)(known >> 32);
  m->major = (int)(known >> 16 & 0xffffu);
  m->processors = (int)(known & 0xffffu);
  return GPURED_OK;
}

static gpured_status leave(const machine *m, gpured_status st) {
  if (m->device != m->before) {
    gpured_status back = status_of(cudaSetDevice(m->before));
    if (st == GPURED_OK) st = back;
  }
  return st;
}

static gpured_status enter(const gpured__call *call, machine *m) {
  gpured_status st;
  int count = 0;
  GPURED__TRY(cudaGetDevice(&m->before));
  m->device = call->device == GPURED_CUDA_DEVICE ? call->device_id : m->before;
  m->passing = 0;
  m->stream = (cudaStream_t)call->o.stream;
  if (m->device != m->before) {
    GPURED__TRY(cudaGetDeviceCount(&count));
    if (m->device >= count) return GPURED_ERR_NO_BACKEND;
    GPURED__TRY(cudaSetDevice(m->device));
  }
  st = know(m);
  return st == GPURED_OK ? st : leave(m, st);
}

/* Is there a device that can run this file's code? Asked until the answer is yes. */
static int available(void) {
  static int known;
  cudaFuncAttributes attributes;
  int count = 0;
  if (__atomic_load_n(&known, __ATOMIC_RELAXED)) return 1;
  if (status_of(cudaGetDeviceCount(&count)) != GPURED_OK || count < 1) return 0;
  if (status_of(cudaFuncGetAttributes(&attributes, (const void *)store_empty<double>)) != GPURED_OK)
    return 0;
  __atomic_store_n(&known, 1, __ATOMIC_RELAXED);
  return 1;
}

/*
 * Lets a kernel have all the shared memory of a block, once for each kernel and device: the answer
 * costs as much as a launch, and a smaller size asked for by another thread would take it away
 * again. Kernels that find no place in the table ask every time.
 */
static gpured_status allow_shared(const machine *m, const void *kernel) {
  enum { KERNELS = 1024, TRIES = 8 };
  static uint64_t allowed[KERNELS];
  const uint64_t key = (uint64_t)(uintptr_t)kernel ^ (uint64_t)(m->device + 1) << 56;
  const unsigned at = (unsigned)(key * 0x9e3779b97f4a7c15u >> 54);
  uint64_t found = 0;
  cudaFuncAttributes attributes;
  int i;
  for (i = 0; i < TRIES; ++i) {
    found = __atomic_load_n(&allowed[(at + (unsigned)i) % KERNELS], __ATOMIC_RELAXED);
    if (found == key) return GPURED_OK;
    if (found == 0) break;
  }
  GPURED__TRY(cudaFuncGetAttributes(&attributes, kernel));
  GPURED__TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   m->shared - (int)attributes.sharedSizeBytes));
  if (i < TRIES)
    (void)__atomic_compare_exchange_n(&allowed[(at + (unsigned)i) % KERNELS], &found, key, 0,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return GPURED_OK;
}

static gpured_status launch_with(const machine *m, cudaLaunchAttribute *attribute,
                                 const void *kernel, int64_t blocks, int threads, size_t shared,
                                 void **arguments) {
  cudaLaunchConfig_t config = {};
  gpured_status st = shared > 40 * 1024 ? allow_shared(m, kernel) : GPURED_OK;
  if (st != GPURED_OK) return st;
  config.gridDim = dim3((unsigned)blocks);
  config.blockDim = dim3((unsigned)threads);
  config.dynamicSmemBytes = shared;
  config.stream = m->stream;
  config.attrs = attribute;
  config.numAttrs = attribute != NULL && m->major >= 9;
  return status_of(cudaLaunchKernelExC(&config, kernel, arguments));
}

static gpured_status launch(const machine *m, const void *kernel, int64_t blocks, int threads,
                            size_t shared, void **arguments) {
  return launch_with(m, NULL, kernel, blocks, threads, shared, arguments);
}

/* How a launch stands to the one in front of it: after its end, or at the same time, to wait for it
 * by itself where it must (after_launch_before). */
enum { LAUNCH_AFTER, LAUNCH_BESIDE };

static gpured_status launch_as(const machine *m, int how, const void *kernel, int64_t blocks,
                               int threads, size_t shared, void **arguments) {
  cudaLaunchAttribute early;
  memset(&early, 0, sizeof early);
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  return launch_with(m, how == LAUNCH_BESIDE ? &early : NULL, kernel, blocks, threads, shared,
                     arguments);
}

static gpured_status launch_in_clusters(const machine *m, int cluster, const void *kernel,
                                        int64_t blocks, int threads, size_t shared,
                                        void **arguments) {
  cudaLaunchAttribute size;
  memset(&size, 0, sizeof size);
  size.id = cudaLaunchAttributeClusterDimension;
  size.val.clusterDim.x = (unsigned)cluster;
  size.val.clusterDim.y = size.val.clusterDim.z = 1;
  return launch_with(m, cluster > 1 ? &size : NULL, kernel, blocks, threads, shared, arguments);
}

static gpured_status pool_create(const machine *m, cudaMemPool_t *pool) {
  unsigned long long keep = 64ull << 20;
  cudaMemPoolProps properties;
  memset(&properties, 0, sizeof properties);
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = m->device;
  GPURED__TRY(cudaMemPoolCreate(pool, &properties));
  (void)cudaMemPoolSetAttribute(*pool, cudaMemPoolAttrReleaseThreshold, &keep);
  return GPURED_OK;
}

/* Memory of a stream comes from a pool that keeps a little of it, one for each device, made when it
 * is first needed. The device's own pool gives all back whenever somebody waits: to have some again
 * takes 85 us, longer than most calls. A captured graph has memory of its own, not a pool's. */
static gpured_status pool_alloc(const machine *m, size_t bytes, char **p) {
  static cudaMemPool_t pools[DEVICES_MOST];
  const int slot = m->device % DEVICES_MOST;
  cudaMemPool_t pool = __atomic_load_n(&pools[slot], __ATOMIC_ACQUIRE), none = NULL;
  cudaStreamCaptureStatus capture;
  GPURED__TRY(cudaStreamIsCapturing(m->stream, &capture));
  if (capture != cudaStreamCaptureStatusNone || m->device >= DEVICES_MOST)
    return status_of(cudaMallocAsync((void **)p, bytes, m->stream));
  if (!pool) {
    const gpured_status st = pool_create(m, &pool);
    if (st != GPURED_OK) return st;
    if (!__atomic_compare_exchange_n(&pools[slot], &none, pool, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
      (void)cudaMemPoolDestroy(pool);
      pool = none;
    }
  }
  return status_of(cudaMallocFromPoolAsync((void **)p, bytes, pool, m->stream));
}

/* Scratch memory on the device, for one call: the caller's, the hook's, or the pool's. */
struct scratch {
  char *start;
  size_t bytes;
  int kind; /* 0: nothing to give back, 1: hook, 2: pool */
};

static gpured_status take(const gpured__call *call, const machine *m, size_t bytes, scratch *s) {
  const gpured_options *o = &call->o;
  const int host = call->device == GPURED_CPU; /* then the workspace would be the host's: none */
  s->start = NULL;
  s->bytes = bytes;
  s->kind = 0;
  if (!host && o->workspace) {
    if (o->workspace_bytes < bytes) return GPURED_ERR_WORKSPACE;
    s->start = (char *)o->workspace;
    return GPURED_OK;
  }
  if (bytes == 0) return GPURED_OK;
  if (!host && o->alloc) {
    s->start = (char *)o->alloc(o->user, bytes, o->stream);
    if (!s->start) return GPURED_ERR_ALLOC;
    s->kind = 1;
    return GPURED_OK;
  }
  const gpured_status st = pool_alloc(m, bytes, &s->start);
  if (st == GPURED_OK) s->kind = 2;
  return st;
}

static gpured_status give_back(const gpured__call *call, const machine *m, const scratch *s,
                               gpured_status st) {
  gpured_status freed = GPURED_OK;
  if (s->kind == 1) call->o.dealloc(call->o.user, s->start, s->bytes, call->o.stream);
  if (s->kind == 2) freed = status_of(cudaFreeAsync(s->start, m->stream));
  return st == GPURED_OK ? freed : st;
}

/* Does the device reach this pointer? Memory that only the host knows is refused. */
static gpured_status check_pointer(const machine *m, const void *p) {
  cudaPointerAttributes a;
  GPURED__TRY(cudaPointerGetAttributes(&a, p));
  if (a.type == cudaMemoryTypeUnregistered) return GPURED_ERR_ARG;
  if (a.type == cudaMemoryTypeDevice && a.device != m->device) return GPURED_ERR_ARG;
  return GPURED_OK;
}

/*
 * Which of `places` places is the stream's, or -1 where it has none: a stream keeps its place for
 * good, named by its id, which no other stream ever has; those that come when all are taken have
 * none. Nor has a captured graph, which may be replayed beside whatever the stream does then, or a
 * stream that is made for one call.
 */
static gpured_status place_of_stream(const machine *m, uint64_t *owners, int places, int *place) {
  enum { TRIES = 16 };
  cudaStreamCaptureStatus capture;
  unsigned long long id;
  int i;
  *place = -1;
  if (m->passing || m->device >= DEVICES_MOST) return GPURED_OK;
  GPURED__TRY(cudaStreamIsCapturing(m->stream, &capture));
  if (capture != cudaStreamCaptureStatusNone) return GPURED_OK;
  GPURED__TRY(cudaStreamGetId(m->stream, &id));
  const uint64_t key = (id + 1) * DEVICES_MOST + (uint64_t)m->device;
  unsigned at = (unsigned)(key * 0x9e3779b97f4a7c15u >> 32) % (unsigned)places;
  for (i = 0; i < TRIES && *place < 0; ++i, at = (at + 1) % (unsigned)places) {
    uint64_t owner = 0;
    if (__atomic_load_n(&owners[at], __ATOMIC_RELAXED) == key ||
        __atomic_compare_exchange_n(&owners[at], &owner, key, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED) ||
        owner == key)
      *place = (int)at;
  }
  return GPURED_OK;
}

static int log2_up(int64_t n) {
  int k = 0;
  while ((int64_t)1 << k < n) ++k;
  return k;
}

/* ============================================================================================== */
/* 10  Reduce: which kernel, and how much of it                                                   */
/* ============================================================================================== */
/* A plan of gpured.h in the terms of the kernels above, and how it is launched. */
struct reduction {
  job j;
  int acc, kind, dtype;    /* dtype: as kernels know it, by size where only that matters */
  int route, how, threads; /* how: which reading kernel */
  int lanes;               /* of a segment's node */
  int meets;               /* segments can, without a second launch */
  int64_t blocks;
  size_t shared, workspace;
  rows r;
  cols c;
  item_cells s;
  channels h;
};

static int kind_of(int kernel) {
  switch (kernel) {
    case GPURED__ADD_SQUARE:
      return K_SQUARE;
    case GPURED__MUL:
      return K_MUL;
    case GPURED__MIN:
    case GPURED__MAX:
    case GPURED__MAX_ABS:
      return K_MAX;
    case GPURED__ARG_MIN:
    case GPURED__ARG_MAX:
      return K_ARG;
    case GPURED__LSE:
      return K_LSE;
    case GPURED__MOMENTS:
      return K_MOMENTS;
    default:
      return K_ADD;
  }
}

/* How far the farthest element lies behind the first one. */
static int64_t reach(const gpured__axis *axis, int count) {
  int64_t far = 0;
  for (int i = 0; i < count; ++i)
    if (axis[i].stride[GPURED__IN] > 0) far += axis[i].stride[GPURED__IN] * (axis[i].n - 1);
  return far;
}

static void describe(const gpured__plan *p, job *j) {
  const uint64_t sign = p->acc == GPURED__F32 ? (uint64_t)0x80000000u : (uint64_t)1 << 63;
  memset(j, 0, sizeof *j);
  j->op = p->op;
  j->in_dtype = p->in_dtype;
  j->out_dtype = p->out_dtype;
  j->how = p->fetch == GPURED__ABS && !gpured__is_signed(p->in_dtype) ? GPURED__PLAIN : p->fetch;
  j->ddof = p->ddof;
  j->n = p->n;
  j->outputs = p->outputs;
  j->in = (const char *)p->in;
  j->end = (const char *)((uintptr_t)p->in + (uintptr_t)(1 + reach(p->kept, p->kept_count) +
                                                         reach(p->line, p->line_count)) *
                                                 gpured__dtype_size(p->in_dtype));
  j->out = (char *)p->out;
  j->kept_count = p->kept_count;
  j->line_count = p->line_count;
  memcpy(j->kept, p->kept, sizeof j->kept);
  memcpy(j->line, p->line, sizeof j->line);
  j->keep = ~(uint64_t)0;
  if (p->kernel == GPURED__ADD_ABS || p->kernel == GPURED__MAX_ABS) j->keep = sign - 1;
  if (p->fetch == GPURED__BIAS) j->flip = sign;
  if (p->kernel == GPURED__MIN || p->kernel == GPURED__ARG_MIN)
    j->flip ^= p->acc == GPURED__U64 ? ~(uint64_t)0 : sign;
  j->segments = 1;
  j->place = -1;
}

/* ---- Kernels ---- */

/* For nodes of one lane, where they could have 16. */
static const void *single_finish_kernel_of(const reduction *r) {
  if (r->acc != GPURED__U64)
    return r->acc == GPURED__F32 ? (const void *)reduce_finish<GPURED__F32, K_MAX, 1>
                                 : (const void *)reduce_finish<GPURED__F64, K_MAX, 1>;
  if (r->kind == K_MAX) return (const void *)reduce_finish<GPURED__U64, K_MAX, 1>;
  if (r->kind == K_MUL) return (const void *)reduce_finish<GPURED__U64, K_MUL, 1>;
  return (const void *)reduce_finish<GPURED__U64, K_ADD, 1>;
}

template <int A>
static const void *finish_kernel(int k) {
  switch (k) {
    case K_ADD:
      return (const void *)reduce_finish<A, K_ADD>;
    case K_SQUARE: /* squares have been taken: their sums are left */
      return (const void *)reduce_finish<A, K_SQUARE>;
    case K_MUL:
      return (const void *)reduce_finish<A, K_MUL>;
    case K_MAX:
      return (const void *)reduce_finish<A, K_MAX>;
    case K_ARG:
      return (const void *)reduce_finish<A, K_ARG>;
  }
  return NULL;
}

static const void *finish_kernel_of(const reduction *r) {
  if (r->lanes == 1 && r->kind < K_ARG) return single_finish_kernel_of(r);
  if (r->acc == GPURED__U64) return finish_kernel<GPURED__U64>(r->kind);
  if (r->acc == GPURED__F32) {
    if (r->kind == K_LSE) return (const void *)reduce_finish<GPURED__F32, K_LSE>;
    if (r->kind == K_MOMENTS) return (const void *)reduce_finish<GPURED__F32, K_MOMENTS>;
    return finish_kernel<GPURED__F32>(r->kind);
  }
  if (r->kind == K_LSE) return (const void *)reduce_finish<GPURED__F64, K_LSE>;
  if (r->kind == K_MOMENTS) return (const void *)reduce_finish<GPURED__F64, K_MOMENTS>;
  return finish_kernel<GPURED__F64>(r->kind);
}

/* A kernel that reads memory as it lies; NULL: there is none. */
static const void *reading_kernel(const reduction *r, int how) {
  switch (r->acc * 16 + r->dtype) {
    case GPURED__F32 * 16 + GPURED_F32:
      return gpured__f32_kernel(how, r->kind);
    case GPURED__F32 * 16 + GPURED_F16:
      return gpured__f16_kernel(how, r->kind);
    case GPURED__F32 * 16 + GPURED_BF16:
      return gpured__bf16_kernel(how, r->kind);
    case GPURED__F64 * 16 + GPURED_F32:
      return gpured__f32_in_f64_kernel(how, r->kind);
    case GPURED__F64 * 16 + GPURED_F64:
      return gpured__f64_kernel(how, r->kind);
  }
  if (r->acc == GPURED__F64) return gpured__real_kernel(r->dtype, how, r->kind);
  if (r->acc != GPURED__U64) return NULL;
  if (r->dtype == GPURED_F32 || r->dtype == GPURED_F64 || r->dtype == GPURED_F16)
    return gpured__truth_kernel(r->dtype, how, r->kind);
  if (gpured__dtype_size(r->dtype) == 1) return gpured__byte_kernel(r->dtype, how, r->kind);
  return gpured__integer_kernel(r->dtype, how, r->kind);
}

/* ---- Routes ---- */

static size_t node_bytes(const reduction *r) {
  const size_t t = r->acc == GPURED__F32 ? 4 : 8;
  if (r->kind == K_ARG) return 16;
  if (r->kind == K_LSE) return 2 * t;
  if (r->kind == K_MOMENTS) return r->acc == GPURED__F32 ? 16 : 24;
  return t;
}

/* Bytes of the nodes of all segments. */
static void set_workspace(reduction *r) {
  r->workspace = 0;
  if (r->j.segments > 1)
    r->workspace = (size_t)r->j.outputs * (size_t)r->j.segments * (size_t)r->lanes * node_bytes(r);
}

static int aligned(const reduction *r, int bytes, int except) {
  const int64_t size = (int64_t)gpured__dtype_size(r->j.in_dtype);
  int i;
  if ((uintptr_t)r->j.in % (uintptr_t)bytes) return 0;
  for (i = 0; i < r->j.kept_count; ++i)
    if (i != except && r->j.kept[i].stride[GPURED__IN] * size % bytes) return 0;
  return 1;
}

/* Values of a segment's node, where the order is not free. */
static int node_lanes(const reduction *r) { return r->kind >= K_ARG ? 1 : GPURED__LANES; }

/* Short sequences in a layout that no faster kernel reads, or whose elements are needed twice. */
static void choose_alone(const machine *m, reduction *r) {
  r->route = ROUTE_ALONE;
  r->threads = ANY_THREADS;
  r->shared = 0;
  r->j.segments = 1;
  r->blocks = gpured__ceil_div(r->j.outputs, ANY_THREADS);
  if (r->blocks > (int64_t)m->processors * 64) r->blocks = (int64_t)m->processors * 64;
}

static void choose_any(const machine *m, reduction *r) {
  const int64_t unit = r->kind >= K_ARG ? GPURED__WIDE_BLOCK : GPURED__BLOCK;
  const int64_t units = gpured__ceil_div(r->j.n, unit), halves = ANY_THREADS / ANY_LANES;
  int64_t wanted = (int64_t)m->processors * 256 / r->j.outputs, size = 1;
  if (wanted < 1) wanted = 1;
  if (wanted > FINISH_MOST) wanted = FINISH_MOST;
  while (size * wanted < units) size *= 2;
  r->route = ROUTE_ANY;
  r->lanes = node_lanes(r);
  r->j.segment_units = size;
  r->j.segments = gpured__ceil_div(units, size);
  r->threads = ANY_THREADS;
  r->shared = 0;
  r->blocks = gpured__ceil_div(r->j.outputs * r->j.segments, halves);
  if (r->blocks > (int64_t)m->processors * 64) r->blocks = (int64_t)m->processors * 64;
}

static int rows_are_dense(const reduction *r) {
  return r->j.kept_count == 0 ||
         (r->j.kept_count == 1 && r->j.kept[0].stride[GPURED__IN] == r->j.n);
}

/* Blocks of threads for tiles of short rows. */
static void set_row_blocks(reduction *r) {
  if (r->r.tile == 0) r->r.tile = tile_bytes(r->r.mode);
  r->shared = (size_t)ROWS_WARPS * (size_t)r->r.tile;
  r->blocks =
      gpured__ceil_div(gpured__ceil_div(r->j.outputs, r->r.blocks >> r->r.row_log2), ROWS_WARPS);
}

/* Logsumexp of ragged rows of more than a block: how many threads share a row, so that a warp has
 * several at once, and how large a tile is that holds those. What a tile costs once is less for
 * each of many rows; that is worth more than warps where rows suffice, which arrive by one copy.
 * Returns the rows of a tile. */
static int choose_spread(const machine *m, reduction *r, int bytes, int64_t blocks) {
  rows *w = &r->r;
  const int step = w->dense ? w->step : 16 * w->pitch;
  const int many = w->dense && r->j.outputs >= (int64_t)m->processors * SPREAD_ROWS;
  const int most = many ? +SPREAD_BYTES : SPREAD_BYTES_FEW, fit = 1 + (most - bytes) / step;
  const int few_at_once = blocks == 2 ? 4 : 2;
  const int many_at_once = many && blocks <= 4 ? 2 * few_at_once : few_at_once;
  const int at_once = fit >= many_at_once ? many_at_once : few_at_once;
  int span, count = 1 + (RAGGED_BYTES - bytes) / step;
  if (count < at_once && fit >= at_once) count = at_once;
  if (count > at_once) count = count / at_once * at_once;
  w->beside = count == 1 ? 32 : 32 / at_once;
  span = w->dense ? 127 + (count - 1) * step + bytes : count * step;
  w->tile = (span + 127) / 128 * 128;
  return count;
}

/* 2^32 / n, rounded up: __umulhi() with it is a quotient of what is less than 2^16. */
static unsigned recip_of(int64_t n) {
  return (unsigned)((((uint64_t)1 << 32) + (uint64_t)n - 1) / (uint64_t)n);
}

/* Rows of pieces begin at vectors of a tile, and those that threads read at the same time in
 * different banks: a thread for each, or SIZE threads. */
static void set_pitch_of_pieces(rows *w, int size, int each) {
  const int beside = each ? 1 : size, width = (w->length * size + 15) / 16;
  w->borders = w->length / (int)w->piece;
  w->width_recip = recip_of(width);
  w->pitch = (width + beside - 1) / beside * beside;
  if (w->pitch / beside % 2 == 0) w->pitch += beside;
}

/* The tile of pieces that are copied as they lie: each of their vectors not before the one that it
 * will be, nor among the eight of that. */
static void set_loose_tile(rows *w, int count, int vectors) {
  const int behind = count * w->pitch - vectors;
  w->loose = 8 + (behind > 0 ? behind : 0);
  vectors = (w->loose + vectors + 9) / 8 * 128;
  if (w->tile < vectors) w->tile = vectors;
}

/* Rows of a tile that has room for `count`: fewer where there are few in all, so that each
 * multiprocessor has some, but as many as a warp reduces at a time, or a multiple of it. */
static int share_rows(const machine *m, const reduction *r, int count, int at_once) {
  const int64_t share = gpured__ceil_div(r->j.outputs, (int64_t)m->processors * ROWS_WARPS);
  const int64_t rows = at_once > 1 ? gpured__ceil_div(share, at_once) * at_once : share;
  return rows < count ? (int)rows : count;
}

/* Ragged rows of at most a tile, as many as a warp reduces at a time, or a multiple of it. */
static void choose_ragged_rows(const machine *m, reduction *r, int size, int64_t blocks) {
  rows *w = &r->r;
  const int bytes = (int)r->j.n * size;
  const int by_word = r->acc == GPURED__U64 && (r->kind == K_ADD || r->kind >= K_MAX);
  const int each = size == 1 && !by_word
                       ? bytes <= (r->kind < K_ARG ? 4 : (int)GPURED__BLOCK)
                       : bytes <= (r->kind < K_ARG || by_word ? 16 * EACH_MOST : 352);
  const int64_t step = r->j.kept_count ? r->j.kept[0].stride[GPURED__IN] * size : 0;
  const int lines = (bytes + 254) / 128 * 8; /* vectors of those, wherever the row begins */
  const int shares = !each && shares_lse(r->acc, r->dtype, r->kind);
  int at_once = 32, count;
  w->mode = each ? ROWS_RAGGED_EACH : ROWS_RAGGED;
  w->row_log2 = log2_up(blocks);
  w->beside = size;
  if (!each) at_once = 32 / size >> w->row_log2;
  if (shares && blocks == 1) {
    w->beside = bytes <= 42 * 16 ? 2 : 4;
    at_once = 32 / w->beside;
  }
  w->length = (int)r->j.n;
  w->pitch = (bytes + 30) / 16; /* wherever the row begins */
  w->copiers_log2 = w->pitch > 16 ? 5 : log2_up(w->pitch);
  w->step = bytes;
  w->dense = !w->piece && rows_are_dense(r);
  if (!w->piece && r->j.kept_count == 1 && step > bytes && step <= bytes + bytes / 8) {
    w->dense = 1;
    w->step = (int)step;
  }
  w->line = 16;
  if (w->piece)
    set_pitch_of_pieces(w, size, each);
  else if (w->pitch > 16 && (TILE_VECTORS + 16) / lines >= TILE_VECTORS / w->pitch) {
    w->line = 128;
    w->pitch = lines;
  }
  count = w->dense ? 1 + (TILE_BYTES - bytes) / w->step : (TILE_VECTORS + 16) / w->pitch;
  if (count == 0) count = 1;
  if (count > at_once) count = count / at_once * at_once;
  if (shares && blocks > 1)
    count = choose_spread(m, r, bytes, blocks);
  else
    count = share_rows(m, r, count, at_once);
  w->blocks = count << w->row_log2;
  if (w->tile == 0) w->tile = tile_bytes(w->mode);
  if (w->piece && !w->whole) {
    w->loose_recip = recip_of(w->borders * w->piece_width);
    set_loose_tile(w, count, count * w->borders * w->piece_width);
  }
  set_row_blocks(r);
}

/* Rows of at most a tile, several to each. */
static void choose_short_rows(const machine *m, reduction *r, int size, int64_t blocks) {
  rows *w = &r->r;
  const int64_t vectors = r->j.n * size / 16;
  const int lse = shares_lse(r->acc, r->dtype, r->kind);
  int at_once, count;
  w->row_log2 = log2_up(blocks);
  w->width = blocks > 1 ? 16 * size : (int)vectors;
  w->width_log2 = (w->width & (w->width - 1)) == 0 ? log2_up(w->width) : -1;
  w->mode = vectors <= (lse ? EACH_LSE : EACH_MOST) ? ROWS_EACH
            : blocks > 1                            ? ROWS_WHOLE
                                                    : ROWS_SOME;
  w->beside = w->mode == ROWS_EACH ? 1 : lse && vectors <= 42 && vectors != 40 ? 2 : size;
  w->turns = lse && vectors == 24;
  w->blocks = TILE_VECTORS / w->width;
  at_once = 32 / w->beside;
  if (w->blocks > at_once) w->blocks = w->blocks / at_once * at_once;
  count = share_rows(m, r, w->blocks >> w->row_log2, at_once >> w->row_log2) << w->row_log2;
  if (count < w->blocks) w->blocks = count;
  w->dense = (int64_t)w->width << w->row_log2 == vectors && rows_are_dense(r);
  set_row_blocks(r);
}

/* How many warps, up to `most`, leave the fewest of them idle. */
static int row_warps(int64_t tiles, int most) {
  int warps, best = most;
  for (warps = most - 1; warps > 1; --warps)
    if (gpured__ceil_div(tiles, warps) * warps < gpured__ceil_div(tiles, best) * best) best = warps;
  return best;
}

/* Tiles of a segment, as a logarithm, where segments meet: so many that all of them run at once and
 * their nodes have room; those of tiles shall leave room for a second block of threads. Logsumexp,
 * which computes longest, has shorter segments where that makes no more than two of them to a
 * multiprocessor. 0: they cannot. */
static int meeting_tiles(const machine *m, const reduction *r) {
  const int64_t lanes = node_lanes(r), words = (int64_t)node_bytes(r) / 4 * lanes;
  const int64_t two = (int64_t)m->processors * 2;
  const int64_t at_once = two * LONG_WARPS / long_warps(r->kind);
  const int most = MEETING_TILES_LOG2 - (lanes > 1 && r->acc != GPURED__F32);
  int log2 = r->kind == K_LSE ? 1 : 2;
  int64_t segments;
  do {
    ++log2;
    segments = r->j.outputs * gpured__ceil_div(r->r.row_tiles, (int64_t)1 << log2);
  } while (segments > (log2 > 2 ? at_once : two) && log2 < most);
  if (segments > at_once) return 0;
  return segments * words + (r->j.outputs / 16 + 1) * 16 <= MEETING_WORDS ? log2 : 0;
}

/* The same where they do not. */
static int spread_tiles(const machine *m, const reduction *r) {
  const int64_t enough = (int64_t)m->processors * (r->j.outputs > 1 ? 32 : 3);
  const int64_t tiles = r->r.row_tiles;
  int log2 = ROWS_TILES_LOG2;
  while (log2 > 3 && ((int64_t)1 << (log2 - 1) >= tiles ||
                      r->j.outputs * gpured__ceil_div(tiles, (int64_t)1 << log2) < enough))
    --log2;
  while (log2 < ROWS_MOST_LOG2 && gpured__ceil_div(tiles, (int64_t)1 << log2) > FINISH_MOST) ++log2;
  return log2;
}

/* Rows of a few tiles whose blocks of threads would wait for each other while one folds: a warp has
 * one for itself where these are many. */
static int suits_own(const machine *m, const reduction *r) {
  return r->kind > K_ARG && r->j.segments == 1 && r->r.row_tiles <= OWN_TILES &&
         r->j.outputs >= (int64_t)m->processors * OWN_ROWS;
}

/* Longer rows, cut into segments where there are few. Segments of several rows are short, so that
 * all multiprocessors end at about the same time. */
static void choose_long_rows(const machine *m, reduction *r, int size, int64_t blocks, int mode) {
  rows *w = &r->r;
  size_t nodes;
  int few;
  w->mode = mode;
  w->width = 16 * size;
  w->width_log2 = log2_up(w->width);
  w->blocks = 32 / size;
  w->row_tiles = gpured__ceil_div(blocks, w->blocks);
  w->tile = tile_bytes(mode);
  if (w->piece && !w->whole)
    set_loose_tile(w, 0, TILE_VECTORS + 2 * (int)(TILE_BYTES / (w->piece * size) + 2));
  /* who brings many pieces together is not hidden by few blocks of threads */
  few = !w->piece || r->j.outputs * w->row_tiles <= (int64_t)m->processors * PIECES_MEETING;
  w->tiles_log2 = few ? meeting_tiles(m, r) : 0;
  r->meets = w->tiles_log2 > 0;
  if (!r->meets) w->tiles_log2 = spread_tiles(m, r);
  r->j.segments = gpured__ceil_div(w->row_tiles, (int64_t)1 << w->tiles_log2);
  r->blocks = r->j.outputs * r->j.segments;
  r->threads = long_warps(r->kind);
  w->own = suits_own(m, r);
  if (w->own) {
    w->tiles_log2 = log2_up(w->row_tiles);
    r->blocks = gpured__ceil_div(r->j.outputs, r->threads);
  } else if (r->j.segments == 1) {
    r->threads = row_warps(w->row_tiles, r->threads);
  }
  nodes = (size_t)(w->own ? r->threads : 1) << w->tiles_log2;
  r->shared = (size_t)(r->threads * w->tile) + nodes * node_bytes(r) * (r->kind >= K_ARG ? 1 : 16);
  r->threads *= 32;
}

/* Are rows that keep to 16 bytes better off as ragged ones? They are where their tiles do not begin
 * at lines of 128 bytes, which then arrive in pieces, and where their blocks do not fill a power of
 * two, which leaves gaps in the tiles; not where threads have a row each, nor where computing takes
 * longer than memory: what needs a short row twice, and logsumexp. That of floats shares out a
 * ragged row's exponentials evenly, which pays where blocks are missing, in rows of a few tiles. */
static int better_ragged(const reduction *r, int size, int64_t blocks) {
  const int64_t bytes = r->j.n * size;
  const int shares = shares_lse(r->acc, r->dtype, r->kind);
  const int full = r->j.n == (int64_t)GPURED__BLOCK << log2_up(blocks);
  if (shares && bytes > TILE_BYTES) return bytes % TILE_BYTES && bytes < 4 * TILE_BYTES;
  if (r->kind == K_LSE) return shares && !full && blocks > 1;
  if (bytes <= 16 * EACH_MOST || (r->kind >= K_ARG && blocks == 1)) return 0;
  if (bytes > TILE_BYTES) return !aligned(r, 128, -1);
  if (blocks > 1 && !full) return 1;
  if (!rows_are_dense(r)) return !aligned(r, 128, -1);
  return (uintptr_t)r->j.in % 128 || (32 / size >> log2_up(blocks)) * bytes % 128;
}

/* Do the pieces of sequences of several axes begin and end at 16 bytes? */
static int pieces_are_whole(const reduction *r, int size) {
  const int last = r->j.line_count - 1;
  int i;
  if (!aligned(r, 16, -1) || r->j.line[last].n * size % 16) return 0;
  for (i = 0; i < last; ++i)
    if (r->j.line[i].stride[GPURED__IN] * size % 16) return 0;
  return 1;
}

/* A sequence of several axes lies in pieces of its innermost one. Can tiles be filled with them?
 * several: with those of several sequences. */
static int has_pieces(reduction *r, int size, int several) {
  const int last = r->j.line_count - 1;
  const int64_t bytes = r->j.line[last].n * size;
  rows *w = &r->r;
  if (r->j.line[last].stride[GPURED__IN] != 1 || bytes < 16) return 0;
  if (last > 2 || (several && r->j.kept_count > 2)) return 0;
  if (last == 2 && r->j.line[1].n <= TILE_BYTES) w->outer_recip = recip_of(r->j.line[1].n);
  if (r->j.kept_count == 2 && r->j.kept[1].n <= TILE_BYTES)
    w->kept_recip = recip_of(r->j.kept[1].n);
  w->piece = r->j.line[last].n;
  if (bytes < TILE_BYTES) {
    w->piece_recip = recip_of(w->piece);
    w->piece_width = (int)(bytes + 30) / 16;
    w->piece_width_recip = recip_of(w->piece_width);
  }
  w->whole = pieces_are_whole(r, size);
  return 1;
}

static int choose_rows(const machine *m, reduction *r) {
  const int size = (int)gpured__dtype_size(r->j.in_dtype), groups = 32 / size;
  const int64_t blocks = gpured__ceil_div(r->j.n, GPURED__BLOCK);
  const int is_long = (int64_t)1 << log2_up(blocks) > groups;
  const int ragged = r->j.line_count > 1 || r->j.n * size % 16 || !aligned(r, 16, -1) ||
                     better_ragged(r, size, blocks);
  if (r->j.line_count == 1 && r->j.line[0].stride[GPURED__IN] != 1) return 0;
  if (!reading_kernel(r, READ_SOME)) return 0;
  memset(&r->r, 0, sizeof r->r);
  r->threads = ROWS_WARPS * 32;
  if (r->kind == K_LSE || r->kind == K_MOMENTS) r->r.unit_log2 = blocks >= 3 ? 2 : log2_up(blocks);
  if (r->j.line_count > 1 && !has_pieces(r, size, !is_long)) return 0;
  if (is_long)
    choose_long_rows(m, r, size, blocks, ragged ? ROWS_RAGGED_LONG : ROWS_LONG);
  else if (ragged)
    choose_ragged_rows(m, r, size, blocks);
  else
    choose_short_rows(m, r, size, blocks);
  if (r->blocks >= INT32_MAX || r->j.segments > FINISH_MOST || r->shared > (size_t)m->shared) {
    r->j.segments = 1;
    return 0;
  }
  r->route = ROUTE_READ;
  r->how = r->r.mode;
  return 1;
}

/* The kept axis of stride 1 goes last. Returns its extent, or 0. */
static int64_t put_columns_last(reduction *r) {
  int i, last = r->j.kept_count - 1;
  for (i = 0; i <= last; ++i)
    if (r->j.kept[i].stride[GPURED__IN] == 1) {
      gpured__axis t = r->j.kept[i];
      r->j.kept[i] = r->j.kept[last];
      r->j.kept[last] = t;
      return t.n;
    }
  return 0;
}

/* Are the results of V neighbouring columns whole vectors, of a type that packed_bits() has? loose:
 * which need not begin at borders of 16 bytes, if some of them lie side by side: neighbours that
 * begin differently are stored one after the other. */
static int can_pack(const reduction *r, int v, int loose, int64_t strips) {
  const int32_t d = r->j.out_dtype;
  const int64_t size = (int64_t)gpured__dtype_size(d);
  int i;
  if (gpured__is_float(d) != (r->acc != GPURED__U64 && r->kind != K_ARG)) return 0;
  if (r->acc == GPURED__F64 && r->kind != K_ARG && d != GPURED_F64) return 0;
  if (r->acc == GPURED__F32 && d == GPURED_F64) return 0;
  if (v * size % 16) return 0;
  if (r->j.kept[r->j.kept_count - 1].stride[GPURED__OUT] != 1) return 0;
  if (loose && strips * size >= 32) return 1;
  if ((uintptr_t)r->j.out % 16) return 0;
  for (i = 0; i < r->j.kept_count - 1; ++i)
    if (r->j.kept[i].stride[GPURED__OUT] * size % 16) return 0;
  return 1;
}

/* Up to 16 rows, one of each lane, all in registers: of what is needed twice, and of sums; of
 * variances up to 32. Many exponentials, one after the other, take longer where that leaves threads
 * idle, or registers are short. */
static int choose_lane_cols(const machine *m, const reduction *r, int64_t vectors, int loose) {
  const int pairs = r->j.n > GPURED__LANES;
  const int how = pairs   ? loose ? READ_LOOSE_PAIR_COLS : READ_PAIR_COLS
                  : loose ? READ_LOOSE_LANE_COLS
                          : READ_LANE_COLS;
  const int most = r->kind == K_MOMENTS                        ? COLS_PAIRS
                   : r->kind == K_LSE && r->acc == GPURED__F64 ? 12
                                                               : (int)GPURED__LANES;
  const int64_t busy = (int64_t)m->processors * SHORT_MANY;
  if (r->c.inner > 0 || r->j.n <= COLS_FEW || r->j.n > most) return 0;
  if ((r->kind == K_LSE && vectors < busy) || (pairs && vectors < busy / 2)) return 0;
  if (r->kind <= K_ARG && loose) return 0;
  return reading_kernel(r, how) ? how : 0;
}

/* A quotient of less than 2^31 by n > 1: the upper half of its product with *recip, shifted. (T.
 * Granlund, P. L. Montgomery: Division by invariant integers using multiplication, 1994.) */
static void set_divisor(int64_t n, unsigned *recip, int *shift) {
  const int log2 = log2_up(n);
  *recip = (unsigned)(((uint64_t)1 << (31 + log2)) / (uint64_t)n + 1);
  *shift = log2 - 1;
}

/* Sums of many columns, one to a thread: of rows that begin anywhere, or of so many that vectors of
 * all lanes do not fit the registers. */
static int choose_single_cols(const machine *m, reduction *r, int size, int lost) {
  cols *c = &r->c;
  const int most_in_vectors = !lost ? +COLS_PAIRS : size == 2 ? +GPURED__LANES : +COLS_FEW;
  if (r->j.n <= most_in_vectors || r->j.n > GPURED__BLOCK || c->inner || c->width == 1) return 0;
  if (!reading_kernel(r, READ_SINGLE_COLS)) return 0;
  if (r->j.outputs < (int64_t)m->processors * SINGLE_MANY || r->j.outputs > INT32_MAX) return 0;
  set_divisor(c->width, &c->width_recip, &c->width_shift);
  r->route = ROUTE_READ;
  r->how = READ_SINGLE_COLS;
  r->threads = SINGLE_THREADS;
  r->blocks = gpured__ceil_div(r->j.outputs, SINGLE_THREADS);
  r->shared = 0;
  return 1;
}

static int choose_short_cols(const machine *m, reduction *r, int64_t width, int size) {
  const int v = 16 / size, few = r->j.n <= COLS_FEW;
  const int two = r->c.inner > 0;
  const int loose = width % v || !aligned(r, 16, r->j.kept_count - 1) || r->c.row_bytes % 16;
  const int64_t rows = r->j.outputs / width, across = gpured__ceil_div(width, v);
  const int lanes = choose_lane_cols(m, r, rows * across, loose);
  const int how = two     ? few ? READ_TWO_FEW_COLS : READ_TWO_SHORT_COLS
                  : lanes ? lanes
                  : few   ? loose ? READ_LOOSE_FEW_COLS : READ_FEW_COLS
                  : loose ? READ_LOOSE_SHORT_COLS
                          : READ_SHORT_COLS;
  const int shared = loose && (lanes || (few && size >= 4)); /* as short_rows says */
  const int64_t strips = rows * (across + shared);
  if (r->j.n > GPURED__BLOCK || !reading_kernel(r, how)) return 0;
  if (two && (loose || r->c.jump % 16)) return 0;
  if (r->j.n > COLS_SHORT && width * size < SHORT_NARROW) return 0;
  while (!lanes && r->c.share_log2 < log2_up(gpured__ceil_div(r->j.n, GPURED__LANES)) &&
         strips << r->c.share_log2 < (int64_t)m->processors * SHORT_MANY)
    ++r->c.share_log2;
  r->route = ROUTE_READ;
  r->how = how;
  r->c.width = width;
  r->c.tiles = strips;
  r->c.packed = can_pack(r, v, loose, across);
  r->c.out_step = r->j.kept[r->j.kept_count - 1].stride[GPURED__OUT] *
                  (int64_t)gpured__dtype_size(r->j.out_dtype);
  r->threads = SHORT_THREADS;
  r->blocks = gpured__ceil_div(gpured__ceil_div(strips, (32 >> r->c.share_log2) - shared),
                               SHORT_THREADS / 32);
  if (r->blocks > INT32_MAX) r->blocks = INT32_MAX;
  r->shared = 0;
  return 1;
}

/* Shared memory of strips that wide. */
static size_t col_units_shared(const reduction *r, int v, int across_log2) {
  const cols *c = &r->c;
  const size_t t = r->acc == GPURED__F32 ? 4 : 8, columns = (size_t)v << across_log2;
  const size_t threads = (size_t)GPURED__LANES << (across_log2 + c->deep_log2);
  return UNIT_RING * UNIT_HALF * threads * 16 +
         columns * (t * (GPURED__LANES << c->deep_log2) + 2 * t +
                    node_bytes(r) * (size_t)(c->blocks_log2 + 1));
}

/* Do a thread's rows all begin at the same place of a strip's lines, so wide? */
static int rows_begin_alike(const cols *c, int across_log2, int lost) {
  return !c->inner && !lost && c->stride % ((int64_t)16 << across_log2) == 0;
}

/* Does a kernel know how its threads have units of these columns? */
static int units_are_even(const reduction *r, int lost) {
  const cols *c = &r->c;
  return r->threads == UNIT_THREADS && rows_begin_alike(c, c->across_log2, lost) &&
         reading_kernel(r, READ_COL_UNITS + c->deep_log2);
}

/* Columns that are needed twice: a strip's rows of a unit fill the threads. */
static int choose_col_units(const machine *m, reduction *r, int size, int lost) {
  cols *c = &r->c;
  const int v = 16 / size;
  const int64_t blocks = gpured__ceil_div(r->j.n, GPURED__BLOCK);
  int64_t units;
  if (!reading_kernel(r, READ_LOOSE_COL_UNITS)) return 0;
  c->deep_log2 = blocks > 2 ? 2 : log2_up(blocks);
  c->across_log2 = UNIT_ACROSS_LOG2 - c->deep_log2;
  if (c->across_log2 > log2_up(gpured__ceil_div(c->width + lost, v)))
    c->across_log2 = log2_up(gpured__ceil_div(c->width + lost, v));
  units = gpured__ceil_div(blocks, (int64_t)1 << c->deep_log2);
  while (gpured__ceil_div(units, (int64_t)1 << c->blocks_log2) > FINISH_MOST) ++c->blocks_log2;
  while (c->across_log2 > 0 && col_units_shared(r, v, c->across_log2) > (size_t)m->shared)
    --c->across_log2;
  c->columns = (v << c->across_log2) - lost;
  c->tiles = gpured__ceil_div(c->width, c->columns);
  while (c->blocks_log2 < UNIT_MOST_LOG2 &&
         r->j.outputs / c->width * c->tiles *
                 gpured__ceil_div(units, (int64_t)2 << c->blocks_log2) >=
             (int64_t)m->processors * UNIT_TURNS)
    ++c->blocks_log2;
  r->threads = GPURED__LANES << (c->across_log2 + c->deep_log2);
  r->shared = col_units_shared(r, v, c->across_log2);
  r->j.segments = gpured__ceil_div(units, (int64_t)1 << c->blocks_log2);
  r->blocks = r->j.outputs / c->width * c->tiles * r->j.segments;
  if (r->threads < 32 || r->blocks > INT32_MAX / 2 || r->shared > (size_t)m->shared) {
    r->j.segments = 1;
    return 0;
  }
  if (r->blocks > (int64_t)m->processors * (UNIT_THREADS / r->threads))
    r->blocks = (int64_t)m->processors * (UNIT_THREADS / r->threads);
  c->outers = (unsigned)(r->j.outputs / c->width);
  c->step[0] = (unsigned)(r->blocks % c->tiles);
  c->step[1] = (unsigned)(r->blocks / c->tiles % r->j.segments);
  c->step[2] = (unsigned)(r->blocks / c->tiles / r->j.segments);
  r->route = ROUTE_READ;
  r->how = READ_LOOSE_COL_UNITS;
  if (units_are_even(r, lost)) r->how = READ_COL_UNITS + c->deep_log2;
  r->j.beside = BESIDE_NODES;
  return 1;
}

/* Of many doubles shared memory has room for few strips: are units faster, whose threads know how
 * they have them, where it has room for those? Measured on an H200. */
static int suits_even_units(const machine *m, const reduction *r, int size, int lost) {
  const int64_t across = 2 << UNIT_ACROSS_LOG2; /* columns of a unit */
  return size == 8 && r->c.width >= across && rows_begin_alike(&r->c, UNIT_ACROSS_LOG2, lost) &&
         r->j.n > (r->kind == K_LSE ? 9 * GPURED__LANES : 200) &&
         col_units_shared(r, 16 / size, UNIT_ACROSS_LOG2) <= (size_t)m->shared;
}

/* Short ones: a strip to each warp, and as many warps as shared memory has room for. */
static int choose_col_strips(const machine *m, reduction *r, int size, int lost) {
  cols *c = &r->c;
  const int how = lost ? READ_TURNED_STRIPS : READ_COL_STRIPS;
  const int bytes = strip_bytes(size), tile = (int)r->j.n * bytes;
  const int warps = tile > 16384 ? 1 : tile > 8192 ? 2 : (int)STRIP_WARPS;
  int64_t strips, resident;
  if (r->j.n > GPURED__BLOCK || tile > m->shared || !reading_kernel(r, how)) return 0;
  if (suits_even_units(m, r, size, lost)) return 0;
  c->columns = (bytes / size - lost) / (bytes / 32 / size) * (bytes / 32 / size);
  c->tiles = gpured__ceil_div(c->width, c->columns);
  strips = r->j.outputs / c->width * c->tiles;
  if (strips > INT32_MAX / 2) return 0;
  c->outers = (unsigned)(r->j.outputs / c->width);
  c->quarter = (int)gpured__ceil_div(r->j.n, STRIP_PARTS * GPURED__LANES) * GPURED__LANES;
  r->threads = warps * 32;
  r->shared = (size_t)(warps * tile);
  resident = (m->shared + 1024) / ((int)r->shared + 1024);
  if (resident > strips_resident(r->acc) * STRIP_WARPS / warps)
    resident = strips_resident(r->acc) * STRIP_WARPS / warps;
  if (resident < 1) resident = 1;
  r->blocks = gpured__ceil_div(strips, warps);
  if (r->blocks > m->processors * resident) r->blocks = m->processors * resident;
  r->route = ROUTE_READ;
  r->how = how;
  return 1;
}

/* The rows of a sequence, which has an axis of them, or two, or just one row. */
static void set_column_rows(reduction *r, int size) {
  cols *c = &r->c;
  const gpured__axis *outer = &r->j.line[0], *inner = outer + r->j.line_count - 1;
  if (r->j.line_count == 0) return;
  c->row_bytes = inner->stride[GPURED__IN] * size;
  c->stride = GPURED__LANES * c->row_bytes;
  if (r->j.line_count == 1) return;
  c->inner = (int)inner->n;
  c->inner_recip = recip_of(inner->n);
  c->turn = GPURED__LANES % c->inner;
  c->outer_bytes = outer->stride[GPURED__IN] * size;
  c->stride = GPURED__LANES / c->inner * c->outer_bytes + c->turn * c->row_bytes;
  c->jump = c->outer_bytes - inner->n * c->row_bytes;
}

/* Where small items are faster than strips of columns, which lose threads at the end of a row and
 * begin with little to do (measured on an H100, f32, bf16 and i8, sums, extrema, indices, moments,
 * logsumexp of 2 to 256 rows of 2 to 100 columns). */
static int suits_small(const machine *m, const reduction *r, int64_t width, int size) {
  const int64_t bytes = width * size, n = r->j.n;
  const int loose = bytes % 16 || (uintptr_t)r->j.in % 16;
  if (n <= COLS_FEW) return bytes <= 512 && (loose || size == 1);
  if (n <= GPURED__LANES) return bytes <= (size == 1 ? 256 : 512);
  if (n > GPURED__BLOCK || r->j.outputs < (int64_t)m->processors * SMALL_THREADS) return 0;
  if (size == 1) return n <= GPURED__BLOCK / 2 && bytes <= 16;
  if (n <= COLS_SHORT) return bytes <= 256;
  return (r->kind == K_MAX || r->kind == K_ARG) && bytes <= 64;
}

static int choose_small(const machine *m, reduction *r, int64_t width, int size) {
  const gpured__axis *outer = &r->j.kept[0];
  const int64_t unit = r->j.n * width * size;
  item_cells *s = &r->s;
  if (r->j.kept_count != 2 || !suits_small(m, r, width, size)) return 0;
  if (unit > SMALL_BYTES / 2 || r->j.line[0].stride[GPURED__IN] != width) return 0;
  if (outer->stride[GPURED__IN] != r->j.n * width || !reading_kernel(r, READ_SMALL)) return 0;
  s->items = outer->n;
  s->width = (int)width;
  s->width_recip = recip_of(width);
  s->flat = r->j.kept[1].stride[GPURED__OUT] == 1 && outer->stride[GPURED__OUT] == width;
  s->beside = (int)(SMALL_BYTES / unit);
  while (s->beside > 1 && s->beside * width > SMALL_THREADS &&
         gpured__ceil_div(s->items, s->beside) < (int64_t)m->processors * 4)
    s->beside /= 2;
  r->threads = SMALL_THREADS;
  r->shared = 0;
  r->blocks = gpured__ceil_div(s->items, s->beside);
  if (r->blocks > INT32_MAX) return 0;
  r->route = ROUTE_READ;
  r->how = READ_SMALL;
  return 1;
}

/* Rows so close that copying what lies between them costs little: memory reads 32 bytes at once. */
static int rows_are_close(const item_cells *s, int64_t width, int size) {
  return width >= 2 && s->row >= width && (s->row <= 2 * width || s->row * size <= 64);
}

/* Batches of items of so many rows, of at most `most` items, and where in shared memory what is.
 * parts: threads of a column, or 0 for as many as fill a block of them. */
static int choose_batch(const machine *m, reduction *r, int64_t width, int size, int64_t rows,
                        int64_t most, int parts) {
  const int64_t lane = r->kind == K_ARG ? 16 : r->acc == GPURED__F32 ? 4 : 8;
  const int64_t last = ((rows - 1) * r->s.row + width) * size, step = r->s.step * size;
  item_cells *s = &r->s;
  int64_t room, slots;
  if (s->step < width || last > ITEM_LARGEST) return 0;
  room = last > ITEM_BYTES || step > 2 * last ? 1 : 1 + (ITEM_BYTES - last) / step;
  if (room > most) room = most;
  s->parts = parts ? parts : ITEM_PARTS;
  if (room * width * s->parts < ITEM_PARTS_THREADS) s->parts = GPURED__LANES;
  if (s->parts * width > 2 * ITEM_THREADS) return 0;
  s->beside = (int)(ITEM_THREADS / (s->parts * width));
  if (s->beside > room) s->beside = (int)room;
  if (s->beside < 1) s->beside = 1;
  s->most = (int)(room < ITEM_TURNS * s->beside ? room : ITEM_TURNS * s->beside);
  s->turns = 1;
  s->width = (int)width;
  s->width_recip = recip_of(width);
  slots = s->most * width;
  r->threads = (int)(s->beside * s->parts * width + 31) / 32 * 32;
  s->centres_at = (int)(slots * (s->parts + 1) * lane + 15) / 16 * 16;
  s->nodes_at = s->centres_at + (r->kind > K_ARG ? (int)(slots * lane + 15) / 16 * 16 : 0);
  s->stage_at = (s->nodes_at + 127) / 128 * 128;
  r->shared = (size_t)(s->stage_at + (s->most - 1) * step + last + 128 + 16);
  return r->shared <= (size_t)m->shared;
}

/* Where items are faster than strips of columns and than small ones: measured on an H200 for 9 to
 * 1024 rows of 2 to 200 columns of f32, f64, bf16, i8 and i32 and all kinds of operations. */
static int suits_items_of_bytes(const reduction *r, int64_t width) {
  const int64_t n = r->j.n;
  if (r->kind == K_MUL && width > 16 && width <= 100) return n >= 24;
  return n > GPURED__BLOCK / 2 ? width <= 40 : n > 64 && width > 16 && width <= 50;
}
static int suits_items_of_integers(const reduction *r, int64_t bytes) {
  const int64_t n = r->j.n;
  if (n > GPURED__BLOCK) return bytes <= 160;
  if (r->kind == K_ARG) return n >= 200 && bytes < SHORT_NARROW;
  return n > COLS_SHORT ? bytes < SHORT_NARROW : n >= 48 && bytes <= 128;
}
static int suits_items(const reduction *r, int64_t width, int size) {
  const int64_t bytes = width * size, n = r->j.n;
  const int loose = bytes % 16 || (uintptr_t)r->j.in % 16;
  if (n > GPURED__WIDE_BLOCK) return 0;
  if (size == 1) return suits_items_of_bytes(r, width);
  if (r->acc == GPURED__U64) return suits_items_of_integers(r, bytes);
  if (r->kind < K_MAX) return n >= 48 && width <= 64;
  if (n < (r->kind == K_MAX || size == 8 ? 48 : 64)) return 0;
  if (loose) return bytes <= 208;
  if (r->kind == K_MAX) return bytes < 128;
  if (r->kind == K_ARG) return bytes <= (n > GPURED__BLOCK ? 128 : 64);
  if (n > 300 && size < 4) return bytes < 16;
  return bytes <= 64 || (n >= 128 && bytes <= 128 && size >= 4);
}

static int choose_items(const machine *m, reduction *r, int64_t width, int size) {
  item_cells *s = &r->s;
  if (r->j.kept_count != 2 || !suits_items(r, width, size)) return 0;
  if (!reading_kernel(r, READ_ITEMS)) return 0;
  s->items = r->j.kept[0].n;
  s->step = r->j.kept[0].stride[GPURED__IN];
  s->row = r->j.line[0].stride[GPURED__IN];
  if (!rows_are_close(s, width, size)) return 0;
  if (!choose_batch(m, r, width, size, r->j.n, gpured__ceil_div(s->items, m->processors * 2), 0))
    return 0;
  s->flat = r->j.kept[1].stride[GPURED__OUT] == 1 && r->j.kept[0].stride[GPURED__OUT] == width;
  r->blocks = gpured__ceil_div(s->items, s->most);
  if (r->blocks > INT32_MAX) return 0;
  r->route = ROUTE_READ;
  r->how = READ_ITEMS;
  return 1;
}

/* Where few long columns are faster by units: measured there, too, for 1500 to 24 million rows of 2
 * to 32 columns (bytes: to 40), of one matrix or up to 4000. */
static int suits_units(const reduction *r, int64_t width, int size) {
  const int64_t row = width * size, all = r->j.outputs * r->j.n * size, megabyte = 1 << 20;
  const int twice = size == 1 ? 40 : r->acc == GPURED__F32 ? 7 : 12; /* what is needed twice */
  const int widest = r->kind > K_ARG ? twice : r->kind == K_ARG ? 5 : 16;
  if (width > widest) return 0;
  if (r->kind > K_ARG) return size == 1 || row % 16 != 0;
  if (r->j.outputs > width && r->j.n <= 32 * GPURED__WIDE_BLOCK) return 1;
  if (r->acc != GPURED__F32) return 0;
  if (r->kind < K_MAX)
    return (width & (width - 1)) == 0 || (size == 4 && row % 8 == 0) || all <= 32 * megabyte;
  return all <= (r->kind == K_ARG ? 32 : 16) * megabyte;
}

/* Long columns, few and side by side: enough units of 1024 rows to fill a third of the
 * multiprocessors. */
static int choose_item_units(const machine *m, reduction *r, int64_t width, int size) {
  const int64_t units = gpured__ceil_div(r->j.n, GPURED__WIDE_BLOCK);
  const int free = cols_free(r->acc, r->kind), laned = r->kind < K_MAX && !free;
  item_cells *s = &r->s;
  const int64_t outers = r->j.outputs / width;
  int64_t segments, nodes;
  if (r->j.line_count != 1 || !suits_units(r, width, size)) return 0;
  if (!reading_kernel(r, READ_ITEM_UNITS)) return 0;
  s->items = units;
  s->row = r->j.line[0].stride[GPURED__IN];
  if (!rows_are_close(s, width, size)) return 0;
  s->step = s->row * GPURED__WIDE_BLOCK;
  if (!choose_batch(m, r, width, size, GPURED__WIDE_BLOCK, ITEM_THREADS, GPURED__LANES)) return 0;
  s->most = 1 << log2_of(s->most);
  while (s->most > 1 && s->most / 2 >= units) s->most /= 2;
  nodes = s->most * width * (laned ? GPURED__LANES : 1) * (int64_t)node_bytes(r);
  while ((2 * nodes * s->turns <= UNITS_BYTES && s->most * s->turns < units &&
          outers * gpured__ceil_div(units, s->most * s->turns * 2) >= m->processors * 8) ||
         (s->turns < 256 && gpured__ceil_div(units, s->most * s->turns) > FINISH_MOST))
    s->turns *= 2;
  segments = gpured__ceil_div(units, s->most * s->turns);
  nodes = gpured__ceil_div(nodes * s->turns, 128) * 128;
  s->stage_at += (int)nodes;
  r->shared += (size_t)nodes;
  r->blocks = outers * segments;
  if (r->blocks < m->processors / 3 || r->blocks > INT32_MAX || segments > FINISH_MOST) return 0;
  if (r->shared > (size_t)m->shared) return 0;
  if (free) r->lanes = 1;
  r->j.segments = segments;
  r->j.beside = BESIDE_NODES;
  r->route = ROUTE_READ;
  r->how = READ_ITEM_UNITS;
  return 1;
}

/* How many rows a thread's segment has where tiles are spans. The order's tree asks for a power of
 * two of blocks; where it does not matter all segments that run at once end together. 128 elements
 * of a thread cost a hundredth of the time for nodes; fewer are for what would keep the GPU
 * waiting. */
static int span_rows(const machine *m, const reduction *r, int64_t tiles, int rows_log2) {
  const int64_t bytes = r->j.outputs * r->j.n * (int64_t)gpured__dtype_size(r->j.in_dtype);
  const int64_t at_once = 3 * m->processors;
  int64_t rows, least = (int64_t)SPAN_LEAST_ROWS << rows_log2;
  if (cols_free(r->acc, r->kind)) {
    rows = at_once * (bytes > 2 * (int64_t)COLS_AT_ONCE ? 2 : 1) / tiles;
    rows = rows > 0 ? gpured__ceil_div(r->j.n, rows) : r->j.n;
    rows = gpured__ceil_div(rows < least ? least : rows, GPURED__LANES) * GPURED__LANES;
    return (int)(rows < SPAN_MOST_ROWS << rows_log2 ? rows : SPAN_MOST_ROWS << rows_log2);
  }
  for (rows = GPURED__BLOCK << COLS_MOST_LOG2; rows > GPURED__BLOCK; rows /= 2)
    if (2 * tiles * gpured__ceil_div(r->j.n, rows) >= m->processors * (rows < 4096 ? 3 : 16)) break;
  return (int)rows;
}

/* How many rows, 2^k, are one where tiles of up to `most` elements are spans: sixteen, or as few as
 * fill the tiles as well where the order is free, since each element of them has a node. */
static int span_rows_log2(const reduction *r, int64_t most, int size) {
  int64_t row = r->c.width * GPURED__LANES, tiles = gpured__ceil_div(row, most);
  int k, best = 4;
  for (k = 3; k >= 0 && cols_free(r->acc, r->kind); --k) {
    const int64_t fewer = r->c.width << k, needs = gpured__ceil_div(fewer, most);
    if (fewer < most || fewer * size % 16 || fewer * tiles < row * needs) continue;
    best = k;
    row = fewer;
    tiles = needs;
  }
  return best;
}

/*
 * Rows that touch, are not lines of 128 bytes and too long for one tile by sixteens: tiles of 4 KB
 * of those. Measured on an H200, 4 MB to 4 GB: small matrices of rows at 16 bytes are left to
 * clusters where lanes have to meet.
 */
static int choose_span(const machine *m, reduction *r, int size, int lost) {
  cols *c = &r->c;
  const int v = 16 / size, line = 128 / size, free = cols_free(r->acc, r->kind);
  const int turned = aligned(r, 16, r->j.kept_count - 1) ? 0 : v - 1;
  const int64_t most = COLS_THREADS * v - (turned ? line : 0), outers = r->j.outputs / c->width;
  const int64_t bytes = r->j.outputs * r->j.n * size;
  const int rows_log2 = span_rows_log2(r, most, size);
  const int64_t row = c->width << rows_log2, tiles = gpured__ceil_div(row, most);
  const int64_t span = gpured__ceil_div(gpured__ceil_div(row, tiles), line) * line;
  const size_t ring = COLS_RING_BYTES;
  int64_t segments;
  size_t nodes;
  if (c->width * GPURED__LANES + turned <= COLS_THREADS * v) return 0;
  if (c->width > INT32_MAX / 256 || bytes < SPAN_LEAST) return 0;
  if (!lost && !free && bytes > COLS_AT_ONCE / 4 && bytes <= COLS_AT_ONCE) return 0;
  c->rows = span_rows(m, r, outers * tiles, rows_log2);
  segments = gpured__ceil_div(r->j.n, c->rows);
  r->blocks = outers * tiles * segments;
  r->threads = (int)gpured__ceil_div(span + turned, 32 * v) * 32;
  nodes = (size_t)r->threads * (size_t)v * node_bytes(r);
  r->shared = nodes > ring ? nodes : ring;
  if (!free) r->shared = ring + nodes * (size_t)(log2_up(c->rows / GPURED__BLOCK) + 1);
  c->groups = (unsigned)segments;
  if (free) segments *= span >= c->width ? tiles : 1 << rows_log2;
  if (segments == 1 || segments > FINISH_MOST || r->blocks > INT32_MAX) return 0;
  if (r->shared + 1024 > (size_t)m->shared) return 0;
  c->narrow = 1;
  c->columns = (int)c->width;
  c->span = (int)span;
  c->tiles = tiles;
  c->rows_log2 = rows_log2;
  c->stride = c->row_bytes << rows_log2;
  c->across_log2 = log2_of(COLS_THREADS);
  r->j.segments = segments;
  r->j.beside = free ? BESIDE_NODES : BESIDE_LANES;
  return 1;
}

/* Strips of 256 bytes, or the rows that are one where those are no longer. */
static int choose_strip(const machine *m, reduction *r, int size, int lost, int touching) {
  cols *c = &r->c;
  const int v = 16 / size, few = r->j.outputs * r->j.n <= COLS_AT_ONCE / size;
  const int64_t blocks = gpured__ceil_div(r->j.n, GPURED__BLOCK), width = c->width;
  const int64_t elements = r->j.outputs * r->j.n, processors = m->processors;
  const size_t ring = COLS_RING_BYTES;
  int64_t segments, enough;
  size_t nodes;
  c->narrow = touching && GPURED__LANES * width + lost <= COLS_THREADS * v;
  c->across_log2 = log2_up(gpured__ceil_div((c->narrow ? GPURED__LANES : 1) * width + lost, v));
  c->deep_log2 = log2_of(COLS_THREADS) - c->across_log2;
  c->columns = (int)width;
  if (!c->narrow) {
    if (c->across_log2 > COLS_ACROSS_LOG2) c->across_log2 = COLS_ACROSS_LOG2;
    c->deep_log2 = COLS_ACROSS_LOG2 - c->across_log2;
    c->columns = (v << c->across_log2) - lost;
  }
  c->tiles = gpured__ceil_div(width, c->columns);
  if (c->deep_log2 > log2_up(blocks)) c->deep_log2 = log2_up(blocks);
  enough = !few                                 ? processors * 8
           : !c->narrow                         ? processors / 2
           : elements > COLS_AT_ONCE / 4 / size ? processors * 4
                                                : processors * 3 / 2;
  c->blocks_log2 = COLS_MOST_LOG2;
  while (c->blocks_log2 > 0 &&
         r->j.outputs / width * c->tiles *
                 gpured__ceil_div(blocks, (int64_t)1 << (c->blocks_log2 + c->deep_log2)) <
             enough)
    --c->blocks_log2;
  segments = gpured__ceil_div(blocks, (int64_t)1 << (c->blocks_log2 + c->deep_log2));
  if (few && segments <= 1 << CLUSTER_MOST_LOG2 && m->major >= 9)
    c->cluster_log2 = log2_up(segments);
  r->j.segments = gpured__ceil_div(segments, (int64_t)1 << c->cluster_log2);
  c->groups = (unsigned)r->j.segments;
  c->rows = GPURED__BLOCK << c->blocks_log2;
  r->threads = (c->narrow ? 1 : 16) << (c->across_log2 + c->deep_log2);
  nodes = (size_t)r->threads * (size_t)v * node_bytes(r);
  r->shared = ring + nodes * (size_t)(c->blocks_log2 + 1);
  if (cols_free(r->acc, r->kind)) r->shared = nodes > ring ? nodes : ring;
  r->blocks = (r->j.outputs / width * c->tiles * r->j.segments) << c->cluster_log2;
  if (r->blocks > INT32_MAX || r->j.segments > FINISH_MOST ||
      r->shared + 1024 > (size_t)m->shared) {
    r->j.segments = 1;
    return 0;
  }
  r->j.beside = BESIDE_NODES;
  return 1;
}

static int choose_cols(const machine *m, reduction *r) {
  const int size = (int)gpured__dtype_size(r->j.in_dtype);
  const int64_t width = put_columns_last(r);
  cols *c = &r->c;
  int lost;     /* columns of a tile, where rows are turned */
  int touching; /* rows without gaps, which are not lines of 128 bytes */
  if (width == 0 || r->j.line_count > 2) return 0;
  if (r->j.line_count == 2 && r->j.line[1].n > INT32_MAX / 2) return 0;
  memset(c, 0, sizeof *c);
  set_column_rows(r, size);
  lost = width * size % 16 || !aligned(r, 16, r->j.kept_count - 1) || c->row_bytes % 16;
  lost *= 16 / size - 1;
  c->width = width;
  if (r->j.line_count == 1 && choose_items(m, r, width, size)) return 1;
  if (r->j.line_count == 1 && choose_small(m, r, width, size)) return 1;
  if (choose_single_cols(m, r, size, lost)) return 1;
  if (choose_short_cols(m, r, width, size)) return 1;
  if (c->inner && c->jump % 16) return 0; /* rows of a lane would begin differently */
  if (r->kind > K_ARG && r->j.n <= COLS_FEW) return 0;
  if (r->kind > K_ARG && !(c->inner && lost) && choose_col_strips(m, r, size, lost)) return 1;
  if (choose_item_units(m, r, width, size)) return 1;
  if (r->kind > K_ARG && choose_col_units(m, r, size, lost)) return 1;
  if (!reading_kernel(r, READ_COLS)) return 0;
  touching = !c->inner && c->row_bytes == width * size && (lost || c->row_bytes % 128);
  c->rows_log2 = 4;
  if (!(touching && choose_span(m, r, size, lost)) && !choose_strip(m, r, size, lost, touching))
    return 0;
  r->route = ROUTE_READ;
  r->how = READ_COLS;
  if (cols_free(r->acc, r->kind)) r->lanes = 1;
  return 1;
}

/* Are pieces of so many bytes, which lie side by side, faster so? Not those of whole vectors, nor
 * what computes much over runs that begin anywhere. */
static int suits_channels(const reduction *r, int64_t bytes, int size) {
  if (pieces_are_whole(r, size) && (r->kind > K_ARG || bytes >= CHANNELS_WHOLE)) return 0;
  return r->kind <= K_ARG || bytes < CHANNELS_LOOSE ||
         r->j.line[0].stride[GPURED__IN] * size % 16 == 0;
}

/* Sequences of two axes, of which the inner one and a kept one lie together in memory: short pieces
 * side by side, or rows of few sequences that are no whole vectors. */
static int find_channels(reduction *r, int size) {
  channels *c = &r->h;
  const int last = r->j.kept_count - 1;
  const gpured__axis outer = r->j.line[0], inner = r->j.line[1];
  const int64_t n = inner.n, stride = inner.stride[GPURED__IN];
  const int most = size == 1 ? CHANNELS_BYTE_PIECE : CHANNELS_PIECE;
  int i;
  if (r->j.line_count != 2 || n < 2 || n > most / size || outer.stride[GPURED__IN] < 0) return 0;
  for (i = 0; i <= last; ++i) {
    const gpured__axis kept = r->j.kept[i];
    const int64_t beside = kept.stride[GPURED__IN];
    const int pieces = stride == 1 && beside == n;
    const int few = kept.n <= CHANNELS_MOST && stride == kept.n;
    if (kept.n < CHANNELS_LEAST || kept.n > INT32_MAX / 2) continue;
    if (pieces ? !suits_channels(r, n * size, size)
               : beside != 1 || !few || kept.n * size % 16 == 0)
      continue;
    r->j.kept[i] = r->j.kept[last];
    r->j.kept[last] = kept;
    c->width = (int)kept.n;
    c->piece = (int)n;
    c->step = (int)stride * size;
    c->apart = (int)beside * size;
    c->row_bytes = outer.stride[GPURED__IN] * size;
    return 1;
  }
  return 0;
}

/* The longest tile of sequences that are `many` side by side that has room in `most` bytes, but at
 * least a unit. Returns its bytes. */
static int set_channel_tile(channels *c, int many, int unit, int size, int most) {
  int bytes, next = unit;
  c->many = many;
  c->run = (c->piece - 1) * c->step + (many - 1) * c->apart + size;
  c->vectors = (c->run + 30) / 16;
  do {
    c->tile = next;
    c->rows = (c->tile + c->piece - 2) / c->piece + 1;
    bytes = c->rows * c->vectors * 16;
    next = c->tile * 2;
  } while (next <= GPURED__WIDE_BLOCK &&
           ((next + c->piece - 2) / c->piece + 1) * c->vectors * 16 <= most);
  c->tile_bytes = c->tile / c->piece * c->row_bytes;
  c->tile_in = c->tile % c->piece;
  return bytes;
}

/* Short pieces, which other kernels read with many instructions each. */
static int choose_channels(const machine *m, reduction *r) {
  const int size = (int)gpured__dtype_size(r->j.in_dtype);
  const int unit = channels_unit(r->kind), each = channels_each(r->kind);
  const int64_t units = gpured__ceil_div(r->j.n, unit);
  const int all = m->shared - 1024 < CHANNELS_SHARED ? m->shared - 1024 : CHANNELS_SHARED;
  const int room = unit > GPURED__BLOCK ? all : CHANNELS_TILE;
  channels *c = &r->h;
  int64_t groups, outers, wanted;
  int most = CHANNELS_MOST, bytes;
  memset(c, 0, sizeof *c);
  if (!find_channels(r, size)) return 0;
  c->turns = c->row_bytes % 16 != 0;
  if (!gpured__channel_kernel(r->acc, r->dtype, r->kind, c->turns)) return 0;
  do {
    groups = gpured__ceil_div(c->width, most);
    bytes = set_channel_tile(c, (int)gpured__ceil_div(c->width, groups), unit, size, room);
    most /= 2;
  } while (bytes > room && most >= 2 * each);
  if (bytes > all) return 0;
  c->stages = unit == GPURED__BLOCK && 2 * bytes <= all ? 2 : 1; /* wide ones need threads */
  r->shared = (size_t)(c->stages * bytes + 16);                  /* and barriers */
  c->bulk = m->major >= 9 && c->run >= CHANNELS_BULK;
  c->groups = (unsigned)groups;
  c->piece_recip = recip_of(c->piece);
  c->vectors_recip = recip_of(c->vectors);
  outers = r->j.outputs / c->width;
  wanted = gpured__ceil_div((int64_t)m->processors * CHANNELS_BLOCKS, outers * groups);
  if (wanted > FINISH_MOST) wanted = FINISH_MOST;
  r->j.segment_units = 1;
  while (r->j.segment_units * wanted < units) r->j.segment_units *= 2;
  r->j.segments = gpured__ceil_div(units, r->j.segment_units);
  r->blocks = outers * groups * r->j.segments;
  if (r->blocks > INT32_MAX) {
    r->j.segments = 1;
    return 0;
  }
  r->threads = (int)gpured__ceil_div(c->many, 2 * each) * 32;
  r->route = ROUTE_CHANNELS;
  return 1;
}

/* Means and norms of integers are sums in f64; where no such sum can reach 2^53 none is rounded,
 * and sums of integers have the same bits. The plan as one of those, or as it is. */
static const gpured__plan *exact_sums(const gpured__plan *p, gpured__plan *exact) {
  const int size = (int)gpured__dtype_size(p->in_dtype);
  const int is_mean = p->op == GPURED_MEAN, real = p->acc == GPURED__F64;
  if (!real || gpured__is_float(p->in_dtype) || (!is_mean && p->op != GPURED_NORM2)) return p;
  if (p->n == 0 || p->n > (size == 1 ? (int64_t)1 << 37 : (int64_t)1 << 21)) return p;
  if (size > (is_mean ? 4 : 1)) return p;
  *exact = *p;
  exact->acc = GPURED__U64;
  exact->kernel = gpured__kernel_of(is_mean ? GPURED_SUM : GPURED_SUMSQ, 0);
  return exact;
}

/* Are rows whose blocks have threads each as fast: rows of one block, and more than the second
 * cache has that leave few threads idle? (Measured on an H200.) */
static int fills_blocks(const reduction *r, int size) {
  const int64_t n = r->j.n;
  int64_t slots;
  if (n <= GPURED__BLOCK) return 1;
  if (size == 2 || n > 8 * GPURED__BLOCK) return 0;
  if (r->j.outputs <= ((int64_t)32 << 20) / (n * size)) return 0;
  slots = (int64_t)GPURED__BLOCK << log2_up(gpured__ceil_div(n, GPURED__BLOCK));
  return n * 8 > slots * (slots <= 2 * GPURED__BLOCK ? 6 : 7);
}

/* Indices along rows, many ones or long ones, that do not fill the blocks of other kernels. */
static int choose_best(const machine *m, reduction *r) {
  const int size = (int)gpured__dtype_size(r->j.in_dtype);
  const int64_t bytes = r->j.n * size;
  const int few = r->j.outputs < (int64_t)m->processors * 16;
  const int is_long = bytes > BEST_LONG || (few && bytes > (BEST_THREADS + 1) * 16);
  const int span = is_long ? BEST_THREADS : bytes <= 1600 ? 16 : 32;
  if (r->kind != K_ARG || r->j.line_count != 1 || r->j.line[0].stride[GPURED__IN] != 1) return 0;
  if (fills_blocks(r, size) || r->j.n > (int64_t)1 << 30) return 0;
  if (is_long ? r->j.outputs < (int64_t)m->processors * 2 : few) return 0;
  if (!gpured__best_kernel(r->acc, r->dtype, span)) return 0;
  r->how = span;
  r->j.segments = 1;
  r->blocks = gpured__ceil_div(r->j.outputs, BEST_THREADS / span);
  if (r->blocks > INT32_MAX) return 0;
  r->threads = BEST_THREADS;
  r->route = ROUTE_BEST;
  return 1;
}

/* A kernel that reads rows or columns as they lie. */
static int choose_reader(const machine *m, reduction *r) {
  const int is_row = r->j.line_count == 1 && r->j.line[0].stride[GPURED__IN] == 1;
  if (r->kind > K_ARG && r->j.n <= COLS_FEW && !is_row) return choose_cols(m, r);
  if (r->j.n == 1) return choose_cols(m, r) || choose_rows(m, r);
  return choose_rows(m, r) || choose_cols(m, r);
}

static void choose(const machine *m, const gpured__plan *given, reduction *r) {
  gpured__plan exact;
  const gpured__plan *p = exact_sums(given, &exact);
  memset(r, 0, sizeof *r);
  describe(p, &r->j);
  r->acc = p->acc;
  r->kind = kind_of(p->kernel);
  r->lanes = node_lanes(r);
  r->dtype = p->in_dtype;
  if (r->dtype == GPURED_U64) r->dtype = GPURED_I64; /* the same 64 bits */
  if (r->acc == GPURED__U64 && r->dtype == GPURED_BF16) r->dtype = GPURED_F16;
  if (p->n == 0 || (p->n == 1 && r->kind == K_ARG)) /* the index of one element is 0 */
    r->route = ROUTE_EMPTY;
  else if (!choose_channels(m, r) && !choose_best(m, r) && !choose_reader(m, r))
    p->n <= ALONE_MOST ? choose_alone(m, r) : choose_any(m, r);
  set_workspace(r);
}

static gpured_status run_empty(const machine *m, const gpured__plan *p, reduction *r) {
  uint64_t integer;
  double real;
  const int is_integer = p->acc == GPURED__U64 || r->kind == K_ARG;
  const int touch =
      p->kept_count == 0 || (p->kept_count == 1 && p->kept[0].stride[GPURED__OUT] == 1);
  int64_t blocks = gpured__ceil_div(p->outputs, 256);
  void *arguments[] = {&r->j, is_integer ? (void *)&integer : (void *)&real};
  gpured__empty_value(p, &integer, &real);
  if (touch && (is_integer ? integer == 0 : real == 0))
    return status_of(cudaMemsetAsync(
        p->out, 0, (size_t)p->outputs * gpured__dtype_size(p->out_dtype), m->stream));
  if (blocks > 65535) blocks = 65535;
  return launch(
      m, is_integer ? (const void *)store_empty<uint64_t> : (const void *)store_empty<double>,
      blocks, 256, 0, arguments);
}

static gpured_status run_finish(const machine *m, reduction *r) {
  const int threads = r->j.segments > 1024 ? finish_threads(r->lanes) : 512;
  const int slots_most = threads / r->lanes;
  int slots_log2 = log2_up(gpured__ceil_div(r->j.segments, 16));
  int64_t blocks;
  void *arguments[] = {&r->j, &slots_log2};
  if (1 << slots_log2 > slots_most) slots_log2 = log2_up(slots_most);
  blocks = gpured__ceil_div(r->j.outputs, slots_most >> slots_log2);
  if (blocks > INT32_MAX) blocks = INT32_MAX;
  return launch_as(m, LAUNCH_BESIDE, finish_kernel_of(r), blocks, threads, 0, arguments);
}

/* Runs a reduction whose tensors are the device's. */
static gpured_status run_reduction(const machine *m, const gpured__plan *p, reduction *r,
                                   char *memory) {
  void *arguments[2];
  const void *kernel;
  gpured_status st;
  r->j.partial = memory;
  if (r->route == ROUTE_EMPTY) return run_empty(m, p, r);
  arguments[0] = &r->j;
  arguments[1] = r->route == ROUTE_CHANNELS ? (void *)&r->h
                 : r->how < READ_COLS       ? (void *)&r->r
                 : r->how >= READ_ITEMS     ? (void *)&r->s
                                            : (void *)&r->c;
  kernel = r->route == ROUTE_BEST ? gpured__best_kernel(r->acc, r->dtype, r->how)
           : r->route == ROUTE_CHANNELS
               ? gpured__channel_kernel(r->acc, r->dtype, r->kind, r->h.turns)
           : r->route == ROUTE_READ ? reading_kernel(r, r->how)
                                    : gpured__any_kernel(r->acc, r->kind, r->route);
  st = launch_in_clusters(
      m, r->route == ROUTE_READ && r->how == READ_COLS ? 1 << r->c.cluster_log2 : 1, kernel,
      r->blocks, r->threads, r->shared, arguments);
  return st != GPURED_OK || r->j.segments == 1 || r->j.place >= 0 ? st : run_finish(m, r);
}

/* Where the segments of a reduction shall meet; then its nodes need no memory. */
static gpured_status find_meeting(const machine *m, reduction *r, int has_workspace) {
  static uint64_t owners[MEETING_STREAMS];
  gpured_status st;
  if (!r->meets || r->j.segments == 1) return GPURED_OK;
  st = place_of_stream(m, owners, MEETING_STREAMS, &r->j.place);
  if (r->j.place >= 0 && !has_workspace) r->workspace = 0;
  return st;
}

/* ============================================================================================== */
/* 11  Scan: tiles and their state                                                                */
/* ============================================================================================== */
struct scan_launch {
  line_scan a;
  const void *kernel;
  int threads;
  int64_t blocks;
  size_t shared, workspace;
};

/* Are the lines contiguous in memory, and do all begin at so many bytes? */
static int lies_aligned(const line_scan *a, int operand, const void *data, int64_t stride,
                        int dtype, int border) {
  const int64_t size = (int64_t)gpured__dtype_size(dtype);
  int i;
  if (stride != 1 || (uintptr_t)data % (unsigned)border) return 0;
  for (i = 0; i < a->j.kept_count; ++i)
    if (a->j.kept[i].stride[operand] * size % border) return 0;
  return 1;
}

/* Are the tiles, and aligned to 16 bytes? */
static int lies_flat(const line_scan *a, int operand, const void *data, int64_t stride, int dtype) {
  if (!lies_aligned(a, operand, data, stride, dtype, 16)) return 0;
  if (a->lines_log2 < 0 || a->j.outputs == 1) return 1;
  return a->j.kept_count == 1 && a->j.kept[0].stride[operand] == a->j.n &&
         a->j.n << a->lines_log2 == SCAN_CHUNK;
}

/* Is an element of the scan stored as this dtype? */
static int is_own_type(int acc, int kind, int dtype) {
  if (kind == K_LSE) return 0;
  if (acc == GPURED__U64) return dtype == GPURED_I64 || dtype == GPURED_U64;
  return dtype == (acc == GPURED__F32 ? GPURED_F32 : GPURED_F64);
}

/* The levels above the totals of `units`: where their values lie. */
static void set_levels(line_scan *a, int64_t units, int most) {
  int64_t count = units, values = 0;
  for (a->levels = 0; a->levels < most; ++a->levels, count = gpured__ceil_div(count, 16)) {
    a->level_at[a->levels] = values;
    values += count;
    if (count <= 16) break;
  }
  ++a->levels;
  a->line_values = values;
  a->last_at = values * a->j.outputs;
}

/* Can scan_lines have so many tiles, of so many chunks, at the same time? Elements have `size`
 * bytes there. */
static int fit_at_once(const machine *m, int64_t tiles, int chunks, int size) {
  const int bound = scan_resident((size_t)size);
  const int room = m->shared / (chunks * (SCAN_CHUNK + 256) * size + 1024);
  return tiles <= (int64_t)m->processors * (room < bound ? room : bound);
}

/* Tiles of long lines, with the words in which they meet: small ones, as long as all of them run at
 * the same time. */
static void choose_long_lines(const machine *m, line_scan *a, int most) {
  const int64_t chunks = gpured__ceil_div(a->j.n, SCAN_CHUNK);
  a->lines_log2 = -1;
  a->chunks = most;
  while (a->chunks > 1 && fit_at_once(m, gpured__ceil_div(chunks, a->chunks / 2) * a->j.outputs,
                                      a->chunks / 2, 16 / most))
    a->chunks /= 2;
  a->line_tiles = gpured__ceil_div(chunks, a->chunks);
  a->tiles = a->line_tiles * a->j.outputs;
  set_levels(a, chunks, SCAN_LEVELS);
}

static void choose_short_lines(const machine *m, line_scan *a, int most) {
  const int slots_log2 = log2_up(gpured__ceil_div(a->j.n, GPURED__LANES));
  a->lines_log2 = 8 - slots_log2;
  a->chunks = most;
  while (a->chunks > 1 && gpured__ceil_div(a->j.outputs, (int64_t)a->chunks << a->lines_log2) <
                              (int64_t)m->processors * 6)
    a->chunks /= 2;
  a->tiles = gpured__ceil_div(a->j.outputs, (int64_t)a->chunks << a->lines_log2);
}

/* Can lines that do not lie flat be turned on their way? Where elements of two bytes come in pairs,
 * a line that begins with half of one needs more than its place in the tile. */
static int can_turn(const gpured__plan *p, const line_scan *a) {
  const char *in = (const char *)p->in + (a->in_stride < 0 ? 2 : 0);
  const char *out = (const char *)p->out + (a->out_stride < 0 ? 2 : 0);
  if ((a->in_stride != 1 && a->in_stride != -1) || (a->out_stride != 1 && a->out_stride != -1))
    return 0;
  return a->lines_log2 <= 0 || gpured__dtype_size(p->in_dtype) != 2 ||
         p->n << a->lines_log2 < SCAN_CHUNK ||
         (lies_aligned(a, GPURED__IN, in, 1, p->in_dtype, 4) &&
          lies_aligned(a, GPURED__OUT, out, 1, p->out_dtype, 4));
}

/* More contiguous tiles than scan_lines can have at the same time. */
static int choose_stream(const machine *m, const gpured__plan *p, int kind, scan_launch *s) {
  line_scan *a = &s->a;
  const int size = (int)gpured__dtype_size(p->in_dtype), team = size == 8 ? 2 : 1;
  const int words = p->acc == GPURED__F32 ? 1 : 2; /* of a value; the numbers of struct stream */
  const int turned = !a->flat_in || !a->flat_out;
  const int shared = 2 * stream_bytes(size, turned), most = 28 / size;
  const int teams = m->shared / shared < most ? m->shared / shared : most;
  const int64_t tiles = p->n > SCAN_CHUNK
                            ? gpured__ceil_div(p->n, SCAN_CHUNK) * p->outputs
                            : gpured__ceil_div(p->outputs, (int64_t)1 << a->lines_log2);
  if (p->kept_count > 1 || tiles > INT32_MAX / 2 || tiles > (int64_t)1 << 8 * STREAM_ROUNDS)
    return 0;
  if (p->in_dtype != p->out_dtype || (turned && !can_turn(p, a))) return 0;
  if (teams * 2 < most || fit_at_once(m, tiles, 1, 4 * words)) return 0;
  s->kernel = gpured__stream_kernel(p->acc, kind, p->in_dtype, turned);
  if (!s->kernel) return 0;
  s->shared = (size_t)teams * (size_t)shared;
  a->chunks = 1;
  if (p->n > SCAN_CHUNK) {
    choose_long_lines(m, a, 1);
    a->prefix_at = a->line_values;
    a->line_values += gpured__ceil_div(a->line_tiles, 16);
    a->last_at = a->line_values * p->outputs;
  }
  a->tiles = tiles;
  s->workspace =
      8 * (STATE_HEAD + (size_t)(a->last_at + (a->exclusive ? tiles * team : 0)) * words);
  s->threads = teams * team * 32 + 32;
  s->blocks = m->processors;
  return 1;
}

/* Are all elements one piece of memory, in both tensors, with so many lines side by side? */
static int is_one_piece(const line_scan *a, int64_t width) {
  const gpured__axis *outer = &a->j.kept[0];
  const int own = width > 1; /* lines side by side have an axis */
  int i;
  if (a->in_stride != width || a->out_stride != width || a->j.kept_count > own + 1) return 0;
  for (i = GPURED__IN; i <= GPURED__OUT; ++i) {
    if (own && a->j.kept[a->j.kept_count - 1].stride[i] != 1) return 0;
    if (a->j.kept_count > own && outer->n > 1 && outer->stride[i] != a->j.n * width) return 0;
  }
  return 1;
}

/* Blocks with so many units of `rows` elements of `width` lines have them in shared memory, if they
 * are one piece of memory and there is room. */
static void choose_piece(const machine *m, const gpured__plan *p, int64_t rows, int64_t width,
                         int64_t units, scan_launch *s) {
  const int sizes[2] = {(int)gpured__dtype_size(p->in_dtype),
                        (int)gpured__dtype_size(p->out_dtype)};
  size_t bytes = 0;
  int i;
  if (!is_one_piece(&s->a, width)) return;
  for (i = 0; i < 2; ++i) {
    const int unit = (int)(rows * width) * sizes[i], vectors = unit / 16;
    const size_t all = (size_t)units * (size_t)(unit + (unit_has_gap(unit) ? 16 : 0));
    s->a.unit_recip[i] = unit_has_gap(unit) ? recip_of(vectors) : 0;
    if (all > bytes) bytes = all;
  }
  if (s->shared + bytes > (size_t)m->shared) return;
  s->a.unit = (int)(rows * width);
  s->shared += bytes;
}

/* Lines side by side have so many bytes, or more, where memory is read as it lies. */
enum { PIECE_SHORT = 64, PIECE_LONG = 32 };

/* Is a thread for a line what is fastest (measured on an H200)? Not for longer ones of which there
 * are few, nor where they are copied element by element. Lines of a power of two that begin at
 * vectors are faster as a stream. */
static int suits_short(const machine *m, const line_scan *a, int64_t size) {
  const int aligned = a->aligned_in && a->aligned_out;
  if (a->j.n > 32 && a->j.outputs < (int64_t)m->processors * 128) return 0;
  if (!aligned) return size < 4 || a->j.n <= 128;
  return a->in_stride > 1 || size == 1 || a->j.n < GPURED__LANES || (a->j.n & (a->j.n - 1)) != 0;
}

/* Short lines without gaps, in tiles of whole items and vectors that have some kilobytes and a line
 * for each thread. */
static int choose_short(const machine *m, const gpured__plan *p, int kind, scan_launch *s) {
  line_scan *a = &s->a;
  const int64_t size = (int64_t)gpured__dtype_size(p->in_dtype), width = a->in_stride;
  const int64_t item = p->n * width * size, vectors = item % 16 ? 0 : item / 16;
  const int64_t unit = item + (vectors && vectors % 4 == 0 ? 16 : 0);
  const int last = a->j.kept_count - 1, most = short_warps(p->acc == GPURED__F32 ? 4 : 8);
  int64_t least = 1, items, warps;
  if (p->n < 2 || p->n > SHORT_LINE || width < 1 || p->in_dtype != p->out_dtype) return 0;
  if (width > 1 && (last < 0 || a->j.kept[last].n != width || width * size >= PIECE_SHORT))
    return 0;
  if (!is_one_piece(a, width)) return 0;
  a->aligned_in = (uintptr_t)p->in % 16 == 0;
  a->aligned_out = (uintptr_t)p->out % 16 == 0;
  if (!suits_short(m, a, size)) return 0;
  s->kernel = gpured__short_scan_kernel(p->acc, kind, p->in_dtype, vectors && width == 1);
  if (!s->kernel) return 0;
  while (least * item % 16) least *= 2;
  items = least;
  while (items * width * 2 <= 32) items *= 2;
  if (size == 2 && width > 1 && 32 / width >= least) items = 32 / width / least * least;
  while (items * 2 * unit <= SHORT_BYTES &&
         items * 2 * width * m->processors * SHORT_TILES <= p->outputs)
    items *= 2;
  a->tile_bytes = (int)(items * unit + 127) / 128 * 128;
  warps = m->shared / a->tile_bytes < most ? m->shared / a->tile_bytes : most;
  if (warps < 2) return 0;
  a->unit = (int)unit;
  if (unit > item) a->unit_recip[0] = recip_of(vectors);
  a->lines = (int)(items * width);
  a->tiles = gpured__ceil_div(p->outputs, a->lines);
  if (a->tiles < warps * m->processors) warps = gpured__ceil_div(a->tiles, m->processors);
  s->threads = (int)warps * 32;
  s->shared = (size_t)(warps * a->tile_bytes);
  s->blocks = gpured__ceil_div(a->tiles, warps);
  if (s->blocks > m->processors) s->blocks = m->processors;
  return 1;
}

static void choose_beside_short(const machine *m, const gpured__plan *p, int64_t width, size_t size,
                                scan_launch *s) {
  line_scan *a = &s->a;
  if (p->n > BESIDE_TINY) s->shared = 2 * GPURED__LANES * 32 * size;
  a->chunks = p->n <= BESIDE_TINY ? 1 : 1 << log2_up(gpured__ceil_div(p->n, BESIDE_MINE));
  a->lines = BESIDE_THREADS / a->chunks * (p->n <= BESIDE_TINY ? 2 : 1);
  if (width * (int64_t)gpured__dtype_size(p->in_dtype) < PIECE_SHORT && width <= a->lines) {
    int64_t units = a->lines / width;
    if (units > 16) units -= units % 16; /* pieces begin at vectors */
    choose_piece(m, p, p->n, width, units, s);
    if (a->unit) a->lines = (int)(units * width);
  }
  s->blocks = gpured__ceil_div(p->outputs, a->lines);
}

static int choose_beside_long(const machine *m, const gpured__plan *p, int64_t width, size_t size,
                              scan_launch *s) {
  const int64_t in_size = (int64_t)gpured__dtype_size(p->in_dtype);
  line_scan *a = &s->a;
  a->line_tiles = gpured__ceil_div(p->n, BESIDE_ROWS);
  set_levels(a, a->line_tiles, BESIDE_LEVELS);
  if (a->levels > BESIDE_LEVELS) return 0;
  a->lines_log2 = -1;
  a->width_log2 = width < 32 ? log2_up(width) : 5;
  a->strips = gpured__ceil_div(width, 32);
  a->turns = gpured__ceil_div(a->line_tiles, 32 >> a->width_log2);
  s->shared = (size_t)(2 * GPURED__LANES + BESIDE_LEVELS * (GPURED__LANES + 1)) * 32 * size;
  if (width < 32 && width * in_size < (in_size < 4 ? PIECE_SHORT : PIECE_LONG))
    choose_piece(m, p, BESIDE_ROWS, width, 32 >> a->width_log2, s);
  s->blocks = p->outputs / width * a->strips * a->turns;
  s->workspace =
      8 * (STATE_HEAD +
           (size_t)(a->last_at + (a->exclusive ? a->line_tiles * p->outputs : 0)) * size / 4);
  return 1;
}

/* Do all rows of a tensor begin at so many bytes? The last axis is across the lines. */
static int rows_begin_at(const line_scan *a, int operand, int64_t size, int border) {
  const uintptr_t data = operand == GPURED__IN ? (uintptr_t)a->j.in : (uintptr_t)a->j.out;
  const int64_t step = operand == GPURED__IN ? a->in_stride : a->out_stride;
  int i;
  if (data % (unsigned)border || step * size % border) return 0;
  for (i = 0; i + 1 < a->j.kept_count; ++i)
    if (a->j.kept[i].stride[operand] * size % border) return 0;
  return 1;
}
static int both_begin_at(const line_scan *a, int64_t size, int border) {
  return rows_begin_at(a, GPURED__IN, size, border) && rows_begin_at(a, GPURED__OUT, size, border);
}

/* Lines of up to COLS_FEW elements in at least so many bytes side by side. */
static int choose_few_rows(const gpured__plan *p, int kind, int64_t width, scan_launch *s) {
  line_scan *a = &s->a;
  const int64_t size = (int64_t)gpured__dtype_size(p->in_dtype), v = 16 / size;
  const int last = a->j.kept_count - 1;
  const int loose = width % v || !both_begin_at(a, size, 16);
  int shared;
  if (p->n > COLS_FEW || width * size < PIECE_SHORT || p->in_dtype != p->out_dtype) return 0;
  if (a->j.kept[last].stride[GPURED__OUT] != 1) return 0;
  if (loose && a->in_stride < 0) return 0; /* the input's end is where those begin */
  if (loose && size == 1) return 0;        /* stored byte by byte they take longer (H200) */
  s->kernel = gpured__few_kernel(p->acc, kind, p->in_dtype, loose);
  shared = loose && size >= 4; /* as short_rows says */
  a->strips = gpured__ceil_div(width, v) + shared;
  a->tiles = p->outputs / width * a->strips;
  s->threads = SHORT_THREADS;
  s->blocks = gpured__ceil_div(gpured__ceil_div(a->tiles, 32 - shared), SHORT_THREADS / 32);
  return s->kernel != NULL;
}

/* Do strips of wide lines side by side overlap by what a sector may have of the one in front? So
 * they do where rows of results cut sectors: one that is written in two parts costs three times the
 * write. Not in place: a strip would read what the one in front has stored, and to write a sector
 * that has just been read costs nothing more. Nor of elements of 2 bytes, which lose more than they
 * gain (measured on an H200). */
static int strips_overlap(const gpured__plan *p, const line_scan *a, int64_t threads,
                          int64_t size) {
  if (p->in == p->out || size == 2 || threads <= 32) return 0;
  return !rows_begin_at(a, GPURED__OUT, size, 16);
}
static int64_t overlapping_strips(int64_t threads, int64_t size) {
  const int64_t shared = 32 / size;
  return gpured__ceil_div(threads - shared, 32 - shared);
}

/* Wide lines side by side. */
static int choose_columns(const gpured__plan *p, int kind, int64_t width, scan_launch *s) {
  line_scan *a = &s->a;
  const int64_t size = (int64_t)gpured__dtype_size(p->in_dtype), pairs = size == 2;
  const int64_t items = p->outputs / width, tiles = gpured__ceil_div(p->n, BESIDE_ROWS);
  const int64_t threads = width >> pairs; /* across */
  const int overlap = strips_overlap(p, a, threads, size);
  const int64_t in_step = a->in_stride * size, out_step = a->out_stride * size;
  const int low = kind != K_MAX && size == 4; /* 4 bytes of a sum or product are enough */
  const size_t value = (size_t)(p->acc == GPURED__F32 || low ? 4 : 8) << pairs;
  int64_t most; /* strips, wherever data lie */
  if (p->n <= BESIDE_TINY || p->in_dtype != p->out_dtype || a->j.kept_count > 2) return 0;
  if (a->j.kept[a->j.kept_count - 1].stride[GPURED__OUT] != 1 || width * size < 128) return 0;
  if (pairs && (width % 2 || !both_begin_at(a, size, 4))) return 0;
  if (width > INT32_MAX / 2 || items * tiles * width > INT32_MAX / 2 * (int64_t)16) return 0;
  if (in_step != (int)in_step || out_step != (int)out_step) return 0;
  if (tiles > (int64_t)1 << 4 * COLUMN_LEVELS) return 0;
  if (overlap && p->acc == GPURED__F32 && p->n <= 64) return 0; /* the general kernel is faster */
  s->kernel = gpured__column_scan_kernel(p->acc, kind, p->in_dtype);
  if (!s->kernel) return 0;
  a->chunks = COLUMN_WARPS; /* that a line's elements in a tile have */
  while (tiles == 1 && p->n * 2 <= (int64_t)a->chunks * COLUMN_GROUPS * GPURED__LANES)
    a->chunks /= 2;
  a->line_tiles = tiles;
  a->turns = items * tiles;
  a->lines = (int)(overlap ? 32 - 32 / size : 32);
  most = gpured__ceil_div(threads, 32);
  a->strips = overlap ? overlapping_strips(threads, size) : most;
  if (threads > 32 && !pairs) most = overlapping_strips(threads, size);
  if (tiles > 1) {
    set_levels(a, tiles, COLUMN_LEVELS);
    a->last_at = a->line_values * items * a->strips * 32;
    most *= (a->line_values + (a->exclusive ? tiles : 0)) * items * 32;
    s->workspace = 8 * (STATE_HEAD + (size_t)most * value / 4);
  }
  s->blocks = gpured__ceil_div(items * tiles * a->strips, COLUMN_WARPS / a->chunks);
  s->threads = COLUMN_WARPS * 32;
  s->shared = value / 4 * sizeof(column_space<float>);
  if (value == 4) s->shared += value * GPURED__LANES * (size_t)s->threads;
  return 1;
}

/* Lines of which neighbours are neighbours in memory, and their own elements are not; or of fewer
 * than 16 elements and without gaps. */
static int choose_beside(const machine *m, const gpured__plan *p, int kind, size_t size,
                         scan_launch *s) {
  line_scan *a = &s->a;
  const int last = p->kept_count - 1;
  const int tiny_rows = p->n > 1 && p->n < BESIDE_TINY && is_one_piece(a, 1);
  int64_t width = 1;
  int i = 0;
  if (!tiny_rows) {
    if (a->in_stride == 1 || a->in_stride == -1) return 0;
    while (i <= last && (a->j.kept[i].stride[GPURED__IN] != 1 || a->j.kept[i].n < 2)) ++i;
    if (i > last) return 0;
    const gpured__axis across = a->j.kept[i];
    a->j.kept[i] = a->j.kept[last];
    a->j.kept[last] = across;
    width = across.n;
  }
  if (!tiny_rows && choose_few_rows(p, kind, width, s)) return 1;
  if (p->n < 2) return 0;
  if (!tiny_rows && choose_columns(p, kind, width, s)) return 1;
  if (p->n <= BESIDE_ROWS)
    choose_beside_short(m, p, width, size, s);
  else if (!choose_beside_long(m, p, width, size, s))
    return 0;
  s->kernel = gpured__beside_kernel(p->acc, kind, a->j.n, a->unit);
  s->threads = BESIDE_THREADS;
  return 1;
}

/* Contiguous lines of so few chunks that each has a block of threads. Many lines that leave half of
 * it idle are faster in another way (measured on an H200). */
static int choose_once(const machine *m, const gpured__plan *p, int kind, scan_launch *s) {
  line_scan *a = &s->a;
  const int words = p->acc == GPURED__F32 ? 1 : 2; /* of a value */
  const int64_t tiles = gpured__ceil_div(p->n, SCAN_CHUNK);
  if (p->in_dtype != p->out_dtype || tiles > ONCE_TILES || p->outputs > ONCE_TILES / tiles)
    return 0;
  if (p->n <= SCAN_CHUNK / 2 && p->outputs > 2 * m->processors) return 0;
  if ((a->in_stride != 1 && a->in_stride != -1) || (a->out_stride != 1 && a->out_stride != -1))
    return 0;
  s->kernel = gpured__once_kernel(p->acc, kind, p->in_dtype);
  if (!s->kernel) return 0;
  a->aligned_in = lies_aligned(a, GPURED__IN, p->in, a->in_stride, p->in_dtype, 16);
  a->aligned_out = lies_aligned(a, GPURED__OUT, p->out, a->out_stride, p->out_dtype, 16);
  a->line_tiles = tiles;
  a->last_at = s->blocks = tiles * p->outputs;
  if (tiles > 1)
    s->workspace = 8 * (STATE_HEAD + (size_t)a->last_at * (a->exclusive ? 2 : 1) * words);
  s->threads = SCAN_THREADS;
  return 1;
}

/* Many lines of up to a chunk, longer ones than choose_short() has. Those that fill the tiles of a
 * stream are faster as one. */
static int choose_row_scan(const machine *m, const gpured__plan *p, int kind, scan_launch *s) {
  line_scan *a = &s->a;
  const int size = (int)gpured__dtype_size(p->in_dtype), chunks = (int)gpured__ceil_div(p->n, 512);
  int64_t warps = line_warps(chunks, size), all;
  if (p->n <= SHORT_LINE / 2 || p->n > SCAN_CHUNK || p->outputs < m->processors * 2) return 0;
  if (p->n <= SHORT_LINE && p->outputs > m->processors * 8) return 0;
  if (p->acc != GPURED__F32 || p->in_dtype != p->out_dtype || p->kept_count > 1) return 0;
  if (a->in_stride != 1 || a->out_stride != 1 || p->outputs > INT32_MAX) return 0;
  if (a->flat_in && a->flat_out) return 0;
  s->kernel = gpured__row_scan_kernel(kind, p->in_dtype, chunks);
  if (!s->kernel) return 0;
  a->tile_bytes = chunks * 512 * size + 128; /* and what lies in front of a line */
  if (m->shared / (2 * a->tile_bytes) < 4) return 0;
  if (size == 4 && chunks == 2) warps = 16; /* not 24, as measured on an H200 */
  if (m->shared / (2 * a->tile_bytes) < warps) warps = m->shared / (2 * a->tile_bytes);
  if (p->outputs < warps * m->processors) warps = gpured__ceil_div(p->outputs, m->processors);
  all = warps * m->processors;
  a->lines = (int)(SCAN_CHUNK / p->n);
  while (a->lines > 1 && p->outputs < a->lines * all * ROW_TICKETS) a->lines /= 2;
  s->threads = (int)warps * 32;
  s->shared = (size_t)(warps * 2 * a->tile_bytes);
  s->blocks = m->processors;
  s->workspace = p->outputs > a->lines * all ? 8 * STATE_HEAD : 0;
  return 1;
}

static void choose_scan(const machine *m, const gpured__plan *p, scan_launch *s) {
  line_scan *a = &s->a;
  const int kind = kind_of(p->kernel);
  const size_t size = (size_t)(p->acc == GPURED__F32 ? 4 : 8) * (kind == K_LSE ? 2 : 1);
  memset(s, 0, sizeof *s);
  describe(p, &a->j);
  a->in_stride = p->line_count && p->n > 1 ? p->line[0].stride[GPURED__IN] : 0;
  a->out_stride = p->line_count && p->n > 1 ? p->line[0].stride[GPURED__OUT] : 0;
  a->exclusive = (p->flags & GPURED_SCAN_EXCLUSIVE) != 0;
  gpured__empty_value(p, &a->empty_integer, &a->empty_real);
  if (choose_short(m, p, kind, s) || choose_beside(m, p, kind, size, s)) return;
  if (choose_once(m, p, kind, s)) return;
  if (p->n > SCAN_CHUNK)
    choose_long_lines(m, a, (int)(16 / size));
  else
    choose_short_lines(m, a, (int)(16 / size));
  a->aligned_in = lies_aligned(a, GPURED__IN, p->in, a->in_stride, p->in_dtype, 16);
  a->aligned_out = lies_aligned(a, GPURED__OUT, p->out, a->out_stride, p->out_dtype, 16);
  a->flat_in = lies_flat(a, GPURED__IN, p->in, a->in_stride, p->in_dtype);
  a->flat_out = lies_flat(a, GPURED__OUT, p->out, a->out_stride, p->out_dtype);
  if (choose_row_scan(m, p, kind, s)) return;
  a->same_in = a->in_stride == 1 && is_own_type(p->acc, kind, p->in_dtype);
  a->same_out = a->flat_out && !a->exclusive && is_own_type(p->acc, kind, p->out_dtype);
  if (!choose_stream(m, p, kind, s)) {
    s->kernel = gpured__scan_kernel(p->acc, kind);
    s->shared = (size_t)a->chunks * (SCAN_CHUNK + 256) * size;
    s->threads = SCAN_THREADS;
    s->blocks = a->tiles;
    if (a->lines_log2 < 0)
      s->workspace =
          8 * (STATE_HEAD + (size_t)(a->last_at + (a->exclusive ? a->tiles : 0)) * size / 4);
  }
}

/* A stream's two states. One thread at a time launches what uses them. */
struct standing_part {
  int busy, next; /* which of the two is zero */
  int64_t used;   /* words of the other one that are not */
};

static gpured_status launch_scan(const machine *m, scan_launch *s) {
  void *arguments[] = {&s->a};
  return launch(m, s->kernel, s->blocks, s->threads, s->shared, arguments);
}

static gpured_status launch_on_part(const machine *m, scan_launch *s, standing_part *part,
                                    char *memory) {
  const int64_t words = (int64_t)(s->workspace / 8);
  gpured_status st;
  while (__atomic_exchange_n(&part->busy, 1, __ATOMIC_ACQUIRE)) sched_yield();
  s->a.state = (unsigned long long *)memory + part->next * STANDING_WORDS;
  s->a.used = (unsigned long long *)memory + !part->next * STANDING_WORDS;
  s->a.used_words = part->used;
  st = launch_scan(m, s);
  if (st == GPURED_OK) {
    part->next = !part->next;
    part->used = words;
  }
  __atomic_store_n(&part->busy, 0, __ATOMIC_RELEASE);
  return st;
}

/* Small states are standing memory; others are cleared before every launch. (A kernel that clears
 * one while the scan starts takes longer than this to launch.) */
static gpured_status run_scan(const machine *m, scan_launch *s, char *memory) {
  static uint64_t owners[STANDING_STREAMS];
  static standing_part parts[STANDING_STREAMS];
  if (s->blocks > INT32_MAX || s->a.levels > SCAN_LEVELS) return GPURED_ERR_UNSUPPORTED;
  if (s->workspace && s->workspace <= 8 * STANDING_WORDS) {
    int place;
    void *start;
    gpured_status st = place_of_stream(m, owners, STANDING_STREAMS, &place);
    if (st != GPURED_OK) return st;
    if (place >= 0) {
      GPURED__TRY(cudaGetSymbolAddress(&start, standing)); /* of the current context */
      return launch_on_part(m, s, &parts[place], (char *)start + place * sizeof standing[0]);
    }
  }
  s->a.state = (unsigned long long *)memory;
  if (s->workspace) GPURED__TRY(cudaMemsetAsync(memory, 0, s->workspace, m->stream));
  return launch_scan(m, s);
}

#endif /* GPURED__HAS(0) */

/* ============================================================================================== */
/* 12  GEMM-reduce: the product                                                                   */
/* ============================================================================================== */
/*
 * A block of threads owns a tile of the product: 128 rows, which are one block of the order, or 64
 * or 16 where no item has more (the others are absent, and add -0), by W columns.
 * Slices of BK steps of k of both operands pass through a ring in shared memory, [k][across],
 * whatever their layout in memory. Each element of the tile is one chain of fma in one thread, or
 * in the fp64 units, whose mma.sync adds in ascending k with one rounding each. What does not exist
 * of k is -0 * +0, which changes no bit of a chain; rows and columns that do not exist are computed
 * and not looked at. Where the work is little, smaller tiles (down to 128 rows by 8 columns, 64 by
 * 16, 16 by 16) keep more multiprocessors busy; which tile it is changes no bit. Where all
 * multiprocessors have had equally many large tiles, what is left may be cut between them
 * (gemm_pieces), or go to narrower tiles in a launch of their own.
 *   Where even small tiles are few, those of 128 rows have too few threads and read more of their
 * operands than square ones: then the product goes to memory, of which there is little, in tiles of
 * any height (gemm_values), and a second launch reduces its columns (gemm_columns).
 *   A finished tile is reduced where it is, in registers, if no product is stored and all of its
 * rows exist, which small tiles do not ask for. Otherwise, and for most integers, it goes through
 * shared memory, one column of each thread at a time (a strip), 16 threads to each, where all that
 * docs/ORDER.md section 7 knows is a few steps. Several results cost one pass. Each tile leaves one
 * partial a column and result, which section 10 and the kernels of section 13 combine; where an
 * item is one block, it may be the result itself.
 */
enum { GEMM_RASTER = 16 };

/* Of a tile's rows, lines or steps, those that exist. */
GPURED__DEV int existing(int64_t rest, int most) { return rest < most ? (int)rest : most; }

/* How a slice is read: element by element, by 16 bytes across rows (or columns) or along k, or to
 * be converted. */
enum { SLICE_ELEMENTS, SLICE_VECTORS, SLICE_ALONG, SLICE_CONVERT };

struct operand {
  const char *data;
  int64_t across, along; /* strides in elements, over rows (or columns) and over k */
  int dtype, by_depth;   /* by_depth: neighbours in memory are along k */
  int64_t line_bytes, deep_bytes, slice_bytes; /* to a thread's next line, steps, slice */
};

/* One result: the operation on entered values, and where its partials go:
 * [items][blocks][columns]. Where an item is one block they may be the results: then no values
 * are kept beside indices, which may be of 8 bytes. */
struct outcome {
  int kind, enter;
  uint64_t flip;
  char *first, *second;
  int wide;
};

struct product {
  int64_t rows, columns, depth, blocks, column_tiles, tiles;
  operand left, right;
  int batch_count, count;
  gpured__gemm_axis batch[GPURED_MAX_NDIM];
  gpured__epilogue ep;
  float narrow_alpha;
  const char *row_bias, *column_bias; /* [items][rows], [items][columns], the accumulator's type */
  char *c;                            /* the stored product, or NULL */
  int c_dtype;
  int64_t c_row, c_column;
  outcome results[GPURED_MAX_RESULTS];
  /* For what other tiles leave (find_rest), counted in those: from `first` on, each cut into
   * `parts`. The `even` first ones are whole; then follow those of fewer columns, one a block, in
   * `last_parts`. */
  int64_t first, even;
  int parts, last_parts;
  /* For gemm_pieces: a block's own tiles, what is handed over, and words for the tickets (one), for
   * what has been handed over (one for each share) and for which share is whose. */
  int64_t turns;
  char *handed;
  unsigned *signs;
  /* For gemm_values and gemm_columns: [items][columns][value_rows]. */
  char *values;
  int64_t value_rows;
};

/* Where a tile lies. Tiles in flight at one time form a square, so that their operands are
 * shared in the second cache. */
struct tile_place {
  int64_t item, block, column;
};

GPURED__DEV tile_place find_tile(const product &g, int64_t tile, int width) {
  const int64_t each = g.blocks * g.column_tiles, band = GEMM_RASTER * g.column_tiles;
  tile_place here = {tile, 0, 0};
  if (each == 1) return here;
  here.item = tile / each;
  tile -= here.item * each;
  const int64_t first = tile / band * GEMM_RASTER;
  const int64_t height = g.blocks - first < GEMM_RASTER ? g.blocks - first : GEMM_RASTER;
  tile %= band;
  here.block = first + tile % height;
  here.column = tile / height * width;
  return here;
}

GPURED__DEV tile_place find_rest(const product &g, int64_t tile, int width) {
  const int64_t last = tile - (g.even - g.first) * g.parts;
  tile_place here;
  if (last < 0) {
    here = find_tile(g, g.first + tile / g.parts, g.parts * width);
    here.column += tile % g.parts * width;
    return here;
  }
  const int64_t whole = last / g.last_parts;
  here.item = whole / g.blocks;
  here.block = whole % g.blocks;
  here.column = (g.column_tiles * g.parts + last % g.last_parts) * width;
  return here;
}

/* ---- Slices of an operand ---- */

/*
 * A thread's share of the slices of one operand: W rows (or columns) by BK steps, one element or
 * vector every LINE_GAP rows and STEP_GAP steps. They go to [BK][W + PAD], or, in vectors along k,
 * which keep their order, to [W][BK + 4] (bytes: + 16). The slice that is not full is the first, so
 * that the loop over the others has no branch; its missing steps do nothing wherever they come.
 * Rows that do not exist are not copied. HOLD: distances are kept in registers, which lets the
 * compiler order the fma better; otherwise they are read from the parameters, which leaves more
 * registers.
 */
template <class S, int THREADS, int W, int BK, int PAD, int HOW, bool HOLD>
struct slices {
  enum { ACROSS = HOW == SLICE_VECTORS, ALONG = HOW == SLICE_ALONG };
  enum { V = ACROSS || ALONG ? 16 / (int)sizeof(S) : 1, ROW = W / V < 32 ? W / V : 32 };
  enum { STEP_LANES = ALONG ? BK / V : ACROSS ? THREADS / ROW : 8 };
  enum { LINE_LANES = THREADS / STEP_LANES, LINE_GAP = LINE_LANES * (ACROSS ? V : 1) };
  enum { STEP_GAP = STEP_LANES * (ALONG ? V : 1), LINES = W / LINE_GAP, DEEP = BK / STEP_GAP };
  enum { STEP_AT = ALONG ? 1 : W + PAD, LINE_AT = ALONG ? BK + (sizeof(S) == 1 ? 16 : 4) : 1 };
  enum { SIZE = ALONG ? W * LINE_AT : BK * STEP_AT };
  enum { SHARE = LINES * DEEP, CONVERTS = HOW == SLICE_CONVERT };
  const char *at; /* this thread's first element in the next slice */
  int64_t line_bytes, deep_bytes, slice_bytes;
  int to;        /* elements from the beginning of a slice's place */
  unsigned mask; /* which of LINES exist */
  S held[CONVERTS ? SHARE : 1];

  GPURED__DEV bool steps_first(const operand &o) { return ALONG || (!ACROSS && o.by_depth); }
  GPURED__DEV int first_step(const operand &o) {
    return ALONG ? (int)threadIdx.x % STEP_LANES * V
                 : (steps_first(o) ? (int)threadIdx.x % STEP_LANES : (int)threadIdx.x / LINE_LANES);
  }
  GPURED__DEV int first_line(const operand &o) {
    return steps_first(o) ? (int)threadIdx.x / STEP_LANES : (int)threadIdx.x % LINE_LANES * V;
  }

  /* `line`: of the tile in the operand, of which `lines` exist. */
  __device__ __forceinline__ void start(const operand &o, int64_t offset, int64_t line,
                                        int64_t lines) {
    const int size = HOW == SLICE_CONVERT ? size_of(o.dtype) : (int)sizeof(S);
    const int k = first_step(o), i = first_line(o);
    at = o.data + (offset + (line + i) * o.across + k * o.along) * size;
    line_bytes = HOLD ? o.across * size * LINE_GAP : o.line_bytes;
    deep_bytes = HOLD ? o.along * size * STEP_GAP : o.deep_bytes;
    slice_bytes = HOLD ? deep_bytes * DEEP : o.slice_bytes;
    to = k * STEP_AT + i * LINE_AT;
    mask = 0;
#pragma unroll
    for (int e = 0; e < LINES; ++e) mask |= (unsigned)(line + i + e * LINE_GAP < lines) << e;
  }

  /* The first slice, of which `have` steps exist. */
  __device__ __forceinline__ void begin(const operand &o, int have, S absent, S *slot) {
    const int k = first_step(o);
#pragma unroll 1
    for (int d = 0; d < DEEP; ++d)
#pragma unroll 1
      for (int e = 0; e < LINES; ++e) {
        S *place = slot + to + d * STEP_GAP * STEP_AT + e * LINE_GAP * LINE_AT;
        const char *from = at + d * deep_bytes + e * line_bytes;
        if (k + STEP_GAP * d >= have) {
          for (int v = 0; v < V; ++v) place[v] = absent;
        } else if (mask >> e & 1) {
          if constexpr (HOW == SLICE_CONVERT)
            *place = load_any<S>(from, 0, o.dtype);
          else
            copy_if<V * sizeof(S)>(true, place, from);
        }
      }
    at += have * (deep_bytes / STEP_GAP);
  }

  /* Steps that others have done. */
  __device__ __forceinline__ void skip(int64_t steps) { at += steps * (deep_bytes / STEP_GAP); }

  /* Part `part` of `parts` of a slice. */
  __device__ __forceinline__ void copy(const operand &o, bool more, S *slot, int part, int parts) {
    const unsigned which = more ? mask : 0;
#pragma unroll
    for (int n = 0; n < SHARE; ++n) {
      const int d = n / LINES, e = n % LINES;
      if (n * parts / SHARE != part) continue;
      S *place = slot + to + d * STEP_GAP * STEP_AT + e * LINE_GAP * LINE_AT;
      const char *from = at;
      if (d > 0) from += d * deep_bytes;
      from += ACROSS ? e * LINE_GAP * (int)sizeof(S) : e * line_bytes;
      copy_if<V * sizeof(S)>(which >> e & 1, place, from);
    }
    if (part == parts - 1) at += slice_bytes;
  }

  /* The same in two parts, through registers. */
  __device__ __forceinline__ void fetch(const operand &o, bool more) {
#pragma unroll
    for (int d = 0; d < DEEP; ++d)
#pragma unroll
      for (int e = 0; e < LINES; ++e) {
        held[d * LINES + e] = 0;
        if (more && (mask >> e & 1))
          held[d * LINES + e] = load_any<S>(at + d * deep_bytes + e * line_bytes, 0, o.dtype);
      }
    at += slice_bytes;
  }
  __device__ __forceinline__ void put(S *slot) const {
#pragma unroll
    for (int d = 0; d < DEEP; ++d)
#pragma unroll
      for (int e = 0; e < LINES; ++e)
        slot[to + d * STEP_GAP * STEP_AT + e * LINE_GAP * LINE_AT] = held[d * LINES + e];
  }
};

/* ---- Engines: which thread has which elements of a tile, and how they are multiplied ---- */

/* Four neighbours from shared memory, in vectors of 16 bytes; one or two. */
GPURED__DEV void load_four(float *x, const float *p) {
  const float4 q = *(const float4 *)p;
  x[0] = q.x, x[1] = q.y, x[2] = q.z, x[3] = q.w;
}
GPURED__DEV void load_four(uint64_t *x, const uint64_t *p) {
  const ulonglong2 a = *(const ulonglong2 *)p, b = *(const ulonglong2 *)(p + 2);
  x[0] = a.x, x[1] = a.y, x[2] = b.x, x[3] = b.y;
}
GPURED__DEV void load_four(double *x, const double *p) {
  const double2 a = *(const double2 *)p, b = *(const double2 *)(p + 2);
  x[0] = a.x, x[1] = a.y, x[2] = b.x, x[3] = b.y;
}
GPURED__DEV void load_two(float *x, const float *p) {
  const float2 q = *(const float2 *)p;
  x[0] = q.x, x[1] = q.y;
}
/*
 * An engine names the elements of a thread by row slots i < 8 and column slots j < COLUMNS. In all
 * of them slots i and i + 4 are half of the tile's rows apart, and a warp has rows 32 w ... of each
 * half, w = warp % ROW_WARPS, so that the first steps of a fold are cheap.
 */

/*
 * One fma for each thread, element and step. A thread has 8 rows (4 neighbours twice) by TN columns
 * (4 neighbours TN / 4 times; or 1 or 2), in an order in which a quarter of a warp reads no more
 * than eight different vectors. ROW_LANES lanes of a warp are one below the other, 8 or, for few
 * rows, 2. FORGETS: of gemm_pieces, which then keeps its place in its work in shared memory and
 * finds it again after the loop, since the loop needs the registers.
 */
template <int A, int TN, int BK_, int AHEAD_, int STAGES_, int ROW_WARPS_ = 2, int COLUMN_WARPS = 4,
          int ROW_LANES = 8, bool FORGETS_ = false>
struct fma_engine {
  typedef typename acc<A>::T T;
  typedef T S;
  enum { BESIDE = 32 / ROW_LANES, W = BESIDE * TN * COLUMN_WARPS };
  enum { ROW_WARPS = ROW_WARPS_, ROWS = 8 * ROW_LANES * ROW_WARPS };
  enum { THREADS = 32 * ROW_WARPS * COLUMN_WARPS, PLACES = BESIDE * COLUMN_WARPS };
  enum { BK = BK_, STEPS = BK, AHEAD = AHEAD_, COLUMNS = TN, STAGES = STAGES_ };
  enum { PAD = 4, STRIP = sizeof(T) == 4 ? (ROWS + 31) / 32 * 32 + 16 : ROWS + 4 };
  /* The fold: a thread's neighbouring rows come last (LATE); lanes FIRST_XOR apart are 16 rows
   * apart, or 4 where it is not LATE. AT_ONCE columns are folded together, as registers allow. */
  enum { QUICK = A != GPURED__U64, NEAR = TN < 4 ? TN : 4 };
  enum { AT_ONCE = TN == 1 ? 1 : (ROW_LANES == 8 ? TN * ROW_WARPS / 2 : 2) };
  enum { LATE = 1, FIRST_XOR = ROW_LANES, LANES = ROW_LANES, HOLD = 1 };
  enum { FORGETS = FORGETS_ };
  enum { PARTIAL = THREADS <= 128, PARTLY = 0, REAL = A != GPURED__U64 };
  T c[8][TN], a[1 + AHEAD][8], b[1 + AHEAD][TN];

  GPURED__DEV int row() {
    return (int)threadIdx.x / 32 % ROW_WARPS * (4 * ROW_LANES) +
           ((int)threadIdx.x >> 1 & (ROW_LANES - 1)) * 4;
  }
  GPURED__DEV int row_slot(int i) { return i / 4 * (ROWS / 2) + i % 4; }
  /* A thread's columns begin in one of PLACES. */
  GPURED__DEV int place() {
    return (int)threadIdx.x / (32 * ROW_WARPS) * BESIDE +
           (int)threadIdx.x % 32 / (2 * ROW_LANES) * 2 + (int)threadIdx.x % 2;
  }
  GPURED__DEV int column(int place, int j) {
    return place / BESIDE * (BESIDE * TN) + place % BESIDE * NEAR + j / NEAR * (NEAR * BESIDE) +
           j % NEAR;
  }
  __device__ __forceinline__ T &value(int i, int j) { return c[i][j]; }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < TN; ++j) c[i][j] = 0;
  }
  template <class L, class R>
  __device__ __forceinline__ void load(const S *left, const S *right, int step) {
    const int which = step % (1 + AHEAD);
    left += step * L::STEP_AT + row();
    right += step * R::STEP_AT + column(place(), 0);
    load_four(&a[which][0], left);
    load_four(&a[which][4], left + ROWS / 2);
    if constexpr (TN == 1) b[which][0] = *right;
    if constexpr (TN == 2) load_two(b[which], right);
#pragma unroll
    for (int q = 0; q < TN / 4; ++q) load_four(&b[which][4 * q], right + 4 * BESIDE * q);
  }
  /* Multiplies what is there for `step`; the operands of `next` come meanwhile. Without AHEAD those
   * of `step` are read first, and other warps fill the time. */
  template <class L, class R>
  __device__ __forceinline__ void multiply(const S *left, const S *right, int step, int next) {
    const int which = step % (1 + AHEAD);
    load<L, R>(left, right, AHEAD ? next : step);
    /* Of the orders that were measured those in which the compiler's code is fastest, a matter of
     * register banks and of spills, which differs with what else a kernel does. */
    if constexpr ((TN == 16 && !FORGETS) || (TN == 8 && THREADS == 256)) {
#pragma unroll
      for (int i = 0; i < 8; i += 2)
#pragma unroll
        for (int n = 0; n < TN; ++n) {
          const int j = i % 4 ? TN - 1 - n : n;
          c[i][j] = fused(a[which][i], b[which][j], c[i][j]);
          c[i + 1][j] = fused(a[which][i + 1], b[which][j], c[i + 1][j]);
        }
    } else {
#pragma unroll
      for (int j = 0; j < TN; j += 2)
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          const int i = j % 4 ? 7 - n : n;
          c[i][j] = fused(a[which][i], b[which][j], c[i][j]);
          if (TN > 1) c[i][j + 1] = fused(a[which][i], b[which][j + 1], c[i][j + 1]);
        }
    }
  }
};

/*
 * c += a b for 16 rows, 8 columns and 4 steps, four fma in ascending k for each element. In lane
 * 4g + t: a[0] (row g, step t), a[1] (row g + 8), b (step t, column g); c[0], c[1] (row g, columns
 * 2t, 2t + 1), c[2], c[3] (row g + 8).
 */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 900
GPURED__DEV void multiply_four(double *c, const double *a, const double *b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+d"(c[0]), "+d"(c[1])
      : "d"(a[0]), "d"(*b));
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+d"(c[2]), "+d"(c[3])
      : "d"(a[1]), "d"(*b));
#else
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const double top = __shfl_sync(0xffffffffu, a[0], lane / 4 * 4 + k);
    const double low = __shfl_sync(0xffffffffu, a[1], lane / 4 * 4 + k);
    const double b0 = __shfl_sync(0xffffffffu, *b, lane % 4 * 8 + k);
    const double b1 = __shfl_sync(0xffffffffu, *b, lane % 4 * 8 + 4 + k);
    c[0] = fused(top, b0, c[0]);
    c[1] = fused(top, b1, c[1]);
    c[2] = fused(low, b0, c[2]);
    c[3] = fused(low, b1, c[3]);
  }
#endif
}
#endif

/* The same for 4 P steps: a[2p], a[2p + 1] and b[p] are those of steps 4p ... 4p + 3. */
template <int P>
GPURED__DEV void multiply_f64(double *c, const double *a, const double *b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (P == 4)
    asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4 % (2 * P)]), "d"(a[5 % (2 * P)]),
          "d"(a[6 % (2 * P)]), "d"(a[7 % (2 * P)]), "d"(b[0]), "d"(b[1]), "d"(b[2 % P]),
          "d"(b[3 % P]));
  else
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
  for (int p = 0; p < P; ++p) multiply_four(c, a + 2 * p, b + p);
#endif
}

/* Where a matrix instruction of 16 rows by 8 columns leaves its sums; a warp has 64 by 32. */
template <int ROW_WARPS_, int COLUMN_WARPS>
struct units_layout {
  enum { ROW_WARPS = ROW_WARPS_, ROWS = 64 * ROW_WARPS, W = 32 * COLUMN_WARPS, COLUMNS = 8 };
  enum { THREADS = 32 * ROW_WARPS * COLUMN_WARPS, PLACES = 4 * COLUMN_WARPS, STRIP = ROWS + 4 };
  enum { QUICK = 1, AT_ONCE = 4, LATE = 0, FIRST_XOR = 16, LANES = 8, PARTLY = 0 };

  GPURED__DEV int row() {
    return (int)threadIdx.x / 32 % ROW_WARPS * 32 + (int)threadIdx.x % 32 / 4;
  }
  GPURED__DEV int row_slot(int i) { return i / 4 * (ROWS / 2) + i / 2 % 2 * 16 + i % 2 * 8; }
  GPURED__DEV int place() { return (int)threadIdx.x / (32 * ROW_WARPS) * 4 + (int)threadIdx.x % 4; }
  GPURED__DEV int column(int place, int j) {
    return place / 4 * 32 + place % 4 * 2 + j / 2 * 8 + j % 2;
  }
  /* The first of the columns that this lane hands to an instruction, 8 apart. */
  GPURED__DEV int operand_column() {
    return (int)threadIdx.x / (32 * ROW_WARPS) * 32 + (int)threadIdx.x % 32 / 4;
  }
};

/* The fp64 units. S: double, or float that is widened on its way to the unit. What an instruction
 * has read is replaced at once by what comes next. */
template <class S_, int ROW_WARPS = 2, int COLUMN_WARPS = 4>
struct mma_engine : units_layout<ROW_WARPS, COLUMN_WARPS> {
  typedef units_layout<ROW_WARPS, COLUMN_WARPS> layout;
  typedef double T;
  typedef S_ S;
  enum { P = 2, BK = 16, STEPS = BK / (4 * P), AHEAD = 1, STAGES = 3 };
  enum { FORGETS = 0, HOLD = 0, REAL = 1, PARTIAL = layout::THREADS <= 128 };
  enum { PAD = sizeof(S) == 8 ? 4 : 8 };
  double c[4][4][4], a[4][2 * P], b[4][P];

  __device__ __forceinline__ double &value(int i, int j) {
    return c[i / 2][j / 2][i % 2 * 2 + j % 2];
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < 64; ++i) c[i / 16][i / 4 % 4][i % 4] = 0;
  }
  GPURED__DEV double widened(double x) { return x; }
  GPURED__DEV double widened(float x) { return wide(x); }
  template <class L>
  __device__ __forceinline__ void load_left(const S *left, int step, int i) {
    left += (4 * P * step + (int)threadIdx.x % 4) * L::STEP_AT +
            (layout::row() + layout::row_slot(2 * i)) * L::LINE_AT;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      a[i][2 * p] = widened(left[4 * p * L::STEP_AT]);
      a[i][2 * p + 1] = widened(left[4 * p * L::STEP_AT + 8 * L::LINE_AT]);
    }
  }
  template <class R>
  __device__ __forceinline__ void load_right(const S *right, int step, int j) {
    right += (4 * P * step + (int)threadIdx.x % 4) * R::STEP_AT +
             (layout::operand_column() + 8 * j) * R::LINE_AT;
#pragma unroll
    for (int p = 0; p < P; ++p) b[j][p] = widened(right[4 * p * R::STEP_AT]);
  }
  template <class L, class R>
  __device__ __forceinline__ void load(const S *left, const S *right, int step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      load_left<L>(left, step, i);
      load_right<R>(right, step, i);
    }
  }
  template <class L, class R>
  __device__ __forceinline__ void multiply(const S *left, const S *right, int, int next) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        multiply_f64<P>(c[i][j], a[i], b[j]);
        if (i == 3) load_right<R>(right, next, j);
      }
      load_left<L>(left, next, i);
    }
  }
};

/* Engines of gemm_values, whose tiles have any height: they put values where the product goes. */
template <class T>
GPURED__DEV void put_value(const product &g, int64_t item, int64_t row, int64_t column, T x) {
  if (row < g.rows && column < g.columns)
    ((T *)g.values)[(item * g.columns + column) * g.value_rows + row] = x;
}

/* Line i of four steps, which are a vector along k. */
template <int N>
GPURED__DEV void load_along(float (&x)[4][N], int i, const float *from) {
  float steps[4];
  load_four(steps, from);
#pragma unroll
  for (int k = 0; k < 4; ++k) x[k][i] = steps[k];
}

/*
 * R rows by 4 columns of a thread. It takes four steps at a time, in vectors along k where a slice
 * lies so: reading shared memory is what such small tiles wait for. ROW_LANES lanes of a warp are
 * one below the other, in vectors along k their rows, too: R rows ROW_LANES apart.
 */
template <int R, int ROW_WARPS, int COLUMN_WARPS, int BK_, int STAGES_>
struct loose_engine {
  typedef float T;
  typedef float S;
  enum { ROW_LANES = 8, BESIDE = 32 / ROW_LANES, C = 4, THREADS = 32 * ROW_WARPS * COLUMN_WARPS };
  enum { ROWS = R * ROW_LANES * ROW_WARPS, W = C * BESIDE * COLUMN_WARPS };
  enum { BK = BK_, STEPS = BK / 4, AHEAD = 1, STAGES = STAGES_, PAD = 4, HOLD = 1 };
  float c[R][C], a[2][4][R], b[2][4][C];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < R * C; ++i) c[i / C][i % C] = 0;
  }
  template <bool ALONG>
  GPURED__DEV int row(int i) {
    const int lane = (int)threadIdx.x % ROW_LANES, warp = (int)threadIdx.x / 32 % ROW_WARPS;
    return warp * (R * ROW_LANES) + (ALONG ? i * ROW_LANES + lane : lane * R + i);
  }
  template <bool ALONG>
  GPURED__DEV int column(int j) {
    const int lane = (int)threadIdx.x % 32 / ROW_LANES, warp = (int)threadIdx.x / (32 * ROW_WARPS);
    return warp * (C * BESIDE) + (ALONG ? j * BESIDE + lane : lane * C + j);
  }
  template <class L, class Q>
  __device__ __forceinline__ void load(const float *left, const float *right, int step) {
    const int which = step % 2;
#pragma unroll
    for (int i = 0; i < (L::ALONG ? R : 4); ++i) {
      if constexpr (L::ALONG) {
        load_along(a[which], i, left + row<true>(i) * L::LINE_AT + 4 * step);
      } else {
        const float *from = left + (4 * step + i) * L::STEP_AT + row<false>(0);
        if constexpr (R == 4) load_four(a[which][i], from);
        if constexpr (R == 2) load_two(a[which][i], from);
        if constexpr (R == 1) a[which][i][0] = *from;
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if constexpr (Q::ALONG)
        load_along(b[which], i, right + column<true>(i) * Q::LINE_AT + 4 * step);
      else
        load_four(b[which][i], right + (4 * step + i) * Q::STEP_AT + column<false>(0));
  }
  template <class L, class Q>
  __device__ __forceinline__ void multiply(const float *left, const float *right, int step,
                                           int next) {
    const int which = step % 2;
    load<L, Q>(left, right, next);
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int i = 0; i < R; ++i)
#pragma unroll
        for (int j = 0; j < C; ++j) c[i][j] = fused(a[which][k][i], b[which][k][j], c[i][j]);
  }
  template <class L, class Q>
  __device__ __forceinline__ void put(const product &g, const tile_place &here) const {
#pragma unroll
    for (int j = 0; j < C; ++j)
#pragma unroll
      for (int i = 0; i < R; ++i)
        put_value(g, here.item, here.block * ROWS + row<L::ALONG>(i),
                  here.column + column<Q::ALONG>(j), c[i][j]);
  }
};

/*
 * 16 rows by 8 columns of a warp on the fp64 units, 16 steps at a time. S as in mma_engine. Each
 * instruction needs the sums of the one before it. From one turn of a loop to the next the compiler
 * (ptxas 13.0) forgets to wait for them, which costs a warp with one chain its results where two
 * blocks share the units; that something touches the sums after a turn's last instruction makes it
 * wait there.
 */
template <class S_>
struct loose_units {
  typedef double T;
  typedef S_ S;
  typedef mma_engine<S> units;
  enum { THREADS = 128, ROWS = 16, W = 32, BK = 64, STEPS = BK / 16, AHEAD = 1, STAGES = 3 };
  enum { PAD = sizeof(S) == 8 ? 4 : 8, HOLD = 0 };
  double c[4], a[2][8], b[2][4];
  unsigned always; /* not 0, which the compiler does not know */

  __device__ __forceinline__ void clear() {
    c[0] = c[1] = c[2] = c[3] = 0;
    asm volatile("mov.u32 %0, %%nctaid.y;" : "=r"(always));
  }
  template <class L, class Q>
  __device__ __forceinline__ void load(const S *left, const S *right, int step) {
    const int line = (int)threadIdx.x % 32 / 4, first = 16 * step + (int)threadIdx.x % 4;
    left += line * L::LINE_AT + first * L::STEP_AT;
    right += ((int)threadIdx.x / 32 * 8 + line) * Q::LINE_AT + first * Q::STEP_AT;
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      a[step % 2][2 * p] = units::widened(left[4 * p * L::STEP_AT]);
      a[step % 2][2 * p + 1] = units::widened(left[4 * p * L::STEP_AT + 8 * L::LINE_AT]);
      b[step % 2][p] = units::widened(right[4 * p * Q::STEP_AT]);
    }
  }
  template <class L, class Q>
  __device__ __forceinline__ void multiply(const S *left, const S *right, int step, int next) {
    load<L, Q>(left, right, next);
    multiply_f64<4>(c, a[step % 2], b[step % 2]);
    if (next == 0)
      asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, 0; @p mov.f64 %0, 0d0000000000000000; }"
                   : "+d"(c[0])
                   : "r"(always));
  }
  template <class L, class Q>
  __device__ __forceinline__ void put(const product &g, const tile_place &here) const {
    const int64_t row = here.block * ROWS + (int)threadIdx.x % 32 / 4;
    const int64_t column = here.column + (int)threadIdx.x / 32 * 8 + (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) put_value(g, here.item, row + i / 2 * 8, column + i % 2, c[i]);
  }
};

/* Rows between a tile and the one below it. */
template <class E>
struct height_of {
  enum { ROWS = GPURED__GEMM_BLOCK };
};
template <int R, int ROW_WARPS, int COLUMN_WARPS, int BK, int STAGES>
struct height_of<loose_engine<R, ROW_WARPS, COLUMN_WARPS, BK, STAGES>> {
  enum { ROWS = loose_engine<R, ROW_WARPS, COLUMN_WARPS, BK, STAGES>::ROWS };
};
template <class S>
struct height_of<loose_units<S>> {
  enum { ROWS = loose_units<S>::ROWS };
};

/*
 * c += a b for 16 rows, 8 columns and 32 steps of bytes, modulo 2^32. In lane 4g + t: a[0] (row g,
 * steps 4t ... 4t + 3), a[1] (row g + 8), a[2], a[3] (the same, 16 steps on), b[0] (column g), b[1]
 * (16 steps on); c as above.
 */
template <bool SIGNED>
GPURED__DEV void multiply_bytes(int *c, const uint32_t *a, const uint32_t *b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if (SIGNED)
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    int *sum = c + q % 2 * 2;
    if (SIGNED)
      asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
          : "+r"(sum[0]), "+r"(sum[1])
          : "r"(a[q]), "r"(b[q / 2]));
    else
      asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
          : "+r"(sum[0]), "+r"(sum[1])
          : "r"(a[q]), "r"(b[q / 2]));
  }
#endif
}

/* Bytes along k on tensor cores. Sums of integers have one value in any order; those of so few
 * steps that 32 bits hold them are widened at the end. */
template <bool SIGNED>
struct byte_engine : units_layout<2, 4> {
  typedef uint64_t T;
  typedef int8_t S;
  enum { BK = 64, STEPS = BK / 32, AHEAD = 0, STAGES = 4, PAD = 0, HOLD = 1, REAL = 0 };
  enum { PARTIAL = 1, MOST_STEPS = SIGNED ? INT32_MAX >> 14 : (int)(UINT32_MAX / (255 * 255)) };
  int c[4][4][4];

  __device__ __forceinline__ uint64_t value(int i, int j) const {
    const int x = c[i / 2][j / 2][i % 2 * 2 + j % 2];
    return SIGNED ? (uint64_t)(int64_t)x : (uint64_t)(uint32_t)x;
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < 64; ++i) c[i / 16][i / 4 % 4][i % 4] = 0;
  }
  template <class L, class R>
  __device__ __forceinline__ void load(const S *, const S *, int) {}
  template <class L, class R>
  __device__ __forceinline__ void multiply(const S *left, const S *right, int step, int) {
    const int at = 32 * step + (int)threadIdx.x % 4 * 4;
    uint32_t b[4][2];
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int q = 0; q < 2; ++q)
        b[j][q] =
            *(const uint32_t *)(right + (operand_column() + 8 * j) * R::LINE_AT + at + 16 * q);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const S *from = left + (row() + row_slot(2 * i)) * L::LINE_AT + at;
      uint32_t a[4];
#pragma unroll
      for (int q = 0; q < 4; ++q)
        a[q] = *(const uint32_t *)(from + q % 2 * 8 * L::LINE_AT + q / 2 * 16);
#pragma unroll
      for (int j = 0; j < 4; ++j) multiply_bytes<SIGNED>(c[i][j], a, b[j]);
    }
  }
};

/* ---- What becomes of a finished tile ---- */

/* 16 threads have a column: thread q its rows q, q + 16, ..., q + 112. */
enum { COLUMN_ROWS = GPURED__GEMM_BLOCK / 16 };

template <class T>
struct column_values {
  T v[COLUMN_ROWS];
  int rows;   /* of the block */
  int64_t at; /* where a partial of this column goes */
  bool exists;
};

GPURED__DEV int my_row(int i) { return (int)threadIdx.x % 16 + 16 * i; }

/* The one that is of the accumulator's type: the host narrows, as flags here might flush. */
GPURED__DEV double of_two(double x, float, double) { return x; }
GPURED__DEV float of_two(double, float x, float) { return x; }
GPURED__DEV uint64_t of_two(double, float, uint64_t) { return 1; }

GPURED__DEV float magnitude(float x) { return __uint_as_float(bits_of(x) & 0x7fffffffu); }
GPURED__DEV double magnitude(double x) {
  return __longlong_as_double((long long)(bits_of(x) << 1 >> 1));
}
GPURED__DEV uint64_t magnitude(uint64_t x) { return (int64_t)x < 0 ? 0u - x : x; }

template <class T>
GPURED__DEV T bias_at(const char *bias, int64_t i) {
  return bias ? ((const T *)bias)[i] : (T)0;
}

/* docs/ORDER.md section 7.2. */
template <class T>
GPURED__DEV T finished(const product &g, T t, T row_bias, T column_bias) {
  const T alpha = of_two(g.ep.alpha, g.narrow_alpha, T());
  const bool has_first = (g.ep.rows_first ? g.row_bias : g.column_bias) != NULL;
  const bool has_second = (g.ep.rows_first ? g.column_bias : g.row_bias) != NULL;
  if (has_first)
    t = fused(alpha, t, g.ep.rows_first ? row_bias : column_bias);
  else if (g.ep.scaled)
    t = mul(alpha, t);
  if (has_second) t = add(t, g.ep.rows_first ? column_bias : row_bias);
  if (g.ep.map == GPURED_MAP_SQUARE) t = mul(t, t);
  if (g.ep.map == GPURED_MAP_ABS) t = magnitude(t);
  return t;
}
GPURED__DEV uint64_t finished(const product &g, uint64_t t, uint64_t, uint64_t) {
  if (g.ep.map == GPURED_MAP_SQUARE) return t * t;
  if (g.ep.map == GPURED_MAP_ABS && g.ep.is_signed) return magnitude(t);
  return t;
}

template <class T>
GPURED__DEV T entered(const outcome &r, T v) {
  typedef decltype(bits_of(v)) U;
  if (r.enter == GPURED__SQUARE) v = mul(v, v);
  if (r.enter == GPURED__ABS) v = magnitude(v);
  set_bits(&v, (U)(bits_of(v) ^ (U)r.flip));
  return v;
}

template <class T>
struct local_arg {
  T v;
  int i;
};

/* The fold by halving stride over a block's rows; the first of the 16 threads has the result. */
template <int K, class T>
GPURED__DEV T fold_rows(T *x) {
#pragma unroll
  for (int h = COLUMN_ROWS / 2; h > 0; h /= 2)
#pragma unroll
    for (int i = 0; i < h; ++i) x[i] = combined<K>(x[i], x[i + h]);
  return folded<K>(0xffffffffu, x[0]);
}

/* A column's partial; `row` and `more` where the operation has them. */
template <class T>
GPURED__DEV void put_column(const outcome &r, int64_t at, T y, T more, int row) {
  typedef decltype(bits_of(T())) U;
  set_bits(&y, (U)(bits_of(y) ^ (U)r.flip));
  if (r.first) ((T *)r.first)[at] = canonical(y);
  if (r.kind == K_LSE) ((T *)r.second)[at] = more;
  if (r.kind != K_ARG) return;
  if (r.wide)
    ((int64_t *)r.second)[at] = row;
  else
    ((int32_t *)r.second)[at] = row;
}

template <int K, class T>
GPURED__DEV void reduce_fold(const column_values<T> &c, const outcome &r) {
  T x[COLUMN_ROWS];
#pragma unroll
  for (int i = 0; i < COLUMN_ROWS; ++i) {
    set_neutral<K>(&x[i]);
    if (my_row(i) < c.rows) x[i] = entered(r, c.v[i]);
  }
  const T y = fold_rows<K>(x);
  if (c.exists && threadIdx.x % 16 == 0) put_column(r, c.at, y, y, 0);
}

template <class T>
GPURED__DEV void reduce_arg(const column_values<T> &c, const outcome &r) {
  local_arg<T> best, x;
  best.v = entered(r, c.v[0]);
  best.i = my_row(0);
  if (best.i >= c.rows) {
    best.v = lowest(T());
    best.i = INT32_MAX;
  }
#pragma unroll
  for (int i = 1; i < COLUMN_ROWS; ++i) {
    x.v = entered(r, c.v[i]);
    if (my_row(i) < c.rows && beats(x.v, best.v)) {
      best.v = x.v;
      best.i = my_row(i);
    }
  }
#pragma unroll
  for (int h = 8; h > 0; h /= 2) {
    x.v = __shfl_xor_sync(0xffffffffu, best.v, h);
    x.i = __shfl_xor_sync(0xffffffffu, best.i, h);
    if (beats(x.v, best.v) || (!beats(best.v, x.v) && x.i < best.i)) best = x;
  }
  if (c.exists && threadIdx.x % 16 == 0) put_column(r, c.at, best.v, best.v, best.i);
}

template <class T>
GPURED__DEV void reduce_pair(const column_values<T> &c, const outcome &r) {
  T x[COLUMN_ROWS], m = lowest(T()), s = 1;
#pragma unroll
  for (int i = 0; i < COLUMN_ROWS; ++i)
    if (my_row(i) < c.rows) m = greater_of(m, c.v[i]);
#pragma unroll
  for (int h = 8; h > 0; h /= 2) m = greater_of(m, __shfl_xor_sync(0xffffffffu, m, h));
#pragma unroll
  for (int i = 0; i < COLUMN_ROWS; ++i) {
    x[i] = nothing(T());
    if (my_row(i) < c.rows && is_finite(m)) x[i] = exponential(sub(c.v[i], m));
  }
  x[0] = fold_rows<K_ADD>(x);
  if (is_finite(m)) s = x[0];
  if (c.exists && threadIdx.x % 16 == 0) put_column(r, c.at, m, s, 0);
}
GPURED__DEV void reduce_pair(const column_values<uint64_t> &, const outcome &) {}

template <class T>
GPURED__DEV void store_values(const product &g, const column_values<T> &c, int64_t c_at) {
  char *to = g.c + c_at * size_of(g.c_dtype);
#pragma unroll
  for (int i = 0; i < COLUMN_ROWS; ++i)
    if (c.exists && my_row(i) < c.rows)
      store_any(to + my_row(i) * g.c_row * size_of(g.c_dtype), g.c_dtype, c.v[i]);
}

/* ---- The same, whole blocks of floats in registers ---- */

/*
 * Without the way through shared memory: a thread combines its own rows first (for sums only slots
 * i and i + 4, 64 rows apart), two warps exchange half of their columns (32 rows apart), then lanes
 * do, so that the work halves at every step; at the end a thread has one column.
 */
template <class T>
GPURED__DEV T from_lane(T x, int distance) {
  return __shfl_xor_sync(0xffffffffu, x, distance);
}
/* NaN by a comparison: one instruction, where is_nan is two on bits. */
GPURED__DEV bool is_unordered(float x) {
  int r;
  asm("{ .reg .pred p; setp.nan.f32 p, %1, %1; selp.s32 %0, 1, 0, p; }" : "=r"(r) : "f"(x));
  return r != 0;
}
GPURED__DEV bool is_unordered(double x) {
  int r;
  asm("{ .reg .pred p; setp.nan.f64 p, %1, %1; selp.s32 %0, 1, 0, p; }" : "=r"(r) : "d"(x));
  return r != 0;
}
GPURED__DEV bool is_unordered(uint64_t) { return false; }

/* A row, or none. */
struct row_number {
  int i;
};
GPURED__DEV row_number from_lane(row_number x, int distance) {
  x.i = __shfl_xor_sync(0xffffffffu, x.i, distance);
  return x;
}
template <int K>
GPURED__DEV row_number combined(row_number a, row_number b) {
  return b.i < a.i ? b : a;
}

/* C columns of R values among lanes `LANE` apart: each keeps half of the columns. */
template <int K, int C, int R, int LANE, class N>
GPURED__DEV void halve(N *x, int *slot) {
  const bool upper = ((int)threadIdx.x & LANE) != 0;
  if (C > 1) {
#pragma unroll
    for (int i = 0; i < C / 2 * R; ++i) {
      const N other = x[i + C / 2 * R], sent = upper ? x[i] : other, kept = upper ? other : x[i];
      x[i] = combined<K>(kept, from_lane(sent, LANE));
    }
    *slot += upper ? C / 2 : 0;
  } else {
#pragma unroll
    for (int i = 0; i < R; ++i) x[i] = combined<K>(x[i], from_lane(x[i], LANE));
  }
}

/* The same between two warps, by way of shared memory. */
template <int K, int C, int R, int THREADS, class N>
GPURED__DEV void halve_warps(N *x, int *slot, N *shared) {
  const bool upper = threadIdx.x / 32 % 2 != 0;
#pragma unroll
  for (int i = 0; i < C / 2 * R; ++i) {
    const N other = x[i + C / 2 * R];
    shared[i * THREADS + threadIdx.x] = upper ? x[i] : other;
    x[i] = upper ? other : x[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < C / 2 * R; ++i)
    x[i] = combined<K>(x[i], shared[i * THREADS + (threadIdx.x ^ 32)]);
  __syncthreads();
  *slot += upper ? C / 2 : 0;
}

/* The last two steps inside a thread, of C columns of 4 values. */
template <int K, int C, class N>
GPURED__DEV void fold_four(N *x) {
#pragma unroll
  for (int c = 0; c < C; ++c)
    x[c] =
        combined<K>(combined<K>(x[4 * c], x[4 * c + 2]), combined<K>(x[4 * c + 1], x[4 * c + 3]));
}

/* From R values of each of AT_ONCE columns to one of one column: x[0]. Returns which. */
template <int K, class E, int R, class N>
GPURED__DEV int fold_tile(N *x, char *memory) {
  enum { X = E::FIRST_XOR, LATE = R == 4 && E::LATE, Q = LATE ? 4 : 1 };
  enum { C = E::AT_ONCE / E::ROW_WARPS };
  int slot = 0;
  if (E::ROW_WARPS == 2) halve_warps<K, 2 * C, R, E::THREADS>(x, &slot, (N *)memory);
  if (R == 4 && !LATE) fold_four<K, C>(x);
  halve<K, C, Q, X>(x, &slot);
  if (E::LANES > 2) halve<K, (C / 2 > 1 ? C / 2 : 1), Q, X / 2>(x, &slot);
  if (E::LANES > 4) halve<K, (C / 4 > 1 ? C / 4 : 1), Q, X / 4>(x, &slot);
  if (LATE) fold_four<K, 1>(x);
  return slot;
}

/* Does this thread store the column of its slot, or does another one? */
template <class E>
GPURED__DEV bool is_storing() {
  enum { C = E::AT_ONCE / E::ROW_WARPS };
  return ((int)threadIdx.x & (2 * E::FIRST_XOR / E::LANES * (E::LANES / C - 1))) == 0;
}

/* An engine with a tile some of whose rows do not exist; a bit for each of the row slots. */
template <class E>
struct partly : E {
  enum { PARTLY = 1 };
  unsigned present;
};

template <class E>
GPURED__DEV bool is_present(const E &engine, int i) {
  if constexpr (E::PARTLY) return engine.present >> i & 1;
  return true;
}

GPURED__DEV bool has_values_to_finish(const product &g) {
  return g.row_bias || g.column_bias || g.ep.scaled || g.ep.map;
}

template <class E>
GPURED__DEV void finish_values(const product &g, const tile_place &here, E &engine) {
  typedef typename E::T T;
  const int64_t row = here.item * g.rows + here.block * GPURED__GEMM_BLOCK + E::row();
  T rows[8];
#pragma unroll
  for (int i = 0; i < 8; ++i)
    rows[i] = is_present(engine, i) ? bias_at<T>(g.row_bias, row + E::row_slot(i)) : (T)0;
#pragma unroll
  for (int j = 0; j < E::COLUMNS; ++j) {
    const int64_t column = here.column + E::column(E::place(), j);
    const T bias =
        bias_at<T>(g.column_bias, here.item * g.columns + (column < g.columns ? column : 0));
#pragma unroll
    for (int i = 0; i < 8; ++i) engine.value(i, j) = finished(g, engine.value(i, j), rows[i], bias);
  }
}

/* Values that enter a sum, from column slot `first` on: f(value) of slots i and i + 4 meet at once.
 * The sum of a column, and which: */
template <class E, class T, class F>
GPURED__DEV T sum_tile(E &engine, int first, int *slot, char *memory, const F &f) {
  T x[4 * E::AT_ONCE];
#pragma unroll
  for (int j = 0; j < E::AT_ONCE; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const T above = f(engine.value(i, first + j), j),
              below = f(engine.value(i + 4, first + j), j);
      x[4 * j + i] = add(is_present(engine, i) ? above : nothing(T()),
                         is_present(engine, i + 4) ? below : nothing(T()));
    }
  *slot = first + fold_tile<K_ADD, E, 4>(x, memory);
  return x[0];
}

template <class E, class T>
GPURED__DEV T entered_sum(E &engine, const outcome &o, int first, int *slot, char *memory) {
  if (o.enter == GPURED__SQUARE)
    return sum_tile<E, T>(engine, first, slot, memory, [](T v, int) { return mul(v, v); });
  if (o.enter == GPURED__ABS)
    return sum_tile<E, T>(engine, first, slot, memory, [](T v, int) { return magnitude(v); });
  return sum_tile<E, T>(engine, first, slot, memory, [](T v, int) { return v; });
}

/* The greatest of each of AT_ONCE columns after the bits have been masked and flipped. */
template <class E, class T, class U>
GPURED__DEV T greatest_of_tile(E &engine, int first, int *slot, char *memory, U keep, U flip) {
  T x[E::AT_ONCE];
#pragma unroll
  for (int j = 0; j < E::AT_ONCE; ++j) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      T v = engine.value(i, first + j);
      if (!E::REAL && keep != (U) ~(U)0)
        v = magnitude(v); /* which has all bits */
      else
        set_bits(&v, bits_of(v) & keep);
      set_bits(&v, bits_of(v) ^ flip);
      if (!is_present(engine, i)) v = lowest(T());
      x[j] = i == 0 ? v : greater_of(x[j], v);
    }
  }
  *slot = first + fold_tile<K_MAX, E, 1>(x, memory);
  return x[0];
}

/* The greatest of AT_ONCE columns, as every thread needs them for its own; and this thread's
 * one. */
template <class E, class T, class U>
GPURED__DEV T share_greatest(E &engine, int first, T *m, char *memory, U flip) {
  T *shared = (T *)memory;
  int slot;
  const T mine = greatest_of_tile<E, T, U>(engine, first, &slot, memory, (U) ~(U)0, flip);
  shared[E::column(E::place(), slot)] = mine;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < E::AT_ONCE; ++j) m[j] = shared[E::column(E::place(), first + j)];
  __syncthreads();
  return mine;
}

/* The first row that holds the greatest value, or a NaN: where there is one, the greatest is
 * NaN. */
template <class E, class T, class U>
GPURED__DEV local_arg<T> arg_of_tile(E &engine, int first, int *slot, char *memory, U flip) {
  T m[E::AT_ONCE];
  row_number x[E::AT_ONCE];
  local_arg<T> y;
  y.v = share_greatest<E, T, U>(engine, first, m, memory, flip);
#pragma unroll
  for (int j = 0; j < E::AT_ONCE; ++j) {
    set_bits(&m[j], (U)(bits_of(m[j]) ^ flip));
    x[j].i = INT32_MAX;
#pragma unroll
    for (int i = 7; i >= 0; --i) {
      const T v = engine.value(i, first + j);
      if (is_present(engine, i) && (equal(v, m[j]) || is_unordered(v))) x[j].i = E::row_slot(i);
    }
    if (x[j].i != INT32_MAX) x[j].i += E::row();
  }
  *slot = first + fold_tile<K_ARG, E, 1>(x, memory);
  y.i = x[0].i;
  return y;
}

/* The pair (m, s) of a column. */
template <class E, class T, class U>
GPURED__DEV pair_node<T> pair_of_tile(E &engine, int first, int *slot, char *memory) {
  T m[E::AT_ONCE];
  pair_node<T> y;
  y.m = share_greatest<E, T, U>(engine, first, m, memory, (U)0);
  y.s = sum_tile<E, T>(engine, first, slot, memory,
                       [&](T v, int j) { return exponential(sub(v, m[j])); });
  if (!is_finite(y.m)) y.s = 1;
  return y;
}

/* Result o of AT_ONCE columns from slot `first` on. */
template <class E>
GPURED__DEV void reduce_columns(const product &g, const tile_place &here, const outcome &o,
                                E &engine, int first, char *memory) {
  typedef typename E::T T;
  typedef decltype(bits_of(T())) U;
  const U keep = o.enter == GPURED__ABS ? (U) ~(U)0 >> 1 : (U) ~(U)0, flip = (U)o.flip;
  int slot = 0, row = 0;
  T y = 0, more = 0;
  if (o.kind == K_ADD) {
    y = entered_sum<E, T>(engine, o, first, &slot, memory);
  } else if (o.kind == K_MAX) {
    y = greatest_of_tile<E, T, U>(engine, first, &slot, memory, keep, flip);
  } else if (o.kind == K_ARG) {
    const local_arg<T> best = arg_of_tile<E, T, U>(engine, first, &slot, memory, flip);
    y = best.v;
    row = best.i;
  } else if constexpr (E::REAL) {
    const pair_node<T> pair = pair_of_tile<E, T, U>(engine, first, &slot, memory);
    y = pair.m;
    more = pair.s;
  }
  const int64_t j = here.column + E::column(E::place(), slot);
  if (j < g.columns && is_storing<E>())
    put_column(o, (here.item * g.blocks + here.block) * g.columns + j, y, more, row);
}

template <class E>
GPURED__DEV void use_whole_tile(const product &g, const tile_place &here, E &engine, char *memory) {
  if constexpr (E::REAL)
    if (has_values_to_finish(g)) finish_values(g, here, engine);
#pragma unroll 1
  for (int r = 0; r < g.count; ++r)
#pragma unroll
    for (int first = 0; first < E::COLUMNS; first += E::AT_ONCE)
      reduce_columns(g, here, g.results[r], engine, first, memory);
}

template <class E>
GPURED__DEV void use_partial_tile(const product &g, const tile_place &here, partly<E> &engine,
                                  char *memory) {
  const int64_t first = here.block * GPURED__GEMM_BLOCK + E::row();
  engine.present = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) engine.present |= (unsigned)(first + E::row_slot(i) < g.rows) << i;
  use_whole_tile(g, here, engine, memory);
}

/* All that becomes of a column whose values are there. */
template <class T>
GPURED__DEV void use_column(const product &g, const column_values<T> &c, int64_t c_at) {
  if (g.c) store_values(g, c, c_at);
#pragma unroll 1
  for (int r = 0; r < g.count; ++r) {
    const outcome &o = g.results[r];
    if (o.kind == K_ADD) reduce_fold<K_ADD>(c, o);
    if (o.kind == K_MAX) reduce_fold<K_MAX>(c, o);
    if (o.kind == K_ARG) reduce_arg(c, o);
    if (o.kind == K_LSE) reduce_pair(c, o);
  }
}

template <class E>
GPURED__DEV void use_strips(const product &g, const tile_place &here, E &engine, char *memory) {
  typedef typename E::T T;
  T *strips = (T *)memory;
  T bias[COLUMN_ROWS];
  column_values<T> c;
  const int64_t row = here.block * GPURED__GEMM_BLOCK, left = g.rows - row;
  const int64_t c_item =
      gpured__item_offset(g.batch, g.batch_count, here.item, GPURED__PRODUCT) + row * g.c_row;
  c.rows = left < GPURED__GEMM_BLOCK ? (int)left : GPURED__GEMM_BLOCK;
#pragma unroll
  for (int i = 0; i < COLUMN_ROWS; ++i) {
    const int mine = my_row(i) < c.rows ? my_row(i) : 0;
    bias[i] = bias_at<T>(g.row_bias, here.item * g.rows + row + mine);
  }
#pragma unroll 1
  for (int s = 0; s < E::COLUMNS; ++s) {
    T *strip = strips + s % 2 * E::PLACES * E::STRIP;
#pragma unroll
    for (int j = 0; j < E::COLUMNS; ++j)
      if (j == s)
#pragma unroll
        for (int i = 0; i < 8; ++i)
          strip[E::place() * E::STRIP + E::row() + E::row_slot(i)] = engine.value(i, j);
    __syncthreads(); /* enough for two strips in turn */
    int which = (int)threadIdx.x / 16;
#pragma unroll 1
    do {
      const int64_t j = here.column + E::column(which, s);
      c.exists = j < g.columns;
      c.at = (here.item * g.blocks + here.block) * g.columns + j;
      const T column_bias = bias_at<T>(g.column_bias, here.item * g.columns + (c.exists ? j : 0));
#pragma unroll
      for (int i = 0; i < COLUMN_ROWS; ++i)
        c.v[i] = finished(g, 16 * i < E::ROWS ? strip[which * E::STRIP + my_row(i)] : (T)0, bias[i],
                          column_bias);
      use_column(g, c, c_item + j * g.c_column);
      which += E::THREADS / 16;
    } while (E::PLACES > E::THREADS / 16 && which < E::PLACES);
  }
}

/* ---- The kernel ---- */

/* Before sm_80 copies are not asynchronous, and memory is small. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
enum { GEMM_MAJOR = 7 };
#else
enum { GEMM_MAJOR = 8 };
#endif

/* The ring, and the slices in it. */
template <class E>
struct ring_of {
  static constexpr __host__ __device__ int stages(int major) { return major >= 8 ? E::STAGES : 2; }
  static constexpr __host__ __device__ int pad(int major) { return major >= 8 ? E::PAD : 0; }
  static constexpr __host__ __device__ size_t bytes(int major, int along) {
    return (size_t)stages(major) * sizeof(typename E::S) *
           (along ? (E::ROWS + E::W) * (E::BK + (sizeof(typename E::S) == 1 ? 16 : 4))
                  : E::BK * (E::ROWS + E::W + 2 * pad(major)));
  }
};

template <class E, int W, int HOW>
using slices_of =
    slices<typename E::S, E::THREADS, W, E::BK, ring_of<E>::pad(GEMM_MAJOR), HOW, E::HOLD != 0>;

/* The first of `count` slices of a tile on their way; `have` steps of the very first exist. EVEN:
 * if that is whole, it is copied like the others, which counts where tiles are small. */
template <int STAGES, int BK, int SLOT, int OTHER, bool EVEN, class S, class L, class R>
GPURED__DEV void fill_ring(const product &g, int64_t count, int have, L &left, R &right, S *ring) {
  const bool whole = EVEN && have == BK;
  if (count > 0 && !whole) {
    left.begin(g.left, have, nothing(S()), ring);
    right.begin(g.right, have, (S)0, ring + OTHER);
  }
  if (!whole) copies_commit();
  for (int i = whole ? 0 : 1; i < STAGES - 1; ++i) {
    S *slot = ring + i * SLOT;
    if constexpr (L::CONVERTS) {
      left.fetch(g.left, i < count);
      right.fetch(g.right, i < count);
      left.put(slot);
      right.put(slot + OTHER);
    } else {
      left.copy(g.left, i < count, slot, 0, 1);
      right.copy(g.right, i < count, slot + OTHER, 0, 1);
    }
    copies_commit();
  }
}

template <class E>
GPURED__DEV int64_t all_slices(const product &g) {
  return (g.depth + E::BK - 1) / E::BK;
}

/* Some slices of a tile: `count` of them, behind `skipped` whose products are in the engine. */
template <class E, class L, class R, class N>
GPURED__DEV void multiply_slices(const product &g, const tile_place &here, int64_t skipped, N count,
                                 E &engine, typename E::S *ring) {
  typedef typename E::S S;
  enum { STAGES = ring_of<E>::stages(GEMM_MAJOR), BK = E::BK };
  enum { SLOT = L::SIZE + R::SIZE, OTHER = L::SIZE, CONVERT = L::CONVERTS };
  const int first = (int)(g.depth - (g.depth - 1) / BK * BK);
  L left;
  R right;
  left.start(g.left, gpured__item_offset(g.batch, g.batch_count, here.item, GPURED__LEFT),
             here.block * height_of<E>::ROWS, g.rows);
  right.start(g.right, gpured__item_offset(g.batch, g.batch_count, here.item, GPURED__RIGHT),
              here.column, g.columns);
  if (skipped > 0) {
    left.skip(first + (skipped - 1) * BK);
    right.skip(first + (skipped - 1) * BK);
  }
  fill_ring<STAGES, BK, SLOT, OTHER, E::THREADS != 256>(g, count, skipped > 0 ? BK : first, left,
                                                        right, ring);
  copies_wait_but<STAGES - 2>();
  __syncthreads();
  if (E::AHEAD && count > 0) engine.template load<L, R>(ring, ring + OTHER, 0);
  S *now = ring, *spare = ring + (STAGES - 1) * SLOT;
#pragma unroll 1
  for (N i = 0; i < count; ++i) {
    S *next = now == ring + (STAGES - 1) * SLOT ? ring : now + SLOT;
    const bool more = i + STAGES - 1 < count;
#pragma unroll
    for (int step = 0; step < E::STEPS; ++step) {
      const bool last = step + 1 == E::STEPS, far = last && E::AHEAD;
      if (step == 0 && !E::AHEAD) {
        copies_wait_but<STAGES - 2>();
        __syncthreads();
      }
      if constexpr (!CONVERT) {
        left.copy(g.left, more, spare, step, E::STEPS);
        right.copy(g.right, more, spare + OTHER, step, E::STEPS);
      } else {
        if (step == 0) left.fetch(g.left, more);
        if (step == 0) right.fetch(g.right, more);
        if (last) left.put(spare);
        if (last) right.put(spare + OTHER);
      }
      if (last) copies_commit();
      if (far) {
        copies_wait_but<STAGES - 2>();
        __syncthreads();
      }
      engine.template multiply<L, R>(far ? next : now, (far ? next : now) + OTHER, step,
                                     last ? 0 : step + 1);
    }
    spare = now;
    now = next;
  }
  copies_wait();
  __syncthreads();
}

template <class E>
GPURED__DEV void use_tile(const product &g, const tile_place &here, partly<E> &engine,
                          char *memory) {
  const bool quick = !g.c && (E::REAL || !has_values_to_finish(g));
  bool done = false;
  if constexpr (E::QUICK) {
    done = quick && here.block * GPURED__GEMM_BLOCK + E::ROWS <= g.rows;
    if (done) use_whole_tile(g, here, (E &)engine, memory);
  }
  if constexpr (E::QUICK && E::PARTIAL) {
    if (!done && quick) use_partial_tile(g, here, engine, memory);
    done = quick;
  }
  if (!done) use_strips(g, here, (E &)engine, memory);
  __syncthreads();
}

/* REST: the tiles of a second launch, which lie where find_rest says. */
template <class E, int LEFT_HOW, int RIGHT_HOW, int RESIDENT, bool REST>
static __global__ void __launch_bounds__(E::THREADS, RESIDENT)
    gemm_tiles(const __grid_constant__ product g) {
  typedef slices_of<E, E::ROWS, LEFT_HOW> L;
  typedef slices_of<E, E::W, RIGHT_HOW> R;
  extern __shared__ uint4 gemm_memory[];
  for (int64_t tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
    const tile_place here = REST ? find_rest(g, tile, E::W) : find_tile(g, tile, E::W);
    partly<E> engine;
    engine.clear();
    multiply_slices<E, L, R>(g, here, 0, all_slices<E>(g), engine, (typename E::S *)gemm_memory);
    use_tile<E>(g, here, engine, (char *)gemm_memory);
  }
}

/* Tiles whose values go to memory. */
template <class E, int LEFT_HOW, int RIGHT_HOW, int RESIDENT>
static __global__ void __launch_bounds__(E::THREADS, RESIDENT)
    gemm_values(const __grid_constant__ product g) {
  typedef slices_of<E, E::ROWS, LEFT_HOW> L;
  typedef slices_of<E, E::W, RIGHT_HOW> R;
  extern __shared__ __align__(128) uint4 values_memory[];
  for (int64_t tile = blockIdx.x; tile < g.tiles; tile += gridDim.x) {
    const tile_place here = find_tile(g, tile, E::W);
    E engine;
    engine.clear();
    multiply_slices<E, L, R>(g, here, 0, (int)all_slices<E>(g), engine,
                             (typename E::S *)values_memory);
    engine.template put<L, R>(g, here);
  }
}

/* Their columns, as those of a strip: 16 threads for a column of a block of rows. */
template <class T, int THREADS>
static __global__ void __launch_bounds__(THREADS) gemm_columns(const __grid_constant__ product g) {
  enum { BESIDE = THREADS / 16 };
  const int64_t groups = (g.columns + BESIDE - 1) / BESIDE, tiles = groups * g.blocks;
  const int64_t item = blockIdx.x / tiles, block = blockIdx.x % tiles / groups;
  const int64_t j = blockIdx.x % groups * BESIDE + threadIdx.x / 16;
  const int64_t row = block * GPURED__GEMM_BLOCK, column = j < g.columns ? j : 0;
  const T *values = (const T *)g.values + (item * g.columns + column) * g.value_rows + row;
  const int64_t c_item =
      gpured__item_offset(g.batch, g.batch_count, item, GPURED__PRODUCT) + row * g.c_row;
  column_values<T> c;
  c.rows = existing(g.rows - row, GPURED__GEMM_BLOCK);
  c.exists = j < g.columns;
  c.at = (item * g.blocks + block) * g.columns + j;
  let_next_launch();
  after_launch_before();
#pragma unroll
  for (int i = 0; i < COLUMN_ROWS; ++i) c.v[i] = my_row(i) < c.rows ? values[my_row(i)] : (T)0;
  const T column_bias = bias_at<T>(g.column_bias, item * g.columns + column);
#pragma unroll
  for (int i = 0; i < COLUMN_ROWS; ++i) {
    const int mine = my_row(i) < c.rows ? my_row(i) : 0;
    c.v[i] = finished(g, c.v[i], bias_at<T>(g.row_bias, item * g.rows + row + mine), column_bias);
  }
  use_column(g, c, c_item + j * g.c_column);
}

/*
 * Large tiles, one block of threads to a multiprocessor: one tile each, or, where that does not
 * come out even, as many blocks as run at one time. Each then has `turns` tiles of its own, and one
 * to two for each are left as one line of slices, of which all have the same share: the end of a
 * tile that the block before it begins, perhaps a tile between, and the beginning of one. A block
 * makes that beginning first and hands its sums over; the end of the other tile comes last, and
 * goes on from what was handed over. So a chain of fma stays one chain, and nobody waits long.
 * Shares are numbered by a ticket: a block waits only for one that has begun, and that waits for
 * nobody before it hands over.
 */
struct tile_piece {
  int64_t tile, first, end;
};

/* A block's share, which it keeps in shared memory or, beside larger rings, in global memory, since
 * some GPUs have none of the other kind to spare. */
template <class E>
GPURED__DEV void take_ticket(const product &g, volatile unsigned *kept) {
  if (threadIdx.x == 0 && g.signs) {
    const unsigned ticket = atomicAdd(g.signs, 1u);
    if (E::FORGETS)
      *kept = ticket;
    else
      g.signs[1 + gridDim.x + blockIdx.x] = ticket;
  }
  __syncthreads();
}
template <class E>
GPURED__DEV int64_t share_of(const product &g, volatile unsigned *kept) {
  if (E::FORGETS) return *kept;
  return g.signs ? __ldcg(g.signs + 1 + gridDim.x + blockIdx.x) : 0;
}

/* No slices where there is nothing to do in this turn. */
GPURED__DEV tile_piece find_piece(const product &g, int64_t count, int64_t share, int64_t turn) {
  const int64_t cut = g.turns * gridDim.x, line = (g.tiles - cut) * count;
  tile_piece p = {blockIdx.x + turn * gridDim.x, 0, count};
  if (turn < g.turns) return p;
  const int64_t from = share * line / gridDim.x, to = (share + 1) * line / gridDim.x;
  const int64_t between = (from + count - 1) / count, last = to / count;
  if (turn == g.turns) {
    p.tile = cut + last;
    p.end = to - last * count;
  } else if (turn == g.turns + 1) {
    p.tile = cut + between;
    if (between >= last) p.end = 0;
  } else {
    p.tile = cut + between - 1;
    p.first = from - (between - 1) * count;
    if (p.first == count) p.end = 0;
  }
  return p;
}

template <class E>
GPURED__DEV void hand_over(const product &g, int64_t block, E &engine) {
  typedef typename E::T T;
  T *to = (T *)g.handed + block * (E::ROWS * E::W) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < E::COLUMNS; ++j) to[(i * E::COLUMNS + j) * E::THREADS] = engine.value(i, j);
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(g.signs + 1 + block) : "memory");
}

template <class E>
GPURED__DEV void take_over(const product &g, int64_t block, E &engine) {
  typedef typename E::T T;
  const T *from = (const T *)g.handed + block * (E::ROWS * E::W) + threadIdx.x;
  unsigned sign = threadIdx.x != 0;
  while (!sign)
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(sign)
                 : "l"(g.signs + 1 + block)
                 : "memory");
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < E::COLUMNS; ++j)
      engine.value(i, j) = __ldcg(from + (i * E::COLUMNS + j) * E::THREADS);
}

template <class E, int LEFT_HOW, int RIGHT_HOW>
static __global__ void __launch_bounds__(E::THREADS, 1)
    gemm_pieces(const __grid_constant__ product g) {
  typedef slices_of<E, E::ROWS, LEFT_HOW> L;
  typedef slices_of<E, E::W, RIGHT_HOW> R;
  extern __shared__ __align__(128) uint4 pieces_memory[]; /* copies of lines are of whole ones */
  __shared__ volatile unsigned kept;
  __shared__ volatile long long kept_turn;
  const int64_t count = all_slices<E>(g);
  take_ticket<E>(g, &kept);
#pragma unroll 1
  for (int64_t turn = 0; turn < g.turns + (g.signs ? 3 : 0); ++turn) {
    tile_piece piece = find_piece(g, count, share_of<E>(g, &kept), turn);
    tile_place here = find_tile(g, piece.tile, E::W);
    partly<E> engine;
    if (piece.end == 0 && g.depth > 0) continue;
    if (piece.first > 0)
      take_over<E>(g, share_of<E>(g, &kept) - 1, engine);
    else
      engine.clear();
    if (E::FORGETS && threadIdx.x == 0) kept_turn = turn;
    multiply_slices<E, L, R>(g, here, piece.first, (int)(piece.end - piece.first), engine,
                             (typename E::S *)pieces_memory);
    if constexpr (E::FORGETS) {
      turn = kept_turn;
      piece = find_piece(g, all_slices<E>(g), share_of<E>(g, &kept), turn);
      here = find_tile(g, piece.tile, E::W);
    }
    if (piece.end < all_slices<E>(g))
      hand_over<E>(g, share_of<E>(g, &kept), engine);
    else
      use_tile<E>(g, here, engine, (char *)pieces_memory);
  }
}

/* ---- Operands that are copied to where they lie in vectors ---- */

/* Lines (rows or columns) of an operand. Bytes go to where they lie along k, other elements to
 * where they lie across; what is behind the ends is 0. */
enum { PACK_LINES = 64, PACK_STEPS = 64, PACK_PITCH = PACK_STEPS + 16 };
struct packed_lines {
  const char *data;
  char *to;
  int64_t lines, depth, pitch, across, along; /* of an item; strides of the source */
  int64_t line_tiles, step_tiles, tiles;
  int axes; /* of the batch, the innermost first */
  int64_t n[GPURED_MAX_NDIM], item_stride[GPURED_MAX_NDIM];
};

template <int THREADS>
static __global__ void __launch_bounds__(THREADS)
    pack_bytes(const __grid_constant__ packed_lines b) {
  __shared__ __align__(16) char memory[PACK_LINES * PACK_PITCH];
  const int t = (int)threadIdx.x, lines_first = b.along != 1 && b.across == 1;
  for (int64_t tile = blockIdx.x; tile < b.tiles; tile += gridDim.x) {
    const int64_t first_step = tile % b.step_tiles * PACK_STEPS;
    const int64_t first_line = tile / b.step_tiles % b.line_tiles * PACK_LINES;
    const int64_t item = tile / b.step_tiles / b.line_tiles;
    const char *from = b.data;
    int64_t rest = item;
    for (int i = 0; i < b.axes; rest /= b.n[i], ++i) from += rest % b.n[i] * b.item_stride[i];
#pragma unroll 4
    for (int i = t; i < PACK_LINES * PACK_STEPS; i += THREADS) {
      const int line = lines_first ? i % PACK_LINES : i / PACK_STEPS;
      const int step = lines_first ? i / PACK_LINES : i % PACK_STEPS;
      const int64_t l = first_line + line, k = first_step + step;
      const bool exists = l < b.lines && k < b.depth;
      memory[line * PACK_PITCH + step] = exists ? from[l * b.across + k * b.along] : (char)0;
    }
    __syncthreads();
    for (int i = t; i < PACK_LINES * PACK_STEPS / 16; i += THREADS) {
      const int64_t l = first_line + i / (PACK_STEPS / 16);
      const int step = i % (PACK_STEPS / 16) * 16;
      if (l < b.lines && first_step + step < b.pitch)
        *(uint4 *)(b.to + (item * b.lines + l) * b.pitch + first_step + step) =
            *(const uint4 *)(memory + i / (PACK_STEPS / 16) * PACK_PITCH + step);
    }
    __syncthreads();
  }
}

/* Threads that shall be on a multiprocessor at once. The compiler warns of more than it has. */
static constexpr __host__ __device__ int pack_threads() {
#if defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ == 800 || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1100))
  return 2048;
#else
  return 1024;
#endif
}

/* Elements of type D as f32, whose engines are the fast ones. Eight blocks of threads to a
 * multiprocessor: distances are added up, since computed ones take the registers of three. */
template <int D, int THREADS>
static __global__ void __launch_bounds__(THREADS, pack_threads() / THREADS)
    pack_across(const __grid_constant__ packed_lines b) {
  typedef typename stored<D>::S S;
  enum { WAY = PACK_LINES + 1, NEXT = THREADS / PACK_LINES, SHARE = PACK_STEPS / NEXT };
  __shared__ float memory[PACK_STEPS * WAY];
  const int low = (int)threadIdx.x % PACK_LINES, high = (int)threadIdx.x / PACK_LINES;
  const int lines_first = b.along != 1;
  for (int64_t tile = blockIdx.x; tile < b.tiles; tile += gridDim.x) {
    const int64_t first_step = tile % b.step_tiles * PACK_STEPS;
    const int64_t first_line = tile / b.step_tiles % b.line_tiles * PACK_LINES;
    const int64_t item = tile / b.step_tiles / b.line_tiles;
    const int lines = existing(b.lines - first_line, PACK_LINES);
    const int steps = existing(b.depth - first_step, PACK_STEPS);
    const int wide = existing(b.pitch - first_line, PACK_LINES);
    const int have = low < (lines_first ? lines : steps) ? (lines_first ? steps : lines) - high : 0;
    const int put = low < wide ? steps - high : 0;
    const int64_t hop = NEXT * (lines_first ? b.along : b.across);
    const S *from = (const S *)b.data;
    float *place = memory + (lines_first ? high * WAY + low : low * WAY + high), held[SHARE];
    float *to = (float *)b.to + (item * b.depth + first_step + high) * b.pitch + first_line + low;
    int64_t rest = item;
    for (int i = 0; i < b.axes; rest /= b.n[i], ++i) from += rest % b.n[i] * b.item_stride[i];
    from += (first_line + (lines_first ? low : high)) * b.across +
            (first_step + (lines_first ? high : low)) * b.along;
#pragma unroll
    for (int i = 0; i < SHARE; ++i, from += hop) {
      held[i] = 0;
      if (i * NEXT < have) widen<D>(*from, &held[i]);
    }
#pragma unroll
    for (int i = 0; i < SHARE; ++i) place[i * (lines_first ? NEXT * WAY : NEXT)] = held[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < SHARE; ++i, to += NEXT * b.pitch)
      if (i * NEXT < put) *to = memory[(high + i * NEXT) * WAY + low];
    __syncthreads();
  }
}

/* What a launch makes: all tiles, what another one has left, or all of them in pieces. */
enum { TILES_ALL, TILES_LEFT, TILES_IN_PIECES };

/* The launch of a product. Its operands' vectors of 16 bytes: neighbours across, steps along k. */
enum { LIES_ACROSS = 1, LIES_ALONG = 2 };
struct product_launch {
  product g;
  const void *kernel;
  int acc, left, right;       /* which of these the operands have */
  int width, height, threads; /* height: of tiles whose values go to memory */
  size_t shared;
};

/* ============================================================================================== */
/* 13  GEMM-reduce: the short road, and the last steps                                            */
/* ============================================================================================== */
/*
 * Sum and mean without a map read each operand once (docs/ORDER.md section 7.4): one kernel sums
 * the columns of the left one, a second multiplies the sums by the right one in Dot's order. A lane
 * of a block is one thread's, as in sections 4 to 7, so that the blocks of a column come in any
 * layout: rows of columns (dot_across, for the left operand too, whose weights are 1; dot_short
 * where columns are one block and many; dot_touching where rows are no whole vectors), columns that
 * lie together (dot_along), or any strides (dot_any; dot_segments for few long columns). The second
 * one begins while the first one ends: it asks for what it will multiply as soon as there is room
 * for it, and waits for the sums only then. Integers, whose sums have one value in any order, have
 * kernels of their own.
 */
/* What is done last, for each column of each item. */
struct ending {
  int64_t items, columns, blocks, rows;
  int mean, scaled, which, dtype;
  double alpha;
  float narrow_alpha;
  const char *values, *more;          /* sums or pairs; block indices and rows, or second halves */
  int segments;                       /* sums of integers: [segments][items][columns], if several */
  const char *row_sums, *column_bias; /* [items], [items][columns], or NULL */
  char *out;
  int64_t out_stride;
  int batch_count;
  gpured__gemm_axis batch[GPURED_MAX_NDIM];
};

enum { ENDING_THREADS = 256 };

GPURED__DEV char *result_place(const ending &e, int64_t item, int64_t j) {
  const int64_t at = gpured__item_offset(e.batch, e.batch_count, item, e.which) + j * e.out_stride;
  return e.out + at * size_of(e.dtype);
}

GPURED__DEV uint64_t divided(uint64_t x, uint64_t) { return x; }
template <class T>
GPURED__DEV T divided(T x, T n) {
  return quotient(x, n);
}

/* docs/ORDER.md section 7.4 from the dot product on; or just a mean from its sum. */
template <class T>
GPURED__DEV void end_sum(const ending &e, int64_t item, int64_t j, T t) {
  if (e.scaled) t = mul(of_two(e.alpha, e.narrow_alpha, T()), t);
  if (e.row_sums) t = add(t, ((const T *)e.row_sums)[item]);
  if (e.column_bias) t = fused((T)e.rows, ((const T *)e.column_bias)[item * e.columns + j], t);
  if (e.mean) t = divided(t, (T)e.rows);
  store_any(result_place(e, item, j), e.dtype, t);
}

struct dots {
  int64_t items, columns, depth;
  operand matrix;
  int which;           /* of the operands */
  const char *weights; /* [items][depth], the accumulator's type; NULL in dot_across: all are 1 */
  char *out;           /* [items][columns], likewise; NULL: `end` says what becomes of them */
  ending end;
  int batch_count;
  gpured__gemm_axis batch[GPURED_MAX_NDIM];
  int across_log2, blocks_log2; /* dot_across: threads side by side; blocks of a thread, or of a
                                   segment in dot_touching and dot_segments */
  int tiles, segments, units;   /* dot_across: strips of an item, segments of each; all of them;
                                   integers: segments, which `out` has one after the other */
  char *partial;                /* nodes of segments, if there are several (or dot_touching) */
  int groups_log2;              /* dot_along: groups of threads for a column */
  int shared_weights;           /* dot_along: all columns of a tile have the same */
  int ring;                     /* dot_along: tiles that a warp has, 2 or 3 */
  int beside;                   /* any strides: do columns lie closer than a column's elements? */
};

/* Which of a segment's nodes is a lane's of a column: those of a lane lie side by side. */
GPURED__DEV int64_t node_of_lane(const dots &d, int segment, int64_t item, int64_t j, int lane) {
  const int64_t outputs = d.items * d.columns;
  return (segment * (int64_t)GPURED__LANES + lane) * outputs + item * d.columns + j;
}

GPURED__DEV int64_t matrix_offset(const dots &d, int64_t item) {
  return gpured__item_offset(d.batch, d.batch_count, item, d.which);
}

enum {
  DOT_THREADS = 256,
  DOT_RESIDENT = 2, /* blocks of threads that a multiprocessor should have of any strides */
  DOT_LONG = 1024,  /* rows for which two launches are worth it there */
  DOT_LEVELS = 48,
  TREE_LEVELS = 4, /* of the tree over a thread's blocks in registers */
  EVERY_DTYPE = -1
};

template <class T>
GPURED__DEV void store_dot(const dots &d, int64_t item, int64_t j, T y) {
  if (d.out)
    ((T *)d.out)[item * d.columns + j] = y;
  else
    end_sum(d.end, item, j, y);
}

/* A lane of a block: elements of a column from `row` on, 16 apart. D: their dtype, or EVERY_DTYPE,
 * which reads them one after the other. */
template <int A, int D, class T>
GPURED__DEV T dot_lane(const dots &d, const T *weights, int64_t at, int64_t row, int64_t end) {
  const int dtype = D == EVERY_DTYPE ? d.matrix.dtype : D;
  const int64_t step = d.matrix.along * GPURED__LANES;
  T x[GPURED__LANES], w[GPURED__LANES], y;
  at += row * d.matrix.along;
  weights += row;
  if (D != EVERY_DTYPE && row + GPURED__BLOCK - GPURED__LANES < end) {
#pragma unroll
    for (int i = 0; i < GPURED__LANES; ++i) {
      x[i] = load_any<T>(d.matrix.data, at + i * step, dtype);
      w[i] = weights[i * GPURED__LANES];
    }
    y = mul(w[0], x[0]);
#pragma unroll
    for (int i = 1; i < GPURED__LANES; ++i) y = fused(w[i], x[i], y);
    return y;
  }
  y = nothing(T());
  for (int i = 0; i < GPURED__LANES && row + i * GPURED__LANES < end; ++i) {
    x[0] = load_any<T>(d.matrix.data, at + i * step, dtype);
    y = i == 0 ? mul(weights[0], x[0]) : fused(weights[i * GPURED__LANES], x[0], y);
  }
  return y;
}

/* A lane of column s of all items, of the rows from `start` to `end`. */
template <int A, int D, class T>
GPURED__DEV T lane_of_column(const dots &d, int64_t s, int lane, int64_t start, int64_t end) {
  const int64_t item = s / d.columns;
  const int64_t at = matrix_offset(d, item) + s % d.columns * d.matrix.across;
  const T *weights = (const T *)d.weights + item * d.depth;
  T stack[DOT_LEVELS];
  int64_t count = 0;
  for (int64_t k = start; k < end; k += GPURED__BLOCK, ++count)
    push<K_ADD>(stack, 1, count,
                dot_lane<A, D>(d, weights, at, k + lane,
                               k + GPURED__BLOCK < d.depth ? k + GPURED__BLOCK : d.depth));
  return count ? closed<K_ADD>(stack, 1, count) : (T)0;
}

/* 16 columns, 16 lanes of each. Neighbours in a warp are what lies closer together: lanes, or
 * columns, which then change places for the fold. */
template <int A, int D>
static __global__ void __launch_bounds__(DOT_THREADS) dot_any(const __grid_constant__ dots d) {
  enum { COLUMNS = DOT_THREADS / GPURED__LANES };
  typedef typename acc<A>::T T;
  const int fast = (int)threadIdx.x % GPURED__LANES, slow = (int)threadIdx.x / GPURED__LANES;
  const unsigned mask = 0xffffu << (threadIdx.x % 32 / 16 * 16);
  const int64_t jobs = d.items * d.columns;
  __shared__ T turned[GPURED__LANES][COLUMNS + 1];
  after_launch_before();
  for (int64_t first = (int64_t)blockIdx.x * COLUMNS; first < jobs;
       first += (int64_t)gridDim.x * COLUMNS) {
    const int64_t s = first + (d.beside ? fast : slow);
    T y = lane_of_column<A, D, T>(d, s, d.beside ? slow : fast, 0, s < jobs ? d.depth : 0);
    if (d.beside) {
      turned[slow][fast] = y;
      __syncthreads();
      y = turned[fast][slow];
      __syncthreads();
    }
    y = folded<K_ADD>(mask, y);
    if (fast == 0 && first + slow < jobs)
      store_dot(d, (first + slow) / d.columns, (first + slow) % d.columns, d.depth > 0 ? y : (T)0);
  }
}

/* The same of a segment of each of 16 columns, whose lanes meet those of others in a second launch:
 * for columns that are few and long. */
template <int A, int D>
static __global__ void __launch_bounds__(DOT_THREADS) dot_segments(const __grid_constant__ dots d) {
  enum { COLUMNS = DOT_THREADS / GPURED__LANES };
  typedef typename acc<A>::T T;
  const int fast = (int)threadIdx.x % GPURED__LANES, slow = (int)threadIdx.x / GPURED__LANES;
  const int lane = d.beside ? slow : fast;
  const int64_t outputs = d.items * d.columns, most = (int64_t)GPURED__BLOCK << d.blocks_log2;
  const int64_t s = (int64_t)blockIdx.x * COLUMNS + (d.beside ? fast : slow), segment = s / outputs;
  after_launch_before();
  if (segment >= d.segments) return;
  ((T *)d.partial)[s * GPURED__LANES + lane] = lane_of_column<A, D, T>(
      d, s - segment * outputs, lane, segment * most, min(segment * most + most, d.depth));
}

/*
 * Columns side by side: a thread has one lane of V of them and of 2^blocks_log2 blocks; what
 * several threads have of a column meets in shared memory. A unit is a strip of columns of a
 * segment. Blocks of threads stay, and each thread copies what it will need to slots of its own, as
 * far ahead as there is room, into the next units too; the first copies do not wait for the kernel
 * before.
 */
enum {
  ACROSS_THREADS = 256,
  ACROSS_LOG2 = 4, /* threads side by side, at most: a block of threads is 16 lanes high */
  ACROSS_RESIDENT = 2,
  ACROSS_GROUP = 4 /* rows that are asked for at a time */
};
/* Groups on their way. */
__host__ __device__ constexpr int across_ring(int major) { return major < 8 ? 3 : 5; }
__host__ __device__ constexpr size_t across_ring_bytes(int major) {
  return (size_t)across_ring(major) * ACROSS_GROUP * ACROSS_THREADS * 16;
}

/* What a thread has of a unit. */
struct across_unit {
  int64_t item, column, row; /* column: the strip's first */
  int segment, rows;

  __device__ __forceinline__ void locate(const dots &d, int unit, int v) {
    const int t = (int)threadIdx.x, deep_log2 = ACROSS_LOG2 - d.across_log2;
    const int rest = unit / d.tiles, most = GPURED__LANES << d.blocks_log2;
    segment = rest % d.segments;
    item = rest / d.segments;
    column = ((int64_t)(unit % d.tiles) << d.across_log2) * v;
    row = ((((int64_t)segment << deep_log2) + (t >> (d.across_log2 + 4))) << d.blocks_log2) *
              GPURED__BLOCK +
          (t >> d.across_log2 & (GPURED__LANES - 1));
    const int64_t left = (d.depth - row + GPURED__LANES - 1) / GPURED__LANES;
    rows = left < most ? (int)left : most;
    if (row >= d.depth || column + own_column(d, v) >= d.columns) rows = 0;
  }
  __device__ __forceinline__ static int own_column(const dots &d, int v) {
    return ((int)threadIdx.x & ((1 << d.across_log2) - 1)) * v;
  }
};

template <int RING>
struct across_copies {
  int mine; /* the thread's first byte of the ring */
  const char *from;
  int64_t step;
  int at, unit, left, groups;

  __device__ __forceinline__ void settle(const dots &d, int v, int size) {
    across_unit u;
    left = 0;
    groups = GPURED__LANES / ACROSS_GROUP << d.blocks_log2;
    if (unit >= d.units) return;
    u.locate(d, unit, v);
    left = u.rows;
    from =
        d.matrix.data +
        (matrix_offset(d, u.item) + u.column + u.own_column(d, v) + u.row * d.matrix.along) * size;
  }
  __device__ __forceinline__ void ask(const dots &d, int v, int size) {
    extern __shared__ __align__(128) char space[];
    char *to = space + mine + at * ACROSS_GROUP * ACROSS_THREADS * 16;
#pragma unroll
    for (int r = 0; r < ACROSS_GROUP; ++r)
      if (r < left) copy_16(to + r * ACROSS_THREADS * 16, from + r * step);
    copies_commit();
    from += ACROSS_GROUP * step;
    left -= ACROSS_GROUP;
    at = at + 1 < RING ? at + 1 : 0;
    if (--groups > 0) return;
    unit += (int)gridDim.x;
    settle(d, v, size);
  }
  __device__ __forceinline__ void begin(const dots &d, int v, int size) {
    mine = (int)threadIdx.x * 16;
    step = d.matrix.along * size * GPURED__LANES;
    at = 0;
    unit = (int)blockIdx.x;
    settle(d, v, size);
#pragma unroll 1
    for (int g = 0; g < RING; ++g) ask(d, v, size);
  }
  /* A group to registers, and the one a ring ahead asked for. */
  __device__ __forceinline__ void take(const dots &d, int v, int size, uint4 *raw) {
    extern __shared__ __align__(128) char space[];
    const char *slot = space + mine + at * ACROSS_GROUP * ACROSS_THREADS * 16;
    copies_wait_but<RING - 1>();
#pragma unroll
    for (int r = 0; r < ACROSS_GROUP; ++r)
      raw[r] = *(const uint4 *)(slot + r * ACROSS_THREADS * 16);
    ask(d, v, size);
  }
};

/* The weights of a group, `step` apart, as many as there are. They are asked for a group early,
 * since the memory that a busy kernel waits for is far. */
template <int GROUP, class T>
GPURED__DEV void load_weights(T (&w)[GROUP], const T *u, int step, int64_t rows) {
#pragma unroll
  for (int r = 0; r < GROUP; ++r) w[r] = r < rows ? u[r * step] : (T)0;
}
template <int GROUP, class T>
GPURED__DEV void load_weights_or_ones(T (&w)[GROUP], const T *u, int rows) {
  if (u) {
    load_weights(w, u, GPURED__LANES, rows);
    return;
  }
#pragma unroll
  for (int r = 0; r < GROUP; ++r) w[r] = 1;
}

/* Subtree `count` joins those before it, as in push, but in registers; the last one of a power of
 * two ends as the whole tree. */
template <int V, class T>
GPURED__DEV void carry(T (*stack)[V], int count, T *a) {
#pragma unroll
  for (int level = 0; level < TREE_LEVELS; ++level) {
    const bool is_left = !(count >> level & 1);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (is_left)
        stack[level][i] = a[i];
      else
        a[i] = add(stack[level][i], a[i]);
    }
    if (is_left) return;
  }
}

/* The lanes of a thread's blocks of a unit. */
template <int A, int D, int RING>
GPURED__DEV void lane_across(const dots &d, const across_unit &now, across_copies<RING> *copies,
                             typename acc<A>::T *a) {
  typedef typename acc<A>::T T;
  enum { SIZE = stored<D>::SIZE, V = 16 / SIZE };
  T stack[TREE_LEVELS][V], soon[ACROSS_GROUP];
  const T *u = d.weights ? (const T *)d.weights + now.item * d.depth + now.row : NULL;
  int left = now.rows;
  load_weights_or_ones(soon, u, left);
#pragma unroll 1
  for (int block = 0; block < 1 << d.blocks_log2; ++block) {
#pragma unroll
    for (int i = 0; i < V; ++i) a[i] = nothing(T());
#pragma unroll
    for (int first = 0; first < GPURED__LANES; first += ACROSS_GROUP, left -= ACROSS_GROUP) {
      uint4 raw[ACROSS_GROUP];
      T w[ACROSS_GROUP], x[V];
#pragma unroll
      for (int r = 0; r < ACROSS_GROUP; ++r) w[r] = soon[r];
      if (u) u += ACROSS_GROUP * GPURED__LANES;
      load_weights_or_ones(soon, u, left - ACROSS_GROUP);
      copies->take(d, V, SIZE, raw);
#pragma unroll
      for (int r = 0; r < ACROSS_GROUP; ++r) {
        if (r >= left) continue;
        unpack<D, T, V>(raw[r], x, GPURED__PLAIN);
#pragma unroll
        for (int i = 0; i < V; ++i)
          a[i] = first + r == 0 ? mul(w[r], x[i]) : fused(w[r], x[i], a[i]);
      }
    }
    carry<V>(stack, block, a);
  }
}

template <int A, int D>
static __global__ void __launch_bounds__(ACROSS_THREADS, ACROSS_RESIDENT)
    dot_across(const __grid_constant__ dots d) {
  typedef typename acc<A>::T T;
  enum { SIZE = stored<D>::SIZE, V = 16 / SIZE, MAJOR = GEMM_MAJOR };
  extern __shared__ __align__(128) char space[];
  T *nodes = (T *)(space + across_ring_bytes(MAJOR)), a[V];
  across_copies<across_ring(MAJOR)> copies;
  let_next_launch();
  copies.begin(d, V, SIZE);
  after_launch_before();
#pragma unroll 1
  for (int unit = (int)blockIdx.x; unit < d.units; unit += (int)gridDim.x) {
    across_unit now;
    now.locate(d, unit, V);
    lane_across<A, D>(d, now, &copies, a);
    strip_lanes<K_ADD, T, V>(d.across_log2, ACROSS_LOG2 - d.across_log2,
                             ((int)threadIdx.x & ((1 << d.across_log2) - 1)) * V, nodes, a,
                             [&](int column, int lane, T y) {
                               const int64_t j = now.column + column;
                               const bool exists = j < d.columns;
                               if (d.segments > 1) {
                                 const int64_t s =
                                     (now.segment * d.items + now.item) * d.columns + j;
                                 if (exists) ((T *)d.partial)[s * GPURED__LANES + lane] = y;
                                 return;
                               }
                               y = folded<K_ADD>(0xffffffffu, y);
                               if (lane == 0 && exists) store_dot(d, now.item, j, y);
                             });
    __syncthreads();
  }
}

/* Each thread copies the vectors that it will need to slots of its own in shared memory, a group of
 * rows at a time and the next groups meanwhile: registers alone would not keep enough under way. */
template <int THREADS, int BYTES, int GROUP, int RING>
struct row_ring {
  enum { SHARED = THREADS * BYTES * GROUP * RING };
  char *slots;
  const char *base;
  int64_t step, rows, asked;
  int to, from; /* stages */

  __device__ __forceinline__ void ask_group() {
#pragma unroll
    for (int r = 0; r < GROUP; ++r)
      if (asked + r < rows)
        copy_some<BYTES>(slots + (to * GROUP + r) * THREADS * BYTES, base + (asked + r) * step);
    copies_commit();
    asked += GROUP;
    to = to + 1 == RING ? 0 : to + 1;
  }
  __device__ __forceinline__ void begin(char *space, const char *first, int64_t bytes, int64_t n) {
    slots = space + threadIdx.x * BYTES;
    base = first;
    step = bytes;
    rows = n;
    asked = 0;
    to = from = 0;
#pragma unroll
    for (int g = 0; g < RING; ++g) ask_group();
  }
  /* The next group's vectors, in the first bytes of each. */
  __device__ __forceinline__ void take(uint4 *raw) {
    copies_wait_but<RING - 1>();
#pragma unroll
    for (int r = 0; r < GROUP; ++r) {
      const char *at = slots + (from * GROUP + r) * THREADS * BYTES;
      if (BYTES == 16) {
        raw[r] = *(const uint4 *)at;
      } else {
        const uint2 q = *(const uint2 *)at;
        raw[r] = make_uint4(q.x, q.y, 0, 0);
      }
    }
    from = from + 1 == RING ? 0 : from + 1;
  }
};

/* Columns side by side of at most one block: a thread has V of them whole. */
enum { SHORT_GROUP = 8, SHORT_SHARED = 1 << 16 };
template <int BYTES>
struct short_ring {
  typedef row_ring<DOT_THREADS, BYTES, SHORT_GROUP,
                   SHORT_SHARED / (DOT_THREADS * BYTES * SHORT_GROUP)>
      type;
};

template <int A, int D>
static __global__ void __launch_bounds__(DOT_THREADS, 2) dot_short(const __grid_constant__ dots d) {
  typedef typename acc<A>::T T;
  enum { SIZE = stored<D>::SIZE, V = 16 / (int)sizeof(T) };
  extern __shared__ __align__(128) char space[];
  const int64_t width = d.columns / V, total = d.items * width, along = d.matrix.along * SIZE;
  T a[GPURED__LANES][V], x[V];
  for (int64_t s = (int64_t)blockIdx.x * DOT_THREADS + threadIdx.x; s < total;
       s += (int64_t)gridDim.x * DOT_THREADS) {
    const int64_t item = s / width, j = s % width * V;
    const T *u = (const T *)d.weights + item * d.depth;
    typename short_ring<V * SIZE>::type ring;
    T soon[SHORT_GROUP];
    ring.begin(space, d.matrix.data + (matrix_offset(d, item) + j) * SIZE, along, d.depth);
    after_launch_before();
    load_weights(soon, u, 1, d.depth);
#pragma unroll
    for (int l = 0; l < GPURED__LANES; ++l)
#pragma unroll
      for (int i = 0; i < V; ++i) a[l][i] = nothing(T());
    for (int k = 0; k < d.depth; k += GPURED__LANES)
#pragma unroll
      for (int half = 0; half < GPURED__LANES; half += SHORT_GROUP) {
        uint4 raw[SHORT_GROUP];
        T w[SHORT_GROUP];
#pragma unroll
        for (int r = 0; r < SHORT_GROUP; ++r) w[r] = soon[r];
        load_weights(soon, u + k + half + SHORT_GROUP, 1, d.depth - k - half - SHORT_GROUP);
        ring.take(raw);
#pragma unroll
        for (int r = 0; r < SHORT_GROUP; ++r) {
          if (k + half + r >= d.depth) continue;
          unpack<D, T, V>(raw[r], x, GPURED__PLAIN);
#pragma unroll
          for (int i = 0; i < V; ++i)
            a[half + r][i] = k == 0 ? mul(w[r], x[i]) : fused(w[r], x[i], a[half + r][i]);
        }
        ring.ask_group();
      }
#pragma unroll
    for (int h = GPURED__LANES / 2; h > 0; h /= 2)
#pragma unroll
      for (int l = 0; l < GPURED__LANES / 2; ++l) /* to h, it would be unrolled too late */
#pragma unroll
        for (int i = 0; i < V; ++i)
          if (l < h) a[l][i] = add(a[l][i], a[l + h][i]);
#pragma unroll
    for (int i = 0; i < V; ++i) store_dot(d, item, j + i, a[0][i]);
  }
}

/*
 * Rows that touch, whatever their length: 16 of them are one long row of whole vectors, of which a
 * thread has one place in all long rows of a segment. Its elements are of one lane or of two, which
 * are the same in each long row; the lanes of a column meet in a second launch.
 */
enum { TOUCHING_GROUP = 4, TOUCHING_RING = 5, TOUCHING_RESIDENT = 2 };
typedef row_ring<DOT_THREADS, 16, TOUCHING_GROUP, TOUCHING_RING> touching_ring;

/* What a thread has of a long row: V elements, of which the first `split` are of one lane, the
 * others of the next one. */
template <int A, int D>
struct touching_place {
  typedef typename acc<A>::T T;
  enum { SIZE = stored<D>::SIZE, V = 16 / SIZE };
  int64_t item, column, row, rest; /* row: the first lane's in the matrix; rest: rows from there */
  int segment, lane, split;
  int rows, whole; /* long rows; those in which all of the vector exists */
  const char *from;

  __device__ __forceinline__ touching_place(const dots &d, int64_t index) {
    const int64_t vectors = d.columns * SIZE, outer = gpured__quotient(index, vectors);
    const int64_t element = (index - outer * vectors) * V, step = GPURED__LANES * d.columns;
    item = gpured__quotient(outer, d.segments);
    segment = (int)(outer - item * d.segments);
    lane = (int)gpured__quotient(element, d.columns);
    column = element - lane * d.columns;
    split = (int)min(d.columns - column, (int64_t)V);
    const int64_t first = ((int64_t)segment << d.blocks_log2) * GPURED__BLOCK;
    const int64_t left = d.depth - first, most = (int64_t)GPURED__LANES << d.blocks_log2;
    row = first + lane;
    rest = d.depth - row;
    rows = (int)min((left + GPURED__LANES - 1) / GPURED__LANES, most);
    whole = 0;
    if (left * d.columns >= element + V)
      whole = (int)min(gpured__quotient(left * d.columns - element - V, step) + 1, (int64_t)rows);
    from = d.matrix.data + (matrix_offset(d, item) + first * d.columns + element) * SIZE;
  }
  /* The last long row, where only some of the vector exists: it comes last in its lanes. */
  __device__ __forceinline__ void add_rest(const T *u, int64_t step, T *a) const {
    const int64_t at = (int64_t)whole * GPURED__LANES;
    const int count = at >= rest ? 0 : at + 1 >= rest ? split : (int)V;
    const uint4 raw = load_loose<SIZE>(from + whole * step, count);
    T x[V];
    unpack<D, T, V>(raw, x, GPURED__PLAIN);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (i >= count) continue;
      const T y = u[at + (i < split ? 0 : 1)];
      a[i] = whole % GPURED__LANES == 0 ? mul(y, x[i]) : fused(y, x[i], a[i]);
    }
  }
};

/* The weights of a thread's one or two lanes in a group of long rows. */
template <class T>
struct touching_weights {
  T first[TOUCHING_GROUP], second[TOUCHING_GROUP];

  __device__ __forceinline__ void load(const T *u, int r, int64_t rest) {
#pragma unroll
    for (int i = 0; i < TOUCHING_GROUP; ++i) {
      const int64_t at = (int64_t)(r + i) * GPURED__LANES;
      first[i] = at < rest ? u[at] : (T)0;
      second[i] = at + 1 < rest ? u[at + 1] : (T)0;
    }
  }
};

template <int A, int D>
static __global__ void __launch_bounds__(DOT_THREADS, TOUCHING_RESIDENT)
    dot_touching(const __grid_constant__ dots d) {
  typedef typename acc<A>::T T;
  enum { SIZE = stored<D>::SIZE, V = 16 / SIZE };
  extern __shared__ __align__(128) char space[];
  const int64_t total = d.items * d.segments * d.columns * SIZE;
  const int64_t index = (int64_t)blockIdx.x * DOT_THREADS + threadIdx.x;
  if (index >= total) return;
  const touching_place<A, D> here(d, index);
  const int64_t step = GPURED__LANES * d.columns * SIZE;
  touching_ring ring;
  T stack[TREE_LEVELS][V], a[V];
  touching_weights<T> soon;
  let_next_launch();
  ring.begin(space, here.from, step, here.whole);
  after_launch_before();
  const T *u = (const T *)d.weights + here.item * d.depth + here.row;
  soon.load(u, 0, here.rest);
#pragma unroll 1
  for (int block = 0; block < 1 << d.blocks_log2; ++block) {
#pragma unroll
    for (int i = 0; i < V; ++i) a[i] = nothing(T());
#pragma unroll
    for (int start = 0; start < GPURED__LANES; start += TOUCHING_GROUP) {
      const int first = block * GPURED__LANES + start;
      if (first >= here.rows) break; /* of the last segment */
      const touching_weights<T> w = soon;
      uint4 raw[TOUCHING_GROUP];
      soon.load(u, first + TOUCHING_GROUP, here.rest);
      ring.take(raw);
      ring.ask_group();
#pragma unroll
      for (int r = 0; r < TOUCHING_GROUP; ++r) {
        T x[V];
        if (first + r >= here.whole) continue;
        unpack<D, T, V>(raw[r], x, GPURED__PLAIN);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const T y = i < here.split ? w.first[r] : w.second[r];
          a[i] = start + r == 0 ? mul(y, x[i]) : fused(y, x[i], a[i]);
        }
      }
    }
    if (here.whole < here.rows && here.whole / GPURED__LANES == block) here.add_rest(u, step, a);
    carry<V>(stack, block, a);
  }
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const int next = i < here.split ? 0 : 1;
    const int64_t j = here.column + i - next * d.columns;
    ((T *)d.partial)[node_of_lane(d, here.segment, here.item, j, here.lane + next)] = a[i];
  }
}

/*
 * Columns whose elements lie together: SIZE threads for each block of 256, since a row of 16 lanes
 * is 16 bytes for each of them; what a warp has of as many blocks as that makes is a tile: of as
 * many columns or, where there are few, of 2^groups_log2 blocks of each. A warp copies its tiles
 * block by block, in the order of memory, and keeps a ring of them.
 */
enum { ALONG_THREADS = 128, ALONG_RESIDENT = 3, ALONG_TILE = 8192 };
enum { ALONG_ENOUGH = 6 }; /* warps of a multiprocessor that keep its memory busy */

/* The place of a vector in a tile: those that eight threads read at a time lie in different
 * banks. */
template <int SIZE>
GPURED__DEV int along_slot(int block, int vector) {
  return block * GPURED__LANES * SIZE + (vector ^ (block * SIZE & 7));
}

/* A warp's tiles on their way, column after column, from the first to the last of its own, and
 * behind each its weights, if all columns of a tile have the same. */
template <class T, int SIZE>
struct along_copies {
  enum { VECTORS = GPURED__LANES * SIZE, TIMES = VECTORS / 32, BLOCKS = 32 / SIZE };
  enum { WEIGHTS = GPURED__BLOCK * sizeof(T) }; /* bytes of a block's */
  char *ring;
  int at, groups_log2, slot;
  int64_t step, steps, job, jobs, by; /* tiles of a column, groups of columns */
  const char *base;                   /* lane q: of block q's column; NULL: there is none */

  __device__ __forceinline__ void settle(const dots &d) {
    const int64_t s = job * (BLOCKS >> groups_log2) + ((int)threadIdx.x % BLOCKS >> groups_log2);
    base = NULL;
    if (job >= jobs || s >= d.items * d.columns) return;
    const int64_t item = s / d.columns, j = s % d.columns;
    base = d.matrix.data + (matrix_offset(d, item) + j * d.matrix.across) * SIZE;
  }
  __device__ __forceinline__ char *tile() const { return ring + at * slot; }
  __device__ __forceinline__ void ask_elements(const dots &d) {
    const int t = (int)threadIdx.x % 32;
#pragma unroll
    for (int q = 0; q < BLOCKS; ++q) {
      const char *column = (const char *)__shfl_sync(0xffffffffu, (uint64_t)base, q);
      const int64_t block = (step << groups_log2) + (q & ((1 << groups_log2) - 1));
#pragma unroll
      for (int i = 0; i < TIMES; ++i) {
        const int64_t k = block * GPURED__BLOCK + (t + 32 * i) * (16 / SIZE);
        if (column && k < d.depth)
          copy_16(tile() + 16 * along_slot<SIZE>(q, t + 32 * i), column + k * SIZE);
      }
    }
  }
  __device__ __forceinline__ void ask_weights(const dots &d) {
    const int64_t item = job * (BLOCKS >> groups_log2) / d.columns;
    const char *from = d.weights + item * d.depth * (int64_t)sizeof(T);
    const int64_t first = step * WEIGHTS << groups_log2, end = d.depth * (int64_t)sizeof(T);
    if (!d.shared_weights || job >= jobs) return;
    for (int i = (int)threadIdx.x % 32 * 16; i < WEIGHTS << groups_log2; i += 512)
      if (first + i < end) copy_16(tile() + ALONG_TILE + i, from + first + i);
  }
  __device__ __forceinline__ void advance(const dots &d) {
    at = at + 1 < d.ring ? at + 1 : 0;
    if (++step < steps) return;
    step = 0;
    job += by;
    settle(d);
  }
  __device__ __forceinline__ void ask(const dots &d) {
    ask_elements(d);
    ask_weights(d);
    copies_commit();
    advance(d);
  }
  /* The first tiles; their weights come from the kernel before. */
  __device__ __forceinline__ void begin(const dots &d, char *space) {
    const int64_t blocks = (d.depth + GPURED__BLOCK - 1) / GPURED__BLOCK;
    groups_log2 = d.groups_log2;
    slot = ALONG_TILE + (d.shared_weights ? WEIGHTS << groups_log2 : 0);
    ring = space + (int)threadIdx.x / 32 * d.ring * slot;
    at = 0;
    step = 0;
    steps = (blocks + (1 << groups_log2) - 1) >> groups_log2;
    job = blockIdx.x * (int64_t)(ALONG_THREADS / 32) + threadIdx.x / 32;
    by = gridDim.x * (int64_t)(ALONG_THREADS / 32);
    jobs = (d.items * d.columns + (BLOCKS >> groups_log2) - 1) / (BLOCKS >> groups_log2);
    settle(d);
    along_copies weights = *this;
#pragma unroll 1
    for (int i = 0; i < d.ring; ++i) {
      ask_elements(d);
      advance(d);
    }
    after_launch_before();
#pragma unroll 1
    for (int i = 0; i < d.ring; ++i) {
      weights.ask_weights(d);
      weights.advance(d);
    }
    copies_wait();
  }
  /* The next tile is there, what is behind it on its way. */
  __device__ __forceinline__ void wait(const dots &d) {
    if (d.ring > 2)
      copies_wait_but<2>();
    else
      copies_wait_but<1>();
    __syncwarp();
  }
};

/* A thread's lanes of its block of a tile, of which `rows` exist. */
template <int A, int D>
GPURED__DEV void lane_along(const char *tile, const typename acc<A>::T *u, int rows,
                            typename acc<A>::T *a) {
  typedef typename acc<A>::T T;
  enum { SIZE = stored<D>::SIZE, V = 16 / SIZE, PARTS = V * (int)sizeof(T) / 16 };
  enum { ROWS = sizeof(T) == 8 ? 2 : 4 }; /* at a time */
  const int t = (int)threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < V; ++i) a[i] = nothing(T());
#pragma unroll
  for (int first = 0; first < GPURED__LANES; first += ROWS) {
    uint4 raw[ROWS], weights[ROWS][PARTS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      if (first + r >= rows) continue;
      raw[r] =
          *(const uint4 *)(tile + 16 * along_slot<SIZE>(t / SIZE, (first + r) * SIZE + t % SIZE));
#pragma unroll
      for (int i = 0; i < PARTS; ++i)
        weights[r][i] = ((const uint4 *)(u + (first + r) * GPURED__LANES))[i];
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      T x[V], w[V];
      if (first + r >= rows) continue;
      unpack<D, T, V>(raw[r], x, GPURED__PLAIN);
      memcpy(w, weights[r], sizeof w);
#pragma unroll
      for (int i = 0; i < V; ++i) a[i] = first + r == 0 ? mul(w[i], x[i]) : fused(w[i], x[i], a[i]);
    }
  }
}

template <int A, int D>
static __global__ void __launch_bounds__(ALONG_THREADS, ALONG_RESIDENT)
    dot_along(const __grid_constant__ dots d) {
  typedef typename acc<A>::T T;
  enum { SIZE = stored<D>::SIZE, V = 16 / SIZE };
  extern __shared__ __align__(128) char space[];
  const int t = (int)threadIdx.x % 32, p = t % SIZE, groups = 1 << d.groups_log2;
  const int group = t / SIZE & (groups - 1), mine = t / SIZE >> d.groups_log2;
  const int64_t each = 32 / SIZE >> d.groups_log2, whole = ((int64_t)1 << d.blocks_log2) - 1;
  T low[TREE_LEVELS][V], high[V * DOT_LEVELS], a[V];
  along_copies<T, SIZE> copies;
  copies.begin(d, space);
#pragma unroll 1
  for (int64_t job = blockIdx.x * (int64_t)(ALONG_THREADS / 32) + threadIdx.x / 32;
       job < copies.jobs; job += copies.by) {
    const int64_t s = job * each + mine, item = s / d.columns;
    const int64_t depth = s < d.items * d.columns ? d.depth : 0;
    const T *u = (const T *)d.weights + item * d.depth;
    int64_t step = 0;
#pragma unroll 1
    for (; step < copies.steps || (step & whole); ++step) {
      if (step < copies.steps) {
        copies.wait(d);
        const int64_t block = (step << d.groups_log2) + group, k = block * GPURED__BLOCK + p * V;
        const int64_t left = (depth - k + GPURED__LANES - 1) / GPURED__LANES;
        const char *weights = copies.tile() + ALONG_TILE;
        lane_along<A, D>(
            copies.tile(),
            d.shared_weights ? (const T *)weights + group * GPURED__BLOCK + p * V : u + k,
            k >= depth             ? 0
            : left < GPURED__LANES ? (int)left
                                   : (int)GPURED__LANES,
            a);
        __syncwarp();
        copies.ask(d);
        for (int h = 1; h < groups; h *= 2)
#pragma unroll
          for (int i = 0; i < V; ++i) a[i] = add(a[i], from_below(0xffffffffu, a[i], h * SIZE));
      } else {
#pragma unroll
        for (int i = 0; i < V; ++i) a[i] = nothing(T());
      }
      carry<V>(low, (int)(step & whole), a);
      if ((step & whole) == whole)
#pragma unroll
        for (int i = 0; i < V; ++i) push<K_ADD>(high + i, V, step >> d.blocks_log2, a[i]);
    }
#pragma unroll
    for (int i = 0; i < V; ++i) a[i] = closed<K_ADD>(high + i, V, step >> d.blocks_log2);
    const T y = fold_lanes<K_ADD, SIZE, V>(a);
    if (group == 0 && p == 0 && depth > 0) store_dot(d, item, s % d.columns, y);
  }
}

/* ---- Integers ---- */
/*
 * A thread adds up what its loads bring, V elements each, and multiplies all that a weight belongs
 * to at once, because weights are wider than what they weigh: along k those of INTEGER_COLUMNS
 * columns, across them those of a vector. Segments of k lie in each other's gaps; the last step
 * adds their sums.
 */
enum { INTEGER_THREADS = 256, INTEGER_COLUMNS = 8, INTEGER_ROWS = 8, INTEGER_SEGMENTS = 64 };

template <int D, int V>
GPURED__DEV uint4 load_vector(const char *p) {
  typedef typename stored<D>::S S;
  if (V > 1) return *(const uint4 *)p;
  const uint64_t x = (uint64_t) * (const S *)p;
  return make_uint4((uint32_t)x, (uint32_t)(x >> 32), 0, 0);
}

GPURED__DEV void store_integer(const dots &d, int64_t segment, int64_t item, int64_t j,
                               uint64_t y) {
  if (d.out)
    ((uint64_t *)d.out)[(segment * d.items + item) * d.columns + j] = y;
  else
    end_sum(d.end, item, j, y);
}

/* 2^across_log2 threads for a group of columns. */
template <int D, int V>
static __global__ void __launch_bounds__(INTEGER_THREADS)
    dot_integers_along(const __grid_constant__ dots d) {
  enum { SIZE = stored<D>::SIZE };
  const int lanes = 1 << d.across_log2, own = (int)threadIdx.x & (lanes - 1);
  const int64_t groups = (d.columns + INTEGER_COLUMNS - 1) / INTEGER_COLUMNS;
  const int64_t units = groups * d.items * d.segments, by = (int64_t)d.segments * lanes * V;
  after_launch_before();
  for (int64_t first = (int64_t)blockIdx.x * (INTEGER_THREADS >> d.across_log2); first < units;
       first += (int64_t)gridDim.x * (INTEGER_THREADS >> d.across_log2)) {
    const int64_t unit = first + (threadIdx.x >> d.across_log2);
    const int64_t j = unit % groups * INTEGER_COLUMNS, item = unit / groups % d.items;
    const int64_t segment = unit / groups / d.items;
    const int last = (int)min(d.columns - j, (int64_t)INTEGER_COLUMNS) - 1;
    const uint64_t *weights = (const uint64_t *)d.weights + item * d.depth;
    const char *from = d.matrix.data + (matrix_offset(d, item) + j * d.matrix.across) * SIZE;
    uint64_t a[INTEGER_COLUMNS] = {0};
#pragma unroll 1
    for (int64_t k = unit < units ? (segment * lanes + own) * V : d.depth; k < d.depth; k += by) {
      uint64_t w[V], x[V];
      uint4 raw[INTEGER_COLUMNS];
#pragma unroll
      for (int c = 0; c < INTEGER_COLUMNS; ++c)
        raw[c] = load_vector<D, V>(
            from + (k * d.matrix.along + (c < last ? c : last) * d.matrix.across) * SIZE);
      if (V == 1) w[0] = weights[k];
#pragma unroll
      for (int i = 0; i + 1 < V; i += 2) {
        const ulonglong2 q = *(const ulonglong2 *)(weights + k + i);
        w[i] = q.x, w[i + 1] = q.y;
      }
#pragma unroll
      for (int c = 0; c < INTEGER_COLUMNS; ++c) {
        unpack<D, uint64_t, V>(raw[c], x, GPURED__PLAIN);
#pragma unroll
        for (int i = 0; i < V; ++i) a[c] = fused(w[i], x[i], a[c]);
      }
    }
#pragma unroll
    for (int c = 0; c < INTEGER_COLUMNS; ++c) {
      for (int h = 1; h < lanes; h *= 2) a[c] += __shfl_xor_sync(0xffffffffu, a[c], h);
      if (unit < units && c <= last && own == (c & (lanes - 1)))
        store_integer(d, segment, item, j + c, a[c]);
    }
  }
}

/* 2^across_log2 threads side by side, the others of a block below them. */
template <int D, int V>
static __global__ void __launch_bounds__(INTEGER_THREADS)
    dot_integers_across(const __grid_constant__ dots d) {
  enum { SIZE = stored<D>::SIZE };
  __shared__ uint64_t nodes[V][INTEGER_THREADS];
  const int t = (int)threadIdx.x, wide = 1 << d.across_log2, row = t >> d.across_log2;
  const int deep = INTEGER_THREADS >> d.across_log2;
  const int64_t by = (int64_t)d.segments * deep;
  const int64_t tiles = ((d.columns + V - 1) / V + wide - 1) >> d.across_log2;
  after_launch_before();
  for (int64_t unit = blockIdx.x; unit < tiles * d.items * d.segments; unit += gridDim.x) {
    const int64_t j = (unit % tiles * wide + (t & (wide - 1))) * V, item = unit / tiles % d.items;
    const int64_t segment = unit / tiles / d.items;
    const uint64_t *weights = (const uint64_t *)d.weights + item * d.depth;
    const char *from = d.matrix.data + (matrix_offset(d, item) + j * d.matrix.across) * SIZE;
    uint64_t a[V] = {0};
#pragma unroll 1
    for (int64_t k = j < d.columns ? segment * deep + row : d.depth; k < d.depth;
         k += by * INTEGER_ROWS) {
      uint64_t w[INTEGER_ROWS], x[V];
      uint4 raw[INTEGER_ROWS];
#pragma unroll
      for (int r = 0; r < INTEGER_ROWS; ++r) {
        w[r] = 0;
        raw[r] = make_uint4(0, 0, 0, 0);
        if (k + r * by >= d.depth) continue;
        raw[r] = load_vector<D, V>(from + (k + r * by) * d.matrix.along * SIZE);
        w[r] = weights[k + r * by];
      }
#pragma unroll
      for (int r = 0; r < INTEGER_ROWS; ++r) {
        unpack<D, uint64_t, V>(raw[r], x, GPURED__PLAIN);
#pragma unroll
        for (int i = 0; i < V; ++i) a[i] = fused(w[r], x[i], a[i]);
      }
    }
    for (int h = deep / 2; h > 0; h /= 2) {
#pragma unroll
      for (int i = 0; i < V; ++i)
        if (row >= h && row < 2 * h) nodes[i][t] = a[i];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < V; ++i)
        if (row < h) a[i] += nodes[i][t + h * wide];
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (row == 0 && j + i < d.columns) store_integer(d, segment, item, j + i, a[i]);
  }
}

/* ---- Last steps ---- */

/* logsumexp from its pair. */
template <class T>
GPURED__DEV T end_pair(T m, T s) {
  return is_finite(m) ? add(m, logarithm(s)) : m;
}
GPURED__DEV uint64_t end_pair(uint64_t m, uint64_t) { return m; }

template <class T>
static __global__ void __launch_bounds__(ENDING_THREADS)
    end_sums(const __grid_constant__ ending e) {
  const int64_t total = e.items * e.columns, step = (int64_t)gridDim.x * ENDING_THREADS;
  after_launch_before();
  for (int64_t i = (int64_t)blockIdx.x * ENDING_THREADS + threadIdx.x; i < total; i += step) {
    T y = ((const T *)e.values)[i];
#pragma unroll 8
    for (int s = 1; s < e.segments; ++s) y = add(y, ((const T *)e.values)[s * total + i]);
    if (e.more) y = end_pair(y, ((const T *)e.more)[i]);
    end_sum(e, i / e.columns, i % e.columns, y);
  }
}

/* The index along the axis from the block that won and the row that won in it. */
template <int THREADS>
static __global__ void __launch_bounds__(THREADS) end_indices(const __grid_constant__ ending e) {
  const int64_t total = e.items * e.columns, step = (int64_t)gridDim.x * ENDING_THREADS;
  after_launch_before();
  for (int64_t i = (int64_t)blockIdx.x * ENDING_THREADS + threadIdx.x; i < total; i += step) {
    const int64_t item = i / e.columns, j = i % e.columns, block = ((const int64_t *)e.values)[i];
    const int32_t row = ((const int32_t *)e.more)[(item * e.blocks + block) * e.columns + j];
    store_any(result_place(e, item, j), e.dtype, (uint64_t)(block * GPURED__GEMM_BLOCK + row));
  }
}

/* Pairs of logsumexp: 32 columns, 16 threads for each with a run of 2^k blocks. */
enum { PAIR_COLUMNS = 32, PAIR_RUNS = 16 };

template <class T>
static __global__ void __launch_bounds__(PAIR_COLUMNS *PAIR_RUNS)
    end_pairs(const __grid_constant__ ending e, const int run_log2) {
  typedef pair_node<T> N;
  __shared__ N nodes[PAIR_RUNS][PAIR_COLUMNS];
  const int c = (int)threadIdx.x % PAIR_COLUMNS, run = (int)threadIdx.x / PAIR_COLUMNS;
  const int64_t tiles = (e.columns + PAIR_COLUMNS - 1) / PAIR_COLUMNS;
  N stack[DOT_LEVELS];
  after_launch_before();
  for (int64_t tile = blockIdx.x; tile < e.items * tiles; tile += gridDim.x) {
    const int64_t item = tile / tiles, j = tile % tiles * PAIR_COLUMNS + c;
    const int64_t first = (int64_t)run << run_log2, last = first + ((int64_t)1 << run_log2);
    const int64_t end = last < e.blocks ? last : e.blocks;
    int64_t count = 0;
    for (int64_t b = first; b < end && j < e.columns; ++b, ++count) {
      const int64_t at = (item * e.blocks + b) * e.columns + j;
      N x;
      x.m = ((const T *)e.values)[at];
      x.s = ((const T *)e.more)[at];
      push<K_LSE>(stack, 1, count, x);
    }
    nodes[run][c] = closed<K_LSE>(stack, 1, count);
    __syncthreads();
    for (int h = 1; h < PAIR_RUNS; h *= 2) {
      if (run % (2 * h) == 0 && (int64_t)(run + h) << run_log2 < e.blocks)
        nodes[run][c] = combined<K_LSE>(nodes[run][c], nodes[run + h][c]);
      __syncthreads();
    }
    if (run == 0 && j < e.columns) {
      const N y = nodes[0][c];
      store_any(result_place(e, item, j), e.dtype, end_pair(y.m, y.s));
    }
    __syncthreads();
  }
}

/* ============================================================================================== */
/* 14  GEMM-reduce on tensor cores                                                                */
/* ============================================================================================== */
/*
 * Products of f16 and bf16 with f32 accumulation; and largest and least products of bytes, which
 * are exact. The kept axis is M of the matrix instructions and the reduced axis is N: in both
 * instructions used here a thread then holds whole stretches of the reduced axis for two kept
 * elements, so a running result stays in its registers over all tiles of a segment, and four lanes
 * meet by two shuffles at the end. The product is never written and there are no atomics.
 *   The reduced axis is cut into segments, whose results meet in ascending order in a second
 * launch. Where the cuts matter to the bits (sums), they are a function of the item's shape alone.
 * So a result is the same from run to run, and for an item alone and in a batch. Where tiles are
 * few and the depth is long, it is cut too: tensor_join adds up what stretches of it leave. Those
 * are as many as the whole call has room for, so that such items have other bits in larger batches.
 *   Three or four warpgroups on sm_90a: one lane of the first keeps a ring of operand tiles filled
 * by bulk tensor copies, the others multiply (wgmma), 64 kept elements each, and reduce.
 */
enum { TENSOR_STEP = 128, TENSOR_RASTER = 8, TENSOR_SHARERS = 4 }; /* a step: bytes of the depth */
enum { TENSOR_CACHE = 32 * 1024 * 1024 };
/* TENSOR_ANY: what the job says. TENSOR_SUMS: a stretch of the depth, whose sums go to memory. The
 * last two are for bytes: largest, least or largest absolute values, and where the first two are.
 */
enum {
  TENSOR_MAX,
  TENSOR_ARG,
  TENSOR_LSE,
  TENSOR_ANY,
  TENSOR_SUMS,
  TENSOR_BYTE_MAX,
  TENSOR_BYTE_ARG
};
enum { TENSOR_AXES = 3 }; /* of the batch, in an operand */
enum { TENSOR_FINISH = 256 };
enum { JOIN_ROWS = 32, JOIN_COLUMNS = 16, JOIN_SHARES = 4 };

/* What is done with the values of an element of the kept axis. */
enum {
  FOLD_MAX,
  FOLD_MIN,
  FOLD_ABSMAX,
  FOLD_ARGMAX,
  FOLD_ARGMIN,
  FOLD_SUM,
  FOLD_ABS,
  FOLD_SQUARE,
  FOLD_LSE
};

struct tensor_result {
  char *data;
  int64_t stride; /* of the kept axis */
  int op, dtype, fold;
};

/* The batch of an operand, in the terms of its tensor map. */
struct tensor_operand {
  int axes, crosswise; /* crosswise: its unit stride is not along the depth */
  const char *data;
  int64_t along, depth;                       /* strides */
  int whole;                                  /* can it be read 16 bytes at a time? */
  unsigned n[TENSOR_AXES], item[TENSOR_AXES]; /* coordinate: item / item[i] % n[i] */
  int wraps[TENSOR_AXES];                     /* is there something to % n[i]? */
};

struct tensor_job {
  CUtensorMap left_map, right_map;
  tensor_operand left, right;
  int64_t rows, columns, depth, batches;
  int tiles, segments, segment_tiles; /* of the reduced axis; whole segments, and a shorter one */
  int whole_segments, whole_units, last_tiles;
  int panels, units, steps; /* of the kept axis; of work; of the depth */
  int form;                 /* bits: bf16, right and left crosswise, negative */
  int cluster, stages, raster, turns;
  int count, slices;                   /* results; threads that take a result's segments */
  int integers;                        /* are values those of `ordered`? */
  int plain, map;                      /* plain: values are the product itself */
  float alpha, scale;                  /* of a value; where they are plain, of a result */
  const float *row_bias, *column_bias; /* [batches][row_pad], [batches][column_pad] */
  int64_t row_pad, column_pad;
  char *product; /* C, or NULL */
  int product_dtype;
  int64_t product_row, product_column;
  float2 *partial; /* [count][slots = batches * segments][columns] */
  int64_t slots;
  /* Where the depth is cut: into stretches of `steps`, whose sums are
   * [batches][cuts][tiles][kept_warps][parts][JOIN_ROWS / 8][lanes]. */
  int cuts, kept_warps, parts;
  float4 *sums;
  int batch_count;
  gpured__gemm_axis batch[GPURED_MAX_NDIM];
  tensor_result result[GPURED_MAX_RESULTS];
};

/* ---- Running results: x, and in y an index (arg; -1: none yet) or a sum (logsumexp) ---- */

static __host__ __device__ __forceinline__ bool fold_is_arg(int fold) {
  return fold == FOLD_ARGMAX || fold == FOLD_ARGMIN;
}

GPURED__DEV float exp2_fast(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

/* exp(scale * (x - m)): 1 where both are the same infinity, and neither is used then. */
GPURED__DEV float exp_from(float x, float m, float factor) {
  return exp2_fast(mul(sub(x, m), factor));
}

/* All of these are commutative to the bit, so that lanes may exchange their results. */
GPURED__DEV float2 merged_arg(float2 a, float2 b) {
  const int ia = __float_as_int(a.y), ib = __float_as_int(b.y);
  const bool second = beats(b.x, a.x) || (!beats(a.x, b.x) && ib < ia);
  const bool other = ia < 0 || (ib >= 0 && second);
  a.x = other ? b.x : a.x;
  a.y = other ? b.y : a.y;
  return a;
}

GPURED__DEV float2 merged_lse(float2 a, float2 b, float factor) {
  const float m = greater_of(a.x, b.x), base = is_finite(m) ? m : 0;
  a.y = add(mul(a.y, exp_from(a.x, base, factor)), mul(b.y, exp_from(b.x, base, factor)));
  a.x = m;
  return a;
}

/* Minima run as maxima of negated values. */
GPURED__DEV float2 merged(int fold, float factor, float2 a, float2 b) {
  if (fold_is_arg(fold)) return merged_arg(a, b);
  if (fold == FOLD_LSE) return merged_lse(a, b, factor);
  a.x = fold <= FOLD_ABSMAX ? greater_of(a.x, b.x) : add(a.x, b.x);
  return a;
}

GPURED__DEV float2 fold_start(int fold) {
  float2 r;
  r.x = fold <= FOLD_ARGMIN || fold == FOLD_LSE ? lowest(float()) : 0;
  if (fold == FOLD_ABSMAX) r.x = 0;
  r.y = fold_is_arg(fold) ? __int_as_float(-1) : 0;
  return r;
}

/* Products of bytes are integers, running results floats: positive ones, whose bits are the integer
 * and 2^30. They have the same order, and nothing beyond a tile has to know of integers. Sums of up
 * to MOST steps have room in that, with bits below those of infinity. */
enum { ORDERED_ZERO = 1 << 30, ORDERED_LIMIT = 0x7f800000 - ORDERED_ZERO };
enum { TENSOR_MOST_SIGNED = ORDERED_LIMIT / (128 * 128) };
enum { TENSOR_MOST_UNSIGNED = ORDERED_LIMIT / (255 * 255) };

GPURED__DEV float ordered(float x) { return x; }
GPURED__DEV float ordered(int x) { return __int_as_float(x + ORDERED_ZERO); }

/* The same values in descending order. */
GPURED__DEV float mirrored(float x) { return negated(x); }
GPURED__DEV int mirrored(int x) { return ~x; }
GPURED__DEV int magnitude(int x) { return x < 0 ? -x : x; }

static constexpr __host__ __device__ bool is_of_bytes(int kind) { return kind >= TENSOR_BYTE_MAX; }

/* Do the cuts of the reduced axis leave the bits as they are? */
static bool is_extremum(int kind) {
  return kind == TENSOR_MAX || kind == TENSOR_ARG || is_of_bytes(kind);
}

template <int BYTES>
struct tensor_sum {
  typedef float T;
  enum { FORMS = 16 };
};
template <>
struct tensor_sum<1> {
  typedef int T;
  enum { FORMS = 2 };
};

/* What a value beyond the end of the reduced axis is. */
GPURED__DEV int fold_neutral(int fold, int) {
  if (fold == FOLD_MIN || fold == FOLD_ARGMIN) return INT32_MAX;
  return fold == FOLD_ABSMAX ? 0 : INT32_MIN;
}
GPURED__DEV float fold_neutral(int fold, float) {
  if (fold == FOLD_MIN || fold == FOLD_ARGMIN) return infinity<float>();
  return fold == FOLD_ABSMAX || fold == FOLD_SUM || fold == FOLD_ABS || fold == FOLD_SQUARE
             ? 0
             : lowest(float());
}

/*
 * A warp's tile: 16 elements of the kept axis by BN of the reduced one. Thread t of a warp holds,
 * for j = 0 ... BN/8-1, elements 4j and 4j+1 of kept element t/4 and 4j+2, 4j+3 of t/4 + 8, at
 * places 8j + 2(t%4) and the one after it. `half` is 0 or 2 for the first or the other kept one.
 */
template <int BN, class T>
GPURED__DEV void tile_max(const T (&acc)[BN / 2], int how, T (&most)[2]) {
  T m[2][4];
#pragma unroll
  for (int j = 0; j < BN / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      T *to = &m[e / 2][2 * (j & 1) + e % 2], x = acc[4 * j + e];
      if (how == FOLD_MIN) x = mirrored(x);
      if (how == FOLD_ABSMAX) x = magnitude(x);
      *to = j < 2 ? x : greater_of(*to, x);
    }
#pragma unroll
  for (int h = 0; h < 2; ++h)
    most[h] = greater_of(greater_of(m[h][0], m[h][1]), greater_of(m[h][2], m[h][3]));
}

/*
 * Hopper takes the largest or least of three integers in one instruction, and of two floats. By
 * their bits as integers positive floats are in their own order, the NaN of a tensor core above
 * all, and negative ones beneath in reverse.
 */
template <bool LEAST>
GPURED__DEV int outermost(int a, int b, int c) {
  return LEAST ? min(min(a, b), c) : max(max(a, b), c);
}

/* The largest (or least) of the bits of a tile's values and of what `most` is before. */
template <int BN, bool LEAST>
GPURED__DEV void tile_outermost(const float (&acc)[BN / 2], int (&most)[2]) {
  int m[2][2] = {{most[0], most[0]}, {most[1], most[1]}};
#pragma unroll
  for (int j = 0; j < BN / 8; ++j)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      m[h][j & 1] = outermost<LEAST>(m[h][j & 1], __float_as_int(acc[4 * j + 2 * h]),
                                     __float_as_int(acc[4 * j + 2 * h + 1]));
#pragma unroll
  for (int h = 0; h < 2; ++h) most[h] = outermost<LEAST>(m[h][0], m[h][0], m[h][1]);
}

/* The tile's largest values join the running ones. Where all are negative the least of the bits is
 * the largest value. */
template <int BN>
GPURED__DEV void tile_largest(const float (&acc)[BN / 2], float2 (&run)[2]) {
  int most[2] = {__float_as_int(run[0].x), __float_as_int(run[1].x)};
  tile_outermost<BN, false>(acc, most);
  if (__any_sync(0xffffffffu, most[0] < 0 || most[1] < 0)) {
    int least[2] = {__float_as_int(run[0].x), __float_as_int(run[1].x)};
    tile_outermost<BN, true>(acc, least);
#pragma unroll
    for (int h = 0; h < 2; ++h) most[h] = most[h] < 0 ? least[h] : most[h];
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) run[h].x = __int_as_float(most[h]);
}
template <int BN>
GPURED__DEV void tile_largest(const int (&acc)[BN / 2], float2 (&run)[2]) {
  int m[2];
  tile_max<BN>(acc, FOLD_MAX, m);
  run[0].x = greater_of(run[0].x, ordered(m[0]));
  run[1].x = greater_of(run[1].x, ordered(m[1]));
}

/* The maxima of the tile's groups of 8, and of the tile. */
template <int BN, class T>
GPURED__DEV T group_max(const T (&acc)[BN / 2], int half, int how, T (&group)[BN / 32]) {
  T m;
#pragma unroll
  for (int g = 0; g < BN / 32; ++g) {
    T x[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      x[i] = acc[16 * g + 4 * (i / 2) + half + i % 2];
      if (how == FOLD_ARGMIN) x[i] = mirrored(x[i]);
    }
#pragma unroll
    for (int d = 4; d > 0; d /= 2)
#pragma unroll
      for (int i = 0; i < d; ++i) x[i] = greater_of(x[i], x[i + d]);
    group[g] = x[0];
    m = g ? greater_of(m, x[0]) : x[0];
  }
  return m;
}

/* Added to a value it leaves the value as it is; the compiler, which must not know that, would make
 * selections of plain moves. */
static __constant__ float minus_zero = -0.0f;

/*
 * If the group's maximum is m: its place and its values. One predicate for all, no branch, and
 * additions in place of moves: comparisons, maxima and selections all go through one pipe, at half
 * the rate of additions.
 */
GPURED__DEV void take_group(float group, float m, int place, int *at, const float *v,
                            float (&x)[8]) {
  asm("{ .reg .pred p;\n"
      "setp.eq.f32 p, %9, %10;\n"
      "@p mov.b32 %0, %11;\n@p add.rn.f32 %1, %12, %20;\n@p add.rn.f32 %2, %13, %20;\n"
      "@p add.rn.f32 %3, %14, %20;\n@p add.rn.f32 %4, %15, %20;\n@p add.rn.f32 %5, %16, %20;\n"
      "@p add.rn.f32 %6, %17, %20;\n@p add.rn.f32 %7, %18, %20;\n@p add.rn.f32 %8, %19, %20; }"
      : "+r"(*at), "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3]), "+f"(x[4]), "+f"(x[5]),
        "+f"(x[6]), "+f"(x[7])
      : "f"(group), "f"(m), "r"(place), "f"(v[0]), "f"(v[1]), "f"(v[4]), "f"(v[5]), "f"(v[8]),
        "f"(v[9]), "f"(v[12]), "f"(v[13]), "f"(minus_zero));
}
GPURED__DEV void take_group(int group, int m, int place, int *at, const int *v, int (&x)[8]) {
  const bool found = group == m;
  *at = found ? place : *at;
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = found ? v[4 * (i / 2) + i % 2] : x[i];
}

/* The maxima of group_max by the order of their bits, for both kept elements, and whether they beat
 * what is there: right where none that counts is negative, zero or NaN. Returns whether that is so
 * for all threads of the warp. */
template <int BN>
GPURED__DEV bool group_max_of_bits(const float (&acc)[BN / 2], const float2 (&best)[2],
                                   float (&group)[2][BN / 32], float (&m)[2], bool (&wins)[2]) {
  int bits[BN / 2], in_group[BN / 32], most[2], least = INT32_MAX;
#pragma unroll
  for (int i = 0; i < BN / 2; ++i) bits[i] = __float_as_int(acc[i]);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int before = __float_as_int(best[h].x);
    most[h] = group_max<BN>(bits, 2 * h, FOLD_ARGMAX, in_group);
#pragma unroll
    for (int g = 0; g < BN / 32; ++g) group[h][g] = __int_as_float(in_group[g]);
    m[h] = __int_as_float(most[h]);
    wins[h] = most[h] > before;
    least = min(least, max(most[h], before));
  }
  return !__any_sync(0xffffffffu, least < 1 || max(most[0], most[1]) > 0x7f800000);
}
template <int BN>
GPURED__DEV bool group_max_of_bits(const int (&)[BN / 2], const float2 (&)[2], int (&)[2][BN / 32],
                                   int (&)[2], bool (&)[2]) {
  return false;
}

/*
 * Where the tile's maximum m is found first: it is looked for only where it beats what a lane of
 * this warp has. The first group that has it is copied, so that eight values are searched, not all.
 */
template <int BN, class T>
GPURED__DEV void tile_arg(const T (&acc)[BN / 2], int how, int first, float2 (&best)[2]) {
  enum { LAST = BN / 32 - 1 };
  T group[2][BN / 32], m[2], x[2][8];
  bool wins[2];
  int at[2];
  const bool usual = how == FOLD_ARGMAX && group_max_of_bits<BN>(acc, best, group, m, wins);
  if (!usual)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      m[h] = group_max<BN>(acc, 2 * h, how, group[h]);
      wins[h] = __float_as_int(best[h].y) < 0 || beats(ordered(m[h]), best[h].x);
    }
  if (!__any_sync(0xffffffffu, wins[0] || wins[1])) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const bool found = equal(group[h][LAST - 1], m[h]);
    at[h] = 32 * (found ? LAST - 1 : LAST);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int from = 16 * LAST + 4 * (i / 2) + 2 * h + i % 2;
      x[h][i] = found ? acc[from - 16] : acc[from];
    }
  }
#pragma unroll
  for (int g = LAST - 2; g >= 0; --g)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      take_group(group[h][g], m[h], 32 * g, &at[h], &acc[16 * g + 2 * h], x[h]);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    int in = 0;
#pragma unroll
    for (int i = 7; i >= 0; --i)
      in = equal(how == FOLD_ARGMIN ? mirrored(x[h][i]) : x[h][i], m[h]) ? 8 * (i / 2) + i % 2 : in;
    at[h] += in;
  }
  if (!usual && __any_sync(0xffffffffu, is_nan(m[0]) || is_nan(m[1]))) {
    int nan_at[2] = {-1, -1};
#pragma unroll
    for (int i = BN / 2 - 1; i >= 0; --i)
      nan_at[i / 2 % 2] = is_nan(acc[i]) ? 8 * (i / 4) + i % 2 : nan_at[i / 2 % 2];
#pragma unroll
    for (int h = 0; h < 2; ++h) at[h] = nan_at[h] < 0 ? at[h] : nan_at[h];
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    best[h].x = wins[h] ? ordered(m[h]) : best[h].x;
    best[h].y = wins[h] ? __int_as_float(first + at[h]) : best[h].y;
  }
}

/*
 * The sums of exp2(factor * (x - base)) over a tile's values of the two kept elements. SLOPING
 * takes factor * base for granted: an instruction less for each value, of which the caller checks
 * what comes out. Left alone the compiler puts each addition where it waits for its exponential;
 * those of 8 values are therefore multiplied by a one that is made of the 8 after them.
 */
template <int BN, int SLOPING>
GPURED__DEV void tile_exps(const float (&acc)[BN / 2], float factor, const float (&base)[2],
                           float (&sum)[2]) {
  const float down[2] = {negated(mul(base[0], factor)), negated(mul(base[1], factor))};
  float y[2][8], s[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, one = 1;
#pragma unroll
  for (int b = 0; b <= BN / 16; ++b) {
#pragma unroll
    for (int i = 0; i < 8 && b < BN / 16; ++i) {
      const float x = acc[8 * b + i];
      y[b % 2][i] = SLOPING ? exp2_fast(fused(x, factor, down[i / 2 % 2]))
                            : exp_from(x, base[i / 2 % 2], factor);
    }
    if (SLOPING && b < BN / 16) one = fused(y[b % 2][7], 0, 1);
#pragma unroll
    for (int i = 0; i < 8 && b > 0; ++i) {
      float *to = &s[i / 2 % 2][i / 4 * 2 + i % 2];
      *to = fused(y[(b - 1) % 2][i], one, *to);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) sum[h] = add(add(s[h][0], s[h][1]), add(s[h][2], s[h][3]));
}

/*
 * Sums need not refer to the maximum: the exponent of a float has room for what is 2^100 times as
 * large. So a lane refers to the largest of some values it saw first, and looks for the maximum
 * only where the sum shows that this will not do: far larger values, infinities, NaN.
 */
template <int BN>
GPURED__DEV void tile_lse(const float (&acc)[BN / 2], float factor, float2 (&run)[2]) {
  float base[2] = {run[0].x, run[1].x}, sum[2], m[2];
  bool fits[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (base[h] != lowest(float())) continue;
    base[h] = acc[2 * h];
#pragma unroll
    for (int i = 1; i < 16; ++i) base[h] = greater_of(base[h], acc[4 * (i / 2) + 2 * h + i % 2]);
  }
  tile_exps<BN, 1>(acc, factor, base, sum);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] = add(sum[h], run[h].y);
    fits[h] = sum[h] >= 0.5f && sum[h] < 0x1p100f;
    run[h].x = fits[h] ? base[h] : run[h].x;
    run[h].y = fits[h] ? sum[h] : run[h].y;
  }
  if (fits[0] && fits[1]) return;
  tile_max<BN>(acc, FOLD_MAX, m);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    m[h] = greater_of(run[h].x, m[h]);
    base[h] = is_finite(m[h]) ? m[h] : 0;
  }
  tile_exps<BN, 0>(acc, factor, base, sum);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (fits[h]) continue;
    run[h].y = add(mul(run[h].y, exp_from(run[h].x, base[h], factor)), sum[h]);
    run[h].x = m[h];
  }
}

template <int BN>
GPURED__DEV void tile_sum(const float (&acc)[BN / 2], int how, float2 (&run)[2]) {
  float s[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
#pragma unroll
  for (int j = 0; j < BN / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float x = acc[4 * j + e];
      float *sum = &s[e / 2][2 * (j & 1) + e % 2];
      if (how == FOLD_SQUARE)
        *sum = fused(x, x, *sum);
      else
        *sum = add(*sum, how == FOLD_ABS ? magnitude(x) : x);
    }
#pragma unroll
  for (int h = 0; h < 2; ++h)
    run[h].x = add(run[h].x, add(add(s[h][0], s[h][1]), add(s[h][2], s[h][3])));
}

template <int BN, class T>
GPURED__DEV void tile_fill(T (&acc)[BN / 2], int valid, T neutral) {
#pragma unroll
  for (int j = 0; j < BN / 8; ++j)
#pragma unroll
    for (int e = 0; e < 2; ++e)
      if (8 * j + e >= valid) acc[4 * j + e] = acc[4 * j + 2 + e] = neutral;
}

/* A tile joins the running results of a thread's two kept elements: as a largest value, as the
 * index of one, in any way. */
template <int BN, class T>
GPURED__DEV void tile_fold_max(int fold, const T (&acc)[BN / 2], float2 (&run)[2]) {
  T m[2];
  switch (fold) {
    case FOLD_MIN:
      tile_max<BN>(acc, FOLD_MIN, m);
      break;
    case FOLD_ABSMAX:
      tile_max<BN>(acc, FOLD_ABSMAX, m);
      break;
    default:
      tile_largest<BN>(acc, run);
      return;
  }
  run[0].x = greater_of(run[0].x, ordered(m[0]));
  run[1].x = greater_of(run[1].x, ordered(m[1]));
}

template <int BN, class T>
GPURED__DEV void tile_fold_arg(int fold, const T (&acc)[BN / 2], int first, float2 (&run)[2]) {
  if (fold == FOLD_ARGMIN)
    tile_arg<BN>(acc, FOLD_ARGMIN, first, run);
  else
    tile_arg<BN>(acc, FOLD_ARGMAX, first, run);
}

template <int BN>
GPURED__DEV void tile_fold(int fold, const float (&acc)[BN / 2], float factor, int first,
                           float2 (&run)[2]) {
  switch (fold) {
    case FOLD_MAX:
    case FOLD_MIN:
    case FOLD_ABSMAX:
      tile_fold_max<BN>(fold, acc, run);
      break;
    case FOLD_ARGMAX:
    case FOLD_ARGMIN:
      tile_fold_arg<BN>(fold, acc, first, run);
      break;
    case FOLD_LSE:
      tile_lse<BN>(acc, factor, run);
      break;
    case FOLD_SUM:
      tile_sum<BN>(acc, FOLD_SUM, run);
      break;
    case FOLD_ABS:
      tile_sum<BN>(acc, FOLD_ABS, run);
      break;
    default:
      tile_sum<BN>(acc, FOLD_SQUARE, run);
  }
}

/* ---- Results ---- */

static __device__ int64_t tensor_offset(const tensor_job &j, unsigned item, int which) {
  int64_t offset = 0;
  for (int i = j.batch_count - 1; i > 0; --i) {
    const unsigned n = (unsigned)j.batch[i].n;
    offset += item % n * j.batch[i].stride[which];
    item /= n;
  }
  return j.batch_count ? offset + item * j.batch[0].stride[which] : 0;
}

/* factor: of the exponents of logsumexp, in base 2. */
GPURED__DEV float lse_factor(const tensor_job &j) {
  return j.plain ? mul(magnitude(j.scale), 1.44269504f) : 1.44269504f;
}

/* Finishes a result. Where values were reduced as the product gave them, alpha comes in here. */
GPURED__DEV void tensor_store(const tensor_job &j, int r, int fold, int64_t offset, float2 y) {
  const tensor_result &out = j.result[r];
  char *p = out.data + offset * size_of(out.dtype);
  float x = y.x;
  if (fold_is_arg(fold)) {
    store_any(p, out.dtype, (uint64_t)__float_as_int(y.y));
    return;
  }
  if (j.integers) {
    const int value = __float_as_int(x) - ORDERED_ZERO;
    store_any(p, out.dtype, (uint64_t)(int64_t)(fold == FOLD_MIN ? mirrored(value) : value));
    return;
  }
  if (j.plain) x = mul(x, j.scale);
  if (fold == FOLD_LSE && is_finite(x)) x = add(x, logarithm(y.y));
  if (fold == FOLD_MIN) x = negated(x);
  if (fold == FOLD_SUM && out.op == GPURED_MEAN) x = quotient(x, (float)j.rows);
  if (fold == FOLD_SQUARE && out.op == GPURED_NORM2) x = root(x);
  store_any(p, out.dtype, x);
}

GPURED__DEV int64_t tensor_place(const tensor_job &j, int r, unsigned item, int64_t column) {
  return tensor_offset(j, item, GPURED__GEMM_OPERANDS + r) + column * j.result[r].stride;
}

/* The four lanes that share two kept elements meet; two of them store. */
GPURED__DEV void tensor_flush(const tensor_job &j, int r, int fold, float factor, unsigned item,
                              int slot, int64_t column, const float2 (&run)[2]) {
  const int lane = threadIdx.x % 4;
  float2 y, other;
  /* the lower two take the first element, the upper two the second */
  y = lane < 2 ? run[0] : run[1];
  other = lane < 2 ? run[1] : run[0];
#pragma unroll
  for (int d = 2; d > 0; d /= 2) {
    other.x = __shfl_xor_sync(0xffffffffu, other.x, d);
    if (fold_is_arg(fold) || fold == FOLD_LSE) other.y = __shfl_xor_sync(0xffffffffu, other.y, d);
    y = merged(fold, factor, y, other);
    other = y;
  }
  column += lane < 2 ? 0 : 8;
  if (lane % 2 != 0 || column >= j.columns) return;
  if (j.segments == 1)
    tensor_store(j, r, fold, tensor_place(j, r, item, column), y);
  else
    j.partial[(r * j.slots + slot) * j.columns + column] = y;
}

/* The segments of an element of the kept axis meet; where there are many, j.slices threads take a
 * stretch each. */
template <int THREADS>
static __global__ void __launch_bounds__(THREADS)
    tensor_finish(const __grid_constant__ tensor_job j) {
  __shared__ float2 part[TENSOR_FINISH];
  const int columns = TENSOR_FINISH / j.slices, slice = threadIdx.x / columns;
  const int64_t blocks = (j.columns + columns - 1) / columns;
  const int64_t column = blockIdx.x % blocks * columns + threadIdx.x % columns;
  const unsigned item = (unsigned)(blockIdx.x / blocks % j.batches);
  const int r = (int)(blockIdx.x / blocks / j.batches), fold = j.result[r].fold;
  const int each = (j.segments + j.slices - 1) / j.slices;
  const int end = min(j.segments, (slice + 1) * each);
  const float factor = lse_factor(j);
  const float2 *p = j.partial + (r * j.slots + (int64_t)item * j.segments) * j.columns + column;
  float2 y = fold_start(fold);
  let_next_launch();
  after_launch_before();
  if (column < j.columns) {
#pragma unroll 8
    for (int s = slice * each; s < end; ++s) y = merged(fold, factor, y, p[s * j.columns]);
  }
  part[threadIdx.x] = y;
  __syncthreads();
  if (slice > 0 || column >= j.columns) return;
  for (int s = 1; s < j.slices; ++s) y = merged(fold, factor, y, part[s * columns + threadIdx.x]);
  tensor_store(j, r, fold, tensor_place(j, r, item, column), y);
}

/* ---- Values: alpha, biases, map, the output C ---- */

template <int BN>
GPURED__DEV void tile_values(const tensor_job &j, float (&acc)[BN / 2], int64_t item, int64_t row,
                             int64_t column) {
  const float *rows = j.row_bias ? j.row_bias + item * j.row_pad + row : NULL;
  float kept[2] = {0, 0};
  if (j.column_bias) {
    kept[0] = j.column_bias[item * j.column_pad + column];
    kept[1] = j.column_bias[item * j.column_pad + column + 8];
  }
#pragma unroll
  for (int i = 0; i < BN / 8; ++i) {
    const float2 bias = rows ? *(const float2 *)(rows + 8 * i) : make_float2(0, 0);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float x = add(fused(j.alpha, acc[4 * i + e], e & 1 ? bias.y : bias.x), kept[e / 2]);
      if (j.map == GPURED_MAP_ABS) x = magnitude(x);
      if (j.map == GPURED_MAP_SQUARE) x = mul(x, x);
      acc[4 * i + e] = x;
    }
  }
}

template <int BN>
GPURED__DEV void tile_product(const tensor_job &j, const float (&acc)[BN / 2], int64_t item,
                              int64_t row, int64_t column, int valid) {
  const int size = size_of(j.product_dtype);
  char *p = j.product + (tensor_offset(j, item, GPURED__PRODUCT) + row * j.product_row +
                         column * j.product_column) *
                            size;
#pragma unroll
  for (int i = 0; i < BN / 8; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (8 * i + (e & 1) < valid && column + (e / 2) * 8 < j.columns)
        store_any(p + ((8 * i + (e & 1)) * j.product_row + (e / 2) * 8 * j.product_column) * size,
                  j.product_dtype, acc[4 * i + e]);
}

/* Sums of a stretch of the depth, as the threads of tensor_join will want them. */
template <int BN>
GPURED__DEV void tile_keep(const tensor_job &j, const float (&acc)[BN / 2], unsigned item, int tile,
                           int column) {
  const int64_t tiles = (int64_t)item * j.tiles + tile;
  const int64_t warp = tiles * j.kept_warps + column / JOIN_COLUMNS;
  float4 *to = j.sums + warp * (BN / 8 * 32) + threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < BN / 8; ++i)
    to[i * 32] = make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]);
}

/* What becomes of a tile. row: its first element of the reduced axis, lane: that of this thread. A
 * single result stays in registers; several are stored for each tile. */
template <int BN, int KIND, class T>
GPURED__DEV void tile_done(const tensor_job &j, T (&acc)[BN / 2], int fold, float factor,
                           unsigned item, int slot, int64_t row, int lane, int64_t column,
                           float2 (&run)[2]) {
  const int64_t left = j.rows - row;
  const int valid = (left < BN ? (int)left : BN) - lane, first = (int)row + lane;
  if constexpr (KIND == TENSOR_ANY) {
    if (!j.plain) tile_values<BN>(j, acc, item, row + lane, column);
    if (j.product) tile_product<BN>(j, acc, item, row + lane, column, valid);
    for (int r = 0; j.count > 1 && r < j.count; ++r) {
      fold = j.result[r].fold;
      if (left < BN) tile_fill<BN>(acc, valid, fold_neutral(fold, T()));
      run[0] = run[1] = fold_start(fold);
      tile_fold<BN>(fold, acc, factor, first, run);
      tensor_flush(j, r, fold, factor, item, slot, column, run);
    }
    if (j.count > 1) return;
  }
  if (left < BN) tile_fill<BN>(acc, valid, fold_neutral(fold, T()));
  if constexpr (KIND == TENSOR_BYTE_MAX)
    tile_fold_max<BN>(fold, acc, run);
  else if constexpr (KIND == TENSOR_BYTE_ARG)
    tile_fold_arg<BN>(fold, acc, first, run);
  else
    tile_fold<BN>(fold, acc, factor, first, run);
}

GPURED__DEV void add_four(float4 *x, float4 y) {
  x->x = add(x->x, y.x);
  x->y = add(x->y, y.y);
  x->z = add(x->z, y.z);
  x->w = add(x->w, y.w);
}

/*
 * Where the depth is cut: the sums of all stretches meet, and what becomes of a tile becomes of
 * them. A block takes 16 kept elements by 32 of the reduced axis; a warp adds up four values of
 * each lane over a share of the stretches, in ascending order, and the first one what all have.
 */
template <int SHARES>
static __global__ void __launch_bounds__(JOIN_ROWS * 4 * SHARES)
    tensor_join(const __grid_constant__ tensor_job j) {
  enum { BN = JOIN_ROWS, FOURS = BN / 8 };
  __shared__ float4 shared[SHARES][FOURS][32];
  const int lane = threadIdx.x % 32, four = threadIdx.x / 32 % FOURS, share = threadIdx.x / 128;
  const unsigned groups = (unsigned)((j.columns + JOIN_COLUMNS - 1) / JOIN_COLUMNS);
  const unsigned group = blockIdx.x % groups, row = blockIdx.x / groups % (unsigned)j.segments;
  const unsigned item = blockIdx.x / groups / (unsigned)j.segments, parts = (unsigned)j.parts;
  const int64_t tile = (int64_t)j.kept_warps * parts, stretch = j.tiles * tile;
  const int64_t from = row / parts * tile + group * parts + row % parts;
  const int first = share * j.cuts / SHARES, end = (share + 1) * j.cuts / SHARES;
  float4 x = make_float4(0, 0, 0, 0);
  let_next_launch();
  after_launch_before();
#pragma unroll 8
  for (int s = first; s < end; ++s)
    add_four(&x, __ldcg(j.sums + (((int64_t)item * j.cuts + s) * stretch + from) * (FOURS * 32) +
                        four * 32 + lane));
  shared[share][four][lane] = x;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const int fold = j.result[0].fold;
  const float factor = lse_factor(j);
  const int slot = (int)item * j.segments + (int)row;
  const int64_t column = group * JOIN_COLUMNS + lane / 4;
  float acc[BN / 2];
  float2 run[2];
#pragma unroll
  for (int i = 0; i < FOURS; ++i) {
    x = shared[0][i][lane];
#pragma unroll
    for (int w = 1; w < SHARES; ++w) add_four(&x, shared[w][i][lane]);
    acc[4 * i] = x.x;
    acc[4 * i + 1] = x.y;
    acc[4 * i + 2] = x.z;
    acc[4 * i + 3] = x.w;
  }
  run[0] = run[1] = fold_start(fold);
  tile_done<BN, TENSOR_ANY>(j, acc, fold, factor, item, slot, (int64_t)row * BN, 2 * (lane % 4),
                            column, run);
  if (j.count <= 1) tensor_flush(j, 0, fold, factor, item, slot, column, run);
}

/* The fold of the first result. */
GPURED__DEV int tensor_fold(const tensor_job &j, int kind) {
  if (kind == TENSOR_MAX) return FOLD_MAX;
  if (kind == TENSOR_ARG) return FOLD_ARGMAX;
  return kind == TENSOR_LSE ? FOLD_LSE : j.result[0].fold;
}

/* ---- A unit of work: some tiles of the reduced axis for a panel of the kept one ---- */

struct tensor_unit {
  unsigned item;
  int segment, panel, tile, slot; /* slot: of its results among all segments of all items */
};

/* Whole segments come first, then the shorter last ones, so that the number of tiles of a unit is
 * known without a division. */
GPURED__DEV int tensor_tiles_of(const tensor_job &j, int unit) {
  return unit < j.whole_units ? j.segment_tiles : j.last_tiles;
}

/* Units that run side by side make a square of panels and segments, so that they share what they
 * read in the second cache. */
GPURED__DEV tensor_unit tensor_find(const tensor_job &j, int unit) {
  const bool whole = unit < j.whole_units;
  const unsigned segments = whole ? (unsigned)j.whole_segments : 1, per = j.panels * segments;
  unsigned at = (unsigned)(whole ? unit : unit - j.whole_units), first, width;
  tensor_unit u;
  u.item = per > 1 ? at / per : at;
  at -= u.item * per;
  u.segment = u.panel = 0;
  if (segments == 1) {
    u.panel = (int)at;
  } else if (per > 1) {
    first = at / (j.raster * segments) * j.raster;
    width = min((unsigned)j.raster, j.panels - first);
    at -= first * segments;
    u.segment = (int)(at / width);
    u.panel = (int)(first + at - u.segment * width);
  }
  if (!whole) u.segment = j.whole_segments;
  u.tile = u.segment * j.segment_tiles;
  u.slot = (int)u.item * j.segments + u.segment;
  return u;
}

/*
 * The shape of a block: BN of the reduced axis at a time, and a warpgroup for each 64 elements of
 * the kept one besides that which fills the ring. Large tiles have a multiprocessor to themselves;
 * small ones share it, so that the latencies of some hide behind the others. There are two shapes
 * of large ones, since one alone may leave the last round of multiprocessors nearly empty.
 */
template <int BN>
struct tensor_shape {
  enum { GROUPS = BN == 256 ? 2 : BN == 160 ? 3 : 1 };
  enum { KEPT = 64 * GROUPS, THREADS = 128 + 128 * GROUPS, STAGES = BN == 160 ? 5 : 4 };
  enum { KEPT_BYTES = KEPT * 128, BYTES = KEPT_BYTES + BN * 128 };
};

/* Blocks that share a multiprocessor. */
static constexpr __host__ __device__ int tensor_blocks(int tile, int kind) {
  return tile >= 160 ? 1 : kind == TENSOR_ANY ? 2 : 3;
}

/* ---- sm_90a: the instructions ---- */

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || \
    (defined(__CUDA_ARCH_SPECIFIC__) && __CUDA_ARCH_SPECIFIC__ == 900)
#define GPURED__WGMMA
#endif

#ifdef GPURED__WGMMA
/* Where another block of the cluster has what this one has at an address, and an arrival there. */
GPURED__DEV uint32_t address_in(uint32_t address, uint32_t rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
GPURED__DEV void barrier_arrive(uint32_t there) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}
/* One lane of a warp: unlike a comparison with a number, this tells the compiler that it is one. */
GPURED__DEV bool elected() {
  uint32_t yes;
  asm volatile(
      "{ .reg .pred p; elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p; }"
      : "=r"(yes));
  return yes != 0;
}

/* A box of a tensor to shared memory, of one block or of all blocks in `mask`. */
GPURED__DEV void copy_box(const CUtensorMap *map, uint32_t to, uint32_t bar, int axes, int x, int y,
                          const int *item, uint32_t mask) {
  if (axes <= 1) {
    if (mask)
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
          ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
          "l"(map), "r"(x), "r"(y), "r"(item[0]), "r"(bar), "h"((uint16_t)mask)
          : "memory");
    else
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
          " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
          "l"(map), "r"(x), "r"(y), "r"(item[0]), "r"(bar)
          : "memory");
    return;
  }
  if (mask)
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(to),
        "l"(map), "r"(x), "r"(y), "r"(item[0]), "r"(item[1]), "r"(item[2]), "r"(bar),
        "h"((uint16_t)mask)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(to),
        "l"(map), "r"(x), "r"(y), "r"(item[0]), "r"(item[1]), "r"(item[2]), "r"(bar)
        : "memory");
}

/* Shared memory as the matrix instructions see it: rows of 128 bytes, swizzled, 1024 bytes to the
 * next eight rows; 64 elements to the next piece of an operand that lies crosswise. This is the
 * lower half of what says so; the upper one is always the same. */
GPURED__DEV uint32_t operand_at(uint32_t address) {
  const uint32_t pieces = 64 * 128 >> 4;
  return (address & 0x3ffff) >> 4 | pieces << 16;
}

#define GPURED__R10(t) \
  "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define GPURED__R0_9 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,"
#define GPURED__D4(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define GPURED__D16(c, i) \
  GPURED__D4(c, i), GPURED__D4(c, i + 4), GPURED__D4(c, i + 8), GPURED__D4(c, i + 12)
#define GPURED__D32(c) GPURED__D16(c, 0), GPURED__D16(c, 16)
#define GPURED__D80(c) GPURED__D32(c), GPURED__D16(c, 32), GPURED__D16(c, 48), GPURED__D16(c, 64)
#define GPURED__D128(c) GPURED__D80(c), GPURED__D16(c, 80), GPURED__D16(c, 96), GPURED__D16(c, 112)
#define GPURED__R32 GPURED__R0_9 GPURED__R10(1) GPURED__R10(2) "%30,%31"
#define GPURED__R80                                                                       \
  GPURED__R0_9 GPURED__R10(1) GPURED__R10(2) GPURED__R10(3) GPURED__R10(4) GPURED__R10(5) \
      GPURED__R10(6) "%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define GPURED__R128                                                                      \
  GPURED__R0_9 GPURED__R10(1) GPURED__R10(2) GPURED__R10(3) GPURED__R10(4) GPURED__R10(5) \
      GPURED__R10(6) GPURED__R10(7) GPURED__R10(8) GPURED__R10(9) GPURED__R10(10)         \
          GPURED__R10(11) "%120,%121,%122,%123,%124,%125,%126,%127"

/* d = a b + (go_on ? d : 0) for 64 by N and 32 bytes of the depth; one instruction for each type, N
 * and pair of layouts. CASE (see tensor_multiply) may take -a. */
#define GPURED__OPERANDS(na, nb, ngo)                                          \
  "{ .reg .pred p; .reg .b32 upper; .reg .b64 x, y;\nsetp.ne.b32 p, %" #ngo    \
  ", 0;\nmov.b32 upper, 0x40000040;\n" /* rows: 1024 >> 4, swizzle: 1 << 30 */ \
  "mov.b64 x, {%" #na ", upper};\nmov.b64 y, {%" #nb ", upper};\n"
#define GPURED__MULTIPLY(N, type, regs, outs, na, nb, ngo, nneg, nta, ntb)                        \
  asm volatile(GPURED__OPERANDS(na, nb, ngo) "wgmma.mma_async.sync.aligned.m64n" #N               \
                                             "k16.f32." type "." type " {" regs                   \
                                             "}, x, y, p, %" #nneg ", 1, %" #nta ", %" #ntb "; }" \
               : outs                                                                             \
               : "r"(a), "r"(b), "r"(go_on), "n"(CASE >> 3 & 1 ? -1 : 1), "n"(CASE >> 1 & 1),     \
                 "n"(CASE >> 2 & 1))
#define GPURED__MULTIPLY_BYTES(N, type, regs, outs, na, nb, ngo)                                \
  asm volatile(GPURED__OPERANDS(na, nb, ngo) "wgmma.mma_async.sync.aligned.m64n" #N             \
                                             "k32.s32." type "." type " {" regs "}, x, y, p; }" \
               : outs                                                                           \
               : "r"(a), "r"(b), "r"(go_on))

template <int CASE>
GPURED__DEV void multiply_add(float (&d)[128], uint32_t a, uint32_t b, int go_on) {
  if (CASE & 1)
    GPURED__MULTIPLY(256, "bf16", GPURED__R128, GPURED__D128("+f"), 128, 129, 130, 131, 132, 133);
  else
    GPURED__MULTIPLY(256, "f16", GPURED__R128, GPURED__D128("+f"), 128, 129, 130, 131, 132, 133);
}
template <int CASE>
GPURED__DEV void multiply_add(float (&d)[80], uint32_t a, uint32_t b, int go_on) {
  if (CASE & 1)
    GPURED__MULTIPLY(160, "bf16", GPURED__R80, GPURED__D80("+f"), 80, 81, 82, 83, 84, 85);
  else
    GPURED__MULTIPLY(160, "f16", GPURED__R80, GPURED__D80("+f"), 80, 81, 82, 83, 84, 85);
}
template <int CASE>
GPURED__DEV void multiply_add(float (&d)[32], uint32_t a, uint32_t b, int go_on) {
  if (CASE & 1)
    GPURED__MULTIPLY(64, "bf16", GPURED__R32, GPURED__D32("+f"), 32, 33, 34, 35, 36, 37);
  else
    GPURED__MULTIPLY(64, "f16", GPURED__R32, GPURED__D32("+f"), 32, 33, 34, 35, 36, 37);
}
template <int CASE>
GPURED__DEV void multiply_add(int (&d)[128], uint32_t a, uint32_t b, int go_on) {
  if (CASE & 1)
    GPURED__MULTIPLY_BYTES(256, "s8", GPURED__R128, GPURED__D128("+r"), 128, 129, 130);
  else
    GPURED__MULTIPLY_BYTES(256, "u8", GPURED__R128, GPURED__D128("+r"), 128, 129, 130);
}
template <int CASE>
GPURED__DEV void multiply_add(int (&d)[32], uint32_t a, uint32_t b, int go_on) {
  if (CASE & 1)
    GPURED__MULTIPLY_BYTES(64, "s8", GPURED__R32, GPURED__D32("+r"), 32, 33, 34);
  else
    GPURED__MULTIPLY_BYTES(64, "u8", GPURED__R32, GPURED__D32("+r"), 32, 33, 34);
}
#undef GPURED__OPERANDS
#undef GPURED__MULTIPLY_BYTES
#undef GPURED__MULTIPLY
#undef GPURED__R128
#undef GPURED__R80
#undef GPURED__R32
#undef GPURED__R10
#undef GPURED__R0_9
#undef GPURED__D128
#undef GPURED__D80
#undef GPURED__D32
#undef GPURED__D16
#undef GPURED__D4

/* No use of the sums moves across this. */
template <int N>
GPURED__DEV void hold(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N>
GPURED__DEV void hold(int (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

/* ---- sm_90a: the ring of operand tiles ---- */

struct tensor_ring {
  uint32_t data, full, empty; /* addresses: tiles, barriers of 8 bytes */
  uint32_t kept, other, back; /* of a warpgroup: its operands in the first tile; of a lane: the
                                 empty barriers of the block that it tells */
  int4 *place; /* with the first step of a tile of the product: its item, its number along the
                  reduced axis, its first kept element, the slot of its results */
  int stages, stage, cluster;
  uint32_t parity;
};

GPURED__DEV void ring_next(tensor_ring *ring) {
  if (++ring->stage == ring->stages) {
    ring->stage = 0;
    ring->parity ^= 1;
  }
}

GPURED__DEV void ring_wait(const tensor_ring &ring) {
  barrier_wait(ring.full + 8 * ring.stage, ring.parity);
}

/* Tells every block of the cluster that this warp has done with a tile. */
GPURED__DEV void ring_free(const tensor_ring &ring, int stage) {
  if ((int)(threadIdx.x % 32) < ring.cluster) barrier_arrive(ring.back + 8 * stage);
}

/* The place of the tile that the ring has come to. The lane that gives it back to this block, the
 * one of the block's rank, reads it: no order between lanes is needed. */
GPURED__DEV int4 ring_place(const tensor_ring &ring, int rank) {
  int4 at = make_int4(0, 0, 0, 0);
  if ((int)(threadIdx.x % 32) == rank) at = ring.place[ring.stage];
  at.x = __shfl_sync(0xffffffffu, at.x, rank);
  at.y = __shfl_sync(0xffffffffu, at.y, rank);
  at.z = __shfl_sync(0xffffffffu, at.z, rank);
  at.w = __shfl_sync(0xffffffffu, at.w, rank);
  return at;
}

/* One step of the depth; go_on: is there a sum already? */
template <int BN, int CASE, class T>
GPURED__DEV void tensor_issue(T (&acc)[BN / 2], const tensor_ring &ring, int go_on) {
  enum { STEP_A = (CASE & 2 ? 2048 : 32) >> 4, STEP_B = (CASE & 4 ? 2048 : 32) >> 4 };
  const uint32_t at = ring.stage * (tensor_shape<BN>::BYTES >> 4);
  const uint32_t a = ring.kept + at, b = ring.other + at;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int i = 0; i < TENSOR_STEP / 32; ++i)
    multiply_add<CASE>(acc, a + i * STEP_A, b + i * STEP_B, go_on || i > 0);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* The two warpgroups take turns to issue a tile where a tile is short, so that one multiplies while
 * the other reduces. Multiplications take most of the registers' bandwidth, so reducing meanwhile
 * is slow, and the gain is but some percent. */
GPURED__DEV void turn_wait(int group) {
  if (group == 0)
    asm volatile("bar.sync 1, 256;" ::: "memory");
  else
    asm volatile("bar.sync 2, 256;" ::: "memory");
}
GPURED__DEV void turn_pass(int group) {
  if (group == 0)
    asm volatile("bar.arrive 2, 256;" ::: "memory");
  else
    asm volatile("bar.arrive 1, 256;" ::: "memory");
}

/* One tile of the product: all steps of the depth. CASE: bf16 (or signed bytes), which operands lie
 * crosswise, sign. The tile before the last issued one is given back when its instructions have
 * ended. */
template <int BN, int CASE, class T>
GPURED__DEV void tensor_multiply(const tensor_job &j, T (&acc)[BN / 2], tensor_ring *ring,
                                 int group) {
  int before = ring->stage;
  hold(acc);
  ring_wait(*ring);
  tensor_issue<BN, CASE>(acc, *ring, 0);
  ring_next(ring);
  for (int k = 1; k < j.steps; ++k) {
    ring_wait(*ring);
    tensor_issue<BN, CASE>(acc, *ring, 1);
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    ring_free(*ring, before);
    before = ring->stage;
    ring_next(ring);
  }
  if (j.turns) turn_pass(group);
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  hold(acc);
  ring_free(*ring, before);
}

/* The same for the form that the job says, of FORM and those after it. */
template <int BN, int FORM, int FORMS, class T>
GPURED__DEV void tensor_multiply_any(const tensor_job &j, T (&acc)[BN / 2], tensor_ring *ring,
                                     int group) {
  if constexpr (FORM < FORMS) {
    if (j.form != FORM)
      tensor_multiply_any<BN, FORM + 1, FORMS>(j, acc, ring, group);
    else if constexpr (BN != 160 || (FORM & 4) == 0)
      tensor_multiply<BN, FORM>(j, acc, ring, group);
  }
}

GPURED__DEV void tensor_coordinates(const tensor_operand &o, unsigned item, int *c) {
#pragma unroll
  for (int i = 0; i < TENSOR_AXES; ++i) {
    unsigned x = i < o.axes ? item : 0;
    if (i < o.axes && o.item[i] > 1) x /= o.item[i];
    if (i < o.axes && o.wraps[i]) x %= o.n[i];
    c[i] = (int)x;
  }
}

/* Fills the ring: the kept operand's tile for this block alone, this block's share of the other
 * operand's for the whole cluster. */
template <int BN>
GPURED__DEV void tensor_fetch(const tensor_job &j, const tensor_ring &ring, int rank, int depth,
                              int row, int kept, const int *left, const int *right) {
  const uint32_t mask = ring.cluster > 1 ? (1u << ring.cluster) - 1 : 0;
  const int share = BN / ring.cluster, first = row + rank * share;
  const uint32_t to = ring.data + ring.stage * tensor_shape<BN>::BYTES;
  const uint32_t other = to + tensor_shape<BN>::KEPT_BYTES + rank * share * 128;
  const uint32_t bar = ring.full + 8 * ring.stage;
  barrier_expect(bar, tensor_shape<BN>::BYTES);
  if (!j.right.crosswise)
    copy_box(&j.right_map, to, bar, j.right.axes, depth, kept, right, 0);
  else
    for (int i = 0; i < tensor_shape<BN>::KEPT; i += 64)
      copy_box(&j.right_map, to + i * 128, bar, j.right.axes, kept + i, depth, right, 0);
  if (!j.left.crosswise)
    copy_box(&j.left_map, other, bar, j.left.axes, depth, first, left, mask);
  else
    for (int i = 0; i < share; i += 64)
      copy_box(&j.left_map, other + i * 128, bar, j.left.axes, first + i, depth, left, mask);
}

template <int BN, int KIND>
GPURED__DEV void tensor_produce(const tensor_job &j, tensor_ring ring, int rank, int unit,
                                int stride) {
  const int step = is_of_bytes(KIND) ? (int)TENSOR_STEP : TENSOR_STEP / 2;
  int left[TENSOR_AXES], right[TENSOR_AXES];
  tensor_unit u = tensor_find(j, unit), next = u;
  while (unit < j.units) {
    const int kept = (u.panel * ring.cluster + rank) * tensor_shape<BN>::KEPT;
    const int tiles = tensor_tiles_of(j, unit);
    const unsigned cut = KIND == TENSOR_SUMS ? u.item % (unsigned)j.cuts : 0;
    const unsigned item = KIND == TENSOR_SUMS ? u.item / (unsigned)j.cuts : u.item;
    const int depth = (int)cut * j.steps * step;
    tensor_coordinates(j.left, item, left);
    tensor_coordinates(j.right, item, right);
    unit += stride;
    for (int t = 0; t < tiles; ++t)
      for (int k = 0; k < j.steps; ++k, ring_next(&ring)) {
        barrier_wait(ring.empty + 8 * ring.stage, ring.parity ^ 1);
        if (k == 0) ring.place[ring.stage] = make_int4((int)u.item, u.tile + t, kept, u.slot);
        tensor_fetch<BN>(j, ring, rank, depth + k * step, (u.tile + t) * BN, kept, left, right);
        if (t == 0 && k == 0) next = tensor_find(j, unit); /* while there is time */
      }
    u = next;
  }
}

/* Multiplies and reduces. */
template <int BN, int KIND>
GPURED__DEV void tensor_consume(const tensor_job &j, tensor_ring ring, int rank, int unit,
                                int stride, int group) {
  const int lane = threadIdx.x % 32, mine = group * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
  const int fold = tensor_fold(j, KIND);
  const float factor = lse_factor(j);
  float2 run[2];
  run[0] = run[1] = fold_start(fold);
  ring.back = address_in(ring.empty, (uint32_t)lane < (uint32_t)ring.cluster ? lane : 0);
  /* in uniform registers */
  ring.full = __shfl_sync(0xffffffffu, ring.full, 0);
  ring.kept = __shfl_sync(0xffffffffu, operand_at(ring.data + group * 8192), 0);
  ring.other = __shfl_sync(0xffffffffu, operand_at(ring.data + tensor_shape<BN>::KEPT_BYTES), 0);
  if (j.turns && group == 1) turn_pass(group);
  for (; unit < j.units; unit += stride) {
    for (int left = tensor_tiles_of(j, unit); left > 0; --left) {
      typename tensor_sum<is_of_bytes(KIND)>::T acc[BN / 2];
      if (j.turns) turn_wait(group);
      ring.stage = __shfl_sync(0xffffffffu, ring.stage, 0); /* in uniform registers */
      ring.parity = __shfl_sync(0xffffffffu, ring.parity, 0);
      ring_wait(ring);
      const int4 at = ring_place(ring, rank);
      const int64_t column = at.z + mine;
      tensor_multiply_any<BN, 0, tensor_sum<is_of_bytes(KIND)>::FORMS>(j, acc, &ring, group);
      if constexpr (KIND == TENSOR_SUMS) {
        tile_keep<BN>(j, acc, (unsigned)at.x, at.y, at.z + mine - lane / 4);
        continue;
      }
      tile_done<BN, KIND>(j, acc, fold, factor, (unsigned)at.x, at.w, (int64_t)at.y * BN,
                          2 * (lane % 4), column, run);
      if (left > 1 || (KIND == TENSOR_ANY && j.count > 1)) continue;
      tensor_flush(j, 0, fold, factor, (unsigned)at.x, at.w, column, run);
      run[0] = run[1] = fold_start(fold);
    }
  }
  if (j.turns && group == 0) turn_wait(group); /* the pass that nobody is left to take */
}

template <int BN, int KIND>
static __global__ void __launch_bounds__(tensor_shape<BN>::THREADS, tensor_blocks(BN, KIND))
    tensor_tiles(const __grid_constant__ tensor_job j) {
  extern __shared__ __align__(1024) char tensor_memory[];
  __shared__ uint64_t barriers[16];
  __shared__ int4 place[8];
  const uint32_t base = shared_address(tensor_memory);
  const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
  tensor_ring ring;
  uint32_t rank, clusters, index;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(clusters));
  ring.data = (base + 1023) & ~1023u;
  ring.full = shared_address(barriers);
  ring.empty = ring.full + 64;
  ring.place = place;
  ring.stages = j.stages;
  ring.stage = 0;
  ring.parity = 0;
  ring.cluster = j.cluster;
  if (threadIdx.x == 0) {
    for (int i = 0; i < j.stages; ++i) {
      barrier_init(ring.full + 8 * i, 1);
      barrier_init(ring.empty + 8 * i, 4 * tensor_shape<BN>::GROUPS * j.cluster);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  cluster_sync();
  after_launch_before(); /* no memory but the block's own was touched so far */
  let_next_launch();
  if (group == 0) {
    if (BN >= 160) asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    /* the kernel for anything would spill registers with an elected lane */
    if (KIND == TENSOR_ANY ? threadIdx.x == 0
                           : __shfl_sync(0xffffffffu, threadIdx.x / 32, 0) == 0 && elected())
      tensor_produce<BN, KIND>(j, ring, (int)rank, (int)index, (int)clusters);
  } else {
    if (BN == 256) asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    if (BN == 160) asm volatile("setmaxnreg.inc.sync.aligned.u32 152;");
    tensor_consume<BN, KIND>(j, ring, (int)rank, (int)index, (int)clusters,
                             tensor_shape<BN>::GROUPS == 1 ? 0 : group - 1);
  }
  cluster_sync();
}
#else
template <int BN, int KIND>
static __global__ void __launch_bounds__(32) tensor_tiles(const __grid_constant__ tensor_job) {}
#endif

/* ---- sm_80: mma.sync, for what the above cannot take ---- */
/*
 * A block takes 128 elements of the kept axis and 128 of the reduced one, a warp 16 of the kept and
 * all of the reduced. Operands that are aligned come in through a ring of asynchronous copies of 16
 * bytes, others element by element.
 */
enum { HMMA_TILE = 128, HMMA_STEP = 32, HMMA_STAGES = 3, HMMA_THREADS = 256 };
enum {
  HMMA_LINE = 2 * HMMA_STEP + 16,
  HMMA_CROSS = 2 * HMMA_TILE + 16
}; /* bytes, without conflicts */
enum { HMMA_BYTES = HMMA_TILE * HMMA_LINE, HMMA_SHARED = 2 * HMMA_STAGES * HMMA_BYTES };

static constexpr __host__ __device__ int hmma_blocks(int kind) {
  return kind == TENSOR_MAX ? 2 : 1;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
/* Four 8x8 matrices from shared memory. */
template <int TRANSPOSED>
GPURED__DEV void load_matrices(uint32_t (&r)[4], uint32_t address) {
  if (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

template <int BF>
GPURED__DEV void hmma_add(float *d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if (BF)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Where a lane finds its row of a 16x16 piece: 16 of the operand from `first`, 16 of the depth from
 * k. `swapped`: which of the two axes the second of the four matrices goes along. */
template <int CROSS>
GPURED__DEV uint32_t piece_at(uint32_t base, int first, int k, bool swapped) {
  const int lane = threadIdx.x % 32, one = lane / 8 % 2, two = lane / 16;
  const int along = first + 8 * (swapped ? two : one), deep = k + 8 * (swapped ? one : two);
  return CROSS ? base + (deep + lane % 8) * HMMA_CROSS + 2 * along
               : base + (along + lane % 8) * HMMA_LINE + 2 * deep;
}

/* One step of the depth from shared memory. */
template <int BF, int TA, int TB>
GPURED__DEV void hmma_step(float (&acc)[HMMA_TILE / 2], uint32_t kept, uint32_t reduced,
                           uint32_t flip) {
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int k = 0; k < HMMA_STEP; k += 16) {
    uint32_t a[4], b[4];
    load_matrices<TA>(a, piece_at<TA>(kept, 16 * warp, k, false));
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] ^= flip;
#pragma unroll
    for (int n = 0; n < HMMA_TILE; n += 16) {
      load_matrices<TB>(b, piece_at<TB>(reduced, n, k, true));
      hmma_add<BF>(&acc[n / 2], a, b[0], b[1]);
      hmma_add<BF>(&acc[n / 2 + 4], a, b[2], b[3]);
    }
  }
}

/* A tile of an operand to shared memory: HMMA_TILE elements from `first` on, HMMA_STEP of the depth
 * from k on; zeros beyond the ends. */
GPURED__DEV void hmma_fetch(const tensor_operand &o, int extent, int depth, const uint16_t *data,
                            int first, int k, uint32_t to) {
  const int fast = o.crosswise ? extent : depth, fast_from = o.crosswise ? first : k;
  const int slow = o.crosswise ? depth : extent, slow_from = o.crosswise ? k : first;
  const int64_t slow_step = o.crosswise ? o.depth : o.along;
  const int lines = o.crosswise ? HMMA_STEP : HMMA_TILE,
            line = o.crosswise ? HMMA_CROSS : HMMA_LINE;
  const int width = o.crosswise ? HMMA_TILE : HMMA_STEP, pieces = width / 8;
  if (o.whole) {
    for (int i = threadIdx.x; i < lines * pieces; i += HMMA_THREADS) {
      const int x = fast_from + i % pieces * 8, y = slow_from + i / pieces;
      const int rest = y < slow && x < fast ? min(fast - x, 8) : 0;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + i / pieces * line +
                                                                         i % pieces * 16),
                   "l"(data + (rest ? y * slow_step + x : 0)), "r"(2 * rest)
                   : "memory");
    }
    return;
  }
  const int64_t fast_step = o.crosswise ? o.along : o.depth;
  for (int i = threadIdx.x; i < lines * width; i += HMMA_THREADS) {
    const int x = fast_from + i % width, y = slow_from + i / width;
    const uint16_t v = y < slow && x < fast ? data[y * slow_step + x * fast_step] : 0;
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(to + i / width * line + i % width * 2), "h"(v)
                 : "memory");
  }
}

struct hmma_place {
  const uint16_t *left, *right; /* of the item */
  int row, kept;                /* first elements of the tile */
};

GPURED__DEV void hmma_fetch_both(const tensor_job &j, const hmma_place &at, int step,
                                 uint32_t base) {
  const uint32_t to = base + step % HMMA_STAGES * 2 * HMMA_BYTES;
  const int k = step * HMMA_STEP, depth = (int)j.depth;
  if (k < depth) {
    hmma_fetch(j.right, (int)j.columns, depth, at.right, at.kept, k, to);
    hmma_fetch(j.left, (int)j.rows, depth, at.left, at.row, k, to + HMMA_BYTES);
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/* One tile of the product. */
template <int CASE>
GPURED__DEV void hmma_multiply(const tensor_job &j, float (&acc)[HMMA_TILE / 2],
                               const hmma_place &at, uint32_t base) {
  const int steps = (int)((j.depth + HMMA_STEP - 1) / HMMA_STEP);
  const uint32_t flip = j.form & 8 ? 0x80008000u : 0;
#pragma unroll
  for (int i = 0; i < HMMA_TILE / 2; ++i) acc[i] = 0;
  for (int s = 0; s < HMMA_STAGES - 1; ++s) hmma_fetch_both(j, at, s, base);
  for (int s = 0; s < steps; ++s) {
    const uint32_t from = base + s % HMMA_STAGES * 2 * HMMA_BYTES;
    asm volatile("cp.async.wait_group %0;" ::"n"(HMMA_STAGES - 2) : "memory");
    __syncthreads();
    hmma_fetch_both(j, at, s + HMMA_STAGES - 1, base);
    hmma_step<(CASE & 1), (CASE >> 1 & 1), (CASE >> 2 & 1)>(acc, from, from + HMMA_BYTES, flip);
  }
  __syncthreads();
}

template <int KIND>
static __global__ void __launch_bounds__(HMMA_THREADS, hmma_blocks(KIND))
    tensor_hmma(const __grid_constant__ tensor_job j) {
  extern __shared__ __align__(16) char hmma_memory[];
  const uint32_t base = (uint32_t)__cvta_generic_to_shared(hmma_memory);
  const int lane = threadIdx.x % 32, mine = threadIdx.x / 32 * 16 + lane / 4;
  const int fold = tensor_fold(j, KIND);
  const float factor = lse_factor(j);
  float2 run[2];
  hmma_place at;
  for (int unit = blockIdx.x; unit < j.units; unit += gridDim.x) {
    const tensor_unit u = tensor_find(j, unit);
    const int tiles = tensor_tiles_of(j, unit);
    at.left = (const uint16_t *)j.left.data + tensor_offset(j, u.item, GPURED__LEFT);
    at.right = (const uint16_t *)j.right.data + tensor_offset(j, u.item, GPURED__RIGHT);
    at.kept = u.panel * HMMA_TILE;
    run[0] = run[1] = fold_start(fold);
    for (int t = 0; t < tiles; ++t) {
      float acc[HMMA_TILE / 2];
      at.row = (u.tile + t) * HMMA_TILE;
      switch (j.form & 7) {
#define GPURED__CASE(c)                 \
  case c:                               \
    hmma_multiply<c>(j, acc, at, base); \
    break;
        GPURED__CASE(0)
        GPURED__CASE(1)
        GPURED__CASE(2)
        GPURED__CASE(3)
        GPURED__CASE(4)
        GPURED__CASE(5)
        GPURED__CASE(6)
        GPURED__CASE(7)
#undef GPURED__CASE
      }
      tile_done<HMMA_TILE, KIND>(j, acc, fold, factor, u.item, u.slot, at.row, 2 * (lane % 4),
                                 at.kept + mine, run);
    }
    if (KIND == TENSOR_ANY && j.count > 1) continue;
    tensor_flush(j, 0, fold, factor, u.item, u.slot, at.kept + mine, run);
  }
}
#else
template <int KIND>
static __global__ void __launch_bounds__(32) tensor_hmma(const __grid_constant__ tensor_job) {}
#endif
/* ---- Vectors along one operand, in f32: biases, and the norms of the L2 form ---- */

struct tensor_vector {
  const char *in;
  float *out; /* [batches][pad] */
  int64_t n, pad, step, depth, depth_step, batches;
  int which, dtype, squares, batch_count;
  gpured__gemm_axis batch[GPURED_MAX_NDIM];
};

/* A warp makes one element, its lanes going along the depth; a thread where that is strided. */
template <int THREADS>
static __global__ void __launch_bounds__(THREADS)
    tensor_prepare(const __grid_constant__ tensor_vector v) {
  const int lanes = v.squares && v.depth_step == 1 ? 32 : 1, lane = (int)threadIdx.x % lanes;
  const int64_t index = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / lanes;
  int64_t item = index / v.pad, at = index % v.pad, rest = item;
  float x = 0, y;
  if (item >= v.batches) return;
  if (at < v.n) {
    int64_t offset = at * v.step;
    for (int i = v.batch_count - 1; i >= 0; rest /= v.batch[i].n, --i)
      offset += rest % v.batch[i].n * v.batch[i].stride[v.which];
    if (!v.squares) x = load_any<float>(v.in, offset, v.dtype);
    if (v.squares) {
      for (int64_t k = lane; k < v.depth; k += lanes) {
        y = load_any<float>(v.in, offset + k * v.depth_step, v.dtype);
        x = fused(y, y, x);
      }
      for (int d = lanes / 2; d > 0; d /= 2) x = add(x, __shfl_xor_sync(0xffffffffu, x, d));
    }
  }
  if (lane == 0) v.out[item * v.pad + at] = x;
}

/* ---- Operands that bulk copies cannot read ---- */
/*
 * Those want rows, items and the whole at multiples of 16 bytes. What lies otherwise is copied to
 * where it does, which for products of any size is little beside reading element by element.
 */
struct tensor_source {
  const char *data;
  uint4 *to;
  int64_t rows, all_rows, length, pitch; /* of an item; elements of a row; vectors of a copy */
  int64_t row_stride, stride;            /* in elements */
  int beside_log2, axes;                 /* threads of a row: 2^this; of the batch */
  int touching;                          /* rows follow each other without a gap */
  int64_t n[GPURED_MAX_NDIM], item_stride[GPURED_MAX_NDIM]; /* the innermost axis first */
};
struct tensor_packing {
  tensor_source operand[2];
  int64_t blocks[2];
};

/* Elements 8 v to 8 v + 7 of a row, the first of them at `at`, zeros behind the row's end. Nothing
 * is read beside [first, end). */
GPURED__DEV uint4 packed_vector(const tensor_source &o, const char *at, int64_t v,
                                const char *first, const char *end) {
  const char *border = border_before(at);
  const int64_t count = o.length - v * 8;
  uint16_t x[8];
  if (o.stride == 1 && border >= first && border + 32 <= end) {
    const uint4 q = cut_vector<2>(at, *(const uint4 *)border, *(const uint4 *)(border + 16));
    if (count >= 8) return q;
    memcpy(x, &q, 16);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = i < count ? x[i] : (uint16_t)0;
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      x[i] = i < count ? *(const uint16_t *)(at + i * 2 * o.stride) : (uint16_t)0;
  }
  uint4 q;
  memcpy(&q, x, 16);
  return q;
}

template <int THREADS>
static __global__ void __launch_bounds__(THREADS)
    tensor_pack(const __grid_constant__ tensor_packing k) {
  const int which = (int64_t)blockIdx.x >= k.blocks[0];
  const tensor_source &o = k.operand[which];
  const int64_t step = k.blocks[which] * (THREADS >> o.beside_log2);
  const int64_t block = (int64_t)blockIdx.x - (which ? k.blocks[0] : 0);
  const int beside = 1 << o.beside_log2, lane = (int)threadIdx.x & (beside - 1);
  int64_t row = block * (THREADS >> o.beside_log2) + ((int)threadIdx.x >> o.beside_log2);
  for (; row < o.all_rows; row += step) {
    int64_t item = o.axes ? gpured__quotient(row, o.rows) : 0, at = row - item * o.rows;
    const char *data = o.data, *from, *end;
    for (int i = 0; i < o.axes; item /= o.n[i], ++i) data += item % o.n[i] * o.item_stride[i] * 2;
    from = data + at * o.row_stride * 2;
    end = o.touching ? data + o.rows * o.length * 2 : from + o.length * 2;
    for (int64_t v = lane; v < o.pitch; v += beside)
      o.to[row * o.pitch + v] =
          packed_vector(o, from + v * 16 * o.stride, v, o.touching ? data : from, end);
  }
}

/* ---- The host ---- */

#if GPURED__HAS(0)
struct tensor_launch {
  tensor_job j;
  const void *kernel;
  int kind, tile, kept, threads,
      blocks; /* tile: of the reduced axis; blocks: on a multiprocessor */
  size_t shared, workspace, row_bias, column_bias, sums;
  int packs; /* bits: operands that are packed; then the plan and where they lie */
  gpured__gemm_plan packed;
  tensor_packing packing;
  size_t pack_at[2];
};

/* Code for sm_90a says so by how many threads it can be launched with. */
static int has_wgmma(const machine *m) {
  static int known; /* 1: no, 2: yes; the same for every device of compute capability 9.0 */
  cudaFuncAttributes a;
  int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (m->major != 9) return 0;
  if (answer == 0) {
    if (status_of(cudaFuncGetAttributes(&a, gpured__tensor_kernel(256, TENSOR_MAX))) != GPURED_OK)
      return 0;
    answer = a.maxThreadsPerBlock >= tensor_shape<256>::THREADS ? 2 : 1;
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  }
  return answer == 2;
}

/* The batch axes that an operand has, neighbours joined. 0: too many. */
static int tensor_axes(const gpured__gemm_plan *p, int which, tensor_operand *o, int64_t *stride) {
  int64_t item = 1;
  o->axes = 0;
  for (int i = p->batch_count - 1; i >= 0; item *= p->batch[i].n, --i) {
    const int64_t n = p->batch[i].n, s = p->batch[i].stride[which];
    const int last = o->axes - 1;
    if (n == 1 || s == 0) continue;
    if (last >= 0 && (int64_t)o->item[last] * o->n[last] == item &&
        stride[last] * o->n[last] == s) {
      o->n[last] *= (unsigned)n;
      continue;
    }
    if (o->axes == TENSOR_AXES) return 0;
    o->n[o->axes] = (unsigned)n;
    o->item[o->axes] = (unsigned)item;
    stride[o->axes++] = s;
  }
  return 1;
}

typedef CUresult (*encode_tiled)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                 const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                 const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's function, without a link to the driver. */
static encode_tiled find_encode(void) {
  static void *known;
  void *f = __atomic_load_n(&known, __ATOMIC_RELAXED);
  cudaDriverEntryPointQueryResult found;
  if (f) return (encode_tiled)f;
  if (status_of(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000,
                                                 cudaEnableDefault, &found)) != GPURED_OK)
    return NULL;
  if (found != cudaDriverEntryPointSuccess) return NULL;
  __atomic_store_n(&known, f, __ATOMIC_RELAXED);
  return (encode_tiled)f;
}

/*
 * An operand [.., along, depth] as the bulk copies want it: one of the two has unit stride, the
 * other strides are positive multiples of 16 bytes, as is the address. box: how much of `along` a
 * copy takes where the depth is the unit-stride axis. map is NULL to ask only.
 */
static int tensor_operand_of(const gpured__gemm_plan *p, int which, int64_t along,
                             int64_t along_stride, int64_t depth_stride, int box, const void *data,
                             tensor_operand *o, CUtensorMap *map) {
  const int64_t most = (int64_t)1 << 31, wide = (int64_t)1 << 39;
  const int64_t element = (int64_t)gpured__dtype_size(p->left.dtype), border = 16 / element;
  int64_t stride[TENSOR_AXES] = {0, 0, 0}, other;
  cuuint64_t size[5] = {1, 1, 1, 1, 1}, bytes[4];
  cuuint32_t boxes[5] = {(cuuint32_t)(TENSOR_STEP / element), 64, 1, 1, 1},
             steps[5] = {1, 1, 1, 1, 1};
  encode_tiled encode = find_encode();
  const int64_t aligned_along = along == 1 || (along_stride > 0 && along_stride % border == 0);
  const int64_t aligned_depth = p->depth == 1 || (depth_stride > 0 && depth_stride % border == 0);
  if (!encode || !tensor_axes(p, which, o, stride)) return 0;
  if ((depth_stride == 1 || p->depth == 1) && aligned_along)
    o->crosswise = 0;
  else if ((along_stride == 1 || along == 1) && aligned_depth && element == 2)
    o->crosswise = 1;
  else
    return 0;
  other =
      o->crosswise ? (p->depth == 1 ? border : depth_stride) : (along == 1 ? border : along_stride);
  size[0] = (cuuint64_t)(o->crosswise ? along : p->depth);
  size[1] = (cuuint64_t)(o->crosswise ? p->depth : along);
  if (!o->crosswise) boxes[1] = (cuuint32_t)box;
  bytes[0] = (cuuint64_t)(other * element);
  if (along >= most || p->depth >= most || other >= wide) return 0;
  for (int i = 0; i < TENSOR_AXES; ++i) {
    bytes[i + 1] = 16;
    if (i >= o->axes) continue;
    o->wraps[i] = (int64_t)o->n[i] * o->item[i] < p->batches;
    if (stride[i] < 0 || stride[i] % border || stride[i] >= wide) return 0;
    size[i + 2] = (cuuint64_t)o->n[i];
    bytes[i + 1] = (cuuint64_t)(stride[i] * element);
  }
  if (!map) return 1;
  if ((uintptr_t)data % 16) return 0;
  return encode(map,
                element == 1                   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                : p->left.dtype == GPURED_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                               : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                o->axes <= 1 ? 3 : 5, (void *)data, size, bytes, boxes, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

static int tensor_left(const gpured__gemm_plan *p, tensor_launch *t, CUtensorMap *map) {
  const int64_t *s = p->left.strides + p->left.ndim - 2;
  return tensor_operand_of(p, GPURED__LEFT, p->rows, s[0], s[1], t->tile / t->j.cluster,
                           p->left.data, &t->j.left, map);
}
static int tensor_right(const gpured__gemm_plan *p, tensor_launch *t, CUtensorMap *map) {
  const int64_t *s = p->right.strides + p->right.ndim - 2;
  return tensor_operand_of(p, GPURED__RIGHT, p->columns, s[1], s[0], t->kept, p->right.data,
                           &t->j.right, map);
}
static int tensor_operands(const gpured__gemm_plan *p, tensor_launch *t, int query) {
  return tensor_left(p, t, query ? NULL : &t->j.left_map) &&
         tensor_right(p, t, query ? NULL : &t->j.right_map);
}

/* The same for mma.sync, which takes everything. */
static void hmma_operand_of(const gpured__gemm_plan *p, int which, int64_t along,
                            int64_t along_stride, int64_t depth_stride, const void *data,
                            tensor_operand *o) {
  const int lies_along_depth = depth_stride == 1 || p->depth == 1;
  const int lies_across = along_stride == 1 || along == 1;
  const int64_t other = lies_along_depth ? along_stride : depth_stride;
  o->crosswise = !lies_along_depth && lies_across;
  o->data = (const char *)data;
  o->along = along_stride;
  o->depth = depth_stride;
  o->whole = (o->crosswise ? along_stride : depth_stride) == 1 && other % 8 == 0 &&
             (uintptr_t)data % 16 == 0;
  for (int i = 0; i < p->batch_count; ++i)
    if (p->batch[i].stride[which] % 8) o->whole = 0;
}

static void hmma_operands(const gpured__gemm_plan *p, tensor_job *j) {
  const int64_t *ls = p->left.strides + p->left.ndim - 2,
                *rs = p->right.strides + p->right.ndim - 2;
  hmma_operand_of(p, GPURED__LEFT, p->rows, ls[0], ls[1], p->left.data, &j->left);
  hmma_operand_of(p, GPURED__RIGHT, p->columns, rs[1], rs[0], p->right.data, &j->right);
}

static int fold_of(int op) {
  switch (op) {
    case GPURED_MAX:
      return FOLD_MAX;
    case GPURED_MIN:
      return FOLD_MIN;
    case GPURED_ABSMAX:
      return FOLD_ABSMAX;
    case GPURED_ARGMAX:
      return FOLD_ARGMAX;
    case GPURED_ARGMIN:
      return FOLD_ARGMIN;
    case GPURED_NORM1:
      return FOLD_ABS;
    case GPURED_SUMSQ:
    case GPURED_NORM2:
      return FOLD_SQUARE;
    case GPURED_LOGSUMEXP:
      return FOLD_LSE;
    default:
      return FOLD_SUM;
  }
}

/* Which instance: one result that needs nothing but the product has its own. A minimum is then the
 * maximum of the negated product, and alpha only scales the result. Returns whether the product is
 * to be negated. */
static int tensor_kind(const gpured__gemm_plan *p, tensor_job *j, int *kind) {
  const int fold = fold_of(p->g->results[0].op);
  const int lowest_wins = fold == FOLD_MIN || fold == FOLD_ARGMIN;
  const float alpha = (float)p->ep.alpha, size = alpha < 0 ? -alpha : alpha;
  const int values = p->row_bias || p->column_bias || p->g->form || p->g->map;
  *kind = TENSOR_ANY;
  j->alpha = alpha;
  j->scale = 1;
  j->map = p->g->map;
  j->plain = !values && !p->ep.scaled;
  for (int r = 0; r < p->g->count; ++r) j->result[r].fold = fold_of(p->g->results[r].op);
  j->integers = p->acc == GPURED__U64;
  if (j->integers) {
    *kind = fold_is_arg(fold) ? TENSOR_BYTE_ARG : TENSOR_BYTE_MAX;
    return 0;
  }
  if (p->g->count > 1 || p->g->c || values || !(size > 0 && size < INFINITY)) return 0;
  if (fold == FOLD_MAX || fold == FOLD_MIN) *kind = TENSOR_MAX;
  if (fold_is_arg(fold)) *kind = TENSOR_ARG;
  if (fold == FOLD_LSE) *kind = TENSOR_LSE;
  if (*kind == TENSOR_ANY) return 0;
  j->plain = 1;
  j->scale = lowest_wins ? -size : size;
  j->result[0].fold = *kind == TENSOR_MAX ? FOLD_MAX : *kind == TENSOR_ARG ? FOLD_ARGMAX : FOLD_LSE;
  return lowest_wins != (alpha < 0);
}

/* `count` floats at the end of the workspace, from a multiple of 64 bytes on. */
static size_t tensor_room(double *total, double count) {
  const double at = *total;
  *total = ceil((at + 4 * count) / 64) * 64;
  return at < (double)(SIZE_MAX / 4) ? (size_t)at : 0;
}

/* Offsets into the workspace. 0: it would be larger than memory can be. */
static int tensor_lay_out(const gpured__gemm_plan *p, tensor_launch *t) {
  const double batches = (double)p->batches;
  tensor_job *j = &t->j;
  double total = 0;
  j->row_pad = gpured__ceil_div(p->rows, 256) * 256;
  j->column_pad = gpured__ceil_div(p->columns, 256) * 256;
  if (j->segments > 1)
    (void)tensor_room(&total, 2 * (double)j->slots * (double)p->columns * p->g->count);
  if (p->row_bias || p->g->form) t->row_bias = tensor_room(&total, batches * (double)j->row_pad);
  if (p->column_bias || p->g->form)
    t->column_bias = tensor_room(&total, batches * (double)j->column_pad);
  if (j->cuts > 1) t->sums = tensor_room(&total, (double)j->units * j->cluster * t->kept * t->tile);
  t->workspace = (size_t)total;
  return total < (double)(SIZE_MAX / 4);
}

/*
 * Tiles of a segment. Sums take a number that follows from the depth alone, so that the item's
 * shape decides the bits. Maxima have the same bits however they are cut: as few segments as keep
 * all multiprocessors busy; but where the panels that are read side by side would crowd the second
 * cache, enough that some share them (reading them from memory again costs power, and so clock).
 */
static int tensor_segment(const machine *m, const gpured__gemm_plan *p, const tensor_launch *t) {
  const tensor_job *j = &t->j;
  const double clusters = (double)m->processors * t->blocks / j->cluster;
  const double side_by_side = clusters * t->kept * j->cluster;
  const double kept = (double)p->batches * (double)p->columns;
  const double bytes = (double)p->depth * (double)gpured__dtype_size(p->left.dtype);
  const int crowded = (kept < side_by_side ? kept : side_by_side) * bytes > TENSOR_CACHE;
  const int least = crowded ? (int)gpured__min_i64(j->tiles, TENSOR_SHARERS) : 1;
  double best = 0;
  int tiles, chosen = 1;
  if (p->g->count > 1) return 1;
  if (!is_extremum(t->kind)) return (int)gpured__min_i64(j->tiles, gpured__ceil_div(16, j->steps));
  for (tiles = 1; tiles <= j->tiles / least; tiles = tiles < 16 ? tiles + 1 : 2 * tiles) {
    const double units = (double)gpured__ceil_div(j->tiles, tiles) * j->panels * (double)p->batches;
    const double rounds = ceil(units / clusters) * tiles;
    if (tiles > 1 && rounds > best * 1.02) continue;
    if (tiles == 1 || rounds < best) best = rounds;
    chosen = tiles;
  }
  return chosen;
}

/* What tiles of a shape cost, in multiplications: those of the busiest multiprocessor, or, for
 * sums, whose bits must not depend on the batch, those of an item. */
static double tensor_cost(const machine *m, const gpured__gemm_plan *p, int kind, int kept,
                          int tile) {
  const double units =
      (double)gpured__ceil_div(p->columns, 2 * kept) * (double)gpured__ceil_div(p->rows, tile);
  const double rounds = ceil(units * (double)p->batches * 2 / m->processors);
  return (kind == TENSOR_LSE ? units : rounds) * kept * tile;
}

/* Where large tiles are few, do small ones, three to a multiprocessor, take less time? In cycles of
 * a step of the depth. Only for what has the same bits in tiles of any size. */
static int prefers_small_tiles(const machine *m, const gpured__gemm_plan *p, int kind) {
  const double large = (double)gpured__ceil_div(p->columns, 128) * (double)p->batches *
                       (double)gpured__ceil_div(p->rows, 256);
  const double small = (double)gpured__ceil_div(p->columns, 64) * (double)p->batches *
                       (double)gpured__ceil_div(p->rows, 64);
  const double cycles = 1024 * ceil(large / m->processors);
  if (!is_extremum(kind)) return 0;
  return 1.3 * fmax(300, 220 * ceil(small / m->processors)) < cycles;
}

/*
 * Where tiles are few and the depth is long, it is cut: into so many stretches, which take the time
 * of one or of reading both operands, and of two more launches; 1 where that does not pay. On an
 * H200, in nanoseconds of a step of the depth for a tile of either size, and bytes in one. A
 * multiprocessor reads 32 bytes in a cycle, so that a step takes the time of its lines.
 */
enum { CUT_LEAST = 8, CUT_STEP = 600, CUT_SMALL_STEP = 300, CUT_JOIN = 6000 };
enum { CUT_READ = 4000, CUT_SUMS = 3000 };
static const double CUT_SHARED = 0.75; /* of the time of small tiles that share a multiprocessor */

static int tensor_cuts(const machine *m, const gpured__gemm_plan *p, int kind) {
  const int small = p->rows <= 64, kept = small ? 64 : 128, tile = small ? 64 : 256;
  const double items = (double)p->batches;
  const double blocks =
      items * (double)gpured__ceil_div(p->columns, kept) * (double)gpured__ceil_div(p->rows, tile);
  const double others =
      items * (double)gpured__ceil_div(p->columns, 64) * (double)gpured__ceil_div(p->rows, 64);
  const int64_t steps = gpured__ceil_div(p->depth, TENSOR_STEP / 2);
  const double read =
      items * (double)(p->rows + p->columns) * (double)steps * TENSOR_STEP / CUT_READ;
  const double step = small ? CUT_SMALL_STEP : CUT_STEP;
  const double cuts = fmin(floor(m->processors / blocks), floor((double)steps / CUT_LEAST));
  double whole = (double)steps * step, cut;
  int64_t each;
  if (cuts < 2) return 1;
  if (is_extremum(kind)) /* which may have small tiles */
    whole =
        fmin(whole, (double)steps * CUT_SMALL_STEP * fmax(1, CUT_SHARED * others / m->processors));
  each = gpured__ceil_div(steps, (int64_t)cuts);
  cut = fmax((double)each * step, read) + CUT_JOIN + cuts * blocks * kept * tile * 8 / CUT_SUMS;
  return cut > 0.9 * whole ? 1 : (int)gpured__ceil_div(steps, each);
}

/* Stages of a ring of small tiles: more than the three blocks of a multiprocessor have room for,
 * where there is one to each. */
static void tensor_stages(const machine *m, tensor_launch *t) {
  if (t->tile != 64 || t->j.units > m->processors) return;
  t->shared *= 2;
  t->j.stages *= 2;
}

/* The second shape of large tiles is for what the first one covers badly. It takes the reduced
 * operand only along the depth, and its gain is that of many steps. */
static int tensor_tile(const machine *m, const gpured__gemm_plan *p, int kind) {
  const int64_t depth_stride = p->left.strides[p->left.ndim - 1];
  if (p->rows <= 64 || prefers_small_tiles(m, p, kind)) return 64;
  if (kind >= TENSOR_ANY || depth_stride != 1 || p->depth < 512) return 256;
  return tensor_cost(m, p, kind, 192, 160) < 0.97 * tensor_cost(m, p, kind, 128, 256) ? 160 : 256;
}

/* The shape of a block: wgmma's, or that of mma.sync. */
static void tensor_block(const machine *m, const gpured__gemm_plan *p, int wgmma,
                         tensor_launch *t) {
  tensor_job *j = &t->j;
  j->cuts = wgmma && !j->integers ? tensor_cuts(m, p, t->kind) : 1;
  if (j->cuts > 1) t->kind = TENSOR_SUMS;
  t->tile = !wgmma ? (int)HMMA_TILE : tensor_tile(m, p, t->kind);
  t->kept = t->tile == 64 ? 64 : t->tile == 160 ? 192 : 128;
  t->threads = !wgmma ? (int)HMMA_THREADS : 128 + 2 * t->kept;
  t->blocks = wgmma ? tensor_blocks(t->tile, t->kind) : hmma_blocks(t->kind);
  t->kernel = wgmma ? gpured__tensor_kernel(t->tile, t->kind) : gpured__hmma_kernel(t->kind);
  j->cluster = wgmma && t->tile >= 160 && p->columns > t->kept ? 2 : 1;
  j->stages = t->tile == 160 ? (int)tensor_shape<160>::STAGES : (int)tensor_shape<256>::STAGES;
  t->shared =
      !wgmma ? (size_t)HMMA_SHARED : 1024 + (size_t)j->stages * (size_t)(t->kept + t->tile) * 128;
}

/* Each stretch of the depth is an item of the first launch; segments are those of tensor_join. */
static void tensor_cut(const gpured__gemm_plan *p, tensor_launch *t) {
  tensor_job *j = &t->j;
  j->steps = (int)gpured__ceil_div(j->steps, j->cuts);
  j->kept_warps = j->panels * j->cluster * t->kept / JOIN_COLUMNS;
  j->parts = t->tile / JOIN_ROWS;
  j->whole_segments = j->tiles;
  j->segment_tiles = 1;
  j->last_tiles = 0;
  j->units = j->whole_units = (int)p->batches * j->cuts * j->tiles * j->panels;
  j->segments = (int)gpured__ceil_div(p->rows, JOIN_ROWS);
  j->slices = j->segments < 8 ? 1 : 8;
  j->slots = p->batches * j->segments;
}

/* Tiles, segments, panels. */
static int tensor_sizes(const machine *m, const gpured__gemm_plan *p, tensor_launch *t) {
  tensor_job *j = &t->j;
  const double most = (double)(1 << 30);
  j->rows = p->rows;
  j->columns = p->columns;
  j->depth = p->depth;
  j->batches = p->batches;
  if ((double)p->rows >= most || (double)p->columns >= most || (double)p->depth >= most ||
      (double)p->batches >= most)
    return 0;
  j->raster = TENSOR_RASTER;
  j->steps =
      (int)gpured__ceil_div(p->depth * (int64_t)gpured__dtype_size(p->left.dtype), TENSOR_STEP);
  j->turns = t->tile == 256 && j->steps <= 2;
  j->tiles = (int)gpured__ceil_div(p->rows, t->tile);
  j->panels = (int)gpured__ceil_div(p->columns, t->kept * j->cluster);
  j->segment_tiles = tensor_segment(m, p, t);
  j->segments = (int)gpured__ceil_div(j->tiles, j->segment_tiles);
  j->whole_segments = j->tiles / j->segment_tiles;
  j->last_tiles = j->tiles % j->segment_tiles;
  j->slices = j->segments < 8 ? 1 : 8;
  if ((double)j->panels * j->segments * (double)p->batches >= most) return 0;
  if (ceil((double)p->columns / 32) * (double)p->batches * p->g->count >= 2 * most) return 0;
  j->units = (int)(j->panels * j->segments * p->batches);
  j->slots = p->batches * j->segments;
  j->whole_units = (int)(j->panels * j->whole_segments * p->batches);
  if (j->cuts > 1) tensor_cut(p, t);
  return 1;
}

static void tensor_outputs(const gpured__gemm_plan *p, tensor_job *j) {
  for (int r = 0; r < j->count; ++r) {
    const gpured_tensor *out = &p->g->results[r].out;
    j->result[r].data = (char *)out->data;
    j->result[r].dtype = out->dtype;
    j->result[r].op = p->g->results[r].op;
    j->result[r].stride = p->result_stride[r];
  }
  if (!p->g->c) return;
  j->product = (char *)p->g->c->data;
  j->product_dtype = p->g->c->dtype;
  j->product_row = p->product_row;
  j->product_column = p->product_column;
}

/* The launch with one of the two instructions; 0: it cannot be. */
static int tensor_plan(const machine *m, const gpured__gemm_plan *p, int query, int wgmma,
                       tensor_launch *t) {
  tensor_job *j = &t->j;
  int negative;
  memset(t, 0, sizeof *t);
  j->count = p->g->count;
  j->batch_count = p->batch_count;
  memcpy(j->batch, p->batch, sizeof j->batch);
  negative = tensor_kind(p, j, &t->kind);
  tensor_block(m, p, wgmma, t);
  if (!tensor_sizes(m, p, t)) return 0;
  tensor_stages(m, t);
  if (wgmma && !tensor_operands(p, t, query)) return 0;
  if (!wgmma) hmma_operands(p, j);
  j->form = (p->left.dtype == GPURED_BF16 || p->left.dtype == GPURED_I8) | j->right.crosswise << 1 |
            j->left.crosswise << 2 | negative << 3;
  tensor_outputs(p, j);
  return tensor_lay_out(p, t);
}

/* The axes of the batch along which an operand has items of its own, the innermost first, for
 * copies of `size` elements each; the strides of the plan become those of the copies. Returns how
 * many items there are. */
static int64_t copy_items(gpured__gemm_plan *p, int which, int64_t size, int *axes, int64_t *n,
                          int64_t *strides) {
  int64_t items = 1;
  *axes = 0;
  for (int i = p->batch_count - 1; i >= 0; --i) {
    int64_t *stride = &p->batch[i].stride[which];
    if (p->batch[i].n == 1 || *stride == 0) continue;
    n[*axes] = p->batch[i].n;
    strides[(*axes)++] = *stride;
    *stride = items * size;
    items *= p->batch[i].n;
  }
  return items;
}

/* An operand of the plan as a copy whose rows begin at 16 bytes; its bytes. */
static double pack_operand(gpured__gemm_plan *p, int which, tensor_source *o) {
  gpured_tensor *x = which == GPURED__LEFT ? &p->left : &p->right;
  int64_t *s = x->strides + x->ndim - 2, *along = s + (which == GPURED__RIGHT);
  int64_t *depth = s + (which == GPURED__LEFT);
  const int64_t n = which == GPURED__LEFT ? p->rows : p->columns;
  const int across = n > 1 && (p->depth == 1 || llabs(*along) < llabs(*depth));
  memset(o, 0, sizeof *o);
  o->data = (const char *)x->data;
  o->rows = across ? p->depth : n;
  o->length = across ? n : p->depth;
  o->row_stride = across ? *depth : *along;
  o->stride = across ? *along : *depth;
  o->pitch = gpured__ceil_div(o->length, 8);
  o->beside_log2 = log2_up(o->pitch < 32 ? o->pitch : 32);
  *(across ? depth : along) = o->pitch * 8;
  *(across ? along : depth) = 1;
  x->data = NULL;
  o->all_rows =
      copy_items(p, which, o->rows * o->pitch * 8, &o->axes, o->n, o->item_stride) * o->rows;
  o->touching = o->stride == 1 && o->row_stride == o->length;
  while (o->axes > 0 && o->item_stride[0] == o->rows * o->row_stride) { /* items that do so, too */
    o->rows *= o->n[0];
    --o->axes;
    for (int i = 0; i < o->axes; ++i) {
      o->n[i] = o->n[i + 1];
      o->item_stride[i] = o->item_stride[i + 1];
    }
  }
  return 16 * (double)o->all_rows * (double)o->pitch;
}

/* The launch with wgmma on copies of the operands that need one, for their strides or because they
 * begin beside a border of 16 bytes. A query may not know where they do, so that a workspace of the
 * caller's need have no room for the latter. */
static int tensor_plan_packed(const machine *m, const gpured__gemm_plan *p,
                              const gpured__call *call, tensor_launch *t) {
  const int given = !call->query && call->device != GPURED_CPU && call->o.workspace;
  gpured__gemm_plan packed = *p;
  tensor_packing k;
  double bytes[2] = {0, 0}, total;
  int packs = 0, unforeseen = 0;
  memset(&k, 0, sizeof k);
  for (int i = 0; i < 2; ++i) {
    const gpured_tensor *x = i ? &p->right : &p->left;
    const int displaced = (uintptr_t)x->data % 16 != 0;
    if (!(i ? tensor_right(p, t, NULL) : tensor_left(p, t, NULL))) packs |= 1 << i;
    unforeseen |= displaced && !(packs >> i & 1);
    if (displaced) packs |= 1 << i;
    if (packs >> i & 1)
      bytes[i] = pack_operand(&packed, i ? GPURED__RIGHT : GPURED__LEFT, &k.operand[i]);
    k.blocks[i] = gpured__ceil_div(k.operand[i].all_rows, 256 >> k.operand[i].beside_log2);
    if (k.blocks[i] > (int64_t)m->processors * 16) k.blocks[i] = (int64_t)m->processors * 16;
  }
  if (!packs || !tensor_plan(m, &packed, 1, 1, t)) return 0;
  t->packs = packs;
  t->packed = packed;
  t->packing = k;
  total = (double)t->workspace;
  for (int i = 0; i < 2; ++i) t->pack_at[i] = tensor_room(&total, bytes[i] / 4);
  t->workspace = (size_t)total;
  if (given && unforeseen && total > (double)call->o.workspace_bytes) return 0;
  return total < (double)(SIZE_MAX / 4);
}

/* Does this call run on tensor cores? Then t says how. A query gets what is enough for all ways,
 * since addresses decide between them, which need not be those of the call. */
static int choose_tensor(const machine *m, const gpured__gemm_plan *p, const gpured__call *call,
                         tensor_launch *t) {
  size_t bytes = 0;
  if (p->left.dtype != GPURED_F16 && p->left.dtype != GPURED_BF16) return 0;
  if (p->acc != GPURED__F32 || call->o.precision == GPURED_PRECISION_STRICT) return 0;
  if (!p->needs_product || p->rows == 0 || p->columns == 0 || p->depth == 0 || p->batches == 0)
    return 0;
  if (m->major < 8) return 0;
  if (has_wgmma(m)) {
    const int plain = tensor_plan(m, p, call->query, 1, t);
    if (plain) bytes = t->workspace;
    if (plain && !call->query) return 1;
    if (tensor_plan_packed(m, p, call, t)) {
      if (!call->query) return 1;
      if (bytes < t->workspace) bytes = t->workspace;
    }
  }
  if (!tensor_plan(m, p, call->query, 0, t)) return 0;
  if (bytes > t->workspace) t->workspace = bytes;
  return 1;
}

/* The same for one result of products of bytes, whose operands lie along k. */
static int choose_tensor_bytes(const machine *m, const gpured__gemm_plan *p, int query,
                               tensor_launch *t) {
  const int fold = fold_of(p->g->results[0].op);
  const int most = p->left.dtype == GPURED_I8 ? (int)TENSOR_MOST_SIGNED : (int)TENSOR_MOST_UNSIGNED;
  if (p->g->count > 1 || p->g->c || p->row_bias || p->column_bias) return 0;
  if (p->g->form || p->g->map || p->ep.scaled || fold > FOLD_ARGMIN || p->depth > most) return 0;
  if (p->columns == 0 || p->batches == 0 || !has_wgmma(m)) return 0;
  return tensor_plan(m, p, query, 1, t);
}

/* A bias, or the norms of an operand [.., n, depth], to f32 in the workspace. */
static gpured_status run_vector(const machine *m, const gpured__gemm_plan *p,
                                const gpured_tensor *x, int which, int64_t n, int64_t pad,
                                float *out) {
  const int matrix = which == GPURED__LEFT || which == GPURED__RIGHT;
  const int64_t *s = x->strides + x->ndim - 1;
  void *arguments[1];
  tensor_vector v;
  int64_t lanes;
  memset(&v, 0, sizeof v);
  v.in = (const char *)x->data;
  v.out = out;
  v.n = n;
  v.pad = pad;
  v.batches = p->batches;
  v.which = which;
  v.dtype = x->dtype;
  v.squares = matrix;
  v.step = which == GPURED__LEFT ? s[-1] : s[0];
  v.depth = p->depth;
  v.depth_step = which == GPURED__LEFT ? s[0] : matrix ? s[-1] : 0;
  v.batch_count = p->batch_count;
  memcpy(v.batch, p->batch, sizeof v.batch);
  lanes = v.squares && v.depth_step == 1 ? 32 : 1;
  arguments[0] = &v;
  return launch(m, (const void *)tensor_prepare<256>,
                gpured__ceil_div(p->batches * pad * lanes, 256), 256, 0, arguments);
}

static gpured_status run_vectors(const machine *m, const gpured__gemm_plan *p, tensor_launch *t,
                                 char *memory) {
  const int norms = p->g->form == GPURED_FORM_L2;
  float *rows = (float *)(memory + t->row_bias), *columns = (float *)(memory + t->column_bias);
  gpured_status st = GPURED_OK;
  if (norms || p->row_bias) {
    t->j.row_bias = rows;
    st = run_vector(m, p, norms ? &p->left : p->row_bias, norms ? GPURED__LEFT : GPURED__ROW_BIAS,
                    p->rows, t->j.row_pad, rows);
  }
  if (st == GPURED_OK && (norms || p->column_bias)) {
    t->j.column_bias = columns;
    st = run_vector(m, p, norms ? &p->right : p->column_bias,
                    norms ? GPURED__RIGHT : GPURED__COLUMN_BIAS, p->columns, t->j.column_pad,
                    columns);
  }
  return st;
}

static gpured_status run_packing(const machine *m, tensor_launch *t, char *memory) {
  void *arguments[] = {&t->packing};
  for (int i = 0; i < 2; ++i) {
    if (!(t->packs >> i & 1)) continue;
    (i ? t->packed.right : t->packed.left).data = memory + t->pack_at[i];
    t->packing.operand[i].to = (uint4 *)(memory + t->pack_at[i]);
  }
  if (!tensor_operands(&t->packed, t, 0)) return GPURED_ERR_DEVICE;
  return launch(m, (const void *)tensor_pack<256>, t->packing.blocks[0] + t->packing.blocks[1], 256,
                0, arguments);
}

static gpured_status launch_tensor(const machine *m, tensor_launch *t) {
  tensor_job *j = &t->j;
  void *arguments[] = {j};
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute wanted[2];
  const int most = m->processors * t->blocks / j->cluster;
  const int waits = t->tile != HMMA_TILE; /* by itself, for the launch before */
  const gpured_status st = allow_shared(m, t->kernel);
  if (st != GPURED_OK) return st;
  memset(wanted, 0, sizeof wanted);
  wanted[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  wanted[0].val.programmaticStreamSerializationAllowed = 1;
  wanted[1].id = cudaLaunchAttributeClusterDimension;
  wanted[1].val.clusterDim.x = (unsigned)j->cluster;
  wanted[1].val.clusterDim.y = wanted[1].val.clusterDim.z = 1;
  config.gridDim = dim3((unsigned)((j->units < most ? j->units : most) * j->cluster));
  config.blockDim = dim3((unsigned)t->threads);
  config.dynamicSmemBytes = t->shared;
  config.stream = m->stream;
  config.attrs = wanted;
  config.numAttrs = waits ? 1 + (j->cluster > 1) : 0;
  return status_of(cudaLaunchKernelExC(&config, t->kernel, arguments));
}

/* A product whose depth is cut. */
static gpured_status run_cuts(const machine *m, tensor_launch *t, char *memory) {
  tensor_job *j = &t->j;
  void *arguments[] = {j};
  gpured_status st;
  j->sums = (float4 *)(memory + t->sums);
  st = launch_tensor(m, t);
  if (st != GPURED_OK) return st;
  return launch_as(m, LAUNCH_BESIDE, (const void *)tensor_join<JOIN_SHARES>,
                   gpured__ceil_div(j->columns, JOIN_COLUMNS) * j->segments * j->batches,
                   JOIN_ROWS * 4 * JOIN_SHARES, 0, arguments);
}

static gpured_status run_tensor(const machine *m, const gpured__gemm_plan *p, tensor_launch *t,
                                char *memory) {
  tensor_job *j = &t->j;
  void *arguments[] = {j};
  int64_t blocks;
  gpured_status st = run_vectors(m, p, t, memory);
  if (st == GPURED_OK && t->packs) st = run_packing(m, t, memory);
  if (st != GPURED_OK) return st;
  j->partial = (float2 *)memory;
  st = j->cuts > 1 ? run_cuts(m, t, memory) : launch_tensor(m, t);
  if (st != GPURED_OK || j->segments == 1) return st;
  blocks = gpured__ceil_div(j->columns, TENSOR_FINISH / j->slices) * j->batches * j->count;
  return launch_as(m, LAUNCH_BESIDE, (const void *)tensor_finish<TENSOR_FINISH>, blocks,
                   TENSOR_FINISH, 0, arguments);
}

/* ============================================================================================== */
/* 15  GEMM-reduce: what the host does                                                            */
/* ============================================================================================== */
/*
 * A call is a few launches: biases (or norms) to the accumulator's type, the short road where a
 * result takes it, the product with its partials, and the combination of those by section 10. The
 * same walk, without launching, adds up the workspace, so that a query cannot disagree with a call.
 */
/* Which operands are copied: also those that only begin in the wrong place, which a query need not
 * know; those whose strides say so; those without whose copies there is no way. */
enum { EVERY_COPY, FORESEEN_COPIES, NEEDED_COPIES };

struct gemm_run {
  const machine *m;
  const gpured__gemm_plan *p;
  const gpured__call *call;
  int measuring; /* nothing is launched */
  int copies;    /* one of the above */
  char *memory;
  size_t total, reducing; /* bytes in all, and behind them for reductions on their way */
  size_t reducing_at;
};

/* Bytes at the end of the workspace; their place, which means nothing while measuring. */
static char *reserve(gemm_run *r, double count, size_t size) {
  const size_t at = r->total;
  const double bytes = count * (double)size;
  if (at == SIZE_MAX || bytes > (double)(SIZE_MAX / 4)) {
    r->total = SIZE_MAX;
    return NULL;
  }
  r->total += ((size_t)bytes + 255) / 256 * 256;
  return r->measuring ? NULL : r->memory + at;
}

static size_t acc_size(const gpured__gemm_plan *p) { return p->acc == GPURED__F32 ? 4 : 8; }

/* What a query answers does not depend on where data will lie: it is enough for whichever
 * kernel. */
static size_t most_workspace(const machine *m, const gpured__plan *p) {
  gpured__plan anywhere = *p;
  reduction r;
  size_t bytes;
  anywhere.in = anywhere.out = NULL;
  choose(m, &anywhere, &r);
  bytes = r.workspace;
  anywhere.in = (const void *)gpured__dtype_size(p->in_dtype); /* at no border */
  choose(m, &anywhere, &r);
  if (bytes < r.workspace) bytes = r.workspace;
  if (p->n > 0) choose_any(m, &r);
  set_workspace(&r);
  return r.workspace > bytes ? r.workspace : bytes;
}

/* Reduces `axes` of a view by section 10. kernel: -1, or another one than the operation's own. */
static gpured_status reduce_view(gemm_run *run, int op, int kernel, const gpured_tensor *view,
                                 uint32_t axes, const gpured_tensor *out) {
  gpured__plan plan;
  reduction r;
  gpured_status st;
  if (run->total == SIZE_MAX) return GPURED_OK; /* refused in the end; sizes mean nothing */
  gpured__plan_operands(&plan, op, view, out);
  st = gpured__plan_loops(&plan, view, axes, out, NULL);
  if (st != GPURED_OK) return st;
  plan.acc = run->p->acc;
  plan.kernel = kernel >= 0 ? kernel : gpured__kernel_of(op, plan.acc != GPURED__U64);
  if (run->measuring) {
    const size_t bytes = most_workspace(run->m, &plan);
    if (bytes > run->reducing) run->reducing = bytes;
    return GPURED_OK;
  }
  choose(run->m, &plan, &r);
  if (r.workspace > run->reducing) return GPURED_ERR_WORKSPACE;
  return run_reduction(run->m, &plan, &r, run->memory + run->reducing_at);
}

/* A result of the call as [batch..., columns]. */
static gpured_tensor result_view(const gpured__gemm_plan *p, int r) {
  gpured_tensor t = gpured__gemm_vector(p, p->g->results[r].out.data, p->columns);
  int i;
  t.dtype = p->g->results[r].out.dtype;
  for (i = 0; i < p->batch_count; ++i) t.strides[i] = p->batch[i].stride[GPURED__GEMM_OPERANDS + r];
  t.strides[p->batch_count] = p->result_stride[r];
  return t;
}

/* ---- Biases ---- */

struct gemm_biases {
  char *rows, *columns; /* NULL where there is none */
};

static gpured_status make_biases(gemm_run *run, gemm_biases *b) {
  const gpured__gemm_plan *p = run->p;
  const int l2 = p->g->form == GPURED_FORM_L2;
  const uint32_t inner = 1u << (p->batch_count + 1), outer = 1u << p->batch_count;
  gpured_tensor view, out;
  gpured_status st = GPURED_OK;
  b->rows = b->columns = NULL;
  if (p->row_bias || l2) {
    b->rows = reserve(run, (double)p->batches * (double)p->rows, acc_size(p));
    out = gpured__gemm_vector(p, b->rows, p->rows);
    view = l2 ? gpured__gemm_view(p, &p->left, 2, GPURED__LEFT)
              : gpured__gemm_view(p, p->row_bias, 1, GPURED__ROW_BIAS);
    st = reduce_view(run, l2 ? GPURED_SUMSQ : GPURED_SUM, -1, &view, l2 ? inner : 0, &out);
  }
  if (st == GPURED_OK && (p->column_bias || l2)) {
    b->columns = reserve(run, (double)p->batches * (double)p->columns, acc_size(p));
    out = gpured__gemm_vector(p, b->columns, p->columns);
    view = l2 ? gpured__gemm_view(p, &p->right, 2, GPURED__RIGHT)
              : gpured__gemm_view(p, p->column_bias, 1, GPURED__COLUMN_BIAS);
    st = reduce_view(run, l2 ? GPURED_SUMSQ : GPURED_SUM, -1, &view, l2 ? outer : 0, &out);
  }
  return st;
}

/* ---- Operands ---- */

/* Do all items begin at borders of 16 bytes? */
static int has_items_on_borders(const gpured__gemm_plan *p, const gpured_tensor *t, int which) {
  const int64_t size = (int64_t)gpured__dtype_size(t->dtype);
  int i;
  if ((uintptr_t)t->data % 16) return 0;
  for (i = 0; i < p->batch_count; ++i)
    if (p->batch[i].stride[which] * size % 16) return 0;
  return 1;
}

/* across: the matrix axis of rows (left) or columns (right), the other one is k. */
static operand describe_operand(const gpured_tensor *t, int which) {
  const int across = which == GPURED__LEFT ? t->ndim - 2 : t->ndim - 1;
  operand o;
  memset(&o, 0, sizeof o);
  o.data = (const char *)t->data;
  o.dtype = t->dtype;
  o.across = t->strides[across];
  o.along = t->strides[2 * t->ndim - 3 - across];
  o.by_depth = o.along == 1;
  return o;
}

/* Do all strides but those of axis `unit` keep to borders of 16 bytes? */
static int on_borders(const gpured__gemm_plan *p, const gpured_tensor *t, int which, int unit) {
  const int64_t size = (int64_t)gpured__dtype_size(t->dtype);
  return t->strides[2 * t->ndim - 3 - unit] * size % 16 == 0 && has_items_on_borders(p, t, which);
}

/* Are neighbours along this axis neighbours in memory, in vectors of 16 bytes? */
static int has_vectors_on(const gpured__gemm_plan *p, const gpured_tensor *t, int which, int axis) {
  return t->strides[axis] == 1 && on_borders(p, t, which, axis) &&
         t->shape[axis] * (int64_t)gpured__dtype_size(t->dtype) % 16 == 0;
}

/* Rows (or columns); steps of k. */
static int has_vectors(const gpured__gemm_plan *p, const gpured_tensor *t, int which) {
  return has_vectors_on(p, t, which, which == GPURED__LEFT ? t->ndim - 2 : t->ndim - 1);
}
static int has_deep_vectors(const gpured__gemm_plan *p, const gpured_tensor *t, int which) {
  return has_vectors_on(p, t, which, which == GPURED__LEFT ? t->ndim - 1 : t->ndim - 2);
}

/* Both, as the tables of kernels are asked. */
static int lies_in_vectors(const gpured__gemm_plan *p, const gpured_tensor *t, int which) {
  return (has_vectors(p, t, which) ? LIES_ACROSS : 0) |
         (has_deep_vectors(p, t, which) ? LIES_ALONG : 0);
}

static int64_t most_blocks(int64_t blocks) { return blocks < INT32_MAX ? blocks : INT32_MAX; }

/* ---- The short road ---- */

/* What all last steps of result r have in common. */
static ending end_of(const gpured__gemm_plan *p, int r) {
  ending e;
  memset(&e, 0, sizeof e);
  e.items = p->batches;
  e.columns = p->columns;
  e.rows = p->rows;
  e.blocks = gpured__ceil_div(p->rows, GPURED__GEMM_BLOCK);
  e.mean = p->g->results[r].op == GPURED_MEAN;
  e.which = GPURED__GEMM_OPERANDS + r;
  e.dtype = p->g->results[r].out.dtype;
  e.out = (char *)p->g->results[r].out.data;
  e.out_stride = p->result_stride[r];
  e.batch_count = p->batch_count;
  memcpy(e.batch, p->batch, sizeof e.batch);
  return e;
}

struct dot_launch {
  dots d;
  const void *kernel;
  int64_t blocks;
  int threads, integers;
  int beside; /* how nodes of segments lie; BESIDE_LANES: a single one has nodes, too */
  size_t shared;
};

/* What joins segments, in bytes that a multiprocessor reads meanwhile. Strips of 64 bytes take
 * longer to read where there are enough of them. */
enum { ACROSS_JOIN = 7 << 15 };
static const double ACROSS_NARROW = 1.15;

/* As many blocks of threads, up to `places`, as have the same number of jobs each, or almost. */
static int64_t even_share(int64_t jobs, int64_t places) {
  return jobs > places ? gpured__ceil_div(jobs, gpured__ceil_div(jobs, places)) : jobs;
}

/* Columns that lie together: several blocks of each in a tile only where columns are few. */
static int choose_dot_along(const machine *m, const gpured__gemm_plan *p, dot_launch *l) {
  const int size = (int)gpured__dtype_size(p->right.dtype), v = 16 / size, tile = 32 / size;
  const int64_t blocks = gpured__ceil_div(p->depth, GPURED__BLOCK);
  const int64_t columns = p->batches * p->columns, warps = ALONG_THREADS / 32;
  size_t weights, tile_bytes = ALONG_TILE, most;
  dots *d = &l->d;
  if (d->matrix.along != 1 || p->depth % v || 2 * warps * ALONG_TILE > m->shared) return 0;
  if (!on_borders(p, &p->right, GPURED__RIGHT, p->right.ndim - 2)) return 0;
  while (tile >> d->groups_log2 > 1 && (int64_t)1 << d->groups_log2 < blocks &&
         gpured__ceil_div(columns, tile >> d->groups_log2) < m->processors * ALONG_ENOUGH)
    ++d->groups_log2;
  d->blocks_log2 = log2_up(gpured__ceil_div(blocks, (int64_t)1 << d->groups_log2));
  if (d->blocks_log2 > TREE_LEVELS) d->blocks_log2 = TREE_LEVELS;
  weights = GPURED__BLOCK * acc_size(p) << d->groups_log2;
  d->shared_weights = p->columns % (tile >> d->groups_log2) == 0 &&
                      2 * (size_t)warps * (ALONG_TILE + weights) <= (size_t)m->shared;
  if (d->shared_weights) tile_bytes += weights;
  l->shared = (size_t)warps * tile_bytes;
  d->ring = 6 * l->shared < (size_t)m->shared ? 3 : 2; /* of two blocks of threads */
  l->shared *= (size_t)d->ring;
  most = (size_t)m->shared / l->shared;
  if (most > ALONG_RESIDENT) most = ALONG_RESIDENT;
  l->kernel = gpured__dot_kernel(p->acc, p->right.dtype, DOT_ALONG);
  l->threads = ALONG_THREADS;
  l->blocks = gpured__ceil_div(gpured__ceil_div(columns, tile >> d->groups_log2), warps);
  l->blocks = even_share(l->blocks, m->processors * (int64_t)most);
  return 1;
}

/* The strips and segments of dot_across that take the least time, by the bytes that a
 * multiprocessor reads, and what it costs to join segments. Shapes alone decide. 0: there are too
 * many. */
static int choose_strips(const machine *m, int acc, int size, dots *d) {
  const int v_log2 = log2_up(16 / size);
  const double node = acc == GPURED__F32 ? 64 : 128, all = (double)d->items * (double)d->columns;
  double least = 0;
  int across_log2, blocks_log2;
  d->units = 0;
  for (across_log2 = 2; across_log2 <= ACROSS_LOG2; ++across_log2)
    for (blocks_log2 = 0; blocks_log2 <= TREE_LEVELS; ++blocks_log2) {
      const int rows_log2 = 8 + blocks_log2 + ACROSS_LOG2 - across_log2;
      const int64_t rows = (int64_t)1 << rows_log2, strip = (int64_t)1 << (across_log2 + v_log2);
      const int64_t segments = (d->depth + rows - 1) >> rows_log2;
      const int64_t tiles = (d->columns + strip - 1) >> (across_log2 + v_log2);
      const double units = (double)d->items * (double)tiles * (double)segments;
      double cost = (double)(d->depth < rows ? d->depth : rows) * (16 << across_log2);
      if (units > INT32_MAX / 2 || segments > FINISH_MOST) continue;
      if (across_log2 == 2 && units > m->processors) cost *= ACROSS_NARROW;
      if (units > m->processors)
        cost *= ACROSS_RESIDENT * gpured__ceil_div((int64_t)units, m->processors * ACROSS_RESIDENT);
      if (segments > 1) cost += ACROSS_JOIN + 2 * node * (double)segments * all / m->processors;
      if (d->units > 0 && cost >= least) continue;
      least = cost;
      d->across_log2 = across_log2;
      d->blocks_log2 = blocks_log2;
      d->tiles = (int)tiles;
      d->segments = (int)segments;
      d->units = (int)units;
      if (segments == 1) break;
    }
  return d->units > 0;
}

/* Columns side by side. */
static int use_dot_across(const machine *m, int acc, int dtype, dot_launch *l) {
  const size_t threads = ACROSS_THREADS, size = gpured__dtype_size(dtype);
  l->kernel = gpured__dot_kernel(acc, dtype, DOT_ACROSS);
  l->beside = BESIDE_NODES;
  l->threads = ACROSS_THREADS;
  l->shared = across_ring_bytes(m->major) + threads * (16 / size) * (acc == GPURED__F32 ? 4 : 8);
  if (!l->kernel || l->shared > (size_t)m->shared) return 0;
  if (!choose_strips(m, acc, (int)size, &l->d)) return 0;
  l->blocks = even_share(l->d.units, m->processors * ACROSS_RESIDENT);
  return 1;
}

/* Columns of at most one block, if they are many. */
static int choose_dot_short(const machine *m, const gpured__gemm_plan *p, dot_launch *l) {
  const int64_t threads = p->batches * (p->columns / (p->acc == GPURED__F32 ? 4 : 2));
  if (p->depth > GPURED__BLOCK || threads < (int64_t)m->processors * DOT_THREADS) return 0;
  l->kernel = gpured__dot_kernel(p->acc, p->right.dtype, DOT_SHORT);
  l->threads = DOT_THREADS;
  l->shared = SHORT_SHARED;
  l->blocks = gpured__ceil_div(threads, DOT_THREADS);
  return 1;
}

/* What a segment of 2^blocks_log2 blocks makes of rows that touch: the long rows that each
 * multiprocessor reads in turn. Those that the beginning of a block of threads and its nodes are
 * worth count too, and a multiprocessor that has one block alone takes longer for it. */
static int64_t touching_cost(const machine *m, int acc, int blocks_log2, const dots *d) {
  const int64_t size = (int64_t)gpured__dtype_size(d->matrix.dtype);
  const int64_t rows = (int64_t)GPURED__LANES << blocks_log2, all = d->depth / GPURED__LANES + 1;
  const int64_t segments = gpured__ceil_div(d->depth, rows * GPURED__LANES);
  const int64_t blocks = gpured__ceil_div(d->items * d->columns * size * segments, DOT_THREADS);
  const int64_t turns = gpured__ceil_div(blocks, m->processors);
  const int64_t each = (rows < all ? rows : all) + 8 + (acc == GPURED__F32 ? 8 : 16) / size;
  return turns == 1 ? each * 4 / 3 : each * turns;
}

/* Rows from which on two launches are worth it: more where columns alone fill the machine. */
static int64_t least_touching(const machine *m, const gpured__gemm_plan *p) {
  return p->batches * p->columns > (int64_t)m->processors * 64 ? 2400 : 600;
}

/* Rows without gaps, of any length: 16 of them have as many vectors, each a thread's, as one has
 * bytes. A few long columns are faster in segments of any strides. */
static int use_dot_touching(const machine *m, const gpured__gemm_plan *p, dot_launch *l) {
  const gpured_tensor *t = &p->right;
  const int64_t bytes = p->columns * (int64_t)gpured__dtype_size(t->dtype);
  int64_t least = 0, cost;
  dots *d = &l->d;
  int log2;
  if (d->matrix.across != 1 || d->matrix.along != p->columns || bytes < 16) return 0;
  if (p->depth < least_touching(m, p) || p->depth > 16 * p->columns) return 0;
  if (!has_items_on_borders(p, t, GPURED__RIGHT)) return 0;
  d->segments = 0;
  for (log2 = 0; log2 <= TREE_LEVELS; ++log2) {
    const int64_t segments = gpured__ceil_div(p->depth, (int64_t)GPURED__BLOCK << log2);
    cost = touching_cost(m, p->acc, log2, d);
    if (segments > FINISH_MOST || (d->segments > 0 && cost >= least)) continue;
    least = cost;
    d->segments = (int)segments;
    d->blocks_log2 = log2;
  }
  l->kernel = gpured__dot_kernel(p->acc, t->dtype, DOT_TOUCHING);
  l->beside = BESIDE_LANES;
  l->threads = DOT_THREADS;
  l->shared = touching_ring::SHARED;
  l->blocks = gpured__ceil_div(p->batches * bytes * d->segments, DOT_THREADS);
  return d->segments > 0 && l->blocks <= INT32_MAX && l->shared <= (size_t)m->shared;
}

/* Any strides: what sums of f32 and f64 are made of has an instance of its own. Where columns are
 * few and long they are cut into segments. */
static void use_dot_any(const machine *m, const gpured__gemm_plan *p, dot_launch *l) {
  const int64_t each = gpured__ceil_div(p->batches * p->columns, DOT_THREADS / GPURED__LANES);
  dots *d = &l->d;
  d->beside = llabs(d->matrix.across) < llabs(d->matrix.along);
  d->segments = 1;
  d->blocks_log2 = log2_up(gpured__ceil_div(p->depth, GPURED__BLOCK));
  while (p->depth >= DOT_LONG && d->blocks_log2 > 1 && d->segments < FINISH_MOST / 2 &&
         each * d->segments < (int64_t)m->processors * DOT_RESIDENT)
    d->segments = (int)gpured__ceil_div(p->depth, (int64_t)GPURED__BLOCK << --d->blocks_log2);
  l->kernel = gpured__dot_kernel(p->acc, p->right.dtype, d->segments > 1 ? DOT_SEGMENTS : DOT_ANY);
  if (!l->kernel)
    l->kernel = d->segments > 1 ? (const void *)dot_segments<GPURED__F64, EVERY_DTYPE>
                                : (const void *)dot_any<GPURED__F64, EVERY_DTYPE>;
  l->beside = BESIDE_NODES;
  l->threads = DOT_THREADS;
  l->shared = 0;
  l->blocks = gpured__ceil_div(p->batches * p->columns * d->segments, DOT_THREADS / GPURED__LANES);
}

/* Two blocks of threads for each multiprocessor, in segments of at least two rounds of loads. */
static void use_integers(const machine *m, int along, int v, dot_launch *l) {
  const int64_t wanted = 2 * (int64_t)m->processors;
  dots *d = &l->d;
  const int64_t across = gpured__ceil_div(d->columns, along ? INTEGER_COLUMNS : v);
  const int64_t lines = along ? gpured__ceil_div(d->depth, v) : across; /* of threads */
  int64_t rounds;
  d->across_log2 = log2_up(lines < 32 ? lines : 32);
  rounds =
      along ? gpured__ceil_div(d->depth, (int64_t)v << d->across_log2)
            : gpured__ceil_div(d->depth, INTEGER_ROWS * (int64_t)INTEGER_THREADS >> d->across_log2);
  l->blocks = along ? gpured__ceil_div(d->items * across, INTEGER_THREADS >> d->across_log2)
                    : d->items * gpured__ceil_div(across, (int64_t)1 << d->across_log2);
  d->segments = 1;
  while (d->segments < INTEGER_SEGMENTS && 2 * d->segments <= rounds &&
         l->blocks * d->segments < wanted)
    d->segments *= 2;
  if (along)
    l->blocks =
        gpured__ceil_div(d->items * across * d->segments, INTEGER_THREADS >> d->across_log2);
  else
    l->blocks *= d->segments;
  l->kernel = gpured__integer_dot_kernel(d->matrix.dtype, along, v);
  l->threads = INTEGER_THREADS;
  l->integers = 1;
}

/* Where columns side by side are so few and short that most threads of a block would have no row of
 * them, single elements do better. The workspace has room for the segments of any layout. */
static void choose_integers(const machine *m, const gpured__gemm_plan *p, int any_layout,
                            dot_launch *l) {
  const int v = 16 / (int)gpured__dtype_size(p->right.dtype);
  const int deep = has_deep_vectors(p, &p->right, GPURED__RIGHT);
  const int wide = log2_up(gpured__ceil_div(p->columns, v));
  const int few = wide < 5 && p->depth <= INTEGER_THREADS >> wide;
  const int across = !deep && !few && has_vectors(p, &p->right, GPURED__RIGHT);
  const int beside = llabs(l->d.matrix.across) < llabs(l->d.matrix.along);
  const int along = deep || (!across && (!beside || few));
  int most = 1, i;
  for (i = 0; i < 4 && any_layout; ++i) {
    use_integers(m, i / 2, i % 2 ? v : 1, l);
    if (l->d.segments > most) most = l->d.segments;
  }
  use_integers(m, along, deep || across ? v : 1, l);
  if (any_layout) l->d.segments = most;
}

static int has_nodes(const dot_launch *l) { return l->d.segments > 1 || l->beside == BESIDE_LANES; }

/* Nodes of segments. */
static double dot_nodes(const dot_launch *l) {
  const dots *d = &l->d;
  const double each = l->integers ? 1 : GPURED__LANES;
  return has_nodes(l) ? (double)d->segments * (double)d->items * (double)d->columns * each : 0;
}

/* The way that needs most memory, of those that a matrix of these strides may take. */
static void choose_most_nodes(const machine *m, const gpured__gemm_plan *p, dot_launch *l) {
  dot_launch other = *l;
  use_dot_any(m, p, l);
  if (p->depth == 0 || !gpured__dot_kernel(p->acc, p->right.dtype, DOT_ACROSS)) return;
  if (use_dot_touching(m, p, &other) && dot_nodes(&other) > dot_nodes(l)) *l = other;
  if (use_dot_across(m, p->acc, p->right.dtype, &other) && dot_nodes(&other) > dot_nodes(l))
    *l = other;
}

/* `any_layout`: for the workspace, which does not depend on where data lie. */
static void choose_dot(const machine *m, const gpured__gemm_plan *p, int any_layout,
                       dot_launch *l) {
  memset(l, 0, sizeof *l);
  l->d.items = p->batches;
  l->d.columns = p->columns;
  l->d.depth = p->depth;
  l->d.segments = 1;
  l->d.matrix = describe_operand(&p->right, GPURED__RIGHT);
  l->d.which = GPURED__RIGHT;
  l->d.batch_count = p->batch_count;
  memcpy(l->d.batch, p->batch, sizeof l->d.batch);
  if (p->acc == GPURED__U64) {
    choose_integers(m, p, any_layout, l);
    return;
  }
  if (any_layout) {
    choose_most_nodes(m, p, l);
    return;
  }
  if (p->depth > 0 && gpured__dot_kernel(p->acc, p->right.dtype, DOT_ACROSS)) {
    const int vectors = has_vectors(p, &p->right, GPURED__RIGHT);
    if (choose_dot_along(m, p, l)) return;
    if (vectors && choose_dot_short(m, p, l)) return;
    if (vectors && use_dot_across(m, p->acc, p->right.dtype, l)) return;
    if (use_dot_touching(m, p, l)) return;
  }
  use_dot_any(m, p, l);
}

/* The sums of the left operand's columns, as products with ones. */
static int choose_left_sums(const machine *m, const gpured__gemm_plan *p, dot_launch *l) {
  memset(l, 0, sizeof *l);
  l->d.items = p->batches;
  l->d.columns = p->depth;
  l->d.depth = p->rows;
  l->d.matrix = describe_operand(&p->left, GPURED__RIGHT);
  l->d.which = GPURED__LEFT;
  l->d.batch_count = p->batch_count;
  memcpy(l->d.batch, p->batch, sizeof l->d.batch);
  return p->rows > COLS_SHORT && use_dot_across(m, p->acc, p->left.dtype, l);
}

/* Joins the nodes of segments, to the products or, if `e` says how, to a result of the call. */
static gpured_status join_dot(gemm_run *run, const dot_launch *l, const ending *e) {
  const int64_t outputs = l->d.items * l->d.columns;
  reduction r;
  job *j = &r.j;
  memset(&r, 0, sizeof r);
  r.acc = run->p->acc;
  r.kind = K_ADD;
  r.lanes = GPURED__LANES;
  j->op = e && e->mean ? GPURED_MEAN : GPURED_SUM;
  j->n = e ? e->rows : 0;
  j->out_dtype = e ? e->dtype : r.acc == GPURED__F32 ? GPURED_F32 : GPURED_F64;
  j->out = e ? e->out : l->d.out;
  j->outputs = outputs;
  j->kept_count = e ? e->batch_count + 1 : 1;
  for (int i = 0; e && i < e->batch_count; ++i) {
    j->kept[i].n = e->batch[i].n;
    j->kept[i].stride[GPURED__OUT] = e->batch[i].stride[e->which];
  }
  j->kept[j->kept_count - 1].n = e ? e->columns : outputs;
  j->kept[j->kept_count - 1].stride[GPURED__OUT] = e ? e->out_stride : 1;
  j->segments = l->d.segments;
  j->partial = l->d.partial;
  j->beside = l->beside;
  return run_finish(run->m, &r);
}

/* Launches what was chosen, and what joins its segments. e: the last step, if it is all of it. */
static gpured_status run_dot(gemm_run *run, int how, dot_launch *l, char *partial,
                             const ending *e) {
  void *arguments[] = {&l->d};
  gpured_status st;
  l->d.partial = partial;
  st = launch_as(run->m, how, l->kernel, most_blocks(l->blocks), l->threads, l->shared, arguments);
  return st != GPURED_OK || !has_nodes(l) || l->integers ? st : join_dot(run, l, e);
}

static gpured_status run_end(gemm_run *run, const void *kernel, ending *e) {
  void *arguments[] = {e};
  const int64_t blocks = gpured__ceil_div(e->items * e->columns, ENDING_THREADS);
  return launch_as(run->m, LAUNCH_BESIDE, kernel, most_blocks(blocks), ENDING_THREADS, 0,
                   arguments);
}

static gpured_status end_sums_of(gemm_run *run, ending *e) {
  const int acc = run->p->acc;
  return run_end(run,
                 acc == GPURED__F32   ? (const void *)end_sums<float>
                 : acc == GPURED__F64 ? (const void *)end_sums<double>
                                      : (const void *)end_sums<uint64_t>,
                 e);
}

/* The dot products and all results made of them. One result of few columns is stored by the same
 * kernel: a launch less, where more columns had rather be stored side by side. */
enum { SHORT_ROAD_ALONE = 1 << 16 };

static gpured_status end_short_road(gemm_run *run, const char *sums, char *products,
                                    const char *row_sums, const char *column_bias) {
  const gpured__gemm_plan *p = run->p;
  ending ends[GPURED_MAX_RESULTS];
  dot_launch l;
  char *partial;
  gpured_status st;
  int r, count = 0;
  choose_dot(run->m, p, run->measuring, &l);
  partial = reserve(run, dot_nodes(&l), acc_size(p));
  if (run->measuring) return GPURED_OK;
  if (l.integers && l.d.segments > 1) products = partial;
  for (r = 0; r < p->g->count; ++r) {
    ending *e = &ends[count];
    if (!gpured__is_short(p->g, p->g->results[r].op)) continue;
    *e = end_of(p, r);
    e->values = products;
    e->segments = l.integers ? l.d.segments : 1;
    e->scaled = p->ep.scaled;
    e->alpha = p->ep.alpha;
    e->narrow_alpha = (float)p->ep.alpha;
    e->row_sums = row_sums;
    e->column_bias = column_bias;
    ++count;
  }
  l.d.weights = sums;
  if (count == 1 && !has_nodes(&l) && p->batches * p->columns <= SHORT_ROAD_ALONE) {
    l.d.end = ends[0];
    return run_dot(run, LAUNCH_BESIDE, &l, partial, NULL);
  }
  l.d.out = products;
  if (count == 1 && has_nodes(&l) && !l.integers && !p->ep.scaled && !row_sums && !column_bias)
    return run_dot(run, LAUNCH_BESIDE, &l, partial, &ends[0]);
  st = run_dot(run, LAUNCH_BESIDE, &l, partial, NULL);
  for (r = 0; r < count && st == GPURED_OK; ++r) st = end_sums_of(run, &ends[r]);
  return st;
}

/* The column sums of the left operand. */
static gpured_status sum_left(gemm_run *run, char *sums) {
  const gpured__gemm_plan *p = run->p;
  gpured_tensor view, out;
  dot_launch l;
  char *partial;
  if (p->depth == 0) return GPURED_OK;
  if (choose_left_sums(run->m, p, &l)) {
    partial = reserve(run, dot_nodes(&l), acc_size(p));
    l.d.out = sums;
    if (!run->measuring && has_deep_vectors(p, &p->left, GPURED__LEFT))
      return run_dot(run, LAUNCH_AFTER, &l, partial, NULL);
  }
  view = gpured__gemm_view(p, &p->left, 2, GPURED__LEFT);
  out = gpured__gemm_vector(p, sums, p->depth);
  return reduce_view(run, GPURED_SUM, -1, &view, 1u << p->batch_count, &out);
}

static gpured_status take_short_road(gemm_run *run, const gemm_biases *b) {
  const gpured__gemm_plan *p = run->p;
  const double items = (double)p->batches;
  char *sums = reserve(run, items * (double)p->depth, acc_size(p));
  char *products = reserve(run, items * (double)p->columns, acc_size(p)), *row_sums = NULL;
  const int has_rows = p->row_bias || p->g->form, has_columns = p->column_bias || p->g->form;
  gpured_status st = sum_left(run, sums);
  if (st == GPURED_OK && has_rows) {
    gpured_tensor view = gpured__gemm_vector(p, b->rows, p->rows), out;
    row_sums = reserve(run, items, acc_size(p));
    out = gpured__gemm_vector(p, row_sums, 1);
    st = reduce_view(run, GPURED_SUM, -1, &view, 1u << p->batch_count, &out);
  }
  if (st != GPURED_OK) return st;
  return end_short_road(run, sums, products, row_sums, has_columns ? b->columns : NULL);
}

/* ---- The product ---- */

/* Tiles to choose from, and what they cost on an H200: nanoseconds of a step of k, for each of
 * `resident` tiles that fill a multiprocessor, and for one alone; of a tile's beginning and end;
 * and of its way through shared memory where rows are missing, if it has to go there. */
struct tile_cost {
  int rows, width, resident;
  double step, alone, ends, strips;
  int loose; /* its values go to memory */
};
static const tile_cost F32_TILES[] = {
    {128, 256, 1, 176, 176, 2500, 16000, 0}, {128, 128, 2, 99, 117, 2500, 16000, 0},
    {128, 64, 3, 50, 58, 2500, 0, 0},        {64, 64, 6, 26, 58, 2500, 0, 0},
    {128, 16, 5, 23, 33, 2500, 0, 0},        {64, 16, 16, 10.8, 50, 2500, 0, 0},
    {16, 64, 16, 10.2, 60, 2200, 0, 0},      {128, 8, 4, 20, 22, 2200, 0, 0},
    {16, 16, 7, 5.6, 12.6, 2200, 0, 0},      {16, 32, 3, 7.2, 7.6, 2500, 0, 1},
    {32, 32, 3, 9.6, 10.2, 2500, 0, 1},      {64, 32, 4, 16, 17.5, 2500, 0, 1}};
static const tile_cost F64_TILES[] = {{128, 128, 1, 77, 77, 6000, 16000, 0},
                                      {64, 64, 4, 24, 38, 6000, 0, 0},
                                      {128, 32, 3, 27, 38, 6000, 0, 0},
                                      {16, 32, 2, 6, 7.4, 3000, 0, 1},
                                      {16, 16, 5, 7.5, 18, 2500, 0, 0}};

/* Tiles of one kind for all of a product, or its first `tiles`, and another kind for the rest. */
struct tile_plan {
  int tile, rest; /* rest < 0: there is none */
  int64_t tiles;
  double time;
  int pieces; /* whether gemm_pieces makes the first kind */
  int loose;  /* whether its values go to memory */
};
static const double WORTH_SHARING = 40000; /* nanoseconds */
static const double NEXT_LAUNCH = 20000;   /* and an end of the first one that is not sudden */
static const double HANDING_OVER = 30000;  /* more tiles are begun, one after the other */
static const double LOOSE_END = 4000;      /* the launch of gemm_columns */
static const double LOOSE_SPEED = 3000;    /* bytes of values in a nanosecond */
static const double LOOSE_ELEMENTS = 1.6;  /* of the time, where no vectors are read */
static const double LOOSE_MOST = 1 << 28;  /* bytes of values */
static const int64_t WIDE_DEPTH = (int64_t)8 * INT32_MAX; /* for slices counted in 32 bits */

/* The time of so many tiles on each multiprocessor, in waves of those that it has at one time. */
static double time_of_layers(const gpured__gemm_plan *p, const tile_cost *c, double layers) {
  const double waves = floor(layers / c->resident), rest = layers - waves * c->resident;
  double ends = c->ends, time;
  if (p->rows % GPURED__GEMM_BLOCK)
    ends += c->strips / (double)gpured__ceil_div(p->rows, GPURED__GEMM_BLOCK);
  time = waves * ((double)p->depth * fmax(c->alone, c->resident * c->step) + ends);
  if (rest > 0) time += (double)p->depth * fmax(c->alone, rest * c->step) + ends;
  return time;
}

/* Of what a first launch leaves that takes `taken` of the tiles c, as tiles r in a second one. */
static double time_of_rest(const machine *m, const gpured__gemm_plan *p, const tile_cost *c,
                           const tile_cost *r, int64_t taken) {
  const int64_t items = p->batches * gpured__ceil_div(p->rows, GPURED__GEMM_BLOCK);
  const int64_t even = p->columns / c->width * items, columns = p->columns % c->width;
  const int64_t left =
      (even - taken) * (c->width / r->width) + items * gpured__ceil_div(columns, r->width);
  if (left == 0) return 0;
  return NEXT_LAUNCH + time_of_layers(p, r, (double)gpured__ceil_div(left, m->processors));
}

static double loose_bytes(const gpured__gemm_plan *p) {
  const double rows = (double)gpured__ceil_div(p->rows, 16) * 16;
  return (double)p->batches * (double)p->columns * rows * (double)acc_size(p);
}

/* Of a product whose values go to memory. */
static double time_of_loose(const machine *m, const gpured__gemm_plan *p, const tile_cost *c,
                            int64_t all) {
  const int vectors =
      lies_in_vectors(p, &p->left, GPURED__LEFT) && lies_in_vectors(p, &p->right, GPURED__RIGHT);
  const double time = time_of_layers(p, c, (double)gpured__ceil_div(all, m->processors));
  return time * (vectors ? 1 : LOOSE_ELEMENTS) + LOOSE_END + 2 * loose_bytes(p) / LOOSE_SPEED;
}

/* Of the tiles that are as high as an item, those that take the least time. narrow: which of them,
 * up to a 0, may take what is left when all multiprocessors have had equally many whole ones, or
 * the columns that fill no whole one. room: whether there is memory for values; pieces: whether
 * gemm_pieces may cut the largest ones. */
static tile_plan cheapest_tiles(const machine *m, const gpured__gemm_plan *p, int room, int pieces,
                                const tile_cost *tiles, int count, const int *narrow) {
  const int64_t items = p->batches * gpured__ceil_div(p->rows, GPURED__GEMM_BLOCK);
  const int loose = room && loose_bytes(p) < LOOSE_MOST && p->depth <= WIDE_DEPTH;
  tile_plan best = {0, -1, 0, 0, 0, 0};
  int i, cuts;
  for (i = 0; i < count; ++i) {
    const tile_cost *c = tiles + i;
    const int64_t even = p->columns / c->width * items;
    const int64_t all = gpured__ceil_div(p->columns, c->width) * items;
    const int64_t taken = even / m->processors * m->processors;
    const double time = time_of_layers(p, c, (double)gpured__ceil_div(all, m->processors));
    const double whole = time_of_layers(p, c, 1) / m->processors;
    const int *rest;
    if (c->loose) {
      const int64_t tall = gpured__ceil_div(p->rows, c->rows);
      const int64_t parts = p->batches * tall * gpured__ceil_div(p->columns, c->width);
      const double through = time_of_loose(m, p, c, parts);
      if (loose && through < 0.95 * best.time) best = {i, -1, parts, through, 0, 1};
      continue;
    }
    if (c->rows < GPURED__GEMM_BLOCK && p->rows > c->rows) continue;
    if (i == 0 && p->depth > WIDE_DEPTH) continue;
    if (best.tiles == 0 || time < best.time) best = {i, -1, all, time, 0, 0};
    if (time < WORTH_SHARING) continue;
    cuts = pieces && i == 0;
    if (cuts && all > m->processors && (double)all * whole + HANDING_OVER < best.time)
      best = {i, -1, all, (double)all * whole + HANDING_OVER, 1, 0};
    for (rest = narrow; *rest; ++rest) {
      const tile_cost *r = tiles + *rest;
      const double both =
          time_of_layers(p, c, (double)(taken / m->processors)) + time_of_rest(m, p, c, r, taken);
      const double cut = (double)even * whole + HANDING_OVER + time_of_rest(m, p, c, r, even);
      if (r->width >= c->width) continue;
      if (taken > 0 && taken < all && both < 0.995 * best.time)
        best = {i, *rest, taken, both, 0, 0};
      if (cuts && even > m->processors && even < all && cut < 0.995 * best.time)
        best = {i, *rest, even, cut, 1, 0};
    }
  }
  return best;
}

/* The first launch's part of the tiles that it is set up for; whether there is a second launch,
 * which begins as its copy. Tiles that lack columns are the second one's, for their cost is a
 * whole tile's. */
static bool share_tiles(const gpured__gemm_plan *p, const tile_plan *plan, product_launch *l) {
  product *g = &l->g;
  const bool shared = plan->rest >= 0;
  g->column_tiles = shared ? p->columns / l->width : gpured__ceil_div(p->columns, l->width);
  g->tiles = shared ? plan->tiles : p->batches * g->blocks * g->column_tiles;
  if (shared) l[1] = l[0];
  return shared;
}

/* What the first launch leaves. */
static void set_rest(product_launch *rest, const product_launch *l, const gpured__gemm_plan *p) {
  product *g = &rest->g;
  const int64_t blocks = p->batches * g->blocks, columns = p->columns % l->width;
  g->first = l->g.tiles;
  g->even = g->column_tiles * blocks;
  g->parts = l->width / rest->width;
  g->last_parts = (int)gpured__ceil_div(columns, rest->width);
  g->tiles = (g->even - g->first) * g->parts + blocks * g->last_parts;
}

/* bytes: both operands are bytes along k, which tensor cores take. */
static tile_plan plan_tiles(const machine *m, const gpured__gemm_plan *p, int bytes, int room,
                            int pieces) {
  static const int f32_narrow[] = {TILE_QUARTER, TILE_NARROW, 0}, f64_narrow[] = {UNITS_NARROW, 0};
  const int f32_count = (int)(sizeof F32_TILES / sizeof *F32_TILES);
  /* Few rows of doubles are no work for the units, which wait for each other. */
  const int f64_count = p->left.dtype == GPURED_F64 ? UNITS_NONE + 1 : UNITS_NONE;
  const tile_plan all = {0, -1, 0, 0, 0, 0};
  if (p->acc == GPURED__F32 && !bytes)
    return cheapest_tiles(m, p, room, pieces, F32_TILES, f32_count, f32_narrow);
  if (p->acc == GPURED__F64 && (p->left.dtype == GPURED_F64 || p->left.dtype == GPURED_F32))
    return cheapest_tiles(m, p, room, pieces, F64_TILES, f64_count, f64_narrow);
  return all;
}

static void use_tile_of(const machine *m, const gpured__gemm_plan *p, int bytes, int tile,
                        int which, product_launch *l) {
  if (!bytes && p->acc == GPURED__F32)
    gpured__use_f32_tile(m, tile, which, l);
  else if (!bytes && p->acc == GPURED__F64 && p->left.dtype == GPURED_F64)
    gpured__use_f64_tile(m, tile, which, l);
  else if (!bytes && p->acc == GPURED__F64 && p->left.dtype == GPURED_F32)
    gpured__use_f32_in_f64_tile(m, tile, which, l);
  else
    gpured__use_any_tile(m, !bytes ? 0 : p->left.dtype == GPURED_I8 ? 1 : 2, l);
}

/* The launches of a product that is described but for its tiles, and their number. */
static int choose_launches(const machine *m, const gpured__gemm_plan *p, int bytes,
                           const tile_plan *plan, product_launch *l) {
  use_tile_of(m, p, bytes, plan->tile, plan->pieces ? TILES_IN_PIECES : TILES_ALL, l);
  if (!share_tiles(p, plan, l)) return 1;
  use_tile_of(m, p, bytes, plan->rest, TILES_LEFT, l + 1);
  set_rest(l + 1, l, p);
  return 2;
}

/* ---- Operands that are copied first ---- */

static const void *pack_kernel(int dtype) {
  switch (dtype) {
    case GPURED_F32:
      return (const void *)pack_across<GPURED_F32, 256>;
    case GPURED_F16:
      return (const void *)pack_across<GPURED_F16, 256>;
    case GPURED_BF16:
      return (const void *)pack_across<GPURED_BF16, 256>;
    default:
      return (const void *)pack_bytes<256>;
  }
}

/* An operand in vectors of 16 bytes: bytes along k, as tensor cores take them, or f32 across. */
static gpured_status pack_operand_lines(gemm_run *run, gpured__gemm_plan *ready, int which) {
  gpured_tensor *t = which == GPURED__LEFT ? &ready->left : &ready->right;
  const int across = which == GPURED__LEFT ? t->ndim - 2 : t->ndim - 1;
  const int along = 2 * t->ndim - 3 - across;
  const int bytes = gpured__dtype_size(t->dtype) == 1;
  const int64_t size = bytes ? 1 : sizeof(float), vector = 16 / size;
  const int unit = bytes ? along : across, other = bytes ? across : along;
  const void *kernel = pack_kernel(t->dtype);
  packed_lines b;
  void *arguments[] = {&b};
  int64_t items, count;
  memset(&b, 0, sizeof b);
  b.data = (const char *)t->data;
  b.lines = t->shape[across];
  b.depth = t->shape[along];
  b.pitch = gpured__ceil_div(t->shape[unit], vector) * vector;
  b.across = t->strides[across];
  b.along = t->strides[along];
  count = t->shape[other];
  items = copy_items(ready, which, count * b.pitch, &b.axes, b.n, b.item_stride);
  b.line_tiles = gpured__ceil_div(bytes ? b.lines : b.pitch, PACK_LINES);
  b.step_tiles = gpured__ceil_div(bytes ? b.pitch : b.depth, PACK_STEPS);
  b.tiles = items * b.line_tiles * b.step_tiles;
  b.to = reserve(run, (double)items * (double)count * (double)b.pitch, (size_t)size);
  t->data = b.to;
  if (!bytes) t->dtype = GPURED_F32;
  t->shape[unit] = b.pitch;
  t->strides[unit] = 1;
  t->strides[other] = b.pitch;
  if (run->measuring) return GPURED_OK;
  return launch(run->m, kernel, most_blocks(b.tiles), 256, 0, arguments);
}

/* Small items of 16 bits as f32, element by element; their order in memory stays. */
static gpured_status widen_operand(gemm_run *run, gpured__gemm_plan *ready, int which) {
  gpured_tensor *t = which == GPURED__LEFT ? &ready->left : &ready->right, from = *t, to;
  int64_t *shape = t->shape + t->ndim - 2, *stride = t->strides + t->ndim - 2;
  int64_t n[GPURED_MAX_NDIM], item_stride[GPURED_MAX_NDIM], items, step = 1;
  const int inner = llabs(stride[0]) >= llabs(stride[1]);
  int axes, i;
  items = copy_items(ready, which, shape[0] * shape[1], &axes, n, item_stride);
  from.ndim = axes + 2;
  for (i = 0; i < axes; ++i) {
    from.shape[i] = n[axes - 1 - i];
    from.strides[i] = item_stride[axes - 1 - i];
  }
  from.shape[axes] = shape[!inner];
  from.strides[axes] = stride[!inner];
  from.shape[axes + 1] = shape[inner];
  from.strides[axes + 1] = stride[inner];
  to = from;
  to.dtype = GPURED_F32;
  to.data = reserve(run, (double)items * (double)shape[0] * (double)shape[1], sizeof(float));
  for (i = axes + 1; i >= 0; step *= to.shape[i], --i) to.strides[i] = step;
  t->dtype = GPURED_F32;
  t->data = to.data;
  stride[inner] = 1;
  stride[!inner] = shape[inner];
  return reduce_view(run, GPURED_SUM, -1, &from, 0, &to);
}

/* Can tensor cores multiply these bytes? Then both lie along k in `ready`. A query may not know
 * where data lie, so that a workspace of the caller's may have no room for what only begins in the
 * wrong place. */
static gpured_status prepare_bytes(gemm_run *run, gpured__gemm_plan *ready, int *bytes) {
  const gpured__gemm_plan *p = run->p;
  const int is_signed = p->left.dtype == GPURED_I8;
  const int most =
      is_signed ? (int)byte_engine<true>::MOST_STEPS : (int)byte_engine<false>::MOST_STEPS;
  gpured_status st = GPURED_OK;
  int packs[2], i;
  if (p->depth == 0 || p->depth > most) return GPURED_OK;
  if (!is_signed && p->left.dtype != GPURED_U8) return GPURED_OK;
  for (i = 0; i < 2; ++i) {
    gpured_tensor t = i ? p->right : p->left;
    const int displaced = (uintptr_t)t.data % 16 != 0;
    t.data = NULL;
    packs[i] = !has_deep_vectors(p, &t, i ? GPURED__RIGHT : GPURED__LEFT);
    if (displaced && !packs[i] && run->copies != EVERY_COPY) return GPURED_OK;
    packs[i] |= displaced;
  }
  *bytes = 1;
  for (i = 0; i < 2 && st == GPURED_OK; ++i)
    if (packs[i]) st = pack_operand_lines(run, ready, i ? GPURED__RIGHT : GPURED__LEFT);
  ready->depth = gpured__ceil_div(p->depth, 16) * 16;
  return st;
}

static const double PRODUCTS_WORTH_PACKING = 2147483648.0; /* 90 microseconds on an H200 */

/* Does it take less time to copy this operand of floats once, to where its neighbours across lie in
 * vectors, than to copy single elements in each tile? Strides alone decide. Copying cost as much as
 * it gained for some 700 lines of the other operand where neighbours across did not lie in vectors,
 * for 1200 where the right operand's lay along k, and for 3000 where the left one's did, which is
 * left to the tiles. */
static int worth_packing(const gpured__gemm_plan *p, int which) {
  gpured_tensor t = which == GPURED__LEFT ? p->left : p->right;
  const int across = which == GPURED__LEFT ? t.ndim - 2 : t.ndim - 1;
  const int deep = t.strides[2 * t.ndim - 3 - across] == 1 && t.strides[across] != 1;
  const int64_t others = which == GPURED__LEFT ? p->columns : p->rows;
  t.data = NULL;
  if (t.shape[across] < PACK_LINES || has_vectors(p, &t, which)) return 0;
  if (others < (deep ? 2048 : 1024) || (deep && which == GPURED__LEFT)) return 0;
  return (double)p->batches * (double)p->rows * (double)p->columns * (double)p->depth >=
         PRODUCTS_WORTH_PACKING;
}

/* Do the items of this operand fill at least half of the tiles in which pack_across moves them?
 * Items of 64x64 took it two thirds of widen_operand's time, items of 16x16 four times as long. */
static int fills_tiles(const gpured_tensor *t) {
  const int64_t rows = t->shape[t->ndim - 2], columns = t->shape[t->ndim - 1];
  const double tiles =
      (double)gpured__ceil_div(rows, PACK_LINES) * (double)gpured__ceil_div(columns, PACK_STEPS);
  return 2.0 * (double)rows * (double)columns >= tiles * PACK_LINES * PACK_STEPS;
}

static gpured_status prepare_operands(gemm_run *run, gpured__gemm_plan *ready, int *bytes) {
  const gpured__gemm_plan *p = run->p;
  const int dtype = p->left.dtype, narrow = dtype == GPURED_F16 || dtype == GPURED_BF16;
  gpured_status st = GPURED_OK;
  int which;
  *ready = *p;
  *bytes = 0;
  if (p->acc == GPURED__U64) return prepare_bytes(run, ready, bytes);
  for (which = GPURED__LEFT; which <= GPURED__RIGHT && p->depth > 0 && st == GPURED_OK; ++which)
    if (narrow && !fills_tiles(which == GPURED__LEFT ? &p->left : &p->right))
      st = widen_operand(run, ready, which);
    else if (narrow ||
             (p->acc == GPURED__F32 && run->copies != NEEDED_COPIES && worth_packing(p, which)))
      st = pack_operand_lines(run, ready, which);
  return st;
}

/* A result in the terms of the kernel. */
static outcome describe_outcome(const gpured__gemm_plan *p, int op) {
  const uint64_t sign = p->acc == GPURED__F32 ? (uint64_t)0x80000000u : (uint64_t)1 << 63;
  const int kernel = gpured__gemm_kernel(op);
  outcome o;
  memset(&o, 0, sizeof o);
  o.kind = kind_of(kernel);
  o.enter = gpured__gemm_enter(p, op);
  if (o.enter == GPURED__BIAS) o.flip = sign;
  if (kernel == GPURED__MIN || kernel == GPURED__ARG_MIN)
    o.flip ^= p->acc == GPURED__U64 ? ~(uint64_t)0 : sign;
  return o;
}

static void describe_product(const gpured__gemm_plan *p, const gemm_biases *b, product *g) {
  g->rows = p->rows;
  g->columns = p->columns;
  g->depth = p->depth;
  g->blocks = gpured__ceil_div(p->rows, GPURED__GEMM_BLOCK);
  g->left = describe_operand(&p->left, GPURED__LEFT);
  g->right = describe_operand(&p->right, GPURED__RIGHT);
  g->batch_count = p->batch_count;
  memcpy(g->batch, p->batch, sizeof g->batch);
  g->ep = p->ep;
  g->narrow_alpha = (float)p->ep.alpha;
  g->row_bias = p->row_bias || p->g->form ? b->rows : NULL;
  g->column_bias = p->column_bias || p->g->form ? b->columns : NULL;
  if (!p->g->c) return;
  g->c = (char *)p->g->c->data;
  g->c_dtype = p->g->c->dtype;
  g->c_row = p->product_row;
  g->c_column = p->product_column;
}

/* Partials [items][blocks][columns] of a result as a tensor. */
static gpured_tensor partial_view(const gpured__gemm_plan *p, const outcome *o) {
  const int64_t blocks = gpured__ceil_div(p->rows, GPURED__GEMM_BLOCK);
  gpured_tensor t = gpured__gemm_vector(p, o->first, p->columns);
  int i;
  if (o->enter == GPURED__BIAS) t.dtype = GPURED_I64;
  for (i = 0; i < p->batch_count; ++i) t.strides[i] *= blocks;
  t.shape[t.ndim] = t.shape[t.ndim - 1];
  t.strides[t.ndim] = 1;
  t.shape[t.ndim - 1] = blocks;
  t.strides[t.ndim - 1] = p->columns;
  ++t.ndim;
  return t;
}

static gpured_status join_pairs(gemm_run *run, int r, const outcome *o) {
  const gpured__gemm_plan *p = run->p;
  ending e = end_of(p, r);
  int run_log2 = 0;
  void *arguments[] = {&e, &run_log2};
  const int64_t tiles = gpured__ceil_div(p->columns, PAIR_COLUMNS) * p->batches;
  if (run->measuring) return GPURED_OK;
  e.values = o->first;
  e.more = o->second;
  if (e.blocks == 1) return end_sums_of(run, &e);
  while ((int64_t)PAIR_RUNS << run_log2 < e.blocks) ++run_log2;
  return launch_as(
      run->m, LAUNCH_BESIDE,
      p->acc == GPURED__F32 ? (const void *)end_pairs<float> : (const void *)end_pairs<double>,
      most_blocks(tiles), PAIR_COLUMNS * PAIR_RUNS, 0, arguments);
}

/* Combines the partials of result r, and stores it. `spare`: [items][columns] of 8 bytes. */
static gpured_status join_blocks(gemm_run *run, int r, const outcome *o, char *spare) {
  const gpured__gemm_plan *p = run->p;
  const uint32_t outer = 1u << p->batch_count;
  const int op = p->g->results[r].op, kernel = gpured__gemm_kernel(op);
  const gpured_tensor view = partial_view(p, o);
  gpured_tensor out = result_view(p, r);
  ending e;
  gpured_status st;
  if (kernel == GPURED__LSE) return join_pairs(run, r, o);
  if (kernel == GPURED__MIN || kernel == GPURED__MAX)
    return reduce_view(run, kernel == GPURED__MIN ? GPURED_MIN : GPURED_MAX, -1, &view, outer,
                       &out);
  if (o->kind != K_ARG && op != GPURED_MEAN)
    return reduce_view(run, op, kernel, &view, outer, &out);
  out = gpured__gemm_vector(p, spare, p->columns);
  if (o->kind == K_ARG) out.dtype = GPURED_I64;
  st = reduce_view(run, o->kind == K_ARG ? op : GPURED_SUM, -1, &view, outer, &out);
  if (run->measuring || st != GPURED_OK) return st;
  e = end_of(p, r);
  e.values = spare;
  e.more = o->second;
  return o->kind == K_ARG ? run_end(run, (const void *)end_indices<ENDING_THREADS>, &e)
                          : end_sums_of(run, &e);
}

/* Where an item is one block, can its tile store the result itself? Whether the workspace must hold
 * partials does not depend on where data lie. */
static int puts_result(const gpured__gemm_plan *p, int r, outcome *o) {
  const gpured_tensor *out = &p->g->results[r].out;
  const int op = p->g->results[r].op, own = p->acc == GPURED__F32 ? GPURED_F32 : GPURED_F64;
  const int is_value = o->kind == K_MAX || (o->kind == K_ADD && op != GPURED_MEAN);
  int64_t step = p->columns;
  int i;
  if (p->rows > GPURED__GEMM_BLOCK || p->acc == GPURED__U64 || op == GPURED_NORM2) return 0;
  if (o->kind != K_ARG && !(is_value && out->dtype == own)) return 0;
  if (p->columns > 1 && p->result_stride[r] != 1) return 0;
  for (i = p->batch_count - 1; i >= 0; --i) {
    if (p->batch[i].n > 1 && p->batch[i].stride[GPURED__GEMM_OPERANDS + r] != step) return 0;
    step *= p->batch[i].n;
  }
  if (o->kind != K_ARG)
    o->first = (char *)out->data;
  else
    o->second = (char *)out->data;
  o->wide = out->dtype == GPURED_I64;
  return 1;
}

static size_t signs_of(const machine *m) { return 1 + 2 * (size_t)m->processors; }

/* The tiles, and memory for values or for what gemm_pieces hands over, where there is plenty. */
static tile_plan take_tiles(gemm_run *run, const gpured__gemm_plan *ready, int bytes, product *g) {
  const int wide = ready->acc == GPURED__F32 ? F32_TILES[0].width : F64_TILES[0].width;
  const double sums = (double)run->m->processors * GPURED__GEMM_BLOCK * wide;
  const int left = lies_in_vectors(ready, &ready->left, GPURED__LEFT);
  const int right = lies_in_vectors(ready, &ready->right, GPURED__RIGHT);
  const int lies = ready->acc == GPURED__F32 ? right & LIES_ACROSS : left && right;
  const int room = run->copies != NEEDED_COPIES;
  const tile_plan plan = plan_tiles(run->m, ready, bytes, room, room && lies);
  if (plan.loose) {
    g->value_rows = gpured__ceil_div(ready->rows, 16) * 16;
    g->values = reserve(run, loose_bytes(ready), 1);
  }
  if (!plan.pieces) return plan;
  g->handed = reserve(run, sums, acc_size(ready));
  g->signs = (unsigned *)reserve(run, (double)signs_of(run->m), sizeof(unsigned));
  return plan;
}

/* Tiles of any height, and then the columns of their values. */
static gpured_status launch_loose(const machine *m, const gpured__gemm_plan *p, int tile,
                                  product_launch *l) {
  product columns = l->g, *g = &l->g;
  void *tiles_of[] = {g}, *columns_of[] = {&columns};
  const int64_t blocks = p->batches * g->blocks * gpured__ceil_div(p->columns, 16);
  gpured_status st;
  gpured__use_loose_tile(m, tile, p->left.dtype, l);
  g->blocks = gpured__ceil_div(p->rows, l->height);
  g->column_tiles = gpured__ceil_div(p->columns, l->width);
  g->tiles = p->batches * g->blocks * g->column_tiles;
  st = launch(m, l->kernel, most_blocks(g->tiles), l->threads, l->shared, tiles_of);
  if (st != GPURED_OK) return st;
  return launch_as(m, LAUNCH_BESIDE,
                   p->acc == GPURED__F32 ? (const void *)gemm_columns<float, 256>
                                         : (const void *)gemm_columns<double, 256>,
                   blocks, 256, 0, columns_of);
}

/* A second launch that begins while the first one ends gains a tenth of a per cent at most, and
 * loses where the first multiprocessors that are free take all of it. */
static gpured_status launch_product(const machine *m, const gpured__gemm_plan *p, int bytes,
                                    const tile_plan *plan, product_launch *l) {
  gpured_status st = GPURED_OK;
  int count, i;
  l->acc = p->acc;
  l->left = lies_in_vectors(p, &p->left, GPURED__LEFT);
  l->right = lies_in_vectors(p, &p->right, GPURED__RIGHT);
  if (plan->loose) return launch_loose(m, p, plan->tile, l);
  count = choose_launches(m, p, bytes, plan, l);
  l->g.turns = plan->pieces ? l->g.tiles / m->processors - 1 : 1;
  if (plan->pieces)
    GPURED__TRY(cudaMemsetAsync(l->g.signs, 0, signs_of(m) * sizeof(unsigned), m->stream));
  for (i = 0; i < count && st == GPURED_OK; ++i) {
    void *arguments[] = {&l[i].g};
    const int64_t blocks = i == 0 && plan->pieces ? m->processors : most_blocks(l[i].g.tiles);
    st = launch(m, l[i].kernel, blocks, l[i].threads, l[i].shared, arguments);
  }
  return st;
}

static gpured_status make_product(gemm_run *run, const gemm_biases *b) {
  const gpured__gemm_plan *p = run->p;
  const double columns = (double)p->batches * (double)p->columns;
  product_launch l[2];
  product *g = &l->g;
  const outcome *left[GPURED_MAX_RESULTS];
  char *spare = reserve(run, columns, 8);
  int which[GPURED_MAX_RESULTS], r, bytes, count = 0;
  gpured__gemm_plan ready;
  tensor_launch tensor;
  tile_plan plan;
  gpured_status st = prepare_operands(run, &ready, &bytes);
  if (st != GPURED_OK) return st;
  if (bytes && choose_tensor_bytes(run->m, &ready, run->measuring, &tensor)) {
    char *partial = reserve(run, (double)tensor.workspace, 1);
    return run->measuring ? GPURED_OK : run_tensor(run->m, &ready, &tensor, partial);
  }
  memset(l, 0, sizeof *l);
  describe_product(&ready, b, g);
  plan = take_tiles(run, &ready, bytes, g);
  for (r = 0; r < p->g->count; ++r) {
    const int op = p->g->results[r].op;
    outcome *o = &g->results[g->count];
    if (gpured__is_short(p->g, op)) continue;
    *o = describe_outcome(p, op);
    ++g->count;
    if (puts_result(p, r, o)) continue;
    o->first = reserve(run, columns * (double)g->blocks, acc_size(p));
    if (o->kind >= K_ARG)
      o->second = reserve(run, columns * (double)g->blocks, o->kind == K_ARG ? 4 : acc_size(p));
    which[count] = r;
    left[count++] = o;
  }
  if (!run->measuring) st = launch_product(run->m, &ready, bytes, &plan, l);
  for (r = 0; r < count && st == GPURED_OK; ++r) st = join_blocks(run, which[r], left[r], spare);
  return st;
}

/* ---- The call ---- */

/* All steps, or only their workspace. */
static gpured_status walk_gemm(gemm_run *run) {
  const gpured__gemm_plan *p = run->p;
  gemm_biases biases;
  gpured_status st;
  int r;
  if (p->rows == 0) {
    for (r = 0, st = GPURED_OK; r < p->g->count && st == GPURED_OK; ++r) {
      gpured_tensor view = gpured__gemm_vector(p, NULL, 0), out = result_view(p, r);
      view.dtype = p->left.dtype;
      view.shape[view.ndim++] = p->columns;
      st = reduce_view(run, p->g->results[r].op, -1, &view, 1u << p->batch_count, &out);
    }
    return st;
  }
  st = make_biases(run, &biases);
  if (st == GPURED_OK && gpured__gemm_has_short(p)) st = take_short_road(run, &biases);
  if (st == GPURED_OK && p->needs_product) st = make_product(run, &biases);
  return st;
}

static gpured_status measure_gemm(const machine *m, const gpured__gemm_plan *p,
                                  const gpured__call *call, int copies, gemm_run *run) {
  gpured_status st;
  memset(run, 0, sizeof *run);
  run->m = m;
  run->p = p;
  run->call = call;
  run->copies = copies;
  run->measuring = 1;
  st = walk_gemm(run);
  if (st != GPURED_OK) return st;
  return run->total == SIZE_MAX || run->total + run->reducing < run->total ? GPURED_ERR_OVERFLOW
                                                                           : GPURED_OK;
}

static gpured_status gemm_on_device(const machine *m, const gpured__gemm_plan *p,
                                    const gpured__call *call) {
  gemm_run run;
  tensor_launch tensor;
  scratch s;
  size_t bytes;
  gpured_status st;
  int copies;
  if (choose_tensor(m, p, call, &tensor)) {
    st = take(call, m, tensor.workspace, &s);
    if (st == GPURED_ERR_ALLOC && tensor.packs && tensor_plan(m, p, 0, 0, &tensor))
      st = take(call, m, tensor.workspace, &s); /* no room for copies */
    if (st != GPURED_OK) return st;
    return give_back(call, m, &s, run_tensor(m, p, &tensor, s.start));
  }
  st = measure_gemm(m, p, call, EVERY_COPY, &run);
  for (copies = FORESEEN_COPIES; copies <= NEEDED_COPIES && call->o.workspace; ++copies)
    if (st == GPURED_OK && run.total + run.reducing > call->o.workspace_bytes)
      st = measure_gemm(m, p, call, copies, &run);
  if (st != GPURED_OK) return st;
  bytes = run.total + run.reducing;
  st = take(call, m, bytes, &s);
  if (st == GPURED_ERR_ALLOC && measure_gemm(m, p, call, NEEDED_COPIES, &run) == GPURED_OK &&
      run.total + run.reducing < bytes)
    st = take(call, m, run.total + run.reducing, &s); /* no room for copies */
  if (st != GPURED_OK) return st;
  run.measuring = 0;
  run.memory = s.start;
  run.reducing_at = run.total;
  run.total = 0;
  st = walk_gemm(&run);
  return give_back(call, m, &s, st);
}

/* ============================================================================================== */
/* 16  Tensors of the host                                                                        */
/* ============================================================================================== */
/*
 * The same call on copies: inputs go over as the bytes they span, or gathered where they are spread
 * too thin; results come back to their elements alone, whatever lies between them. The copies keep
 * the alignment that the tensors have. Synchronous.
 *   Large tensors pass through a ring of pinned chunks, which the CPU's threads fill while the
 * device fetches the ones before. A call whose outermost axis is not reduced runs in pieces of it,
 * two at a time: one is on its way while the other is worked on or brought back. So it needs
 * little of the device's memory, whatever its size.
 */
enum {
  STAGE_ALIGN = 256,
  STAGE_DIRECT = 1 << 20, /* bytes of a call that are not worth the ring */
  STAGE_PIECE = 64 << 20,
  RING_CHUNK = 4 << 20,
  RING_CHUNKS = 8,
  MOVE_EACH = 1 << 16 /* elements that a thread moves at a time */
};

struct staged {
  void **data;                           /* of the plan that runs on the copies, like */
  int64_t *strides[2 * GPURED_MAX_NDIM]; /* these */
  int64_t n[2 * GPURED_MAX_NDIM], stride[2 * GPURED_MAX_NDIM]; /* as they are on the host */
  int count, output;
  int64_t size, total, lo, elements; /* bytes of one; in all; the first; in the copy */
  int whole;                         /* the copy is the span */
  size_t pad;
  char *host, *device;
};

static void begin_staged(staged *s, const void *data_place, int32_t dtype, int output) {
  memset(s, 0, sizeof *s);
  memcpy(&s->data, &data_place, sizeof s->data);
  s->host = (char *)*s->data;
  s->size = (int64_t)gpured__dtype_size(dtype);
  s->output = output;
}

static void add_staged_axis(staged *s, int64_t n, int64_t *stride) {
  s->strides[s->count] = stride;
  s->n[s->count] = n;
  s->stride[s->count++] = *stride;
}

static void measure_staged(staged *s) {
  int64_t hi = 0;
  int i;
  s->total = 1;
  for (i = 0; i < s->count; ++i) {
    const int64_t stride = s->stride[i], n = s->n[i];
    if (stride != 0 || (n == 0 && !s->output)) s->total *= n; /* an empty line has a result */
    if (stride < 0) s->lo += (n - 1) * stride;
    if (stride > 0) hi += (n - 1) * stride;
  }
  if (s->total == 0) return;
  s->whole = s->output ? hi - s->lo + 1 == s->total : hi - s->lo < 2 * s->total + 65536;
  s->elements = s->whole ? hi - s->lo + 1 : s->total;
  s->pad = (size_t)((uintptr_t)(s->host + (s->whole ? s->lo * s->size : 0)) % STAGE_ALIGN);
}

/* Whatever the alignment is: pieces of one size have room in one place. */
static size_t room(const staged *s) {
  return ((size_t)(s->elements * s->size) / STAGE_ALIGN + 2) * STAGE_ALIGN;
}

/* Gives the copy its place, and the plan its strides and element (0, 0, ...). */
static void settle(staged *s, char *at) {
  int64_t step = 1;
  int i;
  s->device = at + s->pad;
  *s->data = s->whole ? s->device - s->lo * s->size : s->device;
  for (i = s->count - 1; i >= 0 && !s->whole; --i) {
    if (s->stride[i] == 0) continue;
    *s->strides[i] = step;
    step *= s->n[i];
  }
}

/* ---- Between the host's memory and a buffer ---- */

struct movement {
  const staged *s;
  char *buffer;        /* of the copy's elements */
  int64_t from, count; /* these */
  int to_buffer;
};

/* Elements that are spread: in row-major order, from the one with this number. */
static void shuttle(const movement *v, int64_t from, int64_t count) {
  const staged *s = v->s;
  int64_t index[2 * GPURED_MAX_NDIM], at = 0, i, number = v->from + from;
  int k;
  for (k = s->count - 1; k >= 0; --k) {
    if (s->stride[k] == 0) continue;
    index[k] = number % s->n[k];
    number /= s->n[k];
    at += index[k] * s->stride[k];
  }
  for (i = from; i < from + count; ++i) {
    char *dense = v->buffer + i * s->size, *sparse = s->host + at * s->size;
    memcpy(v->to_buffer ? dense : sparse, v->to_buffer ? sparse : dense, (size_t)s->size);
    for (k = s->count - 1; k >= 0; --k) {
      if (s->stride[k] == 0) continue;
      at += s->stride[k];
      if (++index[k] < s->n[k]) break;
      at -= s->stride[k] * index[k];
      index[k] = 0;
    }
  }
}

static void move_some(void *context, int64_t task, int thread) {
  const movement *v = (const movement *)context;
  const staged *s = v->s;
  const int64_t from = task * MOVE_EACH;
  const int64_t left = v->count - from, count = left < MOVE_EACH ? left : (int64_t)MOVE_EACH;
  char *near = v->buffer + from * s->size, *far = s->host + (s->lo + v->from + from) * s->size;
  (void)thread;
  if (s->whole)
    memcpy(v->to_buffer ? near : far, v->to_buffer ? far : near, (size_t)(count * s->size));
  else
    shuttle(v, from, count);
}

static void move_elements(const gpured__call *call, const staged *s, char *buffer, int64_t from,
                          int64_t count, int to_buffer) {
  movement v = {s, buffer, from, count, to_buffer};
  call->spread(&call->o, (double)(count * s->size), gpured__ceil_div(count, MOVE_EACH), move_some,
               &v);
}

/* ---- The ring ---- */

/* Chunks between the host and the device; pinned, or a single one of ordinary memory, whose copies
 * the runtime ends before it returns. */
struct ring {
  char *memory;
  cudaEvent_t over[RING_CHUNKS]; /* the last copy of a chunk */
  int chunks, next;
};

static void drop_ring(ring *r) {
  int i;
  for (i = 0; i < RING_CHUNKS && r->chunks > 1; ++i)
    if (r->over[i]) (void)status_of(cudaEventDestroy(r->over[i]));
  if (r->chunks > 1)
    (void)status_of(cudaFreeHost(r->memory));
  else
    free(r->memory);
  free(r);
}

static gpured_status pin(ring *r) {
  int i;
  GPURED__TRY(
      cudaHostAlloc((void **)&r->memory, (size_t)RING_CHUNK * RING_CHUNKS, cudaHostAllocDefault));
  r->chunks = RING_CHUNKS;
  for (i = 0; i < RING_CHUNKS; ++i)
    GPURED__TRY(cudaEventCreateWithFlags(&r->over[i], cudaEventDisableTiming));
  return GPURED_OK;
}

/* The ring that the last call on this device left, since pinning takes long. */
static ring **left_ring(const machine *m) {
  static ring *left[DEVICES_MOST];
  return &left[m->device % DEVICES_MOST];
}

static ring *take_ring(const machine *m, size_t bytes) {
  ring *r = NULL;
  if (bytes > STAGE_DIRECT && m->device < DEVICES_MOST) {
    r = __atomic_exchange_n(left_ring(m), r, __ATOMIC_ACQ_REL);
    if (r) return r;
    r = (ring *)calloc(1, sizeof *r);
    if (!r) return NULL;
    if (pin(r) == GPURED_OK) return r;
    drop_ring(r);
  }
  r = (ring *)calloc(1, sizeof *r);
  if (r) r->memory = (char *)malloc(RING_CHUNK);
  if (r && !r->memory) {
    free(r);
    return NULL;
  }
  if (r) r->chunks = 1;
  return r;
}

static void leave_ring(const machine *m, ring *r) {
  ring *none = NULL;
  if (r->chunks > 1 &&
      __atomic_compare_exchange_n(left_ring(m), &none, r, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return;
  drop_ring(r);
}

/* ---- The way there and back ---- */

/* Does the device read this memory by itself? */
static int is_pinned(const void *p) {
  cudaPointerAttributes a;
  return status_of(cudaPointerGetAttributes(&a, p)) == GPURED_OK &&
         a.type != cudaMemoryTypeUnregistered;
}

/* The bytes of a copy as they lie, where that is no slower than the ring. */
static int goes_directly(const staged *s, const ring *r) {
  return s->whole && (r->chunks == 1 || is_pinned(s->host));
}

static gpured_status next_chunk(ring *r, int *chunk) {
  *chunk = r->next;
  r->next = (r->next + 1) % r->chunks;
  return r->chunks > 1 ? status_of(cudaEventSynchronize(r->over[*chunk])) : GPURED_OK;
}

static gpured_status copy_in(const machine *m, const gpured__call *call, ring *r, const staged *s) {
  const int64_t each = RING_CHUNK / s->size;
  int64_t from;
  if (goes_directly(s, r))
    return status_of(cudaMemcpyAsync(s->device, s->host + s->lo * s->size,
                                     (size_t)(s->elements * s->size), cudaMemcpyHostToDevice,
                                     m->stream));
  for (from = 0; from < s->elements; from += each) {
    const int64_t count = s->elements - from < each ? s->elements - from : each;
    gpured_status st;
    char *memory;
    int chunk;
    st = next_chunk(r, &chunk);
    if (st != GPURED_OK) return st;
    memory = r->memory + (size_t)chunk * RING_CHUNK;
    move_elements(call, s, memory, from, count, 1);
    GPURED__TRY(cudaMemcpyAsync(s->device + from * s->size, memory, (size_t)(count * s->size),
                                cudaMemcpyHostToDevice, m->stream));
    if (r->chunks > 1) GPURED__TRY(cudaEventRecord(r->over[chunk], m->stream));
  }
  return GPURED_OK;
}

static gpured_status empty_chunk(const gpured__call *call, const ring *r, const staged *s,
                                 int chunk, int64_t from) {
  const int64_t each = RING_CHUNK / s->size;
  if (r->chunks > 1) GPURED__TRY(cudaEventSynchronize(r->over[chunk]));
  move_elements(call, s, r->memory + (size_t)chunk * RING_CHUNK, from,
                s->elements - from < each ? s->elements - from : each, 0);
  return GPURED_OK;
}

/* Pinned chunks are emptied while the next one comes. */
static gpured_status copy_out(const machine *m, const gpured__call *call, ring *r,
                              const staged *s) {
  const int64_t each = RING_CHUNK / s->size;
  gpured_status st = GPURED_OK;
  int64_t from, waits = -1; /* what the chunk before holds */
  int chunk, last = 0;
  if (goes_directly(s, r)) {
    GPURED__TRY(cudaMemcpyAsync(s->host + s->lo * s->size, s->device,
                                (size_t)(s->elements * s->size), cudaMemcpyDeviceToHost,
                                m->stream));
    return status_of(cudaStreamSynchronize(m->stream));
  }
  for (from = 0; from < s->elements && st == GPURED_OK; from += each) {
    const int64_t count = s->elements - from < each ? s->elements - from : each;
    st = next_chunk(r, &chunk);
    if (st != GPURED_OK) return st;
    GPURED__TRY(cudaMemcpyAsync(r->memory + (size_t)chunk * RING_CHUNK, s->device + from * s->size,
                                (size_t)(count * s->size), cudaMemcpyDeviceToHost, m->stream));
    if (r->chunks > 1) GPURED__TRY(cudaEventRecord(r->over[chunk], m->stream));
    if (waits >= 0) st = empty_chunk(call, r, s, last, waits);
    waits = from;
    last = chunk;
    if (r->chunks > 1 || st != GPURED_OK) continue;
    st = empty_chunk(call, r, s, last, waits);
    waits = -1;
  }
  return waits >= 0 && st == GPURED_OK ? empty_chunk(call, r, s, last, waits) : st;
}

/* ---- Pieces ---- */

/* A piece of a call on its way: its tensors, and the stream that everything of it goes through. */
struct parcel {
  staged parts[GPURED__GEMM_OPERANDS + GPURED_MAX_RESULTS];
  int count;
  machine m;
  char *memory;
  int busy, own_stream;
};

/* What lies in front of a copy in its first 16 bytes is read with it, for nothing. */
static gpured_status clear_before(const machine *m, const staged *s) {
  const size_t bytes = (uintptr_t)s->device % 16;
  if (bytes == 0) return GPURED_OK;
  return status_of(cudaMemsetAsync(s->device - bytes, 0, bytes, m->stream));
}

/* Memory for the copies of a piece whose axes are known, and the inputs in it. The first piece is
 * the largest. */
static gpured_status send(const gpured__call *call, ring *r, parcel *p) {
  size_t bytes = 0;
  gpured_status st = GPURED_OK;
  int i;
  for (i = 0; i < p->count; ++i) {
    measure_staged(&p->parts[i]);
    bytes += room(&p->parts[i]);
  }
  if (!p->memory) st = pool_alloc(&p->m, bytes, &p->memory);
  for (i = 0, bytes = 0; i < p->count && st == GPURED_OK; ++i) {
    staged *s = &p->parts[i];
    settle(s, p->memory + bytes);
    bytes += room(s);
    if (s->output || s->elements == 0) continue;
    st = clear_before(&p->m, s);
    if (st == GPURED_OK) st = copy_in(&p->m, call, r, s);
  }
  return st;
}

static gpured_status fetch(const gpured__call *call, ring *r, parcel *p) {
  gpured_status st = GPURED_OK;
  int i;
  p->busy = 0;
  for (i = 0; i < p->count && st == GPURED_OK; ++i)
    if (p->parts[i].output && p->parts[i].elements > 0) st = copy_out(&p->m, call, r, &p->parts[i]);
  return st;
}

/* Ends everything of a piece, also where it went wrong. */
static gpured_status drop_parcel(parcel *p, gpured_status st) {
  gpured_status freed = GPURED_OK;
  if (p->memory) freed = status_of(cudaFreeAsync(p->memory, p->m.stream));
  if (st == GPURED_OK) st = freed;
  if (st != GPURED_OK || p->own_stream) freed = status_of(cudaStreamSynchronize(p->m.stream));
  if (st == GPURED_OK) st = freed;
  if (p->own_stream) freed = status_of(cudaStreamDestroy(p->m.stream));
  return st == GPURED_OK ? freed : st;
}

/* The steps of n, `each` of them a piece: prepare(parcel, which of two, first step, steps)
 * describes its tensors, run(machine, which) works on the copies. */
template <class PREPARE, class RUN>
static gpured_status in_pieces(const machine *m, const gpured__call *call, int64_t n, int64_t each,
                               size_t bytes, const PREPARE &prepare, const RUN &run) {
  parcel *parcels = (parcel *)calloc(2, sizeof *parcels);
  ring *r = take_ring(m, bytes);
  gpured_status st = parcels && r ? GPURED_OK : GPURED_ERR_ALLOC;
  int64_t from;
  int k, written = 0;
  for (k = 0; k < 2 && st == GPURED_OK; ++k) {
    parcels[k].m = *m;
    if (n <= each) continue;
    parcels[k].m.passing = 1;
    st = status_of(cudaStreamCreateWithFlags(&parcels[k].m.stream, cudaStreamNonBlocking));
    parcels[k].own_stream = st == GPURED_OK;
  }
  for (from = 0, k = 0; from < n && st == GPURED_OK; from += each, k ^= 1) {
    parcel *p = &parcels[k];
    if (p->busy) {
      st = fetch(call, r, p);
      written = 1;
    }
    if (st != GPURED_OK) break;
    prepare(p, k, from, n - from < each ? n - from : each);
    st = send(call, r, p);
    if (st == GPURED_OK) st = run(&p->m, k);
    p->busy = 1;
  }
  for (from = 0; from < 2 && st == GPURED_OK; ++from, k ^= 1)
    if (parcels[k].busy) st = fetch(call, r, &parcels[k]);
  for (k = 0; k < 2 && parcels; ++k) st = drop_parcel(&parcels[k], st);
  if (r) leave_ring(m, r);
  free(parcels);
  /* Other statuses promise that no result was written. */
  return written && st != GPURED_OK ? GPURED_ERR_DEVICE : st;
}

/* How many steps of n, each so many bytes, go in a piece: all, where that is not much. */
static int64_t steps_in_piece(int64_t n, double step_bytes) {
  if (step_bytes * (double)n < 2.0 * STAGE_PIECE) return n;
  return step_bytes > STAGE_PIECE ? 1 : (int64_t)(STAGE_PIECE / step_bytes);
}

/* ---- Reduce and scan ---- */

/* The axis that is outermost in memory if it is no line's, or -1: pieces of it are pieces of the
 * memory too. */
static int outermost_kept(const gpured__plan *p) {
  int64_t most = 0;
  int i, found = -1;
  for (i = 0; i < p->kept_count; ++i) {
    const int64_t stride = p->kept[i].stride[GPURED__IN];
    if (p->kept[i].n < 2 || (stride < 0 ? -stride : stride) <= most) continue;
    most = stride < 0 ? -stride : stride;
    found = i;
  }
  for (i = 0; i < p->line_count; ++i) {
    const int64_t stride = p->line[i].stride[GPURED__IN];
    if (p->line[i].n > 1 && (stride < 0 ? -stride : stride) > most) return -1;
  }
  return found;
}

static void describe_parcel(const gpured__plan *p, int axis, int64_t from, int64_t count,
                            gpured__plan *copy, parcel *to) {
  int i, k;
  *copy = *p;
  if (axis >= 0 && count < p->kept[axis].n) {
    const int64_t *stride = p->kept[axis].stride;
    copy->kept[axis].n = count;
    copy->outputs = p->outputs / p->kept[axis].n * count;
    copy->in =
        (const char *)p->in + from * stride[GPURED__IN] * (int64_t)gpured__dtype_size(p->in_dtype);
    copy->out =
        (char *)p->out + from * stride[GPURED__OUT] * (int64_t)gpured__dtype_size(p->out_dtype);
  }
  to->count = 2;
  begin_staged(&to->parts[0], &copy->in, p->in_dtype, 0);
  begin_staged(&to->parts[1], &copy->out, p->out_dtype, 1);
  for (k = 0; k < 2; ++k) {
    const int operand = k ? GPURED__OUT : GPURED__IN;
    for (i = 0; i < p->kept_count; ++i)
      add_staged_axis(&to->parts[k], copy->kept[i].n, &copy->kept[i].stride[operand]);
    for (i = 0; i < p->line_count; ++i)
      add_staged_axis(&to->parts[k], copy->line[i].n, &copy->line[i].stride[operand]);
  }
}

static gpured_status on_copies(const machine *m, const gpured__plan *p, const gpured__call *call,
                               gpured_status (*run)(const machine *, const gpured__plan *,
                                                    const gpured__call *)) {
  const double bytes = (double)p->outputs * (double)p->n * (double)gpured__dtype_size(p->in_dtype);
  const int axis = outermost_kept(p);
  const int64_t n = axis < 0 ? 1 : p->kept[axis].n;
  gpured__plan copies[2];
  return in_pieces(
      m, call, n, steps_in_piece(n, bytes / (double)n), bytes < 1e18 ? (size_t)bytes : SIZE_MAX,
      [&](parcel *to, int k, int64_t from, int64_t count) {
        describe_parcel(p, axis, from, count, &copies[k], to);
      },
      [&](const machine *there, int k) { return run(there, &copies[k], call); });
}

/* ---- GEMM-reduce ---- */

/* The tensors of a GEMM-reduce that a plan points to, so that they can point to copies. */
struct gemm_copy {
  gpured__gemm_plan plan;
  gpured_gemm g;
  gpured_tensor row_bias, column_bias, c;
  gpured_result results[GPURED_MAX_RESULTS];
  int64_t from; /* in the outermost axis of the batch */
  parcel *to;
};

/* Adds a tensor with the batch's axes and one or two of its own. */
static void add_gemm_part(gemm_copy *c, gpured_tensor *t, int which, int64_t n0, int64_t *stride0,
                          int64_t n1, int64_t *stride1) {
  staged *s = &c->to->parts[c->to->count++];
  int i;
  if (c->from > 0)
    t->data = (char *)t->data +
              c->from * c->plan.batch[0].stride[which] * (int64_t)gpured__dtype_size(t->dtype);
  begin_staged(s, &t->data, t->dtype, which >= GPURED__PRODUCT);
  for (i = 0; i < c->plan.batch_count; ++i)
    add_staged_axis(s, c->plan.batch[i].n, &c->plan.batch[i].stride[which]);
  add_staged_axis(s, n0, stride0);
  if (stride1) add_staged_axis(s, n1, stride1);
}

static void copy_gemm(const gpured__gemm_plan *p, gemm_copy *c, int64_t items) {
  gpured__gemm_plan *q = &c->plan;
  int64_t *ls = q->left.strides + p->left.ndim - 2, *rs = q->right.strides + p->right.ndim - 2;
  int r;
  *q = *p;
  c->g = *p->g;
  c->to->count = 0;
  q->g = &c->g;
  c->g.results = c->results;
  if (items < p->batches) {
    q->batches = items;
    q->batch[0].n = items / (p->batches / p->batch[0].n);
  }
  add_gemm_part(c, &q->left, GPURED__LEFT, p->rows, ls, p->depth, ls + 1);
  add_gemm_part(c, &q->right, GPURED__RIGHT, p->depth, rs, p->columns, rs + 1);
  if (p->row_bias) {
    c->row_bias = *p->row_bias;
    q->row_bias = &c->row_bias;
    add_gemm_part(c, &c->row_bias, GPURED__ROW_BIAS, p->rows,
                  c->row_bias.strides + c->row_bias.ndim - 1, 0, NULL);
  }
  if (p->column_bias) {
    c->column_bias = *p->column_bias;
    q->column_bias = &c->column_bias;
    add_gemm_part(c, &c->column_bias, GPURED__COLUMN_BIAS, p->columns,
                  c->column_bias.strides + c->column_bias.ndim - 1, 0, NULL);
  }
  if (p->g->c && p->rows > 0) { /* a product without rows has no element to bring back */
    c->c = *p->g->c;
    c->g.c = &c->c;
    add_gemm_part(c, &c->c, GPURED__PRODUCT, p->rows, &q->product_row, p->columns,
                  &q->product_column);
  }
  for (r = 0; r < p->g->count; ++r) {
    c->results[r] = p->g->results[r];
    add_gemm_part(c, &c->results[r].out, GPURED__GEMM_OPERANDS + r, p->columns,
                  &q->result_stride[r], 0, NULL);
  }
}

/* Is the batch's first axis the outermost one of both operands? Then pieces of it are pieces of
 * their memory. */
static int batch_is_outermost(const gpured__gemm_plan *p) {
  const gpured_tensor *t[] = {&p->left, &p->right};
  int i, k;
  if (p->batch_count == 0 || p->rows == 0 || p->depth == 0) return 0;
  for (k = 0; k < 2; ++k) {
    const int which = k ? GPURED__RIGHT : GPURED__LEFT;
    const int64_t first = p->batch[0].stride[which], most = first < 0 ? -first : first;
    int64_t span = 0;
    for (i = 1; i < p->batch_count; ++i) {
      const int64_t stride = p->batch[i].stride[which];
      span += (stride < 0 ? -stride : stride) * (p->batch[i].n - 1);
    }
    for (i = t[k]->ndim - 2; i < t[k]->ndim; ++i) {
      const int64_t stride = t[k]->strides[i];
      span += (stride < 0 ? -stride : stride) * (t[k]->shape[i] - 1);
    }
    if (most <= span) return 0;
  }
  return 1;
}

static gpured_status gemm_on_copies(const machine *m, const gpured__gemm_plan *p,
                                    const gpured__call *call) {
  const double item =
      (double)p->depth * ((double)p->rows * (double)gpured__dtype_size(p->left.dtype) +
                          (double)p->columns * (double)gpured__dtype_size(p->right.dtype));
  const double bytes = item * (double)p->batches;
  const int64_t n = batch_is_outermost(p) ? p->batch[0].n : 1;
  gemm_copy *copies = (gemm_copy *)malloc(2 * sizeof *copies);
  gpured_status st;
  if (!copies) return GPURED_ERR_ALLOC;
  st = in_pieces(
      m, call, n, steps_in_piece(n, bytes / (double)n), bytes < 1e18 ? (size_t)bytes : SIZE_MAX,
      [&](parcel *to, int k, int64_t from, int64_t count) {
        copies[k].to = to;
        copies[k].from = from;
        copy_gemm(p, &copies[k], n > 1 ? count * (p->batches / n) : p->batches);
      },
      [&](const machine *there, int k) { return gemm_on_device(there, &copies[k].plan, call); });
  free(copies);
  return st;
}

/* ============================================================================================== */
/* 17  The table                                                                                  */
/* ============================================================================================== */
static gpured_status reduce_on_device(const machine *m, const gpured__plan *p,
                                      const gpured__call *call) {
  reduction r;
  scratch s;
  gpured_status st;
  choose(m, p, &r);
  st = find_meeting(m, &r, call->o.workspace != NULL); /* which has to be large enough always */
  if (st != GPURED_OK) return st;
  st = take(call, m, r.workspace, &s);
  if (st != GPURED_OK) return st;
  return give_back(call, m, &s, run_reduction(m, p, &r, s.start));
}

static gpured_status scan_on_device(const machine *m, const gpured__plan *p,
                                    const gpured__call *call) {
  scan_launch launched;
  scratch s;
  gpured_status st;
  choose_scan(m, p, &launched);
  st = take(call, m, launched.workspace, &s);
  if (st != GPURED_OK) return st;
  return give_back(call, m, &s, run_scan(m, &launched, s.start));
}

static gpured_status run_where_it_lies(const machine *m, const gpured__plan *p,
                                       const gpured__call *call,
                                       gpured_status (*run)(const machine *, const gpured__plan *,
                                                            const gpured__call *)) {
  gpured_status st = GPURED_OK;
  if (call->device == GPURED_CPU) return on_copies(m, p, call, run);
  if (p->n > 0) st = check_pointer(m, p->in);
  if (st == GPURED_OK) st = check_pointer(m, p->out);
  return st != GPURED_OK ? st : run(m, p, call);
}

static gpured_status reduce(const gpured__plan *p, const gpured__call *call, size_t *bytes) {
  machine m;
  gpured_status st;
  if (bytes && call->device == GPURED_CPU) return GPURED_OK;
  if (p->outputs == 0) return GPURED_OK;
  st = enter(call, &m);
  if (st != GPURED_OK) return st;
  if (bytes) {
    *bytes = most_workspace(&m, p);
  } else {
    st = run_where_it_lies(&m, p, call, reduce_on_device);
  }
  return leave(&m, st);
}

static gpured_status scan(const gpured__plan *p, const gpured__call *call, size_t *bytes) {
  machine m;
  scan_launch launched;
  gpured_status st;
  if (bytes && call->device == GPURED_CPU) return GPURED_OK;
  if (p->outputs == 0 || p->n == 0) return GPURED_OK;
  st = enter(call, &m);
  if (st != GPURED_OK) return st;
  if (bytes) { /* wherever data will lie: aligned it takes the most */
    gpured__plan anywhere = *p;
    anywhere.in = anywhere.out = NULL;
    choose_scan(&m, &anywhere, &launched);
    *bytes = launched.workspace;
  } else {
    st = run_where_it_lies(&m, p, call, scan_on_device);
  }
  return leave(&m, st);
}

static gpured_status gemm_where_it_lies(const machine *m, const gpured__gemm_plan *p,
                                        const gpured__call *call) {
  gpured_status st = GPURED_OK;
  int r;
  if (call->device == GPURED_CPU) return gemm_on_copies(m, p, call);
  if (p->rows > 0 && p->depth > 0) st = check_pointer(m, p->left.data);
  if (st == GPURED_OK && p->depth > 0) st = check_pointer(m, p->right.data);
  if (st == GPURED_OK && p->row_bias && p->rows > 0) st = check_pointer(m, p->row_bias->data);
  if (st == GPURED_OK && p->column_bias) st = check_pointer(m, p->column_bias->data);
  if (st == GPURED_OK && p->g->c && p->rows > 0) st = check_pointer(m, p->g->c->data);
  for (r = 0; r < p->g->count && st == GPURED_OK; ++r)
    st = check_pointer(m, p->g->results[r].out.data);
  return st == GPURED_OK ? gemm_on_device(m, p, call) : st;
}

/* Enough for operands that begin at borders of 16 bytes, for those that do not, which may go
 * another way, and, if the query is told of such, for their copies. */
static gpured_status query_gemm(const machine *m, const gpured__gemm_plan *p,
                                const gpured__call *call, size_t *bytes) {
  void *const places[] = {NULL, (void *)gpured__dtype_size(p->left.dtype)};
  gpured__gemm_plan placed = *p;
  gpured_status st;
  size_t most = 0;
  gemm_run run;
  for (int i = 0; i < 3; ++i) {
    placed.left.data = i == 2 ? p->left.data : places[i];
    placed.right.data = i == 2 ? p->right.data : places[i];
    st = measure_gemm(m, &placed, call, i == 2 ? EVERY_COPY : FORESEEN_COPIES, &run);
    if (st != GPURED_OK) return st;
    if (most < run.total + run.reducing) most = run.total + run.reducing;
  }
  *bytes = most;
  return GPURED_OK;
}

static gpured_status gemm(const gpured__gemm_plan *p, const gpured__call *call, size_t *bytes) {
  machine m;
  gemm_run run;
  tensor_launch tensor;
  gpured_status st;
  if (p->batches == 0 || p->columns == 0) return GPURED_OK;
  st = enter(call, &m);
  if (st != GPURED_OK) return st;
  if (bytes && choose_tensor(&m, p, call, &tensor)) {
    if (call->device != GPURED_CPU) *bytes = tensor.workspace;
    return leave(&m, GPURED_OK);
  }
  if (!bytes && call->device != GPURED_CPU) return leave(&m, gemm_where_it_lies(&m, p, call));
  if (bytes && call->device != GPURED_CPU) return leave(&m, query_gemm(&m, p, call, bytes));
  st = measure_gemm(&m, p, call, FORESEEN_COPIES, &run);
  if (st == GPURED_OK && !bytes) st = gemm_where_it_lies(&m, p, call);
  return leave(&m, st);
}

#endif /* GPURED__HAS(0) */

/* ============================================================================================== */
/* 18  The tables of kernels                                                                      */
/* ============================================================================================== */
/*
 * A kernel exists where a table names it. Tables are templates first; what part 0 asks for follows
 * them, each table in one part of the file. The parts take a compiler about the same time.
 */

/* ---- Reduce ---- */

/* For any layout: of sequences of a thread, or of any length. */
template <int A, int K>
static const void *any_kernel(int route) {
  return route == ROUTE_ALONE ? (const void *)reduce_alone<A, K> : (const void *)reduce_any<A, K>;
}
template <int A>
static const void *any_kernel_for(int route, int k) {
  switch (k) {
    case K_ADD:
      return any_kernel<A, K_ADD>(route);
    case K_SQUARE:
      return any_kernel<A, K_SQUARE>(route);
    case K_MUL:
      return any_kernel<A, K_MUL>(route);
    case K_MAX:
      return any_kernel<A, K_MAX>(route);
    case K_ARG:
      return any_kernel<A, K_ARG>(route);
  }
  return NULL;
}

template <int A, int D, int K>
static const void *rows_kernel(int how) {
  if (how == READ_EACH) return (const void *)reduce_rows<A, D, K, ROWS_EACH>;
  if (how == READ_SOME) return (const void *)reduce_rows<A, D, K, ROWS_SOME>;
  if (how == READ_WHOLE) return (const void *)reduce_rows<A, D, K, ROWS_WHOLE>;
  if (how == READ_LONG) return (const void *)reduce_long<A, D, K, ROWS_LONG>;
  if (how == READ_RAGGED_EACH) return (const void *)reduce_rows<A, D, K, ROWS_RAGGED_EACH>;
  if (how == READ_RAGGED) return (const void *)reduce_rows<A, D, K, ROWS_RAGGED>;
  return (const void *)reduce_long<A, D, K, ROWS_RAGGED_LONG>;
}

template <int A, int D, int K>
static const void *short_kernel(int how) {
  enum { FEW = is_byte(D) ? (int)COLS_SHORT : (int)COLS_FEW };
  if (is_byte(D) && K == K_MUL)
    return how == READ_FEW_COLS ? (const void *)reduce_short_cols<A, D, K, COLS_FEW, false> : NULL;
  if (how == READ_TWO_SHORT_COLS)
    return (const void *)reduce_short_cols<A, D, K, COLS_SHORT, false, true>;
  if (how == READ_TWO_FEW_COLS) return (const void *)reduce_short_cols<A, D, K, FEW, false, true>;
  if (how == READ_SHORT_COLS) return (const void *)reduce_short_cols<A, D, K, COLS_SHORT, false>;
  if (how == READ_LOOSE_SHORT_COLS)
    return (const void *)reduce_short_cols<A, D, K, COLS_SHORT, true>;
  if (how == READ_FEW_COLS) return (const void *)reduce_short_cols<A, D, K, FEW, false>;
  return (const void *)reduce_short_cols<A, D, K, FEW, true>;
}

/* Of up to 16 rows, or 32: what leaves registers for the results. */
template <int A, int D, int K>
static const void *lane_kernel(int how) {
  enum { WIDE = stored<D>::SIZE == (int)sizeof(typename acc<A>::T) };
  if constexpr (A != GPURED__U64 && D <= GPURED_BF16 && (WIDE || A == GPURED__F32)) {
    if constexpr (K > K_ARG || K <= K_SQUARE)
      if (how == READ_LANE_COLS)
        return (const void *)reduce_short_cols<A, D, K, GPURED__LANES, false>;
    if constexpr (K == K_MOMENTS) {
      if (how == READ_PAIR_COLS) return (const void *)reduce_short_cols<A, D, K, COLS_PAIRS, false>;
      if (how == READ_LOOSE_PAIR_COLS)
        return (const void *)reduce_short_cols<A, D, K, COLS_PAIRS, true>;
    }
    if constexpr (K > K_ARG) return (const void *)reduce_short_cols<A, D, K, GPURED__LANES, true>;
  }
  return NULL;
}

template <int A, int D, int K>
static const void *cols_kernel(int how) {
  if (how == READ_COLS) return (const void *)reduce_cols<A, D, K>;
  if constexpr (A != GPURED__U64 && D <= GPURED_BF16 && K <= K_MUL)
    if (how == READ_SINGLE_COLS) return (const void *)reduce_single_cols<A, D, K>;
  if (how == READ_LANE_COLS || how == READ_LOOSE_LANE_COLS) return lane_kernel<A, D, K>(how);
  return how <= READ_TWO_FEW_COLS ? short_kernel<A, D, K>(how) : NULL;
}

/* What is needed twice: logsumexp and moments. */
template <int A, int D, int K>
static const void *twice_kernel(int how) {
  if (how == READ_SMALL) return (const void *)reduce_small<A, D, K>;
  if (how == READ_ITEMS) return (const void *)reduce_items<A, D, K>;
  if (how == READ_COL_STRIPS) return (const void *)reduce_col_strips<A, D, K, false>;
  if (how == READ_TURNED_STRIPS) return (const void *)reduce_col_strips<A, D, K, true>;
  if (how == READ_FEW_COLS) return (const void *)reduce_short_cols<A, D, K, COLS_FEW, false>;
  if (how == READ_LOOSE_FEW_COLS) return (const void *)reduce_short_cols<A, D, K, COLS_FEW, true>;
  if (how == READ_TWO_FEW_COLS)
    return (const void *)reduce_short_cols<A, D, K, COLS_FEW, false, true>;
  if (how >= READ_LANE_COLS && how <= READ_LOOSE_PAIR_COLS) return lane_kernel<A, D, K>(how);
  if (how == READ_LOOSE_COL_UNITS) return (const void *)reduce_col_units<A, D, K, UNIT_LOOSE>;
  if constexpr (D == GPURED_F64)
    if (how == READ_COL_UNITS) return (const void *)reduce_col_units<A, D, K, 0>;
  if (how == READ_TWO_COL_UNITS) return (const void *)reduce_col_units<A, D, K, 1>;
  if (how == READ_FOUR_COL_UNITS) return (const void *)reduce_col_units<A, D, K, 2>;
  return how < READ_COLS ? rows_kernel<A, D, K>(how) : NULL;
}

/* Few long columns, where they are faster so. */
template <int A, int D>
static const void *units_kernel(int k) {
  if (k == K_ADD) return (const void *)reduce_item_units<A, D, K_ADD>;
  if (k == K_MAX) return (const void *)reduce_item_units<A, D, K_MAX>;
  if (k == K_ARG) return (const void *)reduce_item_units<A, D, K_ARG>;
  if constexpr (A == GPURED__F32) {
    if (k == K_SQUARE) return (const void *)reduce_item_units<A, D, K_SQUARE>;
    if (k == K_LSE) return (const void *)reduce_item_units<A, D, K_LSE>;
    if (k == K_MOMENTS) return (const void *)reduce_item_units<A, D, K_MOMENTS>;
  }
  return NULL;
}

/* Of the ways in which memory is read as it lies. */
template <int A, int D, int K>
static const void *fold_kernel(int how) {
  if (how < READ_COLS) return rows_kernel<A, D, K>(how);
  if (how == READ_ITEMS) return (const void *)reduce_items<A, D, K>;
  if (how == READ_SMALL) return (const void *)reduce_small<A, D, K>;
  return cols_kernel<A, D, K>(how);
}
template <int A, int D>
static const void *folding_kernel(int how, int k) {
  switch (k) {
    case K_ADD:
      return fold_kernel<A, D, K_ADD>(how);
    case K_SQUARE:
      return fold_kernel<A, D, K_SQUARE>(how);
    case K_MUL:
      return fold_kernel<A, D, K_MUL>(how);
    case K_MAX:
      return fold_kernel<A, D, K_MAX>(how);
    case K_ARG:
      return fold_kernel<A, D, K_ARG>(how);
  }
  return NULL;
}

template <int A, int D>
static const void *float_kernel(int how, int k) {
  if (how == READ_ITEM_UNITS) return units_kernel<A, D>(k);
  if (k == K_LSE) return twice_kernel<A, D, K_LSE>(how);
  if (k == K_MOMENTS) return twice_kernel<A, D, K_MOMENTS>(how);
  return folding_kernel<A, D>(how, k);
}

/* Of integers that f64 holds. Sums and squares of bytes are exact in integers. */
template <int D>
static const void *real_kernel(int how, int k) {
  if (k == K_MOMENTS)
    return how == READ_ITEM_UNITS ? (const void *)reduce_item_units<GPURED__F64, D, K_MOMENTS>
                                  : twice_kernel<GPURED__F64, D, K_MOMENTS>(how);
  if constexpr (!is_byte(D)) {
    if (k == K_ADD) return fold_kernel<GPURED__F64, D, K_ADD>(how);
    if (k == K_SQUARE) return fold_kernel<GPURED__F64, D, K_SQUARE>(how);
  }
  return NULL;
}

/* Integers of 32 and 64 bits. */
template <int D>
static const void *integers_kernel(int how, int k) {
  return how == READ_ITEM_UNITS ? units_kernel<GPURED__U64, D>(k)
                                : folding_kernel<GPURED__U64, D>(how, k);
}

/* Tests for zero. */
template <int D>
static const void *truth_kernel(int how, int k) {
  if (how == READ_SMALL && k == K_ADD) return (const void *)reduce_small<GPURED__U64, D, K_ADD>;
  if (how == READ_SMALL && k == K_MAX) return (const void *)reduce_small<GPURED__U64, D, K_MAX>;
  if (how == READ_ITEMS && k == K_ADD) return (const void *)reduce_items<GPURED__U64, D, K_ADD>;
  if (how == READ_ITEMS && k == K_MAX) return (const void *)reduce_items<GPURED__U64, D, K_MAX>;
  if (k == K_ADD)
    return how < READ_COLS ? rows_kernel<GPURED__U64, D, K_ADD>(how)
                           : cols_kernel<GPURED__U64, D, K_ADD>(how);
  if (k != K_MAX) return NULL;
  return how < READ_COLS ? rows_kernel<GPURED__U64, D, K_MAX>(how)
                         : cols_kernel<GPURED__U64, D, K_MAX>(how);
}

/* Of two axes, in short pieces. */
template <int A, int D, int K>
static const void *channel_kernel_of(int turns) {
  return turns ? (const void *)reduce_channels<A, D, K, true>
               : (const void *)reduce_channels<A, D, K, false>;
}
template <int A, int D>
static const void *channel_kernel(int k, int turns) {
  switch (k) {
    case K_ADD:
      return channel_kernel_of<A, D, K_ADD>(turns);
    case K_SQUARE:
      return channel_kernel_of<A, D, K_SQUARE>(turns);
    case K_MUL:
      return channel_kernel_of<A, D, K_MUL>(turns);
    case K_MAX:
      return channel_kernel_of<A, D, K_MAX>(turns);
    case K_ARG:
      return channel_kernel_of<A, D, K_ARG>(turns);
  }
  return NULL;
}
template <int A, int D>
static const void *float_channel_kernel(int k, int turns) {
  if (k == K_LSE) return channel_kernel_of<A, D, K_LSE>(turns);
  if (k == K_MOMENTS) return channel_kernel_of<A, D, K_MOMENTS>(turns);
  return channel_kernel<A, D>(k, turns);
}
template <int D>
static const void *truth_channel_kernel(int k, int turns) {
  if (k == K_ADD) return channel_kernel_of<GPURED__U64, D, K_ADD>(turns);
  return k == K_MAX ? channel_kernel_of<GPURED__U64, D, K_MAX>(turns) : NULL;
}

/* A table's kernel for a dtype, which is both tensors' where a scan has two: floats and integers of
 * 8 bytes, and of 4 too. */
template <template <int, int> class TABLE>
static const void *kernel_of_dtype(int acc, int dtype, int k, int how) {
  switch (acc * 16 + dtype) {
    case GPURED__F32 * 16 + GPURED_F32:
      return TABLE<GPURED__F32, GPURED_F32>::kernel(k, how);
    case GPURED__F32 * 16 + GPURED_F16:
      return TABLE<GPURED__F32, GPURED_F16>::kernel(k, how);
    case GPURED__F32 * 16 + GPURED_BF16:
      return TABLE<GPURED__F32, GPURED_BF16>::kernel(k, how);
    case GPURED__F64 * 16 + GPURED_F64:
      return TABLE<GPURED__F64, GPURED_F64>::kernel(k, how);
    case GPURED__U64 * 16 + GPURED_I64:
    case GPURED__U64 * 16 + GPURED_U64:
      return TABLE<GPURED__U64, GPURED_I64>::kernel(k, how);
  }
  return NULL;
}
template <template <int, int> class TABLE>
static const void *kernel_of_any_width(int acc, int dtype, int k, int how) {
  if (acc == GPURED__U64 && dtype == GPURED_I32)
    return TABLE<GPURED__U64, GPURED_I32>::kernel(k, how);
  if (acc == GPURED__U64 && dtype == GPURED_U32)
    return TABLE<GPURED__U64, GPURED_U32>::kernel(k, how);
  return kernel_of_dtype<TABLE>(acc, dtype, k, how);
}

template <int A, int D>
struct best_table {
  static const void *kernel(int span, int) {
    if (span == BEST_THREADS) return (const void *)reduce_best<A, D, BEST_THREADS>;
    return span == 32 ? (const void *)reduce_best<A, D, 32> : (const void *)reduce_best<A, D, 16>;
  }
};

/* ---- Scan ---- */

template <int A>
static const void *scan_kernel(int k) {
  if (k == K_MUL) return (const void *)scan_lines<A, K_MUL>;
  if (k == K_MAX) return (const void *)scan_lines<A, K_MAX>;
  return (const void *)scan_lines<A, K_ADD>;
}

/* For contiguous lines, of one dtype in both tensors. */
template <int A, int D>
struct stream_table {
  static const void *kernel(int k, int turned) {
    if (k == K_MAX)
      return turned ? (const void *)scan_stream<A, K_MAX, D, true>
                    : (const void *)scan_stream<A, K_MAX, D, false>;
    if (k == K_ADD)
      return turned ? (const void *)scan_stream<A, K_ADD, D, true>
                    : (const void *)scan_stream<A, K_ADD, D, false>;
    return turned ? NULL : (const void *)scan_stream<A, K_MUL, D, false>;
  }
};

template <int A, int D>
struct once_table {
  static const void *kernel(int k, int) {
    if (k == K_MUL) return (const void *)scan_at_once<A, K_MUL, D>;
    if (k == K_MAX) return (const void *)scan_at_once<A, K_MAX, D>;
    return k == K_ADD ? (const void *)scan_at_once<A, K_ADD, D> : NULL;
  }
};

/* For lines side by side, of one dtype in both tensors. */
template <int A, int D>
struct column_scan_table {
  enum { EITHER = D == GPURED_U32 ? (int)GPURED_I32 : D }; /* where signs do not count */
  static const void *kernel(int k, int) {
    if (k == K_MUL) return (const void *)scan_columns<A, K_MUL, EITHER>;
    if (k == K_MAX) return (const void *)scan_columns<A, K_MAX, D>;
    return k == K_ADD ? (const void *)scan_columns<A, K_ADD, EITHER> : NULL;
  }
};

/* Of lines of n elements. */
template <int A, int K, bool PIECE>
static const void *beside_kernel_of_lines(int64_t n) {
  if (n <= BESIDE_TINY) return (const void *)scan_beside_tiny<A, K, PIECE>;
  if (n <= BESIDE_ROWS) return (const void *)scan_beside_short<A, K, PIECE>;
  return (const void *)scan_beside<A, K, PIECE>;
}
template <int A, int K>
static const void *beside_kernel_for(int64_t n, int unit) {
  return unit ? beside_kernel_of_lines<A, K, true>(n) : beside_kernel_of_lines<A, K, false>(n);
}

template <int A>
static const void *beside_kernel(int k, int64_t n, int unit) {
  if (k == K_MUL) return beside_kernel_for<A, K_MUL>(n, unit);
  if (k == K_MAX) return beside_kernel_for<A, K_MAX>(n, unit);
  return beside_kernel_for<A, K_ADD>(n, unit);
}

template <int A, int K, int D>
static const void *few_kernel(int loose) {
  return loose ? (const void *)scan_few_rows<A, K, D, true>
               : (const void *)scan_few_rows<A, K, D, false>;
}
/* Signs count where elements are compared. */
template <int A, int D>
struct few_table {
  enum { EITHER = D == GPURED_U32 ? (int)GPURED_I32 : D == GPURED_U8 ? (int)GPURED_I8 : D };
  static const void *kernel(int k, int loose) {
    if (k == K_MUL) return few_kernel<A, K_MUL, EITHER>(loose);
    if (k == K_MAX) return few_kernel<A, K_MAX, D>(loose);
    return k == K_ADD ? few_kernel<A, K_ADD, EITHER>(loose) : NULL;
  }
};

template <int A, int K, int D>
static const void *short_scan_kernel(int vectors) {
  return vectors ? (const void *)scan_short<A, K, D, true>
                 : (const void *)scan_short<A, K, D, false>;
}
template <int A, int D>
struct short_table {
  static const void *kernel(int k, int vectors) {
    if (k == K_MUL) return short_scan_kernel<A, K_MUL, D>(vectors);
    if (k == K_MAX) return short_scan_kernel<A, K_MAX, D>(vectors);
    return k == K_ADD ? short_scan_kernel<A, K_ADD, D>(vectors) : NULL;
  }
};
/* The sign of an integer matters to what compares. */
template <int SIGNED, int UNSIGNED>
static const void *short_scan_kernel_of_integers(int k, int is_signed, int vectors) {
  return k == K_MAX && is_signed ? short_scan_kernel<GPURED__U64, K_MAX, SIGNED>(vectors)
                                 : short_table<GPURED__U64, UNSIGNED>::kernel(k, vectors);
}

/* Of so many chunks of 512 floats. */
template <int K, int D>
static const void *row_scan_kernel_of(int chunks) {
  switch (chunks) {
#define GPURED__CASE(C) \
  case C:               \
    return (const void *)scan_rows<GPURED__F32, K, D, C>;
    GPURED__CASE(1)
    GPURED__CASE(2)
    GPURED__CASE(3)
    GPURED__CASE(4)
    GPURED__CASE(5)
    GPURED__CASE(6)
    GPURED__CASE(7)
    GPURED__CASE(8)
#undef GPURED__CASE
  }
  return NULL;
}
template <int D>
static const void *row_scan_kernel(int k, int chunks) {
  if (k == K_MUL) return row_scan_kernel_of<K_MUL, D>(chunks);
  if (k == K_MAX) return row_scan_kernel_of<K_MAX, D>(chunks);
  return k == K_ADD ? row_scan_kernel_of<K_ADD, D>(chunks) : NULL;
}

/* ---- GEMM-reduce ---- */

template <int BN>
static const void *tensor_kernel(int kind) {
  enum { PLAIN = BN == 160 ? 256 : BN }; /* of kinds that have no tiles of 160 */
  if (kind == TENSOR_MAX) return (const void *)tensor_tiles<BN, TENSOR_MAX>;
  if (kind == TENSOR_ARG) return (const void *)tensor_tiles<BN, TENSOR_ARG>;
  if (kind == TENSOR_LSE) return (const void *)tensor_tiles<BN, TENSOR_LSE>;
  if (kind == TENSOR_BYTE_MAX) return (const void *)tensor_tiles<PLAIN, TENSOR_BYTE_MAX>;
  if (kind == TENSOR_BYTE_ARG) return (const void *)tensor_tiles<PLAIN, TENSOR_BYTE_ARG>;
  if (kind == TENSOR_SUMS) return (const void *)tensor_tiles<PLAIN, TENSOR_SUMS>;
  return (const void *)tensor_tiles<PLAIN, TENSOR_ANY>;
}

template <int A, int D>
static const void *dot_kernel(int how) {
  if (how == DOT_ANY) return (const void *)dot_any<A, D>;
  if (how == DOT_SEGMENTS) return (const void *)dot_segments<A, D>;
  if (how == DOT_ALONG) return (const void *)dot_along<A, D>;
  if (how == DOT_TOUCHING) return (const void *)dot_touching<A, D>;
  return how == DOT_SHORT ? (const void *)dot_short<A, D> : (const void *)dot_across<A, D>;
}

template <int D>
static const void *integer_kernel(int along, int v) {
  enum { V = 16 / stored<D>::SIZE };
  if (along)
    return v > 1 ? (const void *)dot_integers_along<D, V> : (const void *)dot_integers_along<D, 1>;
  return v > 1 ? (const void *)dot_integers_across<D, V> : (const void *)dot_integers_across<D, 1>;
}

/* The distances of what a thread copies. */
template <class E, class L>
static void set_steps(operand *o) {
  const int64_t size = (int64_t)gpured__dtype_size(o->dtype);
  o->line_bytes = o->across * size * L::LINE_GAP;
  o->deep_bytes = o->along * size * L::STEP_GAP;
  o->slice_bytes = o->along * size * E::BK;
}

template <class E, int LEFT, int RIGHT, int RESIDENT, int WHICH = TILES_ALL>
static void use_slices(const machine *m, product_launch *l) {
  const int along = LEFT == SLICE_ALONG || RIGHT == SLICE_ALONG;
  const size_t ring = ring_of<E>::bytes(m->major < 8 ? 7 : 8, along);
  const size_t strips = 2 * E::PLACES * E::STRIP * sizeof(typename E::T);
  const size_t halves = 2 * E::COLUMNS * E::THREADS * sizeof(typename E::T);
  l->width = E::W;
  l->threads = E::THREADS;
  l->shared = ring > strips ? ring : strips;
  if (E::QUICK && l->shared < halves) l->shared = halves;
  set_steps<E, slices_of<E, E::ROWS, LEFT>>(&l->g.left);
  set_steps<E, slices_of<E, E::W, RIGHT>>(&l->g.right);
  if constexpr (WHICH == TILES_IN_PIECES)
    l->kernel = (const void *)gemm_pieces<E, LEFT, RIGHT>;
  else
    l->kernel = (const void *)gemm_tiles<E, LEFT, RIGHT, RESIDENT, WHICH == TILES_LEFT>;
}

template <class E, int LEFT, int RIGHT, int RESIDENT>
static void use_values(const machine *m, product_launch *l) {
  l->width = E::W;
  l->height = E::ROWS;
  l->threads = E::THREADS;
  l->shared = ring_of<E>::stages(m->major) * sizeof(typename E::S) *
              (slices_of<E, E::ROWS, LEFT>::SIZE + slices_of<E, E::W, RIGHT>::SIZE);
  set_steps<E, slices_of<E, E::ROWS, LEFT>>(&l->g.left);
  set_steps<E, slices_of<E, E::W, RIGHT>>(&l->g.right);
  l->kernel = (const void *)gemm_values<E, LEFT, RIGHT, RESIDENT>;
}

/* An engine whose values go to memory, for the layouts of the operands. */
template <class E, int RESIDENT>
static void use_loose(const machine *m, product_launch *l) {
  const int left_along = l->left & LIES_ALONG, right_along = l->right & LIES_ALONG;
  if (left_along && l->right & LIES_ACROSS)
    use_values<E, SLICE_ALONG, SLICE_VECTORS, RESIDENT>(m, l);
  else if (left_along && right_along)
    use_values<E, SLICE_ALONG, SLICE_ALONG, RESIDENT>(m, l);
  else if (l->left & LIES_ACROSS && l->right & LIES_ACROSS)
    use_values<E, SLICE_VECTORS, SLICE_VECTORS, RESIDENT>(m, l);
  else if (l->left & LIES_ACROSS && right_along)
    use_values<E, SLICE_VECTORS, SLICE_ALONG, RESIDENT>(m, l);
  else
    use_values<E, SLICE_ELEMENTS, SLICE_ELEMENTS, RESIDENT>(m, l);
}

/* An engine for the layouts of the operands. */
template <class E, int RESIDENT, int WHICH = TILES_ALL>
static void use_engine(const machine *m, product_launch *l) {
  const int left = l->left & LIES_ACROSS;
  const int right = l->right & LIES_ACROSS;
  if (left && right)
    use_slices<E, SLICE_VECTORS, SLICE_VECTORS, RESIDENT, WHICH>(m, l);
  else if (left)
    use_slices<E, SLICE_VECTORS, SLICE_ELEMENTS, RESIDENT, WHICH>(m, l);
  else if (right)
    use_slices<E, SLICE_ELEMENTS, SLICE_VECTORS, RESIDENT, WHICH>(m, l);
  else
    use_slices<E, SLICE_ELEMENTS, SLICE_ELEMENTS, RESIDENT, WHICH>(m, l);
}

/* The same for gemm_pieces, where the right operand lies across (take_tiles). */
template <class E>
static void use_pieces(const machine *m, product_launch *l) {
  if (l->left & LIES_ACROSS)
    use_slices<E, SLICE_VECTORS, SLICE_VECTORS, 1, TILES_IN_PIECES>(m, l);
  else
    use_slices<E, SLICE_ELEMENTS, SLICE_VECTORS, 1, TILES_IN_PIECES>(m, l);
}

/* The same for the fp64 units, which read shared memory by single elements in either order. The
 * second one takes more room, which some GPUs do not have. What is whole is one piece. */
template <class E>
static void use_units(const machine *m, product_launch *l) {
  const int left = l->left & LIES_ACROSS;
  const int right = l->right & LIES_ACROSS;
  const int has_room = ring_of<E>::bytes(m->major < 8 ? 7 : 8, 1) <= (size_t)m->shared;
  const int left_along = has_room && l->left & LIES_ALONG;
  const int right_along = has_room && l->right & LIES_ALONG;
  if (left && right)
    use_slices<E, SLICE_VECTORS, SLICE_VECTORS, 1, TILES_IN_PIECES>(m, l);
  else if (left && right_along)
    use_slices<E, SLICE_VECTORS, SLICE_ALONG, 1, TILES_IN_PIECES>(m, l);
  else if (left_along && right)
    use_slices<E, SLICE_ALONG, SLICE_VECTORS, 1, TILES_IN_PIECES>(m, l);
  else if (left_along && right_along)
    use_slices<E, SLICE_ALONG, SLICE_ALONG, 1, TILES_IN_PIECES>(m, l);
  else
    use_slices<E, SLICE_ELEMENTS, SLICE_ELEMENTS, 1>(m, l);
}

/* Both again for small tiles, in fewer instances: what is read otherwise is read by elements. */
template <class E, int RESIDENT, int WHICH = TILES_ALL>
static void use_small_engine(const machine *m, product_launch *l) {
  const int left = l->left & LIES_ACROSS;
  const int right = l->right & LIES_ACROSS;
  if (left && right)
    use_slices<E, SLICE_VECTORS, SLICE_VECTORS, RESIDENT, WHICH>(m, l);
  else if (right)
    use_slices<E, SLICE_ELEMENTS, SLICE_VECTORS, RESIDENT, WHICH>(m, l);
  else
    use_slices<E, SLICE_ELEMENTS, SLICE_ELEMENTS, RESIDENT, WHICH>(m, l);
}

template <class E, int RESIDENT, int WHICH = TILES_ALL>
static void use_small_units(const machine *m, product_launch *l) {
  const int has_room = ring_of<E>::bytes(m->major < 8 ? 7 : 8, 1) <= (size_t)m->shared;
  const int left_along = has_room && l->left & LIES_ALONG;
  if (left_along && l->right & LIES_ACROSS)
    use_slices<E, SLICE_ALONG, SLICE_VECTORS, RESIDENT, WHICH>(m, l);
  else if (left_along && l->right & LIES_ALONG)
    use_slices<E, SLICE_ALONG, SLICE_ALONG, RESIDENT, WHICH>(m, l);
  else
    use_slices<E, SLICE_ELEMENTS, SLICE_ELEMENTS, RESIDENT, WHICH>(m, l);
}

/* S: of the operands. */
template <class S>
static void use_f64_tile(const machine *m, int tile, int which, product_launch *l) {
  if (which == TILES_LEFT) return use_small_units<mma_engine<S, 2, 1>, 3, TILES_LEFT>(m, l);
  switch (tile) {
    case UNITS_WHOLE:
      use_units<mma_engine<S>>(m, l);
      break;
    case UNITS_LOW:
      use_small_units<mma_engine<S, 1, 2>, 4>(m, l);
      break;
    case UNITS_NARROW:
      use_small_units<mma_engine<S, 2, 1>, 3>(m, l);
      break;
    default:
      use_small_engine<fma_engine<GPURED__F64, 1, 32, 1, 4, 1, 1, 2>, 5>(m, l);
  }
}

} /* namespace */

#if GPURED__HAS(1)
GPURED__TABLE const void *gpured__f32_kernel(int how, int kind) {
  return float_kernel<GPURED__F32, GPURED_F32>(how, kind);
}

GPURED__TABLE const void *gpured__real_kernel(int dtype, int how, int kind) {
  switch (dtype) {
    case GPURED_I8:
      return real_kernel<GPURED_I8>(how, kind);
    case GPURED_U8:
      return real_kernel<GPURED_U8>(how, kind);
    case GPURED_I32:
      return real_kernel<GPURED_I32>(how, kind);
    case GPURED_U32:
      return real_kernel<GPURED_U32>(how, kind);
  }
  return NULL;
}

GPURED__TABLE const void *gpured__any_kernel(int acc, int kind, int route) {
  if (acc == GPURED__U64) return any_kernel_for<GPURED__U64>(route, kind);
  if (acc == GPURED__F32) {
    if (kind == K_LSE) return any_kernel<GPURED__F32, K_LSE>(route);
    if (kind == K_MOMENTS) return any_kernel<GPURED__F32, K_MOMENTS>(route);
    return any_kernel_for<GPURED__F32>(route, kind);
  }
  if (kind == K_LSE) return any_kernel<GPURED__F64, K_LSE>(route);
  if (kind == K_MOMENTS) return any_kernel<GPURED__F64, K_MOMENTS>(route);
  return any_kernel_for<GPURED__F64>(route, kind);
}
#endif

#if GPURED__HAS(2)
GPURED__TABLE const void *gpured__f16_kernel(int how, int kind) {
  return float_kernel<GPURED__F32, GPURED_F16>(how, kind);
}

GPURED__TABLE const void *gpured__bf16_kernel(int how, int kind) {
  return float_kernel<GPURED__F32, GPURED_BF16>(how, kind);
}
#endif

#if GPURED__HAS(3)
GPURED__TABLE const void *gpured__f64_kernel(int how, int kind) {
  return float_kernel<GPURED__F64, GPURED_F64>(how, kind);
}

GPURED__TABLE const void *gpured__f32_in_f64_kernel(int how, int kind) {
  return float_kernel<GPURED__F64, GPURED_F32>(how, kind);
}
#endif

#if GPURED__HAS(4)
GPURED__TABLE const void *gpured__truth_kernel(int dtype, int how, int kind) {
  switch (dtype) {
    case GPURED_F32:
      return truth_kernel<GPURED_F32>(how, kind);
    case GPURED_F64:
      return truth_kernel<GPURED_F64>(how, kind);
    case GPURED_F16:
      return truth_kernel<GPURED_F16>(how, kind);
  }
  return NULL;
}

GPURED__TABLE const void *gpured__byte_kernel(int dtype, int how, int kind) {
  switch (dtype) {
    case GPURED_I8:
      return folding_kernel<GPURED__U64, GPURED_I8>(how, kind);
    case GPURED_U8:
      return folding_kernel<GPURED__U64, GPURED_U8>(how, kind);
  }
  return NULL;
}
#endif

#if GPURED__HAS(5)
GPURED__TABLE const void *gpured__integer_kernel(int dtype, int how, int kind) {
  switch (dtype) {
    case GPURED_I32:
      return integers_kernel<GPURED_I32>(how, kind);
    case GPURED_U32:
      return integers_kernel<GPURED_U32>(how, kind);
    case GPURED_I64:
      return integers_kernel<GPURED_I64>(how, kind);
  }
  return NULL;
}

GPURED__TABLE const void *gpured__few_kernel(int acc, int k, int dtype, int loose) {
  if (acc == GPURED__U64 && dtype == GPURED_I8)
    return few_table<GPURED__U64, GPURED_I8>::kernel(k, loose);
  if (acc == GPURED__U64 && dtype == GPURED_U8)
    return few_table<GPURED__U64, GPURED_U8>::kernel(k, loose);
  return kernel_of_any_width<few_table>(acc, dtype, k, loose);
}

GPURED__TABLE const void *gpured__short_scan_kernel(int acc, int k, int dtype, int vectors) {
  if (acc == GPURED__U64 && (dtype == GPURED_I32 || dtype == GPURED_U32))
    return short_scan_kernel_of_integers<GPURED_I32, GPURED_U32>(k, dtype == GPURED_I32, vectors);
  if (acc == GPURED__U64 && (dtype == GPURED_I8 || dtype == GPURED_U8))
    return short_scan_kernel_of_integers<GPURED_I8, GPURED_U8>(k, dtype == GPURED_I8, vectors);
  return kernel_of_dtype<short_table>(acc, dtype, k, vectors);
}
#endif

#if GPURED__HAS(6)
GPURED__TABLE const void *gpured__scan_kernel(int acc, int k) {
  if (acc == GPURED__U64) return scan_kernel<GPURED__U64>(k);
  if (acc == GPURED__F32)
    return k == K_LSE ? (const void *)scan_lines<GPURED__F32, K_LSE> : scan_kernel<GPURED__F32>(k);
  return k == K_LSE ? (const void *)scan_lines<GPURED__F64, K_LSE> : scan_kernel<GPURED__F64>(k);
}

GPURED__TABLE const void *gpured__stream_kernel(int acc, int k, int dtype, int turned) {
  return k == K_LSE ? NULL : kernel_of_any_width<stream_table>(acc, dtype, k, turned);
}

GPURED__TABLE const void *gpured__once_kernel(int acc, int k, int dtype) {
  return kernel_of_any_width<once_table>(acc, dtype, k, 0);
}
#endif

#if GPURED__HAS(7)
GPURED__TABLE const void *gpured__beside_kernel(int acc, int k, int64_t n, int unit) {
  if (acc == GPURED__U64) return beside_kernel<GPURED__U64>(k, n, unit);
  if (acc == GPURED__F32)
    return k == K_LSE ? beside_kernel_for<GPURED__F32, K_LSE>(n, unit)
                      : beside_kernel<GPURED__F32>(k, n, unit);
  return k == K_LSE ? beside_kernel_for<GPURED__F64, K_LSE>(n, unit)
                    : beside_kernel<GPURED__F64>(k, n, unit);
}

GPURED__TABLE const void *gpured__dot_kernel(int acc, int dtype, int how) {
  switch (acc * 16 + dtype) {
    case GPURED__F32 * 16 + GPURED_F32:
      return dot_kernel<GPURED__F32, GPURED_F32>(how);
    case GPURED__F32 * 16 + GPURED_F16:
      return dot_kernel<GPURED__F32, GPURED_F16>(how);
    case GPURED__F32 * 16 + GPURED_BF16:
      return dot_kernel<GPURED__F32, GPURED_BF16>(how);
    case GPURED__F64 * 16 + GPURED_F64:
      return dot_kernel<GPURED__F64, GPURED_F64>(how);
    case GPURED__F64 * 16 + GPURED_F32:
      return dot_kernel<GPURED__F64, GPURED_F32>(how);
  }
  return NULL;
}

GPURED__TABLE const void *gpured__integer_dot_kernel(int dtype, int along, int v) {
  switch (dtype) {
    case GPURED_I8:
      return integer_kernel<GPURED_I8>(along, v);
    case GPURED_U8:
      return integer_kernel<GPURED_U8>(along, v);
    case GPURED_I32:
      return integer_kernel<GPURED_I32>(along, v);
    case GPURED_U32:
      return integer_kernel<GPURED_U32>(along, v);
    default: /* of 64 bits, signed or not */
      return integer_kernel<GPURED_I64>(along, v);
  }
}
#endif

#if GPURED__HAS(8)
typedef fma_engine<GPURED__F32, 8, 16, 0, 3, 2, 2> quarter_engine;
typedef fma_engine<GPURED__F32, 4, 16, 1, 4, 2, 1> narrow_engine;

/* Tiles in pieces are wide ones, and those that a launch has left are of one of two kinds. */
GPURED__TABLE void gpured__use_f32_tile(const machine *m, int tile, int which, product_launch *l) {
  if (which == TILES_IN_PIECES)
    return use_pieces<fma_engine<GPURED__F32, 16, 8, 1, 5, 2, 4, 8, true>>(m, l);
  if (which && tile == TILE_QUARTER) return use_engine<quarter_engine, 3, TILES_LEFT>(m, l);
  if (which) return use_small_engine<narrow_engine, 5, TILES_LEFT>(m, l);
  switch (tile) {
    case TILE_WIDE:
      use_engine<fma_engine<GPURED__F32, 16, 8, 1, 5>, 1>(m, l);
      break;
    case TILE_HALF:
      use_engine<fma_engine<GPURED__F32, 8, 16, 0, 3>, 2>(m, l);
      break;
    case TILE_QUARTER:
      use_engine<quarter_engine, 3>(m, l);
      break;
    case TILE_LOW:
      use_engine<fma_engine<GPURED__F32, 8, 16, 0, 3, 1, 2>, 6>(m, l);
      break;
    case TILE_NARROW:
      use_small_engine<narrow_engine, 5>(m, l);
      break;
    case TILE_LOW_NARROW:
      use_small_engine<fma_engine<GPURED__F32, 4, 16, 1, 2, 1, 1>, 16>(m, l);
      break;
    case TILE_FLAT:
      use_small_engine<fma_engine<GPURED__F32, 4, 16, 1, 2, 1, 1, 2>, 16>(m, l);
      break;
    case TILE_THIN:
      use_small_engine<fma_engine<GPURED__F32, 2, 32, 1, 3, 2, 1>, 4>(m, l);
      break;
    default:
      use_small_engine<fma_engine<GPURED__F32, 1, 32, 1, 6, 1, 1, 2>, 7>(m, l);
  }
}
#endif

#if GPURED__HAS(9)
GPURED__TABLE const void *gpured__tensor_kernel(int tile, int kind) {
  if (tile == 64) return tensor_kernel<64>(kind);
  return tile == 160 ? tensor_kernel<160>(kind) : tensor_kernel<256>(kind);
}

GPURED__TABLE const void *gpured__hmma_kernel(int kind) {
  if (kind == TENSOR_MAX) return (const void *)tensor_hmma<TENSOR_MAX>;
  if (kind == TENSOR_ARG) return (const void *)tensor_hmma<TENSOR_ARG>;
  if (kind == TENSOR_LSE) return (const void *)tensor_hmma<TENSOR_LSE>;
  return (const void *)tensor_hmma<TENSOR_ANY>;
}
#endif

#if GPURED__HAS(10)
GPURED__TABLE void gpured__use_f64_tile(const machine *m, int tile, int which, product_launch *l) {
  use_f64_tile<double>(m, tile, which, l);
}
#endif

#if GPURED__HAS(11)
GPURED__TABLE void gpured__use_f32_in_f64_tile(const machine *m, int tile, int which,
                                               product_launch *l) {
  use_f64_tile<float>(m, tile, which, l);
}

/* bytes: 1 signed, 2 unsigned, for tensor cores. */
GPURED__TABLE void gpured__use_any_tile(const machine *m, int bytes, product_launch *l) {
  if (bytes == 1)
    use_slices<byte_engine<true>, SLICE_ALONG, SLICE_ALONG, 2>(m, l);
  else if (bytes)
    use_slices<byte_engine<false>, SLICE_ALONG, SLICE_ALONG, 2>(m, l);
  else if (l->acc == GPURED__U64)
    use_slices<fma_engine<GPURED__U64, 4, 8, 1, 4>, SLICE_CONVERT, SLICE_CONVERT, 1>(m, l);
  else
    use_slices<mma_engine<double>, SLICE_CONVERT, SLICE_CONVERT, 1>(m, l);
}
#endif

#if GPURED__HAS(12)
GPURED__TABLE void gpured__use_loose_tile(const machine *m, int tile, int dtype,
                                          product_launch *l) {
  if (l->acc == GPURED__F64 && dtype == GPURED_F64) return use_loose<loose_units<double>, 2>(m, l);
  if (l->acc == GPURED__F64) return use_loose<loose_units<float>, 4>(m, l);
  if (tile == TILE_LOOSE_LOW) return use_loose<loose_engine<1, 2, 2, 64, 4>, 2>(m, l);
  if (tile == TILE_LOOSE) return use_loose<loose_engine<2, 2, 2, 64, 3>, 2>(m, l);
  use_loose<loose_engine<4, 2, 2, 32, 4>, 4>(m, l);
}

GPURED__TABLE const void *gpured__row_scan_kernel(int k, int dtype, int chunks) {
  if (dtype == GPURED_F32) return row_scan_kernel<GPURED_F32>(k, chunks);
  if (dtype == GPURED_F16) return row_scan_kernel<GPURED_F16>(k, chunks);
  return dtype == GPURED_BF16 ? row_scan_kernel<GPURED_BF16>(k, chunks) : NULL;
}
#endif

#if GPURED__HAS(13)
GPURED__TABLE const void *gpured__column_scan_kernel(int acc, int k, int dtype) {
  return kernel_of_any_width<column_scan_table>(acc, dtype, k, 0);
}

GPURED__TABLE const void *gpured__channel_kernel(int acc, int dtype, int kind, int turns) {
  switch (acc * 16 + dtype) {
    case GPURED__F32 * 16 + GPURED_F32:
      return float_channel_kernel<GPURED__F32, GPURED_F32>(kind, turns);
    case GPURED__F32 * 16 + GPURED_F16:
      return float_channel_kernel<GPURED__F32, GPURED_F16>(kind, turns);
    case GPURED__F32 * 16 + GPURED_BF16:
      return float_channel_kernel<GPURED__F32, GPURED_BF16>(kind, turns);
    case GPURED__F64 * 16 + GPURED_F32:
      return float_channel_kernel<GPURED__F64, GPURED_F32>(kind, turns);
    case GPURED__F64 * 16 + GPURED_F64:
      return float_channel_kernel<GPURED__F64, GPURED_F64>(kind, turns);
    case GPURED__U64 * 16 + GPURED_F32:
      return truth_channel_kernel<GPURED_F32>(kind, turns);
    case GPURED__U64 * 16 + GPURED_F64:
      return truth_channel_kernel<GPURED_F64>(kind, turns);
    case GPURED__U64 * 16 + GPURED_F16:
      return truth_channel_kernel<GPURED_F16>(kind, turns);
    case GPURED__U64 * 16 + GPURED_I8:
      return channel_kernel<GPURED__U64, GPURED_I8>(kind, turns);
    case GPURED__U64 * 16 + GPURED_U8:
      return channel_kernel<GPURED__U64, GPURED_U8>(kind, turns);
    case GPURED__U64 * 16 + GPURED_I32:
      return channel_kernel<GPURED__U64, GPURED_I32>(kind, turns);
    case GPURED__U64 * 16 + GPURED_U32:
      return channel_kernel<GPURED__U64, GPURED_U32>(kind, turns);
    case GPURED__U64 * 16 + GPURED_I64:
      return channel_kernel<GPURED__U64, GPURED_I64>(kind, turns);
  }
  return NULL;
}

GPURED__TABLE const void *gpured__best_kernel(int acc, int dtype, int span) {
  return kernel_of_any_width<best_table>(acc, dtype, span, 0);
}
#endif

#if GPURED__HAS(0)
extern "C" const gpured__backend gpured__cuda_backend = {GPURED__BACKEND_ABI, available, reduce,
                                                         scan, gemm};
#endif
