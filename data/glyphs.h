#pragma once
#include <span>
#include <vector>

namespace bytetape::data {

/// A place in the box that a digit fills: x to the right, y down, both 0 to 1. In pixels once drawn.
struct Point {
  float x = 0, y = 0;
};

/// One way to write a digit. A stroke is a smooth curve through points, by their numbers; strokes that share a number
/// stay joined however the points are moved, so a corner is the end of one stroke and the start of the next.
struct Glyph {
  std::vector<Point> points;
  std::vector<std::vector<int>> strokes;
};

/// The ways to write `digit`, 0 to 9.
std::span<const Glyph> glyphs(int digit);

}  // namespace bytetape::data
