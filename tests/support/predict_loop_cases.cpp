// What training loops do besides training a model of the examples with an optimizer.
#include "bytetape/bytetape.h"
#include "examples/cifar10/models.h"
#include "examples/gpt/model.h"
#include "examples/mnist/models.h"
#include "tests/support/predict_cases.h"
#include "tests/support/training_loop.h"

namespace bytetape::test {
namespace {

const ImageModel cnn{examples::mnist_cnn, {1, 28, 28}, 8};
const ImageModel mlp{examples::mnist_mlp, {1, 28, 28}, 16};

/// Residual blocks with batch norm.
nn::Sequential make_residual() {
  nn::Sequential net;
  examples::push_back_conv(net, 3, 8);
  net.push_back(examples::BasicBlock(8, 8, 1)).push_back(examples::BasicBlock(8, 16, 2));
  net.push_back("pool", examples::GlobalAveragePool()).push_back("fc", nn::Linear(16, 10));
  return net;
}
const ImageModel residual{make_residual, {3, 16, 16}, 4};

nn::Sequential make_upsampling() {
  nn::Sequential net;
  net.push_back(nn::Conv2d(3, 16, 3, {.stride = 2, .padding = 1})).push_back(nn::GroupNorm(4, 16));
  net.push_back(nn::SiLU()).push_back(nn::Upsample({.scale_factor = 2}));
  net.push_back(nn::ConvTranspose2d(16, 8, 4, {.stride = 2, .padding = 1})).push_back(nn::LeakyReLU());
  net.push_back(nn::Upsample({.size = {24, 24}, .mode = InterpolationMode::bilinear}));
  net.push_back(nn::Conv2d(8, 3, 3, {.padding = 1}));
  return net;
}

// ---- steps

void accumulate(TrainingLoop& l) {
  l.optimizer->zero_grad();
  for (int i = 0; i < 4; ++i) (l.loss() / 4).backward();
  l.optimizer->step();
}

void train_in(DType dtype, TrainingLoop& l) {
  const Autocast autocast(dtype);
  l.train();
}

void train_with_checkpoints(TrainingLoop& l) {
  l.optimizer->zero_grad();
  Tensor h = l.images(l.batch);
  for (nn::Module& layer : l.model) h = checkpoint(layer, h);
  cross_entropy(h, l.classes(l.batch)).backward();
  l.optimizer->step();
}

void train_in_segments(TrainingLoop& l) {
  l.optimizer->zero_grad();
  cross_entropy(nn::checkpoint_sequential(l.model, 3, l.images(l.batch)), l.classes(l.batch)).backward();
  l.optimizer->step();
}

void train_twice_on_one_graph(TrainingLoop& l) {
  l.optimizer->zero_grad();
  const Tensor loss = l.loss();
  loss.backward({}, true);
  loss.backward();
  l.optimizer->step();
}

void penalise_gradients(TrainingLoop& l) {
  l.optimizer->zero_grad();
  const Tensor x = l.images(l.batch).set_requires_grad();
  const Tensor loss = cross_entropy(l.model(x), l.classes(l.batch));
  const Tensor gx = grad({loss}, {x}, {.create_graph = true})[0];
  (loss + sum(gx * gx)).backward();
  l.optimizer->step();
}

void save_in_16_bits(TrainingLoop& l) {
  const SavedTensorHooks hooks([](const Tensor& x) -> SavedTensorHooks::Unpack {
    if (x.dtype() != DType::f32) return nullptr;
    return [low = to(x, DType::bf16)] { return to(low, DType::f32); };
  });
  l.train();
}

void clip(TrainingLoop& l) {
  l.optimizer->zero_grad();
  l.loss().backward();
  optim::clip_grad_norm_(l.model.parameters(), 1.0);
  optim::clip_grad_value_(l.model.parameters(), 0.5);
  l.optimizer->step();
}

void reconstruct(TrainingLoop& l) {
  l.optimizer->zero_grad();
  const Tensor x = l.images(l.batch);
  huber_loss(l.model(x), interpolate(x, {.size = {24, 24}})).backward();
  l.optimizer->step();
}

void take_many_losses(TrainingLoop& l) {
  l.optimizer->zero_grad();
  const Tensor y = l.model(l.images(l.batch)), classes = l.classes(l.batch), target = one_hot(classes, 10);
  const Tensor wanted = to(target, DType::f32), logs = log_softmax(y, 1);
  const Tensor all = mse_loss(y, wanted) + l1_loss(y, wanted) + huber_loss(y, wanted) +
                     binary_cross_entropy_with_logits(y, wanted) + nll_loss(logs, classes) +
                     cross_entropy(y, classes, {.label_smoothing = 0.1});
  all.backward();
  l.optimizer->step();
}

void train_without_the_first_layers(TrainingLoop& l) {
  for (std::int64_t i = 0; i < 3; ++i)
    for (Tensor p : l.model[i].parameters()) p.set_requires_grad(false);
  l.train();
}

void empty_the_cache_between(TrainingLoop& l) {
  memory::empty_cache(default_device());
  l.train();
}

void train_near_a_limit(TrainingLoop& l) {
  for (int i = 0; i < 2; ++i) l.train();  // the second step reserves more, with the optimizer's state
  memory::set_limit(memory::stats(default_device()).reserved.current, default_device());
  l.train();
  memory::set_limit(std::size_t{1} << 40, default_device());
}

void use_two_streams(TrainingLoop& l) {
  l.optimizer->zero_grad();
  const Tensor first = l.loss();
  Tensor second;
  {
    const StreamScope side(Stream(1));
    second = l.loss();
  }
  (first + second).backward();
  l.optimizer->step();
}

void keep_gradients(TrainingLoop& l) {
  l.loss().backward();
  l.optimizer->step();
  for (Tensor p : l.model.parameters()) fill_(p.grad(), 0);
}

void take_the_last_batch_too(TrainingLoop& l) {
  for (const std::int64_t n : {l.batch, l.batch, l.batch / 3}) {
    const memory::Step mark;
    l.optimizer->zero_grad();
    cross_entropy(l.model(l.images(n)), l.classes(n)).backward();
    l.optimizer->step();
  }
}

// ---- what has more than a model and an optimizer

/// `made` takes its steps.
template <class Loop>
PredictCase of(std::string name) {
  return {std::move(name), [] {
            auto made = std::make_shared<Loop>();
            return [made] { made->step(); };
          }};
}

struct Captured : TrainingLoop {
  Captured() : TrainingLoop(residual, adam()) {}
  CapturedStep<std::function<Tensor(const Tensor&, const Tensor&)>> captured{[this](const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    optimizer->step();
    return loss;
  }};
  void step() {
    const memory::Step mark;
    captured(images(batch), classes(batch));
  }
};

struct CapturedInference : TrainingLoop {
  CapturedInference() : TrainingLoop(cnn, sgd()) { model.eval(); }
  CapturedStep<std::function<Tensor(const Tensor&)>> captured{[this](const Tensor& x) { return model(x); }};
  void step() {
    const NoGrad no_grad;
    const memory::Step mark;
    captured(images(batch));
  }
};

struct Averaged : TrainingLoop {
  Averaged() : TrainingLoop(cnn, adam()) {}
  optim::EMA average{model.parameters()};
  void step() {
    const memory::Step mark;
    train();
    average.update();
  }
};

struct Scaled : TrainingLoop {
  Scaled() : TrainingLoop(residual, adam()) {}
  optim::GradScaler scaler;
  void step() {
    const memory::Step mark;
    optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast autocast(DType::f16);
      loss = this->loss();
    }
    scaler.scale(loss).backward();
    scaler.unscale_(*optimizer);
    optim::clip_grad_norm_(model.parameters(), 1.0);
    scaler.step(*optimizer);
    scaler.update();
  }
};

struct SteppingInBackward : TrainingLoop {
  SteppingInBackward() : TrainingLoop(residual, adam()) {}
  optim::StepInBackward in_backward{*optimizer};
  void step() {
    const memory::Step mark;
    loss().backward();
  }
};

struct CapturedSteppingInBackward : TrainingLoop {
  CapturedSteppingInBackward() : TrainingLoop(residual, adam()) {}
  optim::StepInBackward in_backward{*optimizer};
  CapturedStep<std::function<void(const Tensor&, const Tensor&)>> captured{
      [this](const Tensor& x, const Tensor& y) { cross_entropy(model(x), y).backward(); }};
  void step() {
    const memory::Step mark;
    captured(images(batch), classes(batch));
  }
};

struct CheckpointedModules : TrainingLoop {
  CheckpointedModules() : TrainingLoop(residual, adam()) { nn::checkpoint_modules(model, {"3", "4"}); }
  void step() {
    const memory::Step mark;
    train();
  }
};

struct SavedOnCpu : TrainingLoop {
  SavedOnCpu() : TrainingLoop(residual, adam()) {}
  void step() {
    const memory::Step mark;
    optimizer->zero_grad();
    Tensor loss;
    {
      const SaveOnCpu offload({.keep = std::size_t{64} << 10, .min_bytes = 1024});
      loss = this->loss();
    }
    loss.backward();
    optimizer->step();
  }
};

struct CapturedSavedOnCpu : TrainingLoop {
  CapturedSavedOnCpu() : TrainingLoop(residual, adam()) {}
  CapturedStep<std::function<void(const Tensor&, const Tensor&)>> captured{[this](const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    Tensor loss;
    {
      const SaveOnCpu offload({.keep = std::size_t{64} << 10, .min_bytes = 1024});
      loss = cross_entropy(model(x), y);
    }
    loss.backward();
    optimizer->step();
  }};
  void step() {
    const memory::Step mark;
    captured(images(batch), classes(batch));
  }
};

/// Tied weights: the head is the embedding.
struct Tied : nn::Module {
  nn::Linear embedding{24, 100}, head{24, 100, false};
  nn::LayerNorm norm{{24}};
  optim::AdamW adam{registered()};
  std::vector<Tensor> registered() {
    register_module("embedding", embedding);
    register_module("norm", norm);
    register_module("head", head);
    embedding.weight = head.weight;
    return parameters();
  }
  Tensor forward(const Tensor& words) override {
    const Tensor h = index_select(embedding.weight, 0, words);
    return head(norm(h));
  }
  void step() {
    const memory::Step mark;
    adam.zero_grad();
    const Tensor words = randint(0, 100, 32, DType::i64, default_device(), default_generator(), memory::Role::input);
    cross_entropy((*this)(words), words).backward();
    adam.step();
  }
};

/// A hidden state goes from step to step.
struct Recurrent {
  nn::Linear input{12, 40}, hidden{40, 40}, output{40, 5};
  optim::SGD sgd{parameters(), {.lr = 0.1}};
  Tensor state = zeros({6, 40});
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> all;
    for (const nn::Module* m : {static_cast<const nn::Module*>(&input), static_cast<const nn::Module*>(&hidden),
                                static_cast<const nn::Module*>(&output)})
      for (const Tensor& p : m->parameters()) all.push_back(p);
    return all;
  }
  void step() {
    const memory::Step mark;
    sgd.zero_grad();
    Tensor h = state;
    std::vector<Tensor> outputs;
    for (int t = 0; t < 5; ++t) {
      h = tanh(input(randn({6, 12})) + hidden(h));
      outputs.push_back(output(h));
    }
    cross_entropy(cat(outputs), randint(0, 5, 30)).backward();
    state = h.detach();
    sgd.step();
  }
};

