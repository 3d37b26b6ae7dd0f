// Scaled dot product attention in blocks of queries and keys, with a running softmax (Dao et al.,
// FlashAttention, 2022): memory is linear in the length.
//
// Scores are kept by key, a panel of queries wide, as keys times queries: so they leave one product
// as its result, pass the softmax in whole vectors, and enter the next as its second factor.
#include <cmath>
#include <limits>
#include <utility>

#include "aten/cpu/nn/attention_loops.h"
#include "aten/cpu/common/dense.h"
#include "aten/cpu/common/step_sums.h"
#include "aten/cpu/common/fetch_ahead.h"
#include "aten/cpu/gemm/loops.h"
#include "aten/cpu/nn/loops.h"
#include "runtime/core/rounding.h"
#include "facula/kernels.h"
#include "runtime/core/interrupt.h"

namespace facula::cpu {
namespace {

constexpr int64_t kPanels = 16;              // panels of keys in a block
constexpr int64_t kNear = int64_t{1} << 19;  // bytes of keys and values that a second-level cache takes beside others

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

bool has_rows(const Tensor& t) { return t.stride(3) == 1 || t.size(3) == 1; }

// As it is when its columns are contiguous and of the compute type, and its rows do not meet in one set of a cache.
Tensor rows_dense(const Tensor& t) {
  const int64_t apart = t.stride(2) * static_cast<int64_t>(itemsize(t.dtype()));
  const bool fits = compute_type(t.dtype()) == t.dtype() && has_rows(t) &&
                    (t.size(2) == 1 || (t.stride(2) >= t.size(3) && (apart % 4096 != 0 || t.stride(2) == t.size(3))));
  return fits ? t : dense_compute(t);
}

struct Problem {
  int64_t batch, heads, kv_heads, queries, keys, width, value_width;
  bool causal;
  int64_t group() const { return heads / kv_heads; }
  template <typename T>
  bool near() const {
    return keys * (width + value_width) * static_cast<int64_t>(sizeof(T)) <= kNear;
  }
  // Keys that the queries from `first` on can see.
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
  // Scales the scores of one block (keys, panel of queries) and masks them.
  template <typename T>
  void apply(int64_t b, int64_t h, int64_t q0, int64_t nq, int64_t k0, int64_t nk, T scale, T* s, int64_t panel) const {
    const int64_t base = b * strides_[0] + h * strides_[1] + q0 * strides_[2] + k0 * strides_[3];
    for (int64_t k = 0; k < nk; ++k) {
      T* row = s + k * panel;
      if (boolean_) {
        const bool* m = held_.data<bool>() + base + k * strides_[3];
        for (int64_t i = 0; i < nq; ++i) {
          row[i] = m[i * strides_[2]] ? row[i] * scale : -std::numeric_limits<T>::infinity();
        }
      } else {
        const T* m = held_.data<T>() + base + k * strides_[3];
        for (int64_t i = 0; i < nq; ++i) row[i] = row[i] * scale + m[i * strides_[2]];
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

// Rows (columns contiguous) as panels of a first factor: panel i holds rows [i * width, (i + 1) * width).
template <typename T>
class Panels {
 public:
  Panels(int64_t rows, int64_t depth)
      : rows_(rows), depth_(depth), width_(even_panel(rows, gemm_loops<T>().mr)), count_(ceil_div(rows, width_)) {}
  int64_t width() const { return width_; }
  int64_t count() const { return count_; }
  int64_t rows(int64_t i) const { return std::min(width_, rows_ - i * width_); }
  // Room for the last row to be written as a whole vector.
  int64_t size() const { return count_ * width_ * depth_ + 16; }
  int64_t at(int64_t i) const { return i * width_ * depth_; }
  void pack(const T* from, int64_t stride, T* to) const {
    for (int64_t i = 0; i < count_; ++i) {
      gemm_loops<T>().pack(depth_, rows(i), width_, from + i * width_ * stride, stride, 1, to + at(i));
    }
  }

 private:
  int64_t rows_, depth_, width_, count_;
};

// Scores s (keys, panel of queries; rows `pitch` apart) of the panels [i0, i1) of keys, scaled by *scale still to be
// applied (1 after a mask).
template <typename T>
struct Scores {
  const Problem& p;
  const Mask& mask;
  const Panels<T>& keys;
  int64_t pitch;

  // From keys where they lie, `row` apart.
  void compute_rows(const T* from, int64_t row, const T* packed_queries, int64_t nk, T* s, FetchAhead* ahead) const {
    const GemmLoops<T>& gemm = gemm_loops<T>();
    for (int64_t i = 0; i < nk; i += keys.width()) {
      ahead->step();
      gemm.near_tile(p.width, from + i * row, row, 1, packed_queries, gemm.nr, s + i * pitch, pitch,
                     std::min(keys.width(), nk - i), gemm.nr, false);
    }
  }
  void compute(const T* packed_keys, const T* packed_queries, int64_t i0, int64_t i1, int64_t nk, T* s,
               FetchAhead* ahead) const {
    const GemmLoops<T>& gemm = gemm_loops<T>();
    for (int64_t i = i0; i < i1; ++i) {
      ahead->step();
      const int64_t row = (i - i0) * keys.width();
      gemm.near_tile(p.width, packed_keys + keys.at(i), 1, keys.width(), packed_queries, gemm.nr, s + row * pitch,
                     pitch, std::min(keys.rows(i), nk - row), gemm.nr, false);
    }
  }
  void hide(int64_t b, int64_t h, int64_t q0, int64_t nq, int64_t k0, int64_t nk, T* s, T* scale) const {
    const int64_t nr = gemm_loops<T>().nr;
    if (mask.present()) {
      mask.apply(b, h, q0, nq, k0, nk, *scale, s, pitch);
      *scale = T(1);
    }
    if (*scale <= 0) {  // so that a maximum stays one, and hidden scores negative
      for (int64_t k = 0; k < nk; ++k) {
        for (int64_t i = 0; i < nr; ++i) s[k * pitch + i] *= *scale;
      }
      *scale = T(1);
    }
    if (!p.causal || k0 + nk <= q0 + 1) return;
    for (int64_t k = std::max<int64_t>(0, q0 + 1 - k0); k < nk; ++k) {
      const int64_t hidden = std::min(nq, k0 + k - q0);
      std::fill_n(s + k * pitch, hidden, -std::numeric_limits<T>::infinity());
    }
  }
};

// Part `i` of `parts` of a head's keys and values.
template <typename T>
void add_keys(const Problem& p, const Heads<const T>& k, const Heads<const T>& v, int64_t b, int64_t kv, int64_t i,
              int64_t parts, FetchAhead* ahead) {
  const int64_t first = i * p.keys / parts, rows = (i + 1) * p.keys / parts - first;
  ahead->add(k.at(b, kv, first), rows, p.width, k.row);
  ahead->add(v.at(b, kv, first), rows, p.value_width, v.row);
}

// Turns `count` columns of o (width, nr) into rows of the result; `apart` has room for them.
template <typename T>
void write_rows(const T* o, int64_t nr, int64_t count, int64_t width, T* to, int64_t row, T* apart) {
  T* const dense = row == width ? to : apart;
  gemm_loops<T>().pack(count, width, width, o, nr, 1, dense);
  for (int64_t i = 0; dense != to && i < count; ++i) std::copy_n(dense + i * width, width, to + i * row);
}

// Blocks of keys, or of queries, whose sums are made in T; sums over more are emptied into doubles after so many, or
// they would lose digits.
constexpr int64_t kLongSum = 64;
// Log-sums of exponentials up to this are precise enough as one number: their rounding is that of all weights of a row.
constexpr double kLargeScore = 64;

// Sums of weights and of weighted values go to `wide`, what was there being multiplied by `since`; they begin anew.
template <typename T>
void put_by(int64_t width, int64_t nr, T* o, T* sums, T* since, double* wide) {
  const auto put = [&](T* row, double* to) {
    for (int64_t i = 0; i < nr; ++i) to[i] = to[i] * static_cast<double>(since[i]) + static_cast<double>(row[i]);
    std::fill_n(row, nr, T(0));
  };
  put(sums, wide);
  for (int64_t e = 0; e < width; ++e) put(o + e * nr, wide + (1 + e) * nr);
  std::fill_n(since, nr, T(1));
}

template <typename T>
void forward(const Problem& p, const Heads<const T>& q, const Heads<const T>& k, const Heads<const T>& v,
             const Mask& mask, T scale, const Heads<T>& out, T* lse) {
  const AttentionLoops<T>& loops = attention_loops<T>();
  const GemmLoops<T>& gemm = gemm_loops<T>();
  const int64_t nr = gemm.nr, blocks = ceil_div(p.queries, nr);
  const Panels<T> keys(p.keys, p.width);
  const Scores<T> scores{p, mask, keys, nr};
  const int64_t block = kPanels * keys.width(), rise = even_panel(p.value_width, gemm.mr);
  const int64_t work = std::max<int64_t>(1, nr * p.keys * (p.width + p.value_width));
  // The next head's first queries, and part `i` of its keys and values.
  const auto add_next = [&](int64_t bh, int64_t i, FetchAhead* ahead) {
    const int64_t b = bh / p.heads, h = bh % p.heads;
    if (i + 1 == blocks) ahead->add(q.at(b, h, 0), std::min(nr, p.queries), p.width, q.row);
    if (h % p.group() == 0 && p.near<T>()) add_keys(p, k, v, b, h / p.group(), i, blocks, ahead);
  };
  parallel_for(0, p.batch * p.heads * blocks, std::max<int64_t>(1, (1 << 21) / work), [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> buffer(nr * (block + p.width + 2 * p.value_width + 4) + 16);
    const TypedBuffer<double> wide(p.keys > kLongSum * block ? nr * (1 + p.value_width) : 0);
    T *s = buffer.get(), *o = s + nr * block, *panel = o + nr * p.value_width, *maxima = panel + nr * p.width + 16;
    T *sums = maxima + nr, *shrink = sums + nr, *since = shrink + nr, *apart = since + nr;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t q0 = item % blocks * nr, bh = item / blocks, b = bh / p.heads, h = bh % p.heads;
      const int64_t kv = h / p.group(), nq = std::min(nr, p.queries - q0), visible = p.visible(q0, nq);
      gemm.pack(p.width, nq, nr, q.at(b, h, q0), q.row, 1, panel);
      std::fill_n(maxima, nr, -std::numeric_limits<T>::infinity());
      std::fill_n(sums, nr, T(0));
      if (visible > kLongSum * block) {
        std::fill_n(since, nr, T(1));
        std::fill_n(wide.get(), nr * (1 + p.value_width), 0.0);
      }
      FetchAhead ahead;
      ahead.add(out.at(b, h, q0), nq, p.value_width, out.row, true);
      if (q0 + nr < p.queries) ahead.add(q.at(b, h, q0 + nr), std::min(nr, p.queries - q0 - nr), p.width, q.row);
      if ((bh + 1) * blocks < end) add_next(bh + 1, item % blocks, &ahead);
      ahead.spread(ceil_div(visible, keys.width()));
      T factor = scale;
      for (int64_t k0 = 0; k0 < visible; k0 += block) {
        count_step(16);
        const int64_t nk = std::min(block, visible - k0);
        factor = scale;
        scores.compute_rows(k.at(b, kv, k0), k.row, panel, nk, s, &ahead);
        scores.hide(b, h, q0, nq, k0, nk, s, &factor);
        if (k0 > 0 && k0 / block % kLongSum == 0) put_by(p.value_width, nr, o, sums, since, wide.get());
        loops.accumulate(nk, factor, s, maxima, sums, shrink);
        if (k0 > 0) loops.scale(p.value_width, shrink, o);
        if (k0 >= kLongSum * block) {
          for (int64_t i = 0; i < nr; ++i) since[i] *= shrink[i];
        }
        for (int64_t e = 0; e < p.value_width; e += rise) {
          gemm.near_tile(nk, v.at(b, kv, k0) + e, 1, v.row, s, nr, o + e * nr, nr, std::min(rise, p.value_width - e),
                         nr, k0 > 0);
        }
      }
      if (visible == 0) std::fill_n(o, nr * p.value_width, T(0));
      if (visible > kLongSum * block) {
        put_by(p.value_width, nr, o, sums, since, wide.get());
        for (int64_t i = 0; i < nr * p.value_width; ++i) o[i] = static_cast<T>(wide.get()[nr + i]);
        for (int64_t i = 0; i < nr; ++i) sums[i] = static_cast<T>(wide.get()[i]);
      }
      for (int64_t i = 0; i < nr; ++i) {
        // A query that sees no key gets zeros, and a log-sum-exp that makes its weights zero.
        const bool none = sums[i] == T(0);
        shrink[i] = none ? T(0) : T(1) / sums[i];
        if (i < nq) {
          lse[bh * p.queries + q0 + i] =
              none ? std::numeric_limits<T>::infinity() : maxima[i] * factor + std::log(sums[i]);
        }
      }
      loops.scale(p.value_width, shrink, o);
      write_rows(o, nr, nq, p.value_width, out.at(b, h, q0), out.row, apart);
    }
  });
}

template <typename T>
void backward(const Problem& p, const Heads<const T>& q, const Heads<const T>& k, const Heads<const T>& v,
              const Heads<const T>& dy, const Heads<const T>& out, const T* lse, const Mask& mask, T scale,
              const Heads<T>& dq, const Heads<T>& dk, const Heads<T>& dv) {
  const AttentionLoops<T>& loops = attention_loops<T>();
  const DotLoops<T>& dots = dot_loops<T>();
  const GemmLoops<T>& gemm = gemm_loops<T>();
  constexpr int64_t kTwo = 2;  // panels of queries that are taken together
  const int64_t nr = gemm.nr, span = kTwo * nr;
  const Panels<T> keys(p.keys, p.width), values(p.keys, p.value_width);
  const Scores<T> scores{p, mask, keys, span}, alone{p, mask, keys, nr};
  const int64_t mr = keys.width(), block = kPanels * mr, rise = even_panel(p.width, gemm.mr);
  const auto padded = [nr](int64_t n) { return round_up(n, nr); };
  const int64_t wide = padded(p.width), wide_value = padded(p.value_width), spans = ceil_div(p.queries, span);
  parallel_for(0, p.batch * p.kv_heads, 1, [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> packed(keys.size() + values.size());
    const TypedBuffer<T> buffer(span * (2 * block + 2 * p.width + p.value_width + wide + wide_value + 5) + 128);
    T *pk = packed.get(), *pv = pk + keys.size();
    T* free = buffer.get();
    const auto take = [&](int64_t n) { return std::exchange(free, free + n); };
    T *s = take(span * block), *dp = take(span * block);  // by key, then by query
    T *columns_q = take(span * p.width + 16), *columns_g = take(span * p.value_width + 16);
    T *rows_q = take(span * wide), *rows_g = take(span * wide_value);
    T *slopes = take(span * p.width), *delta = take(span), *base = take(span), *shift = take(span);
    T *sums = take(nr), *shrink = take(nr);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t b = item / p.kv_heads, kv = item % p.kv_heads;
      for (int64_t i = 0; i < p.keys; ++i) {
        std::fill_n(dk.at(b, kv, i), p.width, T(0));
        std::fill_n(dv.at(b, kv, i), p.value_width, T(0));
      }
      StepSums<T> dk_sums(dk.at(b, kv, 0), p.keys, p.width, dk.row);
      StepSums<T> dv_sums(dv.at(b, kv, 0), p.keys, p.value_width, dv.row);
      keys.pack(k.at(b, kv, 0), k.row, pk);
      values.pack(v.at(b, kv, 0), v.row, pv);
      for (int64_t h = kv * p.group(); h < (kv + 1) * p.group(); ++h) {
        const int64_t bh = b * p.heads + h;
        for (int64_t q0 = 0; q0 < p.queries; q0 += span) {
          const int64_t count = std::min(span, p.queries - q0), panels = ceil_div(count, nr);
          const int64_t visible = p.visible(q0, count);
          FetchAhead ahead;
          ahead.add(dq.at(b, h, q0), count, p.width, dq.row, true);
          if (const int64_t q1 = q0 + span, after = std::min(span, p.queries - q1); after > 0) {
            ahead.add(q.at(b, h, q1), after, p.width, q.row);
            ahead.add(dy.at(b, h, q1), after, p.value_width, dy.row);
            ahead.add(out.at(b, h, q1), after, p.value_width, out.row);
          }
          if (h + 1 == (kv + 1) * p.group() && item + 1 < end && p.near<T>()) {
            add_keys(p, k, v, (item + 1) / p.kv_heads, (item + 1) % p.kv_heads, q0 / span, spans, &ahead);
          }
          ahead.spread(panels * ceil_div(visible, mr));
          dk_sums.step();
          dv_sums.step();
          StepSums<T> slope_sums(slopes, 1, span * p.width, span * p.width);
          // Keys from k0 on, of `nk`, that the queries of panel j see, in whole panels of keys.
          const auto seen_of = [&](int64_t j, int64_t k0, int64_t nk) {
            const int64_t last = p.visible(q0 + j * nr, std::min(nr, count - j * nr)) - k0;
            return std::clamp<int64_t>(round_up(last, mr), 0, nk);
          };
          // The largest score of each query and the logarithm of its sum, which their one number cannot hold to the
          // digits that weights need.
          const auto find_again = [&](int64_t j) {
            T *top = base + j * nr, factor = scale;
            FetchAhead none;
            std::fill_n(top, nr, -std::numeric_limits<T>::infinity());
            std::fill_n(sums, nr, T(0));
            for (int64_t k0 = 0; k0 < visible; k0 += block) {
              count_step(16);
              const int64_t nk = seen_of(j, k0, std::min(block, visible - k0)), i0 = k0 / mr, first = q0 + j * nr;
              if (nk == 0) break;
              factor = scale;
              alone.compute(pk, columns_q + j * nr * p.width, i0, i0 + ceil_div(nk, mr), nk, s, &none);
              alone.hide(b, h, first, std::min(nr, p.queries - first), k0, nk, s, &factor);
              loops.accumulate(nk, factor, s, top, sums, shrink);
            }
            for (int64_t i = 0; i < nr; ++i) {
              const bool hidden = sums[i] == T(0);
              if (hidden) top[i] = T(0);
              shift[j * nr + i] = hidden ? std::numeric_limits<T>::infinity() : std::log(sums[i]);
            }
          };
          for (int64_t j = 0; j < panels; ++j) {
            const int64_t first = q0 + j * nr, nq = std::min(nr, p.queries - first);
            gemm.pack(p.width, nq, nr, q.at(b, h, first), q.row, 1, columns_q + j * nr * p.width);
            gemm.pack(p.value_width, nq, nr, dy.at(b, h, first), dy.row, 1, columns_g + j * nr * p.value_width);
            bool large = false;
            for (int64_t i = 0; i < nr; ++i) {
              const int64_t at = bh * p.queries + first + i;
              base[j * nr + i] = T(0);
              shift[j * nr + i] = i < nq ? lse[at] : std::numeric_limits<T>::infinity();
              large |= std::isfinite(shift[j * nr + i]) && std::fabs(shift[j * nr + i]) > T(kLargeScore);
              delta[j * nr + i] =
                  i < nq ? dots.dot(p.value_width, dy.at(b, h, first + i), out.at(b, h, first + i)) : T(0);
            }
            if (large) find_again(j);
          }
          for (int64_t e = 0; e < p.width; e += nr) {
            gemm.pack(count, std::min(nr, p.width - e), nr, q.at(b, h, q0) + e, 1, q.row, rows_q + e * span);
          }
          for (int64_t e = 0; e < p.value_width; e += nr) {
            gemm.pack(count, std::min(nr, p.value_width - e), nr, dy.at(b, h, q0) + e, 1, dy.row, rows_g + e * span);
          }
          for (int64_t k0 = 0; k0 < visible; k0 += block) {
            count_step(16);
            const bool more = slope_sums.step();
            const int64_t nk = std::min(block, visible - k0), i0 = k0 / mr, i1 = i0 + ceil_div(nk, mr);
            const auto seen = [&](int64_t j) { return seen_of(j, k0, nk); };
            for (int64_t j = 0; j < panels; ++j) {
              T *sj = s + j * nr, *dpj = dp + j * nr;
              const int64_t first = q0 + j * nr, nq = std::min(nr, p.queries - first), nkj = seen(j);
              if (nkj == 0) continue;
              const int64_t end = i0 + ceil_div(nkj, mr);
              T factor = scale;
              scores.compute(pk, columns_q + j * nr * p.width, i0, end, nkj, sj, &ahead);
              scores.hide(b, h, first, nq, k0, nkj, sj, &factor);
              for (int64_t i = i0; i < end; ++i) {
                const int64_t row = (i - i0) * mr;
                gemm.near_tile(p.value_width, pv + values.at(i), 1, mr, columns_g + j * nr * p.value_width, nr,
                               dpj + row * span, span, std::min(keys.rows(i), nkj - row), nr, false);
              }
              loops.gradient(nkj, span, factor, base + j * nr, shift + j * nr, delta + j * nr, sj, dpj);
              if (factor != scale) {  // the scores had taken the scale, their slopes lack it
                for (int64_t k = 0; k < nkj; ++k) {
                  for (int64_t i = 0; i < nr; ++i) dpj[k * span + i] *= scale;
                }
              }
              for (int64_t e = 0; e < p.width; e += rise) {
                gemm.near_tile(nkj, k.at(b, kv, k0) + e, 1, k.row, dpj, span, slopes + (j * p.width + e) * nr, nr,
                               std::min(rise, p.width - e), nr, more);
              }
            }
            for (int64_t i = i0; i < i1; ++i) {
              const int64_t row = (i - i0) * mr, rows = std::min(keys.rows(i), nk - row);
              int64_t from = 0;  // the first panel of queries that sees these keys
              while (from < panels && seen(from) <= row) ++from;
              const int64_t depth = count - from * nr;
              const int64_t first = row * span + from * nr;
              T *dv_rows = dv.at(b, kv, k0 + row), *dk_rows = dk.at(b, kv, k0 + row);
              for (int64_t e = 0; e < p.value_width; e += nr) {
                gemm.near_tile(depth, s + first, span, 1, rows_g + e * span + from * nr * nr, nr, dv_rows + e, dv.row,
                               rows, std::min(nr, p.value_width - e), true);
              }
              for (int64_t e = 0; e < p.width; e += nr) {
                gemm.near_tile(depth, dp + first, span, 1, rows_q + e * span + from * nr * nr, nr, dk_rows + e, dk.row,
                               rows, std::min(nr, p.width - e), true);
              }
            }
          }
          slope_sums.finish();
          for (int64_t j = 0; j < panels; ++j) {
            const int64_t nq = std::min(nr, count - j * nr);
            T* const to = dq.at(b, h, q0 + j * nr);
            if (visible == 0) {
              for (int64_t i = 0; i < nq; ++i) std::fill_n(to + i * dq.row, p.width, T(0));
            } else {
              write_rows(slopes + j * p.width * nr, nr, nq, p.width, to, dq.row, columns_q);
            }
          }
        }
      }
      dk_sums.finish();
      dv_sums.finish();
    }
  });
}

}  // namespace

void attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, bool is_causal,
               double scale, const Tensor& out, const Tensor& out_lse) {
  const Tensor q = rows_dense(query), k = rows_dense(key), v = rows_dense(value);
  const Problem p = problem_of(q, k, v, is_causal);
  if (p.batch * p.heads * p.queries == 0) return;
  into_serving({out}, q.dtype(), has_rows, [&](const Tensor& o) {
    visit_compute(q.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      forward<T>(p, heads<const T>(q), heads<const T>(k), heads<const T>(v), Mask(mask, p), static_cast<T>(scale),
                 heads<T>(o), out_lse.data<T>());
    });
  });
}

void attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& mask, const Tensor& output, const Tensor& logsumexp, bool is_causal, double scale,
                        const Tensor& grad_query, const Tensor& grad_key, const Tensor& grad_value) {
  const Tensor q = rows_dense(query), k = rows_dense(key), v = rows_dense(value), dy = rows_dense(grad);
  const Tensor o = rows_dense(output), lse = dense_as(logsumexp, q.dtype());
  const Problem p = problem_of(q, k, v, is_causal);
  into_serving({grad_query, grad_key, grad_value}, q.dtype(), has_rows,
               [&](const Tensor& dq, const Tensor& dk, const Tensor& dv) {
                 visit_compute(q.dtype(), [&](auto type) {
                   using T = typename decltype(type)::type;
                   backward<T>(p, heads<const T>(q), heads<const T>(k), heads<const T>(v), heads<const T>(dy),
                               heads<const T>(o), lse.data<T>(), Mask(mask, p), static_cast<T>(scale), heads<T>(dq),
                               heads<T>(dk), heads<T>(dv));
                 });
               });
}

}  // namespace facula::cpu
