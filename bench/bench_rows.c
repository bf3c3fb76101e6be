/*
 * What is measured: the built-in rows, how a row's name is read, its data, who competes in it and
 * what it must reach. A goal follows from the kind and the size of a row, so that rows given on the
 * command line have one too.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* kind:dtype:op:shape[:axis][@threads]; a bare @ means as many threads as --threads says. Rows of
 * one dtype stand together: the input is filled again only when the dtype changes. */
const char *const builtin_rows[] = {
    "call:f32:sum:4x6:1", "oneliner:f32:sum:4x6:1", "call:f32:sum:4x6:0", "oneliner:f32:sum:4x6:0",
    /* flat, from the L1 to memory */
    "reduce:f32:sum:2^12", "reduce:f32:min:2^12", "reduce:f32:max:2^12", "reduce:f32:sumsq:2^12",
    "reduce:f32:sum:2^16", "reduce:f32:min:2^16", "reduce:f32:max:2^16", "reduce:f32:sumsq:2^16",
    "reduce:f32:sum:2^28", "reduce:f32:min:2^28", "reduce:f32:max:2^28", "reduce:f32:sumsq:2^28",
    "reduce:f32:sum:2^28@", "reduce:f32:min:2^28@", "reduce:f32:max:2^28@",
    "reduce:f32:sumsq:2^28@", "reduce:f32:argmax:2^28", "reduce:f32:argmax:2^28@",
    "reduce:f32:sum64:2^28", "reduce:f32:sum64:2^28@",
    /* along an axis */
    "reduce:f32:sum:1000000x8:1", "reduce:f32:sum:1000000x8:0", "reduce:f32:sum:4096x4096:1",
    "reduce:f32:sum:4096x4096:0", "reduce:f32:sum:64x2^20:1", "reduce:f32:sum:64x2^20:0",
    "reduce:f32:sum:2^20x64:1", "reduce:f32:sum:2^20x64:0", "reduce:f32:sum:4096x4096:1@",
    "reduce:f32:sum:4096x4096:0@", "reduce:f32:logsumexp:4096x4096:1",
    "reduce:f32:logsumexp:65536x256:1", "reduce:f32:logsumexp:2^20x16:1",
    "reduce:f32:logsumexp:16x2^20:1", "reduce:f32:logsumexp:4096x4096:1@",
    /* scans */
    "scan:f32:sum:2^28", "scan:f32:sum:2^28@", "scan:f32:sum:2^20", "scan:f32:sum:2^20@",
    "scan:f32:sum:4096x4096:1", "scan:f32:sum:4096x4096:0", "scan:f32:sum:4096x4096:1@",
    "scan:f32:sum:4096x4096:0@",
    /* batch x M x N x K, reduced over M */
    "gemm:f32:max:16x512x512x512", "gemm:f32:max:1x2048x2048x2048", "gemm:f32:max:256x128x128x64",
    "gemm:f32:max:4096x64x64x64", "gemm:f32:max:16x512x512x512@", "gemm:f32:max:1x2048x2048x2048@",
    "gemm:f32:max:256x128x128x64@", "gemm:f32:max:4096x64x64x64@", "gemm:f32:sum:16x512x512x512",
    "gemm:f32:sum:1x2048x2048x2048", "gemm:f32:sum:256x128x128x64",
    "gemm:f32:sum:1x2048x2048x2048@",
    /* the same in double */
    "gemm:f64:max:16x512x512x512", "gemm:f64:max:1x2048x2048x2048", "gemm:f64:max:256x128x128x64",
    "gemm:f64:max:4096x64x64x64", "gemm:f64:max:16x512x512x512@", "gemm:f64:max:1x2048x2048x2048@",
    "gemm:f64:max:256x128x128x64@", "gemm:f64:sum:16x512x512x512", "scan:f64:sum:2^27",
    "reduce:f64:sum:2^11", "reduce:f64:min:2^11", "reduce:f64:max:2^11", "reduce:f64:sumsq:2^11",
    "reduce:f64:sum:2^15", "reduce:f64:min:2^15", "reduce:f64:max:2^15", "reduce:f64:sumsq:2^15",
    "reduce:f64:sum:2^27", "reduce:f64:min:2^27", "reduce:f64:max:2^27", "reduce:f64:sumsq:2^27",
    "reduce:f64:sum:2^27@", "reduce:f64:min:2^27@", "reduce:f64:max:2^27@",
    "reduce:f64:sumsq:2^27@", "reduce:f64:argmax:2^27",
    /* the other types */
    "reduce:f16:sum:2^27", "reduce:bf16:sum:2^27", "reduce:i8:sum:2^28", "reduce:i32:sum:2^26",
    NULL};

