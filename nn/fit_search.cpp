// An option of a module is a checkpoint of it, or Recompute in it. Two sets of options are found. The first has the
// cheapest options that save the missing bytes (option_plan.h), and more bytes while these are not enough, because the
// peak moves. For the second, options are added by the bytes that they save for their time, until they are enough. In
// both, options are exchanged for cheaper ones, and those that are not needed are dropped. The cheaper set is chosen.
// If neither fits, options are added by the peak: of those that are enough, the one that adds the least time, else the
// one that lowers the peak most. If none lowers the peak, an option is exchanged for another one that does, or a
// checkpointed module is replaced by its parts, because recomputing all of it at once causes the peak. Finally, sets
// that add less time are tried, the cheapest first, if their options together save the missing bytes. Times are
// estimated from the work of predicted steps (step_cost.h).
#include "bytetape/nn/fit_search.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/core/memory/allocator/block.h"
#include "bytetape/core/setting.h"
#include "bytetape/nn/ambient.h"
#include "bytetape/nn/option_plan.h"
#include "bytetape/nn/step_cost.h"

namespace bytetape::nn {
namespace {

using bytetape::detail::nn_ambient;
using bytetape::detail::SeenModel;
using memory::is_within;
using memory::NameId;
using memory::Prediction;

/// A memory option of one module.
struct ModuleOption {
  enum class Kind { checkpoint, recompute };
  std::string path;
  Kind kind = Kind::checkpoint;
  friend auto operator<=>(const ModuleOption&, const ModuleOption&) = default;
};
using ModuleOptions = std::set<ModuleOption>;

std::size_t peak_saved(const Prediction& p) {
  return p.snapshot.statistics.by_role[static_cast<std::size_t>(memory::Role::saved)].peak;
}

/// Whether `inner` is `outer` or below it. The path of the model is empty.
bool contains(const std::string& outer, const std::string& inner) { return outer.empty() || is_within(inner, outer); }
bool is_below(const std::string& inner, const std::string& outer) { return inner != outer && contains(outer, inner); }

/// Whether one of the options makes the other one useless. A checkpointed module may recompute cheap results too, which
/// lowers the peak while it runs again.
bool overlap(const ModuleOption& a, const ModuleOption& b) {
  return a.kind == b.kind && (contains(a.path, b.path) || contains(b.path, a.path));
}
bool overlap(const ModuleOptions& options, const ModuleOption& other) {
  return std::any_of(options.begin(), options.end(), [&](const ModuleOption& l) { return overlap(l, other); });
}

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

class Search {
 public:
  Search(std::size_t limit, DeviceType type, const Predict& predict) : limit_(limit), type_(type), predict_(predict) {}

  Fit run(const FitOptions& options, bool has_pinned) {
    Prediction with = predict_({}, limit_), without = with;
    if (!with.fits()) {
      without = look(without_options_);
      note_names(without);
      cost_ = cost_of(without);
      saved_bytes_ = peak_saved(without);
      peak_ = without.peak_allocated();
      missing_ = peak_ - std::min(peak_, limit_);
      if (!choose_options(options) && options.offload && has_pinned) offload();
      with = predict_(memory_options_, limit_);
    }
    std::size_t enough = 0;
    if (!with.fits() && without_helps_as_much(enough)) with = predict_(memory_options_, limit_);
    const double again = part_of_forward(with, without);
    return {memory_options_, limit_, std::move(without), std::move(with), again, enough};
  }

 private:
  struct Useful {
    ModuleOption option;
    std::size_t gain;   // bytes by which it lowered the peak when it was last tried
    std::size_t saves;  // bytes that are not saved for backward with only this option
    double again;       // time that it adds
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
  MemoryOptions options_of(const ModuleOptions& options) const {
    MemoryOptions memory_options{.saved = saved_};
    for (const std::string& m : modules_) {
      const auto named = names_.find(m);
      const std::string& name = named == names_.end() ? m : named->second;
      if (options.contains({m, ModuleOption::Kind::checkpoint})) memory_options.checkpointed.push_back(name);
      if (options.contains({m, ModuleOption::Kind::recompute})) memory_options.recomputing.push_back(name);
    }
    if (options.contains({"", ModuleOption::Kind::recompute})) memory_options.recomputing.emplace_back();
    return memory_options;
  }
  void choose(ModuleOptions options, std::size_t peak) {
    chosen_ = std::move(options);
    memory_options_ = options_of(chosen_);
    peak_ = peak;
  }

