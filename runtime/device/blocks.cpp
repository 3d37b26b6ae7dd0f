#include "runtime/core/rounding.h"
#include "runtime/device/blocks.h"

#include <algorithm>
#include <bit>

namespace facula {

namespace {

constexpr size_t kUnit = 512, kMiB = size_t{1} << 20;
constexpr size_t kSmall = kMiB, kSmallPiece = 2 * kMiB;          // blocks of at most so much lie in such pieces
constexpr size_t kMedium = 10 * kMiB, kMediumPiece = 20 * kMiB;  // blocks below it share pieces
constexpr size_t kRest = kMiB;                                   // what is worth to be cut off a large block

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

// The block keeps `size` bytes; what is beyond them is another, in the same state and in no set.
Block* Blocks::cut(Block* block, size_t size) {
  auto made = std::make_unique<Block>();
  Block* const rest = made.get();
  rest->data = block->data + size;
  rest->size = block->size - size;
  rest->arena = block->arena;
  rest->small = block->small;
  rest->range = block->range;
  rest->state = block->state;
  rest->before = block;
  rest->after = block->after;
  if (rest->after != nullptr) rest->after->before = rest;
  block->after = rest;
  block->size = size;
  all_[rest->data] = std::move(made);
  return rest;
}

// What the block has beyond `size` bytes is free, where it is worth it.
void Blocks::split(Block* block, size_t size) {
  if (block->size - size < (block->small ? kUnit : kRest)) return;
  Block* const rest = cut(block, size);
  rest->state = Block::State::Free;
  free_of(*rest).insert(rest);
}

// The one block of a new piece or range; null when it overlaps others.
Block* Blocks::begin(void* data, size_t bytes, size_t size, const Arena& arena) {
  char* const first = static_cast<char*>(data);
  const auto next = pieces_.upper_bound(first);
  if (next != pieces_.end() && first + bytes > next->first) return nullptr;
  if (next != pieces_.begin() && std::prev(next)->first + std::prev(next)->second > first) return nullptr;
  auto made = std::make_unique<Block>();
  Block* const block = made.get();
  block->data = first;
  block->size = bytes;
  block->arena = arena;
  block->small = size <= kSmall;
  all_[data] = std::move(made);
  pieces_[first] = bytes;
  return block;
}

Block* Blocks::add(void* data, size_t bytes, size_t size, const Arena& arena) {
  Block* const block = begin(data, bytes, size, arena);
  if (block != nullptr) split(block, size);
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

// Two neighbours become one.
Block* Blocks::join(Block* first, Block* second) {
  first->size += second->size;
  first->after = second->after;
  if (first->after != nullptr) first->after->before = first;
  all_.erase(second->data);
  return first;
}

// Joins a free block with the free ones beside it; the result is in no set.
Block* Blocks::absorb(Block* block) {
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

void Blocks::merge_all() {
  while (!bins_.empty()) merge(bins_.begin()->first.arena);
}

std::vector<Blocks::Piece> Blocks::release(const std::function<bool(void* stream)>& may) {
  merge_all();
  std::vector<Piece> whole;
  for (auto& [key, free] : free_) {
    if (key.first.graph != 0 || !may(key.first.stream)) continue;
    for (auto at = free.begin(); at != free.end();) {
      Block* const block = *at;
      if (block->range != nullptr || block->before != nullptr || block->after != nullptr) {
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

size_t Blocks::chunk_of(bool small) { return small ? kSmallPiece : kMediumPiece; }

bool Blocks::add_range(void* data, size_t bytes, size_t size, const Arena& arena) {
  Block* const block = begin(data, bytes, size, arena);
  if (block == nullptr) return false;
  block->range = block->data;
  unmapped(block);
  return true;
}

Block* Blocks::claim(size_t size, const Arena& arena) {
  auto& holes = unmapped_[{arena, size <= kSmall}];
  for (auto at = holes.begin(); at != holes.end(); ++at) {
    Block* const block = *at;
    const Block* const before = block->before;
    const size_t have = before != nullptr && before->state == Block::State::Free ? before->size : 0;
    const size_t bytes = round_up(size - have, chunk_of(block->small));
    if (block->size < bytes) continue;
    holes.erase(at);
    block->state = Block::State::Waiting;
    if (block->size > bytes) unmapped(cut(block, bytes));
    return block;
  }
  return nullptr;
}

std::vector<Block*> Blocks::retract() {
  merge_all();
  std::vector<Block*> whole;
  for (auto& [key, free] : free_) {
    const size_t chunk = chunk_of(key.second);
    for (auto at = free.begin(); at != free.end();) {
      Block* block = *at++;
      if (block->range == nullptr) continue;
      const size_t start = static_cast<size_t>(block->data - block->range);
      const size_t first = round_up(start, chunk), last = (start + block->size) / chunk * chunk;
      if (first >= last) continue;
      free.erase(block);
      if (first > start) {
        Block* const rest = cut(block, first - start);
        free.insert(block);
        block = rest;
      }
      if (block->size > last - first) free.insert(cut(block, last - first));
      block->state = Block::State::Waiting;
      whole.push_back(block);
    }
  }
  return whole;
}

void Blocks::mapped(Block* block, size_t bytes) {
  if (bytes == 0) return unmapped(block);
  if (bytes < block->size) unmapped(cut(block, bytes));
  block->state = Block::State::Free;
  block = absorb(block);
  free_of(*block).insert(block);
}

void Blocks::unmapped(Block* block) {
  auto& holes = unmapped_[{block->arena, block->small}];
  block->state = Block::State::Unmapped;
  const auto is_hole = [](const Block* b) { return b != nullptr && b->state == Block::State::Unmapped; };
  if (is_hole(block->after)) {
    holes.erase(block->after);
    join(block, block->after);
  }
  if (is_hole(block->before)) {
    join(block->before, block);
  } else {
    holes.insert(block);
  }
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
