// Finds a leak: a training loop that holds more memory after every step. See docs/memory.md, "Finding a leak".
// usage: leak [REPORT.html]
#include <bytetape/bytetape.h>

#include <filesystem>
#include <iostream>
#include <optional>
#include <vector>

using namespace bytetape;

struct Net : nn::Module {
  nn::Sequential body{nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 64), nn::ReLU()};
  nn::Linear head{64, 10};
  Net() {
    register_module("body", body);
    register_module("head", head);
  }
  Tensor forward(const Tensor& x) override { return head(body(flatten(x, 1))); }
};

void find_and_mend(const std::filesystem::path& report) {
  std::optional<memory::Recording> recording;
  if (!report.empty()) recording.emplace(std::filesystem::path(report).replace_extension("memlog").string());
  const data::Mnist digits = data::generated_digits(1024, /*seed=*/0);
  const data::TensorDataset dataset(digits.images, digits.labels, data::mnist_normalize);
  data::DataLoader loader(dataset, {.batch_size = 64, .workers = 0});
  const Tensor held_out = reshape(to(narrow(digits.images, 0, 0, 128), DType::f32), {128, 784});
  const Tensor labels = narrow(digits.labels, 0, 0, 128);
  Net net;
  optim::SGD sgd(net.parameters(), {.lr = 0.02});
  const auto train = [&](const data::Batch& batch) {
    const memory::Step step;
    sgd.zero_grad();
    cross_entropy(net(batch.x), batch.y).backward();
    sgd.step();
  };

  // [find]
  std::vector<Tensor> history;  // the loss on held-out images, to be plotted later
  const auto epoch = [&] {
    for (const data::Batch& batch : loader) {
      train(batch);
      history.push_back(cross_entropy(net(held_out), labels));
    }
  };
  epoch();  // the first epoch also allocates the gradients
  const memory::Holdings before = memory::mark();
  epoch();
  const memory::Difference grown = memory::diff(before, memory::mark());
  std::cout << grown << '\n' << why_alive(grown) << '\n';
  // [find]
  if (recording) {
    recording->finish();  // the leak is fixed below
    memory::write_report(memory::read_log(recording->path()), report.string());
  }

  history.clear();
  // [mend]
  std::vector<float> losses;
  const auto mended_epoch = [&] {
    const memory::Guard guard;  // throws LeakError if more memory is held at the end
    for (const data::Batch& batch : loader) {
      train(batch);
      const NoGrad no_grad;
      losses.push_back(cross_entropy(net(held_out), labels).item<float>());
    }
  };
  // [mend]
  mended_epoch();
  std::cout << "mended: " << losses.size() << " losses, and nothing left behind\n";
}

int main(int argc, char** argv) {
  const std::filesystem::path report = argc > 1 ? argv[1] : "";
  if (argc > 2 || (argc == 2 && report.extension() != ".html")) {
    std::cerr << "usage: leak [REPORT.html]; the report's name must end in .html\n";
    return 2;
  }
  try {
    find_and_mend(report);
    return 0;
  } catch (const Error& e) {
    std::cerr << "leak: " << e.what() << '\n';
    return 1;
  }
}
