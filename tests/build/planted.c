/*
 * Programs that are wrong on purpose, so that tests/build/sanitizers.sh sees each tool report
 * something before it believes its silence. PLANT_x names the fault; without one the program is
 * right.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 20000 };
static int64_t cells[N];

/* Threads that write and read by turns, ordered by the end of each loop, or not at all. memcpy()
 * instead of an assignment: sanitizers see it by another way. */
static int64_t threads(void) {
  int64_t sum = 0, i;
#pragma omp parallel num_threads(3)
  {
#ifdef PLANT_RACE
#pragma omp for nowait
#else
#pragma omp for
#endif
    for (i = 0; i < N; ++i) memcpy(&cells[i], &i, sizeof i);
#pragma omp for reduction(+ : sum)
    for (i = 0; i < N; ++i) sum += cells[N - 1 - i];
  }
  return sum;
}

int main(int argc, char **argv) {
  int *volatile unset = (int *)malloc(16 * sizeof *unset); /* compilers drop what they see unset */
  int odd = 0;
  uint32_t wide = 70000u + (uint32_t)argc;
  if (!unset || threads() < 0) return 1;
  (void)argv;
#ifndef PLANT_UNSET
  memset((void *)unset, 0, 16 * sizeof *unset);
#endif
  if (unset[argc] & 1) puts("odd"); /* a branch, where the tools look */
#ifdef PLANT_NARROW
  {
    volatile uint16_t narrow = wide;
    odd += narrow & 1;
  }
#endif
  printf("%d %u\n", odd, (unsigned)wide);
  free(unset);
  return 0;
}
