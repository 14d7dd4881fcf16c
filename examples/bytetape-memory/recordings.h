#pragma once
#include <bytetape/core/memory/recording.h>

#include <string>
#include <vector>

namespace bytetape::examples {

/// Reads a recording. Reads a damaged one up to the damage, and prints a warning to stderr.
memory::Log read_recording(const std::string& path);
/// Returns the exit status of a command that succeeded: 1 if the recording is damaged, else 0.
int status_of(const memory::Log& log);

/// Returns "mnist, recorded in run.memlog: 12,345 records in 4.21 s", and a line if the recording breaks off or is
/// damaged.
std::string headline(const memory::Log& log, const std::string& path);

/// Returns the devices that have events.
std::vector<const memory::DeviceLog*> devices_of(const memory::Log& log);

/// Returns the device of that name; if it is "", the one with the highest peak.
/// Throws ValueError, naming the existing devices, if there is none.
const memory::DeviceLog& choose_device(const memory::Log& log, const std::string& name);

/// Returns "cpu", or "cpu (other devices: meta, pinned:cuda)".
std::string introduce(const memory::Log& log, const memory::DeviceLog& chosen);

}  // namespace bytetape::examples
