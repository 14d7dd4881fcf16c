#include "bytetape/autograd/ops.h"
#include "tests/ops/golden/groups.h"

namespace bytetape::test {
namespace {

Reduction reduction(A a) {
  const std::string name = a.text("reduction", "mean");
  return name == "none" ? Reduction::none : name == "sum" ? Reduction::sum : Reduction::mean;
}
KlDivReduction kl_div_reduction(A a) {
  using enum KlDivReduction;
  const std::map<std::string, KlDivReduction> all{
      {"none", none}, {"batchmean", batchmean}, {"mean", mean}, {"sum", sum}};
  return all.at(a.text("reduction"));
}

Tensor entropy(A a, X x) {
  return cross_entropy(x[0], x[1],
                       {.weight = x.size() > 2 ? x[2] : Tensor(),
                        .reduction = reduction(a),
                        .ignore_index = a.integer("ignore_index", -100),
                        .label_smoothing = a.number("label_smoothing")});
}
Tensor linear_entropy(A a, X x) {
  return linear_cross_entropy(
      x[0], x[1], x[2],
      {.reduction = reduction(a), .ignore_index = a.integer("ignore_index", -100), .chunks = a.integer("chunks")});
}

}  // namespace

GoldenOps loss_ops() {
  return {
      {"kl_div", [](A a, X x) { return kl_div(x[0], x[1], kl_div_reduction(a), a.flag("log_target")); }},
      {"cross_entropy", entropy},
      {"linear_cross_entropy", linear_entropy},
  };
}

}  // namespace bytetape::test
