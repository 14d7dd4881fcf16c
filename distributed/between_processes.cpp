#include "bytetape/distributed/between_processes.h"

#include "bytetape/core/kernels/collective.h"

namespace bytetape::dist {
namespace {

template <class T>
View row(std::vector<T>& values, DType dtype) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return {values.data(), dtype, Device(), shape, contiguous_strides(shape)};
}

CollectiveArgs args_of(Collective kind, const Group& group, std::uint64_t tag) {
  return {.kind = kind, .rank = group.rank(), .size = group.size(), .tag = tag};
}

}  // namespace

void broadcast_numbers(std::vector<std::int32_t>& numbers, const Group& group, std::uint64_t tag) {
  Communicator* const processes = group.between_processes();
  if (!processes) return;
  CollectiveArgs args = args_of(Collective::broadcast, group, tag);
  args.peer = 0;
  if (group.rank() == 0)
    args.x = row(numbers, DType::i32);
  else
    args.y = row(numbers, DType::i32);
  processes->run(args, {});
}

void max_over_ranks(std::vector<std::uint8_t>& values, const Group& group, std::uint64_t tag) {
  Communicator* const processes = group.between_processes();
  if (!processes) return;
  CollectiveArgs args = args_of(Collective::all_reduce, group, tag);
  args.op = ReduceOp::max;
  args.x = args.y = row(values, DType::u8);
  std::vector<char> room(values.size() + static_cast<std::size_t>(group.size()));
  room.resize(room.size() * static_cast<std::size_t>(group.size()));
  processes->run(args, {room.data(), room.size()});
}

}  // namespace bytetape::dist
