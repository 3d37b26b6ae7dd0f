// More to expect than check.h has: values of tensors, and errors by several of their words.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "runtime/core/tensor.h"
#include "tests/cpp/check.h"

namespace check {

inline void values(const facula::Tensor& t, std::vector<double> wanted, const char* what, const char* file, int line) {
  std::vector<double> got;
  for (int64_t i = 0; t.defined() && i < t.numel(); ++i) {
    int64_t rest = i, at = 0;
    for (size_t d = t.sizes().size(); d-- > 0;) {
      at += rest % t.sizes()[d] * t.strides()[d];
      rest /= t.sizes()[d];
    }
    got.push_back(t.data<double>()[at]);
  }
  bool same = got.size() == wanted.size();
  for (size_t i = 0; same && i < got.size(); ++i) {
    same = std::abs(got[i] - wanted[i]) <= 1e-9 * (1 + std::abs(wanted[i]));
  }
  if (same) return;
  ++g_failures;
  std::printf("%s:%d: %s:", file, line, what);
  for (double v : got) std::printf(" %g", v);
  std::printf(" instead of");
  for (double v : wanted) std::printf(" %g", v);
  std::printf("%s\n", t.defined() ? "" : " (undefined)");
}

inline void fails(const std::function<void()>& f, std::initializer_list<const char*> words, const char* file,
                  int line) {
  try {
    f();
  } catch (const facula::Error& e) {
    for (const char* w : words) {
      if (std::strstr(e.what(), w) != nullptr) continue;
      ++g_failures;
      std::printf("%s:%d: `%s` missing in: %s\n", file, line, w, e.what());
    }
    return;
  }
  ++g_failures;
  std::printf("%s:%d: no error raised\n", file, line);
}

}  // namespace check

#define CHECK_VALUES(tensor, ...) \
  ::check::values((tensor), std::vector<double> __VA_ARGS__, #tensor, __FILE__, __LINE__)
// The statement raises a facula::Error that has all of the words.
#define CHECK_FAILS(statement, ...) ::check::fails([&] { statement; }, {__VA_ARGS__}, __FILE__, __LINE__)
