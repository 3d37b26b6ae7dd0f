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
class Walk {
 public:
  Walk(const FftLines& lines, int64_t first, int64_t* position) : lines_(lines), position_(position) {
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
  Walk walk(lines, begin, position);
  Group<T> group;
  for (int64_t i = begin; i < end; i += group.count) {
    group.first = i;
    const int64_t left = end - i;
    if (kLanes<T> > 1 && left * 4 >= kLanes<T> && left > 1) {
      group.count = left < kLanes<T> ? left : kLanes<T>;
      walk.take(group.count, group.in, group.out);
      for (int64_t j = group.count; j < kLanes<T>; ++j) {  // lanes without a line do what the first one does
        group.in[j] = group.in[0];
        group.out[j] = group.out[0];
      }
      fn.template operator()<Vec<T>>(group);
    } else {
      group.count = 1;
      walk.take(1, group.in, group.out);
      fn.template operator()<T>(group);
    }
  }
}

// Number j of a vector of lanes, or the one number.
template <typename T, typename V>
FACULA_INLINE T lane(const V& v, int64_t j) {
  if constexpr (std::is_same_v<T, V>) {
    return v;
  } else {
    return v[j];
  }
}

template <typename T, typename V>
constexpr int64_t kWidth = sizeof(V) / sizeof(T);

template <typename T, typename V>
FACULA_INLINE void read(const cmplx<T>* in, const int64_t* at, int64_t offset, cmplx<V>& x) {
  T re[kWidth<T, V>], im[kWidth<T, V>];
  for (int64_t j = 0; j < kWidth<T, V>; ++j) {
    re[j] = in[at[j] + offset].r;
    im[j] = in[at[j] + offset].i;
  }
  __builtin_memcpy(&x.r, re, sizeof(V));
  __builtin_memcpy(&x.i, im, sizeof(V));
}
template <typename T, typename V>
FACULA_INLINE void read(const T* in, const int64_t* at, int64_t offset, V& x) {
  T v[kWidth<T, V>];
  for (int64_t j = 0; j < kWidth<T, V>; ++j) v[j] = in[at[j] + offset];
  __builtin_memcpy(&x, v, sizeof(V));
}
template <typename T, typename V>
FACULA_INLINE void write(const V& re, const V& im, cmplx<T>* out, const Group<T>& group, int64_t offset) {
  if (group.count == kWidth<T, V>) {
    for (int64_t j = 0; j < kWidth<T, V>; ++j) {
      out[group.out[j] + offset].Set(lane<T>(re, j), lane<T>(im, j));
    }
  } else {
    for (int64_t j = 0; j < group.count; ++j) out[group.out[j] + offset].Set(lane<T>(re, j), lane<T>(im, j));
  }
}
template <typename T, typename V>
FACULA_INLINE void write(const V& x, T* out, const Group<T>& group, int64_t offset) {
  for (int64_t j = 0; j < group.count; ++j) out[group.out[j] + offset] = lane<T>(x, j);
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
      for (int64_t i = 0; i < n; ++i) read<T, V>(from, group.in, i * lines.step_in, x[i]);
      p.exec(x, scale, forward);
      if (roots != nullptr) turn(*static_cast<const pocket::sincos_2pibyn<T>*>(roots), group, n, forward, x);
      for (int64_t i = 0; i < n; ++i) write<T, V>(x[i].r, x[i].i, to, group, i * lines.step_out);
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
      for (int64_t i = 0; i < n; ++i) read<T, V>(in, group.in, i * lines.step_in, x[i]);
      p.exec(x, scale, true);
      const V zero{};
      write<T, V>(x[0], zero, to, group, 0);
      int64_t i = 1, k = 1;
      for (; i + 1 < n; i += 2, ++k) {
        write<T, V>(x[i], forward ? x[i + 1] : -x[i + 1], to, group, k * lines.step_out);
      }
      if (i < n) write<T, V>(x[i], zero, to, group, k * lines.step_out);
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
      cmplx<V> z;
      read<T, V>(from, group.in, 0, z);
      x[0] = z.r;
      int64_t i = 1, k = 1;
      for (; i + 1 < n; i += 2, ++k) {
        read<T, V>(from, group.in, k * lines.step_in, z);
        x[i] = z.r;
        x[i + 1] = forward ? -z.i : z.i;
      }
      if (i < n) {
        read<T, V>(from, group.in, k * lines.step_in, z);
        x[i] = z.r;
      }
      p.exec(x, scale, false);
      for (int64_t j = 0; j < n; ++j) write<T, V>(x[j], out, group, j * lines.step_out);
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
