#include "bytetape/core/memory/report/pickle.h"

#include <ostream>

namespace bytetape::memory {
namespace {

// Opcodes. Python's pickletools.py documents their effects.
constexpr char proto = '\x80', empty_dict = '}', empty_list = ']', mark_code = '(', setitems = 'u', appends = 'e',
               binunicode = 'X', bininteger = 'J', long1 = '\x8a', newfalse = '\x89', long_binput = 'r',
               long_binget = 'j', stop = '.';
constexpr int most_items = 1000;  // as in Python's writer, because readers may pass the items as arguments of a call

}  // namespace

PickleWriter::PickleWriter(std::ostream& out) : out_(out) {
  op(proto);
  op(2);
}

void PickleWriter::op(char code) { out_.put(code); }

void PickleWriter::u32(std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out_.put(static_cast<char>(value >> shift & 0xff));
}

void PickleWriter::begin_value() {
  if (open_.empty() || !open_.back().is_list) return;
  int& items = open_.back().items;
  if (items == most_items) {
    op(appends);
    items = 0;
  }
  if (items++ == 0) op(mark_code);
}

void PickleWriter::begin_dict() {
  begin_value();
  op(empty_dict);
  op(mark_code);
  open_.push_back({false});
}

void PickleWriter::end_dict() {
  op(setitems);
  open_.pop_back();
}

void PickleWriter::begin_list() {
  begin_value();
  op(empty_list);
  open_.push_back({true});
}

void PickleWriter::end_list() {
  if (open_.back().items) op(appends);
  open_.pop_back();
}

void PickleWriter::add(std::string_view text) {
  if (const auto at = strings_.find(std::string(text)); at != strings_.end()) return repeat(at->second);
  begin_value();
  op(binunicode);
  u32(static_cast<std::uint32_t>(text.size()));
  out_ << text;
  strings_.emplace(text, remember());
}

void PickleWriter::add(std::uint64_t number) {
  begin_value();
  if (number < std::uint64_t{1} << 31) {
    op(bininteger);
    return u32(static_cast<std::uint32_t>(number));
  }
  op(long1);
  op(8);
  for (int shift = 0; shift < 64; shift += 8) out_.put(static_cast<char>(number >> shift & 0xff));
}

void PickleWriter::add_false() {
  begin_value();
  op(newfalse);
}

std::uint32_t PickleWriter::remember() {
  op(long_binput);
  u32(remembered_);
  return remembered_++;
}

void PickleWriter::repeat(std::uint32_t number) {
  begin_value();
  op(long_binget);
  u32(number);
}

void PickleWriter::finish() { op(stop); }

}  // namespace bytetape::memory
