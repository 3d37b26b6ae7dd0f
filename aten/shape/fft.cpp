// Shapes and argument checks of Fourier transforms.
#include "facula/shapes.h"

namespace facula::shape {
namespace {

using Name = std::string_view;
constexpr Name kComplex = "_fft_c2c", kOfReal = "_fft_r2c", kToReal = "_fft_c2r";

void check_fft(const Tensor& t, IntList dim, Name op) {
  FACULA_CHECK(is_differentiable(t.dtype()), Dtype, Operator{op}, Argument{"self"},
               " must be floating-point or complex, not ", dtype_name(t.dtype()));
  FACULA_CHECK(!is_reduced_float(t.dtype()), Dtype, Operator{op}, Argument{"self"}, " is ", dtype_name(t.dtype()),
               ", which has too few digits for Fourier transforms; convert it to float32");
  FACULA_CHECK(!dim.empty(), Runtime, Operator{op}, Argument{"dim"}, " must name at least one dim");
  FACULA_CHECK(t.dim() > 0, Shape, Operator{op}, Argument{"self"}, " has no dims to transform");
  for (size_t i = 0; i < dim.size(); ++i) {
    const int64_t d = wrap_dim(dim[i], t.dim(), std::string(op).c_str());
    for (size_t j = 0; j < i; ++j) {
      FACULA_CHECK(wrap_dim(dim[j], t.dim()) != d, Runtime, Operator{op}, Argument{"dim"},
                   " must not repeat a dim, it is ", shape_string(dim));
    }
    FACULA_CHECK(t.size(d) > 0, Shape, Operator{op}, "there is no transform of no elements: dim ", dim[i], " of ",
                 shape_string(t.sizes()), " has none");
  }
}

}  // namespace

Meta fft_complex(const Tensor& self, IntList dim) {
  check_fft(self, dim, kComplex);
  FACULA_CHECK(self.is_complex(), Dtype, Operator{kComplex}, Argument{"self"}, " must be complex, not ",
               dtype_name(self.dtype()));
  return {DimVector(self.sizes()), self.dtype(), self.device(), {}};
}

Meta fft_of_real(const Tensor& self, IntList dim, bool onesided) {
  check_fft(self, dim, kOfReal);
  FACULA_CHECK(!self.is_complex(), Dtype, Operator{kOfReal}, Argument{"self"}, " must be real, not ",
               dtype_name(self.dtype()));
  DimVector sizes(self.sizes());
  const auto last = static_cast<size_t>(wrap_dim(dim.back(), self.dim()));
  if (onesided) sizes[last] = sizes[last] / 2 + 1;
  return {sizes, to_complex(self.dtype()), self.device(), {}};
}

Meta fft_to_real(const Tensor& self, IntList dim, int64_t last_size) {
  check_fft(self, dim, kToReal);
  FACULA_CHECK(self.is_complex(), Dtype, Operator{kToReal}, Argument{"self"}, " must be complex, not ",
               dtype_name(self.dtype()));
  DimVector sizes(self.sizes());
  const auto last = static_cast<size_t>(wrap_dim(dim.back(), self.dim()));
  FACULA_CHECK(last_size > 0 && sizes[last] == last_size / 2 + 1, Shape, Operator{kToReal}, "dim ", dim.back(), " of ",
               shape_string(self.sizes()), " must have half as many elements as the result, and one, ",
               last_size / 2 + 1);
  sizes[last] = last_size;
  return {sizes, to_real(self.dtype()), self.device(), {}};
}

}  // namespace facula::shape
