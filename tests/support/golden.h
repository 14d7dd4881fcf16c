#pragma once
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/source_dir.h"

namespace bytetape::test {

/// The cells of the lines of a table in tests/golden that begin with `name`, without it.
inline std::vector<std::vector<std::string>> golden_lines(const char* table, const std::string& name) {
  std::ifstream file(source_dir() / "tests/golden" / table);
  std::vector<std::vector<std::string>> found;
  for (std::string line, cell; std::getline(file, line);) {
    std::istringstream cells(line);
    if (!std::getline(cells, cell, ',') || cell != name) continue;
    found.emplace_back();
    while (std::getline(cells, cell, ',')) found.back().push_back(cell);
  }
  return found;
}

/// The numbers of the line that begins with `name` and `part`; none where there is no such line.
inline std::vector<double> golden_numbers(const char* table, const std::string& name, const std::string& part) {
  std::vector<double> numbers;
  for (const auto& cells : golden_lines(table, name))
    for (std::size_t i = 1; i < cells.size() && cells[0] == part; ++i) numbers.push_back(std::stod(cells[i]));
  return numbers;
}

}  // namespace bytetape::test
