// What onnx::save() refuses, and what it leaves as it was.
#include "bytetape/onnx/save.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "bytetape/bytetape.h"
#include "bytetape/onnx/ops/table.h"
#include "tests/onnx/cases.h"
#include "tests/ops/op_list.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_dir.h"

namespace bytetape::test {
namespace {

using Tensors = std::vector<Tensor>;

/// Expects that a function of one tensor is refused, with all the words, and that nothing is written.
void expect_refused(const std::function<Tensor(const Tensor&)>& f, const std::vector<std::string>& words,
                    const onnx::SaveOptions& options = {}) {
  const TemporaryDir folder;
  nn::Lambda net(f);
  for (const std::string& w : words)
    EXPECT_TRUE(throws_saying<NotImplemented>(
        [&] {
          onnx::save(folder / "net.onnx", net, random_tensor({2, 4}, DType::f32), options);
        },
        w));
  EXPECT_EQ(folder.files(), 0);
}

/// Each op of docs/ops.md is exported, refused with a reason, or made of ops that are.
TEST(OnnxOps, EachIsExportedOrRefused) {
  const std::vector<std::string> parts{"chunk", "index", "split", "std", "sum_to", "var", "zero_"};
  for (const std::string& op : documented_ops()) {
    const bool is_made_of_others = std::find(parts.begin(), parts.end(), op) != parts.end();
    EXPECT_EQ(onnx::is_exported(op) + onnx::is_refused(op) + is_made_of_others, 1)
        << op << ": add a converter in onnx/ops, or a reason against it in onnx/ops/table.cpp";
  }
  EXPECT_GT(documented_ops().size(), 130u);
}

/// The list of ops has a case of each exported op, so that onnxruntime checks it.
TEST(OnnxOps, EachExportedOneHasACase) {
  for (const std::string& op : documented_ops()) {
    const auto is_of_op = [&](const OpRow& row) { return row.op == op && refusal_of_row(row.name()).empty(); };
    const bool is_expected = op != "dropout" && !onnx::is_refused(op);
    EXPECT_TRUE(!is_expected || std::any_of(op_list().begin(), op_list().end(), is_of_op)) << op;
  }
}

/// Returns the words in backticks of the first column of the tables of docs/layers.md that begin with a capital.
std::vector<std::string> documented_layers() {
  std::ifstream page(source_dir() / "docs" / "layers.md");
  std::vector<std::string> layers;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    std::istringstream column(line.substr(2, line.find(" |") - 2));
    for (std::string word; std::getline(column, word, '`');)
      if (!word.empty() && std::isupper(static_cast<unsigned char>(word[0]))) layers.push_back(word);
  }
  return layers;
}

/// Each layer of docs/layers.md has a case. Models contain the others.
TEST(OnnxLayers, EachHasACase) {
  const std::vector<ExportCase> cases = layer_cases();
  const std::vector<std::string> layers = documented_layers();
  for (const std::string& layer : layers) {
    const auto is_of_layer = [&](const ExportCase& c) { return c.name.starts_with(layer); };
    const bool is_container = layer == "Sequential" || layer == "ModuleList";
    EXPECT_TRUE(is_container || std::any_of(cases.begin(), cases.end(), is_of_layer)) << layer;
  }
  EXPECT_GT(layers.size(), 30u);
}

TEST(OnnxSave, NamesAllOpsThatCannotBeExported) {
  struct Net : nn::Module {
    nn::Linear fc{4, 4};
    nn::Lambda noise{[](const Tensor& x) { return dropout(x, 0.5); }};
    Net() { register_module("fc", fc), register_module("noise", noise); }
    Tensor forward(const Tensor& x) override {
      return cat({noise(fc(x)), to(multinomial(softmax(x, 1), 1), DType::f32)}, 1);
    }
  } net;
  const TemporaryDir folder;
  const auto save = [&] { onnx::save(folder / "net.onnx", net, random_tensor({2, 4}, DType::f32)); };
  EXPECT_TRUE(throws_saying<NotImplemented>(save, "'multinomial': it draws random numbers"));
  EXPECT_TRUE(throws_saying<NotImplemented>(save, "'dropout' in 'noise': it drops elements, as in training"));
  EXPECT_EQ(folder.files(), 0);
}

TEST(OnnxSave, RefusesOpsThatDependOnTheBatchSize) {
  expect_refused([](const Tensor& x) { return x.size(0) % 2 == 0 ? relu(x) : tanh(x); },
                 {"the ops that run depend on the batch size", "'relu'", "'tanh'", "set dynamic_batch to false"});
  expect_refused([](const Tensor& x) { return x + unsqueeze(to(arange(x.size(0)), DType::f32), 1); },
                 {"uses a constant", "whose elements depend on the batch size"});
  expect_refused([](const Tensor& x) { return x * static_cast<double>(x.size(0)); },
                 {"'mul': a number depends on the batch size: it is 2 and 5"});
  expect_refused(
      [](const Tensor& x) {
        return expand(mean(x, {0, 1}), {x.size(0) * x.size(0)});
      },
      {"'expand': a size depends on the batch size, but is no multiple of it: it is 4 for a batch of 2"});
  expect_refused(
      [](const Tensor& x) {
        return view(x, {2, 2, 2});
      },
      {"the function fails for a batch of 5: view: shape (2, 2, 2) does not fit", "set dynamic_batch"});
  expect_refused([](const Tensor& x) { return narrow(x, 0, 0, x.size(0) / 2); },
                 {"'narrow': a size depends on the batch size, but is no multiple of it: it is 1 for a batch of 2"});
  expect_refused([](const Tensor& x) { return select(x, 0, -1); }, {"'select': 'index' depends on the batch size"});
}

TEST(OnnxSave, RefusesSizesThatAreFixedForSmallBatchesOnly) {
  const TemporaryDir folder;
  nn::Lambda net([](const Tensor& x) { return expand(mean(x, 0, true), {std::max<std::int64_t>(x.size(0), 8), 4}); });
  EXPECT_TRUE(throws_saying<NotImplemented>(
      [&] {
        onnx::save(folder / "net.onnx", net, random_tensor({8, 4}, DType::f32));
      },
      "sizes or constants in 'expand_3' depend on the batch size"));
  EXPECT_EQ(folder.files(), 0);
}

TEST(OnnxSave, RefusesOpsUnderAutocast) {
  const auto under_autocast = [](const Tensor& x) {
    const Autocast autocast(DType::f16);
    return softmax(matmul(x, transpose(x, 0, 1)), 1);
  };
  expect_refused(under_autocast, {"'matmul': it runs under Autocast", "'softmax': it runs under Autocast"},
                 {.dynamic_batch = false});
  const TemporaryDir folder;
  nn::Lambda without_conversions([](const Tensor& x) {
    const Autocast autocast(DType::f16);
    return softmax(relu(x), 1);
  });
  onnx::save(folder / "net.onnx", without_conversions, random_tensor({2, 4}, DType::f32));
  EXPECT_EQ(folder.files(), 1);
}

TEST(OnnxSave, RefusesDtypesThatOnnxLacks) {
  expect_refused(
      [](const Tensor& x) {
        return to(conv1d(to(unsqueeze(x, 1), DType::bf16), ones({1, 1, 3}, DType::bf16)), DType::f32);
      },
      {"Conv", "conv", "bfloat16"});
  expect_refused([](const Tensor& x) { return to(pow(to(x, DType::u8), 2), DType::f32); }, {"Pow", "uint8"});
}

TEST(OnnxSave, ExportsOpsThatDependOnTheBatchSizeForOneSize) {
  const TemporaryDir folder;
  nn::Lambda net([](const Tensor& x) { return x * static_cast<double>(x.size(0)); });
  onnx::save(folder / "net.onnx", net, random_tensor({2, 4}, DType::f32), {.dynamic_batch = false});
  EXPECT_EQ(folder.files(), 1);
}

TEST(OnnxSave, RefusesAResultThatDependsOnTheBatchSize) {
  expect_refused([](const Tensor& x) { return arange(x.size(0)); },
                 {"result 'output'", "elements depend on the batch"});
}

TEST(OnnxSave, RefusesOpsInPlaceOnParameters) {
  struct Net : nn::Module {
    nn::Parameter scale = register_parameter("scale", ones({4}));
    Tensor forward(const Tensor& x) override { return x * mul_(scale, 2); }
  } net;
  const TemporaryDir folder;
  const auto save = [&] { onnx::save(folder / "net.onnx", net, random_tensor({2, 4}, DType::f32)); };
  EXPECT_TRUE(throws_saying<NotImplemented>(save, "'mul_': it overwrites 'scale'"));
  EXPECT_EQ(net.scale.to_vector<float>()[0], 1);
}

TEST(OnnxSave, RefusesStateBetweenRuns) {
  const Tensor count = zeros({1});
  const auto f = [&](const Tensor& x) {
    add_(count, 1);
    return x + 1;
  };
  const std::string words = "'add_': it overwrites a tensor that outlives the function, f32(1,) on cpu";
  expect_refused(f, {words});
  expect_refused(f, {words}, {.dynamic_batch = false});
}

TEST(OnnxSave, RefusesRandomConstants) {
  std::mt19937 engine;
  const auto f = [&](const Tensor& x) { return x + full({}, static_cast<double>(engine())); };
  expect_refused(f, {"elements depend on the batch size, or differ between two runs"}, {.dynamic_batch = false});
}

TEST(OnnxSave, ChecksItsArguments) {
  const TemporaryDir folder;
  const std::string path = folder / "net.onnx";
  nn::Linear net(4, 3);
  const Tensor x = random_tensor({2, 4}, DType::f32);
  const auto f = [&](const Tensors& given) { return Tensors{net(given[0])}; };
  EXPECT_TRUE(throws_saying<ValueError>([&] { onnx::save(path, net, Tensor()); }, "'input' is undefined"));
  EXPECT_TRUE(throws_saying<ValueError>([&] { onnx::save(path, net, f, {}); }, "at least one input"));
  EXPECT_TRUE(throws_saying<ValueError>(
      [&] {
        onnx::save(path, net, f, {{"x", x}, {"x", x}});
      },
      "'x' of inputs is empty or repeated"));
  EXPECT_TRUE(throws_saying<ValueError>([&] { onnx::save(path, net, x, {.batch_dim = 2}); }, "no batch in dim 2"));
  EXPECT_TRUE(throws_saying<ValueError>(
      [&] {
        onnx::save(path, net, f, {{"x", x}, {"y", zeros({3, 4})}});
      },
      "different batch sizes"));
  EXPECT_TRUE(throws_saying<ValueError>(
      [&] {
        onnx::save(path, net, x, {.output_names = {"a", "b"}});
      },
      "expected 1 names of results, got 2"));
  EXPECT_TRUE(throws_saying<ValueError>([&] { onnx::save(path, net, x, {.output_names = {"a\xff"}}); },
                                        "of results is not UTF-8"));
  EXPECT_TRUE(throws_saying<ValueError>([&] { onnx::save(path, net, x, {.unbatched_inputs = {"mask"}}); },
                                        "the unbatched input 'mask' is none of the inputs"));
  EXPECT_TRUE(throws_saying<ValueError>(
      [&] {
        onnx::save(path, net, f, {{"x", x}}, {.unbatched_inputs = {"x"}});
      },
      "all inputs are unbatched"));
  EXPECT_TRUE(throws_saying<ValueError>(
      [&] {
        onnx::save(path, net, [](const Tensors&) { return Tensors{}; }, {{"x", x}});
      },
      "the function returns no tensor"));
  EXPECT_TRUE(throws_saying<ValueError>([&] { onnx::save(path, net, x, {.input_names = {"weight"}}); },
                                        "the name 'weight' of an input"));
  EXPECT_TRUE(throws_saying<DeviceError>(
      [&] {
        onnx::save(path, net, zeros({2, 4}, DType::f32, Device::meta()));
      },
      "has no data"));
  EXPECT_TRUE(throws_saying<ShapeError>([&] { onnx::save(path, net, zeros({2, 5})); }, "linear"));
  EXPECT_TRUE(
      throws_saying<FileError>([&] { onnx::save(folder / "no/net.onnx", net, x); }, "cannot write an ONNX model"));
  net.to(Device::meta());
  EXPECT_TRUE(throws_saying<DeviceError>([&] { onnx::save(path, net, x); }, "'weight' has no data"));
  EXPECT_EQ(folder.files(), 0);
}

TEST(OnnxSave, LeavesTheModuleAndTheExampleAsTheyWere) {
  const TemporaryDir folder;
  nn::Sequential net(nn::Linear(4, 4), nn::BatchNorm1d(4), nn::Dropout(0.5),
                     nn::Lambda([](const Tensor& x) { return relu_(x); }));
  net[1].eval();
  const Tensor x = random_tensor({2, 4}, DType::f32), before = clone(x);
  const NamedTensors state = net.state_dict();
  std::vector<std::uint32_t> versions;
  for (const auto& [name, v] : state) versions.push_back(v.storage().version());
  onnx::save(folder / "net.onnx", net, x);
  EXPECT_TRUE(net.is_training() && net[0].is_training() && !net[1].is_training() && net[2].is_training());
  EXPECT_TRUE(all(x == before).item<bool>());
  for (std::size_t i = 0; i < state.size(); ++i) EXPECT_EQ(state[i].second.storage().version(), versions[i]);
  EXPECT_TRUE(net[0](x).requires_grad()) << "gradients are recorded again";
}

TEST(OnnxSave, StoresTiedParametersOnce) {
  struct Net : nn::Module {
    nn::Embedding in{40, 16};
    nn::Linear out{16, 40, false};
    Net() { register_module("in", in), register_module("out", out), out.weight = in.weight; }
    Tensor forward(const Tensor& x) override { return out(in(x)); }
  } net;
  const TemporaryDir folder;
  onnx::save(folder / "net.onnx", net, randint(0, 40, {2, 3}));
  const std::string bytes = content_of(folder / "net.onnx");
  EXPECT_GT(bytes.size(), 40u * 16 * 4);
  EXPECT_LT(bytes.size(), 40u * 16 * 4 + 2000);
}

TEST(OnnxSave, WritesWeightsBesideTheModel) {
  const TemporaryDir folder;
  nn::Linear net(64, 64);
  onnx::save(folder / "net.onnx", net, random_tensor({2, 64}, DType::f32), {.external_data = true});
  EXPECT_EQ(folder.files(), 2);
  EXPECT_LT(content_of(folder / "net.onnx").size(), 2000u);
  EXPECT_EQ(content_of(folder / "net.onnx.data").size(), 64u * 64 * 4);
}

TEST(OnnxSave, AlignsWeightsBesideTheModel) {
  const TemporaryDir folder;
  nn::Sequential net(nn::Linear(31, 17, false), nn::Linear(17, 23, false));
  onnx::save(folder / "net.onnx", net, random_tensor({2, 31}, DType::f32), {.external_data = true});
  const auto bytes = [](const Tensor& x) {
    return std::string(reinterpret_cast<const char*>(x.data<float>()), x.nbytes());
  };
  const std::vector<Tensor> weights = net.parameters();
  const std::size_t first_bytes = 31 * 17 * 4, offset = 2112;  // the next multiple of 64
  EXPECT_EQ(content_of(folder / "net.onnx.data"),
            bytes(weights[0]) + std::string(offset - first_bytes, '\0') + bytes(weights[1]));
  EXPECT_NE(content_of(folder / "net.onnx").find(std::to_string(offset)), std::string::npos);
}

}  // namespace
}  // namespace bytetape::test
