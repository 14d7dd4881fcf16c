// Times the layers of each workload's training step, and prints a JSON line for each. A layer is timed alone, on the
// result of the layers before it. The sum may differ from the step's time, because layers share caches in a step.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/harness.h"
#include "bench/training.h"

namespace {

using namespace bytetape;

void print(const bench::Workload& w, const std::string& part, double forward, double backward) {
  const nlohmann::ordered_json line{{"workload", w.name},
                                    {"part", part},
                                    {"threads", num_threads()},
                                    {"forward_ms", forward / 1e6},
                                    {"backward_ms", backward / 1e6}};
  std::cout << line.dump() << std::endl;
}

/// Returns the median time of f in nanoseconds.
template <class F>
double median(F&& f) {
  return bench::time(5, 10, f).median;
}

/// Times forward and backward of a function. Backward computes the gradients of `inputs`. Returns the detached result.
template <class F>
Tensor split(const bench::Workload& w, const std::string& part, const std::vector<Tensor>& inputs, F&& forward) {
  double there = 0, back = 0;
  {
    const NoGrad no_grad;
    there = median(forward);
  }
  const Tensor y = forward();
  if (!inputs.empty()) back = median([&] { grad({y}, inputs, {.seeds = {y.detach()}, .retain_graph = true}); });
  print(w, part, there, back);
  return y.detach();
}

/// Splits a workload whose model is a Sequential.
void split(const bench::Workload& w) {
  manual_seed(0);
  const auto model = w.model();
  auto* const layers = dynamic_cast<nn::Sequential*>(model.get());
  if (!layers) return;
  const data::Batch batch = w.data(w.batch);
  Tensor x = batch.x;
  for (std::size_t i = 0; i < layers->size(); ++i) {
    nn::Module& layer = (*layers)[i];
    std::vector<Tensor> inputs = layer.parameters();
    if (i > 0) inputs.push_back(x.set_requires_grad());  // the images need no gradient
    x = split(w, std::to_string(i) + " " + layer.describe(), inputs, [&] { return layer(x); });
  }
  split(w, "cross_entropy", {x.set_requires_grad()}, [&] { return cross_entropy(x, batch.y); });

  for (Tensor p : model->parameters()) p.set_grad(randn(p.shape()));
  const auto optimizer = w.optimizer(model->parameters());
  print(w, "optimizer", median([&] { optimizer->step(); }), 0);
}

}  // namespace

int main(int argc, char** argv) {
  share_cores(argv);
  CLI::App app{"Times the layers of the training workloads one by one; prints a JSON line for each."};
  int threads = 0;
  app.add_option("--threads", threads, "CPU threads; default: all");
  CLI11_PARSE(app, argc, argv);
  return bench::run("layers", [&] {
    if (threads) set_num_threads(threads);
    for (const bench::Workload& w : bench::workloads())
      if (w.precision == "fp32") split(w);
  });
}
