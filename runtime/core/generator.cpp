#include "runtime/core/generator.h"

#include <map>

namespace facula {

constinit thread_local DrawnRows detail::tls_drawn_rows __attribute__((tls_model("initial-exec")));

// The seed of every default generator until manual_seed() is called: fixed, so that a program gives
// the same numbers each time it runs.
constexpr uint64_t kDefaultSeed = 67280421310721;

Generator& default_generator(Device device) {
  static constinit detail::YieldLock mutex;
  static auto* const generators = new std::map<std::pair<int, int>, Generator>;  // nodes never move
  std::lock_guard lock(mutex);
  const int index = device.index < 0 ? 0 : device.index;
  Generator& g = (*generators)[{device.type, index}];
  if (!g) {  // a device that comes later draws from the seed that was set for all
    const auto first = generators->find({kCPU, 0});
    g = make_intrusive<GeneratorImpl>(
        device, first != generators->end() && first->second ? first->second->initial_seed() : kDefaultSeed);
  }
  return g;
}

GeneratorImpl& generator_for(const Generator& given, Device device, const char* op) {
  if (!given) return *default_generator(device);
  const Device of = given->device();
  const bool fits = of.type == device.type && (of.index < 0 || device.index < 0 || of.index == device.index);
  FACULA_CHECK(fits, Runtime, Operator{op}, "the generator is of device ", to_string(of), ", the tensor is on ",
               to_string(device), "; make one with facula.Generator(device)");
  return *given;
}

}  // namespace facula
