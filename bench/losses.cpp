// Trains a GPT-2 on the weights and tokens that bench/pytorch/losses.py has written, as that script does with PyTorch.
// Writes the loss of each step to bytetape_<precision>.csv in the same folder.
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

/// Trains one step for each of `tokens` (steps, b, t + 1), and returns the losses.
std::vector<float> train(examples::Gpt& model, const Tensor& tokens, bool in_bf16, bool captures) {
  optim::AdamW adamw(model.parameters(), {.lr = 3e-4, .weight_decay = 0.1});
  const Tensor losses = empty(tokens.size(0), DType::f32);
  const std::int64_t t = tokens.size(2) - 1;
  const auto step = [&](const Tensor& x, const Tensor& y) {
    adamw.zero_grad();
    Tensor loss;
    {
      std::optional<Autocast> autocast;
      if (in_bf16) autocast.emplace(DType::bf16);
      loss = model.loss(x, y);
    }
    loss.backward();
    adamw.step();
    return loss.detach();
  };
  auto captured = capture(step);
  for (std::int64_t i = 0; i < tokens.size(0); ++i) {
    const Tensor batch = select(tokens, 0, i), x = contiguous(narrow(batch, 1, 0, t)),
                 y = contiguous(narrow(batch, 1, 1, t));
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
  bool captures = false;
  app.add_option("folder", folder, "of model.safetensors and tokens.npy (bench/pytorch/losses.py)")->required();
  app.add_option("--device", device, "cpu or cuda");
  app.add_option("--precision", precision, "of products")->check(CLI::IsMember({"f32", "tf32", "bf16"}));
  app.add_option("--threads", threads, "CPU threads; default: all");
  app.add_flag("--graph", captures, "capture the step, on cuda");
  CLI11_PARSE(app, argc, argv);
  return bench::run("losses", [&] {
    if (threads) set_num_threads(threads);
    const DefaultDevice here(Device::parse(device));
    cuda::set_allow_tf32(precision == "tf32");
    const std::filesystem::path in(folder);
    const examples::PublishedWeights weights(in / "model.safetensors");
    examples::Gpt model(weights.sizes());
    weights.load_into(model);
    const std::vector<float> losses = train(model, load_npy(in / "tokens.npy"), precision == "bf16", captures);
    std::ofstream to(in / ("bytetape_" + precision + ".csv"));
    to.precision(9);
    for (const float loss : losses) to << loss << '\n';
    check<FileError>(to.good(), "cannot write the losses into ", folder);
    std::cout << "loss " << losses.front() << " to " << losses.back() << " in " << losses.size() << " steps\n";
  });
}
