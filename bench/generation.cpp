// Times greedy generation with GPT-2 124M, random weights, as bench/pytorch/generation.py does with PyTorch. Prints a
// JSON line for each batch size.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/harness.h"
#include "bytetape/version.h"
#include "examples/gpt/weights.h"

namespace {

using namespace bytetape;

struct Lengths {
  std::int64_t prompt = 128, added = 256;  // tokens
};

nlohmann::ordered_json measure(examples::Gpt& model, DType dtype, std::int64_t rows, Lengths n) {
  nn::KeyValueCacheSizes sizes = model.cache_sizes(rows, dtype);
  sizes.capacity = n.prompt + n.added;
  nn::KeyValueCache cache(sizes);
  const Tensor prompts = randint(0, model.sizes.vocabulary, {rows, n.prompt});
  const nn::GenerateStep step = [&](const Tensor& tokens, nn::KeyValueCache& c) { return model(tokens, c); };
  const auto time_of = [&](std::int64_t added) {
    const auto generate = [&] { nn::generate(step, cache, prompts, {.max_new_tokens = added, .temperature = 0}); };
    return bench::time(1, 1, generate, [] { synchronize(default_device()); }).median;
  };
  memory::reset_peaks();
  const double first = time_of(1), all = time_of(n.added);
  const double per_token = (all - first) / static_cast<double>(n.added - 1);
  return {{"workload", "generate_124m"},
          {"device", default_device().type == DeviceType::cpu ? "cpu" : "cuda"},
          {"precision", detail::concat(dtype)},
          {"batch", rows},
          {"prompt", n.prompt},
          {"new", n.added},
          {"ms_first_token", first / 1e6},
          {"us_per_token", per_token / 1e3},
          {"tokens_per_s", static_cast<double>(rows) / per_token * 1e9},
          {"peak_allocated", memory::stats().allocated.peak},
          {"threads", num_threads()},
          {"bytetape", BYTETAPE_VERSION}};
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{"Times greedy generation with GPT-2 124M and random weights; prints a JSON line for each batch size."};
  int threads = 0;
  std::string device = "cpu", dtype = "bf16";
  std::vector<std::int64_t> batches{1};
  Lengths lengths;
  app.add_option("--threads", threads, "CPU threads; default: all");
  app.add_option("--device", device, "cpu or cuda");
  app.add_option("--dtype", dtype, "of weights and cache; default: bf16")->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_option("--prompt", lengths.prompt, "tokens of each prompt; default: 128")->check(CLI::PositiveNumber);
  app.add_option("--new", lengths.added, "new tokens; default: 256")->check(CLI::Range(2, 1 << 20));
  app.add_option("batch", batches, "prompts at once; default: 1")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return bench::run("generation", [&] {
    if (threads) set_num_threads(threads);
    const DefaultDevice here(Device::parse(device));
    const DType type = dtype == "f32" ? DType::f32 : dtype == "f16" ? DType::f16 : DType::bf16;
    manual_seed(0);
    examples::Gpt model(examples::published_sizes().at("124m"));
    model.to(type);
    model.eval();
    for (const std::int64_t rows : batches) std::cout << measure(model, type, rows, lengths).dump() << std::endl;
  });
}
