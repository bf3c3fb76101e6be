/* gpured_gemm_reduce against the oracle: the cases of the other function with one result and
 * nothing else. */
#define FUZZ_PLAIN
#include "fuzz_gemm_reduce_ex.c"
