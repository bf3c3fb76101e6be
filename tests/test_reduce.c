/* gpured_reduce against the oracle, bit by bit. */
#include <fenv.h>
#include <string.h>

#include "util.h"

/* ---- one case -------------------------------------------------------------------------------- */

typedef struct reduce_case {
  gpured_backend backend;
  int op;
  const gpured_tensor *in;
  uint32_t axes;
  int out, acc, ddof; /* out 0: the usual dtype */
  int threads, keep;
  layout how; /* of the output */
  uint64_t seed;
} reduce_case;

static const char *case_text(const reduce_case *c) {
  return text("%s of %s axes 0x%x -> %s acc %s ddof %d threads %d keep %d layout %d",
              op_name(c->op), describe(c->in), c->axes, dtype_name(c->out), dtype_name(c->acc),
              c->ddof, c->threads, c->keep, (int)c->how);
}

static int64_t reduced_extent(const gpured_tensor *in, uint32_t axes) {
  int64_t n = 1;
  int i;
  for (i = 0; i < in->ndim; ++i)
    if (axes >> i & 1) n *= in->shape[i];
  return n;
}

static void oracle_case(const reduce_case *c, box *want) {
  int64_t shape[GPURED_MAX_NDIM];
  int ndim = reduced_shape(c->in, c->axes, c->keep, shape);
  *want = box_output(c->out, ndim, shape, LAYOUT_C, 0);
  oracle_reduce((gpured_op)c->op, c->in, c->axes, &want->t, c->acc, c->ddof);
}

/* Whether the processor has noted an invalid operation before a call: minima and maxima ask it for
 * NaN, and find another way where it has. */
static int noted_before;

static void note_invalid(void) {
  feclearexcept(FE_ALL_EXCEPT);
  if (noted_before) feraiseexcept(FE_INVALID);
}

/* Runs the case and compares with `want`, or, where that is NULL, with the oracle. */
static void check_against(const reduce_case *given, const gpured_tensor *want) {
  reduce_case c = *given;
  gpured_options o = options_for(c.backend, c.acc, c.ddof, c.threads);
  int64_t shape[GPURED_MAX_NDIM];
  gpured_status status;
  box got, computed;
  if (!c.out) c.out = usual_output(c.op, c.in->dtype);
  got = box_output(c.out, reduced_shape(c.in, c.axes, c.keep, shape), shape, c.how, c.seed);
  note_invalid();
  status = gpured_reduce((gpured_op)c.op, c.in, c.axes, &got.t, &o);
  if (is_arg(c.op) && reduced_extent(c.in, c.axes) == 0) {
    CHECK(status == GPURED_ERR_SHAPE, "%s: status %d", case_text(&c), (int)status);
    CHECK(box_untouched(&got), "%s: output touched", case_text(&c));
  } else if (status != GPURED_OK) {
    CHECK(0, "%s: status %d", case_text(&c), (int)status);
  } else if (want) {
    expect_same(&got, want, case_text(&c));
  } else {
    oracle_case(&c, &computed);
    expect_same(&got, &computed.t, case_text(&c));
    box_free(&computed);
  }
  box_free(&got);
}

static void check(const reduce_case *c) {
  if (test_mine()) check_against(c, NULL);
}

/* ---- the examples of docs/ORDER.md, worked by hand ------------------------------------------- */

static void test_examples(gpured_backend backend) {
  static const float rows[] = {15, 51, 87, 123}, columns[] = {36, 40, 44, 48, 52, 56};
  float a[24], out[6];
  double v[4] = {1, 2, 3, 4}, var = 0;
  gpured_tensor in = gpured_matrix(a, GPURED_F32, 4, 6), d, x = gpured_vector(v, GPURED_F64, 4);
  gpured_options o = options_for(backend, 0, 0, 0);
  int i;
  for (i = 0; i < 24; ++i) a[i] = (float)i;
  d = gpured_vector(out, GPURED_F32, 4);
  CHECK(gpured_reduce(GPURED_SUM, &in, 2, &d, &o) == GPURED_OK, "row sums of the 4x6 puzzle");
  for (i = 0; i < 4; ++i) CHECK(out[i] == rows[i], "row %d is %g", i, (double)out[i]);
  d = gpured_matrix(out, GPURED_F32, 4, 1);
  memset(out, 0, sizeof out);
  CHECK(gpured_reduce(GPURED_SUM, &in, 2, &d, &o) == GPURED_OK, "row sums into 4x1");
  for (i = 0; i < 4; ++i) CHECK(out[i] == rows[i], "row %d of 4x1 is %g", i, (double)out[i]);
  d = gpured_vector(out, GPURED_F32, 6);
  CHECK(gpured_reduce(GPURED_SUM, &in, 1, &d, &o) == GPURED_OK, "column sums");
  for (i = 0; i < 6; ++i) CHECK(out[i] == columns[i], "column %d is %g", i, (double)out[i]);
  d = gpured_vector(&var, GPURED_F64, 1);
  CHECK(gpured_reduce(GPURED_VAR, &x, 1, &d, &o) == GPURED_OK, "variance of 1 2 3 4");
  CHECK(var == 1.25, "variance of 1 2 3 4 is %g", var);
}

/* logsumexp(0, 0) is log 2, whose last bit the specification gives. */
static void test_example_logsumexp(gpured_backend backend) {
  float zero[2] = {0, 0}, out = 0;
  gpured_tensor in = gpured_vector(zero, GPURED_F32, 2), d = gpured_vector(&out, GPURED_F32, 1);
  gpured_options o = options_for(backend, 0, 0, 0);
  CHECK(gpured_reduce(GPURED_LOGSUMEXP, &in, 1, &d, &o) == GPURED_OK, "logsumexp(0, 0)");
  CHECK(out == 0x1.62e43p-1f, "logsumexp(0, 0) is %a", (double)out);
}

