// Products of two matrices by compressed rows (CSR), row by row (Gustavson 1978): each entry of a row of the first
// adds a multiple of a row of the second to a dense row of sums.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "aten/cpu/common/bits.h"
#include "aten/cpu/common/dense.h"
#include "aten/cpu/sparse/loops.h"
#include "facula/kernels.h"
#include "runtime/iterate/parallel.h"

namespace facula::cpu {
namespace {

// A matrix by compressed rows. Its indices are copied, as other threads may write to them, and checked but once.
template <typename I>
class Rows {
 public:
  Rows(const Tensor& crow, const Tensor& col, int64_t columns, const char* op)
      : count_(crow.numel() - 1), entries_(col.numel()), first_(count_ + 1), column_(entries_) {
    const Tensor starts = dense(crow, ScalarType::Int64), places = dense(col, ScalarType::Int64);
    for (int64_t r = 0, least = 0; r <= count_; ++r) {
      const int64_t at = first_.get()[r] = read_once(starts.data<int64_t>() + r);
      FACULA_CHECK(at >= least && at <= entries_, Index, Operator{op}, Argument{"crow"},
                   " must not fall, and must stay within the ", entries_, " entries; row ", std::max<int64_t>(r - 1, 0),
                   " goes from ", least, " to ", at);
      least = at;
    }
    for (int64_t e = 0; e < entries_; ++e) {
      const int64_t c = read_once(places.data<int64_t>() + e);
      FACULA_CHECK(c >= 0 && c < columns, Index, Operator{op}, "column ", c, " of entry ", e, " is not within the ",
                   columns, " columns of the matrix");
      column_.get()[e] = static_cast<I>(c);
    }
  }

  int64_t count() const { return count_; }
  int64_t per_row() const { return entries_ / std::max<int64_t>(count_, 1) + 1; }

  struct Range {
    int64_t first, last;
  };
  Range row(int64_t r) const { return {first_.get()[r], first_.get()[r + 1]}; }
  const I* columns() const { return column_.get(); }

 private:
  int64_t count_, entries_;
  TypedBuffer<int64_t> first_;
  TypedBuffer<I> column_;
};

template <typename I>
struct Factors {
  Rows<I> a, b;
  int64_t columns;  // of b
};

// A set of columns: a bit each, and above them a bit for each word that is not empty.
class Columns {
 public:
  explicit Columns(int64_t columns) : tops_(columns / 4096 + 1), words_(columns / 64 + 1), top_(tops_) {
    std::fill_n(words_.get(), columns / 64 + 1, uint64_t{0});
    std::fill_n(top_.get(), tops_, uint64_t{0});
  }
  void add(size_t c) {
    words_.get()[c / 64] |= uint64_t{1} << c % 64;
    top_.get()[c / 4096] |= uint64_t{1} << c / 64 % 64;
  }
  // each(column) in order, of which none is left then.
  template <typename F>
  void take(const F& each) {
    uint64_t* const words = words_.get();
    for (int64_t t = 0; t < tops_; ++t) {
      for (uint64_t top = std::exchange(top_.get()[t], 0); top != 0; top &= top - 1) {
        const int64_t w = t * 64 + std::countr_zero(top);
        for (uint64_t word = std::exchange(words[w], 0); word != 0; word &= word - 1) {
          each(w * 64 + std::countr_zero(word));
        }
      }
    }
  }

 private:
  int64_t tops_;
  TypedBuffer<uint64_t> words_, top_;
};

// A dense row of sums, zero where there are none, for one row of the product after the other. Those of float32 are made
// in double, as each may have many terms.
template <typename T>
class Sums {
  using Wide = wide_t<T>;

 public:
  explicit Sums(int64_t columns) : met_(columns), sums_(columns) { std::fill_n(sums_.get(), columns, Wide{}); }
  void add(size_t c, T v) {
    met_.add(c);
    sums_.get()[c] += static_cast<Wide>(v);
  }
  T at(size_t c) const { return static_cast<T>(sums_.get()[c]); }
  // each(column, sum) in the order of columns, of which none is left then.
  template <typename F>
  void take(const F& each) {
    Wide* const sums = sums_.get();
    met_.take([&](int64_t c) { each(c, static_cast<T>(std::exchange(sums[c], Wide{}))); });
  }

