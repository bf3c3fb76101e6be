/* gpured_scan against the oracle, bit by bit. */
#include <string.h>

#include "util.h"

/* ---- one case -------------------------------------------------------------------------------- */

typedef struct scan_case {
  gpured_backend backend;
  int op;
  const gpured_tensor *in;
  int axis;
  unsigned flags;
  int out, acc; /* out 0: the usual dtype */
  int threads;
  layout how; /* of the output */
  uint64_t seed;
} scan_case;

static const int scan_ops[] = {GPURED_SUM, GPURED_PROD, GPURED_MIN, GPURED_MAX, GPURED_LOGSUMEXP};
enum { ALL_FLAGS = 4 };

static const char *case_text(const scan_case *c) {
  return text("scan %s of %s axis %d flags %u -> %s acc %s threads %d layout %d", op_name(c->op),
              describe(c->in), c->axis, c->flags, dtype_name(c->out), dtype_name(c->acc),
              c->threads, (int)c->how);
}

static box oracle_case(const scan_case *c) {
  box want = box_output(c->out, c->in->ndim, c->in->shape, LAYOUT_C, 0);
  oracle_scan((gpured_op)c->op, c->in, c->axis, c->flags, &want.t, c->acc);
  return want;
}

static box run_case(const scan_case *c) {
  gpured_options o = options_for(c->backend, c->acc, 0, c->threads);
  box got = box_output(c->out, c->in->ndim, c->in->shape, c->how, c->seed);
  gpured_status status = gpured_scan((gpured_op)c->op, c->in, c->axis, c->flags, &got.t, &o);
  CHECK(status == GPURED_OK, "%s: status %d", case_text(c), (int)status);
  return got;
}

static void check(const scan_case *given) {
  scan_case c = *given;
  box got, want;
  if (!test_mine()) return;
  if (!c.out) c.out = usual_output(c.op, c.in->dtype);
  got = run_case(&c);
  want = oracle_case(&c);
  expect_same(&got, &want.t, case_text(&c));
  box_free(&got);
  box_free(&want);
}

/* ---- the examples of docs/ORDER.md, worked by hand ------------------------------------------- */

static void test_examples(gpured_backend backend) {
  static const double inclusive[8] = {0, 1, 3, 6, 10, 15, 21, 28};
  double x[40], y[40];
  gpured_tensor in = gpured_vector(x, GPURED_F64, 8), out = gpured_vector(y, GPURED_F64, 8);
  gpured_options o = options_for(backend, 0, 0, 0);
  int i;
  for (i = 0; i < 8; ++i) x[i] = i;
  CHECK(gpured_scan(GPURED_SUM, &in, 0, 0, &out, &o) == GPURED_OK, "the eight elements");
  for (i = 0; i < 8; ++i) CHECK(y[i] == inclusive[i], "element %d is %g", i, y[i]);
  CHECK(gpured_scan(GPURED_SUM, &in, 0, GPURED_SCAN_EXCLUSIVE, &out, &o) == GPURED_OK, "exclusive");
  for (i = 0; i < 8; ++i)
    CHECK(y[i] == (i ? inclusive[i - 1] : 0), "exclusive element %d is %g", i, y[i]);
  CHECK(gpured_scan(GPURED_SUM, &in, 0, GPURED_SCAN_REVERSE, &out, &o) == GPURED_OK, "reverse");
  for (i = 0; i < 8; ++i)
    CHECK(y[i] == 28 - (i ? inclusive[i - 1] : 0), "reverse element %d is %g", i, y[i]);
  in = gpured_vector(x, GPURED_F64, 40);
  out = gpured_vector(y, GPURED_F64, 40);
  for (i = 0; i < 40; ++i) x[i] = 1;
  CHECK(gpured_scan(GPURED_SUM, &in, 0, 0, &out, &o) == GPURED_OK, "forty ones");
  for (i = 0; i < 40; ++i) CHECK(y[i] == i + 1, "one of forty, %d, is %g", i, y[i]);
}

/* ---- every type, every size ------------------------------------------------------------------ */

