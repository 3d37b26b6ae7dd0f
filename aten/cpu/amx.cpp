#include "aten/cpu/amx.h"

#include "aten/cpu/dense.h"

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

#include <cstring>

namespace facula::cpu::amx {
namespace {

// Functions that use tiles are compiled for them, whatever the rest of the file is compiled for.
#define FACULA_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw")))

// A tile has 16 rows of 64 bytes: 32 elements along the depth, or 16 columns of sums.
constexpr int64_t kSide = 16, kDepth = 32, kBlock = 2 * kSide;
constexpr int64_t kTile = kSide * kDepth;  // elements of a tile

bool detect() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  const bool tiles = (d >> 24 & 1) != 0, products = (d >> 22 & 1) != 0, wide = (b >> 16 & 1) != 0 && (b >> 30 & 1) != 0;
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

// Sums (32, 32) of two row tiles and two column tiles at each depth.
FACULA_AMX void multiply(int64_t depth, const uint16_t* a, const uint16_t* b, float* sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t p = 0; p < depth; ++p, a += 2 * kTile, b += 2 * kTile) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + kTile, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kTile, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, kBlock * 4);
  _tile_stored(1, sums + kSide, kBlock * 4);
  _tile_stored(2, sums + kSide * kBlock, kBlock * 4);
  _tile_stored(3, sums + kSide * kBlock + kSide, kBlock * 4);
}

// Rows [0, count) of A, `row` apart, as the two row tiles of each depth.
void pack_rows(int64_t count, int64_t k, Matrix<const BFloat16> a, uint16_t* to) {
  const auto* from = reinterpret_cast<const uint16_t*>(a.data);
  for (int64_t p = 0; p < k; p += kDepth, to += 2 * kTile) {
    const int64_t np = std::min(kDepth, k - p);
    for (int64_t i = 0; i < kBlock; ++i) {
      uint16_t* row = to + i * kDepth;
      if (i >= count) {
        std::memset(row, 0, kDepth * 2);
      } else if (a.col == 1 && np == kDepth) {
        std::memcpy(row, from + i * a.row + p, kDepth * 2);
      } else {
        for (int64_t j = 0; j < kDepth; ++j) row[j] = j < np ? from[i * a.row + (p + j) * a.col] : uint16_t{0};
      }
    }
  }
}

// Columns [0, count) of B as the two column tiles of each depth: a row holds two depths of 16 columns.
FACULA_AMX void pack_columns(int64_t count, int64_t k, Matrix<const BFloat16> b, uint16_t* to) {
  const auto* from = reinterpret_cast<const uint16_t*>(b.data);
  for (int64_t p = 0; p < k; p += kDepth, to += 2 * kTile) {
    if (b.col == 1 && count == kBlock && p + kDepth <= k) {
      for (int64_t r = 0; r < kSide; ++r) {
        const uint16_t* even = from + (p + 2 * r) * b.row;
        const __m512i x = _mm512_loadu_si512(even), y = _mm512_loadu_si512(even + b.row);
        // Interleaved within 128-bit lanes, then the lanes put in order.
        const __m512i low = _mm512_unpacklo_epi16(x, y), high = _mm512_unpackhi_epi16(x, y);
        const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
        const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
        _mm512_storeu_si512(to + r * kDepth, _mm512_permutex2var_epi64(low, first, high));
        _mm512_storeu_si512(to + kTile + r * kDepth, _mm512_permutex2var_epi64(low, second, high));
      }
      continue;
    }
    if (b.row == 1 && count == kBlock && p + kDepth <= k) {
      // Pairs along the depth lie together: gather one pair of each column.
      const __m512i offsets =
          _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                             _mm512_set1_epi32(static_cast<int>(b.col)));
      for (int64_t half = 0; half < 2 && b.col < (int64_t{1} << 26); ++half) {
        const uint16_t* base = from + half * kSide * b.col + p;
        for (int64_t r = 0; r < kSide; ++r) {
          _mm512_storeu_si512(to + half * kTile + r * kDepth, _mm512_i32gather_epi32(offsets, base + 2 * r, 2));
        }
      }
      if (b.col < (int64_t{1} << 26)) continue;
    }
    for (int64_t j = 0; j < kBlock; ++j) {
      uint16_t* column = to + j / kSide * kTile + j % kSide * 2;
      for (int64_t r = 0; r < kDepth; ++r) {
        column[r / 2 * kDepth + r % 2] = j < count && p + r < k ? from[(p + r) * b.row + j * b.col] : uint16_t{0};
      }
    }
  }
}

