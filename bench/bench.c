/*
 * The benchmark's driver: reads the command line, runs the rows and prints them. Within a row the
 * contenders take turns, round after round, and medians over the rounds are compared: a machine
 * that changes its speed from minute to minute still gives honest ratios.
 */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

typedef struct settings {
  const char *csv, *filter, *openblas;
  int quick, list, verbose, sweep, threads;
  double seconds;
  const char **rows; /* from the command line; NULL: the built-in ones */
  int row_count;
} settings;

typedef struct timing {
  double seconds[MAX_ROUNDS], median, least, most;
  int rounds;
  long calls; /* runs in one sample */
  int slow;   /* many times slower than gpured: three rounds are enough */
} timing;

typedef struct tally {
  int rows, goals, met, wrong;
} tally;

static const char usage[] =
    "usage: gpured-bench [options] [ROW...]\n"
    "Times gpured beside the peers and the ceilings of this machine, interleaved, and prints "
    "medians.\n"
    "  ROW             kind:dtype:op:shape[:axis][@threads], in place of the built-in rows\n"
    "                    reduce:f32:sum:2^28   reduce:f32:sum:4096x4096:0@2   "
    "scan:f64:sum:1000000\n"
    "                    reduce:f32:sum64:2^28 (f64 accumulator)   gemm:f32:max:16x512x512x512\n"
    "                  kinds: reduce call oneliner scan gemm (BATCHxMxNxK, reduced over M)\n"
    "  --filter TEXT   only rows whose name contains TEXT\n"
    "  --threads N     threads of the rows whose name ends with a bare @ (default 2)\n"
    "  --sweep         rows for a plot: a few built-in ones with 1, 2, 3, 4, 6, 8, 12, 16 ... "
    "threads\n"
    "  --seconds S     time for the rounds of a row (default 1.5)\n"
    "  --csv FILE      also write every contender of every row there\n"
    "  --verbose       print every contender\n"
    "  --quick         shrink every row: shows that all of it works, measures nothing\n"
    "  --openblas PATH the OpenBLAS library to load\n"
    "  --list          print the rows and stop\n"
    "  --help          print this and stop\n";

/* ---- time -------------------------------------------------------------------------------------
 */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Threads of OpenMP go on spinning for some 15 ms after their work, those of OpenBLAS for 2, on the
 * cores that the next contender wants. (OpenBLAS's own limit is 2^26 ticks of the clock: more than
 * 30 ms where it ticks at 2 GHz. Between the calls of a turn 2 ms are as good.) */
static void settle(void) {
  struct timespec t = {0, 30000000};
  nanosleep(&t, NULL);
}

static double time_calls(const job *j, const contender *c, long calls) {
  double start = now();
  long i;
  for (i = 0; i < calls; ++i) c->run(j);
  return now() - start;
}

/* How many runs make a sample that the clock can measure well. */
static long calibrate(const job *j, const contender *c, double sample) {
  long calls = 1;
  for (;;) {
    double t = time_calls(j, c, calls);
    if (t >= sample) return calls;
    if (t > sample / 16) return (long)((double)calls * sample / t) + 1;
    calls *= 4;
  }
}

