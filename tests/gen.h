/*
 * Test data: deterministic input generators and a hash of a tensor's bits.
 *
 * Every element is made by integer arithmetic alone, as a bit pattern, so the data are the same
 * with every compiler, on every processor and in both byte orders. tests/golden/README.md defines
 * the generators in words, so that vectors made from them can be checked by programs that share no
 * code with this one. Whoever changes this file changes that one.
 */
#ifndef GPURED_TESTS_GEN_H
#define GPURED_TESTS_GEN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../gpured.h"

/* The kinds of data. Element i (row-major) of a tensor depends on the dtype, the kind, the seed and
 * i alone. */
enum {
  OR_UNIFORM = 0, /* floats: multiples of an ulp in [-1, 1); integers: -9..9, unsigned 0..9 */
  OR_WIDE =
      1, /* floats: random sign and significand, exponents far apart; integers: all bits random */
  OR_SPECIAL = 2, /* WIDE mixed with NaN (any sign and payload), +-inf, +-0, subnormals, huge;
                     integers: their extremes */
  OR_ONES = 3,    /* 1 */
  OR_RAMP = 4,    /* i, modulo what the type holds exactly */
  OR_TIES = 5,    /* -2, -1, -0, +0, 1, 2 (unsigned 0..3): for argmin and argmax */
  OR_FACTOR = 6,  /* magnitudes in [0.5, 2) whose product stays in range; integers: odd */
  OR_EXP = 7,     /* UNIFORM times 128 (f64: 1024): both sides of exp's cut; integers: -100..100,
                     unsigned 0..200 */
  OR_INF = 8,     /* SPECIAL without NaN and -inf; integers as SPECIAL */
  OR_TINY = 9,    /* subnormals, the least normals and zeros of both signs; integers: 0 */
  OR_ZERO = 10,   /* -0.0; integers: 0 */
  OR_KINDS = 11   /* how many there are */
};

/* The layout of a float format: fraction bits and exponent bias; fraction is 0 for an integer type.
 */
typedef struct gen_format {
  int fraction, bias, bits;
} gen_format;

static inline gen_format gen_format_of(int dtype) {
  gen_format f = {0, 0, 64};
  switch (dtype) {
    case GPURED_F64:
      f.fraction = 52, f.bias = 1023;
      break;
    case GPURED_F32:
      f.fraction = 23, f.bias = 127, f.bits = 32;
      break;
    case GPURED_F16:
      f.fraction = 10, f.bias = 15, f.bits = 16;
      break;
    case GPURED_BF16:
      f.fraction = 7, f.bias = 127, f.bits = 16;
      break;
    case GPURED_I32:
    case GPURED_U32:
      f.bits = 32;
      break;
    case GPURED_I8:
    case GPURED_U8:
      f.bits = 8;
      break;
    default:
      break;
  }
  return f;
}

static inline int gen_is_signed(int dtype) {
  return dtype == GPURED_I8 || dtype == GPURED_I32 || dtype == GPURED_I64;
}

/* Random word i of a seed: the output function of Steele, Lea and Flood's SplitMix64, at any index.
 */
