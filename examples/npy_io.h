/*
 * npy_io.h: reads and writes NumPy's .npy files as gpured tensors. Everything is static inline:
 * include and use.
 *
 * SPDX-License-Identifier: MIT
 *
 * Formats 1.0, 2.0 and 3.0; little- and big-endian; C and Fortran order; f2 f4 f8 i1 i2 i4 i8 u1 u2
 * u4 u8 b1; up to 8 axes. gpured has no 16-bit integers and no truth values, so i2 and u2 are
 * widened to i32 and u32, and b1 becomes u8 (0 or 1); npy_array.kind remembers what the file held,
 * and npy_save_as() writes it back.
 *
 * Files come from anywhere, so nothing in one is believed: the header is bounded, the shape is
 * checked against the size of the file before memory is asked for, and what cannot be measured (a
 * pipe) is read in pieces that grow with the data. Bytes after the array are refused: they mean a
 * damaged shape, or several arrays of which the rest would be lost.
 *
 * On an error every function returns nonzero, has nothing allocated, and has one line of text in
 * err (which may be NULL).
 */
#ifndef NPY_IO_H
#define NPY_IO_H

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gpured.h"

/* ============================================================================================== */
/* 1  Types                                                                                       */
/* ============================================================================================== */

/* The element types of files. */
typedef enum npy_kind {
  NPY_F2,
  NPY_F4,
  NPY_F8,
  NPY_I1,
  NPY_I2,
  NPY_I4,
  NPY_I8,
  NPY_U1,
  NPY_U2,
  NPY_U4,
  NPY_U8,
  NPY_B1,
  NPY_KINDS /* how many there are */
} npy_kind;

typedef struct npy_kind_info {
  const char *code;     /* as in a header, without the byte order */
  const char *name;     /* NumPy's long name */
  size_t size;          /* bytes in the file */
  gpured_dtype carrier; /* what holds it in memory */
} npy_kind_info;

typedef struct npy_array {
  gpured_tensor t; /* views data; Fortran order is in its strides */
  void *data;      /* from malloc; npy_free() gives it back */
  npy_kind kind;   /* the element type of the file */
  int version;     /* the format of the file: 1, 2 or 3 */
  int fortran;     /* 1 if the file is in Fortran order */
  int big_endian;  /* 1 if the file is big-endian */
} npy_array;

/* ============================================================================================== */
/* 2  Small helpers                                                                               */
/* ============================================================================================== */

/* Longest header accepted: what format 1.0 can hold. Only structured types, which are refused, need
 * more. */
#define NPY__MAX_HEADER 65535u
/* Elements that are read at first from what has no known size; doubled from there. */
#define NPY__FIRST_PIECE 65536u
#define NPY__MORE "bytes follow the array (several arrays, or a damaged shape)"

static inline const npy_kind_info *npy_info(npy_kind kind) {
  static const npy_kind_info table[NPY_KINDS] = {
      {"f2", "float16", 2, GPURED_F16}, {"f4", "float32", 4, GPURED_F32},
      {"f8", "float64", 8, GPURED_F64}, {"i1", "int8", 1, GPURED_I8},
      {"i2", "int16", 2, GPURED_I32},   {"i4", "int32", 4, GPURED_I32},
      {"i8", "int64", 8, GPURED_I64},   {"u1", "uint8", 1, GPURED_U8},
      {"u2", "uint16", 2, GPURED_U32},  {"u4", "uint32", 4, GPURED_U32},
      {"u8", "uint64", 8, GPURED_U64},  {"b1", "bool", 1, GPURED_U8}};
  return &table[kind];
}

/* The kind with this code ("f4"), or NPY_KINDS. */
static inline npy_kind npy_kind_by_code(const char *code) {
  int k = 0;
  while (k < NPY_KINDS && strcmp(npy_info((npy_kind)k)->code, code) != 0) ++k;
  return (npy_kind)k;
}

/* The kind that holds exactly this dtype, or NPY_KINDS (bf16, which NumPy does not have). */
static inline npy_kind npy_kind_by_dtype(int32_t dtype) {
  int k;
  for (k = 0; k < NPY_KINDS; ++k) {
    const npy_kind_info *info = npy_info((npy_kind)k);
    if ((int32_t)info->carrier == dtype && info->size == gpured_dtype_size(info->carrier)) break;
  }
  return (npy_kind)k;
}

