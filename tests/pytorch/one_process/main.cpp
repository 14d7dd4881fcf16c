// PyTorch and bytetape in one process: tensors cross without a copy, and both run convolutions in turns, on a GPU with
// a cuDNN each. usage: one_process [cuda]
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <bytetape/bytetape.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace {

namespace bt = bytetape;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::cerr << "one_process: expected " << what << '\n';
  std::exit(1);
}

/// Memory of other libraries in tensors on the device.
std::size_t external(bt::Device device) { return bt::memory::snapshot(device).external.bytes; }

bt::Tensor from_torch(const at::Tensor& t) { return bt::from_dlpack(at::toDLPackVersioned(t)); }
at::Tensor to_torch(const bt::Tensor& x) { return at::fromDLPackVersioned(bt::to_dlpack(x)); }

/// Hands tensors over, and compares addresses.
void hand_over(at::Device torch_device) {
  const at::Tensor t = at::rand({64, 784}, torch_device);
  const bt::Tensor x = from_torch(t), y = relu(x - 0.5);
  for (int i = 0; i < 10'000; ++i) {
    const at::Tensor u = to_torch(y);
    expect(u.data_ptr() == y.write().data(), "the address of the bytetape tensor");
    const bt::Tensor again = from_torch(t);
    expect(again.write().data() == t.data_ptr(), "the address of the PyTorch tensor");
  }
  expect(at::equal(to_torch(y), at::relu(t - 0.5)), "the same numbers");
}

/// Convolves in both libraries in turns, forward and backward, and compares.
void convolve(at::Device torch_device) {
  for (int i = 0; i < 20; ++i) {
    const at::Tensor images = at::rand({4, 8, 20 + i, 20}, torch_device),
                     filters = at::rand({16, 8, 3, 3}, torch_device);
    const at::Tensor expected = at::conv2d(images, filters, {}, 1, 1);
    const bt::Tensor x = from_torch(images).detach().set_requires_grad(),
                     w = from_torch(filters).detach().set_requires_grad(), y = bt::conv2d(x, w, {}, {.padding = 1});
    expect(at::allclose(to_torch(y.detach()), expected, 1e-4, 1e-4), "the same convolution");
    sum(y).backward();
    const auto [gx, gw, gb] =
        at::convolution_backward(at::ones_like(expected), images, filters, at::OptionalIntArrayRef(), {1, 1}, {1, 1},
                                 {1, 1}, false, {0, 0}, 1, {true, true, false});
    expect(at::allclose(to_torch(x.grad()), gx, 1e-4, 1e-4), "the same gradient of the images");
    expect(at::allclose(to_torch(w.grad()), gw, 1e-4, 1e-3), "the same gradient of the filters");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool on_gpu = argc > 1 && std::string(argv[1]) == "cuda";
  const bt::DefaultDevice here(on_gpu ? bt::Device::cuda() : bt::Device::cpu());
  const at::Device torch_device = on_gpu ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  hand_over(torch_device);
  convolve(torch_device);
  bt::synchronize(bt::default_device());
  bt::finish_releases();
  expect(external(bt::default_device()) == 0, "no memory of PyTorch in tensors at the end");
  std::cout << "10,000 tensors handed over each way, 20 convolutions in turns on " << bt::default_device() << '\n';
}
