/*
 * What the CUDA backend adds to the suite: tensors on the device, streams, captured graphs, its
 * error contract. The results of everything else are compared there and here with the same oracle.
 */
#include "util.h"

#ifdef TEST_CUDA
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#define RUN(call) \
  CHECK((call) == cudaSuccess, "%s: %s", #call, cudaGetErrorString(cudaPeekAtLastError()))

/* A copy of a host tensor on the device, with its layout; shift: elements off the alignment. */
typedef struct copy {
  gpured_tensor t;
  char *memory;
  const box *host;
  size_t shift;
} copy;

static copy to_device(const box *b, int shift) {
  copy c;
  c.t = b->t;
  c.host = b;
  c.memory = NULL;
  c.shift = (size_t)shift * gpured_dtype_size((gpured_dtype)b->t.dtype);
  RUN(cudaMalloc((void **)&c.memory, b->bytes + c.shift));
  RUN(cudaMemcpy(c.memory + c.shift, b->memory, b->bytes, cudaMemcpyHostToDevice));
  c.t.data = c.memory + c.shift + ((unsigned char *)b->t.data - b->memory);
  c.t.device = GPURED_CUDA_DEVICE;
  return c;
}

static void from_device(const copy *c) {
  RUN(cudaMemcpy(c->host->memory, c->memory + c->shift, c->host->bytes, cudaMemcpyDeviceToHost));
}

static void drop(copy *c) { RUN(cudaFree(c->memory)); }

static gpured_options stream_options(cudaStream_t stream) {
  gpured_options o = gpured_default_options();
  o.stream = stream;
  return o;
}

/* ---- results ------------------------------------------------------------------------------------ */

/* The memory of a call as its query names it, which knows of no address. */
static void take_workspace(gpured_options *o, gpured_status asked, size_t bytes) {
  CHECK(asked == GPURED_OK, "query: status %d", (int)asked);
  if (bytes == 0) return;
  RUN(cudaMalloc(&o->workspace, bytes));
  RUN(cudaMemset(o->workspace, 0xcd, bytes));
  o->workspace_bytes = bytes;
}

static void reduce_acc_there(int kind, int layout, int op, int dtype, int acc, int dims,
                             const int64_t *shape, uint32_t axes, int shift) {
  int64_t out_shape[GPURED_MAX_NDIM];
  int out = usual_output(op, dtype), ndim;
  box in, got, want;
  copy din, dout;
  gpured_options o = stream_options(NULL);
  gpured_tensor nowhere, empty;
  gpured_status st;
  size_t bytes = 0;
  const char *name;
  if (!test_mine()) return;
  o.acc_dtype = acc;
  in = box_filled(dtype, dims, shape, layout, kind, (uint64_t)(shape[0] + shape[dims - 1]));
  ndim = reduced_shape(&in.t, axes, 0, out_shape);
  got = box_output(out, ndim, out_shape, LAYOUT_C, 0);
  want = box_output(out, ndim, out_shape, LAYOUT_C, 0);
  name = text("%s of %s axes %u shift %d on the device", op_name(op), describe(&in.t), axes, shift);
  oracle_reduce((gpured_op)op, &in.t, axes, &want.t, acc, 0);
  din = to_device(&in, shift);
  dout = to_device(&got, 0);
  nowhere = din.t;
  empty = dout.t;
  nowhere.data = empty.data = NULL;
  st = gpured_reduce_workspace((gpured_op)op, &nowhere, axes, &empty, &o, &bytes);
  take_workspace(&o, st, bytes);
  st = gpured_reduce((gpured_op)op, &din.t, axes, &dout.t, &o);
  CHECK(st == GPURED_OK, "%s: status %d", name, (int)st);
  from_device(&dout);
  expect_same(&got, &want.t, name);
  RUN(cudaFree(o.workspace));
  drop(&din);
  drop(&dout);
  box_free(&in);
  box_free(&got);
  box_free(&want);
}

static void reduce_shape_there(int kind, int layout, int op, int dtype, int dims,
                               const int64_t *shape, uint32_t axes, int shift) {
  reduce_acc_there(kind, layout, op, dtype, 0, dims, shape, axes, shift);
}

static void reduce_data_there(int kind, int layout, int op, int dtype, int64_t rows, int64_t cols,
                              uint32_t axes, int shift) {
  int64_t shape[2];
  shape[0] = rows;
  shape[1] = cols;
  reduce_shape_there(kind, layout, op, dtype, 2, shape, axes, shift);
}

static void reduce_there(int op, int dtype, int64_t rows, int64_t cols, uint32_t axes, int shift) {
  reduce_data_there(OR_UNIFORM, LAYOUT_C, op, dtype, rows, cols, axes, shift);
}

/* Shapes for each way through the kernels: a row for each thread, some rows to a tile, long rows,
 * rows in segments, columns wide, narrow and short; and rows that do not begin at 16 bytes. */
static void test_device_reduce(gpured_backend backend) {
  static const int64_t shapes[][2] = {
      {1000, 8},    {3001, 16},  {777, 64},    {515, 100},  {300, 256},  {99, 1024},  {40, 1500},
      {5, 4096},    {3, 100000}, {1, 3000000}, {5000, 4},   {70000, 64}, {64, 4096},  {4, 40000},
      {33, 1028},   {2049, 132}, {1, 16},      {900001, 4}, {2, 262148}, {16, 40000}, {17, 33000},
      {100, 32772}, {2000, 260}, {1300, 520},  {40, 16384}};
  static const int dtypes[] = {GPURED_F32,  GPURED_F64, GPURED_F16,
                               GPURED_BF16, GPURED_I8,  GPURED_I32};
  int i, j, k;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (k = 0; k < COUNT(all_ops); ++k) {
        if (j > 0 && (i + j + k) % 3 != 0) continue;
        if (shapes[i][0] * shapes[i][1] > 400000 && (i + k) % 4 != 0) continue;
        reduce_there(all_ops[k], dtypes[j], shapes[i][0], shapes[i][1], 2, 0);
        reduce_there(all_ops[k], dtypes[j], shapes[i][0], shapes[i][1], 1, 0);
        if (k % 5 == 0) reduce_there(all_ops[k], dtypes[j], shapes[i][0], shapes[i][1], 3, 1);
        if ((i + k) % 3 == 0)
          reduce_there(all_ops[k], dtypes[j], shapes[i][0], shapes[i][1], 1u + (uint32_t)k % 2, 1);
      }
}

/* The same ways for rows of no multiple of 16 bytes, beginning at any element: few columns, which
 * are read 16 rows at a time, with and without a rest; strips that lose a few; short ones. */
static void test_device_ragged(gpured_backend backend) {
  static const int64_t shapes[][2] = {
      {1000, 3},  {3001, 7},    {777, 61},    {515, 101}, {300, 257},   {99, 1001},   {40, 1503},
      {5, 4099},  {3, 100003},  {1, 3000001}, {70001, 3}, {9000, 7},    {2049, 33},   {600, 127},
      {300, 255}, {4, 40001},   {64, 4097},   {200, 333}, {100003, 1},  {16, 5},      {4097, 2},
      {255, 17},  {5000, 1003}, {2, 8191},    {33, 9},    {100001, 11}, {1537, 1999}, {150, 89},
      {140, 170}, {130, 171},   {120, 250},   {110, 259}, {70, 1025},   {60, 2047}};
  int i, j, k;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(all_dtypes); ++j)
      for (k = 0; k < COUNT(all_ops); ++k) {
        const int large = shapes[i][0] * shapes[i][1] > 400000;
        if ((i + j + k) % (large ? 11 : 4) != 0) continue;
        reduce_there(all_ops[k], all_dtypes[j], shapes[i][0], shapes[i][1], 2, (i + k) % 17);
        reduce_there(all_ops[k], all_dtypes[j], shapes[i][0], shapes[i][1], 1, (j + k) % 17);
      }
}

/* Columns of up to 256 rows: one thread has V of them, or several have, in the fold's order,
 * wherever rows begin. */
static void test_device_few_rows(gpured_backend backend) {
  static const int ops[] = {GPURED_SUM,   GPURED_MAX,   GPURED_ARGMIN,    GPURED_ANY,
                            GPURED_PROD,  GPURED_VAR,   GPURED_LOGSUMEXP, GPURED_ABSMAX,
                            GPURED_NORM2, GPURED_ARGMAX};
  static const int64_t rows[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 25, 33, 64},
                       many[] = {65, 100, 128, 129, 200, 256}, columns[] = {1000, 1001, 7, 64},
                       pairs[] = {17, 18, 24, 31, 32, 33};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_WIDE};
  size_t i, j, k, d;
  (void)backend;
  for (i = 0; i < COUNT(rows); ++i)
    for (j = 0; j < COUNT(columns); ++j)
      for (k = 0; k < COUNT(ops); ++k)
        for (d = 0; d < COUNT(all_dtypes); ++d) {
          const int64_t shape[3] = {(int64_t)(d % 3) * 20 + 3, rows[i], columns[j]};
          reduce_shape_there(kinds[(i + k) % 3], LAYOUT_C, ops[k], all_dtypes[d], 3, shape, 2u,
                             (int)(i * 5 + k + d) % 2 * (int)((i + k) % 17));
        }
  for (i = 0; i < COUNT(rows); ++i) {
    const int64_t shape[2] = {rows[i], 300001 - (int64_t)(i % 3 == 0)};
    reduce_shape_there(OR_UNIFORM, LAYOUT_C, GPURED_SUM, i % 2 ? GPURED_F16 : GPURED_BF16, 2, shape,
                       1u, 0);
    reduce_shape_there(OR_UNIFORM, LAYOUT_C, ops[i % 4], GPURED_I8, 2, shape, 1u, 0);
  }
  for (d = GPURED_F32; d <= GPURED_BF16; ++d) /* so many that a thread has all rows here too */
    for (i = 0; i < 2; ++i) {
      const int64_t each = d == GPURED_F64 ? 2 : d == GPURED_F32 ? 4 : 8;
      const int64_t shape[2] = {i == d % 2 ? 9 : 12, 40000 * each + (int64_t)i};
      reduce_shape_there(OR_EXP, LAYOUT_C, GPURED_LOGSUMEXP, (int)d, 2, shape, 1u, 0);
    }
  for (d = GPURED_F32; d <= GPURED_BF16; ++d) /* two of each lane */
    for (i = 0; i < COUNT(pairs); ++i) {
      const int64_t each = d == GPURED_F64 ? 2 : d == GPURED_F32 ? 4 : 8;
      const int64_t shape[3] = {3, pairs[i], 7000 * each + (int64_t)(i + d) % 3};
      reduce_shape_there(kinds[(i + d) % 3], LAYOUT_C, i % 2 ? GPURED_STD : GPURED_VAR, (int)d, 3,
                         shape, 2u, i % 4 == 3 ? 5 : 0);
    }
  for (i = 0; i < COUNT(many); ++i) /* lanes of several threads */
    for (j = 0; j < COUNT(columns); ++j)
      for (k = 0; k < COUNT(ops); ++k)
        for (d = 0; d < COUNT(all_dtypes); ++d) {
          const int64_t shape[3] = {3, many[i], columns[j]};
          if ((i + j + k + d) % 4) continue;
          reduce_shape_there(kinds[(i + k) % 3], LAYOUT_C, ops[k], all_dtypes[d], 3, shape, 2u,
                             (int)(i + k + d) % 2 * (int)((j + k) % 17));
        }
  for (i = 0; i < COUNT(many); ++i)
    for (d = 0; d < COUNT(all_dtypes); ++d) {
      const int64_t shape[2] = {many[i], (i + d) % 2 ? 400000 : 400001};
      if ((i + d) % 5 == 0)
        reduce_shape_there(kinds[d % 3], LAYOUT_C, ops[(i + d / 2) % 5], all_dtypes[d], 2, shape,
                           1u, (int)d % 3);
    }
}

/* Sums of so many columns that each has a thread: one kept axis, two and three. */
static void test_device_single_columns(gpured_backend backend) {
  static const int ops[] = {GPURED_SUM,  GPURED_SUMSQ, GPURED_PROD,
                            GPURED_MEAN, GPURED_NORM1, GPURED_NORM2};
  static const int64_t rows[] = {9, 15, 16, 17, 19, 31, 33, 48, 100, 255, 256};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_WIDE};
  size_t i, d;
  (void)backend;
  for (d = GPURED_F32; d <= GPURED_BF16; ++d)
    for (i = 0; i < COUNT(rows); ++i) {
      const int64_t one[2] = {rows[i], 36001 + (int64_t)(i + d) % 3};
      const int64_t two[3] = {8191, rows[i], 5 + (int64_t)i % 2 * 36},
                    three[4] = {5, rows[i], 3, 2401 + (int64_t)(i + d) % 4};
      const int kind = kinds[(i + d) % 3], acc = d != GPURED_F64 && i % 4 == 3 ? GPURED_F64 : 0;
      const int layout = i % 3 ? LAYOUT_C : LAYOUT_PAD, shift = (int)(i + d) % 3;
      reduce_acc_there(kind, LAYOUT_C, ops[(i + d) % 6], (int)d, acc, 2, one, 1u, shift);
      reduce_acc_there(kind, layout, ops[(i + d + 2) % 6], (int)d, acc, 3, two, 2u, shift);
      reduce_acc_there(kind, LAYOUT_PAD, ops[(i + d + 4) % 6], (int)d, acc, 4, three, 2u, shift);
    }
}

/* A matrix reduced along an axis so many times as one call: an axis of stride 0 repeats it, since
 * more of it than that takes would keep the oracle for long. */
