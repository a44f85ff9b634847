#include "api/caller.h"

namespace falaj::api {
namespace {

class RequestCaller final : public net::Caller {
 public:
  explicit RequestCaller(security::PrincipalPtr principal) : principal_(std::move(principal)) {}
  const security::Principal& principal() const { return *principal_; }

 private:
  security::PrincipalPtr principal_;
};

}  // namespace

std::shared_ptr<const net::Caller> make_caller(security::PrincipalPtr principal) {
  return std::make_shared<const RequestCaller>(std::move(principal));
}

const security::Principal& principal_of(const net::Request& request) {
  static const security::Principal kNobody;
  const auto* caller = dynamic_cast<const RequestCaller*>(request.caller.get());
  return caller == nullptr ? kNobody : caller->principal();
}

}  // namespace falaj::api
