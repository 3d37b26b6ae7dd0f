#include "runtime/iterate/pieces.h"

#include <algorithm>

namespace facula {

namespace {

struct Current {
  const Tensor* tensor = nullptr;
  ElementPieces* pieces = nullptr;
};
constinit thread_local Current current;

std::vector<PieceKernel>& kernels() {
  static auto* const all = new std::vector<PieceKernel>;
  return *all;
}

}  // namespace

PiecesScope::PiecesScope(const Tensor& t, ElementPieces& pieces) { current = {&t, &pieces}; }
PiecesScope::~PiecesScope() { current = {}; }
void PiecesScope::finish() {
  if (current.pieces != nullptr) current.pieces->fill();
}

ElementPieces* take_pieces(const Tensor& t) {
  if (current.pieces == nullptr || t.storage().get() != current.tensor->storage().get()) return nullptr;
  ElementPieces* const pieces = current.pieces;
  const bool same = t.raw() == current.tensor->raw() && t.dtype() == current.tensor->dtype() &&
                    t.numel() == current.tensor->numel();
  current = {};
  if (same) return pieces;
  pieces->fill();
  return nullptr;
}

bool takes_pieces(PieceKernel kernel) {
  return std::find(kernels().begin(), kernels().end(), kernel) != kernels().end();
}

bool add_piece_kernels(std::initializer_list<PieceKernel> added) {
  kernels().insert(kernels().end(), added);
  return true;
}

}  // namespace facula
