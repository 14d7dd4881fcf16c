#pragma once
#include "bytetape/core/kernels/random.h"

namespace bytetape::cpu {

void multinomial(const MultinomialArgs& args);
void multinomial_race(const MultinomialRaceArgs& args);

}  // namespace bytetape::cpu
