#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/credentials.h"
#include "cli/demo/crowded.h"
#include "cli/demo/demo.h"
#include "cli/internal/tree.h"
#include "cli/local_file.h"
#include "cli/reference.h"
#include "cli/rollouts.h"

namespace falaj::cli {

Tree::Tree(const Hooks& hooks)
    : hooks_(hooks),
      root_(
          "Falaj runs machine learning inside an enterprise: from raw data to a prediction to a "
          "retrained model, in one program.\n\n"
          "  falaj dev      start a server on this machine\n"
          "  falaj demo     watch the whole walk on generated data\n",
          "falaj") {
  root_.require_subcommand(0, 1);
  root_.set_version_flag("--version", "falaj " + hooks_.version + " (" + hooks_.build + ")",
                         "Print the version and end");
  root_.get_formatter()->column_width(28);
  root_.failure_message(CLI::FailureMessage::simple);
  add_servers();
  add_demo();
  add_objects();
  add_data();
  add_features();
  add_models();
  add_rollouts();
  add_watch();
  add_jobs();
  add_access();
  add_audit();
  add_evidence();
  add_certificates();
  add_keys();
  add_sign_in();
  add_users();
  add_tokens();
  add_erase(root_);
  add_zones();
  add_simulate();
  add_policy_plan();
  add_launch();
  add_topology();
  add_checkpoints();
  add_bench();
  add_config();
  add_rest();
}

namespace {

// Whether a command that runs another program was called without the -- that divides their words.
bool lacks_dashes(const CLI::App& root, int argc, char** argv) {
  const CLI::App* last = &root;
  while (!last->get_subcommands().empty()) last = last->get_subcommands().back();
  return last->get_option_no_throw("command") != nullptr &&
         std::none_of(argv, argv + argc,
                      [](const char* word) { return std::string(word) == "--"; });
}

}  // namespace

int Tree::run(int argc, char** argv) {
  try {
    root_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return root_.exit(error);
    root_.exit(error);
    if (lacks_dashes(root_, argc, argv)) {
      std::fputs("Put -- before the program, so that what follows is its own: -- ls -l\n", stderr);
    }
    std::fputs("Run 'falaj --help' for the commands.\n", stderr);
    return static_cast<int>(ExitCode::kUsage);
  }
  if (root_.get_subcommands().empty()) std::fputs(root_.help().c_str(), stdout);
  return exit_;
}

Session Tree::session() const {
  Session session;
  session.target = {words_.server,      words_.project, words_.authority,
                    words_.certificate, words_.reason,  ""};
  if (words_.output == "json") session.format = OutputFormat::kJson;
  if (words_.output == "yaml") session.format = OutputFormat::kYaml;
  return session;
}

Result<Session> Tree::signed_session() const {
  Session own = session();
  StoredLogin kept;
  if (words_.token.empty()) kept = FALAJ_TRY(find_login(credentials_path(), words_.server));
  const std::string& token = words_.token.empty() ? kept.token : words_.token;
  if (!token.empty()) own.target.authorization = "Bearer " + token;
  if (own.target.authority.empty()) own.target.authority = kept.authority;
  return own;
}

int Tree::signed_in(const Act& act) const {
  const Result<Session> own = signed_session();
  return own.ok() ? done(act(*own)) : fail(own.error());
}

Result<config::Sources> Tree::sources() const {
  config::Sources sources;
  sources.environment = config::process_environment();
  if (!words_.config_file.empty()) {
    sources.file_name = words_.config_file;
    sources.file_text = FALAJ_TRY(read_text(words_.config_file));
  }
  for (const std::string& pair : words_.settings) {
    const std::size_t at = pair.find('=');
    if (at == std::string::npos) {
      return Error{ErrorId::kUsage, "--set '" + pair + "' is not KEY=VALUE"};
    }
    sources.flags.emplace_back(pair.substr(0, at), pair.substr(at + 1));
  }
  if (!words_.data.empty()) sources.flags.emplace_back("data.dir", words_.data);
  if (!words_.port.empty()) sources.flags.emplace_back("server.port", words_.port);
  if (!words_.grpc_port.empty()) sources.flags.emplace_back("server.grpc_port", words_.grpc_port);
  return sources;
}

Result<config::Settings> Tree::settings() const {
  return config::Settings::load(FALAJ_TRY(sources()));
}

// What is wrong with the flags alone is wrong usage, with its exit code.
int Tree::fail_settings(const Error& error) const {
  const int code = fail(error);
  const Result<config::Sources> given = sources();
  const bool wrong = given.ok() && !config::Settings::load({.flags = given->flags}).ok();
  return wrong ? static_cast<int>(ExitCode::kUsage) : code;
}

void Tree::add_output(CLI::App& command) {
  command.add_option("-o,--output", words_.output, "table, json or yaml")
      ->check(CLI::IsMember({"table", "json", "yaml"}));
}

void Tree::add_authority(CLI::App& command) {
  command.add_option("--ca", words_.authority,
                     "Whom to believe behind https: a PEM file, or sha256:FINGERPRINT as falaj "
                     "serve prints it (env FALAJ_CA; default: the system's authorities)");
  command.add_option("--certificate", words_.certificate,
                     "PEM file with the certificate and key to show, made by falaj certificates "
                     "issue (env FALAJ_CERTIFICATE)");
}

CLI::App* Tree::remote(CLI::App& parent, const std::string& name, const std::string& help,
                       Act act) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->add_option("--server", words_.server, "Address of the server (env FALAJ_SERVER)")
      ->default_str(kDefaultServer);
  add_authority(*command);
  command->add_option("-p,--project", words_.project, "Project (env FALAJ_PROJECT)")
      ->default_str(kDefaultProject);
  add_output(*command);
  command->add_option("--reason", words_.reason,
                      "Why: recorded, and needed to use a break-glass grant (env FALAJ_REASON)");
  command->callback([this, act = std::move(act)] { exit_ = signed_in(act); });
  return command;
}

