#include "aten/cpu/conv/methods.h"

#include <cstdlib>
#include <string_view>

#include "runtime/core/error.h"

namespace facula::cpu::conv {

size_t Methods::named() {
  const size_t known = named_.load(std::memory_order_relaxed);
  if (known <= floats_.size()) return known;
  const char* const text = std::getenv(variable_);
  size_t found = floats_.size();
  if (text != nullptr && *text != '\0') {
    found = 0;
    while (found < floats_.size() && std::string_view(text) != floats_[found].name) ++found;
    if (found == floats_.size()) {
      std::string names;
      for (const Method& m : floats_) names += std::string(names.empty() ? "" : ", ") + m.name;
      raise(ErrorKind::Value, variable_, "='", text, "' names no method; use one of ", names, ", or leave it empty");
    }
  }
  named_.store(found, std::memory_order_relaxed);
  return found;
}

void Methods::run(const Call& call) {
  const std::span<const Method> all = call.image.dtype() == ScalarType::Float64 ? doubles_ : floats_;
  const auto took = [&](size_t i) {
    if (!all[i].run(call)) return false;
    calls_[i].fetch_add(1, std::memory_order_relaxed);
    return true;
  };
  const size_t first = named();
  if (first < all.size() && all[first].serves(call) && took(first)) return;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i != first && all[i].serves(call) && all[i].pays(call) && took(i)) return;
  }
  // The last pays everywhere, but may be the one that was named and served.
  FACULA_ASSERT(false);
}

std::string Methods::done() const {
  std::string text;
  for (size_t i = 0; i < floats_.size(); ++i) {
    text += std::string(i > 0 ? " " : "") + floats_[i].name + "=" + std::to_string(calls_[i].load());
  }
  return text;
}

}  // namespace facula::cpu::conv