/* ---- every type ------------------------------------------------------------------------------ */

static void types_of_input(gpured_backend backend, const box *in) {
  static const int accs[] = {0, GPURED_F64};
  int i, j, k;
  for (i = 0; i < COUNT(all_ops); ++i)
    for (j = 0; j < COUNT(all_dtypes); ++j)
      for (k = 0; k < COUNT(accs); ++k) {
        reduce_case c = {backend, all_ops[i], &in->t,   1, all_dtypes[j], accs[k], 0,
                         0,       0,          LAYOUT_C, 0};
        if (!valid_output(c.op, in->t.dtype, c.out) || !valid_acc(in->t.dtype, c.acc)) continue;
        check(&c);
      }
}

static void test_types(gpured_backend backend) {
  static const int64_t sizes[] = {0, 1, 2, 17, 300, 1100};
  int i, j, kind;
  for (i = 0; i < COUNT(all_dtypes); ++i)
    for (j = 0; j < COUNT(sizes); ++j)
      for (kind = 0; kind < OR_KINDS; ++kind) {
        box in = box_filled(all_dtypes[i], 1, &sizes[j], LAYOUT_C, kind, 77u + (uint64_t)kind);
        types_of_input(backend, &in);
        box_free(&in);
        if (sizes[j] == 0) break;
      }
}

/* var and std for every ddof, also where the divisor is not positive. */
static void test_ddof(gpured_backend backend) {
  static const int64_t sizes[] = {0, 1, 2, 3, 16, 1024, 1025, 3000};
  static const int dtypes[] = {GPURED_F32,  GPURED_F64, GPURED_F16,
                               GPURED_BF16, GPURED_I32, GPURED_U64};
  int i, j, ddof;
  for (i = 0; i < COUNT(dtypes); ++i)
    for (j = 0; j < COUNT(sizes); ++j) {
      box in = box_filled(dtypes[i], 1, &sizes[j], LAYOUT_C, OR_UNIFORM, 5);
      for (ddof = 0; ddof <= 4; ++ddof) {
        reduce_case c = {backend, GPURED_VAR, &in.t, 1, 0, 0, ddof, 0, 0, LAYOUT_C, 0};
        check(&c);
        c.op = GPURED_STD;
        check(&c);
      }
      box_free(&in);
    }
}

/* Integers as large and as small as there are, so many that sums of a few bits would overflow. */
static void test_full_integers(gpured_backend backend) {
  static const int dtypes[] = {GPURED_I8, GPURED_U8, GPURED_I32, GPURED_U32};
  static const int bytes[] = {0xff, 0x80, 0x7f, 0};
  static const int64_t sizes[] = {70001, 270001};
  int i, j;
  int64_t k;
  for (i = 0; i < COUNT(dtypes); ++i)
    for (j = 0; j < COUNT(bytes); ++j) {
      const int64_t n = sizes[(i + j) % 2];
      box in = box_filled(dtypes[i], 1, &n, LAYOUT_C, OR_UNIFORM, 5);
      reduce_case c = {backend, GPURED_SUM, &in.t, 1, 0, 0, 0, 0, 0, LAYOUT_C, 0};
      unsigned char *x = (unsigned char *)in.t.data;
      size_t size = gpured_dtype_size((gpured_dtype)dtypes[i]);
      memset(x, bytes[j], (size_t)n * size);
      for (k = 0; size == 4 && bytes[j] == 0x80 && k < n; ++k)
        ((uint32_t *)in.t.data)[k] = 1u << 31;
      check(&c);
      box_free(&in);
    }
}

/* ---- every size ------------------------------------------------------------------------------ */

/* Around the lanes, the block, the blocks of 1024, and the levels of the tree. */
static const int64_t small_sizes[] = {
    0,    1,    2,    3,    5,    7,    8,    9,    14,   15,   16,   17,   18,   31,   32,   33,
    47,   48,   49,   63,   64,   65,   127,  128,  129,  239,  240,  241,  255,  256,  257,  271,
    272,  273,  511,  512,  513,  767,  768,  769,  1023, 1024, 1025, 1279, 1280, 1281, 2047, 2048,
    2049, 3071, 3072, 3073, 3328, 4095, 4096, 4097, 5119, 5120, 5121, 8191, 8192, 8193};
static const int64_t large_sizes[] = {16383,  16384,   16385,   32767,  32768,  32769,  65535,
                                      65536,  65537,   131071,  131072, 131073, 262143, 262144,
                                      262145, 458751,  458752,  458753, 524287, 524288, 524289,
                                      600001, 1048575, 1048576, 1048577};

static void one_size(gpured_backend backend, int dtype, int64_t n, int kind, int stride) {
  int64_t shape[2] = {n, stride};
  box in = box_filled(dtype, 2, shape, LAYOUT_C, kind, 11u + (uint64_t)n);
  gpured_tensor line = slice(&in.t, 1, stride - 1, 1);
  int i;
  for (i = 0; i < COUNT(all_ops); ++i) {
    reduce_case c = {backend, all_ops[i], &line, 3, 0, 0, 0, 0, 0, LAYOUT_C, 0};
    if (kind == OR_FACTOR && c.op != GPURED_PROD) continue;
    check(&c);
  }
  box_free(&in);
}

static void test_sizes(gpured_backend backend) {
  static const int kinds[] = {OR_UNIFORM, OR_WIDE, OR_SPECIAL, OR_EXP, OR_FACTOR};
  int i, j, k;
  for (i = 0; i < COUNT(all_dtypes); ++i)
    for (j = 0; j < COUNT(small_sizes); ++j)
      for (k = 0; k < COUNT(kinds); ++k) {
        if (k > 0 && small_sizes[j] > 2100 && all_dtypes[i] != GPURED_F32) continue;
        one_size(backend, all_dtypes[i], small_sizes[j], kinds[k], 1 + k % 2);
      }
}

