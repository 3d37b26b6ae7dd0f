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

// Strides with the columns of each matrix one after the other.
Meta by_columns(Meta meta) {
  const size_t n = meta.sizes.size();
  DimVector across = meta.sizes;
  std::swap(across[n - 1], across[n - 2]);
  meta.strides = contiguous_strides(across);
  std::swap(meta.strides[n - 1], meta.strides[n - 2]);
  return meta;
}

// X of A X = B, or of X A = B.
Meta solved(const Tensor& A, const Tensor& B, bool left, Name op) {
  check_square(A, op, "A");
  check_matrices(B, op, "B");
  check_alike(A, B, op, "A", "B");
  FACULA_CHECK(B.size(left ? -2 : -1) == A.size(-1), Shape, Operator{op}, "A ", shape_string(A.sizes()), " and B ",
               shape_string(B.sizes()), " do not fit: ", left ? "A X = B" : "X A = B", " needs as many ",
               left ? "rows" : "columns", " of B as A has, ", A.size(-1));
  return shaped(common_lead(A, B, op), {B.size(-2), B.size(-1)}, B.dtype(), B);
}

}  // namespace

Meta square(const Tensor& A, Name op) {
  check_square(A, op, "A");
  return {DimVector(A.sizes()), A.dtype(), A.device(), {}};
}

Meta each_matrix(const Tensor& A, ScalarType dtype) { return {lead(A), dtype, A.device(), {}}; }

// As A, the columns of each matrix one after the other.
Meta columns(const Tensor& A, Name op) {
  check_matrices(A, op, "A");
  return by_columns({DimVector(A.sizes()), A.dtype(), A.device(), {}});
}

Meta square_columns(const Tensor& A, Name op) { return by_columns(square(A, op)); }

Meta lu_pivots(const Tensor& A) { return shaped(lead(A), {std::min(A.size(-1), A.size(-2))}, ScalarType::Int32, A); }

Meta lu_solution(const Tensor& A, const Tensor& B, bool left, Name op) {
  const Meta meta = solved(A, B, left, op);
  return left ? by_columns(meta) : meta;
}

Meta pivot_rows(const Tensor& pivots, int64_t rows) {
  constexpr Name op = "lu_unpack";
  FACULA_CHECK(pivots.dtype() == ScalarType::Int32 || pivots.dtype() == ScalarType::Int64, Dtype, Operator{op},
               Argument{"pivots"}, " must be int32, as lu_factor gives them, or int64, not ",
               dtype_name(pivots.dtype()));
  FACULA_CHECK(pivots.dim() >= 1 && pivots.size(-1) <= rows, Shape, Operator{op}, Argument{"pivots"}, " are ",
               shape_string(pivots.sizes()), ", of matrices of ", rows, " rows there are at most as many");
  return shaped(lead(pivots, 1), {rows}, ScalarType::Int64, pivots);
}

Meta square_each(const Tensor& A, ScalarType dtype, Name op) {
  check_square(A, op, "A");
  return each_matrix(A, dtype);
}

Meta triangular_solved(const Tensor& A, const Tensor& B, bool left) {
  return solved(A, B, left, "linalg.solve_triangular");
}

// Q, R, singular vectors: `rows` by `cols`, column after column, or nothing.
static Meta part(const Tensor& A, int64_t rows, int64_t cols, bool compute) {
  if (!compute) return {{0}, A.dtype(), A.device(), {}};
  return by_columns(shaped(lead(A), {rows, cols}, A.dtype(), A));
}

Meta qr_q(const Tensor& A, bool complete, bool compute) {
  check_matrices(A, "linalg.qr", "A");
  return part(A, A.size(-2), complete ? A.size(-2) : std::min(A.size(-1), A.size(-2)), compute);
}

Meta qr_r(const Tensor& A, bool complete) {
  return part(A, complete ? A.size(-2) : std::min(A.size(-1), A.size(-2)), A.size(-1), true);
}

static void check_reflections(const Tensor& input, const Tensor& tau, Name op) {
  check_matrices(input, op, "input");
  check_alike(input, tau, op, "input", "tau");
  FACULA_CHECK(input.size(-2) >= input.size(-1), Shape, Operator{op}, Argument{"input"},
               " must have at least as many rows as columns, it is ", shape_string(input.sizes()));
  FACULA_CHECK(tau.dim() == input.dim() - 1 && tau.size(-1) <= input.size(-1) && lead(tau, 1) == lead(input), Shape,
               Operator{op}, Argument{"tau"}, " is ", shape_string(tau.sizes()), ", input ",
               shape_string(input.sizes()), " takes the same batch and at most ", input.size(-1), " elements");
}

Meta reflections(const Tensor& input, const Tensor& tau) {
  check_reflections(input, tau, "linalg.householder_product");
  return {DimVector(input.sizes()), input.dtype(), input.device(), {}};
}

Meta reflected(const Tensor& input, const Tensor& tau, const Tensor& other, bool left) {
  constexpr Name op = "ormqr";
  check_reflections(input, tau, op);
  check_matrices(other, op, "other");
  check_alike(input, other, op, "input", "other");
  FACULA_CHECK(other.size(left ? -2 : -1) == input.size(-2) && lead(other) == lead(input), Shape, Operator{op},
               Argument{"other"}, " is ", shape_string(other.sizes()), ", input ", shape_string(input.sizes()),
               " takes the same batch and ", input.size(-2), left ? " rows" : " columns");
  return {DimVector(other.sizes()), other.dtype(), other.device(), {}};
}

