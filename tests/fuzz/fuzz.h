/*
 * What the fuzz targets share. A target turns the bytes of libFuzzer into a case, always a complete
 * one: numbers are taken from the bytes one after another, and where these end, the rest is the
 * least value of each. Then it runs the case and CHECKs what came of it. What fails is printed with
 * the case in words and ends the process.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "../util.h"

typedef struct fuzz_bytes {
  const unsigned char *p;
  size_t left;
} fuzz_bytes;

uint64_t take(fuzz_bytes *in, int count);                /* so many bytes as a number */
int64_t take_in(fuzz_bytes *in, int64_t lo, int64_t hi); /* both included */
int take_one_in(fuzz_bytes *in, int n);                  /* 1 about once in n cases, or 0 */
int64_t take_extent(fuzz_bytes *in, int64_t most);       /* small, or near a border of the order */
int take_shape(fuzz_bytes *in, int most, int64_t *shape, int64_t elements); /* returns the ndim */

/* An input or output of the shape in a layout of util.h or with any strides; inputs are filled. */
box take_input(fuzz_bytes *in, int dtype, int ndim, const int64_t *shape);
box take_output(fuzz_bytes *in, int dtype, int ndim, const int64_t *shape);

/* How a call is made, apart from its tensors: options, vector level, floating-point mode, and where
 * memory comes from. */
enum {
  FROM_MALLOC,
  FROM_HOOKS,
  FROM_FAILING_HOOKS,
  FROM_EXACT_WORKSPACE,
  FROM_SMALL_WORKSPACE,
  FROM_LARGE_WORKSPACE,
  SOURCES
};

typedef struct fuzz_setting {
  gpured_options o;
  int level, mode, source;
  const char *level_name;
  int allocated, failed, live; /* what the hooks have counted */
  void *space;                 /* an exact or small workspace */
} fuzz_setting;

/* Who works: the CPU, but for the programs of cuda_main.c. */
extern int32_t fuzz_backend;

void take_setting(fuzz_bytes *in, fuzz_setting *s, int acc, int ddof);
const char *setting_text(const fuzz_setting *s);
/* Between these two the setting holds. `bytes` is what the workspace query said. */
void setting_enter(fuzz_setting *s, size_t bytes);
void setting_leave(fuzz_setting *s);

/* Keeps the case in words, to be printed if it fails; with GPURED_FUZZ_PRINT it is printed now. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void case_is(const char *format, ...);

/* The memory of a box as it is now; free() gives it back. */
unsigned char *copy_of(const box *b);

/* Does the tensor have an element that shares a byte with another of its elements, or with one of
 * `other`? By looking at each, for tensors of few elements. */
int shares_with_itself(const gpured_tensor *t);
int shares_with(const gpured_tensor *t, const gpured_tensor *other);
/* The rule for strides of outputs in gpured.h: each axis steps over all that the finer ones reach. */
int strides_in_order(const gpured_tensor *t);

/* impl.c: the level of vector code, and whether calls of any size may use threads. Returns the name
 * of the level. */
const char *fuzz_set_paths(int level, int threaded);

#endif /* TESTS_FUZZ_H */
