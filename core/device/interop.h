#pragma once
#include "bytetape/core/device/device.h"

namespace bytetape {

/// A backend's part in sharing its devices with other libraries of the process. A handle is a stream as those libraries
/// know it (cudaStream_t); null is CUDA's default stream.
struct Interop {
  /// Throws DeviceError unless kernels of device number `index` can use memory at `data`.
  void (*check_address)(int index, const void* data);
  /// Returns the handle of stream number `stream`. It never is the stream of a recording. A failure that is yet to be
  /// thrown stays so if the stream has been used.
  void* (*stream_handle)(int index, int stream);
  /// Whether the work of a stream is being recorded as a graph, and so must not be waited for.
  bool (*is_recorded)(int index, void* stream) noexcept;
  /// Makes later work of one stream wait for earlier work of another. Does nothing if one of them is recorded.
  void (*order)(int index, void* first, void* second) noexcept;
  /// Makes the host wait for all work of device number `index`. Reports no failure.
  void (*wait_for_all)(int index) noexcept;
  /// Makes device number `index` the thread's current one (cudaSetDevice), if the process uses the device already.
  /// Returns the number of the device that was current.
  int (*set_current)(int index) noexcept;
};

/// Makes a GPU the thread's current device, as other libraries know it, and restores the old one at its end. Does
/// nothing for other devices.
class CurrentDevice {
 public:
  explicit CurrentDevice(Device device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const Interop* interop_;
  int previous_ = 0;
};

}  // namespace bytetape
