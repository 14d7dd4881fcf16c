#include "bytetape/core/files/npy.h"

#include <algorithm>
#include <ostream>

#include "bytetape/core/check.h"
#include "bytetape/core/files/elements.h"
#include "bytetape/core/files/npy_header.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/write_file.h"

namespace bytetape {
namespace {

using memory::Op;

/// Returns x with its dims in reverse order.
Tensor reversed(const Tensor& x) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::reverse(shape.begin(), shape.end());
  std::reverse(strides.begin(), strides.end());
  return x.alias(shape, strides, x.storage_offset());
}

void check_elements(const Input& from, const NpyHeader& h) {
  const std::size_t bytes = static_cast<std::size_t>(numel(h.shape)) * size_of(h.stored);
  from.check_at(from.bytes_from(h.bytes) == bytes, h.bytes, "expected ", bytes, " bytes of elements for '",
                npy_descr(h.stored), "'", h.shape, ", found ", from.bytes_from(h.bytes));
}

Tensor load(const Input& from, Device device, memory::Role role) {
  const NpyHeader h = parse_npy_header(from);
  check_elements(from, h);
  if (h.stored == DType::boolean)
    read_pieces(from, h.bytes, from.size(), [&](auto at, auto bytes) { check_bools(from, at, bytes); });
  const Tensor x = empty(h.shape, h.stored.dtype, device, role);
  read_elements(from, h.bytes, h.stored, h.fortran_order ? reversed(x) : x, Piece(x.nbytes()));
  return x;
}

}  // namespace

void save_npy(const std::string& path, const Tensor& x) {
  const Op<"save_npy"> op;
  check_defined(x);
  check<DTypeError>(npy_descr(x.dtype()) != nullptr, "expected a dtype that NumPy has, got ", describe(x),
                    ": convert it to f32");
  check<DeviceError>(!x.device().is_meta, describe(x), " holds no data");
  write_file(path, "the array", [&](std::ostream& out) {
    out << format_npy_header(x.dtype(), x.shape());
    write_elements(x, [&](std::span<const std::byte> bytes) {
      out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    });
  });
}

Tensor load_npy(const std::filesystem::path& path, Device device, memory::Role role) {
  const Op<"load_npy"> op;
  return load(*open_input(path), device, role);
}

Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name, Device device, memory::Role role) {
  const Op<"parse_npy"> op;
  return load(*memory_input(bytes, name), device, role);
}

}  // namespace bytetape
