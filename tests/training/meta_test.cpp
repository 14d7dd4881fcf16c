// A training step on the meta device touches no data and asks for the same memory, event by event.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <set>

#include "bytetape/core/memory/replay.h"
#include "tests/support/events.h"
#include "tests/support/threads.h"
#include "tests/training/steps.h"

namespace bytetape {
namespace {

class MetaTraining : public ::testing::TestWithParam<const char*> {};

TEST_P(MetaTraining, HasTheEventsOfTheRealOne) {
  const auto program = [](Device device) {
    Steps training(GetParam(), device, 64);
    for (int i = 0; i < 3; ++i) training.step();
  };
  const auto on_cpu = test::record_events(Device::cpu(), program);
  const auto on_meta = test::record_events(Device::meta(), program);
  EXPECT_GT(on_cpu.size(), 100u);
  EXPECT_EQ(test::first_difference(on_cpu, on_meta), "");

  memory::Replay books;
  for (const memory::Event& e : on_cpu) books.apply(e);
  EXPECT_EQ(books.allocated(), 0u) << "everything came back";
}

// The loop of the quickstart: the default device is where the parameters, the batches and the steps are.
TEST(MetaTraining, OfALoadersBatchesHasTheEventsOfTheRealOne) {
  std::vector<std::uint8_t> images(200 * 28 * 28, 100);  // memory of our own: on no ledger
  std::vector<std::int64_t> labels(200, 3);
  const data::TensorDataset dataset(from_blob(images.data(), {200, 28, 28}, DType::u8),
                                    from_blob(labels.data(), 200, DType::i64), data::mnist_normalize);
  const auto program = [&](Device device) {
    const DefaultDevice here(device);
    data::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true});
    nn::Sequential net(nn::Flatten(), nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
    optim::SGD sgd(net.parameters(), {.lr = 0.02, .momentum = 0.9});
    for (const data::Batch& batch : loader) {
      const memory::Step step;
      sgd.zero_grad();
      const Tensor loss = cross_entropy(net(batch.x), batch.y);
      loss.backward();
      sgd.step();
      EXPECT_EQ(loss.device(), device);
    }
  };
  const auto on_cpu = test::record_events(Device::cpu(), program);
  const auto on_meta = test::record_events(Device::meta(), program);
  EXPECT_GT(on_cpu.size(), 100u);
  EXPECT_EQ(test::first_difference(on_cpu, on_meta), "");
}

// Workspaces depend on the number of threads; a prediction may ask for more of them than the machine has.
TEST(MetaTraining, PredictsForAnyNumberOfThreads) {
  const auto threads_of_process = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto program = [](Device device) {
    Steps training("cnn", device, 16);
    for (int i = 0; i < 2; ++i) training.step();
  };
  std::set<std::size_t> workspaces;
  for (const int n : {1, 2, 3, 16}) {
    test::with_threads(n, [&] {
      const auto before = threads_of_process();
      const auto on_meta = test::record_events(Device::meta(), program);
      EXPECT_EQ(threads_of_process(), before) << "a prediction for " << n << " starts no thread";
      const auto on_cpu = test::record_events(Device::cpu(), program);
      EXPECT_EQ(test::first_difference(on_cpu, on_meta), "") << n << " threads";
      std::size_t bytes = 0;
      for (const memory::Event& e : on_meta)
        if (e.kind == memory::EventKind::alloc && e.role == memory::Role::workspace) bytes += e.bytes;
      workspaces.insert(bytes);
    });
  }
#ifdef BYTETAPE_OPENMP
  EXPECT_GT(workspaces.size(), 1u) << "the number of threads matters";
#endif
}

INSTANTIATE_TEST_SUITE_P(Models, MetaTraining, ::testing::Values("mlp", "cnn"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace bytetape
