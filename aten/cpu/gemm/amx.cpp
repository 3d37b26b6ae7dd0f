#include "aten/cpu/gemm/amx.h"

#include "aten/cpu/common/dense.h"
#include "aten/cpu/common/fetch_ahead.h"
#include "aten/cpu/common/tuning.h"
#include "runtime/core/rounding.h"
#include "runtime/core/facts.h"
#include "runtime/iterate/isa.h"
#include "runtime/iterate/stream.h"

#if defined(__x86_64__) && defined(__linux__)

// False alarms of gcc 12 in its own header (gcc bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace facula::cpu::amx {
namespace {

// Functions that use tiles are compiled for them, whatever the rest of the file is compiled for.
#define FACULA_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl")))

// A tile has 16 rows of 64 bytes: 32 elements along the depth, or 16 columns of sums.
constexpr int64_t kSide = 16, kDepth = 32, kBlock = 2 * kSide;
constexpr int64_t kTile = kSide * kDepth;  // elements of a tile

bool detect() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  const bool tiles = (d >> 24 & 1) != 0, products = (d >> 22 & 1) != 0, wide = (b >> 16 & 1) != 0 && (b >> 30 & 3) == 3;
  if (!tiles || !products || !wide) return false;
  unsigned low = 0, high = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c >> 27 & 1) == 0) return false;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kState = 1u << 17 | 1u << 18 | 0xE6;
  if ((low & kState) != kState) return false;
  // Linux gives the large state to a process on request, for all its threads.
  constexpr long kRequest = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

struct alignas(64) Config {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {kSide, kSide, kSide, kSide, kSide, kSide, kSide, kSide};
};
// Static: gcc's intrinsic names only its first bytes as read.
const Config kConfig;

FACULA_AMX void configure() { _tile_loadconfig(&kConfig); }

FACULA_AMX void release() { _tile_release(); }

// Where the tiles of a panel of rows lie: `row` elements between the rows of a tile, `step` between depths.
struct Rows {
  const uint16_t* data;
  int64_t row, step;
  const uint16_t* second(const uint16_t* first) const { return first + (row == kDepth ? kTile : kSide * row); }
};

