/* What the fuzz targets share; see fuzz.h. */
#define _POSIX_C_SOURCE 200809L /* setenv(), posix_memalign() */
#include "fuzz.h"

#include <fenv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* ---- failures -------------------------------------------------------------------------------- */

static char current[2048];

/* What the sanitizers call when they have something to report. */
void __asan_on_error(void);
void __ubsan_on_report(void);
const char *__lsan_default_suppressions(void);

static void print_case(void) { fprintf(stderr, "case: %s\n", current); }
void __asan_on_error(void) { print_case(); }
void __ubsan_on_report(void) { print_case(); }

/* The OpenMP library keeps what it has of its threads. */
const char *__lsan_default_suppressions(void) { return "leak:libomp\n"; }

void case_is(const char *format, ...) {
  static int print = -1;
  va_list args;
  if (print < 0) print = getenv("GPURED_FUZZ_PRINT") != NULL;
  va_start(args, format);
  vsnprintf(current, sizeof current, format, args);
  va_end(args);
  if (print) print_case();
}

void test_fail(const char *file, int line, const char *format, ...) {
  va_list args;
  print_case();
  fprintf(stderr, "FAILED %s:%d: ", file, line);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "\n");
  abort();
}
int test_mine(void) { return 1; }

/* ---- numbers --------------------------------------------------------------------------------- */

uint64_t take(fuzz_bytes *in, int count) {
  uint64_t v = 0;
  for (; count > 0 && in->left > 0; --count, --in->left) v = v << 8 | *in->p++;
  return v;
}

int64_t take_in(fuzz_bytes *in, int64_t lo, int64_t hi) {
  const uint64_t range = (uint64_t)hi - (uint64_t)lo;
  const int bytes = range < 256 ? 1 : range < 65536 ? 2 : 8;
  return range == UINT64_MAX ? (int64_t)take(in, 8) : lo + (int64_t)(take(in, bytes) % (range + 1));
}

int take_one_in(fuzz_bytes *in, int n) { return take(in, 1) % (uint64_t)n == (uint64_t)(n - 1); }

/* ---- tensors --------------------------------------------------------------------------------- */

int64_t take_extent(fuzz_bytes *in, int64_t most) {
  static const int64_t borders[] = {63,   64,   65,   96,   127,  128,  129,  160,
                                    255,  256,  257,  384,  511,  513,  1023, 1024,
                                    1025, 1281, 2047, 2049, 3073, 4096, 4097, 8193};
  const int b = (int)take(in, 1);
  const int64_t n = b < 160 ? b % 40 : borders[b % COUNT(borders)];
  return n < most ? n : most;
}

int take_shape(fuzz_bytes *in, int most, int64_t *shape, int64_t elements) {
  const int ndim = (int)take_in(in, 0, most);
  int i;
  for (i = 0; i < ndim; ++i) {
    shape[i] = take_extent(in, elements);
    if (shape[i] > 0) elements /= shape[i];
  }
  return ndim;
}

/* Strides that need not keep to any order; they are 0 where the tensor would reach too far. */
static void take_strides(fuzz_bytes *in, int ndim, const int64_t *shape, int64_t *strides) {
  int64_t room = 20000;
  int i;
  for (i = ndim - 1; i >= 0; --i) {
    int64_t reach;
    strides[i] = (int8_t)take(in, 1);
    if (strides[i] == 127) strides[i] = (int64_t)take(in, 2);
    reach = (strides[i] < 0 ? -strides[i] : strides[i]) * (shape[i] > 0 ? shape[i] - 1 : 0);
    if (reach > room)
      strides[i] = 0;
    else
      room -= reach;
  }
}

static box take_box(fuzz_bytes *in, int dtype, int ndim, const int64_t *shape, int output) {
  int64_t strides[GPURED_MAX_NDIM];
  /* A box_input of ZERO has strides of 0, which an output must not have. */
  const int how = (int)take_in(in, 0, output ? LAYOUT_ZERO : LAYOUT_COUNT);
  if (how == LAYOUT_COUNT || (output && how == LAYOUT_ZERO)) {
    take_strides(in, ndim, shape, strides);
    return box_strided(dtype, ndim, shape, strides, (size_t)take_in(in, 0, 15), output);
  }
  if (output) return box_output(dtype, ndim, shape, (layout)how, take(in, 1));
  return box_input(dtype, ndim, shape, (layout)how, take(in, 1));
}

