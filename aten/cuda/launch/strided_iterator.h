// Operands walked in one order, as kernels/strided_iterator.h has them; dims that run on are joined, none is moved.
#pragma once

#include "launch/kernel.h"
#include "launch/layout.h"
#include "launch/params.h"

namespace facula::cuda {

// Strides in bytes.
struct StridedDims {
  int ndim = 0;
  int64_t sizes[kMaxTensorDims];
  int64_t strides[6][kMaxTensorDims];
  int64_t count = 1;
};
// `strides[k]` in elements of `itemsizes[k]` bytes.
StridedDims make_strided(int ndim, const int64_t* sizes, const int64_t* const* strides, const int* itemsizes,
                         int operands);

// False when there are more dims than a kernel takes.
bool put_strided(Params& params, const StridedDims& iterator, int operands);

// Blocks of `threads` for n elements, at most as many as keep the device busy.
Grid grid_for(const Device& device, int64_t n, int threads);

// The tensor itself when it is dense, or a dense copy of it in `scratch`, made by the pointwise template.
int32_t dense(const FaculaTensor& t, Scratch& scratch, int32_t index, void* stream, const void** data,
              int32_t dtype = -1);
// The way back: a dense block of `dtype` into a tensor of any layout.
int32_t write_back(const FaculaTensor& t, const void* data, int32_t dtype, int32_t index, void* stream);

// Elements of one tensor into another of the same shape, any layouts and dtypes.
int32_t copy_between(const FaculaTensor& to, const FaculaTensor& from, int32_t index, void* stream);

}  // namespace facula::cuda
