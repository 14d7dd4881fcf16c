#include "bytetape/cuda/products.h"

#include <mutex>
#include <sstream>
#include <vector>

#include "bytetape/cuda/cuda.h"

namespace bytetape::cuda {
namespace {

struct Measured {
  ProductLibrary library;
  ProductKind kind;
  int rank;
  bool is_new = false;
};

struct Table {
  std::mutex mutex;
  std::vector<Measured> rows;

  Table() {
    constexpr std::int64_t committed[][11] = {
#include "bytetape/cuda/products.inc"
        {},  // a table may be empty, an array may not
    };
    for (const auto& [capability, version, dtype, tf32, epilogue, transposed, m, n, k, batch, rank] : committed)
      if (capability)
        rows.push_back({{static_cast<int>(capability), version},
                        {static_cast<int>(dtype), static_cast<int>(tf32), static_cast<int>(epilogue),
                         static_cast<int>(transposed), m, n, k, batch},
                        static_cast<int>(rank)});
  }
  Measured* find(const ProductLibrary& library, const ProductKind& kind) {
    for (Measured& row : rows)
      if (row.kind == kind && row.library == library) return &row;
    return nullptr;
  }
};

Table& table() {
  static Table all;
  return all;
}

}  // namespace

int rank_of(const ProductLibrary& library, const ProductKind& kind) {
  const std::lock_guard lock(table().mutex);
  const Measured* row = table().find(library, kind);
  return row ? row->rank : 0;
}

void set_rank(const ProductLibrary& library, const ProductKind& kind, int rank) {
  const std::lock_guard lock(table().mutex);
  if (Measured* row = table().find(library, kind))
    *row = {library, kind, rank, true};
  else
    table().rows.push_back({library, kind, rank, true});
}

std::string tuned() {
  const std::lock_guard lock(table().mutex);
  std::ostringstream out;
  for (const auto& [library, kind, rank, is_new] : table().rows)
    if (is_new)
      out << '{' << library.capability << ", " << library.version << ", " << kind.dtype << ", " << kind.tf32 << ", "
          << kind.epilogue << ", " << kind.transposed << ", " << kind.m << ", " << kind.n << ", " << kind.k << ", "
          << kind.batch << ", " << rank << "},\n";
  return out.str();
}

}  // namespace bytetape::cuda
