#include "bytetape/core/files/checkpoint.h"

#include <bit>
#include <csignal>
#include <limits>

#include "bytetape/core/factories.h"
#include "bytetape/core/parallel.h"
#include "tests/support/expect.h"
#include "tests/support/file_limits.h"
#include "tests/support/random.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_dir.h"

namespace bytetape {
namespace {

using test::content_of;

class CheckpointFile : public testing::Test {
 protected:
  test::TemporaryDir dir_;
  const std::string path_ = dir_ / "run.ckpt";
};

StateDict some(double fill) {
  StateDict state;
  state.tensors.emplace_back("weight", full({3}, fill));
  state.numbers["step"] = std::int64_t{7};
  state.numbers["lr"] = 0.1;
  return state;
}

TEST_F(CheckpointFile, HasWhatWasSavedByItsParts) {
  StateDict state;
  state.add("first", some(1));
  state.add("second", some(2));
  state.numbers["epoch"] = std::int64_t{3};
  save_checkpoint(path_, state);
  const Checkpoint run(path_);
  EXPECT_EQ(run.integer("epoch"), 3);
  EXPECT_EQ(run.number("second.lr"), 0.1);
  const StateDict first = run.part("first");
  EXPECT_EQ(first.numbers, some(1).numbers);
  ASSERT_EQ(first.tensors.size(), 1u);
  EXPECT_EQ(first.tensor("weight").to_vector<double>(), std::vector<double>(3, 1));
  const Tensor weight = zeros({3});
  run.load_into("second", {{"weight", weight}});
  EXPECT_EQ(weight.to_vector<double>(), std::vector<double>(3, 2));
  EXPECT_TRUE(run.part("third").tensors.empty());
  EXPECT_THROWS_SAYING(run.load_into("third", {{"weight", weight}}), ValueError, "missing keys: [weight]");
  EXPECT_THROWS_SAYING(run.integer("batch"), ValueError, "no number 'batch'");
}

TEST_F(CheckpointFile, AFileOfWeightsIsToldApart) {
  const Tensor weight = zeros({3});
  const std::string words = "a file of weights is not a checkpoint: load it with load_safetensors_into";
  save_safetensors(path_, {{"weight", full({3}, 2)}});
  const Checkpoint run(path_);
  EXPECT_THROWS_SAYING(run.part("model"), ValueError,
                       path_ + ": expected a part 'model', found no numbers, and the first tensor 'weight'; " + words);
  EXPECT_THROWS_SAYING(run.load_into("model", {{"weight", weight}}), ValueError, words);
  EXPECT_THROWS_SAYING(run.integer("epoch"), ValueError,
                       path_ + ": expected a number 'epoch', found no numbers; " + words);
  EXPECT_THROWS_SAYING(run.number("lr"), ValueError, words);
  save_safetensors(path_, {{"weight", full({3}, 2)}}, {{"format", "pt"}});
  EXPECT_THROWS_SAYING(Checkpoint{path_}, FileError, "'format': expected a number, found 'pt'; " + words);
  EXPECT_EQ(weight.to_vector<double>(), std::vector<double>(3, 0));
}

TEST_F(CheckpointFile, MayHaveNoNumbersOrNoTensors) {
  StateDict state;
  state.add("model", {{{"weight", full({3}, 2)}}, {}});
  save_checkpoint(path_, state);
  const Tensor weight = zeros({3});
  Checkpoint(path_).load_into("model", {{"weight", weight}});
  EXPECT_EQ(weight.to_vector<double>(), std::vector<double>(3, 2));
  save_checkpoint(path_, {});
  EXPECT_NO_THROW(Checkpoint(path_).load_into("model", {}));
}

TEST_F(CheckpointFile, NumbersComeBackBitForBitAndOfTheirKind) {
  using Limits = std::numeric_limits<double>;
  StateDict state;
  std::vector<StateDict::Number> numbers{0.0,
                                         -0.0,
                                         3.0,
                                         -1e22,
                                         1e300,
                                         0.1,
                                         Limits::denorm_min(),
                                         Limits::max(),
                                         Limits::infinity(),
                                         -Limits::infinity(),
                                         Limits::quiet_NaN(),
                                         std::int64_t{0},
                                         std::numeric_limits<std::int64_t>::min(),
                                         std::numeric_limits<std::int64_t>::max()};
  auto random = test::generator_for("checkpoint");
  for (int i = 0; i < 200; ++i) numbers.emplace_back(std::bit_cast<double>(random() & ~(std::uint64_t{1} << 62)));
  for (std::size_t i = 0; i < numbers.size(); ++i) state.numbers[std::to_string(i)] = numbers[i];
  StateDict all;
  all.add("all", state);
  save_checkpoint(path_, all);
  const StateDict loaded = Checkpoint(path_).part("all");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const StateDict::Number& number = loaded.numbers.at(std::to_string(i));
    ASSERT_EQ(number.index(), numbers[i].index()) << i;
    const auto bits = [](auto v) { return std::bit_cast<std::uint64_t>(v); };
    EXPECT_EQ(std::visit(bits, number), std::visit(bits, numbers[i])) << i;
  }
}

TEST_F(CheckpointFile, NumbersPastAnIntegersRangeAreDoubles) {
  save_safetensors(path_, {}, {{"large", "99999999999999999999"}, {"small", "-99999999999999999999"}});
  const Checkpoint run(path_);
  EXPECT_EQ(run.number("large"), 1e20);
  EXPECT_EQ(run.number("small"), -1e20);
  EXPECT_THROWS_SAYING(run.integer("large"), ValueError, "'large' must be an integer");
  save_safetensors(path_, {}, {{"huge", "1e999"}});
  EXPECT_THROWS_SAYING(Checkpoint{path_}, FileError, "'huge': expected a number, found '1e999'");
}

TEST_F(CheckpointFile, EveryDamagedBitIsFound) {
  save_checkpoint(path_, some(1));
  const std::string whole = content_of(path_);
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    EXPECT_THROW(Checkpoint{SafetensorsFile(memory_input(std::as_bytes(std::span(damaged)), "x"))}, FileError)
        << bit / 8;
  }
  for (const std::size_t n : {std::size_t{0}, std::size_t{9}, whole.size() / 2, whole.size() - 1}) {
    test::set_content(path_, whole.substr(0, n));
    EXPECT_THROW(Checkpoint{path_}, FileError) << n;
  }
}