 private:
  Columns met_;
  TypedBuffer<Wide> sums_;
};

// fn(begin, end) over the rows of the product, in pieces that are worth their dense rows.
template <typename I, typename F>
void over_rows(const Factors<I>& f, const F& fn) {
  const int64_t work = f.columns / 4 + (1 << 14);
  parallel_for(0, f.a.count(), std::max<int64_t>(1, work / (f.a.per_row() * f.b.per_row())), fn);
}

// each(c, entry of a, entry of b) for all products that row r is a sum of.
template <typename I, typename F>
void over_products(const Factors<I>& f, int64_t r, const F& each) {
  const I *const inner = f.a.columns(), *const outer = f.b.columns();
  const auto [first, last] = f.a.row(r);
  for (int64_t e = first; e < last; ++e) {
    const auto [from, to] = f.b.row(static_cast<int64_t>(inner[e]));
    for (int64_t k = from; k < to; ++k) each(static_cast<size_t>(outer[k]), e, k);
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

// fn(factors), with indices of 32 bits where these hold them.
template <typename F>
void visit_factors(const Tensor& crow, const Tensor& col, const Tensor& other_crow, const Tensor& other_col,
                   int64_t columns, const char* op, const F& fn) {
  const int64_t inner = other_crow.numel() - 1;
  const auto visit = [&]<typename I>(std::type_identity<I>) {
    fn(Factors<I>{Rows<I>(crow, col, inner, op), Rows<I>(other_crow, other_col, columns, op), columns});
  };
  if (std::max(inner, columns) <= std::numeric_limits<uint32_t>::max()) return visit(std::type_identity<uint32_t>{});
  visit(std::type_identity<int64_t>{});
}

}  // namespace

void csr_csr_starts(const Tensor& crow, const Tensor& col, const Tensor& other_crow, const Tensor& other_col,
                    int64_t columns, const Tensor& out) {
  into_dense(out, ScalarType::Int64, [&](const Tensor& to) {
    int64_t* const counts = to.data<int64_t>() + 1;
    counts[-1] = 0;
    visit_factors(crow, col, other_crow, other_col, columns, "_csr_csr_starts", [&](const auto& f) {
      over_rows(f, [&](int64_t begin, int64_t end) {
        const TypedBuffer<uint32_t> marks(columns);  // of the last row that met the column
        uint32_t* const met = marks.get();
        uint32_t mark = 0;
        for (int64_t r = begin; r < end; ++r) {
          if (r == begin || ++mark == 0) {
            std::fill_n(met, columns, 0U);
            mark = 1;
          }
          int64_t n = 0;
          over_products(f, r, [&](size_t c, int64_t, int64_t) {
            n += met[c] != mark;
            met[c] = mark;
          });
          counts[r] = n;
        }
      });
      for (int64_t r = 0; r < f.a.count(); ++r) counts[r] += counts[r - 1];
    });
  });
}

void csr_csr_product(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& other_crow,
                     const Tensor& other_col, const Tensor& other_values, int64_t columns, const Tensor& starts,
                     int64_t entries, const Tensor& out_products, const Tensor& out_places) {
  constexpr const char* op = "_csr_csr_product";
  const ScalarType type = compute_type(out_products.dtype());
  const Tensor begins = dense(starts, ScalarType::Int64);
  const Tensor x = dense_as(values, type), y = dense_as(other_values, type);
  into_dense(out_places, ScalarType::Int64, [&](const Tensor& places) {
    into_dense(out_products, type, [&](const Tensor& products) {
      visit_factors(crow, col, other_crow, other_col, columns, op, [&](const auto& f) {
        visit_numbers(type, op, [&]<typename T>(std::type_identity<T>) {
          const T *const a = x.data<T>(), *const b = y.data<T>();
          int64_t* const to_places = places.data<int64_t>();
          T* const to_products = products.data<T>();
          over_rows(f, [&](int64_t begin, int64_t end) {
            Sums<T> sums(columns);
            for (int64_t r = begin; r < end; ++r) {
              over_products(f, r, [&](size_t c, int64_t i, int64_t j) { sums.add(c, a[i] * b[j]); });
              int64_t at = read_once(begins.data<int64_t>() + r);
              const int64_t next = read_once(begins.data<int64_t>() + r + 1);
              const auto misfit = [&] {
                raise(ErrorKind::Index, Operator{op}, Argument{"starts"}, " has places for another number of entries",
                      " than row ", r, " has");
              };
              if (at < 0 || next > entries) misfit();
              sums.take([&](int64_t c, T sum) {
                if (at >= next) misfit();
                to_places[at] = c;
                to_products[at++] = sum;
              });
              if (at != next) misfit();
            }
          });
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
  const Tensor x = dense_as(values, type), y = dense_as(other_values, type);
  into_dense(out, type, [&](const Tensor& to) {
    if (to.nbytes() > 0) std::memset(to.raw(), 0, to.nbytes());  // entries of no row
    visit_factors(crow, col, other_crow, other_col, columns, op, [&]<typename I>(const Factors<I>& f) {
      const Rows<I> mask(mask_crow, mask_col, columns, op);
      visit_numbers(type, op, [&]<typename T>(std::type_identity<T>) {
        const T *const a = x.data<T>(), *const b = y.data<T>();
        over_rows(f, [&](int64_t begin, int64_t end) {
          Sums<T> sums(columns);
          for (int64_t r = begin; r < end; ++r) {
            over_products(f, r, [&](size_t c, int64_t i, int64_t j) { sums.add(c, a[i] * b[j]); });
            const auto [first, last] = mask.row(r);
            for (int64_t e = first; e < last; ++e) to.data<T>()[e] = sums.at(mask.columns()[e]);
            sums.take([](int64_t, T) {});
          }
        });
      });
    });
  });
}

}  // namespace facula::cpu
