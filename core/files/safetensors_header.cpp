#include "bytetape/core/files/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

namespace bytetape {
namespace {

constexpr const char* metadata_key = "__metadata__";
constexpr std::array dtypes{DType::f64, DType::f32, DType::bf16, DType::f16,
                            DType::i64, DType::i32, DType::u8,   DType::boolean};

/// Integer types without a dtype of ours. They are widened.
constexpr std::array<std::pair<std::string_view, StoredType::Narrow>, 4> narrow_types{
    {{"I8", StoredType::Narrow::i8},
     {"I16", StoredType::Narrow::i16},
     {"U16", StoredType::Narrow::u16},
     {"U32", StoredType::Narrow::u32}}};

std::string_view name_of(StoredType type) {
  for (const auto& [name, narrow] : narrow_types)
    if (narrow == type.narrow) return name;
  return safetensors_name(type.dtype);
}
std::optional<StoredType> type_named(std::string_view name) {
  for (const DType t : dtypes)
    if (name == safetensors_name(t)) return t;
  for (const auto& [its_name, narrow] : narrow_types)
    if (name == its_name) return narrow;
  return {};
}

/// An iterator over JSON that stores its position in `at`, for messages.
struct Cursor {
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* p = nullptr;
  const char** at = nullptr;
  reference operator*() const { return *p; }
  Cursor& operator++() {
    *at = ++p;
    return *this;
  }
  Cursor operator++(int) {
    const Cursor before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Cursor& a, const Cursor& b) { return a.p == b.p; }
};

/// Reads a header with nlohmann's SAX parser (json::json_sax_t), which reports repeated keys.
class SafetensorsReader {
 public:
  SafetensorsReader(const Input& from, const std::string& json) : from_(from), json_(json), at_(json.data()) {}

  SafetensorsHeader read() && {
    check_here(json_.starts_with('{'), "not a safetensors file: expected a header that begins with '{'");
    const std::size_t zero = json_.find('\0');  // the parser would stop there
    if (zero != std::string::npos) at_ += zero;
    check_here(zero == std::string::npos, "expected JSON, found a zero byte");
    nlohmann::json::sax_parse(Cursor{at_, &at_}, Cursor{json_.data() + json_.size(), &at_}, this);
    return std::move(header_);
  }

  bool start_object(std::size_t) {
    check_here(place_ == Place::outside || place_ == Place::name, "expected ", wanted(), ", found an object");
    place_ = place_ == Place::outside ? Place::top : is_metadata_ ? Place::metadata : Place::entry;
    return true;
  }
  bool end_object() {
    if (place_ == Place::entry) finish_entry();
    place_ = Place::top;
    return true;
  }
  bool start_array(std::size_t) {
    check_here(place_ == Place::value && field_ != Field::dtype, "expected ", wanted(), ", found a list");
    place_ = Place::list;
    numbers_.clear();
    return true;
  }
  bool end_array() {
    field_ == Field::shape ? take_shape() : take_offsets();
    place_ = Place::entry;
    return true;
  }
  bool key(std::string& key) {
    if (place_ == Place::top)
      start_entry(key);
    else if (place_ == Place::entry)
      start_field(key);
    else
      key_ = key;
    return true;
  }
  bool string(std::string& text) {
    if (place_ == Place::metadata) {
      check_here(header_.metadata.emplace(key_, text).second, "expected the metadata '", key_,
                 "' once, found it again");
      return true;
    }
    check_here(place_ == Place::value && field_ == Field::dtype, "expected ", wanted(), ", found the text '", text,
               "'");
    const auto type = type_named(text);
    check_here(type.has_value(), "tensor '", entry_.name,
               "': expected a dtype of F64 F32 BF16 F16 I64 I32 U8 BOOL, or I8 I16 U16 U32, which are widened, found '",
               text, "'");
    entry_.stored = *type;
    entry_.dtype = type->dtype;
    place_ = Place::entry;
    return true;
  }
  bool number_unsigned(std::uint64_t n) {
    check_here(place_ == Place::list, "expected ", wanted(), ", found the number ", n);
    const std::size_t most = field_ == Field::shape ? max_rank : 2;
    check_here(numbers_.size() < most, "tensor '", entry_.name, "': expected at most ", most,
               field_ == Field::shape ? " dimensions" : " data_offsets", ", found more");
    numbers_.push_back(n);
    return true;
  }
  bool number_integer(std::int64_t n) { return refuse("the number ", n); }
  bool number_float(double, const std::string& text) { return refuse("the number ", text); }
  bool null() { return refuse("null"); }
  bool boolean(bool b) { return refuse(b ? "true" : "false"); }
  bool binary(nlohmann::json::binary_t&) { return refuse("binary data"); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) {
    check_here(false, "expected JSON: ", std::string_view(e.what()).substr(0, most_quoted));
    return false;
  }

 private:
  enum class Place { outside, top, name, entry, value, list, metadata };
  enum class Field { dtype, shape, data_offsets };
  static constexpr std::array field_names{"dtype", "shape", "data_offsets"};
  static constexpr std::size_t most_quoted = 200;  // characters of the parser's message, which quotes the JSON

  template <class... Args>
  void check_here(bool ok, const Args&... args) const {
    from_.check_at(ok, header_length_bytes + static_cast<std::uint64_t>(at_ - json_.data()), args...);
  }
  template <class... Args>
  bool refuse(const Args&... args) const {
    check_here(false, "expected ", wanted(), ", found ", args...);
    return false;
  }
  const char* wanted() const {
    switch (place_) {
      case Place::list:
        return "a non-negative integer";
      case Place::value:
        return field_ == Field::dtype ? "the name of a dtype" : "a list of numbers";
      case Place::metadata:
        return "a text as metadata";
      default:
        return "an object";
    }
  }