TEST_F(CheckpointFile, OtherFilesAreNone) {
  save_safetensors(path_, some(1).tensors, {{"epoch", "three"}});
  EXPECT_THROWS_SAYING(Checkpoint{path_}, FileError, path_ + ": at byte 8: 'epoch': expected a number, found 'three'");
  const std::string theirs = test::source_dir() / "tests/golden/theirs.safetensors";
  EXPECT_THROWS_SAYING(Checkpoint{theirs}, FileError, "expected a header that begins with a checksum");
}

/// More than 64 KiB.
StateDict large() {
  StateDict state = some(2);
  state.tensors.emplace_back("large", ones({1 << 15}));
  return state;
}

std::string refusal(const std::string& path, const StateDict& state) {
  try {
    save_checkpoint(path, state);
  } catch (const FileError& e) { return e.what(); }
  return {};
}

TEST_F(CheckpointFile, TooLargeAFileLeavesTheOldOne) {
  save_checkpoint(path_, some(1));
  const std::string before = content_of(path_);
  {
    const test::FileSizeLimit limit(1 << 16);
    EXPECT_EQ(refusal(path_, large()), "save_checkpoint: cannot write tensors to '" + path_ + "': File too large");
  }
  EXPECT_EQ(content_of(path_), before);
  EXPECT_EQ(dir_.files(), 1);
}

TEST_F(CheckpointFile, AFullDiskLeavesTheOldOne) {
  const StateDict first = some(1), next = some(3), beyond = large();
  const auto holds = test::holds_on_a_small_disk(dir_.path(), [&] {
    set_num_threads(1);  // a fork takes no team of threads along
    save_checkpoint(path_, first);
    const std::string before = content_of(path_);
    const bool is_refused =
        refusal(path_, beyond) == "save_checkpoint: cannot write tensors to '" + path_ + "': No space left on device";
    const bool is_whole = content_of(path_) == before && dir_.files() == 1;
    save_checkpoint(path_, next);
    return is_refused && is_whole && content_of(path_) != before;
  });
  if (!holds) GTEST_SKIP() << "no disk can be mounted here";
  EXPECT_TRUE(*holds);
}

TEST_F(CheckpointFile, AReadOnlyFolderKeepsTheOldOne) {
  using std::filesystem::perms;
  save_checkpoint(path_, some(1));
  const std::string before = content_of(path_);
  const StateDict next = some(2);
  std::filesystem::permissions(dir_.path(),
                               perms::owner_read | perms::owner_exec | perms::others_read | perms::others_exec);
  EXPECT_TRUE(test::holds_for_a_user([&] {
    set_num_threads(1);
    return refusal(path_, next) == "save_checkpoint: cannot write tensors to '" + path_ + "': Permission denied";
  }));
  std::filesystem::permissions(dir_.path(), perms::owner_all);
  EXPECT_EQ(content_of(path_), before);
  EXPECT_EQ(dir_.files(), 1);
}

// As kill -9 does, at whatever moment.
TEST_F(CheckpointFile, AProcessThatIsKilledLeavesTheOldOneOrTheNew) {
  StateDict state;
  state.tensors.emplace_back("run.x", ones({1 << 18}));
  state.numbers["epoch"] = std::int64_t{0};
  save_checkpoint(path_, state);
  auto random = test::generator_for("kill");
  std::int64_t last = 0;
  for (int i = 0; i < 10 || (last == 0 && i < 200); ++i) {
    const std::int64_t before = last;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      set_num_threads(1);  // a fork takes no team of threads along
      try {
        for (std::int64_t epoch = before;; save_checkpoint(path_, state)) state.numbers["epoch"] = ++epoch;
      } catch (...) {
        _exit(1);  // the folder is the parent's to remove
      }
    }
    usleep(static_cast<useconds_t>(1000 + random() % (last == 0 ? 60000 * (1 + i / 10) : 60000)));  // disks are slow
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const Checkpoint run(path_);
    last = run.integer("epoch");
    EXPECT_GE(last, before);
    const Tensor x = zeros({1 << 18});
    run.load_into("run", {{"x", x}});
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(1 << 18, 1));
  }
  EXPECT_GT(last, 0) << "nothing was saved";
}

TEST_F(CheckpointFile, WhatCannotBeReadIsSaidOfCheckpoints) {
  EXPECT_THAT([] { Checkpoint("nowhere.ckpt"); },
              testing::ThrowsMessage<FileError>("Checkpoint: nowhere.ckpt: no such file"));
}

}  // namespace
}  // namespace bytetape