static void types_of_input(gpured_backend backend, const box *in) {
  static const int accs[] = {0, GPURED_F64};
  int i, j, k;
  unsigned flags;
  for (i = 0; i < COUNT(scan_ops); ++i)
    for (j = 0; j < COUNT(all_dtypes); ++j)
      for (k = 0; k < COUNT(accs); ++k)
        for (flags = 0; flags < ALL_FLAGS; ++flags) {
          scan_case c = {backend,       scan_ops[i], &in->t, 0,        flags,
                         all_dtypes[j], accs[k],     0,      LAYOUT_C, 0};
          if (!valid_output(c.op, in->t.dtype, c.out) || !valid_acc(in->t.dtype, c.acc)) continue;
          check(&c);
        }
}

static void test_types(gpured_backend backend) {
  static const int64_t sizes[] = {0, 1, 2, 17, 40, 300};
  int i, j, kind;
  for (i = 0; i < COUNT(all_dtypes); ++i)
    for (j = 0; j < COUNT(sizes); ++j)
      for (kind = 0; kind < OR_KINDS; ++kind) {
        box in = box_filled(all_dtypes[i], 1, &sizes[j], LAYOUT_C, kind, 7u + (uint64_t)kind);
        types_of_input(backend, &in);
        box_free(&in);
        if (sizes[j] == 0) break;
      }
}

/* Lines of one element, which are read together where they touch. */
static void test_one_element(gpured_backend backend) {
  static const int64_t shapes[][2] = {{1, 1}, {1, 7}, {90, 1}, {1, 400}, {1500, 1}};
  static const int kinds[] = {OR_SPECIAL, OR_WIDE, OR_UNIFORM};
  int i, j, k, axis, t = 0;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(all_dtypes); ++j)
      for (axis = 0; axis < 2; ++axis)
        for (k = 0; k < COUNT(scan_ops) * ALL_FLAGS; ++k, ++t) {
          scan_case c = {backend,
                         scan_ops[k / ALL_FLAGS],
                         NULL,
                         axis,
                         (unsigned)(k % ALL_FLAGS),
                         0,
                         0,
                         0,
                         LAYOUT_C,
                         0};
          box in;
          if (shapes[i][axis] != 1) continue;
          in = box_filled(all_dtypes[j], 2, shapes[i],
                          t % 3 ? LAYOUT_C : (layout)(t % LAYOUT_COUNT), kinds[t % 3], (uint64_t)t);
          c.in = &in.t;
          c.threads = 1 + t % 3;
          c.how = t % 5 ? LAYOUT_C : LAYOUT_RANDOM;
          check(&c);
          box_free(&in);
        }
}

/* Around the groups of every level, and around the tiles that an implementation may like. */
static const int64_t small_sizes[] = {
    0,    1,    2,    3,    4,    5,    7,    8,    9,    15,   16,   17,   31,   32,   33,
    47,   48,   49,   255,  256,  257,  271,  272,  273,  511,  512,  513,  1023, 1024, 1025,
    2047, 2048, 2049, 4095, 4096, 4097, 4111, 4112, 4113, 4351, 4352, 4353, 8191, 8192, 8193};
static const int64_t large_sizes[] = {16383,  16384,  16385,   65535,   65536,
                                      65537,  69631,  69632,   69633,   131071,
                                      131072, 131073, 1048575, 1048576, 1048577};

static void test_sizes(gpured_backend backend) {
  static const int kinds[] = {OR_UNIFORM, OR_WIDE, OR_SPECIAL, OR_EXP, OR_FACTOR};
  int i, j, k, m;
  for (i = 0; i < COUNT(all_dtypes); ++i)
    for (j = 0; j < COUNT(small_sizes); ++j)
      for (k = 0; k < COUNT(kinds); ++k) {
        box in;
        if (all_dtypes[i] != GPURED_F32 && small_sizes[j] > 1100 && k > 0) continue;
        in = box_filled(all_dtypes[i], 1, &small_sizes[j], LAYOUT_C, kinds[k], 11u + (uint64_t)j);
        for (m = 0; m < COUNT(scan_ops); ++m) {
          scan_case c = {backend, scan_ops[m], &in.t, 0,        (unsigned)(j + k + m) % ALL_FLAGS,
                         0,       0,           0,     LAYOUT_C, 0};
          check(&c);
        }
        box_free(&in);
      }
}

