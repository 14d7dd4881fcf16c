#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// The results of lstm_cell().
struct LstmCell {
  Tensor h, c;  ///< hidden and cell state after the step, each (..., hidden)
};

/// One step of an LSTM after its matrix products (torch.nn.LSTMCell; Hochreiter & Schmidhuber, "Long short-term
/// memory", 1997).
/// - `from_x` and `from_h`: (..., 4 hidden), floating-point. Their sum is i, f, g, o, the gates before activation.
/// - `c`: (..., hidden), the cell state before the step. hidden is at least 1.
///
/// Returns c' = sigmoid(f) c + sigmoid(i) tanh(g) and h = sigmoid(o) tanh(c'), each (..., hidden) and row-major.
/// Backward needs the activated gates and c. 16-bit tensors are computed in f32.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
///
///     auto [h, c] = lstm_cell(linear(x, weight_ih, bias), linear(h0, weight_hh), c0);
LstmCell lstm_cell(const Tensor& from_x, const Tensor& from_h, const Tensor& c);

/// One step of a GRU after its matrix products (torch.nn.GRUCell; Cho et al., "Learning phrase representations using
/// RNN encoder-decoder for statistical machine translation", 2014).
/// - `from_x` and `from_h`: (..., 3 hidden), floating-point, the parts of r, z, n that come from the input and from h.
/// - `h`: (..., hidden), the hidden state before the step. hidden is at least 1.
///
/// With r = sigmoid(from_x_r + from_h_r) and z alike, n = tanh(from_x_n + r from_h_n). Returns h' = n + z (h - n),
/// (..., hidden) and row-major. Backward needs r, z, n, from_h_n and h. 16-bit tensors are computed in f32.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
///
///     h = gru_cell(linear(x, weight_ih, bias_ih), linear(h, weight_hh, bias_hh), h);
Tensor gru_cell(const Tensor& from_x, const Tensor& from_h, const Tensor& h);

}  // namespace bytetape
