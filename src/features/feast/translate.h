// features/feast/translate.h — a Feast registry as Falaj's declarations. Pure: values in, values
// out.
//
// What carries over: entities (several of one view become one composite Entity), sources, views
// with time to live, schema, tags and owner, services with projections, aliases and key maps. What
// does not is in `left_out` with the reason, and what is translated but not as it was is in
// `changed`: nothing is dropped silently.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/value.h"
#include "features/feast/registry.h"
#include "table/schema.h"

namespace falaj::features::feast {

struct TranslateOptions {
  std::string project;  // Feast's; objects of others are left out.
  std::string folder;   // That relative paths are relative to.
};

struct Remark {
  std::string what;  // "FeatureView driver_stats"
  std::string why;
};

// A view that was translated, with what reading its rows takes.
struct ViewPlan {
  std::string feast_name;
  std::string name;
  std::vector<table::Field> keys;
  std::vector<table::Field> features;
  std::vector<std::string> singles;  // Those of them that Feast declares as 32-bit floats.
  Duration ttl{};
  // A file or a folder of this machine; "" when the rows are elsewhere.
  std::string path;
  // Under the names that `renamed` makes of the file's columns.
  std::string event_time;
  std::string created_time;
  std::map<std::string, std::string> renamed;  // The file's column → ours.
};

struct Translation {
  std::vector<Value> objects;  // As `falaj apply` takes them, without a project.
  std::vector<ViewPlan> views;
  std::vector<Remark> left_out;
  std::vector<Remark> changed;
};
Translation translate(const FeastRegistry& registry, const TranslateOptions& options);

// A name of Feast as ours may be: lower case, '_' for what cannot be in it, at most 63 bytes.
std::string falaj_name(std::string_view name);

}  // namespace falaj::features::feast
