#pragma once
#include <memory>
#include <vector>

#include "bytetape/core/state_dict.h"
#include "bytetape/distributed/group.h"
#include "bytetape/distributed/sharded/row.h"

namespace bytetape::optim {
class Optimizer;
}

namespace bytetape::dist {

using Rows = std::vector<std::unique_ptr<Row>>;

/// Returns an optimizer's whole state, on every rank. `optimizer` updates this rank's parts of `rows`.
StateDict joined_state(const Rows& rows, const Group& group, optim::Optimizer& optimizer);
/// Returns this rank's part of a state from joined_state().
/// Throws ShapeError if a tensor does not have the shape of its parameter.
StateDict own_state(const Rows& rows, optim::Optimizer& optimizer, const StateDict& state);

}  // namespace bytetape::dist
