// build: levels fused
#include "aten/cpu/nn/rnn_loops.h"

#include "aten/cpu/common/vector_tanh.h"

namespace facula {
namespace {

template <typename T>
void lstm(int64_t n, const T* __restrict x, const T* __restrict r, T* __restrict act, T* __restrict c,
          T* __restrict cell, T* __restrict h, T* __restrict out) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T i = sigmoid_of(x[j] + r[j]), f = sigmoid_of(x[n + j] + r[n + j]);
    const T g = tanh_of(x[2 * n + j] + r[2 * n + j]), o = sigmoid_of(x[3 * n + j] + r[3 * n + j]);
    act[j] = i;
    act[n + j] = f;
    act[2 * n + j] = g;
    act[3 * n + j] = o;
    const T next = f * c[j] + i * g, y = o * tanh_of(next);
    c[j] = next;
    cell[j] = next;
    h[j] = y;
    out[j] = y;
  }
}

template <typename T>
void lstm_backward(int64_t n, const T* __restrict act, const T* __restrict before, const T* __restrict cell,
                   const T* __restrict dh, const T* __restrict dout, T* __restrict dc, T* __restrict dgates) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T i = act[j], f = act[n + j], g = act[2 * n + j], o = act[3 * n + j], y = tanh_of(cell[j]);
    const T d = dh[j] + dout[j], e = dc[j] + d * o * (T(1) - y * y);
    dgates[j] = e * g * i * (T(1) - i);
    dgates[n + j] = e * before[j] * f * (T(1) - f);
    dgates[2 * n + j] = e * i * (T(1) - g * g);
    dgates[3 * n + j] = d * y * o * (T(1) - o);
    dc[j] = e * f;
  }
}

template <typename T, bool Bias>
void gru_row(int64_t n, const T* __restrict x, const T* __restrict s, const T* __restrict bias, T* __restrict act,
             T* __restrict h, T* __restrict out) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    T sr = s[j], sz = s[n + j], sn = s[2 * n + j];
    if constexpr (Bias) {
      sr += bias[j];
      sz += bias[n + j];
      sn += bias[2 * n + j];
    }
    const T r = sigmoid_of(x[j] + sr), z = sigmoid_of(x[n + j] + sz), m = tanh_of(x[2 * n + j] + r * sn);
    act[j] = r;
    act[n + j] = z;
    act[2 * n + j] = m;
    act[3 * n + j] = sn;
    const T y = m + z * (h[j] - m);
    h[j] = y;
    out[j] = y;
  }
}

template <typename T>
void gru(int64_t n, const T* x, const T* r, const T* bias, T* act, T* h, T* out) {
  bias == nullptr ? gru_row<T, false>(n, x, r, bias, act, h, out) : gru_row<T, true>(n, x, r, bias, act, h, out);
}

template <typename T>
void gru_backward(int64_t n, const T* __restrict act, const T* __restrict before, T* __restrict dh,
                  const T* __restrict dout, T* __restrict dx, T* __restrict dr) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T r = act[j], z = act[n + j], m = act[2 * n + j], sn = act[3 * n + j];
    const T d = dh[j] + dout[j];
    const T dm = d * (T(1) - z) * (T(1) - m * m), dz = d * (before[j] - m) * z * (T(1) - z);
    const T reset = dm * sn * r * (T(1) - r);
    dx[j] = reset;
    dx[n + j] = dz;
    dx[2 * n + j] = dm;
    dr[j] = reset;
    dr[n + j] = dz;
    dr[2 * n + j] = dm * r;
    dh[j] = d * z;
  }
}

template <typename T>
void tanh_row(int64_t n, const T* __restrict x, const T* __restrict r, T* __restrict h, T* __restrict out) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) h[j] = out[j] = tanh_of(x[j] + r[j]);
}

template <typename T>
void relu_row(int64_t n, const T* __restrict x, const T* __restrict r, T* __restrict h, T* __restrict out) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T v = x[j] + r[j];
    h[j] = out[j] = v < T(0) ? T(0) : v;  // NaN stays
  }
}

template <typename T>
void tanh_backward(int64_t n, const T* __restrict out, const T* __restrict dh, const T* __restrict dout,
                   T* __restrict dx) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) dx[j] = (dh[j] + dout[j]) * (T(1) - out[j] * out[j]);
}

template <typename T>
void relu_backward(int64_t n, const T* __restrict out, const T* __restrict dh, const T* __restrict dout,
                   T* __restrict dx) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) dx[j] = out[j] > T(0) ? dh[j] + dout[j] : T(0);
}

template <typename T>
void add_row(int64_t n, const T* __restrict x, T* __restrict sum) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) sum[j] += x[j];
}

}  // namespace

#define FACULA_RNN_LOOPS(T)                                                       \
  {lstm<T>,     lstm_backward<T>, gru<T>,           gru_backward<T>, tanh_row<T>, \
   relu_row<T>, tanh_backward<T>, relu_backward<T>, add_row<T>}
FACULA_DEFINE_BY_ISA(RnnLoops<float>, rnn_loops_float, FACULA_RNN_LOOPS(float))
FACULA_DEFINE_BY_ISA(RnnLoops<double>, rnn_loops_double, FACULA_RNN_LOOPS(double))

}  // namespace facula
