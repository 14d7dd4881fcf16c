#pragma once
#include <cudnn.h>

#define CUDNN_FRONTEND_SKIP_JSON_LIB  // graphs are never written to files
#define NV_CUDNN_FRONTEND_DISABLE_LOGGING
#include <cudnn_frontend.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/lru.h"
#include "bytetape/cuda/runtime/streams.h"

/// cuDNN's graphs, for the sources that need its headers.
namespace bytetape::cuda {

namespace fe = cudnn_frontend;

inline void check(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    fail<Error>("cuDNN: ", cudnnGetErrorString(status));
}

inline fe::DataType_t cudnn_type(DType t) {
  switch (t) {
    case DType::bf16:
      return fe::DataType_t::BFLOAT16;
    case DType::f16:
      return fe::DataType_t::HALF;
    default:
      return fe::DataType_t::FLOAT;
  }
}

using CudnnTensor = std::shared_ptr<fe::graph::Tensor_attributes>;
/// The addresses of a graph's tensors, by their ids.
using CudnnPack = std::unordered_map<std::int64_t, void*>;

/// Hashes an array of integers.
struct IntegersHash {
  template <std::size_t n>
  std::size_t operator()(const std::array<std::int64_t, n>& key) const {
    std::uint64_t h = 0;
    for (const std::int64_t v : key) {
      h = (h ^ static_cast<std::uint64_t>(v)) * 0x9e3779b97f4a7c15u;  // 2^64 / the golden ratio: Fibonacci hashing
      h ^= h >> 32;
    }
    return h;
  }
};

/// cuDNN on one device, with the graphs of one kind. The handle and the graphs made with it serve one thread at a time.
template <class Key, class Graph>
struct CudnnLibrary {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  Lru<Key, std::shared_ptr<Graph>, IntegersHash> graphs;  // null if cuDNN has no graph
  std::vector<std::shared_ptr<Graph>> dropped;            // removed from `graphs`, but maybe still in use

  explicit CudnnLibrary(Device device) {
    stream = stream_of(device);
    const OutsideRecording outside;
    check(cudnnCreate(&handle));
    check(cudnnSetStream(handle, stream));
  }
  void use(cudaStream_t now) {
    if (now == stream) return;
    check(cudnnSetStream(handle, now));
    stream = now;
  }
  /// Makes room for one graph among `most`. Graphs are destroyed only here, when no stream can be running their code.
  void drop_some(int index, std::size_t most) {
    while (graphs.size() > 0 && graphs.size() >= most) dropped.push_back(graphs.drop_last());
    if (dropped.empty()) return;
    synchronize_streams(index);
    std::erase_if(dropped, [](const auto& graph) { return graph.use_count() <= 1; });
  }
};

/// Returns cuDNN's message if building a plan failed. Empty if cuDNN refused the plan.
inline std::string cudnn_failure(const std::string& words) {
  constexpr std::string_view status = "CUDNN_STATUS_";
  const std::size_t at = words.rfind(status);
  if (at == std::string::npos) return {};  // our own filters deselected it
  const std::string_view name = std::string_view(words).substr(at + status.size());
  return name.starts_with("NOT_SUPPORTED") || name.starts_with("BAD_PARAM") ? std::string() : words;
}

/// Returns build(), whose result has a `failure`. If device memory may have been short for a plan's code, tries again
/// after the allocator has returned its cache. Never takes another engine instead, because its results have other bits.
/// Throws Error, which names `what`, if memory is still short.
template <class Build>
auto build_with_memory(Device device, const char* what, const Build& build) {
  constexpr std::size_t enough = std::size_t{256} << 20;
  const auto free_memory = [] {
    std::size_t free = 0, all = 0;
    check(cudaMemGetInfo(&free, &all));
    return free;
  };
  const auto is_in_doubt = [&](const auto& g) { return !g.failure.empty() && free_memory() < enough; };
  auto graph = build();
  if (is_in_doubt(*graph)) {
    cudaGetLastError();  // clears the driver's error, because the build is tried again
    memory::allocator(device).empty_cache();
    graph = build();
  }
  if (is_in_doubt(*graph))
    fail<Error>("cuDNN could not compile ", what, ", and the driver has only ", free_memory() >> 20, " MiB left on ",
                device, " for code: a lower set_limit() of its allocator leaves it some. cuDNN says: ", graph->failure);
  return graph;
}

}  // namespace bytetape::cuda
