// Random draws: which kernel, and its numbers.
#include <cmath>

#include "facula/draw_types.h"
#include "launch/kernels.h"
#include "ops/sort.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

enum Draw : int {  // kernels/random.cu
  kUniform,
  kNormal,
  kExponential,
  kIntegers,
  kLongIntegers,
  kBernoulli,
  kBernoulliOf,
  kGeometric,
  kCauchy,
  kLogNormal,
  kPoisson,
  kGamma,
  kLogGamma,
  kBinomial,
  kKeys
};

struct Drawing {
  Draw draw = kUniform;
  double a = 0, b = 1;
  int64_t low = 0;
  uint64_t range = 0;
  const void* chances = nullptr;
  const void* others = nullptr;
  double least = 0, most = 0;  // of what kUniform, kExponential and integers of a floating dtype give
};

// A stream of numbers for each element.
bool from_streams(Draw draw) { return draw >= kPoisson && draw <= kBinomial; }

bool in_double(Draw draw, int32_t dtype) {
  return draw == kGeometric || draw == kCauchy || from_streams(draw) ||
         (dtype == FACULA_FLOAT64 && draw != kBernoulli && draw != kBernoulliOf && draw != kIntegers);
}

KernelSource source(Draw draw, int32_t dtype) {
  const bool wide = in_double(draw, dtype);
  const bool longs = draw == kLongIntegers || (wide && !from_streams(draw));
  return file_kernel("random.cu", "facula_random",
                     std::string("using C = ") + (wide ? "double" : "float") + ";\nusing S = " + element_type(dtype) +
                         ";\n#define FACULA_DRAW " + std::to_string(draw) + "\n#define FACULA_LONG " +
                         (longs ? "1" : "0") + "\n#define FACULA_FLOATING " + (draws::is_floating(dtype) ? "1" : "0") +
                         "\n",
                     false);
}

// Of a complex number's parts.
int32_t real_dtype(int32_t dtype) {
  return dtype == FACULA_COMPLEX64 ? FACULA_FLOAT32 : dtype == FACULA_COMPLEX128 ? FACULA_FLOAT64 : dtype;
}

int32_t run(const FaculaCall* call, const FaculaTensor& out, const FaculaValue& key, const Drawing& d) {
  if (out.numel == 0) return FACULA_OK;
  int32_t dtype = out.dtype;
  int64_t sizes[kMaxTensorDims], strides[kMaxTensorDims];
  int ndim = out.ndim;
  const bool pairs = is_complex(dtype);  // drawn as twice as many real numbers
  for (int i = 0; i < ndim; ++i) {
    sizes[i] = out.sizes[i];
    strides[i] = out.strides[i] * (pairs ? 2 : 1);
  }
  if (pairs) {
    dtype = real_dtype(dtype);
    if (ndim >= kMaxTensorDims) return FACULA_NOT_SUPPORTED;
    sizes[ndim] = 2;
    strides[ndim++] = 1;
  }
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  KernelKey k;
  k.name = "random.cu";
  k.bits[0] = static_cast<uint64_t>(d.draw);
  k.bits[1] = static_cast<uint64_t>(dtype);
  Kernel* kernel = nullptr;
  FACULA_TRY(find_kernel(*device, k, [&] { return source(d.draw, dtype); }, &kernel));
  Params params;
  params.put(out.data);
  params.put(d.chances);
  params.put(d.others);
  params.put(key.at.seed);
  params.put(key.more.offset);
  params.put(d.a);
  params.put(d.b);
  params.put(pairs && d.draw == kNormal ? int64_t{1} : d.low);
  params.put(d.range);
  params.put(d.least);
  params.put(d.most);
  params.put(int64_t{draws::mantissa_bits(dtype)});
  params.put(static_cast<int64_t>(is_dense(out)));
  const int64_t* given[] = {strides};
  const int item[] = {itemsize(dtype)};
  const StridedDims iterator = make_strided(ndim, sizes, given, item, 1);
  if (!put_strided(params, iterator, 1)) return FACULA_NOT_SUPPORTED;
  void* arguments[] = {params.data()};
  const int64_t jobs = from_streams(d.draw) || d.draw == kKeys ? iterator.count : (iterator.count + 3) / 4;
  return launch(*device, *kernel, grid_for(*device, jobs, 256), {256}, 0, call->stream, arguments);
}

