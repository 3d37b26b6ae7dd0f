#include "runtime/dispatch/record.h"

#include <bit>
#include <cstring>

namespace facula::detail {

namespace {

size_t place_of(const StorageImpl* key, size_t mask) {
  return (reinterpret_cast<uintptr_t>(key) * 0x9e3779b97f4a7c15u >> 32) & mask;
}

// Numbers that are one in every computation: also of one kind and one sign.
bool same_number(const Scalar& a, const Scalar& b) {
  if (a.kind() != b.kind() || a.is_beyond_int64() != b.is_beyond_int64()) return false;
  if (a.kind() <= Category::Integral) return a.to<int64_t>() == b.to<int64_t>();
  const complex128 x = a.to<complex128>(), y = b.to<complex128>();
  return std::memcmp(&x, &y, sizeof(x)) == 0;
}

// Different for different numbers, nearly always.
uint64_t bits_of(const Scalar& s) {
  if (s.kind() <= Category::Integral) return static_cast<uint64_t>(s.to<int64_t>()) * 2;
  return std::bit_cast<uint64_t>(s.as_double()) * 2 + 1;
}

constexpr size_t kCompared = 8;  // numbers, or strides, that new ones are compared with

}  // namespace

void Record::clear() {
  nodes.clear();
  operands.clear();
  shapes.clear();
  strides.clear();
  numbers.clear();
  number_ids.clear();
  number_bits.clear();
  buffers.clear();
  reductions.clear();
  places.clear();
  tape.clear();
  hash = 0;
  std::fill(table_.begin(), table_.end(), -1);
}

int32_t Record::find(const StorageImpl& s) const {
  if (table_.empty()) return -1;
  const StorageImpl* const key = s.owner();
  const size_t mask = table_.size() - 1;
  for (size_t i = place_of(key, mask);; i = (i + 1) & mask) {
    const int32_t at = table_[i];
    if (at < 0) return -1;
    const RecordBuffer& b = buffers[static_cast<size_t>(at)];
    if (b.key == key && b.storage) return at;
  }
}

void Record::grow() {
  table_.assign(std::max<size_t>(64, table_.size() * 2), -1);
  const size_t mask = table_.size() - 1;
  for (size_t k = 0; k < buffers.size(); ++k) {
    if (!buffers[k].storage) continue;
    size_t i = place_of(buffers[k].key, mask);
    while (table_[i] >= 0) i = (i + 1) & mask;
    table_[i] = static_cast<int32_t>(k);
  }
}

int32_t Record::buffer_of(const Tensor& t, bool fresh) {
  const Storage& storage = t.storage();
  if (!fresh) {
    if (const int32_t at = find(*storage); at >= 0) return at;
  }
  if (2 * (buffers.size() + 1) > table_.size()) grow();
  const auto number = static_cast<int32_t>(buffers.size());
  const StorageImpl* const key = storage->owner();
  buffers.push_back({storage, key, static_cast<char*>(storage->data()), storage->nbytes(), fresh, fresh,
                     static_cast<uint32_t>(nodes.size())});
  const size_t mask = table_.size() - 1;
  size_t i = place_of(key, mask);
  while (table_[i] >= 0) i = (i + 1) & mask;
  table_[i] = number;
  return number;
}

uint32_t Record::shape_of(const DimVector& sizes, const DimVector& strides_, bool symbolic) {
  for (size_t i = shapes.size(); i-- > 0;) {
    if (shapes[i].sizes == sizes && shapes[i].strides == strides_) return static_cast<uint32_t>(i);
  }
  const int64_t numel = numel_of(sizes);
  shapes.push_back({sizes, strides_, numel, numel});
  add_to_tape(uint64_t{0xffff} << 48 | sizes.size());
  for (size_t d = 0; d < sizes.size() && !symbolic; ++d) {
    add_to_tape(static_cast<uint64_t>(sizes[d]));
    add_to_tape(static_cast<uint64_t>(strides_[d]));
  }
  return static_cast<uint32_t>(shapes.size() - 1);
}

uint32_t Record::number(const Scalar& value) {
  const size_t n = numbers.size();
  const uint64_t bits = bits_of(value);
  uint32_t same = static_cast<uint32_t>(n);
  for (size_t i = n > kCompared ? n - kCompared : 0; i < n; ++i) {
    if (number_bits[i] == bits && same_number(numbers[i], value)) {
      same = static_cast<uint32_t>(i);
      break;
    }
  }
  if (same < n) same = number_ids[same];
  numbers.push_back(value);
  number_ids.push_back(same);
  number_bits.push_back(bits);
  add_to_tape(uint64_t{0xfffe} << 48 | same);
  return static_cast<uint32_t>(n);
}

uint32_t Record::strides_of(const DimVector& wanted) {
  const size_t n = strides.size();
  for (size_t i = n; i-- > (n > kCompared ? n - kCompared : 0);) {
    if (strides[i] == wanted) return static_cast<uint32_t>(i);
  }
  strides.push_back(wanted);
  return static_cast<uint32_t>(n);
}

void Record::release_unheld() {
  for (RecordBuffer& b : buffers) {
    // Its place in the table stays: a later owner at the same address is another buffer, found behind it.
    if (b.fresh && b.storage && b.storage->users() == 1) b.storage.reset();
  }
}

void Record::release_recent() {
  constexpr size_t kRecent = 4;
  for (size_t i = buffers.size() > kRecent ? buffers.size() - kRecent : 0; i < buffers.size(); ++i) {
    RecordBuffer& b = buffers[i];
    if (b.fresh && b.storage && b.storage->users() == 1) b.storage.reset();
  }
}

int64_t Record::bytes_of_its_own() const {
  int64_t bytes = 0;
  for (const RecordBuffer& b : buffers) {
    if (b.storage && (b.fresh || b.storage->users() == 1)) bytes += static_cast<int64_t>(b.nbytes);
  }
  return bytes;
}

}  // namespace facula::detail
