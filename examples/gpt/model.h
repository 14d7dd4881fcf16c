#pragma once
#include <bytetape/bytetape.h>

#include <cmath>
#include <tuple>
#include <utility>

namespace bytetape::examples {

/// The sizes of a GPT-2.
struct GptSizes {
  std::int64_t vocabulary = 65, context = 128;  // tokens
  std::int64_t layers = 4, heads = 4, width = 128;
  double dropout = 0;
};

/// Self-attention in which a token attends to itself and earlier ones.
class CausalSelfAttention : public nn::Module {
 public:
  explicit CausalSelfAttention(const GptSizes& s)
      : c_attn(s.width, 3 * s.width), c_proj(s.width, s.width), heads_(s.heads), dropout_(s.dropout) {
    register_module("c_attn", c_attn), register_module("c_proj", c_proj);
  }

  Tensor forward(const Tensor& x) override {
    const double p = is_training() ? dropout_ : 0;
    const auto attend = [p](const Tensor& q, const Tensor& k, const Tensor& v) {
      return scaled_dot_product_attention(q, k, v, {.causal = true, .dropout = p});
    };
    return dropout(with_heads(x, attend), p);
  }
  using Module::operator();
  /// For new tokens, after those in a layer of the cache.
  Tensor operator()(const Tensor& x, nn::KeyValueCache& cache, std::int64_t layer) {
    const auto attend = [&](const Tensor& q, const Tensor& k, const Tensor& v) { return cache.attend(layer, q, k, v); };
    return nn::call(
        *this, [&](const Tensor& x) { return with_heads(x, attend); }, x);
  }

  nn::Linear c_attn, c_proj;

 private:
  template <class F>
  Tensor with_heads(const Tensor& x, const F& attend) {
    const std::int64_t b = x.size(0), n = x.size(1), width = x.size(2);
    const std::vector<Tensor> qkv = chunk(c_attn(x), 3, -1);
    const auto heads = [&](const Tensor& part) { return transpose(view(part, {b, n, heads_, width / heads_}), 1, 2); };
    return c_proj(reshape(transpose(attend(heads(qkv[0]), heads(qkv[1]), heads(qkv[2])), 1, 2), x.shape()));
  }

  std::int64_t heads_;
  double dropout_;
};

/// A feed-forward network with one hidden layer.
struct GptMlp : nn::Module {
  nn::Linear c_fc, c_proj;
  nn::Dropout dropout;

  explicit GptMlp(const GptSizes& s) : c_fc(s.width, 4 * s.width), c_proj(4 * s.width, s.width), dropout(s.dropout) {
    register_module("c_fc", c_fc), register_module("c_proj", c_proj), register_module("dropout", dropout);
  }
  Tensor forward(const Tensor& x) override { return dropout(c_proj(c_fc(x, Activation::gelu_tanh))); }
};

/// Attention and a feed-forward network, each on normalised inputs and added to them. The last sum is left to the next
/// layer norm, which adds and normalises in one pass.
struct GptBlock : nn::Module {
  nn::LayerNorm ln_1;
  CausalSelfAttention attn;
  nn::LayerNorm ln_2;
  GptMlp mlp;

  explicit GptBlock(const GptSizes& s) : ln_1(Shape{s.width}), attn(s), ln_2(Shape{s.width}), mlp(s) {
    register_module("ln_1", ln_1), register_module("attn", attn);
    register_module("ln_2", ln_2), register_module("mlp", mlp);
  }
  using nn::Module::operator();
  /// Returns the result of the feed-forward network, and the sum to which it is still to be added. The inputs are those
  /// of the block before. Without it, `branch` is undefined.
  std::pair<Tensor, Tensor> operator()(const Tensor& branch, const Tensor& x) {
    const auto body = [this](const Tensor& branch, const Tensor& x) {
      return run(branch, x, [this](const Tensor& normalised) { return attn(normalised); });
    };
    return nn::call(*this, body, branch, x);
  }
  /// The same for new tokens of a cache.
  std::pair<Tensor, Tensor> operator()(const Tensor& branch, const Tensor& x, nn::KeyValueCache& cache,
                                       std::int64_t layer) {
    const auto body = [&](const Tensor& branch, const Tensor& x) {
      return run(branch, x, [&](const Tensor& normalised) { return attn(normalised, cache, layer); });
    };
    return nn::call(*this, body, branch, x);
  }

