#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

/// x[::2, None, ..., -1]
OpRow view_row() {
  return {.op = "index",
          .f =
              [](X x) {
                return index(x[0], {Slice(None, None, 2), None, Ellipsis, -1});
              },
          .reference = rearranging(
              [](const Shape& s) {
                Shape t = s;
                t[0] = (s[0] + 1) / 2;
                t.insert(1, 1);
                t.erase(t.size() - 1);
                return t;
              },
              [](const Dims& at, const Shape& s) {
                Dims from = at;
                from[0] *= 2;
                from.erase(1);
                from.push_back(s.back() - 1);
                return from;
              }),
          .cases = matrices,
          .bad = {bad<ShapeError>("expected indices of at most 2 dims for f64(2, 3) on", {in(2, 3)},
                                  [](X x) {
                                    return index(x[0], {0, Ellipsis, 0, None, 0});
                                  }),
                  bad<ShapeError>("index -4 is out of range in dim 1 of f64(2, 3)", {in(2, 3)},
                                  [](X x) {
                                    return index(x[0], {0, -4});
                                  }),
                  bad<ShapeError>("index 3 is out of range in dim 2 of f64(2, 2, 3)", {in(2, 2, 3)},
                                  [](X x) {
                                    return index(x[0], {Ellipsis, 3});
                                  }),
                  bad<ValueError>("the step of a Slice must be positive, got 0", {in(2, 3)},
                                  [](X x) { return index(x[0], {Slice(0, 1, 0)}); }),
                  bad<ValueError>("at most one Ellipsis", {in(2, 3)}, [](X x) {
                    return index(x[0], {Ellipsis, Ellipsis});
                  })}};
}

/// x[..., index, 1:]
OpRow tensor_row() {
  const Function f = [](X x) { return index(x[0], {Ellipsis, x[1], Slice(1)}); };
  return {.op = "index",
          .variant = "tensor",
          .f = f,
          .reference =
              [](A x) {
                const int before = x[0].shape.size() - 2, count = x[1].shape.size();
                Shape shape;
                for (int d = 0; d < before; ++d) shape.push_back(x[0].shape[d]);
                for (const std::int64_t n : x[1].shape) shape.push_back(n);
                shape.push_back(x[0].size(-1) - 1);
                Array y(shape);
                for_each_index(shape, [&](const Dims& at) {
                  Dims from, place;
                  for (int d = 0; d < before; ++d) from.push_back(at[d]);
                  for (int d = 0; d < count; ++d) place.push_back(at[before + d]);
                  from.push_back(static_cast<std::int64_t>(x[1](place)));
                  from.push_back(at.back() + 1);
                  y(at) = x[0](from);
                });
                return y;
              },
          .cases = {{in(3, 4), in(5).examples()},
                    {in(2, 3, 4), in(2, 2).examples()},
                    {in(3, 2), in().examples()},
                    {in(0, 3, 2), in(4).examples()},
                    {in(4, 3).transposed(), in(2, 3).examples().transposed()},
                    {in(3, 5).narrowed(), in(1, 2).examples()},
                    {in(3, 4).expanded(), in(4).examples().spaced()},
                    {in(2, 3, 3, 2).channels_last(), in(2, 2).examples()}},
          .bad = {bad<ShapeError>("a mask needs a dim, got bool()", {in(3, 2), in().boolean()}),
                  bad<ShapeError>("does not fit dim 0 of", {in(2, 2), in(3).boolean()}),
                  bad<ShapeError>("expected indices of at most 2 dims", {in(3, 2), in(3, 2).boolean()}),
                  bad<DTypeError>("expected indices in i64 or a mask, got f64(3,)", {in(3, 2), in(3)}),
                  bad<DeviceError>("inputs on different devices", {in(3, 2), in(3).examples().elsewhere()}),
                  bad<ShapeError>("do not broadcast together", {in(3, 2), in(3).examples(), in(2).examples()},
                                  [](X x) {
                                    return index(x[0], {x[1], x[2]});
                                  })},
          .tolerance = 4,
          .large = {in(300, 401), in(30, 30).examples()}};
}

