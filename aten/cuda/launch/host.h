// What facula gives this module, and small helpers for the arguments of kernels.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>

#include "facula/backend.h"

namespace facula::cuda {

inline constexpr const char* kName = "cuda";

extern const FaculaHost* host;  // set at registration; null in tests of the launcher

// Notes the text of an error and returns its status.
inline int32_t fail(int32_t status, const std::string& text) {
  return host != nullptr ? host->fail(status, text.c_str()) : status;
}
// A kernel reads place 0 in the stead of an index that it reports; here there is none.
inline int32_t fail_any_index() { return fail(FACULA_INDEX_ERROR, "any index is out of range for a dim of size 0"); }

// a / b rounded up, and the multiple that it leads to; b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }
constexpr int64_t round_up(int64_t n, int64_t unit) { return ceil_div(n, unit) * unit; }

// What the kernels' sources call an element type, and the class of its formulas.
struct DtypeInfo {
  int32_t dtype;
  int itemsize;
  const char* element;  // of kernels/types.h
  const char* type_class;
};
inline constexpr DtypeInfo kDtypes[] = {
    {FACULA_BOOL, 1, "Bool", "bool"},
    {FACULA_UINT8, 1, "uint8_t", "int"},
    {FACULA_INT8, 1, "int8_t", "int"},
    {FACULA_INT16, 2, "int16_t", "int"},
    {FACULA_INT32, 4, "int32_t", "int"},
    {FACULA_INT64, 8, "int64_t", "int"},
    {FACULA_FLOAT16, 2, "Half", "float"},
    {FACULA_BFLOAT16, 2, "BFloat16", "float"},
    {FACULA_FLOAT32, 4, "float", "float"},
    {FACULA_FLOAT64, 8, "double", "float"},
    {FACULA_COMPLEX64, 8, "std::complex<float>", "complex"},
    {FACULA_COMPLEX128, 16, "std::complex<double>", "complex"},
    {FACULA_UINT16, 2, "uint16_t", "int"},
    {FACULA_UINT32, 4, "uint32_t", "int"},
    {FACULA_UINT64, 8, "uint64_t", "int"},
    {FACULA_FLOAT8_E4M3FN, 1, "Float8_e4m3fn", "float"},
    {FACULA_FLOAT8_E5M2, 1, "Float8_e5m2", "float"},
};
static_assert(
    [] {
      for (int32_t i = 0; i < FACULA_DTYPES; ++i) {
        if (kDtypes[i].dtype != i) return false;
      }
      return std::size(kDtypes) == FACULA_DTYPES;
    }(),
    "a row for each dtype, in their order");
inline int itemsize(int32_t dtype) { return kDtypes[dtype].itemsize; }
inline const char* element_type(int32_t dtype) { return kDtypes[dtype].element; }
// "bool", "int", "float" or "complex"
inline const char* class_of(int32_t dtype) { return kDtypes[dtype].type_class; }
inline bool is_floating(int32_t dtype) { return class_of(dtype)[0] == 'f'; }
inline bool is_complex(int32_t dtype) { return class_of(dtype)[0] == 'c'; }
inline bool is_integral(int32_t dtype) { return class_of(dtype)[0] == 'i'; }
// What its elements are computed in.
inline const char* compute_type(int32_t dtype) {
  return dtype == FACULA_BOOL ? "bool" : is_floating(dtype) && itemsize(dtype) < 4 ? "float" : element_type(dtype);
}

// Memory for the time of a kernel, from facula's cache; given back when the object goes, which the
// order of the stream makes safe.
class Scratch {
 public:
  Scratch(int32_t index, void* stream) : index_(index), stream_(stream) {}
  ~Scratch() {
    if (data_ != nullptr) host->deallocate(kName, index_, data_, nbytes_, stream_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  int32_t allocate(size_t nbytes) {
    nbytes_ = nbytes;
    return host->allocate(kName, index_, nbytes, stream_, &data_);
  }
  char* data() const { return static_cast<char*>(data_); }

 private:
  int32_t index_;
  void* stream_;
  void* data_ = nullptr;
  size_t nbytes_ = 0;
};

}  // namespace facula::cuda

// Leaves a function that returns a status when a call of another fails.
#define FACULA_TRY(expression)                                                      \
  do {                                                                              \
    if (const int32_t status_ = (expression); status_ != FACULA_OK) return status_; \
  } while (false)
