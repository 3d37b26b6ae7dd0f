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

const char* element_type(int32_t dtype) {
  static constexpr const char* kNames[FACULA_DTYPES] = {"Bool",
                                                        "uint8_t",
                                                        "int8_t",
                                                        "int16_t",
                                                        "int32_t",
                                                        "int64_t",
                                                        "Half",
                                                        "BFloat16",
                                                        "float",
                                                        "double",
                                                        "std::complex<float>",
                                                        "std::complex<double>",
                                                        "uint16_t",
                                                        "uint32_t",
                                                        "uint64_t",
                                                        "Float8_e4m3fn",
                                                        "Float8_e5m2"};
  return kNames[dtype];
}
const char* compute_type(int32_t dtype) {
  return dtype == FACULA_BOOL                                  ? "bool"
         : dtype == FACULA_FLOAT16 || dtype == FACULA_BFLOAT16 ? "float"
                                                               : element_type(dtype);
}
const char* class_of(int32_t dtype) {
  return dtype == FACULA_BOOL ? "bool" : is_integral(dtype) ? "int" : is_floating(dtype) ? "float" : "complex";
}

}  // namespace facula::cuda
