#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "bytetape/data/idx.h"

namespace {

using namespace bytetape;
using Bytes = std::span<const std::byte>;

/// nullopt where the bytes are refused. Anything but a FileError is a finding.
std::optional<Tensor> parse(Bytes bytes) {
  try {
    return data::parse_idx(bytes, "fuzz");
  } catch (const FileError&) { return std::nullopt; }
}

void require(bool ok) {
  if (!ok) std::abort();
}

std::vector<std::byte> gzip(Bytes plain) {
  z_stream z{};
  require(deflateInit2(&z, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::vector<std::byte> packed(deflateBound(&z, plain.size()));
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data()));
  z.avail_in = static_cast<uInt>(plain.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  require(deflate(&z, Z_FINISH) == Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

}  // namespace

/// Any bytes are either an array or a FileError; and what they are plain, they are compressed.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto plain = parse(bytes);
  if (size >= 2 && data[0] == 0x1f && data[1] == 0x8b) return 0;  // compressed as it is
  const auto packed = parse(gzip(bytes));
  require(plain.has_value() == packed.has_value());
  if (plain) {
    require(plain->shape() == packed->shape() && plain->dtype() == packed->dtype());
    require(plain->nbytes() == 0 || std::memcmp(plain->write().data(), packed->write().data(), plain->nbytes()) == 0);
  }
  return 0;
}