 private:
  template <class Attend>
  std::pair<Tensor, Tensor> run(const Tensor& branch, const Tensor& x, const Attend& attend) {
    const AddLayerNorm first = branch.defined() ? ln_1(branch, x) : AddLayerNorm{ln_1(x), x};
    const auto [normalised, sum] = ln_2(attend(first.y), first.sum);
    return {mlp(normalised), sum};
  }
};

/// GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019), with Hugging Face's names. The
/// output layer has the weight of the token embedding.
struct Gpt : nn::Module {
  GptSizes sizes;
  nn::Embedding wte, wpe;  // of tokens and positions
  nn::Dropout drop;
  nn::ModuleList<GptBlock> h;
  nn::LayerNorm ln_f;

  explicit Gpt(const GptSizes& s)
      : sizes(s), wte(s.vocabulary, s.width), wpe(s.context, s.width), drop(s.dropout), ln_f(Shape{s.width}) {
    for (std::int64_t i = 0; i < s.layers; ++i) h.push_back(GptBlock(s));
    register_module("wte", wte), register_module("wpe", wpe), register_module("drop", drop), register_module("h", h);
    register_module("ln_f", ln_f);
    initialise();
  }

  /// Returns logits (b, n, vocabulary) of the next tokens, for tokens i64 (b, n) with n <= context.
  Tensor forward(const Tensor& tokens) override { return linear(features(tokens), wte.weight); }

  /// Returns the mean cross-entropy of the next tokens, `targets` (b, n). The logits are never whole in memory.
  Tensor loss(const Tensor& tokens, const Tensor& targets) {
    const auto body = [this](const Tensor& tokens, const Tensor& targets) {
      return linear_cross_entropy(features(tokens), wte.weight, targets);
    };
    return nn::call(*this, body, tokens, targets);
  }

  /// Returns the output of the last layer norm (b, n, width).
  Tensor features(const Tensor& tokens) {
    check(tokens.rank() == 2 && tokens.size(1) <= sizes.context, "expected tokens (b, n) with n of at most ",
          sizes.context, ", got ", bytetape::describe(tokens));
    Tensor x = drop(wte(tokens) + wpe(arange(tokens.size(1), DType::i64, tokens.device())));
    Tensor branch;
    for (GptBlock& block : h) std::tie(branch, x) = block(branch, x);
    return normalised(branch, x);
  }
  using Module::operator();
  /// Returns logits (b, 1, vocabulary) of the token after each row's last, for new tokens i64 (b, n), for generation.
  Tensor operator()(const Tensor& tokens, nn::KeyValueCache& cache) {
    const auto body = [&](const Tensor& tokens) {
      Tensor x = wte(tokens) + wpe(cache.token_positions(tokens.size(1)));
      Tensor branch;
      std::int64_t layer = 0;
      for (GptBlock& block : h) std::tie(branch, x) = block(branch, x, cache, layer++);
      if (branch.defined()) branch = cache.last_tokens(branch);
      return linear(normalised(branch, cache.last_tokens(x)), wte.weight);
    };
    return nn::call(*this, body, tokens);
  }
  /// The sizes of a cache on the default device for `rows` texts, computed in a dtype.
  nn::KeyValueCacheSizes cache_sizes(std::int64_t rows, DType dtype) const {
    return {.layers = sizes.layers,
            .rows = rows,
            .heads = sizes.heads,
            .capacity = sizes.context,
            .head_size = sizes.width / sizes.heads,
            .dtype = dtype};
  }

 private:
  /// Returns the last layer norm of the sum. Without layers, there is no branch.
  Tensor normalised(const Tensor& branch, const Tensor& x) { return branch.defined() ? ln_f(branch, x).y : ln_f(x); }
  /// As GPT-2: layers whose results are added to the residual start smaller, the more there are.
  void initialise() {
    const double residual_std = 0.02 / std::sqrt(2.0 * static_cast<double>(sizes.layers));
    for (auto& [name, x] : named_parameters()) {
      if (x.rank() == 2)
        nn::init::normal_(x, 0, name.ends_with("c_proj.weight") ? residual_std : 0.02);
      else if (name.ends_with("bias"))
        nn::init::zeros_(x);
    }
  }
};

}  // namespace bytetape::examples
