#include "runtime/dispatch/core_operators.h"

#include "runtime/dispatch/indexing.h"
#include "runtime/dispatch/registry.h"

namespace facula {

CoreOperators& core_operators() {
  static CoreOperators core;
  return core;
}

constinit DeviceOperators device_operators;
constinit indexing::Operators indexing::operators;

}  // namespace facula
