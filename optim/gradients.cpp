#include "bytetape/optim/gradients.h"

#include <algorithm>
#include <utility>

#include "bytetape/core/check.h"

namespace bytetape::optim {
namespace {

void check_gradients_apart(const std::vector<Tensor>& gradients) {
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

std::vector<Tensor> gradients_to_write(const std::vector<Tensor>& parameters) {
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
  check_gradients_apart(all);
  return all;
}

std::vector<View> written_views(const std::vector<Tensor>& gradients) {
  std::vector<View> views;
  for (const Tensor& g : gradients) views.push_back(g.write());
  return views;
}

void note_writes(const std::vector<Tensor>& gradients) {
  for (const Tensor& g : gradients) g.storage().bump_version();
}

}  // namespace bytetape::optim