static void reduce_repeated(int op, int dtype, int kind, int64_t rows, int64_t columns,
                            uint32_t axes, int64_t repeats, int shift) {
  const int64_t shape[2] = {rows, columns}, kept = axes == 1 ? columns : rows;
  const int64_t out_shape[2] = {repeats, kept};
  const int out = usual_output(op, dtype);
  const size_t bytes = (size_t)kept * gpured_dtype_size((gpured_dtype)out);
  box in, want, got;
  copy din, dout;
  gpured_options o = stream_options(NULL);
  gpured_tensor many;
  gpured_status st;
  const char *name;
  int64_t i;
  if (!test_mine()) return;
  in = box_filled(dtype, 2, shape, LAYOUT_C, kind, (uint64_t)(rows + columns));
  want = box_output(out, 1, &kept, LAYOUT_C, 0);
  got = box_output(out, 2, out_shape, LAYOUT_C, 0);
  name = text("%s of %s axes %u, %lld times, shift %d, on the device", op_name(op), describe(&in.t),
              axes, (long long)repeats, shift);
  din = to_device(&in, shift);
  dout = to_device(&got, 0);
  many = din.t;
  oracle_reduce((gpured_op)op, &in.t, axes, &want.t, 0, 0);
  many.ndim = 3;
  many.shape[0] = repeats;
  many.strides[0] = 0;
  for (i = 0; i < 2; ++i) {
    many.shape[i + 1] = din.t.shape[i];
    many.strides[i + 1] = din.t.strides[i];
  }
  st = gpured_reduce((gpured_op)op, &many, axes << 1, &dout.t, &o);
  CHECK(st == GPURED_OK, "%s: status %d", name, (int)st);
  from_device(&dout);
  for (i = 0; i < repeats; ++i)
    if (memcmp((char *)got.t.data + (size_t)i * bytes, want.t.data, bytes)) break;
  CHECK(i == repeats, "%s: differs in repetition %lld", name, (long long)i);
  drop(&din);
  drop(&dout);
  box_free(&in);
  box_free(&want);
  box_free(&got);
}

/* Long columns that are needed twice: one, two and four blocks side by side; units that are full,
 * have a rest or are one; complete strips, a part of the last one, few columns, rows that begin
 * anywhere; one kept axis, two and three. */
static void test_device_column_units(gpured_backend backend) {
  static const int64_t rows[] = {145, 201,  256,  257,  300,  500,  511,  512,   513,  700,
                                 768, 1000, 1024, 1025, 1500, 2048, 5000, 16384, 17000};
  static const int64_t widths[] = {128, 132, 256, 320, 500, 201, 36, 8};
  static const int kinds[] = {OR_UNIFORM, OR_EXP, OR_SPECIAL, OR_INF, OR_WIDE};
  static const int ops[] = {GPURED_LOGSUMEXP, GPURED_VAR, GPURED_LOGSUMEXP, GPURED_STD};
  size_t i, j, d;
  (void)backend;
  for (i = 0; i < COUNT(rows); ++i)
    for (j = 0; j < COUNT(widths); ++j)
      for (d = GPURED_F32; d <= GPURED_BF16; ++d) {
        const int64_t one[2] = {rows[i], widths[j]}, two[3] = {3, rows[i], widths[j]},
                      three[4] = {2, 3, rows[i], widths[j]};
        const int kind = kinds[(i + j + d) % 5], op = ops[(i + j / 2 + d) % 4];
        const int shift = (i + d) % 3 ? 0 : (int)(i + j) % 9;
        if ((i + j + d) % 2 == 0) reduce_shape_there(kind, LAYOUT_C, op, (int)d, 2, one, 1u, shift);
        if (rows[i] > 2048) continue;
        if ((i + j + d) % 4 == 1)
          reduce_shape_there(kind, j % 2 ? LAYOUT_C : LAYOUT_PAD, op, (int)d, 3, two, 2u, 0);
        if ((i + j + d) % 8 == 3) reduce_shape_there(kind, LAYOUT_PAD, op, (int)d, 4, three, 4u, 0);
      }
}

/* So many units that a block of threads joins two and four of them. */
static void test_device_column_segments(gpured_backend backend) {
  static const int kinds[] = {OR_UNIFORM, OR_EXP, OR_SPECIAL};
  int d, i, processors = 0;
  (void)backend;
  RUN(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  for (d = GPURED_F32; d <= GPURED_BF16; ++d)
    for (i = 0; i < 3; ++i)
      reduce_repeated(i % 2 ? GPURED_VAR : GPURED_LOGSUMEXP, d, kinds[i], 2049 + i * 1500,
                      64 + i % 2, 1, processors * 60, 0);
}

/* Rows of floats for logsumexp, whose exponentials are shared out by other rules than lanes are:
 * every border of a block, a unit, a turn of 8, 16 or 32 threads and a tile, wherever rows begin;
 * terms on both sides of the cut of exp, and special values. */
static void test_device_logsumexp(gpured_backend backend) {
  static const int lengths[] = {73,   150,  255,  257,  258,  263,  289,  300,  384,  401,  511,
                                513,  515,  577,  600,  640,  683,  767,  769,  801,  1000, 1001,
                                1023, 1025, 1028, 1055, 1200, 1375, 1406, 1409, 1500, 1537, 1541,
                                1792, 1799, 1800, 2000, 2033, 2047, 2049, 2052, 2113, 3000, 3073,
                                3585, 4001, 5000, 7001, 8190, 8193, 10001};
  static const int kinds[] = {OR_UNIFORM, OR_EXP, OR_SPECIAL, OR_INF};
  int i, k;
  (void)backend;
  for (i = 0; i < COUNT(lengths); ++i)
    for (k = 0; k < COUNT(kinds); ++k) {
      const int shift = lengths[i] % 4 ? (i + k * 3) % 37 : (i + k * 3) % 9 * 4;
      reduce_data_there(kinds[k], (i + k) % 3 ? LAYOUT_C : LAYOUT_PAD, GPURED_LOGSUMEXP, GPURED_F32,
                        1 + (i * 7 + k * 5) % 23, lengths[i], 2, shift);
    }
}

/* So many of them that a warp has eight, four or two side by side in larger tiles. */
static void test_device_many_logsumexp(gpured_backend backend) {
  static const int lengths[] = {257, 300, 439, 513, 700, 880, 1409, 1760};
  static const int kinds[] = {OR_EXP, OR_SPECIAL, OR_INF};
  int i;
  (void)backend;
  for (i = 0; i < COUNT(lengths); ++i) {
    reduce_data_there(kinds[i % 3], LAYOUT_C, GPURED_LOGSUMEXP, GPURED_F32, 10007, lengths[i], 2,
                      lengths[i] % 4 ? i % 5 : 0);
    reduce_data_there(kinds[(i + 1) % 3], LAYOUT_PAD, GPURED_LOGSUMEXP, GPURED_F32, 10006,
                      lengths[i], 2, i % 3);
  }
}

/* So many short rows that tiles are full: with fewer, each multiprocessor has a few of them. */
static void test_device_many_rows(gpured_backend backend) {
  static const int64_t shapes[][2] = {{400001, 3}, {300000, 4},  {250007, 5}, {150000, 12},
                                      {90001, 17}, {100000, 24}, {70001, 33}, {40000, 100},
                                      {30001, 65}, {20000, 256}, {9001, 513}};
  static const int ops[] = {GPURED_SUM, GPURED_MAX,       GPURED_ARGMIN,
                            GPURED_VAR, GPURED_LOGSUMEXP, GPURED_ANY};
  static const int dtypes[] = {GPURED_F32, GPURED_BF16, GPURED_I8, GPURED_F64};
  int i, j, k;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (k = 0; k < COUNT(ops); ++k)
        if ((i + j + k) % 6 == 0)
          reduce_there(ops[k], dtypes[j], shapes[i][0], shapes[i][1], 2, (i + k) % 3 * 4);
}

/* Rows of two tiles and more, so many that a warp takes one for itself. */
static void test_device_own_rows(gpured_backend backend) {
  static const int64_t lengths[] = {1025, 2049, 2052,  3072,  4096,  4099, 5000,
                                    6151, 8192, 10001, 12290, 16384, 16388};
  static const int dtypes[] = {GPURED_F32, GPURED_F32, GPURED_F64, GPURED_F16};
  static const int kinds[] = {OR_UNIFORM, OR_EXP, OR_SPECIAL, OR_INF};
  int i, j, processors = 0;
  (void)backend;
  RUN(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  for (i = 0; i < COUNT(lengths); ++i)
    for (j = 0; j < COUNT(dtypes); ++j) {
      const int64_t repeats = processors * 56 / 37 + 1 + i % 3;
      const int op = (i + j / 2) % 3 == 2 ? GPURED_VAR : GPURED_LOGSUMEXP;
      reduce_repeated(op, dtypes[j], kinds[(i + j) % 4], 37, lengths[i], 2, repeats,
                      i % 2 * (i + j) % 9);
    }
}

/* The CPU's result, which other tests hold to the oracle: for tensors that take the oracle long. */
static void scan_here(int op, const gpured_tensor *in, int axis, unsigned flags,
                      const gpured_tensor *out) {
  gpured_options o = gpured_default_options();
  gpured_status st;
  o.backend = GPURED_BACKEND_CPU;
  st = gpured_scan((gpured_op)op, in, axis, flags, out, &o);
  CHECK(st == GPURED_OK, "a scan on the CPU: status %d", (int)st);
}

static void scan_layout_there(int layout, int kind, int op, int dtype, int dims,
                              const int64_t *shape, int axis, unsigned flags, int shift,
                              int out_shift, int in_place) {
  box in, got, want;
  copy din, dout;
  gpured_options o = stream_options(NULL);
  gpured_tensor nowhere, empty;
  gpured_status st;
  size_t bytes = 0;
  const char *name;
  in = box_filled(dtype, dims, shape, layout, kind, (uint64_t)(shape[0] + shape[dims - 1]));
  got = box_output(usual_output(op, dtype), dims, shape, layout, 0);
  want = box_output(usual_output(op, dtype), dims, shape, LAYOUT_C, 0);
  name = text("scan %s of %s axis %d flags %u shift %d to %d in place %d on the device",
              op_name(op), describe(&in.t), axis, flags, shift, out_shift, in_place);
  if (in.bytes > 4000000)
    scan_here(op, &in.t, axis, flags, &want.t);
  else
    oracle_scan((gpured_op)op, &in.t, axis, flags, &want.t, 0);
  din = to_device(&in, shift);
  dout = to_device(&got, out_shift);
  nowhere = din.t;
  empty = dout.t;
  nowhere.data = empty.data = NULL;
  st = gpured_scan_workspace((gpured_op)op, &nowhere, axis, flags, in_place ? &nowhere : &empty, &o,
                             &bytes);
  take_workspace(&o, st, bytes);
  st = gpured_scan((gpured_op)op, &din.t, axis, flags, in_place ? &din.t : &dout.t, &o);
  CHECK(st == GPURED_OK, "%s: status %d", name, (int)st);
  if (in_place) {
    from_device(&din);
    CHECK(first_difference(&in.t, &want.t) < 0, "%s: differs at %lld", name,
          (long long)first_difference(&in.t, &want.t));
  } else {
    from_device(&dout);
    expect_same(&got, &want.t, name);
  }
  RUN(cudaFree(o.workspace));
  drop(&din);
  drop(&dout);
  box_free(&in);
  box_free(&got);
  box_free(&want);
}

static void scan_data_there(int kind, int op, int dtype, int dims, const int64_t *shape, int axis,
                            unsigned flags, int shift, int out_shift, int in_place) {
  scan_layout_there(LAYOUT_C, kind, op, dtype, dims, shape, axis, flags, shift, out_shift,
                    in_place);
}

static void scan_shape_there(int op, int dtype, int dims, const int64_t *shape, int axis,
                             unsigned flags, int shift, int out_shift, int in_place) {
  scan_data_there(OR_UNIFORM, op, dtype, dims, shape, axis, flags, shift, out_shift, in_place);
}

static void scan_there(int op, int dtype, int64_t rows, int64_t cols, int axis, unsigned flags,
                       int shift, int out_shift, int in_place) {
  int64_t shape[2];
  shape[0] = rows;
  shape[1] = cols;
  scan_shape_there(op, dtype, 2, shape, axis, flags, shift, out_shift, in_place);
}

static void test_device_scan(gpured_backend backend) {
  static const int64_t shapes[][2] = {{1, 5000000}, {3, 100000}, {500, 1024}, {77, 256},
                                      {300, 16},    {9, 4096},   {5, 4097},   {1000, 7},
                                      {40, 70000},  {2000, 40}};
  static const int ops[] = {GPURED_SUM, GPURED_PROD, GPURED_MAX, GPURED_LOGSUMEXP};
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_F16,
                               GPURED_I32, GPURED_I64, GPURED_U8};
  int i, j, k;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (k = 0; k < COUNT(ops); ++k) {
        int place = (i + j) % 2 && usual_output(ops[k], dtypes[j]) == dtypes[j];
        if (shapes[i][0] * shapes[i][1] > 1000000 && (j + k) % 4 != 0) continue;
        scan_there(ops[k], dtypes[j], shapes[i][0], shapes[i][1], 1, (unsigned)(i + j + k) % 4, 0,
                   0, place);
        scan_there(ops[k], dtypes[j], shapes[i][0], shapes[i][1], 1, (unsigned)k % 4, 1, 1, 0);
        if (shapes[i][0] > 1)
          scan_there(ops[k], dtypes[j], shapes[i][0], shapes[i][1], 0, (unsigned)j % 4, 0, 0,
                     place);
      }
}

/* Enough tiles for the kernels that keep every warp busy: contiguous lines of all lengths, and
 * lines side by side that are deep, many, or a batch. */
static void test_device_scan_large(gpured_backend backend) {
  static const int64_t shapes[][2] = {{1, 9000001}, {3, 3000000}, {90, 100000}, {2000, 4100},
                                      {8000, 1024}, {16000, 512}, {500000, 16}, {300000, 40}};
  static const int ops[] = {GPURED_SUM, GPURED_PROD, GPURED_MIN};
  static const int dtypes[] = {GPURED_F32, GPURED_F16, GPURED_BF16,
                               GPURED_F64, GPURED_I64, GPURED_I32};
  int i, j, k;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (k = 0; k < COUNT(ops); ++k) {
        if ((j > 0 || k > 0) && (i + 2 * j + k) % 5 != 0) continue;
        scan_there(ops[k], dtypes[j], shapes[i][0], shapes[i][1], 1,
                   (i + j) % 2 ? GPURED_SCAN_EXCLUSIVE : 0, 0, 0, (i + k) % 2);
        if (j == 0 && k == 0)
          scan_there(ops[k], dtypes[j], shapes[i][0], shapes[i][1], 1,
                     i % 2 ? 0 : GPURED_SCAN_EXCLUSIVE, 0, 0, i % 2);
        if (shapes[i][0] > 1)
          scan_there(ops[k], dtypes[j], shapes[i][0], shapes[i][1], 0, (unsigned)(i + k) % 4, 0, 0,
                     k % 2);
      }
}

/* Contiguous lines that have a block of threads for each tile: none, one, two or three levels of
 * totals, in whole chunks or not. */
static void test_device_scan_at_once(gpured_backend backend) {
  static const int64_t shapes[][2] = {{1, 4097},    {1, 65536},      {1, 65537},   {1, 1048576},
                                      {1, 1048577}, {1, 512 * 4096}, {2, 1048576}, {31, 65535},
                                      {1, 1114113}, {100, 4099},     {512, 4096},  {512, 3001},
                                      {100, 300},   {3, 4096},       {2, 999999}};
  static const int ops[] = {GPURED_SUM, GPURED_MIN, GPURED_PROD};
  static const int dtypes[] = {GPURED_F32, GPURED_BF16, GPURED_F64, GPURED_F16,
                               GPURED_I32, GPURED_I64,  GPURED_U32, GPURED_U64};
  int i, j, k;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (k = 0; k < 4; ++k) {
        const int shift = (i + j + k) % 3 == 2 ? k + 1 : 0;
        if (j > 0 && (i + j + k) % 4 > 1) continue;
        scan_there(ops[(i + j + k) % 5 / 2], dtypes[j], shapes[i][0], shapes[i][1], 1, (unsigned)k,
                   shift, (i + j) % 4 == 3 ? 3 : shift,
                   (i + k) % 2 && usual_output(GPURED_SUM, dtypes[j]) == dtypes[j]);
      }
}

/* As many tiles of lines that fill no whole number of places, begin anywhere, in the input as in
 * the output, or go backwards. */
static void test_device_scan_ragged(gpured_backend backend) {
  static const int64_t shapes[][2] = {{8000, 1001}, {1, 8000003}, {2000, 5003}, {80000, 101},
                                      {500000, 7},  {8100, 1000}, {8192, 1024}, {4000, 4095}};
  static const int ops[] = {GPURED_SUM, GPURED_MAX, GPURED_PROD};
  static const int dtypes[] = {GPURED_F32, GPURED_F16, GPURED_F64, GPURED_BF16,
                               GPURED_I32, GPURED_I64, GPURED_U32};
  int i, j, k;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (k = 0; k < 4; ++k) {
        const int op = ops[(i + j + k) % 7 == 0 ? 2 : (i + k) % 2];
        if (j > 2 && (i + j + k) % 3 != 0) continue;
        scan_there(op, dtypes[j], shapes[i][0], shapes[i][1], 1, (unsigned)k,
                   (i + 3 * j + k) % 2 ? (j + k) % 9 : 0, (i + j + k) % 9 / 2,
                   (i + j + k) % 3 == 0 && usual_output(op, dtypes[j]) == dtypes[j]);
      }
}

/* The best element of rows that fill no blocks: half a warp's, a warp's and a block's of threads,
 * beginning anywhere, among equal ones and NaN; the last row ends where the memory does. */
static void test_device_best_rows(gpured_backend backend) {
  static const int64_t shapes[][2] = {{5000, 257}, {3001, 300},  {2500, 513},  {2200, 770},
                                      {2113, 999}, {700, 1100},  {2300, 1501}, {400, 2049},
                                      {300, 5003}, {270, 17001}, {2112, 3000}, {290, 40001}};
  static const int dtypes[] = {GPURED_F32, GPURED_F16, GPURED_BF16, GPURED_F64,
                               GPURED_I32, GPURED_U32, GPURED_I64,  GPURED_U64};
  static const int kinds[] = {OR_TIES, OR_SPECIAL, OR_WIDE};
  int i, j, k;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (k = 0; k < 3; ++k) {
        if (shapes[i][0] * shapes[i][1] > 3000000 && (i + j + k) % 3) continue;
        reduce_data_there(kinds[k], (i + j) % 4 ? LAYOUT_C : LAYOUT_PAD,
                          (i + j + k) % 2 ? GPURED_ARGMAX : GPURED_ARGMIN, dtypes[j], shapes[i][0],
                          shapes[i][1], 2, (i + 2 * j + k) % 9);
      }
}

/* Lines that a warp has in its registers: of 1 to 8 chunks, filled or not, beginning anywhere, side
 * by side or with padding between them; one for each warp, and so many that warps take tickets of
 * one and of several. */
static void test_device_scan_rows(gpured_backend backend) {
  static const int64_t lengths[] = {257,  260,  300,  511,  512,  513,  777,  1000, 1001, 1023,
                                    1024, 1025, 1500, 1537, 2047, 2049, 2600, 3001, 4095, 4096};
  static const int ops[] = {GPURED_SUM, GPURED_MAX, GPURED_PROD, GPURED_MIN};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_WIDE};
  static const int dtypes[] = {GPURED_F32, GPURED_F16, GPURED_BF16};
  int i, j, k, t = 0;
  (void)backend;
  for (i = 0; i < COUNT(lengths); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (k = 0; k < 8; ++k, ++t) {
        const int64_t shape[2] = {k == 7 ? 9000000 / lengths[i] : 300 + 97 * k, lengths[i]};
        if (k == 7 && t % 4) continue;
        scan_layout_there(t % 5 == 0 ? LAYOUT_PAD : LAYOUT_C, kinds[(i + k) % 3], ops[(t + i) % 4],
                          dtypes[j], 2, shape, 1,
                          t % 11 == 0 ? (unsigned)t % 4 : (unsigned)t / 2 % 2, k, (k + t) % 9,
                          t % 7 == 0);
      }
  for (k = 0; k < 9; ++k) { /* short ones, of which there are too few for a thread each */
    const int64_t shape[2] = {270 + 90 * k, 129 + 15 * k};
    scan_data_there(kinds[k % 3], ops[k % 4], dtypes[k % 3], 2, shape, 1, (unsigned)k % 2, k % 5,
                    k % 4, 0);
  }
}

/* Wide lines side by side: of up to a tile, of several and of so many that tiles meet in two, three
 * and four levels; strips that are full or not; items; padding; rows that begin beside the borders
 * the kernel for them asks for. */
static void test_device_scan_columns(gpured_backend backend) {
  static const int64_t rows[] = {17,  31,  32,  33,  63,  65,   128,  129,  200,  255,
                                 256, 257, 511, 513, 777, 4096, 4097, 5000, 9001, 66000};
  static const int64_t cols[] = {32, 33, 36, 41, 64, 66, 100, 128, 130, 300, 301, 1000};
  static const int ops[] = {GPURED_SUM, GPURED_MAX, GPURED_PROD, GPURED_MIN};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_WIDE};
  static const int dtypes[] = {GPURED_F32, GPURED_F16, GPURED_I32, GPURED_F64,
                               GPURED_U32, GPURED_I64, GPURED_BF16};
  const int64_t deep[2] = {1100000, 32};
  int i, j, k, t = 0;
  (void)backend;
  for (i = 0; i < COUNT(rows); ++i)
    for (j = 0; j < COUNT(cols); ++j) {
      const int64_t size = rows[i] * cols[j], most = 3000000;
      if (size > most) continue;
      for (k = 0; k < 4; ++k, ++t) {
        const int64_t shape[3] = {t % 3 && size * 7 < most ? 7 : 1, rows[i], cols[j]};
        const int flat = shape[0] == 1 && t % 2;
        scan_layout_there(t % 5 == 0 ? LAYOUT_PAD : LAYOUT_C, kinds[(i + j + k) % 3],
                          ops[(t + i) % 4], dtypes[t % COUNT(dtypes)], flat ? 2 : 3, shape + flat,
                          !flat, (unsigned)(t / 4 + k) % 4, t % 6 == 0 ? k : 0,
                          t % 10 == 0 ? 4 - k : 0, t % 9 == 0);
      }
    }
  scan_data_there(OR_UNIFORM, GPURED_SUM, GPURED_F32, 2, deep, 0, 0, 0, 0, 0);
  scan_data_there(OR_WIDE, GPURED_MIN, GPURED_I32, 2, deep, 0, GPURED_SCAN_EXCLUSIVE, 0, 0, 1);
}

