#include "bytetape/cuda/matmul/ranks.h"

#include <atomic>
#include <map>
#include <mutex>
#include <sstream>

#include "bytetape/core/device/capture.h"
#include "bytetape/cuda/cuda.h"

namespace bytetape::cuda {
namespace {

std::atomic<bool> tuning{false};

struct Table {
  std::mutex mutex;
  std::map<RankKey, int> ranks, measured;  // all, and those of this process

  Table() {
    const std::vector<RankKey> committed{
#include "bytetape/cuda/matmul/ranks.inc"
    };
    for (RankKey row : committed) {
      const auto rank = static_cast<int>(row.back());
      row.pop_back();
      ranks[row] = rank;
    }
  }
};

Table& table() {
  static Table all;
  return all;
}

}  // namespace

int rank_of(const RankKey& key) {
  const std::lock_guard lock(table().mutex);
  const auto row = table().ranks.find(key);
  return row == table().ranks.end() ? 0 : row->second;
}

void set_rank(const RankKey& key, int rank) {
  const std::lock_guard lock(table().mutex);
  table().ranks[key] = table().measured[key] = rank;
}

void tune(bool on) { tuning = on; }
bool is_tuning() { return tuning.load(std::memory_order_relaxed) && !bytetape::detail::core_ambient.capture; }

std::string tuned() {
  const std::lock_guard lock(table().mutex);
  std::ostringstream out;
  for (const auto& [key, rank] : table().measured) {
    out << '{';
    for (const std::int64_t v : key) out << v << ", ";
    out << rank << "},\n";
  }
  return out.str();
}

}  // namespace bytetape::cuda
