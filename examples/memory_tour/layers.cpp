// The memory of recurrent networks, attention and normalisation.
#include <fmt/format.h>

#include "examples/memory_tour/stop.h"

namespace bytetape::examples {
namespace {

using memory::Role;

}  // namespace

Stop recurrent_stop() {
  const Shown cells = SHOWN([](Watch& at) {
    for (const int T : {8, 16, 32, 64}) {
      nn::Linear input(32, 64), hidden(64, 64);
      const Tensor x = batch({T, 16, 32});
      Tensor h = zeros({16, 64});
      for (int t = 0; t < T; ++t) h = tanh(input(select(x, 0, t)) + hidden(h));
      at(fmt::format("T = {}", T));
    }
  });
  std::vector<Figures> expected;
  for (const std::size_t T : {8, 16, 32, 64}) {
    constexpr std::size_t parameters = 64 * 32 * 4 + 64 * 64 * 4 + 2 * 512, h = 16 * 64 * 4;
    const std::size_t x = T * 16 * 32 * 4, states = (T + 1) * h;
    expected.push_back(
        {parameters + x + states, {{Role::parameter, parameters}, {Role::input, x}, {Role::saved, states}}});
  }
  return {"What grows with the length of a sequence?",
          "A recurrent cell, tanh(input(x) + hidden(h)), over T steps, with 16 sequences and a state of 64 floats.",
          {{"", cells, expected}},
          "The saved states: 4,096 bytes per step. The result of tanh is also the input of the next step, so it is "
          "saved only once. The weights are used T times, but stored once."};
}

Stop attention_stop() {
  const Shown attention = SHOWN([](Watch& at) {
    for (const int T : {64, 128, 256, 512}) {
      const Tensor q = weight({T, 64}), k = weight({T, 64}), v = weight({T, 64});
      const Tensor y = matmul(softmax(matmul(q, transpose(k, 0, 1)) / 8, 1), v);
      at(fmt::format("T = {}", T));
    }
  });
  std::vector<Figures> expected;
  for (const std::size_t T : {64, 128, 256, 512}) {
    const std::size_t qkv = 3 * T * 64 * 4, weights = T * T * 4, y = T * 64 * 4;
    expected.push_back({qkv + weights + y, {{Role::parameter, qkv}, {Role::saved, weights}, {Role::temporary, y}}});
  }
  return {
      "What grows with the length of a sequence in attention?",
      "softmax(Q K^T / 8) V over T tokens of 64 floats, written with separate ops.",
      {{"", attention, expected}},
      "Twice the tokens take four times the memory for attention weights: T x T floats are saved for backward, per "
      "head "
      "and example. During forward there are three times as many: scores, scaled scores and weights. The saved weights "
      "are a fifth of the memory held at T = 64, and two thirds at T = 512."};
}

Stop batch_norm_stop() {
  const Shown norms = SHOWN([](Watch& at) {
    nn::Conv2d first(16, 16, 1), second(16, 16, 1);
    nn::BatchNorm2d norm(16);
    const Tensor x = first(batch({16, 16, 32, 32}));
    at();
    Tensor y = second(relu(norm(x)));
    at();
    y = second(norm(x, Activation::relu));
    at();
    const Recompute recompute;
    y = second(norm(x, Activation::relu));
    at();
  });
  return {
      "What does a batch norm save for backward?",
      "A batch norm between two convolutions, with feature maps of 1 MiB each.",
      {{"", norms, {}, {.has_peaks = false}}},
      "Its input, and two numbers per channel. Its result is freed. The result of relu is saved once, for relu and "
      "for the second convolution. In one op with relu, the result of the norm is never stored. Under Recompute the "
      "result of relu is not saved either, but recomputed from what norm saves anyway."};
}

}  // namespace bytetape::examples
