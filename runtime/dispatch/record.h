// What is taken down of pointwise calls: the nodes of a record, and the memory that they read and write.
//
// Results have memory of their own from the beginning, which nothing writes until the record runs; so all that is
// done with geometry alone, views above all, is done at once and is in no record.
#pragma once

#include <string>
#include <vector>

#include "runtime/dispatch/record_reduction.h"
#include "runtime/iterate/pointwise.h"

namespace facula::detail {

// How the elements of an operand lie, as those of its node are gone through in the order of their memory.
enum class Layout : uint8_t { Dense, Constant, Strided };

struct RecordOperand {
  int32_t buffer;  // -1: a number, of Record::numbers
  ScalarType dtype;
  Layout layout;
  uint32_t at = 0;     // the number; the strides in Record::strides of Layout::Strided
  int64_t offset = 0;  // bytes from the begin of the buffer
  bool same_place(const RecordOperand& o) const {
    return buffer == o.buffer && dtype == o.dtype && layout == o.layout && offset == o.offset;
  }
};

struct RecordNode {
  // Copy: the elements, in the dtype of the output. Reduce: a call of Record::reductions.
  enum class Kind : uint8_t { Loop, Copy, Reduce };
  const PointwiseOp* op;  // of Loop
  PointwiseLoop loop;
  ScalarType compute, produced;  // what the loop reads and writes
  uint8_t inputs, outputs, values;
  uint32_t present, promoting;  // of its LoopArgs
  uint32_t shape;
  uint32_t operands;  // the first of them: outputs, then inputs
  uint32_t value;     // the first of its values, in Record::numbers; of Reduce: which
  Kind kind = Kind::Loop;
  const char* name;  // of the operator
};

struct RecordShape {
  DimVector sizes, strides;  // of results; in elements
  int64_t numel;
  int64_t whole;  // the same where that is a part
};

struct RecordBuffer {
  Storage storage;         // null once nobody outside holds it
  const StorageImpl* key;  // who owns the memory
  char* data;
  size_t nbytes;
  bool fresh;      // made by a node of the record
  bool written;    // by a node
  uint32_t maker;  // of fresh ones: the node
};

class Record {
 public:
  std::vector<RecordNode> nodes;
  std::vector<RecordOperand> operands;
  std::vector<RecordShape> shapes;
  std::vector<DimVector> strides;  // in bytes, by logical dim of the node's shape
  std::vector<Scalar> numbers;
  std::vector<uint32_t> number_ids;   // the first equal one, of those compared
  std::vector<uint64_t> number_bits;  // differ where numbers do
  std::vector<RecordBuffer> buffers;
  std::vector<RecordReduction> reductions;
  // Where all of it is, and the stream of a device there; clear() leaves them.
  Device device;
  void* stream = nullptr;
  bool wait = false;                // for what the device builds
  bool symbolic = false;            // plans hold for all sizes
  std::vector<std::string> places;  // of nodes, "file.py:12", where they are asked for
  // All of the above that plans depend on; numbers stand in it by which of them are equal.
  std::vector<uint64_t> tape;
  uint64_t hash = 0;

  bool empty() const { return nodes.empty(); }
  void clear();
  // The buffer over the memory of `s`, -1 if there is none.
  int32_t find(const StorageImpl& s) const;
  int32_t buffer_of(const Tensor& t, bool fresh);
  uint32_t shape_of(const DimVector& sizes, const DimVector& strides, bool symbolic);
  uint32_t number(const Scalar& value);
  // Where `strides` has the same ones, of the last few, so that what is read twice is seen to be one; else new.
  uint32_t strides_of(const DimVector& strides);
  void add_to_tape(uint64_t word) {
    tape.push_back(word);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  // Lets go of fresh memory that nobody else holds: its values are needed in the record at most.
  void release_unheld();
  // The same of the last few, so that the next result takes the memory of one before it.
  void release_recent();
  // Of memory that is there for the record: results, and what nobody else holds any more.
  int64_t bytes_of_its_own() const;
  // Whether anything outside of the record may read the buffer once it has run.
  bool is_held(const RecordBuffer& b) const { return b.storage && (!b.fresh || b.storage->users() > 1); }

 private:
  void grow();
  std::vector<int32_t> table_;  // of buffers by their keys: open addressing; -1: free
};

}  // namespace facula::detail
