// What Fourier transforms ask of the values of tensors.
#include "facula/kernels.h"
#include "facula/ops.h"
#include "runtime/dispatch/levels.h"

namespace facula::composite {

void check_overlap(const Tensor& envelope) {
  if (envelope.is_meta() || envelope.numel() == 0) return;
  const double least = ops::local_scalar(ops::amin(ops::abs(below_levels(envelope)), {})).as_double();
  FACULA_CHECK(least > 1e-11, Runtime, "the squared windows of all frames add up to ", least,
               " at some place of the signal, which cannot be divided by; give a window without zeros at its ends, a "
               "smaller hop_length, or center=True");
}

}  // namespace facula::composite
