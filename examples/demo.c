/*
 * demo: what a user of the library does with a table, done with Fisher's iris measurements: column
 * and row statistics, running values, nearest neighbours, and a check that threads change no bit.
 *
 *   demo [data-folder]                (the folder of iris.npy and iris_species.npy: examples/data)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpured.h"
#include "npy_io.h"

enum { FLOWERS = 150, PARTS = 4, SPECIES = 3, EACH = FLOWERS / SPECIES, HALF = FLOWERS / 2 };

static const char *const part_name[PARTS] = {"sepal length", "sepal width", "petal length",
                                             "petal width"};
static const char *const species_name[SPECIES] = {"setosa", "versicolor", "virginica"};

typedef struct iris {
  gpured_tensor x;          /* [FLOWERS, PARTS], centimetres */
  int64_t species[FLOWERS]; /* 0, 1, 2, in this order */
} iris;

static int fails(gpured_status st, const char *what) {
  if (st != GPURED_OK) fprintf(stderr, "demo: %s: %s\n", what, gpured_status_string(st));
  return st != GPURED_OK;
}

/* A strided view of the table that begins at flower `first`. */
static gpured_tensor view(const gpured_tensor *x, int64_t first, int ndim, const int64_t *shape,
                          const int64_t *strides) {
  const float *data = (const float *)x->data + first * x->strides[0];
  return gpured_array(data, GPURED_F32, ndim, shape, strides);
}

/* ---- 1, 2: reductions ---- */

static int columns(const iris *d) {
  static const gpured_op ops[4] = {GPURED_MEAN, GPURED_STD, GPURED_MIN, GPURED_MAX};
  float out[4][PARTS] = {{0}};
  gpured_options o = gpured_default_options();
  o.ddof = 1; /* a sample of all irises; only std looks at it */
  for (int i = 0; i < 4; ++i) {
    gpured_tensor r = gpured_vector(out[i], GPURED_F32, PARTS);
    if (fails(gpured_reduce(ops[i], &d->x, 1u << 0, &r, &o), "column statistics")) return 1;
  }
  printf("\n1. Each measurement over all flowers (reduce axis 0):\n%16s%8s%8s%8s%8s\n", "", "mean",
         "std", "min", "max");
  for (int j = 0; j < PARTS; ++j) {
    printf("   %-13s%8.3f%8.3f%8.1f%8.1f\n", part_name[j], (double)out[0][j], (double)out[1][j],
           (double)out[2][j], (double)out[3][j]);
  }
  return 0;
}

static int rows(const iris *d) {
  int64_t longest[FLOWERS] = {0}, votes[PARTS] = {0};
  float mean[FLOWERS] = {0};
  gpured_tensor r = gpured_vector(longest, GPURED_I64, FLOWERS);
  gpured_tensor m = gpured_vector(mean, GPURED_F32, FLOWERS);
  if (fails(gpured_reduce(GPURED_ARGMAX, &d->x, 1u << 1, &r, NULL), "row argmax")) return 1;
  if (fails(gpured_reduce(GPURED_MEAN, &d->x, 1u << 1, &m, NULL), "row means")) return 1;
  for (int i = 0; i < FLOWERS; ++i) ++votes[longest[i]];
  const int64_t big = gpured_argmax_f32(mean, FLOWERS), small = gpured_argmin_f32(mean, FLOWERS);
  printf("\n2. Each flower over its measurements (reduce axis 1):\n   the longest of the four is");
  for (int j = 0, said = 0; j < PARTS; ++j) {
    if (votes[j] == 0) continue;
    printf("%s the %s %lld times", said++ ? "," : "", part_name[j], (long long)votes[j]);
  }
  printf(";\n   largest on average is flower %lld (%.3f cm, %s), smallest %lld (%.3f cm, %s)\n",
         (long long)big + 1, (double)mean[big], species_name[d->species[big]], (long long)small + 1,
         (double)mean[small], species_name[d->species[small]]);
  return 0;
}

