#pragma once
#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

namespace bytetape::cuda {

/// A cache of recently used values, by key.
template <class Key, class Value, class Hash>
class Lru {
 public:
  /// Returns the value of a key and marks it as used; null if there is none.
  Value* find(const Key& key) {
    const auto at = places_.find(key);
    if (at == places_.end()) return nullptr;
    values_.splice(values_.begin(), values_, at->second);
    return &at->second->second;
  }
  /// Adds the value of a new key. References to other values stay valid.
  Value& add(const Key& key, Value value) {
    values_.emplace_front(key, std::move(value));
    places_[key] = values_.begin();
    return values_.front().second;
  }
  /// Removes and returns the least recently used value. The cache must not be empty.
  Value drop_last() {
    Value value = std::move(values_.back().second);
    places_.erase(values_.back().first);
    values_.pop_back();
    return value;
  }
  std::size_t size() const { return values_.size(); }

 private:
  using Values = std::list<std::pair<Key, Value>>;
  Values values_;  // most recently used first
  std::unordered_map<Key, typename Values::iterator, Hash> places_;
};

}  // namespace bytetape::cuda
