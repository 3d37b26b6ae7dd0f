// Matrix products: by cuBLASLt, and by a kernel of our own where it has none.
#include <algorithm>

#include "libs/cublas.h"
#include "launch/kernels.h"
#include "launch/strided_iterator.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

// A matrix, or a batch of them, by its data and steps in elements: batch, row, column.
struct Matrix {
  const void* data = nullptr;
  int64_t steps[3] = {};
};
Matrix matrix_of(const FaculaTensor& t, const void* data = nullptr) {
  Matrix m{data != nullptr ? data : t.data, {}};
  for (int d = 0; d < t.ndim; ++d) m.steps[3 - t.ndim + d] = t.strides[d];
  return m;
}

struct Sizes {
  int64_t batch, rows, columns, inner;
};
struct Numbers {
  FaculaValue alpha, beta;
  bool plain = true;
};

int32_t computed(int32_t dtype) {
  return dtype == FACULA_FLOAT16 || dtype == FACULA_BFLOAT16 ? int32_t{FACULA_FLOAT32} : dtype;
}

KernelSource source(int32_t dtype) {
  return file_kernel("gemm.cu", "facula_gemm",
                     std::string("using S = ") + element_type(dtype) + ";\nusing T = " + compute_type(dtype) + ";\n");
}

int32_t own_product(const Device& device, void* stream, int32_t dtype, const Sizes& n, const Matrix& a, const Matrix& b,
                    const Matrix& out, const Numbers& numbers) {
  KernelKey key;
  key.name = "gemm.cu";
  key.bits[0] = static_cast<uint64_t>(dtype);
  Kernel* kernel = nullptr;
  FACULA_TRY(find_kernel(device, key, [&] { return source(dtype); }, &kernel));
  Params params;
  params.put(a.data);
  params.put(b.data);
  params.put(out.data);
  for (const int64_t s : {n.batch, n.rows, n.columns, n.inner}) params.put(s);
  for (const Matrix* m : {&a, &b, &out}) {
    for (const int64_t s : m->steps) params.put(s * itemsize(dtype));
  }
  params.put_number(numbers.alpha, computed(dtype));
  params.put_number(numbers.beta, computed(dtype));
  params.put(static_cast<int64_t>(numbers.plain));
  void* arguments[] = {params.data()};
  const int64_t rows = ceil_div(n.rows, 32);
  if (rows > 65535) return FACULA_NOT_SUPPORTED;
  return launch(device, *kernel,
                {static_cast<unsigned>(ceil_div(n.columns, 32)), static_cast<unsigned>(rows),
                 static_cast<unsigned>(std::min<int64_t>(n.batch, 65535))},
                {256}, 0, stream, arguments);
}

// Steps that the library takes: one of the two is 1, the other at least the length of a line.
bool fits(const Matrix& m, int64_t rows, int64_t columns, bool& turned, int64_t& step) {
  const int64_t row = m.steps[1], column = m.steps[2];
  if (column == 1 || columns == 1) {
    if (rows == 1 || (row >= std::max<int64_t>(columns, 1) && (column == 1 || columns == 1))) {
      turned = false;
      step = rows == 1 ? std::max<int64_t>(columns, 1) : row;
      return true;
    }
  }
  if (row == 1 || rows == 1) {
    if (columns == 1 || column >= std::max<int64_t>(rows, 1)) {
      turned = true;
      step = columns == 1 ? std::max<int64_t>(rows, 1) : column;
      return true;
    }
  }
  return false;
}

// One tile of our own kernel: the library's choice of an algorithm would take longer than the product.
bool is_small(const Sizes& n) { return n.batch <= 16 && n.rows <= 32 && n.columns <= 32 && n.inner <= 64; }

int32_t product(const Device& device, void* stream, int32_t dtype, const Sizes& n, const Matrix& a, const Matrix& b,
                const Matrix& out, const Numbers& numbers, const void* bias) {
  if (bias == nullptr && is_small(n)) return own_product(device, stream, dtype, n, a, b, out, numbers);
  Product p;
  bool out_turned = false;
  if (n.inner > 0 && fits(a, n.rows, n.inner, p.a_turned, p.a_step) &&
      fits(b, n.inner, n.columns, p.b_turned, p.b_step) && fits(out, n.rows, n.columns, out_turned, p.out_step) &&
      (!out_turned || n.rows == 1 || n.columns == 1)) {
    p.a = a.data;
    p.b = b.data;
    p.out = const_cast<void*>(out.data);
    p.bias = bias;
    p.batch = n.batch;
    p.rows = n.rows;
    p.columns = n.columns;
    p.inner = n.inner;
    p.a_batch = a.steps[0];
    p.b_batch = b.steps[0];
    p.out_batch = out.steps[0];
    p.dtype = dtype;
    if (out_turned) {  // a column of results that lie side by side
      p.out_step = n.rows == 1 ? std::max<int64_t>(n.columns, 1) : out.steps[1];
    }
    if (!numbers.plain) {
      p.alpha[0] = real_of(numbers.alpha);
      p.alpha[1] = numbers.alpha.kind == FACULA_COMPLEX ? numbers.alpha.more.imag : 0;
      p.beta[0] = real_of(numbers.beta);
      p.beta[1] = numbers.beta.kind == FACULA_COMPLEX ? numbers.beta.more.imag : 0;
    }
    const int32_t status = library_product(device, p, stream);
    if (status != FACULA_NOT_SUPPORTED) return status;
  }
  if (bias != nullptr) return FACULA_NOT_SUPPORTED;  // the caller puts the bias there first
  return own_product(device, stream, dtype, n, a, b, out, numbers);
}