static double one_sample(const job *j, const contender *c, timing *t, double sample) {
  double work = sample / 4;
  if (c->blas_threads) blas_use_threads(c->blas_threads);
  if (j->spec.threads > 1) settle();
  if (t->calls > 1 || t->median < sample) {
    double start = now();
    do c->run(j);
    while (now() - start < work);
  }
  return time_calls(j, c, t->calls) / (double)t->calls;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void finish(timing *t) {
  double sorted[MAX_ROUNDS];
  int n = t->rounds;
  memcpy(sorted, t->seconds, sizeof sorted);
  qsort(sorted, (size_t)n, sizeof *sorted, by_value);
  t->median = n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
  t->least = sorted[0], t->most = sorted[n - 1];
}

/* ---- are the results the same? ----------------------------------------------------------------
 */
static double output(const job *j, size_t i) {
  switch (j->out_dtype) {
    case GPURED_F64:
      return ((const double *)j->out)[i];
    case GPURED_I64:
      return (double)((const int64_t *)j->out)[i];
    default:
      return (double)((const float *)j->out)[i];
  }
}

/* Runs once on an output full of NaNs (or of -1) and takes samples of what is there then. */
static void sampled_run(const job *j, const contender *c, double *values, size_t count) {
  size_t i;
  memset(j->out, 0xff, j->out_bytes);
  if (c->blas_threads) blas_use_threads(c->blas_threads);
  c->run(j);
  for (i = 0; i < count; ++i)
    values[i] = output(j, count < 2 ? 0 : (j->out_count - 1) * i / (count - 1));
}

static int exact_op(const job *j) {
  gpured_op op = j->spec.op;
  int select = op == GPURED_MIN || op == GPURED_MAX || op == GPURED_ARGMIN || op == GPURED_ARGMAX;
  return select && j->spec.kind == ROW_REDUCE;
}

static int agree(const job *j, const double *a, const double *b, size_t count) {
  /* Free orders in f32 lose digits in long sums; plain loops lose all of them. */
  double largest = 0, loose = j->in_count > (size_t)1 << 24 ? 1e-2 : 1e-3;
  size_t i;
  for (i = 0; i < count; ++i) largest = fabs(b[i]) > largest ? fabs(b[i]) : largest;
  for (i = 0; i < count; ++i) {
    double bound = loose * fabs(b[i]) + 1e-4 * largest;
    if (!(fabs(a[i] - b[i]) <= (exact_op(j) ? 0 : bound))) return 0;
  }
  return 1;
}

/* What c should give: the reference, or the sum of the absolute values. */
static const double *expected_of(const job *j, const contender *c, const double *ref) {
  static double abs_sum;
  if (!c->abs_check) return ref;
  gpured_reduce(GPURED_NORM1, &j->in_tensor, 1u, &j->out_tensor, NULL);
  abs_sum = output(j, 0);
  return &abs_sum;
}

/*
 * gpured against an independent value where there is one, the peers against gpured. A peer that is
 * wrong alone is left out of the race: releases of OpenBLAS have had such functions. Nobody
 * agreeing with gpured means that gpured is wrong. Returns the number of contenders left, *wrong
 * set if it is.
 */
static int check_results(const job *j, contender *list, int n, int *wrong) {
  static double ref[MAX_SAMPLES], got[MAX_SAMPLES];
  size_t limit = j->spec.kind == ROW_GEMM ? 8 : MAX_SAMPLES;
  size_t count = j->out_count < limit ? j->out_count : limit;
  int i, left = 0, peers = 0, good = 0, known = job_reference(j, ref, count);
  *wrong = 0;
  for (i = 0; i < n; ++i) {
    contender *c = &list[i];
    const double *expected;
    if (c->kind != CEILING) {
      sampled_run(j, c, got, count);
      if (i == 0 && !known) memcpy(ref, got, sizeof ref);
      expected = expected_of(j, c, ref);
      peers += c->kind == PEER;
      if (!agree(j, got, expected, count)) {
        fprintf(stderr, "bench: %s: %s gives %g, not %g%s\n", j->spec.name, c->name, got[0],
                expected[0], c->kind == PEER ? ": left out" : "");
        *wrong |= c->kind != PEER;
        if (c->kind == PEER) continue;
      }
      good += c->kind == PEER;
    }
    list[left++] = *c;
  }
  *wrong |= peers > 0 && good == 0;
  return left;
}

/* ---- a row ------------------------------------------------------------------------------------
 */
static void run_rounds(const job *j, const contender *list, timing *t, int n, const settings *s) {
  double sample = s->quick ? 1e-4 : 3e-3, start;
  int i, round, least = s->quick ? 2 : 5;
  for (i = 0; i < n; ++i) {
    memset(&t[i], 0, sizeof t[i]);
    if (list[i].blas_threads) blas_use_threads(list[i].blas_threads);
    t[i].calls = calibrate(j, &list[i], sample);
    t[i].median = time_calls(j, &list[i], t[i].calls) / (double)t[i].calls;
  }
  for (i = 0; i < n; ++i) t[i].slow = t[i].median / list[i].work > 3 * t[0].median / list[0].work;
  start = now();
  for (round = 0; round < MAX_ROUNDS; ++round) {
    if (round >= least && now() - start > s->seconds) break;
    for (i = 0; i < n; ++i) {
      if (t[i].slow && round >= 3) continue;
      t[i].seconds[t[i].rounds++] = one_sample(j, &list[i], &t[i], sample);
    }
    if (s->quick && round + 1 == least) break;
  }
  for (i = 0; i < n; ++i) finish(&t[i]);
}

/* The fastest contender of a kind, or -1. */
static int best_of(const contender *list, const timing *t, int n, contender_kind kind) {
  int i, best = -1;
  for (i = 0; i < n; ++i) {
    if (list[i].kind != kind) continue;
    if (best < 0 || list[i].work / t[i].median > list[best].work / t[best].median) best = i;
  }
  return best;
}

static double rate(const contender *c, const timing *t) { return 1e-9 * c->work / t->median; }

typedef struct verdict {
  int ceiling, peer, one_thread; /* positions in the list, or -1 */
  double to_ceiling, to_peer, to_one_thread, ns;
  char goal_text[80];
  const char *met; /* yes, NO, no peer, or - */
} verdict;

static void say_goal(goal g, char *text, size_t size) {
  size_t at = 0;
  text[0] = '\0';
  if (g.ns > 0) at += (size_t)snprintf(text + at, size - at, "<=%.0f ns ", g.ns);
  if (g.ceiling > 0) at += (size_t)snprintf(text + at, size - at, ">=%.2f ceiling ", g.ceiling);
  if (g.peer > 0) at += (size_t)snprintf(text + at, size - at, ">=%.2f peer ", g.peer);
  if (g.not_slower) at += (size_t)snprintf(text + at, size - at, ">=1 thread ");
  if (at == 0) snprintf(text, size, "- ");
  text[strlen(text) - 1] = '\0';
}

/* Two percent stand for the noise of "never slower with more threads", whose true ratio may be 1.
 */
static verdict judge(const job *j, const contender *list, const timing *t, int n) {
  verdict v;
  goal g = job_goal(j);
  int missed = 0;
  memset(&v, 0, sizeof v);
  v.ceiling = best_of(list, t, n, CEILING);
  v.peer = best_of(list, t, n, PEER);
  v.one_thread = best_of(list, t, n, OURS_ONE_THREAD);
  if (v.ceiling >= 0) v.to_ceiling = rate(&list[0], &t[0]) / rate(&list[v.ceiling], &t[v.ceiling]);
  if (v.peer >= 0) v.to_peer = rate(&list[0], &t[0]) / rate(&list[v.peer], &t[v.peer]);
  if (v.one_thread >= 0) v.to_one_thread = t[v.one_thread].median / t[0].median;
  v.ns = 1e9 * t[0].median / j->repeat;
  say_goal(g, v.goal_text, sizeof v.goal_text);
  missed |= g.ns > 0 && v.ns > g.ns;
  missed |= g.ceiling > 0 && v.to_ceiling < g.ceiling;
  missed |= g.peer > 0 && v.peer >= 0 && v.to_peer < g.peer;
  missed |= g.not_slower && v.one_thread >= 0 && v.to_one_thread < 0.98;
  v.met = missed                          ? "NO"
          : g.peer > 0 && v.peer < 0      ? "no peer"
          : strcmp(v.goal_text, "-") == 0 ? "-"
                                          : "yes";
  return v;
}

/* ---- printing ---------------------------------------------------------------------------------
 */
static void print_head(void) {
  printf("%-33s %17s %15s | %-17s %7s %5s | %-17s %7s %6s | %5s | %-29s %s\n", "row", "gpured",
         "slowest..best", "ceiling", "", "ratio", "best peer", "", "ratio", "vs 1T", "goal", "met");
}

static const char *unit_of(const job *j) { return j->flops > 0 ? "GF/s" : "GB/s"; }

static void print_rated(const contender *list, const timing *t, int which, double ratio,
                        int width) {
  if (which < 0)
    printf(" | %-17s %7s %*s", "-", "", width, "");
  else
    printf(" | %-17s %7.1f %*.2f", list[which].name, rate(&list[which], &t[which]), width, ratio);
}

static void print_row(const job *j, const contender *list, const timing *t, const verdict *v) {
  double ours = rate(&list[0], &t[0]), work = 1e-9 * list[0].work;
  char text[32];
  if (j->repeat == 1000)
    snprintf(text, sizeof text, "%.1f ns", v->ns);
  else
    snprintf(text, sizeof text, "%.1f %s", ours, unit_of(j));
  printf("%-33s %17s", j->spec.name, text);
  if (j->repeat == 1000)
    printf(" %6.1f..%-7.1f", 1e9 * t[0].most / j->repeat, 1e9 * t[0].least / j->repeat);
  else
    printf(" %6.1f..%-7.1f", work / t[0].most, work / t[0].least);
  print_rated(list, t, v->ceiling, v->to_ceiling, 5);
  print_rated(list, t, v->peer, v->to_peer, 6);
  if (v->one_thread >= 0)
    printf(" | %5.2f", v->to_one_thread);
  else
    printf(" | %5s", "");
  printf(" | %-29s %s\n", v->goal_text, v->met);
  fflush(stdout);
}

static void print_contenders(const contender *list, const timing *t, int n) {
  int i;
  for (i = 0; i < n; ++i)
    printf("    %-20s %9.2f  (%.2f..%.2f, %d rounds of %ld)\n", list[i].name, rate(&list[i], &t[i]),
           1e-9 * list[i].work / t[i].most, 1e-9 * list[i].work / t[i].least, t[i].rounds,
           t[i].calls);
}

static const char *kind_text(contender_kind kind) {
  static const char *const text[] = {"gpured", "gpured-1-thread", "peer", "ceiling"};
  return text[kind];
}

/* Times are of one run of the row's own work. */
static void write_csv(FILE *f, const job *j, const contender *list, const timing *t, int n,
                      const verdict *v) {
  double ours = rate(&list[0], &t[0]);
  int i;
  for (i = 0; i < n; ++i) {
    double per = 1.0 / j->repeat;
    if (list[i].run == ceiling_fma) per = j->flops / list[i].work;
    fprintf(f, "%s,\"%s\",%s,%d,%.0f,%.0f,%d,%.6e,%.6e,%.6e,%.4f,%s,%.4f,\"%s\",%s\n", j->spec.name,
            list[i].name, kind_text(list[i].kind),
            list[i].kind == OURS_ONE_THREAD ? 1 : j->spec.threads, j->bytes, j->flops, t[i].rounds,
            t[i].median * per, t[i].least * per, t[i].most * per, rate(&list[i], &t[i]), unit_of(j),
            ours / rate(&list[i], &t[i]), i == 0 ? v->goal_text : "", i == 0 ? v->met : "");
  }
  fflush(f);
}

/* ---- the run ----------------------------------------------------------------------------------
 */
static void progress(const char *name, int at, int of, double since) {
  if (isatty(STDERR_FILENO))
    fprintf(stderr, "\r\033[K[%d/%d] %.0f s %s", at, of, now() - since, name);
  else
    fprintf(stderr, "[%d/%d] %.0f s %s\n", at, of, now() - since, name);
}

static void progress_end(void) {
  if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
}

static void run_row(const row_spec *spec, const settings *s, int blas, FILE *csv, tally *sum) {
  contender list[MAX_CONTENDERS];
  timing t[MAX_CONTENDERS];
  verdict v;
  job j;
  int n, wrong;
  job_open(&j, spec);
  n = job_contenders(&j, blas, list);
  settle();
  n = check_results(&j, list, n, &wrong);
  sum->wrong += wrong;
  run_rounds(&j, list, t, n, s);
  v = judge(&j, list, t, n);
  progress_end();
  print_row(&j, list, t, &v);
  if (s->verbose) print_contenders(list, t, n);
  if (csv) write_csv(csv, &j, list, t, n, &v);
  ++sum->rows;
  sum->goals += strcmp(v.met, "yes") == 0 || strcmp(v.met, "NO") == 0;
  sum->met += strcmp(v.met, "yes") == 0;
  job_close(&j);
}

/* The processor's name, where the system tells it. */
static void processor_name(char *name, size_t size) {
  FILE *f = fopen("/proc/cpuinfo", "r");
  char line[256];
  snprintf(name, size, "unknown processor");
  while (f && fgets(line, sizeof line, f)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    snprintf(name, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    break;
  }
  if (f) fclose(f);
}

static int threads_possible(void) {
#ifdef _OPENMP
  return omp_get_num_procs();
#else
  return 1;
#endif
}

/* Reads a row and decides whether it runs: 1 yes, 0 no; exits on a name that makes no sense. */
static int choose_row(const char *text, const settings *s, row_spec *spec) {
  const char *why;
  int bare;
  if (spec_parse(text, spec, &why)) {
    fprintf(stderr, "bench: row %s: %s\n", text, why);
    exit(1);
  }
  bare = spec->threads == 0;
  if (bare) spec->threads = s->threads;
  spec_name(spec);
  if (s->filter && !strstr(spec->name, s->filter)) return 0;
  if (bare && s->threads < 2) return 0;
  if (spec->threads > 1 && spec->threads > threads_possible()) return 0;
  if (s->quick) spec_shrink(spec);
  if (spec_memory(spec) > 6e9) {
    fprintf(stderr, "bench: row %s: needs more than 6 GB\n", spec->name);
    exit(1);
  }
  return 1;
}

static void print_notes(const peers_info *peers, int quick) {
  printf("gpured %u, level %s; hand-written peers: %s; processors: %d\n", gpured_version(),
         gpured_cpu_level(), vec_level(), threads_possible());
  if (peers->blas)
    printf("OpenBLAS: kernels %s\n", peers->core[0] ? peers->core : "unknown");
  else
    printf(
        "OpenBLAS: not found, its rows are missing (Debian, Ubuntu: libopenblas0-pthread; Fedora: "
        "openblas-threads)\n");
  if (threads_possible() < 2)
    printf(
        "threads: rows with more than one are left out (one processor, or built without OpenMP)\n");
  if (quick) printf("--quick: shrunken rows, too few rounds: these figures mean nothing\n");
  printf(
      "GB/s count every byte read and written once; ratios above 1 mean that gpured is faster\n\n");
}

/* A comment that says what ran, and the columns' names. */
static FILE *open_csv(const char *path) {
  FILE *f = fopen(path, "w");
  char processor[128];
  if (!f) {
    fprintf(stderr, "bench: %s: %s\n", path, strerror(errno));
    return NULL;
  }
  processor_name(processor, sizeof processor);
  fprintf(f,
          "# %s, %d processors, %s\n"
          "row,contender,kind,threads,bytes,flops,rounds,median_s,min_s,max_s,rate,unit,"
          "gpured_over_this,goal,met\n",
          processor, threads_possible(), gpured_cpu_level());
  return f;
}

static int run_all(const settings *s) {
  const char *const *rows = s->row_count ? s->rows : s->sweep ? sweep_rows() : builtin_rows;
  FILE *csv = NULL;
  row_spec spec;
  tally sum = {0, 0, 0, 0};
  peers_info peers;
  int i, at = 0, of = 0, failed = 0;
  double start = now();
  for (i = 0; rows[i]; ++i) {
    if (!choose_row(rows[i], s, &spec)) continue;
    ++of;
    if (s->list) puts(spec.name);
  }
  if (s->list) return 0;
  if (of == 0) {
    fprintf(stderr, "bench: no row to run\n");
    return 1;
  }
  if (s->csv && !(csv = open_csv(s->csv))) return 1;
  peers = peers_open(s->openblas);
  print_notes(&peers, s->quick);
  print_head();
  for (i = 0; rows[i]; ++i) {
    if (!choose_row(rows[i], s, &spec)) continue;
    progress(spec.name, ++at, of, start);
    run_row(&spec, s, peers.blas, csv, &sum);
  }
  jobs_end();
  peers_close();
  printf("\n%d rows, %d of %d goals met, %d rows with a wrong result, %.0f s\n", sum.rows, sum.met,
         sum.goals, sum.wrong, now() - start);
  if (csv) failed = ferror(csv) != 0, failed |= fclose(csv) != 0;
  if (failed) fprintf(stderr, "bench: %s: not written completely\n", s->csv);
  return failed || sum.wrong > 0;
}

/* ---- the command line -------------------------------------------------------------------------
 */
static int bad_usage(const char *what, const char *argument) {
  fprintf(stderr, "bench: %s %s (see --help)\n", what, argument);
  return 1;
}

static double number(const char *text, double low, double high) {
  char *end;
  double value = strtod(text, &end);
  return end != text && *end == '\0' && value >= low && value <= high ? value : -1;
}

/* Sets the option that takes a value: 1 done, 0 no such option, -1 bad value. */
static int set_value(settings *s, const char *name, const char *value) {
  double x;
  if (strcmp(name, "--csv") == 0) return s->csv = value, 1;
  if (strcmp(name, "--filter") == 0) return s->filter = value, 1;
  if (strcmp(name, "--openblas") == 0) return s->openblas = value, 1;
  if (strcmp(name, "--threads") == 0) {
    x = number(value, 1, MAX_THREADS);
    return s->threads = (int)x, x < 0 ? -1 : 1;
  }
  if (strcmp(name, "--seconds") == 0) {
    x = number(value, 0, 3600);
    return s->seconds = x, x < 0 ? -1 : 1;
  }
  return 0;
}

static int set_flag(settings *s, const char *name) {
  if (strcmp(name, "--quick") == 0) return s->quick = 1;
  if (strcmp(name, "--sweep") == 0) return s->sweep = 1;
  if (strcmp(name, "--list") == 0) return s->list = 1;
  if (strcmp(name, "--verbose") == 0) return s->verbose = 1;
  return 0;
}

static int read_arguments(int argc, char **argv, settings *s) {
  int i, known;
  for (i = 1; i < argc; ++i) {
    if (argv[i][0] != '-') {
      s->rows[s->row_count++] = argv[i];
      continue;
    }
    if (set_flag(s, argv[i])) continue;
    known = set_value(s, argv[i], i + 1 < argc ? argv[i + 1] : "");
    if (known == 0) return bad_usage("unknown option", argv[i]);
    if (known < 0 || i + 1 == argc) return bad_usage("bad or missing value of", argv[i]);
    ++i;
  }
  return 0;
}

int main(int argc, char **argv) {
  settings s;
  int i, rc;
  memset(&s, 0, sizeof s);
  s.threads = 2, s.seconds = 1.5;
  for (i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--help") == 0) return fputs(usage, stdout) < 0;
  }
  s.rows = (const char **)calloc((size_t)argc + 1, sizeof *s.rows);
  if (!s.rows) return bad_usage("no memory for", "the arguments");
  rc = read_arguments(argc, argv, &s);
  if (rc == 0) rc = run_all(&s);
  free(s.rows);
  return rc;
}
