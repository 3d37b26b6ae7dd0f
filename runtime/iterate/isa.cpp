#include "runtime/iterate/isa.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace facula {

namespace {

Isa detect() {
  Isa best = Isa::Baseline;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  best = v4 ? Isa::V4 : v3 ? Isa::V3 : Isa::Baseline;
#endif
  if (const char* text = std::getenv("FACULA_ISA"); text != nullptr) {
    if (std::strcmp(text, "baseline") == 0) best = Isa::Baseline;
    if (std::strcmp(text, "v3") == 0 && best > Isa::V3) best = Isa::V3;
  }
  return best;
}

std::atomic<int> g_isa{-1};

}  // namespace

Isa active_isa() {
  int isa = g_isa.load(std::memory_order_relaxed);
  if (isa < 0) [[unlikely]] {
    isa = static_cast<int>(detect());
    g_isa.store(isa, std::memory_order_relaxed);
  }
  return static_cast<Isa>(isa);
}

}  // namespace facula
