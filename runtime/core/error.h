// Errors that reach Python as exceptions: one C++ class, the Python type is a tag.
#pragma once

#include <exception>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>

#define FACULA_API __attribute__((visibility("default")))

namespace facula {

enum class ErrorKind : unsigned char {
  Runtime,
  Value,
  Type,
  Index,
  NotImplemented,
  OutOfMemory,
  ZeroDivision,
  Overflow,
  Buffer,
};

class FACULA_API Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const noexcept { return kind_; }
  const std::string& message() const noexcept { return message_; }

 private:
  ErrorKind kind_;
  std::string message_;
};

// A device was asked for a tensor of a dtype that it has none of.
class FACULA_API MissingDtype : public Error {
 public:
  MissingDtype(std::string device, std::string dtype)
      : Error(ErrorKind::Type,
              "device '" + device + "' has no tensors of " + dtype + "; convert to another dtype first"),
        device(std::move(device)),
        dtype(std::move(dtype)) {}
  std::string device, dtype;
};

// Nothing computes an operator on a device for these arguments. `refusal` says what was there and did not take them.
class FACULA_API MissingKernel : public Error {
 public:
  MissingKernel(std::string message, std::string op, std::string device, std::string refusal)
      : Error(ErrorKind::NotImplemented, std::move(message)),
        op(std::move(op)),
        device(std::move(device)),
        refusal(std::move(refusal)) {}
  std::string op, device, refusal;
};

template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

template <typename... Parts>
[[noreturn]] __attribute__((cold, noinline)) void raise(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, concat(parts...));
}

// What a check calls its operator and arguments: the names of the schema.
struct Called {
  const char* op;
  std::initializer_list<const char*> names;
  const char* operator[](int i) const { return names.begin()[i]; }
};

}  // namespace facula

// FACULA_CHECK(condition, Value, "reshape(): ", ...): raises with the message parts when false.
#define FACULA_CHECK(condition, kind, ...)                                   \
  do {                                                                       \
    if (!(condition)) [[unlikely]] {                                         \
      ::facula::raise(::facula::ErrorKind::kind __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                        \
  } while (false)

// An invariant of facula itself; a failure is our fault, never the user's.
#define FACULA_ASSERT(condition) \
  FACULA_CHECK(condition, Runtime, "internal error: " #condition " at " __FILE__ ":", __LINE__, "; please report it")