static void test_sizes_large(gpured_backend backend) {
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_F16, GPURED_I32};
  int i, j, m;
  for (j = 0; j < COUNT(large_sizes); ++j)
    for (i = 0; i < COUNT(dtypes); ++i) {
      box in = box_filled(dtypes[i], 1, &large_sizes[j], LAYOUT_C, OR_UNIFORM, 11u + (uint64_t)j);
      for (m = 0; m < COUNT(scan_ops); ++m) {
        scan_case c = {backend, scan_ops[m], &in.t, 0,        (unsigned)(j + m) % ALL_FLAGS,
                       0,       0,           0,     LAYOUT_C, 0};
        if (large_sizes[j] < 20000 || (i + j + m) % 4 == 0) check(&c);
      }
      box_free(&in);
    }
}

static void test_size_2_24(gpured_backend backend) {
  int64_t n = (1 << 24) + 1;
  box in = box_filled(GPURED_F32, 1, &n, LAYOUT_C, OR_UNIFORM, 24);
  scan_case c = {backend, GPURED_SUM, &in.t, 0, 0, 0, 0, 0, LAYOUT_C, 0};
  check(&c);
  box_free(&in);
}

/* One special value at the first, last and tail positions. */
static void test_specials(gpured_backend backend) {
  static const int64_t sizes[] = {1, 2, 16, 17, 40, 256, 257, 300};
  static const int kinds[] = {OR_UNIFORM, OR_ZERO, OR_TINY};
  int i, j, k, p, which, m;
  for (i = 0; i < 4; ++i)
    for (j = 0; j < COUNT(sizes); ++j)
      for (k = 0; k < COUNT(kinds); ++k)
        for (p = 0; p < 5; ++p)
          for (which = 0; which < SP_COUNT; ++which) {
            int64_t n = sizes[j], at[] = {0, n - 1, n / 2, n / 16 * 16 % n, n > 15 ? 15 : 0};
            box in = box_filled(all_dtypes[i], 1, &n, LAYOUT_C, kinds[k], 6);
            set_special(&in.t, at[p], which);
            for (m = 0; m < COUNT(scan_ops); ++m) {
              scan_case c = {backend, scan_ops[m], &in.t, 0,        (unsigned)(p + m) % ALL_FLAGS,
                             0,       0,           0,     LAYOUT_C, 0};
              if (i == 0 || k == 0) check(&c);
            }
            box_free(&in);
          }
}

/* ---- layouts --------------------------------------------------------------------------------- */

static void random_case(gpured_backend backend, uint64_t seed, int64_t most) {
  uint64_t state = seed;
  int64_t shape[GPURED_MAX_NDIM], total = 1;
  int i, ndim = (int)random_in(&state, 1, 8), dtype = all_dtypes[random_in(&state, 0, 9)];
  int kind = (int)random_in(&state, 0, OR_KINDS - 1);
  scan_case c = {backend, 0, NULL, 0, 0, 0, 0, 0, LAYOUT_C, seed};
  box in;
  for (i = 0; i < ndim; ++i) {
    int64_t room = most / total, top = random_in(&state, 0, 3) ? 5 : room;
    shape[i] = random_in(&state, random_in(&state, 0, 40) ? 1 : 0, top < room ? top : room);
    if (shape[i] > 0) total *= shape[i];
  }
  in = box_filled(dtype, ndim, shape, (layout)random_in(&state, 0, LAYOUT_COUNT - 1), kind, seed);
  c.in = &in.t;
  for (i = 0; i < 3; ++i) {
    c.op = scan_ops[random_in(&state, 0, COUNT(scan_ops) - 1)];
    c.axis = (int)random_in(&state, 0, ndim - 1);
    c.flags = (unsigned)random_in(&state, 0, ALL_FLAGS - 1);
    do c.out = all_dtypes[random_in(&state, 0, 9)];
    while (!valid_output(c.op, dtype, c.out));
    c.acc = random_in(&state, 0, 2) == 0 && valid_acc(dtype, GPURED_F64) ? GPURED_F64 : 0;
    c.threads = (int)random_in(&state, 0, 3);
    c.how = (layout)random_in(&state, 0, LAYOUT_RANDOM);
    check(&c);
  }
  box_free(&in);
}

