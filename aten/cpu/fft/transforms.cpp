// Transforms along dims, one after the other. They are pocketfft's: lines that fit its plans go through it many at a
// time, a vector's lane each, and longer ones in parts.
#include "aten/cpu/fft/range.h"
#include "aten/cpu/fft/real_lines.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

// The lines of two tensors along a dim.
class Lines {
 public:
  Lines(const Tensor& in, const Tensor& out, size_t dim) : step_in_(in.strides()[dim]), step_out_(out.strides()[dim]) {
    for (size_t d = 0; d < in.sizes().size(); ++d) {
      if (d == dim || in.sizes()[d] == 1) continue;
      sizes_.push_back(in.sizes()[d]);
      in_.push_back(in.strides()[d]);
      out_.push_back(out.strides()[d]);
    }
  }
  int64_t count() const { return numel_of(sizes_); }
  FftLines get() const {
    return {static_cast<int64_t>(sizes_.size()), sizes_.data(), in_.data(), out_.data(), step_in_, step_out_};
  }
  // fn(offset in, offset out) of one line after the other.
  template <typename F>
  void each(const F& fn) const {
    DimVector position(sizes_.size());
    int64_t in = 0, out = 0;
    for (int64_t i = count(); i-- > 0;) {
      fn(in, out);
      for (size_t d = sizes_.size(); d-- > 0;) {
        in += in_[d];
        out += out_[d];
        if (++position[d] < sizes_[d]) break;
        in -= sizes_[d] * in_[d];
        out -= sizes_[d] * out_[d];
        position[d] = 0;
      }
    }
  }

 private:
  DimVector sizes_, in_, out_;
  int64_t step_in_, step_out_;
};

// Is a line worth being taken alone? `size` is the length of the complex transform that it takes.
template <typename T>
bool taken_alone(int64_t count, int64_t size) {
  if (size >= kLongLine) return true;
  return size >= kSplitLine && count * 2 <= fft_loops<T>().lanes && LongLine<T>::splits(size);
}

size_t dim_of(const Tensor& t, int64_t dim) { return static_cast<size_t>(wrap_dim(dim, t.dim())); }

// `out` = `in` transformed along a dim; they may be the same.
template <typename T>
void along_dim(const Tensor& in, const Tensor& out, size_t dim, T scale, bool forward) {
  using C = std::complex<T>;
  const Lines lines(in, out, dim);
  const FftLines where = lines.get();
  const int64_t n = in.sizes()[dim];
  const C* from = in.data<C>();
  C* to = out.data<C>();
  if (!taken_alone<T>(lines.count(), n)) {
    transform_lines<T>(where, lines.count(), n, from, to, scale, forward);
    return;
  }
  const auto line = LongLine<T>::of(n);
  lines.each([&](int64_t i, int64_t o) { line->run(from + i, where.step_in, to + o, where.step_out, scale, forward); });
}

// Along all dims but the last one of the list; `scale` is used up by the first.
template <typename T>
Tensor along_others(const Tensor& in, const Tensor& out, IntList dims, T& scale, bool forward) {
  Tensor from = in;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    along_dim<T>(from, out, dim_of(in, dims[i]), scale, forward);
    scale = T(1);
    from = out;
  }
  return from;
}

Tensor first_half(const Tensor& t, size_t dim) {
  DimVector sizes(t.sizes());
  sizes[dim] = sizes[dim] / 2 + 1;
  return alias(t, sizes, t.strides(), t.offset(), false);
}

// The transform of real numbers is Hermitian: x[-k] = conj(x[k]), of all dims together.
template <typename T>
void fill_other_half(const Tensor& out, IntList dims) {
  using C = std::complex<T>;
  const size_t last = dim_of(out, dims.back()), rank = out.sizes().size();
  const int64_t n = out.sizes()[last], step = out.strides()[last];
  DimVector sizes(out.sizes());
  sizes[last] = 1;
  SmallVector<bool, 8> turned(rank, false);
  for (const int64_t d : dims) turned[dim_of(out, d)] = true;
  C* data = out.data<C>();
  parallel_for(0, numel_of(sizes), grain_for(n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t rest = i, to = 0, from = 0;
      for (size_t d = rank; d-- > 0;) {
        const int64_t at = rest % sizes[d];
        rest /= sizes[d];
        to += at * out.strides()[d];
        from += (turned[d] && at > 0 ? sizes[d] - at : at) * out.strides()[d];
      }
      for (int64_t k = n / 2 + 1; k < n; ++k) data[to + k * step] = std::conj(data[from + (n - k) * step]);
      count_step();
    }
  });
}

