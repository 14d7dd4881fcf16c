// Kernels take each of their views as it lies: one result, whatever the layouts, and whichever go together. Ops make
// only some of these combinations today.
#include <algorithm>
#include <functional>
#include <numeric>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/batch_norm.h"
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/kernels/dropout.h"
#include "bytetape/core/kernels/indexing.h"
#include "bytetape/core/kernels/interpolate.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/kernels/pool.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::random_tensor;
using Tensors = std::vector<Tensor>;

/// The order of a tensor's dims in memory, and whether there are gaps between its elements, or only between rows.
struct Layout {
  std::vector<int> order;
  bool has_gaps = false, has_gaps_of_rows = false;
};

Tensor empty_in(const Layout& layout, const Shape& shape, DType dtype) {
  Shape permuted;
  for (const int d : layout.order) permuted.push_back(shape[d]);
  if (layout.has_gaps) permuted.push_back(2);
  if (layout.has_gaps_of_rows)
    for (int i = 1; i < shape.size(); ++i) ++permuted[i];
  Tensor x = full(permuted, 7, dtype);
  if (layout.has_gaps_of_rows)
    for (int i = 1; i < shape.size(); ++i) x = narrow(x, i, 1, permuted[i] - 1);
  if (layout.has_gaps) x = select(x, x.rank() - 1, 1);
  Dims back = shape;
  for (int i = 0; i < shape.size(); ++i) back[layout.order[static_cast<std::size_t>(i)]] = i;
  return permute(x, back);
}

/// Every order of so many dims with and without gaps.
std::vector<Layout> all_layouts(int rank) {
  std::vector<Layout> all;
  std::vector<int> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  do {
    all.push_back({order, false});
    all.push_back({order, true});
  } while (std::next_permutation(order.begin(), order.end()));
  return all;
}

const std::vector<Layout> image_layouts{{{0, 1, 2, 3}, false},
                                        {{0, 2, 3, 1}, false},
                                        {{0, 1, 2, 3}, true},
                                        {{0, 2, 3, 1}, true},
                                        {{0, 2, 3, 1}, false, true}};

/// A kernel of some inputs and outputs, which may write into them.
struct Kernel {
  Tensors inputs, outputs;  // the latter are of the wanted shapes and dtypes
  std::function<void(const Tensors& inputs, const Tensors& outputs)> run;
};

/// Runs a kernel with all its views in each combination of layouts.
void expect_one_result(const char* name, const Kernel& k, const std::vector<Layout>& layouts, double tolerance) {
  const std::size_t count = k.inputs.size() + k.outputs.size();
  Tensors expected;
  std::vector<std::size_t> chosen(count);
  for (;;) {
    std::size_t next = 0;
    std::string which;
    const auto lay = [&](const Tensor& x, bool fills) {
      const std::size_t layout = chosen[next++];
      which += " " + std::to_string(layout);
      const Tensor y = empty_in(layouts[layout], x.shape(), x.dtype());
      if (fills) copy_(y, x);
      return y;
    };
    Tensors inputs, outputs;
    for (const Tensor& x : k.inputs) inputs.push_back(lay(x, true));
    for (const Tensor& y : k.outputs) outputs.push_back(lay(y, false));
    k.run(inputs, outputs);
    if (expected.empty())
      expected = outputs;
    else
      for (std::size_t i = 0; i < outputs.size(); ++i)
        ASSERT_TRUE(test::all_close(outputs[i], expected[i], tolerance, tolerance))
            << name << " of " << describe(k.inputs[0]) << ", output " << i << ", layouts" << which;
    std::size_t i = 0;
    while (i < count && ++chosen[i] == layouts.size()) chosen[i++] = 0;
    if (i == count) return;
  }
}

void expect_one_result(const char* name, const std::function<Kernel(DType)>& kernel,
                       const std::vector<Layout>& layouts) {
  expect_one_result(name, kernel(DType::f32), layouts, 1e-5);
  expect_one_result(name, kernel(DType::f64), layouts, 1e-12);
}