static void test_sizes_large(gpured_backend backend) {
  static const int ops[] = {GPURED_SUM,       GPURED_SUMSQ, GPURED_NORM1,
                            GPURED_LOGSUMEXP, GPURED_VAR,   GPURED_ARGMAX};
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_BF16, GPURED_I64};
  int i, j, k;
  for (j = 0; j < COUNT(large_sizes); ++j)
    for (k = 0; k < COUNT(dtypes); ++k) {
      box in = box_filled(dtypes[k], 1, &large_sizes[j], LAYOUT_C, OR_UNIFORM, 3u + (uint64_t)j);
      for (i = 0; i < COUNT(ops); ++i) {
        reduce_case c = {backend, ops[i], &in.t, 1, 0, 0, 0, 0, 0, LAYOUT_C, 0};
        if (k == 0 || i < 3 || large_sizes[j] < 70000) check(&c);
      }
      box_free(&in);
    }
}

/* More than a megabyte, which the CPU reads from several places in turn, of every type, with equal
 * values among which the first is to be found, and with NaN and infinities. */
static void test_sizes_apart(gpured_backend backend) {
  static const int kinds[] = {OR_TIES, OR_SPECIAL, OR_WIDE, OR_UNIFORM};
  int i, k, t = 0;
  for (i = 0; i < COUNT(all_dtypes); ++i)
    for (k = 0; k < COUNT(all_ops); ++k, ++t) {
      const int64_t n = (1 << 20) / (int64_t)gpured_dtype_size((gpured_dtype)all_dtypes[i]) + 70007;
      box in;
      reduce_case c = {backend, all_ops[k], &in.t, 1, 0, 0, 0, 0, 0, LAYOUT_C, 0};
      if (i > 1 && c.op >= GPURED_LOGSUMEXP) continue;
      in = box_filled(all_dtypes[i], 1, &n, LAYOUT_C, kinds[t % 4], (uint64_t)t);
      check(&c);
      box_free(&in);
    }
}

/* Rows of a few blocks, several of which are read in turn; with and without gaps between them. */
static void test_rows_apart(gpured_backend backend) {
  static const int ops[] = {GPURED_SUM, GPURED_PROD, GPURED_NORM1, GPURED_NORM2, GPURED_MAX};
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_I64};
  static const int64_t lengths[] = {257, 1000, 2048, 4096, 5003};
  int i, j, k;
  for (i = 0; i < COUNT(lengths); ++i)
    for (j = 0; j < COUNT(dtypes); ++j) {
      const int64_t shape[] = {600000 / lengths[i] + i % 4, lengths[i]};
      box in = box_filled(dtypes[j], 2, shape, (i + j) % 2 ? LAYOUT_PAD : LAYOUT_C,
                          i % 2 ? OR_WIDE : OR_FACTOR, (uint64_t)i + (uint64_t)j);
      for (k = 0; k < COUNT(ops); ++k) {
        reduce_case c = {backend, ops[k], &in.t, 2, 0, 0, 0, 0, 0, LAYOUT_C, 0};
        check(&c);
      }
      box_free(&in);
    }
}

/* 2^24 + 1 elements: the first count that f32 cannot hold. */
static void test_size_2_24(gpured_backend backend) {
  int64_t n = (1 << 24) + 1;
  static const int ops[] = {GPURED_SUM, GPURED_MEAN, GPURED_ARGMIN};
  box in = box_filled(GPURED_F32, 1, &n, LAYOUT_C, OR_UNIFORM, 24);
  int i;
  for (i = 0; i < COUNT(ops); ++i) {
    reduce_case c = {backend, ops[i], &in.t, 1, 0, 0, 0, 0, 0, LAYOUT_C, 0};
    check(&c);
  }
  box_free(&in);
}

/* Columns: the other way through memory, with widths around the lanes; and rows beside them. */
static void test_columns(gpured_backend backend) {
  static const int64_t widths[] = {0, 1, 2, 3, 15, 16, 17, 31, 33, 65, 130};
  static const int64_t heights[] = {0, 1, 2, 15, 16, 17, 33, 255, 256, 257, 513, 1025, 2049};
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_F16, GPURED_I8};
  int i, j, k, m;
  for (i = 0; i < COUNT(widths); ++i)
    for (j = 0; j < COUNT(heights); ++j)
      for (k = 0; k < COUNT(dtypes); ++k) {
        int64_t shape[2] = {heights[j], widths[i]};
        box in = box_filled(dtypes[k], 2, shape, LAYOUT_C, k % 2 ? OR_WIDE : OR_SPECIAL,
                            8u + (uint64_t)i);
        for (m = 0; m < COUNT(all_ops); ++m) {
          reduce_case c = {backend, all_ops[m], &in.t, 1, 0, 0, 0, 0, 0, LAYOUT_C, 0};
          if (shape[0] * shape[1] > 40000 && (m % 5 != i % 5)) continue;
          if (k > 0 && (m + i + j) % 3 != 0) continue;
          if (shape[1] > 0) check(&c);
          c.axes = 2;
          if (shape[0] > 0) check(&c);
        }
        box_free(&in);
      }
}

/* Columns of so few rows that each has a lane of its own: every height, less than a line of columns
 * and more, the last lines whole and not, with and without gaps between the rows. */
