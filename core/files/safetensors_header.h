#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bytetape/core/files/elements.h"
#include "bytetape/core/files/input.h"
#include "bytetape/core/named_tensors.h"

/// \file
/// The header of a safetensors file: the length of the JSON (8 bytes, little-endian), and the JSON, which may end in
/// spaces. The elements follow.
///
///     {"__metadata__":{"key":"text"},"fc.weight":{"dtype":"F32","shape":[10,784],"data_offsets":[0,31360]}}
///
/// Files that bytetape writes begin with {"__metadata__":{"bytetape.crc32":"1c291ca3". It is the CRC-32 of the whole
/// file, with zeros as these eight digits.
namespace bytetape {

/// Texts stored with the tensors, by key.
using Metadata = std::map<std::string, std::string>;

/// The header's entry for a tensor.
struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;  ///< of the loaded tensor
  Shape shape;
  std::uint64_t begin = 0, end = 0;  ///< position of the elements, in bytes after the header
  StoredType stored = dtype;         ///< type of the elements in the file
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;
  Metadata metadata;
};

/// The maximum bytes of JSON that the format allows.
inline constexpr std::uint64_t most_header_bytes = 100'000'000;
inline constexpr std::uint64_t header_length_bytes = 8;

/// The checksum's key, and the placeholder for its digits while it is computed.
inline constexpr const char *checksum_key = "bytetape.crc32", *checksum_placeholder = "00000000";
/// Returns the position of the checksum's digits in the JSON, or none if there is no checksum at the position that
/// bytetape uses.
std::optional<std::size_t> find_checksum(std::string_view json);

/// Returns the format's name of a dtype, "F32".
const char* safetensors_name(DType t);

/// Parses the JSON at byte `header_length_bytes` of `from`, which `data_bytes` of elements follow. Entries come in the
/// order of the file.
/// Throws FileError unless names are unique, each tensor has exactly the bytes of its shape, and the tensors fill the
/// data without gaps.
SafetensorsHeader parse_safetensors_header(const Input& from, const std::string& json, std::uint64_t data_bytes);

/// Returns the JSON for tensors in the given order: first the checksum's placeholder and the metadata, at the end
/// spaces that align the elements.
/// Throws ValueError if a name or text is not UTF-8.
std::string format_safetensors_header(const SafetensorsHeader& header);

}  // namespace bytetape
