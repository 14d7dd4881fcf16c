#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bytetape/core/files/safetensors_header.h"

namespace bytetape {

/// Writes tensors in the safetensors format (https://github.com/huggingface/safetensors), as PyTorch's `save_file` and
/// `load_file` have it: row-major whatever their layout and device, those of one element size together, and with a
/// checksum in the metadata. The file appears, or is replaced, whole or not at all (write_file). Takes 4 MiB of the
/// host's memory. Throws ValueError where a name comes twice, is "__metadata__" or no UTF-8, a tensor is undefined, or
/// a metadata key begins with "bytetape."; DeviceError on a meta tensor; FileError where it cannot be written.
void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata = {});

/// A safetensors file that was found to be whole: header, sizes, bools, and the checksum where one of ours is in it.
class SafetensorsFile {
 public:
  /// Throws FileError, with the path, the byte, what was expected and what was found, where the file cannot be read or
  /// is anything but one whole safetensors file. All of it is read once.
  explicit SafetensorsFile(const std::string& path);
  explicit SafetensorsFile(std::unique_ptr<const Input> input);

  const std::string& name() const { return input_->name(); }
  /// In the order in which they lie in the file.
  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }
  /// Without the checksum.
  const Metadata& metadata() const { return header_.metadata; }
  bool has_checksum() const { return checksum_at_.has_value(); }

  /// New tensors of those whose names begin with `prefix`, named by the rest. I8, I16 and U16 become i32, U32 becomes
  /// i64. Throws FileError where the file was
  /// written to meanwhile.
  NamedTensors load(Device device, memory::Role role, std::string_view prefix = {}) const;
  /// Copies their values into tensors that are there; dtypes are converted, layouts kept. Throws as
  /// Module::load_state_dict does, before anything is written.
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
  std::optional<std::size_t> checksum_at_;  // in the JSON
};

/// The tensors of a file, in the order in which they lie there, on `device`. Integers of dtypes that tensors do not
/// have are widened: I8, I16 and U16 become i32, U32 becomes i64. Throws the FileError of SafetensorsFile, OutOfMemory.
/// As for all factories, `role` says on the ledger what they are for.
NamedTensors load_safetensors(const std::string& path, Device device = default_device(),
                              memory::Role role = memory::Role::temporary);

/// Copies a file's values into tensors that are there, such as a model's:
///
///     load_safetensors_into("net.safetensors", net.state_dict());
///
/// straight to their device, by way of a few pieces of the host's memory, 64 MiB at most however large the file.
/// Nothing is written until the file was found whole (SafetensorsFile) and to fit: throws ValueError naming every
/// missing, unexpected and repeated key, ShapeError on a misfit. Dtypes are converted; strict = false loads what is
/// there. An OutOfMemory on a device, which may need a piece of its own for another layout, can leave a part loaded; so
/// can somebody who writes into the file meanwhile, which is a FileError.
void load_safetensors_into(const std::string& path, const NamedTensors& tensors, bool strict = true);

}  // namespace bytetape
