#include "examples/cifar10/race_net.h"

namespace bytetape::examples {
namespace {

constexpr nn::BatchNormOptions norm_options{.eps = 1e-12, .momentum = 0.4};
const nn::Conv2dOptions conv_options{.padding = 1, .bias = false};

/// PyTorch's initial values, with the identity in the filters of as many outputs as there are inputs.
void reset(nn::Conv2d& conv) {
  nn::init::kaiming_uniform_(conv.weight, std::sqrt(5.0));
  Tensor first = narrow(conv.weight.detach(), 0, 0, std::min(conv.weight.size(0), conv.weight.size(1)));
  nn::init::dirac_(first);
}

void reset(nn::BatchNorm2d& norm) {
  fill_(norm.bias, 0);
  fill_(norm.running_mean, 0);
  fill_(norm.running_var, 1);
  fill_(norm.num_batches_tracked, 0);
}

}  // namespace

RaceGroup::RaceGroup(std::int64_t in, std::int64_t out)
    : conv1(in, out, 3, conv_options),
      conv2(out, out, 3, conv_options),
      norm1(out, norm_options),
      norm2(out, norm_options) {
  register_module("conv1", conv1);
  register_module("norm1", norm1);
  register_module("conv2", conv2);
  register_module("norm2", norm2);
  for (nn::BatchNorm2d* const norm : {&norm1, &norm2}) norm->weight.set_requires_grad(false);
}

Tensor RaceGroup::forward(const Tensor& x) {
  const Tensor y = norm1(max_pool2d(conv1(x), {.kernel = 2}), Activation::gelu_tanh);
  return norm2(conv2(y), Activation::gelu_tanh);
}

RaceNet::RaceNet() {
  register_module("whiten", whiten);
  register_module("group1", group1);
  register_module("group2", group2);
  register_module("group3", group3);
  register_module("head", head);
  whiten.weight.set_requires_grad(false);
}

Tensor RaceNet::forward(const Tensor& x) {
  const Tensor bias = trains_whitening ? Tensor(whiten.bias) : whiten.bias.detach();
  const Tensor y = group3(group2(group1(gelu(conv2d(x, whiten.weight, bias), Approximate::tanh))));
  return head(flatten(max_pool2d(y, {.kernel = 3}), 1)) / static_cast<double>(head.weight.size(1));
}

void RaceNet::reset() {
  const NoGrad no_grad;
  const double bound = 1 / std::sqrt(12.0);
  nn::init::uniform_(whiten.bias, -bound, bound);
  for (RaceGroup* const group : {&group1, &group2, &group3}) {
    for (nn::Conv2d* const conv : {&group->conv1, &group->conv2}) examples::reset(*conv);
    for (nn::BatchNorm2d* const norm : {&group->norm1, &group->norm2}) examples::reset(*norm);
  }
  nn::init::kaiming_uniform_(head.weight, std::sqrt(5.0));
  mul_(head.weight, 1 / stddev(head.weight));
}

std::vector<Tensor> RaceNet::filters() const {
  std::vector<Tensor> all;
  for (const RaceGroup* const group : {&group1, &group2, &group3})
    for (const nn::Conv2d* const conv : {&group->conv1, &group->conv2}) all.push_back(conv->weight);
  return all;
}

std::vector<Tensor> RaceNet::norm_biases() const {
  std::vector<Tensor> all;
  for (const RaceGroup* const group : {&group1, &group2, &group3})
    for (const nn::BatchNorm2d* const norm : {&group->norm1, &group->norm2}) all.push_back(norm->bias);
  return all;
}

}  // namespace bytetape::examples
