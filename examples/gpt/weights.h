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

  /// The path of the file.
  const std::string& name() const { return file_.name(); }

  /// Returns the sizes of the file's model. The file does not have the number of heads. OpenAI's have 64 columns each.
  /// If the file has no embeddings, returns those of the smallest model, so that check_tensors() can list what is
  /// missing.
  /// Throws ShapeError if an embedding is not a matrix.
  /// Throws ValueError if an embedding is empty, or the heads do not divide the width.
  GptSizes sizes(std::optional<std::int64_t> heads = {}) const {
    GptSizes s = sizes_without_heads();
    s.heads = heads.value_or(std::max<std::int64_t>(s.width / 64, 1));
    check<ValueError>(s.width % s.heads == 0, name(), ": ", s.heads, " heads do not divide the width, ", s.width,
                      heads ? "" : ": set --heads");
    return s;
  }
  std::int64_t width() const { return sizes_without_heads().width; }

  /// Throws what load_into() throws for a model of the file's sizes.
  void check_tensors() const {
    const DefaultDevice here(Device::meta());
    check_tensors(as_stored(Gpt(sizes_without_heads())));
  }

  /// Loads the weights into a model, straight to its device. Linear layers are stored transposed (Conv1D). The constant
  /// masks attn.bias and attn.masked_bias are ignored. The model is unchanged after an exception.
  /// Throws ValueError, listing missing and unexpected names, if the file is of another model, or if it has an output
  /// layer of its own.
  /// Throws DTypeError if a tensor is not floating-point.
  /// Throws ShapeError if a shape differs.
  void load_into(Gpt& model) const {
    const NoGrad no_grad;
    const NamedTensors own = as_stored(model);
    check_tensors(own);
    file_.load_into(own, false, prefix_);
  }

 private:
  static constexpr const char *prefix = "transformer.", *output_layer = "lm_head.weight";

  GptSizes sizes_without_heads() const {
    const TensorEntry *wte = find("wte.weight"), *wpe = find("wpe.weight");
    GptSizes s = published_sizes().at("124m");
    if (!wte || !wpe) return s;
    for (const TensorEntry* t : {wte, wpe})
      check(t->shape.size() == 2, name(), ": expected a matrix as '", name_of(*t), "', got the shape ", t->shape);
    s.vocabulary = wte->shape[0];
    s.width = wte->shape[1];
    s.context = wpe->shape[0];
    check<ValueError>(s.vocabulary > 0 && s.width > 0 && s.context > 0, name(), ": an embedding is empty");
    for (s.layers = 1; find("h." + std::to_string(s.layers) + ".ln_1.weight");) ++s.layers;
    return s;
  }

  /// Returns a model's tensors in the shapes of the file.
  static NamedTensors as_stored(const Gpt& model) {
    const NoGrad no_grad;
    NamedTensors all;
    for (const auto& [name, x] : model.state_dict())
      all.emplace_back(name, is_transposed(name) ? transpose(x, 0, 1) : x);
    return all;
  }

  void check_tensors(const NamedTensors& own) const {
    std::vector<std::string> names;
    for (const TensorEntry& t : file_.tensors())
      if (const std::string name = name_of(t); !is_ignored(name)) names.push_back(name);
    check_keys(name(), own, names, true);
    for (const auto& [key, x] : own) {
      const TensorEntry& t = *find(key);
      check<DTypeError>(is_floating(t.dtype), name(), ": expected '", key, "' in a floating-point dtype, got ",
                        t.dtype);
      const bool is_reversed = is_transposed(key) && t.shape == transpose(x, 0, 1).shape();
      check(t.shape == x.shape(), name(), ": '", key, "' has shape ", t.shape, " in the file, but ", x.shape(),
            " in the model", is_reversed ? ": GPT-2's files have weights of linear layers as (in, out)" : "");
    }
    check_output_layer();
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
    const auto load = [&](const char* name) {
      return file_.load(Device::cpu(), memory::Role::temporary, find(name)->name).at(0).second;
    };
    const Tensor head = load(output_layer), embedding = load("wte.weight");
    const bool is_tied =
        head.shape() == embedding.shape() && head.dtype() == embedding.dtype() && !any(head != embedding).item<bool>();
    check<ValueError>(is_tied, name(), ": lm_head.weight differs from wte.weight, but a GPT-2 has one for both");
  }

  SafetensorsFile file_;
  std::string prefix_;
};

}  // namespace bytetape::examples
