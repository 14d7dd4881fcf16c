#include "tests/memory/escapes.h"
#include "bytetape/core/memory/stats.h"

#include <execinfo.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <ostream>

#include "bytetape/core/device/backend.h"
#include "tests/memory/interpose.h"

namespace bytetape::test {
namespace {

using memory::Event;
using memory::EventKind;

BigCall readable(const RawCall& raw) {
  BigCall call{raw.function, raw.bytes, {}};
  const std::unique_ptr<char*[], void (*)(void*)> lines(backtrace_symbols(raw.frames.data(), raw.frame_count),
                                                        std::free);
  for (int i = 2; lines && i < raw.frame_count; ++i) call.stack.emplace_back(lines[i]);  // past our own two
  return call;
}

}  // namespace

Escapes count_escapes(const std::function<void()>& step, Device device, std::size_t at_least) {
  memory::reset_log(device);
  start_recording(at_least);
  step();
  const Recording recording = stop_recording();

  Escapes found;
  found.overflow = recording.overflow;
  for (std::size_t i = 0; i < recording.count; ++i) found.calls.push_back(readable(recording.calls[i]));
  const memory::Snapshot books = memory::snapshot(device);
  found.overflow += books.dropped;
  for (const Event& e : books.events) {
    if (e.kind == EventKind::alloc) found.tracked += e.bytes;
    if (e.kind != EventKind::segment_alloc || e.bytes < at_least) continue;
    // The host upstream's one call for this segment, which is on the books.
    const auto own = std::find_if(found.calls.begin(), found.calls.end(), [&](const BigCall& c) {
      return c.function == "posix_memalign" && c.bytes == e.bytes;
    });
    if (own == found.calls.end()) continue;
    found.calls.erase(own);
    ++found.segments;
  }
  return found;
}

std::ostream& operator<<(std::ostream& out, const Escapes& e) {
  out << e.calls.size() + e.overflow << " escapes; " << e.segments << " segments and " << e.tracked
      << " bytes went through the allocator\n";
  for (const BigCall& c : e.calls) {
    out << "  " << c.function << " of " << c.bytes << " bytes\n";
    for (const std::string& frame : c.stack) out << "    " << frame << '\n';
  }
  return out;
}

}  // namespace bytetape::test
