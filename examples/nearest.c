/*
 * nearest: the nearest of K centres for every point, and how far away it is.
 *
 *   nearest [points.npy [centres.npy|K [index.npy [distance.npy]]]] [cpu|cuda]
 *
 * points      [P, D], floats or integers (examples/data/iris.npy)
 * centres     [K, D], or a number: K of the points, evenly spaced (3)
 * index       where the indices go as int64, and the distances as float32; without a file every
 *             point is printed, its index and its distance
 * cpu, cuda   where it is computed, with the same bits; cuda if there is a device, otherwise cpu
 *
 * Both results come from one pass over P x K distances that are never stored: the library makes
 * |p|^2 + |c|^2 - 2 p.c as a matrix product and keeps the least of each row.
 *
 * That form subtracts large numbers of each other where all the points are far from the origin, and
 * what is left of float32 would be noise. Only differences count, so everything is first moved, in
 * float64, to put the mean of the points at the origin.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpured.h"
#include "npy_io.h"

typedef struct job {
  const char *points, *centres, *index, *distance; /* files; centres may be a number */
  gpured_options options;
} job;

/* What is computed. All of it is freed at the end, whatever happened. */
typedef struct table {
  int64_t points, centres, dims;
  double *p64, *c64; /* [points, dims], [centres, dims] as they were read */
  float *p, *c;      /* the same with the points' mean at the origin */
  int64_t *index;    /* [points] */
  float *square;     /* [points]: squared distances, at the end distances */
} table;

static int fail(const char *what, const char *why) {
  fprintf(stderr, "nearest: %s: %s\n", what, why);
  return 1;
}

static int failed(gpured_status st, const char *what) {
  return st == GPURED_OK ? 0 : fail(what, gpured_status_string(st));
}

/* ---- reading ---- */

/* A matrix of any element type as rows of float64, from malloc. The mean over no axis is each
 * element by itself, and takes integers to floats. */
static int load(const char *file, const gpured_options *o, int64_t *rows, int64_t *cols,
                double **x) {
  char err[4352];
  npy_array a;
  if (npy_load(file, &a, err, sizeof err)) {
    fprintf(stderr, "nearest: %s\n", err);
    return 1;
  }
  int bad = 0;
  if (a.t.ndim != 2 || a.t.shape[0] < 1 || a.t.shape[1] < 1) {
    bad = fail(file, "not a matrix with a point in every row");
  } else {
    *rows = a.t.shape[0], *cols = a.t.shape[1];
    *x = malloc((size_t)(*rows * *cols) * sizeof **x);
    bad = *x ? 0 : fail(file, "not enough memory");
  }
  if (!bad) {
    const gpured_tensor t = gpured_matrix(*x, GPURED_F64, *rows, *cols);
    bad = failed(gpured_reduce(GPURED_MEAN, &a.t, 0, &t, o), file);
  }
  npy_free(&a);
  return bad;
}

/* K of the points, from the first to the last in equal steps. */
static int pick_centres(const char *number, table *t) {
  char *end;
  const long long k = strtoll(number, &end, 10);
  if (*end || k < 1 || k > t->points) {
    return fail(number, "not a number of centres from 1 to that of the points");
  }
  t->centres = k;
  t->c64 = malloc((size_t)(k * t->dims) * sizeof *t->c64);
  if (!t->c64) return fail(number, "not enough memory");
  const int64_t step = t->points / k;
  for (int64_t i = 0; i < k * t->dims; ++i) {
    t->c64[i] = t->p64[i / t->dims * step * t->dims + i % t->dims];
  }
  return 0;
}

static int read_input(const job *j, table *t) {
  int64_t dims = 0;
  if (load(j->points, &j->options, &t->points, &t->dims, &t->p64)) return 1;
  if (j->centres[0] >= '0' && j->centres[0] <= '9' && !strchr(j->centres, '.')) {
    return pick_centres(j->centres, t);
  }
  if (load(j->centres, &j->options, &t->centres, &dims, &t->c64)) return 1;
  if (dims == t->dims) return 0;
  return fail(j->centres, "the centres have not as many coordinates as the points");
}

/* ---- computing ---- */

/* x - mean, rounded to float32; 1 if that is not finite somewhere. */
static int move(const double *x, int64_t rows, int64_t dims, const double *mean, float *out) {
  int bad = 0;
  for (int64_t i = 0; i < rows * dims; ++i) {
    out[i] = (float)(x[i] - mean[i % dims]);
    bad |= !isfinite(out[i]);
  }
  return bad;
}

static int centre(const job *j, table *t) {
  const gpured_tensor x = gpured_matrix(t->p64, GPURED_F64, t->points, t->dims);
  double *mean = malloc((size_t)t->dims * sizeof *mean);
  const gpured_tensor m = gpured_vector(mean, GPURED_F64, t->dims);
  t->p = malloc((size_t)(t->points * t->dims) * sizeof *t->p);
  t->c = malloc((size_t)(t->centres * t->dims) * sizeof *t->c);
  int bad = mean && t->p && t->c ? 0 : fail(j->points, "not enough memory");
  if (!bad) bad = failed(gpured_reduce(GPURED_MEAN, &x, 1u << 0, &m, &j->options), "the mean");
  if (!bad && move(t->p64, t->points, t->dims, mean, t->p)) {
    bad = fail(j->points, "a value is not finite, or too large for float32");
  }
  if (!bad && move(t->c64, t->centres, t->dims, mean, t->c)) {
    bad = fail(j->centres, "a value is not finite, or too large for float32");
  }
  free(mean);
  return bad;
}

