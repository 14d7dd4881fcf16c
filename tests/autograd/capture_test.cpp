// The host's half of a captured step; what a GPU makes of it is in tests/cuda/runtime/capture_test.cpp.
#include "bytetape/autograd/capture.h"

#include "bytetape/bytetape.h"
#include "tests/autograd/capture_device.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using test::Capture;
using test::random_tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST_F(Capture, RecordsTheThirdCallAndReplaysFromThere) {
  int calls = 0;
  auto twice = capture([&](const Tensor& x) {
    ++calls;
    return x * 2;
  });
  for (int i = 1; i <= 5; ++i) {
    const Tensor x = random_there({3});
    const Tensor y = twice(x);
    EXPECT_EQ(twice.is_captured(), i >= 3);
    if (i < 3) { EXPECT_EQ(y.to_vector<float>(), (x * 2).to_vector<float>()); }
  }
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(recordings, 1);
  EXPECT_EQ(replays, 3);
}

TEST_F(Capture, IsTheStepItselfOnTheCpu) {
  for (const Device device : {Device::cpu(), Device::meta()}) {
    int calls = 0;
    auto step = capture([&](const Tensor& x) {
      ++calls;
      return sum(x);
    });
    for (int i = 0; i < 5; ++i) step(zeros({2}, DType::f32, device));
    EXPECT_EQ(calls, 5);
    EXPECT_FALSE(step.is_captured());
  }
  EXPECT_EQ(recordings, 0);
}

TEST_F(Capture, IsPredictedWithoutLaunches) {
  const Device meta = Device::meta(gpu);
  Generator g(5);
  int calls = 0;
  auto step = capture([&](const Tensor& x) {
    ++calls;
    return dropout(x, 0.5, true, g) * rand({3}, DType::f32, meta, g);
  });
  const Tensor x = zeros({3}, DType::f32, meta);
  for (int i = 1; i <= 5; ++i) {
    step(x);
    EXPECT_EQ(step.is_captured(), i >= 3);
  }
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(recordings, 0);
  EXPECT_EQ(transfers, 0);
  EXPECT_EQ(g.state().offset, 0u) << "a prediction draws no numbers";
  const auto fails_of = [&](const Tensor& host, const char* words) {
    auto of_the_host = capture([&](const Tensor& t) { return exp(host), neg(t); });
    of_the_host(x), of_the_host(x);
    EXPECT_THAT([&] { of_the_host(x); }, ThrowsMessage<CaptureError>(HasSubstr(words)));
  };
  fails_of(random_tensor({3}, DType::f32), "memory of cpu");
  fails_of(zeros({3}, DType::f32, Device::meta()), "memory of meta");
}

TEST_F(Capture, GivesNothingATensorOrSeveral) {
  const Tensor x = random_there({3});
  auto none = capture([&] { neg(x); });
  auto several = capture([&] { return std::vector<Tensor>{x + 1, x + 2}; });
  for (int i = 0; i < 4; ++i) {
    none();
    EXPECT_EQ(several().size(), 2u);
  }
  EXPECT_TRUE(none.is_captured());
  EXPECT_TRUE(several.is_captured());
}

TEST_F(Capture, RunsOtherInputsAsTheyAre) {
  int calls = 0;
  auto step = capture([&](const Tensor& x) {
    ++calls;
    return x + 1;
  });
  for (int i = 0; i < 3; ++i) step(random_there({4}));
  const Tensor odd = random_there({3});
  EXPECT_EQ(step(odd).to_vector<float>(), (odd + 1).to_vector<float>());
  EXPECT_EQ(calls, 4);
  step(random_there({4}));
  EXPECT_EQ(calls, 4);
}

TEST_F(Capture, RunsInputsOfAnotherKindAsTheyAre) {
  int calls = 0;
  auto step = capture([&](const Tensor& x) {
    ++calls;
    return x.defined() ? x + 1 : x;
  });
  for (int i = 0; i < 3; ++i) step(random_there({4}));
  const Tensor wide = to(random_tensor({4}), gpu), host = random_tensor({4}, DType::f32);
  EXPECT_EQ(step(wide).to_vector<double>(), (wide + 1).to_vector<double>());
  EXPECT_EQ(step(host).to_vector<float>(), (host + 1).to_vector<float>());
  EXPECT_FALSE(step(Tensor()).defined());
  EXPECT_EQ(calls, 3 + 3);
  step(random_there({4}));
  EXPECT_EQ(calls, 3 + 3);
}

