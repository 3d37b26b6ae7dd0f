#include "runtime/dispatch/roles.h"

#include "runtime/dispatch/indexing.h"
#include "runtime/dispatch/registry.h"

namespace facula {

EngineRoles& engine_roles() {
  static EngineRoles roles;
  return roles;
}

constinit DoorRoles door_roles;
constinit indexing::Roles indexing::roles;

}  // namespace facula
