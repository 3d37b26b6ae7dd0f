// What linear algebra makes of the answers of its methods.
#include "facula/kernels.h"
#include "facula/ops.h"

namespace facula::composite {

// `problem` with "{}" for the number that the method answered.
void check_info(const Tensor& info, std::string_view problem) {
  if (info.is_meta() || info.numel() == 0) return;
  const Tensor host = info.is_cpu() ? info : ops::to_device(info, Device{kCPU});
  const Tensor flat = ops::reshape(host, {host.numel()});
  const int32_t* found = flat.data<int32_t>();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const int64_t at = found[i * flat.stride(0)];
    if (at == 0) continue;
    std::string text(problem);
    if (const size_t gap = text.find("{}"); gap != std::string::npos) text.replace(gap, 2, std::to_string(at));
    raise(ErrorKind::LinAlg, info.dim() == 0 ? std::string() : concat("(Batch element ", i, "): "), text);
  }
}

}  // namespace facula::composite
