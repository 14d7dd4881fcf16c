#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace bytetape::memory {

/// The name of an op, or of a module by its path. Equal names have equal ids; 0 is the empty name.
///
/// A path is a node of a tree. It consists of its parent's id, the child's name, and the child's class if reports show
/// it. Words such as "layer1.0 BasicBlock.conv1" are made from it when somebody asks for them.
using NameId = std::uint32_t;
/// Returns the id of a name in words. The first call for a name makes a new id.
NameId intern(std::string_view words);
/// Returns the words of an id. The reference stays valid for the process's lifetime.
const std::string& name_of(NameId id);

/// Returns the path of a child, in words `parent.name` or `parent.name class_name`. It is `name` alone if the parent is
/// empty or a root path.
NameId child_path(NameId parent, std::string_view name, std::string_view class_name = {});
/// Returns the path below `parent` that `words` describe. intern(words) is join_path(0, words).
NameId join_path(NameId parent, std::string_view words);
/// Returns the path of a module without a parent, in words "(root) Net". It holds the ops that the module runs itself.
/// Its children's paths are not below it, because child_path() leaves it out.
NameId root_path(std::string_view class_name);
bool is_root_path(NameId path);
/// Returns the path of the parent; 0 if there is none.
NameId parent_of(NameId path);
/// Returns the path of the same child below another parent.
NameId with_parent(NameId path, NameId parent);
/// Returns the path as in named_modules(), without classes: "layer1.0.conv1", and "" for a root path.
std::string plain_path(NameId path);
/// Returns whether a path, in words or plain, is that of `module` or of one below it.
bool is_within(std::string_view path, std::string_view module);

}  // namespace bytetape::memory
