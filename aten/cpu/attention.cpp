// Scaled dot product attention in blocks of queries and keys, with a running softmax (Dao et al.,
// FlashAttention, 2022): memory is linear in the length.
#include <cmath>
#include <limits>

#include "aten/cpu/attention_loops.h"
#include "aten/cpu/dense.h"
#include "aten/cpu/gemm.h"
#include "aten/cpu/nn_loops.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

constexpr int64_t kQueries = 64, kKeys = 256;  // of a block

// (B, H, rows, columns) with contiguous columns.
template <typename T>
struct Heads {
  T* data;
  int64_t batch, head, row;
  T* at(int64_t b, int64_t h, int64_t r) const { return data + b * batch + h * head + r * row; }
};
template <typename T>
Heads<T> heads(const Tensor& t) {
  return {t.data<T>(), t.stride(0), t.stride(1), t.size(2) == 1 ? std::max<int64_t>(t.size(3), 1) : t.stride(2)};
}

// As it is when its columns are contiguous and of the compute type.
Tensor rows_dense(const Tensor& t) {
  const bool fits = compute_type(t.dtype()) == t.dtype() && (t.stride(3) == 1 || t.size(3) == 1) &&
                    (t.size(2) == 1 || t.stride(2) >= t.size(3));
  return fits ? t : dense_compute(t);
}

struct Problem {
  int64_t batch, heads, kv_heads, queries, keys, width, value_width;
  bool causal;
  int64_t group() const { return heads / kv_heads; }
  // Keys that the block of queries from `first` can see.
  int64_t visible(int64_t first, int64_t count) const { return causal ? std::min(keys, first + count) : keys; }
};
Problem problem_of(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  return {q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), v.size(3), causal};
}

// A mask that broadcasts to (B, H, queries, keys): true where a key counts, or a number to add.
class Mask {
 public:
  Mask(const Tensor& mask, const Problem& p) {
    if (!mask.defined()) return;
    boolean_ = mask.dtype() == ScalarType::Bool;
    held_ = boolean_ ? mask : dense_compute_strided(mask);
    const int64_t sizes[4] = {p.batch, p.heads, p.queries, p.keys};
    for (int64_t d = 0; d < 4; ++d) {
      const int64_t at = held_.dim() - 4 + d;
      strides_[d] = at < 0 || (held_.size(at) == 1 && sizes[d] != 1) ? 0 : held_.stride(at);
    }
  }
  bool present() const { return held_.defined(); }
  // Scales the scores of one block and masks them.
  template <typename T>
  void apply(int64_t b, int64_t h, int64_t q0, int64_t nq, int64_t k0, int64_t nk, T scale, T* s, int64_t ld) const {
    const int64_t base = b * strides_[0] + h * strides_[1] + k0 * strides_[3];
    for (int64_t i = 0; i < nq; ++i) {
      const int64_t row = base + (q0 + i) * strides_[2];
      T* to = s + i * ld;
      if (boolean_) {
        const bool* m = held_.data<bool>() + row;
        for (int64_t j = 0; j < nk; ++j)
          to[j] = m[j * strides_[3]] ? to[j] * scale : -std::numeric_limits<T>::infinity();
      } else {
        const T* m = held_.data<T>() + row;
        for (int64_t j = 0; j < nk; ++j) to[j] = to[j] * scale + m[j * strides_[3]];
      }
    }
  }

 private:
  static Tensor dense_compute_strided(const Tensor& t) {
    return compute_type(t.dtype()) == t.dtype() ? t : dense_compute(t);
  }
  Tensor held_;
  bool boolean_ = false;
  int64_t strides_[4] = {};
};

template <typename T>
void mask_future(int64_t q0, int64_t nq, int64_t k0, int64_t nk, T* s, int64_t ld, T value) {
  for (int64_t i = 0; i < nq; ++i) {
    const int64_t first = std::clamp<int64_t>(q0 + i + 1 - k0, 0, nk);
    std::fill(s + i * ld + first, s + i * ld + nk, value);
  }
}

