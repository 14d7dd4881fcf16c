// The main file names its set by a number, and has the layout of each parameter. A rank's file has, for each parameter
// of which it owns elements, their place, values and optimizer state. Ranks write their files under the number of a new
// set. Then rank 0 replaces the main file, which makes the new set the current one, and removes the old set.
#include "bytetape/distributed/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <span>
#include <system_error>
#include <utility>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/check.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/distributed/between_processes.h"
#include "bytetape/distributed/collectives.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::dist {
namespace {

namespace fs = std::filesystem;

std::string path_of_rank(const std::string& path, std::int64_t set, std::int64_t rank, std::int64_t ranks) {
  return detail::concat(path, ".", set, "-", rank, "-of-", ranks);
}

/// The number of a set, and of the ranks that wrote it.
struct SetNumbers {
  std::int64_t set = 0, ranks = 0;
};
/// Reads the main file. Returns 0 for both if there is no set.
SetNumbers current_set(const std::string& path) {
  if (!fs::exists(path)) return {};
  try {
    const Checkpoint main(path);
    return {main.integer("set"), main.integer("ranks")};
  } catch (const Error&) { return {}; }  // a file of another kind is replaced
}

/// Removes the files of all sets but the current one, also those that a crash has left.
void remove_others(const std::string& path, std::int64_t current) {
  const fs::path main = fs::absolute(path);
  const std::string prefix = main.filename().string() + ".";
  const std::regex of_rank("([0-9]+)-[0-9]+-of-[0-9]+");  // as path_of_rank() names files
  std::error_code ignored;                                // a file that stays does no harm
  for (const auto& entry : fs::directory_iterator(main.parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    std::smatch found;
    if (!name.starts_with(prefix)) continue;
    const std::string ending = name.substr(prefix.size());
    if (!std::regex_match(ending, found, of_rank) || found[1] == std::to_string(current)) continue;
    fs::remove(entry.path(), ignored);
  }
}

/// Returns the optimizer's number of each part.
std::vector<std::size_t> numbers_in(const optim::Optimizer& optimizer, const std::vector<Sharded::Part>& parts) {
  const std::vector<Tensor>& all = optimizer.parameters();
  std::vector<std::size_t> numbers;
  for (const Sharded::Part& part : parts) {
    const auto at = std::ranges::find_if(all, [&](const Tensor& p) { return p.is_same(part.values); });
    check<ValueError>(at != all.end(), "the optimizer lacks the part of '", part.name, "'");
    numbers.push_back(static_cast<std::size_t>(at - all.begin()));
  }
  check<ValueError>(all.size() == parts.size(), "the optimizer has ", all.size(), " parameters, and the module ",
                    parts.size());
  return numbers;
}

std::string state_path(std::size_t number) { return "state." + std::to_string(number); }

/// Returns the elements of a part as a row.
Tensor row_of(const Tensor& x) { return x.detach().alias({x.numel()}, {1}, x.storage_offset()); }

StateDict own_file(const std::vector<Sharded::Part>& parts, const std::vector<std::size_t>& numbers,
                   const StateDict& optimizer_state, std::int64_t set) {
  StateDict own;
  own.numbers["set"] = set;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Sharded::Part& part = parts[i];
    if (part.begin == part.end) continue;
    StateDict entry = optimizer_state.part(state_path(numbers[i]));
    for (auto& [name, x] : entry.tensors) x = row_of(x);
    entry.tensors.emplace_back("values", row_of(part.values));
    entry.numbers["begin"] = part.begin;
    own.add(part.name, entry);
  }
  return own;
}

/// Returns the module's tensors that are not sharded.
NamedTensors others_of(const Sharded& sharded) {
  NamedTensors others;
  const auto parts = sharded.parts();
  for (const auto& named : sharded.module().named_parameters())
    if (std::ranges::none_of(parts, [&](const auto& part) { return part.name == named.first; }))
      others.push_back(named);
  const NamedTensors all = sharded.module().state_dict();
  for (const auto& [name, x] : sharded.module().named_buffers())
    if (std::ranges::any_of(all, [&, &x = x](const auto& named) { return named.second.is_same(x); }))
      others.emplace_back(name, x);
  return others;
}

/// Returns shape and strides of a parameter, as a tensor of two rows.
Tensor layout_of(const Sharded::Part& part) {
  const Tensor layout = empty({2, part.shape.size()}, DType::i64, Device::cpu());
  std::int64_t* const to = Tensor(layout).data<std::int64_t>();
  std::copy(part.shape.begin(), part.shape.end(), to);
  std::copy(part.strides.begin(), part.strides.end(), to + part.shape.size());
  return layout;
}

StateDict main_file(const Sharded& sharded, const StateDict& optimizer_state, const StateDict& state,
                    const SetNumbers& numbers) {
  StateDict main;
  main.numbers["set"] = numbers.set;
  main.numbers["ranks"] = numbers.ranks;
  StateDict layouts, others, groups;
  for (const Sharded::Part& part : sharded.parts()) layouts.tensors.emplace_back(part.name, layout_of(part));
  others.tensors = others_of(sharded);
  for (const auto& [name, number] : optimizer_state.numbers)
    if (name.starts_with("param_groups.")) groups.numbers[name] = number;
  main.add("layout", layouts);
  main.add("others", others);
  main.add("optimizer", groups);
  main.add("state", state);
  return main;
}

/// Calls write() on this rank. Throws FileError on all ranks if it throws on one.
template <class Write>
void write_on_all(const Group& group, const std::string& path, const Write& write) {
  std::optional<FileError> failure;
  try {
    write();
  } catch (const FileError& e) { failure = e; }
  const bool has_failed = any_rank(failure.has_value(), group);
  if (failure) throw *failure;
  check<FileError>(!has_failed, path, ": another rank could not write its file");
}

}  // namespace

