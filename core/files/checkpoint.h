#pragma once
#include <string>
#include <string_view>

#include "bytetape/core/files/safetensors.h"
#include "bytetape/core/state_dict.h"

namespace bytetape {

/// Writes what a training run goes on from into one file:
///
///     StateDict state;
///     state.add("model", {net.state_dict()});
///     state.add("optimizer", optimizer.state_dict());
///     state.add("generator", default_generator().state_dict());
///     state.numbers["epoch"] = epoch;
///     save_checkpoint("run.ckpt", state);
///
/// The file is one of save_safetensors, with the numbers in its metadata, and is on the disk before it takes the place
/// of an older one: whatever happens meanwhile, the old or the new one is there and whole. Throws what
/// save_safetensors throws.
void save_checkpoint(const std::string& path, const StateDict& state);

/// A checkpoint, found to be whole before anything of it is used:
///
///     const Checkpoint run("run.ckpt");
///     optimizer.load_state_dict(run.part("optimizer"));
///     default_generator().load_state_dict(run.part("generator"));
///     run.load_into("model", net.state_dict());
class Checkpoint {
 public:
  /// Throws FileError, with the path, the byte, what was expected and what was found, where the file cannot be read, is
  /// anything but a checkpoint, or does not have its checksum.
  explicit Checkpoint(const std::string& path);
  explicit Checkpoint(SafetensorsFile file);

  /// Throws ValueError where there is none of the name, or only a double.
  std::int64_t integer(const std::string& name) const;
  /// Throws ValueError where there is none of the name.
  double number(const std::string& name) const;
  /// What was added under `prefix`, its tensors new ones on `device`. Throws ValueError where the file is one of
  /// weights, without any number, and has no tensor there.
  StateDict part(std::string_view prefix, Device device = default_device(),
                 memory::Role role = memory::Role::temporary) const;
  /// Copies the tensors that were added under `prefix` into those that are there, as load_safetensors_into does. Throws
  /// what part() throws.
  void load_into(std::string_view prefix, const NamedTensors& tensors) const;

 private:
  void check_number(const std::string& name) const;
  void check_has(std::string_view prefix) const;

  SafetensorsFile file_;
  StateDict numbers_;
};

}  // namespace bytetape