const FaculaValue& key_of(const FaculaCall* call) {
  int i = 0;
  while (i + 1 < call->nargs && call->args[i].kind != FACULA_RANDOM) ++i;
  return call->args[i];
}
int32_t uniform_into(const FaculaCall* call, const FaculaTensor& out, double from, double to) {
  const draws::Limits<double> within = draws::numbers_within(real_dtype(out.dtype), from, to);
  Drawing d;
  d.a = from;
  d.b = to;
  d.least = within.least;
  d.most = within.most;
  return run(call, out, key_of(call), d);
}
int32_t rand(void*, const FaculaCall* call) { return uniform_into(call, result(call), 0, 1); }
int32_t normal_into(const FaculaCall* call, const FaculaTensor& out, double mean, double std) {
  Drawing d;
  d.draw = kNormal;
  d.a = mean;
  d.b = is_complex(out.dtype) ? std * std::sqrt(0.5) : std;  // the parts share the variance
  return run(call, out, key_of(call), d);
}
int32_t randn(void*, const FaculaCall* call) { return normal_into(call, result(call), 0, 1); }

// uniform_(self!, from, to, generator)
int32_t uniform(void*, const FaculaCall* call) {
  return uniform_into(call, tensor(call, 0), real_of(call->args[1]), real_of(call->args[2]));
}
// normal_(self!, mean, std, generator)
int32_t normal(void*, const FaculaCall* call) {
  return normal_into(call, tensor(call, 0), real_of(call->args[1]), real_of(call->args[2]));
}

int32_t integers(const FaculaCall* call, const FaculaTensor& out, int64_t from, uint64_t range) {
  Drawing d;
  d.draw = range != 0 && range <= 65536 ? kIntegers : kLongIntegers;
  d.low = from;
  d.range = range;
  if (draws::is_floating(out.dtype)) {
    const int64_t last = static_cast<int64_t>(static_cast<uint64_t>(from) + range - 1);
    const draws::Limits<int64_t> within = draws::integers_within(out.dtype, from, last);
    d.least = static_cast<double>(within.least);
    d.most = static_cast<double>(within.most);
  }
  return run(call, out, key_of(call), d);
}
int32_t range(const FaculaCall* call, const FaculaTensor& out, int64_t from, int64_t to) {
  return integers(call, out, from, static_cast<uint64_t>(to) - static_cast<uint64_t>(from));
}
// To the last integer up to which the dtype has all.
int32_t range_from(const FaculaCall* call, const FaculaTensor& out, int64_t from) {
  const int64_t most = draws::exact_integers(out.dtype);
  return integers(call, out, from, static_cast<uint64_t>(most) - static_cast<uint64_t>(from) + 1);
}
// randint.low(low, high, size, generator, dtype, device, out)
int32_t randint(void*, const FaculaCall* call) {
  return range(call, result(call), call->args[0].at.i, call->args[1].at.i);
}
int32_t random_all(void*, const FaculaCall* call) { return range_from(call, tensor(call, 0), 0); }
int32_t random_to(void*, const FaculaCall* call) { return range(call, tensor(call, 0), 0, call->args[1].at.i); }
int32_t random_from(void*, const FaculaCall* call) {
  const FaculaTensor& self = tensor(call, 0);
  const int64_t from = call->args[1].at.i;
  return call->args[2].kind == FACULA_NONE ? range_from(call, self, from) : range(call, self, from, call->args[2].at.i);
}

