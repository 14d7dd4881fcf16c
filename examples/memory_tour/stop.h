#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/memory_tour/listing.h"

namespace bytetape::examples {

/// What the books must say at a level, to the byte.
struct Figures {
  std::size_t allocated = 0;
  std::vector<std::pair<memory::Role, std::size_t>> by_role = {};  // all that is not 0; what is allocated is their sum
  std::optional<std::size_t> reserved = {}, peak = {};             // where they are the same on every device
};

/// How a part is shown.
struct Look {
  bool has_code = true, has_rows = true;
  bool has_peaks = true;        // what was held at the most since the level before
  bool bars_are_peaks = false;  // else what is held at the level
  bool has_curve = false;       // what was allocated, event by event
  bool has_steps = false;       // likewise, level by level
  bool is_timed = false;
};

/// A program of a stop.
struct Part {
  std::string words;  // said before it; "" for none
  Shown shown;
  std::vector<Figures> expected = {};  // by level; none: what is predicted is all that is known
  Look look = {};
};

struct Stop {
  std::string title, question;
  std::vector<Part> parts;
  std::string lesson;
};

/// \name The stops
/// For the default device, whose figures they hold.
/// @{
Stop tensor_stop();
Stop rounding_stop();
Stop dtype_stop();
Stop linear_stop();
Stop saved_stop();
Stop sequential_stop();
Stop layer_norm_stop();
Stop optimizer_stop();
Stop workspace_stop();
Stop recurrent_stop();
Stop attention_stop();
Stop batch_norm_stop();
Stop checkpoint_stop();
Stop step_in_backward_stop();
Stop saved_tensor_hooks_stop();
/// @}

/// A batch, as loaders make it: f32, of the role input.
Tensor batch(const Shape& shape);
/// A weight that is trained: f32, of the role parameter.
Tensor weight(const Shape& shape);

/// What differs from what is expected or was predicted, in sentences; none where all is as it should be.
std::vector<std::string> differences(const Part& part, const Measurement& found);

}  // namespace bytetape::examples
