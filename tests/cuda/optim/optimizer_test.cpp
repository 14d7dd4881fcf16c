// Steps of every optimizer against the CPU's.
#include "bytetape/optim/optimizer.h"

#include <functional>
#include <memory>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

using Make = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;

Make sgd(const optim::SGDOptions& options) {
  return [=](std::vector<Tensor> p) { return std::make_unique<optim::SGD>(std::move(p), options); };
}
Make adam(const optim::AdamOptions& options) {
  return [=](std::vector<Tensor> p) { return std::make_unique<optim::Adam>(std::move(p), options); };
}
Make rmsprop(const optim::RMSpropOptions& options) {
  return [=](std::vector<Tensor> p) { return std::make_unique<optim::RMSprop>(std::move(p), options); };
}
Make adamw(const optim::AdamWOptions& options) {
  return [=](std::vector<Tensor> p) { return std::make_unique<optim::AdamW>(std::move(p), options); };
}

/// In groups of every n-th parameter, each with options of its own.
std::vector<optim::ParamGroup> groups_of(const std::vector<Tensor>& parameters, std::size_t n) {
  std::vector<optim::ParamGroup> groups(n);
  for (std::size_t i = 0; i < parameters.size(); ++i) groups[i % n].params.push_back(parameters[i]);
  for (std::size_t g = 0; g < n; ++g) {
    groups[g].lr = 0.01 * static_cast<double>(1 + g);
    groups[g].weight_decay = 0.001 * static_cast<double>(g);
  }
  return groups;
}
Make grouped_sgd(std::size_t n) {
  return [=](const std::vector<Tensor>& p) {
    auto groups = groups_of(p, n);
    groups[0].momentum = 0;
    return std::make_unique<optim::SGD>(groups, optim::SGDOptions{.momentum = 0.9, .dampening = 0.1});
  };
}
Make grouped_adamw(std::size_t n) {
  return [=](const std::vector<Tensor>& p) {
    auto groups = groups_of(p, n);
    groups[n - 1].betas = {{0.7, 0.9}};
    return std::make_unique<optim::AdamW>(groups);
  };
}

const std::pair<const char*, Make> optimizers[] = {
    {"sgd", sgd({.lr = 0.1})},
    {"sgd weight decay", sgd({.lr = 0.1, .weight_decay = 0.05})},
    {"sgd momentum", sgd({.lr = 0.05, .momentum = 0.9})},
    {"sgd dampening", sgd({.lr = 0.05, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01})},
    {"sgd nesterov", sgd({.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true})},
    {"adam", adam({.lr = 0.01})},
    {"adam weight decay", adam({.lr = 0.01, .betas = {0.8, 0.95}, .eps = 1e-6, .weight_decay = 0.1})},
    {"adamw", adamw({.lr = 0.01})},
    {"rmsprop", rmsprop({.lr = 0.01, .weight_decay = 0.1})},
    {"rmsprop momentum", rmsprop({.lr = 0.01, .alpha = 0.9, .eps = 1e-6, .momentum = 0.9})},
    {"rmsprop centered", rmsprop({.lr = 0.01, .momentum = 0.5, .centered = true})},
    {"sgd 3 groups", grouped_sgd(3)},
    {"sgd 11 groups", grouped_sgd(11)},
    {"adamw 3 groups", grouped_adamw(3)},
    {"adamw 11 groups", grouped_adamw(11)},
    {"adamw weight decay", adamw({.lr = 0.02, .betas = {0.7, 0.9}, .weight_decay = 0.3})},
};

class CudaOptimizer : public GpuTest {
 protected:
  static double tolerance(DType dtype) { return dtype == DType::f64 ? 1e-12 : 1e-6; }

  /// The same steps on both devices.
  static void expect_same_steps(const Make& make, const std::vector<Tensor>& initial, int steps, double most) {
    std::vector<Tensor> here, there;
    for (const Tensor& x : initial) {
      here.push_back(clone(x).set_requires_grad());
      there.push_back(to(x, gpu).set_requires_grad());
    }
    const auto on_cpu = make(here), on_gpu = make(there);
    for (int s = 0; s < steps; ++s) {
      for (std::size_t i = 0; i < initial.size(); ++i) {
        const bool has_gradient = i % 5 != 4 || s % 2;  // some miss steps, and so are at another one than the rest
        const Tensor g = has_gradient ? random_tensor(initial[i].shape(), initial[i].dtype()) : Tensor();
        here[i].set_grad(g);
        there[i].set_grad(has_gradient ? to(g, gpu) : g);
      }
      if (s == 3)
        for (const auto& o : {on_cpu.get(), on_gpu.get()}) o->set_lr(o->lr() / 2);
      on_cpu->step();
      on_gpu->step();
      for (std::size_t i = 0; i < initial.size(); ++i)
        ASSERT_TRUE(all_close(there[i].detach(), here[i].detach(), most, most))
            << "step " << s << ", parameter " << i << ", " << describe(initial[i]);
    }
  }
};

