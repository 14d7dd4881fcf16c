#pragma once
#include <atomic>

namespace bytetape::cuda {

namespace detail {
inline std::atomic<bool> tf32_allowed{false};
}

/// Whether products and convolutions of f32 may round what they multiply to TF32's 10 bits, which is several times as
/// fast (torch.backends.cuda.matmul.allow_tf32). Off at start.
inline bool allow_tf32() { return detail::tf32_allowed.load(std::memory_order_relaxed); }
inline void set_allow_tf32(bool on) { detail::tf32_allowed.store(on, std::memory_order_relaxed); }

}  // namespace bytetape::cuda
