// The text of a group with steps along rows. A row is gone through in phases: in each, elements are made of what is
// read and of what the phases before have found, and are reduced or stored.
#include <algorithm>

#include "ops/group_rows.h"
#include "ops/group_steps.h"

namespace facula::cuda {

namespace {

std::string number(int64_t n) { return std::to_string(n); }

class RowsText {
 public:
  RowsText(const FaculaGroup& g, const RowsForm& form, const GroupParts& parts)
      : g_(g),
        form_(form),
        parts_(parts),
        each_(g, parts, [this](int32_t v) { return whole_[at(v)] ? "v" + number(v) + "[k]" : "row.v" + number(v); }),
        once_(g, parts, [](int32_t v) { return "row.v" + number(v); }) {
    levels();
    hold();
  }

  std::string text() {
    std::ostringstream out;
    if (parts_.short_form) out << "#define FACULA_SHORT 1\n";
    const auto define = [&](const char* name, int value) { out << "#define " << name << " " << value << "\n"; };
    define("FACULA_GROUP", 1);
    define("FACULA_LANES", form_.lanes);
    define("FACULA_VEC", form_.vec);
    define("FACULA_ITEMS", form_.items);
    define("FACULA_TAILS", form_.tails);
    define("FACULA_HELD", form_.held);
    define("FACULA_GUARDED", form_.guarded);
    out << "#include \"facula/cuda/group_rows.h\"\nnamespace facula {\n"
        << each_.formulas() << "#undef FACULA_NUMBERS\n";
    if (!each_.members().empty()) out << "struct Numbers {\n" << each_.members() << "};\n";
    define("FACULA_OUTS", 1);
    for (int s = 0; s < g_.nsteps; ++s) out << operator_text(s);
    out << row_text() << inputs_text() << params_text();
    for (int p = 0; p < phases_; ++p) out << once_text(p) << each_text(p);
    out << "}\nusing namespace facula;\n" << kernel_text();
    return out.str();
  }

 private:
  const FaculaGroup& g_;
  const RowsForm& form_;
  const GroupParts& parts_;
  StepText each_, once_;
  std::vector<bool> whole_;  // by value: an element for each place, or one a row
  std::vector<int> ready_;   // the phase from which on it is known
  std::vector<int> held_;    // the phase that keeps it in registers for later ones; -1: each makes it again
  int phases_ = 1;

  static size_t at(int32_t v) { return static_cast<size_t>(v); }
  static std::string element(int32_t dtype) { return element_type(dtype); }
  std::string type(int32_t v) const { return compute_type(g_.dtypes[v]); }
  std::string made(int s) const { return number(g_.steps[s].outs[0]); }
  bool is_splat(int output) const { return (form_.splats >> output & 1u) != 0; }
  int outs() const { return g_.noutputs; }
  int ins() const { return static_cast<int>(parts_.operands.size()); }
  const RowOperator* along(int s) const {
    return g_.steps[s].nreduced > 0 ? find_row_operator(g_.steps[s].op) : nullptr;
  }
  bool is_softmax(int s) const { return along(s) != nullptr && along(s)->kind == RowOperator::kSoftmax; }
  // What a softmax computes in.
  std::string wide(int s) const {
    const FaculaStep& step = g_.steps[s];
    const bool wide = g_.dtypes[step.ins[0]] == FACULA_FLOAT64 || g_.dtypes[step.outs[0]] == FACULA_FLOAT64;
    return wide ? "double" : "float";
  }
  std::string exponential(int s) const {
    if (wide(s) == "double") return "::exp";
    return itemsize(g_.dtypes[g_.steps[s].outs[0]]) == 2 ? "__expf" : "::expf";
  }

