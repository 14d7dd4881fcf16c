#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/distributed.h"
#include "examples/cifar10/resnet.h"
#include "examples/gpt/model.h"
#include "examples/mnist/models.h"

namespace bytetape::bench {

/// The cross-entropy of a model's logits.
inline Tensor loss_of_logits(nn::Module& model, const data::Batch& batch) {
  return cross_entropy(model(batch.x), batch.y);
}

/// A workload. PyTorch's side has the same ones.
struct Workload {
  std::string name, precision;
  std::int64_t batch;
  std::function<std::unique_ptr<nn::Module>()> model;
  std::function<data::Batch(std::int64_t batch)> data;
  std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)> optimizer;
  std::function<Tensor(nn::Module&, const data::Batch&)> loss = loss_of_logits;
};

inline Tensor loss_of_gpt(nn::Module& model, const data::Batch& batch) {
  return dynamic_cast<examples::Gpt&>(model).loss(batch.x, batch.y);
}

inline std::unique_ptr<nn::Module> mlp() {
  return std::make_unique<nn::Sequential>(nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024), nn::ReLU(),
                                          nn::Linear(1024, 10));
}
inline std::unique_ptr<nn::Module> cnn() { return std::make_unique<nn::Sequential>(examples::mnist_cnn()); }
inline std::unique_ptr<nn::Module> resnet() { return std::make_unique<nn::Sequential>(examples::resnet18()); }
inline auto gpt(const examples::GptSizes& sizes) {
  return [=] { return std::make_unique<examples::Gpt>(sizes); };
}

/// x and its classes. x is drawn first.
inline data::Batch with_classes(const Tensor& x) { return {x, randint(0, 10, {x.size(0)})}; }
inline data::Batch flat(std::int64_t batch) { return with_classes(randn({batch, 784})); }
inline auto images(std::int64_t channels, std::int64_t size) {
  return [=](std::int64_t batch) { return with_classes(randn({batch, channels, size, size})); };
}
inline auto tokens(std::int64_t length, std::int64_t vocabulary) {
  return [=](std::int64_t batch) -> data::Batch {
    const Tensor text = randint(0, vocabulary, {batch, length + 1});
    return {contiguous(narrow(text, 1, 0, length)), contiguous(narrow(text, 1, 1, length))};
  };
}

inline std::unique_ptr<optim::Optimizer> sgd(const std::vector<Tensor>& parameters) {
  return std::make_unique<optim::SGD>(
      parameters, optim::SGDOptions{.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
}
inline std::unique_ptr<optim::Optimizer> adam(const std::vector<Tensor>& parameters) {
  return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = 1e-3});
}

inline std::unique_ptr<optim::Optimizer> adamw(const std::vector<Tensor>& parameters) {
  return std::make_unique<optim::AdamW>(parameters,
                                        optim::AdamWOptions{.lr = 3e-4, .betas = {0.9, 0.95}, .weight_decay = 0.1});
}

inline constexpr std::int64_t gpt2_tokens = 50257, padded = 50304;
inline const examples::GptSizes gpt2{.vocabulary = padded, .context = 1024, .layers = 12, .heads = 12, .width = 768};
inline const examples::GptSizes gpt2_l2{.vocabulary = padded, .context = 256, .layers = 2, .heads = 12, .width = 768};
inline const examples::GptSizes gpt_char{.vocabulary = 65, .context = 128, .layers = 4, .heads = 4, .width = 128};

