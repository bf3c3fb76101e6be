/*
 * Golden vectors: what a line of tests/golden/golden.txt says, and how its tensors are made. The
 * program that writes the file (golden_make.c, from the oracle) and the one that checks a library
 * against it (golden_check.c) read cases with the same code, so that a case means one thing.
 * tests/golden/README.md describes the lines for everybody else.
 */
#ifndef GPURED_TESTS_GOLDEN_CASE_H
#define GPURED_TESTS_GOLDEN_CASE_H

#include <stdio.h>
#include <stdlib.h>

#include "gen.h"

enum { GOLD_WORDS = 16, GOLD_TEXT = 1024, GOLD_LISTED = 16, GOLD_BLOCKS = 5 + GPURED_MAX_RESULTS };

typedef struct gold_shape {
  int ndim;
  int64_t extent[GPURED_MAX_NDIM];
} gold_shape;

/* One case. family is 'r', 's' or 'g'; b, map, form, alpha and the biases belong to 'g'. */
typedef struct gold_case {
  char family, layout;
  int count, ops[GPURED_MAX_RESULTS], in, acc, out, kind;
  gold_shape a, b;
  uint32_t axes; /* scan and gemm: the axis */
  unsigned flags;
  int ddof, map, form, bias_m, bias_n, has_c;
  double alpha;
  uint64_t seed;
} gold_case;

/* The tensors of a case, in memory of their own. Reduce and scan use a and results[0]. */
typedef struct gold_job {
  gpured_tensor a, b, bias_m, bias_n, c;
  gpured_result results[GPURED_MAX_RESULTS];
  gpured_gemm gemm;
  int blocks;
  void *block[GOLD_BLOCKS];
} gold_job;

/* ---------------------------------------------------------------------------------------------- */
/* Names                                                                                          */
/* ---------------------------------------------------------------------------------------------- */

static const char *const gold_op_names[] = {
    "",       "sum",    "prod",   "min",       "max", "mean", "sumsq", "norm1", "norm2",
    "absmax", "argmin", "argmax", "logsumexp", "var", "std",  "any",   "all",   "count_nonzero"};
static const char *const gold_type_names[] = {"-",  "f32", "f64", "f16", "bf16", "i8",
                                              "u8", "i32", "u32", "i64", "u64"};
static const char *const gold_kind_names[] = {"uniform", "wide", "special", "ones", "ramp", "ties",
                                              "factor",  "exp",  "inf",     "tiny", "zero"};
static const char *const gold_map_names[] = {"none", "abs", "square"};
static const char *const gold_form_names[] = {"plain", "l2"};

#define GOLD_COUNT(names) ((int)(sizeof(names) / sizeof *(names)))

/* The index of a name, or -1. */
static inline int gold_find(const char *word, const char *const *names, int count) {
  int i;
  for (i = 0; i < count; ++i) {
    if (names[i][0] != '\0' && strcmp(word, names[i]) == 0) return i;
  }
  return -1;
}

static inline int gold_is_index(int op) { return op == GPURED_ARGMIN || op == GPURED_ARGMAX; }

/* ---------------------------------------------------------------------------------------------- */
/* Reading a case. Each function returns NULL, or what is wrong.                                  */
/* ---------------------------------------------------------------------------------------------- */

/* Decimal digits alone, up to a limit. Moves *p behind them. */
static inline int gold_digits(const char **p, uint64_t limit, uint64_t *value) {
  uint64_t v = 0;
  if (**p < '0' || **p > '9') return 0;
  for (; **p >= '0' && **p <= '9'; ++*p) {
    uint64_t digit = (uint64_t)(**p - '0');
    if (v > (limit - digit) / 10) return 0;
    v = 10 * v + digit;
  }
  *value = v;
  return 1;
}

static inline const char *gold_number(const char *word, uint64_t limit, uint64_t *value) {
  return gold_digits(&word, limit, value) && *word == '\0' ? NULL : "a number is wrong";
}

/* 3x5x7; "-" is no axis at all. */
static inline const char *gold_read_shape(const char *word, gold_shape *s) {
  uint64_t v, total = 1;
  s->ndim = 0;
  if (strcmp(word, "-") == 0) return NULL;
  for (;; ++word) {
    if (s->ndim == GPURED_MAX_NDIM || !gold_digits(&word, 1 << 24, &v)) return "a shape is wrong";
    s->extent[s->ndim++] = (int64_t)v;
    if ((total *= v ? v : 1) > 1 << 24) return "a shape is too large";
    if (*word == '\0') return NULL;
    if (*word != 'x') return "a shape is wrong";
  }
}

