// nn::Call: which module runs, under which path.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/core/device/pinned.h"
#include "bytetape/core/memory/allocator.h"
#include "tests/support/expect.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/temporary_dir.h"

namespace bytetape {
namespace {

struct Cell : nn::Module {
  nn::Linear input{3, 4}, hidden{4, 4, false};
  Cell() {
    register_module("input", input);
    register_module("hidden", hidden);
  }
  Tensor step(const Tensor& x, const Tensor& h) {
    const nn::Call call(*this);
    return tanh(to(input(x), DType::f32) + hidden(h));
  }
};

struct Encoder : nn::Module {
  Cell cell;
  Encoder() { register_module("cell", cell); }
  Tensor forward(const Tensor& x) override { return again(x, zeros({x.size(0), 4})); }
  Tensor again(const Tensor& x, const Tensor& h) {
    const nn::Call call(*this);
    return cell.step(x, h);
  }
};

struct Model : nn::Module {
  Encoder enc;
  Model() { register_module("enc", enc); }
  Tensor forward(const Tensor& x) override { return enc(x); }
};

std::string booked_under(const Tensor& x) { return memory::name_of(x.storage().module()); }

TEST(Call, BooksAFunctionOfAnySignatureUnderItsModule) {
  Model model;
  EXPECT_EQ(booked_under(model(randn({2, 3}))), "enc.cell");
  EXPECT_EQ(booked_under(model.enc.cell.step(randn({2, 3}), randn({2, 4}))), "cell");
  EXPECT_THROWS_SAYING(model(randn({2, 5})), ShapeError, "in module 'enc.cell.input'");
  EXPECT_EQ(memory::ambient.scope.module, 0u);
}

/// As Cell, by call().
struct Joined : nn::Module {
  nn::Linear left{3, 4}, right{4, 4};
  nn::Tanh unregistered;  // has no path of its own
  Joined() {
    register_module("left", left);
    register_module("right", right);
  }
  Tensor operator()(const Tensor& x, const Tensor& h) {
    return nn::call(
        *this,
        [this](const Tensor& x, const Tensor& h) {
          const Tensor a = left(x), b = right(h);
          return unregistered(a + b);
        },
        x, h);
  }
};

TEST(Call, OfTheRootIsBookedByItsClass) {
  struct Net : nn::Module {
    nn::Linear fc{3, 3};
    Tensor inner, scoped;
    Net() { register_module("fc", fc); }
    Tensor forward(const Tensor& x) override {
      inner = fc(x);
      {
        const memory::Scope scope("extra");
        scoped = inner + 1;
      }
      return inner * 2;
    }
  } net;
  const Tensor x = randn({2, 3});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(booked_under(net(x)), "(root) Net");
    EXPECT_EQ(booked_under(net.inner), "fc");
    EXPECT_EQ(booked_under(net.scoped), "extra");
    const memory::Scope scope("student");
    EXPECT_EQ(booked_under(net(x)), "student");
    EXPECT_EQ(booked_under(net.inner), "student.fc");
  }
  EXPECT_EQ(booked_under(x * 2), "") << "outside modules";
  EXPECT_THROWS_SAYING(net.forward(randn({2, 4})), ShapeError, "linear in module 'fc': ");
  struct Bare : nn::Module {
    Tensor forward(const Tensor& x) override { return cat({x, zeros({1})}, 1); }
  } bare;
  EXPECT_THROWS_SAYING(bare(x), ShapeError, "cat: ") << "a root has no path in errors";
  // A module that becomes a child has the path of one.
  nn::Linear alone(3, 3);
  EXPECT_EQ(booked_under(alone(x)), "(root) Linear");
  EXPECT_EQ(booked_under(alone.weight), "(root) Linear");
  nn::Sequential list(std::move(alone));
  EXPECT_EQ(booked_under(list(x)), "0 Linear");
  EXPECT_EQ(booked_under(list.parameters()[0]), "0 Linear");
}

TEST(Call, OfABodyBooksItUnderItsModule) {
  struct Outer : nn::Module {
    Joined joined;
    Outer() { register_module("joined", joined); }
    Tensor forward(const Tensor& x) override { return joined(x, zeros({x.size(0), 4})); }
  } outer;
  EXPECT_EQ(booked_under(outer(randn({2, 3}))), "joined");
  EXPECT_THROWS_SAYING(outer.joined(randn({2, 5}), randn({2, 4})), ShapeError, "in module 'joined.left'");
  EXPECT_THROWS_SAYING(outer(randn({2, 5})), ShapeError, "in module 'joined.left'");
  EXPECT_EQ(memory::ambient.scope.module, 0u);
}

TEST(Call, TellsARecordingWhatGoesInAndComesOut) {
  const test::TemporaryDir dir;
  struct Outer : nn::Module {
    Joined joined;
    Outer() { register_module("joined", joined); }
    Tensor forward(const Tensor& x) override { return joined(x, Tensor(zeros({x.size(0), 4}))); }
  } outer;
  outer.joined.set_checkpointed();
  const Tensor x = randn({2, 3});
  memory::Recording recording(dir / "run.memlog");
  const Tensor y = outer(x);
  sum(y).backward();  // which runs again what ran already
  recording.finish();
  const memory::Log log = memory::read_log(dir / "run.memlog");
  const auto cpu = std::find_if(log.devices.begin(), log.devices.end(), [](const auto& d) { return d.name == "cpu"; });
  std::vector<std::pair<std::string, std::uint64_t>> arguments, results;  // modules, and inputs before
  for (const memory::Record& r : cpu->records) {
    if (r.event.kind == memory::EventKind::argument) arguments.emplace_back(log.names[r.by_module], r.event.requested);
    if (r.event.kind == memory::EventKind::result) {
      results.emplace_back(log.names[r.by_module], r.event.requested);
      if (results.back().first == "joined") {
        EXPECT_EQ(r.event.segment, y.storage().block()->segment);
        EXPECT_EQ(r.event.offset, y.storage().block()->offset);
      }
    }
  }
  using Passed = std::pair<std::string, std::uint64_t>;
  EXPECT_EQ(arguments,
            (std::vector<Passed>{
                {"(root) Outer", 0}, {"joined", 0}, {"joined", 1}, {"joined.left", 0}, {"joined.right", 0}}));
  EXPECT_EQ(results,
            (std::vector<Passed>{{"joined.left", 0}, {"joined.right", 0}, {"joined", 0}, {"(root) Outer", 0}}));
}

TEST(Call, TellsARecordingOnlyOfInputsThatLieInABlockOfTheDevice) {
  const test::TemporaryDir dir;
  const test::FakeGpu fake;
  struct Any : nn::Module {
    Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
      const auto body = [](const Tensor&, const Tensor&, const Tensor&, const Tensor& d) { return d.detach(); };
      return nn::call(*this, body, a, b, c, d);
    }
  } any;
  float elsewhere[2] = {};
  const Tensor pinned = empty_pinned(2, DType::f32, fake.gpu, memory::Role::input), plain = zeros(2);
  memory::Recording recording(dir / "run.memlog");
  any({}, pinned, from_blob(elsewhere, {2}, DType::f32), plain);
  recording.finish();
  const memory::Log log = memory::read_log(dir / "run.memlog");
  std::vector<std::string> told;  // devices, and inputs before
  for (const auto& device : log.devices)
    for (const memory::Record& r : device.records)
      if (r.event.kind == memory::EventKind::argument)
        told.push_back(device.name + " " + std::to_string(r.event.requested));
  EXPECT_THAT(told, testing::ElementsAre("cpu 0"));
}

