// Vector loops of running sums.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula::cpu {

struct ScanTable {
  // x[i] becomes carry plus the sum of x[0 ... i], carry the last of them.
  void (*sum_line_f64)(double* x, int64_t n, double& carry);
  void (*sum_line_i64)(int64_t* x, int64_t n, int64_t& carry);
  // float32 to float32 through float64, without a buffer
  void (*sum_line_f32)(const float* x, int64_t n, double& carry, float* out);
  // state += x, line by line
  void (*add_f64)(double* state, const double* x, int64_t n);
  void (*add_f32)(double* state, const float* x, int64_t n, float* out);
};

}  // namespace facula::cpu

namespace facula {
FACULA_DECLARE_BY_ISA(cpu::ScanTable, scan_table)
}  // namespace facula
