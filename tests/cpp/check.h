// The least that a self-check needs: named cases, values compared, errors expected by their words.
#pragma once

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "runtime/core/tensor.h"

namespace check {

inline int failures = 0;

inline void that(bool ok, const char* what, const char* file, int line) {
  if (ok) return;
  ++failures;
  std::printf("%s:%d: failed: %s\n", file, line, what);
}
inline void values(const facula::Tensor& t, std::vector<double> wanted, const char* what, const char* file, int line) {
  std::vector<double> got;
  if (t.defined()) {
    for (int64_t i = 0; i < t.numel(); ++i) {
      int64_t rest = i, at = 0;
      for (size_t d = t.sizes().size(); d-- > 0;) {
        at += rest % t.sizes()[d] * t.strides()[d];
        rest /= t.sizes()[d];
      }
      got.push_back(t.data<double>()[at]);
    }
  }
  bool same = got.size() == wanted.size();
  for (size_t i = 0; same && i < got.size(); ++i) same = std::abs(got[i] - wanted[i]) <= 1e-9 * (1 + std::abs(wanted[i]));
  if (same) return;
  ++failures;
  std::printf("%s:%d: %s:", file, line, what);
  for (double v : got) std::printf(" %g", v);
  std::printf(" instead of");
  for (double v : wanted) std::printf(" %g", v);
  std::printf("%s\n", t.defined() ? "" : " (undefined)");
}
inline void raises(const std::function<void()>& f, std::initializer_list<const char*> words, const char* file, int line) {
  try {
    f();
  } catch (const facula::Error& e) {
    for (const char* w : words) {
      if (std::strstr(e.what(), w) != nullptr) continue;
      ++failures;
      std::printf("%s:%d: `%s` missing in: %s\n", file, line, w, e.what());
    }
    return;
  }
  ++failures;
  std::printf("%s:%d: no error raised\n", file, line);
}

#define CHECK(condition) ::check::that((condition), #condition, __FILE__, __LINE__)
#define CHECK_VALUES(tensor, ...) ::check::values((tensor), std::vector<double> __VA_ARGS__, #tensor, __FILE__, __LINE__)
#define CHECK_RAISES(statement, ...) ::check::raises([&] { statement; }, {__VA_ARGS__}, __FILE__, __LINE__)

}  // namespace check
