#include "bytetape/data/sampler.h"

#include <numeric>
#include <utility>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/philox.h"
#include "bytetape/data/seeds.h"

namespace bytetape::data {
namespace {

using Indices = std::vector<std::int64_t>;
using memory::Op;

constexpr std::int64_t most = std::int64_t{1} << 40;  // random numbers that an epoch has (seeds.h)

void check_examples(std::int64_t n) { check<ValueError>(n >= 0 && n <= most, "expected 0 to 2^40 examples, got ", n); }

Indices counted(std::int64_t n) {
  Indices all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

/// Returns the epoch's random number `i`, below `bound`.
std::uint64_t draw(const PhiloxState& state, std::uint64_t i, std::uint64_t bound) {
  const auto word = philox(state.seed, state.offset + i);
  return bits64(word[1], word[0]) % bound;
}

/// Returns a random order, by the Fisher-Yates shuffle.
void shuffle(Indices& order, const PhiloxState& state) {
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[draw(state, left, left)]);
}

}  // namespace

SequentialSampler::SequentialSampler(std::int64_t n) : n_(n) {
  const Op<"SequentialSampler"> op;
  check_examples(n);
}

Indices SequentialSampler::order(std::uint64_t) const { return counted(n_); }

RandomSampler::RandomSampler(std::int64_t n, const RandomSamplerOptions& options) : n_(n), options_(options) {
  const Op<"RandomSampler"> op;
  check_examples(n);
  check<ValueError>(size() >= 0 && size() <= most, "expected num_samples of 0 to 2^40, got ", size());
  check<ValueError>(size() <= n || (options.replacement && n > 0), "cannot draw ", size(), " of ", n, " examples ",
                    options.replacement ? "with" : "without", " replacement");
}

Indices RandomSampler::order(std::uint64_t epoch) const {
  const PhiloxState state = shuffle_state(options_.seed, epoch);
  const auto wanted = static_cast<std::size_t>(size());
  if (!options_.replacement) {
    Indices order = counted(n_);
    shuffle(order, state);
    order.resize(wanted);
    return order;
  }
  Indices order(wanted);
  for (std::size_t i = 0; i < wanted; ++i)
    order[i] = static_cast<std::int64_t>(draw(state, i, static_cast<std::uint64_t>(n_)));
  return order;
}

DistributedSampler::DistributedSampler(std::int64_t n, const DistributedSamplerOptions& options)
    : n_(n), options_(options) {
  const Op<"DistributedSampler"> op;
  check_examples(n);
  check<ValueError>(options.rank >= 0 && options.rank < options.world_size,
                    "expected a rank below the world size, got ", "rank ", options.rank, " of ", options.world_size);
}

std::int64_t DistributedSampler::size() const {
  const std::int64_t rounded_up = options_.drop_last ? 0 : options_.world_size - 1;
  return (n_ + rounded_up) / options_.world_size;
}

Indices DistributedSampler::order(std::uint64_t epoch) const {
  Indices all = counted(n_);
  if (options_.shuffle) shuffle(all, shuffle_state(options_.seed, epoch));
  Indices share(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < share.size(); ++i)
    share[i] =
        all[(i * static_cast<std::size_t>(options_.world_size) + static_cast<std::size_t>(options_.rank)) % all.size()];
  return share;
}

SubsetRandomSampler::SubsetRandomSampler(Indices indices, std::uint64_t seed)
    : indices_(std::move(indices)), seed_(seed) {}

Indices SubsetRandomSampler::order(std::uint64_t epoch) const {
  Indices order = indices_;
  shuffle(order, shuffle_state(seed_, epoch));
  return order;
}

}  // namespace bytetape::data
