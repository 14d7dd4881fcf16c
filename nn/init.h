#pragma once
#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape::nn::init {

// Initialisers, in place and off the tape, after torch.nn.init. The fan of a weight (out, in, ...) is its size(0) or
// size(1) times the number of elements per channel pair. ShapeError below two dims.

void uniform_(Tensor& x, double low = 0, double high = 1, Generator& generator = default_generator());
void normal_(Tensor& x, double mean = 0, double std = 1, Generator& generator = default_generator());
void constant_(Tensor& x, Scalar value);
/// U(-b, b), b = gain sqrt(3 / fan_in), gain = sqrt(2 / (1 + a^2)) (He et al. 2015); a is the slope of a leaky ReLU.
void kaiming_uniform_(Tensor& x, double a = 0, Generator& generator = default_generator());
void kaiming_normal_(Tensor& x, double a = 0, Generator& generator = default_generator());
/// U(-b, b), b = gain sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010).
void xavier_uniform_(Tensor& x, double gain = 1, Generator& generator = default_generator());

/// Elements of x that one output sees.
std::int64_t fan_in(const Tensor& x);
std::int64_t fan_out(const Tensor& x);

}  // namespace bytetape::nn::init