Meta eigenvalues(const Tensor& A, ScalarType dtype, Name op) {
  check_square(A, op, "A");
  return shaped(lead(A), {A.size(-1)}, dtype, A);
}

Meta eigenvectors(const Tensor& A, ScalarType dtype, bool compute, Name op) {
  check_square(A, op, "A");
  Meta meta = part(A, A.size(-1), A.size(-1), compute);
  meta.dtype = dtype;
  return meta;
}

// An element for each row or column of matrices, of which there are fewer.
Meta short_side(const Tensor& A, ScalarType dtype, Name op) {
  check_matrices(A, op, "A");
  return shaped(lead(A), {std::min(A.size(-1), A.size(-2))}, dtype, A);
}

Meta left_vectors(const Tensor& A, bool full, bool compute) {
  check_matrices(A, "linalg.svd", "A");
  return part(A, A.size(-2), full ? A.size(-2) : std::min(A.size(-1), A.size(-2)), compute);
}

Meta right_vectors(const Tensor& A, bool full, bool compute) {
  check_matrices(A, "linalg.svd", "A");
  return part(A, full ? A.size(-1) : std::min(A.size(-1), A.size(-2)), A.size(-1), compute);
}

Meta pseudo_inverse(const Tensor& A, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  constexpr Name op = "linalg.pinv";
  hermitian ? check_square(A, op, "A") : check_matrices(A, op, "A");
  for (const auto& [t, name] : {std::pair{&atol, "atol"}, std::pair{&rtol, "rtol"}}) {
    if (!t->defined()) continue;
    FACULA_CHECK(broadcast_shapes(lead(A), t->sizes(), "linalg.pinv") == lead(A), Shape, Operator{op}, Argument{name},
                 " is ", shape_string(t->sizes()), ", it must broadcast to the batch of A ", shape_string(A.sizes()));
    FACULA_CHECK(!t->is_complex(), Dtype, Operator{op}, Argument{name}, " must be real, not ", dtype_name(t->dtype()));
  }
  return shaped(lead(A), {A.size(-1), A.size(-2)}, A.dtype(), A);
}

Meta least_squares(const Tensor& A, const Tensor& B) {
  constexpr Name op = "linalg.lstsq";
  check_matrices(A, op, "A");
  check_matrices(B, op, "B");
  check_alike(A, B, op, "A", "B");
  FACULA_CHECK(A.size(-2) == B.size(-2), Shape, Operator{op}, "A ", shape_string(A.sizes()), " and B ",
               shape_string(B.sizes()), " must have the same number of rows");
  return by_columns(shaped(common_lead(A, B, op), {std::max(A.size(-1), A.size(-2)), B.size(-1)}, A.dtype(), A));
}

Meta least_squares_each(const Tensor& A, const Tensor& B, ScalarType dtype) {
  return {common_lead(A, B, "linalg.lstsq"), dtype, A.device(), {}};
}

Meta least_squares_values(const Tensor& A, const Tensor& B, bool compute) {
  if (!compute) return {{0}, to_real(A.dtype()), A.device(), {}};
  return shaped(common_lead(A, B, "linalg.lstsq"), {std::min(A.size(-1), A.size(-2))}, to_real(A.dtype()), A);
}

Meta ldl_pivots(const Tensor& A) { return shaped(lead(A), {A.size(-1)}, ScalarType::Int32, A); }

Meta ldl_solved(const Tensor& LD, const Tensor& pivots, const Tensor& B) {
  constexpr Name op = "linalg.ldl_solve";
  check_square(LD, op, "LD");
  FACULA_CHECK(is_integral(pivots.dtype()) && pivots.dim() >= 1 &&
                   DimVector(pivots.sizes()) == DimVector(LD.sizes().first(LD.sizes().size() - 1)),
               Shape, Operator{op}, Argument{"pivots"}, " are ", shape_string(pivots.sizes()), " of ",
               dtype_name(pivots.dtype()), ", LD ", shape_string(LD.sizes()), " takes integers, one for each row");
  return solved(LD, B, true, op);
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

Meta distance_slopes(const Tensor& grad, const Tensor& x1, const Tensor& x2, const Tensor& distance) {
  constexpr Name op = "_cdist_slopes";
  const Meta whole = distances(x1, x2, "use_mm_for_euclid_dist_if_necessary");
  for (const auto& [t, name] : {std::pair{&grad, "grad"}, std::pair{&distance, "distance"}}) {
    check_alike(x1, *t, op, "x1", name);
    FACULA_CHECK(t->sizes() == IntList(whole.sizes), Shape, Operator{op}, Argument{name},
                 " must have the shape of the distances ", shape_string(whole.sizes), ", not ",
                 shape_string(t->sizes()));
  }
  return shaped(common_lead(x1, x2, op), {x1.size(-2), x1.size(-1)}, x1.dtype(), x1);
}

}  // namespace facula::shape
