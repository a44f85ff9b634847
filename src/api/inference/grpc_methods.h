// api/inference/grpc_methods.h — inference.GRPCInferenceService and grpc.health.v1.Health.
//
// Each method is a question that a route answers over HTTP: it is declared with the permission and
// target of that route, and so has no rights of its own. The server asks the gate; nothing here
// does. A call's metadata are the request's headers ("authorization").
#pragma once

#include <vector>

#include "api/inference/inference_routes.h"
#include "net/grpc_server.h"
#include "net/router.h"

namespace falaj::api {

struct GrpcParts {
  InferenceServices services;
  const net::Router& router;  // Has the inference routes; outlives the methods.
};

// Stops the process when a route that a method stands for is not in the router.
std::vector<net::GrpcMethod> grpc_methods(const GrpcParts& parts);

}  // namespace falaj::api
