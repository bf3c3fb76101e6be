/*
 * What surrounds a call: the floating-point mode of each thread, calls from many threads, from
 * inside parallel regions and after fork(), any number of threads. One piece of work that goes
 * through every family of functions gives one hash of all it writes, which must not change.
 * TEST_PTHREADS: pthreads and fork may be used.
 */
#if defined(TEST_PTHREADS) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#ifdef TEST_PTHREADS
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

/* ---- the work -------------------------------------------------------------------------------- */

enum { ROWS = 150, COLS = 600, DEEP = 20, LINE = 2200000, SMALL = 60, RESULTS = 3 };

typedef struct work {
  box x, b, bias, doubles, half, line, whole; /* inputs, shared by all that work */
  gpured_options options;
} work;

static work work_make(gpured_backend backend, int kind, int threads) {
  static const int64_t x[2] = {ROWS, COLS}, b[2] = {COLS, DEEP}, line = LINE;
  work w;
  w.x = box_filled(GPURED_F32, 2, x, LAYOUT_C, kind, 1);
  w.b = box_filled(GPURED_F32, 2, b, LAYOUT_C, OR_UNIFORM, 2);
  w.bias = box_filled(GPURED_F32, 1, x, LAYOUT_C, kind, 3);
  w.doubles = box_filled(GPURED_F64, 1, x, LAYOUT_C, kind, 3);
  w.half = box_filled(GPURED_F16, 2, x, LAYOUT_C, OR_WIDE, 4);
  w.line = box_filled(GPURED_F32, 1, &line, LAYOUT_C, kind, 5);
  w.whole = box_filled(GPURED_I32, 2, x, LAYOUT_C, OR_WIDE, 6);
  w.options = options_for(backend, 0, 0, threads);
  return w;
}

static void work_free(work *w) {
  box_free(&w->x);
  box_free(&w->b);
  box_free(&w->bias);
  box_free(&w->doubles);
  box_free(&w->half);
  box_free(&w->line);
  box_free(&w->whole);
}

/* FNV-1a: integers alone, so that the mode in which it runs does not matter. */
static uint64_t hash_of(uint64_t hash, const void *data, size_t bytes) {
  const unsigned char *p = (const unsigned char *)data;
  size_t i;
  for (i = 0; i < bytes; ++i) hash = (hash ^ p[i]) * UINT64_C(1099511628211);
  return hash;
}

/* One reduction, its status and its bytes added to the hash. */
static uint64_t reduced(uint64_t hash, const work *w, gpured_op op, const gpured_tensor *in,
                        uint32_t axes, gpured_dtype dtype) {
  double y[COLS];
  int64_t shape[GPURED_MAX_NDIM];
  int ndim = reduced_shape(in, axes, 0, shape);
  gpured_tensor out = gpured_array(y, dtype, ndim, shape, NULL);
  int status;
  memset(y, 0, sizeof y);
  status = (int)gpured_reduce(op, in, axes, &out, &w->options);
  hash = hash_of(hash, &status, sizeof status);
  return hash_of(hash, y, (size_t)gen_count(&out) * gpured_dtype_size(dtype));
}

static uint64_t scanned(uint64_t hash, const work *w, gpured_op op, const gpured_tensor *in,
                        int axis, unsigned flags) {
  size_t bytes = (size_t)gen_count(in) * gpured_dtype_size((gpured_dtype)in->dtype);
  gpured_tensor out = *in;
  int status;
  out.data = calloc(bytes, 1);
  status = (int)gpured_scan(op, in, axis, flags, &out, &w->options);
  hash = hash_of(hash, &status, sizeof status);
  hash = hash_of(hash, out.data, bytes);
  free(out.data);
  return hash;
}

static int refused; /* was a product, in whatever thread? */

