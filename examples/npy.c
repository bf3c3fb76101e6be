/*
 * gpured-npy: reductions, scans and fused GEMM-reductions of NumPy .npy files on the command line.
 *
 * SPDX-License-Identifier: MIT
 *
 * It is also an example of a whole program around gpured: npy_io.h turns a file into a tensor, the
 * shape and dtype of the result are worked out as NumPy would, one call of the library does the
 * work, and the result is printed or saved. Errors are one line on stderr and exit status 1.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#endif

#include <float.h>
#include <math.h>
#include <time.h>

#include "npy_io.h"

/* ============================================================================================== */
/* 1  What can be asked for                                                                       */
/* ============================================================================================== */

/* Commands, as bits: operations and options say with which they go. */
enum { REDUCE = 1u, SCAN = 2u, GEMM = 4u, INFO = 8u, COMPUTE = 7u };

/* What decides the dtype of a result (docs/ORDER.md section 1). */
typedef enum op_class { VALUE, UNSIGNED_VALUE, REAL, INDEX, TRUTH } op_class;

typedef struct op_info {
  const char *name;
  gpured_op op;
  op_class class_;
  unsigned commands;
} op_info;

static const op_info OPS[] = {{"sum", GPURED_SUM, VALUE, COMPUTE},
                              {"prod", GPURED_PROD, VALUE, REDUCE | SCAN},
                              {"min", GPURED_MIN, VALUE, COMPUTE},
                              {"max", GPURED_MAX, VALUE, COMPUTE},
                              {"mean", GPURED_MEAN, REAL, REDUCE | GEMM},
                              {"sumsq", GPURED_SUMSQ, UNSIGNED_VALUE, REDUCE | GEMM},
                              {"norm1", GPURED_NORM1, UNSIGNED_VALUE, REDUCE | GEMM},
                              {"norm2", GPURED_NORM2, REAL, REDUCE | GEMM},
                              {"absmax", GPURED_ABSMAX, UNSIGNED_VALUE, REDUCE | GEMM},
                              {"argmin", GPURED_ARGMIN, INDEX, REDUCE | GEMM},
                              {"argmax", GPURED_ARGMAX, INDEX, REDUCE | GEMM},
                              {"logsumexp", GPURED_LOGSUMEXP, REAL, COMPUTE},
                              {"var", GPURED_VAR, REAL, REDUCE},
                              {"std", GPURED_STD, REAL, REDUCE},
                              {"any", GPURED_ANY, TRUTH, REDUCE},
                              {"all", GPURED_ALL, TRUTH, REDUCE},
                              {"count_nonzero", GPURED_COUNT_NONZERO, INDEX, REDUCE},
                              {"count", GPURED_COUNT_NONZERO, INDEX, REDUCE}};

typedef enum option_id {
  OPT_AXIS,
  OPT_OUTPUT,
  OPT_KEEPDIMS,
  OPT_DDOF,
  OPT_EXCLUSIVE,
  OPT_REVERSE,
  OPT_BACKEND,
  OPT_THREADS,
  OPT_ACC,
  OPT_DTYPE,
  OPT_TIME
} option_id;

typedef struct option_info {
  const char *name;
  option_id id;
  int has_value;
  unsigned commands;
} option_info;

static const option_info OPTIONS[] = {
    {"--axis", OPT_AXIS, 1, COMPUTE},        {"-o", OPT_OUTPUT, 1, COMPUTE},
    {"--keepdims", OPT_KEEPDIMS, 0, REDUCE}, {"--ddof", OPT_DDOF, 1, REDUCE},
    {"--exclusive", OPT_EXCLUSIVE, 0, SCAN}, {"--reverse", OPT_REVERSE, 0, SCAN},
    {"--backend", OPT_BACKEND, 1, COMPUTE},  {"--threads", OPT_THREADS, 1, COMPUTE},
    {"--acc", OPT_ACC, 1, COMPUTE},          {"--dtype", OPT_DTYPE, 1, COMPUTE},
    {"--time", OPT_TIME, 0, COMPUTE}};

