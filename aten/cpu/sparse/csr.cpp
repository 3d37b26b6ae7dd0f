// Products with matrices that are stored by compressed rows (CSR), and groups of equal indices, of which such rows
// come.
#include <algorithm>
#include <cstring>

#include "aten/cpu/common/bits.h"
#include "aten/cpu/common/dense.h"
#include "aten/cpu/sparse/rows.h"
#include "facula/kernels.h"
#include "runtime/iterate/parallel.h"

namespace facula::cpu {

namespace {

template <typename T>
CsrLoops<T> loops_for() {
  if constexpr (std::is_same_v<T, float>) {
    return FACULA_BY_ISA(csr_loops_float);
  } else if constexpr (std::is_same_v<T, double>) {
    return FACULA_BY_ISA(csr_loops_double);
  } else {
    return {product<T>, sampled<T>};
  }
}

[[noreturn]] void raise_fault(const CsrFault& fault, const CsrMatrix& m, const char* op) {
  if (fault.kind == CsrFault::Column) {
    raise(ErrorKind::Index, Operator{op}, "column ", fault.value, " of entry ", fault.at, " is not within the ",
          m.columns, " columns of the matrix");
  }
  raise(ErrorKind::Index, Operator{op}, Argument{"crow"}, " must not fall, and must stay within the ", m.entries,
        " entries; row ", fault.at, " has ", fault.value);
}

// fn(begin, end) over the rows, in pieces of some `work`.
template <typename F>
void over_rows(const CsrMatrix& m, int64_t rows, int64_t k, const char* op, const F& fn) {
  constexpr int64_t kWork = 1 << 15;
  const int64_t per_row = std::max<int64_t>(1, (m.entries / std::max<int64_t>(rows, 1) + 1) * std::max<int64_t>(k, 1));
  parallel_for(0, rows, std::max<int64_t>(1, kWork / per_row), [&](int64_t begin, int64_t end) {
    const CsrFault fault = fn(begin, end);
    if (fault.kind != CsrFault::None) raise_fault(fault, m, op);
  });
}

template <typename F>
void visit_numbers(ScalarType type, const char* op, const F& fn) {
  visit_dtype(type, [&]<typename T>(std::type_identity<T> t) {
    if constexpr (std::is_same_v<T, bool> || is_reduced_float_v<T>) {
      raise(ErrorKind::NotImplemented, Operator{op}, "not implemented for ", dtype_name(type));
    } else {
      fn(t);
    }
  });
}

CsrMatrix matrix(const Tensor& crow, const Tensor& col, int64_t columns) {
  return {crow.data<int64_t>(), col.data<int64_t>(), col.numel(), columns};
}

}  // namespace

void csr_product(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense_matrix,
                 const Tensor& out) {
  const ScalarType type = compute_type(out.dtype());
  const Tensor rows = dense(crow, ScalarType::Int64), columns = dense(col, ScalarType::Int64);
  const Tensor v = dense_as(values, type), d = dense_as(dense_matrix, type);
  const CsrMatrix m = matrix(rows, columns, d.size(0));
  into_dense(out, type, [&](const Tensor& to) {
    visit_numbers(type, "_csr_product", [&]<typename T>(std::type_identity<T>) {
      const CsrLoops<T> loops = loops_for<T>();
      over_rows(m, to.size(0), to.size(1), "_csr_product", [&](int64_t begin, int64_t end) {
        return loops.product(m, begin, end, v.data<T>(), d.data<T>(), to.size(1), to.data<T>());
      });
    });
  });
}

void csr_sampled(const Tensor& crow, const Tensor& col, const Tensor& left, const Tensor& right, const Tensor& out) {
  const ScalarType type = compute_type(out.dtype());
  const Tensor rows = dense(crow, ScalarType::Int64), columns = dense(col, ScalarType::Int64);
  const Tensor a = dense_as(left, type), b = dense_as(right, type);
  const CsrMatrix m = matrix(rows, columns, b.size(0));
  into_dense(out, type, [&](const Tensor& to) {
    if (to.nbytes() > 0) std::memset(to.raw(), 0, to.nbytes());  // entries of no row
    visit_numbers(type, "_csr_sampled", [&]<typename T>(std::type_identity<T>) {
      const CsrLoops<T> loops = loops_for<T>();
      over_rows(m, a.size(0), a.size(1), "_csr_sampled", [&](int64_t begin, int64_t end) {
        return loops.sampled(m, begin, end, a.data<T>(), b.data<T>(), a.size(1), to.data<T>());
      });
    });
  });
}

void group_indices(const Tensor& index, int64_t groups, const Tensor& starts, const Tensor& order) {
  const Tensor plain = apart_from(dense(index, ScalarType::Int64), order);
  const int64_t n = plain.numel();
  const int64_t* const given = plain.data<int64_t>();
  const Tensor next = make_empty({groups + 1}, ScalarType::Int64);
  int64_t* const at = next.data<int64_t>();
  std::memset(at, 0, next.nbytes());
  for (int64_t i = 0; i < n; ++i) {
    const int64_t g = read_once(given + i);
    FACULA_CHECK(g >= 0 && g < groups, Index, Operator{"_group_indices"}, Argument{"index"}, " holds ", g,
                 ", which is not within the ", groups, " groups");
    ++at[g + 1];
  }
  for (int64_t g = 0; g < groups; ++g) at[g + 1] += at[g];
  into_dense(starts, ScalarType::Int64, [&](const Tensor& to) { std::memcpy(to.raw(), at, next.nbytes()); });
  into_dense(order, ScalarType::Int64, [&](const Tensor& to) {
    int64_t* const out = to.data<int64_t>();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t g = read_once(given + i);
      FACULA_CHECK(g >= 0 && g < groups && at[g] < n, Index, Operator{"_group_indices"}, Argument{"index"},
                   " was changed by another thread meanwhile");
      out[at[g]++] = i;
    }
  });
}

}  // namespace facula::cpu
