// A program that exports a module, outside this project.
#include <bytetape/bytetape.h>
#include <bytetape/onnx/save.h>

int main() {
  bytetape::nn::Linear net(4, 3);
  bytetape::onnx::save("net.onnx", net, bytetape::zeros({2, 4}));
}
