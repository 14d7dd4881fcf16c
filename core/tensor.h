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

/// The part of a tensor that autograd owns. Core only deletes it.
struct AutogradSlot {
  virtual ~AutogradSlot() = default;
};

/// The object that Tensor handles share.
struct TensorImpl final : RefCounted {
  TensorImpl(const Shape& shape, const Strides& strides, DType dtype) : shape(shape), strides(strides), dtype(dtype) {}
  /// Makes a row-major tensor.
  TensorImpl(const Shape& shape, DType dtype) : shape(shape), strides(contiguous_strides(shape)), dtype(dtype) {}

  std::uint32_t slots = 0;  ///< number of modules' parameters and buffers that refer to it
  Ref<Storage> storage;
  std::int64_t offset = 0;  ///< in elements
  Shape shape;
  Strides strides;  ///< in elements
  DType dtype;
  bool is_view = false;   ///< made by a view op; shares its base's storage
  bool replaced = false;  ///< an assignment removed it from its last slot
  static constexpr std::uint32_t unbound = ~std::uint32_t{0};
  std::uint32_t rebased_seen = 0;  ///< Storage::rebased() when this view was made; `unbound` outside the graph
  std::unique_ptr<AutogradSlot> autograd;
};

/// A handle to a strided view of a storage. Copies of a Tensor share the data.
/// Ops are free functions (bytetape/autograd/ops.h). Factories are in bytetape/core/factories.h.
class Tensor {
 public:
  /// An undefined tensor: no shape, no data. Every accessor except defined() throws ValueError.
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;

  bool defined() const { return static_cast<bool>(impl_); }
  const Shape& shape() const { return self().shape; }
  /// The strides, in elements.
  const Strides& strides() const { return self().strides; }
  /// Returns the size of a dim, which may be negative.
  /// Throws ShapeError if the dim is out of range.
  std::int64_t size(std::int64_t dim) const {
    check(rank() > 0, "size(", dim, ") of a tensor without dims");
    return shape()[wrap_dim(dim, shape())];
  }
  int rank() const { return shape().size(); }
  /// The number of elements; 1 for a scalar.
  std::int64_t numel() const { return bytetape::numel(shape()); }
  DType dtype() const { return self().dtype; }
  Device device() const { return self().storage->device(); }
  /// The offset of the first element in the storage, in elements.
  std::int64_t storage_offset() const { return self().offset; }
  /// Whether the elements are row-major without gaps.
  bool is_contiguous() const { return bytetape::is_contiguous(shape(), strides()); }
  /// The bytes of the elements, regardless of the storage's size.
  std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype()); }

  /// Returns a pointer to the first element. The others follow by strides().
  /// Results of image ops (conv2d, max_pool2d, batch_norm) are channels-last. Use contiguous(x) for row-major elements.
  /// Throws DTypeError if T does not match the dtype.
  /// Throws DeviceError if the host cannot read the data.
  template <class T>
  const T* data() const {
    return static_cast<const T*>(checked_data(dtype_of<T>));
  }
  /// Returns a pointer for writing, valid until the next op. Autograd does not see these writes.
  /// Throws ValueError if the memory is read-only; use std::as_const(x).data() to read it.
  template <class T>
  T* data() {
    void* const data = checked_data(dtype_of<T>);
    storage().check_writable();
    storage().wait_for_device_reads();
    storage().shadow() = {};  // Autocast's copy is stale after the write
    return static_cast<T*>(data);
  }
  /// Returns the value of a one-element tensor, converted to T.
  /// Throws ShapeError if numel() is not 1.
  /// Throws DeviceError on a meta device.
  template <class T>
  T item() const {
    return item().to<T>();
  }
  /// Returns the value of a one-element tensor as a Scalar, without conversion.
  Scalar item() const;
  /// Returns all elements, row-major, converted to T: double, float, std::int64_t, std::int32_t, std::uint8_t or bool.
  /// Throws DeviceError on a meta device.
  template <class T>
  std::vector<T> to_vector() const;

  /// \name Autograd
  /// Defined in `autograd`, not in `core`.
  /// @{

  /// Whether gradients are computed for this tensor: a leaf with set_requires_grad(), or a result computed from one.
  bool requires_grad() const;
  /// Sets whether a leaf accumulates gradients.
  /// Throws AutogradError if the tensor is not a leaf.
  /// Throws DTypeError if it is not floating-point.
  Tensor& set_requires_grad(bool on = true);
  /// Whether no op on the tape made this tensor.
  bool is_leaf() const;
  /// The accumulated gradient. Undefined before the first backward.
  Tensor grad() const;
  /// Replaces the gradient. An undefined tensor clears it.
  /// Throws ShapeError, DTypeError or DeviceError if g is not like this tensor.
  void set_grad(const Tensor& g);
  /// Adds d(this)/d(leaf) to the grad of every leaf.
  /// - `seed`: the gradient of this tensor. Default: 1, for a one-element tensor.
  /// - `retain_graph`: keep the graph for another backward.
  /// - `create_graph`: record backward for higher derivatives; implies retain_graph. A leaf and its grad then own each
  ///   other, and leak unless you call set_grad({}). grad() avoids that.
  ///
  /// Throws AutogradError if no leaf requires grad, a seed is missing, the graph is already freed, a leaf was moved or
  /// converted since the forward pass, or create_graph meets a rule that is not differentiable.
  /// Throws ShapeError, DTypeError or DeviceError if the seed is not like this tensor.
  void backward(const Tensor& seed = {}, bool retain_graph = false, bool create_graph = false) const;
  /// Returns a tensor outside the graph that shares the data.
  Tensor detach() const;
  /// Returns select(x, 0, i): a view of element i of the first dim. `i` may be negative. index() takes other indices.
  Tensor operator[](std::int64_t i) const;
  /// Writes into the tensor that a temporary is a view of, as copy_() and fill_() do: `x[3] = y`,
  /// `index(x, {Slice(1, 5)}) = 0.5`.
  /// Throws ValueError if the temporary is not a view of a tensor, such as index(x, {mask}). Otherwise throws as
  /// copy_() and fill_().
  void operator=(const Tensor& y) &&;
  void operator=(Scalar value) &&;
  /// Calls `hook` with this tensor's gradient each time backward computes it. A defined result replaces the gradient.
  /// Returns a handle for remove_hook().
  /// Throws AutogradError if the tensor requires no grad.
  int register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// Calls `hook` with this leaf each time backward() has completed its grad()
  /// (torch.Tensor.register_post_accumulate_grad_hook).
  /// The hook may use and free the gradient before other gradients exist. Leaves come in a fixed order, that of the
  /// tape. Returns a handle for remove_hook().
  /// Throws AutogradError unless the tensor is a leaf that requires grad.
  int register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const;
  /// Removes a hook. Unknown handles are ignored.
  void remove_hook(int handle) const;
  /// @}

  /// \name For ops and kernels
  /// @{

  /// Returns a view for a kernel to read, once the thread's stream waits for the stream of the last write. Streams that
  /// only read do not wait for each other. Evicted bytes are restored first, and a step that is being captured learns
  /// of the use. Call it after the op's checks, on the stream that runs the kernel (core/device/stream_order.h).
  ConstView read() const {
    self().storage->before_read();
    return view_of_all<ConstView>();
  }
  /// Returns a view for a kernel to write, once the thread's stream waits for all streams that have used the memory
  /// since the last write, and for the last writer. The host waits for copies from pinned memory. Otherwise as read().
  /// A copy on the host that copy_out() began is discarded. In-place ops count the write with Storage::bump_version.
  View write() const {
    self().storage->before_write();
    return view_of_all<View>();
  }
  /// Returns another view of the storage, outside autograd and unchecked.
  Tensor alias(const Shape& shape, const Strides& strides, std::int64_t offset) const;
  Storage& storage() const { return *self().storage; }
  /// Replaces storage, strides, dtype and device by those of x, for all who hold this tensor (as in PyTorch). It keeps
  /// its role and module on the ledger, its hooks, and its gradient, which is not converted.
  /// Throws ShapeError if the shapes differ.
  void set_data(const Tensor& x) const;
  TensorImpl* impl() const { return impl_.get(); }
  const Ref<TensorImpl>& ref() const { return impl_; }
  /// Whether both are the same tensor, not just equal or views of one storage.
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