CLI::App* Tree::local(CLI::App& parent, const std::string& name, const std::string& help,
                      std::function<int()> act) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->callback([this, act = std::move(act)] { exit_ = act(); });
  return command;
}

void Tree::add_server_options(CLI::App& command) {
  command.add_option("--data", words_.data, "Folder for everything Falaj keeps (./falaj-data)");
  command.add_option("--port", words_.port, "HTTP port (7070; 0 takes a free one)");
  command.add_option("--grpc-port", words_.grpc_port,
                     "Port of the inference protocol over gRPC; 0 lets the system choose (7071)");
  command.add_flag("--check", words_.check,
                   "Say whether it would start with these settings, and end; a running server asks "
                   "this before SIGUSR2 replaces it");
  add_settings_options(command);
}

void Tree::add_settings_options(CLI::App& command) {
  command.add_option("--config", words_.config_file, "YAML file with settings (env FALAJ_CONFIG)");
  command.add_option("--set", words_.settings, "A setting as KEY=VALUE; may be repeated");
}

void Tree::add_servers() {
  const auto serve = [this](ServerMode mode) {
    const Result<config::Settings> loaded = settings();
    if (!loaded.ok()) return fail_settings(loaded.error());
    return words_.check ? hooks_.check_start(mode, *loaded) : hooks_.serve(mode, *loaded);
  };
  add_server_options(*local(root_, "dev", "Start a server for this machine: loopback, no set-up",
                            [serve] { return serve(ServerMode::kDev); }));
  add_server_options(*local(root_, "serve",
                            "Start a production server; refuses to listen beyond loopback without "
                            "TLS and an administrator",
                            [serve] { return serve(ServerMode::kProduction); }));
  CLI::App* engine = root_.add_subcommand("engine", "")->group("");  // Started by the server only.
  local(*engine, "train", "", [this] { return hooks_.train_engine(); });
  local(*engine, "inspect", "", [this] { return hooks_.inspect_engine(); });
  local(*engine, "model", "", [this] { return hooks_.model_engine(words_.name); })
      ->add_option("lanes", words_.name)
      ->required();
  local(*engine, "sign", "", [this] { return hooks_.sign_engine(words_.name); })
      ->add_option("folder", words_.name)
      ->required();
  local(*engine, "warden", "", [this] { return hooks_.warden_engine(words_.name); })
      ->add_option("folder", words_.name)
      ->required();
  local(*engine, "image", "", [this] { return hooks_.image_engine(words_.name); })
      ->add_option("folder", words_.name)
      ->required();
  CLI::App* unpack = local(*engine, "unpack", "", [this] {
    return hooks_.unpack_engine(words_.from, words_.object, words_.name);
  });
  unpack->add_option("layout", words_.from)->required();
  unpack->add_option("digest", words_.object)->required();
  unpack->add_option("folder", words_.name)->required();
}

