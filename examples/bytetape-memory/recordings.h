#pragma once
#include <bytetape/core/memory/recording.h>

#include <string>
#include <vector>

namespace bytetape::examples {

/// Reads a recording. One that is damaged is read up to there, which is said on stderr.
memory::Log read_recording(const std::string& path);
/// The exit status of a command that did what it could with a recording: 1 where that is damaged.
int status_of(const memory::Log& log);

/// "mnist, recorded in run.memlog: 12,345 events in 4.21 s", and a line that says so where it broke off or is damaged.
std::string headline(const memory::Log& log, const std::string& path);

/// The devices that anything happened on.
std::vector<const memory::DeviceLog*> devices_of(const memory::Log& log);

/// The device of that name, or where it is "" the one that held most at once. Throws ValueError, which names those that
/// there are, where there is none.
const memory::DeviceLog& choose_device(const memory::Log& log, const std::string& name);

/// "cpu", or "cpu (--device chooses another: meta, pinned:cuda)".
std::string introduce(const memory::Log& log, const memory::DeviceLog& chosen);

}  // namespace bytetape::examples