static const char HELP[] =
    "gpured-npy: reductions, scans and GEMM-reductions of NumPy .npy files\n"
    "\n"
    "  gpured-npy reduce OP [--axis A[,B...]] [--keepdims] [--ddof N] IN.npy\n"
    "      OP: sum prod min max mean sumsq norm1 norm2 absmax argmin argmax logsumexp\n"
    "          var std any all count_nonzero; without --axis over all axes\n"
    "  gpured-npy scan OP --axis A [--exclusive] [--reverse] IN.npy\n"
    "      OP: sum prod min max logsumexp; --axis may be left out with one axis\n"
    "  gpured-npy gemm-reduce OP --axis M|N A.npy B.npy\n"
    "      reduces the matrix product of A [..., M, K] and B [..., K, N] over its rows (M)\n"
    "      or its columns (N); OP: sum min max mean sumsq norm1 norm2 absmax argmin argmax\n"
    "      logsumexp\n"
    "  gpured-npy info IN.npy\n"
    "\n"
    "  -o OUT.npy         save the result ('-' for standard output); without it, print it\n"
    "  --backend WHERE    auto, cpu or cuda\n"
    "  --threads N        CPU threads; the result does not depend on it\n"
    "  --acc f64          accumulate in double precision\n"
    "  --dtype DT         type of the result: f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1\n"
    "  --time             print the time of the call on standard error\n"
    "  --help, --version\n"
    "\n"
    "IN.npy may be '-' for standard input. Negative axes count from the end. Results have NumPy's\n"
    "types: sums of integers are 64-bit, means of integers float64, floats keep their type.\n";

typedef struct request {
  unsigned command;
  const char *command_name;
  const op_info *op;
  const char *inputs[2];
  int input_count;
  const char *output; /* NULL: print */
  const char *axis_text;
  int axes[GPURED_MAX_NDIM];
  int axis_count; /* -1: not given */
  int gemm_axis;
  int keepdims, timed, ddof_given;
  unsigned scan_flags;
  npy_kind dtype; /* NPY_KINDS: as NumPy would */
  gpured_options options;
} request;

/* ============================================================================================== */
/* 2  Messages                                                                                    */
/* ============================================================================================== */

/* Prints one line on stderr and gives the exit status. Names come from outside: nothing in them may
 * break the line. */
static int fail(const char *format, ...) {
  char text[1024];
  char *p;
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  for (p = text; *p != 0; ++p) {
    if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = '?';
  }
  fprintf(stderr, "gpured-npy: %s\n", text);
  return 1;
}

#define HINT " (see gpured-npy --help)"

/* What is written on standard output may fail to arrive (a full disk, a closed pipe). */
static int finish_output(void) {
  if (fflush(stdout) != 0 || ferror(stdout)) {
    return fail("cannot write to standard output: %s", strerror(errno));
  }
  return 0;
}

/* ============================================================================================== */
/* 3  Arguments                                                                                   */
/* ============================================================================================== */

/* Reads a whole number from low to high that ends where the text ends or at a comma. */
static int parse_number(const char *text, long low, long high, long *value, const char **end) {
  char *stop;
  errno = 0;
  *value = strtol(text, &stop, 10);
  if (stop == text || errno != 0 || *value < low || *value > high) return 1;
  if (text[0] != '-' && (text[0] < '0' || text[0] > '9')) return 1;
  *end = stop;
  return *stop != 0 && *stop != ',';
}

static int parse_int_option(const char *name, const char *text, long low, long high, int *value) {
  const char *end;
  long v;
  if (parse_number(text, low, high, &v, &end) || *end != 0) {
    return fail("%s '%s': a number from %ld to %ld is wanted" HINT, name, text, low, high);
  }
  *value = (int)v;
  return 0;
}

/* The axes of reduce and scan; which of them exist is known when the file is read. */
static int parse_axes(request *r, const char *text) {
  const char *p = text;
  long v;
  r->axis_text = text;
  r->axis_count = 0;
  if (r->command == GEMM) {
    if (strcmp(text, "M") != 0 && strcmp(text, "N") != 0) {
      return fail("--axis '%s': gemm-reduce wants M or N" HINT, text);
    }
    r->axis_count = 1;
    r->gemm_axis = text[0] == 'N';
    return 0;
  }
  for (;;) {
    if (parse_number(p, -GPURED_MAX_NDIM, GPURED_MAX_NDIM - 1, &v, &p)) {
      return fail("--axis '%s': numbers from %d to %d, with commas between, are wanted" HINT, text,
                  -GPURED_MAX_NDIM, GPURED_MAX_NDIM - 1);
    }
    if (r->axis_count == GPURED_MAX_NDIM) return fail("--axis '%s': too many axes" HINT, text);
    r->axes[r->axis_count++] = (int)v;
    if (*p == 0) break;
    ++p;
  }
  if (r->command == SCAN && r->axis_count > 1) {
    return fail("--axis '%s': scan takes one axis" HINT, text);
  }
  return 0;
}

