#pragma once
#include <string>
#include <vector>

#include "examples/memory_tour/stop.h"

namespace bytetape::examples {

/// Prints a text, broken into lines.
void print_words(const std::string& words);
/// Prints a stop, 100 columns wide: its question, and for each part the code, the measured and predicted figures and a
/// picture.
void print(const Stop& stop, int number, const std::vector<Measurement>& found);

}  // namespace bytetape::examples