// Scores of a block, scaled by *scale still to be applied (1 after a mask).
template <typename T>
void scores(const Problem& p, const Heads<const T>& q, const Heads<const T>& k, const Mask& mask, int64_t b, int64_t h,
            int64_t q0, int64_t nq, int64_t k0, int64_t nk, T* s, T* scale) {
  gemm<T>(nq, nk, p.width, T(1), {q.at(b, h, q0), q.row, 1}, {k.at(b, h / p.group(), k0), 1, k.row}, T(0),
          {s, kKeys, 1});
  if (mask.present()) {
    mask.apply(b, h, q0, nq, k0, nk, *scale, s, kKeys);
    *scale = T(1);
  }
  if (!p.causal || k0 + nk <= q0 + 1) return;
  if (*scale <= 0) {  // infinite scores must stay negative
    for (int64_t i = 0; i < nq; ++i) attention_loops<T>().scale(nk, *scale, s + i * kKeys);
    *scale = T(1);
  }
  mask_future(q0, nq, k0, nk, s, kKeys, -std::numeric_limits<T>::infinity());
}

template <typename T>
void forward(const Problem& p, const Heads<const T>& q, const Heads<const T>& k, const Heads<const T>& v,
             const Mask& mask, T scale, T* out, T* lse) {
  const AttentionLoops<T>& loops = attention_loops<T>();
  const int64_t blocks = (p.queries + kQueries - 1) / kQueries;
  parallel_for(0, p.batch * p.heads * blocks, 1, [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> scratch(kQueries * kKeys + 2 * kQueries);
    T *s = scratch.get(), *maxima = s + kQueries * kKeys, *sums = maxima + kQueries;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t q0 = item % blocks * kQueries, bh = item / blocks, b = bh / p.heads, h = bh % p.heads;
      const int64_t nq = std::min(kQueries, p.queries - q0), visible = p.visible(q0, nq);
      T* o = out + (bh * p.queries + q0) * p.value_width;
      std::fill(maxima, maxima + nq, -std::numeric_limits<T>::infinity());
      std::fill(sums, sums + nq, T(0));
      std::fill(o, o + nq * p.value_width, T(0));
      for (int64_t k0 = 0; k0 < visible; k0 += kKeys) {
        const int64_t nk = std::min(kKeys, visible - k0);
        T factor = scale;
        scores(p, q, k, mask, b, h, q0, nq, k0, nk, s, &factor);
        for (int64_t i = 0; i < nq; ++i) {
          const T shrink = loops.accumulate(nk, factor, s + i * kKeys, maxima + i, sums + i);
          if (shrink != T(1) && k0 > 0) loops.scale(p.value_width, shrink, o + i * p.value_width);
        }
        gemm<T>(nq, p.value_width, nk, T(1), {s, kKeys, 1}, {v.at(b, h / p.group(), k0), v.row, 1}, T(k0 > 0 ? 1 : 0),
                {o, p.value_width, 1});
      }
      for (int64_t i = 0; i < nq; ++i) {
        // A query that sees no key gets zeros, and a log-sum-exp that makes its weights zero.
        const bool none = sums[i] == T(0);
        loops.scale(p.value_width, none ? T(0) : T(1) / sums[i], o + i * p.value_width);
        lse[bh * p.queries + q0 + i] = none ? std::numeric_limits<T>::infinity() : maxima[i] + std::log(sums[i]);
      }
    }
  });
}

