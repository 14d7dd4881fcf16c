// What every row of the op list must pass on a GPU: the CPU's values, in f64, are the reference.
#include <algorithm>
#include <cmath>

#include "bytetape/autograd/engine.h"
#include "bytetape/core/device/backend.h"
#include "tests/cuda/gpu.h"
#include "tests/ops/evaluate.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape::test {
namespace {

class CudaOp : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (!is_available(gpu)) GTEST_SKIP() << "no CUDA device: " << row().name() << " ran on the CPU alone";
  }
  const OpRow& row() const { return op_list()[GetParam()]; }

  template <class F>
  void for_each_case(const F& f) const {
    for (std::size_t i = 0; i < row().cases.size(); ++i) {
      SCOPED_TRACE(describe_case(row(), row().cases[i], i));
      f(row().cases[i], draw(row(), row().cases[i], i));
    }
  }
};

/// The error's energy as a part of the signal's; infinite where NaN or infinity differ.
double nmse(const Array& actual, const Array& expected) {
  double error = 0, signal = 0;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double a = actual.values[i], e = expected.values[i];
    if (!std::isfinite(e)) {
      if (!(std::isnan(e) ? std::isnan(a) : a == e)) return INFINITY;
      continue;
    }
    if (!std::isfinite(a)) return INFINITY;
    error += (a - e) * (a - e);
    signal += e * e;
  }
  return error == 0 ? 0 : error / std::max(signal, 1e-12);
}

testing::AssertionResult near(const Evaluation& actual, const Evaluation& expected, double most) {
  const auto compare = [&](const Array& a, const Array& e, const std::string& what) -> testing::AssertionResult {
    if (!(a.shape == e.shape)) return testing::AssertionFailure() << what << ": " << a.shape << " for " << e.shape;
    const double difference = nmse(a, e);
    if (difference <= most) return testing::AssertionSuccess();
    return testing::AssertionFailure() << what << ": NMSE " << difference << ", at most " << most;
  };
  if (auto value = compare(actual.value, expected.value, "the value"); !value) return value;
  for (std::size_t i = 0; i < actual.grads.size(); ++i)
    if (auto g = compare(actual.grads[i], expected.grads[i], detail::concat("the gradient of input ", i)); !g) return g;
  return testing::AssertionSuccess();
}

// Of 16-bit types a few roundings, each of 2^-9 and 2^-12 at most, squared.
constexpr std::pair<DType, double> dtypes[] = {
    {DType::f64, 1e-18}, {DType::f32, 1e-7}, {DType::bf16, 6e-4}, {DType::f16, 1e-5}};

TEST_P(CudaOp, AgreesWithTheCpu) {
  for_each_case([&](const Case& inputs, const Arrays& values) {
    for (const auto& [dtype, most] : dtypes) {
      SCOPED_TRACE(detail::concat(dtype));
      const Arrays rounded = rounded_to(dtype, inputs, values);
      EXPECT_TRUE(near(evaluate(row(), inputs, rounded, dtype, gpu), evaluate(row(), inputs, rounded, DType::f64),
                       most * row().tolerance));
    }
  });
}

/// Returns the recorded gradients of an op in f64, by input. They are followed by second derivatives: the gradients of
/// the first ones times fixed weights, by input, and last for the seed. An array is empty if there is no gradient.
Arrays second_derivatives(const OpRow& row, const Case& inputs, const Arrays& values, Device device) {
  const Inputs x = make_inputs(inputs, values, DType::f64, device);
  Inputs leaves;
  for (const Tensor& input : x)
    if (input.requires_grad()) leaves.push_back(input);
  const Tensor y = row.f(x);
  Tensor seed = weights_like(y);
  seed.set_requires_grad();
  Arrays all;
  const auto keep = [&](const Tensor& g) { all.push_back(g.defined() ? to_array(g) : Array()); };
  std::vector<Tensor> first, weights;
  for (const Tensor& g : grad({y}, leaves, {.seeds = {seed}, .create_graph = true, .allow_unused = true})) {
    keep(g);
    if (!g.requires_grad()) continue;
    first.push_back(g);
    weights.push_back(weights_like(g));
  }
  leaves.push_back(seed);
  if (!first.empty())
    for (const Tensor& g : grad(first, leaves, {.seeds = weights, .allow_unused = true})) keep(g);
  return all;
}

TEST_P(CudaOp, SecondDerivativesAgreeWithTheCpu) {
  if (row().gradients != Gradients::twice) return;
  for_each_case([&](const Case& inputs, const Arrays& values) {
    const Arrays actual = second_derivatives(row(), inputs, values, gpu),
                 expected = second_derivatives(row(), inputs, values, Device::cpu());
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE(detail::concat("derivative ", i));
      double largest = 1;
      for (const double v : expected[i].values)
        if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
      EXPECT_TRUE(actual[i].shape == expected[i].shape);
      EXPECT_TRUE(all_close(actual[i].values, expected[i].values, 1e-9, 1e-9 * largest));
    }
  });
}

