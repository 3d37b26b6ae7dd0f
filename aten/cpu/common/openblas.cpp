#include "aten/cpu/common/openblas.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "runtime/core/facts.h"
#include "runtime/core/library.h"

namespace facula::openblas {
namespace {

constexpr const char* kFile = "libscipy_openblas.so";

struct Library {
  void* handle = nullptr;
  std::string file;  // empty when none was found
};

void* symbol(void* handle, const std::string& name) { return dlsym(handle, ("scipy_" + name).c_str()); }

std::vector<std::string> candidates() {
  if (const char* path = std::getenv("FACULA_BLAS"); path != nullptr && *path != '\0') return {path};
  std::vector<std::string> found;
  for (const std::string& folder : package_folders()) {
    const std::string path = folder + "/scipy_openblas32/lib/" + kFile;
    if (access(path.c_str(), R_OK) == 0) found.push_back(path);
  }
  found.emplace_back(kFile);
  return found;
}

Library* load() {
  auto* library = new Library;  // lives as long as the process
  for (const std::string& path : candidates()) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr || symbol(handle, "cblas_zgemm") == nullptr) continue;
    // Work is split by our own pool, so that there is one team of threads and none that spins;
    // the library's own threads stay asleep.
    if (auto* set = reinterpret_cast<void (*)(int)>(symbol(handle, "openblas_set_num_threads"))) set(1);
    // NaN goes through like any number.
    if (auto* set = reinterpret_cast<void (*)(int)>(symbol(handle, "LAPACKE_set_nancheck"))) set(0);
    *library = {handle, path};
    return library;
  }
  return library;
}

const Library& library() {
  static const Library* const loaded = load();
  return *loaded;
}

[[maybe_unused]] const bool told = (add_fact("blas", [] { return library().file; }), true);

}  // namespace

const std::string& file() { return library().file; }

void* find(const std::string& name) {
  const Library& l = library();
  return l.handle != nullptr ? symbol(l.handle, name) : nullptr;
}

}  // namespace facula::openblas
