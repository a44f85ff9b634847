// Parts of a bundle with rules of their own. Each returns "" when its rule holds, and otherwise
// what does not.
#pragma once

#include <vector>

#include "json.h"

namespace falaj_verify {

// The access matrix, decided again (decisions.cc): every cell follows from the grants, groups and
// roles beside it, and whom, where and what they name has a row, a place and a column. That a name
// in a grant belongs to an id is the server's word.
std::string check_decisions(const Json& matrix);

// A model card's signature, OpenSSF Model Signing read anew (model_card.cc): the card's bundle
// bears that of `signer` (PEM, P-256) over exactly the files, the project and the zone of the card.
std::string check_model_card(const Json& card, std::string_view signer);

// The zone ledger against the log's entries about transfers (crossings.cc): nothing went to a place
// without a zone, somebody had approved each transfer, and the rows count no less than those of the
// entries up to `known` do. They may count more: a flow that lasts has its entry later.
std::string check_crossings(const Json& ledger, const std::vector<std::string_view>& entries,
                            std::uint64_t known);

}  // namespace falaj_verify
