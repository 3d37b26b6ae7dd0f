#include "ops/group_steps.h"

namespace facula::cuda {

StepText::StepText(const FaculaGroup& group, const GroupParts& parts, std::function<std::string(int32_t)> read)
    : g_(group), parts_(parts), read_(std::move(read)) {
  std::map<std::pair<const FormulaSource*, int32_t>, std::string> known;
  std::ostringstream formulas, members;
  for (int s = 0; s < g_.nsteps; ++s) {
    const FormulaSource* const f = parts_.formulas[static_cast<size_t>(s)];
    if (f == nullptr) {
      space_.emplace_back();
      continue;
    }
    std::string& name = known[{f, g_.steps[s].compute}];
    if (name.empty()) {
      name = "f" + std::to_string(known.size());
      formulas << "#undef FACULA_NUMBERS\nnamespace " << name << " {\nusing T = " << compute_type(g_.steps[s].compute)
               << ";\nusing R = math::real_t<T>;\n"
               << f->text << "}\n";
    }
    space_.push_back(name);
    for (int i = 0; i < g_.steps[s].nouts; ++i) made_[g_.steps[s].outs[i]] = name + "::Y" + std::to_string(i);
    if (f->nnumbers > 0) members << "  " << name << "::Numbers n" << s << ";\n";
  }
  if (!parts_.fills.empty()) members << "  Slot fills[" << parts_.fills.size() << "];\n";
  formulas_ = formulas.str();
  members_ = members.str();
}

std::string StepText::made_type(int32_t value) const {
  const auto at = made_.find(value);
  return at != made_.end() ? at->second : compute_type(g_.dtypes[value]);
}

std::string StepText::step(int s, const std::string& width) const {
  const FaculaStep& step = g_.steps[s];
  const std::string& space = space_[static_cast<size_t>(s)];
  std::ostringstream body;
  std::string arguments;
  const auto add = [&](const std::string& text) { arguments += (arguments.empty() ? "" : ", ") + text; };
  if (parts_.formulas[static_cast<size_t>(s)]->nnumbers > 0) add("numbers.n" + std::to_string(s));
  for (int i = 0; i < step.nins; ++i) {
    const std::string type = space + "::A" + std::to_string(i);
    if (const int fill = parts_.fill_of(g_, s, i); fill >= 0) {
      add("numbers.fills[" + std::to_string(fill) + "].template get<" + type + ">()");
    } else {
      add("convert<" + type + ">(" + read_(step.ins[i]) + ")");
    }
  }
  for (int i = 0; i < step.nouts; ++i) {
    const std::string value = std::to_string(step.outs[i]);
    body << "  " << made_type(step.outs[i]) << " t" << value << "[" << width << "];\n";
    add("t" + value + "[k]");
  }
  body << "  _Pragma(\"unroll\") for (int k = 0; k < " << width << "; ++k) " << space << "::formula(" << arguments
       << ");\n";
  for (int i = 0; i < step.nouts; ++i) {
    const int32_t dtype = g_.dtypes[step.outs[i]];
    const std::string value = std::to_string(step.outs[i]);
    body << "  " << compute_type(dtype) << " v" << value << "[" << width << "];\n  rounded<" << element_type(dtype)
         << ">(t" << value << ", v" << value << ");\n";
  }
  return body.str();
}

}  // namespace facula::cuda
