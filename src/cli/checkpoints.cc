// checkpoints: list, verify, restore, keep, saver.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/keeping.h"
#include "cli/saver.h"
#include "jobs/checkpoint/archive.h"
#include "security/keys/key_tree.h"
#include "storage/open.h"
#include "storage/small_file.h"

extern char** environ;

namespace falaj::cli {
namespace {

namespace ckpt = jobs::checkpoint;
namespace fs = std::filesystem;
namespace keys = security::keys;

// Of an archive that the server has sealed: DATA/checkpoints/RUN/archive. The server must be
// stopped (FJ-8001). Null for an archive in clear.
Result<ckpt::ArchiveKey> key_of(const std::string& archive) {
  const auto named = storage::read_small_file(ckpt::key_name_path(archive));
  if (!named.ok() && named.error().code == Code::kNotFound) return ckpt::ArchiveKey();
  if (!named.ok()) return named.error();
  const ckpt::KeyName name = FALAJ_TRY(ckpt::decode_key_name(named->content));
  const fs::path data = fs::absolute(archive).lexically_normal() / "../../..";
  const std::string folder = data.lexically_normal().string();
  const auto lock = FALAJ_TRY(storage::FolderLock::acquire(folder));
  keys::FileVaultOptions file;
  file.path = folder + "/keys.sealed";
  file.machine_key_path = folder + "/machine.key";
  if (const char* passphrase = std::getenv("FALAJ_KEYS_PASSPHRASE_FILE")) {
    std::string text = FALAJ_TRY(storage::read_small_file(passphrase)).content;
    while (text.ends_with('\n')) text.pop_back();
    file.passphrase = crypto::SecretBytes(std::string_view(text));
    crypto::wipe(text);
  }
  const auto vault = FALAJ_TRY(keys::open_file_vault(std::move(file), keys::IfMissing::kRefuse));
  const auto sql = FALAJ_TRY(storage::open_sqlite(folder + "/keys.db"));
  const SystemClock clock;
  const auto tree = FALAJ_TRY(keys::open_key_tree(*sql, *vault, clock));
  const keys::KeyScope scope{name.project, Zone(name.zone), name.object, "",
                             std::string(ckpt::kKeyPurpose)};
  return ckpt::ArchiveKey(std::make_shared<const crypto::SecretBytes>(
      FALAJ_TRY(tree->open_data_key(scope, name.wrapped))));
}

// Opens the newest sealed one beside `to` and moves what it holds there.
Result<ckpt::Restored> restore_into(const std::string& folder, const std::string& to) {
  const ckpt::ArchiveKey key = FALAJ_TRY(key_of(folder));
  if (key != nullptr && to.empty()) {
    return Error{ErrorId::kUsage, folder + " is sealed: name the folder to open it into with --to"};
  }
  const std::string opened = key == nullptr ? "" : to + ".opening";
  Result<ckpt::Restored> restored = ckpt::restore(folder, key, opened);
  const Status copied = restored.ok() && !to.empty() ? ckpt::copy_out(*restored, to) : Status{};
  std::error_code ignored;
  if (key != nullptr) fs::remove_all(opened, ignored);
  if (!copied.ok()) return copied.error();
  return restored;
}

Value listed_value(const ckpt::Listed& each) {
  Value value = Value::object();
  if (each.manifest.ok()) value = ckpt::to_value(*each.manifest);
  value["folder"] = each.folder;
  value["state"] = each.manifest.ok() ? "whole" : "damaged";
  if (!each.manifest.ok()) value["trouble"] = each.manifest.error().message;
  return value;
}

// One row a checkpoint: what its value says.
void print_listed(OutputFormat format, const Value& listed) {
  Table table({"NUMBER", "NAME", "SAVED AT", "FILES", "BYTES", "METRIC", "STATE"});
  for (const Value& each : listed.as_array()) {
    const auto files =
        static_cast<std::int64_t>(each["files"].is_array() ? each["files"].as_array().size() : 0);
    const std::string trouble = each.text("trouble");
    table.add({cell(each["number"]), each.text("name", each.text("folder")),
               each.text("saved_at", "–"), std::to_string(files), cell(each["bytes"]),
               cell(each["metric"]), each.text("state") + (trouble.empty() ? "" : ": " + trouble)});
  }
  print(format, listed, table.str());
}

// The command's process: told where to save and, when there is one, what to go on from.
Result<pid_t> start_command(const std::vector<std::string>& command, const std::string& saves,
                            const std::string& restored, const sigset_t& mask) {
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) {
    if (std::string_view(*each).starts_with("FALAJ_CKPT_")) continue;
    environment.emplace_back(*each);
  }
  environment.push_back("FALAJ_CKPT_DIR=" + saves);
  if (!restored.empty()) environment.push_back("FALAJ_CKPT_RESTORE=" + restored);
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  std::vector<char*> envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& each : environment) envp.push_back(each.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, argv[0], nullptr, &attributes, argv.data(), envp.data());
  ::posix_spawnattr_destroy(&attributes);
  if (error == 0) return child;
  return Error{Code::kNotFound, "cannot start '" + command[0] + "': " + std::strerror(error)};
}

