// Times the training workloads of shared/bench, or predicts their memory. Prints a JSON line for each, in the format of
// torch_peer.py. Started by mpirun, each rank trains on a batch and a GPU of its own, and rank 0 prints.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/harness.h"
#include "bench/training.h"
#include "bytetape/version.h"
#include "core/memory/predict.h"
#include "cuda/cuda.h"

namespace {

using namespace bytetape;

/// The ranks must take equally many steps.
int of_rank_0(int value) {
  const Tensor all = full({1}, value, DType::i64, Device());
  return static_cast<int>(dist::broadcast_(all, dist::init()).item<std::int64_t>());
}

/// The name of the option that tells how several ranks train.
std::string name_of(const bench::Ranks& ranks) {
  if (!ranks.sharded) return "none";
  constexpr const char* names[] = {"optimizer_state", "gradients", "parameters"};
  return names[static_cast<int>(ranks.sharded->shard)];
}
/// The dtype in which ranks exchange gradients.
std::string exchange(const bench::Ranks& ranks) {
  if (ranks.are_alone) return "none";
  return detail::concat(ranks.sharded ? ranks.sharded->parameter_dtype.value_or(DType::f32)
                                      : ranks.data_parallel.exchange_dtype);
}

/// Sets the rows of the token embedding, if the workload is a GPT-2. Returns whether it is one.
bool set_vocabulary(bench::Workload& w, std::int64_t vocabulary) {
  if (!w.name.starts_with("gpt2_")) return false;
  examples::GptSizes sizes = w.name.starts_with("gpt2_l2_") ? bench::gpt2_l2 : bench::gpt2;
  sizes.vocabulary = vocabulary;
  w.model = bench::gpt(sizes);
  return true;
}

/// The bytes that this process uses on the device beyond the ledger, or null if they are unknown.
nlohmann::ordered_json outside(Device device) {
  const auto found = memory::snapshot(device).outside;
  return found ? nlohmann::ordered_json(found->bytes) : nlohmann::ordered_json();
}

/// `mode` is "eager", or "graph" for a captured step.
nlohmann::ordered_json measure(const bench::Workload& w, const std::string& mode, bool recomputes,
                               const bench::Ranks& ranks) {
  const Device device = default_device();
  const bool on_cpu = device == Device::cpu();
  const auto finish = [&] { synchronize(device); };
  cuda::set_allow_tf32(w.precision == "tf32");
  manual_seed(0);
  bench::Training training(w, recomputes, ranks);
  auto captured = capture([&] { return training.step(); });
  const auto step = [&] { return mode == "graph" ? captured() : training.step(); };
  for (int i = 0; i < (on_cpu ? 3 : 10); ++i) step();
  finish();
  const double one = bench::time(
                         0, 1, [&] { step(); }, finish)
                         .median;
  memory::reset_peaks(device);
  const double steps_of_a_burst = on_cpu ? std::clamp(1e9 / one, 2.0, 50.0) : std::clamp(4e8 / one, 3.0, 1000.0);
  const int burst = of_rank_0(static_cast<int>(steps_of_a_burst));
  const std::clock_t start = std::clock();
  int steps = 0;
  const bench::Timing t = bench::time(
      0, burst, [&] { step(), ++steps; }, finish);
  const double cpu_ms = static_cast<double>(std::clock() - start) * 1e3 / CLOCKS_PER_SEC / steps;
  const memory::Statistics s = memory::stats(device);
  const double ms = t.median / 1e6;
  return {{"workload", w.name},
          {"mode", mode},
          {"device", on_cpu ? "cpu" : "cuda"},
          {"precision", w.precision},
          {"batch", w.batch},
          {"ranks", dist::init().size()},
          {"sharded", name_of(ranks)},
          {"exchange", exchange(ranks)},
          {"bucket_bytes", training.bucket_bytes()},
          {"recompute", recomputes},
          {"ms_per_step", ms},
          {"ms_min", t.min / 1e6},
          {"ms_max", t.max / 1e6},
          {"cpu_ms_per_step", cpu_ms},  // of all threads, including spinning ones
          {"items_per_s", static_cast<double>(w.batch * dist::init().size()) / ms * 1e3},
          {"peak_allocated", s.allocated.peak},
          {"peak_reserved", s.reserved.peak},
          {"outside", outside(device)},
          {"loss", step().item<float>()},
          {"threads", num_threads()},
          {"bytetape", BYTETAPE_VERSION}};
}

/// The memory of a step of the plain loop, once steps are alike, on the real device of a meta device.
nlohmann::ordered_json predict(const bench::Workload& w, Device device, bool recomputes, const bench::Ranks& ranks,
                               int world_size) {
  device.is_meta = false;
  cuda::set_allow_tf32(w.precision == "tf32");
  const auto program = [&] {
    return [training = std::make_shared<bench::Training>(w, recomputes, ranks)] { training->step(); };
  };
  const memory::Prediction p = memory::predict(device, program, {.world_size = world_size});
  return {{"workload", w.name},
          {"mode", "predicted"},
          {"device", device.type == DeviceType::cpu ? "cpu" : "cuda"},
          {"precision", w.precision},
          {"batch", w.batch},
          {"ranks", world_size},
          {"sharded", name_of(ranks)},
          {"exchange", exchange(ranks)},
          {"recompute", recomputes},
          {"peak_allocated", p.steps.back().allocated},
          {"peak_reserved", p.steps.back().reserved},
          {"bytetape", BYTETAPE_VERSION}};
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{"Times training workloads, or predicts their memory; prints a JSON line for each."};
  int threads = 0;
  std::string device = "cpu";
  bool tunes = false, recomputes = false;
  std::optional<std::size_t> workspace_cap;
  std::vector<std::string> names, modes{"eager"};
  app.add_option("--threads", threads, "CPU threads; default: all");
  app.add_option("--device", device, "cpu or cuda; meta or meta:cuda to predict the memory");
  app.add_option("--modes", modes, "eager; graph (a captured step, on cuda only)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"eager", "graph"}));
  app.add_flag("--recompute", recomputes, "save less for backward, which recomputes it");
  std::optional<std::int64_t> vocabulary;
  app.add_option("--vocabulary", vocabulary,
                 "rows of the GPT-2s' token embedding, at least GPT-2's 50257; default: 50304, padded")
      ->check(CLI::Range(bench::gpt2_tokens, std::numeric_limits<std::int64_t>::max()));
  app.add_flag("--tune", tunes,
               "try all algorithms that cuBLASLt and cuDNN propose; print lines for cuda/matmul/ranks.inc");
  app.add_option("--workspace-cap", workspace_cap,
                 "workspace bytes that cuBLASLt and cuDNN may use; default: their usual caps");
  const std::map<std::string, DType> dtypes{{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}};
  const std::map<std::string, dist::Shard> shards{{"optimizer_state", dist::Shard::optimizer_state},
                                                  {"gradients", dist::Shard::gradients},
                                                  {"parameters", dist::Shard::parameters}};
  bench::Ranks ranks;
  int world_size = 1;
  std::optional<DType> exchanged;
  std::optional<dist::Shard> shard;
  app.add_option("--exchange", exchanged,
                 "dtype in which ranks exchange gradients, and sharded parameters; default: f32")
      ->transform(CLI::Transformer(dtypes));
  app.add_option("--bucket-bytes", ranks.data_parallel.bucket_bytes, "size of their buckets; default: 25 MiB");
  app.add_option("--shard", shard, "what ranks divide: optimizer_state, gradients or parameters; default: nothing")
      ->transform(CLI::Transformer(shards));
  app.add_option("--world-size", world_size, "the number of ranks, to predict the memory of rank 0; default: 1");
  app.add_flag("--alone", ranks.are_alone, "exchange no gradients, to see what the exchange costs")
      ->excludes("--shard");
  app.add_option("workload", names, "names of workloads; default: all with the precisions of the device");
  CLI11_PARSE(app, argc, argv);
  if (exchanged) ranks.data_parallel.exchange_dtype = *exchanged;
  if (shard) ranks.sharded.emplace(dist::ShardedOptions{.shard = *shard});
  if (shard && exchanged != DType::f32) ranks.sharded->parameter_dtype = exchanged;
  const auto body = [&] {
    if (threads) set_num_threads(threads);
    for (const std::string& name : names)
      check<ValueError>(std::any_of(bench::workloads().begin(), bench::workloads().end(),
                                    [&](const auto& w) { return w.name == name; }),
                        "unknown workload '", name, "'");
    const Device chosen = Device::parse(device);
    const bool has_own_gpu = device == "cuda" && dist::init().size() > 1;
    const DefaultDevice here(has_own_gpu ? Device::cuda(dist::local_rank()) : chosen);
    cuda::tune(tunes);
    if (workspace_cap) cuda::set_workspace_cap(default_device(), workspace_cap);
    const Device on = default_device();
    const auto is_measured = [&](const bench::Workload& w) {
      return (w.precision == "fp32") == (on.type == DeviceType::cpu);
    };
    for (bench::Workload w : bench::workloads()) {
      const bool is_named = std::find(names.begin(), names.end(), w.name) != names.end();
      if (!is_named && !(names.empty() && is_measured(w))) continue;
      const bool has_vocabulary = vocabulary && set_vocabulary(w, *vocabulary);
      const auto print = [&](nlohmann::ordered_json line) {
        if (has_vocabulary) line["vocabulary"] = *vocabulary;
        std::cout << line.dump() << std::endl;
      };
      if (on.is_meta) print(predict(w, on, recomputes, ranks, world_size));
      for (const std::string& mode : on.is_meta ? std::vector<std::string>() : modes) {
        const auto line = measure(w, mode, recomputes, ranks);
        if (dist::init().rank() == 0) print(line);
      }
    }
    std::cout << cuda::tuned();
  };
  return dist::run(body, "workloads");
}
