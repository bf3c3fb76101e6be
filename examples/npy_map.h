/*
 * npy_map.h: .npy files as memory, so that they may be larger than it. Everything is static inline:
 * include and use, with _POSIX_C_SOURCE 200809L (mmap) and _DEFAULT_SOURCE (madvise) defined.
 *
 * SPDX-License-Identifier: MIT
 *
 * A regular file is mapped: what a call reads comes in, what it writes goes out, and the system takes
 * the pages back where memory is short. Elements that gpured cannot take as they lie in the file
 * (the other byte order, 16-bit integers, truth values, a header that leaves them misaligned) are
 * converted into a buffer, piece by piece if they are asked for in pieces. A pipe is read whole.
 *
 * A mapped file that another program makes shorter, and a disk that fails, end in SIGBUS: a program
 * that includes this catches it.
 */
#ifndef NPY_MAP_H
#define NPY_MAP_H

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "npy_io.h"

/* ============================================================================================== */
/* 1  Reading                                                                                      */
/* ============================================================================================== */

/* An array to be read. Elements are counted in the order of the file. */
typedef struct npy_source {
  const char *name; /* for messages */
  npy_array a;      /* its layout; a.data is NULL unless everything had to be read */
  npy__header h;
  size_t count; /* elements */
  void *map;    /* the file, or NULL */
  size_t map_bytes;
  unsigned char *raw; /* in map: the first element */
  int direct;         /* 1: gpured takes the elements where they lie */
  unsigned char *buffer;
  size_t room; /* elements that fit in buffer */
} npy_source;

static inline size_t npy__carrier_size(npy_kind kind) {
  return gpured_dtype_size(npy_info(kind)->carrier);
}

/* Whether elements of this kind and byte order have the same bytes in memory. */
static inline int npy__same_bytes(npy_kind kind, int big_endian) {
  const npy_kind_info *info = npy_info(kind);
  return kind != NPY_B1 && info->size == gpured_dtype_size(info->carrier) &&
         (info->size == 1 || big_endian == npy__host_is_big_endian());
}

/* Maps an open regular file. Gives -1 where it cannot be mapped: then it can still be read. */
static inline int npy__map_source(FILE *f, npy_source *s, const npy__error *e) {
  int64_t left;
  long offset;
  void *map;
  if (npy__read_front(f, &s->h, &s->count, &left, e)) return 1;
  offset = ftell(f);
  if (left < 0 || offset < 0) return -1;
  s->map_bytes = (size_t)offset + (size_t)left;
  map = mmap(NULL, s->map_bytes, PROT_READ, MAP_PRIVATE, fileno(f), 0);
  if (map == MAP_FAILED) return -1;
  s->map = map;
  s->raw = (unsigned char *)map + offset;
  s->direct = npy__same_bytes(s->h.kind, s->h.big_endian) &&
              (size_t)offset % npy__carrier_size(s->h.kind) == 0;
  npy__make_tensor(&s->h, &s->a);
  return 0;
}

static inline int npy__read_source(FILE *f, npy_source *s, char *err, size_t err_size) {
  int i;
  if (npy_read(f, s->name, &s->a, err, err_size)) return 1;
  s->count = 1;
  for (i = 0; i < s->a.t.ndim; ++i) s->count *= (size_t)s->a.t.shape[i];
  return 0;
}

/* Opens a file, or standard input for "-"; npy_close_source() ends it. */
static inline int npy_open_source(const char *path, npy_source *s, char *err, size_t err_size) {
  const npy__error e = {path, err, err_size};
  struct stat about;
  FILE *f;
  int state;
  memset(s, 0, sizeof *s);
  s->name = path;
  if (strcmp(path, "-") == 0) {
    s->name = "standard input";
    return npy__read_source(stdin, s, err, err_size);
  }
  f = fopen(path, "rb");
  if (f == NULL) return npy__fail(&e, "cannot open: %s", strerror(errno));
  if (fstat(fileno(f), &about) == 0 && S_ISREG(about.st_mode)) {
    state = npy__map_source(f, s, &e);
    if (state < 0) rewind(f);
  } else {
    state = -1;
  }
  if (state < 0) state = npy__read_source(f, s, err, err_size);
  (void)fclose(f);
  return state;
}

/* Elements first ... first + count - 1 as gpured takes them. They stay until the next call. */
static inline void *npy_piece(npy_source *s, size_t first, size_t count, char *err,
                              size_t err_size) {
  const npy__error e = {s->name, err, err_size};
  const size_t size = npy__carrier_size(s->a.kind), file_size = npy_info(s->a.kind)->size;
  unsigned char *raw;
  if (s->map == NULL) return (unsigned char *)s->a.data + first * size;
  if (s->direct) return s->raw + first * size;
  if (count > s->room || s->buffer == NULL) {
    free(s->buffer);
    s->room = count;
    s->buffer = (unsigned char *)malloc(count > 0 ? count * size : 1);
    if (s->buffer == NULL) {
      (void)npy__fail(&e, "not enough memory for %zu bytes", count * size);
      return NULL;
    }
  }
  raw = s->buffer + count * (size - file_size);
  memcpy(raw, s->raw + first * file_size, count * file_size);
  npy__decode(&s->h, raw, s->buffer, count);
  return s->buffer;
}

