#pragma once
#include <bytetape/core/memory/recording.h>

#include <string>
#include <vector>

namespace bytetape::examples {

/// "mnist, recorded in run.memlog: 12,345 events in 4.21 s", and where it broke off a line that says so.
std::string headline(const memory::Log& log, const std::string& path);

/// The devices that anything happened on.
std::vector<const memory::DeviceLog*> devices_of(const memory::Log& log);

/// The device of that name, or where it is "" the one that held most at once. Throws ValueError, which names those that
/// there are, where there is none.
const memory::DeviceLog& choose_device(const memory::Log& log, const std::string& name);

/// "cpu", or "cpu (--device chooses another: meta, pinned:cuda)".
std::string introduce(const memory::Log& log, const memory::DeviceLog& chosen);

}  // namespace bytetape::examples
