// Shapes and argument checks of linear algebra.
#include "facula/shapes.h"

namespace facula::shape {
namespace {

using Name = std::string_view;

void check_type(const Tensor& t, Name op, const char* name) {
  FACULA_CHECK(is_differentiable(t.dtype()), Dtype, Operator{op}, Argument{name},
               " must be floating-point or complex, not ", dtype_name(t.dtype()));
  FACULA_CHECK(!is_reduced_float(t.dtype()), Dtype, Operator{op}, Argument{name}, " is ", dtype_name(t.dtype()),
               ", which has too few digits for linear algebra; convert it to float32");
}

void check_matrices(const Tensor& t, Name op, const char* name) {
  FACULA_CHECK(t.dim() >= 2, Shape, Operator{op}, Argument{name}, " must be a matrix or a batch of matrices, it is ",
               shape_string(t.sizes()));
  check_type(t, op, name);
}

void check_square(const Tensor& t, Name op, const char* name) {
  check_matrices(t, op, name);
  FACULA_CHECK(t.size(-1) == t.size(-2), Shape, Operator{op}, Argument{name},
               " must be batches of square matrices, it is ", shape_string(t.sizes()));
}

void check_alike(const Tensor& a, const Tensor& b, Name op, const char* name_a, const char* name_b) {
  FACULA_CHECK(a.dtype() == b.dtype(), Dtype, Operator{op}, "expected ", name_a, " and ", name_b,
               " to have the same dtype, got ", dtype_name(a.dtype()), " and ", dtype_name(b.dtype()));
}

DimVector lead(const Tensor& t, size_t matrix_dims = 2) {
  return DimVector(t.sizes().first(t.sizes().size() - matrix_dims));
}

DimVector common_lead(const Tensor& a, const Tensor& b, Name op) {
  return broadcast_shapes(lead(a), lead(b), std::string(op).c_str());
}

Meta shaped(DimVector lead, IntList last, ScalarType dtype, const Tensor& like) {
  for (const int64_t n : last) lead.push_back(n);
  return {lead, dtype, like.device(), {}};
}

}  // namespace

Meta square(const Tensor& A, Name op) {
  check_square(A, op, "A");
  return {DimVector(A.sizes()), A.dtype(), A.device(), {}};
}

Meta each_matrix(const Tensor& A, ScalarType dtype) { return {lead(A), dtype, A.device(), {}}; }

Meta triangular_solved(const Tensor& A, const Tensor& B, bool left) {
  constexpr Name op = "linalg.solve_triangular";
  check_square(A, op, "A");
  check_matrices(B, op, "B");
  check_alike(A, B, op, "A", "B");
  FACULA_CHECK(B.size(left ? -2 : -1) == A.size(-1), Shape, Operator{op}, "A ", shape_string(A.sizes()), " and B ",
               shape_string(B.sizes()), " do not fit: ", left ? "A X = B" : "X A = B", " needs as many ",
               left ? "rows" : "columns", " of B as A has, ", A.size(-1));
  return shaped(common_lead(A, B, op), {B.size(-2), B.size(-1)}, B.dtype(), B);
}

Meta distances(const Tensor& x1, const Tensor& x2, std::string_view compute_mode) {
  constexpr Name op = "cdist";
  for (const auto& [t, name] : {std::pair{&x1, "x1"}, std::pair{&x2, "x2"}}) {
    FACULA_CHECK(t->dim() >= 2, Shape, Operator{op}, Argument{name}, " must have at least two dims, it is ",
                 shape_string(t->sizes()));
    FACULA_CHECK(t->is_floating_point(), Dtype, Operator{op}, Argument{name}, " must be floating-point, not ",
                 dtype_name(t->dtype()));
  }
  check_alike(x1, x2, op, "x1", "x2");
  FACULA_CHECK(x1.size(-1) == x2.size(-1), Shape, Operator{op}, "x1 ", shape_string(x1.sizes()), " and x2 ",
               shape_string(x2.sizes()), " must have the same number of columns");
  for (const Name known :
       {"use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"}) {
    if (compute_mode == known) {
      return shaped(common_lead(x1, x2, op), {x1.size(-2), x2.size(-2)}, x1.dtype(), x1);
    }
  }
  raise(ErrorKind::Value, Operator{op}, Argument{"compute_mode"}, " is '", compute_mode,
        "', allowed are 'use_mm_for_euclid_dist_if_necessary', 'use_mm_for_euclid_dist' and "
        "'donot_use_mm_for_euclid_dist'");
}

}  // namespace facula::shape
