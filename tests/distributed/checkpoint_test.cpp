#include "bytetape/distributed/checkpoint.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "bytetape/bytetape.h"
#include "tests/distributed/net.h"
#include "tests/distributed/ranks.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_dir.h"

namespace bytetape {
namespace {

namespace fs = std::filesystem;
using dist::Group;
using dist::Shard;
using dist::Sharded;
using dist::ShardedCheckpoint;
using test::colours;
using test::elements;
using test::flat;
using test::joined;
using test::make_net;
using test::Net;
using test::world;

/// A folder that all ranks see, gone at the end.
class SharedDir {
 public:
  SharedDir() {
    std::string path(200, ' ');
    if (world().rank() == 0) {
      own_.emplace();
      path.replace(0, own_->path().string().size(), own_->path().string());
    }
    Tensor bytes = empty({200}, DType::u8);
    std::copy(path.begin(), path.end(), bytes.data<std::uint8_t>());
    bytes = dist::broadcast(bytes, world());
    path.assign(bytes.data<std::uint8_t>(), bytes.data<std::uint8_t>() + 200);
    path_ = path.substr(0, path.find(' '));
  }
  ~SharedDir() { dist::barrier(world()); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(path_), {}); }

 private:
  std::optional<test::TemporaryDir> own_;
  std::string path_;
};

/// A net with a buffer and a parameter that is not trained, its parts and its optimizer.
struct ShardedRun {
  struct Model : Net {
    nn::BatchNorm2d norm{1};
    nn::Linear frozen{8, 8};
    Model() {
      register_module("norm", norm);
      register_module("frozen", frozen);
      for (const auto& [name, x] : frozen.named_parameters()) Tensor(x).set_requires_grad(false);
      to(DType::f64);
    }
    Tensor forward(const Tensor& x) override { return frozen(Net::forward(norm(x))); }
  };
  std::unique_ptr<Model> net;
  std::unique_ptr<Sharded> sharded;
  std::unique_ptr<optim::Optimizer> optimizer;

