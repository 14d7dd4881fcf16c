#include "bytetape/nn/generate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bytetape/autograd/capture.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/gather.h"
#include "bytetape/autograd/ops/random.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/scan.h"
#include "bytetape/autograd/ops/softmax.h"
#include "bytetape/autograd/ops/sort.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/factories.h"

namespace bytetape::nn {
namespace {

void check_options(const GenerateOptions& o) {
  check<ValueError>(o.max_new_tokens > 0, "generate: max_new_tokens must be positive, got ", o.max_new_tokens);
  check<ValueError>(o.temperature >= 0 && std::isfinite(o.temperature),
                    "generate: temperature must be 0 or a positive number, got ", o.temperature);
  check<ValueError>(o.top_k >= 0, "generate: top_k must be positive, or 0 for all tokens, got ", o.top_k);
  check<ValueError>(o.top_p > 0 && o.top_p <= 1, "generate: top_p must be in (0, 1], got ", o.top_p);
  check<ValueError>(!o.end_token || *o.end_token >= 0, "generate: the end token must not be negative, got ",
                    o.end_token.value_or(0));
  check<ValueError>(o.generator != nullptr, "generate: the generator is null");
}

/// Checks the prompts, and returns the length of the longest.
std::int64_t check_prompts(const Tensor& prompts, const std::vector<std::int64_t>& lengths,
                           const KeyValueCacheSizes& cache) {
  check<ValueError>(prompts.defined(), "generate: the prompts are an undefined tensor");
  check<DTypeError>(prompts.dtype() == DType::i64, "generate: expected prompts in i64, got ", describe(prompts));
  check<DeviceError>(prompts.device() == cache.device, "generate: the prompts, ", describe(prompts),
                     ", are on another device than the cache on ", cache.device);
  check(prompts.rank() == 2 && prompts.size(0) == cache.rows && prompts.size(1) > 0, "generate: expected prompts (",
        cache.rows, ", t) for the rows of the cache, with at least one token, got ", describe(prompts));
  const std::int64_t t = prompts.size(1);
  if (lengths.empty()) return t;
  check<ValueError>(std::ssize(lengths) == cache.rows, "generate: expected lengths of ", cache.rows, " prompts, got ",
                    lengths.size());
  for (const std::int64_t length : lengths)
    check<ValueError>(length > 0 && length <= t, "generate: the length of a prompt must be in [1, ", t, "], got ",
                      length);
  return std::ranges::max(lengths);
}

void check_room(std::int64_t padded, std::int64_t longest, std::int64_t added, std::int64_t capacity) {
  check<ValueError>(padded <= capacity, "generate: prompts of ", padded, " tokens exceed the capacity of the cache, ",
                    capacity);
  check<ValueError>(added - 1 <= capacity - longest, "generate: a prompt of ", longest, " tokens and ", added,
                    " new ones need a cache with a capacity of ", longest + added - 1, ", got ", capacity);
}

/// Returns the next token of each row, i64 (n), for logits (n, vocabulary).
Tensor choose(const Tensor& logits, const GenerateOptions& o) {
  if (o.temperature == 0) return argmax(logits, 1);
  const Tensor scaled = to(logits, logits.dtype() == DType::f64 ? DType::f64 : DType::f32) / o.temperature;
  const auto draw = [&](const Tensor& weights) { return multinomial(weights, 1, false, *o.generator); };
  const bool is_cut = o.top_k > 0 && o.top_k < logits.size(1);
  if (!is_cut && o.top_p == 1) return flatten(draw(softmax(scaled, 1)));
  const auto [values, indices] = is_cut ? topk(scaled, o.top_k) : sort(scaled, -1, true);
  Tensor weights = softmax(values, 1);
  if (o.top_p < 1) weights = where(cumsum(weights, 1) - weights < o.top_p, weights, 0);
  return flatten(gather(indices, 1, draw(weights)));
}

/// The state of a generation on the device.
class Generation {
 public:
  Generation(const GenerateStep& step, KeyValueCache& cache, const GenerateOptions& options)
      : step_(step),
        cache_(cache),
        options_(options),
        rows_(cache.sizes().rows),
        device_(cache.sizes().device),
        all_(full({options.max_new_tokens, rows_}, options.end_token.value_or(0), DType::i64, device_)),
        current_(empty({rows_, 1}, DType::i64, device_)) {
    if (options.end_token) has_ended_ = zeros({rows_}, DType::boolean, device_);
  }

  void begin(const Tensor& prompts) {
    cache_.reset();
    if (!options_.lengths.empty()) cache_.set_lengths(from_vector(options_.lengths, {rows_}, device_));
    take(prompts);
  }
  /// Computes the next tokens from the current ones. Reads nothing on the host.
  void next() { take(current_); }
  /// Keeps the current tokens as number i. Returns whether all rows have ended.
  bool keep(std::int64_t i) const {
    const Tensor row = select(all_, 0, i);
    copy_(row, view(current_, {rows_}));
    if (device_.is_meta) return false;
    if (options_.on_tokens) options_.on_tokens(row.to_vector<std::int64_t>());
    if (!has_ended_.defined() || !looks(i)) return false;
    const std::vector<bool> ended = has_ended_.to_vector<bool>();
    return std::ranges::find(ended, false) == ended.end();
  }
  Tensor result() const { return contiguous(transpose(all_, 0, 1)); }

 private:
  /// Whether the host looks for the end after token i. Without on_tokens, it would have to wait for a GPU.
  bool looks(std::int64_t i) const {
    constexpr std::int64_t interval = 16;
    return options_.on_tokens || device_.type == DeviceType::cpu || i % interval == interval - 1;
  }
  void take(const Tensor& tokens) {
    const std::int64_t t = tokens.size(1);
    Tensor logits = step_(tokens, cache_);
    check(logits.defined() && logits.rank() == 3 && logits.size(0) == rows_ &&
              (logits.size(1) == t || logits.size(1) == 1) && logits.size(2) > 0,
          "generate: expected logits (", rows_, ", ", t, ", vocabulary) from the model, got ", describe(logits));
    if (logits.size(1) > 1) logits = cache_.last_tokens(logits);
    cache_.advance(t);
    Tensor chosen = choose(select(logits, 1, 0), options_);
    if (const auto end = options_.end_token) {
      chosen = where(has_ended_, *end, chosen);
      copy_(has_ended_, chosen == *end);
    }
    copy_(view(current_, {rows_}), chosen);
  }

  const GenerateStep& step_;
  KeyValueCache& cache_;
  const GenerateOptions& options_;
  std::int64_t rows_;
  Device device_;
  Tensor all_, current_, has_ended_;  // (max_new_tokens, n), (n, 1) and (n)
};

}  // namespace

Tensor generate(const GenerateStep& step, KeyValueCache& cache, const Tensor& prompts, const GenerateOptions& options) {
  check<ValueError>(step != nullptr, "generate: the model is an empty function");
  check_options(options);
  const std::int64_t longest = check_prompts(prompts, options.lengths, cache.sizes());
  check_room(prompts.size(1), longest, options.max_new_tokens, cache.sizes().capacity);
  const NoGrad no_grad;
  Generation generation(step, cache, options);
  generation.begin(prompts);
  auto next = capture([&] { generation.next(); });
  for (std::int64_t i = 0; !generation.keep(i) && i + 1 < options.max_new_tokens; ++i) next();
  return generation.result();
}

}  // namespace bytetape::nn
