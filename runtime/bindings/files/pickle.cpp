// A machine for pickles that runs no code but that of the functions it is given.
//
// Python's own calls whatever stands on its stack, sets attributes of whatever it built and takes the sizes in a file
// at their word. This one knows the opcodes of protocols 0 to 5 that data needs: it calls, fills and sets the state of
// what serialization/_globals.py allows only, and its memory is bounded by the file's size.
#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/bindings/files/opcodes.h"
#include "runtime/bindings/types/types.h"

namespace facula::python {

namespace {

constexpr int kMostNested = 500;

// What a pickle may name, call, make and change, and how its faults are raised.
struct Allowed {
  PyObject *find, *persistent, *malformed;
  const char* encoding;
  Ref call, make, build, fills;
  Ref calls;  // a dict, by the addresses of what may be called: that, and what a call of it does; may be null
};

class Machine {
 public:
  Machine(std::string_view data, size_t at, const Allowed& allowed) : reader_(data, at), allowed_(allowed) {}

  Ref run() {
    Step step;
    for (uint32_t count = 1;; ++count) {
      if (count % 65536 == 0) check(PyErr_CheckSignals());
      const Found found = reader_.next(step);
      if (found != Found::All) [[unlikely]]
        refuse(found, step);
      if (step.op == '.') return pop();
      obey(step);
    }
  }
  size_t at() const { return reader_.at(); }

 private:
  [[noreturn]] void fail(const char* format, ...) const {
    va_list arguments;
    va_start(arguments, format);
    PyErr_FormatV(allowed_.malformed, format, arguments);
    va_end(arguments);
    throw PythonError();
  }
  [[noreturn]] void refuse(Found found, const Step& step) const {
    if (found == Found::Unknown) {
      fail("its pickle has the opcode 0x%02x, which data does not need", static_cast<int>(step.op));
    }
    if (found == Found::TooLong) {
      fail("its pickle has an item of %llu bytes and ends before", static_cast<unsigned long long>(step.number));
    }
    fail("its pickle is cut short");
  }
  [[noreturn]] void fail_empty() const { fail("its pickle takes what it has not put (its stack is empty)"); }

  // ---- the stack; a mark is a null reference

  void push(Ref value) { stack_.push_back(std::move(value)); }
  void push_new(PyObject* value) { push(Ref(check(value))); }
  void push_borrowed(PyObject* value) { push(Ref::borrow(value)); }
  PyObject* top() const {
    if (stack_.empty()) fail_empty();
    if (!stack_.back()) fail("its pickle takes a mark for a value");
    return stack_.back().get();
  }
  Ref pop() {
    top();
    Ref value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  size_t mark() const {
    for (size_t i = stack_.size(); i-- > 0;) {
      if (!stack_[i]) return i;
    }
    fail("its pickle lacks a mark");
  }
  // The last ones from `from` on as a list or tuple; `make` is PyList_New or PyTuple_New.
  Ref gather(size_t from, bool as_tuple) {
    const auto count = static_cast<Py_ssize_t>(stack_.size() - from);
    Ref items(check(as_tuple ? PyTuple_New(count) : PyList_New(count)));
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* item = stack_[from + static_cast<size_t>(i)].release();
      if (as_tuple) {
        PyTuple_SET_ITEM(items.get(), i, item);
      } else {
        PyList_SET_ITEM(items.get(), i, item);
      }
    }
    stack_.resize(from);
    return items;
  }
  Ref items_after_mark(bool as_tuple) {
    const size_t place = mark();
    Ref items = gather(place + 1, as_tuple);
    stack_.pop_back();
    return items;
  }
  void push_tuple(Ref items) {
    note_depth(items.get());
    push(std::move(items));
  }
  void tuple_of(size_t count) {
    if (stack_.size() < count) fail_empty();
    for (size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      if (!stack_[i]) fail("its pickle takes a mark for a value");
    }
    push_tuple(gather(stack_.size() - count, true));
  }
  // Tuples of tuples: Python's hash of them takes as much of the C stack as they are deep.
  void note_depth(PyObject* value) {
    if (!PyTuple_Check(value)) return;
    int inner = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      PyObject* item = PyTuple_GET_ITEM(value, i);
      if (!PyTuple_Check(item)) continue;
      const auto known = depths_.find(item);
      inner = std::max(inner, known == depths_.end() ? 1 : known->second.second);
    }
    if (inner == 0) return;
    if (inner >= kMostNested) fail("its tuples are nested more than %d deep", kMostNested);
    depths_.insert_or_assign(value, std::pair(Ref::borrow(value), inner + 1));
  }

