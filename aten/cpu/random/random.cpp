// Kernels of random sampling; random.h says which word belongs to which element.
#include "aten/cpu/random/random.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "aten/cpu/common/bytes.h"
#include "aten/cpu/common/dense.h"
#include "aten/cpu/random/element_stream.h"
#include "aten/cpu/sort/order.h"
#include "facula/draw_types.h"
#include "facula/math_draws.h"
#include "facula/kernels.h"
#include "runtime/core/rounding.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/stream.h"

namespace facula::cpu {

namespace {

constexpr int64_t kGroups = 16;  // worked on at a time

const RandomTable& table() { return FACULA_BY_ISA(random_table); }

PhiloxKey key_of(const Philox& p) { return {p.seed(), p.offset()}; }

// Fills `out` in logical order. make(first, groups, C* to) writes `per_group` numbers for each of the
// groups first ... first + groups - 1. `light`: in less time than the cache takes to load lines that are
// written, so that large results go by streaming stores.
template <typename C, typename F>
void fill_groups(const Tensor& out, int64_t per_group, bool light, const F& make) {
  const ScalarType compute = dtype_of_v<C>;
  const int64_t n = out.numel();
  if (n == 0) return;
  if (!out.is_contiguous()) {
    const Tensor copy = make_empty(out.sizes(), out.dtype());
    fill_groups<C>(copy, per_group, light, make);
    copy_strided(out, copy);
    return;
  }
  char* data = static_cast<char*>(out.raw());
  const int64_t item = static_cast<int64_t>(out.itemsize());
  const bool direct = out.dtype() == compute;
  const bool past = light && direct && n * item >= kStreamBytes && whole_lines(data);
  parallel_for(0, ceil_div(n, per_group), std::max<int64_t>(1, kGrain / 4 / per_group),
               [&](int64_t begin, int64_t end) {
                 alignas(64) C part[kGroups * kRandomGroup];
                 for (int64_t g = begin; g < end; g += kGroups) {
                   const int64_t groups = std::min(kGroups, end - g);
                   const int64_t first = g * per_group, count = std::min(groups * per_group, n - first);
                   char* to = data + first * item;
                   if (past) {
                     make(g, groups, part);
                     stream_bytes(to, part, count * item);
                   } else if (direct && count == groups * per_group) {
                     make(g, groups, reinterpret_cast<C*>(to));
                   } else {
                     make(g, groups, part);
                     convert_elements(out.dtype(), to, compute, part, count);
                   }
                 }
                 if (past) stream_done();
               });
}

// Complex tensors are drawn as twice as many real numbers.
Tensor as_real(const Tensor& t) {
  if (!t.is_complex()) return t;
  DimVector sizes(t.sizes().begin(), t.sizes().end()), strides(t.strides().begin(), t.strides().end());
  for (int64_t& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  return from_storage(t.storage(), sizes, strides, 2 * t.offset(), to_real(t.dtype()));
}

// Draws with a float32 and a float64 form. from_words(words, groups, float*) makes 64 numbers a group,
// from_longs(longs, groups, double*) 64 numbers from two half groups.
template <typename W, typename L>
void draw(const Tensor& out, const Philox& stream, bool light, const W& from_words, const L& from_longs) {
  const PhiloxKey key = key_of(stream);
  if (out.dtype() == ScalarType::Float64) {
    fill_groups<double>(out, 64, light, [&](int64_t first, int64_t groups, double* to) {
      uint64_t longs[kGroups * 64];
      table().longs(key, 2 * first, 2 * (first + groups), longs);
      from_longs(longs, groups, to);
    });
  } else {
    fill_groups<float>(out, 64, light, [&](int64_t first, int64_t groups, float* to) {
      uint32_t words[kGroups * 64];
      table().words(key, first, first + groups, words);
      from_words(words, groups, to);
    });
  }
}

void fill_uniform(const Tensor& out, const Philox& stream, double from, double to) {
  const Tensor real = as_real(out);
  const int dtype = static_cast<int>(real.dtype()), bits = draws::mantissa_bits(dtype);
  const bool unit = from == 0 && to == 1;
  const draws::Limits<double> within = draws::numbers_within(dtype, from, to);
  const auto stretch = [&]<typename C>(C* x, int64_t n) {
    if (unit) return;
    const C low = static_cast<C>(from), span = static_cast<C>(to - from);
    const C least = static_cast<C>(within.least), most = static_cast<C>(within.most);
    for (int64_t i = 0; i < n; ++i) x[i] = draws::limited(x[i] * span + low, least, most);
  };
  draw(
      real, stream, true,
      [&](const uint32_t* words, int64_t groups, float* x) {
        table().uniform_f32(words, groups * 64, bits, x);
        stretch(x, groups * 64);
      },
      [&](const uint64_t* longs, int64_t groups, double* x) {
        table().uniform_f64(longs, groups * 64, x);
        stretch(x, groups * 64);
      });
}

// post(C* x, n) turns standard normal numbers into what is wanted.
template <typename F>
void fill_normal(const Tensor& out, const Philox& stream, const F& post) {
  draw(
      as_real(out), stream, false,
      [&](const uint32_t* words, int64_t groups, float* x) {
        table().normal_f32(words, groups, x);
        post(x, groups * 64);
      },
      [&](const uint64_t* longs, int64_t groups, double* x) {
        table().normal_f64(longs, groups, x);
        post(x, groups * 64);
      });
}
void fill_normal_scaled(const Tensor& out, const Philox& stream, double mean, double std) {
  // Real and imaginary parts share the variance.
  const double scale = out.is_complex() ? std * std::sqrt(0.5) : std;
  fill_normal(out, stream, [&]<typename C>(C* x, int64_t n) {
    if (scale == 1 && mean == 0) return;
    const C m = static_cast<C>(mean), s = static_cast<C>(scale);
    for (int64_t i = 0; i < n; ++i) x[i] = draws::scaled_normal(x[i], s, m);
  });
  if (out.is_complex() && mean != 0) {
    // The mean is real.
    const Tensor real = as_real(out);
    DimVector strides(real.strides().begin(), real.strides().end() - 1);
    const Tensor imag = from_storage(out.storage(), out.sizes(), strides, 2 * out.offset() + 1, real.dtype());
    const Tensor copy = dense(imag);
    visit_compute(copy.dtype(), [&]<typename C>(std::type_identity<C>) {
      for (int64_t i = 0; i < copy.numel(); ++i) copy.data<C>()[i] -= static_cast<C>(mean);
    });
    if (!copy.is_same(imag)) copy_strided(imag, copy);
  }
}

template <typename F>
void fill_exponential(const Tensor& out, const Philox& stream, const F& post) {
  draw(
      out, stream, false,
      [&](const uint32_t* words, int64_t groups, float* x) {
        table().exponential_f32(words, groups * 64, x);
        post(x, groups * 64);
      },
      [&](const uint64_t* longs, int64_t groups, double* x) {
        table().exponential_f64(longs, groups * 64, x);
        post(x, groups * 64);
      });
}

// Integers in [low, low + range); range 0 stands for all 2^64.
void fill_integers(const Tensor& out, const Philox& stream, int64_t low, uint64_t range) {
  const PhiloxKey key = key_of(stream);
  const int dtype = static_cast<int>(out.dtype());
  const int64_t last = static_cast<int64_t>(static_cast<uint64_t>(low) + range - 1);
  const draws::Limits<int64_t> within = draws::integers_within(dtype, low, last);
  // Of a floating dtype the numbers thin out: what rounds to one outside is the one at that end.
  const bool thin =
      draws::is_floating(dtype) && (low < -draws::exact_integers(dtype) || last > draws::exact_integers(dtype));
  const auto limit = [&](int64_t* to, int64_t n) {
    for (int64_t i = 0; i < n && thin; ++i) to[i] = draws::limited(to[i], within.least, within.most);
  };
  if (range != 0 && range <= 65536) {
    fill_groups<int64_t>(out, 64, true, [&](int64_t first, int64_t groups, int64_t* to) {
      uint32_t words[kGroups * 64];
      table().words(key, first, first + groups, words);
      table().integers(words, groups * 64, low, static_cast<uint32_t>(range), to);
      limit(to, groups * 64);
    });
    return;
  }
  fill_groups<int64_t>(out, 32, true, [&](int64_t first, int64_t groups, int64_t* to) {
    uint64_t longs[kGroups * 32];
    table().longs(key, first, first + groups, longs);
    for (int64_t i = 0; i < groups * 32; ++i) {
      const uint64_t v = range == 0 ? longs[i] : static_cast<uint64_t>((uint128(longs[i]) * range) >> 64);
      to[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + v);
    }
    limit(to, groups * 32);
  });
}

void fill_bernoulli(const Tensor& out, const Philox& stream, double p) {
  const PhiloxKey key = key_of(stream);
  const uint64_t threshold = static_cast<uint64_t>(std::ldexp(p, 32));
  fill_groups<uint8_t>(out, 64, true, [&](int64_t first, int64_t groups, uint8_t* to) {
    uint32_t words[kGroups * 64];
    table().words(key, first, first + groups, words);
    table().below(words, groups * 64, threshold, to);
  });
}

// One uniform number in [0, 1) an element: fn(index, u).
template <typename F>
void for_each_uniform(int64_t n, const Philox& stream, const F& fn) {
  const PhiloxKey key = key_of(stream);
  if (const int64_t row = drawn_row(); row > 0) {
    for (int64_t g = 0; g * 64 < row; ++g) {
      uint32_t words[64];
      table().words(key, g, g + 1, words);
      for (int64_t i = g * 64; i < std::min<int64_t>(row, (g + 1) * 64); ++i) {
        for (int64_t at = i; at < n; at += row) fn(at, words[i - g * 64] * 0x1p-32);
      }
    }
    return;
  }
  parallel_for(0, ceil_div(n, 64), 64, [&](int64_t begin, int64_t end) {
    uint32_t words[64];
    for (int64_t g = begin; g < end; ++g) {
      table().words(key, g, g + 1, words);
      const int64_t count = std::min<int64_t>(64, n - g * 64);
      for (int64_t i = 0; i < count; ++i) fn(g * 64 + i, words[i] * 0x1p-32);
    }
  });
}

void bernoulli_of(const Tensor& p, const Tensor& out, const Generator& generator, const char* op) {
  const Tensor chances = dense_as(p, ScalarType::Float64);
  const double* q = chances.data<double>();
  for (int64_t i = 0; i < chances.numel(); ++i) {
    FACULA_CHECK(q[i] >= 0 && q[i] <= 1, Runtime, Operator{op}, Argument{"p"}, " must be in [0, 1], not ", q[i]);
  }
  const Tensor draws = make_empty(out.sizes(), ScalarType::Bool);
  bool* to = draws.data<bool>();
  for_each_uniform(out.numel(), next_stream(generator, op), [&](int64_t i, double u) { to[i] = u < q[i]; });
  copy_strided(out, draws);
}

void fill_range(const Tensor& self, int64_t from, int64_t to, const Generator& generator, const char* op) {
  fill_integers(self, next_stream(generator, op), from, static_cast<uint64_t>(to) - static_cast<uint64_t>(from));
}
// To the last integer up to which the dtype has all.
void fill_from(const Tensor& self, int64_t from, const Generator& generator, const char* op) {
  const int64_t most = draws::exact_integers(static_cast<int>(self.dtype()));
  fill_integers(self, next_stream(generator, op), from, static_cast<uint64_t>(most) - static_cast<uint64_t>(from) + 1);
}

}  // namespace

// ---- factories ----

void rand(IntList, const Generator& generator, std::optional<ScalarType>, std::optional<Device>, const Tensor& out) {
  fill_uniform(out, next_stream(generator, "rand"), 0, 1);
}
void randn(IntList, const Generator& generator, std::optional<ScalarType>, std::optional<Device>, const Tensor& out) {
  fill_normal_scaled(out, next_stream(generator, "randn"), 0, 1);
}
void randint(int64_t low, int64_t high, IntList, const Generator& generator, std::optional<ScalarType>,
             std::optional<Device>, const Tensor& out) {
  fill_range(out, low, high, generator, "randint");
}

// The order of random words, each with the number it belongs to; where words agree, those of a second
// draw decide.
void randperm(int64_t n, const Generator& generator, std::optional<ScalarType>, std::optional<Device>,
              const Tensor& out) {
  FACULA_CHECK(n <= (int64_t{1} << 32), Runtime, Operator{"randperm"}, Argument{"n"}, " is ", n,
               ", at most 2^32 is supported");
  const PhiloxKey key = key_of(next_stream(generator, "randperm"));
  const PhiloxKey second{key.seed, key.offset | uint64_t{1} << 63};
  const int64_t groups = ceil_div(n, kRandomGroup);
  Bytes memory(bytes_for(groups * kRandomGroup, 16));
  uint64_t* packed = memory.as<uint64_t>();
  uint64_t* scratch = packed + groups * kRandomGroup;
  parallel_for(0, groups, 256, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      count_step();
      uint32_t words[kRandomGroup];
      table().words(key, g, g + 1, words);
      for (int64_t i = 0; i < kRandomGroup; ++i) {
        packed[g * kRandomGroup + i] =
            static_cast<uint64_t>(words[i]) << 32 | static_cast<uint64_t>(g * kRandomGroup + i);
      }
    }
  });
  sort_packed(packed, scratch, n, true, true);
  const auto second_word = [&](uint64_t p) {
    uint32_t words[kRandomGroup];
    const int64_t i = position_of(p);
    table().words(second, i / kRandomGroup, i / kRandomGroup + 1, words);
    return words[i % kRandomGroup];
  };
  for (int64_t i = 0; i < n;) {
    count_step();
    int64_t j = i + 1;
    while (j < n && (packed[j] >> 32) == (packed[i] >> 32)) ++j;
    if (j - i > 1) {
      std::stable_sort(packed + i, packed + j, [&](uint64_t a, uint64_t b) { return second_word(a) < second_word(b); });
    }
    i = j;
  }
  into_dense(out, ScalarType::Int64, [&](const Tensor& to) {
    int64_t* const numbers = to.data<int64_t>();
    for (int64_t begin = 0; begin < n; begin += kGrain) {
      check_interrupt();
      for (int64_t i = begin; i < std::min(n, begin + kGrain); ++i) numbers[i] = position_of(packed[i]);
    }
  });
}

