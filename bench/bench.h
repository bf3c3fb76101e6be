/*
 * The benchmark's shared declarations. A row is one measurement (a line of the table); a contender
 * is one way of doing it: gpured, a peer, or a ceiling that nothing can beat. All contenders of a
 * row run in turn on the same buffers in the same rounds, because only ratios from one round mean
 * anything.
 *
 *   bench.c          command line, rounds, table, CSV
 *   bench_rows.c     what the rows are, their data, contenders and goals
 *   bench_peers.c    the peers: plain loops, OpenBLAS, and the hand-written kernels put to work
 *   bench_hand.c     the hand-written kernels (bench_vec.h is their body), chosen at run time
 *   bench_ceiling.c  read, copy and FMA ceilings
 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "gpured.h"

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
#define BENCH_X86 1
#else
#define BENCH_X86 0
#endif

enum { MAX_CONTENDERS = 12, MAX_ROUNDS = 25, MAX_SAMPLES = 1024, MAX_THREADS = 64 };

typedef enum row_kind {
  ROW_REDUCE,
  ROW_CALL,     /* one small gpured_reduce, many times: the cost of a call */
  ROW_ONELINER, /* the same through gpured_sum_rows_f32, gpured_sum_cols_f32 */
  ROW_SCAN,
  ROW_GEMM
} row_kind;

/* What a row asks for, as its name says: kind:dtype:op:shape[:axis][@threads]. */
typedef struct row_spec {
  row_kind kind;
  gpured_dtype dtype;
  gpured_op op;
  int acc64; /* f32 input, f64 accumulator */
  int ndim;  /* GEMM: always 4, batch M N K */
  int64_t shape[4];
  int axis;    /* -1: all of them */
  int threads; /* 0 until the driver puts --threads there: the row's name ends with "@" */
  char name[96];
} row_spec;

/* A row with its buffers: what every contender's function is given. */
typedef struct job {
  row_spec spec;
  const void *x; /* the input; GEMM: A, and B right behind it */
  const void *b;
  void *out;
  void *scratch;    /* peers' memory, zeroed once */
  const void *ones; /* for gemv */
  size_t in_count, out_count, in_bytes, out_bytes, scratch_bytes;
  gpured_dtype out_dtype;
  double bytes, flops; /* of the row's own work; flops is 0 where bytes count */
  int repeat;          /* calls per run, for rows too short to time one by one */
  uint32_t axes;
  gpured_tensor in_tensor, b_tensor, out_tensor;
  gpured_options options, one_thread;
} job;

typedef enum contender_kind { OURS, OURS_ONE_THREAD, PEER, CEILING } contender_kind;

typedef struct contender {
  const char *name;
  contender_kind kind;
  void (*run)(const job *j);
  double work;      /* bytes or flops of one run */
  int blas_threads; /* what OpenBLAS is told before it runs; 0: it is not used */
  int abs_check;    /* its result is that of the absolute values (sasum) */
} contender;

/* 0 in a field: not asked. */
typedef struct goal {
  double ceiling, peer, ns;
  int not_slower; /* than one thread */
} goal;

/* --- bench_rows.c --- */
extern const char *const builtin_rows[];
/* The rows of --sweep, in an array that lasts. */
const char *const *sweep_rows(void);
/* Reads a row's name; 0, or -1 with *why set. */
int spec_parse(const char *text, row_spec *spec, const char **why);
void spec_shrink(row_spec *spec);
void spec_name(row_spec *spec);
/* The memory the row needs, in bytes. */
double spec_memory(const row_spec *spec);
void job_open(job *j, const row_spec *spec);
void job_close(job *j);
void jobs_end(void);
/* `blas`: OpenBLAS is there. The number of contenders, gpured first. */
int job_contenders(const job *j, int blas, contender *list);
goal job_goal(const job *j);
/* Expected values at `count` sampled outputs where the row can be computed directly: 1, else 0. */
int job_reference(const job *j, double *ref, size_t count);
void run_ours(const job *j);

/* --- bench_peers.c --- */
typedef struct peers_info {
  int blas; /* 1: OpenBLAS was found */
  char core[32];
} peers_info;
peers_info peers_open(const char *openblas_path);
void peers_close(void);
void blas_use_threads(int threads);
int blas_has_sum(gpured_dtype dtype);

void plain_flat(const job *j);
void plain_arg(const job *j);
void plain_sum64(const job *j);
void plain_narrow(const job *j);
void plain_matrix(const job *j);
void plain_call(const job *j);
void plain_logsumexp(const job *j);
void plain_scan(const job *j);
void hand_flat(const job *j);
void hand_matrix(const job *j);
void hand_scan(const job *j);
void hand_scan_columns(const job *j);
void hand_product_sum(const job *j);
void simd_inscan(const job *j);
void blas_sum(const job *j);
void blas_asum(const job *j);
void blas_dot(const job *j);
void blas_iamax(const job *j);
void blas_gemv(const job *j);
void blas_gemm_then_max(const job *j);
void blas_gemm_split(const job *j);
void blas_product_sum(const job *j);

/* --- bench_ceiling.c --- */
void ceiling_read(const job *j);
void ceiling_read_places(const job *j);
void ceiling_copy(const job *j);
void ceiling_stream(const job *j);
void ceiling_fma(const job *j);
double ceiling_fma_flops(const job *j);
/* Splits [0, n) at multiples of `unit` over the threads and calls fn for every part. */
typedef void (*part_fn)(const void *context, int part, size_t begin, size_t end);
void in_parts(int threads, size_t n, size_t unit, part_fn fn, const void *context);
extern volatile double bench_sink;

/* --- bench_hand.c: one table for f32, one for f64, of the best level this processor has --- */
typedef struct vec_kernels {
  size_t lanes, block; /* elements in a vector; in the accumulators of `columns` */
  double (*sum)(const void *x, size_t n);
  double (*min)(const void *x, size_t n);
  double (*max)(const void *x, size_t n);
  double (*sumsq)(const void *x, size_t n);
  /* out[i % cols] += x[i]; cols divides block */
  void (*columns)(const void *x, size_t n, size_t cols, void *out);
  /* acc[j] += or max= or fma= (by u[row]) the rows of x; NULL u where it is not used */
  void (*add_rows)(const void *x, size_t rows, size_t stride, size_t cols, const void *u,
                   void *acc);
  void (*max_rows)(const void *x, size_t rows, size_t stride, size_t cols, const void *u,
                   void *acc);
  void (*fma_rows)(const void *x, size_t rows, size_t stride, size_t cols, const void *u,
                   void *acc);
  /* running sum; returns the carry; `stream` uses non-temporal stores (y aligned to a vector) */
  double (*scan)(const void *x, void *y, size_t n, double carry, int stream);
  void (*inscan)(const void *x, void *y, size_t n); /* the compiler's; NULL without OpenMP */
  double (*fma_peak)(size_t rounds);
  size_t fma_chains;
  /* Sums of short rows, NULL where there is no special code for this width. */
  void (*short_rows)(const void *x, size_t rows, size_t cols, void *out);
} vec_kernels;

const vec_kernels *vec_for(gpured_dtype dtype);
double vec_sum_f32_as_f64(const float *x, size_t n);
uint64_t vec_read(const void *x, size_t bytes);
uint64_t vec_read_places(const void *x, size_t bytes);
void vec_stream_copy(void *to, const void *from, size_t bytes);
const char *vec_level(void);

#endif /* BENCH_H */
