#include <zlib.h>

#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/recording/memlog.h"
#include "bytetape/core/memory/recording/memlog_columns.h"
#include "bytetape/core/memory/report/statistics_json.h"
#include "bytetape/core/memory/text/ceilings_json.h"
#include "bytetape/core/memory/text/json.h"

namespace bytetape::memory {
namespace {

// Writers make much smaller chunks.
constexpr std::uint32_t most_packed = 1u << 26, most_unpacked = 1u << 26;
constexpr int most_nested = 16;  // levels of JSON; statistics have 4

class Reader {
 public:
  explicit Reader(const Input& from) : from_(from) { log_.names.emplace_back(); }

  Log read() {
    std::string line(sizeof(memlog_first_line) - 1, '\0');
    from_.read(0, reinterpret_cast<std::byte*>(line.data()), line.size());
    const std::string_view expected = memlog_first_line, format = expected.substr(0, expected.rfind(' ') + 1);
    from_.check_at(line.starts_with(format), 0, "expected a memory recording, which begins with '", format,
                   "', found another file");
    from_.check_at(line == expected, format.size(), "expected a recording of version 1, found another version");
    at_ = line.size();
    if (read_chunk()) read_others();
    return std::move(log_);
  }

 private:
  template <class... Args>
  void check_here(bool ok, const Args&... args) const {
    from_.check_at(ok, at_, args...);
  }

  /// Reads chunks up to the end or the first damaged one. Earlier chunks are sound, because each has a checksum.
  void read_others() {
    try {
      while (!log_.complete && read_chunk()) {}
      check_here(!log_.complete || from_.bytes_from(at_) == 0,
                 "expected the end of the file after the recording, found more bytes");
    } catch (const FileError& e) { log_.damage = e.what(); }
  }

  /// Reads a chunk. Returns false if the file breaks off.
  bool read_chunk() {
    ChunkHeader h{};
    if (from_.bytes_from(at_) < sizeof(h)) return false;
    from_.read_all(at_, std::as_writable_bytes(std::span(&h, 1)));
    constexpr ChunkHeader nothing{};  // a disk may have zeros after the last bytes written
    if (std::memcmp(&h, &nothing, sizeof h) == 0) return false;
    check_here(!h.zeros[0] && !h.zeros[1] && !h.zeros[2], "expected the start of a chunk, found other bytes");
    check_here(h.packed <= most_packed && h.unpacked <= most_unpacked, "expected a chunk of at most ", most_packed,
               " bytes, found one of ", h.packed, ", unpacked ", h.unpacked);
    if (from_.bytes_from(at_ + sizeof(h)) < h.packed) return false;
    const std::string bytes = unpacked(h);
    take(h.kind, bytes);
    at_ += sizeof(h) + h.packed;
    return true;
  }

  std::string unpacked(const ChunkHeader& h) {
    std::vector<Bytef> packed(h.packed);
    from_.read_all(at_ + sizeof(h), std::as_writable_bytes(std::span(packed)));
    check_here(crc32_z(0, packed.data(), packed.size()) == h.crc, "the checksum of a chunk is wrong");
    std::string bytes(h.unpacked, '\0');
    uLongf size = bytes.size();
    const int status = uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size, packed.data(), packed.size());
    check_here(status == Z_OK && size == bytes.size(), "a chunk cannot be unpacked");
    return bytes;
  }

