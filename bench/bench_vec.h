/*
 * The body of the hand-written kernels, included by bench_hand.c once for each level and type with
 * T, V, W (lanes), LEVEL, ATTR and the V_ operations defined; it undefines them at its end. The
 * sums are in free order with eight accumulators: what a user would write who asks for speed alone.
 */
#define PASTE2(a, b) a##_##b
#define PASTE(a, b) PASTE2(a, b)
#define FN(name) PASTE(name, LEVEL)

#define S_ADD(a, b) ((a) + (b))
#define S_SQUARE(a, b) ((a) + (b) * (b))
#define S_MIN(a, b) ((b) < (a) ? (b) : (a))
#define S_MAX(a, b) ((b) > (a) ? (b) : (a))
#define V_SQUARE(a, b) V_FMA(b, b, a)

#define REDUCE(NAME, START, V_STEP, V_MERGE, S_STEP, S_MERGE)                               \
  static ATTR double FN(NAME)(const void *data, size_t n) {                                 \
    const T *x = (const T *)data;                                                           \
    V a0 = V_SET1(START), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0, v; \
    T lane[W], r;                                                                           \
    size_t i, l;                                                                            \
    for (i = 0; n - i >= 8 * W; i += 8 * W) {                                               \
      v = V_LOAD(x + i), a0 = V_STEP(a0, v);                                                \
      v = V_LOAD(x + i + W), a1 = V_STEP(a1, v);                                            \
      v = V_LOAD(x + i + 2 * W), a2 = V_STEP(a2, v);                                        \
      v = V_LOAD(x + i + 3 * W), a3 = V_STEP(a3, v);                                        \
      v = V_LOAD(x + i + 4 * W), a4 = V_STEP(a4, v);                                        \
      v = V_LOAD(x + i + 5 * W), a5 = V_STEP(a5, v);                                        \
      v = V_LOAD(x + i + 6 * W), a6 = V_STEP(a6, v);                                        \
      v = V_LOAD(x + i + 7 * W), a7 = V_STEP(a7, v);                                        \
    }                                                                                       \
    for (; n - i >= W; i += W) v = V_LOAD(x + i), a0 = V_STEP(a0, v);                       \
    a0 = V_MERGE(a0, a1), a2 = V_MERGE(a2, a3), a4 = V_MERGE(a4, a5), a6 = V_MERGE(a6, a7); \
    a0 = V_MERGE(a0, a2), a4 = V_MERGE(a4, a6), a0 = V_MERGE(a0, a4);                       \
    V_STORE(lane, a0);                                                                      \
    for (r = lane[0], l = 1; l < W; ++l) r = S_MERGE(r, lane[l]);                           \
    for (; i < n; ++i) r = S_STEP(r, x[i]);                                                 \
    return (double)r;                                                                       \
  }

REDUCE(sum, 0, V_ADD, V_ADD, S_ADD, S_ADD)
REDUCE(min, x[0], V_MIN, V_MIN, S_MIN, S_MIN)
REDUCE(max, x[0], V_MAX, V_MAX, S_MAX, S_MAX)
REDUCE(sumsq, 0, V_SQUARE, V_ADD, S_SQUARE, S_ADD)

/* Few columns: the accumulators hold whole rows, so this is the flat sum with another last step. */
static ATTR void FN(columns)(const void *data, size_t n, size_t cols, void *result) {
  const T *x = (const T *)data;
  T *out = (T *)result, lane[8 * W];
  V a0 = V_SET1(0), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0;
  size_t i, l;
  for (i = 0; n - i >= 8 * W; i += 8 * W) {
    a0 = V_ADD(a0, V_LOAD(x + i)), a1 = V_ADD(a1, V_LOAD(x + i + W));
    a2 = V_ADD(a2, V_LOAD(x + i + 2 * W)), a3 = V_ADD(a3, V_LOAD(x + i + 3 * W));
    a4 = V_ADD(a4, V_LOAD(x + i + 4 * W)), a5 = V_ADD(a5, V_LOAD(x + i + 5 * W));
    a6 = V_ADD(a6, V_LOAD(x + i + 6 * W)), a7 = V_ADD(a7, V_LOAD(x + i + 7 * W));
  }
  V_STORE(lane, a0), V_STORE(lane + W, a1), V_STORE(lane + 2 * W, a2), V_STORE(lane + 3 * W, a3);
  V_STORE(lane + 4 * W, a4), V_STORE(lane + 5 * W, a5);
  V_STORE(lane + 6 * W, a6), V_STORE(lane + 7 * W, a7);
  for (l = 0; l < 8 * W; ++l) out[l % cols] = out[l % cols] + lane[l];
  for (; i < n; ++i) out[i % cols] = out[i % cols] + x[i];
}

/* Many columns: four rows at a time onto a strip of accumulators that stays in the L1. */
#define ROWS(NAME, STEP4, S_STEP)                                                         \
  static ATTR void FN(NAME)(const void *data, size_t rows, size_t stride, size_t cols,    \
                            const void *weights, void *accumulators) {                    \
    const T *x = (const T *)data, *u = (const T *)weights;                                \
    T *acc = (T *)accumulators;                                                           \
    size_t i, j;                                                                          \
    (void)u;                                                                              \
    for (i = 0; rows - i >= 4; i += 4) {                                                  \
      const T *r = x + i * stride, *s = r + stride, *t = s + stride, *w = t + stride;     \
      for (j = 0; cols - j >= W; j += W) {                                                \
        V a = V_LOAD(acc + j);                                                            \
        V v0 = V_LOAD(r + j), v1 = V_LOAD(s + j), v2 = V_LOAD(t + j), v3 = V_LOAD(w + j); \
        V_STORE(acc + j, STEP4(a, v0, v1, v2, v3));                                       \
      }                                                                                   \
      for (; j < cols; ++j) {                                                             \
        acc[j] = S_STEP(acc[j], r[j], 0), acc[j] = S_STEP(acc[j], s[j], 1);               \
        acc[j] = S_STEP(acc[j], t[j], 2), acc[j] = S_STEP(acc[j], w[j], 3);               \
      }                                                                                   \
    }                                                                                     \
    for (; i < rows; ++i)                                                                 \
      for (j = 0; j < cols; ++j) acc[j] = S_STEP(acc[j], x[i * stride + j], 0);           \
  }