const Device on_cpu = Device::cpu();

TEST(KernelLayouts, OfMaxPools) {
  const Pool2dParams p{{3, 2}, {2, 2}, {1, 0}};
  const auto with_indices = [&](DType dtype) {
    return Kernel{{random_tensor({2, 5, 6, 4}, dtype)},
                  {empty({2, 5, 3, 2}, dtype), empty({2, 5, 3, 2}, DType::u8)},
                  [&](const Tensors& in, const Tensors& out) {
                    run<&PoolKernels::max_pool2d>(on_cpu, in[0].read(), p, Activation::relu, out[0].write(),
                                                  out[1].write());
                  }};
  };
  expect_one_result("max_pool2d", with_indices, image_layouts);
  const auto alone = [&](DType dtype) {
    return Kernel{
        {random_tensor({2, 5, 6, 4}, dtype)}, {empty({2, 5, 3, 2}, dtype)}, [&](const Tensors& in, const Tensors& out) {
          run<&PoolKernels::max_pool2d>(on_cpu, in[0].read(), p, Activation::none, out[0].write(), View());
        }};
  };
  expect_one_result("max_pool2d without indices", alone, image_layouts);
  const auto chosen = [&](DType dtype) {
    const Tensor x = random_tensor({2, 5, 6, 4}, dtype), y = empty({2, 5, 3, 2}, dtype),
                 indices = empty({2, 5, 3, 2}, DType::u8);
    run<&PoolKernels::max_pool2d>(on_cpu, x.read(), p, Activation::none, y.write(), indices.write());
    return indices;
  };
  const auto backward = [&](DType dtype) {
    return Kernel{{random_tensor({2, 5, 3, 2}, dtype), chosen(dtype)},
                  {empty({2, 5, 6, 4}, dtype)},
                  [&](const Tensors& in, const Tensors& out) {
                    run<&PoolKernels::max_pool2d_backward>(on_cpu, in[0].read(), in[1].read(), p, out[0].write());
                  }};
  };
  expect_one_result("max_pool2d_backward", backward, image_layouts);
  const auto gather = [&](DType dtype) {
    return Kernel{{random_tensor({2, 5, 6, 4}, dtype), chosen(dtype)},
                  {empty({2, 5, 3, 2}, dtype)},
                  [&](const Tensors& in, const Tensors& out) {
                    run<&PoolKernels::max_pool2d_gather>(on_cpu, in[0].read(), in[1].read(), p, out[0].write());
                  }};
  };
  expect_one_result("max_pool2d_gather", gather, image_layouts);
}

/// Kernels from images of one size to images of another.
void expect_one_map(const char* name, const Shape& from, const Shape& to,
                    const std::function<void(const ConstView&, const View&)>& map) {
  const auto kernel = [&](DType dtype) {
    return Kernel{{random_tensor(from, dtype)}, {empty(to, dtype)}, [&](const Tensors& in, const Tensors& out) {
                    map(in[0].read(), out[0].write());
                  }};
  };
  expect_one_result(name, kernel, image_layouts);
}

TEST(KernelLayouts, OfAveragePoolsAndInterpolation) {
  const Shape large{2, 5, 6, 4}, small{2, 5, 3, 2};
  const Pool2dParams p{{3, 2}, {2, 2}, {1, 0}};
  for (const bool counts : {true, false}) {
    expect_one_map("avg_pool2d", large, small,
                   [&](auto& x, auto& y) { run<&PoolKernels::avg_pool2d>(on_cpu, x, p, counts, y); });
    expect_one_map("avg_pool2d_backward", small, large,
                   [&](auto& gy, auto& gx) { run<&PoolKernels::avg_pool2d_backward>(on_cpu, gy, p, counts, gx); });
  }
  expect_one_map("adaptive_avg_pool2d", large, small,
                 [&](auto& x, auto& y) { run<&PoolKernels::adaptive_avg_pool2d>(on_cpu, x, y); });
  expect_one_map("adaptive_avg_pool2d_backward", small, large,
                 [&](auto& gy, auto& gx) { run<&PoolKernels::adaptive_avg_pool2d_backward>(on_cpu, gy, gx); });
  for (const InterpolationMode mode : {InterpolationMode::nearest, InterpolationMode::bilinear}) {
    const InterpolateParams to_large{.mode = mode, .steps = {0.5, 0.5}};
    expect_one_map("interpolate", small, large,
                   [&](auto& x, auto& y) { run<&InterpolateKernels::interpolate>(on_cpu, x, to_large, y); });
    expect_one_map("interpolate_backward", large, small, [&](auto& gy, auto& gx) {
      run<&InterpolateKernels::interpolate_backward>(on_cpu, gy, to_large, gx);
    });
  }
}