TEST_F(Capture, MayGiveWhatItFoundAndWhatIsUndefined) {
  const Tensor found = random_there({4});
  auto step = capture([&](const Tensor& x) { return std::vector<Tensor>{found, {}, neg(x)}; });
  const Tensor x = random_there({4});
  for (int i = 1; i <= 5; ++i) {
    const std::vector<Tensor> y = step(x);
    EXPECT_EQ(step.is_captured(), i >= 3);
    EXPECT_EQ(&y[0].storage(), &found.storage());
    EXPECT_FALSE(y[1].defined());
  }
}

TEST_F(Capture, IsTheStepItselfWhereItWorksOnTwoDevices) {
  int calls = 0;
  const Tensor there = to(random_there({3}), Device::cuda(1));
  auto step = capture([&](const Tensor& x) {
    ++calls;
    neg(there);
    return neg(x);
  });
  for (int i = 0; i < 4; ++i) step(random_there({3}));
  EXPECT_EQ(calls, 4);
}

TEST_F(Capture, RecordsTheKindOfInputsThatComesThriceFirst) {
  int calls = 0;
  auto step = capture([&](const Tensor& x) {
    ++calls;
    return x + 1;
  });
  for (int epoch = 0; epoch < 4; ++epoch)
    for (const std::int64_t batch : {4, 4, 3}) {
      const Tensor x = random_there({batch}), y = step(x);
      if (!step.is_captured() || batch == 3) { EXPECT_EQ(y.to_vector<float>(), (x + 1).to_vector<float>()); }
      EXPECT_EQ(step.is_captured(), epoch > 0);
    }
  EXPECT_EQ(calls, 3 + 1 + 3) << "of an epoch, of the recording, of last batches";
  EXPECT_EQ(recordings, 1);
  EXPECT_EQ(replays, 6);
}

TEST_F(Capture, NeverRecordsShapesThatDoNotComeBack) {
  auto step = capture([](const Tensor& x) { return x + 1; });
  for (int round = 0; round < 3; ++round)
    for (std::int64_t n = 1; n < 100; ++n) step(random_there({n}));
  EXPECT_FALSE(step.is_captured()) << "it remembers no more than the latest";
}

TEST_F(Capture, RemembersTheKindsThatCameLast) {
  auto step = capture([](const Tensor& x) { return x + 1; });
  const std::int64_t kinds = 64;
  for (std::int64_t n = 1; n <= kinds; ++n) step(random_there({n}));
  step(random_there({1}));
  step(random_there({kinds + 1}));  // in the place of the one that came first
  step(random_there({1}));
  EXPECT_TRUE(step.is_captured());
}

TEST_F(Capture, CopiesInputsIn) {
  Tensor seen;
  auto step = capture([&](const Tensor& x) {
    seen = x;
    return sum(x);
  });
  for (int i = 0; i < 5; ++i) {
    const Tensor x = transpose(random_there({4, 3}), 0, 1);
    step(x);
    EXPECT_EQ(seen.to_vector<float>(), x.to_vector<float>());
    EXPECT_EQ(seen.is_same(x), i < 2);
  }
  seen = {};
}

TEST_F(Capture, DrawsOnFromWhereTheGeneratorStands) {
  const auto stands_at = [](bool captured) {
    Generator g(5);
    const auto draw = [&] { return rand({10}, DType::f32, gpu, g); };
    auto step = capture(draw);
    for (int i = 0; i < 6; ++i) {
      captured ? step() : draw();
      rand({7}, DType::f32, gpu, g);  // between the steps
    }
    return g.state().offset;
  };
  EXPECT_EQ(stands_at(true), stands_at(false));
}

TEST_F(Capture, DrawsFromSeveralGenerators) {
  const auto stand_at = [](bool captured) {
    Generator a(5), b(6);
    const auto draw = [&] { return rand({10}, DType::f32, gpu, a) + sum(rand({100}, DType::f32, gpu, b)); };
    auto step = capture(draw);
    for (int i = 0; i < 6; ++i) captured ? step() : draw();
    EXPECT_EQ(step.is_captured(), captured);
    return std::pair(a.state().offset, b.state().offset);
  };
  EXPECT_EQ(stand_at(true), stand_at(false));
}

