#include "security/context.h"

#include <algorithm>

namespace falaj::security {
namespace {

constexpr std::size_t kScopeBytesMax = 256;

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

bool is_action_pattern(std::string_view text) {
  if (text == "*") return true;
  if (text.ends_with(".*")) text.remove_suffix(2);
  return is_word(text) && !text.starts_with('.') && !text.ends_with('.');
}

bool action_matches(std::string_view pattern, std::string_view action) {
  if (pattern == "*") return true;
  if (pattern.ends_with(".*")) return action.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == action;
}

// A scope on a project says nothing about what stands above projects, and one on an object nothing
// about the rest of its project.
bool covers(const Scope& scope, std::string_view action, std::string_view project,
            std::string_view object) {
  return action_matches(scope.action, action) &&
         (scope.project.empty() || scope.project == project) &&
         (scope.object.empty() || scope.object == object);
}

}  // namespace

Result<Scope> parse_scope(std::string_view text) {
  const Error refused{ErrorId::kOutOfRange,
                      "'" + std::string(text.substr(0, kScopeBytesMax)) +
                          "' is no scope; write ACTION, ACTION@PROJECT or ACTION@PROJECT/KIND/NAME"
                          " where ACTION may end in '.*' or be '*'"};
  if (text.size() > kScopeBytesMax) return refused;
  const std::size_t at = text.find('@');
  Scope scope{std::string(text.substr(0, at)), "", ""};
  if (!is_action_pattern(scope.action)) return refused;
  if (at == std::string_view::npos) return scope;
  const std::string_view where = text.substr(at + 1);
  const std::size_t slash = where.find('/');
  scope.project = where.substr(0, slash);
  if (!is_word(scope.project)) return refused;
  if (slash == std::string_view::npos) return scope;
  scope.object = where.substr(slash + 1);
  const std::size_t middle = scope.object.find('/');
  if (middle == std::string::npos || !is_word(std::string_view(scope.object).substr(0, middle)) ||
      !is_word(std::string_view(scope.object).substr(middle + 1))) {
    return refused;
  }
  return scope;
}

std::string to_string(const Scope& scope) {
  std::string text = scope.action;
  if (!scope.project.empty()) text += "@" + scope.project;
  if (!scope.object.empty()) text += "/" + scope.object;
  return text;
}

bool within_scopes(const Principal& principal, std::string_view action, std::string_view project,
                   std::string_view object) {
  if (!principal.scopes) return true;
  return std::ranges::any_of(*principal.scopes, [&](const Scope& scope) {
    return covers(scope, action, project, object);
  });
}

RequestContext system_context(std::string actor, ProjectName project, Zone zone) {
  RequestContext context;
  context.principal.kind = PrincipalKind::kSystem;
  context.principal.id = std::move(actor);
  context.project = std::move(project);
  context.zone = std::move(zone);
  return context;
}

}  // namespace falaj::security