  // ---- the memo: numbers are a file's, who says 2**32 - 1 gets no table of that size

  const Ref* remembered(int64_t index) const {
    if (index >= 0 && static_cast<size_t>(index) < near_.size() && near_[static_cast<size_t>(index)]) {
      return &near_[static_cast<size_t>(index)];
    }
    const auto known = far_.find(index);
    return known == far_.end() ? nullptr : &known->second;
  }
  void put(int64_t index) {
    Ref value = Ref::borrow(top());
    if (remembered(index) == nullptr) ++remembered_;
    // By how many there are, of which each has bytes in the file: by its size the table would double with each.
    if (index >= 0 && index < 2 * remembered_ + 1024) {
      const auto place = static_cast<size_t>(index);
      if (place >= near_.size()) near_.resize(place + 1);
      near_[place] = std::move(value);
    } else {
      far_.insert_or_assign(index, std::move(value));
    }
  }
  void get(int64_t index) {
    const Ref* value = remembered(index);
    if (value == nullptr) {
      fail("its pickle takes what it has not put (%lld of its memo)", static_cast<long long>(index));
    }
    push_borrowed(value->get());
  }

  // ---- texts and numbers

  static Ref bytes(std::string_view text) {
    return Ref(check(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))));
  }
  static Ref utf8(std::string_view text, const char* errors) {
    return Ref(check(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), errors)));
  }
  // Texts of Python 2, which are bytes.
  Ref old_text(Ref raw) const {
    if (std::string_view(allowed_.encoding) == "bytes") return raw;
    return Ref(check(
        PyUnicode_Decode(PyBytes_AS_STRING(raw.get()), PyBytes_GET_SIZE(raw.get()), allowed_.encoding, "strict")));
  }
  Ref quoted(std::string_view text) const {
    if (text.size() < 2 || text.front() != text.back() || (text[0] != '\'' && text[0] != '"')) {
      fail("its pickle has a string without quotes");
    }
    return old_text(Ref(
        check(PyBytes_DecodeEscape(text.data() + 1, static_cast<Py_ssize_t>(text.size()) - 2, "strict", 0, nullptr))));
  }
  static Ref integer_of_text(std::string_view text) {
    const Ref raw = bytes(text);
    return Ref(check(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyLong_Type), raw.get())));
  }
  static Ref old_integer(std::string_view text) {
    if (text == "00" || text == "01") return Ref::borrow(text == "01" ? Py_True : Py_False);
    while (!text.empty() && text.back() == 'L') text.remove_suffix(1);
    return integer_of_text(text);
  }
  static Ref integer(std::string_view text) {
    if (text.size() <= 8) {
      uint64_t n = little_endian(text);
      const auto unused = static_cast<int>(64 - 8 * text.size());
      if (unused == 64) return Ref(check(PyLong_FromLong(0)));
      return Ref(check(PyLong_FromLongLong(static_cast<int64_t>(n << unused) >> unused)));
    }
    const Ref method(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyLong_Type), "from_bytes")));
    const Ref args(check(Py_BuildValue("(y#s)", text.data(), static_cast<Py_ssize_t>(text.size()), "little")));
    const Ref options(check(Py_BuildValue("{sO}", "signed", Py_True)));
    return Ref(check(PyObject_Call(method.get(), args.get(), options.get())));
  }
  int64_t index_of_text(std::string_view text) const {
    const Ref n = integer_of_text(text);
    int overflow = 0;
    const int64_t index = PyLong_AsLongLongAndOverflow(n.get(), &overflow);
    if (overflow != 0) fail("its pickle has a number of its memo beyond 64 bits");
    return index;
  }

  // ---- containers

  static bool is(PyObject* value, const char* module, const char* name) {
    return reinterpret_cast<PyObject*>(Py_TYPE(value)) == import_attribute(module, name).get();
  }
  bool fills(PyObject* target, const char* method) const {
    const Ref allowed(check(PyObject_CallOneArg(allowed_.fills.get(), target)));
    const int truth = PyObject_IsTrue(allowed.get());
    if (truth < 0) check(nullptr);
    return truth != 0 && PyObject_HasAttrString(target, method);
  }
  void extend(const Ref& items) {
    PyObject* target = top();
    if (PyList_CheckExact(target)) {
      const Py_ssize_t end = PyList_GET_SIZE(target);
      check(PyList_SetSlice(target, end, end, items.get()));
      return;
    }
    if (!is(target, "collections", "deque") && !fills(target, "extend")) {
      fail("its pickle appends to a %.200s", last_name(target));
    }
    Ref(check(PyObject_CallMethod(target, "extend", "O", items.get())));
  }
  bool takes_items(PyObject* target) const {
    for (const char* name : {"OrderedDict", "Counter", "defaultdict"}) {
      if (is(target, "collections", name)) return true;
    }
    return fills(target, "__setitem__");
  }
  // Keys and values alternate.
  void fill(const Ref& items) {
    PyObject* target = top();
    const bool plain = PyDict_CheckExact(target);
    if (!plain && !takes_items(target)) fail("its pickle sets items of a %.200s", last_name(target));
    const Py_ssize_t count = PyList_GET_SIZE(items.get());
    if (count % 2 != 0) fail("its pickle has a key without a value");
    for (Py_ssize_t i = 0; i < count; i += 2) {
      PyObject *key = PyList_GET_ITEM(items.get(), i), *value = PyList_GET_ITEM(items.get(), i + 1);
      check(plain ? PyDict_SetItem(target, key, value) : PyObject_SetItem(target, key, value));
    }
  }
  // Of the type of a value, without its module.
  static const char* last_name(PyObject* value) {
    const char* name = Py_TYPE(value)->tp_name;
    const char* dot = std::strrchr(name, '.');
    return dot == nullptr ? name : dot + 1;
  }
  void add_members() {
    const Ref items = items_after_mark(false);
    PyObject* target = top();
    if (!Py_IS_TYPE(target, &PySet_Type)) fail("its pickle adds members to a %.200s", last_name(target));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
      check(PySet_Add(target, PyList_GET_ITEM(items.get(), i)));
    }
  }

  // ---- what others allow

  void find(PyObject* module, PyObject* name) {
    const Ref protocol(check(PyLong_FromUnsignedLongLong(protocol_)));
    push_new(PyObject_CallFunctionObjArgs(allowed_.find, module, name, protocol.get(), nullptr));
  }
  void find_on_stack() {
    const Ref name = pop(), module = pop();
    if (!PyUnicode_CheckExact(module.get()) || !PyUnicode_CheckExact(name.get())) {
      fail("its pickle has a global whose name is no text");
    }
    find(module.get(), name.get());
  }
  void reduce() {
    const Ref args = pop(), function = pop();
    if (!PyTuple_CheckExact(args.get())) fail("its pickle calls with a %.200s as arguments", last_name(args.get()));
    if (allowed_.calls) {
      const Ref address(check(PyLong_FromVoidPtr(function.get())));
      const Ref entry = dict_item(allowed_.calls.get(), address.get());
      if (entry && PyTuple_Check(entry.get()) && PyTuple_GET_SIZE(entry.get()) == 2) {
        return push_tuple(Ref(check(PyObject_Call(PyTuple_GET_ITEM(entry.get(), 1), args.get(), nullptr))));
      }
      if (PyErr_Occurred() != nullptr) throw PythonError();
    }
    push_tuple(Ref(check(PyObject_CallFunctionObjArgs(allowed_.call.get(), function.get(), args.get(), nullptr))));
  }
  void make(bool with_names) {
    const Ref names = with_names ? pop() : Ref(check(PyDict_New()));
    const Ref args = pop(), type = pop();
    if (!PyTuple_CheckExact(args.get()) || !PyDict_CheckExact(names.get())) {
      fail("its pickle makes an object of a %.200s", last_name(args.get()));
    }
    push_tuple(
        Ref(check(PyObject_CallFunctionObjArgs(allowed_.make.get(), type.get(), args.get(), names.get(), nullptr))));
  }
  void build() {
    const Ref state = pop();
    Ref(check(PyObject_CallFunctionObjArgs(allowed_.build.get(), top(), state.get(), nullptr)));
  }
  void persist(const Ref& key) {
    if (Py_IsNone(allowed_.persistent)) fail("its pickle has a persistent id where none is expected");
    push_new(PyObject_CallOneArg(allowed_.persistent, key.get()));
  }

  void obey(const Step& step);

  Reader reader_;
  const Allowed& allowed_;
  uint64_t protocol_ = 0;
  std::vector<Ref> stack_, near_;
  std::unordered_map<int64_t, Ref> far_;
  int64_t remembered_ = 0;
  std::unordered_map<PyObject*, std::pair<Ref, int>> depths_;
};

