/*
 * integral_image: blurs a picture through its summed-area table.
 *
 *   integral_image in.ppm out.ppm [radius]          (binary PGM or PPM, 8 or 16 bits; radius 4)
 *
 * table[y][x] is the sum of all samples above and to the left of (y, x), itself included: a scan
 * along x, then a scan along y, both in place. The sum of any rectangle is then four table entries,
 * so a box blur costs the same for every radius. The sums are 64-bit integers: nothing is rounded.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpured.h"
#include "pnm_io.h"

/* Running sums along x, then along y, in place: the whole use of the library. */
static gpured_status make_table(const picture *p) {
  const int64_t shape[3] = {p->height, p->width, p->channels};
  const gpured_tensor t = gpured_array(p->samples, GPURED_I64, 3, shape, NULL);
  gpured_status st = gpured_scan(GPURED_SUM, &t, 1, 0, &t, NULL);
  return st == GPURED_OK ? gpured_scan(GPURED_SUM, &t, 0, 0, &t, NULL) : st;
}

/* The table entry of (y, x); outside, above and to the left of the picture, it is 0. */
static int64_t entry(const picture *p, int64_t y, int64_t x, int64_t c) {
  return y < 0 || x < 0 ? 0 : p->samples[(y * p->width + x) * p->channels + c];
}

/* The rounded mean of the samples at most r away that lie in the picture. */
static int64_t box_mean(const picture *p, int64_t y, int64_t x, int64_t c, int64_t r) {
  const int64_t y0 = y > r ? y - r : 0, y1 = y + r < p->height ? y + r : p->height - 1;
  const int64_t x0 = x > r ? x - r : 0, x1 = x + r < p->width ? x + r : p->width - 1;
  const int64_t area = (y1 - y0 + 1) * (x1 - x0 + 1);
  const int64_t sum = entry(p, y1, x1, c) - entry(p, y0 - 1, x1, c) - entry(p, y1, x0 - 1, c) +
                      entry(p, y0 - 1, x0 - 1, c);
  return (sum + area / 2) / area;
}

/* The blurred picture out of the table, saved. */
static int save_blurred(const char *out, const picture *table, int64_t r) {
  const int64_t row = table->width * table->channels, count = row * table->height;
  picture blurred = *table;
  blurred.samples = malloc((size_t)count * sizeof *blurred.samples);
  if (!blurred.samples) return pnm_fail(table, out, "not enough memory");
  for (int64_t i = 0; i < count; ++i) {
    const int64_t x = i % row / table->channels, c = i % table->channels;
    blurred.samples[i] = box_mean(table, i / row, x, c, r);
  }
  const int good = pnm_save(out, &blurred);
  free(blurred.samples);
  return good;
}

static int blur(const char *in, const char *out, int64_t r) {
  picture p;
  int good = pnm_load(in, "integral_image", &p);
  if (good) {
    const gpured_status st = make_table(&p);
    good = st == GPURED_OK ? save_blurred(out, &p, r) : pnm_fail(&p, in, gpured_status_string(st));
  }
  if (good) {
    printf("%lld x %lld, radius %lld; mean of each channel:", (long long)p.width,
           (long long)p.height, (long long)r);
    for (int64_t c = 0; c < p.channels; ++c) {
      const int64_t total = entry(&p, p.height - 1, p.width - 1, c);
      printf(" %.3f", (double)total / ((double)p.width * (double)p.height));
    }
    printf(" of %lld\n", (long long)p.maxval);
  }
  free(p.samples);
  return good;
}

int main(int argc, char **argv) {
  char *end = NULL;
  const long r = argc == 4 ? strtol(argv[3], &end, 10) : 4;
  if (argc < 3 || argc > 4 || r < 0 || r > INT_MAX || (end && (*end || end == argv[3]))) {
    fprintf(stderr, "usage: integral_image in.ppm out.ppm [radius]\n");
    return 1;
  }
  return blur(argv[1], argv[2], r) ? 0 : 1;
}
