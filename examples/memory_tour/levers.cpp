// How training takes less.
#include <deque>

#include "examples/memory_tour/stop.h"

namespace bytetape::examples {
namespace {

/// Of four layers each. What a layer gives is half a MiB for a batch of 1,024.
std::deque<nn::Sequential> six_blocks() {
  std::deque<nn::Sequential> blocks;
  for (int i = 0; i < 6; ++i) blocks.emplace_back(nn::Linear(128, 128), nn::GELU(), nn::Linear(128, 128), nn::GELU());
  return blocks;
}

/// A MiB of parameters a layer.
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
  return {"What if the activations do not fit?",
          "Six blocks of four layers, with every activation kept; and with checkpoint(), which keeps what goes into a "
          "block, and runs the block once more in backward.",
          {{"", kept, {}, as_timed_curve}, {"", checkpointed, {}, as_timed_curve}},
          "One activation a block in place of four, and in backward those of one block more. The price is a second "
          "forward; "
          "the bits are the same."};
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
      "Must all gradients be there at once?",
      "Four layers of a MiB each, trained by SGD: all gradients, then a step; and each used as soon as it is whole.",
      {{"", at_once, {}, as_curve}, {"", one_by_one, {}, as_curve}},
      "No two layers' gradients are held at a time, and the parameters come out the same, bit for bit. What needs all "
      "gradients at once, clipping by their norm or accumulation, cannot be had so."};
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
          "What a node would keep is offered to a hook first, which may keep something else, here a copy in bf16.",
          {{"", in_f32, {}, at_rest}, {"", in_bf16, {}, at_rest}},
          "Half the bytes, for gradients of bf16's digits. "
          "A tensor that two nodes keep is offered to it twice: there nothing would be won."};
}

}  // namespace bytetape::examples
