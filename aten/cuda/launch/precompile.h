// Compiling ahead of use, and the check that every kernel compiles.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/kernel.h"

namespace facula::cuda {

// Kernels of files announce what they may be asked to compile: `level` 0 is what models use most, 1
// is everything once, 2 in all dtypes; for -1, the quick check, formulas go many to a program.
using SourceLister = void (*)(int level, const std::function<void(KernelSource)>& add);
void list_sources(SourceLister lister);
struct ListsSources {
  explicit ListsSources(SourceLister lister) { list_sources(lister); }
};

struct PrecompileReport {
  int compiled = 0, from_disk = 0, failed = 0;
  std::string text;  // what failed
};
// Compiles what is listed and whose name holds `filter`, on `threads` threads.
PrecompileReport precompile(const char* arch, const char* filter, int level, int threads);

}  // namespace facula::cuda
