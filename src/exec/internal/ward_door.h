// exec/internal/ward_door.h — where a warden's clients come in: the socket, who may speak, frames
// in and out. It knows no wards: requests go to a function.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "exec/internal/ward_message.h"

namespace falaj::exec::internal {

// Not thread-safe.
class WardDoor {
 public:
  // Listens at <folder>/socket, which replaces an old one. Clients of other users, and those that
  // do not know `token`, are sent away. Puts what must be served into the epoll set `watch` with
  // marks from `first_mark` on. kUnavailable with errno's text.
  static Result<WardDoor> open(const std::string& folder, std::string token, int watch,
                               std::uint64_t first_mark);

  using Client = std::uint64_t;
  // Takes what is there; a request of a client that was let in goes to `on_request`, which must not
  // call back into the door.
  void serve(std::uint64_t mark, const std::function<void(Client, WardRequest)>& on_request);
  // A client that is gone, or reads nothing while 8 MiB wait for it, gets nothing.
  void reply(Client client, const WardReply& reply);
  void tell_all(const WardReply& reply);
  // Sends what waits, as far as the clients read.
  void flush();
  std::size_t clients() const { return clients_.size(); }

 private:
  struct Connection {
    Descriptor socket;
    FrameReader in;
    std::string out;
    bool greeted = false;
    bool waits_to_write = false;
    bool gone = false;
  };
  WardDoor() = default;
  void admit();
  bool make_place();
  void take(Client client, const std::function<void(Client, WardRequest)>& on_request);
  void greet(Connection& connection, const WardRequest& request) const;
  void send(Client client, Connection& connection) const;
  void queue(Connection& connection, std::string_view frame) const;
  void drop_the_gone();

  Descriptor listener_;
  std::string token_;
  int watch_ = -1;
  std::uint64_t first_mark_ = 0;
  std::uint64_t next_client_ = 1;
  std::map<Client, Connection> clients_;
};

// A UNIX socket's address by its folder's descriptor: a path of any length. The descriptor must
// stay open while the address is used. `name` is short.
struct SocketAddress {
  SocketAddress(int folder, std::string_view name);
  char bytes[128] = {};
  unsigned size = 0;
};

}  // namespace falaj::exec::internal
