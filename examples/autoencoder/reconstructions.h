#pragma once
#include <bytetape/bytetape.h>

#include "examples/picture/canvas.h"

namespace bytetape::examples {

/// Draws the first test images of each digit, each above its reconstruction by the model.
Canvas draw_reconstructions(nn::Module& model, const data::ResidentDataset& testing);

}  // namespace bytetape::examples
