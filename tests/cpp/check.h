// The smallest test frame that serves: CHECK prints what failed, main returns the number of failures.
#pragma once

#include <cstdio>
#include <string>

#include "runtime/core/error.h"

inline int g_failures = 0;

#define CHECK(condition)                                                  \
  do {                                                                    \
    if (!(condition)) {                                                   \
      ++g_failures;                                                       \
      std::printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
    }                                                                     \
  } while (false)

// Runs `expression`, which must raise a facula::Error whose text holds `part`.
#define CHECK_RAISES(expression, wanted_kind, part)                                                    \
  do {                                                                                                 \
    bool raised = false;                                                                               \
    try {                                                                                              \
      static_cast<void>(expression);                                                                   \
    } catch (const facula::Error& e) {                                                                 \
      raised = true;                                                                                   \
      if (e.kind() != facula::ErrorKind::wanted_kind || e.message().find(part) == std::string::npos) { \
        ++g_failures;                                                                                  \
        std::printf("%s:%d: other error: %s\n", __FILE__, __LINE__, e.what());                         \
      }                                                                                                \
    }                                                                                                  \
    if (!raised) {                                                                                     \
      ++g_failures;                                                                                    \
      std::printf("%s:%d: no error: %s\n", __FILE__, __LINE__, #expression);                           \
    }                                                                                                  \
  } while (false)
