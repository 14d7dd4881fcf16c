#include "bytetape/core/dtype.h"

#include <ostream>

namespace bytetape {

const char* to_string(DType t) {
  constexpr const char* names[] = {"f64", "f32", "bf16", "f16", "i64", "i32", "u8", "bool"};
  return names[static_cast<int>(t)];
}
std::ostream& operator<<(std::ostream& out, DType t) { return out << to_string(t); }

}  // namespace bytetape
