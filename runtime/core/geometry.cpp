// Sizes, strides and overlap: what can be said of tensors without touching their elements.
#include <algorithm>
#include <numeric>
#include <vector>

#include "runtime/core/checked.h"
#include "runtime/core/tensor.h"
#include "runtime/core/thread_state.h"

namespace facula {

DimVector contiguous_strides(IntList sizes) {
  DimVector strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride = checked_mul(stride, std::max<int64_t>(sizes[i], 1));
  }
  return strides;
}

bool is_contiguous(IntList sizes, IntList strides) {
  int64_t expected = 1;
  bool dense = true;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;
    if (sizes[i] != 1) {
      dense &= strides[i] == expected;
      expected *= sizes[i];
    }
  }
  return dense;
}

// Dims that matter, innermost first.
static DimVector dims_by_stride(IntList sizes, IntList strides) {
  DimVector order;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1) order.push_back(static_cast<int64_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::abs(strides[static_cast<size_t>(a)]) < std::abs(strides[static_cast<size_t>(b)]);
  });
  return order;
}

bool is_non_overlapping_and_dense(IntList sizes, IntList strides) {
  if (is_contiguous(sizes, strides)) return true;
  int64_t expected = 1;
  for (const int64_t d : dims_by_stride(sizes, strides)) {
    if (strides[static_cast<size_t>(d)] != expected) return false;
    expected *= sizes[static_cast<size_t>(d)];
  }
  return true;
}

DimVector preserved_strides(const Tensor& self) {
  const IntList sizes = self.sizes(), strides = self.strides();
  if (self.is_contiguous()) return contiguous_strides(sizes);
  if (is_non_overlapping_and_dense(sizes, strides)) return DimVector(strides);
  // Expanded dims (stride 0) do not say where they belong; they keep their place next to neighbours.
  DimVector order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  for (size_t i = 1; i < order.size(); ++i) {
    for (size_t j = i, k = i; k-- > 0;) {
      const size_t a = static_cast<size_t>(order[k]), b = static_cast<size_t>(order[j]);
      if (strides[a] == 0 || strides[b] == 0) continue;
      if (strides[a] < strides[b] || (strides[a] == strides[b] && sizes[a] <= sizes[b])) break;
      std::swap(order[k], order[j]);
      j = k;
    }
  }
  DimVector result(sizes.size());
  int64_t stride = 1;
  for (const int64_t d : order) {
    result[static_cast<size_t>(d)] = stride;
    stride *= std::max<int64_t>(sizes[static_cast<size_t>(d)], 1);
  }
  return result;
}

int64_t numel_of(IntList sizes) {
  int64_t numel = 1, nonzero = 1;
  for (const int64_t s : sizes) {
    FACULA_CHECK(s >= 0, Shape, "sizes must not be negative: ", shape_string(sizes));
    // Strides are products of sizes, so these must fit even when another size is 0.
    FACULA_CHECK(!__builtin_mul_overflow(nonzero, std::max<int64_t>(s, 1), &nonzero), Shape, "the shape ",
                 shape_string(sizes), " has more elements than can be counted");
    numel *= s;
  }
  return numel;
}

int64_t wrap_dim(int64_t dim, int64_t ndim, const char* op) {
  const int64_t n = std::max<int64_t>(ndim, 1);
  if (dim < -n || dim >= n) [[unlikely]] {
    raise(ErrorKind::Index, Operator{op, "dim"}, "dim ", dim, " is out of range for a tensor of ", ndim,
          ndim == 1 ? " dim" : " dims", " (expected ", -n, " to ", n - 1, ")");
  }
  return dim < 0 ? dim + n : dim;
}

DimVector broadcast_shapes(IntList a, IntList b, const char* op) {
  const size_t n = std::max(a.size(), b.size());
  DimVector result(n);
  for (size_t i = 1; i <= n; ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1, y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) [[unlikely]] {
      const int64_t dim = a.size() == b.size() ? static_cast<int64_t>(n - i) : -static_cast<int64_t>(i);
      raise(ErrorKind::Shape, Operator{op}, "shapes ", shape_string(a), " and ", shape_string(b),
            " do not broadcast: they differ at dim ", dim, " (", x, " and ", y, ") and neither is 1");
    }
    result[n - i] = x == 1 ? y : x;
  }
  return result;
}

