#include "bytetape/core/similar_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>

namespace bytetape {
namespace {

/// The number of characters to insert, delete or replace in `a` to get `b` (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1], std::min({row[j + 1] + 1, row[j] + 1, diagonal + (a[i] != b[j])}));
  }
  return row.back();
}

std::vector<std::string_view> components(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t dot; (dot = name.find('.')) != std::string_view::npos; name.remove_prefix(dot + 1))
    parts.push_back(name.substr(0, dot));
  parts.push_back(name);
  return parts;
}

/// Returns the distance of names that differ by dotted components, such as "model.h.0.weight" and "h.0.weight". Each
/// component of the shorter name is compared with one of the longer name, in order. Each of the others costs one.
std::size_t distance_by_components(std::string_view a, std::string_view b) {
  std::vector<std::string_view> few = components(a), many = components(b);
  if (few.size() > many.size()) std::swap(few, many);
  std::vector<std::size_t> row(many.size() + 1);  // by the number of components of `many` so far
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < few.size(); ++i) {
    std::size_t diagonal = std::exchange(row[i], a.size() + b.size());  // too few components: more than any distance
    for (std::size_t j = i; j < many.size(); ++j)
      diagonal = std::exchange(row[j + 1], std::min(row[j] + 1, diagonal + distance(few[i], many[j])));
  }
  return row.back();
}

}  // namespace

std::string most_similar(const std::string& name, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 200;  // a file's names may have any length
  std::string best;
  std::size_t least = longest;
  if (name.size() > longest) return best;
  for (const std::string& c : candidates) {
    if (c.size() > longest) continue;
    const std::size_t d = std::min(distance(name, c), distance_by_components(name, c));
    if (d < std::min(least, (std::min(name.size(), c.size()) + 2) / 3)) least = d, best = c;
  }
  return best;
}

}  // namespace bytetape
