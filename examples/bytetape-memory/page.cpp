#include "examples/bytetape-memory/page.h"

#include <bytetape/core/memory/advice.h>
#include <bytetape/core/memory/report.h>
#include <fmt/format.h>

#include <algorithm>

#include "examples/bytetape-memory/recordings.h"

namespace bytetape::examples {

int page(const std::vector<std::string>& paths) {
  const std::string& out = paths.back();
  const memory::Log run = read_recording(paths.front());
  fmt::print("{}", headline(run, paths.front()));
  int status = status_of(run);
  if (paths.size() == 2) {
    memory::write_report(run, out);
  } else {
    const memory::Log other = read_recording(paths[1]);
    fmt::print("compared with {}", headline(other, paths[1]));
    memory::write_report(memory::Report{&run, &other, memory::advice_texts(run), paths[0], paths[1]}, out);
    status = std::max(status, status_of(other));
  }
  fmt::print("written to {}\n", out);
  return status;
}

}  // namespace bytetape::examples
