#include "bytetape/data/tokens.h"

#include "bytetape/core/check.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/indexing.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape::data {

ResidentTokens::ResidentTokens(const Tensor& tokens, std::int64_t length, Device device) : length_(length) {
  const memory::Op<"ResidentTokens"> op;
  const memory::PhaseScope phase(memory::Phase::data);
  check_defined(tokens, "tokens");
  check<DTypeError>(tokens.dtype() == DType::i64, "expected tokens in i64, got ", describe(tokens));
  check(tokens.rank() == 1, "expected tokens (n), got ", describe(tokens));
  check<ValueError>(length > 0, "expected windows of at least one token, got a length of ", length);
  check<ValueError>(tokens.numel() > length, "expected more than the ", length, " tokens of a window, got ",
                    tokens.numel());
  windows_ = (tokens.numel() - 1) / length;
  tokens_ = resident_copy(tokens, device);
}

Batch ResidentTokens::get(const Tensor& indices, const Augmentation& augment, Generator&) const {
  const memory::Op<"ResidentTokens"> op;
  const memory::PhaseScope phase(memory::Phase::data);
  check_defined(indices, "indices");
  check<ValueError>(!augment.changes_anything(), "text has no augmentation");
  check<DTypeError>(indices.dtype() == DType::i64, "expected indices in i64, got ", describe(indices));
  check(indices.rank() == 1, "expected indices (m), got ", describe(indices));
  check<DeviceError>(indices.device() == device(), "indices on another device: ", describe(indices), " and ",
                     describe(tokens_));
  Tensor x = windows_from(0, indices);
  return {std::move(x), windows_from(1, indices)};
}

/// Returns the windows `indices` of the text that begins at token `first`.
Tensor ResidentTokens::windows_from(std::int64_t first, const Tensor& indices) const {
  const std::int64_t step = tokens_.strides()[0];
  const Tensor windows =
      tokens_.alias({windows_, length_}, {length_ * step, step}, tokens_.storage_offset() + first * step);
  Tensor y = empty({indices.numel(), length_}, DType::i64, device(), memory::Role::input);
  run<&IndexingKernels::index_select>(device(), IndexSelectArgs{windows.read(), indices.read(), 0, y.write()});
  return y;
}

}  // namespace bytetape::data
