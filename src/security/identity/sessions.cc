#include "security/identity/sessions.h"

#include <algorithm>

#include "base/hash.h"
#include "crypto/base64.h"
#include "crypto/kdf.h"

namespace falaj::security {
namespace {

constexpr std::size_t kCookieBytes = 43;  // 32 bytes in base64url.

std::string key_of(std::string_view cookie) { return sha256_hex(cookie); }

Error ended() { return {ErrorId::kCredentialExpired, "the session has ended; sign in again"}; }

}  // namespace

Sessions::Sessions(const SessionOptions& options, crypto::Random& random, AccountHolds holds)
    : options_(options), random_(random), holds_(std::move(holds)), csrf_key_(random.key()) {}

bool Sessions::has_ended(const Session& session, Timestamp now) const {
  return now >= session.expires || now - session.seen >= options_.idle ||
         (holds_ && !holds_(*session.principal, session.proof));
}

Result<NewSession> Sessions::start(Principal principal, Timestamp now, std::string proof) {
  const crypto::SecretBytes secret = random_.secret(32);
  NewSession made;
  made.cookie = crypto::base64url(secret.view());
  made.csrf = csrf_of(made.cookie);
  made.expires = now + options_.absolute;
  Session session;
  session.id = random_.hex_id(8);
  session.created = session.seen = now;
  session.expires = made.expires;
  session.proof = std::move(proof);
  principal.credential = "session:" + session.id;
  principal.expires = made.expires;
  const std::string user = principal.id;
  session.principal = std::make_shared<const Principal>(std::move(principal));
  MutexLock lock(mutex_);
  // Under the lock: who changes the account first publishes that, then ends its sessions here.
  if (has_ended(session, now)) return ended();
  if (sessions_.size() >= options_.sessions_max) {
    std::erase_if(sessions_, [&](const auto& item) { return has_ended(item.second, now); });
  }
  end_oldest_of(user);
  if (sessions_.size() >= options_.sessions_max) {
    return Error{ErrorId::kRateLimited, "too many people are signed in; try again later"};
  }
  sessions_.emplace(key_of(made.cookie), std::move(session));
  return made;
}

void Sessions::end_oldest_of(const std::string& user) {
  auto oldest = sessions_.end();
  std::size_t count = 0;
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    if (it->second.principal->id != user) continue;
    ++count;
    if (oldest == sessions_.end() || it->second.created < oldest->second.created) oldest = it;
  }
  if (count >= options_.per_user_max) sessions_.erase(oldest);
}

Result<PrincipalPtr> Sessions::use(std::string_view cookie, std::string_view csrf, CheckCsrf check,
                                   Timestamp now, Asking why) {
  if (cookie.size() != kCookieBytes) return ended();
  const std::string key = key_of(cookie);
  MutexLock lock(mutex_);
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return ended();
  Session& session = found->second;
  if (has_ended(session, now)) {
    sessions_.erase(found);
    return ended();
  }
  if (check == CheckCsrf::kYes && !crypto::constant_time_equal(csrf, csrf_of(cookie))) {
    return Error{ErrorId::kCsrfRefused,
                 "a change needs the X-Falaj-CSRF header that belongs to the session"};
  }
  if (why == Asking::kRequest) session.seen = now;
  return session.principal;
}

std::string Sessions::csrf_of(std::string_view cookie) const {
  if (cookie.size() != kCookieBytes) return "";
  return crypto::base64url(crypto::hmac_sha256(csrf_key_.view(), cookie));
}

void Sessions::end(std::string_view cookie) {
  MutexLock lock(mutex_);
  sessions_.erase(key_of(cookie));
}

bool Sessions::revoke(std::string_view id) {
  MutexLock lock(mutex_);
  return std::erase_if(sessions_, [&](const auto& item) { return item.second.id == id; }) > 0;
}

void Sessions::revoke_user(std::string_view user) {
  MutexLock lock(mutex_);
  std::erase_if(sessions_, [&](const auto& item) { return item.second.principal->id == user; });
}

void Sessions::sweep(Timestamp now) {
  MutexLock lock(mutex_);
  std::erase_if(sessions_, [&](const auto& item) { return has_ended(item.second, now); });
}

std::vector<SessionInfo> Sessions::list() const {
  std::vector<SessionInfo> out;
  MutexLock lock(mutex_);
  for (const auto& [key, session] : sessions_) {
    out.push_back(
        {session.id, session.principal->id, session.created, session.seen, session.expires});
  }
  std::ranges::sort(out, {}, [](const SessionInfo& one) { return one.created.nanos; });
  return out;
}

}  // namespace falaj::security