/* ---- 3: scans ---- */

static int running(const iris *d) {
  const int64_t n = FLOWERS;
  float sum[FLOWERS] = {0}, top[FLOWERS] = {0};
  gpured_tensor petal = gpured_array((const float *)d->x.data + 2 * d->x.strides[1], GPURED_F32, 1,
                                     &n, &d->x.strides[0]);
  gpured_tensor s = gpured_vector(sum, GPURED_F32, n), t = gpured_vector(top, GPURED_F32, n);
  int records = 1, last = 0;
  if (fails(gpured_scan(GPURED_SUM, &petal, 0, 0, &s, NULL), "running sum")) return 1;
  if (fails(gpured_scan(GPURED_MAX, &petal, 0, 0, &t, NULL), "running maximum")) return 1;
  for (int i = 1; i < FLOWERS; ++i) {
    if (top[i] > top[i - 1]) ++records, last = i;
  }
  printf("\n3. Down the petal lengths, flower by flower (scan axis 0):\n");
  for (int k = 0; k < SPECIES; ++k) {
    const float before = k ? sum[EACH * k - 1] : 0.0f, after = sum[EACH * (k + 1) - 1];
    printf("   the sum reaches %.1f cm after flower %d: %s petals are %.3f cm on average\n",
           (double)after, EACH * (k + 1), species_name[k], (double)(after - before) / EACH);
  }
  printf("   the maximum rises %d times, last at flower %d, to %.1f cm\n", records, last + 1,
         (double)top[last]);
  return 0;
}

/* ---- 4: nearest neighbours ---- */

/* For every point the index of the nearest of the others, and the square of the distance: both
 * from one pass over distances that are never stored. points: [..., P, 4], others: [..., Q, 4]. */
static gpured_status nearest(const gpured_tensor *points, const gpured_tensor *others,
                             const gpured_tensor *index, const gpured_tensor *square,
                             const gpured_options *o) {
  gpured_tensor b = *others; /* transposed: its last two axes change places */
  const int p = b.ndim - 2, q = b.ndim - 1;
  b.shape[p] = others->shape[q], b.shape[q] = others->shape[p];
  b.strides[p] = others->strides[q], b.strides[q] = others->strides[p];

  gpured_result results[2];
  results[0].op = GPURED_ARGMIN, results[0].out = *index;
  results[1].op = GPURED_MIN, results[1].out = *square;
  gpured_gemm g = gpured_default_gemm();
  g.form = GPURED_FORM_L2;
  g.axis = 1;
  g.a = points;
  g.b = &b;
  g.count = 2;
  g.results = results;
  return gpured_gemm_reduce_ex(&g, o);
}

/* The mean of each species: [SPECIES, PARTS]. */
static gpured_status centres(const iris *d, float *out, gpured_tensor *c) {
  const int64_t s0 = d->x.strides[0], s1 = d->x.strides[1];
  const int64_t shape[3] = {SPECIES, EACH, PARTS}, strides[3] = {EACH * s0, s0, s1};
  const gpured_tensor groups = view(&d->x, 0, 3, shape, strides);
  *c = gpured_matrix(out, GPURED_F32, SPECIES, PARTS);
  return gpured_reduce(GPURED_MEAN, &groups, 1u << 1, c, NULL);
}

/* Says how many flowers were given their own species, and how far away the nearest was. */
static void score(const char *what, const iris *d, const int64_t *given, const float *square) {
  int right[SPECIES] = {0};
  double far = 0;
  for (int i = 0; i < FLOWERS; ++i) {
    right[d->species[i]] += given[i] == d->species[i];
    far += sqrt(fmax(0.0, (double)square[i])) / FLOWERS;
  }
  printf("   %s: %d of %d (%s %d, %s %d, %s %d of %d);\n", what, right[0] + right[1] + right[2],
         FLOWERS, species_name[0], right[0], species_name[1], right[1], species_name[2], right[2],
         EACH);
  printf("      it is %.3f cm away on average\n", far);
}

