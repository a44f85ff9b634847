// A model card's signature: OpenSSF Model Signing, read anew and checked against the card.
#pragma once

#include <string>
#include <string_view>

#include "json.h"

namespace falaj_verify {

// "" when the card's bundle bears the signature of `signer` (PEM, P-256) over exactly the files,
// the project and the zone that the card names; otherwise why not.
std::string check_model_card(const Json& card, std::string_view signer);

}  // namespace falaj_verify
