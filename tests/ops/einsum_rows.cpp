#include <map>

#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

/// An equation as its definition reads: a sum over all positions of its letters. Terms are letters alone.
struct Equation {
  std::vector<std::string> inputs;
  std::string result;
};

Array sum_of_products(const Equation& e, A x) {
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t d = 0; d < e.inputs[i].size(); ++d) {
      std::int64_t& size = sizes.try_emplace(e.inputs[i][d], 1).first->second;
      if (size == 1) size = x[i].shape[static_cast<int>(d)];
    }
  Shape every, shape;
  std::map<char, int> place;
  for (const auto& [letter, size] : sizes) place[letter] = every.size(), every.push_back(size);
  for (const char letter : e.result) shape.push_back(sizes[letter]);
  Array y(shape);
  for_each_index(every, [&](const Dims& at) {
    double product = 1;
    for (std::size_t i = 0; i < x.size(); ++i) {
      Dims of_input;
      for (std::size_t d = 0; d < e.inputs[i].size(); ++d) {
        const bool repeats = x[i].shape[static_cast<int>(d)] == 1;
        of_input.push_back(repeats ? 0 : at[place[e.inputs[i][d]]]);
      }
      product *= x[i](of_input);
    }
    Dims of_result;
    for (const char letter : e.result) of_result.push_back(at[place[letter]]);
    y(of_result) += product;
  });
  return y;
}

OpRow row(const std::string& variant, const std::string& equation, const Equation& meant, const Cases& cases,
          const Case& large, const std::vector<BadInput>& bads = {}) {
  return {.op = "einsum",
          .variant = variant,
          .f = [=](X x) { return einsum(equation, x[0], if_any(x, 1)); },
          .reference = [=](A x) { return sum_of_products(meant, x); },
          .cases = cases,
          .bad = bads,
          .tolerance = 8,
          .large = large};
}

template <class E>
BadInput bad_equation(const std::string& equation, const std::string& words, const Case& inputs) {
  return bad<E>(words, inputs, [=](X x) { return einsum(equation, x[0], if_any(x, 1)); });
}

}  // namespace

