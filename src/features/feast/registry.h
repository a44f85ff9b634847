// features/feast/registry.h — what a Feast repository declares, read from its registry file.
//
// The file is one protobuf message (feast.core.Registry). It is foreign bytes: read with the wire
// reader of onnx/wire.h, bounded, and fuzzed by feast_registry_fuzz.cc. Only what can be
// translated, and what must be named because it cannot, is kept; the code that Feast pickles into
// it is never looked at.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace falaj::features::feast {

// Numbers of Feast's ValueType that have a counterpart here.
enum ValueType : std::uint32_t {
  kUnknownType = 0,
  kString = 2,
  kInt32 = 3,
  kInt64 = 4,
  kDouble = 5,
  kFloat = 6,
  kBool = 7,
  kUnixTimestamp = 8,
};
// "INT64"; "type 99" for a number that this file has no name of.
std::string value_type_name(std::uint32_t type);

struct FeastField {
  std::string name;
  std::uint32_t type = kUnknownType;
};

// Tags, with the owner and the description under those names unless a tag has them.
using Labels = std::map<std::string, std::string>;

struct FeastEntity {
  std::string name;
  std::string project;
  std::string join_key;
  std::uint32_t type = kUnknownType;
  Labels labels;
};

enum class SourceKind : std::uint8_t { kFile, kPush, kElsewhere };

struct FeastSource {
  std::string name;
  SourceKind kind = SourceKind::kElsewhere;
  std::string technology;  // "BigQuery", "Kafka": for messages; "Delta" for a file of that format.
  std::string path;        // Of a file: as it was written, so perhaps relative or a URI.
  std::string event_time;
  std::string created_time;
  std::map<std::string, std::string> renamed;  // The file's column → what Feast calls it.
};

struct FeastView {
  std::string name;
  std::string project;
  std::vector<std::string> entities;
  std::vector<FeastField> features;
  std::vector<FeastField> keys;  // Join keys with their types.
  Duration ttl{};
  std::optional<FeastSource> batch;
  std::optional<FeastSource> stream;
  bool online = false;
  bool disabled = false;
  bool has_code = false;  // Its rows come out of Python code, or out of other views.
  Labels labels;
};

struct FeastProjection {
  std::string view;
  std::string alias;
  std::vector<std::string> features;
  std::map<std::string, std::string> keys;  // Join key → the column that brings it.
};

struct FeastService {
  std::string name;
  std::string project;
  std::vector<FeastProjection> views;
  Labels labels;
};

// Something that Falaj has no translation of, by Feast's name for it.
struct FeastOther {
  std::string kind;  // "OnDemandFeatureView"
  std::string name;
  std::string project;
};

struct FeastRegistry {
  std::vector<FeastEntity> entities;
  std::vector<FeastView> views;
  std::vector<FeastService> services;
  std::vector<FeastOther> others;
};

// Objects of all projects in it, in its order. FJ-3001 when the bytes are no such message, a name
// is no UTF-8, or there are over a million objects.
// Cost: one pass; names are copied.
Result<FeastRegistry> read_registry(std::string_view bytes);

}  // namespace falaj::features::feast
