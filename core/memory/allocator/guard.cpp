#include "bytetape/core/memory/guard.h"

#include <exception>
#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/format.h"

namespace bytetape::memory {

LeakError::LeakError(const Difference& left)
    : Error(detail::concat(format_bytes(static_cast<std::size_t>(left.bytes())),
                           " more are held at the end of a memory::Guard than at its start\n", left)) {}

Guard::Guard(const Allocator& allocator, Report report)
    : allocator_(allocator),
      report_(std::move(report)),
      before_(mark(allocator)),
      exceptions_(std::uncaught_exceptions()) {}

Guard::Guard(Device device, Report report) : Guard(allocator(device), std::move(report)) {}

Guard::~Guard() noexcept(false) {
  if (std::uncaught_exceptions() > exceptions_) return;
  const Difference left = diff(before_, mark(allocator_));
  if (left.bytes() <= 0) return;
  if (!report_) throw LeakError(left);
  report_(left);
}

}  // namespace bytetape::memory
