#include "runtime/dispatch/registry.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "runtime/dispatch/late.h"
#include "runtime/iterate/pointwise.h"

namespace facula {

namespace {

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<std::string_view, OperatorEntry*> by_name;
  std::vector<OperatorEntry*> in_order;
  Registry() {
    by_name.reserve(2048);
    in_order.reserve(kMaxOperators);  // so that spans handed out stay valid
  }
};

Registry& registry() {
  static Registry* const r = new Registry;  // used by static initialisers and until the very end
  return *r;
}

std::span<const ShapeRuleEntry> shape_rules;  // set once, when the module is loaded

// The one whose place it took, null where there was none.
OperatorEntry* add(OperatorEntry* entry, bool again) {
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  const auto [at, fresh] = r.by_name.emplace(entry->name, entry);
  if (!fresh) {
    OperatorEntry* const before = at->second;
    if (before == entry) return before;
    FACULA_CHECK(again, Runtime, "operator ", entry->name, " is registered twice");
    entry->number = before->number;
    r.in_order[before->number] = entry;
    r.by_name.erase(at);  // the key lies in the old entry, which stays for those who hold it
    r.by_name.emplace(entry->name, entry);
    return before;
  }
  if (r.in_order.size() == kMaxOperators) {
    r.by_name.erase(at);
    raise(ErrorKind::Runtime, "operator ", entry->name, ": there are ", kMaxOperators, " already, with extensions'");
  }
  entry->number = static_cast<uint32_t>(r.in_order.size());
  r.in_order.push_back(entry);
  return nullptr;
}

}  // namespace

void (*operator_added)(OperatorEntry& op, const OperatorEntry* before) = nullptr;

void register_operator(OperatorEntry* entry, bool again) {
  const OperatorEntry* const before = add(entry, again);
  if (again && before != entry && operator_added != nullptr) operator_added(*entry, before);
}

OperatorEntry* find_operator(std::string_view name) {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  const auto at = r.by_name.find(name);
  return at == r.by_name.end() ? nullptr : at->second;
}

std::span<OperatorEntry* const> all_operators() {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  return r.in_order;
}

AnyFn operator_form(std::string_view name, std::string_view signature, Variant variant) {
  const OperatorEntry* op = find_operator(name);
  FACULA_CHECK(op != nullptr && op->schema == signature, Runtime, "this facula ",
               op == nullptr ? concat("has no operator ", name) : concat("declares ", op->schema),
               "; the extension was built for ", signature, " and must be built again");
  const AnyFn form = op->forms[static_cast<int>(variant)];
  FACULA_CHECK(form != nullptr, Runtime, "operator ", name,
               " has lost a form that the extension was built for; build it again");
  return form;
}

void set_shape_rules(std::span<const ShapeRuleEntry> rules) { shape_rules = rules; }

AnyFn shape_rule(std::string_view signature) {
  for (const ShapeRuleEntry& rule : shape_rules) {
    if (rule.signature == signature) return rule.function;
  }
  raise(ErrorKind::Runtime, "this facula has no shape rule ", signature,
        ", for which the extension was built; build it again");
}

void raise_missing_kernel(const OperatorEntry& op, Device device, const std::string& refusal) {
  FACULA_CHECK(device.type != kMeta, Values, Operator{op.name},
               "the result depends on the values of the inputs, and tensors on the meta device have none; use tensors "
               "with data");
  std::string have;
  for (int type = 0; type < kMaxDeviceTypes; ++type) {
    if (type == device.type || !device_operators.has_own_kernel(op, static_cast<DeviceType>(type))) continue;
    if (!have.empty()) have += ", ";
    have += device_type_name(static_cast<DeviceType>(type));
  }
  const std::string name(device_type_name(device.type));
  const std::string what = refusal.empty() ? concat("has no kernel for device '", name, "' (it has ",
                                                    have.empty() ? "none at all" : "kernels for " + have,
                                                    ") and no decomposition. Write a kernel for ", op.name,
                                                    " in the package of '", name, "'")
                                           : concat(refusal, "; there is no other way to compute it on device '", name,
                                                    "'. Let it take these arguments, in the package of '", name, "'");
  throw MissingKernel(concat(what, ", let that device fall back to the CPU with facula.backends.allow_fallback('", name,
                             "'), or move the inputs with .to('cpu'). Signature: ", op.schema),
                      op.name, op.name, name, refusal);
}

namespace {
void raise_missing(const OperatorEntry& op, Device device) { raise_missing_kernel(op, device); }
[[maybe_unused]] const bool raising = (pointwise_missing = raise_missing, true);
}  // namespace

}  // namespace facula
