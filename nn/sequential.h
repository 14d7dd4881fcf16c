#pragma once
#include <cstdint>
#include <string>

#include "bytetape/nn/module_list.h"

namespace bytetape::nn {

/// Modules one after the other, named "0", "1", ... or as push_back says (torch.nn.Sequential), each of which has a
/// forward(x). They are moved in, or come as a std::shared_ptr:
///
///     nn::Sequential net(nn::Linear(784, 128), nn::ReLU(), Block(128));
///     net.push_back("head", nn::Linear(128, 10));
///
/// A Linear, Conv2d or BatchNorm2d and the ReLU behind it run as one op, which is booked under the first: one launch
/// and one tensor less; so do a Linear and a GELU by tanh, with one launch less. On the CPU the bits are those of two.
/// Layers of your own can do so, too (nn/fusion.h). A class derived from a layer runs its own forward.
///
/// Of one Sequential alone a Sequential is made by moving it: it is not nested.
class Sequential : public ModuleList<> {
 public:
  using ModuleList::ModuleList;
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "Sequential"; }
};

/// model(input) in `segments` parts of as many layers each, of which the last, with the rest, keeps what it makes and
/// every other is a checkpoint() (torch.utils.checkpoint.checkpoint_sequential). A layer and an activation that a part
/// ends between run as two. The model must stay where it is until backward. Throws ValueError unless segments is 1 to
/// the number of layers.
Tensor checkpoint_sequential(Sequential& model, std::int64_t segments, const Tensor& input);

}  // namespace bytetape::nn
