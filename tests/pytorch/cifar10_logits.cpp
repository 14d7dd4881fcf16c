// The networks of examples/cifar10, for exchange.py: what they say, as safetensors.
// usage: cifar10_logits MODEL WEIGHTS LOGITS         trains on noise, writes the weights, images and their logits
//        cifar10_logits MODEL WEIGHTS LOGITS IMAGES  reads weights and images, writes the logits
#include <iostream>

#include "examples/cifar10/models.h"

namespace {

using namespace bytetape;

/// So that no weight, bias or statistic is what it began with.
void train_on_noise(nn::Sequential& net) {
  optim::SGD sgd(net.parameters(), {.lr = 0.005, .momentum = 0.9});
  for (int i = 0; i < 8; ++i) {
    sgd.zero_grad();
    cross_entropy(net(randn({16, 3, 32, 32})), randint(0, 10, {16})).backward();
    sgd.step();
  }
}

void run(const std::string& model, const std::string& weights, const std::string& logits, const char* given) {
  nn::Sequential net = model == "resnet18" ? examples::resnet18() : examples::small_net();
  Tensor images;
  if (given) {
    load_safetensors_into(weights, net.state_dict());
    images = load_safetensors(given).at(0).second;
  } else {
    train_on_noise(net);
    save_safetensors(weights, net.state_dict());
    images = randn({32, 3, 32, 32});
  }
  net.eval();
  const NoGrad no_grad;
  save_safetensors(logits, {{"images", images}, {"logits", net(images)}});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    check<ValueError>(argc == 4 || argc == 5, "usage: cifar10_logits MODEL WEIGHTS LOGITS [IMAGES]");
    run(argv[1], argv[2], argv[3], argc == 5 ? argv[4] : nullptr);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "cifar10_logits: " << e.what() << '\n';
    return 1;
  }
}
