/* The .npy reader of examples/npy_io.h with any bytes for a file: it must refuse the file in one line
 * or read it, alike from a file and from a pipe, and what it has read must survive being written. */
#define _GNU_SOURCE /* fopencookie() */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../examples/npy_io.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A stream that cannot be measured. */
static ssize_t read_some(void *cookie, char *to, size_t n) {
  fuzz_bytes *in = (fuzz_bytes *)cookie;
  if (n > in->left) n = in->left;
  memcpy(to, in->p, n);
  in->p += n;
  in->left -= n;
  return (ssize_t)n;
}

static int read_pipe(const uint8_t *data, size_t size, npy_array *a, char *err) {
  const cookie_io_functions_t functions = {read_some, NULL, NULL, NULL};
  fuzz_bytes in = {data, size};
  FILE *f = fopencookie(&in, "rb", functions);
  int failed;
  if (!f) abort();
  failed = npy_read(f, "file.npy", a, err, 256);
  fclose(f);
  return failed;
}

static int read_file(const uint8_t *data, size_t size, npy_array *a, char *err) {
  FILE *f = fmemopen((void *)(uintptr_t)data, size, "rb");
  int failed;
  if (!f) abort();
  failed = npy_read(f, "file.npy", a, err, 256);
  fclose(f);
  return failed;
}

static void check_message(const char *err) {
  size_t i;
  CHECK(strncmp(err, "file.npy: ", 10) == 0, "the message is '%s'", err);
  for (i = 0; err[i]; ++i) CHECK((unsigned char)err[i] >= 0x20, "a byte that breaks the line");
}

static size_t bytes_of(const npy_array *a) {
  return (size_t)gen_count(&a->t) * gpured_dtype_size((gpured_dtype)a->t.dtype);
}

static void check_same(const npy_array *a, const npy_array *b) {
  CHECK(a->kind == b->kind && a->t.ndim == b->t.ndim, "another type or number of axes");
  CHECK(memcmp(a->t.shape, b->t.shape, sizeof a->t.shape[0] * (size_t)a->t.ndim) == 0,
        "another shape");
  CHECK(first_difference(&a->t, &b->t) < 0, "another value at %lld",
        (long long)first_difference(&a->t, &b->t));
}

/* Written and read again it is the same; a reader that allocated too little is found by that too. */
static void check_written(const npy_array *a) {
  char *bytes = NULL, err[256] = "";
  size_t size = 0;
  npy_array again;
  FILE *f = open_memstream(&bytes, &size);
  if (!f) abort();
  CHECK(npy_write(f, "file.npy", &a->t, a->kind, err, sizeof err) == 0, "write: %s", err);
  fclose(f);
  CHECK(read_file((const uint8_t *)bytes, size, &again, err) == 0, "written, then: %s", err);
  check_same(a, &again);
  npy_free(&again);
  free(bytes);
}

static void check_array(const npy_array *a, size_t size) {
  CHECK(a->data != NULL && a->t.data == a->data, "read, but no data");
  CHECK(bytes_of(a) <= 2 * size, "%zu bytes of data from a file of %zu", bytes_of(a), size);
  check_written(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  npy_array a, b;
  char err[256] = "", pipe_err[256] = "";
  int failed, pipe_failed;
  if (size == 0) return 0; /* not every libc opens nothing */
  case_is("a file of %zu bytes: %.*s", size, (int)(size < 300 ? size : 300), (const char *)data);
  failed = read_file(data, size, &a, err);
  pipe_failed = read_pipe(data, size, &b, pipe_err);
  CHECK(failed == pipe_failed, "from a file '%s', from a pipe '%s'", err, pipe_err);
  if (failed) {
    check_message(err);
    check_message(pipe_err);
    CHECK(a.data == NULL && b.data == NULL, "refused, but there is data");
    return 0;
  }
  check_array(&a, size);
  check_same(&a, &b);
  npy_free(&a);
  npy_free(&b);
  return 0;
}
