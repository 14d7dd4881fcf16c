// Rules that have a fused kernel take it where nothing is recorded: it makes the gradient and nothing on the way.
#include <functional>
#include <string>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/allocator.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::random_leaf;
using test::random_tensor;

constexpr std::int64_t rows = 16, columns = 32;

/// Blocks as large as x that f's backward takes.
int blocks_taken(const std::function<Tensor(const Tensor&)>& f) {
  const Tensor x = random_leaf({rows, columns}), y = f(x), seed = random_tensor(y.shape());
  memory::Allocator& books = memory::allocator(Device::cpu());
  books.reset_log();
  y.backward(seed);
  int blocks = 0;
  for (const memory::Event& e : books.snapshot().events)
    blocks += e.kind == memory::EventKind::alloc && e.requested >= x.nbytes() && e.role != memory::Role::workspace;
  return blocks;
}

TEST(FusedRules, MakeNothingButTheGradient) {
  const Tensor target = random_tensor({rows, columns}), ones_and_zeros = to(target > 0, DType::f64);
  const Tensor classes = randint(0, columns, rows), weight = random_tensor({columns}), bias = random_tensor({columns});
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> ops[] = {
      {"silu", silu},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 1); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, 1); }},
      {"layer_norm", [&](const Tensor& x) { return layer_norm(x, {columns}, weight, bias); }},
      {"rms_norm", [&](const Tensor& x) { return rms_norm(x, {columns}, weight); }},
      {"group_norm", [](const Tensor& x) { return group_norm(x, 4); }},
      {"batch_norm", [&](const Tensor& x) { return batch_norm(x, weight, bias, {}, {}, true); }},
      {"cross_entropy", [&](const Tensor& x) { return cross_entropy(x, classes); }},
      {"mse_loss", [&](const Tensor& x) { return mse_loss(x, target); }},
      {"huber_loss", [&](const Tensor& x) { return huber_loss(x, target); }},
      {"binary_cross_entropy_with_logits",
       [&](const Tensor& x) { return binary_cross_entropy_with_logits(x, ones_and_zeros); }},
  };
  for (const auto& [name, f] : ops) EXPECT_LE(blocks_taken(f), 1) << name;
}

}  // namespace
}  // namespace bytetape
