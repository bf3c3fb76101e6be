/*
 * prefix_sum: running sums of 8 elements, then of 15 elements in two blocks of 8, inclusive (y[i]
 * counts x[i]) and exclusive (it does not), each beside what a plain loop gives.
 *
 * Blocks are an axis like any other: the 15 elements, with one zero after them, are a 2 x 8 matrix,
 * and a scan along axis 1 starts anew in each row. The last column then has the sum of each block.
 */
#include <stdio.h>

#include "gpured.h"

enum { BLOCK = 8, BLOCKS = 2, TOTAL = BLOCK * BLOCKS };

static void print_list(const char *name, const float *x, int n) {
  printf("%s: [", name);
  for (int i = 0; i < n; ++i) printf("%s%.1f", i ? ", " : "", (double)x[i]);
  printf("]\n");
}

/* Prints what came out beside what should have; 1 if they differ. */
static int differs(const char *title, const float *out, const float *expected, int n) {
  printf("%s\n", title);
  print_list("out", out, n);
  print_list("expected", expected, n);
  for (int i = 0; i < n; ++i) {
    if (out[i] != expected[i]) {
      fprintf(stderr, "prefix_sum: element %d differs\n", i);
      return 1;
    }
  }
  return 0;
}

/* Scans the first n elements of x, in rows of `row` elements; the plain loop does the same. */
static int scan(const char *title, const float *x, int n, int row, unsigned flags, float *out) {
  float expected[TOTAL], sum = 0.0f;
  gpured_tensor in = gpured_matrix(x, GPURED_F32, n / row, row);
  gpured_tensor to = gpured_matrix(out, GPURED_F32, n / row, row);
  gpured_status st = gpured_scan(GPURED_SUM, &in, 1, flags, &to, NULL);
  if (st != GPURED_OK) {
    fprintf(stderr, "prefix_sum: %s\n", gpured_status_string(st));
    return 1;
  }
  for (int i = 0; i < n; ++i) {
    const float before = i % row ? sum : 0.0f;
    sum = before + x[i];
    expected[i] = flags & GPURED_SCAN_EXCLUSIVE ? before : sum;
  }
  return differs(title, out, expected, n);
}

int main(void) {
  float x[TOTAL], y[TOTAL] = {0}, totals[BLOCKS], expected[BLOCKS] = {0};
  int bad = 0;

  for (int i = 0; i < TOTAL; ++i) x[i] = i < TOTAL - 1 ? (float)i : 0.0f;
  bad |= scan("8 elements, inclusive", x, 8, 8, 0, y);
  bad |= scan("8 elements, exclusive", x, 8, 8, GPURED_SCAN_EXCLUSIVE, y);
  bad |= scan("15 elements, inclusive", x, 15, 15, 0, y);
  bad |= scan("15 elements, exclusive", x, 15, 15, GPURED_SCAN_EXCLUSIVE, y);
  bad |= scan("two blocks of 8, exclusive", x, TOTAL, BLOCK, GPURED_SCAN_EXCLUSIVE, y);
  bad |= scan("two blocks of 8, inclusive", x, TOTAL, BLOCK, 0, y);

  for (int b = 0; b < BLOCKS; ++b) totals[b] = y[BLOCK * b + BLOCK - 1];
  for (int i = 0; i < TOTAL; ++i) expected[i / BLOCK] += x[i];
  bad |= differs("the sum of each block", totals, expected, BLOCKS);
  return bad;
}
