#include "launch/embedded.h"

#include <string>
#include <unordered_map>

#include "launch/host.h"

namespace facula::cuda {

namespace {

#include "embedded.inc"

std::string key(const char* a, const char* b, const char* c) { return std::string(a) + '/' + b + '/' + c; }

}  // namespace

std::span<const EmbeddedSource> embedded_sources() { return kSources; }
std::span<const FormulaSource> formula_sources() { return kFormulas; }
std::span<const ReductionSource> reduction_sources() { return kReductions; }

const FormulaSource* find_formula(const char* op, const char* variant, const char* type_class) {
  static const auto* const table = [] {
    auto* const t = new std::unordered_map<std::string, const FormulaSource*>;
    for (const FormulaSource& f : kFormulas) (*t)[key(f.op, f.variant, f.type_class)] = &f;
    return t;
  }();
  const auto at = table->find(key(op, variant, type_class));
  return at == table->end() ? nullptr : at->second;
}

const ReductionSource* find_reduction(const char* op, const char* type_class) {
  for (const ReductionSource& f : kReductions) {
    if (std::string_view(f.op) == op && std::string_view(f.type_class) == type_class) return &f;
  }
  return nullptr;
}

}  // namespace facula::cuda