inline const std::vector<Workload>& workloads() {
  static const std::vector<Workload> table{
      {"mlp_b256_fp32", "fp32", 256, mlp, flat, sgd},
      {"mnist_cnn_b64_fp32", "fp32", 64, cnn, images(1, 28), adam},
      {"resnet18_b32_fp32", "fp32", 32, resnet, images(3, 32), sgd},
      {"mlp_b256_tf32", "tf32", 256, mlp, flat, sgd},
      {"mnist_cnn_b64_tf32", "tf32", 64, cnn, images(1, 28), adam},
      {"mnist_cnn_b1024_tf32", "tf32", 1024, cnn, images(1, 28), adam},
      {"resnet18_b128_tf32", "tf32", 128, resnet, images(3, 32), sgd},
      {"resnet18_b512_tf32", "tf32", 512, resnet, images(3, 32), sgd},
      {"resnet18_b128_bf16", "bf16", 128, resnet, images(3, 32), sgd},
      {"resnet18_b512_bf16", "bf16", 512, resnet, images(3, 32), sgd},
      {"gpt2_l2_t256_b4_fp32", "fp32", 4, gpt(gpt2_l2), tokens(256, gpt2_tokens), adamw, loss_of_gpt},
      {"gptchar_b32_fp32", "fp32", 32, gpt(gpt_char), tokens(128, 65), adamw, loss_of_gpt},
      {"gpt2_b8_tf32", "tf32", 8, gpt(gpt2), tokens(1024, gpt2_tokens), adamw, loss_of_gpt},
      {"gpt2_b8_bf16", "bf16", 8, gpt(gpt2), tokens(1024, gpt2_tokens), adamw, loss_of_gpt},
      {"gpt2_b16_bf16", "bf16", 16, gpt(gpt2), tokens(1024, gpt2_tokens), adamw, loss_of_gpt},
  };
  return table;
}

/// How several ranks train: data parallel, or sharded if `sharded` is set.
struct Ranks {
  dist::DataParallelOptions data_parallel;
  std::optional<dist::ShardedOptions> sharded;
  bool are_alone = false;  // exchange nothing
};

/// A model, its optimizer and one batch on default_device(). With several ranks, each has a batch of this size.
class Training {
 public:
  /// With `recomputes`, forward saves less for backward (Recompute).
  explicit Training(const Workload& w, bool recomputes = false, const Ranks& ranks = {})
      : model_(w.model()),
        are_alone_(ranks.are_alone),
        optimizer_(w.optimizer(parameters(ranks))),
        batch_(w.data(w.batch)),
        loss_(w.loss),
        computed_(w.precision == "bf16" ? DType::bf16 : DType::f32),
        recomputes_(recomputes) {
    batch_.x.storage().set_role(memory::Role::input);
    batch_.y.storage().set_role(memory::Role::input);
  }

  /// Takes a training step on a batch that is already on the device.
  Tensor step() {
    std::optional<dist::NoSync> alone;
    if (are_alone_ && parallel_) alone.emplace(*parallel_);
    const Autocast autocast(computed_);
    optimizer_->zero_grad();
    Tensor loss = forward();
    loss.backward();
    optimizer_->step();
    return loss.detach();
  }

  /// The bytes of gradients that ranks exchange in a step, by bucket.
  std::vector<std::size_t> bucket_bytes() const {
    return parallel_ ? parallel_->bucket_bytes() : std::vector<std::size_t>();
  }

 private:
  /// Divides the model among the ranks, and returns the parameters of this rank's optimizer.
  std::vector<Tensor> parameters(const Ranks& ranks) {
    if (ranks.sharded) return sharded_.emplace(*model_, dist::init(), *ranks.sharded).parameters();
    parallel_.emplace(*model_, dist::init(), ranks.data_parallel);
    return model_->parameters();
  }
  Tensor forward() {
    std::optional<Recompute> recompute;
    if (recomputes_) recompute.emplace();
    return loss_(*model_, batch_);
  }

  std::unique_ptr<nn::Module> model_;
  std::optional<dist::DataParallel> parallel_;
  std::optional<dist::Sharded> sharded_;
  bool are_alone_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  data::Batch batch_;
  std::function<Tensor(nn::Module&, const data::Batch&)> loss_;
  DType computed_;
  bool recomputes_;
};

}  // namespace bytetape::bench
