// Reading and writing by tensors of positions: x[i, j] and x[i, j] = y.
#include <algorithm>

#include "launch/kernels.h"
#include "ops/sort.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

constexpr int kMaxIndices = 4;

struct Entry {
  const char* name;
  int number;
};
constexpr Entry kPlaces{"facula_index_places", 0}, kRead{"facula_index_read", 1}, kLast{"facula_index_last", 2},
    kWrite{"facula_index_write", 3}, kAdd{"facula_index_add", 4};

// Elements that are moved only are taken by their size.
const char* piece_type(int bytes) {
  return bytes == 1 ? "uint8_t" : bytes == 2 ? "uint16_t" : bytes == 4 ? "uint32_t" : bytes == 8 ? "uint64_t" : "uint4";
}
KernelSource source(Entry e, const std::string& element, const std::string& value, int32_t index, int indices) {
  return file_kernel("index.cu", e.name,
                     "using S = " + element + ";\nusing T = " + value + ";\nusing X = " + element_type(index) +
                         ";\n#define FACULA_INDICES " + std::to_string(indices) + "\n#define FACULA_ENTRY " +
                         std::to_string(e.number) + "\n");
}

// The other side (what is read into, or the values) and the table, by tuples of indices and rows.
struct Indexing {
  const FaculaTensor* table = nullptr;
  const FaculaTensor* side = nullptr;
  const FaculaTensor* index[kMaxIndices];
  int indices = 0;
  int64_t sizes[kMaxIndices], steps[kMaxIndices];  // steps in elements
  int tuple_ndim = 0, row_ndim = 0;
  int64_t tuple_sizes[kMaxTensorDims], row_sizes[kMaxTensorDims];
  int64_t tuple_side[kMaxTensorDims], row_side[kMaxTensorDims], row_table[kMaxTensorDims];
  int64_t index_strides[kMaxIndices][kMaxTensorDims];
  int64_t places = 1;  // in the indexed dims
};

bool describe(Indexing& x, const FaculaTensor& table, const FaculaValue& indices, const FaculaTensor& side) {
  x.table = &table;
  x.side = &side;
  if (indices.count > table.ndim) return false;
  int dims[kMaxIndices], first = 0;
  bool adjacent = true;
  for (int d = 0; d < indices.count; ++d) {
    const FaculaTensor& t = indices.at.tensors[d];
    if (t.ndim < 0) continue;
    if (x.indices == kMaxIndices || (t.dtype != FACULA_INT64 && t.dtype != FACULA_INT32) || !on_device(t)) return false;
    if (x.indices > 0 && (t.dtype != x.index[0]->dtype || dims[x.indices - 1] != d - 1)) {
      adjacent &= dims[x.indices - 1] == d - 1;
      if (t.dtype != x.index[0]->dtype) return false;
    }
    dims[x.indices] = d;
    x.index[x.indices] = &t;
    x.sizes[x.indices] = table.sizes[d];
    x.steps[x.indices] = table.strides[d];
    x.tuple_ndim = std::max(x.tuple_ndim, t.ndim);
    ++x.indices;
  }
  if (x.indices == 0) return false;
  first = adjacent ? dims[0] : 0;
  for (int k = 0; k < x.indices; ++k) x.places *= x.sizes[k];
  // tuples: the indices broadcast
  for (int d = 0; d < x.tuple_ndim; ++d) {
    x.tuple_sizes[d] = 1;
    for (int k = 0; k < x.indices; ++k) {
      const int own = d - (x.tuple_ndim - x.index[k]->ndim);
      if (own >= 0 && x.index[k]->sizes[own] != 1) x.tuple_sizes[d] = x.index[k]->sizes[own];
    }
    for (int k = 0; k < x.indices; ++k) {
      const int own = d - (x.tuple_ndim - x.index[k]->ndim);
      x.index_strides[k][d] = own >= 0 && x.index[k]->sizes[own] != 1 ? x.index[k]->strides[own] : 0;
    }
  }
  // the target's dims: table dims before, tuples, table dims after; the side broadcasts to it
  const int target_ndim = table.ndim - x.indices + x.tuple_ndim;
  if (target_ndim > kMaxTensorDims) return false;
  const auto side_stride = [&](int d) {
    const int own = d - (target_ndim - side.ndim);
    const bool scalar = (side.flags & FACULA_HOST_SCALAR) != 0 && side.index < 0;
    return own >= 0 && !scalar && side.sizes[own] != 1 ? side.strides[own] : 0;
  };
  int at = 0;
  const auto tuples = [&] {
    for (int d = 0; d < x.tuple_ndim; ++d) x.tuple_side[d] = side_stride(at++);
  };
  int seen = 0;
  if (first == 0) tuples();
  for (int d = 0; d < table.ndim; ++d) {
    if (seen < x.indices && dims[seen] == d) {
      ++seen;
    } else {
      x.row_sizes[x.row_ndim] = table.sizes[d];
      x.row_table[x.row_ndim] = table.strides[d];
      x.row_side[x.row_ndim++] = side_stride(at++);
    }
    if (first > 0 && d == first - 1) tuples();
  }
  return true;
}

