// What parts of the program found on this machine, for facula.__config__.
#pragma once

#include <span>
#include <string>

#include "runtime/core/error.h"

namespace facula {

struct Fact {
  const char* name;
  std::string (*find)();  // on each question; empty where there is nothing
};
// When the module is loaded, by those who find; `name` lives for ever.
FACULA_API void add_fact(const char* name, std::string (*find)());
FACULA_API std::span<const Fact> facts();

}  // namespace facula
