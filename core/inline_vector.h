#pragma once
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace bytetape {

/// A vector that stores its first N elements inline, so that short lists need no heap allocation.
template <class T, std::size_t N>
class InlineVector {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

  void push_back(T value) {
    if (size_ < N) {
      inline_[size_++] = std::move(value);
      return;
    }
    if (heap_.empty())
      for (T& v : inline_) heap_.push_back(std::move(v));
    heap_.push_back(std::move(value));
    ++size_;
  }
  void resize(std::size_t n) {
    while (size_ < n) push_back(T{});
  }
  void clear() {
    for (std::size_t i = 0; i < size_ && i < N; ++i) inline_[i] = T{};
    heap_.clear();
    size_ = 0;
  }

 private:
  T* data() { return heap_.empty() ? inline_.data() : heap_.data(); }
  const T* data() const { return heap_.empty() ? inline_.data() : heap_.data(); }
  std::array<T, N> inline_{};
  std::vector<T> heap_;
  std::size_t size_ = 0;
};

}  // namespace bytetape
