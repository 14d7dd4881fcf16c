// The code of docs/onnx.md.
#include <gtest/gtest.h>

#include <filesystem>

#include "bytetape/bytetape.h"
#include "bytetape/onnx/save.h"
#include "examples/cifar10/resnet.h"
#include "examples/gpt/model.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::test {
namespace {

/// A test whose current folder is a temporary one.
class OnnxPages : public ::testing::Test {
 protected:
  OnnxPages() { std::filesystem::current_path(folder_.path()); }
  ~OnnxPages() override { std::filesystem::current_path(before_); }

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
  const TemporaryDir folder_;
};

TEST_F(OnnxPages, AModuleIsExported) {
  nn::Sequential net = examples::resnet18(4);
  // [module]
  onnx::save("net.onnx", net, zeros({1, 3, 32, 32}));
  // [module]
  EXPECT_TRUE(std::filesystem::exists("net.onnx"));
}

TEST_F(OnnxPages, AFunctionIsExported) {
  nn::TransformerDecoderLayer decoder(8, 2);
  const Tensor target = randn({2, 5, 8}), memory = randn({2, 4, 8});
  // [decoder]
  const auto decode = [&](const std::vector<Tensor>& x) { return std::vector<Tensor>{decoder(x[0], x[1])}; };
  onnx::save("decoder.onnx", decoder, decode, {{"target", target}, {"memory", memory}});
  // [decoder]
  EXPECT_TRUE(std::filesystem::exists("decoder.onnx"));
}

TEST_F(OnnxPages, AStepWithACacheIsExported) {
  examples::Gpt net({.vocabulary = 10, .context = 8, .layers = 1, .heads = 2, .width = 8});
  const Tensor tokens = randint(0, 10, {2, 1}), positions = zeros({2}, DType::i64), keys = randn({2, 2, 8, 4}),
               values = randn({2, 2, 8, 4});
  // [cache]
  const auto step = [&](const std::vector<Tensor>& x) {
    nn::KeyValueCache cache(net.cache_sizes(x[0].size(0), DType::f32));
    copy_(cache.positions(), x[1]);
    copy_(cache.keys(0), x[2]);
    copy_(cache.values(0), x[3]);
    const Tensor logits = net(x[0], cache);
    return std::vector<Tensor>{logits, cache.keys(0), cache.values(0)};
  };
  onnx::save("step.onnx", net, step, {{"tokens", tokens}, {"positions", positions}, {"keys", keys}, {"values", values}},
             {.output_names = {"logits", "new_keys", "new_values"}});
  // [cache]
  EXPECT_TRUE(std::filesystem::exists("step.onnx"));
}

}  // namespace
}  // namespace bytetape::test
