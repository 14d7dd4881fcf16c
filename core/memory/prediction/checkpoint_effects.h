#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/core/memory/log.h"

namespace bytetape::memory {

/// The records from `begin` up to but not including `end`.
struct Range {
  std::size_t begin = 0, end = 0;
  bool has(std::size_t i) const { return begin <= i && i < end; }
};

/// Returns the training step with the highest peak, the first of equals. A training step began, ran backward and ended.
std::optional<Range> highest_training_step(const std::vector<Record>& records);

/// The effect of checkpointing a module in a step. A module may run several times; each call is checkpointed.
struct CheckpointEffect {
  /// A block of the call that only the call's nodes keep. A checkpoint frees it from record `from` until the
  /// recomputation.
  struct Away {
    std::size_t block, from;
  };
  /// A block that the recomputation makes while its first copy still exists.
  struct Twice {
    std::size_t block;
    Range when;
  };
  struct OfCall {
    std::vector<Away> away;
    std::vector<Twice> twice;
    std::vector<std::size_t> kept;  // input blocks, which stay until the recomputation has ended
    Range again;                    // records during which the recomputation runs
    std::size_t rise = 0;           // bytes by which the recomputation rises above the level before it
  };
  std::string module;
  std::vector<OfCall> calls;
};

/// A recorded step: its blocks, its module calls, and its levels with some modules checkpointed.
class RecordedStep {
 public:
  RecordedStep(const Log& log, const DeviceLog& device, Range step);

  std::size_t peak() const { return levels_[peak_at_]; }
  /// The modules that ran forward in the step, by path, with the bytes that they saved and that are held at the peak.
  std::map<std::string, std::size_t> saved_by_module() const;
  /// Modules with calls that are not recorded whole and in one piece.
  const std::set<std::string>& torn_calls() const { return torn_; }
  /// Whether the recording has the inputs and results of the module's calls.
  bool knows_calls_of(const std::string& module) const { return calls_.contains(module); }
  /// Whether the recording has those of any module's calls.
  bool knows_calls() const { return !calls_.empty(); }
  /// Whether some saved tensors are offloaded to the host.
  bool offloads() const { return offloads_; }
  /// The effect of a checkpoint. None if the module has torn calls, or if the checkpoint would free nothing.
  std::optional<CheckpointEffect> effect_of(const std::string& module) const;
  std::vector<CheckpointEffect> effects() const;
  /// The step's peak with all of these effects. No module may be inside another.
  std::size_t peak_with(const std::vector<const CheckpointEffect*>& effects) const;
  /// The bytes allocated at the step's end, and those of them that a checkpoint of the module would have freed before.
  /// For a step that broke off.
  std::size_t level_at_end() const { return levels_.back(); }
  std::size_t freed_at_end(const std::string& module) const;
  /// The modules whose calls are all recorded whole, by path.
  std::vector<std::string> whole_modules() const;
  /// The time of the step's forward, and of the module in it, in nanoseconds of the host.
  std::uint64_t forward_time() const;
  std::uint64_t forward_time(const std::string& module) const;

 private:
  /// A reference that a tape node holds to a block.
  struct Hold {
    std::size_t at;
    NameId by_module, by_op;
    std::size_t dropped;
    bool in_backward = false;
  };
  struct Life {
    std::size_t bytes, born, died;
    NameId by_module = 0;  // who allocated the block, and who freed it
    NameId freed_by = 0;
    bool died_in_backward = false;
    std::vector<Hold> holds;
  };
  struct Call {
    Range forward;
    std::vector<std::size_t> arguments, results;  // blocks
    bool is_open() const { return results.empty(); }
  };

  const std::string& name(NameId id) const { return log_.names[id]; }
  std::size_t level_behind(std::size_t i) const { return levels_[i - step_.begin]; }
  void take(std::size_t i);
  void make(std::size_t i);
  void drop(Life& life, std::size_t i);
  void free(Life& life, std::size_t i);
  void pass(std::size_t i, std::size_t block);
  void check_calls();
  bool is_in_one_piece(const Call& call, const std::string& module) const;
  std::vector<Hold> holds_of(const Life& life, const Call& call, const std::string& module) const;
  CheckpointEffect::OfCall effect_of(const Call& call, const std::string& module) const;
  void note_made(CheckpointEffect::OfCall& effect, std::size_t block, const std::vector<Hold>& own, const Call& call,
                 const std::string& module) const;
  std::size_t start_of_op(std::size_t i) const;
  std::size_t start_of_backward(std::size_t i) const;
  std::size_t rise_of(Range forward) const;
  bool is_freed_at_end(std::size_t block, const Call& call, const std::string& module) const;
  std::size_t highest_between_kernels(Range range, const std::vector<std::size_t>& levels) const;

  const Log& log_;
  const std::vector<Record>& records_;
  const Range step_;
  std::vector<std::size_t> levels_;  // after each record of the step
  std::size_t peak_at_ = 0;          // index into levels_
  bool offloads_ = false;
  std::vector<Life> lives_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> alive_;  // index into lives_, by place
  std::vector<std::pair<std::size_t, std::size_t>> holds_;                // index of the record, and into lives_
  std::map<std::string, std::vector<Call>> calls_;
  std::set<std::string> torn_;
};

}  // namespace bytetape::memory