  /// Notes the modules' names on the ledger, which have classes.
  void note_names(const Prediction& p) {
    for (const memory::WorkCount& row : p.work)
      for (NameId m = within_model(row.module, modules_); m; m = memory::parent_of(m))
        names_[memory::plain_path(m)] = memory::name_of(m);
  }

  /// Returns the mean time of a step.
  double cost_of(const Prediction& p) const {
    return step_cost(p.work, type_) / static_cast<double>(std::max<std::size_t>(p.period, 1));
  }
  double cost_of(const ModuleOptions& options) const {
    double cost = 0;
    for (const Useful& u : useful_)
      if (options.contains(u.option)) cost += u.again;
    return cost;
  }
  double part_of_forward(const Prediction& with, const Prediction& without) {
    if (chosen_.empty()) return 0;
    const auto is_forward = [](const memory::WorkCount& row) { return row.phase == memory::Phase::forward; };
    const double forward =
        step_cost(without.work, type_, is_forward) / static_cast<double>(std::max<std::size_t>(without.period, 1));
    const double then = cost_of(with.fits() ? with : look(memory_options_));
    return forward > 0 ? std::max(then - cost_of(without), 0.0) / forward : 0;
  }

  bool choose_options(const FitOptions& options) {
    find_useful(options);
    std::stable_sort(useful_.begin(), useful_.end(), [](const Useful& a, const Useful& b) {
      return static_cast<double>(a.saves) * b.again > static_cast<double>(b.saves) * a.again;
    });
    std::size_t tries = options.tries;
    const std::size_t peak = peak_;
    std::optional<ModuleOptions> best;
    for (const auto& choose_first : {&Search::choose_by_saving, &Search::choose_by_ratio}) {
      choose({}, peak);
      if (!(this->*choose_first)()) continue;
      exchange(tries);
      if (!best || cost_of(chosen_) < cost_of(*best)) best = chosen_;
    }
    choose({}, peak);
    if (!best && !choose_by_peak()) return false;
    if (best) choose(*best, peak);
    choose_cheaper(tries);
    leave_out();
    return true;
  }

  void find_useful(const FitOptions& options) {
    if (options.checkpoint)
      for (const std::string& m : modules_) is_useful({m, ModuleOption::Kind::checkpoint});
    if (!options.recompute || !is_useful({"", ModuleOption::Kind::recompute})) return;
    for (const std::string& m : modules_) is_useful({m, ModuleOption::Kind::recompute});
  }
  bool is_useful(const ModuleOption& option) {
    const Prediction p = look(options_of({option}));
    if (peak_saved(p) >= saved_bytes_) return false;
    const std::size_t saves = saved_bytes_ - peak_saved(p);
    useful_.push_back({option, saves, saves, std::max(cost_of(p) - cost_, 0.0)});
    return true;
  }
  /// Whether the cheapest options are enough that save the missing bytes, or more until the program fits.
  bool choose_by_saving() {
    constexpr int most_tries = 32;
    std::vector<PricedOption> options;
    for (const Useful& u : useful_) options.push_back({u.option.path, u.saves, u.again});
    std::size_t bytes = std::max<std::size_t>(missing_, 1);
    ModuleOptions before;
    for (int i = 0; i < most_tries; ++i, bytes += std::max(missing_ / 32, memory::rounding)) {
      ModuleOptions cheapest;
      for (const std::size_t option : cheapest_options(options, modules_, bytes))
        cheapest.insert(useful_[option].option);
      if (cheapest.empty()) return false;
      if (cheapest == before) continue;
      before = cheapest;
      const std::size_t peak = look(options_of(cheapest)).peak_allocated();
      if (peak <= limit_ && fits(options_of(cheapest))) {
        choose(std::move(cheapest), peak);
        leave_out();
        return true;
      }
      if (peak > limit_) bytes += (peak - limit_) / 4;  // not all of it, as other options may move the peak
    }
    return false;
  }

  /// Whether options are enough that are added by the bytes that they save for their time.
  bool choose_by_ratio() {
    std::size_t saves = 0;
    for (const Useful& u : useful_) {
      if (overlap(chosen_, u.option)) continue;
      choose(and_also(u.option), peak_);
      saves += u.saves;
      if (saves < missing_ || !fits(memory_options_)) continue;
      leave_out();
      return true;
    }
    return false;
  }

