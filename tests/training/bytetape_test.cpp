// What a program writes that includes bytetape.h alone, at namespace scope and by its shortest names; and the code of
// docs/training.md, docs/layers.md and docs/gpu.md, which quote it. Their GPU is a stand-in whose kernels are the
// CPU's.
#include "bytetape/bytetape.h"

#include <gtest/gtest.h>

#include "tests/support/stand_in.h"
#include "tests/training/deferred.h"

using namespace bytetape;

namespace {

using Floats = std::vector<float>;

TEST(Spelling, FactoriesTakeAGeneratorOrARoleAlone) {
  Generator generator(7), same(7);
  EXPECT_EQ(rand({4}, generator).to_vector<float>(), rand({4}, DType::f32, Device::cpu(), same).to_vector<float>());
  EXPECT_EQ(randn({4}, generator).to_vector<float>(), randn({4}, DType::f32, Device::cpu(), same).to_vector<float>());
  EXPECT_EQ(randint(0, 99, {4}, generator).to_vector<int>(),
            randint(0, 99, {4}, DType::i64, Device::cpu(), same).to_vector<int>());
  EXPECT_EQ(randperm(9, generator).to_vector<int>(), randperm(9, Device::cpu(), same).to_vector<int>());
  EXPECT_EQ(generator.state().offset, same.state().offset);
  for (const Tensor& x :
       {zeros({4}, memory::Role::input), ones({4}, memory::Role::input), full({4}, 2.5, memory::Role::input)}) {
    EXPECT_EQ(x.storage().role(), memory::Role::input);
    EXPECT_EQ(x.dtype(), DType::f32);
  }
  EXPECT_EQ(full({2}, 2.5, memory::Role::input).to_vector<float>(), (Floats{2.5, 2.5}));
  const DefaultDevice meta(Device::meta());
  EXPECT_EQ(zeros({4}, memory::Role::input).device(), Device::meta());
  EXPECT_EQ(rand({4}, generator).device(), Device::meta());
}

TEST(Spelling, StdGoesByItsQualifiedNameOrStddev) {
  const Tensor y = randn({3, 5});
  EXPECT_EQ(stddev(y).item<float>(), bytetape::std(y).item<float>());
  EXPECT_EQ(stddev(y, {1}, true, 0).to_vector<float>(), bytetape::std(y, {1}, true, 0).to_vector<float>());
}

TEST(Spelling, ALayersParameterIsAHandleToBeKept) {
  nn::Sequential net(nn::Conv2d(1, 2, 3), nn::ReLU(), nn::Flatten(), nn::ReLU(), nn::Linear(8, 3));
  auto w = net[4].as<nn::Linear>().weight;
  EXPECT_TRUE(w.is_same(net.get_parameter("4.weight")));
  sum(net(randn({2, 1, 4, 4}))).backward();
  EXPECT_TRUE(w.grad().defined());
}

TEST(Spelling, ReadsARecordingOfItsOwn) {
  memory::Replay replay;
  for (const memory::Event& e : memory::snapshot(Device::cpu()).events) replay.apply(e);
  (void)&memory::advise;
  (void)&memory::resimulate;
  (void)&memory::snapshot_of;
  (void)&memory::read_log;
}

struct Scale : nn::Module {
  nn::Parameter weight = register_parameter("weight", ones({64}));
  Tensor forward(const Tensor& x) override { return x * weight; }
};

struct UpBlock : nn::Module {
  nn::Upsample up{{.scale_factor = 2}};
  nn::Conv2d conv{48, 16, 3, {.padding = "same"}};
  UpBlock() {
    register_module("up", up);
    register_module("conv", conv);
  }
  Tensor operator()(const Tensor& x, const Tensor& skip) {
    const auto body = [this](const Tensor& x, const Tensor& skip) { return conv(cat({up(x), skip}, 1)); };
    return nn::call(*this, body, x, skip);
  }
};

TEST(Pages, LayersOfOnesOwn) {
  Scale scale;
  EXPECT_EQ(scale(ones({2, 64})).shape(), (Shape{2, 64}));
  EXPECT_EQ(scale.parameters().size(), 1u);
  UpBlock block;
  EXPECT_EQ(block(randn({2, 32, 4, 4}), randn({2, 16, 8, 8})).shape(), (Shape{2, 16, 8, 8}));
}

TEST(Pages, LayersAreReachedAndTied) {
  nn::Sequential net{nn::Flatten(), nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 784)};
  const Tensor w = net[1].as<nn::Linear>().weight;
  const Tensor same = net.get_parameter("1.weight");
  EXPECT_TRUE(w.is_same(same));

  nn::Linear encoder(128, 128), head(128, 128);
  head.weight = encoder.weight;
  EXPECT_TRUE(head.parameters()[0].is_same(encoder.parameters()[0]));
}

TEST(Pages, ATeacherIsACopy) {
  nn::Sequential student{nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 4)};
  nn::Sequential teacher = nn::clone(student);
  for (Tensor p : teacher.parameters()) p.set_requires_grad(false);
  optim::EMA ema(student.parameters(), {.decay = 0.99});
  ema.update();
  ema.copy_to(teacher);
  const Tensor x = randn({2, 8});
  EXPECT_EQ(teacher(x).to_vector<float>(), student(x).to_vector<float>());
  EXPECT_FALSE(teacher(x).requires_grad());
}

