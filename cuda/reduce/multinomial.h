#pragma once
#include "bytetape/core/kernels/random.h"

namespace bytetape::cuda {

void multinomial(const MultinomialArgs& args);
void multinomial_race(const MultinomialRaceArgs& args);

}  // namespace bytetape::cuda