const char *const *sweep_rows(void) {
  static const char *const swept[] = {"reduce:f32:sum:2^28", "reduce:f32:logsumexp:4096x4096:1",
                                      "scan:f32:sum:2^28", "gemm:f32:max:1x2048x2048x2048"};
  static const int threads[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, MAX_THREADS};
  enum { SWEPT = sizeof swept / sizeof *swept, STEPS = sizeof threads / sizeof *threads };
  static char names[SWEPT * STEPS][64];
  static const char *rows[SWEPT * STEPS + 1];
  int i;
  for (i = 0; i < SWEPT * STEPS; ++i) {
    snprintf(names[i], sizeof names[i], "%s@%d", swept[i / STEPS], threads[i % STEPS]);
    rows[i] = names[i];
  }
  return rows;
}

typedef struct word {
  const char *text;
  int value;
} word;

static const word kinds[] = {{"reduce", ROW_REDUCE}, {"call", ROW_CALL}, {"oneliner", ROW_ONELINER},
                             {"scan", ROW_SCAN},     {"gemm", ROW_GEMM}, {NULL, 0}};
static const word dtypes[] = {{"f32", GPURED_F32},
                              {"f64", GPURED_F64},
                              {"f16", GPURED_F16},
                              {"bf16", GPURED_BF16},
                              {"i8", GPURED_I8},
                              {"i32", GPURED_I32},
                              {NULL, 0}};
static const word ops[] = {{"sum", GPURED_SUM},
                           {"min", GPURED_MIN},
                           {"max", GPURED_MAX},
                           {"sumsq", GPURED_SUMSQ},
                           {"argmin", GPURED_ARGMIN},
                           {"argmax", GPURED_ARGMAX},
                           {"logsumexp", GPURED_LOGSUMEXP},
                           {NULL, 0}};

/* ---- a row's name -----------------------------------------------------------------------------
 */

/* Takes the word before the next ':' (or the end) from *text; its value, or -1. */
static int take_word(const char **text, const word *words) {
  size_t length = strcspn(*text, ":@");
  for (; words->text; ++words)
    if (strlen(words->text) == length && strncmp(words->text, *text, length) == 0) break;
  if (!words->text) return -1;
  *text += length;
  if (**text == ':') ++*text;
  return words->value;
}

/* A size: 123 or 2^20. */
static int take_size(const char **text, int64_t *size) {
  char *end;
  long long base = strtoll(*text, &end, 10), power;
  if (end == *text || base < 1 || base > (1LL << 40)) return -1;
  *size = base;
  *text = end;
  if (**text != '^') return 0;
  power = strtoll(*text + 1, &end, 10);
  if (end == *text + 1 || base != 2 || power < 0 || power > 40) return -1;
  *size = (int64_t)1 << power;
  *text = end;
  return 0;
}

static int take_shape(const char **text, row_spec *s) {
  for (s->ndim = 0; s->ndim < 4;) {
    if (take_size(text, &s->shape[s->ndim])) return -1;
    ++s->ndim;
    if (**text != 'x') return 0;
    ++*text;
  }
  return -1;
}