/* Data of a kind of gen.h, with a few elements replaced by any patterns. */
box take_input(fuzz_bytes *in, int dtype, int ndim, const int64_t *shape) {
  box b = take_box(in, dtype, ndim, shape, 0);
  const int kind = (int)take_in(in, 0, OR_KINDS - 1);
  const int64_t n = gen_count(&b.t);
  int pokes = (int)take_in(in, 0, 7);
  oracle_fill(&b.t, kind, take(in, 2));
  for (; n > 0 && pokes > 0; --pokes) {
    const int64_t at = (int64_t)(take(in, 2) % (uint64_t)n);
    gen_poke(&b.t, gen_offset(&b.t, at), take(in, gen_format_of(dtype).bits / 8));
  }
  return b;
}

box take_output(fuzz_bytes *in, int dtype, int ndim, const int64_t *shape) {
  return take_box(in, dtype, ndim, shape, 1);
}

unsigned char *copy_of(const box *b) {
  unsigned char *copy = (unsigned char *)malloc(b->bytes);
  if (!copy) abort();
  memcpy(copy, b->memory, b->bytes);
  return copy;
}

/* ---- overlap --------------------------------------------------------------------------------- */

static int compare_addresses(const void *a, const void *b) {
  const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
  return (x > y) - (x < y);
}

/* Where each element starts, in ascending order; free() gives it back. */
static uintptr_t *addresses(const gpured_tensor *t, int64_t n) {
  uintptr_t *at = (uintptr_t *)malloc((size_t)(n + 1) * sizeof *at);
  int64_t i;
  if (!at) abort();
  for (i = 0; i < n; ++i) at[i] = (uintptr_t)element(t, i);
  qsort(at, (size_t)n, sizeof *at, compare_addresses);
  return at;
}

int shares_with_itself(const gpured_tensor *t) {
  const int64_t n = gen_count(t);
  const uintptr_t size = gpured_dtype_size((gpured_dtype)t->dtype);
  uintptr_t *at = addresses(t, n);
  int64_t i;
  int found = 0;
  for (i = 1; i < n && !found; ++i) found = at[i] < at[i - 1] + size;
  free(at);
  return found;
}

int shares_with(const gpured_tensor *t, const gpured_tensor *other) {
  const int64_t n = gen_count(t), m = gen_count(other);
  const uintptr_t size = gpured_dtype_size((gpured_dtype)t->dtype),
                  other_size = gpured_dtype_size((gpured_dtype)other->dtype);
  uintptr_t *a = addresses(t, n), *b = addresses(other, m);
  int64_t i = 0, j = 0;
  int found = 0;
  while (i < n && j < m && !found) {
    found = a[i] < b[j] + other_size && b[j] < a[i] + size;
    if (a[i] < b[j])
      ++i;
    else
      ++j;
  }
  free(a);
  free(b);
  return found;
}

int strides_in_order(const gpured_tensor *t) {
  int i, j, done[GPURED_MAX_NDIM] = {0};
  int64_t reach = 0;
  for (i = 0; i < t->ndim; ++i) {
    int least = -1;
    for (j = 0; j < t->ndim; ++j)
      if (!done[j] && (least < 0 || llabs(t->strides[j]) < llabs(t->strides[least]))) least = j;
    done[least] = 1;
    if (t->shape[least] <= 1) continue;
    if (llabs(t->strides[least]) <= reach) return 0;
    reach += llabs(t->strides[least]) * (t->shape[least] - 1);
  }
  return 1;
}

/* ---- settings -------------------------------------------------------------------------------- */

