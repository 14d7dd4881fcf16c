// Replaces mpi.cpp in builds without MPI: a program runs as one rank.
#include "bytetape/core/error.h"
#include "bytetape/distributed/host/mpi.h"

namespace bytetape::dist::mpi {

void start(const Launch&) {}
std::chrono::milliseconds timeout() { return {}; }
void set_timeout(std::chrono::milliseconds) {}
bool is_running() { return false; }
std::string why_not() {
  return "bytetape was built without MPI: install libopenmpi-dev or libmpich-dev, and build again";
}
bool has_failed() { return false; }
void set_failed() {}
std::timed_mutex& calls() {
  static std::timed_mutex one;
  return one;
}
void tell_failure(const std::string&) noexcept {}
std::optional<Failure> heard_failure() { return std::nullopt; }

struct Exchange::Messages {};
Exchange::Exchange() = default;
Exchange::~Exchange() = default;
void Exchange::send(int, const void*, std::size_t) { fail<DistributedError>(why_not()); }
void Exchange::receive(int, void*, std::size_t) { fail<DistributedError>(why_not()); }
std::vector<int> Exchange::wait(std::chrono::milliseconds) { return {}; }

}  // namespace bytetape::dist::mpi