static void test_random(gpured_backend backend) {
  uint64_t seed;
  for (seed = 1; seed <= 5000; ++seed) random_case(backend, seed, seed % 50 ? 1500 : 60000);
}

/* The same values in every layout give the same bits. */
static void test_layouts(gpured_backend backend) {
  static const int64_t shape[3] = {19, 37, 70};
  int how, axis, m;
  for (axis = 0; axis < 3; ++axis)
    for (m = 0; m < COUNT(scan_ops); ++m) {
      box first = {0};
      for (how = LAYOUT_C; how < LAYOUT_ZERO; ++how) {
        box in = box_filled(GPURED_F32, 3, shape, (layout)how, OR_WIDE, 4), got;
        scan_case c = {backend, scan_ops[m], &in.t,
                       axis,    0,           GPURED_F32,
                       0,       0,           (layout)((how + m) % LAYOUT_ZERO),
                       9};
        if (how == LAYOUT_C) first = oracle_case(&c);
        got = run_case(&c);
        expect_same(&got, &first.t, case_text(&c));
        box_free(&got);
        box_free(&in);
      }
      box_free(&first);
    }
}

/* ---- in place -------------------------------------------------------------------------------- */

/* in == out, in every layout, with every flag, also where input and output only share their size.
 */
static void in_place_case(gpured_backend backend, int in_dtype, int out_dtype, int op, layout how,
                          unsigned flags) {
  static const int64_t shape[3] = {4, 35, 20};
  gpured_options o = options_for(backend, 0, 0, 0);
  int axis;
  for (axis = 0; axis < 3; ++axis) {
    box b = box_output(in_dtype, 3, shape, how, 3);
    scan_case c = {backend, op, &b.t, axis, flags, out_dtype, 0, 0, how, 0};
    gpured_tensor in = b.t;
    gpured_status status;
    box want;
    oracle_fill(&b.t, OR_UNIFORM, 3);
    want = oracle_case(&c);
    b.t.dtype = out_dtype;
    status = gpured_scan((gpured_op)op, &in, axis, flags, &b.t, &o);
    c.in = &in;
    CHECK(status == GPURED_OK, "in place, %s: status %d", case_text(&c), (int)status);
    if (status == GPURED_OK) expect_same(&b, &want.t, text("in place, %s", case_text(&c)));
    box_free(&want);
    box_free(&b);
  }
}

static void test_in_place(gpured_backend backend) {
  static const int pairs[][2] = {{GPURED_F32, GPURED_F32}, {GPURED_F64, GPURED_F64},
                                 {GPURED_F16, GPURED_F16}, {GPURED_F16, GPURED_BF16},
                                 {GPURED_I32, GPURED_I32}, {GPURED_I32, GPURED_U32},
                                 {GPURED_U8, GPURED_I8},   {GPURED_I64, GPURED_I64}};
  int i, how, m;
  unsigned flags;
  for (i = 0; i < COUNT(pairs); ++i)
    for (m = 0; m < COUNT(scan_ops); ++m)
      for (how = LAYOUT_C; how <= LAYOUT_RANDOM; ++how)
        for (flags = 0; flags < ALL_FLAGS; ++flags)
          if (valid_output(scan_ops[m], pairs[i][0], pairs[i][1]))
            in_place_case(backend, pairs[i][0], pairs[i][1], scan_ops[m], (layout)how, flags);
}

/* ---- properties ------------------------------------------------------------------------------ */

