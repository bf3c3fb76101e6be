/*
 * Writes the golden vectors (tests/golden/golden.txt) to stdout, computed by the oracle:
 *     cc -std=c99 tests/golden_make.c tests/oracle.c -lm && ./a.out > tests/golden/golden.txt
 * Every operation with every type that it takes, sizes around the borders of the order, special
 * values, layouts, empty input. The cases are written as text and read back with the checker's
 * reader.
 */
#include <stdarg.h>

#include "golden_case.h"
#include "oracle.h"

static const int all_types[] = {GPURED_F32, GPURED_F64, GPURED_F16, GPURED_BF16, GPURED_I8,
                                GPURED_U8,  GPURED_I32, GPURED_U32, GPURED_I64,  GPURED_U64};

static int is_float(int dtype) { return dtype >= GPURED_F32 && dtype <= GPURED_BF16; }

static int is_real(int op) {
  return op == GPURED_MEAN || op == GPURED_NORM2 || op == GPURED_LOGSUMEXP || op == GPURED_VAR ||
         op == GPURED_STD;
}

static int is_truth(int op) { return op == GPURED_ANY || op == GPURED_ALL; }

/* An output type that op allows for `in`. `turn` goes through them; the type of `in` comes first.
 */
static int out_type(int op, int in, int turn) {
  static const int floats[] = {GPURED_F32, GPURED_F64, GPURED_F16, GPURED_BF16};
  static const int integers[] = {GPURED_I64, GPURED_I32, GPURED_U8,
                                 GPURED_U64, GPURED_I8,  GPURED_U32};
  if (gold_is_index(op) || op == GPURED_COUNT_NONZERO) return turn % 3 ? GPURED_I64 : GPURED_I32;
  if (is_truth(op)) return integers[turn % 6];
  if (is_real(op) || is_float(in)) return turn % 2 && is_float(in) ? in : floats[turn / 2 % 4];
  return turn % 2 ? in : integers[turn / 2 % 6];
}

/* Data whose result says something about op. */
static int data_kind(int op) {
  switch (op) {
    case GPURED_PROD:
      return OR_FACTOR;
    case GPURED_LOGSUMEXP:
      return OR_EXP;
    case GPURED_ARGMIN:
    case GPURED_ARGMAX:
    case GPURED_COUNT_NONZERO:
      return OR_TIES;
    case GPURED_ANY:
      return OR_ZERO;
    case GPURED_ALL:
      return OR_ONES;
    case GPURED_NORM1:
    case GPURED_ABSMAX:
      return OR_WIDE;
    default:
      return OR_UNIFORM;
  }
}

static unsigned long cases;

/* Computes one case, given as its text, and prints its line. */
static void emit(const char *format, ...) {
  char text[GOLD_TEXT], copy[GOLD_TEXT];
  const char *bad;
  gold_case c;
  gold_job job;
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  strcpy(copy, text);
  bad = gold_read_case(copy, &c);
  if (bad != NULL) {
    fprintf(stderr, "golden_make: %s: %s\n", text, bad);
    exit(1);
  }
  gold_start(&job, &c);
  if (c.family == 'r') {
    oracle_reduce((gpured_op)c.ops[0], &job.a, c.axes, &job.results[0].out, c.acc, c.ddof);
  } else if (c.family == 's') {
    oracle_scan((gpured_op)c.ops[0], &job.a, (int)c.axes, c.flags, &job.results[0].out, c.acc);
  } else {
    gpured_gemm g = gold_gemm(&job);
    oracle_gemm(&g, c.acc);
  }
  gold_print(&job, c.count, copy);
  printf("%s =%s\n", text, copy);
  ++cases;
  gold_end(&job);
}

/* A seed of its own for every case that asks. */
static unsigned next_seed(void) {
  static unsigned seed = 100;
  return seed += 10;
}

/* ---------------------------------------------------------------------------------------------- */
/* Reduce                                                                                         */
/* ---------------------------------------------------------------------------------------------- */

static void reduce_case(int op, int in, int acc, int out, const char *shape, const char *axes,
                        int ddof, char layout, int kind) {
  emit("reduce %s %s %s %s %s %s %d %c %s %u", gold_op_names[op], gold_type_names[in],
       gold_type_names[acc], gold_type_names[out], shape, axes, ddof, layout, gold_kind_names[kind],
       next_seed());
}

