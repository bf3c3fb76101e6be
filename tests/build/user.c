/*
 * A small user of the header, valid as C99 and as C++11: build tests compile it in each way in
 * which the library can be used. other_total() lives in other.c, the second file that includes the
 * header.
 */
#include <stdio.h>

#include "gpured.h"

#ifdef __cplusplus
extern "C"
#endif
    float
    other_total(const float *x, size_t n);

int main(void) {
  static const float expected[4] = {15.0f, 51.0f, 87.0f, 123.0f};
  float a[24], rows[4];
  gpured_tensor in = gpured_matrix(a, GPURED_F32, 4, 6), out = gpured_vector(rows, GPURED_F32, 4);
  int i;
  for (i = 0; i < 24; ++i) a[i] = (float)i;
  if (gpured_reduce(GPURED_SUM, &in, 1u << 1, &out, NULL) != GPURED_OK) return 1;
  for (i = 0; i < 4; ++i)
    if (rows[i] < expected[i] || rows[i] > expected[i]) return 2;
  if (other_total(rows, 4) < 276.0f || other_total(rows, 4) > 276.0f) return 3;
  if (gpured_selftest() != GPURED_OK || gpured_version() != GPURED_VERSION) return 4;
  printf("%.1f %.1f %.1f %.1f\n", (double)rows[0], (double)rows[1], (double)rows[2],
         (double)rows[3]);
  return 0;
}
