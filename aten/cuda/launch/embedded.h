// What embed.py writes: the sources that kernels are made of.
#pragma once

#include <cstdint>
#include <span>

namespace facula::cuda {

struct EmbeddedSource {
  const char* name;
  const char* text;
};
struct NumberText {
  int place;   // among the values of the call
  bool truth;  // a bool; else of the type that is computed in
};
struct FormulaSource {
  const char* op;
  const char* variant;
  const char* type_class;
  int nins, nouts, nnumbers;
  bool optional;    // whether it asks which of the numbers are given
  bool short_form;  // whether results of 16 bits are computed with less
  NumberText numbers[16];
  const char* text;
};
struct ReductionSource {
  const char* op;
  const char* type_class;
  const char* text;
};

std::span<const EmbeddedSource> embedded_sources();
std::span<const FormulaSource> formula_sources();
std::span<const ReductionSource> reduction_sources();
const FormulaSource* find_formula(const char* op, const char* variant, const char* type_class);
const ReductionSource* find_reduction(const char* op, const char* type_class);

}  // namespace facula::cuda
