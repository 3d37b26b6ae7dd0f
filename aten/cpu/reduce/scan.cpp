// Scans: each element along a dim takes in those before it. Sums and products are kept in float64,
// int64 or complex128, whatever the element type. Where neighbouring lines touch they advance together.
#include <algorithm>
#include <cmath>
#include <limits>

#include "aten/cpu/common/bytes.h"
#include "aten/cpu/reduce/reduce.h"
#include "aten/cpu/reduce/scan_loops.h"
#include "facula/kernels.h"
#include "runtime/core/interrupt.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

constexpr int64_t kChunk = 1024;  // elements of a line, or lines, at a time

// The iteration over all dims but `dim`, and where that dim leads.
struct Lines {
  StridedPlan plan;
  int64_t size = 1;
  int64_t along[4] = {};  // elements, by operand
};

Lines make_lines(std::initializer_list<const Tensor*> operands, int64_t dim) {
  const Tensor& first = **operands.begin();
  Lines lines;
  const bool scalar = first.dim() == 0;
  const int64_t d = scalar ? 0 : wrap_dim(dim, first.dim());
  lines.size = scalar ? 1 : first.size(d);
  int k = 0;
  for (const Tensor* t : operands) lines.along[k++] = scalar ? 0 : t->stride(d);
  lines.plan = make_plan(first.sizes(), std::span<const Tensor* const>(operands.begin(), operands.size()),
                         scalar ? 0 : uint64_t{1} << d);
  return lines;
}

// fn(ptrs, strides of neighbouring lines in bytes, number of lines), shared among threads.
template <typename F>
void for_each_lines(const Lines& lines, const F& fn) {
  for_each_row(lines.plan, fn, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, lines.size)));
}

struct SumScan {
  static constexpr int inputs = 1;
  template <typename C>
  static C start() {
    return C(0);
  }
  template <typename C>
  static void step(C& state, const C* x) {
    if constexpr (std::is_integral_v<C>) {
      state = static_cast<C>(static_cast<uint64_t>(state) + static_cast<uint64_t>(x[0]));
    } else {
      state += x[0];
    }
  }
};
struct ProdScan {
  static constexpr int inputs = 1;
  template <typename C>
  static C start() {
    return C(1);
  }
  template <typename C>
  static void step(C& state, const C* x) {
    if constexpr (is_complex_v<C>) {
      state =
          C(state.real() * x->real() - state.imag() * x->imag(), state.real() * x->imag() + state.imag() * x->real());
    } else if constexpr (std::is_integral_v<C>) {
      state = static_cast<C>(static_cast<uint64_t>(state) * static_cast<uint64_t>(x[0]));
    } else {
      state *= x[0];
    }
  }
};
// log(e^state + e^x)
struct LogSumExpScan {
  static constexpr int inputs = 1;
  template <typename C>
  static C start() {
    if constexpr (is_complex_v<C>) {
      return C(-std::numeric_limits<double>::infinity(), 0);
    } else {
      return -std::numeric_limits<C>::infinity();
    }
  }
  static void step(complex128& state, const complex128* x) {
    constexpr double kNothing = -std::numeric_limits<double>::infinity();
    if (state.real() == kNothing || x->real() == kNothing) {
      if (state.real() == kNothing) state = *x;
      return;
    }
    const bool first = state.real() < x->real();
    const complex128 high = first ? *x : state, w = std::exp(first ? state - *x : *x - state);
    const double size = std::log1p(w.real() * (2 + w.real()) + w.imag() * w.imag()) / 2;
    state = high + complex128(size, std::atan2(w.imag(), 1 + w.real()));
  }
  template <typename C>
  static void step(C& state, const C* x) {
    const C low = std::min(state, x[0]), high = std::max(state, x[0]);
    if (x[0] != x[0] || state != state) {
      state += x[0];
    } else if (low != high || std::isfinite(low)) {
      state = high + std::log1p(std::exp(low - high));
    } else {
      state = x[0];
    }
  }
};
// x[0] * state + x[1]
struct AffineScan {
  static constexpr int inputs = 2;
  template <typename C>
  static C start() {
    return C(0);
  }
  template <typename C>
  static void step(C& state, const C* x) {
    if constexpr (is_complex_v<C>) {
      state =
          C(state.real() * x->real() - state.imag() * x->imag(), state.real() * x->imag() + state.imag() * x->real());
      state += x[1];
    } else {
      state = x[0] * state + x[1];
    }
  }
};

template <typename Op, typename C>
void scan_line(C* const* buffers, int64_t n, C& state, bool reverse) {
  if constexpr (std::is_same_v<Op, SumScan> && std::is_same_v<C, double>) {
    if (!reverse) return FACULA_BY_ISA(scan_table).sum_line_f64(buffers[0], n, state);
  }
  if constexpr (std::is_same_v<Op, SumScan> && std::is_same_v<C, int64_t>) {
    if (!reverse) return FACULA_BY_ISA(scan_table).sum_line_i64(buffers[0], n, state);
  }
  C x[Op::inputs];
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = reverse ? n - 1 - k : k;
    for (int j = 0; j < Op::inputs; ++j) x[j] = buffers[j][i];
    Op::step(state, x);
    buffers[0][i] = state;
  }
}

