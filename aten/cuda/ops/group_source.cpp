#include <map>
#include <sstream>
#include <vector>

#include "ops/group.h"
#include "ops/group_parts.h"

namespace facula::cuda {

namespace {

bool is_short(int32_t dtype) { return dtype == FACULA_FLOAT16 || dtype == FACULA_BFLOAT16; }

// Writes the group's formula: values of V elements, made step by step.
class GroupText {
 public:
  GroupText(const FaculaGroup& group, const PointwiseForm& form, const GroupParts& parts)
      : g_(group), form_(form), parts_(parts) {}

  std::string text() {
    std::ostringstream head;
    if (parts_.short_form) head << "#define FACULA_SHORT 1\n";
    head << "#include \"facula/cuda/types.h\"\nnamespace facula {\n";
    formulas();
    steps();
    const int outs = g_.noutputs, ins = static_cast<int>(parts_.operands.size());
    std::string arguments, parameters;
    for (int i = 0; i < ins; ++i) {
      const int32_t value = parts_.operands[static_cast<size_t>(i)], dtype = g_.dtypes[value];
      types_ << "using I" << i << " = " << element_type(dtype) << ";\nusing A" << i << " = " << compute_type(dtype)
             << ";\n";
      arguments += ", a" + std::to_string(i);
      parameters += ", const A" + std::to_string(i) + " (&v" + std::to_string(value) + ")[V]";
    }
    for (int i = 0; i < outs; ++i) {
      const int32_t value = g_.stored[i];
      types_ << "using O" << i << " = " << element_type(g_.dtypes[value]) << ";\nusing Y" << i << " = "
             << made_type(value) << ";\n";
      arguments += ", y" + std::to_string(i);
      parameters += ", Y" + std::to_string(i) + " (&y" + std::to_string(i) + ")[V]";
      body_ << "  _Pragma(\"unroll\") for (int k = 0; k < V; ++k) y" << i << "[k] = " << made_name(value) << "[k];\n";
    }
    define("FACULA_GROUP", "1");
    defines_ += form_defines(form_, ins, outs);
    std::string numbers;
    if (!members_.str().empty()) {
      numbers = "const Numbers& numbers, ";
      types_ << "struct Numbers {\n" << members_.str() << "};\n";
      arguments = ", p.numbers" + arguments;
    }
    types_ << "#undef FACULA_NUMBERS\n";
    define("FACULA_NUMBERS", numbers.empty() ? "0" : "1");
    define("FACULA_GROUP_ARGS", arguments.substr(2));
    return head.str() + formulas_.str() + types_.str() + defines_ + "template <int V>\nFD void group(" + numbers +
           parameters.substr(2) + ") {\n" + body_.str() + "}\n}\n#include \"facula/cuda/pointwise.cu\"\n";
  }

 private:
  const FaculaGroup& g_;
  const PointwiseForm& form_;
  const GroupParts& parts_;
  std::ostringstream formulas_, types_, members_, body_;
  std::string defines_;
  std::vector<std::string> space_;                    // by step: the namespace of its formula
  std::map<int32_t, std::string> made_;               // by value: the type that its formula gives
  std::map<std::pair<int, int>, std::string> fills_;  // by input and type: the number's expression

  void define(const std::string& name, const std::string& value) { defines_ += "#define " + name + " " + value + "\n"; }
  std::string made_type(int32_t value) const {
    const auto at = made_.find(value);
    return at != made_.end() ? at->second : compute_type(g_.dtypes[value]);
  }
  // What a step computed, before it was rounded to the dtype: the store rounds in the same way.
  std::string made_name(int32_t value) const { return (made_.count(value) != 0 ? "t" : "v") + std::to_string(value); }

