#include "examples/gpt/config.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace bytetape::examples {
namespace {

/// Returns n_head of a config.json, or nullopt if it has none.
std::optional<std::int64_t> read_heads(const std::filesystem::path& path) {
  constexpr std::uint64_t most = std::uint64_t{1} << 31;
  const nlohmann::json config = nlohmann::json::parse(data::read_text(path), nullptr, false);
  check<FileError>(config.is_object(), path.string(), ": expected a JSON object");
  const auto at = config.find("n_head");
  if (at == config.end()) return std::nullopt;
  check<FileError>(at->is_number_unsigned() && at->get<std::uint64_t>() > 0 && at->get<std::uint64_t>() < most,
                   path.string(), ": expected a positive integer as n_head, got ",
                   at->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return at->get<std::int64_t>();
}

}  // namespace

GptSizes check_published(const PublishedWeights& weights, std::optional<std::int64_t> heads) {
  weights.check_tensors();
  const std::filesystem::path path = std::filesystem::path(weights.name()).replace_filename("config.json");
  const bool has_config = std::filesystem::exists(path);
  if (has_config) {
    const std::optional<std::int64_t> n_head = read_heads(path);
    check<FileError>(n_head || heads, path.string(), ": there is no n_head: set --heads");
    check<ValueError>(!n_head || !heads || *n_head == *heads, path.string(), ": n_head is ", n_head.value_or(0),
                      ", but --heads is ", heads.value_or(0), ": leave out --heads");
    const std::int64_t width = weights.width();
    check<ValueError>(!n_head || width % *n_head == 0, path.string(), ": n_head ", n_head.value_or(0),
                      " does not divide the width of ", weights.name(), ", ", width);
    if (n_head) heads = n_head;
  }
  const GptSizes sizes = weights.sizes(heads);
  if (!heads && dist::init().rank() == 0)
    fmt::print("no config.json beside {}: assuming --heads {}, each of {} columns\n\n", weights.name(), sizes.heads,
               sizes.width / sizes.heads);
  return sizes;
}

void check_vocabulary(const data::Tokenizer& tokenizer, const GptSizes& sizes) {
  check<ValueError>(tokenizer.size() <= sizes.vocabulary, "the tokenizer has ", tokenizer.size(),
                    " tokens, but the weights are for ", sizes.vocabulary);
}

}  // namespace bytetape::examples
