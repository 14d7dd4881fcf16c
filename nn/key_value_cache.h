#pragma once
#include <cstdint>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::nn {

/// The sizes of a KeyValueCache.
struct KeyValueCacheSizes {
  std::int64_t layers = 1;     ///< attention layers of the model
  std::int64_t rows = 1;       ///< sequences that are generated at once
  std::int64_t heads = 1;      ///< heads of the keys and values; with grouped queries, fewer than those of the queries
  std::int64_t capacity = 1;   ///< tokens of a row
  std::int64_t head_size = 1;  ///< at most 256
  DType dtype = DType::f32;    ///< the dtype of the model's queries, keys and values; under Autocast, its dtype
  Device device = default_device();
};

/// The keys and values of the tokens that a model has seen, for each attention layer, and how many each row holds. All
/// memory is allocated at once, under the role "key-value cache", so that a step of generation takes no more.
///
///     Tensor Attention::operator()(const Tensor& x, nn::KeyValueCache& cache) {  // of layer 3
///       ...
///       return proj(join_heads(cache.attend(3, q, k, v)));
///
/// A model calls attend() once per layer, and leaves advance() to its caller, such as generate().
class KeyValueCache {
 public:
  /// Throws ValueError if a size is not positive, or the head size exceeds 256.
  /// Throws DTypeError if the dtype is not floating-point.
  explicit KeyValueCache(const KeyValueCacheSizes& sizes);

  /// Adds keys and values of t new tokens to a layer, and returns the attention of the queries to all tokens of their
  /// row so far. See cached_attention() for shapes and errors.
  /// Throws ValueError if there is no such layer.
  Tensor attend(std::int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v);
  /// Returns the positions of t new tokens, i64 (rows, t), for position embeddings.
  Tensor token_positions(std::int64_t t) const;
  /// Returns x (rows, 1, d) of each row's last new token, for x (rows, t, d). A model may apply it before its output
  /// layer, because generation needs no other logits.
  Tensor last_tokens(const Tensor& x) const;

  /// Sets how many of the next new tokens each row keeps, i64 (rows) on the cache's device, until advance(). The rest
  /// is padding, which later tokens overwrite. Default: all.
  void set_lengths(const Tensor& lengths);
  /// Counts t new tokens in each row, or those of set_lengths(). Call it after all layers.
  void advance(std::int64_t t);
  /// Empties all rows.
  void reset();

  const KeyValueCacheSizes& sizes() const { return sizes_; }
  /// The number of tokens that each row holds, i64 (rows), on the device.
  const Tensor& positions() const { return positions_; }
  /// The keys of a layer, (rows, heads, capacity, head_size).
  const Tensor& keys(std::int64_t layer) const { return keys_.at(static_cast<std::size_t>(layer)); }
  const Tensor& values(std::int64_t layer) const { return values_.at(static_cast<std::size_t>(layer)); }

 private:
  KeyValueCacheSizes sizes_;
  std::vector<Tensor> keys_, values_;
  Tensor positions_, lengths_;
};

}  // namespace bytetape::nn
