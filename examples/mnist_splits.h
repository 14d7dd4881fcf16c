#pragma once
#include "examples/program.h"

namespace bytetape::examples {

/// What --data says of MNIST.
inline constexpr const char* mnist_data =
    "folder with the four MNIST files; default: $BYTETAPE_DATA, ~/.cache/bytetape/mnist, else generated digits";

/// Real ones, and those that are drawn in their place.
inline constexpr ImageCounts mnist_images{60000, 10000};

/// Real MNIST where it is found, else drawn digits, which it says.
Splits load_mnist_splits(const Options& o);

}  // namespace bytetape::examples
