// Work that nobody waits for: kernels that are built while others run in their place.
#pragma once

#include <functional>

namespace facula::cuda {

// Runs on one of a few threads, and raises nothing. What has not begun when the process ends is left out; false where
// no thread can be had.
bool in_background(std::function<void()> work);

}  // namespace facula::cuda