  void take(char kind, const std::string& bytes) {
    switch (kind) {
      case 'N':
        return take_names(bytes);
      case 'P':
        log_.program = field<std::string>(json(bytes), "program");
        return;
      case 'D':
        return take_device(json(bytes));
      case 'R':
        return take_records(bytes);
      case 'L':
        return take_limit(json(bytes));
      case 'M':
        log_.marks.reserve(log_.marks.size() + bytes.size() / row_bytes<Mark>());
        for (const Mark& m : rows<Mark>(bytes, 0)) log_.marks.push_back(m);
        return;
      case 'K':
        for (const DeviceWork& w : rows<DeviceWork>(bytes, 0)) log_.device_work.push_back(w);
        return;
      case 'W':
        for (const WorkCount& w : rows<WorkCount>(bytes, 0)) {
          check_table(w);
          log_.work_counts.push_back(w);
        }
        return;
      case 'S':
        for (const CountedStep& s : rows<CountedStep>(bytes, 0)) log_.counted_steps.push_back(s);
        return;
      case 'C':
        return take_ceilings(json(bytes));
      case 'E':
        return take_end(json(bytes));
      case 'Z':
        log_.complete = true;
        return;
      default:
        check_here(false, "found a chunk of unknown kind ", static_cast<int>(kind));
    }
  }

  void take_names(const std::string& bytes) {
    check_here(!bytes.empty() && bytes.back() == '\0', "expected a zero byte after the last name");
    for (std::size_t at = 0; at < bytes.size(); at += log_.names.back().size() + 1) log_.names.emplace_back(&bytes[at]);
  }

  void take_device(const Json& device) {
    DeviceLog d;
    d.name = field<std::string>(device, "name");
    d.capacity = bound(device, "capacity");
    d.limit = bound(device, "limit");
    log_.devices.push_back(std::move(d));
  }

  DeviceLog& device(std::uint64_t number) {
    check_here(number < log_.devices.size(), "expected a device below ", log_.devices.size(), ", found ", number);
    return log_.devices[number];
  }

  void take_records(const std::string& bytes) {
    std::uint32_t number = 0;
    check_here(bytes.size() >= sizeof(number), "expected records with a device number, found ", bytes.size(), " bytes");
    std::memcpy(&number, bytes.data(), sizeof(number));
    std::vector<Record>& to = device(number).records;
    const auto from = rows<Record>(bytes, sizeof(number));
    to.insert(to.end(), from.begin(), from.end());
  }

  void take_limit(const Json& limit) {
    DeviceLog& d = device(field<std::uint64_t>(limit, "device"));
    d.limits.push_back({d.records.size(), bound(limit, "limit")});
  }

  void take_end(const Json& end) {
    DeviceLog& d = device(field<std::uint64_t>(end, "device"));
    const auto measured = [&](const char* key) { return end.contains(key) && !end[key].is_null(); };
    if (measured("outside")) d.outside = Outside{field<std::uint64_t>(end, "outside"), {}};
    if (d.outside && measured("others")) d.outside->others = field<std::uint64_t>(end, "others");
    if (const auto e = end.find("external"); e != end.end())
      d.external = {field<std::uint64_t>(*e, "bytes"), field<std::uint64_t>(*e, "peak")};
    const auto books = end.find("statistics");
    check_here(books != end.end(), "expected 'statistics', found none");
    try {
      d.end = statistics_from_json(books->dump());
    } catch (const ValueError& e) { check_here(false, e.what()); }
  }

  void take_ceilings(const Json& ceilings) {
    try {
      log_.ceilings.push_back(ceilings_from_json(ceilings));
    } catch (const ValueError& e) { check_here(false, e.what()); }
  }

  /// Tables are numbered from 0 in the order of the file, so that their rows are adjacent.
  void check_table(const WorkCount& w) const {
    const std::uint64_t next = log_.work_counts.empty() ? 0 : std::uint64_t{log_.work_counts.back().table} + 1;
    check_here(w.table == next || (next > 0 && w.table == next - 1), "expected work of table ", next,
               " or the one before, found table ", w.table);
  }

  template <class Row>
  std::vector<Row> rows(const std::string& bytes, std::size_t from) {
    const std::size_t left = bytes.size() - from;
    check_here(left % row_bytes<Row>() == 0, "expected whole rows of ", row_bytes<Row>(), " bytes, found ", left,
               " bytes");
    std::vector<Row> all(left / row_bytes<Row>());
    check_flags<Row>(bytes.data() + from, all.size());
    read_columns(bytes.data() + from, all);
    std::uint64_t time = 0;
    for (Row& row : all) {
      from_differences(row, time);
      check_row(row);
      each_name(row, [&](NameId name) {
        check_here(name < log_.names.size(), "expected a name below ", log_.names.size(), ", found ", name);
      });
    }
    return all;
  }

