#include "bytetape/cuda/timer/launch_scopes.h"

namespace bytetape::cuda {

// A call of the runtime and the driver's call inside it may have the same number.
void LaunchScopes::add_launch(std::uint32_t number, const Launch& launch) {
  const std::lock_guard lock(mutex_);
  if (!launches_.insert_or_assign(number, launch).second) return;
  order_.push_back(number);
  if (order_.size() <= most_launches) return;
  launches_.erase(order_.front());
  order_.pop_front();
}

void LaunchScopes::add_node(std::uint64_t node, const memory::ScopeIds& scope) {
  const std::lock_guard lock(mutex_);
  keep(node, scope);
}

void LaunchScopes::add_copy(std::uint64_t node, std::uint64_t original) {
  const std::lock_guard lock(mutex_);
  const auto its = nodes_.find(original);
  if (its == nodes_.end()) return;
  const memory::ScopeIds scope = its->second;
  keep(node, scope);
}

void LaunchScopes::keep(std::uint64_t node, const memory::ScopeIds& scope) {
  if (!nodes_.insert_or_assign(node, scope).second) return;
  nodes_order_.push_back(node);
  if (nodes_order_.size() <= most_nodes) return;
  nodes_.erase(nodes_order_.front());
  nodes_order_.pop_front();
}

bool LaunchScopes::attribute(std::uint32_t launch, std::uint64_t node, memory::TimedWork& timed) const {
  const std::lock_guard lock(mutex_);
  const auto launched = launches_.find(launch);
  if (launched == launches_.end()) return false;
  const auto recorded = node ? nodes_.find(node) : nodes_.end();
  const memory::ScopeIds& scope = recorded != nodes_.end() ? recorded->second : launched->second.scope;
  timed.step = launched->second.step;
  timed.work.module = scope.module;
  timed.work.op = scope.op;
  timed.work.phase = scope.phase;
  return true;
}

void LaunchScopes::clear() {
  const std::lock_guard lock(mutex_);
  launches_.clear();
  order_.clear();
  nodes_.clear();
  nodes_order_.clear();
}

}  // namespace bytetape::cuda