void Tree::add_demo() {
  CLI::App* command = local(root_, "demo",
                            "The whole walk on generated card payments: ingest, train, serve, "
                            "drift, retrain, promote",
                            [this] { return demo(); });
  command->add_option("--server", words_.server,
                      "Server to use (env FALAJ_SERVER; the one on port 7070 if it answers; else "
                      "one is started in --data)");
  add_authority(*command);
  command->add_option("--data", words_.data, "Folder of the server that is started");
  command->add_option("--seed", words_.seed, "Seed of the generated world")->capture_default_str();
  command->add_flag("--crowded", words_.crowded,
                    "Instead: forty jobs that wait for different reasons, each explained");
  command->add_flag("--keep", words_.keep, "With --crowded: leave them there, to be asked about");
  command->add_option("--end", words_.end, "Midnight after the world's last day (default: today)");
  add_output(*command);
}

void Tree::add_objects() {
  const auto files = [this](CLI::App* command) {
    command->add_option("-f,--file", words_.files, "YAML file, or - for standard input")
        ->required();
  };
  CLI::App* apply =
      remote(root_, "apply", "Declare objects from YAML, all or nothing", [this](const Session& s) {
        return apply_files(s, words_.files, words_.dry_run ? DryRun::kYes : DryRun::kNo);
      });
  files(apply);
  apply->add_flag("--dry-run", words_.dry_run, "Check only");
  CLI::App* differ =
      remote(root_, "diff", "Show what apply would change; exit 5 when something would", nullptr);
  differ->callback([this] { exit_ = diff(); });
  files(differ);
  const auto kind_and_name = [this](CLI::App* command) {
    command->add_option("kind", words_.kind, "Kind, e.g. FeatureView, in any case; or Kind/name")
        ->required();
    command->add_option("name", words_.name, "Name");
  };
  kind_and_name(remote(root_, "get", "Print one object", [this](const Session& s) {
    return get_object(s, {words_.kind, words_.name});
  }));
  remote(root_, "list", "List objects of a project", [this](const Session& s) {
    return list_objects(s, words_.kind);
  })->add_option("kind", words_.kind, "Kind; all when left out");
  kind_and_name(
      remote(root_, "delete", "Delete an object that nothing refers to", [this](const Session& s) {
        return delete_object(s, {words_.kind, words_.name});
      }));
  remote(root_, "export", "Print a project with its zones and objects as YAML that apply accepts",
         [](const Session& s) { return export_objects(s); });
  remote(root_, "kinds", "List the kinds of objects that can be applied",
         [](const Session& s) { return show_kinds(s); });
}

