// Ranks of torchrun as threads of this process.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <thread>

#include "bytetape/distributed/host/transport.h"
#include "tests/distributed/ranks.h"
#include "tests/support/expect.h"

namespace bytetape::dist {
namespace {

using Ranks = std::vector<std::unique_ptr<Transport>>;

class Sockets : public testing::Test {
 protected:
  void SetUp() override {
    if (test::world().size() > 1) GTEST_SKIP() << "the ranks are threads of one process";
    setenv("MASTER_ADDR", "localhost", 1);
    setenv("MASTER_PORT", std::to_string(getpid()).c_str(), 1);
  }
  void TearDown() override {
    unsetenv("MASTER_ADDR");
    unsetenv("MASTER_PORT");
  }
};

std::unique_ptr<Transport> connect(int rank, int size, std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  return connect_by_sockets({.launcher = "torchrun", .rank = rank, .size = size}, timeout);
}

Ranks connect_all(int size) {
  std::vector<std::future<std::unique_ptr<Transport>>> coming;
  for (int r = size - 1; r >= 0; --r)
    coming.push_back(std::async(std::launch::async, [=] { return connect(r, size); }));
  Ranks ranks;
  for (int r = size - 1; r >= 0; --r) ranks.push_back(coming[static_cast<std::size_t>(r)].get());
  return ranks;
}

void run_all(Ranks& ranks, const std::function<void(Transport&, int)>& f) {
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) threads.emplace_back([&, r] { f(*ranks[r], static_cast<int>(r)); });
  for (std::thread& t : threads) t.join();
}

void wait(Messages& m) {
  for (int left = m.count(); left > 0; left -= m.progress()) std::this_thread::yield();
}

TEST_F(Sockets, CarryMessagesInOrder) {
  Ranks ranks = connect_all(4);
  run_all(ranks, [](Transport& transport, int rank) {
    for (int round = 0; round < 200; ++round) {
      std::vector<std::array<int, 2>> mine(4), theirs(4);
      const auto messages = transport.messages();
      for (int r = 0; r < 4; ++r) {
        if (r == rank) continue;
        const auto i = static_cast<std::size_t>(r);
        mine[i] = {rank, 10 * round + r};
        messages->send(r, &mine[i], sizeof mine[i]);
        messages->receive(r, &theirs[i], sizeof theirs[i]);
      }
      wait(*messages);
      EXPECT_TRUE(messages->missing().empty());
      theirs[static_cast<std::size_t>(rank)] = {rank, 10 * round + rank};
      for (int r = 0; r < 4; ++r) EXPECT_EQ(theirs[static_cast<std::size_t>(r)], (std::array{r, 10 * round + rank}));
    }
    transport.finish([] { return true; });
  });
}

TEST_F(Sockets, CarryLongMessages) {
  Ranks ranks = connect_all(2);
  run_all(ranks, [](Transport& transport, int rank) {
    std::vector<char> mine(1 << 20, static_cast<char>('a' + rank)), theirs(1 << 20);
    const auto messages = transport.messages();
    for (int i = 0; i < 20; ++i) {
      messages->send(1 - rank, mine.data(), mine.size());
      messages->receive(1 - rank, theirs.data(), theirs.size());
    }
    wait(*messages);
    EXPECT_EQ(theirs, std::vector<char>(1 << 20, static_cast<char>('b' - rank)));
  });
}

TEST_F(Sockets, RefuseTensors) {
  Ranks ranks = connect_all(2);
  EXPECT_FALSE(ranks[0]->carries_tensors());
  char byte = 0;
  EXPECT_THROWS_SAYING(ranks[0]->messages()->send(1, &byte, (1 << 20) + 1), DistributedError,
                       "a message of 1048577 bytes");
}

TEST_F(Sockets, TellFailures) {
  Ranks ranks = connect_all(3);
  EXPECT_FALSE(ranks[0]->take_failure());
  ranks[1]->tell_failure("the disk is full");
  for (const std::size_t r : {0, 2}) {
    std::optional<Failure> heard;
    while (!heard) heard = ranks[r]->take_failure();
    EXPECT_EQ(heard->rank, 1);
    EXPECT_EQ(heard->text, "the disk is full");
    EXPECT_FALSE(ranks[r]->take_failure());
  }
}

TEST_F(Sockets, NameARankThatHasEnded) {
  Ranks ranks = connect_all(3);
  ranks[2].reset();
  int value = 0;
  const auto messages = ranks[0]->messages();
  messages->receive(2, &value, sizeof value);
  EXPECT_THROWS_SAYING(wait(*messages), DistributedError, "rank 2 has ended");
  EXPECT_EQ(messages->missing(), std::vector<int>{2});
}

TEST_F(Sockets, EndTogether) {
  Ranks ranks = connect_all(2);
  std::atomic<bool> has_come = false;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    has_come = true;
    ranks[1]->finish([] { return true; });
  });
  ranks[0]->finish([] { return true; });
  EXPECT_TRUE(has_come);
  other.join();
}

TEST_F(Sockets, SayWhoIsMissing) {
  const auto soon = std::chrono::milliseconds(300);
  EXPECT_THROWS_SAYING(connect(0, 3, soon), DistributedError, "still waits for 2 ranks to connect");
  EXPECT_THROWS_SAYING(connect(1, 2, soon), DistributedError, "rank 1 found no rank 0 on MASTER_ADDR=localhost");
}

TEST_F(Sockets, LetNobodyInWithoutTheKey) {
  auto first = std::async(std::launch::async, [] { return connect(0, 2); });
  std::this_thread::sleep_for(std::chrono::seconds(1));  // it reads the variables
  setenv("BYTETAPE_JOB_KEY", "another", 1);
  EXPECT_THROWS_SAYING(connect(1, 2, std::chrono::milliseconds(300)), DistributedError, "found no rank 0");
  unsetenv("BYTETAPE_JOB_KEY");
  const auto second = connect(1, 2);
  EXPECT_TRUE(first.get());
}

TEST_F(Sockets, AreNotHeldUpByStrangers) {
  auto first = std::async(std::launch::async, [] { return connect(0, 2); });
  std::vector<int> strangers;
  // Connects to rank 0, wherever it listens, and says nothing.
  for (int port = 20000; strangers.size() < 3; port = port < 30015 ? port + 1 : 20000) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) {
      strangers.push_back(fd);
    } else {
      close(fd);
    }
  }
  const auto second = connect(1, 2);
  EXPECT_TRUE(second);
  EXPECT_TRUE(first.get());
  for (const int fd : strangers) close(fd);
}

TEST_F(Sockets, NeedTheLaunchersVariables) {
  unsetenv("MASTER_PORT");
  EXPECT_THROWS_SAYING(connect(0, 2), ValueError, "not MASTER_PORT");
  setenv("MASTER_PORT", "1", 1);
  setenv("MASTER_ADDR", "no.such.host.invalid", 1);
  EXPECT_THROWS_SAYING(connect(1, 2), DistributedError, "MASTER_ADDR=no.such.host.invalid is not known");
}

}  // namespace
}  // namespace bytetape::dist
