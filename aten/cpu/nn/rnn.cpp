// Recurrent layers over a whole sequence. The weights are packed once; each thread takes sequences of
// its own through all steps, so that nothing waits between steps.
#include <algorithm>
#include <cstring>

#include "aten/cpu/common/dense.h"
#include "aten/cpu/common/step_sums.h"
#include "aten/cpu/gemm/gemm.h"
#include "aten/cpu/gemm/loops.h"
#include "aten/cpu/nn/rnn_loops.h"
#include "aten/recurrent.h"
#include "facula/kernels.h"
#include "runtime/core/rounding.h"
#include "runtime/core/interrupt.h"

namespace facula::cpu {
namespace {

// A matrix (depth, cols) in panels for the products of every step.
template <typename T>
class PackedFactor {
 public:
  PackedFactor(int64_t depth, int64_t cols, Matrix<const T> b)
      : loops_(gemm_loops<T>()),
        depth_(depth),
        cols_(cols),
        panels_(ceil_div(cols, loops_.nr)),
        data_(depth * panels_ * loops_.nr) {
    const int64_t nr = loops_.nr;
    for (int64_t p = 0; p < depth; p += kPanelDepth) {
      const int64_t np = std::min(kPanelDepth, depth - p);
      parallel_for(0, panels_, std::max<int64_t>(1, 32768 / (np * nr)), [&](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) {
          const T* from = b.data + p * b.row + j * nr * b.col;
          loops_.pack(np, std::min(nr, cols - j * nr), nr, from, b.col, b.row, panel(p, np, j));
        }
      });
    }
  }

  // C (rows, cols) = or += A (rows, depth) B; rows of A and C are `lda` and `ldc` apart.
  void multiply(int64_t rows, const T* a, int64_t lda, T* c, int64_t ldc, bool accumulate) const {
    const int64_t nr = loops_.nr, mr = even_panel(rows, loops_.mr);
    for (int64_t i = 0; i < rows; i += mr) {
      const int64_t ni = std::min(mr, rows - i);
      for (int64_t p = 0; p < depth_; p += kPanelDepth) {
        const int64_t np = std::min(kPanelDepth, depth_ - p);
        for (int64_t j = 0; j < panels_; ++j) {
          loops_.strided_tile(np, a + i * lda + p, lda, 1, panel(p, np, j), nr, c + i * ldc + j * nr, ldc, ni,
                              std::min(nr, cols_ - j * nr), accumulate || p > 0);
        }
      }
    }
  }

 private:
  T* panel(int64_t p, int64_t np, int64_t j) const { return data_.get() + (p * panels_ + j * np) * loops_.nr; }

