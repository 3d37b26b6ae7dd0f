// Sorting on the device, for the operator and for sums in a fixed order.
#pragma once

#include <string>

#include "launch/strided_iterator.h"

namespace facula::cuda {

// Sorts `length` elements along rows. `iterator` goes over the rows of input, values and indices; `values`
// may be null. Steps are in bytes.
struct Sorting {
  const void* in = nullptr;
  void* values = nullptr;
  void* indices = nullptr;
  int32_t dtype = 0;
  int64_t length = 0;
  bool descending = false;
  int64_t in_step = 0, values_step = 0, indices_step = 0;
  StridedDims iterator;
};
// What kernels/keys.h wants before it.
std::string sort_keys(int32_t dtype, int threads);

// Long rows, by digits of their keys.
bool radix_fits(const Sorting& sorting);
int32_t radix_sort(const Device& device, void* stream, const Sorting& sorting);
int32_t sort_rows(const Device& device, void* stream, const Sorting& sorting);

// The order that sorts n numbers of places, equal ones by their own: int64 in `order`.
int32_t order_of(const Device& device, void* stream, const int64_t* ids, int64_t n, Scratch& order);

}  // namespace facula::cuda