// Sums (32, 32) = or += two row tiles times two column tiles at each depth; without Tall or Wide the second of
// either is all zeros and left out. Rows are loaded as a stream, which leaves the columns in the first-level cache.
template <bool Tall, bool Wide>
FACULA_AMX void multiply(int64_t depth, const Rows& rows, const uint16_t* b, float* sums, bool accumulate,
                         Ahead<char>& ahead) {
  float *right = sums + kSide, *below = sums + kSide * kBlock, *corner = below + kSide;
  constexpr int kStep = kBlock * 4;
  if (accumulate) {
    _tile_loadd(0, sums, kStep);
    if (Wide) _tile_loadd(1, right, kStep);
    if (Tall) _tile_loadd(2, below, kStep);
    if (Tall && Wide) _tile_loadd(3, corner, kStep);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const int64_t apart = rows.row * 2;
  const uint16_t *a = rows.data, *below_a = rows.second(a);
  for (int64_t p = 0; p < depth; ++p, a += rows.step, below_a += rows.step, b += 2 * kTile) {
    for (int64_t x = 0; x < ahead.step; x += 64) _mm_prefetch(ahead.base + x, _MM_HINT_T1);
    ahead.base += ahead.step;
    _tile_stream_loadd(4, a, apart);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (Wide) {
      _tile_loadd(7, b + kTile, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (Tall) {
      _tile_stream_loadd(5, below_a, apart);
      _tile_dpbf16ps(2, 5, 6);
      if (Wide) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums, kStep);
  if (Wide) _tile_stored(1, right, kStep);
  if (Tall) _tile_stored(2, below, kStep);
  if (Tall && Wide) _tile_stored(3, corner, kStep);
}

// Rows of 16 pairs become columns.
FACULA_AMX inline void transpose_pairs(__m512i (&r)[kSide]) {
  __m512i t[kSide];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const __m512i a = _mm512_unpacklo_epi32(r[i], r[i + 1]), b = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    const __m512i c = _mm512_unpacklo_epi32(r[i + 2], r[i + 3]), d = _mm512_unpackhi_epi32(r[i + 2], r[i + 3]);
    t[i] = _mm512_unpacklo_epi64(a, c);
    t[i + 1] = _mm512_unpackhi_epi64(a, c);
    t[i + 2] = _mm512_unpacklo_epi64(b, d);
    t[i + 3] = _mm512_unpackhi_epi64(b, d);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xDD);
    const __m512i c = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x88);
    const __m512i d = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xDD);
    r[i] = _mm512_shuffle_i32x4(a, c, 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(a, c, 0xDD);
    r[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(b, d, 0xDD);
  }
}

struct alignas(64) Interleaved {
  uint16_t low[kBlock], high[kBlock];
  constexpr Interleaved() : low(), high() {
    for (int i = 0; i < kBlock; ++i) {
      low[i] = static_cast<uint16_t>(i / 2 + i % 2 * kBlock);
      high[i] = static_cast<uint16_t>(low[i] + kSide);
    }
  }
};
constexpr Interleaved kInterleaved;

// pack() for columns whose 32 lines are neighbours at each depth: pairs of depths are interleaved as they lie.
FACULA_AMX void pack_whole_pairs(int64_t k, const uint16_t* from, int64_t along, uint16_t* to) {
  const __m512i low = _mm512_load_si512(kInterleaved.low), high = _mm512_load_si512(kInterleaved.high);
  for (int64_t p = 0; p < k; p += 2) {
    const uint16_t* at = from + p * along;
    const __m512i even = _mm512_loadu_si512(at), odd = _mm512_loadu_si512(at + along);
    uint16_t* out = to + p / kDepth * 2 * kTile + p % kDepth / 2 * kBlock;
    _mm512_storeu_si512(out, _mm512_permutex2var_epi16(even, low, odd));
    _mm512_storeu_si512(out + kTile, _mm512_permutex2var_epi16(even, high, odd));
  }
}

// Up to 32 lines (rows of A, columns of B) as two tiles of each depth, padded with zeros. A tile of A has a line in
// each row; one of B (`pairs`) has two depths of 16 lines in each row. Either is the other's transpose in pairs.
// Element (i, p) is from[i * line + p * along].
FACULA_AMX void pack(int64_t count, int64_t k, const uint16_t* from, int64_t line, int64_t along, bool pairs,
                     uint16_t* to) {
  if (pairs && line == 1 && count == kBlock && k % kDepth == 0) {
    pack_whole_pairs(k, from, along, to);
    return;
  }
  for (int64_t p = 0; p < k; p += kDepth) {
    const int64_t np = std::min(kDepth, k - p);
    for (int64_t half = 0; half < 2; ++half, to += kTile) {
      const int64_t lines = std::clamp<int64_t>(count - half * kSide, 0, kSide);
      const uint16_t* base = from + half * kSide * line + p * along;
      if (lines == 0) {
        std::memset(to, 0, kTile * 2);
        continue;
      }
      __m512i r[kSide];
      if (along == 1) {
        const auto mask = static_cast<__mmask32>((uint64_t{1} << np) - 1);
#pragma GCC unroll 16
        for (int i = 0; i < kSide; ++i) {
          r[i] = i < lines ? _mm512_maskz_loadu_epi16(mask, base + i * line) : _mm512_setzero_si512();
        }
      } else if (line == 1) {
        const auto mask = static_cast<__mmask16>((1u << lines) - 1);
#pragma GCC unroll 16
        for (int i = 0; i < kSide; ++i) {
          const __m256i zero = _mm256_setzero_si256();
          const __m256i even = 2 * i < np ? _mm256_maskz_loadu_epi16(mask, base + 2 * i * along) : zero;
          const __m256i odd = 2 * i + 1 < np ? _mm256_maskz_loadu_epi16(mask, base + (2 * i + 1) * along) : zero;
          r[i] = _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
        }
      } else {
        uint16_t apart[kTile] = {};
        for (int64_t i = 0; i < lines; ++i) {
          for (int64_t j = 0; j < np; ++j) apart[i * kDepth + j] = base[i * line + j * along];
        }
        for (int i = 0; i < kSide; ++i) r[i] = _mm512_loadu_si512(apart + i * kDepth);
      }
      const bool in_pairs = along != 1 && line == 1;
      if (in_pairs != pairs) transpose_pairs(r);
#pragma GCC unroll 16
      for (int i = 0; i < kSide; ++i) _mm512_storeu_si512(to + i * kDepth, r[i]);
    }
  }
}

// 16 sums rounded to even; NaN stays NaN.
FACULA_AMX __m256i round_sums(__m512 v) {
  const __m512i w = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(w, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(w, _mm512_set1_epi32(0x7FFF)), odd), 16);
  const __m512i nan = _mm512_or_si512(_mm512_srli_epi32(w, 16), _mm512_set1_epi32(0x40));
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan));
}

