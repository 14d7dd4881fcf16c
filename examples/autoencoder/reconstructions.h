#pragma once
#include <bytetape/bytetape.h>

#include "examples/picture/canvas.h"

namespace bytetape::examples {

/// The first digits of each kind, each above what the model makes of it.
Canvas draw_reconstructions(nn::Module& model, const data::ResidentImages& testing);

}  // namespace bytetape::examples
