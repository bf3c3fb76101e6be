/*
 * Holds a library to the golden vectors: reads the file (tests/golden/golden.txt unless another is
 * named), makes the inputs, calls the library and compares every bit.
 *
 *     golden_check [--cuda] [FILE [FILTER]]
 *
 * With --cuda the GPU works; without a device that is one skipped test, or a failure where
 * GPURED_REQUIRE_CUDA=1 asks for one. With FILTER only the lines that contain it run, the rest is
 * skipped.
 *
 * It needs nothing but this folder and gpured.h: link it with a built library, or compile it with
 * -DGPURED_CHECK_HEADER_ONLY and the implementation is in it. So it can be cross-compiled and run
 * anywhere, in both byte orders. The last line says how many passed; a failure, a line that cannot
 * be read or no case at all is exit code 1.
 */
#ifdef GPURED_CHECK_HEADER_ONLY
#define GPURED_IMPLEMENTATION
#endif
#include "../gpured.h"

#include <stdlib.h>

#include "golden_case.h"

enum { LINE_LENGTH = 4096 };

/* order and end: whether those lines were seen. */
typedef struct tally {
  int32_t backend;
  unsigned long passed, failed, skipped;
  int order, end;
} tally;

/* Without an epilogue, C or a second result the short function does the same. */
static int is_plain_gemm(const gold_case *c) {
  return c->count == 1 && c->map == GPURED_MAP_NONE && c->form == GPURED_FORM_PLAIN &&
         c->alpha == 1 && !c->bias_m && !c->bias_n && !c->has_c;
}

static gpured_status call_library(int32_t backend, const gold_case *c, const gold_job *job) {
  gpured_options options = gpured_default_options();
  gpured_op op = (gpured_op)c->ops[0];
  const gpured_tensor *out = &job->results[0].out;
  gpured_gemm g;
  options.backend = backend;
  options.precision = GPURED_PRECISION_STRICT;
  options.acc_dtype = c->acc;
  options.ddof = c->ddof;
  if (c->family == 'r') return gpured_reduce(op, &job->a, c->axes, out, &options);
  if (c->family == 's') return gpured_scan(op, &job->a, (int)c->axes, c->flags, out, &options);
  if (is_plain_gemm(c))
    return gpured_gemm_reduce(op, &job->a, &job->b, (int)c->axes, out, &options);
  g = gold_gemm(job);
  return gpured_gemm_reduce_ex(&g, &options);
}

static int gaps_kept(const gold_case *c, const gold_job *job) {
  int r;
  if (c->layout != 'g') return 1;
  for (r = 0; r < c->count; ++r) {
    if (!gold_gaps_kept(&job->results[r].out)) return 0;
  }
  return !c->has_c || gold_gaps_kept(&job->c);
}

/* Runs one case; `text` and `want` are for the message. */
static int check_case(int32_t backend, const gold_case *c, const char *text, const char *want) {
  char got[GOLD_TEXT];
  gold_job job;
  gpured_status status;
  int ok = 0;
  gold_start(&job, c);
  status = call_library(backend, c, &job);
  gold_print(&job, c->count, got);
  if (status != GPURED_OK) {
    printf("FAIL %s: %s\n", text, gpured_status_string(status));
  } else if (strcmp(got, want) != 0) {
    printf("FAIL %s\n  got %s\n  want%s\n", text, got, want);
  } else if (!gaps_kept(c, &job)) {
    printf("FAIL %s: written between the elements of the output\n", text);
  } else {
    ok = 1;
  }
  gold_end(&job);
  return ok;
}

/* One line of the file: NULL, or what is wrong with it. */
static const char *check_line(char *line, const char *filter, tally *t) {
  char text[LINE_LENGTH], *equals, *end = line + strlen(line);
  const char *bad;
  gold_case c;
  uint64_t number;
  while (end > line && (end[-1] == '\n' || end[-1] == '\r')) *--end = '\0';
  if (*line == '\0' || *line == '#') return NULL;
  if (strncmp(line, "order ", 6) == 0) {
    if (gold_number(line + 6, 1000, &number) != NULL) return "the number of the order is wrong";
    t->order = 1;
    return number == GPURED_ORDER ? NULL : "these vectors are of another order than the library's";
  }
  if (!t->order) return "the line 'order N' must come first";
  if (t->end) return "a line follows the end";
  if (strncmp(line, "end ", 4) == 0) {
    t->end = 1;
    bad = gold_number(line + 4, UINT32_MAX, &number);
    if (bad == NULL && number != t->passed + t->failed + t->skipped) bad = "cases are missing";
    return bad;
  }
  equals = strstr(line, " =");
  if (equals == NULL || equals[2] != ' ') return "no ' = ' and result";
  *equals = '\0';
  strcpy(text, line);
  bad = gold_read_case(line, &c);
  if (bad != NULL) return bad;
  if (filter != NULL && strstr(text, filter) == NULL) {
    ++t->skipped;
  } else if (check_case(t->backend, &c, text, equals + 2)) {
    ++t->passed;
  } else {
    ++t->failed;
  }
  return NULL;
}

/* Takes the option off the arguments. 1 if there is nothing to run on. */
static int lacks_backend(int *argc, char ***argv, tally *t) {
  const char *required = getenv("GPURED_REQUIRE_CUDA");
  const int must = required && strcmp(required, "1") == 0;
  if (*argc < 2 || strcmp((*argv)[1], "--cuda") != 0) return 0;
  t->backend = GPURED_BACKEND_CUDA;
  --*argc;
  ++*argv;
  if (gpured_cuda_available()) return 0;
  printf("%s golden vectors on CUDA: no device, or the backend is not built in\n",
         must ? "FAILED" : "SKIP");
  printf("0 passed, %d failed, %d skipped\n", must, !must);
  t->failed = (unsigned long)must;
  return 1;
}

int main(int argc, char **argv) {
  const char *path, *bad = NULL;
  char line[LINE_LENGTH];
  tally t = {GPURED_BACKEND_CPU, 0, 0, 0, 0, 0};
  unsigned long number = 0;
  FILE *file;
  if (lacks_backend(&argc, &argv, &t)) return t.failed != 0;
  path = argc > 1 ? argv[1] : "tests/golden/golden.txt";
  if (argc > 3) {
    fprintf(stderr, "usage: golden_check [--cuda] [FILE [FILTER]]\n");
    return 1;
  }
  file = fopen(path, "r");
  if (file == NULL) {
    fprintf(stderr, "golden_check: cannot open %s\n", path);
    return 1;
  }
  while (bad == NULL && fgets(line, sizeof line, file) != NULL) {
    ++number;
    bad = strlen(line) == sizeof line - 1 ? "the line is too long"
                                          : check_line(line, argc > 2 ? argv[2] : NULL, &t);
  }
  if (bad == NULL && ferror(file)) bad = "cannot read on";
  if (bad == NULL && !t.end) bad = "the line 'end N' is missing: the file is cut short";
  fclose(file);
  if (bad != NULL) {
    fprintf(stderr, "golden_check: %s:%lu: %s\n", path, number, bad);
    return 1;
  }
  printf("%lu passed, %lu failed, %lu skipped\n", t.passed, t.failed, t.skipped);
  return t.failed > 0 || t.passed == 0;
}
