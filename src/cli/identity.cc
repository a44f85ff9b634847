// setup, login, whoami, users, groups, tokens.
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>

#include "cli/commands.h"
#include "cli/credentials.h"

namespace falaj::cli {
namespace {

// Off while it lives, when standard input is a terminal.
class Silence {
 public:
  Silence() {
    on_ = ::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
    if (!on_) return;
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
  }
  ~Silence() {
    if (!on_) return;
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
    std::fputs("\n", stderr);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  bool on() const { return on_; }

 private:
  termios before_{};
  bool on_ = false;
};

// Never from an argument: those stand in process lists and shell histories.
Result<std::string> ask_secret(const std::string& what) {
  const Silence silence;
  if (silence.on()) std::fprintf(stderr, "%s: ", what.c_str());
  std::string line;
  if (!std::getline(std::cin, line) || line.empty()) {
    return Error{ErrorId::kUsage, what + " is missing: type it, or send it on standard input"};
  }
  if (line.back() == '\r') line.pop_back();
  return line;
}

Result<std::string> ask_new_password(const std::string& what) {
  std::string first = FALAJ_TRY(ask_secret(what));
  if (::isatty(STDIN_FILENO) != 1) return first;
  const std::string again = FALAJ_TRY(ask_secret("Once more"));
  if (again != first) return Error{ErrorId::kUsage, "the two are not the same"};
  return first;
}

std::string base64(std::string_view text) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += i + k > text.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
    }
  }
  return out;
}

std::string host_name() {
  std::array<char, 65> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

Result<Value> ask(const Session& session, net::Method method, const std::string& path,
                  const Value& body) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  return connection->call(method, path, body);
}

Result<Value> whoami(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  return connection->get("/api/v1/whoami");
}

std::string user_path(const std::string& name) { return "/api/v1/users/" + url_encode(name); }

std::string tokens_path(const std::string& user) {
  return user.empty() ? "/api/v1/tokens" : user_path(user) + "/tokens";
}

void say_hello(const Session& session, const Value& who, const std::string& rest) {
  print(session.format, who,
        "signed in to " + session.target.server + " as " + who.text("name") + " (" +
            who.text("id") + ")" + rest + "\n");
}

}  // namespace

Status login(const Session& session, const LoginWords& words) {
  Session own = session;
  std::string token;
  if (words.with_token) {
    token = FALAJ_TRY(ask_secret("Token"));
  } else {
    if (words.user.empty()) {
      return Error{ErrorId::kUsage, "say who you are: falaj login --user NAME (or --token)"};
    }
    const std::string password = FALAJ_TRY(ask_secret("Password of " + words.user));
    own.target.authorization = "Basic " + base64(words.user + ":" + password);
    Value body;
    body["label"] = "falaj login on " + host_name();
    body["lifetime"] = words.lifetime;
    const Value made = FALAJ_TRY(ask(own, net::Method::kPost, "/api/v1/tokens", body));
    token = made.text("token");
  }
  own.target.authorization = "Bearer " + token;
  const Value who = FALAJ_TRY(whoami(own));
  FALAJ_TRY(
      keep_login(credentials_path(), session.target.server, {token, session.target.authority}));
  say_hello(session, who, "; the token is kept in " + credentials_path());
  return {};
}

Status logout(const Session& session) {
  const StoredLogin kept = FALAJ_TRY(find_login(credentials_path(), session.target.server));
  if (kept.token.empty()) {
    return Error{Code::kNotFound, "no token is kept for " + session.target.server};
  }
  Session own = session;
  own.target.authorization = "Bearer " + kept.token;
  const std::string id = kept.token.substr(3, kept.token.find('_', 3) - 3);
  const Result<Value> revoked =
      ask(own, net::Method::kDelete, "/api/v1/tokens/" + url_encode(id), Value());
  FALAJ_TRY(keep_login(credentials_path(), session.target.server, {}));
  if (!revoked.ok()) {
    return revoked.error().within("the token was forgotten here but not revoked on the server");
  }
  print(session.format, *revoked, "signed out of " + session.target.server + "\n");
  return {};
}

namespace {

// As it was believed once, so that the printed command works as it stands.
std::string authority_words(const Target& target) {
  if (target.authority.empty()) return "";
  const bool plain = target.authority.find_first_of(" '\"$\\") == std::string::npos;
  return " --ca " + (plain ? target.authority : "'" + target.authority + "'");
}

}  // namespace

