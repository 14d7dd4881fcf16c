#pragma once
#include <string>
#include <vector>

#include "examples/memory_tour/measure.h"

namespace bytetape::examples {

/// A program and its source text. SHOWN([](Watch& at) { ... }) makes both from the same code.
struct Shown {
  std::string text;
  Program run;
};
#define SHOWN(...) \
  ::bytetape::examples::Shown { #__VA_ARGS__, __VA_ARGS__ }

/// A line of a program's source text.
struct Line {
  std::string code;
  bool is_read = false;  // whether statistics are read after it, by a call of `at` that is not shown
};

/// Returns the text between the outermost braces of a lambda, one statement per line. The preprocessor has removed the
/// line breaks and comments.
std::vector<Line> lines_of(const std::string& lambda);

}  // namespace bytetape::examples
