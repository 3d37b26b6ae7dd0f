#include "ops/group_kernels.h"

#include <mutex>
#include <unordered_map>

#include "launch/background.h"

namespace facula::cuda {

namespace {

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
std::string key_of(const FaculaGroup& g, std::span<const int> form) {
  std::string key;
  for (const uint64_t word : {g.id, static_cast<uint64_t>(g.index)}) append(key, word);
  for (const int n : form) append(key, n);
  return key;
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

}  // namespace

int32_t parts_of_group(const FaculaGroup& g, std::shared_ptr<const GroupParts>& out) {
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

Built* find_group(const FaculaGroup& g, std::span<const int> form, const std::function<KernelSource()>& make) {
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
    source = make();
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

}  // namespace facula::cuda
