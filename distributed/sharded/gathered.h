#pragma once
#include <cstddef>
#include <list>
#include <unordered_map>

#include "bytetape/autograd/op_observer.h"
#include "bytetape/distributed/sharded/row.h"

namespace bytetape::dist {

/// Frees gathered rows before an op that uses a row, so that no more than a number of bytes are gathered. No op has the
/// address of a row then. Other ops free none, because ranks may run different ones. Backward is left alone: Sharded
/// frees a row when its gradients are complete.
class Gathered final : public OpObserver {
 public:
  explicit Gathered(std::size_t most) : most_(most) {}
  /// Adds a row. Call it before the row is used.
  void add(Row& row) { rows_[&row.storage()] = &row; }
  /// Call after the row was gathered.
  void note_gathered(Row& row);
  /// Frees a row.
  void drop(Row& row);

  void begin(const OpCall& call) override;
  /// Keeps what the op has written to rows.
  void end(const OpCall& call) noexcept override;

 private:
  /// Calls f(row) for each row of which the op has an input.
  template <class F>
  void for_rows_of(const OpCall& call, const F& f);

  const std::size_t most_;  // bytes
  std::size_t bytes_ = 0;
  std::list<Row*> order_;  // of the last use, the oldest first
  std::unordered_map<const Storage*, Row*> rows_;
};

}  // namespace bytetape::dist
