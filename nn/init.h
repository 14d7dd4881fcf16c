#pragma once
#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

/// Initial values of parameters.
namespace bytetape::nn::init {

/// What follows a layer, and how its input's spread survives it.
enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// Which of the two keeps its spread: what goes forward through a weight, or the gradient on its way back.
enum class FanMode { fan_in, fan_out };

/// By how much weights have to be larger in front of a nonlinearity: 1 for linear and sigmoid, 5/3 for tanh, sqrt(2)
/// for relu, sqrt(2 / (1 + negative_slope^2)) for leaky_relu, 3/4 for selu (torch.nn.init.calculate_gain).
double calculate_gain(Nonlinearity nonlinearity, double negative_slope = 0.01);

/// \name Initialisers
/// In place and off the tape, after torch.nn.init. Floating tensors only, but for constant_, zeros_ and ones_:
/// DTypeError. Those that use a fan, and orthogonal_, throw ShapeError below two dims. The same state of the generator
/// gives the same numbers on every device (normals to rounding), whatever the layout in memory; on meta devices none
/// are drawn.
/// @{

/// Uniform in [low, high).
void uniform_(Tensor& x, double low = 0, double high = 1, Generator& generator = default_generator());
/// Normal, with this mean and standard deviation.
void normal_(Tensor& x, double mean = 0, double std = 1, Generator& generator = default_generator());
void constant_(Tensor& x, Scalar value);
void zeros_(Tensor& x);
void ones_(Tensor& x);
/// U(-b, b), b = gain sqrt(3 / fan) (He et al. 2015), with the fan that `mode` names and gain =
/// calculate_gain(nonlinearity, a): a is the slope of a leaky ReLU, and of no account for others.
void kaiming_uniform_(Tensor& x, double a = 0, FanMode mode = FanMode::fan_in,
                      Nonlinearity nonlinearity = Nonlinearity::leaky_relu, Generator& generator = default_generator());
/// Normal, with mean 0 and standard deviation gain / sqrt(fan), both as in kaiming_uniform_.
void kaiming_normal_(Tensor& x, double a = 0, FanMode mode = FanMode::fan_in,
                     Nonlinearity nonlinearity = Nonlinearity::leaky_relu, Generator& generator = default_generator());
/// U(-b, b), b = gain sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010).
void xavier_uniform_(Tensor& x, double gain = 1, Generator& generator = default_generator());
/// Normal, with mean 0 and standard deviation gain sqrt(2 / (fan_in + fan_out)).
void xavier_normal_(Tensor& x, double gain = 1, Generator& generator = default_generator());
/// A random orthogonal matrix, times gain (Saxe, McClelland & Ganguli 2013): x as a matrix of size(0) rows has
/// orthonormal rows, or columns where there are fewer of them. Made on the host in f64, with the same bits for every
/// device.
void orthogonal_(Tensor& x, double gain = 1, Generator& generator = default_generator());
/// The identity as a convolution's weight (out, in, ...) of rank 3 to 5: 1 in the middle of the window where an output
/// channel meets the input channel of its number, in each of `groups` parts of the outputs; else 0. Throws ShapeError
/// on other ranks, ValueError where groups does not divide the outputs.
void dirac_(Tensor& x, std::int64_t groups = 1);
/// @}

/// Inputs that one output sees through a weight (out, in, ...): size(1) times the number of elements per channel pair.
/// Throws ShapeError below two dims.
std::int64_t fan_in(const Tensor& x);
/// The same with size(0): outputs that see one input.
std::int64_t fan_out(const Tensor& x);

}  // namespace bytetape::nn::init
