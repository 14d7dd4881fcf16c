// What a replay counts as written, and copies of parameters that it keeps true.
#include <algorithm>
#include <functional>

#include "bytetape/bytetape.h"
#include "tests/autograd/capture_device.h"

namespace bytetape {
namespace {

using test::Capture;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST_F(Capture, CountsAReplayAsAWrite) {
  const Tensor outside = random_there({3}), untouched = random_there({3});
  auto step = capture([&] {
    add_(outside, untouched);
    return outside + 1;
  });
  for (int i = 0; i < 3; ++i) step();
  const Tensor x = random_there({3}).set_requires_grad();
  const Tensor y = sum(x * outside), z = sum(x * untouched);
  step();
  z.backward();
  EXPECT_THROW(y.backward(), AutogradError);
}

TEST_F(Capture, PutsItsGradientsBack) {
  Tensor w = random_there({3}).set_requires_grad();
  auto step = capture([&](const Tensor& x) {
    w.set_grad({});
    sum(w * x).backward();
  });
  const Tensor x = random_there({3});
  for (int i = 0; i < 3; ++i) step(x);
  const Tensor recorded = w.grad();
  step(random_there({1}));  // as it is: a gradient elsewhere
  EXPECT_FALSE(w.grad().is_same(recorded));
  step(x);
  EXPECT_TRUE(w.grad().is_same(recorded));
  EXPECT_EQ(w.grad().storage().role(), memory::Role::gradient);
}

TEST_F(Capture, CountsItsGradientsAsWritten) {
  Tensor w = random_there({3}).set_requires_grad(), v = random_there({3}).set_requires_grad();
  auto step = capture([&] {
    w.set_grad({});
    sum(w * w).backward();
  });
  for (int i = 0; i < 3; ++i) step();
  const Tensor y = sum(v * w.grad());
  step();
  EXPECT_THROW(y.backward(), AutogradError);
}

TEST_F(Capture, CountsItsOutputsAsWritten) {
  const Tensor v = random_there({3}).set_requires_grad(), x = random_there({3});
  auto step = capture([](const Tensor& t) { return std::vector<Tensor>{exp(t), t * 2}; });
  for (int i = 0; i < 3; ++i) step(x);
  for (const std::size_t i : {0u, 1u}) {
    const Tensor z = sum(v * step(x)[i]);
    step(x);
    EXPECT_THROW(z.backward(), AutogradError) << "output " << i;
  }
  const Tensor z = sum(v * step(x)[0]);
  z.backward();  // no replay in between
}

TEST_F(Capture, RefusesToWriteToAnInput) {
  auto step = capture([](const Tensor& x) { add_(x, 1); });
  const Tensor x = random_there({3});
  step(x), step(x);
  EXPECT_THAT([&] { step(x); }, ThrowsMessage<CaptureError>(HasSubstr("writes to an input")));
}

/// Whether w's 16-bit copy, as the step has it, holds w's values and says so.
bool has_its_copy(const Tensor& w) {
  Storage& s = w.storage();
  const auto* copy = static_cast<const BFloat16*>(s.shadow().storage->data());
  const auto values = to(w.detach(), DType::bf16).to_vector<float>();
  return s.shadow().version == s.version() && std::equal(values.begin(), values.end(), copy);
}

TEST_F(Capture, KeepsCopiesOfParametersTrue) {
  for (const bool trains : {true, false}) {
    Tensor w = random_there({4, 3}).set_requires_grad();
    optim::SGD optimizer({w}, {.lr = 0.1});
    auto step = capture([&](const Tensor& x) {
      const Autocast autocast(DType::bf16);
      const Tensor y = sum(linear(x, w));
      if (!trains) return y;
      optimizer.zero_grad();
      y.backward();
      optimizer.step();
      return y;
    });
    for (int i = 0; i < 5; ++i) {
      step(random_there({2, 3}));
      EXPECT_TRUE(has_its_copy(w)) << i;
    }
    const void* where = w.storage().shadow().storage->data();
    {
      const NoGrad no_grad;
      mul_(w, 2);
    }
    step(random_there({2, 3}));
    EXPECT_TRUE(has_its_copy(w)) << "written between the steps";
    {
      const Autocast other(DType::f16);
      linear(random_there({2, 3}), w);
    }
    step(random_there({2, 3}));
    EXPECT_TRUE(has_its_copy(w)) << "needed in another dtype between the steps";
    EXPECT_EQ(w.storage().shadow().storage->data(), where);
  }
}

TEST_F(Capture, KeepsTheCopiesOfSeveralParametersTrue) {
  Tensor v = random_there({3, 3}).set_requires_grad(), w = random_there({3, 3}).set_requires_grad();
  auto step = capture([&](const Tensor& x) {
    const Autocast autocast(DType::bf16);
    return linear(linear(linear(x, v), w), v);
  });
  const Tensor x = random_there({2, 3});
  for (int i = 0; i < 3; ++i) step(x);
  for (const Tensor& written : {v, w}) {
    {
      const NoGrad no_grad;
      mul_(written, 2);
    }
    step(x);
    for (const Tensor& p : {v, w}) EXPECT_TRUE(has_its_copy(p));
  }
  const std::uint32_t copies = v.storage().shadow().storage->version();
  step(x);
  EXPECT_EQ(v.storage().shadow().storage->version(), copies) << "made again only where it was written";
}

TEST_F(Capture, ForgetsCopiesOfParametersWhereItFails) {
  Tensor w = random_there({4, 3}).set_requires_grad();
  const Autocast autocast(DType::bf16);
  auto step = capture([&](const Tensor& x) {
    {
      const NoGrad no_grad;
      mul_(w, 2);
    }
    const Tensor y = sum(linear(x, w));
    if (recordings > 0) y.item();
  });
  step(random_there({2, 3})), step(random_there({2, 3}));
  EXPECT_THROW(step(random_there({2, 3})), CaptureError);
  EXPECT_FALSE(w.storage().shadow().storage);
}

TEST_F(Capture, ClaimsNoCopyOfAParameterThatTheStepWritesBehindIt) {
  const Tensor w = random_there({3, 3}).set_requires_grad(), x = random_there({2, 3});
  auto step = capture([&](const Tensor& t) {
    Tensor y;
    {
      const Autocast autocast(DType::bf16);
      y = linear(t, w);
    }
    const NoGrad no_grad;
    mul_(w, 2);
    return y;
  });
  for (int i = 0; i < 5; ++i) {
    step(x);
    EXPECT_NE(w.storage().shadow().version, w.storage().version()) << i;
  }
}

// What others have done with what it reads and writes comes before each replay.
TEST_F(Capture, WaitsForOtherStreams) {
  const Tensor read = random_there({3}), written = random_there({3}), x = random_there({3});
  Tensor w = random_there({3}).set_requires_grad(), y;
  auto step = capture([&](const Tensor& t) {
    add_(written, read);
    w.set_grad({});
    sum(w * t).backward();
    return exp(t);
  });
  for (int i = 0; i < 4; ++i) y = step(x);
  waits.clear();
  step(x);
  EXPECT_TRUE(waits.empty());
  const auto waits_where = [&](const std::function<void()>& use) {
    {
      const StreamScope other(Stream(3));
      use();
    }
    waits.clear();
    step(x);
    return waits.contains({3, 0});
  };
  EXPECT_TRUE(waits_where([&] { fill_(read, 2); })) << "what it reads was written";
  EXPECT_TRUE(waits_where([&] { written + 1; })) << "what it writes was read";
  EXPECT_TRUE(waits_where([&] { y + 1; })) << "its output was read";
  EXPECT_TRUE(waits_where([&] { w.grad() + 1; })) << "its gradient was read";
  EXPECT_FALSE(waits_where([&] { read + 1; })) << "two may read at a time";
}

TEST_F(Capture, BooksWhatStandsForItsInputs) {
  Tensor seen;
  auto step = capture([&](const Tensor& t) { return seen = t, neg(t); });
  for (int i = 0; i < 3; ++i) step(random_there({3}));
  EXPECT_EQ(seen.storage().role(), memory::Role::input);
  seen = {};
}

}  // namespace
}  // namespace bytetape
