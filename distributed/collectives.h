#pragma once
#include <cstdint>

#include "bytetape/core/kernels/collective.h"
#include "bytetape/core/tensor.h"
#include "bytetape/distributed/group.h"

namespace bytetape::dist {

using bytetape::ReduceOp;

/// \file
/// Operations between the ranks of a group, on tensors of any dtype. Every rank of the group must call the same ones in
/// the same order, with tensors of the same shape and dtype. In a group of one rank they copy.
///
/// On the CPU, values are combined in the order of ranks, 16-bit floats in f32, so that results have the same bits in
/// every run and on every rank. On GPUs, NCCL combines them in the order of its ring, and rounds 16-bit floats after
/// each addition. Views with gaps are copied. Under memory::predict() nothing is sent.
///
/// Call them from one thread of a process. If one rank's tensor requires grad, those of all ranks must, because all
/// take part in backward. Where there is a `tag`, it must be the same number on all ranks.
///
/// All throw DistributedError if a rank fails, does not answer within the timeout of init(), or calls another
/// collective, or the same with another shape, dtype or tag. The process's groups then cannot be used any more.
/// The host does not wait for collectives of GPUs: they throw DistributedError when the host next waits for the device,
/// and a call of another collective is usually found by the timeout alone.
/// All throw DeviceError if nothing connects the ranks for the tensor's device.

/// Returns the sum of the ranks' x, or another reduction. Differentiable for sum and average: the gradient is the same
/// reduction of the ranks' gradients.
/// Throws DTypeError for an average of integers, or a bool except for min and max.
/// Throws NotImplemented if x requires grad, for other reductions.
Tensor all_reduce(const Tensor& x, const Group& group, ReduceOp op = ReduceOp::sum);
/// Overwrites x with all_reduce(x), and returns it.
/// Throws AutogradError or ValueError if x cannot be overwritten, as copy_().
Tensor all_reduce_(const Tensor& x, const Group& group, ReduceOp op = ReduceOp::sum, std::uint64_t tag = 0);
/// Returns part rank() of the reduction, of size() equal parts along dim 0. Differentiable for sum and average.
/// Throws ShapeError if the size of dim 0 is not a multiple of size(), and as all_reduce().
Tensor reduce_scatter(const Tensor& x, const Group& group, ReduceOp op = ReduceOp::sum);
/// Returns the ranks' x, one after the other along dim 0. A scalar counts as one element. Differentiable.
Tensor all_gather(const Tensor& x, const Group& group);
/// Writes reduce_scatter(x) to y, which may be part rank() of x (torch.distributed.reduce_scatter_tensor). Nothing is
/// recorded.
/// Throws ShapeError or DTypeError unless y is like a part of x, and as reduce_scatter().
/// Throws ValueError unless both are row-major, and AutogradError if one requires grad.
void reduce_scatter_into(const Tensor& y, const Tensor& x, const Group& group, ReduceOp op = ReduceOp::sum,
                         std::uint64_t tag = 0);
/// Writes all_gather(x) to y, of which x may be part rank() (torch.distributed.all_gather_into_tensor). Nothing is
/// recorded.
/// Throws what reduce_scatter_into() throws.
void all_gather_into(const Tensor& y, const Tensor& x, const Group& group, std::uint64_t tag = 0);
/// Splits x into size() equal parts along dim 0, and sends part r to rank r. Returns the parts that came, in the order
/// of ranks, with x's shape. Differentiable.
/// Throws ShapeError if the size of dim 0 is not a multiple of size().
Tensor all_to_all(const Tensor& x, const Group& group);
/// Returns x of the rank `root`. Other ranks pass a tensor of the same shape, whose values are not read.
/// Differentiable: the root's gradient is the sum of the ranks' gradients, and those of other ranks are 0.
/// Throws ValueError if there is no rank `root`.
Tensor broadcast(const Tensor& x, const Group& group, int root = 0);
/// Overwrites x with x of the rank `root`, and returns it.
/// Throws AutogradError or ValueError if x cannot be overwritten, as copy_(), and as broadcast().
Tensor broadcast_(const Tensor& x, const Group& group, int root = 0, std::uint64_t tag = 0);
/// Sends x to the rank `to`, which must call recv_(). Returns when x may be overwritten.
/// Throws ValueError if there is no other rank `to`.
/// Throws NotImplemented if x requires grad.
void send(const Tensor& x, const Group& group, int to);
/// Overwrites x with what the rank `from` sends, and returns it.
/// Throws ValueError if there is no other rank `from`.
/// Throws AutogradError or ValueError if x cannot be overwritten, as copy_().
Tensor recv_(const Tensor& x, const Group& group, int from);
/// Returns whether `mine` is true on any rank. Waits for the other processes, but not for their devices. Under
/// memory::predict() returns `mine`.
bool any_rank(bool mine, const Group& group);
/// Waits until all ranks have called it.
void barrier(const Group& group, std::uint64_t tag = 0);

}  // namespace bytetape::dist
