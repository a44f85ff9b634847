// cli/commands.h — what each command does, once its words are parsed (cli.cc).
// Every command prints its answer itself and returns why it failed, which becomes the exit code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/connection.h"
#include "cli/terminal.h"
#include "launch/certificates.h"

namespace falaj::cli {

struct Session {
  Target target;
  OutputFormat format = OutputFormat::kTable;
};

// Objects ("-" reads standard input; a file may hold several documents).
enum class DryRun : std::uint8_t { kNo, kYes };
// {objects: […]} as the server takes them.
Result<Value> read_documents(const Session& session, const std::vector<std::string>& files);
Status apply_files(const Session& session, const std::vector<std::string>& files, DryRun dry_run);
// Prints what apply would change, line by line; returns how many objects would.
Result<std::int64_t> diff_files(const Session& session, const std::vector<std::string>& files);
// `kind` in any case; FJ-1016 with the nearest when there is none such.
// As typed: "Grant" and "risk", or "Grant/risk" and "".
struct ObjectWords {
  std::string kind;
  std::string name;
};
// Kind and name apart; FJ-1016 when one of them is missing.
Result<ObjectWords> split_object(const ObjectWords& words);
Status get_object(const Session& session, const ObjectWords& words);
Status list_objects(const Session& session, const std::string& kind);
Status delete_object(const Session& session, const ObjectWords& words);
// Every object of the project, after its Zone and the Project itself: apply accepts it anywhere.
Status export_objects(const Session& session);
Status show_kinds(const Session& session);

// Data. `file` empty: the path of the view's Source, read here and sent.
Status ingest(const Session& session, const std::string& view, const std::string& file,
              const std::string& format);
Status freeze(const Session& session, const std::string& set, const std::string& spine);
// A frozen set as an encrypted Parquet file. The key (64 hexadecimal digits) is read from
// `key_file`, which is made with a fresh one when it is missing.
struct ExportChoice {
  std::string set;
  std::string id;  // "": the newest.
  std::string out;
  std::string key_file;
};
Status export_set(const Session& session, const ExportChoice& choice);

// Training. kWait follows the run with a progress bar and fails when it fails.
enum class Wait : std::uint8_t { kNo, kWait };
// `capture` is kept when the job runs a command (jobs/capture.h).
Status train(const Session& session, const std::string& job, Wait wait, const Value& capture);
Status show_runs(const Session& session, const std::string& id);

// Simulation (simulate.cc): on this machine, without a server.
struct SimulateChoice {
  std::string trace;  // "": one is made up (jobs, tenants, days, seed).
  std::string fleet;  // YAML file; "": nodes × gpus_per_node.
  std::int64_t nodes = 60;
  std::int64_t gpus_per_node = 8;
  std::vector<std::string> policies;  // Empty: all.
  std::string policy_file;            // A SchedulingPolicy; of policy plan the new one.
  std::string current_file;           // Of policy plan with a trace, the one to compare with.
  std::string restart_cost = "60s";
  std::string checkpoint = "30m";
  std::string node_mtbf = "0";
  std::string stragglers = "0";
  std::string report;  // HTML file to write; "": none.
  bool start_times = false;
  std::int64_t jobs = 40'000;
  std::int64_t tenants = 12;
  std::int64_t days = 47;
  std::uint64_t seed = 1;
};
Status simulate_policies(const SimulateChoice& choice, OutputFormat format);
// Prints a made-up trace as CSV.
Status print_trace(const SimulateChoice& choice);
// Replays a history under the current and a new policy; FJ-0006 when a guard-rail breaks.
Status plan_policy(const SimulateChoice& choice, OutputFormat format);
// The same by the server, with its own history and the jobs that wait there (policy_plan.cc).
Status plan_live(const Session& session, const std::string& file, const std::string& report);

// A folder that a keeper persists checkpoints into (keeping.h).
struct KeepChoice {
  std::string folder;
  std::string memory_folder;  // "": below /dev/shm.
  std::string memory = "8Gi";
  int last = 2;
  int best = 1;
  bool lower_is_better = false;
  std::string wait = "60s";          // For the newest to be on disk, before and after the command.
  std::vector<std::string> command;  // Of `checkpoints keep`.
};

// Distributed training (launch.cc): on this machine, without a server.
struct LaunchChoice {
  std::vector<std::string> command;
  std::string workers = "1";  // N or MIN:MAX
  std::int64_t slots = -1;    // -1: as many as workers at most; with others, 1.
  std::int64_t servers = 0;
  std::vector<std::string> groups;  // JSON each (launch/groups.h); then not `workers`, `servers`.
  std::int64_t gpus = 0;            // Of each worker; 0: CUDA_VISIBLE_DEVICES is left alone.
  std::int64_t restarts = 0;
  std::int64_t preemptions = -1;
  std::vector<std::string> rules;
  std::string grace = "30s";
  bool keep_survivors = false;
  bool local_rank_argument = false;
  std::string host;    // "": 127.0.0.1, or with join the address towards the coordinator.
  std::string node;    // Name of this machine; "": the system's.
  std::string listen;  // ADDRESS:PORT where other machines join; "": none can.
  std::string join;    // ADDRESS:PORT of a launch that listens; "": this one coordinates.
  std::string secret;  // File with what both must know.
  launch::CertificateFiles certificates{};
  std::string silence = "1200ms";
  std::string run_id;       // "": a new one.
  std::string checkpoints;  // FALAJ_CKPT_DIR; "": none.
  KeepChoice keep;          // Its folder "": nobody keeps what workers save.
  std::string report;       // JSON file to write; "": none.
};
// Returns the exit code of the gang, 0 to 255, or that of a failure of ours.
int launch_workers(const LaunchChoice& choice);

// What the scheduler sees of a machine, from the XML of `lstopo --of xml`; or its Node object.
enum class TopologyAs : std::uint8_t { kTable, kNode };
Status show_topology(const std::string& file, TopologyAs as, OutputFormat format);

// Checkpoints (checkpoints.cc): a folder on this machine, without a server.
Status list_kept(const std::string& folder, OutputFormat format);
// Reads every byte; FJ-0010 when one is damaged.
Status verify_kept(const std::string& folder, OutputFormat format);
// Prints where the newest whole one is; `to` not empty: copies it into that new folder.
Status restore_kept(const std::string& folder, const std::string& to, OutputFormat format);
// Runs the command and persists what it saves; the exit code is the command's.
int run_with_keeper(const KeepChoice& choice);

// Serving.
Status show_models(const Session& session, const std::string& model);
// Fails when a deployment that follows the alias did not take the version, having set the alias.
Status set_alias(const Session& session, const std::string& model, const std::string& alias,
                 std::int64_t version, const std::string& reason);
// What the reply to setting an alias says of the deployments that follow it; FJ-5003 names those
// that do not serve `version`.
Status alias_taken(const Value& reply, std::int64_t version);
// {"customer_id": 42} from customer_id=42; FJ-1016 otherwise.
Result<Value> entity_of(const std::vector<std::string>& keys);
// `keys` are name=value, each name once.
Status predict(const Session& session, const std::string& deployment,
               const std::vector<std::string>& keys);

// What is going on. A name or id narrows to one.
Status show_deployments(const Session& session);
Status show_monitors(const Session& session, const std::string& name);
Status show_alarms(const Session& session);
// The alarm of a break-glass, by its id.
Status close_emergency(const Session& session, const std::string& id);
Status show_usage(const Session& session);
Status show_policies(const Session& session);
// The refused rows of one ingest, as CSV: line, reason, raw.
Status show_quarantine(const Session& session, const std::string& id);

// Audit. Empty fields match everything; an action without a dot is a prefix.
struct AuditFilter {
  std::string action;
  std::string project;
  std::int64_t limit = 50;
  std::string object = {};
  std::string actor = {};
};
Status show_audit(const Session& session, const AuditFilter& filter);
Status verify_audit(const Session& session);
Status replay_audit(const Session& session, std::int64_t sequence);
enum class Openings : std::uint8_t { kClosed, kOpened };
Status erase_audit_texts(const Session& session, std::int64_t sequence);
Status show_audit_entry(const Session& session, std::int64_t sequence, Openings openings);
// The newest signed head, or with kSign one made now; its text goes to standard output.
enum class SignNow : std::uint8_t { kNo, kYes };
Status show_audit_head(const Session& session, SignNow sign);
// The log's public key, as falaj-verify --key takes it.
enum class WhoseKey : std::uint8_t { kLog, kWitness };
Status show_audit_key(const Session& session, WhoseKey whose);
// A file for falaj-verify inclusion; with `from` >= 0 one for falaj-verify consistency.
Status show_audit_proof(const Session& session, std::int64_t sequence, std::int64_t from);
// Writes a bundle for falaj-verify into a new folder.
Status export_evidence(const Session& session, const std::string& folder);

// Keys. Without a project: the root of the zone, or without a zone the machine's own.
struct KeyChoice {
  std::string project;
  std::string zone;    // "": found by the server when there is one only.
  std::string object;  // "FeatureView/activity"; "": the project's own key.
};
Status show_keys(const Session& session, const std::string& project);
Status rotate_key(const Session& session, const KeyChoice& choice);
Status raise_key(const Session& session, const KeyChoice& choice, std::int64_t version);
// `keys` are name=value of the entity; takes the person out of every view of the project.
Status erase_subject(const Session& session, const std::string& entity,
                     const std::vector<std::string>& keys, const std::string& ground);
Status shred_key(const Session& session, const KeyChoice& choice, const std::string& ground);
// Zones: where bytes may be, what the regimes say, transfers, and what crossed.
Status show_zones(const Session& session);
Status show_regimes(const Session& session, const std::string& name);
struct FlowQuestion {
  std::string exit;
  std::string to;
  std::string from;  // "": the project's zone.
  std::string object;
};
// Exit code 4 (denied) when the flow would be refused.
Status decide_flow(const Session& session, const FlowQuestion& question);
Status show_transfers(const Session& session);
Status approve_transfer(const Session& session, const std::string& name);
// Of every project unless `project` names one.
Status show_ledger(const Session& session, const std::string& project);

// Access. `object` is "Kind" or "Kind/name" or ""; `principal` "" asks for oneself. can_i fails
// with kPermissionDenied when the answer is no.
struct AccessQuestion {
  std::string action;
  std::string object;
  std::string project;  // "": the platform.
  std::string principal;
};
Status show_grants(const Session& session);
Status show_my_rights(const Session& session);
Status can_i(const Session& session, const AccessQuestion& question);
Status why_denied(const Session& session, const std::string& request_id);

// Who asks (identity.cc). Passwords and tokens are read from the terminal without echo, or as a
// line from standard input when it is none.
struct LoginWords {
  std::string user;
  bool with_token = false;  // A token is read instead of a password.
  std::string lifetime = "30d";
};
Status login(const Session& session, const LoginWords& words);
// Revokes the kept token and forgets it.
Status logout(const Session& session);
// `link` is what `falaj serve` printed: https://…/setup#SECRET
Status set_up(const Session& session, const std::string& link, const std::string& name);
Status show_whoami(const Session& session);
Status change_own_password(const Session& session);
Status show_users(const Session& session);
// `zone`: where they are; "" leaves it undeclared.
Status add_user(const Session& session, const std::string& name, const std::string& zone);
Status add_service(const Session& session, const std::string& name, const std::string& zone);
// "" takes the declaration back.
Status set_user_zone(const Session& session, const std::string& name, const std::string& zone);
Status set_user_state(const Session& session, const std::string& name, const std::string& state);
Status set_user_password(const Session& session, const std::string& name);
Status delete_user(const Session& session, const std::string& name);
// `service` "" for the caller's own.
struct TokenWords {
  std::string service;
  std::string label;
  std::string lifetime = "90d";
  std::vector<std::string> scopes;
  std::string zone;  // Of a service's token; "": where the service is.
};
Status show_tokens(const Session& session, const std::string& user);
Status add_token(const Session& session, const TokenWords& words);
Status revoke_token(const Session& session, const std::string& id, const std::string& user);
// Groups are declared objects; these read and change their members.
Status show_groups(const Session& session);
enum class Membership : std::uint8_t { kAdd, kRemove };
Status change_group(const Session& session, const std::string& group, const std::string& member,
                    Membership change);
// Where the group's members are; makes the group if it is not there. "" takes it back.
Status set_group_zone(const Session& session, const std::string& group, const std::string& zone);

// `falaj explain FJ-1003`
Status explain_error(const Session& session, const std::string& id);

// Why a job ended badly, under its own code ("code") when it has one.
Error job_error(const std::string& run, const Value& job);
// Follows a run to its end: reports progress (0–1) and the newest metrics as they come.
Result<Value> follow_run(Connection& connection, const std::string& run, const std::string& job,
                         const std::function<void(double, const std::string&)>& on_progress);

// Certificates of processes. The key is made here and stays in `file`, with mode 0600.
Status issue_certificate(const Session& session, const std::string& service,
                         const std::string& file);
// Shows the certificate in `file` to get its successor, with a new key; does nothing before two
// thirds of its life have passed.
Status renew_certificate(const Session& session, const std::string& file);
Status show_authority(const Session& session);
Status show_processes(const Session& session);
Status revoke_process(const Session& session, const std::string& process);

}  // namespace falaj::cli