static void test_few_rows(gpured_backend backend) {
  static const int64_t widths[] = {3, 7, 8, 9, 15, 16, 17, 31, 33, 100, 4099};
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_I64, GPURED_BF16};
  int64_t shape[2];
  int i, k, m, t = 0;
  for (shape[0] = 1; shape[0] <= 17; ++shape[0])
    for (i = 0; i < COUNT(widths); ++i)
      for (k = 0; k < COUNT(dtypes); ++k, ++t) {
        const int each = widths[i] > 1000 ? 8 : k > 0 ? 3 : 1;
        box in;
        shape[1] = widths[i];
        in = box_filled(dtypes[k], 2, shape, t % 3 ? LAYOUT_C : LAYOUT_PAD,
                        t % 2 ? OR_WIDE : OR_SPECIAL, (uint64_t)t);
        for (m = t % each; m < COUNT(all_ops); m += each) {
          reduce_case c = {backend, all_ops[m], &in.t, 1, 0, 0, 0, 1, 0, LAYOUT_C, 0};
          check(&c);
        }
        box_free(&in);
      }
}

/* Sums and another operation along the columns of a matrix of f32, by up to three threads. */
static void check_wide(gpured_backend backend, const int64_t shape[2], int op) {
  box in = box_filled(GPURED_F32, 2, shape, LAYOUT_C, OR_UNIFORM, 5);
  reduce_case c = {backend, GPURED_SUM, &in.t, 1, 0, 0, 0, 1, 0, LAYOUT_C, 0};
  for (; c.threads <= 3; ++c.threads) {
    c.op = GPURED_SUM;
    check(&c);
    c.op = op;
    check(&c);
  }
  box_free(&in);
}

/* Columns whose rows touch: every number of vectors that 16 of them fill, and rows taken singly, in
 * fours, and in strips of more than 16 MiB. */
static void test_towers(gpured_backend backend) {
  static const int64_t heights[] = {117, 300, 1100};
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_I64};
  static const int64_t beyond[] = {34, 40, 65, 100, 129, 200, 256};
  const int64_t wide[2] = {70, 65700};
  int i, j, k, m, t = 0;
  reduce_case c = {backend, 0, NULL, 1, 0, 0, 0, 1, 0, LAYOUT_C, 0};
  box in;
  for (i = 2; i < 20 + COUNT(beyond); ++i)
    for (j = 0; j < COUNT(heights); ++j)
      for (k = 0; k < COUNT(dtypes); ++k, ++t) {
        int64_t shape[2] = {heights[j], i < 20 ? i : beyond[i - 20]};
        in = box_filled(dtypes[k], 2, shape, LAYOUT_C, t % 2 ? OR_WIDE : OR_SPECIAL, (uint64_t)t);
        c.in = &in.t;
        for (m = t % 4; m < COUNT(all_ops); m += 4) {
          c.op = all_ops[m];
          check(&c);
        }
        box_free(&in);
      }
  check_wide(backend, wide, GPURED_MAX);
}

/* Columns whose rows are long, so that a lane goes through many blocks before the next one:
 * subtrees of 2048 rows, blocks and lanes that are not full, rows with gaps between them. */
static void test_long_columns(gpured_backend backend) {
  static const int64_t heights[] = {257, 272, 513, 1792, 2049, 4103};
  static const int64_t widths[] = {256, 511, 512, 530};
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_I64};
  const int64_t wide[2] = {4700, 2050}; /* more than 16 MiB */
  reduce_case c = {backend, 0, NULL, 1, 0, 0, 0, 1, 0, LAYOUT_C, 0};
  int i, j, k, m, t = 0;
  box in;
  for (i = 0; i < COUNT(widths); ++i)
    for (j = 0; j < COUNT(heights); ++j)
      for (k = 0; k < COUNT(dtypes); ++k, ++t) {
        const int64_t shape[2] = {heights[j], widths[i]};
        const int each = heights[j] > 600 ? 8 : 4;
        if (heights[j] > 600 && (t + i) % 3) continue;
        in = box_filled(dtypes[k], 2, shape, t % 5 ? LAYOUT_C : LAYOUT_PAD,
                        t % 2 ? OR_WIDE : OR_SPECIAL, (uint64_t)t);
        c.in = &in.t;
        c.threads = 1 + t % 2;
        for (m = t % each; m < COUNT(all_ops); m += each) {
          c.op = all_ops[m];
          check(&c);
        }
        box_free(&in);
      }
  check_wide(backend, wide, GPURED_MIN);
}

/* What is converted or turned on its way: columns of an axis in the middle and short rows, of every
 * type, around the sizes of blocks, units and tasks. */
static void test_tiles(gpured_backend backend) {
  static const int64_t lengths[] = {2, 5, 15, 16, 17, 40, 63, 64, 65, 256, 257, 1024, 1025, 2100};
  static const int64_t widths[] = {2, 7, 17, 64, 70, 130, 300};
  static const int ops[] = {GPURED_ARGMAX,        GPURED_LOGSUMEXP, GPURED_VAR,
                            GPURED_ARGMIN,        GPURED_STD,       GPURED_SUM,
                            GPURED_COUNT_NONZERO, GPURED_ALL,       GPURED_MIN};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_WIDE, OR_TIES};
  int i, j, k, t = 0;
  for (i = 0; i < COUNT(lengths); ++i)
    for (j = 0; j < COUNT(widths); ++j)
      for (k = 0; k < COUNT(all_dtypes); ++k, ++t) {
        const int64_t middle[3] = {2, lengths[i], widths[j]}, last[2] = {3 * widths[j], lengths[i]};
        const layout how = t % 3 ? LAYOUT_C : (layout)(t % 4);
        box in, rows;
        reduce_case c = {backend, ops[t % COUNT(ops)], NULL, 2, 0, 0, t % 2, 0, 0, LAYOUT_C, 0};
        if (lengths[i] * widths[j] > 20000 && t % 4) continue;
        in = box_filled(all_dtypes[k], 3, middle, how, kinds[t % 4], (uint64_t)t);
        rows = box_filled(all_dtypes[k], 2, last, how, kinds[(t + 1) % 4], (uint64_t)t);
        c.in = &in.t;
        c.threads = 1 + t % 3;
        check(&c);
        c.in = &rows.t;
        c.op = ops[(t + 3) % COUNT(ops)];
        check(&c);
        box_free(&in);
        box_free(&rows);
      }
}

