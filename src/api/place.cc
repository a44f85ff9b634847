#include "api/place.h"

#include "net/address.h"

namespace falaj::api {

using security::residency::Caller;

Caller place_of(const std::string& peer) {
  return net::is_loopback_address(peer) ? Caller::kOnThisMachine : Caller::kElsewhere;
}

}  // namespace falaj::api
