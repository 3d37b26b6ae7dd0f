// A cuDNN for tests without one: descriptors only keep what is set, graphs and runs are noted in words.
// FAKE_CUDNN_NONE=1: no plan is ever to be had.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Descriptor {
  int kind;
  bool final = false;
  std::map<int, std::vector<char>> set;
  std::map<int, int64_t> counts;
  std::string text;  // of a plan: the operations of its graph
};
std::string graph, notes;  // the last graph; a line a run
int64_t graphs = 0;
constexpr int kSizes[] = {8, 4, 1, 8, 4, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 8, 4, 4, 4, 4};

}  // namespace

EXPORT const char* fake_cudnn_notes() { return notes.c_str(); }
EXPORT int64_t fake_cudnn_graphs() { return graphs; }
EXPORT void fake_cudnn_clear() { notes.clear(); }

EXPORT size_t cudnnGetVersion() { return 91900; }
EXPORT void cudnnGetLastErrorString(char* text, size_t n) { std::strncpy(text, "a reason", n); }
EXPORT int cudnnCreate(void** handle) { return *handle = std::malloc(1), 0; }
EXPORT int cudnnSetStream(void*, void*) { return 0; }
EXPORT int cudnnBackendCreateDescriptor(int kind, void** d) { return *d = new Descriptor{kind, false, {}, {}, {}}, 0; }
EXPORT int cudnnBackendDestroyDescriptor(void* d) { return delete static_cast<Descriptor*>(d), 0; }
EXPORT int cudnnBackendSetAttribute(void* d, int name, int type, int64_t count, const void* values) {
  auto* it = static_cast<Descriptor*>(d);
  if (it->final || type < 0 || type >= 20) return 2000;
  const auto* from = static_cast<const char*>(values);
  it->set[name].assign(from, from + count * kSizes[type]);
  it->counts[name] = count;
  return 0;
}
EXPORT int cudnnBackendFinalize(void* d) {
  auto* it = static_cast<Descriptor*>(d);
  if (it->kind == 17 && (it->counts[902] < 4 || it->counts[902] != it->counts[903])) return 2000;
  if (it->kind == 15) {
    graph.clear();
    const auto& bytes = it->set[801];
    for (int64_t i = 0; i < it->counts[801]; ++i) {
      Descriptor* operation = nullptr;
      std::memcpy(&operation, bytes.data() + i * 8, 8);
      if (!operation->final) return 2004;
      graph += std::to_string(operation->kind) + " ";
    }
    ++graphs;
  }
  if (it->kind == 5) {
    if (std::getenv("FAKE_CUDNN_NONE") != nullptr) return 3000;
    it->text = graph;
  }
  it->final = true;
  return 0;
}
EXPORT int cudnnBackendGetAttribute(void*, int name, int, int64_t, int64_t* count, void* value) {
  *count = name == 202 || name == 300 || name == 402 ? 1 : 0;
  if (name == 402) *static_cast<int64_t*>(value) = 1024;
  return 0;
}
EXPORT int cudnnBackendExecute(void*, void* plan, void* pack) {
  auto* it = static_cast<Descriptor*>(pack);
  const auto& places = it->set[1001];
  for (int64_t i = 0; i < it->counts[1001]; ++i) {
    void* p = nullptr;
    std::memcpy(&p, places.data() + i * 8, 8);
    if (p == nullptr) return 2002;
  }
  notes += static_cast<Descriptor*>(plan)->text + "with " + std::to_string(it->counts[1000]) + "\n";
  return 0;
}
