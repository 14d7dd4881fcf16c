#pragma once
#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

/// Initial values of parameters.
namespace bytetape::nn::init {

/// \name Initialisers
/// In place and off the tape, after torch.nn.init. Floating tensors only, but for constant_: DTypeError. Those that use
/// a fan throw ShapeError below two dims.
/// @{

/// Uniform in [low, high).
void uniform_(Tensor& x, double low = 0, double high = 1, Generator& generator = default_generator());
/// Normal, with this mean and standard deviation.
void normal_(Tensor& x, double mean = 0, double std = 1, Generator& generator = default_generator());
void constant_(Tensor& x, Scalar value);
/// U(-b, b), b = gain sqrt(3 / fan_in), gain = sqrt(2 / (1 + a^2)) (He et al. 2015); a is the slope of a leaky ReLU.
void kaiming_uniform_(Tensor& x, double a = 0, Generator& generator = default_generator());
/// Normal, with mean 0 and standard deviation gain / sqrt(fan_in), and gain as in kaiming_uniform_.
void kaiming_normal_(Tensor& x, double a = 0, Generator& generator = default_generator());
/// U(-b, b), b = gain sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010).
void xavier_uniform_(Tensor& x, double gain = 1, Generator& generator = default_generator());
/// @}

/// Inputs that one output sees through a weight (out, in, ...): size(1) times the number of elements per channel pair.
/// Throws ShapeError below two dims.
std::int64_t fan_in(const Tensor& x);
/// The same with size(0): outputs that see one input.
std::int64_t fan_out(const Tensor& x);

}  // namespace bytetape::nn::init