void save_checkpoint(const std::string& path, const Sharded& sharded, optim::Optimizer& optimizer,
                     const StateDict& state) {
  const memory::Op<"save_checkpoint"> op;
  const NoGrad no_grad;
  const Group& group = sharded.group();
  const auto parts = sharded.parts();
  const auto places = numbers_in(optimizer, parts);
  const StateDict optimizer_state = optimizer.state_dict();
  SetNumbers numbers;
  if (group.rank() == 0) numbers.set = current_set(path).set + 1;
  broadcast_bytes(std::as_writable_bytes(std::span(&numbers.set, 1)), processes_of(group));
  numbers.ranks = group.size();
  write_on_all(group, path, [&] {
    bytetape::save_checkpoint(path_of_rank(path, numbers.set, group.rank(), numbers.ranks),
                              own_file(parts, places, optimizer_state, numbers.set));
  });
  write_on_all(group, path, [&] {
    if (group.rank() == 0) bytetape::save_checkpoint(path, main_file(sharded, optimizer_state, state, numbers));
  });
  if (group.rank() == 0) remove_others(path, numbers.set);
}

/// The files of a set.
struct ShardedCheckpoint::Files {
  Checkpoint main;
  std::vector<Checkpoint> ranks{};

  StateDict own_state(const Sharded::Part& part) const;
};

ShardedCheckpoint::ShardedCheckpoint(const std::string& path) : files_(new Files{.main = Checkpoint(path)}) {
  const memory::Op<"ShardedCheckpoint"> op;
  const std::int64_t set = files_->main.integer("set"), ranks = files_->main.integer("ranks");
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::string name = path_of_rank(path, set, rank, ranks);
    files_->ranks.emplace_back(name);
    check<FileError>(files_->ranks.back().integer("set") == set, name, ": expected set ", set, ", found ",
                     files_->ranks.back().integer("set"));
  }
}
ShardedCheckpoint::~ShardedCheckpoint() = default;