  void levels() {
    whole_.assign(at(g_.nvalues), false);
    ready_.assign(at(g_.nvalues), 0);
    for (int32_t i = 0; i < g_.ninputs; ++i) whole_[at(i)] = (form_.whole >> i & 1u) != 0;
    for (int s = 0; s < g_.nsteps; ++s) {
      const FaculaStep& step = g_.steps[s];
      bool whole = is_softmax(s);
      int ready = 0;
      for (int i = 0; i < step.nins; ++i) {
        if (step.nreduced == 0) whole = whole || whole_[at(step.ins[i])];
        ready = std::max(ready, ready_[at(step.ins[i])]);
      }
      if (step.nreduced > 0) {
        ready += is_softmax(s) ? 2 : 1;
        phases_ = std::max(phases_, ready);
      }
      for (int i = 0; i < step.nouts; ++i) {
        whole_[at(step.outs[i])] = whole;
        ready_[at(step.outs[i])] = ready;
      }
    }
    for (int i = 0; i < outs(); ++i) phases_ = std::max(phases_, ready_[at(g_.stored[i])] + 1);
  }
  bool is_held(int32_t v, int phase) const { return held_[at(v)] >= 0 && held_[at(v)] < phase; }
  // The exponentials of a softmax, from the phase on that adds them up.
  bool holds_powers(int s) const { return form_.held && is_softmax(s) && along(s)->number == 0; }

  // Does the phase make the values of a step?
  bool makes(int s, int phase, const std::vector<bool>& wanted) const {
    const FaculaStep& step = g_.steps[s];
    bool any = false;
    for (int i = 0; i < step.nouts; ++i) {
      const int32_t v = step.outs[i];
      any |= whole_[at(v)] && wanted[at(v)] && !is_held(v, phase);
    }
    return any;
  }
  // What takes several operators to make, and is read again later, stays in registers.
  void hold() {
    constexpr int kCheap = 1;
    held_.assign(at(g_.nvalues), -1);
    if (!form_.held) return;
    for (int p = 0; p + 1 < phases_; ++p) {
      const std::vector<bool> now = needed(p);
      std::vector<int> cost(at(g_.nvalues), -1);  // of what the phase makes
      for (int s = 0; s < g_.nsteps; ++s) {
        const FaculaStep& step = g_.steps[s];
        if (!makes(s, p, now) || step.nouts != 1) continue;
        int sum = std::string_view(step.op) == "copy" ? 0 : 1;
        for (int i = 0; i < step.nins; ++i) sum += std::max(0, cost[at(step.ins[i])]);
        cost[at(step.outs[0])] = sum;
      }
      const auto read = [&](int32_t v) {
        if (cost[at(v)] > kCheap) held_[at(v)] = p;
      };
      for (int q = p + 1; q < phases_; ++q) {
        const std::vector<bool> later = needed(q);
        for (int s = 0; s < g_.nsteps; ++s) {
          if (takes(s, q)) read(g_.steps[s].ins[0]);
          if (!makes(s, q, later) || cost[at(g_.steps[s].outs[0])] >= 0) continue;
          if (holds_powers(s)) continue;
          for (int i = 0; i < g_.steps[s].nins; ++i) read(g_.steps[s].ins[i]);
        }
        for (int i = 0; i < outs(); ++i) {
          if (stores(i, q)) read(g_.stored[i]);
        }
      }
    }
  }

  // The phase in which a step along rows takes its input: for the first time, or (of softmax) the second.
  int taken(int s) const { return ready_[at(g_.steps[s].ins[0])]; }
  bool takes(int s, int phase) const {
    return along(s) != nullptr && (taken(s) == phase || (is_softmax(s) && taken(s) + 1 == phase));
  }
  bool stores(int output, int phase) const { return !is_splat(output) && ready_[at(g_.stored[output])] == phase; }

