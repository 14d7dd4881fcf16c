#pragma once
#include <bytetape/bytetape.h>

#include "examples/picture/canvas.h"

namespace bytetape::examples {

/// The mistakes of which a classifier of CIFAR-10 is surest: each image, below it what the model says it is and what
/// it is.
Canvas draw_errors(nn::Module& model, const data::ResidentImages& testing);

}  // namespace bytetape::examples
