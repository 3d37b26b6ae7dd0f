// Stands in for runtime/autograd in programs that link the core alone.
#include "runtime/core/tensor.h"

void facula::AutogradMetaDeleter::operator()(AutogradMeta*) const noexcept {}
