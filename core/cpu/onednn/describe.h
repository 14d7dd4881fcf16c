#pragma once
#include <oneapi/dnnl/dnnl.hpp>

// oneDNN 3 merged P::desc into P::primitive_desc, with the same order of arguments.
namespace bytetape::cpu::onednn {

const dnnl::engine& engine();
/// Returns attributes with which scratch memory comes from the caller.
const dnnl::primitive_attr& user_scratchpad();

/// Returns the primitive descriptor of P for these arguments.
template <class P, class... Args>
typename P::primitive_desc describe_with(const dnnl::primitive_attr& attr, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(engine(), args..., attr);
#else
  return typename P::primitive_desc(typename P::desc(args...), attr, engine());
#endif
}
template <class P, class... Args>
typename P::primitive_desc describe(const Args&... args) {
  return describe_with<P>(user_scratchpad(), args...);
}

/// As describe_with(), for a backward primitive, which needs the forward descriptor.
template <class P, class Hint, class... Args>
typename P::primitive_desc describe_backward(const Hint& forward, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(engine(), args..., forward, user_scratchpad());
#else
  return typename P::primitive_desc(typename P::desc(args...), user_scratchpad(), engine(), forward);
#endif
}

}  // namespace bytetape::cpu::onednn
