#pragma once
#include <bytetape/bytetape.h>

namespace bytetape::examples {

/// Two 3x3 convolutions, each with batch norm and GELU, and a 2x2 max pooling after the first. The batch norms have no
/// weights.
struct RaceGroup : nn::Module {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;

  RaceGroup(std::int64_t in, std::int64_t out);
  Tensor forward(const Tensor& x) override;
};

/// The network of the race, for images (n, 3, h, w): fixed whitening filters with a bias, three groups, and a linear
/// layer whose result is divided by the number of its inputs (Jordan, github.com/KellerJordan/cifar10-airbench, 2024).
/// 1.97 M parameters.
class RaceNet : public nn::Module {
 public:
  RaceNet();
  Tensor forward(const Tensor& x) override;
  /// Draws new weights from the default generator, and resets the statistics of batch norm. All tensors keep their
  /// memory, so that captured steps stay valid. The whitening filters keep their values.
  void reset();
  /// The 3x3 filters, which Muon trains.
  std::vector<Tensor> filters() const;
  /// The biases of the batch norms.
  std::vector<Tensor> norm_biases() const;

  nn::Conv2d whiten{3, 24, 2};
  RaceGroup group1{24, 64}, group2{64, 256}, group3{256, 256};
  nn::Linear head{256, 10, false};
  bool trains_whitening = true;  ///< whether the whitening bias gets a gradient
};

}  // namespace bytetape::examples
