// Modules are checkpointed one after the other. Of the modules that are enough, the one whose recomputation takes the
// least time is chosen. Times are estimated from the FLOP and bytes of ops (forward_cost.h). If none is enough, the one
// that lowers the peak most is chosen. If none lowers the peak, a chosen module is replaced by its parts, because
// recomputing all of it at once causes the peak. Then modules that are no longer needed are dropped, the most expensive
// first. Finally sets with less recomputation are tried, the cheapest first, if their modules together save the missing
// bytes.
#include "bytetape/nn/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator/block.h"
#include "bytetape/core/memory/allocator/pinned.h"
#include "bytetape/core/memory/format.h"
#include "bytetape/core/setting.h"
#include "bytetape/nn/ambient.h"
#include "bytetape/nn/forward_cost.h"

namespace bytetape::detail {

/// The model that memory options were applied to.
struct SeenModel {
  std::vector<std::string> modules;  // paths, in the model's order
  int models = 0;
};

}  // namespace bytetape::detail

namespace bytetape::nn {
namespace {

using bytetape::detail::nn_ambient;
using bytetape::detail::SeenModel;
using memory::format_bytes;
using memory::is_within;
using memory::NameId;
using memory::Prediction;
using Paths = std::set<std::string>;
using Predict = std::function<Prediction(const MemoryOptions&, std::size_t limit)>;

std::size_t peak_saved(const Prediction& p) {
  return p.snapshot.statistics.by_role[static_cast<std::size_t>(memory::Role::saved)].peak;
}

bool overlap(const std::string& a, const std::string& b) { return is_within(a, b) || is_within(b, a); }
bool is_below(const std::string& inner, const std::string& outer) { return inner != outer && is_within(inner, outer); }

NameId without_first(NameId path) {
  const NameId parent = memory::parent_of(path);
  return parent ? memory::with_parent(path, without_first(parent)) : 0;
}

/// Returns the part of a ledger path that is within the model. The model may run within other scopes.
NameId within_model(NameId path, const std::vector<std::string>& modules) {
  for (NameId part = path; part; part = without_first(part))
    if (std::find(modules.begin(), modules.end(), memory::plain_path(part)) != modules.end()) return part;
  return path;
}

/// A module's name on the ledger, and the bytes that it allocates in the forward pass of a step.
struct Made {
  std::string name;
  std::size_t bytes = 0;
};

/// Returns the modules by their paths without classes.
std::map<std::string, Made> made_in_forward(const Prediction& p, const std::vector<std::string>& modules) {
  std::map<std::string, Made> made;
  for (std::size_t i = p.steps.back().first_event; i < p.steps.back().end_event; ++i) {
    const memory::Event& e = p.snapshot.events[i];
    if (e.kind != memory::EventKind::alloc || e.phase != memory::Phase::forward) continue;
    const NameId module = within_model(e.module, modules);
    made[memory::plain_path(module)].bytes += e.bytes;
    for (NameId m = module; m; m = memory::parent_of(m)) made[memory::plain_path(m)].name = memory::name_of(m);
  }
  return made;
}

class Search {
 public:
  Search(std::size_t limit, DeviceType type, const Predict& predict) : limit_(limit), type_(type), predict_(predict) {}

  Fit run(const FitOptions& options, bool has_pinned) {
    Prediction with = predict_({}, limit_), without = with;
    if (!with.fits()) {
      {
        const ForwardCost cost(type_);
        without = look(without_levers_);
        for (const auto& [module, seconds] : cost.by_module())
          costs_[memory::plain_path(within_model(module, modules_))] += seconds;
      }
      made_ = made_in_forward(without, modules_);
      if (costs_.empty())  // no op was seen: bytes stand for time
        for (const auto& [path, made] : made_) costs_[path] = static_cast<double>(made.bytes);
      peak_ = without.peak_allocated();
      missing_ = peak_ - std::min(peak_, limit_);
      if (!(options.checkpoint && checkpoint(options.tries)) && options.offload && has_pinned) offload();
      with = predict_(memory_options_, limit_);
    }
    const std::size_t enough = with.fits() ? 0 : smallest_limit();
    return {memory_options_, limit_, std::move(without), std::move(with), part_of_forward(chosen_), enough};
  }

