// Replaces memsets that libraries record. A memset between kernels of a graph takes about 5 us, mostly waiting for
// another engine of the device. An equivalent kernel takes 2 us.
#include "bytetape/cuda/runtime/graph_fills.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/timer/replaced_node.h"

namespace bytetape::cuda {
namespace {

/// Fills `bytes` bytes with repetitions of `word`, from an address that is a multiple of 4.
__global__ void fill_kernel(std::uint32_t* to, std::uint32_t word, std::size_t bytes) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x, words = bytes / 4;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += step) to[i] = word;
  const std::size_t rest = 4 * words + threadIdx.x;
  if (blockIdx.x == 0 && rest < bytes)
    reinterpret_cast<std::uint8_t*>(to)[rest] = static_cast<std::uint8_t>(word >> 8 * threadIdx.x);
}

std::uint32_t word_of(const cudaMemsetParams& p) {
  return p.elementSize == 1   ? (p.value & 0xffu) * 0x01010101u
         : p.elementSize == 2 ? (p.value & 0xffffu) * 0x10001u
                              : p.value;
}

#if CUDART_VERSION < 13000  // CUDA 12 has these functions, with edge data, under other names
#define cudaGraphNodeGetDependencies cudaGraphNodeGetDependencies_v2
#define cudaGraphNodeGetDependentNodes cudaGraphNodeGetDependentNodes_v2
#define cudaGraphAddDependencies cudaGraphAddDependencies_v2
#endif

/// Returns the nodes before or after a node. `get` is the driver's function for them.
template <class Get>
std::vector<cudaGraphNode_t> neighbours(cudaGraphNode_t node, const Get& get) {
  std::size_t count = 0;
  check(get(node, nullptr, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check(get(node, nodes.data(), nullptr, &count));
  return nodes;
}

void replace(cudaGraph_t graph, cudaGraphNode_t memset, const cudaMemsetParams& p) {
  std::size_t bytes = p.width * p.elementSize;
  std::uint32_t word = word_of(p);
  void* to = p.dst;
  void* arguments[] = {&to, &word, &bytes};
  cudaKernelNodeParams fill{};
  fill.func = reinterpret_cast<void*>(fill_kernel);
  fill.gridDim = dim3(static_cast<unsigned>(std::min<std::size_t>(bytes / (4 * block_size) + 1, 1024)));
  fill.blockDim = dim3(block_size);
  fill.kernelParams = arguments;
  const auto before = neighbours(memset, cudaGraphNodeGetDependencies);
  const auto behind = neighbours(memset, cudaGraphNodeGetDependentNodes);
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddKernelNode(&node, graph, before.data(), before.size(), &fill));
  for (cudaGraphNode_t next : behind) check(cudaGraphAddDependencies(graph, &node, &next, nullptr, 1));
  note_replaced_node(memset, node);
  check(cudaGraphDestroyNode(memset));
}

}  // namespace

void fill_by_kernels(cudaGraph_t graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check(cudaGraphGetNodes(graph, nodes.data(), &count));
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type));
    if (type != cudaGraphNodeTypeMemset) continue;
    cudaMemsetParams p{};
    check(cudaGraphMemsetNodeGetParams(node, &p));
    if (p.height == 1 && is_aligned(p.dst, 4)) replace(graph, node, p);
  }
}

}  // namespace bytetape::cuda