/* A product with everything that an epilogue has; alpha must be rounded to f32. */
static uint64_t multiplied(uint64_t hash, const work *w, int axis) {
  static const gpured_op op[RESULTS] = {GPURED_NORM2, GPURED_LOGSUMEXP, GPURED_ARGMAX};
  static const gpured_op small[2] = {GPURED_MEAN, GPURED_SUMSQ};
  double y[RESULTS][ROWS];
  gpured_result results[RESULTS];
  gpured_gemm g = gpured_default_gemm();
  int i, status;
  memset(y, 0, sizeof y);
  for (i = 0; i < RESULTS; ++i) {
    results[i].op = (int32_t)op[i];
    results[i].out =
        gpured_vector(y[i], op[i] == GPURED_ARGMAX ? GPURED_I64 : GPURED_F32, axis ? ROWS : DEEP);
  }
  g.a = &w->x.t;
  g.b = &w->b.t;
  g.axis = axis;
  g.alpha = 0.1;
  g.bias_m = &w->bias.t;
  g.map = GPURED_MAP_ABS;
  g.count = RESULTS;
  g.results = results;
  status = (int)gpured_gemm_reduce_ex(&g, &w->options);
  if (status != GPURED_OK) refused = 1;
  hash = hash_of(hash_of(hash, &status, sizeof status), y, sizeof y);
  for (i = 0; i < 2; ++i) {
    status = (int)gpured_gemm_reduce(small[i], g.a, g.b, axis, &results[0].out, &w->options);
    if (status != GPURED_OK) refused = 1;
    hash = hash_of(hash_of(hash, &status, sizeof status), y, sizeof y);
  }
  return hash;
}

static uint64_t one_liners(uint64_t hash, const work *w) {
  const float *x = (const float *)w->x.t.data;
  const double *d = (const double *)w->doubles.t.data;
  float f[4], rows[SMALL], sums[SMALL * SMALL];
  double e[4];
  int64_t i[2];
  int status[3];
  f[0] = gpured_sum_f32(x, SMALL), f[1] = gpured_mean_f32(x, SMALL);
  f[2] = gpured_min_f32(x, SMALL), f[3] = gpured_max_f32(x, (size_t)ROWS * COLS);
  e[0] = gpured_sum_f64(d, ROWS), e[1] = gpured_mean_f64(d, ROWS);
  e[2] = gpured_min_f64(d, ROWS), e[3] = gpured_max_f64(d, ROWS);
  i[0] = gpured_argmin_f32(x, SMALL), i[1] = gpured_argmax_f64(d, ROWS);
  status[0] = (int)gpured_sum_rows_f32(x, SMALL, SMALL, rows);
  hash = hash_of(hash, rows, sizeof rows);
  status[1] = (int)gpured_sum_cols_f32(x, SMALL, SMALL, rows);
  status[2] = (int)gpured_cumsum_f32(x, sums, SMALL * SMALL);
  hash = hash_of(hash_of(hash, rows, sizeof rows), sums, sizeof sums);
  hash = hash_of(hash_of(hash, f, sizeof f), e, sizeof e);
  return hash_of(hash_of(hash, i, sizeof i), status, sizeof status);
}

/* Everything but the long line, which is there for the threads that scan one line together. */
static uint64_t work_short(const work *w) {
  static const gpured_op op[] = {GPURED_SUM, GPURED_MEAN, GPURED_NORM2, GPURED_STD,
                                 GPURED_LOGSUMEXP};
  uint64_t hash = UINT64_C(14695981039346656037);
  int i;
  for (i = 0; i < COUNT(op); ++i) {
    hash = reduced(hash, w, op[i], &w->x.t, 1, GPURED_F32);
    hash = reduced(hash, w, op[i], &w->x.t, 2, GPURED_F32);
    hash = reduced(hash, w, op[i], &w->x.t, 3, GPURED_F16);
    hash = reduced(hash, w, op[i], &w->half.t, 2, GPURED_BF16);
  }
  hash = reduced(hash, w, GPURED_MEAN, &w->whole.t, 2, GPURED_F32);
  hash = reduced(hash, w, GPURED_ARGMIN, &w->x.t, 2, GPURED_I64);
  hash = scanned(hash, w, GPURED_SUM, &w->x.t, 0, 0);
  hash = scanned(hash, w, GPURED_PROD, &w->x.t, 1, GPURED_SCAN_EXCLUSIVE);
  hash = scanned(hash, w, GPURED_LOGSUMEXP, &w->x.t, 1, GPURED_SCAN_REVERSE);
  hash = multiplied(multiplied(hash, w, 0), w, 1);
  return w->options.backend == GPURED_BACKEND_CPU ? one_liners(hash, w) : hash;
}