static int parse_backend(request *r, const char *text) {
  static const char *const names[] = {"auto", "cpu", "cuda"};
  int b = 0;
  while (b < 3 && strcmp(text, names[b]) != 0) ++b;
  if (b == 3) return fail("--backend '%s': auto, cpu or cuda is wanted" HINT, text);
  r->options.backend = b; /* the order of gpured_backend */
  return 0;
}

static int apply_option(request *r, const option_info *o, const char *value) {
  switch (o->id) {
    case OPT_AXIS:
      return parse_axes(r, value);
    case OPT_OUTPUT:
      r->output = value;
      return 0;
    case OPT_KEEPDIMS:
      r->keepdims = 1;
      return 0;
    case OPT_DDOF:
      r->ddof_given = 1;
      return parse_int_option("--ddof", value, 0, INT32_MAX, &r->options.ddof);
    case OPT_EXCLUSIVE:
      r->scan_flags |= (unsigned)GPURED_SCAN_EXCLUSIVE;
      return 0;
    case OPT_REVERSE:
      r->scan_flags |= (unsigned)GPURED_SCAN_REVERSE;
      return 0;
    case OPT_BACKEND:
      return parse_backend(r, value);
    case OPT_THREADS:
      return parse_int_option("--threads", value, 1, 1024, &r->options.threads);
    case OPT_ACC:
      if (strcmp(value, "f64") != 0) return fail("--acc '%s': only f64 is offered" HINT, value);
      r->options.acc_dtype = GPURED_F64;
      return 0;
    case OPT_DTYPE:
      r->dtype = npy_kind_by_code(value);
      if (r->dtype == NPY_KINDS) return fail("--dtype '%s': no such type" HINT, value);
      return 0;
    case OPT_TIME:
      r->timed = 1;
      return 0;
  }
  return 0;
}

/* Takes the option at argv[*i], and its value from "--name=value" or from the next argument. */
static int parse_option(request *r, int argc, char **argv, int *i) {
  const char *text = argv[*i], *equals = strchr(text, '='), *value = NULL;
  const size_t length = equals ? (size_t)(equals - text) : strlen(text);
  size_t k;
  for (k = 0; k < sizeof OPTIONS / sizeof *OPTIONS; ++k) {
    if (strlen(OPTIONS[k].name) == length && memcmp(OPTIONS[k].name, text, length) == 0) break;
  }
  if (k == sizeof OPTIONS / sizeof *OPTIONS) return fail("unknown option '%s'" HINT, text);
  if (!(OPTIONS[k].commands & r->command)) {
    return fail("%s has no option %s" HINT, r->command_name, OPTIONS[k].name);
  }
  if (OPTIONS[k].has_value) {
    value = equals ? equals + 1 : *i + 1 < argc ? argv[++*i] : NULL;
    if (value == NULL || *value == 0) return fail("%s wants a value" HINT, OPTIONS[k].name);
  } else if (equals) {
    return fail("%s takes no value" HINT, OPTIONS[k].name);
  }
  return apply_option(r, &OPTIONS[k], value);
}

static int parse_command(request *r, const char *text) {
  static const char *const names[] = {"reduce", "scan", "gemm-reduce", "info"};
  unsigned k = 0;
  while (k < 4 && strcmp(text, names[k]) != 0) ++k;
  if (k == 4) {
    return fail("unknown command '%s': reduce, scan, gemm-reduce or info is wanted" HINT, text);
  }
  r->command = 1u << k;
  r->command_name = names[k];
  return 0;
}

static int parse_op(request *r, const char *text) {
  size_t k = 0;
  while (k < sizeof OPS / sizeof *OPS && strcmp(text, OPS[k].name) != 0) ++k;
  if (k == sizeof OPS / sizeof *OPS) return fail("unknown operation '%s'" HINT, text);
  if (!(OPS[k].commands & r->command)) return fail("%s has no %s" HINT, r->command_name, text);
  r->op = &OPS[k];
  return 0;
}