/// Keeps what it should let go.
struct Leaking : TrainingLoop {
  Leaking() : TrainingLoop(cnn, sgd()) {}
  std::vector<Tensor> losses;
  void step() {
    const memory::Step mark;
    optimizer->zero_grad();
    losses.push_back(loss());
    losses.back().backward();
    optimizer->step();
  }
};

/// A GPT-2 under Autocast, with dropout, on texts of two lengths. Heads have a size that cuDNN's attention takes.
struct Language {
  examples::Gpt model{{.vocabulary = 100, .context = 48, .layers = 2, .heads = 2, .width = 32, .dropout = 0.1}};
  optim::AdamW optimizer{model.parameters(), {.lr = 1e-3}};
  bool is_short = false;
  void step() {
    const std::int64_t tokens = is_short ? 30 : 48;
    is_short = !is_short;
    const auto random = [&] {
      return randint(0, 100, {4, tokens}, DType::i64, default_device(), default_generator(), memory::Role::input);
    };
    const Autocast autocast(DType::bf16);
    optimizer.zero_grad();
    model.loss(random(), random()).backward();
    optim::clip_grad_norm_(model.parameters(), 1.0);
    optimizer.step();
  }
};

template <class Loader>
void take_epoch(TrainingLoop& l, Loader& loader) {
  for (const auto& [x, y] : loader) {
    const memory::Step mark;
    l.optimizer->zero_grad();
    cross_entropy(l.model(x), y).backward();
    l.optimizer->step();
  }
}

