// Shared libraries of NVIDIA, opened at run time.
#pragma once

#include <string>
#include <vector>

namespace facula::cuda {

// Folders to look into first, as the Python side finds them: nvidia/*/lib beside this package.
void set_library_folders(const std::string& folders);  // with ':' between them

// Opens the first of the names that is found: in the folders, in CUDA_HOME, CUDA_PATH and
// /usr/local/cuda, and where the system looks. Null when there is none; `why` says what was tried.
void* open_library(const std::vector<std::string>& names, const char* package, std::string& why);

}  // namespace facula::cuda
