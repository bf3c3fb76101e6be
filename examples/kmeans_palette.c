/*
 * kmeans_palette: a picture reduced to K colours, which k-means finds among its own.
 *
 *   kmeans_palette out.ppm [K [in.ppm]] [cpu|cuda]
 *
 * K           number of colours, 1 to 4096 (16)
 * in.ppm      binary PGM or PPM, 8 or 16 bits (examples/data/picture.ppm)
 * cpu, cuda   where it is computed; cuda if there is a device, otherwise cpu
 *
 * Every iteration gives each pixel the nearest colour, one fused call that stores no distances, and
 * moves each colour to the mean of its pixels. The first colours are pixels drawn by k-means++ with
 * a fixed generator. All that is summed is summed in the library's fixed order or in integers, so a
 * picture has one palette, whatever the machine, the backend and the number of threads.
 *
 * The squared distance is made as |p|^2 + |c|^2 - 2 p.c, which loses digits where the numbers are
 * large and their difference is small. So the samples are taken relative to their mean, rounded to
 * an integer: then everything between pixels of 8 bits is an integer below 2^24, and exact.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpured.h"
#include "pnm_io.h"

enum { MOST_COLOURS = 4096, MOST_ITERATIONS = 100 };

typedef struct clusters {
  int64_t points, dims, colours; /* pixels, channels; colours drawn so far */
  int64_t mean[3];               /* of each channel, subtracted from x and from colour */
  float *x, *colour;             /* [points, dims], [colours, dims] */
  int64_t *index, *before;       /* [points]: the nearest colour, and that of the last iteration */
  float *square, *least;         /* [points]: squared distances */
  double *running;               /* [points]: sums of squares */
  gpured_options options;
} clusters;

/* ---- what the library does ---- */

/* For every pixel the nearest of `count` colours and the squared distance: one pass over distances
 * that are never stored. */
static gpured_status assign(const clusters *s, const float *colour, int64_t count) {
  const int64_t shape[2] = {s->dims, count}, strides[2] = {1, s->dims};
  const gpured_tensor a = gpured_matrix(s->x, GPURED_F32, s->points, s->dims);
  const gpured_tensor b = gpured_array(colour, GPURED_F32, 2, shape, strides); /* transposed */
  gpured_result results[2];
  gpured_gemm g = gpured_default_gemm();

  results[0].op = GPURED_ARGMIN;
  results[0].out = gpured_vector(s->index, GPURED_I64, s->points);
  results[1].op = GPURED_MIN;
  results[1].out = gpured_vector(s->square, GPURED_F32, s->points);
  g.form = GPURED_FORM_L2;
  g.axis = 1;
  g.a = &a;
  g.b = &b;
  g.count = 2;
  g.results = results;
  return gpured_gemm_reduce_ex(&g, &s->options);
}

/* The sums of squares from the first pixel to each. */
static gpured_status running_sums(const clusters *s) {
  const gpured_tensor in = gpured_vector(s->least, GPURED_F32, s->points);
  const gpured_tensor out = gpured_vector(s->running, GPURED_F64, s->points);
  gpured_options o = s->options;
  o.acc_dtype = GPURED_F64;
  return gpured_scan(GPURED_SUM, &in, 0, 0, &out, &o);
}

/* The mean squared error of a sample. */
static gpured_status error_of(const clusters *s, double *error) {
  const gpured_tensor in = gpured_vector(s->square, GPURED_F32, s->points);
  const gpured_tensor out = gpured_vector(error, GPURED_F64, 1);
  gpured_options o = s->options;
  o.acc_dtype = GPURED_F64;
  const gpured_status st = gpured_reduce(GPURED_MEAN, &in, 1u << 0, &out, &o);
  *error = fmax(0.0, *error / (double)s->dims); /* rounding may leave a little less than zero */
  return st;
}

/* ---- k-means ---- */

/* A number in [0, 1) that is the same everywhere. */
static double uniform(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(*state >> 11) * 0x1p-53;
}

