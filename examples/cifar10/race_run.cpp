#include "examples/cifar10/race_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "examples/cifar10/race_whiten.h"

namespace bytetape::examples {
namespace {

/// Measures time in parts. Waits for the device at both ends of a part.
class Stopwatch {
 public:
  template <class F>
  auto time(F&& f) {
    synchronize(default_device());
    const auto start = std::chrono::steady_clock::now();
    const auto stop = [&] {
      synchronize(default_device());
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      stop();
    } else {
      auto result = f();
      stop();
      return result;
    }
  }
  double seconds = 0;
};

optim::SGD make_sgd(const RaceNet& net, const RaceOptions& o) {
  const double decay = o.weight_decay * static_cast<double>(o.batch_size);
  return optim::SGD({{.params = {net.whiten.bias}, .lr = o.bias_lr, .weight_decay = decay / o.bias_lr},
                     {.params = net.norm_biases(), .lr = o.bias_lr, .weight_decay = decay / o.bias_lr},
                     {.params = {net.head.weight}, .lr = o.head_lr, .weight_decay = decay / o.head_lr}},
                    {.momentum = 0.85, .nesterov = true});
}

optim::Muon make_muon(const RaceNet& net, const RaceOptions& o) {
  return optim::Muon(
      net.filters(),
      {.lr = o.filter_lr, .weight_decay = 0, .momentum = o.filter_momentum, .ns_steps = 3, .flatten = true});
}

/// Scales each filter bank (out, in, 3, 3) to the norm sqrt(out).
void normalise(const std::vector<Tensor>& filters) {
  const NoGrad no_grad;
  for (const Tensor& f : filters) mul_(f, std::sqrt(static_cast<double>(f.size(0))) / norm(f));
}

/// Returns the mean of the logits of each image and its mirror image.
Tensor mirrored_logits(RaceNet& net, const Tensor& x) { return (net(x) + net(flip(x, {3}))) * 0.5; }

/// Returns the logits of ten views of each image: as it is, and moved by one pixel along each diagonal, each with its
/// mirror image. The views in place have the weight of the moved ones together.
Tensor averaged_logits(RaceNet& net, const Tensor& x) {
  const Tensor padded = pad(x, {1, 1, 1, 1}, PadMode::reflect);
  const auto moved = [&](std::int64_t down, std::int64_t right) {
    return mirrored_logits(net, channels_last(narrow(narrow(padded, 2, down, x.size(2)), 3, right, x.size(3))));
  };
  return mirrored_logits(net, x) * 0.5 + (moved(0, 0) + moved(0, 2) + moved(2, 0) + moved(2, 2)) * 0.125;
}

}  // namespace

Race::Race(RaceData& data, const RaceOptions& options, DType computed)
    : data_(data),
      options_(options),
      computed_(computed),
      sgd_(make_sgd(net_, options)),
      muon_(make_muon(net_, options)),
      train_early_([this](const Tensor& indices) { return train_on(indices); }),
      train_late_([this](const Tensor& indices) { return train_on(indices); }),
      count_once_([this](const Tensor& indices) { count_correct(indices, false); }),
      count_averaged_([this](const Tensor& indices) { count_correct(indices, true); }) {
  check<ValueError>(steps() > 0, "--batch-size ", options.batch_size, " is more than the ", data.training_size(),
                    " training images: give a smaller one, or more data");
}

Tensor Race::train_on(const Tensor& indices) {
  const memory::Step mark;
  sgd_.zero_grad();
  muon_.zero_grad();
  Tensor loss;
  {
    const Autocast autocast(computed_);
    const data::Batch batch = data_.training_batch(indices, is_early_ ? options_.early_size : race_image_size);
    loss = cross_entropy(net_(batch.x), batch.y,
                         {.reduction = Reduction::sum, .label_smoothing = options_.label_smoothing});
    loss.backward();
  }
  sgd_.step();
  normalise(net_.filters());
  muon_.step();
  return loss.detach();
}

void Race::count_correct(const Tensor& indices, bool averages) {
  const NoGrad no_grad;
  const Autocast autocast(computed_);
  const data::Batch batch = data_.test_batch(indices);
  const Tensor logits = averages ? averaged_logits(net_, batch.x) : net_(batch.x);
  correct_ += sum(to(argmax(logits, 1) == batch.y, DType::i64));
}

double Race::test(CapturedStep<std::function<void(const Tensor&)>>& count) {
  const std::int64_t n = data_.test_size(), batch = std::min<std::int64_t>(options_.batch_size, 2000);
  net_.eval();
  fill_(correct_, 0);
  const Tensor order = arange(n, DType::i64);
  for (std::int64_t first = 0; first < n; first += batch) count(narrow(order, 0, first, std::min(batch, n - first)));
  net_.train();
  return correct_.item<double>() / static_cast<double>(n);
}

void Race::set_rates(std::int64_t step) {
  const auto left = [&](int epochs) {
    return std::max(0.0, 1 - static_cast<double>(step) / static_cast<double>(epochs * steps()));
  };
  const std::span<optim::ParamGroup> groups = sgd_.param_groups();
  groups[0].lr = options_.bias_lr * left(std::min(options_.early_epochs, options_.epochs));
  groups[1].lr = options_.bias_lr * left(options_.epochs);
  groups[2].lr = options_.head_lr * left(options_.epochs);
  muon_.set_lr(options_.filter_lr * left(options_.epochs));
}

void Race::reset(std::uint64_t seed) {
  manual_seed(seed);
  net_.reset();
  sgd_.load_state_dict(sgd_start_);
  muon_.load_state_dict(muon_start_);
}

/// Returns the loss of the last batch, summed over its images.
Tensor Race::train_epoch(int epoch) {
  is_early_ = net_.trains_whitening = epoch < options_.early_epochs;
  CapturedStep<Step>& train = is_early_ ? train_early_ : train_late_;
  const Tensor order = data_.draw_order(epoch);
  Tensor loss;
  for (std::int64_t i = 0; i < steps(); ++i) {
    set_rates(epoch * steps() + i);
    loss = train(narrow(order, 0, i * options_.batch_size, options_.batch_size));
  }
  return loss;
}

RaceResult Race::run(std::uint64_t seed, const std::function<void(int, const RaceEpoch&)>& after_epoch) {
  reset(seed);
  RaceResult result;
  Stopwatch watch;
  watch.time([&] {
    const NoGrad no_grad;
    copy_(net_.whiten.weight,
          whitening_filters(data_.first_images(std::min<std::int64_t>(5000, data_.training_size()))));
    data_.draw_flips();
  });
  for (int epoch = 0; epoch < options_.epochs; ++epoch) {
    const Tensor loss = watch.time([&] { return train_epoch(epoch); });
    const double mean_loss = loss.item<double>() / static_cast<double>(options_.batch_size);
    check<ValueError>(!std::isnan(mean_loss), "the loss of epoch ", epoch + 1, " is NaN");
    result.epochs.push_back({watch.seconds, test(count_once_), mean_loss});
    after_epoch(epoch, result.epochs.back());
  }
  result.accuracy = watch.time([&] { return test(count_averaged_); });
  result.seconds = watch.seconds;
  return result;
}

}  // namespace bytetape::examples
