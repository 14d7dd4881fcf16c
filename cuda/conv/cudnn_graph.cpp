#include "bytetape/cuda/conv/cudnn_graph.h"

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "bytetape/cuda/matmul/fastest.h"
#include "bytetape/cuda/matmul/ranks.h"
#include "bytetape/cuda/precision.h"
#include "bytetape/cuda/runtime/cudnn.h"
#include "bytetape/cuda/runtime/per_device.h"

namespace bytetape::cuda {

/// A compiled cuDNN graph.
class ConvGraph {
 public:
  enum Id : std::int64_t { x_id = 1, weight_id, y_id, bias_id };
  fe::graph::Graph graph;
  RankKey rank_key;
  std::size_t workspace = 0;  // bytes of workspace that it may use
  bool with_bias = false, is_capped = false, is_tuned = false;
  bool can_run = false;
  std::string failure;  // why a proposal could not be built; empty if cuDNN refused it
};

namespace {

/// All that a graph depends on.
using Key = std::array<std::int64_t, 21>;
constexpr std::size_t workspace_in_key = 4;

Key key_of(const ConvProblem& p, bool tf32) {
  const ConvSizes& s = p.sizes;
  return {static_cast<std::int64_t>(p.map),
          static_cast<std::int64_t>(s.dtype),
          p.channels_last + 2 * p.with_bias + 4 * tf32,
          static_cast<std::int64_t>(p.activation),
          static_cast<std::int64_t>(p.workspace),
          s.n,
          s.c,
          s.h,
          s.w,
          s.o,
          s.kh,
          s.kw,
          s.oh,
          s.ow,
          s.groups,
          s.p.stride.h,
          s.p.stride.w,
          s.p.padding.h,
          s.p.padding.w,
          s.p.dilation.h,
          s.p.dilation.w};
}

/// Returns the rank key of a graph. It leaves out the workspace, because cuDNN's proposals do not depend on it.
RankKey rank_key(const Key& key, Device device) {
  RankKey all{static_cast<std::int64_t>(Proposer::cudnn), capability(device),
              static_cast<std::int64_t>(cudnnGetVersion())};
  for (std::size_t i = 0; i < key.size(); ++i)
    if (i != workspace_in_key) all.push_back(key[i]);
  return all;
}

using Library = CudnnLibrary<Key, ConvGraph>;

Library& library_of(Device device) {
  return once_per_device(device.index, [device] { return Library(device); });
}

using Tensor = CudnnTensor;
using Integers = std::vector<std::int64_t>;

Integers strides_of(const Integers& d, bool channels_last) {
  if (channels_last) return {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};
  return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
}

bool fits(const ConvGraph& g) {
  std::int64_t workspace = 0;
  return g.graph.get_workspace_size(workspace).is_good() && workspace <= static_cast<std::int64_t>(g.workspace);
}

/// Selects proposal `rank`. Returns false if cuDNN cannot run it.
bool choose(ConvGraph& g, std::int64_t rank) {
  const fe::error_t status = g.graph.build_plan_at_index(rank);
  if (g.failure.empty()) g.failure = cudnn_failure(status.err_msg);
  return status.is_good() && fits(g);
}
/// Selects the first proposal that can run. Returns false if no proposal can.
bool choose_first(ConvGraph& g) {
  const std::int64_t count = g.graph.get_execution_plan_count();
  for (std::int64_t i = 0; i < count; ++i)
    if (choose(g, i)) return true;
  return false;
}

class Builder {
 public:
  explicit Builder(const ConvProblem& p, ConvGraph& result) : p_(p), s_(p.sizes), result_(&result) {}

