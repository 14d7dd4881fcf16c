#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "bytetape/core/device/device.h"
#include "bytetape/cuda/precision.h"

/// What only CUDA has. All else is said with Device::cuda().
namespace bytetape::cuda {

/// How many devices this process can use; 0 without a driver, or in a build without CUDA (torch.cuda.device_count).
int device_count();

/// What a device is (torch.cuda.get_device_properties).
struct DeviceProperties {
  std::string name;              ///< "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;      ///< compute capability
  std::size_t total_memory = 0;  ///< bytes
  int multi_processor_count = 0;
};
/// Throws DeviceError, and says why, where there is no such device. One that is too old for bytetape is described too.
DeviceProperties get_device_properties(int index = 0);
/// The same's name (torch.cuda.get_device_name).
std::string get_device_name(int index = 0);

/// Bytes of a device, as the driver counts them: those that nobody holds, and all (torch.cuda.mem_get_info).
struct MemoryInfo {
  std::size_t free = 0, total = 0;
};
/// Throws DeviceError, and says why, where there is no such device that bytetape can use.
MemoryInfo mem_get_info(int index = 0);

/// The most bytes that cuBLASLt or cuDNN may use as scratch for a product or a convolution on a device, and on its meta
/// twin, which predicts them; rounded down to 256. std::nullopt, as at start: what each usually gets. Of what was
/// measured, or proposed first, the first that needs no more is taken; a convolution for which cuDNN then has nothing
/// runs on our own kernels, whose scratch does not count. Call it between steps. Throws DeviceError on another device.
void set_workspace_cap(Device device, std::optional<std::size_t> bytes);

/// A place in the work of a stream, and when the device came there (torch.cuda.Event with enable_timing).
class Event {
 public:
  /// Throws DeviceError, and says why, where there is no such device.
  explicit Event(int index = 0);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// The place is behind what the thread's stream was given so far.
  void record();
  /// Milliseconds from here to `end`, which both were recorded: waits until the device has come past them.
  double elapsed_time(const Event& end) const;

 private:
  int index_;
  void* event_ = nullptr;
};

/// While on, each product and convolution that is met for the first time tries what cuBLASLt or cuDNN proposes for it
/// and keeps the fastest. Off at start: a table that was measured decides then, and for what it lacks the library's
/// first proposal, so that bits are the same in every process.
void tune(bool on);
/// What tuning has found in this process, as lines for cuda/matmul/ranks.inc; what it found under a workspace cap is
/// not among it.
std::string tuned();

}  // namespace bytetape::cuda
