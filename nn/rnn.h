#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// The arguments of torch.nn.LSTM and torch.nn.GRU.
struct RNNOptions {
  std::int64_t num_layers = 1;  ///< layers, each of which reads the output of the one before
  bool bias = true;             ///< whether the layers have bias_ih and bias_hh
  bool batch_first = false;     ///< the input is (n, t, features), not (t, n, features)
  double dropout = 0;           ///< of the output of each layer but the last, in training mode
  bool bidirectional = false;   ///< a second cell of each layer reads the sequence backwards
};

/// Base class of recurrent layers.
///
/// The parameters of layer k are weight_ih_l<k> (gates * hidden, input), weight_hh_l<k> (gates * hidden, hidden),
/// bias_ih_l<k> and bias_hh_l<k> (gates * hidden), as in PyTorch. Those of the backward direction end in "_reverse".
/// All are initialised from U(-1/sqrt(hidden), 1/sqrt(hidden)).
///
/// The product of the input and weight_ih is computed for all steps at once. Each step then runs a product of the state
/// and weight_hh, and one op for the rest (lstm_cell or gru_cell). The layer needs no cuDNN, and no step waits for the
/// device.
class RNNBase : public Module {
 public:
  /// Returns the output alone, from an initial state of zeros, as in a Sequential.
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 protected:
  /// The parameters of one direction of one layer.
  struct Cell {
    Parameter weight_ih, weight_hh, bias_ih, bias_hh;  ///< biases are undefined if the layer has none
  };
  /// `gates` is the number of gates, `states` that of the tensors that a step passes to the next.
  RNNBase(std::int64_t gates, std::size_t states, std::int64_t input_size, std::int64_t hidden_size,
          const RNNOptions& options);
  /// Returns the output and the states after the last step. Undefined states begin as zeros. Autocast converts others.
  std::vector<Tensor> run(const Tensor& x, const std::vector<Tensor>& initial) const;

 private:
  /// Returns the states after a step; the first is the cell's output. `gates` (1, n, gates * hidden) is what the
  /// step's input adds to the gates. States are (1, n, hidden).
  virtual std::vector<Tensor> step(const Cell& cell, const Tensor& gates, const std::vector<Tensor>& states) const = 0;
  /// Returns what the inputs of all steps, x (t, n, features), add to the gates.
  virtual Tensor input_gates(const Cell& cell, const Tensor& x) const = 0;
  void add_cell(const std::string& suffix, std::int64_t rows, std::int64_t inputs);
  Tensor run_cell(const Cell& cell, const Tensor& x, bool is_reverse, std::vector<Tensor>& states) const;
  void check_shapes(const Tensor& x, const std::vector<Tensor>& initial) const;
  std::int64_t directions() const { return options_.bidirectional ? 2 : 1; }

  std::int64_t input_size_, hidden_size_;
  std::size_t states_;
  RNNOptions options_;
  std::vector<Cell> cells_;  // by layer, then direction
};

/// The state of an LSTM: hidden and cell state, each (num_layers * directions, n, hidden). Undefined tensors stand for
/// zeros. Under Autocast, given states are converted to its dtype, as the input is.
struct LSTMState {
  Tensor h{}, c{};
};

/// Long short-term memory (torch.nn.LSTM; Hochreiter & Schmidhuber, "Long short-term memory", 1997).
///
/// i, f, g, o = W_ih x + b_ih + W_hh h + b_hh. A step computes c = sigmoid(f) c + sigmoid(i) tanh(g) and
/// h = sigmoid(o) tanh(c).
///
///     nn::LSTM lstm(64, 128, {.num_layers = 2, .batch_first = true});
///     auto [y, state] = lstm(x, nn::LSTMState{});  // y is (n, t, 128)
///
/// Has no proj_size, and takes no packed sequences.
class LSTM : public RNNBase {
 public:
  /// Throws ValueError if a size is not positive, or dropout is not in [0, 1].
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  using Module::operator();
  /// Returns the output (t, n, directions * hidden), or (n, t, ...) with batch_first, and the state after the last
  /// step. x is (t, n, input_size), or (n, t, input_size) with batch_first, with t >= 1. Throws ShapeError, DTypeError
  /// or DeviceError if the tensors do not fit.
  std::pair<Tensor, LSTMState> operator()(const Tensor& x, const LSTMState& initial);

 private:
  Tensor input_gates(const Cell& cell, const Tensor& x) const override;
  std::vector<Tensor> step(const Cell& cell, const Tensor& gates, const std::vector<Tensor>& states) const override;
};

/// Gated recurrent unit (torch.nn.GRU; Cho et al., "Learning phrase representations using RNN encoder-decoder for
/// statistical machine translation", 2014).
///
/// With r and z the sigmoid of their gates, W_ih x + b_ih + W_hh h + b_hh, a step computes n = tanh(W_in x + b_in +
/// r (W_hn h + b_hn)) and h = (1 - z) n + z h.
///
///     nn::GRU gru(64, 128);
///     auto [y, h] = gru(x, Tensor());
class GRU : public RNNBase {
 public:
  /// Throws ValueError if a size is not positive, or dropout is not in [0, 1].
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  using Module::operator();
  /// Returns the output and the hidden state after the last step, with shapes as those of LSTM. An undefined `initial`
  /// stands for zeros. Under Autocast, a given one is converted to its dtype, as the input is.
  /// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& initial);

 private:
  Tensor input_gates(const Cell& cell, const Tensor& x) const override;
  std::vector<Tensor> step(const Cell& cell, const Tensor& gates, const std::vector<Tensor>& states) const override;
};

}  // namespace bytetape::nn
