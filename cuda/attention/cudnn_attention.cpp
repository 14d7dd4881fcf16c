#include "bytetape/cuda/attention/cudnn_attention.h"

#include <algorithm>
#include <array>
#include <bit>

#include "bytetape/cuda/runtime/cudnn.h"
#include "bytetape/cuda/runtime/per_device.h"

namespace bytetape::cuda {
namespace {

/// The ids of a graph's tensors. Those read come first, then those written.
enum Id : std::int64_t { log_sum_id = 1, query_lengths, key_lengths, seed_id, offset_id, first_operand };

/// A compiled graph.
struct AttentionGraph {
  fe::graph::Graph graph;
  std::string failure;  // as build_with_memory() reads it
  std::string refusal;  // cuDNN's reason; empty if the graph can run
};

/// All that a graph depends on: the problem, and the strides of at most nine tensors.
using Key = std::array<std::int64_t, 12 + 9 * 3>;
using Library = CudnnLibrary<Key, AttentionGraph>;

constexpr std::size_t most_attention_graphs = 256;

Library& library_of(Device device) {
  return once_per_device(device.index, [device] { return Library(device); });
}

Key key_of(const FusedAttention& f) {
  const AttentionSizes& s = f.size;
  Key key{f.is_backward,
          static_cast<std::int64_t>(f.read[0].used.dtype),
          s.batch,
          s.heads,
          s.groups,
          s.n,
          s.m,
          s.d,
          s.e,
          s.is_causal,
          std::bit_cast<std::int64_t>(f.scale),
          std::bit_cast<std::int64_t>(f.p)};
  std::size_t at = 12;
  for (int d = 0; d < 3; ++d) key[at++] = f.log_sum.strides[d];
  for (const auto* operands : {&f.read, &f.written})
    for (const FusedOperand& o : *operands)
      for (int d = 0; d < 3; ++d) key[at++] = o.used.strides[d];
  return key;
}

std::vector<std::int64_t> list(const auto& sizes) { return {sizes.begin(), sizes.end()}; }

/// Describes a fused attention to cuDNN.
class Builder {
 public:
  Builder(const FusedAttention& f, fe::graph::Graph& graph) : f_(f), graph_(graph) {}