/* Writes a shape as Python does: "()", "(3,)", "(150, 4)". 192 bytes hold any shape of 8 axes. */
static inline void npy_shape_text(int ndim, const int64_t *shape, char *text, size_t size) {
  size_t used = 0;
  int i;
  if (size > 0) text[0] = 0;
  for (i = 0; i <= ndim && used < size; ++i) {
    const char *lead = i == 0 ? "(" : ", ", *tail = i + 1 == ndim && ndim == 1 ? "," : "";
    int n = i < ndim ? snprintf(text + used, size - used, "%s%" PRId64 "%s", lead, shape[i], tail)
                     : snprintf(text + used, size - used, "%s)", ndim == 0 ? "(" : "");
    used += n > 0 ? (size_t)n : 0;
  }
}

static inline int npy__host_is_big_endian(void) {
  const uint16_t one = 1;
  unsigned char first;
  memcpy(&first, &one, 1);
  return first == 0;
}

/* Where an error is told. */
typedef struct npy__error {
  const char *path;
  char *text;
  size_t size;
} npy__error;

/* Writes "path: message" and returns 1. Bytes that could break the line or drive a terminal become
 * '?': part of the message may come from the file. */
static inline int npy__fail(const npy__error *e, const char *format, ...) {
  va_list args;
  int used;
  char *p;
  if (e->text == NULL || e->size == 0) return 1;
  used = snprintf(e->text, e->size, "%s: ", e->path);
  if (used > 0 && (size_t)used < e->size) {
    va_start(args, format);
    (void)vsnprintf(e->text + used, e->size - (size_t)used, format, args);
    va_end(args);
  }
  for (p = e->text; *p != 0; ++p) {
    if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = '?';
  }
  return 1;
}

/* Reverses the bytes of n elements of `size` bytes. */
static inline void npy__swap(unsigned char *p, size_t n, size_t size) {
  size_t i, lo, hi;
  for (i = 0; i < n; ++i, p += size) {
    for (lo = 0, hi = size - 1; lo < hi; ++lo, --hi) {
      const unsigned char x = p[lo];
      p[lo] = p[hi];
      p[hi] = x;
    }
  }
}

/* ============================================================================================== */
/* 3  The header: a Python dict with the keys descr, fortran_order and shape                      */
/* ============================================================================================== */

typedef struct npy__header {
  int version, fortran, big_endian, ndim;
  npy_kind kind;
  int64_t shape[GPURED_MAX_NDIM];
} npy__header;

typedef struct npy__cursor {
  const char *p, *end;
} npy__cursor;

static inline void npy__skip_space(npy__cursor *c) {
  while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r')) ++c->p;
}

/* Takes `wanted` if it comes next. */
static inline int npy__take(npy__cursor *c, char wanted) {
  npy__skip_space(c);
  if (c->p == c->end || *c->p != wanted) return 0;
  ++c->p;
  return 1;
}

/* Takes the word if it comes next. */
static inline int npy__take_word(npy__cursor *c, const char *word) {
  const size_t n = strlen(word);
  npy__skip_space(c);
  if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0) return 0;
  c->p += n;
  return 1;
}

/* Takes a quoted string; what does not fit in `size` is cut off, which no valid string needs. */
static inline int npy__take_string(npy__cursor *c, char *text, size_t size) {
  size_t n = 0;
  char quote;
  if (npy__take(c, '\'')) {
    quote = '\'';
  } else if (npy__take(c, '"')) {
    quote = '"';
  } else {
    return 0;
  }
  for (; c->p < c->end && *c->p != quote; ++c->p) {
    if (*c->p == 0) return 0;
    if (n + 1 < size) text[n++] = *c->p;
  }
  text[n] = 0;
  if (c->p == c->end) return 0;
  ++c->p;
  return 1;
}