static int take_end(const char *text, row_spec *s) {
  char *end;
  long value;
  if (*text == ':') {
    value = strtol(text + 1, &end, 10);
    if (end == text + 1 || value < 0 || value > 1) return -1;
    s->axis = (int)value, text = end;
  }
  s->threads = 1;
  if (*text == '@') {
    value = strtol(text + 1, &end, 10);
    if (text[1] != '\0' && (value < 1 || value > MAX_THREADS)) return -1;
    s->threads = (int)value, text = end; /* a bare @ leaves 0 */
  }
  return *text == '\0' ? 0 : -1;
}

static const char *spec_error(const row_spec *s) {
  int flat = s->ndim == 1, matrix = s->ndim == 2, is_float = s->dtype <= GPURED_F64;
  if (s->kind == ROW_GEMM) {
    if (s->ndim != 4) return "a gemm's shape is BATCHxMxNxK";
    if (s->axis > 0) return "gemm rows reduce over M (axis 0)";
    return is_float && s->op != GPURED_SUMSQ ? NULL : "gemm rows are f32 or f64 and not sumsq";
  }
  if (!flat && !matrix) return "the shape has one or two extents";
  if (matrix && s->axis < 0) return "a matrix needs its axis, :0 or :1";
  if (flat && s->axis >= 0) return "a flat row has no axis";
  if (s->kind != ROW_REDUCE && (s->op != GPURED_SUM || s->acc64)) return "this kind has only sum";
  if ((s->kind == ROW_CALL || s->kind == ROW_ONELINER) && (!matrix || !is_float))
    return "call and oneliner rows are f32 or f64 matrices";
  if (s->kind == ROW_SCAN && !is_float) return "scans are f32 or f64";
  if (!is_float && (s->op != GPURED_SUM || !flat)) return "f16, bf16, i8 and i32 have flat sums";
  if (matrix && s->op != GPURED_SUM && s->op != GPURED_LOGSUMEXP)
    return "a matrix has sum and logsumexp";
  if (s->op == GPURED_LOGSUMEXP && (flat || s->axis == 0)) return "logsumexp goes along axis 1";
  if (s->acc64 && (s->dtype != GPURED_F32 || !flat)) return "sum64 is for flat f32";
  return NULL;
}

int spec_parse(const char *text, row_spec *s, const char **why) {
  int value;
  memset(s, 0, sizeof *s);
  s->axis = -1;
  *why = "not kind:dtype:op:shape[:axis][@threads]";
  if ((value = take_word(&text, kinds)) < 0) return -1;
  s->kind = (row_kind)value;
  if ((value = take_word(&text, dtypes)) < 0) return -1;
  s->dtype = (gpured_dtype)value;
  s->acc64 = strncmp(text, "sum64:", 6) == 0;
  if (s->acc64) text += 6;
  if ((value = s->acc64 ? GPURED_SUM : take_word(&text, ops)) < 0) return -1;
  s->op = (gpured_op)value;
  if (take_shape(&text, s) || take_end(text, s)) return -1;
  *why = spec_error(s);
  spec_name(s);
  return *why ? -1 : 0;
}

static const char *word_for(const word *words, int value) {
  while (words->value != value) ++words;
  return words->text;
}

void spec_name(row_spec *s) {
  size_t at, size = sizeof s->name;
  int i;
  at = (size_t)snprintf(s->name, size, "%s:%s:%s%s:", word_for(kinds, (int)s->kind),
                        word_for(dtypes, (int)s->dtype), word_for(ops, (int)s->op),
                        s->acc64 ? "64" : "");
  for (i = 0; i < s->ndim; ++i) {
    int64_t n = s->shape[i];
    int power = 0;
    while (n > 1 && n % 2 == 0) n /= 2, ++power;
    if (n == 1 && power > 12)
      at += (size_t)snprintf(s->name + at, size - at, "%s2^%d", i ? "x" : "", power);
    else
      at +=
          (size_t)snprintf(s->name + at, size - at, "%s%lld", i ? "x" : "", (long long)s->shape[i]);
  }
  if (s->axis >= 0) at += (size_t)snprintf(s->name + at, size - at, ":%d", s->axis);
  if (s->threads > 1) snprintf(s->name + at, size - at, "@%d", s->threads);
  if (s->threads == 0) snprintf(s->name + at, size - at, "@");
}

