#pragma once
#include <cstdint>

#include "bytetape/data/resident.h"

namespace bytetape::data {

/// A text as token ids, cut into windows of `length` tokens, for language models. Each window is an example: x has its
/// tokens, and y the token after each.
class ResidentTokens final : public ResidentDataset {
 public:
  /// Copies the tokens, i64 (n), to the device. Tokens that are already there are shared.
  /// Throws DTypeError or ShapeError if the tokens are not i64 (n).
  /// Throws ValueError if length is not positive, or there are fewer than length + 1 tokens.
  /// Throws DeviceError if the device does not exist, or a meta tensor would go to another device.
  ResidentTokens(const Tensor& tokens, std::int64_t length, Device device = default_device());

  /// Returns the number of windows. Tokens after the last whole window are dropped.
  std::int64_t size() const override { return windows_; }
  Device device() const override { return tokens_.device(); }
  /// x and y are i64 (m, length).
  /// Throws ValueError if `augment` changes anything, as text has no augmentation.
  /// Throws ValueError if an index is not in [0, size()).
  Batch get(const Tensor& indices, const Augmentation& augment = {},
            Generator& generator = default_generator()) const override;

 private:
  Tensor windows_from(std::int64_t first, const Tensor& indices) const;

  Tensor tokens_;
  std::int64_t length_, windows_;
};

}  // namespace bytetape::data
