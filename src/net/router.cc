#include "net/router.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/check.h"
#include "net/internal/demand.h"
#include "net/text.h"

namespace falaj::net {
namespace {

constexpr std::size_t kPlaceholdersMax = 8;

// Values in the order of the route's placeholders; the names differ from route to route.
struct Captures {
  std::array<std::string_view, kPlaceholdersMax> values;
  std::size_t count = 0;
};

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_alpha(c) || is_digit(c) || c == '_';
  });
}

// "objects.read": lower-case words on both sides of one dot.
bool is_permission(std::string_view action) {
  const std::size_t dot = action.find('.');
  if (dot == 0 || dot == std::string_view::npos || dot + 1 == action.size()) return false;
  return std::all_of(action.begin(), action.end(), [&](const char& c) {
    return (c >= 'a' && c <= 'z') || c == '_' || c == '-' || &c == action.data() + dot;
  });
}

// What anyone may ask has no target, and only that.
bool is_public(const Route& route) { return route.permission.action().starts_with("public."); }

struct Leaf {
  std::array<const Route*, kMethodCount> routes{};
  std::array<std::vector<std::string>, kMethodCount> names;  // Of the placeholders.

  const Route* find(Method method, std::size_t& slot) const {
    slot = static_cast<std::size_t>(method);
    if (routes[slot] == nullptr && method == Method::kHead) {
      slot = static_cast<std::size_t>(Method::kGet);
    }
    return routes[slot];
  }
};

}  // namespace

struct Router::Tree {
  struct Node {
    std::map<std::string, std::unique_ptr<Node>, std::less<>> literals;
    // A placeholder and the literal text after it, longest first.
    std::vector<std::pair<std::string, std::unique_ptr<Node>>> suffixes;
    std::unique_ptr<Leaf> leaf;  // A path ends here.
    std::unique_ptr<Leaf> rest;  // {x...} begins here.
  };

  struct Search {
    Method method;
    Captures captures;
    unsigned allowed = 0;  // Bit per method that some matching path has.
    const Leaf* leaf = nullptr;
    std::size_t slot = 0;
  };

  Node root;

  static bool accept(const Leaf* leaf, Search& search) {
    if (leaf == nullptr) return false;
    for (std::size_t i = 0; i < kMethodCount; ++i) {
      if (leaf->routes[i] != nullptr) search.allowed |= 1u << i;
    }
    if (leaf->find(search.method, search.slot) == nullptr) return false;
    search.leaf = leaf;
    return true;
  }

  // `path` is what follows the slash before the segment to match.
  static bool find(const Node& node, std::string_view path, Search& search) {
    const std::size_t slash = path.find('/');
    const std::string_view segment = path.substr(0, slash);
    const auto descend = [&](const Node& next) {
      if (slash == std::string_view::npos) return accept(next.leaf.get(), search);
      return find(next, path.substr(slash + 1), search);
    };
    const auto literal = node.literals.find(segment);
    if (literal != node.literals.end() && descend(*literal->second)) return true;
    for (const auto& [suffix, next] : node.suffixes) {
      if (segment.size() <= suffix.size() || !segment.ends_with(suffix)) continue;
      search.captures.values[search.captures.count++] =
          segment.substr(0, segment.size() - suffix.size());
      if (descend(*next)) return true;
      --search.captures.count;
    }
    if (path.empty() || node.rest == nullptr) return false;
    search.captures.values[search.captures.count++] = path;
    if (accept(node.rest.get(), search)) return true;
    --search.captures.count;
    return false;
  }

  static Node& literal_child(Node& node, std::string_view segment) {
    FALAJ_CHECK(segment.find_first_of("{}?#%") == std::string_view::npos);
    auto& child = node.literals[std::string(segment)];
    if (child == nullptr) child = std::make_unique<Node>();
    return *child;
  }

  static Node& suffix_child(Node& node, std::string_view suffix) {
    FALAJ_CHECK(suffix.find_first_of("{}?#%") == std::string_view::npos);
    for (auto& [known, child] : node.suffixes) {
      if (known == suffix) return *child;
    }
    const auto at = std::find_if(node.suffixes.begin(), node.suffixes.end(),
                                 [&](const auto& e) { return e.first.size() < suffix.size(); });
    return *node.suffixes.emplace(at, suffix, std::make_unique<Node>())->second;
  }