/// x[index - size, ..., other]. Negative indices count from the end.
OpRow tensors_row() {
  const Function f = [](X x) {
    const bool are_defined = x[0].defined() && x[1].defined();
    return index(x[0], {are_defined ? x[1] - x[0].size(0) : x[1], Ellipsis, x[2]});
  };
  return {.op = "index",
          .variant = "tensors",
          .f = f,
          .reference =
              [](A x) {
                const Shape selected = broadcast(x[1].shape, x[2].shape);
                const int count = selected.size(), rest = x[0].shape.size() - 2;
                Shape shape = selected;
                for (int d = 1; d <= rest; ++d) shape.push_back(x[0].shape[d]);
                Array y(shape);
                for_each_index(shape, [&](const Dims& at) {
                  const auto number = [&](const Array& index) {
                    Dims place;
                    const int first = count - index.shape.size();
                    for (int d = first; d < count; ++d) place.push_back(index.shape[d - first] == 1 ? 0 : at[d]);
                    return static_cast<std::int64_t>(index(place));
                  };
                  Dims from{number(x[1])};
                  for (int d = 0; d < rest; ++d) from.push_back(at[count + d]);
                  from.push_back(number(x[2]));
                  y(at) = x[0](from);
                });
                return y;
              },
          .cases = {{in(3, 4), in(5).examples(), in(5).examples()},
                    {in(3, 2, 4), in(2, 1).examples(), in(3).examples()},
                    {in(3, 2, 2, 3), in().examples(), in(2, 2).examples()},
                    {in(3, 0, 3), in(4).examples(), in(4).examples()},
                    {in(4, 3).transposed(), in(2, 3).examples().transposed(), in(2, 3).examples()},
                    {in(3, 5).narrowed(), in(1, 2).examples(), in(2, 1).examples()},
                    {in(3, 4).expanded(), in(4).examples().spaced(), in(4).examples()},
                    {in(3, 3, 3, 3).channels_last(), in(2, 2).examples(), in(2).examples()}},
          .tolerance = 4,
          .large = {in(301, 20, 30), in(300, 1).examples(), in(30).examples()}};
}

/// The indices of the elements of x that are not 0.
std::vector<Dims> places(const Array& x) {
  std::vector<Dims> all;
  for_each_index(x.shape, [&](const Dims& at) {
    if (x(at) != 0) all.push_back(at);
  });
  return all;
}

/// x[..., mask], for a mask of the last dims
OpRow mask_row() {
  return {.op = "index",
          .variant = "mask",
          .f =
              [](X x) {
                return index(x[0], {Ellipsis, x[1]});
              },
          .reference =
              [](A x) {
                const std::vector<Dims> selected = places(x[1]);
                const int before = x[0].shape.size() - x[1].shape.size();
                Shape shape;
                for (int d = 0; d < before; ++d) shape.push_back(x[0].shape[d]);
                shape.push_back(static_cast<std::int64_t>(selected.size()));
                Array y(shape);
                for_each_index(shape, [&](const Dims& at) {
                  Dims from;
                  for (int d = 0; d < before; ++d) from.push_back(at[d]);
                  for (const std::int64_t i : selected[static_cast<std::size_t>(at.back())]) from.push_back(i);
                  y(at) = x[0](from);
                });
                return y;
              },
          .cases = {{in(3, 4), in(4).boolean()},
                    {in(3, 4), in(3, 4).boolean()},
                    {in(2, 3, 4), in(3, 4).boolean().transposed()},
                    {in(2, 0), in(0).boolean()},
                    {in(4, 3).transposed(), in(3).boolean().spaced()},
                    {in(3, 5).narrowed(), in(3, 5).boolean().narrowed()},
                    {in(3, 4).expanded(), in(3, 4).boolean().expanded()},
                    {in(2, 3, 3, 2).channels_last(), in(3, 2).boolean()}},
          .large = {in(300, 401), in(401).boolean()},
          .is_predictable = false};
}

OpRow nonzero_row() {
  return {.op = "nonzero",
          .f = [](X x) { return nonzero(x[0]); },
          .reference =
              [](A x) {
                const std::vector<Dims> all = places(x[0]);
                Array y(Shape{static_cast<std::int64_t>(all.size()), static_cast<std::int64_t>(x[0].shape.size())});
                for_each_index(y.shape, [&](const Dims& at) {
                  y(at) = static_cast<double>(all[static_cast<std::size_t>(at[0])][static_cast<int>(at[1])]);
                });
                return y;
              },
          .cases = {{in(2, 9)},
                    {in(7).examples()},
                    {in(3, 4, 2).boolean()},
                    {in()},
                    {in(2, 0)},
                    {in(4, 3).transposed()},
                    {in(3, 5).narrowed()},
                    {in(3, 4).expanded()},
                    {in(6).spaced()},
                    {in(2, 3, 3, 2).channels_last()}},
          .draw = Draw::special,
          .gradients = Gradients::none,
          .is_predictable = false};
}

}  // namespace

std::vector<OpRow> index_rows() { return {view_row(), tensor_row(), tensors_row(), mask_row(), nonzero_row()}; }

}  // namespace bytetape::test
