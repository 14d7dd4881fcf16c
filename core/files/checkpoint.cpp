#include "bytetape/core/files/checkpoint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape {
namespace {

using memory::Op;
using Number = StateDict::Number;

template <class T>
std::string shortest(T value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// The shortest text that reads back to the same bits. A double has a point, an exponent or a word, an integer has
/// none.
std::string text_of(std::int64_t value) { return shortest(value); }
std::string text_of(double value) {
  const std::string text = shortest(value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

template <class T>
std::optional<Number> parsed(const std::string& text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [behind, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || behind != end) return {};
  return value;
}

std::optional<Number> number_in(const std::string& text) {
  const auto whole = parsed<std::int64_t>(text);
  return whole ? whole : parsed<double>(text);
}

constexpr const char* hint = "a file of weights is not a checkpoint: load it with load_safetensors_into";

}  // namespace

void save_checkpoint(const std::string& path, const StateDict& state) {
  const Op<"save_checkpoint"> op;
  Metadata numbers;
  for (const auto& [name, number] : state.numbers)
    numbers.emplace(name, std::visit([](auto value) { return text_of(value); }, number));
  save_safetensors(path, state.tensors, numbers);
}

Checkpoint::Checkpoint(const std::string& path)
    : Checkpoint([&] {
        const Op<"Checkpoint"> op;
        return SafetensorsFile(path);
      }()) {}

Checkpoint::Checkpoint(SafetensorsFile file) : file_(std::move(file)) {
  const Op<"Checkpoint"> op;
  check<FileError>(file_.has_checksum(), file_.name(),
                   ": at byte 8: expected a header that begins with a checksum, as save_checkpoint writes it, found "
                   "none; ",
                   hint);
  for (const auto& [name, text] : file_.metadata()) {
    const auto number = number_in(text);
    if (!number)
      fail<FileError>(file_.name(),
                      ": at byte 8: ", printable("'" + name + "': expected a number, found '" + text + "'; " + hint));
    numbers_.numbers.emplace(name, *number);
  }
}

void Checkpoint::check_number(const std::string& name) const {
  check<ValueError>(!numbers_.numbers.empty(), file_.name(), ": expected a number '", name, "', found no numbers; ",
                    hint);
}
std::int64_t Checkpoint::integer(const std::string& name) const {
  check_number(name);
  return numbers_.integer(name);
}
double Checkpoint::number(const std::string& name) const {
  check_number(name);
  return numbers_.number(name);
}

void Checkpoint::check_has(std::string_view prefix) const {
  const std::string path = std::string(prefix) + ".";
  const auto& all = file_.tensors();
  const bool has = std::any_of(all.begin(), all.end(), [&](const auto& t) { return t.name.starts_with(path); });
  check<ValueError>(has || all.empty() || !numbers_.numbers.empty(), file_.name(), ": expected a part '", prefix,
                    "', found no numbers, and the first tensor '", all.empty() ? "" : printable(all.front().name),
                    "'; ", hint);
}

StateDict Checkpoint::part(std::string_view prefix, Device device, memory::Role role) const {
  check_has(prefix);
  StateDict found = numbers_.part(prefix);
  found.tensors = file_.load(device, role, std::string(prefix) + ".");
  return found;
}

void Checkpoint::load_into(std::string_view prefix, const NamedTensors& tensors) const {
  check_has(prefix);
  file_.load_into(tensors, /*strict=*/true, std::string(prefix) + ".");
}

}  // namespace bytetape