  ShardedRun(const Group& group, Shard shard, std::uint64_t seed, std::size_t row_bytes = 2000) {
    Generator generator(seed);
    const DefaultGenerator scope(generator);
    net = std::make_unique<Model>();
    sharded = std::make_unique<Sharded>(*net, group, dist::ShardedOptions{shard, row_bytes, 2000});
    optimizer = std::make_unique<optim::Adam>(sharded->parameters(), optim::AdamOptions{.lr = 0.01});
  }
  void step(int i) {
    const auto batch = joined(i, 1);  // equal on all ranks, so that any power of 2 of them has the same averages
    cross_entropy((*net)(batch.first), batch.second).backward();
    optimizer->step();
    optimizer->zero_grad();
  }
  /// All values, and the optimizer's state.
  std::vector<std::vector<double>> values() {
    std::vector<std::vector<double>> all;
    for (const auto& [name, x] : net->state_dict()) all.push_back(elements(x));
    const StateDict state = sharded->optimizer_state(*optimizer);
    for (const auto& [name, x] : state.tensors) all.push_back(elements(x));
    all.push_back({static_cast<double>(state.numbers.size()), optimizer->lr()});
    return all;
  }
};

TEST(ShardedCheckpoint, LoadsOnAnyNumberOfRanks) {
  const Group all = world();
  const SharedDir dir;
  ShardedRun saved(all, Shard::parameters, 1);
  for (int i = 0; i < 3; ++i) saved.step(i);
  saved.optimizer->set_lr(0.005);
  StateDict state;
  state.numbers["epoch"] = std::int64_t{7};
  state.tensors.emplace_back("best", tensor({1.5f, 2.5f}));
  dist::save_checkpoint(dir / "run.ckpt", *saved.sharded, *saved.optimizer, state);
  EXPECT_EQ(dir.files(), 1 + all.size());
  const auto expected = saved.values();
  for (const Shard shard : {Shard::optimizer_state, Shard::gradients, Shard::parameters})
    for (int size = 1; size <= all.size(); ++size) {
      ShardedRun run(all.split(colours(all, size)), shard, 2, 3000);
      const ShardedCheckpoint checkpoint(dir / "run.ckpt");
      checkpoint.load_into(*run.sharded, *run.optimizer);
      EXPECT_EQ(run.values(), expected) << size;
      EXPECT_EQ(checkpoint.state().integer("epoch"), 7);
      EXPECT_EQ(elements(checkpoint.state().tensor("best")), (std::vector<double>{1.5, 2.5}));
    }
  ShardedRun resumed(all, Shard::parameters, 3);
  ShardedCheckpoint(dir / "run.ckpt").load_into(*resumed.sharded, *resumed.optimizer);
  for (int i = 3; i < 6; ++i) {
    saved.step(i);
    resumed.step(i);
  }
  EXPECT_EQ(resumed.values(), saved.values());
}

TEST(ShardedCheckpoint, KeepsPartsInF32BesideParametersOf16Bits) {
  const Group all = world();
  const SharedDir dir;
  struct Run {
    std::unique_ptr<Net> net;
    Sharded sharded;
    optim::Adam adam;
    Run(const Group& group, std::uint64_t seed, std::optional<DType> dtype)
        : net(make_net(seed, DType::f32)),
          sharded(*net, group, {.row_bytes = 1000, .parameter_dtype = dtype}),
          adam(sharded.parameters()) {}
    void step(int i) {
      const auto batch = joined(i, 1);
      cross_entropy((*net)(to(batch.first, DType::bf16)), batch.second).backward();
      adam.step();
      adam.zero_grad();
    }
  };
  Run saved(all, 1, DType::bf16);
  for (int i = 0; i < 3; ++i) saved.step(i);
  dist::save_checkpoint(dir / "run.ckpt", saved.sharded, saved.adam);
  const auto expected = elements(flat(*saved.net));
  for (int size = 1; size <= all.size(); ++size) {
    Run wide(all.split(colours(all, size)), 2, {});
    ShardedCheckpoint(dir / "run.ckpt").load_into(wide.sharded, wide.adam);
    EXPECT_NE(elements(flat(*wide.net)), expected);  // they are f32
    EXPECT_EQ(elements(to(flat(*wide.net), DType::bf16)), expected) << size;
  }
  Run resumed(all, 3, DType::bf16);
  ShardedCheckpoint(dir / "run.ckpt").load_into(resumed.sharded, resumed.adam);
  EXPECT_EQ(elements(flat(*resumed.net)), expected);
  for (int i = 3; i < 9; ++i) {
    saved.step(i);
    resumed.step(i);
  }
  EXPECT_EQ(elements(flat(*resumed.net)), elements(flat(*saved.net)));
}

TEST(ShardedCheckpoint, MayBeSavedBeforeTheFirstStep) {
  const SharedDir dir;
  ShardedRun saved(world(), Shard::gradients, 1), run(world(), Shard::parameters, 2);
  dist::save_checkpoint(dir / "run.ckpt", *saved.sharded, *saved.optimizer);
  ShardedCheckpoint(dir / "run.ckpt").load_into(*run.sharded, *run.optimizer);
  EXPECT_EQ(run.values(), saved.values());
}

TEST(ShardedCheckpoint, ReplacesASetAsAWhole) {
  const Group group = world();
  const SharedDir dir;
  const std::string path = dir / "run.ckpt";
  ShardedRun run(group, Shard::parameters, 1);
  run.step(0);
  dist::save_checkpoint(path, *run.sharded, *run.optimizer);
  const auto first = run.values();
  run.step(1);
  // A crash before the main file is replaced leaves new files of ranks.
  if (group.rank() == 0) {
    test::set_content(path + ".best-of-3", "of the user");
    fs::copy_file(path + ".1-0-of-" + std::to_string(group.size()), path + ".2-0-of-" + std::to_string(group.size()));
  }
  dist::barrier(group);
  {
    ShardedRun old(group, Shard::parameters, 2);
    ShardedCheckpoint(path).load_into(*old.sharded, *old.optimizer);
    EXPECT_EQ(old.values(), first);
  }
  dist::save_checkpoint(path, *run.sharded, *run.optimizer);
  dist::barrier(group);
  EXPECT_EQ(dir.files(), 2 + group.size());
  EXPECT_TRUE(fs::exists(path + ".best-of-3"));
  ShardedRun now(group, Shard::parameters, 2);
  ShardedCheckpoint(path).load_into(*now.sharded, *now.optimizer);
  EXPECT_EQ(now.values(), run.values());
}

TEST(ShardedCheckpoint, FailsOnAllRanksIfOneCannotWrite) {
  const Group group = world();
  const SharedDir dir;
  const std::string path = dir / "run.ckpt";
  ShardedRun run(group, Shard::parameters, 1);
  run.step(0);
  dist::save_checkpoint(path, *run.sharded, *run.optimizer);
  const auto saved = run.values();
  run.step(1);
  const std::string of_last = detail::concat(path, ".2-", group.size() - 1, "-of-", group.size());
  if (group.rank() == 0) {  // a folder is in the way of the last rank's file
    fs::create_directory(of_last);
    test::set_content(of_last + "/file", "");
  }
  dist::barrier(group);
  EXPECT_THROW(dist::save_checkpoint(path, *run.sharded, *run.optimizer), FileError);
  ShardedRun old(group, Shard::gradients, 2);
  ShardedCheckpoint(path).load_into(*old.sharded, *old.optimizer);
  EXPECT_EQ(old.values(), saved);
}

TEST(ShardedCheckpoint, RefusesBadSets) {
  const Group group = world();
  const SharedDir dir;
  const std::string path = dir / "run.ckpt";
  EXPECT_THROWS_SAYING(ShardedCheckpoint(dir / "none"), FileError, "none");
  ShardedRun run(group, Shard::parameters, 1);
  dist::save_checkpoint(path, *run.sharded, *run.optimizer);
  const auto net = make_net();
  const Sharded other(*net, group);
  optim::SGD sgd(other.parameters(), {.lr = 1});
  const auto before = elements(flat(*net));
  EXPECT_THROWS_SAYING(ShardedCheckpoint(path).load_into(other, sgd), ValueError,
                       "the checkpoint has 9 parameters, and the module 7");
  EXPECT_EQ(elements(flat(*net)), before);
  EXPECT_THROWS_SAYING(ShardedCheckpoint(path).load_into(other, *run.optimizer), ValueError, "lacks the part");
  dist::barrier(group);
  if (group.rank() == 0) fs::remove(detail::concat(path, ".1-0-of-", group.size()));
  dist::barrier(group);
  EXPECT_THROWS_SAYING(ShardedCheckpoint(path).state(), FileError, "1-0-of-");
}

/// A set of two files in which the second one's elements of each parameter begin at `second`, if it is given.
void write_in_two_files(const std::string& path, const Sharded& sharded, std::optional<std::int64_t> second) {
  const Checkpoint one(path + ".1-0-of-1"), main(path);
  StateDict whole, first_half, second_half;
  whole.numbers["set"] = 2, whole.numbers["ranks"] = 2;
  for (const char* name : {"layout", "others", "optimizer", "state"}) whole.add(name, main.part(name));
  first_half.numbers["set"] = second_half.numbers["set"] = 2;
  for (const Sharded::Part& part : sharded.parts()) {
    StateDict all = one.part(part.name), first, rest;
    const std::int64_t count = all.tensor("values").numel(), half = count / 2;
    first.numbers = rest.numbers = all.numbers;
    rest.numbers["begin"] = second.value_or(half);
    for (const auto& [name, x] : all.tensors) {
      first.tensors.emplace_back(name, clone(narrow(x, 0, 0, half)));
      rest.tensors.emplace_back(name, clone(narrow(x, 0, half, count - half)));
    }
    first_half.add(part.name, first), second_half.add(part.name, rest);
  }
  save_checkpoint(path + ".2-0-of-2", first_half);
  save_checkpoint(path + ".2-1-of-2", second_half);
  save_checkpoint(path, whole);
}

TEST(ShardedCheckpoint, RefusesElementsThatOverlapOrAreMissing) {
  const Group group = world();
  if (group.size() > 1) GTEST_SKIP() << "one process writes the files of two";
  const SharedDir dir;
  const std::string path = dir / "run.ckpt";
  ShardedRun run(group, Shard::parameters, 1), other(group, Shard::parameters, 2);
  run.step(0);
  for (const std::optional<std::int64_t> second :
       std::vector<std::optional<std::int64_t>>{std::nullopt, 0, 1, -1, std::numeric_limits<std::int64_t>::max()}) {
    fs::remove(path);
    dist::save_checkpoint(path, *run.sharded, *run.optimizer);
    write_in_two_files(path, *run.sharded, second);
    const auto before = other.values();
    if (second) {
      EXPECT_THROW(ShardedCheckpoint(path).load_into(*other.sharded, *other.optimizer), FileError) << *second;
      EXPECT_EQ(other.values(), before) << *second;
    } else {
      ShardedCheckpoint(path).load_into(*other.sharded, *other.optimizer);
      EXPECT_EQ(other.values(), run.values());
    }
  }
}

}  // namespace
}  // namespace bytetape
