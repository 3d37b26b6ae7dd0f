// Sizes of the register tiles of this instruction set, for files that are compiled for each.
#pragma once

#include "aten/cpu/common/vector.h"

namespace facula {
namespace {

constexpr int kBytes = FACULA_VECTOR_BYTES, kRows = kBytes == 64 ? 14 : 6, kVectors = 2;

template <typename T>
using Lanes = cpu::Vector<T, kBytes>;
template <typename T>
constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
// Columns of a tile, and of a panel of the second factor.
template <typename T>
constexpr int kColumns = kVectors * kLanes<T>;

}  // namespace
}  // namespace facula