FaculaValue number(double v) {
  FaculaValue n{};
  n.kind = FACULA_FLOAT;
  n.at.f = v;
  return n;
}
bool is_number(const FaculaValue& v, double wanted) {
  return real_of(v) == wanted && (v.kind != FACULA_COMPLEX || v.more.imag == 0);
}

// `given` (null, or what is added, broadcast) over out: alpha a b + beta given.
int32_t multiply(const FaculaCall* call, const Sizes& n, const FaculaTensor& a, const FaculaTensor& b, const Matrix& ma,
                 const Matrix& mb, const FaculaTensor& out, const Matrix& mout, const FaculaTensor* given,
                 const FaculaValue& alpha, const FaculaValue& beta) {
  if (!on_device(a) || !on_device(b) || a.dtype != out.dtype || b.dtype != out.dtype) return FACULA_NOT_SUPPORTED;
  if (out.numel == 0) return FACULA_OK;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  const bool adds = given != nullptr && !is_number(beta, 0);
  Numbers numbers{alpha, adds ? beta : number(0), !adds && is_number(alpha, 1)};
  if (adds) {
    const bool line = given->ndim == 1 && on_device(*given) && given->dtype == out.dtype &&
                      given->sizes[0] == n.columns && given->strides[0] == 1 && n.batch == 1 && n.columns > 1;
    const bool kind = out.dtype == FACULA_FLOAT16 || out.dtype == FACULA_BFLOAT16 || out.dtype == FACULA_FLOAT32;
    if (line && kind && is_number(alpha, 1) && is_number(beta, 1)) {
      const int32_t status =
          product(*device, call->stream, out.dtype, n, ma, mb, mout, {alpha, number(0), true}, given->data);
      if (status != FACULA_NOT_SUPPORTED) return status;
    }
    if (given->data != out.data || given->ndim != out.ndim) {
      FaculaTensor spread = *given;
      int64_t strides[kMaxTensorDims];
      for (int d = 0; d < out.ndim; ++d) {
        const int own = d - (out.ndim - given->ndim);
        strides[d] = own >= 0 && given->sizes[own] != 1 && on_device(*given) ? given->strides[own] : 0;
      }
      spread.sizes = out.sizes;
      spread.strides = strides;
      spread.ndim = out.ndim;
      spread.numel = out.numel;
      if (given->numel != out.numel) spread.flags &= ~uint32_t{FACULA_CONTIGUOUS};
      FACULA_TRY(copy_between(out, spread, call->index, call->stream));
    }
  }
  return product(*device, call->stream, out.dtype, n, ma, mb, mout, numbers, nullptr);
}

Sizes sizes_of(const FaculaTensor& a, const FaculaTensor& b) {
  return {a.ndim == 3 ? a.sizes[0] : 1, a.sizes[a.ndim - 2], b.sizes[b.ndim - 1], a.sizes[a.ndim - 1]};
}

// mm(self, mat2, out), bmm(self, mat2, out)
int32_t mm(void*, const FaculaCall* call) {
  const FaculaTensor &a = tensor(call, 0), &b = tensor(call, 1), &out = result(call);
  return multiply(call, sizes_of(a, b), a, b, matrix_of(a), matrix_of(b), out, matrix_of(out), nullptr, number(1),
                  number(0));
}
// addmm(self, mat1, mat2, beta, alpha, out), baddbmm
int32_t addmm(void*, const FaculaCall* call) {
  const FaculaTensor &self = tensor(call, 0), &a = tensor(call, 1), &b = tensor(call, 2), &out = result(call);
  return multiply(call, sizes_of(a, b), a, b, matrix_of(a), matrix_of(b), out, matrix_of(out), &self, call->args[4],
                  call->args[3]);
}
// linear(input, weight, bias, out)
int32_t linear(void*, const FaculaCall* call) {
  const FaculaTensor &input = tensor(call, 0), &weight = tensor(call, 1), &out = result(call);
  const int64_t inner = input.sizes[input.ndim - 1];
  if (out.numel == 0) return FACULA_OK;
  const int64_t columns = weight.ndim == 2 ? weight.sizes[0] : 1;
  const Sizes n{1, out.numel / columns, columns, inner};
  Scratch moved(call->index, call->stream), apart(call->index, call->stream);
  const void* data = input.data;
  const bool flat = input.ndim == 2 || is_dense(input);
  if (!flat) FACULA_TRY(dense(input, moved, call->index, call->stream, &data));
  Matrix a{data, {0, inner, 1}};
  if (input.ndim == 2) a = matrix_of(input);
  Matrix b{weight.data, {0, weight.strides[weight.ndim - 1], weight.ndim == 2 ? weight.strides[0] : inner}};
  if (!is_dense(out)) return FACULA_NOT_SUPPORTED;
  const Matrix to{out.data, {0, columns, 1}};
  const FaculaTensor* const bias = absent(call, 2) ? nullptr : &tensor(call, 2);
  if (bias != nullptr && (bias->ndim > 1 || (bias->numel != columns && bias->numel != 1))) return FACULA_NOT_SUPPORTED;
  return multiply(call, n, input, weight, a, b, out, to, bias, number(1), number(1));
}

void list(int level, const std::function<void(KernelSource)>& add) {
  if (level == 0) return;
  for (const int32_t dtype : {FACULA_INT64, FACULA_FLOAT32, FACULA_INT32, FACULA_UINT8, FACULA_FLOAT16, FACULA_BFLOAT16,
                              FACULA_COMPLEX64, FACULA_FLOAT64}) {
    if (level == 2 || dtype == FACULA_INT64 || dtype == FACULA_FLOAT32) add(source(dtype));
  }
}
const ListsSources lists(list);

const Registers registers{{"mm", mm}, {"bmm", mm}, {"addmm", addmm}, {"baddbmm", addmm}, {"linear", linear}};

}  // namespace

}  // namespace facula::cuda
