#pragma once
#include <string>
#include <vector>

#include "examples/memory_tour/measure.h"

namespace bytetape::examples {

/// A program with its own text: SHOWN([](Watch& at) { ... }), so that what is read is what runs.
struct Shown {
  std::string text;
  Program run;
};
#define SHOWN(...) \
  ::bytetape::examples::Shown { #__VA_ARGS__, __VA_ARGS__ }

/// A line of a program's text.
struct Line {
  std::string code;
  bool is_read = false;  // the books are read behind it, by a call of `at` that is not shown
};

/// What lies between the outermost braces of a lambda, a statement a line. The preprocessor has taken line breaks and
/// comments away.
std::vector<Line> lines_of(const std::string& lambda);

}  // namespace bytetape::examples