/* What is wrong only when all arguments are seen. */
static int check_request(const request *r) {
  const int wanted = r->command == GEMM ? 2 : 1;
  if (r->command != INFO && r->op == NULL) {
    return fail("%s wants an operation" HINT, r->command_name);
  }
  if (r->input_count != wanted) {
    return fail("%s wants %d input file%s, %d given" HINT, r->command_name, wanted,
                wanted == 1 ? "" : "s", r->input_count);
  }
  if (wanted == 2 && strcmp(r->inputs[0], "-") == 0 && strcmp(r->inputs[1], "-") == 0) {
    return fail("only one input can be standard input" HINT);
  }
  if (r->command == GEMM && r->axis_count < 0) return fail("gemm-reduce wants --axis M|N" HINT);
  if (r->ddof_given && r->op->op != GPURED_VAR && r->op->op != GPURED_STD) {
    return fail("--ddof goes with var and std, not with %s" HINT, r->op->name);
  }
  return 0;
}

static int parse_arguments(request *r, int argc, char **argv) {
  int i, plain = 0; /* plain: after "--" nothing is an option */
  if (argc < 2) return fail("a command is wanted" HINT);
  if (parse_command(r, argv[1])) return 1;
  for (i = 2; i < argc; ++i) {
    const char *text = argv[i];
    if (!plain && strcmp(text, "--") == 0) {
      plain = 1;
    } else if (!plain && text[0] == '-' && text[1] != 0) {
      if (parse_option(r, argc, argv, &i)) return 1;
    } else if (r->command != INFO && r->op == NULL) {
      if (parse_op(r, text)) return 1;
    } else {
      if (r->input_count < 2) r->inputs[r->input_count] = text;
      ++r->input_count;
    }
  }
  return check_request(r);
}

/* ============================================================================================== */
/* 4  Printing, as NumPy does                                                                     */
/* ============================================================================================== */

enum { LINE_WIDTH = 75, SHOW_ALL = 1000, SHOW_EDGE = 3 };

static double half_to_double(uint16_t h) {
  const int exponent = (h >> 10) & 31, fraction = h & 1023;
  double v;
  if (exponent == 31) {
    v = fraction ? (double)NAN : (double)INFINITY;
  } else if (exponent == 0) {
    v = ldexp(fraction, -24);
  } else {
    v = ldexp(1024 + fraction, exponent - 25);
  }
  return h & 0x8000 ? -v : v;
}

/* The nearest value that f16 has; ties do not matter, for this looks whether a decimal means v. */
static double nearest_half(double v) {
  int exponent;
  double unit;
  (void)frexp(v, &exponent);
  unit = ldexp(1, exponent - 11 < -24 ? -24 : exponent - 11);
  return floor(v / unit + 0.5) * unit;
}

static int reads_back(const char *text, npy_kind kind, double v) {
  if (kind == NPY_F8) return !(strtod(text, NULL) < v) && !(strtod(text, NULL) > v);
  if (kind == NPY_F4) return !(strtof(text, NULL) < (float)v) && !(strtof(text, NULL) > (float)v);
  return !(nearest_half(strtod(text, NULL)) < v) && !(nearest_half(strtod(text, NULL)) > v);
}

/* The shortest decimal that reads back as v in its type, written out between 1e-4 and 1e16. */
static void format_float(char *text, size_t size, npy_kind kind, double v) {
  int digits = 1, exponent;
  if (v != v) {
    (void)snprintf(text, size, "nan");
    return;
  }
  if (v - v != 0) {
    (void)snprintf(text, size, v > 0 ? "inf" : "-inf");
    return;
  }
  for (; digits < 17; ++digits) {
    (void)snprintf(text, size, "%.*e", digits - 1, v);
    if (reads_back(text, kind, v)) break;
  }
  (void)snprintf(text, size, "%.*e", digits - 1, v);
  exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
  if (exponent >= digits && exponent < 16) digits = exponent + 1;
  (void)snprintf(text, size, "%.*g", digits, v);
  if (strpbrk(text, ".e") == NULL) (void)snprintf(text + strlen(text), size - strlen(text), ".0");
}

