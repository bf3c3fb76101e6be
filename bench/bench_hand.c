/*
 * Hand-written kernels for the peers and the ceilings, at the best level of the processor whatever
 * the compiler flags are. They give up everything but speed: free order, no NaN rules.
 */
#include "bench.h"

#include <string.h>

/* Clang takes the inscan clause but cannot vectorise it: no peer there. */
#if defined(_OPENMP) && defined(__GNUC__) && !defined(__clang__)
#define BENCH_INSCAN (__GNUC__ >= 10)
#else
#define BENCH_INSCAN 0
#endif

enum { PLACE = 64 * 1024 }; /* bytes to each of four places */

#if BENCH_X86
#include <immintrin.h>
#define AVX512 __attribute__((target("avx512f")))
#define AVX2 __attribute__((target("avx2,fma")))
#endif

/* --- any processor: a "vector" is one element --------------------------------------------------
 */
#define T float
#define V float
#define W 1u
#define LEVEL plain_f32
#define ATTR
#define SHORT_ROWS NULL
#define V_SET1(a) ((T)(a))
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_STREAM(p, v) (*(p) = (v))
#define V_FENCE() ((void)0)
#define V_ADD(a, b) ((a) + (b))
#define V_MIN(a, b) ((b) < (a) ? (b) : (a))
#define V_MAX(a, b) ((b) > (a) ? (b) : (a))
#define V_FMA(a, b, c) ((a) * (b) + (c))
#define V_SCAN(v) (v)
#define V_LAST(v) (v)
#include "bench_vec.h"

#define T double
#define V double
#define W 1u
#define LEVEL plain_f64
#define ATTR
#define SHORT_ROWS NULL
#define V_SET1(a) ((T)(a))
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_STREAM(p, v) (*(p) = (v))
#define V_FENCE() ((void)0)
#define V_ADD(a, b) ((a) + (b))
#define V_MIN(a, b) ((b) < (a) ? (b) : (a))
#define V_MAX(a, b) ((b) > (a) ? (b) : (a))
#define V_FMA(a, b, c) ((a) * (b) + (c))
#define V_SCAN(v) (v)
#define V_LAST(v) (v)
#include "bench_vec.h"

#if BENCH_X86

/* --- AVX-512 -----------------------------------------------------------------------------------
 */
static inline AVX512 __m512 scan16_avx512(__m512 v) {
  const __m512i i = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i s1 = _mm512_sub_epi32(i, _mm512_set1_epi32(1));
  const __m512i s2 = _mm512_sub_epi32(i, _mm512_set1_epi32(2));
  const __m512i s4 = _mm512_sub_epi32(i, _mm512_set1_epi32(4));
  const __m512i s8 = _mm512_sub_epi32(i, _mm512_set1_epi32(8));
  v = _mm512_add_ps(v, _mm512_maskz_permutexvar_ps((__mmask16)0xfffe, s1, v));
  v = _mm512_add_ps(v, _mm512_maskz_permutexvar_ps((__mmask16)0xfffc, s2, v));
  v = _mm512_add_ps(v, _mm512_maskz_permutexvar_ps((__mmask16)0xfff0, s4, v));
  return _mm512_add_ps(v, _mm512_maskz_permutexvar_ps((__mmask16)0xff00, s8, v));
}

static inline AVX512 __m512d scan8_avx512(__m512d v) {
  const __m512i i = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i s1 = _mm512_sub_epi64(i, _mm512_set1_epi64(1));
  const __m512i s2 = _mm512_sub_epi64(i, _mm512_set1_epi64(2));
  const __m512i s4 = _mm512_sub_epi64(i, _mm512_set1_epi64(4));
  v = _mm512_add_pd(v, _mm512_maskz_permutexvar_pd((__mmask8)0xfe, s1, v));
  v = _mm512_add_pd(v, _mm512_maskz_permutexvar_pd((__mmask8)0xfc, s2, v));
  return _mm512_add_pd(v, _mm512_maskz_permutexvar_pd((__mmask8)0xf0, s4, v));
}

