// The methods of a convolution, a table for each of its three results: which shapes a method serves, where it pays,
// and what it runs. The first that pays is taken; a variable of the environment puts one of them first.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "aten/cpu/conv/geometry.h"
#include "aten/layout.h"

namespace facula::cpu::conv {

// Forward: image (the input) and other (the weight) give out. Gradient of the input, also the transposed convolution:
// image (the gradient of the output) and other (the weight) give out. Gradient of the weight: image (the input) and
// other (the gradient of the output) give out. Tensors are contiguous or channels_last, in the type of arithmetic.
struct Call {
  const Geometry& g;
  const Tensor &image, &other, &bias, &out;
  bool mostly_padding;  // a padded copy may be larger than any memory

  // Planes of one or two dims without groups, of which a padded copy can be made.
  bool plain() const { return !mostly_padding && g.groups == 1 && g.flat() && image.numel() > 0 && other.numel() > 0; }
  bool nhwc() const { return is_channels_last(image); }
};

struct Method {
  const char* name;
  bool (*serves)(const Call&);
  bool (*pays)(const Call&);  // asked where it serves
  // False where the result is not that of the definition: the next method is asked.
  bool (*run)(const Call&);
};

// A result of convolutions, and its methods in the order in which they are asked. The last serves and pays everywhere.
class Methods {
 public:
  static constexpr size_t kMaxMethods = 12;

  // `variable` of the environment names a method that is asked first, whether it pays or not.
  constexpr Methods(const char* variable, std::span<const Method> floats, std::span<const Method> doubles)
      : variable_(variable), floats_(floats), doubles_(doubles) {}

  void run(const Call& call);
  // Each name with the number of calls that it has done: "winograd=2 pointwise=0".
  std::string done() const;

 private:
  // The method that the environment names, or their number. Read once; an unknown name is a ValueError each time.
  size_t named();

  const char* variable_;
  std::span<const Method> floats_, doubles_;
  std::atomic<size_t> named_{kMaxMethods + 1};  // not read yet
  std::array<std::atomic<int64_t>, kMaxMethods> calls_{};
};

}  // namespace facula::cpu::conv
