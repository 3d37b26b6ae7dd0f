// What is made of a record: groups of calls that run tile by tile, kept by what the record looks like.
#pragma once

#include <memory>
#include <string>

#include "runtime/dispatch/device_groups.h"
#include "runtime/dispatch/record.h"

namespace facula::detail {

// A value of a group, which its steps read and write.
struct PlanRegister {
  enum class Kind : uint8_t { Memory, Tile, Fill };
  Kind kind = Kind::Tile;
  bool stored = false;  // of Tile: it goes to the memory of `operand` as well
  ScalarType dtype = ScalarType::Float32;
  ScalarType read = dtype;  // of Fill: the element's type in memory
  int32_t slot = -1;
  uint32_t operand = 0;  // of Memory, Fill and what is stored: where
};

struct PlanStep {
  enum class Kind : uint8_t { Loop, Convert, Gather };
  Kind kind = Kind::Loop;
  uint8_t outs = 0, ins = 0;
  uint32_t node = 0;     // of Loop
  uint32_t operand = 0;  // of Gather
  uint32_t first = 0;    // of its registers, in PlanGroup::used
};

struct PlanCopy {                 // an equal value that was computed once: register and where it goes too
  uint32_t from, operand, after;  // after: the step
};

struct PlanGroup {
  uint32_t shape = 0;
  int32_t slots = 0;
  int64_t widest = 1;
  std::vector<PlanRegister> registers;
  std::vector<uint32_t> used;
  std::vector<PlanStep> steps;
  std::vector<PlanCopy> copies;
  std::vector<uint32_t> nodes;            // that it computes
  int32_t reduction = -1;                 // the last of them: it takes the elements of `piece` as they are made
  uint32_t piece = 0;                     // a register of Kind::Tile; without steps the reduction reads memory
  std::vector<int32_t> lent;              // buffers without memory that it is the first to write
  std::vector<int32_t> returned;          // and that nobody needs after it
  std::string apart;                      // why its first node is not in an earlier group
  std::shared_ptr<const GroupForm> form;  // on devices of packages
};

// Groups [first, last) that run together over the same rows; see plan_rows.h.
struct PlanRows {
  struct Buffer {
    int32_t buffer;
    int64_t step;  // bytes from row to row
    bool written;
    bool own;  // memory that nobody else reads
  };
  uint32_t first = 0, last = 0;
  uint32_t shape = 0, kept = 0;  // whose first `kept` dims count the rows
  int64_t rows = 0;
  std::vector<uint32_t> small;       // shapes of an element a row
  std::vector<uint32_t> reductions;  // of Record::reductions
  std::vector<Buffer> buffers;
  // On devices of packages all of it is one call; see device_rows.h.
  std::shared_ptr<const GroupForm> form;
  std::vector<DimVector> strides;  // of the form's tensors, in elements by dim of `shape`
};

struct Plan {
  std::vector<uint64_t> tape;
  std::vector<PlanGroup> groups;
  std::vector<PlanRows> rows;
  uint32_t dead = 0, common = 0;  // calls that nobody needs; that others compute already
};

// `held`: which buffers somebody may read when the record has run.
Plan make_plan_of(const Record& record, const std::vector<bool>& held);
void run_plan(const Plan& plan, Record& record);
// Node by node, each as it runs outside of capture; on copies. Then the plan, which must give the same bits.
void check_plan(const Plan& plan, Record& record, const std::vector<bool>& held);

struct PlanCounts {
  uint64_t hits = 0, misses = 0, size = 0, limit = 0;
};
std::shared_ptr<const Plan> find_plan(Record& record, const std::vector<bool>& held);
PlanCounts plan_counts();
void clear_plans();

}  // namespace facula::detail