TEST(KernelLayouts, OfDropout) {
  for (const Shape& shape : {Shape{2, 5, 3, 8}, Shape{2, 5, 3, 6}, Shape{2, 1, 3, 8}, Shape{2, 70, 1, 4}})
    expect_one_map("dropout", shape, shape, [](auto& x, auto& y) {
      run_planned<&DropoutKernels::dropout>(on_cpu, {{3, 8}, 0.4, x, y});
    });
}

// Draws are counted row-major. Memory for a row-major copy is needed only where they cannot be made as y lies.
TEST(KernelLayouts, DropoutTakesMemoryOnlyForOtherLayouts) {
  const auto workspace = [](const Tensor& x, const Tensor& y) {
    return cpu::kernels().find(&DropoutKernels::dropout).plan({{3, 8}, 0.4, x.read(), y.write()}).workspace;
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = zeros({2, 5, 3, 8}, dtype), images = channels_last(x), narrow_images = zeros({2, 5, 3, 6}, dtype);
    const std::size_t bytes = x.nbytes();
    EXPECT_EQ(workspace(x, x), 0u);
    EXPECT_EQ(workspace(images, x), 0u);
    EXPECT_EQ(workspace(images, images), 0u);
    EXPECT_EQ(workspace(x, images), 0u);
    EXPECT_EQ(workspace(transpose(x, 0, 1), transpose(x, 0, 1)), bytes);
    EXPECT_EQ(workspace(narrow_images, channels_last(narrow_images)), 0u);
    EXPECT_EQ(workspace(channels_last(narrow_images), channels_last(narrow_images)), narrow_images.nbytes());
  }
}

/// Computes the mean and variance of x's channels, beside the result.
void run_train(const Tensor& x, const Tensor& mean, const Tensor& var) {
  const Tensor y = empty_like(x);
  run_planned<&BatchNormKernels::batch_norm_train>(
      on_cpu, {{x.read(), mean.write(), var.write(), 0.1, {}, {}, {}},
               {x.read(), {}, {}, mean.read(), var.read(), {}, 1e-5, Activation::none, y.write()}});
}

