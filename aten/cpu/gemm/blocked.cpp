#include "aten/cpu/gemm/blocked.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "aten/cpu/common/dense.h"
#include "aten/cpu/common/tuning.h"
#include "aten/cpu/gemm/loops.h"
#include "runtime/core/rounding.h"
#include "runtime/core/interrupt.h"
#include "runtime/iterate/parallel.h"

namespace facula::cpu {
namespace {

struct Caches {
  int64_t first, second;  // bytes of data, of one core
};

int64_t cache_bytes([[maybe_unused]] int level, int64_t otherwise) {
  int64_t found = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
  found = sysconf(level == 1 ? _SC_LEVEL1_DCACHE_SIZE : _SC_LEVEL2_CACHE_SIZE);
#endif
  return found > 0 ? found : otherwise;
}

const Caches& caches() {
  static const Caches found{std::clamp<int64_t>(cache_bytes(1, 32 << 10), 16 << 10, 128 << 10),
                            std::clamp<int64_t>(cache_bytes(2, 512 << 10), 256 << 10, 4 << 20)};
  return found;
}

using tuning::kGemmWork;
using tuning::kPackRows;

template <typename T>
class Blocked {
 public:
  Blocked(int64_t m, int64_t n, int64_t k, T alpha, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c,
          const T* bias = nullptr, int64_t deepest = std::numeric_limits<int64_t>::max())
      : loops_(gemm_loops<T>()),
        m_(m),
        n_(n),
        k_(k),
        alpha_(alpha),
        beta_(beta),
        a_(a),
        b_(b),
        c_(c),
        bias_(bias),
        deepest_(deepest) {
    nr_ = loops_.nr;
    mr_ = even_panel(m, loops_.mr);
    // A panel of A and one of B fit the first-level cache, a block of B takes half of the second.
    const int64_t most = std::max<int64_t>(64, caches().first / ((loops_.mr + nr_) * size_of()) / 16 * 16);
    depth_ = k <= most + most / 8 ? k : std::min(k, round_up(ceil_div(k, ceil_div(k, most)), 16));
    const int64_t cols = std::max<int64_t>(4, caches().second / 2 / (depth_ * nr_ * size_of()));
    const int64_t panels = ceil_div(n, nr_);
    cols_ = ceil_div(panels, ceil_div(panels, cols)) * nr_;
    const int64_t tiles = ceil_div(std::min(n_, cols_), nr_);
    // A read once or twice is not worth packing.
    direct_a_ = alpha == T(1) && a.row >= 0 && a.col >= 0 &&
                (a.col == 1   ? stays_cached(mr_, tiles <= 2 ? 64 : depth_ * size_of(), a.row * size_of())
                 : a.row == 1 ? tiles <= tuning::kUnpackedTiles
                              : false);
    direct_b_ = b.col == 1 && b.row >= 0 &&
                (m <= tuning::kUnpackedPanels * mr_ || (b.row <= 4 * n && k * b.row * size_of() <= caches().first));
  }

  bool tiles_only() const { return direct_a_ && direct_b_ && depth_ == k_; }

  void run() {
    const double work = static_cast<double>(m_) * static_cast<double>(n_) * static_cast<double>(k_);
    if (work < 2.0 * kGemmWork || get_num_threads() == 1 || in_parallel_region()) {
      for (int64_t j = 0; j < n_; j += cols_) block(0, m_, j, std::min(n_, j + cols_), nullptr, 0);
      return;
    }
    // Enough pieces that a thread whose core is busy elsewhere does not hold up the others.
    const int64_t wanted = std::max<int64_t>(
        2, std::min<int64_t>(get_num_threads() * tuning::kPiecesOfThread, static_cast<int64_t>(work / kGemmWork)));
    if (direct_b_) {
      const int64_t rows = ceil_div(ceil_div(m_, mr_), wanted) * mr_;
      const int64_t across = ceil_div(wanted, ceil_div(m_, rows));
      split(rows, std::max(nr_, round_up(ceil_div(n_, across), nr_)), nullptr, 0, n_);
    } else if (direct_a_ && work < static_cast<double>(tuning::kShareWork * kGemmWork) &&
               ceil_div(n_, nr_) >= 2 * get_num_threads()) {
      // Each thread packs the columns of B that it needs.
      split(m_, std::min(cols_, round_up(ceil_div(n_, wanted), nr_)), nullptr, 0, n_);
    } else {
      share(wanted);
    }
  }

 private:
  static constexpr int64_t size_of() { return static_cast<int64_t>(sizeof(T)); }

