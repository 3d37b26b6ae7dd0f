// Running sums, products, extrema and recurrences along a dim.
#include <algorithm>

#include "launch/kernels.h"
#include "launch/strided_iterator.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

enum Scan : int { kSum, kProduct, kMaximum, kMinimum, kLogSum, kAffine };  // kernels/scan.cu

enum Entry : int { kThreads, kRows, kParts, kBefore };
constexpr const char* kEntries[] = {"facula_scan_threads", "facula_scan_rows", "facula_scan_parts",
                                    "facula_scan_before"};

KernelSource source(Scan scan, int32_t in, int32_t out, int32_t compute, Entry entry) {
  return file_kernel("scan.cu", kEntries[entry],
                     std::string("using I = ") + element_type(in) + ";\nusing O0 = " + element_type(out) +
                         ";\nusing T = " + compute_type(compute) + ";\n#define FACULA_SCAN " + std::to_string(scan) +
                         "\n");
}

// Sums and products go in the widest type of their kind, as on the CPU.
int32_t widest(int32_t dtype) {
  return is_complex(dtype)    ? int32_t{FACULA_COMPLEX128}
         : is_floating(dtype) ? int32_t{FACULA_FLOAT64}
                              : int32_t{FACULA_INT64};
}
int32_t compute_of(Scan scan, int32_t in, int32_t out) {
  switch (scan) {
    case kSum:
    case kProduct:
      return widest(out);
    case kMaximum:
    case kMinimum:
      return in == FACULA_FLOAT16 || in == FACULA_BFLOAT16 ? int32_t{FACULA_FLOAT32} : in;
    default:
      return widest(in);
  }
}

int32_t run(const FaculaCall* call, Scan scan, const FaculaTensor& self, const FaculaTensor* second, int64_t dim_given,
            bool reverse) {
  const FaculaTensor& out = result(call, 0);
  const FaculaTensor* const indices = call->nouts > 1 ? &result(call, 1) : nullptr;
  if (self.numel == 0) return FACULA_OK;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  const int dim = wrapped_dim(dim_given, self);
  const int64_t length = self.ndim == 0 ? 1 : self.sizes[dim];
  int64_t sizes[kMaxTensorDims];
  std::copy_n(self.sizes, self.ndim, sizes);
  if (self.ndim > 0) sizes[dim] = 1;
  const FaculaTensor* const all[] = {&self, second, &out, indices};
  const int64_t* strides[4];
  int items[4];
  int64_t steps[4];
  for (int k = 0; k < 4; ++k) {
    strides[k] = all[k] != nullptr ? all[k]->strides : nullptr;
    items[k] = all[k] != nullptr ? itemsize(all[k]->dtype) : 1;
    steps[k] = all[k] != nullptr && self.ndim > 0 ? all[k]->strides[dim] * items[k] : 0;
  }
  const StridedDims iterator = make_strided(self.ndim, sizes, strides, items, 4);
  const bool side_by_side = steps[0] == items[0];
  const bool rows = side_by_side ? length > 32 : length > 32 && iterator.count < int64_t{device->processors} * 64;
  const int32_t compute = compute_of(scan, self.dtype, out.dtype);
  // few long rows go in parts, so that there is work for the whole device
  const int64_t wanted = int64_t{device->processors} * 8;
  int64_t chunk = length, chunks = 1;
  if (rows && iterator.count * 4 < wanted && length >= 16384) {
    chunk = std::max<int64_t>(4096, ceil_div(length * iterator.count, wanted));
    chunk = round_up(chunk, 1024);
    chunks = ceil_div(length, chunk);
  }
  Scratch parts(call->index, call->stream);
  constexpr size_t kLargest = 32;  // bytes of what is carried along a row
  if (chunks > 1) FACULA_TRY(parts.allocate(static_cast<size_t>(iterator.count * chunks) * kLargest));
  Params params;
  for (int k = 0; k < 4; ++k) params.put(all[k] != nullptr ? all[k]->data : nullptr);
  params.put(length);
  params.put(static_cast<int64_t>(reverse));
  for (const int64_t step : steps) params.put(step);
  bool vectors = scan <= kProduct && !reverse && chunk % 4 == 0;
  for (const int k : {0, 2}) {
    vectors = vectors && steps[k] == items[k] && reinterpret_cast<uintptr_t>(all[k]->data) % 16 == 0;
    for (int d = 0; d < iterator.ndim; ++d) vectors = vectors && iterator.strides[k][d] % (4 * int64_t{items[k]}) == 0;
  }
  params.put(static_cast<int64_t>(vectors));
  params.put(chunk);
  params.put(chunks);
  params.put(parts.data());
  if (!put_strided(params, iterator, 4)) return FACULA_NOT_SUPPORTED;
  const auto start = [&](Entry entry, Grid grid) -> int32_t {
    KernelKey key;
    key.name = "scan.cu";
    key.bits[0] = static_cast<uint64_t>(scan) | static_cast<uint64_t>(entry) << 8;
    key.bits[1] = static_cast<uint64_t>(self.dtype) | static_cast<uint64_t>(out.dtype) << 8;
    Kernel* kernel = nullptr;
    FACULA_TRY(find_kernel(*device, key, [&] { return source(scan, self.dtype, out.dtype, compute, entry); }, &kernel));
    void* arguments[] = {params.data()};
    return launch(*device, *kernel, grid, {256}, 0, call->stream, arguments);
  };
  if (!rows) return start(kThreads, grid_for(*device, iterator.count, 256));
  const Grid whole{static_cast<unsigned>(std::min<int64_t>(iterator.count, 65535))};
  const Grid split{static_cast<unsigned>(std::min<int64_t>(iterator.count * chunks, 65535))};
  if (chunks > 1) {
    FACULA_TRY(start(kParts, split));
    FACULA_TRY(start(kBefore, whole));
  }
  return start(kRows, split);
}

