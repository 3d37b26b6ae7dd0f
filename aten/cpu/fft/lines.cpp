// build: levels fused
#include "aten/cpu/fft/lines.h"

#include "aten/cpu/common/vector.h"

#define FACULA_JOINED(a, b) a##b
#define FACULA_JOIN(a, b) FACULA_JOINED(a, b)
#define POCKETFFT_NO_MULTITHREADING
// Each instruction set has a copy with names of its own, which the linker keeps apart.
#define pocketfft FACULA_JOIN(pocketfft_, FACULA_ISA)
#include "aten/cpu/fft/pocketfft/pocketfft_hdronly.h"
#undef pocketfft

namespace facula {
namespace {

namespace pocket = FACULA_JOIN(pocketfft_, FACULA_ISA)::detail;
using pocket::cmplx;

#ifdef POCKETFFT_NO_VECTORS
template <typename T>
using Vec = T;
#else
template <typename T>
using Vec = pocket::vtype_t<T>;
#endif
template <typename T>
constexpr int64_t kLanes = pocket::VLEN<T>::val;

// Goes from line to line.
class LineIterator {
 public:
  LineIterator(const FftLines& lines, int64_t first, int64_t* position) : lines_(lines), position_(position) {
    for (int64_t d = lines.dims; d-- > 0;) {
      position[d] = first % lines.sizes[d];
      first /= lines.sizes[d];
      in_ += position[d] * lines.in[d];
      out_ += position[d] * lines.out[d];
    }
  }
  void take(int64_t count, int64_t* in, int64_t* out) {
    for (int64_t j = 0; j < count; ++j) {
      in[j] = in_;
      out[j] = out_;
      for (int64_t d = lines_.dims; d-- > 0;) {
        in_ += lines_.in[d];
        out_ += lines_.out[d];
        if (++position_[d] < lines_.sizes[d]) break;
        in_ -= lines_.sizes[d] * lines_.in[d];
        out_ -= lines_.sizes[d] * lines_.out[d];
        position_[d] = 0;
      }
    }
  }

 private:
  const FftLines& lines_;
  int64_t* position_;
  int64_t in_ = 0, out_ = 0;
};

// The lines of one group: their first elements, how many there are, and the number of the first.
template <typename T>
struct Group {
  int64_t in[kLanes<T>], out[kLanes<T>];
  int64_t count, first;
};

// fn(type_identity<V>, group): V holds an element of as many lines as machine vectors have lanes, or of one line.
template <typename T, typename F>
void each_group(const FftLines& lines, int64_t begin, int64_t end, int64_t* position, const F& fn) {
  LineIterator next(lines, begin, position);
  Group<T> group;
  for (int64_t i = begin; i < end; i += group.count) {
    group.first = i;
    const int64_t left = end - i;
    if (kLanes<T> > 1 && left * 4 >= kLanes<T> && left > 1) {
      group.count = left < kLanes<T> ? left : kLanes<T>;
      next.take(group.count, group.in, group.out);
      for (int64_t j = group.count; j < kLanes<T>; ++j) {  // lanes without a line do what the first one does
        group.in[j] = group.in[0];
        group.out[j] = group.out[0];
      }
      fn.template operator()<Vec<T>>(group);
    } else {
      group.count = 1;
      next.take(1, group.in, group.out);
      fn.template operator()<T>(group);
    }
  }
}

template <typename T, typename V>
constexpr int64_t kWidth = sizeof(V) / sizeof(T);

// Complex numbers are moved by blocks: a cache line of each line at a time, as lines that are a power of two apart
// would push one another out of the cache; of lines side by side, an element of all.
constexpr int64_t kBlock = 8;

template <typename T, typename V>
FACULA_INLINE bool side_by_side(const int64_t* at, int64_t count) {
  return kWidth<T, V> > 1 && count == kWidth<T, V> && at[1] - at[0] == 1 && at[count - 1] - at[0] == count - 1;
}

// A vector of pairs taken apart, and put together.
template <typename T, typename V>
FACULA_INLINE void part(const T* both, V& r, V& i) {
  constexpr int64_t width = kWidth<T, V>;
  alignas(64) T re[width], im[width];
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) {
    re[j] = both[2 * j];
    im[j] = both[2 * j + 1];
  }
  __builtin_memcpy(&r, re, sizeof(V));
  __builtin_memcpy(&i, im, sizeof(V));
}
template <typename T, typename V>
FACULA_INLINE void join(const V& r, const V& i, T* both) {
  constexpr int64_t width = kWidth<T, V>;
  alignas(64) T re[width], im[width];
  __builtin_memcpy(re, &r, sizeof(V));
  __builtin_memcpy(im, &i, sizeof(V));
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) {
    both[2 * j] = re[j];
    both[2 * j + 1] = im[j];
  }
}

