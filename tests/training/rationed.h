#pragma once
// Training under a ration of memory: steps that run out of it are taken again.
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/autograd/capture.h"
#include "bytetape/core/memory/allocator/upstream.h"
#include "examples/mnist/models.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/stand_in.h"
#include "tests/training/net_training.h"

namespace bytetape::test {

/// Gives as many segments as the ration says. None is larger than a request needs, so that each takes one of its own;
/// what comes back is kept for the next of its size, as a GPU's memory is slow to come by.
class RationedUpstream final : public memory::Upstream {
 public:
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();
  /// Segments that may yet be given, by the one that lives.
  inline static std::size_t left = unlimited;

  explicit RationedUpstream(std::unique_ptr<memory::Upstream> from) : from_(std::move(from)) {}
  ~RationedUpstream() override {
    for (const auto& [bytes, data] : kept_) from_->deallocate(data, bytes);
  }
  void* allocate(std::size_t bytes) noexcept override {
    constexpr std::size_t MiB = std::size_t{1} << 20;
    const bool is_shared = bytes == 2 * MiB || bytes >= 10 * MiB;  // what the caching policy asks for first
    const bool insists = bytes == std::exchange(refused_, 0);      // a request of just that size is made again
    if (is_shared && !insists) refused_ = bytes;
    if (left == 0 || refused_ != 0) return nullptr;
    --left;
    const auto at = kept_.find(bytes);
    if (at == kept_.end()) return from_->allocate(bytes);
    return kept_.extract(at).mapped();
  }
  void deallocate(void* data, std::size_t bytes) noexcept override { kept_.emplace(bytes, data); }
  std::size_t capacity() const override { return from_->capacity(); }

 private:
  std::unique_ptr<memory::Upstream> from_;
  std::multimap<std::size_t, void*> kept_;
  std::size_t refused_ = 0;
};

/// Each block of the device a segment, and the segments rationed.
inline StandIn rationed(Backend own, Device device, std::unique_ptr<memory::Upstream> from) {
  return StandIn(own, device, std::make_unique<RationedUpstream>(std::move(from)), memory::Allocator::Mode::direct);
}

/// What a step that failed may have moved, and what the caller therefore puts back before it is taken again.
class Standing {
 public:
  explicit Standing(const nn::Module& model) : generator_(default_generator().state()) {
    for (const auto& [name, buffer] : model.named_buffers()) buffers_.emplace_back(buffer, clone(buffer));
  }
  void put_back() const {
    const NoGrad no_grad;
    for (const auto& [buffer, value] : buffers_) copy_(buffer, value);
    default_generator().set_state(generator_);
  }

 private:
  PhiloxState generator_;
  std::vector<std::pair<Tensor, Tensor>> buffers_;
};

/// What is trained, and how.
struct Recipe {
  Network net;
  Rule rule;
  DType computed;
  std::size_t allocations;  // that a step makes at least
};

inline std::vector<Recipe> recipes() {
  return {{small_residual(), Rule::sgd, DType::f32, 50},
          {small_residual(), Rule::adam, DType::bf16, 50},
          {{"Cnn", examples::mnist_cnn, {2, 1, 28, 28}}, Rule::adam, DType::f32, 35}};
}

/// The ResNet, of few channels.
inline Recipe resnet_recipe() {
  return {{"ResNet18", [] { return examples::resnet18(4); }, {2, 3, 8, 8}}, Rule::sgd, DType::f32, 200};
}

inline std::string name_of(const testing::TestParamInfo<Recipe>& info) {
  return detail::concat(info.param.net.name, info.param.rule == Rule::sgd ? "BySgdIn" : "ByAdamIn",
                        info.param.computed == DType::f32 ? "F32" : "Bf16");
}

/// A training, and the step of it, counted from 0, that runs out of memory.
struct Course {
  Recipe of;
  bool captured;
  int disturbed;

