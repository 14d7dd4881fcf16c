#pragma once
#include <nanobind/nanobind.h>

namespace bytetape::python {

// Each adds a part of the module.
void bind_errors(nanobind::module_& m);
void bind_tensor(nanobind::module_& m);
void bind_files(nanobind::module_& m);
void bind_memory(nanobind::module_& m);

}  // namespace bytetape::python