std::vector<OpRow> einsum_rows() {
  const Case two{in(2, 3), in(3, 4)};
  return {
      row("", "bhqd, bhkd -> bhqk", {{"bhqd", "bhkd"}, "bhqk"},
          {{in(2, 3, 4, 5), in(2, 3, 2, 5)},
           {in(2, 3, 4, 5), in(2, 1, 2, 5)},
           {in(2, 2, 1, 1), in(2, 2, 3, 4)},
           {in(0, 2, 3, 4), in(0, 2, 2, 4)},
           {in(2, 2, 3, 4).transposed(), in(2, 2, 3, 4)},
           {in(2, 3, 2, 4).channels_last(), in(2, 3, 3, 4).narrowed()},
           {in(2, 1, 3, 4).expanded(), in(2, 1, 3, 4).spaced()}},
          {in(2, 4, 40, 30), in(2, 4, 50, 30)},
          {bad_equation<ValueError>("ij,jk", "the equation \"ij,jk\" has 2 inputs, got 1", {in(2, 3)}),
           bad_equation<ValueError>("ij->ji", "has 1 inputs, got 2", two),
           bad_equation<ValueError>("ij,j1->i", "but the second input has '1'", two),
           bad_equation<ValueError>("ii,jk", "the first input of the equation repeats 'i'", two),
           bad_equation<ValueError>("ij,jk->ikk", "the result of the equation repeats 'k'", two),
           bad_equation<ValueError>("ij,jk->il", "the result of the equation has 'l', which no input has", two),
           bad_equation<ShapeError>("ijk,jk->i", "the equation has 3 letters for the first input, f64(2, 3)", two),
           bad_equation<ShapeError>("ij,kj->ik", "'j' has sizes 3 and 4 in f64(2, 3)", two),
           bad_equation<ShapeError>("i...,...->i", "'...' has sizes", {in(2, 3), in(4)}),
           bad<DeviceError>("inputs on different devices", {in(2, 3), in(3, 4).elsewhere()},
                            [](X x) { return einsum("ij,jk->ik", x[0], x[1]); })}),
      row("matmul", "ij,jk", {{"ij", "jk"}, "ik"},
          {{in(2, 3), in(3, 4)},
           {in(1, 1), in(1, 1)},
           {in(0, 3), in(3, 2)},
           {in(4, 3).transposed(), in(3, 2).spaced()},
           {in(2, 5).narrowed(), in(5, 3).expanded()},
           {in(2, 3), in(1, 4)}},
          {in(90, 80), in(80, 70)}),
      row("contraction", "abcd,cae->bed", {{"abcd", "cae"}, "bed"},
          {{in(2, 3, 4, 5), in(4, 2, 3)},
           {in(1, 2, 3, 1), in(3, 1, 2)},
           {in(2, 0, 3, 2), in(3, 2, 2)},
           {in(2, 2, 3, 4).channels_last(), in(3, 2, 2).transposed()},
           {in(2, 3, 2, 2).expanded(), in(2, 2, 3)},
           {in(2, 3, 2, 2).narrowed(), in(2, 2, 3).spaced()}},
          {in(20, 10, 8, 30), in(8, 20, 15)}),
      row("dot", "i,i->", {{"i", "i"}, ""},
          {{in(5), in(5)},
           {in(1), in(1)},
           {in(0), in(0)},
           {in(4).spaced(), in(4)},
           {in(3).narrowed(), in(3).spaced()},
           {in(7), in(7).expanded()}},
          {in(5000), in(5000)}),
      row("outer", "i,jk->kij", {{"i", "jk"}, "kij"},
          {{in(5), in(2, 3)},
           {in(1), in(1, 4)},
           {in(0), in(2, 3)},
           {in(4).spaced(), in(2, 3)},
           {in(3).narrowed(), in(2, 3).transposed()},
           {in(7), in(3, 2).expanded()}},
          {in(50), in(60, 40)}),
      row("sums_first", "ijx,jyk->ki", {{"ijx", "jyk"}, "ki"},
          {{in(2, 3, 2), in(3, 2, 4)},
           {in(1, 1, 3), in(1, 1, 2)},
           {in(0, 3, 2), in(3, 2, 2)},
           {in(2, 3, 2).transposed(), in(3, 2, 4)},
           {in(2, 3, 4).narrowed(), in(3, 2, 2).spaced()},
           {in(4, 3, 2).expanded(), in(3, 2, 2)}},
          {in(60, 50, 5), in(50, 6, 40)}),
      row("elementwise", "...i,...i->i...", {{"abi", "abi"}, "iab"},
          {{in(2, 3, 4), in(2, 3, 4)},
           {in(1, 1, 3), in(1, 2, 3)},
           {in(2, 0, 3), in(2, 0, 3)},
           {in(2, 3, 2).transposed(), in(2, 3, 2)},
           {in(2, 3, 4).narrowed(), in(2, 3, 4).spaced()},
           {in(4, 3, 2).expanded(), in(4, 3, 1)}},
          {in(20, 30, 40), in(20, 30, 40)}),
      row("one_input", "a...c->c...", {{"abc"}, "cb"},
          {{in(2, 3, 4)},
           {in(1, 1, 3)},
           {in(2, 0, 3)},
           {in(2, 3, 2).transposed()},
           {in(2, 3, 4).narrowed()},
           {in(4, 3, 2).expanded()}},
          {in(20, 30, 40)}),
      row("transposed", "ba", {{"ba"}, "ab"},
          {{in(2, 3)}, {in(1, 3)}, {in(0, 3)}, {in(2, 3).transposed()}, {in(2, 3).narrowed()}, {in(4, 3).expanded()}},
          {in(300, 401)}),
  };
}

}  // namespace bytetape::test