void Machine::obey(const Step& step) {
  switch (step.op) {
    case '(':
      return push(Ref());
    case '0':
      if (stack_.empty()) fail_empty();
      return stack_.pop_back();
    case '1':
      return stack_.resize(mark());
    case '2':
      return push_borrowed(top());
    case 'N':
      return push_borrowed(Py_None);
    case 0x88:
      return push_borrowed(Py_True);
    case 0x89:
      return push_borrowed(Py_False);
    case 'K':
    case 'M':
      return push_new(PyLong_FromUnsignedLongLong(step.number));
    case 'J':
      return push_new(PyLong_FromLong(static_cast<int32_t>(step.number)));
    case 'G':
      return push_new(PyFloat_FromDouble(std::bit_cast<double>(__builtin_bswap64(step.number))));
    case 0x8a:
    case 0x8b:
      return push(integer(step.text));
    case 'I':
    case 'L':
      return push(old_integer(step.text));
    case 'F':
      return push_new(PyFloat_FromString(bytes(step.text).get()));
    case 'X':
    case 0x8c:
    case 0x8d:
      return push(utf8(step.text, "surrogatepass"));
    case 'V':
      return push_new(
          PyUnicode_DecodeRawUnicodeEscape(step.text.data(), static_cast<Py_ssize_t>(step.text.size()), nullptr));
    case 'T':
    case 'U':
      return push(old_text(bytes(step.text)));
    case 'S':
      return push(quoted(step.text));
    case 'B':
    case 'C':
    case 0x8e:
      return push(bytes(step.text));
    case 0x96:
      return push_new(PyByteArray_FromStringAndSize(step.text.data(), static_cast<Py_ssize_t>(step.text.size())));
    case ']':
      return push_new(PyList_New(0));
    case '}':
      return push_new(PyDict_New());
    case ')':
      return push_new(PyTuple_New(0));
    case 0x8f:
      return push_new(PySet_New(nullptr));
    case 't':
      return push_tuple(items_after_mark(true));
    case 0x85:
    case 0x86:
    case 0x87:
      return tuple_of(step.op - 0x84u);
    case 'l':
      return push(items_after_mark(false));
    case 0x91:
      return push_new(PyFrozenSet_New(items_after_mark(false).get()));
    case 'd': {
      const Ref items = items_after_mark(false);
      push_new(PyDict_New());
      return fill(items);
    }
    case 'a': {
      top();
      return extend(gather(stack_.size() - 1, false));
    }
    case 'e':
      return extend(items_after_mark(false));
    case 's': {
      Ref value = pop(), key = pop();
      push(std::move(key));
      push(std::move(value));
      return fill(gather(stack_.size() - 2, false));
    }
    case 'u':
      return fill(items_after_mark(false));
    case 0x90:
      return add_members();
    case 'c': {
      const Ref module = utf8(step.text, "strict"), name = utf8(step.second, "strict");
      return find(module.get(), name.get());
    }
    case 0x93:
      return find_on_stack();
    case 'R':
      return reduce();
    case 0x81:
      return make(false);
    case 0x92:
      return make(true);
    case 'b':
      return build();
    case 'g':
      return get(index_of_text(step.text));
    case 'h':
    case 'j':
      return get(static_cast<int64_t>(step.number));
    case 'p':
      return put(index_of_text(step.text));
    case 'q':
    case 'r':
      return put(static_cast<int64_t>(step.number));
    case 0x94:
      return put(remembered_);
    case 'P':
      return persist(
          Ref(check(PyUnicode_DecodeASCII(step.text.data(), static_cast<Py_ssize_t>(step.text.size()), "strict"))));
    case 'Q':
      return persist(pop());
    case 0x80:
      if (step.number > 5) {
        fail("its pickle has protocol %d, this program reads 0 to 5", static_cast<int>(step.number));
      }
      protocol_ = step.number;
      return;
    default:  // FRAME
      return;
  }
}

