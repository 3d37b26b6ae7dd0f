// cuBLASLt, opened at run time.
#pragma once

#include "launch/device.h"

namespace facula::cuda {

// out (rows, columns) = alpha a b + beta out + bias, row-major, for each of a batch. Steps in elements;
// of each pair one is 1, and `turned` says that it is the row's.
struct Product {
  const void *a = nullptr, *b = nullptr, *bias = nullptr;
  void* out = nullptr;
  int64_t batch = 1, rows = 0, columns = 0, inner = 0;
  int64_t a_step = 0, b_step = 0, out_step = 0;  // of the dim whose step is not 1
  int64_t a_batch = 0, b_batch = 0, out_batch = 0;
  bool a_turned = false, b_turned = false;
  int32_t dtype = 0;
  double alpha[2] = {1, 0}, beta[2] = {0, 0};
};

// FACULA_NOT_SUPPORTED when there is no library or it has no such product.
int32_t library_product(const Device& device, const Product& product, void* stream);

}  // namespace facula::cuda
