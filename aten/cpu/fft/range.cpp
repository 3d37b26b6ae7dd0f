#include "aten/cpu/fft/range.h"

#include <atomic>
#include <cmath>
#include <complex>

#include "runtime/iterate/strided.h"

namespace facula::cpu {
namespace {

// fn(numbers, count) over all elements; those of a complex tensor are two numbers each.
template <typename T, typename F>
void each_number(const Tensor& t, const F& fn) {
  const Tensor* operands[] = {&t};
  const int64_t each = is_complex(t.dtype()) ? 2 : 1;
  for_each_row(make_plan(t.sizes(), operands), [&](char** data, const int64_t* steps, int64_t n) {
    if (steps[0] == each * static_cast<int64_t>(sizeof(T))) return fn(reinterpret_cast<T*>(data[0]), each * n);
    for (int64_t i = 0; i < n; ++i) fn(reinterpret_cast<T*>(data[0] + i * steps[0]), each);
  });
}

template <typename T>
bool all_finite(const Tensor& t) {
  std::atomic<bool> all = true;
  each_number<T>(t, [&](const T* x, int64_t n) {
    bool good = true;
    for (int64_t i = 0; i < n; ++i) good &= std::fabs(x[i]) <= std::numeric_limits<T>::max();
    if (!good) all.store(false, std::memory_order_relaxed);
  });
  return all;
}

// `to` = `from` times 2^exponent.
template <typename T>
void copy_scaled(const Tensor& to, const Tensor& from, int exponent) {
  copy_strided(to, from);
  const T factor = std::ldexp(T(1), exponent);
  each_number<T>(to, [&](T* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) x[i] *= factor;
  });
}

template <typename T>
void repair(const Tensor& in, const Tensor& out, IntList dims, const Transform& transform) {
  if (all_finite<T>(out)) return;
  const size_t rank = out.sizes().size();
  SmallVector<bool, 8> inner(rank, false);
  int64_t length = 1;
  for (const int64_t dim : dims) {
    const auto d = static_cast<size_t>(wrap_dim(dim, static_cast<int64_t>(rank)));
    inner[d] = true;
    length *= std::max(in.sizes()[d], out.sizes()[d]);
  }
  // Lengths of awkward factors go through convolutions, whose sums are longer.
  const int down = 2 * std::ilogb(static_cast<double>(length)) + 6;
  DimVector sizes_in(in.sizes()), sizes_out(out.sizes()), batch(out.sizes());
  for (size_t d = 0; d < rank; ++d) (inner[d] ? batch : sizes_in)[d] = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (!inner[d]) sizes_out[d] = 1;
  }
  DimVector at(rank, 0);
  for (int64_t k = numel_of(batch), i = in.offset(), o = out.offset(); k-- > 0;) {
    const Tensor own = alias(in, sizes_in, in.strides(), i, false);
    const Tensor result = alias(out, sizes_out, out.strides(), o, false);
    if (!all_finite<T>(result) && all_finite<T>(own)) {
      const Tensor small = make_empty(sizes_in, in.dtype(), in.device());
      const Tensor again = make_empty(sizes_out, out.dtype(), out.device());
      copy_scaled<T>(small, own, -down);
      transform(small, again);
      copy_scaled<T>(result, again, down);
    }
    for (size_t d = rank; d-- > 0;) {
      i += in.strides()[d];
      o += out.strides()[d];
      if (++at[d] < batch[d]) break;
      i -= batch[d] * in.strides()[d];
      o -= batch[d] * out.strides()[d];
      at[d] = 0;
    }
  }
}

}  // namespace

void repair_overflow(const Tensor& in, const Tensor& out, IntList dims, const Transform& transform) {
  if (to_real(in.dtype()) == ScalarType::Float64) {
    repair<double>(in, out, dims, transform);
  } else {
    repair<float>(in, out, dims, transform);
  }
}

}  // namespace facula::cpu
