// The inner parts of a blocked matrix product (Goto & van de Geijn, Anatomy of high-performance
// matrix multiplication, 2008), compiled for each instruction set.
#pragma once

#include <cstdint>

#include "aten/cpu/common/fetch_ahead.h"
#include "runtime/core/rounding.h"
#include "runtime/iterate/isa.h"

namespace facula {

template <typename T>
struct GemmLoops {
  // Panels hold up to `mr` rows of A or `nr` columns of B, one depth after the other.
  int64_t mr, nr;
  // C (rows <= mr, cols <= nr; row stride ldc) = or += A panel (depth, width >= rows) times B panel
  // (depth, nr).
  void (*tile)(int64_t depth, const T* a, int64_t width, const T* b, T* c, int64_t ldc, int64_t rows, int64_t cols,
               bool accumulate);
  // C = D (null: 0), row i at d + i * d_row, plus A panel times columns of depth p at b + taps[p], of which whole
  // vectors are readable. With `stream`, which wants C in whole lines, it is written by streaming stores.
  void (*tile_taps)(int64_t depth, const T* a, int64_t width, const T* b, const int64_t* taps, const Ahead<T>& ahead,
                    const T* d, int64_t d_row, T* c, int64_t ldc, int64_t rows, int64_t cols, bool stream);
  // Like `tile` with A and B where they lie: element (i, p) of A at a + i * a_row + p * a_col, the columns of depth p
  // at b + p * b_row.
  void (*strided_tile)(int64_t depth, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, T* c,
                       int64_t ldc, int64_t rows, int64_t cols, bool accumulate);
  // The same where B stays in the first-level cache.
  void (*near_tile)(int64_t depth, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, T* c,
                    int64_t ldc, int64_t rows, int64_t cols, bool accumulate);
  // The same with C = D plus the product, row i of D at d + i * d_row.
  void (*tile_onto)(int64_t depth, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, const T* d,
                    int64_t d_row, T* c, int64_t ldc, int64_t rows, int64_t cols);
  // Panel of `count` rows or columns (padded with zeros to `width`): out[p * width + i] = in[i * step + p * along].
  void (*pack)(int64_t depth, int64_t count, int64_t width, const T* in, int64_t step, int64_t along, T* out);
};
// Depth of a product of packed panels at a time, so that they stay in the first-level cache.
inline constexpr int64_t kPanelDepth = 384;

FACULA_DECLARE_BY_ISA(GemmLoops<float>, gemm_loops_float)
FACULA_DECLARE_BY_ISA(GemmLoops<double>, gemm_loops_double)

template <typename T>
const GemmLoops<T>& gemm_loops() {
  if constexpr (std::is_same_v<T, float>) {
    return FACULA_BY_ISA(gemm_loops_float);
  } else {
    return FACULA_BY_ISA(gemm_loops_double);
  }
}

// Panel width at most `mr` that cuts `rows` into equal panels: 64 by 14 gives 13, not 14 and a rest of 8.
inline int64_t even_panel(int64_t rows, int64_t mr) {
  const int64_t panels = ceil_div(rows, mr);
  return panels == 0 ? mr : ceil_div(rows, panels);
}

}  // namespace facula
