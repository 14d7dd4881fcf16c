// What a program writes that includes bytetape.h alone, at namespace scope and by its shortest names.
#include "bytetape/bytetape.h"

#include <gtest/gtest.h>

using namespace bytetape;

namespace {

using Floats = std::vector<float>;

TEST(Spelling, FactoriesTakeAGeneratorOrARoleAlone) {
  Generator generator(7), same(7);
  EXPECT_EQ(rand({4}, generator).to_vector<float>(), rand({4}, DType::f32, Device::cpu(), same).to_vector<float>());
  EXPECT_EQ(randn({4}, generator).to_vector<float>(), randn({4}, DType::f32, Device::cpu(), same).to_vector<float>());
  EXPECT_EQ(randint(0, 99, {4}, generator).to_vector<int>(),
            randint(0, 99, {4}, DType::i64, Device::cpu(), same).to_vector<int>());
  EXPECT_EQ(randperm(9, generator).to_vector<int>(), randperm(9, Device::cpu(), same).to_vector<int>());
  EXPECT_EQ(generator.state().offset, same.state().offset);
  for (const Tensor& x :
       {zeros({4}, memory::Role::input), ones({4}, memory::Role::input), full({4}, 2.5, memory::Role::input)}) {
    EXPECT_EQ(x.storage().role(), memory::Role::input);
    EXPECT_EQ(x.dtype(), DType::f32);
  }
  EXPECT_EQ(full({2}, 2.5, memory::Role::input).to_vector<float>(), (Floats{2.5, 2.5}));
  const DefaultDevice meta(Device::meta());
  EXPECT_EQ(zeros({4}, memory::Role::input).device(), Device::meta());
  EXPECT_EQ(rand({4}, generator).device(), Device::meta());
}

TEST(Spelling, StdGoesByItsQualifiedNameOrStddev) {
  const Tensor y = randn({3, 5});
  EXPECT_EQ(stddev(y).item<float>(), bytetape::std(y).item<float>());
  EXPECT_EQ(stddev(y, {1}, true, 0).to_vector<float>(), bytetape::std(y, {1}, true, 0).to_vector<float>());
}

TEST(Spelling, ALayersParameterIsAHandleToBeKept) {
  nn::Sequential net(nn::Conv2d(1, 2, 3), nn::ReLU(), nn::Flatten(), nn::ReLU(), nn::Linear(8, 3));
  auto w = net[4].as<nn::Linear>().weight;
  EXPECT_TRUE(w.is_same(net.get_parameter("4.weight")));
  sum(net(randn({2, 1, 4, 4}))).backward();
  EXPECT_TRUE(w.grad().defined());
}

TEST(Spelling, ReadsARecordingOfItsOwn) {
  memory::Replay replay;
  for (const memory::Event& e : memory::snapshot(Device::cpu()).events) replay.apply(e);
  (void)&memory::advise;
  (void)&memory::resimulate;
  (void)&memory::snapshot_of;
  (void)&memory::read_log;
}

}  // namespace
