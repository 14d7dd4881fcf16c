#include "bytetape/optim/lr_scheduler/state.h"

#include <cmath>
#include <string_view>

#include "bytetape/core/error.h"

namespace bytetape::optim::lr_scheduler {
namespace {

bool is_count(std::string_view name) {
  for (const char* count : {"last_epoch", "cooldown_counter", "num_bad_epochs"})
    if (name.ends_with(count)) return true;
  return false;
}

bool is_rate(std::string_view name) {
  return name.find("base_lrs.") != std::string_view::npos || name.find("last_lr.") != std::string_view::npos;
}

}  // namespace

void check_values(const StateDict& state) {
  constexpr double most = 9007199254740992;  // 2^53: doubles represent all integers up to it
  for (const auto& [name, number] : state.numbers) {
    const double value = state.number(name);
    check<ValueError>(!is_count(name) || (value >= 0 && value < most), "the state's '", name, "' must be a count, got ",
                      value);
    check<ValueError>(!is_rate(name) || std::isfinite(value), "the state's '", name, "' must be finite, got ", value);
  }
}

}  // namespace bytetape::optim::lr_scheduler
