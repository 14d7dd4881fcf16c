#include "bytetape/autograd/op_observer.h"

#include <thread>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::random_leaf;
using test::random_tensor;
using testing::ElementsAre;

/// Keeps a line for each event that it sees.
class Log : public OpObserver {
 public:
  std::vector<std::string> lines;
  std::function<void(const OpCall&)> at_begin, at_result, at_end;

  void begin(const OpCall& call) override {
    lines.push_back("begin " + named(call));
    if (at_begin) at_begin(call);
  }
  void result(const OpCall& call, const Tensor&) override {
    lines.push_back("result " + named(call));
    if (at_result) at_result(call);
  }
  void end(const OpCall& call) noexcept override {
    lines.push_back((call.failed ? "failed " : "end ") + named(call));
    if (at_end) at_end(call);
  }

 private:
  static std::string named(const OpCall& call) {
    const std::string name(std::string_view(call.definition.name));
    return call.caller ? std::string(std::string_view(call.caller->definition.name)) + "/" + name : name;
  }
};

/// The last call of each name that the program made, when it ended.
class Calls : public OpObserver {
 public:
  struct Call {
    std::vector<AttributeValue> attributes;
    std::vector<Tensor> outputs;
    OpKind kind;
  };
  std::map<std::string, Call> of;

  void end(const OpCall& call) noexcept override {
    of[std::string(std::string_view(call.definition.name))] = {call.attributes, call.outputs, call.kind};
  }
};

TEST(OpObserver, SeesTheOpAndThoseThatItConsistsOf) {
  const Tensor x = random_tensor({2, 3}, DType::f32);
  Log log;
  exp(x);
  flatten(x);
  EXPECT_THAT(log.lines, ElementsAre("begin exp", "result exp", "end exp",  //
                                     "begin flatten", "begin flatten/reshape", "result flatten/reshape",
                                     "end flatten/reshape", "result flatten", "end flatten"));
}

TEST(OpObserver, SeesNothingBeforeAndAfterItsLife) {
  const Tensor x = random_tensor({2, 3}, DType::f32);
  exp(x);
  {
    Log log;
    EXPECT_TRUE(log.lines.empty());
  }
  EXPECT_EQ(detail::autograd_ambient.op_observer, nullptr);
  EXPECT_EQ(detail::autograd_ambient.op_call, nullptr);
  exp(x);
}

TEST(OpObserver, SeesInputsAttributesAndOutputs) {
  const Tensor x = random_tensor({2, 3}, DType::f32);
  Log log;
  log.at_begin = [&](const OpCall& call) {
    EXPECT_TRUE(call.inputs[0].tensor().is_same(x));
    EXPECT_TRUE(call.outputs.empty());
    EXPECT_EQ(std::get<double>(call.attributes.at(0)), -1);
    EXPECT_EQ(std::get<double>(call.attributes.at(1)), 2);
  };
  Tensor last;
  log.at_end = [&](const OpCall& call) { last = call.outputs.at(0); };
  const Tensor y = clamp(x, -1, 2);
  EXPECT_TRUE(last.is_same(y));
}

TEST(OpObserver, SeesEachTypeOfAttribute) {
  const Tensor image = random_tensor({1, 2, 4, 4}, DType::f32);
  Calls calls;
  sum(image, {2, 3}, true);
  to(image, DType::f64);
  conv2d(image, random_tensor({4, 1, 3, 3}, DType::f32), {}, {.padding = {1, 2}, .groups = 2}, Activation::relu);
  using Integers = std::vector<std::int64_t>;
  EXPECT_EQ(std::get<Integers>(calls.of["sum"].attributes[0]), (Integers{2, 3}));
  EXPECT_TRUE(std::get<bool>(calls.of["sum"].attributes[1]));
  EXPECT_EQ(std::get<std::string>(calls.of["to"].attributes[0]), "cpu");
  EXPECT_EQ(std::get<std::string>(calls.of["to"].attributes[1]), "f64");
  const auto& conv = calls.of["conv2d"].attributes;
  EXPECT_EQ(std::get<Integers>(conv[1]), (Integers{1, 2}));
  EXPECT_EQ(std::get<std::int64_t>(conv[3]), 2);
  EXPECT_EQ(std::get<std::string>(conv[4]), "relu");
}

TEST(OpObserver, SeesNumbersListsAndMissingInputs) {
  const Tensor x = random_tensor({2, 3}, DType::f32);
  Log log;
  log.at_begin = [&](const OpCall& call) {
    ASSERT_EQ(call.inputs.size(), 2u);
    EXPECT_TRUE(call.inputs[1].is_number());
    EXPECT_EQ(call.inputs[1].number().to<int>(), 3);
  };
  x * 3;
  log.at_begin = [&](const OpCall& call) { EXPECT_EQ(call.inputs.size(), 4u); };
  cat({x, x, x, x}, 0);
  log.at_begin = [&](const OpCall& call) {
    ASSERT_EQ(call.inputs.size(), 3u);
    EXPECT_FALSE(call.inputs[2].tensor().defined());
    EXPECT_FALSE(call.inputs[2].is_number());
  };
  linear(x, random_tensor({4, 3}, DType::f32));
}

