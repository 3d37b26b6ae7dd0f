// Shapes and argument checks of the matmul family.
#include "facula/shapes.h"

namespace facula::shape {
namespace {

void check_dim(const Tensor& t, int64_t dim, const char* op, const char* name) {
  FACULA_CHECK(t.dim() == dim, Shape, Operator{op}, Argument{name}, " is ", shape_string(t.sizes()), ", expected ", dim,
               dim == 1 ? " dim" : " dims");
}

void check_pair(const Tensor& a, const Tensor& b, const char* op, const char* name_a, const char* name_b) {
  FACULA_CHECK(a.dtype() == b.dtype(), Dtype, Operator{op}, "expected ", name_a, " and ", name_b,
               " to have the same dtype, got ", dtype_name(a.dtype()), " and ", dtype_name(b.dtype()));
  FACULA_CHECK(a.dtype() != ScalarType::Bool, NotImplemented, Operator{op}, "not implemented for bool; convert ",
               name_a, " and ", name_b, " to an integer or floating dtype");
}

// The inner sizes of a product: the last of `a` and the last but one (or only one) of `b`.
void check_inner(const Tensor& a, const Tensor& b, const char* op, const char* name_a, const char* name_b) {
  const int64_t k = a.size(-1), l = b.size(b.dim() == 1 ? 0 : -2);
  FACULA_CHECK(k == l, Shape, Operator{op}, name_a, " ", shape_string(a.sizes()), " and ", name_b, " ",
               shape_string(b.sizes()), " cannot be multiplied: the last size of ", name_a, " is ", k,
               ", it must equal the ", b.dim() == 1 ? "" : "second to last ", "size of ", name_b, ", ", l);
}

void check_factor(const Tensor& t, const Scalar& s, const char* op, const char* name) {
  FACULA_CHECK(is_complex(t.dtype()) || s.kind() != Category::Complex, Dtype, Operator{op}, Argument{name},
               " is complex and the tensors are ", dtype_name(t.dtype()));
  FACULA_CHECK(is_differentiable(t.dtype()) || s.kind() <= Category::Integral, Dtype, Operator{op}, Argument{name},
               " must be an integer for ", dtype_name(t.dtype()), " tensors");
}

void check_added(const Tensor& self, IntList sizes, const char* op) {
  bool fits = self.dim() <= static_cast<int64_t>(sizes.size());
  for (int64_t d = 1; fits && d <= self.dim(); ++d) {
    const int64_t have = self.size(-d), want = sizes[sizes.size() - static_cast<size_t>(d)];
    fits = have == want || have == 1;
  }
  FACULA_CHECK(fits, Shape, Operator{op}, Argument{"self"}, " is ", shape_string(self.sizes()),
               ", it must broadcast to the product's ", shape_string(sizes));
}

Meta result(IntList sizes, const Tensor& like) { return {DimVector(sizes), like.dtype(), like.device(), {}}; }

}  // namespace

Meta mm(const Tensor& self, const Tensor& mat2) {
  check_dim(self, 2, "mm", "self");
  check_dim(mat2, 2, "mm", "mat2");
  check_pair(self, mat2, "mm", "self", "mat2");
  check_inner(self, mat2, "mm", "self", "mat2");
  return result({self.size(0), mat2.size(1)}, self);
}

Meta bmm(const Tensor& self, const Tensor& mat2) {
  check_dim(self, 3, "bmm", "self");
  check_dim(mat2, 3, "bmm", "mat2");
  check_pair(self, mat2, "bmm", "self", "mat2");
  FACULA_CHECK(self.size(0) == mat2.size(0), Shape, Operator{"bmm"}, "self ", shape_string(self.sizes()), " and mat2 ",
               shape_string(mat2.sizes()), " must have the same batch size (size 0)");
  check_inner(self, mat2, "bmm", "self", "mat2");
  return result({self.size(0), self.size(1), mat2.size(2)}, self);
}

Meta mv(const Tensor& self, const Tensor& vec) {
  check_dim(self, 2, "mv", "self");
  check_dim(vec, 1, "mv", "vec");
  check_pair(self, vec, "mv", "self", "vec");
  check_inner(self, vec, "mv", "self", "vec");
  return result({self.size(0)}, self);
}

Meta dot(const Tensor& self, const Tensor& tensor) {
  check_dim(self, 1, "dot", "self");
  check_dim(tensor, 1, "dot", "tensor");
  check_pair(self, tensor, "dot", "self", "tensor");
  FACULA_CHECK(self.size(0) == tensor.size(0), Shape, Operator{"dot"}, Argument{"self"}, " has ", self.size(0),
               " elements and tensor ", tensor.size(0), "; they must have the same number");
  return result({}, self);
}

Meta addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  check_dim(mat1, 2, "addmm", "mat1");
  check_dim(mat2, 2, "addmm", "mat2");
  check_pair(mat1, mat2, "addmm", "mat1", "mat2");
  check_pair(self, mat1, "addmm", "self", "mat1");
  check_inner(mat1, mat2, "addmm", "mat1", "mat2");
  check_factor(self, beta, "addmm", "beta");
  check_factor(self, alpha, "addmm", "alpha");
  const DimVector sizes{mat1.size(0), mat2.size(1)};
  check_added(self, sizes, "addmm");
  return result(sizes, self);
}