static void format_element(char *text, size_t size, npy_kind kind, const void *p) {
  union {
    float f4;
    double f8;
    uint16_t f2;
    int8_t i1;
    uint8_t u1;
    int32_t i4;
    uint32_t u4;
    int64_t i8;
    uint64_t u8;
  } v;
  memcpy(&v, p, gpured_dtype_size(npy_info(kind)->carrier));
  switch (kind) {
    case NPY_F2:
      format_float(text, size, kind, half_to_double(v.f2));
      break;
    case NPY_F4:
      format_float(text, size, kind, (double)v.f4);
      break;
    case NPY_F8:
      format_float(text, size, kind, v.f8);
      break;
    case NPY_I1:
      (void)snprintf(text, size, "%d", v.i1);
      break;
    case NPY_I2:
    case NPY_I4:
      (void)snprintf(text, size, "%" PRId32, v.i4);
      break;
    case NPY_I8:
      (void)snprintf(text, size, "%" PRId64, v.i8);
      break;
    case NPY_U1:
      (void)snprintf(text, size, "%u", v.u1);
      break;
    case NPY_U2:
    case NPY_U4:
      (void)snprintf(text, size, "%" PRIu32, v.u4);
      break;
    case NPY_U8:
      (void)snprintf(text, size, "%" PRIu64, v.u8);
      break;
    case NPY_B1:
      (void)snprintf(text, size, v.u1 ? "True" : "False");
      break;
    case NPY_KINDS:
      break;
  }
}

typedef struct printer {
  const npy_array *a;
  int measure; /* 1: only find the width of the widest element */
  int width, column;
  int64_t edge; /* elements shown at either end of an axis; 0: all */
} printer;

static void print_element(printer *p, int64_t offset) {
  char text[64];
  const int64_t size = (int64_t)gpured_dtype_size(npy_info(p->a->kind)->carrier);
  format_element(text, sizeof text, p->a->kind, (const char *)p->a->data + offset * size);
  if (p->measure) {
    if ((int)strlen(text) > p->width) p->width = (int)strlen(text);
  } else {
    printf("%*s", p->width, text);
  }
}

/* What stands between the elements of an axis: a space or a wrapped line on the last one, new lines
 * on the others. */
static void print_gap(printer *p, int axis, int next_width) {
  const int below = p->a->t.ndim - 1 - axis;
  int k;
  if (p->measure) return;
  if (below == 0 && p->column + 1 + next_width < LINE_WIDTH) {
    putchar(' ');
    ++p->column;
    return;
  }
  for (k = 0; k < (below ? below : 1); ++k) putchar('\n');
  for (k = 0; k <= axis; ++k) putchar(' ');
  p->column = axis + 1;
}

static void print_axis(printer *p, int axis, int64_t offset) {
  const gpured_tensor *t = &p->a->t;
  int64_t i;
  if (axis == t->ndim) {
    print_element(p, offset);
    p->column += p->width;
    return;
  }
  if (!p->measure) putchar('[');
  if (axis == t->ndim - 1) p->column = t->ndim;
  for (i = 0; i < t->shape[axis]; ++i) {
    if (p->edge > 0 && i == p->edge && t->shape[axis] > 2 * p->edge) {
      print_gap(p, axis, 3);
      if (!p->measure) printf("...");
      p->column += 3;
      i = t->shape[axis] - p->edge;
    }
    if (i > 0) print_gap(p, axis, p->width);
    print_axis(p, axis + 1, offset + i * t->strides[axis]);
  }
  if (!p->measure) putchar(']');
}

/* Elements of a shape that is known to be countable. */
static int64_t count_elements(const gpured_tensor *t) {
  int64_t n = 1;
  int i;
  for (i = 0; i < t->ndim; ++i) {
    if (t->shape[i] == 0) return 0;
  }
  for (i = 0; i < t->ndim; ++i) n *= t->shape[i];
  return n;
}

static int print_array(const npy_array *a) {
  printer p;
  p.a = a;
  p.measure = 1;
  p.width = p.column = 0;
  p.edge = count_elements(&a->t) > SHOW_ALL ? SHOW_EDGE : 0;
  if (count_elements(&a->t) == 0) {
    char shape[192];
    npy_shape_text(a->t.ndim, a->t.shape, shape, sizeof shape);
    printf("[] (empty, shape %s)\n", shape);
    return finish_output();
  }
  print_axis(&p, 0, 0);
  p.measure = 0;
  p.column = 0;
  print_axis(&p, 0, 0);
  putchar('\n');
  return finish_output();
}

