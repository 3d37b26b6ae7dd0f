// What a node keeps of its call, by schema names: for Python's `grad_fn._saved_*`, and for messages.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/autograd/saved_tensor.h"

namespace facula {

class FACULA_API SavedFields {
 public:
  using Value = std::variant<std::monostate, const SavedTensor*, const std::vector<SavedTensor>*, bool, int64_t, double,
                             Scalar, DimVector, std::string, ScalarType, Device>;
  struct Field {
    const char* name;
    Value value;
  };

  void add(const char* name, const SavedTensor& t) { add_value(name, &t); }
  void add(const char* name, const std::vector<SavedTensor>& list) { add_value(name, &list); }
  void add(const char* name, bool v) { add_value(name, v); }
  void add(const char* name, int64_t v) { add_value(name, v); }
  void add(const char* name, double v) { add_value(name, v); }
  void add(const char* name, const Scalar& v) { add_value(name, v); }
  void add(const char* name, const DimVector& v) { add_value(name, v); }
  void add(const char* name, const std::string& v) { add_value(name, v); }
  void add(const char* name, ScalarType v) { add_value(name, v); }
  void add(const char* name, Device v) { add_value(name, v); }
  template <typename T>
  void add(const char* name, const std::optional<T>& v) {
    v ? add(name, *v) : add_value(name, {});
  }
  const std::vector<Field>& list() const { return list_; }

 private:
  void add_value(const char* name, Value value);
  std::vector<Field> list_;
};

}  // namespace facula
