#pragma once
#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

/// Initialisers of parameters.
namespace bytetape::nn::init {

/// The activation function after a layer, for calculate_gain().
enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// Selects the variance that an initialiser preserves: of activations in forward (fan_in), or of gradients in backward
/// (fan_out).
enum class FanMode { fan_in, fan_out };

/// Returns the recommended gain of the weights before a nonlinearity (torch.nn.init.calculate_gain): 1 for linear and
/// sigmoid, 5/3 for tanh, sqrt(2) for relu, sqrt(2 / (1 + negative_slope^2)) for leaky_relu, 3/4 for selu.
double calculate_gain(Nonlinearity nonlinearity, double negative_slope = 0.01);

/// \name Initialisers
/// In-place initialisers that are not recorded on the tape (torch.nn.init).
/// Numbers are drawn from `generator`. The same state of the generator gives the same numbers on every device and in
/// every memory layout; normals are equal up to rounding. Nothing is drawn for meta tensors.
/// Throws DTypeError if x is not floating, except constant_, zeros_ and ones_.
/// Throws ShapeError if x has fewer than two dims, for initialisers that use a fan and for orthogonal_.
/// @{

/// Fills x from the uniform distribution over [low, high).
void uniform_(Tensor& x, double low = 0, double high = 1, Generator& generator = default_generator());
/// Fills x from the normal distribution with mean `mean` and standard deviation `std`.
void normal_(Tensor& x, double mean = 0, double std = 1, Generator& generator = default_generator());
void constant_(Tensor& x, Scalar value);
void zeros_(Tensor& x);
void ones_(Tensor& x);
/// Fills x from U(-b, b), b = gain sqrt(3 / fan) (He et al. 2015).
/// `mode` selects the fan. gain = calculate_gain(nonlinearity, a), where `a` is the negative slope of leaky_relu.
/// Other nonlinearities ignore `a`.
void kaiming_uniform_(Tensor& x, double a = 0, FanMode mode = FanMode::fan_in,
                      Nonlinearity nonlinearity = Nonlinearity::leaky_relu, Generator& generator = default_generator());
/// Fills x from the normal distribution with mean 0 and standard deviation gain / sqrt(fan), both as in
/// kaiming_uniform_.
void kaiming_normal_(Tensor& x, double a = 0, FanMode mode = FanMode::fan_in,
                     Nonlinearity nonlinearity = Nonlinearity::leaky_relu, Generator& generator = default_generator());
/// Fills x from U(-b, b), b = gain sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010).
void xavier_uniform_(Tensor& x, double gain = 1, Generator& generator = default_generator());
/// Fills x from the normal distribution with mean 0 and standard deviation gain sqrt(2 / (fan_in + fan_out)).
void xavier_normal_(Tensor& x, double gain = 1, Generator& generator = default_generator());
/// Fills x with a random orthogonal matrix times gain (Saxe, McClelland & Ganguli 2013).
/// x is seen as a matrix of size(0) rows. Its rows are orthonormal, or its columns if there are fewer columns than
/// rows. The matrix is computed on the host in f64, with the same bits for every device.
void orthogonal_(Tensor& x, double gain = 1, Generator& generator = default_generator());
/// Fills x, a convolution weight (out, in, ...) of rank 3 to 5, with the identity (torch.nn.init.dirac_).
/// In each of `groups` groups of output channels, the centre of the window is 1 if the input channel has the number of
/// the output channel within its group. All other elements are 0.
/// Throws ShapeError if the rank is not 3 to 5.
/// Throws ValueError if `groups` does not divide the output channels.
void dirac_(Tensor& x, std::int64_t groups = 1);
/// @}

/// Returns the number of inputs of one output of a weight (out, in, ...): size(1) times the elements of a kernel
/// window.
/// Throws ShapeError if x has fewer than two dims.
std::int64_t fan_in(const Tensor& x);
/// Returns the number of outputs of one input: size(0) times the elements of a kernel window.
/// Throws ShapeError if x has fewer than two dims.
std::int64_t fan_out(const Tensor& x);

}  // namespace bytetape::nn::init