TEST(KernelLayouts, OfBatchNorm) {
  const Shape shape{3, 5, 2, 3};
  const auto statistics = [&](DType dtype) {
    return Kernel{
        {random_tensor(shape, dtype)}, {empty({5, 1, 1, 2}, dtype)}, [](const Tensors& in, const Tensors& out) {
          const Tensor mean = empty({5}, in[0].dtype()), var = empty({5}, in[0].dtype());
          run_train(in[0], mean, var);
          copy_(select(out[0], 3, 0), reshape(mean, {5, 1, 1}));
          copy_(select(out[0], 3, 1), reshape(var, {5, 1, 1}));
        }};
  };
  expect_one_result("batch_norm_statistics", statistics, image_layouts);
  const auto channels = [](DType dtype) { return random_tensor({5}, dtype); };
  for (const Activation activation : {Activation::none, Activation::relu}) {
    const auto apply = [&](DType dtype) {
      const Tensor w = channels(dtype), b = channels(dtype), mean = channels(dtype), var = full({5}, 2, dtype);
      return Kernel{{random_tensor(shape, dtype), random_tensor(shape, dtype)},
                    {empty(shape, dtype)},
                    [=](const Tensors& in, const Tensors& out) {
                      run<&BatchNormKernels::batch_norm_apply>(
                          on_cpu, BatchNormApplyArgs{in[0].read(), w.read(), b.read(), mean.read(), var.read(),
                                                     in[1].read(), 1e-5, activation, out[0].write()});
                    }};
    };
    expect_one_result("batch_norm_apply", apply, image_layouts);
    for (const bool training : {true, false}) {
      const auto backward = [&](DType dtype) {
        const Tensor w = channels(dtype), b = channels(dtype), mean = channels(dtype), var = full({5}, 2, dtype);
        return Kernel{{random_tensor(shape, dtype), random_tensor(shape, dtype)},
                      {empty(shape, dtype)},
                      [=](const Tensors& in, const Tensors& out) {
                        const Tensor gw = empty({5}, in[0].dtype()), gb = empty({5}, in[0].dtype());
                        run_planned<&BatchNormKernels::batch_norm_backward>(on_cpu, {in[0].read(),
                                                                                     w.read(),
                                                                                     b.read(),
                                                                                     mean.read(),
                                                                                     var.read(),
                                                                                     {},
                                                                                     in[1].read(),
                                                                                     1e-5,
                                                                                     training,
                                                                                     activation,
                                                                                     {},
                                                                                     out[0].write(),
                                                                                     gw.write(),
                                                                                     gb.write()});
                        add_(out[0], reshape(gw + gb * 3, {1, 5, 1, 1}));
                      }};
      };
      expect_one_result("batch_norm_backward", backward, image_layouts);
    }
  }
}

// Distances are taken from a channel's first pixel, unless they would overflow.
TEST(BatchNormStatistics, OfValuesFarFromZero) {
  const auto statistics = [](const Tensor& x) {
    const Tensor mean = empty({x.size(1)}, x.dtype()), var = empty({x.size(1)}, x.dtype());
    run_train(x, mean, var);
    return std::pair(mean.to_vector<double>(), var.to_vector<double>());
  };
  const Shape shape{40, 3, 8, 8};
  const Tensor noise = random_tensor(shape, DType::f32);
  const auto [mean, var] = statistics(to(noise, DType::f64));
  for (const Tensor& x : {to(noise, DType::f64) + 1e6, channels_last(to(noise, DType::f64) + 1e6)})
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto [far_mean, far_var] = statistics(to(x, dtype));
      for (std::size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(far_mean[c], mean[c] + 1e6, 0.07) << dtype;
        EXPECT_NEAR(far_var[c], var[c], 0.01) << dtype;
      }
    }
  const Tensor huge = test::make_tensor({3e38, -3e38, -3e38, 3e38}, {2, 1, 1, 2}, DType::f32);
  for (const Tensor& x : {huge, empty_in({{0, 1, 2, 3}, true}, huge.shape(), DType::f32)}) {
    copy_(x, huge);
    EXPECT_EQ(statistics(x).first[0], 0);
  }
}

TEST(KernelLayouts, OfIndexing) {
  const Tensor index = from_vector<std::int64_t>({2, 0, 2, 1});
  for (const int dim : {0, 1, 2}) {
    Shape shape{3, 3, 3};
    shape[dim] = 4;
    const auto select = [&](DType dtype) {
      return Kernel{
          {random_tensor({3, 3, 3}, dtype)}, {empty(shape, dtype)}, [&](const Tensors& in, const Tensors& out) {
            run<&IndexingKernels::index_select>(on_cpu,
                                                IndexSelectArgs{in[0].read(), index.read(), dim, out[0].write()});
          }};
    };
    expect_one_result("index_select", select, all_layouts(3));
    const auto sum = [&](DType dtype) {
      return Kernel{
          {random_tensor(shape, dtype)}, {empty({3, 3, 3}, dtype)}, [&](const Tensors& in, const Tensors& out) {
            run_planned<&IndexingKernels::index_sum>(on_cpu, {in[0].read(), index.read(), dim, out[0].write()});
          }};
    };
    expect_one_result("index_sum", sum, all_layouts(3));
  }
}

