#include "ops/sort.h"

#include <algorithm>

#include "launch/kernels.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

bool has_wide_keys(int32_t dtype, int64_t length) {
  return dtype == FACULA_INT64 || dtype == FACULA_FLOAT64 || length >= int64_t{1} << 32;
}

KernelSource source(const char* entry, int32_t dtype, bool wide, int tile) {
  return file_kernel("sort.cu", entry,
                     std::string("using S = ") + element_type(dtype) + ";\nusing T = " + compute_type(dtype) +
                         ";\n#define FACULA_WIDE_KEYS " + (wide ? "1" : "0") + "\n#define FACULA_TILE " +
                         std::to_string(tile) + "\n");
}

int32_t find(const Device& device, const char* entry, int number, int32_t dtype, bool wide, int tile, Kernel** out) {
  KernelKey key;
  key.name = "sort.cu";
  key.bits[0] = static_cast<uint64_t>(number);
  key.bits[1] = static_cast<uint64_t>(dtype) | static_cast<uint64_t>(wide) << 8;
  key.bits[2] = static_cast<uint64_t>(tile);
  return find_kernel(device, key, [&] { return source(entry, dtype, wide, tile); }, out);
}

// sort(self, dim, descending, stable, values, indices)
int32_t sort(void*, const FaculaCall* call) {
  const FaculaTensor &self = tensor(call, 0), &values = result(call, 0), &indices = result(call, 1);
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  if (self.numel == 0) return FACULA_OK;
  if (is_complex(self.dtype)) return FACULA_NOT_SUPPORTED;
  const int dim = wrapped_dim(call->args[1].at.i, self);
  Sorting s;
  s.in = self.data;
  s.values = values.data;
  s.indices = indices.data;
  s.dtype = self.dtype;
  s.descending = call->args[2].at.i != 0;
  s.length = self.ndim == 0 ? 1 : self.sizes[dim];
  const int size = itemsize(self.dtype);
  int64_t sizes[kMaxTensorDims];
  std::copy_n(self.sizes, self.ndim, sizes);
  if (self.ndim > 0) {
    s.in_step = self.strides[dim] * size;
    s.values_step = values.strides[dim] * size;
    s.indices_step = indices.strides[dim] * 8;
    sizes[dim] = 1;
  }
  const int64_t* strides[] = {self.strides, values.strides, indices.strides};
  const int items[] = {size, size, 8};
  s.iterator = make_strided(self.ndim, sizes, strides, items, 3);
  return sort_rows(*device, call->stream, s);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const int32_t dtype : {FACULA_INT64, FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT64, FACULA_FLOAT16,
                              FACULA_INT32, FACULA_UINT8, FACULA_BOOL}) {
    if (level == 0 && dtype != FACULA_INT64 && dtype != FACULA_FLOAT32) continue;
    if (level == 1 && dtype != FACULA_INT64 && dtype != FACULA_FLOAT32 && dtype != FACULA_BOOL) continue;
    for (const int tile : {64, 1024}) {
      const bool wide = has_wide_keys(dtype, 1);
      add(source("facula_sort_tiles", dtype, wide, tile));
      add(source("facula_sort_finish", dtype, wide, tile));
      if (tile == 1024) add(source("facula_sort_merge", dtype, wide, tile));
    }
  }
}
const ListsSources lists(list);
const Registers registers{{"sort", sort}};

}  // namespace

int32_t sort_rows(const Device& device, void* stream, const Sorting& s) {
  if (radix_fits(s) && s.iterator.count > 0) return radix_sort(device, stream, s);
  const bool wide = has_wide_keys(s.dtype, s.length);
  const int tile = s.length <= 64 ? 64 : 1024;
  const int64_t total = s.iterator.count * s.length;
  if (total == 0) return FACULA_OK;
  Kernel *tiles = nullptr, *merge = nullptr, *finish = nullptr;
  FACULA_TRY(find(device, "facula_sort_tiles", 0, s.dtype, wide, tile, &tiles));
  FACULA_TRY(find(device, "facula_sort_finish", 1, s.dtype, wide, tile, &finish));
  if (s.length > tile) FACULA_TRY(find(device, "facula_sort_merge", 2, s.dtype, wide, tile, &merge));
  const size_t bytes = static_cast<size_t>(total) * (wide ? 16 : 8);
  Scratch scratch(device.index, stream);
  FACULA_TRY(scratch.allocate(s.length > tile ? 2 * bytes : bytes));
  char *items = scratch.data(), *other = items + bytes;
  const auto run = [&](Kernel& kernel, int64_t width, Grid grid) -> int32_t {
    Params params;
    params.put(s.in);
    params.put(s.values);
    params.put(s.indices);
    params.put(items);
    params.put(other);
    for (const int64_t n : {s.iterator.count, s.length, width, static_cast<int64_t>(s.descending), s.in_step,
                            s.values_step, s.indices_step}) {
      params.put(n);
    }
    if (!put_strided(params, s.iterator, 3)) return FACULA_NOT_SUPPORTED;
    void* arguments[] = {params.data()};
    return launch(device, kernel, grid, {256}, 0, stream, arguments);
  };
  const int64_t jobs = s.iterator.count * ceil_div(s.length, tile);
  FACULA_TRY(run(*tiles, 0, {static_cast<unsigned>(std::min<int64_t>(jobs, 65535))}));
  const Grid grid = grid_for(device, total, 256);
  for (int64_t width = tile; width < s.length; width *= 2) {
    FACULA_TRY(run(*merge, width, grid));
    std::swap(items, other);
  }
  return run(*finish, 0, grid);
}

int32_t order_of(const Device& device, void* stream, const int64_t* ids, int64_t n, Scratch& order) {
  FACULA_TRY(order.allocate(static_cast<size_t>(n) * 8));
  Sorting s;
  s.in = ids;
  s.indices = order.data();
  s.dtype = FACULA_INT64;
  s.length = n;
  s.in_step = s.indices_step = 8;
  return sort_rows(device, stream, s);
}

}  // namespace facula::cuda
