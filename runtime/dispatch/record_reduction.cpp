#include "runtime/dispatch/record_reduction.h"

#include <bit>

#include "runtime/core/thread_state.h"

namespace facula::detail {

namespace {

constexpr LayerSet kEvery = static_cast<LayerSet>(~LayerSet{0});

}  // namespace

std::optional<KeptArgument> kept_argument(const KernelArg& arg) {
  KeptArgument kept;
  kept.kind = arg.kind;
  kept.absent = arg.at == nullptr;
  if (kept.absent) return kept;
  switch (arg.kind) {
    case KernelArg::Kind::Int:
      kept.integer = *static_cast<const int64_t*>(arg.at);
      return kept;
    case KernelArg::Kind::Bool:
      kept.integer = *static_cast<const bool*>(arg.at) ? 1 : 0;
      return kept;
    case KernelArg::Kind::Type:
      kept.integer = static_cast<int64_t>(*static_cast<const ScalarType*>(arg.at));
      return kept;
    case KernelArg::Kind::Float:
      kept.number = *static_cast<const double*>(arg.at);
      return kept;
    case KernelArg::Kind::Scalar:
      kept.scalar = *static_cast<const Scalar*>(arg.at);
      if (kept.scalar.kind() == Category::Complex) return std::nullopt;
      return kept;
    case KernelArg::Kind::Ints: {
      const IntList& list = *static_cast<const IntList*>(arg.at);
      kept.ints = DimVector(list.begin(), list.end());
      return kept;
    }
    default:
      return std::nullopt;
  }
}

std::vector<uint64_t> words_of(const RecordReduction& r) {
  std::vector<uint64_t> words;
  words.push_back(reinterpret_cast<uintptr_t>(r.entry));
  for (const KeptArgument& a : r.arguments) {
    words.push_back(static_cast<uint64_t>(a.kind) << 8 | uint64_t{a.absent});
    if (a.absent) continue;
    words.push_back(static_cast<uint64_t>(a.integer));
    words.push_back(std::bit_cast<uint64_t>(a.number));
    words.push_back(static_cast<uint64_t>(a.scalar.kind()));
    words.push_back(std::bit_cast<uint64_t>(a.scalar.as_double()));
    words.push_back(a.ints.size());
    for (const int64_t i : a.ints) words.push_back(static_cast<uint64_t>(i));
  }
  return words;
}

void run_reduction(const RecordReduction& r, const Tensor& self, const Tensor& out) {
  struct Typed {
    ScalarType type;
    bool truth;
    IntList ints;
  };
  std::vector<Typed> typed(r.arguments.size());
  std::vector<KernelArg> args = {kernel_arg(self)};
  for (size_t i = 0; i < typed.size(); ++i) {
    const KeptArgument& a = r.arguments[i];
    KernelArg arg{a.kind, nullptr, 0};
    switch (a.kind) {
      case KernelArg::Kind::Int:
        arg.at = &a.integer;
        break;
      case KernelArg::Kind::Bool:
        typed[i].truth = a.integer != 0;
        arg.at = &typed[i].truth;
        break;
      case KernelArg::Kind::Type:
        typed[i].type = static_cast<ScalarType>(a.integer);
        arg.at = &typed[i].type;
        break;
      case KernelArg::Kind::Float:
        arg.at = &a.number;
        break;
      case KernelArg::Kind::Scalar:
        arg.at = &a.scalar;
        break;
      default:
        typed[i].ints = a.ints;
        arg.at = &typed[i].ints;
        arg.count = a.ints.size();
        break;
    }
    if (a.absent) arg.at = nullptr;
    args.push_back(arg);
  }
  args.push_back(kernel_arg(out));
  const ExcludeLayers every(kEvery);
  constexpr auto kOut = static_cast<int>(Variant::Out);
  Stack results;
  r.entry->invoke[kOut](r.entry->forms[kOut], args, results);
}

int last_dims(IntList dims, int64_t ndim) {
  uint64_t taken = 0;
  for (const int64_t d : dims) {
    const int64_t at = d < 0 ? d + ndim : d;
    if (at < 0 || at >= ndim || ndim > 63) return 0;
    taken |= uint64_t{1} << at;
  }
  const int n = std::popcount(taken);
  return n < ndim && taken == ((uint64_t{1} << n) - 1) << (ndim - n) ? n : 0;
}

int last_dims(const RecordReduction& r, int64_t ndim) {
  for (const KeptArgument& a : r.arguments) {
    if (a.absent) continue;
    if (a.kind == KernelArg::Kind::Ints) return last_dims(IntList(a.ints.data(), a.ints.size()), ndim);
    if (a.kind == KernelArg::Kind::Int) return last_dims(IntList(&a.integer, 1), ndim);
  }
  return 0;
}

Tensor result_without_values(const OperatorEntry& op, std::span<const KernelArg> args) {
  const Tensor& self = *static_cast<const Tensor*>(args[0].at);
  const Tensor meta = make_empty_strided(self.sizes(), self.strides(), self.dtype(), Device{kMeta});
  std::vector<KernelArg> with(args.begin(), args.end());
  with[0] = kernel_arg(meta);
  for (KernelArg& a : with) {
    if (a.kind == KernelArg::Kind::Device) a.at = nullptr;  // the CPU, which is where the result will be
  }
  const ExcludeLayers every(kEvery);
  constexpr auto kFunctional = static_cast<int>(Variant::Functional);
  Stack results;
  op.invoke[kFunctional](op.forms[kFunctional], with, results);
  return std::get<Tensor>(results[0]);
}

}  // namespace facula::detail
