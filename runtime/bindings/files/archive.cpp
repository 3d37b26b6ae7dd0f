// The directory of a zip archive, checked: where its members are. serialization/_zip.py says what archives these are.
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bindings/types/types.h"

namespace facula::python {

namespace {

// Source: PKWARE's APPNOTE.TXT, 4.3.7 (local header), 4.3.12 (central directory), 4.5.3 (zip64).
constexpr size_t kLocalSize = 30, kCentralSize = 46;
constexpr uint16_t kEncrypted = 0x1, kUtf8 = 0x800, kStored = 0, kDeflated = 8;
constexpr uint64_t kIn64Bits = 0xFFFFFFFF;

template <typename T>
T number_at(std::string_view data, size_t at) {
  T n = 0;
  std::memcpy(&n, data.data() + at, sizeof(T));
  return n;
}

struct Member {
  uint16_t method;
  uint32_t crc;
  uint64_t packed, size, header, start;
  PyObject* name;  // borrowed of the dictionary
};

class Directory {
 public:
  // `file`: bytes, or a descriptor (pages of a map that are new cost more than reading); `limit`: where the directory
  // begins in it.
  Directory(PyObject* file, std::string_view entries, uint64_t limit, PyObject* type, PyObject* fault)
      : entries_(entries), limit_(limit), type_(type), fault_(fault) {
    if (PyLong_Check(file)) {
      descriptor_ = static_cast<int>(PyLong_AsLong(file));
      if (descriptor_ == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    } else {
      check(PyObject_GetBuffer(file, &view_, PyBUF_SIMPLE));
      whole_ = {static_cast<const char*>(view_.buf), static_cast<size_t>(view_.len)};
    }
  }
  ~Directory() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  Ref read(uint64_t count) {
    Ref members(check(PyDict_New()));
    for (uint64_t i = 0; i < count; ++i) {
      if (at_ + kCentralSize > entries_.size()) fail("its directory is cut short");
      const Ref name = read_entry(members.get());
      PyObject* pieces = Py_BuildValue("(HIKKKK)", found_.back().method, found_.back().crc, ull(found_.back().packed),
                                       ull(found_.back().size), ull(found_.back().header), ull(found_.back().start));
      const Ref args(check(Py_BuildValue("(N)", check(pieces))));
      const Ref member(check(PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(type_), args.get(), nullptr)));
      check(PyDict_SetItem(members.get(), name.get(), member.get()));
    }
    if (at_ != entries_.size()) {
      fail("its directory has %zu bytes more than %llu entries", entries_.size() - at_, ull(count));
    }
    check_cover();
    return members;
  }

 private:
  static unsigned long long ull(uint64_t n) { return n; }

  [[noreturn]] void fail(const char* format, ...) const {
    va_list arguments;
    va_start(arguments, format);
    const Ref text(PyUnicode_FromFormatV(format, arguments));
    va_end(arguments);
    check(text.get());
    const Ref error(check(PyObject_CallOneArg(fault_, text.get())));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
    throw PythonError();
  }

  Ref read_entry(PyObject* members) {
    const std::string_view entry = entries_.substr(at_, kCentralSize);
    const auto flags = number_at<uint16_t>(entry, 8);
    const size_t names = number_at<uint16_t>(entry, 28), extras = number_at<uint16_t>(entry, 30),
                 comments = number_at<uint16_t>(entry, 32);
    at_ += kCentralSize;
    if (entry.substr(0, 4) != "PK\x01\x02" || names + extras + comments > entries_.size() - at_) {
      fail("its directory has a malformed entry");
    }
    const std::string_view raw = entries_.substr(at_, names), extra = entries_.substr(at_ + names, extras);
    at_ += names + extras + comments;
    const auto length = static_cast<Py_ssize_t>(names);
    Ref name(check((flags & kUtf8) != 0 ? PyUnicode_DecodeUTF8(raw.data(), length, "replace")
                                        : PyUnicode_Decode(raw.data(), length, "cp437", "replace")));
    Member m{.method = number_at<uint16_t>(entry, 10),
             .crc = number_at<uint32_t>(entry, 16),
             .packed = number_at<uint32_t>(entry, 20),
             .size = number_at<uint32_t>(entry, 24),
             .header = number_at<uint32_t>(entry, 42),
             .start = 0,
             .name = name.get()};
    read_sizes_64(m, extra);
    const int known = PyDict_Contains(members, name.get());
    check(known);
    if (known != 0) fail("its member %R occurs twice", name.get());
    if ((flags & kEncrypted) != 0 || (m.method != kStored && m.method != kDeflated)) {
      fail("its member %R is encrypted or compressed unusually", name.get());
    }
    if (m.method == kStored && m.packed != m.size) {
      fail("its member %R has %llu bytes and should have %llu", name.get(), ull(m.packed), ull(m.size));
    }
    m.start = start_of(m, raw);
    if (m.start > limit_ || m.packed > limit_ - m.start) {
      fail("its member %R of %llu bytes reaches past the data", name.get(), ull(m.packed));
    }
    found_.push_back(m);
    return name;
  }