static void test_exclusive_is_shifted(gpured_backend backend) {
  static const int64_t sizes[] = {1, 2, 16, 17, 257, 5000, 70001};
  int i, m;
  unsigned reverse;
  for (i = 0; i < COUNT(sizes); ++i)
    for (m = 0; m < COUNT(scan_ops); ++m)
      for (reverse = 0; reverse <= GPURED_SCAN_REVERSE; reverse += GPURED_SCAN_REVERSE) {
        box in = box_filled(GPURED_F32, 1, &sizes[i], LAYOUT_C, OR_UNIFORM, 40u + (uint64_t)m), y,
            z;
        scan_case c = {backend, scan_ops[m], &in.t, 0, reverse, GPURED_F32, 0, 0, LAYOUT_C, 0};
        gpured_tensor a, b;
        y = run_case(&c);
        c.flags |= GPURED_SCAN_EXCLUSIVE;
        z = run_case(&c);
        a = slice(&y.t, 0, reverse ? 1 : 0, sizes[i] - 1);
        b = slice(&z.t, 0, reverse ? 0 : 1, sizes[i] - 1);
        CHECK(first_difference(&a, &b) < 0, "%s: not the inclusive one shifted, at %lld",
              case_text(&c), (long long)first_difference(&a, &b));
        box_free(&in);
        box_free(&y);
        box_free(&z);
      }
}

/* Reverse is the scan of the reversed line. */
static void test_reverse_is_mirrored(gpured_backend backend) {
  static const int64_t sizes[] = {1, 2, 16, 17, 257, 5000, 70001};
  int i, m;
  for (i = 0; i < COUNT(sizes); ++i)
    for (m = 0; m < COUNT(scan_ops); ++m) {
      box in = box_filled(GPURED_F32, 1, &sizes[i], LAYOUT_C, OR_UNIFORM, 40u + (uint64_t)m), y, z;
      gpured_tensor mirrored = slice(&in.t, 0, sizes[i] - 1, sizes[i]), a;
      scan_case c = {backend,    scan_ops[m], &in.t, 0,        GPURED_SCAN_REVERSE,
                     GPURED_F32, 0,           0,     LAYOUT_C, 0};
      mirrored.strides[0] = -1;
      y = run_case(&c);
      c.in = &mirrored;
      c.flags = 0;
      z = run_case(&c);
      a = slice(&z.t, 0, sizes[i] - 1, sizes[i]);
      a.strides[0] = -1;
      CHECK(first_difference(&y.t, &a) < 0, "%s: reverse is not the mirrored scan", case_text(&c));
      box_free(&in);
      box_free(&y);
      box_free(&z);
    }
}

/* y[i] depends on x[0..i] alone: a shorter line has the first bits of a longer one. */
static void test_prefix(gpured_backend backend) {
  static const int64_t all = 70001, lengths[] = {1,    15,   16,   17,   255,   256,  257,
                                                 1000, 4095, 4096, 4097, 65535, 65537};
  int i, m;
  for (m = 0; m < COUNT(scan_ops); ++m) {
    box in = box_filled(GPURED_F32, 1, &all, LAYOUT_C, OR_WIDE, 40u + (uint64_t)m), y;
    scan_case c = {backend, scan_ops[m], &in.t, 0, 0, GPURED_F32, 0, 0, LAYOUT_C, 0};
    y = run_case(&c);
    for (i = 0; i < COUNT(lengths); ++i) {
      gpured_tensor part = slice(&in.t, 0, 0, lengths[i]), want = slice(&y.t, 0, 0, lengths[i]);
      scan_case shorter = c;
      box got;
      shorter.in = &part;
      got = run_case(&shorter);
      expect_same(&got, &want, case_text(&shorter));
      box_free(&got);
    }
    box_free(&y);
    box_free(&in);
  }
}

/* ---- independence ---------------------------------------------------------------------------- */

static void threads_agree(gpured_backend backend, int dtype, const int64_t *shape, int axis,
                          int op) {
  static const int threads[] = {1, 2, 3, 7, 16};
  box in = box_filled(dtype, 3, shape, LAYOUT_C, OR_UNIFORM, 31), want;
  scan_case c = {
      backend, op, &in.t,    axis, (unsigned)(axis + op) % ALL_FLAGS, usual_output(op, dtype),
      0,       0,  LAYOUT_C, 0};
  int i;
  want = oracle_case(&c);
  for (i = 0; i < COUNT(threads); ++i) {
    box got;
    c.threads = threads[i];
    got = run_case(&c);
    expect_same(&got, &want.t, case_text(&c));
    box_free(&got);
  }
  box_free(&want);
  box_free(&in);
}

