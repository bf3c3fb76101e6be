/* tests [--list] [--slow] [--part=K/N] [--around] [substring...]: runs the tests whose name holds
 * one of the substrings, or all of them; of those that go through many cases alike, the K-th of N
 * parts. --around looks only at what lies around results: for tests/build/cuda_copies.sh. */
#include "util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const test_case *const lists[] = {reduce_tests, scan_tests, gemm_tests,     accuracy_tests,
                                         args_tests,   api_tests,  env_tests,      faults_tests,
                                         tensor_tests, cuda_tests, cuda_host_tests};
#ifdef TEST_WRAP
enum { CAN_WRAP = 1 };
#else
enum { CAN_WRAP = 0 };
#endif
static int failures; /* of the test that runs now */
static int part = 1, parts = 1;
static jmp_buf leave;

void test_fail(const char *file, int line, const char *format, ...) {
  const char *slash = strrchr(file, '/');
  va_list args;
  printf("%s  %s:%d: ", failures ? "" : "\n", slash ? slash + 1 : file, line);
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  printf("\n");
  if (++failures >= TEST_STOP) longjmp(leave, 1);
}

int test_mine(void) {
  static unsigned cases;
  return cases++ % (unsigned)parts == (unsigned)part - 1;
}

/* --part=K/N, with 1 <= K <= N? */
static int takes_part(const char *argument) {
  char *end;
  if (strncmp(argument, "--part=", 7) != 0) return 0;
  part = (int)strtol(argument + 7, &end, 10);
  parts = *end == '/' ? (int)strtol(end + 1, &end, 10) : 0;
  return *end == '\0' && part >= 1 && part <= parts;
}

static int run_one(const test_case *test, gpured_backend backend) {
  failures = 0;
  if (setjmp(leave) == 0) test->run(backend);
  printf(failures ? "FAILED\n" : "ok\n");
  return failures != 0;
}

static int selected(const char *name, int argc, char **argv) {
  int i, filters = 0;
  for (i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') continue;
    ++filters;
    if (strstr(name, argv[i])) return 1;
  }
  return filters == 0;
}

typedef struct summary {
  int passed, failed, skipped, list, slow, usable;
} summary;

static void visit(const test_case *test, gpured_backend backend, const char *name, summary *s) {
  if (s->list) {
    printf("%s%s\n", name, test->flags & T_SLOW ? " (slow)" : "");
  } else if (!s->usable) {
    ++s->skipped;
  } else if ((test->flags & T_SLOW) && !s->slow) {
    printf("%-34s SKIP: slow, runs with --slow\n", name);
    ++s->skipped;
  } else if ((test->flags & T_WRAP) && !CAN_WRAP) {
    printf("%-34s SKIP: the linker has no --wrap\n", name);
    ++s->skipped;
  } else if ((test->flags & T_NO_GPU) && gpured_cuda_available()) {
    printf("%-34s SKIP: the CUDA runtime asks for memory too\n", name);
    ++s->skipped;
  } else {
    printf("%-34s ", name);
    fflush(stdout);
    if (run_one(test, backend))
      ++s->failed;
    else
      ++s->passed;
  }
  fflush(stdout);
}

static void visit_backend(gpured_backend backend, int argc, char **argv, summary *s) {
  const char *required = getenv("GPURED_REQUIRE_CUDA"), *prefix = "cpu";
  char name[80];
  size_t i;
  const test_case *test;
  s->usable = 1;
  if (backend == GPURED_BACKEND_CUDA) prefix = "cuda", s->usable = gpured_cuda_available();
  if (!s->usable && !s->list) {
    int must = required && strcmp(required, "1") == 0;
    printf("%s cuda: gpured_cuda_available() finds no device, or the backend is not built in\n",
           must ? "FAILED" : "SKIP");
    s->failed += must;
  }
  for (i = 0; i < sizeof lists / sizeof lists[0]; ++i) {
    for (test = lists[i]; test->name; ++test) {
      if ((test->flags & T_HOST) && backend != GPURED_BACKEND_CPU) continue;
      if ((test->flags & T_CUDA) && backend != GPURED_BACKEND_CUDA) continue;
      snprintf(name, sizeof name, "%s/%s", test->flags & T_HOST ? "host" : prefix, test->name);
      if (selected(name, argc, argv)) visit(test, backend, name, s);
    }
  }
}

int main(int argc, char **argv) {
  summary s = {0, 0, 0, 0, 0, 0};
  const char *slow = getenv("GPURED_SLOW");
  int i;
  s.slow = slow && strcmp(slow, "1") == 0;
  for (i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--list") == 0)
      s.list = 1;
    else if (strcmp(argv[i], "--slow") == 0)
      s.slow = 1;
    else if (strcmp(argv[i], "--around") == 0)
      around_only = 1;
    else if (takes_part(argv[i]))
      continue;
    else if (argv[i][0] == '-') {
      fprintf(stderr, "usage: %s [--list] [--slow] [--part=K/N] [--around] [part of a name...]\n",
              argv[0]);
      return 1;
    }
  }
  visit_backend(GPURED_BACKEND_CPU, argc, argv, &s);
  visit_backend(GPURED_BACKEND_CUDA, argc, argv, &s);
  if (s.list) return 0;
  printf("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped);
  return s.failed != 0 || s.passed == 0;
}