// 16 of them as results: alpha times a sum plus beta times what `from` has where the mask is set.
FACULA_AMX inline __m256i results(const float* sums, float alpha, float beta, const BFloat16* from, __mmask16 mask) {
  __m512 v = _mm512_mul_ps(_mm512_loadu_ps(sums), _mm512_set1_ps(alpha));
  if (beta != 0) {
    const __m512i old = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from)), 16);
    v = _mm512_add_ps(v, _mm512_mul_ps(_mm512_castsi512_ps(old), _mm512_set1_ps(beta)));
  }
  return round_sums(v);
}

// C (rows, cols) = alpha sums + beta D, D being C where it is null, else one row for all. `stream`: by streaming
// stores.
FACULA_AMX void store(int64_t rows, int64_t cols, const float* sums, float alpha, float beta, const BFloat16* d,
                      Matrix<BFloat16> c, bool stream) {
  for (int64_t i = 0; i < rows; ++i, sums += kBlock) {
    BFloat16* row = c.data + i * c.row;
    if (c.col != 1) {
      for (int64_t j = 0; j < cols; ++j) {
        const float v = alpha * sums[j];
        row[j * c.col] = BFloat16(beta == 0 ? v : v + beta * static_cast<float>(row[j * c.col]));
      }
      continue;
    }
    const BFloat16* from = d != nullptr ? d : row;
    if (cols == kBlock) {
      const __m256i low = results(sums, alpha, beta, from, 0xFFFF);
      const __m256i high = results(sums + kSide, alpha, beta, from + kSide, 0xFFFF);
      const __m512i line = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
      stream ? _mm512_stream_si512(reinterpret_cast<__m512i*>(row), line) : _mm512_storeu_si512(row, line);
      continue;
    }
    for (int64_t j = 0; j < cols; j += kSide) {
      const auto mask = static_cast<__mmask16>((1u << std::min(kSide, cols - j)) - 1);
      _mm256_mask_storeu_epi16(row + j, mask, results(sums + j, alpha, beta, from + j, mask));
    }
  }
}

// Sums of a panel go to the totals; of the last ones the totals come back.
inline void add_up(float* sums, double* totals, bool first, bool last) {
  for (int64_t x = 0; x < kBlock * kBlock; ++x) {
    totals[x] = (first ? 0 : totals[x]) + static_cast<double>(sums[x]);
    if (last) sums[x] = static_cast<float>(totals[x]);
  }
}

// The product's factors as packed panels of up to 32 rows or columns.
class Product {
 public:
  Product(int64_t m, int64_t n, int64_t k, float alpha, float beta, Matrix<const BFloat16> a,
          const BFloat16* bias = nullptr)
      : m_(m),
        n_(n),
        k_(k),
        depth_(ceil_div(k, kDepth)),
        panel_(depth_ * 2 * kTile),
        alpha_(alpha),
        beta_(bias != nullptr ? 1 : beta),
        bias_(bias) {
    // Rows of neighbouring elements are taken where they lie, as far as whole tiles of them go.
    if (a.col == 1 && a.row >= k && a.row != kDepth && k % kDepth == 0) first_packed_ = m / kBlock;
  }

  int64_t first_packed() const { return first_packed_; }
  int64_t row_panels() const { return ceil_div(m_, kBlock); }
  int64_t column_panels() const { return ceil_div(n_, kBlock); }
  int64_t size() const { return (row_panels() + column_panels()) * panel_; }

