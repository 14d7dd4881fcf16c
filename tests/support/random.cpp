#include "tests/support/random.h"

#include <cstdlib>

#include "bytetape/core/device/transfer.h"

namespace bytetape::test {

std::uint64_t seed() {
  static const char* text = std::getenv("BYTETAPE_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 20250607;
}

std::mt19937_64 generator_for(std::string_view name, std::uint64_t number) {
  std::uint64_t hash = 14695981039346656037u ^ seed();  // FNV-1a: std::hash may differ from library to library
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return std::mt19937_64(hash + number * 0x9e3779b97f4a7c15u);
}

std::vector<double> normal_values(std::int64_t n, std::mt19937_64& generator) {
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(n));
  for (double& v : values) v = normal(generator);
  return values;
}

Tensor make_tensor(const std::vector<double>& values, const Shape& shape, DType dtype, Device device) {
  check(numel(shape) == static_cast<std::int64_t>(values.size()), values.size(), " values for shape ", shape);
  Tensor x = empty(shape, dtype, device);
  const ConstView source(values.data(), DType::f64, Device::cpu(), shape, contiguous_strides(shape));
  copy_across(source, x.write());
  return x;
}

Tensor random_tensor(const Shape& shape, DType dtype) {
  static std::mt19937_64 generator = generator_for("random_tensor");
  return make_tensor(normal_values(numel(shape), generator), shape, dtype);
}

Tensor random_leaf(const Shape& shape, DType dtype) { return random_tensor(shape, dtype).set_requires_grad(); }

}  // namespace bytetape::test
