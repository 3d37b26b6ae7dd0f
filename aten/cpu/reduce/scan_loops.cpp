// build: levels
#include "aten/cpu/reduce/scan_loops.h"

namespace facula {

namespace FACULA_ISA {

namespace {

// Eight elements at a time, so that the running sum waits for one addition in eight. Sums of eight are built
// as a tree; what comes out does not depend on the instruction set.
template <typename C, typename In, typename Out>
inline __attribute__((always_inline)) void sum_line(const In* x, int64_t n, C& carry, Out* out) {
  C state = carry;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    C t[8];
    for (int k = 0; k < 8; ++k) t[k] = static_cast<C>(x[i + k]);
    const C a = t[0] + t[1], b = t[2] + t[3], c = t[4] + t[5], d = t[6] + t[7];
    const C ab = a + b, cd = c + d;
    const C abc = ab + c;
    const C sums[8] = {t[0], a, a + t[2], ab, ab + t[4], abc, abc + t[6], ab + cd};
    for (int k = 0; k < 8; ++k) out[i + k] = static_cast<Out>(state + sums[k]);
    state += sums[7];
  }
  for (; i < n; ++i) {
    state += static_cast<C>(x[i]);
    out[i] = static_cast<Out>(state);
  }
  carry = state;
}

void sum_line_f64(double* x, int64_t n, double& carry) { sum_line(x, n, carry, x); }
// Unsigned numbers wrap.
void sum_line_i64(int64_t* x, int64_t n, int64_t& carry) {
  uint64_t* u = reinterpret_cast<uint64_t*>(x);
  uint64_t state = static_cast<uint64_t>(carry);
  sum_line(u, n, state, u);
  carry = static_cast<int64_t>(state);
}
void sum_line_f32(const float* x, int64_t n, double& carry, float* out) { sum_line(x, n, carry, out); }

void add_f64(double* __restrict state, const double* __restrict x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) state[i] += x[i];
}
void add_f32(double* __restrict state, const float* x, int64_t n, float* out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    state[i] += static_cast<double>(x[i]);
    out[i] = static_cast<float>(state[i]);
  }
}

}  // namespace

}  // namespace FACULA_ISA

FACULA_DEFINE_BY_ISA(cpu::ScanTable, scan_table, {sum_line_f64, sum_line_i64, sum_line_f32, add_f64, add_f32})

}  // namespace facula
