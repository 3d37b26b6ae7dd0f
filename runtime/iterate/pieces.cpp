#include "runtime/iterate/pieces.h"

#include <utility>

namespace facula {

namespace {

struct Current {
  const Tensor* tensor = nullptr;
  ElementPieces* pieces = nullptr;
};
constinit thread_local Current current;

}  // namespace

PiecesScope::PiecesScope(const Tensor& t, ElementPieces& pieces) { current = {&t, &pieces}; }
PiecesScope::~PiecesScope() { current = {}; }
bool PiecesScope::was_idle() {
  if (current.pieces == nullptr) return false;
  std::exchange(current, {}).pieces->fill();
  return true;
}

ElementPieces* take_pieces(const Tensor& t) {
  if (current.pieces == nullptr || t.storage().get() != current.tensor->storage().get()) return nullptr;
  ElementPieces* const pieces = current.pieces;
  const bool same =
      t.raw() == current.tensor->raw() && t.dtype() == current.tensor->dtype() && t.numel() == current.tensor->numel();
  current = {};
  if (same) return pieces;
  pieces->fill();
  return nullptr;
}

}  // namespace facula
