#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator/upstream.h"

/// The CUDA backend. These functions need the toolkit. In builds without nvcc, absent.cpp replaces them and says so.
namespace bytetape::cuda {

/// The plans of every kernel family, and their launches if the build has the toolkit.
const KernelTable& kernels();
/// Returns the memory of device number `index`.
/// Throws DeviceError, with the reason, if there is no such device.
std::unique_ptr<memory::Upstream> device_memory(int index);
/// Returns pinned host memory for device number `index`.
/// Throws DeviceError, with the reason, if there is no such device.
std::unique_ptr<memory::Upstream> pinned_host_memory(int index);
/// The functions below are described in Backend.
void transfer(Place<const void*> from, Place<void*> to, std::size_t bytes);
void to_pinned(int index, const void* from, void* to, std::size_t bytes);
void synchronize(int index);
std::unique_ptr<DeviceGraph> record(int index, const std::function<void()>& work);
std::uint64_t faults_thrown(int index);
void order(int index, int from, int to) noexcept;
void wait_mark(int index, std::uint64_t mark, int to) noexcept;
std::uint64_t mark(int index);
std::uint64_t recorded_mark(int index);
void wait_for(int index, std::uint64_t mark) noexcept;
/// Throws DeviceError, with the reason, if there is no device number `index`.
void check_there(int index);

}  // namespace bytetape::cuda