/* The axes of a reduction as digits: "02" is axes 0 and 2, "-" is none. */
static inline const char *gold_read_axes(const char *word, int ndim, uint32_t *axes) {
  *axes = 0;
  if (strcmp(word, "-") == 0) return NULL;
  for (; *word != '\0'; ++word) {
    if (*word < '0' || *word >= '0' + ndim) return "an axis is wrong";
    *axes |= 1u << (*word - '0');
  }
  return NULL;
}

/* Which letters of `letters` the word has, one bit for each; "-" is none. */
static inline const char *gold_read_letters(const char *word, const char *letters, unsigned *bits) {
  *bits = 0;
  if (strcmp(word, "-") == 0) return NULL;
  for (; *word != '\0'; ++word) {
    const char *at = strchr(letters, *word);
    if (at == NULL) return "a letter is wrong";
    *bits |= 1u << (at - letters);
  }
  return NULL;
}

/* sum+max+argmin; word is cut up. */
static inline const char *gold_read_ops(char *word, gold_case *c) {
  char *next;
  for (c->count = 0; word != NULL; word = next) {
    next = strchr(word, '+');
    if (next != NULL) *next++ = '\0';
    if (c->count == GPURED_MAX_RESULTS) return "too many operations";
    c->ops[c->count] = gold_find(word, gold_op_names, GOLD_COUNT(gold_op_names));
    if (c->ops[c->count++] < 0) return "an operation is unknown";
  }
  return c->family == 'g' || c->count == 1 ? NULL : "one operation is expected";
}

/* The words that all families share: the first five, and the last three. */
static inline const char *gold_read_common(char **word, int count, gold_case *c) {
  const char *bad = gold_read_ops(word[1], c);
  if (bad != NULL) return bad;
  c->in = gold_find(word[2], gold_type_names, GOLD_COUNT(gold_type_names));
  c->acc = gold_find(word[3], gold_type_names, GOLD_COUNT(gold_type_names));
  c->out = gold_find(word[4], gold_type_names, GOLD_COUNT(gold_type_names));
  if (c->in <= 0 || c->out <= 0 || c->acc < 0) return "a type is unknown";
  bad = gold_read_shape(word[5], &c->a);
  if (bad != NULL) return bad;
  c->layout = word[count - 3][0];
  if (word[count - 3][1] != '\0' || strchr("ctrgbi", c->layout) == NULL)
    return "the layout is wrong";
  if (c->layout == 'i' && c->family != 's') return "layout i belongs to scans";
  c->kind = gold_find(word[count - 2], gold_kind_names, GOLD_COUNT(gold_kind_names));
  if (c->kind < 0) return "the kind of data is unknown";
  return gold_number(word[count - 1], UINT64_MAX, &c->seed);
}

static inline const char *gold_read_axis(const char *word, int limit, uint32_t *axis) {
  uint64_t v = 0;
  if (gold_number(word, UINT32_MAX, &v) != NULL || v >= (uint64_t)limit) return "the axis is wrong";
  *axis = (uint32_t)v;
  return NULL;
}

/* gemm OPS IN ACC OUT SHAPE_A SHAPE_B AXIS MAP FORM ALPHA EXTRAS LAYOUT KIND SEED */
static inline const char *gold_read_gemm(char **word, gold_case *c) {
  const char *bad = gold_read_shape(word[6], &c->b);
  char *end;
  unsigned extras = 0;
  if (bad == NULL) bad = gold_read_axis(word[7], 2, &c->axes);
  if (bad == NULL) bad = gold_read_letters(word[11], "mnMNc", &extras);
  if (bad != NULL) return bad;
  if (c->a.ndim < 2 || c->b.ndim < 2) return "a matrix needs two axes";
  if (c->a.extent[c->a.ndim - 1] != c->b.extent[c->b.ndim - 2]) return "the shapes do not fit";
  c->map = gold_find(word[8], gold_map_names, GOLD_COUNT(gold_map_names));
  c->form = gold_find(word[9], gold_form_names, GOLD_COUNT(gold_form_names));
  c->alpha = strtod(word[10], &end);
  if (c->map < 0 || c->form < 0 || end == word[10] || *end != '\0') return "the epilogue is wrong";
  c->bias_m = extras & 4 ? GPURED_F32 : extras & 1 ? c->in : 0;
  c->bias_n = extras & 8 ? GPURED_F32 : extras & 2 ? c->in : 0;
  c->has_c = (extras & 16) != 0;
  return NULL;
}

