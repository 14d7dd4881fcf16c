#include "bytetape/distributed/sharded/optimizer_state.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/check.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/distributed/collectives.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::dist {
namespace {

std::string path_of(std::size_t i) { return "state." + std::to_string(i); }

/// A piece whose part an optimizer updates.
struct Updated {
  Row* row;
  Row::Piece* piece;
};
/// Returns the pieces by the optimizer's numbers of their parts.
std::map<std::size_t, Updated> pieces_of(const Rows& rows, const optim::Optimizer& optimizer) {
  std::map<const TensorImpl*, Updated> by_part;
  for (const auto& row : rows)
    for (Row::Piece& piece : row->pieces()) by_part[piece.part.impl()] = {row.get(), &piece};
  std::map<std::size_t, Updated> pieces;
  for (std::size_t i = 0; i < optimizer.parameters().size(); ++i)
    if (const auto at = by_part.find(optimizer.parameters()[i].impl()); at != by_part.end()) pieces[i] = at->second;
  return pieces;
}

/// The steps and the names of the tensors of a parameter's state.
struct Outline {
  std::int64_t steps = 0;
  std::vector<std::string> names;
};

/// Returns the outlines of the states on this rank, a line for each.
std::string text_of(const StateDict& state, std::size_t parameters) {
  std::ostringstream text;
  for (std::size_t i = 0; i < parameters; ++i) {
    const StateDict part = state.part(path_of(i));
    if (!part.numbers.contains("step")) continue;
    text << i << ' ' << part.integer("step");
    for (const auto& [name, x] : part.tensors) text << ' ' << name;
    text << '\n';
  }
  return text.str();
}

/// Returns the text of the rank `root`.
std::string broadcast_text(std::string text, const Group& group, int root, Device device) {
  const Tensor size = broadcast(full({}, static_cast<std::int64_t>(text.size()), DType::i64, device), group, root);
  text.resize(static_cast<std::size_t>(size.item<std::int64_t>()));
  Tensor bytes = empty({static_cast<std::int64_t>(text.size())}, DType::u8, Device::cpu());
  std::copy(text.begin(), text.end(), bytes.data<std::uint8_t>());
  bytes = to(broadcast(to(bytes, device), group, root), Device::cpu());
  return {bytes.data<std::uint8_t>(), bytes.data<std::uint8_t>() + text.size()};
}

/// Returns the outlines of all ranks' states. A rank has none for a parameter of which it owns no element.
std::map<std::size_t, Outline> outlines(const StateDict& state, std::size_t parameters, const Group& group,
                                        Device device) {
  std::map<std::size_t, Outline> all;
  for (int root = 0; root < group.size(); ++root) {
    std::istringstream text(broadcast_text(text_of(state, parameters), group, root, device));
    for (std::string line; std::getline(text, line);) {
      std::istringstream words(line);
      std::size_t i = 0;
      Outline outline;
      words >> i >> outline.steps;
      for (std::string name; words >> name;) outline.names.push_back(name);
      all.emplace(i, std::move(outline));
    }
  }
  return all;
}

}  // namespace

StateDict joined_state(const Rows& rows, const Group& group, optim::Optimizer& optimizer) {
  const NoGrad no_grad;
  const memory::Op<"optimizer_state"> op;
  const StateDict own = optimizer.state_dict();
  const auto pieces = pieces_of(rows, optimizer);
  const std::size_t count = optimizer.parameters().size();
  const auto all = outlines(own, count, group, optimizer.parameters().front().device());
  std::map<std::pair<std::size_t, std::string>, Tensor> joined;
  for (const auto& row : rows) {
    std::set<std::string> names;
    for (const auto& [i, outline] : all)
      if (pieces.contains(i) && pieces.at(i).row == row.get()) names.insert(outline.names.begin(), outline.names.end());
    for (const std::string& name : names) {
      const auto state_of = [&](std::size_t i) {
        const std::string path = path_of(i) + "." + name;
        return own.has_tensor(path) ? own.tensor(path) : Tensor();
      };
      const Tensor whole = row->joined([&](const Row::Piece& piece) {
        for (const auto& [i, at] : pieces)
          if (at.piece == &piece) return state_of(i);
        return Tensor();
      });
      for (const auto& [i, at] : pieces)
        if (at.row == row.get()) joined[{i, name}] = clone(row->place(*at.piece, whole));
    }
  }
  StateDict state;
  for (const auto& [name, number] : own.numbers)
    if (name.starts_with("param_groups.")) state.numbers[name] = number;
  for (std::size_t i = 0; i < count; ++i) {
    const auto outline = all.find(i);
    if (!pieces.contains(i)) {
      state.add(path_of(i), own.part(path_of(i)));
    } else if (outline != all.end()) {
      StateDict kept;
      kept.numbers["step"] = outline->second.steps;
      for (const std::string& name : outline->second.names) kept.tensors.emplace_back(name, joined.at({i, name}));
      state.add(path_of(i), kept);
    }
  }
  return state;
}

StateDict own_state(const Rows& rows, optim::Optimizer& optimizer, const StateDict& state) {
  const NoGrad no_grad;
  const memory::Op<"load_optimizer_state"> op;
  const auto pieces = pieces_of(rows, optimizer);
  StateDict own = state;
  for (const auto& [i, at] : pieces) {
    const std::string prefix = path_of(i) + ".";
    const auto is_its = [&](const auto& named) { return named.first.starts_with(prefix); };
    const Tensor& p = at.piece->parameter;
    for (const auto& [name, x] : own.tensors)
      if (name.starts_with(prefix))
        check(x.defined() && x.shape() == p.shape(), "the state's '", name, "' does not fit the parameter '",
              at.piece->name, "', ", describe(p));
    if (at.piece->part.numel() == 0) {
      std::erase_if(own.tensors, is_its);
      std::erase_if(own.numbers, is_its);
    }
    for (auto& [name, x] : own.tensors)
      if (name.starts_with(prefix)) x = at.row->own_part(*at.piece, to(x, p.device(), at.piece->part.dtype()));
  }
  return own;
}

}  // namespace bytetape::dist