/* Axes in the middle, with few columns behind them and many items before: the kernel for such items
 * (as many as it asks for), its borders, and what lies behind those. */
static void test_device_items(gpured_backend backend) {
  static const int64_t shapes[][3] = {
      {4000, 65, 2},   {2700, 100, 3}, {1300, 128, 7}, {1000, 255, 8},  {1001, 256, 8},
      {280, 257, 30},  {270, 333, 32}, {2700, 769, 3}, {1000, 1000, 8}, {1601, 1024, 5},
      {1600, 1025, 5}, {250, 100, 33}, {500, 90, 17},  {1100, 512, 7},  {280, 200, 32}};
  int i, j, k;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(all_dtypes); ++j)
      for (k = 0; k < COUNT(all_ops); ++k)
        if ((i + 2 * j + k) % 7 == 0)
          reduce_shape_there((i + k) % 2 ? OR_UNIFORM : OR_SPECIAL, LAYOUT_C, all_ops[k],
                             all_dtypes[j], 3, shapes[i], 2, (i + j) % 5);
}

/* The same of every length and width that the choice of a kernel and its threads tell apart, few
 * items and many, with gaps between rows and between items, from any element on. */
static void test_device_middle_axis(gpured_backend backend) {
  static const int64_t lengths[] = {24,  48,  49,  63,  64,  65,  100, 129,  200,
                                    256, 257, 300, 512, 513, 769, 950, 1024, 1025};
  static const int64_t columns[] = {2, 3, 7, 8, 16, 17, 24, 30, 33, 40, 50, 63, 64, 100};
  static const int64_t items[] = {2, 70, 1501};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_WIDE, OR_TIES};
  static const int layouts[] = {LAYOUT_C, LAYOUT_PAD, LAYOUT_C, LAYOUT_RANDOM, LAYOUT_C};
  int i, j, k, d, m, t = 0;
  (void)backend;
  for (i = 0; i < COUNT(lengths); ++i)
    for (j = 0; j < COUNT(columns); ++j)
      for (m = 0; m < COUNT(items); ++m)
        for (k = 0; k < COUNT(all_ops); ++k)
          for (d = 0; d < COUNT(all_dtypes); ++d, ++t) {
            const int64_t shape[3] = {items[m], lengths[i], columns[j]};
            if (t % 61 != 0 || shape[0] * shape[1] * shape[2] > 2000000) continue;
            reduce_shape_there(kinds[t / 61 % 4], layouts[t / 61 % 5], all_ops[k], all_dtypes[d], 3,
                               shape, 2, t / 61 % 3 * (t % 7));
          }
}

/* The same of fewer elements than an item has lanes, or hardly more, of types that cannot be read
 * by whole columns where they begin anywhere. */
static void test_device_small_items(gpured_backend backend) {
  static const int64_t lengths[] = {9, 10, 15, 16, 17, 40, 64}, columns[] = {2, 3, 7, 9};
  static const int dtypes[] = {GPURED_F16, GPURED_BF16, GPURED_I8, GPURED_U8, GPURED_F32};
  int i, j, k, t = 0;
  (void)backend;
  for (i = 0; i < COUNT(lengths); ++i)
    for (j = 0; j < COUNT(columns); ++j)
      for (k = 0; k < COUNT(dtypes); ++k, ++t) {
        const int64_t shape[3] = {6000 / columns[j], lengths[i], columns[j]};
        reduce_shape_there(t % 2 ? OR_TIES : OR_WIDE, LAYOUT_C, GPURED_ARGMAX, dtypes[k], 3, shape,
                           2, t % 3);
        reduce_shape_there(t % 2 ? OR_SPECIAL : OR_UNIFORM, LAYOUT_C, all_ops[t % COUNT(all_ops)],
                           dtypes[k], 3, shape, 2, t % 3);
      }
}

/* Items end to end that go through shared memory as they lie: every length that a thread's lanes
 * tell apart, widths on both sides of 16 bytes, the last block of threads with few items, from any
 * element on; longer ones where there are enough of them. */