class Run {
 public:
  Run(const FaculaCall* call, const Indexing& x) : call_(call), x_(x), memory_(call->index, call->stream) {}

  int32_t start(bool negative, bool ids) {
    FACULA_TRY(enter(call_->index, &device_));
    const int64_t* strides[1 + kMaxIndices] = {x_.tuple_side};
    int items[1 + kMaxIndices] = {itemsize(x_.side->dtype)};
    for (int k = 0; k < x_.indices; ++k) {
      strides[1 + k] = x_.index_strides[k];
      items[1 + k] = itemsize(x_.index[k]->dtype);
    }
    tuples_ = make_strided(x_.tuple_ndim, x_.tuple_sizes, strides, items, 1 + x_.indices);
    const int64_t* rows[] = {x_.row_table, x_.row_side};
    const int both[] = {itemsize(x_.table->dtype), itemsize(x_.side->dtype)};
    row_ = make_strided(x_.row_ndim, x_.row_sizes, rows, both, 2);
    if (tuples_.count == 0 || row_.count == 0) return FACULA_OK;
    if (std::find(x_.sizes, x_.sizes + x_.indices, 0) != x_.sizes + x_.indices) return fail_any_index();
    const int arrays = ids ? 3 : 2;
    FACULA_TRY(memory_.allocate(static_cast<size_t>(tuples_.count) * 8 * static_cast<size_t>(arrays)));
    table_places_ = reinterpret_cast<int64_t*>(memory_.data());
    side_places_ = table_places_ + tuples_.count;
    ids_ = ids ? side_places_ + tuples_.count : nullptr;
    Params params;
    for (int k = 0; k < x_.indices; ++k) params.put(x_.index[k]->data);
    for (int k = 0; k < x_.indices; ++k) params.put(x_.sizes[k]);
    for (int k = 0; k < x_.indices; ++k) params.put(x_.steps[k] * itemsize(x_.table->dtype));
    int64_t step = x_.places;
    for (int k = 0; k < x_.indices; ++k) {
      step = x_.sizes[k] > 0 ? step / x_.sizes[k] : 0;
      params.put(step);
    }
    params.put(static_cast<int64_t>(negative));
    params.put(table_places_);
    params.put(side_places_);
    params.put(ids_);
    if (!put_strided(params, tuples_, 1 + x_.indices)) return FACULA_NOT_SUPPORTED;
    Kernel* kernel = nullptr;
    FACULA_TRY(find(kPlaces, "uint8_t", "uint8_t", 1, &kernel));
    void* arguments[] = {params.data()};
    return launch(*device_, *kernel, grid_for(*device_, tuples_.count, 256), {256}, 0, call_->stream, arguments);
  }

  bool empty() const { return tuples_.count == 0 || row_.count == 0; }
  const int64_t* ids() const { return ids_; }
  const Device& device() const { return *device_; }
  int64_t tuples() const { return tuples_.count; }

  // Rows whose pieces lie side by side move 16 bytes at a time.
  void widen(const void* table, const void* side) {
    piece_ = itemsize(x_.table->dtype);
    if (row_.ndim == 0) return;
    const int last = row_.ndim - 1;
    int to = 16;
    const auto fits = [&](int bytes) {
      const int64_t whole = row_.sizes[last] * piece_;
      bool good =
          row_.strides[0][last] == piece_ && row_.strides[1][last] == piece_ && whole % bytes == 0 &&
          (reinterpret_cast<uintptr_t>(table) | reinterpret_cast<uintptr_t>(side)) % static_cast<uintptr_t>(bytes) == 0;
      for (int d = 0; d < last; ++d) good &= row_.strides[0][d] % bytes == 0 && row_.strides[1][d] % bytes == 0;
      for (int k = 0; k < x_.indices; ++k) good &= x_.steps[k] * piece_ % bytes == 0;
      for (int d = 0; d < tuples_.ndim; ++d) good &= tuples_.strides[0][d] % bytes == 0;
      return good;
    };
    while (to > piece_ && !fits(to)) to /= 2;
    if (to <= piece_) return;
    row_.count = row_.count / (to / piece_);
    row_.sizes[last] = row_.sizes[last] * piece_ / to;
    row_.strides[0][last] = row_.strides[1][last] = to;
    piece_ = to;
  }

