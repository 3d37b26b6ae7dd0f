// Elements of a tensor that are made when a kernel asks for them, a piece at a time, instead of lying in memory: what
// a fused group of pointwise loops hands to the reduction that reads its result.
#pragma once

#include "runtime/core/tensor.h"

namespace facula {

class FACULA_API ElementPieces {
 public:
  ElementPieces() = default;
  virtual ~ElementPieces() = default;
  ElementPieces(const ElementPieces&) = delete;
  ElementPieces& operator=(const ElementPieces&) = delete;

  // Elements [begin, begin + n), by their places in memory, to `to`. Any thread; each element at most once.
  virtual void make(int64_t begin, int64_t n, void* to) = 0;
  // All of them into the tensor's memory, also after pieces of them were made. One thread.
  virtual void fill() = 0;
};

// While a kernel runs whose first argument `t` has no values yet.
class FACULA_API PiecesScope {
 public:
  PiecesScope(const Tensor& t, ElementPieces& pieces);
  ~PiecesScope();
  PiecesScope(const PiecesScope&) = delete;
  PiecesScope& operator=(const PiecesScope&) = delete;
  // Whether the kernel has not asked for them; then they are filled in, and it is to be called again.
  bool was_idle();
};

// Those of `t`, for a kernel that goes on to ask for all of them; null where the values are in memory. Filled where
// they are those of another tensor over the same memory.
FACULA_API ElementPieces* take_pieces(const Tensor& t);

}  // namespace facula
