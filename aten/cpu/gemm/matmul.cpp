// Kernels of the matmul family over gemm().
#include "aten/cpu/common/dense.h"
#include "aten/cpu/gemm/gemm.h"
#include "aten/cpu/nn/loops.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

// Calls fn with the element type products are made in: signed integers as unsigned ones.
template <typename F>
void visit_product(ScalarType t, const char* op, const F& fn) {
  switch (t) {
    case ScalarType::UInt8:
    case ScalarType::Int8:
      return fn(std::type_identity<uint8_t>{});
    case ScalarType::Int16:
    case ScalarType::UInt16:
      return fn(std::type_identity<uint16_t>{});
    case ScalarType::Int32:
    case ScalarType::UInt32:
      return fn(std::type_identity<uint32_t>{});
    case ScalarType::Int64:
    case ScalarType::UInt64:
      return fn(std::type_identity<uint64_t>{});
    case ScalarType::Float16:
      return fn(std::type_identity<Half>{});
    case ScalarType::BFloat16:
      return fn(std::type_identity<BFloat16>{});
    case ScalarType::Float32:
      return fn(std::type_identity<float>{});
    case ScalarType::Float64:
      return fn(std::type_identity<double>{});
    case ScalarType::Complex64:
      return fn(std::type_identity<complex64>{});
    case ScalarType::Complex128:
      return fn(std::type_identity<complex128>{});
    case ScalarType::Bool:
    case ScalarType::Float8_e4m3fn:
    case ScalarType::Float8_e5m2:
      raise(ErrorKind::NotImplemented, Operator{op}, "not implemented for ", dtype_name(t),
            "; convert to another dtype first");
  }
}

template <typename T>
opmath_t<T> number(const Scalar& s) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(s.to<int64_t>());
  } else {
    return s.to<opmath_t<T>>();
  }
}

template <typename T>
Matrix<T> matrix(const Tensor& t, int64_t row_dim = 0) {
  const IntList s = t.strides();
  const auto d = static_cast<size_t>(row_dim);
  return {static_cast<T*>(t.raw()), s[d], s[d + 1]};
}

// (..., n) as `rows` of n: the row stride when the leading dims fold into one, else -1.
int64_t folded_stride(const Tensor& t) {
  const int64_t last = t.dim() - 1;
  int64_t stride = -1, expected = -1;
  for (int64_t d = last - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    if (t.sizes()[i] == 1) continue;
    if (stride < 0) {
      stride = t.strides()[i];
      expected = stride * t.sizes()[i];
    } else if (t.strides()[i] != expected) {
      return -1;
    } else {
      expected *= t.sizes()[i];
    }
  }
  return stride < 0 ? std::max<int64_t>(1, t.size(-1)) : stride;
}

}  // namespace

void mm(const Tensor& self, const Tensor& mat2, const Tensor& out) {
  visit_product(out.dtype(), "mm", [&](auto type) {
    using T = typename decltype(type)::type;
    gemm<T>(self.size(0), mat2.size(1), self.size(1), opmath_t<T>(1), matrix<T>(self), matrix<T>(mat2), opmath_t<T>(0),
            matrix<T>(out));
  });
}

void bmm(const Tensor& self, const Tensor& mat2, const Tensor& out) {
  visit_product(out.dtype(), "bmm", [&](auto type) {
    using T = typename decltype(type)::type;
    batched_gemm<T>(self.size(0), self.size(1), mat2.size(2), self.size(2), opmath_t<T>(1), matrix<T>(self, 1),
                    self.stride(0), matrix<T>(mat2, 1), mat2.stride(0), opmath_t<T>(0), matrix<T>(out, 1),
                    out.stride(0));
  });
}

void mv(const Tensor& self, const Tensor& vec, const Tensor& out) {
  visit_product(out.dtype(), "mv", [&](auto type) {
    using T = typename decltype(type)::type;
    gemm<T>(self.size(0), 1, self.size(1), opmath_t<T>(1), matrix<T>(self),
            {static_cast<const T*>(vec.raw()), vec.stride(0), 1}, opmath_t<T>(0),
            {static_cast<T*>(out.raw()), out.stride(0), 1});
  });
}

