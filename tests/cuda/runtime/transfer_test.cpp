// What moves between the CPU and a GPU: copies in any layout and dtype, modules, batches, what is printed.
#include "bytetape/core/device/transfer.h"

#include <gmock/gmock.h>

#include <sstream>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

using CudaTransfer = GpuTest;

constexpr DType all_dtypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                                DType::i64, DType::i32, DType::u8,   DType::boolean};

constexpr int layouts = 5;
/// The base of a (6, 8) view, and the view, which lies in it in one of several manners.
Shape base_shape(int layout) {
  const Shape shapes[layouts] = {{6, 8}, {6, 12}, {8, 6}, {6, 8, 2}, {12, 9}};
  return shapes[layout];
}
Tensor view_of(const Tensor& base, int layout) {
  switch (layout) {
    case 0:
      return base;
    case 1:
      return narrow(base, 1, 3, 8);
    case 2:
      return transpose(base, 0, 1);
    case 3:
      return select(base, 2, 1);
    default:
      return narrow(narrow(base, 0, 2, 6), 1, 1, 8);
  }
}

/// 0, 1, 2, ..., whole numbers that every dtype but bool holds.
Tensor counted(const Shape& shape, DType dtype) { return reshape(to(arange(numel(shape)), dtype), shape); }

/// What a base of ones holds after a view of it took in a view of numbers.
std::vector<double> copied(DType from, Device from_device, int from_layout, DType into, Device into_device,
                           int into_layout) {
  const Tensor source = to(counted(base_shape(from_layout), from), from_device);
  const Tensor target = to(to(ones(base_shape(into_layout), DType::f32), into), into_device);
  copy_(view_of(target, into_layout), view_of(source, from_layout));
  return target.to_vector<double>();
}

TEST_F(CudaTransfer, CopiesAnyLayoutIntoAnyOther) {
  for (const DType from : all_dtypes)
    for (const DType into : all_dtypes)
      for (int a = 0; a < layouts; ++a)
        for (int b = 0; b < layouts; ++b) {
          const auto expected = copied(from, Device::cpu(), a, into, Device::cpu(), b);
          ASSERT_EQ(copied(from, Device::cpu(), a, into, gpu, b), expected) << from << ' ' << a << " to " << into << b;
          ASSERT_EQ(copied(from, gpu, a, into, Device::cpu(), b), expected)
              << from << ' ' << a << " from " << into << b;
          ASSERT_EQ(copied(from, gpu, a, into, gpu, b), expected) << from << ' ' << a << " within " << into << b;
        }
}

TEST_F(CudaTransfer, KeepsLayoutsAndValuesThereAndBack) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const Tensor x = random_tensor({3, 4, 5, 6}, dtype);
    for (const Tensor& y :
         {x, channels_last(x), transpose(x, 1, 3), narrow(x, 2, 1, 3), expand(select(x, 0, 1), {2, 4, 5, 6}),
          narrow(x, 0, 0, 0), select(select(select(select(x, 0, 1), 0, 1), 0, 1), 0, 1)}) {
      SCOPED_TRACE(detail::concat(describe(y), y.strides()));
      const Tensor there = to(y, gpu), back = to(there, Device::cpu());
      EXPECT_EQ(there.device(), gpu);
      EXPECT_EQ(back.to_vector<double>(), y.to_vector<double>());
      EXPECT_EQ(there.to_vector<double>(), y.to_vector<double>());
      EXPECT_EQ(back.strides(), empty_like(y).strides());
    }
  }
}

TEST_F(CudaTransfer, TakesInMuch) {  // more than the driver's own staging holds
  const Tensor x = random_tensor({3'000'001}, DType::f32), y = to(x, gpu);
  EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ((y * 2).to_vector<float>(), (x * 2).to_vector<float>());
}

// The host may write over what it sent as soon as the call is back.
TEST_F(CudaTransfer, HasReadItsSourceWhenItReturns) {
  constexpr std::int64_t n = 1 << 20;
  const Tensor product = rand({2048, 2048}, DType::f32, gpu), source = empty({n});
  std::vector<Tensor> sent;
  for (int i = 0; i < 20; ++i) {
    matmul(product, product);  // keeps the device busy
    fill_(source, i);
    sent.push_back(to(source, gpu));
  }
  fill_(source, -1);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(sent[static_cast<std::size_t>(i)].to_vector<float>(), std::vector<float>(n, static_cast<float>(i)));
}

TEST_F(CudaTransfer, PassesGradients) {
  Tensor x = random_leaf({4, 5});
  sum(to(to(x, gpu) * 3, Device::cpu()) * 2).backward();
  EXPECT_EQ(x.grad().device(), Device::cpu());
  EXPECT_EQ(x.grad().to_vector<double>(), std::vector<double>(20, 6));
}

