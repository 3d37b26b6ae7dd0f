#include "ops/group.h"

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "launch/background.h"
#include "launch/params.h"
#include "ops/group_parts.h"
#include "ops/pointwise_plan.h"

namespace facula::cuda {

namespace {

// A kernel that is being built, or has been.
struct Built {
  enum State : int { kWaiting, kReady, kFailed };
  std::atomic<int> state{kWaiting};
  Kernel kernel;
  std::string error;
};

constexpr size_t kMostKnown = 4096;  // groups, and forms of them

struct Known {
  std::mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<const GroupParts>> parts;  // by the group's number
  std::unordered_map<std::string, Built*> forms;                          // by number, form and device
  std::unordered_map<std::string, Built*> texts;                          // by what was compiled; they stay
};
Known& known() {
  static auto* const k = new Known;
  return *k;
}

template <typename T>
void append(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
std::string key_of(const FaculaGroup& g, const PointwiseForm& f) {
  std::string key;
  for (const uint64_t word : {g.id, uint64_t{f.splats}, static_cast<uint64_t>(g.index)}) append(key, word);
  for (const int n : {f.kind, f.vec, f.unroll, f.dims, static_cast<int>(f.wide)}) append(key, n);
  return key;
}

int32_t parts(const FaculaGroup& g, std::shared_ptr<const GroupParts>& out) {
  Known& k = known();
  {
    const std::lock_guard lock(k.mutex);
    if (const auto at = k.parts.find(g.id); at != k.parts.end()) {
      out = at->second;
      return out != nullptr ? FACULA_OK : FACULA_NOT_SUPPORTED;
    }
  }
  std::string why;
  auto made = std::make_shared<const GroupParts>(parts_of(g, why));
  if (!why.empty()) made = nullptr;
  const std::lock_guard lock(k.mutex);
  if (k.parts.size() >= kMostKnown) k.parts.clear();
  k.parts[g.id] = made;
  out = made;
  return made != nullptr ? FACULA_OK : fail(FACULA_NOT_SUPPORTED, why);
}

void build(Built& built, int32_t index, const KernelSource& source) {
  const Device* device = nullptr;
  int32_t status = FACULA_NOT_SUPPORTED;
  try {
    status = enter(index, &device);
    if (status == FACULA_OK) status = load_kernel(*device, source, built.kernel, built.error);
  } catch (const std::exception& error) {
    status = FACULA_NOT_SUPPORTED;
    built.error = error.what();
  }
  built.state.store(status == FACULA_OK ? Built::kReady : Built::kFailed, std::memory_order_release);
  built.state.notify_all();
}

Built* find(const FaculaGroup& g, const PointwiseForm& form, const GroupParts& made) {
  Known& k = known();
  const std::string key = key_of(g, form);
  Built* found = nullptr;
  bool fresh = false;
  KernelSource source;
  {
    const std::lock_guard lock(k.mutex);
    if (const auto at = k.forms.find(key); at != k.forms.end()) found = at->second;
  }
  if (found == nullptr) {
    source = group_source(g, form, made);
    const std::lock_guard lock(k.mutex);
    Built*& place = k.texts[std::to_string(g.index) + source.source.text];
    fresh = place == nullptr;
    if (fresh) place = new Built;
    if (k.forms.size() >= kMostKnown) k.forms.clear();
    k.forms[key] = found = place;
  }
  const bool wait = (g.flags & FACULA_WAIT) != 0;
  if (fresh && (wait || !in_background([found, index = g.index, source] { build(*found, index, source); }))) {
    build(*found, g.index, source);
  }
  if (wait) found->state.wait(Built::kWaiting, std::memory_order_acquire);  // another thread may be building it
  return found;
}

int32_t state_of(const Built& built) {
  switch (built.state.load(std::memory_order_acquire)) {
    case Built::kReady:
      return FACULA_OK;
    case Built::kFailed:
      return fail(FACULA_NOT_SUPPORTED, built.error);
    default:
      return FACULA_NOT_READY;
  }
}

}  // namespace

int32_t group(void*, const FaculaGroup* g) {
  std::shared_ptr<const GroupParts> made;
  FACULA_TRY(parts(*g, made));
  PointwiseOperands o;
  o.nouts = g->noutputs;
  o.nins = static_cast<int>(made->operands.size());
  const int64_t* strides[kMaxOperands];
  bool contiguous = true;
  for (int i = 0; i < o.count(); ++i) {
    const FaculaTensor& t =
        i < o.nouts ? g->tensors[g->ninputs + i] : g->tensors[made->operands[static_cast<size_t>(i - o.nouts)]];
    o.data[i] = static_cast<char*>(t.data);
    o.dtypes[i] = t.dtype;
    o.sizes[i] = itemsize(t.dtype);
    strides[i] = t.strides;
    contiguous &= (t.flags & FACULA_CONTIGUOUS) != 0;
  }
  const FaculaTensor& lead = g->tensors[g->ninputs];
  if (lead.numel == 0) return FACULA_OK;
  PointwisePlan plan;
  FACULA_TRY(plan_pointwise(o, lead, strides, contiguous, false, plan));
  const Device* device = nullptr;
  FACULA_TRY(enter(g->index, &device));
  Built* const built = find(*g, plan.form, *made);
  FACULA_TRY(state_of(*built));

  Params params;
  for (int i = 0; i < o.count(); ++i) params.put(o.data[i]);
  params.put(plan.count);
  for (int32_t s = 0; s < g->nsteps; ++s) {
    const FaculaStep& step = g->steps[s];
    put_numbers(params, *made->formulas[static_cast<size_t>(s)], step.values, step.nvalues, step.compute);
  }
  for (const GroupParts::Fill& fill : made->fills) {
    const FaculaTensor& t = g->tensors[fill.input];
    params.put_element(t.data, t.dtype, fill.want);
  }
  if (plan.form.kind != PointwiseForm::kLinear) put_dims(params, plan, o);
  void* arguments[] = {params.data()};
  return launch(*device, built->kernel, {static_cast<unsigned>(plan.blocks)}, {kPointwiseThreads}, 0, g->stream,
                arguments);
}

}  // namespace facula::cuda
