#include "runtime/device/blocks.h"

#include <algorithm>
#include <bit>

namespace facula {

namespace {

constexpr size_t kUnit = 512, kMiB = size_t{1} << 20;
constexpr size_t kSmall = kMiB, kSmallPiece = 2 * kMiB;          // blocks of at most so much lie in such pieces
constexpr size_t kMedium = 10 * kMiB, kMediumPiece = 20 * kMiB;  // blocks below it share pieces
constexpr size_t kRest = kMiB;                                   // what is worth to be cut off a large block

size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

}  // namespace

size_t Blocks::rounded(size_t nbytes) {
  if (nbytes <= kUnit) return kUnit;
  return round_up(nbytes, std::clamp(std::bit_floor(nbytes) / 64, kUnit, kSmallPiece));
}

size_t Blocks::piece_for(size_t size) {
  if (size <= kSmall) return kSmallPiece;
  return size < kMedium ? kMediumPiece : round_up(size, kSmallPiece);
}

Block* Blocks::take(size_t size, const Arena& arena) {
  if (const auto at = bins_.find({arena, size}); at != bins_.end() && !at->second.empty()) {
    Block* const block = at->second.back();
    at->second.pop_back();
    block->state = Block::State::Live;
    return block;
  }
  Block* const found = fit(size, arena);
  return found != nullptr || !merge(arena) ? found : fit(size, arena);
}

Block* Blocks::fit(size_t size, const Arena& arena) {
  const auto at = free_.find({arena, size <= kSmall});
  if (at == free_.end()) return nullptr;
  Block wanted;
  wanted.size = size;
  const auto best = at->second.lower_bound(&wanted);
  if (best == at->second.end()) return nullptr;
  Block* const block = *best;
  at->second.erase(best);
  block->state = Block::State::Live;
  split(block, size);
  return block;
}

// The block keeps `size` bytes; what is beyond them is free, where it is worth it.
void Blocks::split(Block* block, size_t size) {
  const size_t rest = block->size - size;
  if (rest < (block->small ? kUnit : kRest)) return;
  auto made = std::make_unique<Block>();
  made->data = block->data + size;
  made->size = rest;
  made->arena = block->arena;
  made->small = block->small;
  made->state = Block::State::Free;
  made->before = block;
  made->after = block->after;
  if (made->after != nullptr) made->after->before = made.get();
  block->after = made.get();
  block->size = size;
  free_of(*made).insert(made.get());
  all_[made->data] = std::move(made);
}

Block* Blocks::add(void* data, size_t bytes, size_t size, const Arena& arena) {
  char* const begin = static_cast<char*>(data);
  const auto next = pieces_.upper_bound(begin);
  if (next != pieces_.end() && begin + bytes > next->first) return nullptr;
  if (next != pieces_.begin() && std::prev(next)->first + std::prev(next)->second > begin) return nullptr;
  auto made = std::make_unique<Block>();
  Block* const block = made.get();
  block->data = begin;
  block->size = bytes;
  block->arena = arena;
  block->small = size <= kSmall;
  all_[data] = std::move(made);
  pieces_[begin] = bytes;
  split(block, size);
  return block;
}

void Blocks::give(Block* block) {
  block->others.clear();
  block->state = Block::State::Binned;
  bins_[{block->arena, block->size}].push_back(block);
}

Block* Blocks::live(void* data) {
  const auto at = all_.find(data);
  return at != all_.end() && at->second->state == Block::State::Live ? at->second.get() : nullptr;
}

void Blocks::forget(Block* block) {
  pieces_.erase(block->data);
  all_.erase(block->data);
}

// Joins a free block with the free ones beside it; the result is in no set.
Block* Blocks::absorb(Block* block) {
  const auto join = [&](Block* first, Block* second) {
    first->size += second->size;
    first->after = second->after;
    if (first->after != nullptr) first->after->before = first;
    all_.erase(second->data);
    return first;
  };
  if (Block* const after = block->after; after != nullptr && after->state == Block::State::Free) {
    free_of(*after).erase(after);
    join(block, after);
  }
  if (Block* const before = block->before; before != nullptr && before->state == Block::State::Free) {
    free_of(*before).erase(before);
    return join(before, block);
  }
  return block;
}

// Empties the bins of an arena into its free blocks: false when they were empty.
bool Blocks::merge(const Arena& arena) {
  bool any = false;
  auto at = bins_.lower_bound({arena, 0});
  while (at != bins_.end() && at->first.arena == arena) {
    for (Block* block : at->second) {
      any = true;
      block->state = Block::State::Free;
      block = absorb(block);
      free_of(*block).insert(block);
    }
    at = bins_.erase(at);
  }
  return any;
}

std::vector<Blocks::Piece> Blocks::release(const std::function<bool(void* stream)>& may) {
  std::vector<Arena> arenas;
  for (const auto& [bin, blocks] : bins_) {
    if (arenas.empty() || arenas.back() != bin.arena) arenas.push_back(bin.arena);
  }
  for (const Arena& arena : arenas) merge(arena);
  std::vector<Piece> whole;
  for (auto& [key, free] : free_) {
    if (key.first.graph != 0 || !may(key.first.stream)) continue;
    for (auto at = free.begin(); at != free.end();) {
      Block* const block = *at;
      if (block->before != nullptr || block->after != nullptr) {
        ++at;
        continue;
      }
      whole.push_back({block->data, block->size, block->arena.stream});
      at = free.erase(at);
      forget(block);
    }
  }
  return whole;
}

void Blocks::end_graph(uint64_t graph) {
  std::set<Arena> arenas;
  for (const auto& [data, block] : all_) {
    if (block->arena.graph == graph) arenas.insert(block->arena);
  }
  for (const Arena& arena : arenas) {
    merge(arena);
    for (const bool small : {false, true}) {
      if (auto kept = free_.extract({arena, small}); !kept.empty()) {
        free_[{{arena.stream, 0}, small}].insert(kept.mapped().begin(), kept.mapped().end());
      }
    }
  }
  for (const auto& [data, block] : all_) {
    if (block->arena.graph == graph) block->arena.graph = 0;
  }
}

size_t Blocks::largest_free() const {
  size_t most = 0;
  for (const auto& [bin, blocks] : bins_) {
    if (!blocks.empty()) most = std::max(most, bin.size);
  }
  for (const auto& [key, free] : free_) {
    if (!free.empty()) most = std::max(most, (*free.rbegin())->size);
  }
  return most;
}

}  // namespace facula
