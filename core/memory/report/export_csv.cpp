#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <ostream>
#include <string>

#include "bytetape/core/memory/export.h"
#include "bytetape/core/memory/report/utf8.h"
#include "bytetape/core/memory/times.h"

namespace bytetape::memory {
namespace {

/// Formats a cell by RFC 4180: in quotes if it contains a separator, with quotes doubled.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

}  // namespace

void write_csv(const Log& log, std::ostream& out) {
  std::vector<std::string> names;
  for (const std::string& name : log.names) names.push_back(cell(utf8(name)));
  out << "device,event,nanoseconds,thread,kind,segment,offset,bytes,requested,role,old_role,phase,step,module,"
         "old_module,op,by_module,by_op,tensor\n";
  std::string line;
  for (const DeviceLog& d : log.devices) {
    const std::string device = cell(d.name);
    for (std::size_t i = 0; i < d.records.size(); ++i) {
      const Record& r = d.records[i];
      const Event& e = r.event;
      line.clear();
      fmt::format_to(std::back_inserter(line), "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", device, i,
                     r.time, r.thread, to_string(e.kind), e.segment, e.offset, e.bytes, e.requested, to_string(e.role),
                     to_string(e.old_role), to_string(e.phase), e.step, names[e.module], names[e.old_module],
                     names[e.op], names[r.by_module], names[r.by_op], names[r.what]);
      out << line;
    }
  }
}

void write_times_csv(const Log& log, std::ostream& out) {
  out << "step,module,op,phase,calls,host_ns,device_ns,flop,bytes,least_ns\n";
  for (const StepTime& step : step_times(log))
    for (const OpTime& r : step.rows) {
      const auto counted = [&](auto value) { return step.is_counted ? fmt::format("{}", value) : ""; };
      out << fmt::format("{},{},{},{},{},{},{},{},{},{}\n", step.step, cell(utf8(log.names[r.module])),
                         cell(utf8(log.names[r.op])), to_string(r.phase), r.calls, r.time,
                         step.device ? fmt::format("{}", r.device_time) : "", counted(r.flop), counted(r.bytes),
                         r.least_time ? counted(std::llround(*r.least_time)) : "");
    }
}

}  // namespace bytetape::memory
