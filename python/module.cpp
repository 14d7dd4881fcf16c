#include "bytetape/core/device/external.h"
#include "bytetape/python/bindings.h"
#include "bytetape/python/capsule.h"
#include "bytetape/version.h"

namespace {

/// Python calls it at exit, before it ends the libraries whose tensors are still ours.
void at_exit() {
  {
    const nanobind::gil_scoped_release release;  // their deleters may need the lock
    bytetape::detail::end_releases();
  }
  bytetape::python::return_finished();
}

}  // namespace

NB_MODULE(bytetape, m) {
  m.doc() = "Tensors and memory recordings of bytetape programs. Models are written in C++.";
  m.attr("__version__") = BYTETAPE_VERSION;
  bytetape::python::bind_errors(m);
  bytetape::python::bind_tensor(m);
  bytetape::python::bind_files(m);
  auto memory = m.def_submodule("memory", "The memory of this process.");
  bytetape::python::bind_memory(memory);
  nanobind::module_::import_("atexit").attr("register")(nanobind::cpp_function(&at_exit));
}
