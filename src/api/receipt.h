// api/receipt.h — receipts of predictions over every dialect: who wants one, and what is in it.
#pragma once

#include "net/http.h"
#include "security/audit/receipts.h"
#include "serving/deployments.h"

namespace falaj::api {

// "1" asks for one; in the reply it is the receipt. Over gRPC as metadata, and as a parameter.
inline constexpr std::string_view kReceiptHeader = "X-Falaj-Receipt";
inline constexpr std::string_view kReceiptParameter = "falaj_receipt";

// Null: none is wanted. FJ-7053 when one is and cannot be had now: told before the model runs.
// kInvalidArgument for another value than 1 or 0.
Result<const security::Receipts*> wanted_receipt(const net::Request& request,
                                                 const security::Receipts* receipts);

// About the version that answered: the deployment's, or the candidate of its rollout.
security::ReceiptFacts receipt_facts(const serving::LiveModel& live, std::int64_t version,
                                     const net::Request& request);

// The receipt of these two bodies. Before the answer is packed.
Status add_receipt(const security::Receipts& receipts, security::ReceiptFacts facts,
                   const net::Request& request, net::Response& response);

}  // namespace falaj::api