/* A case from its text, which is cut up. */
static inline const char *gold_read_case(char *text, gold_case *c) {
  char *word[GOLD_WORDS];
  uint64_t ddof = 0;
  int count = 0;
  const char *bad;
  memset(c, 0, sizeof *c);
  for (text = strtok(text, " "); text != NULL; text = strtok(NULL, " ")) {
    if (count == GOLD_WORDS) return "too many words";
    word[count++] = text;
  }
  if (count == 0) return "no case";
  c->family = word[0][0];
  if (strcmp(word[0], "reduce") != 0 && strcmp(word[0], "scan") != 0 &&
      strcmp(word[0], "gemm") != 0) {
    return "neither reduce, scan nor gemm";
  }
  if (count != (c->family == 'g' ? 15 : 11)) return "the number of words is wrong";
  bad = gold_read_common(word, count, c);
  if (bad != NULL) return bad;
  if (c->family == 'g') return gold_read_gemm(word, c);
  if (c->family == 's') {
    bad = gold_read_axis(word[6], c->a.ndim, &c->axes);
    return bad != NULL ? bad : gold_read_letters(word[7], "er", &c->flags);
  }
  bad = gold_read_axes(word[6], c->a.ndim, &c->axes);
  if (bad == NULL) bad = gold_number(word[7], INT32_MAX, &ddof);
  c->ddof = (int)ddof;
  return bad;
}

/* ---------------------------------------------------------------------------------------------- */
/* The tensors of a case                                                                          */
/* ---------------------------------------------------------------------------------------------- */

static inline void gold_fail(const char *what) {
  fprintf(stderr, "golden: %s\n", what);
  exit(1);
}

/* The fill of fresh memory, which an output with gaps must leave in them. */
enum { GOLD_GUARD = 0xa5 };

/*
 * A tensor in new memory. Layouts: c row-major, t the first axis fastest, r every axis from its
 * last element to its first, g twice the strides of c, b axis 0 of stride 0.
 */
static inline gpured_tensor gold_tensor(gold_job *job, int dtype, const gold_shape *s, int layout) {
  gpured_tensor t;
  uint64_t bytes = (uint64_t)gen_format_of(dtype).bits / 8, total = 1;
  int64_t first = 0;
  int k;
  memset(&t, 0, sizeof t);
  t.dtype = dtype;
  t.device = GPURED_CPU;
  t.ndim = s->ndim;
  for (k = 0; k < s->ndim; ++k) {
    int d = layout == 't' ? k : s->ndim - 1 - k;
    int64_t extent = s->extent[d] > 0 ? s->extent[d] : 1;
    t.shape[d] = s->extent[d];
    t.strides[d] = (int64_t)total * (layout == 'g' ? 2 : layout == 'r' ? -1 : 1);
    if (layout == 'r') first -= (extent - 1) * t.strides[d];
    total *= (uint64_t)extent;
    if (total > 1 << 26) gold_fail("a tensor is too large");
  }
  if (layout == 'b' && s->ndim > 0) t.strides[0] = 0;
  total *= bytes * (layout == 'g' ? 2 : 1);
  t.data = malloc((size_t)total);
  if (t.data == NULL) gold_fail("no memory");
  memset(t.data, GOLD_GUARD, (size_t)total);
  job->block[job->blocks++] = t.data;
  t.data = (char *)t.data + first * (int64_t)bytes;
  return t;
}

/* The same with data. Repeated along axis 0 (layout b) are the data of one extent. */
static inline gpured_tensor gold_input(gold_job *job, const gold_case *c, int dtype,
                                       const gold_shape *s, uint64_t seed) {
  gpured_tensor t = gold_tensor(job, dtype, s, c->layout == 'i' ? 'c' : c->layout), once = t;
  if (c->layout == 'b' && t.ndim > 0 && t.shape[0] > 1) once.shape[0] = 1;
  oracle_fill(&once, c->kind, seed);
  return t;
}

static inline gpured_tensor gold_output(gold_job *job, const gold_case *c, int dtype,
                                        const gold_shape *s) {
  return gold_tensor(job, dtype, s, c->layout == 'b' ? 'c' : c->layout);
}

/* The batch axes of a product and after them `tail` axes. */
static inline gold_shape gold_batched(const gold_case *c, int tail, int64_t first, int64_t second) {
  gold_shape s = c->a.ndim > c->b.ndim ? c->a : c->b;
  const gold_shape *other = c->a.ndim > c->b.ndim ? &c->b : &c->a;
  int d, skip = s.ndim - other->ndim;
  for (d = skip; d < s.ndim - 2; ++d) {
    if (s.extent[d] == 1) s.extent[d] = other->extent[d - skip];
  }
  s.ndim -= 2;
  s.extent[s.ndim++] = first;
  if (tail == 2) s.extent[s.ndim++] = second;
  return s;
}