/* Takes one extent. Python 2 wrote 3L. */
static inline int npy__take_extent(npy__cursor *c, int64_t *value, const npy__error *e) {
  const char *first;
  int64_t v = 0;
  if (npy__take(c, '-')) return npy__fail(e, "the shape has a negative extent");
  npy__skip_space(c);
  first = c->p;
  for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; ++c->p) {
    const int64_t digit = *c->p - '0';
    if (v > (INT64_MAX - digit) / 10) return npy__fail(e, "the shape is too large");
    v = v * 10 + digit;
  }
  if (c->p == first || (c->p - first > 1 && *first == '0')) {
    return npy__fail(e, "malformed header: an extent of the shape is not a number");
  }
  if (c->p < c->end && *c->p == 'L') ++c->p;
  *value = v;
  return 0;
}

/* Takes a tuple of extents; one extent needs its comma, as in Python. */
static inline int npy__take_shape(npy__cursor *c, npy__header *h, const npy__error *e) {
  int comma = 1;
  h->ndim = 0;
  if (!npy__take(c, '(')) return npy__fail(e, "malformed header: the shape is not a tuple");
  while (!npy__take(c, ')')) {
    int64_t extent = 0;
    if (!comma) return npy__fail(e, "malformed header: the shape is not a tuple");
    if (npy__take_extent(c, &extent, e)) return 1;
    if (h->ndim == GPURED_MAX_NDIM) {
      return npy__fail(e, "more than %d axes are not supported", GPURED_MAX_NDIM);
    }
    h->shape[h->ndim++] = extent;
    comma = npy__take(c, ',');
  }
  if (h->ndim == 1 && !comma) return npy__fail(e, "malformed header: the shape is not a tuple");
  return 0;
}

/* Takes the element type: byte order and code. '=' is the order of this machine. */
static inline int npy__take_descr(npy__cursor *c, npy__header *h, const npy__error *e) {
  char text[32];
  if (npy__take(c, '[')) return npy__fail(e, "structured dtypes are not supported");
  if (!npy__take_string(c, text, sizeof text)) {
    return npy__fail(e, "malformed header: descr is not a string");
  }
  h->kind = text[0] ? npy_kind_by_code(text + 1) : NPY_KINDS;
  if (h->kind == NPY_KINDS || strchr("<>=|", text[0]) == NULL ||
      (text[0] == '|' && npy_info(h->kind)->size != 1)) {
    return npy__fail(e, "dtype '%s' is not supported", text);
  }
  h->big_endian = text[0] == '>' || (text[0] == '=' && npy__host_is_big_endian());
  return 0;
}

static inline int npy__take_value(npy__cursor *c, unsigned key, npy__header *h,
                                  const npy__error *e) {
  if (key == 0) return npy__take_descr(c, h, e);
  if (key == 2) return npy__take_shape(c, h, e);
  h->fortran = npy__take_word(c, "True");
  if (!h->fortran && !npy__take_word(c, "False")) {
    return npy__fail(e, "malformed header: fortran_order is neither True nor False");
  }
  return 0;
}

/* Reads the dict: each of the three keys once, in any order, and nothing else. */
static inline int npy__parse_header(npy__cursor c, npy__header *h, const npy__error *e) {
  static const char *const keys[3] = {"descr", "fortran_order", "shape"};
  unsigned seen = 0;
  int comma = 1;
  if (!npy__take(&c, '{')) return npy__fail(e, "malformed header: not a dict");
  while (!npy__take(&c, '}')) {
    char name[32];
    unsigned k = 0;
    if (!comma || !npy__take_string(&c, name, sizeof name) || !npy__take(&c, ':')) {
      return npy__fail(e, "malformed header: not a dict");
    }
    while (k < 3 && strcmp(name, keys[k]) != 0) ++k;
    if (k == 3) return npy__fail(e, "malformed header: unknown key '%s'", name);
    if (seen & (1u << k)) return npy__fail(e, "malformed header: '%s' appears twice", name);
    seen |= 1u << k;
    if (npy__take_value(&c, k, h, e)) return 1;
    comma = npy__take(&c, ',');
  }
  npy__skip_space(&c);
  if (c.p != c.end) return npy__fail(e, "malformed header: something follows the dict");
  if (seen != 7u) return npy__fail(e, "malformed header: descr, fortran_order or shape is missing");
  return 0;
}

