// Times attention, embeddings and recurrent layers alone, as bench/pytorch/blocks.py does with PyTorch. Prints a JSON
// line for each.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bytetape/bytetape.h"

namespace {

using namespace bytetape;

void synchronize_default() { synchronize(default_device()); }

/// Prints the time of f, captured on a GPU.
template <class F>
void print(const std::string& part, double flop, F&& f) {
  constexpr int burst = 20;
  bench::Timing t{};
  if (default_device().type == DeviceType::cuda) {
    auto captured = capture(f);
    t = bench::time(3, burst, captured, synchronize_default);
  } else {
    t = bench::time(1, 1, f);
  }
  nlohmann::ordered_json line{{"part", part}, {"us", t.median / 1e3}, {"us_min", t.min / 1e3}, {"us_max", t.max / 1e3}};
  if (flop > 0) line["tflops"] = flop / t.median / 1e3;
  std::cout << line.dump() << std::endl;
}

/// Times attention of width 2,048 and 1,024 tokens, causal and forward in full, in bf16 (f32 on the CPU).
void attention(std::int64_t batch, std::int64_t heads) {
  constexpr std::int64_t tokens = 1024, width = 2048;
  const auto make = [&] {
    const Tensor x = randn({batch, tokens, heads, width / heads});
    const DType dtype = default_device().type == DeviceType::cuda ? DType::bf16 : DType::f32;
    return transpose(to(x, dtype), 1, 2).detach().set_requires_grad();
  };
  const Tensor q = make(), k = make(), v = make(), gy = make().detach();
  const std::string name = detail::concat("attention_b", batch, "_h", heads, "_d", width / heads);
  const double flop = 2.0 * static_cast<double>(batch * tokens * tokens * width);  // half of 4 b t^2 width
  print(name + "_forward", flop, [&] {
    const NoGrad no_grad;
    return scaled_dot_product_attention(q, k, v, {.causal = true});
  });
  print(name + "_full_forward", 2 * flop, [&] {
    const NoGrad no_grad;
    return scaled_dot_product_attention(q, k, v);
  });
  print(name + "_forward_backward", 3.5 * flop, [&] {
    return grad({scaled_dot_product_attention(q, k, v, {.causal = true})}, {q, k, v}, {.seeds = {gy}});
  });
}

/// Times the gradient of GPT-2's token embedding, which is f32 under Autocast too. The lookup takes a small part.
void token_embedding(const std::string& kind, const Tensor& tokens) {
  const Tensor weight = randn({50304, 768}).set_requires_grad(), gy = randn({tokens.size(0), tokens.size(1), 768});
  print("embedding_" + kind + "_forward_backward", 0,
        [&] { return grad({embedding(tokens, weight)}, {weight}, {.seeds = {gy}}); });
}

/// Times a recurrent layer of width 512 over 128 steps, forward and backward.
template <class Layer>
void recurrent(const std::string& name, std::int64_t batch) {
  constexpr std::int64_t steps = 128, width = 512;
  Layer layer(width, width);
  const Tensor x = randn({steps, batch, width}), gy = randn({steps, batch, width});
  print(detail::concat(name, "_b", batch, "_forward"), 0, [&] {
    const NoGrad no_grad;
    return layer(x);
  });
  print(detail::concat(name, "_b", batch, "_forward_backward"), 0,
        [&] { return grad({layer(x)}, layer.parameters(), {.seeds = {gy}}); });
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{"Times attention, embeddings and recurrent layers; prints a JSON line for each."};
  std::string device = "cuda";
  std::int64_t batch = 16, rows = 64;
  app.add_option("--device", device, "cpu or cuda; default: cuda");
  app.add_option("--batch", batch, "of attention and embeddings; default: 16")->check(CLI::PositiveNumber);
  app.add_option("--rows", rows, "batch of recurrent layers; default: 64")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return bench::run("blocks", [&] {
    const DefaultDevice here(Device::parse(device));
    cuda::set_allow_tf32(true);
    manual_seed(0);
    attention(batch, 32);
    attention(batch, 16);
    token_embedding("random", randint(0, 50257, {batch, 1024}));
    token_embedding("one_token", zeros({batch, 1024}, DType::i64));
    recurrent<nn::LSTM>("lstm", rows);
    recurrent<nn::GRU>("gru", rows);
  });
}
