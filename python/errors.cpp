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

void bind_errors(nanobind::module_&) {
  nanobind::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) { PyErr_SetString(type_of(e), e.what()); }
  });
}

}  // namespace bytetape::python
