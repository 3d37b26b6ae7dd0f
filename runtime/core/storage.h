// The bytes behind tensors. All views of one storage share its version counter; those of `.data` count for themselves.
#pragma once

#include <atomic>

#include "runtime/core/allocator.h"
#include "runtime/core/intrusive.h"

namespace facula {

class StorageImpl;

// Who writes: a form of an operator, such as "add" and "_".
struct WriterName {
  const char* op = nullptr;
  const char* form = "";
};

namespace detail {

// The text that says so, with the line of Python where that is known; it lives as long as the process. Set by the
// bindings.
extern FACULA_API const char* (*name_writer)(WriterName writer);
// Whose writes those of this thread are, where an operator writes through another.
extern FACULA_API constinit thread_local WriterName tls_writer __attribute__((tls_model("initial-exec")));
// Called before a write to memory that somebody keeps unchanged: leaves copies there. Set by the autograd engine.
extern FACULA_API void (*leave_copies)(const StorageImpl& storage);

}  // namespace detail

class FACULA_API StorageImpl final : public RefCounted {
 public:
  using Deleter = void (*)(void* context);

  // Owned memory from the device's allocator. Meta storages have a size and no data.
  static intrusive_ptr<StorageImpl> allocate(size_t nbytes, Device device);
  // Foreign memory: `deleter(context)` runs once when the last reference goes.
  static intrusive_ptr<StorageImpl> wrap(void* data, size_t nbytes, Device device, Deleter deleter, void* context,
                                         bool read_only = false);
  // The memory of `of`, with a version of its own that begins at `version`.
  static intrusive_ptr<StorageImpl> share(const intrusive_ptr<StorageImpl>& of, uint32_t version);
  static void dispose(StorageImpl* s) noexcept;
  bool drop() const { return drop_unweak(); }

  void* data() const { return data_; }
  size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }
  bool read_only() const { return (guard_.load(std::memory_order_relaxed) & kReadOnly) != 0; }
  // Does check_writable() have something to do before a write?
  bool guarded() const { return guard_.load(std::memory_order_relaxed) != 0; }
  // Does somebody keep what is there unchanged, so that a write leaves copies first?
  bool kept() const { return (guard_.load(std::memory_order_relaxed) & kKept) != 0; }
  void set_kept(bool kept) {
    kept ? guard_.fetch_or(kKept, std::memory_order_relaxed)
         : guard_.fetch_and(static_cast<uint8_t>(~kKept), std::memory_order_relaxed);
  }
  bool resizable() const { return deleter_ == nullptr || deleter_ == &drop_root; }
  // What wrap() was given.
  Deleter deleter() const { return deleter_; }
  void* context() const { return context_; }
  // Whether somebody outside keeps the address, who does not hold the storage.
  bool lent() const { return owner()->lent_; }
  void lend() { const_cast<StorageImpl*>(owner())->lent_ = true; }
  // How many hold the memory: this storage and those that share it.
  uint32_t users() const {
    const StorageImpl* o = owner();
    return use_count() + (o == this ? 0 : o->use_count() - 1);
  }
  // Whose memory it is: this one's, or that of the one which it shares.
  const StorageImpl* owner() const { return deleter_ == &drop_root ? static_cast<const StorageImpl*>(context_) : this; }
  // Is it the same memory as that of `o`, whatever the versions?
  bool shares_with(const StorageImpl& o) const { return owner() == o.owner(); }
  // Grows or shrinks owned memory, keeping the common prefix; the pointer may change, which other
  // holders of the memory would not notice: with them it does not grow.
  void resize(size_t nbytes);

  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version(WriterName writer = {}) {
    version_.fetch_add(1, std::memory_order_relaxed);
    if ((writer_.load(std::memory_order_relaxed) & kWatched) != 0) [[unlikely]]
      note_writer(writer);
  }
  // The next write is to be known by writer().
  void watch() { writer_.store(writer_.load(std::memory_order_relaxed) | kWatched, std::memory_order_relaxed); }
  // The first write since the last watch() that one followed, as "add_ at file.py:12" or "add_"; null when not known.
  const char* writer() const {
    return reinterpret_cast<const char*>(writer_.load(std::memory_order_relaxed) & ~kWatched);
  }

 private:
  StorageImpl() = default;
  void note_writer(WriterName writer);
  static void drop_root(void* root);  // the deleter of a shared one, whose context is the owner of the memory
  std::atomic<uint32_t> version_{0};
  void* data_ = nullptr;
  size_t nbytes_ = 0;
  size_t capacity_ = 0;  // bytes of the separate block behind data_; 0: data follows the header
  uint32_t block_ = 0;   // bytes of the block that this header is in
  Device device_;
  static constexpr uint8_t kReadOnly = 1, kKept = 2;
  std::atomic<uint8_t> guard_{0};
  bool lent_ = false;
  Deleter deleter_ = nullptr;
  void* context_ = nullptr;
  static constexpr uintptr_t kWatched = uintptr_t{1} << 63;  // no address has it
  std::atomic<uintptr_t> writer_{0};
};
static_assert(sizeof(StorageImpl) <= 64, "small storages keep their data 64 bytes after the header");

using Storage = intrusive_ptr<StorageImpl>;

}  // namespace facula
