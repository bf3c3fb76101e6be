/*
 * What the tests share: tensors with guarded memory in any layout, comparison by bits, names for
 * messages, and the table of what the API accepts, written down again from docs/ORDER.md section 1.
 */
#ifndef TESTS_UTIL_H
#define TESTS_UTIL_H

#include <stdint.h>

#include "oracle.h"
#include "runner.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Dtypes and ops are ints here, since compilers differ in the sign of an enumeration. Every value,
 * in their order: */
extern const int all_dtypes[10], all_ops[17];

int is_float(int dtype);
int is_arg(int op);
int is_real(int op); /* mean, norm2, logsumexp, var, std */
const char *op_name(int op);
const char *dtype_name(int dtype);

/* Whether a reduction of `in` may be stored as `out`; whether acc_dtype may be given for `in`. */
int valid_output(int op, int in, int out);
int valid_acc(int in, int acc);
/* The output that needs no thought: in itself, f32 or f64 for real ops, i64 for indices and counts,
 * u8 for truth. */
int usual_output(int op, int in);

/* The next random number of a sequence; lo..hi, both included. */
int64_t random_in(uint64_t *state, int64_t lo, int64_t hi);

/* How a box lays its tensor out in memory. */
typedef enum layout {
  LAYOUT_C,      /* row-major, contiguous */
  LAYOUT_F,      /* the first axis fastest */
  LAYOUT_NEG,    /* row-major with every stride negative */
  LAYOUT_GAP,    /* row-major with two elements between neighbours */
  LAYOUT_PAD,    /* row-major, rows with padding behind them */
  LAYOUT_RANDOM, /* any order of axes, signs, gaps, padding and alignment */
  LAYOUT_ZERO,   /* as RANDOM, and some strides are 0: inputs only */
  LAYOUT_COUNT
} layout;

/*
 * A tensor in memory of its own. Memory outside of its elements holds a pattern. In an input that
 * pattern makes NaN or -1, and nothing follows the last element, so that a sanitizer sees a read
 * beyond it; in an output there is a guard on both sides.
 */
typedef struct box {
  gpured_tensor t;
  unsigned char *memory;
  size_t bytes;
  unsigned char pattern;
} box;

box box_input(int dtype, int ndim, const int64_t *shape, layout how, uint64_t seed);
box box_output(int dtype, int ndim, const int64_t *shape, layout how, uint64_t seed);
/* The same with strides that are given, and so many elements between the memory's start and the
 * lowest element. */
box box_strided(int dtype, int ndim, const int64_t *shape, const int64_t *strides, size_t before,
                int output);
/* An input that holds the data (kind, seed) of gen.h. */
box box_filled(int dtype, int ndim, const int64_t *shape, layout how, int kind, uint64_t seed);
void box_free(box *b);
int box_untouched(const box *b);      /* not one byte was written */
int box_gaps_untouched(const box *b); /* nothing was written outside of the elements */

unsigned char *element(const gpured_tensor *t, int64_t index); /* of row-major index */
double value(const gpured_tensor *t, int64_t index);
void set_value(const gpured_tensor *t, int64_t index, double v); /* v must fit the dtype exactly */
/* The first n of them, in memory that the caller frees. */
double *values(const gpured_tensor *t, int64_t n);

/* Row x (k numbers) of a product with y (k rows of n), each sum in the order of k: of products, of
 * their magnitudes and, if it is not NULL, of the squares of both factors. */
void row_of_product(const double *x, const double *y, int64_t k, int64_t n, double *sum,
                    double *size, double *squares);

/* Values at the edges of a float type, by their bits. */
typedef enum special {
  SP_NAN,  /* quiet, with a payload */
  SP_NNAN, /* signalling, negative */
  SP_INF,
  SP_NINF,
  SP_ZERO,
  SP_NZERO,
  SP_TINY, /* the smallest subnormal */
  SP_NTINY,
  SP_SUB, /* the largest subnormal */
  SP_MAX,
  SP_NMAX,
  SP_COUNT
} special;
const char *special_name(int which);
void set_special(const gpured_tensor *t, int64_t index, int which);

/* The first element whose bits differ, or -1. Shapes may differ in axes of extent 1. */
int64_t first_difference(const gpured_tensor *a, const gpured_tensor *b);
/* CHECKs that b holds exactly `want` and that its gaps are as they were; `what` describes the case.
 * With around_only (--around) what it holds is not looked at. */
extern int around_only;
void expect_same(const box *b, const gpured_tensor *want, const char *what);

/* The dtype, shape and strides of a tensor as text; valid until the sixteenth text after it. */
const char *describe(const gpured_tensor *t);
/* printf into such a text. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
const char *
text(const char *format, ...);

/* Options of a strict call on a backend. */
gpured_options options_for(gpured_backend backend, int acc, int ddof, int threads);

/* The shape that reducing `axes` leaves; keep: reduced axes stay with extent 1. Returns its ndim.
 */
int reduced_shape(const gpured_tensor *in, uint32_t axes, int keep, int64_t *shape);

/* A tensor with axis `axis` cut to [start, start + extent). */
gpured_tensor slice(const gpured_tensor *t, int axis, int64_t start, int64_t extent);

#endif /* TESTS_UTIL_H */
