// The numbers of a seed are the same on both devices.
#include "bytetape/core/random.h"

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

const Shape shapes[] = {{}, {1}, {2}, {3}, {5}, {7, 9}, {1023}, {4, 1024}, {3, 5, 7, 11}, {100003}, {0, 3}};

/// Draws twice, so that the second is somewhere within the stream, and reads both back.
template <class Make>
std::vector<std::vector<double>> draw_twice(Device device, const Make& make) {
  Generator g(1234);
  const auto one = make(device, g).template to_vector<double>();
  const auto two = make(device, g).template to_vector<double>();
  const PhiloxState end = g.state();
  return {one, two, {static_cast<double>(end.seed), static_cast<double>(end.offset)}};
}

/// The same bits on both devices; a float and an i64 below 2^53 is exact as a double.
template <class Make>
void expect_same_bits(const Make& make) {
  const auto here = draw_twice(Device::cpu(), make), there = draw_twice(gpu, make);
  for (std::size_t k = 0; k < here.size(); ++k) {
    ASSERT_EQ(there[k].size(), here[k].size());
    for (std::size_t i = 0; i < here[k].size(); ++i)
      ASSERT_EQ(there[k][i], here[k][i]) << "draw " << k << ", element " << i;
  }
}

/// fill(part) for parts of a larger tensor that lie in all manners; gives the whole tensor each time.
template <class Fill>
auto into_parts(DType dtype, int manner, const Fill& fill) {
  return [=](Device device, Generator& g) {
    const Tensor all = full({6, 10, 5, 3}, 7, dtype, device);
    switch (manner) {
      case 0:
        fill(narrow(all, 1, 1, 7), g);
        break;
      case 1:
        fill(transpose(all, 0, 3), g);
        break;
      case 2:
        fill(select(all, 3, 1), g);
        break;
      case 3:
        fill(permute(narrow(all, 2, 1, 3), {0, 3, 1, 2}), g);
        break;
      default:
        fill(select(select(select(all, 0, 2), 0, 3), 0, 1), g);  // three elements
    }
    return all;
  };
}
constexpr int manners = 5;

using CudaRandom = GpuTest;

TEST_F(CudaRandom, UniformsAreTheSameBits) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(detail::concat(dtype, shape));
      expect_same_bits([&](Device device, Generator& g) { return rand(shape, dtype, device, g); });
      expect_same_bits(
          [&](Device device, Generator& g) { return uniform_(empty(shape, dtype, device), -0.3, 1.7, g); });
    }
    for (int manner = 0; manner < manners; ++manner) {
      SCOPED_TRACE(detail::concat(dtype, " manner ", manner));
      expect_same_bits(into_parts(dtype, manner, [](const Tensor& x, Generator& g) { uniform_(x, -2, 5, g); }));
    }
  }
}

TEST_F(CudaRandom, IntegersAreTheSameBits) {
  for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::f32, DType::f64})
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(detail::concat(dtype, shape));
      const std::int64_t low = dtype == DType::u8 ? 3 : -100;
      expect_same_bits([&](Device device, Generator& g) { return randint(low, 201, shape, dtype, device, g); });
    }
  expect_same_bits([](Device device, Generator& g) { return randint(0, 2, {999}, DType::boolean, device, g); });
  const auto wide = [](Device device) {
    Generator g(5);
    return randint(-(std::int64_t{1} << 62), std::int64_t{1} << 62, {777}, DType::i64, device, g)
        .to_vector<std::int64_t>();
  };
  EXPECT_EQ(wide(gpu), wide(Device::cpu()));
}

TEST_F(CudaRandom, PermutationsAreTheSame) {
  for (const std::int64_t n : {0, 1, 2, 3, 5, 31, 1000, 65537, 1000003}) {
    SCOPED_TRACE(n);
    expect_same_bits([&](Device device, Generator& g) { return randperm(n, device, g); });
  }
}

TEST_F(CudaRandom, NormalsAreTheSameToRounding) {
  const auto expect_near = [](DType dtype, const auto& make) {
    const auto here = draw_twice(Device::cpu(), make), there = draw_twice(gpu, make);
    const double ulp = dtype == DType::f64 ? 1e-14 : dtype == DType::f32 ? 2.5e-7 : dtype == DType::f16 ? 2e-3 : 1.6e-2;
    for (std::size_t k = 0; k < here.size(); ++k) EXPECT_TRUE(all_close(there[k], here[k], ulp, 1e-14));
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(detail::concat(dtype, shape));
      expect_near(dtype, [&](Device device, Generator& g) { return randn(shape, dtype, device, g); });
    }
    for (int manner = 0; manner < manners; ++manner) {
      SCOPED_TRACE(detail::concat(dtype, " manner ", manner));
      expect_near(dtype, into_parts(dtype, manner, [](const Tensor& x, Generator& g) { normal_(x, 0, 3, g); }));
    }
  }
}

/// Where dropout of ones kept an element, and what it made of it; then the same of the gradient.
std::vector<std::vector<double>> dropped(Device device, const Tensor& ones, double p) {
  Generator g(99);
  g.take(17);
  Tensor x = empty_strided(ones.shape(), ones.strides(), ones.dtype(), device);
  copy_(x, ones);
  x.set_requires_grad();
  const Tensor y = dropout(x, p, true, g);
  sum(y).backward();
  return {y.to_vector<double>(), x.grad().to_vector<double>()};
}

TEST_F(CudaRandom, DropoutMasksAreTheSame) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const double p : {0.25, 0.5, 0.9, 1.0}) {
      for (const Shape& shape : shapes) {
        SCOPED_TRACE(detail::concat(dtype, shape, " p = ", p));
        const Tensor x = ones(shape, dtype);
        EXPECT_EQ(dropped(gpu, x, p), dropped(Device::cpu(), x, p));
      }
      for (const Tensor& x : {transpose(ones({31, 47}, dtype), 0, 1), channels_last(ones({3, 5, 7, 9}, dtype))}) {
        SCOPED_TRACE(detail::concat(describe(x), " p = ", p));
        const auto there = dropped(gpu, x, p);
        EXPECT_EQ(there, dropped(Device::cpu(), x, p));
        EXPECT_EQ(there[0], there[1]);
        EXPECT_EQ(there, dropped(gpu, contiguous(x), p)) << "elements are counted row-major";
      }
    }
}

TEST_F(CudaRandom, DropoutOfAViewIsThatOfItsElements) {
  const Tensor all = random_tensor({9, 20}, DType::f64);
  const auto run = [&](Device device) {
    Generator g(4);
    return dropout(narrow(to(all, device), 1, 3, 11), 0.4, true, g).to_vector<double>();
  };
  EXPECT_TRUE(all_close(run(gpu), run(Device::cpu()), 1e-15, 0));
}

}  // namespace
}  // namespace bytetape::test