// cumsum(self, dim, dtype, out) and so on
template <int kScan>
int32_t scan(void*, const FaculaCall* call) {
  if (kScan == kLogSum && is_complex(tensor(call, 0).dtype)) return FACULA_NOT_SUPPORTED;
  return run(call, static_cast<Scan>(kScan), tensor(call, 0), nullptr, call->args[1].at.i, false);
}
int32_t cumsum_reversed(void*, const FaculaCall* call) {
  return run(call, kSum, tensor(call, 0), nullptr, call->args[1].at.i, true);
}
// _affine_scan(a, b, dim, reverse, out)
int32_t affine(void*, const FaculaCall* call) {
  const FaculaTensor &a = tensor(call, 0), &b = tensor(call, 1);
  if (a.dtype != b.dtype || a.numel != b.numel || !on_device(a) || !on_device(b)) return FACULA_NOT_SUPPORTED;
  return run(call, kAffine, a, &b, call->args[2].at.i, call->args[3].at.i != 0);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (int scan = kSum; scan <= kAffine; ++scan) {
    for (const int32_t dtype :
         {FACULA_FLOAT32, FACULA_INT64, FACULA_FLOAT64, FACULA_BFLOAT16, FACULA_FLOAT16, FACULA_COMPLEX64}) {
      if (level == 0) continue;
      if (level == 1 && dtype > FACULA_FLOAT32) continue;
      if (scan >= kLogSum && dtype == FACULA_INT64) continue;
      if (scan >= kMaximum && scan <= kLogSum && dtype == FACULA_COMPLEX64) continue;
      for (const Entry entry : {kRows, kThreads, kParts, kBefore}) {
        add(source(static_cast<Scan>(scan), dtype, dtype, compute_of(static_cast<Scan>(scan), dtype, dtype), entry));
      }
    }
  }
}
const ListsSources lists(list);

const Registers registers{
    {"cumsum", scan<kSum>},     {"cumprod", scan<kProduct>},     {"cummax", scan<kMaximum>},
    {"cummin", scan<kMinimum>}, {"logcumsumexp", scan<kLogSum>}, {"_cumsum_reversed", cumsum_reversed},
    {"_affine_scan", affine},
};

}  // namespace

}  // namespace facula::cuda
