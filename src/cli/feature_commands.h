// cli/feature_commands.h — what the commands under `falaj features` do once their words are parsed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace falaj::cli {

struct FeatureChoice {
  std::string name;  // A FeatureService, or with `of_view` a FeatureView.
  bool of_view = false;
  std::vector<std::string> keys;  // "customer_id=42"
  bool text_keys = false;         // Ids are texts even when they look like numbers.
  std::vector<std::string> features;
  std::string max_age;
  std::string to = "both";
  std::string at;
  std::int64_t commit = -1;  // None.
};

// A declaration from a sample of a file; needs no server.
struct InferChoice {
  std::string file;
  std::string format;  // "": by the file's name.
  std::string name;    // "": the file's, without what follows the point.
  std::string entity;
  std::vector<std::string> keys;
  std::string event_time;
  std::string created_time;
};
Status features_infer(const InferChoice& choice);

// The newest values of one entity.
Status features_get(const Session& session, const FeatureChoice& choice);
// Where they come from.
Status features_explain(const Session& session, const FeatureChoice& choice);
// One row, whose columns are `keys`.
Status features_push(const Session& session, const FeatureChoice& choice);

}  // namespace falaj::cli
