#include "examples/memory_tour/measure.h"
#include "bytetape/core/memory/allocator.h"

#include <bytetape/core/memory/allocators.h>
#include <bytetape/core/memory/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace bytetape::examples {
namespace {

/// Returns the events from `first` on, with their steps counted from 1. In `books` the steps of all programs are
/// numbered consecutively, as the recording needs.
std::vector<memory::Event> events_from(const memory::Snapshot& books, std::size_t first) {
  std::vector<memory::Event> events(books.events.begin() + static_cast<std::ptrdiff_t>(first), books.events.end());
  const auto in_step = std::find_if(events.begin(), events.end(), [](const memory::Event& e) { return e.step != 0; });
  if (in_step == events.end()) return events;
  const std::uint32_t before = in_step->step - 1;
  for (memory::Event& e : events) {
    if (e.step) e.step -= before;
    if (e.kind == memory::EventKind::step_begin || e.kind == memory::EventKind::step_end) e.bytes -= before;
  }
  return events;
}

double seconds_of(const Program& program) {
  const auto start = std::chrono::steady_clock::now();
  Watch unused;
  program(unused);
  synchronize(default_device());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void Watch::operator()(std::string label) {
  (*this)(std::move(label), memory::stats(default_device()));
  memory::reset_peaks(default_device());
}

void Watch::operator()(std::string label, const memory::Statistics& books) {
  Level level{std::move(label), books.allocated.current, books.reserved.current, {}, books.allocated.peak,
              books.at_peak};
  for (std::size_t r = 0; r < level.by_role.size(); ++r) level.by_role[r] = books.by_role[r].current;
  levels_.push_back(std::move(level));
}

Measurement measure(const Program& program, bool is_timed) {
  Watch predicted, found;
  const memory::Prediction p = memory::predict(default_device(),
                                               [&] {
                                                 program(predicted);
                                                 return [] {};  // the program is complete: no step follows
                                               },
                                               {.min_steps = 1, .max_steps = 1});

  memory::each_allocator([](memory::Allocator& a) {  // a program may read other devices too
    a.empty_cache();
    a.reset_peaks();
  });
  const memory::Snapshot before = memory::snapshot(default_device());
  check<ValueError>(before.statistics.reserved.current == 0, "expected no memory in use on ", default_device(),
                    ", got ", memory::format_bytes(before.statistics.reserved.current), " reserved");
  program(found);
  Measurement m{found.levels(), predicted.levels(),
                events_from(memory::snapshot(default_device()), before.events.size()), events_from(p.snapshot, 0)};
  if (is_timed && !default_device().is_meta)
    m.seconds = std::min({seconds_of(program), seconds_of(program), seconds_of(program)});
  return m;
}

}  // namespace bytetape::examples
