/*
 * Mixed operations on four streams at once, for as long as wanted:
 *
 *     cuda_soak [SECONDS]
 *
 * Each stream belongs to a thread, which goes through the cases below in an order of its own and
 * compares every result by bits with the CPU's (of products on tensor cores: with the first one).
 * Prints how many results there were and one hash of what all of them were: it is the same for
 * every run and every GPU, but for the tensor cores' part, which stands apart. Without a device
 * that is one skipped test, or a failure where GPURED_REQUIRE_CUDA=1 asks for one.
 */
#include "../gpured.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <time.h>

#include "golden_case.h"

enum { STREAMS = 4, TENSORS = 5 + GPURED_MAX_RESULTS, TENSOR_CASES = 3 };

/* Lines of the golden file without results. The last TENSOR_CASES run on tensor cores. */
static const char *const lines[] = {
    "reduce sum f32 - f32 16777216 0 0 c uniform 1",
    "reduce max f16 - f16 4000x4096 1 0 c wide 2",
    "reduce argmax f32 - i64 1000x7777 0 0 c ties 3",
    "reduce logsumexp f32 - f32 30000x300 1 0 c exp 4",
    "reduce var f64 - f64 3000x1111 0 0 c uniform 5",
    "reduce sum i8 - i64 16000000 0 0 c wide 6",
    "reduce mean bf16 - f32 100000x64 1 0 c uniform 7",
    "reduce norm2 f32 - f32 64x100x1000 02 0 c uniform 8",
    "reduce min f32 - f32 300x5 1 0 c special 9",
    "scan sum f32 - f32 8000000 0 - c uniform 10",
    "scan sum f32 - f32 2000x3000 0 - c uniform 11",
    "scan sum f64 - f64 4000000 0 er c uniform 12",
    "scan max f16 - f16 5000x1000 1 e c wide 13",
    "scan sum i64 - i64 3000000 0 r c wide 14",
    "scan prod f32 - f32 700x999 1 - c factor 15",
    "scan logsumexp f32 - f32 1000000 0 - c exp 16",
    "gemm max f32 - f32 3x300x200 3x200x150 0 none plain 1 - c uniform 17",
    "gemm argmin f32 - i64 2000x64 64x500 1 none l2 0 - c uniform 18",
    "gemm sum+max+logsumexp f64 - f64 500x300 300x400 0 abs plain 0.5 mn c "
    "uniform 19",
    "gemm sum f32 - f32 2x1000x300 2x300x700 0 none plain 1 - c uniform 20",
    "gemm max bf16 - f32 1024x1024 1024x1024 0 none plain 1 - c uniform 21",
    "gemm logsumexp f16 - f32 4x512x256 4x256x512 1 none plain 1 - c uniform "
    "22",
    "gemm argmax bf16 - i64 5000x64 64x900 1 none plain 1 - c uniform 23"};

enum { CASES = sizeof lines / sizeof *lines };

typedef struct soak_case {
  gold_case c;
  gold_job job; /* on the host, with the results that are right */
} soak_case;

static soak_case cases[CASES];
static time_t end;
static unsigned long failures; /* counted atomically */

typedef struct worker {
  int number;
  unsigned long results;
  cudaStream_t stream;
  gold_job jobs[CASES]; /* on the device */
  void *result;         /* memory of the host for any of them */
} worker;

static void must(cudaError_t error, const char *what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "cuda_soak: %s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}

static size_t bytes_of(const gpured_tensor *t) {
  return (size_t)gen_count(t) * gpured_dtype_size((gpured_dtype)t->dtype);
}

static gpured_status call(const gold_case *c, const gold_job *job, int number, void *stream) {
  gpured_options o = gpured_default_options();
  gpured_gemm g = gold_gemm(job);
  o.precision = number < CASES - TENSOR_CASES ? GPURED_PRECISION_STRICT : GPURED_PRECISION_AUTO;
  o.stream = stream;
  if (c->family == 'r')
    return gpured_reduce((gpured_op)c->ops[0], &job->a, c->axes, &job->results[0].out, &o);
  if (c->family == 's')
    return gpured_scan((gpured_op)c->ops[0], &job->a, (int)c->axes, c->flags, &job->results[0].out,
                       &o);
  return gpured_gemm_reduce_ex(&g, &o);
}

/* All tensors of a job that exist. */
static int tensors_of(gold_job *job, gpured_tensor **t) {
  gpured_tensor *all[] = {&job->a, &job->b, &job->bias_m, &job->bias_n, &job->c};
  int count = 0, i;
  for (i = 0; i < 5; ++i)
    if (all[i]->dtype) t[count++] = all[i];
  for (i = 0; i < GPURED_MAX_RESULTS; ++i)
    if (job->results[i].out.dtype) t[count++] = &job->results[i].out;
  return count;
}

static void move_to_device(const gold_job *from, gold_job *to) {
  gpured_tensor *t[TENSORS];
  int i, count;
  *to = *from;
  count = tensors_of(to, t);
  for (i = 0; i < count; ++i) {
    void *there = NULL;
    must(cudaMalloc(&there, bytes_of(t[i])), "memory");
    must(cudaMemcpy(there, t[i]->data, bytes_of(t[i]), cudaMemcpyHostToDevice), "copy");
    t[i]->data = there;
    t[i]->device = GPURED_CUDA_DEVICE;
  }
}

static void drop_from_device(gold_job *job) {
  gpured_tensor *t[TENSORS];
  int i, count = tensors_of(job, t);
  for (i = 0; i < count; ++i) must(cudaFree(t[i]->data), "free");
}

static void check_results(worker *w, int number) {
  int r;
  for (r = 0; r < cases[number].c.count; ++r) {
    const gpured_tensor *got = &w->jobs[number].results[r].out;
    const size_t bytes = bytes_of(got);
    must(cudaMemcpyAsync(w->result, got->data, bytes, cudaMemcpyDeviceToHost, w->stream), "fetch");
    must(cudaMemsetAsync(got->data, 0xa5, bytes, w->stream), "wipe");
    must(cudaStreamSynchronize(w->stream), "run");
    ++w->results;
    if (memcmp(w->result, cases[number].job.results[r].out.data, bytes) == 0) continue;
    if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) < 10)
      printf("FAIL %s: result %d differs on stream %d\n", lines[number], r, w->number);
  }
}

