// Division rounded up, and the multiple that it leads to.
#pragma once

#include <cstdint>

namespace facula::cpu {

constexpr int64_t ceil_div(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
constexpr int64_t round_up(int64_t n, int64_t unit) { return ceil_div(n, unit) * unit; }

}  // namespace facula::cpu