/* Why fewer bytes came than were asked for. */
static inline int npy__short_read(FILE *f, const npy__error *e, const char *what) {
  if (ferror(f)) return npy__fail(e, "cannot read: %s", strerror(errno));
  return npy__fail(e, "truncated: the file ends within %s", what);
}

/* Magic, version and length: gives the bytes of the dict in *length. */
static inline int npy__read_prelude(FILE *f, int *version, size_t *length, const npy__error *e) {
  static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
  unsigned char b[8] = {0}, len[4] = {0};
  const size_t got = fread(b, 1, sizeof b, f);
  size_t len_bytes;
  if (got == 0 && !ferror(f)) return npy__fail(e, "the file is empty");
  if (memcmp(b, magic, got < sizeof magic ? got : sizeof magic) != 0) {
    return npy__fail(e, "not a .npy file");
  }
  if (got < sizeof b) return npy__short_read(f, e, "the header");
  if (b[6] < 1 || b[6] > 3 || b[7] != 0) {
    return npy__fail(e, ".npy format %d.%d is not supported", b[6], b[7]);
  }
  *version = b[6];
  len_bytes = b[6] == 1 ? 2 : 4;
  if (fread(len, 1, len_bytes, f) != len_bytes) return npy__short_read(f, e, "the header");
  *length = len[0] + ((size_t)len[1] << 8) + ((size_t)len[2] << 16) + ((size_t)len[3] << 24);
  if (*length > NPY__MAX_HEADER) {
    return npy__fail(e, "a header of %zu bytes is not supported", *length);
  }
  return 0;
}

static inline int npy__read_header(FILE *f, npy__header *h, const npy__error *e) {
  npy__cursor c;
  size_t length = 0;
  char *text;
  int failed;
  if (npy__read_prelude(f, &h->version, &length, e)) return 1;
  text = (char *)malloc(length + 1);
  if (text == NULL) return npy__fail(e, "not enough memory for a header of %zu bytes", length);
  if (fread(text, 1, length, f) != length) {
    failed = npy__short_read(f, e, "the header");
  } else {
    c.p = text;
    c.end = text + length;
    failed = npy__parse_header(c, h, e);
  }
  free(text);
  return failed;
}

/* ============================================================================================== */
/* 4  The data                                                                                    */
/* ============================================================================================== */

/* The number of elements. Extents other than 0 must multiply to something that memory and strides
 * can count, also where another extent is 0. */
static inline int npy__count(const npy__header *h, size_t *count, const npy__error *e) {
  const size_t size = gpured_dtype_size(npy_info(h->kind)->carrier);
  uint64_t limit = (uint64_t)PTRDIFF_MAX / size;
  int i, empty = 0;
  *count = 1;
  for (i = 0; i < h->ndim; ++i) {
    if (h->shape[i] == 0) {
      empty = 1;
    } else if ((uint64_t)h->shape[i] > limit) {
      return npy__fail(e, "the shape is too large");
    } else {
      limit /= (uint64_t)h->shape[i];
      *count *= (size_t)h->shape[i];
    }
  }
  if (empty) *count = 0;
  return 0;
}

/* Bytes between here and the end of the file, or -1 where that cannot be known (a pipe, a device).
 */
static inline int64_t npy__bytes_left(FILE *f) {
  const long here = ftell(f);
  long end;
  if (here < 0 || fseek(f, 0, SEEK_END) != 0) return -1;
  end = ftell(f);
  if (fseek(f, here, SEEK_SET) != 0) return -1;
  return end < here ? -1 : (int64_t)end - here;
}

/* Turns n elements as they are in the file into elements of the carrier. `raw` may be the end of
 * `out`: an element is read before the place where it was is written. */
static inline void npy__decode(const npy__header *h, unsigned char *raw, unsigned char *out,
                               size_t n) {
  size_t i;
  if (h->big_endian != npy__host_is_big_endian()) npy__swap(raw, n, npy_info(h->kind)->size);
  if (h->kind == NPY_I2) {
    for (i = 0; i < n; ++i) {
      int16_t narrow;
      int32_t wide;
      memcpy(&narrow, raw + 2 * i, 2);
      wide = narrow;
      memcpy(out + 4 * i, &wide, 4);
    }
  } else if (h->kind == NPY_U2) {
    for (i = 0; i < n; ++i) {
      uint16_t narrow;
      uint32_t wide;
      memcpy(&narrow, raw + 2 * i, 2);
      wide = narrow;
      memcpy(out + 4 * i, &wide, 4);
    }
  } else if (h->kind == NPY_B1) {
    for (i = 0; i < n; ++i) out[i] = raw[i] != 0;
  }
}

