#include "runtime/core/dtype.h"

#include <atomic>

namespace facula {

namespace {

using enum ScalarType;

constexpr Category category_of(ScalarType t) {
  switch (t) {
    case Bool:
      return Category::Bool;
    case UInt8:
    case Int8:
    case Int16:
    case Int32:
    case Int64:
    case UInt16:
    case UInt32:
    case UInt64:
      return Category::Integral;
    case Complex64:
    case Complex128:
      return Category::Complex;
    default:
      return Category::Floating;
  }
}

constexpr bool is_small_float(ScalarType t) { return t == Float8_e4m3fn || t == Float8_e5m2; }
constexpr bool has_no_sign(ScalarType t) { return t == UInt8 || t == UInt16 || t == UInt32 || t == UInt64; }
// Bytes as a power of two.
constexpr int width(ScalarType t) {
  switch (t) {
    case UInt16:
    case Int16:
      return 1;
    case UInt32:
    case Int32:
      return 2;
    case UInt64:
    case Int64:
      return 3;
    default:
      return 0;
  }
}
constexpr ScalarType kSigned[] = {Int8, Int16, Int32, Int64};

// No type of both; bool is the result of no two others.
constexpr ScalarType kNone = Bool;

constexpr ScalarType promote(ScalarType a, ScalarType b) {
  if (a == b) return a;
  const Category ca = category_of(a), cb = category_of(b);
  if (ca == Category::Complex || cb == Category::Complex) {
    const auto wide = [](ScalarType t) { return t == Float64 || t == Complex128; };
    return wide(a) || wide(b) ? Complex128 : Complex64;
  }
  if (ca != cb) return ca > cb ? a : b;
  if (ca == Category::Floating) {
    if (is_small_float(a) || is_small_float(b)) return kNone;
    const ScalarType low = a < b ? a : b, high = a < b ? b : a;
    return low == Float16 && high == BFloat16 ? Float32 : high;  // neither holds the other
  }
  if (has_no_sign(a) == has_no_sign(b)) return width(a) < width(b) ? b : a;
  // The signed one, or the next signed one where it holds less.
  const int unsigned_width = width(has_no_sign(a) ? a : b), signed_width = width(has_no_sign(a) ? b : a);
  const int needed = unsigned_width < signed_width ? signed_width : unsigned_width + 1;
  return needed > 3 ? kNone : kSigned[needed];
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

[[noreturn]] void raise_no_common(ScalarType a, ScalarType b) {
  raise(ErrorKind::UnfitDtype, "no dtype holds both ", dtype_name(a), " and ", dtype_name(b),
        "; convert one of them first, to ", is_floating(a) ? "float32" : "int64 or float64", " say");
}

std::atomic<ScalarType> g_default_dtype{Float32};

}  // namespace

const std::array<TypeInfo, kNumScalarTypes> kTypeInfo = {{
#define X(type, name, text) {text, sizeof(type), alignof(type), category_of(ScalarType::name)},
    FACULA_FORALL_TYPES(X)
#undef X
}};

ScalarType promote_types(ScalarType a, ScalarType b) {
  const ScalarType common = kPromotion[static_cast<size_t>(a)][static_cast<size_t>(b)];
  if (common == kNone && a != b) [[unlikely]]
    raise_no_common(a, b);
  return common;
}

bool can_cast(ScalarType from, ScalarType to) { return category_of(from) <= category_of(to); }

ScalarType to_complex(ScalarType t) {
  if (is_complex(t)) return t;
  return t == Float64 ? Complex128 : Complex64;
}

ScalarType to_real(ScalarType t) { return t == Complex64 ? Float32 : t == Complex128 ? Float64 : t; }

ScalarType compute_type(ScalarType t) {
  if (is_reduced_float(t)) return Float32;
  return t == UInt16 ? Int32 : t == UInt32 ? Int64 : t;
}

ScalarType get_default_dtype() { return g_default_dtype.load(std::memory_order_relaxed); }

void set_default_dtype(ScalarType t) {
  FACULA_CHECK(is_floating(t), UnfitDtype, Operator{"set_default_dtype"},
               "the default dtype must be a floating type, not ", dtype_name(t));
  g_default_dtype.store(t, std::memory_order_relaxed);
}

}  // namespace facula