void Tree::add_data() {
  CLI::App* in = remote(root_, "ingest", "Send a file to a feature view", [this](const Session& s) {
    return ingest(s, words_.name, words_.file, words_.format);
  });
  in->add_option("view", words_.name, "FeatureView")->required();
  in->add_option("-f,--file", words_.file,
                 "CSV, Parquet or Arrow file (default: the Source's path)");
  in->add_option("--format", words_.format, "csv, parquet or arrow (default: by extension)")
      ->check(CLI::IsMember({"csv", "parquet", "arrow"}));

  CLI::App* set = remote(root_, "freeze", "Freeze a training set: point-in-time join to Parquet",
                         [this](const Session& s) { return freeze(s, words_.name, words_.spine); });
  set->add_option("training-set", words_.name, "TrainingSet")->required();
  set->add_option("--spine", words_.spine, "File with the spine, when the set names none");

  CLI::App* leave =
      remote(root_, "export-set", "Write a frozen training set as encrypted Parquet (AES_GCM_V1)",
             [this](const Session& s) { return export_set(s, export_); });
  leave->add_option("training-set", export_.set, "TrainingSet")->required();
  leave->add_option("--id", export_.id, "Which frozen set (default: the newest)");
  leave->add_option("--out", export_.out, "File to write; must not exist")->required();
  leave
      ->add_option("--key-file", export_.key_file,
                   "The key, 64 hexadecimal digits; made when the file is missing")
      ->required();

  CLI::App* job = remote(root_, "train", "Run a TrainJob and follow it",
                         [](const Session&) { return Status{}; });
  // The group's own callback runs for its subcommands too.
  job->callback([this, job] {
    if (!job->get_subcommands().empty()) return;
    exit_ = signed_in([this](const Session& s) -> Status {
      if (words_.name.empty()) return Error{ErrorId::kUsage, "which TrainJob? falaj list TrainJob"};
      return train(s, words_.name, words_.no_wait ? Wait::kNo : Wait::kWait, capture_of(train_));
    });
  });
  job->require_subcommand(0, 1);
  job->add_option("job", words_.name, "TrainJob");
  job->add_flag("--no-wait", words_.no_wait, "Only start it");
  add_capture(*job, train_);
  add_advise(*job);
  CLI::App* runs = remote(root_, "runs", "List runs, or print one; run a command again",
                          [](const Session&) -> Status { return {}; });
  runs->require_subcommand(0, 1);
  // The group's own callback runs for its subcommands too.
  runs->callback([this, runs] {
    if (!runs->get_subcommands().empty()) return;
    exit_ = signed_in([this](const Session& s) { return show_runs(s, words_.name); });
  });
  runs->add_option("run", words_.name, "Run id");
  CLI::App* again =
      remote(*runs, "replay", "Run a training or a command again and compare its output",
             [this](const Session& s) { return replay(s, words_.name, replay_); });
  again->add_option("run", words_.name, "Id of a run, or of a job")->required();
  again->add_option("--code", replay_.code, "Where its code lies now (default: here)");
  again->add_option("--seed", replay_.seed, "Another seed than then");
}

void Tree::add_models() {
  CLI::App* models = remote(
      root_, "models", "List models and versions; import or optimize a model; explain an answer",
      [](const Session&) -> Status { return {}; });
  models->require_subcommand(0, 1);
  // The group's own callback runs for its subcommands too.
  models->callback([this, models] {
    if (!models->get_subcommands().empty()) return;
    exit_ = signed_in([this](const Session& s) { return show_models(s, words_.name); });
  });
  models->add_option("model", words_.name, "Model; all when left out");
  add_import(*models);
  add_explain(*models);
  add_optimize(*models);
  CLI::App* alias =
      remote(root_, "promote", "Point a model's alias at a version", [this](const Session& s) {
        return set_alias(s, words_.name, words_.alias, words_.version, words_.reason);
      });
  words_.alias = "champion";
  alias->add_option("model", words_.name, "Model")->required();
  alias->add_option("version", words_.version, "Version")->required();
  alias->add_option("--alias", words_.alias, "Alias")->capture_default_str();
  add_predict();
}

void Tree::add_import(CLI::App& models) {
  CLI::App* command =
      remote(models, "import", "Register a model made elsewhere, after a look at it in a sandbox",
             [this](const Session& s) { return import_models(s, import_); });
  command
      ->add_option("path", import_.path,
                   "ONNX, LightGBM's text or XGBoost's JSON; a folder that MLflow saved; a Triton "
                   "model's folder, or a repository of them")
      ->required();
  command->add_option("--model", import_.model, "Its name here (default: the Triton model's)");
  command->add_option("--signature", import_.signature,
                      "The file's OpenSSF signature bundle (model.sig)");
  command->add_flag("--deploy", import_.deploy,
                    "Serve the newest: alias champion, and a Deployment of the model's name");
}