  // The operator's accumulator, as its kernel has it.
  std::string operator_text(int s) const {
    const RowOperator* const op = along(s);
    if (op == nullptr || op->kind == RowOperator::kSoftmax) return {};
    const FaculaStep& step = g_.steps[s];
    std::string text =
        "#undef FACULA_REDUCTION_KIND\n#undef FACULA_NORM\n#undef FACULA_REDUCTION_INDEX\n"
        "#undef FACULA_REDUCTION_START\n#undef FACULA_ORDER\nnamespace r" +
        number(s) + " {\nusing T = " + compute_type(step.compute) +
        ";\nusing R = math::real_t<T>;\nusing O0 = " + element(g_.dtypes[step.outs[0]]) +
        ";\nstruct ReduceParams { int64_t length; double numbers[2]; };\n";
    if (op->kind == RowOperator::kMoment) {
      text += "#define FACULA_REDUCTION_KIND " + number(op->number) +
              "\n#define FACULA_NORM 6\n"
              "#define FACULA_ORDER 1.0\n#include \"facula/cuda/moments.h\"\n";
    } else {
      text += std::string(find_reduction(step.op, class_of(step.compute))->text) +
              "#include \"facula/cuda/schema_reduction.h\"\n";
    }
    return text + "}\n";
  }

  std::string row_text() const {
    std::string text = "struct Row {\n";
    for (int32_t v = 0; v < g_.nvalues; ++v) {
      const bool is_number = v < g_.ninputs && (g_.tensors[v].flags & FACULA_HOST_SCALAR) != 0;
      if (!whole_[at(v)] && !is_number) text += "  " + type(v) + " v" + number(v) + ";\n";
    }
    for (int s = 0; s < g_.nsteps; ++s) {
      if (is_softmax(s)) text += "  " + wide(s) + " top" + made(s) + ", scale" + made(s) + ";\n";
    }
    return text + "};\n";
  }

  template <typename F>
  void each_whole_input(const F& f) const {
    for (int i = 0; i < ins(); ++i) {
      const int32_t v = parts_.operands[static_cast<size_t>(i)];
      if (whole_[at(v)]) f(i, v);
    }
  }

  std::string inputs_text() const {
    std::string members, vectors, singles;
    each_whole_input([&](int i, int32_t v) {
      const bool dense = (form_.loose >> i & 1u) == 0;
      members += "  Along<" + element(g_.dtypes[v]) + ", " + (dense ? "true" : "false") + "> in" + number(i) + ";\n";
      vectors += " in" + number(i) + ".load_vector(i, place);";
      singles += " in" + number(i) + ".load_single(i, place);";
    });
    return "struct Inputs {\n" + members + "  FD void load_vector(int i, int place) {" + vectors +
           " }\n  FD void load_single(int i, int place) {" + singles + " }\n};\n";
  }

  std::string params_text() const {
    const std::string count = number(outs() + ins()), dims = number(form_.dims);
    return "struct Params {\n  char* data[" + count + "];\n  int64_t rows, length;\n" +
           (each_.members().empty() ? "" : "  Numbers numbers;\n") + "  int64_t steps[" + count + "], strides[" + dims +
           "][" + count + "], sizes[" + dims + "];\n};\n";
  }
  std::string numbers_parameter() const { return each_.members().empty() ? "" : "const Numbers& numbers, "; }
  std::string numbers_argument() const { return each_.members().empty() ? "" : "p.numbers, "; }

  // Values of rows that are known from a phase on.
  std::string once_text(int phase) const {
    std::string text = "FD void once" + number(phase) + "(" + numbers_parameter() + "Row& row) {\n";
    for (int s = 0; s < g_.nsteps; ++s) {
      const FaculaStep& step = g_.steps[s];
      if (step.nreduced > 0 || whole_[at(step.outs[0])] || ready_[at(step.outs[0])] != phase) continue;
      text += "  {\n  constexpr int k = 0;\n" + once_.step(s, "1");
      for (int i = 0; i < step.nouts; ++i) {
        text += "  row.v" + number(step.outs[i]) + " = v" + number(step.outs[i]) + "[k];\n";
      }
      text += "  }\n";
    }
    return text + "}\n";
  }

  // Values that the phase takes or stores, and all that they are made of.
  std::vector<bool> needed(int phase) const {
    std::vector<bool> wanted(at(g_.nvalues), false);
    for (int s = 0; s < g_.nsteps; ++s) {
      if (takes(s, phase)) wanted[at(g_.steps[s].ins[0])] = true;
    }
    for (int i = 0; i < outs(); ++i) {
      if (stores(i, phase)) wanted[at(g_.stored[i])] = true;
    }
    for (int s = g_.nsteps; s-- > 0;) {
      const FaculaStep& step = g_.steps[s];
      const bool any = makes(s, phase, wanted) && !holds_powers(s);
      for (int i = 0; any && i < step.nins; ++i) wanted[at(step.ins[i])] = true;
    }
    return wanted;
  }

