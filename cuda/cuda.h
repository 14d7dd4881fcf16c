#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "bytetape/core/device/device.h"
#include "bytetape/cuda/precision.h"

/// Functions that only CUDA has. For everything else use Device::cuda().
namespace bytetape::cuda {

/// The number of devices that this process can use (torch.cuda.device_count). 0 without a driver, or in a build without
/// CUDA.
int device_count();

/// Properties of a device (torch.cuda.get_device_properties).
struct DeviceProperties {
  std::string name;              ///< "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;      ///< compute capability
  std::size_t total_memory = 0;  ///< bytes
  int multi_processor_count = 0;
};
/// Returns the properties of a device, even if it is too old for bytetape.
/// Throws DeviceError, with the reason, if there is no such device.
DeviceProperties get_device_properties(int index = 0);
/// Returns the name of a device (torch.cuda.get_device_name).
/// Throws DeviceError, with the reason, if there is no such device.
std::string get_device_name(int index = 0);

/// A device's memory in bytes, according to the driver (torch.cuda.mem_get_info).
struct MemoryInfo {
  std::size_t free = 0, total = 0;
};
/// Returns a device's free and total memory.
/// Throws DeviceError, with the reason, if there is no such device that bytetape can use.
MemoryInfo mem_get_info(int index = 0);

/// Sets the most scratch bytes of cuBLASLt or cuDNN for a product or convolution, on a device and on its meta device.
/// `bytes` is rounded down to a multiple of 256. Default: std::nullopt, the usual scratch.
///
/// The first algorithm within the cap is chosen, in the order that was measured or proposed. If cuDNN has none for a
/// convolution, bytetape's own kernels run; the cap does not apply to their scratch. Call this between steps.
/// Throws DeviceError if the device is not a CUDA device.
void set_workspace_cap(Device device, std::optional<std::size_t> bytes);

/// A point in a stream's work, with the time at which the device reached it (torch.cuda.Event with enable_timing).
class Event {
 public:
  /// Makes an event of device number `index`.
  /// Throws DeviceError, with the reason, if there is no such device.
  explicit Event(int index = 0);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Sets the point to after the work so far of the thread's stream.
  void record();
  /// Returns the milliseconds from this event to `end`. Both must be recorded. Waits until the device has reached both.
  double elapsed_time(const Event& end) const;

 private:
  int index_;
  void* event_ = nullptr;
};

/// Turns tuning on or off. While it is on, each new product or convolution tries the algorithms that cuBLASLt or cuDNN
/// proposes, and keeps the fastest. Default: off. Then a measured table selects the algorithm, or the library's first
/// proposal if the table has no entry. So results have the same bits in every process.
void tune(bool on);
/// Returns the tuning results of this process, as lines for cuda/matmul/ranks.inc. Results under a workspace cap are
/// left out.
std::string tuned();

}  // namespace bytetape::cuda
