#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace bytetape {

/// Base of every exception that bytetape throws. what() is a message a person can act on.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// Shapes, dims or indices that do not fit the operation.
class ShapeError : public Error {
  using Error::Error;
};
/// A dtype that the operation does not take, or two that differ.
class DTypeError : public Error {
  using Error::Error;
};
/// Tensors on different devices, or data asked of a device that holds none.
class DeviceError : public Error {
  using Error::Error;
};
/// A value outside its documented range (a probability of 2, a negative stride).
class ValueError : public Error {
  using Error::Error;
};
/// A use of autograd that would give a wrong gradient: overwritten saved tensors, a graph already freed.
class AutogradError : public Error {
  using Error::Error;
};
/// A step that cannot be captured: what it does on the host, a replay would leave out.
class CaptureError : public Error {
  using Error::Error;
};
/// A kernel that this device's table leaves empty.
class NotImplemented : public Error {
  using Error::Error;
};
/// A file that cannot be read or is not what it claims to be: path, expected, found.
class FileError : public Error {
  using Error::Error;
};

namespace detail {
/// "matmul in module 'net.fc1'" — the running op and module, from the thread's scope; empty outside both.
std::string where();
template <class... Args>
std::string concat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}
}  // namespace detail

/// Throws E with a message of the running op, its module path, and args streamed one after the other.
template <class E, class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Args&... args) {
  const std::string at = detail::where();
  throw E(at.empty() ? detail::concat(args...) : detail::concat(at, ": ", args...));
}

/// fail<E>(args...) unless ok. The arguments are only streamed on failure.
template <class E = ShapeError, class... Args>
inline void check(bool ok, const Args&... args) {
  if (!ok) [[unlikely]]
    fail<E>(args...);
}

}  // namespace bytetape
