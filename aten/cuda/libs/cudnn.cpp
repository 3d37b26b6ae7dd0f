#include "libs/cudnn.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "libs/library.h"

namespace facula::cuda {

namespace {

using Handle = void*;
using Status = int;

enum : int {
  TYPE_HANDLE = 0,
  TYPE_DATA_TYPE = 1,
  TYPE_BOOLEAN = 2,
  TYPE_INT64 = 3,
  TYPE_FLOAT = 4,
  TYPE_DOUBLE = 5,
  TYPE_VOID_PTR = 6,
  TYPE_CONVOLUTION_MODE = 7,
  TYPE_HEUR_MODE = 8,
  TYPE_NUMERICAL_NOTE = 11,
  TYPE_POINTWISE_MODE = 14,
  TYPE_DESCRIPTOR = 15,
  TYPE_REDUCTION = 18,

  POINTWISE = 0,
  CONVOLUTION = 1,
  ENGINE = 2,
  ENGINECFG = 3,
  ENGINEHEUR = 4,
  EXECUTION_PLAN = 5,
  OPERATION_CONVOLUTION_FORWARD = 10,
  OPERATION_CONVOLUTION_FILTER = 11,
  OPERATION_CONVOLUTION_DATA = 12,
  OPERATION_POINTWISE = 13,
  OPERATIONGRAPH = 15,
  VARIANT_PACK = 16,
  TENSOR = 17,
  MATMUL = 18,
  OPERATION_MATMUL = 19,
  REDUCTION = 21,
  OPERATION_REDUCTION = 22,
  OPERATION_RESHAPE = 31,

  POINTWISE_MODE = 0,
  POINTWISE_MATH_PREC = 1,
  POINTWISE_AXIS = 9,
  CONVOLUTION_COMP_TYPE = 100,
  CONVOLUTION_CONV_MODE = 101,
  CONVOLUTION_DILATIONS = 102,
  CONVOLUTION_STRIDES = 103,
  CONVOLUTION_POST_PADDINGS = 104,
  CONVOLUTION_PRE_PADDINGS = 105,
  CONVOLUTION_SPATIAL_DIMS = 106,
  ENGINEHEUR_MODE = 200,
  ENGINEHEUR_GRAPH = 201,
  ENGINEHEUR_RESULTS = 202,
  ENGINECFG_ENGINE = 300,
  PLAN_HANDLE = 400,
  PLAN_ENGINE_CONFIG = 401,
  PLAN_WORKSPACE_SIZE = 402,
  FORWARD_ALPHA = 700,  // BETA, CONV_DESC, W, X, Y
  DATA_ALPHA = 706,     // BETA, CONV_DESC, W, DX, DY
  FILTER_ALPHA = 712,   // BETA, CONV_DESC, DW, X, DY
  OP_POINTWISE_DESC = 750,
  OP_POINTWISE_X = 751,
  OP_POINTWISE_B = 752,
  OP_POINTWISE_Y = 753,
  OP_POINTWISE_T = 758,
  GRAPH_HANDLE = 800,
  GRAPH_OPS = 801,
  TENSOR_ALIGNMENT = 900,
  TENSOR_DATA_TYPE = 901,
  TENSOR_DIMENSIONS = 902,
  TENSOR_STRIDES = 903,
  TENSOR_UNIQUE_ID = 906,
  TENSOR_IS_VIRTUAL = 907,
  TENSOR_IS_BY_VALUE = 908,
  PACK_UNIQUE_IDS = 1000,
  PACK_POINTERS = 1001,
  PACK_WORKSPACE = 1003,
  ENGINE_NUMERICAL_NOTE = 1303,
  MATMUL_COMP_TYPE = 1500,
  OP_MATMUL_A = 1520,
  OP_MATMUL_B = 1521,
  OP_MATMUL_C = 1522,
  OP_MATMUL_DESC = 1523,
  REDUCTION_OPERATOR = 1600,
  REDUCTION_COMP_TYPE = 1601,
  OP_REDUCTION_X = 1610,
  OP_REDUCTION_Y = 1611,
  OP_REDUCTION_DESC = 1612,
  OP_RESHAPE_X = 2200,
  OP_RESHAPE_Y = 2201,

