#include "bytetape/distributed/host/host_communicator.h"

#include <algorithm>
#include <mutex>
#include <sstream>
#include <string>

#include "bytetape/core/dispatch.h"
#include "bytetape/distributed/hash.h"
#include "bytetape/distributed/host/channel.h"

namespace bytetape::dist {
namespace {

/// Elements begin to end of all parts, as one of `size` equal parts; the last ones may be shorter or empty.
struct Part {
  std::int64_t begin, end;

  Part(std::int64_t numel, std::int64_t part, int index)
      : begin(std::min(numel, part * index)), end(std::min(numel, part * (index + 1))) {}
  std::int64_t size() const { return end - begin; }
};

char* address(const View& v, std::int64_t element) {
  return v.as<char>() + element * static_cast<std::int64_t>(size_of(v.dtype));
}
const char* address(const ConstView& v, std::int64_t element) {
  return v.as<char>() + element * static_cast<std::int64_t>(size_of(v.dtype));
}
std::size_t bytes(const ConstView& v, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * size_of(v.dtype);
}
std::uint64_t hash_of(const Shape& shape) {
  Hash hash;
  for (const std::int64_t size : shape) hash.add(static_cast<std::uint64_t>(size));
  return hash.get();
}
void copy(const ConstView& x, std::int64_t from, const View& y, std::int64_t to, std::int64_t elements) {
  if (address(x, from) == address(y, to)) return;
  std::copy_n(address(x, from), bytes(x, elements), address(y, to));
}
/// A row of elements from `data` on.
View row(void* data, const View& like, std::int64_t elements) {
  return {data, like.dtype, like.device, {elements}, contiguous_strides({elements})};
}

}  // namespace

/// Describes a rank's call to the other ranks.
struct HostCommunicator::Description {
  std::uint64_t group = 0, sequence = 0;
  std::int64_t numel = 0;
  Collective kind = Collective::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;
  std::uint8_t has_data = 0, is_recorded = 0;
  std::int32_t root = -1;  // of a broadcast; the sender of a send
  std::uint64_t shape = 0, tag = 0;

