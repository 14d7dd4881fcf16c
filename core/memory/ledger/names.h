#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace bytetape::memory {

/// An interned string: equal names have equal ids; 0 is the empty name.
using NameId = std::uint32_t;
/// The id of `name`, a new one at its first use.
NameId intern(std::string_view name);
/// The name of an id that intern() gave; the reference holds for good.
const std::string& name_of(NameId id);
/// The id of `parent.child`, or of `child` where parent is empty.
NameId join_path(NameId parent, std::string_view child);

}  // namespace bytetape::memory
