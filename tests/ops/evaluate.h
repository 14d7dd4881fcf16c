#pragma once
#include <gtest/gtest.h>

#include <random>

#include "tests/ops/op_list.h"
#include "tests/support/device.h"

namespace bytetape::test {

/// The values of a case's inputs, as every layout shows them; the same for a seed, a row and a number.
Arrays draw(const OpRow& row, const Case& inputs, std::uint64_t number);
/// ... after a trip through a dtype, where the input is a floating one.
Arrays rounded_to(DType dtype, const Case& inputs, const Arrays& values);

/// The case of a row that takes a kernel's longer ways.
Case large_case(const OpRow& row);
/// Whether a shape can lie in memory that way. An expanded input needs values that repeat.
bool applies(Layout layout, const Shape& shape);
/// The tensors of a case, each `first` elements into its memory, beside where its layout puts it. Floating ones are
/// leaves that require grad; memory between elements is NaN.
Inputs make_inputs(const Case& inputs, const Arrays& values, DType dtype, Device device = {}, std::int64_t first = 0);

Array to_array(const Tensor& x);

struct Evaluation {
  Array value;
  std::vector<Array> grads;  // by input, of the value times fixed weights; empty where there is none
};
/// Fixed weights, which every dtype holds exactly and which do not repeat soon; in y's layout where they do not begin
/// their memory.
Tensor weights_like(const Tensor& y, std::int64_t first = 0);
/// y = f(inputs), and backward of it times fixed weights. Reads no data.
Tensor forward_backward(const Function& f, const Inputs& inputs, std::int64_t first = 0);
/// The same on fresh tensors, read back. All tensors begin `first` elements into their memory.
Evaluation evaluate(const OpRow& row, const Case& inputs, const Arrays& values, DType dtype, Device device = {},
                    std::int64_t first = 0);

/// Also NaN counts as equal to itself.
testing::AssertionResult same_bits(const Evaluation& a, const Evaluation& b);

/// The CPU and every other device that this process can use.
std::vector<Device> available_devices();

/// "add 3: (3, 4) transposed, (4,)"
std::string describe_case(const OpRow& row, const Case& inputs, std::size_t number);

}  // namespace bytetape::test
