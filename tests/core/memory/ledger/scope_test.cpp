#include "bytetape/core/memory/ledger/scope.h"

#include <gtest/gtest.h>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

std::string module_of(const Tensor& x) { return memory::name_of(x.storage().module()); }

TEST(Scope, BooksUnderItsName) {
  {
    const memory::Scope outer("encoder");
    EXPECT_EQ(module_of(randn({3})), "encoder");
    const memory::Scope inner("attention");
    EXPECT_EQ(module_of(randn({3})), "encoder.attention");
  }
  EXPECT_EQ(module_of(randn({3})), "");
}

TEST(Scope, LiesBelowTheModuleThatRunsAndAroundThoseItCalls) {
  struct Net : nn::Module {
    nn::Linear fc{4, 4};
    Net() { register_module("fc", fc); }
    Tensor forward(const Tensor& x) override {
      const memory::Scope scope("head");
      EXPECT_EQ(module_of(x + x), "net.head");
      return fc(x);
    }
  } net;
  const memory::Scope scope("net");
  EXPECT_EQ(module_of(net(randn({2, 4}))), "net.head.fc");
}

TEST(Scope, KeepsOpAndPhase) {
  const memory::PhaseScope phase(memory::Phase::data);
  const memory::Op<"relu"> op;
  const memory::Scope scope("augmentation");
  EXPECT_EQ(memory::ambient.scope.phase, memory::Phase::data);
  EXPECT_EQ(memory::name_of(memory::ambient.scope.op), "relu");
}

TEST(Scope, IsInMessages) {
  struct Case {
    const char *module, *op, *says;
  };
  const Case cases[] = {{"", "", ""},
                        {"", "relu", "relu"},
                        {"net.fc", "", "module 'net.fc'"},
                        {"net.fc", "relu", "relu in module 'net.fc'"},
                        {"(root) Net", "", ""},
                        {"(root) Net", "relu", "relu"}};
  for (const Case& c : cases) {
    const memory::ScopeGuard scope({memory::intern(c.module), memory::intern(c.op)});
    EXPECT_EQ(detail::where(), c.says);
  }
}

TEST(Scope, NeedsAName) { EXPECT_THROWS_SAYING(const memory::Scope unnamed(""), ValueError, "needs a name"); }

}  // namespace
}  // namespace bytetape