template <typename T>
void backward(const Problem& p, const Heads<const T>& q, const Heads<const T>& k, const Heads<const T>& v,
              const Heads<const T>& dy, const T* out, const T* lse, const Mask& mask, T scale, T* dq, T* dk, T* dv) {
  const AttentionLoops<T>& loops = attention_loops<T>();
  const DotLoops<T>& dots = dot_loops<T>();
  std::fill(dq, dq + p.batch * p.heads * p.queries * p.width, T(0));
  std::fill(dk, dk + p.batch * p.kv_heads * p.keys * p.width, T(0));
  std::fill(dv, dv + p.batch * p.kv_heads * p.keys * p.value_width, T(0));
  parallel_for(0, p.batch * p.kv_heads, 1, [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> scratch(2 * kQueries * kKeys + kQueries);
    T *s = scratch.get(), *dp = s + kQueries * kKeys, *delta = dp + kQueries * kKeys;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t b = item / p.kv_heads, kv = item % p.kv_heads;
      T* dk_head = dk + item * p.keys * p.width;
      T* dv_head = dv + item * p.keys * p.value_width;
      for (int64_t h = kv * p.group(); h < (kv + 1) * p.group(); ++h) {
        const int64_t bh = b * p.heads + h;
        for (int64_t q0 = 0; q0 < p.queries; q0 += kQueries) {
          const int64_t nq = std::min(kQueries, p.queries - q0), visible = p.visible(q0, nq);
          const T* o = out + (bh * p.queries + q0) * p.value_width;
          const Matrix<const T> grad{dy.at(b, h, q0), dy.row, 1}, query{q.at(b, h, q0), q.row, 1};
          for (int64_t i = 0; i < nq; ++i) {
            delta[i] = dots.dot(p.value_width, grad.data + i * grad.row, o + i * p.value_width);
          }
          for (int64_t k0 = 0; k0 < visible; k0 += kKeys) {
            const int64_t nk = std::min(kKeys, visible - k0);
            T factor = scale;
            scores(p, q, k, mask, b, h, q0, nq, k0, nk, s, &factor);
            const Matrix<const T> value{v.at(b, kv, k0), v.row, 1}, key{k.at(b, kv, k0), k.row, 1};
            gemm<T>(nq, nk, p.value_width, T(1), grad, value.t(), T(0), {dp, kKeys, 1});
            for (int64_t i = 0; i < nq; ++i) {
              loops.gradient(nk, factor, lse[bh * p.queries + q0 + i], delta[i], s + i * kKeys, dp + i * kKeys);
            }
            // Where the scores have taken the scale, it is still missing from their slopes.
            const T rest = factor == scale ? T(1) : scale;
            const Matrix<const T> weights{s, kKeys, 1}, slopes{dp, kKeys, 1};
            gemm<T>(nk, p.value_width, nq, T(1), weights.t(), grad, T(1),
                    {dv_head + k0 * p.value_width, p.value_width, 1});
            gemm<T>(nq, p.width, nk, rest, slopes, key, T(1), {dq + (bh * p.queries + q0) * p.width, p.width, 1});
            gemm<T>(nk, p.width, nq, rest, slopes.t(), query, T(1), {dk_head + k0 * p.width, p.width, 1});
          }
        }
      }
    }
  });
}

}  // namespace

void attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, bool is_causal,
               double scale, const Tensor& out, const Tensor& out_lse) {
  const Tensor q = rows_dense(query), k = rows_dense(key), v = rows_dense(value);
  const Problem p = problem_of(q, k, v, is_causal);
  if (p.batch * p.heads * p.queries == 0) return;
  into_dense(out, q.dtype(), [&](const Tensor& o) {
    visit_compute(q.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      forward<T>(p, heads<const T>(q), heads<const T>(k), heads<const T>(v), Mask(mask, p), static_cast<T>(scale),
                 o.data<T>(), out_lse.data<T>());
    });
  });
}

void attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& mask, const Tensor& output, const Tensor& logsumexp, bool is_causal, double scale,
                        const Tensor& grad_query, const Tensor& grad_key, const Tensor& grad_value) {
  const Tensor q = rows_dense(query), k = rows_dense(key), v = rows_dense(value), dy = rows_dense(grad);
  const Tensor o = dense_compute(output), lse = dense(logsumexp);
  const Problem p = problem_of(q, k, v, is_causal);
  into_dense(grad_query, q.dtype(), [&](const Tensor& dq) {
    into_dense(grad_key, q.dtype(), [&](const Tensor& dk) {
      into_dense(grad_value, q.dtype(), [&](const Tensor& dv) {
        visit_compute(q.dtype(), [&](auto type) {
          using T = typename decltype(type)::type;
          backward<T>(p, heads<const T>(q), heads<const T>(k), heads<const T>(v), heads<const T>(dy), o.data<T>(),
                      lse.data<T>(), Mask(mask, p), static_cast<T>(scale), dq.data<T>(), dk.data<T>(), dv.data<T>());
        });
      });
    });
  });
}

}  // namespace facula::cpu
