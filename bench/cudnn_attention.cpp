// Times cuDNN's causal attention without bytetape's op around it, in the shapes of bench/blocks. Prints a JSON line for
// each pass. If cuDNN refuses a pass, the line has its reason instead of times.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/cudnn_library.h"
#include "bytetape/bytetape.h"

namespace {

using namespace bytetape;
using cuda::CudnnTensor;
namespace fe = cudnn_frontend;

constexpr std::int64_t tokens = 1024, width = 2048;

/// The tensors of attention: (b, h, t, d) views of (b, t, h, d) in bf16, and the log-sum-exp (b, h, t, 1) in f32.
struct Operands {
  Operands(std::int64_t batch, std::int64_t heads) {
    for (Tensor* x : {&q, &k, &v, &y, &gy, &gq, &gk, &gv})
      *x = transpose(to(randn({batch, tokens, heads, width / heads}), DType::bf16), 1, 2);
    log_sum = zeros({batch, heads, tokens, 1});
  }
  Tensor q, k, v, y, gy, gq, gk, gv, log_sum;
};

/// A pass of attention as a graph of cuDNN.
class Pass : public bench::CudnnGraph {
 public:
  explicit Pass(const Operands& o) : CudnnGraph(fe::DataType_t::BFLOAT16), o_(o) {}
  void forward(bool has_stats) {
    const CudnnTensor q = input(o_.q), k = input(o_.k), v = input(o_.v);
    auto options = fe::graph::SDPA_attributes().set_generate_stats(has_stats);
    const auto [y, log_sum] = graph_.sdpa(q, k, v, causal(options));
    output(y, o_.y);
    if (has_stats) output(log_sum, o_.log_sum);
  }
  void backward(bool is_deterministic) {
    const CudnnTensor q = input(o_.q), k = input(o_.k), v = input(o_.v), y = input(o_.y), gy = input(o_.gy),
                      log_sum = input(o_.log_sum);
    auto options = fe::graph::SDPA_backward_attributes().set_deterministic_algorithm(is_deterministic);
    const auto [gq, gk, gv] = graph_.sdpa_backward(q, k, v, y, gy, log_sum, causal(options));
    output(gq, o_.gq), output(gk, o_.gk), output(gv, o_.gv);
  }

  /// Compiles the graph. Returns cuDNN's reason if it refuses the graph, and an empty string otherwise.
  std::string build(cudnnHandle_t handle) {
    try {
      return graph_.build(handle, {fe::HeurMode_t::A}).get_message();
    } catch (const fe::cudnnException& e) { return e.what(); }
  }
  /// The bytes of scratch memory of the compiled graph.
  std::int64_t workspace_size() const { return graph_.get_workspace_size(); }
  void run(cudnnHandle_t handle, const Tensor& workspace) const {
    cuda::CudnnPack pack = operands_;  // execute() adds to it
    if (fe::error_t status = graph_.execute(handle, pack, workspace.write().data()); status.is_bad())
      fail<Error>("cuDNN: ", status.get_message());
  }

 private:
  template <class Options>
  Options& causal(Options& options) const {
    options.set_attn_scale(static_cast<float>(1 / std::sqrt(static_cast<double>(o_.q.size(-1)))));
    return options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
  }

  const Operands& o_;
};

/// Returns the times of a compiled pass, captured as a CUDA graph.
nlohmann::ordered_json measure(const Pass& pass, double flop, const bench::CudnnOnStream& cudnn) {
  const Tensor workspace = empty({pass.workspace_size()}, DType::u8);
  const bench::Timing t = bench::time_captured(cudnn, 20, [&] { pass.run(cudnn.handle, workspace); });
  return {{"us", t.median / 1e3},
          {"us_min", t.min / 1e3},
          {"us_max", t.max / 1e3},
          {"tflops", flop / t.median / 1e3},
          {"workspace", workspace.numel()}};
}

/// Compiles a pass and prints its times.
void print(const std::string& part, double flop, const bench::CudnnOnStream& cudnn, Pass& pass) {
  nlohmann::ordered_json line{{"part", part}};
  if (const std::string refusal = pass.build(cudnn.handle); refusal.empty())
    line.update(measure(pass, flop, cudnn));
  else
    line["refusal"] = refusal;
  line["cudnn"] = cudnnGetVersion();
  std::cout << line.dump() << std::endl;
}

/// Times the passes of attention of width 2,048 on 1,024 tokens.
void attention(const bench::CudnnOnStream& cudnn, std::int64_t batch, std::int64_t heads) {
  const Operands operands(batch, heads);
  const std::string name = detail::concat("cudnn_attention_b", batch, "_h", heads, "_d", width / heads);
  const double flop = 2.0 * static_cast<double>(batch * tokens * tokens * width);  // half of 4 b t^2 width
  const auto time = [&](const char* suffix, double flop, void (Pass::*describe)(bool), bool option) {
    Pass pass(operands);
    (pass.*describe)(option);
    print(name + suffix, flop, cudnn, pass);
  };
  time("_forward", flop, &Pass::forward, false);
  time("_forward_stats", flop, &Pass::forward, true);  // writes what backward reads
  time("_backward_deterministic", 2.5 * flop, &Pass::backward, true);
  time("_backward", 2.5 * flop, &Pass::backward, false);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times cuDNN's attention without bytetape's ops; prints a JSON line for each pass."};
  std::int64_t batch = 16;
  app.add_option("--batch", batch, "default: 16")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return bench::run("cudnn_attention", [&] {
    const DefaultDevice here(Device::cuda());
    manual_seed(0);
    const bench::CudnnOnStream cudnn;
    attention(cudnn, batch, 32);
    attention(cudnn, batch, 16);
  });
}
