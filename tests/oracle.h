/*
 * The oracle: docs/ORDER.md written down as a program, slow and obvious. It shares no code with
 * gpured.h (of which it uses the types alone), so that a mistake in one is not also in the other.
 * Tests compare its bits with the library's.
 *
 * Arguments are those of the library's functions and are taken to be valid: nothing is checked.
 * Tensors live on the host and may have any strides. Memory that cannot be had aborts the program.
 * Compile oracle.c without -ffast-math.
 *
 * acc_dtype is options->acc_dtype: 0 or GPURED_F64 (GPURED_F32 means 0 here, for callers that loop
 * over both). oracle_fill() and oracle_hash(), and the kinds OR_UNIFORM ... of data, come from
 * gen.h.
 */
#ifndef GPURED_TESTS_ORACLE_H
#define GPURED_TESTS_ORACLE_H

#include "gen.h"

#ifdef __cplusplus
extern "C" {
#endif

/* gpured_reduce(). out: kept axes, or all with the reduced ones of extent 1, or one element for a
 * single result. */
void oracle_reduce(gpured_op op, const gpured_tensor *in, uint32_t axes, const gpured_tensor *out,
                   int acc_dtype, int ddof);

/* gpured_scan(). out may be in. */
void oracle_scan(gpured_op op, const gpured_tensor *in, int axis, unsigned flags,
                 const gpured_tensor *out, int acc_dtype);

/* gpured_gemm_reduce_ex(). */
void oracle_gemm(const gpured_gemm *g, int acc_dtype);

#ifdef __cplusplus
}
#endif

#endif /* GPURED_TESTS_ORACLE_H */
