#include <mpi.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "bytetape/core/error.h"
#include "bytetape/distributed/host/transport.h"

namespace bytetape::dist {
namespace {

using Clock = std::chrono::steady_clock;

void check_mpi(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  MPI_Error_string(status, text, &size);
  fail<DistributedError>("MPI: ", what, " failed: ", text);
}

MPI_Comm duplicate() {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}

constexpr std::size_t most_at_once = std::size_t{4} << 20;  // faster than larger ones, since MPI copies within calls

/// Calls f with the pieces of a message.
template <class Byte, class F>
void in_pieces(Byte* data, std::size_t bytes, F f) {
  for (std::size_t at = 0; at < bytes; at += most_at_once)
    f(data + at, static_cast<int>(std::min(most_at_once, bytes - at)));
}

class Mpi final : public Transport {
 public:
  explicit Mpi(const Launch& launch);
  bool carries_tensors() const override { return true; }
  std::unique_ptr<Messages> messages() override;
  void tell_failure(const std::string& text) noexcept override;
  std::optional<Failure> take_failure() override;
  void finish(const std::function<bool()>& may_wait) override;

  MPI_Comm data() const { return data_; }
  /// MPI must not be called any more, because it would receive messages into freed memory.
  void silence() { is_silent_ = true; }

 private:
  int rank_ = 0, size_ = 1;
  bool is_silent_ = false;
  MPI_Comm data_ = MPI_COMM_NULL;
  MPI_Comm failures_ = MPI_COMM_NULL;  // texts of ranks that failed
};

Mpi::Mpi(const Launch& launch) {
  int has_begun = 0, provided = 0;
  MPI_Initialized(&has_begun);
  if (has_begun)
    MPI_Query_thread(&provided);
  else
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  check<DistributedError>(rank_ == launch.rank && size_ == launch.size, launch.launcher,
                          " started this process as rank ", launch.rank, " of ", launch.size, ", but MPI numbers it ",
                          rank_, " of ", size_, ": the program was built with another MPI than that of the launcher");
  check<DistributedError>(provided >= MPI_THREAD_SERIALIZED,
                          "MPI serves only its first thread: it must be started with ",
                          "MPI_THREAD_SERIALIZED or more");
  data_ = duplicate();
  failures_ = duplicate();
}

/// MPI_Finalize() would wait for a lost rank for ever.
void Mpi::finish(const std::function<bool()>& may_wait) {
  int has_ended = 0;
  if (is_silent_ || MPI_Finalized(&has_ended) != MPI_SUCCESS || has_ended) return;
  MPI_Request all = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(data_, &all), "MPI_Ibarrier");
  for (;;) {
    int are_there = 0;
    check_mpi(MPI_Test(&all, &are_there, MPI_STATUS_IGNORE), "MPI_Test");
    if (are_there) break;
    if (!may_wait()) return;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  MPI_Finalize();
}

void Mpi::tell_failure(const std::string& text) noexcept {
  if (is_silent_) return;
  std::vector<MPI_Request> sent;
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_)
      MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_BYTE, rank, 0, failures_, &sent.emplace_back());
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  int done = 0;
  while (!done && Clock::now() < deadline)
    if (MPI_Testall(static_cast<int>(sent.size()), sent.data(), &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return;
}

std::optional<Failure> Mpi::take_failure() {
  if (is_silent_) return std::nullopt;
  int is_there = 0, bytes = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, 0, failures_, &is_there, &status), "MPI_Iprobe");
  if (!is_there) return std::nullopt;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  std::string text(static_cast<std::size_t>(bytes), ' ');
  check_mpi(MPI_Recv(text.data(), bytes, MPI_BYTE, status.MPI_SOURCE, 0, failures_, MPI_STATUS_IGNORE), "MPI_Recv");
  return Failure{status.MPI_SOURCE, std::move(text)};
}

class MpiMessages final : public Messages {
 public:
  explicit MpiMessages(Mpi& mpi) : mpi_(mpi) {}
  ~MpiMessages() override;

  void send(int to, const void* data, std::size_t bytes) override {
    in_pieces(static_cast<const char*>(data), bytes, [&](const char* piece, int size) {
      check_mpi(MPI_Isend(piece, size, MPI_BYTE, to, 0, mpi_.data(), add(to)), "MPI_Isend");
    });
  }
  void receive(int from, void* data, std::size_t bytes) override {
    in_pieces(static_cast<char*>(data), bytes, [&](char* piece, int size) {
      check_mpi(MPI_Irecv(piece, size, MPI_BYTE, from, 0, mpi_.data(), add(from)), "MPI_Irecv");
    });
  }
  int progress() override {
    int count = 0;
    done_.resize(requests_.size());
    check_mpi(
        MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(), MPI_STATUSES_IGNORE),
        "MPI_Testsome");
    return count == MPI_UNDEFINED ? 0 : count;
  }
  int count() const override { return static_cast<int>(requests_.size()); }
  std::vector<int> missing() const override;

 private:
  MPI_Request* add(int rank) {
    ranks_.push_back(rank);
    return &requests_.emplace_back(MPI_REQUEST_NULL);
  }
  bool are_pending() const {
    return std::ranges::any_of(requests_, [](MPI_Request r) { return r != MPI_REQUEST_NULL; });
  }

  Mpi& mpi_;
  std::vector<MPI_Request> requests_;
  std::vector<int> ranks_;  // the other side of each request
  std::vector<int> done_;   // scratch of Testsome
};

/// Waits for at most a second until the messages are cancelled or done.
MpiMessages::~MpiMessages() {
  if (!are_pending()) return;
  for (MPI_Request& request : requests_)
    if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  try {
    const auto deadline = Clock::now() + std::chrono::seconds(1);
    while (are_pending() && Clock::now() < deadline) progress();
  } catch (const std::exception&) {}  // MPI has failed
  if (are_pending()) mpi_.silence();
}

std::vector<int> MpiMessages::missing() const {
  std::vector<int> all;
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (requests_[i] != MPI_REQUEST_NULL) all.push_back(ranks_[i]);
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::unique_ptr<Messages> Mpi::messages() { return std::make_unique<MpiMessages>(*this); }

}  // namespace

std::unique_ptr<Transport> connect_by_mpi(const Launch& launch) { return std::make_unique<Mpi>(launch); }

}  // namespace bytetape::dist