// 16 sums rounded to even; NaN stays NaN.
FACULA_AMX __m256i round_sums(const float* sums) {
  const __m512 v = _mm512_loadu_ps(sums);
  const __m512i w = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(w, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(w, _mm512_set1_epi32(0x7FFF)), odd), 16);
  const __m512i nan = _mm512_or_si512(_mm512_srli_epi32(w, 16), _mm512_set1_epi32(0x40));
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan));
}

FACULA_AMX void store(int64_t rows, int64_t cols, const float* sums, float alpha, float beta, Matrix<BFloat16> c) {
  const bool plain = alpha == 1 && beta == 0 && c.col == 1 && cols == kBlock;
  for (int64_t i = 0; i < rows; ++i, sums += kBlock) {
    BFloat16* row = c.data + i * c.row;
    if (plain) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row), round_sums(sums));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + kSide), round_sums(sums + kSide));
      continue;
    }
    for (int64_t j = 0; j < cols; ++j) {
      const float v = alpha * sums[j];
      row[j * c.col] = BFloat16(beta == 0 ? v : v + beta * static_cast<float>(row[j * c.col]));
    }
  }
}

}  // namespace

bool available() {
  static const bool found = detect();
  return found;
}

void gemm(int64_t m, int64_t n, int64_t k, float alpha, Matrix<const BFloat16> a, Matrix<const BFloat16> b, float beta,
          Matrix<BFloat16> c) {
  const int64_t depth = (k + kDepth - 1) / kDepth, panel = depth * 2 * kTile;
  const int64_t row_blocks = (m + kBlock - 1) / kBlock, column_blocks = (n + kBlock - 1) / kBlock;
  const TypedBuffer<uint16_t> rows(row_blocks * panel), columns(column_blocks * panel);
  const int64_t grain = grain_for(kBlock * k);
  parallel_for(0, row_blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      pack_rows(std::min(kBlock, m - i * kBlock), k, {a.data + i * kBlock * a.row, a.row, a.col},
                rows.get() + i * panel);
    }
  });
  parallel_for(0, column_blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      pack_columns(std::min(kBlock, n - j * kBlock), k, {b.data + j * kBlock * b.col, b.row, b.col},
                   columns.get() + j * panel);
    }
  });
  // Blocks of rows and columns that stay in the second-level cache together.
  constexpr int64_t kGroup = 8;
  const int64_t groups = (row_blocks + kGroup - 1) / kGroup;
  const int64_t work = std::max<int64_t>(1, kGroup * kBlock * kBlock * k / 8);
  parallel_for(0, groups * column_blocks, std::max<int64_t>(1, (1 << 21) / work), [&](int64_t begin, int64_t end) {
    alignas(64) float sums[kBlock * kBlock];
    configure();
    for (int64_t item = begin; item < end; ++item) {
      const int64_t j = item % column_blocks, first = item / column_blocks * kGroup;
      for (int64_t i = first; i < std::min(first + kGroup, row_blocks); ++i) {
        multiply(depth, rows.get() + i * panel, columns.get() + j * panel, sums);
        store(std::min(kBlock, m - i * kBlock), std::min(kBlock, n - j * kBlock), sums, alpha, beta,
              {c.data + i * kBlock * c.row + j * kBlock * c.col, c.row, c.col});
      }
    }
    release();
  });
}

}  // namespace facula::cpu::amx

#else

namespace facula::cpu::amx {

bool available() { return false; }

void gemm(int64_t, int64_t, int64_t, float, Matrix<const BFloat16>, Matrix<const BFloat16>, float, Matrix<BFloat16>) {
  raise(ErrorKind::NotImplemented, "this machine has no tile registers");
}

}  // namespace facula::cpu::amx

#endif
