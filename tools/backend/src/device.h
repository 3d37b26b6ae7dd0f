// The device itself: what a driver does. Kernels reach it through this header alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "facula/backend.h"

namespace @NAME@ {

extern const FaculaHost* host;  // what facula gave at registration

// Runs `work` in the order of the stream. Its status is that of the call when it ran at once, and else
// that of the next synchronisation.
int32_t enqueue(int32_t index, void* stream, std::function<int32_t()> work);

// Notes the text of an error and returns the status.
int32_t fail(int32_t status, const char* text);
// Device memory as kernels see it.
char* address(void* data);

// Fills in memory, copies, streams and events.
void describe(FaculaBackend& backend);

}  // namespace @NAME@
