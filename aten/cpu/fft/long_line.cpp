#include "aten/cpu/fft/long_line.h"

#include <cmath>

namespace facula::cpu {
namespace {

constexpr int64_t kMinPart = 16;

// The largest divisor up to the root.
int64_t short_part(int64_t n) {
  auto d = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (n % d != 0) --d;
  return d;
}

bool even_parts(int64_t n, int64_t n1) {
  const auto most = std::max<double>(1 << 17, 8 * std::sqrt(static_cast<double>(n)));
  return n1 >= kMinPart && static_cast<double>(n / n1) <= most;
}

}  // namespace

template <typename T>
bool LongLine<T>::splits(int64_t length) {
  return even_parts(length, short_part(length));
}

template <typename T>
std::shared_ptr<LongLine<T>> LongLine<T>::of(int64_t length) {
  const bool split = splits(length);
  const int64_t bytes = split ? 0 : saturated_mul(length, 4 * static_cast<int64_t>(sizeof(C)));
  return std::static_pointer_cast<LongLine>(
      kept_plan(FftKind::Line, sizeof(T) == 8, length, bytes, [&] { return std::make_shared<LongLine>(length); }));
}

template <typename T>
LongLine<T>::LongLine(int64_t length) : n_(length) {
  const int64_t n1 = short_part(length);
  if (even_parts(length, n1)) {
    n1_ = n1;
    roots_ = fft_plan<T>(FftKind::Roots, length);
    return;
  }
  padded_ = fft_loops<T>().good_length(2 * length - 1);
  inner_ = of(padded_);
  chirp_ = std::make_unique<TypedBuffer<C>>(length);
  filter_ = std::make_unique<TypedBuffer<C>>(padded_);
  C *chirp = chirp_->get(), *filter = filter_->get();
  // exp(i pi k^2 / n): k^2 is taken modulo 2 n.
  const auto table = fft_plan<T>(FftKind::Roots, 2 * length);
  share_elements(length, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const auto square = static_cast<unsigned __int128>(k) * static_cast<unsigned __int128>(k);
      const auto at = static_cast<int64_t>(square % static_cast<unsigned __int128>(2 * length));
      fft_loops<T>().root(table.get(), at, 1, chirp + k);
    }
  });
  share_elements(padded_, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t at = std::min(k, padded_ - k);
      filter[k] = at < n_ ? chirp[at] : C(0);
    }
  });
  inner_->run(filter, 1, filter, 1, T(1) / static_cast<T>(padded_), true);
}

template <typename T>
void LongLine<T>::run(const C* in, int64_t step_in, C* out, int64_t step_out, T scale, bool forward) const {
  if (n1_ > 0) {
    run_split(in, step_in, out, step_out, scale, forward);
  } else {
    run_chirp(in, step_in, out, step_out, scale, forward);
  }
}

template <typename T>
void LongLine<T>::run_split(const C* in, int64_t step_in, C* out, int64_t step_out, T scale, bool forward) const {
  const int64_t n1 = n1_, n2 = n_ / n1, one = 1, out_step = step_out, in_step = step_in;
  const TypedBuffer<C> between(n_);
  transform_lines<T>({1, &n2, &in_step, &one, wrapped_mul(n2, step_in), n2}, n2, n1, in, between.get(), T(1), forward,
                     roots_.get());
  transform_lines<T>({1, &n1, &n2, &out_step, 1, wrapped_mul(n1, step_out)}, n1, n2, between.get(), out, scale,
                     forward);
}

// The backward transform is the conjugate of the forward one of the conjugate.
template <typename T>
void LongLine<T>::run_chirp(const C* in, int64_t step_in, C* out, int64_t step_out, T scale, bool forward) const {
  const TypedBuffer<C> buffer(padded_);
  C* a = buffer.get();
  const C *chirp = chirp_->get(), *filter = filter_->get();
  share_elements(padded_, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      if (k >= n_) {
        a[k] = C(0);
        continue;
      }
      const C x = in[k * step_in];
      a[k] = times(forward ? x : std::conj(x), std::conj(chirp[k]));
    }
  });
  inner_->run(a, 1, a, 1, T(1), true);
  share_elements(padded_, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) a[k] = times(a[k], filter[k]);
  });
  inner_->run(a, 1, a, 1, T(1), false);
  share_elements(n_, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const C y = times(a[k], std::conj(chirp[k])) * scale;
      out[k * step_out] = forward ? y : std::conj(y);
    }
  });
}

template class LongLine<float>;
template class LongLine<double>;

}  // namespace facula::cpu
