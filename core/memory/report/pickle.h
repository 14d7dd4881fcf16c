#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace bytetape::memory {

/// Writes a pickle of protocol 2 with dicts, lists, strings and integers. Python's pickletools.py documents the
/// opcodes.
///
///     PickleWriter p(out);
///     p.begin_dict();
///     p.key("sizes");
///     p.begin_list();
///     p.add(512);
///     p.end_list();
///     p.end_dict();
///     p.finish();
class PickleWriter {
 public:
  explicit PickleWriter(std::ostream& out);

  void begin_dict();
  void key(std::string_view name) { add(name); }
  void end_dict();
  void begin_list();
  void end_list();
  /// Adds a UTF-8 string. Equal strings are written once.
  void add(std::string_view text);
  void add(const char* text) { add(std::string_view(text)); }
  /// Adds an integer below 2^63.
  void add(std::uint64_t number);
  void add_false();
  /// Returns a number for the value that was added last. repeat(number) adds the value again.
  std::uint32_t remember();
  void repeat(std::uint32_t number);
  void finish();

 private:
  struct Open {
    bool is_list = false;
    int items = 0;  // since the last MARK opcode
  };
  void op(char code);
  void u32(std::uint32_t value);
  void begin_value();

  std::ostream& out_;
  std::vector<Open> open_;
  std::unordered_map<std::string, std::uint32_t> strings_;
  std::uint32_t remembered_ = 0;
};

}  // namespace bytetape::memory
