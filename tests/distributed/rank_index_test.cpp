#include "bytetape/distributed/rank_index.h"

#include "bytetape/bytetape.h"
#include "bytetape/core/memory/format.h"
#include "tests/distributed/ranks.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_dir.h"

namespace bytetape {
namespace {

using testing::HasSubstr;

TEST(RankIndex, HasARowOfEachRank) {
  const dist::Group group = test::world();
  const test::TemporaryDir dir;  // that of rank 0 has the page
  memory::reset_peaks();
  const std::int64_t mib = 1 << 20;
  { const Tensor x = empty({(group.rank() + 3) * mib}, DType::u8); }
  dist::write_rank_index(
      dir / "ranks.html", [&](int rank) { return dir / ("a & b.rank" + std::to_string(rank) + ".html"); }, group);
  EXPECT_EQ(dir.files(), group.rank() == 0 ? 1 : 0);
  if (group.rank() != 0) return;
  const std::string page = test::content_of(dir / "ranks.html");
  EXPECT_THAT(page, HasSubstr("Memory of " + std::to_string(group.size()) + " ranks"));
  for (int r = 0; r < group.size(); ++r) {
    EXPECT_THAT(page, HasSubstr("<a href=\"a &amp; b.rank" + std::to_string(r) + ".html\">rank " + std::to_string(r)));
    EXPECT_THAT(page, HasSubstr("<td>" + memory::format_bytes(static_cast<std::size_t>((r + 3) * mib)) + "</td>"));
  }
}

TEST(RankIndex, FailsWhereItCannotBeWritten) {
  const dist::Group group = test::world();
  const auto write = [&] {
    dist::write_rank_index(
        "/nowhere/ranks.html", [](int) { return "a.html"; }, group);
  };
  if (group.rank() == 0)
    EXPECT_THROWS_SAYING(write(), FileError, "/nowhere/ranks.html");
  else
    write();
}

}  // namespace
}  // namespace bytetape
