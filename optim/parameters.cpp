#include "bytetape/optim/parameters.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "bytetape/autograd/grad_sink.h"
#include "bytetape/autograd/node.h"
#include "bytetape/core/check.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape::optim {
namespace {

/// Checks that no dense parameters share memory, because one launch updates all of them in parallel.
void check_parameters_apart(const std::vector<Tensor>& parameters) {
  std::vector<std::tuple<const Storage*, std::size_t, const Tensor*>> places;
  for (const Tensor& p : parameters)
    if (p.numel() > 0)
      places.emplace_back(&p.storage(), static_cast<std::size_t>(p.storage_offset()) * size_of(p.dtype()), &p);
  std::sort(places.begin(), places.end());
  for (std::size_t i = 1; i < places.size(); ++i) {
    const auto& [storage, begin, p] = places[i - 1];
    const auto& [next_storage, next_begin, next] = places[i];
    check<ValueError>(storage != next_storage || begin + p->nbytes() <= next_begin, "two parameters, ", describe(*p),
                      " and ", describe(*next),
                      ", share memory; to tie them, assign one to the other: a.weight = b.weight");
  }
}

[[noreturn]] void fail_twice(const Tensor& p, std::size_t first, std::size_t second) {
  const std::string& module = memory::name_of(p.storage().module());
  fail<ValueError>("parameter ", second, ", ", describe(p), module.empty() ? "" : " of module '", module,
                   module.empty() ? "" : "'", ", appears twice: it is parameter ", first,
                   " too; pass a tied parameter once, as parameters() and named_parameters() do");
}

}  // namespace

void check_parameters(const std::vector<Tensor>& parameters) {
  std::unordered_map<const TensorImpl*, std::size_t> first;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    check<ValueError>(p.defined(), "parameter ", i, " is an undefined tensor");
    if (const auto [seen, is_new] = first.emplace(p.impl(), i); !is_new) fail_twice(p, seen->second, i);
    check<ValueError>(p.is_leaf(), "parameter ", i, ", ", describe(p), ", must be a leaf, but is the result of an op");
    check<DTypeError>(is_floating(p.dtype()), "parameter ", i, " must be floating, got ", describe(p));
    check<ValueError>(is_dense(p.shape(), p.strides()), "parameter ", i, ", ", describe(p), ", has strides ",
                      p.strides(), ", which leave gaps or repeat elements");
    check<DeviceError>(p.device() == parameters[0].device(), "parameters on different devices: ", describe(p), " and ",
                       describe(parameters[0]));
  }
  check_parameters_apart(parameters);
}

std::vector<GradSink*> sinks_of_parts(const std::vector<Tensor>& parameters) {
  std::vector<GradSink*> sinks;
  for (const Tensor& p : parameters) {
    const AutogradMeta* const meta = p.defined() ? autograd_meta_if_any(p) : nullptr;
    if (!meta || !meta->sink || meta->sink->place_of_leaf(p) != GradSink::Place::part) continue;
    if (std::ranges::find(sinks, meta->sink) == sinks.end()) sinks.push_back(meta->sink);
  }
  return sinks;
}

void check_not_divided(const Tensor& p, std::size_t i) {
  const AutogradMeta* const meta = autograd_meta_if_any(p);
  check<ValueError>(!meta || !meta->sink || meta->sink->place_of_leaf(p) != GradSink::Place::divided, "parameter ", i,
                    ", ", describe(p),
                    ", is divided among ranks; make the optimizer from dist::Sharded's parameters()");
}

void check_in_place(const Tensor& p, std::size_t i) {
  check<ValueError>(!p.impl()->replaced, "parameter ", i, ", ", describe(p),
                    ", was replaced in its module by an assignment; make a new optimizer, and new averages, from the "
                    "module's parameters");
}

void check_gradient(const Tensor& g, const Tensor& p, std::size_t i) {
  check(g.shape() == p.shape(), "the gradient of parameter ", i, ", ", describe(g),
        ", must have the shape of the parameter, ", describe(p));
  check<DTypeError>(g.dtype() == p.dtype() || bytetape::detail::may_have_narrow_gradient(p, g.dtype()),
                    "the gradient of parameter ", i, ", ", describe(g), ", must have the dtype of the parameter, ",
                    describe(p));
  check<DeviceError>(g.device() == p.device(), "the gradient of parameter ", i, ", ", describe(g),
                     ", must be where the parameter is, ", describe(p));
}

Tensor new_state(const Tensor& p) {
  detail::refuse_in_capture("takes a parameter's first step, which allocates its state");
  const memory::ModuleScope module(p.storage().module());
  return empty_strided(p.shape(), p.strides(), p.dtype(), p.device(), memory::Role::optimizer_state);
}

void check_state(const Tensor& state, const Tensor& p) {
  check(same_layout(p.shape(), state.strides(), p.strides()), "the parameter ", describe(p),
        " changed its layout since its state, ", describe(state), ", was made");
  check<DTypeError>(state.dtype() == p.dtype(), "the parameter ", describe(p), " changed its dtype since its state, ",
                    describe(state), ", was made");
  check<DeviceError>(state.device() == p.device(), "the parameter ", describe(p), " was moved since its state, ",
                     describe(state), ", was made; make the optimizer after moving the module");
}

}  // namespace bytetape::optim
