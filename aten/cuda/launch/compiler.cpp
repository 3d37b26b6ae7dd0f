#include "launch/compiler.h"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>

#include "launch/disk_cache.h"
#include "launch/host.h"
#include "libs/library.h"
#include "launch/embedded.h"

namespace facula::cuda {

namespace {

using nvrtcResult = int;
using nvrtcProgram = struct nvrtcProgram_st*;

#define FACULA_NVRTC(X)                                                                                         \
  X(nvrtcVersion, (int*, int*))                                                                                 \
  X(nvrtcGetErrorString, (nvrtcResult), const char*)                                                            \
  X(nvrtcGetNumSupportedArchs, (int*))                                                                          \
  X(nvrtcGetSupportedArchs, (int*))                                                                             \
  X(nvrtcCreateProgram, (nvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(nvrtcDestroyProgram, (nvrtcProgram*))                                                                       \
  X(nvrtcCompileProgram, (nvrtcProgram, int, const char* const*))                                               \
  X(nvrtcGetProgramLogSize, (nvrtcProgram, size_t*))                                                            \
  X(nvrtcGetProgramLog, (nvrtcProgram, char*))                                                                  \
  X(nvrtcGetCUBINSize, (nvrtcProgram, size_t*))                                                                 \
  X(nvrtcGetCUBIN, (nvrtcProgram, char*))                                                                       \
  X(nvrtcGetPTXSize, (nvrtcProgram, size_t*))                                                                   \
  X(nvrtcGetPTX, (nvrtcProgram, char*))

template <typename R = nvrtcResult>
struct Returns {
  using type = R;
};

struct Nvrtc {
#define X(name, arguments, ...) Returns<__VA_ARGS__>::type(*name) arguments = nullptr;
  FACULA_NVRTC(X)
#undef X
  int major = 0, minor = 0;
  std::vector<int> archs;
  std::string why;
};

const Nvrtc& nvrtc() {
  static const Nvrtc* const n = [] {
    auto* const made = new Nvrtc;
    void* const library =
        open_library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, "nvidia-cuda-nvrtc", made->why);
    if (library == nullptr) return made;
#define X(name, arguments, ...)                                               \
  made->name = reinterpret_cast<decltype(made->name)>(dlsym(library, #name)); \
  if (made->name == nullptr) made->why = "the NVRTC library is too old: it has no " #name;
    FACULA_NVRTC(X)
#undef X
    if (!made->why.empty()) return made;
    made->nvrtcVersion(&made->major, &made->minor);
    int n = 0;
    if (made->nvrtcGetNumSupportedArchs(&n) == 0 && n > 0) {
      made->archs.resize(static_cast<size_t>(n));
      made->nvrtcGetSupportedArchs(made->archs.data());
    }
    return made;
  }();
  return *n;
}

const std::vector<const char*>& header_names() {
  static const auto* const names = [] {
    auto* const v = new std::vector<const char*>;
    for (const EmbeddedSource& t : embedded_sources()) v->push_back(t.name);
    return v;
  }();
  return *names;
}
const std::vector<const char*>& header_sources() {
  static const auto* const sources = [] {
    auto* const v = new std::vector<const char*>;
    for (const EmbeddedSource& t : embedded_sources()) v->push_back(t.text);
    return v;
  }();
  return *sources;
}
const Hash& hash_of_headers() {
  static const Hash* const h = [] {
    auto* const made = new Hash;
    for (const EmbeddedSource& t : embedded_sources()) {
      made->add(t.name);
      made->add(t.text);
    }
    return made;
  }();
  return *h;
}

Compiled run(const Source& source, const std::string& arch, bool ptx, const std::vector<std::string>& options) {
  const Nvrtc& n = nvrtc();
  Compiled c;
  nvrtcProgram program = nullptr;
  nvrtcResult r =
      n.nvrtcCreateProgram(&program, source.text.c_str(), source.name.c_str(), static_cast<int>(header_names().size()),
                           header_sources().data(), header_names().data());
  std::vector<const char*> pointers;
  for (const std::string& o : options) pointers.push_back(o.c_str());
  if (r == 0) r = n.nvrtcCompileProgram(program, static_cast<int>(pointers.size()), pointers.data());
  if (r != 0) {
    c.status = FACULA_DEVICE_ERROR;
    c.error = "compiling " + source.name + " for " + arch + " failed: " + n.nvrtcGetErrorString(r);
    size_t size = 0;
    if (program != nullptr && n.nvrtcGetProgramLogSize(program, &size) == 0 && size > 1) {
      std::string log(size, '\0');
      n.nvrtcGetProgramLog(program, log.data());
      c.error += "\n" + log.substr(0, 4000);
    }
  } else {
    size_t size = 0;
    (ptx ? n.nvrtcGetPTXSize : n.nvrtcGetCUBINSize)(program, &size);
    c.code.resize(size);
    (ptx ? n.nvrtcGetPTX : n.nvrtcGetCUBIN)(program, c.code.data());
  }
  if (program != nullptr) n.nvrtcDestroyProgram(&program);
  return c;
}

}  // namespace

std::string_view embedded(std::string_view name) {
  for (const EmbeddedSource& t : embedded_sources()) {
    if (name == t.name) return t.text;
  }
  return {};
}

std::string compiler_missing() { return nvrtc().why; }

Compiled compile(const Source& source, const std::string& arch) {
  // A device newer than the compiler runs the newest PTX that it knows, compiled by the driver. "compute_90" asks for
  // that of an architecture.
  const bool stated = arch.starts_with("compute_");
  const int wanted = std::atoi(arch.c_str() + 3);
  const Nvrtc& n = nvrtc();
  const bool newer = !n.archs.empty() && std::find(n.archs.begin(), n.archs.end(), wanted) == n.archs.end();
  const bool ptx = stated || newer;
  const int newest = n.archs.empty() ? wanted : *std::max_element(n.archs.begin(), n.archs.end());
  const std::vector<std::string> options = {
      "--gpu-architecture=" + (newer && !stated ? "compute_" + std::to_string(newest) : arch),
      "-std=c++20",
      "-default-device",
      source.fused ? "--fmad=true" : "--fmad=false",
      "-w",
  };
  Hash key = hash_of_headers();
  key.add(std::to_string(n.major) + "." + std::to_string(n.minor));
  for (const std::string& o : options) key.add(o);
  key.add(source.text);
  const std::string name = key.text();
  Compiled c;
  if (disk_cache().read(name, c.code)) {
    c.from_disk = true;
    return c;
  }
  if (!n.why.empty()) {
    c.status = FACULA_DEVICE_ERROR;
    c.error = "CUDA kernels cannot be compiled: " + n.why;
    return c;
  }
  c = run(source, arch, ptx, options);
  if (c.status == FACULA_OK) disk_cache().write(name, c.code);
  return c;
}

}  // namespace facula::cuda