void Tree::add_explain(CLI::App& models) {
  CLI::App* command =
      remote(models, "explain", "What each feature added to a deployment's answer, as bars",
             [this](const Session& s) { return explain_prediction(s, explain_); });
  command->add_option("deployment", explain_.deployment, "Deployment")->required();
  command->add_option("keys", explain_.keys, "Entity keys: customer_id=42 merchant_id=7");
  command->add_option("-f,--file", explain_.file,
                      "Instead of keys: an inference request as JSON, - for standard input");
  command
      ->add_option("--against", explain_.against,
                   "Entity to compare with (customer_id=7,merchant_id=3), for models that are "
                   "sampled; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--budget", explain_.budget, "How long it may take, 10s at most")
      ->capture_default_str();
  command->add_option("--samples", explain_.samples, "Samples of a model that is sampled, at most")
      ->capture_default_str();
}

void Tree::add_rollouts() {
  CLI::App* group =
      root_.add_subcommand("rollout", "Take a new version into a deployment step by step");
  group->require_subcommand(1);
  const auto name = [this](CLI::App* command) {
    return command->add_option("rollout", words_.name, "Rollout");
  };
  CLI::App* status =
      remote(*group, "status", "A rollout as a chart, or all of them", [this](const Session& s) {
        return words_.follow ? follow_rollout(s, words_.name) : show_rollouts(s, words_.name);
      });
  status->add_flag("-f,--follow", words_.follow, "Redraw it until it ends; fail unless promoted")
      ->needs(name(status));
  const auto order = [&](const char* verb, const char* help) {
    CLI::App* command = remote(*group, verb, help, [this, verb](const Session& s) {
      return order_rollout(s, words_.name, verb, words_.follow ? Wait::kWait : Wait::kNo);
    });
    name(command)->required();
    return command;
  };
  order("start", "Begin a declared Rollout at its first step")
      ->add_flag("-f,--follow", words_.follow, "Redraw it until it ends; fail unless promoted");
  order("hold", "Keep it in its step; guards still take it back");
  order("resume", "Let it go on after a hold");
  order("approve", "Let it be promoted once every guard is kept");
  order("promote", "Promote the candidate now, whatever is known");
  order("abort", "Everything back to the champion, at once");
}

void Tree::add_watch() {
  remote(root_, "deployments", "List deployments: what they serve, how fast, what failed",
         [](const Session& s) { return show_deployments(s); });
  remote(root_, "monitors", "List monitors with their newest drift, or one's windows",
         [this](const Session& s) { return show_monitors(s, words_.name); })
      ->add_option("monitor", words_.name, "Monitor; all when left out");
  remote(root_, "alarms", "List alarms, newest first: break-glass and drift",
         [this](const Session& s) {
           return words_.name.empty() ? show_alarms(s) : close_emergency(s, words_.name);
         })
      ->add_option("--close", words_.name, "Close this break-glass alarm: seen and dealt with");
  remote(root_, "usage", "What a project uses of its quota",
         [](const Session& s) { return show_usage(s); });
  remote(root_, "policies", "List policies: their phase, last action and what they wait for",
         [](const Session& s) { return show_policies(s); });
  remote(root_, "quarantine", "Print the rows that an ingest refused, as CSV",
         [this](const Session& s) { return show_quarantine(s, words_.name); })
      ->add_option("id", words_.name, "Id of the quarantine, as ingest reports it")
      ->required();
}

void Tree::add_config() {
  CLI::App* config =
      root_.add_subcommand("config", "Settings: what they are and where they come from");
  config->require_subcommand(1);
  CLI::App* show =
      local(*config, "show", "Every setting with its value", [this] { return config_show(); });
  add_server_options(*show);
  add_output(*show);
  show->add_flag("--origin", words_.origin, "Where each value came from");
  CLI::App* explain =
      local(*config, "explain", "One setting in full", [this] { return config_explain(); });
  explain->add_option("key", words_.name, "e.g. server.port")->required();
  add_server_options(*explain);
  add_output(*explain);
}

