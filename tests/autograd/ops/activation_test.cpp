#include "bytetape/autograd/ops/activation.h"

#include <functional>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/batch_norm.h"
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/kernels/matmul.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

/// An op that takes an activation, of fixed inputs, and what its family can apply.
struct FusingOp {
  const char* name;
  Epilogues epilogues;
  std::function<Tensor(Activation)> run;
};

std::vector<FusingOp> fusing_ops() {
  const auto random = [](const Shape& shape) { return test::random_tensor(shape, DType::f32); };
  const Tensor x = random({6, 5}), w = random({4, 5}), b = random({4}), image = random({2, 3, 6, 6}),
               kernel = random({4, 3, 3, 3});
  return {
      {"linear", MatmulKernels::epilogues, [=](Activation a) { return linear(x, w, b, a); }},
      {"conv2d", ConvKernels::epilogues, [=](Activation a) { return conv2d(image, kernel, b, {}, a); }},
      {"batch_norm", BatchNormKernels::epilogues,
       [=](Activation a) { return batch_norm(image, {}, {}, {}, {}, true, 0.1, 1e-5, a); }},
  };
}

Tensor apply(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu(x);
    case Activation::gelu_tanh:
      return gelu(x, Approximate::tanh);
  }
  return {};
}

TEST(Epilogues, AreAppliedByTheOpsOfTheirFamilyWhichRefuseOthers) {
  for (const FusingOp& op : fusing_ops())
    for (const Activation activation : all_activations) {
      SCOPED_TRACE(detail::concat(op.name, " with ", name_of(activation)));
      if (op.epilogues.contains(activation))
        EXPECT_EQ(op.run(activation).to_vector<float>(),
                  apply(activation, op.run(Activation::none)).to_vector<float>());
      else
        EXPECT_THROWS_SAYING(op.run(activation), ValueError, detail::concat(", got ", name_of(activation)));
    }
}

TEST(Epilogues, AreNamedWhereAnOpRefusesAnActivation) {
  const std::string known[] = {"linear: expected no activation, relu or gelu_tanh",
                               "conv2d: expected no activation or relu",
                               "batch_norm: expected no activation, relu or gelu_tanh"};
  const std::vector<FusingOp> ops = fusing_ops();
  for (std::size_t i = 0; i < ops.size(); ++i)
    EXPECT_THROWS_SAYING(ops[i].run(static_cast<Activation>(40)), ValueError, known[i] + ", got an unknown activation");
}

}  // namespace
}  // namespace bytetape
