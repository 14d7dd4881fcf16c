// Ways to train with less memory.
#include <deque>

#include "examples/memory_tour/stop.h"

namespace bytetape::examples {
namespace {

/// Makes six blocks of four layers. A layer's result is half a MiB for a batch of 1,024.
std::deque<nn::Sequential> six_blocks() {
  std::deque<nn::Sequential> blocks;
  for (int i = 0; i < 6; ++i) blocks.emplace_back(nn::Linear(128, 128), nn::GELU(), nn::Linear(128, 128), nn::GELU());
  return blocks;
}

/// Makes four layers, each with 1 MiB of parameters.
nn::Sequential four_layers() {
  return nn::Sequential(nn::Linear(512, 512), nn::Linear(512, 512), nn::Linear(512, 512), nn::Linear(512, 512));
}

constexpr Look as_curve{.bars_are_peaks = true, .has_curve = true};
constexpr Look as_timed_curve{.bars_are_peaks = true, .has_curve = true, .is_timed = true};

}  // namespace

Stop checkpoint_stop() {
  const Shown kept = SHOWN([](Watch& at) {
    std::deque<nn::Sequential> blocks = six_blocks();
    const memory::Step step;
    Tensor h = batch({1024, 128});
    for (auto& block : blocks) h = block(h);
    at("forward");
    sum(h).backward();
    at("backward");
  });
  const Shown checkpointed = SHOWN([](Watch& at) {
    std::deque<nn::Sequential> blocks = six_blocks();
    const memory::Step step;
    Tensor h = batch({1024, 128});
    for (auto& block : blocks) h = checkpoint(block, h);
    at("forward");
    sum(h).backward();
    at("backward");
  });
  return {
      "What if the activations do not fit?",
      "Six blocks of four layers: with all activations saved, and with checkpoint(), which saves only the input of a "
      "block and runs the block again in backward.",
      {{"", kept, {}, as_timed_curve}, {"", checkpointed, {}, as_timed_curve}},
      "A checkpointed block saves one activation instead of four. Backward needs the activations of one block at a "
      "time. The price is a second forward. The results have the same bits."};
}

Stop step_in_backward_stop() {
  const Shown at_once = SHOWN([](Watch& at) {
    nn::Sequential net = four_layers();
    optim::SGD sgd(net.parameters());
    const memory::Step step;
    const Tensor loss = sum(net(batch({32, 512})));
    at();
    loss.backward();
    at();
    sgd.step();
    at();
  });
  const Shown one_by_one = SHOWN([](Watch& at) {
    nn::Sequential net = four_layers();
    optim::SGD sgd(net.parameters());
    const optim::StepInBackward steps(sgd);
    const memory::Step step;
    const Tensor loss = sum(net(batch({32, 512})));
    at();
    loss.backward();
    at();
  });
  return {
      "Must all gradients be held at the same time?",
      "Four layers of 1 MiB each, trained by SGD: with a step after backward, and with each parameter updated as soon "
      "as its gradient is complete.",
      {{"", at_once, {}, as_curve}, {"", one_by_one, {}, as_curve}},
      "The gradients of only one layer are held at a time, and the parameters are the same, bit for bit. Clipping by "
      "norm and gradient accumulation are not possible, because they need all gradients at once."};
}

Stop saved_tensor_hooks_stop() {
  const Shown in_f32 = SHOWN([](Watch& at) {
    std::deque<nn::Sequential> blocks = six_blocks();
    Tensor h = batch({1024, 128});
    for (auto& block : blocks) h = block(h);
    at();
  });
  const Shown in_bf16 = SHOWN([](Watch& at) {
    std::deque<nn::Sequential> blocks = six_blocks();
    const auto in_bf16 = [](const Tensor& x) -> SavedTensorHooks::Unpack {
      return [low = to(x, DType::bf16)] { return to(low, DType::f32); };
    };
    const SavedTensorHooks hooks(in_bf16);
    Tensor h = batch({1024, 128});
    for (auto& block : blocks) h = block(h);
    at();
  });
  const Look at_rest{.has_peaks = false};
  return {"Can activations be kept in fewer bytes?",
          "A hook receives each tensor that an op saves, and may save something else instead, here a copy in bf16.",
          {{"", in_f32, {}, at_rest}, {"", in_bf16, {}, at_rest}},
          "Half the bytes, but gradients of bf16 precision. A tensor that two ops save is passed to the hook twice, "
          "so two bf16 copies take as much as one f32 tensor."};
}

}  // namespace bytetape::examples
