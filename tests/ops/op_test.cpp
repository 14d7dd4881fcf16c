// What every row of the op list must pass: what it proves is not proved again in tests/autograd.
#include <algorithm>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/gradcheck.h"
#include "bytetape/autograd/ops/view.h"
#include "tests/ops/evaluate.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

namespace bytetape::test {
namespace {

class Op : public testing::TestWithParam<std::size_t> {
 protected:
  const OpRow& row() const { return op_list()[GetParam()]; }

  /// f(case, its values) for every case of the row.
  template <class F>
  void for_each_case(const F& f) const {
    for (std::size_t i = 0; i < row().cases.size(); ++i) {
      SCOPED_TRACE(describe_case(row(), row().cases[i], i));
      f(row().cases[i], draw(row(), row().cases[i], i));
    }
  }
};

double largest(const Array& x) {
  double m = 1;
  for (const double v : x.values)
    if (std::isfinite(v)) m = std::max(m, std::abs(v));
  return m;
}

testing::AssertionResult close(const Array& actual, const Array& expected, double tolerance) {
  if (!(actual.shape == expected.shape))
    return testing::AssertionFailure() << "shape " << actual.shape << ", expected " << expected.shape;
  return all_close(actual.values, expected.values, tolerance, tolerance * largest(expected));
}

testing::AssertionResult close(const Evaluation& actual, const Evaluation& expected, double tolerance) {
  if (auto value = close(actual.value, expected.value, tolerance); !value) return value << " in the value";
  for (std::size_t i = 0; i < actual.grads.size(); ++i)
    if (auto grad = close(actual.grads[i], expected.grads[i], tolerance); !grad)
      return grad << " in the gradient of input " << i;
  return testing::AssertionSuccess();
}

/// A leaf for gradcheck and the way from it to the input: elements of an expanded one share memory.
struct Leaves {
  Inputs leaves;
  Function f;
};
Leaves leaves_of(const OpRow& row, const Case& inputs, const Arrays& values) {
  Case dense = inputs;
  Arrays parts = values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].layout != Layout::expanded) continue;
    dense[i].layout = Layout::dense;
    dense[i].shape[0] = std::min<std::int64_t>(dense[i].shape[0], 1);
    parts[i] = Array(dense[i].shape);
    for_each_index(dense[i].shape, [&](const Dims& at) { parts[i](at) = values[i](at); });
  }
  return {make_inputs(dense, parts, DType::f64), [&row, inputs](const Inputs& leaves) {
            Inputs seen = leaves;
            for (std::size_t i = 0; i < inputs.size(); ++i)
              if (inputs[i].layout == Layout::expanded) seen[i] = expand(leaves[i], inputs[i].shape);
            return row.f(seen);
          }};
}

TEST_P(Op, GivesTheReferencesValues) {
  for_each_case([&](const Case& inputs, const Arrays& values) {
    const Tensor y = row().f(make_inputs(inputs, values, DType::f64));
    EXPECT_TRUE(close(Array(y.shape(), y.to_vector<double>()), row().reference(values), 1e-10));
    EXPECT_EQ(y.requires_grad(), row().gradients != Gradients::none);
  });
}

TEST_P(Op, HasTheGradientOfItsValues) {
  if (row().gradients == Gradients::none) return;
  for_each_case([&](const Case& inputs, const Arrays& values) {
    const Leaves x = leaves_of(row(), inputs, values);
    const GradcheckResult result = gradcheck(x.f, x.leaves);
    EXPECT_TRUE(result) << result.message;
  });
}

TEST_P(Op, DifferentiatesAgain) {
  if (row().gradients != Gradients::twice) return;
  for_each_case([&](const Case& inputs, const Arrays& values) {
    const Leaves x = leaves_of(row(), inputs, values);
    const GradcheckResult result = gradgradcheck(x.f, x.leaves);
    EXPECT_TRUE(result) << result.message;
  });
}

std::vector<std::size_t> differentiable_inputs(const Inputs& x) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i].requires_grad()) numbers.push_back(i);
  return numbers;
}

// The rule in differentiable ops, which is recorded, and the kernel that stands for it where nothing is.
TEST_P(Op, HasAFusedRuleThatIsTheComposedOne) {
  if (row().gradients != Gradients::twice) return;
  const auto compare = [&](const Case& inputs, const Arrays& values) {
    const Inputs x = make_inputs(inputs, values, DType::f64);
    Inputs leaves;
    for (const std::size_t i : differentiable_inputs(x)) leaves.push_back(x[i]);
    const Tensor y = row().f(x), w = weights_like(y);
    const auto gradients = [&](bool recorded) {
      return grad({y}, leaves, {.seeds = {w}, .retain_graph = true, .create_graph = recorded, .allow_unused = true});
    };
    const std::vector<Tensor> fused = gradients(false), composed = gradients(true);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      ASSERT_EQ(fused[i].defined(), composed[i].defined());
      if (!fused[i].defined()) continue;
      EXPECT_TRUE(close(to_array(composed[i]), to_array(fused[i]), 1e-12 * row().tolerance)) << "of input " << i;
    }
  };
  for_each_case(compare);
  const Case large = large_case(row());
  compare(large, draw(row(), large, 0));
}

