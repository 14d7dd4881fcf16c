#include "bytetape/nn/module_list.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

struct Block : nn::Module {
  nn::Linear fc;
  explicit Block(int width) : fc(width, width) { register_module("fc", fc); }
  Tensor step(const Tensor& x, const Tensor& h) {
    const nn::Call call(*this);
    return fc(x) + h;
  }
};

struct Net : nn::Module {
  nn::ModuleList<Block> blocks;
  Net() {
    for (int i = 0; i < 3; ++i) blocks.push_back(Block(4));
    register_module("blocks", blocks);
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (Block& block : blocks) h = block.step(x, h);
    return h;
  }
};

TEST(ModuleList, NamesByNumberAndGivesWhatWasPutIn) {
  Net net;
  EXPECT_EQ(net.blocks.size(), 3u);
  EXPECT_EQ(net.named_parameters()[4].first, "blocks.2.fc.weight");
  EXPECT_TRUE(net.parameters()[2].is_same(net.blocks[1].fc.weight));
  EXPECT_THROWS_SAYING(net.blocks[3], ValueError, "ModuleList of length 3 has no [3]");
  EXPECT_EQ(net.blocks.describe(), "ModuleList");
}

TEST(ModuleList, ItsModulesRunUnderTheirPaths) {
  Net net;
  EXPECT_EQ(memory::name_of(net(randn({2, 4})).storage().module()), "blocks.2 Block");
  EXPECT_THROWS_SAYING(net(randn({2, 5})), ShapeError, "in module 'blocks.0 Block.fc'");
}

TEST(ModuleList, TakesModulesAndPointersOfItsKind) {
  const auto shared = std::make_shared<nn::ReLU>();
  nn::ModuleList<> list(nn::Linear(2, 3), shared);
  EXPECT_EQ(&list[1], shared.get());
  EXPECT_THROWS_SAYING(list.push_back(std::shared_ptr<nn::Module>()), ValueError, "'2' is null");
  EXPECT_THROWS_SAYING(list(randn({2})), NotImplemented, "ModuleList has no forward(x)");
  static_assert(!std::is_constructible_v<nn::ModuleList<Block>, nn::ReLU>);
  nn::ModuleList<> moved(std::move(list));
  EXPECT_EQ(moved.size(), 2u);
  EXPECT_EQ(nn::ModuleList<>(nn::Sequential(nn::Linear(2, 3), nn::ReLU())).size(), 1u);
}

}  // namespace
}  // namespace bytetape
