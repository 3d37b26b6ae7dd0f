// Who allocates on which device type.
#include "runtime/core/allocator.h"

#include <array>
#include <atomic>
#include <cstring>

namespace facula {

namespace {

class CpuAllocator final : public Allocator {
 public:
  void* allocate(size_t nbytes, Device) override { return cpu_allocate(nbytes); }
  void deallocate(void* data, size_t nbytes, Device) noexcept override { cpu_deallocate(data, nbytes); }
};

// Meta tensors have sizes and no bytes.
class MetaAllocator final : public Allocator {
 public:
  void* allocate(size_t, Device) override { return nullptr; }
  void deallocate(void*, size_t, Device) noexcept override {}
};

std::array<std::atomic<Allocator*>, kMaxDeviceTypes>& table() {
  static auto* const t = [] {
    auto* made = new std::array<std::atomic<Allocator*>, kMaxDeviceTypes>{};
    (*made)[kCPU] = new CpuAllocator;
    (*made)[kMeta] = new MetaAllocator;
    return made;
  }();
  return *t;
}

}  // namespace

void Allocator::copy(void* dst, const void* src, size_t nbytes, Device) { std::memcpy(dst, src, nbytes); }

Allocator& allocator_of(DeviceType type) {
  Allocator* a = type < kMaxDeviceTypes ? table()[type].load(std::memory_order_acquire) : nullptr;
  FACULA_CHECK(a != nullptr, Runtime, "device '", device_type_name(type),
               "' has no allocator; its package must set one before tensors are made there");
  return *a;
}

void set_allocator(DeviceType type, Allocator* allocator) {
  FACULA_CHECK(type < kMaxDeviceTypes && type != kCPU && type != kMeta, Value, Operator{"set_allocator"},
               "the allocator of this device type cannot be replaced");
  table()[type].store(allocator, std::memory_order_release);
}

}  // namespace facula
