#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>

#include "bytetape/core/files/safetensors.h"

namespace {

using namespace bytetape;
using Bytes = std::span<const std::byte>;

void require(bool ok) {
  if (!ok) std::abort();
}

/// nullopt where the bytes are refused. Anything but a FileError is a finding.
std::optional<SafetensorsFile> parse(Bytes bytes) {
  try {
    return SafetensorsFile(memory_input(bytes, "fuzz"));
  } catch (const FileError&) { return std::nullopt; }
}

}  // namespace

/// Any bytes are either a file or a FileError; of a file all tensors are read, and its header says the same once it is
/// written anew.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = parse(bytes);
  if (!file) return 0;
  std::uint64_t elements = 0;
  require(file->load(Device::cpu(), memory::Role::temporary).size() == file->tensors().size());
  for (const TensorEntry& t : file->tensors()) elements += t.end - t.begin;
  const std::string json = format_safetensors_header({file->tensors(), file->metadata()});
  const SafetensorsHeader again = parse_safetensors_header(*memory_input(bytes, "again"), json, elements);
  require(again.metadata.size() == file->metadata().size() + !file->metadata().contains(checksum_key));
  require(again.tensors.size() == file->tensors().size());
  for (const TensorEntry& t : again.tensors) {
    const auto& all = file->tensors();
    require(std::any_of(all.begin(), all.end(), [&](const TensorEntry& u) {
      return u.name == t.name && u.dtype == t.dtype && u.stored == t.stored && u.shape == t.shape &&
             u.begin == t.begin && u.end == t.end;
    }));
  }
  return 0;
}
