#include "bytetape/core/memory/ceilings.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <ostream>
#include <span>
#include <system_error>

#include "bytetape/core/device/device.h"
#include "bytetape/core/error.h"
#include "bytetape/core/files/input.h"
#include "bytetape/core/memory/text/ceilings_json.h"
#include "bytetape/core/write_file.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 20;  // of a file of ceilings

std::string name_of_precision(std::size_t i) { return to_string(static_cast<Precision>(i)); }

double positive(const Json& object, const std::string& key) {
  const auto at = object.find(key);
  check<ValueError>(at != object.end() && at->is_number(), "expected a number as '", key, "'");
  const double value = at->get<double>();
  check<ValueError>(std::isfinite(value) && value > 0, "expected a positive '", key, "', found ", value);
  return value;
}

std::string text(const Json& object, const char* key) {
  const auto at = object.find(key);
  check<ValueError>(at != object.end() && at->is_string(), "expected a text as '", key, "'");
  return at->get<std::string>();
}

/// "cuda:1" of "meta:cuda:1", and "cpu" of "meta".
std::string real_device(const std::string& device) {
  if (device == "meta") return "cpu";
  return device.starts_with("meta:") ? device.substr(5) : device;
}

}  // namespace

std::uint64_t RooflineWork::all_flop() const { return std::accumulate(flop.begin(), flop.end(), std::uint64_t{0}); }

std::optional<double> roofline_time(const RooflineWork& work, const Ceilings& ceilings) {
  double products = 0;
  for (std::size_t i = 0; i < work.flop.size(); ++i) {
    if (work.flop[i] == 0) continue;
    if (ceilings.flop_per_s[i] == 0) return std::nullopt;
    products += static_cast<double>(work.flop[i]) / ceilings.flop_per_s[i];
  }
  constexpr double longest = 9e15;  // so that it fits integers: more than three months
  return std::min(1e9 * std::max(products, static_cast<double>(work.bytes) / ceilings.bytes_per_s), longest);
}

const Ceilings* find_ceilings(const std::vector<Ceilings>& all, const std::string& device) {
  const std::string real = real_device(device);
  auto at = std::ranges::find(all, real, &Ceilings::device);
  for (const std::string& likes : {to_string(Device::cuda()), std::string("cuda:0")})
    if (at == all.end() && real.starts_with("cuda")) at = std::ranges::find(all, likes, &Ceilings::device);
  return at == all.end() ? nullptr : &*at;
}

std::string default_ceilings_file() {
  if (const char* file = std::getenv("BYTETAPE_CEILINGS")) return file;
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache) return std::string(cache) + "/bytetape/ceilings.json";
  return home && *home ? std::string(home) + "/.cache/bytetape/ceilings.json" : "";
}

// ---- files

Json ceilings_json(const Ceilings& c) {
  Json flop = Json::object();
  for (std::size_t i = 0; i < c.flop_per_s.size(); ++i)
    if (c.flop_per_s[i] > 0) flop[name_of_precision(i)] = c.flop_per_s[i];
  return {{"device", c.device}, {"processor", c.processor}, {"bytes_per_s", c.bytes_per_s}, {"flop_per_s", flop}};
}

Ceilings ceilings_from_json(const Json& json) {
  check<ValueError>(json.is_object(), "expected an object of a device's ceilings");
  Ceilings c{.device = text(json, "device"), .processor = text(json, "processor")};
  c.bytes_per_s = positive(json, "bytes_per_s");
  const auto flop = json.find("flop_per_s");
  check<ValueError>(flop != json.end() && flop->is_object(), "expected an object as 'flop_per_s'");
  for (std::size_t i = 0; i < c.flop_per_s.size(); ++i)
    if (flop->contains(name_of_precision(i))) c.flop_per_s[i] = positive(*flop, name_of_precision(i));
  return c;
}

std::vector<Ceilings> parse_ceilings(const std::string& content) {
  const Json json = Json::parse(content, nullptr, false);
  check<ValueError>(json.is_object() && json.contains("ceilings") && json["ceilings"].is_array(),
                    "expected JSON with an array 'ceilings'");
  std::vector<Ceilings> all;
  for (const Json& each : json["ceilings"]) all.push_back(ceilings_from_json(each));
  check<ValueError>(!all.empty(), "expected the ceilings of a device, found none");
  return all;
}

std::string text_of_ceilings(const std::vector<Ceilings>& ceilings) {
  Json all = Json::array();
  for (const Ceilings& c : ceilings) all.push_back(ceilings_json(c));
  return Json{{"ceilings", all}}.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::vector<Ceilings> read_ceilings(const std::string& path) {
  const auto file = open_input(path);
  check<FileError>(file->size() <= most_bytes, path, ": expected ceilings of at most ", most_bytes, " bytes, found ",
                   file->size());
  std::string content(file->size(), '\0');
  file->read_all(0, std::as_writable_bytes(std::span(content)));
  try {
    return parse_ceilings(content);
  } catch (const ValueError& e) {
    fail<FileError>(path, ": ", e.what(), "; measure them again with bench/ceilings, or remove the file");
  }
}

void write_ceilings(const std::string& path, const std::vector<Ceilings>& ceilings) {
  std::error_code failed;  // write_file() reports it
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  write_file(path, "the ceilings", [&](std::ostream& out) { out << text_of_ceilings(ceilings) << '\n'; });
}

}  // namespace bytetape::memory
