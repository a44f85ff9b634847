#include "net/grpc_server.h"

#include "base/time.h"

namespace falaj::net {

const Route& GrpcMethod::asked(const Request& request) const {
  if (!unnamed.has_value()) return declared;
  const auto found = request.params.find(declared.target.parameter());
  const bool is_named = found != request.params.end() && !found->second.empty();
  return is_named ? declared : *unnamed;
}

namespace {

Status admit(const GrpcMethod& method, const Gate& gate, Request& request,
             std::string_view message) {
  request.params.clear();
  request.caller.reset();  // Of the message before.
  if (method.name) FALAJ_TRY(method.name(request, message));
  return gate(method.asked(request), request);
}

}  // namespace

void answer_message(const GrpcMethod& method, const Gate& gate, Request& request,
                    std::string_view message, const GrpcReply& reply) {
  request.begun = monotonic_nanos();
  const Status admitted = admit(method, gate, request, message);
  request.gate_nanos = monotonic_nanos() - request.begun;
  if (admitted.ok()) return method.answer(request, message, reply);
  if (method.refused) return reply(method.refused(request, admitted.error()));
  reply(admitted.error());
}

}  // namespace falaj::net
