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
