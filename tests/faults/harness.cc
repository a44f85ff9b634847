#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/hash.h"

extern char** environ;

namespace falaj::faults {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ino_t inode_of(const fs::path& path) {
  struct stat info {};
  FALAJ_CHECK(::lstat(path.c_str(), &info) == 0);
  return info.st_ino;
}

struct Entry {
  ino_t inode = 0;
  bool folder = false;
};
using Entries = std::map<std::string, Entry>;

Entries durable_entries(const fs::path& shadow, ino_t folder) {
  Entries entries;
  std::ifstream lines(shadow / "dirs" / std::to_string(folder));
  ino_t inode = 0;
  char type = 0;
  std::string name;
  while (lines >> inode >> type && lines.ignore(1) && std::getline(lines, name)) {
    entries[name] = {inode, type == 'd'};
  }
  return entries;
}

Entries actual_entries(const fs::path& folder) {
  Entries entries;
  if (!fs::exists(folder)) return entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    entries[entry.path().filename().string()] = {inode_of(entry.path()), entry.is_directory()};
  }
  return entries;
}

class PowerCutter {
 public:
  PowerCutter(fs::path shadow, PowerCut how, std::uint64_t seed)
      : shadow_(std::move(shadow)), how_(how), seed_(seed) {}

  void rebuild(const fs::path& folder, ino_t inode, const fs::path& after) const {
    fs::create_directories(after);
    for (const auto& [name, entry] : surviving(folder, inode)) {
      if (entry.folder) {
        rebuild(folder / name, entry.inode, after / name);
      } else {
        std::ofstream(after / name, std::ios::binary) << content(entry.inode, folder / name);
        // The shim keeps content, not modes: a secret that others may read would be refused.
        fs::permissions(after / name, fs::perms::owner_read | fs::perms::owner_write);
      }
    }
  }

 private:
  std::uint64_t dice(ino_t inode, std::string_view what) const {
    return hash64(std::string(what) + std::to_string(inode), seed_);
  }
  // Whether the changes of names in this folder reached the disk. All or none: file systems keep
  // their order, so a later name never survives an earlier one.
  bool names_survive(ino_t folder) const {
    return how_ == PowerCut::kMixed && dice(folder, "names") % 2 == 0;
  }

  Entries surviving(const fs::path& folder, ino_t inode) const {
    return names_survive(inode) ? actual_entries(folder) : durable_entries(shadow_, inode);
  }

  std::string content(ino_t inode, const fs::path& path) const {
    const std::string durable = read_file(shadow_ / "data" / std::to_string(inode));
    const std::uint64_t choice = dice(inode, "content");
    if (how_ == PowerCut::kStrict || choice % 3 == 0) return durable;
    const fs::path pinned = shadow_ / "pins" / std::to_string(inode);
    std::string now = read_file(fs::exists(pinned) ? pinned : path);
    if (choice % 3 == 1 || now.size() <= durable.size()) return now;
    now.resize(durable.size() + dice(inode, "torn") % (now.size() - durable.size()));
    return now;
  }

  const fs::path shadow_;
  const PowerCut how_;
  const std::uint64_t seed_;
};

std::vector<std::string> full_environment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> env;
  for (char** variable = environ; *variable != nullptr; ++variable) env.emplace_back(*variable);
  for (const auto& [name, value] : added) env.push_back(name + "=" + value);
  return env;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

WriterProcess::WriterProcess(const Options& options) {
  int ends[2];
  FALAJ_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
  const bool sync = options.durability == storage::Durability::kSync;
  std::vector<std::string> args{FALAJ_FAULT_WRITER, to_string(options.port), options.folder,
                                std::to_string(options.round), sync ? "sync" : "nosync"};
  std::vector<std::string> env = full_environment(options.env);
  const std::vector<char*> argv = pointers(args);
  const std::vector<char*> envp = pointers(env);
  pid_ = ::fork();
  FALAJ_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  output_ = ends[0];
}

WriterProcess::~WriterProcess() {
  if (pid_ > 0) kill();
}

bool WriterProcess::listen_once() {
  char bytes[4096];
  const ssize_t got = ::read(output_, bytes, sizeof(bytes));
  if (got <= 0) return false;
  buffered_.append(bytes, static_cast<std::size_t>(got));
  for (std::size_t end = 0; (end = buffered_.find('\n')) != std::string::npos;) {
    take_line(buffered_.substr(0, end));
    buffered_.erase(0, end + 1);
  }
  return true;
}

void WriterProcess::take_line(const std::string& line) {
  std::istringstream words(line);
  std::string what;
  words >> what;
  if (what == "ack") {
    int lane = 0;
    int index = 0;
    words >> lane >> index;
    heard_.acknowledged[lane] = index;
    ++heard_.acks;
  } else if (what == "err") {
    words >> heard_.errors.emplace_back();
  } else if (what == "end") {
    words >> heard_.refused;
  }
}

void WriterProcess::listen_for_acks(int acks) {
  while (heard_.acks < acks && listen_once()) {
  }
}

void WriterProcess::listen_for_errors(std::size_t errors) {
  while (heard_.errors.size() < errors && listen_once()) {
  }
}

int WriterProcess::wait_for_end() {
  while (listen_once()) {
  }
  int status = 0;
  FALAJ_CHECK(::waitpid(pid_, &status, 0) == pid_);
  ::close(output_);
  pid_ = -1;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void WriterProcess::kill() {
  ::kill(pid_, SIGKILL);
  wait_for_end();
}

std::vector<std::pair<std::string, std::string>> shim_env(const std::string& disk,
                                                          const std::string& shadow) {
  return {{"LD_PRELOAD", FALAJ_FAULT_SHIM}, {"FALAJ_DISK", disk}, {"FALAJ_SHADOW", shadow}};
}

void cut_power(const std::string& disk, const std::string& shadow, const std::string& after,
               PowerCut how, std::uint64_t seed) {
  PowerCutter(shadow, how, seed).rebuild(disk, inode_of(disk), after);
}

Status check_acknowledged(Port port, const std::string& folder,
                          const std::map<int, Heard>& rounds) {
  // Only looking: what this writes itself (recovery) need not survive anything.
  auto target = FALAJ_TRY(Target::open(port, folder, storage::Durability::kNoSync));
  for (const auto& [round, heard] : rounds) {
    for (const auto& [lane, last] : heard.acknowledged) {
      for (int index = 0; index <= last; ++index) FALAJ_TRY(target->check({round, lane, index}));
    }
  }
  if (rounds.empty()) return {};
  // Older rounds were looked at after their own crash.
  for (const auto& [lane, last] : rounds.rbegin()->second.acknowledged) {
    FALAJ_TRY(target->check_whole(rounds.rbegin()->first, lane));
  }
  return {};
}

}  // namespace falaj::faults
