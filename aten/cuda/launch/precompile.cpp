#include "launch/precompile.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "ops/pointwise.h"

namespace facula::cuda {

namespace {

std::vector<SourceLister>& listers() {
  static auto* const l = new std::vector<SourceLister>;
  return *l;
}

// Formulas of one class, each called by a small kernel.
KernelSource formulas_together(const std::string& type_class, int32_t compute, size_t first, size_t last) {
  std::string text = "#include \"facula/cuda/types.h\"\nnamespace facula {\n";
  text += std::string("using T = ") + compute_type(compute) + ";\nusing R = math::real_t<T>;\n";
  size_t number = 0;
  for (const FormulaSource& f : formula_sources()) {
    if (f.type_class != type_class || number++ < first || number > last) continue;
    const std::string n = "formula" + std::to_string(number);
    text += "#undef FACULA_NUMBERS\nnamespace " + n + " {\n" + f.text + "}\n";
    const std::string numbers = f.nnumbers > 0 ? ", const " + n + "::Numbers numbers" : "";
    std::string arguments = f.nnumbers > 0 ? "numbers, " : "", results, stores;
    for (int i = 0; i < f.nins; ++i) {
      const std::string k = std::to_string(i);
      arguments += "reinterpret_cast<const " + n + "::A" + k + "*>(in)[" + k + "], ";
    }
    for (int i = 0; i < f.nouts; ++i) {
      const std::string k = std::to_string(i);
      results += n + "::Y" + k + " y" + k + ";";
      arguments += (i == 0 ? "y" : ", y") + k;
      stores += "reinterpret_cast<" + n + "::Y" + k + "*>(out)[" + k + "] = y" + k + ";";
    }
    text += "extern \"C\" __global__ void " + n + "_kernel(const char* in, char* out" + numbers + ") { " + results +
            " " + n + "::formula(" + arguments + "); " + stores + " }\n";
  }
  return {{"formulas of " + type_class + ".cu", text + "}\n", true}, "formula1_kernel"};
}

void list_together(const std::function<void(KernelSource)>& add) {
  constexpr size_t kOfProgram = 40;
  for (const int32_t compute :
       {FACULA_BOOL, FACULA_UINT8, FACULA_INT64, FACULA_FLOAT32, FACULA_FLOAT64, FACULA_COMPLEX64, FACULA_COMPLEX128}) {
    size_t count = 0;
    for (const FormulaSource& f : formula_sources()) count += std::string_view(f.type_class) == class_of(compute);
    for (size_t at = 0; at < count; at += kOfProgram) {
      add(formulas_together(class_of(compute), compute, at, at + kOfProgram));
    }
  }
}

// Element types whose kernels of a class are made ahead.
std::vector<int32_t> types_of(std::string_view type_class, int level) {
  const bool all = level == 2;
  if (type_class == "bool") return {FACULA_BOOL};
  if (type_class == "int") {
    return all ? std::vector<int32_t>{FACULA_INT64, FACULA_UINT8, FACULA_INT8, FACULA_INT16, FACULA_INT32}
               : std::vector<int32_t>{FACULA_INT64};
  }
  if (type_class == "float") {
    return all ? std::vector<int32_t>{FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT64, FACULA_FLOAT16}
               : std::vector<int32_t>{FACULA_FLOAT32, FACULA_BFLOAT16};
  }
  return all ? std::vector<int32_t>{FACULA_COMPLEX64, FACULA_COMPLEX128} : std::vector<int32_t>{FACULA_COMPLEX64};
}

void list_pointwise(int level, const std::function<void(KernelSource)>& add) {
  for (const FormulaSource& f : formula_sources()) {
    const std::string_view c = f.type_class;
    if (level == 0 && c != "float") continue;
    const std::vector<int32_t> types = types_of(c, level);
    for (const int32_t type : types) {
      const int32_t compute = type == FACULA_BFLOAT16 || type == FACULA_FLOAT16 ? int32_t{FACULA_FLOAT32} : type;
      int32_t dtypes[16];
      std::fill_n(dtypes, 16, type);
      PointwiseForm form;
      form.vec = 16 / std::max(2, itemsize(type));
      form.unroll = std::clamp((itemsize(type) > 2 ? 32 : 64) / (form.vec * itemsize(type) * f.nins), 1, 4);
      add(pointwise_source(f, compute, dtypes, form));
      if (std::string_view(f.op) == "copy" || level == 2) {
        PointwiseForm tiled;
        tiled.kind = PointwiseForm::kTiled;
        tiled.turned = 1;
        tiled.dims = 2;
        tiled.tile = itemsize(type) <= 4 ? 64 : 32;
        tiled.vec = itemsize(type) == 2 ? 2 : 1;
        add(pointwise_source(f, compute, dtypes, tiled));
        if (tiled.vec == 2) {
          tiled.tile = 128;
          add(pointwise_source(f, compute, dtypes, tiled));
        }
      }
      if (level == 0 || (level == 1 && types.size() > 1 && type != types[0])) continue;
      form.kind = PointwiseForm::kStrided;
      form.dims = 2;
      form.splats = f.nins > 1 ? 2 : 0;
      add(pointwise_source(f, compute, dtypes, form));
      form.vec = 1;
      form.unroll = 4;
      form.dims = 1;
      form.splats = 0;
      add(pointwise_source(f, compute, dtypes, form));
    }
  }
}

}  // namespace

void list_sources(SourceLister lister) { listers().push_back(lister); }

PrecompileReport precompile(const char* arch, const char* filter, int level, int threads) {
  PrecompileReport report;
  std::vector<KernelSource> all;
  const auto add = [&](KernelSource s) {
    if (s.source.name.find(filter) != std::string::npos) all.push_back(std::move(s));
  };
  if (level < 0) {
    list_together(add);
    // the template's forms, by the one formula that has all types
    const auto copies = [&](KernelSource s) {
      if (s.source.name == "copy.cu") add(std::move(s));
    };
    list_pointwise(1, copies);
  } else {
    list_pointwise(level, add);
  }
  for (const SourceLister lister : listers()) lister(std::max(level, 0), add);
  if (const std::string why = compiler_missing(); !why.empty()) {
    report.failed = static_cast<int>(all.size());
    report.text = why;
    return report;
  }
  std::atomic<size_t> next{0};
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i; (i = next++) < all.size();) {
      const Compiled c = compile(all[i].source, arch);
      std::lock_guard lock(mutex);
      if (c.status != FACULA_OK) {
        ++report.failed;
        if (report.text.size() < 20000) report.text += c.error + "\n";
      } else {
        ++(c.from_disk ? report.from_disk : report.compiled);
      }
    }
  };
  std::vector<std::thread> workers;
  for (int i = 1; i < threads; ++i) workers.emplace_back(work);
  work();
  for (std::thread& t : workers) t.join();
  return report;
}

}  // namespace facula::cuda
