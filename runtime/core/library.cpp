#include "runtime/core/library.h"

#include <mutex>
#include <utility>

namespace facula {
namespace {

struct Folders {
  std::mutex mutex;
  std::vector<std::string> names;
};

Folders& folders() {
  static auto* const made = new Folders;  // lives as long as the process
  return *made;
}

}  // namespace

std::vector<std::string> package_folders() {
  std::lock_guard lock(folders().mutex);
  return folders().names;
}

void set_package_folders(std::vector<std::string> names) {
  std::lock_guard lock(folders().mutex);
  folders().names = std::move(names);
}

}  // namespace facula
