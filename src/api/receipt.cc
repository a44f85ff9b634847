#include "api/receipt.h"

namespace falaj::api {

Result<const security::Receipts*> wanted_receipt(const net::Request& request,
                                                 const security::Receipts* receipts) {
  const std::string_view wanted = net::find_header(request.headers, kReceiptHeader);
  if (wanted.empty() || wanted == "0") return static_cast<const security::Receipts*>(nullptr);
  if (wanted != "1") {
    return Error(ErrorId::kInvalidArgument,
                 std::string(kReceiptHeader) + " must be 1 to ask for a receipt, or left out");
  }
  if (receipts == nullptr) {
    return Error(ErrorId::kSignerUnavailable, "this server signs no receipts");
  }
  FALAJ_TRY(receipts->ready());
  return receipts;
}

security::ReceiptFacts receipt_facts(const serving::LiveModel& live, std::int64_t version,
                                     const net::Request& request) {
  const bool candidate = version != live.version.version && live.split != nullptr;
  const serving::LiveModel& answering = candidate ? *live.split->candidate : live;
  const registry::ModelVersion& answered = answering.version;
  security::ReceiptFacts facts;
  facts.project = live.project;
  facts.deployment = live.deployment;
  facts.model = answered.model;
  facts.version = answered.version;
  facts.onnx = serving::digest_of(answering);
  facts.request_id = request.request_id;
  return facts;
}

Status add_receipt(const security::Receipts& receipts, security::ReceiptFacts facts,
                   const net::Request& request, net::Response& response) {
  facts.asked = sha256(request.body);
  facts.answered = sha256(response.body);
  response.headers.emplace_back(kReceiptHeader, FALAJ_TRY(receipts.issue(facts)));
  return {};
}

}  // namespace falaj::api
