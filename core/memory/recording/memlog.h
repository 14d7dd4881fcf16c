#pragma once
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bytetape/core/files/input.h"
#include "bytetape/core/memory/log.h"

/// The file format of recordings. A file is a line of text, then chunks. A chunk is a header of 16 bytes, then zlib
/// data. The kind of a chunk determines its unpacked contents:
///
///     N  names, each ended by a 0 byte; numbered from 1 in file order
///     P  JSON: {"program"}
///     D  JSON: {"name", "capacity", "limit"} of a device; numbered from 0
///     R  a device's number (u32), then its records, column by column
///     L  JSON: {"device", "limit"}: a limit for the device's records from here on
///     M  marks, column by column
///     K  device work, column by column
///     W  work counts, column by column
///     S  counted steps, column by column
///     C  JSON: {"device", "processor", "bytes_per_s", "flop_per_s"}: a device's ceilings
///     E  JSON: {"device", "outside", "others", "external", "statistics"} at the device's end
///     Z  nothing: the recording ended
///
/// Numbers are little-endian. Columns are in the order of memlog_columns.h. Times are differences from the previous
/// row; the end of device work is stored as its duration. Chunks refer only to names and devices from earlier chunks.
/// docs/memory_formats.md describes the format with an example.
namespace bytetape::memory {

inline constexpr char memlog_first_line[] = "bytetape-memlog 1\n";

/// The header of a chunk.
struct ChunkHeader {
  char kind;
  char zeros[3];
  std::uint32_t packed;    ///< packed bytes, which follow
  std::uint32_t unpacked;  ///< unpacked bytes
  std::uint32_t crc;       ///< CRC-32 of the packed bytes
};
static_assert(sizeof(ChunkHeader) == 16);

/// Returns a chunk as stored in a file: header and packed bytes.
std::string packed_chunk(char kind, const std::string& bytes);

/// Writes a recording chunk by chunk, directly to the file.
/// Member functions throw FileError if writing fails.
class LogWriter {
 public:
  LogWriter(const std::string& path, const std::string& program);

  /// Adds a device. Devices are numbered from 0 in the order of these calls. SIZE_MAX means no bound.
  void device(const std::string& name, std::size_t capacity, std::size_t limit);
  /// Sets a device's limit for the records that follow.
  void limit(std::uint32_t device, std::size_t bytes);
  /// NameIds are those of the process.
  void records(std::uint32_t device, std::vector<Record> records);
  void marks(std::vector<Mark> marks);
  void device_work(std::vector<DeviceWork> work);
  /// Rows of one table (WorkCount::table), which no other call may have.
  void work_counts(std::vector<WorkCount> rows);
  /// Steps with tables from earlier calls of work_counts(), in the order of their ends.
  void counted_steps(std::vector<CountedStep> steps);
  void ceilings(const Ceilings& c);
  void device_end(std::uint32_t device, const Statistics& books, std::optional<Outside> outside, External external);
  void end();
  /// Flushes the process's buffers.
  void flush();

 private:
  template <class Row>
  void rows(char kind, std::vector<Row> rows);
  NameId number(NameId id);
  void write_names();
  void chunk(char kind, const std::string& bytes);
  void check_good() const;

  const std::string path_;
  std::ofstream out_;
  std::unordered_map<NameId, NameId> numbers_{{0, 0}};  // numbers in the file, by NameId of the process
  std::string new_names_;
};

/// Reads a recording from any input, like read_log(path).
Log read_log(const Input& from);

}  // namespace bytetape::memory
