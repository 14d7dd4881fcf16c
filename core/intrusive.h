#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace bytetape {

/// Base of reference-counted objects. The count is thread-safe; the object is not.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) : count_(0) {}
  RefCounted& operator=(const RefCounted&) { return *this; }
  std::uint32_t use_count() const { return count_.load(std::memory_order_acquire); }
  /// Whether Ref::if_alive may find the object through a plain pointer. A derived class hides it to say true.
  static constexpr bool found_weakly = false;
  /// Deletes the object. A derived class may hide it.
  template <class T>
  static void dispose(T* p) {
    delete p;
  }

 private:
  template <class T>
  friend class Ref;
  mutable std::atomic<std::uint32_t> count_{0};
};

/// An owning pointer to a RefCounted object: one word, no control block.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* p) : p_(p) { retain(); }
  Ref(const Ref& o) : p_(o.p_) { retain(); }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  template <class U>
  Ref(Ref<U> o) : p_(o.release()) {}
  ~Ref() { drop(); }
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  /// Takes ownership of a new object that no one else has seen.
  static Ref first(T* p) {
    p->count_.store(1, std::memory_order_relaxed);
    Ref r;
    r.p_ = p;
    return r;
  }
  /// Returns another owner of an object, or an empty Ref if the object is being deleted. The caller's lock must
  /// serialise this call and the deletion.
  static Ref if_alive(T* p) {
    static_assert(T::found_weakly);
    Ref r;
    std::uint32_t count = p ? p->count_.load(std::memory_order_relaxed) : 0;
    while (count != 0)
      if (p->count_.compare_exchange_weak(count, count + 1, std::memory_order_acquire)) {
        r.p_ = p;
        break;
      }
    return r;
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }
  /// Returns the pointer and gives up ownership, without decreasing the count.
  T* release() { return std::exchange(p_, nullptr); }

 private:
  void retain() {
    if (p_) p_->count_.fetch_add(1, std::memory_order_relaxed);
  }
  void drop() {
    if (!p_) return;
    // The only owner needs no atomic decrement if nobody else can find the object.
    const bool only = !T::found_weakly && p_->count_.load(std::memory_order_acquire) == 1;
    if (only || p_->count_.fetch_sub(1, std::memory_order_acq_rel) == 1) T::dispose(p_);
  }
  T* p_ = nullptr;
};

/// Makes a new T with one owner.
template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>::first(new T(std::forward<Args>(args)...));
}

}  // namespace bytetape
