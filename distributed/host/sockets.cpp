// Control messages by TCP, for processes that torchrun started. Each pair of ranks has a connection. Rank 0 listens on
// a port that follows from the launch. The others greet it there, and learn where the others listen.
//
//   greeting:  Greeting, from the process that connects; a byte in return, if it has the right key; a byte again
//   addresses: an Address for each rank, from rank 0, once all have come
//   message:   Header, then its bytes
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "bytetape/core/error.h"
#include "bytetape/distributed/hash.h"
#include "bytetape/distributed/host/transport.h"

namespace bytetape::dist {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<char>;

constexpr std::size_t most_bytes = 1 << 20;
constexpr int ports = 16;  // that rank 0 tries, as others may be taken

struct Greeting {
  std::uint64_t key;
  std::int32_t rank, port;  // where the process listens
};
struct Address {
  sockaddr_storage at;
  socklen_t size;
};
enum class Kind : std::uint32_t { data, failure, end };
struct Header {
  Kind kind;
  std::uint32_t bytes;
};

/// A socket, closed at its end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

int milliseconds_to(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}
bool waits_until_ready(int fd, short events, Clock::time_point deadline) {
  for (;;) {  // a signal may interrupt
    pollfd p{.fd = fd, .events = events, .revents = 0};
    if (poll(&p, 1, milliseconds_to(deadline)) == 1) return true;
    if (Clock::now() >= deadline) return false;
  }
}

/// Sends or receives exactly `bytes`. Returns whether it could before the deadline.
bool send_all(const Socket& socket, const void* data, std::size_t bytes, Clock::time_point deadline) {
  for (std::size_t at = 0; at < bytes;) {
    if (!waits_until_ready(socket.get(), POLLOUT, deadline)) return false;
    const ssize_t n =
        ::send(socket.get(), static_cast<const char*>(data) + at, bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
    at += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  return true;
}
bool receive_all(const Socket& socket, void* data, std::size_t bytes, Clock::time_point deadline) {
  for (std::size_t at = 0; at < bytes;) {
    if (!waits_until_ready(socket.get(), POLLIN, deadline)) return false;
    const ssize_t n = ::recv(socket.get(), static_cast<char*>(data) + at, bytes - at, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    at += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  return true;
}

void set_port(Address& address, int port) {
  const auto number = htons(static_cast<std::uint16_t>(port));
  if (address.at.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(&address.at)->sin6_port = number;
  else
    reinterpret_cast<sockaddr_in*>(&address.at)->sin_port = number;
}
int port_of(const Address& address) {
  return ntohs(address.at.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&address.at)->sin6_port
                                                : reinterpret_cast<const sockaddr_in*>(&address.at)->sin_port);
}
int port_of(const Socket& listener) {
  Address here{.at = {}, .size = sizeof(sockaddr_storage)};
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&here.at), &here.size);
  return port_of(here);
}

std::vector<Address> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  check<DistributedError>(status == 0, "the host MASTER_ADDR=", host, " is not known: ", gai_strerror(status));
  std::vector<Address> all;
  for (const addrinfo* a = found; a; a = a->ai_next) {
    all.push_back({.at = {}, .size = a->ai_addrlen});
    std::memcpy(&all.back().at, a->ai_addr, a->ai_addrlen);
  }
  freeaddrinfo(found);
  return all;
}

bool is_loopback(const Address& address) {
  if (address.at.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(&address.at)->sin_addr.s_addr) >> 24 == 127;
  const in6_addr& at = reinterpret_cast<const sockaddr_in6*>(&address.at)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&at) || (IN6_IS_ADDR_V4MAPPED(&at) && at.s6_addr[12] == 127);
}

/// Returns a socket that listens on all of the host's addresses of a family, or none if the port is taken. IPv6's also
/// takes IPv4. A name may stand for the loopback address on its own host alone, so that address is not enough.
Socket listen_on(int family, int port) {
  Address any{
      .at = {},
      .size = static_cast<socklen_t>(family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in))};  // zeros: any
  any.at.ss_family = static_cast<sa_family_t>(family);
  set_port(any, port);
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const bool listens = bind(socket.get(), reinterpret_cast<const sockaddr*>(&any.at), any.size) == 0 &&
                       listen(socket.get(), SOMAXCONN) == 0;
  return listens ? std::move(socket) : Socket();
}
Socket listen_on(int port) {
  Socket socket = listen_on(AF_INET6, port);
  return socket ? std::move(socket) : listen_on(AF_INET, port);  // a host may be without IPv6
}