static int print_info(const char *name, const npy_array *a) {
  const npy_kind_info *info = npy_info(a->kind);
  const int64_t count = count_elements(&a->t);
  char shape[192];
  npy_shape_text(a->t.ndim, a->t.shape, shape, sizeof shape);
  printf("file:     %s\n", name);
  printf("format:   %d.0\n", a->version);
  printf("dtype:    %s (%s%s)\n", info->name,
         info->size == 1 ? "|"
         : a->big_endian ? ">"
                         : "<",
         info->code);
  printf("shape:    %s\n", shape);
  printf("order:    %s\n", a->fortran ? "Fortran" : "C");
  printf("elements: %" PRId64 "\n", count);
  printf("bytes:    %" PRId64 "\n", count * (int64_t)info->size);
  return finish_output();
}

/* ============================================================================================== */
/* 5  Results                                                                                     */
/* ============================================================================================== */

static int is_float(npy_kind k) { return k <= NPY_F8; }

/* The unsigned integer that holds every absolute value of k. */
static npy_kind unsigned_of(npy_kind k) {
  switch (k) {
    case NPY_I1:
      return NPY_U1;
    case NPY_I2:
      return NPY_U2;
    case NPY_I4:
      return NPY_U4;
    case NPY_I8:
      return NPY_U8;
    case NPY_B1:
      return NPY_U1;
    default:
      return k;
  }
}

/* The dtype of the result where --dtype does not say it: NumPy's. min, max and absmax of an array
 * keep its type; those of a matrix product of integers need 64 bits, as sums do. */
static npy_kind natural_kind(const request *r, npy_kind in) {
  const gpured_op op = r->op->op;
  const int keeps = r->command != GEMM && (op == GPURED_MIN || op == GPURED_MAX);
  const int is_signed = in >= NPY_I1 && in <= NPY_I8;
  switch (r->op->class_) {
    case INDEX:
      return NPY_I8;
    case TRUTH:
      return NPY_B1;
    case REAL:
      return is_float(in) ? in : NPY_F8;
    case UNSIGNED_VALUE:
      if (is_float(in)) return in;
      return op == GPURED_ABSMAX && r->command != GEMM ? unsigned_of(in) : NPY_U8;
    case VALUE:
      break;
  }
  if (is_float(in) || keeps) return in;
  return is_signed || in == NPY_B1 ? NPY_I8 : NPY_U8;
}

/* Whether the library, and sense, allow this dtype for the result. */
static int kind_fits(const request *r, npy_kind in, npy_kind out) {
  switch (r->op->class_) {
    case INDEX:
      return out == NPY_I8 || out == NPY_I4;
    case TRUTH:
      return !is_float(out);
    case REAL:
      return is_float(out);
    default:
      break;
  }
  if (out == NPY_B1) return natural_kind(r, in) == NPY_B1;
  return is_float(out) == is_float(in);
}

/* Makes the array for the result. An empty input may have a shape that makes a huge result out of
 * nothing; a file of a hundred bytes must not take all memory. */
static int make_result(const request *r, const npy_array *in, int in_empty, int ndim,
                       const int64_t *shape, npy_array *out) {
  const npy_kind kind = r->dtype == NPY_KINDS ? natural_kind(r, in->kind) : r->dtype;
  const size_t size = gpured_dtype_size(npy_info(kind)->carrier);
  uint64_t limit = (in_empty ? UINT64_C(1) << 30 : (uint64_t)PTRDIFF_MAX) / size, count = 1;
  int i, empty = 0;
  if (!kind_fits(r, in->kind, kind)) {
    return fail("--dtype %s does not fit %s of %s" HINT, npy_info(kind)->code, r->op->name,
                npy_info(in->kind)->name);
  }
  for (i = 0; i < ndim; ++i) empty = empty || shape[i] == 0;
  for (i = 0; i < ndim && !empty; ++i) {
    if ((uint64_t)shape[i] > limit / count) {
      return fail("%s of %s: the result is too large", r->op->name, r->inputs[0]);
    }
    count *= (uint64_t)shape[i];
  }
  out->kind = kind;
  out->data = malloc(empty ? 1 : (size_t)count * size);
  if (out->data == NULL) return fail("not enough memory for the result");
  out->t = gpured_array(out->data, npy_info(kind)->carrier, ndim, shape, NULL);
  return 0;
}

