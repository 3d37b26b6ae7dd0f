// Groups of facula.compile on devices of packages: FaculaBackend.group.
#include <cstring>

#include "runtime/device/kernels.h"
#include "runtime/dispatch/device_groups.h"

namespace facula {

namespace {

bool takes(DeviceType type) {
  const DeviceInterface* const d = interface_or_null(type);
  return d != nullptr && d->api.group != nullptr;
}

bool takes_rows(DeviceType type, const char* op) {
  const DeviceInterface* const d = interface_or_null(type);
  if (d == nullptr || d->api.group == nullptr || d->api.group_rows == nullptr) return false;
  for (const char* const* name = d->api.group_rows; *name != nullptr; ++name) {
    if (std::strcmp(*name, op) == 0) return true;
  }
  return false;
}

void set_stream(Device device, void* stream) { set_current_stream(device, stream); }

void to_host(void* host, const void* data, Device device, size_t nbytes) {
  transfer(host, Device{}, data, device, nbytes);
}

void copy(const Tensor& to, const Tensor& from) { device_copy(to, from, false); }

FaculaTensor tensor_of(const detail::GroupTensor& t, const detail::GroupCall& call, const int64_t* zeros) {
  const DimVector& sizes = *call.sizes;
  const int64_t* const strides = t.number ? zeros : t.strides;
  const bool contiguous = !t.number && is_contiguous(sizes, IntList(strides, sizes.size()));
  return {const_cast<void*>(t.data),
          sizes.data(),
          strides,
          call.numel,
          static_cast<int32_t>(sizes.size()),
          static_cast<int32_t>(t.dtype),
          t.number ? FACULA_HOST : call.record->device.index,
          (contiguous ? uint32_t{FACULA_CONTIGUOUS} : 0u) | (t.number ? uint32_t{FACULA_HOST_SCALAR} : 0u),
          nullptr};
}

bool run(const detail::GroupCall& call) {
  const detail::GroupForm& form = *call.form;
  const detail::Record& record = *call.record;
  DeviceInterface& interface = started_interface(record.device.type);
  const DimVector zeros(call.sizes->size(), 0);
  std::vector<FaculaTensor> tensors;
  tensors.reserve(call.tensors.size());
  for (const detail::GroupTensor& t : call.tensors) tensors.push_back(tensor_of(t, call, zeros.data()));
  SmallVector<int32_t, 64> dtypes;
  for (const ScalarType t : form.dtypes) dtypes.push_back(static_cast<int32_t>(t));
  size_t count = 0;
  for (const auto& s : form.steps) {
    count += s.node == detail::GroupForm::kCopy || s.reduced > 0 ? 0u : record.nodes[s.node].values;
  }
  std::vector<FaculaValue> values;
  values.reserve(count);  // steps point into it
  std::vector<FaculaStep> steps;
  steps.reserve(form.steps.size());
  for (const auto& s : form.steps) {
    const int32_t* const used = form.used.data() + s.first;
    if (s.node == detail::GroupForm::kCopy) {
      const ScalarType compute = copy_type(static_cast<ScalarType>(dtypes[static_cast<size_t>(used[1])]),
                                           static_cast<ScalarType>(dtypes[static_cast<size_t>(used[0])]));
      steps.push_back({"copy", "", nullptr, used, used + 1, 1, 1, 0, static_cast<int32_t>(compute), 0, 0});
      continue;
    }
    const detail::RecordNode& node = record.nodes[s.node];
    if (s.reduced > 0) {
      steps.push_back({node.name, "", nullptr, used, used + 1, 1, 1, 0, static_cast<int32_t>(s.compute), 0, s.reduced});
      continue;
    }
    const LoopArgs args = detail::args_of(record, node);
    steps.push_back({node.op->entry->name, node.op->variant, values.data() + values.size(), used, used + s.outs, s.outs,
                     s.ins, node.values, static_cast<int32_t>(node.compute), node.op->masks, 0});
    for (size_t i = 0; i < args.values.size(); ++i) {
      values.push_back(args.has(i) ? plain_number(args.values[i]) : FaculaValue{});
    }
  }
  const FaculaGroup group{form.id,
                          tensors.data(),
                          form.stored.data(),
                          dtypes.data(),
                          steps.data(),
                          static_cast<int32_t>(form.inputs.size()),
                          static_cast<int32_t>(form.outputs.size()),
                          static_cast<int32_t>(dtypes.size()),
                          static_cast<int32_t>(steps.size()),
                          record.device.index,
                          record.wait ? uint32_t{FACULA_WAIT} : 0u,
                          record.stream};
  ProfilerRange range(interface, "group");
  const int32_t status = interface.api.group(interface.api.context, &group);
  if (status == FACULA_NOT_READY) return false;
  if (status == FACULA_NOT_SUPPORTED) {
    note_refusal(interface, "group", "function");
    return false;
  }
  interface.check(status, record.device.index, "a group of operators");
  return true;
}

[[maybe_unused]] const bool installed =
    (detail::device_groups = {takes, takes_rows, current_stream, set_stream, run, device_pointwise, copy, to_host},
     true);

}  // namespace

}  // namespace facula
