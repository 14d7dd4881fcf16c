#include "bytetape/optim/clip.h"

#include <algorithm>
#include <utility>

#include "bytetape/core/check.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"

namespace bytetape::optim {
namespace {

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> all;
  for (const Tensor& p : parameters) {
    check_defined(p, "a parameter");
    const Tensor g = p.grad();
    if (!g.defined() || g.numel() == 0) continue;
    check<ValueError>(is_dense(g.shape(), g.strides()), "a gradient, ", describe(g), ", has strides ", g.strides(),
                      ", which leave gaps or repeat elements");
    const Tensor& first = all.empty() ? g : all[0];
    check<DeviceError>(g.device() == first.device(), "gradients on different devices: ", describe(g), " and ",
                       describe(first));
    all.push_back(g);
  }
  return all;
}

/// Gradients that share memory would be scaled twice.
void check_apart(const std::vector<Tensor>& gradients) {
  std::vector<std::pair<const char*, const Tensor*>> by_address;
  for (const Tensor& g : gradients) by_address.push_back({g.read().as<char>(), &g});
  std::sort(by_address.begin(), by_address.end());
  for (std::size_t i = 1; i < by_address.size(); ++i) {
    const auto& [begin, g] = by_address[i - 1];
    check<ValueError>(begin + g->nbytes() <= by_address[i].first, "two gradients, ", describe(*g), " and ",
                      describe(*by_address[i].second), ", share memory: is a parameter given twice?");
  }
}

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm) {
  const memory::Op<"clip_grad_norm_"> op;
  const memory::PhaseScope phase(memory::Phase::optimizer);
  check<ValueError>(max_norm >= 0, "max_norm must not be negative, got ", max_norm);
  const std::vector<Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return zeros({}, DType::f32, parameters.empty() ? default_device() : parameters[0].device());
  check_apart(gradients);
  std::vector<View> views;
  bool is_wide = false;
  for (const Tensor& g : gradients) {
    views.push_back(g.write());
    is_wide |= g.dtype() == DType::f64;
  }
  const Device device = gradients[0].device();
  Tensor norm = empty({}, is_wide ? DType::f64 : DType::f32, device);
  run_planned<&Kernels::clip_grad_norm>(device, {views, norm.write(), max_norm});
  for (const Tensor& g : gradients) g.storage().bump_version();
  return norm;
}

}  // namespace bytetape::optim
