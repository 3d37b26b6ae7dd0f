// Errors that reach Python as exceptions: one C++ class, whose facts are the exception's attributes.
#pragma once

#include <exception>
#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#define FACULA_API __attribute__((visibility("default")))

namespace facula {

// What is wrong. Each kind has one Python exception, and `kind` of that is the kind's name; see bindings/errors.cpp.
enum class ErrorKind : unsigned char {
  Runtime,
  Shape,
  Dtype,
  UnfitDtype,  // a dtype that something is not defined for at all
  Layout,      // of tensors that are not strided
  Device,
  Values,    // what depends on values, of tensors that have none
  Aliasing,  // memory that tensors share, or one tensor with itself
  Value,
  Type,
  Index,
  NotImplemented,
  NoDerivative,
  OutOfMemory,
  ZeroDivision,
  Overflow,
  Buffer,
  LinAlg,  // values for which linear algebra has no result, of a singular matrix, say
};

// Parts of a message that are facts. Operator: whose call it is, which the text does not repeat; from where it is
// known, the argument as well.
struct Operator {
  explicit Operator(std::string_view name, std::string_view argument = {}) : name(name), argument(argument) {}
  explicit Operator(const char* name, std::string_view argument = {})
      : name(name != nullptr ? name : ""), argument(argument) {}
  std::string_view name, argument;
};
// The name of an argument, which is part of the text too. The first one is what the error is about.
struct Argument {
  std::string_view name;
};

class FACULA_API Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string text) : Error(kind, {}, {}, std::move(text)) {}
  Error(ErrorKind kind, std::string op, std::string argument, std::string text)
      : kind_(kind), op_(std::move(op)), argument_(std::move(argument)), text_(std::move(text)) {
    message_ = message_of(op_);
  }
  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const noexcept { return kind_; }
  // The operator that found the fault; who called another one, which is made of it, is told of that.
  const std::string& op() const noexcept { return op_; }
  const std::string& argument() const noexcept { return argument_; }
  const std::string& text() const noexcept { return text_; }
  const std::string& message() const noexcept { return message_; }
  // The text as of a call of `op`: the one place that puts a name before it.
  std::string message_of(std::string_view op) const {
    return op.empty() ? text_ : std::string(op).append("(): ").append(text_);
  }

 private:
  ErrorKind kind_;
  std::string op_, argument_, text_, message_;
};

// A device was asked for a tensor of a dtype that it has none of.
class FACULA_API MissingDtype : public Error {
 public:
  MissingDtype(std::string device, std::string dtype)
      : Error(ErrorKind::UnfitDtype,
              "device '" + device + "' has no tensors of " + dtype + "; convert to another dtype first"),
        device(std::move(device)),
        dtype(std::move(dtype)) {}
  std::string device, dtype;
};

// Nothing computes an operator on a device for these arguments: `kernel`, which is `op` or one that it is made of.
// `refusal` says what was there and did not take them.
class FACULA_API MissingKernel : public Error {
 public:
  MissingKernel(std::string text, std::string op, std::string kernel, std::string device, std::string refusal)
      : Error(ErrorKind::NotImplemented, std::move(op), {}, std::move(text)),
        kernel(std::move(kernel)),
        device(std::move(device)),
        refusal(std::move(refusal)) {}
  std::string kernel, device, refusal;
};

template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

template <typename... Parts>
[[noreturn]] __attribute__((cold, noinline)) void raise(ErrorKind kind, const Parts&... parts) {
  std::ostringstream text;
  std::string_view op, argument;
  const auto add = [&](const auto& part) {
    using Part = std::remove_cvref_t<decltype(part)>;
    if constexpr (std::is_same_v<Part, Operator>) {
      op = part.name;
      argument = part.argument;
    } else if constexpr (std::is_same_v<Part, Argument>) {
      if (argument.empty()) argument = part.name;
      text << part.name;
    } else {
      text << part;
    }
  };
  (add(parts), ...);
  throw Error(kind, std::string(op), std::string(argument), std::move(text).str());
}

// What a check calls its operator and arguments: the names of the schema.
struct Called {
  const char* op;
  std::initializer_list<const char*> names;
  Argument operator[](int i) const { return {names.begin()[i]}; }
};

}  // namespace facula

// FACULA_CHECK(condition, Value, Operator{op}, ...): raises with the message parts when false.
#define FACULA_CHECK(condition, kind, ...)                                   \
  do {                                                                       \
    if (!(condition)) [[unlikely]] {                                         \
      ::facula::raise(::facula::ErrorKind::kind __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                        \
  } while (false)

// An invariant of facula itself; a failure is our fault, never the user's.
#define FACULA_ASSERT(condition) \
  FACULA_CHECK(condition, Runtime, "internal error: " #condition " at " __FILE__ ":", __LINE__, "; please report it")
