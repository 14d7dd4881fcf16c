#include "bytetape/distributed/collectives.h"

#include <optional>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/distributed/between_processes.h"

namespace bytetape::dist {
namespace {

using enum AttributeType;

/// Returns x, or a copy of it, row-major and outside the tape.
Tensor row_major(const Tensor& x) {
  const NoGrad no_grad;
  return contiguous(x);
}

/// A collective without its tensors.
struct Call {
  Collective kind = Collective::barrier;
  ReduceOp op = ReduceOp::sum;
  int peer = -1;
  std::uint64_t tag = 0;
  bool is_recorded = false;
};

/// Runs a collective that reads x and writes y, of which one may be undefined. Both are row-major.
void exchange(const Call& call, const Group& group, const Tensor& x, const Tensor& y) {
  const Device device = x.defined() ? x.device() : y.device();
  CollectiveArgs args{.kind = call.kind, .op = call.op, .rank = group.rank(), .size = group.size(), .peer = call.peer};
  args.tag = call.tag;
  args.is_recorded = call.is_recorded;
  args.communicator = group.communicator(device);
  args.x = read(x);
  args.y = write(y);
  run_planned<&CollectiveKernels::exchange>(device, args);
}

/// Runs a collective from x to a new tensor.
Tensor exchanged(Call call, const Group& group, const Tensor& x, const Shape& shape) {
  static_cast<void>(group.communicator(x.device()));  // throws before memory is allocated
  call.is_recorded = any_requires_grad({&x});
  const Tensor source = row_major(x);
  const Tensor y = empty(shape, x.dtype(), x.device());
  if (group.size() == 1)
    run<&CopyKernels::copy>(x.device(), source.read(), y.write());
  else
    exchange(call, group, source, y);
  return y;
}

/// Runs a collective that overwrites x. Views with gaps take part as a copy.
void exchange_in_place(Call call, const Group& group, const Tensor& x, bool reads, bool writes) {
  static_cast<void>(group.communicator(x.device()));
  if (group.size() == 1) return;
  call.is_recorded = any_requires_grad({&x});
  const Tensor rows = row_major(x);
  exchange(call, group, reads ? rows : Tensor(), writes ? rows : Tensor());
  if (writes && !rows.is_same(x)) run<&CopyKernels::copy>(x.device(), rows.read(), x.write());
}

/// Runs a collective from x to y, of which one is a part of the other or has memory of its own.
void exchange_into(const Call& call, const Group& group, const Tensor& x, const Tensor& y) {
  static_cast<void>(group.communicator(x.device()));
  if (group.size() > 1)
    exchange(call, group, x, y);
  else if (x.read().data() != y.write().data())
    run<&CopyKernels::copy>(x.device(), x.read(), y.write());
  y.storage().bump_version();
}

void check_reduction(const Tensor& x, ReduceOp op) {
  check_defined(x);
  const bool picks = op == ReduceOp::min || op == ReduceOp::max;
  check<DTypeError>(x.dtype() != DType::boolean || picks, "expected min or max for ", describe(x), ", got ",
                    name_of(op));
  check<DTypeError>(op != ReduceOp::average || is_floating(x.dtype()), "expected a floating dtype for an average, got ",
                    describe(x));
  check<NotImplemented>(op == ReduceOp::sum || op == ReduceOp::average || !any_requires_grad({&x}), "the gradient of ",
                        name_of(op), " over ranks is not defined; pass a tensor without, such as x.detach()");
}

void check_parts(const Tensor& x, const Group& group) {
  check(x.rank() > 0 && x.size(0) % group.size() == 0, "expected the size of dim 0 to be a multiple of ", group.size(),
        " ranks, got ", describe(x));
}

/// Checks a row-major part of a row-major tensor, for collectives that are not recorded.
void check_part(const Tensor& part, const Tensor& whole, const Group& group) {
  check_defined(part);
  check_defined(whole);
  check_parts(whole, group);
  Shape shape = whole.shape();
  shape[0] /= group.size();
  check(part.shape() == shape, "expected a part of shape ", shape, " of ", describe(whole), ", got ", describe(part));
  check<DTypeError>(part.dtype() == whole.dtype(), "inputs of different dtypes: ", describe(part), " and ",
                    describe(whole));
  check<DeviceError>(part.device() == whole.device(), "inputs on different devices: ", describe(part), " and ",
                     describe(whole));
  check<ValueError>(part.is_contiguous() && whole.is_contiguous(), "expected row-major tensors");
  check<AutogradError>(!any_requires_grad({&part, &whole}), "the collective is not recorded; pass x.detach()");
}

void check_rank(const Group& group, int rank, const char* what) {
  check<ValueError>(rank >= 0 && rank < group.size(), "expected ", what, " below ", group.size(), ", got ", rank);
}
void check_other(const Group& group, int rank) {
  check<ValueError>(rank >= 0 && rank < group.size() && rank != group.rank(), "expected another rank of ", group.size(),
                    " than ", group.rank(), ", got ", rank);
}

Shape with_rows(const Tensor& x, std::int64_t rows) {
  Shape shape = x.shape();
  if (shape.size() == 0) return {rows};
  shape[0] = rows;
  return shape;
}

/// Knows the call, and its group, for the rule.
struct CollectiveNode : Node {
  std::optional<Group> group;
  Call call;

