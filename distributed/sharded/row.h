#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/core/tensor.h"
#include "bytetape/distributed/group.h"
#include "bytetape/distributed/sharded.h"

namespace bytetape::dist {

/// Parameters of one dtype and device in one row of memory, of which each rank owns an equal part. Parts may have a
/// wider dtype than the row.
class Row {
 public:
  /// A parameter of the row.
  struct Piece {
    std::string name;
    Tensor parameter;
    std::int64_t offset = 0;  // of its first element in the row
    Tensor part = {};         // a leaf of one dim with the elements that this rank owns; may be empty
    Tensor gradient = {};     // of `part`, with the row's dtype; undefined before the first exchange
    Tensor waiting = {};      // the parameter's gradient on this rank, before the exchange
    bool is_filled = false;   // the gradient waits
  };

  struct Options {
    Shard shard;
    DType dtype;
    Device device;
    std::uint64_t number;            // differs from that of other rows
    std::function<void()> gathered;  // called after the row was gathered
  };
  /// Moves the parameters into a row, with the values of rank 0.
  Row(std::vector<Piece> pieces, const Group& group, const Options& options);

  std::vector<Piece>& pieces() { return pieces_; }
  Storage& storage() const { return pieces_.front().parameter.storage(); }
  std::size_t bytes() const { return storage().bytes(); }
  DType dtype() const { return dtype_; }
  std::size_t filled = 0;  // pieces

  /// Call before the first exchange of a backward.
  void begin_backward();
  /// Averages the gradients that wait over the ranks, and makes this rank's part the gradient of the parts, or adds it.
  /// Pieces without a gradient count as 0. `sent` gets the tensor that the exchange reads. Keep it until the next
  /// exchange, because freeing it waits for this one.
  void exchange_gradients(std::uint64_t tag, Tensor& sent);
  /// Updates this rank's part if the program has written the parameters since they were gathered.
  void keep_written();
  /// Makes the updated parts of all ranks the values of the parameters.
  void note_update();
  /// Frees the memory of gathered parameters, with Shard::parameters.
  void drop();

  /// Returns a row of which each rank has filled its part: with `part_of(piece)` for each piece, or with 0 where that
  /// is undefined or empty.
  Tensor joined(const std::function<Tensor(const Piece&)>& part_of) const;
  /// Returns the elements of `row` that belong to the piece, with the parameter's shape and strides.
  static Tensor place(const Piece& piece, const Tensor& row);
  /// The number of the piece's elements that lie before this rank's, in the order of memory; 0 if it owns none.
  std::int64_t begin_of(const Piece& piece) const {
    return piece.part.numel() == 0 ? 0 : part_size_ * group_.rank() + place_in_own(piece) - piece.offset;
  }
  /// Returns this rank's elements of x, which is like the piece's parameter.
  Tensor own_part(const Piece& piece, const Tensor& x) const;

 private:
  Tensor whole() const;
  bool is_converted() const { return own_.dtype() != dtype_; }
  Tensor own_of_whole() const { return whole().alias({part_size_}, {1}, part_size_ * group_.rank()); }
  /// The first element of the piece's part, counted from the first one that this rank owns.
  std::int64_t place_in_own(const Piece& piece) const { return piece.part.storage_offset() - own_.storage_offset(); }
  void make_gradients();
  bool keep_gradients();
  void move_in(const Tensor& sums);

  Group group_;
  Shard shard_;
  DType dtype_;
  std::uint64_t number_;
  std::vector<Piece> pieces_;
  std::int64_t part_size_ = 0;  // elements of a rank
  Tensor own_;                  // this rank's elements; a part of the row, unless that is dropped or converted
  Tensor sums_;                 // with Shard::optimizer_state: the row of gradients, of which own_gradient_ is a part
  Tensor own_gradient_;
  // The row's version when it was gathered, or when the parts last had its values. Shared with the row's source.
  std::shared_ptr<std::uint32_t> version_ = std::make_shared<std::uint32_t>(0);
};

}  // namespace bytetape::dist
