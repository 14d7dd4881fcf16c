#include "bytetape/core/memory/report/statistics_json.h"

#include <concepts>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/text/json.h"

namespace bytetape::memory {
namespace {

Json to_json(const Traffic& t) { return {{"count", t.count}, {"bytes", t.bytes}}; }
Json to_json(const Watermark& w) { return {{"current", w.current}, {"peak", w.peak}}; }

template <std::integral T>
void read(const Json& from, T& to) {
  check<ValueError>(from.is_number_unsigned(), "expected memory statistics as JSON: ", from.dump(), " is no count");
  from.get_to(to);
}
void read(const Json& from, Traffic& to) {
  read(from.at("count"), to.count);
  read(from.at("bytes"), to.bytes);
}
void read(const Json& from, Watermark& to) {
  read(from.at("current"), to.current);
  read(from.at("peak"), to.peak);
}

/// The figures of a role. Files written before 2026-11-24 have the autocast copy under its former name. Files written
/// before 2026-11-27 lack the key-value cache or communication.
Json find_role(const Json& roles, Role role) {
  const bool is_new = role == Role::key_value_cache || role == Role::communication;
  if (is_new && !roles.contains(to_string(role))) return to_json(Watermark{});
  const bool is_former = role == Role::autocast_copy && !roles.contains(to_string(role));
  return roles.at(is_former ? "lowered parameter" : to_string(role));
}

}  // namespace

std::string to_json(const Statistics& s) {
  Json roles = Json::object();
  for (std::size_t r = 0; r < role_count; ++r) roles[to_string(static_cast<Role>(r))] = to_json(s.by_role[r]);
  return Json{{"allocated", to_json(s.allocated)},
              {"requested", to_json(s.requested)},
              {"reserved", to_json(s.reserved)},
              {"roles", roles},
              {"allocations", s.allocations},
              {"upstream_calls", s.upstream_calls},
              {"to_device", to_json(s.to_device)},
              {"to_host", to_json(s.to_host)},
              {"waits", s.waits}}
      .dump();
}

Statistics statistics_from_json(const std::string& text) {
  Statistics s;
  try {
    const Json from = Json::parse(text);
    read(from.at("allocated"), s.allocated);
    read(from.at("requested"), s.requested);
    read(from.at("reserved"), s.reserved);
    read(from.at("allocations"), s.allocations);
    read(from.at("upstream_calls"), s.upstream_calls);
    read(from.at("to_device"), s.to_device);
    read(from.at("to_host"), s.to_host);
    read(from.at("waits"), s.waits);
    for (std::size_t r = 0; r < role_count; ++r) read(find_role(from.at("roles"), static_cast<Role>(r)), s.by_role[r]);
  } catch (const Json::exception& e) { fail<ValueError>("expected memory statistics as JSON: ", e.what()); }
  return s;
}

}  // namespace bytetape::memory