  void formulas() {
    std::map<std::pair<const FormulaSource*, int32_t>, std::string> known;
    for (int s = 0; s < g_.nsteps; ++s) {
      const FormulaSource* const f = parts_.formulas[static_cast<size_t>(s)];
      std::string& name = known[{f, g_.steps[s].compute}];
      if (name.empty()) {
        name = "f" + std::to_string(known.size());
        formulas_ << "#undef FACULA_NUMBERS\nnamespace " << name
                  << " {\nusing T = " << compute_type(g_.steps[s].compute) << ";\nusing R = math::real_t<T>;\n"
                  << f->text << "}\n";
      }
      space_.push_back(name);
    }
  }
  void steps() {
    for (size_t i = 0; i < parts_.formulas.size(); ++i) {
      if (parts_.formulas[i]->nnumbers > 0) members_ << "  " << space_[i] << "::Numbers n" << i << ";\n";
    }
    for (int s = 0; s < g_.nsteps; ++s) step(s);
    if (!parts_.fills.empty()) members_ << "  Slot fills[" << parts_.fills.size() << "];\n";
  }
  void step(int s) {
    const FaculaStep& step = g_.steps[s];
    const std::string& space = space_[static_cast<size_t>(s)];
    std::string arguments;
    const auto add = [&](const std::string& text) { arguments += (arguments.empty() ? "" : ", ") + text; };
    if (parts_.formulas[static_cast<size_t>(s)]->nnumbers > 0) add("numbers.n" + std::to_string(s));
    for (int i = 0; i < step.nins; ++i) {
      const std::string type = space + "::A" + std::to_string(i);
      if (const int fill = parts_.fill_of(g_, s, i); fill >= 0) {
        add("numbers.fills[" + std::to_string(fill) + "].template get<" + type + ">()");
      } else {
        add("convert<" + type + ">(v" + std::to_string(step.ins[i]) + "[k])");
      }
    }
    for (int i = 0; i < step.nouts; ++i) {
      const std::string type = space + "::Y" + std::to_string(i), value = std::to_string(step.outs[i]);
      body_ << "  " << type << " t" << value << "[V];\n";
      made_[step.outs[i]] = type;
      add("t" + value + "[k]");
    }
    body_ << "  _Pragma(\"unroll\") for (int k = 0; k < V; ++k) " << space << "::formula(" << arguments << ");\n";
    for (int i = 0; i < step.nouts; ++i) {
      const int32_t dtype = g_.dtypes[step.outs[i]];
      const std::string value = std::to_string(step.outs[i]);
      body_ << "  " << compute_type(dtype) << " v" << value << "[V];\n  rounded<" << element_type(dtype) << ">(t"
            << value << ", v" << value << ");\n";
    }
  }
};

}  // namespace

int GroupParts::fill_of(const FaculaGroup& group, int s, int i) const {
  const FaculaStep& step = group.steps[s];
  const int32_t want = (step.masks >> i & 1u) != 0 ? int32_t{FACULA_BOOL} : step.compute;
  for (size_t f = 0; f < fills.size(); ++f) {
    if (fills[f].input == step.ins[i] && fills[f].want == want) return static_cast<int>(f);
  }
  return -1;
}

GroupParts parts_of(const FaculaGroup& g, std::string& why) {
  GroupParts parts;
  for (int32_t i = 0; i < g.ninputs; ++i) {
    if ((g.tensors[i].flags & FACULA_HOST_SCALAR) == 0) parts.operands.push_back(i);
  }
  if (parts.operands.size() + static_cast<size_t>(g.noutputs) > static_cast<size_t>(kMaxGroupOperands)) {
    why = "a kernel takes " + std::to_string(kMaxGroupOperands) + " tensors";
  }
  const auto is_number = [&](int32_t value) {
    return value < g.ninputs && (g.tensors[value].flags & FACULA_HOST_SCALAR) != 0;
  };
  for (int32_t i = 0; i < g.noutputs; ++i) {
    if (is_number(g.stored[i])) why = "a number alone is stored";
  }
  size_t slots = 0;
  bool shortened = false, full = false;
  for (int32_t s = 0; s < g.nsteps; ++s) {
    const FaculaStep& step = g.steps[s];
    const FormulaSource* const f = find_formula(step.op, step.variant, class_of(step.compute));
    if (f == nullptr) {
      why = std::string("no formula of ") + step.op + " in this dtype";
      return parts;
    }
    parts.formulas.push_back(f);
    slots += static_cast<size_t>(f->nnumbers) + f->optional;
    if (f->short_form) {
      bool all_short = true;
      for (int32_t i = 0; i < step.nouts; ++i) all_short &= is_short(g.dtypes[step.outs[i]]);
      (all_short ? shortened : full) = true;
    }
    for (int32_t i = 0; i < step.nins; ++i) {
      if (!is_number(step.ins[i]) || parts.fill_of(g, s, i) >= 0) continue;
      parts.fills.push_back({step.ins[i], (step.masks >> i & 1u) != 0 ? int32_t{FACULA_BOOL} : step.compute});
    }
  }
  // Results of 16 bits are computed with less, and one program has one of the two ways.
  if (shortened && full) why = "results of 16 bits and of more";
  parts.short_form = shortened;
  if (slots + parts.fills.size() > 128) why = "more numbers than a kernel takes";
  return parts;
}

KernelSource group_source(const FaculaGroup& group, const PointwiseForm& form, const GroupParts& parts) {
  std::string name = "group";
  for (int32_t s = 0; s < std::min(group.nsteps, 8); ++s) name += std::string("_") + group.steps[s].op;
  return {{name + ".cu", GroupText(group, form, parts).text(), false}, "facula_pointwise"};
}

}  // namespace facula::cuda