/* Neighbours added inside each quarter: of a and b, (a0+a1, a2+a3, b0+b1, b2+b3) four times. */
static inline AVX512 __m512 pairs_avx512(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/* Neighbouring quarters added: (a0+a1, a2+a3, b0+b1, b2+b3), each a quarter. */
static inline AVX512 __m512 quarters_avx512(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* Rows of eight, sixteen rows at a time. */
static AVX512 void rows_of_8_avx512(const float *x, size_t rows, float *out) {
  const __m512i order = _mm512_set_epi32(15, 11, 14, 10, 13, 9, 12, 8, 7, 3, 6, 2, 5, 1, 4, 0);
  size_t i, j;
  for (i = 0; rows - i >= 16; i += 16) {
    const float *p = x + 8 * i;
    __m512 a = pairs_avx512(_mm512_loadu_ps(p), _mm512_loadu_ps(p + 16));
    __m512 b = pairs_avx512(_mm512_loadu_ps(p + 32), _mm512_loadu_ps(p + 48));
    __m512 c = pairs_avx512(_mm512_loadu_ps(p + 64), _mm512_loadu_ps(p + 80));
    __m512 d = pairs_avx512(_mm512_loadu_ps(p + 96), _mm512_loadu_ps(p + 112));
    a = quarters_avx512(pairs_avx512(a, b), pairs_avx512(c, d));
    _mm512_storeu_ps(out + i, _mm512_permutexvar_ps(order, a));
  }
  for (; i < rows; ++i)
    for (out[i] = x[8 * i], j = 1; j < 8; ++j) out[i] = out[i] + x[8 * i + j];
}

static inline AVX512 __m512 row_sum_avx512(const float *x, size_t cols) {
  __m512 a = _mm512_loadu_ps(x);
  size_t j;
  for (j = 16; j < cols; j += 16) a = _mm512_add_ps(a, _mm512_loadu_ps(x + j));
  return a;
}

/* Rows of a few whole vectors: sixteen rows to one vector of sums. */
static AVX512 void rows_of_vectors_avx512(const float *x, size_t rows, size_t cols, float *out) {
  size_t i, k;
  for (i = 0; rows - i >= 16; i += 16) {
    __m512 u[4];
    for (k = 0; k < 4; ++k) {
      const float *p = x + (i + 4 * k) * cols;
      __m512 a = pairs_avx512(row_sum_avx512(p, cols), row_sum_avx512(p + cols, cols));
      __m512 b =
          pairs_avx512(row_sum_avx512(p + 2 * cols, cols), row_sum_avx512(p + 3 * cols, cols));
      u[k] = pairs_avx512(a, b);
    }
    u[0] = quarters_avx512(quarters_avx512(u[0], u[1]), quarters_avx512(u[2], u[3]));
    _mm512_storeu_ps(out + i, u[0]);
  }
  for (; i < rows; ++i)
    for (out[i] = x[i * cols], k = 1; k < cols; ++k) out[i] = out[i] + x[i * cols + k];
}

static void short_rows_avx512(const void *x, size_t rows, size_t cols, void *out) {
  const float *in = (const float *)x;
  float *sums = (float *)out;
  if (cols == 8)
    rows_of_8_avx512(in, rows, sums);
  else
    rows_of_vectors_avx512(in, rows, cols, sums);
}

#define T float
#define V __m512
#define W 16u
#define LEVEL avx512_f32
#define ATTR AVX512
#define SHORT_ROWS short_rows_avx512
#define V_SET1(a) _mm512_set1_ps((float)(a))
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_STREAM(p, v) _mm512_stream_ps(p, v)
#define V_FENCE() _mm_sfence()
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_MIN(a, b) _mm512_min_ps(a, b)
#define V_MAX(a, b) _mm512_max_ps(a, b)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_SCAN(v) scan16_avx512(v)
#define V_LAST(v) _mm512_permutexvar_ps(_mm512_set1_epi32(15), v)
#include "bench_vec.h"

#define T double
#define V __m512d
#define W 8u
#define LEVEL avx512_f64
#define ATTR AVX512
#define SHORT_ROWS NULL
#define V_SET1(a) _mm512_set1_pd((double)(a))
#define V_LOAD(p) _mm512_loadu_pd(p)
#define V_STORE(p, v) _mm512_storeu_pd(p, v)
#define V_STREAM(p, v) _mm512_stream_pd(p, v)
#define V_FENCE() _mm_sfence()
#define V_ADD(a, b) _mm512_add_pd(a, b)
#define V_MIN(a, b) _mm512_min_pd(a, b)
#define V_MAX(a, b) _mm512_max_pd(a, b)
#define V_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define V_SCAN(v) scan8_avx512(v)
#define V_LAST(v) _mm512_permutexvar_pd(_mm512_set1_epi64(7), v)
#include "bench_vec.h"

static AVX512 double sum64_avx512(const float *x, size_t n) {
  __m512d a = _mm512_setzero_pd(), b = a, c = a, d = a;
  double lane[8], r = 0;
  size_t i, l;
  for (i = 0; n - i >= 32; i += 32) {
    a = _mm512_add_pd(a, _mm512_cvtps_pd(_mm256_loadu_ps(x + i)));
    b = _mm512_add_pd(b, _mm512_cvtps_pd(_mm256_loadu_ps(x + i + 8)));
    c = _mm512_add_pd(c, _mm512_cvtps_pd(_mm256_loadu_ps(x + i + 16)));
    d = _mm512_add_pd(d, _mm512_cvtps_pd(_mm256_loadu_ps(x + i + 24)));
  }
  _mm512_storeu_pd(lane, _mm512_add_pd(_mm512_add_pd(a, b), _mm512_add_pd(c, d)));
  for (l = 0; l < 8; ++l) r += lane[l];
  for (; i < n; ++i) r += (double)x[i];
  return r;
}

static AVX512 uint64_t read_avx512(const char *x, size_t bytes) {
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a, e = a, f = a, g = a, h = a;
  uint64_t lane[8], r = 0;
  size_t i, l;
  for (i = 0; bytes - i >= 512; i += 512) {
    a = _mm512_or_si512(a, _mm512_loadu_si512(x + i));
    b = _mm512_or_si512(b, _mm512_loadu_si512(x + i + 64));
    c = _mm512_or_si512(c, _mm512_loadu_si512(x + i + 128));
    d = _mm512_or_si512(d, _mm512_loadu_si512(x + i + 192));
    e = _mm512_or_si512(e, _mm512_loadu_si512(x + i + 256));
    f = _mm512_or_si512(f, _mm512_loadu_si512(x + i + 320));
    g = _mm512_or_si512(g, _mm512_loadu_si512(x + i + 384));
    h = _mm512_or_si512(h, _mm512_loadu_si512(x + i + 448));
  }
  a = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
  e = _mm512_or_si512(_mm512_or_si512(e, f), _mm512_or_si512(g, h));
  _mm512_storeu_si512(lane, _mm512_or_si512(a, e));
  for (l = 0; l < 8; ++l) r |= lane[l];
  for (; i < bytes; ++i) r |= (uint64_t)(unsigned char)x[i];
  return r;
}

/* From four places in turn, of which memory gives some processors more than from one. */
static AVX512 uint64_t read_places_avx512(const char *x, size_t bytes) {
  __m512i v[4];
  uint64_t lane[32], r;
  size_t i, k, j;
  for (j = 0; j < 4; ++j) v[j] = _mm512_setzero_si512();
  for (i = 0; bytes - i >= 4 * PLACE; i += 4 * PLACE)
    for (k = 0; k < PLACE; k += 128)
      for (j = 0; j < 4; ++j) {
        const __m512i *p = (const __m512i *)(const void *)(x + i + j * PLACE + k);
        const __m512i both = _mm512_or_si512(_mm512_loadu_si512(p), _mm512_loadu_si512(p + 1));
        v[j] = _mm512_or_si512(v[j], both);
      }
  memcpy(lane, v, sizeof lane);
  for (r = read_avx512(x + i, bytes - i), k = 0; k < 32; ++k) r |= lane[k];
  return r;
}

static AVX512 void stream_avx512(char *to, const char *from, size_t bytes) {
  size_t i;
  for (i = 0; bytes - i >= 256; i += 256) {
    __m512i a = _mm512_loadu_si512(from + i), b = _mm512_loadu_si512(from + i + 64);
    __m512i c = _mm512_loadu_si512(from + i + 128), d = _mm512_loadu_si512(from + i + 192);
    _mm512_stream_si512((void *)(to + i), a), _mm512_stream_si512((void *)(to + i + 64), b);
    _mm512_stream_si512((void *)(to + i + 128), c), _mm512_stream_si512((void *)(to + i + 192), d);
  }
  _mm_sfence();
  memcpy(to + i, from + i, bytes - i);
}

/* --- AVX2 and FMA ------------------------------------------------------------------------------
 */
static inline AVX2 __m256 scan8_avx2(__m256 v) {
  __m256 low;
  v = _mm256_add_ps(v, _mm256_castsi256_ps(_mm256_slli_si256(_mm256_castps_si256(v), 4)));
  v = _mm256_add_ps(v, _mm256_castsi256_ps(_mm256_slli_si256(_mm256_castps_si256(v), 8)));
  low = _mm256_permute2f128_ps(v, v, 0x08);
  return _mm256_add_ps(v, _mm256_permute_ps(low, 0xff));
}

static inline AVX2 __m256d scan4_avx2(__m256d v) {
  __m256d low;
  v = _mm256_add_pd(v, _mm256_castsi256_pd(_mm256_slli_si256(_mm256_castpd_si256(v), 8)));
  low = _mm256_permute2f128_pd(v, v, 0x08);
  return _mm256_add_pd(v, _mm256_permute_pd(low, 0xf));
}

static inline AVX2 __m256 row_sum_avx2(const float *x, size_t cols) {
  __m256 a = _mm256_loadu_ps(x);
  size_t j;
  for (j = 8; j < cols; j += 8) a = _mm256_add_ps(a, _mm256_loadu_ps(x + j));
  return a;
}

static AVX2 void short_rows_avx2(const void *data, size_t rows, size_t cols, void *result) {
  const float *x = (const float *)data;
  float *out = (float *)result;
  size_t i, k;
  for (i = 0; rows - i >= 8; i += 8) {
    __m256 h[2];
    for (k = 0; k < 2; ++k) {
      const float *p = x + (i + 4 * k) * cols;
      __m256 a = _mm256_hadd_ps(row_sum_avx2(p, cols), row_sum_avx2(p + cols, cols));
      __m256 b = _mm256_hadd_ps(row_sum_avx2(p + 2 * cols, cols), row_sum_avx2(p + 3 * cols, cols));
      h[k] = _mm256_hadd_ps(a, b);
    }
    _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_permute2f128_ps(h[0], h[1], 0x20),
                                            _mm256_permute2f128_ps(h[0], h[1], 0x31)));
  }
  for (; i < rows; ++i)
    for (out[i] = x[i * cols], k = 1; k < cols; ++k) out[i] = out[i] + x[i * cols + k];
}

