// Where the shared libraries of installed Python packages are found.
#pragma once

#include <string>
#include <vector>

#include "runtime/core/error.h"

namespace facula {

// The folders that Python imports from, as they were when facula was imported.
FACULA_API std::vector<std::string> package_folders();
FACULA_API void set_package_folders(std::vector<std::string> folders);

}  // namespace facula