TEST(Call, SetsThePhase) {
  struct Looks : nn::Module {
    memory::Phase phase() const {
      const nn::Call call(*this);
      return memory::ambient.scope.phase;
    }
  };
  EXPECT_EQ(Looks().phase(), memory::Phase::forward);
  const memory::PhaseScope data(memory::Phase::data);
  EXPECT_EQ(Looks().phase(), memory::Phase::data);
}

TEST(Call, IsNamedByTheParentThatRunsIt) {
  const auto shared = std::make_shared<nn::Linear>(3, 3);
  nn::Sequential net(nn::Sequential(shared, nn::ReLU()), nn::Sequential(nn::ReLU(), nn::ReLU(), shared));
  const Tensor x = randn({2, 4});
  EXPECT_THROWS_SAYING(net(x), ShapeError, "linear in module '0 Sequential.0 Linear'");
  EXPECT_THROWS_SAYING(net[1](x), ShapeError, "linear in module '1 Sequential.2 Linear'");
  EXPECT_THROWS_SAYING(net(x), ShapeError, "linear in module '0 Sequential.0 Linear'");
}

TEST(Call, IsNamedByTheModelThatRunsIt) {
  const auto shared = std::make_shared<nn::Linear>(3, 3);
  nn::Sequential one, other;
  one.push_back("first", shared);
  other.push_back("second", shared);
  const Tensor x = randn({2, 4});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROWS_SAYING(one(x), ShapeError, "linear in module 'first'");
    EXPECT_THROWS_SAYING(other(x), ShapeError, "linear in module 'second'");
  }
}

TEST(Call, IsNamedBelowASharedParentByThePathOfThatRun) {
  const auto shared = std::make_shared<nn::Sequential>(nn::Linear(3, 3));
  nn::Sequential one, other;
  one.push_back("first", shared);
  other.push_back("second", shared);
  const Tensor x = randn({2, 4});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROWS_SAYING(one(x), ShapeError, "linear in module 'first.0 Linear'");
    EXPECT_THROWS_SAYING(other(x), ShapeError, "linear in module 'second.0 Linear'");
  }
}

