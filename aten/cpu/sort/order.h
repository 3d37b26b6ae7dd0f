// Sorting by keys: every element becomes an unsigned integer that orders as the element does, NaN last
// and zeros equal, and is packed with its position, so that one comparison is exact and stable.
//
// Only float32, float64, int32, int64 and uint64 have loops; the other types are converted to the one of
// order_type(), which keeps their order and values.
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "aten/cpu/common/bytes.h"
#include "aten/cpu/sort/order_loops.h"
#include "aten/cpu/reduce/reduce.h"
#include "runtime/core/interrupt.h"
#include "runtime/core/tensor.h"
#include "runtime/iterate/parallel.h"

namespace facula::cpu {

using uint128 = unsigned __int128;

// Key in the upper half, position in the lower.
template <typename P>
inline constexpr int kHalfBits = sizeof(P) * 4;
template <typename P>
inline int64_t position_of(P p) {
  return static_cast<int64_t>(p & ((P(1) << kHalfBits<P>)-1));
}
// The packed type that holds the whole key of a C.
template <typename C>
using PackedOf = std::conditional_t<sizeof(C) == 8, uint128, uint64_t>;

inline constexpr int64_t kShared = 1 << 16;  // lines from here on are sorted by all threads

// [0, n) in parts, one a thread if `shared` and worth it.
struct Parts {
  Parts(int64_t size, bool shared);
  // fn(part, begin, end)
  template <typename F>
  void each(const F& fn) const {
    parallel_for(0, count, 1, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) fn(p, std::min(n, p * length), std::min(n, (p + 1) * length));
    });
  }
  int64_t n, count, length;
};

// Sorts n packed elements with different positions; `scratch` has room for as many, and
// large ones are faster where both begin a cache line. `shared`: among threads. `even`: keys are spread evenly, so that
// few agree in their upper bits.
void sort_packed(uint64_t* data, uint64_t* scratch, int64_t n, bool shared, bool even = false);

// fn(begin, end) over [0, n), with a look for signals before each part.
template <typename F>
void in_blocks(int64_t n, const F& fn) {
  constexpr int64_t kBlock = 1 << 16;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    check_interrupt();
    fn(begin, std::min(n, begin + kBlock));
  }
}

// std::sort and std::nth_element, of which long ones may be interrupted.
template <typename P>
void sort_in_place(P* data, int64_t n) {
  if (n < kShared) return std::sort(data, data + n);
  std::sort(data, data + n, [](P a, P b) {
    count_step();
    return a < b;
  });
}
template <typename P>
void select_in_place(P* data, int64_t n, int64_t rank) {
  if (n < kShared) return std::nth_element(data, data + rank, data + n);
  std::nth_element(data, data + rank, data + n, [](P a, P b) {
    count_step();
    return a < b;
  });
}

// Moves the k first elements in order to the front, in any order; the k-th ends up at data[k - 1].
template <typename P>
void select_packed(P* data, int64_t n, int64_t k);
extern template void select_packed(uint64_t*, int64_t, int64_t);
extern template void select_packed(uint128*, int64_t, int64_t);
// The k-th element in order; the others are lost.
template <typename P>
P kth_packed(P* data, int64_t n, int64_t k);
extern template uint64_t kth_packed(uint64_t*, int64_t, int64_t);
extern template uint128 kth_packed(uint128*, int64_t, int64_t);

// The sorted order of contiguous lines of n elements, at most 2^32.
template <typename C>
class SortedLine {
 public:
  SortedLine(int64_t n, bool descending, bool shared);
  void sort(const C* x);
  Parts parts() const { return {n_, shared_}; }
  int64_t position(int64_t i) const { return position_of(packed()[i]); }
  C value(int64_t i) const {
    return exact_ ? from_key<C>(static_cast<KeyOf<C>>((packed()[i] >> 32) + base_) ^ flip_) : x_[position(i)];
  }
  // Do elements i and i - 1 of the order compare unequal? NaNs do.
  bool differs(int64_t i) const {
    return exact_ ? (packed()[i] >> 32) != (packed()[i - 1] >> 32) : !(x_[position(i)] == x_[position(i - 1)]);
  }

 private:
  const uint64_t* packed() const { return memory_.as<uint64_t>(); }
  const C* x_ = nullptr;
  int64_t n_;
  KeyOf<C> flip_;
  KeyOf<C> base_ = 0;
  bool shared_;
  bool exact_ = false;  // the upper halves plus base_ are the keys, and these give the elements back
  Bytes memory_;
};
extern template class SortedLine<float>;
extern template class SortedLine<double>;
extern template class SortedLine<int32_t>;
extern template class SortedLine<int64_t>;
extern template class SortedLine<uint64_t>;

// Calls fn(type_identity<C>) for the type that `t` is ordered in.
template <typename F>
decltype(auto) visit_ordered(ScalarType t, const char* who, F&& fn) {
  FACULA_CHECK(!is_complex(t), UnfitDtype, Operator{who}, "complex numbers have no order, got ", dtype_name(t));
  switch (order_type(t)) {
    case ScalarType::Float32:
      return fn(std::type_identity<float>{});
    case ScalarType::Float64:
      return fn(std::type_identity<double>{});
    case ScalarType::Int64:
      return fn(std::type_identity<int64_t>{});
    case ScalarType::UInt64:
      return fn(std::type_identity<uint64_t>{});
    default:
      return fn(std::type_identity<int32_t>{});
  }
}

// The elements of a line as contiguous C: the line itself, or a copy in `buffer` (n elements).
template <typename C>
const C* contiguous_line(ScalarType dtype, const void* x, int64_t stride, int64_t n, C* buffer) {
  if (dtype == dtype_of_v<C> && (stride == 1 || n == 1)) return static_cast<const C*>(x);
  load_elements(dtype_of_v<C>, buffer, dtype, x, stride, n);
  return buffer;
}

}  // namespace facula::cpu