  friend bool operator==(const Description&, const Description&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Description& c) {
    out << name_of(c.kind);
    if (c.kind == Collective::all_reduce || c.kind == Collective::reduce_scatter) out << " (" << name_of(c.op) << ")";
    if (c.has_data) out << " of " << c.dtype << ", " << c.numel << " elements";
    if (c.root >= 0) out << ", from rank " << c.root;
    if (c.is_recorded) out << ", on the tape";
    if (c.sequence) out << ", number " << c.sequence << " of its group";
    return out;
  }
};

/// Names a difference that the texts of two calls do not show.
const char* HostCommunicator::difference(const Description& a, const Description& b) {
  if (a.group != b.group) return "; their groups differ";
  if (a.shape != b.shape) return "; their shapes differ";
  return a.tag != b.tag ? "; their tags differ" : "";
}

std::vector<int> HostCommunicator::others(const CollectiveArgs& a) const {
  if (a.kind == Collective::send || a.kind == Collective::recv) return {a.peer};
  std::vector<int> all;
  for (int r = 0; r < a.size; ++r)
    if (r != a.rank) all.push_back(r);
  return all;
}

template <class Post>
void HostCommunicator::exchange(const CollectiveArgs& a, Post post) {
  channel::Exchange messages;
  post(messages);
  const auto missing = messages.wait(channel::timeout());
  if (missing.empty()) return;
  std::ostringstream who;
  for (const int world_rank : missing) {
    const auto rank = std::ranges::find(ranks_, world_rank) - ranks_.begin();
    who << (world_rank == missing.front() ? "" : ", ") << rank;
  }
  const bool is_pair = a.kind == Collective::send || a.kind == Collective::recv;
  fail<DistributedError>(is_pair ? "" : "number " + std::to_string(sequence_) + " of its group: ", "rank ", a.rank,
                         " had no answer from ", missing.size() == 1 ? "rank " : "ranks ", who.str(), " within ",
                         std::chrono::duration<double>(channel::timeout()).count(), " s");
}

void HostCommunicator::greet(const CollectiveArgs& a, const std::vector<int>& others) {
  const bool is_pair = a.kind == Collective::send || a.kind == Collective::recv;
  const ConstView& v = a.x.defined() ? a.x : a.y;
  Description mine{.group = group_, .sequence = is_pair ? 0 : ++sequence_, .numel = v.defined() ? v.numel() : 0};
  mine.kind = a.kind == Collective::recv ? Collective::send : a.kind;
  mine.op = a.op;
  mine.dtype = v.dtype;
  mine.has_data = v.defined();
  mine.is_recorded = a.is_recorded;
  mine.shape = hash_of(v.shape);
  mine.tag = a.tag;
  if (a.kind == Collective::broadcast || a.kind == Collective::recv) mine.root = a.peer;
  if (a.kind == Collective::send) mine.root = a.rank;
  std::vector<Description> theirs(others.size());
  exchange(a, [&](channel::Exchange& messages) {
    for (std::size_t i = 0; i < others.size(); ++i) {
      const int to = ranks_[static_cast<std::size_t>(others[i])];
      messages.receive(to, &theirs[i], sizeof(Description));
      messages.send(to, &mine, sizeof(Description));
    }
  });
  for (std::size_t i = 0; i < others.size(); ++i)
    check<DistributedError>(theirs[i] == mine, "ranks call different collectives: rank ", a.rank, " ",
                            detail::concat(mine), "; rank ", others[i], " ", detail::concat(theirs[i]),
                            difference(mine, theirs[i]));
}

/// Receives every rank's values of part `rank`, and combines them into y.
void HostCommunicator::reduce_part(const CollectiveArgs& a, Workspace ws, const View& y) {
  const std::int64_t numel = a.x.numel(), part = (numel + a.size - 1) / a.size;
  const Part own(numel, part, a.rank);
  const auto view_of = [&](const void* data) {
    return ConstView(data, a.x.dtype, a.x.device, {own.size()}, contiguous_strides({own.size()}));
  };
  std::vector<ConstView> parts(static_cast<std::size_t>(a.size));
  parts[static_cast<std::size_t>(a.rank)] = view_of(address(a.x, own.begin));
  exchange(a, [&](channel::Exchange& messages) {
    char* room = static_cast<char*>(ws.data);
    for (const int r : others(a)) {
      const Part theirs(numel, part, r);
      const int rank = ranks_[static_cast<std::size_t>(r)];
      messages.receive(rank, room, bytes(a.x, own.size()));
      messages.send(rank, address(a.x, theirs.begin), bytes(a.x, theirs.size()));
      parts[static_cast<std::size_t>(r)] = view_of(room);
      room += bytes(a.x, part);
    }
  });
  bytetape::run<&CollectiveKernels::combine>(y.device, std::span<const ConstView>(parts), a.op, y);
}

/// Sends this rank's part of y to all others, and receives theirs.
void HostCommunicator::gather(const CollectiveArgs& a, std::int64_t part) {
  const std::int64_t numel = a.y.numel();
  const Part own(numel, part, a.rank);
  exchange(a, [&](channel::Exchange& messages) {
    for (const int r : others(a)) {
      const Part theirs(numel, part, r);
      const int rank = ranks_[static_cast<std::size_t>(r)];
      messages.receive(rank, address(a.y, theirs.begin), bytes(a.y, theirs.size()));
      messages.send(rank, address(a.y, own.begin), bytes(a.y, own.size()));
    }
  });
}

void HostCommunicator::pass(const CollectiveArgs& a, Workspace ws) {
  const auto world = [&](int rank) { return ranks_[static_cast<std::size_t>(rank)]; };
  switch (a.kind) {
    case Collective::all_reduce: {
      const std::int64_t part = (a.x.numel() + a.size - 1) / a.size;
      const Part own(a.x.numel(), part, a.rank);
      reduce_part(a, ws, row(address(a.y, own.begin), a.y, own.size()));
      return gather(a, part);
    }
    case Collective::reduce_scatter:
      return reduce_part(a, ws, row(a.y.data(), a.y, a.y.numel()));
    case Collective::all_gather:
      copy(a.x, 0, a.y, a.rank * a.x.numel(), a.x.numel());
      return gather(a, a.x.numel());
    case Collective::all_to_all: {
      const std::int64_t part = a.x.numel() / a.size;
      copy(a.x, a.rank * part, a.y, a.rank * part, part);
      return exchange(a, [&](channel::Exchange& messages) {
        for (const int r : others(a)) {
          messages.receive(world(r), address(a.y, r * part), bytes(a.y, part));
          messages.send(world(r), address(a.x, r * part), bytes(a.x, part));
        }
      });
    }
    case Collective::broadcast:
      return exchange(a, [&](channel::Exchange& messages) {
        if (a.rank != a.peer) return messages.receive(world(a.peer), a.y.data(), bytes(a.y, a.y.numel()));
        for (const int r : others(a)) messages.send(world(r), a.x.data(), bytes(a.x, a.x.numel()));
        if (a.y.defined() && a.y.data() != a.x.data()) copy(a.x, 0, a.y, 0, a.x.numel());
      });
    case Collective::send:
      return exchange(
          a, [&](channel::Exchange& messages) { messages.send(world(a.peer), a.x.data(), bytes(a.x, a.x.numel())); });
    case Collective::recv:
      return exchange(a, [&](channel::Exchange& messages) {
        messages.receive(world(a.peer), a.y.data(), bytes(a.y, a.y.numel()));
      });
    case Collective::barrier:
      return;  // the greeting was one
  }
}

void HostCommunicator::run(const CollectiveArgs& a, Workspace ws) {
  const std::lock_guard lock(channel::calls());
  if (channel::has_failed()) {
    const auto heard = channel::heard_failure();
    fail<DistributedError>("an earlier collective of this process failed",
                           heard ? detail::concat(": rank ", heard->rank, " failed: ", heard->text) : "");
  }
  try {
    greet(a, others(a));
    pass(a, ws);
  } catch (const DistributedError&) {
    channel::set_failed();
    throw;
  }
}

}  // namespace bytetape::dist