  const GemmLoops<T>& loops_;
  int64_t depth_, cols_, panels_;
  TypedBuffer<T> data_;
};

// fn(first, last) over pieces of the batch, one for each thread that pays.
template <typename F>
void over_sequences(const RecurrentSteps& steps, int64_t work_of_row, const F& fn) {
  const int64_t batch = steps.batch(), threads = get_num_threads();
  const int64_t least = grain_for(work_of_row * steps.count(), 1 << 20);
  parallel_for(0, batch, std::max(least, ceil_div(batch, threads)), fn);
}

// How many of the sequences [first, last) run at time t.
int64_t running(const RecurrentSteps& steps, int64_t t, int64_t first, int64_t last) {
  return std::min(last, steps.size(t)) - first;
}

// The state before each row of the layer, (rows, n).
template <typename T>
void previous_states(const RecurrentSteps& steps, int64_t n, const T* initial, const T* states, T* out) {
  const auto bytes = static_cast<size_t>(n) * sizeof(T);
  for (int64_t t = 0; t < steps.count(); ++t) {
    for (int64_t r = 0; r < steps.size(t); ++r) {
      const int64_t at = steps.previous(t, r);
      std::memcpy(out + (steps.start(t) + r) * n, at < 0 ? initial + r * n : states + at * n, bytes);
    }
  }
}

// grad_weight (gates, n) = gradients of the gates, transposed, times the states before.
template <typename T>
void weight_gradient(const RecurrentSteps& steps, int64_t gates, const T* grad_gates, const Tensor& hx,
                     const Tensor& output, const Tensor& grad_weight) {
  const int64_t n = hx.size(1), rows = steps.rows(), batch = steps.batch(), later = rows - batch;
  into_dense(grad_weight, dtype_of_v<T>, [&](const Tensor& w) {
    const auto add = [&](int64_t count, int64_t row, const T* before, T beta) {
      gemm<T>(gates, n, count, T(1), {grad_gates + row * gates, 1, gates}, {before, n, 1}, beta, {w.data<T>(), n, 1});
    };
    if (later == batch * (steps.count() - 1)) {  // of one length: the states before are the outputs, moved by a step
      const bool reverse = steps.time(0) != 0;
      if (later > 0) add(later, reverse ? 0 : batch, output.data<T>() + (reverse ? batch * n : 0), T(0));
      add(batch, reverse ? later : 0, hx.data<T>(), T(later > 0 ? 1 : 0));
      return;
    }
    const TypedBuffer<T> before(rows * n);
    previous_states(steps, n, hx.data<T>(), output.data<T>(), before.get());
    add(rows, 0, before.get(), T(0));
  });
}

template <typename T>
Matrix<const T> matrix_of(const Tensor& t) {
  return {static_cast<const T*>(t.raw()), t.stride(0), t.stride(1)};
}

// Runs all steps from the states `h`; `row(out row, sequence, share of the state)` is what a cell does
// to one row.
template <typename T, typename Row>
void run_forward(const RecurrentSteps& steps, const Tensor& weight, const T* h, const Row& row) {
  const int64_t gates = weight.size(0), n = weight.size(1);
  const Matrix<const T> w = matrix_of<T>(weight);
  if (steps.count() == 1) {  // packing would not pay
    const int64_t batch = steps.batch();
    const TypedBuffer<T> shares(batch * gates);
    gemm<T>(batch, gates, n, T(1), {h, n, 1}, w.t(), T(0), {shares.get(), gates, 1});
    parallel_for(0, batch, grain_for(8 * gates), [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) row(r, r, shares.get() + r * gates);
    });
    return;
  }
  const PackedFactor<T> factor(n, gates, w.t());
  over_sequences(steps, n * gates, [&](int64_t first, int64_t last) {
    const TypedBuffer<T> shares((last - first) * gates);
    for (int64_t k = 0; k < steps.count(); ++k) {
      const int64_t t = steps.time(k), count = running(steps, t, first, last);
      if (count <= 0) continue;
      check_interrupt();
      factor.multiply(count, h + first * n, n, shares.get(), gates, false);
      for (int64_t r = 0; r < count; ++r) row(steps.start(t) + first + r, first + r, shares.get() + r * gates);
    }
  });
}

// Backwards through the steps; `row(out row, sequence, row of the state before or -1)` leaves the
// gradient of the gates in `dgates`, from which that of the state before follows; with `accumulate` it
// is added to what `row` left in `dh`.
template <typename T, typename Row>
void run_back(const RecurrentSteps& steps, const Tensor& weight, const T* dgates, T* dh, bool accumulate,
              const Row& row) {
  const int64_t gates = weight.size(0), n = weight.size(1);
  const Matrix<const T> w = matrix_of<T>(weight);
  if (steps.count() == 1) {
    const int64_t batch = steps.batch();
    parallel_for(0, batch, grain_for(8 * gates), [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) row(r, r, int64_t{-1});
    });
    gemm<T>(batch, n, gates, T(1), {dgates, gates, 1}, w, T(accumulate ? 1 : 0), {dh, n, 1});
    return;
  }
  const PackedFactor<T> factor(gates, n, w);
  over_sequences(steps, n * gates, [&](int64_t first, int64_t last) {
    for (int64_t k = steps.count() - 1; k >= 0; --k) {
      const int64_t t = steps.time(k), count = running(steps, t, first, last);
      if (count <= 0) continue;
      check_interrupt();
      for (int64_t r = 0; r < count; ++r) row(steps.start(t) + first + r, first + r, steps.previous(t, first + r));
      factor.multiply(count, dgates + (steps.start(t) + first) * gates, gates, dh + first * n, n, accumulate);
    }
  });
}

}  // namespace