/* Sequences of one element, whose neighbours are read together where they touch. */
static void test_one_element(gpured_backend backend) {
  static const int64_t shapes[][3] = {{1, 1, 5},  {1, 70, 1}, {300, 1, 1}, {3, 1, 17},
                                      {2, 40, 1}, {1, 9, 50}, {1, 2, 1500}};
  static const int kinds[] = {OR_SPECIAL, OR_WIDE, OR_UNIFORM};
  int i, j, k, axis, t = 0;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(all_dtypes); ++j)
      for (axis = 0; axis < 3; ++axis)
        for (k = 0; k < COUNT(all_ops); ++k, ++t) {
          reduce_case c = {backend, all_ops[k], NULL, 1u << axis, 0, 0, t % 2, 0, 0, LAYOUT_C, 0};
          box in;
          if (shapes[i][axis] != 1) continue;
          in = box_filled(all_dtypes[j], 3, shapes[i],
                          t % 3 ? LAYOUT_C : (layout)(t % LAYOUT_COUNT), kinds[t % 3], (uint64_t)t);
          c.in = &in.t;
          c.threads = 1 + t % 3;
          c.how = t % 5 ? LAYOUT_C : LAYOUT_RANDOM;
          check(&c);
          box_free(&in);
        }
}

/* Bytes, whose extrema and means have ways of their own: every border of a vector, of four, and of
 * a piece; ties, least and greatest values. */
static void test_bytes(gpured_backend backend) {
  static const int64_t lengths[] = {1,    2,    3,    5,    10,   15,   16,   63,  64,
                                    65,   127,  128,  129,  255,  256,  257,  300, 511,
                                    1000, 4095, 4096, 4097, 5000, 8193, 70001};
  static const int ops[] = {GPURED_MIN,    GPURED_MAX,   GPURED_ARGMIN, GPURED_ARGMAX,
                            GPURED_MEAN,   GPURED_NORM2, GPURED_NORM1,  GPURED_COUNT_NONZERO,
                            GPURED_ABSMAX, GPURED_ANY,   GPURED_ALL};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_WIDE, OR_TIES};
  int i, j, k;
  for (i = 0; i < COUNT(lengths); ++i)
    for (j = 0; j < COUNT(kinds); ++j)
      for (k = 0; k < 2 * COUNT(ops); ++k) {
        const int64_t shape[2] = {lengths[i] < 20 ? 500 : 1 + (i + j + k) % 3, lengths[i]};
        box in = box_filled(k % 2 ? GPURED_I8 : GPURED_U8, 2, shape, LAYOUT_C, kinds[j],
                            7 + (uint64_t)i);
        reduce_case c = {backend, ops[k / 2], &in.t, 2, 0, 0, 0, 0, 0, LAYOUT_C, 0};
        check(&c);
        box_free(&in);
      }
}

/* Rows that touch and share vectors: as many as fill some, and few more or less. */
static void test_short_rows(gpured_backend backend) {
  static const int64_t rows[] = {15, 16, 17, 35, 100};
  static const int ops[] = {GPURED_SUM,   GPURED_PROD,  GPURED_MIN,  GPURED_MAX,
                            GPURED_SUMSQ, GPURED_NORM1, GPURED_MEAN, GPURED_ABSMAX};
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_I64};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL};
  int i, j, k;
  int64_t n;
  for (n = 1; n <= 17; ++n)
    for (i = 0; i < COUNT(rows); ++i)
      for (j = 0; j < COUNT(dtypes) * COUNT(kinds); ++j) {
        const int64_t shape[2] = {rows[i], n};
        box in = box_filled(dtypes[j / 2], 2, shape, LAYOUT_C, kinds[j % 2], 3 + (uint64_t)n);
        for (k = 0; k < COUNT(ops); ++k) {
          reduce_case c = {backend, ops[k], &in.t, 2, 0, 0, 0, 0, 0, LAYOUT_C, 0};
          check(&c);
        }
        box_free(&in);
      }
}

