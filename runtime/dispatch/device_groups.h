// Groups of a record on a device of a package: one call of the device's, or its operators one by one.
#pragma once

#include <memory>
#include <vector>

#include "runtime/dispatch/record.h"

namespace facula::detail {

struct PlanGroup;

// A group as devices see it: values that go from step to step, of which the first are read from memory. A value that a
// call makes has the dtype of the call's result. Operands are numbers in Record::operands.
struct GroupForm {
  static constexpr uint32_t kCopy = ~0u;
  struct Step {
    uint32_t node;  // kCopy: none, the value converted to another dtype
    uint8_t outs, ins;
    uint32_t first;   // in `used`: the values that it makes, then those that it reads
    int32_t reduced;  // of an operator over last dims: how many
    ScalarType compute;
  };
  uint64_t id;                     // of no other form
  std::vector<uint32_t> inputs;    // operands of the first values
  std::vector<uint32_t> outputs;   // operands that are written at the end
  std::vector<int32_t> stored;     // and with which value
  std::vector<ScalarType> dtypes;  // of values
  std::vector<Step> steps;
  std::vector<int32_t> used;
};
std::shared_ptr<const GroupForm> form_of(const PlanGroup& group, const Record& record);

// A group that is to run: the form with addresses. Strides are in elements, by dim of `sizes`.
struct GroupTensor {
  const void* data;  // of a number: one element in host memory
  const int64_t* strides;
  ScalarType dtype;
  bool number;
};
struct GroupCall {
  const GroupForm* form;
  const Record* record;
  const DimVector* sizes;
  int64_t numel;
  std::vector<GroupTensor> tensors;  // inputs, then outputs
};

// What capture needs of devices of packages; set by runtime/device.
struct DeviceGroups {
  // Whether devices of the type run groups.
  bool (*takes)(DeviceType type) = [](DeviceType) { return false; };
  // Whether an operator over last dims can be a step of their groups.
  bool (*takes_rows)(DeviceType type, const char* op) = nullptr;
  void* (*stream)(Device device) = nullptr;
  void (*set_stream)(Device device, void* stream) = nullptr;
  // False: the device does not take the group, or has not built it yet.
  bool (*run)(const GroupCall& call) = nullptr;
  PointwiseKernel pointwise = nullptr;
  void (*copy)(const Tensor& to, const Tensor& from) = nullptr;  // in the dtype and layout of `to`
  void (*to_host)(void* host, const void* data, Device device, size_t nbytes) = nullptr;
};
extern FACULA_API constinit DeviceGroups device_groups;

LoopArgs args_of(const Record& record, const RecordNode& node);
// The node's tensors, outputs first, over memory by buffer; numbers are tensors of the CPU without dims.
std::vector<Tensor> tensors_of(const Record& record, const RecordNode& node, const std::vector<Storage>& memory);
// The call as it would have run outside of capture.
void run_alone(const Record& record, const RecordNode& node, std::span<const Tensor> tensors);

// One element of the number's dtype.
void write_number(const Record& record, const RecordOperand& o, void* to);
uint64_t new_form_id();

// `memory`: of the record's buffers, null where a value never goes to memory.
void run_on_device(const PlanGroup& group, Record& record, std::vector<Storage>& memory);

// The record's stream is the current one of its device.
class RecordStream {
 public:
  explicit RecordStream(const Record& record);
  ~RecordStream();
  RecordStream(const RecordStream&) = delete;
  RecordStream& operator=(const RecordStream&) = delete;

 private:
  Device device_;
  void* before_ = nullptr;
  bool changed_ = false;
};

}  // namespace facula::detail