  void describe() {
    graph_.set_io_data_type(cudnn_type(f_.read[0].used.dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    f_.is_backward ? backward() : forward();
  }

 private:
  void forward() {
    const auto [q, k, v] = std::array{input(0), input(1), input(2)};
    auto options = fe::graph::SDPA_attributes().set_generate_stats(true);
    const auto [y, log_sum] = graph_.sdpa(q, k, v, with_mask(with_dropout(options)));
    output(y, 0);
    describe_log_sum(*log_sum).set_output(true);
  }
  void backward() {
    const auto [q, k, v, y, gy] = std::array{input(0), input(1), input(2), input(3), input(4)};
    fe::graph::Tensor_attributes stats;
    const CudnnTensor log_sum = graph_.tensor(describe_log_sum(stats));
    auto options = fe::graph::SDPA_backward_attributes().set_deterministic_algorithm(true);
    if (f_.lengths.defined())
      options.set_padding_mask(true).set_seq_len_q(length(query_lengths)).set_seq_len_kv(length(key_lengths));
    const auto [gq, gk, gv] = graph_.sdpa_backward(q, k, v, y, gy, log_sum, with_mask(with_dropout(options)));
    output(gq, 0), output(gk, 1), output(gv, 2);
  }

  template <class Options>
  Options& with_mask(Options& options) const {
    options.set_attn_scale(static_cast<float>(f_.scale));
    if (f_.size.is_causal)
      options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
    return options;
  }
  template <class Options>
  Options& with_dropout(Options& options) {
    if (f_.p == 0) return options;
    const auto number = [&](Id id) { return per_batch(id, 1, fe::DataType_t::INT64); };
    return options.set_dropout(static_cast<float>(f_.p), number(seed_id), number(offset_id));
  }
  fe::graph::Tensor_attributes& describe_log_sum(fe::graph::Tensor_attributes& t) const {
    const AttentionSizes& s = f_.size;
    return t.set_uid(log_sum_id)
        .set_dim({s.batch, s.heads, s.n, 1})
        .set_stride({f_.log_sum.strides[0], f_.log_sum.strides[1], f_.log_sum.strides[2], 1})
        .set_data_type(fe::DataType_t::FLOAT);
  }
  fe::graph::Tensor_attributes& describe(fe::graph::Tensor_attributes& t, const View& x, std::size_t id) const {
    return t.set_uid(static_cast<std::int64_t>(id))
        .set_dim(list(x.shape))
        .set_stride(list(x.strides))
        .set_alignment(16)
        .set_data_type(cudnn_type(x.dtype));
  }
  CudnnTensor input(std::size_t i) {
    fe::graph::Tensor_attributes t;
    return graph_.tensor(describe(t, f_.read[i].used, first_operand + i));
  }
  CudnnTensor length(Id id) { return per_batch(id, f_.size.batch, fe::DataType_t::INT32); }
  CudnnTensor per_batch(Id id, std::int64_t batch, fe::DataType_t type) {
    fe::graph::Tensor_attributes t;
    t.set_uid(id).set_dim({batch, 1, 1, 1}).set_stride({1, 1, 1, 1}).set_data_type(type);
    return graph_.tensor(t);
  }
  void output(const CudnnTensor& t, std::size_t i) {
    describe(*t, f_.written[i].used, first_operand + f_.read.size() + i).set_output(true);
  }

  const FusedAttention& f_;
  fe::graph::Graph& graph_;
};

std::shared_ptr<AttentionGraph> build(const FusedAttention& f, cudnnHandle_t handle) {
  auto result = std::make_shared<AttentionGraph>();
  fe::graph::Graph& graph = result->graph;
  const auto is_good = [&](const fe::error_t& status) {
    if (status.is_bad()) result->failure = cudnn_failure(status.err_msg), result->refusal = status.err_msg;
    return status.is_good();
  };
  try {
    Builder(f, graph).describe();
    std::int64_t workspace = 0;
    if (is_good(graph.validate()) && is_good(graph.build_operation_graph(handle)) &&
        is_good(graph.create_execution_plans({fe::HeurMode_t::A})) && is_good(graph.build_plans(handle)) &&
        is_good(graph.get_workspace_size(workspace)) && workspace > static_cast<std::int64_t>(f.library_bytes))
      result->refusal = detail::concat("it needs a workspace of ", workspace, " bytes, not of ", f.library_bytes);
  } catch (const fe::cudnnException& e) {
    result->failure = cudnn_failure(e.what());
    result->refusal = e.what();
  }
  return result;
}

std::shared_ptr<AttentionGraph> find_graph(const FusedAttention& f, Library& library, Device device) {
  const Key key = key_of(f);
  if (const auto* found = library.graphs.find(key)) return *found;
  // Compiles outside the recording, because a recording stream must not run what the compilation needs.
  const OutsideRecording outside;
  library.use(streams_of(device.index).get(memory::ambient.scope.stream));
  auto graph = build_with_memory(device, "an attention", [&] { return build(f, library.handle); });
  if (!graph->refusal.empty())
    fail<Error>("cuDNN refuses this attention: ", graph->refusal,
                "; after set_fused_attention(false), or with AttentionOptions::fused = false, it is computed by matrix "
                "products");
  library.drop_some(device.index, most_attention_graphs);
  return library.graphs.add(key, std::move(graph));
}

}  // namespace

void run_fused(const FusedAttention& f) {
  const Device device = f.log_sum.device;
  CudnnPack pack{{log_sum_id, const_cast<void*>(f.log_sum.data())}};
  if (f.lengths.defined()) {
    pack.emplace(query_lengths, f.lengths.data());
    pack.emplace(key_lengths, f.lengths.as<std::int32_t>() + f.size.batch);
  }
  if (f.seed.defined()) {
    pack.emplace(seed_id, f.seed.data());
    pack.emplace(offset_id, f.seed.as<std::int64_t>() + 1);
  }
  std::int64_t id = first_operand;
  for (const auto* operands : {&f.read, &f.written})
    for (const FusedOperand& o : *operands) pack.emplace(id++, o.used.data());
  Library& library = library_of(device);
  const std::lock_guard lock(library.mutex);
  const auto graph = find_graph(f, library, device);
  library.use(stream_of(device));
  if (auto status = graph->graph.execute(library.handle, pack, f.library); status.is_bad()) [[unlikely]]
    fail<Error>("cuDNN: ", status.get_message());
  keep_for_recording(device.index, graph);
}

}  // namespace bytetape::cuda