TEST_F(Capture, DrawsNoNumbersForWhatHoldsNoData) {
  Generator g(5);
  auto step = capture([&](const Tensor& x) {
    rand({10}, DType::f32, Device::meta(), g);
    return x * 2;
  });
  const Tensor x = random_there({3});
  for (int i = 0; i < 5; ++i) step(x);
  EXPECT_TRUE(step.is_captured());
  EXPECT_EQ(g.state().offset, 0u);
}

TEST_F(Capture, CarriesTheGeneratorOverBeforeEachReplay) {
  Generator g(5);
  const PhiloxState* replay_params = nullptr;
  auto step = capture([&] {
    rand({10}, DType::f32, gpu, g);
    const PhiloxState s = g.take(8);
    replay_params = s.start;
    if (replay_params) {
      EXPECT_EQ(s.offset, 3u);  // counters since the start
    }
  });
  for (int i = 0; i < 3; ++i) step();
  for (int i = 0; i < 3; ++i) {
    g.manual_seed(40 + i);
    rand({i * 100}, DType::f32, gpu, g);
    const PhiloxState before = g.state();
    step();
    EXPECT_EQ(replay_params->seed, before.seed);
    EXPECT_EQ(replay_params->offset, before.offset);
    EXPECT_EQ(g.state().offset, before.offset + 5);
  }
}

TEST_F(Capture, HoldsWhatItReads) {
  Tensor weight = random_there({1000});
  const std::size_t bytes = test::rounded(weight.nbytes());
  {
    auto step = capture([&] { return sum(weight); });
    for (int i = 0; i < 3; ++i) step();
    weight = {};
    EXPECT_GE(test::allocated(gpu), bytes);
  }
  EXPECT_EQ(test::allocated(gpu), 0u);
}

TEST_F(Capture, KeepsItsMemoryToItself) {
  const std::size_t before = test::statistics(gpu).reserved.current;
  {
    auto step = capture([&](const Tensor& x) { return sum(exp(x) * x); });
    const Tensor x = random_there({1 << 20});
    for (int i = 0; i < 4; ++i) step(x);
    memory::empty_cache(gpu);
    const memory::Statistics s = test::statistics(gpu);
    // The pool is held whole; outside it lies x alone.
    EXPECT_EQ(s.reserved.current - s.allocated.current, 20 * (std::size_t{1} << 20) - test::rounded(x.nbytes()));
    EXPECT_GT(test::held_as(memory::Role::workspace, gpu), 0u);
  }
  memory::empty_cache(gpu);
  EXPECT_LE(test::statistics(gpu).reserved.current, before);
}

TEST_F(Capture, IsPartOfTheStepAroundIt) {
  const Tensor x = random_there({3});
  auto inner = capture([&] { return neg(x); });
  auto outer = capture([&] { return exp(inner()); });
  for (int i = 0; i < 4; ++i) outer();
  EXPECT_TRUE(outer.is_captured());
  EXPECT_FALSE(inner.is_captured());
  EXPECT_EQ(recordings, 1);
}

/// Counts its steps, and moves nothing.
class Counting final : public optim::Optimizer {
 public:
  explicit Counting(std::vector<Tensor> parameters) : Optimizer(std::move(parameters), "counting") {}
  std::int64_t taken(std::size_t i = 0) const { return steps(i); }

 private:
  void prepare(const std::vector<Tensor>&) override {}
  void launch() override {}
  void set_step_params() override { pace_ = steps(0); }
  std::span<const std::byte> step_params() const override { return std::as_bytes(std::span(&pace_, 1)); }
  std::int64_t pace_ = 0;
};

TEST_F(Capture, CountsEveryStepOfAnOptimizer) {
  const auto taken = [](bool captured) {
    Tensor w = random_there({3}).set_requires_grad();
    Counting optimizer({w});
    const auto twice = [&] {
      for (int k = 0; k < 2; ++k) {
        optimizer.zero_grad();
        sum(w * w).backward();
        optimizer.step();
      }
    };
    auto step = capture(twice);
    for (int i = 0; i < 5; ++i) captured ? step() : twice();
    EXPECT_EQ(step.is_captured(), captured);
    return optimizer.taken();
  };
  EXPECT_EQ(taken(true), taken(false));
}