/* Reads `count` elements. With a known size the memory is taken at once, otherwise it grows with
 * what arrives. */
static inline void *npy__read_data(FILE *f, const npy__header *h, size_t count, int known,
                                   const npy__error *e) {
  const npy_kind_info *info = npy_info(h->kind);
  const size_t size = gpured_dtype_size(info->carrier);
  size_t room = known || count < NPY__FIRST_PIECE ? count : NPY__FIRST_PIECE, done = 0;
  unsigned char *data = (unsigned char *)malloc(room > 0 ? room * size : 1), *grown;
  while (data != NULL) {
    const size_t n = room - done;
    unsigned char *out = data + done * size, *raw = out + n * (size - info->size);
    if (fread(raw, info->size, n, f) != n) {
      free(data);
      (void)npy__short_read(f, e, "the data");
      return NULL;
    }
    npy__decode(h, raw, out, n);
    done = room;
    if (done == count) return data;
    room = count - room < room ? count : 2 * room;
    grown = (unsigned char *)realloc(data, room * size);
    if (grown == NULL) free(data);
    data = grown;
  }
  (void)npy__fail(e, "not enough memory for %zu bytes", room * size);
  return NULL;
}

static inline void npy__make_tensor(const npy__header *h, npy_array *out) {
  int64_t strides[GPURED_MAX_NDIM] = {0}, next = 1;
  int i;
  for (i = 0; i < h->ndim; ++i) {
    const int a = h->fortran ? i : h->ndim - 1 - i;
    strides[a] = next;
    next *= h->shape[a] > 0 ? h->shape[a] : 1;
  }
  out->t = gpured_array(out->data, npy_info(h->kind)->carrier, h->ndim, h->shape, strides);
  out->kind = h->kind;
  out->version = h->version;
  out->fortran = h->fortran;
  out->big_endian = h->big_endian;
}

/* ============================================================================================== */
/* 5  Reading                                                                                     */
/* ============================================================================================== */

/* Reads the header of a stream and counts: the elements, and the bytes of data that are there (-1:
 * they cannot be measured), which must be those that the shape needs. */
static inline int npy__read_front(FILE *f, npy__header *h, size_t *count, int64_t *left,
                                  const npy__error *e) {
  int64_t need;
  memset(h, 0, sizeof *h);
  if (npy__read_header(f, h, e) || npy__count(h, count, e)) return 1;
  need = (int64_t)(*count * npy_info(h->kind)->size);
  *left = npy__bytes_left(f);
  if (*left >= 0 && *left < need) {
    return npy__fail(e,
                     "truncated: the shape needs %" PRId64 " bytes of data, the file has %" PRId64,
                     need, *left);
  }
  return *left > need ? npy__fail(e, NPY__MORE) : 0;
}

/* Reads one array from an open stream, which must end with it. `name` stands in messages. */
static inline int npy_read(FILE *f, const char *name, npy_array *out, char *err, size_t err_size) {
  const npy__error e = {name, err, err_size};
  npy__header h;
  size_t count = 0;
  int64_t left;
  memset(out, 0, sizeof *out);
  if (npy__read_front(f, &h, &count, &left, &e)) return 1;
  out->data = npy__read_data(f, &h, count, left >= 0, &e);
  if (out->data != NULL && getc(f) != EOF) {
    (void)npy__fail(&e, NPY__MORE);
    free(out->data);
    out->data = NULL;
  }
  if (out->data == NULL) return 1;
  npy__make_tensor(&h, out);
  return 0;
}

/* Reads one array from a file. */
static inline int npy_load(const char *path, npy_array *out, char *err, size_t err_size) {
  const npy__error e = {path, err, err_size};
  FILE *f = fopen(path, "rb");
  int failed;
  memset(out, 0, sizeof *out);
  if (f == NULL) return npy__fail(&e, "cannot open: %s", strerror(errno));
  failed = npy_read(f, path, out, err, err_size);
  (void)fclose(f);
  return failed;
}

