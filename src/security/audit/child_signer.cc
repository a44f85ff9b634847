#include "security/audit/child_signer.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "base/json.h"
#include "base/log.h"
#include "base/mutex.h"
#include "crypto/base64.h"
#include "security/audit/wire.h"

namespace falaj::security {
namespace {

using crypto::NoteKey;
using crypto::Proof;
using crypto::TreeHead;

Error unavailable(const std::string& what) {
  return {ErrorId::kSignerUnavailable, "the audit signer did not answer: " + what};
}

Value info_value(const SignerInfo& info) {
  Value value;
  value["origin"] = info.origin;
  value["log_key"] = crypto::to_text(info.log_key);
  value["witness_key"] = crypto::to_text(info.witness_key);
  value["last"] = head_value(info.last);
  value["last_at"] = info.last_at.nanos;
  return value;
}

Result<SignerInfo> info_from(const Value& value) {
  SignerInfo info;
  info.origin = value.text("origin");
  info.log_key = FALAJ_TRY(crypto::parse_note_key(value.text("log_key")));
  info.witness_key = FALAJ_TRY(crypto::parse_note_key(value.text("witness_key")));
  info.last = FALAJ_TRY(head_from(value["last"]));
  info.last_at = Timestamp{value.integer("last_at")};
  return info;
}

// One running process and the answers it gave. Its thread ends with it.
class Conversation {
 public:
  static Result<std::shared_ptr<Conversation>> start(const ChildSignerOptions& options) {
    auto self = std::make_shared<Conversation>();
    exec::ChildSpec spec;
    spec.argv = {options.program, "engine", "sign", options.folder};
    spec.work_dir = options.folder;
    spec.sandbox.enabled = true;
    spec.sandbox.read_write = {options.folder};
    spec.log_path = options.log_path;
    spec.on_line = [state = self.get()](std::string_view line) { state->take(line); };
    auto child = exec::Child::start(std::move(spec));
    if (!child.ok()) {
      return Error{ErrorId::kSignerUnavailable,
                   "the audit signer could not be started: " + child.error().message};
    }
    self->child_ = std::move(child).value();
    self->watcher_ = std::thread([state = self.get()] {
      const exec::ChildExit exit = state->child_->wait();
      const MutexLock lock(state->mutex_);
      state->ended_ = true;
      log::info("audit signer ended", {{"code", exit.code}});
      state->changed_.notify_all();
    });
    return self;
  }

  ~Conversation() {
    if (!child_) return;  // It could not be started.
    child_->stop();
    watcher_.join();
  }

  Result<Value> ask(Value request, Duration patience) {
    std::int64_t id = 0;
    {
      const MutexLock lock(mutex_);
      if (ended_) return unavailable("its process has ended");
      id = ++asked_;
      answer_ = Value();
    }
    request["id"] = id;
    FALAJ_TRY(child_->send(to_json(request)));
    const MutexLock lock(mutex_);
    const bool came = changed_.wait_for(
        mutex_, std::chrono::nanoseconds(patience.nanos),
        [&]() FALAJ_REQUIRES(mutex_) { return ended_ || answer_.integer("id") == id; });
    if (!came || answer_.integer("id") != id) {
      return unavailable(ended_ ? "its process has ended" : "it took too long");
    }
    if (!answer_.has("error")) return answer_;
    const ErrorInfo* info = find_error(answer_.text("code"));
    return Error(info == nullptr ? ErrorId::kSignerUnavailable : info->id, answer_.text("error"));
  }

  bool ended() {
    const MutexLock lock(mutex_);
    return ended_;
  }

 private:
  void take(std::string_view line) {
    auto parsed = parse_json(line);
    const MutexLock lock(mutex_);
    if (parsed.ok()) answer_ = std::move(parsed).value();
    changed_.notify_all();
  }

  std::unique_ptr<exec::Child> child_;
  std::thread watcher_;
  Mutex mutex_;
  CondVar changed_;
  std::int64_t asked_ FALAJ_GUARDED_BY(mutex_) = 0;
  Value answer_ FALAJ_GUARDED_BY(mutex_);
  bool ended_ FALAJ_GUARDED_BY(mutex_) = false;
};

class ChildSigner final : public Signer {
 public:
  explicit ChildSigner(ChildSignerOptions options) : options_(std::move(options)) {}

  Result<SignerInfo> info() override {
    const Value reply = FALAJ_TRY(ask("info", Value::object()));
    return info_from(reply);
  }

  Result<std::string> sign_head(const TreeHead& head, const Proof& proof, Timestamp at) override {
    Value request;
    request["head"] = head_value(head);
    request["proof"] = proof_value(proof);
    request["at"] = at.nanos;
    return note(FALAJ_TRY(ask("sign_head", std::move(request))));
  }

  Result<std::string> sign_manifest(const Sha256& manifest, Timestamp at) override {
    Value request;
    request["sha256"] = manifest.hex();
    request["at"] = at.nanos;
    return note(FALAJ_TRY(ask("sign_manifest", std::move(request))));
  }

  Result<std::string> cosign(std::string_view text, const NoteKey& key, const Proof& proof,
                             Timestamp at) override {
    Value request;
    request["note"] = text;
    request["key"] = crypto::to_text(key);
    request["proof"] = proof_value(proof);
    request["at"] = at.nanos;
    return note(FALAJ_TRY(ask("cosign", std::move(request))));
  }

