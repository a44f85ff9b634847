// api/inference/inference_routes.h — the Open Inference Protocol in Triton's dialect, over HTTP.
//
// A model here is a deployment: "fraud", or "payments.fraud" when several projects have one. One
// version answers at a time, the live one; others are not found.
#pragma once

#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "net/router.h"
#include "security/audit/receipts.h"
#include "serving/deployments.h"

namespace falaj::api {

// References into the program's services; they outlive the router.
struct InferenceServices {
  serving::Deployments& deployments;
  const catalog::Catalog& catalog;               // Whose project has which zone.
  std::string version;                           // Of the server, for GET /v2.
  const security::Receipts* receipts = nullptr;  // Null: none are given.
};

// Every route under /v2, and /v1/models with `:predict`. Errors are {"error": "…"} with the status
// the dialect gives them.
std::vector<net::Route> inference_routes(InferenceServices services);

// An error as this dialect writes it: 404, 503, 504, 501, 500, 403 and 413 by its class, 400 for
// the rest.
net::Response inference_error(const Error& error);

}  // namespace falaj::api
