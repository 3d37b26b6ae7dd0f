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

// While a kernel runs whose first argument `t` has no values yet. What the kernel has not asked for in the end is
// filled in all the same, since the group may have other results.
class FACULA_API PiecesScope {
 public:
  PiecesScope(const Tensor& t, ElementPieces& pieces);
  ~PiecesScope();
  PiecesScope(const PiecesScope&) = delete;
  PiecesScope& operator=(const PiecesScope&) = delete;
  void finish();
};

// Those of `t`, for a kernel that goes on to ask for all of them; null where the values are in memory. Filled where
// they are those of another tensor over the same memory.
FACULA_API ElementPieces* take_pieces(const Tensor& t);

// Kernels of the CPU that take their first argument's elements by take_pieces(), and look at them in no other way.
// They say so themselves, while the library is loaded.
using PieceKernel = void (*)();
FACULA_API bool takes_pieces(PieceKernel kernel);
FACULA_API bool add_piece_kernels(std::initializer_list<PieceKernel> kernels);

}  // namespace facula
