#include "bytetape/core/files/safetensors.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <ostream>
#include <set>

#include "bytetape/core/check.h"
#include "bytetape/core/device/overlap.h"
#include "bytetape/core/files/elements.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/write_file.h"

namespace bytetape {
namespace {

using memory::Op;
using memory::Role;

/// The CRC-32 of a stream of bytes.
class Checksum {
 public:
  void add(const void* bytes, std::size_t n) { sum_ = crc32_z(sum_, static_cast<const Bytef*>(bytes), n); }
  std::string digits() const {
    std::array<char, 9> text;
    std::snprintf(text.data(), text.size(), "%08lx", sum_);
    return text.data();
  }

 private:
  uLong sum_ = 0;
};

void check_savable(const NamedTensors& tensors, const Metadata& metadata) {
  std::set<std::string_view> names;
  for (const auto& [name, x] : tensors) {
    check<ValueError>(x.defined(), "the tensor '", name, "' is undefined");
    check<DeviceError>(!x.device().is_meta, "the tensor '", name, "', ", describe(x), ", holds no data");
    check<ValueError>(name != "__metadata__", "a tensor must not be called '", name, "', which the format reserves");
    check<ValueError>(names.insert(name).second, "two tensors are called '", name, "'");
  }
  for (const auto& [key, text] : metadata)
    check<ValueError>(!key.starts_with("bytetape."), "the metadata '", key,
                      "' must not begin with 'bytetape.', which is reserved");
}

/// Orders tensors by the size of their elements, the widest first, so that all are aligned. PyTorch needs that, and the
/// format's own library does the same.
NamedTensors in_file_order(NamedTensors tensors) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return size_of(a.second.dtype()) > size_of(b.second.dtype()); });
  return tensors;
}

std::string header_of(const NamedTensors& tensors, const Metadata& metadata) {
  SafetensorsHeader header{.metadata = metadata};
  std::uint64_t end = 0;
  for (const auto& [name, x] : tensors) {
    const std::uint64_t begin = end;
    end += x.nbytes();
    header.tensors.push_back({name, x.dtype(), x.shape(), begin, end});
  }
  std::string json = format_safetensors_header(header);
  check<ValueError>(json.size() <= most_header_bytes, "expected a header of at most ", most_header_bytes,
                    " bytes, got ", json.size(), ": save fewer tensors or shorter metadata in one file");
  return json;
}

/// Calls put(bytes, n) for all pieces of a file, in order.
template <class Put>
void each_piece(const std::string& json, const NamedTensors& tensors, const Put& put) {
  const std::uint64_t length = json.size();
  put(&length, sizeof length);
  put(json.data(), json.size());
  for (const auto& [name, x] : tensors)
    write_elements(x, [&](std::span<const std::byte> bytes) { put(bytes.data(), bytes.size()); });
}

/// Writes a file. The checksum is at its start, but is known at its end. If `out` cannot seek back (a FIFO), goes
/// through the tensors twice.
void write(std::ostream& out, std::string json, const NamedTensors& tensors) {
  Checksum sum;
  const bool goes_back = out.tellp() != std::ostream::pos_type(-1);
  const auto add = [&](const void* bytes, std::size_t n) { sum.add(bytes, n); };
  const auto put = [&](const void* bytes, std::size_t n) {
    if (out) out.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(n));
  };
  const std::size_t checksum_at = *find_checksum(json);
  if (goes_back) {
    each_piece(json, tensors, [&](const void* bytes, std::size_t n) { add(bytes, n), put(bytes, n); });
    out.seekp(static_cast<std::streamoff>(header_length_bytes + checksum_at));
    out << sum.digits();
  } else {
    each_piece(json, tensors, add);
    each_piece(json.replace(checksum_at, sum.digits().size(), sum.digits()), tensors, put);
  }
}

}  // namespace

void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata) {
  const Op<"save_safetensors"> op;
  check_savable(tensors, metadata);
  const NamedTensors ordered = in_file_order(tensors);
  const std::string json = header_of(ordered, metadata);
  write_file(path, "tensors", [&](std::ostream& out) { write(out, json, ordered); });
}

SafetensorsFile::SafetensorsFile(const std::string& path) : SafetensorsFile(open_input(path)) {}

SafetensorsFile::SafetensorsFile(std::unique_ptr<const Input> input) : input_(std::move(input)) {
  std::string json;
  read_header(json);
  checksum_at_ = find_checksum(json);
  header_ = parse_safetensors_header(*input_, json, input_->bytes_from(data_at()));
  verify(std::move(json));
  if (checksum_at_) header_.metadata.erase(checksum_key);
}

