#pragma once
#include <nanobind/nanobind.h>

#include <string_view>

namespace bytetape::python {

/// Returns text as a str. Bytes that are not UTF-8, such as those of a file's names, become "\\xff".
nanobind::str str_of(std::string_view text);

// Each adds a part of the module.
void bind_errors(nanobind::module_& m);
void bind_tensor(nanobind::module_& m);
void bind_files(nanobind::module_& m);
void bind_memory(nanobind::module_& m);

}  // namespace bytetape::python
