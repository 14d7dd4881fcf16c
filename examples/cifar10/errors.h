#pragma once
#include <bytetape/bytetape.h>

#include "examples/picture/canvas.h"

namespace bytetape::examples {

/// Draws the most confident mistakes of a CIFAR-10 classifier: each image, with the predicted and the true class below.
Canvas draw_errors(nn::Module& model, const data::ResidentDataset& testing);

}  // namespace bytetape::examples