std::string printed(const Tensor& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

TEST_F(CudaTransfer, PrintsAsTheCpuDoes) {
  const Tensor x = random_tensor({7, 9}, DType::f32), large = random_tensor({40, 9, 11}, DType::f64);
  const auto none = [](const Tensor& t) { return t; };
  const auto check = [](const Tensor& base, const std::function<Tensor(const Tensor&)>& view) {
    std::string expected = printed(view(base));
    const auto at = expected.rfind("on cpu");
    ASSERT_NE(at, std::string::npos);
    expected.replace(at, 6, detail::concat("on ", gpu));
    EXPECT_EQ(printed(view(to(base, gpu))), expected);
  };
  check(x, none);
  check(x, [](const Tensor& t) { return transpose(t, 0, 1); });
  check(x, [](const Tensor& t) { return narrow(t, 1, 2, 4); });
  check(x, [](const Tensor& t) { return select(select(t, 0, 3), 0, 4); });
  check(large, none);
  check(large, [](const Tensor& t) { return permute(t, {2, 0, 1}); });
  check(large, [](const Tensor& t) { return narrow(t, 0, 3, 31); });
  for (const DType dtype : all_dtypes) check(counted({3, 5}, dtype), none);
  check(empty({0, 3}), none);
}

TEST_F(CudaTransfer, TakesAModuleThereAndBack) {
  manual_seed(11);
  const std::size_t parameters_here = held_as(memory::Role::parameter);
  nn::Sequential net(nn::Conv2d(3, 6, 3), nn::BatchNorm2d(6), nn::ReLU(), nn::Flatten(), nn::Linear(6 * 4 * 4, 7));
  net.to(DType::f64);
  const Tensor x = random_tensor({5, 3, 6, 6});
  sum(net(x) * 0.1).backward();
  const std::size_t of_model = held_as(memory::Role::parameter) - parameters_here;
  const auto values = [&] {
    std::vector<std::vector<double>> all;
    for (const auto& [name, p] : net.state_dict()) {
      all.push_back(p.detach().to_vector<double>());
      if (p.grad().defined()) all.push_back(p.grad().to_vector<double>());
    }
    return all;
  };
  const auto before = values();
  const std::vector<Tensor> parameters = net.parameters();
  optim::SGD sgd(parameters, {.lr = 0.5});
  net.eval();
  const Tensor y = net(x).detach();

  net.to(gpu);
  for (const auto& [name, p] : net.state_dict()) {
    EXPECT_EQ(p.device(), gpu) << name;
    if (p.grad().defined()) { EXPECT_EQ(p.grad().device(), gpu) << name; }
  }
  EXPECT_EQ(parameters[0].device(), gpu) << "handles follow";
  EXPECT_EQ(held_as(memory::Role::parameter), parameters_here);
  EXPECT_EQ(held_as(memory::Role::parameter, gpu), of_model);
  EXPECT_EQ(values(), before);
  EXPECT_TRUE(all_close(net(to(x, gpu)).detach(), y, 1e-10, 1e-10));

  net.to(Device::cpu());
  EXPECT_EQ(values(), before);
  EXPECT_EQ(allocated(gpu), 0u);
  EXPECT_EQ(held_as(memory::Role::parameter), parameters_here + of_model);
  EXPECT_TRUE(all_close(net(x).detach(), y));

  net.to(gpu);
  sgd.step();
  net.to(Device::cpu());
  EXPECT_NE(values(), before);
}

TEST_F(CudaTransfer, LoadsAStateFromTheOtherDevice) {
  manual_seed(1);
  nn::Linear here(5, 3), there(5, 3);
  there.to(gpu);
  there.load_state_dict(here.state_dict());
  EXPECT_EQ(there.weight.detach().to_vector<float>(), here.weight.detach().to_vector<float>());
  EXPECT_EQ(there.bias.detach().device(), gpu);
}

class CudaLoader : public GpuTest, public testing::WithParamInterface<int> {};

TEST_P(CudaLoader, GivesTheBatchesOfTheCpu) {
  Generator g(8);
  const Tensor images = randint(0, 256, {61, 9, 7}, DType::u8, Device::cpu(), g);
  const Tensor labels = randint(0, 10, 61, DType::i64, Device::cpu(), g);
  for (const bool normalised : {false, true}) {
    const data::TensorDataset dataset(images, labels, normalised ? std::optional(data::mnist_normalize) : std::nullopt);
    data::DataLoaderOptions options{
        .batch_size = 8, .shuffle = true, .workers = GetParam(), .seed = 5, .device = Device::cpu()};
    data::DataLoader here(dataset, options);
    options.device = gpu;
    data::DataLoader there(dataset, options);
    for (int epoch = 0; epoch < 2; ++epoch) {
      auto expected = here.begin();
      int batches = 0;
      for (const data::Batch& batch : there) {
        ASSERT_FALSE(expected == here.end());
        EXPECT_EQ(batch.x.device(), gpu);
        EXPECT_EQ(batch.y.device(), gpu);
        EXPECT_EQ(batch.x.dtype(), expected->x.dtype());
        EXPECT_EQ(batch.x.shape(), expected->x.shape());
        EXPECT_EQ(batch.x.storage().role(), memory::Role::input);
        EXPECT_EQ(batch.x.to_vector<double>(), expected->x.to_vector<double>());
        EXPECT_EQ(batch.y.to_vector<std::int64_t>(), expected->y.to_vector<std::int64_t>());
        ++expected;
        ++batches;
      }
      EXPECT_EQ(batches, 8);
      EXPECT_TRUE(expected == here.end());
    }
  }
  EXPECT_EQ(allocated(gpu), 0u);
}

INSTANTIATE_TEST_SUITE_P(Workers, CudaLoader, testing::Values(0, 1, 3));

}  // namespace
}  // namespace bytetape::test