  // The leaf of a declared path, made as needed; collects the placeholders' names.
  Leaf& leaf_of(std::string_view path, std::vector<std::string>& names) {
    FALAJ_CHECK(path.starts_with('/'));
    Node* node = &root;
    while (!path.empty()) {
      path.remove_prefix(1);
      const std::size_t slash = std::min(path.find('/'), path.size());
      const std::string_view segment = path.substr(0, slash);
      path.remove_prefix(slash);
      if (!segment.starts_with('{')) {
        node = &literal_child(*node, segment);
        continue;
      }
      const std::size_t end = segment.find('}');
      FALAJ_CHECK(end != std::string_view::npos && names.size() < kPlaceholdersMax);
      std::string_view name = segment.substr(1, end - 1);
      const bool takes_rest = name.ends_with("...");
      if (takes_rest) name.remove_suffix(3);
      FALAJ_CHECK(is_name(name) && std::find(names.begin(), names.end(), name) == names.end());
      names.emplace_back(name);
      if (takes_rest) {
        FALAJ_CHECK(path.empty() && end + 1 == segment.size());
        if (node->rest == nullptr) node->rest = std::make_unique<Leaf>();
        return *node->rest;
      }
      node = &suffix_child(*node, segment.substr(end + 1));
    }
    if (node->leaf == nullptr) node->leaf = std::make_unique<Leaf>();
    return *node->leaf;
  }
};

namespace {

std::string allow_header(unsigned allowed) {
  if ((allowed & 1u << static_cast<unsigned>(Method::kGet)) != 0) {
    allowed |= 1u << static_cast<unsigned>(Method::kHead);
  }
  std::string text;
  for (std::size_t i = 0; i < kMethodCount; ++i) {
    if ((allowed & 1u << i) == 0) continue;
    text += text.empty() ? "" : ", ";
    text += method_name(static_cast<Method>(i));
  }
  return text;
}

}  // namespace

std::string Target::text() const {
  const std::string kind = kind_.empty() ? "{" + kind_parameter_ + "}" : kind_;
  const std::string name = parameter_.empty() ? "" : " {" + parameter_ + "}";
  switch (scope_) {
    case Scope::kNothing:
      return "nothing";
    case Scope::kPlatform:
      return kind + name + " of the platform";
    case Scope::kEither:
      return kind + " of ?project=, or of the platform";
    case Scope::kAcross:
      return kind + " of every project, as visible";
    case Scope::kListed:
      return kind + " of ?project=, as visible";
    case Scope::kProject:
      return kind + " of ?project=";
    case Scope::kObject:
      return kind + name + " of ?project=";
    case Scope::kHolder:
      return kind + " that holds" + name + ", of ?project=";
    case Scope::kQualified:
      return kind + name + " as project.name";
    case Scope::kRecord:
      return kind + name;
    case Scope::kBody:
      return "each object of the body";
  }
  return "nothing";
}

Router::Router() : tree_(std::make_unique<Tree>()) {}
Router::~Router() = default;

void check_demand(const Route& declared) {
  FALAJ_CHECK(is_permission(declared.permission.action()));
  FALAJ_CHECK(is_public(declared) == (declared.target.scope() == Target::Scope::kNothing));
}

void Router::add(Route route) {
  check_demand(route);
  FALAJ_CHECK(route.handler != nullptr || route.sync_handler != nullptr);
  FALAJ_CHECK(route.body_bytes_max >= 0);
  std::vector<std::string> names;
  Leaf& leaf = tree_->leaf_of(route.path, names);
  const auto slot = static_cast<std::size_t>(route.method);
  for (const std::string* named : {&route.target.parameter(), &route.target.kind_parameter()}) {
    FALAJ_CHECK(named->empty() || std::find(names.begin(), names.end(), *named) != names.end());
  }
  FALAJ_CHECK(leaf.routes[slot] == nullptr);  // Two routes with one method and one path.
  routes_.push_back(std::make_unique<Route>(std::move(route)));
  leaf.routes[slot] = routes_.back().get();
  leaf.names[slot] = std::move(names);
}

Match Router::match(Request& request) const {
  Match match;
  if (!request.path.starts_with('/')) return match;
  Tree::Search search{.method = request.method, .captures = {}};
  if (Tree::find(tree_->root, std::string_view(request.path).substr(1), search)) {
    match.route = search.leaf->routes[search.slot];
    match.path_known = true;
    const std::vector<std::string>& names = search.leaf->names[search.slot];
    for (std::size_t i = 0; i < names.size(); ++i) {
      request.params.insert_or_assign(names[i], std::string(search.captures.values[i]));
    }
  } else if (search.allowed != 0) {
    match.path_known = true;
    match.allow = allow_header(search.allowed);
  }
  return match;
}

}  // namespace falaj::net
