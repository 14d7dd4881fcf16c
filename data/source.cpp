#include "bytetape/data/source.h"

#include <utility>

#include "bytetape/core/files/input.h"

namespace bytetape::data {
namespace {

/// A source that reads an input from start to end.
class InputSource final : public Source {
 public:
  explicit InputSource(std::unique_ptr<const Input> input) : input_(std::move(input)) {}
  std::size_t read(std::byte* to, std::size_t n) override {
    const std::size_t got = input_->read(at_, to, n);
    at_ += got;
    return got;
  }
  std::uint64_t most() const override { return input_->bytes_from(at_); }
  bool is_exact() const override { return true; }

 private:
  std::unique_ptr<const Input> input_;
  std::uint64_t at_ = 0;
};

}  // namespace

std::unique_ptr<Source> open_file(const std::filesystem::path& path) {
  return std::make_unique<InputSource>(open_input(path));
}
std::unique_ptr<Source> open_memory(std::span<const std::byte> bytes) {
  return std::make_unique<InputSource>(memory_input(bytes, ""));
}

}  // namespace bytetape::data