// put(k, re, im) of elements 0 to n - 1 of all lines.
template <typename T, typename V, typename F>
FACULA_INLINE void read_complex(const cmplx<T>* in, const Group<T>& group, int64_t step, int64_t n, const F& put) {
  constexpr int64_t width = kWidth<T, V>;
  V r, i;
  if (side_by_side<T, V>(group.in, group.count)) {
    for (int64_t k = 0; k < n; ++k) {
      part<T, V>(&in[group.in[0] + k * step].r, r, i);
      put(k, r, i);
    }
    return;
  }
  alignas(64) T both[kBlock][2 * width];
  for (int64_t k = 0; k < n; k += kBlock) {
    const int64_t count = n - k < kBlock ? n - k : kBlock;
    for (int64_t j = 0; j < width; ++j) {
      const cmplx<T>* from = in + group.in[j] + k * step;
      for (int64_t b = 0; b < count; ++b) __builtin_memcpy(&both[b][2 * j], from + b * step, sizeof(cmplx<T>));
    }
    for (int64_t b = 0; b < count; ++b) {
      part<T, V>(both[b], r, i);
      put(k + b, r, i);
    }
  }
}
// get(k, re, im) says what they are.
template <typename T, typename V, typename F>
FACULA_INLINE void write_complex(cmplx<T>* out, const Group<T>& group, int64_t step, int64_t n, const F& get) {
  constexpr int64_t width = kWidth<T, V>;
  V r, i;
  if (side_by_side<T, V>(group.out, group.count)) {
    for (int64_t k = 0; k < n; ++k) {
      get(k, r, i);
      join<T, V>(r, i, &out[group.out[0] + k * step].r);
    }
    return;
  }
  alignas(64) T both[kBlock][2 * width];
  for (int64_t k = 0; k < n; k += kBlock) {
    const int64_t count = n - k < kBlock ? n - k : kBlock;
    for (int64_t b = 0; b < count; ++b) {
      get(k + b, r, i);
      join<T, V>(r, i, both[b]);
    }
    for (int64_t j = 0; j < group.count; ++j) {
      cmplx<T>* to = out + group.out[j] + k * step;
      for (int64_t b = 0; b < count; ++b) to[b * step] = {both[b][2 * j], both[b][2 * j + 1]};
    }
  }
}
template <typename T, typename V>
FACULA_INLINE void read_real(const T* in, const Group<T>& group, int64_t step, int64_t n, V* x) {
  constexpr int64_t width = kWidth<T, V>, block = 2 * kBlock;
  alignas(64) T v[block][width];
  for (int64_t k = 0; k < n; k += block) {
    const int64_t count = n - k < block ? n - k : block;
    for (int64_t j = 0; j < width; ++j) {
      for (int64_t b = 0; b < count; ++b) v[b][j] = in[group.in[j] + (k + b) * step];
    }
    __builtin_memcpy(x + k, v, static_cast<size_t>(count) * sizeof(V));
  }
}
template <typename T, typename V>
FACULA_INLINE void write_real(T* out, const Group<T>& group, int64_t step, int64_t n, const V* x) {
  constexpr int64_t width = kWidth<T, V>, block = 2 * kBlock;
  alignas(64) T v[block][width];
  for (int64_t k = 0; k < n; k += block) {
    const int64_t count = n - k < block ? n - k : block;
    __builtin_memcpy(v, x + k, static_cast<size_t>(count) * sizeof(V));
    for (int64_t j = 0; j < group.count; ++j) {
      for (int64_t b = 0; b < count; ++b) out[group.out[j] + (k + b) * step] = v[b][j];
    }
  }
}

// Element k of line j times the root's power j k.
template <typename T, typename V>
void turn(const pocket::sincos_2pibyn<T>& roots, const Group<T>& group, int64_t n, bool forward, cmplx<V>* x) {
  for (int64_t k = 1; k < n; ++k) {
    T re[kWidth<T, V>], im[kWidth<T, V>];
    for (int64_t j = 0; j < kWidth<T, V>; ++j) {
      const int64_t line = group.first + (j < group.count ? j : 0);
      const cmplx<T> w = roots[static_cast<size_t>(line * k)];
      re[j] = w.r;
      im[j] = forward ? -w.i : w.i;
    }
    V wr, wi;
    __builtin_memcpy(&wr, re, sizeof(V));
    __builtin_memcpy(&wi, im, sizeof(V));
    const V r = x[k].r * wr - x[k].i * wi;
    x[k].i = x[k].r * wi + x[k].i * wr;
    x[k].r = r;
  }
}

