// From a node to a small number: open addressing with linear probing, cleared and reused by tasks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace facula {

class Node;

namespace detail {

class NodeMap {
 public:
  static constexpr uint32_t kNone = ~0u;

  size_t size() const { return size_; }
  size_t capacity() const { return cells_.size(); }
  uint32_t find(const Node* node) const {
    if (cells_.empty()) return kNone;
    for (size_t i = home(node);; i = (i + 1) & mask()) {
      if (cells_[i].node == node) return cells_[i].value;
      if (cells_[i].node == nullptr) return kNone;
    }
  }
  // Of a node that is there.
  void set(const Node* node, uint32_t value) {
    size_t i = home(node);
    while (cells_[i].node != node) i = (i + 1) & mask();
    cells_[i].value = value;
  }
  // The node's value, `value` if it had none; tells which by the second result.
  std::pair<uint32_t, bool> insert(const Node* node, uint32_t value) {
    if (4 * (size_ + 1) > 3 * cells_.size()) grow();
    for (size_t i = home(node);; i = (i + 1) & mask()) {
      if (cells_[i].node == node) return {uint32_t{cells_[i].value}, false};
      if (cells_[i].node == nullptr) {
        cells_[i] = {node, value};
        ++size_;
        return {value, true};
      }
    }
  }
  void erase(const Node* node) {
    size_t hole = home(node);
    while (cells_[hole].node != node) hole = (hole + 1) & mask();
    // Moves back what a gap would hide.
    for (size_t i = (hole + 1) & mask(); cells_[i].node != nullptr; i = (i + 1) & mask()) {
      if (((i - home(cells_[i].node)) & mask()) >= ((i - hole) & mask())) {
        cells_[hole] = cells_[i];
        hole = i;
      }
    }
    cells_[hole].node = nullptr;
    --size_;
  }
  void clear() {
    if (size_ != 0) std::fill(cells_.begin(), cells_.end(), Cell{});
    size_ = 0;
  }

 private:
  struct [[gnu::packed, gnu::aligned(4)]] Cell {  // graphs have millions of nodes
    const Node* node = nullptr;
    uint32_t value = 0;
  };
  size_t mask() const { return cells_.size() - 1; }
  size_t home(const Node* node) const {
    const uint64_t h = (reinterpret_cast<uintptr_t>(node) >> 6) * 0x9E3779B97F4A7C15ull;
    return static_cast<size_t>(h >> 32) & mask();
  }
  void grow() {
    std::vector<Cell> old = std::move(cells_);
    cells_.assign(old.empty() ? 32 : 2 * old.size(), Cell{});
    size_ = 0;
    for (const Cell& c : old) {
      if (c.node != nullptr) insert(c.node, c.value);
    }
  }
  std::vector<Cell> cells_;
  size_t size_ = 0;
};

}  // namespace detail
}  // namespace facula
