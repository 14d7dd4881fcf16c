#include "tests/support/fake_gpu.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "bytetape/core/cpu/table.h"
#include "bytetape/core/device/interop.h"
#include "bytetape/core/device/stream.h"

namespace bytetape::test {
namespace {

FakeGpu* fake = nullptr;

void note(const char* what) { fake->done.push_back(detail::concat(what, " on ", current_stream().number())); }

bool is_late() { return current_stream() == Stream::for_copies(); }

void copy(const void* from, void* to, std::size_t bytes) {
  if (is_late())
    fake->late.push_back({[=] { std::memcpy(to, from, bytes); }, 0});
  else
    std::memcpy(to, from, bytes);
}

/// All, or those before a mark that is among them.
void do_late(std::optional<std::uint64_t> mark = {}) {
  const auto is_it = [&](const FakeGpu::Late& l) { return !l.copy && l.mark == mark; };
  auto& late = fake->late;
  auto end = mark ? std::find_if(late.begin(), late.end(), is_it) : late.end();
  if (mark && end == late.end()) return;
  for (auto n = end - late.begin(); n-- > 0; late.pop_front())
    if (late.front().copy) late.front().copy();
}

void transfer(Place<const void*> from, Place<void*> to, std::size_t bytes) {
  copy(from.data, to.data, bytes);
  if (to.device == Device::cpu() && is_late()) do_late();
  if (from.device != Device::cpu()) return;
  fake->sent_from.push_back(from.data);
  note("copy");
}

void to_pinned(int, const void* from, void* to, std::size_t bytes) {
  copy(from, to, bytes);
  note("copy out");
}

std::uint64_t mark(int) {
  ++fake->marks;
  if (is_late()) fake->late.push_back({{}, fake->marks});
  return fake->marks;
}

void order(int, int from, int to) noexcept {
  fake->done.push_back(detail::concat(from, ">", to));
  if (from == Stream::for_copies().number()) do_late();
}

void wait_mark(int, std::uint64_t mark, int to) noexcept {
  fake->done.push_back(detail::concat("#", mark, ">", to));
  do_late(mark);
}

void wait_for(int, std::uint64_t mark) noexcept {
  fake->waited = std::max(fake->waited, mark);
  do_late(mark);
}

struct Recorded final : DeviceGraph {
  void replay() override {
    do_late();  // a replay waits for all streams
    ++fake->replays;
  }
};

std::unique_ptr<DeviceGraph> record(int, const std::function<void()>& work) {
  work();
  return std::make_unique<Recorded>();
}

void* stream_handle(int, int stream) {
  return reinterpret_cast<void*>(std::uintptr_t{100} + static_cast<std::uintptr_t>(stream));
}

void order_handles(int, void* first, void* second) noexcept {
  const auto number = [](void* handle) { return reinterpret_cast<std::uintptr_t>(handle); };
  fake->done.push_back(detail::concat("handle ", number(first), ">", number(second)));
}

constexpr Interop interop{.check_address = [](int, const void*) {},
                          .stream_handle = stream_handle,
                          .is_recorded = [](int, void* stream) noexcept { return stream && stream == fake->recorded; },
                          .order = order_handles,
                          .wait_for_all = [](int) noexcept { do_late(); },
                          .set_current = [](int) noexcept { return 0; }};

}  // namespace

FakeGpu::FakeGpu() : pinned(gpu, std::make_unique<memory::HostUpstream>(), wait_for) {
  fake = this;
  register_backend(DeviceType::cuda, {.kernels = &cpu::kernels(),
                                      .allocator = [](int) -> memory::Allocator& { return fake->device; },
                                      .meta_allocator = [](int) -> memory::Allocator& { return fake->twin; },
                                      .transfer = transfer,
                                      .to_pinned = to_pinned,
                                      .synchronize = [](int) { do_late(); },
                                      .record = record,
                                      .order = order,
                                      .wait_mark = wait_mark,
                                      .wait_host = wait_for,
                                      .interop = &interop,
                                      .pinned = [](int) -> memory::PinnedMemory& { return fake->pinned; },
                                      .meta_pinned = [](int) -> memory::PinnedMemory& { return fake->pinned_twin; },
                                      .mark = mark,
                                      .recorded_mark = mark});
}

FakeGpu::~FakeGpu() {
  do_late();
  register_backend(DeviceType::cuda, {});
}

void FakeGpu::start_anew() {
  device.empty_cache();
  synchronize(gpu);
  pinned.allocator().empty_cache();
  device.reset_log();
  pinned.allocator().reset_log();
}

}  // namespace bytetape::test