void SafetensorsFile::read_header(std::string& json) {
  std::array<std::byte, header_length_bytes> length;
  input_->read_all(0, length);
  json_bytes_ = std::bit_cast<std::uint64_t>(length);
  const std::uint64_t left = input_->bytes_from(header_length_bytes);
  input_->check_at(json_bytes_ <= most_header_bytes, 0, "not a safetensors file: expected a header of at most ",
                   most_header_bytes, " bytes, found the length ", json_bytes_);
  input_->check_at(json_bytes_ <= left, 0, "the file is cut off, or not a safetensors file: expected a header of ",
                   json_bytes_, " bytes, found ", left, " to the end of the file");
  json.resize(json_bytes_);
  input_->read_all(header_length_bytes, std::as_writable_bytes(std::span(json)));
}

void SafetensorsFile::verify(std::string json) const {
  const std::size_t digits = std::strlen(checksum_placeholder);
  const std::string expected = checksum_at_ ? json.substr(*checksum_at_, digits) : "";
  if (checksum_at_) json.replace(*checksum_at_, digits, checksum_placeholder);
  Checksum sum;
  sum.add(&json_bytes_, sizeof json_bytes_);
  sum.add(json.data(), json.size());
  for (const TensorEntry& t : header_.tensors)
    read_pieces(*input_, data_at() + t.begin, data_at() + t.end,
                [&](std::uint64_t at, std::span<const std::byte> bytes) {
                  sum.add(bytes.data(), bytes.size());
                  if (t.dtype == DType::boolean) check_bools(*input_, at, bytes);
                });
  if (checksum_at_)
    input_->check_at(sum.digits() == expected, header_length_bytes + *checksum_at_, "expected the checksum ", expected,
                     ", found ", sum.digits(),
                     ": the file was damaged or changed since it was saved (a program that changes it must remove '",
                     checksum_key, "')");
}

std::vector<const TensorEntry*> SafetensorsFile::entries_below(std::string_view prefix) const {
  std::vector<const TensorEntry*> found;
  for (const TensorEntry& t : tensors())
    if (t.name.starts_with(prefix)) found.push_back(&t);
  return found;
}

/// The bytes of all elements while they are staged, after widening.
std::uint64_t SafetensorsFile::staged_bytes() const {
  std::uint64_t bytes = 0;
  for (const TensorEntry& t : tensors()) bytes += (t.end - t.begin) / size_of(t.stored) * size_of(t.dtype);
  return bytes;
}

NamedTensors SafetensorsFile::load(Device device, Role role, std::string_view prefix) const {
  const Op<"load_safetensors"> op;
  const Piece piece(staged_bytes());
  NamedTensors all;
  for (const TensorEntry* t : entries_below(prefix)) {
    Tensor x = empty(t->shape, t->dtype, device, role);
    read_elements(*input_, data_at() + t->begin, t->stored, x, piece);
    all.emplace_back(t->name.substr(prefix.size()), std::move(x));
  }
  input_->check_unchanged();
  return all;
}

void SafetensorsFile::load_into(const NamedTensors& tensors, bool strict, std::string_view prefix) const {
  const Op<"load_safetensors_into"> op;
  std::map<std::string_view, const TensorEntry*> entries;
  std::vector<std::string> keys;
  for (const TensorEntry* t : entries_below(prefix)) {
    keys.push_back(t->name.substr(prefix.size()));
    entries.emplace(std::string_view(t->name).substr(prefix.size()), t);
  }
  check_keys(name(), tensors, keys, strict);
  std::vector<std::pair<const TensorEntry*, Tensor>> found;
  for (const auto& [key, x] : tensors) {
    const auto at = entries.find(key);
    if (at == entries.end()) continue;
    const TensorEntry& t = *at->second;
    check<ValueError>(x.defined() && !overlaps_itself(x), "'", key, "', ", describe(x), ", cannot be written to");
    check(t.shape == x.shape(), name(), ": '", key, "' has shape ", t.shape, " in the file, but ", x.shape(),
          " in the model");
    found.emplace_back(&t, x);
  }
  const Piece piece(staged_bytes());  // allocated before anything is written
  input_->check_unchanged();
  for (const auto& [t, x] : found) read_elements(*input_, data_at() + t->begin, t->stored, x, piece);
  input_->check_unchanged();
}

NamedTensors load_safetensors(const std::string& path, Device device, Role role) {
  const Op<"load_safetensors"> op;
  return SafetensorsFile(path).load(device, role);
}

void load_safetensors_into(const std::string& path, const NamedTensors& tensors, bool strict) {
  const Op<"load_safetensors_into"> op;
  SafetensorsFile(path).load_into(tensors, strict);
}

}  // namespace bytetape
