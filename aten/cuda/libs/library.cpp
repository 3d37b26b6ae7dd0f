#include "libs/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

namespace facula::cuda {

namespace {

std::mutex& guard() {
  static std::mutex* const m = new std::mutex;
  return *m;
}
std::vector<std::string>& folders() {
  static auto* const f = new std::vector<std::string>;
  return *f;
}

}  // namespace

void set_library_folders(const std::string& text) {
  std::lock_guard lock(guard());
  folders().clear();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(':', at), text.size());
    if (end > at) folders().push_back(text.substr(at, end - at));
    at = end + 1;
  }
}

void* open_library(const std::vector<std::string>& names, const char* package, std::string& why) {
  std::vector<std::string> places;
  {
    std::lock_guard lock(guard());
    places = folders();
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* root = std::getenv(variable); root != nullptr && *root != '\0') {
      places.push_back(std::string(root) + "/lib64");
    }
  }
  places.push_back("");
  places.push_back("/usr/local/cuda/lib64");
  for (const std::string& name : names) {
    for (const std::string& place : places) {
      const std::string path = place.empty() ? name : place + "/" + name;
      if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
    }
  }
  why = names.front() + " was not found; `pip install " + package + "` brings it";
  return nullptr;
}

}  // namespace facula::cuda
