/* What the translation units test_tu2.c (a private copy, GPURED_STATIC) and test_cxx.cpp offer to
 * test_api.c. */
#ifndef TESTS_OTHER_TUS_H
#define TESTS_OTHER_TUS_H

#include <stddef.h>

#include "../gpured.h"

#ifdef __cplusplus
extern "C" {
#endif

float tu2_sum(const float *x, size_t n);
int tu2_logsumexp(const gpured_tensor *in, uint32_t axes, const gpured_tensor *out);
int tu2_gemm(const gpured_tensor *a, const gpured_tensor *b, const gpured_tensor *d);
unsigned tu2_version(void);
int tu2_exp_f32(int level, float d, float *out);

/* 0, or the number of the call that went wrong. */
int cxx_calls(void);

#ifdef __cplusplus
}
#endif

#endif /* TESTS_OTHER_TUS_H */
