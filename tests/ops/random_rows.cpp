#include "bytetape/core/philox.h"
#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

constexpr std::uint64_t seed_of_rows = 5;

/// Number i of a tensor of uniform numbers, drawn by the default generator just seeded.
double uniform_number(std::size_t i) {
  const auto words = philox(seed_of_rows, i / 2);
  return unit_double(words[2 * (i % 2)], words[2 * (i % 2) + 1]);
}

/// The places that numbers draw from the rows of p, one after the other or as keys of a race.
Array drawn(const Array& p, std::int64_t k, bool replacement) {
  Shape shape = p.shape;
  const auto n = static_cast<std::size_t>(shape[shape.size() - 1]);
  shape[shape.size() - 1] = k;
  Array y(shape);
  std::size_t number = 0, result = 0;
  for (std::size_t row = 0; row < p.values.size(); row += n) {
    std::vector<double> sums(n), keys(n);
    std::partial_sum(p.values.begin() + static_cast<std::ptrdiff_t>(row),
                     p.values.begin() + static_cast<std::ptrdiff_t>(row + n), sums.begin());
    if (!replacement)
      for (std::size_t j = 0; j < n; ++j) keys[j] = std::log(1 - uniform_number(number++)) / p.values[row + j];
    for (std::int64_t i = 0; i < k; ++i) {
      const auto at = replacement ? std::upper_bound(sums.begin(), sums.end(), uniform_number(number++) * sums.back()) -
                                        sums.begin()
                                  : std::max_element(keys.begin(), keys.end()) - keys.begin();
      y.values[result++] = static_cast<double>(at);
      if (!replacement) keys[static_cast<std::size_t>(at)] = -INFINITY;
    }
  }
  return y;
}

OpRow row(bool replacement, std::int64_t k, const std::vector<BadInput>& bads) {
  const auto draws = [=](std::int64_t k) {
    return [=](X x) {
      manual_seed(seed_of_rows);
      return multinomial(x[0], k, replacement);
    };
  };
  return {.op = "multinomial",
          .variant = replacement ? "with_replacement" : "",
          .f = draws(k),
          .reference = [=](A x) { return drawn(x[0], k, replacement); },
          .cases = {{in(7)},
                    {in(3)},
                    {in(0, 3)},
                    {in(4, 3).transposed()},
                    {in(2, 5).narrowed()},
                    {in(3, 4).expanded()},
                    {in(6).spaced()}},
          .draw = Draw::positive,
          .bad = bads + std::vector{bad<DTypeError>("floating", {in(4).as(DType::i64)}),
                                    bad<ShapeError>("expected probabilities (n) or (rows, n), got f64(2, 3, 4)",
                                                    {in(2, 3, 4)}),
                                    bad<ShapeError>("expected probabilities (n) or (rows, n), got f64()", {in()}),
                                    bad<ShapeError>("there is nothing to draw from in f64(3, 0)", {in(3, 0)}),
                                    bad<ValueError>("num_samples must be positive, got 0", {in(3)}, draws(0))},
          .gradients = Gradients::none,
          .large = {in(300, 401)}};
}

/// Probabilities of which row 1 is not one.
BadInput bad_row(const std::function<Tensor(const Tensor&)>& spoil, std::int64_t k, bool replacement) {
  return needs_data(
      bad<ValueError>(detail::concat("row 1 of the probabilities has a negative or non-finite element, or "
                                     "fewer than ",
                                     replacement ? 1 : k, " positive ones"),
                      {in(4, 3)}, [=](X x) {
                        const Tensor p = clone(x[0].detach());
                        spoil(select(p, 0, 1));
                        spoil(select(p, 0, 3));
                        return multinomial(p, k, replacement);
                      }));
}
Tensor spoil_with(const Tensor& row, double v) { return fill_(select(row, 0, 2), v); }

}  // namespace

std::vector<OpRow> random_rows() {
  std::vector<BadInput> bad_rows[2];
  for (const bool replacement : {false, true})
    for (const double v : {-0.5, static_cast<double>(NAN), static_cast<double>(INFINITY)})
      bad_rows[replacement].push_back(bad_row([v](const Tensor& row) { return spoil_with(row, v); }, 2, replacement));
  bad_rows[0].push_back(bad_row([](const Tensor& row) { return spoil_with(row, 0); }, 3, false));
  bad_rows[0].push_back(bad<ValueError>("cannot draw 4 places without replacement from rows of 3", {in(2, 3)},
                                        [](X x) { return multinomial(x[0], 4); }));
  bad_rows[1].push_back(bad_row([](const Tensor& row) { return fill_(row, 0); }, 2, true));
  return {row(false, 2, bad_rows[0]), row(true, 5, bad_rows[1])};
}

}  // namespace bytetape::test
