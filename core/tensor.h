#pragma once
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "bytetape/core/device/default_device.h"
#include "bytetape/core/dtype.h"
#include "bytetape/core/intrusive.h"
#include "bytetape/core/scalar.h"
#include "bytetape/core/shape.h"
#include "bytetape/core/storage.h"
#include "bytetape/core/view.h"

/// Tensors, ops on them, and the tape.
namespace bytetape {

/// What autograd hangs on a tensor. Core only destroys it.
struct AutogradSlot {
  virtual ~AutogradSlot() = default;
};

/// What a Tensor points to.
struct TensorImpl final : RefCounted {
  TensorImpl(const Shape& shape, const Strides& strides, DType dtype) : shape(shape), strides(strides), dtype(dtype) {}
  /// Row-major.
  TensorImpl(const Shape& shape, DType dtype) : shape(shape), strides(contiguous_strides(shape)), dtype(dtype) {}

  std::uint32_t slots = 0;  ///< places in modules that hold it as a parameter or a buffer
  Ref<Storage> storage;
  std::int64_t offset = 0;  ///< elements
  Shape shape;
  Strides strides;  ///< elements
  DType dtype;
  bool is_view = false;   ///< made by a view op: shares its storage with a base
  bool replaced = false;  ///< an assignment took it out of the last of its slots
  static constexpr std::uint32_t unbound = ~std::uint32_t{0};
  std::uint32_t rebased_seen = 0;  ///< Storage::rebased() when this view of it was made; `unbound` outside the graph
  std::unique_ptr<AutogradSlot> autograd;
};

/// A strided view of a storage, held by value: copies share the data. Ops on tensors are free functions
/// (bytetape/autograd/ops.h); factories are in bytetape/core/factories.h.
class Tensor {
 public:
  /// Undefined: no shape, no data. Every accessor but defined() throws ValueError on it.
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return static_cast<bool>(impl_); }
  const Shape& shape() const { return self().shape; }
  /// Steps in elements.
  const Strides& strides() const { return self().strides; }
  /// Extent of one dim, which may count from the end. Throws ShapeError where there is no such dim.
  std::int64_t size(std::int64_t dim) const {
    check(rank() > 0, "size(", dim, ") of a tensor without dims");
    return shape()[wrap_dim(dim, shape())];
  }
  int rank() const { return shape().size(); }
  /// Number of elements; 1 for a scalar.
  std::int64_t numel() const { return bytetape::numel(shape()); }
  DType dtype() const { return self().dtype; }
  Device device() const { return self().storage->device(); }
  /// Place of the first element in the storage, in elements.
  std::int64_t storage_offset() const { return self().offset; }
  /// True where the elements lie row-major, without gaps.
  bool is_contiguous() const { return bytetape::is_contiguous(shape(), strides()); }
  /// Bytes of the elements, whatever the storage holds.
  std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype()); }

  /// The first element; the others lie by strides(). Results on images (conv2d, max_pool2d, batch_norm) are
  /// channels-last in memory: contiguous(x) has the elements row-major. Throws DTypeError where T is not the dtype,
  /// DeviceError where this process cannot read it.
  template <class T>
  const T* data() const {
    return static_cast<const T*>(checked_data(dtype_of<T>));
  }
  /// The same, to write, before the next op. Autograd does not learn of such writes.
  template <class T>
  T* data() {
    void* const data = checked_data(dtype_of<T>);
    storage().wait_for_device_reads();
    storage().shadow() = {};  // Autocast's copy is none of what is written now
    return static_cast<T*>(data);
  }
  /// The value of a one-element tensor, converted to T. Throws ShapeError where there are more or fewer, DeviceError on
  /// a meta device.
  template <class T>
  T item() const {
    return item().to<T>();
  }
  /// The same, as the number that it is.
  Scalar item() const;
  /// Every element, row-major, converted to T: double, float, std::int64_t, std::int32_t, std::uint8_t or bool. Throws
  /// DeviceError on a meta device.
  template <class T>
  std::vector<T> to_vector() const;

  /// \name Autograd's half of the value
  /// Defined in `autograd`, not in `core`.
  /// @{

  /// True for a leaf that collects gradients and for everything computed from one.
  bool requires_grad() const;
  /// Makes a leaf collect gradients, or stop. Throws AutogradError on a non-leaf, DTypeError on integers.
  Tensor& set_requires_grad(bool on = true);
  /// True where no op on the tape made this tensor.
  bool is_leaf() const;
  /// The accumulated gradient; undefined before the first backward.
  Tensor grad() const;
  /// Replaces the gradient; an undefined tensor clears it. Throws ShapeError, DTypeError or DeviceError on a misfit.
  void set_grad(const Tensor& g);
  /// Accumulates d(this)/d(leaf) into every leaf's grad. `seed` is the gradient of this tensor; it defaults to 1 for a
  /// one-element tensor. retain_graph keeps the graph for another backward; create_graph does too, and records the
  /// backward itself, for higher derivatives. Throws AutogradError where nothing requires grad, a seed is missing, the
  /// graph was already freed, or create_graph meets a rule that cannot be differentiated again; ShapeError, DTypeError
  /// or DeviceError where the seed is not like this tensor.
  /// With create_graph, a leaf and its .grad hold each other: drop the grad (set_grad({})), or use grad(), which
  /// leaves .grad alone; else neither is ever freed.
  void backward(const Tensor& seed = {}, bool retain_graph = false, bool create_graph = false) const;
  /// The same data (shared, not copied), outside the graph.
  Tensor detach() const;
  /// Calls `hook` with this tensor's gradient each time backward computes it; a defined result replaces it.
  /// Returns a number for remove_hook. Throws AutogradError where the tensor requires no grad.
  int register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// Calls `hook` with this leaf each time backward() has added to its grad() all that it will: a gradient may be used
  /// up, and let go, before others are made (torch.Tensor.register_post_accumulate_grad_hook). Leaves come in the
  /// order in which the tape reaches them, the same each time. Returns a number for remove_hook. Throws AutogradError
  /// unless the tensor is a leaf that requires grad.
  int register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const;
  /// A number that is no hook's is ignored.
  void remove_hook(int handle) const;
  /// @}

  /// \name For ops and kernels
  /// @{

  ConstView read() const {
    self().storage->before_read();
    return view_of_all<ConstView>();
  }
  /// Does not count as a write for autograd; in-place ops say so with Storage::bump_version.
  View write() const {
    self().storage->before_write();
    return view_of_all<View>();
  }
  /// Another view of the storage, without autograd. Nothing is checked.
  Tensor alias(const Shape& shape, const Strides& strides, std::int64_t offset) const;
  Storage& storage() const { return *self().storage; }
  /// Takes over x's storage, strides, dtype and device, and remains the same tensor to all who hold it, in its role and
  /// under its module on the ledger (PyTorch's). A gradient stays as it is. Throws ShapeError where shapes differ.
  void set_data(const Tensor& x) const;
  TensorImpl* impl() const { return impl_.get(); }
  const Ref<TensorImpl>& ref() const { return impl_; }
  /// True where both are copies of one handle: more than equal, or views of one storage.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  /// @}

 private:
  template <class V>
  V view_of_all() const {
    const TensorImpl& x = *impl_;
    return {address(), x.dtype, x.storage->device(), x.shape, x.strides};
  }
  void* address() const {
    return static_cast<char*>(impl_->storage->data()) + impl_->offset * static_cast<std::int64_t>(size_of(dtype()));
  }
  const TensorImpl& self() const {
    if (!impl_) [[unlikely]]
      fail_undefined();
    return *impl_;
  }
  [[noreturn]] static void fail_undefined();
  void* checked_data(DType wanted) const;

  Ref<TensorImpl> impl_;
};

