#pragma once
#include <functional>
#include <string>

namespace bytetape::dist {

/// Runs a program on each rank, and ends it on all ranks if it fails on one:
///
///     int main() {
///       return dist::run([] {
///         const dist::Group world = dist::init();
///         ...
///       });
///     }
///
/// Prints an exception after `name` and the rank's number, and reports it to the other ranks. There, the collective
/// that is waiting, or the next one, throws DistributedError with the exception's text. Returns 0, or 1 after an
/// exception.
int run(const std::function<void()>& program, const std::string& name = "") noexcept;

}  // namespace bytetape::dist