/* Means of integers up to the length at which their sums may be rounded, and beyond it. */
static void test_means(gpured_backend backend) {
  static const int64_t lengths[] = {1000, (1 << 21) - 1, 1 << 21, (1 << 21) + 1};
  static const int dtypes[] = {GPURED_I32, GPURED_U32, GPURED_I64};
  static const int kinds[] = {OR_SPECIAL, OR_WIDE};
  int i, j, k;
  for (i = 0; i < COUNT(lengths); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (k = 0; k < COUNT(kinds); ++k) {
        box in = box_filled(dtypes[j], 1, &lengths[i], LAYOUT_C, kinds[k], 9 + (uint64_t)i);
        reduce_case c = {backend, GPURED_MEAN, &in.t, 1, 0, 0, 0, 0, 0, LAYOUT_C, 0};
        check(&c);
        box_free(&in);
      }
}

/* ---- special values -------------------------------------------------------------------------- */

static void specials_at(gpured_backend backend, const box *in, const int64_t *at, int count) {
  int i, j, which;
  for (which = 0; which < SP_COUNT; ++which)
    for (i = 0; i < count; ++i) {
      uint64_t saved = gen_peek(&in->t, at[i]);
      set_special(&in->t, at[i], which);
      for (j = 0; j < COUNT(all_ops); ++j) {
        reduce_case c = {backend, all_ops[j], &in->t, 1, 0, 0, 0, 0, 0, LAYOUT_C, 0};
        check(&c);
      }
      gen_poke(&in->t, at[i], saved);
    }
}

/* One special value at the first, last and tail positions of ordinary, and of zero, data. */
static void test_specials(gpured_backend backend) {
  static const int64_t sizes[] = {1, 2, 16, 17, 31, 256, 257, 300, 1025, 1300};
  static const int kinds[] = {OR_UNIFORM, OR_ZERO, OR_TINY};
  int i, j, k;
  for (i = 0; i < 4; ++i)
    for (j = 0; j < COUNT(sizes); ++j)
      for (k = 0; k < COUNT(kinds); ++k) {
        int64_t n = sizes[j],
                at[] = {0, n - 1, n / 2, n / 16 * 16 % n, n / 256 * 256 % n, n / 1024 * 1024 % n};
        box in = box_filled(all_dtypes[i], 1, &n, LAYOUT_C, kinds[k], 6);
        specials_at(backend, &in, at, i == 0 ? 6 : 2);
        box_free(&in);
      }
}

/* One special value in each place of a block and of what is taken together, which is where vectors
 * and chains differ. An extreme that is zero has its sign from one element alone. Reduced is the
 * last axis. */
static void special_in_place(gpured_backend backend, const box *in, int64_t step) {
  static const int ops[] = {GPURED_MIN, GPURED_MAX, GPURED_ABSMAX, GPURED_ARGMIN, GPURED_ARGMAX};
  static const int pairs[][2] = {
      {SP_MAX, SP_NAN}, {SP_INF, SP_NNAN}, {SP_ZERO, SP_NZERO}, {SP_NZERO, SP_ZERO}};
  const int64_t n = in->t.ndim == 1 ? in->t.shape[0] : in->t.shape[0] * in->t.shape[1];
  int64_t at;
  int i, j;
  for (i = 0; i < COUNT(pairs); ++i) {
    for (at = 0; at < n; ++at) set_special(&in->t, at, pairs[i][0]);
    for (at = 0; at < n; at += step)
      for (j = 0; j < COUNT(ops); ++j) {
        reduce_case c = {backend, ops[j], &in->t, 0, 0, 0, 1, 0, 0, LAYOUT_C, 0};
        c.axes = 1u << (in->t.ndim - 1);
        set_special(&in->t, at, pairs[i][1]);
        check(&c);
        set_special(&in->t, at, pairs[i][0]);
      }
  }
}

static void test_special_places(gpured_backend backend) {
  static const int64_t sizes[] = {256, 1024, 4096 + 300, 3 * 4096 + 300, 330000};
  const int most = COUNT(sizes) - 1;
  int i, j;
  for (i = 0; i < 4; ++i)
    for (j = 0; j < COUNT(sizes) - (i > 1); ++j) {
      box in = box_input(all_dtypes[i], 1, &sizes[j], LAYOUT_C, 0);
      for (noted_before = j < most; noted_before >= 0; --noted_before)
        special_in_place(backend, &in,
                         j == 0      ? 1 + 2 * (i > 1)
                         : j == 1    ? 7
                         : j == most ? 41003
                                     : 61);
      noted_before = 0;
      box_free(&in);
    }
}

/* Rows, which are made many at a time, and again where one has such a value. */
static void test_special_rows(gpured_backend backend) {
  static const int64_t lengths[] = {3, 8, 16, 33, 64, 100, 256};
  int i, j;
  for (i = 0; i < 2; ++i)
    for (j = 0; j < COUNT(lengths); ++j) {
      const int64_t shape[] = {j < 5 ? 300 : 40, lengths[j]};
      box in = box_input(all_dtypes[i], 2, shape, LAYOUT_C, 0);
      for (noted_before = 1; noted_before >= 0; --noted_before)
        special_in_place(backend, &in, shape[0] * shape[1] / 7);
      noted_before = 0;
      box_free(&in);
    }
}

/* Two of them: inf - inf, two NaN of which the first counts, +0 against -0. */
static void test_special_pairs(gpured_backend backend) {
  static const int64_t n = 300,
                       places[][2] = {{0, 1}, {1, 0}, {0, 16}, {17, 299}, {299, 288}, {255, 256}};
  int i, a, b, p;
  for (i = 0; i < 4; ++i) {
    box in = box_input(all_dtypes[i], 1, &n, LAYOUT_C, 0);
    for (a = 0; a < SP_COUNT; ++a)
      for (b = 0; b < SP_COUNT; ++b)
        for (p = 0; p < COUNT(places); ++p) {
          int op;
          oracle_fill(&in.t, OR_ZERO, 0);
          set_special(&in.t, places[p][0], a);
          set_special(&in.t, places[p][1], b);
          for (op = 0; op < COUNT(all_ops); ++op) {
            reduce_case c = {backend, all_ops[op], &in.t, 1, 0, 0, 1, 0, 0, LAYOUT_C, 0};
            if (i == 0 || op < 4 || is_arg(c.op)) check(&c);
          }
        }
    box_free(&in);
  }
}

/* ---- layouts --------------------------------------------------------------------------------- */

static void random_case(gpured_backend backend, uint64_t seed, int64_t most) {
  uint64_t state = seed;
  int64_t shape[GPURED_MAX_NDIM], total = 1;
  int i, ndim = (int)random_in(&state, 0, 8), dtype = all_dtypes[random_in(&state, 0, 9)];
  int kind = (int)random_in(&state, 0, OR_KINDS - 1);
  box in;
  reduce_case c = {backend, 0, NULL, 0, 0, 0, 0, 0, 0, LAYOUT_C, seed};
  for (i = 0; i < ndim; ++i) {
    int64_t room = most / total, top = random_in(&state, 0, 3) ? 5 : room;
    shape[i] = random_in(&state, random_in(&state, 0, 40) ? 1 : 0, top < room ? top : room);
    if (shape[i] > 0) total *= shape[i];
  }
  in = box_filled(dtype, ndim, shape, (layout)random_in(&state, 0, LAYOUT_COUNT - 1), kind, seed);
  c.in = &in.t;
  for (i = 0; i < 4; ++i) {
    c.op = all_ops[random_in(&state, 0, 16)];
    c.axes = (uint32_t)random_in(&state, 0, (1 << ndim) - 1);
    do c.out = all_dtypes[random_in(&state, 0, 9)];
    while (!valid_output(c.op, dtype, c.out));
    c.acc = random_in(&state, 0, 2) == 0 && valid_acc(dtype, GPURED_F64) ? GPURED_F64 : 0;
    c.ddof = (int)random_in(&state, 0, 1);
    c.threads = (int)random_in(&state, 0, 3);
    c.keep = (int)random_in(&state, 0, 1);
    c.how = (layout)random_in(&state, 0, LAYOUT_RANDOM);
    if (reduced_extent(&in.t, c.axes) > 0 || !is_arg(c.op)) check(&c);
  }
  box_free(&in);
}

/* Any shape, axes, layout, type: 0 to 8 axes. */
static void test_random(gpured_backend backend) {
  uint64_t seed;
  for (seed = 1; seed <= 6000; ++seed) random_case(backend, seed, seed % 50 ? 2000 : 100000);
}

/* The same values in every layout give the same bits: the first layout's result is what all are
 * held to. */
static void layouts_agree(gpured_backend backend, int dtype, int op, uint32_t axes) {
  static const int64_t shape[3] = {19, 37, 70};
  box first = {0}, in;
  int how;
  for (how = LAYOUT_C; how < LAYOUT_ZERO; ++how) {
    reduce_case c = {backend, op, NULL, axes, usual_output(op, dtype), 0, 0, 0, 0, (layout)how, 9};
    in = box_filled(dtype, 3, shape, (layout)how, OR_WIDE, 4);
    c.in = &in.t;
    if (how == LAYOUT_C) oracle_case(&c, &first);
    check_against(&c, &first.t);
    box_free(&in);
  }
  box_free(&first);
}

static void test_layouts(gpured_backend backend) {
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_BF16, GPURED_I32};
  uint32_t axes;
  int i, j;
  for (i = 0; i < COUNT(dtypes); ++i)
    for (j = 0; j < COUNT(all_ops); ++j)
      for (axes = 1; axes < 8; ++axes)
        if (i == 0 || (j + (int)axes) % 4 == 0) layouts_agree(backend, dtypes[i], all_ops[j], axes);
}

