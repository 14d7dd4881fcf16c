#include "bytetape/distributed/sharded/row.h"

#include <algorithm>
#include <memory>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/factories.h"
#include "bytetape/distributed/collectives.h"
#include "bytetape/distributed/gradients.h"

namespace bytetape::dist {
namespace {

std::int64_t rounded_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

/// Gathers a row's bytes from the ranks.
class GatherSource final : public ByteSource {
 public:
  GatherSource(const Tensor& own, DType dtype, const Group& group, std::uint64_t number,
               const std::shared_ptr<std::uint32_t>& version, const std::function<void()>& gathered)
      : own_(own), dtype_(dtype), group_(group), number_(number), version_(version), gathered_(gathered) {}
  void refill(Storage& s) override {
    const NoGrad no_grad;
    *version_ = s.version();
    auto whole = make_ref<TensorImpl>(Shape{own_.numel() * group_.size()}, dtype_);
    whole->storage = Ref<Storage>(&s);
    all_gather_into(Tensor(std::move(whole)), to(own_, dtype_), group_, number_);
    gathered_();
  }

 private:
  const Tensor own_;
  const DType dtype_;
  const Group group_;
  const std::uint64_t number_;
  const std::shared_ptr<std::uint32_t> version_;
  const std::function<void()> gathered_;
};

}  // namespace

Row::Row(std::vector<Piece> pieces, const Group& group, const Options& options)
    : group_(group), shard_(options.shard), dtype_(options.dtype), number_(options.number), pieces_(std::move(pieces)) {
  const NoGrad no_grad;
  const OutsideModules outside("Sharded");
  const DType dtype = pieces_.front().parameter.dtype();
  const std::int64_t step = row_alignment / static_cast<std::int64_t>(size_of(dtype_));
  std::int64_t size = 0;
  for (Piece& piece : pieces_) {
    piece.offset = size;
    size += rounded_up(piece.parameter.numel(), step);
  }
  part_size_ = rounded_up((size + group.size() - 1) / group.size(), step);
  const bool is_gathered = shard_ == Shard::parameters, is_converted = dtype_ != dtype;
  const memory::Role role = is_gathered ? memory::Role::communication : memory::Role::parameter;
  Tensor row = zeros({part_size_ * group.size()}, dtype, options.device, role);
  for (const Piece& piece : pieces_) {
    const Tensor there = place(piece, row);
    copy_(there, piece.parameter.detach());
    piece.parameter.set_data(there);
  }
  broadcast_(row, group, 0, number_);
  own_ = row.alias({part_size_}, {1}, part_size_ * group.rank());
  if (is_gathered || is_converted) {
    own_ = clone(own_);
    own_.storage().set_role(memory::Role::parameter, 0);
  }
  if (is_converted) {
    row = to(row, dtype_);
    for (const Piece& piece : pieces_) piece.parameter.set_data(place(piece, row));
  }
  row.storage().set_role(role, 0);
  *version_ = row.storage().version();
  if (is_gathered) {
    row.storage().set_source(make_ref<GatherSource>(own_, dtype_, group, number_, version_, options.gathered));
    row.storage().drop();
  }
  const std::int64_t begin = part_size_ * group.rank(), end = begin + part_size_;
  for (Piece& piece : pieces_) {
    const std::int64_t from = std::clamp(piece.offset, begin, end),
                       to = std::clamp(piece.offset + piece.parameter.numel(), begin, end);
    piece.part = own_.alias({to - from}, {1}, own_.storage_offset() + from - begin).set_requires_grad();
  }
}

Tensor Row::whole() const { return pieces_.front().parameter.alias({part_size_ * group_.size()}, {1}, 0); }

void Row::make_gradients() {
  if (own_gradient_.defined()) return;
  const Device device = own_.device();
  if (shard_ == Shard::optimizer_state) {
    sums_ = zeros({part_size_ * group_.size()}, dtype_, device, memory::Role::communication);
    own_gradient_ = sums_.alias({part_size_}, {1}, part_size_ * group_.rank());
  } else {
    own_gradient_ = zeros({part_size_}, dtype_, device, memory::Role::communication);
  }
  for (Piece& piece : pieces_) {
    piece.gradient = own_gradient_.alias(piece.part.shape(), {1}, own_gradient_.storage_offset() + place_in_own(piece));
  }
}

/// Moves the gradients that wait into `sums`, and fills the places of others with 0.
void Row::move_in(const Tensor& sums) {
  std::vector<std::pair<Tensor, Tensor>> moves;
  for (Piece& piece : pieces_) {
    const Tensor there = place(piece, sums);
    if (piece.waiting.defined())
      moves.emplace_back(std::exchange(piece.waiting, {}), there);
    else
      zero_(there);
  }
  copy_gradients(moves);
}

/// Prepares own_gradient_ for another sum: it gets the gradients that the parts have, and 0 for parts without. Returns
/// whether a part has a gradient.
bool Row::keep_gradients() {
  const auto has_gradient = [](const Piece& piece) { return piece.part.grad().defined(); };
  if (std::ranges::none_of(pieces_, has_gradient)) return false;
  for (const Piece& piece : pieces_) {
    if (!has_gradient(piece))
      zero_(piece.gradient);
    else if (!piece.part.grad().is_same(piece.gradient))
      copy_(piece.gradient, piece.part.grad());
  }
  return true;
}

void Row::begin_backward() {
  filled = 0;
  if (sums_.defined())
    sums_.write();  // waits for the last exchange now; a later wait would include those of this backward
}

void Row::exchange_gradients(std::uint64_t tag, Tensor& sent) {
  sent = Tensor();
  const NoGrad no_grad;
  const OutsideModules outside("Sharded");
  make_gradients();
  const bool adds = keep_gradients(), is_in_place = sums_.defined();
  const Tensor before = adds && is_in_place ? clone(own_gradient_) : Tensor();
  const Tensor sums =
      is_in_place ? sums_ : empty({part_size_ * group_.size()}, dtype_, own_.device(), memory::Role::communication);
  move_in(sums);
  const StreamScope beside(stream_of_exchanges());  // on a GPU, backward goes on beside the exchange
  const Tensor sum = adds && !is_in_place ? empty_like(own_gradient_) : own_gradient_;
  reduce_scatter_into(sum, sums, group_, ReduceOp::average, tag);
  sent = sums;
  if (adds) add_(own_gradient_, is_in_place ? before : sum);
  for (Piece& piece : pieces_) assign_grad(piece.part, piece.gradient);  // set_grad() refuses a converted row's dtype
}

void Row::keep_written() {
  const bool is_apart = shard_ == Shard::parameters || is_converted();
  if (!is_apart || storage().is_dropped() || storage().version() == *version_) return;
  const NoGrad no_grad;
  const OutsideModules outside("Sharded");
  const Tensor written = own_of_whole();
  if (is_converted())  // elements that were not written keep their precision
    copy_(own_, where(eq(to(own_, dtype_), written), own_, to(written, own_.dtype())));
  else
    copy_(own_, written);
  *version_ = storage().version();
}

void Row::note_update() {
  const NoGrad no_grad;
  const OutsideModules outside("Sharded");
  if (shard_ == Shard::parameters) {
    storage().drop();  // first, so that a captured step knows that its replays make a gathered row old
    storage().bump_version();
  } else {
    all_gather_into(whole(), to(own_, dtype_), group_, number_);
    *version_ = storage().version();
  }
}

void Row::drop() {
  if (shard_ != Shard::parameters || storage().is_dropped()) return;
  keep_written();
  const OutsideModules outside("Sharded");
  storage().drop();
}

Tensor Row::joined(const std::function<Tensor(const Piece&)>& part_of) const {
  const Tensor row = zeros({part_size_ * group_.size()}, own_.dtype(), own_.device());
  const Tensor own = row.alias({part_size_}, {1}, part_size_ * group_.rank());
  for (const Piece& piece : pieces_)
    if (const Tensor part = part_of(piece); part.defined() && part.numel() > 0)
      copy_(own.alias(part.shape(), {1}, own.storage_offset() + place_in_own(piece)), part);
  all_gather_into(row, own, group_, number_);
  return row;
}

Tensor Row::place(const Piece& piece, const Tensor& row) {
  const Tensor& x = piece.parameter;
  const bool is_dense = bytetape::is_dense(x.shape(), x.strides());
  return row.alias(x.shape(), is_dense ? x.strides() : contiguous_strides(x.shape()), piece.offset);
}

Tensor Row::own_part(const Piece& piece, const Tensor& x) const {
  const Tensor row = empty({piece.offset + x.numel()}, x.dtype(), x.device());
  copy_(place(piece, row), x);
  return clone(row.alias(piece.part.shape(), {1}, part_size_ * group_.rank() + place_in_own(piece)));
}

}  // namespace bytetape::dist