void bernoulli(const Tensor& self, const Generator& generator, const Tensor& out) {
  bernoulli_of(self, out, generator, "bernoulli");
}

// ---- in place ----

void uniform_(const Tensor& self, double from, double to, const Generator& generator) {
  fill_uniform(self, next_stream(generator, "uniform_"), from, to);
}
void normal_(const Tensor& self, double mean, double std, const Generator& generator) {
  fill_normal_scaled(self, next_stream(generator, "normal_"), mean, std);
}
void random_(const Tensor& self, const Generator& generator) { fill_from(self, 0, generator, "random_"); }
void random_from(const Tensor& self, int64_t from, std::optional<int64_t> to, const Generator& generator) {
  if (to) return fill_range(self, from, *to, generator, "random_");
  fill_from(self, from, generator, "random_");
}
void random_to(const Tensor& self, int64_t to, const Generator& generator) {
  fill_range(self, 0, to, generator, "random_");
}
void bernoulli_tensor_(const Tensor& self, const Tensor& p, const Generator& generator) {
  const Tensor chances = make_empty(self.sizes(), ScalarType::Float64);
  copy_strided(chances, p);
  bernoulli_of(chances, self, generator, "bernoulli_");
}
void bernoulli_(const Tensor& self, double p, const Generator& generator) {
  fill_bernoulli(self, next_stream(generator, "bernoulli_"), p);
}
void exponential_(const Tensor& self, double lambd, const Generator& generator) {
  const int dtype = static_cast<int>(self.dtype());
  fill_exponential(self, next_stream(generator, "exponential_"), [&]<typename C>(C* x, int64_t n) {
    const C scale = static_cast<C>(1 / lambd), least = static_cast<C>(draws::least_positive(dtype));
    for (int64_t i = 0; i < n; ++i) x[i] = std::max(x[i] * scale, least);  // never 0
  });
}
void geometric_(const Tensor& self, double p, const Generator& generator) {
  const double most = draws::most_trials(static_cast<int>(self.dtype()));
  const Tensor draws = make_empty(self.sizes(), ScalarType::Float64);
  fill_exponential(draws, next_stream(generator, "geometric_"), [&]<typename C>(C* x, int64_t n) {
    const double scale = -1 / std::log1p(-p);
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<C>(std::clamp(std::ceil(x[i] * scale), 1.0, most));
  });
  copy_strided(self, draws);
}
void cauchy_(const Tensor& self, double median, double sigma, const Generator& generator) {
  const Tensor draws = make_empty(self.sizes(), ScalarType::Float64);
  const Philox stream = next_stream(generator, "cauchy_");
  draw(
      draws, stream, false, [](const uint32_t*, int64_t, float*) {},
      [&](const uint64_t* longs, int64_t groups, double* x) {
        table().uniform_f64(longs, groups * 64, x);
        for (int64_t i = 0; i < groups * 64; ++i) {
          x[i] = median + sigma * std::tan(3.14159265358979323846 * (x[i] + 0x1p-54 - 0.5));
        }
      });
  copy_strided(self, draws);
}
void log_normal_(const Tensor& self, double mean, double std, const Generator& generator) {
  fill_normal(self, next_stream(generator, "log_normal_"), [&]<typename C>(C* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      x[i] = std::exp(draws::scaled_normal(x[i], static_cast<C>(std), static_cast<C>(mean)));
    }
  });
}

}  // namespace facula::cpu
