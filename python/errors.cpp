#include "bytetape/core/error.h"

#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/python/bindings.h"

namespace bytetape::python {
namespace {

/// Returns the Python exception for an exception of ours. The message stays.
PyObject* type_of(const Error& e) {
  if (dynamic_cast<const OutOfMemory*>(&e)) return PyExc_MemoryError;
  if (dynamic_cast<const FileError*>(&e)) return PyExc_OSError;
  if (dynamic_cast<const ValueError*>(&e) || dynamic_cast<const ShapeError*>(&e)) return PyExc_ValueError;
  if (dynamic_cast<const DTypeError*>(&e)) return PyExc_TypeError;
  return PyExc_RuntimeError;
}

}  // namespace

nanobind::str str_of(std::string_view text) {
  PyObject* const made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (!made) throw nanobind::python_error();
  return nanobind::steal<nanobind::str>(made);
}

void bind_errors(nanobind::module_&) {
  nanobind::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) { PyErr_SetObject(type_of(e), str_of(e.what()).ptr()); }
  });
}

}  // namespace bytetape::python