  /// Fills in a node that was recorded, if one was.
  static void set(CollectiveNode* node, const Group& group, const Call& call) {
    if (!node) return;
    node->group = group;
    node->call = call;
  }
};
/// Runs a collective from x to a new tensor, with the rule N.
template <class N>
Tensor recorded(const Call& call, const Group& group, const Tensor& x, const Shape& shape) {
  const Tensor y = exchanged(call, group, x, shape);
  CollectiveNode::set(record<N>(y, x), group, call);
  return y;
}

struct AllReduceBackward final : CollectiveNode {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = all_reduce(gy[0], *group, call.op); }
};
struct ReduceScatterBackward final : CollectiveNode {
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor sum = all_gather(gy[0], *group);
    gx[0] = call.op == ReduceOp::average ? sum / static_cast<double>(group->size()) : sum;
  }
};
struct AllGatherBackward final : CollectiveNode {
  bool is_scalar = false;  // its gradient arrives as a row
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor part = reduce_scatter(gy[0], *group);
    gx[0] = is_scalar ? reshape(part, {}) : part;
  }
};
struct AllToAllBackward final : CollectiveNode {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = all_to_all(gy[0], *group); }
};
/// The sum on the rank `root`, and 0 on others: the gradient of a broadcast.
Tensor reduce_to(const Tensor& x, const Group& group, int root);
struct BroadcastBackward final : CollectiveNode {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = reduce_to(gy[0], *group, call.peer); }
};
struct ReduceToBackward final : CollectiveNode {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = broadcast(gy[0], *group, call.peer); }
};

constexpr OpDefinition all_reduce_def{.name = "all_reduce", .attributes = {{"op", text}}, .family = Family::collective};
constexpr OpDefinition reduce_scatter_def{
    .name = "reduce_scatter", .attributes = {{"op", text}}, .family = Family::collective};
constexpr OpDefinition all_gather_def{.name = "all_gather", .family = Family::collective};
constexpr OpDefinition all_to_all_def{.name = "all_to_all", .family = Family::collective};
constexpr OpDefinition broadcast_def{
    .name = "broadcast", .attributes = {{"root", integer}}, .family = Family::collective};
constexpr OpDefinition broadcast_backward_def{
    .name = "broadcast_backward", .attributes = {{"root", integer}}, .family = Family::collective};
constexpr OpDefinition send_def{.name = "send", .attributes = {{"to", integer}}, .family = Family::collective};
constexpr OpDefinition recv_def{
    .name = "recv_", .attributes = {{"from", integer}}, .family = Family::collective, .writes = {"x"}};

Tensor reduce_to(const Tensor& x, const Group& group, int root) {
  const Op<broadcast_backward_def> op(x, root);
  const Tensor y = recorded<ReduceToBackward>({.kind = Collective::all_reduce, .peer = root}, group, x, x.shape());
  if (group.rank() != root) run<&CopyKernels::fill>(y.device(), Scalar(0), y.write());
  return y;
}

}  // namespace

Tensor all_reduce(const Tensor& x, const Group& group, ReduceOp reduce) {
  const Op<all_reduce_def> op(x, reduce);
  check_reduction(x, reduce);
  return recorded<AllReduceBackward>({Collective::all_reduce, reduce}, group, x, x.shape());
}

