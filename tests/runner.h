/*
 * The runner: lists of tests, and CHECK, which says where and why something is not as it should be.
 *
 * A test is a function of the backend. It checks many cases and goes on after a failed one, so that
 * a message tells which cases share the fault; after TEST_STOP failures the runner leaves it.
 */
#ifndef TESTS_RUNNER_H
#define TESTS_RUNNER_H

#include "../gpured.h"

enum { TEST_STOP = 20 };
/* Does not depend on the backend; runs with --slow or GPURED_SLOW=1; runs on the CUDA backend
 * alone; needs a linker that replaces malloc (TEST_WRAP). T_NO_GPU: cannot tell the library's
 * requests for memory from those of the CUDA runtime. */
enum { T_HOST = 1, T_SLOW = 2, T_CUDA = 4, T_WRAP = 8, T_NO_GPU = 16 };

typedef struct test_case {
  const char *name;
  void (*run)(gpured_backend backend);
  unsigned flags;
} test_case;

/* Each file of tests has one list; an entry without a name ends it. */
extern const test_case reduce_tests[], scan_tests[], gemm_tests[], accuracy_tests[], args_tests[],
    api_tests[], env_tests[], faults_tests[], tensor_tests[], cuda_tests[], cuda_host_tests[];

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void test_fail(const char *file, int line, const char *format, ...);

/* CHECK(condition, "message with the parameters of the case", ...) from the thread of the test
 * only. */
#define CHECK(cond, ...) ((cond) ? (void)0 : test_fail(__FILE__, __LINE__, __VA_ARGS__))

/* Is the next case of this run? --part deals them out to several, so that tools that slow the suite
 * down a hundredfold can have all of it. */
int test_mine(void);

#endif /* TESTS_RUNNER_H */
