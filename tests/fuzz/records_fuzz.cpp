#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>

#include "bytetape/data/records.h"

namespace {

using namespace bytetape;
using Bytes = std::span<const std::byte>;

/// nullopt where the bytes are refused. Anything but a FileError is a finding.
std::optional<data::Batch> parse(Bytes bytes, std::int64_t pixels, int classes) {
  try {
    return data::ImageRecords(memory_input(bytes, "fuzz"), {pixels}, classes).read_all();
  } catch (const FileError&) { return std::nullopt; }
}

void require(bool ok) {
  if (!ok) std::abort();
}

bool are_records(Bytes bytes, std::size_t record, int classes) {
  if (bytes.empty() || bytes.size() % record != 0) return false;
  for (std::size_t at = 0; at < bytes.size(); at += record)
    if (std::to_integer<int>(bytes[at]) >= classes) return false;
  return true;
}

}  // namespace

/// Two bytes say the pixels and the classes, the rest is the file: whole records with labels that are classes, or a
/// FileError.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t pixels = data[0] % 40 + 1;
  const int classes = data[1] + 1;
  const Bytes bytes(reinterpret_cast<const std::byte*>(data + 2), size - 2);
  const auto all = parse(bytes, static_cast<std::int64_t>(pixels), classes);
  require(all.has_value() == are_records(bytes, pixels + 1, classes));
  if (!all) return 0;
  const auto* x = reinterpret_cast<const std::byte*>(std::as_const(all->x).data<std::uint8_t>());
  const auto* y = std::as_const(all->y).data<std::int64_t>();
  for (std::size_t at = 0; at < bytes.size(); at += pixels + 1, x += pixels) {
    require(*y++ == std::to_integer<std::int64_t>(bytes[at]));
    require(std::equal(x, x + pixels, bytes.begin() + static_cast<std::ptrdiff_t>(at) + 1));
  }
  return 0;
}
