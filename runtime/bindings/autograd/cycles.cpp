#include "runtime/bindings/autograd/cycles.h"

#include <cstring>
#include <unordered_map>

#include "runtime/autograd/meta.h"
#include "runtime/bindings/autograd/hooks.h"

namespace facula::python {

namespace {

PyTypeObject* vertex_type = nullptr;

// Stands for a node, for memory of Python's, or for a tensor without an object, while a collection goes on.
struct VertexObject {
  PyObject_HEAD uint32_t vertex;
};

// A tensor, a node or memory, which the search holds, with what it had when the search began.
struct Vertex {
  Tensor tensor;
  intrusive_ptr<Node> node;
  Storage storage;
  uint32_t references = 0;      // C++ ones, without the search's
  uint32_t first = 0, end = 0;  // of the edges
  PyObject* object = nullptr;   // whom the collector sees
  bool is_ours = false;         // a VertexObject
  uint32_t count() const {
    return (node ? node->use_count() : storage ? storage->use_count() : tensor.impl()->use_count()) - 1;
  }
};

struct Search {
  std::vector<Vertex> vertices{1};  // number 0 is none
  std::vector<uint32_t> edges;
  bool is_checked = false, is_valid = false;

  // Other callbacks may have run Python since.
  bool check() {
    if (is_checked) return is_valid;
    is_checked = is_valid = true;
    for (size_t i = 1; i < vertices.size(); ++i) is_valid = is_valid && vertices[i].count() == vertices[i].references;
    return is_valid;
  }
};

Search* current = nullptr;  // guarded by Python's lock; without one there is a search only where there is one thread

// ---- before a collection ----

PyObject* owner_of(const TensorImpl& t) { return t.storage ? leading_owner(*t.storage) : nullptr; }

bool may_lead_on(const TensorImpl& t) { return t.base || t.autograd || owner_of(t) != nullptr; }

// The tensors and nodes that Python's objects hold.
class Roots {
 public:
  // False when there is nothing that could lead from C++ back to Python.
  bool find() {
    list_ = suspects();
    bool any = !list_.empty() || python_links.load(std::memory_order_relaxed) != 0;
    {
      const Ref get = import_attribute("gc", "get_objects");
      const Ref all(check(PyObject_CallNoArgs(get.get())));
      const Py_ssize_t n = PyList_GET_SIZE(all.get());
      for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject* o = PyList_GET_ITEM(all.get(), i);
        if (PyObject_TypeCheck(o, node_type)) {
          nodes_.push_back(o);
          any = true;
        } else if (is_tensor(o) && tensor_of(o).defined()) {
          list_.push_back(tensor_of(o));
          any = any || as_tensor_object(o)->dict != nullptr || Py_TYPE(o)->tp_basicsize > basic_size();
        }
      }
      if (!any) return false;
      // Plain tensors within containers, which the collector does not know.
      for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject* o = PyList_GET_ITEM(all.get(), i);
        if (o != all.get()) Py_TYPE(o)->tp_traverse(o, note, &list_);
      }
    }
    return true;
  }
  const std::vector<Tensor>& tensors() const { return list_; }
  const std::vector<PyObject*>& nodes() const { return nodes_; }

 private:
  static Py_ssize_t basic_size() { return tensor_type->tp_basicsize; }
  static int note(PyObject* o, void* list) {
    if (Py_TYPE(o) != tensor_type || as_tensor_object(o)->tracked) return 0;
    const Tensor& t = tensor_of(o);
    if (t.defined() && may_lead_on(*t.impl())) static_cast<std::vector<Tensor>*>(list)->push_back(t);
    return 0;
  }

  std::vector<Tensor> list_;
  std::vector<PyObject*> nodes_;
};

class Builder {
 public:
  explicit Builder(Search& search) : search_(search) {}

