#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/recording/memlog.h"
#include "bytetape/core/memory/recording/memlog_columns.h"
#include "bytetape/core/memory/report/statistics_json.h"
#include "bytetape/core/memory/text/ceilings_json.h"
#include "bytetape/core/memory/text/json.h"
#include "bytetape/core/write_file.h"

namespace bytetape::memory {
namespace {

template <class Row>
void make_times_differences(std::vector<Row>& rows) {
  std::uint64_t before = 0;
  for (Row& row : rows) to_differences(row, before);
}

std::string checked(const std::string& path) {
  check_writable(path, "the recording of memory");
  return path;
}

}  // namespace

// Packs at level 1, because it must keep up with training.
std::string packed_chunk(char kind, const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string chunk(sizeof(ChunkHeader) + size, '\0');
  auto* const body = reinterpret_cast<Bytef*>(chunk.data() + sizeof(ChunkHeader));
  if (compress2(body, &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), 1) != Z_OK)
    throw std::bad_alloc();
  const ChunkHeader header{kind,
                           {},
                           static_cast<std::uint32_t>(size),
                           static_cast<std::uint32_t>(bytes.size()),
                           static_cast<std::uint32_t>(crc32_z(0, body, size))};
  std::memcpy(chunk.data(), &header, sizeof(header));
  chunk.resize(sizeof(header) + size);
  return chunk;
}

LogWriter::LogWriter(const std::string& path, const std::string& program)
    : path_(checked(path)), out_(path, std::ios::binary) {
  check_good();
  out_ << memlog_first_line;
  chunk('P', json_text({{"program", program}}));
  flush();
}

void LogWriter::device(const std::string& name, std::size_t capacity, std::size_t limit) {
  chunk('D', json_text({{"name", name}, {"capacity", limit_json(capacity)}, {"limit", limit_json(limit)}}));
}

void LogWriter::limit(std::uint32_t device, std::size_t bytes) {
  chunk('L', json_text({{"device", device}, {"limit", limit_json(bytes)}}));
}

void LogWriter::records(std::uint32_t device, std::vector<Record> records) {
  if (records.empty()) return;
  for (Record& r : records) each_name(r, [&](NameId& name) { name = number(name); });
  make_times_differences(records);
  write_names();
  std::string bytes(reinterpret_cast<const char*>(&device), sizeof(device));
  append_columns(records, bytes);
  chunk('R', bytes);
}

void LogWriter::marks(std::vector<Mark> marks) { rows('M', std::move(marks)); }

void LogWriter::device_work(std::vector<DeviceWork> work) {
  std::sort(work.begin(), work.end(), [](const DeviceWork& a, const DeviceWork& b) { return a.begin < b.begin; });
  rows('K', std::move(work));
}

void LogWriter::work_counts(std::vector<WorkCount> rows) { this->rows('W', std::move(rows)); }
void LogWriter::counted_steps(std::vector<CountedStep> steps) { rows('S', std::move(steps)); }
void LogWriter::ceilings(const Ceilings& c) { chunk('C', json_text(ceilings_json(c))); }

template <class Row>
void LogWriter::rows(char kind, std::vector<Row> rows) {
  constexpr std::size_t most = std::size_t{1} << 16;
  for (; rows.size() > most; rows.erase(rows.begin(), rows.begin() + most))
    this->rows(kind, std::vector<Row>(rows.begin(), rows.begin() + most));
  if (rows.empty()) return;
  for (Row& row : rows) each_name(row, [&](NameId& name) { name = number(name); });
  make_times_differences(rows);
  write_names();
  std::string bytes;
  append_columns(rows, bytes);
  chunk(kind, bytes);
}

void LogWriter::device_end(std::uint32_t device, const Statistics& books, std::optional<Outside> outside,
                           External external) {
  chunk('E', json_text({{"device", device},
                        {"outside", outside ? Json(outside->bytes) : Json()},
                        {"others", outside && outside->others ? Json(*outside->others) : Json()},
                        {"external", {{"bytes", external.bytes}, {"peak", external.peak}}},
                        {"statistics", Json::parse(to_json(books))}}));
}

void LogWriter::end() {
  chunk('Z', {});
  flush();
  out_.close();
  check_good();
}

void LogWriter::flush() {
  out_.flush();
  check_good();
}

NameId LogWriter::number(NameId id) {
  const auto [at, is_new] = numbers_.try_emplace(id, static_cast<NameId>(numbers_.size()));
  if (is_new) {
    std::string name = name_of(id);
    std::erase(name, '\0');
    new_names_.append(name).push_back('\0');
  }
  return at->second;
}

void LogWriter::write_names() {
  if (!new_names_.empty()) chunk('N', std::exchange(new_names_, {}));
}

void LogWriter::chunk(char kind, const std::string& bytes) {
  const std::string packed = packed_chunk(kind, bytes);
  out_.write(packed.data(), static_cast<std::streamsize>(packed.size()));
  check_good();
}

void LogWriter::check_good() const {
  check<FileError>(out_.good(), "cannot write the recording of memory to '", path_, "': ", std::strerror(errno));
}

}  // namespace bytetape::memory
