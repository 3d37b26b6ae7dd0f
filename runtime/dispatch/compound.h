// Calls with compounds (core/compound.h), which are for the class that computes with them.
#pragma once

#include "runtime/core/compound.h"
#include "runtime/dispatch/thunk.h"

namespace facula {

// Set by the bindings.
extern void (*call_compound)(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, Stack& results);

}  // namespace facula