/* Axis as in NumPy: negative ones count from the end. Gives -1 where there is none. */
static int resolve_axis(int axis, int ndim) {
  if (axis < -ndim || axis >= ndim) return -1;
  return axis < 0 ? axis + ndim : axis;
}

static int no_such_axis(const request *r, const npy_array *in) {
  return fail("--axis %s: %s has %d ax%s", r->axis_text, r->inputs[0], in->t.ndim,
              in->t.ndim == 1 ? "is" : "es");
}

static double now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* After the call: its time if asked for, its error if there is one. */
static int check_call(const request *r, double start, gpured_status st) {
  const double ms = now() - start;
  if (st == GPURED_ERR_SHAPE && r->op->class_ == INDEX) {
    return fail("%s of %s: there is no element along the axis", r->op->name, r->inputs[0]);
  }
  if (st != GPURED_OK) {
    return fail("%s of %s: %s", r->op->name, r->inputs[0], gpured_status_string(st));
  }
  if (r->timed) fprintf(stderr, "gpured-npy: %s took %.3f ms\n", r->op->name, ms);
  return 0;
}

/* ============================================================================================== */
/* 6  Commands                                                                                    */
/* ============================================================================================== */

/* The library sees 16-bit integers as 32-bit ones, and gives the limits of those as the least and
 * the greatest of nothing. Here they become the limits of 16 bits; other results lie between these
 * anyway. */
static void limit_to_16_bits(const request *r, npy_kind in, npy_array *out) {
  const int64_t n = count_elements(&out->t);
  int32_t *i = (int32_t *)out->data;
  uint32_t *u = (uint32_t *)out->data;
  int64_t k;
  if (out->kind != in || (r->op->op != GPURED_MIN && r->op->op != GPURED_MAX)) return;
  for (k = 0; k < n && in == NPY_I2; ++k) {
    i[k] = i[k] < INT16_MIN ? INT16_MIN : i[k] > INT16_MAX ? INT16_MAX : i[k];
  }
  for (k = 0; k < n && in == NPY_U2; ++k) u[k] = u[k] > UINT16_MAX ? UINT16_MAX : u[k];
}

static int run_reduce(const request *r, const npy_array *in, npy_array *out) {
  const int ndim = in->t.ndim;
  uint32_t axes = r->axis_count < 0 ? (1u << ndim) - 1u : 0;
  int64_t shape[GPURED_MAX_NDIM] = {0};
  int i, kept = 0;
  double start;
  for (i = 0; i < r->axis_count; ++i) {
    const int axis = resolve_axis(r->axes[i], ndim);
    if (axis < 0) return no_such_axis(r, in);
    if (axes & (1u << axis)) return fail("--axis %s names an axis twice" HINT, r->axis_text);
    axes |= 1u << axis;
  }
  for (i = 0; i < ndim; ++i) {
    const int reduced = (axes >> i & 1u) != 0;
    if (!reduced || r->keepdims) shape[kept++] = reduced ? 1 : in->t.shape[i];
  }
  if (make_result(r, in, count_elements(&in->t) == 0, kept, shape, out)) return 1;
  start = now();
  return check_call(r, start, gpured_reduce(r->op->op, &in->t, axes, &out->t, &r->options));
}

static int run_scan(const request *r, const npy_array *in, npy_array *out) {
  const int ndim = in->t.ndim;
  int axis = 0;
  double start;
  if (r->axis_count < 0 && ndim != 1) {
    return fail("scan wants --axis: %s has %d axes" HINT, r->inputs[0], ndim);
  }
  if (r->axis_count > 0) axis = resolve_axis(r->axes[0], ndim);
  if (axis < 0) return no_such_axis(r, in);
  if (make_result(r, in, 0, ndim, in->t.shape, out)) return 1;
  start = now();
  return check_call(r, start,
                    gpured_scan(r->op->op, &in->t, axis, r->scan_flags, &out->t, &r->options));
}

/* Whether the operands multiply; gives the shape of the result. Batch axes broadcast as in NumPy.
 */
