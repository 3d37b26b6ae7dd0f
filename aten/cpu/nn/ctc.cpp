// Connectionist temporal classification (Graves et al. 2006): forward and backward variables as logarithms.
#include <cmath>
#include <cstring>

#include "aten/cpu/common/bits.h"
#include "aten/cpu/common/dense.h"
#include "aten/cpu/nn/ctc_loops.h"
#include "facula/kernels.h"
#include "runtime/core/rounding.h"

namespace facula::cpu {
namespace {

// Places on the path of labels with blanks around each; rows of places are padded in front and behind.
constexpr int64_t kPad = 2;

struct Sizes {
  int64_t steps, batch, classes, width, padded;  // `padded`: the width in whole lanes
  Sizes(const Tensor& log_probs, const Tensor& targets)
      : steps(log_probs.size(0)),
        batch(log_probs.size(1)),
        classes(log_probs.size(2)),
        width(2 * targets.size(1) + 1),
        padded(round_up(width, kCtcLanes)) {}
  int64_t row() const { return padded + 2 * kPad; }
};

// Labels and lengths, checked, apart from tensors that other threads may write to.
struct Problem {
  TypedBuffer<int64_t> path, steps, ends;
  Problem(const Sizes& z, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
          int64_t blank, const char* op)
      : path(z.batch * z.width), steps(z.batch), ends(z.batch) {
    const Tensor labels = dense_as(targets, ScalarType::Int64);
    const Tensor inputs = dense_as(input_lengths, ScalarType::Int64);
    const Tensor outputs = dense_as(target_lengths, ScalarType::Int64);
    const int64_t longest = targets.size(1);
    for (int64_t n = 0; n < z.batch; ++n) {
      const int64_t in = read_once(inputs.data<int64_t>() + n), out = read_once(outputs.data<int64_t>() + n);
      FACULA_CHECK(in >= 0 && in <= z.steps, Value, Operator{op}, Argument{"input_lengths"}, " must be 0 to ", z.steps,
                   ", one is ", in);
      FACULA_CHECK(out >= 0 && out <= longest, Value, Operator{op}, Argument{"target_lengths"}, " must be 0 to ",
                   longest, ", one is ", out);
      steps.get()[n] = in;
      ends.get()[n] = 2 * out;
      int64_t* const at = path.get() + n * z.width;
      for (int64_t s = 0; s < z.width; ++s) {
        const int64_t label = s % 2 == 0 ? blank : read_once(labels.data<int64_t>() + n * longest + s / 2);
        FACULA_CHECK(label >= 0 && label < z.classes, Index, Operator{op}, Argument{"targets"}, " holds ", label,
                     ", which is no class of 0 to ", z.classes - 1);
        at[s] = label;
      }
    }
  }
};

// Room for one sequence: rows that are -inf around the places of the path.
template <typename T>
class Rows {
 public:
  Rows(const Sizes& z, int64_t count) : row_(z.row()), buffer_(row_ * count) {
    for (int64_t i = 0; i < row_ * count; ++i) buffer_.get()[i] = -T(HUGE_VAL);
  }
  T* operator[](int64_t i) { return buffer_.get() + i * row_ + kPad; }

