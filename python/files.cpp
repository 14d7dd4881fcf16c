#include "bytetape/core/files/safetensors.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "bytetape/core/device/interop.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/advice.h"
#include "bytetape/core/memory/log.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/report.h"
#include "bytetape/core/memory/snapshot_of.h"
#include "bytetape/core/memory/summary.h"
#include "bytetape/python/bindings.h"
#include "bytetape/python/statistics.h"

namespace bytetape::python {
namespace {

namespace nb = nanobind;

/// One device of a recording.
struct RecordedDevice {
  memory::Snapshot snapshot;
  std::vector<std::int64_t> time, allocated, reserved;
};

/// A recording of a run, or of a prediction.
struct Recording {
  memory::Log log;
  std::string file;
  std::vector<RecordedDevice> devices;
};

RecordedDevice recorded(const memory::Log& log, const memory::DeviceLog& device) {
  RecordedDevice d{memory::snapshot_of(log, device), {}, {}, {}};
  std::uint64_t allocated = 0, reserved = 0;  // unsigned, because a hostile file may make them overflow
  for (const memory::Record& r : device.records) {
    const std::uint64_t bytes = r.event.bytes;
    using enum memory::EventKind;
    if (r.event.kind == alloc) allocated += bytes;
    if (r.event.kind == free) allocated -= bytes;
    if (r.event.kind == segment_alloc) reserved += bytes;
    if (r.event.kind == segment_free) reserved -= bytes;
    d.time.push_back(static_cast<std::int64_t>(r.time));
    d.allocated.push_back(static_cast<std::int64_t>(allocated));
    d.reserved.push_back(static_cast<std::int64_t>(reserved));
  }
  return d;
}

Recording recording_in(const std::filesystem::path& path) {
  Recording r{memory::read_log(path.string()), path.string(), {}};
  for (const memory::DeviceLog& d : r.log.devices) r.devices.push_back(recorded(r.log, d));
  return r;
}

Tensor column(const std::vector<std::int64_t>& values) {
  return from_vector(values, values.size(), Device::cpu(), memory::Role::input);
}

nb::list steps_of(const memory::Snapshot& s) {
  nb::list steps;
  for (const memory::StepSummary& step : s.steps) {
    if (!step.step) continue;
    nb::dict row;
    row["step"] = step.step;
    row["before"] = step.before;
    row["peak"] = step.peak;
    row["after"] = step.after;
    steps.append(row);
  }
  return steps;
}

nb::list advice_on(const Recording& r) {
  nb::list texts;
  for (const std::string& text : memory::advice_texts(r.log)) texts.append(str_of(text));
  return texts;
}

enum class FileKind { recording, tensors, unknown };

/// Returns the kind of a file by its first bytes. A file that cannot be read counts as tensors, whose reader says why.
FileKind kind_of(const std::filesystem::path& path) {
  constexpr std::string_view first = "bytetape-memlog ";
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open() || !std::filesystem::is_regular_file(path)) return FileKind::tensors;
  std::array<char, first.size()> bytes{};
  file.read(bytes.data(), bytes.size());
  const std::string_view found(bytes.data(), static_cast<std::size_t>(file.gcount()));
  if (found == first) return FileKind::recording;
  return found.size() > 8 && found[8] == '{' ? FileKind::tensors : FileKind::unknown;
}

void warn_of_damage(const Recording& r) {
  if (r.log.damage.empty()) return;
  const nb::str text = str_of(r.log.damage + "; the rest was not read");
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) < 0) nb::raise_python_error();
}

nb::object load(const std::filesystem::path& path, const std::string& device) {
  const auto without_lock = [](auto&& read) {
    const nb::gil_scoped_release release;
    return read();
  };
  const FileKind kind = kind_of(path);
  check<FileError>(kind != FileKind::unknown, path.string(), ": neither a safetensors file nor a recording");
  if (kind == FileKind::recording) {
    Recording r = without_lock([&] { return recording_in(path); });
    warn_of_damage(r);
    return nb::cast(std::move(r));
  }
  const Device there = Device::parse(device);
  const CurrentDevice current(there);
  nb::dict all;
  for (const auto& [name, tensor] : without_lock([&] { return load_safetensors(path.string(), there); }))
    all[str_of(name)] = nb::cast(tensor);
  return all;
}

void bind_recording(nb::module_& m) {
  nb::class_<RecordedDevice>(m, "RecordedDevice", "The memory of one device in a recording.")
      .def_prop_ro("name", [](const RecordedDevice& d) { return str_of(d.snapshot.name); })
      .def_prop_ro(
          "statistics", [](const RecordedDevice& d) { return to_dict(d.snapshot); },
          "Totals at the end, and peaks, in bytes.")
      .def_prop_ro("peak_allocated", [](const RecordedDevice& d) { return d.snapshot.statistics.allocated.peak; })
      .def_prop_ro("peak_reserved", [](const RecordedDevice& d) { return d.snapshot.statistics.reserved.peak; })
      .def_prop_ro(
          "steps", [](const RecordedDevice& d) { return steps_of(d.snapshot); },
          "For each step, its bytes before, at the peak and after.")
      .def_prop_ro(
          "time", [](const RecordedDevice& d) { return column(d.time); },
          "i64: nanoseconds of each event since the recording began.")
      .def_prop_ro(
          "allocated", [](const RecordedDevice& d) { return column(d.allocated); },
          "i64: allocated bytes after each event.")
      .def_prop_ro(
          "reserved", [](const RecordedDevice& d) { return column(d.reserved); },
          "i64: reserved bytes after each event.")
      .def(
          "summary",
          [](const RecordedDevice& d, std::size_t modules) { return str_of(memory::summarize(d.snapshot, modules)); },
          nb::arg("modules") = 12, "Returns a page of text: the peak, its holders, and steps.")
      .def("__repr__",
           [](const RecordedDevice& d) { return str_of("<bytetape.RecordedDevice " + d.snapshot.name + ">"); });
  nb::class_<Recording>(m, "Recording", "A recording of a run, or of a prediction (PredictOptions::recording).")
      .def_prop_ro("program", [](const Recording& r) { return str_of(r.log.program); })
      .def_prop_ro(
          "complete", [](const Recording& r) { return r.log.complete; },
          "False if the program ended before the recording did.")
      .def_prop_ro(
          "damage", [](const Recording& r) { return str_of(r.log.damage); },
          "Why reading stopped; \"\" if the file is whole.")
      .def_ro("devices", &Recording::devices)
      .def_prop_ro("advice", &advice_on, "Sentences about checkpoints that would lower the peak.")
      .def(
          "write_report",
          [](const Recording& r, const std::filesystem::path& path, const Recording* other) {
            memory::Report both{&r.log, nullptr, memory::advice_texts(r.log), r.file, {}};
            if (other) both.other = &other->log, both.other_file = other->file;
            memory::write_report(both, path.string());
          },
          nb::arg("path"), nb::arg("other") = nb::none(), nb::call_guard<nb::gil_scoped_release>(),
          "Writes the recording as one HTML page, beside another recording if one is given.")
      .def("__repr__", [](const Recording& r) { return str_of("<bytetape.Recording of " + r.log.program + ">"); });
}

}  // namespace

void bind_files(nb::module_& m) {
  bind_recording(m);
  m.def(
      "load", &load, nb::arg("path"), nb::arg("device") = "cpu",
      "Loads a safetensors file as a dict of tensors by name, or a .memlog file as a Recording. A damaged recording is "
      "loaded up to the damage, with a RuntimeWarning.");
}

}  // namespace bytetape::python
