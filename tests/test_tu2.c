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