/// Epochs of 50 images that lie on the device, the last batch of 2.
struct Resident : TrainingLoop {
  Resident() : TrainingLoop(cnn, adam()) {}
  data::ResidentImages images{empty({50, 28, 28}, DType::u8, default_device(), memory::Role::input),
                              zeros(50, DType::i64, default_device(), memory::Role::input), data::mnist_normalize};
  data::ResidentLoader loader{images, {.batch_size = 16, .shuffle = true, .augment = {.crop_padding = 2}}};
  void step() { take_epoch(*this, loader); }
};

/// Epochs of a loader, whose workers load ahead.
struct Loaded : TrainingLoop {
  Loaded() : TrainingLoop(mlp, adam()) {}
  std::vector<std::uint8_t> pixels = std::vector<std::uint8_t>(50 * 28 * 28, 100);  // on no ledger
  std::vector<std::int64_t> labels = std::vector<std::int64_t>(50, 3);
  data::TensorDataset dataset{from_blob(pixels.data(), {50, 28, 28}, DType::u8),
                              from_blob(labels.data(), 50, DType::i64), data::mnist_normalize};
  data::DataLoader loader{dataset, {.batch_size = 16, .shuffle = true, .workers = 2}};
  void step() { take_epoch(*this, loader); }
};

}  // namespace

