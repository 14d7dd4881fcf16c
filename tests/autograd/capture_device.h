#pragma once
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "bytetape/autograd/capture.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/stand_in.h"

namespace bytetape::test {

/// Captured steps on a device of the host's memory that computes while it records and only counts replays.
class Capture : public testing::Test {
 protected:
  Capture() {
    recordings = replays = transfers = 0;
    waits.clear();
  }

  static inline int recordings, replays, transfers;
  static inline std::set<std::pair<int, int>> waits;  // of the second stream for the first
  static inline const Device gpu = Device::cuda();
  static Tensor random_there(const Shape& shape) { return to(random_tensor(shape, DType::f32), gpu); }

 private:
  struct Counted final : DeviceGraph {
    void replay() override { ++replays; }
  };
  static std::unique_ptr<DeviceGraph> record(int, const std::function<void()>& work) {
    ++recordings;
    work();
    return std::make_unique<Counted>();
  }
  static void transfer(Place<const void*> from, Place<void*> to, std::size_t bytes) {
    ++transfers;
    copy_bytes(from, to, bytes);
  }

  static void order(int, int from, int to) noexcept { waits.emplace(from, to); }

  const StandIn stand_in_{{.transfer = transfer, .synchronize = [](int) {}, .record = record, .order = order}};
};

}  // namespace bytetape::test