TEST(KernelLayouts, AnIndexOutOfRangeAddsNothing) {
  const Tensor x = test::make_tensor({1, 2, 3, 4}, {4, 1}), y = empty({2, 1}, DType::f64),
               index = from_vector<std::int64_t>({1, -1, 3, 1});
  run_planned<&IndexingKernels::index_sum>(on_cpu, {x.read(), index.read(), 0, y.write()});
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{0, 5}));
}

// Larger than the tiles in which rows become columns.
TEST(KernelLayouts, OfCopies) {
  for (const auto& [from, to] : {std::pair(DType::f32, DType::f32),
                                 {DType::u8, DType::u8},
                                 {DType::f64, DType::f64},
                                 {DType::bf16, DType::bf16},
                                 {DType::f32, DType::f64},
                                 {DType::f64, DType::bf16}}) {
    const Tensor x = view(bytetape::to(arange(3 * 17 * 21), from), {3, 17, 21});
    const Kernel copy{{x}, {empty(x.shape(), to)}, [](const Tensors& in, const Tensors& out) {
                        run<&CopyKernels::copy>(on_cpu, in[0].read(), out[0].write());
                      }};
    expect_one_result("copy", copy, all_layouts(3), 0);
  }
}

// The portable kernels: oneDNN's take images as the ops make them.
TEST(KernelLayouts, OfConvolutions) {
  const std::vector<Layout> layouts{{{0, 1, 2, 3}}, {{0, 2, 3, 1}}};
  const ConvKernels& kernels = cpu::portable::conv_kernels();
  for (const std::int64_t groups : {1, 2})
    for (const Conv2dParams& p :
         {Conv2dParams{{1, 2}, {1, 0}, 1, groups}, Conv2dParams{{2, 1}, {0, 2}, {1, 2}, groups}}) {
      const Shape x{2, 4, 5, 6}, weight{6, 4 / groups, 3, 2};
      Shape y{2, 6, 0, 0};
      for (int i = 0; i < 2; ++i)
        y[2 + i] = (x[2 + i] + 2 * p.padding[i] - p.dilation[i] * (weight[2 + i] - 1) - 1) / p.stride[i] + 1;
      for (const DType dtype : {DType::f32, DType::f64}) {
        const auto check = [&](const char* name, const Kernel& k) {
          expect_one_result(name, k, layouts, dtype == DType::f32 ? 1e-4 : 1e-11);
        };
        const auto launch = [](const auto& kernel, const auto& args) {
          const Plan plan = kernel.plan(args);
          const Tensor memory = empty({static_cast<std::int64_t>(plan.workspace)}, DType::u8);  // aligned
          kernel.launch(args, plan, {memory.write().data(), plan.workspace});
        };
        const Tensor bias = random_tensor({6}, dtype);
        check("conv2d",
              {{random_tensor(x, dtype), random_tensor(weight, dtype)},
               {empty(y, dtype)},
               [&](const Tensors& in, const Tensors& out) {
                 launch(kernels.conv2d, Conv2dArgs{in[0].read(), in[1].read(), bias.read(), out[0].write(), p});
               }});
        check("conv2d_input_grad",
              {{random_tensor(y, dtype), random_tensor(weight, dtype)},
               {empty(x, dtype)},
               [&](const Tensors& in, const Tensors& out) {
                 launch(kernels.conv2d_input_grad, Conv2dInputGradArgs{in[0].read(), in[1].read(), out[0].write(), p});
               }});
        check("conv2d_weight_grad", {{random_tensor(x, dtype), random_tensor(y, dtype)},
                                     {empty(weight, dtype)},
                                     [&](const Tensors& in, const Tensors& out) {
                                       launch(kernels.conv2d_weight_grad,
                                              Conv2dWeightGradArgs{in[0].read(), in[1].read(), out[0].write(), {}, p});
                                     }});
      }
    }
}

