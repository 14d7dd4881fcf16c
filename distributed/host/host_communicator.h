#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "bytetape/core/kernels/collective.h"

namespace bytetape::dist {

/// Runs the collectives of a group on host memory, by messages between its ranks.
///
/// Before each collective the ranks tell each other which one they call, so that a rank that calls another one, or
/// none, is named in an error. An all_reduce is a reduce_scatter, in which each rank combines one part of all ranks'
/// values in the order of ranks, and an all_gather of the parts.
class HostCommunicator final : public Communicator {
 public:
  /// `ranks` are the group's processes, by their ranks in MPI. `group` is a number that only this group has.
  HostCommunicator(std::vector<int> ranks, std::uint64_t group) : ranks_(std::move(ranks)), group_(group) {}
  void run(const CollectiveArgs& args, Workspace ws) override;

 private:
  struct Description;
  static const char* difference(const Description& a, const Description& b);
  void greet(const CollectiveArgs& a, const std::vector<int>& others);
  void pass(const CollectiveArgs& a, Workspace ws);
  void reduce_part(const CollectiveArgs& a, Workspace ws, const View& y);
  void gather(const CollectiveArgs& a, std::int64_t part);
  template <class Post>
  void exchange(const CollectiveArgs& a, Post post);
  std::vector<int> others(const CollectiveArgs& a) const;

  const std::vector<int> ranks_;
  const std::uint64_t group_;
  std::uint64_t sequence_ = 0;
};

}  // namespace bytetape::dist
