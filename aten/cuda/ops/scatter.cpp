// gather, scatter and scatter_reduce: an index for every element, along one dim.
#include <algorithm>
#include <string_view>

#include "launch/kernels.h"
#include "ops/sort.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

struct Entry {
  const char* name;
  int number;
};
constexpr Entry kGather{"facula_gather", 0}, kPlaces{"facula_scatter_places", 1}, kWrite{"facula_scatter_write", 2},
    kReduce{"facula_scatter_reduce", 3};
constexpr std::string_view kReductions[] = {"sum", "prod", "mean", "amax", "amin"};

KernelSource source(Entry e, int32_t dtype, int32_t index, int reduce) {
  return file_kernel("scatter.cu", e.name,
                     std::string("using S = ") + element_type(dtype) + ";\nusing T = " + compute_type(dtype) +
                         ";\nusing X = " + element_type(index) + ";\n#define FACULA_REDUCE " + std::to_string(reduce) +
                         "\n");
}

class Run {
 public:
  Run(const FaculaCall* call, const FaculaTensor& table, const FaculaTensor& side, const FaculaTensor& index,
      int64_t dim)
      : call_(call), table_(table), side_(side), index_(index), dim_(wrapped_dim(dim, table)) {}

  int32_t start() {
    FACULA_TRY(enter(call_->index, &device_));
    if ((index_.dtype != FACULA_INT64 && index_.dtype != FACULA_INT32) || !on_device(index_) || !on_device(side_)) {
      return FACULA_NOT_SUPPORTED;
    }
    int64_t sizes[kMaxTensorDims] = {1}, table[kMaxTensorDims] = {}, side[kMaxTensorDims] = {},
            ids[kMaxTensorDims] = {};
    const int ndim = index_.ndim;
    int64_t step = 1;
    size_ = table_.ndim > 0 ? table_.sizes[dim_] : 1;
    for (int d = table_.ndim - 1; d >= 0; --d) {
      if (d == dim_) {
        id_step_ = step;
        table_step_ = table_.strides[d] * itemsize(table_.dtype);
      }
      if (d < ndim) ids[d] = d == dim_ ? 0 : step;
      step *= table_.sizes[d];
    }
    places_ = step;
    for (int d = 0; d < ndim; ++d) {
      sizes[d] = index_.sizes[d];
      table[d] = d < table_.ndim && d != dim_ ? table_.strides[d] : 0;
      side[d] = d < side_.ndim ? side_.strides[d] : 0;
    }
    const int64_t* strides[] = {table, side, index_.strides, ids};
    const int items[] = {itemsize(table_.dtype), itemsize(side_.dtype), itemsize(index_.dtype), 1};
    iterator_ = make_strided(ndim, sizes, strides, items, 4);
    return size_ == 0 && iterator_.count > 0 ? fail_any_index() : int32_t{FACULA_OK};
  }

  int64_t count() const { return iterator_.count; }
  int64_t places() const { return places_; }
  const Device& device() const { return *device_; }

  int32_t run(Entry e, int64_t* ids, const int64_t* order, int64_t* winners, int reduce = 0, bool include_self = true) {
    KernelKey key;
    key.name = "scatter.cu";
    key.bits[0] = static_cast<uint64_t>(e.number) | static_cast<uint64_t>(reduce) << 8;
    key.bits[1] = static_cast<uint64_t>(table_.dtype) | static_cast<uint64_t>(index_.dtype) << 8;
    Kernel* kernel = nullptr;
    FACULA_TRY(find_kernel(*device_, key, [&] { return source(e, table_.dtype, index_.dtype, reduce); }, &kernel));
    Params params;
    params.put(table_.data);
    params.put(side_.data);
    params.put(index_.data);
    params.put(ids);
    params.put(order);
    params.put(winners);
    params.put(size_);
    params.put(table_step_);
    params.put(id_step_);
    params.put(static_cast<int64_t>(include_self));
    if (!put_strided(params, iterator_, 4)) return FACULA_NOT_SUPPORTED;
    void* arguments[] = {params.data()};
    return launch(*device_, *kernel, grid_for(*device_, iterator_.count, 256), {256}, 0, call_->stream, arguments);
  }

