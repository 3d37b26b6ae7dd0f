#include "runtime/core/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <mutex>

namespace facula {

bool (*device_loader)(std::string_view name) = nullptr;

namespace {

constexpr size_t kMaxNameLength = 64;
constexpr std::string_view kPythonWords[] = {
    "and",      "as",     "assert",  "async", "await", "break",  "class", "continue", "def",  "del",  "elif",
    "else",     "except", "finally", "for",   "from",  "global", "if",    "import",   "in",   "is",   "lambda",
    "nonlocal", "not",    "or",      "pass",  "raise", "return", "try",   "while",    "with", "yield"};

// Names are written once, before `count` makes them visible, and never change.
struct DeviceNames {
  std::array<std::string, kMaxDeviceTypes> names;
  std::atomic<int> count{2};
  std::mutex mutex;
  DeviceNames() {
    names[kCPU] = "cpu";
    names[kMeta] = "meta";
  }
};

DeviceNames& registry() {
  static DeviceNames* const r = new DeviceNames;  // lives past static destructors
  return *r;
}

std::string known_names() {
  std::string list;
  const DeviceNames& r = registry();
  for (int i = 0; i < r.count.load(std::memory_order_acquire); ++i) {
    if (i > 0) list += ", ";
    list += r.names[static_cast<size_t>(i)];
  }
  return list;
}

int find_type(std::string_view name) {
  const DeviceNames& r = registry();
  const int n = r.count.load(std::memory_order_acquire);
  for (int i = 0; i < n; ++i) {
    if (r.names[static_cast<size_t>(i)] == name) return i;
  }
  return -1;
}

}  // namespace

DeviceType register_device_type(std::string_view name) {
  const bool valid = !name.empty() && name.front() >= 'a' && name.front() <= 'z' &&
                     name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
  FACULA_CHECK(valid && name.size() <= kMaxNameLength, Value, Operator{"register_device_type"}, "'",
               name.substr(0, kMaxNameLength), name.size() > kMaxNameLength ? "...'" : "'",
               " is not a device name; use at most ", kMaxNameLength,
               " lower-case letters, digits and '_', a letter first");
  FACULA_CHECK(std::ranges::find(kPythonWords, name) == std::end(kPythonWords), Value, Operator{"register_device_type"},
               "'", name, "' is not a device name, as it is a word of Python's: facula.", name,
               " could not be written");
  DeviceNames& r = registry();
  std::lock_guard lock(r.mutex);
  const int n = r.count.load(std::memory_order_relaxed);
  for (int i = 0; i < n; ++i) {
    if (r.names[static_cast<size_t>(i)] == name) return static_cast<DeviceType>(i);
  }
  FACULA_CHECK(n < kMaxDeviceTypes, Runtime, Operator{"register_device_type"}, "no id left for '", name, "'; the ",
               kMaxDeviceTypes, " device types are ", known_names());
  r.names[static_cast<size_t>(n)] = name;
  r.count.store(n + 1, std::memory_order_release);
  return static_cast<DeviceType>(n);
}

std::string_view device_type_name(DeviceType type) {
  const DeviceNames& r = registry();
  FACULA_CHECK(type < r.count.load(std::memory_order_acquire), Value, "device type ", int{type},
               " is not registered; known: ", known_names());
  return r.names[type];
}

Device parse_device(std::string_view text) {
  FACULA_CHECK(text.find('\0') == std::string_view::npos, Runtime, "'", text.substr(0, text.find('\0')),
               "\\0...' is not a device: the text has a null character in it");
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  Device device;
  int type = find_type(name);
  if (type < 0 && device_loader != nullptr && device_loader(name)) type = find_type(name);
  FACULA_CHECK(type >= 0, Runtime, "'", text, "' is not a device; known device types: ", known_names(),
               "; facula.backends.entry_points() has those that installed packages offer");
  device.type = static_cast<DeviceType>(type);
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    int index = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    FACULA_CHECK(error == std::errc() && end == digits.data() + digits.size() && index >= 0 && index <= 127 &&
                     digits.front() != '-',
                 Runtime, "'", text, "': the device index must be a number from 0 to 127, as in '", name, ":0'");
    device.index = static_cast<int8_t>(index);
  }
  return device;
}

std::string to_string(Device device) {
  std::string text(device_type_name(device.type));
  if (device.index >= 0) text += ":" + std::to_string(int{device.index});
  return text;
}

}  // namespace facula
