// Kernels of single operators, and the registration. Write here what facula.backends.fallbacks() lists.
#include <algorithm>

#include "loops.h"
#include "templates.h"

namespace @NAME@ {

namespace {

bool is_float(int32_t dtype) { return dtype == FACULA_FLOAT32 || dtype == FACULA_FLOAT64; }

// arange.start(start, end, step, dtype, device, out)
int32_t arange(void*, const FaculaCall* call) {
  const FaculaValue start = call->args[0], step = call->args[2];
  const Operand out(*call->args[call->nargs - 1].at.tensors);
  const bool whole = start.kind == FACULA_INT && step.kind == FACULA_INT;
  return enqueue(call->index, call->stream, [=] {
    const auto real = [](const FaculaValue& v) { return v.kind == FACULA_FLOAT ? v.at.f : static_cast<double>(v.at.i); };
    for (int64_t i = 0; i < out.numel; ++i) {
      char* const p = out.at({i});
      if (whole) {
        const int64_t v = start.at.i + i * step.at.i;
        store(out.dtype, p, 0, 1, &v);
      } else {
        const double v = real(start) + static_cast<double>(i) * real(step);
        store(out.dtype, p, 0, 1, &v);
      }
    }
    return int32_t{FACULA_OK};
  });
}

// bmm(self, mat2, out)
int32_t bmm(void*, const FaculaCall* call) {
  const Operand a(*call->args[0].at.tensors), b(*call->args[1].at.tensors), out(*call->args[2].at.tensors);
  if (!is_float(out.dtype) || a.dtype != out.dtype || b.dtype != out.dtype) return FACULA_NOT_SUPPORTED;
  return enqueue(call->index, call->stream, [=] {
    const auto run = [&]<typename T>(T) {
      const int64_t inner = a.sizes[2], columns = out.sizes[2];
      std::vector<T> row(static_cast<size_t>(columns));
      for_each_index(out.sizes, 1, [&](const std::vector<int64_t>& at) {
        std::fill(row.begin(), row.end(), T(0));
        for (int64_t k = 0; k < inner; ++k) {
          const T x = *reinterpret_cast<const T*>(a.at({at[0], at[1], k}));
          const char* y = b.at({at[0], k, 0});
          for (int64_t j = 0; j < columns; ++j) row[static_cast<size_t>(j)] += x * *reinterpret_cast<const T*>(y + j * b.strides[2]);
        }
        store(out.dtype, out.at({at[0], at[1], 0}), out.strides[2], columns, row.data());
      });
    };
    out.dtype == FACULA_FLOAT32 ? run(float{}) : run(double{});
    return int32_t{FACULA_OK};
  });
}

// The one index, on the first dim, that embeddings use; others are left to the next way.
const FaculaTensor* only_index(const FaculaValue& indices) {
  if (indices.count != 1 || indices.at.tensors[0].ndim < 0) return nullptr;
  return &indices.at.tensors[0];
}
bool wrap(int64_t& i, int64_t size) {
  if (i < 0) i += size;
  return i >= 0 && i < size;
}

// index_long(self, indices, out): rows of self
int32_t index_long(void*, const FaculaCall* call) {
  const FaculaTensor* const given = only_index(call->args[1]);
  if (given == nullptr || given->dtype != FACULA_INT64) return FACULA_NOT_SUPPORTED;
  const Operand self(*call->args[0].at.tensors), index(*given), out(*call->args[2].at.tensors);
  return enqueue(call->index, call->stream, [=] {
    int32_t status = FACULA_OK;
    const size_t lead = index.sizes.size();
    for_each_index(out.sizes, 0, [&](const std::vector<int64_t>& at) {
      std::vector<int64_t> from(at.begin() + static_cast<std::ptrdiff_t>(lead), at.end());
      int64_t i = *reinterpret_cast<const int64_t*>(index.at({at.begin(), at.begin() + static_cast<std::ptrdiff_t>(lead)}));
      if (!wrap(i, self.sizes[0])) {
        status = FACULA_INDEX_ERROR;
        return;
      }
      from.insert(from.begin(), i);
      std::memcpy(out.at(at), self.at(from), itemsize(out.dtype));
    });
    return status == FACULA_OK ? status : fail(status, "an index is out of range");
  });
}

// index_put_long(self, indices, values, accumulate, out): the same places written
int32_t index_put_long(void*, const FaculaCall* call) {
  const FaculaTensor* const given = only_index(call->args[1]);
  if (given == nullptr || given->dtype != FACULA_INT64) return FACULA_NOT_SUPPORTED;
  const Operand self(*call->args[0].at.tensors), index(*given), values(*call->args[2].at.tensors),
      out(*call->args[4].at.tensors);
  const bool accumulate = call->args[3].at.i != 0;
  if (accumulate && !is_float(out.dtype)) return FACULA_NOT_SUPPORTED;
  if (values.dtype != out.dtype) return FACULA_NOT_SUPPORTED;
  return enqueue(call->index, call->stream, [=] {
    int32_t status = FACULA_OK;
    if (self.data != out.data) {
      for_each_index(out.sizes, 0, [&](const std::vector<int64_t>& at) {
        std::memcpy(out.at(at), self.at(at), itemsize(out.dtype));
      });
    }
    std::vector<int64_t> shape = index.sizes;
    shape.insert(shape.end(), out.sizes.begin() + 1, out.sizes.end());
    const size_t lead = index.sizes.size(), missing = shape.size() - values.sizes.size();
    for_each_index(shape, 0, [&](const std::vector<int64_t>& at) {
      int64_t i = *reinterpret_cast<const int64_t*>(index.at({at.begin(), at.begin() + static_cast<std::ptrdiff_t>(lead)}));
      if (!wrap(i, out.sizes[0])) {
        status = FACULA_INDEX_ERROR;
        return;
      }
      std::vector<int64_t> to(at.begin() + static_cast<std::ptrdiff_t>(lead), at.end());
      to.insert(to.begin(), i);
      const char* from = values.base();
      for (size_t d = 0; !values.scalar && d < values.sizes.size(); ++d) {
        from += values.sizes[d] == 1 ? 0 : at[missing + d] * values.strides[d];
      }
      char* const place = out.at(to);
      if (!accumulate) {
        std::memcpy(place, from, itemsize(out.dtype));
      } else if (out.dtype == FACULA_FLOAT32) {
        *reinterpret_cast<float*>(place) += *reinterpret_cast<const float*>(from);
      } else {
        *reinterpret_cast<double*>(place) += *reinterpret_cast<const double*>(from);
      }
    });
    return status == FACULA_OK ? status : fail(status, "an index is out of range");
  });
}

// gather(self, dim, index, sparse_grad, out)
int32_t gather(void*, const FaculaCall* call) {
  const Operand self(*call->args[0].at.tensors), index(*call->args[2].at.tensors), out(*call->args[4].at.tensors);
  if (self.sizes.empty() || out.sizes.empty() || index.dtype != FACULA_INT64) return FACULA_NOT_SUPPORTED;
  const size_t dim = static_cast<size_t>(call->args[1].at.i < 0 ? call->args[1].at.i + static_cast<int64_t>(self.sizes.size())
                                                                : call->args[1].at.i);
  return enqueue(call->index, call->stream, [=] {
    int32_t status = FACULA_OK;
    for_each_index(out.sizes, 0, [&](std::vector<int64_t> at) {
      char* const place = out.at(at);
      int64_t i = *reinterpret_cast<const int64_t*>(index.at(at));
      if (i < 0 || i >= self.sizes[dim]) {
        status = FACULA_INDEX_ERROR;
        return;
      }
      at[dim] = i;
      std::memcpy(place, self.at(at), itemsize(out.dtype));
    });
    return status == FACULA_OK ? status : fail(status, "gather(): an index is out of range");
  });
}

const FaculaKernelEntry kKernels[] = {
    {"arange.start", arange}, {"bmm", bmm},       {"index_long", index_long},
    {"index_put_long", index_put_long}, {"gather", gather},
};

}  // namespace

}  // namespace @NAME@

extern "C" FACULA_EXPORT int32_t facula_register_backends(const FaculaHost* host) {
  using namespace @NAME@;
  @NAME@::host = host;
  FaculaBackend backend{};
  backend.abi = FACULA_BACKEND_ABI;
  backend.size = sizeof(FaculaBackend);
  backend.name = "@NAME@";
  backend.package = "facula-@NAME@ 0.1.0";
  backend.dtypes = FACULA_ALL_DTYPES & ~(FACULA_DTYPE_BIT(FACULA_COMPLEX64) | FACULA_DTYPE_BIT(FACULA_COMPLEX128));
  backend.pointwise = pointwise;
  backend.reduction = reduction;
  backend.kernels = kKernels;
  backend.nkernels = sizeof(kKernels) / sizeof(*kKernels);
  describe(backend);
  return host->register_backend(&backend);
}
