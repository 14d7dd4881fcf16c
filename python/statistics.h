#pragma once
#include <nanobind/nanobind.h>

#include "bytetape/core/memory/ledger/snapshot.h"

namespace bytetape::python {

/// Returns totals and peaks, in bytes, and the bytes of each role at the peak.
nanobind::dict to_dict(const memory::Snapshot& s);

}  // namespace bytetape::python
