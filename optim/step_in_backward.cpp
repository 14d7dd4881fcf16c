#include "bytetape/optim/step_in_backward.h"

#include "bytetape/optim/parameters.h"

namespace bytetape::optim {

StepInBackward::StepInBackward(Optimizer& optimizer) : parameters_(optimizer.parameters()) {
  check<ValueError>(
      sinks_of_parts(parameters_).empty(),
      "StepInBackward: the parameters are parts of a dist::Sharded, which backward() does not complete one "
      "by one; call step()");
  optimizer.zero_grad();
  for (const Tensor& p : parameters_)
    handles_.push_back(p.register_post_accumulate_grad_hook([&optimizer, known = parameters_.size()](Tensor whole) {
      check<ValueError>(optimizer.parameters().size() == known,
                        "StepInBackward: parameters were added to the optimizer; make a new StepInBackward");
      optimizer.step();  // updates only this parameter, because no other has a gradient
      whole.set_grad({});
    }));
}

StepInBackward::~StepInBackward() {
  for (std::size_t i = 0; i < handles_.size(); ++i) parameters_[i].remove_hook(handles_[i]);
}

}  // namespace bytetape::optim
