// A device in host memory whose calls are done when they return. Put your driver here.
#include "device.h"

#include <cstdlib>
#include <cstring>

namespace @NAME@ {

const FaculaHost* host = nullptr;

int32_t enqueue(int32_t, void*, std::function<int32_t()> work) { return work(); }

int32_t fail(int32_t status, const char* text) { return host->fail(status, text); }
char* address(void* data) { return static_cast<char*>(data); }

namespace {

int32_t device_count(void*, int32_t* count) {
  *count = 1;
  return FACULA_OK;
}
int32_t properties(void*, int32_t, FaculaProperties* out) {
  std::strcpy(out->name, "@NAME@");
  return FACULA_OK;
}
int32_t allocate(void*, int32_t, size_t nbytes, void*, void** out) {
  *out = std::aligned_alloc(64, (nbytes + 63) / 64 * 64);
  return *out != nullptr ? FACULA_OK : FACULA_OUT_OF_MEMORY;
}
int32_t deallocate(void*, int32_t, void* data, size_t, void*) {
  std::free(data);
  return FACULA_OK;
}
int32_t copy(void*, const FaculaCopy* c) {
  std::memcpy(c->dst, c->src, c->nbytes);
  return FACULA_OK;
}

}  // namespace

void describe(FaculaBackend& b) {
  b.flags = FACULA_CACHING | FACULA_CPU_FALLBACK | FACULA_FORK_SAFE | FACULA_DETERMINISTIC | FACULA_HOST_MEMORY;
  b.device_count = device_count;
  b.properties = properties;
  b.allocate = allocate;
  b.deallocate = deallocate;
  b.copy = copy;
}

}  // namespace @NAME@
