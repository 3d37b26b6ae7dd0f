// Random streams: Philox 4x32-10 (Salmon et al., SC 2011), counter based, so that element i of a
// draw depends on the seed and i alone, on any device and at any thread count.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "runtime/core/device.h"
#include "runtime/core/intrusive.h"
#include "runtime/core/yield_lock.h"

namespace facula {

class Philox {
 public:
  Philox(uint64_t seed, uint64_t offset) : seed_(seed), offset_(offset) {}
  uint64_t seed() const { return seed_; }
  uint64_t offset() const { return offset_; }
  // Four 32-bit words for block `index` of this draw.
  std::array<uint32_t, 4> operator()(uint64_t index) const {
    std::array<uint32_t, 4> c = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                                 static_cast<uint32_t>(offset_), static_cast<uint32_t>(offset_ >> 32)};
    uint32_t k0 = static_cast<uint32_t>(seed_), k1 = static_cast<uint32_t>(seed_ >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }

 private:
  uint64_t seed_, offset_;
};

class FACULA_API GeneratorImpl final : public RefCounted {
 public:
  explicit GeneratorImpl(Device device, uint64_t seed = 0) : device_(device), seed_(seed) {}
  static void dispose(GeneratorImpl* g) noexcept { delete g; }
  Device device() const { return device_; }
  uint64_t initial_seed() const { return seed_; }
  void manual_seed(uint64_t seed) {
    std::lock_guard lock(mutex_);
    seed_ = seed;
    offset_ = 0;
  }
  // A fresh stream for one operator call; the next call gets another.
  Philox next() {
    std::lock_guard lock(mutex_);
    return Philox(seed_, offset_++);
  }
  struct State {
    uint64_t seed, offset;
  };
  State state() const {
    std::lock_guard lock(mutex_);
    return {seed_, offset_};
  }
  void set_state(State s) {
    std::lock_guard lock(mutex_);
    seed_ = s.seed;
    offset_ = s.offset;
  }

 private:
  Device device_;
  mutable detail::YieldLock mutex_;
  uint64_t seed_;
  uint64_t offset_ = 0;
};

// Rows of a batch that are to draw the same numbers in one call: of how many elements each is, 0 outside of such a
// call, and whether what drew kept to it.
struct DrawnRows {
  int64_t elements = 0;
  bool served = false;
};
namespace detail {
extern FACULA_API constinit thread_local DrawnRows tls_drawn_rows __attribute__((tls_model("initial-exec")));
}
// For kernels, before they draw: after how many elements the numbers begin anew; 0: never.
inline int64_t drawn_row() {
  DrawnRows& rows = detail::tls_drawn_rows;
  rows.served = rows.elements > 0;
  return rows.elements;
}

using Generator = intrusive_ptr<GeneratorImpl>;
FACULA_API Generator& default_generator(Device device = {});
// The one that `op` draws from on the device: the one given, which must be of that device, or its default.
FACULA_API GeneratorImpl& generator_for(const Generator& given, Device device, const char* op);

}  // namespace facula
