#include "aten/cpu/fft/plans.h"

#include <algorithm>
#include <vector>

namespace facula::cpu {
namespace {

constexpr int64_t kMaxKeptBytes = int64_t{64} << 20;  // bytes of one thread

struct Kept {
  FftKind kind;
  bool wide;
  int64_t length, bytes;
  std::shared_ptr<void> plan;
};

// Those used last stand at the end. Each thread has its own, so that no lock is held when a process forks.
std::vector<Kept>& kept() {
  thread_local std::vector<Kept> plans;
  return plans;
}

}  // namespace

std::shared_ptr<void> kept_plan(FftKind kind, bool wide, int64_t length, int64_t bytes,
                                const std::function<std::shared_ptr<void>()>& make) {
  std::vector<Kept>& plans = kept();
  const auto found = std::find_if(plans.begin(), plans.end(), [&](const Kept& k) {
    return k.kind == kind && k.wide == wide && k.length == length;
  });
  if (found != plans.end()) {
    std::rotate(found, found + 1, plans.end());
    return plans.back().plan;
  }
  std::shared_ptr<void> made = make();  // which may come here for its parts
  if (bytes > kMaxKeptBytes) return made;
  int64_t held = bytes;
  for (const Kept& k : plans) held += k.bytes;
  while (!plans.empty() && (held > kMaxKeptBytes || plans.size() >= 32)) {
    held -= plans.front().bytes;
    plans.erase(plans.begin());
  }
  plans.push_back({kind, wide, length, bytes, made});
  return made;
}

void raise_no_memory(int64_t length) {
  raise(ErrorKind::OutOfMemory, "there is no memory for the tables of a Fourier transform of length ", length);
}

}  // namespace facula::cpu
