#pragma once
#include <string>

namespace bytetape::examples {

/// Writes a recording in a `format`: chrome, torch, csv, or json for one device. Returns the exit status.
int write_export(const std::string& path, const std::string& format, const std::string& device, const std::string& out);

}  // namespace bytetape::examples