  /// Whether the step puts back by itself what it has moved.
  bool records() const { return captured && disturbed == 2; }
};

struct Outcome {
  std::vector<std::vector<float>> values;  // of every step, and what the last one left
  std::size_t held;                        // at the end
  bool failed;
};

/// take() with a ration of `segments`; undefined where that fails, with what had moved put back where it `puts_back`.
template <class F>
Tensor take_rationed(const nn::Module& model, std::size_t segments, bool puts_back, const F& take) {
  const Standing before(model);
  Tensor loss;
  RationedUpstream::left = segments;
  try {
    loss = take();
  } catch (const OutOfMemory&) {}
  RationedUpstream::left = RationedUpstream::unlimited;
  if (!loss.defined() && puts_back) before.put_back();
  return loss;
}

/// Takes steps to the one after the disturbed one, on the default device; that one first with a ration of `segments`.
inline Outcome train(const Course& course, std::size_t segments) {
  NetTraining net(course.of.net, course.of.rule, course.of.computed);
  const auto step = [&](const Tensor& x, const Tensor& y) { return net.step(x, y); };
  auto captured = capture(step);
  Outcome outcome{};
  for (int i = 0; i <= course.disturbed + 1; ++i) {
    const Tensor x = net.images(), y = net.classes();
    const auto take = [&] { return course.captured ? captured(x, y) : step(x, y); };
    Tensor loss;
    if (i == course.disturbed) {
      loss = take_rationed(net.model, segments, !course.records(), take);
      outcome.failed = !loss.defined();
    }
    if (!loss.defined()) loss = take();
    outcome.values.push_back(loss.to_vector<float>());
  }
  EXPECT_EQ(captured.is_captured(), course.captured && course.disturbed > 0);
  for (auto& values : net.left()) outcome.values.push_back(std::move(values));
  outcome.held = allocated(default_device());
  return outcome;
}

/// One allocation of the disturbed step after another fails, of those that need a segment (a captured step's pool uses
/// its own again), each in a new training; all come to the undisturbed one.
inline void expect_same_after_each_failure(const Course& course) {
  const Outcome undisturbed = train(course, RationedUpstream::unlimited);
  std::size_t segments = 0;
  for (;; ++segments) {
    const Outcome outcome = train(course, segments);
    ASSERT_EQ(outcome.values, undisturbed.values) << "after failure " << segments;
    ASSERT_EQ(outcome.held, undisturbed.held) << "after failure " << segments;
    if (!outcome.failed) break;
  }
  EXPECT_GE(segments, course.records() ? 8u : course.of.allocations);
}

/// Takes steps of a training of many allocations: where they are `disturbed`, the first fails at its first one, each
/// other an allocation further, until one does not; else as many as `steps`.
inline Outcome train_through(const Recipe& of, bool disturbed, std::size_t& steps) {
  NetTraining net(of.net, of.rule, of.computed);
  Outcome outcome{};
  outcome.failed = true;
  for (std::size_t i = 0; disturbed ? outcome.failed : i < steps; ++i) {
    const Tensor x = net.images(), y = net.classes();
    const auto take = [&] { return net.step(x, y); };
    Tensor loss;
    if (disturbed) {
      loss = take_rationed(net.model, i, true, take);
      outcome.failed = !loss.defined();
      steps = i + 1;
    }
    if (!loss.defined()) loss = take();
    outcome.values.push_back(loss.to_vector<float>());
  }
  for (auto& values : net.left()) outcome.values.push_back(std::move(values));
  outcome.held = allocated(default_device());
  return outcome;
}

/// As expect_same_after_each_failure, all in one training.
inline void expect_same_through_failures(const Recipe& of) {
  std::size_t steps = 0;
  const Outcome disturbed = train_through(of, true, steps), undisturbed = train_through(of, false, steps);
  EXPECT_EQ(disturbed.values, undisturbed.values);
  EXPECT_EQ(disturbed.held, undisturbed.held);
  EXPECT_GE(steps, of.allocations);
}

}  // namespace bytetape::test
