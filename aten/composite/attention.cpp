// Scaled dot product attention: the blocked kernel where it fits, else matmul and softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "facula/kernels.h"
#include "facula/ops.h"
#include "runtime/core/thread_state.h"

namespace facula::composite {
namespace {

constexpr const char* kName = "scaled_dot_product_attention";

// How many heads of the query share one of the key; also where there are none.
int64_t heads_of_each(const Tensor& query, const Tensor& key) {
  return query.size(-3) / std::max<int64_t>(key.size(-3), 1);
}

// Heads of key and value, each for `times` heads of the query in a row.
Tensor repeat_heads(const Tensor& t, int64_t times) {
  if (times == 1) return t;
  DimVector wide(t.sizes()), flat(t.sizes());
  const auto at = t.dim() - 3;
  wide.insert(wide.begin() + at + 1, times);
  flat[static_cast<size_t>(at)] *= times;
  return ops::reshape(ops::expand(ops::unsqueeze(t, at + 1), wide), flat);
}

// Sums the heads again that repeat_heads made of `heads`; without any there is nothing to divide.
Tensor sum_heads(const Tensor& t, int64_t heads, int64_t times) {
  if (times == 1) return t;
  DimVector split(t.sizes());
  const auto at = t.dim() - 3;
  split[static_cast<size_t>(at)] = heads;
  split.insert(split.begin() + at + 1, times);
  return ops::sum(ops::reshape(t, split), IntList{at + 1}, false);
}

Tensor number_like(const Tensor& t, double value) { return ops::full(IntList{}, value, t.dtype(), t.device()); }
Tensor lowest_like(const Tensor& t) { return number_like(t, -std::numeric_limits<double>::infinity()); }

// Scaled and masked scores.
Tensor scores(const Tensor& query, const Tensor& key, const Tensor& mask, bool is_causal, double scale) {
  Tensor s = ops::mul(ops::matmul(query, ops::transpose(key, -2, -1)), wrapped_number(scale));
  if (is_causal) {
    const Tensor ones = ops::full(IntList{s.size(-2), s.size(-1)}, true, ScalarType::Bool, s.device());
    s = ops::where(ops::tril(ones), s, lowest_like(s));
  }
  if (mask.defined()) {
    s = mask.dtype() == ScalarType::Bool ? ops::where(mask, s, lowest_like(s)) : ops::add(s, mask);
  }
  return s;
}

// Their softmax; rows that see no key, which only a mask makes, are zero, and so are their gradients.
Tensor weights(const Tensor& s, const Tensor& mask) {
  if (!mask.defined()) return ops::softmax(s, -1);
  const Tensor blind = ops::all(ops::eq(s, lowest_like(s)), IntList{-1}, true), zero = number_like(s, 0.0);
  return ops::where(blind, zero, ops::softmax(ops::where(blind, zero, s), -1));
}

void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool is_causal, bool enable_gqa) {
  FACULA_CHECK(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2, Shape, Operator{kName},
               "query, key and value must have at ", "least 2 dims, got ", shape_string(q.sizes()), ", ",
               shape_string(k.sizes()), ", ", shape_string(v.sizes()));
  FACULA_CHECK(q.is_floating_point() && q.dtype() == k.dtype() && q.dtype() == v.dtype(), Dtype, Operator{kName},
               "query, key and value must have one floating-point dtype, got ", dtype_name(q.dtype()), ", ",
               dtype_name(k.dtype()), ", ", dtype_name(v.dtype()));
  FACULA_CHECK(q.size(-1) == k.size(-1), Shape, Operator{kName}, "query ", shape_string(q.sizes()), " and key ",
               shape_string(k.sizes()), " must have the same last size");
  FACULA_CHECK(k.size(-2) == v.size(-2), Shape, Operator{kName}, "key ", shape_string(k.sizes()), " and value ",
               shape_string(v.sizes()), " must have the same length (second to last size)");
  FACULA_CHECK(!(mask.defined() && is_causal), Runtime, Operator{kName}, "pass attn_mask or is_causal=True, not both");
  FACULA_CHECK(!mask.defined() || mask.dtype() == ScalarType::Bool || mask.dtype() == q.dtype(), Dtype, Operator{kName},
               Argument{"attn_mask"}, " must be bool or ", dtype_name(q.dtype()), " like query, it is ",
               mask.defined() ? dtype_name(mask.dtype()) : std::string_view());
  if (enable_gqa) {
    FACULA_CHECK(q.dim() >= 3 && k.dim() >= 3 && v.dim() >= 3 && k.size(-3) > 0 && q.size(-3) % k.size(-3) == 0 &&
                     k.size(-3) == v.size(-3),
                 Shape, Operator{kName}, "with enable_gqa the heads of query, key and value (third to last size) must ",
                 "agree but for a whole factor, got ", shape_string(q.sizes()), ", ", shape_string(k.sizes()), ", ",
                 shape_string(v.sizes()));
  }
}

bool broadcasts_to(IntList from, IntList to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 1; i <= from.size(); ++i) {
    const int64_t have = from[from.size() - i];
    if (have != 1 && have != to[to.size() - i]) return false;
  }
  return true;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, bool enable_gqa) {
  check(query, key, value, attn_mask, is_causal, enable_gqa);
  FACULA_CHECK(dropout_p >= 0 && dropout_p <= 1, Value, Operator{kName}, Argument{"dropout_p"},
               " must be in [0, 1], not ", dropout_p);
  const int64_t features = std::max<int64_t>(1, query.size(-1));  // without features all scores are 0, not 0 * inf
  const double factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(features)));
  const int64_t n = query.dim();
  const bool same = key.dim() == n && value.dim() == n && (n == 3 || n == 4) &&
                    (n == 3 || (key.size(0) == query.size(0) && value.size(0) == query.size(0))) &&
                    (enable_gqa || key.size(-3) == query.size(-3)) && value.size(-3) == key.size(-3);
  const bool mask_fits =
      same && (!attn_mask.defined() ||
               (!needs_grad(attn_mask) && (n == 4 || attn_mask.dim() <= 3) &&
                broadcasts_to(attn_mask.sizes(),
                              DimVector{n == 4 ? query.size(0) : 1, query.size(-3), query.size(-2), key.size(-2)})));
  if (mask_fits && dropout_p == 0 && query.size(-1) > 0 && value.size(-1) > 0) {
    const auto four = [n](const Tensor& t) { return n == 4 ? t : ops::unsqueeze(t, 0); };
    const Tensor out = std::get<0>(ops::attention(four(query), four(key), four(value), attn_mask, is_causal, factor));
    return n == 4 ? out : ops::squeeze_dim(out, 0);
  }
  Tensor k = key, v = value;
  if (enable_gqa) {
    const int64_t times = heads_of_each(query, key);
    k = repeat_heads(key, times);
    v = repeat_heads(value, times);
  }
  Tensor p = weights(scores(query, k, attn_mask, is_causal, factor), attn_mask);
  if (dropout_p > 0) p = ops::dropout(p, dropout_p, true);
  return ops::matmul(p, v);
}

