/* The .npy readers of examples/npy_io.h and npy_map.h with any bytes for a file: they must refuse
 * the file in one line or read it, alike from a stream, from a pipe and as a map, whole and in
 * pieces; and what was read must survive being written. */
#define _GNU_SOURCE /* fopencookie(), memfd_create() */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../examples/npy_map.h"
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

/* The bytes as a file, whose name is in `path`. */
static void make_file(const uint8_t *data, size_t size, char *path) {
  static int fd = -1;
  if (fd < 0) fd = memfd_create("npy", 0);
  if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
  snprintf(path, 64, "/proc/self/fd/%d", fd);
}

/* The mapped file has the elements that a stream has, asked for at once or in two pieces. */
static void check_map(const uint8_t *data, size_t size, const npy_array *a, const char *refused) {
  char path[64], err[256] = "";
  const size_t bytes = refused ? 0 : bytes_of(a);
  npy_source s;
  void *piece;
  make_file(data, size, path);
  if (refused) {
    CHECK(npy_open_source(path, &s, err, sizeof err) == 1, "mapped, but '%s' from a stream",
          refused);
    CHECK(strcmp(strchr(err, ':'), strchr(refused, ':')) == 0, "'%s', as a map '%s'", refused, err);
  } else {
    CHECK(npy_open_source(path, &s, err, sizeof err) == 0, "not mapped: %s", err);
    CHECK(s.count == (size_t)gen_count(&a->t), "%zu elements in the map", s.count);
    piece = npy_piece(&s, 0, s.count, err, sizeof err);
    CHECK(piece && memcmp(piece, a->data, bytes) == 0, "another value in the map");
    piece = npy_piece(&s, s.count / 2, s.count - s.count / 2, err, sizeof err);
    CHECK(piece && memcmp(piece, (char *)a->data + s.count / 2 * npy__carrier_size(a->kind),
                          bytes - s.count / 2 * npy__carrier_size(a->kind)) == 0,
          "another value in the second half of the map");
  }
  npy_close_source(&s);
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
    CHECK(strcmp(err, pipe_err) == 0 || strstr(err, "truncated") || strstr(err, "follow"),
          "from a file '%s', from a pipe '%s'", err, pipe_err);
    CHECK(a.data == NULL && b.data == NULL, "refused, but there is data");
    check_map(data, size, &a, err);
    return 0;
  }
  check_array(&a, size);
  check_same(&a, &b);
  check_map(data, size, &a, NULL);
  npy_free(&a);
  npy_free(&b);
  return 0;
}
