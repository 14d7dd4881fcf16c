#include "bytetape/core/memory/report.h"

#include <algorithm>
#include <ostream>
#include <tuple>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/advice.h"
#include "bytetape/core/memory/allocator/verdict.h"
#include "bytetape/core/memory/ledger/enum_names.h"
#include "bytetape/core/memory/prediction/failed_requests.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/report/report_columns.h"
#include "bytetape/core/memory/report/report_page.h"
#include "bytetape/core/memory/report/report_scopes.h"
#include "bytetape/core/memory/report/report_tables.h"
#include "bytetape/core/memory/report/report_work.h"
#include "bytetape/core/memory/report/scope_work.h"
#include "bytetape/core/memory/report/statistics_json.h"
#include "bytetape/core/memory/text/json.h"
#include "bytetape/core/write_file.h"

namespace bytetape::memory {
namespace {

Json to_json(const ReportColumn& c) { return {{"type", c.type}, {"scale", c.scale}, {"at", c.at}, {"count", c.count}}; }

Json failures_json(const DeviceLog& d) {
  Json failures = Json::array();
  for (const auto& [record, s] : failed_requests(d))
    failures.push_back({{"missing", s.missing()}, {"fits", s.fits()}, {"verdict", verdict(s)}});
  return failures;
}

Json to_json(const Log& log, const DeviceLog& d, ReportColumns& columns) {
  const ReportTables tables(d.records, d.limits);
  Json limits = {{{"from", 0}, {"bytes", limit_json(d.limit)}}};
  for (const NewLimit& l : tables.limits) limits.push_back({{"from", l.from}, {"bytes", limit_json(l.bytes)}});
  const auto& [e, b, s] = std::tie(tables.events, tables.blocks, tables.segments);
  const auto add = [&](const ReportTables::Column& c) { return to_json(columns.add(c)); };
  return {{"name", d.name},
          {"capacity", limit_json(d.capacity)},
          {"limits", limits},
          {"peak", {{"reached", tables.peak.reached()}, {"end", tables.peak.end()}}},
          {"failures", failures_json(d)},
          {"endedOutOfMemory", ended_out_of_memory(log, d)},
          {"dropped", d.dropped},
          {"unmatched", tables.unmatched},
          {"outside", d.outside ? Json(d.outside->bytes) : Json()},
          {"others", d.outside && d.outside->others ? Json(*d.outside->others) : Json()},
          {"external", d.external.bytes},
          {"end", d.end ? Json::parse(to_json(*d.end)) : Json()},
          {"events",
           {{"kind", add(e.kind)},
            {"phase", add(e.phase)},
            {"step", add(e.step)},
            {"thread", add(e.thread)},
            {"byModule", add(e.by_module)},
            {"byOp", add(e.by_op)},
            {"elapsed", add(e.elapsed)},
            {"role", add(e.role)},
            {"module", add(e.module)},
            {"target", add(e.target)}}},
          {"blocks",
           {{"segment", add(b.segment)},
            {"offset", add(b.offset)},
            {"bytes", add(b.bytes)},
            {"requested", add(b.requested)},
            {"op", add(b.op)},
            {"what", add(b.what)}}},
          {"segments", {{"number", add(s.number)}, {"bytes", add(s.bytes)}}}};
}

Json to_json(const ReportWork& w, ReportColumns& columns) {
  const auto add = [&](const ReportWork::Column& c) { return to_json(columns.add(c)); };
  return {{"elapsed", add(w.elapsed)}, {"time", add(w.time)},     {"kind", add(w.kind)},
          {"name", add(w.name)},       {"module", add(w.module)}, {"op", add(w.op)},
          {"phase", add(w.phase)},     {"step", add(w.step)},     {"device", add(w.device)},
          {"stream", add(w.stream)},   {"bytes", add(w.bytes)},   {"stepDevice", add(w.step_device)}};
}

Json to_json(const ReportCounts& c, ReportColumns& columns) {
  const auto add = [&](const ReportCounts::Column& column) { return to_json(columns.add(column)); };
  return {{"table", add(c.table)}, {"module", add(c.module)}, {"op", add(c.op)},       {"phase", add(c.phase)},
          {"flop", add(c.flop)},   {"bytes", add(c.bytes)},   {"least", add(c.least)}, {"isGpus", add(c.is_gpus)}};
}
Json to_json(const ReportCounts::Steps& s, ReportColumns& columns) {
  const auto add = [&](const ReportCounts::Column& column) { return to_json(columns.add(column)); };
  return {
      {"elapsed", add(s.elapsed)}, {"step", add(s.step)}, {"stepDevice", add(s.step_device)}, {"table", add(s.table)}};
}

/// Returns a run's header. Adds its columns to `data`.
Json to_json(const Log& log, const std::string& file, Json& data) {
  ReportColumns columns;
  Json devices = Json::array();
  for (const DeviceLog& d : log.devices) devices.push_back(to_json(log, d, columns));
  const ReportScopes s(log.marks);
  const Json scopes = {{"elapsed", to_json(columns.add(s.elapsed))},   {"thread", to_json(columns.add(s.thread))},
                       {"phase", to_json(columns.add(s.phase))},       {"stage", to_json(columns.add(s.stage))},
                       {"module", to_json(columns.add(s.module))},     {"op", to_json(columns.add(s.op))},
                       {"beginsOp", to_json(columns.add(s.begins_op))}};
  const Json work = to_json(ReportWork(log.device_work), columns);
  const ReportCounts counted(log);
  const Json counts = to_json(counted, columns), counted_steps = to_json(counted.steps, columns);
  data.push_back(columns.text());
  return {{"program", log.program},
          {"file", file},
          {"complete", log.complete},
          {"damage", log.damage},
          {"fromLedgers", log.from_ledgers},
          {"names", log.names},
          {"scopes", scopes},
          {"work", work},
          {"counts", counts},
          {"countedSteps", counted_steps},
          {"devices", devices}};
}

/// Formats JSON for a script element. Escapes '<', because a name may contain "</script>".
std::string script_text(const Json& value) {
  std::string safe;
  for (const char c : json_text(value)) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

Json header(const Report& report, Json& data) {
  Json runs = Json::array({to_json(*report.run, report.file, data)});
  if (report.other) runs.push_back(to_json(*report.other, report.other_file, data));
  return {{"roles", enum_names<Role>(role_count)},
          {"phases", enum_names<Phase>(phase_count)},
          {"kinds", enum_names<EventKind>(event_kind_count)},
          {"workKinds", enum_names<DeviceWork::Kind>(device_work_kinds)},
          {"advice", report.advice},
          {"runs", runs}};
}

/// Returns advice on a run; none for ledgers' logs, which have neither times nor the ops that save tensors.
std::vector<std::string> advice_on(const Log& run) {
  return run.from_ledgers ? std::vector<std::string>() : advice_texts(run);
}

}  // namespace

bool can_write_reports() { return !report_page::d3.empty(); }

void write_report(const Report& report, std::ostream& out) {
  check<ValueError>(report.run != nullptr, "write_report: expected a run, got a null pointer");
  check<Error>(!report_page::d3.empty(),
               "write_report: this library was built without d3, which draws the report: install the package node-d3 "
               "(or set BYTETAPE_D3 to a d3.min.js) and build it again");
  Json data = Json::array();
  const std::string head = script_text(header(report, data));
  const std::string body = script_text(data);
  const auto part = [&](std::string_view name) -> std::string_view {
    if (name == "STYLE") return report_page::style;
    if (name == "D3") return report_page::d3;
    if (name == "SCRIPT") return report_page::script;
    return name == "HEADER" ? head : body;
  };
  std::string_view rest = report_page::html;
  for (std::size_t open; (open = rest.find("{{")) != rest.npos;) {
    const std::size_t close = rest.find("}}", open);
    out << rest.substr(0, open) << part(rest.substr(open + 2, close - open - 2));
    rest.remove_prefix(close + 2);
  }
  out << rest;
}

void write_report(const Report& report, const std::string& path) {
  write_file(path, "the memory report", [&](std::ostream& out) { write_report(report, out); });
}
void write_report(const Log& run, const std::string& path) {
  write_report(Report{&run, nullptr, advice_on(run)}, path);
}
void write_report(const std::string& path) { write_report(log_so_far(), path); }
void write_report(const Log& run, const Log& other, const std::string& path) {
  write_report(Report{&run, &other, advice_on(run)}, path);
}

}  // namespace bytetape::memory