TEST(OpObserver, SeesTheOpsOfBackwardInTheirPhase) {
  const Tensor x = random_leaf({2, 3, 8, 8}, DType::f32), w = random_leaf({4, 3, 3, 3}, DType::f32);
  const Tensor y = sum(conv2d(x, w) * 2);
  Log log;
  Calls calls;
  int forward = 0;
  log.at_begin = [&](const OpCall&) { forward += memory::ambient.scope.phase != memory::Phase::backward; };
  grad({y}, {x, w}, {.create_graph = true});
  EXPECT_EQ(forward, 0);
  EXPECT_TRUE(calls.of.contains("conv2d_input_grad") && calls.of.contains("conv2d_weight_grad"));
}

TEST(OpObserver, SeesOpsThatFail) {
  const Tensor x = random_tensor({2, 3}, DType::f32);
  Log log;
  EXPECT_THROW(x + random_tensor({4}, DType::f32), ShapeError);
  EXPECT_THROW(stack({x, random_tensor({4}, DType::f32)}), ShapeError);
  exp(x);
  EXPECT_THAT(log.lines, ElementsAre("begin add", "failed add", "begin stack", "failed stack", "begin exp",
                                     "result exp", "end exp"));
}

TEST(OpObserver, EndsAnOpByAnException) {
  const Tensor x = random_tensor({2, 3}, DType::f32);
  Log log;
  log.at_begin = [](const OpCall&) { fail<ValueError>("not this one"); };
  EXPECT_THROWS_SAYING(exp(x), ValueError, "exp: not this one");
  log.at_begin = {};
  log.at_result = [](const OpCall&) { fail<ValueError>("not this result"); };
  EXPECT_THROWS_SAYING(flatten(x), ValueError, "flatten: not this result");
  log.at_result = {};
  exp(x);
  EXPECT_THAT(log.lines,
              ElementsAre("begin exp", "failed exp", "begin flatten", "begin flatten/reshape", "result flatten/reshape",
                          "failed flatten/reshape", "failed flatten", "begin exp", "result exp", "end exp"));
}

TEST(OpObserver, FindsOutputsOnlyOnceTheyAreKnown) {
  const Tensor x = random_tensor({2, 3}, DType::f32);
  std::vector<std::size_t> outputs;
  Log log;
  log.at_begin = log.at_end = [&](const OpCall& call) {
    if (!call.caller) outputs.push_back(call.outputs.size());
  };
  layer_norm(x, {3});
  EXPECT_THAT(outputs, ElementsAre(0, 1));
  outputs.clear();
  EXPECT_THROW(x + random_tensor({4}, DType::f32), ShapeError);
  EXPECT_THAT(outputs, ElementsAre(0, 0)) << "it gave back no input either";
  outputs.clear();
  log.at_result = [](const OpCall&) { fail<ValueError>("not this result"); };
  EXPECT_THROW(exp(x), ValueError);
  EXPECT_THAT(outputs, ElementsAre(0, 1));
}

TEST(OpObserver, FindsNothingOfAnOpWithoutInputsAndResults) {
  static constexpr OpDefinition nothing{.name = "nothing", .inputs = {}, .outputs = {}, .kind = OpKind::composite};
  std::size_t outputs = 1;
  Log log;
  log.at_end = [&](const OpCall& call) { outputs = call.outputs.size(); };
  { const Op<nothing> op; }
  EXPECT_EQ(outputs, 0u);
}

TEST(OpObserver, SeesNoCopyOfABatchThatLinearTakesAsItLies) {
  const Tensor w = random_tensor({4, 3}, DType::f32);
  const auto lines = [&](const Tensor& x) {
    Log log;
    linear(x, w);
    return log.lines.size();
  };
  EXPECT_EQ(lines(random_tensor({2, 5, 3}, DType::f32)), 3u);
  EXPECT_EQ(lines(transpose(random_tensor({3, 5}, DType::f32), 0, 1)), 3u);
  EXPECT_EQ(lines(transpose(random_tensor({5, 2, 3}, DType::f32), 0, 1)), 6u) << "which it copies";
}

