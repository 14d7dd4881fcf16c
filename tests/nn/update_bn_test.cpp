#include "bytetape/nn/update_bn.h"

#include <cmath>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using Values = std::vector<double>;

/// Two classes of points whose scale drifts, so that averages of the parameters lag behind the running statistics.
struct Classes {
  Tensor x = randn({256, 8}, DType::f32) * 5 + 3, y = to(sum(x, 1) > 24, DType::i64);
  data::TensorDataset dataset{x, y};
};

struct Classifier : nn::Sequential {
  Classifier() : Sequential(nn::Linear(8, 32), nn::BatchNorm1d(32), nn::ReLU(), nn::Linear(32, 2)) {}
  nn::BatchNorm1d& norm() { return (*this)[1].as<nn::BatchNorm1d>(); }
  double accuracy(const Classes& data) {
    const NoGrad no_grad;
    eval();
    const Tensor right = to(argmax((*this)(data.x), 1) == data.y, DType::f32);
    train();
    return mean(right).item<double>();
  }
};

void train(Classifier& model, const Classes& data, optim::EMA& ema) {
  data::DataLoader loader(data.dataset, {.batch_size = 32, .shuffle = true, .workers = 0});
  optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int epoch = 0; epoch < 10; ++epoch)
    for (const auto& [x, y] : loader) {
      sgd.zero_grad();
      cross_entropy(model(x), y).backward();
      sgd.step();
      ema.update();
    }
}

TEST(UpdateBn, RestoresTheAccuracyOfAveragedParameters) {
  manual_seed(3);
  const Classes data;
  Classifier model, averaged;
  optim::EMA ema(model.parameters(), {.decay = 0.9});
  train(model, data, ema);
  ema.copy_to(averaged);
  EXPECT_GT(model.accuracy(data), 0.95);
  EXPECT_LT(averaged.accuracy(data), 0.8) << "the statistics of no data";
  data::DataLoader loader(data.dataset, {.batch_size = 32, .workers = 0});
  nn::update_bn(loader, averaged);
  EXPECT_GT(averaged.accuracy(data), 0.95);
}

TEST(UpdateBn, AveragesBuffersWithTheParametersWhereAskedTo) {
  manual_seed(4);
  const Classes data;
  Classifier model, averaged;
  optim::EMA ema(model, {.decay = 0.9, .use_buffers = true});
  train(model, data, ema);
  ema.copy_to(averaged);
  EXPECT_GT(averaged.accuracy(data), 0.95);
  const Tensor before = clone(model.norm().running_mean);
  ema.swap();
  EXPECT_EQ(model.norm().running_mean.to_vector<double>(), averaged.norm().running_mean.to_vector<double>());
  EXPECT_GT(model.accuracy(data), 0.95);
  ema.swap();
  EXPECT_EQ(model.norm().running_mean.to_vector<double>(), before.to_vector<double>());
}

TEST(UpdateBn, AveragesAllBatchesAlike) {
  nn::BatchNorm1d norm(3, {.momentum = 0.7});
  std::vector<Tensor> batches;
  for (const std::int64_t n : {4, 9, 2}) batches.push_back(randn({n, 3}) * 2 + 1);
  norm(batches[0]);
  {
    const NoGrad no_grad;
    fill_(norm.running_var, NAN);
  }
  nn::update_bn(batches, norm);
  Tensor means = zeros({3}), variances = zeros({3});
  for (const Tensor& x : batches) means += mean(x, 0) / 3, variances += var(x, 0) / 3;
  const auto near = [](const Tensor& a, const Tensor& b) { return max(abs(a - b)).item<double>() < 1e-5; };
  EXPECT_TRUE(near(norm.running_mean, means));
  EXPECT_TRUE(near(norm.running_var, variances));
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 3);

  const Tensor before = clone(norm.running_mean), x = randn({5, 3});
  norm(x);
  EXPECT_TRUE(near(norm.running_mean, before * 0.3 + mean(x, 0) * 0.7)) << "the momentum is what it was";
}

// What backward runs again has been averaged already.
TEST(UpdateBn, NormalisesWithTheResidual) {
  nn::BatchNorm1d norm(3);
  const Tensor x = randn({6, 3}), residual = randn({6, 3});
  const auto once = [&] { return norm(x, residual, Activation::relu).to_vector<float>(); };
  const std::vector<float> expected = once();
  const nn::BatchNormUpdate update(norm);
  EXPECT_EQ(once(), expected);
  EXPECT_EQ(once(), expected) << "the second batch";
}