Status set_up(const Session& session, const std::string& link, const std::string& name) {
  const std::size_t at = link.find("/setup#");
  if (at == std::string::npos) {
    return Error{ErrorId::kUsage,
                 "'" + link + "' is no setup link: https://HOST:PORT/setup#SECRET"};
  }
  Session own = session;
  own.target.server = link.substr(0, at);
  own.target.authorization = "";
  Value body;
  body["secret"] = link.substr(at + 7);
  body["name"] = name;
  body["password"] = FALAJ_TRY(ask_new_password("Password of " + name));
  const Value made = FALAJ_TRY(ask(own, net::Method::kPost, "/api/v1/setup", body));
  print(session.format, made,
        made.text("name") + " is the first administrator; next: falaj login --server " +
            own.target.server + authority_words(own.target) + " --user " + made.text("name") +
            "\n");
  return {};
}

Status show_whoami(const Session& session) {
  const Value who = FALAJ_TRY(whoami(session));
  std::string groups;
  for (const Value& group : items(who["groups"])) groups += " " + cell(group);
  std::string text = who.text("name") + "  " + who.text("id") + "\nby " + who.text("credential") +
                     (who.has("expires") ? " until " + who.text("expires") : "") + "\n";
  if (!groups.empty()) text += "groups" + groups + "\n";
  text += "zone " + (who.text("zone").empty() ? "not declared" : who.text("zone")) + "\n";
  for (const Value& scope : items(who["scopes"])) text += "limited to " + cell(scope) + "\n";
  print(session.format, who, text);
  return {};
}

Status change_own_password(const Session& session) {
  Value body;
  body["present"] = FALAJ_TRY(ask_secret("Present password"));
  body["next"] = FALAJ_TRY(ask_new_password("New password"));
  const Value reply = FALAJ_TRY(ask(session, net::Method::kPost, "/api/v1/password", body));
  print(session.format, reply, "the password is changed; your console sessions have ended\n");
  return {};
}

Status show_users(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/users"));
  Table table({"NAME", "KIND", "ID", "FROM", "ZONE", "STATE", "LAST SIGN-IN"});
  for (const Value& user : items(reply["users"])) {
    table.add({user.text("name"), user.text("kind"), user.text("id"), user.text("source"),
               user.text("zone"), user.text("state"), user.text("seen")});
  }
  print(session.format, reply, table.empty() ? "there is nobody\n" : table.str());
  return {};
}

Status add_user(const Session& session, const std::string& name, const std::string& zone) {
  Value body;
  body["name"] = name;
  body["zone"] = zone;
  body["password"] = FALAJ_TRY(ask_new_password("Password of " + name));
  const Value made = FALAJ_TRY(ask(session, net::Method::kPost, "/api/v1/users", body));
  print(session.format, made,
        made.text("name") + "  " + made.text("id") +
            "  (may do what its grants say, and nothing without one)\n");
  return {};
}

Status add_service(const Session& session, const std::string& name, const std::string& zone) {
  Value body;
  body["name"] = name;
  body["zone"] = zone;
  const Value made = FALAJ_TRY(ask(session, net::Method::kPost, "/api/v1/services", body));
  print(session.format, made,
        made.text("name") + "  " + made.text("id") +
            "\nnext: falaj tokens add --for service:" + made.text("name") + "\n");
  return {};
}

Status set_user_state(const Session& session, const std::string& name, const std::string& state) {
  Value body;
  body["state"] = state;
  const Value user = FALAJ_TRY(ask(session, net::Method::kPatch, user_path(name), body));
  print(session.format, user, user.text("name") + " is " + user.text("state") + "\n");
  return {};
}

Status set_user_zone(const Session& session, const std::string& name, const std::string& zone) {
  Value body;
  body["zone"] = zone;
  const Value user = FALAJ_TRY(ask(session, net::Method::kPatch, user_path(name), body));
  print(session.format, user,
        user.text("name") + (zone.empty() ? " has no zone any more" : " is in " + zone) + "\n");
  return {};
}

Status set_user_password(const Session& session, const std::string& name) {
  Value body;
  body["password"] = FALAJ_TRY(ask_new_password("New password of " + name));
  const Value user = FALAJ_TRY(ask(session, net::Method::kPatch, user_path(name), body));
  print(session.format, user, "the password of " + user.text("name") + " is set\n");
  return {};
}

