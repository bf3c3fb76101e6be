/*
 * gpured-npy: reductions, scans and fused GEMM-reductions of NumPy .npy files on the command line.
 *
 * SPDX-License-Identifier: MIT
 *
 * It is also an example of a whole program around gpured: npy_map.h turns a file into a tensor, the
 * shape and dtype of the result are worked out as NumPy would, the library does the work, in pieces
 * where the order of the file allows, and the result is printed or saved. Errors are one line on
 * stderr and exit status 1.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* clock_gettime, sigaction, mmap */
#endif
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* madvise, setitimer */
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "npy_map.h"

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
  OPT_PIECE,
  OPT_PROGRESS,
  OPT_TIME
} option_id;

typedef struct option_info {
  const char *name;
  option_id id;
  int has_value;
  unsigned commands;
} option_info;

static const option_info OPTIONS[] = {
    {"--axis", OPT_AXIS, 1, COMPUTE},         {"-o", OPT_OUTPUT, 1, COMPUTE},
    {"--keepdims", OPT_KEEPDIMS, 0, REDUCE},  {"--ddof", OPT_DDOF, 1, REDUCE},
    {"--exclusive", OPT_EXCLUSIVE, 0, SCAN},  {"--reverse", OPT_REVERSE, 0, SCAN},
    {"--backend", OPT_BACKEND, 1, COMPUTE},   {"--threads", OPT_THREADS, 1, COMPUTE},
    {"--acc", OPT_ACC, 1, COMPUTE},           {"--dtype", OPT_DTYPE, 1, COMPUTE},
    {"--piece", OPT_PIECE, 1, REDUCE | SCAN}, {"--progress", OPT_PROGRESS, 0, COMPUTE},
    {"--time", OPT_TIME, 0, COMPUTE}};

#define DEFAULT_PIECE (64L << 20)

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
    "  --piece BYTES      how much of a file goes through memory at once, where the axes allow\n"
    "                     pieces (default 67108864); the result does not depend on it\n"
    "  --progress         say on standard error how far it is, also if that is no terminal\n"
    "  --time             print the time of the work on standard error\n"
    "  --help, --version\n"
    "\n"
    "IN.npy may be '-' for standard input. Negative axes count from the end. Results have NumPy's\n"
    "types: sums of integers are 64-bit, means of integers float64, floats keep their type.\n"
    "Files may be larger than memory. OUT.npy is complete or not there. The exit status is 0, or "
    "1\n"
    "after one line on standard error that says what is wrong. More: man gpured-npy.\n";

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
  int keepdims, timed, progress, ddof_given;
  long piece; /* bytes */
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
/* 3  Signals: nothing half-written is left, and a clock for progress                             */
/* ============================================================================================== */

/* The unfinished file, for the handlers; empty: there is none. */
static char unfinished[4096];
static volatile sig_atomic_t has_unfinished;

static void drop_unfinished(void) {
  if (has_unfinished) (void)unlink(unfinished);
}

/* Ends as the signal ends a program that does not catch it (SA_RESETHAND). */
static void on_end(int signal_number) {
  drop_unfinished();
  (void)raise(signal_number);
}

static void on_bus_error(int signal_number) {
  static const char text[] =
      "gpured-npy: a file became shorter, or its disk failed, while it was in use\n";
  ssize_t written;
  (void)signal_number;
  drop_unfinished();
  written = write(STDERR_FILENO, text, sizeof text - 1);
  (void)written; /* there is nobody left to tell */
  _exit(1);
}

static void catch_signals(void) {
  static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
  struct sigaction action, old;
  size_t i;
  memset(&action, 0, sizeof action);
  action.sa_flags = (int)SA_RESETHAND;
  action.sa_handler = on_end;
  for (i = 0; i < sizeof ends / sizeof *ends; ++i) {
    if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
      (void)sigaction(ends[i], &action, NULL);
    }
  }
  action.sa_handler = on_bus_error;
  (void)sigaction(SIGBUS, &action, NULL);
  (void)signal(SIGXFSZ, SIG_IGN); /* a write past the limit is an error like others */
}

