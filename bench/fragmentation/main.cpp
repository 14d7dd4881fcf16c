// What the allocator reserves for the same requests as PyTorch's would, and the least that any could: a Markdown table.
#include <bytetape/bytetape.h>
#include <bytetape/core/memory/format.h>
#include <bytetape/core/memory/resimulate.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "bench/fragmentation/torch_policy.h"
#include "bench/fragmentation/traces.h"

namespace {

using namespace bytetape;
using memory::EventKind;

std::size_t peak_reserved(const memory::DeviceLog& d, const memory::MakePolicy& policy) {
  memory::Watermark reserved;
  for (const memory::Record& r : memory::resimulate(d, {.policy = policy}).device.records) {
    if (r.event.kind == EventKind::segment_alloc) reserved.add(r.event.bytes);
    if (r.event.kind == EventKind::segment_free) reserved.sub(r.event.bytes);
  }
  return reserved.peak;
}

/// The most that is held at once, each block rounded to 512 bytes.
std::size_t lower_bound(const memory::DeviceLog& d) {
  return peak_reserved(d, memory::policy_of(memory::Allocator::Mode::direct));
}

void print(const bench::Trace& t) {
  const auto& records = t.device.records;
  const auto requests = std::count_if(records.begin(), records.end(),
                                      [](const memory::Record& r) { return r.event.kind == EventKind::alloc; });
  const std::size_t least = lower_bound(t.device);
  const std::size_t ours = peak_reserved(t.device, memory::policy_of(memory::Allocator::Mode::caching));
  const std::size_t theirs = peak_reserved(t.device, [](memory::Upstream& u, memory::SegmentObserver o) {
    return std::make_unique<bench::TorchPolicy>(u, std::move(o));
  });
  const auto times = [&](std::size_t bytes) { return static_cast<double>(bytes) / static_cast<double>(least); };
  fmt::print("| {} | {} | {} | {} ({:.3f}) | {} ({:.3f}) |\n", t.name, requests, memory::format_bytes(least),
             memory::format_bytes(ours), times(ours), memory::format_bytes(theirs), times(theirs));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Peak reserved bytes of the same requests: the lower bound, ours, PyTorch's", "fragmentation"};
  std::vector<std::string> logs;
  app.add_option("LOG", logs, "recordings to replay besides");
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("| requests of | n | lower bound | bytetape | PyTorch |\n|---|---|---|---|---|\n");
    for (const auto& traces : {bench::model_traces(), bench::synthetic_traces()})
      for (const bench::Trace& t : traces) print(t);
    for (const std::string& path : logs)
      for (const memory::DeviceLog& d : memory::read_log(path).devices)
        if (!d.records.empty()) print({path + " " + d.name, d});
  } catch (const std::exception& e) {
    std::cerr << "fragmentation: " << e.what() << '\n';
    return 1;
  }
}
