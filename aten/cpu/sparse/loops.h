// Loops over the rows of a matrix that is stored by compressed rows (CSR).
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

// Other threads may write to the indices meanwhile: each is read once, and used as it was checked.
struct CsrMatrix {
  const int64_t* crow;
  const int64_t* col;
  int64_t entries;
  int64_t columns;
};
// What was wrong with it.
struct CsrFault {
  enum Kind : uint8_t { None, Row, Column } kind = None;
  int64_t at = 0, value = 0;
};

template <typename T>
struct CsrLoops {
  // out[r, :] = the sum of values[e] * dense[col[e], :] over the entries e of row r, for rows [begin, end); dense and
  // out have k columns.
  CsrFault (*product)(const CsrMatrix& m, int64_t begin, int64_t end, const T* values, const T* dense, int64_t k,
                      T* out);
  // out[e] = the sum of left[r, :] * right[col[e], :] for the entries e of rows [begin, end).
  CsrFault (*sampled)(const CsrMatrix& m, int64_t begin, int64_t end, const T* left, const T* right, int64_t k, T* out);
};

FACULA_DECLARE_BY_ISA(CsrLoops<float>, csr_loops_float)
FACULA_DECLARE_BY_ISA(CsrLoops<double>, csr_loops_double)

}  // namespace facula
