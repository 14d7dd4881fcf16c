#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bytetape/core/files/checkpoint.h"
#include "bytetape/core/files/safetensors_header.h"
#include "bytetape/core/random.h"

namespace {

using namespace bytetape;

/// With the checksum that it ought to have, where it has a place for one: else no mutation comes past that.
std::string sealed(std::string file) {
  if (file.size() < header_length_bytes) return file;
  const auto at = find_checksum(std::string_view(file).substr(header_length_bytes));
  if (!at) return file;
  char* const digits = file.data() + header_length_bytes + *at;
  std::memcpy(digits, checksum_placeholder, std::strlen(checksum_placeholder));
  const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(file.data()), file.size());
  char text[9];
  std::snprintf(text, sizeof text, "%08lx", sum);
  std::memcpy(digits, text, std::strlen(checksum_placeholder));
  return file;
}

/// nullopt where the bytes are refused. Anything but a FileError is a finding.
std::optional<Checkpoint> parse(const std::string& file) {
  try {
    return Checkpoint(SafetensorsFile(memory_input(std::as_bytes(std::span(file)), "fuzz")));
  } catch (const FileError&) { return std::nullopt; }
}

/// nullopt where the file holds weights alone, and none of them under `prefix`.
std::optional<StateDict> part_of(const Checkpoint& run, std::string_view prefix) {
  try {
    return run.part(prefix);
  } catch (const ValueError&) { return std::nullopt; }
}

void check_generator(const StateDict& state) {
  Generator generator(5);
  const PhiloxState before = generator.state();
  try {
    generator.load_state_dict(state);
  } catch (const Error&) {
    const PhiloxState after = generator.state();
    if (after.seed != before.seed || after.offset != before.offset) std::abort();
  }
}

}  // namespace

/// Any bytes are either a checkpoint or a FileError; what a generator cannot go on from is an Error, and leaves it
/// alone.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file = sealed(std::string(reinterpret_cast<const char*>(data), size));
  const auto run = parse(file);
  if (!run) return 0;
  if (const auto generator = part_of(*run, "generator")) check_generator(*generator);
  if (const auto model = part_of(*run, "model")) {
    NamedTensors places;
    for (const auto& [name, x] : model->tensors) places.emplace_back(name, empty_like(x));
    run->load_into("model", places);
  }
  return 0;
}
