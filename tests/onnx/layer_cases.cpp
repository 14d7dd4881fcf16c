#include "bytetape/bytetape.h"
#include "tests/onnx/cases.h"
#include "tests/support/random.h"

namespace bytetape::test {

ExportCase module_case(std::string name, std::shared_ptr<nn::Module> net, const Shape& shape) {
  const onnx::Function forward = [net](const std::vector<Tensor>& x) { return std::vector<Tensor>{(*net)(x[0])}; };
  const auto inputs = [shape](std::int64_t batch) {
    Shape full = shape;
    full.insert(0, batch);
    return NamedTensors{{"input", random_tensor(full, DType::f32)}};
  };
  return {std::move(name), std::move(net), forward, inputs};
}

namespace {

/// Gives norms other weights, biases and statistics than the initial 1 and 0.
std::shared_ptr<nn::Module> with_random_values(std::shared_ptr<nn::Module> net) {
  const NoGrad no_grad;
  NamedTensors all = net->named_parameters();
  for (auto& buffer : net->named_buffers()) all.push_back(buffer);
  for (const auto& [name, x] : all)
    if (is_floating(x.dtype())) copy_(x, abs(random_tensor(x.shape(), DType::f32)) + 0.5);
  return net;
}
template <class M>
ExportCase norm_case(std::string name, M net, const Shape& shape) {
  return module_case(std::move(name), with_random_values(std::make_shared<M>(std::move(net))), shape);
}

void add_linear(std::vector<ExportCase>& all) {
  all.push_back(layer_case("Linear", nn::Linear(5, 3), {5}));
  all.push_back(layer_case("LinearOfRows", nn::Linear(5, 3, false), {4, 5}));
  all.push_back(layer_case(
      "Mlp", nn::Sequential(nn::Flatten(), nn::Linear(12, 16), nn::ReLU(), nn::Dropout(0.5), nn::Linear(16, 3)),
      {3, 4}));
  all.push_back(layer_case("LinearGelu", nn::Sequential(nn::Linear(5, 8), nn::GELU(Approximate::tanh)), {5}));
  all.push_back({"Embedding", std::make_shared<nn::Embedding>(10, 4), {}, [](std::int64_t batch) {
                   return NamedTensors{{"tokens", randint(0, 10, {batch, 6})}};
                 }});
  all.back().function = [net = all.back().net](const auto& x) { return std::vector<Tensor>{(*net)(x[0])}; };
}

void add_activations(std::vector<ExportCase>& all) {
  all.push_back(layer_case("ReLU", nn::ReLU(), {4, 3}));
  all.push_back(layer_case("LeakyReLU", nn::LeakyReLU(0.1), {4, 3}));
  all.push_back(layer_case("GELU", nn::GELU(), {4, 3}));
  all.push_back(layer_case("GELUTanh", nn::GELU(Approximate::tanh), {4, 3}));
  all.push_back(layer_case("SiLU", nn::SiLU(), {4, 3}));
  all.push_back(layer_case("Tanh", nn::Tanh(), {4, 3}));
  all.push_back(layer_case("Sigmoid", nn::Sigmoid(), {4, 3}));
  all.push_back(layer_case("Softmax", nn::Softmax(-1), {4, 3}));
  all.push_back(layer_case("Dropout", nn::Dropout(), {4, 3}));
  all.push_back(layer_case("Identity", nn::Identity(), {4, 3}));
  all.push_back(layer_case("Lambda", nn::Lambda([](const Tensor& x) { return x * 2 + 1; }), {4, 3}));
  all.push_back(layer_case("Flatten", nn::Flatten(), {4, 3}));
}

void add_convolutions(std::vector<ExportCase>& all) {
  all.push_back(layer_case("Conv2d", nn::Conv2d(3, 5, 3), {3, 9, 8}));
  all.push_back(layer_case("Conv2dOptions",
                           nn::Conv2d(4, 6, {3, 2}, {.stride = {2, 1}, .padding = 1, .dilation = {1, 2}, .groups = 2}),
                           {4, 9, 8}));
  all.push_back(layer_case("Conv2dSame", nn::Conv2d(3, 5, 4, {.padding = "same", .bias = false}), {3, 9, 8}));
  all.push_back(layer_case("Conv1d", nn::Conv1d(3, 5, 3, {.stride = 2, .padding = 1}), {3, 9}));
  all.push_back(layer_case("Conv1dSame", nn::Conv1d(4, 6, 2, {.padding = "same", .groups = 2}), {4, 9}));
  all.push_back(layer_case("ConvTranspose2d",
                           nn::ConvTranspose2d(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}),
                           {4, 5, 6}));
  all.push_back(layer_case("ConvReLU", nn::Sequential(nn::Conv2d(3, 5, 3), nn::ReLU()), {3, 9, 8}));
  all.push_back(norm_case("ConvBatchNormReLU",
                          nn::Sequential(nn::Conv2d(3, 5, 3), nn::BatchNorm2d(5), nn::ReLU(), nn::MaxPool2d(2)),
                          {3, 9, 8}));
}

void add_pools(std::vector<ExportCase>& all) {
  all.push_back(layer_case("MaxPool2d", nn::MaxPool2d(3, 2, 1), {3, 9, 8}));
  const auto rectified = [](const Tensor& x) { return max_pool2d(x, {.kernel = 2}, Activation::relu); };
  all.push_back(layer_case("MaxPool2dWithReLU", nn::Lambda(rectified), {3, 9, 8}));
  all.push_back(layer_case("AvgPool2d", nn::AvgPool2d(3, 2, 1), {3, 9, 8}));
  all.push_back(layer_case("AvgPool2dWithoutPad", nn::AvgPool2d(3, 2, 1, false), {3, 9, 8}));
  all.push_back(layer_case("AdaptiveAvgPool2d", nn::AdaptiveAvgPool2d(1), {3, 9, 8}));
  all.push_back(layer_case("AdaptiveAvgPool2dDividing", nn::AdaptiveAvgPool2d({3, 4}), {3, 9, 8}));
  all.push_back(layer_case("AdaptiveAvgPool2dUneven", nn::AdaptiveAvgPool2d({4, 5}), {3, 9, 8}));
  using enum InterpolationMode;
  all.push_back(layer_case("UpsampleNearest", nn::Upsample({.scale_factor = 2}), {3, 5, 4}));
  all.push_back(layer_case("UpsampleNearestSize", nn::Upsample({.size = {7, 9}}), {3, 5, 4}));
  all.push_back(layer_case("UpsampleBilinear", nn::Upsample({.scale_factor = 2, .mode = bilinear}), {3, 5, 4}));
  all.push_back(layer_case("UpsampleBilinearSize", nn::Upsample({.size = {7, 9}, .mode = bilinear}), {3, 5, 4}));
  all.push_back(layer_case("UpsampleCorners", nn::Upsample({.size = {7, 9}, .mode = bilinear, .align_corners = true}),
                           {3, 5, 4}));
  all.push_back(layer_case("PixelShuffle", nn::PixelShuffle(2), {8, 3, 4}));
}

void add_norms(std::vector<ExportCase>& all) {
  all.push_back(norm_case("BatchNorm1d", nn::BatchNorm1d(5), {5}));
  all.push_back(norm_case("BatchNorm1dOfRows", nn::BatchNorm1d(5), {5, 4}));
  all.push_back(norm_case("BatchNorm2d", nn::BatchNorm2d(5), {5, 4, 3}));
  all.push_back(norm_case("BatchNorm2dPlain", nn::BatchNorm2d(5, {.affine = false}), {5, 4, 3}));
  all.push_back(norm_case("BatchNorm2dOfBatch", nn::BatchNorm2d(5, {.track_running_stats = false}), {5, 4, 3}));
  all.push_back(norm_case("GroupNorm", nn::GroupNorm(2, 6), {6, 4, 3}));
  all.push_back(norm_case("GroupNormOfRows", nn::GroupNorm(3, 6), {6}));
  all.push_back(norm_case("InstanceNorm2d", nn::InstanceNorm2d(3), {3, 4, 5}));
  all.push_back(norm_case("InstanceNorm2dAffine", nn::InstanceNorm2d(3, {.affine = true}), {3, 4, 5}));
  all.push_back(norm_case("LayerNorm", nn::LayerNorm(Shape{4, 3}), {5, 4, 3}));
  all.push_back(norm_case("LayerNormPlain", nn::LayerNorm(Shape{3}, {.elementwise_affine = false}), {4, 3}));
  all.push_back(norm_case("LayerNormWithoutBias", nn::LayerNorm(Shape{3}, {.bias = false}), {4, 3}));
  all.push_back(norm_case("RMSNorm", nn::RMSNorm(Shape{3}), {4, 3}));
}

void add_recurrent(std::vector<ExportCase>& all) {
  all.push_back(layer_case("LSTM", nn::LSTM(3, 4, {.batch_first = true}), {5, 3}));
  all.push_back(
      layer_case("LSTMTwoWays", nn::LSTM(3, 4, {.num_layers = 2, .batch_first = true, .bidirectional = true}), {5, 3}));
  all.push_back(layer_case("GRU", nn::GRU(3, 4, {.num_layers = 2, .batch_first = true}), {5, 3}));
  all.push_back({"GRUOfSteps",
                 std::make_shared<nn::GRU>(3, 4),
                 {},
                 [](std::int64_t batch) {
                   return NamedTensors{{"input", random_tensor({5, batch, 3}, DType::f32)}};
                 },
                 {.batch_dim = 1}});
  all.back().function = [net = all.back().net](const auto& x) { return std::vector<Tensor>{(*net)(x[0])}; };
  const auto lstm = std::make_shared<nn::LSTM>(3, 4, nn::RNNOptions{});
  const auto step = [lstm](const std::vector<Tensor>& x) {
    const auto [y, state] = (*lstm)(x[0], {x[1], x[2]});
    return std::vector<Tensor>{y, state.h, state.c};
  };
  all.push_back({"LSTMWithState",
                 lstm,
                 step,
                 [](std::int64_t batch) {
                   const auto state = [&] { return random_tensor({1, batch, 4}, DType::f32); };
                   return NamedTensors{{"x", random_tensor({2, batch, 3}, DType::f32)}, {"h", state()}, {"c", state()}};
                 },
                 {.batch_dim = 1, .output_names = {"y", "h_n", "c_n"}}});
}

void add_attention(std::vector<ExportCase>& all) {
  all.push_back(layer_case("MultiheadAttention", nn::MultiheadAttention(8, 2), {5, 8}));
  const auto attention = std::make_shared<nn::MultiheadAttention>(8, 2);
  const auto padded = [attention](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{(*attention)(x[0], x[1], x[1], {.key_padding_mask = x[2]})};
  };
  all.push_back({"AttentionOfPadded", attention, padded, [](std::int64_t batch) {
                   return NamedTensors{{"query", random_tensor({batch, 5, 8}, DType::f32)},
                                       {"memory", random_tensor({batch, 4, 8}, DType::f32)},
                                       {"padding", random_tensor({batch, 4}, DType::f32) > 0.5}};
                 }});
  all.push_back(
      layer_case("TransformerEncoderLayer", nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 16}), {5, 8}));
  all.push_back(layer_case("TransformerEncoderLayerFirst",
                           nn::TransformerEncoderLayer(
                               8, 2, {.dim_feedforward = 16, .activation = nn::FeedForward::gelu, .norm_first = true}),
                           {5, 8}));
  const auto decoder =
      std::make_shared<nn::TransformerDecoderLayer>(8, 2, nn::TransformerOptions{.dim_feedforward = 16});
  const auto decode = [decoder](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{(*decoder)(x[0], x[1], {.is_causal = true})};
  };
  all.push_back({"TransformerDecoderLayer", decoder, decode, [](std::int64_t batch) {
                   return NamedTensors{{"target", random_tensor({batch, 5, 8}, DType::f32)},
                                       {"memory", random_tensor({batch, 4, 8}, DType::f32)}};
                 }});
}

}  // namespace

std::vector<ExportCase> layer_cases() {
  std::vector<ExportCase> all;
  for (auto* add : {add_linear, add_activations, add_convolutions, add_pools, add_norms, add_recurrent, add_attention})
    add(all);
  return all;
}

}  // namespace bytetape::test