/* Tells the system that the file is read from its start to its end. */
static inline void npy_sequential(npy_source *s) {
#ifdef MADV_SEQUENTIAL
  if (s->map != NULL) (void)madvise(s->map, s->map_bytes, MADV_SEQUENTIAL);
#else
  (void)s;
#endif
}

/* Gives back the whole pages before `end`, from the one that holds `start` on. */
static inline void npy__drop(void *map, size_t start, size_t end) {
#ifdef MADV_DONTNEED
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  start -= start % page;
  end -= end % page;
  if (end > start) (void)madvise((char *)map + start, end - start, MADV_DONTNEED);
#else
  (void)map, (void)start, (void)end;
#endif
}

/* These elements are not needed any more: their memory is free for others at once. */
static inline void npy_piece_done(npy_source *s, size_t first, size_t count) {
  const size_t size = npy_info(s->a.kind)->size;
  size_t offset;
  if (s->map == NULL) return;
  offset = (size_t)(s->raw - (unsigned char *)s->map);
  npy__drop(s->map, offset + first * size, offset + (first + count) * size);
}

static inline void npy_close_source(npy_source *s) {
  if (s->map != NULL) (void)munmap(s->map, s->map_bytes);
  free(s->buffer);
  npy_free(&s->a);
  memset(s, 0, sizeof *s);
}

/* ============================================================================================== */
/* 2  Writing                                                                                      */
/* ============================================================================================== */

/* An array to be written: fill the memory that a.t views. */
typedef struct npy_sink {
  npy_file file; /* file.f NULL: only in memory */
  npy_array a;   /* row-major; a.data is NULL if it is mapped */
  void *map;
  size_t map_bytes;
} npy_sink;

/* Takes the room for the whole file, so that a full disk is an error here and no SIGBUS later. */
static inline int npy__reserve(int fd, off_t bytes) {
  int state;
  do {
    state = posix_fallocate(fd, 0, bytes);
  } while (state == EINTR);
  if (state == EOPNOTSUPP || state == EINVAL) state = ftruncate(fd, bytes) == 0 ? 0 : errno;
  return state;
}

/* Maps the new file of `bytes` bytes of data. Where it cannot be mapped, s->map stays NULL. */
static inline int npy__map_sink(npy_sink *s, size_t bytes, const npy__error *e) {
  FILE *f = s->file.f;
  long offset;
  void *map;
  int state;
  if (npy__write_header(f, &s->a.t, s->a.kind) || fflush(f) != 0 || (offset = ftell(f)) < 0) {
    return npy__fail(e, "cannot write: %s", strerror(errno));
  }
  state = npy__reserve(fileno(f), (off_t)((size_t)offset + bytes));
  if (state != 0) return npy__fail(e, "cannot write: %s", strerror(state));
  s->map_bytes = (size_t)offset + bytes;
  map = mmap(NULL, s->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
  if (map == MAP_FAILED) {
    rewind(f);
    return 0;
  }
  s->map = map;
  s->a.t.data = (unsigned char *)map + offset;
  return 0;
}

/* Memory for an array of this kind and shape of `count` elements: mapped to the file, if one has
 * been created in s->file and its elements have the same bytes in memory. */
static inline int npy_open_sink(npy_sink *s, npy_kind kind, int ndim, const int64_t *shape,
                                size_t count, char *err, size_t err_size) {
  const npy__error e = {s->file.f ? s->file.path : "result", err, err_size};
  const size_t bytes = count * npy__carrier_size(kind);
  s->a.kind = kind;
  s->a.t = gpured_array(NULL, npy_info(kind)->carrier, ndim, shape, NULL);
  if (s->file.temporary != NULL && npy__same_bytes(kind, 0) && npy__map_sink(s, bytes, &e)) {
    return 1;
  }
  if (s->map != NULL) return 0;
  s->a.data = malloc(bytes > 0 ? bytes : 1);
  if (s->a.data == NULL) return npy__fail(&e, "not enough memory for %zu bytes", bytes);
  s->a.t.data = s->a.data;
  return 0;
}

/* Everything is in memory: brings it into the file, to which npy_commit() gives its name. */
static inline int npy_write_sink(npy_sink *s, char *err, size_t err_size) {
  const npy__error e = {s->file.path, err, err_size};
  void *map = s->map;
  if (map == NULL) return npy_write(s->file.f, e.path, &s->a.t, s->a.kind, err, err_size);
  s->map = NULL;
  if (munmap(map, s->map_bytes) == 0) return 0;
  return npy__fail(&e, "cannot write: %s", strerror(errno));
}

/* Gives memory back; a file that is not finished is removed. */
static inline void npy_close_sink(npy_sink *s) {
  if (s->map != NULL) (void)munmap(s->map, s->map_bytes);
  npy_discard(&s->file);
  npy_free(&s->a);
  memset(s, 0, sizeof *s);
}

#endif /* NPY_MAP_H */
