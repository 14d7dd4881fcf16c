// Trains a GPT-2 on the weights and tokens that bench/pytorch/losses.py has written, as that script does with PyTorch.
// Writes the loss of each step to bytetape_<precision>.csv in the same folder. With --gradients, it writes the
// gradients of the first step to gradients_bytetape_<precision>.safetensors instead.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "cuda/cuda.h"
#include "examples/gpt/weights.h"

namespace {

using namespace bytetape;

/// Tokens that a model gets, and those that it is to predict, of windows (b, t + 1).
std::pair<Tensor, Tensor> split(const Tensor& windows) {
  const std::int64_t t = windows.size(1) - 1;
  return {contiguous(narrow(windows, 1, 0, t)), contiguous(narrow(windows, 1, 1, t))};
}

Tensor loss_of(examples::Gpt& model, const Tensor& x, const Tensor& y, bool in_bf16) {
  std::optional<Autocast> autocast;
  if (in_bf16) autocast.emplace(DType::bf16);
  return model.loss(x, y);
}

/// Returns the gradients of one batch by the parameters' names.
NamedTensors gradients(examples::Gpt& model, const Tensor& windows, bool in_bf16) {
  const auto [x, y] = split(windows);
  loss_of(model, x, y, in_bf16).backward();
  NamedTensors all;
  for (const auto& [name, p] : model.named_parameters()) all.emplace_back(name, p.grad());
  return all;
}

/// Trains one step for each of `tokens` (steps, b, t + 1), and returns the losses.
std::vector<float> train(examples::Gpt& model, const Tensor& tokens, bool in_bf16, bool captures) {
  optim::AdamW adamw(model.parameters(), {.lr = 3e-4, .weight_decay = 0.1});
  const Tensor losses = empty(tokens.size(0), DType::f32);
  const auto step = [&](const Tensor& x, const Tensor& y) {
    adamw.zero_grad();
    const Tensor loss = loss_of(model, x, y, in_bf16);
    loss.backward();
    adamw.step();
    return loss.detach();
  };
  auto captured = capture(step);
  for (std::int64_t i = 0; i < tokens.size(0); ++i) {
    const auto [x, y] = split(select(tokens, 0, i));
    copy_(select(losses, 0, i), captures ? captured(x, y) : step(x, y));
  }
  return losses.to_vector<float>();
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{"Trains a GPT-2 on the weights and tokens of a folder, and writes the loss of each step there."};
  std::string folder, device = "cpu", precision = "f32";
  int threads = 0;
  std::uint64_t workspace_cap = 0;
  bool captures = false, saves_gradients = false;
  app.add_option("folder", folder, "of model.safetensors and tokens.npy (bench/pytorch/losses.py)")->required();
  app.add_option("--device", device, "cpu or cuda");
  app.add_option("--precision", precision, "of products")->check(CLI::IsMember({"f32", "tf32", "bf16"}));
  app.add_option("--threads", threads, "CPU threads; default: all");
  app.add_option("--workspace-cap", workspace_cap, "bytes that a product's workspace may take; default: bytetape's")
      ->transform(CLI::AsSizeValue(false));
  app.add_flag("--graph", captures, "capture the step, on cuda");
  app.add_flag("--gradients", saves_gradients, "write the gradients of the first step, without training");
  CLI11_PARSE(app, argc, argv);
  return bench::run("losses", [&] {
    if (threads) set_num_threads(threads);
    const DefaultDevice here(Device::parse(device));
    cuda::set_allow_tf32(precision == "tf32");
    if (workspace_cap) cuda::set_workspace_cap(default_device(), workspace_cap);
    const std::filesystem::path in(folder);
    const examples::PublishedWeights weights(in / "model.safetensors");
    examples::Gpt model(weights.sizes());
    weights.load_into(model);
    if (saves_gradients) {
      const Tensor first = select(load_npy(in / "tokens.npy"), 0, 0);
      save_safetensors(in / ("gradients_bytetape_" + precision + ".safetensors"),
                       gradients(model, first, precision == "bf16"));
      return;
    }
    const std::vector<float> losses = train(model, load_npy(in / "tokens.npy"), precision == "bf16", captures);
    std::ofstream to(in / ("bytetape_" + precision + ".csv"));
    to.precision(9);
    for (const float loss : losses) to << loss << '\n';
    check<FileError>(to.good(), "cannot write the losses into ", folder);
    std::cout << "loss " << losses.front() << " to " << losses.back() << " in " << losses.size() << " steps\n";
  });
}
