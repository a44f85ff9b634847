// security/access/access.h — the service: keeps the newest Policies for everybody who decides, and
// says how a denial is answered.
//
// Grants and groups are declared objects; refresh() reads them, and the labels of all objects, and
// publishes one immutable snapshot. Deciding never touches the store and never blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/published.h"
#include "security/access/policies.h"
#include "storage/sql.h"

namespace falaj::security::access {

struct AccessOptions {
  // Holds besides what is declared, and cannot be deleted: the local developer of `falaj dev`.
  std::vector<Grant> built_in;
  // "user:alice" → "user:u_k3f9…", the principal's permanent id; nullopt when nobody has the name.
  // Empty: subjects are ids already. Called by refresh() alone.
  std::function<std::optional<std::string>(const std::string& subject)> resolve;
};

// Thread-safe.
class Access {
 public:
  Access(storage::SqlStore& sql, const Clock& clock, AccessOptions options);

  // Call at start, after each change of declared objects, and of users. FJ-1xxx when a stored grant
  // cannot be read (written by a newer program; what it forbids must not be guessed). After an
  // error everything is denied until a refresh succeeds: what was granted before may be taken away
  // by now. Cost: every declared object once.
  Status refresh();
  // refresh() if the last one failed. For a ticker; costs nothing otherwise.
  Status retry();
  // kUnavailable while the last refresh() failed. Never blocks.
  Status current() const;

  // Never null. Empty (everything denied) before the first refresh() and after one that failed.
  std::shared_ptr<const Policies> policies() const { return published_.load(); }
  Timestamp now() const { return clock_.now(); }

 private:
  Result<PolicyInput> read_input() const;

  storage::SqlStore& sql_;
  const Clock& clock_;
  AccessOptions options_;
  Mutex refreshing_;  // One at a time, so that an older reading never replaces a newer one.
  Published<Policies> published_;
  std::atomic<bool> stale_ = false;
};

// The local developer of `falaj dev`: every role, from this machine.
Grant local_developer();

// How a denial is answered. Nothing about what the caller cannot see may show: an object, or a
// whole project, in which they may do nothing is answered in the same words as one that does not
// exist (kNotFound). FJ-0002 for nobody, FJ-7012 expired, FJ-7015 when a reason would do, FJ-0003
// otherwise. The words name no grant: `falaj why-denied` does, to who may know.
Error refusal(const Policies& policies, const AccessRequest& request, const Decision& decision);

// decide(), and refusal() when denied.
Status check(const Policies& policies, const AccessRequest& request);

// --- Declared objects: what reading and changing one is decided on. ---

// A Project is read by who may read in it; a Grant by who has access.read on all that it covers; a
// Group by who has access.read on the platform; the others by objects.read where they are.
bool may_read(const Policies& policies, const AccessRequest& request,
              const storage::Object& object);

// `before` is what is stored under that name, if anything. Projects and what else stands above
// projects need objects.write on the platform; objects in a project objects.write on themselves,
// as they were and as they shall be (labels decide who may touch them), Webhooks transfers.approve
// besides; who takes off a label that a forbid goes by needs access.write on the object. Grants and
// Groups follow Policies::may_change and may_regroup. Of a stored Grant that the caller may not
// read, the refusal says no more than that its name is taken.
Status check_apply(const Policies& policies, const AccessRequest& request,
                   const storage::Object& object, const std::optional<storage::Object>& before);
// As for check_apply: what a forbid binds by its label is deleted with access.write besides.
// FJ-0005 for the last grant that lets anyone declare grants.
Status check_remove(const Policies& policies, const AccessRequest& request,
                    const storage::Object& object);

}  // namespace falaj::security::access
