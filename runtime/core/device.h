// A device is a small type id (cpu, meta, or one given at registration) and an index.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/core/error.h"

namespace facula {

using DeviceType = uint8_t;
inline constexpr DeviceType kCPU = 0;
inline constexpr DeviceType kMeta = 1;
inline constexpr int kMaxDeviceTypes = 32;

struct Device {
  DeviceType type = kCPU;
  int8_t index = -1;  // -1: the current device of that type
  bool operator==(const Device&) const = default;
};

// Names of device types; vendors get the next free id. Raises when all ids are taken.
FACULA_API DeviceType register_device_type(std::string_view name);
FACULA_API std::string_view device_type_name(DeviceType type);
// Parses "cpu", "acme:1"; raises with the list of known names.
FACULA_API Device parse_device(std::string_view text);
FACULA_API std::string to_string(Device device);
// Asked for a name that no package has registered yet; true when it is known now. Set by the bindings.
extern FACULA_API bool (*device_loader)(std::string_view name);

}  // namespace facula
