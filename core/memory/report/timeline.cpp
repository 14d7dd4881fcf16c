#include "bytetape/core/memory/timeline.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <ostream>
#include <vector>

#include "bytetape/core/memory/holders.h"
#include "bytetape/core/memory/ledger/enum_names.h"
#include "bytetape/core/memory/report/statistics_json.h"
#include "bytetape/core/memory/text/json.h"
#include "bytetape/core/write_file.h"

namespace bytetape::memory {
namespace {

/// The names in a file, in alphabetical order, because the process's ids depend on what else it did.
class FileNames {
 public:
  explicit FileNames(const Snapshot& s) {
    add(0);
    for (const Event& e : s.events)
      for (NameId id : {e.module, e.old_module, e.op}) add(id);
    std::sort(sorted_.begin(), sorted_.end(), [](NameId a, NameId b) { return name_of(a) < name_of(b); });
    for (std::size_t i = 0; i < sorted_.size(); ++i) position_[sorted_[i]] = i;
  }
  std::size_t operator[](NameId id) const { return position_[id]; }
  Json list() const {
    Json names = Json::array();
    for (NameId id : sorted_) names.push_back(name_of(id));
    return names;
  }

 private:
  void add(NameId id) {
    if (id >= position_.size()) position_.resize(id + 1, unknown);
    if (position_[id] != unknown) return;
    position_[id] = sorted_.size();
    sorted_.push_back(id);
  }
  static constexpr std::size_t unknown = ~std::size_t{0};
  std::vector<std::size_t> position_;  // by id; ids are dense
  std::vector<NameId> sorted_;
};

/// {"parameter": 512, ...}, the largest first.
Json to_json(const RoleBytes& bytes) {
  Json roles = Json::object();
  for (const Holder& h : holders_of({bytes})) roles[to_string(h.role)] = h.bytes;
  return roles;
}

/// {"net.fc1": {"parameter": 512}, ...}, the largest holder first.
Json to_json(const std::vector<RoleBytes>& table) {
  std::vector<Holder> holders = holders_of(table);
  std::stable_sort(holders.begin(), holders.end(),
                   [&](const Holder& a, const Holder& b) { return total(table[a.name]) > total(table[b.name]); });
  Json names = Json::object();
  for (const Holder& h : holders) names[name_of(h.name)][to_string(h.role)] = h.bytes;
  return names;
}

Json to_json(const StepSummary& s) {
  Json phases = Json::object();
  for (std::size_t p = 0; p < phase_count; ++p)
    if (const auto& f = s.phases[p]; f.rose || f.fell)
      phases[to_string(static_cast<Phase>(p))] = {{"rose", f.rose}, {"fell", f.fell}, {"peak", f.peak}};
  return {{"step", s.step}, {"before", s.before}, {"after", s.after}, {"peak", s.peak}, {"phases", phases}};
}

/// Writes the events with std::to_chars, for speed, because they are most of the file.
void write_rows(const Snapshot& s, const FileNames& names, std::ostream& out) {
  std::array<char, 12 * 21 + 3> row;  // numbers of at most 20 digits, separators, and ",\n["
  for (const Event& e : s.events) {
    char* at = row.data();
    if (&e != s.events.data()) *at++ = ',';
    *at++ = '\n';
    *at++ = '[';
    for (const std::uint64_t value :
         {std::uint64_t{static_cast<std::uint8_t>(e.kind)}, std::uint64_t{e.segment}, std::uint64_t{e.offset},
          std::uint64_t{e.bytes}, std::uint64_t{e.requested}, std::uint64_t{static_cast<std::uint8_t>(e.role)},
          std::uint64_t{static_cast<std::uint8_t>(e.old_role)}, std::uint64_t{static_cast<std::uint8_t>(e.phase)},
          std::uint64_t{e.step}, names[e.module], names[e.old_module], names[e.op]}) {
      at = std::to_chars(at, row.data() + row.size(), value).ptr;
      *at++ = ',';
    }
    at[-1] = ']';
    out.write(row.data(), at - row.data());
  }
}

}  // namespace

void write_timeline(const Snapshot& s, std::ostream& out) {
  const FileNames names(s);
  const Statistics& books = s.statistics;
  const auto field = [&](const char* key, const Json& value) {
    out << '"' << key << "\": " << json_text(value) << ",\n";
  };
  out << "{\n";
  field("format", "bytetape-timeline");
  field("version", 1);
  field("device", s.name);
  field("unit", "bytes");
  field("capacity", limit_json(s.capacity));
  field("limit", limit_json(s.limit));
  field("statistics", Json::parse(to_json(books)));
  field("at_peak", {{"step", books.peak_step},
                    {"phase", to_string(books.peak_phase)},
                    {"roles", to_json(books.at_peak)},
                    {"modules", to_json(s.by_module_at_peak)},
                    {"ops", to_json(s.by_op_at_peak)}});
  field("held", {{"modules", to_json(s.by_module)}, {"ops", to_json(s.by_op)}});
  out << "\"steps\": [";
  const char* separator = "\n";
  for (const StepSummary& step : s.steps) {
    out << separator << json_text(to_json(step));
    separator = ",\n";
  }
  out << "\n],\n";
  field("dropped_steps", s.dropped_steps);
  field("names", names.list());
  field("kinds", enum_names<EventKind>(event_kind_count));
  field("roles", enum_names<Role>(role_count));
  field("phases", enum_names<Phase>(phase_count));
  field("columns", {"kind", "segment", "offset", "bytes", "requested", "role", "old_role", "phase", "step", "module",
                    "old_module", "op"});
  field("dropped_events", s.dropped);
  out << "\"events\": [";
  write_rows(s, names, out);
  out << "\n]\n}\n";
}

void write_timeline(const Snapshot& s, const std::string& path) {
  write_file(path, "the memory timeline", [&](std::ostream& out) { write_timeline(s, out); });
}

}  // namespace bytetape::memory
