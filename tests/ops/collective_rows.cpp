// Collectives in a group of one rank. tests/distributed has those of several.
#include "bytetape/distributed/collectives.h"
#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

OpRow row(const std::string& op, Tensor (*f)(const Tensor& x, const dist::Group& group), const Cases& cases) {
  return {
      .op = op, .f = [f](X x) { return f(x[0], dist::init()); }, .reference = [](A x) { return x[0]; }, .cases = cases};
}

}  // namespace

std::vector<OpRow> collective_rows() {
  using dist::Group;
  const Cases rows{{in(3, 4)}, {in(5)}, {in(0, 3)}, {in(4, 3).transposed()}, {in(6).spaced()}, {in(3, 4).expanded()}};
  std::vector<OpRow> all{
      row(
          "all_reduce", [](const Tensor& x, const Group& g) { return dist::all_reduce(x, g); }, one),
      row(
          "reduce_scatter", [](const Tensor& x, const Group& g) { return dist::reduce_scatter(x, g); }, rows),
      row(
          "all_gather", [](const Tensor& x, const Group& g) { return dist::all_gather(x, g); }, rows),
      row(
          "all_to_all", [](const Tensor& x, const Group& g) { return dist::all_to_all(x, g); }, rows),
      row(
          "broadcast", [](const Tensor& x, const Group& g) { return dist::broadcast(x, g); }, one),
  };
  const auto refuses_scalars = bad<ShapeError>("multiple of 1 ranks, got f64()", {in()});
  all[1].bad = all[3].bad = {refuses_scalars};
  return all;
}

}  // namespace bytetape::test
