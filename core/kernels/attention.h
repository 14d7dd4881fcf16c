#pragma once
#include <algorithm>
#include <cstdint>

#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/kernels/work.h"
#include "bytetape/core/random.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Scaled dot-product attention: y = dropout(softmax(scale q k^T + mask)) v for each batch b and head h (Vaswani et al.,
// "Attention is all you need", 2017). q is (b, h, n, d), k (b, g, m, d) and v (b, g, m, e). g divides h, and head i
// reads head i / (h / g) of k and v. Views may have any strides. All have one floating dtype.

/// The inputs of forward and backward.
struct AttentionInputs {
  ConstView q, k, v;
  /// (b, h, n, m) or undefined: bool, true where a query may attend to a key; or the dtype in which scores are
  /// computed, added to the scores.
  ConstView mask = {};
  bool is_causal = false;  ///< whether query i attends to keys 0 to i alone
  double scale = 1;
  double p = 0;          ///< the probability of dropout
  bool may_fuse = true;  ///< whether the device may use fused kernels
  /// Probability (b, h, i, j) is dropped by its word in row-major order (core/philox.h), if drops_by_own_mask() is
  /// false.
  PhiloxState state = {};

  std::uint64_t moved_bytes() const { return detail::bytes_of_fields(*this); }
};

/// The sizes of an attention: b, h, g, n, m, d and e.
struct AttentionSizes {
  std::int64_t batch, heads, groups, n, m, d, e;
  bool is_causal;

  explicit AttentionSizes(const AttentionInputs& in)
      : batch(in.q.shape[0]),
        heads(in.q.shape[1]),
        groups(in.k.shape[1]),
        n(in.q.shape[2]),
        m(in.k.shape[2]),
        d(in.q.shape[3]),
        e(in.v.shape[3]),
        is_causal(in.is_causal) {}
  constexpr std::int64_t heads_per_group() const { return heads / groups; }
  /// Returns the end of the keys that queries before `end` may attend to.
  constexpr std::int64_t end_of_keys(std::int64_t end) const { return is_causal ? std::min(m, end) : m; }
  /// Returns the number of pairs of a query and a key that it may attend to, whatever the mask.
  constexpr std::int64_t pairs() const {
    const std::int64_t whole = std::max<std::int64_t>(n - m, 0),
                       partial = std::min(n, m);  // rows with all keys, and others
    return batch * heads * (is_causal ? whole * m + partial * (partial + 1) / 2 : n * m);
  }
};

/// y (b, h, n, e) has q's dtype. shift and factor (b, h, n) are row-major, in the dtype of the scores. A probability is
/// exp(score - shift) * factor: shift is the row's largest score, and factor is 1 / sum(exp(score - shift)). Their
/// log-sum-exp alone would not do: near -1e9, f32 rounds log(sum) away. A query that may attend to no key gives y = 0,
/// shift = 0 and factor = 0. Without a mask, a device may store the log-sum-exp in shift and 1 in factor.
struct AttentionArgs {
  AttentionInputs in;
  View y, shift, factor;

  /// Two products: q k^T, and the probabilities with v.
  memory::Work flop() const {
    const AttentionSizes s(in);
    return product_work(in.q.dtype, s.pairs() * (s.d + s.e));
  }
};
/// The gradients have the shapes of q, k and v, and any strides without overlap.
struct AttentionBackwardArgs {
  AttentionInputs in;
  ConstView y, shift, factor, gy;
  View gq, gk, gv;

  /// Five products: q k^T again, and the gradients of the probabilities, q, k and v.
  memory::Work flop() const {
    const AttentionSizes s(in);
    return product_work(in.q.dtype, s.pairs() * (3 * s.d + 2 * s.e));
  }
};

struct AttentionKernels {
  Planned<AttentionArgs> attention;
  Planned<AttentionBackwardArgs> attention_backward;
  /// Whether the device drops probabilities by a mask of its own, drawn from in.state, and not by the state's words.
  /// Null if it never does.
  bool (*drops_by_own_mask)(const AttentionInputs& in) = nullptr;
};

}  // namespace bytetape
