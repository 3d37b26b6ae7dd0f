// Compiled kernels on disk: files named by the hash of all that made them. Any number of processes may
// share the folder: files appear whole, by renaming, and are checked when they are read.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace facula::cuda {

// 128 bits of everything added.
class Hash {
 public:
  void add(std::string_view text);
  std::string text() const;  // in hexadecimal

 private:
  void add_bytes(std::string_view bytes);
  uint64_t a_ = 0xcbf29ce484222325u, b_ = 0x9e3779b97f4a7c15u;
};

class DiskCache {
 public:
  // FACULA_CACHE, or facula in XDG_CACHE_HOME or ~/.cache; FACULA_CACHE_SIZE bounds it, in MiB.
  DiskCache();
  DiskCache(std::string folder, uint64_t limit) : folder_(std::move(folder)), limit_(limit) {}
  bool read(const std::string& name, std::string& code) const;
  void write(const std::string& name, const std::string& code);
  // Removes the files used longest ago until four fifths of the bound are left.
  void shrink();
  const std::string& folder() const { return folder_; }

 private:
  std::string path(const std::string& name) const { return folder_ + "/" + name + ".bin"; }
  std::string folder_;  // empty: nothing is kept
  uint64_t limit_ = 0;
  std::mutex mutex_;
  int64_t written_ = -1;  // bytes since the last look at the folder
};

DiskCache& disk_cache();

}  // namespace facula::cuda
