// Properties of Tensor that say what it is: geometry, dtype, device, autograd state.
#include "runtime/autograd/meta.h"
#include "runtime/bindings/types/types.h"
#include "runtime/core/compound.h"
#include "runtime/core/in_call.h"

namespace facula::python {

namespace {

PyObject* get_dict(PyObject* self, void* context) {
  track(self);
  return PyObject_GenericGetDict(self, context);
}
int set_dict(PyObject* self, PyObject* value, void* context) {
  track(self);
  return PyObject_GenericSetDict(self, value, context);
}

PyObject* get_shape(PyObject* self, void*) {
  return read(self, [](const Tensor& t) { return wrap(t.sizes()); });
}
PyObject* get_dtype(PyObject* self, void*) {
  return read(self, [](const Tensor& t) { return wrap(t.dtype()); });
}
PyObject* get_device(PyObject* self, void*) {
  return read(self, [](const Tensor& t) { return wrap(t.device()); });
}
// Of a compound as the class that computes with it has it, also where its object is of another class.
PyObject* get_from_compound(PyObject* self, const char* name) {
  FACULA_PY_TRY
  const Ref plain(check(wrap(detach(tensor_of(self)))));
  return check(PyObject_GetAttrString(plain.get(), name));
  FACULA_PY_END(nullptr)
}
PyObject* get_layout(PyObject* self, void*) {
  if (is_compound(tensor_of(self))) [[unlikely]]
    return get_from_compound(self, "layout");
  return Py_NewRef(strided_layout());
}
PyObject* get_is_sparse(PyObject* self, void*) {
  return is_compound(tensor_of(self)) ? get_from_compound(self, "is_sparse") : Py_NewRef(Py_False);
}
PyObject* get_is_sparse_csr(PyObject* self, void*) {
  return is_compound(tensor_of(self)) ? get_from_compound(self, "is_sparse_csr") : Py_NewRef(Py_False);
}
PyObject* get_ndim(PyObject* self, void*) {
  return read(self, [](const Tensor& t) { return PyLong_FromLongLong(t.dim()); });
}
PyObject* get_itemsize(PyObject* self, void*) {
  return read(self, [](const Tensor& t) { return PyLong_FromSize_t(t.itemsize()); });
}
PyObject* get_nbytes(PyObject* self, void*) {
  return read(self, [](const Tensor& t) { return PyLong_FromSize_t(t.nbytes()); });
}
PyObject* get_is_cpu(PyObject* self, void*) {
  return read(self, [](const Tensor& t) { return PyBool_FromLong(t.is_cpu()); });
}
PyObject* get_is_meta(PyObject* self, void*) {
  return read(self, [](const Tensor& t) { return PyBool_FromLong(t.is_meta()); });
}
PyObject* get_false(PyObject*, void*) { Py_RETURN_FALSE; }
PyObject* get_version(PyObject* self, void*) {
  return read(self, [](const Tensor& t) {
    FACULA_CHECK(!t.impl()->inference, Runtime, Operator{"_version"},
                 "changes of a tensor made in inference mode are not counted; clone() it outside that mode");
    return PyLong_FromUnsignedLong(t.version());
  });
}

PyObject* get_base(PyObject* self, void*) {
  FACULA_PY_TRY
  return wrap(Tensor(tensor_of(self).impl()->base));
  FACULA_PY_END(nullptr)
}

bool flag_value(PyObject* value, const char* name) {
  FACULA_CHECK(value != nullptr && PyBool_Check(value), Type, name, " must be True or False, not ",
               value == nullptr ? "deleted" : Py_TYPE(value)->tp_name);
  return value == Py_True;
}

PyObject* get_requires_grad(PyObject* self, void*) { return PyBool_FromLong(tensor_of(self).requires_grad()); }
int set_requires_grad_property(PyObject* self, PyObject* value, void*) {
  FACULA_PY_TRY
  set_requires_grad(tensor_of(self), flag_value(value, "requires_grad"));
  return 0;
  FACULA_PY_END(-1)
}
PyObject* get_is_leaf(PyObject* self, void*) { return PyBool_FromLong(is_leaf(tensor_of(self))); }
PyObject* get_retains_grad(PyObject* self, void*) { return PyBool_FromLong(retains_grad(tensor_of(self))); }
PyObject* get_output_nr(PyObject* self, void*) {
  const AutogradMeta* meta = autograd_meta_or_null(tensor_of(self));
  return PyLong_FromUnsignedLong(meta != nullptr ? meta->output_nr : 0);
}
PyObject* get_grad_fn(PyObject* self, void*) {
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  if (autograd_meta_or_null(t) == nullptr && !t.is_view()) Py_RETURN_NONE;
  track(self);  // who asks may register a hook
  return wrap(grad_fn(t));
  FACULA_PY_END(nullptr)
}

PyObject* get_grad(PyObject* self, void*) {
  FACULA_PY_TRY
  const AutogradMeta* meta = autograd_meta_or_null(tensor_of(self));
  if (meta == nullptr) Py_RETURN_NONE;
  const Tensor grad = meta->grad();
  if (!grad.defined() && meta->grad_fn && !meta->retains_grad && !is_leaf(tensor_of(self))) [[unlikely]] {
    check(PyErr_WarnEx(PyExc_UserWarning,
                       "the .grad of a tensor that is not a leaf is read; backward() leaves it None. Call "
                       "retain_grad() on the tensor before backward(), or read the .grad of the leaf that was meant",
                       1));
  }
  if (grad.defined()) track(self);  // the gradient may get attributes that lead back
  return wrap(grad);
  FACULA_PY_END(nullptr)
}
int set_grad_property(PyObject* self, PyObject* value, void*) {
  FACULA_PY_TRY
  if (value == nullptr || value == Py_None) {
    if (autograd_meta_or_null(tensor_of(self)) != nullptr) set_grad(tensor_of(self), Tensor());
    return 0;
  }
  FACULA_CHECK(is_tensor(value), Type, "grad must be a Tensor or None, not ", Py_TYPE(value)->tp_name);
  FACULA_CHECK(value != self, Value, "grad cannot be the tensor itself");
  set_grad(tensor_of(self), tensor_of(value));
  track(self);
  return 0;
  FACULA_PY_END(-1)
}

PyObject* get_data(PyObject* self, void*) {
  FACULA_PY_TRY
  const InCall in_call(tensor_of(self));
  const Tensor t = detach(tensor_of(self));
  if (t.storage()) t.impl()->storage = StorageImpl::share(t.storage(), 0);
  return in_class_of(self, wrap(t));
  FACULA_PY_END(nullptr)
}
// `t.data = other`: t keeps its identity, gradient and history, and shows other's memory.
int set_data(PyObject* self, PyObject* value, void*) {
  FACULA_PY_TRY
  FACULA_CHECK(value != nullptr && is_tensor(value), Type, "data must be a Tensor, not ",
               value == nullptr ? "deleted" : Py_TYPE(value)->tp_name);
  check_memory(tensor_of(self), "data");
  check_memory(tensor_of(value), "data");
  Storage old;  // dropped when the change is over, and so is:
  intrusive_ptr<TensorImpl> old_base;
  const InCall in_call(tensor_of(value));
  const Changing changing(tensor_of(self));
  TensorImpl* to = tensor_of(self).impl();
  const TensorImpl* from = tensor_of(value).impl();
  FACULA_CHECK(!tensor_of(self).requires_grad() || is_differentiable(from->dtype), Runtime,
               "data: a tensor that requires grad cannot take data of dtype ", dtype_name(from->dtype));
  FACULA_CHECK(!to->storage || !to->storage->lent() || to->storage->users() > 1, Runtime,
               "data: the memory was given to others through __array_interface__; use a new tensor");
  if (to->dtype != from->dtype || to->sizes != from->sizes) autograd_meta(tensor_of(self)).reshaped = true;
  if (to == from) return 0;
  if (to->base) {
    // It leaves its base and keeps as its own the history that it has by now.
    const bool follows = tensor_of(self).requires_grad();
    if (follows && !is_leaf(tensor_of(self))) {
      const Edge edge = gradient_edge(tensor_of(self));
      AutogradMeta& meta = autograd_meta(tensor_of(self));
      meta.grad_fn = edge.node;
      meta.output_nr = edge.output_nr;
    }
    to->requires_grad = follows;
    if (follows) to->layers |= layer_bit(Layer::Autograd);
    to->no_grad_view = false;
    old_base = std::move(to->base);
  }
  old = std::exchange(to->storage,
                      from->storage ? StorageImpl::share(from->storage, tensor_of(self).version()) : nullptr);
  to->offset = from->offset;
  to->sizes = from->sizes;
  to->strides = from->strides;
  to->dtype = from->dtype;
  to->device = from->device;
  to->refresh();
  return 0;
  FACULA_PY_END(-1)
}

}  // namespace

const PyGetSetDef tensor_properties[] = {
    {"__dict__", get_dict, set_dict, nullptr, nullptr},
    {"shape", get_shape, nullptr, "The sizes of its dimensions, a facula.Size.", nullptr},
    {"dtype", get_dtype, nullptr, "The type of its elements.", nullptr},
    {"device", get_device, nullptr, "Where its memory is.", nullptr},
    {"layout", get_layout, nullptr, "How its elements lie: facula.strided, or one of the sparse layouts.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of dimensions.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes per element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements: numel() * itemsize.", nullptr},
    {"is_cpu", get_is_cpu, nullptr, "Is it in CPU memory?", nullptr},
    {"is_meta", get_is_meta, nullptr, "Has it a shape only, and no elements?", nullptr},
    {"is_sparse", get_is_sparse, nullptr, "Is its layout facula.sparse_coo?", nullptr},
    {"is_sparse_csr", get_is_sparse_csr, nullptr, "Is its layout facula.sparse_csr?", nullptr},
    {"is_quantized", get_false, nullptr, "Always False.", nullptr},
    {"is_nested", get_false, nullptr, "Always False.", nullptr},
    {"_version", get_version, nullptr, "How often the memory was changed in place.", nullptr},
    {"_base", get_base, nullptr, "The tensor that this one is a view of, or None.", nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad_property,
     "Does autograd record what is done with it? May be set on leaves.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "True unless it came from recorded operations.", nullptr},
    {"retains_grad", get_retains_grad, nullptr, "Does this non-leaf tensor keep its gradient?", nullptr},
    {"output_nr", get_output_nr, nullptr, "Which output of grad_fn it is.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The node of the backward graph that it came from, or None.", nullptr},
    {"_grad_fn", get_grad_fn, nullptr, nullptr, nullptr},
    {"grad", get_grad, set_grad_property, "The gradient that backward() summed up, or None.", nullptr},
    {"_grad", get_grad, set_grad_property, nullptr, nullptr},
    {"data", get_data, set_data,
     "The same memory without history and with a version of its own; assigning replaces the memory.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace facula::python
