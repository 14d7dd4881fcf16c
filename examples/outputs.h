#pragma once
#include <string>

#include "examples/command_line.h"

namespace bytetape::examples {

/// The name of the JSON results in errors.
inline constexpr const char* json_name = "the results";

/// Checks the output files that the options name. `picture_option` is the name of the picture's option.
/// Throws FileError if a file cannot be written.
/// Throws ValueError if two options name the same file, except --resume and --checkpoint.
/// Throws ValueError if --device-times has no recording or no GPU.
void check_outputs(const Options& o, const std::string& picture_option);

}  // namespace bytetape::examples
