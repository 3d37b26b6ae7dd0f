#include <algorithm>
#include <sstream>

#include "ops/group_parts.h"
#include "ops/group_steps.h"

namespace facula::cuda {

namespace {

bool is_short(int32_t dtype) { return dtype == FACULA_FLOAT16 || dtype == FACULA_BFLOAT16; }

// Writes the group's formula: values of V elements, made step by step.
std::string text_of(const FaculaGroup& g, const PointwiseForm& form, const GroupParts& parts) {
  const StepText text(g, parts, [](int32_t value) { return "v" + std::to_string(value) + "[k]"; });
  std::ostringstream types, body;
  const int outs = g.noutputs, ins = static_cast<int>(parts.operands.size());
  for (int s = 0; s < g.nsteps; ++s) body << text.step(s, "V");
  std::string arguments, parameters;
  for (int i = 0; i < ins; ++i) {
    const int32_t value = parts.operands[static_cast<size_t>(i)], dtype = g.dtypes[value];
    types << "using I" << i << " = " << element_type(dtype) << ";\nusing A" << i << " = " << compute_type(dtype)
          << ";\n";
    arguments += ", a" + std::to_string(i);
    parameters += ", const A" + std::to_string(i) + " (&v" + std::to_string(value) + ")[V]";
  }
  for (int i = 0; i < outs; ++i) {
    const int32_t value = g.stored[i];
    types << "using O" << i << " = " << element_type(g.dtypes[value]) << ";\nusing Y" << i << " = "
          << text.made_type(value) << ";\n";
    arguments += ", y" + std::to_string(i);
    parameters += ", Y" + std::to_string(i) + " (&y" + std::to_string(i) + ")[V]";
    // What a step computed, before it was rounded to the dtype: the store rounds in the same way.
    body << "  _Pragma(\"unroll\") for (int k = 0; k < V; ++k) y" << i << "[k] = " << (text.is_made(value) ? "t" : "v")
         << value << "[k];\n";
  }
  std::string numbers;
  if (!text.members().empty()) {
    numbers = "const Numbers& numbers, ";
    types << "struct Numbers {\n" << text.members() << "};\n";
    arguments = ", p.numbers" + arguments;
  }
  types << "#undef FACULA_NUMBERS\n#define FACULA_GROUP 1\n"
        << form_defines(form, ins, outs) << "#define FACULA_NUMBERS " << (numbers.empty() ? "0" : "1")
        << "\n#define FACULA_GROUP_ARGS " << arguments.substr(2) << "\n";
  return std::string(parts.short_form ? "#define FACULA_SHORT 1\n" : "") +
         "#include \"facula/cuda/types.h\"\nnamespace facula {\n" + text.formulas() + types.str() +
         "template <int V>\nFD void group(" + numbers + parameters.substr(2) + ") {\n" + body.str() +
         "}\n}\n#include \"facula/cuda/pointwise.cu\"\n";
}

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
    if (step.nreduced > 0) {
      parts.formulas.push_back(nullptr);
      continue;
    }
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

std::string group_name(const FaculaGroup& group) {
  std::string name = "group";
  for (int32_t s = 0; s < std::min(group.nsteps, 8); ++s) name += std::string("_") + group.steps[s].op;
  return name + ".cu";
}

KernelSource group_source(const FaculaGroup& group, const PointwiseForm& form, const GroupParts& parts) {
  return {{group_name(group), text_of(group, form, parts), false}, "facula_pointwise"};
}

}  // namespace facula::cuda
