#include "bytetape/autograd/ops/einsum.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/matmul.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"

namespace bytetape {

using enum AttributeType;

namespace {

/// A label for each dim: a letter, or a digit for a dim of "...", which counts from the last one.
using Labels = std::string;

bool contains(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }
/// The labels for which f holds.
template <class F>
Labels select_labels(const Labels& labels, const F& f) {
  Labels chosen;
  std::copy_if(labels.begin(), labels.end(), std::back_inserter(chosen), f);
  return chosen;
}
/// The labels of `count` dims of "...".
Labels labels_of_dots(int count) {
  Labels labels;
  for (int i = count - 1; i >= 0; --i) labels += static_cast<char>('0' + i);
  return labels;
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

/// Checks the letters of a term, and replaces "..." by the labels of `dots` dims. `what` names the term.
Labels parse_term(std::string term, int dots, std::string_view what) {
  const std::size_t at = term.find("...");
  if (at != std::string::npos) term.erase(at, 3);
  for (const char c : term) {
    check<ValueError>(is_letter(c), "expected letters and \"...\" in the equation, but ", what, " has '", c, "'");
    check<ValueError>(std::count(term.begin(), term.end(), c) == 1, what, " of the equation repeats '", c, "'");
  }
  return at == std::string::npos ? term : term.insert(at, labels_of_dots(dots));
}

/// A tensor and the labels of its dims.
struct Term {
  Tensor x;
  Labels labels;

  std::int64_t size(char label) const { return x.size(static_cast<std::int64_t>(labels.find(label))); }
};

/// Returns the term with the labels of a tensor.
Term make_term(const std::string& term, const Tensor& x, std::string_view what) {
  const bool has_dots = term.find("...") != std::string::npos;
  const int letters = static_cast<int>(term.size()) - (has_dots ? 3 : 0), dots = x.rank() - letters;
  check(has_dots ? dots >= 0 : dots == 0, "the equation has ", letters, " letters for ", what, ", ", describe(x));
  return {x, parse_term(term, has_dots ? dots : 0, what)};
}

Term summed(const Term& t, const Labels& away) {
  if (away.empty()) return t;
  Dims dims;
  for (const char label : away) dims.push_back(static_cast<std::int64_t>(t.labels.find(label)));
  return {sum(t.x, dims), select_labels(t.labels, [&](char label) { return !contains(away, label); })};
}

/// Returns the tensor with its dims in the order of `labels`. Labels that it lacks are dims of size 1.
Tensor arranged(const Term& t, const Labels& labels) {
  Dims order;
  for (const char label : labels)
    if (contains(t.labels, label)) order.push_back(static_cast<std::int64_t>(t.labels.find(label)));
  Tensor x = std::is_sorted(order.begin(), order.end()) ? t.x : permute(t.x, order);
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (!contains(t.labels, labels[i])) x = unsqueeze(x, static_cast<std::int64_t>(i));
  return x;
}

/// The terms and the labels of the result.
struct Equation {
  std::vector<Term> terms;
  Labels result;
  std::map<char, std::int64_t> sizes;

  Equation(std::string equation, const std::vector<Tensor>& tensors) {
    equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
    const std::size_t arrow = equation.find("->");
    const std::string inputs = equation.substr(0, arrow);
    const auto count = static_cast<std::size_t>(std::count(inputs.begin(), inputs.end(), ',') + 1);
    check<ValueError>(count == tensors.size(), "the equation \"", equation, "\" has ", count, " inputs, got ",
                      tensors.size());
    const std::string first = inputs.substr(0, inputs.find(','));
    terms.push_back(make_term(first, tensors[0], "the first input"));
    if (count == 2) terms.push_back(make_term(inputs.substr(first.size() + 1), tensors[1], "the second input"));
    for (const Term& t : terms)
      for (const char label : t.labels) add_size(label, t);
    set_result(arrow == std::string::npos ? std::nullopt : std::optional(equation.substr(arrow + 2)));
  }

 private:
  void add_size(char label, const Term& t) {
    const std::int64_t size = t.size(label);
    std::int64_t& all = sizes.try_emplace(label, size).first->second;
    if (all == 1) all = size;
    const std::string name = is_letter(label) ? std::string(1, label) : "...";
    check(size == all || size == 1, "'", name, "' has sizes ", all, " and ", size, " in ", describe(terms[0].x),
          " and ", describe(terms.back().x));
  }
  /// Sets the labels of the result from what follows "->".
  void set_result(const std::optional<std::string>& given) {
    int dots = 0;
    while (sizes.contains(static_cast<char>('0' + dots))) ++dots;
    if (given) {
      result = parse_term(*given, dots, "the result");
      for (const char label : result)
        check<ValueError>(sizes.contains(label), "the result of the equation has '", label, "', which no input has");
      return;
    }
    result = labels_of_dots(dots);
    for (const auto& [label, size] : sizes) {  // in alphabetical order
      const auto has = [&, label = label](const Term& t) { return contains(t.labels, label); };
      if (is_letter(label) && std::count_if(terms.begin(), terms.end(), has) == 1) result += label;
    }
  }
};

/// The product of two terms as one batched matmul: a (batch..., rows, inner) @ b (batch..., inner, columns).
Tensor contracted(const Term& a, const Term& b, const Labels& inner, const Equation& equation) {
  const Labels& result = equation.result;
  const Labels batch = select_labels(result, [&](char l) { return contains(a.labels, l) && contains(b.labels, l); }),
               rows = select_labels(result, [&](char l) { return !contains(b.labels, l); }),
               columns = select_labels(result, [&](char l) { return !contains(a.labels, l); });
  const auto matrix = [&](const Term& t, const Labels& left, const Labels& right) {
    Shape shape, whole;
    for (const char l : batch) shape.push_back(t.size(l)), whole.push_back(t.size(l));
    for (const Labels* side : {&left, &right}) {
      std::int64_t all = 1;
      for (const char l : *side) all *= equation.sizes.at(l), whole.push_back(equation.sizes.at(l));
      shape.push_back(all);
    }
    const Tensor x = arranged(t, batch + left + right);
    return reshape(x.shape() == whole ? x : expand(x, whole), shape);
  };
  const Tensor product = matmul(matrix(a, rows, inner), matrix(b, inner, columns));
  const Labels made = batch + rows + columns;
  Shape shape;
  for (const char l : made) shape.push_back(equation.sizes.at(l));
  return arranged({reshape(product, shape), made}, result);
}

}  // namespace

constexpr OpDefinition einsum_op{.name = "einsum",
                                 .inputs = {"a", "b"},
                                 .attributes = {{"equation", text}},
                                 .kind = OpKind::composite,
                                 .autocast = AutocastClass::low};
Tensor einsum(std::string_view equation, const Tensor& first_input, const Tensor& second_input) {
  const Op<einsum_op> op(first_input, second_input, equation);
  const Tensor a = op.input(first_input), b = op.input(second_input);
  const Autocast keep(DType::f32);  // the parts keep this dtype
  check_defined(a, "the first input");
  if (b.defined()) check_same_device(a, b);
  const Equation parsed(std::string(equation), b.defined() ? std::vector{a, b} : std::vector{a});
  const auto is_result = [&](char label) { return contains(parsed.result, label); };
  const auto without = [&](const Term& t, const Term* other) {
    return summed(t, select_labels(t.labels, [&](char label) {
                    return !is_result(label) && !(other && contains(other->labels, label));
                  }));
  };
  if (!b.defined()) return op.result(arranged(without(parsed.terms[0], nullptr), parsed.result));
  const Term first = without(parsed.terms[0], &parsed.terms[1]), second = without(parsed.terms[1], &parsed.terms[0]);
  const Labels inner = select_labels(first.labels, [&](char label) { return !is_result(label); });
  if (inner.empty()) return op.result(arranged(first, parsed.result) * arranged(second, parsed.result));
  return op.result(contracted(first, second, inner, parsed));
}

}  // namespace bytetape
