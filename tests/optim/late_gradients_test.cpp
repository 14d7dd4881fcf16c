// Steps whose gradients partly arrive late, as with dist::DataParallel on GPUs.
#include <functional>
#include <memory>

#include "bytetape/bytetape.h"
#include "tests/support/late_sink.h"

namespace bytetape {
namespace {

using Make = std::function<std::unique_ptr<optim::Optimizer>(std::vector<optim::ParamGroup>)>;

/// The parameters after three steps, in which one of the parameters has no gradient once.
std::vector<std::vector<float>> train(const Make& make, const std::vector<std::size_t>& late) {
  Generator generator(7);
  const auto draw = [&](const Shape& shape) { return randn(shape, DType::f32, Device(), generator); };
  std::vector<Tensor> parameters;
  for (const Shape& shape : {Shape{5, 3}, Shape{1000}, Shape{}, Shape{0, 4}, Shape{17}})
    parameters.push_back(draw(shape).set_requires_grad());
  std::vector<Tensor> late_ones;
  for (const std::size_t i : late) late_ones.push_back(parameters[i]);
  const test::LateSink sink(late_ones, Stream(3));
  // two groups, so that step params differ
  const auto optimizer = make({{.params = {parameters[0], parameters[1]}, .lr = 0.1},
                               {.params = {parameters[2], parameters[3], parameters[4]}, .lr = 0.01}});
  for (int step = 0; step < 3; ++step) {
    optimizer->zero_grad();
    for (Tensor& p : parameters)
      if (const Tensor g = draw(p.shape()); step != 1 || !p.is_same(parameters[1])) p.set_grad(g);
    optimizer->step();
  }
  std::vector<std::vector<float>> values;
  for (const Tensor& p : parameters) values.push_back(p.detach().to_vector<float>());
  for (const auto& [name, state] : optimizer->state_dict().tensors) values.push_back(state.to_vector<float>());
  return values;
}

TEST(LateGradients, ChangeNoBitOfAStep) {
  const Make rules[] = {
      [](auto groups) { return std::make_unique<optim::SGD>(groups, optim::SGDOptions{.lr = 0.1, .momentum = 0.9}); },
      [](auto groups) { return std::make_unique<optim::AdamW>(groups, optim::AdamWOptions{}); },
      [](auto groups) { return std::make_unique<optim::RMSprop>(groups, optim::RMSpropOptions{.momentum = 0.5}); }};
  for (const Make& make : rules) {
    const auto expected = train(make, {});
    for (const std::vector<std::size_t>& late :
         {std::vector<std::size_t>{0}, {1}, {4}, {0, 2}, {3}, {1, 4}, {0, 1, 2, 3, 4}})
      EXPECT_EQ(train(make, late), expected) << late.size() << " late, the first " << late[0];
  }
}

}  // namespace
}  // namespace bytetape