  int32_t rows(Entry e, char* table, const void* side, const int64_t* order, int64_t* winners, bool by_tuple) {
    Params params;
    params.put(table);
    params.put(side);
    params.put(table_places_);
    params.put(side_places_);
    params.put(ids_);
    params.put(order);
    params.put(winners);
    params.put(tuples_.count);
    if (!put_strided(params, row_, 2)) return FACULA_NOT_SUPPORTED;
    Kernel* kernel = nullptr;
    const bool adds = e.number == kAdd.number;
    const int32_t dtype = x_.table->dtype;
    FACULA_TRY(find(e, adds ? element_type(dtype) : piece_type(piece_), adds ? compute_type(dtype) : "uint8_t",
                    adds ? 100 + dtype : piece_, &kernel));
    void* arguments[] = {params.data()};
    const int64_t n = by_tuple ? tuples_.count : tuples_.count * row_.count;
    return launch(*device_, *kernel, grid_for(*device_, n, 256), {256}, 0, call_->stream, arguments);
  }

 private:
  int32_t find(Entry e, const char* element, const char* value, int types, Kernel** out) {
    KernelKey key;
    key.name = "index.cu";
    key.bits[0] = static_cast<uint64_t>(e.number);
    key.bits[1] = static_cast<uint64_t>(types);
    key.bits[2] = static_cast<uint64_t>(x_.indices) | static_cast<uint64_t>(x_.index[0]->dtype) << 8;
    return find_kernel(*device_, key, [&] { return source(e, element, value, x_.index[0]->dtype, x_.indices); }, out);
  }

  const FaculaCall* call_;
  const Indexing& x_;
  Scratch memory_;
  const Device* device_ = nullptr;
  StridedDims tuples_, row_;
  int64_t *table_places_ = nullptr, *side_places_ = nullptr, *ids_ = nullptr;
  int piece_ = 1;
};

// index_long(self, indices, out)
int32_t index_read(void*, const FaculaCall* call) {
  Indexing x;
  if (!describe(x, tensor(call, 0), call->args[1], result(call))) return FACULA_NOT_SUPPORTED;
  Run run(call, x);
  FACULA_TRY(run.start(true, false));
  if (run.empty()) return FACULA_OK;
  run.widen(x.table->data, x.side->data);
  return run.rows(kRead, static_cast<char*>(x.table->data), x.side->data, nullptr, nullptr, false);
}

// index_put_long(self, indices, values, accumulate, out)
int32_t index_write(void*, const FaculaCall* call) {
  const FaculaTensor &self = tensor(call, 0), &values = tensor(call, 2), &out = result(call);
  const bool add = call->args[3].at.i != 0;
  Indexing x;
  if (values.dtype != out.dtype || !describe(x, out, call->args[1], values)) return FACULA_NOT_SUPPORTED;
  const void* side = values.data;
  Scratch moved(call->index, call->stream);
  if (!on_device(values)) FACULA_TRY(dense(values, moved, call->index, call->stream, &side));
  if (self.data != out.data) FACULA_TRY(copy_between(out, self, call->index, call->stream));
  Run run(call, x);
  FACULA_TRY(run.start(true, true));
  if (run.empty()) return FACULA_OK;
  char* const table = static_cast<char*>(out.data);
  if (!add) {
    Scratch winners(call->index, call->stream);
    const size_t bytes = static_cast<size_t>(x.places) * 8;
    FACULA_TRY(winners.allocate(bytes));
    FACULA_TRY(status_of(driver()->MemsetD8Async(reinterpret_cast<CUdeviceptr>(winners.data()), 0xff, bytes,
                                                 static_cast<CUstream>(call->stream)),
                         "cuMemsetD8Async"));
    auto* const last = reinterpret_cast<int64_t*>(winners.data());
    run.widen(table, side);
    FACULA_TRY(run.rows(kLast, table, side, nullptr, last, true));
    return run.rows(kWrite, table, side, nullptr, last, false);
  }
  Scratch order(call->index, call->stream);
  FACULA_TRY(order_of(run.device(), call->stream, run.ids(), run.tuples(), order));
  return run.rows(kAdd, table, side, reinterpret_cast<const int64_t*>(order.data()), nullptr, false);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const int indices : {1, 2}) {
    if (indices == 2 && level < 1) continue;
    add(source(kPlaces, "uint8_t", "uint8_t", FACULA_INT64, indices));
    for (const int piece : {1, 2, 4, 8, 16}) {
      for (const Entry e : {kRead, kLast, kWrite}) add(source(e, piece_type(piece), "uint8_t", FACULA_INT64, indices));
    }
    for (const int32_t dtype :
         {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT64, FACULA_FLOAT16, FACULA_INT64, FACULA_COMPLEX64}) {
      if (level == 0 && dtype != FACULA_FLOAT32 && dtype != FACULA_BFLOAT16) continue;
      add(source(kAdd, element_type(dtype), compute_type(dtype), FACULA_INT64, indices));
    }
  }
}
const ListsSources lists(list);

const Registers registers{{"index_long", index_read}, {"index_put_long", index_write}};

}  // namespace

}  // namespace facula::cuda
