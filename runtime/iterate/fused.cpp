#include "runtime/iterate/loop_faults.h"
#include "runtime/iterate/fused.h"

#include <algorithm>
#include <cstring>

#include "runtime/core/rounding.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/fused_tuning.h"
#include "runtime/iterate/stream.h"
#include "runtime/iterate/tiles.h"

namespace facula::detail {

namespace {

constexpr int64_t kLeast = 256, kMost = 4096;  // elements of a tile

bool is_far(const FusedRegister& r) { return r.far || r.stream != nullptr; }

int64_t tile_of(const FusedRun& run) {
  int64_t places = run.slots, most = kMost;
  for (const FusedRegister& r : run.registers) {
    if (!is_far(r)) continue;
    places += 2;  // this tile's and the next, or the last
    most = std::min(most, tuning::kFusedLinesAStep * 64 / r.item * static_cast<int64_t>(run.steps.size()));
  }
  const int64_t fit = std::min(tuning::kFusedTileBytes / (std::max<int64_t>(places, 1) * run.widest), most);
  const int64_t round = fit < tuning::kFusedTileRound ? 64 : tuning::kFusedTileRound;
  return std::clamp(fit / round * round, kLeast, kMost);
}

// What comes from memory and what goes there past the cache, in equal parts at the steps of a tile: the loops between
// work in the cache and would leave memory idle.
class Traffic {
 public:
  // `made`: two tiles of each streamed register, in turn.
  Traffic(const FusedRun& run, int64_t tile, char* made, int64_t slot_bytes) : tile_(tile), slot_bytes_(slot_bytes) {
    const auto steps = static_cast<int64_t>(std::max<size_t>(run.steps.size(), 1));
    for (size_t i = 0; i < run.registers.size(); ++i) {
      const FusedRegister& r = run.registers[i];
      if (!is_far(r)) continue;
      const int64_t part = ceil_div(ceil_div(tile * r.item, 64), steps) * 64;
      if (r.stream != nullptr) {
        out_.push_back({r.stream, r.item, part, i, made, nullptr, nullptr, 0});
        made += 2 * slot_bytes;
      } else {
        in_.push_back({r.base, r.item, part, nullptr, nullptr});
      }
    }
  }
  // Of elements up to `end`.
  void start(int64_t end) {
    end_ = end;
    for (Out& o : out_) o.left = 0;
  }
  // Before the tile of n elements from `begin` on: streamed registers are made elsewhere than the last ones.
  void place(int64_t begin, int64_t n, std::vector<char*>& at) {
    const int64_t next = begin + n, ahead = std::min(tile_, end_ - next);
    for (In& f : in_) {
      f.at = f.base + next * f.item;
      f.end = f.at + ahead * f.item;
    }
    for (Out& o : out_) {
      at[o.reg] = o.made + (second_ ? slot_bytes_ : 0);
    }
    second_ = !second_;
  }
  // Before each step.
  void pass(const ConvertTable& table) {
    for (In& f : in_) {
      const char* const to = std::min(f.at + f.part, f.end);
      fetch(f.at, to);
      f.at = to;
    }
    for (Out& o : out_) {
      if (o.left > 0) send(o, std::min(o.part, o.left), table);
    }
  }
  // After the tile.
  void made(int64_t begin, int64_t n, const std::vector<char*>& at, const ConvertTable& table) {
    for (Out& o : out_) {
      if (o.left > 0) send(o, o.left, table);
      o.from = at[o.reg];
      o.to = o.base + begin * o.item;
      o.left = n * o.item;
    }
  }
  void finish(const ConvertTable& table) {
    for (Out& o : out_) {
      if (o.left > 0) send(o, o.left, table);
    }
    stream_done();
  }