static inline uint64_t gen_random(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* The pattern of +-m * 2^scale, for a result that the format holds as a normal number or zero. */
static inline uint64_t gen_scaled(gen_format f, int negative, uint64_t m, int scale) {
  uint64_t sign = (uint64_t)(negative != 0) << (f.bits - 1);
  int e = 0, half;
  if (m == 0) return sign;
  for (half = 32; half > 0; half /= 2)
    if (m >> e >> half) e += half;
  m = (m << (f.fraction - e)) & ((UINT64_C(1) << f.fraction) - 1);
  return sign | ((uint64_t)(f.bias + e + scale) << f.fraction) | m;
}

/* A multiple of 2^(shift - fraction) in [-2^shift, 2^shift). */
static inline uint64_t gen_uniform(gen_format f, uint64_t r, int shift) {
  int64_t k = (int64_t)(r >> (63 - f.fraction)) - ((int64_t)1 << f.fraction);
  return gen_scaled(f, k < 0, (uint64_t)(k < 0 ? -k : k), shift - f.fraction);
}

/* Sign and fraction from the top and the bottom of r, the exponent field given. */
static inline uint64_t gen_fields(gen_format f, uint64_t r, uint64_t exponent) {
  uint64_t fraction = r & ((UINT64_C(1) << f.fraction) - 1);
  return ((r >> 63) << (f.bits - 1)) | (exponent << f.fraction) | fraction;
}

/* The exponents of WIDE: 2^-32..2^31, f16 all its normal ones, f64 2^-256..2^255. */
static inline uint64_t gen_wide(int dtype, gen_format f, uint64_t r) {
  uint64_t e = (r >> 52) & 0x7ff;
  if (dtype == GPURED_F16) return gen_fields(f, r, 1 + e % 30);
  if (dtype == GPURED_F64) return gen_fields(f, gen_random(r, 0), (uint64_t)f.bias - 256 + e % 512);
  return gen_fields(f, r, (uint64_t)f.bias - 32 + e % 64);
}

/* One class in 32 each for NaN, +inf and -inf, the rest as the switch has it; r2 makes the value.
 */
static inline uint64_t gen_special(int dtype, gen_format f, uint64_t r, int finite_or_up) {
  uint64_t r2 = gen_random(r, 1), sign = UINT64_C(1) << (f.bits - 1);
  uint64_t top = (UINT64_C(2) * (uint64_t)f.bias + 1), inf = top << f.fraction;
  switch (r % 32) {
    case 0:
      return finite_or_up ? inf : gen_fields(f, r2 | 1, top);
    case 1:
      return inf;
    case 2:
      return finite_or_up ? inf : inf | sign;
    case 3:
    case 4:
    case 5:
      return sign;
    case 6:
    case 7:
    case 8:
      return 0;
    case 9:
    case 10:
    case 11:
    case 12:
      return gen_fields(f, r2, 0);
    case 13:
      return gen_fields(f, r2, top - 1);
    default:
      return gen_wide(dtype, f, r2);
  }
}

static inline uint64_t gen_float(int dtype, int kind, uint64_t r, uint64_t i) {
  gen_format f = gen_format_of(dtype);
  uint64_t t = r % 6;
  switch (kind) {
    case OR_UNIFORM:
      return gen_uniform(f, r, 0);
    case OR_EXP:
      return gen_uniform(f, r, dtype == GPURED_F64 ? 10 : 7);
    case OR_WIDE:
      return gen_wide(dtype, f, r);
    case OR_SPECIAL:
      return gen_special(dtype, f, r, 0);
    case OR_INF:
      return gen_special(dtype, f, r, 1);
    case OR_ONES:
      return gen_scaled(f, 0, 1, 0);
    case OR_RAMP:
      return gen_scaled(f, 0, i % (UINT64_C(1) << f.fraction), 0);
    case OR_TIES:
      return gen_scaled(f, t < 3, t < 3 ? 2 - t : t - 3, 0);
    case OR_FACTOR:
      return gen_fields(f, r, (uint64_t)f.bias - (((r >> 56) & 15) < 9));
    case OR_TINY:
      return gen_fields(f, (r >> 60) % 4 ? r : r & (UINT64_C(1) << 63), (r >> 58) % 4 == 0);
    default:
      return UINT64_C(1) << (f.bits - 1);
  }
}

static inline uint64_t gen_integer(int dtype, int kind, uint64_t r, uint64_t i) {
  int sign = gen_is_signed(dtype);
  uint64_t h = r >> 32, half = UINT64_C(1) << (gen_format_of(dtype).bits - 1);
  switch (kind) {
    case OR_UNIFORM:
      return sign ? h % 19 - 9 : h % 10;
    case OR_EXP:
      return sign ? h % 201 - 100 : h % 201;
    case OR_WIDE:
      return r;
    case OR_ONES:
      return 1;
    case OR_RAMP:
      return i;
    case OR_TIES:
      return sign ? h % 5 - 2 : h % 4;
    case OR_FACTOR:
      return r | 1;
    case OR_SPECIAL:
    case OR_INF:
      switch (h % 8) {
        case 0:
          return half;
        case 1:
          return half - 1;
        case 2:
          return UINT64_MAX;
        case 3:
          return 0;
        default:
          return r;
      }
    default:
      return 0;
  }
}

/* Element i of the data (dtype, kind, seed): its bit pattern, in the low bits. */
static inline uint64_t gen_element(int dtype, int kind, uint64_t seed, uint64_t i) {
  uint64_t r = gen_random(seed, i);
  gen_format f = gen_format_of(dtype);
  uint64_t v = f.fraction ? gen_float(dtype, kind, r, i) : gen_integer(dtype, kind, r, i);
  return f.bits == 64 ? v : v & ((UINT64_C(1) << f.bits) - 1);
}

static inline int64_t gen_count(const gpured_tensor *t) {
  int64_t n = 1;
  int d;
  for (d = 0; d < t->ndim; ++d) n *= t->shape[d];
  return n;
}

/* The offset, in elements, of row-major element i. */
static inline int64_t gen_offset(const gpured_tensor *t, int64_t i) {
  int64_t offset = 0;
  int d;
  for (d = t->ndim - 1; d >= 0 && i > 0; --d) {
    const int64_t n = t->shape[d];
    if (i < n) return offset + i * t->strides[d];
    offset += i % n * t->strides[d];
    i /= n;
  }
  return offset;
}

/* From one element to the next: its place in each axis, and its offset. All elements in turn cost
 * no division so. */
typedef struct gen_place {
  int64_t at[GPURED_MAX_NDIM], offset;
} gen_place;

static inline void gen_next(const gpured_tensor *t, gen_place *p) {
  int d;
  for (d = t->ndim - 1; d >= 0; --d) {
    p->offset += t->strides[d];
    if (++p->at[d] < t->shape[d]) return;
    p->offset -= t->shape[d] * t->strides[d];
    p->at[d] = 0;
  }
}

/* The bit pattern of the element at an offset, whatever the byte order. */
static inline uint64_t gen_peek(const gpured_tensor *t, int64_t offset) {
  int bytes = gen_format_of(t->dtype).bits / 8;
  const unsigned char *p = (const unsigned char *)t->data + offset * bytes;
  uint64_t b8;
  uint32_t b4;
  uint16_t b2;
  switch (bytes) {
    case 8:
      memcpy(&b8, p, 8);
      return b8;
    case 4:
      memcpy(&b4, p, 4);
      return b4;
    case 2:
      memcpy(&b2, p, 2);
      return b2;
    default:
      return *p;
  }
}

static inline void gen_poke(const gpured_tensor *t, int64_t offset, uint64_t pattern) {
  int bytes = gen_format_of(t->dtype).bits / 8;
  unsigned char *p = (unsigned char *)t->data + offset * bytes;
  uint32_t b4 = (uint32_t)pattern;
  uint16_t b2 = (uint16_t)pattern;
  switch (bytes) {
    case 8:
      memcpy(p, &pattern, 8);
      break;
    case 4:
      memcpy(p, &b4, 4);
      break;
    case 2:
      memcpy(p, &b2, 2);
      break;
    default:
      *p = (unsigned char)pattern;
      break;
  }
}

/* Writes the data (kind, seed) to t through its strides, in row-major order. */
static inline void oracle_fill(const gpured_tensor *t, int kind, uint64_t seed) {
  int64_t i, n = gen_count(t);
  gen_place p = {{0}, 0};
  for (i = 0; i < n; ++i, gen_next(t, &p)) {
    gen_poke(t, p.offset, gen_element(t->dtype, kind, seed, (uint64_t)i));
  }
}

/* FNV-1a (64 bits) over the elements of t in row-major order, each as its bytes from the lowest. */
static inline uint64_t oracle_hash(const gpured_tensor *t) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  int64_t i, n = gen_count(t);
  int b, bits = gen_format_of(t->dtype).bits;
  gen_place p = {{0}, 0};
  for (i = 0; i < n; ++i, gen_next(t, &p)) {
    uint64_t v = gen_peek(t, p.offset);
    for (b = 0; b < bits; b += 8) h = (h ^ ((v >> b) & 255)) * UINT64_C(0x100000001b3);
  }
  return h;
}

#endif /* GPURED_TESTS_GEN_H */
