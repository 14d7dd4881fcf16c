#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "bytetape/core/memory/ledger/scope_ids.h"
#include "bytetape/core/memory/recording/device_timer.h"

namespace bytetape::cuda {

/// Remembers which scope launched each piece of work. Thread-safe.
class LaunchScopes {
 public:
  /// A call that launched work: a kernel, a copy, or a whole graph.
  struct Launch {
    memory::ScopeIds scope;
    memory::TimedStep step;
  };

  /// Notes a launch, by the driver's number. The latest `most_launches` are remembered.
  void add_launch(std::uint32_t number, const Launch& launch);
  /// Notes that a node was recorded into a graph. The latest `most_nodes` are remembered, copies included. Work of
  /// older ones belongs to the launch of their graph.
  void add_node(std::uint64_t node, const memory::ScopeIds& scope);
  /// Notes that a node has the scope of another one, because it is its copy in an executable graph.
  void add_copy(std::uint64_t node, std::uint64_t original);
  /// Sets the step, module, op and phase of work. The last three are those of the node, if it is known, else of the
  /// launch. `node` is 0 for work outside graphs. Returns false if the launch is unknown, because it belongs to no
  /// timed step.
  bool attribute(std::uint32_t launch, std::uint64_t node, memory::TimedWork& timed) const;
  void clear();

  static constexpr std::size_t most_launches = std::size_t{1} << 18;
  static constexpr std::size_t most_nodes = std::size_t{1} << 19;

 private:
  void keep(std::uint64_t node, const memory::ScopeIds& scope);

  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, Launch> launches_;
  std::deque<std::uint32_t> order_;  // numbers of launches_, the oldest first
  std::unordered_map<std::uint64_t, memory::ScopeIds> nodes_;
  std::deque<std::uint64_t> nodes_order_;  // numbers of nodes_, the oldest first
};

}  // namespace bytetape::cuda
