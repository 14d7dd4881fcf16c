#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bytetape/bytetape.h"

namespace bytetape::test {

/// Compares on the device, as networks may have half a gigabyte of parameters.
inline void expect_same_bits(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_FALSE(any(actual[i] != expected[i]).item<bool>()) << "tensor " << i;
}

/// Trains `times` times, and as often in captured steps. train(captures) returns the losses of `steps` steps, and what
/// was trained. All runs must have the same bits.
template <class Train>
void expect_repeats(const Train& train, int steps, int times) {
  const std::vector<Tensor> once = train(false);
  EXPECT_LT(once[static_cast<std::size_t>(steps) - 1].item<float>(), once[0].item<float>()) << "it learns";
  for (int time = 1; time < times; ++time)
    for (const bool captures : {false, true}) {
      SCOPED_TRACE(detail::concat("run ", time, captures ? ", captured" : ""));
      expect_same_bits(train(captures), once);
    }
}

}  // namespace bytetape::test