  /// Returns false if cuDNN has no engine.
  bool build(cudnnHandle_t handle, bool tf32, RankKey rank_key) {
    fe::graph::Graph& graph = result_->graph;
    graph.set_io_data_type(cudnn_type(s_.dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    describe(graph);
    result_->with_bias = p_.with_bias;
    result_->workspace = p_.workspace;
    result_->is_capped = p_.workspace != p_.usual_workspace;
    result_->rank_key = std::move(rank_key);
    // Fallback engines are slower than other engines with a separate kernel for bias and activation.
    std::vector<fe::HeurMode_t> modes{fe::HeurMode_t::A};
    if (!p_.with_bias && p_.activation == Activation::none) modes.push_back(fe::HeurMode_t::FALLBACK);
    const auto is_good = [&](const fe::error_t& status) {
      if (status.is_bad()) result_->failure = cudnn_failure(status.err_msg);
      return status.is_good();
    };
    if (!is_good(graph.validate()) || !is_good(graph.build_operation_graph(handle)) ||
        !is_good(graph.create_execution_plans(modes)))
      return false;
    graph.deselect_workspace_greater_than(static_cast<std::int64_t>(p_.workspace));
    graph.deselect_numeric_notes(unwanted(tf32));
    const int rank = rank_of(result_->rank_key);
    return (rank > 0 && choose(*result_, rank)) || choose_first(*result_);
  }

 private:
  std::vector<fe::NumericalNote_t> unwanted(bool tf32) const {
    std::vector<fe::NumericalNote_t> notes{fe::NumericalNote_t::NONDETERMINISTIC};
    if (s_.dtype == DType::f32) {
      notes.push_back(fe::NumericalNote_t::DOWN_CONVERT_INPUTS);
      notes.push_back(fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION);
      if (!tf32) notes.push_back(fe::NumericalNote_t::TENSOR_CORE);  // tensor cores round f32 to TF32
    }
    return notes;
  }

  Integers x_dims() const { return {s_.n, s_.c, s_.h, s_.w}; }
  Integers weight_dims() const { return {s_.o, s_.group_in(), s_.kh, s_.kw}; }  // with groups, fewer channels than x
  Integers y_dims() const { return {s_.n, s_.o, s_.oh, s_.ow}; }

  Tensor input(ConvGraph::Id id, const Integers& dims) {
    return result_->graph.tensor(fe::graph::Tensor_attributes()
                                     .set_uid(id)
                                     .set_dim(dims)
                                     .set_stride(strides_of(dims, p_.channels_last))
                                     .set_alignment(cudnn_alignment)
                                     .set_data_type(cudnn_type(s_.dtype)));
  }
  void output(const Tensor& t, ConvGraph::Id id, const Integers& dims) {
    t->set_uid(id)
        .set_dim(dims)
        .set_stride(strides_of(dims, p_.channels_last))
        .set_alignment(cudnn_alignment)
        .set_data_type(cudnn_type(s_.dtype))
        .set_output(true);
  }
  /// Describes a tensor between two nodes of the forward graph.
  Tensor like_y(const Tensor& t) const {
    t->set_dim(y_dims()).set_stride(strides_of(y_dims(), p_.channels_last));
    return t;
  }
  template <class Attributes>
  Attributes geometry() const {
    const Conv2dParams& p = s_.p;
    return Attributes()
        .set_padding({p.padding.h, p.padding.w})
        .set_stride({p.stride.h, p.stride.w})
        .set_dilation({p.dilation.h, p.dilation.w});
  }

  Tensor x() { return input(ConvGraph::x_id, x_dims()); }
  Tensor weight() { return input(ConvGraph::weight_id, weight_dims()); }
  Tensor y() { return input(ConvGraph::y_id, y_dims()); }

  void describe(fe::graph::Graph& graph) {
    switch (p_.map) {
      case ConvMap::forward: {
        using fe::graph::Pointwise_attributes;
        Tensor y = graph.conv_fprop(x(), weight(), geometry<fe::graph::Conv_fprop_attributes>());
        if (p_.with_bias) {
          const Tensor bias = input(ConvGraph::bias_id, {1, s_.o, 1, 1});
          y = graph.pointwise(like_y(y), bias, Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
        }
        if (p_.activation == Activation::relu)
          y = graph.pointwise(like_y(y), Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
        return output(y, ConvGraph::y_id, y_dims());
      }
      case ConvMap::input_grad:
        return output(graph.conv_dgrad(y(), weight(), geometry<fe::graph::Conv_dgrad_attributes>()), ConvGraph::x_id,
                      x_dims());
      case ConvMap::weight_grad:
        return output(graph.conv_wgrad(y(), x(), geometry<fe::graph::Conv_wgrad_attributes>()), ConvGraph::weight_id,
                      weight_dims());
    }
  }

  const ConvProblem& p_;
  const ConvSizes& s_;
  ConvGraph* result_;
};

/// cuDNN reports refusals and failures by statuses, and some by exceptions.
std::shared_ptr<ConvGraph> build(const ConvProblem& problem, cudnnHandle_t handle, bool tf32, RankKey rank_key) {
  auto graph = std::make_shared<ConvGraph>();
  try {
    graph->can_run = Builder(problem, *graph).build(handle, tf32, std::move(rank_key));
  } catch (const fe::cudnnException& e) { graph->failure = cudnn_failure(e.what()); }
  return graph;
}

/// Runs each proposal a few times, and selects the fastest.
void tune(ConvGraph& g, Library& library, CudnnPack& pack, void* workspace) {
  constexpr std::int64_t most = 16;  // building each takes time
  g.is_tuned = true;
  const auto count = static_cast<int>(std::min(most, g.graph.get_execution_plan_count()));
  int chosen = -1;  // do not build again: the run is recorded, and a recording must not build
  const int rank = fastest(count, library.stream, [&](int i) {
    try {
      if (i != chosen && !choose(g, i)) return false;
      chosen = i;
      return g.graph.execute(library.handle, pack, workspace).is_good();
    } catch (const fe::cudnnException&) { return false; }
  });
  if (!choose(g, rank)) return void(choose_first(g));  // none of these can run
  if (!g.is_capped) set_rank(g.rank_key, rank);
}

}  // namespace

std::shared_ptr<ConvGraph> find_graph(const ConvProblem& problem, Device device) {
  Library& library = library_of(device);
  const bool tf32 = problem.sizes.dtype == DType::f32 && allow_tf32();
  const Key key = key_of(problem, tf32);
  const std::lock_guard lock(library.mutex);
  if (const auto* found = library.graphs.find(key)) return *found;
  // Compiles outside the recording, because a recording stream must not run what the compilation needs.
  const OutsideRecording outside;
  library.use(streams_of(device.index).get(memory::ambient.scope.stream));
  auto graph = build_with_memory(device, "a convolution",
                                 [&] { return build(problem, library.handle, tf32, rank_key(key, device)); });
  if (!graph->can_run) graph = nullptr;
  library.drop_some(device.index, most_graphs);
  return library.graphs.add(key, std::move(graph));
}

void run(const std::shared_ptr<ConvGraph>& graph, const ConvMemory& memory, void* workspace, Device device) {
  const auto at = [](const void* data) { return const_cast<void*>(data); };
  CudnnPack pack{
      {ConvGraph::x_id, at(memory.x)}, {ConvGraph::weight_id, at(memory.weight)}, {ConvGraph::y_id, at(memory.y)}};
  if (graph->with_bias) pack.emplace(ConvGraph::bias_id, at(memory.bias));
  Library& library = library_of(device);
  const std::lock_guard lock(library.mutex);
  library.use(stream_of(device));
  if (is_tuning() && !graph->is_tuned) tune(*graph, library, pack, workspace);
  auto status = graph->graph.execute(library.handle, pack, workspace);
  if (status.is_bad()) [[unlikely]]
    fail<Error>("cuDNN: ", status.get_message());
  keep_for_recording(device.index, graph);
}

}  // namespace bytetape::cuda
