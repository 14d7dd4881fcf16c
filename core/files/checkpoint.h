#pragma once
#include <string>
#include <string_view>

#include "bytetape/core/files/safetensors.h"
#include "bytetape/core/state_dict.h"

namespace bytetape {

/// Writes the state of a training run into one file:
///
///     StateDict state;
///     state.add("model", {net.state_dict()});
///     state.add("optimizer", optimizer.state_dict());
///     state.add("generator", default_generator().state_dict());
///     state.numbers["epoch"] = epoch;
///     save_checkpoint("run.ckpt", state);
///
/// The file has the format of save_safetensors(), with the numbers in its metadata. It replaces an older file as a
/// whole: after a crash the old or the new file is there. Throws as save_safetensors().
void save_checkpoint(const std::string& path, const StateDict& state);

/// A checkpoint file, checked completely before it is used:
///
///     const Checkpoint run("run.ckpt");
///     optimizer.load_state_dict(run.part("optimizer"));
///     default_generator().load_state_dict(run.part("generator"));
///     run.load_into("model", net.state_dict());
class Checkpoint {
 public:
  /// Throws FileError, with path, byte, expected and found content, if the file cannot be read, is not a checkpoint, or
  /// does not match its checksum.
  explicit Checkpoint(const std::string& path);
  explicit Checkpoint(SafetensorsFile file);

  /// Throws ValueError if there is no integer of this name.
  std::int64_t integer(const std::string& name) const;
  /// Throws ValueError if there is no number of this name.
  double number(const std::string& name) const;
  /// Returns the state that was added under `prefix`, as new tensors on `device`.
  /// Throws ValueError if the file holds weights only, without numbers, and has no tensor under `prefix`.
  StateDict part(std::string_view prefix, Device device = default_device(),
                 memory::Role role = memory::Role::temporary) const;
  /// Copies the tensors that were added under `prefix` into `tensors`, as load_safetensors_into() does. Throws as
  /// part().
  void load_into(std::string_view prefix, const NamedTensors& tensors) const;

 private:
  void check_number(const std::string& name) const;
  void check_has(std::string_view prefix) const;

  SafetensorsFile file_;
  StateDict numbers_;
};

}  // namespace bytetape
