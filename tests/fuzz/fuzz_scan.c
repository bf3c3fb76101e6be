/* gpured_scan against the oracle: any operation, types, shape, strides, options; in place, and with
 * an output that lies somewhere in the input's memory. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const int scan_ops[] = {GPURED_SUM, GPURED_PROD, GPURED_MIN, GPURED_MAX, GPURED_LOGSUMEXP};

typedef struct scan_case {
  int op, dtype, out_dtype, acc, axis;
  unsigned flags;
  box in, out, want;
  fuzz_setting s;
} scan_case;

static void take_case(fuzz_bytes *in, scan_case *c) {
  int64_t shape[GPURED_MAX_NDIM], elements;
  int ndim;
  c->op = scan_ops[take_in(in, 0, COUNT(scan_ops) - 1)];
  c->dtype = all_dtypes[take_in(in, 0, COUNT(all_dtypes) - 1)];
  c->out_dtype = all_dtypes[take_in(in, 0, COUNT(all_dtypes) - 1)];
  if (!valid_output(c->op, c->dtype, c->out_dtype)) c->out_dtype = usual_output(c->op, c->dtype);
  c->acc = take_one_in(in, 4) && valid_acc(c->dtype, GPURED_F64) ? GPURED_F64 : 0;
  c->flags = (unsigned)take_in(in, 0, 3);
  elements = (int64_t)128 << take_in(in, 0, 6);
  ndim = take_shape(in, take_one_in(in, 16) ? 8 : 4, shape, elements);
  if (ndim == 0) shape[ndim++] = 1;
  c->axis = (int)take_in(in, 0, ndim - 1);
  take_setting(in, &c->s, c->acc, 0);
  c->in = take_input(in, c->dtype, ndim, shape);
  c->out = take_output(in, c->out_dtype, ndim, shape);
  c->want = box_output(c->out_dtype, ndim, shape, LAYOUT_C, 0);
  oracle_scan((gpured_op)c->op, &c->in.t, c->axis, c->flags, &c->want.t, c->acc);
}

static gpured_status call(scan_case *c, const gpured_tensor *out) {
  const gpured_op op = (gpured_op)c->op;
  size_t bytes = 1;
  gpured_status asked =
                    gpured_scan_workspace(op, &c->in.t, c->axis, c->flags, out, &c->s.o, &bytes),
                status;
  setting_enter(&c->s, bytes);
  status = gpured_scan(op, &c->in.t, c->axis, c->flags, out, &c->s.o);
  setting_leave(&c->s);
  CHECK(asked == status || (asked == GPURED_OK && status == GPURED_ERR_ALIAS),
        "status %d, but %d from the query", (int)status, (int)asked);
  return status;
}

static void check_apart(scan_case *c, const unsigned char *before) {
  const int fine = strides_in_order(&c->out.t) || gen_count(&c->out.t) == 0;
  const gpured_status status = call(c, &c->out.t);
  CHECK(status == (fine ? GPURED_OK : GPURED_ERR_ALIAS), "status %d", (int)status);
  if (status == GPURED_OK)
    expect_same(&c->out, &c->want.t, "scan");
  else
    CHECK(box_untouched(&c->out), "status %d and the output touched", (int)status);
  CHECK(memcmp(before, c->in.memory, c->in.bytes) == 0, "the input was written to");
}

static int is_same_memory(const gpured_tensor *a, const gpured_tensor *b) {
  int i;
  if (a->data != b->data) return 0;
  if (gpured_dtype_size((gpured_dtype)a->dtype) != gpured_dtype_size((gpured_dtype)b->dtype))
    return 0;
  for (i = 0; i < a->ndim; ++i)
    if (a->shape[i] > 1 && a->strides[i] != b->strides[i]) return 0;
  return 1;
}

/* The output somewhere in the input's memory, with its own strides or the input's: where the two
 * share bytes and are not the same, it is refused; in place it is what it is elsewhere. */
static void check_overlap(scan_case *c, fuzz_bytes *in, const unsigned char *before) {
  const int64_t size = (int64_t)gpured_dtype_size((gpured_dtype)c->out_dtype);
  const int64_t shift = take_one_in(in, 2) ? (int8_t)take(in, 1) : 0;
  gpured_tensor out = c->out.t;
  gpured_status status;
  int place;
  if (take_one_in(in, 2)) memcpy(out.strides, c->in.t.strides, sizeof out.strides);
  out.data = (unsigned char *)c->in.t.data + shift * size;
  if ((uintptr_t)out.data % (uintptr_t)size || !shares_with(&c->in.t, &out)) return;
  place = is_same_memory(&c->in.t, &out) && strides_in_order(&out);
  status = call(c, &out);
  CHECK(status == (place ? GPURED_OK : GPURED_ERR_ALIAS),
        "status %d for an output of strides %s, %lld elements from the input", (int)status,
        describe(&out), (long long)shift);
  if (place) {
    int64_t i;
    CHECK(around_only || first_difference(&out, &c->want.t) < 0, "in place: element %lld differs",
          (long long)first_difference(&out, &c->want.t));
    for (i = 0; i < gen_count(&out); ++i) /* then nothing else may have changed */
      memcpy(element(&out, i), before + (element(&out, i) - c->in.memory), (size_t)size);
  }
  CHECK(memcmp(before, c->in.memory, c->in.bytes) == 0, "memory beside the output was written to");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_bytes in = {data, size};
  scan_case c;
  unsigned char *before;
  take_case(&in, &c);
  case_is("scan %s of %s axis %d flags %u -> %s acc %s; %s", op_name(c.op), describe(&c.in.t),
          c.axis, c.flags, describe(&c.out.t), dtype_name(c.acc), setting_text(&c.s));
  before = copy_of(&c.in);
  check_apart(&c, before);
  if (gen_count(&c.out.t) > 0 && take_one_in(&in, 3)) check_overlap(&c, &in, before);
  free(before);
  box_free(&c.in);
  box_free(&c.out);
  box_free(&c.want);
  return 0;
}
