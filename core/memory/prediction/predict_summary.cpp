// Formats a prediction as a page of text.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "bytetape/core/memory/format.h"
#include "bytetape/core/memory/predict.h"
#include "bytetape/core/memory/summary.h"
#include "bytetape/core/memory/text/append.h"

namespace bytetape::memory {
namespace {

bool is_limited(const Prediction& p) { return p.snapshot.limit != std::numeric_limits<std::size_t>::max(); }

/// "cpu on 2 threads", or "cuda:0", whose memory does not depend on the threads.
std::string whose(const Prediction& p) {
  const std::string device = to_string(p.device);
  if (p.device.type != DeviceType::cpu) return device;
  return fmt::format("{} on {} thread{}", device, p.threads, p.threads == 1 ? "" : "s");
}

/// The numbers of the first and the last step that the program marked (memory::Step) in a predicted step. If it marked
/// none, both are the predicted step's place, from 1.
struct Numbers {
  std::size_t first, last;
};
Numbers numbers_of(const Prediction& p, std::size_t place) {
  std::optional<Numbers> found;
  for (std::size_t i = p.steps[place].first_event; i < p.steps[place].end_event; ++i) {
    const Event& e = p.snapshot.events[i];
    if (e.kind == EventKind::step_begin) found = {found ? found->first : e.bytes, e.bytes};
  }
  return found.value_or(Numbers{place + 1, place + 1});
}

std::string verdict(const Prediction& p) {
  const std::string limit = format_bytes(p.snapshot.limit);
  const std::size_t taken = p.steps.size();
  if (!p.fits())
    return taken == 0 ? fmt::format("the setup before the first step does not fit into {}", limit)
                      : fmt::format("step {} does not fit into {}", numbers_of(p, taken - 1).last, limit);
  std::string text = is_limited(p) ? fmt::format("fits into {}; ", limit) : "";
  if (p.period == 1) return text + fmt::format("all steps from step {} on are alike", numbers_of(p, taken - 2).first);
  if (p.is_settled())
    return text + fmt::format("from step {} on, steps repeat with a period of {}",
                              numbers_of(p, taken - 2 * p.period).first, p.period);
  return text + fmt::format("{} step{}, none like an earlier one", taken, taken == 1 ? "" : "s");
}

/// The step that takes most memory, of the steps that repeat.
const PredictedStep& settled(const Prediction& p) {
  const auto takes_less = [](const PredictedStep& a, const PredictedStep& b) { return a.allocated < b.allocated; };
  return *std::max_element(p.steps.end() - static_cast<std::ptrdiff_t>(std::max<std::size_t>(p.period, 1)),
                           p.steps.end(), takes_less);
}

/// Writes a row with the bytes of the first and the last step. `first` is nullopt if they are the same step.
void write_row(std::string& out, const char* name, std::optional<std::size_t> first, std::size_t last,
               std::size_t whole) {
  const std::string bar = format_bar(last, whole, 22);
  append(out, "  {:<23} {:>13} {:>15}{}{}\n", name, first ? format_bytes(*first) : "", format_bytes(last),
         bar.empty() ? "" : "  ", bar);
}

/// Writes a table of the first step and a late one.
void write_steps(std::string& out, const Prediction& p) {
  const PredictedStep &first = p.steps.front(), &last = settled(p);
  const bool is_one = &first == &last;
  const auto beside = [&](std::size_t bytes) { return is_one ? std::nullopt : std::optional(bytes); };
  append(out, "\n{:<25} {:>13} {:>15}\n", "at a step's peak", is_one ? "" : "step 1",
         fmt::format("step {}", numbers_of(p, static_cast<std::size_t>(&last - &first)).first));
  for (std::size_t r = 0; r < role_count; ++r)
    if (first.by_role[r] || last.by_role[r])
      write_row(out, to_string(static_cast<Role>(r)), beside(first.by_role[r]), last.by_role[r], last.allocated);
  write_row(out, "allocated", beside(first.allocated), last.allocated, 0);
  write_row(out, "reserved", beside(first.reserved), last.reserved, 0);
}

}  // namespace

std::string summarize(const Prediction& p, std::size_t modules) {
  std::string out;
  append(out, "predicted for {}: {}\n", whose(p), verdict(p));
  if (!p.steps.empty()) write_steps(out, p);
  append(out, "\n{}", summarize(p.snapshot, modules));
  for (const Snapshot& s : p.others)
    append(out, "also on {}: peak {} allocated, {} reserved\n", s.name, format_bytes(s.statistics.allocated.peak),
           format_bytes(s.statistics.reserved.peak));
  return out;
}

}  // namespace bytetape::memory
