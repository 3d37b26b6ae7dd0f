// Several pointwise loops over the same elements, tile by tile: what one loop gives another lies in the first-level
// cache, and memory is read and written once.
#pragma once

#include <memory>
#include <vector>

#include "runtime/iterate/pointwise.h"
#include "runtime/iterate/strided.h"

namespace facula::detail {

// Where the elements of one value lie.
struct FusedRegister {
  char* base = nullptr;    // of the first element, in memory; null: in the tile
  int64_t item = 0;        // bytes of an element
  int32_t slot = -1;       // of the tile
  bool far = false;        // it is in memory before the run, and too large to be in a cache
  char* stream = nullptr;  // of what is made in the tile and goes past the cache: the first element in memory
};

struct FusedStep {
  enum class Kind : uint8_t { Loop, Convert, Gather, Store };
  Kind kind = Kind::Loop;
  uint8_t outs = 0, ins = 0;                         // of Loop
  ScalarType from = ScalarType::Float32, to = from;  // of Convert
  uint32_t first = 0;                                // of its registers: the outputs, then the inputs
  PointwiseLoop loop = nullptr;
  LoopArgs args;
  const StridedPlan* gathered = nullptr;  // operand 0: the order of the elements, operand 1: where they are
  char* memory = nullptr;                 // of Store
};

// An element that all places of a register have.
struct FusedFill {
  int32_t slot;
  int64_t item;
  alignas(16) char value[16];
};

struct FusedRun {
  int64_t numel = 0;
  int32_t slots = 0;
  int64_t widest = 1;  // bytes of the largest element in a tile
  std::vector<FusedRegister> registers;
  std::vector<uint32_t> used;  // registers of the steps
  std::vector<FusedStep> steps;
  std::vector<FusedFill> fills;
};

// Shared among threads where there is enough of it. No signal ends it half way.
void run_fused(const FusedRun& run);

// One thread's part of a run, with the memory for its tiles.
class FusedWorker {
 public:
  explicit FusedWorker(const FusedRun& run);
  ~FusedWorker();
  FusedWorker(const FusedWorker&) = delete;
  FusedWorker& operator=(const FusedWorker&) = delete;
  // Elements [begin, end). Those of register `piece`, where there is one, go to `to`.
  void operator()(int64_t begin, int64_t end, int64_t piece = -1, char* to = nullptr);

 private:
  class Tiles;
  std::unique_ptr<Tiles> tiles_;
};

}  // namespace facula::detail
