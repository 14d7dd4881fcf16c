// Tensors of one step keep the dim of steps, as (1, n, features), so that steps are split and joined without views.
#include "bytetape/nn/rnn.h"

#include <cmath>
#include <tuple>

#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/concat.h"
#include "bytetape/autograd/ops/dropout.h"
#include "bytetape/autograd/ops/matmul.h"
#include "bytetape/autograd/ops/recurrent.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/check.h"
#include "bytetape/core/factories.h"
#include "bytetape/nn/call.h"
#include "bytetape/nn/class_name.h"
#include "bytetape/nn/init.h"

namespace bytetape::nn {

RNNBase::RNNBase(std::int64_t gates, std::size_t states, std::int64_t input_size, std::int64_t hidden_size,
                 const RNNOptions& options)
    : input_size_(input_size), hidden_size_(hidden_size), states_(states), options_(options) {
  check<ValueError>(input_size > 0 && hidden_size > 0 && options.num_layers > 0,
                    "a recurrent layer needs positive sizes, got input_size ", input_size, ", hidden_size ",
                    hidden_size, " and num_layers ", options.num_layers);
  check<ValueError>(options.dropout >= 0 && options.dropout <= 1, "dropout must be from 0 to 1, got ", options.dropout);
  const std::int64_t rows = gates * hidden_size;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer)
    for (std::int64_t direction = 0; direction < directions(); ++direction)
      add_cell("_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : ""), rows,
               layer == 0 ? input_size : directions() * hidden_size);
}

void RNNBase::add_cell(const std::string& suffix, std::int64_t rows, std::int64_t inputs) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size_));
  Cell& cell = cells_.emplace_back();
  const auto add = [&](Parameter& p, const char* name, const Shape& shape) {
    p = register_parameter(name + suffix, shape);
    init::uniform_(p, -bound, bound);
  };
  add(cell.weight_ih, "weight_ih", {rows, inputs});
  add(cell.weight_hh, "weight_hh", {rows, hidden_size_});
  if (!options_.bias) return;
  add(cell.bias_ih, "bias_ih", {rows});
  add(cell.bias_hh, "bias_hh", {rows});
}

void RNNBase::check_shapes(const Tensor& x, const std::vector<Tensor>& initial) const {
  check_defined(x, "the input of a recurrent layer");
  check(x.rank() == 3 && x.size(2) == input_size_ && x.size(options_.batch_first ? 1 : 0) > 0, describe(),
        " expects an input of shape ", options_.batch_first ? "(n, t, " : "(t, n, ", input_size_, ") with t >= 1, got ",
        bytetape::describe(x));
  const Shape expected{static_cast<std::int64_t>(cells_.size()), x.size(options_.batch_first ? 0 : 1), hidden_size_};
  for (const Tensor& s : initial)
    if (s.defined())
      check(s.shape() == expected, describe(), " expects an initial state of shape ", expected, ", got ",
            bytetape::describe(s));
}

std::vector<Tensor> RNNBase::run(const Tensor& input, const std::vector<Tensor>& given) const {
  check_shapes(input, given);
  std::vector<Tensor> initial = given;
  if (input.dtype() != DType::f64)  // Autocast keeps f64, so the gates are in f64
    for (Tensor& s : initial) s = autocast_copy(s);
  std::vector<std::vector<Tensor>> last(states_);  // states after the last step, by state and cell
  Tensor x = options_.batch_first ? transpose(input, 0, 1) : input;
  for (std::size_t k = 0; k < cells_.size();) {
    std::vector<Tensor> outputs;  // by direction
    for (std::int64_t direction = 0; direction < directions(); ++direction, ++k) {
      std::vector<Tensor> states(states_);
      for (std::size_t s = 0; s < states_; ++s)
        if (s < initial.size() && initial[s].defined())
          states[s] = narrow(initial[s], 0, static_cast<std::int64_t>(k), 1);
      outputs.push_back(run_cell(cells_[k], x, direction == 1, states));
      for (std::size_t s = 0; s < states_; ++s) last[s].push_back(states[s]);
    }
    x = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
    if (k < cells_.size() && options_.dropout > 0) x = dropout(x, options_.dropout, is_training());
  }
  std::vector<Tensor> results{options_.batch_first ? transpose(x, 0, 1) : x};
  for (const std::vector<Tensor>& state : last) results.push_back(cat(state, 0));
  return results;
}

/// Returns the outputs of a cell for all steps. `states` are the states before the first step, then those after the
/// last.
Tensor RNNBase::run_cell(const Cell& cell, const Tensor& x, bool is_reverse, std::vector<Tensor>& states) const {
  const std::vector<Tensor> gates = split(input_gates(cell, x), 1, 0);
  for (Tensor& s : states)
    if (!s.defined()) s = zeros({1, x.size(1), hidden_size_}, gates[0].dtype(), gates[0].device());
  std::vector<Tensor> outputs(gates.size());
  for (std::size_t i = 0; i < gates.size(); ++i) {
    const std::size_t t = is_reverse ? gates.size() - 1 - i : i;
    states = step(cell, gates[t], states);
    outputs[t] = states[0];
  }
  return cat(outputs, 0);
}

Tensor RNNBase::forward(const Tensor& x) { return run(x, {})[0]; }

std::string RNNBase::describe() const {
  std::string text = detail::concat(class_name(typeid(*this)), "(", input_size_, ", ", hidden_size_);
  if (options_.num_layers != 1) text += detail::concat(", num_layers=", options_.num_layers);
  if (!options_.bias) text += ", bias=false";
  if (options_.batch_first) text += ", batch_first=true";
  if (options_.dropout != 0) text += detail::concat(", dropout=", options_.dropout);
  if (options_.bidirectional) text += ", bidirectional=true";
  return text + ")";
}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options)
    : RNNBase(4, 2, input_size, hidden_size, options) {}

// Both biases are added here, because a sum for all steps is cheaper than one in each step.
Tensor LSTM::input_gates(const Cell& cell, const Tensor& x) const {
  return linear(x, cell.weight_ih, cell.bias_ih.defined() ? cell.bias_ih + cell.bias_hh : Tensor());
}

std::vector<Tensor> LSTM::step(const Cell& cell, const Tensor& gates, const std::vector<Tensor>& states) const {
  const auto [h, c] = lstm_cell(gates, linear(states[0], cell.weight_hh), states[1]);
  return {h, c};
}

std::pair<Tensor, LSTMState> LSTM::operator()(const Tensor& x, const LSTMState& initial) {
  const auto body = [this](const Tensor& x, const Tensor& h, const Tensor& c) { return run(x, {h, c}); };
  const std::vector<Tensor> results = call(*this, body, x, initial.h, initial.c);
  return {results[0], {results[1], results[2]}};
}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options)
    : RNNBase(3, 1, input_size, hidden_size, options) {}

Tensor GRU::input_gates(const Cell& cell, const Tensor& x) const { return linear(x, cell.weight_ih, cell.bias_ih); }

std::vector<Tensor> GRU::step(const Cell& cell, const Tensor& gates, const std::vector<Tensor>& states) const {
  return {gru_cell(gates, linear(states[0], cell.weight_hh, cell.bias_hh), states[0])};
}

std::pair<Tensor, Tensor> GRU::operator()(const Tensor& x, const Tensor& initial) {
  const auto body = [this](const Tensor& x, const Tensor& h) { return run(x, {h}); };
  const std::vector<Tensor> results = call(*this, body, x, initial);
  return {results[0], results[1]};
}

}  // namespace bytetape::nn
