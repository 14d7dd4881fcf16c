#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "bytetape/core/memory/recording/memlog.h"

namespace {

using namespace bytetape;

/// The bytes of the fuzzer as chunks that are packed and summed rightly, so that it comes to what they say: a kind, the
/// length in two bytes, and as many bytes.
std::string file_of(std::span<const std::uint8_t> data) {
  std::string file = memory::memlog_first_line;
  while (data.size() >= 3) {
    const char kind = static_cast<char>(data[0]);
    const std::size_t length = std::min<std::size_t>(data[1] | data[2] << 8, data.size() - 3);
    file += memory::packed_chunk(kind,
                                 std::string(data.begin() + 3, data.begin() + 3 + static_cast<std::ptrdiff_t>(length)));
    data = data.subspan(3 + length);
  }
  return file;
}

/// Every number of a name and of a device is one that the log has.
void require_whole(const memory::Log& log) {
  const auto require = [](bool ok) {
    if (!ok) std::abort();
  };
  for (const memory::DeviceLog& d : log.devices) {
    for (const memory::NewLimit& l : d.limits) require(l.from <= d.records.size());
    for (const memory::Record& r : d.records)
      require(r.event.module < log.names.size() && r.event.op < log.names.size() && r.what < log.names.size());
  }
  for (const memory::Mark& m : log.marks) require(m.name < log.names.size());
  for (const memory::DeviceWork& w : log.device_work)
    require(w.name < log.names.size() && w.module < log.names.size() && w.op < log.names.size() &&
            w.device < log.devices.size() && w.step_device < log.devices.size() && w.begin <= w.end);
  for (const memory::WorkCount& w : log.work_counts)
    require(w.module < log.names.size() && w.op < log.names.size() && w.device < log.devices.size());
  for (const memory::CountedStep& s : log.counted_steps) require(s.step_device < log.devices.size());
}

void read(const std::string& file) {
  try {
    require_whole(memory::read_log(*memory_input(std::as_bytes(std::span(file)), "fuzz")));
  } catch (const FileError&) {}
}

}  // namespace

/// Any bytes are either a recording, perhaps one that breaks off or is damaged, or a FileError.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read(file_of({data, size}));
  read(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