void lstm_layer(const Tensor& gates, const Tensor& hx, const Tensor& cx, const Tensor& weight, IntList batch_sizes,
                bool reverse, const Tensor& output, const Tensor& hy, const Tensor& cy, const Tensor& activations,
                const Tensor& cells) {
  if (hx.size(1) == 0) return;  // no state: nothing to compute
  const ScalarType type = compute_type(gates.dtype());
  const RecurrentSteps steps(batch_sizes, reverse);
  const int64_t n = hx.size(1);
  const Tensor x = dense_as(gates, type), w = dense_as(weight, type);
  into_dense({output, hy, cy, activations, cells}, type,
             [&](const Tensor& out, const Tensor& h, const Tensor& c, const Tensor& act, const Tensor& cell) {
               copy_strided(h, hx);
               copy_strided(c, cx);
               visit_compute(type, [&](auto tag) {
                 using T = typename decltype(tag)::type;
                 const RnnLoops<T>& loops = rnn_loops<T>();
                 T *ph = h.data<T>(), *pc = c.data<T>(), *pout = out.data<T>(), *pcell = cell.data<T>();
                 run_forward(steps, w, ph, [&](int64_t at, int64_t r, const T* share) {
                   loops.lstm(n, x.data<T>() + at * 4 * n, share, act.data<T>() + at * 4 * n, pc + r * n,
                              pcell + at * n, ph + r * n, pout + at * n);
                 });
               });
             });
}

void lstm_layer_backward(const Tensor& grad_output, const Tensor& grad_hy, const Tensor& grad_cy, const Tensor& gates,
                         const Tensor& hx, const Tensor& cx, const Tensor& weight, const Tensor& output,
                         const Tensor& activations, const Tensor& cells, IntList batch_sizes, bool reverse,
                         const std::vector<bool>& mask, const Tensor& grad_gates, const Tensor& grad_hx,
                         const Tensor& grad_cx, const Tensor& grad_weight) {
  if (hx.size(1) == 0) return;  // no state: nothing to compute
  const ScalarType type = compute_type(gates.dtype());
  const RecurrentSteps steps(batch_sizes, reverse);
  const int64_t n = hx.size(1);
  const Tensor dout = dense_as(grad_output, type), h0 = dense_as(hx, type), c0 = dense_as(cx, type);
  const Tensor w = dense_as(weight, type), out = dense_as(output, type), act = dense_as(activations, type);
  const Tensor cell = dense_as(cells, type);
  into_dense({grad_gates, grad_hx, grad_cx}, type, [&](const Tensor& dgates, const Tensor& dh, const Tensor& dc) {
    copy_strided(dh, grad_hy);
    copy_strided(dc, grad_cy);
    visit_compute(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const RnnLoops<T>& loops = rnn_loops<T>();
      const T *pcell = cell.data<T>(), *pc0 = c0.data<T>();
      T *pdgates = dgates.data<T>(), *pdh = dh.data<T>(), *pdc = dc.data<T>();
      run_back(steps, w, pdgates, pdh, false, [&](int64_t at, int64_t r, int64_t before) {
        loops.lstm_backward(n, act.data<T>() + at * 4 * n, before < 0 ? pc0 + r * n : pcell + before * n,
                            pcell + at * n, pdh + r * n, dout.data<T>() + at * n, pdc + r * n, pdgates + at * 4 * n);
      });
      if (mask[3]) weight_gradient<T>(steps, 4 * n, pdgates, h0, out, grad_weight);
    });
  });
}

void gru_layer(const Tensor& gates, const Tensor& hx, const Tensor& weight, const Tensor& bias, IntList batch_sizes,
               bool reverse, const Tensor& output, const Tensor& hy, const Tensor& activations) {
  if (hx.size(1) == 0) return;  // no state: nothing to compute
  const ScalarType type = compute_type(gates.dtype());
  const RecurrentSteps steps(batch_sizes, reverse);
  const int64_t n = hx.size(1);
  const Tensor x = dense_as(gates, type), w = dense_as(weight, type), b = dense_as(bias, type);
  into_dense({output, hy, activations}, type, [&](const Tensor& out, const Tensor& h, const Tensor& act) {
    copy_strided(h, hx);
    visit_compute(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const RnnLoops<T>& loops = rnn_loops<T>();
      T *ph = h.data<T>(), *pout = out.data<T>();
      run_forward(steps, w, ph, [&](int64_t at, int64_t r, const T* share) {
        loops.gru(n, x.data<T>() + at * 3 * n, share, data_or_null<T>(b), act.data<T>() + at * 4 * n, ph + r * n,
                  pout + at * n);
      });
    });
  });
}