static uint64_t work_all(const work *w) {
  return scanned(work_short(w), w, GPURED_SUM, &w->line.t, 0, 0);
}

/* ---- the caller's floating-point mode -------------------------------------------------------- */

/* Roundings and, where the processor has it, subnormals flushed to zero, as in a program linked
 * with -ffast-math. */
enum { MODE_PLAIN, MODE_UPWARD, MODE_DOWNWARD, MODE_ZERO, MODE_FLUSH, MODE_BOTH, MODES };

static void set_flush(int on) {
#if defined(__SSE2__) && defined(__GNUC__)
  __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~0x8040u) | (on ? 0x8040u : 0));
#elif defined(__aarch64__) && defined(__GNUC__)
  uint64_t fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  fpcr = (fpcr & ~(UINT64_C(1) << 24)) | (uint64_t)on << 24;
  __asm__ volatile("msr fpcr, %0" : : "r"(fpcr));
#elif defined(__arm__) && defined(__ARM_FP) && defined(__GNUC__)
  uint32_t fpscr;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(fpscr));
  fpscr = (fpscr & ~(UINT32_C(1) << 24)) | (uint32_t)on << 24;
  __asm__ volatile("vmsr fpscr, %0" : : "r"(fpscr));
#else
  (void)on;
#endif
}

static void set_mode(int mode) {
  static const int rounding[MODES] = {FE_TONEAREST,  FE_UPWARD,    FE_DOWNWARD,
                                      FE_TOWARDZERO, FE_TONEAREST, FE_UPWARD};
  fesetround(rounding[mode]);
  set_flush(mode == MODE_FLUSH || mode == MODE_BOTH);
}

/* All of the mode, without the flags of past exceptions. */
static uint64_t read_mode(void) {
  uint64_t mode = (uint64_t)fegetround() << 32;
#if defined(__SSE2__) && defined(__GNUC__)
  mode |= __builtin_ia32_stmxcsr() & 0xffc0u;
#elif defined(__aarch64__) && defined(__GNUC__)
  uint64_t fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  mode |= fpcr;
#elif defined(__arm__) && defined(__ARM_FP) && defined(__GNUC__)
  uint32_t fpscr;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(fpscr));
  mode |= fpscr & 0x03f79f00u;
#endif
  return mode;
}

/* A query computes too. */
static void query(const work *w) {
  size_t bytes;
  gpured_tensor out = gpured_vector(NULL, GPURED_F32, ROWS);
  gpured_options o = w->options;
  (void)gpured_gemm_reduce_workspace(GPURED_NORM2, &w->x.t, &w->b.t, 1, &out, &o, &bytes);
  (void)gpured_reduce_workspace(GPURED_STD, &w->x.t, 2, &out, &o, &bytes);
  (void)gpured_scan_workspace(GPURED_SUM, &w->x.t, 1, 0, &w->x.t, &o, &bytes);
}

static void test_mode(gpured_backend backend) {
  static const int kinds[] = {OR_UNIFORM, OR_TINY};
  int k, mode;
  for (k = 0; k < COUNT(kinds); ++k) {
    work w = work_make(backend, kinds[k], 3);
    uint64_t want = work_all(&w), got, before, after;
    CHECK(!refused, "kind %d: a product was refused", kinds[k]);
    for (mode = 0; mode < MODES; ++mode) {
      gpured_status self;
      set_mode(mode);
      before = read_mode();
      got = work_all(&w);
      query(&w);
      self = gpured_selftest();
      after = read_mode();
      set_mode(MODE_PLAIN);
      CHECK(got == want, "kind %d: other bits in mode %d", kinds[k], mode);
      CHECK(self == GPURED_OK, "the self-test in mode %d says %s", mode,
            gpured_status_string(self));
      CHECK(before == after, "mode %d: was 0x%llx, is 0x%llx after the calls", mode,
            (unsigned long long)before, (unsigned long long)after);
    }
    work_free(&w);
  }
}

