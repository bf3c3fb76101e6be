/* In the place of malloc, calloc and realloc (ld --wrap): the request of number GPURED_FAIL_AT
 * finds no memory. */
#include <stdlib.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

static int fails(void) {
  static long left = -1;
  if (left < 0) {
    const char *at = getenv("GPURED_FAIL_AT");
    left = at ? strtol(at, NULL, 10) : 0;
  }
  return left > 0 && --left == 0;
}

void *__wrap_malloc(size_t bytes) { return fails() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) {
  return fails() ? NULL : __real_calloc(count, bytes);
}
void *__wrap_realloc(void *p, size_t bytes) { return fails() ? NULL : __real_realloc(p, bytes); }
