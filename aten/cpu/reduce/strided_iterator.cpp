#include "aten/cpu/reduce/strided_iterator.h"

#include <cmath>
#include <complex>

#include "runtime/iterate/convert.h"

namespace facula::cpu {

namespace {

void merge_axes(ReduceAxes& axes) {
  std::stable_sort(axes.begin(), axes.end(),
                   [](const ReduceAxis& a, const ReduceAxis& b) { return std::abs(a.in) > std::abs(b.in); });
  size_t n = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const ReduceAxis inner = axes[i];
    if (n > 0) {
      ReduceAxis& outer = axes[n - 1];
      if (outer.in == inner.size * inner.in && outer.out[0] == inner.size * inner.out[0] &&
          outer.out[1] == inner.size * inner.out[1]) {
        outer = {outer.size * inner.size, inner.in, {inner.out[0], inner.out[1]}};
        continue;
      }
    }
    axes[n++] = inner;
  }
  axes.resize(n);
}

template <typename C>
void transform(C* x, int64_t n, Preload preload, double p) {
  if (preload == Preload::Abs) {
    for (int64_t i = 0; i < n; ++i) x[i] = std::abs(x[i]);
  } else if (preload == Preload::Power) {
    for (int64_t i = 0; i < n; ++i) x[i] = std::pow(std::abs(x[i]), static_cast<C>(p));
  } else {
    for (int64_t i = 0; i < n; ++i) x[i] = x[i] == x[i] ? x[i] : C(0);
  }
}

int64_t item_size(ScalarType t) { return static_cast<int64_t>(itemsize(t)); }

}  // namespace

ReduceLayout make_layout(const Tensor& self, DimSet dims, const Tensor& out, const Tensor& out1) {
  ReduceLayout l;
  const int64_t ndim = self.dim();
  const bool keepdim = out.dim() == ndim;
  const bool two = out1.defined();
  int64_t o = 0;
  for (int64_t d = 0; d < ndim; ++d) {
    const size_t i = static_cast<size_t>(d);
    const int64_t size = self.sizes()[i];
    const bool is_reduced = dims[i];
    if (size != 1) {
      if (is_reduced) {
        l.reduced.push_back({size, self.strides()[i], {0, 0}});
        l.count *= size;
      } else {
        const size_t j = static_cast<size_t>(o);
        l.kept.push_back({size, self.strides()[i], {out.strides()[j], two ? out1.strides()[j] : 0}});
        l.outputs *= size;
      }
    }
    if (!is_reduced || keepdim) ++o;
  }
  merge_axes(l.kept);
  merge_axes(l.reduced);
  return l;
}

void ElementLoader::operator()(void* dst, const char* src, int64_t stride, int64_t n) const {
  if (preload_ == Preload::NonZero) {
    bool flags[512];
    for (int64_t i = 0; i < n; i += 512) {
      const int64_t m = std::min<int64_t>(512, n - i);
      load_elements(ScalarType::Bool, flags, from_, src + i * stride * item_size(from_), stride, m);
      convert_elements(compute_, static_cast<char*>(dst) + i * item_size(compute_), ScalarType::Bool, flags, m);
    }
  } else if (preload_ != Preload::None && is_complex(from_)) {
    const auto loop = [&]<typename R>(R* d) {
      const std::complex<R>* s = reinterpret_cast<const std::complex<R>*>(src);
      for (int64_t i = 0; i < n; ++i) d[i] = std::abs(s[i * stride]);
    };
    compute_ == ScalarType::Float32 ? loop(static_cast<float*>(dst)) : loop(static_cast<double*>(dst));
    if (preload_ == Preload::Power) apply(dst, n);
  } else {
    load_elements(compute_, dst, from_, src, stride, n);
    if (preload_ != Preload::None) apply(dst, n);
  }
}

void ElementLoader::apply(void* dst, int64_t n) const {
  if (compute_ == ScalarType::Float32) {
    transform(static_cast<float*>(dst), n, preload_, p_);
  } else if (compute_ == ScalarType::Float64) {
    transform(static_cast<double*>(dst), n, preload_, p_);
  }
}

DimSet reduced_dims(std::optional<IntList> dim, int64_t ndim) {
  DimSet set;
  if (!dim || dim->empty()) {
    for (int64_t d = 0; d < ndim; ++d) set.set(static_cast<size_t>(d));
  } else {
    for (int64_t d : *dim) set.set(static_cast<size_t>(wrap_dim(d, ndim)));
  }
  return set;
}

ScalarType order_type(ScalarType t) {
  switch (t) {
    case ScalarType::Int64:
    case ScalarType::Float64:
    case ScalarType::Float32:
      return t;
    case ScalarType::UInt64:
      return t;
    case ScalarType::UInt32:
      return ScalarType::Int64;
    default:
      return is_floating(t) ? ScalarType::Float32 : ScalarType::Int32;
  }
}

void load_elements(ScalarType to, void* dst, ScalarType from, const void* src, int64_t stride, int64_t n) {
  const int64_t item = item_size(from);
  if (stride == 1 || n == 1) {
    convert_elements(to, dst, from, src, n);
    return;
  }
  const auto move = FACULA_BY_ISA(convert_table).move[size_log2(itemsize(from))];
  if (to == from) {
    move(static_cast<char*>(dst), item, static_cast<const char*>(src), stride * item, n);
    return;
  }
  constexpr int64_t kPart = 512;
  alignas(64) char part[kPart * 16];
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t m = std::min(kPart, n - i);
    move(part, item, static_cast<const char*>(src) + i * stride * item, stride * item, m);
    convert_elements(to, static_cast<char*>(dst) + i * item_size(to), from, part, m);
  }
}

void store_elements(ScalarType to, void* dst, int64_t stride, ScalarType from, const void* src, int64_t n) {
  if (stride == 1 || n == 1) {
    convert_elements(to, dst, from, src, n);
    return;
  }
  const int64_t item = item_size(to);
  const auto move = FACULA_BY_ISA(convert_table).move[size_log2(itemsize(to))];
  constexpr int64_t kPart = 512;
  alignas(64) char part[kPart * 16];
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t m = std::min(kPart, n - i);
    convert_elements(to, part, from, static_cast<const char*>(src) + i * item_size(from), m);
    move(static_cast<char*>(dst) + i * stride * item, stride * item, part, item, m);
  }
}

}  // namespace facula::cpu