TEST(UpdateBn, CountsABatchOfACheckpointOnce) {
  const std::vector<Tensor> batches{randn({6, 3}) * 2, randn({6, 3}) + 1, randn({6, 3})};
  const auto average = [&](bool checkpointed) {
    nn::BatchNorm1d norm(3);
    norm.set_checkpointed(checkpointed);
    const nn::BatchNormUpdate update(norm);
    for (const Tensor& x : batches) sum(tanh(norm(x))).backward();
    EXPECT_EQ(norm.num_batches_tracked.item<int>(), 3);
    return norm.running_mean.to_vector<float>();
  };
  EXPECT_EQ(average(true), average(false));
}

struct Net : nn::Module {
  nn::Dropout dropout;
  nn::BatchNorm1d norm{3}, apart{3, {.track_running_stats = false}};
  std::vector<bool> trained, recorded;
  Net() {
    register_module("dropout", dropout);
    register_module("norm", norm);
    register_module("apart", apart);
  }
  Tensor forward(const Tensor& x) override {
    trained.push_back(dropout.is_training() && norm.is_training());
    recorded.push_back(grad_enabled());
    return apart(norm(dropout(x)));
  }
};

TEST(UpdateBn, TrainsUnrecordedAndRestoresEveryMode) {
  Net net;
  net.norm.eval();
  nn::update_bn(std::vector<Tensor>{randn({4, 3}), randn({4, 3})}, net);
  EXPECT_EQ(net.trained, (std::vector<bool>{true, true}));
  EXPECT_EQ(net.recorded, (std::vector<bool>{false, false}));
  EXPECT_TRUE(net.is_training() && net.dropout.is_training() && net.apart.is_training());
  EXPECT_FALSE(net.norm.is_training());
  EXPECT_EQ(net.norm.num_batches_tracked.item<int>(), 2);
}

TEST(UpdateBn, RestoresModesAndMomentaWhereForwardThrows) {
  Net net;
  net.eval();
  net.norm.running_mean = randn({3});
  const Values before = net.norm.running_mean.to_vector<double>();
  EXPECT_THROWS_SAYING(nn::update_bn(std::vector<Tensor>{randn({4, 5})}, net), ShapeError, "in module 'norm'");
  EXPECT_FALSE(net.is_training() || net.norm.is_training());
  EXPECT_THROWS_SAYING(nn::update_bn(std::vector<Tensor>(), net), ValueError, "update_bn: the loader has no batch");
  EXPECT_EQ(net.norm.running_mean.to_vector<double>(), before);
  net.train();
  const Tensor x = ones({2, 3}) + randn({1, 3});
  net.norm(x);
  const Values expected = (from_vector(before) * 0.9 + to(mean(x, 0), DType::f64) * 0.1).to_vector<double>();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(net.norm.running_mean.to_vector<double>()[i], expected[i], 1e-6);
}

TEST(UpdateBn, TakesAForwardOfItsOwn) {
  nn::BatchNorm1d norm(3);
  const Tensor x = randn({6, 3});
  int calls = 0;
  nn::update_bn(std::vector<int>{2, 4}, norm, [&](int n) { ++calls, norm(narrow(x, 0, 0, n)); });
  EXPECT_EQ(calls, 2);
  nn::Linear fc(3, 3);
  nn::update_bn(std::vector<int>{2, 4}, fc, [&](int) { ++calls; });
  EXPECT_EQ(calls, 2) << "a model without statistics";
}

TEST(UpdateBn, LeavesALayerAloneThatForwardEvaluates) {
  nn::BatchNorm1d norm(3);
  norm(randn({6, 3}));
  const Values before = norm.running_mean.to_vector<double>();
  nn::update_bn(std::vector<Tensor>{randn({4, 3}) + 9}, norm, [&](const Tensor& x) {
    norm.eval();
    norm(x);
  });
  EXPECT_EQ(norm.running_mean.to_vector<double>(), before);
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 1);
}

TEST(UpdateBn, PredictsItsMemory) {
  const DefaultDevice meta(Device::meta());
  nn::BatchNorm1d norm(3);
  EXPECT_NO_THROW(nn::update_bn(std::vector<Tensor>{randn({4, 3})}, norm));
}

TEST(UpdateBn, AveragesATiedBufferOnce) {
  struct Tied : nn::Module {
    nn::Linear fc{2, 2};
    nn::Buffer seen = register_buffer("seen", fc.weight);
    Tied() { register_module("fc", fc); }
  } model;
  optim::EMA ema(model, {.decay = 0.5, .use_buffers = true});
  EXPECT_EQ(ema.averages().size(), 2u);
  Tied other;
  ema.copy_to(other);
  EXPECT_EQ(other.fc.weight.to_vector<float>(), model.fc.weight.to_vector<float>());
}

}  // namespace
}  // namespace bytetape
