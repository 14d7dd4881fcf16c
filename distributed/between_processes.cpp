#include "bytetape/distributed/between_processes.h"

#include "bytetape/core/kernels/collective.h"

namespace bytetape::dist {
namespace {

/// Host memory as a row.
View row(void* data, std::size_t size, DType dtype) {
  const Shape shape{static_cast<std::int64_t>(size)};
  return {data, dtype, Device(), shape, contiguous_strides(shape)};
}

CollectiveArgs args_of(Collective kind, const Processes& processes, std::uint64_t tag = 0) {
  return {.kind = kind, .rank = processes.rank, .size = processes.size, .peer = 0, .tag = tag};
}

}  // namespace

Processes processes_of(const Group& group) { return {group.between_processes(), group.rank(), group.size()}; }

void broadcast_bytes(std::span<std::byte> bytes, const Processes& processes, std::uint64_t tag) {
  if (!processes.communicator) return;
  CollectiveArgs args = args_of(Collective::broadcast, processes, tag);
  const View all = row(bytes.data(), bytes.size(), DType::u8);
  if (processes.rank == 0)
    args.x = all;
  else
    args.y = all;
  processes.communicator->run(args, {});
}

std::vector<std::int64_t> gather(std::int64_t mine, const Processes& processes) {
  if (!processes.communicator) return {mine};
  std::vector<std::int64_t> all(static_cast<std::size_t>(processes.size));
  CollectiveArgs args = args_of(Collective::all_gather, processes);
  args.x = row(&mine, 1, DType::i64);
  args.y = row(all.data(), all.size(), DType::i64);
  processes.communicator->run(args, {});
  return all;
}

void max_over_ranks(std::vector<std::uint8_t>& values, const Processes& processes, std::uint64_t tag) {
  if (!processes.communicator) return;
  CollectiveArgs args = args_of(Collective::all_reduce, processes, tag);
  args.op = ReduceOp::max;
  args.x = args.y = row(values.data(), values.size(), DType::u8);
  const std::size_t ranks = static_cast<std::size_t>(processes.size), part = (values.size() + ranks - 1) / ranks;
  std::vector<char> room(part * (ranks - 1));  // as the kernel's plan
  processes.communicator->run(args, {room.data(), room.size()});
}

}  // namespace bytetape::dist
