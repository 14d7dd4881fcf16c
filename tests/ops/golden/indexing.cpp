#include "bytetape/autograd/ops.h"
#include "tests/ops/golden/groups.h"

namespace bytetape::test {
namespace {

using Into = Tensor (*)(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
using IntoElements = Tensor (*)(const Tensor& x, std::int64_t dim, const Tensor& index, const Operand& src);

template <class F>
GoldenOp into(F f) {
  return [f](A a, X x) { return f(x[0], a.integer("dim"), x[1], x[2]); };
}
template <class F>
GoldenOp in_place(F f) {
  return [f](A a, X x) { return f(clone(x[0]), a.integer("dim"), x[1], x[2]); };
}

std::optional<std::int64_t> bound(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::int64_t>(std::stoll(text));
}
/// "1:5", ":" or "::2".
Slice slice_of(const std::string& text) {
  const std::size_t first = text.find(':'), second = text.find(':', first + 1);
  const std::string stop = text.substr(first + 1, second - first - 1);
  return {bound(text.substr(0, first)), bound(stop),
          second == std::string::npos ? 1 : bound(text.substr(second + 1)).value_or(1)};
}
/// "3", "1:5", "None", "...", or "t" and "u" for the tensors.
TensorIndex index_of(const std::string& text, X x) {
  if (text == "None") return None;
  if (text == "...") return Ellipsis;
  if (text == "t" || text == "u") return x.at(text == "t" ? 1 : 2);
  if (text.find(':') != std::string::npos) return slice_of(text);
  return std::stoll(text);
}
Tensor indexed(A a, X x) {
  std::vector<TensorIndex> all;
  for (const std::string& word : a.words("at")) all.push_back(index_of(word, x));
  return index(x[0], all);
}
Tensor embedded(A a, X x) {
  if (!a.has("padding_idx")) return embedding(x[0], x[1]);
  return embedding(x[0], x[1], {.padding_idx = a.integer("padding_idx")});
}

}  // namespace

GoldenOps indexing_ops() {
  return {
      {"embedding", embedded},
      {"gather", [](A a, X x) { return gather(x[0], a.integer("dim"), x[1]); }},
      {"index_select", [](A a, X x) { return index_select(x[0], a.integer("dim"), x[1]); }},
      {"index", indexed},
      {"nonzero", [](A, X x) { return nonzero(x[0]); }},
      {"scatter", into<IntoElements>(scatter)},
      {"scatter_", in_place<IntoElements>(scatter_)},
      {"scatter_number", [](A a, X x) { return scatter(x[0], a.integer("dim"), x[1], a.number("value")); }},
      {"scatter_add", into<Into>(scatter_add)},
      {"scatter_add_", in_place<Into>(scatter_add_)},
      {"index_add", into<Into>(index_add)},
      {"index_add_", in_place<Into>(index_add_)},
      {"index_copy", into<Into>(index_copy)},
      {"index_copy_", in_place<Into>(index_copy_)},
  };
}

}  // namespace bytetape::test
