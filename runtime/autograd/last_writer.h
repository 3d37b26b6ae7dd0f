// Who wrote to a storage last: kept in anomaly mode only, for the message about changed saved tensors.
#pragma once

#include <string>

#include "runtime/core/tensor.h"

namespace facula::detail {

struct Writer {
  std::string op;     // empty: not known
  std::string where;  // "file.py:12", or empty
};

// Called before the write that makes version() + 1.
void note_writer(const Tensor& t, const char* op);
Writer last_writer(const Tensor& t);

}  // namespace facula::detail