/// Connects to an address and greets. Returns none if nobody with this key listens there.
Socket greet(const Address& address, const Greeting& greeting, Clock::time_point deadline) {
  Socket socket(::socket(address.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.at), address.size) != 0) return {};
  char answer = 0;
  const auto soon = std::min(deadline, Clock::now() + std::chrono::seconds(5));
  const bool is_known = send_all(socket, &greeting, sizeof greeting, soon) && receive_all(socket, &answer, 1, soon) &&
                        send_all(socket, &answer, 1, soon);
  return is_known ? std::move(socket) : Socket();
}

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  check<ValueError>(value != nullptr, "torchrun has set RANK, but not ", name);
  return value;
}

/// A connection to another rank.
struct Link {
  Socket socket;
  std::string unsent;  // bytes to send
  Bytes unread;        // received bytes of messages that are not whole
  std::deque<Bytes> arrived;
  bool has_ended = false;  // the rank has called finish()
  bool is_closed = false;
};

class Sockets final : public Transport {
 public:
  Sockets(const Launch& launch, std::chrono::milliseconds timeout);
  bool carries_tensors() const override { return false; }
  std::unique_ptr<Messages> messages() override;
  void tell_failure(const std::string& text) noexcept override;
  std::optional<Failure> take_failure() override;
  void finish(const std::function<bool()>& may_wait) override;

  Link& link(int rank) { return links_[static_cast<std::size_t>(rank)]; }
  void queue(int to, Kind kind, const void* data, std::size_t bytes);
  /// Sends and receives what can be without waiting.
  void pump();

 private:
  void serve(std::uint64_t key);
  Address find_first(const std::string& host, const Greeting& greeting);
  void join(const std::string& host, std::uint64_t key);
  void accept_from(const Socket& listener, std::uint64_t key, int count, std::vector<Address>* addresses);
  void add(int rank, Socket socket);
  void pump(int rank);
  void read_messages(int rank);

  const int rank_, size_;
  const Clock::time_point deadline_;
  std::vector<Link> links_;
  std::deque<Failure> failures_;
};

Sockets::Sockets(const Launch& launch, std::chrono::milliseconds timeout)
    : rank_(launch.rank),
      size_(launch.size),
      deadline_(Clock::now() + timeout),
      links_(static_cast<std::size_t>(launch.size)) {
  const std::string host = variable("MASTER_ADDR");
  Hash key;
  key.add(host).add(variable("MASTER_PORT")).add(static_cast<std::uint64_t>(size_));
  for (const char* name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "BYTETAPE_JOB_KEY"}) {
    const char* const value = std::getenv(name);
    key.add(std::string(value ? value : ""));
  }
  rank_ == 0 ? serve(key.get()) : join(host, key.get());
}

int first_port(std::uint64_t key) { return 20000 + static_cast<int>(key % 10000); }

/// Rank 0: waits for the others, and tells them where each listens.
void Sockets::serve(std::uint64_t key) {
  Socket listener;
  for (int i = 0; i < ports && !listener; ++i) listener = listen_on(first_port(key) + i);
  check<DistributedError>(static_cast<bool>(listener), "rank 0 cannot listen on any of the ports ", first_port(key),
                          " to ", first_port(key) + ports - 1);
  std::vector<Address> addresses(links_.size());
  accept_from(listener, key, size_ - 1, &addresses);
  for (int r = 1; r < size_; ++r)
    check<DistributedError>(send_all(link(r).socket, addresses.data(), addresses.size() * sizeof(Address), deadline_),
                            "rank ", r, " has ended");
}

