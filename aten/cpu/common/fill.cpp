// Filling, copying and number ranges.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "aten/cpu/common/bits.h"
#include "facula/kernels.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

template <typename T>
void fill_run(T* out, T value, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = value;
}

template <typename T>
void fill_bits(const Tensor& out, T value) {
  const Tensor* operands[] = {&out};
  const StridedPlan plan = make_plan(out.sizes(), operands);
  for_each_row(plan, [value](char** ptrs, const int64_t* strides, int64_t n) {
    if (strides[0] == sizeof(T)) {
      fill_run(reinterpret_cast<T*>(ptrs[0]), value, n);
      return;
    }
    for (int64_t i = 0; i < n; ++i) *reinterpret_cast<T*>(ptrs[0] + i * strides[0]) = value;
  });
}

}  // namespace

Tensor apart_from(const Tensor& t, const Tensor& out) {
  if (overlap_of(t, out) == Overlap::No) return t;
  const Tensor copied = make_empty(t.sizes(), t.dtype());
  copy_strided(copied, t);
  return copied;
}

Tensor dense(const Tensor& t, ScalarType dtype) {
  if (t.is_contiguous() && t.dtype() == dtype) return t;
  const Tensor copied = make_empty(t.sizes(), dtype);
  copy_strided(copied, t);
  return copied;
}

void fill(const Tensor&, const Scalar& value, const Tensor& out) {
  if (out.numel() == 0) return;
  const Element element = element_of(value, out.dtype(), "fill_");
  const size_t item = out.itemsize();
  bool same = true;
  for (size_t i = 1; i < item; ++i) same &= element.bytes[i] == element.bytes[0];
  if (same && out.is_contiguous()) {
    char* data = static_cast<char*>(out.raw());
    const int64_t bytes = static_cast<int64_t>(out.nbytes());
    if (bytes <= 4096) {
      std::memset(data, element.bytes[0], static_cast<size_t>(bytes));
    } else {
      parallel_for(0, bytes, int64_t{1} << 18,
                   [&](int64_t b, int64_t e) { std::memset(data + b, element.bytes[0], static_cast<size_t>(e - b)); });
    }
    return;
  }
  visit_bits(item, [&]<typename T>(std::type_identity<T>) { fill_bits(out, element.as<T>()); });
}

void fill_tensor(const Tensor&, const Tensor& value, const Tensor& out) { copy_strided(out, apart_from(value, out)); }

void copy(const Tensor& self, const Tensor& src, bool) {
  const Overlap overlap = overlap_of(self, src);
  if (overlap == Overlap::Full && self.dtype() == src.dtype()) return;
  copy_strided(self, overlap == Overlap::No ? src : apart_from(src, self));
}

Scalar local_scalar(const Tensor& self) { return load_element(self.raw(), self.dtype()); }

namespace {

// Runs fn(index) over the elements of a one-dim result, converting from double, int64 or complex.
template <typename C, typename F>
void generate(const Tensor& out, const F& fn) {
  const Tensor target =
      out.is_contiguous() && out.dtype() == dtype_of_v<C> ? out : make_empty(out.sizes(), dtype_of_v<C>);
  C* data = target.data<C>();
  parallel_for(0, target.numel(), kGrain, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) data[i] = fn(i);
  });
  if (!target.is_same(out)) copy_strided(out, target);
}

}  // namespace

void arange_start(const Scalar& start, const Scalar&, const Scalar& step, std::optional<ScalarType>,
                  std::optional<Device>, const Tensor& out) {
  if (is_integral(out.dtype(), true)) {  // steps of whole numbers, as in NumPy
    const uint64_t s = static_cast<uint64_t>(start.to<int64_t>()), d = static_cast<uint64_t>(step.to<int64_t>());
    generate<int64_t>(out, [=](int64_t i) { return static_cast<int64_t>(s + d * static_cast<uint64_t>(i)); });
  } else {
    const double s = start.as_double(), d = step.as_double();
    if (out.dtype() == ScalarType::Float32) {
      generate<float>(out, [=](int64_t i) { return static_cast<float>(s + d * static_cast<double>(i)); });
    } else {
      generate<double>(out, [=](int64_t i) { return s + d * static_cast<double>(i); });
    }
  }
}

