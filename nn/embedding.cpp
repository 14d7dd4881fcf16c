#include "bytetape/nn/embedding.h"

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/nn/init.h"

namespace bytetape::nn {

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, EmbeddingOptions options)
    : options_(options) {
  check<ValueError>(num_embeddings > 0 && embedding_dim > 0, "Embedding needs positive sizes, got ", num_embeddings,
                    " and ", embedding_dim);
  if (options_.padding_idx) {
    std::int64_t& padding = *options_.padding_idx;
    check<ValueError>(padding >= -num_embeddings && padding < num_embeddings,
                      "Embedding needs a padding_idx among its ", num_embeddings, " rows, got ", padding);
    if (padding < 0) padding += num_embeddings;
  }
  weight = register_parameter("weight", Shape{num_embeddings, embedding_dim});
  init::normal_(weight);
  const NoGrad no_grad;
  if (options_.padding_idx) zero_(select(weight, 0, *options_.padding_idx));
}

Tensor Embedding::forward(const Tensor& x) { return embedding(x, weight, options_); }

std::string Embedding::describe() const {
  const std::string padding =
      options_.padding_idx ? bytetape::detail::concat(", padding_idx=", *options_.padding_idx) : "";
  return bytetape::detail::concat("Embedding(", weight.size(0), ", ", weight.size(1), padding, ")");
}

}  // namespace bytetape::nn
