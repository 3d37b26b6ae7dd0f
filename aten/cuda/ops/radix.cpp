// Sorting of long rows by the digits of their keys; see kernels/radix.cu.
#include <utility>

#include "ops/sort.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

constexpr int kThreads = 256;
int items_of(int32_t dtype) { return itemsize(dtype) == 8 ? 8 : 16; }

KernelSource source(const char* entry, int32_t dtype) {
  return file_kernel("radix.cu", entry,
                     sort_keys(dtype, kThreads) + "#define FACULA_ITEMS " + std::to_string(items_of(dtype)) + "\n");
}

enum Entry : int { kCount, kPlan, kSweep };
constexpr const char* kEntries[] = {"facula_radix_count", "facula_radix_plan", "facula_radix_sweep"};

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const int32_t dtype : {FACULA_FLOAT32, FACULA_INT64, FACULA_BFLOAT16, FACULA_UINT8, FACULA_INT32, FACULA_FLOAT16,
                              FACULA_FLOAT64, FACULA_INT8, FACULA_INT16, FACULA_BOOL}) {
    if (level == 0 && dtype != FACULA_INT64 && dtype != FACULA_FLOAT32) continue;
    if (level == 1 && dtype > FACULA_INT64 && dtype != FACULA_FLOAT32) continue;
    for (const char* entry : kEntries) add(source(entry, dtype));
  }
}
const ListsSources lists(list);

}  // namespace

std::string sort_keys(int32_t dtype, int threads) {
  static constexpr const char* kUnsigned[] = {"uint8_t", "uint16_t", "uint32_t", "uint64_t"};
  const int size = itemsize(dtype);
  const char* const largest = dtype == FACULA_FLOAT16    ? "0x7c00u"
                              : dtype == FACULA_BFLOAT16 ? "0x7f80u"
                              : dtype == FACULA_FLOAT32  ? "0x7f800000u"
                                                         : "0x7ff0000000000000u";
  const int kind = is_floating(dtype) ? 2 : dtype == FACULA_BOOL || dtype == FACULA_UINT8 ? 0 : 1;
  return std::string("using S = ") + element_type(dtype) + ";\nusing U = " +
         kUnsigned[size == 1   ? 0
                   : size == 2 ? 1
                   : size == 4 ? 2
                               : 3] +
         ";\n#define FACULA_CLASS " + std::to_string(kind) + "\n#define FACULA_LARGEST " + largest +
         "\n#define FACULA_THREADS " + std::to_string(threads) + "\n";
}

bool radix_fits(const Sorting& s) {
  // small ones are sorted in fewer launches by merging; numbers of places have 30 bits
  return s.length > 2048 && s.length * s.iterator.count >= 1 << 18 && s.length < int64_t{1} << 30 &&
         s.iterator.count <= 65535 && !is_complex(s.dtype);
}

int32_t radix_sort(const Device& device, void* stream, const Sorting& s) {
  const int size = itemsize(s.dtype), tile = kThreads * items_of(s.dtype);
  const int64_t blocks = ceil_div(s.length, tile), rows = s.iterator.count;
  const auto total = static_cast<size_t>(rows * s.length);
  const auto room = [](size_t n) { return (n + 255) / 256 * 256; };
  const size_t keys = room(total * static_cast<size_t>(size)), places = room(total * 4);
  const size_t each = static_cast<size_t>(rows * size) * 4;  // a number for each row and pass
  const size_t starts = each * 256, tiles = static_cast<size_t>(rows * blocks) * 256 * 4;
  Scratch scratch(device.index, stream);
  FACULA_TRY(scratch.allocate((size > 1 ? 2 * (keys + places) : 0) + starts + tiles + 2 * each));
  char* at = scratch.data();
  const auto take = [&](size_t n) { return std::exchange(at, at + n); };
  char *key_blocks[2] = {}, *place_blocks[2] = {};
  for (int i = 0; size > 1 && i < 2; ++i) {
    key_blocks[i] = take(keys);
    place_blocks[i] = take(places);
  }
  char *const tile_block = take(tiles), *const start_block = take(starts);
  char *const ticket_block = take(each), *const step_block = take(each);
  const auto zero = [&](char* from, size_t nbytes) {
    return status_of(
        driver()->MemsetD8Async(reinterpret_cast<CUdeviceptr>(from), 0, nbytes, static_cast<CUstream>(stream)),
        "cuMemsetD8Async");
  };
  const auto run = [&](Entry entry, int pass, Grid grid, int shared) -> int32_t {
    Params params;
    for (const void* p : {s.in, static_cast<const void*>(s.values), static_cast<const void*>(s.indices)}) params.put(p);
    for (char* p : {key_blocks[0], key_blocks[1], place_blocks[0], place_blocks[1], start_block, step_block,
                    ticket_block, tile_block}) {
      params.put(p);
    }
    for (const int64_t n : {s.length, blocks, int64_t{pass}, static_cast<int64_t>(s.descending), s.in_step,
                            s.values_step, s.indices_step}) {
      params.put(n);
    }
    if (!put_strided(params, s.iterator, 3)) return FACULA_NOT_SUPPORTED;
    KernelKey key;
    key.name = "radix.cu";
    key.bits[0] = static_cast<uint64_t>(entry) | static_cast<uint64_t>(s.dtype) << 8;
    Kernel* kernel = nullptr;
    FACULA_TRY(find_kernel(device, key, [&] { return source(kEntries[entry], s.dtype); }, &kernel));
    void* arguments[] = {params.data()};
    return launch(device, *kernel, grid, {kThreads}, shared, stream, arguments);
  };
  FACULA_TRY(zero(start_block, starts + each));
  const auto y = static_cast<unsigned>(rows);
  FACULA_TRY(run(kCount, 0, {grid_for(device, blocks, 1).x, y}, 0));
  FACULA_TRY(run(kPlan, 0, {y}, 0));
  for (int pass = 0; pass < size; ++pass) {
    FACULA_TRY(zero(tile_block, tiles));
    FACULA_TRY(run(kSweep, pass, {static_cast<unsigned>(blocks), y}, tile * (size + 4)));
  }
  return FACULA_OK;
}

}  // namespace facula::cuda
