#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <utility>

#include "bytetape/core/error.h"
#include "bytetape/data/source.h"

namespace bytetape::data {
namespace {

constexpr std::array magic{std::byte{0x1f}, std::byte{0x8b}};

// The largest factor by which a deflate stream can grow (https://zlib.net/zlib_tech.html, "Maximum Compression
// Factor").
constexpr std::uint64_t most_growth = 1032;

/// A source that returns bytes that were read ahead, then the rest of another source.
class Rejoined final : public Source {
 public:
  Rejoined(std::span<const std::byte> head, std::unique_ptr<Source> rest) : rest_(std::move(rest)) {
    std::copy(head.begin(), head.end(), head_.begin());
    end_ = head.size();
  }
  std::size_t read(std::byte* to, std::size_t n) override {
    const std::size_t from_head = std::min(n, end_ - at_);
    std::copy_n(head_.begin() + static_cast<std::ptrdiff_t>(at_), from_head, to);
    at_ += from_head;
    return n == from_head ? n : from_head + rest_->read(to + from_head, n - from_head);
  }
  std::uint64_t most() const override { return end_ - at_ + rest_->most(); }
  bool is_exact() const override { return rest_->is_exact(); }

 private:
  std::array<std::byte, magic.size()> head_{};
  std::size_t at_ = 0, end_ = 0;
  std::unique_ptr<Source> rest_;
};

class Inflated final : public Source {
 public:
  Inflated(std::unique_ptr<Source> packed, std::string name)
      : packed_(std::move(packed)), name_(std::move(name)), size_(packed_->most()) {
    constexpr int gzip_only = 16;
    if (inflateInit2(&stream_, MAX_WBITS + gzip_only) != Z_OK) throw std::bad_alloc();
  }
  ~Inflated() override { inflateEnd(&stream_); }
  Inflated(const Inflated&) = delete;
  Inflated& operator=(const Inflated&) = delete;

  std::size_t read(std::byte* to, std::size_t n) override {
    std::size_t done = 0;
    while (done < n && !ended_) {
      const std::size_t piece = std::min<std::size_t>(n - done, std::numeric_limits<uInt>::max());
      stream_.next_out = reinterpret_cast<Bytef*>(to + done);
      stream_.avail_out = static_cast<uInt>(piece);
      step();
      done += piece - stream_.avail_out;
    }
    given_ += done;
    return done;
  }
  std::uint64_t most() const override {
    const std::uint64_t bound = size_ * most_growth;
    return ended_ || given_ > bound ? 0 : bound - given_;
  }
  bool is_exact() const override { return false; }

 private:
  void step() {
    if (stream_.avail_in == 0) refill();
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    check<FileError>(status == Z_OK || status == Z_STREAM_END, name_,
                     ": corrupt gzip data: ", stream_.msg ? stream_.msg : "unknown error");
    if (status == Z_STREAM_END) end();
  }

  void refill() {
    const std::size_t got = packed_->read(buffer_.data(), buffer_.size());
    check<FileError>(got > 0, name_, ": expected a complete gzip stream, found one that ends after ", size_, " bytes");
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_in = static_cast<uInt>(got);
  }

  void end() {
    ended_ = true;
    const std::uint64_t after = stream_.avail_in + packed_->most();
    check<FileError>(after == 0, name_, ": expected nothing after the gzip stream, found ", after, " bytes");
  }

  std::unique_ptr<Source> packed_;
  std::string name_;
  std::uint64_t size_, given_ = 0;
  bool ended_ = false;
  z_stream stream_{};
  std::array<std::byte, std::size_t{1} << 16> buffer_;
};

}  // namespace

std::unique_ptr<Source> inflated(std::unique_ptr<Source> packed, const std::string& name) {
  std::array<std::byte, magic.size()> head;
  const std::size_t got = packed->read(head.data(), head.size());
  auto whole = std::make_unique<Rejoined>(std::span(head).first(got), std::move(packed));
  if (got < head.size() || head != magic) return whole;
  return std::make_unique<Inflated>(std::move(whole), name);
}

}  // namespace bytetape::data
