#include "tests/support/source_dir.h"

std::filesystem::path bytetape::test::source_dir() { return BYTETAPE_SOURCE_DIR; }