  bool choose_by_peak() {
    std::size_t swaps = 64;
    while (!(peak_ <= limit_ && fits(memory_options_)))
      if (!add_one(true) && !add_one(false) && !swap_one(swaps) && !split_one()) return false;
    leave_out();
    return true;
  }
  /// Adds one option. `gains_fall` assumes that gains only fall while options are added. So the search stops if no
  /// option was enough, and the highest gain is not below the older gains of the untried options.
  bool add_one(bool gains_fall) {
    std::stable_sort(useful_.begin(), useful_.end(), [](const Useful& a, const Useful& b) { return a.gain > b.gain; });
    std::optional<ModuleOption> enough, best;
    std::size_t highest = 0;
    double least = std::numeric_limits<double>::infinity();
    for (Useful& u : useful_) {
      if (gains_fall && !enough && highest >= u.gain) break;
      if (overlap(chosen_, u.option)) continue;
      const MemoryOptions then = options_of(and_also(u.option));
      const std::size_t peak = look(then).peak_allocated();
      u.gain = peak_ - std::min(peak, peak_);
      if (u.gain > highest) highest = u.gain, best = u.option;
      if (peak <= limit_ && u.again < least && fits(then)) least = u.again, enough = u.option;
    }
    if (!enough && !best) return false;
    const ModuleOptions then = and_also(enough ? *enough : *best);
    choose(then, look(options_of(then)).peak_allocated());
    return true;
  }
  ModuleOptions and_also(const ModuleOption& option) const {
    ModuleOptions then = chosen_;
    then.insert(option);
    return then;
  }

  /// Exchanges an option for another one of its kind that saves about as much, if that lowers the peak.
  bool swap_one(std::size_t& tries) {
    for (const ModuleOption& out : chosen_) {
      const auto is_out = [&](const Useful& u) { return u.option == out; };
      const std::size_t saves = std::find_if(useful_.begin(), useful_.end(), is_out)->saves;
      ModuleOptions others = chosen_;
      others.erase(out);
      for (const Useful& u : useful_) {
        if (u.option.kind != out.kind || u.option == out || overlap(others, u.option)) continue;
        if (u.saves < saves / 8 * 7 || saves < u.saves / 8 * 7) continue;
        if (tries == 0) return false;
        --tries;
        ModuleOptions then = others;
        then.insert(u.option);
        if (const std::size_t peak = look(options_of(then)).peak_allocated(); peak < peak_) {
          choose(std::move(then), peak);
          return true;
        }
      }
    }
    return false;
  }

  bool split_one() {
    for (const ModuleOption& whole : chosen_) {
      if (whole.kind != ModuleOption::Kind::checkpoint) continue;
      ModuleOptions then = chosen_;
      then.erase(whole);
      for (const Useful& part : useful_)
        if (is_part(part.option, whole)) then.insert(part.option);
      if (const std::size_t peak = look(options_of(then)).peak_allocated(); peak < peak_) {
        choose(std::move(then), peak);
        return true;
      }
    }
    return false;
  }
  /// Whether `inner` is below `outer`, and is of the same kind, with no useful option of this kind between them.
  bool is_part(const ModuleOption& inner, const ModuleOption& outer) const {
    return inner.kind == outer.kind && is_below(inner.path, outer.path) &&
           std::none_of(useful_.begin(), useful_.end(), [&](const Useful& between) {
             return between.option.kind == outer.kind && is_below(inner.path, between.option.path) &&
                    is_below(between.option.path, outer.path);
           });
  }

  /// Adds options that make more expensive ones unnecessary, those that save most for their time first.
  void exchange(std::size_t& tries) {
    for (std::size_t i = 0; i < useful_.size() && tries > 0; ++i) {
      const Useful& u = useful_[i];
      if (chosen_.contains(u.option)) continue;
      ModuleOptions then = chosen_;
      std::erase_if(then, [&](const ModuleOption& l) { return overlap(l, u.option); });
      then.insert(u.option);
      if (then.size() <= chosen_.size() && !is_enough(then, tries)) continue;
      const ModuleOptions needed = without_unneeded(then, tries);
      if (cost_of(needed) < cost_of(chosen_)) choose(needed, peak_);
    }
  }
  bool is_enough(const ModuleOptions& options, std::size_t& tries) {
    return tries > 0 && tries-- && fits(options_of(options));
  }

  /// A set of options that do not overlap, as indices into useful_.
  struct Choice {
    std::vector<std::size_t> options;
    double again = 0;       // time
    std::size_t saves = 0;  // bytes
  };

