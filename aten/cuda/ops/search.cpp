// arange, the places of elements that are not zero, and searches in sorted sequences.
#include <algorithm>
#include <string_view>

#include "launch/kernels.h"
#include "launch/strided_iterator.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

KernelSource source(const char* entry, int part, int32_t element, const char* value) {
  return file_kernel("search.cu", entry,
                     std::string("using S = ") + element_type(element) + ";\nusing T = " + value +
                         ";\n#define FACULA_PART " + std::to_string(part) + "\n");
}
int32_t find(const Device& device, const char* entry, int number, int part, int32_t element, const char* value,
             Kernel** out) {
  KernelKey key;
  key.name = "search.cu";
  key.bits[0] = static_cast<uint64_t>(number);
  key.bits[1] = static_cast<uint64_t>(element);
  key.bits[2] = static_cast<uint64_t>(value[0]);
  return find_kernel(device, key, [&] { return source(entry, part, element, value); }, out);
}

// arange.start(start, end, step, dtype, device, out)
int32_t arange(void*, const FaculaCall* call) {
  const FaculaTensor& out = result(call);
  if (out.numel == 0) return FACULA_OK;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  const FaculaValue &start = call->args[0], &step = call->args[2];
  const auto whole = [](const FaculaValue& v) { return v.kind == FACULA_INT || v.kind == FACULA_TRUTH; };
  const bool integers = whole(start) && whole(step) && out.dtype <= FACULA_INT64;
  Kernel* kernel = nullptr;
  FACULA_TRY(find(*device, "facula_range", 0, 0, out.dtype, integers ? "int64_t" : "double", &kernel));
  Params params;
  params.put(out.data);
  if (integers) {
    params.put(integer_of(start));
    params.put(integer_of(step));
  } else {
    params.put(real_of(start));
    params.put(real_of(step));
  }
  const int64_t* strides[] = {out.strides};
  const int items[] = {itemsize(out.dtype)};
  const StridedDims iterator = make_strided(out.ndim, out.sizes, strides, items, 1);
  if (!put_strided(params, iterator, 1)) return FACULA_NOT_SUPPORTED;
  void* arguments[] = {params.data()};
  return launch(*device, *kernel, grid_for(*device, iterator.count, 256), {256}, 0, call->stream, arguments);
}

// nonzero_fill(self, count, out)
int32_t nonzero(void*, const FaculaCall* call) {
  constexpr int kBlock = 1024;
  const FaculaTensor &self = tensor(call, 0), &out = result(call);
  if (self.numel == 0 || out.numel == 0) return FACULA_OK;
  const int64_t blocks = ceil_div(self.numel, kBlock);
  if (self.ndim > kMaxKernelDims || blocks >= int64_t{1} << 31) return FACULA_NOT_SUPPORTED;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  Scratch counts(call->index, call->stream);
  FACULA_TRY(counts.allocate(static_cast<size_t>(blocks) * 8));
  Params params;
  params.put(self.data);
  params.put(out.data);
  params.put(counts.data());
  params.put(blocks);
  params.put(out.sizes[0]);
  params.put(static_cast<int64_t>(self.ndim));
  params.put(out.strides[0]);
  params.put(out.strides[1]);
  for (int d = 0; d < kMaxKernelDims; ++d) params.put(d < self.ndim ? self.sizes[d] : int64_t{1});
  const int64_t* strides[] = {self.strides};
  const int items[] = {itemsize(self.dtype)};
  if (!put_strided(params, make_strided(self.ndim, self.sizes, strides, items, 1), 1)) return FACULA_NOT_SUPPORTED;
  void* arguments[] = {params.data()};
  constexpr const char* kSteps[] = {"facula_nonzero_count", "facula_nonzero_sum", "facula_nonzero_write"};
  for (int i = 0; i < 3; ++i) {
    Kernel* kernel = nullptr;
    FACULA_TRY(find(*device, kSteps[i], 1 + i, 1, self.dtype, "bool", &kernel));
    FACULA_TRY(
        launch(*device, *kernel, {i == 1 ? 1u : static_cast<unsigned>(blocks)}, {kBlock}, 0, call->stream, arguments));
  }
  return FACULA_OK;
}

// searchsorted(sorted_sequence, self, out_int32, right, side, sorter, out)
int32_t searchsorted(void*, const FaculaCall* call) {
  const FaculaTensor &sequence = tensor(call, 0), &values = tensor(call, 1), &out = result(call);
  if (out.numel == 0) return FACULA_OK;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  const bool real = is_floating(sequence.dtype) || is_floating(values.dtype);
  const int32_t type = real ? FACULA_FLOAT64 : FACULA_INT64;
  Scratch a(call->index, call->stream), b(call->index, call->stream), c(call->index, call->stream),
      d(call->index, call->stream);
  const void *given = nullptr, *wanted = nullptr, *sorter = nullptr;
  FACULA_TRY(dense(sequence, a, call->index, call->stream, &given, type));
  FACULA_TRY(dense(values, b, call->index, call->stream, &wanted, type));
  if (!absent(call, 5)) FACULA_TRY(dense(tensor(call, 5), c, call->index, call->stream, &sorter, FACULA_INT64));
  void* to = out.data;
  if (!is_dense(out)) {
    FACULA_TRY(d.allocate(static_cast<size_t>(out.numel) * static_cast<size_t>(itemsize(out.dtype))));
    to = d.data();
  }
  const bool side = call->args[4].kind == FACULA_STRING && std::string_view(call->args[4].at.text) == "right";
  Params params;
  params.put(given);
  params.put(wanted);
  params.put(sorter);
  params.put(to);
  params.put(out.numel);
  params.put(sequence.sizes[sequence.ndim - 1]);
  params.put(sequence.ndim == 1 ? int64_t{0} : values.sizes[values.ndim - 1]);
  params.put(static_cast<int64_t>(side || call->args[3].at.i != 0));
  Kernel* kernel = nullptr;
  FACULA_TRY(find(*device, "facula_search", 4, 2, out.dtype, real ? "double" : "int64_t", &kernel));
  void* arguments[] = {params.data()};
  FACULA_TRY(launch(*device, *kernel, grid_for(*device, out.numel, 256), {256}, 0, call->stream, arguments));
  return to == out.data ? int32_t{FACULA_OK} : write_back(out, to, out.dtype, call->index, call->stream);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (int32_t dtype = 0; dtype < FACULA_COMPLEX64; ++dtype) {
    if (level < 2 && dtype != FACULA_INT64 && dtype != FACULA_FLOAT32) continue;
    add(source("facula_range", 0, dtype, "int64_t"));
    add(source("facula_range", 0, dtype, "double"));
    for (const char* entry : {"facula_nonzero_count", "facula_nonzero_sum", "facula_nonzero_write"}) {
      add(source(entry, 1, dtype, "bool"));
    }
  }
  for (const int32_t out : {FACULA_INT32, FACULA_INT64}) {
    add(source("facula_search", 2, out, "double"));
    add(source("facula_search", 2, out, "int64_t"));
  }
}
const ListsSources lists(list);

const Registers registers{{"arange.start", arange}, {"nonzero_fill", nonzero}, {"searchsorted", searchsorted}};

}  // namespace

}  // namespace facula::cuda
