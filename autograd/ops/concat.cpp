#include "bytetape/autograd/ops/concat.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/image_format.h"

namespace bytetape {
namespace {

// Every tensor against the first: dtype, device, rank and the sizes, but for that of `free_dim`.
void check_alike(const std::vector<Tensor>& tensors, int free_dim) {
  const Tensor& first = tensors[0];
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    check<DeviceError>(x.device() == first.device(), "tensor ", i, ", ", describe(x), ", and tensor 0, ",
                       describe(first), ", are on different devices");
    check<DTypeError>(x.dtype() == first.dtype(), "tensor ", i, ", ", describe(x), ", and tensor 0, ", describe(first),
                      ", have different dtypes; convert one with to(x, dtype)");
    bool fits = x.rank() == first.rank();
    for (int d = 0; fits && d < x.rank(); ++d) fits = d == free_dim || x.shape()[d] == first.shape()[d];
    check(fits, "tensor ", i, ", ", describe(x), ", does not fit tensor 0, ", describe(first),
          free_dim < 0 ? "" : detail::concat(", outside dim ", free_dim));
  }
}

void check_all_defined(const std::vector<Tensor>& tensors) {
  check<ValueError>(!tensors.empty(), "expected at least one tensor, got none");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    check<ValueError>(tensors[i].defined(), "tensor ", i, " is undefined");
}

/// Under autocast, all in the widest of floating dtypes.
std::vector<Tensor> promoted(std::vector<Tensor> tensors) {
  DType widest = tensors[0].dtype();
  for (const Tensor& x : tensors) {
    if (!autocast_enabled() || !is_floating(x.dtype()) || !is_floating(widest)) return tensors;
    widest = bytetape::promoted(widest, x.dtype());
  }
  for (Tensor& x : tensors) x = to(x, widest);
  return tensors;
}

}  // namespace

struct CatBackward final : Node {
  int dim = 0;
  std::vector<std::int64_t> lengths;
  void backward(const Grads& gy, InputGrads& gx) override {
    std::int64_t start = 0;
    for (std::size_t i = 0; i < lengths.size(); start += lengths[i++])
      if (gx.needs(i)) gx[i] = narrow(gy[0], dim, start, lengths[i]);
  }
};
Tensor cat(const std::vector<Tensor>& list, std::int64_t dim) {
  const Op<"cat"> op;
  check_all_defined(list);
  const std::vector<Tensor> tensors = promoted(list);
  check(tensors[0].rank() > 0, "scalars have no dim to join, got ", describe(tensors[0]), "; use stack");
  const int d = wrap_dim(dim, tensors[0].shape());
  check_alike(tensors, d);
  Shape shape = tensors[0].shape();
  shape[d] = 0;
  for (const Tensor& x : tensors) shape[d] += x.shape()[d];
  const Tensor& first = tensors[0];
  Tensor y = empty(shape, suggest_memory_format(first), first.dtype(), first.device());
  std::int64_t start = 0;
  for (const Tensor& x : tensors) {
    const Tensor place = y.alias(x.shape(), y.strides(), start * y.strides()[d]);
    run<&Kernels::copy>(y.device(), x.read(), place.write());
    start += x.shape()[d];
  }
  if (auto* node = record_list<CatBackward>(y, tensors)) {
    node->dim = d;
    for (const Tensor& x : tensors) node->lengths.push_back(x.shape()[d]);
  }
  return y;
}

Tensor stack(const std::vector<Tensor>& list, std::int64_t dim) {
  const Op<"stack"> op;
  check_all_defined(list);
  const std::vector<Tensor> tensors = promoted(list);
  check_alike(tensors, -1);
  const int d = wrap_dim(dim, tensors[0].shape(), 1);
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) parts.push_back(unsqueeze(x, d));
  return cat(parts, d);
}

}  // namespace bytetape