TEST(Pages, HooksLookAtModules) {
  nn::Sequential net{nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 4)};
  Tensor features;
  nn::HookHandle hook =
      net[1].register_forward_hook([&](const nn::Module&, const std::vector<Tensor>&, std::vector<Tensor>& outputs) {
        features = outputs[0].detach();  // assigning to outputs[0] would replace the output
      });
  net(ones({2, 8}));
  hook.remove();
  EXPECT_EQ(features.shape(), (Shape{2, 16}));
}

TEST(Pages, AModelIsEvaluated) {
  nn::Sequential net{nn::Flatten(), nn::Linear(784, 128), nn::ReLU(), nn::Dropout(0.5), nn::Linear(128, 10)};
  const Tensor x = randn({4, 1, 28, 28});
  net.eval();
  const NoGrad no_grad;
  const Tensor predicted = argmax(net(x), 1);
  EXPECT_EQ(predicted.shape(), Shape{4});
}

TEST(Pages, ActivationsAreFused) {
  nn::Conv2d conv(4, 8, 3);
  nn::BatchNorm2d bn(8);
  const Tensor image = randn({2, 4, 6, 6}), residual = randn({2, 8, 10, 10});
  const Tensor x = interpolate(relu(image), {.scale_factor = 2});
  const Tensor y = conv(x, Activation::relu);
  const Tensor z = bn(y, residual, Activation::relu);
  EXPECT_EQ(z.shape(), residual.shape());
  EXPECT_EQ(y.to_vector<float>(), relu(conv(x)).to_vector<float>());
}

TEST(Pages, StepsAreCaptured) {
  const test::StandIn stand_in(test::deferred_backend());
  const DefaultDevice here(Device::cuda());  // parameters, factories and the batches of loaders
  cuda::set_allow_tf32(true);                // f32 products, convolutions and attention on tensor cores
  cuda::set_allow_tf32(false);
  const data::Mnist digits = data::generated_digits(512, /*seed=*/0);
  const data::TensorDataset dataset(digits.images, digits.labels, data::mnist_normalize);
  data::DataLoader loader(dataset, {.batch_size = 64});
  nn::Sequential net{nn::Flatten(), nn::Linear(784, 16), nn::ReLU(), nn::Linear(16, 10)};
  optim::Adam optimizer(net.parameters());
  auto train = capture([&](const Tensor& x, const Tensor& target) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(net(x), target);
    loss.backward();
    optimizer.step();
    return loss;
  });
  for (const auto& [x, target] : loader) train(x, target);
  EXPECT_TRUE(train.is_captured());
}

TEST(Pages, ImagesLieOnAGpu) {
  const test::StandIn stand_in;
  const DefaultDevice here(Device::cuda());
  const data::Mnist digits = data::generated_digits(128, /*seed=*/0);
  const data::ResidentImages images(digits.images, digits.labels, data::mnist_normalize);
  data::ResidentLoader loader(images, {.batch_size = 64, .shuffle = true});  // used like a DataLoader
  for (const auto& [x, y] : loader) EXPECT_EQ(x.shape(), (Shape{64, 1, 28, 28}));
}

TEST(Pages, BatchesGoToAGpu) {
  const test::StandIn stand_in(test::deferred_backend());
  const data::Mnist digits = data::generated_digits(128, /*seed=*/0);
  const data::TensorDataset dataset(digits.images, digits.labels);
  data::DataLoader loader(
      dataset, {.batch_size = 64, .device = Device::cuda(), .normalize = data::mnist_normalize});  // of u8 images
  for (const auto& [x, y] : loader) EXPECT_EQ(x.device(), Device::cuda());
  const StreamScope scope(Stream(1));
  EXPECT_EQ(current_stream(), Stream(1));
}

TEST(Pages, MixedPrecision) {
  const test::StandIn stand_in(test::deferred_backend());
  const DefaultDevice here(Device::cuda());
  nn::Sequential net{nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 4)};
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const Tensor x = randn({32, 8}), y = randint(0, 4, {32});
  const auto step = [&] {
    optimizer.zero_grad();
    Tensor loss;
    {
      const Autocast autocast(DType::bf16);
      loss = cross_entropy(net(x), y);
    }
    loss.backward();  // in the dtypes of the forward, inside the scope or outside
    optimizer.step();
    return loss.item<float>();
  };
  const float before = step();
  EXPECT_LT(step(), before);

  const Tensor loss = cross_entropy(net(x), y);
  optimizer.zero_grad();
  optim::GradScaler scaler;  // once
  // ...
  scaler.scale(loss).backward();
  scaler.unscale_(optimizer);  // only if gradients are read before the step, as clip_grad_norm_ does
  optim::clip_grad_norm_(net.parameters(), 1.0);
  scaler.step(optimizer);  // skipped if a gradient overflowed
  scaler.update();
  EXPECT_LT(cross_entropy(net(x), y).item<float>(), loss.item<float>());
}

}  // namespace