  void start_entry(const std::string& name) {
    check_here(names_.insert(name).second, "expected each name once, found '", name, "' again");
    is_metadata_ = name == metadata_key;
    entry_ = {.name = name, .dtype = {}, .shape = {}};
    seen_ = {};
    place_ = Place::name;
  }
  void start_field(const std::string& name) {
    const auto known = std::find(field_names.begin(), field_names.end(), name);
    check_here(known != field_names.end(), "tensor '", entry_.name,
               "': expected dtype, shape and data_offsets, found '", name, "'");
    const auto i = static_cast<std::size_t>(known - field_names.begin());
    check_here(!std::exchange(seen_[i], true), "tensor '", entry_.name, "': expected '", name,
               "' once, found it again");
    field_ = static_cast<Field>(i);
    place_ = Place::value;
  }
  void take_shape() {
    constexpr std::uint64_t most = std::uint64_t{1} << 59;  // so that bytes do not overflow
    std::uint64_t product = 1;
    for (const std::uint64_t n : numbers_) {
      check_here(n == 0 || product <= most / n, "tensor '", entry_.name, "': the sizes of its dimensions overflow at ",
                 n);
      product *= std::max<std::uint64_t>(n, 1);
      entry_.shape.push_back(static_cast<std::int64_t>(n));
    }
  }
  void take_offsets() {
    check_here(numbers_.size() == 2, "tensor '", entry_.name, "': expected two data_offsets, found ", numbers_.size());
    entry_.begin = numbers_[0];
    entry_.end = numbers_[1];
  }
  void finish_entry() {
    for (std::size_t i = 0; i < seen_.size(); ++i)
      check_here(seen_[i], "tensor '", entry_.name, "': expected a ", field_names[i], ", found none");
    const std::uint64_t bytes = static_cast<std::uint64_t>(numel(entry_.shape)) * size_of(entry_.stored);
    check_here(entry_.begin <= entry_.end && entry_.end - entry_.begin == bytes, "tensor '", entry_.name,
               "': expected ", bytes, " bytes for ", name_of(entry_.stored), entry_.shape, ", found data_offsets [",
               entry_.begin, ", ", entry_.end, "]");
    header_.tensors.push_back(std::move(entry_));
  }

  const Input& from_;
  const std::string& json_;
  const char* at_;
  SafetensorsHeader header_;
  std::set<std::string> names_;
  Place place_ = Place::outside;
  Field field_ = Field::dtype;
  bool is_metadata_ = false;
  std::string key_;
  TensorEntry entry_;
  std::array<bool, 3> seen_{};
  std::vector<std::uint64_t> numbers_;
};

/// Checks that the tensors follow each other without gaps, up to the end of the file.
void check_places(const Input& from, const std::vector<TensorEntry>& tensors, std::uint64_t data,
                  std::uint64_t data_bytes) {
  std::uint64_t end = 0;
  for (const TensorEntry& t : tensors) {
    from.check_at(t.begin == end, data + end, "tensor '", t.name, "': expected data_offsets from ", end,
                  ", where the tensor before it ends, found [", t.begin, ", ", t.end,
                  "]: ", t.begin < end ? "they overlap" : "there is a gap");
    end = t.end;
  }
  from.check_at(end <= data_bytes, data + data_bytes, "the file is cut off: expected ", data + end, " bytes, found ",
                data + data_bytes);
  from.check_at(end == data_bytes, data + end, "expected the end of the file after the last tensor, found ",
                data_bytes - end, " more bytes");
}

}  // namespace

std::optional<std::size_t> find_checksum(std::string_view json) {
  const std::string before = std::string("{\"") + metadata_key + "\":{\"" + checksum_key + "\":\"";
  const std::size_t end = before.size() + std::strlen(checksum_placeholder);
  if (!json.starts_with(before) || json.size() <= end || json[end] != '"') return {};
  return before.size();
}

const char* safetensors_name(DType t) {
  constexpr std::array names{"F64", "F32", "BF16", "F16", "I64", "I32", "U8", "BOOL"};
  return names[static_cast<std::size_t>(t)];
}

SafetensorsHeader parse_safetensors_header(const Input& from, const std::string& json, std::uint64_t data_bytes) {
  SafetensorsHeader header = SafetensorsReader(from, json).read();
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const auto& a, const auto& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  check_places(from, header.tensors, header_length_bytes + json.size(), data_bytes);
  return header;
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  nlohmann::ordered_json all, metadata{{checksum_key, checksum_placeholder}};
  for (const auto& [key, text] : header.metadata) metadata[key] = text;
  all[metadata_key] = std::move(metadata);
  for (const TensorEntry& t : header.tensors)
    all[t.name] = {{"dtype", name_of(t.stored)},
                   {"shape", std::vector<std::int64_t>(t.shape.begin(), t.shape.end())},
                   {"data_offsets", {t.begin, t.end}}};
  try {
    std::string json = all.dump();
    json.resize((json.size() + 7) / 8 * 8, ' ');
    return json;
  } catch (const nlohmann::json::type_error& e) {
    fail<ValueError>("a name or metadata text is not UTF-8: ", e.what());
  }
}

}  // namespace bytetape