void Tree::add_rest() {
  CLI::App* backup = local(
      root_, "backup", "Copy a stopped server's data folder, sealed as it is, into a declared zone",
      [this] { return backup_folder(); });
  add_server_options(*backup);
  backup->add_option("--out", words_.file, "Folder to make; must not exist")->required();
  backup->add_option("--zone", words_.to, "Zone in which that folder is")->required();
  add_output(*backup);
  CLI::App* check =
      local(root_, "doctor", "Check this machine and its data folder", [this] { return doctor(); });
  check->add_option("--data", words_.data, "Data folder");
  add_settings_options(*check);
  check->add_flag("--libraries", words_.libraries, "Only open every library in one process");
  add_output(*check);
  CLI::App* explain = local(root_, "explain", "What an error code means and what to do",
                            [this] { return done(explain_error(session(), words_.name)); });
  explain->add_option("code", words_.name, "e.g. FJ-1003")->required();
  add_output(*explain);
  CLI::App* version = local(root_, "version", "Version and build", [this] {
    Value value;
    value["version"] = hooks_.version;
    value["build"] = hooks_.build;
    print(session().format, value, "falaj " + hooks_.version + " (" + hooks_.build + ")\n");
    return 0;
  });
  add_output(*version);
  local(root_, "help", "Print the commands, or one command's options", [this] {
    return help();
  })->add_option("command", words_.keys, "e.g. audit list");
  local(root_, "completion", "Print a completion script: eval \"$(falaj completion bash)\"",
        [this] { return done(print_completion(root_, words_.name)); })
      ->add_option("shell", words_.name, "bash, zsh or fish")
      ->required();
  CLI::App* pages = local(root_, "reference", "", [this] {
    const Result<std::string> page = words_.name == "cli"
                                         ? Result<std::string>(command_pages(root_))
                                         : hooks_.reference(words_.name);
    if (!page.ok()) return fail(page.error());
    std::fwrite(page->data(), 1, page->size(), stdout);
    return 0;
  });
  pages->group("");  // For the documentation: prints a page from the declarations.
  pages->add_option("page", words_.name)->required();
}

int Tree::help() {
  const CLI::App* command = &root_;
  std::string path = "falaj";
  for (const std::string& word : words_.keys) {
    const auto below = command->get_subcommands(
        [&](const CLI::App* sub) { return sub->get_name() == word && !sub->get_group().empty(); });
    if (below.empty()) {
      return fail({ErrorId::kUsage, "there is no command '" + word + "': falaj help lists them"});
    }
    command = below.front();
    path += " " + word;
  }
  // Not help(): that of an app whose subcommand ran is the subcommand's, which is this one.
  const std::string page =
      command->get_formatter()->make_help(command, path, CLI::AppFormatMode::Normal);
  std::fputs(page.c_str(), stdout);
  return 0;
}

int Tree::diff() {
  const Result<Session> own = signed_session();
  if (!own.ok()) return fail(own.error());
  const Result<std::int64_t> changed = diff_files(*own, words_.files);
  if (!changed.ok()) return fail(changed.error());
  if (*changed == 0) return 0;
  std::fprintf(stderr, "falaj: %lld object(s) differ; falaj apply makes them equal\n",
               static_cast<long long>(*changed));
  return static_cast<int>(ExitCode::kConflict);
}