static void test_device_tiny_items(gpured_backend backend) {
  static const int64_t lengths[] = {2, 3, 4, 5, 8, 9, 12, 16}, columns[] = {2, 3, 4, 7, 16, 25, 63};
  static const int64_t longer[] = {17, 33, 64, 65, 128, 129, 256}, narrow[] = {2, 3, 8, 9};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_WIDE, OR_TIES};
  int i, j, k, d, t = 0;
  (void)backend;
  for (i = 0; i < COUNT(lengths); ++i)
    for (j = 0; j < COUNT(columns); ++j)
      for (k = 0; k < COUNT(all_ops); ++k)
        for (d = 0; d < COUNT(all_dtypes); ++d, ++t) {
          const int64_t shape[3] = {t % 2 ? 300 : 7, lengths[i], columns[j]};
          if (t % 3 != 0) continue;
          reduce_shape_there(kinds[t / 3 % 4], LAYOUT_C, all_ops[k], all_dtypes[d], 3, shape, 2,
                             t / 3 % 5 * (t % 7));
        }
  for (i = 0; i < COUNT(longer); ++i)
    for (j = 0; j < COUNT(narrow); ++j)
      for (k = 0; k < COUNT(all_ops); ++k)
        for (d = 0; d < COUNT(all_dtypes); ++d, ++t) {
          const int64_t shape[3] = {40001 / narrow[j], longer[i], narrow[j]};
          if (t % 23 != 0) continue;
          reduce_shape_there(kinds[t / 23 % 4], LAYOUT_C, all_ops[k], all_dtypes[d], 3, shape, 2,
                             t / 23 % 3);
        }
}

/* Few long columns: units as items, the last of them whole, short, alone in its segment or not
 * there; segments of one batch of units and of several; a batch of such columns. */
static void test_device_tall(gpured_backend backend) {
  static const int64_t long_ones[][2] = {{4325377, 2}, {2300001, 3}, {1081344, 7}, {1098752, 5}};
  static const int64_t shapes[][2] = {{200705, 2},  {190001, 4},  {280577, 7}, {151552, 12},
                                      {100003, 16}, {131072, 17}, {46080, 3}};
  static const int64_t batches[][3] = {
      {150, 1025, 3}, {70, 4096, 2}, {3, 30001, 5}, {40, 2500, 16}};
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_F16, GPURED_BF16};
  static const int ops[] = {GPURED_VAR, GPURED_LOGSUMEXP, GPURED_SUM, GPURED_ARGMIN};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_TIES, OR_WIDE};
  int i, j, k;
  (void)backend;
  for (i = 0; i < COUNT(long_ones); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (k = 0; k < COUNT(ops); ++k)
        if (k < 2 || (i + j + k) % 4 == 0)
          reduce_data_there(kinds[(i + j + k) % 2], LAYOUT_C, ops[k], dtypes[j], long_ones[i][0],
                            long_ones[i][1], 1, (i + j) % 3);
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(all_dtypes); ++j)
      for (k = 0; k < COUNT(all_ops); ++k)
        if ((i + 2 * j + k) % 4 == 0)
          reduce_data_there(kinds[(i + k) % 4], k % 3 ? LAYOUT_C : LAYOUT_PAD, all_ops[k],
                            all_dtypes[j], shapes[i][0], shapes[i][1], 1, (i + j) % 3);
  for (i = 0; i < COUNT(batches); ++i)
    for (j = 0; j < COUNT(all_dtypes); ++j)
      for (k = 0; k < COUNT(all_ops); ++k)
        if ((i + 3 * j + k) % 5 == 0)
          reduce_shape_there(kinds[(i + k) % 4], k % 3 ? LAYOUT_C : LAYOUT_PAD, all_ops[k],
                             all_dtypes[j], 3, batches[i], 2, (i + j) % 3);
}

/* Rows that touch, are no lines of 128 bytes and too many bytes for a tile of 16: tiles across
 * rows, with few and many blocks to a segment; beside, rows of a tile, and inputs too small for
 * it. */
static void test_device_touching(gpured_backend backend) {
  static const int64_t widths[] = {40, 65, 101, 130, 257, 500, 1001, 1025, 4097, 30001};
  static const int64_t large[][3] = {
      {1, 170001, 101}, {1, 130003, 129}, {1, 40961, 1001}, {3, 30000, 100}, {5, 9001, 501}};
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_BF16, GPURED_I32, GPURED_I8};
  static const int ops[] = {GPURED_SUM, GPURED_ARGMAX, GPURED_MEAN, GPURED_MAX, GPURED_NORM1};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_TIES, OR_WIDE};
  int64_t shape[2], row;
  int i, j, k;
  (void)backend;
  for (i = 0; i < COUNT(widths); ++i)
    for (j = 0; j < COUNT(all_dtypes); ++j)
      for (k = 0; k < COUNT(all_ops); ++k) {
        if ((i + 2 * j + 5 * k) % 13 != 0) continue;
        shape[1] = widths[i];
        row = widths[i] * (int64_t)gpured_dtype_size((gpured_dtype)all_dtypes[j]);
        shape[0] = (k % 4 == 3 ? 4200000 : 8400000) / row + 1 + 7 * k;
        reduce_shape_there(kinds[(i + k) % 4], LAYOUT_C, all_ops[k], all_dtypes[j], 2, shape, 1u,
                           (i + j) % 3);
      }
  for (i = 0; i < COUNT(large); ++i)
    for (k = 0; k < COUNT(ops); ++k)
      reduce_shape_there(kinds[(i + k) % 3], LAYOUT_C, ops[k], dtypes[(i + k) % COUNT(dtypes)], 3,
                         large[i], 2u, k % 2);
}

/* Means and norms of integers, whose sums are exact up to a length, and the lengths around it. */
static void test_device_means(gpured_backend backend) {
  static const int64_t shapes[][2] = {
      {3, 1000}, {200, 70}, {5, 100003}, {1, (int64_t)1 << 21}, {1, ((int64_t)1 << 21) + 1}};
  static const int dtypes[] = {GPURED_I8, GPURED_U8, GPURED_I32, GPURED_U32, GPURED_I64};
  static const int kinds[] = {OR_SPECIAL, OR_WIDE};
  int i, j, k;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (k = 0; k < 4; ++k)
        reduce_data_there(kinds[(i + j + k) % 2], LAYOUT_C, k % 2 ? GPURED_MEAN : GPURED_NORM2,
                          dtypes[j], shapes[i][0], shapes[i][1], k < 2 ? 2 : 1, 0);
}

/* Variances, norms and long means of integers, which are computed in f64: for each kernel that
 * reads bytes and words as they lie, rows and columns of all lengths, items, pieces of several
 * axes, and values to the ends of the types' ranges. */
static void test_device_reals(gpured_backend backend) {
  static const int64_t shapes[][3] = {
      {3000, 3, 1},    {5000, 16, 1},  {999, 40, 1},   {777, 64, 1},    {515, 100, 1},
      {300, 256, 1},   {200, 257, 1},  {99, 1024, 1},  {33, 1028, 1},   {40, 1500, 1},
      {21, 4096, 1},   {9, 8191, 1},   {5, 8192, 1},   {3, 100000, 1},  {2, 262148, 1},
      {1, 3000001, 1}, {9001, 513, 1}, {1, 2, 70000},  {1, 7, 40001},   {1, 16, 3000},
      {3, 17, 3333},   {2, 64, 4096},  {1, 200, 5000}, {1, 256, 1001},  {2, 300, 2048},
      {1, 5000, 1000}, {1, 90001, 64}, {1, 700001, 3}, {1, 300000, 2},  {1000, 3, 3},
      {500, 33, 2},    {200, 64, 4},   {77, 100, 30},  {50, 224, 3},    {9, 1000, 8},
      {20, 5000, 3},   {70, 49, 7},    {1, 33000, 17}, {4, 1024, 1024}, {1, 1025, 37}};
  static const int dtypes[] = {GPURED_I8, GPURED_U8, GPURED_I32, GPURED_U32, GPURED_I32};
  static const int ops[] = {GPURED_STD, GPURED_VAR, GPURED_VAR, GPURED_NORM2, GPURED_NORM2};
  static const int kinds[] = {OR_WIDE, OR_SPECIAL, OR_UNIFORM};
  static const int64_t long_shapes[][3] = {{1, 2200001, 3}, {2, 2500003, 1}, {1, 2200000, 16}};
  static const int64_t pictures[][4] = {
      {6, 3, 20, 30}, {40, 3, 7, 7}, {5, 2, 56, 56}, {30, 5, 4, 9}};
  static const uint32_t axes[] = {13, 5, 10};
  int i, d, t = 0;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (d = 0; d < COUNT(dtypes); ++d, ++t)
      reduce_shape_there(kinds[(i + d) % 3], t % 7 ? LAYOUT_C : LAYOUT_PAD, ops[d], dtypes[d], 3,
                         shapes[i], 2, t % 3 ? 0 : t / 3 % 17);
  for (i = 0; i < COUNT(long_shapes); ++i)
    reduce_shape_there(OR_WIDE, LAYOUT_C, GPURED_MEAN, dtypes[2 + i % 2], 3, long_shapes[i], 2, i);
  for (i = 0; i < COUNT(pictures) * COUNT(axes); ++i)
    for (d = 0; d < COUNT(dtypes); ++d)
      reduce_shape_there(kinds[(i + d) % 3], LAYOUT_C, ops[d], dtypes[d], 4, pictures[i / 3],
                         axes[i % 3], (i + d) % 3);
}

/* Short lines side by side, few or many of each item, which may begin anywhere. */
static void test_device_scan_items(gpured_backend backend) {
  static const int64_t lengths[] = {2, 5, 16, 17, 32, 33, 64, 65, 100, 129, 200, 255, 256, 257};
  static const int64_t columns[] = {2, 3, 7, 16, 40, 1000};
  static const int ops[] = {GPURED_SUM, GPURED_PROD, GPURED_MIN, GPURED_LOGSUMEXP};
  int64_t shape[3];
  int i, j, k, t = 0;
  (void)backend;
  for (i = 0; i < COUNT(lengths); ++i)
    for (j = 0; j < COUNT(columns); ++j)
      for (k = 0; k < COUNT(ops); ++k, ++t) {
        const int dtype = all_dtypes[(t + t / 10) % COUNT(all_dtypes)];
        const int place = t % 3 == 0 && usual_output(ops[k], dtype) == dtype;
        shape[0] = columns[j] > 100 ? 3 : 37;
        shape[1] = lengths[i];
        shape[2] = columns[j];
        scan_shape_there(ops[k], dtype, 3, shape, 1, (unsigned)(t + i) % 4, t % 5, t % 3, place);
      }
}

/* Long lines of which few lie side by side, and contiguous ones of fewer than 16 elements: pieces
 * of memory that may begin anywhere, and tiles that share a block. */
static void test_device_scan_few(gpured_backend backend) {
  static const int64_t lengths[] = {300, 511, 1025, 4097, 9000, 70001},
                       rows[] = {2, 3, 4, 7, 8, 15};
  static const int64_t columns[] = {2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 33};
  static const int ops[] = {GPURED_SUM, GPURED_PROD, GPURED_MIN, GPURED_LOGSUMEXP};
  int i, j, k, t = 0;
  (void)backend;
  for (i = 0; i < COUNT(lengths); ++i)
    for (j = 0; j < COUNT(columns); ++j)
      for (k = 0; k < COUNT(ops); ++k, ++t) {
        const int dtype = all_dtypes[(t + t / 10) % COUNT(all_dtypes)];
        const int place = t % 3 == 0 && usual_output(ops[k], dtype) == dtype;
        const int64_t shape[3] = {lengths[i] > 5000 ? 1 : 5, lengths[i], columns[j]};
        if (lengths[i] > 5000 && (i + j + k) % 3) continue;
        scan_shape_there(ops[k], dtype, 3, shape, 1, (unsigned)(t + i) % 4, t % 5, t % 3, place);
      }
  for (i = 0; i < COUNT(rows); ++i)
    for (j = 0; j < COUNT(all_dtypes); ++j)
      for (k = 0; k < COUNT(ops); ++k, ++t) {
        const int64_t shape[2] = {1500 + 7 * t, rows[i]};
        const int place = t % 3 == 0 && usual_output(ops[k], all_dtypes[j]) == all_dtypes[j];
        scan_shape_there(ops[k], all_dtypes[j], 2, shape, 1, (unsigned)(t + i) % 4, t % 5, t % 3,
                         place);
      }
}

/* Short lines without gaps, one behind the other or a few side by side: tiles of one item and of
 * many (longer ones if there are many of them), one that ends inside a vector, values of every
 * kind. */
static void test_device_scan_short(gpured_backend backend) {
  static const int64_t lengths[] = {2,  3,  4,  6,  8,  11, 15, 16,  17,  20,  24,  31,
                                    32, 33, 48, 57, 64, 65, 96, 100, 128, 160, 255, 256};
  static const int64_t columns[] = {1, 1, 2, 3, 8, 13, 15}, items[] = {1, 5, 37, 700};
  static const int ops[] = {GPURED_SUM, GPURED_PROD, GPURED_MIN, GPURED_MAX};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_WIDE};
  int i, j, k, d, t = 0;
  (void)backend;
  for (i = 0; i < COUNT(lengths); ++i)
    for (j = 0; j < COUNT(columns); ++j)
      for (k = 0; k < COUNT(ops); ++k)
        for (d = 0; d < COUNT(all_dtypes); ++d, ++t) {
          const int64_t many = 20000 / columns[j] + t % 3; /* a GPU has that many threads */
          const int64_t shape[3] = {lengths[i] > 32 ? many : items[(i + j + k + d) % 4], lengths[i],
                                    columns[j]};
          const int dims = columns[j] == 1 ? 2 : 3;
          const int place = t % 3 == 0 && usual_output(ops[k], all_dtypes[d]) == all_dtypes[d];
          if (lengths[i] > 32 && t % 13) continue;
          scan_data_there(kinds[(i + k) % 3], ops[k], all_dtypes[d], dims, shape, 1,
                          (unsigned)(t / 4 % 4), t % 5 == 0 ? t / 5 % 9 : 0,
                          t % 7 == 0 ? t / 7 % 9 : 0, place);
        }
  for (i = 0; i < 20; i += 4) /* so many that a thread has several lines of a tile */
    for (d = 0; d < COUNT(all_dtypes); ++d, ++t) {
      const int64_t shape[3] = {140001 / columns[d % 3], lengths[i], columns[d % 3]};
      if (shape[1] > 60 || (i / 4 + d) % 3) continue;
      scan_data_there(kinds[i / 4 % 2], ops[d % 4], all_dtypes[d], d % 3 < 2 ? 2 : 3, shape, 1,
                      (unsigned)(t % 4), 0, 0, 0);
    }
}

