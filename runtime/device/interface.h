// The device interface, facula's side of facula/backend.h: one DeviceInterface for each registered device type.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "facula/backend.h"
#include "runtime/dispatch/registry.h"

namespace facula {

class DeviceMemory;

inline constexpr int kMostDevices = 128;  // of a type

struct DeviceInterface {
  FaculaBackend api{};
  std::string name, package, tag;
  DeviceType type = kMeta;
  std::unique_ptr<DeviceMemory> memory;
  std::vector<std::atomic<FaculaKernel>> kernels;  // by OperatorEntry::number
  std::atomic<bool> profiling{false}, used{false}, forked{false}, fallback{false};
  std::atomic<int> known_count{-1};
  std::once_flag initialized;
  std::mutex counting;
  std::unordered_map<std::string, int64_t> fallbacks;  // calls by operator
  struct Refusal {
    int64_t calls = 0;
    std::string reason;  // the first that was given
  };
  std::unordered_map<std::string, Refusal> refusals;  // of the package's kernels and templates, by operator
  std::atomic<bool> at_fault{false};
  std::string fault;  // under `counting`: why what the devices compute is not to be trusted

  bool has(uint64_t flag) const { return (api.flags & flag) != 0; }
  bool has_streams() const { return api.create_event != nullptr; }
  bool supports(ScalarType t) const { return (api.dtypes >> static_cast<int>(t) & 1u) != 0; }
  int count();  // asked once
  // Raises for a status that is not FACULA_OK; `doing` ends the sentence "acme:0: ...".
  void check(int32_t status, int index, const char* doing) const;
  // For what may fail unseen: its exception and text are not those of the next failure.
  void ignore(int32_t status) const noexcept;
  void start();        // before the first use in this process
  void raise_fault();  // whoever waits for the device hears of it
};

// Null for the CPU, meta and names without a package. The DeviceInterface lives for ever.
FACULA_API DeviceInterface* interface_or_null(DeviceType type);
FACULA_API DeviceInterface& interface_of(DeviceType type);  // raises
// For calls of the vendor's functions: raises in a child process that the device has not followed.
FACULA_API DeviceInterface& started_interface(DeviceType type);
FACULA_API std::vector<DeviceInterface*> all_interfaces();

// Checks versions and required functions; the status is FACULA_OK or the text is in device_error().
int32_t register_backend(const FaculaBackend* backend);
// The same, with an exception.
FACULA_API void register_checked(const FaculaBackend& backend);
int32_t register_kernel(const char* backend, const char* op, FaculaKernel kernel);
FACULA_API const FaculaHost& device_host();
// The text that the last failed call of this thread left, taken away.
std::string take_device_error();
// Keeps an exception of a backend written in Python across the C calls.
FACULA_API int32_t keep_device_exception() noexcept;

// Loads the library at `path` and lets it register; returns the names of the new device types.
FACULA_API std::vector<std::string> load_backend_library(const std::string& path);

// ---- the current device and stream of this thread ----
FACULA_API int current_index(DeviceType type);
FACULA_API void set_current_index(DeviceType type, int index);
FACULA_API void* current_stream(Device device);
FACULA_API void set_current_stream(Device device, void* stream);
// The device with its index filled in; raises when there is no such device.
FACULA_API Device resolved(Device device);
// Streams live as long as the process; a few for each device and priority are handed out in turn.
FACULA_API void* pooled_stream(Device device, int priority);
FACULA_API void* make_stream(Device device, int priority);  // one more
FACULA_API void synchronize(Device device);
FACULA_API void synchronize_stream(Device device, void* stream);

// Events, from a pool of each device where they need no time.
class DeviceEvent {
 public:
  explicit DeviceEvent(Device device, bool timing = false);
  ~DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;
  void record(void* stream);
  void wait(Device device, void* stream) const;  // the stream goes on after the event
  bool done() const;
  void synchronize() const;
  double elapsed_to(const DeviceEvent& end) const;
  Device device() const { return device_; }

 private:
  void refuse_captured() const;
  Device device_;
  void* event_ = nullptr;
  bool timing_ = false;
  bool captured_ = false;  // recorded last in a graph
};

// ---- copies and kernels ----
// Bytes between two places of which at least one is a device with an interface. Host memory may be let go
// when it returns, unless `non_blocking` and the memory is pinned.
void transfer(void* dst, Device to, const void* src, Device from, size_t nbytes, bool non_blocking = false);
// The kernels that every device has from its memory functions and the pointwise template.
FACULA_API void device_copy(const Tensor& self, const Tensor& src, bool non_blocking);
FACULA_API void device_fill(const Tensor& out, const Scalar& value);
FACULA_API Scalar device_scalar(const Tensor& self);
// A CPU tensor with the same geometry and values, and the way back.
FACULA_API Tensor host_mirror(const Tensor& t);
FACULA_API void write_mirror(const Tensor& t, const Tensor& host);

// Before the CPU does the operator's work; raises where that cannot be. `refusal`: of the device's own kernel.
void count_fallback(DeviceInterface& interface, const char* op, Device device, const std::string& refusal = {});

}  // namespace facula