// The memory of an object with the buffer protocol.
class Bytes {
 public:
  explicit Bytes(PyObject* o) { check(PyObject_GetBuffer(o, &view_, PyBUF_SIMPLE)); }
  ~Bytes() { PyBuffer_Release(&view_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  std::string_view view() const { return {static_cast<const char*>(view_.buf), static_cast<size_t>(view_.len)}; }

 private:
  Py_buffer view_;
};

size_t place_in(std::string_view data, Py_ssize_t at) {
  FACULA_CHECK(at >= 0 && static_cast<size_t>(at) <= data.size(), Value, "a pickle at ", at, " of ", data.size(),
               " bytes");
  return static_cast<size_t>(at);
}

PyObject* run_pickle(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject *data = nullptr, *names = nullptr;
  Py_ssize_t at = 0;
  Allowed allowed{};
  if (PyArg_ParseTuple(args, "OnOOOsO:_run_pickle", &data, &at, &names, &allowed.find, &allowed.persistent,
                       &allowed.encoding, &allowed.malformed) == 0) {
    return nullptr;
  }
  allowed.call = Ref(check(PyObject_GetAttrString(names, "call")));
  allowed.make = Ref(check(PyObject_GetAttrString(names, "make")));
  allowed.build = Ref(check(PyObject_GetAttrString(names, "build")));
  allowed.fills = Ref(check(PyObject_GetAttrString(names, "fills")));
  if (PyObject_HasAttrString(names, "calls") != 0) {
    allowed.calls = Ref(check(PyObject_GetAttrString(names, "calls")));
    FACULA_CHECK(PyDict_Check(allowed.calls.get()), Type, "_run_pickle(): names.calls is no dict");
  }
  const Bytes bytes(data);
  Machine machine(bytes.view(), place_in(bytes.view(), at), allowed);
  const Ref value = machine.run();
  return Py_BuildValue("(On)", value.get(), static_cast<Py_ssize_t>(machine.at()));
  FACULA_PY_END(nullptr)
}

PyObject* pickle_end(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject* data = nullptr;
  Py_ssize_t at = 0;
  if (PyArg_ParseTuple(args, "On:_pickle_end", &data, &at) == 0) return nullptr;
  const Bytes bytes(data);
  Reader reader(bytes.view(), place_in(bytes.view(), at));
  Step step;
  while (step.op != '.') {
    const Found found = reader.next(step);
    if (found == Found::Unknown) break;
    if (found != Found::All) return PyLong_FromLong(-1);
  }
  return PyLong_FromSize_t(reader.at());
  FACULA_PY_END(nullptr)
}

}  // namespace

const PyMethodDef pickle_functions[] = {
    {"_run_pickle", run_pickle, METH_VARARGS,
     "_run_pickle(data, at, names, find, persistent, encoding, malformed, /)\n--\n\n"
     "What the pickle at a place describes, and the place after it; serialization/_machine.py says more."},
    {"_pickle_end", pickle_end, METH_VARARGS,
     "_pickle_end(data, at, /)\n--\n\nThe place after the pickle at a place, or after the first opcode that none has; "
     "-1 where the data end before."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
