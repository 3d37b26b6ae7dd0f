#include "runtime/iterate/loop_faults.h"
#include "runtime/iterate/fused.h"

#include <algorithm>
#include <cstring>

#include "runtime/core/rounding.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/stream.h"
#include "runtime/iterate/tiles.h"

namespace facula::detail {

namespace {

constexpr int64_t kTileBytes = 24 << 10;  // of all slots together, so that they stay in the first-level cache
constexpr int64_t kLeast = 256, kMost = 4096;

int64_t tile_of(const FusedRun& run) {
  const int64_t fit = kTileBytes / (std::max(run.slots, 1) * run.widest);
  return std::clamp(fit / 64 * 64, kLeast, kMost);
}

struct Tiles {
  const FusedRun& run;
  int64_t tile, slot_bytes;

  void operator()(int64_t first, int64_t last) const {
    const Scratch scratch(static_cast<size_t>(std::max<int64_t>(run.slots, 1) * slot_bytes));
    const ConvertTable& table = FACULA_BY_ISA(convert_table);
    for (const FusedFill& f : run.fills) {
      table.move[size_log2(static_cast<size_t>(f.item))](scratch.data() + f.slot * slot_bytes, f.item, f.value, 0,
                                                         std::min(tile, run.numel));
    }
    std::vector<char*> at(run.registers.size());
    std::vector<void*> pointers(run.used.size());
    for (int64_t t = first; t < last; ++t) {
      const int64_t begin = t * tile, n = std::min(tile, run.numel - begin);
      for (size_t r = 0; r < at.size(); ++r) {
        const FusedRegister& reg = run.registers[r];
        at[r] = reg.base != nullptr ? reg.base + begin * reg.item : scratch.data() + reg.slot * slot_bytes;
      }
      for (size_t u = 0; u < pointers.size(); ++u) pointers[u] = at[run.used[u]];
      for (const FusedStep& s : run.steps) step(s, table, pointers.data() + s.first, begin, n);
    }
    stream_done();
  }

  void step(const FusedStep& s, const ConvertTable& table, void* const* p, int64_t begin, int64_t n) const {
    switch (s.kind) {
      case FusedStep::Kind::Loop:
        s.loop(n, p, const_cast<const void* const*>(p + s.outs), s.args);
        check_loop_faults();
        break;
      case FusedStep::Kind::Convert:
        convert_elements(s.to, p[0], s.from, p[1], n);
        break;
      case FusedStep::Kind::Gather: {
        const int64_t item = static_cast<int64_t>(itemsize(s.from));
        const auto move = table.move[size_log2(static_cast<size_t>(item))];
        char* to = static_cast<char*>(p[0]);
        for_each_row(*s.gathered, begin, begin + n, [&](char* const* row, const int64_t* strides, int64_t count) {
          move(to, item, row[1], strides[1], count);
          to += count * item;
        });
        break;
      }
      case FusedStep::Kind::Store: {
        const int64_t item = static_cast<int64_t>(itemsize(s.from));
        char* const to = s.memory + begin * item;
        if (s.stream && whole_lines(to)) {
          table.stream(to, static_cast<const char*>(p[0]), n * item);
        } else {
          std::memcpy(to, p[0], static_cast<size_t>(n * item));
        }
        break;
      }
    }
  }
};

}  // namespace

void run_fused(const FusedRun& run) {
  if (run.numel == 0) return;
  const int64_t tile = tile_of(run);
  const Tiles tiles{run, tile, ceil_div(tile * run.widest, 64) * 64};
  const int64_t count = ceil_div(run.numel, tile);
  if (run.numel * static_cast<int64_t>(run.steps.size()) < 2 * kGrain) {
    tiles(0, count);
  } else {
    const int64_t grain = std::max<int64_t>(1, kGrain / (tile * static_cast<int64_t>(run.steps.size())));
    parallel_for(0, count, grain, tiles);
  }
}

}  // namespace facula::detail
