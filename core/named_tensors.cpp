#include "bytetape/core/named_tensors.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <utility>

#include "bytetape/core/error.h"

namespace bytetape {
namespace {

constexpr std::size_t most_listed = 12;

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

/// Returns the candidate that is most similar to `name`, or "" if none is about two thirds the same. Components that
/// only one of the two names has, such as a prefix "model.", hardly count.
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

/// Lists the first names, each with the most similar one of `similar_to`.
std::string listed(const std::vector<std::string>& names, const std::vector<std::string>& similar_to = {}) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_listed); ++i) {
    const std::string similar = most_similar(names[i], similar_to);
    text += (i > 0 ? ", " : "") + names[i] + (similar.empty() ? "" : " (most similar: " + similar + ")");
  }
  if (names.size() > most_listed) text += ", and " + std::to_string(names.size() - most_listed) + " more";
  return text;
}

}  // namespace

void check_keys(std::string_view who, const NamedTensors& own, const std::vector<std::string>& given, bool strict) {
  std::vector<std::string> missing, unexpected, repeated;
  std::set<std::string> of_given, of_own;
  for (const std::string& name : given)
    if (!of_given.insert(name).second) repeated.push_back(name);
  for (const auto& [name, x] : own) {
    of_own.insert(name);
    if (!of_given.contains(name)) missing.push_back(name);
  }
  for (const std::string& name : given)
    if (!of_own.contains(name)) unexpected.push_back(name);
  check<ValueError>(repeated.empty(), who, ": repeated keys: [", listed(repeated), "]");
  check<ValueError>(!strict || (missing.empty() && unexpected.empty()), who, ": missing keys: [",
                    listed(missing, unexpected), "]; unexpected keys: [", listed(unexpected), "]");
}

}  // namespace bytetape
