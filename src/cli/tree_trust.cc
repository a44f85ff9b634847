// The commands about who may do what, keys, zones and proof.
#include "cli/internal/tree.h"
#include "cli/local_file.h"

namespace falaj::cli {

void Tree::add_access() {
  remote(root_, "grants", "Who may do what: the grants that you may read",
         [](const Session& s) { return show_grants(s); });
  CLI::App* can = remote(root_, "can-i", "Whether you may do something; without words, all you may",
                         [this](const Session& s) -> Status {
                           if (words_.action.empty()) return show_my_rights(s);
                           return can_i(s, {words_.action, words_.name,
                                            words_.platform ? "" : words_.project, words_.who});
                         });
  can->add_option("action", words_.action, "e.g. serving.predict");
  can->add_option("object", words_.name, "Kind or Kind/name; empty: the project as a whole");
  can->add_option("--as", words_.who, "Another principal's id: user:…; needs access.read");
  can->add_flag("--platform", words_.platform, "On the platform instead of a project");
  remote(root_, "why-denied", "Why a request was denied, by the id that its error showed",
         [this](const Session& s) { return why_denied(s, words_.name); })
      ->add_option("request", words_.name, "Id of the request")
      ->required();
}

void Tree::add_audit() {
  CLI::App* audit = root_.add_subcommand("audit", "What happened, and the proof of it");
  audit->require_subcommand(1);
  CLI::App* list =
      remote(*audit, "list", "Newest entries, of every project unless -p names one", nullptr);
  list->callback([this, list] {
    const bool one = list->count("--project") > 0;
    exit_ = signed_in([&](const Session& s) {
      return show_audit(
          s,
          {.action = words_.action, .project = one ? words_.project : "", .limit = words_.limit});
    });
  });
  list->add_option("--action", words_.action, "Only this action, or all under it: loop");
  list->add_option("--limit", words_.limit, "How many, 1 to 1000")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  CLI::App* check = remote(
      *audit, "verify", "Recompute the whole log, its tree and its signed heads",
      [this](const Session& s) -> Status {
        if (words_.data.empty()) return verify_audit(s);
        const config::Settings chosen = FALAJ_TRY(settings());
        const Value value = FALAJ_TRY(hooks_.verify_offline(chosen));
        print(s.format, value, "the log holds: " + cell(value["head"]["sequence"]) + " entries\n");
        return {};
      });
  check->add_option("--data", words_.data, "A data folder to verify without a server");
  add_settings_options(*check);
  CLI::App* search =
      remote(*audit, "search", "Entries by action, object, actor and project", nullptr);
  search->callback([this, search] {
    const bool one = search->count("--project") > 0;
    exit_ = signed_in([&](const Session& s) {
      return show_audit(s, {.action = words_.action,
                            .project = one ? words_.project : "",
                            .limit = words_.limit,
                            .object = words_.name,
                            .actor = words_.kind});
    });
  });
  search->add_option("--action", words_.action, "Only this action, or all under it: loop");
  search->add_option("--object", words_.name, "Only this object: Model/payments/fraud");
  search->add_option("--actor", words_.kind, "Only this principal: user:dev");
  search->add_option("--limit", words_.limit, "How many, 1 to 1000")->check(CLI::Range(1, 1000));
  CLI::App* show = remote(*audit, "show", "One entry in full", [this](const Session& s) {
    return show_audit_entry(s, words_.sequence, words_.log ? Openings::kOpened : Openings::kClosed);
  });
  show->add_option("sequence", words_.sequence, "Number of the entry")->required();
  show->add_flag("--openings", words_.log,
                 "With the texts behind its commitments: reasons, who read what. This is audited");
  remote(*audit, "erase",
         "Forget the texts behind an entry's commitments (names, addresses, reasons); it stays",
         [this](const Session& s) { return erase_audit_texts(s, words_.sequence); })
      ->add_option("sequence", words_.sequence, "Number of the entry")
      ->required();
  add_proofs(*audit);
  remote(*audit, "replay",
         "Recompute a decision of the loop, a rollout or the scheduler from its inputs",
         [this](const Session& s) { return replay_audit(s, words_.sequence); })
      ->add_option("sequence", words_.sequence, "Number of the entry");
}

namespace {

bool is_size(std::string_view text) {
  return !text.empty() && text.size() <= 18 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// How many entries the head has that somebody kept: a number as it is, a file by its second line.
// Gives what is wrong with it, as CLI11 asks.
std::string take_held_size(std::string& from) {
  if (is_size(from)) return "";
  const Result<std::string> head = read_text(from);
  if (!head.ok()) return head.error().message;
  const std::size_t first = head->find('\n');
  const std::size_t second = first == std::string::npos ? first : head->find('\n', first + 1);
  const std::string size =
      second == std::string::npos ? "" : head->substr(first + 1, second - first - 1);
  if (!is_size(size)) {
    return "'" + from +
           "' holds no head: its second line would be the number of entries ('falaj audit head > "
           "FILE' keeps one)";
  }
  from = size;
  return "";
}

}  // namespace

// What falaj-verify needs, and what a witness does.
void Tree::add_proofs(CLI::App& audit) {
  remote(audit, "head", "The newest signed head: keep it, and falaj-verify finds a rewritten log",
         [this](const Session& s) {
           return show_audit_head(s, words_.log ? SignNow::kYes : SignNow::kNo);
         })
      ->add_flag("--sign", words_.log, "Have one signed now");
  remote(audit, "key", "The log's public key, for falaj-verify --key",
         [this](const Session& s) {
           return show_audit_key(s, words_.log ? WhoseKey::kWitness : WhoseKey::kLog);
         })
      ->add_flag("--witness", words_.log,
                 "The key with which this server cosigns other logs, for falaj-verify --witness");
  CLI::App* proof = remote(
      audit, "proof", "Proof for falaj-verify: of one entry, or of growth --from a size",
      [this](const Session& s) { return show_audit_proof(s, words_.sequence, words_.held); });
  proof->add_option("sequence", words_.sequence, "Number of the entry");
  proof->add_option("--from", words_.held, "The head that you hold: its file, or its second line")
      ->transform(CLI::Validator(take_held_size, ""));
  CLI::App* cosign = remote(
      audit, "cosign", "As a witness: cosign the heads that a Falaj dropped in a folder",
      [this](const Session& s) -> Status {
        const Value value = FALAJ_TRY(hooks_.cosign_drops(words_.file, words_.data));
        print(s.format, value,
              "cosigned " + cell(value["cosigned"]) + " heads with " + value.text("key") + "\n");
        return {};
      });
  cosign->add_option("--drop", words_.file, "Folder that audit.witness=file://… names")->required();
  cosign->add_option("--state", words_.data, "Folder for this witness's key and memory")
      ->required();
}

void Tree::add_evidence() {
  CLI::App* evidence = root_.add_subcommand("evidence", "Proof for readers outside");
  evidence->require_subcommand(1);
  remote(*evidence, "export", "Write a signed bundle that falaj-verify checks without a server",
         [this](const Session& s) { return export_evidence(s, words_.file); })
      ->add_option("--out", words_.file, "A new folder")
      ->required();
}

void Tree::add_certificates() {
  CLI::App* certificates =
      root_.add_subcommand("certificates", "Certificates of the deployment's processes");
  certificates->require_subcommand(1);
  CLI::App* issue =
      remote(*certificates, "issue", "Make a key here and have it certified for at most an hour",
             [this](const Session& s) { return issue_certificate(s, words_.name, words_.file); });
  issue->add_option("service", words_.name, "Name of the process, e.g. witness")->required();
  issue->add_option("--out", words_.file, "PEM file for the key and its certificate")->required();
  remote(*certificates, "renew",
         "Replace a certificate by means of itself, once two thirds of its life have passed",
         [this](const Session& s) { return renew_certificate(s, words_.file); })
      ->add_option("file", words_.file, "What falaj certificates issue has written")
      ->required();
  remote(*certificates, "list", "Processes that were given certificates, and those revoked",
         [](const Session& s) { return show_processes(s); });
  remote(*certificates, "revoke", "Refuse a process from now on, whatever it shows",
         [this](const Session& s) { return revoke_process(s, words_.name); })
      ->add_option("service", words_.name, "Name of the process, or its SPIFFE id")
      ->required();
  remote(*certificates, "authority", "Print the server's certificate authority (PEM)",
         [](const Session& s) { return show_authority(s); });
}

void Tree::add_keys() {
  CLI::App* keys = root_.add_subcommand("keys", "The keys that seal data: look, rotate, destroy");
  keys->require_subcommand(1);
  // Every project unless -p names one: the default project would hide the roots.
  const auto choice = [this](const CLI::App* command) -> KeyChoice {
    return {command->count("--project") > 0 ? words_.project : "", words_.zone, words_.name};
  };
  for (const char* name : {"list", "inventory"}) {
    CLI::App* list = remote(*keys, name,
                            "Every key with its versions and counts; with -p, of one "
                            "project",
                            nullptr);
    list->callback([=, this] {
      exit_ = signed_in([&](const Session& s) { return show_keys(s, choice(list).project); });
    });
  }
  CLI::App* turn = remote(*keys, "rotate",
                          "A new version of a key: of -p's object, of -p itself, of a zone's root, "
                          "or of the machine; no data is rewritten",
                          nullptr);
  turn->callback([=, this] {
    exit_ = signed_in([&](const Session& s) { return rotate_key(s, choice(turn)); });
  });
  turn->add_option("object", words_.name, "e.g. FeatureView/activity");
  turn->add_option("--zone", words_.zone, "Zone of the key, when there are several");
  CLI::App* raise =
      remote(*keys, "raise", "Destroy the versions of a key before --min-version", nullptr);
  raise->callback([=, this] {
    exit_ =
        signed_in([&](const Session& s) { return raise_key(s, choice(raise), words_.version); });
  });
  raise->add_option("object", words_.name, "e.g. FeatureView/activity");
  raise->add_option("--zone", words_.zone, "Zone of the key, when there are several");
  raise->add_option("--min-version", words_.version, "The oldest that is kept")->required();
  CLI::App* shred =
      remote(*keys, "shred", "Destroy the keys of an object: its data can never be read again",
             [this](const Session& s) {
               return shred_key(s, {words_.project, words_.zone, words_.name}, words_.ground);
             });
  shred->add_option("object", words_.name, "e.g. TrainingSet/fraud_2026")->required();
  shred->add_option("--zone", words_.zone, "Zone of the key, when there are several");
  shred
      ->add_option("--ground", words_.ground,
                   "erasure-request, retention-ended, contract-ended or other")
      ->required();
}

void Tree::add_sign_in() {
  CLI::App* setup =
      remote(root_, "setup", "Make the first administrator, by the link that 'falaj serve' printed",
             [this](const Session& s) {
               // An address that is named wins: the link's is the server's own view of itself.
               const std::size_t at = words_.file.find("/setup#");
               const bool named = root_.get_subcommand("setup")->count("--server") > 0;
               const bool moved = named && at != std::string::npos;
               return set_up(s, moved ? s.target.server + words_.file.substr(at) : words_.file,
                             words_.name);
             });
  setup->add_option("link", words_.file, "https://…/setup#SECRET")->required();
  setup->add_option("--user", words_.name, "Name of the administrator")->required();
  CLI::App* in = remote(root_, "login", "Sign in, and keep a token for later commands",
                        [this](const Session& s) { return login(s, words_.login); });
  in->add_option("--user", words_.login.user, "Your name; the password is asked for");
  in->add_flag("--token", words_.login.with_token, "A token is asked for instead");
  in->add_option("--lifetime", words_.login.lifetime, "Of the token that is kept")
      ->capture_default_str();
  remote(root_, "logout", "Revoke the kept token and forget it", logout);
  remote(root_, "whoami", "Who the server takes you for", show_whoami);
  remote(root_, "password", "Change your own password", change_own_password);
}

void Tree::add_users() {
  CLI::App* users = root_.add_subcommand("users", "Who can sign in: people and services");
  users->require_subcommand(1);
  remote(*users, "list", "Everyone", show_users);
  const auto named = [&](const std::string& word, const std::string& help, Act act) {
    CLI::App* command = remote(*users, word, help, std::move(act));
    command->add_option("name", words_.name, "Name or id; service:NAME for a service")->required();
    return command;
  };
  named("add", "Make a local user; the password is asked for", [this](const Session& s) {
    return add_user(s, words_.name, words_.zone);
  })->add_option("--zone", words_.zone, "Where they are");
  named("add-service", "Make a service, which signs in by token only", [this](const Session& s) {
    return add_service(s, words_.name, words_.zone);
  })->add_option("--zone", words_.zone, "Where it runs");
  named("zone", "Say where a user or service is: data of other zones is not given to them",
        [this](const Session& s) { return set_user_zone(s, words_.name, words_.zone); })
      ->add_option("zone", words_.zone, "A declared zone; left out: nobody says any more");
  named("disable", "Refuse the user's every credential, at once",
        [this](const Session& s) { return set_user_state(s, words_.name, "disabled"); });
  named("enable", "Let the user in again",
        [this](const Session& s) { return set_user_state(s, words_.name, "active"); });
  named("password", "Set another's password; it is asked for",
        [this](const Session& s) { return set_user_password(s, words_.name); });
  named("delete", "Delete a user or service with its tokens",
        [this](const Session& s) { return delete_user(s, words_.name); });
  CLI::App* groups = root_.add_subcommand("groups", "Groups of users that grants can name");
  groups->require_subcommand(1);
  remote(*groups, "list", "Groups and their members", show_groups);
  const auto member = [&](const std::string& word, const std::string& help, Membership change) {
    CLI::App* command = remote(*groups, word, help, [this, change](const Session& s) {
      return change_group(s, words_.name, words_.file, change);
    });
    command->add_option("group", words_.name, "Group")->required();
    command->add_option("member", words_.file, "user:NAME, service:NAME or group:NAME")->required();
  };
  member("add", "Add a member; makes the group if it is not there", Membership::kAdd);
  member("remove", "Take a member out", Membership::kRemove);
  CLI::App* place =
      remote(*groups, "zone", "Say where a group's members are (also one that the provider names)",
             [this](const Session& s) { return set_group_zone(s, words_.name, words_.zone); });
  place->add_option("group", words_.name, "Group; made if it is not there")->required();
  place->add_option("zone", words_.zone, "A declared zone; left out: nobody says any more");
}

void Tree::add_tokens() {
  CLI::App* tokens = root_.add_subcommand("tokens", "Tokens for programs: yours, or a service's");
  tokens->require_subcommand(1);
  const auto whose = [this](CLI::App* command) {
    command->add_option("--for", words_.tokens.service, "A service (service:NAME); default: you");
  };
  whose(remote(*tokens, "list", "Tokens, without their secrets",
               [this](const Session& s) { return show_tokens(s, words_.tokens.service); }));
  CLI::App* add = remote(*tokens, "add", "Make a token; its text is shown once",
                         [this](const Session& s) { return add_token(s, words_.tokens); });
  whose(add);
  add->add_option("--label", words_.tokens.label, "What it is for");
  add->add_option("--lifetime", words_.tokens.lifetime, "1m to 366d")->capture_default_str();
  add->add_option("--scope", words_.tokens.scopes,
                  "Limit it: ACTION[@PROJECT[/KIND/NAME]]; may be repeated");
  add->add_option("--zone", words_.tokens.zone,
                  "Where it is used, when not where the service is (with --for)");
  CLI::App* revoke = remote(*tokens, "revoke", "End a token at once", [this](const Session& s) {
    return revoke_token(s, words_.name, words_.tokens.service);
  });
  whose(revoke);
  revoke->add_option("id", words_.name, "The part after fj_, as the list shows it")->required();
}

// Under two names: `falaj erase` and `falaj features erase`.
void Tree::add_erase(CLI::App& above) {
  CLI::App* erase = remote(above, "erase",
                           "Take one person out of every feature view, and shred the training sets "
                           "that hold them",
                           [this](const Session& s) {
                             return erase_subject(s, words_.name, words_.keys, words_.ground);
                           });
  erase->add_option("entity", words_.name, "Entity, e.g. customer")->required();
  erase->add_option("keys", words_.keys, "Its keys: customer_id=42")->required();
  words_.ground = "erasure-request";
  erase->add_option("--ground", words_.ground, "As for keys shred")->capture_default_str();
}

void Tree::add_zones() {
  CLI::App* zones = remote(root_, "zones", "List zones with their regime and projects", nullptr);
  zones->require_subcommand(0, 1);
  zones->callback([this, zones] {
    if (zones->get_subcommands().empty()) exit_ = signed_in(show_zones);
  });
  remote(*zones, "regimes", "List the legal regimes (not legal advice), or print one",
         [this](const Session& s) { return show_regimes(s, words_.name); })
      ->add_option("regime", words_.name, "Regime; all when left out");
  CLI::App* ask = remote(
      *zones, "decide", "Say whether data may go there; exit 4 when it may not",
      [this](const Session& s) {
        return decide_flow(
            s,
            {.exit = words_.name, .to = words_.to, .from = words_.from, .object = words_.object});
      });
  ask->add_option("exit", words_.name,
                  "write, serve, schedule, replicate, export, backup, webhook, metric, log or dump")
      ->required();
  ask->add_option("--to", words_.to, "Zone of the destination")->required();
  ask->add_option("--from", words_.from, "Zone of the data (default: the project's)");
  ask->add_option("--object", words_.object, "Kind/name");
  CLI::App* transfers =
      remote(root_, "transfers", "List a project's transfers across zones", nullptr);
  transfers->require_subcommand(0, 1);
  transfers->callback([this, transfers] {
    if (transfers->get_subcommands().empty()) exit_ = signed_in(show_transfers);
  });
  remote(*transfers, "approve", "Approve a Transfer as it is declared now",
         [this](const Session& s) { return approve_transfer(s, words_.name); })
      ->add_option("transfer", words_.name, "Transfer")
      ->required();
  CLI::App* ledger = remote(
      root_, "ledger", "Bytes that passed each exit, by zones; all projects unless -p", nullptr);
  ledger->callback([this, ledger] {
    const bool one = ledger->count("--project") > 0;
    exit_ = signed_in([&](const Session& s) { return show_ledger(s, one ? words_.project : ""); });
  });
}

}  // namespace falaj::cli
