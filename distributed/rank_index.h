#pragma once
#include <functional>
#include <string>

#include "bytetape/core/device/default_device.h"
#include "bytetape/distributed/group.h"

namespace bytetape::dist {

/// Writes a page that lays the memory of all ranks side by side: each rank's peak on its default device, by role. All
/// ranks must call it, and rank 0 writes the file.
///
///     memory::write_report(page_of(world.rank()));
///     dist::write_rank_index("ranks.html", page_of, world);
///
/// `page_of(rank)` is the path of a rank's own report, to which its row links.
/// Throws FileError on rank 0 if the file cannot be written.
void write_rank_index(const std::string& path, const std::function<std::string(int rank)>& page_of, const Group& group,
                      Device device = default_device());

}  // namespace bytetape::dist