  // Calls f(parameter, argument, type, where it is read from) for all that passes between the kernel and a phase's
  // function.
  template <typename F>
  void each_array(int phase, const std::vector<bool>& wanted, const F& f) const {
    each_whole_input([&](int i, int32_t v) {
      if (wanted[at(v)])
        f("const " + type(v) + " (&v" + number(v) + ")[V]", "x" + number(i), type(v), "in.in" + number(i));
    });
    for (int32_t v = 0; v < g_.nvalues; ++v) {
      const std::string n = number(v);
      if (wanted[at(v)] && is_held(v, phase)) f("const " + type(v) + " (&v" + n + ")[V]", "v" + n, type(v), "kept" + n);
      if (held_[at(v)] == phase) f(type(v) + " (&h" + n + ")[V]", "h" + n, type(v), "");
    }
    for (int s = 0; s < g_.nsteps; ++s) {
      const std::string n = made(s);
      if (holds_powers(s) && makes(s, phase, wanted)) {
        f("const " + wide(s) + " (&e" + n + ")[V]", "e" + n, wide(s), "powers" + n);
      }
    }
    for (int s = 0; s < g_.nsteps; ++s) {
      if (!takes(s, phase)) continue;
      const std::string t = type(g_.steps[s].ins[0]);
      f(t + " (&s" + number(s) + ")[V]", "s" + number(s), t, "");
    }
    for (int i = 0; i < outs(); ++i) {
      if (!stores(i, phase)) continue;
      const std::string t = stored_type(g_.stored[i], phase);
      f(t + " (&y" + number(i) + ")[V]", "y" + number(i), t, "");
    }
  }
  // A step's value as it was computed, where there is one: the store rounds in the same way.
  bool is_computed(int32_t v) const {
    if (!whole_[at(v)]) return false;
    for (int s = 0; s < g_.nsteps; ++s) {
      if (is_softmax(s) && g_.steps[s].outs[0] == v) return true;
    }
    return each_.is_made(v);
  }
  std::string stored_type(int32_t v, int phase) const {
    if (is_held(v, phase)) return type(v);
    for (int s = 0; s < g_.nsteps; ++s) {
      if (is_softmax(s) && g_.steps[s].outs[0] == v) return wide(s);
    }
    return is_computed(v) ? each_.made_type(v) : type(v);
  }

  std::string each_text(int phase) const {
    const std::vector<bool> wanted = needed(phase);
    std::string parameters, body;
    each_array(phase, wanted, [&](const std::string& p, const std::string&, const std::string&, const std::string&) {
      parameters += ", " + p;
    });
    const std::string loop = "  _Pragma(\"unroll\") for (int k = 0; k < V; ++k) ";
    for (int s = 0; s < g_.nsteps; ++s) {
      const FaculaStep& step = g_.steps[s];
      if (!makes(s, phase, wanted)) continue;
      if (!is_softmax(s)) {
        body += each_.step(s, "V");
        continue;
      }
      const std::string v = made(s),
                        away = "below(convert<" + wide(s) + ">(" + name(step.ins[0]) + "), row.top" + v + ")";
      body += "  " + wide(s) + " t" + v + "[V];\n" + loop + "t" + v + "[k] = " +
              (along(s)->number != 0 ? "(" + away + ") - row.scale" + v
               : holds_powers(s)     ? "e" + v + "[k] * row.scale" + v
                                     : exponential(s) + "(" + away + ") * row.scale" + v) +
              ";\n  " + type(step.outs[0]) + " v" + v + "[V];\n  rounded<" + element(g_.dtypes[step.outs[0]]) + ">(t" +
              v + ", v" + v + ");\n";
    }
    for (int s = 0; s < g_.nsteps; ++s) {
      if (takes(s, phase)) body += loop + "s" + number(s) + "[k] = " + name(g_.steps[s].ins[0]) + ";\n";
    }
    for (int32_t v = 0; v < g_.nvalues; ++v) {
      if (held_[at(v)] == phase) body += loop + "h" + number(v) + "[k] = v" + number(v) + "[k];\n";
    }
    for (int i = 0; i < outs(); ++i) {
      const int32_t v = g_.stored[i];
      if (!stores(i, phase)) continue;
      body += loop + "y" + number(i) +
              "[k] = " + (is_computed(v) && !is_held(v, phase) ? "t" + number(v) + "[k]" : name(v)) + ";\n";
    }
    return "template <int V>\nFD void each" + number(phase) + "(" + numbers_parameter() + "const Row& row" +
           parameters + ") {\n" + body + "}\n";
  }
  std::string name(int32_t v) const { return whole_[at(v)] ? "v" + number(v) + "[k]" : "row.v" + number(v); }