  HEUR_FALLBACK = 2,
  HEUR_A = 3,
  CROSS_CORRELATION = 1,
  NOTE_TENSOR_CORE = 0,
  NOTE_DOWN_CONVERT = 1,
  NOTE_NONDETERMINISTIC = 4,
  NOTE_COUNT = 10
};

#define FACULA_CUDNN(X)                                                       \
  X(GetVersion, size_t, ())                                                   \
  X(GetLastErrorString, void, (char*, size_t))                                \
  X(Create, Status, (Handle*))                                                \
  X(SetStream, Status, (Handle, CUstream))                                    \
  X(BackendCreateDescriptor, Status, (int, void**))                           \
  X(BackendDestroyDescriptor, Status, (void*))                                \
  X(BackendFinalize, Status, (void*))                                         \
  X(BackendSetAttribute, Status, (void*, int, int, int64_t, const void*))     \
  X(BackendGetAttribute, Status, (void*, int, int, int64_t, int64_t*, void*)) \
  X(BackendExecute, Status, (Handle, void*, void*))

struct Library {
#define X(name, result, arguments) result(*name) arguments = nullptr;
  FACULA_CUDNN(X)
#undef X
  std::string why;
};

const Library& library() {
  static const Library* const l = [] {
    auto* const made = new Library;
    if (const char* const off = std::getenv("FACULA_CUDNN"); off != nullptr && std::strcmp(off, "0") == 0) {
      made->why = "FACULA_CUDNN=0 switches cuDNN off";
      return made;
    }
    void* const opened = open_library({"libcudnn.so.9"}, "nvidia-cudnn-cu13", made->why);
    if (opened == nullptr) return made;
    // cuDNN looks for these by name when it wants them; what is loaded is found
    std::string ignored;
    open_library({"libcublasLt.so.13", "libcublasLt.so.12"}, "nvidia-cublas", ignored);
    open_library({"libnvrtc.so.13", "libnvrtc.so.12"}, "nvidia-cuda-nvrtc", ignored);
#define X(name, result, arguments)                                                   \
  made->name = reinterpret_cast<decltype(made->name)>(dlsym(opened, "cudnn" #name)); \
  if (made->name == nullptr) made->why = "cuDNN is too old: it has no cudnn" #name;
    FACULA_CUDNN(X)
#undef X
    if (made->why.empty() && made->GetVersion() < 90600) made->why = "cuDNN is too old: 9.6 is needed";
    return made;
  }();
  return *l;
}

std::string last_error(const char* doing, Status status) {
  char text[512] = {};
  library().GetLastErrorString(text, sizeof(text) - 1);
  return std::string(doing) + ": status " + std::to_string(status) + (text[0] != '\0' ? ", " : "") + text;
}

// One descriptor of cuDNN's; the first status that is not success stays.
class Descriptor {
 public:
  explicit Descriptor(int kind) { note(library().BackendCreateDescriptor(kind, &it_), "cudnnBackendCreateDescriptor"); }
  ~Descriptor() {
    if (it_ != nullptr) library().BackendDestroyDescriptor(it_);
  }
  Descriptor(Descriptor&& other) noexcept : it_(std::exchange(other.it_, nullptr)), why_(std::move(other.why_)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  void set(int attribute, int type, int64_t count, const void* values) {
    if (good()) note(library().BackendSetAttribute(it_, attribute, type, count, values), attribute);
  }
  void set(int attribute, int type, int value) { set(attribute, type, 1, &value); }
  void set(int attribute, int64_t value) { set(attribute, TYPE_INT64, 1, &value); }
  void set(int attribute, bool value) { set(attribute, TYPE_BOOLEAN, 1, &value); }
  void set(int attribute, std::span<const int64_t> values) {
    set(attribute, TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
  }
  void set(int attribute, const Descriptor& other) {
    if (!other.good()) why_ = other.why_;
    set(attribute, TYPE_DESCRIPTOR, 1, &other.it_);
  }
  void finalize() {
    if (good()) note(library().BackendFinalize(it_), "cudnnBackendFinalize");
  }
  // How many values came.
  int64_t get(int attribute, int type, int64_t room, void* values) const {
    int64_t count = 0;
    return good() && library().BackendGetAttribute(it_, attribute, type, room, &count, values) == 0 ? count : 0;
  }
  bool good() const { return why_.empty(); }
  const std::string& why() const { return why_; }
  void* it() const { return it_; }

 private:
  void note(Status status, const char* doing) {
    if (status != 0) why_ = last_error(doing, status);
  }
  void note(Status status, int attribute) {
    if (status != 0) why_ = last_error(("cudnnBackendSetAttribute of " + std::to_string(attribute)).c_str(), status);
  }
  void* it_ = nullptr;
  std::string why_;
};

// A device's handle, used by one thread at a time, and the plans that were made for it.
struct PerDevice {
  std::mutex mutex;
  Handle handle = nullptr;
  bool tried = false;
  std::unordered_map<std::string, Plan> plans;
};
PerDevice& per_device(const Device& device) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const all = new std::unordered_map<int, PerDevice*>;
  std::lock_guard lock(*mutex);
  PerDevice*& p = (*all)[device.index];
  if (p == nullptr) p = new PerDevice;
  return *p;
}
Handle handle_of(PerDevice& p) {
  if (!p.tried) {
    p.tried = true;
    if (library().Create(&p.handle) != 0) p.handle = nullptr;
  }
  return p.handle;
}

}  // namespace

int graph_type(int32_t dtype) {
  switch (dtype) {
    case FACULA_FLOAT16:
      return kGraphHalf;
    case FACULA_BFLOAT16:
      return kGraphBfloat16;
    case FACULA_FLOAT32:
      return kGraphFloat;
    case FACULA_FLOAT64:
      return kGraphDouble;
    default:
      return -1;
  }
}

struct Graph::Data {
  std::vector<Descriptor> operands, parts, operations;
  std::string why;

  Descriptor& part(int kind) { return parts.emplace_back(kind); }
  Descriptor& operation(int kind) { return operations.emplace_back(kind); }
  void finish(Descriptor& d) {
    d.finalize();
    if (!d.good() && why.empty()) why = d.why();
  }
};
struct PlanData {
  std::vector<Descriptor> held;
  void* plan = nullptr;
  size_t workspace = 0;
};
void PlanDeleter::operator()(PlanData* plan) const { delete plan; }

Graph::Graph() : data_(new Data) { data_->why = library().why; }
Graph::~Graph() = default;

int Graph::operand(int type, Sizes sizes, Sizes strides, bool is_virtual, bool is_number) {
  const auto id = static_cast<int64_t>(data_->operands.size());
  if (!data_->why.empty()) return -1;
  Descriptor& d = data_->operands.emplace_back(TENSOR);
  d.set(TENSOR_DATA_TYPE, TYPE_DATA_TYPE, type);
  d.set(TENSOR_DIMENSIONS, sizes);
  d.set(TENSOR_STRIDES, strides);
  d.set(TENSOR_UNIQUE_ID, id + 1);
  d.set(TENSOR_ALIGNMENT, int64_t{16});
  d.set(TENSOR_IS_VIRTUAL, is_virtual);
  d.set(TENSOR_IS_BY_VALUE, is_number);
  data_->finish(d);
  return static_cast<int>(id);
}
int Graph::tensor(int type, Sizes sizes, Sizes strides) { return operand(type, sizes, strides, false, false); }
int Graph::between(int type, Sizes sizes, Sizes strides) { return operand(type, sizes, strides, true, false); }
int Graph::number(int dims) {
  const std::vector<int64_t> ones(static_cast<size_t>(dims), 1);
  return operand(kGraphFloat, ones, ones, false, true);
}

void Graph::set_operands(void* operation, std::initializer_list<std::pair<int, int>> attributes) {
  auto& d = *static_cast<Descriptor*>(operation);
  for (const auto& [attribute, id] : attributes) d.set(attribute, data_->operands[static_cast<size_t>(id)]);
  data_->finish(d);
}

void Graph::convolution(ConvolutionResult result, int compute, int wide, int weight, int narrow, Sizes stride,
                        Sizes padding, Sizes dilation) {
  if (!data_->why.empty()) return;
  Descriptor& c = data_->part(CONVOLUTION);
  c.set(CONVOLUTION_COMP_TYPE, TYPE_DATA_TYPE, compute);
  c.set(CONVOLUTION_CONV_MODE, TYPE_CONVOLUTION_MODE, CROSS_CORRELATION);
  c.set(CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(stride.size()));
  c.set(CONVOLUTION_PRE_PADDINGS, padding);
  c.set(CONVOLUTION_POST_PADDINGS, padding);
  c.set(CONVOLUTION_DILATIONS, dilation);
  c.set(CONVOLUTION_STRIDES, stride);
  data_->finish(c);
  const int kinds[] = {OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_DATA, OPERATION_CONVOLUTION_FILTER};
  const int firsts[] = {FORWARD_ALPHA, DATA_ALPHA, FILTER_ALPHA};
  Descriptor& d = data_->operation(kinds[static_cast<int>(result)]);
  const int first = firsts[static_cast<int>(result)];
  const float numbers[] = {1, 0};
  const double wide_numbers[] = {1, 0};
  for (int i = 0; i < 2; ++i) {
    if (compute == kGraphDouble) {
      d.set(first + i, TYPE_DOUBLE, 1, wide_numbers + i);
    } else {
      d.set(first + i, TYPE_FLOAT, 1, numbers + i);
    }
  }
  d.set(first + 2, c);
  set_operands(&d, {{first + 3, weight}, {first + 4, wide}, {first + 5, narrow}});
}

void Graph::pointwise(GraphPointwise mode, std::initializer_list<int> operands, int out, int compute, int axis) {
  if (!data_->why.empty()) return;
  Descriptor& p = data_->part(POINTWISE);
  p.set(POINTWISE_MODE, TYPE_POINTWISE_MODE, mode);
  p.set(POINTWISE_MATH_PREC, TYPE_DATA_TYPE, compute);
  if (axis >= 0) p.set(POINTWISE_AXIS, int64_t{axis});
  data_->finish(p);
  Descriptor& d = data_->operation(OPERATION_POINTWISE);
  d.set(OP_POINTWISE_DESC, p);
  const int places[] = {OP_POINTWISE_X, OP_POINTWISE_B, OP_POINTWISE_T};
  int i = 0;
  for (const int id : operands) d.set(places[i++], data_->operands[static_cast<size_t>(id)]);
  set_operands(&d, {{OP_POINTWISE_Y, out}});
}

void Graph::matmul(int a, int b, int out) {
  if (!data_->why.empty()) return;
  Descriptor& m = data_->part(MATMUL);
  m.set(MATMUL_COMP_TYPE, TYPE_DATA_TYPE, kGraphFloat);
  data_->finish(m);
  Descriptor& d = data_->operation(OPERATION_MATMUL);
  d.set(OP_MATMUL_DESC, m);
  set_operands(&d, {{OP_MATMUL_A, a}, {OP_MATMUL_B, b}, {OP_MATMUL_C, out}});
}

void Graph::reduce(GraphReduction mode, int in, int out) {
  if (!data_->why.empty()) return;
  Descriptor& r = data_->part(REDUCTION);
  r.set(REDUCTION_OPERATOR, TYPE_REDUCTION, mode);
  r.set(REDUCTION_COMP_TYPE, TYPE_DATA_TYPE, kGraphFloat);
  data_->finish(r);
  Descriptor& d = data_->operation(OPERATION_REDUCTION);
  d.set(OP_REDUCTION_DESC, r);
  set_operands(&d, {{OP_REDUCTION_X, in}, {OP_REDUCTION_Y, out}});
}

void Graph::reshape(int in, int out) {
  if (!data_->why.empty()) return;
  Descriptor& d = data_->operation(OPERATION_RESHAPE);
  set_operands(&d, {{OP_RESHAPE_X, in}, {OP_RESHAPE_Y, out}});
}

Plan make_plan(const Device& device, Graph& graph, bool exact, std::string* why) {
  std::string ignored;
  std::string& text = why != nullptr ? *why : ignored;
  text = graph.data_->why;
  if (!text.empty()) return nullptr;
  const Handle handle = handle_of(per_device(device));
  if (handle == nullptr) {
    text = last_error("cudnnCreate", 1);
    return nullptr;
  }
  Descriptor whole(OPERATIONGRAPH);
  std::vector<void*> operations;
  for (const Descriptor& d : graph.data_->operations) operations.push_back(d.it());
  whole.set(GRAPH_HANDLE, TYPE_HANDLE, 1, &handle);
  whole.set(GRAPH_OPS, TYPE_DESCRIPTOR, static_cast<int64_t>(operations.size()), operations.data());
  whole.finalize();
  if (!whole.good()) {
    text = whole.why();
    return nullptr;
  }
  // the best that gives the same bits each time, else the best
  for (const bool repeatable : {true, false}) {
    for (const int mode : {HEUR_A, HEUR_FALLBACK}) {
      Descriptor heuristic(ENGINEHEUR);
      heuristic.set(ENGINEHEUR_GRAPH, whole);
      heuristic.set(ENGINEHEUR_MODE, TYPE_HEUR_MODE, mode);
      heuristic.finalize();
      if (!heuristic.good()) text = heuristic.why();
      const int64_t count = heuristic.get(ENGINEHEUR_RESULTS, TYPE_DESCRIPTOR, 0, nullptr);
      std::vector<Descriptor> configurations;
      std::vector<void*> places;
      for (int64_t i = 0; i < count; ++i) places.push_back(configurations.emplace_back(ENGINECFG).it());
      const int64_t got = count > 0 ? heuristic.get(ENGINEHEUR_RESULTS, TYPE_DESCRIPTOR, count, places.data()) : 0;
      for (int64_t i = 0; i < got; ++i) {
        Descriptor& configuration = configurations[static_cast<size_t>(i)];
        Descriptor engine(ENGINE);
        void* place = engine.it();
        configuration.get(ENGINECFG_ENGINE, TYPE_DESCRIPTOR, 1, &place);
        int notes[NOTE_COUNT * 2];
        const int64_t known = engine.get(ENGINE_NUMERICAL_NOTE, TYPE_NUMERICAL_NOTE, NOTE_COUNT * 2, notes);
        bool fits = true;
        for (int64_t n = 0; n < known; ++n) {
          if (exact && (notes[n] == NOTE_TENSOR_CORE || notes[n] == NOTE_DOWN_CONVERT)) fits = false;
          if (repeatable && notes[n] == NOTE_NONDETERMINISTIC) fits = false;
        }
        if (!fits) continue;
        Descriptor plan(EXECUTION_PLAN);
        plan.set(PLAN_HANDLE, TYPE_HANDLE, 1, &handle);
        plan.set(PLAN_ENGINE_CONFIG, configuration);
        plan.finalize();
        if (!plan.good()) {
          text = plan.why();
          continue;
        }
        int64_t workspace = 0;
        plan.get(PLAN_WORKSPACE_SIZE, TYPE_INT64, 1, &workspace);
        Plan made(new PlanData);
        made->plan = plan.it();
        made->workspace = static_cast<size_t>(std::max<int64_t>(workspace, 0));
        made->held.push_back(std::move(plan));
        made->held.push_back(std::move(configuration));
        made->held.push_back(std::move(whole));
        for (auto* group : {&graph.data_->operations, &graph.data_->parts, &graph.data_->operands}) {
          for (Descriptor& d : *group) made->held.push_back(std::move(d));
        }
        return made;
      }
    }
  }
  if (text.empty()) text = "cuDNN has no plan";
  return nullptr;
}

PlanData* find_plan(const Device& device, const std::string& key, const std::function<Plan()>& make) {
  if (!library().why.empty()) return nullptr;
  PerDevice& p = per_device(device);
  std::lock_guard lock(p.mutex);
  const auto at = p.plans.find(key);
  if (at != p.plans.end()) return at->second.get();
  return p.plans.emplace(key, make()).first->second.get();
}

int32_t run_plan(const Device& device, const PlanData& plan, std::span<const int> operands,
                 std::span<void* const> places, void* stream) {
  Scratch workspace(device.index, stream);
  if (plan.workspace > 0) FACULA_TRY(workspace.allocate(plan.workspace));
  std::array<int64_t, 32> ids;
  for (size_t i = 0; i < operands.size(); ++i) ids[i] = operands[i] + 1;
  const auto count = static_cast<int64_t>(operands.size());
  void* const room = workspace.data();
  Descriptor pack(VARIANT_PACK);
  pack.set(PACK_UNIQUE_IDS, TYPE_INT64, count, ids.data());
  pack.set(PACK_POINTERS, TYPE_VOID_PTR, count, places.data());
  pack.set(PACK_WORKSPACE, TYPE_VOID_PTR, 1, &room);
  pack.finalize();
  if (!pack.good()) return fail(FACULA_DEVICE_ERROR, pack.why());
  PerDevice& p = per_device(device);
  std::lock_guard lock(p.mutex);
  Status status = library().SetStream(p.handle, static_cast<CUstream>(stream));
  if (status == 0) status = library().BackendExecute(p.handle, plan.plan, pack.it());
  if (status != 0) return fail(FACULA_DEVICE_ERROR, last_error("cudnnBackendExecute", status));
  if (synchronous()) [[unlikely]] {
    int capturing = 0;
    driver()->StreamIsCapturing(static_cast<CUstream>(stream), &capturing);
    if (capturing == 0) {
      return status_of(driver()->StreamSynchronize(static_cast<CUstream>(stream)), "a kernel of cuDNN failed");
    }
  }
  return FACULA_OK;
}

}  // namespace facula::cuda