template <typename Op, typename C>
void scan_lines(const Tensor& out, const Tensor& a, const Tensor& b, int64_t dim, bool reverse) {
  const Lines lines = Op::inputs == 2 ? make_lines({&out, &a, &b}, dim) : make_lines({&out, &a}, dim);
  const ScalarType compute = dtype_of_v<C>;
  const ScalarType types[3] = {out.dtype(), a.dtype(), Op::inputs == 2 ? b.dtype() : a.dtype()};
  const int64_t items[3] = {static_cast<int64_t>(itemsize(types[0])), static_cast<int64_t>(itemsize(types[1])),
                            static_cast<int64_t>(itemsize(types[2]))};
  const int64_t size = lines.size;
  // Running sums of float32, the common case, need no conversions apart.
  const bool plain = std::is_same_v<Op, SumScan> && std::is_same_v<C, double> && !reverse &&
                     types[0] == ScalarType::Float32 && types[1] == ScalarType::Float32;
  for_each_lines(lines, [&](char** ptrs, const int64_t* strides, int64_t n) {
    Bytes memory(bytes_for<C>(kChunk) * 3);
    C* buffers[2] = {memory.as<C>(), memory.as<C>() + kChunk};
    C* state = memory.as<C>() + 2 * kChunk;
    const bool together = n >= 8 && std::abs(strides[1]) < std::abs(lines.along[1]) * items[1];
    if (together) {
      for (int64_t first = 0; first < n; first += kChunk) {
        const int64_t w = std::min(kChunk, n - first);
        std::fill(state, state + w, Op::template start<C>());
        for (int64_t k = 0; k < size; ++k) {
          count_step();
          const int64_t i = reverse ? size - 1 - k : k;
          if constexpr (std::is_same_v<C, double>) {
            if (plain && strides[0] == 4 && strides[1] == 4) {
              const char* from = ptrs[1] + (first + i * lines.along[1]) * 4;
              char* to = ptrs[0] + (first + i * lines.along[0]) * 4;
              FACULA_BY_ISA(scan_table)
                  .add_f32(state, reinterpret_cast<const float*>(from), w, reinterpret_cast<float*>(to));
              continue;
            }
          }
          for (int j = 0; j < Op::inputs; ++j) {
            const char* from = ptrs[j + 1] + first * strides[j + 1] + i * lines.along[j + 1] * items[j + 1];
            load_elements(compute, buffers[j], types[j + 1], from, strides[j + 1] / items[j + 1], w);
          }
          if constexpr (std::is_same_v<Op, SumScan> && std::is_same_v<C, double>) {
            FACULA_BY_ISA(scan_table).add_f64(state, buffers[0], w);
          } else if constexpr (Op::inputs == 1) {
            for (int64_t l = 0; l < w; ++l) Op::step(state[l], buffers[0] + l);
          } else {
            for (int64_t l = 0; l < w; ++l) {
              const C x[2] = {buffers[0][l], buffers[1][l]};
              Op::step(state[l], x);
            }
          }
          store_elements(types[0], ptrs[0] + first * strides[0] + i * lines.along[0] * items[0], strides[0] / items[0],
                         compute, state, w);
        }
      }
      return;
    }
    for (int64_t l = 0; l < n; ++l) {
      C carry = Op::template start<C>();
      if constexpr (std::is_same_v<C, double>) {
        if (plain && lines.along[0] == 1 && lines.along[1] == 1) {
          constexpr int64_t kPart = 64 * kChunk;
          for (int64_t done = 0; done < size; done += kPart) {
            check_interrupt();
            FACULA_BY_ISA(scan_table)
                .sum_line_f32(reinterpret_cast<const float*>(ptrs[1] + l * strides[1]) + done,
                              std::min(kPart, size - done), carry,
                              reinterpret_cast<float*>(ptrs[0] + l * strides[0]) + done);
          }
          continue;
        }
      }
      for (int64_t done = 0; done < size; done += kChunk) {
        count_step();
        const int64_t m = std::min(kChunk, size - done);
        const int64_t at = reverse ? size - done - m : done;
        for (int j = 0; j < Op::inputs; ++j) {
          load_elements(compute, buffers[j], types[j + 1],
                        ptrs[j + 1] + l * strides[j + 1] + at * lines.along[j + 1] * items[j + 1], lines.along[j + 1],
                        m);
        }
        scan_line<Op>(buffers, m, carry, reverse);
        store_elements(types[0], ptrs[0] + l * strides[0] + at * lines.along[0] * items[0], lines.along[0], compute,
                       buffers[0], m);
      }
    }
  });
}

// Float inputs of an integer result are truncated first, as a conversion would.
template <typename Op>
void scan(const Tensor& self, int64_t dim, bool reverse, const Tensor& out) {
  if (out.numel() == 0) return;
  if (out.is_complex()) {
    scan_lines<Op, complex128>(out, self, Tensor(), dim, reverse);
  } else if (out.is_floating_point()) {
    scan_lines<Op, double>(out, self, Tensor(), dim, reverse);
  } else {
    scan_lines<Op, int64_t>(out, self, Tensor(), dim, reverse);
  }
}

