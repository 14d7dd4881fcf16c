#include "bytetape/nn/key_value_cache.h"

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/attention/cached_attention.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/gather.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/cached_attention.h"

namespace bytetape::nn {

KeyValueCache::KeyValueCache(const KeyValueCacheSizes& s) : sizes_(s) {
  check<ValueError>(s.layers > 0 && s.rows > 0 && s.heads > 0 && s.capacity > 0 && s.head_size > 0,
                    "KeyValueCache needs positive sizes, got ", s.layers, " layers, ", s.rows, " rows, ", s.heads,
                    " heads, a capacity of ", s.capacity, " and a head size of ", s.head_size);
  check<ValueError>(s.head_size <= most_cached_columns, "KeyValueCache needs a head size of at most ",
                    most_cached_columns, ", got ", s.head_size);
  check<DTypeError>(is_floating(s.dtype), "KeyValueCache needs a floating dtype, got ", s.dtype);
  const memory::Role role = memory::Role::key_value_cache;
  for (std::int64_t layer = 0; layer < s.layers; ++layer)
    for (std::vector<Tensor>* const all : {&keys_, &values_})
      all->push_back(zeros({s.rows, s.heads, s.capacity, s.head_size}, s.dtype, s.device, role));
  positions_ = zeros({s.rows}, DType::i64, s.device, role);
}

Tensor KeyValueCache::attend(std::int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v) {
  check<ValueError>(layer >= 0 && layer < sizes_.layers, "KeyValueCache: there is no layer ", layer, " of ",
                    sizes_.layers);
  return cached_attention(q, k, v, keys(layer), values(layer), positions_);
}

Tensor KeyValueCache::token_positions(std::int64_t t) const {
  const Tensor first = unsqueeze(positions_, 1);
  return t == 1 ? first : first + arange(t, DType::i64, sizes_.device);
}

Tensor KeyValueCache::last_tokens(const Tensor& x) const {
  check(x.defined() && x.rank() == 3 && x.size(0) == sizes_.rows && x.size(1) > 0, "KeyValueCache expects (",
        sizes_.rows, ", t, d) with at least one token, got ", describe(x));
  if (!lengths_.defined()) return narrow(x, 1, x.size(1) - 1, 1);
  return gather(x, 1, expand(view(lengths_ - 1, {sizes_.rows, 1, 1}), {sizes_.rows, 1, x.size(2)}));
}

void KeyValueCache::set_lengths(const Tensor& lengths) {
  check<DTypeError>(lengths.dtype() == DType::i64, "KeyValueCache expects lengths in i64, got ", describe(lengths));
  check<DeviceError>(lengths.device() == sizes_.device, "KeyValueCache: the lengths are on another device than the ",
                     "cache on ", sizes_.device, ": ", describe(lengths));
  check(lengths.shape() == Shape{sizes_.rows}, "KeyValueCache expects a length for each of its ", sizes_.rows,
        " rows, got ", describe(lengths));
  lengths_ = lengths;
}

void KeyValueCache::advance(std::int64_t t) {
  const NoGrad no_grad;
  if (lengths_.defined())
    add_(positions_, lengths_);
  else
    add_(positions_, t);
  lengths_ = {};
}

void KeyValueCache::reset() {
  zero_(positions_);
  lengths_ = {};
}

}  // namespace bytetape::nn
