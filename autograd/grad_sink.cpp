#include "bytetape/autograd/grad_sink.h"

#include "bytetape/autograd/node.h"

namespace bytetape {

bool detail::may_have_narrow_gradient(const Tensor& x, DType dtype) {
  if (x.dtype() != DType::f32 || !is_floating(dtype) || size_of(dtype) != 2) return false;
  const AutogradMeta* const meta = autograd_meta_if_any(x);
  return meta && meta->sink && meta->sink->place_of_leaf(x) == GradSink::Place::part;
}

}  // namespace bytetape