static int neighbours(const iris *d) {
  /* Even flowers against odd ones, and odd against even: a batch of two, by strides alone. */
  const int64_t s0 = d->x.strides[0], s1 = d->x.strides[1], shape[3] = {2, HALF, PARTS};
  const int64_t mine[3] = {s0, 2 * s0, s1}, theirs[3] = {-s0, 2 * s0, s1}, out[2] = {1, 2};
  const gpured_tensor a = view(&d->x, 0, 3, shape, mine), b = view(&d->x, 1, 3, shape, theirs);
  int64_t index[FLOWERS] = {0};
  float square[FLOWERS] = {0}, mean[SPECIES * PARTS] = {0};
  gpured_tensor c, i2 = gpured_array(index, GPURED_I64, 2, shape, out);
  gpured_tensor q2 = gpured_array(square, GPURED_F32, 2, shape, out);
  gpured_tensor i1 = gpured_vector(index, GPURED_I64, FLOWERS);
  gpured_tensor q1 = gpured_vector(square, GPURED_F32, FLOWERS);

  if (fails(nearest(&a, &b, &i2, &q2, NULL), "nearest flowers")) return 1;
  for (int i = 0; i < FLOWERS; ++i) index[i] = d->species[2 * index[i] + 1 - i % 2];
  printf("\n4. How many flowers have the species of what is nearest (fused GEMM-reduce)?\n");
  score("the nearest flower of the other half", d, index, square);
  if (fails(centres(d, mean, &c), "species means")) return 1;
  if (fails(nearest(&d->x, &c, &i1, &q1, NULL), "nearest means")) return 1;
  score("the nearest species mean", d, index, square);
  return 0;
}

/* ---- 5: the same bits ---- */

enum { COPIES = 2000, MANY = COPIES * FLOWERS };

/* All that is compared. It is zeroed before use, so that what a call leaves out shows. */
typedef struct outcome {
  float sum[PARTS], running[MANY], square[MANY];
  int64_t nearest[MANY];
} outcome;

static gpured_status compute(const iris *d, const float *many, int threads, outcome *r) {
  gpured_options o = gpured_default_options();
  gpured_tensor c, x = gpured_matrix(many, GPURED_F32, MANY, PARTS);
  const int64_t n = MANY, stride = PARTS;
  gpured_tensor petal = gpured_array(many + 2, GPURED_F32, 1, &n, &stride);
  gpured_tensor sum = gpured_vector(r->sum, GPURED_F32, PARTS);
  gpured_tensor run = gpured_vector(r->running, GPURED_F32, MANY);
  gpured_tensor index = gpured_vector(r->nearest, GPURED_I64, MANY);
  gpured_tensor square = gpured_vector(r->square, GPURED_F32, MANY);
  float mean[SPECIES * PARTS];
  gpured_status st;

  memset(r, 0, sizeof *r);
  o.threads = threads;
  st = gpured_reduce(GPURED_SUM, &x, 1u << 0, &sum, &o);
  if (st == GPURED_OK) st = gpured_scan(GPURED_SUM, &petal, 0, 0, &run, &o);
  if (st == GPURED_OK) st = centres(d, mean, &c);
  if (st == GPURED_OK) st = nearest(&x, &c, &index, &square, &o);
  return st;
}

/* A sum that is long enough to show what the order of additions is worth. */
static void accuracy(const float *many, float sum) {
  float plain = 0.0f;
  double exact = 0.0;
  for (int i = 0; i < MANY; ++i) {
    plain += many[PARTS * i + 2];
    exact += (double)many[PARTS * i + 2];
  }
  printf("   their petals add up to %.2f cm, off by %.2f from a sum in double; a plain loop in\n",
         (double)sum, fabs((double)sum - exact));
  printf("   float is off by %.2f\n", fabs((double)plain - exact));
}

