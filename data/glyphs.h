#pragma once
#include <span>
#include <vector>

namespace bytetape::data {

/// A point in the box of a digit: x to the right, y down, both from 0 to 1. In pixels once drawn.
struct Point {
  float x = 0, y = 0;
};

/// One way to write a digit.
/// A stroke is a smooth curve through points, given by their indices. Strokes that share a point stay joined if points
/// are moved. A corner is the end of one stroke and the start of the next.
struct Glyph {
  std::vector<Point> points;
  std::vector<std::vector<int>> strokes;
};

/// Returns the ways to write `digit`, 0 to 9.
std::span<const Glyph> glyphs(int digit);

}  // namespace bytetape::data