  // Sizes that do not fit 32 bits stand in the extra field, in this order.
  void read_sizes_64(Member& m, std::string_view extra) const {
    uint64_t* const sizes[] = {&m.size, &m.packed, &m.header};
    const auto wanted = std::ranges::count_if(sizes, [](const uint64_t* n) { return *n == kIn64Bits; });
    if (wanted == 0) return;
    while (extra.size() >= 4) {
      const auto tag = number_at<uint16_t>(extra, 0);
      const size_t length = std::min<size_t>(number_at<uint16_t>(extra, 2), extra.size() - 4);
      if (tag == 1 && length / 8 >= static_cast<size_t>(wanted)) {
        size_t at = 4;
        for (uint64_t* n : sizes) {
          if (*n != kIn64Bits) continue;
          *n = number_at<uint64_t>(extra, at);
          at += 8;
        }
        return;
      }
      extra.remove_prefix(4 + length);
    }
    fail("its member %R lacks its zip64 sizes", m.name);
  }

  uint64_t start_of(const Member& m, std::string_view raw) {
    if (limit_ < kLocalSize || m.header > limit_ - kLocalSize) fail("its member %R starts past the data", m.name);
    const size_t count = kLocalSize + raw.size();
    std::string_view local;
    if (view_.obj != nullptr) {
      if (m.header < whole_.size()) local = whole_.substr(static_cast<size_t>(m.header), count);
    } else {
      header_.resize(count);
      const ssize_t got = pread(descriptor_, header_.data(), count, static_cast<off_t>(m.header));
      local = {header_.data(), got < 0 ? 0 : static_cast<size_t>(got)};
    }
    if (local.size() < count || local.substr(0, 4) != "PK\x03\x04" || number_at<uint16_t>(local, 26) != raw.size() ||
        local.substr(kLocalSize) != raw) {
      fail("its member %R is not where the directory says", m.name);
    }
    return m.header + count + number_at<uint16_t>(local, 28);
  }

  // Members do not overlap: what the file holds is bounded by its size.
  void check_cover() {
    std::ranges::stable_sort(found_, {}, &Member::header);
    for (size_t i = 0; i < found_.size(); ++i) {
      const uint64_t end = i + 1 < found_.size() ? found_[i + 1].header : limit_;
      if (found_[i].start + found_[i].packed > end) fail("its member %R overlaps the next one", found_[i].name);
    }
  }

  Py_buffer view_{};
  int descriptor_ = -1;
  std::string header_;
  std::string_view whole_, entries_;
  size_t at_ = 0;
  uint64_t limit_;
  PyObject *type_, *fault_;
  std::vector<Member> found_;
};

PyObject* zip_members(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject *file = nullptr, *type = nullptr, *fault = nullptr;
  const char* entries = nullptr;
  Py_ssize_t size = 0;
  unsigned long long limit = 0, count = 0;
  if (PyArg_ParseTuple(args, "Oy#KKO!O:_zip_members", &file, &entries, &size, &limit, &count, &PyType_Type, &type,
                       &fault) == 0) {
    return nullptr;
  }
  FACULA_CHECK(PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), &PyTuple_Type), Type,
               "members are made of a type of tuples");
  return Directory(file, {entries, static_cast<size_t>(size)}, limit, type, fault).read(count).release();
  FACULA_PY_END(nullptr)
}

}  // namespace

const PyMethodDef archive_functions[] = {
    {"_zip_members", zip_members, METH_VARARGS,
     "_zip_members(file, directory, limit, count, type, fault, /)\n--\n\n"
     "Members by name of a zip archive, bytes or a descriptor, as tuples of `type`; `fault` makes an error of a text."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
