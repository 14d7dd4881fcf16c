#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator/upstream.h"

/// The CUDA backend. What is here needs the toolkit: without nvcc, absent.cpp says so in its place.
namespace bytetape::cuda {

/// Every family's plans, and where there is a toolkit their launches.
const KernelTable& kernels();
/// Memory of device number `index`. Throws DeviceError, and says why, where there is no such device.
std::unique_ptr<memory::Upstream> device_memory(int index);
/// Pinned memory of the host for that device. Throws likewise.
std::unique_ptr<memory::Upstream> pinned_host_memory(int index);
/// As Backend says.
void transfer(Place<const void*> from, Place<void*> to, std::size_t bytes);
void to_pinned(int index, const void* from, void* to, std::size_t bytes);
void synchronize(int index);
std::unique_ptr<DeviceGraph> record(int index, const std::function<void()>& work);
std::uint64_t faults_thrown(int index);
void order(int index, int from, int to) noexcept;
void wait_mark(int index, std::uint64_t mark, int to) noexcept;
std::uint64_t mark(int index);
void wait_for(int index, std::uint64_t mark) noexcept;
/// Throws DeviceError, and says why, where there is no device number `index`.
void check_there(int index);

}  // namespace bytetape::cuda