/* Lengths around the borders: of a lane, a block of 256, a block of 1024, and of the tree. */
static void reduce_borders(int op, int in, int acc) {
  static const int many[] = {0, 1, 15, 16, 17, 255, 256, 257, 1023, 1024, 1025, 4097};
  static const int few[] = {0, 1, 17, 257, 1025, 4097};
  int all = acc == 0 && (in == GPURED_F32 || in == GPURED_F64), i;
  char shape[16];
  for (i = 0; i < (all ? GOLD_COUNT(many) : GOLD_COUNT(few)); ++i) {
    int n = all ? many[i] : few[i];
    if (n == 0 && gold_is_index(op)) continue;
    if ((acc || !is_float(in)) && (i + in + op) % 2) continue;
    sprintf(shape, "%d", n);
    reduce_case(op, in, acc, out_type(op, in, i + in), shape, "0", 0, 'c', data_kind(op));
  }
}

/* Special values: rows short enough that some have none of them, and long ones. */
static void reduce_specials(int op, int in) {
  static const int kinds[] = {OR_SPECIAL, OR_INF, OR_TINY, OR_ZERO, OR_WIDE};
  int out = out_type(op, in, 1), i;
  if (!is_float(in)) {
    reduce_case(op, in, 0, out, "9x8", "1", 0, 'c', (op + in) % 2 ? OR_WIDE : OR_SPECIAL);
    return;
  }
  for (i = 0; i < GOLD_COUNT(kinds); ++i) reduce_case(op, in, 0, out, "9x8", "1", 0, 'c', kinds[i]);
  reduce_case(op, in, 0, out, "4x300", "1", 0, 'c', OR_INF);
  if (in == GPURED_F32) reduce_case(op, in, 0, out, "30x20", "0", 0, 'c', OR_SPECIAL);
}

/* Sets of axes in every layout, empty extents. */
static void reduce_shapes(int op, int in) {
  static const char *const axes[] = {"-", "0", "1", "3", "01", "02", "13", "023", "0123"};
  static const char layouts[] = "ctrgb";
  int i;
  for (i = 0; i < GOLD_COUNT(axes); ++i) {
    int l = (i + op) % 5;
    reduce_case(op, in, 0, out_type(op, in, i), "4x3x70x5", axes[i], 0, layouts[l], data_kind(op));
    reduce_case(op, in, 0, out_type(op, in, i), "4x3x70x5", axes[i], 0, layouts[(l + 2) % 5],
                data_kind(op));
  }
  reduce_case(op, in, 0, out_type(op, in, 0), "-", "-", 0, 'c', OR_UNIFORM);
  reduce_case(op, in, 0, out_type(op, in, 0), "0x3", "1", 0, 'c', OR_UNIFORM);
  if (!gold_is_index(op))
    reduce_case(op, in, 0, out_type(op, in, 0), "3x0", "1", 0, 'c', OR_UNIFORM);
}

static void make_reduce(void) {
  static const int long_ops[] = {GPURED_SUM, GPURED_NORM2, GPURED_LOGSUMEXP, GPURED_VAR,
                                 GPURED_ARGMAX};
  static const int shape_types[] = {GPURED_F32, GPURED_F16, GPURED_I32};
  int op, i, ddof;
  reduce_case(GPURED_SUM, GPURED_F32, 0, GPURED_F32, "4x6", "1", 0, 'c', OR_RAMP);
  reduce_case(GPURED_SUM, GPURED_F32, 0, GPURED_F32, "4x6", "0", 0, 'c', OR_RAMP);
  for (op = GPURED_SUM; op <= GPURED_COUNT_NONZERO; ++op) {
    for (i = 0; i < GOLD_COUNT(all_types); ++i) {
      reduce_borders(op, all_types[i], 0);
      reduce_specials(op, all_types[i]);
      if (is_float(all_types[i]) && all_types[i] != GPURED_F64 && op <= GPURED_STD) {
        reduce_borders(op, all_types[i], GPURED_F64);
      }
    }
    reduce_shapes(op, shape_types[op % 3]);
  }
  for (ddof = 0; ddof <= 3; ++ddof) {
    for (i = 0; i < GOLD_COUNT(all_types); ++i) {
      reduce_case(i % 2 ? GPURED_VAR : GPURED_STD, all_types[i], 0,
                  out_type(GPURED_VAR, all_types[i], 1), "5x3", i % 3 ? "1" : "01", ddof, 'c',
                  OR_UNIFORM);
    }
  }
  for (i = 0; i < GOLD_COUNT(long_ops); ++i) {
    reduce_case(long_ops[i], GPURED_F32, 0, out_type(long_ops[i], GPURED_F32, 1), "300001", "0", 0,
                'c', data_kind(long_ops[i]));
  }
}

/* ---------------------------------------------------------------------------------------------- */
/* Scan                                                                                           */
/* ---------------------------------------------------------------------------------------------- */

static const int scan_ops[] = {GPURED_SUM, GPURED_PROD, GPURED_MIN, GPURED_MAX, GPURED_LOGSUMEXP};
static const char *const scan_flags[] = {"-", "e", "r", "er"};

