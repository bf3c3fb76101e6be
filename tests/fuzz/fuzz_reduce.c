/* gpured_reduce against the oracle: any operation, types, shape, strides, options and overlap. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct reduce_case {
  int op, dtype, out_dtype, acc, ddof, keep;
  uint32_t axes;
  box in, out;
  fuzz_setting s;
} reduce_case;

static void take_case(fuzz_bytes *in, reduce_case *c) {
  int64_t shape[GPURED_MAX_NDIM], elements;
  int ndim;
  c->op = all_ops[take_in(in, 0, COUNT(all_ops) - 1)];
  c->dtype = all_dtypes[take_in(in, 0, COUNT(all_dtypes) - 1)];
  c->out_dtype = all_dtypes[take_in(in, 0, COUNT(all_dtypes) - 1)];
  if (!valid_output(c->op, c->dtype, c->out_dtype)) c->out_dtype = usual_output(c->op, c->dtype);
  c->acc = take_one_in(in, 4) && valid_acc(c->dtype, GPURED_F64) ? GPURED_F64 : 0;
  c->ddof = take_one_in(in, 4) ? (int)take_in(in, 0, 5) : 0;
  elements = (int64_t)128 << take_in(in, 0, 6);
  ndim = take_shape(in, take_one_in(in, 16) ? 8 : 4, shape, elements);
  c->axes = (uint32_t)take(in, 1) & ((1u << ndim) - 1);
  c->keep = (int)take_in(in, 0, 1);
  take_setting(in, &c->s, c->acc, c->ddof);
  c->in = take_input(in, c->dtype, ndim, shape);
  ndim = reduced_shape(&c->in.t, c->axes, c->keep, shape);
  c->out = take_output(in, c->out_dtype, ndim, shape);
}

static int64_t reduced_extent(const reduce_case *c) {
  int64_t n = 1;
  int i;
  for (i = 0; i < c->in.t.ndim; ++i)
    if (c->axes >> i & 1) n *= c->in.t.shape[i];
  return n;
}

/* What the call must say, unless memory overlaps. */
static gpured_status right_status(const reduce_case *c) {
  if (is_arg(c->op) && reduced_extent(c) == 0 && gen_count(&c->out.t) > 0) return GPURED_ERR_SHAPE;
  return strides_in_order(&c->out.t) || gen_count(&c->out.t) == 0 ? GPURED_OK : GPURED_ERR_ALIAS;
}

static gpured_status call(reduce_case *c, const gpured_tensor *out) {
  size_t bytes = 1;
  gpured_status asked, status;
  asked = gpured_reduce_workspace((gpured_op)c->op, &c->in.t, c->axes, out, &c->s.o, &bytes);
  setting_enter(&c->s, bytes);
  status = gpured_reduce((gpured_op)c->op, &c->in.t, c->axes, out, &c->s.o);
  setting_leave(&c->s);
  if (out == &c->out.t)
    CHECK(asked == status, "status %d, but %d from the query", (int)status, (int)asked);
  return status;
}

static void compare(reduce_case *c) {
  int64_t shape[GPURED_MAX_NDIM];
  box want = box_output(c->out_dtype, reduced_shape(&c->in.t, c->axes, c->keep, shape), shape,
                        LAYOUT_C, 0);
  oracle_reduce((gpured_op)c->op, &c->in.t, c->axes, &want.t, c->acc, c->ddof);
  expect_same(&c->out, &want.t, "reduce");
  box_free(&want);
}

/* The result inside the input's memory is refused and nothing is written. */
static void check_overlap(reduce_case *c, int64_t shift, const unsigned char *before) {
  const int64_t size = (int64_t)gpured_dtype_size((gpured_dtype)c->out_dtype);
  gpured_tensor out = c->out.t;
  out.data = (unsigned char *)c->in.t.data + shift * size;
  if ((uintptr_t)out.data % (uintptr_t)size || !shares_with(&c->in.t, &out)) return;
  CHECK(call(c, &out) != GPURED_OK, "an output that overlaps the input by %lld was accepted",
        (long long)shift);
  CHECK(memcmp(before, c->in.memory, c->in.bytes) == 0, "the input was written to");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_bytes in = {data, size};
  reduce_case c;
  gpured_status status, right;
  unsigned char *before;
  take_case(&in, &c);
  case_is("reduce %s of %s axes 0x%x -> %s keep %d acc %s ddof %d; %s", op_name(c.op),
          describe(&c.in.t), c.axes, describe(&c.out.t), c.keep, dtype_name(c.acc), c.ddof,
          setting_text(&c.s));
  before = copy_of(&c.in);
  right = right_status(&c);
  status = call(&c, &c.out.t);
  CHECK(status == right, "status %d, not %d", (int)status, (int)right);
  if (status == GPURED_OK)
    compare(&c);
  else
    CHECK(box_untouched(&c.out), "status %d and the output touched", (int)status);
  CHECK(memcmp(before, c.in.memory, c.in.bytes) == 0, "the input was written to");
  if (gen_count(&c.out.t) > 0 && gen_count(&c.in.t) > 0 && take_one_in(&in, 4))
    check_overlap(&c, (int8_t)take(&in, 1), before);
  free(before);
  box_free(&c.in);
  box_free(&c.out);
  return 0;
}