std::vector<PredictCase> loop_cases() {
  std::vector<PredictCase> all{
      loop("accumulates_gradients", cnn, adam(), accumulate),
      loop("autocast_bf16", cnn, adam(), [](TrainingLoop& l) { train_in(DType::bf16, l); }),
      loop("autocast_of_residual_blocks", residual, sgd(), [](TrainingLoop& l) { train_in(DType::bf16, l); }),
      loop("recompute", residual, sgd(),
           [](TrainingLoop& l) {
             const Recompute recompute;
             l.train();
           }),
      loop("checkpoints_each_layer", cnn, adam(), train_with_checkpoints),
      loop("checkpoint_sequential", residual, adam(), train_in_segments),
      loop("checkpoint_sequential_under_autocast", residual, adam(),
           [](TrainingLoop& l) {
             const Autocast autocast(DType::bf16);
             train_in_segments(l);
           }),
      loop("retain_graph", cnn, sgd(), train_twice_on_one_graph),
      loop("double_backward", cnn, sgd(), penalise_gradients),
      loop("clips", residual, sgd(), clip),
      loop("saves_in_16_bits", residual, sgd(), save_in_16_bits),
      loop("upsamples", {make_upsampling, {3, 12, 12}, 4}, adam(), reconstruct),
      loop("losses", mlp, sgd(), take_many_losses),
      loop("frozen_layers", cnn, adam(), train_without_the_first_layers),
      loop("validates_on_the_tape", residual, sgd(),
           [](TrainingLoop& l) {
             l.model.eval();
             l.loss();
           }),
      loop("trains_and_tests", residual, adam(),
           [](TrainingLoop& l) {
             l.model.train();
             l.train();
             const NoGrad no_grad;
             l.model.eval();
             l.model(l.images(2 * l.batch));
           }),
      loop("empties_the_cache", cnn, adam(), empty_the_cache_between),
      loop("sets_a_limit", cnn, adam(), train_near_a_limit),
      loop("two_streams", cnn, sgd(), use_two_streams),
      loop("keeps_gradients", mlp, sgd(), keep_gradients),
      of<Captured>("captured"),
      of<CapturedInference>("captured_inference"),
      of<Averaged>("moving_average"),
      of<Scaled>("gradient_scaler"),
      of<SteppingInBackward>("steps_in_backward"),
      of<CapturedSteppingInBackward>("captured_steps_in_backward"),
      of<CheckpointedModules>("checkpointed_modules"),
      of<SavedOnCpu>("saves_on_the_cpu"),
      of<CapturedSavedOnCpu>("saves_on_the_cpu_captured"),
      of<Tied>("tied_weights"),
      of<Recurrent>("recurrent"),
      of<Language>("language_model"),
      of<Resident>("resident_images"),
      of<Loaded>("data_loader"),
      of<Leaking>("leaks"),
  };
  all.back().settles = false;
  all.push_back({"last_batch_is_smaller", [] {
                   auto made = std::make_shared<TrainingLoop>(cnn, adam());
                   return [=] { take_the_last_batch_too(*made); };
                 }});
  return all;
}

}  // namespace bytetape::test
