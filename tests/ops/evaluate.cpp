#include "tests/ops/evaluate.h"
#include "bytetape/core/kernels/copy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <sstream>

#include "bytetape/core/device/transfer.h"
#include "bytetape/core/dispatch.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

std::vector<double> draw_values(Draw how, std::int64_t n, std::mt19937_64& generator) {
  std::vector<double> values = normal_values(n, generator);
  std::uniform_real_distribution<double> positive(0.5, 2), fractions(0.1, 0.9);
  std::uniform_int_distribution<int> classes(-1, 2), examples(0, 2), pixels(0, 255);
  switch (how) {
    case Draw::normal:
      break;
    case Draw::positive:
      for (double& v : values) v = positive(generator);
      break;
    case Draw::fractions:
      for (double& v : values) v = fractions(generator);
      break;
    case Draw::distinct:
      for (std::int64_t i = 0; i < n; ++i)
        values[static_cast<std::size_t>(i)] = (static_cast<double>(i - n / 2) + 0.5) * 0.1;
      std::shuffle(values.begin(), values.end(), generator);
      break;
    case Draw::halves:
      for (double& v : values) v = std::floor(v) + 0.5;
      break;
    case Draw::eighths:
      for (double& v : values) v = std::floor(4 * v) / 4 + 0.125;
      break;
    case Draw::boolean:
      for (double& v : values) v = v > 0;
      break;
    case Draw::classes:
      for (std::size_t i = 0; i < values.size(); ++i) {
        const int c = classes(generator);
        values[i] = c >= 0 ? c : i == 0 ? 1 : -100;
      }
      break;
    case Draw::examples:
      for (double& v : values) v = examples(generator);
      break;
    case Draw::pixels:
      for (double& v : values) v = pixels(generator);
      break;
    case Draw::special: {
      constexpr double inf = std::numeric_limits<double>::infinity();
      const double unusual[] = {std::numeric_limits<double>::quiet_NaN(), inf, -inf, 0.0, -0.0};
      for (std::size_t i = 1; i < values.size(); ++i)
        if (const auto k = generator() % 10; k < std::size(unusual)) values[i] = unusual[k];
    }
  }
  return values;
}

Draw draw_of(const OpRow& row, const Input& input) { return input.draw.value_or(row.draw); }

DType dtype_of_input(const Input& input, DType dtype) {
  if (input.dtype) return *input.dtype;
  if (input.draw == Draw::boolean) return DType::boolean;
  if (input.draw == Draw::pixels) return DType::u8;
  return input.draw == Draw::classes || input.draw == Draw::examples ? DType::i64 : dtype;
}

/// How a shape lies in a storage of `elements`.
struct Placement {
  Strides strides;
  std::int64_t offset = 0, elements = 0;
};

Placement place(Layout layout, const Shape& shape) {
  Placement p{contiguous_strides(shape), 0, numel(shape)};
  const int last = shape.size() - 1;
  Shape stored = shape;
  switch (layout) {
    case Layout::dense:
      break;
    case Layout::transposed:
      std::swap(stored[last], stored[last - 1]);
      p.strides = contiguous_strides(stored);
      std::swap(p.strides[last], p.strides[last - 1]);
      break;
    case Layout::narrowed:
      stored[last] += 2;
      p = {contiguous_strides(stored), 1, numel(stored)};
      break;
    case Layout::spaced:
      for (std::int64_t& s : p.strides) s *= 2;
      p.elements *= 2;
      break;
    case Layout::expanded:
      p.elements /= std::max<std::int64_t>(shape[0], 1);
      p.strides[0] = 0;
      break;
    case Layout::channels_last:
      p.strides = channels_last_strides(shape);
  }
  return p;
}

Tensor make_input(const Input& input, const Array& values, DType dtype, Device device, std::int64_t first) {
  if (!input.defined) return {};
  const DType t = dtype_of_input(input, dtype);
  const Device d = !input.is_elsewhere ? device : device.is_meta ? Device::cpu() : Device::meta();
  const Placement p = place(input.layout, input.shape);
  const Tensor storage = empty({first + p.elements}, t, d);
  run<&CopyKernels::fill>(d, Scalar(is_floating(t) ? std::numeric_limits<double>::quiet_NaN() : 0), storage.write());
  Tensor x = storage.alias(input.shape, p.strides, first + p.offset);
  const ConstView source(values.values.data(), DType::f64, Device::cpu(), values.shape,
                         contiguous_strides(values.shape));
  copy_across(source, x.write());  // expanded elements are written again and again, with one value
  if (is_floating(t)) x.set_requires_grad();
  return x;
}

}  // namespace

Case large_case(const OpRow& row) {
  Case inputs = row.large;
  for (std::size_t i = 0; row.large.empty() && i < row.cases[0].size(); ++i)
    inputs.push_back(i == 0 ? in(300, 401) : in(401));
  return inputs;
}

