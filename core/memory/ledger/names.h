#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace bytetape::memory {

/// An interned string: equal names have equal ids; 0 is the empty name.
using NameId = std::uint32_t;
/// Returns the id of `name`. The first call for a name makes a new id.
NameId intern(std::string_view name);
/// Returns the name of an id from intern(). The reference stays valid for the process's lifetime.
const std::string& name_of(NameId id);
/// Returns the id of `parent.child`, or of `child` if the parent is empty or a root path.
NameId join_path(NameId parent, std::string_view child);

}  // namespace bytetape::memory
