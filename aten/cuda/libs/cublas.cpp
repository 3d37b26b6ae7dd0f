#include "libs/cublas.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "libs/library.h"

namespace facula::cuda {

namespace {

using Status = int;
using Handle = struct cublasLtContext*;
using Description = struct cublasLtMatmulDescOpaque*;
using MatrixLayout = struct cublasLtMatrixLayoutOpaque*;
using Preference = struct cublasLtMatmulPreferenceOpaque*;
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};

enum : int {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_C_32F = 4,
  CUDA_C_64F = 5,
  CUDA_R_16BF = 14,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
  CUBLAS_OP_N = 0,
  CUBLAS_OP_T = 1,
  DESC_TRANSA = 3,
  DESC_TRANSB = 4,
  DESC_EPILOGUE = 7,
  DESC_BIAS_POINTER = 8,
  EPILOGUE_BIAS = 4,
  LAYOUT_BATCH_COUNT = 5,
  LAYOUT_BATCH_OFFSET = 6,
  PREF_MAX_WORKSPACE = 1,
  PREF_ALIGNMENT_A = 5,
  PREF_ALIGNMENT_B = 6,
  PREF_ALIGNMENT_C = 7,
  PREF_ALIGNMENT_D = 8,
};
constexpr size_t kWorkspace = size_t{32} << 20;

#define FACULA_CUBLASLT(X)                                                                                             \
  X(cublasLtCreate, (Handle*))                                                                                         \
  X(cublasLtMatmulDescCreate, (Description*, int, int))                                                                \
  X(cublasLtMatmulDescSetAttribute, (Description, int, const void*, size_t))                                           \
  X(cublasLtMatrixLayoutCreate, (MatrixLayout*, int, uint64_t, uint64_t, int64_t))                                     \
  X(cublasLtMatrixLayoutSetAttribute, (MatrixLayout, int, const void*, size_t))                                        \
  X(cublasLtMatmulPreferenceCreate, (Preference*))                                                                     \
  X(cublasLtMatmulPreferenceDestroy, (Preference))                                                                     \
  X(cublasLtMatmulPreferenceSetAttribute, (Preference, int, const void*, size_t))                                      \
  X(cublasLtMatmulAlgoGetHeuristic,                                                                                    \
    (Handle, Description, MatrixLayout, MatrixLayout, MatrixLayout, MatrixLayout, Preference, int, Heuristic*, int*))  \
  X(cublasLtMatmul,                                                                                                    \
    (Handle, Description, const void*, const void*, MatrixLayout, const void*, MatrixLayout, const void*, const void*, \
     MatrixLayout, void*, MatrixLayout, const Algorithm*, void*, size_t, CUstream))

struct Library {
#define X(name, arguments) Status(*name) arguments = nullptr;
  FACULA_CUBLASLT(X)
#undef X
  std::string why;
};

const Library& library() {
  static const Library* const l = [] {
    auto* const made = new Library;
    void* const opened =
        open_library({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}, "nvidia-cublas", made->why);
    if (opened == nullptr) return made;
#define X(name, arguments)                                                   \
  made->name = reinterpret_cast<decltype(made->name)>(dlsym(opened, #name)); \
  if (made->name == nullptr) made->why = "cuBLASLt is too old: it has no " #name;
    FACULA_CUBLASLT(X)
#undef X
    return made;
  }();
  return *l;
}

int data_type(int32_t dtype) {
  switch (dtype) {
    case FACULA_FLOAT16:
      return CUDA_R_16F;
    case FACULA_BFLOAT16:
      return CUDA_R_16BF;
    case FACULA_FLOAT32:
      return CUDA_R_32F;
    case FACULA_FLOAT64:
      return CUDA_R_64F;
    case FACULA_COMPLEX64:
      return CUDA_C_32F;
    case FACULA_COMPLEX128:
      return CUDA_C_64F;
    default:
      return -1;
  }
}

// What the choice of an algorithm depends on; compared as bytes.
struct Shape {
  int64_t batch, rows, columns, inner, a_step, b_step, out_step, a_batch, b_batch, out_batch;
  uint64_t alignments;
  int32_t dtype, device;
  uint8_t a_turned, b_turned, bias, beta;
  uint32_t zero;
};
static_assert(sizeof(Shape) == 12 * 8 + 8);
struct Prepared {
  Description description = nullptr;
  MatrixLayout first = nullptr, second = nullptr, out = nullptr;
  Heuristic heuristic{};
  bool found = false;
};

Handle handle_of(const Device& device) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const handles = new std::unordered_map<int, Handle>;
  std::lock_guard lock(*mutex);
  Handle& h = (*handles)[device.index];
  if (h == nullptr && library().cublasLtCreate(&h) != 0) h = nullptr;
  return h;
}

uint32_t alignment(const void* p) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  return at % 256 == 0 ? 256u : static_cast<uint32_t>(at & (~at + 1));
}

// In the library's column-major words the product is out' (columns, rows) = b' a'.
void prepare(Prepared& p, Handle handle, const Product& x, const Shape& s) {
  const Library& l = library();
  const int type = data_type(x.dtype);
  const int scale = x.dtype == FACULA_FLOAT16 || x.dtype == FACULA_BFLOAT16 ? CUDA_R_32F : type;
  const bool wide = x.dtype == FACULA_FLOAT64 || x.dtype == FACULA_COMPLEX128;
  const int compute = wide                                          ? CUBLAS_COMPUTE_64F
                      : x.dtype == FACULA_FLOAT32 && tf32_allowed() ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                    : CUBLAS_COMPUTE_32F;
  if (l.cublasLtMatmulDescCreate(&p.description, compute, scale) != 0) return;
  const auto turn = [&](int attribute, bool turned) {
    const int op = turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    l.cublasLtMatmulDescSetAttribute(p.description, attribute, &op, sizeof(op));
  };
  turn(DESC_TRANSA, x.b_turned);
  turn(DESC_TRANSB, x.a_turned);
  if (x.bias != nullptr) {
    const int epilogue = EPILOGUE_BIAS;
    l.cublasLtMatmulDescSetAttribute(p.description, DESC_EPILOGUE, &epilogue, sizeof(epilogue));
    l.cublasLtMatmulDescSetAttribute(p.description, DESC_BIAS_POINTER, &x.bias, sizeof(x.bias));
  }
  const auto layout = [&](MatrixLayout* m, int64_t rows, int64_t columns, int64_t step, int64_t batch_step) {
    if (l.cublasLtMatrixLayoutCreate(m, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), step) != 0) {
      return false;
    }
    const int32_t batch = static_cast<int32_t>(x.batch);
    l.cublasLtMatrixLayoutSetAttribute(*m, LAYOUT_BATCH_COUNT, &batch, sizeof(batch));
    l.cublasLtMatrixLayoutSetAttribute(*m, LAYOUT_BATCH_OFFSET, &batch_step, sizeof(batch_step));
    return true;
  };
  const bool good = (x.b_turned ? layout(&p.first, x.inner, x.columns, x.b_step, x.b_batch)
                                : layout(&p.first, x.columns, x.inner, x.b_step, x.b_batch)) &&
                    (x.a_turned ? layout(&p.second, x.rows, x.inner, x.a_step, x.a_batch)
                                : layout(&p.second, x.inner, x.rows, x.a_step, x.a_batch)) &&
                    layout(&p.out, x.columns, x.rows, x.out_step, x.out_batch);
  Preference preference = nullptr;
  if (!good || l.cublasLtMatmulPreferenceCreate(&preference) != 0) return;
  l.cublasLtMatmulPreferenceSetAttribute(preference, PREF_MAX_WORKSPACE, &kWorkspace, sizeof(kWorkspace));
  const auto aligned = [&](int attribute, int byte) {
    const uint32_t bytes = 1u << (s.alignments >> (8 * byte) & 255u);
    l.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &bytes, sizeof(bytes));
  };
  aligned(PREF_ALIGNMENT_A, 0);
  aligned(PREF_ALIGNMENT_B, 1);
  aligned(PREF_ALIGNMENT_C, 2);
  aligned(PREF_ALIGNMENT_D, 2);
  int count = 0;
  const Status status = l.cublasLtMatmulAlgoGetHeuristic(handle, p.description, p.first, p.second, p.out, p.out,
                                                         preference, 1, &p.heuristic, &count);
  p.found = status == 0 && count > 0 && p.heuristic.state == 0;
  l.cublasLtMatmulPreferenceDestroy(preference);
}

