#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bytetape/core/files/safetensors_header.h"

namespace bytetape {

/// Writes tensors in the safetensors format (https://github.com/huggingface/safetensors).
/// Elements are row-major, from any layout and device, grouped by element size. The metadata get a checksum. Uses 4 MiB
/// of host memory. The file is replaced as a whole or not at all.
/// Throws ValueError if a name is repeated, is "__metadata__" or not UTF-8, a tensor is undefined, or a metadata key
/// begins with "bytetape.".
/// Throws DeviceError if a tensor is on a meta device.
/// Throws FileError if the file cannot be written.
void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata = {});

/// A safetensors file whose header, sizes, bools, and checksum (if bytetape wrote it) were checked.
class SafetensorsFile {
 public:
  /// Reads the whole file once.
  /// Throws FileError, with path, byte, expected and found content, if the file cannot be read or is not a valid
  /// safetensors file.
  explicit SafetensorsFile(const std::string& path);
  explicit SafetensorsFile(std::unique_ptr<const Input> input);

  const std::string& name() const { return input_->name(); }
  /// The entries, in the order of the file.
  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }
  /// The metadata, without the checksum.
  const Metadata& metadata() const { return header_.metadata; }
  bool has_checksum() const { return checksum_at_.has_value(); }

  /// Returns new tensors for the entries that begin with `prefix`, named without it. I8, I16 and U16 become i32, and
  /// U32 becomes i64.
  /// Throws FileError if the file was written after it was opened.
  NamedTensors load(Device device, memory::Role role, std::string_view prefix = {}) const;
  /// Copies values into existing tensors, converts dtypes and keeps layouts. Throws as Module::load_state_dict(),
  /// before it writes.
  void load_into(const NamedTensors& tensors, bool strict, std::string_view prefix = {}) const;

 private:
  std::uint64_t data_at() const { return header_length_bytes + json_bytes_; }
  void read_header(std::string& json);
  void verify(std::string json) const;
  std::uint64_t staged_bytes() const;
  std::vector<const TensorEntry*> entries_below(std::string_view prefix) const;

  std::unique_ptr<const Input> input_;
  std::uint64_t json_bytes_ = 0;
  SafetensorsHeader header_;
  std::optional<std::size_t> checksum_at_;  // offset in the JSON
};

/// Loads the tensors of a file onto `device`, in the order of the file.
/// I8, I16 and U16 are widened to i32, and U32 to i64. `role` is their purpose on the ledger.
/// Throws FileError as SafetensorsFile does, or OutOfMemory.
NamedTensors load_safetensors(const std::string& path, Device device = default_device(),
                              memory::Role role = memory::Role::temporary);

/// Copies a file's values into existing tensors, such as a model's:
///
///     load_safetensors_into("net.safetensors", net.state_dict());
///
/// Dtypes are converted, and layouts kept. strict = false loads only the names that both have. Uses at most 64 MiB of
/// host memory. Everything is checked before anything is written.
/// Throws FileError if the file is invalid or written meanwhile. In the second case some tensors may be loaded.
/// Throws ValueError, listing the missing, unexpected and repeated names.
/// Throws ShapeError if a shape differs.
/// Throws OutOfMemory if the device has no memory to convert a layout. Some tensors may be loaded then.
void load_safetensors_into(const std::string& path, const NamedTensors& tensors, bool strict = true);

}  // namespace bytetape
