// cuDNN through its graph interface, opened at run time: graphs of operations, and the plans that run them.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "launch/device.h"

namespace facula::cuda {

// cuDNN's numbers for what is used of it.
enum GraphType : int {
  kGraphFloat = 0,
  kGraphDouble = 1,
  kGraphHalf = 2,
  kGraphInt32 = 4,
  kGraphBfloat16 = 9,
  kGraphBool = 11
};
enum GraphPointwise : int {
  kGraphAdd = 0,
  kGraphMul = 1,
  kGraphDiv = 6,
  kGraphSub = 9,
  kGraphExp = 13,
  kGraphLog = 15,
  kGraphIdentity = 21,
  kGraphGreaterEqual = 303,
  kGraphIndex = 501,  // the place along `axis`
  kGraphSelect = 601  // of the first two operands, by the third
};
enum GraphReduction : int { kGraphSum = 0, kGraphMax = 3 };
// Which of a convolution's three tensors the others give.
enum class ConvolutionResult : int { kNarrow, kWide, kWeight };

// cuDNN's type for a dtype, -1 where it has none.
int graph_type(int32_t dtype);

struct PlanData;
struct PlanDeleter {
  void operator()(PlanData* plan) const;
};
using Plan = std::unique_ptr<PlanData, PlanDeleter>;

// Operands are numbered in the order in which they are declared; those in memory and numbers are bound
// when a plan runs. A mistake on the way makes the graph void, and it has no plan.
class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  using Sizes = std::span<const int64_t>;
  int tensor(int type, Sizes sizes, Sizes strides);
  int between(int type, Sizes sizes, Sizes strides);  // a value that is never stored
  int number(int dims);                               // a float

  void convolution(ConvolutionResult result, int compute, int wide, int weight, int narrow, Sizes stride, Sizes padding,
                   Sizes dilation);
  void pointwise(GraphPointwise mode, std::initializer_list<int> operands, int out, int compute = kGraphFloat,
                 int axis = -1);
  void matmul(int a, int b, int out);
  void reduce(GraphReduction mode, int in, int out);
  void reshape(int in, int out);

 private:
  friend Plan make_plan(const Device& device, Graph& graph, bool exact, std::string* why);
  struct Data;
  int operand(int type, Sizes sizes, Sizes strides, bool is_virtual, bool is_number);
  void set_operands(void* operation, std::initializer_list<std::pair<int, int>> attributes);
  std::unique_ptr<Data> data_;
};

// The best plan by cuDNN's own judgement whose results are the same bits each time where there is one;
// with `exact` none that rounds its operands. Null when there is none, or no cuDNN; `why` then says so.
Plan make_plan(const Device& device, Graph& graph, bool exact, std::string* why = nullptr);

// The plan kept under a key; `make` is called when the key is met first. Null is kept, too.
PlanData* find_plan(const Device& device, const std::string& key, const std::function<Plan()>& make);

// `places[i]` is the memory, or the address of the number, of operand `operands[i]`.
int32_t run_plan(const Device& device, const PlanData& plan, std::span<const int> operands,
                 std::span<void* const> places, void* stream);

}  // namespace facula::cuda