void dot(const Tensor& self, const Tensor& tensor, const Tensor& out) {
  const int64_t n = self.numel(), sa = self.stride(0), sb = tensor.stride(0);
  if (out.dtype() == ScalarType::Float32 && sa == 1 && sb == 1) {
    *out.data<float>() = dot_loops<float>().dot(n, self.data<float>(), tensor.data<float>());
    return;
  }
  if (out.dtype() == ScalarType::Float64 && sa == 1 && sb == 1) {
    *out.data<double>() = dot_loops<double>().dot(n, self.data<double>(), tensor.data<double>());
    return;
  }
  visit_product(out.dtype(), "dot", [&](auto type) {
    using T = typename decltype(type)::type;
    gemm<T>(1, 1, n, opmath_t<T>(1), {static_cast<const T*>(self.raw()), 1, sa},
            {static_cast<const T*>(tensor.raw()), sb, 1}, opmath_t<T>(0), {static_cast<T*>(out.raw()), 1, 1});
  });
}

void addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha,
           const Tensor& out) {
  visit_product(out.dtype(), "addmm", [&](auto type) {
    using T = typename decltype(type)::type;
    const auto b = number<T>(beta);
    if (b != opmath_t<T>(0)) copy_strided(out, self);
    gemm<T>(mat1.size(0), mat2.size(1), mat1.size(1), number<T>(alpha), matrix<T>(mat1), matrix<T>(mat2), b,
            matrix<T>(out));
  });
}

void baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha,
             const Tensor& out) {
  visit_product(out.dtype(), "baddbmm", [&](auto type) {
    using T = typename decltype(type)::type;
    const auto b = number<T>(beta);
    if (b != opmath_t<T>(0)) copy_strided(out, self);
    batched_gemm<T>(batch1.size(0), batch1.size(1), batch2.size(2), batch1.size(2), number<T>(alpha),
                    matrix<T>(batch1, 1), batch1.stride(0), matrix<T>(batch2, 1), batch2.stride(0), b,
                    matrix<T>(out, 1), out.stride(0));
  });
}

void linear(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& out) {
  const int64_t k = weight.size(-1), n = weight.dim() == 2 ? weight.size(0) : 1;
  const int64_t row = folded_stride(input);
  const Tensor x = row < 0 ? dense(input) : input;
  const int64_t rows = n > 0 ? out.numel() / n : 0;
  into_dense(out, out.dtype(), [&](const Tensor& c) {
    const bool of_rows = bias.defined() && (bias.dim() > 1 || (bias.numel() != n && bias.numel() != 1));
    Tensor added = of_rows ? Tensor() : dense_as(bias, c.dtype());
    if (of_rows) {
      copy_strided(c, bias);
    } else if (bias.defined() && bias.numel() != n) {  // one number for all
      added = make_empty(DimVector{n}, c.dtype(), c.device());
      copy_strided(added, bias);
    }
    visit_product(c.dtype(), "linear", [&](auto type) {
      using T = typename decltype(type)::type;
      const Matrix<const T> a{static_cast<const T*>(x.raw()), row < 0 ? k : row, x.stride(-1)};
      const Matrix<const T> w{static_cast<const T*>(weight.raw()), weight.stride(-1),
                              weight.dim() == 2 ? weight.stride(0) : 1};
      const Matrix<T> to{static_cast<T*>(c.raw()), n, 1};
      if (of_rows) {
        gemm<T>(rows, n, k, opmath_t<T>(1), a, w, opmath_t<T>(1), to);
      } else if (bias.defined()) {
        gemm_bias<T>(rows, n, k, a, w, static_cast<const T*>(added.raw()), to);
      } else {
        gemm<T>(rows, n, k, opmath_t<T>(1), a, w, opmath_t<T>(0), to);
      }
    });
  });
}

}  // namespace facula::cpu