/* For --quick: halves the longest extent until the work is tiny. */
void spec_shrink(row_spec *s) {
  double limit = s->kind == ROW_GEMM ? 2e6 : 2e5;
  for (;;) {
    double work = 1;
    int i, longest = 0;
    for (i = 0; i < s->ndim; ++i) {
      work *= (double)s->shape[i];
      if (s->shape[i] > s->shape[longest]) longest = i;
    }
    if (work <= limit) break;
    s->shape[longest] = s->shape[longest] / 2;
  }
  spec_name(s);
}

/* ---- sizes ------------------------------------------------------------------------------------
 */
static double extent_product(const row_spec *s) {
  double n = 1;
  int i;
  for (i = 0; i < s->ndim; ++i) n *= (double)s->shape[i];
  return n;
}

static double input_elements(const row_spec *s) {
  double batch = (double)s->shape[0], m = (double)s->shape[1], n = (double)s->shape[2];
  return s->kind == ROW_GEMM ? batch * (m + n) * (double)s->shape[3] : extent_product(s);
}

static double output_elements(const row_spec *s) {
  if (s->kind == ROW_GEMM) return (double)s->shape[0] * (double)s->shape[2];
  if (s->kind == ROW_SCAN) return extent_product(s);
  return s->ndim == 1 ? 1 : (double)s->shape[1 - s->axis];
}

static size_t scratch_size(const row_spec *s) {
  size_t es = gpured_dtype_size(s->dtype), threads = (size_t)s->threads;
  if (s->kind == ROW_SCAN) return 4096 + 16 * (size_t)(extent_product(s) / 32768.0);
  if (s->kind == ROW_GEMM && s->op == GPURED_SUM) return es * threads * (size_t)s->shape[3] + 64;
  if (s->kind == ROW_GEMM) return es * threads * (size_t)s->shape[1] * (size_t)s->shape[2];
  return 64 + (s->ndim == 2 && s->axis == 0 ? threads * 256 * es : 0);
}

static size_t ones_count(const row_spec *s) {
  if (s->kind == ROW_GEMM) return (size_t)s->shape[1];
  return s->ndim == 2 ? (size_t)s->shape[s->axis] : 0;
}

double spec_memory(const row_spec *s) {
  double es = (double)gpured_dtype_size(s->dtype);
  return es * (input_elements(s) + output_elements(s) + (double)ones_count(s)) +
         (double)scratch_size(s);
}

/* ---- data: two buffers that live from row to row ----------------------------------------------
 */
static struct pool {
  void *memory;
  size_t bytes, filled;
  gpured_dtype dtype;
} input_pool, output_pool;

static void *grab(size_t bytes) {
  void *p = aligned_alloc(4096, (bytes + 4096) / 4096 * 4096);
  if (!p) {
    fprintf(stderr, "bench: no memory for %.0f MiB\n", (double)bytes / 1048576.0);
    exit(1);
  }
  memset(p, 0, bytes);
  return p;
}

static void pool_reserve(struct pool *pool, size_t bytes) {
  if (pool->bytes >= bytes) return;
  free(pool->memory);
  pool->memory = grab(bytes);
  pool->bytes = bytes;
  pool->filled = 0;
}

