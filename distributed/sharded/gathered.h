#pragma once
#include <cstddef>
#include <list>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "bytetape/autograd/op_observer.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/distributed/sharded/row.h"

namespace bytetape::dist {

/// Gathers rows, keeps the bytes of gathered rows within a bound, and gathers the next row before it is needed.
///
/// An op that uses rows first gathers them. Before that, an op of forward frees others, so that the bound holds. No op
/// has the address of a row then. Ops that use no row free none, because ranks may run different ones. Backward frees a
/// row when its gradients are complete.
///
/// While a row is used, the row that was needed after it in the last pass, of forward or of backward, is gathered, on a
/// stream of its own, if the bound allows it.
///
/// A captured step gathers its rows itself, so none is gathered where it begins and ends.
class Gathered final : public OpObserver, public std::enable_shared_from_this<Gathered> {
 public:
  explicit Gathered(std::size_t most) : most_(most) {}
  /// Adds a row. Call it before the row is used.
  void add(Row& row) { rows_[&row.storage()] = &row; }
  /// Call after the row was gathered.
  void note_gathered(Row& row);
  void begin_backward() { complete_.clear(); }
  /// Frees a row of which backward has computed all gradients.
  void complete(Row& row);
  /// Frees a row.
  void drop(Row& row);

  void begin(const OpCall& call) override;
  /// Keeps what the op has written to rows.
  void end(const OpCall& call) noexcept override;

 private:
  std::vector<Row*> rows_of(const OpCall& call) const;
  std::size_t bytes();
  void make_room(std::size_t more);
  bool make_room_ahead(const Row& row);
  void enter_capture();
  void enter_pass();
  bool use(Row& row);
  void note_needed(Row& row);
  void await_ahead();
  void gather(Row& row);
  void gather_ahead();
  void drop_all();

  const std::size_t most_;  // bytes
  std::list<Row*> order_;   // gathered rows by their last use, the oldest first, and some that were dropped since
  std::unordered_map<const Storage*, Row*> rows_;
  std::vector<Row*> used_;     // by the running op
  bool is_gathering_ = false;  // for an op, or ahead
  const detail::Capture* capture_ = nullptr;

  using Next = std::unordered_map<const Row*, Row*>;
  Next after_in_forward_, after_in_backward_;  // the row that was needed after a row; after null: the first one
  bool is_backward_ = false;                   // the pass of the last row
  const Row* last_ = nullptr;                  // the last row that had to be gathered in this pass
  Row* ahead_ = nullptr;                       // gathered, and not used yet
  std::set<const Row*> freed_for_ahead_;       // to gather it
  std::set<const Row*> stays_;                 // such rows that were needed before it; they are freed for none any more
  std::set<const Row*> complete_;              // in this backward
};

}  // namespace bytetape::dist