static void *work(void *context) {
  worker *w = (worker *)context;
  unsigned long round;
  for (round = 0; time(NULL) < end || round == 0; ++round) {
    int i;
    for (i = 0; i < CASES; ++i) { /* steps that share no factor with the number of cases */
      const int number = (int)((round + (unsigned long)(i * (2 * w->number + 1))) % CASES);
      const gpured_status st = call(&cases[number].c, &w->jobs[number], number, w->stream);
      if (st == GPURED_OK) {
        check_results(w, number);
      } else if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) < 10) {
        printf("FAIL %s: %s\n", lines[number], gpured_status_string(st));
      }
    }
  }
  return NULL;
}

/* The case, its tensors, and the results that every other one must equal. Returns the size of the
 * largest. */
static size_t prepare(int number) {
  soak_case *s = &cases[number];
  char text[256];
  const char *bad;
  size_t most = 0;
  int r;
  strcpy(text, lines[number]);
  bad = gold_read_case(text, &s->c);
  if (bad) gold_fail(bad);
  gold_start(&s->job, &s->c);
  if (number < CASES - TENSOR_CASES) {
    if (call(&s->c, &s->job, number, NULL) != GPURED_OK) gold_fail(lines[number]);
  } else {
    gold_job there;
    move_to_device(&s->job, &there);
    if (call(&s->c, &there, number, NULL) != GPURED_OK) gold_fail(lines[number]);
    for (r = 0; r < s->c.count; ++r)
      must(cudaMemcpy(s->job.results[r].out.data, there.results[r].out.data,
                      bytes_of(&there.results[r].out), cudaMemcpyDeviceToHost),
           "first results");
    drop_from_device(&there);
  }
  for (r = 0; r < s->c.count; ++r)
    if (bytes_of(&s->job.results[r].out) > most) most = bytes_of(&s->job.results[r].out);
  return most;
}

static uint64_t hash_of(int from, int to) {
  uint64_t h = 0;
  int i, r;
  for (i = from; i < to; ++i)
    for (r = 0; r < cases[i].c.count; ++r)
      h = h * UINT64_C(0x100000001b3) + oracle_hash(&cases[i].job.results[r].out);
  return h;
}

/* Without a device: what the last line says. */
static int without_device(void) {
  const char *required = getenv("GPURED_REQUIRE_CUDA");
  const int failed = required && strcmp(required, "1") == 0;
  printf("%s cuda_soak: no CUDA device\n", failed ? "FAIL" : "SKIP");
  printf("0 passed, %d failed, %d skipped\n", failed, !failed);
  return failed;
}

int main(int argc, char **argv) {
  static worker workers[STREAMS];
  pthread_t threads[STREAMS];
  const int seconds = argc > 1 ? atoi(argv[1]) : 10;
  unsigned long results = 0;
  size_t most = 0;
  int i, k;
  if (!gpured_cuda_available()) return without_device();
  for (i = 0; i < CASES; ++i) {
    const size_t bytes = prepare(i);
    if (bytes > most) most = bytes;
  }
  end = time(NULL) + seconds;
  for (k = 0; k < STREAMS; ++k) {
    workers[k].number = k;
    must(cudaStreamCreateWithFlags(&workers[k].stream, cudaStreamNonBlocking), "stream");
    must(cudaMallocHost(&workers[k].result, most), "memory");
    for (i = 0; i < CASES; ++i) move_to_device(&cases[i].job, &workers[k].jobs[i]);
    if (pthread_create(&threads[k], NULL, work, &workers[k]) != 0) gold_fail("no thread");
  }
  for (k = 0; k < STREAMS; ++k) {
    pthread_join(threads[k], NULL);
    results += workers[k].results;
    for (i = 0; i < CASES; ++i) drop_from_device(&workers[k].jobs[i]);
    must(cudaFreeHost(workers[k].result), "free");
    must(cudaStreamDestroy(workers[k].stream), "stream");
  }
  printf("%lu results on %d streams in %d s; hash %016llx, on tensor cores %016llx\n", results,
         (int)STREAMS, seconds, (unsigned long long)hash_of(0, CASES - TENSOR_CASES),
         (unsigned long long)hash_of(CASES - TENSOR_CASES, CASES));
  for (i = 0; i < CASES; ++i) gold_end(&cases[i].job);
  printf("%d passed, %d failed, 0 skipped\n", failures == 0, failures != 0);
  return failures != 0;
}