/// Bytes of `shape` in `dtype`. Throws ShapeError past 2^62.
std::size_t bytes_of(const Shape& shape, DType dtype);

/// An uninitialised tensor, row-major. Throws ShapeError on negative sizes, OutOfMemory.
Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = default_device(),
             memory::Role role = memory::Role::temporary);
/// The same with given strides, which must address each element once: ShapeError where they do not.
Tensor empty_strided(const Shape& shape, const Strides& strides, DType dtype, Device device,
                     memory::Role role = memory::Role::temporary);
/// Uninitialised, with x's shape, device and (where they are dense) strides.
Tensor empty_like(const Tensor& x);
/// The same with another dtype.
Tensor empty_like(const Tensor& x, DType dtype);
/// The same with another dtype, on another device.
Tensor empty_like(const Tensor& x, DType dtype, Device device);

/// What describe() gives: text that is made when it is streamed, so that a check that holds costs nothing. Not to be
/// kept longer than the tensor.
struct Description {
  const Tensor& x;
  friend std::ostream& operator<<(std::ostream& out, const Description& d);
  friend bool operator==(const Description& d, const std::string& text) { return detail::concat(d) == text; }
};
/// "f32(64, 784) on cpu", for messages.
inline Description describe(const Tensor& x) { return {x}; }
/// Values to four digits, aligned and summarised past 1,000 elements; then shape, dtype and device.
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace bytetape