 private:
  struct Useful {
    std::string path;
    std::size_t gain;   // bytes by which it lowered the peak when it was last tried
    std::size_t saves;  // bytes that are not saved for backward if only this module is checkpointed
    double again;       // time of its forward
  };

  /// Predicts without a limit.
  Prediction look(const MemoryOptions& memory_options) {
    SeenModel seen;
    const bytetape::detail::Setting<SeenModel*> here(nn_ambient.seen_model, &seen);
    Prediction p = predict_(memory_options, memory::PredictOptions{}.limit);
    check<ValueError>(seen.models == 1, "fit: the program applies its memory options to ", seen.models,
                      " models, where it takes one: put them into one module");
    if (modules_.empty()) modules_ = std::move(seen.modules);
    return p;
  }
  bool fits(const MemoryOptions& memory_options) { return predict_(memory_options, limit_).fits(); }
  MemoryOptions options_of(const Paths& modules) const {
    MemoryOptions memory_options{.saved = saved_};
    for (const std::string& m : modules_) {
      if (!modules.contains(m)) continue;
      const auto made = made_.find(m);
      memory_options.checkpointed.push_back(made == made_.end() ? m : made->second.name);
    }
    return memory_options;
  }
  void choose(Paths modules, std::size_t peak) {
    chosen_ = std::move(modules);
    memory_options_ = options_of(chosen_);
    peak_ = peak;
  }

  /// Returns the bytes that the modules allocate in forward.
  std::size_t made_by(const Paths& modules) const {
    std::size_t bytes = 0;
    for (const auto& [path, made] : made_) {
      const auto has = [&, &of = path](const auto& m) { return is_within(of, m); };
      if (std::any_of(modules.begin(), modules.end(), has)) bytes += made.bytes;
    }
    return bytes;
  }
  /// Returns the time of the modules' forward.
  double cost_of(const Paths& modules) const {
    double cost = 0;
    for (const auto& [path, seconds] : costs_) {
      const auto has = [&, &of = path](const auto& m) { return is_within(of, m); };
      if (std::any_of(modules.begin(), modules.end(), has)) cost += seconds;
    }
    return cost;
  }
  double part_of_forward(const Paths& modules) const {
    std::size_t all = 0;
    for (const auto& [path, made] : made_) all += made.bytes;
    if (all) return static_cast<double>(made_by(modules)) / static_cast<double>(all);
    const double cost = cost_of(modules);  // a replayed step allocates nothing in forward
    double whole = 0;
    for (const auto& [path, seconds] : costs_) whole += seconds;
    return whole > 0 ? cost / whole : 0;
  }

  bool checkpoint(std::size_t tries) {
    const std::size_t saved = peak_saved(look(without_levers_));
    for (const std::string& m : modules_)
      if (const std::size_t then = peak_saved(look(options_of({m}))); then < saved)
        useful_.push_back({m, saved - then, saved - then, cost_of({m})});
    while (!(peak_ <= limit_ && fits(memory_options_)))
      if (!add_one(true) && !add_one(false) && !split_one()) return false;
    leave_out();
    choose_cheaper(tries);
    return true;
  }

  /// Adds one module to the checkpoints. `gains_fall` assumes that gains only fall while modules are chosen. So the
  /// search stops if no module was enough, and the highest gain is not below the older gains of the untried modules.
  bool add_one(bool gains_fall) {
    std::stable_sort(useful_.begin(), useful_.end(), [](const Useful& a, const Useful& b) { return a.gain > b.gain; });
    std::optional<std::string> enough, best;
    std::size_t highest = 0;
    double least = std::numeric_limits<double>::infinity();
    for (Useful& u : useful_) {
      if (gains_fall && !enough && highest >= u.gain) break;
      if (is_part_of_choice(u.path)) continue;
      const MemoryOptions then = options_of(and_also(u.path));
      const std::size_t peak = look(then).peak_allocated();
      u.gain = peak_ - std::min(peak, peak_);
      if (u.gain > highest) highest = u.gain, best = u.path;
      if (peak <= limit_ && u.again < least && fits(then)) least = u.again, enough = u.path;
    }
    if (!enough && !best) return false;
    const Paths then = and_also(enough ? *enough : *best);
    choose(then, look(options_of(then)).peak_allocated());
    return true;
  }
  bool is_part_of_choice(const std::string& m) const {
    return std::any_of(chosen_.begin(), chosen_.end(), [&](const auto& c) { return overlap(c, m); });
  }
  Paths and_also(const std::string& m) const {
    Paths then = chosen_;
    then.insert(m);
    return then;
  }