  void prepare_rows(int64_t i, Matrix<const BFloat16> a, uint16_t* packed) const {
    pack(std::min(kBlock, m_ - i * kBlock), k_, bits(a) + i * kBlock * a.row, a.row, a.col, false, packed + i * panel_);
  }

  // Column panels are packed a depth of tiles at a time, in the order in which B lies in memory.
  int64_t column_pieces() const { return column_panels() * depth_; }
  void prepare_columns(int64_t piece, Matrix<const BFloat16> b, uint16_t* packed) const {
    const int64_t columns = column_panels();
    const bool across = b.col == 1;
    const int64_t j = across ? piece % columns : piece / depth_, d = across ? piece / columns : piece % depth_;
    pack(std::min(kBlock, n_ - j * kBlock), std::min(kDepth, k_ - d * kDepth),
         bits(b) + j * kBlock * b.col + d * kDepth * b.row, b.col, b.row, true,
         packed + (row_panels() + j) * panel_ + d * 2 * kTile);
  }

  // Row panels of a group: they stay in the second-level cache beside the columns that pass through it.
  int64_t group() const {
    const int64_t most = std::clamp<int64_t>(tuning::kAmxGroupBytes / (panel_ * 2), 1, tuning::kAmxGroupPanels);
    return ceil_div(row_panels(), ceil_div(row_panels(), most));
  }

  // Whether C is written by streaming stores, in whole lines.
  bool streams(Matrix<BFloat16> c) const {
    return m_ * n_ * 2 >= kStreamBytes && c.col == 1 && c.row % kBlock == 0 && whole_lines(c.data);
  }

  // Row panels [i0, i1) with column panel j: a slice of the column stays in the first-level cache, and the next
  // column comes into the second meanwhile.
  FACULA_AMX void compute(int64_t i0, int64_t i1, int64_t j, Matrix<const BFloat16> a, const uint16_t* packed,
                          Matrix<BFloat16> c) const {
    alignas(64) float sums[tuning::kAmxGroupPanels][kBlock * kBlock];
    const uint16_t* columns = packed + (row_panels() + j) * panel_;
    const int64_t cols = std::min(kBlock, n_ - j * kBlock);
    const int64_t slice = ceil_div(depth_, ceil_div(depth_, tuning::kAmxSlice));
    const bool stream = cols == kBlock && streams(c);
    Ahead<char> ahead{reinterpret_cast<const char*>(columns + panel_),
                      j + 1 < column_panels() ? 64 * ceil_div(2 * kTile * 2 / 64, i1 - i0) : 0};
    // Sums of long products are emptied into doubles every so many slices, or they would lose digits.
    const int64_t run = k_ > tuning::kGemmLong ? ceil_div(tuning::kGemmDepth, slice * kDepth) * slice : depth_;
    const TypedBuffer<double> totals(run < depth_ ? (i1 - i0) * kBlock * kBlock : 0);
    for (int64_t d = 0; d < depth_; d += slice) {
      const int64_t depths = std::min(slice, depth_ - d);
      const bool more = d % run > 0;
      for (int64_t i = i0; i < i1; ++i) {
        const uint16_t* y = columns + d * 2 * kTile;
        const Rows x = i < first_packed_ ? Rows{bits(a) + i * kBlock * a.row + d * kDepth, a.row, kDepth}
                                         : Rows{packed + i * panel_ + d * 2 * kTile, kDepth, 2 * kTile};
        const bool tall = m_ - i * kBlock > kSide, wide = cols > kSide;
        if (tall) {
          wide ? multiply<true, true>(depths, x, y, sums[i - i0], more, ahead)
               : multiply<true, false>(depths, x, y, sums[i - i0], more, ahead);
        } else {
          wide ? multiply<false, true>(depths, x, y, sums[i - i0], more, ahead)
               : multiply<false, false>(depths, x, y, sums[i - i0], more, ahead);
        }
        const bool last = d + slice >= depth_;
        if (run < depth_ && (last || (d + slice) % run == 0)) {
          double* const total = totals.get() + (i - i0) * kBlock * kBlock;
          add_up(sums[i - i0], total, d < run, last);
        }
        if (!last) continue;
        store(std::min(kBlock, m_ - i * kBlock), cols, sums[i - i0], alpha_, beta_,
              bias_ != nullptr ? bias_ + j * kBlock : nullptr,
              {c.data + i * kBlock * c.row + j * kBlock * c.col, c.row, c.col}, stream);
      }
    }
  }