Meta baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha) {
  check_dim(batch1, 3, "baddbmm", "batch1");
  check_dim(batch2, 3, "baddbmm", "batch2");
  check_pair(batch1, batch2, "baddbmm", "batch1", "batch2");
  check_pair(self, batch1, "baddbmm", "self", "batch1");
  FACULA_CHECK(batch1.size(0) == batch2.size(0), Shape, Operator{"baddbmm"}, "batch1 ", shape_string(batch1.sizes()),
               " and batch2 ", shape_string(batch2.sizes()), " must have the same batch size (size 0)");
  check_inner(batch1, batch2, "baddbmm", "batch1", "batch2");
  check_factor(self, beta, "baddbmm", "beta");
  check_factor(self, alpha, "baddbmm", "alpha");
  const DimVector sizes{batch1.size(0), batch1.size(1), batch2.size(2)};
  check_added(self, sizes, "baddbmm");
  return result(sizes, self);
}

Meta linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  FACULA_CHECK(input.dim() >= 1, Shape, Operator{"linear"}, Argument{"input"}, " must have at least 1 dim, it is 0-d");
  FACULA_CHECK(weight.dim() == 1 || weight.dim() == 2, Shape, Operator{"linear"}, Argument{"weight"}, " is ",
               shape_string(weight.sizes()), ", expected (out_features, in_features) or (in_features,)");
  check_pair(input, weight, "linear", "input", "weight");
  FACULA_CHECK(input.size(-1) == weight.size(-1), Shape, Operator{"linear"}, "input ", shape_string(input.sizes()),
               " and weight ", shape_string(weight.sizes()), " cannot be multiplied: the last size of input is ",
               input.size(-1), ", weight takes ", weight.size(-1), " features");
  DimVector sizes(input.sizes());
  sizes.pop_back();
  if (weight.dim() == 2) sizes.push_back(weight.size(0));
  if (bias.defined()) {
    check_pair(input, bias, "linear", "input", "bias");
    bool fits = bias.dim() <= std::ssize(sizes) || (bias.dim() == 1 && bias.size(0) == 1);
    for (int64_t i = 1; fits && i <= std::min<int64_t>(bias.dim(), std::ssize(sizes)); ++i) {
      fits = bias.size(-i) == 1 || bias.size(-i) == sizes[sizes.size() - static_cast<size_t>(i)];
    }
    FACULA_CHECK(fits, Shape, Operator{"linear"}, Argument{"bias"}, " is ", shape_string(bias.sizes()), ", expected (",
                 weight.dim() == 2 ? weight.size(0) : 1, ",) for weight ", shape_string(weight.sizes()),
                 ", or what broadcasts to the result, ", shape_string(sizes));
  }
  return result(sizes, input);
}

}  // namespace facula::shape