 private:
  const FaculaCall* call_;
  const FaculaTensor &table_, &side_, &index_;
  int dim_;
  const Device* device_ = nullptr;
  int64_t size_ = 1, table_step_ = 0, id_step_ = 0, places_ = 1;
  StridedDims iterator_;
};

// gather(self, dim, index, sparse_grad, out)
int32_t gather(void*, const FaculaCall* call) {
  Run run(call, tensor(call, 0), result(call), tensor(call, 2), call->args[1].at.i);
  FACULA_TRY(run.start());
  return run.count() == 0 ? int32_t{FACULA_OK} : run.run(kGather, nullptr, nullptr, nullptr);
}

// scatter(self, dim, index, src, out)
int32_t scatter(void*, const FaculaCall* call) {
  const FaculaTensor &self = tensor(call, 0), &src = tensor(call, 3), &out = result(call);
  if (src.dtype != out.dtype) return FACULA_NOT_SUPPORTED;
  Run run(call, out, src, tensor(call, 2), call->args[1].at.i);
  FACULA_TRY(run.start());
  if (self.data != out.data) FACULA_TRY(copy_between(out, self, call->index, call->stream));
  if (run.count() == 0) return FACULA_OK;
  Scratch memory(call->index, call->stream);
  const size_t table = static_cast<size_t>(run.places()) * 8;
  FACULA_TRY(memory.allocate(table + static_cast<size_t>(run.count()) * 8));
  auto* const winners = reinterpret_cast<int64_t*>(memory.data());
  int64_t* const ids = winners + run.places();
  FACULA_TRY(status_of(
      driver()->MemsetD8Async(reinterpret_cast<CUdeviceptr>(winners), 0xff, table, static_cast<CUstream>(call->stream)),
      "cuMemsetD8Async"));
  FACULA_TRY(run.run(kPlaces, ids, nullptr, winners));
  return run.run(kWrite, ids, nullptr, winners);
}

// scatter_reduce(self, dim, index, src, reduce, include_self, out)
int32_t scatter_reduce(void*, const FaculaCall* call) {
  const FaculaTensor &self = tensor(call, 0), &src = tensor(call, 3), &out = result(call);
  const std::string_view name = call->args[4].at.text;
  const auto at = std::find(std::begin(kReductions), std::end(kReductions), name);
  const int reduce = static_cast<int>(at - std::begin(kReductions));
  if (at == std::end(kReductions) || src.dtype != out.dtype || (reduce == 2 && !is_floating(out.dtype)) ||
      (reduce > 2 && is_complex(out.dtype))) {
    return FACULA_NOT_SUPPORTED;
  }
  Run run(call, out, src, tensor(call, 2), call->args[1].at.i);
  FACULA_TRY(run.start());
  if (self.data != out.data) FACULA_TRY(copy_between(out, self, call->index, call->stream));
  if (run.count() == 0) return FACULA_OK;
  Scratch memory(call->index, call->stream), order(call->index, call->stream);
  FACULA_TRY(memory.allocate(static_cast<size_t>(run.count()) * 8));
  auto* const ids = reinterpret_cast<int64_t*>(memory.data());
  FACULA_TRY(run.run(kPlaces, ids, nullptr, nullptr));
  FACULA_TRY(order_of(run.device(), call->stream, ids, run.count(), order));
  return run.run(kReduce, ids, reinterpret_cast<const int64_t*>(order.data()), nullptr, reduce,
                 call->args[5].at.i != 0);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const int32_t dtype :
       {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_INT64, FACULA_FLOAT64, FACULA_FLOAT16, FACULA_BOOL, FACULA_COMPLEX64}) {
    if (level == 0 && dtype > FACULA_FLOAT32) continue;
    if (level == 1 && dtype > FACULA_FLOAT32 && dtype != FACULA_COMPLEX64) continue;
    for (const Entry e : {kGather, kPlaces, kWrite}) add(source(e, dtype, FACULA_INT64, 0));
    for (int reduce = 0; reduce < 5; ++reduce) {
      if ((reduce == 2 && !is_floating(dtype)) || (reduce > 2 && is_complex(dtype))) continue;
      add(source(kReduce, dtype, FACULA_INT64, reduce));
    }
  }
}
const ListsSources lists(list);

const Registers registers{{"gather", gather}, {"scatter", scatter}, {"scatter_reduce", scatter_reduce}};

}  // namespace

}  // namespace facula::cuda
