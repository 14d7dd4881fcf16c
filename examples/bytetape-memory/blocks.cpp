#include "examples/bytetape-memory/blocks.h"

#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/peak.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace bytetape::examples {
namespace {

using memory::EventKind;

/// The number of records up to the peak, including the retags of the blocks held then.
std::size_t records_to_peak(const memory::DeviceLog& device) {
  memory::PeakFinder peak;
  for (const memory::Record& r : device.records) peak.see(r.event);
  return peak.end();
}

/// The allocations of the blocks that are held after some records, with their last role and module. The largest first.
std::vector<memory::Record> held_after(const memory::DeviceLog& device, std::size_t records) {
  std::map<std::pair<std::uint32_t, std::uint64_t>, memory::Record> held;
  for (std::size_t i = 0; i < records; ++i) {
    const memory::Record& r = device.records[i];
    const std::pair place(r.event.segment, r.event.offset);
    if (r.event.kind == EventKind::alloc) held[place] = r;
    if (r.event.kind == EventKind::free) held.erase(place);
    if (r.event.kind != EventKind::retag) continue;
    held[place].event.role = r.event.role;
    held[place].event.module = r.event.module;
  }
  std::vector<memory::Record> blocks;
  for (const auto& [place, record] : held) blocks.push_back(record);
  std::stable_sort(blocks.begin(), blocks.end(), [](auto& a, auto& b) { return a.event.bytes > b.event.bytes; });
  return blocks;
}

std::string when(const memory::Event& e) {
  return e.step ? fmt::format("{} of step {}", to_string(e.phase), e.step) : to_string(e.phase);
}

}  // namespace

std::string largest_blocks(const memory::Log& log, const memory::DeviceLog& device, std::size_t count) {
  std::vector<memory::Record> blocks = held_after(device, records_to_peak(device));
  if (blocks.empty()) return "";
  const auto name = [&](memory::NameId id) { return id ? log.names[id] : "·"; };
  const std::size_t rest = blocks.size() - std::min(count, blocks.size());
  blocks.resize(blocks.size() - rest);
  std::size_t tensors = 0, modules = 0, ops = 0;
  for (const memory::Record& b : blocks) {
    tensors = std::max(tensors, name(b.what).size());
    modules = std::max(modules, name(b.event.module).size());
    ops = std::max(ops, name(b.event.op).size());
  }
  std::string out = "the largest blocks at the peak\n";
  for (const memory::Record& b : blocks)
    out += fmt::format("  {:>9}  {:<{}}  {:<18}  {:<{}}  {:<{}}  {}\n", memory::format_bytes(b.event.bytes),
                       name(b.what), tensors, to_string(b.event.role), name(b.event.module), modules, name(b.event.op),
                       ops, when(b.event));
  if (rest) out += fmt::format("  and {} more\n", rest);
  return out;
}

}  // namespace bytetape::examples
