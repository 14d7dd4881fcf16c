#include "examples/bytetape-memory/requests.h"

#include <bytetape/core/files/input.h>
#include <fmt/format.h>

namespace bytetape::examples {

std::string requester(const memory::Log& log, memory::NameId op, memory::NameId module) {
  const std::string by = printable(log.names[op]), in = printable(log.names[module]);
  if (by.empty() && in.empty()) return "the program";
  if (in.empty()) return by;
  return fmt::format("{}module '{}'", by.empty() ? "" : by + " in ", in);
}

std::string when(std::uint32_t step, memory::Phase phase) {
  return step ? fmt::format("{} of step {}", to_string(phase), step)
              : fmt::format("{}, outside any step", to_string(phase));
}

}  // namespace bytetape::examples
