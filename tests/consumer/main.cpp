// A program outside the project. It is compiled twice: against an installed bytetape, and against its sources.
#include <bytetape/bytetape.h>

#include <iostream>

int main() {
  using namespace bytetape;
  int unused;  // a warning here: it must not become an error through us
  const Tensor x = arange(0, 6, 1, DType::f64).set_requires_grad();
  const Tensor y = sum(x * x);
  y.backward();
  std::cout << x << "\n" << y << "\n" << x.grad() << "\n";
  return y.item<double>() == 55 && x.grad().to_vector<double>() == std::vector<double>{0, 2, 4, 6, 8, 10} ? 0 : 1;
}