/// Returns the bytes of `shape` in `dtype`.
/// Throws ShapeError if they exceed 2^62.
std::size_t bytes_of(const Shape& shape, DType dtype);

/// Returns an uninitialised row-major tensor.
/// Throws ShapeError if a size is negative.
/// Throws OutOfMemory.
Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = default_device(),
             memory::Role role = memory::Role::temporary);
/// Returns an uninitialised tensor with the given strides.
/// Throws ShapeError unless the strides are dense: each element has its own place, without gaps.
Tensor empty_strided(const Shape& shape, const Strides& strides, DType dtype, Device device,
                     memory::Role role = memory::Role::temporary);
/// Returns an uninitialised tensor with x's shape and device, and its strides if they are dense.
Tensor empty_like(const Tensor& x);
/// Returns empty_like(x) with another dtype.
Tensor empty_like(const Tensor& x, DType dtype);
/// Returns empty_like(x) with another dtype, on another device.
Tensor empty_like(const Tensor& x, DType dtype, Device device);

/// The result of describe(). The text is made when it is streamed, so that a passing check costs nothing. Refers to the
/// tensor.
struct Description {
  const Tensor& x;
  friend std::ostream& operator<<(std::ostream& out, const Description& d);
  friend bool operator==(const Description& d, const std::string& text) { return detail::concat(d) == text; }
};
/// Returns "f32(64, 784) on cpu", for messages.
inline Description describe(const Tensor& x) { return {x}; }
/// Prints the values with four digits, aligned, and summarised beyond 1000 elements; then shape, dtype and device.
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace bytetape
