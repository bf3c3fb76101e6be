/* A second translation unit, with a private copy of everything: its results must be those of the
 * linked library. */
#define GPURED_STATIC
#include "../gpured.h"
#include "../gpured.h" /* a second time does nothing */

#include "other_tus.h"

float tu2_sum(const float *x, size_t n) { return gpured_sum_f32(x, n); }

int tu2_logsumexp(const gpured_tensor *in, uint32_t axes, const gpured_tensor *out) {
  return (int)gpured_reduce(GPURED_LOGSUMEXP, in, axes, out, NULL);
}

int tu2_gemm(const gpured_tensor *a, const gpured_tensor *b, const gpured_tensor *d) {
  return (int)gpured_gemm_reduce(GPURED_SUMSQ, a, b, 0, d, NULL);
}

unsigned tu2_version(void) { return gpured_version(); }

/* exp(d) as logsumexp uses it, at one vector level after the other, from its merge of (0, 0) and
 * (d, 1); 0 when there is no such level, or when this processor lacks it. */
int tu2_exp_f32(int level, float d, float *out) {
  float m = 0;
  *out = 0;
  if (level > gpured__detect_level()) return 0;
  switch (level) {
    case 0:
      gpured__merge_pair_f32_scalar(&m, out, d, 1);
      return 1;
#if GPURED__X86
    case 1:
      gpured__merge_pair_f32_sse2(&m, out, d, 1);
      return 1;
    case 2:
      gpured__merge_pair_f32_avx2(&m, out, d, 1);
      return 1;
#endif
#if GPURED__AVX512
    case 3:
      gpured__merge_pair_f32_avx512(&m, out, d, 1);
      return 1;
#endif
#if GPURED__NEON
    case 1:
      gpured__merge_pair_f32_neon(&m, out, d, 1);
      return 1;
#endif
    default:
      return 0;
  }
}