static inline void gold_start_gemm(gold_job *job, const gold_case *c) {
  int64_t m = c->a.extent[c->a.ndim - 2], n = c->b.extent[c->b.ndim - 1];
  gold_shape rows = {1, {0}}, columns = gold_batched(c, 1, n, 0), all = gold_batched(c, 2, m, n);
  gold_shape kept = gold_batched(c, 1, c->axes == 0 ? n : m, 0);
  gpured_gemm g = gpured_default_gemm();
  int r;
  rows.extent[0] = m;
  g.axis = (int32_t)c->axes;
  g.map = c->map;
  g.form = c->form;
  g.alpha = c->alpha;
  g.count = c->count;
  job->b = gold_input(job, c, c->in, &c->b, c->seed + 1);
  if (c->bias_m) job->bias_m = gold_input(job, c, c->bias_m, &rows, c->seed + 2);
  if (c->bias_n) job->bias_n = gold_input(job, c, c->bias_n, &columns, c->seed + 3);
  for (r = 0; r < c->count; ++r) {
    int out = c->count > 1 && gold_is_index(c->ops[r]) ? GPURED_I64 : c->out;
    job->results[r].op = c->ops[r];
    job->results[r].out = gold_output(job, c, out, &kept);
  }
  if (c->has_c) job->c = gold_output(job, c, c->out, &all);
  job->gemm = g;
}

/* Makes the tensors of a case. */
static inline void gold_start(gold_job *job, const gold_case *c) {
  gold_shape out = c->a;
  int d;
  memset(job, 0, sizeof *job);
  job->a = gold_input(job, c, c->in, &c->a, c->seed);
  if (c->family == 'g') {
    gold_start_gemm(job, c);
    return;
  }
  if (c->family == 'r') {
    for (out.ndim = d = 0; d < c->a.ndim; ++d) {
      if (!(c->axes >> d & 1)) out.extent[out.ndim++] = c->a.extent[d];
    }
  }
  job->results[0].op = c->ops[0];
  job->results[0].out = c->layout == 'i' ? job->a : gold_output(job, c, c->out, &out);
}

/* The description of a product, with pointers into the job where it stands. */
static inline gpured_gemm gold_gemm(const gold_job *job) {
  gpured_gemm g = job->gemm;
  g.a = &job->a;
  g.b = &job->b;
  g.bias_m = job->bias_m.dtype ? &job->bias_m : NULL;
  g.bias_n = job->bias_n.dtype ? &job->bias_n : NULL;
  g.c = job->c.dtype ? &job->c : NULL;
  g.results = job->results;
  return g;
}

static inline void gold_end(gold_job *job) {
  while (job->blocks > 0) free(job->block[--job->blocks]);
}

/* ---------------------------------------------------------------------------------------------- */
/* Results as text                                                                                */
/* ---------------------------------------------------------------------------------------------- */

/* Appends a tensor: "empty", its elements in hexadecimal, or, beyond GOLD_LISTED bytes, '#' and its
 * hash. */
static inline void gold_print_tensor(const gpured_tensor *t, char *text) {
  int64_t n = gen_count(t), i;
  int digits = gen_format_of(t->dtype).bits / 4;
  text += strlen(text);
  if (n == 0) {
    strcpy(text, "empty");
  } else if (n * digits / 2 > GOLD_LISTED) {
    uint64_t h = oracle_hash(t);
    sprintf(text, "#%08lx%08lx", (unsigned long)(h >> 32), (unsigned long)(h & 0xffffffffu));
  } else {
    for (i = 0; i < n; ++i) {
      uint64_t v = gen_peek(t, gen_offset(t, i));
      if (i > 0) *text++ = ',';
      if (digits == 16) text += sprintf(text, "%08lx", (unsigned long)(v >> 32));
      text += sprintf(text, "%0*lx", digits < 8 ? digits : 8, (unsigned long)(v & 0xffffffffu));
    }
  }
}

/* All outputs of a job, each after a space; text holds GOLD_TEXT characters. */
static inline void gold_print(const gold_job *job, int count, char *text) {
  int r;
  text[0] = '\0';
  for (r = 0; r < count; ++r) {
    strcat(text, " ");
    gold_print_tensor(&job->results[r].out, text);
  }
  if (job->c.dtype) {
    strcat(text, " ");
    gold_print_tensor(&job->c, text);
  }
}

/* Whether the gaps of an output in layout g are as they were. */
static inline int gold_gaps_kept(const gpured_tensor *t) {
  int64_t n = gen_count(t), i;
  int bits = gen_format_of(t->dtype).bits;
  uint64_t guard = UINT64_MAX / 255 * GOLD_GUARD;
  for (i = 0; i < n; ++i) {
    if (gen_peek(t, 2 * i + 1) != (bits == 64 ? guard : guard & ((UINT64_C(1) << bits) - 1)))
      return 0;
  }
  return 1;
}

#endif /* GPURED_TESTS_GOLDEN_CASE_H */
