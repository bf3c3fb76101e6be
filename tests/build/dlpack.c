/*
 * gpured_from_dlpack() with the dlpack.h that is there, valid as C99 and as C++11: dlpack.sh
 * compiles and runs it. The first include shows that the function comes with a later one as well.
 * Says what is wrong, line by line; the status is 1 then.
 */
#include "gpured.h"
#ifndef GPURED_DLPACK
#define GPURED_DLPACK
#include "gpured.h"
#endif
#include <stdio.h>
#include <string.h>

static int wrong;

#define CHECK(cond, ...)             \
  do {                               \
    if (!(cond)) {                   \
      printf("line %d: ", __LINE__); \
      printf(__VA_ARGS__);           \
      printf("\n");                  \
      wrong = 1;                     \
    }                                \
  } while (0)

static float numbers[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
static int64_t shape[9] = {2, 3, 1, 1, 1, 1, 1, 1, 1};

/* A compact 2x3 matrix of floats. */
static DLTensor lent(void) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = numbers;
  t.device.device_type = kDLCPU;
  t.ndim = 2;
  t.dtype.code = kDLFloat;
  t.dtype.bits = 32;
  t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

/* The status of borrowing; after an error `to` must hold what it held before. */
static gpured_status borrow(const DLTensor *from, gpured_tensor *to) {
  gpured_tensor before;
  gpured_status status;
  memset(to, 0x5a, sizeof *to);
  before = *to;
  status = gpured_from_dlpack(from, to);
  CHECK(status == GPURED_OK || memcmp(&before, to, sizeof before) == 0,
        "status %d, but the tensor was written", (int)status);
  return status;
}

/* Every code with every number of bits: what gpured has is taken, all else refused. */
static void types(void) {
  static const struct {
    int code, bits, dtype;
  } known[] = {
      {kDLFloat, 32, GPURED_F32},   {kDLFloat, 64, GPURED_F64},      {kDLFloat, 16, GPURED_F16},
      {kDLBfloat, 16, GPURED_BF16}, {kDLInt, 8, GPURED_I8},          {kDLUInt, 8, GPURED_U8},
      {kDLInt, 32, GPURED_I32},     {kDLUInt, 32, GPURED_U32},       {kDLInt, 64, GPURED_I64},
      {kDLUInt, 64, GPURED_U64},    {6 /* booleans */, 8, GPURED_U8}};
  int code, bits, i, want;
  for (code = 0; code < 256; ++code)
    for (bits = 0; bits < 256; ++bits) {
      DLTensor from = lent();
      gpured_tensor to;
      gpured_status status;
      from.dtype.code = (uint8_t)code;
      from.dtype.bits = (uint8_t)bits;
      for (want = i = 0; i < (int)(sizeof known / sizeof *known); ++i)
        if (known[i].code == code && known[i].bits == bits) want = known[i].dtype;
      status = borrow(&from, &to);
      CHECK(status == (want ? GPURED_OK : GPURED_ERR_UNSUPPORTED), "code %d, %d bits: status %d",
            code, bits, (int)status);
      CHECK(status || to.dtype == want, "code %d, %d bits: dtype %d", code, bits, (int)to.dtype);
    }
  for (i = 0; i < 5; ++i) {
    DLTensor from = lent();
    gpured_tensor to;
    from.dtype.lanes = (uint16_t)(i == 4 ? 0x101 : i);
    CHECK(borrow(&from, &to) == (i == 1 ? GPURED_OK : GPURED_ERR_UNSUPPORTED), "%d lanes", i);
  }
}

static void devices(void) {
  int type;
  for (type = 0; type < 20; ++type) {
    int cpu = type == kDLCPU || type == kDLCUDAHost,
        cuda = type == kDLCUDA || type == kDLCUDAManaged;
    DLTensor from = lent();
    gpured_tensor to;
    gpured_status status;
    from.device.device_type = (DLDeviceType)type;
    from.device.device_id = 3;
    status = borrow(&from, &to);
    CHECK(status == (cpu || cuda ? GPURED_OK : GPURED_ERR_UNSUPPORTED), "device %d: status %d",
          type, (int)status);
    if (cpu) CHECK(to.device == GPURED_CPU && to.device_id == 0, "device %d", type);
    if (cuda) CHECK(to.device == GPURED_CUDA_DEVICE && to.device_id == 3, "device %d", type);
  }
}

static void refusals(void) {
  DLTensor from = lent();
  gpured_tensor to;
  int i;
  CHECK(borrow(NULL, &to) == GPURED_ERR_ARG, "no tensor");
  CHECK(gpured_from_dlpack(&from, NULL) == GPURED_ERR_ARG, "nowhere to put it");
  from.shape = NULL;
  CHECK(borrow(&from, &to) == GPURED_ERR_ARG, "no shape");
  for (i = -2; i < 12; ++i) {
    from = lent();
    from.ndim = i;
    CHECK(borrow(&from, &to) == (i < 0 || i > 8 ? GPURED_ERR_SHAPE : GPURED_OK), "ndim %d", i);
  }
  from = lent();
  shape[1] = -3;
  CHECK(borrow(&from, &to) == GPURED_ERR_SHAPE, "negative extent");
  shape[1] = 3;
  from.byte_offset = (uint64_t)PTRDIFF_MAX + 1;
  CHECK(borrow(&from, &to) == GPURED_ERR_OVERFLOW, "offset of half the memory");
  from.byte_offset = UINT64_MAX;
  CHECK(borrow(&from, &to) == GPURED_ERR_OVERFLOW, "offset of all memory");
}

/* The sum of everything that a borrowed tensor shows. */
static double total(const DLTensor *from, const char *name) {
  double sum = -1;
  gpured_tensor in, out = gpured_array(&sum, GPURED_F64, 0, NULL, NULL);
  gpured_status status = borrow(from, &in);
  CHECK(status == GPURED_OK, "%s: %s", name, gpured_status_string(status));
  if (status) return sum;
  status = gpured_reduce(GPURED_SUM, &in, (1u << in.ndim) - 1u, &out, NULL);
  CHECK(status == GPURED_OK, "%s, reduced: %s", name, gpured_status_string(status));
  return sum;
}

static void expect(const DLTensor *from, double want, const char *name) {
  double got = total(from, name);
  CHECK(got >= want && got <= want, "%s: %g, not %g", name, got, want);
}

static void views(void) {
  int64_t back[2] = {-6, 2}, none[2] = {0, 1};
  DLTensor from = lent();
  gpured_tensor to;
  expect(&from, 15, "a compact matrix");
  CHECK(borrow(&from, &to) == GPURED_OK && to.data == numbers && to.ndim == 2 && to.shape[0] == 2 &&
            to.shape[1] == 3 && to.strides[0] == 3 && to.strides[1] == 1,
        "strides of a compact matrix");
  from.byte_offset = 4 * sizeof *numbers;
  expect(&from, 39, "a byte offset");
  from.byte_offset = 6 * sizeof *numbers;
  from.strides = back;
  expect(&from, 30, "the even columns of two rows of 6, from the last row");
  CHECK(borrow(&from, &to) == GPURED_OK && to.data == numbers + 6 && to.strides[0] == -6 &&
            to.strides[1] == 2,
        "strides as given");
  from.strides = none;
  expect(&from, 42, "a row twice");
  from = lent();
  from.ndim = 0;
  from.shape = NULL;
  from.byte_offset = 7 * sizeof *numbers;
  expect(&from, 7, "one element");
}

/* Tensors without elements, and those that only the call can refuse. */
static void limits(void) {
  int64_t empty[2] = {0, 5}, huge[3] = {INT64_MAX, INT64_MAX, 2};
  double sum;
  DLTensor from = lent();
  gpured_tensor to, out = gpured_vector(&sum, GPURED_F64, 1);
  from.data = NULL;
  from.byte_offset = 64;
  CHECK(borrow(&from, &to) == GPURED_OK && !to.data, "an offset from nothing");
  CHECK(gpured_reduce(GPURED_SUM, &to, 3u, &out, NULL) == GPURED_ERR_ARG, "no data");
  from.shape = empty;
  expect(&from, 0, "no elements");
  from = lent();
  from.byte_offset = 1;
  CHECK(borrow(&from, &to) == GPURED_OK, "an odd offset");
  CHECK(gpured_reduce(GPURED_SUM, &to, 3u, &out, NULL) == GPURED_ERR_ARG, "misaligned data");
  from = lent();
  from.shape = huge;
  from.ndim = 3;
  CHECK(borrow(&from, &to) == GPURED_OK, "a huge shape");
  CHECK(gpured_reduce(GPURED_SUM, &to, 7u, &out, NULL) == GPURED_ERR_OVERFLOW, "a huge shape");
}

/* Results go into borrowed memory too. */
static void output(void) {
  float sums[3] = {-1, -1, -1};
  int64_t three = 3;
  DLTensor from = lent();
  gpured_tensor in, out;
  CHECK(borrow(&from, &in) == GPURED_OK, "the input");
  from.data = sums;
  from.ndim = 1;
  from.shape = &three;
  CHECK(borrow(&from, &out) == GPURED_OK, "the output");
  CHECK(gpured_reduce(GPURED_SUM, &in, 1u, &out, NULL) == GPURED_OK, "the reduction");
  CHECK(sums[0] + sums[1] * 100 + sums[2] * 10000 == 70503, "sums %g %g %g", (double)sums[0],
        (double)sums[1], (double)sums[2]);
}

int main(void) {
  types();
  devices();
  refusals();
  views();
  limits();
  output();
  return wrong;
}
