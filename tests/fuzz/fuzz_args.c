/*
 * Arguments of any kind: structs with wild enumerations, huge extents and strides, NULL, misaligned
 * and overlapping pointers. A case starts from a right call of the suite's argument tests and
 * spoils some of its fields. Whatever comes of it, nothing but the outputs of an accepted call is
 * written to; what this file knows to be wrong must be refused, and what the workspace query
 * refuses, the call refuses too. A call that is right, but whose tensors are not in the arena or
 * take too long, is left out.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "../test_args.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1024, WORKSPACE = 65536, TENSORS = 6 + GPURED_MAX_RESULTS + 1 };

/* ---- spoiling -------------------------------------------------------------------------------- */

static gpured_tensor *tensor(args *x, int i) {
  gpured_tensor *first[6];
  first[0] = &x->in;
  first[1] = &x->b;
  first[2] = &x->out;
  first[3] = &x->bias_m;
  first[4] = &x->bias_n;
  first[5] = &x->c;
  return i < 6 ? first[i] : &x->results[i - 6].out;
}

static int32_t wild_int(fuzz_bytes *in) {
  static const int32_t edges[] = {INT32_MAX, INT32_MIN, 255, 256, 65536, 0x40000000, -2, 64};
  const int b = (int)take(in, 1);
  if (b < 160) return b % 20 - 1;
  return b < 240 ? edges[b % COUNT(edges)] : (int32_t)(uint32_t)take(in, 4);
}

static int64_t wild_size(fuzz_bytes *in) {
  const int b = (int)take(in, 1);
  if (b < 160) return b % 20 - 4;
  if (b < 200) return (int64_t)1 << (b % 63);
  if (b < 220) return b % 2 ? INT64_MAX - b % 5 : INT64_MIN + b % 5;
  return b < 240 ? (int64_t)take_in(in, -300, 300) : (int64_t)take(in, 8);
}

static void *wild_pointer(fuzz_bytes *in) {
  return take_one_in(in, 4) ? NULL : arena() + take_in(in, 0, ARENA - 1);
}

/* A field of a tensor. */
static void spoil_tensor(fuzz_bytes *in, gpured_tensor *t) {
  const int axis = (int)take_in(in, 0, GPURED_MAX_NDIM - 1);
  switch (take_in(in, 0, 8)) {
    case 0:
      t->data = wild_pointer(in);
      break;
    case 1:
      t->dtype = wild_int(in);
      break;
    case 2:
      t->device = wild_int(in);
      break;
    case 3:
      t->device_id = wild_int(in);
      break;
    case 4:
      t->ndim = wild_int(in);
      break;
    case 5:
    case 6:
      t->shape[axis] = wild_size(in);
      break;
    default:
      t->strides[axis] = wild_size(in);
      break;
  }
}

