// Kernels that every device has from its interface: what copying memory and the pointwise template give.
#include "runtime/device/interface.h"

#include "facula/kernels.h"

namespace facula::device {

void copy(const Tensor& self, const Tensor& src, bool non_blocking) { device_copy(self, src, non_blocking); }
void fill(const Tensor&, const Scalar& value, const Tensor& out) { device_fill(out, value); }
Scalar local_scalar(const Tensor& self) { return device_scalar(self); }

}  // namespace facula::device