void gru_layer_backward(const Tensor& grad_output, const Tensor& grad_hy, const Tensor& gates, const Tensor& hx,
                        const Tensor& weight, const Tensor& bias, const Tensor& output, const Tensor& activations,
                        IntList batch_sizes, bool reverse, const std::vector<bool>& mask, const Tensor& grad_gates,
                        const Tensor& grad_hx, const Tensor& grad_weight, const Tensor& grad_bias) {
  if (hx.size(1) == 0) return;  // no state: nothing to compute
  const ScalarType type = compute_type(gates.dtype());
  const RecurrentSteps steps(batch_sizes, reverse);
  const int64_t n = hx.size(1);
  const Tensor dout = dense_as(grad_output, type), h0 = dense_as(hx, type), w = dense_as(weight, type);
  const Tensor out = dense_as(output, type), act = dense_as(activations, type);
  into_dense({grad_gates, grad_hx}, type, [&](const Tensor& dgates, const Tensor& dh) {
    copy_strided(dh, grad_hy);
    visit_compute(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const RnnLoops<T>& loops = rnn_loops<T>();
      const T *pout = out.data<T>(), *ph0 = h0.data<T>();
      T *pdgates = dgates.data<T>(), *pdh = dh.data<T>();
      // The state's share of the n gate has a gradient of its own.
      const TypedBuffer<T> shares(steps.rows() * 3 * n);
      run_back(steps, w, static_cast<const T*>(shares.get()), pdh, true, [&](int64_t at, int64_t r, int64_t before) {
        loops.gru_backward(n, act.data<T>() + at * 4 * n, before < 0 ? ph0 + r * n : pout + before * n, pdh + r * n,
                           dout.data<T>() + at * n, pdgates + at * 3 * n, shares.get() + at * 3 * n);
      });
      if (mask[2]) weight_gradient<T>(steps, 3 * n, shares.get(), h0, out, grad_weight);
      if (mask[3] && bias.defined()) {
        into_dense(grad_bias, type, [&](const Tensor& db) {
          std::fill_n(db.data<T>(), 3 * n, T(0));
          StepSums<T> sums(db.data<T>(), 1, 3 * n, 3 * n);
          for (int64_t i = 0; i < steps.rows(); ++i) {
            sums.step();
            loops.add(3 * n, shares.get() + i * 3 * n, db.data<T>());
          }
          sums.finish();
        });
      }
    });
  });
}

void rnn_layer(const Tensor& gates, const Tensor& hx, const Tensor& weight, IntList batch_sizes, bool reverse,
               bool relu, const Tensor& output, const Tensor& hy) {
  if (hx.size(1) == 0) return;  // no state: nothing to compute
  const ScalarType type = compute_type(gates.dtype());
  const RecurrentSteps steps(batch_sizes, reverse);
  const int64_t n = hx.size(1);
  const Tensor x = dense_as(gates, type), w = dense_as(weight, type);
  into_dense({output, hy}, type, [&](const Tensor& out, const Tensor& h) {
    copy_strided(h, hx);
    visit_compute(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const auto cell = relu ? rnn_loops<T>().relu : rnn_loops<T>().tanh;
      T *ph = h.data<T>(), *pout = out.data<T>();
      run_forward(steps, w, ph, [&](int64_t at, int64_t r, const T* share) {
        cell(n, x.data<T>() + at * n, share, ph + r * n, pout + at * n);
      });
    });
  });
}

void rnn_layer_backward(const Tensor& grad_output, const Tensor& grad_hy, const Tensor& gates, const Tensor& hx,
                        const Tensor& weight, const Tensor& output, IntList batch_sizes, bool reverse, bool relu,
                        const std::vector<bool>& mask, const Tensor& grad_gates, const Tensor& grad_hx,
                        const Tensor& grad_weight) {
  if (hx.size(1) == 0) return;  // no state: nothing to compute
  const ScalarType type = compute_type(gates.dtype());
  const RecurrentSteps steps(batch_sizes, reverse);
  const int64_t n = hx.size(1);
  const Tensor dout = dense_as(grad_output, type), h0 = dense_as(hx, type), w = dense_as(weight, type);
  const Tensor out = dense_as(output, type);
  into_dense({grad_gates, grad_hx}, type, [&](const Tensor& dgates, const Tensor& dh) {
    copy_strided(dh, grad_hy);
    visit_compute(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const auto cell = relu ? rnn_loops<T>().relu_backward : rnn_loops<T>().tanh_backward;
      T *pdgates = dgates.data<T>(), *pdh = dh.data<T>();
      run_back(steps, w, pdgates, pdh, false, [&](int64_t at, int64_t r, int64_t) {
        cell(n, out.data<T>() + at * n, pdh + r * n, dout.data<T>() + at * n, pdgates + at * n);
      });
      if (mask[2]) weight_gradient<T>(steps, n, pdgates, h0, out, grad_weight);
    });
  });
}

}  // namespace facula::cpu
