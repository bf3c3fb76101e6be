/*
 * pnm_io.h: reads and writes pictures, binary PGM (gray) and PPM (three colours) of 8 or 16 bits.
 * Everything is static inline: include and use.
 *
 * SPDX-License-Identifier: MIT
 *
 * Nothing in a file is believed: numbers are bounded, and memory is asked for only when the samples
 * are known to be there. On an error the functions return 0 and have said why in one line on
 * stderr, which starts with the name of the program.
 */
#ifndef PNM_IO_H
#define PNM_IO_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct picture {
  const char *program; /* stands in messages */
  int64_t height, width, channels, maxval;
  int64_t *samples; /* [height, width, channels], from malloc */
} picture;

static inline int pnm_fail(const picture *p, const char *file, const char *what) {
  fprintf(stderr, "%s: %s: %s\n", p->program, file, what);
  return 0;
}

/* ---- reading ---- */

/* The whole file, however long it turns out to be; NULL if that fails. */
static inline unsigned char *pnm__read_all(FILE *f, size_t *size) {
  unsigned char *all = NULL;
  size_t room = 0, got = 1;
  for (*size = 0; got > 0; *size += got) {
    if (*size == room) {
      room = room ? 2 * room : 1u << 16;
      unsigned char *more = room <= 1u << 30 ? (unsigned char *)realloc(all, room) : NULL;
      if (!more) break;
      all = more;
    }
    got = fread(all + *size, 1, room - *size, f);
  }
  if (got == 0 && !ferror(f)) return all;
  free(all);
  return NULL;
}

static inline int pnm__is_blank(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The next number of the header, after at least one blank or comment; -1 if there is none. */
static inline int64_t pnm__number(const unsigned char *b, size_t size, size_t *at) {
  const size_t from = *at;
  int64_t v = -1;
  for (int comment = 0; *at < size && (comment || b[*at] == '#' || pnm__is_blank(b[*at])); ++*at) {
    comment = b[*at] == '#' || (comment && b[*at] != '\n' && b[*at] != '\r');
  }
  if (*at == from) return -1;
  for (; *at < size && b[*at] >= '0' && b[*at] <= '9'; ++*at) {
    v = 10 * (v < 0 ? 0 : v) + (b[*at] - '0');
    if (v > INT32_MAX) return -1;
  }
  return v;
}

/* Header and samples out of the bytes of the file. What follows the samples is not looked at. */
static inline const char *pnm__decode(const unsigned char *b, size_t size, picture *p) {
  size_t at = 2;
  if (size < 2 || b[0] != 'P' || (b[1] != '5' && b[1] != '6')) return "not a binary PGM or PPM";
  p->channels = b[1] == '5' ? 1 : 3;
  p->width = pnm__number(b, size, &at);
  p->height = pnm__number(b, size, &at);
  p->maxval = pnm__number(b, size, &at);
  if (p->width < 1 || p->height < 1 || p->maxval < 1 || p->maxval > 65535) {
    return "the header is damaged";
  }
  if (at >= size || !pnm__is_blank(b[at])) return "the header is damaged";
  ++at;

  const size_t bytes = p->maxval > 255 ? 2 : 1;
  const size_t row = (size_t)(p->width * p->channels);
  if ((size - at) / bytes / row < (size_t)p->height) return "the file ends too early";
  const size_t count = row * (size_t)p->height;
  p->samples = (int64_t *)malloc(count * sizeof *p->samples);
  if (!p->samples) return "not enough memory";
  for (size_t i = 0; i < count; ++i, at += bytes) {
    p->samples[i] = bytes == 2 ? 256 * b[at] + b[at + 1] : b[at];
    if (p->samples[i] > p->maxval) return "a sample is larger than the header allows";
  }
  return NULL;
}

/* The picture, whose samples the caller frees, also after an error. */
static inline int pnm_load(const char *name, const char *program, picture *p) {
  size_t size;
  memset(p, 0, sizeof *p);
  p->program = program;
  FILE *f = fopen(name, "rb");
  if (!f) return pnm_fail(p, name, strerror(errno));
  unsigned char *bytes = pnm__read_all(f, &size);
  fclose(f);
  if (!bytes) return pnm_fail(p, name, "cannot be read, or is too large");
  const char *wrong = pnm__decode(bytes, size, p);
  free(bytes);
  return wrong ? pnm_fail(p, name, wrong) : 1;
}

/* ---- writing ---- */

static inline int pnm__write(FILE *f, const picture *p) {
  const int64_t row = p->width * p->channels;
  fprintf(f, "P%c\n%lld %lld\n%lld\n", p->channels == 1 ? '5' : '6', (long long)p->width,
          (long long)p->height, (long long)p->maxval);
  for (int64_t y = 0; y < p->height && !ferror(f); ++y) {
    for (int64_t i = 0; i < row; ++i) {
      const int64_t v = p->samples[y * row + i];
      if (p->maxval > 255) fputc((int)(v >> 8), f);
      fputc((int)(v & 255), f);
    }
  }
  return !ferror(f);
}

/* Under another name until it is complete: `name` is never half a picture. */
static inline int pnm_save(const char *name, const picture *p) {
  const size_t room = strlen(name) + sizeof ".tmp";
  struct stat there;
  if (stat(name, &there) == 0 && !S_ISREG(there.st_mode)) {
    return pnm_fail(p, name, "is not a file");
  }
  char *temporary = (char *)malloc(room);
  if (!temporary) return pnm_fail(p, name, "not enough memory");
  snprintf(temporary, room, "%s.tmp", name);
  FILE *f = fopen(temporary, "wbx"); /* x: a file that is there already is somebody's */
  if (!f) {
    pnm_fail(p, temporary, strerror(errno));
    free(temporary);
    return 0;
  }
  const int written = pnm__write(f, p);
  const int closed = fclose(f) == 0;
  const int good = written && closed && rename(temporary, name) == 0;
  if (!good) {
    pnm_fail(p, name, strerror(errno));
    remove(temporary);
  }
  free(temporary);
  return good;
}

#endif /* PNM_IO_H */