namespace {

// Where the first element is; of a tensor without memory, such as one on meta, within its storage.
const char* place_of(const Tensor& t) {
  const auto* data = static_cast<const char*>(t.raw());
  return data != nullptr ? data : reinterpret_cast<const char*>(t.offset() * static_cast<int64_t>(t.itemsize()));
}

struct Bytes {
  const char *begin, *end;
};

Bytes byte_range(const Tensor& t) {
  const int64_t item = static_cast<int64_t>(t.itemsize());
  int64_t low = 0, high = item;
  for (size_t i = 0; i < t.sizes().size(); ++i) {
    const int64_t step = (t.sizes()[i] - 1) * t.strides()[i] * item;
    (step < 0 ? low : high) += step;
  }
  const char* data = place_of(t);
  return {data + low, data + high};
}

bool same_geometry(const Tensor& a, const Tensor& b) {
  if (place_of(a) != place_of(b) || a.itemsize() != b.itemsize() || !(a.sizes() == b.sizes())) return false;
  for (size_t i = 0; i < a.sizes().size(); ++i) {
    if (a.sizes()[i] != 1 && a.strides()[i] != b.strides()[i]) return false;
  }
  return true;
}

// All addresses of both are equal to their data pointers modulo this.
int64_t common_step(const Tensor& a, const Tensor& b) {
  int64_t g = 0;
  for (const Tensor* t : {&a, &b}) {
    for (size_t i = 0; i < t->sizes().size(); ++i) {
      if (t->sizes()[i] > 1) g = std::gcd(g, t->strides()[i] * static_cast<int64_t>(t->itemsize()));
    }
  }
  return g;
}

}  // namespace

Overlap overlap_of(const Tensor& a, const Tensor& b) {
  if (a.is_same(b)) return Overlap::Full;
  if (a.device() != b.device()) return Overlap::No;
  const bool nowhere = a.raw() == nullptr || b.raw() == nullptr;
  if (nowhere && !(a.is_meta() && a.storage() && b.storage() && a.storage()->shares_with(*b.storage())))
    return Overlap::No;
  if (a.numel() == 0 || b.numel() == 0) return Overlap::No;
  const Bytes x = byte_range(a), y = byte_range(b);
  if (x.end <= y.begin || y.end <= x.begin) return Overlap::No;
  if (same_geometry(a, b)) return Overlap::Full;
  if (is_non_overlapping_and_dense(a.sizes(), a.strides()) && is_non_overlapping_and_dense(b.sizes(), b.strides())) {
    return Overlap::Partial;
  }
  // x[::2] and x[1::2], or two columns of a matrix: interleaved and never equal.
  if (const int64_t g = common_step(a, b); g > 0) {
    const int64_t distance = place_of(b) - place_of(a);
    const int64_t r = ((distance % g) + g) % g;
    if (r >= static_cast<int64_t>(a.itemsize()) && g - r >= static_cast<int64_t>(b.itemsize())) return Overlap::No;
  }
  return Overlap::TooHard;
}

bool has_internal_overlap(const Tensor& t) {
  if (t.is_contiguous() || t.numel() <= 1) return false;
  const IntList sizes = t.sizes(), strides = t.strides();
  int64_t reach = 0;  // largest offset among the dims so far
  bool surely_apart = true;
  for (const int64_t d : dims_by_stride(sizes, strides)) {
    const int64_t size = sizes[static_cast<size_t>(d)], stride = std::abs(strides[static_cast<size_t>(d)]);
    if (stride == 0) return true;
    surely_apart &= stride > reach;
    reach += (size - 1) * stride;
  }
  if (surely_apart) return false;
  constexpr int64_t kCountable = int64_t{1} << 20;
  if (t.numel() > kCountable) return true;
  std::vector<int64_t> offsets(1, 0);
  offsets.reserve(static_cast<size_t>(t.numel()));
  for (size_t d = 0; d < sizes.size(); ++d) {
    const size_t n = offsets.size();
    for (int64_t i = 1; i < sizes[d]; ++i) {
      for (size_t k = 0; k < n; ++k) offsets.push_back(offsets[k] + i * strides[d]);
    }
  }
  std::sort(offsets.begin(), offsets.end());
  return std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end();
}

void check_not_inference(const Tensor& t, const char* op) {
  FACULA_CHECK(!t.impl()->inference || tls_state.inference, Runtime, Operator{op},
               "a tensor made in inference mode is changed in place outside it; clone() it and change the clone");
}

void check_writable(const Tensor& t, const char* op) {
  check_not_inference(t, op);
  FACULA_CHECK(
      !(t.storage() && t.storage()->read_only()), Runtime, Operator{op},
      "the tensor to write to has read-only memory (it came from a read-only array or buffer); clone() it first");
  FACULA_CHECK(!has_internal_overlap(t), Aliasing, Operator{op}, "the tensor to write to, of shape ",
               shape_string(t.sizes()), " and strides ", shape_string(t.strides()),
               ", has several indices for one element (an expanded tensor?); clone() it first");
  if (t.storage() && t.storage()->kept()) [[unlikely]]
    detail::leave_copies(*t.storage());
}

std::string shape_string(IntList sizes) {
  std::string text = "(";
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(sizes[i]);
  }
  return text + (sizes.size() == 1 ? ",)" : ")");
}

}  // namespace facula