static uint32_t hash(size_t i) {
  uint64_t h = ((uint64_t)i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  h = (h ^ (h >> 32)) * UINT64_C(0xd6e8feb86659fd93);
  return (uint32_t)(h >> 40);
}

/*
 * Values in [-7/16, 9/16): both signs, so that a plain f32 loop does not stall at 2^24, a mean of
 * 1/16, so that sums are not near zero and can be compared, and the largest magnitude positive, so
 * that isamax and argmax must agree.
 */
static void fill(gpured_dtype dtype, void *memory, size_t n) {
  size_t i;
  for (i = 0; i < n; ++i) {
    uint32_t h = hash(i), bits;
    float f = (float)h * (1.0f / 16777216.0f) - 0.4375f;
    memcpy(&bits, &f, sizeof bits);
    switch (dtype) {
      case GPURED_F64:
        ((double *)memory)[i] = (double)f;
        break;
      case GPURED_BF16:
        ((uint16_t *)memory)[i] = (uint16_t)(bits >> 16);
        break;
      case GPURED_I8:
        ((int8_t *)memory)[i] = (int8_t)((int)(h % 201) - 90);
        break;
      case GPURED_I32:
        ((int32_t *)memory)[i] = (int32_t)(h % 2001) - 900;
        break;
      case GPURED_F16: /* cut to 10 bits; below its normal range, zero */
        ((uint16_t *)memory)[i] =
            (uint16_t)(((bits >> 16) & 0x8000u) | ((bits & 0x7fffffffu) < (113u << 23)
                                                       ? 0
                                                       : ((bits & 0x7fffffffu) >> 13) - 114688u));
        break;
      default:
        ((float *)memory)[i] = f;
        break;
    }
  }
}

static const void *input_data(gpured_dtype dtype, size_t n) {
  struct pool *p = &input_pool;
  pool_reserve(p, n * gpured_dtype_size(dtype));
  if (p->dtype != dtype || p->filled < n) {
    fill(dtype, p->memory, n);
    p->dtype = dtype, p->filled = n;
  }
  return p->memory;
}

void jobs_end(void) {
  free(input_pool.memory), free(output_pool.memory);
  memset(&input_pool, 0, sizeof input_pool);
  memset(&output_pool, 0, sizeof output_pool);
}

/* ---- a job ------------------------------------------------------------------------------------
 */
static gpured_dtype result_dtype(const row_spec *s) {
  if (s->op == GPURED_ARGMAX || s->op == GPURED_ARGMIN) return GPURED_I64;
  if (s->dtype == GPURED_I8 || s->dtype == GPURED_I32) return GPURED_I64;
  return s->dtype == GPURED_F64 ? GPURED_F64 : GPURED_F32;
}

static void job_tensors(job *j) {
  const row_spec *s = &j->spec;
  int64_t in[3], b[3], out[2];
  if (s->kind == ROW_GEMM) {
    in[0] = b[0] = out[0] = s->shape[0];
    in[1] = s->shape[1], in[2] = b[1] = s->shape[3], b[2] = out[1] = s->shape[2];
    j->in_tensor = gpured_array(j->x, s->dtype, 3, in, NULL);
    j->b_tensor = gpured_array(j->b, s->dtype, 3, b, NULL);
    j->out_tensor = gpured_array(j->out, j->out_dtype, 2, out, NULL);
    return;
  }
  j->in_tensor = gpured_array(j->x, s->dtype, s->ndim, s->shape, NULL);
  j->axes = s->ndim == 1 ? 1u : 1u << s->axis;
  if (s->kind == ROW_SCAN)
    j->out_tensor = gpured_array(j->out, j->out_dtype, s->ndim, s->shape, NULL);
  else
    j->out_tensor = gpured_vector(j->out, j->out_dtype, (int64_t)j->out_count);
}

static void *fill_ones(gpured_dtype dtype, size_t n) {
  void *p = grab(n * gpured_dtype_size(dtype) + 64);
  size_t i;
  for (i = 0; i < n; ++i) {
    if (dtype == GPURED_F64)
      ((double *)p)[i] = 1;
    else
      ((float *)p)[i] = 1;
  }
  return p;
}

void job_open(job *j, const row_spec *spec) {
  size_t es = gpured_dtype_size(spec->dtype), out_room;
  memset(j, 0, sizeof *j);
  j->spec = *spec;
  j->out_dtype = result_dtype(spec);
  j->in_count = (size_t)input_elements(spec);
  j->out_count = (size_t)output_elements(spec);
  j->in_bytes = j->in_count * es;
  j->out_bytes = j->out_count * gpured_dtype_size(j->out_dtype);
  j->scratch_bytes = scratch_size(spec);
  j->x = input_data(spec->dtype, j->in_count);
  j->b = spec->kind == ROW_GEMM
             ? (const char *)j->x + es * (size_t)(spec->shape[0] * spec->shape[1] * spec->shape[3])
             : NULL;
  out_room = j->out_bytes > 4096 ? j->out_bytes : 4096;
  pool_reserve(&output_pool, out_room);
  j->out = output_pool.memory;
  j->scratch = grab(j->scratch_bytes);
  j->ones = fill_ones(spec->dtype, ones_count(spec));
  j->bytes = (double)j->in_bytes + (double)j->out_bytes;
  if (spec->kind == ROW_GEMM && spec->op != GPURED_SUM) j->flops = 2.0 * extent_product(spec);
  j->repeat = 1;
  if (spec->kind == ROW_CALL || spec->kind == ROW_ONELINER) j->repeat = 1000;
  if (spec->kind == ROW_REDUCE && spec->ndim == 1 && spec->threads == 1 &&
      j->in_bytes <= (size_t)1 << 20)
    j->repeat = 64;
  j->options = gpured_default_options();
  if (spec->acc64) j->options.acc_dtype = GPURED_F64;
  j->one_thread = j->options;
  j->options.threads = spec->threads;
  j->one_thread.threads = 1;
  job_tensors(j);
}

void job_close(job *j) {
  free(j->scratch);
  free((void *)(uintptr_t)j->ones);
}

/* ---- gpured itself ----------------------------------------------------------------------------
 */
static gpured_status one_liner(const job *j) {
  size_t rows = (size_t)j->spec.shape[0], cols = (size_t)j->spec.shape[1];
  if (j->spec.dtype == GPURED_F64)
    return (j->spec.axis ? gpured_sum_rows_f64 : gpured_sum_cols_f64)((const double *)j->x, rows,
                                                                      cols, (double *)j->out);
  return (j->spec.axis ? gpured_sum_rows_f32 : gpured_sum_cols_f32)((const float *)j->x, rows, cols,
                                                                    (float *)j->out);
}

static gpured_status ours(const job *j, const gpured_options *options) {
  const row_spec *s = &j->spec;
  gpured_status status = GPURED_OK;
  int r;
  switch (s->kind) {
    case ROW_SCAN:
      return gpured_scan(s->op, &j->in_tensor, s->ndim == 1 ? 0 : s->axis, 0, &j->out_tensor,
                         options);
    case ROW_GEMM:
      return gpured_gemm_reduce(s->op, &j->in_tensor, &j->b_tensor, 0, &j->out_tensor, options);
    case ROW_CALL: /* with the default options: the call itself must know that no thread is worth it
                    */
      for (r = 0; r < j->repeat && !status; ++r)
        status = gpured_reduce(s->op, &j->in_tensor, j->axes, &j->out_tensor, NULL);
      return status;
    case ROW_ONELINER:
      for (r = 0; r < j->repeat && !status; ++r) status = one_liner(j);
      return status;
    default:
      for (r = 0; r < j->repeat && !status; ++r)
        status = gpured_reduce(s->op, &j->in_tensor, j->axes, &j->out_tensor, options);
      return status;
  }
}

static void run_with(const job *j, const gpured_options *options) {
  gpured_status status = ours(j, options);
  if (status == GPURED_OK) return;
  fprintf(stderr, "bench: %s: %s\n", j->spec.name, gpured_status_string(status));
  exit(1);
}

void run_ours(const job *j) { run_with(j, &j->options); }
static void run_ours_one_thread(const job *j) { run_with(j, &j->one_thread); }

/* ---- who competes -----------------------------------------------------------------------------
 */
typedef struct entries {
  const job *j;
  contender *list;
  int count;
} entries;

static contender *add(entries *e, const char *name, contender_kind kind, void (*run)(const job *)) {
  contender *c = &e->list[e->count++];
  memset(c, 0, sizeof *c);
  c->name = name, c->kind = kind, c->run = run;
  c->work = (e->j->flops > 0 ? e->j->flops : e->j->bytes) * e->j->repeat;
  return c;
}

static void add_blas(entries *e, const char *name, int threads, void (*run)(const job *)) {
  add(e, name, PEER, run)->blas_threads = threads;
}

static void add_ceilings(entries *e) {
  const job *j = e->j;
  if (j->spec.kind == ROW_SCAN) {
    add(e, "non-temporal copy", CEILING, ceiling_stream);
    add(e, "memcpy", CEILING, ceiling_copy);
  } else if (j->flops > 0) {
    add(e, "fma peak", CEILING, ceiling_fma)->work = ceiling_fma_flops(j);
  } else if (j->spec.kind == ROW_REDUCE || j->spec.kind == ROW_GEMM) {
    const double work = (double)j->in_bytes * j->repeat;
    add(e, "read", CEILING, ceiling_read)->work = work;
    if (j->in_bytes >= 1 << 20) add(e, "read, 4 places", CEILING, ceiling_read_places)->work = work;
  }
}

static void add_flat_peers(entries *e, int blas) {
  const row_spec *s = &e->j->spec;
  int serial = s->threads == 1;
  if (s->dtype > GPURED_F64) {
    add(e, "plain C", PEER, plain_narrow);
  } else if (s->op == GPURED_ARGMAX || s->op == GPURED_ARGMIN) {
    if (serial) add(e, "plain C", PEER, plain_arg);
    if (blas && s->op == GPURED_ARGMAX) add_blas(e, "OpenBLAS amax", s->threads, blas_iamax);
    if (!serial && !blas) add(e, "plain C", PEER, plain_arg);
  } else if (s->acc64) {
    add(e, "hand", PEER, hand_flat);
    if (serial) add(e, "plain C", PEER, plain_sum64);
  } else {
    add(e, "hand", PEER, hand_flat);
    if (serial) add(e, "plain C", PEER, plain_flat);
    if (blas && s->op == GPURED_SUMSQ) add_blas(e, "OpenBLAS dot", s->threads, blas_dot);
    if (blas && s->op == GPURED_SUM) {
      if (blas_has_sum(s->dtype)) add_blas(e, "OpenBLAS sum", s->threads, blas_sum);
      add_blas(e, "OpenBLAS asum", s->threads, blas_asum);
      e->list[e->count - 1].abs_check = 1;
    }
  }
}

static void add_matrix_peers(entries *e, int blas) {
  const row_spec *s = &e->j->spec;
  if (s->op == GPURED_LOGSUMEXP) {
    add(e, "plain C, libm", PEER, plain_logsumexp);
    return;
  }
  add(e, "hand", PEER, hand_matrix);
  if (s->threads == 1) add(e, "plain C", PEER, plain_matrix);
  if (blas) add_blas(e, "OpenBLAS gemv", s->threads, blas_gemv);
}

static void add_scan_peers(entries *e) {
  const row_spec *s = &e->j->spec;
  add(e, "hand", PEER, s->ndim == 2 && s->axis == 0 ? hand_scan_columns : hand_scan);
  if (s->threads > 1) return;
  add(e, "plain C", PEER, plain_scan);
  if (s->ndim == 1 && vec_for(s->dtype)->inscan) add(e, "omp inscan", PEER, simd_inscan);
}

static void add_gemm_peers(entries *e, int blas) {
  const row_spec *s = &e->j->spec;
  if (s->op == GPURED_SUM) {
    add(e, "hand sums+gemv", PEER, hand_product_sum);
    if (blas) add_blas(e, "OpenBLAS 2 gemv", s->threads, blas_product_sum);
  } else if (s->op == GPURED_MAX && blas) {
    add_blas(e, "OpenBLAS gemm+max", s->threads, blas_gemm_then_max);
    if (s->threads > 1) add_blas(e, "gemm+max, split", 1, blas_gemm_split);
  }
}

static int blas_fits(const row_spec *s) {
  int i;
  for (i = 0; i < s->ndim; ++i)
    if (s->shape[i] > INT32_MAX) return 0;
  return 1;
}

int job_contenders(const job *j, int blas, contender *list) {
  entries e;
  const row_spec *s = &j->spec;
  e.j = j, e.list = list, e.count = 0;
  blas = blas && blas_fits(s);
  add(&e, "gpured", OURS, run_ours);
  if (s->threads > 1) add(&e, "gpured, 1 thread", OURS_ONE_THREAD, run_ours_one_thread);
  add_ceilings(&e);
  if (s->kind == ROW_GEMM)
    add_gemm_peers(&e, blas);
  else if (s->kind == ROW_SCAN)
    add_scan_peers(&e);
  else if (s->kind != ROW_REDUCE)
    add(&e, "plain C", PEER, plain_call);
  else if (s->ndim == 2)
    add_matrix_peers(&e, blas);
  else
    add_flat_peers(&e, blas);
  return e.count;
}

/* ---- what it must reach -----------------------------------------------------------------------
 */
static goal flat_goal(const job *j) {
  goal g = {0, 0, 0, 0};
  const row_spec *s = &j->spec;
  int big = j->in_bytes >= (size_t)128 << 20, arg = j->out_dtype == GPURED_I64;
  if (s->dtype > GPURED_F64) return g;
  if (!big && arg) return g;
  if (big)
    g.ceiling = s->acc64 ? 0.90 : arg || s->threads > 1 ? 0.92 : 0.95;
  else if (j->in_bytes <= (size_t)32 << 10)
    g.peer = 0.90;
  else if (j->in_bytes <= (size_t)1 << 20)
    g.peer = 0.92;
  return g;
}

goal job_goal(const job *j) {
  goal g = {0, 0, 0, 0};
  const row_spec *s = &j->spec;
  int threads = s->threads > 1, big = j->in_bytes >= (size_t)128 << 20;
  switch (s->kind) {
    case ROW_CALL:
    case ROW_ONELINER:
      if (j->in_count <= 24) g.ns = 20;
      break;
    case ROW_GEMM:
      g.peer = s->op == GPURED_SUM ? 0.95 : s->op == GPURED_MAX ? 1.0 : 0;
      if (s->op == GPURED_MAX && !threads) g.ceiling = 0.87;
      break;
    case ROW_SCAN:
      if (s->ndim == 1 && big) g.ceiling = threads ? 0.75 : 0.92;
      if (s->ndim == 1 && !big) g.peer = 0.9;
      break;
    default:
      if (s->op == GPURED_LOGSUMEXP)
        g.peer = 5;
      else if (s->ndim == 2)
        g.peer = 0.9;
      else
        g = flat_goal(j);
      break;
  }
  g.not_slower = threads;
  return g;
}

/* ---- an independent value for the GEMMs, whose only peer may be missing ------------------------
 */
static double element(const job *j, const void *base, size_t i) {
  return j->spec.dtype == GPURED_F64 ? ((const double *)base)[i] : (double)((const float *)base)[i];
}

static double gemm_column(const job *j, size_t item, size_t col) {
  size_t m = (size_t)j->spec.shape[1], n = (size_t)j->spec.shape[2], k = (size_t)j->spec.shape[3];
  double result = 0;
  size_t i, l;
  for (i = 0; i < m; ++i) {
    double c = 0;
    for (l = 0; l < k; ++l)
      c += element(j, j->x, (item * m + i) * k + l) * element(j, j->b, (item * k + l) * n + col);
    if (j->spec.op == GPURED_SUM)
      result += c;
    else
      result = i == 0 || c > result ? c : result;
  }
  return result;
}

int job_reference(const job *j, double *ref, size_t count) {
  size_t i;
  if (j->spec.kind != ROW_GEMM || (j->spec.op != GPURED_MAX && j->spec.op != GPURED_SUM)) return 0;
  for (i = 0; i < count; ++i) {
    size_t at = count < 2 ? 0 : (j->out_count - 1) * i / (count - 1);
    ref[i] = gemm_column(j, at / (size_t)j->spec.shape[2], at % (size_t)j->spec.shape[2]);
  }
  return 1;
}