/* Sequences of several axes: the innermost one contiguous, so that they lie in pieces, which begin
 * at vectors or anywhere; or not, and then they are columns of two axes. */
static void test_device_several_axes(gpured_backend backend) {
  static const struct {
    int64_t shape[4];
    uint32_t axes;
  } cases[] = {
      {{3, 5, 7, 7}, 13},    {{4, 3, 14, 14}, 13},  {{2, 3, 56, 56}, 13},   {{70, 2, 7, 7}, 13},
      {{40, 3, 4, 16}, 10},  {{9, 4, 5, 33}, 10},   {{1000, 2, 3, 16}, 10}, {{6, 5, 3, 2500}, 10},
      {{5, 2, 2, 9000}, 13}, {{3, 4, 50, 100}, 10}, {{2, 3, 9, 300}, 10},   {{20, 3, 2, 17}, 15},
      {{7, 5, 30, 64}, 5},   {{33, 2, 20, 40}, 5},  {{300, 2, 5, 16}, 5},   {{2, 3, 700, 48}, 5},
      {{4, 2, 3, 2000}, 5},  {{40, 3, 17, 33}, 5},  {{20, 3, 8, 50}, 5},    {{7, 5, 30, 33}, 5},
      {{33, 2, 20, 35}, 5},  {{300, 3, 6, 17}, 5},  {{3, 5, 700, 21}, 5},   {{2, 9, 130, 301}, 5},
      {{2, 2, 2, 3000}, 5},  {{2, 3, 3, 1001}, 5},  {{4, 2, 2, 64}, 5},     {{3, 2, 2, 77}, 5},
      {{8, 3, 2, 500}, 5},   {{11, 2, 3, 203}, 5},  {{16, 5, 16, 64}, 5},   {{2, 70, 2, 9}, 5}};
  static const int ops[] = {GPURED_SUM,   GPURED_MAX,   GPURED_ARGMIN,    GPURED_ANY,
                            GPURED_PROD,  GPURED_VAR,   GPURED_LOGSUMEXP, GPURED_ABSMAX,
                            GPURED_NORM2, GPURED_ARGMAX};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_WIDE};
  static const int layouts[] = {LAYOUT_C, LAYOUT_PAD, LAYOUT_C, LAYOUT_RANDOM};
  size_t i, k, d;
  (void)backend;
  for (i = 0; i < COUNT(cases); ++i)
    for (k = 0; k < COUNT(ops); ++k)
      for (d = 0; d < COUNT(all_dtypes); ++d) {
        const size_t t = i * 3 + k + d;
        reduce_shape_there(kinds[(i + k) % 3], layouts[t % 4], ops[k], all_dtypes[d], 4,
                           cases[i].shape, cases[i].axes, (int)(t % 2) * (int)((i + k) % 17));
      }
}

/* Channels: short pieces side by side, and rows of few columns that are no whole vectors, each
 * again and again along an outer axis, of few and of many, whole and at the end of the input. */
static void test_device_channels(gpured_backend backend) {
  static const struct {
    int64_t shape[4];
    uint32_t axes;
  } cases[] = {
      {{40, 4, 1, 2}, 9},     {{300, 5, 1, 3}, 9},   {{9, 16, 1, 7}, 9},    {{64, 33, 1, 4}, 9},
      {{700, 20, 1, 9}, 9},   {{5, 40, 7, 7}, 13},   {{31, 17, 7, 7}, 13},  {{128, 16, 4, 4}, 13},
      {{57, 18, 3, 6}, 13},   {{400, 7, 5, 5}, 13},  {{6, 9, 13, 13}, 13},  {{3, 100, 1, 31}, 9},
      {{21, 12, 11, 11}, 13}, {{2, 6, 21, 23}, 13},  {{9, 4, 1, 511}, 9},   {{7, 5, 1, 1023}, 9},
      {{3, 60, 8, 15}, 10},   {{4, 300, 6, 7}, 10},  {{2, 1000, 5, 3}, 10}, {{2, 77, 40, 9}, 10},
      {{300, 3, 7, 7}, 5},    {{50, 6, 14, 14}, 5},  {{1000, 2, 5, 5}, 5},  {{7, 9, 33, 13}, 5},
      {{3000, 1, 3, 15}, 5},  {{20, 4, 100, 11}, 5}, {{2048, 4, 1, 25}, 9}, {{4097, 8, 1, 17}, 9},
      {{513, 16, 1, 2}, 9},   {{1, 4, 9000, 6}, 10}};
  static const int ops[] = {GPURED_SUM,   GPURED_MAX,    GPURED_ARGMIN, GPURED_COUNT_NONZERO,
                            GPURED_PROD,  GPURED_VAR,    GPURED_ANY,    GPURED_LOGSUMEXP,
                            GPURED_NORM2, GPURED_ARGMAX, GPURED_NORM1};
  static const int kinds[] = {OR_UNIFORM, OR_SPECIAL, OR_WIDE};
  size_t i, k, d;
  (void)backend;
  for (i = 0; i < COUNT(cases); ++i)
    for (k = 0; k < COUNT(ops); ++k)
      for (d = 0; d < COUNT(all_dtypes); ++d) {
        const size_t t = i + k * 5 + d;
        reduce_shape_there(kinds[(i + k) % 3], t % 5 ? LAYOUT_C : LAYOUT_PAD, ops[k], all_dtypes[d],
                           4, cases[i].shape, cases[i].axes, (int)(t % 3 % 2 * ((i + k) % 17)));
      }
}

/* Scans of few rows, or of one: their kernel's dtypes, aligned and not, in place, either way. */
static void test_device_scan_few_rows(gpured_backend backend) {
  static const int64_t rows[] = {1, 2, 3, 4, 5, 7, 8, 9}, columns[] = {64, 1000, 1001, 333, 35};
  static const int ops[] = {GPURED_SUM, GPURED_PROD, GPURED_MIN, GPURED_MAX};
  int i, j, k, d, t = 0;
  (void)backend;
  for (i = 0; i < COUNT(rows); ++i)
    for (j = 0; j < COUNT(columns); ++j)
      for (k = 0; k < COUNT(ops); ++k)
        for (d = 0; d < COUNT(all_dtypes); ++d, ++t) {
          const int64_t shape[3] = {t % 2 ? 1 : 23, rows[i], columns[j]};
          const int place = t % 3 == 0 && usual_output(ops[k], all_dtypes[d]) == all_dtypes[d];
          const int shift = t % 4 == 0 ? t / 4 % 9 : 0;
          scan_shape_there(ops[k], all_dtypes[d], 3, shape, 1, (unsigned)(t / 5) % 4, shift,
                           t % 8 == 0 ? t / 8 % 7 : 0, place);
        }
}

/* ---- streams and graphs ----------------------------------------------------------------------- */

enum { MANY = 1 << 20, STREAMS = 2 };

typedef struct pending {
  box in, sum, scan, want_sum, want_scan;
  copy din, dsum, dscan;
  cudaStream_t stream;
} pending;

/* The sum of all elements, and a scan along the first axis. */
static void make_shaped(pending *p, int ndim, const int64_t *shape, uint64_t seed) {
  const int64_t one = 1;
  p->in = box_filled(GPURED_F32, ndim, shape, LAYOUT_C, OR_UNIFORM, seed);
  p->sum = box_output(GPURED_F32, 1, &one, LAYOUT_C, 0);
  p->want_sum = box_output(GPURED_F32, 1, &one, LAYOUT_C, 0);
  p->scan = box_output(GPURED_F32, ndim, shape, LAYOUT_C, 0);
  p->want_scan = box_output(GPURED_F32, ndim, shape, LAYOUT_C, 0);
  oracle_reduce(GPURED_SUM, &p->in.t, (1u << ndim) - 1, &p->want_sum.t, 0, 0);
  oracle_scan(GPURED_SUM, &p->in.t, 0, 0, &p->want_scan.t, 0);
  p->din = to_device(&p->in, 0);
  p->dsum = to_device(&p->sum, 0);
  p->dscan = to_device(&p->scan, 0);
  RUN(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking));
}

static void make_pending(pending *p, int64_t n, uint64_t seed) { make_shaped(p, 1, &n, seed); }

static void check_pending(pending *p, const char *name) {
  from_device(&p->dsum);
  from_device(&p->dscan);
  expect_same(&p->sum, &p->want_sum.t, text("%s: sum", name));
  expect_same(&p->scan, &p->want_scan.t, text("%s: scan", name));
}

static void free_pending(pending *p) {
  RUN(cudaStreamDestroy(p->stream));
  drop(&p->din);
  drop(&p->dsum);
  drop(&p->dscan);
  box_free(&p->in);
  box_free(&p->sum);
  box_free(&p->scan);
  box_free(&p->want_sum);
  box_free(&p->want_scan);
}

static void both_calls(pending *p, const gpured_options *o) {
  gpured_status st = gpured_reduce(GPURED_SUM, &p->din.t, (1u << p->din.t.ndim) - 1, &p->dsum.t, o);
  CHECK(st == GPURED_OK, "sum: status %d", (int)st);
  st = gpured_scan(GPURED_SUM, &p->din.t, 0, 0, &p->dscan.t, o);
  CHECK(st == GPURED_OK, "scan: status %d", (int)st);
}

/* Both calls on every stream, several times, with nothing in between that waits. */
static void many_streams(pending *p, int streams, int64_t n, int64_t step, int times) {
  int i, k;
  for (i = 0; i < streams; ++i) make_pending(&p[i], n + i * step, (uint64_t)i + 1);
  for (k = 0; k < times; ++k)
    for (i = 0; i < streams; ++i) {
      gpured_options o = stream_options(p[i].stream);
      both_calls(&p[i], &o);
    }
  RUN(cudaDeviceSynchronize());
  for (i = 0; i < streams; ++i) {
    check_pending(&p[i], text("stream %d of %d", i, streams));
    free_pending(&p[i]);
  }
}

static void test_streams(gpured_backend backend) {
  pending p[STREAMS];
  (void)backend;
  many_streams(p, STREAMS, MANY, 12345, 50);
}

/* Calls of one stream use the same standing memory, whatever their sizes and kernels, and leave it
 * as they found it; a graph that was captured there in between does not use it, nor do scans that
 * need more. */
static void one_stream(void) {
  enum { SIZES = 15, ROUNDS = 20 };
  static const int64_t sizes[SIZES][2] = {
      {MANY, 0},    {4097, 0},   {70000, 0},   {1 << 20, 0}, {33333, 0},
      {65536, 0},   {1000, 700}, {8200, 0},    {500000, 0},  {17, 0},
      {3000000, 0}, {257, 1500}, {1 << 24, 0}, {600, 5},     {(1 << 24) + 2000000, 0}};
  pending p[SIZES];
  gpured_options o;
  cudaGraph_t graph;
  cudaGraphExec_t run;
  int i, k;
  for (i = 0; i < SIZES; ++i) make_shaped(&p[i], sizes[i][1] ? 2 : 1, sizes[i], (uint64_t)i + 50);
  o = stream_options(p[0].stream);
  RUN(cudaStreamBeginCapture(p[0].stream, cudaStreamCaptureModeGlobal));
  both_calls(&p[2], &o);
  RUN(cudaStreamEndCapture(p[0].stream, &graph));
  RUN(cudaGraphInstantiate(&run, graph, 0));
  for (k = 0; k < ROUNDS; ++k)
    for (i = 0; i < SIZES; ++i) {
      if (i % 3 == k % 3) RUN(cudaGraphLaunch(run, p[i].stream));
      if (i != 2) both_calls(&p[i], &o);
    }
  RUN(cudaDeviceSynchronize());
  RUN(cudaGraphExecDestroy(run));
  RUN(cudaGraphDestroy(graph));
  for (i = 0; i < SIZES; ++i) {
    check_pending(&p[i], text("%d x %d elements, one stream", (int)sizes[i][0], (int)sizes[i][1]));
    free_pending(&p[i]);
  }
}

/* More streams than have standing memory (scans have it for 32 of them, sums for 16); those that
 * come later do without. */
static void test_standing(gpured_backend backend) {
  enum { LIVE = 200 };
  pending *p = (pending *)malloc(LIVE * sizeof *p);
  (void)backend;
  one_stream();
  many_streams(p, LIVE, 70000, 17, 3);
  free(p);
  one_stream();
}

/* Two calls captured once and replayed; the results are wiped before the last time. `space`: the
 * workspace is the caller's. */
static void replay(int times, int space) {
  pending p;
  cudaGraph_t graph;
  cudaGraphExec_t run;
  gpured_options o;
  size_t bytes = 0, more = 0;
  void *workspace = NULL;
  int i;
  make_pending(&p, MANY + 321, 7);
  o = stream_options(p.stream);
  if (space) {
    CHECK(gpured_reduce_workspace(GPURED_SUM, &p.din.t, 1, &p.dsum.t, &o, &bytes) == GPURED_OK,
          "query");
    CHECK(gpured_scan_workspace(GPURED_SUM, &p.din.t, 0, 0, &p.dscan.t, &o, &more) == GPURED_OK,
          "query");
    bytes = bytes > more ? bytes : more;
    CHECK(bytes > 0, "neither call wants a workspace");
    RUN(cudaMalloc(&workspace, bytes));
    RUN(cudaMemsetAsync(workspace, 0xcd, bytes, p.stream));
    o.workspace = workspace;
    o.workspace_bytes = bytes;
  }
  RUN(cudaStreamBeginCapture(p.stream, cudaStreamCaptureModeGlobal));
  both_calls(&p, &o);
  RUN(cudaStreamEndCapture(p.stream, &graph));
  RUN(cudaGraphInstantiate(&run, graph, 0));
  for (i = 0; i < times; ++i) {
    if (i == times - 1) {
      RUN(cudaMemsetAsync(p.dsum.t.data, 0xa5, 4, p.stream));
      RUN(cudaMemsetAsync(p.dscan.t.data, 0xa5, 4 * (size_t)(MANY + 321), p.stream));
    }
    RUN(cudaGraphLaunch(run, p.stream));
  }
  RUN(cudaStreamSynchronize(p.stream));
  check_pending(&p, text("a graph replayed %d times, workspace %d", times, space));
  RUN(cudaGraphExecDestroy(run));
  RUN(cudaGraphDestroy(graph));
  if (workspace) RUN(cudaFree(workspace));
  free_pending(&p);
}

