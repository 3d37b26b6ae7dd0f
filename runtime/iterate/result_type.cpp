#include "runtime/iterate/result_type.h"

namespace facula {

namespace {

enum Level { kDimensioned, kZeroDim, kNumber };

// `high` comes from the level that wins within a category.
ScalarType combine(std::optional<ScalarType> high, std::optional<ScalarType> low) {
  if (!high) return *low;
  if (!low) return *high;
  if (is_complex(*high)) return *high;
  if (is_floating(*high)) return is_complex(*low) ? to_complex(*high) : *high;
  if (*high == ScalarType::Bool || is_floating(*low) || is_complex(*low)) return promote_types(*high, *low);
  return *high;
}

}  // namespace

void ResultType::merge(int level, ScalarType t) {
  std::optional<ScalarType>& slot = levels_[level];
  slot = slot ? promote_types(*slot, t) : t;
}

void ResultType::add(const Tensor& t) {
  ScalarType dtype = t.dtype();
  if (t.is_wrapped_number()) {  // held in the widest type, but promotes as the default one
    if (is_complex(dtype)) dtype = to_complex(get_default_dtype());
    if (is_floating(dtype)) dtype = get_default_dtype();
    merge(kNumber, dtype);
  } else {
    merge(t.dim() == 0 ? kZeroDim : kDimensioned, dtype);
  }
}

void ResultType::add(const Scalar& s) { merge(kNumber, s.dtype()); }

ScalarType ResultType::get() const {
  FACULA_CHECK(levels_[kDimensioned] || levels_[kZeroDim] || levels_[kNumber], Value, Operator{"result_type"},
               "needs at least one tensor or number");
  if (!levels_[kZeroDim] && !levels_[kNumber]) return *levels_[kDimensioned];
  if (!levels_[kDimensioned]) return combine(levels_[kZeroDim], levels_[kNumber]);
  return combine(levels_[kDimensioned], levels_[kZeroDim] || levels_[kNumber]
                                            ? std::optional(combine(levels_[kZeroDim], levels_[kNumber]))
                                            : std::nullopt);
}

ScalarType result_type(std::span<const Tensor* const> tensors) {
  ResultType r;
  for (const Tensor* t : tensors) {
    if (t->defined()) r.add(*t);
  }
  return r.get();
}

}  // namespace facula
