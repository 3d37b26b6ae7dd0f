// Work that nobody waits for: kernels that are built while others run in their place.
#pragma once

#include <functional>

namespace facula::cuda {

// Runs on one of a few threads. What has not begun when the process ends is left out.
void in_background(std::function<void()> work);
// Until all of it is done that was given so far.
void wait_for_background();

}  // namespace facula::cuda
