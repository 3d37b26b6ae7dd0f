#include "aten/cpu/index/scatter_iterator.h"

#include "aten/cpu/index/plan.h"

namespace facula::cpu {

ScatterIterator::ScatterIterator(const Tensor& table, const Tensor& side, const Tensor& given, int64_t d,
                                 const Tensor& origin)
    : fresh(!origin.is_same(table)), checks(fresh), index(given), dim(d) {
  DimVector sizes(index.sizes()), strides[4];
  if (sizes.empty()) sizes.push_back(1);
  const Tensor* operands[] = {&table, &side, &index, &origin};
  char* data[4];
  for (int k = 0; k < 4; ++k) {
    const int64_t bytes = static_cast<int64_t>(operands[k]->itemsize());
    data[k] = static_cast<char*>(operands[k]->raw());
    // A 0-d tensor is one of one element; a 0-d side is the value for every place.
    strides[k].resize(sizes.size(), 0);
    for (size_t i = 0; i < sizes.size() && i < operands[k]->strides().size(); ++i) {
      strides[k][i] = operands[k]->strides()[i] * bytes;
    }
  }
  const size_t at = static_cast<size_t>(dim);
  count = sizes[at];
  item = static_cast<int64_t>(table.itemsize());
  table_step = strides[0][at];
  side_step = strides[1][at];
  index_step = strides[2][at];
  origin_step = strides[3][at];
  sizes[at] = 1;
  size = table.dim() > 0 ? table.sizes()[at] : 1;
  plan = make_plan(sizes, strides, data);
  streams = plan.numel * std::max(size, count) * item >= kStreamBytes;
}

void ScatterIterator::finish(const char* op) const {
  if (!good.load()) raise_out_of_range(index, 0, size, dim, op);
}

}  // namespace facula::cpu
