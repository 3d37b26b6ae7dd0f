// autograd.Function: a node whose backward is a Python function.
#pragma once

#include <string>

#include "runtime/autograd/function.h"
#include "runtime/bindings/types/types.h"

namespace facula::python {

class PythonFunctionNode final : public CustomNode {
 public:
  // `function` is the subclass of Function, `context` its ctx.
  PythonFunctionNode(PyObject* function, PyObject* context);
  ~PythonFunctionNode() override;
  const char* name() const override { return name_.c_str(); }
  void backward(std::span<const Tensor> grads, std::span<Tensor> results) override;
  PyObject* context() const { return context_; }
  PyObject* function() const { return function_; }

 private:
  PyObject* function_;
  PyObject* context_;
  std::string name_;
};

bool init_function_type(PyObject* module);

}  // namespace facula::python