/* Creates the file that is asked for, if one is. No signal comes between that and the note of it,
 * since there is only one thread yet; but a pipe, which leaves nothing behind, may have to wait for
 * its reader. */
static int create_output(const request *r, npy_sink *out) {
  struct stat about;
  sigset_t held, before;
  char err[512];
  int failed;
  if (r->output == NULL || strcmp(r->output, "-") == 0) return 0;
  (void)sigemptyset(&held);
  if (stat(r->output, &about) != 0 || S_ISREG(about.st_mode)) (void)sigfillset(&held);
  (void)sigprocmask(SIG_BLOCK, &held, &before);
  failed = npy_create(r->output, &out->file, err, sizeof err);
  if (!failed && out->file.temporary != NULL) {
    (void)snprintf(unfinished, sizeof unfinished, "%s", out->file.temporary);
    has_unfinished = 1;
  }
  (void)sigprocmask(SIG_SETMASK, &before, NULL);
  return failed ? fail("%s", err) : 0;
}

/* The file has its name, or is gone. */
static void release_output(void) { has_unfinished = 0; }

/* What the clock shows. It is drawn by a signal handler, which may do little: text and numbers are
 * put together by hand. */
static struct {
  char name[64];
  volatile sig_atomic_t draw;    /* 0: nothing, 1: lines, 2: one line of a terminal */
  volatile sig_atomic_t percent; /* -1: not known */
  volatile sig_atomic_t seconds;
} progress;

static char *put_text(char *p, const char *text) {
  while (*text) *p++ = *text++;
  return p;
}

static char *put_number(char *p, int v) {
  char digits[16];
  int n = 0;
  do {
    digits[n++] = (char)('0' + v % 10);
    v /= 10;
  } while (v > 0);
  while (n > 0) *p++ = digits[--n];
  return p;
}

static void draw_progress(void) {
  char line[160], *p = line;
  p = put_text(p, progress.draw == 2 ? "\rgpured-npy: " : "gpured-npy: ");
  p = put_text(p, progress.name);
  if (progress.percent >= 0) p = put_text(put_number(put_text(p, ": "), progress.percent), " %");
  p = put_text(put_number(put_text(p, ", "), progress.seconds), " s");
  p = put_text(p, progress.draw == 2 ? "\033[K" : "\n");
  if (write(STDERR_FILENO, line, (size_t)(p - line)) < 0) progress.draw = 0;
}

static void on_clock(int signal_number) {
  const int kept = errno;
  (void)signal_number;
  ++progress.seconds;
  if (progress.draw) draw_progress();
  errno = kept;
}

/* Starts the clock, which draws every second: short work shows nothing. */
static void start_progress(const request *r) {
  const struct itimerval second = {{1, 0}, {1, 0}};
  struct sigaction action;
  progress.draw = isatty(STDERR_FILENO) ? 2 : r->progress;
  if (!progress.draw) return;
  (void)snprintf(progress.name, sizeof progress.name, "%s %s", r->command_name, r->op->name);
  progress.percent = -1;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_clock;
  action.sa_flags = SA_RESTART;
  (void)sigaction(SIGALRM, &action, NULL);
  (void)setitimer(ITIMER_REAL, &second, NULL);
}

/* Wipes the line, or says with --progress that all is done. */
static void stop_progress(const request *r, int done) {
  const struct itimerval never = {{0, 0}, {0, 0}};
  if (!progress.draw) return;
  (void)setitimer(ITIMER_REAL, &never, NULL);
  if (done && r->progress) {
    progress.percent = 100;
    draw_progress();
    if (progress.draw == 2) fputc('\n', stderr);
  } else if (progress.draw == 2 && progress.seconds > 0) {
    fputs("\r\033[K", stderr);
  }
  progress.draw = 0;
}

/* ============================================================================================== */
/* 4  Arguments                                                                                  */
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

