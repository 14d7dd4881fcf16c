// What must not pass unnoticed; see `check` beside this file.
#include <bytetape/bytetape.h>

using namespace bytetape;

// A scope that nobody keeps ends at once.
void scopes() {
  NoGrad();                                    // refused
  GradMode(true);                              // refused
  DetectAnomaly();                             // refused
  DefaultDevice(Device::meta());               // refused
  memory::Step();                              // refused
  memory::Op<"relu">();                        // refused
  memory::OpScope(memory::intern("relu"));     // refused
  memory::ModuleScope(memory::intern("net"));  // refused
  memory::PhaseScope(memory::Phase::data);     // refused
  memory::ScopeGuard(memory::ScopeIds{});      // refused
  [[maybe_unused]] const NoGrad kept;
  [[maybe_unused]] const memory::Step step;
}

// A bool is no dim, a correction no keepdim, and a fraction no size.
void dims(const Tensor& x) {
  sum(x, 1);
  sum(x, 1, true);
  sum(x, true);  // refused
  var(x, {1}, true);
  var(x, {1}, 0);    // refused
  var(x, {1}, 0.5);  // refused
  zeros(5);
  zeros(2.5);  // refused
}

// The name of a namespace too, under `using namespace bytetape`.
void spreads(const Tensor& x) {
  std(x);  // refused
  bytetape::std(x);
  stddev(x, 1);
  stddev(x, {1}, 0);  // refused
}

// A list of modules knows them as Modules.
void layers(nn::Sequential& net) {
  net[0].weight;  // refused
  auto weight = net[0].as<nn::Linear>().weight;
}