 private:
  int64_t row_;
  TypedBuffer<T> buffer_;
};

// 0 where the place two before leads on directly, to a label that is another one; else -inf.
template <typename T>
void fill_skips(const Sizes& z, const int64_t* path, int64_t blank, T* skips) {
  for (int64_t s = 0; s < z.width; ++s) {
    skips[s] = s >= 2 && path[s] != blank && path[s] != path[s - 2] ? T(0) : -T(HUGE_VAL);
  }
}

template <typename T>
void gather(const Sizes& z, const int64_t* path, const T* scores, T* to) {
  for (int64_t s = 0; s < z.width; ++s) to[s] = scores[path[s]];
}

template <typename T>
T log_sum(T a, T b) {
  const T high = a > b ? a : b, low = a > b ? b : a;
  return high == -T(HUGE_VAL) ? high : high + std::log1p(std::exp(low - high));
}

// Steps whose logarithms add up in T.
constexpr int64_t kSteps = 32;

// The largest of n logarithms, by which they are made smaller, or 0 where it is not finite.
template <typename T>
double take_largest(int64_t n, T* x) {
  T top = -T(HUGE_VAL);
  for (int64_t i = 0; i < n; ++i) top = x[i] > top ? x[i] : top;
  if (!std::isfinite(top)) return 0;
  for (int64_t i = 0; i < n; ++i) x[i] -= top;
  return static_cast<double>(top);
}

int64_t grain(const Sizes& z) { return grain_for((z.steps + 1) * z.padded, 1 << 12); }

}  // namespace

void ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
              int64_t blank, const Tensor& out_losses, const Tensor& out_alpha) {
  const Sizes z(log_probs, targets);
  const Problem p(z, targets, input_lengths, target_lengths, blank, "ctc_loss");
  const Tensor x = dense(log_probs);
  into_dense({out_losses, out_alpha}, x.dtype(), [&](const Tensor& losses, const Tensor& alpha) {
    visit_compute(x.dtype(), [&]<typename T>(std::type_identity<T>) {
      const CtcLoops<T>& loops = ctc_loops<T>();
      parallel_for(0, z.batch, grain(z), [&](int64_t begin, int64_t end) {
        Rows<T> rows(z, 4);
        for (int64_t n = begin; n < end; ++n) {
          const int64_t* const path = p.path.get() + n * z.width;
          T *const skips = rows[0], *const scores = rows[1], *from = rows[2], *to = rows[3];
          fill_skips(z, path, blank, skips);
          T* kept = alpha.data<T>() + n * (z.steps + 1) * z.width;
          std::fill_n(from, z.width, -T(HUGE_VAL));
          from[0] = 0;        // before the first step nothing was read
          double before = 0;  // what the variables in work lack: long sums of logarithms keep their digits
          std::memcpy(kept, from, sizeof(T) * static_cast<size_t>(z.width));
          for (int64_t t = 0; t < z.steps; ++t) {
            kept += z.width;
            if (t < p.steps.get()[n]) {
              gather(z, path, x.data<T>() + (t * z.batch + n) * z.classes, scores);
              loops.step(z.padded, from, from - 1, from - 2, skips, scores, to);
              std::swap(from, to);
              if (t % kSteps == kSteps - 1) before += take_largest(z.width, from);
            }
            const T more = static_cast<T>(before);
#pragma omp simd
            for (int64_t s = 0; s < z.width; ++s) kept[s] = from[s] + more;
          }
          const int64_t last = p.ends.get()[n];
          const T all = last > 0 ? log_sum(from[last], from[last - 1]) : from[0];
          losses.data<T>()[n] = -static_cast<T>(static_cast<double>(all) + before);
        }
      });
    });
  });
}

void ctc_loss_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, const Tensor& losses, const Tensor& alpha, int64_t blank,
                       const Tensor& out) {
  const Sizes z(log_probs, targets);
  const Problem p(z, targets, input_lengths, target_lengths, blank, "ctc_loss");
  const Tensor x = dense(log_probs), g = dense_as(grad, x.dtype());
  const Tensor loss = dense_as(losses, x.dtype()), before = dense_as(alpha, x.dtype());
  into_dense(out, x.dtype(), [&](const Tensor& to) {
    if (to.nbytes() > 0) std::memset(to.raw(), 0, to.nbytes());
    visit_compute(x.dtype(), [&]<typename T>(std::type_identity<T>) {
      const CtcLoops<T>& loops = ctc_loops<T>();
      parallel_for(0, z.batch, grain(z), [&](int64_t begin, int64_t end) {
        Rows<T> rows(z, 6);
        T *const skips = rows[0], *const scores = rows[1], *const scored = rows[2], *const beta = rows[3];
        T *const forward = rows[4], *const used = rows[5];
        const TypedBuffer<T> none(z.padded);
        std::fill_n(none.get(), z.padded, T(0));
        for (int64_t n = begin; n < end; ++n) {
          const T total = loss.data<T>()[n], by = g.data<T>()[n];
          if (total == T(HUGE_VAL)) continue;  // no alignment, so nothing is used
          const int64_t* const path = p.path.get() + n * z.width;
          const int64_t last = p.ends.get()[n], steps = p.steps.get()[n];
          fill_skips(z, path, blank, skips);
          std::fill_n(beta, z.padded, -T(HUGE_VAL));
          beta[last] = 0;
          if (last > 0) beta[last - 1] = 0;
          for (int64_t t = steps - 1; t >= 0; --t) {
            const int64_t at = (t * z.batch + n) * z.classes;
            const T* const kept = before.data<T>() + (n * (z.steps + 1) + t + 1) * z.width;
            std::memcpy(forward, kept, sizeof(T) * static_cast<size_t>(z.width));
            loops.occupancy(z.padded, forward, beta, total, used);
            T* const row = to.data<T>() + at;
            for (int64_t s = 0; s < z.width; ++s) row[path[s]] -= used[s] == 0 ? T(0) : used[s] * by;
            gather(z, path, x.data<T>() + at, scores);
            for (int64_t s = 0; s < z.width; ++s) scored[s] = beta[s] + scores[s];
            loops.step(z.padded, scored, scored + 1, scored + 2, skips + 2, none.get(), beta);
          }
        }
      });
    });
  });
}

}  // namespace facula::cpu
