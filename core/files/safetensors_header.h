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
/// The header of a safetensors file: 8 bytes with the length of what follows, little-endian, then JSON, which may end
/// in spaces, and behind it the tensors' elements:
///
///     {"__metadata__":{"key":"text"},"fc.weight":{"dtype":"F32","shape":[10,784],"data_offsets":[0,31360]}}
///
/// Files of ours begin with {"__metadata__":{"bytetape.crc32":"1c291ca3": the CRC-32 of the whole file, in which these
/// eight digits count as zeros.
namespace bytetape {

/// Texts that go along with tensors, by key.
using Metadata = std::map<std::string, std::string>;

/// What a header says of a tensor.
struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;  ///< of the tensor that is loaded
  Shape shape;
  std::uint64_t begin = 0, end = 0;  ///< where its elements lie, in bytes from the first byte behind the header
  StoredType stored = dtype;         ///< how its elements are stored, to become that dtype
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;
  Metadata metadata;
};

/// The most bytes of JSON, by the format.
inline constexpr std::uint64_t most_header_bytes = 100'000'000;
inline constexpr std::uint64_t header_length_bytes = 8;

/// Of the checksum, and what stands in its place while it is made.
inline constexpr const char *checksum_key = "bytetape.crc32", *checksum_placeholder = "00000000";
/// Where its digits are in a header's JSON; none where it has no checksum in the place that is ours.
std::optional<std::size_t> find_checksum(std::string_view json);

/// "F32", as the format calls dtypes.
const char* safetensors_name(DType t);

/// Reads JSON that lies at byte `header_length_bytes` of `from`, where `data_bytes` of elements follow it. Throws
/// FileError unless every name comes once, each tensor has exactly the bytes of its shape, and all lie one after the
/// other and fill the data. Tensors come in the order in which they lie.
SafetensorsHeader parse_safetensors_header(const Input& from, const std::string& json, std::uint64_t data_bytes);

/// JSON for tensors that lie in the order given, the checksum's placeholder and metadata first, filled up with spaces
/// so that elements are aligned. Throws ValueError where a name or a text is no UTF-8.
std::string format_safetensors_header(const SafetensorsHeader& header);

}  // namespace bytetape