static void test_graphs(gpured_backend backend) {
  (void)backend;
  replay(1000, 0);
  replay(1000, 1);
}

/* The scans that look back, ten thousand times: always the same bits. Their state is wiped by the
 * call itself, and every hundredth result is read back. The sizes are for one kernel each. */
static void soak(int64_t n) {
  pending p;
  gpured_options o;
  int i;
  make_pending(&p, n, 3);
  o = stream_options(p.stream);
  for (i = 0; i < 10000; ++i) {
    gpured_status st;
    if (i % 100 == 99) RUN(cudaMemsetAsync(p.dscan.t.data, 0xa5, 4 * (size_t)n, p.stream));
    st = gpured_scan(GPURED_SUM, &p.din.t, 0, 0, &p.dscan.t, &o);
    CHECK(st == GPURED_OK, "scan %d: status %d", i, (int)st);
    if (i % 100 != 99) continue;
    RUN(cudaStreamSynchronize(p.stream));
    from_device(&p.dscan);
    CHECK(first_difference(&p.scan.t, &p.want_scan.t) < 0, "scan %d differs at %lld", i,
          (long long)first_difference(&p.scan.t, &p.want_scan.t));
  }
  free_pending(&p);
}

/* A scan along the columns of a matrix, or a reduction of its rows whose segments meet within a
 * launch, as many times. */
static void soak_matrix(int scan, gpured_op op, int64_t rows, int64_t cols) {
  const int out = scan ? GPURED_F32 : usual_output((int)op, GPURED_F32);
  int64_t shape[2];
  box in, got, want;
  copy din, dout;
  gpured_options o = stream_options(NULL);
  int i;
  shape[0] = rows;
  shape[1] = cols;
  in = box_filled(GPURED_F32, 2, shape, LAYOUT_C, OR_UNIFORM, 5);
  got = box_output(out, scan ? 2 : 1, shape, LAYOUT_C, 0);
  want = box_output(out, scan ? 2 : 1, shape, LAYOUT_C, 0);
  if (scan)
    scan_here(op, &in.t, 0, 0, &want.t);
  else
    oracle_reduce(op, &in.t, 2, &want.t, 0, 0);
  din = to_device(&in, 0);
  dout = to_device(&got, 0);
  for (i = 0; i < 10000; ++i) {
    gpured_status st = scan ? gpured_scan(op, &din.t, 0, 0, &dout.t, &o)
                            : gpured_reduce(op, &din.t, 2, &dout.t, &o);
    CHECK(st == GPURED_OK, "call %d: status %d", i, (int)st);
    if (i % 100 != 99) continue;
    from_device(&dout);
    expect_same(&got, &want.t,
                text("%s %s, %d times", op_name((int)op), scan ? "scan" : "of rows", i + 1));
    RUN(cudaMemset(dout.memory, 0xa5, got.bytes));
  }
  drop(&din);
  drop(&dout);
  box_free(&in);
  box_free(&got);
  box_free(&want);
}

static void test_soak(gpured_backend backend) {
  (void)backend;
  soak(1000003);
  soak(5000017);
  soak_matrix(1, GPURED_LOGSUMEXP, 200003, 1);
  soak_matrix(1, GPURED_SUM, 40000, 40);
  soak_matrix(0, GPURED_SUM, 1, 1000003);
  soak_matrix(0, GPURED_ARGMAX, 3, 300000);
  soak_matrix(0, GPURED_LOGSUMEXP, 17, 40000);
}

/* ---- the contract ------------------------------------------------------------------------------ */

typedef struct hook {
  int allocs, frees, fail;
  size_t live, most; /* more than `most` bytes are refused; 0: no limit */
} hook;

static void *hook_alloc(void *user, size_t bytes, void *stream) {
  hook *h = (hook *)user;
  void *p = NULL;
  (void)stream;
  ++h->allocs;
  if (h->fail || (h->most && bytes > h->most)) return NULL;
  if (cudaMalloc(&p, bytes) != cudaSuccess) return NULL;
  h->live += bytes;
  return p;
}

static void hook_dealloc(void *user, void *p, size_t bytes, void *stream) {
  hook *h = (hook *)user;
  (void)stream;
  ++h->frees;
  h->live -= bytes;
  RUN(cudaFree(p));
}

static void test_memory(gpured_backend backend) {
  pending p;
  gpured_options o;
  size_t bytes = 0, more = 0;
  hook h;
  char *space = NULL;
  (void)backend;
  memset(&h, 0, sizeof h);
  make_pending(&p, MANY, 9);
  o = stream_options(p.stream);
  o.alloc = hook_alloc;
  o.dealloc = hook_dealloc;
  o.user = &h;
  both_calls(&p, &o);
  RUN(cudaStreamSynchronize(p.stream));
  check_pending(&p, "memory from hooks");
  CHECK(h.allocs > 0 && h.frees == h.allocs && h.live == 0, "%d allocations, %d freed", h.allocs,
        h.frees);
  h.fail = 1;
  CHECK(gpured_scan(GPURED_SUM, &p.din.t, 0, 0, &p.dscan.t, &o) == GPURED_ERR_ALLOC,
        "a hook that fails");
  h.fail = h.allocs = 0;
  CHECK(gpured_scan_workspace(GPURED_SUM, &p.din.t, 0, 0, &p.dscan.t, &o, &bytes) == GPURED_OK,
        "query");
  CHECK(gpured_reduce_workspace(GPURED_SUM, &p.din.t, 1, &p.dsum.t, &o, &more) == GPURED_OK,
        "query");
  RUN(cudaMalloc((void **)&space, bytes + more));
  RUN(cudaMemsetAsync(space, 0xcd, bytes + more, p.stream)); /* in front of the calls, not beside */
  o.workspace = space;
  o.workspace_bytes = bytes - 1;
  CHECK(gpured_scan(GPURED_SUM, &p.din.t, 0, 0, &p.dscan.t, &o) == GPURED_ERR_WORKSPACE,
        "one byte too few");
  o.workspace_bytes = bytes > more ? bytes : more;
  both_calls(&p, &o);
  RUN(cudaStreamSynchronize(p.stream));
  check_pending(&p, "memory of the caller");
  CHECK(h.allocs == 0, "%d allocations in spite of a workspace", h.allocs);
  RUN(cudaFree(space));
  free_pending(&p);
}

static void test_contract(gpured_backend backend) {
  pending p;
  gpured_options o;
  gpured_tensor host, bad;
  (void)backend;
  make_pending(&p, MANY, 5);
  o = stream_options(p.stream);
  host = p.in.t;
  bad = p.din.t;
  CHECK(gpured_reduce(GPURED_SUM, &host, 1, &p.dsum.t, &o) == GPURED_ERR_UNSUPPORTED,
        "host and device mixed");
  o.backend = GPURED_BACKEND_CPU;
  CHECK(gpured_reduce(GPURED_SUM, &p.din.t, 1, &p.dsum.t, &o) == GPURED_ERR_UNSUPPORTED,
        "the CPU on device memory");
  o.backend = GPURED_BACKEND_AUTO;
  bad.data = p.in.t.data;
  CHECK(gpured_reduce(GPURED_SUM, &bad, 1, &p.dsum.t, &o) == GPURED_ERR_ARG,
        "host memory called the device's");
  bad = p.din.t;
  bad.device_id = 1000;
  p.dsum.t.device_id = 1000;
  CHECK(gpured_reduce(GPURED_SUM, &bad, 1, &p.dsum.t, &o) == GPURED_ERR_NO_BACKEND,
        "a device that is not there");
  p.dsum.t.device_id = 0;
  CHECK(cudaPeekAtLastError() == cudaSuccess, "an error was left behind");
  both_calls(&p, &o);
  RUN(cudaStreamSynchronize(p.stream));
  check_pending(&p, "after refused calls");
  free_pending(&p);
}

/* ---- GEMM-reduce --------------------------------------------------------------------------------- */

/* One product with up to three results, on the device and by the oracle. */
typedef struct there {
  box a, b, out[3], want[3];
  copy da, db, dout[3];
  gpured_result results[3], expected[3];
  gpured_gemm g;
  int count;
} there;

/* Without what is expected. */
static void fill_there(there *x, int dtype, int64_t batch, int64_t m, int64_t n, int64_t k,
                       const int *ops, int count, int axis, layout how, int shift) {
  const int64_t sa[3] = {batch, m, k}, sb[3] = {batch, k, n}, so[2] = {batch, axis ? m : n};
  int i;
  memset(x, 0, sizeof *x);
  x->count = count;
  x->a = box_filled(dtype, 3, sa, how, OR_UNIFORM, (uint64_t)(m + n));
  x->b = box_filled(dtype, 3, sb, how, OR_UNIFORM, (uint64_t)(n + k));
  x->da = to_device(&x->a, shift);
  x->db = to_device(&x->b, shift);
  for (i = 0; i < count; ++i) {
    int out = usual_output(ops[i], dtype);
    x->out[i] = box_output(out, 2, so, LAYOUT_C, 0);
    x->want[i] = box_output(out, 2, so, LAYOUT_C, 0);
    x->dout[i] = to_device(&x->out[i], 0);
    x->results[i].op = x->expected[i].op = ops[i];
    x->results[i].out = x->dout[i].t;
    x->expected[i].out = x->want[i].t;
  }
  x->g = gpured_default_gemm();
  x->g.axis = axis;
  x->g.count = count;
  x->g.a = &x->a.t;
  x->g.b = &x->b.t;
  x->g.results = x->expected;
}

static void point_there(there *x) {
  x->g.a = &x->da.t;
  x->g.b = &x->db.t;
  x->g.results = x->results;
}

static void make_there(there *x, int dtype, int64_t batch, int64_t m, int64_t n, int64_t k,
                       const int *ops, int count, int axis, layout how, int shift) {
  fill_there(x, dtype, batch, m, n, k, ops, count, axis, how, shift);
  oracle_gemm(&x->g, 0);
  point_there(x);
}

static void check_there(there *x, const char *name) {
  int i;
  for (i = 0; i < x->count; ++i) {
    from_device(&x->dout[i]);
    expect_same(&x->out[i], &x->want[i].t, text("%s: result %d", name, i));
  }
}

static void free_there(there *x) {
  int i;
  drop(&x->da);
  drop(&x->db);
  box_free(&x->a);
  box_free(&x->b);
  for (i = 0; i < x->count; ++i) {
    drop(&x->dout[i]);
    box_free(&x->out[i]);
    box_free(&x->want[i]);
  }
}

/* Strict options: f16 and bf16 have another default on a GPU. */
static gpured_options strict_options(cudaStream_t stream) {
  gpured_options o = stream_options(stream);
  o.precision = GPURED_PRECISION_STRICT;
  return o;
}

static const int gemm_trio[3] = {GPURED_ARGMAX, GPURED_SUMSQ, GPURED_LOGSUMEXP};
static const int short_pair[2] = {GPURED_SUM, GPURED_MEAN};

/* Whole tiles and edges, layouts with and without vectors, and both roads. */
static void test_device_gemm(gpured_backend backend) {
  static const int64_t shapes[][4] = {{1, 256, 512, 24}, {3, 128, 256, 20}, {2, 300, 200, 17},
                                      {1, 1000, 64, 36}, {2, 131, 257, 17}, {1, 64, 400, 100},
                                      {5, 384, 128, 16}};
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_F16, GPURED_BF16};
  static const layout hows[] = {LAYOUT_C, LAYOUT_F, LAYOUT_PAD, LAYOUT_RANDOM};
  int i, j, k, axis;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (k = 0; k < COUNT(hows); ++k)
        for (axis = 0; axis < 2; ++axis) {
          const int64_t *s = shapes[i];
          const int is_short = (i + j + k + axis) % 3 == 0, shift = (i + k) % 2;
          gpured_options o = strict_options(NULL);
          gpured_status st;
          size_t bytes = 0;
          there x;
          if (j > 0 && (i + 2 * j + k + axis) % 4 != 0) continue;
          make_there(&x, dtypes[j], s[0], s[1], s[2], s[3], is_short ? short_pair : gemm_trio,
                     is_short ? 2 : 3, axis, hows[k], shift);
          st = gpured_gemm_reduce_ex_workspace(&x.g, &o, &bytes);
          take_workspace(&o, st, bytes);
          st = gpured_gemm_reduce_ex(&x.g, &o);
          CHECK(st == GPURED_OK, "gemm on the device: status %d", (int)st);
          check_there(&x, text("gemm %s %d axis %d layout %d shift %d on the device",
                               describe(&x.a.t), i, axis, (int)hows[k], shift));
          RUN(cudaFree(o.workspace));
          free_there(&x);
        }
}

/* Floats in rows that are no multiple of 16 bytes, or along k, in products so large that they are
 * copied first, and the same where there is no room for copies. The CPU says what is expected,
 * since the oracle would take minutes. */
