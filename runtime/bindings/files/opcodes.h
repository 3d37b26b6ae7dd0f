// The opcodes of pickles, protocols 0 to 5, and their arguments. Source: Lib/pickletools.py of CPython.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace facula::python {

// How an opcode's argument follows it: a number of n bytes, bytes after a length of n bytes, lines.
enum class Form : uint8_t { Unknown, Bare, Number, Signed, Bytes, Line, TwoLines };
struct Argument {
  Form form = Form::Unknown;
  uint8_t size = 0;
};
constexpr std::array<Argument, 256> arguments_of_opcodes() {
  std::array<Argument, 256> table;
  const auto set = [&table](std::string_view ops, Form form, uint8_t size) {
    for (const char op : ops) table[static_cast<uint8_t>(op)] = {form, size};
  };
  set("(.012NR]}abdelstu)Q\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94", Form::Bare, 0);
  set("Khq\x80", Form::Number, 1);
  set("M", Form::Number, 2);
  set("jr", Form::Number, 4);
  set("G\x95", Form::Number, 8);
  set("J", Form::Signed, 4);
  set("CU\x8a\x8c", Form::Bytes, 1);
  set("BTX\x8b", Form::Bytes, 4);
  set("\x8d\x8e\x96", Form::Bytes, 8);
  set("FILPSVgp", Form::Line, 0);
  set("c", Form::TwoLines, 0);
  return table;
}
inline constexpr std::array<Argument, 256> kArguments = arguments_of_opcodes();

// One opcode with its argument.
struct Step {
  uint8_t op = 0;
  uint64_t number = 0;
  std::string_view text, second;
};
enum class Found : uint8_t { All, CutShort, Unknown, TooLong };

inline uint64_t little_endian(std::string_view bytes) {
  uint64_t n = 0;
  std::memcpy(&n, bytes.data(), bytes.size());
  return n;
}

// Takes a pickle apart; every step is within the data.
class Reader {
 public:
  Reader(std::string_view data, size_t at) : data_(data), at_(at) {}
  size_t at() const { return at_; }

  Found next(Step& step) {
    std::string_view op;
    if (!take(1, op)) return Found::CutShort;
    step.op = static_cast<uint8_t>(op[0]);
    const Argument argument = kArguments[step.op];
    switch (argument.form) {
      case Form::Bare:
        return Found::All;
      case Form::Line:
        return line(step.text) ? Found::All : Found::CutShort;
      case Form::TwoLines:
        return line(step.text) && line(step.second) ? Found::All : Found::CutShort;
      case Form::Number:
      case Form::Signed:
      case Form::Bytes:
        break;
      case Form::Unknown:
        return Found::Unknown;
    }
    std::string_view raw;
    if (!take(argument.size, raw)) return Found::CutShort;
    step.number = little_endian(raw);
    if (argument.form == Form::Bytes && !take(step.number, step.text)) return Found::TooLong;
    return Found::All;
  }

 private:
  bool take(size_t count, std::string_view& taken) {
    if (count > data_.size() - at_) return false;
    taken = data_.substr(at_, count);
    at_ += count;
    return true;
  }
  bool line(std::string_view& text) {
    const size_t end = data_.find('\n', at_);
    if (end == std::string_view::npos) return false;
    text = data_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }

  std::string_view data_;
  size_t at_;
};

}  // namespace facula::python