  uint32_t add(TensorImpl* t) {
    const auto [at, fresh] = index_.try_emplace(t, static_cast<uint32_t>(search_.vertices.size()));
    if (fresh) {
      Vertex& v = search_.vertices.emplace_back();
      v.tensor = Tensor(intrusive_ptr<TensorImpl>::share(t));
    }
    return at->second;
  }
  uint32_t add(Node* n) {
    const auto [at, fresh] = index_.try_emplace(n, static_cast<uint32_t>(search_.vertices.size()));
    if (fresh) {
      Vertex& v = search_.vertices.emplace_back();
      v.node = intrusive_ptr<Node>::share(n);
    }
    return at->second;
  }
  uint32_t add(StorageImpl* s) {
    const auto [at, fresh] = index_.try_emplace(s, static_cast<uint32_t>(search_.vertices.size()));
    if (fresh) {
      Vertex& v = search_.vertices.emplace_back();
      v.storage = Storage::share(s);
    }
    return at->second;
  }
  // All that those added lead to.
  void follow() {
    Kept kept;
    for (size_t i = 1; i < search_.vertices.size(); ++i) {
      const auto first = static_cast<uint32_t>(search_.edges.size());
      if (Node* node = search_.vertices[i].node.get(); node != nullptr) {
        for (const Edge& edge : node->edges()) to(edge.node.get());
        kept.tensors.clear();
        kept.nodes.clear();
        node->kept(kept);
        for (TensorImpl* t : kept.tensors) to(t);
        for (Node* n : kept.nodes) to(n);
      } else if (!search_.vertices[i].storage) {
        const TensorImpl& t = *search_.vertices[i].tensor.impl();
        to(t.base.get());
        if (owner_of(t) != nullptr) to(t.storage.get());
        if (const AutogradMeta* meta = t.autograd.get(); meta != nullptr) {
          to(meta->grad().impl());
          to(meta->grad_fn.get());
          if (meta->forward) to(meta->forward->tangent.impl());
        }
      }
      search_.vertices[i].first = first;
      search_.vertices[i].end = static_cast<uint32_t>(search_.edges.size());
    }
  }

 private:
  template <typename T>
  void to(T* target) {
    if (target != nullptr) search_.edges.push_back(add(target));
  }
  Search& search_;
  std::unordered_map<const void*, uint32_t> index_;
};

// Without Python's lock others may change graphs, and counts of references, at any time.
bool is_alone() {
  if constexpr (kHasGil) return true;
  const Ref function = import_attribute("sys", "_current_frames");
  const Ref frames(check(PyObject_CallNoArgs(function.get())));
  return PyDict_Size(frames.get()) == 1;
}

void begin() {
  if (current != nullptr || ReleaseGil::is_released() || !is_alone()) return;
  auto search = std::make_unique<Search>();
  {
    Roots roots;
    if (!roots.find()) return;
    Builder builder(*search);
    for (const Tensor& t : roots.tensors()) builder.add(t.impl());
    for (PyObject* o : roots.nodes()) {
      auto* node = reinterpret_cast<NodeObject*>(o);
      if (!node->node) continue;
      node->vertex = builder.add(node->node.get());
    }
    builder.follow();
  }
  for (size_t i = 1; i < search->vertices.size(); ++i) {
    Vertex& v = search->vertices[i];
    v.references = v.count();
    PyObject* object = v.tensor.defined() ? v.tensor.impl()->pyobject : nullptr;
    if (object != nullptr) {
      v.object = object;
      track(object);
      as_tensor_object(object)->vertex = static_cast<uint32_t>(i);
      // One of them is the object's own, or the object is the tensor's, which is one of the object's references.
      Py_SET_REFCNT(object, Py_REFCNT(object) + (v.references - 1));
    } else if (v.references > 0) {
      auto* o = PyObject_GC_New(VertexObject, vertex_type);
      if (o == nullptr) {
        PyErr_Clear();
        search->is_checked = true;  // and not valid
        continue;
      }
      v.object = reinterpret_cast<PyObject*>(o);
      v.is_ours = true;
      o->vertex = static_cast<uint32_t>(i);
      Py_SET_REFCNT(v.object, static_cast<Py_ssize_t>(v.references));
      PyObject_GC_Track(v.object);
    }
  }
  current = search.release();
}

// ---- after it ----

