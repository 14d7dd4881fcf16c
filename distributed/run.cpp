#include "bytetape/distributed/run.h"

#include <cstdio>
#include <exception>
#include <string>

#include "bytetape/distributed/host/channel.h"
#include "bytetape/distributed/launcher.h"

namespace bytetape::dist {
namespace {

/// The number of this process before each line, if there are several.
std::string prefix() {
  try {
    const Launch launch = read_launch();
    return launch.size > 1 ? "rank " + std::to_string(launch.rank) + ": " : "";
  } catch (const std::exception&) { return ""; }
}

void report(const std::string& name, const std::string& text) noexcept {
  std::fprintf(stderr, "%s%s%s%s\n", name.c_str(), name.empty() ? "" : ": ", prefix().c_str(), text.c_str());
  std::fflush(stderr);
  channel::tell_failure(text);
}

}  // namespace

int run(const std::function<void()>& program, const std::string& name) noexcept {
  try {
    program();
    return 0;
  } catch (const std::exception& e) { report(name, e.what()); } catch (...) {
    report(name, "an exception that is no std::exception");
  }
  return 1;
}

}  // namespace bytetape::dist
