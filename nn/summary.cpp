#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_set>
#include <vector>

#include "bytetape/core/memory/format.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {
namespace {

struct Row {
  std::string path, type;
  std::vector<std::string> shapes;
  std::int64_t count = 0;
  std::size_t bytes = 0;
};

// Tensors of this module alone: those whose name has no further dot. What another row has already is not counted again.
Row row_of(const std::string& path, Module& module, std::unordered_set<const TensorImpl*>& seen) {
  Row row{path.empty() ? "(model)" : path, module.describe(), {}, 0, 0};
  const auto is_own = [](const std::string& name) { return name.find('.') == std::string::npos; };
  for (const auto& [name, x] : module.named_parameters()) {
    if (!is_own(name)) continue;
    const bool is_new = seen.insert(x.impl()).second;
    row.shapes.push_back(fmt::format("{} {}{}{}", name, detail::concat(x.shape()), x.requires_grad() ? "" : " (frozen)",
                                     is_new ? "" : " (shared)"));
    if (!is_new) continue;
    row.count += x.numel();
    row.bytes += x.nbytes();
  }
  for (const auto& [name, x] : module.named_buffers())
    if (is_own(name) && seen.insert(x.impl()).second) row.bytes += x.nbytes();
  return row;
}

}  // namespace

std::string summary(Module& model) {
  std::vector<Row> rows;
  std::unordered_set<const TensorImpl*> seen;
  Row total{"total", "", {}, 0, 0};
  for (const auto& [path, module] : model.named_modules()) {
    rows.push_back(row_of(path, *module, seen));
    total.count += rows.back().count;
    total.bytes += rows.back().bytes;
  }
  std::size_t widths[3] = {6, 4, 10};
  for (const Row& r : rows) {
    widths[0] = std::max(widths[0], r.path.size());
    widths[1] = std::max(widths[1], r.type.size());
    for (const std::string& shape : r.shapes) widths[2] = std::max(widths[2], shape.size());
  }
  const std::string total_count = memory::format_exact(static_cast<std::size_t>(total.count));
  const std::size_t count_width = std::max<std::size_t>(5, total_count.size()), bytes_width = 9;
  std::string out;
  const auto line = [&](std::string_view a, std::string_view b, std::string_view c, std::string_view d,
                        std::string_view e) {
    fmt::format_to(std::back_inserter(out), "{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}\n", a, widths[0], b, widths[1], c,
                   widths[2], d, count_width, e, bytes_width);
  };
  const auto rule = [&] {
    for (std::size_t i = 0; i < widths[0] + widths[1] + widths[2] + count_width + bytes_width + 8; ++i) out += "─";
    out += '\n';
  };
  line("module", "type", "parameters", "count", "bytes");
  rule();
  for (const Row& r : rows) {
    line(r.path, r.type, r.shapes.empty() ? "" : r.shapes.front(),
         r.count ? memory::format_exact(static_cast<std::size_t>(r.count)) : "",
         r.bytes ? memory::format_bytes(r.bytes) : "");
    for (std::size_t i = 1; i < r.shapes.size(); ++i) line("", "", r.shapes[i], "", "");
  }
  rule();
  line(total.path, "", "", total_count, memory::format_bytes(total.bytes));
  return out;
}

}  // namespace bytetape::nn