void take_back(PyObject* object, Py_ssize_t references) {
  if (references == 0) return;
  Py_SET_REFCNT(object, Py_REFCNT(object) - (references - 1));
  Py_DECREF(object);
}

void end() {
  const std::unique_ptr<Search> search(std::exchange(current, nullptr));
  if (!search) return;
  for (Vertex& v : search->vertices) {
    if (v.object != nullptr && !v.is_ours) as_tensor_object(v.object)->vertex = 0;
  }
  for (Vertex& v : search->vertices) {
    if (v.object == nullptr) continue;
    if (v.is_ours) {
      reinterpret_cast<VertexObject*>(v.object)->vertex = 0;
      take_back(v.object, static_cast<Py_ssize_t>(v.references));
    } else {
      take_back(v.object, static_cast<Py_ssize_t>(v.references) - 1);
    }
  }
}

// gc.callbacks calls it with "start" or "stop", and a dict.
PyObject* on_collection(PyObject*, PyObject* args) {
  const char* phase = nullptr;
  PyObject* info = nullptr;
  if (PyArg_ParseTuple(args, "sO!", &phase, &PyDict_Type, &info) == 0) return nullptr;
  FACULA_PY_TRY
  if (std::strcmp(phase, "stop") == 0) {
    end();
  } else if (PyObject* generation = PyDict_GetItemString(info, "generation");
             !kHasGil || (generation != nullptr && PyLong_AsLong(generation) == 2)) {
    begin();  // without Python's lock there are no generations: each collection is a full one
  }
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

int vertex_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const uint32_t vertex = reinterpret_cast<VertexObject*>(self)->vertex;
  return in_search(vertex) ? visit_vertex(vertex, visit, arg) : 0;
}
int vertex_clear(PyObject* self) {
  const uint32_t vertex = reinterpret_cast<VertexObject*>(self)->vertex;
  if (in_search(vertex) && is_unchanged(vertex)) clear_vertex(vertex);
  return 0;
}
void vertex_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}
PyType_Slot vertex_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(vertex_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(vertex_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(vertex_clear)},
    {0, nullptr},
};
PyType_Spec vertex_spec = {"facula._C._Vertex", sizeof(VertexObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, vertex_slots};

const PyMethodDef on_collection_def = {"_on_collection", on_collection, METH_VARARGS, nullptr};

}  // namespace

bool in_search(uint32_t vertex) {
  return vertex != 0 && current != nullptr && vertex < current->vertices.size() && current->check();
}

PyObject* object_of(uint32_t vertex) { return current->vertices[vertex].object; }

int visit_vertex(uint32_t vertex, visitproc visit, void* arg) {
  const Vertex& v = current->vertices[vertex];
  for (uint32_t i = v.first; i < v.end; ++i) Py_VISIT(current->vertices[current->edges[i]].object);
  if (v.node) return visit_hooks(*v.node, visit, arg);
  if (v.storage) {
    Py_VISIT(leading_owner(*v.storage));
    return 0;
  }
  const AutogradMeta* meta = autograd_meta_or_null(v.tensor);
  return meta != nullptr ? visit_hooks(*meta, visit, arg) : 0;
}

bool is_unchanged(uint32_t vertex) {
  const Vertex& v = current->vertices[vertex];
  return v.count() <= v.references;  // what was cleared before may have held it
}

void clear_vertex(uint32_t vertex) {
  const Vertex& v = current->vertices[vertex];
  if (v.node) return clear_hooks(*v.node);
  if (v.storage) return;
  if (const AutogradMeta* meta = autograd_meta_or_null(v.tensor)) clear_hooks(*meta);
  let_go(v.tensor);
}

bool init_cycles(PyObject* module) {
  vertex_type = add_type(module, &vertex_spec);
  if (vertex_type == nullptr) return false;
  const Ref function(PyCFunction_New(const_cast<PyMethodDef*>(&on_collection_def), nullptr));
  const Ref callbacks = import_attribute("gc", "callbacks");
  return function && PyList_Append(callbacks.get(), function.get()) == 0;
}

}  // namespace facula::python
