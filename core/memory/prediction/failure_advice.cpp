// A step that ran out of memory has no recorded rest, so its peak with a checkpoint is not known. Known are the bytes
// that were held at the request, and which of them only nodes of a finished call held. A checkpoint of the called
// module would have freed those.
#include "bytetape/core/memory/prediction/failure_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/prediction/checkpoint_effects.h"
#include "bytetape/core/memory/prediction/failed_requests.h"

namespace bytetape::memory {
namespace {

struct Candidate {
  std::string module;
  std::size_t freed;
};

/// The records of the failed request's step, up to the request. None if it was made outside of steps.
std::optional<Range> failed_step(const std::vector<Record>& records, std::size_t request) {
  const Record& failed = records[request];
  if (failed.event.step == 0) return std::nullopt;
  for (std::size_t i = request; i-- > 0;) {
    const Event& e = records[i].event;
    if (e.kind == EventKind::step_begin && e.step == failed.event.step) return Range{i, request + 1};
  }
  return std::nullopt;
}

/// Whether modules inside `outer` free most of what it frees. They then run a smaller part again at a time.
bool is_split_up(const Candidate& outer, const std::vector<Candidate>& all) {
  std::vector<const Candidate*> inner;
  std::size_t freed = 0;
  for (const Candidate& c : all) {  // the largest first, so that the outer of two comes before the inner
    if (c.module == outer.module || !is_within(c.module, outer.module)) continue;
    if (std::any_of(inner.begin(), inner.end(), [&](const auto* i) { return is_within(c.module, i->module); }))
      continue;
    inner.push_back(&c);
    freed += c.freed;
  }
  return inner.size() > 1 && 5 * freed >= 4 * outer.freed;
}

/// Modules that free at least 1 % of the held bytes, the largest share first. None is inside another.
std::vector<Candidate> candidates(const RecordedStep& step) {
  std::vector<Candidate> all;
  for (const std::string& module : step.whole_modules())
    if (const std::size_t freed = step.freed_at_end(module); freed >= step.level_at_end() / 100 && freed > 0)
      all.push_back({module, freed});
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.freed != b.freed ? a.freed > b.freed : a.module.size() < b.module.size();
  });
  std::vector<Candidate> chosen;
  for (const Candidate& c : all)
    if (!is_split_up(c, all) &&
        std::none_of(chosen.begin(), chosen.end(), [&](const Candidate& o) { return is_within(c.module, o.module); }))
      chosen.push_back(c);
  return chosen;
}

/// The verdict on the failed request and the step's peak once `freed` of the `held` bytes are free. The rest of the
/// step is not known, so it may need more.
std::string verdict_after(std::size_t freed, std::size_t held, const Shortage& s) {
  if (freed < s.missing()) return fmt::format("not enough alone: it still lacks {}", format_bytes(s.missing() - freed));
  const std::string peak = format_bytes(held - freed + s.needed());
  if (s.limit == std::numeric_limits<std::size_t>::max())
    return fmt::format("it then fits, and the step's peak is {} or more", peak);
  return fmt::format("it then fits, and the step's peak is {} or more, with a limit of {}", peak,
                     format_bytes(s.limit));
}

std::string checkpoints_text(const std::vector<Candidate>& all, std::size_t held, const Shortage& s) {
  const std::size_t missing = s.missing();
  std::vector<std::string> modules;
  std::size_t freed = 0;
  for (const Candidate& c : all) {
    if (freed >= missing) break;
    modules.push_back(c.module);
    freed += c.freed;
  }
  return fmt::format("checkpoint {}: frees {} before this request, which lacks {}; {}\n{}", module_list(modules),
                     format_bytes(freed), format_bytes(missing), verdict_after(freed, held, s),
                     checkpoint_code(modules));
}

/// The call of nn::fit for a device. Empty for pinned memory, and without a limit.
std::string fit_code(const std::string& device, std::size_t limit) {
  const std::string kind = device.substr(0, device.find(':'));
  if ((kind != "cpu" && kind != "cuda") || limit == std::numeric_limits<std::size_t>::max()) return "";
  const std::string index = kind == device || device == "cuda:0" ? "" : device.substr(kind.size() + 1);
  return fmt::format("const nn::Fit fit = nn::fit(Device::{}({}), {}, make_training);", kind, index, limit);
}

}  // namespace

std::string module_list(const std::vector<std::string>& modules) {
  std::string list;
  for (const std::string& m : modules) {
    if (!list.empty()) list += ", ";
    list += m.find(' ') == m.npos ? m : '\'' + m + '\'';
  }
  return list;
}

std::string checkpoint_code(const std::vector<std::string>& modules) {
  std::string paths;
  for (const std::string& m : modules) {
    paths += paths.empty() ? "\"" : ", \"";
    for (const char c : m) {
      if (c == '"' || c == '\\') paths += '\\';
      paths += c;
    }
    paths += '"';
  }
  return fmt::format("nn::checkpoint_modules(model, {{{}}});", paths);
}

std::vector<std::string> failure_advice(const Log& log, const DeviceLog& device) {
  if (!ended_out_of_memory(log, device)) return {};
  const FailedRequest failed = failed_requests(device).back();
  const std::optional<Range> range = failed_step(device.records, failed.record);
  if (!range)
    return {failed.shortage.step
                ? "no checkpoint is advised: the recording began within the step of the failed request"
                : "no checkpoint is advised: the failed request was made outside of steps (memory::Step)"};
  const RecordedStep step(log, device, *range);
  const std::vector<Candidate> all = candidates(step);
  std::vector<std::string> texts;
  if (all.empty())
    texts.push_back(
        "no checkpoint is advised: at the failed request, no module held 1 % of the bytes for its own backward alone");
  else
    texts.push_back(checkpoints_text(all, step.level_at_end(), failed.shortage));
  if (const std::string code = fit_code(device.name, failed.shortage.limit); !code.empty())
    texts.push_back(
        "nn::fit chooses memory options with which the whole step fits a limit, or says what would be enough\n" + code);
  return texts;
}

}  // namespace bytetape::memory
