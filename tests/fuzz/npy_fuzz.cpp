#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "bytetape/core/files/npy.h"
#include "bytetape/core/files/npy_header.h"

namespace {

using namespace bytetape;
using Bytes = std::span<const std::byte>;

void require(bool ok) {
  if (!ok) std::abort();
}

/// nullopt where the bytes are refused. Anything but a FileError is a finding.
std::optional<Tensor> parse(Bytes bytes) {
  try {
    return parse_npy(bytes, "fuzz", Device::cpu());
  } catch (const FileError&) { return std::nullopt; }
}

Bytes elements_of(const Tensor& x) { return {static_cast<const std::byte*>(x.read().data()), x.nbytes()}; }

}  // namespace

/// Any bytes are either an array or a FileError; and an array that is written anew is the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto x = parse({reinterpret_cast<const std::byte*>(data), size});
  if (!x) return 0;
  const std::string header = format_npy_header(x->dtype(), x->shape());
  const Bytes elements = elements_of(*x), start = std::as_bytes(std::span(header));
  std::vector<std::byte> bytes(start.begin(), start.end());
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  const auto y = parse(bytes);
  require(y && y->dtype() == x->dtype() && y->shape() == x->shape());
  require(elements.empty() || std::memcmp(elements_of(*y).data(), elements.data(), elements.size()) == 0);
  return 0;
}
