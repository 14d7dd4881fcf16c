#include <nanobind/stl/string.h>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/interop.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/stats.h"
#include "bytetape/core/memory/summary.h"
#include "bytetape/python/bindings.h"
#include "bytetape/python/capsule.h"
#include "bytetape/python/statistics.h"

namespace bytetape::python {

namespace nb = nanobind;

nb::dict to_dict(const memory::Snapshot& s) {
  const memory::Statistics& books = s.statistics;
  nb::dict at_peak;
  for (std::size_t r = 0; r < memory::role_count; ++r)
    if (books.at_peak[r]) at_peak[to_string(static_cast<memory::Role>(r))] = books.at_peak[r];
  nb::dict all;
  all["allocated"] = books.allocated.current;
  all["peak_allocated"] = books.allocated.peak;
  all["reserved"] = books.reserved.current;
  all["peak_reserved"] = books.reserved.peak;
  all["external"] = s.external.bytes;
  all["peak_external"] = s.external.peak;
  all["allocations"] = books.allocations;
  all["by_role_at_peak"] = at_peak;
  return all;
}

namespace {

memory::Snapshot snapshot_of(const std::string& device) {
  const Device d = Device::parse(device);
  const CurrentDevice current(d);
  return memory::snapshot(d);
}

void finish() {
  {
    const nb::gil_scoped_release release;  // other libraries' functions may need the lock
    finish_releases();
  }
  return_finished();
}

void wait_for(const std::string& device) {
  const Device d = Device::parse(device);
  const CurrentDevice current(d);
  bytetape::synchronize(d);
}

}  // namespace

void bind_memory(nb::module_& m) {
  m.def(
      "stats", [](const std::string& device) { return to_dict(snapshot_of(device)); }, nb::arg("device") = "cpu",
      "Returns totals and peaks of a device, in bytes.");
  m.def(
      "summary", [](const std::string& device) { return str_of(memory::summarize(snapshot_of(device))); },
      nb::arg("device") = "cpu", "Returns a page of text: the peak and its holders.");
  m.def("synchronize", &wait_for, nb::arg("device") = "cuda", nb::call_guard<nb::gil_scoped_release>(),
        "Waits until a GPU has done its work.");
  m.def("finish_releases", &finish, "Waits until memory of GPUs that no tensor uses is back with its libraries.");
}

}  // namespace bytetape::python
