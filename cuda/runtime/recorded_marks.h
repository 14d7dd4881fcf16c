#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace bytetape::cuda {

class Streams;

/// Marks in the work of a recording. They become edges of its graph. Used by the recording thread only.
class RecordedMarks {
 public:
  RecordedMarks();
  ~RecordedMarks();
  RecordedMarks(const RecordedMarks&) = delete;
  RecordedMarks& operator=(const RecordedMarks&) = delete;

  /// Whether a mark is one of any recording. Such marks are higher than all marks of Marks.
  static constexpr bool is_one(std::uint64_t mark) { return mark >> 63; }
  /// As in Backend, for stream `number` of the recording's streams.
  std::uint64_t mark(Streams& streams, int number);
  /// Whether a mark is one of this recording.
  bool has(std::uint64_t mark) const { return mark >= first_ && mark - first_ < marks_.size(); }
  /// Makes stream `to` wait for a mark of this recording.
  void wait_mark(std::uint64_t mark, Streams& streams, int to) noexcept;

 private:
  struct Mark {
    cudaEvent_t event;
    int stream;
  };
  const std::uint64_t first_;
  std::vector<Mark> marks_;
};

}  // namespace bytetape::cuda
