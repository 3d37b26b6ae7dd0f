#include "runtime/device/interface.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "runtime/device/kernels.h"
#include "runtime/device/memory.h"
#include "runtime/dispatch/autocast.h"
#include "runtime/dispatch/late.h"

namespace facula {

namespace {

std::atomic<DeviceInterface*> g_interfaces[kMaxDeviceTypes];
std::mutex& registering() {
  static std::mutex* const m = new std::mutex;
  return *m;
}

thread_local std::string tls_error;
thread_local std::exception_ptr tls_exception;

int32_t host_fail(int32_t status, const char* text) {
  tls_error = text != nullptr ? text : "";
  return status;
}

DeviceInterface* interface_named(const char* name) {
  for (DeviceInterface* d : all_interfaces()) {
    if (name != nullptr && d->name == name) return d;
  }
  return nullptr;
}

int32_t host_allocate(const char* backend, int32_t index, size_t nbytes, void* stream, void** out) {
  DeviceInterface* const d = interface_named(backend);
  if (d == nullptr) return host_fail(FACULA_VALUE_ERROR, "allocate(): no such backend");
  try {
    const Device device{d->type, static_cast<int8_t>(index)};
    *out = d->memory->allocate(nbytes, device);
    d->memory->record_stream(*out, device, stream);
    return FACULA_OK;
  } catch (const Error& e) {
    return host_fail(e.kind() == ErrorKind::OutOfMemory ? FACULA_OUT_OF_MEMORY : FACULA_DEVICE_ERROR, e.what());
  }
}
int32_t host_deallocate(const char* backend, int32_t index, void* data, size_t nbytes, void*) {
  DeviceInterface* const d = interface_named(backend);
  if (d == nullptr) return host_fail(FACULA_VALUE_ERROR, "deallocate(): no such backend");
  d->memory->deallocate(data, nbytes, Device{d->type, static_cast<int8_t>(index)});
  return FACULA_OK;
}

ErrorKind kind_of(int32_t status) {
  switch (status) {
    case FACULA_OUT_OF_MEMORY:
      return ErrorKind::OutOfMemory;
    case FACULA_NOT_SUPPORTED:
      return ErrorKind::NotImplemented;
    case FACULA_VALUE_ERROR:
      return ErrorKind::Value;
    case FACULA_INDEX_ERROR:
      return ErrorKind::Index;
    case FACULA_ZERO_DIVISION:
      return ErrorKind::ZeroDivision;
    default:
      return ErrorKind::Runtime;
  }
}

void check_complete(const FaculaBackend& b) {
  const auto need = [&](bool have, const char* what) {
    FACULA_CHECK(have, Value, "backend '", b.name, "' gives no ", what, ", which facula/backend.h requires");
  };
  need(b.device_count != nullptr, "device_count");
  need(b.allocate != nullptr && b.deallocate != nullptr, "allocate and deallocate");
  need(b.copy != nullptr, "copy");
  need((b.pin == nullptr) == (b.unpin == nullptr), "pin and unpin, both or neither");
  need((b.reserve == nullptr) == (b.map == nullptr) && (b.map == nullptr) == (b.unmap == nullptr),
       "reserve, map and unmap, all or none");
  need((b.share_memory == nullptr) == (b.open_memory == nullptr) &&
           (b.open_memory == nullptr) == (b.close_memory == nullptr),
       "share_memory, open_memory and close_memory, all or none");
  need((b.create_shared_event == nullptr) == (b.open_event == nullptr) &&
           (b.open_event == nullptr || b.create_event != nullptr),
       "create_shared_event and open_event, both with the other functions of events, or neither");
  const bool streams[] = {b.create_stream != nullptr, b.synchronize_stream != nullptr, b.synchronize_device != nullptr,
                          b.create_event != nullptr,  b.destroy_event != nullptr,      b.record_event != nullptr,
                          b.wait_event != nullptr,    b.query_event != nullptr,        b.synchronize_event != nullptr};
  const auto given = std::count(std::begin(streams), std::end(streams), true);
  if (const FaculaCollectives* const c = b.collectives; c != nullptr) {
    need(c->name != nullptr && c->version != nullptr && c->reduces != nullptr && c->make_id != nullptr &&
             c->join != nullptr && c->run != nullptr && c->query != nullptr && c->leave != nullptr &&
             c->abort != nullptr,
         "whole table of collectives");
  }
  need(given == 0 || given == std::ssize(streams),
       "whole set of streams and events (create, synchronize, record, "
       "wait, query), all or none");
}

Device place(Device device, ScalarType dtype) {
  device = resolved(device);
  if (const DeviceInterface* d = interface_or_null(device.type); d != nullptr) {
    if (!d->supports(dtype)) [[unlikely]]
      throw MissingDtype(d->name, std::string(dtype_name(dtype)));
  }
  return device;
}
[[maybe_unused]] const bool placing = (place_on_device = place, true);

void install(DeviceInterface& d, OperatorEntry& op) {
  const bool reduces = op.reduction_dim != kNoReduction && d.api.reduction != nullptr;
  op.kernels[d.type] = reduces ? op.interface_kernel : op.device_kernel;
  set_autocast_policy(op, d.type, op.autocast_device);
}

void install(DeviceInterface& d) {
  d.memory = std::make_unique<DeviceMemory>(d);
  set_allocator(d.type, d.memory.get());
  d.kernels = std::vector<std::atomic<FaculaKernel>>(kMaxOperators);
  set_pointwise_kernel(d.type, &device_pointwise);
  for (OperatorEntry* op : all_operators()) install(d, *op);
}

// The dtype of autocast: the package's word, else the first that the device has of bfloat16 and float16.
ScalarType autocast_dtype_of(const DeviceInterface& d) {
  const ScalarType lower[] = {ScalarType::BFloat16, ScalarType::Float16};
  if (d.api.autocast_dtype == nullptr) return d.supports(lower[0]) || !d.supports(lower[1]) ? lower[0] : lower[1];
  for (const ScalarType t : lower) {
    if (std::string_view(d.api.autocast_dtype) != dtype_name(t)) continue;
    FACULA_CHECK(d.supports(t), Value, "backend '", d.name, "' gives the autocast dtype ", dtype_name(t),
                 " and has no tensors of it; add it to dtypes");
    return t;
  }
  raise(ErrorKind::Value, "backend '", d.name, "' gives the autocast dtype '", d.api.autocast_dtype,
        "'; it must be bfloat16 or float16");
}

// Every name of the lists must be an operator that can be cast, once.
std::vector<std::pair<OperatorEntry*, CastPolicy>> autocast_lists(const DeviceInterface& d) {
  std::vector<std::pair<OperatorEntry*, CastPolicy>> found;
  const auto add = [&](const char* const* names, const char* list, CastPolicy policy) {
    for (; names != nullptr && *names != nullptr; ++names) {
      OperatorEntry* const op = find_operator(*names);
      FACULA_CHECK(op != nullptr, Value, "backend '", d.name, "': ", list, " has '", *names, "', which is no operator");
      FACULA_CHECK(is_castable(*op), Value, "backend '", d.name, "': ", list, " has '", *names,
                   "', which autocast cannot cast: it is made of others (name those), or reads no floats");
      for (const auto& [other, before] : found) {
        FACULA_CHECK(other != op || before == policy, Value, "backend '", d.name, "' lists '", *names,
                     "' in autocast_lower and in autocast_float32; keep one");
      }
      found.emplace_back(op, policy);
    }
  };
  add(d.api.autocast_lower, "autocast_lower", CastPolicy::Lower);
  add(d.api.autocast_float32, "autocast_float32", CastPolicy::Float32);
  return found;
}

// After fork() a child has neither the parent's device nor its threads.
void forget_in_children() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] {
      for (std::atomic<DeviceInterface*>& slot : g_interfaces) {
        DeviceInterface* const d = slot.load(std::memory_order_relaxed);
        if (d != nullptr && d->used.load() && !d->has(FACULA_FORK_SAFE)) d->forked.store(true);
      }
    });
  });
}

}  // namespace

