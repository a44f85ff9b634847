// cli/profile.h — `falaj features profile`: what the rows of an ingest looked like.
#pragma once

#include <string>

#include "cli/feature_commands.h"

namespace falaj::cli {

// Of the view's newest ingest, or of choice.commit, with small pictures.
Status features_profile(const Session& session, const FeatureChoice& choice);
// Which views' rows are too old or too few.
Status features_arrivals(const Session& session);
// One profile of the reply as text.
std::string profile_text(const std::string& view, const Value& profile);

}  // namespace falaj::cli