static void test_device_gemm_ragged(gpured_backend backend) {
  static const int64_t shapes[][4] = {
      {1, 1030, 1027, 2050}, {3, 1026, 1029, 701}, {1, 2061, 301, 3500}};
  static const layout hows[] = {LAYOUT_C, LAYOUT_F, LAYOUT_PAD};
  int i, j, axis, room, r;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(hows); ++j)
      for (axis = 0; axis < 2; ++axis) {
        const int64_t *s = shapes[i];
        gpured_options o = gpured_default_options();
        size_t bytes = 0;
        hook h;
        there x;
        fill_there(&x, GPURED_F32, s[0], s[1], s[2], s[3], gemm_trio, 3, axis, hows[j], j);
        CHECK(gpured_gemm_reduce_ex(&x.g, &o) == GPURED_OK, "ragged floats on the CPU");
        point_there(&x);
        for (room = i == 2; room < 3; ++room) { /* the last ones are not all copied */
          gpured_status st;
          memset(&h, 0, sizeof h);
          o = strict_options(NULL);
          st = gpured_gemm_reduce_ex_workspace(&x.g, &o, &bytes);
          if (room == 2) {
            take_workspace(&o, st, bytes);
          } else {
            o.alloc = hook_alloc;
            o.dealloc = hook_dealloc;
            o.user = &h;
            h.most = room ? bytes : bytes - 1;
          }
          for (r = 0; r < 3; ++r) RUN(cudaMemset(x.dout[r].t.data, 0xa5, (size_t)(1200 * s[0])));
          st = gpured_gemm_reduce_ex(&x.g, &o);
          CHECK(st == GPURED_OK, "ragged floats: status %d", (int)st);
          RUN(cudaDeviceSynchronize());
          CHECK(h.live == 0, "memory from hooks is kept");
          check_there(
              &x, text("ragged floats %d axis %d layout %d room %d", i, axis, (int)hows[j], room));
          RUN(cudaFree(o.workspace));
        }
        free_there(&x);
      }
}

/* Sums of products whose right rows begin anywhere: a column to some thousands, a depth of less
 * than a block to many segments, padding that is NaN; results that the launch which joins segments
 * stores, and others. */
static void test_device_gemm_loose(gpured_backend backend) {
  static const int64_t shapes[][4] = {{2, 90, 33, 300},   {1, 50, 4095, 700}, {3, 40, 129, 4500},
                                      {1, 300, 1001, 33}, {5, 20, 71, 1030},  {1, 9, 47, 70001},
                                      {2, 7, 1, 5003},    {1, 5, 3, 20001},   {4, 3, 501, 2049},
                                      {1, 4, 9001, 2560}, {1, 2, 1001, 16009}};
  static const int dtypes[] = {GPURED_F32, GPURED_F64, GPURED_F16, GPURED_BF16, GPURED_F32};
  int i, j, how, axis;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (j = 0; j < COUNT(dtypes); ++j)
      for (how = 0; how < 2; ++how)
        for (axis = 0; axis < 2; ++axis) {
          const int64_t *s = shapes[i];
          const layout plain = axis ? LAYOUT_F : LAYOUT_C;
          const int both = (i + j + how) % 2; /* or the sum or the mean alone */
          gpured_options o = gpured_default_options();
          gpured_status st;
          size_t bytes = 0;
          there x;
          o.acc_dtype = j == 4 ? GPURED_F64 : 0;
          fill_there(&x, dtypes[j], s[0], axis ? s[2] : s[1], axis ? s[1] : s[2], s[3],
                     both ? short_pair : short_pair + axis, 1 + both, axis,
                     how ? LAYOUT_PAD : plain, (i + j + how) % 3);
          CHECK(gpured_gemm_reduce_ex(&x.g, &o) == GPURED_OK, "loose rows on the CPU");
          point_there(&x);
          o = strict_options(NULL);
          o.acc_dtype = j == 4 ? GPURED_F64 : 0;
          st = gpured_gemm_reduce_ex_workspace(&x.g, &o, &bytes);
          take_workspace(&o, st, bytes);
          st = gpured_gemm_reduce_ex(&x.g, &o);
          CHECK(st == GPURED_OK, "loose rows: status %d", (int)st);
          check_there(&x, text("loose rows %s %d acc %d axis %d layout %d", describe(&x.b.t), i,
                               o.acc_dtype, axis, how));
          RUN(cudaFree(o.workspace));
          free_there(&x);
        }
}

/* An operand of a product on tensor cores: `lines` lines of n elements, which lie one behind the
 * other or each `pitch` elements behind the one before. */
static gpured_tensor lines_there(const copy *c, int64_t batch, int64_t lines, int64_t n,
                                 int64_t pitch, int across) {
  int64_t shape[3], strides[3];
  gpured_tensor t;
  void *to = NULL;
  shape[0] = batch;
  shape[1] = across ? n : lines;
  shape[2] = across ? lines : n;
  strides[0] = lines * pitch;
  strides[1] = across ? 1 : pitch;
  strides[2] = across ? pitch : 1;
  RUN(cudaMalloc(&to, (size_t)(batch * lines * pitch * 2)));
  RUN(cudaMemset(to, 0xff, (size_t)(batch * lines * pitch * 2))); /* NaN */
  RUN(cudaMemcpy2D(to, (size_t)pitch * 2, c->t.data, (size_t)n * 2, (size_t)n * 2,
                   (size_t)(batch * lines), cudaMemcpyDeviceToDevice));
  t = gpured_array(to, (gpured_dtype)c->t.dtype, 3, shape, strides);
  t.device = GPURED_CUDA_DEVICE;
  return t;
}

/* Products on tensor cores of rows that are no multiple of 16 bytes, without a gap and with one,
 * have the bits of those of rows that are. */
static void test_device_gemm_packed(gpured_backend backend) {
  static const int64_t shapes[][4] = {
      {70, 63, 63, 63}, {1, 301, 1001, 333}, {3, 130, 70, 129}, {2, 259, 65, 7}};
  static const int ops[3] = {GPURED_MAX, GPURED_ARGMIN, GPURED_LOGSUMEXP};
  int i, r, how, kind;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (how = 0; how < 8; ++how) {
      const int64_t *s = shapes[i], outs[2] = {s[0], s[2]};
      const int left_across = how & 1, right_across = how >> 1 & 1, gap = how >> 2 ? 3 : 0;
      const int64_t line[2] = {left_across ? s[1] : s[3], right_across ? s[3] : s[2]};
      const int64_t lines[2] = {left_across ? s[3] : s[1], right_across ? s[2] : s[3]};
      gpured_tensor operand[2][2];
      for (kind = 0; kind < 2; ++kind) {
        const int64_t shape[3] = {s[0], lines[kind], line[kind]};
        box b = box_filled(i % 2 ? GPURED_F16 : GPURED_BF16, 3, shape, LAYOUT_C, OR_UNIFORM,
                           (uint64_t)(i * 8 + how));
        copy c = to_device(&b, 0);
        const int across = kind ? right_across : left_across;
        operand[kind][0] = lines_there(&c, s[0], lines[kind], line[kind], line[kind] + gap, across);
        operand[kind][1] =
            lines_there(&c, s[0], lines[kind], line[kind], (line[kind] + 23) / 8 * 8, across);
        drop(&c);
        box_free(&b);
      }
      for (r = 0; r < COUNT(ops); ++r) {
        const int dtype = is_arg(ops[r]) ? GPURED_I64 : GPURED_F32;
        box out[2];
        copy d[2];
        for (kind = 0; kind < 2; ++kind) {
          gpured_status st;
          out[kind] = box_output(dtype, 2, outs, LAYOUT_C, 1);
          d[kind] = to_device(&out[kind], 0);
          st = gpured_gemm_reduce((gpured_op)ops[r], &operand[0][kind], &operand[1][kind], 0,
                                  &d[kind].t, NULL);
          CHECK(st == GPURED_OK, "packed rows: status %d", (int)st);
          from_device(&d[kind]);
        }
        expect_same(&out[0], &out[1].t,
                    text("packed rows %d, layouts %d: %s", i, how, op_name(ops[r])));
        for (kind = 0; kind < 2; ++kind) {
          drop(&d[kind]);
          box_free(&out[kind]);
        }
      }
      for (kind = 0; kind < 4; ++kind) RUN(cudaFree(operand[kind / 2][kind % 2].data));
    }
}

/* Products whose tiles fill all multiprocessors once or twice and a part of them again: those in
 * pieces, or a launch of narrower ones, take what is left. One item and three, f32, f64 and f32 in
 * f64; two depths, of which one leaves a slice that is not full. */
