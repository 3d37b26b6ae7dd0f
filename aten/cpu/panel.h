// Sizes of the register tiles of this instruction set, for files that are compiled for each.
#pragma once

namespace facula {
namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64, kRows = 14, kVectors = 2;
#elif defined(__AVX__)
constexpr int kBytes = 32, kRows = 6, kVectors = 2;
#else
constexpr int kBytes = 16, kRows = 6, kVectors = 2;
#endif

template <typename T>
constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
// Columns of a tile, and of a panel of the second factor.
template <typename T>
constexpr int kColumns = kVectors * kLanes<T>;

}  // namespace
}  // namespace facula
