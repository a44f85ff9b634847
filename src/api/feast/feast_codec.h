// api/feast/feast_codec.h — the bytes of POST /get-online-features, as Feast's feature server reads
// and writes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "features/online.h"

namespace falaj::api {

// Exactly one of `service` and `features` is there.
struct FeastRead {
  std::string service;
  struct Reference {
    std::string view;
    std::string feature;
  };
  std::vector<Reference> features;  // "view:feature", in the order asked for.
  // Column after column, as it came: {"driver_id": [1001, 1002]}; all of one length.
  struct Column {
    std::string name;
    std::vector<features::KeyPart> values;
  };
  std::vector<Column> entities;
  std::size_t rows = 0;
  features::NameStyle names = features::NameStyle::kBare;

  static constexpr std::size_t kRowsMax = 1000;
  static constexpr std::size_t kColumnsMax = 256;
  static constexpr std::size_t kFeaturesMax = 4096;
};

// FJ-1001 malformed; FJ-1004, FJ-1005 and FJ-1006 for what is missing, of another type or too much.
// Members that it does not know are left out, as there.
Result<FeastRead> parse_feast_read(std::string_view body);

// The views of the references, each once, with its features in their order; and for each reference
// its place among the columns of a plan of them.
struct FeastViews {
  std::vector<features::ServiceView> views;
  std::vector<std::size_t> columns;
};
FeastViews views_of(const FeastRead& request);

// The entities' keys, row by row, in the order of plan.keys. Errors as features::append_keys.
Result<std::vector<features::KeyPart>> feast_keys(const FeastRead& request,
                                                  const features::OnlinePlan& plan);

// {"metadata":{"feature_names":[…]},"results":[{"values","statuses","event_timestamps"}, …]}: a
// result for each join key, then for each of `columns`, with a value for each row.
std::string write_feast_read(const FeastRead& request, const features::OnlinePlan& plan,
                             const std::vector<std::size_t>& columns,
                             const features::OnlineAnswer& answer);

}  // namespace falaj::api
