#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

// Views are rows (rows, n), with any strides, of one floating dtype. A row has the gates of `hidden` units, one gate
// behind the other. Optional views may be undefined: missing inputs are zeros, and missing outputs are not stored.

/// Gates are i, f, g, o (rows, 4 hidden). i, f and o are activated by sigmoid, g by tanh.
struct LstmCellArgs {
  ConstView from_x, from_h;  // summands of the gates
  ConstView c;               // (rows, hidden)
  View h, next_c;            // (rows, hidden): next_c = f c + i g, h = o tanh(next_c)
  View activated;            // the activated gates; optional
};
struct LstmCellBackwardArgs {
  ConstView activated, c;
  ConstView gh, more_gh;  // gradients of h, which are added; optional
  ConstView gnext_c;      // optional
  View ggates;            // of the gates before activation; optional. May be the memory of `activated`
  View gc;                // optional. May be the memory of gnext_c
};

/// Gates are r, z, n (rows, 3 hidden).
struct GruCellArgs {
  ConstView from_x, from_h;  // summands of r and z; n = tanh(from_x + sigmoid(r) from_h)
  ConstView h;               // (rows, hidden)
  View next_h;               // (rows, hidden): n + z (h - n)
  View kept;                 // r, z and n after activation, and n's part of from_h (rows, 4 hidden); optional
};
struct GruCellBackwardArgs {
  ConstView kept, h;
  ConstView gnext_h, more_gnext_h;  // gradients of next_h, which are added; optional
  View gfrom_x, gfrom_h, gh;        // optional
};

/// Kernels of recurrent layers, for one step.
struct RecurrentKernels {
  void (*lstm_cell)(const LstmCellArgs& args);
  void (*lstm_cell_backward)(const LstmCellBackwardArgs& args);
  void (*gru_cell)(const GruCellArgs& args);
  void (*gru_cell_backward)(const GruCellBackwardArgs& args);
};

}  // namespace bytetape
