// A device of another package, as docs/vendors.md tells: memory, pointwise operators, one kernel.
#include <cstdlib>

#include "runtime/core/allocator.h"
#include "runtime/dispatch/registry.h"
#include "runtime/iterate/pointwise.h"

using namespace facula;

namespace {

struct AcmeAllocator : Allocator {
  void* allocate(size_t nbytes, Device) override { return std::aligned_alloc(64, (nbytes + 63) / 64 * 64); }
  void deallocate(void* data, size_t, Device) noexcept override { std::free(data); }
};
AcmeAllocator acme_allocator;
int pointwise_calls = 0, cumsum_calls = 0;

void acme_pointwise(const PointwiseOp&, std::span<const Tensor* const>, std::span<const Tensor* const> outs, ScalarType,
                    LoopArgs) {
  ++pointwise_calls;
  for (int64_t i = 0; i < outs[0]->numel(); ++i) outs[0]->data<float>()[i] = 1;
}
void acme_cumsum(const Tensor&, int64_t, std::optional<ScalarType>, const Tensor&) { ++cumsum_calls; }

}  // namespace

extern "C" __attribute__((visibility("default"))) void start() {
  const DeviceType acme = register_device_type("acme");
  set_allocator(acme, &acme_allocator);
  set_pointwise_kernel(acme, &acme_pointwise);
  find_operator("cumsum")->kernels[acme] = reinterpret_cast<AnyFn>(&acme_cumsum);
}
extern "C" __attribute__((visibility("default"))) int calls(int which) {
  return which == 0 ? pointwise_calls : cumsum_calls;
}
