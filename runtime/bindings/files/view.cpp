// Tensors of a file's storages. What is wrong with a file's numbers says serialization/_rebuild.py: here it is no view.
#include "runtime/bindings/types/types.h"
#include "runtime/dispatch/core_operators.h"

namespace facula::python {

namespace {

bool read_naturals(PyObject* tuple, DimVector& numbers) {
  if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) > 64) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    int overflow = 0;
    if (!PyLong_CheckExact(item)) return false;
    const int64_t n = PyLong_AsLongLongAndOverflow(item, &overflow);
    if (overflow != 0 || n < 0) return false;
    numbers.push_back(n);
  }
  return true;
}

// Whether a tensor has elements, and all of them lie before `end`.
bool fits(const DimVector& sizes, const DimVector& strides, int64_t last, int64_t end) {
  int64_t count = 1, step = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0 || __builtin_mul_overflow(count, sizes[i], &count) ||
        __builtin_mul_overflow(sizes[i] - 1, strides[i], &step) || __builtin_add_overflow(last, step, &last)) {
      return false;
    }
  }
  return last < end;
}

PyObject* storage_view(PyObject*, PyObject* const* args, Py_ssize_t n) {
  FACULA_PY_TRY
  FACULA_CHECK(n == 4, Type, "_storage_view() takes a storage, an offset, a shape and strides");
  PyObject *storage = args[0], *offset = args[1];
  if (!Py_IS_TYPE(storage, tensor_type) || !PyLong_CheckExact(offset)) Py_RETURN_NONE;
  const Tensor& t = tensor_of(storage);
  DimVector sizes, strides;
  int overflow = 0;
  const int64_t start = PyLong_AsLongLongAndOverflow(offset, &overflow);
  if (overflow != 0 || start < 0 || t.dim() != 1 || t.strides()[0] != 1 || !read_naturals(args[2], sizes) ||
      !read_naturals(args[3], strides) || sizes.size() != strides.size() || !fits(sizes, strides, start, t.numel())) {
    Py_RETURN_NONE;
  }
  return wrap(core_operators().as_strided(t, sizes, strides, t.offset() + start));
  FACULA_PY_END(nullptr)
}

}  // namespace

const PyMethodDef view_functions[] = {
    {"_storage_view", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(storage_view)), METH_FASTCALL,
     "_storage_view(storage, offset, size, stride, /)\n--\n\n"
     "Elements of a 1-d tensor; None where they are none, and where there are none of them."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
