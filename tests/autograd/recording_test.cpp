#include "bytetape/core/memory/recording.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <thread>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/step.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::memory {
namespace {

const DeviceLog& device(const Log& log, const std::string& name) {
  return *std::find_if(log.devices.begin(), log.devices.end(), [&](const DeviceLog& d) { return d.name == name; });
}

/// A recording of `work`.
Log recorded(const std::function<void()>& work) {
  const test::TemporaryDir dir;
  const std::string path = dir / "run.memlog";
  Recording recording(path, "the test");
  work();
  recording.finish();
  return read_log(path);
}

std::vector<const Record*> of_kind(const Log& log, EventKind kind) {
  std::vector<const Record*> found;
  for (const Record& r : device(log, "cpu").records)
    if (r.event.kind == kind) found.push_back(&r);
  return found;
}

/// "module op", as the log names them.
std::string who(const Log& log, NameId module, NameId op) { return log.names[module] + " " + log.names[op]; }

/// 3 relu(x * y) in two modules, and its backward.
void step() {
  const Tensor x = randn({64, 32}), y = randn({64, 32}).set_requires_grad();
  Tensor z;
  {
    const ModuleScope module(intern("net.one"));
    z = x * y;
  }
  {
    const ModuleScope module(intern("net.two"));
    z = relu(z) * 3;
  }
  sum(z).backward();
}

TEST(Recordings, NameTheTensorOfABlock) {
  const Log log = recorded([] { const Tensor x = empty({3, 5, 7}, DType::f64); });
  const auto allocs = of_kind(log, EventKind::alloc);
  EXPECT_TRUE(std::any_of(allocs.begin(), allocs.end(), [&](const Record* r) {
    return log.names[r->what] == "f64 3x5x7" && r->event.requested == 840;
  }));
}

TEST(Recordings, TellWhoSavesABlockAndWhoseBackwardLetsItGo) {
  const Log log = recorded(step);
  const auto holds = of_kind(log, EventKind::hold), drops = of_kind(log, EventKind::drop);
  ASSERT_EQ(holds.size(), drops.size());
  std::multiset<std::string> savers, droppers;
  for (const Record* r : holds) savers.insert(who(log, r->by_module, r->by_op));
  for (const Record* r : drops) {
    droppers.insert(who(log, r->by_module, r->by_op));
    EXPECT_EQ(r->event.phase, Phase::backward);
  }
  EXPECT_EQ(savers.count("net.one mul"), 1u);
  EXPECT_EQ(savers.count("net.two relu"), 1u);
  EXPECT_EQ(savers, droppers);
}

TEST(Recordings, TellWhoFreesABlock) {
  const Log log = recorded(step);
  const auto frees = of_kind(log, EventKind::free);
  const auto freed = std::find_if(frees.begin(), frees.end(), [&](const Record* r) {
    return log.names[r->event.op] == "relu" && r->event.role == Role::saved;
  });
  ASSERT_NE(freed, frees.end());
  EXPECT_EQ(who(log, (*freed)->by_module, (*freed)->by_op), "net.two relu");
  EXPECT_EQ((*freed)->event.phase, Phase::backward);
}

TEST(Recordings, HaveModulesAndOpsBeginAndEndInOrder) {
  const Log log = recorded(step);
  std::vector<Mark> open;
  std::map<std::string, int> seen;
  std::uint64_t before = 0;
  for (const Mark& m : log.marks) {
    EXPECT_GE(m.time, before);
    before = m.time;
    if (m.begins) {
      open.push_back(m);
      ++seen[log.names[m.name]];
      continue;
    }
    ASSERT_FALSE(open.empty());
    EXPECT_EQ(open.back().kind, m.kind);
    EXPECT_EQ(open.back().name, m.name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(seen["net.one"], 2) << "forward and backward";
  EXPECT_EQ(seen["relu"], 2);
}

TEST(Recordings, OfTwoThreadsAreInOrderOnEach) {
  const Log log = recorded([] {
    std::thread other(step);
    step();
    other.join();
  });
  std::map<std::uint32_t, int> depth;
  for (const Mark& m : log.marks) {
    depth[m.thread] += m.begins ? 1 : -1;
    EXPECT_GE(depth[m.thread], 0);
  }
  EXPECT_EQ(depth.size(), 2u);
}

}  // namespace
}  // namespace bytetape::memory
