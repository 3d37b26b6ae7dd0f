// Shapes and argument checks of products with sparse matrices.
#include <utility>

#include "facula/shapes.h"

namespace facula::shape {
namespace {

void check_indices(const Tensor& t, const char* op, const char* name) {
  FACULA_CHECK(t.dim() == 1 && (t.dtype() == ScalarType::Int64 || t.dtype() == ScalarType::Int32), Shape, Operator{op},
               Argument{name}, " is ", dtype_name(t.dtype()), " ", shape_string(t.sizes()),
               ", expected one dim of int64 or int32");
}

void check_matrix(const Tensor& crow, const Tensor& col, const char* op) {
  check_indices(crow, op, "crow");
  check_indices(col, op, "col");
  FACULA_CHECK(crow.size(0) > 0, Shape, Operator{op}, Argument{"crow"},
               " is empty; it has one more than there are rows");
}

void check_operands(const Tensor& a, const Tensor& b, const char* op, const char* name_a, const char* name_b) {
  FACULA_CHECK(a.dtype() == b.dtype(), Dtype, Operator{op}, "expected ", name_a, " and ", name_b,
               " to have the same dtype, got ", dtype_name(a.dtype()), " and ", dtype_name(b.dtype()));
  FACULA_CHECK(a.dtype() != ScalarType::Bool, NotImplemented, Operator{op}, "not implemented for bool; convert ",
               name_a, " and ", name_b, " to an integer or floating dtype");
  FACULA_CHECK(b.dim() == 2, Shape, Operator{op}, Argument{name_b}, " is ", shape_string(b.sizes()),
               ", expected 2 dims");
}

void check_factors(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& other_crow,
                   const Tensor& other_col, const Tensor& other_values, const char* op) {
  check_matrix(crow, col, op);
  check_matrix(other_crow, other_col, op);
  FACULA_CHECK(values.dtype() == other_values.dtype(), Dtype, Operator{op},
               "expected both matrices to have the same dtype, got ", dtype_name(values.dtype()), " and ",
               dtype_name(other_values.dtype()));
  FACULA_CHECK(values.dtype() != ScalarType::Bool, NotImplemented, Operator{op},
               "not implemented for bool; convert both matrices to an integer or floating dtype");
  for (const auto& [v, c] : {std::pair(&values, &col), std::pair(&other_values, &other_col)}) {
    FACULA_CHECK(v->sizes() == c->sizes(), Shape, Operator{op}, Argument{"values"}, " is ", shape_string(v->sizes()),
                 ", col is ", shape_string(c->sizes()), "; each entry has one of both");
  }
}

}  // namespace

Meta csr_product(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense) {
  check_matrix(crow, col, "_csr_product");
  check_operands(values, dense, "_csr_product", "values", "dense");
  FACULA_CHECK(values.sizes() == col.sizes(), Shape, Operator{"_csr_product"}, Argument{"values"}, " is ",
               shape_string(values.sizes()), ", col is ", shape_string(col.sizes()), "; each entry has one of both");
  return {{crow.size(0) - 1, dense.size(1)}, values.dtype(), values.device(), {}};
}

Meta csr_sampled(const Tensor& crow, const Tensor& col, const Tensor& left, const Tensor& right) {
  check_matrix(crow, col, "_csr_sampled");
  check_operands(left, right, "_csr_sampled", "left", "right");
  FACULA_CHECK(left.dim() == 2 && left.size(0) == crow.size(0) - 1 && left.size(1) == right.size(1), Shape,
               Operator{"_csr_sampled"}, Argument{"left"}, " is ", shape_string(left.sizes()), ", expected ",
               shape_string({{crow.size(0) - 1, right.size(1)}}));
  return {{col.size(0)}, left.dtype(), left.device(), {}};
}

Meta csr_csr_starts(const Tensor& crow, const Tensor& col, const Tensor& other_crow, const Tensor& other_col) {
  check_matrix(crow, col, "_csr_csr_starts");
  check_matrix(other_crow, other_col, "_csr_csr_starts");
  return {{crow.size(0)}, ScalarType::Int64, crow.device(), {}};
}

Meta csr_csr_values(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& other_crow,
                    const Tensor& other_col, const Tensor& other_values, const Tensor& starts, int64_t entries) {
  check_factors(crow, col, values, other_crow, other_col, other_values, "_csr_csr_product");
  check_indices(starts, "_csr_csr_product", "starts");
  FACULA_CHECK(starts.sizes() == crow.sizes(), Shape, Operator{"_csr_csr_product"}, Argument{"starts"}, " is ",
               shape_string(starts.sizes()), ", crow ", shape_string(crow.sizes()), "; both begin the same rows");
  return {{entries}, values.dtype(), values.device(), {}};
}
Meta csr_csr_places(const Tensor& crow, int64_t entries) { return {{entries}, ScalarType::Int64, crow.device(), {}}; }

Meta csr_csr_sampled(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& other_crow,
                     const Tensor& other_col, const Tensor& other_values, const Tensor& mask_crow,
                     const Tensor& mask_col) {
  check_factors(crow, col, values, other_crow, other_col, other_values, "_csr_csr_sampled");
  check_matrix(mask_crow, mask_col, "_csr_csr_sampled");
  FACULA_CHECK(mask_crow.sizes() == crow.sizes(), Shape, Operator{"_csr_csr_sampled"}, Argument{"mask_crow"}, " is ",
               shape_string(mask_crow.sizes()), ", crow ", shape_string(crow.sizes()), "; both begin the same rows");
  return {{mask_col.size(0)}, values.dtype(), values.device(), {}};
}

Meta group_starts(const Tensor& index, int64_t groups) {
  check_indices(index, "_group_indices", "index");
  return {{groups + 1}, ScalarType::Int64, index.device(), {}};
}
Meta group_order(const Tensor& index) { return {{index.numel()}, ScalarType::Int64, index.device(), {}}; }

}  // namespace facula::shape