namespace {

// Both ends are exact and the halves mirror each other.
template <typename C>
struct Spacing {
  C start, end, step;
  int64_t steps;
  Spacing(C a, C b, int64_t n) : start(a), end(b), step(0), steps(n) {
    if (n < 2) return;
    const double parts = static_cast<double>(n - 1);
    step = std::isinf(std::abs(b - a)) ? b / parts - a / parts : (b - a) / parts;
  }
  C operator()(int64_t i) const {
    if (i < (steps + 1) / 2) return start + step * static_cast<double>(i);
    return end - step * static_cast<double>(steps - 1 - i);
  }
};

}  // namespace

void linspace(const Scalar& start, const Scalar& end, int64_t steps, std::optional<ScalarType>, std::optional<Device>,
              const Tensor& out) {
  if (is_complex(out.dtype())) {
    generate<complex128>(out, Spacing<complex128>(start.to<complex128>(), end.to<complex128>(), steps));
  } else if (is_integral(out.dtype(), true) && steps > 1) {
    // Exact, then rounded towards zero as conversions are: of doubles a whole number may come out as less.
    using Wide = __int128;
    const auto wide = [](const Scalar& s) {
      return s.is_beyond_int64() ? Wide(s.to<uint64_t>()) : Wide(s.to<int64_t>());
    };
    const Wide a = wide(start), b = wide(end), parts = steps - 1;
    generate<int64_t>(out, [=](int64_t i) { return static_cast<int64_t>((a * (parts - i) + b * i) / parts); });
  } else {
    generate<double>(out, Spacing<double>(start.as_double(), end.as_double(), steps));
  }
}

void logspace(const Scalar& start, const Scalar& end, int64_t steps, double base, std::optional<ScalarType>,
              std::optional<Device>, const Tensor& out) {
  if (is_complex(out.dtype())) {
    const Spacing<complex128> at(start.to<complex128>(), end.to<complex128>(), steps);
    generate<complex128>(out, [&](int64_t i) { return std::pow(complex128(base), at(i)); });
  } else {
    const bool whole = is_integral(out.dtype(), true);
    const Spacing<double> at(whole ? std::trunc(start.as_double()) : start.as_double(),
                             whole ? std::trunc(end.as_double()) : end.as_double(), steps);
    generate<double>(out, [&](int64_t i) { return std::pow(base, at(i)); });
  }
}

namespace {

// Keeps the columns [low, high) that `bounds(row)` gives and clears the rest.
template <bool kLower>
void triangle(const Tensor& self, int64_t diagonal, const Tensor& out) {
  if (!out.is_same(self)) copy_strided(out, self);
  const size_t n = out.sizes().size();
  const int64_t rows = out.sizes()[n - 2], columns = out.sizes()[n - 1];
  if (out.numel() == 0) return;
  DimVector batch(out.sizes().begin(), out.sizes().end());
  batch.pop_back();  // every (batch..., row)
  const int64_t item = static_cast<int64_t>(out.itemsize());
  const int64_t step = out.strides()[n - 1] * item;
  const int64_t lines = numel_of(batch);
  parallel_for(0, lines, std::max<int64_t>(1, kGrain / std::max<int64_t>(columns, 1)), [&](int64_t b, int64_t e) {
    for (int64_t line = b; line < e; ++line) {
      int64_t rest = line, offset = 0;
      for (size_t d = n - 1; d-- > 0;) {
        offset += rest % out.sizes()[d] * out.strides()[d];
        rest /= out.sizes()[d];
      }
      const int64_t row = line % rows;
      // Column of the first element beyond the diagonal; sums saturate as diagonal is clamped.
      const int64_t edge = std::clamp<int64_t>(row + diagonal + (kLower ? 1 : 0), 0, columns);
      const int64_t low = kLower ? edge : 0, high = kLower ? columns : edge;
      char* p = static_cast<char*>(out.raw()) + offset * item;
      if (step == item) {
        std::memset(p + low * item, 0, static_cast<size_t>((high - low) * item));
      } else {
        for (int64_t c = low; c < high; ++c) std::memset(p + c * step, 0, static_cast<size_t>(item));
      }
    }
  });
}

}  // namespace

void tril(const Tensor& self, int64_t diagonal, const Tensor& out) {
  triangle<true>(self, std::clamp<int64_t>(diagonal, -(int64_t{1} << 60), int64_t{1} << 60), out);
}
void triu(const Tensor& self, int64_t diagonal, const Tensor& out) {
  triangle<false>(self, std::clamp<int64_t>(diagonal, -(int64_t{1} << 60), int64_t{1} << 60), out);
}

}  // namespace facula::cpu