/// Finds rank 0 on one of its addresses and ports. Returns the address.
Address Sockets::find_first(const std::string& host, const Greeting& greeting) {
  std::vector<Address> addresses = resolve(host);
  for (;;) {
    for (Address& address : addresses)
      for (int i = 0; i < ports; ++i) {
        check<DistributedError>(Clock::now() < deadline_, "rank ", rank_, " found no rank 0 on MASTER_ADDR=", host,
                                ", ports ", first_port(greeting.key), " to ", first_port(greeting.key) + ports - 1);
        set_port(address, first_port(greeting.key) + i);
        Socket socket = greet(address, greeting, deadline_);
        if (!socket) continue;
        add(0, std::move(socket));
        return address;
      }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// Other ranks: greet rank 0 and those of lower numbers, and wait for those of higher ones.
void Sockets::join(const std::string& host, std::uint64_t key) {
  const Socket listener = listen_on(0);
  check<DistributedError>(static_cast<bool>(listener), "rank ", rank_, " cannot listen");
  const Greeting greeting{.key = key, .rank = rank_, .port = port_of(listener)};
  const Address first = find_first(host, greeting);
  std::vector<Address> addresses(links_.size());
  check<DistributedError>(receive_all(link(0).socket, addresses.data(), addresses.size() * sizeof(Address), deadline_),
                          "rank ", rank_, " did not learn from rank 0 where the other ranks are");
  for (int r = 1; r < rank_; ++r) {
    Address address = addresses[static_cast<std::size_t>(r)];
    if (is_loopback(address)) {  // on rank 0's host
      const int port = port_of(address);
      address = first;
      set_port(address, port);
    }
    Socket socket;
    while (!socket) {
      check<DistributedError>(Clock::now() < deadline_, "rank ", rank_, " cannot reach rank ", r);
      socket = greet(address, greeting, deadline_);
    }
    add(r, std::move(socket));
  }
  accept_from(listener, key, size_ - 1 - rank_, nullptr);
}

/// Accepts `count` ranks, and notes where they listen. Processes with another key are not answered.
void Sockets::accept_from(const Socket& listener, std::uint64_t key, int count, std::vector<Address>* addresses) {
  while (count > 0) {
    check<DistributedError>(waits_until_ready(listener.get(), POLLIN, deadline_), "rank ", rank_, " still waits for ",
                            count, count == 1 ? " rank" : " ranks", " to connect");
    Address from{.at = {}, .size = sizeof(sockaddr_storage)};
    Socket socket(accept4(listener.get(), reinterpret_cast<sockaddr*>(&from.at), &from.size, SOCK_CLOEXEC));
    if (!socket) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Greeting greeting{};
    const auto soon = std::min(deadline_, Clock::now() + std::chrono::seconds(2));
    if (!socket || !receive_all(socket, &greeting, sizeof greeting, soon)) continue;
    const bool is_ours =
        greeting.key == key && greeting.rank > 0 && greeting.rank < size_ && !link(greeting.rank).socket;
    char answer = 1;
    if (!is_ours || !send_all(socket, &answer, 1, soon) || !receive_all(socket, &answer, 1, soon)) continue;
    if (addresses) {
      set_port(from, greeting.port);
      (*addresses)[static_cast<std::size_t>(greeting.rank)] = from;
    }
    add(greeting.rank, std::move(socket));
    --count;
  }
}

void Sockets::add(int rank, Socket socket) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  link(rank).socket = std::move(socket);
}

void Sockets::queue(int to, Kind kind, const void* data, std::size_t bytes) {
  const Header header{.kind = kind, .bytes = static_cast<std::uint32_t>(bytes)};
  link(to)
      .unsent.append(reinterpret_cast<const char*>(&header), sizeof header)
      .append(static_cast<const char*>(data), bytes);
}

void Sockets::pump() {
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && !link(r).is_closed) pump(r);
}

void Sockets::pump(int rank) {
  Link& l = link(rank);
  if (!l.unsent.empty()) {
    const ssize_t n = ::send(l.socket.get(), l.unsent.data(), l.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) l.unsent.erase(0, static_cast<std::size_t>(n));
  }
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t n = ::recv(l.socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (n <= 0) {
      l.is_closed = true;
      break;
    }
    l.unread.insert(l.unread.end(), piece.begin(), piece.begin() + n);
  }
  read_messages(rank);
}

