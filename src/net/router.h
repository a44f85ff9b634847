// net/router.h — routes are declared, with what they do and what they demand.
//
// A Route cannot be made without a permission and a target: neither type has a default. The server
// builds /openapi.json and docs/reference/routes.md from the same declarations.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"

namespace falaj::net {

// What a caller needs. Its meaning is decided by security; `net` only refuses routes without one.
class Permission {
 public:
  // "objects.read", "audit.verify": lower-case words, one dot. Anything else stops the start.
  explicit Permission(std::string_view action) : action_(action) {}
  // For what anyone may ask: health, sign-in, the console's files.
  static Permission anyone() { return Permission("public.read"); }
  const std::string& action() const { return action_; }

 private:
  std::string action_;
};

// What the action is done to, and where the request says so, so that the gate can ask for exactly
// that before the handler runs. A kind is one of the product's nouns ("FeatureView", "Run").
class Target {
 public:
  enum class Scope : std::uint8_t {
    kNothing,    // Nobody's data.
    kPlatform,   // What stands above projects, or belongs to all of them.
    kEither,     // The project of ?project=; without it, the platform.
    kAcross,     // Of every project: the handler shows what the caller may see, and no more.
    kListed,     // Things of the project of ?project=: shown as far as the caller may see them.
    kProject,    // Things of the project of ?project=, or of "default".
    kObject,     // One of them, by its name.
    kHolder,     // One of them, by the id of something that it holds.
    kQualified,  // One of them, by "project.name".
    kRecord,     // One, by an id that no other project shares; its own record says whose it is.
    kBody,       // What the body names: the handler asks for each.
  };

  // For what anyone may ask: health, sign-in, the console's files.
  static Target nothing() { return {Scope::kNothing, "", ""}; }
  static Target platform(std::string_view kind, std::string_view parameter = "") {
    return {Scope::kPlatform, kind, parameter};
  }
  static Target platform_or_project(std::string_view kind) { return {Scope::kEither, kind, ""}; }
  static Target across_projects(std::string_view kind) { return {Scope::kAcross, kind, ""}; }
  static Target listed(std::string_view kind) { return {Scope::kListed, kind, ""}; }
  static Target in_project(std::string_view kind) { return {Scope::kProject, kind, ""}; }
  // `parameter` is the path's placeholder that names it.
  static Target object(std::string_view kind, std::string_view parameter) {
    return {Scope::kObject, kind, parameter};
  }
  // `parameter` names something that the object holds; the gate finds out which object that is.
  static Target holder(std::string_view kind, std::string_view parameter) {
    return {Scope::kHolder, kind, parameter};
  }
  // The kind stands in the path too: `kind_parameter` is its placeholder.
  static Target declared(std::string_view kind_parameter, std::string_view parameter) {
    Target target(Scope::kObject, "", parameter);
    target.kind_parameter_ = kind_parameter;
    return target;
  }
  static Target qualified(std::string_view kind, std::string_view parameter) {
    return {Scope::kQualified, kind, parameter};
  }
  static Target record(std::string_view kind, std::string_view parameter) {
    return {Scope::kRecord, kind, parameter};
  }
  static Target body() { return {Scope::kBody, "", ""}; }

  Scope scope() const { return scope_; }
  const std::string& kind() const { return kind_; }  // "": see kind_parameter(), or none.
  const std::string& parameter() const { return parameter_; }
  const std::string& kind_parameter() const { return kind_parameter_; }
  // For the reference: "Run {id}", "FeatureView {name} of ?project=".
  std::string text() const;

 private:
  Target(Scope scope, std::string_view kind, std::string_view parameter)
      : scope_(scope), kind_(kind), parameter_(parameter) {}

  Scope scope_;
  std::string kind_;
  std::string parameter_;
  std::string kind_parameter_;
};

// Where a handler runs. kLoop: on the event-loop thread, for calls that never block (microseconds).
// kPool: on the bounded pool; past its limit the server answers 503 by itself.
enum class RunsOn : std::uint8_t { kLoop, kPool };
enum class BodyTo : std::uint8_t { kMemory, kFile };
// What the reply is: an answer to read, or a file to keep (an export, where residency is decided).
enum class Gives : std::uint8_t { kAnswer, kFile };

// Answers once, on any thread, at once or later; a second answer is dropped, and when every copy is
// gone without one the server answers 500. The request stays valid until then.
using Reply = std::function<void(Response)>;
using Handler = std::function<void(const Request& request, Reply reply)>;
// The usual shape: returns its answer.
using SyncHandler = std::function<Response(const Request& request)>;

struct Route {
  Route(Method m, std::string_view p, Permission perm, Target on, std::string_view text,
        SyncHandler h)
      : method(m),
        path(p),
        permission(std::move(perm)),
        target(std::move(on)),
        summary(text),
        sync_handler(std::move(h)) {}

  Method method;
  // "/api/v1/deployments/{name}:predict": {x} matches one segment's text, at least one character.
  // A last segment {x...} matches the rest of the path, slashes included.
  std::string path;
  Permission permission;
  Target target;
  std::string summary;  // One sentence, for the reference.
  SyncHandler sync_handler;
  Handler handler;  // Used instead when set.
  RunsOn runs_on = RunsOn::kPool;
  BodyTo body_to = BodyTo::kMemory;
  Gives gives = Gives::kAnswer;
  std::int64_t body_bytes_max = 8 << 20;
  std::string dialect = "native";  // "native", "inference", "console", "operations": error bodies.
};

// Runs before the handler with the route's permission and target: returns the error to answer with,
// or ok and may add to the request's context headers. Set by app from security. Runs where the
// handler runs; a body that is large (over 64 KiB, chunked, to a file) is not read before the gate
// has agreed.
using Gate = std::function<Status(const Route& route, Request& request)>;

struct Match {
  const Route* route = nullptr;  // nullptr: not found.
  bool path_known = false;       // True with route == nullptr: wrong method (405).
  std::string allow;             // Then: the methods that would do, as in the Allow header.
};

class Router {
 public:
  Router();
  ~Router();
  // Stops the process when two routes overlap, a permission is malformed, or a target names a
  // placeholder that the path does not have: a programming error.
  void add(Route route);
  // Fills request.params. A literal segment wins over a placeholder, a longer suffix over a shorter
  // one, any segment over {x...}. HEAD is answered by GET's route. Thread-safe once every route is
  // added. Cost: proportional to the path's segments, not to the number of routes.
  Match match(Request& request) const;
  const std::vector<std::unique_ptr<Route>>& routes() const { return routes_; }

 private:
  struct Tree;
  std::vector<std::unique_ptr<Route>> routes_;
  std::unique_ptr<Tree> tree_;
};

}  // namespace falaj::net