  // B packed once, by all threads, in strips of columns that are not too large.
  void share(int64_t wanted) {
    const int64_t strip = std::max(cols_, tuning::kSharedElements / k_ / cols_ * cols_);
    const int64_t panels = ceil_div(std::min(strip, n_), nr_);
    const TypedBuffer<T> packed(panels * nr_ * k_);
    for (int64_t j0 = 0; j0 < n_; j0 += strip) {
      const int64_t nj = std::min(strip, n_ - j0), count = ceil_div(nj, nr_), wide = count * nr_;
      const int64_t slices = ceil_div(k_, depth_);
      // By rows of B where they are contiguous, else by panels.
      const bool rows = b_.col == 1;
      const int64_t run = tuning::kPackPanels * nr_, runs = ceil_div(nj, run);
      const int64_t parts = rows ? ceil_div(depth_, kPackRows) * runs : count;
      const int64_t grain = grain_for(rows ? kPackRows * std::min(run, nj) : depth_ * nr_);
      parallel_for(0, parts * slices, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t p0 = i / parts * depth_, np = std::min(depth_, k_ - p0), at = i % parts;
          T* to = packed.get() + p0 * wide;
          if (rows) {
            const int64_t p = at / runs * kPackRows, j = at % runs * run;
            pack_columns(p0 + p, std::min(kPackRows, np - p), j0 + j, j0 + std::min(nj, j + run), np,
                         to + j * np + p * nr_);
          } else {
            pack_columns(p0, np, j0 + at * nr_, j0 + std::min(nj, (at + 1) * nr_), np, to + at * nr_ * np);
          }
        }
      });
      const int64_t across = ceil_div(nj, cols_);
      const int64_t down = std::min(ceil_div(m_, mr_), std::max(ceil_div(wanted, across), ceil_div(m_, 16 * mr_)));
      split(ceil_div(ceil_div(m_, mr_), down) * mr_, cols_, packed.get(), j0, nj);
    }
  }

  // Pieces of rows x cols of the columns [j0, j0 + nj), side by side.
  void split(int64_t rows, int64_t cols, const T* packed, int64_t j0, int64_t nj) {
    const int64_t down = ceil_div(m_, rows), across = ceil_div(nj, cols);
    parallel_for(0, down * across, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t i = item % down * rows, j = item / down * cols;
        for (int64_t part = j; part < std::min(nj, j + cols); part += cols_) {
          block(i, std::min(m_, i + rows), j0 + part, j0 + std::min({nj, j + cols, part + cols_}), packed, j0,
                round_up(nj, nr_));
        }
      }
    });
  }

  // Columns [j0, j1) of the depths [p0, p0 + np) of B as panels of `pitch` depths from `to` on: rows are read whole, as
  // they lie, a few at a time.
  void pack_columns(int64_t p0, int64_t np, int64_t j0, int64_t j1, int64_t pitch, T* to) const {
    const int64_t step = b_.col == 1 ? kPackRows : np;
    for (int64_t p = 0; p < np; p += step) {
      for (int64_t j = j0; j < j1; j += nr_) {
        loops_.pack(std::min(step, np - p), std::min(nr_, n_ - j), nr_, b_.data + (p0 + p) * b_.row + j * b_.col,
                    b_.col, b_.row, to + (j - j0) * pitch + p * nr_);
      }
    }
  }

  // C rows [i0, i1), columns [j0, j1), at most cols_ wide; `packed` holds the `wide` columns of B from `origin` on,
  // slice by slice of the depth, if another has packed them.
  void block(int64_t i0, int64_t i1, int64_t j0, int64_t j1, const T* packed, int64_t origin, int64_t wide = 0) const {
    if (beta_ != T(0) && beta_ != T(1)) {
      for (int64_t i = i0; i < i1; ++i) {
        for (int64_t j = j0; j < j1; ++j) c_.data[i * c_.row + j] *= beta_;
      }
    }
    const int64_t panel = direct_a_ ? 0 : round_up(mr_ * depth_, 16);
    const int64_t own = direct_b_ || packed != nullptr ? 0 : depth_ * round_up(j1 - j0, nr_);
    const TypedBuffer<T> buffer(panel + own);
    T *pa = buffer.get(), *pb = pa + panel;
    for (int64_t p0 = 0; p0 < k_; p0 += depth_) {
      const int64_t np = std::min(depth_, k_ - p0);
      const T* from = packed != nullptr ? packed + p0 * wide + (j0 - origin) * np : pb;
      if (own > 0) {
        pack_columns(p0, np, j0, j1, np, pb);
      }
      for (int64_t i = i0; i < i1; i += mr_) {
        count_step();
        const int64_t rows = std::min(mr_, i1 - i);
        const T* at = a_.data + i * a_.row + p0 * a_.col;
        int64_t row = a_.row, col = a_.col;
        if (!direct_a_) {
          loops_.pack(np, rows, mr_, at, row, col, pa);
          if (alpha_ != T(1)) {
            for (int64_t x = 0; x < np * mr_; ++x) pa[x] *= alpha_;
          }
          at = pa, row = 1, col = mr_;
        }
        for (int64_t j = j0; j < j1; j += nr_) {
          const T* columns = direct_b_ ? b_.data + p0 * b_.row + j : from + (j - j0) * np;
          T* to = c_.data + i * c_.row + j;
          const bool biased = p0 == 0 && bias_ != nullptr;
          const T* onto = biased ? bias_ + j : p0 > 0 || beta_ != T(0) ? to : nullptr;
          const int64_t b_row = direct_b_ ? b_.row : nr_, cols = std::min(nr_, j1 - j);
          loops_.tile_onto(std::min(np, deepest_), at, row, col, columns, b_row, onto, biased ? 0 : c_.row, to, c_.row,
                           rows, cols);
          for (int64_t p = deepest_; p < np; p += deepest_) {
            loops_.tile_onto(std::min(deepest_, np - p), at + p * col, row, col, columns + p * b_row, b_row, to, c_.row,
                             to, c_.row, rows, cols);
          }
        }
      }
    }
  }

  const GemmLoops<T>& loops_;
  int64_t m_, n_, k_;
  T alpha_, beta_;
  Matrix<const T> a_, b_;
  Matrix<T> c_;
  const T* bias_;
  int64_t deepest_, mr_, nr_, depth_, cols_;
  bool direct_a_, direct_b_;
};

}  // namespace