/* The whole use of the library: two results of one pass, over the centres. */
static gpured_status search(const table *t, const gpured_options *o) {
  const int64_t shape[2] = {t->dims, t->centres}, strides[2] = {1, t->dims};
  const gpured_tensor a = gpured_matrix(t->p, GPURED_F32, t->points, t->dims);
  const gpured_tensor b = gpured_array(t->c, GPURED_F32, 2, shape, strides); /* transposed */
  gpured_result results[2];
  gpured_gemm g = gpured_default_gemm();

  results[0].op = GPURED_ARGMIN;
  results[0].out = gpured_vector(t->index, GPURED_I64, t->points);
  results[1].op = GPURED_MIN;
  results[1].out = gpured_vector(t->square, GPURED_F32, t->points);
  g.form = GPURED_FORM_L2;
  g.axis = 1;
  g.a = &a;
  g.b = &b;
  g.count = 2;
  g.results = results;
  return gpured_gemm_reduce_ex(&g, o);
}

static int compute(const job *j, table *t) {
  t->index = malloc((size_t)t->points * sizeof *t->index);
  t->square = malloc((size_t)t->points * sizeof *t->square);
  if (!t->index || !t->square) return fail(j->points, "not enough memory");
  if (failed(search(t, &j->options), "the nearest centres")) return 1;
  for (int64_t i = 0; i < t->points; ++i) {
    if (!isfinite(t->square[i])) return fail(j->points, "a square is too large for float32");
    /* Rounding may leave a little less than zero where a point is a centre. */
    t->square[i] = sqrtf(fmaxf(0.0f, t->square[i]));
  }
  return 0;
}

/* ---- writing ---- */

static int write_files(const job *j, const table *t) {
  const gpured_tensor index = gpured_vector(t->index, GPURED_I64, t->points);
  const gpured_tensor distance = gpured_vector(t->square, GPURED_F32, t->points);
  char err[4352];
  if (npy_save(j->index, &index, err, sizeof err) ||
      (j->distance && npy_save(j->distance, &distance, err, sizeof err))) {
    fprintf(stderr, "nearest: %s\n", err);
    return 1;
  }
  return 0;
}

/* How many points each centre has, and how far away they are on average. */
static int print_centres(const table *t) {
  int64_t *points = calloc((size_t)t->centres, sizeof *points);
  double *sum = calloc((size_t)t->centres, sizeof *sum);
  const int bad = !points || !sum;
  for (int64_t i = 0; !bad && i < t->points; ++i) {
    ++points[t->index[i]];
    sum[t->index[i]] += (double)t->square[i];
  }
  for (int64_t k = 0; !bad && k < t->centres; ++k) {
    printf("# centre %lld: %lld points", (long long)k, (long long)points[k]);
    if (points[k]) printf(", %.6g away on average", sum[k] / (double)points[k]);
    printf("\n");
  }
  free(points);
  free(sum);
  return bad ? fail("the summary", "not enough memory") : 0;
}

static int run(const job *j) {
  table t;
  memset(&t, 0, sizeof t);
  int bad = read_input(j, &t) || centre(j, &t) || compute(j, &t);
  if (!bad && j->index) bad = write_files(j, &t);
  for (int64_t i = 0; !bad && !j->index && i < t.points; ++i) {
    printf("%lld %.6g\n", (long long)t.index[i], (double)t.square[i]);
  }
  if (!bad) bad = print_centres(&t);
  if (!bad && (fflush(stdout) != 0 || ferror(stdout))) bad = fail("output", strerror(errno));
  free(t.p64);
  free(t.c64);
  free(t.p);
  free(t.c);
  free(t.index);
  free(t.square);
  return bad;
}

int main(int argc, char **argv) {
  const int device = gpured_cuda_available();
  job j = {"examples/data/iris.npy", "3", NULL, NULL, gpured_default_options()};
  j.options.backend = device ? GPURED_BACKEND_CUDA : GPURED_BACKEND_CPU;
  if (argc > 1 && (!strcmp(argv[argc - 1], "cpu") || !strcmp(argv[argc - 1], "cuda"))) {
    --argc;
    j.options.backend = strcmp(argv[argc], "cpu") ? GPURED_BACKEND_CUDA : GPURED_BACKEND_CPU;
  }
  if (argc > 5 || (argc > 1 && argv[1][0] == '-')) {
    fprintf(stderr,
            "usage: nearest [points.npy [centres.npy|K [index.npy [distance.npy]]]] [cpu|cuda]\n");
    return 1;
  }
  if (argc > 1) j.points = argv[1];
  if (argc > 2) j.centres = argv[2];
  if (argc > 3) j.index = argv[3];
  if (argc > 4) j.distance = argv[4];
  if (j.distance && !strcmp(j.index, j.distance)) return fail(j.index, "named twice");
  if (j.options.backend == GPURED_BACKEND_CUDA && !device) {
    return fail("cuda", "not built in, or there is no device");
  }
  return run(&j);
}
