// The reduction template: every operator with a reduction, and those of moments.cpp.
#pragma once

#include <string>

#include "launch/kernel.h"
#include "launch/layout.h"
#include "launch/embedded.h"

namespace facula::cuda {

// A tensor's elements reduced away along some dims: `in` has the dims that stay first.
struct Reduction {
  const void* name = nullptr;  // with `variant` and `extra` says which reduction it is
  const void* variant = nullptr;
  uint64_t extra = 0;
  int64_t kept = 0, reduced = 0;  // numbers of dims
  int64_t sizes[kMaxTensorDims], in_strides[kMaxTensorDims], out_strides[2][kMaxTensorDims];
  const void* in = nullptr;
  void* out[2] = {};
  int nouts = 1;
  int32_t in_dtype = 0, out_dtypes[2] = {}, compute = 0;
  double numbers[2] = {};  // the first `nnumbers` go to the kernel
  int nnumbers = 0;
  int32_t index = 0;
  void* stream = nullptr;
};

// How a reduction is compiled.
struct ReductionForm {
  bool rows = true, wide = false;
  int vec = 1, lanes = 256, kept = 1, reduced = 1;
};

// Of rows of `length` elements side by side, in vectors of `vec`: threads of a row, and parts that a row is taken in.
int row_lanes(int64_t length, int vec);
int64_t row_parts(int64_t rows, int64_t length, int vec, int lanes, int processors);

// `before` defines what the reduction's file needs beside the types; `file` is that file.
KernelSource reduction_source(const std::string& name, const Reduction& f, const ReductionForm& form,
                              const std::string& before, const char* file, const char* entry);

// Runs it; text(), called when the kernel is new, gives `before` and the file.
struct ReductionDefinition {
  std::string name, before;
  const char* file;  // null: there is no such reduction, FACULA_NOT_SUPPORTED
};
int32_t reduce(const Reduction& f, const std::function<ReductionDefinition()>& definition);

// The dims of an operator's argument `dim` (NONE, INT or INTS; none given are all) taken away.
void take_dims(Reduction& f, const FaculaTensor& self, const FaculaValue& dim, const FaculaTensor* const* outs);

int32_t reduction(void* context, const FaculaReduction* call);

}  // namespace facula::cuda
