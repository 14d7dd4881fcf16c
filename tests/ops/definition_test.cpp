// Each op does what its definition says, as an observer sees it; docs/ops.md is made of the definitions.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/op_observer.h"
#include "tests/ops/evaluate.h"
#include "tests/support/source_dir.h"

namespace bytetape::test {
namespace {

std::string text(std::string_view name) { return std::string(name); }

template <class List>
bool contains(const List& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Whether the last input stands for any number of tensors.
bool takes_a_list(const OpDefinition& op) { return op.inputs[op.inputs.size() - 1] == "tensors"; }

/// Keeps what the ops that the program called were seen to do, and checks each op.
class Seen : public OpObserver {
 public:
  struct Call {
    const OpDefinition* definition;
    std::vector<Tensor> outputs;
    bool begins_with_a_number;
  };
  std::vector<Call> calls;
  int parts = 0;

  void begin(const OpCall& call) override {
    parts += call.caller != nullptr;
    const OpDefinition& op = call.definition;
    if (takes_a_list(op))
      EXPECT_GE(call.inputs.size() + 1, op.inputs.size()) << text(op.name);
    else
      EXPECT_EQ(call.inputs.size(), op.inputs.size()) << text(op.name);
    EXPECT_EQ(call.attributes.size(), op.attributes.size()) << text(op.name);
    EXPECT_EQ(op.family.has_value(), op.kind == OpKind::kernel) << text(op.name);
    std::vector<std::uint32_t>& now = versions[&call] = {};
    for (const Operand& x : call.inputs) now.push_back(x.tensor().defined() ? x.tensor().storage().version() : 0);
  }
  void end(const OpCall& call) noexcept override {
    const OpDefinition& op = call.definition;
    if (call.failed) return;
    EXPECT_FALSE(call.outputs.empty()) << text(op.name);
    EXPECT_TRUE(call.outputs.size() == op.outputs.size() || op.outputs[0] == "parts") << text(op.name);
    for (std::size_t i = 0; i + takes_a_list(op) < op.inputs.size(); ++i) {
      const Tensor& x = call.inputs[i].tensor();
      const bool is_written = x.defined() && x.storage().version() != versions[&call][i];
      EXPECT_TRUE(!is_written || contains(op.writes, op.inputs[i])) << text(op.name) << " wrote " << op.inputs[i];
    }
    const bool number = call.inputs[0].is_number();
    if (!call.caller) calls.push_back({&op, call.outputs, number});
  }

 private:
  std::map<const OpCall*, std::vector<std::uint32_t>> versions;
};

/// What is seen of the row's op when f runs it; null if no op of its name ran.
const Seen::Call* call_of(const OpRow& row, const Seen& seen) {
  const auto is_it = [&](const Seen::Call& c) { return std::string_view(c.definition->name) == row.op; };
  const auto found = std::find_if(seen.calls.rbegin(), seen.calls.rend(), is_it);
  return found == seen.calls.rend() ? nullptr : &*found;
}

bool is_among(const Tensor& y, const Seen& seen) {
  for (const Seen::Call& c : seen.calls)
    for (const Tensor& x : c.outputs)
      if (x.is_same(y)) return true;
  return false;
}

/// The tensors of a row's first case.
Inputs inputs_of(const OpRow& row, DType dtype, bool first_alone = false) {
  Case inputs = row.cases[0];
  for (std::size_t i = 1; i < inputs.size() && first_alone; ++i) inputs[i] = inputs[i].as(DType::f32);
  return make_inputs(inputs, rounded_to(dtype, inputs, draw(row, inputs, 0)), dtype);
}

class OpDefinitions : public testing::TestWithParam<std::size_t> {
 protected:
  const OpRow& row() const { return op_list()[GetParam()]; }
};

TEST_P(OpDefinitions, AreWhatObserversSee) {
  int parts = 0;
  const OpDefinition* op = nullptr;
  for (std::size_t i = 0; i < row().cases.size(); ++i) {
    SCOPED_TRACE(describe_case(row(), row().cases[i], i));
    const Inputs x = make_inputs(row().cases[i], draw(row(), row().cases[i], i), DType::f64);
    Seen seen;
    const Tensor y = row().f(x);
    const Seen::Call* const call = call_of(row(), seen);
    ASSERT_TRUE(call) << "no op of this name was seen";
    EXPECT_TRUE(is_among(y, seen)) << "the result was not seen";
    parts += seen.parts;
    op = call->definition;
  }
  EXPECT_TRUE(op->kind != OpKind::composite || parts > 0);
  EXPECT_TRUE(!op->family || !row().family || *op->family == *row().family);
}

TEST_P(OpDefinitions, TellTheDTypeUnderAutocast) {
  if (row().op == "to") return;  // has the dtype that it is given
  for (const DType given : {DType::f32, DType::bf16, DType::f64}) {
    Seen seen;
    const Autocast autocast(DType::bf16);
    const bool has_wide_weight = given == DType::bf16 && row().op.ends_with("_norm") && row().op != "batch_norm";
    row().f(inputs_of(row(), given, has_wide_weight));
    const Seen::Call* const call = call_of(row(), seen);
    ASSERT_TRUE(call);
    // Beside an f32 residual, y of add_layer_norm keeps the 16 bits of x, and the sum is in f32.
    const Tensor& y = call->outputs[row().op == "add_layer_norm" ? 1 : 0];
    if (!is_floating(y.dtype()) || call->begins_with_a_number) continue;
    const AutocastClass c = call->definition->autocast;
    const DType asked = c == AutocastClass::low ? DType::bf16 : c == AutocastClass::f32 ? DType::f32 : given;
    EXPECT_EQ(y.dtype(), given == DType::f64 ? given : asked) << "of " << given << ", class " << to_string(c);
  }
}

/// The rows of ops. Those of images test functions of core.
std::vector<std::size_t> rows_of_ops() {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < op_list().size(); ++i)
    if (op_list()[i].family != Family::images) rows.push_back(i);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(, OpDefinitions, testing::ValuesIn(rows_of_ops()),
                         [](const auto& info) { return op_list()[info.param].name(); });

// ---- docs/ops.md

/// The names of the dtypes of inputs that the row's op takes.
std::string dtypes_of(const OpRow& row) {
  const Case& inputs = row.cases[0];
  if (std::all_of(inputs.begin(), inputs.end(), [](const Input& i) { return i.dtype || i.draw == Draw::examples; }))
    return "i64";
  std::string list;
  for (const DType t :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8, DType::boolean}) {
    try {
      row.f(inputs_of(row, t));
      list += (list.empty() ? "" : " ") + std::string(t == DType::boolean ? "bool" : to_string(t));
    } catch (const Error&) {}
  }
  return list == "f64 f32 bf16 f16"                   ? "floating"
         : list == "f64 f32 bf16 f16 i64 i32 u8"      ? "numbers"
         : list == "f64 f32 bf16 f16 i64 i32 u8 bool" ? "all"
                                                      : list;
}

std::string arguments_of(const OpDefinition& op) {
  std::string list;
  const auto add = [&](std::string_view name) { list += (list.empty() ? "" : ", ") + text(name); };
  for (const std::string_view name : op.inputs) add(name);
  for (const AttributeDefinition& a : op.attributes) add(a.name);
  return list;
}

/// A line for each op of the list, by name. Op and CudaOp tests run each row of the list on the CPU and on a GPU.
std::string table_of_ops() {
  std::map<std::string, std::string> lines;
  for (const OpRow& row : op_list()) {
    Seen seen;
    row.f(inputs_of(row, DType::f64));
    const Seen::Call* const call = call_of(row, seen);
    if (!call || lines.contains(row.op)) continue;
    const OpDefinition& op = *call->definition;
    const char* const order = row.gradients == Gradients::twice  ? "twice"
                              : row.gradients == Gradients::once ? "once"
                                                                 : "no";
    std::ostringstream line;
    line << "| `" << row.op << "` | " << arguments_of(op) << " | " << to_string(op.kind) << " | " << dtypes_of(row)
         << " | CPU, GPU | " << to_string(op.autocast) << " | " << order << " |\n";
    lines[row.op] = line.str();
  }
  std::string table =
      "| op | arguments | kind | dtypes | devices | Autocast | differentiable |\n|---|---|---|---|---|---|---|\n";
  for (const auto& [name, line] : lines) table += line;
  return table;
}

TEST(OpList, IsTheTableInTheDocs) {
  const std::filesystem::path page = source_dir() / "docs/ops.md";
  std::stringstream content;
  content << std::ifstream(page).rdbuf();
  const std::string table = table_of_ops(), docs = content.str();
  const std::size_t begin = std::min(docs.find("| op |"), docs.size());
  EXPECT_EQ(docs.substr(begin), table) << "docs/ops.md ends with this table; BYTETAPE_WRITE_DOCS=1 writes it";
  if (std::getenv("BYTETAPE_WRITE_DOCS")) std::ofstream(page) << docs.substr(0, begin) << table;
}

}  // namespace
}  // namespace bytetape::test