std::string take_device_error() { return std::exchange(tls_error, {}); }

int32_t keep_device_exception() noexcept {
  tls_exception = std::current_exception();
  return FACULA_DEVICE_ERROR;
}

void DeviceInterface::check(int32_t status, int index, const char* doing) const {
  if (status == FACULA_OK) [[likely]]
    return;
  if (tls_exception) std::rethrow_exception(std::exchange(tls_exception, nullptr));
  const std::string text = take_device_error();
  raise(kind_of(status), name, index < 0 ? "" : concat(":", index), ": ", doing, text.empty() ? "" : ": ", text);
}

void DeviceInterface::ignore(int32_t status) const noexcept {
  if (status == FACULA_OK) return;
  tls_exception = nullptr;
  tls_error.clear();
}

void DeviceInterface::start() {
  if (used.load(std::memory_order_relaxed) && !forked.load(std::memory_order_relaxed)) [[likely]]
    return;
  FACULA_CHECK(!forked.load(), Runtime, "device '", name,
               "' was used before this process was forked, and cannot be used in the child; start workers with the "
               "multiprocessing method 'spawn', or use the device in one of the processes only");
  std::call_once(initialized, [&] {
    if (api.initialize != nullptr) check(api.initialize(api.context), -1, "the device could not be started");
    used.store(true);
  });
}

