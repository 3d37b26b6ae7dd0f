// An index for every element, along one dim. Before it stand: S (elements), T (their value), X (indices),
// FACULA_REDUCE (0 sum, 1 product, 2 mean, 3 largest, 4 smallest).
#include "facula/cuda/strided_iterator.h"

namespace facula {

struct ScatterParams {
  char* table;
  char* side;
  const char* index;
  int64_t* ids;
  const int64_t* order;
  int64_t* winners;
  int64_t size, table_step, id_step;  // of the indexed dim
  int64_t include_self;
  StridedIterator<4> iterator;  // table (without the dim), side, index, place in a dense table
};

FD int64_t index_at(const ScatterParams& p, const int64_t (&at)[4]) {
  const int64_t i = *reinterpret_cast<const X*>(p.index + at[2]);
  if (i < 0 || i >= p.size) {
    report(kIndexOutOfRange, i, p.size);
    return 0;
  }
  return i;
}

}  // namespace facula

using namespace facula;

extern "C" __global__ void __launch_bounds__(256) facula_gather(const __grid_constant__ ScatterParams p) {
  for (int64_t i = thread_index(); i < p.iterator.count; i += thread_count()) {
    int64_t at[4];
    p.iterator.places(i, at);
    *reinterpret_cast<S*>(p.side + at[1]) =
        *reinterpret_cast<const S*>(p.table + at[0] + index_at(p, at) * p.table_step);
  }
}

extern "C" __global__ void __launch_bounds__(256) facula_scatter_places(const __grid_constant__ ScatterParams p) {
  for (int64_t i = thread_index(); i < p.iterator.count; i += thread_count()) {
    int64_t at[4];
    p.iterator.places(i, at);
    const int64_t id = at[3] + index_at(p, at) * p.id_step;
    p.ids[i] = id;
    if (p.winners != nullptr) atomicMax(reinterpret_cast<long long*>(p.winners + id), static_cast<long long>(i));
  }
}

extern "C" __global__ void __launch_bounds__(256) facula_scatter_write(const __grid_constant__ ScatterParams p) {
  for (int64_t i = thread_index(); i < p.iterator.count; i += thread_count()) {
    if (p.winners[p.ids[i]] != i) continue;
    int64_t at[4];
    p.iterator.places(i, at);
    *reinterpret_cast<S*>(p.table + at[0] + index_at(p, at) * p.table_step) = *reinterpret_cast<const S*>(p.side + at[1]);
  }
}

namespace facula {
FD T joined(T a, T b) {
#if FACULA_REDUCE == 0 || FACULA_REDUCE == 2
  return static_cast<T>(a + b);
#elif FACULA_REDUCE == 1
  return static_cast<T>(a * b);
#elif FACULA_REDUCE == 3
  return math::maximum(a, b);
#else
  return math::minimum(a, b);
#endif
}
FD T scaled(T x, T by) {
#if FACULA_REDUCE == 2
  return x * by;
#else
  return x;
#endif
}
}  // namespace facula

extern "C" __global__ void __launch_bounds__(256) facula_scatter_reduce(const __grid_constant__ ScatterParams p) {
  for (int64_t k = thread_index(); k < p.iterator.count; k += thread_count()) {
    int64_t n = p.order[k];
    const int64_t id = p.ids[n];
    if (k > 0 && p.ids[p.order[k - 1]] == id) continue;
    int64_t at[4];
    p.iterator.places(n, at);
    S* const to = reinterpret_cast<S*>(p.table + at[0] + index_at(p, at) * p.table_step);
    int64_t count = 0;
    // of elements times `by`
    const auto reduced = [&](T by) {
      bool any = p.include_self != 0;
      T value = scaled(load<T>(*to), by);
      count = any ? 1 : 0;
      for (int64_t j = k; j < p.iterator.count; ++j) {
        const int64_t m = p.order[j];
        if (p.ids[m] != id) break;
        p.iterator.places(m, at);
        const T x = scaled(load<T>(*reinterpret_cast<const S*>(p.side + at[1])), by);
        value = any ? joined(value, x) : x;
        any = true;
        ++count;
      }
      return value;
    };
    T value = reduced(T(1));
#if FACULA_REDUCE == 2
    value = value / static_cast<T>(count);
    if (!(math::abs(value) < math::infinity<T>)) {  // a sum may leave the range though the mean does not
      constexpr T kUnit = T(0x1p-40);
      value = reduced(kUnit) / static_cast<T>(count) / kUnit;
    }
#endif
    *to = element<S>(value);
  }
}