template <typename F>
void visit_real(ScalarType t, const F& fn) {
  if (to_real(t) == ScalarType::Float64) {
    fn(std::type_identity<double>{});
  } else {
    FACULA_ASSERT(to_real(t) == ScalarType::Float32);
    fn(std::type_identity<float>{});
  }
}

void run_c2c(const Tensor& self, IntList dim, double scale, bool forward, const Tensor& out) {
  visit_real(self.dtype(), [&]<typename T>(std::type_identity<T>) {
    T factor = static_cast<T>(scale);
    const Tensor from = along_others<T>(self, out, dim, factor, forward);
    along_dim<T>(from, out, dim_of(out, dim.back()), factor, forward);
  });
}

void run_r2c(const Tensor& self, IntList dim, double scale, bool forward, bool onesided, const Tensor& out) {
  const size_t last = dim_of(self, dim.back());
  const Tensor half = onesided ? out : first_half(out, last);
  visit_real(self.dtype(), [&]<typename T>(std::type_identity<T>) {
    using C = std::complex<T>;
    const Lines lines(self, half, last);
    const FftLines where = lines.get();
    const int64_t n = self.sizes()[last];
    const T* from = self.data<T>();
    C* to = half.data<C>();
    if (taken_alone<T>(lines.count(), n % 2 == 0 ? n / 2 : n)) {
      lines.each([&](int64_t i, int64_t o) {
        long_r2c<T>(n, from + i, where.step_in, to + o, where.step_out, static_cast<T>(scale), forward);
      });
    } else {
      const auto plan = fft_plan<T>(FftKind::Real, n);
      share_lines<T>(lines.count(), n, where.dims, [&](int64_t begin, int64_t end, T* work, int64_t* position) {
        return fft_loops<T>().r2c(plan.get(), where, begin, end, from, to, work, position, static_cast<T>(scale),
                                  forward);
      });
    }
    T one = 1;
    along_others<T>(half, half, dim, one, forward);
    if (!onesided) fill_other_half<T>(out, dim);
  });
}

void run_c2r(const Tensor& self, IntList dim, int64_t last_size, double scale, bool forward, const Tensor& out) {
  const size_t last = dim_of(self, dim.back());
  visit_real(self.dtype(), [&]<typename T>(std::type_identity<T>) {
    using C = std::complex<T>;
    T factor = static_cast<T>(scale);
    const Tensor between = dim.size() > 1 ? make_empty(self.sizes(), self.dtype(), self.device()) : self;
    const Tensor in = along_others<T>(self, between, dim, factor, forward);
    const Lines lines(in, out, last);
    const FftLines where = lines.get();
    const int64_t n = last_size;
    const C* from = in.data<C>();
    T* to = out.data<T>();
    if (taken_alone<T>(lines.count(), n % 2 == 0 ? n / 2 : n)) {
      lines.each([&](int64_t i, int64_t o) {
        long_c2r<T>(n, from + i, where.step_in, to + o, where.step_out, factor, forward);
      });
      return;
    }
    const auto plan = fft_plan<T>(FftKind::Real, n);
    share_lines<T>(lines.count(), n, where.dims, [&](int64_t begin, int64_t end, T* work, int64_t* position) {
      return fft_loops<T>().c2r(plan.get(), where, begin, end, from, to, work, position, factor, forward);
    });
  });
}

}  // namespace

void fft_c2c(const Tensor& self, IntList dim, double scale, bool forward, const Tensor& out) {
  if (out.numel() == 0) return;
  const auto run = [&](const Tensor& x, const Tensor& to) { run_c2c(x, dim, scale, forward, to); };
  run(self, out);
  repair_overflow(self, out, dim, run);
}

void fft_r2c(const Tensor& self, IntList dim, double scale, bool forward, bool onesided, const Tensor& out) {
  if (out.numel() == 0) return;
  const auto run = [&](const Tensor& x, const Tensor& to) { run_r2c(x, dim, scale, forward, onesided, to); };
  run(self, out);
  repair_overflow(self, out, dim, run);
}

void fft_c2r(const Tensor& self, IntList dim, int64_t last_size, double scale, bool forward, const Tensor& out) {
  if (out.numel() == 0) return;
  const auto run = [&](const Tensor& x, const Tensor& to) { run_c2r(x, dim, last_size, scale, forward, to); };
  run(self, out);
  repair_overflow(self, out, dim, run);
}

}  // namespace facula::cpu
