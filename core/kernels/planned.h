#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace bytetape {

/// Scratch memory that an op took from the allocator for one kernel.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// How a kernel will run.
struct Plan {
  std::size_t workspace = 0;      ///< bytes of scratch
  std::int64_t algorithm = 0;     ///< by the device's own numbers
  std::shared_ptr<void> program;  ///< what a library compiled; the device's own to read, on the thread that planned
};

/// A kernel that needs scratch or a library's plan, in two halves. plan() is host code that reads geometry, dtypes,
/// alignment and the number of threads, never data, and does not need the device: so memory is predicted where the
/// device is not. launch() takes arguments that differ from the planned ones in addresses alone.
template <class A>
struct Planned {
  using Args = A;
  Plan (*plan)(const Args& args);
  void (*launch)(const Args& args, const Plan& plan, Workspace ws);
};

}  // namespace bytetape