  bool split_one() {
    for (const std::string& m : chosen_) {
      Paths then = chosen_;
      then.erase(m);
      for (const Useful& part : useful_)
        if (is_part(part.path, m)) then.insert(part.path);
      if (const std::size_t peak = look(options_of(then)).peak_allocated(); peak < peak_) {
        choose(std::move(then), peak);
        return true;
      }
    }
    return false;
  }
  /// Whether `inner`, a useful module, is below `outer` with no useful module between them.
  bool is_part(const std::string& inner, const std::string& outer) const {
    return is_below(inner, outer) && std::none_of(useful_.begin(), useful_.end(), [&](const Useful& between) {
             return is_below(inner, between.path) && is_below(between.path, outer);
           });
  }

  /// A set of modules of which none contains another.
  struct Choice {
    Paths modules;
    double again = 0;       // time
    std::size_t saves = 0;  // bytes
  };

  void choose_cheaper(std::size_t tries) {
    Choice none, now{.modules = chosen_};
    for (const Useful& u : useful_)
      if (chosen_.contains(u.path)) now.again += u.again;
    std::vector<Choice> cheaper;
    std::size_t looked_at = 0;
    collect(0, none, now.again, cheaper, looked_at);
    std::stable_sort(cheaper.begin(), cheaper.end(), [](const auto& a, const auto& b) { return a.again < b.again; });
    for (std::size_t i = 0; i < std::min(tries, cheaper.size()); ++i)
      if (fits(options_of(cheaper[i].modules))) return choose(cheaper[i].modules, peak_);
  }
  /// Collects sets that extend `with` by modules from number `from` on, take less than `limit` to recompute, and may be
  /// enough.
  void collect(std::size_t from, const Choice& with, double limit, std::vector<Choice>& to,
               std::size_t& looked_at) const {
    constexpr std::size_t most = std::size_t{1} << 16;
    if (++looked_at > most) return;
    if (with.saves >= missing_) to.push_back(with);
    for (std::size_t i = from; i < useful_.size(); ++i) {
      const Useful& u = useful_[i];
      const auto overlaps = [&](const std::string& m) { return overlap(u.path, m); };
      if (with.again + u.again >= limit || std::any_of(with.modules.begin(), with.modules.end(), overlaps)) continue;
      Choice then = with;
      then.modules.insert(u.path);
      then.again += u.again;
      then.saves += u.saves;
      collect(i + 1, then, limit, to, looked_at);
    }
  }

  void leave_out() {
    std::vector<std::string> dearest(chosen_.begin(), chosen_.end());
    std::stable_sort(dearest.begin(), dearest.end(),
                     [&](const auto& a, const auto& b) { return cost_of({a}) > cost_of({b}); });
    for (std::size_t i = 0; i < dearest.size();) {
      Paths then = chosen_;
      then.erase(dearest[i]);
      if (!fits(options_of(then))) {
        ++i;
        continue;
      }
      choose(std::move(then), peak_);
      dearest.erase(dearest.begin() + static_cast<std::ptrdiff_t>(i));
      i = 0;  // modules that were needed before may be unnecessary now
    }
  }

  /// Offloads without checkpoints if that is enough. Otherwise keeps all checkpoints that were chosen, which alone were
  /// too few.
  void offload() {
    const Paths all = chosen_;
    choose({}, peak_);
    if (keep_most()) return;
    choose(all, peak_);
    if (keep_most()) leave_out();
  }