/* A repeated element: stride 0 on each axis, and on all of them. */
static void test_broadcast(gpured_backend backend) {
  static const int64_t shape[3] = {5, 300, 7};
  box in = box_filled(GPURED_F32, 3, shape, LAYOUT_C, OR_WIDE, 21);
  uint32_t zeros, axes;
  int op, i;
  for (zeros = 1; zeros < 8; ++zeros) {
    gpured_tensor t = in.t;
    for (i = 0; i < 3; ++i)
      if (zeros >> i & 1) t.strides[i] = 0;
    for (op = 0; op < COUNT(all_ops); ++op)
      for (axes = 0; axes < 8; ++axes) {
        reduce_case c = {backend, all_ops[op], &t, axes, 0, 0, 0, 0, 0, LAYOUT_GAP, 0};
        if ((op + (int)axes) % 2 == 0) check(&c);
      }
  }
  box_free(&in);
}

/* ---- independence ---------------------------------------------------------------------------- */

/* Large enough that the library really goes parallel (more than 1 MiB), with each axis set in turn.
 */
static void threads_agree(gpured_backend backend, int dtype, const int64_t *shape, uint32_t axes,
                          int op) {
  static const int threads[] = {1, 2, 3, 7, 16};
  box in = box_filled(dtype, 3, shape, LAYOUT_C, OR_WIDE, 31), want;
  reduce_case c = {backend, op, &in.t, axes, usual_output(op, dtype), 0, 0, 0, 0, LAYOUT_C, 0};
  int i;
  oracle_case(&c, &want);
  for (i = 0; i < COUNT(threads); ++i) {
    c.threads = threads[i];
    check_against(&c, &want.t);
  }
  box_free(&want);
  box_free(&in);
}

static void test_threads(gpured_backend backend) {
  static const int64_t shapes[][3] = {
      {1, 1, 400037}, {1, 37, 9001}, {3, 110001, 1}, {17, 131, 201}, {2, 3, 70001}};
  static const int dtypes[] = {GPURED_F64, GPURED_F16, GPURED_I32};
  uint32_t axes;
  int i, j, k;
  for (i = 0; i < COUNT(shapes); ++i)
    for (axes = 1; axes < 8; ++axes) {
      if (shapes[i][0] == 1 && (axes & 1)) continue;
      if (shapes[i][1] == 1 && (axes & 2)) continue;
      if (shapes[i][2] == 1 && (axes & 4)) continue;
      for (j = 0; j < COUNT(all_ops); ++j) {
        if ((j + i + (int)axes) % 3 == 0)
          threads_agree(backend, GPURED_F32, shapes[i], axes, all_ops[j]);
        for (k = 0; k < COUNT(dtypes); ++k)
          if ((j + k + i + (int)axes) % 9 == 0)
            threads_agree(backend, dtypes[k], shapes[i], axes, all_ops[j]);
      }
    }
}