TEST_F(CudaOptimizer, StepsAsTheCpuDoes) {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const auto& [name, make] : optimizers) {
      SCOPED_TRACE(detail::concat(name, " ", dtype));
      std::vector<Tensor> initial;
      for (const Shape& shape : {Shape{1}, Shape{3}, Shape{7, 5}, Shape{}, Shape{1023}, Shape{33, 65}, Shape{4097},
                                 Shape{2, 3, 5, 7}, Shape{0}, Shape{70001}})
        initial.push_back(random_tensor(shape, dtype));
      initial.push_back(channels_last(random_tensor({4, 3, 3, 5}, dtype)));  // its gradients are row-major
      initial.push_back(transpose(random_tensor({9, 31}, dtype), 0, 1));
      expect_same_steps(make, initial, 6, tolerance(dtype));
    }
}

TEST_F(CudaOptimizer, UpdatesMoreParametersThanOneLaunchTakes) {
  std::vector<Tensor> initial;
  for (std::int64_t i = 0; i < 1100; ++i) initial.push_back(random_tensor({1 + i % 7}, DType::f64));
  for (const auto& make : {sgd({.lr = 0.05, .momentum = 0.9}), adamw({.lr = 0.01}), grouped_sgd(40), grouped_adamw(40),
                           rmsprop({.lr = 0.01, .momentum = 0.9})})
    expect_same_steps(make, initial, 3, 1e-12);
}

TEST_F(CudaOptimizer, UpdatesParametersThatBeginAnywhere) {
  const Tensor all = random_tensor({4000}, DType::f32);
  for (const auto& [name, make_it] : optimizers) {
    SCOPED_TRACE(name);
    const Make& make = make_it;  // a lambda of clang 14 captures no binding
    const auto run = [&](Device device) {
      const Tensor memory = clone(to(all, device));
      std::vector<Tensor> parts;
      for (const std::int64_t start : {1, 1002, 2003})  // no vector of 16 bytes begins there
        parts.push_back(narrow(memory, 0, start, 997).detach().set_requires_grad());
      const auto optimizer = make(parts);
      for (int s = 0; s < 3; ++s) {
        for (std::size_t i = 0; i < parts.size(); ++i)
          parts[i].set_grad(narrow(to(all, device), 0, static_cast<std::int64_t>(i) * 100 + 3, 997));
        optimizer->step();
      }
      return memory.to_vector<double>();
    };
    EXPECT_TRUE(all_close(run(gpu), run(Device::cpu()), 1e-6, 1e-6));
  }
}

TEST_F(CudaOptimizer, AveragesAsTheCpuDoes) {
  for (const auto& [dtype, most] :
       {std::pair{DType::f64, 1e-12}, {DType::f32, 1e-6}, {DType::bf16, 1e-2}, {DType::f16, 2e-3}}) {
    SCOPED_TRACE(detail::concat(dtype));
    std::vector<Tensor> here, there;
    for (const Shape& shape : {Shape{1}, Shape{7, 5}, Shape{}, Shape{1023}, Shape{4097}, Shape{70001}}) {
      here.push_back(random_tensor(shape, dtype).set_requires_grad());
      there.push_back(to(here.back().detach(), gpu).set_requires_grad());
    }
    optim::EMA on_cpu(here, {.decay = 0.7}), on_gpu(there, {.decay = 0.7});
    for (int s = 0; s < 4; ++s) {
      for (std::size_t i = 0; i < here.size(); ++i) {
        const Tensor next = random_tensor(here[i].shape(), dtype);
        copy_(here[i].detach(), next);
        copy_(there[i].detach(), next);
      }
      on_cpu.update();
      on_gpu.update();
    }
    on_cpu.swap();
    on_gpu.swap();
    for (std::size_t i = 0; i < here.size(); ++i) {
      EXPECT_TRUE(all_close(there[i].detach(), here[i].detach(), most, most)) << i;
      EXPECT_EQ(on_gpu.averages()[i].to_vector<double>(), on_cpu.averages()[i].to_vector<double>()) << i;
    }
  }
}

TEST_F(CudaOptimizer, GoesOnFromItsStateBitForBit) {
  for (const auto& [name, make] : optimizers) {
    SCOPED_TRACE(name);
    std::vector<Tensor> whole, resumed, gradients;
    for (int i = 0; i < 12; ++i) {
      whole.push_back(to(random_tensor({100 + i}, DType::f32), gpu).set_requires_grad());
      gradients.push_back(to(random_tensor({100 + i}, DType::f32), gpu));
    }
    const auto first = make(whole);
    const auto step = [&](const std::vector<Tensor>& parameters, optim::Optimizer& o) {
      for (std::size_t i = 0; i < parameters.size(); ++i)
        Tensor(parameters[i]).set_grad(gradients[i] * parameters[i].detach());
      o.step();
    };
    for (int s = 0; s < 3; ++s) step(whole, *first);
    for (const Tensor& p : whole) resumed.push_back(clone(p.detach()).set_requires_grad());
    const auto second = make(resumed);
    second->load_state_dict(first->state_dict());
    for (int s = 0; s < 3; ++s) step(whole, *first), step(resumed, *second);
    for (std::size_t i = 0; i < whole.size(); ++i)
      EXPECT_EQ(resumed[i].detach().to_vector<float>(), whole[i].detach().to_vector<float>()) << i;
  }
}

}  // namespace
}  // namespace bytetape::test
