// Thresholds of fusion that were measured: how large tensors are that pay, and how much is done at a time. What only
// has to be right stands where it is used.
#pragma once

#include <cstdint>

namespace facula::tuning {

inline constexpr int64_t kCaptureLeast = 16384;

inline constexpr int64_t kFusedTileBytes = 32 << 10;
inline constexpr int64_t kFusedFarBytes = int64_t{1} << 20;
inline constexpr int64_t kFusedLinesAStep = 16;

}  // namespace facula::tuning