static void scan_case(int op, int in, int acc, int out, const char *shape, int axis, int flags,
                      char layout, int kind) {
  emit("scan %s %s %s %s %s %d %s %c %s %u", gold_op_names[op], gold_type_names[in],
       gold_type_names[acc], gold_type_names[out], shape, axis, scan_flags[flags & 3], layout,
       gold_kind_names[kind], next_seed());
}

static void scan_borders(int op, int in, int acc) {
  static const int sizes[] = {0, 1, 2, 15, 16, 17, 255, 256, 257, 272, 273, 1025, 4097};
  char shape[16];
  int i;
  for (i = 0; i < GOLD_COUNT(sizes); ++i) {
    if (acc && i % 3) continue;
    if (in != GPURED_F32 && in != GPURED_F64 && (i + in) % 2) continue;
    sprintf(shape, "%d", sizes[i]);
    scan_case(op, in, acc, out_type(op, in, i + in), shape, 0, i + in, 'c', data_kind(op));
  }
}

static void scan_specials(int op, int in) {
  static const int kinds[] = {OR_SPECIAL, OR_INF, OR_TINY, OR_ZERO, OR_WIDE};
  int i;
  for (i = 0; i < GOLD_COUNT(kinds); ++i) {
    if (!is_float(in) && kinds[i] != OR_SPECIAL && kinds[i] != OR_WIDE) continue;
    scan_case(op, in, 0, out_type(op, in, 1), "9x40", 1, i + in, 'c', kinds[i]);
  }
}

static void make_scan(void) {
  static const char layouts[] = "ctrgbi";
  int o, i, l, axis;
  scan_case(GPURED_SUM, GPURED_F32, 0, GPURED_F32, "8", 0, 0, 'c', OR_RAMP);
  scan_case(GPURED_SUM, GPURED_F32, 0, GPURED_F32, "40", 0, 0, 'c', OR_ONES);
  for (o = 0; o < GOLD_COUNT(scan_ops); ++o) {
    for (i = 0; i < GOLD_COUNT(all_types); ++i) {
      scan_borders(scan_ops[o], all_types[i], 0);
      scan_specials(scan_ops[o], all_types[i]);
      if (i != 1 && i < 4) scan_borders(scan_ops[o], all_types[i], GPURED_F64);
    }
    for (axis = 0; axis < 3; ++axis) {
      for (l = 0; l < 6; ++l) {
        int in = l % 2 ? GPURED_F32 : GPURED_BF16;
        scan_case(scan_ops[o], in, 0, in, "20x3x35", axis, axis + l, layouts[l],
                  data_kind(scan_ops[o]));
      }
    }
    scan_case(scan_ops[o], GPURED_F32, 0, GPURED_F32, "0x3", 1, 0, 'c', OR_UNIFORM);
    scan_case(scan_ops[o], GPURED_F32, 0, GPURED_F32, "3x0", 1, 1, 'c', OR_UNIFORM);
    scan_case(scan_ops[o], GPURED_F32, 0, GPURED_F32, "70000", 0, 0, 'c', data_kind(scan_ops[o]));
  }
}

/* ---------------------------------------------------------------------------------------------- */
/* GEMM-reduce                                                                                    */
/* ---------------------------------------------------------------------------------------------- */

/* Groups of operations that may share a call, for any type. */
static const char *const groups[] = {"sum+min+max+sumsq+norm1+absmax+argmin+argmax",
                                     "mean+norm2+logsumexp"};

static void gemm_case(const char *ops, int in, int acc, int out, const char *a, const char *b,
                      int axis, const char *epilogue, char layout, int kind) {
  emit("gemm %s %s %s %s %s %s %d %s %c %s %u", ops, gold_type_names[in], gold_type_names[acc],
       gold_type_names[out], a, b, axis, epilogue, layout, gold_kind_names[kind], next_seed());
}

/* Both groups over one axis. */
static void gemm_both(int in, int acc, int turn, const char *a, const char *b, int axis,
                      const char *epilogue, char layout, int kind) {
  int value = out_type(GPURED_SUM, in, turn + axis), real = out_type(GPURED_MEAN, in, turn + axis);
  gemm_case(groups[0], in, acc, value, a, b, axis, epilogue, layout, kind);
  gemm_case(groups[1], in, acc, real, a, b, axis, epilogue, layout, kind);
}

/* Both groups and both axes. */
static void gemm_all(int in, int acc, int turn, const char *a, const char *b, const char *epilogue,
                     char layout, int kind) {
  gemm_both(in, acc, turn, a, b, 0, epilogue, layout, kind);
  gemm_both(in, acc, turn, a, b, 1, epilogue, layout, kind);
}

