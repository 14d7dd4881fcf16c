#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "bytetape/core/memory/format.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {
namespace {

struct Amount {
  std::int64_t count = 0;  // elements of parameters
  std::size_t bytes = 0;   // of parameters and buffers
};

struct Row {
  std::string path, type;
  std::vector<std::string> lines;  // lines of the column `parameters`
  Amount amount;
};

class Table {
 public:
  void add(const std::string& path, Module& module);
  std::string text() const;

 private:
  std::vector<Row> totals() const;
  void count(Row& row, const Tensor& x, bool is_parameter);

  std::vector<Row> rows_;
  std::map<std::string, Amount> kinds_;  // by dtype and device: "f32 on cpu"
  Amount total_;
  std::unordered_set<const TensorImpl*> seen_;  // tensors that a row has counted
};

void Table::count(Row& row, const Tensor& x, bool is_parameter) {
  for (Amount* a : {&row.amount, &total_, &kinds_[detail::concat(x.dtype(), " on ", x.device())]}) {
    if (is_parameter) a->count += x.numel();
    a->bytes += x.nbytes();
  }
}

// Adds a row for the tensors of this module alone, whose names have no dot.
void Table::add(const std::string& path, Module& module) {
  Row row{path.empty() ? "(model)" : path, module.describe(), {}, {}};
  const auto is_own = [](const std::string& name) { return name.find('.') == std::string::npos; };
  for (const auto& [name, x] : module.named_parameters(/*remove_duplicate=*/false)) {
    if (!is_own(name)) continue;
    const bool is_new = seen_.insert(x.impl()).second;
    row.lines.push_back(
        detail::concat(name, " ", x.shape(), x.requires_grad() ? "" : " (frozen)", is_new ? "" : " (shared)"));
    if (is_new) count(row, x, true);
  }
  for (const auto& [name, x] : module.named_buffers())
    if (is_own(name) && seen_.insert(x.impl()).second) count(row, x, false);
  rows_.push_back(std::move(row));
}

// Returns one row if all parameters have the same dtype and device. Otherwise adds a row for each pair of dtype and
// device.
std::vector<Row> Table::totals() const {
  std::vector<Row> rows{{"total", "", {}, total_}}, apart;
  for (const auto& [kind, amount] : kinds_) {
    if (amount.count) rows[0].lines = {kind};
    apart.push_back({"", "", {kind}, amount});
  }
  if (std::count_if(apart.begin(), apart.end(), [](const Row& r) { return r.amount.count > 0; }) < 2) return rows;
  rows[0].lines.clear();
  rows.insert(rows.end(), apart.begin(), apart.end());
  return rows;
}

std::string Table::text() const {
  const std::vector<Row> totals = this->totals();
  const auto number = [](std::int64_t n) { return memory::format_exact(static_cast<std::size_t>(n)); };
  std::size_t widths[5] = {6, 4, 10, std::max<std::size_t>(5, number(total_.count).size()), 5};
  for (const auto* rows : {&rows_, &totals})
    for (const Row& r : *rows) {
      widths[0] = std::max(widths[0], r.path.size());
      widths[1] = std::max(widths[1], r.type.size());
      widths[4] = std::max(widths[4], memory::format_bytes(r.amount.bytes).size());
      for (const std::string& line : r.lines) widths[2] = std::max(widths[2], line.size());
    }
  std::string out;
  const auto print = [&](std::string_view a, std::string_view b, std::string_view c, std::string_view d,
                         std::string_view e) {
    fmt::format_to(std::back_inserter(out), "{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}", a, widths[0], b, widths[1], c,
                   widths[2], d, widths[3], e, widths[4]);
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  };
  const auto rule = [&] {
    for (std::size_t i = 0; i < widths[0] + widths[1] + widths[2] + widths[3] + widths[4] + 8; ++i) out += "─";
    out += '\n';
  };
  const auto print_row = [&](const Row& r, bool zeros = false) {
    print(r.path, r.type, r.lines.empty() ? "" : r.lines.front(), zeros || r.amount.count ? number(r.amount.count) : "",
          zeros || r.amount.bytes ? memory::format_bytes(r.amount.bytes) : "");
    for (std::size_t i = 1; i < r.lines.size(); ++i) print("", "", r.lines[i], "", "");
  };
  print("module", "type", "parameters", "count", "bytes");
  rule();
  for (const Row& r : rows_) print_row(r);
  rule();
  for (const Row& r : totals) print_row(r, true);
  return out;
}

}  // namespace

std::string summary(Module& model) {
  Table table;
  for (const auto& [path, module] : model.named_modules()) table.add(path, *module);
  return table.text();
}

}  // namespace bytetape::nn
