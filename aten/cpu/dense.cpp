#include "aten/cpu/dense.h"

#include <cstring>

namespace facula::cpu {
namespace {

template <typename T>
void copy_recursive(int64_t dim, IntList sizes, char* to, IntList to_strides, const char* from, IntList from_strides) {
  const auto d = static_cast<size_t>(dim);
  const int64_t n = sizes[d], st = to_strides[d], sf = from_strides[d];
  if (d + 1 == sizes.size()) {
    auto* t = reinterpret_cast<T*>(to);
    const auto* f = reinterpret_cast<const T*>(from);
    if (st == 1 && sf == 1) {
      std::memcpy(t, f, static_cast<size_t>(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i) t[i * st] = f[i * sf];
    }
    return;
  }
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < n; ++i) {
    copy_recursive<T>(dim + 1, sizes, to + i * st * kSize, to_strides, from + i * sf * kSize, from_strides);
  }
}

struct Wide {
  uint64_t a, b;
};

}  // namespace

void copy_elements(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  const auto run = [&](auto type) {
    using T = typename decltype(type)::type;
    auto* t = static_cast<char*>(to.raw());
    const auto* f = static_cast<const char*>(from.raw());
    if (to.dim() == 0) {
      std::memcpy(t, f, sizeof(T));
    } else {
      copy_recursive<T>(0, to.sizes(), t, to.strides(), f, from.strides());
    }
  };
  switch (to.itemsize()) {
    case 1: return run(std::type_identity<uint8_t>{});
    case 2: return run(std::type_identity<uint16_t>{});
    case 4: return run(std::type_identity<uint32_t>{});
    case 8: return run(std::type_identity<uint64_t>{});
    default: return run(std::type_identity<Wide>{});
  }
}

}  // namespace facula::cpu
