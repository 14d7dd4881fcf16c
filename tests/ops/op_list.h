#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/core/kernels/families.h"
#include "bytetape/core/tensor.h"
#include "tests/support/array.h"
#include "tests/support/expect.h"

namespace bytetape::test {

/// How the values of an input are drawn.
enum class Draw {
  normal,
  positive,   // 0.5 .. 2
  fractions,  // 0.1 .. 0.9
  distinct,   // 0.1 apart and away from 0 and 1: no kink and no tie within reach of a central difference
  halves,     // odd multiples of 1/2; sums of products of two stay 1/8 away from 0 with ...
  eighths,    // ... one of these, odd multiples of 1/8
  boolean,    // a bool tensor
  classes,    // i64, 0 .. 2, and -100 now and then
  examples,   // i64, 0 .. 2
  pixels,     // u8, 0 .. 255
  special,    // normal, and now and then NaN, infinity or 0 of either sign; never the first
};

/// How an input lies in memory.
enum class Layout { dense, transposed, narrowed, spaced, expanded, channels_last };
inline constexpr Layout all_layouts[] = {Layout::dense,  Layout::transposed, Layout::narrowed,
                                         Layout::spaced, Layout::expanded,   Layout::channels_last};
const char* to_string(Layout layout);

/// One input of a case.
struct Input {
  Shape shape;
  Layout layout = Layout::dense;
  std::optional<Draw> draw;    // else the row's
  std::optional<DType> dtype;  // else the one under test
  bool is_elsewhere = false;   // on another device than the first
  bool defined = true;

  Input transposed() const { return with(Layout::transposed); }        // the last two dims swapped in memory
  Input narrowed() const { return with(Layout::narrowed); }            // a part of longer rows
  Input spaced() const { return with(Layout::spaced); }                // every other element
  Input expanded() const { return with(Layout::expanded); }            // dim 0 repeats one slice
  Input channels_last() const { return with(Layout::channels_last); }  // of rank 4
  Input eighths() const { return drawn(Draw::eighths); }
  Input fractions() const { return drawn(Draw::fractions); }
  Input boolean() const { return drawn(Draw::boolean); }
  Input classes() const { return drawn(Draw::classes); }
  Input examples() const { return drawn(Draw::examples); }
  Input pixels() const { return drawn(Draw::pixels); }
  Input as(DType t) const;
  Input elsewhere() const;

 private:
  Input with(Layout l) const;
  Input drawn(Draw d) const;
};
template <class... N>
Input in(N... sizes) {
  return {.shape = {static_cast<std::int64_t>(sizes)...}};
}
inline const Input undefined{.defined = false};

using Case = std::vector<Input>;
using Cases = std::vector<Case>;
using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;

/// Inputs that an op must refuse before any kernel runs.
struct BadInput {
  Case inputs;
  Function f;  // else the row's
  /// Does the call throw the expected type, naming the op first and with the expected words?
  std::function<::testing::AssertionResult(const std::function<void()>& call, const std::string& op)> verdict;
  bool needs_data = false;  // a meta device cannot tell
};
template <class E>
BadInput bad(const std::string& words, const Case& inputs, const Function& f = {}) {
  return {inputs, f, [words](const std::function<void()>& call, const std::string& op) {
            const auto result = throws_saying<E>(call, words);
            return result ? throws_saying<E>(call, op + ": ") : result;
          }};
}
inline BadInput needs_data(BadInput b) {
  b.needs_data = true;
  return b;
}

/// Whether backward can be differentiated again.
enum class Gradients { none, once, twice };

/// Everything that the tests need to know of an op (or of one way to call it).
struct OpRow {
  std::string op;       // as messages name it, and its definition
  std::string variant;  // tells rows of one op apart
  Function f;
  Reference reference;
  Cases cases;
  Draw draw = Draw::normal;
  std::vector<BadInput> bad;
  Gradients gradients = Gradients::twice;
  double tolerance = 1;               // times that of the dtype
  bool has_empty_case = true;         // false where the op needs an element
  Case large = {};                    // enough work for several threads; else (300, 401), and (401) for further inputs
  bool same_on_any_threads = true;    // false: last bits of gradients depend on the number of threads
  bool is_predictable = true;         // false: the shape of the result depends on values
  std::optional<Family> family = {};  // of the table that has the row

  std::string name() const { return variant.empty() ? op : op + "_" + variant; }
};

/// The one list of ops ...
const std::vector<OpRow>& op_list();
/// ... and its parts: the rows of each kernel family, in name_rows.cpp,
#define BYTETAPE_FAMILY(Name, name, kind) std::vector<OpRow> name##_rows();
BYTETAPE_KERNEL_FAMILIES(BYTETAPE_FAMILY)
#undef BYTETAPE_FAMILY
/// ... and of ops that use the kernels of other ops, or none.
std::vector<OpRow> concat_rows();
std::vector<OpRow> conv_transpose_rows();
std::vector<OpRow> index_rows();
std::vector<OpRow> rearrange_rows();
std::vector<OpRow> einsum_rows();
std::vector<OpRow> view_rows();

}  // namespace bytetape::test