#define T float
#define V __m256
#define W 8u
#define LEVEL avx2_f32
#define ATTR AVX2
#define SHORT_ROWS short_rows_avx2
#define V_SET1(a) _mm256_set1_ps((float)(a))
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_STREAM(p, v) _mm256_stream_ps(p, v)
#define V_FENCE() _mm_sfence()
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_MIN(a, b) _mm256_min_ps(a, b)
#define V_MAX(a, b) _mm256_max_ps(a, b)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_SCAN(v) scan8_avx2(v)
#define V_LAST(v) _mm256_permutevar8x32_ps(v, _mm256_set1_epi32(7))
#include "bench_vec.h"

#define T double
#define V __m256d
#define W 4u
#define LEVEL avx2_f64
#define ATTR AVX2
#define SHORT_ROWS NULL
#define V_SET1(a) _mm256_set1_pd((double)(a))
#define V_LOAD(p) _mm256_loadu_pd(p)
#define V_STORE(p, v) _mm256_storeu_pd(p, v)
#define V_STREAM(p, v) _mm256_stream_pd(p, v)
#define V_FENCE() _mm_sfence()
#define V_ADD(a, b) _mm256_add_pd(a, b)
#define V_MIN(a, b) _mm256_min_pd(a, b)
#define V_MAX(a, b) _mm256_max_pd(a, b)
#define V_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define V_SCAN(v) scan4_avx2(v)
#define V_LAST(v) _mm256_permute4x64_pd(v, 0xff)
#include "bench_vec.h"