static void test_threads(gpured_backend backend) {
  static const int64_t shapes[][3] = {
      {1, 1, 400037}, {1, 37, 9001}, {3, 110001, 1}, {17, 131, 201}};
  int i, m, axis;
  for (i = 0; i < COUNT(shapes); ++i)
    for (axis = 0; axis < 3; ++axis)
      for (m = 0; m < COUNT(scan_ops); ++m) {
        if (shapes[i][axis] == 1 || (i + axis + m) % 2 != 0) continue;
        threads_agree(backend, GPURED_F32, shapes[i], axis, scan_ops[m]);
        if (m < 2)
          threads_agree(backend, m ? GPURED_F64 : GPURED_BF16, shapes[i], axis, scan_ops[m]);
      }
}

/* A line so long that threads take it in pieces of 16 tiles, of f32 ahead of their turn, of f64
 * not; in place and not, with every flag. */
static void test_long_line(gpured_backend backend) {
  static const int dtypes[] = {GPURED_F32, GPURED_F64};
  unsigned i;
  for (i = 0; i < COUNT(dtypes) * ALL_FLAGS; ++i) {
    const int dtype = dtypes[i / ALL_FLAGS];
    const unsigned flags = i % ALL_FLAGS;
    const int64_t n = (dtype == GPURED_F32 ? 1 << 21 : 1 << 20) + 3 * 4096 + 5;
    box in = box_output(dtype, 1, &n, LAYOUT_C, 0), want, got;
    scan_case c = {backend, GPURED_SUM, &in.t, 0, flags, dtype, 0, 3, LAYOUT_C, 0};
    gpured_options o = options_for(backend, 0, 0, 3);
    gpured_status status;
    oracle_fill(&in.t, OR_UNIFORM, flags);
    want = oracle_case(&c);
    got = run_case(&c);
    expect_same(&got, &want.t, case_text(&c));
    status = gpured_scan(GPURED_SUM, &in.t, 0, flags, &in.t, &o);
    CHECK(status == GPURED_OK, "in place, %s: status %d", case_text(&c), (int)status);
    expect_same(&in, &want.t, text("in place, %s", case_text(&c)));
    box_free(&got);
    box_free(&want);
    box_free(&in);
  }
}

/* A line of more pieces than threads prepare at once, which takes more threads than there may be
 * processors; in place, a thread that waited too long reads what another one overwrites. */
static void test_many_pieces(gpured_backend backend) {
  static const int64_t n = 1024 * 4096 + 5000;
  static const int ops[] = {GPURED_SUM, GPURED_LOGSUMEXP};
  int i;
  for (i = 0; i < COUNT(ops); ++i) {
    box in = box_filled(GPURED_F32, 1, &n, LAYOUT_C, OR_UNIFORM, 21), want, got;
    scan_case c = {backend, ops[i], &in.t, 0, 0, GPURED_F32, 0, 1, LAYOUT_C, 0};
    gpured_options o = options_for(backend, 0, 0, 17);
    gpured_status status;
    want = run_case(&c);
    c.threads = 17;
    got = run_case(&c);
    expect_same(&got, &want.t, case_text(&c));
    status = gpured_scan((gpured_op)ops[i], &in.t, 0, 0, &in.t, &o);
    CHECK(status == GPURED_OK, "in place, %s: status %d", case_text(&c), (int)status);
    expect_same(&in, &want.t, text("in place, %s", case_text(&c)));
    box_free(&got);
    box_free(&want);
    box_free(&in);
  }
}

/* Each of the lines below, alone: too short to go past the caches. */
static void expect_lines(const scan_case *c, const gpured_tensor *out, const char *what) {
  const int other = 1 - c->axis;
  int64_t r;
  for (r = 0; r < c->in->shape[other]; ++r) {
    gpured_tensor line = slice(c->in, other, r, 1), have = slice(out, other, r, 1);
    scan_case alone = *c;
    box want;
    alone.in = &line;
    want = run_case(&alone);
    CHECK(first_difference(&have, &want.t) < 0, "%s, line %d: other bits", what, (int)r);
    box_free(&want);
  }
}

/* Lines whose results are more than the caches hold go past them, whole lines of memory at a time,
 * wherever they begin: nothing before, between and behind them may change. */