Tensor all_reduce_(const Tensor& x, const Group& group, ReduceOp reduce, std::uint64_t tag) {
  const Op<in_place_of<all_reduce_def>> op(x, reduce);
  check_reduction(x, reduce);
  check_in_place(x);
  const Call call{.kind = Collective::all_reduce, .op = reduce, .tag = tag};
  exchange_in_place(call, group, x, true, true);
  CollectiveNode::set(record_in_place<AllReduceBackward>(x, x), group, call);
  return op.result(x);
}

Tensor reduce_scatter(const Tensor& x, const Group& group, ReduceOp reduce) {
  const Op<reduce_scatter_def> op(x, reduce);
  check_reduction(x, reduce);
  check_parts(x, group);
  const Shape shape = with_rows(x, x.size(0) / group.size());
  return recorded<ReduceScatterBackward>({Collective::reduce_scatter, reduce}, group, x, shape);
}

Tensor all_gather(const Tensor& x, const Group& group) {
  const Op<all_gather_def> op(x);
  check_defined(x);
  const Call call{.kind = Collective::all_gather};
  const std::int64_t rows = x.rank() == 0 ? 1 : x.size(0);
  const Tensor y = exchanged(call, group, x, with_rows(x, rows * group.size()));
  auto* const node = record<AllGatherBackward>(y, x);
  CollectiveNode::set(node, group, call);
  if (node) node->is_scalar = x.rank() == 0;
  return y;
}

void reduce_scatter_into(const Tensor& y, const Tensor& x, const Group& group, ReduceOp reduce, std::uint64_t tag) {
  const memory::Op<"reduce_scatter"> op;
  check_reduction(x, reduce);
  check_part(y, x, group);
  exchange_into({.kind = Collective::reduce_scatter, .op = reduce, .tag = tag}, group, x, y);
}

void all_gather_into(const Tensor& y, const Tensor& x, const Group& group, std::uint64_t tag) {
  const memory::Op<"all_gather"> op;
  check_part(x, y, group);
  exchange_into({.kind = Collective::all_gather, .tag = tag}, group, x, y);
}

Tensor all_to_all(const Tensor& x, const Group& group) {
  const Op<all_to_all_def> op(x);
  check_defined(x);
  check_parts(x, group);
  return recorded<AllToAllBackward>({Collective::all_to_all}, group, x, x.shape());
}

Tensor broadcast(const Tensor& x, const Group& group, int root) {
  const Op<broadcast_def> op(x, root);
  check_defined(x);
  check_rank(group, root, "a root");
  return recorded<BroadcastBackward>({.kind = Collective::broadcast, .peer = root}, group, x, x.shape());
}

Tensor broadcast_(const Tensor& x, const Group& group, int root, std::uint64_t tag) {
  const Op<in_place_of<broadcast_def>> op(x, root);
  check_defined(x);
  check_rank(group, root, "a root");
  check_in_place(x);
  const Call call{.kind = Collective::broadcast, .peer = root, .tag = tag};
  exchange_in_place(call, group, x, true, group.rank() != root);
  CollectiveNode::set(record_in_place<BroadcastBackward>(x, x), group, call);
  return op.result(x);
}

void send(const Tensor& x, const Group& group, int to) {
  const Op<send_def> op(x, to);
  check_defined(x);
  check_other(group, to);
  check<NotImplemented>(!any_requires_grad({&x}), "gradients do not go from rank to rank; pass x.detach()");
  exchange({.kind = Collective::send, .peer = to}, group, row_major(x), {});
}

Tensor recv_(const Tensor& x, const Group& group, int from) {
  const Op<recv_def> op(x, from);
  check_defined(x);
  check_other(group, from);
  check_in_place(x);
  exchange_in_place({.kind = Collective::recv, .peer = from}, group, x, false, true);
  record_in_place<OverwriteBackward>(x, x);
  return op.result(x);
}

bool any_rank(bool mine, const Group& group) {
  const memory::Op<"any_rank"> op;
  std::vector<std::uint8_t> value{mine};
  max_over_ranks(value, processes_of(group));
  return value[0] != 0;
}

void barrier(const Group& group, std::uint64_t tag) {
  const memory::Op<"barrier"> op;
  Communicator* const processes = default_device().is_meta ? nullptr : group.between_processes();
  if (!processes) return;
  processes->run({.kind = Collective::barrier, .rank = group.rank(), .size = group.size(), .tag = tag}, {});
}

}  // namespace bytetape::dist
