// What embed.py writes: the texts that kernels are made of.
#pragma once

#include <cstdint>
#include <span>

namespace facula::cuda {

struct EmbeddedText {
  const char* name;
  const char* text;
};
struct NumberText {
  int place;   // among the values of the call
  bool truth;  // a bool; else of the type that is computed in
};
struct FormulaText {
  const char* op;
  const char* variant;
  const char* type_class;
  int nins, nouts, nnumbers;
  bool optional;  // whether it asks which of the numbers are given
  NumberText numbers[16];
  const char* text;
};
struct FoldText {
  const char* op;
  const char* type_class;
  const char* text;
};

std::span<const EmbeddedText> embedded_texts();
std::span<const FormulaText> formula_texts();
std::span<const FoldText> fold_texts();
const FormulaText* find_formula(const char* op, const char* variant, const char* type_class);
const FoldText* find_fold(const char* op, const char* type_class);

}  // namespace facula::cuda
