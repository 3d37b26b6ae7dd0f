// Kernels of single operators, and the registration. Write here what facula.backends.fallbacks() lists. These three train
// a language model; what they do not take they refuse, saying why, and facula goes the next way.
#include <algorithm>

#include "loops.h"
#include "templates.h"

namespace @NAME@ {

namespace {

// The call is left to the next way; the text is for facula's reports.
int32_t refuse(const char* why) { return fail(FACULA_NOT_SUPPORTED, why); }

bool is_float(int32_t dtype) { return dtype == FACULA_FLOAT32 || dtype == FACULA_FLOAT64; }

// bmm(self, mat2, out)
int32_t bmm(void*, const FaculaCall* call) {
  const Operand a(*call->args[0].at.tensors), b(*call->args[1].at.tensors), out(*call->args[2].at.tensors);
  if (!is_float(out.dtype) || a.dtype != out.dtype || b.dtype != out.dtype) return refuse("float32 and float64 alone");
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
  if (given == nullptr || given->dtype != FACULA_INT64) return refuse("one int64 index of the first dim alone");
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
  if (given == nullptr || given->dtype != FACULA_INT64) return refuse("one int64 index of the first dim alone");
  const Operand self(*call->args[0].at.tensors), index(*given), values(*call->args[2].at.tensors),
      out(*call->args[4].at.tensors);
  const bool accumulate = call->args[3].at.i != 0;
  if (accumulate && !is_float(out.dtype)) return refuse("sums of float32 and float64 alone");
  if (values.dtype != out.dtype) return refuse("values of the dtype of self alone");
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

const FaculaKernelEntry kKernels[] = {
    {"bmm", bmm},
    {"index_long", index_long},
    {"index_put_long", index_put_long},
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
  backend.group = group;
  backend.group_rows = kGroupRows;
  backend.kernels = kKernels;
  backend.nkernels = sizeof(kKernels) / sizeof(*kKernels);
  describe(backend);
  return host->register_backend(&backend);
}