void Sockets::read_messages(int rank) {
  Link& l = link(rank);
  std::size_t at = 0;
  while (l.unread.size() - at >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, l.unread.data() + at, sizeof header);
    if (header.bytes > most_bytes) {
      l.is_closed = true;  // not one of our messages
      break;
    }
    if (l.unread.size() - at - sizeof header < header.bytes) break;
    const auto begin = l.unread.begin() + static_cast<std::ptrdiff_t>(at + sizeof header);
    const auto end = begin + static_cast<std::ptrdiff_t>(header.bytes);
    if (header.kind == Kind::data) l.arrived.emplace_back(begin, end);
    if (header.kind == Kind::failure) failures_.push_back({rank, std::string(begin, end)});
    if (header.kind == Kind::end) l.has_ended = true;
    at += sizeof header + header.bytes;
  }
  l.unread.erase(l.unread.begin(), l.unread.begin() + static_cast<std::ptrdiff_t>(at));
}

void Sockets::tell_failure(const std::string& text) noexcept {
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) queue(r, Kind::failure, text.data(), text.size());
  const auto is_waiting = [](const Link& l) { return !l.is_closed && !l.unsent.empty(); };
  do pump();
  while (std::ranges::any_of(links_, is_waiting) && Clock::now() < deadline);
}

std::optional<Failure> Sockets::take_failure() {
  pump();
  if (failures_.empty()) return std::nullopt;
  Failure first = std::move(failures_.front());
  failures_.pop_front();
  return first;
}

void Sockets::finish(const std::function<bool()>& may_wait) {
  for (int r = 0; r < size_; ++r)
    if (r != rank_) queue(r, Kind::end, nullptr, 0);
  const auto is_there = [](const Link& l) { return !l.socket || l.is_closed || (l.has_ended && l.unsent.empty()); };
  for (pump(); !std::ranges::all_of(links_, is_there) && may_wait(); pump())
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

class SocketMessages final : public Messages {
 public:
  explicit SocketMessages(Sockets& sockets) : sockets_(sockets) {}

  void send(int to, const void* data, std::size_t bytes) override {
    check_size(bytes);
    sockets_.queue(to, Kind::data, data, bytes);
    all_.push_back({.rank = to, .data = nullptr, .bytes = bytes});
  }
  void receive(int from, void* data, std::size_t bytes) override {
    check_size(bytes);
    all_.push_back({.rank = from, .data = static_cast<char*>(data), .bytes = bytes});
  }
  int progress() override;
  int count() const override { return static_cast<int>(all_.size()); }
  std::vector<int> missing() const override {
    std::vector<int> ranks;
    for (const Message& m : all_)
      if (!m.is_done) ranks.push_back(m.rank);
    std::ranges::sort(ranks);
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

 private:
  struct Message {
    int rank;
    char* data;  // null if it is sent
    std::size_t bytes;
    bool is_done = false;
  };
  static void check_size(std::size_t bytes) {
    check<DistributedError>(bytes <= most_bytes, "a message of ", bytes, " bytes does not fit a control channel");
  }
  bool advance(const Message& m);

  Sockets& sockets_;
  std::vector<Message> all_;
};

/// Returns whether the message is done.
bool SocketMessages::advance(const Message& m) {
  Link& l = sockets_.link(m.rank);
  if (!m.data && l.unsent.empty()) return true;
  if (m.data && !l.arrived.empty()) {
    check<DistributedError>(l.arrived.front().size() == m.bytes, "rank ", m.rank, " sent another message");
    std::copy(l.arrived.front().begin(), l.arrived.front().end(), m.data);
    l.arrived.pop_front();
    return true;
  }
  check<DistributedError>(!l.is_closed, "rank ", m.rank, " has ended");
  return false;
}

int SocketMessages::progress() {
  sockets_.pump();
  int count = 0;
  for (Message& m : all_) {
    if (m.is_done || !advance(m)) continue;
    m.is_done = true;
    ++count;
  }
  return count;
}

std::unique_ptr<Messages> Sockets::messages() { return std::make_unique<SocketMessages>(*this); }

}  // namespace

std::unique_ptr<Transport> connect_by_sockets(const Launch& launch, std::chrono::milliseconds timeout) {
  return std::make_unique<Sockets>(launch, timeout);
}

}  // namespace bytetape::dist
