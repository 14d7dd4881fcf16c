// What forward and backward take.
#include "examples/memory_tour/stop.h"

namespace bytetape::examples {
namespace {

using memory::Role;
constexpr std::size_t segment = std::size_t{2} << 20;  // that small blocks share

}  // namespace

Stop linear_stop() {
  const Shown program = SHOWN([](Watch& at) {
    {
      nn::Linear net(256, 250);
      at();
      const Tensor x = batch({1, 256});
      at();
      const Tensor y = net(x);
      at();
      sum(y).backward();
      at();
    }
    at();
  });
  constexpr std::size_t parameters = 257024, x = 1024, y = 1024;
  const std::vector<Figures> expected{
      {257024, {{Role::parameter, parameters}}, segment},
      {258048, {{Role::parameter, parameters}, {Role::input, x}}, segment},
      {259072, {{Role::parameter, parameters}, {Role::input, x}, {Role::temporary, y}}},
      {516096, {{Role::parameter, parameters}, {Role::gradient, parameters}, {Role::input, x}, {Role::temporary, y}}},
      {0, {}}};
  return {
      "What does a layer take?",
      "One Linear(256, 250) and one example. The weight is 250 x 256 floats, the bias 250.",
      {{"", program, expected}},
      "Backward makes a gradient for every parameter, as large as it, and they stay. PyTorch's figures are these and "
      "cuBLAS's workspaces, on an H100 33 MiB from the first product on and 32 more from the first backward, until the "
      "process ends. Here a product's scratch is a block for the length of the op: it shows in the peak alone."};
}

Stop saved_stop() {
  const Shown program = SHOWN([](Watch& at) {
    const Tensor x = batch({64, 64});
    const Tensor u = weight({64, 64}), v = weight({64, 64}), w = weight({64, 64});
    Tensor y = matmul(x, w);
    at();
    y = x + w;
    at();
    y = matmul(x * 2, w);
    at();
    y = (matmul(x + 2, v) + 3) * u;
    at();
  });
  static constexpr std::size_t tensor = 64 * 64 * 4;
  const auto saving = [](std::size_t n) {
    return Figures{
        (5 + n) * tensor,
        {{Role::parameter, 3 * tensor}, {Role::input, tensor}, {Role::temporary, tensor}, {Role::saved, n * tensor}}};
  };
  return {
      "What does an op keep for backward?",
      "What its rule needs, and nothing else: of x @ w that is x, for w's gradient; of x + w nothing. Only u, v and w "
      "require gradients. Each tensor is 16,384 bytes.",
      {{"", program, {saving(0), saving(0), saving(1), saving(2)}, {.has_peaks = false}}},
      "A tensor that the program holds anyway, x here, costs nothing more by being kept. What nobody else holds, "
      "x * 2 or x + 2, lives on until backward: that is what is called activations."};
}

Stop sequential_stop() {
  const Shown program = SHOWN([](Watch& at) {
    nn::Sequential net(nn::Linear(200, 100), nn::ReLU(), nn::Linear(100, 200), nn::Sigmoid());
    const Tensor x = batch({5, 200});
    at();
    {
      const NoGrad no_grad;
      const Tensor y = net(x);
      at();
    }
    const Tensor y = net(x);
    at();
    sum(y).backward();
    at();
  });
  constexpr std::size_t parameters = 162304, x = 4096, hidden = 2048, y = 4096;
  const std::vector<Figures> expected{
      {166400, {{Role::parameter, parameters}, {Role::input, x}}, segment},
      {170496, {{Role::parameter, parameters}, {Role::input, x}, {Role::temporary, y}}},
      {172544, {{Role::parameter, parameters}, {Role::input, x}, {Role::saved, hidden + y}}},
      {332800, {{Role::parameter, parameters}, {Role::gradient, parameters}, {Role::input, x}, {Role::temporary, y}}}};
  return {
      "What does training take that inference does not?",
      "Two layers and two activations, a batch of five.",
      {{"", program, expected}},
      "Training keeps what lies between the layers: relu its result, which the next layer needs as well, and sigmoid "
      "its own. What comes before an activation is let go. Backward frees it all as it goes, and leaves gradients."};
}

Stop layer_norm_stop() {
  const Shown program = SHOWN([](Watch& at) {
    const Tensor x = batch({10}), w = weight({10});
    Tensor y = (x - mean(x)) / sqrt(var(x) + 1e-5) * w;
    at();
    y = Tensor();
    at();
    y = layer_norm(x, {10}, w);
    at();
  });
  const std::vector<Figures> expected{
      {2048, {{Role::parameter, 512}, {Role::input, 512}, {Role::saved, 512}, {Role::temporary, 512}}, segment, 4608},
      {1024, {{Role::parameter, 512}, {Role::input, 512}}, segment},
      {2560, {{Role::parameter, 512}, {Role::input, 512}, {Role::saved, 1024}, {Role::temporary, 512}}, segment, 2560}};
  return {
      "What does a line of arithmetic hold at its highest?",
      "Layer norm by hand over ten elements, and as one op.",
      {{"", program, expected, {.bars_are_peaks = true}}},
      "Every step of the line makes a tensor, and C++ holds them all to the end of the line. The op makes its result, "
      "and keeps two numbers a row."};
}

}  // namespace bytetape::examples
