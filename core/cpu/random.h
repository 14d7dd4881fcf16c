#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu {

void uniform(PhiloxState state, double low, double high, View y);
void normal(PhiloxState state, double mean, double std, View y);
void randint(PhiloxState state, std::int64_t low, std::int64_t high, View y);
std::size_t randperm_workspace(View y);
void randperm(PhiloxState state, View y, Workspace ws);
void dropout(PhiloxState state, double p, ConstView x, View y);

}  // namespace bytetape::cpu