Status delete_user(const Session& session, const std::string& name) {
  const Value reply = FALAJ_TRY(ask(session, net::Method::kDelete, user_path(name), Value()));
  print(session.format, reply, name + " is deleted\n");
  return {};
}

Status show_tokens(const Session& session, const std::string& user) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get(tokens_path(user)));
  Table table({"ID", "LABEL", "SCOPES", "EXPIRES", "LAST USED"});
  for (const Value& token : items(reply["tokens"])) {
    std::string scopes = token.has("scopes") ? "" : "all";
    for (const Value& scope : items(token["scopes"]))
      scopes += (scopes.empty() ? "" : " ") + cell(scope);
    table.add({token.text("id"), token.text("label"), scopes, token.text("expires"),
               token.text("last_used")});
  }
  print(session.format, reply, table.empty() ? "there are no tokens\n" : table.str());
  return {};
}

Status add_token(const Session& session, const TokenWords& words) {
  Value body;
  body["label"] = words.label;
  body["lifetime"] = words.lifetime;
  for (const std::string& scope : words.scopes) body["scopes"].push(scope);
  if (!words.zone.empty()) body["zone"] = words.zone;
  const Value made = FALAJ_TRY(ask(session, net::Method::kPost, tokens_path(words.service), body));
  print(session.format, made, made.text("token") + "\n");
  std::fprintf(stderr, "Keep it now: it is not shown again. It ends %s.\n",
               made.text("expires").c_str());
  return {};
}

Status revoke_token(const Session& session, const std::string& id, const std::string& user) {
  const Value reply = FALAJ_TRY(
      ask(session, net::Method::kDelete, tokens_path(user) + "/" + url_encode(id), Value()));
  print(session.format, reply, "token " + id + " is revoked\n");
  return {};
}

Status show_groups(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/objects?kind=Group&project="));
  Table table({"GROUP", "ZONE", "MEMBERS"});
  for (const Value& object : items(reply["objects"])) {
    std::string members;
    for (const Value& member : items(object["spec"]["members"])) members += cell(member) + " ";
    table.add({object["metadata"].text("name"), object["spec"].text("zone"), members});
  }
  print(session.format, reply, table.empty() ? "there are no groups\n" : table.str());
  return {};
}

namespace {

// The group's spec, or an empty one when it is not there.
Result<Value> group_spec(Connection& connection, const std::string& group) {
  Result<Value> found = connection.get("/api/v1/objects/Group/" + url_encode(group));
  if (found.ok()) return (*found)["spec"];
  if (found.error().code != Code::kNotFound) return found.error();
  Value none = Value::object();
  none["members"] = Value::array();
  return none;
}

Result<Value> put_group(Connection& connection, const std::string& group, Value spec) {
  Value object;
  object["apiVersion"] = "falaj.dev/v1";
  object["kind"] = "Group";
  object["metadata"]["name"] = group;
  object["spec"] = std::move(spec);
  Value body;
  body["objects"].push(object);
  return connection.call(net::Method::kPut, "/api/v1/objects", body);
}

}  // namespace

Status change_group(const Session& session, const std::string& group, const std::string& member,
                    Membership change) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value spec = FALAJ_TRY(group_spec(*connection, group));
  Value members = Value::array();
  bool there = false;
  for (const Value& one : items(spec["members"])) {
    there = there || cell(one) == member;
    if (cell(one) != member) members.push(one);
  }
  if (change == Membership::kRemove && !there) {
    return Error{Code::kNotFound, member + " is not in the group " + group};
  }
  if (change == Membership::kAdd) members.push(member);
  spec["members"] = members;
  const Value reply = FALAJ_TRY(put_group(*connection, group, std::move(spec)));
  print(session.format, reply,
        member + (change == Membership::kAdd ? " is in " : " is no longer in ") + group + "\n");
  return {};
}

Status set_group_zone(const Session& session, const std::string& group, const std::string& zone) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value spec = FALAJ_TRY(group_spec(*connection, group));
  spec["zone"] = zone;
  const Value reply = FALAJ_TRY(put_group(*connection, group, std::move(spec)));
  print(
      session.format, reply,
      "members of " + group + (zone.empty() ? " have no zone from it" : " are in " + zone) + "\n");
  return {};
}

}  // namespace falaj::cli