  Result<TreeHead> witnessed(std::string_view origin) override {
    Value request;
    request["origin"] = origin;
    const Value reply = FALAJ_TRY(ask("witnessed", std::move(request)));
    return head_from(reply["head"]);
  }

 private:
  static Result<std::string> note(const Value& reply) {
    if (!reply["note"].is_string()) return unavailable("its answer is no note");
    return reply.text("note");
  }

  // One question at a time; a dead process is replaced before the question is put.
  Result<Value> ask(std::string_view op, Value request) {
    const MutexLock lock(mutex_);
    if (!conversation_ || conversation_->ended()) {
      conversation_.reset();
      auto started = FALAJ_TRY(Conversation::start(options_));
      Value open;
      open["op"] = "open";
      open["origin"] = options_.origin;
      open["wrapper"] = crypto::base64(options_.wrapper.view());
      FALAJ_TRY(started->ask(std::move(open), options_.patience));
      conversation_ = std::move(started);
    }
    request["op"] = op;
    return conversation_->ask(std::move(request), options_.patience);
  }

  const ChildSignerOptions options_;
  Mutex mutex_;
  std::shared_ptr<Conversation> conversation_ FALAJ_GUARDED_BY(mutex_);
};

// The process's side.
class Desk {
 public:
  explicit Desk(std::string folder) : folder_(std::move(folder)) {}

  Result<Value> answer(const Value& request) {
    const std::string op = request.text("op");
    if (op == "open") return open(request);
    if (!signer_) return unavailable("it was not opened");
    const Timestamp at{request.integer("at")};
    Value reply;
    if (op == "info") {
      reply = info_value(FALAJ_TRY(signer_->info()));
    } else if (op == "sign_head") {
      const TreeHead head = FALAJ_TRY(head_from(request["head"]));
      const Proof proof = FALAJ_TRY(proof_from(request["proof"]));
      reply["note"] = FALAJ_TRY(signer_->sign_head(head, proof, at));
    } else if (op == "sign_manifest") {
      const Sha256 hash = FALAJ_TRY(hash_from(request.text("sha256")));
      reply["note"] = FALAJ_TRY(signer_->sign_manifest(hash, at));
    } else if (op == "cosign") {
      const NoteKey key = FALAJ_TRY(crypto::parse_note_key(request.text("key")));
      const Proof proof = FALAJ_TRY(proof_from(request["proof"]));
      reply["note"] = FALAJ_TRY(signer_->cosign(request.text("note"), key, proof, at));
    } else if (op == "witnessed") {
      reply["head"] = head_value(FALAJ_TRY(signer_->witnessed(request.text("origin"))));
    } else {
      return Error(ErrorId::kInvalidArgument, "the signer knows no '" + op + "'");
    }
    return reply;
  }

 private:
  Result<Value> open(const Value& request) {
    std::string wrapper = FALAJ_TRY(crypto::from_base64(request.text("wrapper")));
    LocalSignerOptions options{folder_, request.text("origin"), crypto::SecretBytes(wrapper)};
    crypto::wipe(wrapper);
    signer_ = FALAJ_TRY(open_local_signer(std::move(options)));
    return Value::object();
  }

  const std::string folder_;
  std::unique_ptr<Signer> signer_;
};

bool write_line(int fd, const Value& reply) {
  const std::string line = to_json(reply) + "\n";
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t n = ::write(fd, line.data() + sent, line.size() - sent);
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

Value reply_to(Desk& desk, std::string_view line) {
  Value reply;
  const auto request = parse_json(line);
  if (!request.ok()) {
    reply["code"] = to_string(request.error().id);
    reply["error"] = request.error().message;
    return reply;
  }
  auto answer = desk.answer(*request);
  if (answer.ok()) {
    reply = std::move(answer).value();
  } else {
    reply["code"] = to_string(answer.error().id);
    reply["error"] = answer.error().message;
  }
  reply["id"] = request->integer("id");
  return reply;
}

}  // namespace

Result<std::unique_ptr<Signer>> start_child_signer(ChildSignerOptions options) {
  // Its working folder: the sandbox opens nothing else to it.
  if (::mkdir(options.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return unavailable("its folder cannot be made: " + std::string(std::strerror(errno)));
  }
  auto signer = std::make_unique<ChildSigner>(std::move(options));
  FALAJ_TRY(signer->info());
  return std::unique_ptr<Signer>(std::move(signer));
}

int run_signer(int fd, const std::string& folder) {
  ::prctl(PR_SET_DUMPABLE, 0);  // No core file and no debugger may hold the key.
  constexpr std::size_t kLineMax = 256 * 1024;
  Desk desk(folder);
  std::string pending;
  char bytes[16 * 1024];
  while (true) {
    const ssize_t got = ::read(fd, bytes, sizeof bytes);
    if (got <= 0) return 0;  // The server has gone.
    pending.append(bytes, static_cast<std::size_t>(got));
    crypto::wipe(bytes, sizeof bytes);
    for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
      if (!write_line(fd, reply_to(desk, std::string_view(pending).substr(0, end)))) return 0;
      pending.erase(0, end + 1);
    }
    if (pending.size() > kLineMax) return 1;
  }
}

}  // namespace falaj::security
