// NCCL, opened at run time: collectives between the GPUs of several processes.
#pragma once

#include "launch/host.h"

namespace facula::cuda {

extern const FaculaCollectives nccl;

}  // namespace facula::cuda
