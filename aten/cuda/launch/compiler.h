// Kernels from CUDA C++ text: NVRTC, with a cache on disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace facula::cuda {

struct Source {
  std::string name;  // for messages
  std::string text;
  bool fused = true;  // multiply-add; off where the CPU's bits are wanted
};

struct Compiled {
  int32_t status = 0;
  std::string code;   // a cubin, or PTX for a device that is newer than NVRTC
  std::string error;  // what the compiler says
  bool from_disk = false;
};

// The text of one of the embedded files, "facula/cuda/types.h"; empty when there is none.
std::string_view embedded(std::string_view name);

// Compiles for "sm_90" and so on, or takes it from disk. Needs no GPU. Any thread.
Compiled compile(const Source& source, const std::string& arch);

// Why there is no compiler; empty when there is one.
std::string compiler_missing();

}  // namespace facula::cuda