// Runs a module that it has as a child of its own, and within another child that is registered first.
struct Twice : nn::Module {
  std::shared_ptr<nn::Linear> shared = std::make_shared<nn::Linear>(3, 3);
  nn::Sequential block{shared};
  Twice() {
    register_module("block", block);
    register_module("own", *shared);
  }
  Tensor forward(const Tensor& x) override { return (*shared)(x); }
};

TEST(Call, IsNamedAsTheCallersOwnChildFirst) {
  Twice net;
  const Tensor x = randn({2, 4});
  EXPECT_THROWS_SAYING(net(x), ShapeError, "linear in module 'own'");
  EXPECT_THROWS_SAYING(net.block(x), ShapeError, "linear in module 'block.0 Linear'");
}

TEST(Call, AModuleWithoutForwardSaysSo) {
  Encoder enc;
  nn::Sequential net{nn::ReLU(), Cell()};
  EXPECT_THROWS_SAYING(net(randn({2, 3})), NotImplemented, "module '1 Cell': Cell has no forward(x)");
}

struct Forgetful : nn::Module {
  nn::Linear known{3, 3}, forgotten{3, 3, false};
  nn::ReLU relu;  // has nothing to register
  Forgetful() { register_module("known", known); }
  Tensor forward(const Tensor& x) override { return forgotten(relu(known(x))); }
};

TEST(Call, RefusesAChildThatTrainsUnregistered) {
  nn::Sequential outer{std::make_shared<nn::ReLU>(), std::make_shared<Forgetful>()};
  const Tensor x = randn({2, 3});
  for (int i = 0; i < 2; ++i)
    EXPECT_THROWS_SAYING(outer(x), ValueError,
                         "module '1 Forgetful': Forgetful runs Linear(3, 3, bias=false), which is registered with no");
}

TEST(Call, RefusesAChildThatTrainsBesideRegisteredParametersAlone) {
  struct Scales : nn::Module {
    nn::Parameter scale = register_parameter("scale", randn({3}));
    nn::Linear forgotten{3, 3};
    Tensor forward(const Tensor& x) override { return forgotten(x) * scale; }
  } net;
  EXPECT_THROWS_SAYING(net(randn({2, 3})), ValueError, "Scales runs Linear(3, 3), which is registered with no module");
  const NoGrad no_grad;
  EXPECT_NO_THROW(net(randn({2, 3})));
}

TEST(Call, RefusesAnUnregisteredContainerWhosePartsTrain) {
  struct Net : nn::Module {
    nn::Linear known{3, 3};
    nn::Sequential forgotten{nn::Linear(3, 3), nn::ReLU()};
    Net() { register_module("known", known); }
    Tensor forward(const Tensor& x) override { return forgotten(known(x)); }
  } net;
  EXPECT_THROWS_SAYING(net(randn({2, 3})), ValueError, "Net runs Sequential, which is registered with no module");
}

TEST(Call, IsSilentWhereNothingTrainsUnregistered) {
  Forgetful net;
  const Tensor x = randn({2, 3});
  {
    const NoGrad no_grad;
    EXPECT_NO_THROW(net(x));
  }
  net.forgotten.weight.set_requires_grad(false);
  EXPECT_NO_THROW(net(x));
  struct Wrapper : nn::Module {  // registers nothing: its parts are somebody else's
    nn::Linear fc{3, 3};
    Tensor forward(const Tensor& x) override { return fc(x); }
  } wrapper;
  EXPECT_NO_THROW(wrapper(x));
  nn::Sequential holder{std::move(wrapper)};
  EXPECT_NO_THROW(holder(x)) << "also where it is registered itself";
}

TEST(Call, TakesAChildWhoseParametersAreTiedToRegisteredOnes) {
  struct Tied : nn::Module {
    nn::Linear known{3, 3}, again{3, 3};
    Tied() {
      register_module("known", known);
      again.weight = known.weight;
    }
    Tensor forward(const Tensor& x) override { return again(known(x)); }
  };
  const auto tied = std::make_shared<Tied>();
  nn::Sequential net{tied};
  const Tensor x = randn({2, 3});
  EXPECT_THROWS_SAYING(net(x), ValueError, "Tied runs Linear(3, 3), which is registered with no module");  // its bias
  tied->again.bias = tied->known.bias;
  EXPECT_NO_THROW(net(x));
  net.push_back(nn::Linear(3, 3));
  tied->again.bias = net[1].as<nn::Linear>().bias;  // beside the one that runs it
  EXPECT_NO_THROW(net(x));
  const nn::Linear elsewhere{3, 3};
  tied->again.bias = elsewhere.bias;
  EXPECT_THROWS_SAYING(net(x), ValueError, "which is registered with no module");
  tied->again.bias = zeros(3);
  tied->again.bias.set_requires_grad(false);
  EXPECT_NO_THROW(net(x)) << "a frozen parameter beside a tied one";
}

}  // namespace
}  // namespace bytetape
