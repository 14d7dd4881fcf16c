#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "examples/memory_tour/measure.h"

namespace bytetape::examples {

/// What is drawn in a terminal: in colours where stdout is one that has them.
std::string bold(const std::string& text);
std::string dim(const std::string& text);

/// The roles of `held` one behind the other, each as long as its share of `whole`, in at most `width` characters;
/// of anything at least one.
std::string role_bar(const memory::RoleBytes& held, std::size_t whole, int width);
/// What stands for which role in it, of those that any of `bars` has.
std::vector<std::string> role_legend(std::span<const memory::RoleBytes> bars);

/// Heights as an area of `width` by `height` characters, a line each; a column is as high as the highest of its values.
std::vector<std::string> area(const std::vector<std::size_t>& values, std::size_t highest, int width, int height);

/// What was allocated after each event.
std::vector<std::size_t> allocated_by_event(const std::vector<memory::Event>& events);
/// A letter a column of area(): the phase in which its first event was.
std::string phase_band(const std::vector<memory::Event>& events, int width);

}  // namespace bytetape::examples
