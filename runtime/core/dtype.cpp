#include "runtime/core/dtype.h"

#include <atomic>

namespace facula {

namespace {

using enum ScalarType;

constexpr Category category_of(ScalarType t) {
  return t == Bool      ? Category::Bool
         : t <= Int64   ? Category::Integral
         : t <= Float64 ? Category::Floating
                        : Category::Complex;
}

constexpr ScalarType promote(ScalarType a, ScalarType b) {
  if (a == b) return a;
  const Category ca = category_of(a), cb = category_of(b);
  if (ca == Category::Complex || cb == Category::Complex) {
    const auto wide = [](ScalarType t) { return t == Float64 || t == Complex128; };
    return wide(a) || wide(b) ? Complex128 : Complex64;
  }
  if (ca != cb) return ca > cb ? a : b;
  if (ca == Category::Floating) {
    const ScalarType low = a < b ? a : b, high = a < b ? b : a;
    return low == Float16 && high == BFloat16 ? Float32 : high;  // neither holds the other
  }
  if (a == UInt8 || b == UInt8) {  // no unsigned type is wider, so the next signed one
    const ScalarType other = a == UInt8 ? b : a;
    return other == Int8 ? Int16 : other;
  }
  return a < b ? b : a;
}

constexpr auto kPromotion = [] {
  std::array<std::array<ScalarType, kNumScalarTypes>, kNumScalarTypes> table{};
  for (int a = 0; a < kNumScalarTypes; ++a) {
    for (int b = 0; b < kNumScalarTypes; ++b) {
      table[static_cast<size_t>(a)][static_cast<size_t>(b)] =
          promote(static_cast<ScalarType>(a), static_cast<ScalarType>(b));
    }
  }
  return table;
}();

std::atomic<ScalarType> g_default_dtype{Float32};

}  // namespace

const std::array<TypeInfo, kNumScalarTypes> kTypeInfo = {{
#define X(type, name, text) {text, sizeof(type), alignof(type), category_of(ScalarType::name)},
    FACULA_FORALL_TYPES(X)
#undef X
}};

ScalarType promote_types(ScalarType a, ScalarType b) {
  return kPromotion[static_cast<size_t>(a)][static_cast<size_t>(b)];
}

bool can_cast(ScalarType from, ScalarType to) { return category_of(from) <= category_of(to); }

ScalarType to_complex(ScalarType t) {
  if (is_complex(t)) return t;
  return t == Float64 ? Complex128 : Complex64;
}

ScalarType to_real(ScalarType t) { return t == Complex64 ? Float32 : t == Complex128 ? Float64 : t; }

ScalarType compute_type(ScalarType t) { return is_reduced_float(t) ? Float32 : t; }

ScalarType get_default_dtype() { return g_default_dtype.load(std::memory_order_relaxed); }

void set_default_dtype(ScalarType t) {
  FACULA_CHECK(is_floating(t), UnfitDtype, Operator{"set_default_dtype"},
               "the default dtype must be a floating type, not ", dtype_name(t));
  g_default_dtype.store(t, std::memory_order_relaxed);
}

}  // namespace facula
