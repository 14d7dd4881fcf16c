#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "examples/mnist/models.h"

namespace bytetape::bench {

/// One row of the table of workloads: shared/bench/torch_peer.py states the same ones in PyTorch.
struct Workload {
  std::string name, precision;
  std::int64_t batch;
  std::function<std::unique_ptr<nn::Module>()> model;
  std::function<Tensor(std::int64_t batch)> input;
  std::function<std::unique_ptr<optim::Optimizer>(nn::Module&)> optimizer;
};
const std::vector<Workload>& workloads();

/// A model, its optimizer and one batch on the device. step() is all that a training loop does on data already there.
class Training {
 public:
  explicit Training(const Workload& w);
  Tensor step();

 private:
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Tensor x_, y_;
};

}  // namespace bytetape::bench
