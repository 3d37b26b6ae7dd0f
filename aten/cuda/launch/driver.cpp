#include "launch/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "launch/host.h"

namespace facula::cuda {

namespace {

struct Loaded {
  Driver table;
  std::string why;  // empty when all went well
};

bool switched_off() {
  const char* const text = std::getenv("FACULA_CUDA");
  return text != nullptr && (std::strcmp(text, "0") == 0 || std::strcmp(text, "off") == 0);
}

Loaded* load() {
  auto* const l = new Loaded;
  if (switched_off()) {
    l->why = "CUDA is switched off (FACULA_CUDA=0)";
    return l;
  }
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    l->why = "there is no CUDA driver on this machine (libcuda.so.1 was not found); install NVIDIA's driver";
    return l;
  }
#define X(name, symbol, arguments)                                                                          \
  l->table.name = reinterpret_cast<decltype(l->table.name)>(dlsym(library, #symbol));                       \
  if (l->table.name == nullptr && l->why.empty()) {                                                         \
    l->why = "the CUDA driver is too old: it has no function " #symbol "; install one of CUDA 12 or later"; \
  }
  FACULA_CUDA_DRIVER(X)
#undef X
  if (!l->why.empty()) return l;
  if (const CUresult r = l->table.Init(0); r != CUDA_SUCCESS) {
    const char *name = nullptr, *text = nullptr;
    l->table.GetErrorName(r, &name);
    l->table.GetErrorString(r, &text);
    l->why = std::string("the CUDA driver does not start: ") + (name ? name : "?") + ": " + (text ? text : "?");
  }
  return l;
}

const Loaded& loaded() {
  static const Loaded* const l = load();
  return *l;
}

}  // namespace

const Driver* driver(std::string* why) {
  const Loaded& l = loaded();
  if (l.why.empty()) return &l.table;
  if (why != nullptr) *why = l.why;
  return nullptr;
}

std::string error_text(CUresult result) {
  const Loaded& l = loaded();
  const char *name = nullptr, *text = nullptr;
  if (l.table.GetErrorName != nullptr) l.table.GetErrorName(result, &name);
  if (l.table.GetErrorString != nullptr) l.table.GetErrorString(result, &text);
  return (name != nullptr ? name : "error " + std::to_string(result)) +
         (text != nullptr ? std::string(": ") + text : "");
}

int32_t status_of(CUresult result, const char* doing) {
  if (result == CUDA_SUCCESS) return FACULA_OK;
  if (result == CUDA_ERROR_NOT_READY) return FACULA_NOT_READY;
  std::string text = std::string(doing) + ": " + error_text(result);
  // errors of kernels that end the context
  if (result >= 700 && result < 720) {
    text +=
        ". A kernel that ran earlier failed, and the device's context is lost: restart the process; "
        "FACULA_CUDA_SYNC=1 shows the operator that failed";
  }
  return fail(result == CUDA_ERROR_OUT_OF_MEMORY ? FACULA_OUT_OF_MEMORY : FACULA_DEVICE_ERROR, text);
}

}  // namespace facula::cuda
