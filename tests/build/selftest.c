/*
 * Asks gpured_selftest(): says what it answers and how long it took at best, exits with its status.
 *
 *     selftest [MODE]
 *
 * MODE upward, downward, zero (rounding) or flush (subnormals) is set before the call. With BREAK_x
 * the implementation is compiled into this file, with a part of it made wrong: the answer must then
 * be an error. Under -ffast-math and its like, with the macros undefined that would have it
 * refused, the flags are what is wrong.
 */
#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Before any macro below can reach the compiler's own headers. */
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#ifdef BREAK_FMA /* a product and a sum, each rounded */
static inline float unfused_f32(float a, float b, float c) {
  volatile float p = a * b;
  return p + c;
}
static inline double unfused_f64(double a, double b, double c) {
  volatile double p = a * b;
  return p + c;
}
#define fmaf unfused_f32
#define fma unfused_f64
#endif
#ifdef BREAK_MODE /* the caller's mode stays on */
#define __builtin_ia32_ldmxcsr(mode) ((void)(mode))
#define fesetenv(environment) ((void)(environment))
#endif
#ifdef BREAK_KEEP /* nothing keeps the compiler from fusing a product and a sum */
#define __asm__(...) ((void)0)
#endif
#if defined(BREAK_FMA) || defined(BREAK_MODE) || defined(BREAK_KEEP) || defined(BREAK_FLAGS)
#define GPURED_IMPLEMENTATION
#endif
#include "../../gpured.h"
#undef __builtin_ia32_ldmxcsr
#undef __asm__

static int set_mode(const char *mode) {
  if (strcmp(mode, "upward") == 0) return fesetround(FE_UPWARD) == 0;
  if (strcmp(mode, "downward") == 0) return fesetround(FE_DOWNWARD) == 0;
  if (strcmp(mode, "zero") == 0) return fesetround(FE_TOWARDZERO) == 0;
#if defined(__SSE2__)
  if (strcmp(mode, "flush") == 0) {
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u);
    return 1;
  }
#endif
  return 0;
}

int main(int argc, char **argv) {
  gpured_status status = GPURED_OK;
  double best = 1e9, took;
  int i;
  if (argc > 1 && !set_mode(argv[1])) {
    fprintf(stderr, "selftest: no mode '%s' here\n", argv[1]);
    return 77;
  }
  for (i = 0; i < 5 && status == GPURED_OK; ++i) {
    clock_t start = clock();
    status = gpured_selftest();
    took = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (took < best) best = took;
  }
  printf("%s, %.2f ms, %s\n", gpured_status_string(status), best * 1e3, gpured_cpu_level());
  return (int)status;
}