TEST_F(Capture, CountsStepsOfTheParametersThatItMoves) {
  const Tensor w = random_there({3}).set_requires_grad(), v = random_there({3}).set_requires_grad();
  Counting optimizer({w, v});
  const auto take = [&](const Tensor& loss) {
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  };
  auto step = capture([&] { take(sum(w * v)); });
  for (int i = 0; i < 4; ++i) step();
  take(sum(w * w));  // v gets none
  step();
  EXPECT_EQ(optimizer.taken(0), 6);
  EXPECT_EQ(optimizer.taken(1), 5);
}

TEST_F(Capture, IsTheStepItselfWhereItFindsOtherGradients) {
  Tensor w = random_there({3}).set_requires_grad();
  int calls = 0;
  auto step = capture([&](const Tensor& x) {
    ++calls;
    sum(w * x).backward();
  });
  const Tensor x = random_there({3});
  for (int i = 0; i < 4; ++i) step(x);  // from the second on it adds to what it finds
  EXPECT_EQ(calls, 3);
  w.set_grad({});
  step(x);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(w.grad().to_vector<float>(), x.to_vector<float>());
}

TEST_F(Capture, TakesItsOutputsBackInAnyOrder) {
  auto step = capture([](const Tensor& a, const Tensor& b) { return std::vector<Tensor>{a + b, a}; });
  const Tensor a = random_there({3}), b = random_there({3});
  std::vector<Tensor> out;
  for (int i = 0; i < 3; ++i) out = step(a, b);
  copy_(out[0], a), copy_(out[1], b);  // a replay here computes nothing
  auto see = capture([](const Tensor& x, const Tensor& y) {
    neg(x);
    return std::vector<Tensor>{y, x};
  });
  for (int i = 0; i < 3; ++i) out = see(a, b);
  ASSERT_TRUE(see.is_captured());
  copy_(out[0], b), copy_(out[1], a);
  EXPECT_NE(&out[0].storage(), &out[1].storage());
  see(out[0], out[1]);
  EXPECT_EQ(out[0].to_vector<float>(), b.to_vector<float>());
  EXPECT_EQ(out[1].to_vector<float>(), a.to_vector<float>());
}

TEST_F(Capture, IsOutsideTheGraphWithinAnotherToo) {
  Tensor w = random_there({3}).set_requires_grad();
  auto inner = capture([&] { return sum(w * 3); });
  auto outer = capture([&] {
    w.set_grad({});
    (inner() + sum(w)).backward();
  });
  for (int i = 0; i < 4; ++i) {
    outer();
    EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(3, 1)) << i;
  }
}

TEST_F(Capture, FindsAParameterThatWasReplaced) {
  const DefaultDevice here(gpu);
  nn::Linear layer(3, 2);
  Counting optimizer(layer.parameters());
  auto step = capture([&](const Tensor& x) {
    optimizer.zero_grad();
    sum(layer(x)).backward();
    optimizer.step();
  });
  const Tensor x = random_there({4, 3});
  for (int i = 0; i < 4; ++i) step(x);
  const std::int64_t taken = optimizer.taken();
  layer.to(DType::f64).to(DType::f32);
  EXPECT_THAT([&] { step(x); }, ThrowsMessage<CaptureError>(HasSubstr("replaced or moved"))) << "other memory";
  layer.weight = random_there({2, 3});
  EXPECT_THAT([&] { step(x); }, ThrowsMessage<CaptureError>(HasSubstr("replaced")));
  EXPECT_EQ(optimizer.taken(), taken);
}

TEST_F(Capture, FindsALeafThatWasConverted) {
  Tensor w = random_there({3}).set_requires_grad();
  auto step = capture([&](const Tensor& x) {
    w.set_grad({});
    sum(w * to(x, w.dtype())).backward();
  });
  const Tensor x = random_there({3});
  for (int i = 0; i < 4; ++i) step(x);
  ASSERT_TRUE(step.is_captured());
  w.set_grad({});
  w.set_data(to(w.detach(), DType::f64));
  EXPECT_THAT([&] { step(x); }, ThrowsMessage<CaptureError>(HasSubstr("was moved or converted since the step was")));
  EXPECT_FALSE(w.grad().defined());
}

}  // namespace
}  // namespace bytetape
