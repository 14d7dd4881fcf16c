#pragma once
#include <cstdint>
#include <string>

namespace bytetape::dist {

/// A hash of numbers and texts that is the same in every process (FNV-1a), to compare what ranks do.
class Hash {
 public:
  Hash& add(std::uint64_t value) {
    value_ = (value_ ^ value) * 0x100000001B3u;
    return *this;
  }
  Hash& add(const std::string& text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
    return add(text.size());
  }
  std::uint64_t get() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace bytetape::dist
