// Products of two matrices by compressed rows (CSR), row by row (Gustavson 1978): each entry of a row of the first
// adds a multiple of a row of the second to a dense row of sums.
#include <algorithm>
#include <cstring>
#include <vector>

#include "aten/cpu/common/bits.h"
#include "aten/cpu/common/dense.h"
#include "aten/cpu/sparse/loops.h"
#include "facula/kernels.h"
#include "runtime/iterate/parallel.h"

namespace facula::cpu {
namespace {

// A matrix by compressed rows whose indices other threads may write to meanwhile: each is read once and checked.
class Rows {
 public:
  Rows(const Tensor& crow, const Tensor& col, int64_t columns, const char* op)
      : crow_(dense(crow, ScalarType::Int64)), col_(dense(col, ScalarType::Int64)), columns_(columns), op_(op) {}

  int64_t count() const { return crow_.numel() - 1; }
  int64_t entries() const { return col_.numel(); }
  int64_t per_row() const { return entries() / std::max<int64_t>(count(), 1) + 1; }

  struct Range {
    int64_t first, last;
  };
  Range row(int64_t r) const {
    const int64_t* const p = crow_.data<int64_t>() + r;
    const Range found{read_once(p), read_once(p + 1)};
    FACULA_CHECK(found.first >= 0 && found.first <= found.last && found.last <= entries(), Index, Operator{op_},
                 Argument{"crow"}, " must not fall, and must stay within the ", entries(), " entries; row ", r,
                 " goes from ", found.first, " to ", found.last);
    return found;
  }
  int64_t column(int64_t entry) const {
    const int64_t c = read_once(col_.data<int64_t>() + entry);
    FACULA_CHECK(c >= 0 && c < columns_, Index, Operator{op_}, "column ", c, " of entry ", entry, " is not within the ",
                 columns_, " columns of the matrix");
    return c;
  }

 private:
  Tensor crow_, col_;
  int64_t columns_;
  const char* op_;
};

struct Factors {
  Rows a, b;
  int64_t columns;  // of b
};

// A dense row of sums for one row of the product after the other; which of them the present row has met is a mark.
template <typename T>
class Sums {
 public:
  explicit Sums(int64_t columns) : columns_(columns), marks_(columns), sums_(columns) { clear(); }
  void next_row() {
    if (++mark_ == 0) clear();
  }
  void add(int64_t c, T v, std::vector<int64_t>& met) {
    if (marks_.get()[c] == mark_) {
      sums_.get()[c] += v;
      return;
    }
    marks_.get()[c] = mark_;
    sums_.get()[c] = v;
    met.push_back(c);
  }
  bool has(int64_t c) const { return marks_.get()[c] == mark_; }
  T at(int64_t c) const { return sums_.get()[c]; }
  // The columns that were met, in order: where they are many, a look at all is less than sorting.
  void sort(std::vector<int64_t>& met) const {
    if (static_cast<int64_t>(met.size()) < columns_ / 16) {
      std::sort(met.begin(), met.end());
      return;
    }
    size_t n = 0;
    for (int64_t c = 0; n < met.size() && c < columns_; ++c) {
      if (has(c)) met[n++] = c;
    }
  }

