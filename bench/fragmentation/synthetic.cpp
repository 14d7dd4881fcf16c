#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "bench/fragmentation/traces.h"

namespace bytetape::bench {
namespace {

using memory::EventKind;

constexpr double KiB = 1024, MiB = 1024 * KiB;

/// A program that allocates and frees, as a recording. Each block has its own segment number.
class Program {
 public:
  std::uint32_t allocate(double bytes) {
    sizes_[++last_] = static_cast<std::size_t>(bytes);
    add(EventKind::alloc, last_, sizes_[last_]);
    return last_;
  }
  void free(std::uint32_t block) { add(EventKind::free, block, sizes_.at(block)); }
  memory::DeviceLog log() const {
    memory::DeviceLog d;
    d.name = "synthetic";
    d.records = records_;
    return d;
  }

 private:
  void add(EventKind kind, std::uint32_t block, std::size_t bytes) {
    memory::Record r;
    r.event = {.bytes = bytes, .requested = bytes, .segment = block, .kind = kind};
    records_.push_back(r);
  }

  std::vector<memory::Record> records_;
  std::map<std::uint32_t, std::size_t> sizes_;
  std::uint32_t last_ = 0;
};

/// The blocks that six transformer layers of width 512 with 8 heads, in f32, save in forward for 8 sequences of
/// `tokens`, and free in backward.
void transformer_step(Program& p, double tokens) {
  constexpr double batch = 8, width = 512, heads = 8, bytes = 4;
  const double activation = batch * tokens * width * bytes, scores = batch * heads * tokens * tokens * bytes;
  std::vector<std::uint32_t> saved;
  for (int layer = 0; layer < 6; ++layer) {
    saved.push_back(p.allocate(3 * activation));  // queries, keys, values
    const std::uint32_t raw = p.allocate(scores);
    saved.push_back(p.allocate(scores));  // their softmax
    p.free(raw);
    for (const double times : {1, 1, 4, 4, 1}) saved.push_back(p.allocate(times * activation));
  }
  for (; !saved.empty(); saved.pop_back()) {
    const std::uint32_t gradient = p.allocate(activation);
    p.free(saved.back());
    p.free(gradient);
  }
}

Trace sequences() {
  Program p;
  std::minstd_rand random(2);
  for (int i = 0; i < 40; ++i) transformer_step(p, 32 + static_cast<double>(random() % 480));
  return {"transformer, any length", p.log()};
}

/// Random blocks with log-uniform sizes. 200 are held at a time, and a random one of them is freed.
Trace random_blocks(const std::string& name, double smallest, double largest, unsigned seed) {
  Program p;
  std::minstd_rand random(seed);
  std::vector<std::uint32_t> held;
  for (int i = 0; i < 20000; ++i) {
    if (held.size() == 200) {
      const std::size_t at = random() % held.size();
      p.free(held[at]);
      held[at] = held.back();
      held.pop_back();
    }
    const double part = static_cast<double>(random()) / static_cast<double>(std::minstd_rand::max());
    held.push_back(p.allocate(smallest * std::pow(largest / smallest, part)));
  }
  return {name, p.log()};
}

}  // namespace

std::vector<Trace> synthetic_traces() {
  return {sequences(), random_blocks("random, 512 B to 1 MiB", 512, MiB, 3),
          random_blocks("random, 1 to 64 MiB", MiB, 64 * MiB, 4),
          random_blocks("random, 4 KiB to 64 MiB", 4 * KiB, 64 * MiB, 5)};
}

}  // namespace bytetape::bench
