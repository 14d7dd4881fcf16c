// The methods of Module that replace the values of its tensors.
#include <map>
#include <unordered_set>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/device/overlap.h"
#include "bytetape/core/error.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

Tensor Module::to(const Tensor& x, Device device) { return bytetape::to(x, device); }
Tensor Module::to(const Tensor& x, DType dtype) { return bytetape::to(x, dtype); }
Tensor Module::to(const Tensor& x, Device device, DType dtype) { return bytetape::to(x, device, dtype); }

void Module::convert(const std::function<Tensor(const Tensor&)>& f) {
  const NoGrad no_grad;
  struct Moved {
    Tensor x, data, grad;
  };
  std::vector<Moved> all;  // complete before anything changes, so that an exception leaves the model unchanged
  std::unordered_set<const TensorImpl*> seen;
  for (const auto& [name, x] : named({Slot::Kind::parameter, Slot::Kind::buffer, Slot::Kind::unsaved_buffer})) {
    if (!seen.insert(x.impl()).second) continue;
    const Tensor grad = x.grad();
    all.push_back({x, f(x), grad.defined() ? f(grad) : grad});
  }
  for (Moved& m : all) {
    m.x.set_grad({});
    m.x.set_data(m.data);
    m.x.set_grad(m.grad);
  }
}

Module& Module::to(Device device) {
  convert([device](const Tensor& x) { return bytetape::to(x, device); });
  return *this;
}

static void check_floating_model(DType dtype) {
  check<DTypeError>(is_floating(dtype), "a model's parameters are floating, not ", dtype);
}
Module& Module::to(DType dtype) {
  check_floating_model(dtype);
  convert([dtype](const Tensor& x) { return is_floating(x.dtype()) ? bytetape::to(x, dtype) : x; });
  return *this;
}
Module& Module::to(Device device, DType dtype) {
  check_floating_model(dtype);
  convert([=](const Tensor& x) { return bytetape::to(x, device, is_floating(x.dtype()) ? dtype : x.dtype()); });
  return *this;
}

void Module::load_state_dict(const NamedTensors& state, bool strict) {
  std::vector<std::string> keys;
  std::map<std::string, Tensor> given, own;
  for (const auto& [name, x] : state) {
    keys.push_back(name);
    given.emplace(name, x);
  }
  check_keys("load_state_dict", state_dict(), keys, strict);
  for (const auto& [name, x] : state_dict()) own.emplace(name, x);
  std::erase_if(own, [&](const auto& entry) { return !given.contains(entry.first); });
  for (const auto& [name, x] : own) {
    const Tensor& from = given.at(name);
    check<ValueError>(from.defined(), "load_state_dict: '", name, "' is an undefined tensor in the state");
    check(from.shape() == x.shape(), "load_state_dict: '", name, "' has shape ", from.shape(), " in the state, but ",
          x.shape(), " in the model");
    check<ValueError>(!overlaps_itself(x), "load_state_dict: '", name, "', ", bytetape::describe(x),
                      ", has elements that share memory, and cannot be written to");
    check<DeviceError>(!from.device().is_meta || x.device().is_meta, "load_state_dict: '", name, "' is ",
                       bytetape::describe(from), " in the state, which holds no data");
  }
  const NoGrad no_grad;
  for (auto& [name, x] : own) copy_(x, given.at(name));
}

}  // namespace bytetape::nn
