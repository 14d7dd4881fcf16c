#pragma once
#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

namespace bytetape::cuda {

/// The values that were used last, by key.
template <class Key, class Value, class Hash>
class Lru {
 public:
  /// The value of a key, which counts as used; null where there is none.
  Value* find(const Key& key) {
    const auto at = places_.find(key);
    if (at == places_.end()) return nullptr;
    values_.splice(values_.begin(), values_, at->second);
    return &at->second->second;
  }
  /// A value for a key that has none. References to the others stay valid.
  Value& add(const Key& key, Value value) {
    values_.emplace_front(key, std::move(value));
    places_[key] = values_.begin();
    return values_.front().second;
  }
  /// Takes out the value that was used longest ago; there is one.
  Value drop_last() {
    Value value = std::move(values_.back().second);
    places_.erase(values_.back().first);
    values_.pop_back();
    return value;
  }
  std::size_t size() const { return values_.size(); }

 private:
  using Values = std::list<std::pair<Key, Value>>;
  Values values_;  // the one used last comes first
  std::unordered_map<Key, typename Values::iterator, Hash> places_;
};

}  // namespace bytetape::cuda
