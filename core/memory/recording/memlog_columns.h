#pragma once
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/core/memory/log.h"

/// The columns of a recording's chunks, defined once for the writer and the reader.
namespace bytetape::memory {

/// Calls f(member) for each column of records. member(r) is the cell of row r.
template <class F>
void each_column(const Record*, F f) {
  f([](auto& r) -> auto& { return r.event.kind; });
  f([](auto& r) -> auto& { return r.event.role; });
  f([](auto& r) -> auto& { return r.event.old_role; });
  f([](auto& r) -> auto& { return r.event.phase; });
  f([](auto& r) -> auto& { return r.event.segment; });
  f([](auto& r) -> auto& { return r.event.offset; });
  f([](auto& r) -> auto& { return r.event.bytes; });
  f([](auto& r) -> auto& { return r.event.requested; });
  f([](auto& r) -> auto& { return r.event.step; });
  f([](auto& r) -> auto& { return r.event.module; });
  f([](auto& r) -> auto& { return r.event.old_module; });
  f([](auto& r) -> auto& { return r.event.op; });
  f([](auto& r) -> auto& { return r.by_module; });
  f([](auto& r) -> auto& { return r.by_op; });
  f([](auto& r) -> auto& { return r.what; });
  f([](auto& r) -> auto& { return r.thread; });
  f([](auto& r) -> auto& { return r.time; });
}
/// The same for marks.
template <class F>
void each_column(const Mark*, F f) {
  f([](auto& m) -> auto& { return m.kind; });
  f([](auto& m) -> auto& { return m.begins; });
  f([](auto& m) -> auto& { return m.phase; });
  f([](auto& m) -> auto& { return m.name; });
  f([](auto& m) -> auto& { return m.thread; });
  f([](auto& m) -> auto& { return m.time; });
}

/// The same for device work.
template <class F>
void each_column(const DeviceWork*, F f) {
  f([](auto& w) -> auto& { return w.device; });
  f([](auto& w) -> auto& { return w.kind; });
  f([](auto& w) -> auto& { return w.name; });
  f([](auto& w) -> auto& { return w.module; });
  f([](auto& w) -> auto& { return w.op; });
  f([](auto& w) -> auto& { return w.phase; });
  f([](auto& w) -> auto& { return w.step; });
  f([](auto& w) -> auto& { return w.step_device; });
  f([](auto& w) -> auto& { return w.stream; });
  f([](auto& w) -> auto& { return w.begin; });
  f([](auto& w) -> auto& { return w.end; });
  f([](auto& w) -> auto& { return w.bytes; });
}

/// The same for work counts.
template <class F>
void each_column(const WorkCount*, F f) {
  f([](auto& w) -> auto& { return w.table; });
  f([](auto& w) -> auto& { return w.device; });
  f([](auto& w) -> auto& { return w.module; });
  f([](auto& w) -> auto& { return w.op; });
  f([](auto& w) -> auto& { return w.phase; });
  f([](auto& w) -> auto& { return w.precision; });
  f([](auto& w) -> auto& { return w.launches; });
  f([](auto& w) -> auto& { return w.flop; });
  f([](auto& w) -> auto& { return w.bytes; });
}
/// The same for counted steps.
template <class F>
void each_column(const CountedStep*, F f) {
  f([](auto& s) -> auto& { return s.step; });
  f([](auto& s) -> auto& { return s.step_device; });
  f([](auto& s) -> auto& { return s.table; });
  f([](auto& s) -> auto& { return s.time; });
}

/// Replaces times by the differences that a file has, or the reverse. `before` is the time of the previous row, or 0.
template <class Row>
void to_differences(Row& row, std::uint64_t& before) {
  row.time -= std::exchange(before, row.time);
}
inline void to_differences(DeviceWork& w, std::uint64_t& before) {
  w.end -= w.begin;
  w.begin -= std::exchange(before, w.begin);
}
inline void to_differences(WorkCount&, std::uint64_t&) {}  // has no time
template <class Row>
void from_differences(Row& row, std::uint64_t& before) {
  row.time = before += row.time;
}
inline void from_differences(DeviceWork& w, std::uint64_t& before) {
  w.begin = before += w.begin;
  w.end += w.begin;
}

inline void from_differences(WorkCount&, std::uint64_t&) {}

/// Calls f(name) for each cell that is a NameId.
template <class F>
void each_name(Record& r, F f) {
  for (NameId* name : {&r.event.module, &r.event.old_module, &r.event.op, &r.by_module, &r.by_op, &r.what}) f(*name);
}
template <class F>
void each_name(Mark& m, F f) {
  f(m.name);
}
template <class F>
void each_name(DeviceWork& w, F f) {
  for (NameId* name : {&w.name, &w.module, &w.op}) f(*name);
}

template <class F>
void each_name(WorkCount& w, F f) {
  for (NameId* name : {&w.module, &w.op}) f(*name);
}
template <class F>
void each_name(CountedStep&, F) {}

/// The bytes of a row.
template <class Row>
std::size_t row_bytes() {
  std::size_t bytes = 0;
  each_column(static_cast<const Row*>(nullptr),
              [&](auto cell) { bytes += sizeof(std::remove_cvref_t<decltype(cell(std::declval<Row&>()))>); });
  return bytes;
}

template <class Row>
void append_columns(const std::vector<Row>& rows, std::string& to) {
  each_column(rows.data(), [&](auto cell) {
    for (const Row& row : rows) to.append(reinterpret_cast<const char*>(&cell(row)), sizeof(cell(row)));
  });
}

/// Fills `rows` from rows.size() * row_bytes<Row>() bytes.
template <class Row>
void read_columns(const char* from, std::vector<Row>& rows) {
  each_column(rows.data(), [&](auto cell) {
    for (Row& row : rows) {
      std::memcpy(&cell(row), from, sizeof(cell(row)));
      from += sizeof(cell(row));
    }
  });
}

}  // namespace bytetape::memory
