#pragma once
#include <string>

namespace bytetape::examples {

/// Writes a recording as `format`: chrome, torch, csv, or json, which is of one device. Gives the exit status.
int write_export(const std::string& path, const std::string& format, const std::string& device, const std::string& out);

}  // namespace bytetape::examples
