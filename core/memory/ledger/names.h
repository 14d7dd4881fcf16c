#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace bytetape::memory {

/// Identifies the name of an op, or the path of a module. Equal texts have equal ids; 0 is the empty name.
///
/// A path is a node of a tree. It has the parent's id, the child's name, and the child's class if reports show it.
/// name_of() makes its text, such as "layer1.0 BasicBlock.conv1", on first use.
using NameId = std::uint32_t;
/// Returns the id of the name or path with this text. Creates the id if the name is new.
NameId intern(std::string_view words);
/// Returns the text of an id. The reference stays valid for the process's lifetime.
const std::string& name_of(NameId id);

/// Returns the path of a child. Its text is `parent.name` or `parent.name class_name`. The parent is left out if it is
/// 0 or a root path.
NameId child_path(NameId parent, std::string_view name, std::string_view class_name = {});
/// Returns the path below `parent` with the text `words`. intern(words) equals join_path(0, words).
NameId join_path(NameId parent, std::string_view words);
/// Returns the path of a module without a parent, with the text "(root) Net". Ops that the module runs itself are
/// attributed to it. Paths of its children do not start with it, because child_path() leaves it out.
NameId root_path(std::string_view class_name);
bool is_root_path(NameId path);
/// Returns the path of the parent; 0 if there is none.
NameId parent_of(NameId path);
/// Returns the path of the same child below another parent.
NameId with_parent(NameId path, NameId parent);
/// Returns the path as in named_modules(), without classes: "layer1.0.conv1", and "" for a root path.
std::string plain_path(NameId path);
/// Returns whether `path` is `module` or is below it. Both are texts, with or without classes.
bool is_within(std::string_view path, std::string_view module);

}  // namespace bytetape::memory
