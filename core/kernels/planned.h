#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace bytetape {

/// Scratch memory that an op allocates for one kernel.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// The result of planning a kernel.
struct Plan {
  std::size_t workspace = 0;      ///< bytes of scratch memory
  std::int64_t algorithm = 0;     ///< number defined by the device
  std::shared_ptr<void> program;  ///< compiled by a library; read by the device, on the planning thread
};

/// A kernel that needs scratch memory or a library's plan. plan() is host code. It reads geometry, dtypes, alignment
/// and the number of threads, but no data, and needs no device, so that memory can be predicted anywhere. launch()
/// takes arguments that differ from the planned ones in addresses only.
template <class A>
struct Planned {
  using Args = A;
  Plan (*plan)(const Args& args);
  void (*launch)(const Args& args, const Plan& plan, Workspace ws);
};

}  // namespace bytetape
