// softmax, log_softmax and their gradients along rows. Before it stand: I, J (elements of the inputs),
// O (of the result), T, FACULA_KIND (0 softmax, 1 log_softmax, 2 and 3 their gradients).
#include "facula/cuda/rows.h"

namespace facula {

struct SoftmaxParams {
  const char* in;     // of gradients: the gradient
  const char* other;  // of gradients: the result
  char* out;
  int64_t length;
  int64_t steps[3];
  int64_t dense;  // rows of all three follow each other
  StridedIterator<3> iterator;   // rows
};

FD void row_places(const SoftmaxParams& p, int64_t row, int64_t (&at)[3]) {
  if (p.dense != 0) {
#pragma unroll
    for (int k = 0; k < 3; ++k) at[k] = row * p.length * p.steps[k];
  } else {
    p.iterator.places(row, at);
  }
}

// Results of 16 bits do not show the last bits of an exponential.
FD float exponential(float x) { return sizeof(O) == 2 ? __expf(x) : ::expf(x); }
FD double exponential(double x) { return ::exp(x); }

}  // namespace facula

using namespace facula;

extern "C" __global__ void __launch_bounds__(kRowThreads) facula_softmax(const __grid_constant__ SoftmaxParams p) {
  const int64_t rows = ceil_div(p.iterator.count, kRowsOfBlock);
  RowReduction reduction;
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const int64_t row = r * kRowsOfBlock + threadIdx.x / FACULA_LANES;
    const bool real = row < p.iterator.count;
    const int64_t length = real ? p.length : 0;
    T x[kHeld][FACULA_VEC];
    int64_t at[3];
    row_places(p, real ? row : 0, at);
#if FACULA_KIND < 2
    const auto read = [&](int i, int64_t place) {
      if (FACULA_ITEMS == 0) read_vector<I>(p.in + at[0], place, p.steps[0], x[i]);
    };
    HeldRow<I> held;
    held.load(p.in + at[0], p.steps[0], length);
    T top = -math::infinity<T>;
    each_vector(length, [&](int i, int64_t place) {
      held.get(i, p.in + at[0], place, p.steps[0], x[i]);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) top = Largest::join(x[i][k], top);
    });
    top = reduction.over<Largest>(top);
    T sum = T(0);
    each_vector(length, [&](int i, int64_t place) {
      read(i, place);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) {
        x[i][k] = below(x[i][k], top);
        const T e = exponential(x[i][k]);
        sum += e;
#if FACULA_KIND == 0
        x[i][k] = e;
#endif
      }
    });
    sum = reduction.over<Add>(sum);
    sum = sum_below(sum, top);
    const T scale = FACULA_KIND == 0 ? T(1) / sum : math::log(sum);
    each_vector(length, [&](int i, int64_t place) {
      read(i, place);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) {
        if (FACULA_ITEMS == 0) x[i][k] = FACULA_KIND == 0 ? exponential(below(x[i][k], top)) : below(x[i][k], top);
        x[i][k] = FACULA_KIND == 0 ? x[i][k] * scale : x[i][k] - scale;
      }
      write_vector<O>(p.out + at[2], place, p.steps[2], x[i]);
    });
#else
    HeldRow<I> slopes;
    HeldRow<J> results;
    slopes.load(p.in + at[0], p.steps[0], length);
    results.load(p.other + at[1], p.steps[1], length);
    T y[kHeld][FACULA_VEC];
    T sum = T(0);
    each_vector(length, [&](int i, int64_t place) {
      slopes.get(i, p.in + at[0], place, p.steps[0], x[i]);
      results.get(i, p.other + at[1], place, p.steps[1], y[i]);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) sum += FACULA_KIND == 2 ? x[i][k] * y[i][k] : x[i][k];
    });
    sum = reduction.over<Add>(sum);
    each_vector(length, [&](int i, int64_t place) {
      if (FACULA_ITEMS == 0) {
        read_vector<I>(p.in + at[0], place, p.steps[0], x[i]);
        read_vector<J>(p.other + at[1], place, p.steps[1], y[i]);
      }
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) {
        x[i][k] = FACULA_KIND == 2 ? y[i][k] * (x[i][k] - sum) : x[i][k] - exponential(y[i][k]) * sum;
      }
      write_vector<O>(p.out + at[2], place, p.steps[2], x[i]);
    });
#endif
  }
}
