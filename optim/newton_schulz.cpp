#include "bytetape/optim/newton_schulz.h"

#include <algorithm>
#include <utility>

#include "bytetape/core/kernels/optimizer.h"

namespace bytetape::optim {
namespace {

ConstView transposed(const ConstView& x) {
  return {
      x.data(), x.dtype, x.device, {x.shape[0], x.shape[2], x.shape[1]}, {x.strides[0], x.strides[2], x.strides[1]}};
}

}  // namespace

NewtonSchulz::NewtonSchulz(const MatrixBatch& b)
    : batch_(b),
      is_tall_(b.rows > b.columns),
      x_(empty({b.count, b.rows, b.columns}, b.dtype, b.device)),
      next_(empty_like(x_)),
      gram_(empty({b.count, std::min(b.rows, b.columns), std::min(b.rows, b.columns)}, b.dtype, b.device)),
      square_(empty_like(gram_)),
      gram_kernel_(b.device, gram_args()),
      square_kernel_(b.device, square_args()),
      product_kernel_(b.device, product_args()) {}

View NewtonSchulz::matrix(std::int64_t i, const Shape& shape, const Strides& strides) const {
  const View all = x_.write();
  const std::int64_t bytes = i * batch_.rows * batch_.columns * static_cast<std::int64_t>(size_of(batch_.dtype));
  return {static_cast<char*>(all.data()) + bytes, batch_.dtype, batch_.device, shape, strides};
}

MatmulArgs NewtonSchulz::gram_args() const {
  const ConstView x = x_.read();
  return is_tall_ ? MatmulArgs{transposed(x), x, {}, gram_.write()} : MatmulArgs{x, transposed(x), {}, gram_.write()};
}
MatmulArgs NewtonSchulz::square_args() const { return {gram_.read(), gram_.read(), {}, square_.write()}; }
MatmulArgs NewtonSchulz::product_args() const {
  const ConstView x = x_.read(), polynomial = square_.read();
  return is_tall_ ? MatmulArgs{x, polynomial, {}, next_.write()} : MatmulArgs{polynomial, x, {}, next_.write()};
}

void NewtonSchulz::run(const std::array<double, 3>& coefficients, std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) {
    gram_kernel_.launch(gram_args());
    square_kernel_.launch(square_args());
    bytetape::run<&OptimizerKernels::muon_polynomial>(batch_.device, gram_.read(), square_.write(), coefficients);
    product_kernel_.launch(product_args());
    std::swap(x_, next_);
  }
}

}  // namespace bytetape::optim