bool stays_cached(int64_t rows, int64_t bytes, int64_t stride) {
  constexpr int64_t kLine = 64, kSets = 64, kWays = 8;
  const int64_t lines = bytes / kLine + 1, gap = std::gcd(stride / kLine % kSets, kSets), places = kSets / gap;
  const int64_t used =
      places >= rows ? rows * lines / kSets + 2 : ceil_div(rows, places) * ceil_div(lines, std::max<int64_t>(gap, 1));
  return used <= kWays;
}

template <typename T>
void blocked_gemm(int64_t m, int64_t n, int64_t k, T alpha, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c,
                  const T* bias) {
  Blocked<T>(m, n, k, alpha, a, b, beta, c, bias).run();
}

template <typename T>
void shallow_gemm(int64_t m, int64_t n, int64_t k, int64_t deepest, Matrix<const T> a, Matrix<const T> b, Matrix<T> c) {
  Blocked<T>(m, n, k, T(1), a, b, T(0), c, nullptr, deepest).run();
}

template <typename T>
bool fits_tiles(int64_t m, int64_t n, int64_t k, T alpha, Matrix<const T> a, Matrix<const T> b, Matrix<T> c) {
  return m > 0 && n > 0 && k > 0 && c.col == 1 && (m + n) * k * static_cast<int64_t>(sizeof(T)) <= caches().first &&
         Blocked<T>(m, n, k, alpha, a, b, T(0), c).tiles_only();
}

template <typename T>
void tiles_gemm(int64_t m, int64_t n, int64_t k, Matrix<const T> a, Matrix<const T> b, bool accumulate, Matrix<T> c) {
  const GemmLoops<T>& loops = gemm_loops<T>();
  const int64_t mr = even_panel(m, loops.mr), nr = loops.nr;
  for (int64_t i = 0; i < m; i += mr) {
    for (int64_t j = 0; j < n; j += nr) {
      loops.near_tile(k, a.data + i * a.row, a.row, a.col, b.data + j, b.row, c.data + i * c.row + j, c.row,
                      std::min(mr, m - i), std::min(nr, n - j), accumulate);
    }
  }
}

#define FACULA_BLOCKED_FOR(T)                                                                                     \
  template void blocked_gemm<T>(int64_t, int64_t, int64_t, T, Matrix<const T>, Matrix<const T>, T, Matrix<T>,     \
                                const T*);                                                                        \
  template void shallow_gemm<T>(int64_t, int64_t, int64_t, int64_t, Matrix<const T>, Matrix<const T>, Matrix<T>); \
  template bool fits_tiles<T>(int64_t, int64_t, int64_t, T, Matrix<const T>, Matrix<const T>, Matrix<T>);         \
  template void tiles_gemm<T>(int64_t, int64_t, int64_t, Matrix<const T>, Matrix<const T>, bool, Matrix<T>);
FACULA_BLOCKED_FOR(float)
FACULA_BLOCKED_FOR(double)
#undef FACULA_BLOCKED_FOR

}  // namespace facula::cpu
