#pragma once
// Images (n, c, h, w) of fresh random numbers in every memory layout that an op may meet.
#include <string>
#include <vector>

#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/factories.h"

namespace bytetape::test {

inline const std::vector<std::string> layouts{"row-major", "channels-last", "permuted", "sliced", "repeated"};

inline Tensor image(const std::string& layout, const Shape& s, DType dtype = DType::f64) {
  if (layout == "row-major") return randn(s, dtype);
  if (layout == "channels-last") return channels_last(randn(s, dtype));
  if (layout == "permuted") return permute(randn({s[3], s[1], s[0], s[2]}, dtype), {2, 1, 3, 0});
  if (layout == "sliced")
    return narrow(narrow(channels_last(randn({s[0], s[1] + 3, s[2] + 2, s[3]}, dtype)), 1, 2, s[1]), 2, 1, s[2]);
  return expand(randn({s[0], s[1], s[2], 1}, dtype), s);
}

}  // namespace bytetape::test