  void choose_cheaper(std::size_t tries) {
    if (tries == 0) return;
    std::vector<Choice> cheaper;
    std::size_t looked_at = 0;
    collect(0, {}, cost_of(chosen_), cheaper, looked_at);
    std::stable_sort(cheaper.begin(), cheaper.end(), [](const auto& a, const auto& b) { return a.again < b.again; });
    for (std::size_t i = 0; i < std::min(tries, cheaper.size()); ++i) {
      ModuleOptions options;
      for (const std::size_t option : cheaper[i].options) options.insert(useful_[option].option);
      if (fits(options_of(options))) return choose(std::move(options), peak_);
    }
  }
  /// Collects sets that extend `with` by options from number `from` on, add less time than `limit`, and may be enough.
  void collect(std::size_t from, const Choice& with, double limit, std::vector<Choice>& to,
               std::size_t& looked_at) const {
    constexpr std::size_t most = std::size_t{1} << 16;
    if (++looked_at > most) return;
    if (with.saves >= missing_) to.push_back(with);
    for (std::size_t i = from; i < useful_.size(); ++i) {
      const Useful& u = useful_[i];
      const auto overlaps = [&](std::size_t other) { return overlap(useful_[other].option, u.option); };
      if (with.again + u.again >= limit || std::any_of(with.options.begin(), with.options.end(), overlaps)) continue;
      Choice then = with;
      then.options.push_back(i);
      then.again += u.again;
      then.saves += u.saves;
      collect(i + 1, then, limit, to, looked_at);
    }
  }

  void leave_out() {
    std::size_t tries = std::numeric_limits<std::size_t>::max();
    choose(without_unneeded(chosen_, tries), peak_);
  }
  /// Drops options that are not needed, the most expensive first.
  ModuleOptions without_unneeded(ModuleOptions options, std::size_t& tries) {
    std::vector<ModuleOption> dearest(options.begin(), options.end());
    std::stable_sort(dearest.begin(), dearest.end(), [&](const auto& a, const auto& b) {
      return cost_of(ModuleOptions{a}) > cost_of(ModuleOptions{b});
    });
    for (std::size_t i = 0; i < dearest.size();) {
      ModuleOptions then = options;
      then.erase(dearest[i]);
      if (!is_enough(then, tries)) {
        ++i;
        continue;
      }
      options = std::move(then);
      dearest.erase(dearest.begin() + static_cast<std::ptrdiff_t>(i));
      i = 0;  // options that were needed before may be unnecessary now
    }
    return options;
  }

  /// Offloads without options if that is enough. Otherwise keeps all options that were chosen, which alone were too
  /// few.
  void offload() {
    const ModuleOptions all = chosen_;
    choose({}, peak_);
    if (keep_most()) return;
    choose(all, peak_);
    if (keep_most()) leave_out();
  }

  /// Whether the program fits if saved tensors are offloaded. If it does, as many bytes as possible stay on the device,
  /// to 1/64.
  bool keep_most() {
    saved_ = without_options_.saved;
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

  /// Sets `enough` to the smallest limit that is enough for the chosen options, which are too few for the given limit.
  /// Returns true, and drops the options, if none are enough for a limit that is no larger.
  bool without_helps_as_much(std::size_t& enough) {
    enough = smallest_limit();
    const bool has_options = !chosen_.empty() || memory_options_.offloads();
    if (!has_options || !predict_(without_options_, enough).fits()) return false;
    chosen_.clear();
    saved_ = without_options_.saved;
    memory_options_ = without_options_;
    enough = std::min(enough, smallest_limit());
    return true;
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
  const MemoryOptions without_options_;
  std::vector<std::string> modules_;  // paths of the model's modules, in its order
  std::map<std::string, std::string> names_;
  ModuleOptions chosen_;
  std::vector<Useful> useful_;   // options that lower the saved bytes
  std::size_t saved_bytes_ = 0;  // peak of bytes saved for backward, without options
  double cost_ = 0;              // estimated seconds of a step without options
  SaveOnCpuOptions saved_ = without_options_.saved;
  MemoryOptions memory_options_;  // the chosen options
  std::size_t peak_ = 0;          // allocated bytes with the chosen options
  std::size_t missing_ = 0;       // bytes above the limit without memory options
};

}  // namespace

Fit search(std::size_t limit, const FitOptions& options, DeviceType type, bool has_pinned, const Predict& predict) {
  return Search(limit, type, predict).run(options, has_pinned);
}

}  // namespace bytetape::nn
