#include "examples/memory_tour/stop.h"

#include <bytetape/core/memory/format.h>
#include <fmt/format.h>

namespace bytetape::examples {
namespace {

using memory::format_exact;

std::string where(const Level& level, std::size_t number) {
  return level.label.empty() ? fmt::format("at reading {}", number) : fmt::format("at '{}'", level.label);
}

void compare(const Level& found, const Figures& expected, const std::string& at, std::vector<std::string>& out) {
  const auto check_figure = [&](const std::string& what, std::size_t is, std::size_t should) {
    if (is != should)
      out.push_back(fmt::format("{}, {}: expected {}, got {}", at, what, format_exact(should), format_exact(is)));
  };
  check_figure("allocated", found.allocated, expected.allocated);
  if (expected.reserved) check_figure("reserved", found.reserved, *expected.reserved);
  if (expected.peak) check_figure("peak", found.peak, *expected.peak);
  memory::RoleBytes roles{};
  for (const auto& [role, bytes] : expected.by_role) roles[static_cast<std::size_t>(role)] = bytes;
  for (std::size_t r = 0; r < roles.size(); ++r)
    check_figure(to_string(static_cast<memory::Role>(r)), found.by_role[r], roles[r]);
}

}  // namespace

Tensor batch(const Shape& shape) {
  return randn(shape, DType::f32, default_device(), default_generator(), memory::Role::input);
}

Tensor weight(const Shape& shape) {
  return randn(shape, DType::f32, default_device(), default_generator(), memory::Role::parameter).set_requires_grad();
}

std::vector<std::string> differences(const Part& part, const Measurement& found) {
  std::vector<std::string> out;
  if (!part.expected.empty() && part.expected.size() != found.levels.size())
    out.push_back(fmt::format("expected {} readings, got {}", part.expected.size(), found.levels.size()));
  else
    for (std::size_t i = 0; i < part.expected.size(); ++i)
      compare(found.levels[i], part.expected[i], where(found.levels[i], i + 1), out);
  if (!found.pytorch.empty() && found.pytorch.size() != found.levels.size())
    out.push_back(fmt::format("expected {} readings of PyTorch, got {}", found.levels.size(), found.pytorch.size()));
  if (!found.is_as_predicted()) out.push_back("the prediction differs from the measurement");
  return out;
}

}  // namespace bytetape::examples
