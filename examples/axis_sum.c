/*
 * axis_sum: sums of the rows and of the columns of a 4 x 6 matrix, each beside what a plain loop
 * gives.
 *
 * It shows what a reduction is told: which axes go (one bit each) and where the results go; and
 * that "where" may be any strided view, with the reduced axis dropped or kept with extent 1.
 */
#include <stdio.h>

#include "gpured.h"

enum { ROWS = 4, COLS = 6 };

/* Prints n numbers that lie `step` apart. */
static void print_list(const char *name, const float *x, int n, int step) {
  printf("%s: [", name);
  for (int i = 0; i < n; ++i) printf("%s%.1f", i ? ", " : "", (double)x[i * step]);
  printf("]\n");
}

/* Prints what came out beside what should have; 1 if they differ. */
static int differs(const char *title, gpured_status status, const float *out, int step,
                   const float *expected, int n) {
  printf("%s\n", title);
  if (status != GPURED_OK) {
    fprintf(stderr, "axis_sum: %s\n", gpured_status_string(status));
    return 1;
  }
  print_list("out", out, n, step);
  print_list("expected", expected, n, 1);
  for (int i = 0; i < n; ++i) {
    if (out[i * step] != expected[i]) {
      fprintf(stderr, "axis_sum: element %d differs\n", i);
      return 1;
    }
  }
  return 0;
}

int main(void) {
  float a[ROWS][COLS], rows[ROWS] = {0}, cols[COLS] = {0}; /* the matrix and what is expected */
  float out_rows[ROWS] = {0}, out_cols[COLS] = {0}, table[ROWS][2] = {{0}};
  int bad = 0;

  for (int i = 0; i < ROWS; ++i) {
    for (int j = 0; j < COLS; ++j) {
      a[i][j] = (float)(COLS * i + j);
      rows[i] += a[i][j];
      cols[j] += a[i][j];
    }
  }

  gpured_tensor in = gpured_matrix(a, GPURED_F32, ROWS, COLS);
  gpured_tensor r = gpured_vector(out_rows, GPURED_F32, ROWS);
  gpured_status st = gpured_reduce(GPURED_SUM, &in, 1u << 1, &r, NULL);
  bad |= differs("sum over axis 1, (4,6) -> (4)", st, out_rows, 1, rows, ROWS);

  /* The reduced axis stays, with extent 1; the results land in one column of a wider table. */
  const int64_t shape[2] = {ROWS, 1}, strides[2] = {2, 1};
  gpured_tensor kept = gpured_array(table, GPURED_F32, 2, shape, strides);
  st = gpured_reduce(GPURED_SUM, &in, 1u << 1, &kept, NULL);
  bad |= differs("sum over axis 1, (4,6) -> (4,1), strides (2,1)", st, &table[0][0], 2, rows, ROWS);

  gpured_tensor c = gpured_vector(out_cols, GPURED_F32, COLS);
  st = gpured_reduce(GPURED_SUM, &in, 1u << 0, &c, NULL);
  bad |= differs("sum over axis 0, (4,6) -> (6)", st, out_cols, 1, cols, COLS);
  return bad;
}
