/* gpured_gemm_reduce_ex against the oracle: any results, types, batch, strides, epilogue, options
 * and overlap. The cases are those of the suite, made from bytes. */
#include "fuzz.h"

#include <stdlib.h>

#include "../test_gemm.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef FUZZ_PLAIN
enum { PLAIN = 1 };
#else
enum { PLAIN = 0 };
#endif

/* ---- the case -------------------------------------------------------------------------------- */

static void take_extents(fuzz_bytes *in, gemm_case *c) {
  int64_t room = (int64_t)64 << take_in(in, 0, 9), *extents[3];
  const int first = (int)take_in(in, 0, 2); /* the one that may be longest */
  int i;
  extents[0] = &c->m;
  extents[1] = &c->n;
  extents[2] = &c->k;
  for (i = 0; i < 3; ++i) {
    int64_t *extent = extents[(first + i) % 3];
    *extent = take_extent(in, room);
    if (*extent > 0) room /= *extent;
  }
  if (take_one_in(in, 3)) {
    c->a_batch = (int)take_in(in, 0, 3);
    c->b_batch = (int)take_in(in, 0, 3);
  }
  c->a_ones = (int)take_in(in, 0, 7);
  c->b_ones = (int)take_in(in, 0, 7);
  for (i = 0; i < 3; ++i) {
    c->batch[i] = room > 1 ? take_in(in, 0, room < 5 ? room : 5) : 1;
    if (c->batch[i] > 0) room /= c->batch[i];
  }
}

/* All results of one call share an accumulator: integers cannot mix the operations in f64 with the
 * others. An operation or type that does not fit is replaced by one that does. */
static void take_results(fuzz_bytes *in, gemm_case *c) {
  int i;
  c->count = PLAIN ? 0 : (int)take_in(in, 1, 8);
  for (i = 0; i < (c->count ? c->count : 1); ++i) {
    c->ops[i] = gemm_ops[take_in(in, 0, COUNT(gemm_ops) - 1)];
    if (!is_float(c->dtype) && is_real(c->ops[i]) != is_real(c->ops[0])) c->ops[i] = c->ops[0];
    c->outs[i] = all_dtypes[take_in(in, 0, COUNT(all_dtypes) - 1)];
    if (!valid_output(c->ops[i], c->dtype, c->outs[i])) c->outs[i] = 0;
  }
}

static void take_epilogue(fuzz_bytes *in, gemm_case *c) {
  static const double alphas[] = {0, 1, -1, 0.5, 3.7, -1e-3, 1e300, 0x1p-140};
  const int floats = is_float(c->dtype) || is_real(c->ops[0]);
  c->map = (int)take_in(in, 0, 2);
  if (take_one_in(in, 3)) c->c_dtype = all_dtypes[take_in(in, 0, COUNT(all_dtypes) - 1)];
  if (c->c_dtype && is_float(c->c_dtype) != floats) c->c_dtype = floats ? GPURED_F32 : c->dtype;
  if (!is_float(c->dtype)) return;
  if (take_one_in(in, 4)) {
    c->form = GPURED_FORM_L2;
    return;
  }
  c->alpha = alphas[take_in(in, 0, COUNT(alphas) - 1)];
  c->bias = (int)take_in(in, 0, 3);
  if (take_one_in(in, 3) && c->dtype != GPURED_F64) c->bias_dtype = GPURED_F32;
}

static void take_case(fuzz_bytes *in, gemm_case *c, fuzz_setting *s) {
  memset(c, 0, sizeof *c);
  c->dtype = all_dtypes[take_in(in, 0, COUNT(all_dtypes) - 1)];
  c->axis = (int)take_in(in, 0, 1);
  take_extents(in, c);
  take_results(in, c);
  if (!PLAIN) take_epilogue(in, c);
  c->acc = take_one_in(in, 4) && valid_acc(c->dtype, GPURED_F64) ? GPURED_F64 : 0;
  c->keep = (int)take_in(in, 0, 1);
  c->kind = (int)take_in(in, 0, OR_KINDS - 1);
  c->seed = take(in, 2);
  c->how_in = (layout)take_in(in, 0, LAYOUT_COUNT - 1);
  c->how_out = (layout)take_in(in, 0, LAYOUT_RANDOM);
  take_setting(in, s, c->acc, 0);
  c->threads = s->o.threads;
}

/* Some of the tensors in place of the case's own: with any strides and any values. */
static void take_tensors(fuzz_bytes *in, const gemm_case *c, gemm_data *d) {
  box *inputs[2], *b;
  int i;
  inputs[0] = &d->a;
  inputs[1] = &d->b;
  for (i = 0; i < 2; ++i) {
    const gpured_tensor t = inputs[i]->t;
    if (!take_one_in(in, 3)) continue;
    box_free(inputs[i]);
    *inputs[i] = take_input(in, t.dtype, t.ndim, t.shape);
  }
  if (!take_one_in(in, 4)) return;
  b = c->c_dtype && take_one_in(in, 2) ? &d->c[0] : &d->outs[0][0];
  {
    const gpured_tensor t = b->t;
    box_free(b);
    *b = take_output(in, t.dtype, t.ndim, t.shape);
    d->results[0][0].out = d->outs[0][0].t;
  }
}

/* ---- the call -------------------------------------------------------------------------------- */

static gpured_status query(const gemm_case *c, const gemm_data *d, const gpured_options *o,
                           size_t *bytes) {
  gpured_gemm g = describe_gemm(c, d, 0);
  if (c->count) return gpured_gemm_reduce_ex_workspace(&g, o, bytes);
  return gpured_gemm_reduce_workspace((gpured_op)c->ops[0], g.a, g.b, c->axis,
                                      &d->results[0][0].out, o, bytes);
}