static void test_device_gemm_shares(gpured_backend backend) {
  static const int eighths[] = {18, 18, 17, 17, 12}; /* of the tiles that fill them once */
  int i, axis, kind, processors = 0;
  (void)backend;
  RUN(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  for (i = 0; i < COUNT(eighths); ++i)
    for (axis = 0; axis < 2; ++axis)
      for (kind = 0; kind < 3; ++kind) {
        const int dtype = kind == 1 ? GPURED_F64 : GPURED_F32, acc = kind == 2 ? GPURED_F64 : 0;
        const int batch = i % 2 ? 3 : 1, rows = i / 2 == 1 ? 1000 : 1024, width = kind ? 128 : 256;
        const int64_t tiles = processors * eighths[i] / 8 + 3;
        const int64_t across = width * (tiles / (8 * batch) + 1) + (i % 4 ? 70 : 0);
        gpured_options o = gpured_default_options();
        there x;
        o.acc_dtype = acc;
        fill_there(&x, dtype, batch, axis ? across : rows, axis ? rows : across, axis ? 1997 : 2000,
                   gemm_trio, 3, axis, i < 3 ? LAYOUT_C : LAYOUT_PAD, i == 3);
        CHECK(gpured_gemm_reduce_ex(&x.g, &o) == GPURED_OK, "shared tiles on the CPU");
        point_there(&x);
        o = strict_options(NULL);
        o.acc_dtype = acc;
        CHECK(gpured_gemm_reduce_ex(&x.g, &o) == GPURED_OK, "shared tiles on the device");
        check_there(&x, text("shared tiles %d axis %d kind %d", i, axis, kind));
        free_there(&x);
      }
}

/* A product whose tiles are handed over, f32 and f64: on two streams at once, replayed from a
 * graph, and with a workspace that has no room for what is handed over. */
static void test_device_gemm_pieces(gpured_backend backend) {
  cudaStream_t stream[STREAMS];
  cudaGraph_t graph;
  cudaGraphExec_t replayed;
  int kind, i, k, processors = 0;
  (void)backend;
  RUN(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  for (i = 0; i < STREAMS; ++i) RUN(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
  for (kind = 0; kind < 2; ++kind) {
    const int64_t across = (kind ? 128 : 256) * (int64_t)(processors * 3 / 16 + 1);
    gpured_options o = gpured_default_options();
    size_t bytes = 0;
    char *space = NULL;
    there x[STREAMS];
    for (i = 0; i < STREAMS; ++i) {
      fill_there(&x[i], kind ? GPURED_F64 : GPURED_F32, 1, 1024, across, 1000 + i, gemm_trio, 3, 0,
                 LAYOUT_C, 0);
      CHECK(gpured_gemm_reduce_ex(&x[i].g, &o) == GPURED_OK, "pieces on the CPU");
      point_there(&x[i]);
    }
    for (k = 0; k < 20; ++k)
      for (i = 0; i < STREAMS; ++i) {
        o = strict_options(stream[i]);
        CHECK(gpured_gemm_reduce_ex(&x[i].g, &o) == GPURED_OK, "stream %d", i);
      }
    RUN(cudaDeviceSynchronize());
    for (i = 0; i < STREAMS; ++i) check_there(&x[i], text("pieces %d, stream %d", kind, i));
    o = strict_options(stream[0]);
    RUN(cudaStreamBeginCapture(stream[0], cudaStreamCaptureModeGlobal));
    CHECK(gpured_gemm_reduce_ex(&x[0].g, &o) == GPURED_OK, "captured");
    RUN(cudaStreamEndCapture(stream[0], &graph));
    RUN(cudaGraphInstantiate(&replayed, graph, 0));
    for (k = 0; k < 100; ++k) {
      if (k == 99) RUN(cudaMemsetAsync(x[0].dout[0].t.data, 0xa5, 8 * (size_t)across, stream[0]));
      RUN(cudaGraphLaunch(replayed, stream[0]));
    }
    RUN(cudaStreamSynchronize(stream[0]));
    check_there(&x[0], text("pieces %d in a graph", kind));
    RUN(cudaGraphExecDestroy(replayed));
    RUN(cudaGraphDestroy(graph));
    o = strict_options(NULL);
    CHECK(gpured_gemm_reduce_ex_workspace(&x[0].g, &o, &bytes) == GPURED_OK, "query");
    RUN(cudaMalloc((void **)&space, bytes));
    o.workspace = space;
    for (k = 0; k < 2; ++k) {
      o.workspace_bytes = bytes - (size_t)k;
      RUN(cudaMemset(space, 0xcd, bytes));
      RUN(cudaMemset(x[0].dout[0].t.data, 0xa5, 8 * (size_t)across));
      CHECK(gpured_gemm_reduce_ex(&x[0].g, &o) == GPURED_OK, "%d bytes too few for pieces", k);
      RUN(cudaDeviceSynchronize());
      check_there(&x[0], text("pieces %d, %d bytes too few", kind, k));
    }
    RUN(cudaFree(space));
    for (i = 0; i < STREAMS; ++i) free_there(&x[i]);
  }
  for (i = 0; i < STREAMS; ++i) RUN(cudaStreamDestroy(stream[i]));
}

/* Products of few tiles, whose values go to memory: in tiles of three heights for f32, on the fp64
 * units for f64 and f32 in f64; operands along and across k and such as no vector reads; alone, and
 * with a map and the product as an output; and with a workspace that has no room for the values. */
static void test_device_gemm_values(gpured_backend backend) {
  static const int64_t shapes[][4] = {{1, 252, 260, 1500}, {1, 300, 320, 3000}, {2, 300, 400, 1200},
                                      {1, 512, 512, 1000}, {3, 20, 600, 900},   {1, 2000, 8, 2000},
                                      {1, 251, 257, 1501}};
  int i, how, kind;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i)
    for (how = 0; how < 4; ++how)
      for (kind = 0; kind < 3; ++kind) {
        const int64_t *s = shapes[i], sb[3] = {s[0], s[3], s[2]}, sc[3] = {s[0], s[1], s[2]};
        const int dtype = kind == 1 ? GPURED_F64 : GPURED_F32, axis = (i + how + kind) % 2;
        const char *name = text("values %d, layouts %d, kind %d", i, how, kind);
        gpured_options o = gpured_default_options();
        box c[2];
        copy product;
        gpured_status st;
        size_t bytes = 0;
        void *space = NULL;
        there x;
        fill_there(&x, dtype, s[0], s[1], s[2], s[3], gemm_trio, 3, axis,
                   how % 2 ? LAYOUT_F : LAYOUT_C, 0);
        drop(&x.db);
        box_free(&x.b);
        x.b = box_filled(dtype, 3, sb, how / 2 ? LAYOUT_F : LAYOUT_C, OR_UNIFORM, 77);
        x.db = to_device(&x.b, 0);
        c[0] = box_output(dtype, 3, sc, LAYOUT_C, 0);
        c[1] = box_output(dtype, 3, sc, LAYOUT_C, 0);
        product = to_device(&c[1], 0);
        o.acc_dtype = kind == 2 ? GPURED_F64 : 0;
        if ((i + how) % 2) {
          x.g.c = &c[0].t;
          x.g.alpha = -0.75;
          x.g.map = GPURED_MAP_SQUARE;
        }
        CHECK(gpured_gemm_reduce_ex(&x.g, &o) == GPURED_OK, "%s on the CPU", name);
        point_there(&x);
        if (x.g.c) x.g.c = &product.t;
        o = strict_options(NULL);
        o.acc_dtype = kind == 2 ? GPURED_F64 : 0;
        CHECK(gpured_gemm_reduce_ex(&x.g, &o) == GPURED_OK, "%s", name);
        check_there(&x, name);
        from_device(&product);
        if (x.g.c) expect_same(&c[1], &c[0].t, text("%s: the product", name));
        CHECK(gpured_gemm_reduce_ex_workspace(&x.g, &o, &bytes) == GPURED_OK, "query");
        RUN(cudaMalloc(&space, bytes));
        o.workspace = space;
        o.workspace_bytes = bytes - 1;
        RUN(cudaMemset(space, 0xcd, bytes));
        st = gpured_gemm_reduce_ex(&x.g, &o); /* where values stay in registers it is refused */
        CHECK(st == GPURED_OK || (i > 0 && st == GPURED_ERR_WORKSPACE), "%s, a byte too few", name);
        if (st == GPURED_OK) check_there(&x, text("%s, a byte too few", name));
        RUN(cudaFree(space));
        drop(&product);
        box_free(&c[0]);
        box_free(&c[1]);
        free_there(&x);
      }
}

/* Bytes along k that begin beside a multiple of 16: tensor cores get a copy where the workspace has
 * room for one, which the query, without their place, does not ask for. */
static void test_device_displaced(gpured_backend backend) {
  static const int shifts[] = {1, 8, 15};
  int i, more;
  (void)backend;
  for (i = 0; i < COUNT(shifts); ++i)
    for (more = 0; more < 2; ++more) {
      gpured_options o = strict_options(NULL);
      gpured_status st;
      size_t bytes = 0;
      there x;
      gpured_tensor a, b;
      make_there(&x, i ? GPURED_I8 : GPURED_U8, 2, 150, 90, 160, gemm_trio, 2, i % 2, LAYOUT_C,
                 shifts[i]);
      a = *x.g.a;
      b = *x.g.b;
      a.data = b.data = NULL;
      x.g.a = &a;
      x.g.b = &b;
      st = gpured_gemm_reduce_ex_workspace(&x.g, &o, &bytes);
      take_workspace(&o, st, bytes + (more ? 1 << 20 : 0));
      x.g.a = &x.da.t;
      x.g.b = &x.db.t;
      st = gpured_gemm_reduce_ex(&x.g, &o);
      CHECK(st == GPURED_OK, "displaced bytes: status %d", (int)st);
      check_there(&x, text("bytes %d beside a border, room %d", shifts[i], more));
      RUN(cudaFree(o.workspace));
      free_there(&x);
    }
}

/* Many items have the bits that each has alone. */
static void test_gemm_batch(gpured_backend backend) {
  there x;
  gpured_options o = strict_options(NULL);
  int i, r;
  (void)backend;
  make_there(&x, GPURED_F32, 7, 200, 300, 50, gemm_trio, 3, 0, LAYOUT_C, 0);
  for (i = 0; i < 7; ++i) {
    gpured_tensor a = slice(&x.da.t, 0, i, 1), b = slice(&x.db.t, 0, i, 1);
    gpured_result results[3];
    gpured_gemm g = x.g;
    gpured_status st;
    for (r = 0; r < 3; ++r) {
      results[r].op = gemm_trio[r];
      results[r].out = slice(&x.dout[r].t, 0, i, 1);
    }
    g.a = &a;
    g.b = &b;
    g.results = results;
    st = gpured_gemm_reduce_ex(&g, &o);
    CHECK(st == GPURED_OK, "item %d alone: status %d", i, (int)st);
  }
  check_there(&x, "items one by one");
  free_there(&x);
}

/* Calls in flight on two streams, and a captured graph that is replayed with wiped results. */
static void test_gemm_streams(gpured_backend backend) {
  there x[STREAMS];
  cudaStream_t stream[STREAMS];
  cudaGraph_t graph;
  cudaGraphExec_t replayed;
  int i, k;
  (void)backend;
  for (i = 0; i < STREAMS; ++i) {
    make_there(&x[i], GPURED_F32, 1, 700 + 100 * i, 400, 200, i ? gemm_trio : short_pair, i ? 3 : 2,
               0, LAYOUT_C, 0);
    RUN(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
  }
  for (k = 0; k < 20; ++k)
    for (i = 0; i < STREAMS; ++i) {
      gpured_options o = strict_options(stream[i]);
      gpured_status st = gpured_gemm_reduce_ex(&x[i].g, &o);
      CHECK(st == GPURED_OK, "stream %d: status %d", i, (int)st);
    }
  RUN(cudaDeviceSynchronize());
  for (i = 0; i < STREAMS; ++i) check_there(&x[i], text("stream %d", i));
  for (i = 0; i < STREAMS; ++i) {
    gpured_options o = strict_options(stream[i]);
    RUN(cudaStreamBeginCapture(stream[i], cudaStreamCaptureModeGlobal));
    CHECK(gpured_gemm_reduce_ex(&x[i].g, &o) == GPURED_OK, "captured");
    RUN(cudaStreamEndCapture(stream[i], &graph));
    RUN(cudaGraphInstantiate(&replayed, graph, 0));
    for (k = 0; k < 100; ++k) {
      if (k == 99) RUN(cudaMemsetAsync(x[i].dout[0].t.data, 0xa5, 400, stream[i]));
      RUN(cudaGraphLaunch(replayed, stream[i]));
    }
    RUN(cudaStreamSynchronize(stream[i]));
    check_there(&x[i], text("graph %d", i));
    RUN(cudaGraphExecDestroy(replayed));
    RUN(cudaGraphDestroy(graph));
    RUN(cudaStreamDestroy(stream[i]));
    free_there(&x[i]);
  }
}

/* The caller's workspace: what the query says is enough, a byte less is refused, and nothing beside
 * it is touched. */
static void test_gemm_memory(gpured_backend backend) {
  static const int ops[3] = {GPURED_MEAN, GPURED_ARGMIN, GPURED_NORM2};
  static const int64_t shapes[][4] = {{2, 300, 200, 70}, {1, 70000, 3, 5}, {1, 5, 7, 100000}};
  unsigned char guard[64];
  int i, j;
  (void)backend;
  for (i = 0; i < COUNT(shapes); ++i) {
    there x;
    gpured_options o = strict_options(NULL);
    size_t bytes = 0;
    char *space = NULL;
    hook h;
    memset(&h, 0, sizeof h);
    o.alloc = hook_alloc;
    o.dealloc = hook_dealloc;
    o.user = &h;
    make_there(&x, GPURED_F32, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], ops, 3, 0,
               LAYOUT_C, 0);
    CHECK(gpured_gemm_reduce_ex_workspace(&x.g, &o, &bytes) == GPURED_OK && bytes > 0, "query");
    RUN(cudaMalloc((void **)&space, bytes + 64));
    RUN(cudaMemset(space, 0xcd, bytes + 64));
    o.workspace = space;
    o.workspace_bytes = bytes - 1;
    CHECK(gpured_gemm_reduce_ex(&x.g, &o) == GPURED_ERR_WORKSPACE, "one byte too few");
    o.workspace_bytes = bytes;
    CHECK(gpured_gemm_reduce_ex(&x.g, &o) == GPURED_OK, "as many bytes as the query says");
    RUN(cudaDeviceSynchronize());
    check_there(&x, text("memory of the caller, shape %d", i));
    RUN(cudaMemcpy(guard, space + bytes, 64, cudaMemcpyDeviceToHost));
    for (j = 0; j < 64 && guard[j] == 0xcd; ++j) continue;
    CHECK(j == 64, "shape %d: wrote behind the workspace", i);
    CHECK(h.allocs == 0, "%d allocations in spite of a workspace", h.allocs);
    o.workspace = NULL;
    o.workspace_bytes = 0;
    CHECK(gpured_gemm_reduce_ex(&x.g, &o) == GPURED_OK, "memory from hooks");
    RUN(cudaDeviceSynchronize());
    CHECK(h.allocs == 1 && h.frees == 1 && h.live == 0, "%d allocations, %d freed", h.allocs,
          h.frees);
    check_there(&x, text("memory from hooks, shape %d", i));
    RUN(cudaFree(space));
    free_there(&x);
  }
}

const test_case cuda_tests[] = {{"device_reduce", test_device_reduce, T_CUDA},
                                {"device_ragged", test_device_ragged, T_CUDA},
                                {"device_many_rows", test_device_many_rows, T_CUDA},
                                {"device_own_rows", test_device_own_rows, T_CUDA},
                                {"device_items", test_device_items, T_CUDA},
                                {"device_middle_axis", test_device_middle_axis, T_CUDA},
                                {"device_small_items", test_device_small_items, T_CUDA},
                                {"device_tiny_items", test_device_tiny_items, T_CUDA},
                                {"device_tall", test_device_tall, T_CUDA},
                                {"device_touching", test_device_touching, T_CUDA},
                                {"device_means", test_device_means, T_CUDA},
                                {"device_reals", test_device_reals, T_CUDA},
                                {"device_scan_items", test_device_scan_items, T_CUDA},
                                {"device_scan_few", test_device_scan_few, T_CUDA},
                                {"device_logsumexp", test_device_logsumexp, T_CUDA},
                                {"device_many_logsumexp", test_device_many_logsumexp, T_CUDA},
                                {"device_scan", test_device_scan, T_CUDA},
                                {"device_scan_large", test_device_scan_large, T_CUDA},
                                {"device_scan_ragged", test_device_scan_ragged, T_CUDA},
                                {"device_scan_at_once", test_device_scan_at_once, T_CUDA},
                                {"device_scan_rows", test_device_scan_rows, T_CUDA},
                                {"device_scan_columns", test_device_scan_columns, T_CUDA},
                                {"device_best_rows", test_device_best_rows, T_CUDA},
                                {"device_streams", test_streams, T_CUDA},
                                {"device_few_rows", test_device_few_rows, T_CUDA},
                                {"device_single_columns", test_device_single_columns, T_CUDA},
                                {"device_column_units", test_device_column_units, T_CUDA},
                                {"device_column_segments", test_device_column_segments, T_CUDA},
                                {"device_several_axes", test_device_several_axes, T_CUDA},
                                {"device_channels", test_device_channels, T_CUDA},
                                {"device_scan_few_rows", test_device_scan_few_rows, T_CUDA},
                                {"device_scan_short", test_device_scan_short, T_CUDA},
                                {"device_standing", test_standing, T_CUDA},
                                {"device_graphs", test_graphs, T_CUDA},
                                {"device_memory", test_memory, T_CUDA},
                                {"device_contract", test_contract, T_CUDA},
                                {"device_gemm", test_device_gemm, T_CUDA},
                                {"device_gemm_ragged", test_device_gemm_ragged, T_CUDA},
                                {"device_gemm_loose", test_device_gemm_loose, T_CUDA},
                                {"device_gemm_packed", test_device_gemm_packed, T_CUDA},
                                {"device_gemm_shares", test_device_gemm_shares, T_CUDA},
                                {"device_gemm_pieces", test_device_gemm_pieces, T_CUDA},
                                {"device_gemm_values", test_device_gemm_values, T_CUDA},
                                {"device_displaced", test_device_displaced, T_CUDA},
                                {"device_gemm_batch", test_gemm_batch, T_CUDA},
                                {"device_gemm_streams", test_gemm_streams, T_CUDA},
                                {"device_gemm_memory", test_gemm_memory, T_CUDA},
                                {"device_soak", test_soak, T_CUDA},
                                {NULL, NULL, 0}};
#else
const test_case cuda_tests[] = {{NULL, NULL, 0}};
#endif
