#include "runtime/core/storage.h"

#include <limits>
#include <new>
#include <utility>

#include "runtime/core/memory_internal.h"
#include "runtime/core/pool.h"
#include "runtime/core/shown.h"

namespace facula {

namespace {

constexpr size_t kHeader = 64;  // data of a small storage starts here
constexpr size_t kInlineLimit = kPoolLimit - kHeader;

}  // namespace

namespace detail {

const char* (*name_writer)(WriterName) = nullptr;
constinit thread_local WriterName tls_writer __attribute__((tls_model("initial-exec")));
void (*leave_copies)(const StorageImpl& storage) = nullptr;

}  // namespace detail

void StorageImpl::note_writer(WriterName writer) {
  if (detail::tls_writer.op != nullptr) writer = detail::tls_writer;
  const char* const text =
      writer.op != nullptr && detail::name_writer != nullptr ? detail::name_writer(writer) : writer.op;
  writer_.store(reinterpret_cast<uintptr_t>(text), std::memory_order_relaxed);
}

intrusive_ptr<StorageImpl> StorageImpl::allocate(size_t nbytes, Device device) {
  const bool follow = device.type == kCPU && nbytes < kInlineLimit;
  const size_t block = follow ? kHeader + nbytes : kHeader;
  void* place = detail::allocate_small(block);
  StorageImpl* s = new (place) StorageImpl;
  s->block_ = static_cast<uint32_t>(block);
  s->nbytes_ = nbytes;
  s->device_ = device;
  if (follow) {
    if (nbytes > 0) {
      s->data_ = static_cast<char*>(place) + kHeader;
      detail::count_small(static_cast<int64_t>(nbytes));
    }
    return intrusive_ptr<StorageImpl>::adopt(s);
  }
  intrusive_ptr<StorageImpl> owner = intrusive_ptr<StorageImpl>::adopt(s);  // frees the header on error
  if (nbytes > 0) {
    s->data_ = allocator_of(device.type).allocate(nbytes, device);
    s->capacity_ = s->data_ != nullptr ? nbytes : 0;
  }
  return owner;
}

intrusive_ptr<StorageImpl> StorageImpl::wrap(void* data, size_t nbytes, Device device, Deleter deleter, void* context,
                                             bool read_only) {
  FACULA_CHECK(deleter != nullptr, Runtime, Operator{"StorageImpl::wrap"}, "a deleter is needed");
  StorageImpl* s = new (detail::allocate_small(kHeader)) StorageImpl;
  s->block_ = kHeader;
  s->data_ = data;
  s->nbytes_ = nbytes;
  s->device_ = device;
  s->guard_.store(read_only ? kReadOnly : 0, std::memory_order_relaxed);
  s->deleter_ = deleter;
  s->context_ = context;
  return intrusive_ptr<StorageImpl>::adopt(s);
}

void StorageImpl::drop_root(void* root) { Storage::adopt(static_cast<StorageImpl*>(root)); }

Storage StorageImpl::share(const Storage& of, uint32_t version) {
  // Sharers of sharers hold the owner, so that there are no chains.
  auto* const root = const_cast<StorageImpl*>(of->owner());
  Storage shared =
      wrap(of->data_, of->nbytes_, of->device_, &drop_root, Storage::share(root).release(), of->read_only());
  shared->set_kept(of->kept());
  shared->version_.store(version, std::memory_order_relaxed);
  return shared;
}

void StorageImpl::dispose(StorageImpl* s) noexcept {
  detail::forget_shown(s);
  if (s->deleter_ != nullptr) {
    s->deleter_(s->context_);
  } else if (s->capacity_ != 0) {
    allocator_of(s->device_.type).deallocate(s->data_, s->capacity_, s->device_);
  } else if (s->data_ != nullptr) {
    detail::count_small(-static_cast<int64_t>(s->block_ - kHeader));
  }
  const size_t block = s->block_;
  s->~StorageImpl();
  detail::deallocate_small(s, block);
}

void StorageImpl::resize(size_t nbytes) {
  FACULA_CHECK(resizable(), Runtime, "resize: the memory belongs to another library (an array or buffer)");
  FACULA_CHECK(nbytes <= static_cast<size_t>(std::numeric_limits<int64_t>::max()), Runtime, "resize: ", nbytes,
               " bytes are too many");
  const size_t available = device_.type == kMeta ? nbytes
                           : deleter_ != nullptr ? nbytes_
                           : capacity_ != 0      ? capacity_
                           : data_ != nullptr    ? block_ - kHeader
                                                 : 0;
  if (nbytes <= available) {
    nbytes_ = nbytes;
    return;
  }
  FACULA_CHECK(data_ == nullptr || (users() == 1 && !lent() && owner()->deleter_ == nullptr), Runtime,
               "resize: ", nbytes, " bytes are more than the ", available,
               " of memory that other tensors or arrays use as well; make a new tensor");
  Allocator& allocator = allocator_of(device_.type);
  void* fresh = allocator.allocate(nbytes, device_);
  if (nbytes_ > 0) allocator.copy(fresh, data_, nbytes_, device_);
  if (deleter_ != nullptr) {
    deleter_ = nullptr;
    drop_root(std::exchange(context_, nullptr));
  } else if (capacity_ != 0) {
    allocator.deallocate(data_, capacity_, device_);
  } else if (data_ != nullptr) {
    detail::count_small(-static_cast<int64_t>(block_ - kHeader));
  }
  data_ = fresh;
  capacity_ = nbytes;
  nbytes_ = nbytes;
}

}  // namespace facula
