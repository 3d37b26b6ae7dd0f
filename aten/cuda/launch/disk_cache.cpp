#include "launch/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace facula::cuda {

namespace fs = std::filesystem;

namespace {

struct Header {
  char magic[8];
  uint64_t size;
  char hash[32];  // of the code
};
constexpr char kMagic[8] = {'f', 'a', 'c', 'u', 'l', 'a', '0', '1'};

std::string default_folder() {
  const auto variable = [](const char* name) {
    const char* const text = std::getenv(name);
    return std::string(text != nullptr ? text : "");
  };
  if (const std::string set = variable("FACULA_CACHE"); !set.empty()) return set + "/cuda";
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/facula/cuda";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/facula/cuda";
  return {};
}

Header header_of(const std::string& code) {
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof(kMagic));
  h.size = code.size();
  Hash hash;
  hash.add(code);
  std::memcpy(h.hash, hash.text().data(), sizeof(h.hash));
  return h;
}

}  // namespace

void Hash::add(std::string_view text) {
  const uint64_t size = text.size();
  add_bytes({reinterpret_cast<const char*>(&size), sizeof(size)});
  add_bytes(text);
}

void Hash::add_bytes(std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    a_ = (a_ ^ byte) * 0x100000001b3u;
    b_ = (b_ ^ (byte + 0x9du + (b_ << 6) + (b_ >> 2))) * 0xff51afd7ed558ccdu;
    b_ ^= b_ >> 29;
  }
}

std::string Hash::text() const {
  std::string out;
  for (const uint64_t word : {a_ ^ (b_ >> 31), b_ ^ (a_ << 17)}) {
    for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[word >> shift & 15];
  }
  return out;
}

DiskCache::DiskCache() : folder_(default_folder()) {
  const char* const text = std::getenv("FACULA_CACHE_SIZE");
  const long long mib = text != nullptr ? std::atoll(text) : 512;
  limit_ = static_cast<uint64_t>(std::max(0LL, mib)) << 20;
  if (limit_ == 0) folder_.clear();
}

bool DiskCache::read(const std::string& name, std::string& code) const {
  if (folder_.empty()) return false;
  std::ifstream file(path(name), std::ios::binary);
  Header found{};
  if (!file.read(reinterpret_cast<char*>(&found), sizeof(found))) return false;
  if (std::memcmp(found.magic, kMagic, sizeof(kMagic)) != 0 || found.size > (uint64_t{1} << 30)) return false;
  std::string bytes(found.size, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) return false;
  const Header right = header_of(bytes);
  if (std::memcmp(&right, &found, sizeof(found)) != 0) return false;
  utimensat(AT_FDCWD, path(name).c_str(), nullptr, 0);  // used now: it goes last
  code = std::move(bytes);
  return true;
}

void DiskCache::write(const std::string& name, const std::string& code) {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  static std::atomic<int> counter{0};
  const std::string part = folder_ + "/." + name + "." + std::to_string(getpid()) + "." + std::to_string(counter++);
  {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    const Header h = header_of(code);
    file.write(reinterpret_cast<const char*>(&h), sizeof(h));
    file.write(code.data(), static_cast<std::streamsize>(code.size()));
    file.close();
    if (!file) {  // a full or read-only disk: the kernel is compiled again next time
      fs::remove(part, error);
      return;
    }
  }
  fs::rename(part, path(name), error);
  if (error) fs::remove(part, error);
  bool look = false;
  {
    std::lock_guard lock(mutex_);
    look = written_ < 0;
    written_ = (look ? 0 : written_) + static_cast<int64_t>(code.size());
    look |= written_ > static_cast<int64_t>(limit_ / 16);
    if (look) written_ = 0;
  }
  if (look) shrink();
}

void DiskCache::shrink() {
  struct File {
    fs::file_time_type time;
    uint64_t size;
    fs::path path;
  };
  std::vector<File> files;
  uint64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const uint64_t size = at->file_size(ignored);
    const auto time = at->last_write_time(ignored);
    if (ignored) continue;
    const std::string name = at->path().filename().string();
    // what a process left that was ended while writing
    if (name[0] == '.' && now - time > std::chrono::hours(1)) fs::remove(at->path(), ignored);
    if (name[0] == '.' || at->path().extension() != ".bin") continue;
    files.push_back({time, size, at->path()});
    total += size;
  }
  if (total <= limit_) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.time < b.time; });
  for (const File& f : files) {
    if (total <= limit_ / 5 * 4) break;
    if (fs::remove(f.path, error)) total -= std::min(total, f.size);
  }
}

DiskCache& disk_cache() {
  static DiskCache* const c = new DiskCache;
  return *c;
}

}  // namespace facula::cuda
