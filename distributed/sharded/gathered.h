#pragma once
#include <cstddef>
#include <list>
#include <set>
#include <unordered_map>
#include <vector>

#include "bytetape/autograd/op_observer.h"
#include "bytetape/distributed/sharded/row.h"

namespace bytetape::dist {

/// Keeps the bytes of gathered rows within a bound, and gathers the next row before it is needed.
///
/// Before an op of forward that uses a row, others are freed, so that the bound holds. No op has the address of a row
/// then. Ops that use no row free none, because ranks may run different ones. Backward frees a row when its gradients
/// are complete.
///
/// While a row is used, the row that was gathered after it in the last pass, of forward or of backward, is gathered, on
/// a stream of its own, if the bound allows it.
class Gathered final : public OpObserver {
 public:
  explicit Gathered(std::size_t most) : most_(most) {}
  /// Adds a row. Call it before the row is used.
  void add(Row& row) { rows_[&row.storage()] = &row; }
  /// Call after the row was gathered.
  void note_gathered(Row& row);
  /// Frees a row of which backward has computed all gradients.
  void complete(Row& row);
  /// Frees a row.
  void drop(Row& row);

  void begin(const OpCall& call) override;
  /// Keeps what the op has written to rows.
  void end(const OpCall& call) noexcept override;

 private:
  /// Calls f(row) for each row of which the op has an input.
  template <class F>
  void for_rows_of(const OpCall& call, const F& f);
  bool make_room(std::size_t bytes);
  void enter_pass();
  void note_needed(Row& row);
  void await_ahead();
  void gather_ahead();

  const std::size_t most_;  // bytes
  std::size_t bytes_ = 0;
  std::list<Row*> order_;  // of the last use, the oldest first
  std::unordered_map<const Storage*, Row*> rows_;
  std::vector<Row*> used_;  // by the running op

  using Next = std::unordered_map<const Row*, Row*>;
  Next after_in_forward_, after_in_backward_;  // the row that was needed after a row; after null: the first one
  bool is_backward_ = false;                   // the pass of the last row
  const Row* last_ = nullptr;                  // the last row that had to be gathered in this pass
  Row* ahead_ = nullptr;                       // gathered, and not used yet
  std::set<const Row*> complete_;              // in this pass
};

}  // namespace bytetape::dist