 private:
  void clear() {
    std::fill_n(marks_.get(), columns_, 0U);
    mark_ = 1;
  }
  int64_t columns_;
  uint32_t mark_ = 1;
  TypedBuffer<uint32_t> marks_;
  TypedBuffer<T> sums_;
};

// fn(begin, end) over the rows of the product, in pieces that are worth their dense rows.
template <typename F>
void over_rows(const Factors& f, const F& fn) {
  const int64_t work = f.columns / 4 + (1 << 14);
  parallel_for(0, f.a.count(), std::max<int64_t>(1, work / (f.a.per_row() * f.b.per_row())), fn);
}

// each(c, entry of a, entry of b) for all products that row r is a sum of.
template <typename F>
void over_products(const Factors& f, int64_t r, const F& each) {
  const auto [first, last] = f.a.row(r);
  for (int64_t e = first; e < last; ++e) {
    const auto [from, to] = f.b.row(f.a.column(e));
    for (int64_t k = from; k < to; ++k) each(f.b.column(k), e, k);
  }
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

Factors factors(const Tensor& crow, const Tensor& col, const Tensor& other_crow, const Tensor& other_col,
                int64_t columns, const char* op) {
  return {Rows(crow, col, other_crow.numel() - 1, op), Rows(other_crow, other_col, columns, op), columns};
}

}  // namespace

void csr_csr_starts(const Tensor& crow, const Tensor& col, const Tensor& other_crow, const Tensor& other_col,
                    int64_t columns, const Tensor& out) {
  const Factors f = factors(crow, col, other_crow, other_col, columns, "_csr_csr_starts");
  into_dense(out, ScalarType::Int64, [&](const Tensor& to) {
    int64_t* const counts = to.data<int64_t>() + 1;
    counts[-1] = 0;
    over_rows(f, [&](int64_t begin, int64_t end) {
      const TypedBuffer<int64_t> met(columns);  // the last row that met the column
      std::fill_n(met.get(), columns, -1);
      for (int64_t r = begin; r < end; ++r) {
        int64_t n = 0;
        over_products(f, r, [&](int64_t c, int64_t, int64_t) {
          n += met.get()[c] != r;
          met.get()[c] = r;
        });
        counts[r] = n;
      }
    });
    for (int64_t r = 0; r < f.a.count(); ++r) counts[r] += counts[r - 1];
  });
}

void csr_csr_product(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& other_crow,
                     const Tensor& other_col, const Tensor& other_values, int64_t columns, const Tensor& starts,
                     int64_t entries, const Tensor& out_products, const Tensor& out_places) {
  constexpr const char* op = "_csr_csr_product";
  const ScalarType type = compute_type(out_products.dtype());
  const Factors f = factors(crow, col, other_crow, other_col, columns, op);
  const Tensor begins = dense(starts, ScalarType::Int64);
  const Tensor x = dense_as(values, type), y = dense_as(other_values, type);
  into_dense(out_places, ScalarType::Int64, [&](const Tensor& places) {
    into_dense(out_products, type, [&](const Tensor& products) {
      visit_numbers(type, op, [&]<typename T>(std::type_identity<T>) {
        const T *const a = x.data<T>(), *const b = y.data<T>();
        over_rows(f, [&](int64_t begin, int64_t end) {
          Sums<T> sums(columns);
          std::vector<int64_t> met;
          for (int64_t r = begin; r < end; ++r, sums.next_row()) {
            met.clear();
            over_products(f, r, [&](int64_t c, int64_t i, int64_t j) { sums.add(c, a[i] * b[j], met); });
            const int64_t at = read_once(begins.data<int64_t>() + r);
            const int64_t next = read_once(begins.data<int64_t>() + r + 1);
            FACULA_CHECK(at >= 0 && next - at == static_cast<int64_t>(met.size()) && next <= entries, Index,
                         Operator{op}, Argument{"starts"}, " has ", next - at, " places for the ", met.size(),
                         " entries of row ", r);
            sums.sort(met);
            for (size_t i = 0; i < met.size(); ++i) {
              places.data<int64_t>()[at + static_cast<int64_t>(i)] = met[i];
              products.data<T>()[at + static_cast<int64_t>(i)] = sums.at(met[i]);
            }
          }
        });
      });
    });
  });
}

void csr_csr_sampled(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& other_crow,
                     const Tensor& other_col, const Tensor& other_values, int64_t columns, const Tensor& mask_crow,
                     const Tensor& mask_col, const Tensor& out) {
  constexpr const char* op = "_csr_csr_sampled";
  const ScalarType type = compute_type(out.dtype());
  const Factors f = factors(crow, col, other_crow, other_col, columns, op);
  const Rows mask(mask_crow, mask_col, columns, op);
  const Tensor x = dense_as(values, type), y = dense_as(other_values, type);
  into_dense(out, type, [&](const Tensor& to) {
    std::memset(to.raw(), 0, to.nbytes());  // entries of no row
    visit_numbers(type, op, [&]<typename T>(std::type_identity<T>) {
      const T *const a = x.data<T>(), *const b = y.data<T>();
      over_rows(f, [&](int64_t begin, int64_t end) {
        Sums<T> sums(columns);
        std::vector<int64_t> met;
        for (int64_t r = begin; r < end; ++r, sums.next_row()) {
          met.clear();
          over_products(f, r, [&](int64_t c, int64_t i, int64_t j) { sums.add(c, a[i] * b[j], met); });
          const auto [first, last] = mask.row(r);
          for (int64_t e = first; e < last; ++e) {
            const int64_t c = mask.column(e);
            to.data<T>()[e] = sums.has(c) ? sums.at(c) : T{};
          }
        }
      });
    });
  });
}

}  // namespace facula::cpu
