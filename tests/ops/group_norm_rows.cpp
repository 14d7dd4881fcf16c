#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

/// Of `groups`, or where that is 0 of one for each channel.
OpRow row(const std::string& variant, std::int64_t groups, const Cases& cases, const Case& large,
          const std::vector<BadInput>& bads) {
  const auto count = [=](const Shape& s) { return groups > 0 ? groups : s[1]; };
  return {
      .op = "group_norm",
      .variant = variant,
      .f = [=](X x) { return group_norm(x[0], x[0].defined() ? count(x[0].shape()) : 1, if_any(x, 1), if_any(x, 2)); },
      .reference = [=](A x) { return ref::group_norm(x[0], count(x[0].shape), if_any(x, 1), if_any(x, 2), 1e-5); },
      .cases = cases,
      .bad = bads,
      .tolerance = 4,
      .large = large};
}

}  // namespace

std::vector<OpRow> group_norm_rows() {
  const std::vector<BadInput> bads{
      bad<DTypeError>("floating", {in(2, 6).as(DType::i64), in(6), in(6)}),
      bad<ShapeError>("expected x (n, c, ...), got f64(6,)", {in(6), in(6), in(6)},
                      [](X x) { return group_norm(x[0], 2); }),
      bad<ValueError>("expected a positive number of groups that divides the 5 channels of f64(2, 5)",
                      {in(2, 5), in(5), in(5)}),
      bad<ValueError>("expected more than one value a group, got 4 groups of f64(1, 4)", {in(1, 4)},
                      [](X x) { return group_norm(x[0], 4); }),
      bad<ValueError>(", got 0", {in(2, 6)}, [](X x) { return group_norm(x[0], 0); }),
      bad<ShapeError>("expected a weight for each of the 6 channels of f64(2, 6)", {in(2, 6), in(3), in(6)}),
      bad<DTypeError>("bias must have the dtype of x", {in(2, 6), in(6), in(6).as(DType::f32)}),
      bad<DeviceError>("weight is on another device than x", {in(2, 6), in(6).elsewhere(), in(6)}),
      bad<ValueError>("eps must not be negative", {in(2, 6)}, [](X x) { return group_norm(x[0], 2, {}, {}, -1); })};
  return {
      row("", 2,
          {{in(2, 6), in(6), in(6)},
           {in(2, 6, 5), in(6), in(6)},
           {in(3, 6, 2, 3), in(6), in(6)},
           {in(2, 6, 3, 2).channels_last(), in(6), in(6)},
           {in(0, 6, 3), in(6), in(6)},
           {in(2, 6, 0), in(6), in(6)},
           {in(2, 6, 4).transposed(), in(6).spaced(), in(6)},
           {in(2, 8, 2, 2).narrowed(), in(8), in(8).narrowed()},
           {in(2, 6, 2, 3).expanded(), in(6).expanded(), in(6)},
           {in(2, 4, 2, 1, 3), in(4), in(4)}},
          {in(12, 16, 40, 40), in(16), in(16)}, bads),
      row("channels_last", 4,
          {{in(2, 8, 3, 2).channels_last(), in(8), in(8)},
           {in(2, 8, 2, 2).channels_last(), in(8), in(8)},
           {in(2, 12, 1, 2).channels_last(), in(12), in(12)},
           {in(0, 4, 2, 2).channels_last(), in(4), in(4)},
           {in(1, 300, 2, 1).channels_last(), in(300), in(300)},
           {in(2, 12, 1, 1), in(12), in(12)}},
          {in(9, 64, 30, 31).channels_last(), in(64), in(64)}, {}),
      row("one_group", 1,
          {{in(2, 5)},
           {in(2, 3, 4)},
           {in(0, 3)},
           {in(2, 3, 2, 2).channels_last()},
           {in(4, 5).transposed()},
           {in(3, 1, 4)}},
          {in(5, 34, 30, 30).channels_last()}, {}),
      row("by_channel", 0,
          {{in(2, 3, 4), in(3)},
           {in(2, 3, 2, 3), in(3)},
           {in(2, 3, 2, 3).channels_last(), in(3)},
           {in(0, 3, 2), in(3)},
           {in(2, 4, 3).transposed(), in(4)},
           {in(2, 1, 5), in(1)}},
          {in(5, 33, 31, 30).channels_last(), in(33)}, {}),
  };
}

}  // namespace bytetape::test
