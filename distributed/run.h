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
/// An exception is printed with the number of its rank, and reported to the other ranks. Their next collective, or the
/// one in which they wait, throws DistributedError with its text. `name` is printed before it. Returns 0, or 1 after an
/// exception.
int run(const std::function<void()>& program, const std::string& name = "") noexcept;

}  // namespace bytetape::dist
