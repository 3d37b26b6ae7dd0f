#include "aten/cpu/reduce_loops.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "aten/cpu/isa/isa.h"

namespace facula::cpu {
namespace {

template <Preload Pre, typename T, typename C>
FACULA_INLINE C convert(const T& v) {
  if constexpr (Pre == Preload::NonZero) {
    return C(v != T(0) ? 1 : 0);
  } else if constexpr (Pre == Preload::Abs) {
    if constexpr (is_complex_v<T>) return static_cast<C>(std::hypot(v.real(), v.imag()));
    else return std::abs(static_cast<C>(v));
  } else if constexpr (Pre == Preload::NanToZero) {
    const C c = static_cast<C>(v);
    return c == c ? c : C(0);
  } else if constexpr (is_complex_v<C>) {
    if constexpr (is_complex_v<T>) return C(v);
    else return C(static_cast<typename C::value_type>(v));
  } else {
    return static_cast<C>(v);
  }
}

// Which conversions are of use; Abs and NanToZero stay within floating types of one precision.
template <Preload Pre, typename T, typename C>
constexpr bool loads() {
  if constexpr (Pre == Preload::NonZero) {
    return std::is_integral_v<C>;
  } else if constexpr (Pre == Preload::None) {
    if constexpr (std::is_integral_v<C>) return std::is_integral_v<T> && sizeof(T) <= sizeof(C);
    else return is_complex_v<C> || !is_complex_v<T>;
  } else {
    constexpr bool wide = std::is_same_v<T, double> || std::is_same_v<T, complex128>;
    return std::is_floating_point_v<C> && !std::is_integral_v<T> && (sizeof(C) == 8) == wide &&
           (Pre == Preload::Abs || !is_complex_v<T>);
  }
}

// `Family::loop<Pre, T, C>` for types known at run time.
template <typename Family, Preload Pre, typename C>
TileLoader find_loader_to(ScalarType from) {
  return visit_dtype(from, []<typename T>(std::type_identity<T>) -> TileLoader {
    if constexpr (loads<Pre, T, C>()) return Family::template loop<Pre, T, C>;
    else return nullptr;
  });
}
template <typename Family, Preload Pre>
TileLoader find_loader_pre(ScalarType from, ScalarType compute) {
  switch (compute) {
    case ScalarType::Float32: return find_loader_to<Family, Pre, float>(from);
    case ScalarType::Float64: return find_loader_to<Family, Pre, double>(from);
    case ScalarType::Int32: return find_loader_to<Family, Pre, int32_t>(from);
    case ScalarType::Int64: return find_loader_to<Family, Pre, int64_t>(from);
    case ScalarType::Complex64: return find_loader_to<Family, Pre, complex64>(from);
    case ScalarType::Complex128: return find_loader_to<Family, Pre, complex128>(from);
    default: return nullptr;
  }
}
template <typename Family>
TileLoader find_loader(Preload pre, ScalarType from, ScalarType compute) {
  switch (pre) {
    case Preload::None: return find_loader_pre<Family, Preload::None>(from, compute);
    case Preload::Abs: return find_loader_pre<Family, Preload::Abs>(from, compute);
    case Preload::NanToZero: return find_loader_pre<Family, Preload::NanToZero>(from, compute);
    case Preload::NonZero: return find_loader_pre<Family, Preload::NonZero>(from, compute);
  }
  return nullptr;
}

template <Preload Pre, typename T, typename C>
void load_strided(const void* srcp, int64_t stride, int64_t n, void* dstp) {
  const T* src = static_cast<const T*>(srcp);
  C* dst = static_cast<C*>(dstp);
  for (int64_t i = 0; i < n; ++i) dst[i] = convert<Pre, T, C>(src[i * stride]);
}
struct LoadStrided {
  template <Preload Pre, typename T, typename C>
  static constexpr TileLoader loop = load_strided<Pre, T, C>;
};

}  // namespace
}  // namespace facula::cpu

#define FACULA_LOOPS "aten/cpu/reduce_loops.inc"
#include "aten/cpu/isa/foreach.h"

namespace facula::cpu {

const ReduceLoops* reduce_loops(ReduceOp op, ScalarType compute) {
  return FACULA_PICK_ISA(find_reduce_loops(op, compute));
}
const ArgLoops* arg_loops(bool largest, ScalarType compute) {
  return FACULA_PICK_ISA(find_arg_loops(largest, compute));
}
TileLoader tile_loader(Preload pre, ScalarType from, ScalarType compute, bool contiguous) {
  return contiguous ? FACULA_PICK_ISA(find_contiguous_loader(pre, from, compute))
                    : find_loader<LoadStrided>(pre, from, compute);
}

namespace {
template <typename C, typename T>
void store_loop(const C* src, int64_t n, T* dst, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (is_complex_v<C> && !is_complex_v<T>) {
      dst[i * stride] = static_cast<T>(src[i].real());
    } else if constexpr (is_complex_v<T> && !is_complex_v<C>) {
      dst[i * stride] = T(static_cast<typename T::value_type>(src[i]));
    } else if constexpr (is_complex_v<T>) {
      dst[i * stride] = T(src[i]);
    } else if constexpr (is_reduced_float_v<T>) {
      dst[i * stride] = T(static_cast<float>(src[i]));
    } else {
      dst[i * stride] = static_cast<T>(src[i]);
    }
  }
}
}  // namespace

void store_tile(ScalarType acc, const void* src, int64_t n, ScalarType to, void* dst, int64_t stride) {
  visit_dtype(to, [&]<typename T>(std::type_identity<T>) {
    switch (acc) {
      case ScalarType::Float32:
        return store_loop(static_cast<const float*>(src), n, static_cast<T*>(dst), stride);
      case ScalarType::Float64:
        return store_loop(static_cast<const double*>(src), n, static_cast<T*>(dst), stride);
      case ScalarType::Int32:
        return store_loop(static_cast<const int32_t*>(src), n, static_cast<T*>(dst), stride);
      case ScalarType::Int64:
        return store_loop(static_cast<const int64_t*>(src), n, static_cast<T*>(dst), stride);
      case ScalarType::Complex64:
        return store_loop(static_cast<const complex64*>(src), n, static_cast<T*>(dst), stride);
      default:
        return store_loop(static_cast<const complex128*>(src), n, static_cast<T*>(dst), stride);
    }
  });
}

}  // namespace facula::cpu
