#include "bytetape/optim/lr_scheduler/linear_lr.h"

namespace bytetape::optim::lr_scheduler {

LinearLR::LinearLR(Optimizer& optimizer, const LinearLROptions& o) : LRScheduler(optimizer), options_(o) {
  check<ValueError>(o.start_factor > 0 && o.start_factor <= 1,
                    "LinearLR needs a start_factor above 0 and at most 1, got ", o.start_factor);
  check<ValueError>(o.end_factor >= 0 && o.end_factor <= 1, "LinearLR needs an end_factor from 0 to 1, got ",
                    o.end_factor);
  check<ValueError>(o.total_iters >= 1, "LinearLR needs total_iters of at least 1, got ", o.total_iters);
  begin();
}

void LinearLR::update(ParamGroup& group, std::size_t) {
  const auto& [start, end, total] = options_;
  const std::int64_t epoch = last_epoch();
  if (epoch == 0)
    group.lr = *group.lr * start;
  else if (epoch == total && end == 0)
    group.lr = 0;  // the recursion gives a rounding error instead, which may be negative
  else if (epoch <= total)
    group.lr =
        *group.lr *
        (1 + (end - start) / (static_cast<double>(total) * start + static_cast<double>(epoch - 1) * (end - start)));
}

}  // namespace bytetape::optim::lr_scheduler
