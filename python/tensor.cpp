#include "bytetape/core/tensor.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/device/interop.h"
#include "bytetape/core/error.h"
#include "bytetape/python/bindings.h"
#include "bytetape/python/capsule.h"

namespace bytetape::python {
namespace {

namespace nb = nanobind;

nb::tuple tuple_of(const Dims& dims) {
  nb::list values;
  for (const std::int64_t n : dims) values.append(n);
  return nb::tuple(values);
}

template <class T>
std::string text_of(const T& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

/// Returns the format of an element in Python's struct module. Null if it has none.
const char* format_of(DType t) {
  switch (t) {
    case DType::f64:
      return "d";
    case DType::f32:
      return "f";
    case DType::f16:
      return "e";
    case DType::i64:
      return "q";
    case DType::i32:
      return "i";
    case DType::u8:
      return "B";
    case DType::boolean:
      return "?";
    default:
      return nullptr;
  }
}

/// Memory that a Py_buffer refers to.
struct BufferShape {
  std::vector<Py_ssize_t> sizes, strides;
};

bool asks(int flags, int wanted) { return (flags & wanted) == wanted; }

/// Whether x is contiguous with the first dim as the innermost (Fortran's order).
bool is_contiguous_backwards(const Tensor& x) {
  std::int64_t stride = 1;
  for (int d = 0; d < x.rank(); ++d) {
    if (x.size(d) != 1 && x.strides()[d] != stride) return x.numel() == 0;
    stride *= x.size(d);
  }
  return true;
}

/// Whether x has the order of dims that the flags ask for. Without strides, that is row-major.
bool has_order(const Tensor& x, int flags) {
  if (asks(flags, PyBUF_ANY_CONTIGUOUS)) return x.is_contiguous() || is_contiguous_backwards(x);
  if (asks(flags, PyBUF_F_CONTIGUOUS)) return is_contiguous_backwards(x);
  return (asks(flags, PyBUF_STRIDES) && !asks(flags, PyBUF_C_CONTIGUOUS)) || x.is_contiguous();
}

/// Returns why x has no buffer that the flags ask for. Null if it has one.
const char* obstacle(const Tensor& x, int flags) {
  if (x.requires_grad()) return "the tensor requires grad; use detach()";
  if (x.device() != Device::cpu()) return "the tensor is not on the CPU; use to(\"cpu\")";
  if (!format_of(x.dtype())) return "Python's buffers have no format for bf16; use __dlpack__";
  if ((flags & PyBUF_WRITABLE) && x.storage().is_read_only()) return "the tensor's memory is read-only";
  if (!has_order(x, flags)) return "the tensor is not contiguous as asked";
  return nullptr;
}

void fill(Py_buffer* view, const Tensor& x, int flags) {
  auto shape = std::make_unique<BufferShape>();
  const auto itemsize = static_cast<Py_ssize_t>(size_of(x.dtype()));
  for (const std::int64_t n : x.shape()) shape->sizes.push_back(n);
  for (const std::int64_t n : x.strides()) shape->strides.push_back(n * itemsize);
  const bool is_read_only = x.storage().is_read_only();
  view->buf = const_cast<void*>(is_read_only ? x.read().data() : x.write().data());
  view->len = static_cast<Py_ssize_t>(x.nbytes());
  view->itemsize = itemsize;
  view->readonly = is_read_only;
  view->ndim = x.rank();
  view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(format_of(x.dtype())) : nullptr;
  view->shape = (flags & PyBUF_ND) ? shape->sizes.data() : nullptr;
  view->strides = asks(flags, PyBUF_STRIDES) ? shape->strides.data() : nullptr;
  view->suboffsets = nullptr;
  view->internal = shape.release();
}

/// No exception may leave it, because Python calls it.
int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  view->obj = nullptr;
  try {
    if (!nb::inst_ready(self)) throw ValueError("the tensor was not initialized");
    const Tensor& x = *nb::inst_ptr<Tensor>(self);
    if (const char* why = obstacle(x, flags)) throw ValueError(why);
    fill(view, x, flags);
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_BufferError, e.what());
    return -1;
  }
  view->obj = Py_NewRef(self);
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<BufferShape*>(view->internal); }

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                       {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                       {0, nullptr}};

}  // namespace

void bind_tensor(nb::module_& m) {
  nb::class_<Tensor>(m, "Tensor", nb::type_slots(slots),
                     "A tensor of bytetape. Other libraries share its memory through DLPack and the buffer protocol.")
      .def_prop_ro("shape", [](const Tensor& x) { return tuple_of(x.shape()); })
      .def_prop_ro(
          "strides", [](const Tensor& x) { return tuple_of(x.strides()); }, "Steps in elements.")
      .def_prop_ro(
          "dtype", [](const Tensor& x) { return text_of(x.dtype()); }, "\"f32\", \"bf16\", ...")
      .def_prop_ro(
          "device", [](const Tensor& x) { return text_of(x.device()); }, "\"cpu\", \"cuda\", \"cuda:1\", ...")
      .def_prop_ro("nbytes", &Tensor::nbytes)
      .def(
          "to",
          [](const Tensor& x, const std::string& device) {
            const Device there = Device::parse(device);
            const CurrentDevice current(there == Device::cpu() ? x.device() : there);
            return to(x, there);
          },
          nb::arg("device"), nb::call_guard<nb::gil_scoped_release>(),
          "Returns the tensor on a device; itself if it is there.")
      .def(
          "clone",
          [](const Tensor& x) {
            const CurrentDevice current(x.device());
            return clone(x);
          },
          nb::call_guard<nb::gil_scoped_release>(), "Returns a copy.")
      .def("__len__",
           [](const Tensor& x) {
             if (x.rank() == 0) throw nb::type_error("a scalar has no len()");
             return x.size(0);
           })
      .def(
          "__repr__",
          [](const Tensor& x) {
            const CurrentDevice current(x.device());
            return text_of(x);
          },
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "__dlpack__",
          [](const Tensor& x, std::optional<std::int64_t> stream, std::optional<std::pair<int, int>> max_version,
             std::optional<std::pair<int, int>> dl_device, std::optional<bool> copy) {
            return to_capsule(x, {stream, max_version, dl_device, copy});
          },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
          nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack_device__", &dlpack_device);
  m.def("from_dlpack", &from_capsule_of, nb::arg("x"),
        "Returns the tensor of another library, such as PyTorch, JAX or NumPy, without a copy.");
}

}  // namespace bytetape::python