static int gemm_shape(const request *r, const gpured_tensor *a, const gpured_tensor *b, int *ndim,
                      int64_t *shape) {
  const int batch = (a->ndim > b->ndim ? a->ndim : b->ndim) - 2;
  int i;
  if (a->ndim < 2 || b->ndim < 2) return fail("gemm-reduce wants arrays of 2 axes or more");
  if (a->dtype != b->dtype) {
    return fail("%s and %s differ in dtype; gemm-reduce wants one", r->inputs[0], r->inputs[1]);
  }
  if (a->shape[a->ndim - 1] != b->shape[b->ndim - 2]) {
    return fail("%s has %" PRId64 " columns and %s has %" PRId64 " rows: they do not multiply",
                r->inputs[0], a->shape[a->ndim - 1], r->inputs[1], b->shape[b->ndim - 2]);
  }
  for (i = 0; i < batch; ++i) {
    const int ia = i - batch + a->ndim - 2, ib = i - batch + b->ndim - 2;
    const int64_t na = ia < 0 ? 1 : a->shape[ia], nb = ib < 0 ? 1 : b->shape[ib];
    if (na != nb && na != 1 && nb != 1) {
      return fail("the batch axes of %s and %s do not broadcast", r->inputs[0], r->inputs[1]);
    }
    shape[i] = na == 1 ? nb : na;
  }
  shape[batch] = r->gemm_axis == 0 ? b->shape[b->ndim - 1] : a->shape[a->ndim - 2];
  *ndim = batch + 1;
  return 0;
}

static int run_gemm(const request *r, const npy_array *a, const npy_array *b, npy_array *out) {
  const int empty = count_elements(&a->t) == 0 || count_elements(&b->t) == 0;
  int64_t shape[GPURED_MAX_NDIM] = {0};
  int ndim = 0;
  double start;
  if (gemm_shape(r, &a->t, &b->t, &ndim, shape)) return 1;
  if (make_result(r, a, empty, ndim, shape, out)) return 1;
  start = now();
  return check_call(
      r, start, gpured_gemm_reduce(r->op->op, &a->t, &b->t, r->gemm_axis, &out->t, &r->options));
}

static int deliver(const request *r, const npy_array *out) {
  char err[512];
  int failed;
  if (r->output == NULL) return print_array(out);
  if (strcmp(r->output, "-") == 0) {
    failed = npy_write(stdout, "standard output", &out->t, out->kind, err, sizeof err);
  } else {
    failed = npy_save_as(r->output, &out->t, out->kind, err, sizeof err);
  }
  return failed ? fail("%s", err) : 0;
}

static int load(const char *path, npy_array *a) {
  char err[512];
  const int failed = strcmp(path, "-") == 0 ? npy_read(stdin, "standard input", a, err, sizeof err)
                                            : npy_load(path, a, err, sizeof err);
  return failed ? fail("%s", err) : 0;
}

static int run(const request *r) {
  npy_array in[2], out;
  int i, failed = 0;
  memset(in, 0, sizeof in);
  memset(&out, 0, sizeof out);
  for (i = 0; i < r->input_count && !failed; ++i) failed = load(r->inputs[i], &in[i]);
  if (!failed && r->command == INFO) {
    failed = print_info(r->inputs[0], &in[0]);
  } else if (!failed) {
    failed = r->command == REDUCE ? run_reduce(r, &in[0], &out)
             : r->command == SCAN ? run_scan(r, &in[0], &out)
                                  : run_gemm(r, &in[0], &in[1], &out);
    if (!failed && r->command != GEMM) limit_to_16_bits(r, in[0].kind, &out);
    if (!failed) failed = deliver(r, &out);
  }
  npy_free(&in[0]);
  npy_free(&in[1]);
  npy_free(&out);
  return failed;
}

int main(int argc, char **argv) {
  request r;
  int i;
  for (i = 1; i < argc && strcmp(argv[i], "--") != 0; ++i) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(HELP, stdout);
      return finish_output();
    }
    if (strcmp(argv[i], "--version") == 0) {
      const unsigned v = gpured_version();
      printf("gpured-npy %u.%u.%u (ORDER %d, %s)\n", v / 10000, v / 100 % 100, v % 100,
             GPURED_ORDER, gpured_cpu_level());
      return finish_output();
    }
  }
  memset(&r, 0, sizeof r);
  r.axis_count = -1;
  r.dtype = NPY_KINDS;
  r.options = gpured_default_options();
  return parse_arguments(&r, argc, argv) ? 1 : run(&r);
}
