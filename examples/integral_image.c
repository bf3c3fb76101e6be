/*
 * integral_image: blurs a picture through its summed-area table.
 *
 *   integral_image in.ppm out.ppm [radius]          (binary PGM or PPM, 8 or 16 bits; radius 4)
 *
 * table[y][x] is the sum of all samples above and to the left of (y, x), itself included: a scan
 * along x, then a scan along y, both in place. The sum of any rectangle is then four table entries,
 * so a box blur costs the same for every radius. The sums are 64-bit integers: nothing is rounded.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gpured.h"

typedef struct picture {
  int64_t height, width, channels, maxval;
  int64_t *samples; /* [height, width, channels]: first the picture, then its table */
} picture;

static int fail(const char *file, const char *what) {
  fprintf(stderr, "integral_image: %s: %s\n", file, what);
  return 0;
}

/* ---- reading ---- */

/* The whole file, however long it turns out to be; NULL if that fails. */
static unsigned char *read_all(FILE *f, size_t *size) {
  unsigned char *all = NULL;
  size_t room = 0, got = 1;
  for (*size = 0; got > 0; *size += got) {
    if (*size == room) {
      room = room ? 2 * room : 1u << 16;
      unsigned char *more = room <= 1u << 30 ? realloc(all, room) : NULL;
      if (!more) break;
      all = more;
    }
    got = fread(all + *size, 1, room - *size, f);
  }
  if (got == 0 && !ferror(f)) return all;
  free(all);
  return NULL;
}

static int is_blank(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The next number of the header, after at least one blank or comment; -1 if there is none. */
static int64_t header_number(const unsigned char *b, size_t size, size_t *at) {
  const size_t from = *at;
  int64_t v = -1;
  for (int comment = 0; *at < size && (comment || b[*at] == '#' || is_blank(b[*at])); ++*at) {
    comment = b[*at] == '#' || (comment && b[*at] != '\n' && b[*at] != '\r');
  }
  if (*at == from) return -1;
  for (; *at < size && b[*at] >= '0' && b[*at] <= '9'; ++*at) {
    v = 10 * (v < 0 ? 0 : v) + (b[*at] - '0');
    if (v > INT32_MAX) return -1;
  }
  return v;
}

/* Header and samples out of the bytes of the file. What follows the samples is not looked at. */
static const char *decode(const unsigned char *b, size_t size, picture *p) {
  size_t at = 2;
  if (size < 2 || b[0] != 'P' || (b[1] != '5' && b[1] != '6')) return "not a binary PGM or PPM";
  p->channels = b[1] == '5' ? 1 : 3;
  p->width = header_number(b, size, &at);
  p->height = header_number(b, size, &at);
  p->maxval = header_number(b, size, &at);
  if (p->width < 1 || p->height < 1 || p->maxval < 1 || p->maxval > 65535) {
    return "the header is damaged";
  }
  if (at >= size || !is_blank(b[at])) return "the header is damaged";
  ++at;

  const size_t bytes = p->maxval > 255 ? 2 : 1;
  const size_t row = (size_t)(p->width * p->channels);
  if ((size - at) / bytes / row < (size_t)p->height) return "the file ends too early";
  const size_t count = row * (size_t)p->height;
  p->samples = malloc(count * sizeof *p->samples);
  if (!p->samples) return "not enough memory";
  for (size_t i = 0; i < count; ++i, at += bytes) {
    p->samples[i] = bytes == 2 ? 256 * b[at] + b[at + 1] : b[at];
    if (p->samples[i] > p->maxval) return "a sample is larger than the header allows";
  }
  return NULL;
}

static int load(const char *name, picture *p) {
  size_t size;
  FILE *f = fopen(name, "rb");
  if (!f) return fail(name, strerror(errno));
  unsigned char *bytes = read_all(f, &size);
  fclose(f);
  if (!bytes) return fail(name, "cannot be read, or is too large");
  const char *wrong = decode(bytes, size, p);
  free(bytes);
  return wrong ? fail(name, wrong) : 1;
}

/* ---- the table ---- */

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

/* ---- writing ---- */

static int write_blurred(FILE *f, const picture *p, int64_t r) {
  fprintf(f, "P%c\n%lld %lld\n%lld\n", p->channels == 1 ? '5' : '6', (long long)p->width,
          (long long)p->height, (long long)p->maxval);
  for (int64_t y = 0; y < p->height && !ferror(f); ++y) {
    for (int64_t i = 0; i < p->width * p->channels; ++i) {
      const int64_t v = box_mean(p, y, i / p->channels, i % p->channels, r);
      if (p->maxval > 255) fputc((int)(v >> 8), f);
      fputc((int)(v & 255), f);
    }
  }
  return !ferror(f);
}

/* Under another name until it is complete: `name` is never half a picture. */
static int save(const char *name, const picture *p, int64_t r) {
  const size_t room = strlen(name) + sizeof ".tmp";
  struct stat there;
  if (stat(name, &there) == 0 && !S_ISREG(there.st_mode)) return fail(name, "is not a file");
  char *temporary = malloc(room);
  if (!temporary) return fail(name, "not enough memory");
  snprintf(temporary, room, "%s.tmp", name);
  FILE *f = fopen(temporary, "wbx"); /* x: a file that is there already is somebody's */
  if (!f) {
    fail(temporary, strerror(errno));
    free(temporary);
    return 0;
  }
  const int written = write_blurred(f, p, r);
  const int closed = fclose(f) == 0;
  const int good = written && closed && rename(temporary, name) == 0;
  if (!good) {
    fail(name, strerror(errno));
    remove(temporary);
  }
  free(temporary);
  return good;
}

static int blur(const char *in, const char *out, int64_t r) {
  picture p = {0, 0, 0, 0, NULL};
  int good = load(in, &p);
  if (good) {
    const gpured_status st = make_table(&p);
    good = st == GPURED_OK ? save(out, &p, r) : fail(in, gpured_status_string(st));
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