static AVX2 double sum64_avx2(const float *x, size_t n) {
  __m256d a = _mm256_setzero_pd(), b = a, c = a, d = a;
  double lane[4], r;
  size_t i;
  for (i = 0; n - i >= 16; i += 16) {
    a = _mm256_add_pd(a, _mm256_cvtps_pd(_mm_loadu_ps(x + i)));
    b = _mm256_add_pd(b, _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4)));
    c = _mm256_add_pd(c, _mm256_cvtps_pd(_mm_loadu_ps(x + i + 8)));
    d = _mm256_add_pd(d, _mm256_cvtps_pd(_mm_loadu_ps(x + i + 12)));
  }
  _mm256_storeu_pd(lane, _mm256_add_pd(_mm256_add_pd(a, b), _mm256_add_pd(c, d)));
  for (r = lane[0] + lane[1] + lane[2] + lane[3]; i < n; ++i) r += (double)x[i];
  return r;
}

static AVX2 uint64_t read_avx2(const char *x, size_t bytes) {
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a, e = a, f = a, g = a, h = a;
  uint64_t lane[4], r;
  size_t i;
  for (i = 0; bytes - i >= 256; i += 256) {
    const __m256i *p = (const __m256i *)(const void *)(x + i);
    a = _mm256_or_si256(a, _mm256_loadu_si256(p)),
    b = _mm256_or_si256(b, _mm256_loadu_si256(p + 1));
    c = _mm256_or_si256(c, _mm256_loadu_si256(p + 2));
    d = _mm256_or_si256(d, _mm256_loadu_si256(p + 3));
    e = _mm256_or_si256(e, _mm256_loadu_si256(p + 4));
    f = _mm256_or_si256(f, _mm256_loadu_si256(p + 5));
    g = _mm256_or_si256(g, _mm256_loadu_si256(p + 6));
    h = _mm256_or_si256(h, _mm256_loadu_si256(p + 7));
  }
  a = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
  e = _mm256_or_si256(_mm256_or_si256(e, f), _mm256_or_si256(g, h));
  _mm256_storeu_si256((__m256i *)(void *)lane, _mm256_or_si256(a, e));
  for (r = lane[0] | lane[1] | lane[2] | lane[3]; i < bytes; ++i) {
    r |= (uint64_t)(unsigned char)x[i];
  }
  return r;
}

