// Indexing. Before it stand: S (elements, or pieces of rows), T (their value), X (indices), FACULA_INDICES.
#include "facula/cuda/strided_iterator.h"

namespace facula {

struct IndexParams {
  const X* index[FACULA_INDICES];
  int64_t sizes[FACULA_INDICES];        // of the indexed dims
  int64_t table_steps[FACULA_INDICES];  // bytes in the table for one more
  int64_t id_steps[FACULA_INDICES];     // places in a dense table of the indexed dims
  int64_t negative;                     // -1 is the last
  int64_t* table_places;                // for each tuple of indices: bytes into the table,
  int64_t* side_places;                 // into the other side,
  int64_t* ids;                         // the number of the place, where it is wanted
  StridedIterator<1 + FACULA_INDICES> tuples;      // the other side, then the indices
};

struct RowParams {
  char* table;
  char* side;
  const int64_t* table_places;
  const int64_t* side_places;
  const int64_t* ids;
  const int64_t* order;  // of the tuples, by place
  int64_t* winners;      // the last tuple of each place
  int64_t tuples;
  StridedIterator<2> row;  // table, side
};

}  // namespace facula

using namespace facula;

extern "C" __global__ void __launch_bounds__(256) facula_index_places(const __grid_constant__ IndexParams p) {
  for (int64_t n = thread_index(); n < p.tuples.count; n += thread_count()) {
    int64_t at[1 + FACULA_INDICES], table = 0, id = 0;
    p.tuples.places(n, at);
#pragma unroll
    for (int k = 0; k < FACULA_INDICES; ++k) {
      int64_t i = *reinterpret_cast<const X*>(reinterpret_cast<const char*>(p.index[k]) + at[1 + k]);
      if (i < (p.negative != 0 ? -p.sizes[k] : 0) || i >= p.sizes[k]) {
        report(kIndexOutOfRange, i, p.sizes[k]);
        i = 0;
      }
      if (i < 0) i += p.sizes[k];
      table += i * p.table_steps[k];
      id += i * p.id_steps[k];
    }
    p.table_places[n] = table;
    p.side_places[n] = at[0];
    if (p.ids != nullptr) p.ids[n] = id;
  }
}

// side = table: rows of a table.
extern "C" __global__ void __launch_bounds__(256) facula_index_read(const __grid_constant__ RowParams p) {
  for (int64_t i = thread_index(); i < p.tuples * p.row.count; i += thread_count()) {
    const int64_t n = i / p.row.count;
    int64_t at[2];
    p.row.places(i - n * p.row.count, at);
    *reinterpret_cast<S*>(p.side + p.side_places[n] + at[1]) =
        *reinterpret_cast<const S*>(p.table + p.table_places[n] + at[0]);
  }
}

extern "C" __global__ void __launch_bounds__(256) facula_index_last(const __grid_constant__ RowParams p) {
  for (int64_t n = thread_index(); n < p.tuples; n += thread_count()) {
    atomicMax(reinterpret_cast<long long*>(p.winners + p.ids[n]), static_cast<long long>(n));
  }
}

// table = side: of several for one place the last.
extern "C" __global__ void __launch_bounds__(256) facula_index_write(const __grid_constant__ RowParams p) {
  for (int64_t i = thread_index(); i < p.tuples * p.row.count; i += thread_count()) {
    const int64_t n = i / p.row.count;
    if (p.winners != nullptr && p.winners[p.ids[n]] != n) continue;
    int64_t at[2];
    p.row.places(i - n * p.row.count, at);
    *reinterpret_cast<S*>(p.table + p.table_places[n] + at[0]) =
        *reinterpret_cast<const S*>(p.side + p.side_places[n] + at[1]);
  }
}

#if FACULA_ENTRY == 4
// table += side, in the order of the tuples: the first of those with one place adds them all.
extern "C" __global__ void __launch_bounds__(256) facula_index_add(const __grid_constant__ RowParams p) {
  for (int64_t i = thread_index(); i < p.tuples * p.row.count; i += thread_count()) {
    const int64_t k = i / p.row.count, n = p.order[k];
    const int64_t id = p.ids[n];
    if (k > 0 && p.ids[p.order[k - 1]] == id) continue;
    int64_t at[2];
    p.row.places(i - k * p.row.count, at);
    S* const to = reinterpret_cast<S*>(p.table + p.table_places[n] + at[0]);
    T sum = load<T>(*to);
    for (int64_t j = k; j < p.tuples; ++j) {
      const int64_t m = p.order[j];
      if (p.ids[m] != id) break;
      sum = static_cast<T>(sum + load<T>(*reinterpret_cast<const S*>(p.side + p.side_places[m] + at[1])));
    }
    *to = element<S>(sum);
  }
}
#endif