TEST_P(CudaOp, DoesNotDependOnStrides) {
  for_each_case([&](const Case& inputs, const Arrays& values) {
    Case dense = inputs;
    for (Input& i : dense) i.layout = Layout::dense;
    const Evaluation expected = evaluate(row(), dense, values, DType::f64);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      for (const Layout layout : all_layouts) {
        if (!applies(layout, inputs[i].shape) || (layout == Layout::expanded && inputs[i].layout != layout)) continue;
        SCOPED_TRACE(detail::concat("input ", i, to_string(layout)));
        Case strided = dense;
        strided[i].layout = layout;
        EXPECT_TRUE(near(evaluate(row(), strided, values, DType::f64, gpu), expected, 1e-18));
      }
  });
}

// The kernels' longer ways: vectors and their rest, many blocks, second stages.
TEST_P(CudaOp, RepeatsLargeInputsBitForBit) {
  const Case inputs = large_case(row());
  for (const auto& [dtype, most] : {dtypes[0], dtypes[1], dtypes[2]}) {
    SCOPED_TRACE(detail::concat(dtype));
    const Arrays values = rounded_to(dtype, inputs, draw(row(), inputs, 0));
    const Evaluation one = evaluate(row(), inputs, values, dtype, gpu);
    const Evaluation two = evaluate(row(), inputs, values, dtype, gpu);
    EXPECT_TRUE(near(one, evaluate(row(), inputs, values, DType::f64), most * row().tolerance));
    EXPECT_TRUE(same_bits(one, two));
  }
}

TEST_P(CudaOp, HasTheSameBitsOnAnotherGpuOfThisProcess) {
  SKIP_WITHOUT_ANOTHER_GPU();
  if (cuda::get_device_name(gpu.index) != cuda::get_device_name(another_gpu().index))
    GTEST_SKIP() << "the GPUs are of two kinds";
  const auto compare = [&](const Case& inputs, const Arrays& values) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      SCOPED_TRACE(detail::concat(dtype));
      const Arrays rounded = rounded_to(dtype, inputs, values);
      const Evaluation here = evaluate(row(), inputs, rounded, dtype, gpu),
                       there = evaluate(row(), inputs, rounded, dtype, another_gpu());
      EXPECT_TRUE(same_bits(here, there));
    }
  };
  for_each_case(compare);
  const Case large = large_case(row());
  compare(large, draw(row(), large, 0));
}

/// The case with its images channels-last, as convolutions hand them on.
Case with_images_channels_last(Case inputs) {
  for (Input& i : inputs)
    if (i.shape.size() == 4 && i.layout == Layout::dense) i.layout = Layout::channels_last;
  return inputs;
}

// No address is aligned to more than its element: neither ours nor a library's kernels may take vectors of these.
TEST_P(CudaOp, TakesTensorsThatBeginOneElementIntoTheirMemory) {
  const auto compare = [&](const Case& inputs, const Arrays& values, bool is_large) {
    const Case images_last = with_images_channels_last(inputs);
    for (const auto& [dtype, most] : dtypes) {
      if (is_large && dtype == DType::f16) continue;  // sums leave its range
      SCOPED_TRACE(detail::concat(dtype));
      const Arrays rounded = rounded_to(dtype, inputs, values);
      const Evaluation expected = evaluate(row(), inputs, rounded, DType::f64);
      const auto got = [&, t = dtype](const Case& laid_out) { return evaluate(row(), laid_out, rounded, t, gpu, 1); };
      ASSERT_TRUE(near(got(inputs), expected, most * row().tolerance));
      ASSERT_TRUE(near(got(images_last), expected, most * row().tolerance)) << "channels-last";
      if (dtype != DType::f32) continue;
      const AllowTf32 allow(true);
      ASSERT_TRUE(near(got(images_last), expected, 1e-5 * row().tolerance)) << "as TF32";
    }
  };
  for_each_case([&](const Case& inputs, const Arrays& values) { compare(inputs, values, false); });
  const Case large = large_case(row());
  compare(large, draw(row(), large, 0), true);
}

TEST_P(CudaOp, RefusesBadInputInTheSameWords) {
  for (std::size_t i = 0; i < row().bad.size(); ++i) {
    const BadInput& bad = row().bad[i];
    SCOPED_TRACE(describe_case(row(), bad.inputs, i));
    const Inputs inputs = make_inputs(bad.inputs, draw(row(), bad.inputs, i), DType::f64, gpu);
    const Function& f = bad.f ? bad.f : row().f;
    EXPECT_TRUE(bad.verdict(
        [&] {
          f(inputs);
          synchronize(gpu);  // what only the device can see
        },
        row().op));
  }
}

// Needs neither a GPU nor a toolkit.
TEST(CudaTwin, PlansEveryRow) {
  for (const OpRow& row : op_list())
    for (std::size_t i = 0; row.is_predictable && i < row.cases.size(); ++i) {
      SCOPED_TRACE(describe_case(row, row.cases[i], i));
      const Inputs inputs = make_inputs(row.cases[i], draw(row, row.cases[i], i), DType::f32, Device::meta(gpu));
      EXPECT_NO_THROW(forward_backward(row.f, inputs));
    }
  EXPECT_EQ(allocated(Device::meta(gpu)), 0u) << "a leak";
}

INSTANTIATE_TEST_SUITE_P(, CudaOp, testing::Range(std::size_t{0}, op_list().size()),
                         [](const auto& info) { return op_list()[info.param].name(); });

}  // namespace
}  // namespace bytetape::test
