#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/memory_tour/listing.h"

namespace bytetape::examples {

/// The exact statistics that are expected at a level.
struct Figures {
  std::size_t allocated = 0;
  std::vector<std::pair<memory::Role, std::size_t>> by_role = {};  // roles with bytes; their sum is `allocated`
  std::optional<std::size_t> reserved = {}, peak = {};             // set if they are the same on every device
};

/// The layout of a part on the page.
struct Look {
  bool has_code = true, has_rows = true;
  bool has_peaks = true;        // show the peak since the previous level
  bool bars_are_peaks = false;  // bars show the peak; else the bytes held at the level
  bool has_curve = false;       // plot allocated bytes by event
  bool has_steps = false;       // plot allocated bytes by level
  bool is_timed = false;
};

/// A program of a stop.
struct Part {
  std::string words;  // printed before the part; "" for none
  Shown shown;
  std::vector<Figures> expected = {};  // by level; if empty, only the prediction is checked
  Look look = {};
};

struct Stop {
  std::string title, question;
  std::vector<Part> parts;
  std::string lesson;
};

/// \name The stops
/// Return the stops, with the figures expected on the default device.
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

/// Returns a random batch, f32, with the role input.
Tensor batch(const Shape& shape);
/// Returns a random weight that requires a gradient, f32, with the role parameter.
Tensor weight(const Shape& shape);

/// Describes each difference between the measured figures and the expected or predicted ones.
std::vector<std::string> differences(const Part& part, const Measurement& found);

}  // namespace bytetape::examples
