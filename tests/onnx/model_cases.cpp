#include <cstdlib>

#include "bytetape/bytetape.h"
#include "examples/cifar10/resnet.h"
#include "examples/gpt/model.h"
#include "tests/onnx/cases.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

/// Two convolutions with batch norm.
nn::Sequential double_conv(std::int64_t in, std::int64_t out) {
  return nn::Sequential(nn::Conv2d(in, out, 3, {.padding = 1}), nn::BatchNorm2d(out), nn::ReLU(),
                        nn::Conv2d(out, out, 3, {.padding = 1}), nn::BatchNorm2d(out), nn::ReLU());
}

/// A U-Net of two levels (Ronneberger et al., 2015): one goes up by interpolation, one by a transposed convolution.
struct UNet : nn::Module {
  nn::Sequential enter = double_conv(3, 8), low = double_conv(8, 16), lowest = double_conv(16, 16),
                 up1 = double_conv(32, 8), up0 = double_conv(16, 8);
  nn::MaxPool2d pool{2};
  nn::Upsample upsample{{.scale_factor = 2, .mode = InterpolationMode::bilinear}};
  nn::ConvTranspose2d turned{8, 8, 2, {.stride = 2}};
  nn::Conv2d head{8, 4, 1};

  UNet() {
    register_module("enter", enter), register_module("low", low), register_module("lowest", lowest);
    register_module("up1", up1), register_module("up0", up0), register_module("pool", pool);
    register_module("upsample", upsample), register_module("turned", turned), register_module("head", head);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor a = enter(x), b = low(pool(a)), c = lowest(pool(b));
    const Tensor d = up1(cat({upsample(c), b}, 1));
    return head(up0(cat({turned(d), a}, 1)));
  }
};

/// Runs a model in training mode, so that the running statistics are not the initial ones.
template <class M>
std::shared_ptr<M> after_training(std::shared_ptr<M> net, const Shape& shape) {
  const NoGrad no_grad;
  for (int i = 0; i < 3; ++i) (*net)(random_tensor(shape, DType::f32));
  return net;
}

constexpr examples::GptSizes gpt_sizes{.vocabulary = 65, .context = 24, .layers = 3, .heads = 4, .width = 32};
constexpr examples::GptSizes gpt2{.vocabulary = 50257, .context = 1024, .layers = 12, .heads = 12, .width = 768};

NamedTensors tokens_of(const examples::GptSizes& sizes, std::int64_t batch, std::int64_t t) {
  return {{"tokens", randint(0, sizes.vocabulary, {batch, t})}};
}

ExportCase gpt(const std::string& name, const examples::GptSizes& sizes) {
  const auto net = std::make_shared<examples::Gpt>(sizes);
  const auto forward = [net](const std::vector<Tensor>& x) { return std::vector<Tensor>{(*net)(x[0])}; };
  return {name, net, forward, [sizes](std::int64_t batch) { return tokens_of(sizes, batch, 11); }};
}

/// A step of generation: new tokens, the cache, and how many tokens it holds of each row. Returns logits and the cache.
ExportCase gpt_with_cache(const std::string& name, const examples::GptSizes& sizes, std::int64_t t) {
  const auto net = std::make_shared<examples::Gpt>(sizes);
  const auto step = [net, sizes](const std::vector<Tensor>& x) {
    nn::KeyValueCache cache(net->cache_sizes(x[0].size(0), DType::f32));
    copy_(cache.positions(), x[1]);
    for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
      copy_(cache.keys(layer), x[static_cast<std::size_t>(2 + 2 * layer)]);
      copy_(cache.values(layer), x[static_cast<std::size_t>(3 + 2 * layer)]);
    }
    std::vector<Tensor> results{(*net)(x[0], cache)};
    for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
      results.push_back(clone(cache.keys(layer)));
      results.push_back(clone(cache.values(layer)));
    }
    return results;
  };
  const auto inputs = [sizes, t](std::int64_t batch) {
    NamedTensors all = tokens_of(sizes, batch, t);
    all.emplace_back("positions", randint(0, sizes.context - t, {batch}));
    const Shape shape{batch, sizes.heads, sizes.context, sizes.width / sizes.heads};
    for (std::int64_t layer = 0; layer < sizes.layers; ++layer)
      for (const char* what : {"keys.", "values."})
        all.emplace_back(what + std::to_string(layer), random_tensor(shape, DType::f32));
    return all;
  };
  return {name, net, step, inputs};
}

/// The first step of generation, for prompts of several lengths.
ExportCase gpt_with_lengths() {
  const auto net = std::make_shared<examples::Gpt>(gpt_sizes);
  const auto step = [net](const std::vector<Tensor>& x) {
    nn::KeyValueCache cache(net->cache_sizes(x[0].size(0), DType::f32));
    cache.set_lengths(x[1]);
    const Tensor logits = (*net)(x[0], cache);
    cache.advance(x[0].size(1));
    return std::vector<Tensor>{logits, cache.keys(0), cache.positions()};
  };
  const auto inputs = [](std::int64_t batch) {
    NamedTensors all = tokens_of(gpt_sizes, batch, 6);
    all.emplace_back("lengths", randint(1, 7, {batch}));
    return all;
  };
  return {"GptWithLengths", net, step, inputs};
}

}  // namespace

std::vector<ExportCase> model_cases() {
  std::vector<ExportCase> all;
  const auto resnet = std::make_shared<nn::Sequential>(examples::resnet18(16));
  all.push_back(module_case("ResNet18", after_training(resnet, {4, 3, 32, 32}), {3, 32, 32}));
  all.push_back(module_case("ResNet18External", resnet, {3, 32, 32}));
  all.back().options.external_data = true;
  const auto wide = std::make_shared<nn::Sequential>(examples::resnet18(64));
  all.push_back(module_case("ResNet18OfWidth64", after_training(wide, {4, 3, 32, 32}), {3, 32, 32}));
  // Weights whose sizes are not multiples of the alignment.
  all.push_back(layer_case(
      "MlpExternal", nn::Sequential(nn::Linear(31, 17), nn::ReLU(), nn::Linear(17, 23), nn::ReLU(), nn::Linear(23, 29)),
      {31}));
  all.back().options.external_data = true;
  all.push_back(module_case("UNet", after_training(std::make_shared<UNet>(), {4, 3, 16, 24}), {3, 16, 24}));
  all.push_back(gpt("Gpt", gpt_sizes));
  all.push_back(gpt_with_cache("GptWithCache1", gpt_sizes, 1));
  all.push_back(gpt_with_cache("GptWithCache5", gpt_sizes, 5));
  all.push_back(gpt_with_lengths());
  if (std::getenv("BYTETAPE_ONNX_LARGE")) {  // a gigabyte of files
    all.push_back(gpt("Gpt2", gpt2));
    all.push_back(gpt_with_cache("Gpt2WithCache1", gpt2, 1));
  }
  return all;
}

}  // namespace bytetape::test