TEST(OpObserver, TellsTheEndToThoseThatWereToldTheBegin) {
  const Tensor x = random_tensor({2, 3}, DType::f32);
  Log outer, inner;
  inner.at_begin = [](const OpCall&) { fail<ValueError>("not this one"); };
  EXPECT_THROW(exp(x), ValueError);
  EXPECT_TRUE(outer.lines.empty());
  EXPECT_THAT(inner.lines, ElementsAre("begin exp", "failed exp"));
}

TEST(OpObserver, MayEndBeforeAnotherThatWasMadeLater) {
  const Tensor x = random_tensor({2, 3}, DType::f32);
  auto first = std::make_unique<Log>(), second = std::make_unique<Log>();
  first.reset();
  exp(x);
  EXPECT_EQ(second->lines.size(), 3u);
  auto third = std::make_unique<DetectAnomaly>();
  second.reset();
  exp(x);
  third.reset();
  EXPECT_EQ(detail::autograd_ambient.op_observer, nullptr);
}

TEST(OpObserver, SeesAResultOnce) {
  const Tensor x = random_tensor({2, 3}, DType::f32);
  const auto results = [](const auto& f) {
    Log log;
    f();
    return std::count_if(log.lines.begin(), log.lines.end(), [](const auto& l) { return l.starts_with("result"); });
  };
  EXPECT_EQ(results([&] { cumsum(x, 0); }), 1);
  EXPECT_EQ(results([&] { softmax(x, 0); }), 1);
  EXPECT_EQ(results([&] { cross_entropy(x, zeros({2}, DType::i64)); }), 1);
}

TEST(OpObserver, SeesTheResultOfBatchNormAndNotItsStatistics) {
  nn::BatchNorm2d norm(3);
  Calls calls;
  const Tensor y = norm(random_tensor({2, 3, 4, 4}, DType::f32));
  ASSERT_EQ(calls.of["batch_norm"].outputs.size(), 1u);
  EXPECT_TRUE(calls.of["batch_norm"].outputs[0].is_same(y));
}

TEST(OpObserver, DoesNotSeeTheOpsOfObservers) {
  const Tensor x = random_tensor({2, 3}, DType::f32);
  Log outer, inner;
  inner.at_end = [&](const OpCall& call) { sum(call.outputs[0]); };
  exp(x);
  EXPECT_THAT(outer.lines, ElementsAre("begin exp", "result exp", "end exp"));
  EXPECT_EQ(inner.lines, outer.lines);
}

TEST(OpObserver, SeesItsThreadAlone) {
  Log log;
  std::thread([] { exp(ones({3})); }).join();
  EXPECT_TRUE(log.lines.empty());
}

TEST(OpObserver, TakesAnInputForTheOutputOfAnOpThatReturnsIt) {
  const Tensor x = random_tensor({2, 3}, DType::f32);
  Calls calls;
  contiguous(x);
  to(x, DType::f32);
  dropout(x, 0.5, false);
  for (const char* op : {"contiguous", "to", "dropout"}) {
    ASSERT_EQ(calls.of[op].outputs.size(), 1u) << op;
    EXPECT_TRUE(calls.of[op].outputs[0].is_same(x)) << op;
  }
}

TEST(OpObserver, SeesSeveralOutputs) {
  const Tensor x = random_tensor({4, 3}, DType::f32);
  Calls calls;
  const std::vector<Tensor> parts = split(x, 2);
  const AddLayerNorm made = add_layer_norm(x, x, {3});
  ASSERT_EQ(calls.of["split"].outputs.size(), 2u);
  EXPECT_TRUE(calls.of["split"].outputs[1].is_same(parts[1]));
  ASSERT_EQ(calls.of["add_layer_norm"].outputs.size(), 2u);
  EXPECT_TRUE(calls.of["add_layer_norm"].outputs[1].is_same(made.sum));
}

TEST(OpObserver, TellsACallThatRanOtherOpsFromOneOfAKernel) {
  const Tensor wide = random_tensor({2, 3}, DType::f32), low = to(wide, DType::bf16),
               row = random_tensor({3}, DType::f32);
  Calls calls;
  matmul(wide, transpose(wide, 0, 1));
  EXPECT_EQ(calls.of["matmul"].kind, OpKind::kernel);
  matmul(wide, row);
  EXPECT_EQ(calls.of["matmul"].kind, OpKind::composite);
  const Autocast autocast(DType::bf16);
  low + wide;
  EXPECT_EQ(calls.of["add"].kind, OpKind::composite);
}

struct OnceBackward final : Node {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = gy[0]; }
};
TEST(OpObserver, SeesNodesThatAreRecordedOutsideAnOp) {
  const Tensor x = random_leaf({2}, DType::f32);
  const Tensor y = clone(x.detach());
  Log log;
  record<OnceBackward>(y, x);
  EXPECT_THAT(log.lines, ElementsAre("result "));
}

}  // namespace
}  // namespace bytetape