/* Gives the memory back; harmless on an array that failed to load. */
static inline void npy_free(npy_array *a) {
  free(a->data);
  memset(a, 0, sizeof *a);
}

/* ============================================================================================== */
/* 6  Writing: format 1.0 (no shape of 8 axes needs more), little-endian, C order                 */
/* ============================================================================================== */

static inline int npy__check_tensor(const gpured_tensor *t, npy_kind kind, const npy__error *e) {
  int i;
  if (kind >= NPY_KINDS) return npy__fail(e, "the element type has no .npy code");
  if ((int32_t)npy_info(kind)->carrier != t->dtype) {
    return npy__fail(e, "the tensor's elements cannot be written as %s", npy_info(kind)->name);
  }
  if (t->device != GPURED_CPU) return npy__fail(e, "the tensor is not in host memory");
  if (t->ndim < 0 || t->ndim > GPURED_MAX_NDIM) return npy__fail(e, "the tensor's ndim is wrong");
  for (i = 0; i < t->ndim; ++i) {
    if (t->shape[i] < 0) return npy__fail(e, "the tensor's shape is negative");
  }
  return 0;
}

/* Magic, version, length and dict, padded with spaces to a multiple of 64 bytes as the format asks.
 */
static inline int npy__write_header(FILE *f, const gpured_tensor *t, npy_kind kind) {
  char shape[192], text[384] = "\x93NUMPY\x01";
  const npy_kind_info *info = npy_info(kind);
  size_t used, total;
  npy_shape_text(t->ndim, t->shape, shape, sizeof shape);
  used = 10 + (size_t)snprintf(text + 10, sizeof text - 10,
                               "{'descr': '%c%s', 'fortran_order': False, 'shape': %s, }",
                               info->size == 1 ? '|' : '<', info->code, shape);
  total = (used + 1 + 63) / 64 * 64;
  memset(text + used, ' ', total - used - 1);
  text[total - 1] = '\n';
  text[8] = (char)((total - 10) & 255);
  text[9] = (char)((total - 10) >> 8);
  return fwrite(text, 1, total, f) != total;
}

/* One element from its carrier to the bytes of the file, in the order of this machine. */
static inline void npy__encode(npy_kind kind, const unsigned char *in, unsigned char *out) {
  if (kind == NPY_I2 || kind == NPY_U2) {
    uint32_t wide;
    uint16_t narrow;
    memcpy(&wide, in, 4);
    narrow = (uint16_t)(wide & 0xffff);
    memcpy(out, &narrow, 2);
  } else if (kind == NPY_B1) {
    out[0] = in[0] != 0;
  } else {
    memcpy(out, in, npy_info(kind)->size);
  }
}

/* Moves to the next element in C order; 0 after the last one. */
static inline int npy__next(const gpured_tensor *t, int64_t *index, int64_t *offset) {
  int a;
  for (a = t->ndim - 1; a >= 0; --a) {
    *offset += t->strides[a];
    if (++index[a] < t->shape[a]) return 1;
    *offset -= t->strides[a] * t->shape[a];
    index[a] = 0;
  }
  return 0;
}

static inline int npy__write_data(FILE *f, const gpured_tensor *t, npy_kind kind) {
  unsigned char buffer[8192];
  const size_t file_size = npy_info(kind)->size;
  const int64_t size = (int64_t)gpured_dtype_size(npy_info(kind)->carrier);
  int64_t index[GPURED_MAX_NDIM] = {0}, offset = 0;
  size_t used = 0;
  int a, more = 1;
  for (a = 0; a < t->ndim; ++a) more = more && t->shape[a] > 0;
  while (more) {
    npy__encode(kind, (const unsigned char *)t->data + offset * size, buffer + used);
    used += file_size;
    more = npy__next(t, index, &offset);
    if (more && used < sizeof buffer) continue;
    if (npy__host_is_big_endian()) npy__swap(buffer, used / file_size, file_size);
    if (fwrite(buffer, 1, used, f) != used) return 1;
    used = 0;
  }
  return 0;
}

