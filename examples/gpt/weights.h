#pragma once
#include <bytetape/bytetape.h>
#include <bytetape/core/named_tensors.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "examples/gpt/model.h"

namespace bytetape::examples {

/// The sizes of OpenAI's models, by their number of parameters.
inline const std::map<std::string, GptSizes>& published_sizes() {
  const auto sizes = [](std::int64_t layers, std::int64_t heads, std::int64_t width) -> GptSizes {
    return {.vocabulary = 50257, .context = 1024, .layers = layers, .heads = heads, .width = width};
  };
  static const std::map<std::string, GptSizes> all{{"124m", sizes(12, 12, 768)},
                                                   {"355m", sizes(24, 16, 1024)},
                                                   {"774m", sizes(36, 20, 1280)},
                                                   {"1558m", sizes(48, 25, 1600)}};
  return all;
}

/// The weights of a GPT-2 in a safetensors file with Hugging Face's names, with or without the prefix "transformer.".
class PublishedWeights {
 public:
  /// Throws FileError if the file cannot be read or is damaged.
  explicit PublishedWeights(const std::string& path) : file_(path) {
    const auto has_prefix = [](const TensorEntry& t) { return t.name.starts_with(prefix); };
    if (std::ranges::any_of(file_.tensors(), has_prefix)) prefix_ = prefix;
  }

  /// Returns the sizes of the file's model. The file does not tell the number of heads. OpenAI's have 64 columns each.
  /// If the file has no embeddings, returns those of the smallest model, so that check_names() can list what is
  /// missing. Throws ValueError if an embedding is empty, or the heads do not divide the width.
  GptSizes sizes(std::optional<std::int64_t> heads = {}) const {
    const TensorEntry *wte = find("wte.weight"), *wpe = find("wpe.weight");
    GptSizes s = published_sizes().at("124m");
    if (!wte || !wpe || wte->shape.size() != 2 || wpe->shape.size() != 2) return s;
    s.vocabulary = wte->shape[0];
    s.width = wte->shape[1];
    s.context = wpe->shape[0];
    check<ValueError>(s.vocabulary > 0 && s.width > 0 && s.context > 0, file_.name(), ": an embedding is empty");
    for (s.layers = 1; find("h." + std::to_string(s.layers) + ".ln_1.weight");) ++s.layers;
    s.heads = heads.value_or(std::max<std::int64_t>(s.width / 64, 1));
    check<ValueError>(s.width % s.heads == 0, file_.name(), ": ", s.heads, " heads do not divide the width, ", s.width);
    return s;
  }

  /// Throws ValueError, listing missing and unexpected names, if the file is not of a GPT-2 of these sizes.
  void check_names(const GptSizes& sizes) const {
    const DefaultDevice here(Device::meta());
    check_names(Gpt(sizes).state_dict());
  }

  /// Loads the weights into a model, straight to its device. Linear layers are stored transposed (Conv1D). The constant
  /// masks attn.bias and attn.masked_bias are ignored.
  /// Throws ValueError, listing missing and unexpected names, if the file is of another model, or if it has an output
  /// layer of its own. Throws ShapeError if a shape differs. The model is unchanged then.
  void load_into(Gpt& model) const {
    const NoGrad no_grad;
    NamedTensors own;
    for (const auto& [name, x] : model.state_dict())
      own.emplace_back(name, is_transposed(name) ? transpose(x, 0, 1) : x);
    check_names(own);
    check_output_layer();
    file_.load_into(own, false, prefix_);
  }

 private:
  static constexpr const char *prefix = "transformer.", *output_layer = "lm_head.weight";

  void check_names(const NamedTensors& own) const {
    std::vector<std::string> names;
    for (const TensorEntry& t : file_.tensors())
      if (const std::string name = name_of(t); !is_ignored(name)) names.push_back(name);
    check_keys(file_.name(), own, names, true);
  }

  static bool is_transposed(const std::string& name) {
    return name.ends_with("c_attn.weight") || name.ends_with("c_proj.weight") || name.ends_with("c_fc.weight");
  }
  static bool is_ignored(const std::string& name) {
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == output_layer;
  }
  std::string name_of(const TensorEntry& t) const {
    return t.name.starts_with(prefix_) ? t.name.substr(prefix_.size()) : t.name;
  }
  const TensorEntry* find(const std::string& name) const {
    const auto at = std::ranges::find_if(file_.tensors(), [&](const TensorEntry& t) { return name_of(t) == name; });
    return at == file_.tensors().end() ? nullptr : &*at;
  }
  /// Throws unless the output layer is absent or equal to the embedding.
  void check_output_layer() const {
    if (!find(output_layer)) return;
    const auto load = [&](const std::string& name) {
      return file_.load(Device::cpu(), memory::Role::temporary, name).at(0).second;
    };
    const Tensor head = load(output_layer), embedding = load(prefix_ + "wte.weight");
    const bool is_tied =
        head.shape() == embedding.shape() && head.dtype() == embedding.dtype() && !any(head != embedding).item<bool>();
    check<ValueError>(is_tied, file_.name(), ": lm_head.weight differs from wte.weight, but a GPT-2 has one for both");
  }

  SafetensorsFile file_;
  std::string prefix_;
};

}  // namespace bytetape::examples