  std::string kernel_text() const {
    std::ostringstream out;
    out << "extern \"C\" __global__ void __launch_bounds__(kRowThreads) facula_group_rows(const __grid_constant__ "
           "Params "
           "p) {\n"
           "  const int64_t own = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + threadIdx.x / FACULA_LANES;\n"
           "  const bool real = own < p.rows;\n"  // others do the last row again, and store nothing
           "  const int length = static_cast<int>(p.length);\n"
           "  const char* data["
        << outs() + ins() << "];\n  int64_t rest = real ? own : p.rows - 1;\n"
        << "  _Pragma(\"unroll\") for (int i = 0; i < " << outs() + ins() << "; ++i) data[i] = p.data[i];\n"
        << "  _Pragma(\"unroll\") for (int d = 0; d < " << form_.dims << "; ++d) {\n"
        << "    const int64_t next = d + 1 < " << form_.dims << " ? rest / p.sizes[d] : 0;\n"
        << "    const int64_t here = rest - next * p.sizes[d];\n"
        << "    _Pragma(\"unroll\") for (int i = 0; i < " << outs() + ins() << "; ++i) data[i] += (d + 1 < "
        << form_.dims << " ? here : rest) * p.strides[d][i];\n    rest = next;\n  }\n"
        << "  Inputs in;\n  Row row;\n";
    for (int i = 0; i < ins(); ++i) {
      const int32_t v = parts_.operands[static_cast<size_t>(i)];
      const std::string place = "data[" + number(outs() + i) + "]";
      if (whole_[at(v)]) {
        out << "  in.in" << i << ".at = " << place << ";\n  in.in" << i << ".step = p.steps[" << outs() + i << "];\n";
      } else {
        out << "  row.v" << v << " = load<" << type(v) << ">(*reinterpret_cast<const " << element(g_.dtypes[v]) << "*>("
            << place << "));\n";
      }
    }
    for (int32_t v = 0; v < g_.nvalues; ++v) {
      if (held_[at(v)] >= 0) out << "  Along<" << element(g_.dtypes[v]) << ", true> kept" << v << ";\n";
    }
    for (int s = 0; s < g_.nsteps; ++s) {
      if (holds_powers(s)) out << "  Along<" << wide(s) << ", true> powers" << made(s) << ";\n";
    }
    out << "  load_held(in, length);\n  OrderedReduction ordered;\n  RowReduction across;\n"
           "  const bool first = real && threadIdx.x % FACULA_LANES == 0;\n";
    for (int p = 0; p < phases_; ++p) out << phase_text(p);
    out << "}\n";
    return out.str();
  }