// SIGTERM and SIGINT are passed on as a notice: the command saves and ends by itself. Its exit
// code, or 128 and the signal's number.
int wait_for(pid_t child, const sigset_t& watched) {
  while (true) {
    int signal = 0;
    if (::sigwait(&watched, &signal) != 0) continue;
    if (signal != SIGCHLD) {
      ::kill(child, SIGTERM);
      continue;
    }
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) != child) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
}

Result<int> run_kept(const KeepChoice& choice) {
  sigset_t watched;
  sigset_t before;
  ::sigemptyset(&watched);
  for (const int each : {SIGTERM, SIGINT, SIGCHLD}) ::sigaddset(&watched, each);
  ::pthread_sigmask(SIG_BLOCK, &watched, &before);  // Before there are threads, which inherit it.
  const std::unique_ptr<Keeping> keeping = FALAJ_TRY(Keeping::start(choice));
  keeping->drop_incomplete();
  const std::string restored = FALAJ_TRY(keeping->restore_path());
  const pid_t child =
      FALAJ_TRY(start_command(choice.command, keeping->saves_path(), restored, before));
  const int code = wait_for(child, watched);
  FALAJ_TRY(keeping->finish());
  return code;
}

}  // namespace

Status print_saver() {
  for (const EmbeddedText& each : training_texts()) {
    std::fwrite(each.text.data(), 1, each.text.size(), stdout);
  }
  std::fflush(stdout);
  return {};
}

Status list_kept(const std::string& folder, OutputFormat format) {
  const std::vector<ckpt::Listed> listed =
      FALAJ_TRY(ckpt::list_checkpoints(folder, FALAJ_TRY(key_of(folder))));
  Value value = Value::array();
  for (const ckpt::Listed& each : listed) value.push(listed_value(each));
  print_listed(format, value);
  return {};
}

Status verify_kept(const std::string& folder, OutputFormat format) {
  const std::vector<ckpt::Listed> listed = FALAJ_TRY(ckpt::list_checkpoints(folder));
  Value value = Value::array();
  int damaged = 0;
  for (const ckpt::Listed& each : listed) {
    Value row = listed_value(each);
    const Status whole = each.manifest.ok() ? ckpt::verify_checkpoint(folder, *each.manifest)
                                            : Status{each.manifest.error()};
    if (!whole.ok()) {
      ++damaged;
      row["state"] = "damaged";
      row["trouble"] = whole.error().message;
    }
    value.push(std::move(row));
  }
  print_listed(format, value);
  if (damaged == 0) return {};
  return Error{Code::kDataLoss, std::to_string(damaged) + " of " + std::to_string(listed.size()) +
                                    " checkpoints are damaged; falaj checkpoints restore takes "
                                    "the newest whole one"};
}

Status restore_kept(const std::string& folder, const std::string& to, OutputFormat format) {
  const ckpt::Restored restored = FALAJ_TRY(restore_into(folder, to));
  for (const std::string& skipped : restored.skipped) {
    std::fprintf(stderr, "falaj: passed over, damaged: %s\n", skipped.c_str());
  }
  Value value = ckpt::to_value(restored.manifest);
  value["path"] = to.empty() ? restored.path : to;
  value["skipped"] = Value::array();
  for (const std::string& skipped : restored.skipped) value["skipped"].push(skipped);
  print(format, value, value.text("path") + "\n");
  return {};
}

int run_with_keeper(const KeepChoice& choice) {
  const Result<int> code = run_kept(choice);
  return code.ok() ? *code : fail(code.error());
}

}  // namespace falaj::cli