std::tuple<Tensor, Tensor> attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                     bool is_causal, double scale) {
  const int64_t times = heads_of_each(query, key);
  const Tensor s = scores(query, repeat_heads(key, times), mask, is_causal, scale);
  const Tensor out = ops::matmul(weights(s, mask), repeat_heads(value, times));
  const Tensor lse = ops::logsumexp(s, IntList{-1}, false);
  const Tensor none = number_like(lse, std::numeric_limits<double>::infinity());
  return {out, ops::where(ops::eq(lse, lowest_like(lse)), none, lse)};
}

std::tuple<Tensor, Tensor, Tensor> attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                                      const Tensor& value, const Tensor& mask, const Tensor&,
                                                      const Tensor&, bool is_causal, double scale) {
  const int64_t times = heads_of_each(query, key);
  const Tensor k = repeat_heads(key, times), v = repeat_heads(value, times);
  const Tensor p = weights(scores(query, k, mask, is_causal, scale), mask);
  const Tensor dv = ops::matmul(ops::transpose(p, -2, -1), grad);
  const Tensor dp = ops::matmul(grad, ops::transpose(v, -2, -1));
  const Tensor inner = ops::sum(ops::mul(p, dp), IntList{-1}, true);
  const Tensor ds = ops::mul(ops::mul(p, ops::sub(dp, inner)), wrapped_number(scale));
  const int64_t heads = key.size(-3);
  return {ops::matmul(ds, k), sum_heads(ops::matmul(ops::transpose(ds, -2, -1), query), heads, times),
          sum_heads(dv, heads, times)};
}

}  // namespace facula::composite