static void gemm_shapes(int i) {
  static const char *const a[] = {"1x1", "5x7", "129x17", "3x5", "128x16", "3x0"};
  static const char *const b[] = {"1x1", "7x6", "17x3", "5x257", "16x4", "0x2"};
  const char *plain = "none plain 1 -";
  int in = all_types[i], s, axis;
  for (s = 0; s < GOLD_COUNT(a); ++s) {
    for (axis = 0; axis < 2; ++axis) {
      if (in != GPURED_F32 && in != GPURED_F64 && (s + i + axis) % 2) continue;
      gemm_both(in, 0, s + i, a[s], b[s], axis, plain, 'c', OR_UNIFORM);
    }
  }
  /* An empty axis has no index. */
  gemm_case(groups[1], in, 0, GPURED_F32, "0x3", "3x2", 0, plain, 'c', OR_UNIFORM);
  gemm_case("sum+min+max+absmax", in, 0, in, "2x3", "3x0", 1, plain, 'c', OR_UNIFORM);
  if (is_float(in) && in != GPURED_F64) {
    gemm_all(in, GPURED_F64, 1, "131x19", "19x5", "none plain 1 c", 'c', OR_UNIFORM);
  }
}

/* One result, no epilogue: what gpured_gemm_reduce() offers. */
static void gemm_singles(int op) {
  int i;
  for (i = 0; i < GOLD_COUNT(all_types); ++i) {
    gemm_case(gold_op_names[op], all_types[i], 0, out_type(op, all_types[i], i), "33x9", "9x20",
              (op + i) % 2, "none plain 1 -", 'c', OR_UNIFORM);
  }
}

static void gemm_epilogues(void) {
  static const char *const floats[] = {
      "none plain 0.5 c", "none plain -1.25 mnc", "none plain 1 m",   "none plain 2 n",
      "abs plain 1 c",    "abs plain 0.75 mn",    "square plain 1 -", "square plain -0.5 mc",
      "none l2 0 c",      "abs l2 0 -",           "square l2 0 -",    "none plain 0 MN",
      "square plain 0 Mn"};
  static const char *const integers[] = {"none plain 0 c", "abs plain 1 c", "square plain 1 -"};
  int i, e;
  for (i = 0; i < GOLD_COUNT(all_types); ++i) {
    if (is_float(all_types[i])) {
      for (e = 0; e < GOLD_COUNT(floats); ++e) {
        if (all_types[i] == GPURED_F64 && strpbrk(floats[e], "MN")) continue;
        if (all_types[i] == GPURED_BF16 && e % 2) continue;
        gemm_both(all_types[i], 0, 1 + 2 * e, "130x6", "6x9", (e + i) % 2, floats[e], 'c',
                  OR_UNIFORM);
      }
    } else {
      for (e = 0; e < GOLD_COUNT(integers); ++e) {
        gemm_both(all_types[i], 0, 1, "130x6", "6x9", (e + i) % 2, integers[e], 'c', OR_WIDE);
      }
    }
  }
}

static void gemm_specials_and_layouts(void) {
  static const int kinds[] = {OR_SPECIAL, OR_INF, OR_TINY, OR_ZERO, OR_WIDE, OR_TIES};
  static const char layouts[] = "ctrgb";
  int i, k, l;
  for (i = 0; i < GOLD_COUNT(all_types); ++i) {
    for (k = 0; k < GOLD_COUNT(kinds); ++k) {
      if (!is_float(all_types[i]) && kinds[k] != OR_SPECIAL) continue;
      gemm_both(all_types[i], 0, 1, "12x3", "3x20", (k + i) % 2, "none plain 1 c", 'c', kinds[k]);
    }
  }
  for (l = 0; l < 5; ++l) {
    int in = l % 2 ? GPURED_F32 : GPURED_F16;
    gemm_all(in, 0, 1, "3x1x7x5", "2x5x4", "none plain 0.5 mnc", layouts[l], OR_UNIFORM);
    gemm_all(in, 0, 1, "6x5", "4x5x9", "none plain 1 -", layouts[l], OR_TIES);
    gemm_all(GPURED_I32, 0, 1, "2x3x4", "1x4x3", "abs plain 1 c", layouts[l], OR_UNIFORM);
  }
}

int main(void) {
  int i;
  puts(
      "# Golden vectors of gpured. Written by tests/golden_make.c; README.md beside this file says "
      "what a line means.");
  printf("order %d\n", GPURED_ORDER);
  make_reduce();
  make_scan();
  for (i = 0; i < GOLD_COUNT(all_types); ++i) gemm_shapes(i);
  for (i = GPURED_SUM; i <= GPURED_LOGSUMEXP; ++i) {
    if (i != GPURED_PROD) gemm_singles(i);
  }
  gemm_epilogues();
  gemm_specials_and_layouts();
  printf("end %lu\n", cases);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "golden_make: cannot write\n");
    return 1;
  }
  return 0;
}