int32_t with_chances(const FaculaCall* call, const FaculaTensor& p, const FaculaTensor& out, Draw draw) {
  Scratch scratch(call->index, call->stream);
  Drawing d;
  d.draw = draw;
  d.least = draws::least_positive(out.dtype);
  FACULA_TRY(dense(p, scratch, call->index, call->stream, &d.chances, FACULA_FLOAT64));
  return run(call, out, key_of(call), d);
}
// bernoulli(self, generator, out)
int32_t bernoulli(void*, const FaculaCall* call) {
  return with_chances(call, tensor(call, 0), result(call), kBernoulliOf);
}
int32_t poisson(void*, const FaculaCall* call) { return with_chances(call, tensor(call, 0), result(call), kPoisson); }
// _standard_gamma(self, generator, out), _standard_log_gamma(self, generator, out)
int32_t standard_gamma(void*, const FaculaCall* call) {
  return with_chances(call, tensor(call, 0), result(call), kGamma);
}
int32_t standard_log_gamma(void*, const FaculaCall* call) {
  return with_chances(call, tensor(call, 0), result(call), kLogGamma);
}
// _binomial(count, prob, generator, out)
int32_t binomial(void*, const FaculaCall* call) {
  Scratch counts(call->index, call->stream), chances(call->index, call->stream);
  Drawing d;
  d.draw = kBinomial;
  FACULA_TRY(dense(tensor(call, 0), counts, call->index, call->stream, &d.chances, FACULA_FLOAT64));
  FACULA_TRY(dense(tensor(call, 1), chances, call->index, call->stream, &d.others, FACULA_FLOAT64));
  return run(call, result(call), key_of(call), d);
}
// bernoulli_(self!, p, generator)
int32_t bernoulli_number(void*, const FaculaCall* call) {
  // `run` would draw both parts of a complex number
  if (is_complex(tensor(call, 0).dtype)) return FACULA_NOT_SUPPORTED;
  Drawing d;
  d.draw = kBernoulli;
  d.range = static_cast<uint64_t>(std::ldexp(real_of(call->args[1]), 32));
  return run(call, tensor(call, 0), key_of(call), d);
}
int32_t exponential(void*, const FaculaCall* call) {
  Drawing d;
  d.draw = kExponential;
  d.a = 1 / real_of(call->args[1]);
  d.least = draws::least_positive(tensor(call, 0).dtype);  // never 0
  d.most = HUGE_VAL;
  return run(call, tensor(call, 0), key_of(call), d);
}
int32_t geometric(void*, const FaculaCall* call) {
  Drawing d;
  d.draw = kGeometric;
  d.a = -1 / std::log1p(-real_of(call->args[1]));
  d.most = draws::most_trials(tensor(call, 0).dtype);
  return run(call, tensor(call, 0), key_of(call), d);
}
// cauchy_(self!, median, sigma, generator), log_normal_(self!, mean, std, generator)
template <int kDraw>
int32_t two_numbers(void*, const FaculaCall* call) {
  Drawing d;
  d.draw = static_cast<Draw>(kDraw);
  d.a = real_of(call->args[1]);
  d.b = real_of(call->args[2]);
  return run(call, tensor(call, 0), key_of(call), d);
}

// randperm(n, generator, dtype, device, out): the order of random words
int32_t permutation(void*, const FaculaCall* call) {
  const FaculaTensor& out = result(call);
  if (out.numel == 0) return FACULA_OK;
  Scratch keys(call->index, call->stream), order(call->index, call->stream);
  FACULA_TRY(keys.allocate(static_cast<size_t>(out.numel) * 8));
  const int64_t step = 1;
  const FaculaTensor words{keys.data(), &out.numel,        &step,  out.numel, 1, FACULA_INT64,
                           call->index, FACULA_CONTIGUOUS, nullptr};
  Drawing d;
  d.draw = kKeys;
  FACULA_TRY(run(call, words, key_of(call), d));
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  FACULA_TRY(order_of(*device, call->stream, reinterpret_cast<const int64_t*>(keys.data()), out.numel, order));
  return write_back(out, order.data(), FACULA_INT64, call->index, call->stream);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (int draw = kUniform; draw <= kKeys; ++draw) {
    for (const int32_t dtype : {FACULA_FLOAT32, FACULA_FLOAT64, FACULA_BFLOAT16, FACULA_FLOAT16, FACULA_INT64}) {
      if (level == 0 && (draw > kNormal || dtype != FACULA_FLOAT32)) continue;
      if (level == 1 && dtype > FACULA_FLOAT64) continue;
      if (draw == kKeys && dtype != FACULA_INT64) continue;
      if (dtype == FACULA_INT64 && draw != kKeys && (draw < kIntegers || draw > kBernoulliOf)) continue;
      add(source(static_cast<Draw>(draw), dtype));
    }
  }
}
const ListsSources lists(list);

const Registers registers{
    {"rand", rand},
    {"randn", randn},
    {"uniform_", uniform},
    {"normal_", normal},
    {"randint.low", randint},
    {"random_", random_all},
    {"random_.to", random_to},
    {"random_.from_", random_from},
    {"bernoulli", bernoulli},
    {"bernoulli_", bernoulli_number},
    {"exponential_", exponential},
    {"geometric_", geometric},
    {"cauchy_", two_numbers<kCauchy>},
    {"log_normal_", two_numbers<kLogNormal>},
    {"poisson", poisson},
    {"_standard_gamma", standard_gamma},
    {"_standard_log_gamma", standard_log_gamma},
    {"_binomial", binomial},
    {"randperm", permutation},
};

}  // namespace

}  // namespace facula::cuda
