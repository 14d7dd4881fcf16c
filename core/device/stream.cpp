#include "bytetape/core/device/stream.h"

#include "bytetape/core/device/backend.h"
#include "bytetape/core/error.h"

namespace bytetape {
namespace {

using memory::ambient;

memory::ScopeIds on_stream(int number) {
  return {ambient.scope.module, ambient.scope.op, ambient.scope.phase, static_cast<memory::StreamId>(number)};
}

memory::StreamId checked(int number) {
  check<ValueError>(number >= 0 && number < Stream::count, "a stream's number is 0 to ", Stream::count - 1, ", not ",
                    number);
  return static_cast<memory::StreamId>(number);
}

}  // namespace

Stream::Stream(int number) : Stream(checked(number)) {}

StreamScope::StreamScope(Stream stream) : ScopeGuard(on_stream(stream.number())) {}

void detail::order(Device device, int from, int to) noexcept {
  const auto order = backend(device).order;
  if (order && !device.is_meta) order(device.index, from, to);
}

void detail::wait_mark(Device device, std::uint64_t mark, int to) noexcept {
  const auto wait_mark = backend(device).wait_mark;
  if (wait_mark && mark && !device.is_meta) wait_mark(device.index, mark, to);
}

}  // namespace bytetape
