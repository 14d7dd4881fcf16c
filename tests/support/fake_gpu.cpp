#include "tests/support/fake_gpu.h"

#include <algorithm>
#include <cstring>

#include "bytetape/core/cpu/table.h"
#include "bytetape/core/stream.h"

namespace bytetape::test {
namespace {

FakeGpu* fake = nullptr;

void note(const char* what) { fake->done.push_back(detail::concat(what, " on ", current_stream().number())); }

void transfer(Place<const void*> from, Place<void*> to, std::size_t bytes) {
  std::memcpy(to.data, from.data, bytes);
  if (from.device != Device::cpu()) return;
  fake->sent_from.push_back(from.data);
  note("copy");
}

void to_pinned(int, const void* from, void* to, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  note("copy out");
}

}  // namespace

FakeGpu::FakeGpu()
    : pinned(gpu, std::make_unique<memory::HostUpstream>(),
             [](int, std::uint64_t mark) noexcept { fake->waited = std::max(fake->waited, mark); }) {
  fake = this;
  register_backend(
      DeviceType::cuda,
      {.kernels = &cpu::kernels(),
       .allocator = [](int) -> memory::Allocator& { return fake->device; },
       .meta_allocator = [](int) -> memory::Allocator& { return fake->twin; },
       .transfer = transfer,
       .to_pinned = to_pinned,
       .synchronize = [](int) {},
       .order = [](int, int from, int to) noexcept { fake->done.push_back(detail::concat(from, ">", to)); },
       .pinned = [](int) -> memory::PinnedMemory& { return fake->pinned; },
       .meta_pinned = [](int) -> memory::PinnedMemory& { return fake->pinned_twin; },
       .mark = [](int) { return ++fake->marks; }});
}

FakeGpu::~FakeGpu() { register_backend(DeviceType::cuda, {}); }

}  // namespace bytetape::test