#ifdef _OPENMP
enum { TEAM = 3 };
static int known; /* is this the thread of before? A team may be made anew. */
#pragma omp threadprivate(known)

static void set_modes_of_team(void) {
#pragma omp parallel num_threads(TEAM)
  {
    const int me = omp_get_thread_num();
    set_mode(me == 0 ? MODE_DOWNWARD : me == 1 ? MODE_FLUSH : MODE_UPWARD);
    known = 1;
  }
}

/* 0 for a thread that was not there before; all modes are plain afterwards. */
static void take_modes_of_team(uint64_t *mode) {
#pragma omp parallel num_threads(TEAM)
  {
    const int me = omp_get_thread_num();
    mode[me] = known ? read_mode() : 0;
    known = 0;
    set_mode(MODE_PLAIN);
  }
  set_mode(MODE_PLAIN);
}

/* Each thread of OpenMP's team has a mode of its own from earlier work of the user's. GNU's runtime
 * keeps it from one region to the next; LLVM's does not, which is not ours to change either. */
static void test_mode_of_workers(gpured_backend backend) {
  work w = work_make(backend, OR_TINY, TEAM);
  uint64_t kept[TEAM] = {0}, after[TEAM] = {0}, want = work_all(&w), got;
  int i;
  set_modes_of_team();
  take_modes_of_team(kept);
  set_modes_of_team();
  got = work_all(&w);
  take_modes_of_team(after);
  CHECK(got == want, "other bits with modes of the workers' own");
  for (i = 0; i < TEAM; ++i)
    CHECK(kept[i] == after[i] || !kept[i] || !after[i], "worker %d: its mode was 0x%llx, is 0x%llx",
          i, (unsigned long long)kept[i], (unsigned long long)after[i]);
  work_free(&w);
}
#endif

/* ---- threads --------------------------------------------------------------------------------- */

/* One options value, call after call. */
static void test_repeated(gpured_backend backend) {
  work w = work_make(backend, OR_UNIFORM, 0);
  uint64_t first = work_all(&w);
  int i;
  for (i = 0; i < 5; ++i) CHECK(work_all(&w) == first, "call %d has other bits", i);
  work_free(&w);
}

/* The bits for every number of threads, also far more than there are processors. */
static void test_thread_counts(gpured_backend backend) {
  work w = work_make(backend, OR_UNIFORM, 1);
  const uint64_t one = work_all(&w);
  int n;
  for (n = 2; n <= 64; n += n < 10 ? 1 : 9) {
    w.options.threads = n;
    CHECK(work_all(&w) == one, "%d threads give other bits", n);
  }
#ifdef _OPENMP
  {
    const int before = omp_get_max_threads();
    uint64_t few;
    w.options.threads = 1;
    few = work_short(&w);
    w.options.threads = 0;
    for (n = 1; n <= 64; ++n) {
      omp_set_num_threads(n); /* what OMP_NUM_THREADS sets */
      CHECK(work_short(&w) == few, "OMP_NUM_THREADS=%d: other bits", n);
      CHECK(omp_get_max_threads() == n, "OpenMP's number of threads was changed");
    }
    omp_set_num_threads(before);
  }
#endif
  work_free(&w);
}

#ifdef TEST_PTHREADS
enum { WORKERS = 8, ROUNDS = 4 };

/* Inputs and options are shared by all. */
typedef struct worker {
  const work *w;
  uint64_t want;
  int wrong;
} worker;

static void *work_on(void *argument) {
  worker *self = (worker *)argument;
  int i;
  for (i = 0; i < ROUNDS; ++i) self->wrong += work_short(self->w) != self->want;
  return NULL;
}

