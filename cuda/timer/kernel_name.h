#pragma once
#include <string>

namespace bytetape::cuda {

/// Returns the readable name of a kernel: demangled, without result, arguments and namespaces. Template arguments stay,
/// because they tell the kernels of a library apart. At most 80 characters.
///
///     kernel_name("_ZN8bytetape4cuda8add_rowsIfEEvPT_")  // "add_rows<float>"
std::string kernel_name(const char* mangled);

}  // namespace bytetape::cuda
