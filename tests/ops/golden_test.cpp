// Ops, their gradients and second gradients against PyTorch's in f64.
#include <gtest/gtest.h>

#include "tests/ops/golden/groups.h"

namespace bytetape::test {
namespace {

const std::vector<GoldenCase>& cases() {
  static const auto all = golden_cases("ops.csv");
  return all;
}
const GoldenOps& golden_ops() {
  static const GoldenOps all = [] {
    GoldenOps ops;
    for (auto* group : {elementwise_ops, indexing_ops, loss_ops, ordering_ops, product_ops, rearrange_ops, reduce_ops})
      ops.merge(group());
    return ops;
  }();
  return all;
}

class GoldenOpCase : public testing::TestWithParam<std::size_t> {};

TEST_P(GoldenOpCase, EqualsPyTorch) {
  const GoldenCase& c = cases()[GetParam()];
  expect_golden(c, golden_ops().at(c.op));
}

INSTANTIATE_TEST_SUITE_P(, GoldenOpCase, testing::Range(std::size_t{0}, cases().size()),
                         [](const auto& info) { return cases()[info.param].name; });

TEST(GoldenOps, HaveCases) { expect_complete(cases(), golden_ops()); }

}  // namespace
}  // namespace bytetape::test
