// The caching policy against the same rules in their plainest form.
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "bytetape/core/memory/allocator/policy.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t unbounded = std::numeric_limits<std::size_t>::max();

/// Every piece in a list; every search a scan.
class Model {
 public:
  struct Piece {
    std::uint32_t segment;
    std::size_t offset, size;
    bool small, free;
  };
  static constexpr std::size_t none = unbounded;

  /// Which piece it is, or none.
  std::size_t allocate(std::size_t size, std::size_t limit) {
    const bool small = size <= MiB;
    std::size_t at = best_fit(size, small);
    if (at == none) at = add_segment(size, limit);
    if (at == none && small && !has_unused()) at = best_fit(size, false);
    if (at == none) return none;
    Piece& p = pieces[at];
    p.free = false;
    const std::size_t rest = p.size - size;
    if (small ? rest > 0 : rest > MiB) {
      p.size = size;
      pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                    Piece{p.segment, p.offset + size, rest, p.small, true});
    }
    return at;
  }
  void deallocate(std::uint32_t segment, std::size_t offset) {
    for (Piece& p : pieces)
      if (p.segment == segment && p.offset == offset) p.free = true;
    for (std::size_t i = 0; i + 1 < pieces.size();)
      if (pieces[i].free && pieces[i + 1].free && pieces[i].segment == pieces[i + 1].segment) {
        pieces[i].size += pieces[i + 1].size;
        pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      } else {
        ++i;
      }
  }
  void release(bool small_too) {
    for (std::size_t i = 0; i < pieces.size();)
      if (is_unused(i) && (small_too || !pieces[i].small))
        pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i));
      else
        ++i;
    if (pieces.empty()) next = 0;
  }
  std::size_t reserved() const {
    std::size_t sum = 0;
    for (const Piece& p : pieces) sum += p.size;
    return sum;
  }
  std::vector<Piece> pieces;

 private:
  std::size_t best_fit(std::size_t size, bool small) const {
    std::size_t best = none;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Piece& p = pieces[i];
      if (!p.free || p.small != small || p.size < size) continue;
      const auto key = [](const Piece& q) { return std::tuple(q.size, q.segment, q.offset); };
      if (best == none || key(p) < key(pieces[best])) best = i;
    }
    return best;
  }
  std::size_t add_segment(std::size_t size, std::size_t limit) {
    const bool small = size <= MiB;
    const std::size_t rounded = (size + 2 * MiB - 1) / (2 * MiB) * (2 * MiB);
    const std::size_t own = small ? 2 * MiB : size < 10 * MiB ? 20 * MiB : rounded;
    const std::size_t unused = small ? 0 : unused_large();
    std::size_t bytes = std::max(own, unused);
    if (2 * unused >= bytes && unused <= 16 * own && reserved() - unused + bytes <= limit)
      release(false);
    else
      bytes = std::min(own, (limit - reserved()) / rounding * rounding);
    if (bytes < size) return none;
    pieces.push_back({next++, 0, bytes, small, true});
    return pieces.size() - 1;
  }
  bool has_unused() const {
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (is_unused(i)) return true;
    return false;
  }
  /// Whether the piece is free, and all of its segment.
  bool is_unused(std::size_t i) const {
    return pieces[i].free && (i == 0 || pieces[i - 1].segment != pieces[i].segment) &&
           (i + 1 == pieces.size() || pieces[i + 1].segment != pieces[i].segment);
  }
  std::size_t unused_large() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (is_unused(i) && !pieces[i].small) sum += pieces[i].size;
    return sum;
  }
  std::uint32_t next = 0;
};

TEST(CachingPolicy, PlacesEveryBlockWhereThePlainModelDoes) {
  SimulatedUpstream upstream;
  for (unsigned seed : {1u, 2u, 3u, 4u, 5u, 6u}) {
    const std::size_t limit = seed % 2 ? unbounded : seed * 20 * MiB;
    std::size_t reserved = 0, refused = 0;
    CachingPolicy real(upstream,
                       [&](const Block& s, bool acquired) { acquired ? reserved += s.size : reserved -= s.size; });
    Model model;
    std::mt19937 random(seed);
    std::vector<Block*> live;
    for (int i = 0; i < 4000; ++i) {
      const auto dice = random() % 100;
      if (dice == 0) {
        real.release_cached();
        model.release(true);
      } else if (i % 1000 == 999) {
        for (; !live.empty(); live.pop_back()) {
          model.deallocate(live.back()->segment, live.back()->offset);
          real.deallocate(live.back());
        }
      } else if (!live.empty() && (dice < 48 || live.size() > 150)) {
        const std::size_t at = random() % live.size();
        model.deallocate(live[at]->segment, live[at]->offset);
        real.deallocate(live[at]);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        const std::size_t units = dice < 70   ? 1 + random() % 20
                                  : dice < 90 ? 1 + random() % 3000
                                              : 1 + random() % 60000;
        Block* b = real.allocate(units * rounding, limit - reserved);
        const std::size_t at = model.allocate(units * rounding, limit);
        ASSERT_EQ(b == nullptr, at == Model::none) << "seed " << seed << ", step " << i;
        if (!b) {
          ++refused;
          continue;
        }
        const Model::Piece& p = model.pieces[at];
        ASSERT_EQ(std::tuple(b->segment, b->offset, b->size), std::tuple(p.segment, p.offset, p.size))
            << "seed " << seed << ", step " << i;
        live.push_back(b);
      }
      ASSERT_EQ(reserved, model.reserved());
    }
    EXPECT_EQ(refused > 0, limit != unbounded);
    for (Block* b : live) real.deallocate(b);
    real.release_cached();
    EXPECT_EQ(reserved, 0u);
  }
}

}  // namespace
}  // namespace bytetape::memory
