// What was built, what was found on this machine, and what tools and tests look at or change.
#include "runtime/bindings/types/casters.h"
#include "runtime/bindings/define.h"
#include "runtime/core/allocator.h"
#include "runtime/core/facts.h"
#include "runtime/dispatch/registry.h"
#include "runtime/iterate/isa.h"

namespace py = pybind11;
using namespace py::literals;

namespace facula::python {

namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif
constexpr const char* kLevels[kNumIsa] = {"baseline", "v3", "v4"};
#ifdef FACULA_X86_LEVELS
constexpr int kBuiltLevels = kNumIsa;
#else
constexpr int kBuiltLevels = 1;
#endif

// For facula.__config__.
py::dict build_info() {
  py::dict info("compiler"_a = kCompiler, "instruction_sets"_a = std::vector(kLevels, kLevels + kBuiltLevels),
                "active_instruction_set"_a = kLevels[kBuiltLevels > 1 ? static_cast<int>(active_isa()) : 0]);
  for (const Fact& fact : facts()) {
    const std::string found = fact.find();
    info[fact.name] = found.empty() ? py::object(py::none()) : py::str(found);
  }
  return info;
}

py::dict memory_stats() {
  const CpuMemoryStats s = cpu_memory_stats();
  return py::dict("live_bytes"_a = s.live_bytes, "peak_bytes"_a = s.peak_bytes, "cached_bytes"_a = s.cached_bytes,
                  "allocations"_a = s.allocations);
}

// (name, schema) of every operator: what tools and tests loop over.
py::tuple operators() {
  const auto all = all_operators();
  py::tuple found(all.size());
  for (size_t i = 0; i < all.size(); ++i) found[i] = py::make_tuple(all[i]->name, all[i]->schema);
  return found;
}

// Puts a kernel (an address, 0 for none) in the place of an operator's own and returns that. For tests of
// decompositions.
uintptr_t swap_cpu_kernel(const char* name, uintptr_t address) {
  OperatorEntry* entry = find_operator(name);
  FACULA_CHECK(entry != nullptr, Value, Operator{"_swap_cpu_kernel"}, "no operator '", name, "'");
  const auto before = reinterpret_cast<uintptr_t>(entry->kernels[kCPU]);
  entry->kernels[kCPU] = reinterpret_cast<AnyFn>(address);
  return before;
}

}  // namespace

void define_introspection(py::module_& m) {
  define(m, "_build_info", build_info);
  define(m, "_memory_stats", memory_stats);
  define(m, "_empty_cache", cpu_empty_cache);
  define(m, "_operators", operators);
  define(m, "_swap_cpu_kernel", swap_cpu_kernel);
  // Tensors from that size on let other threads of Python run; what it was. For tests.
  define(m, "_set_release_gil_numel", [](int64_t numel) { return std::exchange(release_gil_numel, numel); });
  define(m, "_speak_as_torch", [](bool torch) { spoken_name = torch ? "torch" : "facula"; });
}

}  // namespace facula::python
