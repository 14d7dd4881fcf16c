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

/// Records from `begin` on, up to `end`.
struct Range {
  std::size_t begin = 0, end = 0;
  bool has(std::size_t i) const { return begin <= i && i < end; }
};

/// The training step (one that began, ran backward and ended) with the highest level, the first of equals.
std::optional<Range> highest_training_step(const std::vector<Record>& records);

/// Whether a path on the ledger is the module's or below it.
bool is_within(std::string_view path, std::string_view module);

/// What a checkpoint of a module changes in a step: it is taken of each call, as the module may run several times.
struct CheckpointEffect {
  /// A block that its call makes and only its nodes keep: gone from a record on until the second run.
  struct Away {
    std::size_t block, from;
  };
  /// A block that the second run makes again while its first copy is still there.
  struct Twice {
    std::size_t block;
    Range when;
  };
  struct OfCall {
    std::vector<Away> away;
    std::vector<Twice> twice;
    std::vector<std::size_t> kept;  // blocks of its inputs, which stay until the second run has ended
    Range again;                    // where the second run takes place
    std::size_t rise = 0;           // how far it goes above the level before it
  };
  std::string module;
  std::vector<OfCall> calls;
};

/// A step of a recording: the blocks in it, the calls of modules, and the levels with some modules checkpointed.
class RecordedStep {
 public:
  RecordedStep(const Log& log, const DeviceLog& device, Range step);

  std::size_t peak() const { return levels_[peak_at_]; }
  /// Modules that ran forward in it, by their paths, and of what they saved the bytes that are held at the peak.
  std::map<std::string, std::size_t> saved_by_module() const;
  /// Modules of which the recording has calls, but not whole ones, in one piece each.
  const std::set<std::string>& torn_calls() const { return torn_; }
  /// Whether the recording tells of the module's calls what went in and came out.
  bool knows_calls_of(const std::string& module) const { return calls_.contains(module); }
  /// Whether it tells of any module's.
  bool knows_calls() const { return !calls_.empty(); }
  /// Whether some of what is saved goes to the host.
  bool offloads() const { return offloads_; }
  /// None where the module has torn calls, or a checkpoint would let nothing go.
  std::optional<CheckpointEffect> effect_of(const std::string& module) const;
  std::vector<CheckpointEffect> effects() const;
  /// The step's peak with all of these, none of which is in another.
  std::size_t peak_with(const std::vector<const CheckpointEffect*>& effects) const;
  /// The part of the step's forward time that the module takes.
  double forward_time(const std::string& module) const;

 private:
  /// A node keeps a block.
  struct Hold {
    std::size_t at;
    NameId by_module, by_op;
    std::size_t dropped;
    bool in_backward = false;
  };
  struct Life {
    std::size_t bytes, born, died;
    NameId by_module = 0;  // who made it, and who freed it
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
  std::size_t highest_between_kernels(Range range, const std::vector<std::size_t>& levels) const;

  const Log& log_;
  const std::vector<Record>& records_;
  const Range step_;
  std::vector<std::size_t> levels_;  // behind each record of the step
  std::size_t peak_at_ = 0;          // of these
  bool offloads_ = false;
  std::vector<Life> lives_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> alive_;  // lives, by place
  std::vector<std::pair<std::size_t, std::size_t>> holds_;                // records, and lives
  std::map<std::string, std::vector<Call>> calls_;
  std::set<std::string> torn_;
};

}  // namespace bytetape::memory
