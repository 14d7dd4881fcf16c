#pragma once
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "bytetape/core/memory/allocator/spin_lock.h"
#include "bytetape/core/memory/allocator/upstream.h"

namespace bytetape::memory {

/// An upstream that releases the caller's spin lock during allocate() and deallocate(), because they may take
/// milliseconds. So other threads do not spin. allocate(), deallocate() and outside() run one at a time.
class UnlockedUpstream final : public Upstream {
 public:
  UnlockedUpstream(std::unique_ptr<Upstream> upstream, SpinLock& lock) : upstream_(std::move(upstream)), lock_(lock) {}

  void* allocate(std::size_t bytes) noexcept override {
    const Unlocked here(*this);
    return upstream_->allocate(bytes);
  }
  void deallocate(void* data, std::size_t bytes) noexcept override {
    const Unlocked here(*this);
    upstream_->deallocate(data, bytes);
  }
  void check_failure() override { upstream_->check_failure(); }
  std::size_t capacity() const override { return upstream_->capacity(); }
  /// The caller must not hold the spin lock.
  std::optional<Outside> outside() const override {
    const std::lock_guard call(calls_);
    return upstream_->outside();
  }

 private:
  class Unlocked {
   public:
    explicit Unlocked(UnlockedUpstream& u) : u_(u) {
      u_.lock_.unlock();
      u_.calls_.lock();
    }
    ~Unlocked() {
      u_.calls_.unlock();
      u_.lock_.lock();
    }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

   private:
    UnlockedUpstream& u_;
  };

  std::unique_ptr<Upstream> upstream_;
  SpinLock& lock_;
  mutable std::mutex calls_;
};

}  // namespace bytetape::memory
