// cli/internal/tree.h — the tree of commands, shared by the files that add commands to it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "cli/advise.h"
#include "cli/batch/batch_predict.h"
#include "cli/bench/bench.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/feature_commands.h"
#include "cli/import/models_import.h"
#include "cli/internal/words.h"
#include "cli/job_commands.h"
#include "cli/optimize.h"

namespace falaj::cli {

inline int done(const Status& status) { return status.ok() ? 0 : fail(status.error()); }

// The command tree, built once per call of run(). Callbacks set exit_; parsing picks one of them.
class Tree {
 public:
  explicit Tree(const Hooks& hooks);
  int run(int argc, char** argv);
  CLI::App& root() { return root_; }
  // What `jobs submit` and `train` keep of the code.
  static void add_capture(CLI::App& command, CaptureChoice& choice);

 private:
  using Act = std::function<Status(const Session&)>;

  Session session() const;
  // With the credential: FALAJ_TOKEN, or what `falaj login` kept for this server.
  Result<Session> signed_session() const;
  int signed_in(const Act& act) const;
  Result<config::Settings> settings() const;
  int fail_settings(const Error& error) const;
  Result<config::Sources> sources() const;
  // A command that talks to a server: gets --server, --project and -o.
  CLI::App* remote(CLI::App& parent, const std::string& name, const std::string& help, Act act);
  CLI::App* local(CLI::App& parent, const std::string& name, const std::string& help,
                  std::function<int()> act);
  void add_server_options(CLI::App& command);
  void add_settings_options(CLI::App& command);
  void add_output(CLI::App& command);
  void add_authority(CLI::App& command);

  void add_servers();
  void add_demo();
  void add_objects();
  void add_data();
  void add_features();
  void add_infer(CLI::App& features);
  void add_models();
  void add_predict();
  void add_import(CLI::App& models);
  void add_explain(CLI::App& models);
  void add_optimize(CLI::App& models);
  void add_rollouts();
  void add_watch();
  void add_jobs();
  void add_logs(CLI::App& parent);
  void add_access();
  void add_audit();
  void add_proofs(CLI::App& audit);
  void add_evidence();
  void add_certificates();
  void add_keys();
  void add_sign_in();
  void add_users();
  void add_tokens();
  void add_erase(CLI::App& above);
  void add_zones();
  void add_simulate();
  void add_policy_plan();
  void add_launch();
  void add_advise(CLI::App& train);
  void add_topology();
  void add_checkpoints();
  void add_bench();
  void add_config();
  void add_rest();

  int help();
  int diff();
  int demo();
  int doctor();
  int backup_folder();
  int config_show();
  int config_explain();

  const Hooks& hooks_;
  Words words_;
  ExportChoice export_;
  FeatureChoice features_;
  InferChoice infer_;
  SimulateChoice simulate_;
  ReplayChoice replay_;
  CaptureChoice train_;
  LaunchChoice launch_;
  AdviseChoice advise_;
  KeepChoice keep_;
  JobChoice job_;
  ImportChoice import_;
  ExplainChoice explain_;
  batch::BatchChoice batch_;
  OptimizeChoice optimize_;
  bench::BenchChoice bench_;
  CLI::App root_;
  int exit_ = 0;
};

}  // namespace falaj::cli
