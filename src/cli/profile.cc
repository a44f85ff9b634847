#include "cli/profile.h"

#include <cstdio>
#include <vector>

namespace falaj::cli {
namespace {

constexpr std::size_t kShape = 24;
constexpr std::size_t kTopShown = 3;
constexpr std::size_t kTopWidth = 24;  // Bytes of a frequent value, at least.

std::string percent(double part, double whole) {
  const double share = whole > 0 ? part / whole * 100 : 0;
  char text[32];
  // What is there is never shown as nothing, nor what is not everything as all.
  if (share > 0 && share < 0.1) return "<0.1%";
  if (share > 99.9 && share < 100) return ">99.9%";
  std::snprintf(text, sizeof text, "%.1f%%", share);
  return text;
}

// Somebody's text on somebody else's terminal: without control characters, and cut between
// characters.
std::string shortened(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  if (text.size() <= kTopWidth) return text;
  std::size_t end = kTopWidth;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string top_text(const Value& feature, double rows) {
  std::string out;
  std::size_t shown = 0;
  for (const Value& one : items(feature["top"])) {
    if (shown++ == kTopShown) break;
    out += (out.empty() ? "" : ", ") + shortened(cell(one["value"])) + " " +
           percent(one.number("rows"), rows);
  }
  return out;
}

std::string shape_of(const Value& feature) {
  std::vector<double> bars;
  for (const Value& share : items(feature["histogram"]["shares"])) {
    bars.push_back(share.is_number() ? share.as_double() : 0);
  }
  // One bar is one value: nothing to see.
  return bars.size() < 2 ? "" : sparkline(bars, 0, kShape);
}

std::string heading(const std::string& view, const Value& profile) {
  const Value& commits = profile["commits"];
  const bool one = commits.integer("first") == commits.integer("last");
  std::string out = view + (one ? ", commit " : ", commits " + cell(commits["first"]) + " to ") +
                    cell(commits["last"]) + " at " + profile.text("at") + ": " +
                    cell(profile["rows"]) + " rows";
  if (profile.integer("looked_at") < profile.integer("rows")) {
    out += ", quantiles and frequent values from " + cell(profile["looked_at"]) + " of them";
  }
  out += "\nevents " + cell(profile["event_time"]["min"]) + " to " +
         cell(profile["event_time"]["max"]);
  for (const Value& key : items(profile["keys"])) {
    out += ", " + key.text("name") + " about " + cell(key["distinct"]) + " different";
  }
  return out + "\n\n";
}

}  // namespace

std::string profile_text(const std::string& view, const Value& profile) {
  const double rows = profile.number("rows");
  Table table({"FEATURE", "TYPE", "MISSING", "DISTINCT", "MIN", "MEDIAN", "MAX", "SHAPE", "MOST"});
  for (const Value& feature : items(profile["features"])) {
    const bool text = feature.has("numbers_of");  // Lengths: of less interest than the texts.
    const std::string most = feature.has("sensitivity") ? "(personal)" : top_text(feature, rows);
    const Value none;
    table.add({feature.text("name"), feature.text("type"), percent(feature.number("missing"), rows),
               cell(feature["distinct"]), cell(text ? none : feature["min"]),
               cell(text ? none : feature["quantiles"]["p50"]), cell(text ? none : feature["max"]),
               text ? "" : shape_of(feature), most});
  }
  return heading(view, profile) + table.str();
}

Status features_arrivals(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/arrivals"));
  Table table({"VIEW", "AGE S", "FRESHNESS S", "ROWS", "AT LEAST", "EVERY S", "STATE"});
  const auto holds = [](const Value& problem) { return problem.is_bool() && problem.as_bool(); };
  for (const Value& each : items(reply["arrivals"])) {
    std::string state = holds(each["stale"]) ? "stale" : "";
    if (holds(each["few"])) state += state.empty() ? "too few rows" : ", too few rows";
    table.add({each.text("view"), cell(each["age_seconds"]), cell(each["freshness_seconds"]),
               cell(each["rows"]), cell(each["rows_min"]), cell(each["every_seconds"]),
               state.empty() ? "ok" : state});
  }
  print(session.format, reply, table.str());
  return {};
}

Status features_profile(const Session& session, const FeatureChoice& choice) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  std::string path = "/api/v1/feature-views/" + url_encode(choice.name) + "/profiles";
  if (choice.commit >= 0) path += "?commit=" + std::to_string(choice.commit);
  const Value reply = FALAJ_TRY(connection->get(path));
  const Value::Array& profiles = items(reply["profiles"]);
  if (profiles.empty()) {
    return Error{ErrorId::kNotFound, "no file was ingested into " + choice.name +
                                         " yet: falaj ingest " + choice.name + " brings one"};
  }
  print(session.format, profiles.front(), profile_text(choice.name, profiles.front()));
  return {};
}

}  // namespace falaj::cli