// With every subset of the inputs asked for their gradients: these are what they were, and what is saved is used.
// Writing to a saved input must be found out by backward, writing to another must not matter.
TEST_P(Op, SavesWhatItsGradientsNeedAndNoMore) {
  if (row().gradients == Gradients::none) return;
  for_each_case([&](const Case& inputs, const Arrays& values) {
    const Evaluation whole = evaluate(row(), inputs, values, DType::f64);
    const std::vector<std::size_t> all = differentiable_inputs(make_inputs(inputs, values, DType::f64));
    for (unsigned subset = 1; subset < 1u << all.size(); ++subset) {
      const auto make = [&] {
        Inputs x = make_inputs(inputs, values, DType::f64);
        for (std::size_t k = 0; k < all.size(); ++k) x[all[k]].set_requires_grad(subset >> k & 1);
        return x;
      };
      const Inputs x = make();
      forward_backward(row().f, x);
      for (std::size_t k = 0; k < all.size(); ++k) {
        const Tensor g = x[all[k]].grad();
        const bool asked = subset >> k & 1;
        ASSERT_EQ(g.defined(), asked && whole.grads[all[k]].shape == x[all[k]].shape());
        if (!g.defined()) continue;
        EXPECT_TRUE(close(to_array(g), whole.grads[all[k]], 1e-12)) << "of input " << all[k];
      }
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Inputs written = make();
        if (!written[i].defined() || written[i].numel() == 0) continue;
        const Tensor y = row().f(written);
        const bool is_saved = written[i].storage().role() == memory::Role::saved;
        written[i].storage().bump_version();
        const auto backward = [&] { y.backward(weights_like(y)); };
        SCOPED_TRACE(detail::concat("input ", i, is_saved ? ", saved, of subset " : ", not saved, of subset ", subset));
        if (is_saved) {
          EXPECT_THROWS_SAYING(backward(), AutogradError, "saved for backward");
        } else {
          EXPECT_NO_THROW(backward());
        }
      }
    }
  });
}

TEST_P(Op, DoesNotDependOnStrides) {
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
        EXPECT_TRUE(close(evaluate(row(), strided, values, DType::f64), expected, 1e-12));
      }
  });
}

TEST_P(Op, AgreesAcrossDTypes) {
  constexpr std::pair<DType, double> dtypes[] = {
      {DType::f64, 1e-12}, {DType::f32, 2e-6}, {DType::bf16, 1.6e-2}, {DType::f16, 2e-3}};
  for_each_case([&](const Case& inputs, const Arrays& values) {
    for (const auto& [dtype, tolerance] : dtypes) {
      const Arrays rounded = rounded_to(dtype, inputs, values);
      const Evaluation expected = evaluate(row(), inputs, rounded, DType::f64);
      SCOPED_TRACE(detail::concat(dtype));
      EXPECT_TRUE(close(evaluate(row(), inputs, rounded, dtype), expected, tolerance * row().tolerance));
    }
  });
}

TEST_P(Op, RefusesBadInputNamingItself) {
  std::vector<BadInput> all = row().bad;
  Case none = row().cases[0];
  for (Input& i : none) i = undefined;
  all.push_back(bad<ValueError>("undefined", none));
  for (const Device device : {Device::cpu(), Device::meta()})
    for (std::size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(describe_case(row(), all[i].inputs, i));
      const Inputs inputs = make_inputs(all[i].inputs, draw(row(), all[i].inputs, i), DType::f64, device);
      const Function& f = all[i].f ? all[i].f : row().f;
      if (device.is_meta && all[i].needs_data) continue;
      EXPECT_TRUE(all[i].verdict([&] { f(inputs); }, row().op));
    }
}

TEST_P(Op, IsPredictedToTheByte) {
  for_each_case([&](const Case& inputs, const Arrays& values) {
    const auto program = [&](Device d) { forward_backward(row().f, make_inputs(inputs, values, DType::f32, d)); };
    if (!row().is_predictable) {
      EXPECT_THROW(program(Device::meta()), DeviceError);
      return;
    }
    for (const Device device : available_devices()) {
      const auto real = record_events(device, program);
      EXPECT_EQ(first_difference(real, record_events(Device::meta(device), program)), "");
      EXPECT_EQ(allocated(device), 0u) << "a leak";
    }
  });
}

// The kernels' longer ways: vectors and their rest, blocks, several threads.
TEST_P(Op, RepeatsTheReferenceBitForBitOnAnyNumberOfThreads) {
  const Case inputs = large_case(row());
  const Arrays values = rounded_to(DType::f32, inputs, draw(row(), inputs, 0));
  const auto run_on = [&](int threads) {
    return with_threads(threads, [&] { return evaluate(row(), inputs, values, DType::f32); });
  };
  const Evaluation one = run_on(1), two = run_on(2), again = run_on(2), three = run_on(3);
  EXPECT_TRUE(close(one.value, row().reference(values), 2e-6 * row().tolerance));
  EXPECT_TRUE(same_bits(two, again));
  for (const Evaluation* other : {&two, &three})
    EXPECT_TRUE(row().same_on_any_threads ? same_bits(one, *other) : close(one, *other, 2e-6 * row().tolerance));
}

INSTANTIATE_TEST_SUITE_P(, Op, testing::Range(std::size_t{0}, op_list().size()),
                         [](const auto& info) { return op_list()[info.param].name(); });

TEST(OpList, RowsAreWhole) {
  for (const OpRow& row : op_list()) {
    SCOPED_TRACE(row.name());
    EXPECT_GE(row.cases.size(), 6u);
    bool empty = false, strided = false;
    for (const Case& inputs : row.cases)
      for (const Input& i : inputs) {
        empty = empty || (i.defined && numel(i.shape) == 0);
        strided = strided || i.layout != Layout::dense;
      }
    EXPECT_EQ(empty, row.has_empty_case) << "a case of size zero";
    EXPECT_TRUE(strided) << "no strided case";
  }
}

}  // namespace
}  // namespace bytetape::test
