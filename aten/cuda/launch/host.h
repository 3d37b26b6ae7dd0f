// What facula gives this module, and small helpers for the arguments of kernels.
#pragma once

#include <cstdint>
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

inline constexpr int kItemSizes[FACULA_DTYPES] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8, 1, 1};
inline int itemsize(int32_t dtype) { return kItemSizes[dtype]; }
// Element types of kernels/types.h, and what they are computed in.
const char* element_type(int32_t dtype);
const char* compute_type(int32_t dtype);
// "bool", "int", "float" or "complex"
const char* class_of(int32_t dtype);

inline bool is_floating(int32_t dtype) { return dtype >= FACULA_FLOAT16 && dtype <= FACULA_FLOAT64; }
inline bool is_complex(int32_t dtype) { return dtype >= FACULA_COMPLEX64; }
inline bool is_integral(int32_t dtype) { return dtype >= FACULA_UINT8 && dtype <= FACULA_INT64; }

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
