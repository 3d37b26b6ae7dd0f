// Registration through the device interface, and what tests and the Python side call.
#include <cstring>

#include "launch/kernels.h"
#include "libs/library.h"
#include "libs/nccl.h"
#include "ops/group.h"
#include "ops/group_rows.h"
#include "ops/pointwise.h"
#include "ops/reduction.h"
#include "launch/precompile.h"

namespace facula::cuda {

const FaculaHost* host = nullptr;

std::vector<FaculaKernelEntry>& kernel_entries() {
  static auto* const entries = new std::vector<FaculaKernelEntry>;
  return *entries;
}

}  // namespace facula::cuda

using namespace facula::cuda;

extern "C" {

// Folders of NVIDIA's libraries, with ':' between them.
FACULA_EXPORT void facula_cuda_folders(const char* folders) { set_library_folders(folders); }

// Why there is no device, into `text`.
FACULA_EXPORT void facula_cuda_why(char* text, size_t size) {
  std::string why;
  if (driver(&why) != nullptr && device_count() == 0) why = "the driver finds no NVIDIA GPU";
  std::strncpy(text, why.c_str(), size - 1);
  text[size - 1] = '\0';
}

FACULA_EXPORT int32_t facula_cuda_has_compiler() { return compiler_missing().empty(); }

// Compiles a text for `arch` into the disk cache; why it failed goes into `error`.
FACULA_EXPORT int32_t facula_cuda_compile(const char* text, const char* arch, char* error, size_t size) {
  const Compiled c = compile({"text.cu", text, false}, arch);
  std::strncpy(error, c.error.c_str(), size - 1);
  error[size - 1] = '\0';
  return c.status;
}

// Compiles kernels for `arch` with `threads`, into the disk cache; see precompile.h.
FACULA_EXPORT int32_t facula_cuda_precompile(const char* arch, const char* filter, int32_t level, int32_t threads,
                                             int32_t* counts, char* text, size_t size) {
  const PrecompileReport r = precompile(arch, filter, level, threads);
  counts[0] = r.compiled;
  counts[1] = r.from_disk;
  counts[2] = r.failed;
  std::strncpy(text, r.text.c_str(), size - 1);
  text[size - 1] = '\0';
  return r.failed;
}

FACULA_EXPORT int32_t facula_register_backends(const FaculaHost* given) {
  host = given;
  FaculaBackend backend{};
  backend.abi = FACULA_BACKEND_ABI;
  backend.size = sizeof(FaculaBackend);
  backend.name = kName;
  backend.package = "facula";
  // not FACULA_DETERMINISTIC: cuDNN's gradient of attention adds in no fixed order
  backend.flags = FACULA_CACHING | FACULA_CPU_FALLBACK;
  backend.dtypes = FACULA_ALL_DTYPES;
  backend.autocast_dtype = "float16";  // as torch has it
  backend.dlpack_type = 2;             // kDLCUDA
  describe_device(backend);
  describe_sharing(backend);
  backend.collectives = &nccl;
  backend.pointwise = pointwise;
  backend.reduction = reduction;
  backend.group = group;
  backend.group_rows = row_operators();
  backend.kernels = kernel_entries().data();
  backend.nkernels = kernel_entries().size();
  return host->register_backend(&backend);
}
}