static int same_bits(const iris *d) {
  static const int threads[3] = {2, 3, 7};
  float *many = malloc(sizeof *many * MANY * PARTS);
  outcome *one = malloc(sizeof *one), *other = malloc(sizeof *other);
  int bad = !many || !one || !other;
  if (bad) fprintf(stderr, "demo: not enough memory\n");
  for (int i = 0; !bad && i < MANY * PARTS; ++i) {
    const float *x = d->x.data;
    many[i] = x[i / PARTS % FLOWERS * d->x.strides[0] + i % PARTS * d->x.strides[1]];
  }
  if (!bad) bad = fails(compute(d, many, 1, one), "1 thread");
  for (int i = 0; !bad && i < 3; ++i) {
    bad = fails(compute(d, many, threads[i], other), "several threads");
    if (!bad && memcmp(one, other, sizeof *one) != 0) {
      fprintf(stderr, "demo: %d threads gave other bits than 1 thread\n", threads[i]);
      bad = 1;
    }
  }
  if (!bad) {
    printf("\n5. %d copies of the table, %d flowers: sums, running sums and nearest means came\n",
           COPIES, MANY);
    printf("   out the same with 1, 2, 3 and 7 threads, compared bit by bit: %zu bytes each\n",
           sizeof *one);
    printf("   (a build without OpenMP has only one thread, whatever it is asked for)\n");
    accuracy(many, one->sum[2]);
  }
  free(many);
  free(one);
  free(other);
  return bad;
}

/* ---- the table ---- */

/* Reads folder/file as an array of the given number of axes and extents; 1 after an error. */
static int load(const char *folder, const char *file, int ndim, const int64_t *shape,
                npy_array *a) {
  char path[4096], err[4352];
  if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) {
    fprintf(stderr, "demo: the name of the folder is too long\n");
    return 1;
  }
  if (npy_load(path, a, err, sizeof err)) {
    fprintf(stderr, "demo: %s\n", err);
    return 1;
  }
  int good = a->t.ndim == ndim;
  for (int i = 0; good && i < ndim; ++i) good = a->t.shape[i] == shape[i];
  if (!good) fprintf(stderr, "demo: %s: not the shape of the iris data\n", path);
  return !good;
}

static int run_all(const npy_array *x, const npy_array *species) {
  iris d = {x->t, {0}};
  gpured_tensor codes = gpured_vector(d.species, GPURED_I64, FLOWERS);
  if (x->t.dtype != GPURED_F32) {
    fprintf(stderr, "demo: iris.npy: not float32\n");
    return 1;
  }
  /* Reducing no axis copies, whatever integers the file has. */
  if (fails(gpured_reduce(GPURED_MAX, &species->t, 0, &codes, NULL), "species")) return 1;
  for (int i = 0; i < FLOWERS; ++i) {
    if (d.species[i] != i / EACH) {
      fprintf(stderr, "demo: iris_species.npy: not 50 times 0, 50 times 1, 50 times 2\n");
      return 1;
    }
  }
  printf("gpured %u.%u.%u, %s: Fisher's iris, %d flowers of %d species, %d measurements in cm\n",
         gpured_version() / 10000, gpured_version() / 100 % 100, gpured_version() % 100,
         gpured_cpu_level(), FLOWERS, SPECIES, PARTS);
  return columns(&d) || rows(&d) || running(&d) || neighbours(&d) || same_bits(&d);
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "examples/data";
  const int64_t shape[2] = {FLOWERS, PARTS};
  npy_array x, species;
  int bad;
  if (argc > 2) {
    fprintf(stderr, "usage: demo [data-folder]\n");
    return 1;
  }
  memset(&x, 0, sizeof x);
  memset(&species, 0, sizeof species);
  bad = load(folder, "iris.npy", 2, shape, &x) ||
        load(folder, "iris_species.npy", 1, shape, &species) || run_all(&x, &species);
  npy_free(&x);
  npy_free(&species);
  return bad;
}
