#include "bytetape/core/memory/holders.h"

#include <algorithm>
#include <numeric>

namespace bytetape::memory {

std::size_t total(const RoleBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}); }

std::string display_name(NameId module) { return module ? name_of(module) : "(outside modules)"; }

std::vector<Holder> holders_of(const std::vector<RoleBytes>& table) {
  std::vector<Holder> holders;
  for (NameId name = 0; name < table.size(); ++name)
    for (int r = 0; r < role_count; ++r)
      if (const std::size_t bytes = table[name][static_cast<std::size_t>(r)])
        holders.push_back({bytes, name, static_cast<Role>(r)});
  // Ids depend on what the process did before; names do not.
  std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    if (a.name != b.name) return name_of(a.name) < name_of(b.name);
    return a.role < b.role;
  });
  return holders;
}

}  // namespace bytetape::memory
