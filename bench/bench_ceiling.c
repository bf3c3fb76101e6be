/*
 * The ceilings: what this machine can read, copy and multiply-add at best, on the row's own buffers
 * and number of threads. Also the one helper that splits work over threads, for ceilings and peers
 * alike.
 */
#include "bench.h"

#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

volatile double bench_sink;

static void one_part(size_t n, size_t unit, int parts, int part, part_fn fn, const void *context) {
  size_t units = (n + unit - 1) / unit, each = (units + (size_t)parts - 1) / (size_t)parts;
  size_t begin = (size_t)part * each * unit, end = begin + each * unit;
  if (end > n) end = n;
  if (begin < end) fn(context, part, begin, end);
}

/* A team that comes out smaller than asked still does every part. */
void in_parts(int threads, size_t n, size_t unit, part_fn fn, const void *context) {
#ifdef _OPENMP
  if (threads > 1) {
#pragma omp parallel num_threads(threads)
    {
      int part;
      for (part = omp_get_thread_num(); part < threads; part += omp_get_num_threads())
        one_part(n, unit, threads, part, fn, context);
    }
    return;
  }
#endif
  {
    int part;
    for (part = 0; part < threads; ++part) one_part(n, unit, threads, part, fn, context);
  }
}

/* Results go through memory that the compiler must believe in, so that no read can be dropped. */
static void read_part(const void *context, int part, size_t begin, size_t end) {
  const job *j = (const job *)context;
  (void)part;
  if (vec_read((const char *)j->x + begin, end - begin) == 1) bench_sink = 1;
}

static void read_places_part(const void *context, int part, size_t begin, size_t end) {
  const job *j = (const job *)context;
  (void)part;
  if (vec_read_places((const char *)j->x + begin, end - begin) == 1) bench_sink = 1;
}

static void copy_part(const void *context, int part, size_t begin, size_t end) {
  const job *j = (const job *)context;
  (void)part;
  memcpy((char *)j->out + begin, (const char *)j->x + begin, end - begin);
}

static void stream_part(const void *context, int part, size_t begin, size_t end) {
  const job *j = (const job *)context;
  (void)part;
  vec_stream_copy((char *)j->out + begin, (const char *)j->x + begin, end - begin);
}

enum { FMA_ROUNDS = 1 << 18 };

static void fma_part(const void *context, int part, size_t begin, size_t end) {
  const job *j = (const job *)context;
  (void)part, (void)begin, (void)end;
  if (vec_for(j->spec.dtype)->fma_peak(FMA_ROUNDS) < 0) bench_sink = 1;
}

void ceiling_read(const job *j) {
  int r;
  for (r = 0; r < j->repeat; ++r) in_parts(j->spec.threads, j->in_bytes, 4096, read_part, j);
}

void ceiling_read_places(const job *j) {
  int r;
  for (r = 0; r < j->repeat; ++r) in_parts(j->spec.threads, j->in_bytes, 4096, read_places_part, j);
}

void ceiling_copy(const job *j) { in_parts(j->spec.threads, j->in_bytes, 4096, copy_part, j); }

void ceiling_stream(const job *j) { in_parts(j->spec.threads, j->in_bytes, 4096, stream_part, j); }

void ceiling_fma(const job *j) {
  in_parts(j->spec.threads, (size_t)j->spec.threads, 1, fma_part, j);
}

double ceiling_fma_flops(const job *j) {
  const vec_kernels *k = vec_for(j->spec.dtype);
  return 2.0 * (double)FMA_ROUNDS * (double)(k->lanes * k->fma_chains) * (double)j->spec.threads;
}
