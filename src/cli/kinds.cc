#include "cli/kinds.h"

#include <strings.h>

#include <algorithm>

#include "base/decode.h"

namespace falaj::cli {

Result<Kind> find_kind(Connection& connection, const std::string& word) {
  const Value reply = FALAJ_TRY(connection.get("/api/v1/kinds"));
  std::vector<std::string> names;
  for (const Value& row : items(reply["kinds"])) {
    names.push_back(row.text("kind"));
    if (strcasecmp(word.c_str(), names.back().c_str()) != 0) continue;
    const bool platform = row.text("scope") == "platform";
    return Kind{names.back(), platform ? KindScope::kPlatform : KindScope::kProject};
  }
  const std::string nearest = nearest_name(word, names);
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return Error{ErrorId::kUsage,
               "there is no kind '" + word + "': " +
                   (nearest.empty() ? "the kinds are " + list : "did you mean " + nearest + "?")};
}

Status check_project(Connection& connection) {
  const Value reply = FALAJ_TRY(connection.get("/api/v1/projects"));
  const std::string& wanted = connection.target().project;
  std::vector<std::string> names;
  for (const Value& project : items(reply["projects"])) names.push_back(project.text("name"));
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return {};
  const std::string nearest = nearest_name(wanted, names);
  return Error{ErrorId::kObjectNotFound,
               "there is no project '" + wanted + "'" +
                   (nearest.empty() ? ": falaj list Project shows those there are"
                                    : ": did you mean '" + nearest + "'?")};
}

}  // namespace falaj::cli