static void test_pthreads(gpured_backend backend) {
  work w = work_make(backend, OR_UNIFORM, 0);
  worker each[WORKERS], first;
  pthread_t threads[WORKERS];
  int i, started, team;
  first.w = &w;
  first.want = work_short(&w);
  first.wrong = 0;
  for (team = 1; team <= 3; team += 2) {
    w.options.threads = team;
    for (i = 0; i < WORKERS; ++i) {
      each[i] = first;
      if (pthread_create(&threads[i], NULL, work_on, &each[i]) != 0) break;
    }
    started = i;
    for (i = 0; i < started; ++i) {
      CHECK(pthread_join(threads[i], NULL) == 0, "thread %d cannot be joined", i);
      CHECK(each[i].wrong == 0, "thread %d of %d, each with %d: %d results wrong", i, WORKERS, team,
            each[i].wrong);
    }
    CHECK(started == WORKERS, "only %d threads could be started", started);
  }
  work_free(&w);
}

/* What a child says of itself, or that it hangs. Where there is a GPU its parent has used it, and
 * CUDA does not work in the child of such a process: no self-test there. */
static int ask_child(const work *w, uint64_t want) {
  const int has_gpu = gpured_cuda_available();
  int status = -1;
  pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    alarm(60);
    _exit(work_all(w) == want && (has_gpu || gpured_selftest() == GPURED_OK) ? 0 : 1);
  }
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A child has none of the threads that OpenMP still counts on. */
static void test_fork(gpured_backend backend) {
  work w = work_make(backend, OR_UNIFORM, 3);
  const uint64_t want = work_all(&w);
  int threads, said;
  for (threads = 0; threads <= 3; ++threads) {
    w.options.threads = threads;
    said = ask_child(&w, want);
    CHECK(said == 0, "a child that asks for %d threads: %s %d", threads,
          said >= 1000 ? "ended by signal" : "exit code", said % 1000);
    CHECK(work_all(&w) == want, "the parent after it");
  }
  work_free(&w);
}
#endif

#ifdef _OPENMP
/* From inside a parallel region, and from one inside another; no call changes OpenMP's settings. */
static void test_openmp(gpured_backend backend) {
  work w = work_make(backend, OR_UNIFORM, 3);
  const uint64_t want = work_short(&w);
  const int before = omp_get_max_threads(), dynamic = omp_get_dynamic(),
            active = omp_get_max_active_levels();
  int levels, wrong;
  for (levels = 1; levels <= 3; ++levels) {
    omp_set_max_active_levels(levels);
    wrong = 0;
#pragma omp parallel num_threads(4) reduction(+ : wrong)
    wrong += work_short(&w) != want;
    CHECK(wrong == 0, "%d active levels: %d results wrong inside a region", levels, wrong);
#pragma omp parallel num_threads(2) reduction(+ : wrong)
    {
#pragma omp parallel num_threads(2) reduction(+ : wrong)
      wrong += work_short(&w) != want;
    }
    CHECK(wrong == 0, "%d active levels: %d results wrong in nested regions", levels, wrong);
    CHECK(omp_get_max_active_levels() == levels, "the levels of parallel regions were changed");
  }
  omp_set_max_active_levels(active);
  CHECK(work_short(&w) == want, "after the parallel regions");
  CHECK(omp_get_max_threads() == before && omp_get_dynamic() == dynamic,
        "OpenMP's settings were changed");
  work_free(&w);
}
#endif

const test_case env_tests[] = {{"env_mode", test_mode, 0},
#ifdef _OPENMP
                               {"env_mode_of_workers", test_mode_of_workers, 0},
                               {"env_openmp", test_openmp, 0},
#endif
                               {"env_repeated", test_repeated, 0},
                               {"env_thread_counts", test_thread_counts, T_HOST},
#ifdef TEST_PTHREADS
                               {"env_pthreads", test_pthreads, 0},
                               {"env_fork", test_fork, T_HOST},
#endif
                               {NULL, NULL, 0}};
