#pragma once
#include <string>

#include "examples/command_line.h"

namespace bytetape::examples {

/// What the results are called where they cannot be written.
inline constexpr const char* json_name = "the results";

/// Throws FileError where a file that the options name cannot be written, ValueError where two options name one file.
/// --resume and --checkpoint may. `picture_option` is what the picture's is called.
void check_outputs(const Options& o, const std::string& picture_option);

}  // namespace bytetape::examples