  /// Checks the second column of marks, which is a bool and must be 0 or 1.
  template <class Row>
  void check_flags(const char* columns, std::size_t n) const {
    if constexpr (std::is_same_v<Row, Mark>)
      for (std::size_t i = n; i < 2 * n; ++i)
        check_here(columns[i] == 0 || columns[i] == 1,
                   "expected a mark that begins or ends (1 or 0), found another value");
  }
  void check_row(const Record& r) const {
    const Event& e = r.event;
    check_here(static_cast<int>(e.kind) < event_kind_count, "found an event of unknown kind ",
               static_cast<int>(e.kind));
    check_here(static_cast<int>(e.role) < role_count && static_cast<int>(e.old_role) < role_count,
               "found an unknown role: ", static_cast<int>(e.role), " or ", static_cast<int>(e.old_role));
    check_here(static_cast<int>(e.phase) < phase_count, "found the unknown phase ", static_cast<int>(e.phase));
  }
  void check_row(const Mark& m) const {
    check_here(m.kind <= Mark::Kind::phase && static_cast<int>(m.phase) < phase_count,
               "found a mark of unknown kind or phase: ", static_cast<int>(m.kind), ", ", static_cast<int>(m.phase));
  }
  void check_row(const DeviceWork& w) const {
    check_device(w.device);
    check_device(w.step_device);
    check_here(static_cast<int>(w.kind) < device_work_kinds && static_cast<int>(w.phase) < phase_count,
               "found device work of unknown kind or phase: ", static_cast<int>(w.kind), ", ",
               static_cast<int>(w.phase));
    check_here(w.begin <= w.end, "expected device work that ends after its begin, found a begin of ", w.begin,
               " ns and an end of ", w.end, " ns");
  }

  void check_device(std::uint32_t device) const {
    check_here(device < log_.devices.size(), "expected a device below ", log_.devices.size(), ", found ", device);
  }
  void check_row(const WorkCount& w) const {
    check_device(w.device);
    check_here(static_cast<int>(w.phase) < phase_count && static_cast<int>(w.precision) < precision_count,
               "found work of unknown phase or precision: ", static_cast<int>(w.phase), ", ",
               static_cast<int>(w.precision));
  }
  void check_row(const CountedStep& s) const {
    check_device(s.step_device);
    const std::uint64_t tables = log_.work_counts.empty() ? 0 : std::uint64_t{log_.work_counts.back().table} + 1;
    check_here(s.table < tables || s.table == no_work, "expected a table of work below ", tables, ", found ", s.table);
  }

  Json json(const std::string& bytes) const {
    // take_end() formats a value, which takes stack for each level.
    const auto check_depth = [&](int depth, Json::parse_event_t event, const Json&) {
      const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
      check_here(!opens || depth < most_nested, "expected JSON of at most ", most_nested, " levels, found more");
      return true;
    };
    Json value = Json::parse(bytes, check_depth, false);
    check_here(value.is_object(), "expected a JSON object");
    return value;
  }
  template <class T>
  T field(const Json& object, const char* key) const {
    const auto at = object.find(key);
    const bool fits =
        at != object.end() && (std::is_same_v<T, std::string> ? at->is_string() : at->is_number_unsigned());
    check_here(fits, "expected '", key, "' of the right type");
    return at->template get<T>();
  }
  std::size_t bound(const Json& object, const char* key) const {
    const auto at = object.find(key);
    if (at != object.end() && at->is_null()) return std::numeric_limits<std::size_t>::max();
    return field<std::size_t>(object, key);
  }

  const Input& from_;
  std::uint64_t at_ = 0;
  Log log_;
};

}  // namespace

Log read_log(const Input& from) { return Reader(from).read(); }
Log read_log(const std::string& path) { return read_log(*open_input(path)); }

}  // namespace bytetape::memory