static void *hook_alloc(void *user, size_t bytes, void *stream) {
  fuzz_setting *s = (fuzz_setting *)user;
  (void)stream;
  ++s->allocated;
  if (s->source == FROM_FAILING_HOOKS) {
    ++s->failed;
    return NULL;
  }
  ++s->live;
  return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void hook_dealloc(void *user, void *p, size_t bytes, void *stream) {
  (void)bytes;
  (void)stream;
  --((fuzz_setting *)user)->live;
  free(p);
}

int32_t fuzz_backend = GPURED_BACKEND_AUTO;

void take_setting(fuzz_bytes *in, fuzz_setting *s, int acc, int ddof) {
  static const int several[] = {2, 3, 4, 7, 0};
  int threads = 1;
  memset(s, 0, sizeof *s);
  s->level = (int)take_in(in, 0, 3);
  s->mode = take_one_in(in, 8) ? (int)take_in(in, 0, 15) : 0;
  s->source = take_one_in(in, 4) ? (int)take_in(in, 0, SOURCES - 1) : FROM_MALLOC;
  /* Threads cost more than all the rest of a small case. */
  if (take_one_in(in, 16)) threads = several[take_in(in, 0, COUNT(several) - 1)];
  s->o = gpured_default_options();
  if (threads != 1 || take_one_in(in, 2)) s->o = options_for(GPURED_BACKEND_CPU, 0, 0, threads);
  if (take_one_in(in, 4)) s->o.precision = (int32_t)take_in(in, 0, 2);
  s->o.acc_dtype = acc;
  s->o.ddof = ddof;
  s->level_name = fuzz_set_paths(s->level, threads != 1);
  if (fuzz_backend != GPURED_BACKEND_CUDA) return;
  s->o.backend = fuzz_backend;
  s->o.precision = GPURED_PRECISION_STRICT;
  s->source = FROM_MALLOC; /* the tensors are the host's: the device's memory is not the caller's */
}

const char *setting_text(const fuzz_setting *s) {
  static const char *const sources[] = {"malloc",          "hooks",           "failing hooks",
                                        "exact workspace", "small workspace", "large workspace"};
  return text("%s, threads %d, precision %d, fp mode %d, memory from %s", s->level_name,
              s->o.threads, s->o.precision, s->mode, sources[s->source]);
}

/* Rounding in two bits, then flushing of results and of operands to zero. */
static void set_mode(int mode) {
#if defined(__SSE2__)
  _mm_setcsr(
      (unsigned)(0x1f80 | (mode & 3) << 13 | (mode & 4 ? 0x8000 : 0) | (mode & 8 ? 0x40 : 0)));
#else
  static const int rounding[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
  fesetround(rounding[mode & 3]);
#endif
}

static int get_mode(void) {
#if defined(__SSE2__)
  const unsigned csr = _mm_getcsr();
  return (int)(csr >> 13 & 3) | (csr & 0x8000 ? 4 : 0) | (csr & 0x40 ? 8 : 0);
#else
  return -1;
#endif
}

void setting_enter(fuzz_setting *s, size_t bytes) {
  /* Larger than what any case needs for itself, with room for the reductions inside of it. */
  static _Alignas(64) unsigned char large[6 << 20];
  if (s->source == FROM_HOOKS || s->source == FROM_FAILING_HOOKS) {
    s->o.alloc = hook_alloc;
    s->o.dealloc = hook_dealloc;
    s->o.user = s;
  } else if (s->source == FROM_LARGE_WORKSPACE) {
    s->o.workspace = large;
    s->o.workspace_bytes = sizeof large;
  } else if (s->source != FROM_MALLOC && bytes > 0) {
    if (posix_memalign(&s->space, 64, bytes)) abort(); /* to the byte, for the sanitizer */
    s->o.workspace = s->space;
    s->o.workspace_bytes = bytes - (s->source == FROM_SMALL_WORKSPACE);
  }
  if (s->mode) set_mode(s->mode);
}

void setting_leave(fuzz_setting *s) {
  const int mode = s->mode ? get_mode() : 0;
  if (s->mode) set_mode(0);
  CHECK(mode == -1 || mode == s->mode, "floating-point mode %d after the call", mode);
  CHECK(s->live == 0, "%d pieces of memory were not given back", s->live);
  free(s->space);
  s->space = NULL;
}

/* ---- libFuzzer ------------------------------------------------------------------------------- */

int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Idle threads of the OpenMP library sleep at once: several processes share the processor. */
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  setenv("KMP_BLOCKTIME", "0", 0);
  return 0;
}