/* A row alone has the bits that it has among others, and so has a column. */
static void batch_item(gpured_backend backend, const box *in, int op, int reduced) {
  int kept = 1 - reduced, i;
  box all;
  reduce_case c = {backend, op,       &in->t, 1u << reduced, usual_output(op, in->t.dtype), 0, 0, 0,
                   1,       LAYOUT_C, 0};
  gpured_options o = options_for(backend, 0, 0, 0);
  int64_t shape[2];
  all = box_output(c.out, reduced_shape(&in->t, c.axes, 1, shape), shape, LAYOUT_C, 0);
  CHECK(gpured_reduce((gpured_op)op, &in->t, c.axes, &all.t, &o) == GPURED_OK, "%s", case_text(&c));
  for (i = 0; i < in->t.shape[kept]; i += 1 + i / 4) {
    gpured_tensor item = slice(&in->t, kept, i, 1), want = slice(&all.t, kept, i, 1);
    c.in = &item;
    check_against(&c, &want);
  }
  box_free(&all);
}

static void test_batch(gpured_backend backend) {
  static const int64_t shapes[][2] = {{67, 1500}, {1500, 67}, {300, 17}, {9, 40000}};
  int i, j;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(all_ops); ++j) {
      box in = box_filled(j % 2 ? GPURED_F32 : GPURED_F16, 2, shapes[i], LAYOUT_C, OR_UNIFORM, 12);
      batch_item(backend, &in, all_ops[j], 0);
      batch_item(backend, &in, all_ops[j], 1);
      box_free(&in);
    }
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* A single result goes to any tensor of one element; indices to i32 up to its limit. */
static void test_single_output(gpured_backend backend) {
  static const int64_t n = 1000, ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  box in = box_filled(GPURED_F32, 1, &n, LAYOUT_C, OR_UNIFORM, 2);
  gpured_options o = options_for(backend, 0, 0, 0);
  int ndim;
  for (ndim = 0; ndim <= 8; ++ndim) {
    box got = box_output(GPURED_F32, ndim, ones, LAYOUT_C, 0),
        want = box_output(GPURED_F32, 0, ones, LAYOUT_C, 0);
    gpured_status status = gpured_reduce(GPURED_SUM, &in.t, 1, &got.t, &o);
    CHECK(status == GPURED_OK, "sum to %d axes of extent 1: status %d", ndim, (int)status);
    oracle_reduce(GPURED_SUM, &in.t, 1, &want.t, 0, 0);
    expect_same(&got, &want.t, "sum to axes of extent 1");
    box_free(&got);
    box_free(&want);
  }
  box_free(&in);
}

/* An output that lies between the input's own elements overlaps none of them and is accepted. */
static void test_interleaved(gpured_backend backend) {
  float data[40 * 10], want[40];
  gpured_tensor all = gpured_matrix(data, GPURED_F32, 40, 10), in = slice(&all, 1, 0, 9), out, w;
  gpured_options o = options_for(backend, 0, 0, 0);
  gpured_status status;
  int i;
  oracle_fill(&all, OR_UNIFORM, 1);
  out = slice(&all, 1, 9, 1);
  w = gpured_matrix(want, GPURED_F32, 40, 1);
  oracle_reduce(GPURED_SUM, &in, 2, &w, 0, 0);
  status = gpured_reduce(GPURED_SUM, &in, 2, &out, &o);
  CHECK(status == GPURED_OK, "the sums of nine columns stored in the tenth: status %d",
        (int)status);
  for (i = 0; i < 40 && status == GPURED_OK; ++i)
    CHECK(memcmp(&data[10 * i + 9], &want[i], 4) == 0, "row %d is %a, not %a", i,
          (double)data[10 * i + 9], (double)want[i]);
}

const test_case reduce_tests[] = {{"reduce_examples", test_examples, 0},
                                  {"reduce_example_logsumexp", test_example_logsumexp, 0},
                                  {"reduce_types", test_types, 0},
                                  {"reduce_ddof", test_ddof, 0},
                                  {"reduce_full_integers", test_full_integers, 0},
                                  {"reduce_sizes", test_sizes, 0},
                                  {"reduce_sizes_large", test_sizes_large, 0},
                                  {"reduce_sizes_apart", test_sizes_apart, 0},
                                  {"reduce_rows_apart", test_rows_apart, 0},
                                  {"reduce_size_2_24", test_size_2_24, 0},
                                  {"reduce_columns", test_columns, 0},
                                  {"reduce_few_rows", test_few_rows, 0},
                                  {"reduce_towers", test_towers, 0},
                                  {"reduce_long_columns", test_long_columns, 0},
                                  {"reduce_tiles", test_tiles, 0},
                                  {"reduce_one_element", test_one_element, 0},
                                  {"reduce_bytes", test_bytes, 0},
                                  {"reduce_short_rows", test_short_rows, 0},
                                  {"reduce_means", test_means, 0},
                                  {"reduce_specials", test_specials, 0},
                                  {"reduce_special_places", test_special_places, 0},
                                  {"reduce_special_rows", test_special_rows, 0},
                                  {"reduce_special_pairs", test_special_pairs, 0},
                                  {"reduce_random", test_random, 0},
                                  {"reduce_layouts", test_layouts, 0},
                                  {"reduce_broadcast", test_broadcast, 0},
                                  {"reduce_threads", test_threads, 0},
                                  {"reduce_batch", test_batch, 0},
                                  {"reduce_single_output", test_single_output, 0},
                                  {"reduce_interleaved", test_interleaved, 0},
                                  {NULL, NULL, 0}};
