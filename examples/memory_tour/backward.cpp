// The memory of forward and backward.
#include "examples/memory_tour/stop.h"

namespace bytetape::examples {
namespace {

using memory::Role;
constexpr std::size_t segment = std::size_t{2} << 20;  // bytes of a segment for small blocks

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
      "How much memory does a layer take?",
      "One Linear(256, 250) and one example. The weight has 250 x 256 floats, the bias 250.",
      {{"", program, expected}},
      "Backward makes a gradient for every parameter, of the same size, and keeps it. PyTorch's figures are the same "
      "plus cuBLAS's workspaces. On an H100 these take 33 MiB from the first matrix product on and 32 MiB more from "
      "the first backward on, until the process ends. Here a matrix product's workspace is freed after the op, so it "
      "shows only in the peak."};
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
  return {"What does an op save for backward?",
          "Only what its gradient needs: x @ w saves x for w's gradient, and x + w saves nothing. Only u, v and w "
          "require gradients. Each tensor is 16,384 bytes.",
          {{"", program, {saving(0), saving(0), saving(1), saving(2)}, {.has_peaks = false}}},
          "A saved tensor that the program holds anyway, such as x, takes no extra memory. Intermediate results that "
          "nothing else holds, such as x * 2 or x + 2, stay until backward. These are the activations."};
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
  return {"How much more memory does training take than inference?",
          "Two layers and two activations, a batch of five.",
          {{"", program, expected}},
          "Training saves the results of the activations: relu's, which the next layer needs too, and sigmoid's. The "
          "inputs of the activations are freed at once. Backward frees the saved tensors one by one, and leaves "
          "gradients."};
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
      "How much memory does a line of arithmetic take at its peak?",
      "Layer norm of ten elements, written by hand and as one op.",
      {{"", program, expected, {.bars_are_peaks = true}}},
      "Each operation in the line makes a tensor, and C++ holds all of them until the end of the line. The op makes "
      "only its result, and saves two numbers per row."};
}

}  // namespace bytetape::examples
