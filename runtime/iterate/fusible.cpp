#include "runtime/iterate/fusible.h"

#include <utility>
#include <vector>

namespace facula {

namespace {
std::vector<std::pair<KernelFn, Fusible>>& all() {
  static auto* const kernels = new std::vector<std::pair<KernelFn, Fusible>>;
  return *kernels;
}
}  // namespace

Fusible fusible_kernel(KernelFn kernel) {
  for (const auto& [known, as] : all()) {  // a dozen or two
    if (known == kernel) return as;
  }
  return Fusible::No;
}

bool add_fusible_kernels(Fusible as, std::initializer_list<KernelFn> kernels) {
  for (const KernelFn k : kernels) all().emplace_back(k, as);
  return true;
}

}  // namespace facula