template <typename F>
bool has_memory(const F& fn) {
  try {
    fn();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

template <typename T>
bool c2c(const void* plan, const void* roots, const FftLines& lines, int64_t begin, int64_t end,
         const std::complex<T>* in, std::complex<T>* out, T* work, int64_t* position, T scale, bool forward) {
  const auto& p = *static_cast<const pocket::pocketfft_c<T>*>(plan);
  const auto* from = reinterpret_cast<const cmplx<T>*>(in);
  auto* to = reinterpret_cast<cmplx<T>*>(out);
  const auto n = static_cast<int64_t>(p.length());
  return has_memory([&] {
    each_group<T>(lines, begin, end, position, [&]<typename V>(const Group<T>& group) {
      auto* x = reinterpret_cast<cmplx<V>*>(work);
      read_complex<T, V>(from, group, lines.step_in, n, [&](int64_t k, const V& re, const V& im) { x[k].Set(re, im); });
      p.exec(x, scale, forward);
      if (roots != nullptr) turn(*static_cast<const pocket::sincos_2pibyn<T>*>(roots), group, n, forward, x);
      write_complex<T, V>(to, group, lines.step_out, n, [&](int64_t k, V& re, V& im) {
        re = x[k].r;
        im = x[k].i;
      });
    });
  });
}

// The real transform's results lie as re 0, re 1, im 1, re 2, im 2 ..., of even lengths with re n / 2 at the end.
template <typename T>
bool r2c(void* plan, const FftLines& lines, int64_t begin, int64_t end, const T* in, std::complex<T>* out, T* work,
         int64_t* position, T scale, bool forward) {
  auto& p = *static_cast<pocket::pocketfft_r<T>*>(plan);
  auto* to = reinterpret_cast<cmplx<T>*>(out);
  const auto n = static_cast<int64_t>(p.length());
  return has_memory([&] {
    each_group<T>(lines, begin, end, position, [&]<typename V>(const Group<T>& group) {
      auto* x = reinterpret_cast<V*>(work);
      read_real<T, V>(in, group, lines.step_in, n, x);
      p.exec(x, scale, true);
      write_complex<T, V>(to, group, lines.step_out, n / 2 + 1, [&](int64_t k, V& re, V& im) {
        re = x[k > 0 ? 2 * k - 1 : 0];
        im = V{};
        if (k > 0 && 2 * k < n) im = forward ? x[2 * k] : -x[2 * k];
      });
    });
  });
}

template <typename T>
bool c2r(void* plan, const FftLines& lines, int64_t begin, int64_t end, const std::complex<T>* in, T* out, T* work,
         int64_t* position, T scale, bool forward) {
  auto& p = *static_cast<pocket::pocketfft_r<T>*>(plan);
  const auto* from = reinterpret_cast<const cmplx<T>*>(in);
  const auto n = static_cast<int64_t>(p.length());
  return has_memory([&] {
    each_group<T>(lines, begin, end, position, [&]<typename V>(const Group<T>& group) {
      auto* x = reinterpret_cast<V*>(work);
      read_complex<T, V>(from, group, lines.step_in, n / 2 + 1, [&](int64_t k, const V& re, const V& im) {
        x[k > 0 ? 2 * k - 1 : 0] = re;
        if (k > 0 && 2 * k < n) x[2 * k] = forward ? -im : im;
      });
      p.exec(x, scale, false);
      write_real<T, V>(out, group, lines.step_out, n, x);
    });
  });
}

template <typename Plan>
void* make(int64_t length) {
  void* made = nullptr;
  has_memory([&] { made = new Plan(static_cast<size_t>(length)); });
  return made;
}
template <typename Plan>
void drop(void* plan) {
  delete static_cast<Plan*>(plan);
}

int64_t good_length(int64_t least) {
  return static_cast<int64_t>(pocket::util::good_size_cmplx(static_cast<size_t>(least)));
}

template <typename T>
void root(const void* roots, int64_t begin, int64_t count, std::complex<T>* to) {
  const auto& table = *static_cast<const pocket::sincos_2pibyn<T>*>(roots);
  auto* w = reinterpret_cast<cmplx<T>*>(to);
  for (int64_t i = 0; i < count; ++i) w[i] = table[static_cast<size_t>(begin + i)];
}

template <typename T>
constexpr FftLoops<T> kLoops = {make<pocket::pocketfft_c<T>>,
                                make<pocket::pocketfft_r<T>>,
                                make<pocket::sincos_2pibyn<T>>,
                                drop<pocket::pocketfft_c<T>>,
                                drop<pocket::pocketfft_r<T>>,
                                drop<pocket::sincos_2pibyn<T>>,
                                good_length,
                                kLanes<T>,
                                c2c<T>,
                                r2c<T>,
                                c2r<T>,
                                root<T>};

}  // namespace

FACULA_DEFINE_BY_ISA(FftLoops<float>, fft_loops_float, kLoops<float>)
FACULA_DEFINE_BY_ISA(FftLoops<double>, fft_loops_double, kLoops<double>)

}  // namespace facula
