#pragma once
#include "bytetape/cuda/attention/attention_blocks.h"

/// The workspaces of attention, and the products that read and write them. This is host code that needs no toolkit.
namespace bytetape::cuda {

/// Forward, one block at a time: scores = q k^T are turned into probabilities, and y = probabilities v.
struct AttentionForward {
  /// `a` must outlive this. A plan has no memory: ws is null.
  AttentionForward(const AttentionArgs& a, void* ws);
  void make_scores(const AttentionBlock& b, const ForProduct& f) const;
  /// Computes y of a block, in y_of(b).
  void make_y(const AttentionBlock& b, const ForProduct& f) const;
  View y_of(const AttentionBlock& b) const;

  const AttentionArgs& a;
  AttentionBlocks blocks;
  bool copies_y;                 // whether the products cannot write to a.y
  void *scores, *probabilities;  // the same memory, unless the dtypes differ
  void* y;                       // y of a block, if it is copied
  Workspace products;            // scratch of the products
  std::size_t bytes;             // of the whole workspace
};

/// Backward, one block at a time: scores = q k^T are turned into weights, the probabilities after dropout. slopes =
/// gy v^T are turned into the gradients of q k^T. Then gv += weights^T gy, gk += slopes^T q and gq = slopes k.
struct AttentionBackward {
  /// The gradient of k or v. It is a sum over the blocks of a chunk.
  struct Sum {
    View g;
    bool is_copied;  // whether products cannot add to g itself
    void* sums;      // the sum of a chunk, if it is copied
  };

  AttentionBackward(const AttentionBackwardArgs& a, void* ws);
  bool needs_slopes() const { return a.gq.defined() || a.gk.defined(); }
  void make_scores(const AttentionBlock& b, const ForProduct& f) const;
  void make_slopes(const AttentionBlock& b, const ForProduct& f) const;
  /// Computes gq of a block, in gq_of(b).
  void make_gq(const AttentionBlock& b, const ForProduct& f) const;
  View gq_of(const AttentionBlock& b) const;
  /// Adds a block to gk and gv. The first block of a chunk overwrites them.
  void add_gk(const AttentionBlock& b, const ForProduct& f) const;
  void add_gv(const AttentionBlock& b, const ForProduct& f) const;
  /// Returns the sum of a chunk, (batch, group, 1, key, column).
  View sum_of(const Sum& s, const AttentionBlock& chunk) const;
  /// Returns a chunk of s.g in the same shape.
  View grad_of(const Sum& s, const AttentionBlock& chunk) const;

  const AttentionBackwardArgs& a;
  AttentionBlocks blocks;
  bool copies_gq;
  void *scores, *slopes;          // in the dtype of the scores
  void *weights, *narrow_slopes;  // in the dtype of q; the same memory, unless the dtypes differ; null if not needed
  void* dots;                     // rowsum(gy y) (b, h, n)
  void* gq;
  Sum gk, gv;
  Workspace products;
  std::size_t bytes;

 private:
  void add(const Sum& s, void* from, const ConstView& x, const AttentionBlock& b, const ForProduct& f) const;
};

}  // namespace bytetape::cuda