Array to_array(const Tensor& x) { return Array(x.shape(), x.to_vector<double>()); }

const char* to_string(Layout layout) {
  constexpr const char* text[] = {"", " transposed", " narrowed", " spaced", " expanded", " channels-last"};
  return text[static_cast<int>(layout)];
}

Input Input::as(DType t) const {
  Input i = *this;
  i.dtype = t;
  return i;
}
Input Input::elsewhere() const {
  Input i = *this;
  i.is_elsewhere = true;
  return i;
}
Input Input::with(Layout l) const {
  Input i = *this;
  i.layout = l;
  return i;
}
Input Input::drawn(Draw d) const {
  Input i = *this;
  i.draw = d;
  return i;
}

Arrays draw(const OpRow& row, const Case& inputs, std::uint64_t number) {
  std::mt19937_64 generator = generator_for(row.name(), number);
  Arrays drawn;
  for (const Input& input : inputs) {
    Shape shape = input.shape;
    if (input.layout == Layout::expanded) shape[0] = std::min<std::int64_t>(shape[0], 1);
    const Array source(shape, draw_values(draw_of(row, input), numel(shape), generator));
    Array& seen = drawn.emplace_back(input.shape);
    for_each_index(input.shape, [&](const Dims& at) { seen(at) = source(at); });
  }
  return drawn;
}

Arrays rounded_to(DType dtype, const Case& inputs, const Arrays& values) {
  Arrays rounded = values;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined && is_floating(dtype_of_input(inputs[i], dtype)))
      rounded[i].values = make_tensor(values[i].values, values[i].shape, dtype).to_vector<double>();
  return rounded;
}

bool applies(Layout layout, const Shape& shape) {
  if (layout == Layout::channels_last) return shape.size() == 4;
  if (layout == Layout::transposed) return shape.size() >= 2;
  return layout == Layout::dense || shape.size() >= 1;
}

Inputs make_inputs(const Case& inputs, const Arrays& values, DType dtype, Device device, std::int64_t first) {
  Inputs made;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    made.push_back(make_input(inputs[i], values[i], dtype, device, first));
  return made;
}

Tensor weights_like(const Tensor& y, std::int64_t first) {
  std::vector<double> weights(static_cast<std::size_t>(y.numel()));
  std::mt19937_64 generator(7);
  for (double& w : weights) {
    const auto bits = generator();
    w = (bits & 1 ? 0.25 : -0.25) * static_cast<double>(2 + (bits >> 8) % 5);
  }
  const Tensor dense = make_tensor(weights, y.shape(), y.dtype(), y.device());
  if (first == 0) return dense;
  const Strides strides = is_dense(y.shape(), y.strides()) ? y.strides() : contiguous_strides(y.shape());
  Tensor moved = empty({first + y.numel()}, y.dtype(), y.device()).alias(y.shape(), strides, first);
  copy_across(dense, moved);
  return moved;
}

Tensor forward_backward(const Function& f, const Inputs& inputs, std::int64_t first) {
  Tensor y = f(inputs);
  if (y.requires_grad()) y.backward(weights_like(y, first));
  return y;
}

Evaluation evaluate(const OpRow& row, const Case& inputs, const Arrays& values, DType dtype, Device device,
                    std::int64_t first) {
  const Inputs x = make_inputs(inputs, values, dtype, device, first);
  Evaluation e{to_array(forward_backward(row.f, x, first)), {}};
  for (const Tensor& input : x)
    e.grads.push_back(input.defined() && input.grad().defined() ? to_array(input.grad()) : Array());
  return e;
}

testing::AssertionResult same_bits(const Evaluation& a, const Evaluation& b) {
  const auto are_equal = [](const Array& x, const Array& y) {
    const auto bits = [](double v) { return std::bit_cast<std::uint64_t>(v); };
    return std::ranges::equal(x.values, y.values, {}, bits, bits);
  };
  if (!are_equal(a.value, b.value)) return testing::AssertionFailure() << "the values differ";
  for (std::size_t i = 0; i < a.grads.size(); ++i)
    if (!are_equal(a.grads[i], b.grads[i]))
      return testing::AssertionFailure() << "the gradients of input " << i << " differ";
  return testing::AssertionSuccess();
}

std::vector<Device> available_devices() {
  return is_available(own_gpu()) ? std::vector{Device::cpu(), own_gpu()} : std::vector{Device::cpu()};
}

std::string describe_case(const OpRow& row, const Case& inputs, std::size_t number) {
  std::ostringstream text;
  text << row.name() << " case " << number << ":";
  for (const Input& i : inputs)
    if (i.defined)
      text << ' ' << i.shape << to_string(i.layout);
    else
      text << " undefined";
  text << " (BYTETAPE_TEST_SEED=" << seed() << ")";
  return text.str();
}

}  // namespace bytetape::test
