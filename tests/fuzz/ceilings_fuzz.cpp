#include <cstdint>
#include <cstdlib>
#include <string>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/text/ceilings_json.h"

/// Any bytes are either ceilings or a ValueError. Ceilings survive writing and parsing.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bytetape;
  try {
    const auto all = memory::parse_ceilings(std::string(reinterpret_cast<const char*>(data), size));
    const auto again = memory::parse_ceilings(memory::text_of_ceilings(all));
    if (again.size() != all.size()) std::abort();
    for (std::size_t i = 0; i < all.size(); ++i)
      if (again[i].device != all[i].device || again[i].processor != all[i].processor ||
          again[i].bytes_per_s != all[i].bytes_per_s || again[i].flop_per_s != all[i].flop_per_s)
        std::abort();
  } catch (const ValueError&) {}
  return 0;
}
