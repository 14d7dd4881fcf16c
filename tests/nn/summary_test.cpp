#include <sstream>
#include <string>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Block : nn::Module {
  nn::Conv2d conv{1, 8, 3};
  nn::BatchNorm2d norm{8};
  Block() {
    register_module("conv", conv);
    register_module("norm", norm);
  }
};

struct Net : nn::Module {
  Block block;
  nn::Linear fc{1352, 10};
  Net() {
    register_module("block", block);
    register_module("fc", fc);
  }
};

TEST(Summary, IsATable) {
  Net net;
  EXPECT_EQ("\n" + nn::summary(net), R"(
module      type                      parameters            count     bytes
───────────────────────────────────────────────────────────────────────────
(model)     Net
block       Block
block.conv  Conv2d(1, 8, kernel=3x3)  weight (8, 1, 3, 3)      80     320 B
                                      bias (8,)
block.norm  BatchNorm2d(8)            weight (8,)              16     136 B
                                      bias (8,)
fc          Linear(1352, 10)          weight (10, 1352)    13,530  52.9 KiB
                                      bias (10,)
───────────────────────────────────────────────────────────────────────────
total                                 f32 on cpu           13,626  53.3 KiB
)");
}

TEST(Summary, TotalsDtypesAndDevicesApart) {
  nn::Sequential net(nn::Linear(3, 2), nn::Linear(2, 1));
  net[1].to(DType::f64).to(Device::meta());
  EXPECT_EQ("\n" + nn::summary(net), R"(
module   type          parameters     count  bytes
──────────────────────────────────────────────────
(model)  Sequential
0        Linear(3, 2)  weight (2, 3)      8   32 B
                       bias (2,)
1        Linear(2, 1)  weight (1, 2)      3   24 B
                       bias (1,)
──────────────────────────────────────────────────
total                                    11   56 B
                       f32 on cpu         8   32 B
                       f64 on meta        3   24 B
)");
}

TEST(Summary, HasRoomForLargeCounts) {
  const DefaultDevice meta(Device::meta());
  nn::Linear layer(100000, 1000);
  std::istringstream text(nn::summary(layer));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  EXPECT_THAT(lines.back(), HasSubstr("f32 on meta            100,001,000  381 MiB"));
  EXPECT_EQ(lines.front().size(), lines.back().size());
  EXPECT_EQ(lines.front().size(), lines[2].size());
}

TEST(Summary, MarksFrozenAndSharedParameters) {
  nn::Sequential net(nn::Linear(4, 5), nn::Linear(4, 5, false));
  net[0].parameters()[0].set_requires_grad(false);
  static_cast<nn::Linear&>(net[1]).weight = static_cast<nn::Linear&>(net[0]).weight;
  const std::string text = nn::summary(net);
  EXPECT_THAT(text, HasSubstr("weight (5, 4) (frozen)  "));
  EXPECT_THAT(text, HasSubstr("weight (5, 4) (frozen) (shared)\n"));
  EXPECT_THAT(text, HasSubstr("f32 on cpu                          25"));
}

TEST(Summary, CountsASharedBufferOnce) {
  nn::Sequential net(nn::BatchNorm1d(4, {.affine = false}), nn::BatchNorm1d(4, {.affine = false}));
  EXPECT_THAT(nn::summary(net), HasSubstr("80 B\n"));
  net[1].as<nn::BatchNorm1d>().running_mean = net[0].as<nn::BatchNorm1d>().running_mean;
  const std::string text = nn::summary(net);
  EXPECT_THAT(text, HasSubstr("24 B\n"));
  EXPECT_THAT(text, HasSubstr("64 B\n"));
  EXPECT_THAT(text, Not(HasSubstr("80 B\n")));
}

TEST(Summary, OfAModelWithoutTensorsTotalsZeros) {
  nn::Sequential net{nn::ReLU()};
  EXPECT_EQ("\n" + nn::summary(net), R"(
module   type        parameters  count  bytes
─────────────────────────────────────────────
(model)  Sequential
0        ReLU()
─────────────────────────────────────────────
total                                0    0 B
)");
}

}  // namespace
}  // namespace bytetape