  /// Whether the program fits if saved tensors are offloaded. If it does, as many bytes as possible stay on the device,
  /// to 1/64.
  bool keep_most() {
    saved_ = without_levers_.saved;
    const std::size_t saved = peak_saved(look(options_of(chosen_)));
    const auto keeping = [&](std::size_t bytes) {
      saved_ = {.keep = bytes, .min_bytes = std::min(SaveOnCpuOptions{}.min_bytes, limit_ / 256)};
      return fits(options_of(chosen_));
    };
    std::size_t keep = 0, too_much = saved;
    const bool is_enough = keeping(0);
    while (is_enough && too_much - keep > saved / 64 + 1) {
      const std::size_t middle = keep + (too_much - keep) / 2;
      (keeping(middle) ? keep : too_much) = middle;
    }
    saved_.keep = keep;
    choose(chosen_, peak_);
    return is_enough;
  }

  /// Returns the smallest limit that is enough for the chosen options, to 1/1024.
  std::size_t smallest_limit() {
    std::size_t too_small = limit_, enough = look(memory_options_).peak_reserved();
    while (enough > too_small && enough - too_small > std::max<std::size_t>(memory::rounding, enough / 1024)) {
      const std::size_t middle = too_small + (enough - too_small) / 2;
      (predict_(memory_options_, middle).fits() ? enough : too_small) = middle;
    }
    return enough;
  }

  const std::size_t limit_;
  const DeviceType type_;
  const Predict& predict_;
  const MemoryOptions without_levers_;
  std::vector<std::string> modules_;     // paths of the model's modules, in its order
  Paths chosen_;                         // modules to checkpoint
  std::vector<Useful> useful_;           // modules whose checkpoint lowers the saved bytes
  std::map<std::string, Made> made_;     // by path, without memory options
  std::map<std::string, double> costs_;  // seconds of forward, by path
  SaveOnCpuOptions saved_ = without_levers_.saved;
  MemoryOptions memory_options_;  // the chosen options
  std::size_t peak_ = 0;          // allocated bytes with the chosen options
  std::size_t missing_ = 0;       // bytes above the limit without memory options
};

}  // namespace

void MemoryOptions::apply(Module& model) const {
  std::vector<std::string> all = checkpointed;
  for (const auto& [path, module] : model.named_modules()) {
    if (module->is_checkpointed()) all.push_back(path);
    if (nn_ambient.seen_model && !path.empty()) nn_ambient.seen_model->modules.push_back(path);
  }
  if (nn_ambient.seen_model) ++nn_ambient.seen_model->models;
  checkpoint_modules(model, all);
}

MemoryOptions MemoryOptions::with(const MemoryOptions& more) const {
  MemoryOptions all = *this;
  all.checkpointed.insert(all.checkpointed.end(), more.checkpointed.begin(), more.checkpointed.end());
  if (more.offloads()) all.saved = more.saved;
  all.recompute |= more.recompute;
  all.step_in_backward |= more.step_in_backward;
  return all;
}

std::string Fit::text() const {
  const std::string before = format_bytes(without.peak_reserved()), room = format_bytes(limit);
  const bool checkpoints = !memory_options.checkpointed.empty();
  if (fits() && !checkpoints && !memory_options.offloads())
    return fmt::format("fits into {} as it is: {}", room, before);
  std::string how;
  if (checkpoints)
    how = fmt::format("checkpoints of {}, which run {:.0f} % of forward again",
                      fmt::join(memory_options.checkpointed, ", "), 100 * recompute_fraction);
  if (memory_options.offloads())
    how += fmt::format("{}{} of what is saved on the host", checkpoints ? ", and " : "",
                       memory_options.saved.keep ? "all but " + format_bytes(memory_options.saved.keep) : "all");
  if (fits())
    return fmt::format("fits into {} with {}: {} instead of {}", room, how, format_bytes(with.peak_reserved()), before);
  const std::string least = fmt::format("{} ({} bytes)", format_bytes(enough), memory::format_exact(enough));
  if (how.empty())
    return fmt::format(
        "does not fit into {}: it takes {}, and no checkpoint helps; the smallest limit that would do is {}", room,
        before, least);
  return fmt::format(
      "does not fit into {}: it takes {}, and too much even with {}; the smallest limit that would do is {}, with "
      "those",
      room, before, how, least);
}

}  // namespace bytetape::nn

namespace bytetape::detail {

nn::Fit fit(std::size_t limit, const nn::FitOptions& options, Device device, const nn::Predict& predict) {
  return nn::Search(limit, device.type, predict).run(options, memory::pinned_for(Device::meta(device)) != nullptr);
}

}  // namespace bytetape::detail
