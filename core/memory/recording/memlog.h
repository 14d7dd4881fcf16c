#pragma once
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bytetape/core/files/input.h"
#include "bytetape/core/memory/log.h"

/// \file
/// The file of a recording. A line of text, then chunks: a header of 16 bytes, then bytes that zlib packed. A chunk's
/// kind says what they are, unpacked:
///
///     N  names, each ended by a 0 byte: they are numbered from 1 in the order of the file
///     P  JSON: {"program"}
///     D  JSON: {"name", "capacity", "limit"} of a device: they are numbered from 0
///     R  a device's number (u32), then its records, column after column
///     L  JSON: {"device", "limit"}: a limit that holds for the device's records from here on
///     M  marks, column after column
///     E  JSON: {"device", "outside", "others", "statistics"} as its part ended
///     Z  nothing: the recording ended
///
/// Numbers are little-endian; columns stand in the order of memlog_columns.h, times as differences from the one before.
/// What a chunk names stands before it. docs/memory_formats.md has the same, with an example.
namespace bytetape::memory {

inline constexpr char memlog_first_line[] = "bytetape-memlog 1\n";

/// What stands before the bytes of a chunk.
struct ChunkHeader {
  char kind;
  char zeros[3];
  std::uint32_t packed;    ///< bytes that follow
  std::uint32_t unpacked;  ///< bytes that they become
  std::uint32_t crc;       ///< CRC-32 of those that follow
};
static_assert(sizeof(ChunkHeader) == 16);

/// A chunk as it stands in a file.
std::string packed_chunk(char kind, const std::string& bytes);

/// Writes chunk by chunk, straight to the file. Throws FileError.
class LogWriter {
 public:
  LogWriter(const std::string& path, const std::string& program);

  /// Devices are numbered from 0 in the order of these calls. Sizes of SIZE_MAX: no bound.
  void device(const std::string& name, std::size_t capacity, std::size_t limit);
  /// A limit that was set behind the records that were written so far.
  void limit(std::uint32_t device, std::size_t bytes);
  /// NameIds are the process's.
  void records(std::uint32_t device, std::vector<Record> records);
  void marks(std::vector<Mark> marks);
  void device_end(std::uint32_t device, const Statistics& books, std::optional<Outside> outside);
  void end();
  /// Leaves nothing in buffers of the process.
  void flush();

 private:
  NameId number(NameId id);
  void write_names();
  void chunk(char kind, const std::string& bytes);
  void check_good() const;

  const std::string path_;
  std::ofstream out_;
  std::unordered_map<NameId, NameId> numbers_{{0, 0}};  // of the file, by the process's
  std::string new_names_;
};

/// What read_log() does, of any input.
Log read_log(const Input& from);

}  // namespace bytetape::memory
