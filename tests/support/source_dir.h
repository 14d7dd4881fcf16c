#pragma once
#include <filesystem>

namespace bytetape::test {

/// Returns the folder of the sources, which has tests/golden. A function, so that a compiler cache serves tests to
/// clones in other folders.
std::filesystem::path source_dir();

}  // namespace bytetape::test