static void past_caches(gpured_backend backend, const int64_t *shape, int axis, int64_t gap,
                        int dtype, int op, unsigned flags, int64_t shift) {
  const int64_t pitch = shape[1] + gap, size = (int64_t)gpured_dtype_size((gpured_dtype)dtype);
  const int64_t bytes = (shape[0] * pitch + 64) * size + 64;
  box in = box_filled(dtype, 2, shape, LAYOUT_C, OR_UNIFORM, (uint64_t)shift);
  scan_case c = {backend, op, &in.t, axis, flags, dtype, 0, 1, LAYOUT_C, 0};
  gpured_options o = options_for(backend, 0, 0, 1 + (int)(shift % 3));
  box room = box_output(GPURED_U8, 1, &bytes, LAYOUT_C, 0);
  unsigned char *all = (unsigned char *)room.t.data, *data;
  gpured_tensor out;
  gpured_status status;
  int64_t i, r, changed = 0;
  memset(all, 0x5a, (size_t)bytes);
  data = all + (64 - (uintptr_t)all % 64) % 64 + (16 + shift) * size;
  out = gpured_array(data, (gpured_dtype)dtype, 2, shape, NULL);
  out.strides[0] = pitch;
  status = gpured_scan((gpured_op)op, &in.t, axis, flags, &out, &o);
  CHECK(status == GPURED_OK, "%s: status %d", case_text(&c), (int)status);
  expect_lines(&c, &out, case_text(&c));
  for (r = 0; r < shape[0]; ++r) memset(data + r * pitch * size, 0x5a, (size_t)(shape[1] * size));
  for (i = 0; i < bytes; ++i) changed += all[i] != 0x5a;
  CHECK(changed == 0, "%s, %d elements beside a line of memory: %d bytes outside have changed",
        case_text(&c), (int)shift, (int)changed);
  box_free(&room);
  box_free(&in);
}

static void past_caches_along(gpured_backend backend, int axis, const int64_t (*shapes)[2],
                              int count) {
  static const int ops[] = {GPURED_SUM, GPURED_MAX, GPURED_PROD},
                   dtypes[] = {GPURED_F32, GPURED_F64, GPURED_I64};
  int i, shift;
  for (shift = 0; shift < 16; ++shift)
    for (i = 0; i < count; ++i)
      past_caches(backend, shapes[i], axis, axis == 1 ? 3 : shift / 4, dtypes[(shift + i) % 3],
                  ops[(shift / 3 + i) % 3], shift / 2 % 2 ? GPURED_SCAN_EXCLUSIVE : 0, shift);
}

static void test_past_caches(gpured_backend backend) {
  static const int64_t shapes[][2] = {{600, 2049}, {331, 4096}, {7, 170007}};
  past_caches_along(backend, 1, shapes, COUNT(shapes));
}

/* Columns: of several strips, with a rest of a line of memory, and of few. */
static void test_columns_past_caches(gpured_backend backend) {
  static const int64_t shapes[][2] = {{700, 2100}, {5000, 272}, {17003, 75}};
  past_caches_along(backend, 0, shapes, COUNT(shapes));
}

/* Columns whose results are more than the caches hold, and rows that begin at the same place of a
 * line of memory, or do not, by the distance of batches or rows: with AVX-512 only the former go past
 * the caches. */