/// y (b, m, n) = a @ b + bias with each in every layout, and b or bias repeated for the batch or for rows.
TEST(KernelLayouts, OfMatmul) {
  const std::vector<Layout> layouts{
      {{0, 1, 2}, false}, {{0, 2, 1}, false}, {{0, 1, 2}, true}, {{0, 1, 2}, false, true}};
  const auto kernel = [](const Shape& a, const Shape& b, const Shape& bias, const Shape& y) {
    return [=](DType dtype) {
      Tensors in{random_tensor(a, dtype), random_tensor(b, dtype)};
      if (bias.size()) in.push_back(random_tensor(bias, dtype));
      return Kernel{in, {empty(y, dtype)}, [y](const Tensors& in, const Tensors& out) {
                      const std::int64_t batch = y[0], m = y[1], n = y[2], k = in[0].size(2);
                      const Tensor a = expand(in[0], {batch, m, k}), b = expand(in[1], {batch, k, n}),
                                   bias = in.size() > 2 ? expand(in[2], y) : Tensor();
                      run_planned<&MatmulKernels::matmul>(
                          on_cpu, {a.read(), b.read(), bias.defined() ? bias.read() : ConstView(), out[0].write()});
                    }};
    };
  };
  for (const Shape& bias : {Shape{}, Shape{1, 3, 4}, Shape{2, 3, 4}})
    expect_one_result("matmul with one b", kernel({2, 3, 5}, {1, 5, 4}, bias, {2, 3, 4}), layouts);
  for (const Shape& bias : {Shape{}, Shape{1, 1, 4}, Shape{2, 1, 4}, Shape{2, 3, 1}})
    expect_one_result("matmul", kernel({2, 3, 5}, {2, 5, 4}, bias, {2, 3, 4}), layouts);
  expect_one_result("matmul with one a", kernel({1, 3, 5}, {2, 5, 4}, {}, {2, 3, 4}), layouts);
  expect_one_result("matmul of one row", kernel({1, 1, 5}, {1, 5, 4}, {}, {1, 1, 4}), layouts);
  expect_one_result("matmul to one column", kernel({2, 3, 5}, {2, 5, 1}, {}, {2, 3, 1}), layouts);
  expect_one_result("matmul over one", kernel({2, 3, 1}, {2, 1, 4}, {}, {2, 3, 4}), layouts);
}

// A dim of one element has any stride.
TEST(KernelLayouts, MatmulTakesNoMemoryForStridesThatMeanNothing) {
  const auto workspace = [](const Tensor& a, const Tensor& b, const Tensor& y) {
    return cpu::kernels().find(&MatmulKernels::matmul).plan({a.read(), b.read(), {}, y.write()}).workspace;
  };
  const Tensor row = zeros({1, 1, 5}), matrix = zeros({1, 5, 4}), y = zeros({1, 1, 4}), rows = zeros({1, 3, 5}),
               column = zeros({1, 5, 1}), one = zeros({1, 3, 1});
  EXPECT_EQ(workspace(row.alias(row.shape(), {1, 1, 1}, 0), matrix, y), workspace(row, matrix, y));
  EXPECT_EQ(workspace(row, matrix, y.alias(y.shape(), {1, 1, 1}, 0)), workspace(row, matrix, y));
  const Tensor spaced = zeros({1, 1, 10}).alias({1, 1, 5}, {1, 1, 2}, 0);
  EXPECT_EQ(workspace(spaced.alias(spaced.shape(), {9, 9, 2}, 0), matrix, y), workspace(spaced, matrix, y));
  EXPECT_EQ(workspace(rows, column.alias(column.shape(), {7, 1, 3}, 0), one), workspace(rows, column, one));
  EXPECT_EQ(workspace(rows, column, one.alias(one.shape(), {7, 1, 3}, 0)), workspace(rows, column, one));
}

}  // namespace
}  // namespace bytetape
