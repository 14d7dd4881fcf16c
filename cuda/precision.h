#pragma once
#include <atomic>

namespace bytetape::cuda {

namespace detail {
inline std::atomic<bool> tf32_allowed{false};
}

/// Whether f32 products, convolutions and attention may round factors to TF32, with 10 bits of mantissa
/// (torch.backends.cuda.matmul.allow_tf32). That is several times as fast. Default: false.
inline bool allow_tf32() { return detail::tf32_allowed.load(std::memory_order_relaxed); }
inline void set_allow_tf32(bool on) { detail::tf32_allowed.store(on, std::memory_order_relaxed); }

}  // namespace bytetape::cuda