static int parse_piece(request *r, const char *text) {
  const char *end;
  if (parse_number(text, 1, LONG_MAX, &r->piece, &end) || *end != 0) {
    return fail("--piece '%s': a number of bytes is wanted" HINT, text);
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
    case OPT_PIECE:
      return parse_piece(r, value);
    case OPT_PROGRESS:
      r->progress = 1;
      return 0;
    case OPT_TIME:
      r->timed = 1;
      return 0;
  }
  return 0;
}

/* Takes the option at argv[*i], and its value from "--name=value" or from the next argument. */
static int parse_option(request *r, int argc, char **argv, int *i) {
  const char *text = argv[*i], *equals = strchr(text, '='), *value = "";
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
/* 5  Printing, as NumPy does                                                                    */
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
  format_element(text, sizeof text, p->a->kind, (const char *)p->a->t.data + offset * size);
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
/* 6  Results                                                                                    */
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

/* Makes the place for the result, in memory or in its file. An empty input may have a shape that
 * makes a huge result out of nothing; a file of a hundred bytes must not take all memory. */
static int make_result(const request *r, const npy_array *in, int in_empty, int ndim,
                       const int64_t *shape, npy_sink *out) {
  const npy_kind kind = r->dtype == NPY_KINDS ? natural_kind(r, in->kind) : r->dtype;
  const size_t size = gpured_dtype_size(npy_info(kind)->carrier);
  uint64_t limit = (in_empty ? UINT64_C(1) << 30 : (uint64_t)PTRDIFF_MAX) / size, count = 1;
  char err[512];
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
  if (create_output(r, out)) return 1;
  if (npy_open_sink(out, kind, ndim, shape, empty ? 0 : (size_t)count, err, sizeof err)) {
    return fail("%s", err);
  }
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

/* After the work: its time if asked for, its error if there is one. */
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
/* 7  Pieces                                                                                      */
/* ============================================================================================== */
/*
 * A reduction or scan goes through its file piece by piece where the outermost axes of the file
 * belong to different results: then one piece is read while others are in no memory, and it is
 * known how far the work is. The bits do not depend on the pieces, since a result does not depend
 * on its neighbours. Everything else is one call on the mapped file.
 */
typedef struct job {
  const request *r;
  npy_source *in;
  npy_sink *out;
  uint32_t axes;                 /* those that a piece needs whole: reduced, or scanned */
  int axis;                      /* of a scan */
  int out_axis[GPURED_MAX_NDIM]; /* where an axis is in the result; -1: reduced */
} job;

/* The axes as they lie in the file, the outermost first: `before` of them take one index a piece,
 * the next one takes `chunk`. */
typedef struct cut {
  int before;
  int64_t outer;         /* how many combinations those before have */
  int64_t extent, chunk; /* of the axis that is cut; 1 piece: 1, 1 */
  int64_t slab;          /* elements for one index of it */
} cut;

static int file_axis(const npy_array *a, int k) { return a->fortran ? a->t.ndim - 1 - k : k; }

static cut plan_cut(const job *j) {
  const npy_array *a = &j->in->a;
  const int64_t limit = j->r->piece / (int64_t)npy_info(a->kind)->size;
  cut c = {-1, 1, 1, 1, 0};
  int k;
  c.slab = (int64_t)j->in->count;
  for (k = 0; k < a->t.ndim && c.slab > 0; ++k) {
    const int axis = file_axis(a, k);
    const int64_t n = a->t.shape[axis];
    if (n != 1 && (j->axes >> axis & 1u)) break;
    c.outer *= c.extent;
    c.extent = n;
    c.slab /= n;
    c.before = k;
    if (c.slab <= limit) break;
  }
  c.chunk = c.slab > 0 && limit > c.slab ? limit / c.slab : 1;
  if (c.chunk > c.extent) c.chunk = c.extent;
  return c;
}

/* Makes t, which views the whole array, view the piece. axes: where the array's axes are in t. */
static void narrow(const npy_array *a, const cut *c, int64_t outer, int64_t at, int64_t n,
                   const int *axes, gpured_tensor *t) {
  int64_t offset = 0;
  int k;
  for (k = c->before; k >= 0; --k) {
    const int axis = file_axis(a, k), to = axes ? axes[axis] : axis;
    const int64_t index = k == c->before ? at : outer % a->t.shape[axis];
    if (k != c->before) outer /= a->t.shape[axis];
    if (to < 0) continue;
    t->shape[to] = k == c->before ? n : 1;
    offset += index * t->strides[to];
  }
  if (axes) t->data = (char *)t->data + offset * (int64_t)gpured_dtype_size((gpured_dtype)t->dtype);
}

static gpured_status call(const job *j, const gpured_tensor *in, const gpured_tensor *out) {
  const request *r = j->r;
  if (r->command == SCAN) {
    return gpured_scan(r->op->op, in, j->axis, r->scan_flags, out, &r->options);
  }
  return gpured_reduce(r->op->op, in, j->axes, out, &r->options);
}

/* The piece of n indices from `at` on. */
static int run_piece(const job *j, const cut *c, int64_t outer, int64_t at, int64_t n,
                     gpured_status *st) {
  const size_t first = (size_t)((outer * c->extent + at) * c->slab), count = (size_t)(n * c->slab);
  gpured_tensor in = j->in->a.t, out = j->out->a.t;
  char err[512];
  narrow(&j->in->a, c, outer, at, n, NULL, &in);
  narrow(&j->in->a, c, outer, at, n, j->out_axis, &out);
  in.data = npy_piece(j->in, first, count, err, sizeof err);
  if (in.data == NULL) return fail("%s", err);
  *st = call(j, &in, &out);
  npy_piece_done(j->in, first, count);
  return 0;
}

static int run_job(const job *j) {
  const cut c = plan_cut(j);
  const double start = now();
  gpured_status st = GPURED_OK;
  int64_t outer, at;
  int failed = 0;
  npy_sequential(j->in);
  start_progress(j->r);
  for (outer = 0; outer < c.outer && !failed && st == GPURED_OK; ++outer) {
    for (at = 0; at < c.extent && !failed && st == GPURED_OK; at += c.chunk) {
      const int64_t n = c.extent - at < c.chunk ? c.extent - at : c.chunk;
      if (c.outer > 1 || c.chunk < c.extent) {
        const double done = (double)(outer * c.extent + at);
        progress.percent = (int)(100 * done / ((double)c.outer * (double)c.extent));
      }
      failed = run_piece(j, &c, outer, at, n, &st);
    }
  }
  stop_progress(j->r, !failed && st == GPURED_OK);
  return failed ? 1 : check_call(j->r, start, st);
}

/* ============================================================================================== */
/* 8  Commands                                                                                   */
/* ============================================================================================== */

/* The library sees 16-bit integers as 32-bit ones, and gives the limits of those as the least and
 * the greatest of nothing. Here they become the limits of 16 bits; other results lie between these
 * anyway. */
static void limit_to_16_bits(const request *r, npy_kind in, npy_array *out) {
  const int64_t n = count_elements(&out->t);
  int32_t *i = (int32_t *)out->t.data;
  uint32_t *u = (uint32_t *)out->t.data;
  int64_t k;
  if (out->kind != in || (r->op->op != GPURED_MIN && r->op->op != GPURED_MAX)) return;
  for (k = 0; k < n && in == NPY_I2; ++k) {
    i[k] = i[k] < INT16_MIN ? INT16_MIN : i[k] > INT16_MAX ? INT16_MAX : i[k];
  }
  for (k = 0; k < n && in == NPY_U2; ++k) u[k] = u[k] > UINT16_MAX ? UINT16_MAX : u[k];
}

static int run_reduce(const request *r, npy_source *in, npy_sink *out) {
  const gpured_tensor *t = &in->a.t;
  job j = {r, in, out, 0, 0, {0}};
  int64_t shape[GPURED_MAX_NDIM] = {0};
  int i, kept = 0;
  if (r->axis_count < 0) j.axes = (1u << t->ndim) - 1u;
  for (i = 0; i < r->axis_count; ++i) {
    const int axis = resolve_axis(r->axes[i], t->ndim);
    if (axis < 0) return no_such_axis(r, &in->a);
    if (j.axes & (1u << axis)) return fail("--axis %s names an axis twice" HINT, r->axis_text);
    j.axes |= 1u << axis;
  }
  for (i = 0; i < t->ndim; ++i) {
    const int reduced = (j.axes >> i & 1u) != 0;
    j.out_axis[i] = reduced ? -1 : kept;
    if (!reduced || r->keepdims) shape[kept++] = reduced ? 1 : t->shape[i];
  }
  if (make_result(r, &in->a, in->count == 0, kept, shape, out)) return 1;
  return run_job(&j);
}

static int run_scan(const request *r, npy_source *in, npy_sink *out) {
  const gpured_tensor *t = &in->a.t;
  job j = {r, in, out, 0, 0, {0}};
  int i;
  if (r->axis_count < 0 && t->ndim != 1) {
    return fail("scan wants --axis: %s has %d axes" HINT, r->inputs[0], t->ndim);
  }
  if (r->axis_count > 0) j.axis = resolve_axis(r->axes[0], t->ndim);
  if (j.axis < 0) return no_such_axis(r, &in->a);
  j.axes = 1u << j.axis;
  for (i = 0; i < t->ndim; ++i) j.out_axis[i] = i;
  if (make_result(r, &in->a, 0, t->ndim, t->shape, out)) return 1;
  return run_job(&j);
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

/* Both operands are needed for each result, so they go in whole. */
static int run_gemm(const request *r, npy_source *in, npy_sink *out) {
  gpured_tensor ab[2];
  int64_t shape[GPURED_MAX_NDIM] = {0};
  char err[512];
  gpured_status st;
  double start;
  int i, ndim = 0;
  if (gemm_shape(r, &in[0].a.t, &in[1].a.t, &ndim, shape)) return 1;
  if (make_result(r, &in[0].a, in[0].count == 0 || in[1].count == 0, ndim, shape, out)) return 1;
  start = now();
  start_progress(r);
  for (i = 0; i < 2; ++i) {
    ab[i] = in[i].a.t;
    ab[i].data = npy_piece(&in[i], 0, in[i].count, err, sizeof err);
    if (ab[i].data == NULL) {
      stop_progress(r, 0);
      return fail("%s", err);
    }
  }
  st = gpured_gemm_reduce(r->op->op, &ab[0], &ab[1], r->gemm_axis, &out->a.t, &r->options);
  stop_progress(r, st == GPURED_OK);
  return check_call(r, start, st);
}

static int deliver(const request *r, npy_sink *out) {
  char err[512];
  int failed;
  if (r->output == NULL) return print_array(&out->a);
  if (strcmp(r->output, "-") == 0) {
    failed = npy_write(stdout, "standard output", &out->a.t, out->a.kind, err, sizeof err);
  } else {
    failed = npy_write_sink(out, err, sizeof err) || npy_commit(&out->file, err, sizeof err);
    release_output();
  }
  return failed ? fail("%s", err) : 0;
}

static int run(const request *r) {
  npy_source in[2];
  npy_sink out;
  char err[512];
  int i, failed = 0;
  memset(in, 0, sizeof in);
  memset(&out, 0, sizeof out);
  catch_signals();
  for (i = 0; i < r->input_count && !failed; ++i) {
    if (npy_open_source(r->inputs[i], &in[i], err, sizeof err)) failed = fail("%s", err);
  }
  if (!failed && r->command == INFO) {
    failed = print_info(r->inputs[0], &in[0].a);
  } else if (!failed) {
    failed = r->command == REDUCE ? run_reduce(r, in, &out)
             : r->command == SCAN ? run_scan(r, in, &out)
                                  : run_gemm(r, in, &out);
    if (!failed && r->command != GEMM) limit_to_16_bits(r, in[0].a.kind, &out.a);
    if (!failed) failed = deliver(r, &out);
  }
  npy_close_sink(&out);
  release_output();
  npy_close_source(&in[0]);
  npy_close_source(&in[1]);
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
  r.piece = DEFAULT_PIECE;
  r.options = gpured_default_options();
  return parse_arguments(&r, argc, argv) ? 1 : run(&r);
}