static void *fuzz_alloc(void *user, size_t bytes, void *stream) {
  (void)user;
  (void)stream;
  return bytes > WORKSPACE ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void fuzz_dealloc(void *user, void *p, size_t bytes, void *stream) {
  (void)user;
  (void)bytes;
  (void)stream;
  free(p);
}

/* A field of the options. The workspace is real memory: of that nothing can be checked. */
static void spoil_options(fuzz_bytes *in, gpured_options *o) {
  static _Alignas(64) unsigned char space[WORKSPACE];
  switch (take_in(in, 0, 9)) {
    case 0:
      o->struct_size = (uint32_t)wild_int(in);
      break;
    case 1:
      o->backend = wild_int(in);
      break;
    case 2:
      o->precision = wild_int(in);
      break;
    case 3:
      o->acc_dtype = wild_int(in);
      break;
    case 4:
      o->threads = wild_int(in);
      break;
    case 5:
      o->ddof = wild_int(in);
      break;
    case 6:
      o->workspace = take_one_in(in, 4) ? NULL : space + take_in(in, 0, 130);
      o->workspace_bytes = (size_t)take_in(in, 0, WORKSPACE - 130);
      break;
    case 7:
      o->alloc = take_one_in(in, 4) ? NULL : fuzz_alloc;
      o->dealloc = take_one_in(in, 4) ? NULL : fuzz_dealloc;
      break;
    default:
      o->stream = wild_pointer(in);
      o->user = wild_pointer(in);
      break;
  }
}

static void spoil_gemm(fuzz_bytes *in, args *x) {
  const gpured_tensor *t = take_one_in(in, 3) ? NULL : tensor(x, (int)take_in(in, 0, TENSORS - 1));
  uint64_t bits;
  switch (take_in(in, 0, 10)) {
    case 0:
      x->gemm.struct_size = (uint32_t)wild_int(in);
      break;
    case 1:
      x->gemm.axis = wild_int(in);
      break;
    case 2:
      x->gemm.map = wild_int(in);
      break;
    case 3:
      x->gemm.form = wild_int(in);
      break;
    case 4:
      bits = take(in, 8);
      memcpy(&x->gemm.alpha, &bits, sizeof bits);
      break;
    case 5:
      x->gemm.a = t;
      break;
    case 6:
      x->gemm.b = t;
      break;
    case 7:
      x->gemm.bias_m = t;
      break;
    case 8:
      x->gemm.bias_n = t;
      break;
    case 9:
      x->gemm.c = t;
      break;
    default:
      x->gemm.count = wild_int(in);
      x->gemm.results = t ? x->results : NULL;
      break;
  }
}

/* What is passed beside the structs. */
static void spoil_call(fuzz_bytes *in, args *x) {
  const gpured_tensor *t = take_one_in(in, 3) ? NULL : tensor(x, (int)take_in(in, 0, TENSORS - 1));
  switch (take_in(in, 0, 7)) {
    case 0:
      x->op = wild_int(in);
      break;
    case 1:
      x->axis = wild_int(in);
      break;
    case 2:
      x->axes = (uint32_t)wild_int(in);
      break;
    case 3:
      x->flags = (unsigned)wild_int(in);
      break;
    case 4:
      x->p_in = t;
      break;
    case 5:
      x->p_b = t;
      break;
    case 6:
      x->p_out = t;
      break;
    default:
      x->p_gemm = t ? &x->gemm : NULL;
      break;
  }
}

/* A contiguous call of one or two axes, for which the library has a short way. */
static void set_small(fuzz_bytes *in, args *x) {
  const int dtype = take_one_in(in, 2) ? GPURED_F64 : GPURED_F32, ndim = (int)take_in(in, 1, 2);
  x->in = view(IN, dtype, ndim, ndim == 1 ? 24 : 4, 6, 0);
  x->axes = (uint32_t)take_in(in, 1, ndim == 1 ? 1 : 3);
  x->out = view(OUT, dtype, ndim == 1 || x->axes == 3 ? 0 : 1, x->axes == 1 ? 6 : 4, 0, 0);
}

static void take_case(fuzz_bytes *in, args *x) {
  int i, changes;
  set_up(x, (int)take_in(in, 0, KINDS - 1), GPURED_BACKEND_AUTO);
  if (x->kind == REDUCE && take_one_in(in, 2)) set_small(in, x);
  for (i = 2; i <= GPURED_MAX_RESULTS; ++i) {
    x->results[i] = x->results[i % 2];
    x->results[i].out.data = arena() + OUT2 + 64 * i;
  }
  if (take_one_in(in, 2)) x->options = gpured_default_options();
  for (changes = (int)take_in(in, 0, 7); changes > 0; --changes) {
    const int what = (int)take_in(in, 0, 7);
    if (what < 4)
      spoil_tensor(in, tensor(x, (int)take_in(in, 0, TENSORS - 1)));
    else if (what == 4)
      spoil_options(in, &x->options);
    else if (what == 5 && x->kind == EX)
      spoil_gemm(in, x);
    else if (what == 6)
      x->results[take_in(in, 0, GPURED_MAX_RESULTS)].op = wild_int(in);
    else
      spoil_call(in, x);
  }
  if (take_one_in(in, 3)) { /* an axis along which there is nothing to step to */
    const int axis = (int)take_in(in, 0, 1);
    const int64_t extent = take_in(in, 0, 1), stride = wild_size(in);
    set_extent(x, axis, extent, &stride);
  }
}

/* ---- what is known about a call -------------------------------------------------------------- */

/* The tensors that the call takes, NULL for one that is not given. Returns how many. */
static int tensors_of(const args *x, const gpured_tensor **t, int *first_output) {
  int n = 0, i;
  if (x->kind == EX) {
    const gpured_gemm *g = x->p_gemm;
    t[n++] = g->a;
    t[n++] = g->b;
    if (g->bias_m) t[n++] = g->bias_m;
    if (g->bias_n) t[n++] = g->bias_n;
    *first_output = n;
    if (g->c) t[n++] = g->c;
    for (i = 0; i < g->count; ++i) t[n++] = &g->results[i].out;
    return n;
  }
  t[n++] = x->p_in;
  if (x->kind == GEMM) t[n++] = x->p_b;
  *first_output = n;
  t[n++] = x->p_out;
  return n;
}

static int is_outside(int64_t v, int64_t lo, int64_t hi) { return v < lo || v > hi; }

static int wrong_tensor(const gpured_tensor *t) {
  int i;
  if (!t || is_outside(t->dtype, 1, 10) || is_outside(t->device, 1, 2) || t->device_id < 0)
    return 1;
  if (is_outside(t->ndim, 0, GPURED_MAX_NDIM)) return 1;
  for (i = 0; i < t->ndim; ++i)
    if (t->shape[i] < 0) return 1;
  return 0;
}

static int wrong_options(const gpured_options *o) {
  return o->struct_size != sizeof *o || is_outside(o->backend, 0, 2) ||
         is_outside(o->precision, 0, 2) || is_outside(o->acc_dtype, 0, 10) || o->threads < 0 ||
         o->ddof < 0 || !o->alloc != !o->dealloc || (uintptr_t)o->workspace % 64 ||
         (!o->workspace && o->workspace_bytes);
}

static int wrong_gemm(const gpured_gemm *g) {
  int i;
  if (!g || g->struct_size != sizeof *g || !g->results) return 1;
  if (is_outside(g->axis, 0, 1) || is_outside(g->map, 0, 2) || is_outside(g->form, 0, 1)) return 1;
  if (is_outside(g->count, 1, GPURED_MAX_RESULTS)) return 1;
  for (i = 0; i < g->count; ++i)
    if (is_outside(g->results[i].op, 1, 17)) return 1;
  return 0;
}

/* Values that gpured.h calls wrong, whatever the data. */
static int wrong_values(const args *x) {
  const gpured_tensor *t[5 + GPURED_MAX_RESULTS];
  int i, n, first_output;
  if (wrong_options(&x->options)) return 1;
  if (x->kind == EX ? wrong_gemm(x->p_gemm) : is_outside(x->op, 1, 17)) return 1;
  n = tensors_of(x, t, &first_output);
  for (i = 0; i < n; ++i)
    if (wrong_tensor(t[i])) return 1;
  if (x->kind == REDUCE && x->axes >> t[0]->ndim) return 1;
  if (x->kind == SCAN && (x->flags > 3 || is_outside(x->axis, 0, t[0]->ndim - 1))) return 1;
  return x->kind == GEMM && is_outside(x->axis, 0, 1);
}

/* The product of the extents, with 1 for 0, or -1 where it is more than MOST. */
static int64_t extents_of(const gpured_tensor *t) {
  int64_t n = 1;
  int i;
  for (i = 0; i < t->ndim; ++i) {
    if (t->shape[i] > MOST) return -1;
    n *= t->shape[i] > 0 ? t->shape[i] : 1;
    if (n > MOST) return -1;
  }
  return n;
}

/* Whether every element lies in the arena. */
static int is_inside(const gpured_tensor *t) {
  const int64_t size = (int64_t)gpured_dtype_size((gpured_dtype)t->dtype);
  int64_t low, high;
  int i;
  if (gen_count(t) == 0) return 1;
  if (!t->data) return 0;
  low = high = (unsigned char *)t->data - arena();
  for (i = 0; i < t->ndim; ++i) {
    if (t->shape[i] == 1) continue;
    if (is_outside(t->strides[i], -ARENA, ARENA)) return 0;
    *(t->strides[i] < 0 ? &low : &high) += (t->shape[i] - 1) * t->strides[i] * size;
  }
  return low >= 0 && high + size <= ARENA;
}

static int can_run(const args *x) {
  const gpured_tensor *t[5 + GPURED_MAX_RESULTS];
  int i, first_output, n = tensors_of(x, t, &first_output);
  for (i = 0; i < n; ++i)
    if (extents_of(t[i]) < 0 || !is_inside(t[i])) return 0;
  return 1;
}

/* A pointer that is NULL or misaligned where there are elements: for the call, not for the query. */
static int wrong_pointers(const args *x) {
  const gpured_tensor *t[5 + GPURED_MAX_RESULTS];
  int i, first_output, n = tensors_of(x, t, &first_output);
  for (i = 0; i < n; ++i) {
    int axis, empty = 0;
    for (axis = 0; axis < t[i]->ndim; ++axis) empty |= t[i]->shape[axis] == 0;
    if (!empty &&
        (!t[i]->data || (uintptr_t)t[i]->data % gpured_dtype_size((gpured_dtype)t[i]->dtype)))
      return 1;
  }
  return 0;
}

/* ---- the call -------------------------------------------------------------------------------- */

static void tell(const args *x) {
  static const char *const names[] = {"reduce", "scan", "gemm_reduce", "gemm_reduce_ex"};
  const gpured_options *o = &x->options;
  const gpured_tensor *t[5 + GPURED_MAX_RESULTS];
  char words[1024] = "";
  int i, n = 0, first_output;
  if (x->kind != EX || !wrong_gemm(x->p_gemm)) n = tensors_of(x, t, &first_output);
  for (i = 0; i < n; ++i) {
    const size_t used = strlen(words);
    if (!t[i] || is_outside(t[i]->ndim, 0, GPURED_MAX_NDIM))
      snprintf(words + used, sizeof words - used, " [%s %d]", t[i] ? "ndim" : "NULL",
               t[i] ? t[i]->ndim : 0);
    else
      snprintf(words + used, sizeof words - used, " [%d.%d %s at %td]", t[i]->device,
               t[i]->device_id, describe(t[i]), (unsigned char *)t[i]->data - arena());
  }
  case_is(
      "%s op %d axes 0x%x axis %d flags %u; gemm %s axis %d map %d form %d alpha %g count %d; "
      "options size %u backend %d precision %d acc %d threads %d ddof %d workspace %d of %zu "
      "hooks %d %d;%s",
      names[x->kind], x->op, x->axes, x->axis, x->flags, x->p_gemm ? "given" : "NULL", x->gemm.axis,
      x->gemm.map, x->gemm.form, x->gemm.alpha, x->gemm.count, o->struct_size, o->backend,
      o->precision, o->acc_dtype, o->threads, o->ddof, o->workspace != NULL, o->workspace_bytes,
      o->alloc != NULL, o->dealloc != NULL, words);
}

/* The arena with the elements of the outputs as they were before the call. */
static void put_back(const args *x, const unsigned char *before) {
  const gpured_tensor *t[5 + GPURED_MAX_RESULTS];
  int i, first_output, n = tensors_of(x, t, &first_output);
  for (i = first_output; i < n; ++i) {
    const size_t size = gpured_dtype_size((gpured_dtype)t[i]->dtype);
    int64_t j, count = gen_count(t[i]);
    for (j = 0; j < count; ++j)
      memcpy(element(t[i], j), before + (element(t[i], j) - arena()), size);
  }
}

static void check_call(const args *x) {
  static unsigned char before[ARENA];
  static int filled;
  const int wrong = wrong_values(x);
  size_t bytes = 12345;
  const gpured_status asked = query(x, &bytes);
  gpured_status status;
  CHECK(!wrong || asked != GPURED_OK, "the query accepts what is wrong");
  CHECK(asked == GPURED_OK || bytes == 0, "%zu bytes after an error", bytes);
  if (asked == GPURED_OK && !wrong_pointers(x) && !can_run(x)) return;
  if (!filled) memset(arena(), 60, ARENA); /* small positive numbers of every float type */
  filled = 1;
  memcpy(before, arena(), ARENA);
  status = call(x);
  CHECK(asked == GPURED_OK || status != GPURED_OK, "accepted, but the query says %d", (int)asked);
  if (status == GPURED_OK) {
    CHECK(!wrong_pointers(x), "accepted with a pointer that is NULL or misaligned");
    put_back(x, before);
  }
  CHECK(memcmp(before, arena(), ARENA) == 0, "status %d and memory was written to", (int)status);
}

/* The constructors and the texts take any number too. */
static void check_small(fuzz_bytes *in) {
  int64_t shape[GPURED_MAX_NDIM], strides[GPURED_MAX_NDIM];
  const int ndim = wild_int(in), dtype = wild_int(in);
  const int64_t *given = take_one_in(in, 4) ? NULL : shape;
  gpured_tensor t;
  int i;
  for (i = 0; i < GPURED_MAX_NDIM; ++i) {
    shape[i] = wild_size(in);
    strides[i] = wild_size(in);
  }
  case_is("gpured_array of dtype %d and ndim %d, shape %s", dtype, ndim, given ? "given" : "NULL");
  t = gpured_array(arena(), (gpured_dtype)dtype, ndim, given, take_one_in(in, 2) ? strides : NULL);
  if (is_outside(ndim, 0, GPURED_MAX_NDIM) || (ndim > 0 && !given))
    CHECK(t.ndim == -1, "ndim is %d", t.ndim);
  else
    CHECK(t.ndim == ndim && t.dtype == dtype, "ndim is %d, dtype %d", t.ndim, t.dtype);
  CHECK(gpured_status_string((gpured_status)dtype) != NULL, "no text");
  CHECK((gpured_dtype_size((gpured_dtype)dtype) == 0) == is_outside(dtype, 1, 10),
        "size of a dtype");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_bytes in = {data, size};
  args x;
  fuzz_set_paths((int)take_in(&in, 0, 3), 0);
  if (take_one_in(&in, 32)) {
    check_small(&in);
    return 0;
  }
  take_case(&in, &x);
  tell(&x);
  check_call(&x);
  return 0;
}