void DeviceInterface::raise_fault() {
  if (!at_fault.load(std::memory_order_acquire)) [[likely]]
    return;
  std::lock_guard lock(counting);
  if (fault.empty()) return;  // taken back meanwhile
  raise(ErrorKind::Runtime, name, ": ", fault);
}

int DeviceInterface::count() {
  if (const int known = known_count.load(std::memory_order_relaxed); known >= 0) [[likely]]
    return known;
  start();
  int32_t n = 0;
  check(api.device_count(api.context, &n), -1, "counting the devices failed");
  FACULA_CHECK(n >= 0 && n <= kMostDevices, Value, "device '", name, "' says that there are ", n,
               " devices; it must be from 0 to ", kMostDevices);
  known_count.store(n, std::memory_order_relaxed);
  return n;
}

DeviceInterface* interface_or_null(DeviceType type) {
  return type < kMaxDeviceTypes ? g_interfaces[type].load(std::memory_order_acquire) : nullptr;
}

DeviceInterface& interface_of(DeviceType type) {
  DeviceInterface* const d = interface_or_null(type);
  FACULA_CHECK(d != nullptr, Runtime, "device '", device_type_name(type),
               "' has no streams, events or memory of its own");
  return *d;
}

DeviceInterface& started_interface(DeviceType type) {
  DeviceInterface& d = interface_of(type);
  d.start();
  return d;
}

std::vector<DeviceInterface*> all_interfaces() {
  std::vector<DeviceInterface*> found;
  for (std::atomic<DeviceInterface*>& slot : g_interfaces) {
    if (DeviceInterface* d = slot.load(std::memory_order_acquire); d != nullptr) found.push_back(d);
  }
  return found;
}

