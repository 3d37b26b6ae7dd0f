// The blocks of a device's memory: which are free, split where one is larger than what is asked for, merged with their
// neighbours when none is large enough. Bookkeeping alone; whoever has it holds a lock and talks to the vendor.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

namespace facula {

// Memory that may be used again in the order of one stream's work; what a captured graph uses is that graph's alone.
struct Arena {
  void* stream = nullptr;
  uint64_t graph = 0;  // 0: of none
  auto operator<=>(const Arena&) const = default;
};

struct Block {
  // Waiting: for other streams, or for the vendor to map or unmap it. Unmapped: addresses without memory.
  enum class State : uint8_t { Live, Waiting, Binned, Free, Unmapped };

  char* data = nullptr;
  size_t size = 0;
  Arena arena;
  Block *before = nullptr, *after = nullptr;  // neighbours in the vendor's piece or range
  std::vector<void*> others;                  // streams beside the arena's that use it
  State state = State::Live;
  bool small = false;     // in a piece for small blocks, so that they do not cut up the large ones
  char* range = nullptr;  // where the range begins that it lies in; null in a piece
};

class Blocks {
 public:
  struct Piece {
    void* data;
    size_t size;
    void* stream;
  };

  // Not too many distinct sizes, so that freed blocks serve again as they are: whole units of 512 bytes, of a 64th of
  // what is larger, of 2 MiB.
  static size_t rounded(size_t nbytes);
  // What to ask the vendor for when no free block has `size`.
  static size_t piece_for(size_t size);

  // A free block of at least `size` made live, or null.
  Block* take(size_t size, const Arena& arena);
  // Memory of the vendor: its first `size` bytes as a live block, the rest free. Null when it overlaps other pieces.
  Block* add(void* data, size_t bytes, size_t size, const Arena& arena);
  void give(Block* block);
  // The live block that begins there, or null.
  Block* live(void* data);
  // Takes a block that is a whole piece out of the books.
  void forget(Block* block);
  // Pieces without a live block, of no graph and of the streams that `may` give theirs; they are forgotten.
  std::vector<Piece> release(const std::function<bool(void* stream)>& may);

  // Ranges: addresses behind which memory is mapped in chunks, so that a block can grow where a piece ends.
  static size_t chunk_of(bool small);
  // A range for blocks as large as `size`, without memory yet. False when it overlaps what is there.
  bool add_range(void* data, size_t bytes, size_t size, const Arena& arena);
  // Addresses to map so that `size` bytes lie side by side, together with what is free before them: whole chunks, of
  // nobody until mapped() or unmapped(). Null where no range has room.
  Block* claim(size_t size, const Arena& arena);
  // Whole chunks that nobody uses, likewise of nobody.
  std::vector<Block*> retract();
  // The first `bytes` are free memory now, what is beyond them are addresses alone.
  void mapped(Block* block, size_t bytes);
  void unmapped(Block* block);

  // What was a graph's belongs to its stream.
  void end_graph(uint64_t graph);
  size_t largest_free() const;

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->data < b->data;
    }
  };
  using Free = std::set<Block*, BySize>;
  struct Bin {
    Arena arena;
    size_t size;
    auto operator<=>(const Bin&) const = default;
  };

  struct ByPlace {
    bool operator()(const Block* a, const Block* b) const { return a->data < b->data; }
  };

  Block* fit(size_t size, const Arena& arena);
  bool merge(const Arena& arena);
  void merge_all();
  Block* begin(void* data, size_t bytes, size_t size, const Arena& arena);
  Block* cut(Block* block, size_t size);
  void split(Block* block, size_t size);
  Block* join(Block* first, Block* second);
  Block* absorb(Block* block);
  Free& free_of(const Block& block) { return free_[{block.arena, block.small}]; }

  std::unordered_map<void*, std::unique_ptr<Block>> all_;  // by where they begin
  std::map<char*, size_t> pieces_;                         // and ranges
  std::map<Bin, std::vector<Block*>> bins_;                // just freed, as they are
  std::map<std::pair<Arena, bool>, Free> free_;
  std::map<std::pair<Arena, bool>, std::set<Block*, ByPlace>> unmapped_;
};

}  // namespace facula
