/* The library as the fuzz targets link it: small calls may use threads too, and the level of vector
 * code changes from case to case. Both are set by fuzz.c. */
#include <stdint.h>

static int64_t fuzz_parallel_bytes = INT64_MAX;
#define GPURED_PARALLEL_BYTES fuzz_parallel_bytes
#define GPURED_IMPLEMENTATION
#include "../../gpured.h"

#include "fuzz.h"

const char *fuzz_set_paths(int level, int threaded) {
  const int most = gpured__detect_level();
  gpured__level_in_use = level < most ? level : most;
  fuzz_parallel_bytes = threaded ? 0 : INT64_MAX;
  return gpured__levels[gpured__level_in_use].name;
}
