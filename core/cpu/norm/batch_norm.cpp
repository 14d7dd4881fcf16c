// The result of batch normalisation, and the kernel table.
#include "bytetape/core/cpu/norm/batch_norm.h"

#include "bytetape/core/cpu/activation.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {
namespace {

/// Returns v where it is not below 0. v is a number or an array.
template <class V>
auto rectified(const V& v) {
  if constexpr (std::is_arithmetic_v<V>)
    return v < 0 ? V{0} : v;
  else
    return v.max(typename V::Scalar{0});  // Eigen returns v for NaN and for -0
}

/// Computes y = finish(bn(x), residual...) elementwise.
template <class T, class F, class... Residual>
void normalise(const BatchNormApplyArgs& a, const F& finish, const Residual&... residual) {
  map_channels<T>([&](std::int64_t c) { return normalisation(a, c); },
                  [&](const auto& mean, const auto& scale, const auto& shift, const auto& x, const auto&... r) {
                    return finish((((x - mean) * scale + shift) + ... + r));
                  },
                  a.y, a.x, residual...);
}

void batch_norm_apply(const BatchNormApplyArgs& a) {
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto with = [&](const auto& finish) {
      if (a.residual.defined())
        normalise<T>(a, finish, a.residual);
      else
        normalise<T>(a, finish);
    };
    if (a.activation == Activation::relu)
      with([](const auto& v) { return rectified(v); });
    else
      with([](const auto& v) { return v; });
  });
  if (a.activation == Activation::gelu_tanh) activate(a.activation, a.y);
}

Plan plan(const BatchNormTrainArgs& args) { return {scratch_bytes(args.statistics.x)}; }
Plan plan(const BatchNormBackwardArgs& args) { return {scratch_bytes(args.x)}; }

void batch_norm_train(const BatchNormTrainArgs& a, const Plan&, Workspace ws) {
  batch_norm_statistics(a.statistics, ws);
  batch_norm_apply(a.result);
}

}  // namespace

const BatchNormKernels& batch_norm_kernels() {
  static const BatchNormKernels all{
      .batch_norm_train = {plan, batch_norm_train},
      .batch_norm_apply = batch_norm_apply,
      .batch_norm_backward = {plan, batch_norm_backward},
  };
  return all;
}

}  // namespace bytetape::cpu