 private:
  struct In {
    const char* base;
    int64_t item, part;  // part: bytes a step
    const char *at, *end;
  };
  struct Out {
    char* base;
    int64_t item, part;
    size_t reg;
    char* made;
    const char* from;  // what is left of the last tile, and where it goes
    char* to;
    int64_t left;
  };
  static void send(Out& o, int64_t bytes, const ConvertTable& table) {
    if (whole_lines(o.to)) {
      table.stream(o.to, o.from, bytes);
    } else {
      std::memcpy(o.to, o.from, static_cast<size_t>(bytes));
    }
    o.from += bytes;
    o.to += bytes;
    o.left -= bytes;
  }
  std::vector<In> in_;
  std::vector<Out> out_;
  int64_t tile_, slot_bytes_, end_ = 0;
  bool second_ = false;
};

}  // namespace

class FusedWorker::Tiles {
 public:
  explicit Tiles(const FusedRun& run)
      : run_(run),
        tile_(tile_of(run)),
        slot_bytes_(ceil_div(tile_ * run.widest, 64) * 64),
        scratch_(static_cast<size_t>(slots_of(run) * slot_bytes_)),
        at_(run.registers.size()),
        pointers_(run.used.size()),
        traffic_(run, tile_, scratch_.data() + run.slots * slot_bytes_, slot_bytes_) {
    for (const FusedFill& f : run_.fills) {
      table_.move[size_log2(static_cast<size_t>(f.item))](scratch_.data() + f.slot * slot_bytes_, f.item, f.value, 0,
                                                          std::min(tile_, run.numel));
    }
  }

  void operator()(int64_t first, int64_t end, int64_t piece, char* to) {
    traffic_.start(end);
    for (int64_t begin = first; begin < end; begin += tile_) {
      const int64_t n = std::min(tile_, end - begin);
      for (size_t r = 0; r < at_.size(); ++r) {
        const FusedRegister& reg = run_.registers[r];
        at_[r] = reg.base != nullptr ? reg.base + begin * reg.item : scratch_.data() + reg.slot * slot_bytes_;
      }
      traffic_.place(begin, n, at_);
      if (piece >= 0) {
        const auto p = static_cast<size_t>(piece);
        at_[p] = to + (begin - first) * run_.registers[p].item;
      }
      for (size_t u = 0; u < pointers_.size(); ++u) pointers_[u] = at_[run_.used[u]];
      for (const FusedStep& s : run_.steps) {
        traffic_.pass(table_);
        step(s, table_, pointers_.data() + s.first, begin, n);
      }
      traffic_.made(begin, n, at_, table_);
    }
    traffic_.finish(table_);
  }

 private:
  // Two for each register that is streamed, beside the run's own.
  static int64_t slots_of(const FusedRun& run) {
    int64_t slots = run.slots;
    for (const FusedRegister& r : run.registers) slots += r.stream != nullptr ? 2 : 0;
    return std::max<int64_t>(slots, 1);
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
        std::memcpy(s.memory + begin * item, p[0], static_cast<size_t>(n * item));
        break;
      }
    }
  }

  const FusedRun& run_;
  const ConvertTable& table_ = FACULA_BY_ISA(convert_table);
  int64_t tile_, slot_bytes_;
  Scratch scratch_;
  std::vector<char*> at_;
  std::vector<void*> pointers_;
  Traffic traffic_;
};

FusedWorker::FusedWorker(const FusedRun& run) : tiles_(std::make_unique<Tiles>(run)) {}
FusedWorker::~FusedWorker() = default;
void FusedWorker::operator()(int64_t begin, int64_t end, int64_t piece, char* to) { (*tiles_)(begin, end, piece, to); }

void run_fused(const FusedRun& run) {
  if (run.numel == 0) return;
  const int64_t tile = tile_of(run), steps = std::max<int64_t>(1, static_cast<int64_t>(run.steps.size()));
  if (run.numel * steps < 2 * kGrain) {
    FusedWorker worker(run);
    worker(0, run.numel);
  } else {
    const int64_t grain = std::max<int64_t>(1, kGrain / (tile * steps));
    parallel_for(0, ceil_div(run.numel, tile), grain, [&](int64_t first, int64_t last) {
      FusedWorker worker(run);
      worker(first * tile, std::min(last * tile, run.numel));
    });
  }
}

}  // namespace facula::detail
