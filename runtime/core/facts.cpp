#include "runtime/core/facts.h"

#include <vector>

namespace facula {

namespace {

std::vector<Fact>& all() {
  static auto* const list = new std::vector<Fact>;  // used by static initialisers
  return *list;
}

}  // namespace

void add_fact(const char* name, std::string (*find)()) { all().push_back({name, find}); }
std::span<const Fact> facts() { return all(); }

}  // namespace facula
