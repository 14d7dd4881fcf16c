#pragma once
#include <cstdint>
#include <string>

#include "bytetape/autograd/ops/indexing.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// Looks up rows of a table for x, an i64 tensor of any shape (...) (torch.nn.Embedding). Returns (..., embedding_dim).
/// weight (num_embeddings, embedding_dim) is initialised from N(0, 1). The row padding_idx is 0 and gets no gradient.
class Embedding : public Module {
 public:
  /// Throws ValueError if a size is not positive, or padding_idx is not in [-num_embeddings, num_embeddings).
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, EmbeddingOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight;

 private:
  EmbeddingOptions options_;
};

}  // namespace bytetape::nn