static gpured_status call(const gemm_case *c, const gemm_data *d, fuzz_setting *s,
                          gpured_status *asked, size_t *bytes) {
  gpured_gemm g = describe_gemm(c, d, 0);
  gpured_status status;
  *asked = query(c, d, &s->o, bytes);
  setting_enter(s, *bytes);
  if (c->count)
    status = gpured_gemm_reduce_ex(&g, &s->o);
  else
    status =
        gpured_gemm_reduce((gpured_op)c->ops[0], g.a, g.b, c->axis, &d->results[0][0].out, &s->o);
  setting_leave(s);
  return status;
}

static int is_fine(const gpured_tensor *out) {
  return gen_count(out) == 0 || strides_in_order(out);
}

/* What the call must say, given what the query said. */
static gpured_status right_status(const gemm_case *c, const gemm_data *d, const fuzz_setting *s,
                                  size_t bytes) {
  int i, fine = !c->c_dtype || is_fine(&d->c[0].t);
  if (is_impossible(c, d)) return GPURED_ERR_SHAPE;
  for (i = 0; i < (c->count ? c->count : 1); ++i) fine = fine && is_fine(&d->outs[0][i].t);
  if (!fine) return GPURED_ERR_ALIAS;
  if (s->source == FROM_FAILING_HOOKS && bytes > 0) return GPURED_ERR_ALLOC;
  /* A large workspace is too small where OpenMP's own number of threads is very large. */
  if (s->o.workspace && s->o.workspace_bytes < bytes) return GPURED_ERR_WORKSPACE;
  return GPURED_OK;
}

static void check_untouched(const gemm_case *c, const gemm_data *d, gpured_status status) {
  int i;
  for (i = 0; i < (c->count ? c->count : 1); ++i)
    CHECK(box_untouched(&d->outs[0][i]), "status %d and result %d touched", (int)status, i);
  if (c->c_dtype) CHECK(box_untouched(&d->c[0]), "status %d and C touched", (int)status);
}

/* One output moved into the memory of another tensor is refused. */
static void check_overlap(fuzz_bytes *in, const gemm_case *c, gemm_data *d, fuzz_setting *s) {
  const int count = c->count ? c->count : 1, which = (int)take_in(in, 0, count - 1);
  const gpured_tensor *others[5];
  gpured_tensor *out = &d->results[0][which].out;
  const int64_t size = (int64_t)gpured_dtype_size((gpured_dtype)out->dtype);
  const gpured_tensor *other;
  gpured_status status, asked;
  int n = 0;
  size_t bytes;
  others[n++] = &d->a.t;
  others[n++] = &d->b.t;
  if (c->bias & BIAS_M) others[n++] = &d->bias_m.t;
  if (c->bias & BIAS_N) others[n++] = &d->bias_n.t;
  if (which > 0) others[n++] = &d->outs[0][0].t;
  other = others[take_in(in, 0, n - 1)];
  out->data = (unsigned char *)other->data + (int8_t)take(in, 1) * size;
  if ((uintptr_t)out->data % (uintptr_t)size || !shares_with(other, out)) return;
  status = call(c, d, s, &asked, &bytes);
  CHECK(status != GPURED_OK, "result %d overlaps %s and was accepted", which, describe(other));
  check_untouched(c, d, status);
}

/* ---- the target ------------------------------------------------------------------------------ */

static void run_case(fuzz_bytes *in, const gemm_case *c, gemm_data *d, fuzz_setting *s) {
  gpured_gemm g = describe_gemm(c, d, 1);
  unsigned char *a = copy_of(&d->a), *b = copy_of(&d->b);
  size_t bytes = 0;
  gpured_status asked, status = call(c, d, s, &asked, &bytes), right = right_status(c, d, s, bytes);
  CHECK(status == right, "status %d, not %d", (int)status, (int)right);
  CHECK(asked == status || (asked == GPURED_OK && status >= GPURED_ERR_WORKSPACE),
        "status %d, but %d from the query", (int)status, (int)asked);
  if (status == GPURED_OK) {
    oracle_gemm(&g, c->acc);
    compare(c, d);
  } else {
    check_untouched(c, d, status);
  }
  if (status != GPURED_OK || take_one_in(in, 4)) {
    int i;
    for (i = 0; i < (c->count ? c->count : 1); ++i)
      memset(d->outs[0][i].memory, d->outs[0][i].pattern, d->outs[0][i].bytes);
    if (c->c_dtype) memset(d->c[0].memory, d->c[0].pattern, d->c[0].bytes);
    if (status == GPURED_OK) check_overlap(in, c, d, s);
  }
  CHECK(memcmp(a, d->a.memory, d->a.bytes) == 0, "the left operand was written to");
  CHECK(memcmp(b, d->b.memory, d->b.bytes) == 0, "the right operand was written to");
  free(a);
  free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_bytes in = {data, size};
  gemm_case c;
  gemm_data d;
  fuzz_setting s;
  take_case(&in, &c, &s);
  memset(&d, 0, sizeof d);
  make_inputs(&c, &d);
  make_outputs(&c, &d, 0);
  make_outputs(&c, &d, 1);
  take_tensors(&in, &c, &d);
  case_is("%s; a %s b %s c %s out %s; %s", case_text(&c), describe(&d.a.t), describe(&d.b.t),
          c.c_dtype ? describe(&d.c[0].t) : "none", describe(&d.outs[0][0].t), setting_text(&s));
  run_case(&in, &c, &d, &s);
  free_data(&c, &d);
  return 0;
}