static AVX2 uint64_t read_places_avx2(const char *x, size_t bytes) {
  __m256i v[4];
  uint64_t lane[16], r;
  size_t i, k, j;
  for (j = 0; j < 4; ++j) v[j] = _mm256_setzero_si256();
  for (i = 0; bytes - i >= 4 * PLACE; i += 4 * PLACE)
    for (k = 0; k < PLACE; k += 64)
      for (j = 0; j < 4; ++j) {
        const __m256i *p = (const __m256i *)(const void *)(x + i + j * PLACE + k);
        const __m256i both = _mm256_or_si256(_mm256_loadu_si256(p), _mm256_loadu_si256(p + 1));
        v[j] = _mm256_or_si256(v[j], both);
      }
  memcpy(lane, v, sizeof lane);
  for (r = read_avx2(x + i, bytes - i), k = 0; k < 16; ++k) r |= lane[k];
  return r;
}

static AVX2 void stream_avx2(char *to, const char *from, size_t bytes) {
  size_t i, k;
  for (i = 0; bytes - i >= 128; i += 128)
    for (k = 0; k < 128; k += 32) {
      const void *p = from + i + k;
      void *q = to + i + k;
      _mm256_stream_si256((__m256i *)q, _mm256_loadu_si256((const __m256i *)p));
    }
  _mm_sfence();
  memcpy(to + i, from + i, bytes - i);
}

static int has_avx512(void) { return __builtin_cpu_supports("avx512f") != 0; }
static int has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif /* BENCH_X86 */

/* --- the choice --------------------------------------------------------------------------------
 */
const vec_kernels *vec_for(gpured_dtype dtype) {
#if BENCH_X86
  if (has_avx512()) return dtype == GPURED_F64 ? &kernels_avx512_f64 : &kernels_avx512_f32;
  if (has_avx2()) return dtype == GPURED_F64 ? &kernels_avx2_f64 : &kernels_avx2_f32;
#endif
  return dtype == GPURED_F64 ? &kernels_plain_f64 : &kernels_plain_f32;
}

const char *vec_level(void) {
#if BENCH_X86
  if (has_avx512()) return "avx512";
  if (has_avx2()) return "avx2";
#endif
  return "plain C";
}

double vec_sum_f32_as_f64(const float *x, size_t n) {
  double r[4] = {0, 0, 0, 0};
  size_t i;
#if BENCH_X86
  if (has_avx512()) return sum64_avx512(x, n);
  if (has_avx2()) return sum64_avx2(x, n);
#endif
  for (i = 0; i < n; ++i) r[i % 4] += (double)x[i];
  return r[0] + r[1] + r[2] + r[3];
}

uint64_t vec_read(const void *data, size_t bytes) {
  const char *x = (const char *)data;
  uint64_t a = 0, b = 0, c = 0, d = 0, v[4];
  size_t i;
#if BENCH_X86
  if (has_avx512()) return read_avx512(x, bytes);
  if (has_avx2()) return read_avx2(x, bytes);
#endif
  for (i = 0; bytes - i >= 32; i += 32) {
    memcpy(v, x + i, 32);
    a |= v[0], b |= v[1], c |= v[2], d |= v[3];
  }
  for (; i < bytes; ++i) a |= (uint64_t)(unsigned char)x[i];
  return a | b | c | d;
}

uint64_t vec_read_places(const void *data, size_t bytes) {
#if BENCH_X86
  if (has_avx512()) return read_places_avx512((const char *)data, bytes);
  if (has_avx2()) return read_places_avx2((const char *)data, bytes);
#endif
  return vec_read(data, bytes);
}

void vec_stream_copy(void *to, const void *from, size_t bytes) {
#if BENCH_X86
  if (has_avx512()) {
    stream_avx512((char *)to, (const char *)from, bytes);
    return;
  }
  if (has_avx2()) {
    stream_avx2((char *)to, (const char *)from, bytes);
    return;
  }
#endif
  memcpy(to, from, bytes);
}