StateDict ShardedCheckpoint::state() const { return files_->main.part("state"); }

/// Puts this rank's elements of a parameter together: "values", the optimizer's tensors, and "step".
StateDict ShardedCheckpoint::Files::own_state(const Sharded::Part& part) const {
  const Tensor& like = part.values;
  StateDict joined;
  std::map<std::string, std::int64_t> filled;
  for (const Checkpoint& file : ranks) {
    StateDict piece = file.part(part.name, like.device());
    if (!piece.numbers.contains("begin")) continue;
    const std::int64_t begin = piece.integer("begin"), count = piece.tensor("values").numel();
    check<FileError>(begin >= 0 && begin <= std::numeric_limits<std::int64_t>::max() - count, "elements of '",
                     part.name, "' begin at ", begin);
    const std::int64_t end = begin + count, from = std::max(begin, part.begin), to = std::min(end, part.end);
    if (from >= to) continue;
    if (piece.numbers.contains("step")) joined.numbers["step"] = piece.integer("step");
    for (const auto& [name, x] : piece.tensors) {
      if (name.find('.') != std::string::npos) continue;  // of a parameter whose name begins with this one's
      check<FileError>(x.numel() == end - begin, "expected ", end - begin, " elements of '", part.name, ".", name,
                       "', found ", x.numel());
      check<FileError>(from == part.begin + filled[name], "expected elements of '", part.name, ".", name, "' from ",
                       part.begin + filled[name], " on, found those from ", from, " on");
      if (!joined.has_tensor(name))
        joined.tensors.emplace_back(name, empty({part.end - part.begin}, like.dtype(), like.device()));
      copy_(joined.tensor(name).alias({to - from}, {1}, from - part.begin),
            bytetape::to(x.alias({to - from}, {1}, x.storage_offset() + from - begin), like.dtype()));
      filled[name] += to - from;
    }
  }
  for (const auto& [name, n] : filled)
    check<FileError>(n == part.end - part.begin, "expected ", part.end - part.begin, " elements of '", part.name, ".",
                     name, "', found ", n);
  check<FileError>(part.begin == part.end || filled.contains("values"), "found no elements of '", part.name, "'");
  return joined;
}

void ShardedCheckpoint::load_into(const Sharded& sharded, optim::Optimizer& optimizer) const {
  const memory::Op<"load_into"> op;
  const NoGrad no_grad;
  const auto parts = sharded.parts();
  const auto numbers = numbers_in(optimizer, parts);
  const StateDict layouts = files_->main.part("layout", Device::cpu());
  check<ValueError>(layouts.tensors.size() == parts.size(), "the checkpoint has ", layouts.tensors.size(),
                    " parameters, and the module ", parts.size());
  StateDict optimizer_state = files_->main.part("optimizer");
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Sharded::Part& part = parts[i];
    const Tensor& layout = layouts.tensor(part.name);
    const auto expected = layout_of(part);
    check(layout.shape() == expected.shape() && layout.to_vector<std::int64_t>() == expected.to_vector<std::int64_t>(),
          "the parameter '", part.name, "' was saved with another shape or other strides than ", part.shape, " and ",
          part.strides);
    StateDict own = files_->own_state(part);
    values.push_back(part.begin == part.end ? Tensor() : own.tensor("values"));
    std::erase_if(own.tensors, [](const auto& named) { return named.first == "values"; });
    for (auto& [name, x] : own.tensors) x = x.alias(part.values.shape(), part.values.strides(), x.storage_offset());
    if (own.numbers.contains("step")) optimizer_state.add(state_path(numbers[i]), own);
  }
  files_->main.load_into("others", others_of(sharded));
  optimizer.load_state_dict(optimizer_state);
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (values[i].defined()) copy_(row_of(parts[i].values), values[i]);
  sharded.note_written();
}

}  // namespace bytetape::dist