 private:
  static const uint16_t* bits(Matrix<const BFloat16> x) { return reinterpret_cast<const uint16_t*>(x.data); }
  int64_t m_, n_, k_, depth_, panel_, first_packed_ = 0;
  float alpha_, beta_;
  const BFloat16* bias_;
};

}  // namespace

bool available() {
  static const bool found = active_isa() == Isa::V4 && detect();  // FACULA_ISA lowers this too
  return found;
}

void gemm(int64_t m, int64_t n, int64_t k, float alpha, Matrix<const BFloat16> a, Matrix<const BFloat16> b, float beta,
          Matrix<BFloat16> c, const BFloat16* bias) {
  if (c.col != 1 && c.row == 1) {
    gemm(n, m, k, alpha, b.t(), a.t(), beta, c.t());
    return;
  }
  const Product product(m, n, k, alpha, beta, a, bias);
  const TypedBuffer<uint16_t> packed(product.size());
  const int64_t rows = product.row_panels(), columns = product.column_panels();
  parallel_for(product.first_packed(), rows, grain_for(kBlock * k, 1 << 17), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) product.prepare_rows(i, a, packed.get());
  });
  parallel_for(0, product.column_pieces(), grain_for(kBlock * kDepth, 1 << 17), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) product.prepare_columns(i, b, packed.get());
  });
  const int64_t group = product.group(), work = std::max<int64_t>(1, group * kBlock * kBlock * k / 16);
  parallel_for(0, ceil_div(rows, group) * columns, std::max<int64_t>(1, (1 << 19) / work),
               [&](int64_t begin, int64_t end) {
                 configure();
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t i = item / columns * group;
                   product.compute(i, std::min(i + group, rows), item % columns, a, packed.get(), c);
                 }
                 release();
                 if (product.streams(c)) stream_done();
               });
}

void batch(int64_t count, int64_t m, int64_t n, int64_t k, float alpha, Matrix<const BFloat16> a, int64_t stride_a,
           Matrix<const BFloat16> b, int64_t stride_b, float beta, Matrix<BFloat16> c, int64_t stride_c) {
  const Product product(m, n, k, alpha, beta, a);
  const TypedBuffer<uint16_t> packed(product.size());
  const int64_t rows = product.row_panels(), columns = product.column_panels(), group = product.group();
  configure();
  for (int64_t x = 0; x < count; ++x, a.data += stride_a, b.data += stride_b, c.data += stride_c) {
    for (int64_t i = product.first_packed(); i < rows; ++i) product.prepare_rows(i, a, packed.get());
    for (int64_t i = 0; i < product.column_pieces(); ++i) product.prepare_columns(i, b, packed.get());
    for (int64_t i = 0; i < rows; i += group) {
      for (int64_t j = 0; j < columns; ++j) product.compute(i, std::min(i + group, rows), j, a, packed.get(), c);
    }
  }
  release();
}

}  // namespace facula::cpu::amx

#else

namespace facula::cpu::amx {

bool available() { return false; }

void gemm(int64_t, int64_t, int64_t, float, Matrix<const BFloat16>, Matrix<const BFloat16>, float, Matrix<BFloat16>,
          const BFloat16*) {
  raise(ErrorKind::NotImplemented, "this machine has no tile registers");
}

void batch(int64_t, int64_t, int64_t, int64_t, float, Matrix<const BFloat16>, int64_t, Matrix<const BFloat16>, int64_t,
           float, Matrix<BFloat16>, int64_t) {
  raise(ErrorKind::NotImplemented, "this machine has no tile registers");
}

}  // namespace facula::cpu::amx

#endif

namespace facula::cpu::amx {
namespace {
[[maybe_unused]] const bool told = (add_fact("amx", [] { return std::string(available() ? "on" : ""); }), true);
}  // namespace
}  // namespace facula::cpu::amx