/* The first pixel whose running sum is above `target`: one with a square that is not zero. */
static int64_t draw(const clusters *s, double target) {
  int64_t low = 0, high = s->points - 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (s->running[middle] > target) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/* k-means++: each next colour is a pixel drawn with a chance in proportion to its squared distance
 * from the nearest so far. Fewer than `wanted`, if the picture has no more. */
static gpured_status draw_colours(clusters *s, int64_t wanted) {
  uint64_t state = 1;
  gpured_status st = GPURED_OK;
  for (int64_t i = 0; i < s->points; ++i) s->least[i] = 1.0f; /* the first: all alike */
  for (s->colours = 0; st == GPURED_OK && s->colours < wanted; ++s->colours) {
    float *const colour = s->colour + s->colours * s->dims;
    st = running_sums(s);
    if (st != GPURED_OK || !(s->running[s->points - 1] > 0)) break;
    const int64_t at = draw(s, uniform(&state) * s->running[s->points - 1]);
    memcpy(colour, s->x + at * s->dims, (size_t)s->dims * sizeof *colour);
    st = assign(s, colour, 1);
    for (int64_t i = 0; i < s->points; ++i) {
      const float square = fmaxf(0.0f, s->square[i]);
      s->least[i] = s->colours ? fminf(s->least[i], square) : square;
    }
  }
  return st;
}

/* Each colour becomes the mean of its pixels; one without pixels stays. The sums are integers, so
 * their order does not matter. 0 without memory. */
static int move_colours(const clusters *s, const picture *p) {
  int64_t *const sum = calloc((size_t)(s->colours * (s->dims + 1)), sizeof *sum);
  if (!sum) return 0;
  int64_t *const pixels = sum + s->colours * s->dims;
  for (int64_t i = 0; i < s->points; ++i) {
    const int64_t k = s->index[i];
    ++pixels[k];
    for (int64_t c = 0; c < s->dims; ++c) {
      sum[k * s->dims + c] += p->samples[i * s->dims + c] - s->mean[c];
    }
  }
  for (int64_t j = 0; j < s->colours * s->dims; ++j) {
    const int64_t n = pixels[j / s->dims];
    if (n) s->colour[j] = (float)((double)sum[j] / (double)n);
  }
  free(sum);
  return 1;
}

/* Until no pixel changes its colour. Colours and indices belong together at the end. */
static gpured_status iterate(clusters *s, const picture *p) {
  const size_t bytes = (size_t)s->points * sizeof *s->index;
  memset(s->before, 0xff, bytes); /* -1: no colour */
  for (int i = 1;; ++i) {
    double error = 0;
    gpured_status st = assign(s, s->colour, s->colours);
    if (st == GPURED_OK) st = error_of(s, &error);
    if (st != GPURED_OK) return st;
    int64_t changed = 0;
    for (int64_t k = 0; k < s->points; ++k) changed += s->index[k] != s->before[k];
    printf("iteration %d: mean squared error %.6f, %lld pixels changed\n", i, error,
           (long long)changed);
    if (changed == 0 || i == MOST_ITERATIONS) return GPURED_OK;
    memcpy(s->before, s->index, bytes);
    if (!move_colours(s, p)) return GPURED_ERR_ALLOC;
  }
}

/* ---- the picture ---- */

/* The samples as float32 relative to the rounded mean of their channel. */
static void fill(clusters *s, const picture *p) {
  const int64_t n = s->points;
  for (int64_t c = 0; c < s->dims; ++c) {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += p->samples[i * s->dims + c];
    s->mean[c] = (sum + n / 2) / n;
    for (int64_t i = 0; i < n; ++i) {
      s->x[i * s->dims + c] = (float)(p->samples[i * s->dims + c] - s->mean[c]);
    }
  }
}

/* Every sample becomes that of its pixel's colour, rounded. */
static void paint(const clusters *s, picture *p) {
  for (int64_t i = 0; i < s->points * s->dims; ++i) {
    const int64_t c = i % s->dims;
    const float v = s->colour[s->index[i / s->dims] * s->dims + c];
    p->samples[i] = s->mean[c] + (int64_t)lrintf(v);
  }
}

static gpured_status reduce_colours(picture *p, int64_t wanted, const gpured_options *o) {
  clusters s;
  memset(&s, 0, sizeof s);
  s.points = p->height * p->width;
  s.dims = p->channels;
  s.options = *o;
  const size_t n = (size_t)s.points, d = (size_t)s.dims;
  s.x = malloc(n * d * sizeof *s.x);
  s.colour = malloc((size_t)wanted * d * sizeof *s.colour);
  s.index = malloc(n * sizeof *s.index);
  s.before = malloc(n * sizeof *s.before);
  s.square = malloc(n * sizeof *s.square);
  s.least = malloc(n * sizeof *s.least);
  s.running = malloc(n * sizeof *s.running);
  gpured_status st = GPURED_ERR_ALLOC;
  if (s.x && s.colour && s.index && s.before && s.square && s.least && s.running) {
    fill(&s, p);
    st = draw_colours(&s, wanted);
    if (st == GPURED_OK) {
      printf("%lld x %lld pixels, colours: %lld\n", (long long)p->width, (long long)p->height,
             (long long)s.colours);
      st = iterate(&s, p);
    }
    if (st == GPURED_OK) paint(&s, p);
  }
  free(s.x);
  free(s.colour);
  free(s.index);
  free(s.before);
  free(s.square);
  free(s.least);
  free(s.running);
  return st;
}

static int run(const char *in, const char *out, int64_t wanted, const gpured_options *o) {
  picture p;
  int good = pnm_load(in, "kmeans_palette", &p);
  if (good) {
    const gpured_status st = reduce_colours(&p, wanted, o);
    good = st == GPURED_OK ? pnm_save(out, &p) : pnm_fail(&p, in, gpured_status_string(st));
  }
  free(p.samples);
  return good;
}

int main(int argc, char **argv) {
  const int device = gpured_cuda_available();
  gpured_options o = gpured_default_options();
  char *end = NULL;
  o.backend = device ? GPURED_BACKEND_CUDA : GPURED_BACKEND_CPU;
  if (argc > 1 && (!strcmp(argv[argc - 1], "cpu") || !strcmp(argv[argc - 1], "cuda"))) {
    --argc;
    o.backend = strcmp(argv[argc], "cpu") ? GPURED_BACKEND_CUDA : GPURED_BACKEND_CPU;
  }
  const long k = argc > 2 ? strtol(argv[2], &end, 10) : 16;
  if (argc < 2 || argc > 4 || k < 1 || k > MOST_COLOURS || (end && *end)) {
    fprintf(stderr, "usage: kmeans_palette out.ppm [K [in.ppm]] [cpu|cuda]   (K from 1 to %d)\n",
            MOST_COLOURS);
    return 1;
  }
  if (o.backend == GPURED_BACKEND_CUDA && !device) {
    fprintf(stderr, "kmeans_palette: cuda: not built in, or there is no device\n");
    return 1;
  }
  return run(argc > 3 ? argv[3] : "examples/data/picture.ppm", argv[1], k, &o) ? 0 : 1;
}