/* Writes to an open stream. `name` stands in messages. */
static inline int npy_write(FILE *f, const char *name, const gpured_tensor *t, npy_kind kind,
                            char *err, size_t err_size) {
  const npy__error e = {name, err, err_size};
  if (npy__check_tensor(t, kind, &e)) return 1;
  if (npy__write_header(f, t, kind) || npy__write_data(f, t, kind) || fflush(f) != 0) {
    return npy__fail(&e, "cannot write: %s", strerror(errno));
  }
  return 0;
}

/*
 * A file on its way to `path`. It is complete or not there: it is written under a temporary name
 * beside `path` and renamed at the end. What is there already and is no regular file (a pipe,
 * /dev/null) is written into, since it must not be replaced; then there is no temporary name.
 */
typedef struct npy_file {
  FILE *f; /* NULL: not open */
  const char *path;
  char *temporary;
} npy_file;

/* Opens a new file beside `path`. Needs to be read as well by who maps it. */
static inline int npy__open_beside(npy_file *o, const npy__error *e) {
  const size_t size = strlen(o->path) + 16;
  int i;
  o->temporary = (char *)malloc(size);
  if (o->temporary == NULL) return npy__fail(e, "not enough memory");
  for (i = 0; i < 1000 && o->f == NULL; ++i) {
    (void)snprintf(o->temporary, size, "%s.tmp%d", o->path, i);
    o->f = fopen(o->temporary, "w+bx"); /* x: never somebody else's file */
    if (o->f == NULL && errno != EEXIST) break;
  }
  if (o->f != NULL) return 0;
  (void)npy__fail(e, "cannot create a file beside it: %s", strerror(errno));
  free(o->temporary);
  o->temporary = NULL;
  return 1;
}

/* Starts a file; npy_commit() or npy_discard() ends it. A file that may not be written is not
 * replaced either. */
static inline int npy_create(const char *path, npy_file *o, char *err, size_t err_size) {
  const npy__error e = {path, err, err_size};
  struct stat about;
  const int there = stat(path, &about) == 0;
  memset(o, 0, sizeof *o);
  o->path = path;
  if (there) {
    o->f = fopen(path, S_ISREG(about.st_mode) ? "r+b" : "wb");
    if (o->f == NULL) return npy__fail(&e, "cannot open for writing: %s", strerror(errno));
    if (!S_ISREG(about.st_mode)) return 0;
    (void)fclose(o->f);
    o->f = NULL;
  }
  return npy__open_beside(o, &e);
}

/* Gives up: nothing is left of the file. */
static inline void npy_discard(npy_file *o) {
  if (o->f != NULL) (void)fclose(o->f);
  if (o->temporary != NULL) (void)remove(o->temporary);
  free(o->temporary);
  memset(o, 0, sizeof *o);
}

/* Gives the finished file its name. */
static inline int npy_commit(npy_file *o, char *err, size_t err_size) {
  const npy__error e = {o->path, err, err_size};
  int failed = 0;
  if (fclose(o->f) != 0) failed = npy__fail(&e, "cannot write: %s", strerror(errno));
  o->f = NULL;
  if (!failed && o->temporary != NULL && rename(o->temporary, o->path) != 0) {
    failed = npy__fail(&e, "cannot rename the finished file: %s", strerror(errno));
  }
  if (!failed) {
    free(o->temporary);
    o->temporary = NULL;
  }
  npy_discard(o);
  return failed;
}

/* Writes a tensor of any strides to a file as `kind`, whose carrier must be the tensor's dtype. */
static inline int npy_save_as(const char *path, const gpured_tensor *t, npy_kind kind, char *err,
                              size_t err_size) {
  const npy__error e = {path, err, err_size};
  npy_file o;
  if (npy__check_tensor(t, kind, &e) || npy_create(path, &o, err, err_size)) return 1;
  if (npy_write(o.f, path, t, kind, err, err_size) == 0) return npy_commit(&o, err, err_size);
  npy_discard(&o);
  return 1;
}

/* Writes a tensor in its own element type. */
static inline int npy_save(const char *path, const gpured_tensor *t, char *err, size_t err_size) {
  return npy_save_as(path, t, npy_kind_by_dtype(t->dtype), err, err_size);
}

#endif /* NPY_IO_H */
