// What linear algebra makes of the answers of its methods.
#include "facula/kernels.h"
#include "facula/ops.h"
#include "runtime/dispatch/levels.h"

namespace facula::composite {

// `problem` with "{}" for the number that the method answered.
void check_info(const Tensor& info, std::string_view problem) {
  if (info.is_wrapped()) {  // every row of a batch is to be a success
    const Wrapping& w = *info.impl()->wrapping;
    return check_info(w.inner, problem);
  }
  if (info.is_meta() || info.numel() == 0) return;
  const Tensor host = info.is_cpu() ? info : ops::to_device(info, Device{kCPU});
  const Tensor flat = ops::reshape(host, {host.numel()});
  const int32_t* found = flat.data<int32_t>();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const int64_t at = found[i * flat.stride(0)];
    if (at == 0) continue;
    std::string text(at < 0 ? std::string_view("the matrix has elements that are not finite") : problem);
    if (const size_t gap = text.find("{}"); gap != std::string::npos) text.replace(gap, 2, std::to_string(at));
    raise(ErrorKind::LinAlg, info.dim() == 0 ? std::string() : concat("(Batch element ", i, "): "), text);
  }
}

// The diagonal of V^H times the gradient of V, or the sum of both of a pair, must be real: a phase turns it.
void check_phase(const Tensor& inner) {
  if (inner.is_meta() || !inner.is_complex() || inner.numel() == 0) return;
  const Tensor turned = ops::amax(ops::abs(ops::imag(ops::diagonal(inner, 0, -2, -1))), {});
  const Tensor size = ops::amax(ops::abs(inner), {});
  const double off = ops::local_scalar(turned).as_double(), all = ops::local_scalar(size).as_double();
  const bool narrow = inner.dtype() == ScalarType::Complex64;
  FACULA_CHECK(
      !(off > (narrow ? 1e-2 : 1e-6) * std::max(all, 1.0)), Runtime,
      "the gradient depends on the phase of complex vectors, which is arbitrary; take a function that does not, "
      "of their magnitudes or of projections, say");
}

bool full_rank(const Tensor& rank, int64_t n, bool known) {
  if (known || rank.is_meta() || rank.numel() == 0) return true;
  return ops::local_scalar(ops::amin(below_levels(rank), {})).to<int64_t>() == n;
}

int64_t largest(const Tensor& counts) {
  if (counts.is_wrapped()) return largest(counts.impl()->wrapping->inner);  // of all rows of a batch
  if (counts.is_meta() || counts.numel() == 0) return 0;
  return ops::local_scalar(ops::amax(counts, {})).to<int64_t>();
}

}  // namespace facula::composite