// Running extremes; among equals the later one counts, and NaN stays.
template <bool Largest, typename C>
void extremes_of(const Tensor& values, const Tensor& indices, const Tensor& self, int64_t dim) {
  const Lines lines = make_lines({&values, &indices, &self}, dim);
  const ScalarType compute = dtype_of_v<C>;
  const int64_t value_item = static_cast<int64_t>(values.itemsize()), item = static_cast<int64_t>(self.itemsize());
  const int64_t size = lines.size;
  const auto takes = [](C x, C best) { return x != x || (best == best && (Largest ? x >= best : x <= best)); };
  for_each_lines(lines, [&](char** ptrs, const int64_t* strides, int64_t n) {
    C x[kChunk], best[kChunk];
    int64_t at[kChunk];
    const bool together = n >= 8 && std::abs(strides[2]) < std::abs(lines.along[2]) * item;
    if (together) {
      for (int64_t first = 0; first < n; first += kChunk) {
        const int64_t w = std::min(kChunk, n - first);
        for (int64_t i = 0; i < size; ++i) {
          count_step();
          load_elements(compute, x, self.dtype(), ptrs[2] + first * strides[2] + i * lines.along[2] * item,
                        strides[2] / item, w);
          for (int64_t l = 0; l < w; ++l) {
            const bool better = i == 0 || takes(x[l], best[l]);
            best[l] = better ? x[l] : best[l];
            at[l] = better ? i : at[l];
          }
          store_elements(values.dtype(), ptrs[0] + first * strides[0] + i * lines.along[0] * value_item,
                         strides[0] / value_item, compute, best, w);
          store_elements(ScalarType::Int64, ptrs[1] + first * strides[1] + i * lines.along[1] * 8, strides[1] / 8,
                         ScalarType::Int64, at, w);
        }
      }
      return;
    }
    for (int64_t l = 0; l < n; ++l) {
      C top = C(0);
      int64_t where = 0;
      for (int64_t done = 0; done < size; done += kChunk) {
        count_step();
        const int64_t m = std::min(kChunk, size - done);
        load_elements(compute, x, self.dtype(), ptrs[2] + l * strides[2] + done * lines.along[2] * item, lines.along[2],
                      m);
        for (int64_t i = 0; i < m; ++i) {
          if (done + i == 0 || takes(x[i], top)) {
            top = x[i];
            where = done + i;
          }
          best[i] = top;
          at[i] = where;
        }
        store_elements(values.dtype(), ptrs[0] + l * strides[0] + done * lines.along[0] * value_item, lines.along[0],
                       compute, best, m);
        store_elements(ScalarType::Int64, ptrs[1] + l * strides[1] + done * lines.along[1] * 8, lines.along[1],
                       ScalarType::Int64, at, m);
      }
    }
  });
}

template <bool Largest>
void extremes(const Tensor& self, int64_t dim, const Tensor& values, const Tensor& indices) {
  if (values.numel() == 0) return;
  switch (order_type(self.dtype())) {
    case ScalarType::Float32:
      return extremes_of<Largest, float>(values, indices, self, dim);
    case ScalarType::Float64:
      return extremes_of<Largest, double>(values, indices, self, dim);
    case ScalarType::Int32:
      return extremes_of<Largest, int32_t>(values, indices, self, dim);
    case ScalarType::UInt64:
      return extremes_of<Largest, uint64_t>(values, indices, self, dim);
    default:
      return extremes_of<Largest, int64_t>(values, indices, self, dim);
  }
}

}  // namespace

void cumsum(const Tensor& self, int64_t dim, std::optional<ScalarType>, const Tensor& out) {
  scan<SumScan>(self, dim, false, out);
}
void cumsum_reversed(const Tensor& self, int64_t dim, const Tensor& out) { scan<SumScan>(self, dim, true, out); }
void cumprod(const Tensor& self, int64_t dim, std::optional<ScalarType>, const Tensor& out) {
  scan<ProdScan>(self, dim, false, out);
}
void logcumsumexp(const Tensor& self, int64_t dim, const Tensor& out) {
  if (out.numel() == 0) return;
  if (out.is_complex()) {
    scan_lines<LogSumExpScan, complex128>(out, self, Tensor(), dim, false);
  } else {
    scan_lines<LogSumExpScan, double>(out, self, Tensor(), dim, false);
  }
}
void affine_scan(const Tensor& a, const Tensor& b, int64_t dim, bool reverse, const Tensor& out) {
  if (out.numel() == 0) return;
  if (out.is_complex()) {
    scan_lines<AffineScan, complex128>(out, a, b, dim, reverse);
  } else {
    scan_lines<AffineScan, double>(out, a, b, dim, reverse);
  }
}
void cummax(const Tensor& self, int64_t dim, const Tensor& out0, const Tensor& out1) {
  extremes<true>(self, dim, out0, out1);
}
void cummin(const Tensor& self, int64_t dim, const Tensor& out0, const Tensor& out1) {
  extremes<false>(self, dim, out0, out1);
}

}  // namespace facula::cpu
