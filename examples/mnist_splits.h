#pragma once
#include "examples/program.h"

namespace bytetape::examples {

/// The help text of --data for MNIST.
inline constexpr const char* mnist_data =
    "folder with the four MNIST files; default: $BYTETAPE_DATA, ~/.cache/bytetape/mnist, else generated digits";

/// The number of images in MNIST and in the generated digits.
inline constexpr ExampleCounts mnist_images{60000, 10000};

/// Loads MNIST if it is found. Else generates digits, and prints that it does.
Splits load_mnist_splits(const Options& o);

}  // namespace bytetape::examples