static void aligned_columns(gpured_backend backend, const int64_t *shape) {
  const int64_t rows = shape[1], pitch = (shape[2] + 15) / 16 * 16;
  const int64_t spare = shape[0] * (rows + 4) * (pitch + 16);
  static const int64_t shifts[][3] = {{0, 0, 0}, {4, 0, 0}, {0, 4, 0},
                                      {0, 0, 1}, {0, 0, 5}, {16, 16, 15}};
  box in = box_filled(GPURED_F32, 3, shape, LAYOUT_C, OR_UNIFORM, 22), want;
  box room = box_output(GPURED_F32, 1, &spare, LAYOUT_C, 0);
  gpured_options o = options_for(backend, 0, 0, 2);
  scan_case c = {backend, GPURED_SUM, &in.t, 1, 0, GPURED_F32, 0, 1, LAYOUT_RANDOM, 5};
  int i;
  want = run_case(&c);
  for (i = 0; i < 2 * COUNT(shifts); ++i) {
    const int64_t *shift = shifts[i / 2];
    char *data = (char *)room.t.data + (64 - (uintptr_t)room.t.data % 64) % 64 + 4 * shift[2];
    gpured_tensor out = gpured_array(data, GPURED_F32, 3, shape, NULL);
    gpured_status status;
    out.strides[1] = pitch + shift[1];
    out.strides[0] = rows * out.strides[1] + shift[0];
    status = gpured_scan(GPURED_SUM, &in.t, 1, i % 2 ? GPURED_SCAN_EXCLUSIVE : 0, &out, &o);
    CHECK(status == GPURED_OK, "shift %d: status %d", i / 2, (int)status);
    if (i % 2) { /* z[k] is y[k-1] */
      gpured_tensor later = slice(&out, 1, 1, rows - 1), earlier = slice(&want.t, 1, 0, rows - 1);
      CHECK(first_difference(&later, &earlier) < 0, "exclusive, shift %d: other bits", i / 2);
    } else {
      CHECK(first_difference(&out, &want.t) < 0, "shift %d: other bits", i / 2);
    }
  }
  box_free(&room);
  box_free(&want);
  box_free(&in);
}

/* As many columns as one task takes; some more, which the first one takes where that is the way to
 * the next line of memory; several tasks. */
static void test_aligned_columns(gpured_backend backend) {
  static const int64_t shapes[][3] = {{3, 700, 1024}, {2, 700, 1030}, {1, 700, 2100}};
  int i;
  for (i = 0; i < COUNT(shapes); ++i) aligned_columns(backend, shapes[i]);
}

/* A line alone has the bits that it has among others. */
static void test_batch(gpured_backend backend) {
  static const int64_t shapes[][2] = {{67, 1500}, {1500, 67}, {9, 40000}};
  int i, m, axis;
  int64_t k;
  for (i = 0; i < COUNT(shapes); ++i)
    for (m = 0; m < COUNT(scan_ops); ++m)
      for (axis = 0; axis < 2; ++axis) {
        box in = box_filled(GPURED_F32, 2, shapes[i], LAYOUT_C, OR_UNIFORM, 12), all;
        scan_case c = {backend, scan_ops[m], &in.t, axis, 0, GPURED_F32, 0, 0, LAYOUT_C, 0};
        all = run_case(&c);
        for (k = 0; k < shapes[i][1 - axis]; k += 1 + k) {
          gpured_tensor line = slice(&in.t, 1 - axis, k, 1), want = slice(&all.t, 1 - axis, k, 1);
          scan_case alone = c;
          box got;
          alone.in = &line;
          got = run_case(&alone);
          expect_same(&got, &want, case_text(&alone));
          box_free(&got);
        }
        box_free(&all);
        box_free(&in);
      }
}

const test_case scan_tests[] = {{"scan_examples", test_examples, 0},
                                {"scan_types", test_types, 0},
                                {"scan_one_element", test_one_element, 0},
                                {"scan_sizes", test_sizes, 0},
                                {"scan_sizes_large", test_sizes_large, 0},
                                {"scan_size_2_24", test_size_2_24, 0},
                                {"scan_specials", test_specials, 0},
                                {"scan_random", test_random, 0},
                                {"scan_layouts", test_layouts, 0},
                                {"scan_in_place", test_in_place, 0},
                                {"scan_exclusive_is_shifted", test_exclusive_is_shifted, 0},
                                {"scan_reverse_is_mirrored", test_reverse_is_mirrored, 0},
                                {"scan_prefix", test_prefix, 0},
                                {"scan_threads", test_threads, 0},
                                {"scan_long_line", test_long_line, 0},
                                {"scan_many_pieces", test_many_pieces, T_HOST},
                                {"scan_past_caches", test_past_caches, T_HOST},
                                {"scan_columns_past_caches", test_columns_past_caches, T_HOST},
                                {"scan_aligned_columns", test_aligned_columns, T_HOST},
                                {"scan_batch", test_batch, 0},
                                {NULL, NULL, 0}};