int Tree::demo() {
  Result<Session> opened = signed_session();
  if (!opened.ok()) return fail(opened.error());
  Session own = std::move(opened).value();
  demo::DemoOptions options;
  options.seed = words_.seed;
  const std::int64_t day = Duration::days(1).nanos;
  options.end = Timestamp{SystemClock().now().nanos / day * day};
  if (!words_.end.empty()) {
    const Result<Timestamp> end = parse_timestamp(words_.end);
    if (!end.ok()) return fail({ErrorId::kUsage, "--end: " + end.error().message});
    options.end = end.value();
  }
  const CLI::App* command = root_.get_subcommand("demo");
  std::unique_ptr<LocalServer> server;
  const bool named =
      command->count("--server") > 0 || !from_environment("FALAJ_SERVER", "").empty();
  if (!named) {
    const auto probe = Connection::open(own.target);
    const bool answers = probe.ok() && words_.data.empty() && probe.value()->get("/livez").ok();
    if (!answers && words_.keep) {
      return fail({ErrorId::kUsage,
                   "--keep needs a server that goes on: start 'falaj dev', then repeat this"});
    }
    if (!answers) {
      const std::string folder = words_.data.empty() ? "falaj-data" : words_.data;
      auto started = hooks_.start_local(folder);
      if (!started.ok()) return fail(started.error());
      server = std::move(started).value();
      own.target.server = server->url();
    }
  }
  const auto after = words_.keep ? demo::Afterwards::kKeep : demo::Afterwards::kCancel;
  const int code = done(words_.crowded ? demo::run_crowded(own, after) : demo::run(own, options));
  if (server && code == 0 && own.format == OutputFormat::kTable) {
    std::printf("That server stops now; start it again with: falaj dev --data %s\n",
                words_.data.empty() ? "falaj-data" : words_.data.c_str());
  }
  return code;
}

int Tree::backup_folder() {
  const Result<config::Settings> chosen = settings();
  if (!chosen.ok()) return fail_settings(chosen.error());
  const Result<Value> made = hooks_.back_up(*chosen, words_.file, words_.to);
  if (!made.ok()) return fail(made.error());
  print(session().format, *made,
        cell((*made)["files"]) + " files, " + cell((*made)["bytes"]) + " bytes in " +
            made->text("out") + " (zone " + made->text("zone") + ")\n");
  return 0;
}

int Tree::doctor() {
  const Result<config::Settings> loaded = settings();
  if (!loaded.ok()) return fail_settings(loaded.error());
  const auto checks = words_.libraries ? hooks_.doctor_libraries() : hooks_.doctor(loaded.value());
  Value value = Value::array();
  Table table({"CHECK", "STATE", "DETAIL"});
  bool failed = false;
  for (const DoctorCheck& check : checks) {
    Value row;
    row["check"] = check.what;
    row["state"] = check.state;
    row["detail"] = check.detail;
    value.push(std::move(row));
    table.add({check.what, check.state, check.detail});
    failed = failed || check.state == "fail";
  }
  print(session().format, value, table.str());
  return failed ? 1 : 0;
}

int Tree::config_show() {
  const Result<config::Settings> loaded = settings();
  if (!loaded.ok()) return fail_settings(loaded.error());
  Table table(words_.origin ? std::vector<std::string>{"SETTING", "VALUE", "FROM"}
                            : std::vector<std::string>{"SETTING", "VALUE"});
  for (const config::Setting& setting : loaded->declarations()) {
    std::vector<std::string> row{std::string(setting.key), loaded->shown(setting.key)};
    if (words_.origin) row.push_back(loaded->origin_text(setting.key));
    table.add(std::move(row));
  }
  print(session().format, loaded->to_value(), table.str());
  return 0;
}

int Tree::config_explain() {
  const Result<config::Settings> loaded = settings();
  if (!loaded.ok()) return fail_settings(loaded.error());
  const Result<std::string> text = loaded->explain(words_.name);
  if (!text.ok()) return fail({ErrorId::kUsage, text.error().message});
  const Value all = loaded->to_value();
  for (const Value& row : items(all)) {
    if (row.text("key") == words_.name) print(session().format, row, *text);
  }
  return 0;
}

int run(int argc, char** argv, const Hooks& hooks) { return Tree(hooks).run(argc, argv); }

std::string cli_reference(const Hooks& hooks) { return command_pages(Tree(hooks).root()); }

}  // namespace falaj::cli
