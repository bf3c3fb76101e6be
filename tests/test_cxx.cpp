// The header in C++11: every declaration, and calls through them.
#include "../gpured.h"
#include "../gpured.h"

#include <vector>

#include "other_tus.h"

extern "C" int cxx_calls(void) {
  std::vector<float> x(1000, 0.5f), y(1000), rows(10);
  gpured_options options = gpured_default_options();
  gpured_gemm gemm = gpured_default_gemm();
  gpured_tensor in = gpured_matrix(x.data(), GPURED_F32, 10, 100);
  gpured_tensor out = gpured_vector(rows.data(), GPURED_F32, 10);
  gpured_tensor line = gpured_vector(x.data(), GPURED_F32, 1000);
  gpured_tensor scanned = gpured_vector(y.data(), GPURED_F32, 1000);
  if (options.struct_size != sizeof options || gemm.struct_size != sizeof gemm) return 1;
  if (gpured_sum_f32(x.data(), x.size()) != 500.0f) return 2;
  if (gpured_reduce(GPURED_SUM, &in, 1u << 1, &out, &options) != GPURED_OK) return 3;
  if (rows[0] != 50.0f || rows[9] != 50.0f) return 4;
  if (gpured_scan(GPURED_SUM, &line, 0, GPURED_SCAN_EXCLUSIVE, &scanned, nullptr) != GPURED_OK)
    return 5;
  if (y[0] != 0.0f || y[999] != 499.5f) return 6;
  if (gpured_reduce(GPURED_SUM, nullptr, 0, nullptr, nullptr) != GPURED_ERR_ARG) return 7;
  if (gpured_version() != GPURED_VERSION) return 8;
  return 0;
}