#define ADD4(a, p, q, r, s) V_ADD(a, V_ADD(V_ADD(p, q), V_ADD(r, s)))
#define MAX4(a, p, q, r, s) V_MAX(a, V_MAX(V_MAX(p, q), V_MAX(r, s)))
#define FMA4(a, p, q, r, s)  \
  V_FMA(V_SET1(u[i + 3]), s, \
        V_FMA(V_SET1(u[i + 2]), r, V_FMA(V_SET1(u[i + 1]), q, V_FMA(V_SET1(u[i]), p, a))))
#define S_ADD_ROW(a, b, k) ((a) + (b))
#define S_MAX_ROW(a, b, k) S_MAX(a, b)
#define S_FMA_ROW(a, b, k) ((a) + u[i + (k)] * (b))

ROWS(add_rows, ADD4, S_ADD_ROW)
ROWS(max_rows, MAX4, S_MAX_ROW)
ROWS(fma_rows, FMA4, S_FMA_ROW)

static ATTR double FN(scan)(const void *in, void *out, size_t n, double before, int stream) {
  const T *x = (const T *)in;
  T *y = (T *)out, lane[W];
  V carry = V_SET1((T)before);
  size_t i;
  for (i = 0; n - i >= W; i += W) {
    V v = V_SCAN(V_LOAD(x + i));
    V r = V_ADD(v, carry);
    carry = V_ADD(carry, V_LAST(v));
    if (stream)
      V_STREAM(y + i, r);
    else
      V_STORE(y + i, r);
  }
  V_FENCE();
  V_STORE(lane, carry);
  for (; i < n; ++i) y[i] = lane[0] = lane[0] + x[i];
  return (double)lane[0];
}

#if BENCH_INSCAN
static ATTR void FN(inscan)(const void *in, void *out, size_t n) {
  const T *x = (const T *)in;
  T *y = (T *)out, s = 0;
  size_t i;
#pragma omp simd reduction(inscan, + : s)
  for (i = 0; i < n; ++i) {
    s += x[i];
#pragma omp scan inclusive(s)
    y[i] = s;
  }
}
#endif

/* Twelve chains cover four cycles of latency on two units, and fit sixteen registers. They start
 * from different values: a compiler merges chains that are alike. */
static ATTR double FN(fma_peak)(size_t rounds) {
  V m = V_SET1((T)0.9990234375), c = V_SET1((T)0.0009765625);
  V a0 = V_SET1(0), a1 = V_SET1(1), a2 = V_SET1(2), a3 = V_SET1(3), a4 = V_SET1(4);
  V a5 = V_SET1(5), a6 = V_SET1(6), a7 = V_SET1(7), a8 = V_SET1(8), a9 = V_SET1(9);
  V a10 = V_SET1(10), a11 = V_SET1(11);
  T lane[W], r = 0;
  size_t i;
  for (i = 0; i < rounds; ++i) {
    a0 = V_FMA(a0, m, c), a1 = V_FMA(a1, m, c), a2 = V_FMA(a2, m, c), a3 = V_FMA(a3, m, c);
    a4 = V_FMA(a4, m, c), a5 = V_FMA(a5, m, c), a6 = V_FMA(a6, m, c), a7 = V_FMA(a7, m, c);
    a8 = V_FMA(a8, m, c), a9 = V_FMA(a9, m, c), a10 = V_FMA(a10, m, c), a11 = V_FMA(a11, m, c);
  }
  a0 = V_ADD(V_ADD(a0, a1), V_ADD(a2, a3)), a4 = V_ADD(V_ADD(a4, a5), V_ADD(a6, a7));
  a8 = V_ADD(V_ADD(a8, a9), V_ADD(a10, a11));
  V_STORE(lane, V_ADD(V_ADD(a0, a4), a8));
  for (i = 0; i < W; ++i) r = r + lane[i];
  return (double)r;
}

static const vec_kernels FN(kernels) = {W,
                                        8 * W,
                                        FN(sum),
                                        FN(min),
                                        FN(max),
                                        FN(sumsq),
                                        FN(columns),
                                        FN(add_rows),
                                        FN(max_rows),
                                        FN(fma_rows),
                                        FN(scan),
#if BENCH_INSCAN
                                        FN(inscan),
#else
                                         NULL,
#endif
                                        FN(fma_peak),
                                        12,
                                        SHORT_ROWS};

#undef PASTE2
#undef PASTE
#undef FN
#undef S_ADD
#undef S_SQUARE
#undef S_MIN
#undef S_MAX
#undef V_SQUARE
#undef REDUCE
#undef ROWS
#undef ADD4
#undef MAX4
#undef FMA4
#undef S_ADD_ROW
#undef S_MAX_ROW
#undef S_FMA_ROW
#undef T
#undef V
#undef W
#undef LEVEL
#undef ATTR
#undef SHORT_ROWS
#undef V_SET1
#undef V_LOAD
#undef V_STORE
#undef V_STREAM
#undef V_FENCE
#undef V_ADD
#undef V_MIN
#undef V_MAX
#undef V_FMA
#undef V_SCAN
#undef V_LAST