  std::string phase_text(int phase) const {
    std::ostringstream out;
    out << "  once" << phase << "(" << numbers_argument() << "row);\n";
    for (int i = 0; i < outs(); ++i) {
      const int32_t v = g_.stored[i];
      if (!is_splat(i) || ready_[at(v)] != phase) continue;
      const std::string o = element(g_.dtypes[v]);
      out << "  if (first) *reinterpret_cast<" << o << "*>(const_cast<char*>(data[" << i << "])) = facula::element<"
          << o << ">(row.v" << v << ");\n";
    }
    const std::vector<bool> wanted = needed(phase);
    std::string arrays, arguments, before, within, after;
    each_array(phase, wanted,
               [&](const std::string&, const std::string& name, const std::string& t, const std::string& from) {
                 arrays += "    " + t + " " + name + "[V];\n";
                 if (!from.empty()) arrays += "    " + from + ".get(w, i, " + name + ");\n";
                 arguments += ", " + name;
               });
    for (int s = 0; s < g_.nsteps; ++s) {
      if (takes(s, phase)) take_text(s, phase, before, within, after);
    }
    for (int i = 0; i < outs(); ++i) {
      if (!stores(i, phase)) continue;
      const std::string o = element(g_.dtypes[g_.stored[i]]);
      within += "    Vector<" + o + ", V> z" + number(i) + ";\n    z" + number(i) + ".set(y" + number(i) +
                ");\n    if (real) z" + number(i) + ".store(reinterpret_cast<" + o + "*>(const_cast<char*>(data[" +
                number(i) + "])) + place);\n";
    }
    if (arguments.empty()) return out.str();
    for (int32_t v = 0; v < g_.nvalues; ++v) {
      if (held_[at(v)] == phase) within += "    kept" + number(v) + ".put(w, i, h" + number(v) + ");\n";
    }
    out << "  {\n"
        << before
        << "  each(in, length, [&](auto w, int i, int place, int u, bool four) {\n    constexpr int V = w.value;\n"
        << arrays << "    each" << phase << "<V>(" << numbers_argument() << "row" << arguments << ");\n"
        << within << "  });\n"
        << after << "  }\n";
    return out.str();
  }

  void take_text(int s, int phase, std::string& before, std::string& within, std::string& after) const {
    const std::string n = number(s), v = made(s), loop = "    _Pragma(\"unroll\") for (int k = 0; k < V; ++k) ";
    if (!is_softmax(s)) {
      const std::string r = "r" + n + "::facula::Reduction";
      before += "  Partial<" + r + "> part" + n + ";\n";
      within += "    part" + n + ".template add<r" + n + "::T>(w, s" + n + ", place, u, four);\n";
      after += "  const r" + n + "::ReduceParams q" + n + "{p.length, {}};\n  r" + n + "::O0 made" + n +
               ";\n  char* const to" + n + "[1] = {reinterpret_cast<char*>(&made" + n + ")};\n  " + r +
               "::finish(ordered.over(part" + n + "), q" + n + ", to" + n + ");\n  row.v" + v + " = load<" +
               type(g_.steps[s].outs[0]) + ">(made" + n + ");\n";
      return;
    }
    const std::string x = "convert<" + wide(s) + ">(s" + n + "[k])";
    if (taken(s) == phase) {
      before += "  " + wide(s) + " top" + n + " = -math::infinity<" + wide(s) + ">;\n";
      within += loop + "top" + n + " = Largest::join(" + x + ", top" + n + ");\n";
      after += "  row.top" + v + " = across.over<Largest>(top" + n + ");\n";
    } else {
      before += "  " + wide(s) + " sum" + n + " = 0;\n";
      within += "    " + wide(s) + " e" + v + "[V];\n" + loop + "e" + v + "[k] = " + exponential(s) + "(below(" + x +
                ", row.top" + v + "));\n" + loop + "sum" + n + " += e" + v + "[k];\n";
      if (holds_powers(s)) within += "    powers" + v + ".put(w, i, e" + v + ");\n";
      after += "  sum" + n + " = sum_below(across.over<Add>(sum" + n + "), row.top" + v + ");\n  row.scale" + v +
               " = " + (along(s)->number == 0 ? wide(s) + "(1) / sum" + n : "math::log(sum" + n + ")") + ";\n";
    }
  }
};

}  // namespace

KernelSource rows_source(const FaculaGroup& g, const RowsForm& form, const GroupParts& parts) {
  return {{group_name(g), RowsText(g, form, parts).text(), false}, "facula_group_rows"};
}

}  // namespace facula::cuda