int32_t register_backend(const FaculaBackend* b) {
  try {
    FACULA_CHECK(b != nullptr, Value, Operator{"register_backend"}, "no structure given");
    const char* const name = b->name != nullptr ? b->name : "(without a name)";
    FACULA_CHECK(b->abi == FACULA_BACKEND_ABI, Runtime, "backend '", name, "' was built for version ", b->abi,
                 " of facula/backend.h, and this facula has version ", FACULA_BACKEND_ABI, "; ",
                 b->abi > FACULA_BACKEND_ABI ? "install a newer facula"
                                             : "install a newer release of its package, or "
                                               "build it again");
    constexpr size_t kFirst = offsetof(FaculaBackend, serialization_tag) + sizeof(const char*);
    FACULA_CHECK(b->size >= kFirst, Shape, "backend '", name, "' gives a structure of ", b->size, " bytes; version ",
                 FACULA_BACKEND_ABI, " of facula/backend.h has at least ", kFirst);
    auto interface = std::make_unique<DeviceInterface>();
    std::memcpy(&interface->api, b, std::min<size_t>(b->size, sizeof(FaculaBackend)));
    check_complete(interface->api);
    interface->name = name;
    interface->package = b->package != nullptr ? b->package : name;
    interface->tag = b->serialization_tag != nullptr ? b->serialization_tag : name;
    interface->fallback.store(interface->has(FACULA_CPU_FALLBACK));
    std::lock_guard lock(registering());
    FACULA_CHECK(interface->name != "cpu" && interface->name != "meta" && interface_named(name) == nullptr, Runtime,
                 "backend '", name, "' is registered already");
    for (size_t i = 0; i < b->nkernels; ++i) {
      const OperatorEntry* const op = find_operator(b->kernels[i].op);
      FACULA_CHECK(op != nullptr && op->interface_kernel != nullptr, Value, "backend '", name, "' gives a kernel for '",
                   b->kernels[i].op, "', which is ", op == nullptr ? "no operator" : "an operator without kernels");
    }
    const ScalarType lower = autocast_dtype_of(*interface);
    const auto cast = autocast_lists(*interface);
    interface->type = register_device_type(interface->name);  // from here on nothing may fail
    forget_in_children();
    install(*interface);
    set_default_autocast_dtype(interface->type, lower);
    for (const auto& [op, policy] : cast) set_autocast_policy(*op, interface->type, policy);
    for (size_t i = 0; i < b->nkernels; ++i) {
      OperatorEntry* const op = find_operator(b->kernels[i].op);
      interface->kernels[op->number].store(b->kernels[i].kernel);
      op->kernels[interface->type] = op->interface_kernel;
    }
    g_interfaces[interface->type].store(interface.get(), std::memory_order_release);
    interface.release();
    return FACULA_OK;
  } catch (const Error& e) {
    return host_fail(e.kind() == ErrorKind::Value ? FACULA_VALUE_ERROR : FACULA_DEVICE_ERROR, e.what());
  }
}

void register_checked(const FaculaBackend& backend) {
  if (const int32_t status = register_backend(&backend); status != FACULA_OK)
    raise(kind_of(status), take_device_error());
}

int32_t register_kernel(const char* backend, const char* name, FaculaKernel kernel) {
  DeviceInterface* const d = interface_named(backend);
  OperatorEntry* const op = name != nullptr ? find_operator(name) : nullptr;
  if (d == nullptr) return host_fail(FACULA_VALUE_ERROR, "register_kernel(): no such backend");
  if (op == nullptr || op->interface_kernel == nullptr) {
    return host_fail(FACULA_VALUE_ERROR, concat("register_kernel(): '", name != nullptr ? name : "", "' is ",
                                                op == nullptr ? "no operator" : "an operator without kernels")
                                             .c_str());
  }
  std::lock_guard lock(registering());
  d->kernels[op->number].store(kernel);
  op->kernels[d->type] = op->interface_kernel;
  return FACULA_OK;
}

void add_operator(OperatorEntry& op, const OperatorEntry* before) {
  std::lock_guard lock(registering());
  for (DeviceInterface* d : all_interfaces()) {
    install(*d, op);
    // what the package gave for the one before is kept, under the same number
    if (before != nullptr && d->kernels[op.number].load() != nullptr) op.kernels[d->type] = op.interface_kernel;
  }
}
[[maybe_unused]] const bool adding = (operator_added = add_operator, true);

const FaculaHost& device_host() {
  static const FaculaHost host{FACULA_BACKEND_ABI, sizeof(FaculaHost), FACULA_VERSION, &register_backend,
                               &register_kernel,   &host_fail,         &host_allocate, &host_deallocate};
  return host;
}

std::vector<std::string> load_backend_library(const std::string& path) {
  const size_t before = all_interfaces().size();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  FACULA_CHECK(library != nullptr, Runtime, Operator{"load_library"}, dlerror());
  const auto entry = reinterpret_cast<FaculaEntry>(dlsym(library, FACULA_ENTRY_NAME));
  FACULA_CHECK(entry != nullptr, Runtime, Operator{"load_library"}, path, " has no function ", FACULA_ENTRY_NAME);
  const int32_t status = entry(&device_host());
  if (status != FACULA_OK) {
    const std::string text = take_device_error();
    raise(kind_of(status), Operator{"load_library"}, text.empty() ? concat(path, " failed to register") : text);
  }
  std::vector<std::string> names;
  for (DeviceInterface* d : all_interfaces()) names.push_back(d->name);
  FACULA_CHECK(names.size() > before, Runtime, Operator{"load_library"}, path, " registered no backend");
  names.erase(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(before));
  return names;
}

}  // namespace facula