struct ShapeHash {
  size_t operator()(const std::string& s) const { return std::hash<std::string_view>()(s); }
};

}  // namespace

int32_t library_product(const Device& device, const Product& x, void* stream) {
  if (data_type(x.dtype) < 0 || !library().why.empty() || x.batch >= int64_t{1} << 31) return FACULA_NOT_SUPPORTED;
  const Handle handle = handle_of(device);
  if (handle == nullptr) return FACULA_NOT_SUPPORTED;
  const auto bits = [](const void* p) { return static_cast<uint64_t>(__builtin_ctz(alignment(p))); };
  const Shape shape{x.batch,
                    x.rows,
                    x.columns,
                    x.inner,
                    x.a_step,
                    x.b_step,
                    x.out_step,
                    x.a_batch,
                    x.b_batch,
                    x.out_batch,
                    bits(x.b) | bits(x.a) << 8 | bits(x.out) << 16,
                    x.dtype,
                    device.index,
                    x.a_turned,
                    x.b_turned,
                    x.bias != nullptr,
                    x.beta[0] != 0 || x.beta[1] != 0,
                    0};
  // a thread's own: the description holds the bias' address
  thread_local std::unordered_map<std::string, Prepared> known;
  Prepared& p = known[std::string(reinterpret_cast<const char*>(&shape), sizeof(shape))];
  if (p.description == nullptr) prepare(p, handle, x, shape);
  if (!p.found) return FACULA_NOT_SUPPORTED;
  if (x.bias != nullptr) {
    library().cublasLtMatmulDescSetAttribute(p.description, DESC_BIAS_POINTER, &x.bias, sizeof(x.bias));
  }
  Scratch workspace(device.index, stream);
  if (p.heuristic.workspace > 0) FACULA_TRY(workspace.allocate(p.heuristic.workspace));
  union Number {
    float f[2];
    double d[2];
  };
  const auto number = [&](const double (&v)[2]) {
    Number n;
    if (x.dtype == FACULA_FLOAT64 || x.dtype == FACULA_COMPLEX128) {
      std::copy_n(v, 2, n.d);
    } else {
      n.f[0] = static_cast<float>(v[0]);
      n.f[1] = static_cast<float>(v[1]);
    }
    return n;
  };
  const Number alpha = number(x.alpha), beta = number(x.beta);
  const Status status = library().cublasLtMatmul(handle, p.description, &alpha, x.b, p.first, x.a, p.second, &beta,
                                                 x.out, p.out, x.out, p.out, &p.heuristic.algorithm, workspace.data(),
                                                 p.heuristic.workspace, static_cast<CUstream>(stream));
  if (status == 0) return FACULA_OK;
  return status == 15 ? int32_t{FACULA_NOT_SUPPORTED}
                      : fail(FACULA_DEVICE_ERROR, "cublasLtMatmul failed with status " + std::to_string(status));
}

}  // namespace facula::cuda
